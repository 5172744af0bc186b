"""Injects one fault into a rank, on its node: `ddpkit drill` runs this text with the rank's process and a fault.

    kill, stop   a signal, when a line comes on standard input
    slow         from then on the rank stands still for this share of the time, until the input ends
    node         all of the run on this node is killed, as by the loss of the node
    disk         from then on no file of the rank can grow beyond so many bytes, as on a full disk
    save-kill    from then on the rank runs in short slices; it is killed at the first change in its checkpoints, and
                 cannot write more than so many bytes of a file: a save may be shorter than a slice

It prints `armed` when it is ready, and `done` with what it saw. A rank that has ended gets nothing: no `done` either.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

SLICE = 0.0005  # seconds that a rank runs between two looks at its checkpoints
BEAT = 1.0  # seconds in which a slow rank stands still once: longer than what a GPU has in its queue


def main(pid: str, fault: str, value: str) -> None:
    """Wait for a line, and inject the fault.

    `value`: bytes of `disk`, BYTES:DIRECTORY of `save-kill`, the share of the time of `slow`.
    """
    rank = Rank(int(pid))
    for number in (signal.SIGHUP, signal.SIGTERM):  # whoever asked is gone: no rank stays stopped
        signal.signal(number, lambda *_: sys.exit(1))
    sys.stdout.write("armed\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        return  # whoever asked is gone
    seen = inject(rank, fault, value)
    if seen is not None:
        sys.stdout.write("done %s\n" % seen)
        sys.stdout.flush()
        if fault == "slow":
            slow_down(rank, float(value))


def inject(rank: Rank, fault: str, value: str) -> str | None:
    """Inject a fault. Returns what was seen; None: it was not injected."""
    done = False
    if fault == "save-kill":
        size, _, folder = value.partition(":")
        return kill_in_save(rank, int(size), folder)
    if fault == "disk":
        done = rank.limit_files(int(value)) is not None
    elif fault == "slow":
        done = rank.send(0)
    elif fault == "node":
        done = rank.lose_node()
    elif fault in ("kill", "stop"):
        done = rank.send(signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
    return "" if done else None


class Rank:
    """The process of a rank. Another process that gets its number later is not touched."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._started = self._start()

    def send(self, number: int) -> bool:
        """Send a signal. False: the rank has ended."""
        try:
            if not self._lives():
                return False
            os.kill(self.pid, number)
        except OSError:
            return False
        return True

    def limit_files(self, size: int) -> int | None:
        """Let none of its files grow beyond so many bytes. Returns the limit before.

        None: the rank has ended, or this system cannot.
        """
        if sys.platform != "linux":
            return None
        try:
            if not self._lives():
                return None
            before, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, hard))
        except (OSError, ValueError):
            return None
        return before

    def lose_node(self) -> bool:
        """Kill the supervisor of the rank, its guard, and all below them. False: the rank has no supervisor here."""
        guard = self._guard() if self._lives() else None
        if guard is None:
            return False
        for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped, none of them notices the end of another
            for pid in [guard, *below(guard)]:
                try:
                    os.kill(pid, number)
                except OSError:
                    continue
        return True

    def _guard(self) -> int | None:
        """The guard is the parent of the supervisor, and a process with the same command line and user."""
        pid = parent_of(self.pid)
        while pid > 1 and is_own(pid):
            above = parent_of(pid)
            if above > 1 and b"-c" in command_of(pid) and command_of(pid) == command_of(above):
                return above
            pid = above
        return None

    def _lives(self) -> bool:
        return bool(self._started) and self._start() == self._started

    def _start(self) -> bytes:
        try:
            with open("/proc/%d/stat" % self.pid, "rb") as file:
                return file.read(4096).rpartition(b")")[2].split()[19]
        except (OSError, IndexError):
            return b""


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0: it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return int(file.read(4096).rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def is_own(pid: int) -> bool:
    try:
        return os.stat("/proc/%d" % pid).st_uid == os.geteuid()
    except OSError:
        return False


def command_of(pid: int) -> list[bytes]:
    """Return the command line of a process; empty: it is gone."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read(1 << 16).split(b"\0")
    except OSError:
        return []


def below(pid: int) -> list[int]:
    """Return all processes below one, those that were started first before the others."""
    parents = {int(name): parent_of(int(name)) for name in os.listdir("/proc") if name.isdecimal()}
    found, level = [], [pid]
    while level:
        level = sorted(each for each, parent in parents.items() if parent in level)
        found += level
    return found


def slow_down(rank: Rank, share: float) -> None:
    """Let a rank stand still for a share of the time, until it ends, or whoever asked closes the input."""
    try:
        while rank.send(signal.SIGSTOP):
            time.sleep(BEAT * share)
            rank.send(signal.SIGCONT)
            if select.select([0], [], [], BEAT * (1 - share))[0]:
                break
    finally:
        rank.send(signal.SIGCONT)


def kill_in_save(rank: Rank, size: int, folder: str) -> str | None:
    """Kill a rank when a file below a directory is written. Returns the name and the size of that file.

    size: bytes from which on a write fails. None: the rank, or whoever asked, ended before. A file that goes is no
    save: old checkpoints go before one.
    """
    before = look(folder)
    limit = rank.limit_files(size)
    try:
        while rank.send(signal.SIGSTOP):
            now = look(folder)
            changed = sorted(name for name in now if now[name] != before.get(name))
            if changed:
                rank.send(signal.SIGKILL)
                return "%s %d" % (changed[0], now[changed[0]][0])
            before = now
            rank.send(signal.SIGCONT)
            if select.select([0], [], [], SLICE)[0]:
                break
    finally:
        if limit is not None:
            rank.limit_files(limit)
        rank.send(signal.SIGCONT)
    return None


def look(folder: str) -> dict[str, tuple[int, int]]:
    """Return size and time of each file below a directory that can be part of a checkpoint."""
    found = {}
    for path in files(folder):
        if is_checkpoint(os.path.basename(path)):
            try:
                status = os.lstat(path)
            except OSError:
                continue
            found[os.path.relpath(path, folder)] = (status.st_size, status.st_mtime_ns)
    return found


def files(folder: str) -> Iterator[str]:
    """Yield the path of each file below a directory. What goes meanwhile is left out."""
    for above, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(above, name)


def is_checkpoint(name: str) -> bool:
    """Whether a file of this name can be part of a checkpoint: no log, no marker of ddpkit's."""
    return (
        not name.endswith((".jsonl", ".log", ".csv", ".txt", ".lock")) and "tfevents" not in name and name != ".ddpkit"
    )
