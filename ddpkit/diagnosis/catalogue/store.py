"""Stores: key-value servers through which ranks and agents communicate."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="store-lost",
        title="[c10d] recvValue failed on SocketImpl; TCPStore: Broken pipe",
        kind="consequence",
        patterns=(
            r"\[c10d\] (?:recvValue|recvVector|sendBytes|recvBytes)\w* failed on SocketImpl",
            r'failed to check the "should dump" flag on TCPStore',
            r"TCPStore.*(?:Broken pipe|Connection reset)",
        ),
        cause="rank 0's store is gone. Rank 0 or its launcher ended first",
        probe="the last lines of rank 0",
        fix="read rank 0's log. If rank 0 succeeded, call `destroy_process_group()` on all ranks before they exit",
        link="https://docs.pytorch.org/docs/stable/distributed.html#shutdown",
    ),
    Entry(
        id="bad-init-method",
        title="Address already used or stale file: file:// init; No rendezvous handler for",
        patterns=(
            r"No rendezvous handler for (?P<scheme>\S+)",
            r"RuntimeError: File already exists: (?P<path>\S+)",
        ),
        cause="torch does not support this init_method, or the file of a file:// init remains from an earlier run",
        probe="ls -l {path}",
        fix="use env:// with ddpkit launch. For file://, use a new file name for each run",
        link="https://docs.pytorch.org/docs/stable/distributed.html#shared-file-system-initialization",
    ),
    Entry(
        id="store-barrier-timeout",
        title="Timed out initializing process group in store based barrier",
        patterns=(
            r"Timed out initializing process group in store based barrier on rank:? (?P<rank>\d+).*"
            r"world_size=(?P<wanted>\d+), (?:worker_count|num_workers_joined)=(?P<joined>\d+)",
        ),
        cause="{joined} workers joined, and {wanted} were expected. If fewer joined, ranks are missing. If more "
        "joined, two jobs or two launchers share one store, for example srun with one torchrun per task",
        probe="ps -ww -C python,torchrun -o pid,ppid,args",
        fix="start one launcher per node, and use a separate port for each job. Delete an old file of a file:// init",
        link="https://github.com/bigscience-workshop/metaseq/issues/52",
    ),
    Entry(
        id="exit-barrier",
        title="wait timeout after 300000ms, keys: .../agent/terminal_state/last_member",
        kind="consequence",
        patterns=(r"torchelastic/agent/terminal_state",),
        cause="torchrun waited five minutes for torchrun on the other nodes. One of them died early, or the clocks "
        "differ",
        probe="the first failure in the logs of the other nodes",
        fix="run `ddpkit explain LOG` on the log of the node that ended first, and compare the clocks: `date +%s`",
        link="https://docs.pytorch.org/docs/stable/elastic/agent.html",
    ),
    Entry(
        id="second-master",
        title="wait timeout, keys: /default_pg/0//cpu//0/1",
        kind="generic",
        patterns=(r"DistStoreError: wait timeout after \d+ms, keys: \S*/default_pg",),
        cause="this node cannot reach the store of the ranks. torchrun gives the ranks the full host name of the first "
        "node and a random port. This node cannot resolve that name",
        probe="on each node: getent hosts NAME, the name of the first node in `gai error` lines",
        fix="pass `torchrun --local-addr=ADDRESS` on each node",
        link="https://github.com/pytorch/pytorch/issues/73656",
    ),
    Entry(
        id="ranks-missing",
        title="Timed out waiting for clients. 1/2 clients joined",
        patterns=(r"Timed out after \d+ seconds waiting for clients\. (?P<joined>\d+)/(?P<wanted>\d+) clients joined",),
        cause="{joined} of {wanted} ranks joined. The others did not start, or WORLD_SIZE is too large",
        probe="on each node: pgrep -af train.py",
        fix="start the missing ranks, or set WORLD_SIZE (-n, --nnodes) to the number of ranks that start",
        link="https://github.com/pytorch/pytorch/issues/79388",
    ),
    Entry(
        id="store-wait",
        title="wait timeout; Timeout waiting for key; Socket Timeout",
        kind="generic",
        patterns=(
            r"DistStoreError: (?:wait timeout|Timed out|Socket Timeout)",
            r"\bSocket Timeout$",
            r"Timeout waiting for key: (?P<key>\S+)",
            r"DistStoreError: Wait timeout",
        ),
        cause="a rank waited for another rank at the store, and the other rank did not join. It died, hangs, or was "
        "never started",
        probe="the last lines of the rank that does not print this",
        fix="ddpkit dump RUN; if no rank had started: ddpkit test",
        link="https://docs.pytorch.org/docs/stable/distributed.html#distributed-key-value-store",
    ),
)
