"""Printed texts of `ddpkit/diagnosis/catalogue/install.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "glibc-too-old": (
        (
            "ImportError: /usr/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /home/me/lib/python3.10/site-packages/torch/lib/libtorch_python.so)",
            "https://github.com/pytorch/pytorch/issues/87279",
        ),
        (
            "OSError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.33' not found (required by libpyg.so)",
            "https://github.com/pyg-team/pyg-lib/issues/548",
        ),
    ),
    "packages-differ": (
        (
            "TypeError: Accelerator.__init__() got an unexpected keyword argument 'dispatch_batches'",
            "https://github.com/huggingface/transformers/issues/34699",
        ),
    ),
    "library-missing": (
        (
            "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
            "https://github.com/CannyLab/tsne-cuda/issues/126",
        ),
        (
            "RuntimeError: nvrtc: error: failed to open libnvrtc-builtins.so.11.1.",
            "CUDA 11, documented",
        ),
    ),
    "undefined-symbol": (
        (
            "python: symbol lookup error: "
            "/home/mickey/miniconda3/envs/reID/lib/python3.6/site-packages/torch/lib/libtorch_python.so: "
            "undefined symbol: PySlice_Unpack",
            "https://github.com/layumi/Person_reID_baseline_pytorch/issues/139",
        ),
    ),
    "numpy-abi": (
        (
            "A module that was compiled using NumPy 1.x cannot be run in",
            "https://github.com/jupyter/notebook/issues/7522",
        ),
        (
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject",
            "https://github.com/cyndilib/cyndilib/issues/5",
        ),
        ("RuntimeError: Numpy is not available", "torch 2.2, documented"),
        (
            "AttributeError: `np.float_` was removed in the NumPy 2.0 release. Use `np.float64` instead.",
            "numpy 2.4, run",
        ),
        ("ImportError: numpy.core.multiarray failed to import", "https://github.com/pytorch/pytorch/issues/42441"),
        (
            "RuntimeError: module compiled against API version 0xa but this version of numpy is 0x9",
            "https://github.com/pytorch/pytorch/issues/413",
        ),
    ),
    "import-name": (
        (
            "ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (/opt/conda/lib/python3.10/site-packages/triton/compiler/compiler.py)",
            "https://github.com/FoundationVision/Infinity/issues/31",
        ),
    ),
    "cuda-toolkit-mismatch": (
        (
            "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 12.2 does not match the version torch was compiled with 11.7, unable to compile cuda/cpp extensions without a matching cuda version.",
            "https://github.com/JIA-Lab-research/MGM/issues/91",
        ),
        (
            "deepspeed.ops.op_builder.builder.MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)",
            "https://github.com/deepspeedai/DeepSpeed/issues/2772",
        ),
        (
            "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
            "torch 2.2, source",
        ),
        (
            "RuntimeError: ('The detected CUDA version (11.2) mismatches the version that was used to compile",
            "torch 2.13, source",
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'", "Python 3.11, run"),
    ),
    "extension-build-failed": (
        (
            "RuntimeError: Ninja is required to load C++ extensions",
            "https://github.com/deepspeedai/DeepSpeed/issues/1687",
        ),
        ("RuntimeError: Error building extension 'fused_adam'", "DeepSpeed, documented"),
        (
            "      ninja: build stopped: subcommand failed.",
            "https://github.com/Dao-AILab/flash-attention/issues/420",
        ),
        (
            "error: command '/opt/conda/bin/nvcc' failed with exit code 255",
            "https://github.com/Dao-AILab/flash-attention/issues/298",
        ),
        (
            "RuntimeError: Error compiling objects for extension",
            "https://github.com/Dao-AILab/flash-attention/issues/279",
        ),
        (
            "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.",
            "torch 2.1, source",
        ),
        (
            "AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'",
            "DeepSpeed 0.14, source",
        ),
    ),
    "compile-failed": (
        (
            "torch._inductor.exc.InductorError: CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmp178vl5vy/cuda_utils.c', '-O3'",
            "https://github.com/kijai/ComfyUI-WanVideoWrapper/issues/1168",
        ),
        (
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
            "https://github.com/FoundationVision/Infinity/issues/31",
        ),
        (
            "/usr/bin/ld: cannot find -lcuda: No such file or directory",
            "https://github.com/pytorch/pytorch/issues/103417",
        ),
        ("triton.compiler.errors.CompilationError: at 12:4:", "triton 3.5, source"),
        ("RuntimeError: Cannot find a working triton installation. ", "torch 2.13, source"),
        ("AssertionError: libcuda.so cannot found!", "triton 3.5, source"),
        (
            "RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set "
            "triton.knobs.build.impl.",
            "triton 3.5, source",
        ),
        (
            "torch._inductor.exc.CppCompileError: C++ compile error",
            "torch 2.13, source",
        ),
        (
            "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error",
            "Triton 3.2, source",
        ),
        (
            "RuntimeError: Triton Error [CUDA]: invalid argument",
            "Triton 3.2, source",
        ),
        (
            "RuntimeError: PassManager::run failed",
            "Triton 3.2, source",
        ),
    ),
    "torchvision-mismatch": (
        ("RuntimeError: operator torchvision::nms does not exist", "torchvision, documented"),
        (
            "RuntimeError: Couldn't load custom C++ ops. This can happen if your PyTorch and torchvision "
            "versions are incompatible",
            "torchvision 0.17, source",
        ),
        (
            "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA major versions. PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8.",
            "torchvision 0.19, source",
        ),
    ),
    "flash-attention-missing": (
        (
            "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: the package flash_attn seems to be not installed.",
            "transformers, source",
        ),
        ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "flash-attention, source"),
        (
            "ModuleNotFoundError: No module named 'flash_attn_2_cuda'",
            "flash-attention 2.5, source",
        ),
    ),
    "openmp-twice": (
        (
            "Error: mkl-service + Intel(R) MKL: MKL_THREADING_LAYER=INTEL is incompatible with libgomp-a34b3233.so.1 library.",
            "https://github.com/pytorch/pytorch/issues/37377",
        ),
        (
            "OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already initialized.",
            "https://github.com/ogkalu2/comic-translate/issues/79",
        ),
    ),
    "python-too-old": (
        ("TypeError: unsupported operand type(s) for |: 'type' and 'NoneType'", "Python 3.9, documented"),
        ("ERROR: Package 'mypackage' requires a different Python: 3.11.7 not in '>=3.99'", "pip 23.2, run"),
        ("TypeError: 'type' object is not subscriptable", "Python 3.8, run"),
    ),
    "local-rank-argument": (("KeyError: 'LOCAL_RANK'", "Python 3.11, run"),),
    "torch-attribute": (("AttributeError: module 'torch' has no attribute 'accelerator'", "torch 2.2, documented"),),
    "bitsandbytes": (
        (
            "RuntimeError: CUDA Setup failed despite GPU being available. Please run the following command to get more information:",
            "bitsandbytes, source",
        ),
        (
            "UserWarning: The installed version of bitsandbytes was compiled without GPU support. 8-bit "
            "optimizers and GPU quantization are unavailable.",
            "https://github.com/hyperonym/basaran/issues/3",
        ),
        (
            "NameError: name 'str2optimizer32bit' is not defined",
            "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1281",
        ),
        (
            "AttributeError: 'NoneType' object has no attribute 'cquantize_blockwise_fp16_nf4'",
            "bitsandbytes 0.43, source",
        ),
        (
            "AttributeError: /opt/conda/lib/python3.10/site-packages/bitsandbytes/libbitsandbytes_cpu.so: undefined symbol: cget_col_row_stats",
            "bitsandbytes 0.38, source",
        ),
    ),
    "header-missing": (
        (
            "/usr/local/include/x.cuh:9:10: fatal error: cuda_profiler_api.h: No such file or directory",
            "https://github.com/mallorbc/Finetune_LLMs/issues/11",
        ),
        (
            "main.c:4:10: fatal error: Python.h: No such file or directory",
            "gcc 12, run",
        ),
        (
            "#error -- unsupported GNU version! gcc versions later than 11 are not supported!",
            "CUDA 11.6, source",
        ),
        (
            "error: Cannot find compiler 'cl.exe' in PATH",
            "nvcc 11, documented",
        ),
        (
            "c++: fatal error: Killed signal terminated program cc1plus",
            "gcc 12, source",
        ),
    ),
    "extension-not-built": (
        (
            "ImportError: /root/.cache/torch_extensions/py310_cu118/cpu_adam/cpu_adam.so: cannot open "
            "shared object file: No such file or directory",
            "DeepSpeed 0.14, run",
        ),
    ),
    "torch-broken": (
        (
            "ImportError: /env/lib/python3.9/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister",
            "https://github.com/pytorch/pytorch/issues/119932",
        ),
        (
            "ImportError: /usr/lib/python3.8/site-packages/torch/lib/libtorch_python.so: undefined symbol: _ZN5torch4cuda4nccl6detail16throw_nccl_errorE12ncclResult_t",
            "https://github.com/pytorch/pytorch/issues/32638",
        ),
    ),
    "libcuda-missing": (
        (
            "./test_detid: error while loading shared libraries: libcuda.so.1: cannot open shared object file: No such file or directory",
            "https://github.com/apptainer/singularity/issues/4783",
        ),
    ),
    "model-type-unknown": (
        (
            "ValueError: The checkpoint you are trying to load has model type `qwen3` but Transformers does not recognize this architecture.",
            "transformers 4.45, source",
        ),
    ),
    "extension-for-other-torch": (
        (
            "ImportError: flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN2at4_ops9_pad_enum4callERKNS_6TensorE",
            "flash-attention, documented",
        ),
        (
            "ImportError: /opt/conda/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
            "https://github.com/Dao-AILab/flash-attention/issues/940",
        ),
    ),
    "apex-not-built": (
        (
            "ModuleNotFoundError: No module named 'fused_layer_norm_cuda'",
            "https://github.com/NVIDIA/apex/issues/156",
        ),
        (
            "AssertionError: APEX and CUDA required for fused optimizers",
            "https://github.com/rwightman/efficientdet-pytorch/issues/46",
        ),
        (
            "RuntimeError: apex.optimizers.FusedAdam requires cuda extensions",
            "apex, source",
        ),
        (
            "ImportError: cannot import name 'UnencryptedCookieSessionFactoryConfig' from 'pyramid.session' (unknown location)",
            "https://github.com/NVIDIA-NeMo/Speech/issues/1971",
        ),
    ),
    "transformer-engine-not-built": (
        (
            "FileNotFoundError: Could not find shared object file for Transformer Engine torch lib.",
            "https://github.com/NVIDIA/TransformerEngine/issues/2505",
        ),
        (
            "ModuleNotFoundError: No module named 'transformer_engine_torch'",
            "Transformer Engine 2.0, source",
        ),
    ),
    "compile-python": (
        (
            "RuntimeError: Dynamo is not supported on Python 3.12+",
            "https://github.com/pytorch/pytorch/issues/120233",
        ),
        (
            "RuntimeError: torch.compile is not supported on Python 3.15+",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Python 3.15+ not yet supported for torch.compile",
            "torch 2.13, source",
        ),
    ),
}
