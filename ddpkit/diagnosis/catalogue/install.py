"""Mismatched software: libraries, compilers, versions."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="glibc-too-old",
        title="version `GLIBCXX_3.4.29' not found; version `GLIBC_2.29' not found",
        patterns=(r"version `(?P<version>GLIBC(?:XX)?_[\d.]+|CXXABI_[\d.]+)' not found",),
        cause="a compiled package needs {version}, and the C or C++ library of this host or environment is older",
        probe="ldd --version; strings $(gcc -print-file-name=libstdc++.so.6) | grep GLIBCXX | tail -1",
        fix="for GLIBCXX: conda install -c conda-forge libstdcxx-ng, with its lib directory first in LD_LIBRARY_PATH. "
        "For GLIBC: an older build of the package, or a container. A file in a cache (~/.triton/cache, torch_extensions) was "
        "built elsewhere: delete the cache",
        link="https://github.com/pytorch/pytorch/issues/87279",
    ),
    Entry(
        id="model-type-unknown",
        title="The checkpoint has model type `qwen3` but Transformers does not recognize this architecture",
        patterns=(
            r"has model type `(?P<model>[\w.-]+)` but Transformers does not recognize this architecture",
            r"\bKeyError: '(?P<model>[a-z][a-z\d_.-]+)'$",
        ),
        needs=r"does not recognize this architecture|transformers/models/auto/configuration_auto\.py\", line \d+, in (?:__getitem__|from_pretrained)",
        explains=("vllm-engine-failed",),
        cause="the installed transformers does not know models of type {model}: it is older than the model",
        probe="pip show transformers; grep -E 'model_type|transformers_version' config.json",
        fix="pip install -U transformers, on all nodes. Or pass trust_remote_code=True for a model that brings its code",
        link="https://huggingface.co/docs/transformers/installation",
    ),
    Entry(
        id="packages-differ",
        title="TypeError: Accelerator.__init__() got an unexpected keyword argument 'dispatch_batches'",
        patterns=(
            r"TypeError: (?P<call>(?:(?:SFT|DPO|ORPO|KTO|CPO|PPO|GRPO|Reward|Seq2Seq)?Trainer|(?:Seq2Seq)?TrainingArguments|(?:SFT|DPO|PPO|GRPO|Reward)Config|Accelerator|AcceleratorState|EngineArgs|AsyncEngineArgs|ServerArgs|SamplingParams|DataLoaderConfiguration|FullyShardedDataParallelPlugin|"
            r"DeepSpeedPlugin|DeepSpeedEngine|GradScaler|Adafactor|PeftConfig|LoraConfig)\.__init__\(\)) got an unexpected "
            r"keyword argument '(?P<argument>\w+)'",
            r"TypeError: (?P<call>[\w.]*\(\)) got an unexpected keyword argument '(?P<argument>dispatch_batches|split_batches|even_batches|use_seedable_sampler|num_items_in_batch|keep_torch_compile|eval(?:uation)?_strategy|processing_class|force_all_finite|forward_prefetch|use_orig_params|limit_all_gathers|padding_mask|cache_position|position_embeddings|past_key_values?|second_per_grid_ts|(?:num_)?logits_to_keep|use_flash_attention_2|attn_implementation|load_in_[48]bit)'",
            r"AttributeError: (?:type object )?'(?P<call>LLMEngine|AsyncLLMEngine|ActorHandle|Trainer|Accelerator|TrainingArguments|DynamicCache|GenerationConfig|PretrainedConfig)'(?: object)? has no attribute '(?P<argument>\w+)'",
            r"TypeError: (?:class `)?(?P<call>\w+)`?(?: in \S+)?: __init__\(\) got an unexpected keyword argument '(?P<argument>\w+)'",
            r"AttributeError: '(?P<call>HfTrainerDeepSpeedConfig|HfDeepSpeedConfig)' object has no attribute '(?P<argument>\w+)'",
            r"AttributeError: property '(?P<argument>\w+)' of '(?P<call>\w*Tokenizer\w*)' object has no setter",
            r"TypeError: (?P<call>_?flash_att\w+\(\)) got an unexpected keyword argument '(?P<argument>\w+)'",
            r"The following `model_kwargs` are not used by (?P<call>the model): \['(?P<argument>\w+)'",
            r"TypeError: (?P<call>\w+\._pad\(\)) got an unexpected keyword argument '(?P<argument>padding_side)'",
            r"TypeError: (?P<call>\w+For(?:CausalLM|ConditionalGeneration|MaskedLM|\w+Classification)\.(?:__init__|forward)\(\)) got an unexpected keyword argument '(?P<argument>\w+)'",
            r"AttributeError: '(?P<call>\w*(?:GRPO|PPO|DPO|KTO|SFT|RLOO|Reward|Seq2Seq)\w*Trainer)' object has no attribute '(?P<argument>\w+)'",
            r"AttributeError: '(?P<call>\w*(?:GRPO|PPO|DPO|KTO|SFT|RLOO|Reward)Config)' object has no attribute '(?P<argument>\w+)'",
            r"AttributeError: '(?P<call>\w*(?:vLLM|SGLang|Rollout)\w*)' object has no attribute '(?P<argument>\w+)'",
            r"AttributeError: '(?P<call>AdamW?\w*|SGD|Adafactor)' object has no attribute '(?P<argument>train|eval|optim_bits)'",
            r"AttributeError: '(?P<call>(?:MM|Lightning)DistributedDataParallel)' object has no attribute '(?P<argument>_\w+)'",
            r"AttributeError: '?(?P<call>\w*(?:Tokenizer\w*|TokenizersBackend))'?(?: object)? has no attribute '?(?P<argument>\w+)",
            r"AttributeError: '(?P<call>(?:Llama|Qwen|Mistral|Mixtral|Gemma|Phi|GPT|OPT|Bloom|Falcon|Baichuan|ChatGLM|InternLM|InternVL|Deepseek|DeepSeek|T5|Bert|Roberta|XLM|MPT|MiniCPM|Llava|Whisper|CLIP|Siglip|Mllama|Glm|Ovis|Janus|Idefics)\w*)' object has no attribute '(?P<argument>\w+)'",
        ),
        cause="two packages do not fit, or the script and a package. {call} is used with {argument}, which its installed "
        "version does not have",
        probe="pip list | grep -iE 'torch|transformers|accelerate|deepspeed|peft|trl[|{either}]'; pip check",
        fix="update the calling package, or install the other one in the version from its requirements: pip install -U "
        "{packages|transformers accelerate}. A method of your own that a library calls needs the argument, or **kwargs. "
        "A model with code of its own: its newest files, or the transformers_version in its config.json. A class in a "
        "configuration of mmengine: remove that key",
        reads="packages",
        instead=(
            Instead(
                of=("own-exception",),
                text=r"""^TypeError: (?P<call>[\w.]*\(\)) got an unexpected keyword argument '(?P<argument>\w+)'""",
                near=r"\bcls\w*\(\*\*|_cls\(\*\*|_class\(\*\*|-packages/(?:transformers|trl|peft|accelerate(?!/utils/operations)|deepspeed|datasets|diffusers|lightning\w*|pytorch_lightning|sentence_transformers|mmengine|mmcv|detectron2)/",
            ),
        ),
        link="https://github.com/huggingface/transformers/issues/34699",
    ),
    Entry(
        id="libcuda-missing",
        doubtful=True,
        title="libcuda.so.1: cannot open shared object file",
        patterns=(r"\blibcuda\.so(?:\.\d+)*: cannot open shared object file",),
        explains=("library-missing",),
        cause="this process finds no libcuda.so.1. It belongs to the NVIDIA driver of the host, and to no package of "
        "Python. The container was started without its GPUs, or the host has no driver",
        probe="on the host: nvidia-smi; ldconfig -p | grep libcuda.so.1. The same inside of the container",
        fix="start the container with its GPUs: apptainer exec --nv, docker run --gpus all, or for pyxis an image with "
        "NVIDIA_VISIBLE_DEVICES=all. Without a container, install the driver and run `sudo ldconfig`",
        link="https://apptainer.org/docs/user/main/gpu.html",
    ),
    Entry(
        id="library-missing",
        doubtful=True,
        title="cannot open shared object file: No such file or directory",
        # NCCL looks for plugins of these names, and continues without them.
        patterns=(
            r"(?<![\w.+-])(?P<library>(?!libnccl-)[\w.+-]+\.so[\w.]*): cannot open shared object file",
            r"Failed to load NCCL library from (?P<library>\S+?)\.?(?= It is expected|\s*$)",
            r"nvrtc: error: failed to open (?P<library>libnvrtc-builtins\.so[\w.]*\d)",
        ),
        cause="the dynamic linker cannot find {library} on this host. The library is not installed, is for another "
        "CUDA, or is not on LD_LIBRARY_PATH",
        probe="ldconfig -p | grep {library}; echo $LD_LIBRARY_PATH",
        fix="install the package that contains it (pip install for torch's CUDA), load the module in the job script, "
        "or export LD_LIBRARY_PATH. For libGL.so.1: apt-get install libgl1",
        link="https://github.com/CannyLab/tsne-cuda/issues/126",
    ),
    Entry(
        id="torch-broken",
        title="ImportError: .../torch/lib/libtorch_python.so: undefined symbol",
        patterns=(
            r"(?P<path>[^\s:]*/torch/(?:lib/)?(?:libtorch\w*|libc10\w*|_C\b[\w.-]*)\.so[\w.]*): undefined symbol: (?P<symbol>(?!_?Py)\w+)",
        ),
        explains=("undefined-symbol",),
        cause="a library of torch itself finds no {symbol}: this torch is broken or mixed of two versions, or another "
        "libnccl or CUDA library is loaded before its own",
        probe="echo $LD_LIBRARY_PATH; pip list | grep -iE 'torch|nvidia'; ldd {path} | grep -E 'nccl|cudart|not found'",
        fix="unset LD_LIBRARY_PATH, and install torch again with its own libraries: `pip install "
        "--force-reinstall torch`. Keep one nvidia-nccl-cu package: pip list",
        link="https://github.com/pytorch/pytorch/issues/119932",
    ),
    Entry(
        id="static-tls",
        title="libgomp.so.1: cannot allocate memory in static TLS block",
        patterns=(r"(?P<path>(?<![\w./-])/[^\s:]*\.so[\w.]*): cannot allocate memory in static TLS block",),
        explains=("own-exception",),
        cause="the dynamic linker has no place left for the thread data of {path}, as other libraries were loaded before it. "
        "It is not the memory of the host. It occurs on ARM above all",
        probe="echo $LD_PRELOAD; ls {path}",
        fix="export LD_PRELOAD={path} before the start of Python (ddpkit launch --env). Or import torch before cv2, sklearn and "
        "other packages that contain a libgomp",
        link="https://github.com/opencv/opencv/issues/14884",
    ),
    Entry(
        id="undefined-symbol",
        doubtful=True,
        title="undefined symbol: ...",
        patterns=(r"undefined symbol: (?P<symbol>\w+)", r"symbol lookup error: "),
        cause="a compiled library was built for another version than the loaded one. It is an extension for another "
        "torch, or LD_LIBRARY_PATH contains another libnccl or libcudart",
        probe="echo $LD_LIBRARY_PATH; pip list | grep -iE 'torch|nvidia|flash|xformers'",
        fix="unset LD_LIBRARY_PATH. Rebuild the extension for this torch: `pip install --force-reinstall "
        "--no-build-isolation --no-cache-dir PACKAGE`",
        link="https://github.com/pytorch/pytorch/issues/119932",
    ),
    Entry(
        id="numpy-abi",
        doubtful=True,
        title="A module that was compiled using NumPy 1.x cannot be run in NumPy 2",
        patterns=(
            r"module compiled against API version \w+ but this version of numpy",
            r"A module that was compiled using NumPy 1\.x cannot be run in",
            r"numpy\.(?:dtype|ufunc|ndarray) size changed, may indicate binary incompatibility",
            r"numpy\.core\.multiarray failed to import",
            r"Numpy is not available$",
            r"was removed in the NumPy 2\.0 release",
            r"SystemError: initialization of _internal failed without raising an exception",
            r"Unable to avoid copy while creating an array as requested",
        ),
        cause="the package was built for NumPy 1, and NumPy 2 is installed (or the reverse)",
        probe="python -c 'import numpy; print(numpy.__version__)'",
        fix="pip install 'numpy<2', or install a newer build of the package",
        link="https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",
    ),
    Entry(
        id="import-name",
        doubtful=True,
        title="ImportError: cannot import name ... from ...",
        patterns=(
            r"cannot import name '?(?P<name>\w+)'? from (?:partially initialized module )?'?(?P<module>[\w.]+)(?:.* \((?P<path>/[^)]+)\))?",
        ),
        cause="this version of {module} has no `{name}`[ (loaded from {path})]. The package versions do not match, or one of your files has "
        "the name of the package",
        probe='python -c \'import {module} as m; print(m.__file__, getattr(m, "__version__", ""))\'',
        fix="install the version that the other package requires, or rename your file with the name of the package",
        link="https://docs.python.org/3/library/exceptions.html#ImportError",
    ),
    Entry(
        id="cuda-toolkit-mismatch",
        title="Installed CUDA version does not match the version torch was compiled with; CUDA_HOME does not exist",
        patterns=(
            r"Installed CUDA version (?P<installed>[\d.]+) does not match the version torch was compiled with (?P<torch>[\d.]+)(?![\d.]| but since the APIs are compatible)",
            r"CUDA_HOME does not exist, unable to compile CUDA op",
            r"CUDA_HOME environment variable is not set",
            r"detected CUDA version \((?P<installed>[\d.]+)\) mismatches the version that was used to compile",
            r"No such file or directory: '\S*/bin/nvcc'",
            r"\S/bin/nvcc: (?:not found|No such file or directory)",
            r"was requested, but nvcc was not found",
            r"nvcc fatal\s*: Value 'c\+\+\d+' is not defined for option 'std'",
            r"FlashAttention is only supported on CUDA (?P<torch>[\d.]+) and above",
            r"RuntimeError: Cuda extensions are being compiled with a version of Cuda that does not match(?:.*compiled with Cuda (?P<torch>[\d.]*\d))?",
        ),
        explains=("command-not-found",),
        cause="an extension needs to be compiled (DeepSpeed's, flash-attention). The CUDA toolkit on this host is "
        "missing, or differs from torch's",
        probe="nvcc --version; echo $CUDA_HOME; python -c 'import torch; print(torch.version.cuda)'",
        fix="install or load the toolkit of torch's CUDA version, and export CUDA_HOME. For DeepSpeed with the same "
        "major version: DS_SKIP_CUDA_CHECK=1",
        link="https://github.com/deepspeedai/DeepSpeed/issues/3223",
    ),
    Entry(
        id="header-missing",
        title="fatal error: cuda_profiler_api.h: No such file or directory; cc: fatal error: no input files",
        patterns=(
            r"fatal error: (?P<header>[\w./-]+): No such file or directory",
            r"Cannot find compiler '(?P<header>[\w.+-]+)' in PATH",
            r"(?P<header>[\w+-]+): fatal error: no input files",
        ),
        explains=(
            "extension-build-failed",
            "compile-failed",
        ),
        cause="an extension could not be compiled[: {header} was not found]. The headers of a library, or a compiler, "
        "are not installed",
        probe="find / -path '*/{header|Python.h}' -not -path '/proc/*'; echo $CUDA_HOME; gcc --version; nvcc --version",
        fix="for cuda*.h, cublas*.h and the like: install the whole CUDA toolkit (conda install "
        "cudatoolkit-dev, or apt-get install cuda-toolkit) and export CUDA_HOME. For Python.h: apt-get "
        "install python3-dev. For a compiler: apt-get install build-essential, or export CC and CXX of one",
        link="https://github.com/mallorbc/Finetune_LLMs/issues/11",
    ),
    Entry(
        id="extension-not-built",
        title="ImportError: .../torch_extensions/.../cpu_adam.so: cannot open shared object file",
        patterns=(
            r"ImportError: \S*/(?:torch_extensions|fused_kernels)/(?P<path>\S+\.so): cannot open shared object file",
        ),
        explains=("library-missing",),
        cause="a compiled extension is not in its cache: its build failed or was interrupted, on this rank or "
        "on another one that shares the cache",
        probe="ls -l ~/.cache/torch_extensions/*; the compiler's error is above, or in another rank's output",
        fix="use an empty cache (export TORCH_EXTENSIONS_DIR=DIR; Megatron: "
        "megatron/fused_kernels/build), and build once on one rank before the run (DeepSpeed: "
        "DS_BUILD_OPS=1 pip install deepspeed). Use one TORCH_EXTENSIONS_DIR for each node",
        link="https://github.com/deepspeedai/DeepSpeed/issues/1687",
    ),
    Entry(
        id="megatron-helpers",
        title="ImportError: cannot import name 'helpers' from 'megatron.data'; No module named 'megatron.core.datasets.helpers_cpp'",
        patterns=(
            r"cannot import name '(?P<name>helpers\w*)' from '(?P<module>megatron\.[\w.]+)'",
            r"No module named '(?P<module>megatron\.[\w.]+)\.(?P<name>helpers\w*)'",
        ),
        explains=("import-name", "module-missing"),
        cause="the C++ part of Megatron's data sets is not compiled, or was compiled for another Python",
        probe="ls megatron/core/datasets/*.so megatron/data/*.so; python3-config --extension-suffix",
        fix="once before the run, with the Python of the ranks: pip install pybind11, then make -C megatron/core/datasets (older versions: make "
        "-C megatron/data)",
        link="https://github.com/NVIDIA/Megatron-LM/tree/main/megatron/core/datasets",
    ),
    Entry(
        id="extension-build-failed",
        title="Error building extension; ERROR: Failed building wheel for",
        kind="generic",
        explains=("library-missing", "download-refused", "extension-not-built"),
        patterns=(
            r"'DeepSpeedCPU(?P<extension>\w+)' object has no attribute 'ds_opt_\w+'",
            r"Error compiling objects for extension",
            r"Error building extension '(?P<extension>\w+)'",
            r"ninja: build stopped: subcommand failed",
            r"CalledProcessError: Command '\['\S*ninja'.* returned non-zero exit status",
            r"error: command '\S*(?:gcc|g\+\+|cc|nvcc)' failed",
            r"Failed to compile the C\+\+ dataset helper functions",
            r"Unable to JIT load the (?P<extension>\w+) op due to",
            r"CalledProcessError: Command '\['which', '(?:c\+\+|g\+\+|gcc)'\]' returned non-zero",
            r"ERROR: (?:Could not build wheels for|Failed building wheel for) (?P<extension>[\w.-]+)",
            r"Failed to build installable wheels for some pyproject\.toml based projects \((?P<extension>[\w.-]+)",
        ),
        cause="an extension could not be compiled on this host. The compiler's own message is above: ninja, a "
        "compiler or headers are missing, or several ranks compiled at the same time",
        probe="the first line with `error:` above it; gcc --version; ninja --version",
        fix="read the first line with `error:` above it. Usual: `pip install ninja`, `apt-get install "
        "build-essential python3-dev`, the CUDA toolkit of torch's version. Build the extension once on "
        "one host before the run",
        link="https://github.com/deepspeedai/DeepSpeed/issues/1687",
    ),
    Entry(
        id="compile-failed",
        title="torch.compile: InductorError, BackendCompilerFailed, triton's compiler failed",
        patterns=(
            r"\bInductorError: (?P<reason>.+)",
            r"\bBackendCompilerFailed\b",
            r"triton\.compiler\.errors\.\w+",
            r"Failed to find C compiler",
            r"torch\._dynamo\.exc\.(?P<error>\w+)",
            r"torch\._inductor\.exc\.(?P<error>\w+)",
            r"\bPTXASError\b",
            r"Triton Error \[CUDA\]: (?P<error>(?!out of memory).+)",
            r"PassManager::run failed",
            r"CalledProcessError: Command '\['\S*(?:gcc|g\+\+|cc|clang)', '[^']*/(?:main|cuda_utils|__triton_launcher)\.c(?:pp)?'",
            r"RuntimeError: Internal Triton PTX codegen error",
        ),
        cause="torch.compile could not compile a graph on this host[: {reason}]. A C compiler or Python.h is missing, "
        "triton has another version, or the compiler has a bug",
        probe="repeat with TORCHDYNAMO_VERBOSE=1; gcc --version; ls /usr/lib/x86_64-linux-gnu/libcuda.so*",
        fix="run without it: `export TORCHDYNAMO_DISABLE=1`. To fix it: `apt-get install gcc python3-dev`, and the "
        "triton version that torch requires",
        instead=(
            Instead(
                of=("own-exception",),
                text=r"""^(?P<reason>.+)""",
                near=r"""File "[^"]*(?:-packages|lib/python3[\d.]*|torch|triton)/""",
                frames=r"""\btorch/_inductor/(?:lowering|graph|scheduler|ir|select_algorithm|codegen/\w+|fx_passes/\w+)\.py\b|\btorch/_dynamo/(?:symbolic_convert|output_graph|variables/\w+)\.py\b|\btriton/(?:compiler|backends)/""",
            ),
        ),
        link="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
    ),
    Entry(
        id="compile-strides",
        title="AssertionError: expected size 4==4, stride 128==1050624 at dim=1, in a file of torchinductor",
        patterns=(r"AssertionError: expected size \d+==\d+, stride \d+==\d+ at dim=\d+",),
        cause="torch.compile made this graph for a tensor of another size or order in memory than the operator returned. Usually an operator "
        "(attention, a custom kernel) reports a wrong form, or torch.compile has a bug",
        probe="repeat with TORCHDYNAMO_DISABLE=1; the operator is above the assertion, in the file that the traceback names",
        fix="use another kernel for that operator (for attention: sdpa_kernel(SDPBackend.FLASH_ATTENTION)), or call .contiguous() before it. Or "
        "run that part without torch.compile, or update torch",
        link="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
    ),
    Entry(
        id="torchvision-mismatch",
        title="operator torchvision::nms does not exist",
        patterns=(
            r"operator torchvision::nms does not exist",
            r"Couldn't load custom C\+\+ ops",
            r"PyTorch and torch(?:vision|audio) were compiled with different CUDA (?:major )?versions",
            r"Detected that PyTorch and \w+ were compiled with different CUDA",
            r"partially initialized module 'torchvision' has no attribute 'extension'",
            r"Could not run 'torchvision::\w+' with arguments from the 'CUDA' backend",
            r"No such operator torchvision::\w+",
        ),
        explains=("torch-attribute",),
        cause="the releases of torchvision (or torchaudio) and torch do not match, or one of them is a build without CUDA",
        probe="pip list | grep -i torch",
        fix="pip install --upgrade torch torchvision torchaudio, in one command from one index",
        link="https://github.com/pytorch/vision#installation",
    ),
    Entry(
        id="flash-attention-missing",
        doubtful=True,
        title="FlashAttention2 has been toggled on, but it cannot be used; only supports Ampere GPUs or newer",
        patterns=(
            r"FlashAttention2 has been toggled on, but it cannot be used",
            r"FlashAttention only supports Ampere GPUs or newer",
            r"flash_attn seems to be not installed",
            r"No module named '(?P<module>flash_attn\w*(?:\.\w+)*)'",
        ),
        explains=("module-missing",),
        cause="flash-attention is requested, but is not installed or does not support this GPU",
        probe="pip list | grep flash; nvidia-smi -L",
        fix="use attn_implementation='sdpa', which needs no package, or pip install flash-attn --no-build-isolation",
        link="https://github.com/Dao-AILab/flash-attention#installation-and-features",
    ),
    Entry(
        id="openmp-twice",
        title="OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized",
        patterns=(r"OMP: Error #15: Initializing", r"MKL_THREADING_LAYER=INTEL is incompatible with libgomp"),
        cause="two OpenMP libraries are loaded in one process, usually from a mix of conda and pip packages",
        probe="pip list; conda list | grep -iE 'mkl|openmp'",
        fix="use packages of one kind only in an environment. As a workaround: `export MKL_THREADING_LAYER=GNU`",
        link="https://github.com/pytorch/pytorch/issues/37377",
    ),
    Entry(
        id="python-too-old",
        title="unsupported operand type(s) for |: 'type' and 'NoneType'; the script needs a newer Python",
        patterns=(
            r"unsupported operand type\(s\) for \|: 'type' and 'NoneType'",
            r"requires a different Python: (?P<python>[\d.]+) not in",
            r"'type' object is not subscriptable",
        ),
        cause="the script or a package needs a newer Python than this one",
        probe="the same way: python -c 'import sys; print(sys.version, sys.executable)'",
        fix="start the ranks with the newer Python (--python PATH)",
        link="https://docs.python.org/3/whatsnew/",
    ),
    Entry(
        id="local-rank-argument",
        title="KeyError: 'LOCAL_RANK'",
        patterns=(
            r"KeyError: '(?P<variable>LOCAL_RANK|RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURM_PROCID|SLURM_LOCALID|SLURM_NODEID|SLURM_NTASKS"
            r"|SLURM_NNODES|SLURM_JOB_NUM_NODES|SLURM_JOB_ID|SLURM_JOBID|SLURM_NODELIST|SLURM_JOB_NODELIST|OMPI_COMM_WORLD_\w+|PMI_RANK)'",
        ),
        cause="the script reads {variable}, and no launcher set it",
        probe="ddpkit env --explain, started the same way",
        fix="ddpkit launch -n 2 -- train.py (or torchrun --nproc-per-node 2 train.py)",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="device-string",
        title="RuntimeError: Invalid device string: 'cuda:None'",
        patterns=(r"Invalid device string: '(?P<device>[^']*)'",),
        cause="the script selects a device that has no such name: {device}. The number after `cuda:` comes from a variable or an argument "
        "that is empty or has another form",
        probe="ddpkit env --explain, started the same way; print the argument or variable before the call",
        fix="take the number from the launcher: torch.device('cuda', int(os.environ['LOCAL_RANK'])), and start the script with torchrun or "
        "ddpkit launch. A device alone is written 0 in one program and cuda:0 in another",
        link="https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device",
    ),
    Entry(
        id="variable-not-set",
        title="KeyError: 'DATA_ROOT', in os.environ",
        needs=r"raise KeyError\(key\) from None|os\.environ\[",
        patterns=(r"\bKeyError: '(?P<variable>[A-Z][A-Z\d_]{2,})'$",),
        cause="the script reads the variable {variable} of the environment, which this process does not have. It is not exported, or the "
        "launcher does not pass it to the ranks of other nodes",
        probe="on each node, the same way: env | grep {variable}",
        fix="export {variable}=VALUE before the start, and pass it on: ddpkit launch --env {variable}=VALUE, srun --export=ALL, mpirun -x "
        "{variable}, .deepspeed_env",
        link="https://docs.python.org/3/library/os.html#os.environ",
    ),
    Entry(
        id="torch-attribute",
        doubtful=True,
        title="module 'torch' has no attribute ...",
        patterns=(
            r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'",
            r"'(?P<module>torch)\.dtype' object has no attribute '(?P<name>\w+)'",
        ),
        cause="this version of {module} has no `{name}`. It is too old, too new, or one of your files has the name of "
        "the package",
        probe='python -c \'import {module} as m; print(m.__file__, getattr(m, "__version__", ""))\'',
        fix="install the version that the script requires, or rename your file with the name of the package",
        link="https://docs.python.org/3/library/exceptions.html#AttributeError",
    ),
    Entry(
        id="bitsandbytes",
        doubtful=True,
        title="bitsandbytes: CUDA Setup failed; not compiled with GPU support",
        patterns=(
            r"CUDA Setup failed despite (?:GPU|CUDA) being available",
            r"The installed version of bitsandbytes was compiled without GPU support",
            r"'NoneType' object has no attribute 'c\w+_grad_(?:fp|bf)\d+'",
            r"name 'str2optimizer\w+' is not defined",
            r"'NoneType' object has no attribute 'c(?:get|quantize|dequantize|gemm|adam)\w+'",
            r"\blibbitsandbytes\w*\.so: undefined symbol",
            r"Could not (?:load bitsandbytes native library|find the bitsandbytes CUDA binary at)",
        ),
        explains=("undefined-symbol", "library-missing"),
        cause="bitsandbytes finds no CUDA libraries, or was built without them or for another CUDA than torch's",
        probe="python -m bitsandbytes",
        fix="pip install --upgrade bitsandbytes, and add the directory of libcudart to LD_LIBRARY_PATH",
        link="https://huggingface.co/docs/bitsandbytes/main/en/errors",
    ),
    Entry(
        id="cudart-twice",
        title="RuntimeError: Multiple libcudart libraries found: libcudart.so.12 and libcudart.so.13",
        patterns=(r"Multiple libcudart libraries found(?:: (?P<libraries>\S.*))?",),
        cause="two versions of the CUDA runtime are loaded in one process[: {libraries}]. Packages for both are installed, or "
        "LD_LIBRARY_PATH or the linker's cache leads to another CUDA than torch's",
        probe="pip list | grep -E 'cu1[0-9]'; ldconfig -p | grep libcudart; echo $LD_LIBRARY_PATH",
        fix="keep the packages of one version (beside a torch for CUDA 13, no nvidia-*-cu12: pip "
        "list), and take the other CUDA out of LD_LIBRARY_PATH and /etc/ld.so.conf.d",
        link="https://github.com/awslabs/agentcore-rl-toolkit/pull/96",
    ),
    Entry(
        id="triton-backends",
        title="RuntimeError: 2 compatible backends for target (cuda). There should only be one.",
        patterns=(
            r"(?P<count>\d+) compatible backends for target \((?P<device>\w+)\)",
            r"(?P<count>[2-9]) active drivers \(\[",
        ),
        cause="triton finds {count} parts for this device, and needs exactly one. Files of two versions of triton are in one directory, or "
        "its build has none for the device",
        probe="pip list | grep -i triton; python -c 'import triton, os; print(os.listdir(triton.__path__[0] + \"/backends\"))'",
        fix="uninstall every package of triton (triton, pytorch-triton, triton-rocm), delete its directory in site-packages, and install the "
        "version that torch requires",
        link="https://github.com/pytorch/torchtitan/issues/55",
    ),
    Entry(
        id="submodule-missing",
        doubtful=True,
        title="No module named 'torch._six'; No module named 'transformers.deepspeed'",
        # Python prints the whole name only after it has imported the part before the dot.
        patterns=(
            r"No module named '(?P<module>(?P<package>[A-Za-z_]\w*)\.(?![\w.]*\b_(?:C|ext))[\w.]+)'",
            r"No module named (?P<module>(?P<package>torch|transformers|torchvision)\.[\w.]+)$",
        ),
        explains=("module-missing",),
        cause="{package} was found, and has no module {module}. Its installed version is too new or too old for the code, or "
        "another package or directory named {package} comes first",
        probe='the same way: python -c \'import {package} as p; print(p.__path__, getattr(p, "__version__", ""))\'',
        fix="install the version of {package} that the code requires (its requirements.txt), or update the package that "
        "imports it. For a directory of your own: start in the project's root, or export PYTHONPATH=$PWD",
        link="https://github.com/eosphoros-ai/DB-GPT-Hub/issues/295",
    ),
    Entry(
        id="requirement-not-met",
        title="accelerate>=0.20.1 is required; requires the SentencePiece library but it was not found in your environment",
        patterns=(
            r"Using the `(?:Seq2Seq)?Trainer` with `PyTorch` requires `(?P<wanted>[^`]+)`",
            r"Using `[^`]+`.* requires (?:the latest version of )?(?P<wanted>Accelerate|bitsandbytes)\b",
            r"requires the (?P<wanted>[\w. -]+?) library but it was not found in your environment",
            r"requires the following packages that were not found in your environment: (?P<wanted>.+?)\. Run",
            r"No package metadata was found for (?P<wanted>[\w.-]+)",
            r"The '(?P<wanted>[^']+)' distribution was not found and is required by",
            r"VersionConflict: \((?P<found>[\w.-]+ [\w.+-]+) .*Requirement\.parse\('(?P<wanted>[^']+)'\)",
            r"now require users to upgrade (?P<wanted>torch) to at least",
            r"(?P<wanted>(?i:peft)|trl|deepspeed|bitsandbytes|flash[-_]attn|xformers|apex) (?:is not installed|is required)\b.*pip install",
            r"(?P<wanted>\S+) is required for a normal functioning of this module, but found (?P<found>\S+?)\.?$",
            r"(?P<found>\w+==\S+) is used but incompatible\. Please install (?P<wanted>.+?)\.?$",
        ),
        explains=("library-missing",),
        cause="a library needs {wanted}, and this Python has another version of it or none[: {found}]",
        probe="on that node, the same way: python -m pip list | grep -iE 'torch|transformers|accelerate|tokenizers|hub'; pip check",
        fix="with the Python of the ranks, on all nodes: python -m pip install -U {wanted}. If it is installed, the ranks use "
        "another Python, or the notebook was not restarted. bitsandbytes also needs a GPU",
        link="https://github.com/huggingface/transformers/issues/28191",
    ),
    Entry(
        id="protobuf-version",
        title="TypeError: Descriptors cannot be created directly",
        patterns=(
            r"Descriptors cannot (?:not )?be created directly",
            r"Descriptors should not be created directly",
            r"cannot import name '?builder'? from 'google\.protobuf\.internal'",
        ),
        explains=("import-name",),
        cause="the installed protobuf does not fit code that another version of its compiler made (tensorboard, onnx, wandb, "
        "sentencepiece, ray)",
        probe="pip show protobuf tensorboard | grep -E 'Name|Version'",
        fix="pip install -U tensorboard, or the package in the traceback; else pip install 'protobuf==3.20.3'. As a "
        "workaround: export PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python",
        link="https://protobuf.dev/news/2022-05-06/",
    ),
    Entry(
        id="setuptools-version",
        title="No module named 'pkg_resources'; module 'distutils' has no attribute 'version'",
        patterns=(
            r"No module named '(?P<name>pkg_resources|distutils)(?:\.\w+)*'",
            r"module '(?P<name>distutils)' has no attribute 'version'",
            r"module '(?P<name>pkgutil)' has no attribute 'ImpImporter'",
            r"cannot import name 'packaging' from '(?P<name>pkg_resources)'",
        ),
        explains=("module-missing", "submodule-missing", "torch-attribute", "import-name", "extension-build-failed"),
        cause="the installed setuptools or Python no longer has what an older package uses: {name}",
        probe="python -c 'import sys, setuptools; print(sys.version, setuptools.__version__)'",
        fix="pip install 'setuptools<70' (for `distutils.version`: pip install -U torch tensorboard, or 'setuptools<60'). "
        "Python 3.12 has no distutils: update the package, or use Python 3.11",
        link="https://setuptools.pypa.io/en/latest/pkg_resources.html",
    ),
    Entry(
        id="extension-of-other-torch",
        title="flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2E...",
        # Names of C++ that contain at::, c10:: or torch:: belong to torch.
        patterns=(
            r"(?P<package>flash_attn)\w*(?:\.[\w.-]+)?\.so: undefined symbol: (?P<symbol>_ZNK?\w*(?:2at|3c10|5torch)\w+)",
            r"-packages/(?P<package>\w+)/[^ :]*\.so: undefined symbol: (?P<symbol>_ZNK?\w*(?:2at|3c10|5torch)\w+)",
            r"(?P<library>(?<![\w.-])[\w-]+)(?:\.[\w.-]+)?\.so: undefined symbol: (?P<symbol>_ZNK?\w*(?:2at|3c10|5torch)\w+)",
            r"(?P<missing>libtorch_\w+|libc10\w*)\.so: cannot open shared object file",
        ),
        explains=("undefined-symbol", "library-missing"),
        cause="{package|the extension}[ ({library})] was built for another version of torch than the installed one[, which has no {missing}]",
        probe="pip list | grep -iE 'torch|flash|xformers|apex|scatter|sparse|engine'; python -c 'import torch; "
        "print(torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI)'",
        fix="build it again for this torch: pip install --force-reinstall --no-deps "
        "--no-build-isolation --no-cache-dir {package|PACKAGE}. Or install its wheel for this "
        "torch, Python, CUDA and C++ ABI",
        link="https://github.com/Dao-AILab/flash-attention/issues/1612",
    ),
    Entry(
        id="torch-ops-missing",
        title="AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'",
        patterns=(
            r"'_OpNamespace' '(?P<library>\w+)' object has no attribute '(?P<symbol>\w+)'",
            r"\boperator (?!torchvision\b|aten\b)(?P<library>\w+)::(?P<symbol>\w+) does not exist",
            r"No such operator (?!torchvision\b|aten\b)(?P<library>\w+)::(?P<symbol>\w+)",
            r"Could not run '(?!torchvision|aten|prims|c10d|quantized)(?P<library>\w+)::(?P<symbol>\w+)' with arguments from the 'CUDA' backend",
        ),
        cause="torch does not know the compiled operator {symbol} of {library}: its package was not loaded. It was built for another torch "
        "or CUDA, its import failed above, or it has no such operator",
        probe="grep -n 'Failed to import' in the log; pip list | grep -iE 'torch|vllm|sglang|kernel|flash|xformers|audio'; python -c "
        "'import PACKAGE._C'",
        fix="install the package in the version for this torch and CUDA (vLLM and SGLang name the torch that they need): pip install "
        "--force-reinstall PACKAGE. A source checkout of its name in the working directory hides it: start elsewhere",
        link="https://github.com/vllm-project/vllm/issues/5461",
    ),
    Entry(
        id="numba-cuda",
        title="numba.cuda.cudadrv.error.NvvmSupportError: libNVVM cannot be found; NvvmError: Failed to verify",
        patterns=(
            r"\bnumba\.cuda\.\S+\.(?:Nvvm\w*Error|CudaSupportError|LinkerError): ?(?P<reason>.*)",
            r"(?P<reason>lib(?:nvvm|NVVM)\.so\S*): cannot open shared object file",
            r"(?P<reason>libNVVM) cannot be found",
        ),
        explains=("library-missing", "own-exception"),
        cause="numba cannot compile a kernel for the GPU: {reason}. NeMo's losses and others use it, and it needs NVVM of the CUDA toolkit, in "
        "a version that the driver and this numba know",
        probe="python -m numba -s | grep -iA12 cuda; ls $CUDA_HOME/nvvm/lib64; nvidia-smi; pip list | grep -i numba",
        fix="give it the toolkit of torch's CUDA: export CUDA_HOME=/usr/local/cuda, or conda install -c conda-forge cuda-nvcc. Then pip "
        "install -U numba numba-cuda",
        link="https://numba.readthedocs.io/en/stable/cuda/overview.html",
    ),
    Entry(
        id="extension-of-other-python",
        title="dynamic module does not define module export function; undefined symbol: _PyThreadState_Current",
        patterns=(
            r"dynamic module does not define (?:module export|init) function \((?:PyInit_|init)(?P<module>\w+)\)",
            r"Python version mismatch: module was compiled for Python (?P<built>[\d.]+), but the interpreter version is incompatible: (?P<python>[\d.]+)",
            r"(?P<module>(?<![\w.-])[\w-]+)(?:\.[\w.-]+)?\.so: undefined symbol: _?Py\w+",
        ),
        explains=("undefined-symbol",),
        cause="the extension {module|in the traceback} was built for another Python[ ({built})], or its build ended too early",
        probe="python -VV; ls -l the file in the traceback",
        fix="build or install it again with the Python of the ranks: python -m pip install "
        "--force-reinstall --no-cache-dir PACKAGE. For extensions that are built at the start: "
        "export TORCH_EXTENSIONS_DIR=DIR, an empty one",
        link="https://github.com/deepspeedai/DeepSpeed/issues/949",
    ),
    Entry(
        id="pip-no-version",
        doubtful=True,
        title="No matching distribution found for; ResolutionImpossible",
        patterns=(
            r"ERROR: No matching distribution found for (?P<package>\S+)",
            r"ERROR: ResolutionImpossible\b",
            r"ERROR: Could not find a version that satisfies the requirement (?P<package>\S+)",
        ),
        explains=("module-missing",),
        cause="pip found no version[ of {package}] for this Python and platform, or that all requirements permit. Without "
        "access to its index it finds none at all",
        probe="python -VV; python -m pip config list; python -m pip index versions {package|PACKAGE}",
        fix="use a Python that the package has wheels for, or the right index (torch: --index-url "
        "https://download.pytorch.org/whl/cu121). On a node without internet: install on the login node",
        link="https://pip.pypa.io/en/stable/topics/dependency-resolution/",
    ),
    Entry(
        id="compiler-too-old",
        title="#error You need C++14 to compile PyTorch; too old version of GCC",
        patterns=(
            r"error You need (?P<standard>C\+\+\d+) to compile PyTorch",
            r"You're trying to build PyTorch with a too old version of GCC\. We need (?P<standard>GCC \d+)",
            r"error: #error \W*(?P<standard>C\+\+\d+) or later compatible compiler is required to use (?:PyTorch|ATen)",
            r"You're running a too old version of GCC\. We need (?P<standard>GCC \d+)",
        ),
        explains=("extension-build-failed", "compile-failed", "header-missing"),
        cause="the C++ compiler on this host is too old for the headers of this torch, which need {standard}",
        probe="c++ --version; echo $CC $CXX; nvcc --version",
        fix="use a newer gcc, and tell the build: conda install -c conda-forge gxx_linux-64=11, or "
        "module load gcc/11. Then export CC=gcc CXX=g++, and TORCH_EXTENSIONS_DIR=DIR, an empty "
        "one",
        link="https://github.com/deepspeedai/DeepSpeed/issues/7143",
    ),
    Entry(
        id="compiler-killed",
        title="fatal error: Killed signal terminated program cc1plus",
        patterns=(
            r"fatal error: Killed signal terminated program (?P<program>\w+)",
            r"nvcc error\s*: '(?P<program>\w+)' died due to signal 9",
        ),
        explains=("extension-build-failed", "header-missing"),
        cause="the kernel ended the compiler ({program}), as the host or the container had no memory left. Many files are "
        "compiled at once",
        probe="free -g; nproc; dmesg -T | grep -i 'killed process'",
        fix="compile fewer files at once: export MAX_JOBS=2. Or build on a host with more memory, or install a wheel",
        link="https://github.com/deepspeedai/DeepSpeed/issues/5677",
    ),
    Entry(
        id="source-directory-imported",
        title="No module named 'torch_npu._C'; No module named 'mmcv._ext'",
        patterns=(r"No module named '(?P<package>\w+)[\w.]*\._(?:C|ext)\w*'",),
        explains=("module-missing",),
        cause="the compiled part of {package} is not there. Python imported its source directory, from the current directory or "
        "PYTHONPATH, or {package} was installed without being compiled",
        probe="python -c 'import importlib.util as u; print(u.find_spec(\"{package}\").origin)'; pwd; echo $PYTHONPATH",
        fix="start from another directory, or build it there: pip install -v --no-build-isolation . in the directory of its "
        "setup.py, with this Python and torch. Of mmcv, install the variant with operators: mim install mmcv, or mmcv-full",
        link="https://github.com/open-mmlab/mmcv/issues/204",
    ),
    Entry(
        id="apex-not-built",
        doubtful=True,
        title="No module named 'fused_layer_norm_cuda', 'amp_C'; APEX and CUDA required for fused optimizers",
        explains=("module-missing", "import-name"),
        patterns=(
            r"No module named '(?P<module>amp_C|apex|apex\.[\w.]+|syncbn|fused_\w+_cuda|scaled_\w+softmax_cuda)'",
            r"APEX and CUDA required for fused optimizers",
            r"apex\.optimizers\.\w+ requires cuda extensions",
            r"cannot import name 'amp' from 'apex'",
            r"'NoneType' object has no attribute '(?P<call>initialize|scale_loss|master_params)'$",
            r"cannot import name 'UnencryptedCookieSessionFactoryConfig' from 'pyramid\.session'",
        ),
        needs=r"(?i)no module named|apex|UnencryptedCookie|\bamp\.(?P=call)\(",
        cause="NVIDIA's apex is not installed, was installed without its CUDA extensions, or is so new that it has no amp. "
        "`pip install apex` is no help: on PyPI, that name is another package",
        probe="pip show apex; python -c 'import amp_C, fused_layer_norm_cuda'; nvcc --version",
        fix="use torch's own: optim='adamw_torch', torch.nn.LayerNorm, torch.amp. Or uninstall apex, and build it from "
        "https://github.com/NVIDIA/apex with --cpp_ext and --cuda_ext, with the CUDA toolkit of torch's version",
        link="https://github.com/NVIDIA/apex#installation",
    ),
    Entry(
        id="transformer-engine-not-built",
        doubtful=True,
        title="Could not find shared object file for Transformer Engine torch lib; No module named 'transformer_engine_torch'",
        explains=("module-missing",),
        patterns=(
            r"Could not find shared object file.*Transformer Engine",
            r"No module named '(?P<module>transformer_engine(?:_torch|_cu12|_extensions)?(?:\.\w+)*)'",
        ),
        cause="Transformer Engine is not installed, or its part for torch is missing or was not built",
        probe="pip list | grep -i transformer; python -c 'import transformer_engine.pytorch'",
        fix="`pip install --no-build-isolation 'transformer_engine[pytorch]'`, with torch, cuDNN and the CUDA toolkit "
        "installed. Or run without it: Megatron has --transformer-impl local",
        link="https://github.com/NVIDIA/TransformerEngine/issues/2505",
    ),
    Entry(
        id="compile-python",
        title="Dynamo is not supported on Python 3.12+; torch.compile is not supported on Python 3.14+",
        explains=("compile-failed",),
        patterns=(
            r"Dynamo is not supported on Python (?P<python>[\d.]+)",
            r"torch\.compile is not supported on Python (?P<python>[\d.]+)",
            r"Python (?P<python>[\d.]+)\+ not yet supported for torch\.compile",
        ),
        cause="this torch cannot compile under this Python: torch.compile needs a Python older than {python}, or a newer "
        "torch",
        probe="python -c 'import sys, torch; print(sys.version, torch.__version__)'",
        fix="update torch, start the ranks with an older Python (--python PATH), or run without it: `export "
        "TORCHDYNAMO_DISABLE=1`",
        link="https://github.com/pytorch/pytorch/issues/120233",
    ),
    Entry(
        id="nvcc-architecture",
        title="nvcc fatal : Unsupported gpu architecture 'compute_89'",
        patterns=(
            r"nvcc fatal\s*: Unsupported gpu architecture '(?P<architecture>\w+)'",
            r"nvcc fatal\s*: Value '(?P<architecture>\w+)' is not defined for option 'gpu-(?:architecture|code)'",
            r"\bUnknown CUDA arch \((?P<architecture>[\w.+]+)\) or GPU not supported",
        ),
        explains=("extension-build-failed", "compile-failed", "header-missing"),
        cause="an extension is compiled for the GPU architecture {architecture}, which this nvcc or this torch does not know. Its "
        "CUDA toolkit is older than the GPU, or so new that it has dropped an old architecture",
        probe="nvcc --version; nvcc --list-gpu-arch; echo $CUDA_HOME $TORCH_CUDA_ARCH_LIST; nvidia-smi --query-gpu=name,compute_cap "
        "--format=csv",
        fix="install the CUDA toolkit of torch's version, and export CUDA_HOME to it: 8.6 needs CUDA 11.1, 8.9 and 9.0 need 11.8, "
        "10.0 and 12.0 need 12.8. Or build for an older one that it knows, such as `export TORCH_CUDA_ARCH_LIST='8.0+PTX'`",
        link="https://github.com/rosinality/stylegan2-pytorch/issues/355",
    ),
    Entry(
        id="linker-library-missing",
        title="/usr/bin/ld: cannot find -lcurand",
        patterns=(r"\bld: cannot find -l(?P<library>(?!(?:aio|cufile|cuda)\b)[\w+]+)",),
        explains=("extension-build-failed", "compile-failed"),
        cause="an extension could not be linked: the linker does not find lib{library}.so. The CUDA toolkit is not installed as a "
        "whole, or the linker does not search its directory",
        probe="find / -name 'lib{library}.so*' -not -path '/proc/*'; echo $CUDA_HOME $LIBRARY_PATH",
        fix="export LIBRARY_PATH=$CUDA_HOME/lib64:$LIBRARY_PATH before the build, or install the whole CUDA toolkit of torch's "
        "version. Where only lib{library}.so.N exists: make a link to it with the name lib{library}.so",
        link="https://github.com/deepspeedai/DeepSpeed/issues/3929",
    ),
    Entry(
        id="cudnn-part-missing",
        title="Unable to load any of {libcudnn_graph.so.9.1.0, ...}; Cannot load symbol cudnnCreateTensorDescriptor",
        patterns=(
            r"Unable to load any of \{(?P<library>lib(?:cudnn|cublas)\w*\.so[\d.]*)",
            r"Could not locate (?P<library>cudnn\w+\.dll)",
            r"Cannot load symbol (?P<symbol>(?:cudnn|cublas)\w+)",
        ),
        explains=("cudnn-error", "library-missing", "ray-actor-died"),
        cause="a part of cuDNN or cuBLAS[, {library},][, {symbol},] was not found, and the process ends. The library is incomplete, of "
        "another version than torch requires, or in a directory that is not searched",
        probe="pip list | grep -iE 'torch|cudnn|ctranslate2'; echo $LD_LIBRARY_PATH; python -c 'import torch; "
        "print(torch.backends.cudnn.version())'",
        fix="unset LD_LIBRARY_PATH, and install torch again with its own libraries: pip install --force-reinstall torch. For another "
        "package that needs cuDNN, add site-packages/nvidia/cudnn/lib to LD_LIBRARY_PATH",
        link="https://github.com/MahmoudAshraf97/whisper-diarization/issues/259",
    ),
    Entry(
        id="torchcodec-no-ffmpeg",
        title="RuntimeError: Could not load libtorchcodec",
        patterns=(r"Could not load libtorchcodec",),
        explains=("library-missing", "undefined-symbol"),
        cause="torchcodec cannot be loaded: FFmpeg's libraries are not installed on this host, or this torchcodec belongs to another "
        "version of torch",
        probe="ffmpeg -version; ldconfig -p | grep libavcodec; pip list | grep torch",
        fix="conda install -c conda-forge ffmpeg, or apt-get install ffmpeg. Install the torchcodec of torch's version from the table "
        "at the link. Without it, use another decoder: video_backend='pyav' in lerobot",
        link="https://github.com/meta-pytorch/torchcodec#installing-torchcodec",
    ),
    Entry(
        id="audio-backend-missing",
        title="audioread.exceptions.NoBackendError; No such file or directory: 'ffmpeg'",
        patterns=(
            r"\baudioread\.exceptions\.NoBackendError",
            r"No such file or directory: '(?:\S*/)?(?P<program>ffmpeg|ffprobe|avconv|sox)'",
            r"(?P<program>ffmpeg|ffprobe|sox): (?:command )?not found",
            r"Couldn't find appropriate backend to handle uri",
        ),
        explains=("file-missing", "command-not-found"),
        cause="nothing on this host can decode an audio or video file[: {program} is not installed]. Or the file is damaged, or not audio",
        probe="on each node, the same way: which ffmpeg sox; python -c 'import torchaudio; print(torchaudio.list_audio_backends())'",
        fix="on all nodes or in the image: conda install -c conda-forge ffmpeg (or apt-get install ffmpeg libsndfile1), and pip install "
        "soundfile",
        link="https://github.com/beetbox/audioread",
    ),
    Entry(
        id="dll-not-loaded",
        title='[WinError 126] The specified module could not be found. Error loading "...fbgemm.dll" or one of its dependencies',
        patterns=(
            r"\[WinError (?:126|127|182|1114)\].* Error loading \"(?P<library>[^\"]+)\"",
            r"DLL load failed while importing (?P<library>\w+)",
        ),
        cause="Windows cannot load {library}, or a DLL that it needs. The Visual C++ Redistributable or OpenMP is missing, or the "
        "package was built for another version of torch, CUDA or Python",
        probe="python -c 'import torch; print(torch.__version__)'; pip list",
        fix="install the Visual C++ Redistributable (x64), then torch again. For fbgemm.dll, use a torch after 2.4.0, which lacks "
        "libomp140.x86_64.dll. For an extension, install its wheel for this torch and Python",
        link="https://github.com/pytorch/pytorch/issues/129568",
    ),
    Entry(
        id="codec-of-locale",
        title="UnicodeDecodeError: 'gbk' codec can't decode byte 0x80",
        patterns=(
            r"Unicode(?:De|En)codeError: '(?P<codec>gbk|gb2312|big5\w*|cp\d+|charmap|ascii|euc_\w+|shift_jis\w*)' codec can't",
        ),
        cause="Python used {codec}, the encoding of this host's language settings, for a text that is in another one, usually UTF-8",
        probe="the same way: python -c 'import locale; print(locale.getpreferredencoding())'; echo $LANG",
        fix="set PYTHONUTF8=1 before the start (ddpkit launch --env PYTHONUTF8=1), or open the file with encoding='utf-8'",
        link="https://docs.python.org/3/library/os.html#utf8-mode",
    ),
    Entry(
        id="compiler-not-for-cuda",
        title="The current installed version of g++ (4.8.5) is less than the minimum required version by CUDA 11.7",
        patterns=(
            r"installed version of (?P<compiler>\S+) \((?P<found>[\d.]+)\) is (?P<way>less|greater) than the m\w+ required version by CUDA (?P<cuda>[\d.]+)",
        ),
        explains=("extension-build-failed", "header-missing"),
        cause="nvcc of CUDA {cuda} does not accept {compiler} {found}, which compiles an extension: its version is {way} than "
        "permitted",
        probe="gcc --version; g++ --version; nvcc --version; echo $CC $CXX",
        fix="use a gcc of the range that the message names, and tell the build: conda install -c "
        "conda-forge gxx_linux-64=11, or module load gcc/11. Then export CC=gcc CXX=g++, and "
        "TORCH_EXTENSIONS_DIR=DIR, an empty one",
        link="https://docs.nvidia.com/cuda/cuda-installation-guide-linux/index.html#host-compiler-support-policy",
    ),
    Entry(
        id="nvcc-fatal",
        title="nvcc fatal : Unsupported NVHPC compiler found; Failed to preprocess host compiler properties",
        patterns=(
            r"nvcc fatal\s*: (?P<reason>Unsupported NVHPC compiler found|Host compiler targets unsupported OS|Failed to preprocess host "
            r"compiler properties|Cannot find compiler '[^']*' in PATH|Could not set up the environment for Microsoft Visual Studio"
            r"|Unknown option '[^']*')",
        ),
        explains=("extension-build-failed", "compile-failed", "header-missing", "extension-not-built"),
        cause="nvcc refuses to compile an extension: {reason}. Its host compiler is missing or of a kind that it does not take, or "
        "this nvcc is not of torch's CUDA",
        probe="which -a nvcc gcc g++; nvcc --version; echo $CC $CXX $CUDAHOSTCXX $NVCC_PREPEND_FLAGS $CUDA_HOME",
        fix="give it gcc and the CUDA toolkit of torch's version: module unload nvhpc, then export "
        "CC=gcc CXX=g++ CUDAHOSTCXX=g++ CUDA_HOME=/usr/local/cuda, and TORCH_EXTENSIONS_DIR=DIR, "
        "an empty one. On Windows, start in the prompt of Visual Studio",
        link="https://github.com/deepspeedai/DeepSpeed/issues/6654",
    ),
    Entry(
        id="build-without-torch",
        title="ModuleNotFoundError: No module named 'torch', while pip builds flash-attn, apex or xformers",
        patterns=(r"No module named '(?P<module>torch|packaging|wheel|psutil|numpy|Cython|setuptools)'",),
        needs=r"subprocess-exited-with-error|metadata-generation-failed|Getting requirements to build wheel|/pip-install-\w+/|\bget_requires_for_build_wheel\b",
        explains=("module-missing",),
        cause="pip builds the package in an empty environment of its own, and its setup.py imports {module}, which is not there",
        probe="python -m pip list | grep -iE 'torch|packaging|ninja|wheel|setuptools'",
        fix="install what it imports first, then build without that environment: pip install torch packaging ninja wheel setuptools; "
        "pip install --no-build-isolation PACKAGE. Or install a wheel for this torch, Python and CUDA",
        link="https://github.com/Dao-AILab/flash-attention/issues/246",
    ),
    Entry(
        id="windows-no-compiler",
        title="Microsoft Visual C++ 14.0 or greater is required; Command '['where', 'cl']' returned non-zero exit status 1",
        patterns=(
            r"Microsoft Visual C\+\+ (?P<version>[\d.]+) or greater is required",
            r"Command '\['where', 'cl'\]' returned non-zero exit status",
        ),
        explains=("extension-build-failed", "compile-failed", "header-missing"),
        cause="an extension is compiled under Windows, and the compiler cl of Visual C++ is not installed or not on PATH",
        probe="where cl; echo %VSINSTALLDIR%",
        fix="install the Microsoft C++ Build Tools with `Desktop development with C++`, and start from their `x64 Native Tools Command "
        "Prompt`. Or install a wheel of the package, or use Linux or WSL",
        link="https://visualstudio.microsoft.com/visual-cpp-build-tools/",
    ),
    Entry(
        id="extension-without-cuda",
        title="nms_impl: implementation for device cuda:0 not found; Not compiled with GPU support",
        patterns=(
            r"\w+: implementation for device (?:cuda|npu|musa)\S* not found",
            r"RuntimeError: Not compiled with GPU support",
        ),
        cause="an extension (mmcv, detectron2) was built without CUDA, or for another CUDA than torch has. It has code "
        "for the CPU only",
        probe="python -c 'import torch, mmcv.ops; print(torch.version.cuda, mmcv.ops.get_compiling_cuda_version())'; python -m detectron2.utils.collect_env",
        fix="install a wheel for this torch and this CUDA (`mim install mmcv`). Or build it "
        "where a GPU and nvcc are visible, with FORCE_CUDA=1 and MMCV_WITH_OPS=1",
        link="https://github.com/open-mmlab/mmdetection/issues/6765",
    ),
    Entry(
        id="compile-too-often",
        title="FailOnRecompileLimitHit: recompile_limit reached with fullgraph=True; CacheLimitExceeded",
        explains=("compile-failed",),
        patterns=(r"\bFailOnRecompileLimitHit\b", r"\bCacheLimitExceeded\b"),
        context=r"\blast reason: (?:\d+/\d+: )?(?P<reason>.+?(?:expected \S+, actual [^.\s]+|$))",
        cause="torch.compile compiled one function again and again until its limit, and fullgraph=True forbids to run it without[: "
        "{reason}]. Sizes, types or attributes differ from call to call",
        probe="repeat with TORCH_LOGS=recompiles",
        fix="pad inputs to few sizes, or torch.compile(..., dynamic=True). More: torch._dynamo.config.recompile_limit = 64 (older: "
        "cache_size_limit). Or run without it: `export TORCHDYNAMO_DISABLE=1`",
        link="https://github.com/microsoft/dion/issues/23",
    ),
    Entry(
        id="compile-unsupported",
        title="torch._dynamo.exc.Unsupported; TorchRuntimeError; dynamo-optimized function; GuardOnDataDependentSymNode",
        explains=("compile-failed",),
        patterns=(
            r"torch\._dynamo\.exc\.(?:Unsupported|UserError|TorchRuntimeError|InternalTorchDynamoError): (?P<reason>.+)",
            r"using FX to (?:symbolically trace|torch\.jit\.trace) a dynamo-optimized function",
            r"GuardOnDataDependentSymNode: (?P<reason>.+)",
            r"ConstraintViolationError: (?P<reason>.+)",
        ),
        cause="torch.compile cannot trace a part of the model[: {reason}]",
        probe="the lines `from user code` below it; repeat with TORCHDYNAMO_VERBOSE=1",
        fix="leave that function out: @torch.compiler.disable, and fullgraph=False. Or run without it: `export "
        "TORCHDYNAMO_DISABLE=1` (Trainer: torch_compile=False). If the reason is a shape or a type, correct that first",
        link="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
    ),
    Entry(
        id="compile-cache-race",
        title="JSONDecodeError: Extra data, in autotune_cache.py or triton_heuristics.py",
        patterns=(r"JSONDecodeError: (?P<reason>(?:Expecting|Extra data|Unterminated)[^(]*\(char \d+\))",),
        needs=r"autotune_cache\.py|triton_heuristics\.py|\bcached_autotune\b|\bload_cached_autotuning\b",
        explains=("json-broken", "compile-failed"),
        cause="several ranks wrote one file of torch.compile's autotune cache at the same time, and a rank read a part of it "
        "({reason})",
        probe="ls -l ${TORCHINDUCTOR_CACHE_DIR:-/tmp/torchinductor_$USER}",
        fix="delete that directory, and give each rank one of its own: TORCHINDUCTOR_CACHE_DIR=/tmp/inductor-$LOCAL_RANK, set before "
        "torch is imported. Or torch._inductor.config.autotune_local_cache = False",
        link="https://github.com/pytorch/pytorch/issues/153791",
    ),
    Entry(
        id="numba-numpy",
        title="ImportError: Numba needs NumPy 2.0 or less. Got NumPy 2.1",
        patterns=(r"Numba needs (?P<wanted>NumPy [\d.]+ or (?:less|greater))(?:\. Got (?P<found>NumPy [\d.]*\d))?",),
        cause="the installed numba needs {wanted}[, and {found} is installed]. Another package has changed NumPy since",
        probe="pip list | grep -iE 'numba|numpy'; pip check",
        fix="pip install -U numba, or install a NumPy that it accepts (pip install 'numpy<=2.0'), in the environment of all ranks",
        link="https://numba.readthedocs.io/en/stable/user/installing.html#version-support-information",
    ),
    Entry(
        id="project-extension-missing",
        title="cannot import name 'ball_query_ext' from partially initialized module 'mmdet3d.ops.ball_query'",
        patterns=(
            r"cannot import name '(?P<name>\w*_(?:ext|cuda|cpp))' from (?:partially initialized module )?'(?P<module>[\w.]+)'",
        ),
        explains=("import-name",),
        cause="{name}, the compiled part of {module}, was not built in this copy of the project, or was built for another Python. "
        "The circular import that Python supposes is none",
        probe="find . -name '{name}*.so'; python -c 'import sys; print(sys.version)'",
        fix="in the directory of the project, with the Python of the ranks and nvcc of torch's version: pip install -v -e . (or "
        "python setup.py develop). If setup.py does not list {name}, add it there",
        link="https://github.com/open-mmlab/mmdetection3d/issues/713",
    ),
    Entry(
        id="compile-worker-died",
        title="A compilation subprocess exited unexpectedly; Attempting to use a closed pool, in torch.compile",
        patterns=(
            r"A compilation subprocess exited unexpectedly",
            r"RuntimeError: Attempting to use a closed pool",
            r"BrokenProcessPool: A process in the process pool was terminated abruptly",
        ),
        needs=r"compilation subprocess|closed pool|torch/_inductor",
        cause="a process that compiles for torch.compile ended. It crashed, or the kernel killed it: each rank starts as many as the "
        "host has CPUs, up to 32, so memory or the number of processes runs out",
        probe="on that host: dmesg -T | grep -i 'killed process'; ulimit -u; free -g",
        fix="export TORCHINDUCTOR_COMPILE_THREADS=1, which compiles in the rank itself and shows its error. Then raise it to what the "
        "host can bear, for example 4",
        link="https://github.com/pytorch/pytorch/pull/135120",
    ),
    Entry(
        id="triton-missing",
        title="Cannot find a working triton installation",
        patterns=(r"Cannot find a working triton installation",),
        explains=("compile-failed",),
        cause="torch.compile needs triton, and finds none that works: it is not installed, too old, does not fit this torch, or "
        "finds no GPU that it supports",
        probe="python -c 'import torch, triton; print(torch.__version__, triton.__version__, torch.cuda.get_device_capability())'",
        fix="run without it: `export TORCHDYNAMO_DISABLE=1` (nnU-Net: nnUNet_compile=f). Otherwise install the triton that "
        "torch requires: pip install --force-reinstall torch (Windows: pip install triton-windows)",
        link="https://github.com/triton-lang/triton/issues/3708",
    ),
    Entry(
        id="triton-gpu-too-old",
        title="GPU too old to be supported by the triton GPU compiler; Feature '.bf16' requires .target sm_80 or higher",
        patterns=(
            r"Found (?P<gpu>.+) which is too old to be supported by the triton GPU compiler",
            r"\bFeature '(?P<feature>[^']+)' requires \.target (?P<capability>sm_\w+)",
        ),
        explains=("compile-failed", "own-exception"),
        cause="this GPU is too old for a kernel that triton compiles, of torch.compile or of a library[: {gpu}][: {feature} needs "
        "{capability}]. bf16 needs sm_80, and torch.compile sm_70",
        probe="nvidia-smi --query-gpu=name,compute_cap --format=csv",
        fix="use fp16 in place of bf16 or fp8: --fp16 True --bf16 False, and torch_dtype=torch.float16. Or run without "
        "torch.compile: `export TORCHDYNAMO_DISABLE=1`, and without such kernels (liger, unsloth, flash-attn)",
        link="https://github.com/triton-lang/triton/issues/1941",
    ),
    Entry(
        id="extension-source-old",
        title="fatal error: THC/THC.h: No such file; 'AT_CHECK' was not declared; at::DeprecatedTypeProperties to c10::ScalarType",
        patterns=(
            r"fatal error: (?P<name>THC/\w+\.\w+): No such file",
            r"[‘'](?P<name>AT_CHECK|THC\w+)[’'] was not declared in this scope",
            r"identifier \"(?P<name>AT_CHECK|THC\w+)\" is undefined",
            r"error: (?:no suitable conversion|cannot convert) .*\bat::DeprecatedTypeProperties\b",
            r"error: namespace \"(?:at|c10|torch)\b[\w:]*\" has no member \"(?P<name>\w+)\"",
        ),
        explains=("header-missing", "extension-build-failed", "extension-not-built"),
        cause="the source of an extension was written for another torch[: this one has no {name}]. torch 1.5 removed AT_CHECK and "
        "1.11 the directory THC. Newer ones take no x.type() as a ScalarType",
        probe="python -c 'import torch; print(torch.__version__)'; the versions in the project's requirements",
        fix="install the torch that the project names, or a newer release of the extension. In its source: TORCH_CHECK for "
        "AT_CHECK, x.scalar_type() for x.type(), and ATen/cuda/CUDAContext.h for THC/THC.h",
        link="https://github.com/IDEA-Research/GroundingDINO/issues/405",
    ),
    Entry(
        id="ninja-missing",
        title="RuntimeError: Ninja is required to load C++ extensions",
        patterns=(r"Ninja is required to load C\+\+ extensions",),
        explains=("extension-build-failed",),
        cause="the program ninja is not on the PATH of this process, and torch compiles extensions with it",
        probe="which ninja; ninja --version; python -c 'import sys; print(sys.prefix)'",
        fix="pip install ninja, in the environment of the run. If it is installed, add the environment's bin to PATH: "
        "`python` by its full path alone does not do that",
        link="https://github.com/unlimblue/KNN_CUDA/issues/14",
    ),
    Entry(
        id="libcuda-not-linked",
        title="/usr/bin/ld: cannot find -lcuda; AssertionError: libcuda.so cannot found!",
        patterns=(r"cannot find -lcuda\b", r"libcuda\.so cannot found"),
        explains=("compile-failed", "extension-build-failed"),
        cause="the linker does not find libcuda.so, which triton or an extension is linked with. The driver often installs only "
        "libcuda.so.1, or a directory that the linker does not search",
        probe="ldconfig -p | grep libcuda; ls -l /usr/lib/x86_64-linux-gnu/libcuda.so* /usr/local/cuda/lib64/stubs",
        fix="sudo ln -s libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so. Without root: export "
        "LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LIBRARY_PATH, or TRITON_LIBCUDA_PATH with the driver's directory",
        link="https://github.com/pytorch/pytorch/issues/107960",
    ),
    Entry(
        id="compiler-too-new",
        title="#error -- unsupported GNU version! gcc versions later than 11 are not supported",
        patterns=(
            r"unsupported GNU version! gcc versions later than (?P<version>[\d.]+)",
            r"unsupported (?P<other>clang) version! clang version must be less than (?P<version>[\d.]+)",
            r"std_function\.h:\S+ error: parameter packs not expanded",
        ),
        explains=("extension-build-failed", "compile-failed", "header-missing", "extension-not-built"),
        cause="the C++ compiler of this host is newer than this nvcc accepts[: {version} is its limit]. nvcc uses it for the host's "
        "part of each .cu file",
        probe="gcc --version; nvcc --version; echo $CC $CXX $CUDAHOSTCXX",
        fix="give nvcc an older gcc: apt-get install gcc-{version|11} g++-{version|11} (or conda install -c conda-forge gxx_linux-64={version|11}), then export "
        "CC=gcc-{version|11} CXX=g++-{version|11} NVCC_PREPEND_FLAGS='-ccbin g++-{version|11}'. Or use a newer CUDA toolkit",
        link="https://docs.nvidia.com/cuda/cuda-installation-guide-linux/index.html#host-compiler-support-policy",
    ),
    Entry(
        id="extension-for-newer-gpu",
        title='error: namespace "cooperative_groups" has no member "labeled_partition"',
        patterns=(r'namespace "cooperative_groups\S*" has no member "(?P<name>\w+_partition)"',),
        explains=("extension-build-failed", "extension-not-built"),
        cause="the extension uses {name}, which nvcc offers for GPUs of compute capability 7.0 and newer only. It was compiled for "
        "an older GPU, or with a CUDA toolkit of before 11",
        probe="nvidia-smi --query-gpu=name,compute_cap --format=csv; echo $TORCH_CUDA_ARCH_LIST; nvcc --version",
        fix="export TORCH_CUDA_ARCH_LIST with the capability of the GPUs, without 6.x and older, for example 8.0, and build again. A "
        "GPU older than Volta cannot use this release",
        link="https://github.com/nerfstudio-project/gsplat/issues/226",
    ),
    Entry(
        id="python-home",
        title="Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding",
        patterns=(
            r"Fatal Python error: init_fs_encoding: failed",
            r"Fatal Python error: initfsencoding: unable",
            r"Fatal Python error: Py_Initialize: unable to load",
            r"No module named ['\"]encodings['\"]",
        ),
        context=r"PYTHONHOME = '(?P<home>[^']+)'",
        explains=("module-missing", "aborted"),
        cause="Python does not find its own standard library[ in PYTHONHOME={home}]. PYTHONHOME belongs to another Python, for "
        "example from `module load`, or the environment's directory is not on this host",
        probe="on that host: env | grep PYTHON; head -1 $(which torchrun); readlink -f $(which python); then ls that path",
        fix="unset PYTHONHOME PYTHONPATH before the launch (module purge, and for srun --export). Otherwise put the environment and "
        "the Python under it on a shared disk",
        link="https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHOME",
    ),
    Entry(
        id="rope-scaling-unknown",
        title="`rope_scaling` must be a dictionary with two fields, `type` and `factor`; Missing required keys in `rope_scaling`",
        patterns=(
            r"`rope_scaling` must be a dictionary with (?:with )?(?:two|three) fields",
            r"`rope_scaling`'s (?:type|short_factor|long_factor) field must be",
            r"Missing required keys in `rope_scaling` for",
        ),
        cause="the model's config.json describes its positions (rope_scaling) in a form that this transformers does not know. The model "
        "is newer than the library (Llama 3.1 needs 4.43), or the value was set for another version",
        probe="pip show transformers; grep -A9 -E 'rope_scaling|transformers_version' MODEL/config.json",
        fix="pip install -U transformers, on all nodes, with accelerate, peft and trl of the same time. If the script or the "
        "command sets rope_scaling, write rope_type beside type, or leave it out",
        link="https://github.com/meta-llama/llama3/issues/299",
    ),
    Entry(
        id="module-shadowed",
        title="consider renaming 'random.py' since it has the same name as the standard library module",
        patterns=(
            r"consider renaming '(?P<path>[^']+)' (?:since|if) it has the same name as",
            r"cannot import name '?\w+'? from (?:partially initialized module )?'(?P<module>abc|calendar|code|copy|dataclasses|email|enum|html|http|inspect|io|json|logging|numbers|operator|platform|profile|queue|random|secrets|select|signal|socket|ssl|statistics|string|test|time|token|tokenize|trace|types|typing)' .*"
            r"\((?P<path>(?!\S*/lib/python3[^/]*/[a-z]+[./])/\S*\.py)\)",
            r"partially initialized module '(?P<module>abc|calendar|code|copy|dataclasses|email|enum|html|http|inspect|io|json|logging|numbers|operator|platform|profile|queue|random|secrets|select|signal|socket|ssl|statistics|string|test|time|token|tokenize|trace|types|typing)' has no attribute '",
        ),
        explains=("import-name", "torch-attribute"),
        cause="{path|a file of yours} has the name of a module of Python or of a package[, {module}]. Python imports this file in its "
        "place, as it is in the directory of the script or in PYTHONPATH",
        probe="echo $PYTHONPATH; ls -d {path|*.py}",
        fix="rename this file or directory and delete its __pycache__, or do not start the ranks from a directory of a package",
        link="https://docs.python.org/3/whatsnew/3.13.html#improved-error-messages",
    ),
    Entry(
        id="libc-headers-missing",
        title="fatal error: features.h: No such file or directory; gnu/stubs-32.h; bits/libc-header-start.h",
        patterns=(
            r"(?P<place>[^\s:]+):\d+(?::\d+)?: fatal error: (?P<header>(?:features|features-time64|std(?:lib|io|int)|strings?|math|limits"
            r"|inttypes|errno|assert|ctype|time|signal|locale|wchar|unistd|pthread|dlfcn|fcntl|sched|endian|alloca|malloc)\.h"
            r"|(?:bits|gnu|sys|arpa|net|netinet|asm|asm-generic|linux)/[\w./-]+\.h): No such file or directory",
            r"cannot find (?P<header>(?:Scrt1|crt1|crti)\.o): No such file or directory",
        ),
        explains=("header-missing", "extension-build-failed", "compile-failed"),
        cause="an extension could not be compiled: the compiler does not find {header}[, which {place} includes]. It belongs to the C "
        "library or the kernel's headers. Their package is not installed, or this compiler searches elsewhere (a compiler of conda or of a module)",
        probe="find / -path '*/{header}' -not -path '/proc/*'; which gcc g++; gcc -print-sysroot; echo $CC $CXX $CPATH",
        fix="apt-get install libc6-dev linux-libc-dev (Red Hat: dnf install glibc-devel kernel-headers; Alpine: apk add musl-dev linux-headers). Without root: "
        "`conda install gxx_linux-64`, then export CC and CXX of it, or load the module of a whole compiler",
        link="https://packages.debian.org/stable/libc6-dev",
    ),
)
