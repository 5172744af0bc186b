"""A node's own resources: Python, memory, shared memory, CPUs."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="command-not-found",
        doubtful=True,
        title="torchrun: command not found; python: No such file or directory",
        patterns=(
            r"(?P<program>[\w.-]+): command not found",
            r"execv[ep]+\(\): (?P<program>\S+): No such file or directory",
            r"env: '?(?P<program>[\w./-]+)'?: No such file or directory",
            r"(?P<program>[\w./-]+): not found$",
            r"exec: \"?(?P<program>[\w./-]+)\"?: (?:executable file )?not found",
            r"mpirun was unable to find the specified executable file",
            r"execvp error on file (?P<program>\S+) \((?:No such file or directory|Permission denied)\)",
            r"(?P<program>\S+): cannot execute: required file not found",
            r"(?P<program>\S+/(?:python[\d.]*|torchrun|accelerate|deepspeed|activate|conda|mpirun|\w+\.sh)): No such file or directory$",
            r"(?P<program>\S+): (?:/\S+: )?bad interpreter: No such file or directory",
            r"task (?P<rank>\d+): start failed: (?P<program>\S+): No such file or directory",
            r"execvp error on file (?P<program>\S+) \(No such file or directory\)",
            r"(?:mpiexec|prterun|orterun) was unable to find the specified executable file",
            r"execve\(\): bad interpreter\((?P<program>[^)]+)\): No such file",
            r"failed to run command ['‘](?P<program>[^'’]+)['’]: No such file or directory",
            r"\bxargs: (?P<program>[\w./-]+): No such file or directory",
            r"\bexecution of [`'](?P<program>[^'`]+)': No such file or directory",
            r"\bcannot run (?P<program>[\w./-]+): No such file or directory",
            r"\bzsh: no such file or directory: (?P<program>/\S+/bin/\S+)",
            r"\[NID \d+\] Exec (?P<program>\S+) failed: No such file",
        ),
        cause="{program|a program} is not found on that host: it is not on PATH, was removed, or its first "
        "line names a missing interpreter (also with Windows line ends). A command over SSH does not read "
        "the interactive part of ~/.bashrc, so conda and modules are not active. An environment on a local disk is on its own "
        "node alone",
        probe="on that host, started the same way (srun -w {host|NODE}, or ssh {host|NODE}): bash -c 'echo $PATH; command -v "
        "{program|python}'",
        fix="install {program|it} on that host, pass its full path (for Python: ddpkit launch --python "
        "/path/to/env/bin/python), or activate the environment in the job script",
        scope="shell",
        explains_text=r"(?i)\b(?:commands?|subprocess|exit (?:code|status)|return code)\b",
        link="https://github.com/microsoft/DeepSpeed/issues/1481",
    ),
    Entry(
        id="path-not-passed",
        title="error: execve(): bash: No such file or directory",
        patterns=(r"execv[ep]+\(\): (?P<program>bash|sh|env): No such file or directory",),
        explains=("command-not-found",),
        cause="not even {program} was found: PATH is empty or was not passed on. An --export=NONE or --export=NAME of sbatch or srun "
        "hides it, or a script overwrote it",
        probe="in the job: srun /usr/bin/env | grep ^PATH; grep -n 'export' of the job script",
        fix="pass the environment to the step: srun --export=ALL. Otherwise `export PATH=/usr/local/bin:/usr/bin:/bin:$PATH` in the job "
        "script, or give the full path, /bin/{program}",
        link="https://slurm.schedmd.com/srun.html#OPT_export",
    ),
    Entry(
        id="modules-not-loaded",
        doubtful=True,
        title="ml: command not found; module: command not found",
        patterns=(
            r"\b(?P<program>ml|module): (?:command )?not found",
            r"execve\(\): (?P<program>ml|module): No such file or directory",
            r": /\S*/(?P<program>lmod|modulecmd\S*): No such file or directory",
        ),
        explains=("command-not-found",),
        cause="{program} belongs to the environment modules, and this shell has not defined it. A job script's shell does not read "
        "/etc/profile.d, and srun cannot start a function. Or this node has no modules",
        probe="on that host: ls /etc/profile.d/ | grep -iE 'mod'; bash -lc 'type module'",
        fix="begin the script with `#!/bin/bash -l`, or with `source /etc/profile.d/modules.sh` (Lmod: lmod.sh or "
        "z00_lmod.sh). Call it in the script, not with srun",
        link="https://github.com/envmodules/modules/issues/339",
    ),
    Entry(
        id="module-load-failed",
        doubtful=True,
        title="Lmod has detected the following error; Unable to locate a modulefile for 'cuda/11.8'",
        patterns=(
            r"Lmod has detected the following error: +(?P<reason>(?!The following module\(s\) are unknown:\s*$).*)",
            r"Lmod has detected the following error: +The following module\(s\) are unknown:\s*(?:$|\n)",
            r"Unable to locate a modulefile for '?(?P<reason>[^' ]+)",
            r"ERROR: Module cannot be loaded due to a (?P<reason>conflict)",
            r"Failed to find the following module\(s\): +(?P<reason>\S+)",
        ),
        context=r"^\s*\"(?P<reason>[\w.+/-]+)\"(?: \"[\w.+/-]+\")*\s*$",
        explains=("command-not-found", "module-missing", "library-missing", "cuda-toolkit-mismatch"),
        cause="`module load` failed in the job script: {reason}. This shell and its ranks run without the module",
        probe="on that host: module avail 2>&1 | less; module spider NAME",
        fix="load a module that exists there, with the modules that it needs before it (`module spider NAME/VERSION`). Write "
        "`set -e` at the top of the script, so that it ends there",
        link="https://lmod.readthedocs.io/en/latest/010_user.html",
    ),
    Entry(
        id="conda-not-active",
        doubtful=True,
        title="Your shell has not been properly configured to use 'conda activate'; Could not find conda environment",
        patterns=(
            r"Your shell has not been properly configured to use 'conda (?:de)?activate'",
            r"Run 'conda init' before 'conda activate'",
            r"Could not find conda environment: (?P<environment>\S+)",
            r"Not a conda environment: (?P<environment>\S+)",
            r"line \d+: activate: No such file or directory",
        ),
        explains=("command-not-found", "module-missing", "library-missing", "own-exception"),
        cause="`conda activate`[ of {environment}] failed in the job script, so its Python can be another one. A script's shell does "
        "not read ~/.bashrc, and environments can be on other disks",
        probe="in the job script: conda info --envs; which python",
        fix="source $(conda info --base)/etc/profile.d/conda.sh before `conda activate`, or call "
        "/path/to/env/bin/python directly",
        link="https://github.com/conda/conda/issues/8536",
    ),
    Entry(
        id="shell-not-bash",
        title='train.sh: 8: Bad substitution; Syntax error: "(" unexpected; [[: not found; source: not found',
        patterns=(
            r"\bSyntax error: (?!word unexpected \(expecting \"(?:in|do)\"\))(?:\S+|redirection|Bad \w+ loop \w+) unexpected",
            r"\bSyntax error: Bad for loop variable",
            r": \d+: (?:\S+: )?Bad substitution",
            r": \d+: (?:\S+: )?\[\[: not found",
            r": \d+: (?:\S+: )?(?:source|declare|shopt|pushd|popd|mapfile|readarray|typeset): not found",
            r"\bset: Illegal option -o pipefail$",
        ),
        explains=("command-not-found",),
        cause="the script is written for bash, and sh ran it: on Debian and Ubuntu sh is dash, which does not know this syntax",
        probe="ls -l /bin/sh; head -1 SCRIPT",
        fix="start it with `bash SCRIPT`, and write #!/bin/bash into its first line. From Python: subprocess.run(..., "
        "executable='/bin/bash')",
        link="https://github.com/open-mmlab/mmsegmentation/issues/3820",
    ),
    Entry(
        id="python-by-shell",
        title="train.py: line 14: import: command not found; from: can't read /var/mail/torch",
        patterns=(
            r"\bimport: (?:command )?not found$",
            r"\bfrom: (?:command )?not found$",
            r"\bfrom: can't read /var/mail/",
        ),
        explains=("command-not-found", "shell-not-bash", "shell-syntax"),
        cause="the shell ran a Python file as a shell script: the file has no line #!/usr/bin/env python at its top",
        probe="head -1 SCRIPT.py",
        fix="start it with `python SCRIPT.py`, torchrun or ddpkit launch. Under torchrun, without --no-python",
        link="https://github.com/Beckschen/3D-TransUNet/issues/4",
    ),
    Entry(
        id="script-by-python",
        title='File "tools/dist_train.sh", line 3: SyntaxError: invalid syntax',
        patterns=(r"\bSyntaxError: .*",),
        needs=r"File \"[^\"]+\.(?:sh|bash|slurm|sbatch)\", line \d+",
        context=r"File \"(?P<path>[^\"]+\.(?:sh|bash|slurm|sbatch))\", line \d+",
        explains=("own-exception",),
        cause="Python ran {path}, which is a shell script",
        probe="head -5 {path}",
        fix="start it with `bash {path}` (or sbatch), without python or torchrun before it. It starts the ranks on its own",
        link="https://github.com/open-mmlab/mmdetection/issues/3520",
    ),
    Entry(
        id="shell-variable-unset",
        doubtful=True,
        title="train.sh: line 29: MASTER_ADDR: unbound variable; parameter null or not set",
        patterns=(
            r"(?:^|[: ])(?P<variable>\w+(?:\[[^\]]*\])?): unbound variable$",
            r"(?:^|[: ])(?P<variable>\w+): parameter (?:null or )?not set$",
        ),
        cause="the shell script uses {variable}, which is not set here, and the script ends at that (set -u)",
        probe="env | grep {variable}; grep -n {variable} SCRIPT",
        fix="export {variable}, or write ${{variable}:-} in the script. A variable of SLURM exists only in its jobs. Where "
        "`conda activate` or `module` reads it, put set +u before and set -u after them",
        scope="shell",
        link="https://github.com/conda/conda/issues/8186",
    ),
    Entry(
        id="shell-syntax",
        title="train.sh: line 49: syntax error near unexpected token; unexpected end of file",
        patterns=(
            r": line \d+: syntax error near unexpected token (?!.\$'.*\\r)",
            r": line \d+: syntax error: unexpected end of file",
            r": line \d+: unexpected EOF while looking for matching",
        ),
        cause="the shell script has a mistake at or above that line: a quote, a bracket, `fi` or `done` is missing, or sh ran "
        "a script for bash",
        probe="bash -n SCRIPT",
        fix="correct the line, and start the script with bash",
        scope="shell",
        link="https://www.gnu.org/software/bash/manual/bash.html#Quoting",
    ),
    Entry(
        id="shell-empty-variable",
        kind="hint",
        title="train.sh: line 7: [: -lt: unary operator expected; integer expression expected",
        patterns=(
            r"\[: .*: (?:unary|binary) operator expected$",
            r"\[: .*: integer expression expected$",
            r": \d+: \[: .*unexpected operator$",
        ),
        cause="a test in the shell script failed: its variable is empty, holds another text than a number, or sh ran a script "
        "for bash. The script continues as if the test were false",
        probe="bash -x SCRIPT 2>&1 | grep -B2 -A1 operator",
        fix='quote the variable and give it a value: [ "${VARIABLE:-0}" -lt 2 ]',
        link="https://www.gnu.org/software/bash/manual/bash.html#Bash-Conditional-Expressions",
    ),
    Entry(
        id="typographic-characters",
        title="error: unrecognized arguments: —-config; $'\\302\\240--port': command not found",
        patterns=(
            r"error: unrecognized arguments: (?:.* )?(?P<text>[–—−]-?(?!local)\S+)",
            r"(?P<text>[“”]\S*): (?:command )?not found",
            r"(?P<text>\xa0\S+): (?:command )?not found",
            r"(?P<text>\$'[^']*\\(?:302\\240|342\\200\\\d+)[^']*'): command not found",
            r"can't open file '(?:/\S*/)?(?P<text>[\u2013\u2014][^']*)'",
        ),
        explains=("bad-arguments", "command-not-found"),
        cause='the command contains {text}: a dash, quotation mark or blank of a document or web page, in place of - or "',
        probe="grep -nP '[^\\x00-\\x7F]' SCRIPT",
        fix='type these characters again in the script: -, " and a plain blank',
        link="https://github.com/NLP-Playground/LaSS/issues/3",
    ),
    Entry(
        id="launcher-after-script",
        title="train.py: error: unrecognized arguments: -m torch.distributed.launch --nproc_per_node 2",
        patterns=(r"error: unrecognized arguments: .*(?P<module>torch\.distributed\.(?:launch|run)\b)",),
        explains=("bad-arguments",),
        cause="{module} is after the script's name, so the script got it as an argument",
        probe="the command: the launcher comes first",
        fix="torchrun --nproc-per-node=N train.py ARGUMENTS, or ddpkit launch -n N -- train.py ARGUMENTS",
        link="https://github.com/rosinality/ocr-pytorch/issues/1",
    ),
    Entry(
        id="launcher-without-script",
        title="launch.py: error: the following arguments are required: training_script; user_script",
        patterns=(r"error: the following arguments are required: (?P<what>training_script|user_script)\b",),
        explains=("bad-arguments",),
        cause="the launcher's command ended before the name of the script. A line ends in a backslash and a blank, or an "
        "exported variable with a line end cut DeepSpeed's command",
        probe="grep -nE '\\\\[[:space:]]+$' SCRIPT; cat .deepspeed_env ~/.deepspeed_env; env | grep -E '^(NCCL|PYTHON|MV2|UCX)'",
        fix="end each line of the command but its last with a backslash, and nothing after it. For DeepSpeed: unset the "
        "variable, or --launcher openmpi",
        link="https://github.com/hiyouga/LlamaFactory/issues/3301",
    ),
    Entry(
        id="assignment-as-command",
        title="nohup: failed to run command 'CUDA_VISIBLE_DEVICES=0'; CUDA_VISIBLE_DEVICES=0: command not found",
        patterns=(
            r"failed to run (?:the )?command ['‘](?P<variable>[A-Z][A-Z0-9_]*)=",
            r"can't open file '(?:\S*/)?(?P<variable>[A-Z][A-Z0-9_]*)=\S*': \[Errno 2\]",
            r"execv[ep]+\(\): (?P<variable>[A-Z][A-Z0-9_]*)=\S*: No such file or directory",
            r"(?:^|[: ])(?P<variable>[A-Z][A-Z0-9_]*)=\S*: (?:command )?not found",
        ),
        explains=("command-not-found", "script-missing", "task-launch-failed"),
        cause="{variable}=VALUE is at the place of a command or a script: after nohup, srun, mpirun or python, or it came "
        "out of another variable or quotes",
        probe="grep -n '{variable}=' SCRIPT",
        fix="put it before all other words (`{variable}=VALUE nohup python train.py`), or after env: `srun env {variable}=VALUE "
        "python train.py`",
        link="https://github.com/wizyoung/YOLOv3_TensorFlow/issues/131",
    ),
    Entry(
        id="line-continued-badly",
        title="train.sh: line 12: --master_port: command not found",
        patterns=(
            r"(?:^|[: ])(?P<option>--?[A-Za-z][\w-]*)(?:=\S*)?: (?:command )?not found",
            r"(?:^|[: ])(?P<option>\+*[a-z]\w*(?:\.\w+)+)=\S*: (?:command )?not found",
        ),
        explains=("command-not-found", "bad-arguments", "launcher-without-script"),
        cause="the shell took the option {option} for a command: the line above it does not end in a backslash, or a blank "
        "follows the backslash",
        probe="grep -nE '\\\\[[:space:]]+$' SCRIPT; grep -n -B1 -e {option} SCRIPT",
        fix="end each line of the command but its last with a backslash, and nothing after it. A comment or an empty line "
        "between them ends the command, too",
        scope="shell",
        link="https://github.com/OpenMOSS/MOSS/issues/147",
    ),
    Entry(
        id="module-missing",
        doubtful=True,
        title="ModuleNotFoundError: No module named ...",
        patterns=(
            r"(?<!Failed to initialize NumPy: )(?<!Error caught was: )No module named ['\"]?(?P<module>[\w.]+)['\"]?",
        ),  # warnings of torch and xformers
        cause="this Python cannot import {module}. The package is not installed there, its environment is not active, or "
        "it is the wrong Python",
        probe="on that node, the same way: python -c 'import sys; print(sys.executable, sys.path)'",
        fix="python -m pip install {module} (some packages have another name), or select the right Python with --python. "
        "For a package of your own project: start in the project's root, or export PYTHONPATH=$PWD",
        link="https://docs.python.org/3/library/exceptions.html#ModuleNotFoundError",
    ),
    Entry(
        id="versions-differ",
        title="Nodes differ in Python, torch, CUDA or driver",
        patterns=(
            r"Version mismatch: The cluster was started with",
            r"The [\w ]+ versions are inconsistent\. The local .*, while the remote",
        ),
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
            r"NCCL WARN.*shared memory.*No space left on device",
            r"Error while creating shared memory segment (?:/dev/shm/)?nccl-",
            r"NCCL INFO transport/shm\.cc:\d+ -> 2\s*$",
            r"Unexpected bus error encountered in worker",
            r"unable to write to file </torch_",
            r"No space left on device\W+joblib will operate in serial mode",
            r"(?:include/shm\.h|shmutils\.cc|/dev/shm).*No space left on device",
            r"No space left on device: b?['\"]?/dev/shm/",
            r"configured object store size \([\d.]+ GB\) exceeds /dev/shm size",
            r"there is not enough space for /dev/shm/\S+ \(the shared-memory backing",
        ),
        explains=("disk-full",),
        cause="/dev/shm is full or too small. DataLoader workers pass batches through it, NCCL keeps buffers there, Ray its "
        "objects, and Python's multiprocessing its locks and queues",
        probe="df -h /dev/shm",
        fix="use docker run --ipc=host (or --shm-size=16g). On Kubernetes, mount an emptyDir with `medium: Memory` at "
        "/dev/shm. Otherwise reduce num_workers",
        instead=(
            Instead(
                of=("disk-full", "quota"),
                near=r"/multiprocessing/(?:synchronize|queues|heap|shared_memory)\.py|/pandarallel/core\.py|\bSemLock\(|\bshm_open\(",
            ),
        ),
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
            r"(?<!, strerror: )Cannot allocate memory$",
            r"Cannot allocate memory \(os error 12\)",
            r"\[Errno 12\] Cannot allocate memory",
            r"\bmemory allocation of [\w ]*\d+ bytes failed",
            r"\bstd::bad_alloc\b(?!: (?:out_of_memory|CUDA))",
            r"ddpkit: rank (?P<rank>\d+) on (?P<host>\S+) failed first.*the kernel ended it: out of memory",
            r"\bOOMKilled\b",
            r"unable to mmap \d+ bytes from file <(?!/torch_)\S+>: Cannot allocate memory",
            r"The replica \S+(?: \d+)? ran out-of-memory and exited",
            r"Replicas low on memory: (?P<replica>[\w-]+)",
            r"OutOfMemoryError: Container killed due to memory usage",
            r"\binvoked oom-killer\b",
            r"error running hook #?\d*: error running hook: exit status 137",
        ),
        explains=("container-hook-failed", "container-start-failed"),
        cause="the host's memory (not the GPU's) is full. The kernel killed a process, or refused an allocation",
        probe="on that host: dmesg -T | grep -i 'killed process'; free -g",
        fix="use fewer DataLoader workers, load less data in each rank, or request more memory (SLURM: --mem; "
        "Kubernetes: requests.memory and limits.memory of the pod)",
        action="exclude",
        reason="the kernel's OOM killer ended a process of the host",
        request="DefaultCPUAllocator|MemoryError|Unable to allocate|Cannot allocate memory|bad_alloc|memory allocation of",
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
        patterns=(r"Caught \w+ in pin memory thread",),
        needs=r"out of memory|Cannot allocate memory",
        # Of `CUDA error: out of memory`, the frames of its traceback decide, too: see ddpkit.diagnosis.log_reader.
        explains=("cuda-out-of-memory",),
        cause="the host's memory could not be pinned for transfers to the GPU. The host's memory, or the limit for locked "
        "memory, is too small. Or this thread uses another rank's GPU, which is full",
        probe="free -g; ulimit -l",
        fix="DataLoader(..., pin_memory=False) or fewer workers. With offloading to the CPU, pin less: FSDP2 "
        "CPUOffloadPolicy(pin_memory=False), DeepSpeed pin_memory false. Call torch.cuda.set_device(LOCAL_RANK) first",
        instead=(Instead(of=("cuda-out-of-memory",), frames=r"in _?pin_memory\w*$"),),
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
    Entry(
        id="task-blocked",
        title="INFO: task python:4711 blocked for more than 120 seconds",
        kind="hint",
        patterns=(
            r"INFO: task (?P<task>\S+):(?P<pid>\d+) blocked for more than \d+ seconds",
            r"soft lockup - CPU#\d+ stuck for \d+s! \[(?P<task>[^\]]+):(?P<pid>\d+)\]",
        ),
        explains=("collective-timeout", "watchdog-stuck", "gloo-timeout", "store-wait"),
        cause="process {pid} ({task}) hangs in the kernel of this node, in a call to a disk, a file server or a driver. It "
        "cannot be killed until the call returns",
        probe="on that node: the `Call Trace` below this line in dmesg; cat /proc/{pid}/stack, as root",
        fix="repair what the trace shows: nfs, lustre or ceph, a disk, or nvidia and amdgpu (reboot the node). Until then, "
        "exclude the node",
        link="https://github.com/rwth-i6/returnn/issues/1480",
    ),
    Entry(
        id="file-server-silent",
        kind="hint",
        title="nfs: server filer1 not responding, still trying; Lustre: Connection to scratch-OST0003 was lost",
        patterns=(
            r"\bnfs: server (?P<server>\S+) not responding",
            r"\bLustre: .*Connection to (?P<server>\S+) \(at \S+\) was lost; in progress operations",
            r"\bLustre(?:Error)?: .*This client was evicted by (?P<server>[^\s;]+)",
        ),
        explains=("task-blocked",),
        cause="the file server {server} did not answer this node. Processes that read or write there hang until it does. `OK` or `restored` "
        "in a later line means that it came back",
        probe="on that node: dmesg -T | grep -iE 'nfs|lustre'; mount | grep -E 'nfs|lustre'; nfsstat -rc, or lfs check servers",
        fix="keep datasets, environments and caches on a local disk, so that fewer ranks read from that server. Otherwise ask its "
        "administrators, or exclude the node",
        link="https://man7.org/linux/man-pages/man5/nfs.5.html",
    ),
    Entry(
        id="disk-errors",
        kind="hint",
        title="blk_update_request: I/O error, dev nvme0n1; EXT4-fs error; nvme nvme0: controller is down",
        patterns=(
            r"\bI/O error, dev (?P<device>nvme\w+|sd[a-z]+|dm-\d+|md\d+|vd[a-z]+), sector",
            r"\bBuffer I/O error on dev(?:ice)? (?P<device>nvme\w+|sd[a-z]+\d*|dm-\d+|md\d+|vd[a-z]+\d*),",
            r"\bEXT4-fs error \(device (?P<device>[\w-]+)\)",
            r"\bXFS \((?P<device>[\w-]+)\): .*(?:I/O error|[Ss]hutting down filesystem|Corruption)",
            r"\bnvme (?P<device>nvme\d+): (?:controller is down|Device not ready|Removing after probe failure)",
        ),
        explains=("task-blocked", "read-only-fs", "io-error"),
        cause="the kernel reported errors of the disk {device} of this node: it is defective or lost, or its cloud volume was detached. The "
        "file system may turn read-only, and files on it may be damaged",
        probe="on that node: dmesg -T | grep -iE 'i/o error|ext4|xfs|nvme'; sudo smartctl -a /dev/{device}; mount | grep {device}",
        fix="exclude the node, and report the disk to the administrators. Copy from another node what was read or written there",
        link="https://docs.kernel.org/filesystems/ext4/index.html",
    ),
    Entry(
        id="node-memory-errors",
        kind="hint",
        title="EDAC MC3: 1 UE memory read error; Kernel panic - not syncing",
        patterns=(
            r"\bEDAC MC\d+: \d+ (?P<reason>UE\b.* error on \S+)",
            r"\[Hardware Error\]: event severity: (?P<reason>fatal|recoverable)",
            r"\bKernel panic - not syncing: (?P<reason>.*)",
            r"\*\*\* \w+ \S+ ON (?P<host>\S+) (?P<reason>UNCORRECTABLE MEMORY) ERROR AT",
        ),
        explains=("node-lost", "slurm-node-failure"),
        cause="the kernel of this node reported a fault that it cannot correct: {reason}. Memory or the CPU is defective, or a driver failed. "
        "Processes die, or the node restarts",
        probe="on that node: sudo ras-mc-ctl --errors; sudo ipmitool sel list | tail; journalctl -k -b -1 | tail -50",
        fix="exclude the node, and report these lines to the administrators",
        link="https://docs.kernel.org/admin-guide/RAS/main.html",
    ),
    Entry(
        id="numactl-range",
        title="libnuma: Warning: cpu argument 8-15,40-47 is out of range; <8-15,40-47> is invalid",
        patterns=(
            r"libnuma: (?:Warning: )?(?P<unit>cpu|node) argument (?P<list>\S+) (?:is )?out of range",
            r"numa_sched_setaffinity\w*\(\) failed: Invalid argument",
        ),
        cause="numactl must bind this rank to {unit|cpu} {list|numbers} that the process may not use. SLURM, a container or "
        "isolcpus gives it fewer cores, or the numbers belong to another kind of machine",
        probe="where the rank starts: numactl -H; taskset -cp $$; cat /sys/devices/system/node/possible",
        fix="give the job all cores (sbatch --exclusive; srun --cpu-bind=none --cpus-per-task=N), take the numbers from "
        "numactl -H on that node, or start without numactl",
        link="https://man7.org/linux/man-pages/man8/numactl.8.html",
    ),
    Entry(
        id="openmp-affinity",
        title="OMP: Error #13: Assertion failure at kmp_affinity.cpp; OMP: Error #100: Fatal system error detected",
        patterns=(
            r"OMP: Error #\d+: Assertion failure at kmp_affinity",
            r"OMP: Error #\d+: Fatal system error detected",
        ),
        explains=("aborted",),
        cause="the OpenMP library of Intel or LLVM could not bind its threads to cores. A container or the job gives this rank other "
        "cores than the library expects",
        probe="where the rank starts: taskset -cp $$; env | grep -E 'KMP_|OMP_'; nproc",
        fix="export KMP_AFFINITY=disabled for all ranks, and unset OMP_PROC_BIND OMP_PLACES. Or give the container whole cores",
        link="https://github.com/declare-lab/flan-alpaca/issues/16",
    ),
)
