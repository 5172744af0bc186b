"""Printed texts of `ddpkit/diagnosis/catalogue/runtime.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "monitored-barrier": (
        ("RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 6000 ms", "torch 2.13, run"),
        (
            "RuntimeError: barrier failed -- missing ranks: 0, 2, 3, wait timeout after 1ms, keys: foo/last_members",
            "torch 2.13, source",
        ),
    ),
    "peer-died": (
        (
            "node1:801:1019 [0] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer ",
            "NCCL 2.28.9 on an H100, run",
        ),
        (
            "An MPI communication peer process has unexpectedly disconnected.  This",
            "https://github.com/horovod/horovod/issues/1950",
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
            "[10.0.0.2]:4711. This is typically caused by a remote worker crashing.",
            "torch 2.13, run",
        ),
        (
            "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did "
            "the remote server shutdown or crash?",
            "torch 2.13, run",
        ),
        ("RuntimeError: [pair.cc:553] Read error [10.0.0.2]:4711: Connection reset by peer", "torch 2.9, source"),
        (
            "node1:10:99 [3] misc/socket.cc:57 NCCL WARN socketProgress: Connection closed by remote peer node2<51234>",
            "NCCL 2.19, source",
        ),
        (
            "node1:10:99 [3] misc/socket.cc:518 NCCL WARN Net : Call to recv from 10.0.0.2<58355> failed : Broken pipe",
            "https://github.com/NVIDIA/nccl/issues/795",
        ),
        (
            "MPIDI_OFI_handle_cq_error(1062): OFI poll failed (ofi_events.c:1064:MPIDI_OFI_handle_cq_error:Input/output error - PTLTE_NOT_FOUND)",
            "https://github.com/ofiwg/libfabric/issues/10072",
        ),
        (
            "[W tensorpipe_agent.cpp:726] RPC agent for 0 encountered error when reading incoming request from 27: sendmsg: Broken pipe (this error originated at tensorpipe/common/socket.h:105)",
            "https://github.com/pytorch/pytorch/issues/85607",
        ),
        (
            "eof (this error originated at tensorpipe/transport/shm/connection_impl.cc:259)",
            "https://github.com/pytorch/pytorch/issues/85607, unverified",
        ),
        (
            "h:1:2 [0] misc/ipcsocket.cc:224 NCCL WARN UDS: Sending data over socket /tmp/nccl-socket-4-9f1c failed : Connection refused (111)",
            "NCCL, source",
        ),
        (
            "RuntimeError: EPIPE: broken pipe (this error originated at tensorpipe/transport/uv/connection_impl.cc:157)",
            "https://github.com/pyg-team/pytorch_geometric/pull/8605",
        ),
    ),
    "watchdog-ends-process": (
        (
            "[rank1]:[E ProcessGroupNCCL.cpp:577] [Rank 1] Some NCCL operations have failed or timed out. Due to "
            "the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete "
            "data.",
            "https://github.com/vllm-project/vllm/issues/5484",
        ),
        (
            "[rank1]:[E ProcessGroupNCCL.cpp:583] [Rank 1] To avoid data inconsistency, we are taking the entire "
            "process down.",
            "https://github.com/vllm-project/vllm/issues/5484",
        ),
        (
            "[rank1]:[E ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0 Rank 1] Process group watchdog "
            "thread terminated with exception: CUDA error",
            "torch 2.9, source",
        ),
        (
            "[rank3]:[E1120 10:00:00 ProcessGroupNCCL.cpp:1395] Received a dump signal due to a "
            "collective timeout from this local rank",
            "torch 2.6, source",
        ),
    ),
    "hang-at-exit": (
        (
            "End time of running main: 2026-02-05 18:03:02\n"
            "[rank4]:[E205 18:11:06.375750231 ProcessGroupNCCL.cpp:1870] [PG ID 12 Rank 4] ProcessGroupNCCL's watchdog "
            "got stuck for 480 seconds without making progress in monitoring enqueued collectives",
            "torch 2.9, source",
        ),
    ),
    "watchdog-stuck": (
        (
            "[rank7]:[E626 05:14:36.393067540 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 7] "
            "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued "
            "collectives.",
            "https://github.com/snowflakedb/ArcticTraining/issues/219",
        ),
        ("Could not acquire GIL within 300 ms on exit, possible GIL induced hang", "torch 2.9, source"),
        (
            "[rank2]:[F205 18:19:06.383067836 ProcessGroupNCCL.cpp:1614] [PG ID 17 PG GUID 137 Rank 2] Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
            "https://github.com/modelscope/ms-swift/issues/7992",
        ),
        (
            "[rank0]:[E ProcessGroupNCCL.cpp:1316] [PG 5 Rank 0] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=3",
            "https://github.com/xdit-project/xDiT/issues/147",
        ),
    ),
    "desync": (
        (
            "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
            "torch 2.15, source",
        ),
        (
            "[1, 3] are the lagging ranks that caused this timeout. They never joined any collectives",
            "torch 2.2, source",
        ),
        (
            "\t     [7] finished collective #182, but didn't join collective #183 (count from 1)",
            "https://github.com/pytorch/pytorch/issues/152623",
        ),
        ("\t   - [47] joined but didn't finish collective #41207 (count from 1)", "torch 2.13, source"),
    ),
    "ib-link-lost": (
        ("NCCL WARN NET/IB : mlx5_0:1 async fatal event: local catastrophic error", "NCCL 2.29, source"),
        (
            "NCCL WARN NET/IB : mlx5_0:1 communicator encountered a fatal error (detected in ncclIbTest)",
            "NCCL 2.27, source",
        ),
        (
            "h:1:2 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error",
            "NCCL 2.18, source",
        ),
        (
            "h:1:2 [0] transport/net_ib.cc:150 NCCL WARN NET/IB : mlx5_2:1 async fatal event on QP (0x7f0c): local work queue catastrophic error",
            "NCCL 2.24, source",
        ),
        (
            "h:1:2 [0] transport/net_ib.cc:150 NCCL WARN NET/IB : mlx5_2:1 Got non-fatal async event: port error(10)",
            "NCCL 2.30, source",
        ),
        (
            "[198542.853543] mlx5_core 0000:5e:00.0: device's health compromised - reached miss count",
            "https://github.com/charmplusplus/charm/issues/2635",
        ),
        (
            "[ 100.000000] mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): Fatal error 1 detected",
            "Linux, source",
        ),
        (
            "[ 100.000000] mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error, One or more network ports have been powered down due to insufficient/unadvertised power on the PCIe slot",
            "Linux, unverified",
        ),
    ),
    "gloo-timeout": (
        (
            "RuntimeError: Rank 3 successfully reached monitoredBarrier, but received errors while "
            "waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.",
            "torch 2.1, source",
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:84] Application timeout caused pair closure",
            "torch 2.13, source",
        ),
        (
            "terminate called after throwing an instance of 'gloo::TimeoutException'\n  what():  [/paddle/third_party/gloo/gloo/transport/tcp/pair.cc:587] TIMEOUT self_rank = 0 pair_rank = 1 peer_str = [172.16.32.105]:36265",
            "https://github.com/PaddlePaddle/PaddleOCR/issues/13435",
        ),
        (
            "RuntimeError: Rank 0 timed out in monitoredBarrier after 300000 ms.",
            "torch 2.13, source",
        ),
    ),
    "gloo-size-mismatch": (
        (
            "terminate called after throwing an instance of 'gloo::EnforceNotMet' what():  [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 8 vs 4",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/uv/pair.cc:333] Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?",
            "torch 2.13, source",
        ),
    ),
    "rpc-unreachable": (
        (
            "[W tensorpipe_agent.cpp:641] RPC agent for Test0 encountered error when sending outgoing request #0 to Test1: ECONNREFUSED: connection refused",
            "https://github.com/pytorch/tensorpipe/issues/201",
        ),
        ("RuntimeError: ECONNREFUSED: connection refused", "https://github.com/pytorch/tensorpipe/issues/201"),
        (
            "RuntimeError: connect: Resource temporarily unavailable (this error originated at tensorpipe/common/socket.cc:114)",
            "https://github.com/pytorch/pytorch/issues/85607",
        ),
    ),
    "user-signal": (
        ("srun: error: node1: task 0: User defined signal 1", "Slurm 22.05, run"),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGUSR1",
            "torch 2.13, source",
        ),
        ("    traceback : Signal 10 (SIGUSR1) received by PID 4711", "torch 2.13, source"),
    ),
    "barrier-device-ids": (
        (
            "RuntimeError: Function argument device_ids not supported for the selected backend gloo",
            "https://github.com/huawei-noah/Efficient-Computing/issues/90",
        ),
    ),
    "library-assertion": (
        (
            "python3: /opt/DeepEP/csrc/hybrid_ep/extension/permute.cu:412: void permute_launcher(PermuteArgs) [with DType = short unsigned int; ProbType = float; ScalarType = float]: Assertion `args.output_tokens_ptr != nullptr' failed.",
            "https://github.com/NVIDIA-NeMo/Megatron-Bridge/issues/3599",
        ),
    ),
    "signal-in-thread": (
        (
            "ValueError: signal only works in main thread",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/3651",
        ),
        (
            "ValueError: signal only works in main thread of the main interpreter",
            "https://github.com/sgl-project/sglang/issues/2536",
        ),
        (
            "ValueError: Can't set signal handler for SIGINT while SIGINT is being deferred within a DeferSigint context.",
            "https://github.com/ray-project/ray/issues/42893",
        ),
    ),
}
