"""Processes: what the kernel says of them, those below this one, and shared daemons among them.

On Linux this process is their subreaper: a process whose parent died becomes its child. macOS has neither subreapers
nor /proc. There a process that moved away is found by the process group that it began in.

A shared daemon is what a rank started for its user, and not for the run, such as the server of tmux or an SSH agent. It
leaves the rank on purpose: it begins a session of its own, lets its parent end, and gives up terminal, input and
output. It then waits at a named socket for any program of the user, who may have work in it that has nothing to do with
the run. It is not ended with the run, and neither is what it has started. Whatever else a rank leaves behind, such as a
worker with a session of its own or a command behind `nohup`, serves nobody once the rank is gone.

A daemon takes these steps one after the other, and until the last of them it looks like any leftover. What has begun a
moment ago is therefore left alone until it is `GROWN_UP`, and judged then. On a busy machine it takes its steps later:
the time in which it waited for a processor does not count.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
import time
from collections import namedtuple

from ddpkit.node.kernel import open_files, read_link, read_text, socket_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Collection, Sequence

GROWN_UP = 2.0  # seconds from the start of a process until it is a daemon, if it becomes one
STARVED = 8.0  # seconds more at most, in which it waited for a processor
SETTLED = 0.2  # seconds after which a shared daemon without ranks is one that stays
LOOK_AGAIN = 0.02  # seconds between two looks at processes that are being ended
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
NULL = "/dev/null"
GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel")
_LISTENS = "00010000"  # a flag in /proc/net/unix
# Of ps, each its own: behind an equals sign BSD takes all the rest for a title.
_FIELDS = ("pid", "ppid", "pgid", "stat", "time", "rss")
_seen: dict[int, float] = {}  # shared daemons, and when they were first seen after the ranks: time.monotonic()
groups: set[int] = set()  # process groups that were begun here, by their first process

# state: a letter. seconds: of processors, with those of children that were waited for. memory: bytes. started: seconds
# after boot. terminal: whether it has one. status: wait status of one whose first thread has ended.
Process = namedtuple(
    "Process", "parent state seconds memory group name started session terminal status", defaults=(0, False, 0)
)


# ---- the kernel's word


def read_process(pid: int) -> Process | None:
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
    return Process(
        parent=int(words[1]),
        state=words[0].decode(),
        seconds=sum(map(int, words[11:15])) / TICKS,
        memory=int(words[21]) * PAGE,
        group=int(words[2]),
        name=before.partition(b"(")[2].decode("utf-8", "replace"),
        started=int(words[19]) / TICKS,
        session=int(words[3]),
        terminal=words[4] != b"0",
        status=int(words[49]) if len(words) > 49 else 0,
    )


def ended_as(pid: int) -> int:
    """Return the wait status of a process whose first thread has ended; 0 where it runs, or where it is not known.

    `waitpid` gives it only after the last thread, and the children of the first may have ended meanwhile.
    """
    process = read_process(pid)
    return int(process.status) if process is not None and process.state == "Z" else 0


def processes(*, zombies: bool = False) -> dict[int, Process]:
    """Every process of this machine that lives, by its id."""
    if sys.platform != "linux":
        return {pid: row for pid, row in _list_by_ps().items() if zombies or row.state != "Z"}
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {pid: row for pid in pids for row in [read_process(pid)] if row and (zombies or row.state != "Z")}


def below(pid: int, table: dict[int, Process]) -> list[int]:
    """Children of a process, their children, and so on, whatever session they moved to; the nearest first."""
    by_parent: dict[int, list[int]] = {}
    for each, process in table.items():
        by_parent.setdefault(process.parent, []).append(each)
    pids = list(by_parent.get(pid, []))
    for each in pids:  # it grows meanwhile
        pids += by_parent.get(each, [])
    return pids


def descendants() -> list[int]:
    """Every living process below this one, but for shared daemons and what is below them."""
    return _of_this_run(processes())


def is_young(pid: int) -> bool:
    """Tell whether a process has begun so recently that it may be a shared daemon on its way."""
    if sys.platform != "linux":
        return False
    process, now = read_process(pid), time.clock_gettime(time.CLOCK_BOOTTIME)
    if process is None or now >= process.started + GROWN_UP + STARVED:
        return False
    return bool(now < process.started + GROWN_UP + seconds_starved(pid))


def seconds_starved(pid: int) -> float:
    """Return the seconds in which a process was ready to run and had no processor; 0 where none are counted."""
    words = read_text("/proc/%d/schedstat" % pid).split()  # on a processor; waits for one that are over; turns
    return min(STARVED, int(words[1]) / 1e9) if len(words) == 3 else 0.0


def daemons() -> dict[int, str]:
    """Shared daemons that became children of this process, each with its name: they are not the run's."""
    return shared_daemons(os.getpid(), groups or None) if sys.platform == "linux" else {}


