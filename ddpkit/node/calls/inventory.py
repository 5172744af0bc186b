"""Inventory of a node for the preflight, beyond `probe.look`: limits, disk space, memory, GPUs, software.

Sent to a node's supervisor behind `probe.py`, or to a rank; torch is not imported. Nothing here judges: the launcher
compares nodes. A value that could not be read is None.
"""

from __future__ import annotations

import os
import re
import resource
import socket
import sys
import threading
import time

from ddpkit.node.calls.gpu_inventory import LATE, SMI_LIMIT, gpu_host, gpus_of_node, owner, pci_place
from ddpkit.node.env_names import env_matcher, nccl_conf
from ddpkit.node.kernel import cgroups, cpu_quota, list_names, meminfo, open_files, read_number, read_text, tcp_sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NAMES_LIMIT = 2.0  # seconds for what names mean; a dead name server takes 5 a question
# Limits of a cgroup's memory, and its use. Above `high` the kernel holds processes up, and kills none.
_MEMORY_FILES = (
    ("memory.max", "memory.current"),
    ("memory.high", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
MOST_DISKS = 8  # full ones that a node reports
_LOCAL_DISKS = frozenset("btrfs ext2 ext3 ext4 f2fs overlay tmpfs xfs zfs".split())
_is_reported = env_matcher("reported")


def gather(
    places: dict[str, str], names: list[str], torch: str | None, smi: bool = True, taken: int | None = None
) -> dict[str, Any]:
    """Everything at once. `places`: folders by use; `names`: of hosts, to look up; `torch`: the folder it is in.

    `taken`: a port of which we want to know who has it.
    """
    looked_up: dict[str, Any] = {}
    asking = threading.Thread(target=_look_up, args=(names, looked_up), daemon=True)
    asking.start()  # a name server may think for long
    gpus = _Asked(gpus_of_node if smi else list, LATE)
    facts: dict[str, Any] = {
        "time": time.time(),
        "host": socket.gethostname(),
        "linux": sys.platform == "linux",  # or a laptop that examines itself
        "limits": limits(),
        "space": {**{use: space(folder) for use, folder in places.items()}, **full_disks(places)},
        "memory": memory(),
        "cpus": processors(),
        "environ": library_variables(),
        "ptrace_scope": read_number("/proc/sys/kernel/yama/ptrace_scope"),
        "remove_ipc": remove_ipc(),
        "infiniband": infiniband(),
        "container": container(),
        "nccl": nccl(torch) if torch else None,
        "cuda": cuda(torch) if torch else None,
        "driver": driver(),
        "threads": threads_left(),
        "port_owner": port_owner(taken) if taken else None,
    }
    asking.join(NAMES_LIMIT)
    facts["names"] = dict(looked_up)
    facts["gpus"] = gpus.answer(SMI_LIMIT + 1)
    listed = facts["gpus"] if isinstance(facts["gpus"], list) else []
    adapters = [port["pci"] for port in facts["infiniband"]]
    facts["gpu_host"] = gpu_host([gpu.get("pci", "") for gpu in listed], adapters)
    return facts


class _Asked:
    """A call in a thread. Its answer is `late` where none comes in time."""

    def __init__(self, function: Callable[[], Any], late: Any) -> None:
        self._value: Any = late
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[[], Any]) -> None:
        self._value = function()

    def answer(self, limit: float) -> Any:
        self._thread.join(limit)
        return self._value


def _look_up(names: list[str], answers: dict[str, Any]) -> None:
    """Addresses of each name on this machine, or why it has none. The first is the machine's own."""
    for name in [socket.gethostname(), *names]:
        if name in answers:
            continue
        try:
            answers[name] = list(dict.fromkeys(str(entry[4][0]) for entry in socket.getaddrinfo(name, None)))
        except (OSError, UnicodeError) as error:
            answers[name] = str(getattr(error, "strerror", None) or error)


# ---- what a process may use


def limits() -> dict[str, int | None]:
    """The soft limits of a process that is started this way, and how far it may raise that of files; None: none."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    values = {"nofile": files, "nofile_hard": most, "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]}
    return {name: None if value == resource.RLIM_INFINITY else value for name, value in values.items()}


def threads_left(root: str = "") -> int | None:
    """How many processes and threads may still be started in this cgroup and those above; None: no bound is known."""
    left = []
    for folder in cgroups("pids", root):
        most, now = read_text(folder + "/pids.max"), read_number(folder + "/pids.current")
        if most.isdecimal() and now is not None:
            left.append(int(most) - now)
    return min(left) if left else None


def space(folder: str) -> dict[str, Any] | None:
    """Bytes and inodes of the file system that holds a folder, for us; None: there is no such folder."""
    try:
        stat = os.statvfs(folder)
    except OSError:
        return None
    return {
        "folder": folder,
        "total": stat.f_blocks * stat.f_frsize,
        "free": stat.f_bavail * stat.f_frsize,
        "inodes": stat.f_files,
        "inodes_free": stat.f_favail,
        "read_only": bool(stat.f_flag & os.ST_RDONLY),
    }


def full_disks(places: dict[str, str], mounts: str = "/proc/self/mounts") -> dict[str, Any]:
    """Space of other local disks without a free block or inode on which a rank may write, by their mount points.

    Those are below the working directory, or open to everybody. A server of a network file system may not answer.
    """
    known = {_device(folder) for folder in places.values()}
    below = os.path.join(places.get("workdir", os.devnull), "")
    found = {}
    for line in read_text(mounts).splitlines():
        _, escaped, kind, options = line.split(" ")[:4]
        path = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), escaped)
        if kind not in _LOCAL_DISKS or "ro" in options.split(","):
            continue
        is_for_ranks = path.startswith(below) or _is_open_to_all(path)
        if not is_for_ranks or _device(path) in known:
            continue
        room = space(path)
        if room and room["total"] and (not room["free"] or (room["inodes"] and not room["inodes_free"])):
            found[path] = room
    return dict(sorted(found.items())[:MOST_DISKS])


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


def _is_open_to_all(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & 0o002)
    except OSError:
        return False


def memory(root: str = "") -> dict[str, int | None]:
    """Bytes: of the machine, free for us, and what the cgroup allows that leaves us least (None: no bound).

    A cgroup's use counts files that it has read; the kernel drops those that nobody has used for a while.
    """
    sizes = meminfo(root)
    bounds = []
    for folder in cgroups("memory", root):
        files = re.search(r"(?m)^(?:total_)?inactive_file (\d+)$", read_text(folder + "/memory.stat"))
        for most, now in _MEMORY_FILES:
            limit = read_number(folder + "/" + most)
            if limit is not None and limit < 1 << 60:
                taken = (read_number(folder + "/" + now) or 0) - (int(files.group(1)) if files else 0)
                bounds.append((limit, max(0, taken)))
    bound, used = min(bounds, key=lambda each: each[0] - each[1]) if bounds else (None, None)
    return {"total": sizes.get("MemTotal", 0), "free": sizes.get("MemAvailable", 0), "bound": bound, "used": used}


def processors(root: str = "") -> dict[str, Any]:
    """Of the machine, those that this process may use, and the share of time that cgroups allow (None: all)."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return {"machine": os.cpu_count(), "allowed": allowed, "quota": cpu_quota(root)}


# ---- the network


def port_owner(port: int) -> dict[str, Any] | None:
    """Process that listens on a port: pid, command, user; None where we may not see it."""
    wanted = {link for local, _, listens, link in tcp_sockets() if listens and local == port}
    for pid in filter(str.isdigit, list_names("/proc")) if wanted else ():
        if wanted.intersection(open_files(pid).values()):
            words = read_text("/proc/" + pid + "/cmdline").split("\0")
            return {"pid": int(pid), "command": " ".join(words)[:60].strip(), "user": owner(pid)}
    return None


def infiniband() -> list[dict[str, str]]:
    """Ports of InfiniBand, RoCE and EFA adapters, with the kernel's word for their state."""
    root, ports = "/sys/class/infiniband", []
    for device in list_names(root):
        for port in list_names(root + "/" + device + "/ports"):
            folder = "/".join((root, device, "ports", port))
            state = read_text(folder + "/state").rpartition(":")[2].strip()
            place = pci_place(os.path.basename(os.path.realpath(root + "/" + device + "/device")))
            ports.append({"device": device, "port": port, "state": state, "no_verbs": _no_verbs(device), **place})
    return ports


def _no_verbs(device: str, root: str = "/") -> str:
    """Why this process cannot open the device file of an adapter, without which there is no RDMA; empty: it can.

    The kernel shows its adapters in every container, with or without their files.
    """
    for name in list_names(root + "sys/class/infiniband/" + device + "/device/infiniband_verbs"):
        path = root + "dev/infiniband/" + name
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            return "%s: %s" % (path, error.strerror)
    return ""


def container() -> str:
    """The kind of container that this process is in; empty: none that shows."""
    if os.path.exists("/.dockerenv"):
        return "docker"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    for name, kind in (("APPTAINER_CONTAINER", "apptainer"), ("SINGULARITY_CONTAINER", "apptainer")):
        if os.environ.get(name):
            return kind
    return "enroot" if os.environ.get("ENROOT_ROOTFS") else ""


def remove_ipc() -> bool | None:
    """Whether systemd takes a user's shared memory away when the last session ends; None: no logind here."""
    texts = [read_text("/etc/systemd/logind.conf")]
    texts += [read_text("/etc/systemd/logind.conf.d/" + name) for name in list_names("/etc/systemd/logind.conf.d")]
    if not os.path.isdir("/run/systemd/system"):
        return None
    value = None
    for text in texts:
        for match in re.finditer(r"(?m)^\s*RemoveIPC\s*=\s*(\w+)", text):
            value = match.group(1).lower() in ("yes", "true", "1", "on")
    return value


# ---- software


def library_variables() -> dict[str, str]:
    """The variables that change what libraries do, and the lines of NCCL's own files."""
    values = {name: value for name, value in os.environ.items() if _is_reported(name)}
    for name, value, path in nccl_conf():
        values.setdefault(name, value + " (" + path + ")")
    return values


def nccl(torch: str) -> str | None:
    """The version of the NCCL that was installed with torch; None where it has none of its own."""
    for name in list_names(os.path.dirname(torch)):
        match = re.match(r"nvidia_nccl_cu\d+-([\d.]+)\.dist-info$", name)
        if match:
            return match.group(1)
    return None


def cuda(torch: str) -> str | None:
    """The CUDA that torch was built for; None: for none."""
    match = re.search(r"(?m)^cuda(?:: [^=]+)? = '([^']+)'", read_text(torch + "/version.py"))
    return match.group(1) if match else None


def driver() -> str | None:
    """The version of NVIDIA's kernel driver."""
    match = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]+)", read_text("/proc/driver/nvidia/version"))
    return match.group(1) if match else None
