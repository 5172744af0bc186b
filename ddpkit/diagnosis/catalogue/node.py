"""A node's own resources: Python, memory, shared memory, CPUs."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="command-not-found",
        doubtful=True,
        title="torchrun: command not found; python: No such file or directory",
        patterns=(
            r"\b(?P<program>[\w.-]+): command not found",
            r"execv[ep]+\(\): (?P<program>\S+): No such file or directory",
            r"env: '?(?P<program>[\w./-]+)'?: No such file or directory",
            r"(?P<program>[\w./-]+): not found$",
            r"exec: \"?(?P<program>[\w./-]+)\"?: (?:executable file )?not found",
            r"mpirun was unable to find the specified executable file",
            r"(?P<program>\S+): cannot execute: required file not found",
            r"(?P<program>\S+/(?:python[\d.]*|torchrun|accelerate|deepspeed|activate|conda|mpirun|\w+\.sh)): No such file or directory$",
            r"(?P<program>\S+): (?:/\S+: )?bad interpreter: No such file or directory",
        ),
        cause="{program|a program} is not found on that host: it is not on PATH, was removed, or its first "
        "line names a missing interpreter (also with Windows line ends). An SSH command does not read "
        "the interactive part of ~/.bashrc, so conda and modules are not active",
        probe="the same way: ssh {host|localhost} 'echo $PATH; command -v {program|python}'",
        fix="install {program|it} on that host, pass its full path (for Python: ddpkit launch --python "
        "/path/to/env/bin/python), or activate the environment in the job script",
        link="https://github.com/microsoft/DeepSpeed/issues/1481",
    ),
    Entry(
        id="modules-not-loaded",
        doubtful=True,
        title="ml: command not found; module: command not found",
        patterns=(r"\b(?P<program>ml|module): (?:command )?not found",),
        explains=("command-not-found",),
        cause="{program} is a function of the environment modules, and this shell has not defined it: a job script's shell "
        "does not read /etc/profile.d, and srun cannot start a function",
        probe="on that host: ls /etc/profile.d/ | grep -iE 'mod'; bash -lc 'type module'",
        fix="begin the script with `#!/bin/bash -l`, or with `source /etc/profile.d/modules.sh` (Lmod: lmod.sh or "
        "z00_lmod.sh). Call it in the script, not with srun",
        link="https://github.com/envmodules/modules/issues/339",
    ),
    Entry(
        id="module-missing",
        doubtful=True,
        title="ModuleNotFoundError: No module named ...",
        patterns=(r"(?<!Failed to initialize NumPy: )No module named '?(?P<module>[\w.]+)'?",),  # torch warns of NumPy
        cause="this Python cannot import {module}. The package is not installed there, its environment is not active, or "
        "it is the wrong Python",
        probe="on that node, the same way: python -c 'import sys; print(sys.executable, sys.path)'",
        fix="python -m pip install {module} (some packages have another name), or select the right Python with --python",
        link="https://docs.python.org/3/library/exceptions.html#ModuleNotFoundError",
    ),
    Entry(
        id="versions-differ",
        title="Nodes differ in Python, torch, CUDA or driver",
        patterns=(r"Version mismatch: The cluster was started with",),
        cause="the software environments of the nodes differ",
        probe="on each node: python -c 'import sys, torch; print(sys.version, torch.__version__, torch.version.cuda)'",
        fix="install the same versions on all nodes, or use a shared environment or a container image",
        link="https://github.com/NVIDIA/nccl/issues/1267",
    ),
    Entry(
        id="shm-full",
        title="DataLoader worker is killed by signal: Bus error; unable to allocate shared memory",
        patterns=(
            r"DataLoader worker \(pid\S* (?P<pid>\d+)\) is killed by signal: Bus error",
            r"unable to (?:allocate|open|write|mmap|resize) (?:\d+ bytes from file <)?(?:shared memory|/torch_)(?!.*Too many open files)",
            r"dataloader's workers are out of shared memory",
            r"unable to mmap \d+ bytes from file </torch_",
            r"NCCL WARN.*shared memory.*No space left on device",
            r"Error while creating shared memory segment /dev/shm/nccl-",
            r"Unexpected bus error encountered in worker",
            r"unable to write to file </torch_",
            r"No space left on device\W+joblib will operate in serial mode",
            r"(?:include/shm\.h|shmutils\.cc|/dev/shm).*No space left on device",
        ),
        explains=("disk-full",),
        cause="/dev/shm is full or too small. DataLoader workers pass batches through it, NCCL keeps buffers there, and "
        "Python's multiprocessing its locks and queues",
        probe="df -h /dev/shm",
        fix="use docker run --ipc=host (or --shm-size=16g). Otherwise reduce num_workers, or call "
        "torch.multiprocessing.set_sharing_strategy('file_system')",
        link="https://github.com/pytorch/pytorch/issues/5040",
    ),
    Entry(
        id="host-out-of-memory",
        title="Killed process ... (python): out of memory; exit code 137",
        patterns=(
            r"Out of memory: Killed process (?P<pid>\d+)",
            r"Memory cgroup out of memory: Kill(?:ed)? process (?P<pid>\d+)",
            r"oom-kill:constraint=",
            r"\boom_reaper: reaped process",
            r"DefaultCPUAllocator: (?:not enough memory|can't allocate memory)",
            r"Unable to allocate .* for an array with shape",
            r"\bMemoryError\b",
            r"Cannot allocate memory$",
            r"Cannot allocate memory \(os error 12\)",
            r"\[Errno 12\] Cannot allocate memory",
            r"\bmemory allocation of [\w ]*\d+ bytes failed",
            r"\bstd::bad_alloc\b(?!: (?:out_of_memory|CUDA))",
            r"ddpkit: rank (?P<rank>\d+) on (?P<host>\S+) failed first.*the kernel ended it: out of memory",
            r"\bOOMKilled\b",
        ),
        cause="the host's memory (not the GPU's) is full. The kernel killed a process, or refused an allocation",
        probe="on that host: dmesg -T | grep -i 'killed process'; free -g",
        fix="use fewer DataLoader workers, load less data in each rank, or request more memory (SLURM: --mem; "
        "Kubernetes: requests.memory and limits.memory of the pod)",
        link="https://www.kernel.org/doc/html/latest/admin-guide/mm/concepts.html",
    ),
    Entry(
        id="one-core",
        title="Data loading is slow: a rank has one CPU core",
        kind="hint",
        patterns=(
            r"This DataLoader will create \d+ worker processes in total\. Our suggested max number of worker in "
            r"current system is (?P<cores>\d+)",
        ),
        cause="a rank can use only {cores} cores. By default, srun gives each task one core",
        probe="in a rank: python -c 'import os; print(len(os.sched_getaffinity(0)))'",
        fix="pass --cpus-per-task=N to srun itself (see cpus-per-task-lost). Use at most that many num_workers",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/18650",
    ),
    Entry(
        id="cpu-binding",
        title="Two ranks share cores, or use cores far from their GPU",
        cause="the launcher binds ranks to the wrong cores, or does not bind them",
        probe="in each rank: taskset -cp $$; nvidia-smi topo -m",
        fix="srun --cpu-bind=cores --cpus-per-task=N; torchrun 2.9 and later: --numa-binding=node",
        link="https://slurm.schedmd.com/mc_support.html",
    ),
    Entry(
        id="ptrace-denied",
        title="py-spy: Permission denied; ptrace: Operation not permitted",
        patterns=(
            r"ptrace: Operation not permitted",
            r"Permission Denied: Try running again with elevated permissions",
        ),
        cause="a process must not inspect another process here, because of yama's ptrace_scope or a container without "
        "CAP_SYS_PTRACE",
        probe="cat /proc/sys/kernel/yama/ptrace_scope",
        fix="docker run --cap-add=SYS_PTRACE. To print stacks from inside: faulthandler.register(signal.SIGUSR1)",
        link="https://github.com/benfred/py-spy#when-do-you-need-to-run-as-sudo",
    ),
    Entry(
        id="no-libibverbs",
        title="Failed to open libibverbs.so[.1]",
        kind="noise",
        patterns=(r"Failed to open libibverbs\.so",),
        cause="the image does not contain rdma-core. This is harmless without InfiniBand",
        probe="ldconfig -p | grep ibverbs",
        fix="nothing to do, or `apt-get install libibverbs1` in the image",
        link="https://github.com/NVIDIA/nccl/issues/417",
    ),
    Entry(
        id="pinned-memory",
        title="Cannot pin memory: CUDA error: out of memory in pin_memory",
        patterns=(
            r"Pin memory thread exited unexpectedly",
            r"Caught \w+ in pin memory thread",
        ),
        needs=r"out of memory|Cannot allocate memory|Pin memory thread exited unexpectedly",
        # Of `CUDA error: out of memory`, the frames of its traceback decide, too: see ddpkit.diagnosis.log_reader.
        explains=("cuda-out-of-memory",),
        cause="the host's memory could not be pinned for transfers to the GPU. The host's memory, or the limit for locked "
        "memory, is too small. Or this thread uses another rank's GPU, which is full",
        probe="free -g; ulimit -l",
        fix="DataLoader(..., pin_memory=False) or fewer workers. With offloading to the CPU, pin less: FSDP2 "
        "CPUOffloadPolicy(pin_memory=False), DeepSpeed pin_memory false. Call torch.cuda.set_device(LOCAL_RANK) first",
        link="https://docs.pytorch.org/docs/stable/data.html#memory-pinning",
    ),
    Entry(
        id="recursion",
        title="RecursionError: maximum recursion depth exceeded",
        patterns=(r"maximum recursion depth exceeded",),
        cause="a function calls itself without an end condition",
        probe="the first lines of the traceback show the cycle",
        fix="correct the function. For deep data structures: sys.setrecursionlimit",
        link="https://docs.python.org/3/library/exceptions.html#RecursionError",
    ),
)
