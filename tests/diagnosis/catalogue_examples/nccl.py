"""Printed texts of `ddpkit/diagnosis/catalogue/nccl.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "nccl-rings": (
        (
            "[7] graph/rings.cc:38 NCCL WARN Error : ring 0 does not loop back to start (13 != 15).",
            "https://github.com/NVIDIA/nccl/issues/1020",
        ),
        (
            "node1:69967:69967 [3] graph/rings.cc:51 NCCL WARN Error : ring 1 does not contain rank 0",
            "NCCL 2.20, source",
        ),
    ),
    "nccl-mismatch": (
        (
            "NCCL WARN Mismatched NCCL version detected : rank 0 version 22005 rank 8 version 21903",
            "NCCL 2.25, source",
        ),
    ),
    "nccl-sizes-differ": (
        (
            "NCCL WARN NET/Socket : peer 10.0.0.2<45763> message truncated : receiving 1024 bytes "
            "instead of 256. If you believe your socket network is in a healthy state, there may be a "
            "mismatch in collective sizes",
            "NCCL 2.27, source",
        ),
    ),
    "collective-timeout": (
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
        (
            "RuntimeError: [Rank 1] Caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, TensorShape=[], Timeout(ms)=10800000) ran for 10800031 milliseconds before timing out.",
            "https://github.com/ultralytics/ultralytics/issues/3688",
        ),
    ),
    "shm-unlinked": (
        (
            "NCCL WARN unlink shared memory /dev/shm/nccl-d5rTd0 failed, error: No such file or directory",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    "shm-not-writable": (
        (
            "node08:27106:27302 [0] include/shm.h:27 NCCL WARN Call to shm_open failed : Permission denied",
            "https://github.com/pytorch/pytorch/issues/37004",
        ),
        (
            "ImportError: This platform lacks a functioning sem_open implementation, therefore, the required synchronization primitives needed will not function, see issue 3770.",
            "Python 3.11, source",
        ),
    ),
    "collective-mismatch": (
        (
            "NCCL WARN NET/Socket : collective mismatch error, local size 1048576 remote size 4194304",
            "https://github.com/NVIDIA/nccl/issues/969",
        ),
        (
            "NCCL WARN Mismatched collective detected, please check your collective calls at and around "
            "rank 3. You can use NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL to see the collective logs",
            "NCCL 2.6, source",
        ),
        (
            "NCCL WARN Your program may be hanging, this may be caused by a collective mismatch around rank 1. Please check your collective calls at and around this rank.",
            "NCCL 2.8, source",
        ),
        (
            "n136-081-017:201805:201927 [0] transport/net_ib.cc:667 NCCL WARN NET/IB : collective mismatch error local size 32768 remote 1048576 addr 0 rkey 3beac3 seq adf/adf",
            "https://github.com/NVIDIA/nccl/issues/531",
        ),
    ),
    "nccl-error": (
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
        (
            "RuntimeError: Runtime error: unhandled system error",
            "NCCL 2.18, src/init.cc, source",
        ),
    ),
    "nccl-remote": (
        (
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
            "torch 2.6, source",
        ),
    ),
    "cuda-ipc": (
        ("NCCL WARN cudaIpcGetMemHandle failed : invalid argument", "NCCL 2.29, source"),
        ("NCCL WARN failed to peer with device 1 (=NVML index 1)", "NCCL 2.29, source"),
        (
            "transport/p2p.cc:239 NCCL WARN hipIpcGetMemHandle failed : invalid argument",
            "https://github.com/ROCm/vllm/issues/390",
        ),
        (
            "UVOSLinux:19402:19419 [0] /usr/src/debug/rccl/build/hipify/src/transport/p2p.cc:237 NCCL WARN Cuda failure 'invalid argument'",
            "https://github.com/ROCm/rccl/issues/1454",
        ),
        (
            "RuntimeError: cuda runtime error (801) : operation not supported at ..\\torch/csrc/generic/StorageSharing.cpp:247",
            "https://github.com/pytorch/examples/issues/806",
        ),
    ),
    "nccl-no-interface": (
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
    "nccl-store-wait": (
        (
            "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer",
            "torch 2.2, source",
        ),
    ),
    "nccl-comm-aborted": (
        ("torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.", "torch 2.2, source"),
        (
            "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.  Original reason for failure was: ",
            "torch 2.2, source",
        ),
        (
            "devvm5552:3355146:3355146 [0] init.cc:2143 NCCL WARN commReclaim: cleanup comm 0x9801e10 rank 0 failed in destroy/abort, error 1",
            "https://github.com/pytorch/pytorch/pull/155740",
        ),
        (
            "slave1:126624:126758 [1] misc/argcheck.cc:39 NCCL WARN Broadcast : invalid root 0 (root should be in the 0..-1 range)",
            "https://github.com/horovod/horovod/issues/3752",
        ),
        (
            "biomind:6502:6588 [0] init.cc:1137 NCCL WARN comm 0x7fd72034c4d0 has already been destroyed",
            "https://github.com/horovod/horovod/issues/3625",
        ),
    ),
    "nccl-proxy-lost": (
        (
            "node1:10:99 [3] proxy.cc:1458 NCCL WARN [Service thread] Error encountered progressing operation=Connect, res=3, closing connection",
            "NCCL 2.19, source",
        ),
        (
            "UVOSLinux:31965:31971 [0] /usr/src/debug/rccl/build/hipify/src/proxy.cc:1190 NCCL WARN Socket recv failed while polling for opId=0x7d9e780c40c0",
            "https://github.com/ROCm/rccl/issues/1454",
        ),
        (
            "node1:10366:10377 [0] src/proxy.cc:1524 NCCL WARN [Proxy Service 1] Failed to execute operation Close from rank 1, retcode 3",
            "NCCL 2.18, src/proxy.cc, source",
        ),
    ),
    "custom-all-reduce": (
        (
            "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:455 'invalid argument'",
            "https://github.com/vllm-project/vllm/issues/42609",
        ),
        (
            "Failed: /home/runner/work/vllm/vllm/csrc/custom_all_reduce.cuh:310 'invalid argument'",
            "https://github.com/vllm-project/vllm/issues/5613",
        ),
    ),
    "peer-access": (
        (
            "node1:4711:4712 [0] transport/p2p.cc:238 NCCL WARN failed to open CUDA IPC handle : 217 peer access is not supported between these two devices",
            "https://github.com/ray-project/ray_lightning/issues/24",
        ),
        ("RuntimeError: CUDA error: peer access is not supported between these two devices", "CUDA 12.9, source"),
    ),
    "gloo-interface-syntax": (
        (
            "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: ^docker0",
            "torch 2.4, source",
        ),
    ),
    "nccl-root-mismatch": (
        (
            "bootstrap.cc:117 NCCL WARN Bootstrap Root : rank 0 of 4 ranks has already checked in",
            "NCCL 2.18, source",
        ),
        (
            "bootstrap.cc:112 NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : 4",
            "NCCL 2.18, source",
        ),
        (
            "RuntimeError: more than one node have assigned same rank at /opt/pytorch/pytorch/torch/lib/THD/process_group/General.cpp:17",
            "https://github.com/NVIDIA/apex/issues/28",
        ),
    ),
    "host-name-is-number": (
        (
            "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:212] ifa != nullptr. Unable to find interface for: [0.0.0.189]",
            "https://github.com/gpustack/gpustack/issues/4128",
        ),
    ),
    "gloo-address-not-here": (
        (
            "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:127] rp != nullptr. Unable to find address for: dgx-1.ai",
            "https://github.com/msr-fiddle/pipedream/issues/32",
        ),
        (
            "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:208] ifa != nullptr. Unable to find interface for: [10.0.0.9]",
            "torch 2.4, source",
        ),
    ),
    "gloo-without-transport": (
        (
            "RuntimeError: makeDeviceForHostname(): unsupported gloo device",
            "torch 2.8, source",
        ),
    ),
    "nccl-rank-too-high": (
        (
            "job-worker-1:25:25 [0] init.cc:981 NCCL WARN Invalid rank requested : 2/2",
            "https://github.com/Azure/AML-Kubernetes/issues/58",
        ),
    ),
    "shm-not-shared": (
        (
            "node1:10:99 [1] misc/shmutils.cc:129 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl- (size 192814336), error: No such file or directory (2)",
            "https://github.com/vllm-project/vllm/issues/18831",
        ),
        (
            "node1:10:99 [1] include/shm.h:48 NCCL WARN Call to open failed: No such file or directory",
            "NCCL 2.30, source",
        ),
    ),
    "nccl-without-libcuda": (
        (
            "DESKTOP-VMBL43V:4163:4163 [0] misc/cudawrap.cc:179 NCCL WARN Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='') : libcuda.so: cannot open shared object file: No such file or directory",
            "https://github.com/hiyouga/LlamaFactory/issues/1169",
        ),
    ),
    "nccl-no-algorithm": (
        (
            "node1:10:99 [1] enqueue.cc:1800 NCCL WARN Error : no algorithm/protocol available for function AllReduce with datatype ncclFloat32. NCCL_PROTO was set to LL128. NCCL_ALGO was set to NVLS.",
            "NCCL, unverified",
        ),
    ),
    "nccl-shared-memory": (
        (
            "GENOA-06:4766:4780 [0] NCCL INFO ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856",
            "https://github.com/NVIDIA/nccl-tests/issues/287",
        ),
        (
            "node:1:9 [0] NCCL WARN cudaArch 940 ncclMaxSharedMem 32832 exceeds device/fn maxSharedMem 27760",
            "RCCL, source",
        ),
    ),
    "nccl-init-failed": (
        (
            "hostname:2714030:2728529 [2] NCCL INFO group.cc:72 -> 3 [Async thread]",
            "https://github.com/NVIDIA/nccl/issues/675",
        ),
        (
            "c39f5cf046aa:4774:4835 [1] NCCL INFO misc/socket.cc:568 -> 2",
            "https://github.com/hiyouga/LLaMA-Factory/issues/5018",
        ),
        ("node2:4152:4206 [0] NCCL INFO bootstrap.cc:285 -> 2", "NCCL 2.20, unverified"),
        ("node2:4152:4206 [0] NCCL INFO transport/net_socket.cc:139 -> 2", "NCCL 2.20, unverified"),
    ),
    "nccl-not-connected": (
        (
            "ubuntu:39964:40075 [0] proxy.cc:1519 NCCL WARN [Proxy Service 0] Failed to execute "
            "operation Connect from rank 0, retcode 2",
            "https://github.com/NVIDIA/nccl-tests/issues/166",
        ),
        (
            "[Proxy Service 2] Failed to execute operation Connect from rank 2, retcode 3",
            "https://github.com/NVIDIA/Megatron-LM/issues/792",
        ),
        (
            "Proxy Call to rank 8 failed (Connect)",
            "NCCL 2.14, src/proxy.cc, source",
        ),
    ),
    "nccl-nvml-missing": (
        ("misc/nvmlwrap.cc:74 NCCL WARN Failed to open libnvidia-ml.so.1", "NCCL 2.18, src/misc/nvmlwrap.cc, source"),
        ("NCCL WARN Failed to open libnvidia-ml.so[.1]", "NCCL 2.4, src/misc/nvmlwrap.cc, source"),
        (
            "NCCL WARN Failed to open libnvidia-ml.so.1: libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
            "NCCL, ncclOsNvmlOpen of src/os/linux.cc, source",
        ),
    ),
    "nccl-message-truncated": (
        (
            "node1:34639:36718 [5] bootstrap.cc:77 NCCL WARN Message truncated : received 256 bytes instead of 4",
            "https://github.com/NVIDIA/nccl/issues/1176",
        ),
        (
            "NCCL WARN Message truncated : received 1024 bytes instead of 256",
            "https://github.com/NVIDIA/nccl/issues/286",
        ),
    ),
    "host-name-empty": (
        (
            "RuntimeError: GlooDeviceFactory::makeUVDevice(): interface or hostname can't be empty",
            "https://github.com/RVC-Project/Retrieval-based-Voice-Conversion-WebUI/issues/724",
        ),
    ),
    "store-windows-unknown": (
        (
            "torch.distributed.DistNetworkError: Unknown error",
            "https://github.com/pytorch/pytorch/issues/118868",
        ),
    ),
    "nccl-ras-mismatch": (
        (
            "#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different AllGather operation counts\n  30 ranks have launched up to operation 640\n  2 ranks have launched up to operation 641\n  Rank 12 -- GPU 4 managed by process 323032 on node 10.137.190.124",
            "https://github.com/NVIDIA/nccl/issues/1911",
        ),
    ),
    "nccl-comm-id-address": (
        (
            "d9beab19e6d2:1791:1791 [0] misc/socket.cc:237 NCCL WARN Net : No interface found in the same subnet as remote address 203.0.113.10<1778>",
            "https://github.com/NVIDIA/nccl/issues/929",
        ),
        (
            "d9beab19e6d2:1791:1791 [0] bootstrap.cc:39 NCCL WARN NET/Socket : No usable listening interface found",
            "https://github.com/NVIDIA/nccl/issues/929",
        ),
    ),
}
