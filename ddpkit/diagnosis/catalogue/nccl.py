"""NCCL itself."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="nccl-mismatch",
        title="Mismatched NCCL version detected; Message truncated",
        patterns=(
            r"Mismatched NCCL (?:git )?versions? detected",
            r"Message truncated : received \d+ bytes instead of \d+",
            r"receiving \d+ bytes instead of \d+",
        ),
        cause="the nodes load different NCCL libraries: another torch, or LD_LIBRARY_PATH names a system's libnccl",
        probe="on each node: python -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'; echo "
        "$LD_LIBRARY_PATH",
        fix="install one torch on all nodes, and unset LD_LIBRARY_PATH",
        link="https://github.com/NVIDIA/nccl/issues/1267",
        examples=(
            (
                "NCCL WARN Mismatched NCCL version detected : rank 0 version 22005 rank 8 version 21903",
                "NCCL 2.25, source",
            ),
            (
                "NCCL WARN Message truncated : received 1024 bytes instead of 256",
                "https://github.com/NVIDIA/nccl/issues/286",
            ),
            (
                "NCCL WARN NET/Socket : peer 10.0.0.2<45763> message truncated : receiving 1024 bytes "
                "instead of 256. If you believe your socket network is in a healthy state, there may be a "
                "mismatch in collective sizes",
                "NCCL 2.27, source",
            ),
        ),
    ),
    Entry(
        id="collective-timeout",
        title="Watchdog caught collective operation timeout: WorkNCCL(SeqNum=...",
        kind="generic",
        patterns=(
            r"Watchdog caught collective operation timeout: WorkNCCL\(.*?OpType=(?P<op>\w+)",
            r"Watchdog caught collective operation timeout",
            r"\bTimeout at NCCL work: \d+",
        ),
        cause="a collective did not end in time: one rank did not come to it (it died, hangs, or is in another one), or "
        "the network lets no packets through. A SeqNum below about 5: it never worked; a large one: in mid-run",
        probe="ddpkit dump RUN, or the last lines of the rank that does not print this",
        fix="look for the rank without this line; ddpkit test finds a network that never worked",
        link="https://github.com/pytorch/pytorch/issues/118369",
        examples=(
            (
                "[rank2]:[E626 05:06:30.929096625 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective "
                "operation timeout: WorkNCCL(SeqNum=120049, OpType=_ALLGATHER_BASE, NumelIn=16384000, "
                "NumelOut=131072000, Timeout(ms)=1800000) ran for 1800065 milliseconds before timing out.",
                "https://github.com/snowflakedb/ArcticTraining/issues/219",
            ),
            (
                "[rank1]:[E ProcessGroupNCCL.cpp:1537] [PG 1 Rank 1] Timeout at NCCL work: 158046, last enqueued NCCL "
                "work: 158046, last completed NCCL work: 158045.",
                "https://github.com/vllm-project/vllm/issues/5484",
            ),
        ),
    ),
    Entry(
        id="shm-unlinked",
        title="unlink shared memory /dev/shm/nccl-... failed: No such file or directory",
        patterns=(r"unlink shared memory /dev/shm/nccl-\w+ failed",),
        cause="systemd deletes a user's shared memory when the user logs out (RemoveIPC), while the job runs",
        probe="grep RemoveIPC /etc/systemd/logind.conf",
        fix="RemoveIPC=no in /etc/systemd/logind.conf, then systemctl restart systemd-logind",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        examples=(
            (
                "NCCL WARN unlink shared memory /dev/shm/nccl-d5rTd0 failed, error: No such file or directory",
                "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
            ),
        ),
    ),
    Entry(
        id="env-differs",
        title="NCCL_ variables differ between nodes",
        cause="a variable is set on one node only: in its .bashrc, a module, /etc/nccl.conf or ~/.nccl.conf",
        probe="on each node: env | grep NCCL_; cat /etc/nccl.conf ~/.nccl.conf",
        fix="pass it to all ranks: ddpkit launch --env NCCL_X=VALUE",
        link="https://github.com/NVIDIA/nccl/issues/1328",
    ),
    Entry(
        id="collective-mismatch",
        title="collective mismatch error, local size ... remote size ...",
        patterns=(r"collective mismatch error",),
        cause="two ranks call another collective, or the same with another size: other code, data or variables there",
        probe="on each node: sha256sum train.py; env | grep NCCL_",
        fix="the same script, arguments and NCCL_ variables on every node; torch: TORCH_DISTRIBUTED_DEBUG=DETAIL names "
        "the call",
        link="https://github.com/NVIDIA/nccl/issues/969",
        examples=(
            (
                "NCCL WARN NET/Socket : collective mismatch error, local size 1048576 remote size 4194304",
                "https://github.com/NVIDIA/nccl/issues/969",
            ),
        ),
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
            r"NCCL error in: \S+, (?P<error>.*)",
            r"NCCL error: (?P<error>(?:internal error|invalid usage|invalid argument|unhandled|remote process).*)",
            r"NCCL Error \d: ",
            r"NCCL failure",
        ),
        cause="NCCL gave up; its class says little. The reason is in a line `NCCL WARN` of this rank or of another",
        probe="NCCL_DEBUG=WARN ddpkit launch ..., then ddpkit explain LOG",
        fix="start it again with --env NCCL_DEBUG=WARN, and give the log to ddpkit explain",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/4420",
        examples=(
            (
                "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
                "torch 2.6, source",
            ),
            ("ncclInternalError: Internal check failed.", "torch 2.6, source"),
            (
                "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
                "ProcessGroupNCCL.cpp:1691, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version "
                "2.19.3",
                "torch 2.2, documented",
            ),
            ("ncclUnhandledCudaError: Call to CUDA function failed.", "torch 2.2, source"),
            ("ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", "torch 2.2, source"),
            ("ncclInvalidArgument: Invalid value for an argument.", "torch 2.2, source"),
            (
                "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                "https://github.com/vllm-project/vllm/issues/6732",
            ),
            ("RuntimeError: NCCL Error 2: unhandled system error", "torch 2.2, source"),
            (
                "node1: Test NCCL failure common.cu:958 'internal error - please report this issue to the "
                "NCCL developers / '",
                "https://github.com/NVIDIA/nccl-tests/issues/166",
            ),
        ),
    ),
    Entry(
        id="nccl-remote",
        title="ncclRemoteError: ... a remote process exiting prematurely",
        kind="consequence",
        patterns=(r"\bncclRemoteError\b",),
        cause="another rank is gone, or the network to it is",
        probe="look for the rank without this line",
        fix="read the log of the rank that ended first",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html",
        examples=(
            (
                "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
                "prematurely.",
                "torch 2.6, source",
            ),
        ),
    ),
    Entry(
        id="cuda-ipc",
        title="cudaIpcGetMemHandle failed; failed to peer with device",
        patterns=(
            r"\bcudaIpcGetMemHandle failed",
            r"failed to peer with device",
        ),
        cause="ranks of one host cannot share GPU memory: containers without the host's IPC, or different users",
        probe="two ranks of one host: ddpkit test 2",
        fix="docker run --ipc=host, all ranks as one user; or export NCCL_P2P_DISABLE=1",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        examples=(
            ("NCCL WARN cudaIpcGetMemHandle failed : invalid argument", "NCCL 2.29, source"),
            ("NCCL WARN failed to peer with device 1 (=NVML index 1)", "NCCL 2.29, source"),
        ),
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
        cause="no interface of this host fits NCCL_SOCKET_IFNAME (or GLOO_SOCKET_IFNAME): its name is another here",
        probe="ip -br addr; env | grep SOCKET_IFNAME",
        fix="unset it, or give each host the name of its own interface (ddpkit.toml: [host.NAME] env)",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname",
        examples=(
            (
                "node2:10:10 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
                "https://github.com/NVIDIA/nccl/issues/286",
            ),
            (
                "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: eth9",
                "torch 2.13, run",
            ),
            ("node1:10:10 [0] NCCL WARN NET/Socket : no interface found", "NCCL 2.21, source"),
            ("RuntimeError: makeDeviceForInterface(): unsupported gloo device", "torch 2.9, source"),
        ),
    ),
    Entry(
        id="nccl-store-wait",
        title="setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store ... got error",
        kind="consequence",
        patterns=(
            r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(?P<source>\d+)\] via c10d key-value store",
            r"but store->get\('\S+'\) got error: (?P<error>.*)",
        ),
        cause="this rank waited for rank 0 (of its group) to make a communicator, and rank 0 did not: it died, hangs, or is in another call",
        probe="the last lines of rank 0",
        fix="look at rank 0's log; every rank must call the same collective",
        link="https://docs.pytorch.org/docs/stable/distributed.html#distributed-key-value-store",
        examples=(
            (
                "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer",
                "torch 2.2, source",
            ),
        ),
    ),
    Entry(
        id="nccl-comm-aborted",
        title="NCCL communicator was aborted on rank N",
        kind="consequence",
        patterns=(
            r"NCCL communicator was aborted(?: on rank (?P<rank>\d+))?",
            r"Original reason for failure was: (?P<reason>.*)",
        ),
        cause="NCCL ended this rank's connection, since another rank or a collective failed",
        probe="the first line about a collective, in all logs",
        fix="ddpkit explain LOG on the logs of all ranks",
        link="https://github.com/pytorch/pytorch/issues/118369",
        examples=(
            ("torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.", "torch 2.2, source"),
            (
                "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.  Original reason for failure was: ",
                "torch 2.2, source",
            ),
        ),
    ),
    Entry(
        id="nccl-proxy-lost",
        title="NCCL WARN [Service thread] Error encountered progressing operation=Connect; Accept failed Success; closing connection",
        kind="consequence",
        patterns=(
            r"\[Service thread\] (?:Error|Accept|Could not|Failed)",
            r"\[Proxy Service(?: \d+)?\] (?:Error|Accept|Could not|Failed)",
            r"\[Service thread\] Connection closed by localRank (?P<local>\d+)",
            r"misc/socket\S+ NCCL WARN socketProgress: Connection closed by remote peer",
            r"NCCL WARN .*Connection closed by remote peer",
        ),
        cause="a rank's helper thread lost another rank",
        probe="look for the rank that ended first",
        fix="read the log of the rank that ended first",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        examples=(
            (
                "node1:10:99 [3] proxy.cc:1458 NCCL WARN [Service thread] Error encountered progressing operation=Connect, res=3, closing connection",
                "NCCL 2.19, source",
            ),
            ("node1:10:99 [3] NCCL INFO [Service thread] Connection closed by localRank 2", "NCCL 2.19, source"),
            (
                "node1:10:99 [3] misc/socket.cc:57 NCCL WARN socketProgress: Connection closed by remote peer node2<51234>",
                "NCCL 2.19, source",
            ),
            (
                "ubuntu:39964:40075 [0] proxy.cc:1519 NCCL WARN [Proxy Service 0] Failed to execute "
                "operation Connect from rank 0, retcode 2",
                "https://github.com/NVIDIA/nccl-tests/issues/166",
            ),
        ),
    ),
)
