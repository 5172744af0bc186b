"""Printed texts of `ddpkit/diagnosis/catalogue/files.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "disk-full": (
        ("OSError: [Errno 28] No space left on device", "Python 3.11, run"),
        ("cp: error writing 'x': No space left on device", "coreutils 9.1, run"),
        (
            "RuntimeError: basic_ios::clear: iostream error",
            "torch 2.13, run",
        ),
        ('rsync: [receiver] write failed on "/data/q": No space left on device (28)', "rsync 3.5, run"),
        (
            "tar: a: Wrote only 4608 of 10240 bytes",
            "tar 1.34, run",
        ),
        (
            "write /data/out.bin: no space left on device",
            "Go 1.22, documented",
        ),
    ),
    "quota": (("OSError: [Errno 122] Disk quota exceeded: 'checkpoint.pt'", "Python 3.11, run"),),
    "file-lock": (
        ("OSError: [Errno 37] No locks available", "Linux 6.1, documented"),
        ("OSError: [Errno 9] Bad file descriptor: '/nfs/cache/x.lock'", "Linux 6.1, documented"),
        (
            "filelock._error.Timeout: The file lock '/home/u/.cache/huggingface/x.lock' could not be acquired.",
            "filelock, source",
        ),
        ("sqlite3.OperationalError: database is locked", "Python 3.11, run"),
        (
            "fcntl.lockf(dump, fcntl.LOCK_EX) OSError: [Errno 38] Function not implemented",
            "https://github.com/SModelS/smodels/issues/37",
        ),
        (
            "BlockingIOError: [Errno 11] Resource temporarily unavailable: '/data/index.lock'",
            "Python 3.11, documented",
        ),
    ),
    "stale-handle": (("OSError: [Errno 116] Stale file handle: '/shared/data/train.idx'", "Python 3.11, run"),),
    "read-only-fs": (("OSError: [Errno 30] Read-only file system: '/opt/model/cache'", "Python 3.11, run"),),
    "stage-failed": (
        ("ddpkit: error: node2: cannot stage in /local/stage: read-only file system", "ddpkit, run"),
        ("ddpkit: error: node2: cannot copy /shared/big.bin to /local/stage: no space left on device", "ddpkit, run"),
        (
            "ddpkit: error: node2: /local/stage has 9 MB and 40 files free; the copy needs 31 MB and 12 files",
            "ddpkit, run",
        ),
    ),
    "stage-changed": (
        (
            "ddpkit: error: node1: the copy differs from its source: a file changed meanwhile, or was damaged",
            "ddpkit, run",
        ),
        ("ddpkit: error: node1: cannot copy /shared/part.py to /local/stage: no such file or directory", "ddpkit, run"),
    ),
    "io-error": (
        ("OSError: [Errno 5] Input/output error", "Python 3.11, run"),
        ("OSError: [Errno 107] Transport endpoint is not connected", "Python 3.11, run"),
        ("cat: /proc/self/mem: Input/output error", "coreutils 9.1, run"),
        ("BrokenPipeError: [Errno 108] Cannot send after transport endpoint shutdown", "Python 3.11, run"),
        (
            "OSError: [Errno 121] Remote I/O error: '/data/train.bin'",
            "Python 3.11, run",
        ),
        (
            "OSError: [Errno 121] Remote I/O error: '/scratch/data/part-3'",
            "Python 3.11, run",
        ),
        (
            "OSError: [Errno 70] Communication error on send: '/beegfs/run'",
            "glibc 2.36, run",
        ),
        (
            "LustreError: 11-0: scratch-OST0012-osc-ffff9: operation ost_read to node 10.1.1.1@o2ib failed: rc = -107",
            "Lustre, unverified",
        ),
        ("OSError: [Errno 112] Host is down: '/mnt/share/data.bin'", "Python 3.11, run"),
        (
            "RuntimeError: write(): fd 29 failed with Input/output error",
            "https://github.com/pytorch/pytorch/issues/10577",
        ),
        ("RuntimeError: read(): fd 7 failed with Remote I/O error", "torch 2.6, source"),
    ),
    "too-many-files": (
        ("OSError: [Errno 24] Too many open files", "https://github.com/yxgeee/FD-GAN/issues/44"),
        ("RuntimeError: received 0 items of ancdata", "https://github.com/pytorch/pytorch/issues/973"),
        (
            "RuntimeError: unable to open shared memory object </torch_27882_2770998746_0> in read-write "
            "mode: Too many open files (24)",
            "torch 2.9, source",
        ),
        (
            "Error: system limit exceeded on number of network connections that can be open",
            "Open MPI 4.1.8, source",
        ),
    ),
    "cannot-fork": (
        ("bash: fork: retry: Resource temporarily unavailable", "bash 5.2, run"),
        ("RuntimeError: can't start new thread", "Python 3.11, run"),
        ("RuntimeError: Resource temporarily unavailable", "https://github.com/brendansu/CAV-Agent-Defense"),
        ("cannot start any rank: Resource temporarily unavailable", "ddpkit's own, run"),
        (
            "OpenBLAS blas_thread_init: pthread_create failed for thread 31 of 64: Resource temporarily unavailable",
            "numpy, documented",
        ),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", "Python 3.11, run"),
        ("libgomp: Thread creation failed: Resource temporarily unavailable", "libgomp 12, source"),
        (
            "[2025-02-16 02:29:23,228 E 630 630] logging.cc:108: Unhandled exception: N5boost10wrapexceptINS_6system12system_errorEEE. what(): thread: Resource temporarily unavailable [system:11]",
            "https://github.com/vllm-project/vllm/issues/13354",
        ),
        (
            "[2025-12-23 07:57:11,359 C 4055 4055] (raylet) worker_pool.cc:684: Failed to start worker with return value system:11: Resource temporarily unavailable",
            "https://github.com/ray-project/ray/issues/59626",
        ),
        (
            "Warning  Evicted  1m  kubelet  The node had condition: [PIDPressure].",
            "kubernetes, source",
        ),
        (
            "OMP: Error #34: System unable to allocate necessary resources for OMP thread:",
            "LLVM OpenMP 15, unverified",
        ),
        (
            "  what():  Resource temporarily unavailable",
            "libstdc++, run",
        ),
        (
            "OMP: Error #34: System unable to allocate necessary resources for OMP thread:\nOMP: System error #11: Resource temporarily unavailable",
            "https://github.com/pgiri/dispy/issues/160",
        ),
        (
            "[rank2]: RuntimeError: Resource temporarily unavailable",
            "torch 2.7, a log in a public repository, documented",
        ),
    ),
    "file-missing": (
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'", "Python 3.11, run"),
        (
            "bash: line 1: cd: /home/user/gone: No such file or directory",
            "bash 5.2, run",
        ),
        (
            'rsync: [Receiver] mkdir "/nowhere/x" failed: No such file or directory (2)',
            "rsync 3.2, run",
        ),
        (
            "AssertionError: One or both of the .idx and .bin files cannot be found at the path prefix /data/my_text_document",
            "Megatron-LM, source",
        ),
        (
            "RuntimeError: Dataset 'data.yaml' error ❌ Dataset 'data.yaml' images not found, missing path '/data/val'",
            "ultralytics, unverified",
        ),
        (
            "FileNotFoundError: Checkpoint at saved/muti_benchmark_01/last-epoch.ckpt not found. Aborting training.",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/18413",
        ),
        (
            "FileNotFoundError: [Errno 2] Unable to open file (unable to open file: name = '/data/train.h5', errno = 2, error message = 'No such file or directory', flags = 0, o_flags = 0)",
            "h5py 3.8, run",
        ),
        (
            "lmdb.Error: /data/nuscenes_data/lmdb/samples/CAM_FRONT: No such file or directory",
            "https://github.com/avishkarsaha/translating-images-into-maps/issues/3",
        ),
        (
            "Exception: No such file or directory (os error 2)",
            "tokenizers 0.22, run",
        ),
        (
            "RuntimeError: unable to open file </scratch/ckpt/iter_100/model.pt> in read-only mode: No such "
            "file or directory (2)",
            "torch 2.13, run",
        ),
        (
            "FileNotFoundError: [Errno 2] Failed to open local file '/data/train.arrow'. Detail: [errno 2] No such file or directory",
            "pyarrow, https://github.com/huggingface/datasets/issues/2728",
        ),
        (
            'FileNotFoundError: No such file or directory: "/models/model-00001-of-00004.safetensors"',
            "safetensors, unverified",
        ),
        (
            "FileNotFoundError: [WinError 3] The system cannot find the path specified: 'D:\\\\data\\\\train'",
            "Python 3.11, documented",
        ),
        (
            "FileNotFoundError: The provided dataset path `/studio/cache/a1a323/1745685808.544671` does not exist.",
            "https://github.com/Lightning-AI/litData/issues/562",
        ),
    ),
    "permission-denied": (
        (
            "  what():  open(/process_group_sync.lock): Permission denied",
            "https://github.com/HexagonPrime/Pix2NeRF/issues/20",
        ),
        ("PermissionError: [Errno 13] Permission denied: '/tmp/torchinductor'", "Python 3.11, run"),
        ("slurmstepd: error: pyxis:     gzip: /raid/enroot-cache/0b0815e859ed: Permission denied", "gzip 1.12, run"),
        ("tar (child): /raid/enroot-cache/0b0815e859ed: Cannot open: Permission denied", "tar 1.34, run"),
        ("PermissionError: [Errno 1] Operation not permitted", "Python 3.11, run"),
        (
            "lmdb.LockError: /data/train.lmdb: Permission denied",
            "py-lmdb, unverified",
        ),
        (
            "PermissionError: [Errno 13] Unable to open file (unable to open file: name = '/data/train.h5', errno = 13, error message = 'Permission denied', flags = 0, o_flags = 0)",
            "h5py 3.14, source",
        ),
        (
            "PermissionError: [WinError 32] The process cannot access the file because it is being used by another process: 'C:\\\\data\\\\cache.bin'",
            "Python 3.11, documented",
        ),
        (
            "mkdir: cannot create directory '/zzumag03': Permission denied",
            "https://github.com/VirtualFlow/VFVS/issues/12",
        ),
        (
            "/bin/sh: /etc/hosts: Permission denied",
            "https://github.com/kubeflow/mpi-operator/issues/288",
        ),
        (
            "tar: hosts_of_nodes: Cannot open: Permission denied",
            "https://github.com/kubeflow/mpi-operator/issues/288",
        ),
        (
            "sh: 1: cannot create /etc/hosts: Permission denied",
            "dash 0.5.12, run",
        ),
        (
            "bash: line 1: /data/run1/train.log: Permission denied",
            "bash 5.2, run",
        ),
        ("zstd: /shared/cache/config.zst: Permission denied", "zstd 1.5, run"),
        ("gzip: /data/train.jsonl.gz: Permission denied", "gzip 1.12, run"),
        ("sed: can't read /data/hosts: Permission denied", "sed 4.9, run"),
        ("find: '/data/private': Permission denied", "findutils 4.9, run"),
        ("touch: cannot touch '/scratch/out/x': Permission denied", "coreutils 9.1, run"),
        ("ln: failed to create symbolic link '/scratch/out/latest': Permission denied", "coreutils 9.1, run"),
        ('rsync: [sender] send_files failed to open "/data/a.gz": Permission denied (13)', "rsync 3.5, run"),
        (
            'rsync: [generator] recv_generator: mkdir "/data/q" failed: Permission denied (13)',
            "rsync 3.5, unverified",
        ),
        ("RuntimeError: read(): fd 7 failed with Permission denied", "torch 2.6, source"),
    ),
    "file-exists-race": (
        ("FileExistsError: [Errno 17] File exists: 'output'", "Python 3.11, run"),
        (
            "OSError: Unable to create file (unable to open file: name = '/data/text_annotations/00040.h5', errno = 17, error message = 'File exists', flags = 15, o_flags = c2)",
            "https://github.com/mttr2021/MTTR/pull/1",
        ),
    ),
    "dataloader-worker-died": (
        ("RuntimeError: DataLoader worker (pid(s) 4711, 4712) exited unexpectedly", "torch 2.13, source"),
        ("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Hangup. ", "torch 2.13, run"),
        (
            "RuntimeError: DataLoader worker (pid 22931) exited unexpectedly with exit code 3. Details "
            "are lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace.",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: DataLoader worker (pid 801) is killed by signal: Aborted. ",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/19302",
        ),
    ),
    "dataloader-timeout": (("RuntimeError: DataLoader timed out after 60 seconds", "torch 2.13, source"),),
    "cannot-pickle": (
        ("AttributeError: Can't pickle local object 'main.<locals>.collate'", "Python 3.11, run"),
        ("TypeError: cannot pickle '_io.TextIOWrapper' object", "Python 3.11, run"),
        (
            "_pickle.PicklingError: Can't pickle <function <lambda> at 0x7f52db0644a0>: attribute lookup "
            "<lambda> on __main__ failed",
            "Python 3.11, run",
        ),
        (
            "AttributeError: Can't get attribute 'MyModel' on <module '__main__' from '/home/me/train.py'>",
            "Python 3.11, run",
        ),
        ("TypeError: h5py objects cannot be pickled", "h5py, unverified"),
    ),
    "spawn-without-main": (
        ("        An attempt has been made to start a new process before the", "Python 3.11, documented"),
        ("        current process has finished its bootstrapping phase.", "Python 3.11, run"),
    ),
    "tokenizers-fork": (
        (
            "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
            "https://github.com/huggingface/transformers/issues/5486",
        ),
    ),
    "omp-warning": (
        (
            "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded",
            "torch 2.13, run",
        ),
    ),
    "leaked-semaphores": (
        (
            "resource_tracker: There appear to be 20 leaked semaphore objects to clean up at shutdown",
            "Python 3.11, run",
        ),
        (
            "UserWarning: resource_tracker: '/mp-xk2d8_3q': [Errno 2] No such file or directory",
            "Python 3.11, source",
        ),
    ),
    "no-destroy-warning": (
        (
            "[rank0]:[W1120 17:02:51.1 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL.",
            "torch 2.4, run",
        ),
        (
            "Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
            "torch 2.6, documented",
        ),
    ),
    "broken-pipe": (
        ("BrokenPipeError: [Errno 32] Broken pipe", "Python 3.11, run"),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "Python 3.11, run"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "Python 3.11, run"),
        ("EOFError", "Python 3.11, run"),
    ),
    "import-warnings": (
        (
            "[W socket.cpp:601] [c10d] The IPv6 network addresses of (localhost, 51595) cannot be retrieved (gai error: -2 - Name or service not known).",
            "torch 2.1, run",
        ),
        (
            "libibverbs: Warning: couldn't load driver 'libipathverbs-rdmav25.so': libipathverbs-rdmav25.so: cannot open shared object file: No such file or directory",
            "https://github.com/NVIDIA/nccl/issues/210",
        ),
        (
            "/x/site-packages/torchvision/io/image.py:13: UserWarning: Failed to load image Python "
            "extension: '/x/torchvision/image.so: undefined symbol: "
            "_ZN5torch3jit17parseSchemaOrNameERKSs'",
            "torchvision 0.15, source",
        ),
        (
            "W tensorflow/compiler/xla/stream_executor/platform/default/dso_loader.cc:64] Could not load "
            "dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object "
            "file: No such file or directory",
            "TensorFlow 2.11, source",
        ),
        (
            "E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN "
            "factory: Attempting to register factory for plugin cuDNN when one has already been "
            "registered",
            "TensorFlow 2.15, source",
        ),
        (
            "W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT",
            "TensorFlow 2.15, source",
        ),
        (
            "/usr/bin/ld: cannot find -laio: No such file or directory",
            "DeepSpeed 0.14, run",
        ),
        (
            "which: no hipcc in (/usr/local/bin:/usr/bin)",
            "DeepSpeed 0.14, run",
        ),
        (
            "sh: 1: lsb_release: not found",
            "pip 22, run",
        ),
        (
            " [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.",
            "DeepSpeed 0.14, source",
        ),
        (
            "wandb: Network error (ConnectionError), entering retry loop.",
            "wandb 0.12, source",
        ),
        (
            "fatal: not a git repository (or any of the parent directories): .git",
            "git 2.39, run",
        ),
        (
            "fatal: detected dubious ownership in repository at '/workspace'",
            "git 2.39, run",
        ),
        (
            "df: /root/.triton/autotune: No such file or directory",
            "DeepSpeed 0.14, run",
        ),
        (
            "/sbin/ldconfig.real: /usr/local/lib/libtbb.so.2 is not a symbolic link",
            "glibc 2.35, run",
        ),
        (
            "ERROR: ld.so: object 'libtcmalloc.so' from LD_PRELOAD cannot be preloaded (cannot open "
            "shared object file): ignored.",
            "glibc 2.35, source",
        ),
        (
            "[WARNING] cpu_lion cuda is missing or is incompatible with installed torch, only cpu ops can be compiled!",
            "DeepSpeed 0.14, source",
        ),
        (
            "Importing plotly failed. Interactive plots will not work.",
            "https://github.com/intel/ipex-llm/pull/5059",
        ),
        (
            "wandb: Network error resolved after 0:00:12.100000, resuming normal operation.",
            "wandb 0.30.0, source",
        ),
        (
            "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This behaviour is the source of the following dependency conflicts.",
            "pip 24.0, source",
        ),
    ),
    "shared-cache": (
        (
            "OSError: [Errno 116] Stale file handle: '/nfs/.cache/huggingface/hub/.locks/x.lock'",
            "Python 3.11, source",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/home/me/.cache/huggingface/datasets/x.incomplete'",
            "datasets 2.20, source",
        ),
        (
            "OSError: [Errno 39] Directory not empty: '/home/me/.cache/huggingface/datasets/x'",
            "Python 3.11, source",
        ),
        (
            "FileNotFoundError: [Errno 2] Failed to open local file '/dccstor/.cache/csv/default-387f1f95c084d4df/0.0.0/2dc6629a9ff6.incomplete/csv-validation.arrow'. Detail: [errno 2] No such file or directory",
            "https://github.com/huggingface/datasets/issues/2728",
        ),
        (
            "ValueError: Expected to find locked file /home/u/.cache/huggingface/metrics/wer/default/exp-4-0.arrow.lock from process 1 but it doesn't exist.",
            "evaluate, source",
        ),
    ),
    "dangling-link": (
        (
            "FileExistsError: [Errno 17] File exists: '/home/user/.cache'\nFileNotFoundError: [Errno 2] No such file or directory: '/home/user/.cache/nemo'",
            "https://github.com/NVIDIA-NeMo/Megatron-Bridge/issues/6023",
        ),
    ),
    "checkpoint-not-written": (
        (
            "RuntimeError: [enforce fail at inline_container.cc:471] . PytorchStreamWriter failed writing file data/807: file write failed",
            "torch 2.1, source",
        ),
        (
            "RuntimeError: File my_out/checkpoints/checkpoint_0.pt cannot be opened.",
            "https://github.com/Sachini/ronin/issues/51",
        ),
        (
            "RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 448 vs 342",
            "torch 2.2, source",
        ),
        ("RuntimeError: unexpected pos 704 vs 598", "https://github.com/NVIDIA-NeMo/Automodel/pull/2070"),
    ),
    "home-not-writable": (
        (
            "PermissionError: [Errno 13] Permission denied: '/.cache'",
            "https://github.com/opendatahub-io/ilab-on-ocp/pull/26",
        ),
    ),
    "nfs-file-busy": (
        (
            "OSError: [Errno 16] Device or resource busy: '.nfs00000000058e2b6700000a51'",
            "Python 3.11, run",
        ),
    ),
    "socket-path-too-long": (
        (
            "OSError: AF_UNIX path too long",
            "Python 3.11, run",
        ),
    ),
    "start-method-twice": (
        (
            "RuntimeError: context has already been set",
            "Python 3.11, run",
        ),
    ),
    "worker-with-children": (
        (
            "AssertionError: daemonic processes are not allowed to have children",
            "Python 3.11, run",
        ),
    ),
    "hook-not-pickled": (
        (
            "AttributeError: Can't pickle local object 'DeepSpeedEngine._create_module_forward_post_hook.<locals>._module_forward_post_hook'",
            "https://github.com/hiyouga/LlamaFactory/issues/8346",
        ),
    ),
    "compile-cache-shared": (
        (
            "torch._inductor.exc.InductorError: FileNotFoundError: [Errno 2] No such file or directory: '/home1/ann/triton_cache_255441/E5DAZZK6P4ZXQ3VKJPNIEWZ7P4HLUH2VX7O2QO7USGHM5XQCLM6A/triton_red_fused.hsaco'",
            "https://github.com/pytorch/torchtitan/issues/2146",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/home/me/.triton/cache/0f/kernel.ttir.tmp.pid_15735_304289' -> '/home/me/.triton/cache/0f/kernel.ttir'",
            "https://github.com/triton-lang/triton/issues/2688",
        ),
        (
            "torch._inductor.exc.InductorError: ImportError: /root/.triton/cache/XU5/cuda_utils.cpython-310-x86_64-linux-gnu.so: cannot read file data: Stale file handle",
            "https://github.com/pytorch/pytorch/issues/173679",
        ),
        (
            "OSError: [Errno 116] Stale file handle: '/home/me/.triton/cache/0f/kernel.json'",
            "Python 3.11, run",
        ),
        (
            "OSError: [Errno 39] Directory not empty: '/tmp/torchinductor_me/triton/0/x'",
            "Python 3.11, run",
        ),
        (
            "torch._inductor.exc.InductorError: OSError: [Errno 16] Device or resource busy: '/root/.triton/cache/ABC/cuda_utils.cpython-310-x86_64-linux-gnu.so' -> '/root/.triton/cache/ABC/cuda_utils.so'",
            "https://github.com/pytorch/pytorch/issues/173679",
        ),
    ),
    "dcp-incomplete": (
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/checkpoints/step-1000/.metadata'",
            "https://github.com/RobinWu218/SimDINO/issues/24",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/checkpoints/step-1000/__8_0.distcp'",
            "torch 2.13, run",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/ckpt/step_1000/.metadata'",
            "torch 2.13, run",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/ckpt/step_1000/__8_0.distcp'",
            "torch 2.13, run",
        ),
        ("    assert metadata is not None", "https://github.com/bghira/SimpleTuner/issues/1880"),
        ("AssertionError: metadata is not None", "torch 2.13, source"),
    ),
    "map-limit": (
        (
            "RuntimeError: unable to mmap 2048 bytes from file <filename not specified>: Cannot allocate memory (12)",
            "https://github.com/pytorch/pytorch/issues/92134",
        ),
        (
            "RuntimeError: unable to mmap 32 bytes from file </torch_239305_1669300387>: Cannot allocate memory (12)",
            "https://github.com/bbepoch/HoiTransformer/issues/22",
        ),
    ),
    "windows-paging-file": (
        (
            'OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading "D:\\Anaconda\\envs\\swin-train\\lib\\site-packages\\torch\\lib\\shm.dll" or one of its dependencies.',
            "https://github.com/cszn/KAIR/issues/127",
        ),
        (
            "ImportError: DLL load failed: The paging file is too small for this operation to complete.",
            "https://github.com/Spandan-Madan/Pytorch_fine_tuning_Tutorial/issues/10",
        ),
        (
            "RuntimeError: Couldn't open shared file mapping: <torch_16336_2546003764_1594>, error code: <1455>",
            "torch 2.4, source",
        ),
    ),
    "dcp-error-hidden": (
        (
            "/torch/distributed/checkpoint/utils.py: TypeError: cannot pickle code objects",
            "https://github.com/huggingface/accelerate/issues/3896",
        ),
    ),
    "composer-signal-file": (
        (
            "[rank0]: FileNotFoundError: [Errno 2] No such file or directory: '._signal_file_node0_QVBHXW'",
            "https://github.com/mosaicml/llm-foundry/issues/1848",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/my-copy/.node_0_local_rank0_completed'",
            "llm-foundry 0.22, source",
        ),
    ),
    "dataloader-thread-lost-worker": (
        (
            '  File "/opt/conda/lib/python3.10/site-packages/torch/utils/data/_utils/pin_memory.py", line 51, in _pin_memory_loop\nConnectionResetError: [Errno 104] Connection reset by peer',
            "https://github.com/ultralytics/ultralytics/issues/2525",
        ),
        (
            '  File "/opt/conda/lib/python3.10/site-packages/torch/utils/data/_utils/pin_memory.py", line 51, in _pin_memory_loop\n[rank0]: EOFError',
            "https://github.com/pytorch/pytorch/issues/28950",
        ),
        (
            '  File "/opt/conda/lib/python3.8/site-packages/torch/multiprocessing/reductions.py", line 282, in rebuild_storage_fd\nConnectionRefusedError: [Errno 111] Connection refused',
            "Python 3.8, unverified",
        ),
        (
            '  File "/opt/conda/lib/python3.8/site-packages/torch/utils/data/dataloader.py", line 399, in _shutdown_workers\nBrokenPipeError: [Errno 32] Broken pipe',
            "Python 3.8, unverified",
        ),
    ),
    "dataloader-deleted-in-child": (
        (
            "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f3e5c0d5c10>\nTraceback (most recent call last):\n  File \"/opt/conda/lib/python3.8/multiprocessing/process.py\", line 160, in is_alive\n    assert self._parent_pid == os.getpid(), 'can only test a child process'\nAssertionError: can only test a child process",
            "Python 3.11, source",
        ),
    ),
    "save-directory-missing": (
        (
            "RuntimeError: Parent directory /home/user/checkpoints does not exist.",
            "torch 2.6, run",
        ),
        (
            "RuntimeError: Parent directory /data/home/me/.cache/nanochat/base_checkpoints/d20 does not exist.",
            "https://github.com/karpathy/nanochat/issues/315",
        ),
    ),
    "pin-thread-died": (
        (
            "RuntimeError: Pin memory thread exited unexpectedly",
            "https://github.com/pytorch/pytorch/issues/47445",
        ),
    ),
    "file-too-large": (
        ("OSError: [Errno 27] File too large", "Python 3.11, run"),
        ("RuntimeError: write(): fd 12 failed with File too large", "torch 2.6, source"),
        ("slurm_script: line 9:  4120 File size limit exceeded(core dumped) python train.py", "bash 5.2, run"),
    ),
    "fuse-mount-lost": (
        (
            "OSError: [Errno 107] Transport endpoint is not connected: '/opt/airflow/logbucket/dag_id=xxx'",
            "https://github.com/GoogleCloudPlatform/gcs-fuse-csi-driver/issues/50",
        ),
        (
            "ls: cannot access '/Media/Google': Transport endpoint is not connected",
            "https://github.com/astrada/google-drive-ocamlfuse/issues/259",
        ),
        (
            "mount helper error: fusermount: failed to access mountpoint /mnt/gdrive: Transport endpoint is not connected",
            "https://github.com/rclone/rclone/issues/2982",
        ),
        (
            "ls: cannot access '/mnt/data': Transport endpoint is not connected",
            "coreutils 9.1, documented",
        ),
    ),
    "removed-twice": (
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'output/effnet_b0/tmp.pth.tar' -> 'output/effnet_b0/last.pth.tar'",
            "https://github.com/huggingface/pytorch-image-models/pull/693",
        ),
    ),
    "file-operation-unsupported": (
        (
            "[rank1]: OSError: [Errno 95] Operation not supported",
            "https://kb.databricks.com/dbfs/errno95-operation-not-supported",
        ),
        (
            "RuntimeError: unable to mmap 3972 bytes from file </mnt/s3/model.safetensors>: No such device (19)",
            "torch 2.5, unverified",
        ),
    ),
}
