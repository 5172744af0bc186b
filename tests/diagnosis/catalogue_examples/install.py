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
        (
            "[rank1]: ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by /home/me/.triton/cache/4f7a/cuda_utils.so",
            "https://github.com/nv-tlabs/ChronoEdit",
        ),
    ),
    "packages-differ": (
        (
            "TypeError: Accelerator.__init__() got an unexpected keyword argument 'dispatch_batches'",
            "https://github.com/huggingface/transformers/issues/34699",
        ),
        (
            "TypeError: DPOTrainer.__init__() got an unexpected keyword argument 'processing_class'",
            "https://github.com/huggingface/trl/issues/2226",
        ),
        (
            "TypeError: __init__() got an unexpected keyword argument 'forward_prefetch'",
            "https://github.com/haotian-liu/LLaVA/issues/79",
        ),
        (
            "TypeError: CocoDataset: __init__() got an unexpected keyword argument 'times'",
            "MMDetection, documented",
        ),
        (
            "AttributeError: 'HfTrainerDeepSpeedConfig' object has no attribute 'is_zero3'",
            "https://github.com/huggingface/transformers/issues/39081",
        ),
        (
            "AttributeError: property 'eos_token' of 'ChatGLM4Tokenizer' object has no setter",
            "Python 3.11, unverified",
        ),
        (
            "TypeError: ChatGLM4Tokenizer._pad() got an unexpected keyword argument 'padding_side'",
            "https://github.com/vllm-project/vllm/issues/10761",
        ),
        (
            "TypeError: LlavaLlamaForCausalLM.__init__() got an unexpected keyword argument 'attn_implementation'",
            "https://github.com/haotian-liu/LLaVA/issues/1103",
        ),
        (
            "AttributeError: 'Qwen2VLGRPOVLLMTrainer' object has no attribute '_last_loaded_step'",
            "https://github.com/StarsfieldAI/R1-V/pull/44",
        ),
        (
            "AttributeError: 'vLLMRollout' object has no attribute 'execute_method'",
            "https://github.com/verl-project/verl/issues/2001",
        ),
        (
            "[rank0]: AttributeError: 'AdamW' object has no attribute 'train'",
            "https://github.com/QwenLM/Qwen3-VL/issues/163",
        ),
        (
            "AttributeError: 'ActorHandle' object has no attribute 'init_process_group'",
            "https://github.com/THUDM/slime/issues/178",
        ),
        (
            "AttributeError: 'MMDistributedDataParallel' object has no attribute '_use_replicated_tensor_module'",
            "https://github.com/yunxiangfu2001/SegMAN/issues/11",
        ),
        (
            "AttributeError: 'Qwen2_5_VLConfig' object has no attribute 'image_token_id'",
            "https://github.com/QwenLM/Qwen3-VL/issues/705",
        ),
        (
            "AttributeError: 'LlamaTokenizerFast' object has no attribute 'apply_chat_template'",
            "https://github.com/huggingface/transformers/issues/27078",
        ),
        (
            "AttributeError: Qwen2Tokenizer has no attribute all_special_tokens_extended. Did you mean: 'num_special_tokens_to_add'?",
            "https://github.com/QwenLM/Qwen3-VL/issues/2058",
        ),
        (
            "TypeError: EngineArgs.__init__() got an unexpected keyword argument 'worker_extension_cls'",
            "https://github.com/huggingface/trl/issues/3304",
        ),
        (
            "AttributeError: 'GRPOConfig' object has no attribute 'num_iterations'. Did you mean: 'num_generations'?",
            "https://github.com/dhcode-cpp/X-R1/issues/72",
        ),
        (
            "TypeError: qwen_2_mixed_modality_forward() got an unexpected keyword argument 'second_per_grid_ts'",
            "https://github.com/2U1/Qwen-VL-Series-Finetune/issues/142",
        ),
        (
            "[rank1]: ValueError: The following `model_kwargs` are not used by the model: ['_data'] (note: typos in the generate arguments will also show up in this list)",
            "transformers 4.46, source",
        ),
        (
            "TypeError: flash_attn_varlen_func() got an unexpected keyword argument 'softcap'",
            "https://github.com/vllm-project/vllm/issues/7191",
        ),
    ),
    "library-missing": (
        (
            "Failed to load NCCL library from /opt/nccl/build/lib/libnccl.so.2.21.5. It is expected if you are not running on NVIDIA/AMD GPUs.",
            "https://github.com/huggingface/trl/issues/3925",
        ),
        (
            "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
            "https://github.com/CannyLab/tsne-cuda/issues/126",
        ),
        (
            "RuntimeError: nvrtc: error: failed to open libnvrtc-builtins.so.11.1.",
            "CUDA, unverified",
        ),
    ),
    "undefined-symbol": (
        (
            "python: symbol lookup error: /usr/local/cuda/lib64/libcublas.so.11: undefined symbol: cublasLtGetStatusString, version libcublasLt.so.11",
            "glibc 2.36, source",
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
        (
            "SystemError: initialization of _internal failed without raising an exception",
            "Python 3.11, source",
        ),
        ("ValueError: Unable to avoid copy while creating an array as requested.", "NumPy 2.4, run"),
    ),
    "import-name": (
        (
            "ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (/opt/conda/lib/python3.10/site-packages/triton/compiler/compiler.py)",
            "https://github.com/FoundationVision/Infinity/issues/31",
        ),
    ),
    "cuda-toolkit-mismatch": (
        (
            "nvcc fatal   : Value 'c++17' is not defined for option 'std'",
            "https://github.com/deepspeedai/DeepSpeedExamples/issues/594",
        ),
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
        ("/bin/sh: 1: /usr/local/cuda-11.8/bin/nvcc: not found", "dash 0.5.12, run"),
        (
            "RuntimeError: flash_attn was requested, but nvcc was not found.  Are you sure your environment has nvcc available?",
            "https://github.com/Dao-AILab/flash-attention/issues/509",
        ),
        (
            "RuntimeError: FlashAttention is only supported on CUDA 11.7 and above.  Note: make sure nvcc has a supported version by running nvcc -V.",
            "flash-attn 2.5, unverified",
        ),
        (
            "RuntimeError: Cuda extensions are being compiled with a version of Cuda that does not match the version used to compile Pytorch binaries.  Pytorch binaries were compiled with Cuda 10.2.",
            "apex 0.1, source",
        ),
    ),
    "extension-build-failed": (
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
        (
            "ERROR:megatron.core.datasets.utils:Failed to compile the C++ dataset helper functions",
            "Megatron-LM, unverified",
        ),
        (
            "RuntimeError: Unable to JIT load the async_io op due to it not being compatible due to hardware/software issue. None",
            "DeepSpeed 0.16, source",
        ),
        (
            "subprocess.CalledProcessError: Command '['which', 'c++']' returned non-zero exit status 1.",
            "torch, unverified",
        ),
        (
            "ERROR: Could not build wheels for flash-attn, which is required to install pyproject.toml-based projects",
            "pip 23, source",
        ),
        (
            "ERROR: Failed to build installable wheels for some pyproject.toml based projects (flash-attn)",
            "pip 24.0, source",
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
        ("triton.compiler.errors.CompilationError: at 12:4:", "triton 3.5, source"),
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
            "Triton, source",
        ),
        (
            "RuntimeError: Triton Error [CUDA]: invalid argument",
            "Triton 3.6.0, source",
        ),
        (
            "RuntimeError: PassManager::run failed",
            "Triton 3.6, source",
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpj_1fdcu9/main.c', '-O3', '-I/usr/local/cuda/include', '-shared', '-fPIC', '-lcuda', '-o', '/tmp/tmpj_1fdcu9/triton_.cpython-310-x86_64-linux-gnu.so']' returned non-zero exit status 1.",
            "https://github.com/pytorch/pytorch/issues/92745",
        ),
        (
            "RuntimeError: Internal Triton PTX codegen error:",
            "https://github.com/triton-lang/triton/issues/1941",
        ),
    ),
    "compile-strides": (
        (
            "[rank0]: AssertionError: expected size 4==4, stride 128==1050624 at dim=1; expected size 8208==8208, stride 512==128 at dim=2",
            "torch 2.5, documented",
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
            "torchvision 0.28, source",
        ),
        (
            "AttributeError: partially initialized module 'torchvision' has no attribute 'extension' (most likely due to a circular import)",
            "Python 3.11, run",
        ),
        (
            "NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom build).",
            "https://github.com/ltdrdata/ComfyUI-Impact-Pack/issues/915",
        ),
        (
            "RuntimeError: No such operator torchvision::nms",
            "https://github.com/ultralytics/yolov5/issues/1272",
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
            "flash-attention, source",
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
    "torch-attribute": (
        ("AttributeError: module 'torch' has no attribute 'accelerator'", "torch 2.2, documented"),
        (
            "AttributeError: 'torch.dtype' object has no attribute 'itemsize'",
            "https://github.com/hiyouga/LLaMA-Factory/issues/2986",
        ),
    ),
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
            "AttributeError: 'NoneType' object has no attribute 'cadam32bit_grad_fp32'",
            "bitsandbytes, unverified",
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
            "Python 3.11, run",
        ),
        (
            "Could not load bitsandbytes native library: /notebooks/bitsandbytes/bitsandbytes/libbitsandbytes_cpu.so: cannot open shared object file: No such file or directory",
            "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1559",
        ),
    ),
    "cudart-twice": (
        (
            "RuntimeError: Multiple libcudart libraries found: libcudart.so.12 and libcudart.so.13",
            "https://github.com/awslabs/agentcore-rl-toolkit/pull/96",
        ),
    ),
    "triton-backends": (
        (
            "RuntimeError: 2 compatible backends for target (cuda) ([<class 'c.CUDABackend'>, <class 'nvi.CUDABackend'>]). There should only be one.",
            "https://github.com/pytorch/torchtitan/issues/55",
        ),
        (
            "RuntimeError: 2 active drivers ([<class 'amd.HIPDriver'>, <class 'nvidia.CudaDriver'>]). There should only be one.",
            "triton 3.1, unverified",
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
            "error: Cannot find compiler 'cl.exe' in PATH",
            "nvcc 11, documented",
        ),
        (
            "c++: fatal error: no input files",
            "gcc 12.2, run",
        ),
    ),
    "extension-not-built": (
        (
            "ImportError: /root/.cache/torch_extensions/py310_cu118/cpu_adam/cpu_adam.so: cannot open "
            "shared object file: No such file or directory",
            "DeepSpeed 0.14, run",
        ),
        (
            "ImportError: /data1/projects/Megatron-LLaMA-main/megatron/fused_kernels/build/scaled_upper_triang_masked_softmax_cuda.so: cannot open shared object file: No such file or directory",
            "https://github.com/deepspeedai/Megatron-DeepSpeed/issues/255",
        ),
    ),
    "megatron-helpers": (
        (
            "[rank0]: ImportError: cannot import name 'helpers' from 'megatron.data' (/opt/Megatron-LLM/megatron/data/__init__.py)",
            "Megatron-LLM, documented",
        ),
        (
            "ModuleNotFoundError: No module named 'megatron.core.datasets.helpers_cpp'",
            "megatron-core 0.10, unverified",
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
        (
            "  File \"/opt/lib/python3.10/site-packages/transformers/models/auto/configuration_auto.py\", line 723, in __getitem__\n    raise KeyError(key)\nKeyError: 'mistral'",
            "transformers 4.49, source",
        ),
    ),
    "submodule-missing": (
        (
            "ModuleNotFoundError: No module named 'transformers.deepspeed'",
            "https://github.com/eosphoros-ai/DB-GPT-Hub/issues/295",
        ),
        (
            "ModuleNotFoundError: No module named 'torch._six'",
            "Python 3.11, run",
        ),
        (
            "ImportError: No module named torchvision.models",
            "Python 2.7, run",
        ),
    ),
    "requirement-not-met": (
        (
            "ImportError: deepspeed>=0.5.7 is required for a normal functioning of this module, but found deepspeed==0.5.3.",
            "https://github.com/mallorbc/Finetune_LLMs/issues/3",
        ),
        (
            "ImportError: Using the `Trainer` with `PyTorch` requires `accelerate>=0.20.1`: Please run `pip install transformers[torch]` or `pip install accelerate -U`",
            "https://github.com/huggingface/transformers/issues/28191",
        ),
        (
            "ImportError: Using `bitsandbytes` 8-bit quantization requires Accelerate: `pip install accelerate` and the latest version of bitsandbytes: `pip install -i https://pypi.org/simple/ bitsandbytes`",
            "https://github.com/georgesung/llm_qlora/issues/10",
        ),
        (
            "ImportError: \nLlamaConverter requires the protobuf library but it was not found in your environment. Checkout the instructions on the",
            "transformers 4.40, source",
        ),
        (
            "ImportError: This modeling file requires the following packages that were not found in your environment: flash_attn, einops. Run `pip install flash_attn einops`",
            "transformers 4.49.0, source",
        ),
        (
            "importlib.metadata.PackageNotFoundError: No package metadata was found for bitsandbytes",
            "Python 3.11, run",
        ),
        (
            "pkg_resources.DistributionNotFound: The 'tokenizers>=0.10' distribution was not found and is required by the application",
            "setuptools 65.5, run",
        ),
        (
            "pkg_resources.VersionConflict: (tokenizers 0.9.4 (/opt/lib/python3.8/site-packages), Requirement.parse('tokenizers<0.11,>=0.10.1'))",
            "setuptools 65, run",
        ),
        (
            "ValueError: Due to a serious vulnerability issue in `torch.load`, even with `weights_only=True`, we now require users to upgrade torch to at least v2.6 in order to use the function.",
            "transformers 4.53, source",
        ),
        (
            "ImportError: You're trying to use a PEFT adapter but PEFT is not installed. Please install it with `pip install peft`.",
            "trl 1.13, source",
        ),
        (
            "accelerate>=0.20.3 is required for a normal functioning of this module, but found accelerate==0.19.0.",
            "transformers 4.49, source",
        ),
        (
            "AssertionError: MMCV==2.2.0 is used but incompatible. Please install mmcv>=2.0.0rc4, <2.2.0.",
            "mmdetection, unverified",
        ),
        (
            "ImportError: Using the `Trainer` with `PyTorch` requires `accelerate>=0.26.0`: Please run `pip install transformers[torch]` or `pip install 'accelerate>=0.26.0'`",
            "transformers 4.49, source",
        ),
        (
            "ImportError: Using `low_cpu_mem_usage=True` or a `device_map` requires Accelerate: `pip install 'accelerate>=0.26.0'`",
            "transformers 4.49, source",
        ),
        (
            "ValueError: Due to a serious vulnerability issue in `torch.load`, even with `weights_only=True`, we now require users to upgrade torch to at least v2.6 in order to use the function. This version restriction does not apply when loading files with safetensors.",
            "transformers 4.57.6, source",
        ),
    ),
    "protobuf-version": (
        (
            "TypeError: Descriptors cannot not be created directly.",
            "https://github.com/zhenpeiyang/MVS2D/issues/19",
        ),
        (
            "TypeError: Descriptors should not be created directly, but only retrieved from their parent.",
            "https://github.com/victordibia/handtracking/issues/38",
        ),
        (
            "ImportError: cannot import name 'builder' from 'google.protobuf.internal' (/opt/lib/python3.8/site-packages/google/protobuf/internal/__init__.py)",
            "Python 3.8, run",
        ),
    ),
    "setuptools-version": (
        (
            "ModuleNotFoundError: No module named 'pkg_resources'",
            "Python 3.12, run",
        ),
        (
            "AttributeError: module 'distutils' has no attribute 'version'",
            "Python 3.9, run",
        ),
        (
            "AttributeError: module 'pkgutil' has no attribute 'ImpImporter'. Did you mean: 'zipimporter'?",
            "Python 3.12, run",
        ),
        (
            "ImportError: cannot import name 'packaging' from 'pkg_resources' (/opt/lib/python3.10/site-packages/pkg_resources/__init__.py)",
            "setuptools, unverified",
        ),
    ),
    "extension-of-other-torch": (
        (
            "ImportError: /home/ann/anaconda3/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
            "https://github.com/Dao-AILab/flash-attention/issues/1612",
        ),
        (
            "OSError: /opt/conda/lib/python3.8/site-packages/torch_scatter/_version_cuda.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSs",
            "Python 3.11, run",
        ),
        (
            "ImportError: /opt/conda/lib/python3.8/site-packages/transformer_engine_extensions.cpython-38-x86_64-linux-gnu.so: undefined symbol: _ZN2at4_ops7resize_4callERKNS_6TensorE",
            "glibc 2.36, run",
        ),
        (
            "OSError: libtorch_cuda_cpp.so: cannot open shared object file: No such file or directory",
            "Python 3.11, run",
        ),
        (
            "ImportError: flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN2at4_ops9_pad_enum4callERKNS_6TensorE",
            "flash-attention, documented",
        ),
        (
            "ImportError: /opt/conda/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
            "https://github.com/Dao-AILab/flash-attention/issues/940",
        ),
    ),
    "torch-ops-missing": (
        (
            "[rank0]: AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'",
            "https://github.com/vllm-project/vllm/issues/5461",
        ),
        (
            "RuntimeError: operator _C::silu_and_mul does not exist",
            "torch 2.4, unverified",
        ),
        (
            "RuntimeError: No such operator sgl_kernel::rmsnorm",
            "torch 2.4, unverified",
        ),
        (
            "[rank0]: NotImplementedError: Could not run 'vllm::lora_expand' with arguments from the 'CUDA' backend. This could be because the operator doesn't exist for this backend",
            "torch 2.9 and vLLM, documented",
        ),
    ),
    "numba-cuda": (
        (
            "numba.cuda.cudadrv.error.NvvmError: Failed to verify",
            "https://github.com/NVIDIA-NeMo/Speech/issues/8652",
        ),
        (
            "OSError: libnvvm.so: cannot open shared object file: No such file or directory",
            "numba 0.59, documented",
        ),
        (
            "numba.cuda.cudadrv.error.NvvmSupportError: libNVVM cannot be found. Do `conda install cudatoolkit`:",
            "numba 0.59, unverified",
        ),
    ),
    "extension-of-other-python": (
        (
            "python: symbol lookup error: "
            "/home/mickey/miniconda3/envs/reID/lib/python3.6/site-packages/torch/lib/libtorch_python.so: "
            "undefined symbol: PySlice_Unpack",
            "https://github.com/layumi/Person_reID_baseline_pytorch/issues/139",
        ),
        (
            "ImportError: dynamic module does not define module export function (PyInit_transformer_op)",
            "https://github.com/deepspeedai/DeepSpeed/issues/949",
        ),
        (
            "ImportError: Python version mismatch: module was compiled for Python 3.8, but the interpreter version is incompatible: 3.10.12 (main, Jul 5 2023)",
            "pybind11 3.0, source",
        ),
        (
            "python: symbol lookup error: "
            "/home/mickey/miniconda3/envs/reID/lib/python3.6/site-packages/torch/lib/libtorch_python.so: "
            "undefined symbol: PySlice_Unpack",
            "https://github.com/layumi/Person_reID_baseline_pytorch/issues/139",
        ),
    ),
    "static-tls": (
        (
            "ImportError: /opt/conda/lib/libgomp.so.1: cannot allocate memory in static TLS block",
            "glibc 2.36, run",
        ),
    ),
    "pip-no-version": (
        (
            "ERROR: No matching distribution found for torch==1.7.1+cu110",
            "pip 23, source",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement torch==1.7.1+cu110 (from versions: 2.0.0, 2.0.1)",
            "pip 23.2.1, source",
        ),
        (
            "ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/dependency-resolution/#dealing-with-dependency-conflicts",
            "pip 23.2, source",
        ),
    ),
    "compiler-too-old": (
        (
            "/opt/lib/python3.9/site-packages/torch/include/c10/util/C++17.h:27:2: error: #error You need C++14 to compile PyTorch",
            "https://github.com/azshue/AutoPoison/issues/6",
        ),
        (
            '/opt/lib/python3.12/site-packages/torch/include/c10/util/C++17.h:13:2: error: #error "You\'re trying to build PyTorch with a too old version of GCC. We need GCC 9 or later."',
            "https://github.com/deepspeedai/DeepSpeed/issues/7143",
        ),
        (
            "/opt/lib/python3.10/site-packages/torch/include/ATen/ATen.h:5:2: error: #error C++17 or later compatible compiler is required to use ATen.",
            "torch 2.13, run",
        ),
        (
            '/x/site-packages/torch/include/c10/util/TypeIndex.h:76:2: error: #error "You\'re running a too old version of GCC. We need GCC 5 or later."',
            "https://github.com/open-mmlab/mmdetection/issues/4185",
        ),
    ),
    "compiler-killed": (
        (
            "gcc: fatal error: Killed signal terminated program cc1plus",
            "https://github.com/deepspeedai/DeepSpeed/issues/5677",
        ),
        (
            "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
            "nvcc 13.0, source",
        ),
    ),
    "source-directory-imported": (
        ("ModuleNotFoundError: No module named 'torch_npu._C'", "https://github.com/Ascend/pytorch/issues/24"),
        ("ModuleNotFoundError: No module named 'mmcv._ext'", "https://github.com/open-mmlab/mmcv/issues/204"),
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
            "apex, unverified",
        ),
        (
            "ImportError: cannot import name 'UnencryptedCookieSessionFactoryConfig' from 'pyramid.session' (unknown location)",
            "https://github.com/NVIDIA-NeMo/Speech/issues/1971",
        ),
        (
            "    model, optimizer = amp.initialize(model, optimizer, opt_level=config.AMP_OPT_LEVEL)\nAttributeError: 'NoneType' object has no attribute 'initialize'",
            "https://github.com/microsoft/Swin-Transformer/issues/17",
        ),
        (
            "ImportError: cannot import name 'amp' from 'apex' (/opt/venv/lib/python3.12/site-packages/apex/__init__.py)",
            "https://github.com/NVIDIA/apex/issues/1902",
        ),
    ),
    "transformer-engine-not-built": (
        (
            "FileNotFoundError: Could not find shared object file for Transformer Engine torch lib.",
            "https://github.com/NVIDIA/TransformerEngine/issues/2505",
        ),
        (
            "ModuleNotFoundError: No module named 'transformer_engine_torch'",
            "Python 3.11, run",
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
    "nvcc-architecture": (
        (
            "nvcc fatal   : Unsupported gpu architecture 'compute_89'",
            "https://github.com/FlyMyAI/flymyai-lora-trainer/issues/54",
        ),
        ("nvcc fatal   : Value 'sm_86' is not defined for option 'gpu-architecture'", "CUDA 11.0, unverified"),
        ("ValueError: Unknown CUDA arch (8.9) or GPU not supported", "torch 1.13, source"),
    ),
    "linker-library-missing": (
        (
            "/usr/bin/ld: cannot find -lcurand: No such file or directory",
            "https://github.com/deepspeedai/DeepSpeed/issues/7174",
        ),
        ("/usr/bin/ld: cannot find -lcurand", "https://github.com/deepspeedai/DeepSpeed/issues/889"),
    ),
    "cudnn-part-missing": (
        (
            "Unable to load any of {libcudnn_graph.so.9.1.0, libcudnn_graph.so.9.1, libcudnn_graph.so.9, libcudnn_graph.so}",
            "https://github.com/modelscope/ms-swift/issues/3390",
        ),
        (
            "Could not locate cudnn_ops64_9.dll. Please make sure it is in your library path!",
            "https://github.com/ddean2009/MoneyPrinterPlus/issues/91",
        ),
        (
            "Invalid handle. Cannot load symbol cudnnCreateConvolutionDescriptor",
            "https://github.com/m-bain/whisperX/issues/1297",
        ),
        (
            "(WorkerDict pid=23189) Invalid handle. Cannot load symbol cublasLtGetVersion [repeated 7x across cluster]",
            "https://github.com/verl-project/verl/issues/5659",
        ),
        (
            "Unable to load any of {libcublasLt.so.12.1.3.1, libcublasLt.so.12}",
            "cuDNN 9, unverified",
        ),
    ),
    "torchcodec-no-ffmpeg": (
        ("RuntimeError: Could not load libtorchcodec. Likely causes:", "torchcodec 0.17, source"),
    ),
    "audio-backend-missing": (
        (
            "[rank0]: audioread.exceptions.NoBackendError",
            "https://github.com/beetbox/audioread",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'",
            "https://github.com/beetbox/audioread",
        ),
        (
            "/bin/sh: 1: ffmpeg: not found",
            "dash, unverified",
        ),
        (
            "RuntimeError: Couldn't find appropriate backend to handle uri /data/a.flac and format None.",
            "torchaudio 2.1, unverified",
        ),
    ),
    "dll-not-loaded": (
        (
            'OSError: [WinError 126] The specified module could not be found. Error loading "C:\\Users\\user\\anaconda3\\Lib\\site-packages\\torch\\lib\\fbgemm.dll" or one of its dependencies.',
            "https://github.com/mhamilton723/FeatUp/issues/67",
        ),
        (
            'OSError: [WinError 126] 找不到指定的模块。 Error loading "D:\\env\\Lib\\site-packages\\torch\\lib\\fbgemm.dll" or one of its dependencies',
            "https://github.com/hiyouga/LlamaFactory/issues/5132",
        ),
        (
            "ImportError: DLL load failed while importing _C: The specified procedure could not be found.",
            "Python 3.10, unverified",
        ),
    ),
    "codec-of-locale": (
        (
            "UnicodeDecodeError: 'gbk' codec can't decode byte 0x80 in position 68: illegal multibyte sequence",
            "https://github.com/hscspring/hcgf/issues/12",
        ),
        (
            "UnicodeDecodeError: 'ascii' codec can't decode byte 0xc3 in position 3: ordinal not in range(128)",
            "Python 3.11, run",
        ),
    ),
    "compiler-not-for-cuda": (
        (
            "RuntimeError: The current installed version of g++ (4.8.5) is less than the minimum required version by CUDA 11.7 (6.0.0). Please make sure to use an adequate version of g++ (>=6.0.0, <12.0).",
            "https://github.com/Dao-AILab/flash-attention/issues/246",
        ),
    ),
    "nvcc-fatal": (
        (
            "nvcc fatal   : Unsupported NVHPC compiler found. nvc++ is the only NVHPC compiler that is supported.",
            "https://github.com/deepspeedai/DeepSpeed/issues/6654",
        ),
        (
            "nvcc fatal   : Failed to preprocess host compiler properties.",
            "nvcc 12, unverified",
        ),
    ),
    "build-without-torch": (
        (
            "  File \"/tmp/pip-install-xx1/xformers_56170db20c4e/setup.py\", line 18: ModuleNotFoundError: No module named 'torch'",
            "https://github.com/facebookresearch/xformers/issues/740",
        ),
    ),
    "windows-no-compiler": (
        (
            'error: Microsoft Visual C++ 14.0 or greater is required. Get it with "Microsoft C++ Build Tools": https://visualstudio.microsoft.com/visual-cpp-build-tools/',
            "setuptools 80, source",
        ),
        (
            "subprocess.CalledProcessError: Command '['where', 'cl']' returned non-zero exit status 1.",
            "torch 2.13, source",
        ),
    ),
    "extension-without-cuda": (
        (
            "RuntimeError: nms_impl: implementation for device cuda:0 not found.",
            "https://github.com/open-mmlab/mmdetection/issues/6765",
        ),
        (
            "RuntimeError: Not compiled with GPU support",
            "detectron2, unverified",
        ),
    ),
    "compile-too-often": (
        (
            "torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached with fullgraph=True. Excessive recompilations can degrade performance due to the compilation overhead of each recompilation.",
            "https://github.com/microsoft/dion/issues/23",
        ),
        (
            "CacheLimitExceeded                        Traceback (most recent call last)",
            "https://github.com/HomebrewML/HeavyBall/issues/16",
        ),
    ),
    "compile-unsupported": (
        (
            "torch._dynamo.exc.TorchRuntimeError: Dynamo failed to run FX node with fake tensors: call_function",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function. This is not supported at the moment.",
            "torch 2.13, source",
        ),
        (
            "torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode: Could not guard on data-dependent expression u0 <= 1",
            "torch 2.13, source",
        ),
        (
            "torch.fx.experimental.symbolic_shapes.ConstraintViolationError: Constraints violated (L['x'].size()[0])!",
            "torch 2.13, source",
        ),
    ),
    "compile-cache-race": (
        (
            '  File "/torch/_inductor/runtime/autotune_cache.py", line 120, in read_best json.decoder.JSONDecodeError: Extra data: line 1 column 193 (char 192)',
            "torch, unverified",
        ),
    ),
    "numba-numpy": (
        (
            "ImportError: Numba needs NumPy 2.0 or less. Got NumPy 2.1.",
            "numba 0.60, source",
        ),
    ),
    "project-extension-missing": (
        (
            "ImportError: cannot import name 'ball_query_ext' from partially initialized module 'mmdet3d.ops.ball_query' (most likely due to a circular import) (/home/user/mmdetection3d/mmdet3d/ops/ball_query/__init__.py)",
            "https://github.com/open-mmlab/mmdetection3d/issues/713",
        ),
        (
            "ImportError: cannot import name 'iou3d_cuda' from partially initialized module 'third_party.bevformer.ops.iou3d' (most likely due to a circular import) (/workspace/BEVFormer_tensorrt/./third_party/bevformer/ops/iou3d/__init__.py)",
            "https://github.com/DerryHub/BEVFormer_tensorrt/issues/2",
        ),
    ),
    "compile-worker-died": (
        (
            "RuntimeError: A compilation subprocess exited unexpectedly. This is likely due to a crash. To facilitate debugging, you can re-run with TORCHINDUCTOR_COMPILE_THREADS=1 to cause compilation to occur in the main process.",
            "torch 2.13, source",
        ),
        ("RuntimeError: Attempting to use a closed pool", "https://github.com/pytorch/torchtitan/issues/3944"),
        (
            '  File "/opt/venv/lib/python3.11/site-packages/torch/_inductor/async_compile.py", line 265, in wait\nconcurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.',
            "Python 3.11, source",
        ),
    ),
    "triton-missing": (
        (
            "RuntimeError: Cannot find a working triton installation. More information on installing Triton can be found at https://github.com/openai/triton",
            "https://github.com/triton-lang/triton/issues/3708",
        ),
        ("RuntimeError: Cannot find a working triton installation. ", "torch 2.13, source"),
    ),
    "triton-gpu-too-old": (
        (
            "RuntimeError: Found Tesla P100-PCIE-16GB which is too old to be supported by the triton GPU compiler, which is used as the backend. Triton only supports devices of CUDA Capability >= 7.0, but your device is of CUDA capability 6.0",
            "torch 2.13, source",
        ),
        (
            "ptxas /tmp/tmpmfrp_3wp.ptx, line 277; error   : Feature 'cvt.bf16.f32' requires .target sm_80 or higher",
            "https://github.com/hiyouga/LlamaFactory/issues/7417",
        ),
    ),
    "extension-source-old": (
        (
            "csrc/roi_align_cuda.cpp:1:21: fatal error: THC/THC.h: No such file or directory",
            "https://github.com/intchous/SmartText/issues/3",
        ),
        (
            "src/deform_conv_cuda.cpp:559:3: error: ‘AT_CHECK’ was not declared in this scope; did you mean ‘DCHECK’?",
            "https://github.com/Pose-Group/DCPose/issues/35",
        ),
        (
            'error: identifier "AT_CHECK" is undefined',
            "https://github.com/tianzhi0549/FCOS/issues/276",
        ),
        (
            'ms_deform_attn_cuda.cu(65): error: no suitable conversion function from "const at::DeprecatedTypeProperties" to "c10::ScalarType" exists',
            "https://github.com/IDEA-Research/GroundingDINO/issues/405",
        ),
        (
            "error: cannot convert ‘const at::DeprecatedTypeProperties’ to ‘c10::ScalarType’",
            "https://github.com/amajee11us/SMILe-FSOD/issues/3",
        ),
        (
            '/home/zyx/Xplace/cpp_to_py/density_map_cuda/density_map_cuda_kernel.cu(155): error: namespace "at::cuda" has no member "getCurrentCUDAStream"',
            "https://github.com/cuhk-eda/Xplace/issues/1",
        ),
    ),
    "ninja-missing": (
        (
            "RuntimeError: Ninja is required to load C++ extensions",
            "https://github.com/unlimblue/KNN_CUDA/issues/14",
        ),
        (
            "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)",
            "torch 2.13, source",
        ),
    ),
    "libcuda-not-linked": (
        (
            "/usr/bin/ld: cannot find -lcuda: No such file or directory",
            "https://github.com/pytorch/pytorch/issues/103417",
        ),
        (
            "AssertionError: libcuda.so cannot found!",
            "triton 3.5, source",
        ),
    ),
    "compiler-too-new": (
        (
            "/usr/lib/cuda/include/crt/host_config.h:139:2: error: #error -- unsupported GNU version! gcc versions later than 10 are not supported! The nvcc flag '-allow-unsupported-compiler' can be used to override this version check;",
            "https://github.com/facebookresearch/detectron2/issues/4361",
        ),
        (
            "#error -- unsupported GNU version! gcc versions later than 11 are not supported!",
            "CUDA 11.6, source",
        ),
        (
            "#error -- unsupported clang version! clang version must be less than 14 and greater than 3.2 . The nvcc flag '-allow-unsupported-compiler' can be used to override this version check;",
            "CUDA 11.6, source",
        ),
        (
            "/usr/include/c++/11/bits/std_function.h:435:145: error: parameter packs not expanded with ‘...’:",
            "https://github.com/facebookresearch/xformers/issues/484",
        ),
    ),
    "extension-for-newer-gpu": (
        (
            'gsplat/cuda/csrc/projection.cu(485): error: namespace "cooperative_groups" has no member "labeled_partition"',
            "https://github.com/nerfstudio-project/gsplat/issues/226",
        ),
    ),
    "python-home": (
        (
            "  PYTHONHOME = '/apps/python/3.7'\nFatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding\nPython runtime state: core initialized\nModuleNotFoundError: No module named 'encodings'",
            "https://github.com/guigolab/ggsashimi/issues/49",
        ),
        (
            "Fatal Python error: Py_Initialize: unable to load the file system codec",
            "https://github.com/ContinuumIO/anaconda-issues/issues/1798",
        ),
        (
            "Fatal Python error: initfsencoding: unable to load the file system codec",
            "https://github.com/inviwo/inviwo/issues/1178",
        ),
    ),
    "rope-scaling-unknown": (
        (
            "ValueError: `rope_scaling` must be a dictionary with two fields, `type` and `factor`, got {'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0, 'original_max_position_embeddings': 8192, 'rope_type': 'llama3'}",
            "https://github.com/foundation-model-stack/foundation-model-stack/issues/384",
        ),
        (
            "KeyError: \"Missing required keys in `rope_scaling` for 'rope_type'='None': {'rope_type'}\"",
            "transformers 4.57, source",
        ),
        (
            "ValueError: `rope_scaling`'s type field must be one of ['linear', 'dynamic'], got yarn",
            "transformers 4.40, source",
        ),
    ),
    "module-shadowed": (
        (
            "AttributeError: module 'random' has no attribute 'randint' (consider renaming '/home/me/random.py' since it has the same name as the standard library module named 'random' and the import system gives it precedence)",
            "Python 3.13, documented",
        ),
        (
            "ImportError: cannot import name 'Queue' from 'queue' (/home/u/project/queue.py)",
            "Python 3.11, run",
        ),
        (
            "AttributeError: partially initialized module 'queue' has no attribute 'Queue' (most likely due to a circular import)",
            "Python 3.11, run",
        ),
    ),
    "libc-headers-missing": (
        (
            "/usr/local/cuda-10.2/include/crt/host_config.h:206:10: fatal error: features.h: No such file or directory",
            "https://github.com/deepspeedai/DeepSpeed/issues/1897",
        ),
        (
            "/usr/include/features.h:485:12: fatal error: gnu/stubs-32.h: No such file or directory",
            "gcc 12, unverified",
        ),
        (
            "/usr/bin/ld: cannot find Scrt1.o: No such file or directory",
            "binutils 2.40, unverified",
        ),
    ),
    "variable-not-set": (
        (
            "  File \"/usr/lib/python3.10/os.py\", line 680, in __getitem__, raise KeyError(key) from None: KeyError: 'DATA_ROOT'",
            "CPython 3.10, source",
        ),
    ),
    "device-string": (
        (
            "RuntimeError: Invalid device string: 'cuda:None'",
            "https://github.com/mlfoundations/rtfm/issues/15",
        ),
        (
            "RuntimeError: Invalid device string: '0'",
            "https://github.com/EleutherAI/lm-evaluation-harness/issues/400",
        ),
    ),
}
