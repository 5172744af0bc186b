"""Files of the kernel, read within bounds: /proc, control groups, sockets."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

MOST = 1 << 24  # bytes of a file that are read


def list_names(folder: str) -> list[str]:
    """Names in a directory, sorted; empty if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def read_text(path: str, most: int = MOST) -> str:
    """Text of a file, stripped; empty if it cannot be read. Does not wait for the writer of a pipe."""
    data = b""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while len(data) < most:
                piece = os.read(fd, min(most - len(data), 1 << 16))
                if not piece:
                    break
                data += piece
        finally:
            os.close(fd)
    except OSError:
        return ""
    return data.decode("utf-8", "replace").strip()


def read_number(path: str) -> int | None:
    """The number in a file; None if it has none."""
    text = read_text(path)
    return int(text) if text[text[:1] == "-" :].isdecimal() else None


def read_link(path: str) -> str:
    """Target of a link; empty if it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def open_files(pid: int | str) -> dict[int, str]:
    """Targets of the descriptors of a process, as far as they can be read."""
    folder = "/proc/%s/fd/" % pid
    return {int(fd): target for fd in list_names(folder) for target in [read_link(folder + fd)] if target}


def tcp_sockets(pid: int | str = "self") -> Iterator[tuple[int, int, bool, str]]:
    """TCP sockets of a process's network: local and remote port, whether it listens, its link in /proc/PID/fd."""
    for name in ("tcp", "tcp6"):
        for line in read_text("/proc/%s/net/%s" % (pid, name)).splitlines()[1:]:
            words = line.split()
            if len(words) > 9:
                local, remote = (int(word.rpartition(":")[2], 16) for word in words[1:3])
                yield local, remote, words[3] == "0A", "socket:[%s]" % words[9]


def meminfo(root: str = "") -> dict[str, int]:
    """Bytes of the machine's memory, by the names of /proc/meminfo."""
    rows = [line.split() for line in read_text(root + "/proc/meminfo").splitlines()]
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1}


def cgroups(controller: str, root: str = "") -> list[str]:
    """Directories of this process's cgroup for a controller, and of the cgroups above it, which bound it as well.

    Version 2 has one tree for all controllers, whose line in /proc/self/cgroup names none; version 1 a tree for each.
    """
    mount = root + "/sys/fs/cgroup"
    has_version_2 = os.path.exists(mount + "/cgroup.controllers")
    for line in read_text(root + "/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" and has_version_2:
            top = mount
        elif controller in controllers.split(","):
            top = mount + "/" + controller
        else:
            continue
        parts = [part for part in path.split("/") if part]
        return ["/".join([top, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return []


def cpu_quota(root: str = "") -> float | None:
    """Processors whose time the cgroups allow this process; None: all. The number of processors does not show it."""
    quotas = []
    for folder in cgroups("cpu", root):
        words = read_text(folder + "/cpu.max").split()
        words = words or [read_text(folder + "/cpu.cfs_" + name + "_us") for name in ("quota", "period")]
        if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal():
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas) if quotas else None
