"""torchrun as the task of a SLURM step: passes USR1 and USR2 on to its ranks, instead of dying of them.

It also takes away the folder for logs that torchrun makes on each node, does not write to here, and would leave.

SLURM gives a signal to the task alone where it tracks processes with cgroups, and to every process below it where it
does not. The tap of each rank knows which it was, and passes on what the rank did not get by itself.

Usage: torchrun_agent.py ARGUMENTS, those of torchrun. The shell before must ignore both signals until this program is
ready.
"""

from __future__ import annotations

import atexit
import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
from types import FrameType


def children() -> list[int]:
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = file.read().rpartition(b")")[2].split()[1]
            except OSError:
                continue  # it is gone
            if int(parent) == os.getpid():
                pids.append(int(name))
    return pids


def pass_on(number: int, _: FrameType | None) -> None:
    # What SLURM gives to all of them itself comes first: two that wait are one, and its sender is the first one's.
    time.sleep(0.05)
    for pid in children():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    for each in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, pass_on)
    del sys.path[0]  # this file's folder: nothing of a run is to be imported
    if "PET_LOG_DIR" not in os.environ:
        logs = tempfile.mkdtemp(prefix="ddpkit-torchrun-")
        atexit.register(shutil.rmtree, logs, ignore_errors=True)
        sys.argv.insert(1, "--log_dir=" + logs)
    runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
