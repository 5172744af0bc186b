"""The node itself: its Python, memory, shared memory, processors."""

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
        ),
        cause="{program} is not on PATH there: a command by ssh does not read the interactive part of ~/.bashrc, and so "
        "no conda or module",
        probe="the same way in: ssh {host} 'echo $PATH; command -v {program}'",
        fix="name it by its full path (ddpkit: --python /path/to/env/bin/python), or activate the environment in the "
        "job's script",
        link="https://github.com/microsoft/DeepSpeed/issues/1481",
        examples=(
            ("bash: torchrun: command not found", "https://github.com/microsoft/DeepSpeed/issues/1481"),
            ("bash: line 1: deepspeed: command not found", "bash 5.2, run"),
            ("slurmstepd: error: execve(): torchrun: No such file or directory", "Slurm 22.05, run"),
            ("/usr/bin/env: 'python': No such file or directory", "coreutils 9.1, run"),
            ("sh: 1: torchrun: not found", "dash 0.5.12, run"),
            ("bash: line 1: exec: torchrun: not found", "bash 5.2, run"),
        ),
    ),
    Entry(
        id="module-missing",
        doubtful=True,
        title="ModuleNotFoundError: No module named ...",
        patterns=(r"No module named '?(?P<module>[\w.]+)'?",),
        cause="this Python has no {module}: another interpreter than you think, an environment that was not "
        "activated, or a package that is missing on this node",
        probe="on that node, the same way in: python -c 'import sys; print(sys.executable, sys.path)'",
        fix="install {module} into that Python (python -m pip install PACKAGE), or start the ranks with the right one "
        "(--python)",
        link="https://docs.python.org/3/library/exceptions.html#ModuleNotFoundError",
        examples=(("ModuleNotFoundError: No module named 'torch'", "Python 3.11, documented"),),
    ),
    Entry(
        id="versions-differ",
        title="Nodes differ in Python, torch, CUDA or driver",
        cause="the nodes' environments drifted apart",
        probe="on each node: python -c 'import sys, torch; print(sys.version, torch.__version__, torch.version.cuda)'",
        fix="install the same versions on all nodes, or use a shared environment or one container image",
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
            r"NCCL WARN.*(?:shared memory|/dev/shm/nccl-).*No space left on device",
            r"Error while creating shared memory segment /dev/shm/nccl-",
        ),
        cause="/dev/shm is full: DataLoader workers pass batches through it, and NCCL its buffers",
        probe="df -h /dev/shm",
        fix="docker run --ipc=host (or --shm-size=16g); else fewer num_workers, or "
        "torch.multiprocessing.set_sharing_strategy('file_system')",
        link="https://github.com/pytorch/pytorch/issues/5040",
        examples=(
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
        ),
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
        ),
        cause="the host's memory (not the GPU's) is full: the kernel killed a process, or an allocation was refused",
        probe="on that host: dmesg -T | grep -i 'killed process'; free -g",
        fix="fewer DataLoader workers, load less in each rank, or more memory (SLURM: --mem)",
        link="https://www.kernel.org/doc/html/latest/admin-guide/mm/concepts.html",
        examples=(
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
                "[ 7063.263325] oom_reaper: reaped process 63214 (uwsgi), now anon-rss:0kB, file-rss:0kB, "
                "shmem-rss:92kB",
                "https://github.com/reportportal/kubernetes/issues/203",
            ),
            ("MemoryError", "Python 3.11, run"),
            ("OSError: [Errno 12] Cannot allocate memory", "Python 3.11, run"),
        ),
    ),
    Entry(
        id="one-core",
        title="Data loading is slow: a rank has one processor core",
        kind="hint",
        patterns=(
            r"This DataLoader will create \d+ worker processes in total\. Our suggested max number of worker in "
            r"current system is (?P<cores>\d+)",
        ),
        cause="a rank may use {cores} cores: srun gives one a task unless told otherwise",
        probe="in a rank: python -c 'import os; print(len(os.sched_getaffinity(0)))'",
        fix="srun --cpus-per-task=N (on srun itself, see cpus-per-task-lost); num_workers at most that",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/18650",
        examples=(
            (
                "UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of "
                "worker in current system is 1, which is smaller than what this DataLoader is going to create.",
                "torch 2.13, run",
            ),
        ),
    ),
    Entry(
        id="cpu-binding",
        title="Two ranks have the same cores, or cores far from their GPU",
        cause="the launcher binds ranks to cores badly, or not at all",
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
        cause="one process may not look into another here: yama's ptrace_scope, or a container without CAP_SYS_PTRACE",
        probe="cat /proc/sys/kernel/yama/ptrace_scope",
        fix="docker run --cap-add=SYS_PTRACE; or stacks from inside: faulthandler.register(signal.SIGUSR1)",
        link="https://github.com/benfred/py-spy#when-do-you-need-to-run-as-sudo",
        examples=(
            (
                "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'",
                "py-spy 0.4, run",
            ),
            ("ptrace: Operation not permitted.", "gdb 13, run"),
        ),
    ),
    Entry(
        id="no-libibverbs",
        title="Failed to open libibverbs.so[.1]",
        kind="noise",
        patterns=(r"Failed to open libibverbs\.so",),
        cause="the image has no rdma-core; harmless where there is no InfiniBand",
        probe="ldconfig -p | grep ibverbs",
        fix="nothing, or apt-get install libibverbs1 in the image",
        link="https://github.com/NVIDIA/nccl/issues/417",
        examples=(
            ("node1:10:10 [0] NCCL INFO Failed to open libibverbs.so[.1]", "https://github.com/NVIDIA/nccl/issues/417"),
        ),
    ),
    Entry(
        id="pinned-memory",
        title="Cannot pin memory: CUDA error: out of memory in pin_memory",
        patterns=(
            r"Pin memory thread exited unexpectedly",
            r"Caught RuntimeError in pin memory thread",
        ),
        cause="the thread that pins batches died: the host's memory or the limit for locked memory is too small",
        probe="free -g; ulimit -l",
        fix="pin_memory=False, or fewer workers",
        link="https://docs.pytorch.org/docs/stable/data.html#memory-pinning",
        examples=(
            ("RuntimeError: Pin memory thread exited unexpectedly", "torch 2.13, source"),
            ("RuntimeError: Caught RuntimeError in pin memory thread for device 0.", "torch 2.13, source"),
        ),
    ),
    Entry(
        id="recursion",
        title="RecursionError: maximum recursion depth exceeded",
        patterns=(r"maximum recursion depth exceeded",),
        cause="a function calls itself without an end",
        probe="the first lines of the traceback show the circle",
        fix="correct it; for deep data structures: sys.setrecursionlimit",
        link="https://docs.python.org/3/library/exceptions.html#RecursionError",
        examples=(
            (
                "RecursionError: maximum recursion depth exceeded while calling a Python object",
                "Python 3.11, documented",
            ),
        ),
    ),
)
