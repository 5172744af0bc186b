"""Printed texts of `ddpkit/diagnosis/catalogue/accelerators.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "accelerator-out-of-memory": (
        (
            "RuntimeError: Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES) -5 (PI_ERROR_OUT_OF_RESOURCES)",
            "Intel extension for PyTorch, unverified",
        ),
        (
            "RuntimeError: MPS backend out of memory (MPS allocated: 18.04 GB, other allocations: 100.00 MB, max allowed: 18.13 GB).",
            "torch, unverified",
        ),
        (
            "RuntimeError: XPU out of memory. Tried to allocate 1.00 GiB (GPU 0; 47.95 GiB total capacity",
            "torch, unverified",
        ),
        (
            "RuntimeError: NPU out of memory. Tried to allocate 386.00 MiB (NPU 2; 60.97 GiB total capacity; 59.57 GiB "
            "already allocated; 59.57 GiB current active; 16.54 MiB free; 60.06 GiB reserved in total by PyTorch) If "
            "reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
            "https://github.com/hiyouga/LlamaFactory/issues/5491",
        ),
        (
            "RuntimeError: MPS backend out of memory (MPS allocated: 11.14 GB, other allocations: 6.65 GB, max allowed: "
            "18.13 GB). Tried to allocate 375.40 MB on private pool.",
            "https://github.com/pytorch/pytorch/issues/152351",
        ),
        (
            "  (0) RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 29.80G of 7.98G hbm. Exceeded hbm "
            "capacity by 21.82G.",
            "https://github.com/pytorch/xla/issues/3532",
        ),
        (
            "  (1) RESOURCE_EXHAUSTED: Attempting to reserve 6.48G at the bottom of memory. That was not possible. There "
            "are 6.78G free, 0B reserved, and 3.33G reservable.",
            "https://github.com/pytorch/xla/issues/3470",
        ),
        (
            "RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
            "torch_xla, unverified",
        ),
        (
            "RuntimeError: Allocation is out of device memory on current platform.",
            "https://github.com/ultralytics/ultralytics/issues/6375",
        ),
        (
            "RuntimeError: Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
            "llama.cpp SYCL, documented",
        ),
        (
            "RuntimeError: Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES) -5 "
            "(PI_ERROR_OUT_OF_RESOURCES)",
            "intel-extension-for-pytorch, unverified",
        ),
        (
            "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::268435456 (256)MB",
            "https://github.com/mila-iqia/milabench/issues/301",
        ),
        (
            "[ERROR] RecentErrMsg: [PID: 1613532] 2026-03-24-12:14:45.885.234 Memory_Allocation_Failure(EL0004): Failed "
            "to allocate memory.",
            "https://github.com/hw-native-sys/PTOAS/pull/341",
        ),
        (
            "EL0004: [PID: 553] 2025-09-17-04:55:13.065.712 Failed to allocate memory.",
            "https://github.com/vllm-project/vllm-ascend/issues/1993",
        ),
        (
            "EI0011: [PID: 553] 2025-09-17-04:55:13.065.712 Failed to allocate 209715200 bytes of NPU memory.",
            "CANN hcomm, source",
        ),
        (
            "RuntimeError: malloc:torch_npu/csrc/core/npu/NPUCachingAllocator.cpp:1019 NPU function error: "
            "aclrtMallocAlign32, error code is 207001",
            "torch_npu, unverified",
        ),
        (
            "2024:05:29-19:16:18:(202165) |CCL_ERROR| worker.cpp:338 ccl_worker_func: worker 0 caught internal exception: oneCCL: ze_call.cpp:28 do_call: EXCEPTION: ze error at zeCommandQueueExecuteCommandLists, code: ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
            "https://github.com/intel/intel-extension-for-pytorch/issues/640",
        ),
    ),
    "accelerator-busy": (
        (
            "EJ0001: 2024-05-21-11:57:54.167.645 Failed to initialize the HCCP process. Reason: Maybe the last training "
            "process is running.",
            "https://github.com/hiyouga/LlamaFactory/issues/3839",
        ),
        (
            "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid "
            "4711. Not attempting to load libtpu.so in this process.",
            "https://github.com/jax-ml/jax/issues/13260",
        ),
        (
            "libtpu.so already in use by another process probably owned by another user.",
            "https://github.com/jax-ml/jax/issues/10192",
        ),
        (
            "RuntimeError: Bad StatusOr access: UNKNOWN: TPU initialization failed: open(/dev/accel2): Operation not "
            "permitted",
            "https://github.com/pytorch/xla/issues/9604",
        ),
        (
            "grpc_server_lib.cc:533] Invalid argument: Invalid fd: -1; Couldn't open device: /dev/accel0 (Operation not "
            "permitted); Unable to create Node RegisterInterface for node 0",
            "https://github.com/pytorch/xla/issues/3165",
        ),
        (
            "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: Device or resource busy; Couldn't open iommu "
            "group /dev/vfio/1",
            "https://github.com/google/gvisor/issues/11545",
        ),
    ),
    "accelerator-lost": (
        ("  (0) Failed precondition: Driver must be Open to DMA map.", "https://github.com/pytorch/xla/issues/2875"),
        (
            "        Device[1] lost heartbeat.[FUNC:SyncTask][FILE:direct_hwts_engine.cc][LINE:407]",
            "https://github.com/vllm-project/vllm-ascend/issues/8186",
        ),
        (
            "RuntimeError: Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
            "https://github.com/intel/intel-extension-for-pytorch/issues/780",
        ),
        (
            "        rtDeviceSynchronizeWithTimeout execution failed, reason=lost "
            "heartbeat[FUNC:FuncErrorReason][FILE:error_message_manage.cc][LINE:65]",
            "https://github.com/vllm-project/vllm-ascend/issues/8186",
        ),
        (
            "[Error]: The task scheduler loses the heartbeat.",
            "torch_npu, unverified",
        ),
        (
            "[Error]: The internal host device communication (HDC) session is disconnected.",
            "torch_npu, unverified",
        ),
        (
            "[PID: 389] 2026-05-01-10:59:14.702.326 Device_Absent/Abnormal(EL0001): Device not found or invalid.",
            "https://github.com/vllm-project/vllm-ascend/issues/8186",
        ),
        (
            "RuntimeError: Native API failed. Native API returns: -2 (PI_ERROR_DEVICE_NOT_AVAILABLE) -2 "
            "(PI_ERROR_DEVICE_NOT_AVAILABLE)",
            "https://github.com/intel/intel-extension-for-pytorch/issues/643",
        ),
        (
            "[   72.993269] habanalabs 0000:1a:00.0: Failed to initialize hl2. Device is NOT usable !",
            "https://github.com/HabanaAI/Setup_and_Install/issues/1",
        ),
        (
            "[   72.993087] habanalabs hl2: Failed to communicate with Device CPU (CPU-CP timeout)",
            "https://github.com/HabanaAI/Setup_and_Install/issues/1",
        ),
    ),
    "hccl-timeout": (
        (
            "EI0002: [PID: 2969] 2025-10-11-15:09:34.713.335 The wait execution of the Notify register times out. "
            "Reason: The Notify register has not received the Notify record from remote rank: [24]. base information: "
            "[streamID:[109], taskID[38], taskType[Notify Wait]",
            "https://github.com/vllm-project/vllm-ascend/issues/3413",
        ),
        (
            "EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: Remote Rank did not "
            "send the data in time. Please check the reason for the rank being stuck",
            "https://github.com/vllm-project/vllm-ascend/issues/486",
        ),
        (
            "EI0002: [PID: 2969] 2026-01-11-15:09:34.713.335 A timeout occurs when the Notify register waits for "
            "execution. Waiting peer rank: 24; task information: streamID:[109]",
            "CANN hcomm, unverified",
        ),
        (
            "EI9999: 2024-10-21-10:42:00.358.410  The error from device(chipId:3, dieId:0), serial number is 9, hccl "
            "fftsplus task timeout occurred during task execution, stream_id:5, sq_id:5, task_id:38827, stuck notify "
            "num:1, timeout:30min(default).[FUNC:ProcessStarsHcclFftsPlusTimeoutErrorInfo][FILE:device_error_proc.cc][LIN"
            "E:1435]",
            "https://github.com/Ascend/pytorch/issues/54",
        ),
        (
            "EE1002: 2024-09-03-16:50:00.041.231 Stream synchronize timeout. rtDeviceSynchronize execute failed, "
            "reason=[stream sync timeout]",
            "https://github.com/Ascend/pytorch/issues/48",
        ),
        (
            "        rtDeviceSynchronize execute failed, reason=[task timeout][FUNC:FuncErrorReason][FILE:error_message_m"
            "anage.cc][LINE:53]",
            "https://github.com/Ascend/pytorch/issues/43",
        ),
        (
            "npuSynchronizeDevice:/usr1/02/workspace/pytorch/torch_npu/csrc/core/npu/NPUStream.cpp:370 NPU error, error "
            "code is 107020.",
            "https://github.com/hiyouga/LlamaFactory/pull/975",
        ),
    ),
    "hccl-port": (
        (
            "EJ0003: [PID: 159] 2025-03-26-17:01:02.816.428 Failed to bind the IP port. Reason: The IP address and port "
            "have been bound already.",
            "https://github.com/vllm-project/vllm-ascend/issues/405",
        ),
        (
            "EI0019: [PID: 159] 2026-03-26-17:01:02.816.428 Failed to enable listening for the host network adapter "
            "socket. Reason: The port has been bound already",
            "CANN hcomm, unverified",
        ),
        (
            "        host nic listen start failed, port[60000], return[11][FUNC:StartListenSocket][FILE:network_manager.c"
            "c][LINE:1163]",
            "https://github.com/vllm-project/vllm-ascend/issues/405",
        ),
        (
            "[ERROR] HCCL(60570,):2025-12-04-14:46:07.911.312 [hccl_socket.cc:106] [60570][HcclSocket][Listen] socket "
            "type[0], listen on ip[192.2.2.195] and specific port[16666] fail. Please check the port status and whether "
            "the port is being used by other process.",
            "https://github.com/vllm-project/vllm-ascend/issues/4725",
        ),
    ),
    "npu-operator-failed": (
        (
            "[Error]: The vector core execution is abnormal.",
            "https://github.com/Ascend/pytorch/issues/66",
        ),
        (
            "RuntimeError: npuSynchronizeDevice:torch_npu/csrc/core/npu/NPUStream.cpp:506 NPU function error: "
            "AclrtSynchronizeDeviceWithTimeout, error code is 507015",
            "https://github.com/tile-ai/tilelang-ascend/issues/82",
        ),
        (
            "[Error]: Vector core execution timed out.",
            "torch_npu, unverified",
        ),
        (
            "  Message info[0]:RTS_HWTS: aicore exception, slot_id=31, stream_id=3",
            "https://github.com/hiyouga/LlamaFactory/issues/3670",
        ),
        (
            "EZ9999  Kernel task happen error, retCode=0x2a, [aicpu exception].[FUNC:PreCheckTaskErr][FILE:task.cc][LINE:"
            "1068]",
            "https://github.com/open-mmlab/mmcv/issues/3203",
        ),
        (
            "        Aicpu kernel execute failed, device_id=0, stream_id=3, "
            "task_id=0.[FUNC:PrintAicpuErrorInfo][FILE:task.cc][LINE:774]",
            "https://github.com/open-mmlab/mmcv/issues/3203",
        ),
        (
            "EZ9999: [PID: 1234255] 2025-11-08-21:35:27.904.479 The error from device(chipId:7, dieId:0), serial number "
            "is 134, there is an exception of fftsplus aivector error, core id is 32, error code = 0x800000",
            "https://github.com/tile-ai/tilelang-ascend/issues/82",
        ),
    ),
    "npu-not-started": (
        (
            "[Error]: Failed to start the device.",
            "https://github.com/Ascend/pytorch/issues/67",
        ),
        (
            "        open device 2 failed, runtime result = 507033.[FUNC:ReportCallError][FILE:log_inner.cpp][LINE:148]",
            "https://github.com/hw-native-sys/PTOAS/pull/341",
        ),
        (
            "RuntimeError: LazySetDevice:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:264 NPU function error: "
            "c10_npu::SetDevice(device), error code is 507033",
            "https://github.com/vllm-project/vllm-ascend/issues/6935",
        ),
        (
            "E30006: 2025-11-19-11:14:58.516.606 Failed to verify the OPP",
            "https://github.com/vllm-project/vllm-ascend/issues/4284",
        ),
        (
            "        Start aicpu executor failed, retCode=0x7020009 devId=0[FUNC:DeviceRetain][FILE:runtime.cc][LINE:3810]",
            "https://github.com/vllm-project/vllm-ascend/issues/4284",
        ),
    ),
    "npu-not-visible": (
        (
            "EE9999: [PID: 540988] 2025-04-27-03:11:08.089.335 get error: phyid:1 realDeviceId:1 is err:0x7010003"
            "[FUNC:GetDeviceIndexByPhyId][FILE:api_error.cc][LINE:1918]",
            "https://github.com/vllm-project/vllm-ascend/issues/672",
        ),
        (
            "        rtGetDeviceIndexByPhyId execute failed, reason=[device id error][FUNC:FuncErrorReason]"
            "[FILE:error_message_manage.cc][LINE:53]",
            "https://github.com/vllm-project/vllm-ascend/issues/672",
        ),
    ),
    "npu-initialized-twice": (
        (
            "[Error]: Repeated initialization or repeated loading.",
            "https://github.com/BytePioneer-AI/PaddleOCR-NPU/issues/9",
        ),
        (
            "Loading operator with error:Initialize:torch_npu/csrc/core/npu/sys_ctrl/npu_sys_ctrl.cpp:135 NPU error, "
            "error code is 100002",
            "https://github.com/BytePioneer-AI/PaddleOCR-NPU/issues/9",
        ),
    ),
    "cann-python": (
        (
            "EC0010: [PID: 129520] 2025-07-08-10:25:28.680.962 Failed to import Python module [ModuleNotFoundError: No "
            "module named 'decorator'.].",
            "CANN, unverified",
        ),
        (
            "EH9999  [Init][Env]init env failed![FUNC:ReportInnerError][FILE:log_inner.cpp][LINE:145]",
            "https://github.com/Ascend/pytorch/issues/7",
        ),
    ),
    "npu-error": (
        (
            "[ERROR] 2024-05-21-11:57:54 (PID:927000, Device:3, RankID:3) ERR02200 DIST call hccl api failed.",
            "https://github.com/hiyouga/LlamaFactory/issues/3839",
        ),
        (
            "RuntimeError: create_config:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:102 HCCL function error: "
            "hcclCommInitRootInfoConfig(numRanks, &rootInfo, rank, config, &(comm->hcclComm_)), error code is 15",
            "https://github.com/vllm-project/vllm-ascend/issues/672",
        ),
        (
            "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64",
            "https://github.com/hiyouga/LlamaFactory/issues/3839",
        ),
        (
            "        Rectify the fault based on the error information in the ascend log.",
            "https://github.com/Ascend/pytorch/issues/48",
        ),
        (
            "EZ9999: [PID: 62938] 2025-05-27-06:52:12.455.807 numHeads / numKvHeads = 8, MLA only support {32, 64, 128}."
            "[FUNC:CheckMlaAttrs][FILE:incre_flash_attention_tiling_check.cc][LINE:1218]",
            "https://github.com/vllm-project/vllm-ascend/blob/main/docs/source/faqs.md",
        ),
        (
            "EE9999: Inner Error!",
            "https://github.com/vllm-project/vllm-ascend/issues/672",
        ),
        (
            "RuntimeError: ACL stream synchronize failed.",
            "https://github.com/Ascend/pytorch/issues/54",
        ),
        (
            "RuntimeError: The Inner error is reported as above.",
            "https://github.com/hiyouga/LlamaFactory/issues/3670",
        ),
        (
            "[ERROR] HCCL(36035,mindie_llm_backend_connector):2025-05-13-02:25:58.068.817 [op_base.cc:974][36818][Init][CommRootInfoConfig]errNo[0x0000000005000002]HcclCommInitRootInfo failed.",
            "https://github.com/gpustack/gpustack/issues/2021",
        ),
        (
            "[2025-05-13 02:25:58.64217] [error] [36815] [hccl_runner.cpp:132] AllGatherHcclRunner:0 HcclCommInitRootInfo fail, error:2, rank:1, rankSize:4",
            "https://github.com/gpustack/gpustack/issues/2021",
        ),
    ),
    "npu-exit-report": (
        (
            "[ERROR] 2026-03-02-15:44:05 (PID:1, Device:-1, RankID:-1) ERR99999 UNKNOWN applicaiton exception",
            "https://github.com/vllm-project/vllm-ascend/issues/6935",
        ),
    ),
    "oneccl-device-files": (
        (
            "RuntimeError: oneCCL: ze_fd_manager.cpp:214 fill_device_fds: EXCEPTION: open failed: fd: -1, errno: No such "
            "file or directory",
            "https://github.com/vllm-project/vllm/issues/14747",
        ),
        (
            "RuntimeError: oneCCL: ze_fd_manager.cpp:143 init_device_fds: EXCEPTION: opendir failed: could not open "
            "device directory",
            "https://github.com/uxlfoundation/oneCCL/issues/121",
        ),
    ),
    "oneccl-local-rank": (
        (
            "to get local_idx/count from ATL, set CCL_ZE_IPC_EXCHANGE=sockets explicitly",
            "https://github.com/huggingface/accelerate/issues/2340",
        ),
        (
            "2024:01:15-03:36:29:(1980058) |CCL_ERROR| global.cpp:150 getenv_local_coord: condition "
            "global_data::env().ze_ipc_exchange == ccl::ze::ipc_exchange_mode::sockets failed",
            "https://github.com/huggingface/accelerate/issues/2340",
        ),
    ),
    "oneccl-error": (
        (
            "2025:08:14-14:34:47:(19220) |CCL_ERROR| comm_selector.cpp:57 create_comm_impl: condition "
            "ccl::global_data::get().ze_data failed",
            "oneCCL 2021.15, run",
        ),
        (
            "RuntimeError: oneCCL: comm_selector.cpp:57 create_comm_impl: EXCEPTION: ze_data was not initialized",
            "oneCCL, unverified",
        ),
        (
            "[rank2]: RuntimeError: oneCCL: allgatherv_ring.hpp:78 allgatherv_ring_blocking:",
            "oneCCL on Aurora, documented",
        ),
    ),
    "gaudi-acquire": (
        (
            "RuntimeError: synStatus=26 [Generic failure] Device acquire failed.",
            "https://github.com/huggingface/optimum-habana/issues/1611",
        ),
        (
            "RuntimeError: synStatus=20 [Device already acquired] Device acquire failed.",
            "https://github.com/huggingface/tgi-gaudi/issues/54",
        ),
        (
            "HCCL demo error: In function initDevice(): synDeviceAcquire(&resources.deviceHandle, nullptr) failed with "
            "synapse error: 20",
            "https://github.com/HabanaAI/hccl_demo/issues/44",
        ),
    ),
    "gaudi-compile": (
        (
            "[rank2]: RuntimeError: synNodeCreateWithId failed for node: batch_gemm with synStatus 26 [Generic failure]. .",
            "https://github.com/hiyouga/LlamaFactory/pull/7275",
        ),
        (
            "RuntimeError: Graph compile failed. synStatus=synStatus 26 [Generic failure].",
            "https://github.com/HabanaAI/vllm-fork/issues/484",
        ),
    ),
    "xla-used-before-spawn": (
        (
            "RuntimeError: Runtime is already initialized. Do not use the XLA device before calling xmp.spawn.",
            "https://github.com/pytorch/xla/issues/9303",
        ),
        (
            "RuntimeError: Cannot replicate if number of devices (1) is different from 8",
            "torch_xla, unverified",
        ),
    ),
    "toolkit-not-sourced": (
        (
            "ImportError: libhccl.so: cannot open shared object file: No such file or directory",
            "https://github.com/vllm-project/vllm-ascend/issues/262",
        ),
        (
            "ImportError: libatb.so: cannot open shared object file: No such file or directory",
            "https://github.com/vllm-project/vllm-ascend/issues/152",
        ),
        (
            "ImportError: libmccl.so.2: cannot open shared object file: No such file or directory",
            "https://github.com/MooreThreads/torch_musa/issues/102",
        ),
    ),
    "hccl-ranks-missing": (
        (
            "EI0015: [PID: 4711] 2026-01-11-15:09:34.713.335 Failed to collect cluster information of the communicator "
            "based on rootInfo detection. Reason: No rank in the communicator can connect to the root node within the "
            'timeout period. List of unconnected ranks: "[1,]".',
            "CANN hcomm, source",
        ),
    ),
    "hccl-mismatch": (
        (
            "EI0005: 2024-04-24-06:32:27.781.599 The arguments for collective communication are inconsistent between "
            "ranks:parameter count, local end 16512, remote end 8320",
            "CANN, unverified",
        ),
        (
            "EI0005: The arguments for collective communication are inconsistent between ranks: tag "
            "[HcomAllReduce_6629421139219749105_0], parameter [count], local [9556480], remote [9555712]",
            "CANN, unverified",
        ),
        (
            "EI0005: [PID: 4711] 2026-01-11-15:09:34.713.335 The parameters of operator HcomAllReduce are inconsistent "
            "between ranks, parameter count is 16512 on the local rank and 8320 on the remote rank.",
            "CANN hcomm, unverified",
        ),
    ),
    "hccl-link": (
        (
            "EI0013: [PID: 4711] 2026-01-11-15:09:34.713.335 An error CQE occurred during operator execution. Local "
            "information: server node1, device ID 0, device IP 10.0.0.1. Peer information: server node2, device ID 3, "
            "device IP 10.0.0.2.",
            "CANN hcomm, source",
        ),
        (
            "EI0009: [PID: 4711] 2026-01-11-15:09:34.713.335 Device 3 transport init error. Reason: create link failed.",
            "CANN hcomm, unverified",
        ),
        (
            "EI0012: [PID: 4711] 2026-01-11-15:09:34.713.335 SDMA memory copy task exception occurred. Remote rank: 3. "
            "Base information: streamID:[5]",
            "CANN hcomm, unverified",
        ),
    ),
    "hccl-config": (
        (
            "EI0001: [PID: 4711] 2026-01-11-15:09:34.713.335 Value eth9 for environment variable HCCL_SOCKET_IFNAME is "
            "invalid. Expected value: an interface of this host.",
            "CANN hcomm, unverified",
        ),
        (
            "EI0004: [PID: 4711] 2026-01-11-15:09:34.713.335 Failed to parse the ranktable file /home/u/rank_table.json. "
            "Reason: the file does not exist",
            "CANN hcomm, unverified",
        ),
        (
            "EI0017: [PID: 4711] 2026-01-11-15:09:34.713.335 Config device_ip is missing in the ranktable file.",
            "CANN hcomm, unverified",
        ),
    ),
    "accelerator-number": (
        (
            "[ERROR] ASCENDCL(42,python):2025-11-18-09:33:13.673.913 [device.cpp:54]58 aclrtSetDeviceImpl: open device 0 "
            "failed, runtime result = 107001.",
            "https://github.com/gpustack/gpustack/issues/3352",
        ),
        (
            "[ERROR] RUNTIME(42,python):2025-11-18-09:33:13.673.818 [api_error.cc:2350]58 SetDevice:Set visible device "
            "failed, invalid device=0, input visible devices:4",
            "https://github.com/gpustack/gpustack/issues/3352",
        ),
        (
            "RuntimeError: SetDevice:torch_npu/csrc/core/npu/NPUFunctions.cpp:115 NPU function error: "
            "aclrtSetDevice(device), error code is 107001",
            "torch_npu, unverified",
        ),
    ),
    "accelerator-not-in-torch": (
        (
            "AssertionError: Torch not compiled with XPU enabled",
            "https://github.com/intel/intel-xpu-backend-for-triton/issues/2014",
        ),
        (
            "RuntimeError: PyTorch is not linked with support for mps devices",
            "https://github.com/pytorch/pytorch/issues/77867",
        ),
        (
            "RuntimeError: No XPU devices are available.",
            "https://github.com/vladmandic/sdnext/issues/3808",
        ),
    ),
    "no-backend-for-accelerator": (
        (
            "[rank0]: NotImplementedError: The operator 'c10d::broadcast_' is not currently implemented for the XPU device.",
            "https://github.com/ultralytics/ultralytics/issues/20964",
        ),
        (
            "RuntimeError: No backend type associated with device type xpu",
            "https://github.com/intel/torch-xpu-ops/issues/1328",
        ),
        (
            "RuntimeError: broadcast isn't implemented on backend [xpu]",
            "https://github.com/intel/torch-ccl/issues/33",
        ),
        (
            "RuntimeError: ProcessGroupGloo::allgather: invalid tensor type at index 0 (expected TensorOptions(dtype=long long, device=cpu, layout=Strided), got TensorOptions(dtype=long long, device=mps:0, layout=Strided))",
            "https://github.com/ultralytics/ultralytics/pull/15701",
        ),
        (
            "ValueError: You set `strategy=<pytorch_lightning.strategies.ddp.DDPStrategy object at 0x32537cc40>` but strategies from the DDP family are not supported on the MPS accelerator. Either explicitly set `accelerator='cpu'` or change the strategy.",
            "https://github.com/TomAIDD/NaFM-Official/pull/2",
        ),
    ),
    "xla-mesh-lost": (
        (
            "RuntimeError: tensorflow/compiler/xla/xla_client/mesh_service.cc:316 : Check failed: impl_->channel->WaitForConnected( std::chrono::system_clock::now() + std::chrono::seconds(connect_wait_seconds)) ",
            "https://github.com/pytorch/xla/issues/2651",
        ),
        (
            "UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout. This indicates that the remote task has failed, got preempted, or crashed unexpectedly.",
            "https://github.com/EleutherAI/architecture-objective/issues/26",
        ),
        (
            "Exception in device=TPU:3: tensorflow/compiler/xla/xla_client/mesh_service.cc:243 : Failed to meet "
            "rendezvous 'init': Socket closed (14)",
            "https://github.com/pytorch/xla/issues/2119",
        ),
        (
            "Failed to connect to client mesh master: d7c1c93dfe8c:56419",
            "https://github.com/pytorch/xla/issues/2604",
        ),
        (
            "W    2250 tensorflow/core/distributed_runtime/rpc/grpc_remote_master.cc:160] RPC failed with status = "
            '"Unavailable: Socket closed" and grpc_error_string = "...", maybe retrying the RPC',
            "https://github.com/pytorch/xla/issues/2361",
        ),
    ),
    "npu-kernels-missing": (
        ("        Op Cast does not has any binary.", "https://github.com/hiyouga/LlamaFactory/issues/3796"),
        (
            "RuntimeError: call aclnnSwiGlu failed, detail:EZ1001: [PID: 72153] 2025-03-04-15:41:40.695.851 Get path and read binary_info_config.json failed, please check if the opp_kernel package is installed",
            "https://github.com/vllm-project/vllm-ascend/issues/237",
        ),
        (
            "EZ9999  Cannot parse json for config file [/usr/local/Ascend/ascend-toolkit/latest/opp/built-in/op_impl/ai_core/tbe//kernel/config/ascend910/cast.json].",
            "https://github.com/hiyouga/LlamaFactory/issues/3796",
        ),
        (
            "EZ9999: 2025-04-02-00:54:30.240.432  Parse dynamic kernel config fail.",
            "https://github.com/gpustack/gpustack/issues/1514",
        ),
        ("        launch failed for Cast, errno:561000.", "https://github.com/hiyouga/LlamaFactory/issues/3796"),
    ),
    "npu-chip-unsupported": (
        ("Unsupported SOC version: Ascend310B4", "https://github.com/Ascend/pytorch/issues/57"),
        (
            "ValueError: Unsupported soc_version: AscendSocVersion.UNDEFINED",
            "https://github.com/vllm-project/vllm-ascend/issues/2795",
        ),
        ("RuntimeError: Can not support soc_version: 104.", "https://github.com/vllm-project/vllm-ascend/issues/6796"),
    ),
    "accelerator-operator-missing": (
        (
            "NotImplementedError: The operator 'aten::_slow_conv2d_forward' is not currently implemented for the MPS device. If you want this op to be added",
            "https://github.com/pytorch/pytorch/issues/86195",
        ),
        (
            "NotImplementedError: The operator 'aten::_index_put_impl_' is not current implemented for the MPS device.",
            "https://github.com/invoke-ai/InvokeAI/pull/232",
        ),
    ),
    "npu-versions-differ": (
        (
            "ImportError: /usr/local/python3.10.14/lib/python3.10/site-packages/torch_npu/lib/libtorch_npu.so: undefined symbol: _ZN3atb15CreateOperationINS_5infer14GroupTopkParamEEEiRKT_PPNS_9OperationE",
            "https://github.com/vllm-project/vllm-ascend/issues/117",
        ),
        (
            "OSError: /home/mtp/Ascend/nnal/atb/latest/atb/cxx_abi_1/lib/libtbe_adapter.so: undefined symbol: _ZN3Mki2DlC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEb",
            "https://github.com/Ascend/pytorch/issues/99",
        ),
    ),
    "libtpu-versions-differ": (
        (
            "2022-10-18 09:11:20.075933: F ./tensorflow/core/tpu/tpu_library_init_fns.inc:100] TpuEmbeddingEngine_CollateMemory not available in this library.",
            "https://github.com/pytorch/xla/issues/4103",
        ),
    ),
    "tpu-halted": (
        (
            "INTERNAL: Accelerator device halted prematurely, perhaps due to an on-device check-failure.",
            "https://github.com/pytorch/xla/issues/7138",
        ),
        (
            "status: INTERNAL: Core halted unexpectedly: INTERNAL: Accelerator device halted prematurely, perhaps due to an on-device check-failure.",
            "https://github.com/pytorch/xla/issues/7138",
        ),
    ),
    "xpu-no-fp64": (
        ('invalid_kernel("uses-fp64-math")', "https://github.com/intel/intel-extension-for-pytorch/issues/285"),
    ),
    "xpu-runtime-error": (
        (
            "RuntimeError: UR error",
            "https://github.com/pytorch/pytorch/issues/149953",
        ),
    ),
    "tpu-pod-incomplete": (
        (
            "RuntimeError: Bad StatusOr access: UNKNOWN: TPU initialization failed: Failed to get global TPU topology.",
            "https://github.com/google/gemma_pytorch/issues/25",
        ),
        (
            "RuntimeError: Bad StatusOr access: UNKNOWN: TPU initialization failed: Invalid --2a886c8_slice_builder_worker_addresses specified. Expected 4 worker addresses, got 1.",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/20244",
        ),
    ),
    "neuron-runtime": (
        (
            "RuntimeError: Neuron runtime cannot be initialized; cannot determine the number of available NeuronCores",
            "https://github.com/aws-neuron/aws-neuron-samples/issues/44",
        ),
        (
            "2022-Mar-29 07:07:29.0082    11:11    ERROR   NRT:nrt_init                                Unable to determine Neuron Driver version. Please check aws-neuron-dkms package is installed.",
            "https://github.com/aws-solutions-library-samples/guidance-for-machine-learning-inference-on-aws/issues/2",
        ),
    ),
    "neuron-device-busy": (
        (
            "2024-May-21 16:08:34.244955 58100:58100 ERROR  TDRV:tdrv_init_mla_phase1                    Could not open the nd3",
            "https://github.com/aws-neuron/aws-neuron-sdk/issues/851",
        ),
    ),
    "rocblas-kernels-missing": (
        (
            "rocBLAS error: Cannot read /opt/rocm-5.4.0/lib/rocblas/library/TensileLibrary.dat: Illegal seek",
            "https://github.com/ROCm/rocBLAS/issues/1339",
        ),
        (
            "rocBLAS error: Cannot read C:\\Program Files\\AMD\\ROCm\\6.1\\bin\\/rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx1103",
            "https://github.com/brknsoul/ROCmLibs/issues/4",
        ),
    ),
    "amd-visible-devices-both": (
        (
            "ValueError: Please don't set ROCR_VISIBLE_DEVICES when HIP/CUDA_VISIBLE_DEVICES is set.",
            "verl 0.9, source",
        ),
        (
            "AssertionError: Please use the same HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES, inconsistant values found: 0,1 and 2,3.",
            "verl 0.9, source",
        ),
    ),
    "oneccl-worker": (
        (
            "2023:11:28-16:35:45:(35980) |CCL_ERROR| base_thread.cpp:36 start: error while creating worker thread #0 pthread_create returns 22",
            "https://github.com/intel/torch-ccl/issues/54",
        ),
        (
            "RuntimeError: oneCCL: exec.cpp:134 start_workers: EXCEPTION: failed to start worker # 0",
            "https://github.com/intel/torch-ccl/issues/54",
        ),
    ),
}
