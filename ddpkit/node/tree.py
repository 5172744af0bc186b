"""The processes below this one: found, named, killed. A part of `supervisor.py`.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import os
import signal
import time

LOOK_AGAIN = 0.02  # seconds between two looks at processes that are being ended
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def processes() -> dict[int, tuple[int, str, float, int, int]]:
    """Every process of this machine that lives: parent, state, processor seconds, bytes of memory, process group."""
    table: dict[int, tuple[int, str, float, int, int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The command name stands in brackets and may itself hold brackets and blanks.
                    words = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if words[0] not in (b"Z", b"X"):
                # utime, stime, and those of the children that were waited for
                ticks = sum(int(word) for word in words[11:15])
                shown = (int(words[1]), words[0].decode(), ticks / TICKS, int(words[21]) * PAGE, int(words[2]))
                table[int(name)] = shown
    return table


def below(pid: int, table: dict[int, tuple[int, str, float, int, int]]) -> list[int]:
    """The children of a process, their children, and so on, whatever session or group they moved to."""
    children: dict[int, list[int]] = {}
    for each, (parent, *_) in table.items():
        children.setdefault(parent, []).append(each)
    found: list[int] = []
    todo = [pid]
    while todo:
        young = children.get(todo.pop(), [])
        found += young
        todo += young
    return found


def descendants() -> list[int]:
    """Every living process below this one."""
    return below(os.getpid(), processes())


def childless() -> bool:
    """Whether nothing is below this process. The kernel's word: a look at /proc misses what forks while it is read."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def kill_all_below() -> None:
    """KILL to every process below this one, also to those that fork and end faster than /proc is read."""
    table = processes()
    for pid in below(os.getpid(), table):
        kill(pid, signal.SIGKILL)
        # Nothing forks its way out of a group that gets a signal. It is ours whole: every rank began a session.
        if table[pid][4] != os.getpgrp():
            kill(-table[pid][4], signal.SIGKILL)
    # What moved to another group has us for its parent as soon as its own has ended, and those are read at once.
    until = time.monotonic() + LOOK_AGAIN / 4
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            while time.monotonic() < until:
                for word in file.read().split():
                    kill(int(word), signal.SIGKILL)
                file.seek(0)
    except OSError:
        pass  # a kernel without CONFIG_PROC_CHILDREN


def kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"
