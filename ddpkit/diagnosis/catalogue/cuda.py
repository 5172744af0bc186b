"""Errors of CUDA, cuDNN and cuBLAS, and of code that runs on a GPU."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="cuda-out-of-memory",
        title="CUDA out of memory",
        explains=("collectives-mismatch",),
        patterns=(
            r"Allocation on device .*would exceed allowed memory",
            r"Triton Error \[CUDA\]: out of memory",
            r"\bNVML_SUCCESS == .*INTERNAL ASSERT FAILED at .*CUDACachingAllocator",
            r"CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)",
            r"\bCUDA out of memory\b",
            r"\bCUDA error: out of memory\b",
            r"\bcudaErrorMemoryAllocation\b",
            r"CUBLAS_STATUS_ALLOC_FAILED",
            r"HIP out of memory\. Tried to allocate",
            r"Cuda failure (?:\d+ )?'out of memory'",
            r"cuda runtime error \(2\) : out of memory",
            r"CUDA driver error: out of memory",
            r"\bHIP error: out of memory",
            r"OutOfMemoryError: Allocation on device",
            r"CUDNN_STATUS_ALLOC_FAILED",
            r"No executable batch size found, reached zero",
            r"handle_\d INTERNAL ASSERT FAILED at \S*driver_api\.cpp",
        ),
        cause="the GPU's memory is full. The model, batch or sequence is too large, or another process uses a part of "
        "it. At the very start, that is usually a rank of an earlier run",
        probe="nvidia-smi; in the script: print(torch.cuda.memory_summary())",
        fix="reduce the batch per rank (with gradient accumulation), or use activation checkpointing, bf16 or FSDP. "
        "Against fragmentation: `export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`",
        instead=(Instead(of=("own-exception",), text=r"RayTaskError\(OutOfMemoryError\)"),),
        link="https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
    ),
    Entry(
        id="state-dict-memory",
        # Of `CUDA out of memory`, the frames of its traceback decide, too: see ddpkit.diagnosis.log_reader.
        title="CUDA out of memory while FSDP or ZeRO-3 gathers the state dict; Failed to clone() tensor with name",
        patterns=(r"Failed to clone\(\) tensor with name .*\bout of memory",),
        explains=("cuda-out-of-memory",),
        cause="the GPU's memory is full while the whole model is gathered for a checkpoint. Each rank collects all "
        "parameters on its GPU. A checkpoint that was written in spite of this is not usable",
        probe="the size of the model in bytes, compared with the free memory of nvidia-smi",
        fix="gather on the CPU of rank 0 alone: FullStateDictConfig(offload_to_cpu=True, rank0_only=True), or "
        "StateDictOptions(full_state_dict=True, cpu_offload=True). Or save shards: SHARDED_STATE_DICT, "
        "torch.distributed.checkpoint; DeepSpeed: stage3_gather_16bit_weights_on_model_save false, then zero_to_fp32.py",
        instead=(
            Instead(
                of=("cuda-out-of-memory",),
                frames=r"""_state_dict_utils\.py\"|in (?:_\w*post_state_dict_hook|get_(?:model_|optimizer_)?state_dict|_zero3_consolidated\w+)\b""",
                unless=r"in \w*load_state_dict|in set_(?:model_|optimizer_)?state_dict",
            ),
        ),
        link="https://docs.pytorch.org/docs/stable/fsdp.html#torch.distributed.fsdp.FullStateDictConfig",
    ),
    Entry(
        id="device-assert-values",
        title="Assertion `input_val >= zero && input_val <= one` failed; Assertion `!isnan(val)` failed",
        patterns=(
            r"Assertion `(?P<assertion>!isnan\(.*?\)|input_val >= zero && input_val <= one|cumdist\[.*?\] > .*?)` failed",
        ),
        explains=("device-assert",),
        cause="a kernel on the GPU found values that are NaN or outside of their range. binary_cross_entropy needs "
        "probabilities from 0 to 1, and multinomial needs finite ones. With TORCH_NCCL_NAN_CHECK=1, collectives reject NaN",
        probe="print(x.min(), x.max(), x.isnan().any()) before that call; torch.autograd.set_detect_anomaly(True)",
        fix="pass logits to binary_cross_entropy_with_logits, or apply sigmoid first. Against NaN: bf16 in place of fp16, a "
        "lower learning rate, gradient clipping",
        link="https://github.com/pytorch/pytorch/issues/2866",
    ),
    Entry(
        id="device-assert",
        title="CUDA error: device-side assert triggered",
        patterns=(
            r"Assertion `(?P<assertion>(?!!isnan|input_val >= zero|cumdist)[^`]+)` failed\.?$",
            r"\b(?:CUDA error|cuda runtime error \(\d+\) ?): device-side assert triggered",
            r"\bcudaErrorAssert\b",
        ),
        branches=(
            ("label", r"\bt >= 0|\btarget\w* >= 0|n_classes|num_classes|[Nn][Ll][Ll]_?[Ll]oss"),
            ("lookup", r"srcIndex < srcSelectDimSize|index out of bounds|sizes\[i\]|\bidx_dim\b"),
        ),
        cause="an index is out of range on the GPU. {label? A label is not below the number of classes, or is negative. }"
        "{lookup? A token id or another index is not below the size of its table, for example the vocabulary. }"
        "GPU errors are reported late, so the traceback shows another line",
        probe="the `Assertion ... failed` line above; repeat with CUDA_LAUNCH_BLOCKING=1 for the right traceback",
        fix="print the minimum and maximum of {label? the labels, }{lookup? the token ids and indices, }before the step, and compare them with the layer's size. Correct the data, or the size of the layer",
        link="https://github.com/milesial/Pytorch-UNet/issues/375",
    ),
    Entry(
        id="illegal-memory-access",
        title="CUDA error: an illegal memory access was encountered",
        patterns=(
            r"\ban illegal memory access was encountered\b",
            r"\bcudaErrorIllegalAddress\b",
            r"\b(?:CUDA error|cuda runtime error \(\d+\) ?): misaligned address",
            r"Segmentation fault from GPU at 0x[0-9a-f]+, ctx_id",
            r"\b(?:CUDA error|cuda runtime error \(\d+\) ?): unspecified launch failure",
            r"\b(?:CUDA error|cuda runtime error \(\d+\) ?): an illegal instruction was",
            r"\b(?:Cuda|HIP) failure (?:\d+ )?'(?:unspecified launch failure|misaligned address|an illegal instruction was encountered)'",
            r"CUDA error: operation not supported on global/shared address space",
            r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:.]+)(?: GPU-[\w:. -]+)?\): (?:45, .*caused by previous Xid )?(?:13|31)\b",
        ),
        explains=("cublas-error",),
        cause="a kernel accessed memory outside of its bounds, or held an instruction that is not valid. Usual: a bug in a "
        "custom or compiled kernel, an index out of range, or a defective GPU",
        probe="repeat with CUDA_LAUNCH_BLOCKING=1; compute-sanitizer python train.py; on the node: dmesg -T | "
        "grep -i xid",
        fix="disable custom kernels (flash-attention, xformers, torch.compile) one by one. If it is always the same "
        "GPU, exclude the node",
        link="https://docs.nvidia.com/deploy/xid-errors/",
    ),
    Entry(
        id="amd-gpu-fault",
        title="Memory access fault by GPU node-2 on address (nil); HSA_STATUS_ERROR_MEMORY_FAULT",
        patterns=(
            r"Memory access fault by GPU node",
            r"HSA_STATUS_ERROR_(?!OUT_OF_RESOURCES)(?P<status>\w+)",
            r"amdgpu (?P<device>[0-9a-f]{4}:[0-9a-f:.]+): .*page fault \(src_id:\d+ ring:\d+ vmid:[1-9]",
        ),
        cause="a kernel on an AMD GPU[ ({device})] accessed memory that is not its own. Usual: HSA_OVERRIDE_GFX_VERSION names "
        "another architecture than this GPU has, or a kernel was built for another one. Otherwise a bug of a kernel",
        probe="env | grep HSA_OVERRIDE_GFX_VERSION; rocminfo | grep gfx; python -c 'import torch; "
        "print(torch.cuda.get_arch_list())'; sudo dmesg -T | grep -i amdgpu",
        fix="unset HSA_OVERRIDE_GFX_VERSION, and install torch for this GPU's architecture and for the ROCm of the "
        "driver. To find the kernel: export AMD_SERIALIZE_KERNEL=3; then omit custom kernels one by one",
        link="https://rocm.docs.amd.com/en/latest/reference/gpu-arch-specs.html",
    ),
    Entry(
        id="gpu-without-bf16",
        title="Your setup doesn't support bf16/gpu; Bfloat16 is only supported on GPUs with compute capability of at least 8.0",
        patterns=(
            r"setup doesn't support bf16",
            r"(?i)\bbf(?:loat)?16 is only supported on GPUs with compute capability",
            r"CUDA Device does not support bfloat16",
            r"bf16 mixed precision requires .*supported device",
            r"ValueError: Type bf16 is not supported",
        ),
        cause="bf16 is requested, and this GPU has none: it is older than Ampere (V100, T4). Or CUDA did not start, or "
        "this torch is a build for CPUs",
        probe="python -c 'import torch; print(torch.__version__, torch.cuda.is_available(), "
        "torch.cuda.get_device_capability())'",
        fix="use fp16 in place of bf16: `--fp16 --bf16 false` (transformers), `--mixed_precision fp16` (accelerate), "
        "precision='16-mixed' (Lightning), fp16.enabled (DeepSpeed), `--dtype half` (vLLM)",
        link="https://huggingface.co/docs/transformers/perf_train_gpu_one",
    ),
    Entry(
        id="no-kernel-image",
        doubtful=True,
        title="CUDA error: no kernel image is available for execution on the device",
        patterns=(
            r"no kernel image is available for execution on the device",
            r"with CUDA capability (?P<capability>\w+) is not compatible with the current PyTorch installation",
            r"(?:HIP|CUDA) error: invalid device function",
            r"cuda runtime error \(\d+\) : invalid device function",
            r"hipErrorNoBinaryForGpu",
            r"NCCL WARN Cuda failure (?:\d+ )?'named symbol not found'",
            r"'(?P<capability>sm_\w+)' is not a recognized processor for this target",
            r"Value '(?P<capability>sm_\w+)' is not defined for option 'gpu-name'",
            r"PTX \.version \S+ does not support \.target (?P<capability>sm_\w+)",
            r"nvrtc: error: invalid value for --gpu-architecture",
            r"Error named symbol not found at line \d+ in file \S+\.cu\b",
        ),
        explains=("nccl-cuda-failure", "nccl-warning", "nccl-error", "compile-failed"),
        cause="this build of torch, of NCCL or of an extension has no code for this GPU. The GPU is newer or older than the "
        "build supports",
        probe="python -c 'import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())'",
        fix="install a torch build that supports the GPU: a newer cuXXX or rocmX.Y wheel for new GPUs, an older one for old "
        "GPUs. Build extensions with TORCH_CUDA_ARCH_LIST (AMD: PYTORCH_ROCM_ARCH), and NCCL with this GPU in NVCC_GENCODE",
        link="https://github.com/pytorch/pytorch/issues/31285",
    ),
    Entry(
        id="no-cuda-gpus",
        title="No CUDA GPUs are available; Found no NVIDIA driver; Torch not compiled with CUDA enabled",
        patterns=(
            r"ProcessGroupNCCL is only supported with GPUs, no GPUs found",
            r"can not run on your system since (?:the accelerator is|GPUs are) not available",
            r"[Mm]ixed precision training with AMP or APEX .*can only be used on CUDA",
            r"No CUDA GPUs are available",
            r"Found no NVIDIA driver on your system",
            r"Torch not compiled with CUDA enabled",
            r"\b[Nn]o CUDA-capable device is detected\b",
            r"NVIDIA Driver was not detected\. +GPU functionality will not be available",
            r"No supported GPU\(s\) detected to run this container",
            r"Attempting to deserialize object on a CUDA device but torch\.cuda\.is_available\(\) is False",
            r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
            r"No supported gpu backend found",
            r"NVML Shared Library Not Found",
            r"No HIP GPUs are available",
            r"no ROCm-capable device is detected",
            r"(?:CUDA|Cuda|cuda) is missing",
            r"but (?:CUDA|cuda) is not available",
            r"Torch did not find available GPUs",
            r"[Bb]ut your machine only has: ?\[\]",
            r"mixed precision requires a GPU \(not 'cpu'\)",
            r"cuda is not available\. Please check your installation",
            r"ValueError: Type fp16 is not supported",
            r"\b0 active drivers \(\[\]\)",
            r"Unable to proceed, no GPU resources available",
            r"cannot find any torch accelerator\? You need a GPU",
            r"HIP error: hipErrorNoDevice\b",
            r"You requested to find \S+ devices but there are no visible CUDA devices",
            r"GPUs requested but none are available",
            r"Failed to initialize NVML: Driver Not Loaded",
        ),
        explains=("more-gpus-asked",),
        cause="this rank sees no GPU. The job requested none, CUDA_VISIBLE_DEVICES is empty or wrong, the container "
        "has no GPU access, the driver does not run, or torch was built without CUDA",
        probe="the same way: nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES; python -c 'import torch; "
        "print(torch.version.cuda)'",
        fix="request GPUs (SLURM: --gpus-per-node=N; docker: --gpus all; apptainer: --nv), unset CUDA_VISIBLE_DEVICES, "
        "or install the CUDA build of torch. AMD GPUs: docker --device=/dev/kfd --device=/dev/dri; apptainer --rocm",
        explains_text=r"(?i)\b(?:cuda|gpus?)\b",
        link="https://pytorch.org/get-started/locally/",
    ),
    Entry(
        id="cuda-compat-refused",
        title="Error 804: forward compatibility was attempted on non supported HW",
        explains=("cuda-init-failed",),
        patterns=(r"\b[Ff]orward compatibility was attempted on non supported HW",),
        cause="the process loads the libcuda.so of a `cuda-compat` package, and this GPU supports only that of the "
        "driver. Or the driver was updated, and the old kernel module is still loaded",
        probe="nvidia-smi; cat /proc/driver/nvidia/version; echo $LD_LIBRARY_PATH; ldconfig -p | grep libcuda.so",
        fix="remove the `compat` directory from LD_LIBRARY_PATH (`export LD_LIBRARY_PATH=`), use an image for the "
        "driver's CUDA version, or reboot the node",
        link="https://docs.nvidia.com/deploy/cuda-compatibility/",
    ),
    Entry(
        id="libcuda-of-other-driver",
        doubtful=True,
        title="Error 803: system has unsupported display driver / cuda driver combination",
        explains=("no-cuda-gpus", "gpu-without-bf16", "cuda-init-failed"),
        patterns=(
            r"\b[Ss]ystem has unsupported display driver / cuda driver combination",
            r"\bcudaErrorSystemDriverMismatch\b",
        ),
        cause="the program loads a libcuda.so.1 that does not match the driver in this node's kernel. A second one is on "
        "LD_LIBRARY_PATH or in the image (cuda/compat), or the driver was updated without a restart",
        probe="cat /proc/driver/nvidia/version; ldconfig -p | grep libcuda.so; echo $LD_LIBRARY_PATH; ls "
        "/usr/local/cuda/compat",
        fix="remove the other libcuda: take cuda/compat and stubs out of LD_LIBRARY_PATH, uninstall driver packages of "
        "the image. After an update of the driver, reboot the node, and restart its containers",
        action="exclude",
        reason="the host's GPU driver and library differ",
        link="https://docs.nvidia.com/deploy/cuda-compatibility/",
    ),
    Entry(
        id="cuda-init-failed",
        doubtful=True,
        title="CUDA initialization: CUDA unknown error; Unexpected error from cudaGetDeviceCount()",
        explains=("no-cuda-gpus", "gpu-without-bf16", "nccl-cuda-failure"),
        patterns=(
            r"Unexpected error from cudaGetDeviceCount\(\)",
            r"CUDA unknown error - this may be due to an incorrectly set up environment",
            r"CUDA driver initialization failed, you might not have a CUDA gpu",
            r"CUDA error: initialization error",
            r"\bcudaErrorSystemNotReady\b",
            r"\b[Ss]ystem not yet initialized",
            r"NVIDIA Driver is present, but CUDA failed to initialize",
            r"CUDA_ERROR_SYSTEM_NOT_READY",
            r"\bCuda failure (?:3 )?'initialization error'",
            r"driver interface version \S+ don't match with driver version",
            r"cuda runtime error \((?:30|999)\) : unknown error",
        ),
        cause="the driver is installed, but CUDA cannot start. Error 802 (`system not yet initialized`): "
        "the NVSwitches need nvidia-fabricmanager, which is not running or differs from the driver's version. Other errors: the "
        "kernel modules do not match after an update, or nvidia-uvm is not loaded",
        probe="systemctl status nvidia-fabricmanager; nvidia-smi; lsmod | grep nvidia_uvm",
        fix="as administrator, start nvidia-fabricmanager again (same version as the driver; install "
        "it if it is absent) or load the module nvidia-uvm, or reboot the node",
        action="exclude",
        reason="CUDA does not start on the host",
        explains_text=r"(?i)\b(?:cuda|gpus?)\b",
        link="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    ),
    Entry(
        id="driver-library-mismatch",
        doubtful=True,
        title="Failed to initialize NVML: Driver/library version mismatch",
        explains=(
            "library-missing",
            "libcuda-missing",
            "no-cuda-gpus",
            "cuda-init-failed",
            "docker-no-gpu",
            "nproc-bad",
            "nccl-error",
            "nccl-warning",
            "container-hook-failed",
            "container-start-failed",
        ),
        patterns=(
            r"\bNVML/RM version mismatch",
            r"Failed to initialize NVML: Driver/library version mismatch",
            r"Failed to initialize NVML: Unknown Error",
            r"Can't initialize NVML",
            r"NVML_ERROR_LIB_RM_VERSION_MISMATCH",
            r"nvml error: driver/library version mismatch",
            r"NVRM: API mismatch: the client has (?:the )?version",
            r"\bnvmlInit\w*\(\) failed: Driver/library version mismatch",
        ),
        context=r"API mismatch: the client has (?:the )?version (?P<client>[\d.]+\d).*kernel module has the version (?P<module>[\d.]+\d)",
        branches=(
            ("mismatch", r"(?i)version[ _]?mismatch|API mismatch"),
            ("container", r"NVML: Unknown Error"),
        ),
        cause="{mismatch? the driver was updated, and the old kernel module is still loaded}[ (libraries {client}, "
        "module {module})]{mismatch? . }{container? `Unknown Error` usually means that a container lost its devices when systemd "
        "reloaded. }",
        probe="cat /proc/driver/nvidia/version; nvidia-smi",
        fix="{mismatch? reboot the node, or reload the nvidia modules. }{container? for a container: restart it. }",
        action="exclude",
        reason="the host needs a restart: its GPU driver and library differ",
        explains_text=r"(?i)\b(?:cuda|gpus?)\b",
        link="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html",
    ),
    Entry(
        id="gpu-xid",
        title="NVRM: Xid (PCI:0000:4f:00): N; GPU Recovery Action changed",
        kind="generic",
        patterns=(
            # 45 follows another error, or the end of a process: see gpu-cleanup.
            r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:.]+)(?: GPU-[\w:. -]+)?\): (?P<xid>(?!45\b)\d+)",
            r"NVRM: .*GPU Recovery Action changed",
            r"XidCriticalError: Xid=(?P<xid>\d+) on Device=(?P<device>[\w-]+)",
        ),
        explains=("cuda-unknown-error",),
        cause="the driver reported Xid {xid|154} for GPU {device|of this node}: {reason|an error of the hardware, the "
        "driver or a program on it}",
        probe="on that node: dmesg -T | grep -i xid; nvidia-smi -q | grep -i -A2 recovery",
        fix="look up the number in NVIDIA's table. If it comes back on the same GPU, let an "
        "administrator drain the node (`scontrol show node {host|NODE}`) and reset the GPU",
        action="exclude",
        reason="a GPU of the host reported an error",
        evidence="kernel",
        meanings=(
            ("xid", "", "the driver requests a reset of the GPU, or of the node, after an earlier error"),
            ("xid", "8", "the GPU did not finish its work in time, and the driver stopped it"),
            ("xid", "12", "the driver handled an error of a copy engine"),
            ("xid", "32", "a corrupt command came to the GPU, over a bad PCIe link or from a faulty driver"),
            ("xid", "38", "an error of the driver's firmware"),
            (
                "xid",
                "43",
                "a program's work on the GPU failed and was stopped. A bug of the program is likely, and the GPU is usable",
            ),
            ("xid", "61", "the GPU's internal controller stopped at a breakpoint. The GPU needs a reset"),
            (
                "xid",
                "62",
                "the GPU's internal controller halted: the hardware or its firmware failed. The GPU needs a reset",
            ),
            ("xid", "69", "a command of a program was not valid for the GPU"),
            ("xid", "79", "the GPU does not answer on the PCIe bus"),
            (
                "xid",
                "109",
                "the GPU did not switch between programs in time: a kernel hangs, as after an earlier error",
            ),
            ("xid", "110", "a security fault of the hardware. The GPU needs a reset"),
            ("xid", "123", "the power controller of the GPU does not answer. The GPU needs a reset"),
            ("xid", "143", "the GPU could not initialize. It needs a reset"),
            ("xid", "151", "the GPU's key rotation failed"),
            ("xid", "154", "the driver requests a reset of the GPU, or of the node, after an earlier error"),
            ("xid", "158", "the GPU did not answer in time. It needs a reset"),
        ),
        link="https://docs.nvidia.com/deploy/xid-errors/",
    ),
    Entry(
        id="cuda-driver-unknown",
        title="CUDA error: unknown error; Cuda failure 999 'unknown error'",
        patterns=(
            r"\bCUDA (?:driver )?error: unknown error\b",
            r"\b(?:Cuda|HIP) failure (?:999 )?'unknown error'",
        ),
        explains=("cuda-unknown-error", "nccl-cuda-failure", "nccl-error"),
        cause="the driver reports an error without a reason (999). Usually this GPU or its driver is in a bad state, after an Xid "
        "error or a loss from the bus. Or the host slept, or WSL or a virtual machine limits CUDA",
        probe="on that node: dmesg -T | grep -iE 'xid|nvrm'; nvidia-smi",
        fix="let an administrator reset the GPU, or reboot the node. If it returns on the same GPU, exclude the node",
        link="https://github.com/deepspeedai/DeepSpeed/issues/5482",
    ),
    Entry(
        id="cudnn-no-plan",
        title="cuDNN Error: No valid engine configs for; No execution plans support the graph",
        patterns=(
            r"\bNo valid engine configs for\b",
            r"\bNo (?:valid )?execution plans (?:support|built)\b",
        ),
        explains=("cudnn-error",),
        cause="cuDNN has no kernel for this call. Most often it is fused attention whose sizes, masks or types (head sizes "
        "of query and value that differ, FP8, sequence packing) this cuDNN or GPU does not support",
        probe="pip list | grep -iE 'cudnn|transformer.engine|^torch '; nvidia-smi --query-gpu=name,compute_cap --format=csv",
        fix="use another attention: export NVTE_FUSED_ATTN=0 NVTE_FLASH_ATTN=1 (Transformer Engine), or "
        "torch.backends.cuda.enable_cudnn_sdp(False). Or install a newer cuDNN: pip install -U nvidia-cudnn-cu12",
        link="https://github.com/alibaba/Pai-Megatron-Patch/issues/551",
    ),
    Entry(
        id="cudnn-error",
        title="cuDNN error: CUDNN_STATUS_...",
        patterns=(
            r"\bunable to find an engine to execute this computation",
            r"\bUnable to find an engine to execute this computation",
            r"cuDNN error: (?P<status>CUDNN_STATUS_\w+)",
            r"Unable to find a valid cuDNN algorithm",
            r"Could not load library libcudnn\w*\.so",
            r"cuDNN version incompatibility",
            r"\[cudnn_frontend\] Error: ",
            r"in function .*: cuDNN Error: (?P<status>.+?)\.* For more information, enable cuDNN error logging",
        ),
        cause="cuDNN failed. The GPU's memory is nearly full, an earlier GPU error occurred, or a libcudnn other than "
        "torch's is loaded. Or this cuDNN does not support the GPU: it is too old or too new for it",
        probe="echo $LD_LIBRARY_PATH; nvidia-smi; repeat with CUDA_LAUNCH_BLOCKING=1",
        fix="unset LD_LIBRARY_PATH, or reduce the batch. To test without cuDNN: torch.backends.cudnn.enabled = False; in Transformer Engine NVTE_FUSED_ATTN=0",
        link="https://docs.nvidia.com/deeplearning/cudnn/latest/",
    ),
    Entry(
        id="cublas-error",
        title="CUDA error: CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_EXECUTION_FAILED",
        patterns=(
            r"cuFFT error: (?P<status>CUFFT_\w+)",
            r"cusolver error: (?P<status>CUSOLVER_STATUS_\w+)",
            r"\bCUBLAS_STATUS_(?P<status>NOT_INITIALIZED|EXECUTION_FAILED|INTERNAL_ERROR|INVALID_VALUE|NOT_SUPPORTED|ARCH_MISMATCH|MAPPING_ERROR)\b when calling",
            r"\bcublasLt ran into an error",
            r"\bcublas runtime error : (?P<status>.+?) at ",
            r"in function \w*cublas\w*: (?:cuBLAS|CUBLAS) Error: (?P<status>[\w ]+)",
            r"Unable to find suitable cuBLAS GEMM algorithm",
        ),
        cause="a call of cuBLAS, cuFFT or cuSOLVER failed on the GPU. The GPU's memory is full, an index was out of range "
        "before, or the library is not torch's or too old for this GPU",
        probe="repeat with CUDA_LAUNCH_BLOCKING=1; nvidia-smi; echo $LD_LIBRARY_PATH",
        fix="reduce the batch, check labels and token ids, and unset LD_LIBRARY_PATH",
        link="https://docs.nvidia.com/cuda/cublas/",
    ),
    Entry(
        id="cuda-after-fork",
        title="Cannot re-initialize CUDA in forked subprocess",
        patterns=(
            r"Cannot re-initialize (?:CUDA|NPU|XPU|HPU|MUSA) in forked subprocess",
            r"can't create new processes if CUDA is already initialized",
            r"To launch a multi-GPU training from your notebook",
            r"DECORDError: .*\bCUDA: initialization error",
            r"cuda runtime error \(3\) : initialization error",
            r"has been initialized before the `notebook_launcher` could create a forked subprocess",
        ),
        cause="the script used CUDA before it forked a process (DataLoader workers, multiprocessing, or ranks of a "
        "notebook)",
        probe="grep -n 'cuda' train.py, before the workers start",
        fix="use no CUDA in the Dataset. Otherwise call torch.multiprocessing.set_start_method('spawn'), or pass "
        "multiprocessing_context='spawn' to the DataLoader. In a notebook: restart it, and use CUDA inside of the launched "
        "function only",
        link="https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing",
    ),
    Entry(
        id="cuda-unknown-error",
        title="CUDA error: ..., CUDA kernel errors might be asynchronously reported",
        kind="generic",
        patterns=(
            r"(?:RuntimeError|AcceleratorError|CUDAError): CUDA error: (?P<error>.+)",
            r"CUDA kernel errors might be asynchronously reported",
            r"terminate called after throwing an instance of 'c10::CUDAError'",
            r"HIP error: (?P<error>.+)",
            r"(?:RuntimeError|AcceleratorError): CUDA driver error: (?P<error>.+)",
            r"thread terminated with exception: CUDA error: (?P<error>.+)",
        ),
        cause="a CUDA call failed[ ({error})]. The traceback can show the wrong line",
        probe="repeat with CUDA_LAUNCH_BLOCKING=1; on the node: dmesg -T | grep -i xid",
        fix="run once with `CUDA_LAUNCH_BLOCKING=1`, and read the new traceback",
        link="https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
    ),
    Entry(
        id="nccl-shm-register",
        title="misc/shmutils.cc NCCL WARN Cuda failure 'invalid argument'",
        explains=("nccl-warning", "nccl-error", "nccl-proxy-lost", "nccl-cuda-failure", "shm-full"),
        patterns=(r"\bshmutils\.cc:\d+ (?:\(\w+\) )?NCCL WARN (?:Cuda|HIP) failure (?:\d+ )?'(?P<error>[^']+)'",),
        cause="CUDA refused NCCL's shared memory segment ({error}). The driver of a virtual machine, of WSL, or of a "
        "vGPU cannot register host memory of another process",
        probe="NCCL_DEBUG=INFO NCCL_SHM_DISABLE=1, with the same command; uname -r; nvidia-smi",
        fix="set NCCL_SHM_DISABLE=1, and update NCCL and the driver. /dev/shm itself is not full",
        link="https://github.com/NVIDIA/nccl/issues/1518",
    ),
    Entry(
        id="nccl-gpu-memory",
        title="Last error: Failed to CUDA calloc async 608 bytes",
        patterns=(
            r"Failed to CUDA (?:m|c)alloc(?: async)? (?P<size>\d+) bytes",
            r"Failed to CUDA call\s.*\balloc\.h:\d+ \((?P<call>ncclCuda\w*[CM]alloc\w*)\)",
        ),
        explains=("nccl-error", "nccl-warning", "nccl-cuda-failure", "nccl-proxy-lost"),
        cause="NCCL found no free memory on the GPU for its buffers[, or {call} met an earlier error of CUDA]. Mostly torch or "
        "another process had taken all of it before the first collective of a group",
        probe="nvidia-smi just before the failure; repeat with NCCL_DEBUG=INFO",
        fix="leave some memory free: a smaller batch, or torch.cuda.set_per_process_memory_fraction(0.9). Run a small "
        "all_reduce of each group at the start, so that NCCL takes its buffers first. Fewer buffers: NCCL_MAX_NCHANNELS=8",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-max-nchannels",
    ),
    Entry(
        id="nccl-cuda-failure",
        title="NCCL WARN Cuda failure 'invalid argument'",
        kind="generic",
        explains=(
            "nccl-warning",
            "nccl-error",
            "nccl-proxy-lost",
        ),
        # NCCL repeats it after `Last error:`, without its WARN.
        patterns=(r"\b(?:Cuda|HIP) failure (?:\d+ )?'(?P<error>[^']+)'",),
        cause="a call of NCCL to CUDA failed ({error}). Often the host's driver does not fit the CUDA or the NCCL of "
        "the image, or WSL or a virtual machine limits CUDA. Or the GPUs cannot access each other's memory, or an earlier "
        "GPU error occurred",
        probe="nvidia-smi; python -c 'import torch; print(torch.version.cuda, torch.cuda.nccl.version())'; dmesg -T | "
        "grep -i xid",
        fix="update the driver, or install a torch for the driver's CUDA version. To test: NCCL_P2P_DISABLE=1, and "
        "NCCL_CUMEM_ENABLE=0",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="nvlink-error",
        title="Xid 74: NVLink error",
        patterns=(
            r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:.]+)(?: GPU-[\w:. -]+)?\): (?:45, .*caused by previous Xid )?(?:74|122|136|137|14[4-9]|150)\b",
            r"nvidia-nvswitch\d+: SXid \(PCI:(?P<device>[0-9a-fA-F:.]+)(?: GPU-[\w:. -]+)?\): \d+, Fatal",
            r"(?:CUDA error: |')uncorrectable NVLink error",
            r"Invalid access of peer GPU memory over nvlink or a hardware error",
        ),
        explains=("gpu-xid", "cuda-unknown-error"),
        cause="an NVLink, an NVSwitch or their controller failed[ (device {device})]. All GPUs of the node that use it can "
        "fail, and collectives on it hang",
        probe="on that node: nvidia-smi nvlink -e; dmesg -T | grep -i xid; systemctl status nvidia-fabricmanager",
        fix="let an administrator drain the node (`scontrol show node {host|NODE}`), then reset all "
        "its GPUs or reboot. If the error comes back, report the node",
        action="exclude",
        reason="an NVLink connection of the host has errors",
        link="https://docs.nvidia.com/deploy/xid-errors/",
    ),
    Entry(
        id="amd-gpu-hang",
        title="HW Exception by GPU node-9 reason :GPU Hang; amdgpu: ring timeout; MES failed to respond",
        patterns=(
            r"HW Exception by GPU node-(?P<node>\d+).* reason ?: ?GPU Hang",
            r"\bMES(?:\(\d+\))? failed to respon\w+ (?:to )?msg=",
            r"amdgpu.*\bring \S+ timeout, signaled seq",
            r"amdgpu (?P<device>[0-9a-f:.]+): .*GPU reset begin!",
            r"amdgpu (?P<device>[0-9a-f:.]+): .*device lost from bus",
            r"amdgpu (?P<device>[0-9a-f:.]+): .*GPU reset end with ret = -\d+",
        ),
        context=r"amdgpu (?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)",
        explains=("amd-gpu-fault", "cuda-unknown-error", "nccl-cuda-failure", "aborted"),
        cause="an AMD GPU[ ({device})][, node {node} of ROCm,] hangs: a kernel or its firmware no longer answers, and the "
        "driver resets it. Every process on it ends. Common reasons are a bug of firmware or driver, an index out of "
        "range in a kernel, or a faulty GPU",
        probe="on that node: sudo dmesg -T | grep -i amdgpu; rocm-smi",
        fix="update the amdgpu driver and its firmware (linux-firmware), and ROCm with a torch for it. Repeat with "
        "AMD_SERIALIZE_KERNEL=3 to find the kernel. If it is always the same GPU, drain the node and report it",
        action="exclude",
        reason="a GPU of the host hangs",
        link="https://github.com/ROCm/legacy-rocm-build/issues/4021",
    ),
    Entry(
        id="kfd-not-accessible",
        title="Unable to open /dev/kfd read-write: Permission denied",
        patterns=(r"Unable to open /dev/kfd read-write: (?P<reason>.+)",),
        explains=("no-cuda-gpus",),
        cause="this user or container cannot open /dev/kfd, the device of AMD GPUs for computing ({reason}). Its group is "
        "missing, the container lacks the device, or the driver does not support the GPU",
        probe="ls -ln /dev/kfd /dev/dri/renderD*; id; sudo dmesg | grep -i kfd",
        fix="add the user to the groups of these devices (`sudo usermod -aG render,video USER`), and log in again. docker: "
        "--device=/dev/kfd --device=/dev/dri --group-add with the number of the group on the host",
        link="https://github.com/kyuz0/amd-strix-halo-vllm-toolboxes/issues/6",
    ),
    Entry(
        id="miopen-error",
        title="RuntimeError: miopenStatusUnknownError, miopenStatusInternalError",
        patterns=(
            r"\bRuntimeError: miopenStatus(?P<status>\w+)",
            r"Internal error while accessing SQLite database: (?P<reason>.+)",
        ),
        context=r"MIOpen Error: (?:\S+:\d+: )?(?P<reason>.+)",
        cause="MIOpen, AMD's library for convolutions, failed: {reason|see its message above}. Often it cannot lock or "
        "write its database in $HOME, or it does not support this GPU",
        probe="df -T ~/.config/miopen ~/.cache/miopen; rocminfo | grep gfx; repeat with MIOPEN_LOG_LEVEL=5",
        fix="keep its databases on a local disk: export MIOPEN_USER_DB_PATH=/tmp/miopen-$USER and "
        "MIOPEN_CUSTOM_CACHE_DIR=/tmp/miopen-$USER. If a code object was not built, install the ROCm and torch for this GPU",
        link="https://github.com/ROCm/MIOpen/issues/1994",
    ),
    Entry(
        id="pcie-atomics",
        title="PCIE atomic ops is not supported; Pcie atomics not enabled, hostcall not supported",
        kind="hint",
        patterns=(
            r"amdgpu (?P<device>[0-9a-f:.]+): .*PCIE atomic ops is not supported",
            r"Pcie atomics not enabled, hostcall not supported",
        ),
        explains=("nccl-cuda-failure", "nccl-error", "amd-gpu-hang", "cuda-unknown-error"),
        cause="the slot of an AMD GPU[ ({device})] has no PCIe atomics, which kernels of ROCm and RCCL need. A slot of the "
        "chipset, a riser, or a virtual machine often lacks them",
        probe="sudo dmesg | grep -i atomic; sudo lspci -vvv | grep -i AtomicOps",
        fix="use a slot that is connected to the CPU, or do not use this GPU: export ROCR_VISIBLE_DEVICES with the others",
        link="https://github.com/ROCm/legacy-rocm-build/issues/2429",
    ),
    Entry(
        id="gpu-firmware",
        title="Xid 119, 120: Timeout after 45s of waiting for RPC response from GPU4 GSP!",
        patterns=(
            r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:.]+)(?: GPU-[\w:. -]+)?\): (?:45, .*caused by previous Xid )?(?:119|120)\b",
            r"NVRM: .*Timeout waiting for RPC from GSP",
        ),
        explains=("gpu-xid", "gpu-lost", "cuda-unknown-error"),
        cause="the firmware of a GPU (GSP)[, {device},] no longer answers the driver. Calls on this GPU hang or fail, "
        "nvidia-smi included",
        probe="on that node: dmesg -T | grep -i -E 'xid|gsp'; nvidia-smi -q | grep -i gsp",
        fix="drain the node and reset the GPU or reboot, and update the driver. If it comes back with the proprietary "
        "module, set NVreg_EnableGpuFirmware=0; else report the GPU",
        action="exclude",
        reason="the firmware of a GPU of the host does not answer",
        evidence="kernel",
        link="https://github.com/NVIDIA/open-gpu-kernel-modules/issues/446",
    ),
    Entry(
        id="gpu-cleanup",
        title="Xid 45: preemptive cleanup",
        kind="consequence",
        patterns=(r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:.]+)(?: GPU-[\w:. -]+)?\): 45\b",),
        cause="the driver removed the work of a process from GPU {device}. The process ended or was killed, or another Xid "
        "came before",
        probe="on that node: dmesg -T | grep -i xid",
        fix="read the first Xid above this one; without one, the log of the process that ended",
        link="https://docs.nvidia.com/deploy/xid-errors/",
    ),
    Entry(
        id="fabricmanager-no-nvswitch",
        title="request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do",
        kind="hint",
        patterns=(r"request to query NVSwitch device information from NVSwitch driver failed",),
        explains=("cuda-init-failed",),
        cause="nv-fabricmanager found no NVSwitch. A machine without NVSwitches does not need it. From Blackwell on, it "
        "needs NVLSM beside it, and a virtual machine needs the NVSwitches passed to it",
        probe="lspci -d 10de: | grep -i -E 'bridge|nvswitch'; nvidia-smi topo -m; nvidia-smi -q | grep -i -A2 fabric",
        fix="a node without NVSwitches does not need nvidia-fabricmanager: an administrator can "
        "disable it. On HGX B200 and later, install nvlsm and start nvidia-fabricmanager again",
        link="https://github.com/NVIDIA/gpu-operator/issues/610",
    ),
    Entry(
        id="nccl-not-supported",
        title="NCCL WARN Cuda failure 'operation not supported'",
        patterns=(r"\bCuda failure (?:801 )?'(?P<error>operation not supported)'",),
        explains=("nccl-cuda-failure", "nccl-warning", "nccl-error", "nccl-proxy-lost"),
        cause="this driver does not offer a function of CUDA that NCCL calls. Usual are a virtual GPU without unified memory "
        "(UVM), WSL, MPS, or a driver older than NCCL's CUDA",
        probe="nvidia-smi -q | grep -i -A2 virtualization; python -c 'import torch; print(torch.version.cuda)'; uname -r",
        fix="export NCCL_CUMEM_ENABLE=0, NCCL_CUMEM_HOST_ENABLE=0 and NCCL_NVLS_ENABLE=0. A virtual GPU, as administrator: "
        "enable its unified memory (enable_uvm=1). Otherwise update the driver",
        link="https://github.com/NVIDIA/nccl/issues/2101",
    ),
    Entry(
        id="mpi-without-cuda",
        title="CUDA tensor detected and the MPI used doesn't have CUDA-aware MPI support",
        patterns=(
            r"CUDA tensor detected and the MPI used doesn't have CUDA-aware MPI support",
            r"MPI process group does not support multi-GPU collectives",
        ),
        cause="torch's backend `mpi` got a tensor of the GPU, and this MPI cannot send from memory of a GPU",
        probe="ompi_info --parsable --all | grep mpi_built_with_cuda_support",
        fix="use the backend nccl, also on AMD GPUs: init_process_group('nccl'). MPI may still start the ranks. Otherwise send "
        "tensors of the CPU",
        link="https://github.com/ROCm/pytorch/issues/453",
    ),
    Entry(
        id="gpu-launch-timeout",
        title="CUDA error: the launch timed out and was terminated",
        explains=("cuda-unknown-error",),
        patterns=(r"\bthe launch timed out and was terminated\b", r"\bcudaErrorLaunchTimeout\b"),
        cause="a kernel ran longer than the driver allows on this GPU. The driver has such a limit on a GPU that also "
        "drives a screen (Xorg, Wayland)",
        probe="nvidia-smi --query-gpu=index,display_active,display_mode --format=csv; nvidia-smi | grep -iE 'xorg|wayland'",
        fix="use the GPUs without a screen (CUDA_VISIBLE_DEVICES), or switch the desktop off: `sudo systemctl isolate "
        "multi-user.target`. Otherwise a smaller batch, so that each kernel is shorter",
        link="https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
    ),
    Entry(
        id="kernel-launch-refused",
        title="CUDA error: invalid configuration argument; too many resources requested for launch",
        explains=("cuda-unknown-error",),
        patterns=(
            r"(?:CUDA error: |Error )(?P<error>invalid configuration) argument",
            r"CUDA error: (?P<error>too many resources) requested for launch",
        ),
        cause="a kernel was started with a size that the GPU does not accept ({error}). The batch is empty or very "
        "large, or the kernel needs more registers than this GPU has",
        probe="repeat with CUDA_LAUNCH_BLOCKING=1, and print the shapes at that line",
        fix="skip empty batches, or reduce the batch or the length. If the line is in a custom kernel, update or rebuild its "
        "package",
        link="https://github.com/NVIDIA/apex/issues/403",
    ),
    Entry(
        id="gpu-without-fp8",
        doubtful=True,
        title="type fp8e4nv not supported in this architecture; compute capability 8.9 or higher required for FP8 execution",
        explains=("compile-failed",),
        patterns=(
            r"\bfp8e4nv (?:data type is )?not supported\b",
            r"\brequired for FP8 execution\b",
            r"FP8 block scaled GEMM requires (?:Hopper|compute capability)",
            r"torch\._scaled_mm is only supported on CUDA devices with compute capability",
            r"FP8 quantized models (?:is|are) only supported on GPUs with compute capability",
        ),
        cause="fp8 is requested, and this GPU or this cuBLAS does not have it. fp8 needs compute capability 8.9 or more: "
        "an Ada or a Hopper GPU",
        probe="nvidia-smi --query-gpu=name,compute_cap --format=csv; python -c 'import torch; print(torch.version.cuda)'",
        fix="use bf16 in place of fp8 on this GPU (Megatron: without --fp8-format; accelerate: mixed_precision bf16; "
        "weights in bf16). On Ada, use CUDA 12.1 or newer. For block scaling (DeepSeek's recipe): a torch for CUDA 12.9 or newer",
        link="https://github.com/triton-lang/triton/issues/4319",
    ),
    Entry(
        id="global-rank-as-gpu",
        # Of `invalid device ordinal`, the frame above it decides: see ddpkit.diagnosis.log_reader.
        title="CUDA error: invalid device ordinal, in torch.distributed or at `.cuda(rank)`, on the second node alone",
        cause="a GPU number was used that this node does not have. Mostly it is the global rank in place "
        "of LOCAL_RANK, which works on one node only",
        probe="the frames above show who passes the number; python -c 'import torch; print(torch.__version__, "
        "torch.cuda.device_count())'",
        fix="in the script, use int(os.environ['LOCAL_RANK']) for devices: torch.cuda.set_device(LOCAL_RANK), "
        "barrier(device_ids=[LOCAL_RANK]). If the frame is of a library, update it (torch 2.1 or newer for sharded "
        "checkpoints): `pip install -U torch accelerate`",
        instead=(
            Instead(
                of=("invalid-device-ordinal",), near=r"/torch/distributed/(?:_shard/|checkpoint/|distributed_c10d\.py)"
            ),
            Instead(
                of=("invalid-device-ordinal",),
                near=r"""(?:\.cuda|\.to|set_device|\bdevice|LongTensor)\((?:f?['\"]cuda:?(?:['\"], ?|\{|%d['\"] ?% ?))?(?:device=)?(?:\w+\.)*(?:global_?|get_)?rank\b""",
                needs=r"\brank\s*: (\d+) \(local_rank: (?!\1\))\d+\)",
            ),
            Instead(of=("own-exception",), text="^IndexError: ", near="in _get_stream$"),
        ),
        link="https://github.com/pytorch/pytorch/issues/95892",
    ),
    Entry(
        id="attention-kernel",
        title="No operator found for `memory_efficient_attention_forward`; FlashAttention only support fp16 and bf16; No available kernel",
        patterns=(
            r"No operator found for `?memory_efficient_attention",
            r"FlashAttention only supports? fp16",
            r"FlashAttention (?:forward|backward) (?:only supports|for) head dim",
            r"FlashAttention only supports head dimension at most",
            r"\b(?:[Ii]nput|query|key|value|dout|out) tensor (?:[qkv] )?must have contiguous last dimension",
            r"RuntimeError: No available kernel\. +Aborting execution",
            r"No dot product attention (?:support|backend) ",
            r"Expected is_sm80 \|\| ?is_sm90",
        ),
        cause="no attention kernel accepts these inputs. They are fp32, on the CPU or not contiguous, the head size or the mask "
        "is not supported, the GPU is too old, or the package was built without CUDA",
        probe="print(q.dtype, q.device, q.shape) before the call; python -m xformers.info; Transformer Engine: NVTE_DEBUG=1 "
        "NVTE_DEBUG_LEVEL=2",
        fix="compute attention in bf16 or fp16: torch.autocast, or q.to(torch.bfloat16). Or use a kernel for all inputs: "
        "attn_implementation='sdpa', without sdpa_kernel(...) or xformers. Install xformers for this torch. For inputs that are "
        "not contiguous: x.contiguous(), or a newer flash-attn",
        link="https://github.com/facebookresearch/xformers/issues/1263",
    ),
    Entry(
        id="triton-resources",
        title="OutOfResources: out of resource: shared memory, Required: 163840, Hardware limit: 101376",
        explains=("compile-failed",),
        patterns=(
            r"\bout of resource: [\w ]+?,? Required: ?(?P<needed>\d+),? Hardware limit: ?(?P<limit>\d+)"
            r"(?!.*for benchmark choice)",
        ),
        cause="a Triton kernel needs {needed} bytes of the GPU's on-chip memory, and this GPU has {limit}. The kernel is tuned "
        "for a larger GPU, or Triton is too new or too old for it",
        probe="nvidia-smi --query-gpu=name,compute_cap --format=csv; pip list | grep -iE 'triton|torch'",
        fix="use smaller blocks (BLOCK_SIZE, num_stages; flex_attention: kernel_options), or update torch with its Triton. "
        "To run without the kernel: `export TORCHDYNAMO_DISABLE=1`, or the package's option for plain torch",
        link="https://github.com/pytorch/pytorch/issues/133254",
    ),
    Entry(
        id="cudagraph-overwritten",
        title="Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run",
        explains=("compile-failed",),
        patterns=(r"tensor output of CUDAGraphs that has been overwritten",),
        cause="with CUDA graphs, each call of the compiled model writes its output to the same memory. The script uses an "
        "output of an earlier call, for example with gradient accumulation",
        probe="grep -rn 'reduce-overhead\\|max-autotune\\|cudagraphs' of the script and its configuration",
        fix="compile without CUDA graphs: torch.compile(model) or mode='max-autotune-no-cudagraphs'. Or call "
        "torch.compiler.cudagraph_mark_step_begin() before each step, and clone outputs that are kept",
        link="https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html",
    ),
    Entry(
        id="autotune-choice",
        title="Exception out of resource: shared memory ... for benchmark choice TritonTemplateCaller",
        kind="noise",
        patterns=(r"for benchmark choice \w+Caller",),
        cause="torch.compile tried a kernel that does not fit this GPU, and takes another one. This is harmless",
        probe="nothing to check",
        fix="nothing to do",
        link="https://github.com/pytorch/ao/issues/1065",
    ),
    Entry(
        id="triton-optional",
        title="A matching Triton is not available, some optimizations will not be enabled",
        kind="noise",
        patterns=(r"\bTriton is not available, some optimizations", r"Error caught was: No module named 'triton"),
        cause="xformers works without Triton, and omits some of its kernels. This is harmless",
        probe="pip show triton",
        fix="nothing to do. Under Linux, `pip install triton` ends the message",
        link="https://github.com/vllm-project/vllm/issues/424",
    ),
    Entry(
        id="cuda-memory-too-early",
        title="RuntimeError: Invalid device argument : did you call init?",
        patterns=(r"Invalid device argument .{0,4}: did you call init",),
        cause="the script reads memory numbers of a GPU before CUDA started in this process, or of an index that it does not see",
        probe="python -c 'import torch; print(torch.cuda.device_count())'; echo $CUDA_VISIBLE_DEVICES",
        fix="call torch.cuda.set_device(LOCAL_RANK) and torch.cuda.init() first. With CUDA_VISIBLE_DEVICES, indices start at 0",
        link="https://github.com/axolotl-ai-cloud/axolotl/issues/2199",
    ),
    Entry(
        id="cuda-mps",
        title="CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server",
        patterns=(
            r"MPS client failed to connect to the MPS control daemon",
            r"the remote procedural call between the MPS server and the MPS client failed",
            r"MPS server is not ready to accept new MPS client requests",
            r"the hardware resources required to create MPS client have been exhausted",
            r"the MPS client has been terminated by the server",
        ),
        explains=("cuda-init-failed", "cuda-unknown-error", "nccl-cuda-failure", "nccl-error"),
        cause="this process uses the GPU through NVIDIA's MPS, and its server does not serve it: it has ended, belongs to "
        "another user, or an error of another client ended it",
        probe="echo $CUDA_MPS_PIPE_DIRECTORY; ps -C nvidia-cuda-mps-control,nvidia-cuda-mps-server -o user,pid,args; nvidia-smi -q -d COMPUTE",
        fix="unset CUDA_MPS_PIPE_DIRECTORY in the job, which training does not need, or start MPS again as the same user: "
        "echo quit | nvidia-cuda-mps-control; nvidia-cuda-mps-control -d",
        link="https://docs.nvidia.com/deploy/mps/index.html",
    ),
    Entry(
        id="amd-out-of-resources",
        title="Queue ... aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES; Available Free mem : 4 MB",
        patterns=(r"HSA_STATUS_ERROR_OUT_OF_RESOURCES(?:.*Available Free mem ?: (?P<free>\d+ MB))?",),
        explains=("aborted",),
        cause="the ROCm runtime could not get memory for a kernel or a collective, and ended the process[: {free} of the AMD "
        "GPU were free]. Usually that GPU's memory is full; torch cannot raise OutOfMemoryError here",
        probe="rocm-smi --showmeminfo vram; ulimit -a; df -h /dev/shm. If `rocminfo` alone fails in the same way: "
        "sudo dmesg | grep amdgpu",
        fix="reduce the batch or the sequence, and leave memory to RCCL: torch.cuda.set_per_process_memory_fraction(0.9). In "
        "a container: --ipc=host --ulimit memlock=-1. Where rocminfo fails too, repair the driver",
        link="https://github.com/ROCm/clr/issues/281",
    ),
    Entry(
        id="allocation-absurd",
        title="CUDA out of memory. Tried to allocate more than 1EB memory",
        patterns=(r"Tried to allocate more than 1EB memory",),
        explains=("cuda-out-of-memory",),
        cause="a tensor of an absurd size was requested, so the memory is not full. The size was computed from wrong values: an "
        "integer overflow, an index that is no index, or a size that another rank should have sent",
        probe="print the shapes before the line of the traceback. In a collective: repeat with TORCH_DISTRIBUTED_DEBUG=DETAIL",
        fix="correct the size in that line. After all_gather_object or a broadcast of sizes: the same calls in the same order "
        "on all ranks, and torch.cuda.set_device(LOCAL_RANK) before them",
        link="https://github.com/pytorch/pytorch/issues/145965",
    ),
    Entry(
        id="cuda-allocator-assert",
        title='!block->expandable_segment_ INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp"',
        patterns=(
            r"(?:expandable_segment_|!handles_\.at\(\w+\)|use_count > 0)\W* INTERNAL ASSERT FAILED at .*CUDACachingAllocator\.cpp",
        ),
        cause="torch's allocator of GPU memory met a state that it does not expect. Usual: expandable_segments:True with "
        "max_split_size_mb or on a full GPU, or memory pools of CUDA graphs",
        probe="env | grep -E 'ALLOC_CONF'; the first CUDA out of memory above it; pip show torch",
        fix="unset PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF, or set one of the two options only. If it stays: reduce the "
        "memory that is used, and use a newer torch",
        link="https://github.com/pytorch/pytorch/issues/119452",
    ),
    Entry(
        id="too-many-peers",
        title="CUDA error: peer mapping resources exhausted",
        patterns=(r"\bpeer mapping resources exhausted",),
        explains=("cuda-unknown-error", "nccl-cuda-failure", "nccl-error"),
        cause="one process connected its GPU directly to more than eight others, and CUDA allows eight without NVSwitch. The host "
        "has more than nine GPUs",
        probe="nvidia-smi -L | wc -l; nvidia-smi topo -m; echo $CUDA_VISIBLE_DEVICES",
        fix="let each rank use its own GPU only: torch.cuda.set_device(LOCAL_RANK), and DDP in place of nn.DataParallel. For NCCL: "
        "export NCCL_P2P_DISABLE=1, or run with at most eight GPUs: CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7",
        link="https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#peer-to-peer-memory-access",
    ),
)
