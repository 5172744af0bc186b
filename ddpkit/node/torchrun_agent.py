"""torchrun as the task of a SLURM step: passes USR1 and USR2 on to its ranks, and ends soon after SIGTERM.

An agent whose ranks have ended waits for the other agents inside C++, where Python handles no signal. SLURM would
kill it only after KillWait, 30 seconds by default. A thread ends it. The directory for logs that torchrun needs on each
node, in which nothing is written, is a private one as a supervisor has it: what a killed agent left is swept.

SLURM gives a signal to the task alone where it tracks processes with cgroups, and to every process below it where it
does not. The tap of each rank knows which it was, and passes on what the rank did not get by itself.

A tap that was killed reports nothing, and the kernel ends its rank: this program reports it, before torchrun ends the
other ranks.

Usage: torchrun_agent.py ARGUMENTS, those of torchrun. The shell before must ignore both signals until this program is
ready.
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ddpkit.node import scratch_dir
else:  # it lies beside this file, with what it imports
    for _name in ("ddpkit", "ddpkit.node"):
        sys.modules[_name] = type(sys)(_name)
    sys.modules["ddpkit.node"].__path__ = [os.path.dirname(os.path.abspath(__file__))]
    from ddpkit.node import scratch_dir

    del sys.modules["ddpkit.node"], sys.modules["ddpkit"]

# Signals that end torchrun, and seconds without a rank after which they end it for certain.
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
ALONE = 0.3
SLURM_FIRST = 0.05  # seconds

killpg = os.killpg
ended: dict[int, float] = {}  # signal: time.monotonic() of the first rank that gets it


class Tap(subprocess.Popen):  # type: ignore[type-arg]
    """In place of `subprocess.Popen`, with which torchrun starts ranks, and whose `poll` shows it that one ended."""

    def __init__(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.rank = (kwargs.get("env") or {}).get("RANK", "")
        super().__init__(*args, **kwargs)

    def poll(self) -> int | None:
        ended_before = self.returncode is not None
        code = super().poll()
        # After the end of a rank by SIGKILL its tap ends so as well, and has reported it.
        if code == -signal.SIGKILL and self.rank and not ended_before:
            host = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
            os.write(2, f"ddpkit: rank {self.rank} on {host} lost its helper\n".encode())
        return code


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
    time.sleep(SLURM_FIRST)
    for pid in children():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def end_rank(group: int, number: int) -> None:
    """Signal the group of a rank's wrapper a moment later, as in `pass_on`, and only the first one waits."""
    first = ended.setdefault(number, time.monotonic())
    time.sleep(max(0.0, first + SLURM_FIRST - time.monotonic()))
    killpg(group, number)


def leave(number: int, _: FrameType | None) -> None:
    """End by a signal that came before torchrun handles it: while torch is imported, and until all agents have met."""
    scratch_dir.remove(logs)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def end_alone(signals: int, logs: str) -> None:
    """End this process once it got a signal of ENDING and has had no rank for ALONE seconds.

    signals: a descriptor that yields a byte, the signal's number, for each signal (`signal.set_wakeup_fd`).
    """
    scratch_dir.sweep()  # here, where nothing waits for it
    number = 0
    while number not in ENDING:
        number = os.read(signals, 1)[0]
    since = time.monotonic()
    while time.monotonic() - since < ALONE:
        time.sleep(ALONE / 10)
        if children():
            since = time.monotonic()
    scratch_dir.remove(logs)
    os._exit(128 + number)


if __name__ == "__main__":
    gc.set_threshold(20_000)  # as in `rank_hook.py`
    for each in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, pass_on)
    os.killpg = end_rank  # torchrun ends its ranks with it
    subprocess.Popen = Tap  # type: ignore[misc]
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # this file's folder: nothing of a run is to be imported
    logs = f"{tempfile.gettempdir()}/{os.path.basename(scratch_dir.FOLDER)}"
    for each in ENDING:
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, leave)
    own = "PET_LOG_DIR" not in os.environ
    if own:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # half made, it would not be known for ours
        scratch_dir.make_folder(logs)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    sys.argv[1:1] = ["--log_dir=" + logs] if own else []
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=end_alone, args=(reader, logs), daemon=True).start()
    try:
        runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
    except Exception as error:
        # `rank_wrapper.py` has reported the end of each rank: the traceback and the table of torchrun repeat it.
        if type(error).__name__ == "SignalException":
            sys.exit(128 + error.sigval)  # type: ignore[attr-defined]
        if type(error).__name__ != "ChildFailedError":
            raise
        sys.exit(1)
    finally:
        scratch_dir.remove(logs)
        gc.freeze()  # the last collections, for which all nodes would wait, take half a second with torch
