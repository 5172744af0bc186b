"""Shared daemons: what a rank started for its user, and not for the run, such as the server of tmux or an SSH agent.

Such a program leaves the rank on purpose: it begins a session of its own, lets its parent end, and gives up terminal,
input and output. It then waits at a named socket for any program of the user, who may have work in it that has nothing
to do with the run. It is not ended with the run, and neither is what it has started. Whatever else a rank leaves
behind, such as a worker with a session of its own or a command behind `nohup`, serves nobody once the rank is gone.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Collection, Sequence

NULL = "/dev/null"
GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel")
_LISTENS = "00010000"  # a flag in /proc/net/unix


def is_shared_daemon(
    *,
    adopted: bool,
    leads_session: bool,
    has_terminal: bool,
    standard: Sequence[str] | None,
    devices: Sequence[str],
    sockets: Sequence[str],
) -> bool:
    """Decide from what the kernel knows of a process, not from its name.

    adopted: the process that started it has ended. standard: targets of its descriptors 0, 1 and 2, "" for a closed
    one; None: it hides its descriptors, as agents with secret keys do. devices: GPUs that it has open. sockets: paths
    at which it listens and which exist.
    """
    if not adopted or not leads_session or has_terminal or devices:
        return False
    if standard is None:
        return True
    # Errors may still go where the rank's go: gpg-agent and older versions of ssh keep that descriptor.
    return bool(sockets) and _is_given_up(standard)


def _is_given_up(standard: Sequence[str]) -> bool:
    """Tell whether a process has neither input nor output."""
    return all(target in ("", NULL) for target in standard[:2])


def shared_daemons(parent: int, started: Collection[int] | None = None) -> dict[int, str]:
    """Shared daemons among the children of a process, each with its name.

    started: children that this process has started itself. None: not known; then what hides its descriptors is none.
    """
    daemons = {}
    for pid in children(parent):
        name = _candidate(pid)
        if not name or (started and pid in started):
            continue
        standard = _standard(pid)
        if standard is None and started is None:
            continue
        if standard and not _is_given_up(standard):
            continue  # the most of them: nothing else need be read
        targets = _targets(pid)
        if is_shared_daemon(
            adopted=True,
            leads_session=True,
            has_terminal=False,
            standard=standard,
            devices=[target for target in targets if target.startswith(GPU_DEVICES)],
            sockets=_listening(pid, targets),
        ):
            daemons[pid] = name
    return daemons


def children(parent: int) -> set[int]:
    """Return the processes whose parent is this one, also those that have ended and were not waited for."""
    try:
        with open("/proc/%d/task/%d/children" % (parent, parent)) as file:
            return {int(word) for word in file.read().split()}
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return {pid for pid in pids if _parent(pid) == parent}


def _parent(pid: int) -> int:
    words = _stat(pid)[1]
    return int(words[1]) if words else 0


def _stat(pid: int) -> tuple[str, list[bytes]]:
    """Return the name of a process and the fields behind it in /proc/PID/stat; none where it has ended."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            before, _, after = file.read().rpartition(b")")
    except OSError:
        return "", []
    return before.partition(b"(")[2].decode("utf-8", "replace"), after.split()


def _candidate(pid: int) -> str:
    """Return the name of a living process that leads a session without a terminal; else nothing."""
    name, words = _stat(pid)
    return name if words and words[0] not in b"ZXx" and int(words[3]) == pid and words[4] == b"0" else ""


def _standard(pid: int) -> list[str] | None:
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


def _targets(pid: int) -> list[str]:
    """Return the targets of all descriptors of a process, as far as they may be read."""
    folder, targets = "/proc/%d/fd" % pid, []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        try:
            targets.append(os.readlink("%s/%s" % (folder, name)))
        except OSError:
            pass
    return targets


def _listening(pid: int, targets: Sequence[str]) -> list[str]:
    """Return the paths at which a process listens. One that was removed is no way to it any more."""
    paths = []
    try:
        with open("/proc/%d/net/unix" % pid, errors="surrogateescape") as file:
            for line in file:
                words = line.rstrip("\n").split(None, 7)
                if len(words) == 8 and words[3] == _LISTENS and "socket:[%s]" % words[6] in targets:
                    paths.append(words[7])
    except OSError:
        return []
    return [path for path in paths if path.startswith("/") and _is_socket(pid, path)]


def _is_socket(pid: int, path: str) -> bool:
    for root in ("/proc/%d/root" % pid, ""):
        try:
            return stat.S_ISSOCK(os.stat(root + path).st_mode)
        except OSError:
            continue
    return False
