"""Hangs and failures during training."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="monitored-barrier",
        title="Ranks 1, 3 failed to pass monitoredBarrier",
        patterns=(
            r"Ranks? (?P<rank>[\d, ]+?) failed to pass monitoredBarrier",
            r"\b(?:gather|barrier) failed -- missing ranks: (?P<rank>\d+(?:, \d+)*)",
        ),
        cause="rank {rank} did not reach the barrier. It died, or hangs elsewhere",
        probe="on its host: py-spy dump -p PID",
        fix="read the log of rank {rank}. If it is only slow, pass a longer timeout to init_process_group",
        action="retry",
        reason="a rank did not reach a barrier in time",
        role="misses",
        link="https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.monitored_barrier",
    ),
    Entry(
        id="peer-died",
        title="Connection closed by peer; Connection reset by peer",
        kind="consequence",
        patterns=(
            r"Connection closed by peer \[(?:127\.[\d.]+|(?P<peer>[^\]]+))\]:(?P<port>\d+)",
            r"Read error \[(?:127\.[\d.]+|(?P<peer>[^\]]+))\]:(?P<port>\d+): Connection reset by peer",
            r"Failed to recv, got 0 bytes\. Connection was likely closed",
            r"Call to \w+ (?:from|to) (?P<peer>[^\s<]+)<\d+> failed : (?:Broken pipe|Connection reset)",
            r"\bConnection reset by peer\b",
            r"Connection was likely closed",
            r"An MPI communication peer process has unexpectedly disconnected",
            r"Connection closed by remote peer (?P<peer>[^\s<]+)<\d+>",
            r"\bsocketProgress\w*: Connection closed by remote peer\s*$",
            r"OFI poll failed .*\bPTLTE_NOT_FOUND\b",
            r"RPC agent for \S+ encountered error when \w+ \w+ \w+ (?:from|to) \S+ (?:eof|sendmsg: Broken pipe)",
            r"(?:eof|[Bb]roken pipe|pipe closed) \(this error originated at tensorpipe",
            r"UDS: Sending data over socket \S+ failed : Connection refused",
        ),
        explains=("nccl-warning", "nccl-error", "nccl-remote", "nccl-not-connected"),
        cause="another rank[ at {peer}] ended, and this rank lost the connection to it. Rarely, only the network between them failed",
        probe="the rank that does not print this line",
        fix="read the log of the rank[ on {peer}] that ended first[. If none did, look at the network between this host and {peer}]",
        role="misses",
        instead=(
            Instead(
                of=("firewall-reject",),
                needs=r"(?:^|[^\w.-])(?P=host):\d+:\d+ \[\d+\] NCCL INFO Bootstrap ?: Using \S+:(?P=peer)<",
            ),
        ),
        link="https://docs.pytorch.org/docs/stable/distributed.html",
    ),
    Entry(
        id="watchdog-ends-process",
        title="Some NCCL operations have failed or timed out; we are taking the entire process down",
        kind="consequence",
        patterns=(
            r"Some NCCL operations have failed or timed out",
            r"we are taking the entire process down",
            r"Process group watchdog thread terminated with exception",
            r"Received a dump signal due to a collective timeout(?: from +rank (?P<reporter>\d+))?",
        ),
        cause="NCCL's watchdog ended this rank because a collective failed or timed out[, which rank {reporter} reported "
        "first]",
        probe="the first line about the collective, and the rank without one",
        fix="read the logs of all ranks; `ddpkit explain` takes several files",
        link="https://github.com/pytorch/pytorch/issues/118369",
    ),
    Entry(
        id="hang-at-exit",
        title="ProcessGroupNCCL's watchdog got stuck, after the end of the training",
        needs=r"(?i)End time of running main|\btrain_runtime\b|Training completed|`Trainer\.fit` stopped|\btraining (?:is )?(?:finished|done|complete)",
        patterns=(r"watchdog got stuck for (?P<seconds>\d+) seconds",),
        explains=("watchdog-stuck",),
        cause="the training was complete, and a process hangs at its exit: groups of NCCL are not destroyed in the same "
        "order, or a thread still runs",
        probe="py-spy dump --native -p PID",
        fix="at the end of the script, on all ranks: torch.distributed.barrier(), then "
        "torch.distributed.destroy_process_group(). The result of the training is whole",
        link="https://docs.pytorch.org/docs/stable/distributed.html#shutdown",
    ),
    Entry(
        id="watchdog-stuck",
        title="ProcessGroupNCCL's watchdog got stuck",
        kind="generic",
        patterns=(
            r"watchdog got stuck for (?P<seconds>\d+) seconds",
            r"Could not acquire GIL within \d+ ms on exit, possible GIL induced hang",
            r"attempting to dump debug info, due to ProcessGroupNCCL watchdog hang",
            r"Heartbeat monitor timed out! Process will be terminated",
        ),
        cause="a call to CUDA or NCCL does not return on this rank, or another thread holds Python's lock. It also waits so "
        "while other ranks start late, or while one prepares data or compiles",
        probe="py-spy dump --native -p PID",
        fix="look at the stacks: py-spy dump --native -p PID; and at the GPU: dmesg -T | grep -i xid. If the other ranks "
        "are only late: start all nodes at the same time, or set TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800",
        link="https://github.com/snowflakedb/ArcticTraining/issues/219",
    ),
    Entry(
        id="desync",
        title="the lagging/dead/mismatched ranks that caused the desync are",
        patterns=(
            r"lagging/dead/mismatched ranks that caused the desync are",
            r"(?:ranks )?\[(?P<rank>[\d, ]+)\] are the lagging ranks that caused this timeout\. They never joined any collectives",
            r"^[^#]*\[(?P<rank>\d[\d, ]*)\] finished collective #(?P<done>\d+), but didn't join collective #(?P<missed>\d+)",
            r"^[^#]*\[(?P<rank>\d[\d, ]*)\] joined but didn't finish collective #(?P<stuck>\d+)",
        ),
        context=r"\[(?P<rank>\d[\d, ]*)\] (?:finished collective #(?P<done>\d+), but didn't join collective #(?P<missed>\d+)|joined but didn't finish collective #(?P<stuck>\d+))",
        cause="torch compared the ranks[. Rank {rank} came least far][. It finished collective {done}, and did not join {missed}]"
        "[. It waits in collective {stuck}, which others did not join]. [All ranks began collective {same}. ]If the list has all "
        "ranks, the network, NCCL or a GPU hangs",
        probe="on the host of such a rank: py-spy dump -p PID",
        fix="[test GPUs and network of all ranks, as all began collective {same}: `ddpkit test`; ]read the log of these ranks "
        "first. Look at what they do instead: a collective under `if rank == 0`, uneven data, an exception that was caught, or "
        "slow work",
        reads="desync",
        link="https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html",
    ),
    Entry(
        id="ib-link-lost",
        title="communicator encountered a fatal error; NET/IB : async fatal event",
        patterns=(
            r"NET/IB ?: .*async fatal event(?: on \w+(?: \S+)?)?: (?P<event>(?!local access|invalid request).*)",
            r"communicator encountered a fatal error \(detected in",
            r"NET/IB ?: .*Got async event ?: (?P<event>(?!local access|invalid request).*(?:error|fatal).*)",
            r"NET/IB ?: .*Got (?:non-fatal )?async (?:error )?event: (?P<event>port error.*)",
            r"mlx5_core (?P<device>[0-9a-f:.]+)(?: \S+)?: .*device's health compromised",
            r"mlx5_core (?P<device>[0-9a-f:.]+)(?: \S+)?: .*Fatal error \d+ detected",
            r"mlx5_core (?P<device>[0-9a-f:.]+)(?: \S+)?: .*Port module event\[error\]: (?P<event>.*)",
        ),
        explains=("ib-retry", "ib-flushed"),
        cause="a card of InfiniBand or RoCE[ ({device})], its firmware or its link failed during the run[: {event}]",
        probe="ibstat; perfquery -x; dmesg -T | grep mlx",
        fix="drain the node, and report cable and port to the administrators",
        action="exclude",
        reason="the network adapter of the host lost its link",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="silent-hang",
        title="A hang without a message; GPUs at 100 % or at 0 %",
        cause="one rank waits in a collective that another rank never joins, or in its own code",
        probe="ddpkit status RUN; ddpkit dump RUN",
        fix="find the rank whose stack differs from the others",
        link="https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html",
    ),
    Entry(
        id="gloo-timeout",
        title="Timed out waiting 1800000ms for recv operation to complete",
        kind="generic",
        patterns=(
            r"Timed out waiting (?P<ms>\d+)ms for (?:recv|send) operation to complete",
            r"Application timeout caused pair closure",
            r"successfully reached monitoredBarrier, but received errors while waiting .* from rank (?P<late>\d+)",
            r"\bTIMEOUT self_rank = \d+ pair_rank = (?P<late>\d+)",
            r"\btimed out in monitoredBarrier after (?P<ms>\d+) ms",
        ),
        cause="[rank {late} did not answer: ]gloo waited for another rank in a collective. That rank died, hangs, is in another call, or is slow",
        probe="the last lines of the rank that does not print this; on its host: py-spy dump -p PID",
        fix="find the rank that does not print this line. If it is only slow, pass a longer timeout to "
        "init_process_group",
        role="waits",
        link="https://docs.pytorch.org/docs/stable/distributed.html",
    ),
    Entry(
        id="gloo-size-mismatch",
        title="op.preamble.length <= op.nbytes; gloo ranks send different sizes",
        patterns=(
            r"op\.preamble\.length <= op\.nbytes",
            r"Received data size doesn't match expected size\. Is there a distributed collective mismatch",
        ),
        cause="two ranks passed tensors of different sizes to one gloo collective",
        probe="print the shapes in each rank; repeat with TORCH_DISTRIBUTED_DEBUG=DETAIL",
        fix="use the same shape and dtype on all ranks: pad, or all_gather the sizes first",
        link="https://github.com/pytorch/pytorch/issues/79388",
    ),
    Entry(
        id="rpc-unreachable",
        title="RPC agent for worker0 encountered error when sending outgoing request #0 to worker1",
        kind="generic",
        doubtful=True,
        patterns=(
            r"RPC agent for (?P<from>\S+) encountered error when sending outgoing request #\d+ to (?P<peer>\S+): (?!.*expected to happen during shutdown)(?P<reason>.*?\S)(?: \(this error originated.*)?$",
            r"RuntimeError: ECONNREFUSED: connection refused",
            r"RuntimeError: (?P<reason>(?!eof|.*[Bb]roken pipe|.*pipe closed)\S.*) \(this error originated at tensorpipe",
        ),
        cause="torch's RPC cannot reach a worker[: {from} to {peer}: {reason}]. The other process has ended, its address is "
        "that of another interface, or very many workers connect at once (Resource temporarily unavailable)",
        probe="on each host: getent hosts $(hostname); ip -br addr; sysctl net.core.somaxconn",
        fix="export TP_SOCKET_IFNAME=eth0 and GLOO_SOCKET_IFNAME=eth0, with the interface that has the route to the other "
        "hosts. For many workers: sysctl -w net.core.somaxconn=4096",
        link="https://github.com/pytorch/tensorpipe/issues/201",
    ),
    Entry(
        id="user-signal",
        title="User defined signal 1, User defined signal 2",
        patterns=(
            r"User defined signal (?P<signal>[12])",
            r"terminated with signal SIGUSR[12]",
            r"Signal 1[02] \(SIGUSR[12]\) received",
        ),
        cause="a scheduler sent a warning before the time limit or a preemption, and the script has no handler for it",
        probe="scontrol show job JOB | grep -i timelimit",
        fix="install a handler that saves a checkpoint: signal.signal(signal.SIGUSR1, ...). train.py has one",
        action="retry",
        reason="the scheduler sent a user signal before it ends the job",
        scope="outside",
        link="https://slurm.schedmd.com/sbatch.html#OPT_signal",
    ),
    Entry(
        id="barrier-device-ids",
        title="Function argument device_ids not supported for the selected backend gloo",
        patterns=(r"Function argument device_ids not supported for the selected backend (?P<backend>\w+)",),
        cause="the script calls barrier(device_ids=...), which belongs to NCCL alone, and the process group uses {backend}",
        probe="grep -rn 'device_ids' of the lines with barrier",
        fix="call barrier() without device_ids where the backend is {backend}: under Windows, on CPUs, or with a CPU build of torch",
        link="https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.barrier",
    ),
    Entry(
        id="library-assertion",
        kind="generic",
        title="python3: .../permute.cu:412: void permute_launcher(PermuteArgs): Assertion `args.output_tokens_ptr != nullptr' failed.",
        patterns=(r"\bpython[\d.]*: (?P<path>\S+?):\d+: .*Assertion [`'](?P<condition>.+)' failed",),
        explains=("aborted", "terminated"),
        cause="compiled code ({path}) found that a condition does not hold, and ended the process: {condition}",
        probe="the name of the library in the path: pip list | grep -i NAME; the last lines of the other ranks",
        fix="search the issues of that library for the condition. Use the version that the framework requires, or switch off the option "
        "that needs the library",
        link="https://man7.org/linux/man-pages/man3/assert.3.html",
    ),
    Entry(
        id="signal-in-thread",
        title="ValueError: signal only works in main thread of the main interpreter",
        patterns=(
            r"signal only works in main thread",
            r"Can't set signal handler for SIG\w+ while SIG\w+ is being deferred within a DeferSigint context",
        ),
        cause="a library sets a signal handler, which only a process's main thread may do. Ray Train, Ray Tune, Ray Serve, a sweep of "
        "wandb and some notebooks run the training function in another thread",
        probe="the last frames before signal.signal() name the library: Lightning (under SLURM), composer, Megatron or SGLang",
        fix="a newer version of that library, or its option for this. Lightning in a SLURM job, under Ray or wandb: "
        "Trainer(plugins=[LightningEnvironment()]). For a sweep: `wandb agent` in the shell, with a script of its own",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/3651",
    ),
)
