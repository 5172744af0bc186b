"""Printed texts of `ddpkit/diagnosis/catalogue/node.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "command-not-found": (
        ("bash: torchrun: command not found", "https://github.com/microsoft/DeepSpeed/issues/1481"),
        ("bash: line 1: deepspeed: command not found", "bash 5.2, run"),
        ("slurmstepd: error: execve(): torchrun: No such file or directory", "Slurm 22.05, run"),
        ("/usr/bin/env: 'python': No such file or directory", "coreutils 9.1, run"),
        ("sh: 1: torchrun: not found", "dash 0.5.12, run"),
        ("bash: line 1: exec: torchrun: not found", "bash 5.2, run"),
        (
            "mpirun was unable to find the specified executable file, and therefore",
            "Open MPI 4.1, source",
        ),
        (
            "bash: line 1: venv/bin/torchrun: cannot execute: required file not found",
            "bash 5.2, run",
        ),
        (
            "bash: line 1: /home/user/miniconda3/envs/train/bin/python: No such file or directory",
            "bash 5.2, run",
        ),
        (
            "bash: ./run.sh: /opt/conda/bin/python: bad interpreter: No such file or directory",
            "bash 5.0, run",
        ),
    ),
    "module-missing": (("ModuleNotFoundError: No module named 'torch'", "Python 3.11, documented"),),
    "shm-full": (
        (
            "UserWarning: [Errno 28] No space left on device.  joblib will operate in serial mode",
            "https://github.com/Plachtaa/VITS-fast-fine-tuning/issues/397",
        ),
        (
            "node1:10:99 [3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
            "https://github.com/NVIDIA/nccl/issues/290",
        ),
        (
            "RuntimeError: DataLoader worker (pid 46794) is killed by signal: Bus error. It is possible that "
            "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
            "https://github.com/pytorch/pytorch/issues/5040",
        ),
        (
            "RuntimeError: unable to allocate shared memory(shm) for file </torch_27882_2770998746_0>: No space "
            "left on device (28)",
            "torch 2.13, run",
        ),
        (
            "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-U8cMPu (size 9637888), error: No "
            "space left on device (28)",
            "NCCL 2.21, documented",
        ),
        (
            "RuntimeError: unable to mmap 1024 bytes from file </torch_27882_2770998746_0>: Cannot "
            "allocate memory (12)",
            "torch 2.9, source",
        ),
        (
            "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
            "shared memory (shm).",
            "torch 2.6, source",
        ),
        (
            "RuntimeError: unable to write to file </torch_4711_1234>",
            "torch 1.13, source",
        ),
    ),
    "host-out-of-memory": (
        (
            "[Fri Nov 20 17:02:51 2026] Out of memory: Killed process 4711 (python) total-vm:98304kB",
            "Linux 6.1, documented",
        ),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't allocate memory: "
            "you tried to allocate 40000000000 bytes. Error code 12 (Cannot allocate memory)",
            "torch 2.13, source",
        ),
        (
            "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape "
            "(100000, 100000) and data type float64",
            "numpy, documented",
        ),
        (
            "[ 7063.247407] Memory cgroup out of memory: Killed process 63214 (uwsgi) "
            "total-vm:3149468kB, anon-rss:164992kB",
            "https://github.com/reportportal/kubernetes/issues/203",
        ),
        (
            "[Sun Mar 30 08:24:00 2025] "
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/init.scope,task=python,pid=7899,uid=0",
            "https://github.com/0jc1/py-autovod/issues/7",
        ),
        (
            "[ 7063.263325] oom_reaper: reaped process 63214 (uwsgi), now anon-rss:0kB, file-rss:0kB, shmem-rss:92kB",
            "https://github.com/reportportal/kubernetes/issues/203",
        ),
        ("MemoryError", "Python 3.11, run"),
        ("OSError: [Errno 12] Cannot allocate memory", "Python 3.11, run"),
        ("OSError: [Errno 12] Cannot allocate memory: '/data/train-7.bin'", "Python 3.11, source"),
        ("Exception: Cannot allocate memory (os error 12)", "Rust 1.80, source"),
        ("memory allocation of 4194304 bytes failed", "Rust 1.80, source"),
        ("memory allocation of memory allocation of 41943044194304 bytes failed", "Rust 1.80, source"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "libstdc++ 13, source"),
        (
            "ddpkit: rank 1 on node1 failed first, after 3.0 s: killed by signal 9 (SIGKILL): the kernel "
            "ended it: out of memory (cgroup /x)",
            "ddpkit 0.2, run",
        ),
        (
            "      Reason:       OOMKilled",
            "Kubernetes 1.29, source",
        ),
    ),
    "one-core": (
        (
            "UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of "
            "worker in current system is 1, which is smaller than what this DataLoader is going to create.",
            "torch 2.13, run",
        ),
    ),
    "ptrace-denied": (
        (
            "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'",
            "py-spy 0.4, run",
        ),
        ("ptrace: Operation not permitted.", "gdb 13, run"),
    ),
    "no-libibverbs": (
        ("node1:10:10 [0] NCCL INFO Failed to open libibverbs.so[.1]", "https://github.com/NVIDIA/nccl/issues/417"),
    ),
    "pinned-memory": (
        ("RuntimeError: Pin memory thread exited unexpectedly", "torch 2.13, source"),
        (
            "RuntimeError: Caught RuntimeError in pin memory thread for device 0.\nRuntimeError: CUDA error: out of memory",
            "torch 2.13, source",
        ),
    ),
    "recursion": (
        (
            "RecursionError: maximum recursion depth exceeded while calling a Python object",
            "Python 3.11, documented",
        ),
    ),
    "versions-differ": (
        (
            "RuntimeError: Version mismatch: The cluster was started with:",
            "Ray 2.9, source",
        ),
    ),
    "modules-not-loaded": (
        (
            "/var/spool/slurmd/job00156/slurm_script: line 4: ml: command not found",
            "https://github.com/envmodules/modules/issues/339",
        ),
    ),
}