def _of_this_run(table: dict[int, Process]) -> list[int]:
    """Return the processes below this one, without shared daemons and what is below them."""
    spared = daemons()
    pids = below(os.getpid(), {pid: row for pid, row in table.items() if pid not in spared} if spared else table)
    if sys.platform != "linux":
        # A process that moved away is found by its group. The number of an empty group is free for others.
        groups.intersection_update(row.group for row in table.values())
        pids += [pid for pid, row in table.items() if row.group in groups and pid not in pids]
    return pids


def nothing_left() -> bool:
    """Whether nothing of the run is below this process: it has no child at all, or only shared daemons that stay.

    The kernel is asked, because /proc misses what forks while it is read.
    """
    if sys.platform != "linux":
        table = _list_by_ps()  # with children that were not waited for
        return os.getpid() not in {process.parent for process in table.values()} and not _of_this_run(table)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    spared, now = daemons(), time.monotonic()
    for pid in spared:
        _seen.setdefault(pid, now)
    # A daemon that serves the ranks alone ends with them: one that still runs after SETTLED stays.
    settled = all(now >= _seen[pid] + SETTLED for pid in spared)
    # Three looks: one may miss a child whose place in the list moves.
    return bool(spared) and settled and all(children(os.getpid()) <= spared.keys() for _ in range(3))


def kill_all_below() -> None:
    """KILL to every process below this one, also to those that fork and end faster than /proc is read."""
    table = processes()
    for pid in _of_this_run(table):
        # Nothing forks its way out of a group that gets a signal. All of it is below: every rank began a session.
        whole = table[pid].group != os.getpgrp() and is_below(pid)
        kill(pid, signal.SIGKILL)
        if whole:
            kill_group(table[pid].group, signal.SIGKILL)
    # A process in another group becomes a child of this one when its parent ends. The list of children is read at once.
    until = time.monotonic() + LOOK_AGAIN / 4
    spared = daemons()
    while time.monotonic() < until:
        for pid in children(os.getpid()) - spared.keys():
            kill(pid, signal.SIGKILL)


def end_all_below(limit: float) -> None:
    """KILL what is below this process until nothing is left, for so many seconds at most.

    A young process, which may become a shared daemon, is spared for GROWN_UP. Then all are killed: where processes
    fork and end all the time, one of them is always young.
    """
    began, youth = time.monotonic(), GROWN_UP
    while time.monotonic() < began + limit:
        left = descendants()
        young = set(filter(is_young, left))
        youth = max([youth, *(GROWN_UP + seconds_starved(pid) for pid in young)])
        if young and time.monotonic() < began + youth:
            for pid in set(left) - young:
                kill(pid, signal.SIGKILL)
        else:
            kill_all_below()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if nothing_left():
            return
        time.sleep(LOOK_AGAIN)


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
        return pid in _of_this_run(_list_by_ps())
    own, each, looks = os.getpid(), pid, 64
    while each > 1 and looks:
        looks -= 1
        process = read_process(each)
        if process is None:
            if each == pid:
                return False
            each = pid  # an ancestor ended meanwhile: a process below it has another parent now, so begin again
        elif process.parent == own:
            return True
        else:
            each = process.parent
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
        return _command_by_ps(pid)
    return read_text(f"/proc/{pid}/comm") or "?"


# ---- shared daemons


def is_shared_daemon(*, standard: Sequence[str] | None, devices: Sequence[str], sockets: Sequence[str]) -> bool:
    """Decide about an orphan that leads a session without a terminal: from what the kernel knows, not from its name.

    standard: targets of its descriptors 0, 1 and 2, "" for a closed one; None: it hides its descriptors, as agents with
    secret keys do. devices: GPUs that it has open. sockets: paths at which it listens and which exist.
    """
    return not devices and (standard is None or (bool(sockets) and _has_no_input_nor_output(standard)))


def _has_no_input_nor_output(standard: Sequence[str]) -> bool:
    """Tell whether a process has neither input nor output."""
    # Errors may still go where the rank's go: gpg-agent and older versions of ssh keep that descriptor.
    return all(target in ("", NULL) for target in standard[:2])


def shared_daemons(parent: int, started: Collection[int] | None = None) -> dict[int, str]:
    """Shared daemons among the children of a process, each with its name.

    started: children that this process has started itself. None: not known; then what hides its descriptors is none.
    """
    found = {}
    for pid in children(parent):
        name = _name_if_in_own_session(pid, started or ())
        if not name or (started and pid in started):
            continue
        standard = _standard_streams(pid)
        if standard is None and started is None:
            continue
        if standard is not None and not _has_no_input_nor_output(standard):
            continue  # the most of them: nothing else need be read
        targets = list(open_files(pid).values())
        devices = [target for target in targets if target.startswith(GPU_DEVICES)]
        if is_shared_daemon(standard=standard, devices=devices, sockets=_listening_paths(pid, targets)):
            found[pid] = name
    return found


