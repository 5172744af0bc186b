"""Printed texts of `ddpkit/diagnosis/catalogue/gpu.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "duplicate-gpu": (
        (
            "node1:2114:2170 [1] NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4f000",
            "NCCL 2.29, source",
        ),
        (
            "NCCL WARN Multiple ranks detected using the same GPU on this node. Set NCCL_MULTI_RANK_GPU_ENABLE=1",
            "NCCL 2.30.3, source",
        ),
        (
            "NCCL WARN Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1",
            "NCCL 2.30.7, source",
        ),
    ),
    "invalid-device-ordinal": (
        ("AssertionError: Invalid device id", "torch 2.11 on an H100, run"),
        ("RuntimeError: CUDA error: invalid device ordinal", "https://github.com/ACEsuit/mace/issues/435"),
        ("Test HIP failure common.cu:1129 'hipErrorInvalidDevice'", "https://github.com/ROCm/rccl-tests/issues/16"),
        (
            "ValueError: device_id cuda:4 is out of range. Please use a device index less than the number of accelerators available: 4.",
            "torch 2.13, source",
        ),
        (
            "ValueError: local_rank 4 exceeds available GPUs in CUDA_VISIBLE_DEVICES=0,1,2,3",
            "torch 2.13, source",
        ),
    ),
    "more-gpus-asked": (
        (
            "MisconfigurationException: You requested gpu: [0, 1] But your machine only has: [0]",
            "Lightning, source",
        ),
        (
            "lightning_fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [0, 1, 2, 3]",
            "Lightning 2.2, source",
        ),
        (
            " But your machine only has: [0]",
            "Lightning 2.2, source",
        ),
        (
            "AssertionError: Invalid CUDA '--device 0,1' requested, use '--device cpu' or pass valid CUDA device(s)",
            "YOLOv5 7.0, source",
        ),
        (
            "AssertionError: insufficient CUDA devices for DDP command",
            "yolov5, unverified",
        ),
        (
            "AssertionError: local_world_size (2) must be less than or equal to the number of visible devices (1).",
            "https://github.com/lasgroup/SDPO/issues/34",
        ),
        (
            "        assert torch.cuda.device_count() > opt.local_rank",
            "https://github.com/WongKinYiu/yolov7/issues/1463",
        ),
        (
            "    assert num_gpu <= get_num_devices()",
            "https://github.com/Megvii-BaseDetection/YOLOX/issues/785",
        ),
        (
            "AssertionError: world size is 32 but have 4 available devices",
            "https://github.com/facebookresearch/fairseq/issues/4051",
        ),
        (
            "ValueError: You requested to find 4 devices but this machine only has 2 GPUs.",
            "lightning 2.5, source",
        ),
    ),
    "gpus-isolated": (
        (
            "misc/nvmlwrap.cc:183 NCCL WARN nvmlDeviceGetHandleByPciBusId() failed: Not Found",
            "https://github.com/NVIDIA/nccl/issues/1066",
        ),
    ),
    "device-guessed": (
        (
            "[rank0]:[W1120 17:02:51.1 ProcessGroupNCCL.cpp:4561] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 to "
            "perform barrier as devices used by this process are currently unknown. This can potentially cause a "
            "hang if this rank to GPU mapping is incorrect.",
            "torch 2.6, source",
        ),
        (
            "Guessing device ID based on global rank. This can cause a hang if rank to GPU mapping is "
            "heterogeneous. You can specify device_id in init_process_group()",
            "torch 2.15, source",
        ),
    ),
    "gpu-busy": (
        (
            "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
            "https://github.com/karpathy/nanoGPT/issues/116",
        ),
        (
            "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
            "torch 2.8, documented",
        ),
    ),
    "driver-too-old": (
        (
            "RuntimeError: r.nvmlDeviceGetNvLinkRemoteDeviceType_ INTERNAL ASSERT FAILED at "
            '"/pytorch/c10/cuda/driver_api.cpp":33, please report a bug to PyTorch. Can\'t find '
            "nvmlDeviceGetNvLinkRemoteDeviceType: /home/opt/gpuproxy/lib64/libnvidia-ml.so.1: undefined symbol: "
            "nvmlDeviceGetNvLinkRemoteDeviceType",
            "https://github.com/QwenLM/Qwen2.5-Omni/issues/36",
        ),
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your "
            "GPU driver",
            "torch, source",
        ),
        (
            "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
            "https://github.com/NVIDIA/nccl-tests/issues/98",
        ),
        ("NCCL WARN CUDA Driver version found is 11040. Minimum requirement is 12000", "NCCL, source"),
        (
            "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
            "CUDA 12.9, source",
        ),
        (
            "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
            "CUDA 12.9, source",
        ),
        (
            "NCCL WARN Cuda failure 'API call is not supported in the installed CUDA driver'",
            "CUDA 12.9, source",
        ),
        (
            "RuntimeError: Triton Error [CUDA]: device kernel image is invalid",
            "https://github.com/triton-lang/triton/issues/2971",
        ),
    ),
    "gpu-not-started": (
        (
            "[   21.091872] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:894)",
            "https://github.com/Cyridd/cmpunlocker/issues/4",
        ),
        (
            "[  903.609564] NVRM: RmInitAdapter: Cannot initialize GSP firmware RM",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/789",
        ),
        ("[    8.000000] amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init", "Linux, unverified"),
        (
            "[   38.773115] NVRM: RmInitAdapter failed! (0x26:0xffff:1127)",
            "https://github.com/microsoft/pai/issues/4344",
        ),
        (
            "[  115.083711] NVRM: GPU6 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1230",
        ),
    ),
    "gpu-lost": (
        (
            "NVRM: Xid (PCI:0000:4f:00): 79, pid=1896, GPU has fallen off the bus.",
            "https://docs.nvidia.com/deploy/xid-errors/",
        ),
        (
            "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost. Reboot the system "
            "to recover this GPU",
            "https://github.com/JosephKJ/OWOD/issues/81",
        ),
        (
            "NVRM: The NVIDIA GPU 0000:4f:00.0 is not responding to commands",
            "NVIDIA driver 535, documented",
        ),
    ),
    "gpu-ecc": (
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "CUDA 12.9, source"),
        (
            "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to "
            "activate.",
            "https://docs.nvidia.com/deploy/xid-errors/",
        ),
        (
            "[ 100.000000] amdgpu 0000:03:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block",
            "Linux, unverified",
        ),
        (
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No",
            "NVIDIA/open-gpu-kernel-modules, source",
        ),
    ),
    "gpu-memory-taken": (
        (
            "ValueError: Free memory on device (3.25/23.43 GiB) on startup is less than desired GPU memory utilization (0.9, 21.09 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
            "vLLM 0.9, source",
        ),
        (
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=8.8841552734375, local_gpu_memory=11.901611328125, local_gpu_memory * 0.9=10.7114501953125",
            "https://github.com/sgl-project/sglang/pull/5416",
        ),
    ),
    "nvidia-smi-finds-none": (
        ("No devices were found", "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/862"),
    ),
    "gpu-list-index": (
        (
            "    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], 'GPU')\nIndexError: list index out of range",
            "https://github.com/horovod/horovod/issues/1755",
        ),
    ),
}
