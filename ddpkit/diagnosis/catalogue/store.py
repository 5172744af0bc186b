"""Stores: key-value servers through which ranks and agents communicate."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="store-lost",
        title="[c10d] recvValue failed on SocketImpl; TCPStore: Broken pipe",
        kind="consequence",
        patterns=(
            r"\[c10d\] (?:recvValue|recvVector|sendBytes|recvBytes)\w* failed on SocketImpl",
            r'failed to check the "should dump" flag on TCPStore',
            r"TCPStore.*(?:Broken pipe|Connection reset)",
            r"\bRuntimeError: Broken pipe$",
            r"DistNetworkError: failed to recv, got 0 bytes",
        ),
        cause="the store closed the connection. Usually the process that held it has ended: rank 0, its launcher, or the torchrun "
        "that hosts the rendezvous. If it still runs, something between closes connections: a firewall, a proxy, or a "
        "service mesh such as Istio between pods",
        probe="the last lines of rank 0; in Kubernetes: kubectl get pod POD -o jsonpath='{.spec.containers[*].name}'",
        fix="read rank 0's log. If rank 0 succeeded, call `destroy_process_group()` on all ranks before they exit. If it waits "
        'for this rank, start the pods without the mesh: the label sidecar.istio.io/inject: "false"',
        action="retry",
        reason="the connection to rank 0 was lost",
        link="https://docs.pytorch.org/docs/stable/distributed.html#shutdown",
    ),
    Entry(
        id="bad-init-method",
        title="Address already used or stale file: file:// init; No rendezvous handler for",
        patterns=(
            r"No rendezvous handler for (?!(?:env|tcp)://)(?P<scheme>\S+)",
            r"RuntimeError: File already exists: (?P<path>\S+)",
            r"(?:^|\]: )File already exists: (?P<path>\S*(?:init|rdzv|rendezvous|store|sync)\S*)$",
            r"RuntimeError: open\((?P<path>/[^)]+)\): No such file or directory",
        ),
        explains=("store-barrier-timeout", "new-group-timeout"),
        cause="torch does not support this init_method, or the file of a file:// init is missing, not shared, or of an earlier run",
        probe="[ls -l {path}; ]env | grep -E 'MASTER|INIT'",
        fix="use env:// with ddpkit launch. For file://, use a new file name for each run",
        link="https://docs.pytorch.org/docs/stable/distributed.html#shared-file-system-initialization",
    ),
    Entry(
        id="store-windows-old",
        title="RuntimeError: No rendezvous handler for env://",
        patterns=(r"No rendezvous handler for (?P<scheme>(?:env|tcp)://)",),
        cause="this torch has no TCPStore, and knows no {scheme}. torch 1.7 under Windows prints this: it has only gloo with a file:// init",
        probe="python -c 'import torch, sys; print(torch.__version__, sys.platform, torch.distributed.is_available())'",
        fix="install torch 1.8 or newer, with the backend gloo (Windows has no NCCL), or train under Linux or WSL. With one GPU, start without "
        "a launcher: python train.py",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/5358",
    ),
    Entry(
        id="store-shared",
        title="Waiting in store based barrier ... (world_size=4, worker_count=8)",
        explains=("store-barrier-timeout", "new-group-timeout"),
        patterns=(
            r"in store[- ]based barrier.*\((?P<count>world_size=(?:1, \w+=(?:[2-9]|\d\d+)|2, \w+=(?:[3-9]|\d\d+)"
            r"|[34], \w+=(?:[5-9]|\d\d+)|[5-8], \w+=(?:9|\d\d+)|\d, \w+=\d\d+|\d\d, \w+=\d{3}))\b",
        ),
        context=r"(?P<spawn>\bmp\.spawn|multiprocessing[./]spawn)\b",
        cause="more processes than ranks use this store ({count}):[ each process that was started spawns ranks of its own "
        "({spawn}), and several were started, for example by srun. Or] two jobs or two launchers share one address and port, "
        "for example srun with one torchrun per task. Or a file:// init found the file of an earlier run, or torchrun "
        "started the ranks again and counts those of earlier attempts",
        probe="ps -ww -C python,torchrun -o pid,ppid,args",
        fix="[spawn no ranks in the script ({spawn}), or start it once for each node (srun --ntasks-per-node=1). Otherwise ]end the "
        "other job's processes, start one launcher per node, and use a separate port for each job; delete an "
        "old file of a file:// init. After a restart, read the failure of the first attempt",
        link="https://github.com/ultralytics/yolov5/issues/4574",
    ),
    Entry(
        id="new-group-timeout",
        title="Timed out initializing process group in store based barrier, for key: store_based_barrier_key:32",
        patterns=(
            r"Timed out initializing process group in store[- ]based barrier on rank:? (?P<rank>\d+), "
            r"for key: store_based_barrier_key:(?P<key>(?!1\b)\d+) "
            r"\(world_size=(?P<wanted>\d+), (?:worker_count|num_workers_joined)=(?P<joined>\d+)",
        ),
        explains=("store-barrier-timeout",),
        cause="only {joined} of {wanted} ranks came to group number {key}. The groups before it were made, so all ranks had "
        "started and reached the store. The other ranks create their groups in another order, skip this one, are slow, "
        "or have ended",
        probe="the last lines of the ranks that do not print this; on their hosts: py-spy dump -p PID",
        fix="call new_group on all ranks, for the same groups and in the same order, also for groups that a rank is no "
        "part of. If a rank was slow, pass a longer timeout to init_process_group and new_group. If one ended, read its log",
        link="https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.new_group",
    ),
    Entry(
        id="store-barrier-timeout",
        title="Timed out initializing process group in store based barrier",
        patterns=(
            r"Timed out initializing process group in store[- ]based barrier on rank:? (?P<rank>\d+).*"
            r"world_size=(?P<wanted>\d+), (?:worker_count|num_workers_joined)=(?P<joined>\d+)",
        ),
        cause="only {joined} of {wanted} workers joined[, and {absent} did not]: ranks were not started, cannot reach this store, are slow, or "
        "create their groups in another order",
        probe="on each node: ps -ww -C python,torchrun -o pid,ppid,args; nc -vz $MASTER_ADDR $MASTER_PORT",
        fix="start the missing ranks with the same MASTER_ADDR and MASTER_PORT, and open the port to their hosts. If all "
        "run: call new_group on all ranks in the same order, and pass a longer timeout to init_process_group and new_group",
        role="waits",
        reads="barrier",
        link="https://github.com/bigscience-workshop/metaseq/issues/52",
    ),
    Entry(
        id="exit-barrier",
        title="wait timeout after 300000ms, keys: .../agent/terminal_state/last_member",
        kind="consequence",
        patterns=(
            r"torchelastic/agent/terminal_state",
            r"Error waiting on exit barrier\. Elapsed:? (?P<seconds>\d+)",
        ),
        explains=("store-wait", "store-lost"),
        cause="the ranks of this node had ended, and torchrun waited[ {seconds} s] for torchrun on the other nodes. One of "
        "them died early or still runs, or the clocks differ",
        probe="the first failure in the logs of the other nodes",
        fix="run `ddpkit explain LOG` on the log of the node that ended first, and compare the clocks: `date +%s`",
        link="https://docs.pytorch.org/docs/stable/elastic/agent.html",
    ),
    Entry(
        id="second-master",
        title="wait timeout, keys: /default_pg/0//cpu//0/1",
        kind="generic",
        patterns=(r"DistStoreError: wait timeout after \d+ms, keys: \S*/default_pg",),
        cause="this node cannot reach the store of the ranks, or a rank did not join in time. torchrun gives "
        "the ranks the full host name of the first node. This node may not resolve that name",
        probe="on each node: getent hosts $(hostname -f)",
        fix="pass `torchrun --local-addr=ADDRESS` on each node",
        role="waits",
        link="https://github.com/pytorch/pytorch/issues/73656",
    ),
    Entry(
        id="ranks-missing",
        title="Timed out waiting for clients. 1/2 clients joined",
        patterns=(
            r"Timed out after \d+ seconds waiting for clients\. (?P<joined>\d+)/(?P<wanted>\d+) clients joined",
            r"Timed out after \d+ seconds waiting for workers\. (?P<joined>\d+)/(?P<wanted>\d+) workers joined",
        ),
        explains=("store-wait",),
        cause="{joined} of {wanted} ranks joined. The others[, {late},] did not start, or WORLD_SIZE is too large",
        probe="on each node: pgrep -af train.py",
        fix="start the missing ranks, or set WORLD_SIZE (-n, --nnodes) to the number of ranks that start. With Lightning "
        "under SLURM: `srun python train.py`, with --nodes and --ntasks-per-node of num_nodes and devices",
        action="retry",
        reason="a rank did not join in time",
        role="misses",
        instead=(Instead(of=("no-failure", "slurm-cancelled", "slurm-time-limit"), reads="missing-ranks"),),
        link="https://github.com/pytorch/pytorch/issues/79388",
    ),
    Entry(
        id="ranks-twice",
        title="initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8 appears twice, and other ranks never",
        cause="ranks {late} were started more than once, and the others of the {number} never. Each node, or each task, takes "
        "itself for the first one: the number of its node is not set, or the tasks do not match the number of GPUs",
        probe="in the job: echo $SLURM_NNODES $SLURM_NTASKS_PER_NODE $NODE_RANK; ps -ww -C python -o pid,ppid,args",
        fix="under SLURM: `srun python train.py`, with --nodes=num_nodes and --ntasks-per-node=devices. Without SLURM: set "
        "NODE_RANK to 0, 1, ... and the same MASTER_ADDR on the nodes, or start with torchrun --node-rank",
        instead=(Instead(of=("no-failure", "slurm-cancelled", "slurm-time-limit"), reads="ranks-twice"),),
        link="https://lightning.ai/docs/pytorch/stable/clouds/cluster_advanced.html",
    ),
    Entry(
        id="slow-rank",
        title="A rank is slow, not dead: it prepares data, saves or evaluates while the others wait until a timeout",
        cause="[rank {busy}: ]a rank was still busy, and the others waited for it[ in {frame}] until the timeout ended the "
        "run[. It printed: {work}]",
        probe="compare the time of that step with the timeout",
        fix="pass a longer timeout: init_process_group(timeout=timedelta(hours=3)); transformers "
        "--ddp_timeout; accelerate InitProcessGroupKwargs; Lightning DDPStrategy(timeout=...). Or do "
        "that work in a separate step before the run, and on all ranks alike, with equal numbers of batches",
        role="misses",
        instead=(
            Instead(
                of=(
                    "collective-timeout",
                    "gloo-timeout",
                    "store-wait",
                    "nccl-store-wait",
                    "second-master",
                    "store-barrier-timeout",
                ),
                reads="other-work",
            ),
            Instead(
                of=(
                    "collective-timeout",
                    "gloo-timeout",
                    "store-wait",
                    "nccl-store-wait",
                    "second-master",
                    "store-barrier-timeout",
                ),
                frames=", in (?P<frame>(?:local_)?main_process_first)$",
            ),
        ),
        link="https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.init_process_group",
    ),
    Entry(
        id="debugger-waits",
        title="(Pdb), and then a collective times out: a rank waits at the prompt of a debugger",
        cause="a process stopped in a debugger at {work}, and the other ranks waited for it until the timeout",
        probe="grep -rn 'breakpoint()\\|set_trace' .",
        fix="remove breakpoint() and set_trace(), or debug with one rank: torchrun --nproc-per-node 1",
        instead=(
            Instead(
                of=(
                    "collective-timeout",
                    "gloo-timeout",
                    "store-wait",
                    "nccl-store-wait",
                    "second-master",
                    "store-barrier-timeout",
                ),
                above=r"""(?:^|[\]:>] ?)(?:> (?P<work>\S+\.py\(\d+\)\S*\(\))|\(Pdb\+*\)|ipdb>)""",
            ),
        ),
        link="https://docs.python.org/3/library/pdb.html",
    ),
    Entry(
        id="store-connect-reset",
        title="torch.distributed.DistNetworkError: Connection reset by peer, as init_process_group creates its TCPStore",
        kind="generic",
        doubtful=True,
        needs=r"\bTCPStore\(|Stop_waiting response|, in init_process_group\b|\bTCPStore::ping\(|connect/validate to host",
        patterns=(
            r"(?:DistNetworkError|RuntimeError): Connection reset by peer$",
            r"Stop_waiting response is expected",
            r"TCP client failed to connect/validate to host (?P<host>\S+):(?P<port>\d+) - retrying .*(?:reset by peer|got 0 bytes|Broken pipe)",
            r"frame #\d+: c10d::TCPStore::ping\(",
        ),
        explains=("peer-died", "store-lost"),
        cause="the store of rank 0 accepted this rank's connection and closed it or answered wrongly, before training began. Rank 0 has ended, "
        "another program has that port, or the ranks run different versions of torch. Or something between resets connections: a VPN, "
        "a firewall or security software, on one machine as well. With a thousand ranks and more, too many connect at once",
        probe="on rank 0's host: ss -ltnp 'sport = :{port|29500}'; sysctl net.core.somaxconn; on each node: python -c 'import torch; "
        "print(torch.__version__)'",
        fix="read rank 0's log first. Choose another port, install the same torch on all nodes, and end processes of earlier "
        "runs. On one machine, use MASTER_ADDR=127.0.0.1 (vLLM: VLLM_HOST_IP=127.0.0.1). For very many ranks: sysctl -w net.core.somaxconn=8192",
        action="retry",
        reason="rank 0 closed the connection",
        link="https://github.com/pytorch/pytorch/issues/118666",
    ),
    Entry(
        id="store-wait",
        title="wait timeout; Timeout waiting for key; Socket Timeout",
        kind="generic",
        patterns=(
            r"DistStoreError: (?:wait timeout|Timed out|Socket Timeout)",
            r"\bSocket Timeout$",
            r"Timeout waiting for key: (?P<key>\S+)",
            r"\bbarrier timeout after (?P<ms>\d+)ms, key",
            r"(?:DistStoreError|RuntimeError): Wait timeout",
            r"waitForInput: socket .* timed out after (?P<ms>\d+)ms",
        ),
        cause="a rank waited at the store for another rank, which did not come in time. It died, hangs, was "
        "never started, or is slow: rank 0 prepares data, downloads or saves",
        probe="the last lines of the rank that does not print this; on its host: py-spy dump -p PID",
        fix="read the log of the rank that others wait for. If it is only slow, pass a longer timeout "
        "(init_process_group(timeout=...)), or do that work before the run",
        action="retry",
        reason="a rank did not answer in time",
        role="waits",
        link="https://docs.pytorch.org/docs/stable/distributed.html#distributed-key-value-store",
    ),
    Entry(
        id="init-file-stale",
        title="init_method file://..., then NCCL: Connect to 10.0.0.7<51234> failed : Connection refused",
        patterns=(
            r"[Cc]onnect to (?P<peer>[\d.a-f:]+)<(?P<port>\d+)> failed ?: Connection refused",
            r"[Cc]onnect(?: to (?P<peer>[\d.a-f:]+)<(?P<port>\d+)>)? returned Connection refused",
        ),
        needs=r"\b(?:dist|init)\w*['\"]?\s*[:=]\s*['\"]?file://",
        context=r"\b(?:dist|init)\w*['\"]?\s*[:=]\s*['\"]?file://(?P<path>/[^\s'\",]+)",
        explains=("firewall-reject", "nccl-warning", "nccl-error"),
        cause="the ranks meet in a file[, {path}], and NCCL's address in it, {peer|of rank 0}, does not answer. The file is of an earlier run "
        "or attempt, whose rank 0 has ended. Or rank 0 of this run has ended",
        probe="ls -l {path|FILE}; and the end of rank 0's log",
        fix="delete the file before each start, also when SLURM starts the job again, or put the job's number into its name. Better: "
        "init_method='env://'",
        link="https://docs.pytorch.org/docs/stable/distributed.html#shared-file-system-initialization",
    ),
    Entry(
        id="agent-wait",
        title="torch.distributed.DistStoreError: Socket Timeout, in torchrun itself before any rank starts",
        kind="generic",
        cause="torchrun on this node waited for the torchrun of another node, and no rank has started. The other one was not "
        "started in time, has failed, or has the same node rank. Or it cannot reach this port",
        probe="on each node: ps -ww -C python,torchrun -o args; nc -vz $MASTER_ADDR $MASTER_PORT; echo $NODE_RANK $RANK",
        fix="start torchrun on all nodes at the same time, with the same --nnodes, --master-addr and --master-port, and with another "
        "--node-rank on each. Of a tool that starts torchrun, read which variable it takes as the node's rank. Open the port to all nodes",
        action="retry",
        reason="another node did not answer in time",
        instead=(
            Instead(
                of=("store-wait",),
                text=r"^(?!\W*\[(?:rank|default)\d)",
                near=r"\btorch[./]distributed[./]run\b|^\W*\*{20,}\W*$|Setting OMP_NUM_THREADS environment variable",
            ),
            Instead(
                of=("store-wait",),
                frames=r"""elastic/agent/server/api\.py\", line \d+, in (?:_assign_worker_ranks|_share_and_gather|_rendezvous)\b""",
            ),
        ),
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
)
