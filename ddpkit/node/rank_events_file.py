"""Tells what `rank_events.py` knows through the run's folder, where no supervisor stands beside a rank: under SLURM.

`rank_observe.py` runs this where `marks` is a directory. A file system that all nodes share may be slow, full or dead,
and a rank must not notice: a thread writes, small pieces and fewer and fewer of them, and what cannot be written is
lost. Until the first step that thread lives for one write only, and not before torch is imported: to fork beside a
thread is a risk (Python 3.12 warns of it). From then on torch has threads of its own, and it stays.

`marks/RANK` in the run's folder holds the lines of `rank_events.py`; records of steps that follow each other become one
as the run gets longer. Its times are the node's. In front of each attempt stands

    start RANK HOST TIME
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import atexit
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PARTS = 128  # a record of steps lasts for one such part of the time since the first step
SELDOM = 60.0  # seconds between two writes at most; at first a quarter of the time since the first step
LAST_WORDS = 0.3  # seconds at the end for what was not yet written
# A pipe or a link that lies there is not opened.
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def start(folder: str, rank: str, began: int = 0) -> Callable[..., None]:
    """What tells, for this process.

    began: the process with which this one's Python began: itself, or the one from which it was forked.
    """
    return Shared(folder, rank, began or os.getpid()).tell


class Shared:
    """Events of one rank, until they are written."""

    def __init__(self, folder: str, rank: str, began: int) -> None:
        self.rank, self.pid = rank, os.getpid()
        task = os.environ.get("SLURM_ARRAY_TASK_ID")
        self.path = "%s/%s" % (folder, rank if task is None else "%s_%s" % (task, rank))
        host = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
        self.lines = ["start %s %s %.6f\n" % (rank, host, _began(began))]
        self.steps: list[float] = []  # the record that is not a line yet
        self.first = self.due = 0.0  # time.monotonic(): of the first step, of the next write
        self.busy = _thread.allocate_lock()  # held by the thread that writes
        self.since = 0.0  # time.monotonic() at which it was taken
        self.wake: Any = None  # lets the thread that stays go on
        atexit.register(self.end)

    def tell(self, kind: str, *words: Any) -> None:
        if os.getpid() != self.pid:
            return
        if kind == "end":
            self.end()
            return
        now = time.monotonic()
        if kind == "steps":
            self.add([float(word) for word in words[1:]], now)
            if now < self.due:
                return
        else:
            self.lines.append(" ".join(map(str, (kind, *words))) + "\n")
            if words[1] == "python":
                return  # there is no thread before torch is imported
            if words[1] == "step":
                self.first = now
                self.stay()
        self.due = now + min(SELDOM, (now - self.first) / 4 if self.first else 0.0)
        self.flush(now)

    def add(self, record: list[float], now: float) -> None:
        """One more record: it becomes a line when it is long enough."""
        held = self.steps
        if held:
            counts, most = (0, 1, 3, 4), (2, 5)
            record = [held[n] + record[n] if n in counts else max(held[n], record[n]) for n in sorted(counts + most)]
        self.steps = record
        if record[1] >= (now - self.first) / PARTS:
            self.close()

    def close(self) -> None:
        if self.steps:
            self.lines.append("steps %s %s\n" % (self.rank, " ".join("%.6g" % value for value in self.steps)))
            self.steps = []

    def flush(self, now: float) -> None:
        """Give the events to a thread, unless one is still writing: then it comes with the next."""
        if not self.lines or not self.busy.acquire(False):
            return
        self.since = now
        if self.wake is not None:
            self.wake.release()
            return
        try:
            _thread.start_new_thread(self.write, ())
        except RuntimeError:  # no more threads; Python 3.12 has none at its end
            self.busy.release()

    def stay(self) -> None:
        """Start the thread that is there until the end, which Python 3.12 does not let begin one."""
        wake = _thread.allocate_lock()
        wake.acquire()
        try:
            _thread.start_new_thread(self.stays, (wake,))
        except RuntimeError:
            return
        self.wake = wake

    def stays(self, wake: Any) -> None:
        while True:
            wake.acquire()
            self.write()

    def write(self) -> None:
        """In a thread: it may take for ever. What a signal wants is not this thread's."""
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        while True:
            text = ""
            while self.lines:
                text += self.lines.pop(0)  # the rank may be adding to them
            try:
                file = os.open(self.path, _APPEND, 0o644)
                try:
                    os.write(file, text.encode())
                finally:
                    os.close(file)  # NFS shows it to others from here on
            except OSError:
                pass
            finally:
                self.busy.release()
            if not (self.lines and self.busy.acquire(False)):
                return

    def end(self) -> None:
        """The end of Python: what is left is written, if the file system is not slow."""
        if os.getpid() == self.pid and self.since:
            now = time.monotonic()
            if self.busy.acquire(True, max(0.0, self.since + LAST_WORDS - now)):
                self.busy.release()
                self.close()
                self.flush(now)
                self.busy.acquire(True, LAST_WORDS)


def _began(pid: int) -> float:
    """When a process was started, in seconds since the epoch."""
    now = time.time()
    if sys.platform != "linux":
        return now
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return now
    return now - age if 0 <= age < 3600 else now
