"""Files of the kernel, read within bounds: /proc, control groups, sockets, its log; and the CPUs of this process."""

from __future__ import annotations

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

MOST = 1 << 24  # bytes of a file that are read
LOG_RECORDS = 200_000  # the largest buffers have so many; the newest come last


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


def socket_file(number: int) -> int | None:
    """Inode of the file of a Unix socket of this process's network, its last 32 bits; None: it is not known.

    number: of the socket, as in /proc/net/unix, which has the path at which it was bound, also after a rename.
    The answer of `sock_diag(7)`: 16 bytes of netlink, 16 of the socket, then attributes; attribute 1 has the inode.
    """
    if sys.platform != "linux":
        return None
    import socket
    import struct

    any_cookie, listens, shows_file = 0xFFFFFFFF, 1 << 10, 2
    query = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, listens, number, shows_file, any_cookie, any_cookie)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 4) as kernel:  # NETLINK_SOCK_DIAG
            kernel.settimeout(1.0)
            kernel.send(struct.pack("=IHHII", 16 + len(query), 20, 1, 1, 0) + query)  # SOCK_DIAG_BY_FAMILY
            answer = kernel.recv(1 << 16)
    except OSError:
        return None
    if len(answer) < 44 or struct.unpack_from("=H", answer, 4)[0] != 20 or struct.unpack_from("=H", answer, 34)[0] != 1:
        return None
    return int(struct.unpack_from("=I", answer, 36)[0])


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


def own_cpus() -> list[int]:
    """Return the CPUs to which SLURM confines this process, cores and sockets together; none where it does not.

    Jobs that share an unconfined node would all take its first CPUs.
    """
    cpus = _own_cpus()
    return cpus if len(cpus) < (os.cpu_count() or 0) else []


def take_cpus(part: str) -> None:
    """Keep a part of the CPUs, by their places: `0-7`, or `8-` for the rest. A process keeps all where it has none."""
    first, _, last = part.partition("-")
    cpus = _own_cpus()[int(first) : int(last) + 1 if last else None] if part else []
    if cpus and sys.platform == "linux":
        os.sched_setaffinity(0, cpus)


def _own_cpus() -> list[int]:
    if sys.platform != "linux":
        return []
    place = "/sys/devices/system/cpu/cpu%d/topology/"

    def core(cpu: int) -> tuple[int, int, int]:
        folder = place % cpu
        return read_number(folder + "physical_package_id") or 0, read_number(folder + "core_id") or 0, cpu

    return sorted(os.sched_getaffinity(0), key=core)


def kernel_log(since: float, path: str = "/dev/kmsg") -> Iterator[tuple[float, str]]:
    """Lines that the kernel itself has logged since then, with their seconds after the boot.

    What root writes there has another facility. Raises OSError where the log may not be read: many machines show it to
    root alone.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        for _ in range(LOG_RECORDS):
            try:
                records = os.read(fd, 1 << 16)
            except BrokenPipeError:  # the kernel has overwritten it meanwhile
                continue
            except OSError:  # nothing more
                return
            for level, after, text in re.findall(rb"^(\d+),\d+,(\d+),[^;]*;(.*)", records, re.MULTILINE):
                if int(level) >> 3 == 0 and int(after) / 1e6 >= since:
                    yield int(after) / 1e6, text.decode("utf-8", "replace")
            if not records:
                return
    finally:
        os.close(fd)
