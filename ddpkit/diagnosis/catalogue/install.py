"""Software that does not fit together: libraries, compilers, versions."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="glibc-too-old",
        title="version `GLIBCXX_3.4.29' not found; version `GLIBC_2.29' not found",
        patterns=(r"version `(?P<version>GLIBC(?:XX)?_[\d.]+|CXXABI_[\d.]+)' not found",),
        cause="a compiled package needs {version}, and this host's (or this environment's) C or C++ library is older",
        probe="ldd --version; strings $(gcc -print-file-name=libstdc++.so.6) | grep GLIBCXX | tail -1",
        fix="GLIBCXX: conda install -c conda-forge libstdcxx-ng, and its lib folder first in LD_LIBRARY_PATH; GLIBC: an older build of the package, or a container",
        link="https://github.com/pytorch/pytorch/issues/87279",
        examples=(
            (
                "ImportError: /usr/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /home/me/lib/python3.10/site-packages/torch/lib/libtorch_python.so)",
                "https://github.com/pytorch/pytorch/issues/87279",
            ),
            (
                "OSError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.33' not found (required by libpyg.so)",
                "https://github.com/pyg-team/pyg-lib/issues/548",
            ),
        ),
    ),
    Entry(
        id="library-missing",
        doubtful=True,
        title="cannot open shared object file: No such file or directory",
        patterns=(r"(?P<library>[\w.+-]+\.so[\w.]*): cannot open shared object file",),
        cause="the dynamic linker finds no {library}: it is not installed, for another CUDA, or not on LD_LIBRARY_PATH on this host",
        probe="ldconfig -p | grep {library}; echo $LD_LIBRARY_PATH",
        fix="install the package that has it (pip install for torch's CUDA), load the module in the job's script, or pass LD_LIBRARY_PATH on (--env LD_LIBRARY_PATH)",
        link="https://github.com/CannyLab/tsne-cuda/issues/126",
        examples=(
            (
                "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
                "https://github.com/CannyLab/tsne-cuda/issues/126",
            ),
        ),
    ),
    Entry(
        id="undefined-symbol",
        doubtful=True,
        title="undefined symbol: ...",
        patterns=(r"undefined symbol: (?P<symbol>\w+)", r"symbol lookup error: "),
        cause="a compiled library was built for another version than the one that is loaded: an extension for another torch, or another libnccl or libcudart than torch's in LD_LIBRARY_PATH",
        probe="echo $LD_LIBRARY_PATH; pip list | grep -iE 'torch|nvidia|flash|xformers'",
        fix="unset LD_LIBRARY_PATH; install the extension again for this torch (pip install --force-reinstall --no-build-isolation --no-cache-dir PACKAGE)",
        link="https://github.com/pytorch/pytorch/issues/119932",
        examples=(
            (
                "ImportError: /env/lib/python3.9/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister",
                "https://github.com/pytorch/pytorch/issues/119932",
            ),
            (
                "ImportError: flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN2at4_ops9_pad_enum4callERKNS_6TensorE",
                "flash-attention, documented",
            ),
            (
                "python: symbol lookup error: "
                "/home/mickey/miniconda3/envs/reID/lib/python3.6/site-packages/torch/lib/libtorch_python.so: "
                "undefined symbol: PySlice_Unpack",
                "https://github.com/layumi/Person_reID_baseline_pytorch/issues/139",
            ),
        ),
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
        ),
        cause="a package was built for NumPy 1 and this is NumPy 2 (or the other way round)",
        probe="python -c 'import numpy; print(numpy.__version__)'",
        fix="pip install 'numpy<2', or a newer build of the package",
        link="https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",
        examples=(
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
    ),
    Entry(
        id="import-name",
        doubtful=True,
        title="ImportError: cannot import name ... from ...",
        patterns=(r"cannot import name '?(?P<name>\w+)'? from (?:partially initialized module )?'?(?P<module>[\w.]+)",),
        cause="this version of {module} has no `{name}`: packages of different age; or a file of yours has the name of a package",
        probe='python -c \'import {module} as m; print(m.__file__, getattr(m, "__version__", ""))\'',
        fix="install the version that the other package asks for; rename a file of yours that is called like the package",
        link="https://docs.python.org/3/library/exceptions.html#ImportError",
        examples=(
            (
                "ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (/opt/conda/lib/python3.10/site-packages/triton/compiler/compiler.py)",
                "https://github.com/FoundationVision/Infinity/issues/31",
            ),
        ),
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
        ),
        cause="an extension is to be compiled (DeepSpeed's, flash-attention), and the CUDA toolkit on this host is missing or another than torch's",
        probe="nvcc --version; echo $CUDA_HOME; python -c 'import torch; print(torch.version.cuda)'",
        fix="install or load the toolkit of torch's CUDA version and export CUDA_HOME; DeepSpeed, where the first number is the same: DS_SKIP_CUDA_CHECK=1",
        link="https://github.com/deepspeedai/DeepSpeed/issues/3223",
        examples=(
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
    ),
    Entry(
        id="extension-build-failed",
        doubtful=True,
        title="Error building extension; Ninja is required to load C++ extensions",
        patterns=(
            r"Error compiling objects for extension",
            r"Ninja is required to load C\+\+ extensions",
            r"Error building extension '(?P<extension>\w+)'",
            r"ninja: build stopped: subcommand failed",
            r"fatal error: (?P<header>[\w./]+): No such file or directory",
            r"error: command '\S*(?:gcc|g\+\+|cc|nvcc)' failed",
            r"unsupported GNU version! gcc versions later than",
        ),
        cause="an extension could not be compiled on this host: no ninja, no compiler, headers that are missing (Python.h: python3-dev), or a gcc that is too new for nvcc",
        probe="the first line with `error:` above it; gcc --version; ninja --version",
        fix="pip install ninja; apt-get install build-essential python3-dev; build it once on one host before the run starts",
        link="https://github.com/deepspeedai/DeepSpeed/issues/1687",
        examples=(
            (
                "RuntimeError: Ninja is required to load C++ extensions",
                "https://github.com/deepspeedai/DeepSpeed/issues/1687",
            ),
            ("RuntimeError: Error building extension 'fused_adam'", "DeepSpeed, documented"),
            (
                "main.c:4:10: fatal error: Python.h: No such file or directory",
                "https://github.com/deepspeedai/DeepSpeed/issues/3223",
            ),
            (
                "/usr/local/cuda/include/crt/host_config.h:137:2: error: #error -- unsupported GNU version! "
                "gcc versions later than 15 are not supported!",
                "CUDA 13.0, source",
            ),
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
        ),
    ),
    Entry(
        id="compile-failed",
        title="torch.compile: InductorError, BackendCompilerFailed, triton's compiler failed",
        patterns=(
            r"\bInductorError: ",
            r"\bBackendCompilerFailed\b",
            r"triton\.compiler\.errors\.\w+",
            r"Cannot find a working triton installation",
            r"cannot find -lcuda\b",
            r"libcuda\.so cannot found",
            r"Failed to find C compiler",
            r"torch\._dynamo\.exc\.(?P<error>\w+)",
            r"OutOfResources: out of resource: (?P<resource>[\w ]+)",
        ),
        cause="torch.compile could not compile a graph on this host: no C compiler or Python.h, no libcuda.so, a triton of another version, or a bug in the compiler",
        probe="once more with --env TORCHDYNAMO_VERBOSE=1; gcc --version; ls /usr/lib/x86_64-linux-gnu/libcuda.so*",
        fix="to go on: --env TORCHDYNAMO_DISABLE=1; for good: apt-get install gcc python3-dev, and the triton that torch names",
        link="https://github.com/pytorch/pytorch/issues/107960",
        examples=(
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
            (
                "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 101376.",
                "triton, documented",
            ),
            ("triton.compiler.errors.CompilationError: at 12:4:", "triton 3.5, source"),
            ("RuntimeError: Cannot find a working triton installation. ", "torch 2.13, source"),
            ("AssertionError: libcuda.so cannot found!", "triton 3.5, source"),
            (
                "RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set "
                "triton.knobs.build.impl.",
                "triton 3.5, source",
            ),
        ),
    ),
    Entry(
        id="torchvision-mismatch",
        title="operator torchvision::nms does not exist",
        patterns=(r"operator torchvision::nms does not exist", r"Couldn't load custom C\+\+ ops"),
        cause="torchvision (or torchaudio) is of another release than torch",
        probe="pip list | grep -i torch",
        fix="pip install --upgrade torch torchvision torchaudio, together and from one index",
        link="https://github.com/pytorch/vision#installation",
        examples=(
            ("RuntimeError: operator torchvision::nms does not exist", "torchvision, documented"),
            (
                "RuntimeError: Couldn't load custom C++ ops. This can happen if your PyTorch and torchvision "
                "versions are incompatible",
                "torchvision 0.17, source",
            ),
        ),
    ),
    Entry(
        id="flash-attention-missing",
        title="FlashAttention2 has been toggled on, but it cannot be used; only supports Ampere GPUs or newer",
        patterns=(
            r"FlashAttention2 has been toggled on, but it cannot be used",
            r"FlashAttention only supports Ampere GPUs or newer",
            r"flash_attn seems to be not installed",
        ),
        cause="flash-attention is asked for, and is not installed here or does not know this GPU",
        probe="pip list | grep flash; nvidia-smi -L",
        fix="attn_implementation='sdpa' needs nothing; or pip install flash-attn --no-build-isolation",
        link="https://github.com/Dao-AILab/flash-attention#installation-and-features",
        examples=(
            (
                "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: the package flash_attn seems to be not installed.",
                "transformers, source",
            ),
            ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "flash-attention, source"),
        ),
    ),
    Entry(
        id="openmp-twice",
        title="OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized",
        patterns=(r"OMP: Error #15: Initializing", r"MKL_THREADING_LAYER=INTEL is incompatible with libgomp"),
        cause="two OpenMP libraries are loaded into one process: packages of conda and pip mixed",
        probe="pip list; conda list | grep -iE 'mkl|openmp'",
        fix="an environment of one kind only; to go on: --env MKL_THREADING_LAYER=GNU",
        link="https://github.com/pytorch/pytorch/issues/37377",
        examples=(
            (
                "Error: mkl-service + Intel(R) MKL: MKL_THREADING_LAYER=INTEL is incompatible with libgomp-a34b3233.so.1 library.",
                "https://github.com/pytorch/pytorch/issues/37377",
            ),
            (
                "OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already initialized.",
                "https://github.com/ogkalu2/comic-translate/issues/79",
            ),
        ),
    ),
    Entry(
        id="python-too-old",
        title="unsupported operand type(s) for |: 'type' and 'NoneType'; the script needs a newer Python",
        patterns=(
            r"unsupported operand type\(s\) for \|: 'type' and 'NoneType'",
            r"requires a different Python: (?P<python>[\d.]+) not in",
            r"'type' object is not subscriptable",
        ),
        cause="the script or a package is written for a newer Python than the one that runs it",
        probe="the same way in: python -c 'import sys; print(sys.version, sys.executable)'",
        fix="start the ranks with the newer one (--python PATH)",
        link="https://docs.python.org/3/whatsnew/",
        examples=(
            ("TypeError: unsupported operand type(s) for |: 'type' and 'NoneType'", "Python 3.9, documented"),
            ("ERROR: Package 'mypackage' requires a different Python: 3.11.7 not in '>=3.99'", "pip 23.2, run"),
            ("TypeError: 'type' object is not subscriptable", "Python 3.8, run"),
        ),
    ),
    Entry(
        id="local-rank-argument",
        title="KeyError: 'LOCAL_RANK'",
        patterns=(
            r"KeyError: '(?P<variable>LOCAL_RANK|RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURM_PROCID|SLURM_LOCALID|SLURM_NTASKS)'",
        ),
        cause="the script reads {variable}, and was started without a launcher that sets it",
        probe="ddpkit env --explain, started the same way",
        fix="ddpkit launch -n 2 -- train.py (or torchrun --nproc-per-node 2 train.py)",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
        examples=(("KeyError: 'LOCAL_RANK'", "Python 3.11, run"),),
    ),
    Entry(
        id="torch-attribute",
        doubtful=True,
        title="module 'torch' has no attribute ...",
        patterns=(r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'",),
        cause="this version of {module} has no `{name}`: too old, too new, or a file of yours has the name of the package",
        probe='python -c \'import {module} as m; print(m.__file__, getattr(m, "__version__", ""))\'',
        fix="install the version that the script is written for; rename a file of yours that is called like the package",
        link="https://docs.python.org/3/library/exceptions.html#AttributeError",
        examples=(("AttributeError: module 'torch' has no attribute 'accelerator'", "torch 2.2, documented"),),
    ),
    Entry(
        id="bitsandbytes",
        title="bitsandbytes: CUDA Setup failed; not compiled with GPU support",
        patterns=(
            r"CUDA Setup failed despite (?:GPU|CUDA) being available",
            r"The installed version of bitsandbytes was compiled without GPU support",
        ),
        cause="bitsandbytes finds no CUDA libraries, or is a build without them",
        probe="python -m bitsandbytes",
        fix="pip install --upgrade bitsandbytes; LD_LIBRARY_PATH must hold the folder of libcudart",
        link="https://huggingface.co/docs/bitsandbytes/main/en/errors",
        examples=(
            (
                "RuntimeError: CUDA Setup failed despite GPU being available. Please run the following command to get more information:",
                "bitsandbytes, source",
            ),
            (
                "UserWarning: The installed version of bitsandbytes was compiled without GPU support. 8-bit "
                "optimizers and GPU quantization are unavailable.",
                "https://github.com/hyperonym/basaran/issues/3",
            ),
        ),
    ),
)
