"""Printed texts of `ddpkit/diagnosis/catalogue/cuda.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "cuda-out-of-memory": (
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.12 GiB is free.",
            "torch 2.6, source",
        ),
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total capacity; 21.99 GiB already allocated)",
            "torch 2.0, documented",
        ),
        ("RuntimeError: CUDA error: out of memory", "CUDA 12.9, source"),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "torch 2.2, source",
        ),
        ("node1:10:99 [3] NCCL WARN Cuda failure 2 'out of memory'", "NCCL 2.21, source"),
        ("cudaErrorMemoryAllocation: out of memory", "CUDA 12.9, source"),
        (
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 7 has a total "
            "capacity of 287.98 GiB of which 203.49 GiB is free.",
            "https://github.com/pytorch/pytorch/issues/175431",
        ),
        (
            "RuntimeError: cuda runtime error (2) : out of memory at THCStorage.cu:58",
            "torch 1.2, source",
        ),
        (
            "RuntimeError: Triton Error [CUDA]: out of memory",
            "triton 3.1, source",
        ),
        (
            'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1154, please report a bug to PyTorch.',
            "torch 2.1, source",
        ),
        (
            "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)",
            "torch 2.4, source",
        ),
        (
            "RuntimeError: CUDA driver error: out of memory",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: HIP error: out of memory",
            "torch ROCm, unverified",
        ),
        (
            "torch.OutOfMemoryError: Allocation on device",
            "torch, unverified",
        ),
        (
            "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
            "torch 2.13 and cuDNN 9.24, source",
        ),
        (
            "RuntimeError: No executable batch size found, reached zero.",
            "accelerate 1.15, source",
        ),
        (
            'RuntimeError: handle_0 INTERNAL ASSERT FAILED at "../c10/cuda/driver_api.cpp":15, please report a bug to PyTorch.',
            "https://github.com/pytorch/pytorch/issues/115618",
        ),
    ),
    "device-assert": (
        (
            "../aten/src/ATen/native/cuda/NLLLoss2d.cu:103: nll_loss2d_forward_kernel: block: [5,0,0], thread: [996,0,0] Assertion `t >= 0 && t < n_classes` failed.",
            "https://github.com/milesial/Pytorch-UNet/issues/375",
        ),
        (
            "RuntimeError: CUDA error: device-side assert triggered",
            "https://github.com/milesial/Pytorch-UNet/issues/258",
        ),
        ("cudaErrorAssert: device-side assert triggered", "CUDA 12.9, source"),
        (
            "RuntimeError: cuda runtime error (59) : device-side assert triggered at Loss.cu:58",
            "torch 1.4, source",
        ),
    ),
    "illegal-memory-access": (
        (
            "torch.AcceleratorError: CUDA error: operation not supported on global/shared address space",
            "a kernel that writes beyond its tensor, torch 2.11 on an H100, run",
        ),
        (
            "Segmentation fault from GPU at 0xff00ffffffe00000, ctx_id: 1 (CCS) type: 0 (NotPresent), level: 1 (PDE), access: 0 (Read), banned: 1, aborting.",
            "https://github.com/intel/torch-xpu-ops/issues/1956",
        ),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "CUDA 12.9, source"),
        ("torch.AcceleratorError: CUDA error: unspecified launch failure", "CUDA 12.9, source"),
        (
            "NVRM: Xid (PCI:0000:4f:00): 31, pid=1896, Ch 00000010, intr 10000000. MMU Fault",
            "https://docs.nvidia.com/deploy/xid-errors/",
        ),
        ("cudaErrorIllegalAddress: an illegal memory access was encountered", "CUDA 12.9, source"),
        ("RuntimeError: CUDA error: misaligned address", "CUDA 12.9, source"),
        ("RuntimeError: CUDA error: an illegal instruction was encountered", "CUDA 12.9, source"),
        (
            "RuntimeError: cuda runtime error (74) : misaligned address at /pytorch/aten/src/THC/generic/THCTensorCopy.cpp:20",
            "torch, unverified",
        ),
        (
            "node1:146:146 [0] enqueue.cc:1672 NCCL WARN Cuda failure 'unspecified launch failure'",
            "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/957",
        ),
    ),
    "no-kernel-image": (
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "https://github.com/pytorch/pytorch/issues/81883",
        ),
        (
            "NVIDIA RTX A6000 with CUDA capability sm_86 is not compatible with the current PyTorch installation.",
            "https://github.com/jiangyzy/GOAE/issues/16",
        ),
        (
            "RuntimeError: HIP error: invalid device function",
            "torch 2.3 ROCm, source",
        ),
        (
            "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
            "ROCm 5.4, source",
        ),
        (
            "gcn75:2336636:2336906 [0] enqueue.cc:58 NCCL WARN Cuda failure 'named symbol not found'",
            "https://github.com/NVIDIA/nccl/issues/1372",
        ),
        (
            "'sm_120' is not a recognized processor for this target (ignoring processor)",
            "https://github.com/pytorch/pytorch/issues/148551",
        ),
        (
            "ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'",
            "ptxas 13.0, run",
        ),
        (
            "ptxas /tmp/fileuxWqTL, line 6; error   : PTX .version 7.4 does not support .target sm_89",
            "https://github.com/karpathy/nanoGPT/issues/525",
        ),
        (
            "RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)",
            "https://github.com/StelaBou/HyperReenact/issues/7",
        ),
        (
            "Error named symbol not found at line 117 in file /home/tim/git/bitsandbytes/csrc/ops.cu",
            "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/566",
        ),
        (
            "RuntimeError: cuda runtime error (8) : invalid device function at /opt/conda/conda-bld/pytorch/work/aten/src/THC/THCTensorCopy.cu:51",
            "torch 0.4, unverified",
        ),
    ),
    "no-cuda-gpus": (
        ("RuntimeError: No CUDA GPUs are available", "torch 2.13, source"),
        (
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver",
            "torch 2.13, source",
        ),
        ("AssertionError: Torch not compiled with CUDA enabled", "torch 2.13, run"),
        (
            "lightning_fabric.utilities.exceptions.MisconfigurationException: No supported gpu backend found!",
            "Lightning, source",
        ),
        ("RuntimeError: CUDA error: no CUDA-capable device is detected", "CUDA 12.9, source"),
        (
            "RuntimeError: Attempting to deserialize object on a CUDA device but "
            "torch.cuda.is_available() is False. If you are running on a CPU-only machine, please use "
            "torch.load with map_location=torch.device('cpu')",
            "torch 2.13, run",
        ),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
            "that the latest NVIDIA driver is installed and running.",
            "https://github.com/mattshma/bigdata/issues/108",
        ),
        (
            "RuntimeError: No HIP GPUs are available",
            "torch 2.3 ROCm, source",
        ),
        (
            "RuntimeError: NCCL backend requested, CUDA is missing",
            "torch 1.8, documented",
        ),
        (
            "RuntimeError: device is cuda but CUDA is not available",
            "torch 2.1, documented",
        ),
        (
            "Warning: Torch did not find available GPUs on this system.",
            "apex, source",
        ),
        (
            " But your machine only has: []",
            "Lightning 2.2, source",
        ),
        (
            "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
            "torch 2.13, source",
        ),
        (
            "lightning.fabric.utilities.exceptions.MisconfigurationException: `CUDAAccelerator` can not run on your system since the accelerator is not available.",
            "Lightning 2.2, source",
        ),
        (
            "ValueError: FP16 Mixed precision training with AMP or APEX (`--fp16`) and FP16 half precision evaluation (`--fp16_full_eval`) can only be used on CUDA devices.",
            "transformers 4.30, source",
        ),
        (
            "ValueError: fp16 mixed precision requires a GPU (not 'cpu').",
            "accelerate 1.3, source",
        ),
        (
            "AssertionError: cuda is not available. Please check your installation.",
            "detectron2, unverified",
        ),
        (
            "ValueError: Type fp16 is not supported.",
            "DeepSpeed 0.12, source",
        ),
        ("RuntimeError: HIP error: no ROCm-capable device is detected", "ROCm, unverified"),
        (
            "RuntimeError: 0 active drivers ([]). There should only be one.",
            "Triton 3.6.0, source",
        ),
        (
            "   [[ No CUDA-capable device is detected (error 100) ]]",
            "nvidia_entrypoint.sh, source",
        ),
        (
            "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.",
            "nvidia_entrypoint.sh, source",
        ),
        (
            "ERROR: No supported GPU(s) detected to run this container",
            "nvidia_entrypoint.sh, unverified",
        ),
        (
            "RuntimeError: Unable to proceed, no GPU resources available",
            "DeepSpeed 0.19, source",
        ),
        (
            "NotImplementedError: Unsloth cannot find any torch accelerator? You need a GPU.",
            "unsloth, source",
        ),
        (
            "  what():  HIP error: hipErrorNoDevice",
            "https://github.com/harryjo97/GDSS/issues/6",
        ),
        (
            "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found",
            "https://github.com/securefederatedai/openfederatedlearning/issues/299",
        ),
        (
            "ValueError: You requested to find 2 devices but there are no visible CUDA devices on this machine.",
            "lightning 2.5, source",
        ),
        (
            "MisconfigurationException: GPUs requested but none are available.",
            "lightning 2.5, source",
        ),
        (
            "Failed to initialize NVML: Driver Not Loaded",
            "nvidia-smi 535, unverified",
        ),
    ),
    "cuda-compat-refused": (
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 804: forward compatibility was attempted on non supported HW",
            "torch 2.11 with CUDA 13.0, cuInit returned 804, run",
        ),
        (
            "   [[ Forward compatibility was attempted on non supported HW (error 804) ]]",
            "nvidia_entrypoint.sh, source",
        ),
    ),
    "cuda-init-failed": (
        (
            "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.",
            "torch 2.11 with CUDA 13.0, cuInit returned 999, run",
        ),
        (
            "RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu.",
            "torch 2.11 with CUDA 13.0, cuInit returned 3, run",
        ),
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
            "torch 2.2, source",
        ),
        (
            "UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment",
            "torch 2.2, source",
        ),
        ("RuntimeError: CUDA error: initialization error", "CUDA 12.9, source"),
        (
            "cupy.cuda.runtime.CUDARuntimeError: cudaErrorSystemNotReady: system not yet initialized",
            "https://github.com/cupy/cupy/issues/2845",
        ),
        ("RuntimeError: CUDA error: system not yet initialized", "CUDA 12.9, source"),
        ("cuInit(0) failed: CUDA_ERROR_SYSTEM_NOT_READY", "https://github.com/jax-ml/jax/pull/34113"),
        (
            "RuntimeError: cuda runtime error (802) : system not yet initialized at THCGeneral.cpp:50",
            "https://github.com/pytorch/pytorch/issues/35710",
        ),
        (
            "node155:3052669:3052669 [1] misc/cudawrap.cc:36 NCCL WARN Cuda failure 3 'initialization error'",
            "https://github.com/pytorch/pytorch/issues/130113",
        ),
        (
            "fabric manager NVIDIA GPU driver interface version 535.54.03 don't match with driver version 535.104.12. Please update with matching NVIDIA driver package.",
            "fabric manager, unverified",
        ),
        (
            "RuntimeError: cuda runtime error (999) : unknown error at /opt/conda/conda-bld/pytorch/work/aten/src/THC/THCGeneral.cpp:47",
            "https://github.com/pytorch/pytorch/issues/43281",
        ),
        (
            "ERROR: The NVIDIA Driver is present, but CUDA failed to initialize.  GPU functionality will not be available.",
            "https://github.com/ai-dynamo/nixl/issues/441",
        ),
        (
            "   [[ System not yet initialized (error 802) ]]",
            "nvidia_entrypoint.sh, source",
        ),
    ),
    "driver-library-mismatch": (
        ("Failed to initialize NVML: Driver/library version mismatch", "NVIDIA driver, documented"),
        ("Failed to initialize NVML: Unknown Error", "NVIDIA driver, documented"),
        ("UserWarning: Can't initialize NVML", "torch 2.13, source"),
        (
            "tensorpack.utils.nvml.NvmlException: NVML_ERROR_LIB_RM_VERSION_MISMATCH",
            "https://github.com/tensorpack/tensorpack/issues/1244",
        ),
        (
            "pynvml.nvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.",
            "https://github.com/rapidsai/dask-cuda/issues/949",
        ),
        (
            "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/29",
        ),
        (
            "NVRM: API mismatch: the client has the version 535.104.05, but",
            "NVIDIA open-gpu-kernel-modules, source",
        ),
        (
            "[rank0]: nvmlInit_v2() failed: Driver/library version mismatch",
            "NCCL, unverified",
        ),
    ),
    "cudnn-error": (
        ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "torch, source"),
        (
            "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found runtime version (8, 9, 7).",
            "torch 2.6, source",
        ),
        ("RuntimeError: Unable to find a valid cuDNN algorithm to run convolution", "torch 2.2, source"),
        (
            "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: cannot open "
            "shared object file: No such file or directory",
            "https://github.com/daswer123/xtts-finetune-webui/issues/31",
        ),
        (
            "RuntimeError: GET was unable to find an engine to execute this computation",
            "torch 2.1, source",
        ),
        (
            "RuntimeError: Unable to find an engine to execute this computation",
            "torch 1.13, source",
        ),
        (
            "RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: Tensor strides not set.",
            "torch, unverified",
        ),
        (
            "RuntimeError: /workspace/ft-llm/TransformerEngine/transformer_engine/common/fused_attn/fused_attn_fp8.cu:2066 in function operator(): cuDNN Error: Tensor 'sdpa_fp8::Amax_O' strides not set.. For more information, enable cuDNN error logging by setting CUDNN_LOGERR_DBG=1 and CUDNN_LOGDEST_DBG=stderr in the environment",
            "https://github.com/mlcommons/training_results_v4.0/issues/6",
        ),
    ),
    "cudnn-no-plan": (
        (
            "RuntimeError: /data1/third_party/TransformerEngine-1.12/transformer_engine/common/fused_attn/fused_attn_f16_arbitrary_seqlen.cu:681 in function operator(): cuDNN Error: No valid engine configs for MUL_Reduction_MUL_Matmul_MUL. For more information, enable cuDNN error logging by setting CUDNN_LOGERR_DBG=1 and CUDNN_LOGDEST_DBG=stderr in the environment.",
            "https://github.com/alibaba/Pai-Megatron-Patch/issues/551",
        ),
        (
            "RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph.",
            "torch 2.5, unverified",
        ),
    ),
    "cublas-error": (
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            "torch 2.2, source",
        ),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`",
            "torch 2.2, source",
        ),
        (
            "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR",
            "torch 1.13, source",
        ),
        (
            "RuntimeError: cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`",
            "torch 2.1, source",
        ),
        (
            "Exception: cublasLt ran into an error!",
            "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/538",
        ),
        (
            "RuntimeError: /TransformerEngine/transformer_engine/common/gemm/cublaslt_gemm.cu:282 in function cublas_gemm: cuBLAS Error: the requested functionality is not supported",
            "https://github.com/ArcInstitute/evo2/issues/114",
        ),
        (
            "RuntimeError: /tmp/transformer_engine/common/util/logging.h:39 in function check_cublas_: CUBLAS Error: the requested functionality is not supported",
            "https://github.com/NVIDIA/TransformerEngine/issues/225",
        ),
        (
            "RuntimeError: /TransformerEngine/transformer_engine/common/gemm/cublaslt_gemm.cu:340 in function cublas_gemm: Assertion failed: status != CUBLAS_STATUS_NOT_SUPPORTED. Unable to find suitable cuBLAS GEMM algorithm",
            "Transformer Engine, unverified",
        ),
        (
            "RuntimeError: cublas runtime error : the GPU program failed to execute at /pytorch/aten/src/THC/THCBlas.cu:258",
            "https://github.com/daqingliu/NMTree/issues/6",
        ),
    ),
    "cuda-driver-unknown": (
        (
            "[E ProcessGroupNCCL.cpp:915] [Rank 0] NCCL watchdog thread terminated with exception: CUDA error: unknown error",
            "https://github.com/deepspeedai/DeepSpeed/issues/4648",
        ),
        (
            "ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 999 'unknown error'",
            "https://hubbid.com/blog/fixing-cuda-failure-999-unknown",
        ),
    ),
    "cuda-after-fork": (
        (
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Lightning can't create new processes if CUDA is already initialized. Did you manually call `torch.cuda.*` functions, have moved the model to the device, or allocated memory on the GPU any other way?",
            "Lightning 2.2, source",
        ),
        (
            "ValueError: To launch a multi-GPU training from your notebook, you need to avoid running any instruction using `torch.cuda` in any cell. Restart your notebook and make sure no cells use any CUDA function.",
            "https://github.com/fastai/fastai/issues/4015",
        ),
        (
            "decord._ffi.base.DECORDError: [12:18:41] /decord/src/video/nvcodec/cuda_stream.cc:20: Check failed: e == cudaSuccess || e == cudaErrorCudartUnloading CUDA: initialization error at line: 20 in file: /decord/src/video/nvcodec/cuda_stream.cc",
            "https://github.com/dmlc/decord/issues/327",
        ),
        (
            "RuntimeError: CUDA has been initialized before the `notebook_launcher` could create a forked subprocess. This likely stems from an outside import causing issues once the `notebook_launcher()` is called.",
            "accelerate 1.15, source",
        ),
        (
            "RuntimeError: cuda runtime error (3) : initialization error at /pytorch/aten/src/THC/THCGeneral.cpp:51",
            "https://github.com/pyg-team/pytorch_geometric/issues/131",
        ),
    ),
    "nccl-shm-register": (
        (
            "[1] misc/shmutils.cc:103 NCCL WARN Cuda failure 'invalid argument'",
            "https://github.com/NVIDIA/nccl/issues/1518",
        ),
    ),
    "nccl-cuda-failure": (
        ("node1:10:99 [3] NCCL WARN Cuda failure 1 'invalid argument'", "NCCL 2.21, source"),
        (
            "NCCL WARN HIP failure 'unhandled error'",
            "RCCL 2.18, source",
        ),
        ("Cuda failure 'invalid argument'", "https://github.com/ROCm/rccl/issues/1454"),
    ),
    "cuda-unknown-error": (
        ("RuntimeError: CUDA error: operation not supported", "CUDA 12.9, source"),
        (
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
            "torch 2.2, source",
        ),
        (
            "terminate called after throwing an instance of 'c10::CUDAError'",
            "https://github.com/facebookresearch/fairseq/issues/5356",
        ),
        (
            "RuntimeError: HIP error: unspecified launch failure",
            "torch 2.3 ROCm, source",
        ),
        (
            "RuntimeError: CUDA driver error: invalid argument",
            "https://github.com/hiyouga/LlamaFactory/issues/7832",
        ),
        (
            "[rank1]:[E723 15:24:43.345640432 ProcessGroupNCCL.cpp:1414] [PG 0 Rank 1] Process group watchdog thread terminated with exception: CUDA error: invalid argument",
            "torch 2.4, unverified",
        ),
    ),
    "nvlink-error": (
        (
            "NVRM: Xid (PCI:0000:4f:00): 74, pid=1896, NVLink: fatal error detected on link 3",
            "https://docs.nvidia.com/deploy/xid-errors/",
        ),
        (
            "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
            "https://github.com/MIC-DKFZ/nnUNet/issues/1519",
        ),
        (
            "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1150",
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 30 sourcetrack timeout error",
            "NVIDIA driver, unverified",
        ),
        (
            "CUDA_ERROR_CONTAINED: Invalid access of peer GPU memory over nvlink or a hardware error",
            "https://github.com/marin-community/marin/issues/8934",
        ),
    ),
    "gpu-xid": (
        (
            "[Mon Nov 10 10:00:00 2025] NVRM: Xid (PCI:0000:4f:00): 69, pid=4711, name=python, Class Error",
            "NVIDIA driver 550, documented",
        ),
        (
            "NVRM: GPU at PCI:0000:4f:00: GPU Recovery Action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            "NVIDIA driver 570, documented",
        ),
        (
            "2020/08/10 19:09:42 XidCriticalError: Xid=69 on Device=GPU-7540a9b3-eeb9-1214-1526-f93c9ea826a8, the device will go unhealthy.",
            "https://github.com/NVIDIA/k8s-device-plugin/issues/189",
        ),
    ),
    "gpu-without-bf16": (
        (
            "ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU with cuda>=11.0",
            "transformers 4.28, source",
        ),
        (
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla V100-SXM2-32GB GPU has compute capability 7.0.",
            "vLLM 0.5, source",
        ),
        (
            "RuntimeError: Current CUDA Device does not support bfloat16. Please switch dtype to float16.",
            "torch 2.1, source",
        ),
        (
            "ValueError: bf16 mixed precision requires PyTorch >= 1.10 and a supported device.",
            "accelerate 0.30, source",
        ),
        (
            "ValueError: Type bf16 is not supported on your device.",
            "DeepSpeed 0.16, source",
        ),
    ),
    "amd-gpu-fault": (
        (
            "Memory access fault by GPU node-4 (Agent handle: 0x55) on address 0x7f. Reason: Unknown.",
            "ROCm 6, source",
        ),
        (
            ":0:rocdevice.cpp:2726: Callback: Queue 0x7f aborting with error : "
            "HSA_STATUS_ERROR_MEMORY_FAULT: Agent attempted to access an inaccessible address.",
            "ROCm 6, source",
        ),
        (
            "amdgpu 0000:45:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:88 vmid:8 pasid:32769)",
            "https://github.com/ollama/ollama/issues/12915",
        ),
    ),
    "libcuda-of-other-driver": (
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination",
            "https://github.com/votchallenge/toolkit/issues/56",
        ),
        ("cudaErrorSystemDriverMismatch: the driver library and the kernel module differ", "CUDA 12.9, documented"),
        (
            "   [[ System has unsupported display driver / cuda driver combination (error 803) ]]",
            "https://github.com/ai-dynamo/nixl/issues/441",
        ),
    ),
    "state-dict-memory": (
        (
            "UserWarning: Failed to clone() tensor with name model.layers.3.mlp.up_proj.weight on rank 1. This may mean that this state_dict entry could point to invalid memory regions after returning from state_dict() call if this parameter is managed by FSDP. Please check clone implementation of model.layers.3.mlp.up_proj.weight. Error: CUDA out of memory. Tried to allocate 172.00 MiB",
            "torch 2.4, source",
        ),
    ),
    "amd-gpu-hang": (
        (
            "HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :GPU Hang",
            "https://github.com/ROCm/legacy-rocm-build/issues/4021",
        ),
        (
            "[22342.964952] [drm:mes_v11_0_submit_pkt_and_poll_completion.constprop.0 [amdgpu]] *ERROR* MES failed to response msg=3",
            "https://github.com/ROCm/legacy-rocm-build/issues/2494",
        ),
        (
            "minipc kernel: amdgpu 0000:c3:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
            "https://github.com/lamikr/rocm_sdk_builder/issues/141",
        ),
        (
            "[ 2742.462312] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring page1 timeout, signaled seq=2216, emitted seq=2218",
            "https://github.com/ROCm/xformers/issues/14",
        ),
        ("amdgpu 0000:2b:00.0: amdgpu: GPU reset begin!", "https://github.com/ROCm/xformers/issues/14"),
        ("amdgpu 0000:08:00.0: device lost from bus!", "Linux, unverified"),
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset end with ret = -62", "Linux, source"),
    ),
    "kfd-not-accessible": (
        (
            "Unable to open /dev/kfd read-write: Permission denied",
            "https://github.com/viebrix/pytorch-gfx803-for-Whisper/issues/1",
        ),
    ),
    "miopen-error": (
        ("RuntimeError: miopenStatusUnknownError", "https://github.com/ROCm/MIOpen/issues/1994"),
        (
            "kern_db.hpp:147: Internal error while accessing SQLite database: database disk image is malformed",
            "https://github.com/ROCm/MIOpen/issues/1878",
        ),
    ),
    "pcie-atomics": (
        (
            "[    5.335110] amdgpu 0000:07:00.0: PCIE atomic ops is not supported",
            "https://github.com/ROCm/legacy-rocm-build/issues/6520",
        ),
        (
            "Pcie atomics not enabled, hostcall not supported",
            "https://github.com/ROCm/legacy-rocm-build/issues/2429",
        ),
    ),
    "gpu-firmware": (
        (
            "NVRM: Xid (PCI:0000:9b:00): 119, pid=4071838, name=python, Timeout after 45s of waiting for RPC response from GPU4 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801702 0x4).",
            "https://github.com/leptonai/gpud/pull/500",
        ),
        (
            "NVRM: GPU0 Timeout waiting for RPC from GSP!",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/446",
        ),
    ),
    "gpu-cleanup": (
        (
            "NVRM: Xid (PCI:0000:4f:00): 45, pid=4711, name=python3, Ch 00000008",
            "https://docs.nvidia.com/deploy/xid-errors/",
        ),
    ),
    "fabricmanager-no-nvswitch": (
        (
            "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]",
            "https://github.com/NVIDIA/gpu-operator/issues/610",
        ),
    ),
    "nccl-not-supported": (
        (
            "[2026-04-13 19:52:24] pais-modelendpoint:508:508 [0] init.cc:426 NCCL WARN Cuda failure 'operation not supported'",
            "https://github.com/NVIDIA/nccl/issues/2101",
        ),
    ),
    "mpi-without-cuda": (
        (
            "RuntimeError: CUDA tensor detected and the MPI used doesn't have CUDA-aware MPI support",
            "https://github.com/ROCm/pytorch/issues/453",
        ),
        (
            "RuntimeError: MPI process group does not support multi-GPU collectives",
            "https://github.com/kubeflow/pytorch-operator/issues/203",
        ),
    ),
    "gpu-launch-timeout": (
        (
            "RuntimeError: CUDA error: the launch timed out and was terminated",
            "https://github.com/ultralytics/yolov5/issues/3736",
        ),
        (
            "cudaErrorLaunchTimeout",
            "CUDA 11 runtime, source",
        ),
        (
            "RuntimeError: CUDA error: the launch timed out and was terminated",
            "https://github.com/facebookresearch/unbiased-teacher/issues/80",
        ),
    ),
    "kernel-launch-refused": (
        (
            "RuntimeError: CUDA error: invalid configuration argument",
            "https://github.com/airsplay/lxmert/issues/28",
        ),
        (
            "RuntimeError: CUDA error: too many resources requested for launch",
            "CUDA 13.0, source",
        ),
    ),
    "gpu-without-fp8": (
        (
            "ValueError(\"type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')\")",
            "https://github.com/kijai/ComfyUI-WanVideoWrapper/issues/1030",
        ),
        (
            "AssertionError: CublasLt version 12.1.3.x or higher required for FP8 execution on Ada.",
            "https://github.com/NVIDIA/TransformerEngine/issues/2538",
        ),
        (
            "RuntimeError: torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or ROCm MI300+",
            "torch 2.14.1, source",
        ),
        (
            "AssertionError: FP8 block scaled GEMM requires Hopper and CUDA >= 12.9.",
            "https://github.com/NVIDIA-NeMo/RL/pull/971",
        ),
        (
            "ValueError: FP8 quantized models is only supported on GPUs with compute capability >= 9.0 (e.g H100)",
            "transformers 4.46, source",
        ),
    ),
    "attention-kernel": (
        (
            "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:",
            "https://github.com/facebookresearch/xformers/issues/1263",
        ),
        (
            "RuntimeError: FlashAttention only support fp16 and bf16 data type",
            "https://github.com/SWivid/F5-TTS/issues/1201",
        ),
        (
            "RuntimeError: FlashAttention backward for head dim > 192 requires A100/A800 or H100/H800",
            "flash-attention, unverified",
        ),
        (
            "RuntimeError: No available kernel. Aborting execution.",
            "https://github.com/pytorch/torchtitan/issues/2065",
        ),
        (
            "ValueError: No dot product attention support for the provided inputs!",
            "https://github.com/flagos-ai/FlagScale/issues/312",
        ),
        (
            "RuntimeError: Expected is_sm80 || is_sm90 to be true, but got false.",
            "torch, unverified",
        ),
        (
            "RuntimeError: FlashAttention only support fp16 and bf16 data type",
            "torch 2.14.1, source",
        ),
        (
            "RuntimeError: dout tensor must have contiguous last dimension",
            "https://github.com/Dao-AILab/flash-attention/issues/325",
        ),
        ("RuntimeError: FlashAttention only supports head dimension at most 256", "flash-attn, source"),
    ),
    "triton-resources": (
        (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 101376.",
            "triton, documented",
        ),
        (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 163840, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
            "https://github.com/pytorch/helion/issues/470",
        ),
        (
            "torch._inductor.exc.InductorError: RuntimeError: No valid triton configs. OutOfMemoryError: out of resource: triton_mm Required: 262144 Hardware limit:232448 Reducing block sizes or `num_stages` may help.",
            "torch 2.13, source",
        ),
    ),
    "cudagraph-overwritten": (
        (
            'RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run. Stack trace: File "model.py", line 7, in forward',
            "https://github.com/pytorch/pytorch/issues/148439",
        ),
    ),
    "autotune-choice": (
        (
            "E1012 00:28:45.382967 507 site-packages/torch/_inductor/select_algorithm.py:1322] [0/0] Exception out of resource: shared memory, Required: 163840, Hardware limit: 101376. Reducing block sizes or `num_stages` may help. for benchmark choice TritonTemplateCaller(/tmp/torchinductor_root/ba/cbav.py, num_stages=5)",
            "https://github.com/pytorch/ao/issues/1065",
        ),
    ),
    "device-assert-values": (
        (
            "../aten/src/ATen/native/cuda/Loss.cu:92: operator(): block: [79,0,0], thread: [118,0,0] Assertion `input_val >= zero && input_val <= one` failed.",
            "torch 2.0, source",
        ),
        (
            "/pytorch/torch/csrc/distributed/c10d/NanCheck.cu:40: checkForNaN: block: [0,0,0], thread: [3,0,0] Assertion `!isnan(data[i])` failed.",
            "torch 2.4, source",
        ),
        (
            "../aten/src/ATen/native/cuda/MultinomialKernel.cu:112: binarySearchForMultinomial: block: [0,0,0], thread: [0,0,0] Assertion `cumdist[size - 1] > static_cast<scalar_t>(0)` failed.",
            "torch 2.4, unverified",
        ),
    ),
    "triton-optional": (
        (
            "A matching Triton is not available, some optimizations will not be enabled.",
            "https://github.com/gitmylo/audio-webui/issues/202",
        ),
        (
            "Error caught was: No module named 'triton'",
            "https://github.com/gitmylo/audio-webui/issues/202",
        ),
    ),
    "nccl-gpu-memory": (
        (
            "Failed to CUDA calloc async 608 bytes",
            "NCCL 2.19, source",
        ),
        (
            "node1:100:200 [0] include/alloc.h:196 NCCL WARN Failed to CUDA calloc async 4 bytes",
            "NCCL 2.19, source",
        ),
        (
            "NCCL WARN Failed to CUDA call   include/alloc.h:497 (ncclCudaCallocAsyncDebug)",
            "NCCL 2.27, unverified",
        ),
    ),
    "cuda-memory-too-early": (
        (
            "RuntimeError: Invalid device argument : did you call init?",
            "https://github.com/axolotl-ai-cloud/axolotl/issues/2199",
        ),
    ),
    "cuda-mps": (
        (
            "RuntimeError: CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server",
            "CUDA 12, source",
        ),
        (
            "RuntimeError: CUDA error: the remote procedural call between the MPS server and the MPS client failed",
            "CUDA 12, source",
        ),
        (
            "RuntimeError: CUDA error: MPS server is not ready to accept new MPS client requests",
            "CUDA 12, source",
        ),
        (
            "RuntimeError: CUDA error: the hardware resources required to create MPS client have been exhausted",
            "CUDA 12, source",
        ),
        (
            "RuntimeError: CUDA error: the MPS client has been terminated by the server",
            "CUDA 12, source",
        ),
    ),
    "amd-out-of-resources": (
        (
            ":0:rocdevice.cpp :3671: Callback: Queue 0x7f6c84600000 Aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources. This error may also occur when the core runtime library needs to spawn threads or create internal OS-specific events. Code: 0x1008 Available Free mem : 4 MB",
            "https://github.com/ROCm/clr/issues/281",
        ),
        (
            ":0:rocdevice.cpp            :2984: 185480406807 us: [pid:17    tid:0x7f] Callback: Queue 0x7f6c84600000 aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources. code: 0x1008",
            "https://github.com/ROCm/pytorch/issues/1683",
        ),
    ),
    "allocation-absurd": (
        (
            "ERROR:root:Failed to execute the training process: CUDA out of memory. Tried to allocate more than 1EB memory.",
            "https://github.com/fudan-generative-vision/hallo/issues/139",
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.",
            "https://github.com/pytorch/pytorch/issues/145965",
        ),
    ),
    "cuda-allocator-assert": (
        (
            'RuntimeError: !block->expandable_segment_ INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":2814, please report a bug to PyTorch.',
            "https://github.com/pytorch/pytorch/issues/119452",
        ),
        (
            'RuntimeError: !handles_.at(i) INTERNAL ASSERT FAILED at "c10/cuda/CUDACachingAllocator.cpp":487, please report a bug to PyTorch.',
            "https://github.com/pytorch/pytorch/issues/188008",
        ),
    ),
    "too-many-peers": (
        (
            "RuntimeError: CUDA error: peer mapping resources exhausted",
            "https://github.com/dcharatan/pixelsplat/issues/13",
        ),
    ),
}
