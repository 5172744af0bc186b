"""Deaths by a signal, and exit codes that mean something: what they nearly always are for a training process."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.endings import CODES, LOOK, SIGNALS, TEARDOWN
from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="teardown-abort",
        title="rank N failed first: killed by signal 6 (SIGABRT), terminate called without an active exception",
        kind="death",
        patterns=(r"terminate called without an active exception",),
        cause="a thread of gloo was still running while Python was taken down: a race in torch's own teardown (seen with torch 2.13), after the script had ended",
        probe="the script's last lines: did it finish?",
        fix="at the end of the script: dist.destroy_process_group(), flush the output, and leave through os._exit(code), as the last lines of train.py do",
        link="https://docs.pytorch.org/docs/stable/distributed.html#shutdown",
        examples=(("terminate called without an active exception", "torch 2.13, documented"),),
    ),
    Entry(
        id="killed",
        title="rank N failed first: killed by signal 9 (SIGKILL); exit code -9, 137",
        kind="death",
        patterns=(
            r"exits with return code = -9\b",
            r"failed \(exitcode: -9\) local_rank: (?P<local>\d+)",
            r"terminated with signal SIGKILL",
            r"died with <Signals\.SIGKILL: 9>",
            r"is killed by signal: Killed",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Killed",
            r"\d Killed +\S",
            r"\bKilled$",
            r"Signal 9 \(SIGKILL\) received by PID \d+",
        ),
        cause="usually the kernel's out-of-memory killer, or an administrator",
        probe="on {host}: dmesg -T | grep -i 'killed process'",
        fix="fewer DataLoader workers, a smaller batch, or more memory (SLURM: --mem)",
        link="https://www.kernel.org/doc/html/latest/admin-guide/mm/concepts.html",
        examples=(
            (
                "[2024-01-05 10:11:12,123] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py'] exits with return code = -9",
                "https://github.com/Tencent/TencentPretrain/issues/28",
            ),
            (
                "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL",
                "torch 2.13, source",
            ),
            (
                "subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.",
                "Python 3.11, run",
            ),
            ("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.", "torch 2.13, run"),
            ("srun: error: node1: task 0: Killed", "Slurm 22.05, run"),
            ("Killed", "bash 5.2, documented"),
            ("run.sh: line 3:  4711 Killed                  python train.py", "bash 5.2, run"),
            ("    traceback : Signal 9 (SIGKILL) received by PID 4711", "torch 2.13, run"),
            (
                "E0325 20:57:27.620000 2606 "
                "site-packages/torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) "
                "local_rank: 5 (pid: 2630) of binary: /root/miniconda3/bin/python",
                "https://github.com/lmzpai/roboMamba/issues/10",
            ),
        ),
    ),
    Entry(
        id="bus-error",
        title="rank N failed first: killed by signal 7 (SIGBUS)",
        kind="death",
        patterns=(
            r"exits with return code = -7\b",
            r"failed \(exitcode: -7\) local_rank: (?P<local>\d+)",
            r"terminated with signal SIGBUS",
            r"died with <Signals\.SIGBUS: 7>",
            r"Bus error \(core dumped\)",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Bus error",
            r"Signal 7 \(SIGBUS\) received by PID \d+",
        ),
        cause="usually /dev/shm is full: DataLoader workers pass batches through it",
        probe="on {host}: df -h /dev/shm",
        fix="in a container: --ipc=host or --shm-size=16g; else fewer DataLoader workers",
        link="https://github.com/pytorch/pytorch/issues/5040",
        examples=(
            ("Bus error (core dumped)", "bash 5.2, documented"),
            ("srun: error: node1: task 0: Bus error", "Slurm 22.05, run"),
            ("    traceback : Signal 7 (SIGBUS) received by PID 4711", "torch 2.13, documented"),
            (
                "[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -7",
                "DeepSpeed 0.19, source",
            ),
            (
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -7) local_rank: 0 "
                "(pid: 340) of binary: /root/miniconda3/envs/llama/bin/python",
                "https://github.com/hiyouga/LlamaFactory/issues/322",
            ),
            (
                "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGBUS",
                "torch 2.13, run",
            ),
            (
                "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGBUS: 7>.",
                "Python 3.11, run",
            ),
        ),
    ),
    Entry(
        id="segfault",
        title="rank N failed first: killed by signal 11 (SIGSEGV); Segmentation fault (core dumped)",
        kind="death",
        patterns=(
            r"exits with return code = -11\b",
            r"failed \(exitcode: -11\) local_rank: (?P<local>\d+)",
            r"Segmentation fault \(core dumped\)",
            r"Fatal Python error: Segmentation fault",
            r"terminated with signal SIGSEGV",
            r"died with <Signals\.SIGSEGV: 11>",
            r"is killed by signal: Segmentation fault",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Segmentation fault",
            r"Signal 11 \(SIGSEGV\) received by PID \d+",
            r"Caught signal 11 \(Segmentation fault",
        ),
        cause="a crash in compiled code: often libraries that do not fit together, or a stack that is too small",
        probe="python -X faulthandler train.py, which shows where Python was",
        fix="leave out the package in whose code it ended, or install a build for this torch; ulimit -s unlimited",
        link="https://docs.python.org/3/library/faulthandler.html",
        examples=(
            ("Segmentation fault (core dumped)", "bash 5.2, documented"),
            ("Fatal Python error: Segmentation fault", "Python 3.11, run"),
            ("srun: error: node2: tasks 0-3: Segmentation fault (core dumped)", "Slurm 22.05, documented"),
            (
                "[node1:12345:0:12345] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)",
                "UCX, documented",
            ),
            (
                "[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -11",
                "DeepSpeed 0.19, source",
            ),
            (
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) local_rank: 1 (pid: 4711) of binary: python",
                "torch 2.13, source",
            ),
            (
                "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGSEGV",
                "torch 2.13, source",
            ),
            (
                "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGSEGV: 11>.",
                "Python 3.11, run",
            ),
            ("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Segmentation fault. ", "torch 2.13, run"),
            ("    traceback : Signal 11 (SIGSEGV) received by PID 4711", "torch 2.13, source"),
        ),
    ),
    Entry(
        id="aborted",
        title="rank N failed first: killed by signal 6 (SIGABRT); Aborted (core dumped)",
        kind="consequence",
        patterns=(
            r"exits with return code = -6\b",
            r"failed \(exitcode: -6\) local_rank: (?P<local>\d+)",
            r"Aborted \(core dumped\)",
            r"Fatal Python error: Aborted",
            r"terminated with signal SIGABRT",
            r"died with <Signals\.SIGABRT: 6>",
            r"is killed by signal: Aborted",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Aborted",
            r"Signal 6 \(SIGABRT\) received by PID \d+",
            r"terminate called after throwing an instance of",
        ),
        cause="a compiled library gave up: an assertion, or NCCL's watchdog after a collective timed out; its own words stand above",
        probe="read the lines before it; with NCCL those of another rank, the one that did not come",
        fix="ddpkit explain LOG, with the logs of all ranks",
        link="https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html",
        examples=(
            ("Aborted (core dumped)", "bash 5.2, documented"),
            (
                "terminate called after throwing an instance of 'c10::DistBackendError'",
                "https://github.com/sgl-project/sglang/issues/1693",
            ),
            ("    traceback : Signal 6 (SIGABRT) received by PID 4711", "torch 2.13, run"),
            (
                "[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -6",
                "DeepSpeed 0.19, source",
            ),
            (
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -6) local_rank: 0 "
                "(pid: 514946) of binary:",
                "https://github.com/hpcaitech/ColossalAI/issues/3556",
            ),
            ("Fatal Python error: Aborted", "Python 3.11, run"),
            (
                "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGABRT",
                "torch 2.13, source",
            ),
            (
                "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGABRT: 6>.",
                "Python 3.11, run",
            ),
            ("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Aborted. ", "torch 2.13, source"),
            ("srun: error: node1: task 0: Aborted", "Slurm 22.05, run"),
        ),
    ),
    Entry(
        id="illegal-instruction",
        title="rank N failed first: killed by signal 4 (SIGILL); Illegal instruction",
        kind="death",
        patterns=(
            r"exits with return code = -4\b",
            r"failed \(exitcode: -4\) local_rank: (?P<local>\d+)",
            r"Illegal instruction \(core dumped\)",
            r"died with <Signals\.SIGILL: 4>",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Illegal instruction",
            r"Signal 4 \(SIGILL\) received by PID \d+",
        ),
        cause="compiled for another processor than the one on this host",
        probe="on {host}: lscpu",
        fix="install the package's ordinary wheel there, or build it on that host",
        link="https://man7.org/linux/man-pages/man7/signal.7.html",
        examples=(
            ("Illegal instruction (core dumped)", "bash 5.2, documented"),
            (
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -4) local_rank: 0 (pid: 4711) of binary: /usr/bin/python3",
                "torch 2.2, documented",
            ),
            (
                "[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -4",
                "DeepSpeed 0.19, source",
            ),
            (
                "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGILL: 4>.",
                "Python 3.11, run",
            ),
            ("srun: error: node1: task 0: Illegal instruction", "Slurm 22.05, run"),
            ("    traceback : Signal 4 (SIGILL) received by PID 4711", "torch 2.13, source"),
        ),
    ),
    Entry(
        id="floating-point-exception",
        title="rank N failed first: killed by signal 8 (SIGFPE); Floating point exception",
        kind="death",
        patterns=(
            r"exits with return code = -8\b",
            r"failed \(exitcode: -8\) local_rank: (?P<local>\d+)",
            r"Floating point exception \(core dumped\)",
            r"Signal 8 \(SIGFPE\) received by PID \d+",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Floating point exception",
        ),
        cause="a whole number was divided by zero in compiled code: with cuBLAS of CUDA 12 in bf16 a library of another version is the usual reason",
        probe="pip list | grep -iE 'nvidia-cublas|torch'; echo $LD_LIBRARY_PATH",
        fix="unset LD_LIBRARY_PATH; install torch anew, so that its own nvidia-cublas is loaded",
        link="https://github.com/haotian-liu/LLaVA/issues/654",
        examples=(
            (
                "[2023-10-24 10:00:00,000] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py'] exits with return code = -8",
                "https://github.com/haotian-liu/LLaVA/issues/654",
            ),
            ("Floating point exception (core dumped)", "bash 5.2, documented"),
            (
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -8) local_rank: 1 (pid: 4711) of binary: python",
                "torch 2.13, source",
            ),
            ("    traceback : Signal 8 (SIGFPE) received by PID 4711", "torch 2.13, source"),
            ("srun: error: node1: task 0: Floating point exception", "Slurm 22.05, run"),
        ),
    ),
    Entry(
        id="terminated",
        title="rank N failed first: killed by signal 15 (SIGTERM); exit code -15, 143",
        kind="consequence",
        patterns=(
            r"exits with return code = -15\b",
            r"failed \(exitcode: -15\) local_rank: (?P<local>\d+)",
            r"SignalException: Process \d+ got signal: 15\b",
            r"Sending process \d+ closing signal SIG(?:TERM|INT)",
            r"terminated with signal SIGTERM",
            r"died with <Signals\.SIGTERM: 15>",
            r"is killed by signal: Terminated",
            r"Signal 15 \(SIGTERM\) received by PID \d+",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Terminated",
            r"Killing subprocess \d+$",
        ),
        cause="somebody asked it to end: a launcher because another rank failed, a scheduler, a time limit, or a person",
        probe="read the lines before it, and those of the other ranks",
        fix="look for what failed first; under SLURM: sacct -j JOB -o state,exitcode",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
        examples=(
            (
                "W1120 17:02:51.123 4711 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4712 closing signal SIGTERM",
                "torch 2.6, run",
            ),
            (
                "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15",
                "torch 2.13, run",
            ),
            ("    traceback : Signal 15 (SIGTERM) received by PID 4711", "torch 2.13, run"),
            (
                "[2024-01-05 10:11:12,123] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4711",
                "https://github.com/haotian-liu/LLaVA/issues/1788",
            ),
            (
                "[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -15",
                "DeepSpeed 0.19, source",
            ),
            (
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -15) local_rank: 1 (pid: 4711) of binary: python",
                "torch 2.13, source",
            ),
            (
                "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGTERM",
                "torch 2.13, source",
            ),
            (
                "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGTERM: 15>.",
                "Python 3.11, run",
            ),
            ("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Terminated. ", "torch 2.13, source"),
            ("srun: error: node1: task 0: Terminated", "Slurm 22.05, run"),
        ),
    ),
    Entry(
        id="interrupted",
        title="KeyboardInterrupt, signal 2 (SIGINT)",
        kind="consequence",
        patterns=(
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Interrupt",
            r"\bKeyboardInterrupt$",
            r"SignalException: Process \d+ got signal: 2\b",
            r"srun: interrupt \(one more within 1 sec to abort\)",
        ),
        cause="somebody pressed Ctrl-C",
        probe="nothing to look at",
        fix="start it again; ddpkit launch --detach is safe from the keyboard",
        link="https://docs.python.org/3/library/exceptions.html#KeyboardInterrupt",
        examples=(
            ("KeyboardInterrupt", "Python 3.11, run"),
            ("srun: interrupt (one more within 1 sec to abort)", "Slurm 22.05, run"),
            (
                "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 2",
                "torch 2.13, source",
            ),
            (
                "srun: error: node1: task 0: Interrupt",
                "Slurm 22.05, run",
            ),
        ),
    ),
    Entry(
        id="bad-arguments",
        title="exit code 2: error: unrecognized arguments",
        patterns=(
            r"error: unrecognized arguments: (?P<arguments>.*)",
            r"error: the following arguments are required: (?P<arguments>.*)",
            r"error: argument (?P<arguments>\S+): (?:expected|invalid)",
        ),
        cause="the script does not take these arguments: {arguments}. `--local-rank` or `--local_rank` among them comes from torch.distributed.launch",
        probe="python train.py --help",
        fix="correct the arguments; for --local-rank: start with torchrun or ddpkit launch, and read LOCAL_RANK from the environment",
        link="https://docs.pytorch.org/docs/stable/elastic/train_script.html",
        examples=(
            ("train.py: error: unrecognized arguments: --local-rank=0", "Python 3.11, run"),
            ("train.py: error: the following arguments are required: --data", "Python 3.11, run"),
            ("train.py: error: argument --lr: invalid float value: 'x'", "Python 3.11, run"),
        ),
    ),
    Entry(
        id="asked-again",
        title="exit code 75: saved a checkpoint, asks to be started again",
        kind="death",
        cause="by convention: it saved a checkpoint and asks to be started again",
        probe="the script's last lines",
        fix="start it again; train.py resumes by itself",
        link="https://man.openbsd.org/sysexits",
    ),
    Entry(
        id="not-executable",
        doubtful=True,
        title="exit code 126: Permission denied, cannot execute",
        patterns=(
            r"(?:^|[ :])(?P<path>\./\S+|/\S+): Permission denied$",
            r"cannot execute binary file: Exec format error",
            r"\[Errno 8\] Exec format error",
        ),
        cause="the program was found, but may not be executed here: no x bit, a file system mounted noexec, or built for another processor",
        probe="ls -l {path}; file {path}; uname -m",
        fix="chmod +x {path}, or start it through its interpreter: python {path}",
        link="https://www.gnu.org/software/bash/manual/bash.html#Exit-Status",
        examples=(
            ("bash: ./train.sh: Permission denied", "bash 5.2, documented"),
            ("bash: ./prog: cannot execute binary file: Exec format error", "bash 5.2, documented"),
            ("OSError: [Errno 8] Exec format error: './train.sh'", "Python 3.11, run"),
        ),
    ),
)

__all__ = ["CODES", "ENTRIES", "LOOK", "SIGNALS", "TEARDOWN"]