def children(parent: int) -> set[int]:
    """Return the processes whose parent is this one, also those that have ended and were not waited for."""
    found: set[int] = set()
    try:
        for thread in os.listdir("/proc/%d/task" % parent):  # each has those that it started
            with open("/proc/%d/task/%s/children" % (parent, thread)) as file:
                found.update(int(word) for word in file.read().split())
        return found
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return {pid for pid, process in processes(zombies=True).items() if process.parent == parent}


def _name_if_in_own_session(pid: int, started: Collection[int]) -> str:
    """Return the name of a living process in a session of its own without a terminal; empty: it has no such session.

    Some daemons fork once more after that, so that none can get a terminal: the leader of the session is gone. A rank's
    session, which a child in `started` leads, is none of its own. After a supervisor was killed `started` is not known:
    then a process in a session without its leader may be what a rank left. It counts as no daemon, and is ended.
    """
    process = read_process(pid)
    if process is None or process.state == "Z" or process.terminal:
        return ""
    session = process.session
    left = session == pid or (bool(started) and session not in started and read_process(session) is None)
    return str(process.name) if left else ""


def _standard_streams(pid: int) -> list[str] | None:
    """Return the targets of descriptors 0, 1 and 2; None where they may not be read."""
    targets = []
    for number in range(3):
        try:
            targets.append(os.readlink("/proc/%d/fd/%d" % (pid, number)))
        except PermissionError:
            return None
        except OSError:
            targets.append("")
    return targets


def _listening_paths(pid: int, targets: Sequence[str]) -> list[str]:
    """Return the paths at which a process listens. One that was removed is no way to it any more."""
    bound = []  # path and number of each socket
    try:
        with open("/proc/%d/net/unix" % pid, errors="surrogateescape") as file:
            for line in file:
                words = line.rstrip("\n").split(None, 7)
                if len(words) == 8 and words[3] == _LISTENS and "socket:[%s]" % words[6] in targets:
                    bound.append((words[7], int(words[6])))
    except OSError:
        return []
    # "@": a name without a file, which lasts as long as the socket.
    return [path for path, number in bound if path[0] == "@" or (path[0] == "/" and _is_socket(pid, path, number))]


def _is_socket(pid: int, path: str, number: int) -> bool:
    """Tell whether a socket has a file: at its path, or beside it, where ssh puts it once it listens."""
    for root in ("/proc/%d/root" % pid, ""):
        try:
            return stat.S_ISSOCK(os.stat(root + path).st_mode)
        except OSError:
            pass
        try:
            with os.scandir(root + os.path.dirname(path)) as entries:
                file = socket_file(number)
                return any(entry.inode() & 0xFFFFFFFF == file and _is_socket_file(entry) for entry in entries)
        except OSError:
            continue
    return False


def _is_socket_file(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)


# ---- rsync


def end_receivers(place: str) -> None:
    """End the rsync processes of this user that write a file of ddpkit's, or to a directory of ddpkit's.

    Of a launcher that was cut off, sshd and rsync learn only when TCP gives up, after a quarter of an hour or more.
    """
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.stat("/proc/" + pid).st_uid != os.geteuid():
                continue
            with open("/proc/%s/cmdline" % pid, "rb") as words:
                server = words.read().startswith(b"rsync\0--server\0")
            opened = [read_link("/proc/%s/cwd" % pid), *open_files(pid).values()] if server else []
            if any(each == place or each.startswith(place + "/") for each in opened):
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass  # it ended


# ---- macOS, on a laptop alone: every node is Linux


def _list_by_ps() -> dict[int, Process]:
    """As `processes`, with zombies as well: what ps prints."""
    import subprocess

    argv = ["ps", "-A", *(word for name in _FIELDS for word in ("-o", name + "="))]
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}
    ) as ps:
        text = ps.communicate()[0].decode("ascii", "replace")
    table = {}
    for line in text.splitlines():
        pid, parent, group, state, used, memory = line.split()
        if int(pid) != ps.pid:
            table[int(pid)] = Process(
                int(parent), state[0], _seconds(used), int(memory) * 1024, int(group), name="", started=0.0
            )
    return table


def _seconds(text: str) -> float:
    """`12:34.56` (macOS: minutes), `1-02:03:04`."""
    days, _, rest = text.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * int(days or 0)


def _command_by_ps(pid: int) -> str:
    import subprocess

    argv = ["ps", "-o", "comm=", "-p", str(pid)]
    output = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False).stdout
    return os.path.basename(output.decode("utf-8", "replace").strip()) or "?"
