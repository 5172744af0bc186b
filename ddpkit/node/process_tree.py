"""Processes below this one: finds, names and kills them. A part of `supervisor.py`.

On Linux this process is their subreaper: a process whose parent died becomes its child. macOS has neither subreapers
nor /proc. There (`process_tree_macos.py`) a process that moved away is found by the process group that it began in.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

TYPE_CHECKING = False
if sys.platform != "linux":  # never sent: every node is Linux
    from ddpkit.node.process_tree_macos import command_of, every

LOOK_AGAIN = 0.02  # seconds between two looks at processes that are being ended
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
groups: set[int] = set()  # process groups that were begun here, by their first process

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int, number: int) -> None:
    """Let the kernel send this signal when the parent dies. Exits at once where it has died already."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        _libc.prctl(option, value, 0, 0, 0)


def processes() -> dict[int, tuple[int, str, float, int, int]]:
    """Every process of this machine that lives: parent, state, processor seconds, bytes of memory, process group."""
    if sys.platform != "linux":
        return {pid: row for pid, row in every().items() if row[1] != "Z"}
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
    return _ours(processes())


def _ours(table: dict[int, tuple[int, str, float, int, int]]) -> list[int]:
    found = below(os.getpid(), table)
    if sys.platform != "linux":
        # The number of an empty group is free for others.
        groups.intersection_update(group for *_, group in table.values())
        found += [pid for pid, (*_, group) in table.items() if group in groups and pid not in found]
    return found


def childless() -> bool:
    """Whether nothing is below this process. The kernel's word: a look at /proc misses what forks while it is read."""
    if sys.platform != "linux":
        table = every()  # with those that were not waited for
        return os.getpid() not in {parent for parent, *_ in table.values()} and not _ours(table)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def kill_all_below() -> None:
    """KILL to every process below this one, also to those that fork and end faster than /proc is read."""
    table = processes()
    for pid in _ours(table):
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
    if sys.platform != "linux":
        return command_of(pid)
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"
