"""Errors of NCCL itself."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="nccl-mismatch",
        title="Mismatched NCCL version detected",
        patterns=(r"Mismatched NCCL (?:git )?versions? detected",),
        cause="[this log shows NCCL {versions}: ]the nodes load different NCCL libraries. torch differs, or LD_LIBRARY_PATH contains the system's "
        "libnccl",
        probe="on each node: python -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'; echo "
        "$LD_LIBRARY_PATH",
        fix="install the same torch on all nodes, and unset LD_LIBRARY_PATH",
        instead=(
            Instead(of=("nccl-versions-in-bootstrap", "nccl-mismatch", "nccl-message-truncated"), reads="versions"),
            Instead(of=("nccl-error",), text=r"\bncclInternalError\b|\binternal error\b", reads="versions"),
        ),
        link="https://github.com/NVIDIA/nccl/issues/1267",
    ),
    Entry(
        id="nccl-rings",
        title="NCCL WARN Error : ring 0 does not loop back to start (13 != 15); ring 1 does not contain rank 0",
        patterns=(
            r"\bring \d+ does not loop back to start",
            r"NCCL WARN Error : ring \d+ does not contain rank \d+",
        ),
        explains=("nccl-error", "nccl-warning", "segfault", "aborted", "uncaught-exception"),
        cause="NCCL's ranks computed rings that do not fit together. They do not see the same links: NCCL_ variables or the "
        "version of NCCL differ between them, or an older NCCL reads this machine's topology wrongly",
        probe="in each rank: env | grep NCCL_; python -c 'import torch; print(torch.cuda.nccl.version())'; nvidia-smi topo -m",
        fix="use one set of NCCL_ variables and one NCCL on all ranks. Unset NCCL_HOSTID, NCCL_TOPO_FILE and NCCL_P2P_LEVEL, "
        "and update to NCCL 2.20 or later. If that does not help, try NCCL_P2P_DISABLE=1",
        link="https://github.com/NVIDIA/nccl/issues/1020",
    ),
    Entry(
        id="nccl-sizes-differ",
        title="NET/Socket : peer 10.0.5.194 message truncated : receiving 4 bytes instead of 2",
        patterns=(
            r"(?:peer (?P<peer>[\d.]+)\S* )?message truncated : receiving (?P<sent>\d+) bytes instead of (?P<wanted>\d+)",
        ),
        explains=("nccl-warning", "nccl-error", "nccl-remote", "collective-timeout"),
        cause="two ranks passed different sizes or types to one collective: {sent} bytes came[ from {peer}] where {wanted} were expected. "
        "Or NCCL_PROTO, NCCL_ALGO or the version of NCCL differ between the nodes",
        probe="repeat with TORCH_DISTRIBUTED_DEBUG=DETAIL; on each node: env | grep NCCL_; python -c 'import torch; print(torch.cuda.nccl.version())'",
        fix="pass tensors of one shape and dtype on all ranks, in one order of calls. Set the same NCCL_* variables and the same torch on all nodes",
        link="https://github.com/NVIDIA/nccl/pull/605",
    ),
    Entry(
        id="collective-timeout",
        title="Watchdog caught collective operation timeout: WorkNCCL(SeqNum=...",
        kind="generic",
        patterns=(
            r"[Cc]aught collective operation timeout: WorkNCCL\(.*?OpType=(?P<op>\w+)",
            r"[Cc]aught collective operation timeout",
            r"\bTimeout at NCCL work: \d+",
        ),
        branches=(("open", r"(?!)"),),  # left out where the log shows which ranks never called it
        cause="[rank {late} did not join: ][{absent}: ][waiting are {lagging}, which are out of step: ][{together}: ]a collective did not finish in time. A rank did not join "
        "it. It died, hangs, is in another collective, had fewer batches, or is slow because it saves, evaluates or "
        "prepares data{open? . Or data does not pass between the GPUs or the nodes: with a SeqNum below about 5 it never did}[. {passed} collectives had completed before: data does pass]",
        probe="{open? the last lines of the rank that does not print this; }[last lines of ranks before SeqNum {next}; ][last lines of {guilty}; ]on its host: py-spy dump -p PID",
        fix="{open? find the rank that does not print this line, or prints the lowest SeqNum, and read its log. }[SeqNum {next}: find the rank that did not come to it. Give all "
        "ranks as many batches, and save or evaluate on all at the same step. ][{guilty}: "
        "read the last lines. All ranks must call the same collectives in the same order. ]If it is only slow, pass a "
        "longer timeout to init_process_group. {open? If all ranks print the same SeqNum, data does not pass: on one machine, try "
        "NCCL_P2P_DISABLE=1. Between nodes: NCCL_DEBUG=INFO, and `ddpkit test` on them}",
        role="waits",
        link="https://github.com/pytorch/pytorch/issues/118369",
    ),
    Entry(
        id="collectives-out-of-step",
        title="Watchdog caught collective operation timeout: the ranks print another OpType, NumelIn or SeqNum",
        cause="ranks wait in different collectives[ with number {number}][ of group {group}]: {calls}. A rank called one "
        "that the others did not, for example under `if rank == 0`, to save, to evaluate, or for a batch that others "
        "skip. Or the ranks use several groups in different orders",
        probe="repeat with TORCH_DISTRIBUTED_DEBUG=DETAIL: it reports both calls with their tracebacks",
        fix="make the same calls in the same order on every rank: move the collective out of the condition, and pad or "
        "drop the last batch. Save and evaluate at the same step on all ranks",
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
                reads="different-calls",
            ),
        ),
        link="https://docs.pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications",
    ),
    Entry(
        id="shm-unlinked",
        title="unlink shared memory /dev/shm/nccl-... failed: No such file or directory",
        patterns=(r"unlink shared memory /dev/shm/nccl-\w+ failed",),
        cause="systemd deleted the user's shared memory at logout (RemoveIPC), while the job was running",
        probe="grep RemoveIPC /etc/systemd/logind.conf",
        fix="set RemoveIPC=no in /etc/systemd/logind.conf, which an administrator lets systemd-logind read again",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="shm-not-writable",
        title="NCCL WARN Call to shm_open failed : Permission denied",
        explains=("nccl-warning", "nccl-error"),
        patterns=(
            r"\bshm_open\b.*: Permission denied",
            r"lacks a functioning sem_open implementation",
        ),
        cause="this user may not write to /dev/shm[ on {host}], or it is not mounted. NCCL, DataLoader workers and the locks of "
        "Python's multiprocessing need it",
        probe="[on {host}: ]ls -ld /dev/shm; touch /dev/shm/test",
        fix="an administrator gives /dev/shm the mode 1777. In a container, mount a tmpfs there that "
        "its user can write to",
        instead=(
            Instead(of=("permission-denied",), near=r"\bSemLock\(|\bshm_open\(|/multiprocessing/synchronize\.py"),
        ),
        link="https://github.com/pytorch/pytorch/issues/37004",
    ),
    Entry(
        id="env-differs",
        title="NCCL_ variables differ between nodes",
        cause="an NCCL_ variable is set on one node only: in .bashrc, a module, /etc/nccl.conf or ~/.nccl.conf",
        probe="on each node: env | grep NCCL_; cat /etc/nccl.conf ~/.nccl.conf",
        fix="pass it to all ranks: ddpkit launch --env NCCL_X=VALUE",
        link="https://github.com/NVIDIA/nccl/issues/1328",
    ),
    Entry(
        id="env-left-over",
        title="Runs are slow, or a variable of NCCL has no effect: NCCL_P2P_DISABLE=1, NCCL_ALGO, a mistyped name",
        cause="a variable that helped to find a fault is still set in a start-up file, a module or /etc/nccl.conf. NCCL "
        "ignores names that it does not know",
        probe="env | grep -E '^(TORCH_)?NCCL|TORCH_DISTRIBUTED_DEBUG'; cat /etc/nccl.conf ~/.nccl.conf",
        fix="unset it where it is set; for one run: `export NAME=0`",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    ),
    Entry(
        id="collective-mismatch",
        explains=("nccl-warning", "nccl-error"),
        title="collective mismatch error, local size ... remote size ...",
        patterns=(
            r"caused by a collective mismatch around rank (?P<rank>\d+)",
            r"collective mismatch error,? local size (?P<size>\d+) remote (?:size )?(?P<other>\d+)(?:.* seq (?P<head>\w+)/(?P<tail>\w+))?",
            r"collective mismatch error",
            r"Mismatched collective detected, please check your collective calls at and around rank (?P<rank>\d+)",
        ),
        cause="two ranks called different collectives, or the same collective with different sizes[: this one sends {size} bytes, and the "
        "other expects {other}][, in their calls {head} and {tail} (hexadecimal)]. Their code, data or variables differ",
        probe="on each node: sha256sum train.py; env | grep NCCL_",
        fix="use the same script, arguments and NCCL_ variables on every node. TORCH_DISTRIBUTED_DEBUG=DETAIL reports "
        "the call. Before NCCL 2.7.8, sends and receives caused it without a mistake: update NCCL",
        link="https://github.com/NVIDIA/nccl/issues/969",
    ),
    Entry(
        id="nccl-ras-mismatch",
        title="Communicator ranks have different AllReduce operation counts",
        patterns=(r"Communicator ranks have different (?P<operation>\w+) operation counts",),
        context=r"^ *Rank (?P<outlier>\d+) .*managed by process \d+ on node (?P<node>\S+)",
        cause="ranks of one communicator have called {operation} more or less often than the others. NCCL RAS names those that differ from "
        "most below[, first rank {outlier} on {node}]",
        probe="ask again a minute later (ncclras): where a number still grows, the job only waits for a slow rank",
        fix="if the numbers stay, compare the stacks of a named rank and of another (py-spy dump --pid PID). The calls differ, or one "
        "rank waits for something else",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",
    ),
    Entry(
        id="nccl-root-mismatch",
        title="NCCL WARN Bootstrap Root : rank 0 of 4 ranks has already checked in; mismatch in rank count from procs",
        patterns=(
            r"rank \d+ of \d+ (?:ranks )?has already checked in",
            r"mismatch in rank count from procs (?P<one>\d+) : (?P<other>\d+)",
            r"more than one node have assigned same rank",
        ),
        explains=("nccl-warning", "nccl-error", "nccl-remote"),
        cause="two processes came to the first meeting of the ranks as the same rank, or with different numbers of ranks[ ({one} and "
        "{other})]. RANK or WORLD_SIZE differs between the processes, or two jobs share one store or NCCL_COMM_ID",
        probe="in the ranks: env | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_|NCCL_COMM_ID)'",
        fix="start all ranks with one launcher, and use another port for each job. Unset NCCL_COMM_ID",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-comm-id",
    ),
    Entry(
        id="nccl-error",
        title="ncclSystemError, ncclInternalError, ncclUnhandledCudaError",
        kind="generic",
        patterns=(
            r"\bncclSystemError\b",
            r"\bncclInternalError\b",
            r"\bncclUnhandledCudaError\b",
            r"\bncclInvalidUsage\b",
            r"\bncclInvalidArgument\b",
            r"^(?!.*Horovod).*\bunhandled (?:system|cuda) error\b",
            r"NCCL error in: \S+, (?P<error>.*)",
            r"NCCL error: (?P<error>(?:internal error|invalid usage|invalid argument|unhandled|remote process).*)",
            r"NCCL Error \d: ",
            r"NCCL failure",
        ),
        cause="NCCL failed[: {reason}]. [Mostly {usage}. ][{meaning}. ][The class of the error alone ({name}) gives no reason. ]More about it is in an "
        "`NCCL WARN` line of this rank or of another rank",
        probe="repeat with NCCL_DEBUG=WARN in the environment of all ranks",
        fix="set NCCL_DEBUG=WARN (torchrun and srun pass it on; mpirun -x; ddpkit --env), run again, and "
        "read the NCCL WARN lines of all ranks",
        reads="last-error",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/4420",
    ),
    Entry(
        id="nccl-remote",
        title="ncclRemoteError: ... a remote process exiting prematurely",
        kind="consequence",
        patterns=(r"\bncclRemoteError\b",),
        cause="another rank ended, or the network connection to it failed",
        probe="the rank that does not print this line",
        fix="read the log of the rank that ended first",
        role="misses",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html",
    ),
    Entry(
        id="cuda-ipc",
        title="cudaIpcGetMemHandle failed; failed to peer with device",
        patterns=(
            r"\bcudaIpcGetMemHandle failed",
            r"\bhipIpcGetMemHandle failed",
            r"failed to peer with device",
            r"\bp2p\.cc:\d+ (?:\(\w+\) )?NCCL WARN (?:Cuda|HIP) failure (?:\d+ )?'(?P<error>invalid argument|invalid device pointer|invalid device ordinal|invalid resource handle|operation not supported)'",
            r"\boperation not supported at \S*StorageSharing\.cpp",
        ),
        explains=("nccl-cuda-failure", "nccl-not-supported", "invalid-device-ordinal", "nccl-warning", "nccl-error"),
        cause="ranks on one host cannot share GPU memory[ ({error})]. They run in containers without the host's IPC or as "
        "different users, or this driver or virtual machine does not support it",
        probe="two ranks of one host: ddpkit test 2",
        fix="use docker run --ipc=host, and run all ranks as one user. Otherwise export NCCL_P2P_DISABLE=1. AMD: start the "
        "kernel with iommu=pt. On Windows, send tensors to other processes from the CPU (DataLoader: num_workers=0)",
        instead=(
            Instead(of=("cuda-unknown-error",), near=r"[/\\]torch[/\\](?:multiprocessing[/\\]reductions|storage)\.py"),
        ),
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="custom-all-reduce",
        title="Failed: Cuda error custom_all_reduce.cuh:455 'invalid argument'",
        patterns=(
            r"Failed: Cuda error \S*custom_all_reduce\.cuh:\d+ '(?P<error>[^']+)'",
            r"Failed: \S*custom_all_reduce\.cuh:\d+ '(?P<error>[^']+)'",
        ),
        explains=("vllm-engine-failed", "cuda-ipc"),
        cause="the all-reduce of vLLM or SGLang could not share its buffers with the other ranks ({error}). Memory of "
        "expandable_segments:True cannot be shared in that way. Or the GPUs have no peer access",
        probe="echo $PYTORCH_CUDA_ALLOC_CONF $PYTORCH_ALLOC_CONF; nvidia-smi topo -p2p r",
        fix="remove expandable_segments from PYTORCH_CUDA_ALLOC_CONF. If that is not enough: --disable-custom-all-reduce, in "
        "Python disable_custom_all_reduce=True, which uses NCCL",
        link="https://github.com/vllm-project/vllm/issues/42609",
    ),
    Entry(
        id="peer-access",
        title="failed to open CUDA IPC handle : 217 peer access is not supported between these two devices",
        patterns=(
            r"failed to open CUDA IPC handle",
            r"\bpeer access is not supported between these",
        ),
        explains=("nccl-error", "nccl-warning", "nccl-cuda-failure", "cuda-ipc"),
        cause="NCCL tried to copy directly between two GPUs of this host, and they have no peer access. Each process sees "
        "its own GPU alone, or the GPUs or a virtual machine do not support it",
        probe="nvidia-smi topo -p2p r; echo $CUDA_VISIBLE_DEVICES in each rank",
        fix="export NCCL_P2P_DISABLE=1 (of shm.cc: NCCL_CUMEM_HOST_ENABLE=0). Or show all GPUs of the host to each rank, and "
        "select one with torch.cuda.set_device(LOCAL_RANK)",
        link="https://github.com/ray-project/ray_lightning/issues/24",
    ),
    Entry(
        id="gloo-interface-syntax",
        title="ifa != nullptr. Unable to find address for: ^lo",
        patterns=(r"Unable to find address for: (?P<interface>[\^=]\S+)",),
        explains=("nccl-no-interface", "vllm-engine-failed"),
        cause="GLOO_SOCKET_IFNAME is {interface}, and gloo takes the whole name of an interface. Only NCCL understands ^ "
        "(all but these) and = in NCCL_SOCKET_IFNAME",
        probe="echo $GLOO_SOCKET_IFNAME; ip -4 route get MASTER_ADDR shows the interface after `dev`",
        fix="export GLOO_SOCKET_IFNAME=eth0, with the interface that has the route to the other nodes. "
        "NCCL_SOCKET_IFNAME may keep its value",
        link="https://docs.pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use",
    ),
    Entry(
        id="host-name-is-number",
        title="ifa != nullptr. Unable to find interface for: [0.0.12.18]",
        patterns=(r"Unable to find interface for: \[(?P<address>0\.\d+\.\d+\.\d+)\]",),
        explains=("gloo-address-not-here", "vllm-engine-failed"),
        cause="this host's own name is a number, which is read as the IP address {address}. gloo listens on the address of "
        "the host's name, and no interface has that one",
        probe="hostname; getent ahosts $(hostname)",
        fix="export GLOO_SOCKET_IFNAME=eth0, with the interface that has the route to the other nodes (`ip -br addr`). Or "
        "give the host or container a name with a letter: docker run --hostname node1",
        link="https://github.com/gpustack/gpustack/issues/4128",
    ),
    Entry(
        id="gloo-address-not-here",
        title="ifa != nullptr. Unable to find interface for: [10.0.0.9]",
        patterns=(
            r"Unable to find interface for: \[?(?P<address>[\w.:]+)",
            r"rp != nullptr\. Unable to find address for: (?P<name>\S+)",
        ),
        explains=("vllm-engine-failed", "nccl-no-interface"),
        cause="gloo needs an address of this host, and found none[: no interface has {address}][: the name {name} resolves "
        "to none that an interface has]. The host's own name resolves to another one in DNS or /etc/hosts, for example "
        "after a move, in a container, or behind NAT",
        probe="getent ahosts $(hostname); ip -br addr",
        fix="correct the host's line in /etc/hosts, or export GLOO_SOCKET_IFNAME=eth0 with the interface that has the route "
        "to the other nodes",
        link="https://docs.pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use",
    ),
    Entry(
        id="store-windows-unknown",
        title="torch.distributed.DistNetworkError: Unknown error",
        patterns=(r"\bDistNetworkError: Unknown error$",),
        cause="this torch could not make its TCPStore, and does not say why. torch 2.2.0 prints this under Windows, also with one process",
        probe="python -c 'import torch; print(torch.__version__)'",
        fix="install another torch: 2.1.2 works (pip install torch==2.1.2 torchvision==0.16.2 torchaudio==2.1.2), or one from "
        "2.3 on. With one process, do not call init_process_group",
        link="https://github.com/litagin02/Style-Bert-VITS2/issues/38",
    ),
    Entry(
        id="gloo-without-transport",
        title="makeDeviceForHostname(): unsupported gloo device",
        patterns=(r"\bmakeDeviceForHostname\(\): unsupported gloo device",),
        cause="this build of torch has no transport of gloo for this system. Builds for Windows from 2.7 on print this",
        probe="python -c 'import torch; print(torch.__version__)'",
        fix="run it under Linux or WSL, or install another version of torch. For one process: do not call "
        "init_process_group",
        link="https://github.com/RVC-Boss/GPT-SoVITS/issues/2626",
    ),
    Entry(
        id="nccl-comm-id-address",
        title="NCCL WARN Net : No interface found in the same subnet as remote address; No usable listening interface found",
        patterns=(
            r"No interface found in the same subnet as remote address (?P<address>[\w.:]+)<(?P<port>\d+)>",
            r"NET/Socket : No usable listening interface found",
        ),
        explains=(
            "nccl-warning",
            "nccl-error",
            "nccl-remote",
        ),
        cause="NCCL_COMM_ID names an address[, {address},] of which this host has no interface. In a container without the host's network, the "
        "addresses of the host are not its own",
        probe="env | grep NCCL_COMM_ID; ip -br addr, both in the container",
        fix="unset NCCL_COMM_ID: torch passes the address to NCCL itself. Start containers with --network=host",
        link="https://github.com/NVIDIA/nccl/issues/929",
    ),
    Entry(
        id="nccl-no-interface",
        title="NCCL WARN Bootstrap : no socket interface found",
        patterns=(
            r"no socket interface found",
            r"NET/Socket : no (?:usable )?interface",
            r"Unable to find address for: (?P<interface>\S+)",
            r"(?:Gloo|makeDeviceForInterface).*unsupported gloo device",
        ),
        cause="no interface of this host that is up matches NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME[: {interface}]. The "
        "interface has another name here. Or without these variables, only loopback and docker interfaces are up",
        probe="ip -br addr; env | grep SOCKET_IFNAME",
        fix="unset the variable, or set each host's own interface name under [host.NAME] env in ddpkit.toml",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname",
    ),
    Entry(
        id="nccl-store-wait",
        title="setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store ... got error",
        kind="generic",
        explains=(
            "store-wait",
            "second-master",
        ),
        patterns=(
            r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(?P<source>\d+)\] via c10d key-value store(?:.*got error: (?P<error>[^.*]*))?",
            r"but store->get\('\S+'\) got error: (?P<error>.*)",
        ),
        cause="[rank {rank}: ]this rank waited for rank {source|0} to create an NCCL communicator[, and got: "
        "{error}]. Rank {source|0} died, hangs, or is slow: it prepares data or loads a model",
        probe="the last lines of rank 0; on its host: py-spy dump -p PID",
        fix="read rank 0's log. If it is only slow, pass a longer timeout to init_process_group, or prepare "
        "the data before the run. Every rank must call the same collective",
        role="waits",
        link="https://docs.pytorch.org/docs/stable/distributed.html#distributed-key-value-store",
    ),
    Entry(
        id="nccl-comm-aborted",
        title="NCCL communicator was aborted on rank N",
        kind="consequence",
        patterns=(
            r"NCCL communicator was aborted(?: on rank (?P<rank>\d+))?",
            r"Original reason for failure was: (?P<reason>.*)",
            r"commReclaim: cleanup comm \w+ rank \d+ failed in destroy/abort",
            r"invalid root \d+ \(root should be in the 0\.\.-1 range\)",
            r"NCCL WARN comm \w+ has already been destroyed",
        ),
        explains=("nccl-warning",),
        cause="NCCL closed this rank's connection because another rank or a collective failed",
        probe="the first line about a collective, in all logs",
        fix="read the logs of all ranks; `ddpkit explain` takes several files",
        link="https://github.com/pytorch/pytorch/issues/118369",
    ),
    Entry(
        id="nccl-proxy-lost",
        title="NCCL WARN [Service thread] Error encountered progressing operation=Connect; Accept failed Success; closing connection",
        kind="consequence",
        patterns=(
            r"\[Service thread\] (?:Error|Accept|Could not|Failed)",
            r"\[Proxy Service(?: \d+)?\] (?:Error|Accept|Could not|Failed)",
            r"Socket recv failed while polling for opId=",
        ),
        cause="an NCCL helper thread of this rank stopped its service for another rank. An error of its "
        "own is above, or the other rank has ended",
        probe="the NCCL WARN lines above this one; the rank that ended first",
        fix="read the first NCCL WARN line, and the log of the rank that ended first",
        instead=(
            Instead(
                of=("peer-died",),
                text=r"(?<![\w.-])(?P<machine>[\w-]+)[\w.-]*:(?P<pid>\d+):\d+ \[\d+\] .*Connection closed by remote peer (?P=machine)[.<]",
                above=r"(?<![\w.-])(?P=machine)[\w.-]*:(?P=pid):.*\[Proxy Service.*Failed to execute",
            ),
        ),
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="nccl-not-connected",
        title="[Proxy Service 2] Failed to execute operation Connect from rank 2, retcode 3",
        kind="generic",
        patterns=(
            r"\[Proxy Service(?: \d+)?\] Failed to execute operation (?P<operation>Connect|Setup) from rank (?P<from>\d+), retcode \d+",
            r"\bProxy Call to rank (?P<from>\d+) failed \((?P<operation>Connect|Setup)\)",
        ),
        explains=("nccl-proxy-lost", "nccl-error"),
        cause="NCCL could not connect rank {from} to another rank (operation {operation}). The network between "
        "the two failed, or the other rank has ended",
        probe="the NCCL WARN lines of both ranks just above: they name the address; then: ping ADDRESS",
        fix="if a rank ended first, read its log. Otherwise choose the network that all nodes reach: NCCL_SOCKET_IFNAME=eth0. "
        "To test: NCCL_IB_DISABLE=1, and on one machine NCCL_P2P_DISABLE=1",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="nccl-rank-too-high",
        title="NCCL WARN Invalid rank requested : 2/2",
        patterns=(r"Invalid rank requested : (?P<number>\d+)/(?P<size>\d+)",),
        explains=("nccl-warning", "nccl-error"),
        cause="this process calls itself rank {number} of {size}, and ranks are counted from 0. Ranks begin at 1 here, or the "
        "number of ranks is too small",
        probe="in each process: echo $RANK $WORLD_SIZE $NODE_RANK $LOCAL_RANK",
        fix="count the ranks from 0, with WORLD_SIZE = nodes * processes per node. On Kubernetes and AzureML the index of a "
        "worker begins at 0 beside the master's: rank = index + 1 only where the master is rank 0",
        link="https://github.com/Azure/AML-Kubernetes/issues/58",
    ),
    Entry(
        id="shm-not-shared",
        title="Error while attaching to shared memory segment /dev/shm/nccl-...: No such file or directory",
        patterns=(
            r"attaching to shared memory segment /dev/shm/nccl-\S*.*No such file or directory",
            r"(?:include/shm\.h|shmutils\.cc):\d+ (?:\(\w+\) )?NCCL WARN Call to (?:shm_)?open failed ?: No such file or directory",
        ),
        explains=("nccl-warning", "nccl-error", "shm-full"),
        cause="NCCL takes two ranks for neighbours on one host, and they have different /dev/shm. They run in two containers "
        "of one host, or on two hosts with one hostname and boot id",
        probe="in each rank: hostname; cat /proc/sys/kernel/random/boot_id; df /dev/shm; env | grep NCCL_HOSTID",
        fix="start the containers with --ipc=host, or all ranks of a host in one container. Otherwise give each its own "
        "NCCL_HOSTID, or export NCCL_SHM_DISABLE=1",
        link="https://github.com/vllm-project/vllm/issues/18831",
    ),
    Entry(
        id="nccl-without-libcuda",
        title="NCCL WARN Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='')",
        patterns=(r"Failed to find CUDA library libcuda\.so",),
        explains=("libcuda-missing", "library-missing", "nccl-warning", "nccl-error"),
        cause="NCCL looks for libcuda.so of the driver, and does not find it. WSL has it in a directory of its own, and some "
        "systems have libcuda.so.1 alone. Or the container was started without GPUs",
        probe="ldconfig -p | grep libcuda; ls /usr/lib/wsl/lib; nvidia-smi -L",
        fix="add its directory: export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH (WSL), or link it: `sudo ln -s "
        "libcuda.so.1 libcuda.so` there. NCCL from 2.19 on (torch 2.2) looks for libcuda.so.1",
        link="https://github.com/hiyouga/LlamaFactory/issues/1169",
    ),
    Entry(
        id="nccl-no-algorithm",
        title="no algorithm/protocol available for function AllReduce; NCCL_ALGO was set to NVLS",
        patterns=(r"no algorithm/protocol available",),
        explains=("nccl-warning", "nccl-error"),
        cause="NCCL_ALGO and NCCL_PROTO leave no way for this collective: the machine has no NVLS or CollNet, or an algorithm "
        "does not support this function, type or protocol",
        probe="env | grep NCCL_; cat /etc/nccl.conf ~/.nccl.conf",
        fix="unset NCCL_ALGO, NCCL_PROTO and NCCL_TUNER_PLUGIN on all ranks, or allow more: NCCL_ALGO=Ring,Tree",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-algo",
    ),
    Entry(
        id="nccl-shared-memory",
        title="ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856",
        patterns=(r"\bncclMaxSharedMem (?P<wanted>\d+) exceeds device/fn maxSharedMem (?P<size>\d+)",),
        explains=("nccl-cuda-failure", "nccl-error", "nccl-warning", "cuda-unknown-error"),
        cause="the kernels of this NCCL take {wanted} bytes of shared memory, and this GPU allows {size}. NCCL before 2.26.2 "
        "fails so on GPUs of the RTX 50 family",
        probe="nvidia-smi --query-gpu=name,compute_cap --format=csv; python -c 'import torch; print(torch.cuda.nccl.version())'",
        fix="pip install -U nvidia-nccl-cu12, at least 2.26.2, or install a newer torch. AMD: build RCCL for this GPU",
        link="https://github.com/NVIDIA/nccl-tests/issues/287",
    ),
    Entry(
        id="nccl-init-failed",
        title="NCCL INFO group.cc:72 -> 3 [Async thread], without a NCCL WARN",
        kind="hint",
        patterns=(
            r"NCCL INFO (?:\S+/)?group\.cc:\d+ -> (?P<code>[1-6]) \[Async thread\]",
            # At a normal end, waiting threads print 3 and 6.
            r"NCCL INFO misc/socket\.cc:\d+ -> (?P<code>[125])\b",
            r"NCCL INFO bootstrap\.cc:\d+ -> (?P<code>[125])\b",
            r"NCCL INFO transport/net\w*\.c[cu]:\d+ -> (?P<code>[125])\b",
        ),
        context=r"NCCL INFO (?:\S+/)?(?P<where>(?!group|init)\w+\.cc):\d+ -> [1-6](?: \((?P<reason>[^)]+)\))?",
        cause="a call inside NCCL failed, mostly while it made a group of ranks[, in {where}][: {reason}]. It ended with code {code} (1 CUDA, 2 a system call, 3 inside NCCL, 4 "
        "and 5 wrong use, 6 another rank). The line with the reason, a NCCL WARN, is not in this log",
        probe="grep -n 'NCCL WARN' in the logs of all ranks; the innermost function is the first `-> {code}` of this thread",
        fix="read the NCCL WARN lines of all ranks. Without any, run again with NCCL_DEBUG=WARN, and update NCCL. In socket.cc or bootstrap.cc: export NCCL_SOCKET_IFNAME=eth0, and open all ports between the nodes. Other hosts do not reach a container's "
        "address (172.17.x.x): docker run --network=host",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="nccl-nvml-missing",
        title="NCCL WARN Failed to open libnvidia-ml.so.1",
        patterns=(r"(?<!NCCL INFO )Failed to open libnvidia-ml\.so",),
        explains=("nccl-error", "nccl-warning", "library-missing"),
        cause="NCCL cannot load libnvidia-ml.so.1, a library of the NVIDIA driver. The container has no driver tools "
        "(capability `utility`), holds an empty file of that name, or the library is not in the loader's path",
        probe="in the same container: nvidia-smi; ldconfig -p | grep nvidia-ml; find / -name 'libnvidia-ml.so*' -size 0",
        fix="start the container with the NVIDIA runtime and NVIDIA_DRIVER_CAPABILITIES=compute,utility, and with no "
        "libnvidia-ml of its own. Without a container: add the driver's directory to LD_LIBRARY_PATH",
        link="https://github.com/hiyouga/LLaMA-Factory/issues/6161",
    ),
    Entry(
        id="nccl-message-truncated",
        title="bootstrap.cc:77 NCCL WARN Message truncated : received 256 bytes instead of 4",
        patterns=(r"Message truncated : received \d+ bytes instead of \d+",),
        explains=("nccl-warning", "nccl-error", "nccl-remote"),
        cause="as NCCL connected the ranks, this rank read a message that was meant for another step. Usually the ranks call "
        "NCCL in different orders, or their NCCL versions or NCCL_* variables differ. Rarely, this NCCL version has a fault",
        probe="on each node: python -c 'import torch; print(torch.cuda.nccl.version())'; env | grep NCCL_. If they are equal: repeat with "
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL",
        fix="use one torch, and the same NCCL_* variables, on all nodes. Create groups, and call collectives, send and recv, in the same "
        "order on all ranks. If it still fails now and then, try another version of NCCL",
        link="https://github.com/NVIDIA/nccl/issues/1176",
    ),
    Entry(
        id="host-name-empty",
        title="GlooDeviceFactory::makeUVDevice(): interface or hostname can't be empty",
        patterns=(r"GlooDeviceFactory::make\w+\(\): interface or hostname can't be empty",),
        explains=("vllm-engine-failed",),
        cause="this host has an empty name, and gloo listens on the address of the host's name. Some installations of "
        "Windows and some containers have none",
        probe="python -c 'import socket; print([socket.gethostname()])' prints ['']",
        fix="give the host a name: under Windows `Rename-Computer NAME` as administrator, and restart; docker run "
        "--hostname NAME. Or set GLOO_SOCKET_IFNAME to an interface",
        link="https://github.com/RVC-Project/Retrieval-based-Voice-Conversion-WebUI/issues/724",
    ),
)
