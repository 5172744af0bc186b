"""Processes below this one: finds, names and kills them. A part of `supervisor.py`.

On Linux this process is their subreaper: a process whose parent died becomes its child. macOS has neither subreapers
nor /proc. There (`process_tree_macos.py`) a process that moved away is found by the process group that it began in.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import time

from ddpkit.node.daemons import children, shared_daemons

TYPE_CHECKING = False
if TYPE_CHECKING:
    # parent, state, processor seconds, bytes of memory, process group, name, start in seconds after boot
    Stat = tuple[int, str, float, int, int, str, float]
if sys.platform != "linux":  # never sent: every node is Linux
    from ddpkit.node.process_tree_macos import command_of, every

SETTLED = 0.2  # seconds after which a shared daemon without ranks is one that stays
LOOK_AGAIN = 0.02  # seconds between two looks at processes that are being ended
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
_seen: dict[int, float] = {}  # shared daemons, and when they were first seen after the ranks: time.monotonic()
groups: set[int] = set()  # process groups that were begun here, by their first process

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def hide() -> None:
    """Close memory and open files of this process to others of its user, such as its ranks.

    What it executes is open again. Only root with CAP_SYS_PTRACE still reads them.
    """
    _prctl(PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int, number: int) -> None:
    """Let the kernel send this signal when the parent dies. Exits at once where it has died already."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        _libc.prctl(option, value, 0, 0, 0)


def read_stat(pid: int) -> Stat | None:
    """Read /proc/PID/stat; None where the process has ended."""
    try:
        fd = os.open("/proc/%d/stat" % pid, os.O_RDONLY)  # half the time of `open`: machines have thousands of them
        try:
            # The command name stands in brackets and may itself hold brackets and blanks.
            before, _, after = os.read(fd, 4096).rpartition(b")")
        finally:
            os.close(fd)
    except OSError:
        return None
    words = after.split()
    if len(words) < 22 or words[0] in (b"X", b"x"):
        return None
    # utime, stime, and those of the children that were waited for
    seconds = sum(int(word) for word in words[11:15]) / TICKS
    name = before.partition(b"(")[2].decode("utf-8", "replace")
    memory, started = int(words[21]) * PAGE, int(words[19]) / TICKS
    return int(words[1]), words[0].decode(), seconds, memory, int(words[2]), name, started


def ended_as(pid: int) -> int:
    """Return the wait status of a process whose first thread has ended; 0 where it runs, or where it is not known.

    `waitpid` gives it only after the last thread, and the children of the first may have ended meanwhile.
    """
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return int(words[49]) if words[0] == b"Z" and len(words) > 49 else 0


def processes(*, zombies: bool = False) -> dict[int, Stat]:
    """Every process of this machine that lives, by its id."""
    if sys.platform != "linux":
        return {pid: row for pid, row in every().items() if zombies or row[1] != "Z"}
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {pid: row for pid in pids for row in [read_stat(pid)] if row and (zombies or row[1] != "Z")}


def below(pid: int, table: dict[int, Stat]) -> list[int]:
    """Children of a process, their children, and so on, whatever session they moved to; the nearest first."""
    children: dict[int, list[int]] = {}
    for each, (parent, *_) in table.items():
        children.setdefault(parent, []).append(each)
    pids = list(children.get(pid, []))
    for each in pids:  # it grows meanwhile
        pids += children.get(each, [])
    return pids


def descendants() -> list[int]:
    """Every living process below this one, but for shared daemons and what is below them."""
    return _ours(processes())


def daemons() -> dict[int, str]:
    """Shared daemons that became children of this process, each with its name: they are not the run's."""
    return shared_daemons(os.getpid(), groups or None) if sys.platform == "linux" else {}


def _ours(table: dict[int, Stat]) -> list[int]:
    spared = daemons()
    pids = below(os.getpid(), {pid: row for pid, row in table.items() if pid not in spared} if spared else table)
    if sys.platform != "linux":
        # The number of an empty group is free for others.
        groups.intersection_update(row[4] for row in table.values())
        pids += [pid for pid, row in table.items() if row[4] in groups and pid not in pids]
    return pids


def nothing_left() -> bool:
    """Whether nothing of the run is below this process. The kernel's word: /proc misses what forks while it is read."""
    if sys.platform != "linux":
        table = every()  # with those that were not waited for
        return os.getpid() not in {parent for parent, *_ in table.values()} and not _ours(table)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    spared, now = daemons(), time.monotonic()
    for pid in spared:
        _seen.setdefault(pid, now)
    # One look may miss a child whose place in the list moves. A daemon of the ranks alone ends with them.
    settled = all(now >= _seen[pid] + SETTLED for pid in spared)
    return bool(spared) and settled and all(children(os.getpid()) <= spared.keys() for _ in range(3))


def kill_all_below() -> None:
    """KILL to every process below this one, also to those that fork and end faster than /proc is read."""
    table = processes()
    for pid in _ours(table):
        # Nothing forks its way out of a group that gets a signal. It is ours whole: every rank began a session.
        whole = table[pid][4] != os.getpgrp() and is_below(pid)
        kill(pid, signal.SIGKILL)
        if whole:
            kill_group(table[pid][4], signal.SIGKILL)
    # What moved to another group has us for its parent as soon as its own has ended, and those are read at once.
    until = time.monotonic() + LOOK_AGAIN / 4
    spared = daemons()
    while time.monotonic() < until:
        for pid in children(os.getpid()) - spared.keys():
            kill(pid, signal.SIGKILL)


def kill(pid: int, number: int) -> None:
    """Send a signal to a process below this one. Another process that has got its number meanwhile gets none."""
    try:
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None  # Python 3.9
    except OSError as error:
        if error.errno == errno.ESRCH:
            return
        handle = None  # a kernel before Linux 5.3, or no descriptor is left
    try:
        if not is_below(pid):
            return
        if sys.platform == "linux" and handle is not None:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        if handle is not None:
            os.close(handle)


def is_below(pid: int) -> bool:
    """Whether a process descends from this one now, its children that were not waited for included."""
    if sys.platform != "linux":
        return pid in _ours(every())
    own, each, left = os.getpid(), pid, 64
    while each > 1 and left:
        left -= 1
        row = read_stat(each)
        if row is None:  # its parent ended meanwhile, and it has another one; or it has ended itself
            if each == pid:
                return False
            each = pid
        elif row[0] == own:
            return True
        else:
            each = row[0]
    return False


def kill_group(group: int, number: int) -> None:
    """Send a signal to a group that began below this process. Its number is nobody else's while it has a member, or
    while its first process was not waited for.
    """
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def name_of(pid: int) -> str:
    if sys.platform != "linux":
        return command_of(pid)
    return read_text(f"/proc/{pid}/comm") or "?"


def read_text(path: str) -> str:
    """Read a file of /proc, without the white space around it; empty where that is not possible."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
