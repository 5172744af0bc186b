"""Errors of CUDA, cuDNN and cuBLAS, and of code that runs on a GPU."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="cuda-out-of-memory",
        title="CUDA out of memory",
        patterns=(
            r"CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)",
            r"\bCUDA out of memory\b",
            r"\bCUDA error: out of memory\b",
            r"\bcudaErrorMemoryAllocation\b",
            r"CUBLAS_STATUS_ALLOC_FAILED",
            r"HIP out of memory\. Tried to allocate",
            r"NCCL WARN Cuda failure (?:\d+ )?'out of memory'",
        ),
        cause="the GPU's memory is full: model, batch or sequence are too large for it, or another process holds a part (at the very start: one of an earlier run)",
        probe="nvidia-smi; in the script: print(torch.cuda.memory_summary())",
        fix="a smaller batch per rank (with gradient accumulation), activation checkpointing, bf16, or FSDP; against fragments: --env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        link="https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
        examples=(
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
        ),
    ),
    Entry(
        id="device-assert",
        title="CUDA error: device-side assert triggered",
        patterns=(
            r"Assertion `(?P<assertion>[^`]+)` failed\.?$",
            r"CUDA error: device-side assert triggered",
            r"\bcudaErrorAssert\b",
        ),
        cause="an index is out of range on the GPU: a label is not below the number of classes, or a token not below the size of the vocabulary. The traceback points elsewhere, for the GPU reports late",
        probe="the `Assertion ... failed` line above; once more with --env CUDA_LAUNCH_BLOCKING=1, then the traceback is right",
        fix="print min and max of labels and token ids before the step; correct the data, or the layer's size",
        link="https://github.com/milesial/Pytorch-UNet/issues/375",
        examples=(
            (
                "../aten/src/ATen/native/cuda/NLLLoss2d.cu:103: nll_loss2d_forward_kernel: block: [5,0,0], thread: [996,0,0] Assertion `t >= 0 && t < n_classes` failed.",
                "https://github.com/milesial/Pytorch-UNet/issues/375",
            ),
            (
                "RuntimeError: CUDA error: device-side assert triggered",
                "https://github.com/milesial/Pytorch-UNet/issues/258",
            ),
            ("cudaErrorAssert: device-side assert triggered", "CUDA 12.9, source"),
        ),
    ),
    Entry(
        id="illegal-memory-access",
        title="CUDA error: an illegal memory access was encountered",
        patterns=(
            r"\ban illegal memory access was encountered\b",
            r"\bcudaErrorIllegalAddress\b",
            r"CUDA error: misaligned address",
            r"CUDA error: unspecified launch failure",
            r"CUDA error: an illegal instruction was encountered",
            r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:]+)\): (?:13|31)\b",
        ),
        cause="a kernel wrote or read outside of its memory: a bug in a custom or compiled kernel, an index out of range, or a broken GPU",
        probe="once more with --env CUDA_LAUNCH_BLOCKING=1; compute-sanitizer python train.py; on the node: dmesg -T | grep -i xid",
        fix="leave out custom kernels (flash-attention, xformers, torch.compile) one by one; if it is always the same GPU, take the node out",
        link="https://docs.nvidia.com/deploy/xid-errors/",
        examples=(
            ("RuntimeError: CUDA error: an illegal memory access was encountered", "CUDA 12.9, source"),
            ("torch.AcceleratorError: CUDA error: unspecified launch failure", "CUDA 12.9, source"),
            (
                "NVRM: Xid (PCI:0000:4f:00): 31, pid=1896, Ch 00000010, intr 10000000. MMU Fault",
                "https://docs.nvidia.com/deploy/xid-errors/",
            ),
            ("cudaErrorIllegalAddress: an illegal memory access was encountered", "CUDA 12.9, source"),
            ("RuntimeError: CUDA error: misaligned address", "CUDA 12.9, source"),
            ("RuntimeError: CUDA error: an illegal instruction was encountered", "CUDA 12.9, source"),
        ),
    ),
    Entry(
        id="no-kernel-image",
        doubtful=True,
        title="CUDA error: no kernel image is available for execution on the device",
        patterns=(
            r"no kernel image is available for execution on the device",
            r"with CUDA capability (?P<capability>\w+) is not compatible with the current PyTorch installation",
        ),
        cause="this build of torch, or of an extension, has no code for this GPU: the GPU is newer or older than the build knows",
        probe="python -c 'import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())'",
        fix="install a torch whose CUDA knows the GPU (a newer cuXXX wheel for new GPUs, an older for old ones); build extensions with TORCH_CUDA_ARCH_LIST",
        link="https://github.com/pytorch/pytorch/issues/31285",
        examples=(
            (
                "RuntimeError: CUDA error: no kernel image is available for execution on the device",
                "https://github.com/pytorch/pytorch/issues/81883",
            ),
            (
                "NVIDIA RTX A6000 with CUDA capability sm_86 is not compatible with the current PyTorch installation.",
                "https://github.com/jiangyzy/GOAE/issues/16",
            ),
        ),
    ),
    Entry(
        id="no-cuda-gpus",
        title="No CUDA GPUs are available; Found no NVIDIA driver; Torch not compiled with CUDA enabled",
        patterns=(
            r"No CUDA GPUs are available",
            r"Found no NVIDIA driver on your system",
            r"Torch not compiled with CUDA enabled",
            r"\bno CUDA-capable device is detected\b",
            r"Attempting to deserialize object on a CUDA device but torch\.cuda\.is_available\(\) is False",
            r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
            r"No supported gpu backend found",
        ),
        cause="this rank sees no GPU: the job asked for none, CUDA_VISIBLE_DEVICES is empty or wrong, the container was started without them, the driver does not run, or torch is a build without CUDA",
        probe="the same way in: nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES; python -c 'import torch; print(torch.version.cuda)'",
        fix="ask for GPUs (SLURM: --gpus-per-node=N; docker: --gpus all; apptainer: --nv), unset CUDA_VISIBLE_DEVICES, or install the CUDA build",
        link="https://pytorch.org/get-started/locally/",
        examples=(
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
        ),
    ),
    Entry(
        id="cuda-init-failed",
        doubtful=True,
        title="CUDA initialization: CUDA unknown error; Unexpected error from cudaGetDeviceCount()",
        patterns=(
            r"Unexpected error from cudaGetDeviceCount\(\)",
            r"CUDA initialization: (?:CUDA unknown error|Unexpected error)",
            r"CUDA error: initialization error",
            r"\bcudaErrorSystemNotReady\b",
            r"\bsystem not yet initialized",
            r"CUDA_ERROR_SYSTEM_NOT_READY",
        ),
        cause="the driver is there, but does not answer as it should: modules do not fit (an update without a reboot), nvidia-uvm is not loaded, or nv-fabricmanager does not run on a machine with NVSwitch",
        probe="nvidia-smi; lsmod | grep nvidia_uvm; systemctl status nvidia-fabricmanager",
        fix="sudo systemctl restart nvidia-fabricmanager (its version must be the driver's), sudo modprobe nvidia-uvm, or reboot the node",
        link="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
        examples=(
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
        ),
    ),
    Entry(
        id="driver-library-mismatch",
        doubtful=True,
        title="Failed to initialize NVML: Driver/library version mismatch",
        patterns=(
            r"\bNVML/RM version mismatch",
            r"Failed to initialize NVML: Driver/library version mismatch",
            r"Failed to initialize NVML: Unknown Error",
            r"Can't initialize NVML",
            r"NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        ),
        cause="the driver was updated and its kernel module is still the old one; in a container `Unknown Error`: it lost its devices when systemd reloaded",
        probe="cat /proc/driver/nvidia/version; nvidia-smi",
        fix="reboot the node (or unload and load the nvidia modules); for a container: start it again",
        link="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html",
        examples=(
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
        ),
    ),
    Entry(
        id="cudnn-error",
        title="cuDNN error: CUDNN_STATUS_...",
        patterns=(
            r"cuDNN error: (?P<status>CUDNN_STATUS_\w+)",
            r"Unable to find a valid cuDNN algorithm",
            r"Could not load library libcudnn\w*\.so",
            r"cuDNN version incompatibility",
        ),
        cause="cuDNN failed: the GPU's memory is nearly full, an earlier error on the GPU, or another libcudnn than torch's is loaded",
        probe="echo $LD_LIBRARY_PATH; nvidia-smi; once more with --env CUDA_LAUNCH_BLOCKING=1",
        fix="unset LD_LIBRARY_PATH; a smaller batch; to be sure: torch.backends.cudnn.enabled = False",
        link="https://docs.nvidia.com/deeplearning/cudnn/latest/",
        examples=(
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
        ),
    ),
    Entry(
        id="cublas-error",
        title="CUDA error: CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_EXECUTION_FAILED",
        patterns=(
            r"\bCUBLAS_STATUS_(?P<status>NOT_INITIALIZED|EXECUTION_FAILED|INTERNAL_ERROR|INVALID_VALUE|NOT_SUPPORTED)\b when calling",
        ),
        cause="a matrix product on the GPU failed: its memory is full, an index was out of range just before, or libcublas is not torch's",
        probe="once more with --env CUDA_LAUNCH_BLOCKING=1; nvidia-smi; echo $LD_LIBRARY_PATH",
        fix="a smaller batch; check labels and token ids; unset LD_LIBRARY_PATH",
        link="https://docs.nvidia.com/cuda/cublas/",
        examples=(
            (
                "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
                "torch 2.2, source",
            ),
            (
                "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`",
                "torch 2.2, source",
            ),
        ),
    ),
    Entry(
        id="cuda-after-fork",
        title="Cannot re-initialize CUDA in forked subprocess",
        patterns=(r"Cannot re-initialize CUDA in forked subprocess",),
        cause="CUDA was used before the process was forked (by DataLoader workers or multiprocessing)",
        probe="grep -n 'cuda' train.py: what runs before the workers start?",
        fix="touch no GPU in the Dataset; torch.multiprocessing.set_start_method('spawn'), or DataLoader(multiprocessing_context='spawn')",
        link="https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing",
        examples=(
            (
                "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method",
                "torch 2.13, source",
            ),
        ),
    ),
    Entry(
        id="cuda-unknown-error",
        title="CUDA error: ..., CUDA kernel errors might be asynchronously reported",
        kind="generic",
        patterns=(
            r"(?:RuntimeError|AcceleratorError|CUDAError): CUDA error: (?P<error>.+)",
            r"CUDA kernel errors might be asynchronously reported",
            r"NCCL WARN Cuda failure (?:\d+ )?'(?P<error>[^']+)'",
            r"terminate called after throwing an instance of 'c10::CUDAError'",
        ),
        cause="a call on the GPU failed ({error}); the place in the traceback may be wrong",
        probe="once more with --env CUDA_LAUNCH_BLOCKING=1; on the node: dmesg -T | grep -i xid",
        fix="run it once with --env CUDA_LAUNCH_BLOCKING=1, and look where it stops then",
        link="https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
        examples=(
            ("RuntimeError: CUDA error: operation not supported", "CUDA 12.9, source"),
            (
                "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
                "torch 2.2, source",
            ),
            ("node1:10:99 [3] NCCL WARN Cuda failure 1 'invalid argument'", "NCCL 2.21, source"),
            (
                "terminate called after throwing an instance of 'c10::CUDAError'",
                "https://github.com/facebookresearch/fairseq/issues/5356",
            ),
        ),
    ),
    Entry(
        id="nvlink-error",
        title="Xid 74: NVLink error",
        patterns=(
            r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:]+)\): (?:74|119|120|122|136|137|149)\b",
            r"CUDA error: uncorrectable NVLink error",
        ),
        cause="an NVLink or the GPU's own controller failed (device {device})",
        probe="on that node: nvidia-smi nvlink -e; dmesg -T | grep -i xid",
        fix="take the node out (scontrol update nodename={host} state=drain reason=xid) and reset or reboot it",
        link="https://docs.nvidia.com/deploy/xid-errors/",
        examples=(
            (
                "NVRM: Xid (PCI:0000:4f:00): 74, pid=1896, NVLink: fatal error detected on link 3",
                "https://docs.nvidia.com/deploy/xid-errors/",
            ),
            (
                "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
                "https://github.com/MIC-DKFZ/nnUNet/issues/1519",
            ),
        ),
    ),
)
