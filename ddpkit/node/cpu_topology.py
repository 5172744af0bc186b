"""NUMA nodes and sockets of this machine, and the NUMA nodes of its visible GPUs, from sysfs and the GPU drivers.

Standard library only, Python 3.8 and later. A GPU whose NUMA node is not known for certain empties the list of all.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# What torch's CUDA and ROCm read. AMD's runtime applies its own first.
_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
# SLURM hides other GPUs from a job, and counts its own from 0. These have their numbers on the machine.
_HELD = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


def read_topology(environ: Mapping[str, str], allowed: set[int], root: str = "/") -> dict[str, Any]:
    """NUMA nodes in order, and the position of the one near each visible GPU.

    Each node: its allowed CPUs, and its socket; -1: memory alone. `environ`: of the ranks. `allowed`: the CPUs of this
    process.
    """
    nodes = {}
    folder = root + "/sys/devices/system/node"
    for name in sorted(list_names(folder), key=lambda name: (len(name), name)):
        if re.match(r"node\d+$", name):
            cpus = numbers(read_text("%s/%s/cpulist" % (folder, name)))
            nodes[name[4:]] = {"cpus": sorted(cpus & allowed), "socket": _socket(cpus, root)}
    gpus = _visible(_nvidia(root, environ) or _amd(root), environ)
    order = list(nodes)
    known = all(node in nodes for node in gpus)
    return {"nodes": list(nodes.values()), "gpus": [order.index(node) for node in gpus] if known else []}


def numbers(text: str) -> set[int]:
    """The numbers of a list such as `0-3,8`. Raises ValueError."""
    listed: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        listed.update(range(int(first), int(last or first) + 1))
    return listed


def _socket(cpus: set[int], root: str) -> int:
    """A NUMA node of memory alone has none: -1."""
    for cpu in sorted(cpus):
        text = read_text("%s/sys/devices/system/cpu/cpu%d/topology/physical_package_id" % (root, cpu))
        if text:
            return int(text)
    return -1


def _nvidia(root: str, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """UUID and NUMA node of each GPU that this process may have, in the order of the PCI bus as CUDA has it."""
    gpus = []
    held = next((environ[name] for name in _HELD if environ.get(name)), "")
    wanted = set(held.split(",")) if re.match(r"\d+(,\d+)*$", held) else None
    for bus in sorted(list_names(root + "/proc/driver/nvidia/gpus")):
        text = read_text("%s/proc/driver/nvidia/gpus/%s/information" % (root, bus))
        uuid = re.search(r"^GPU UUID:\s*(\S+)", text, re.MULTILINE)
        minor = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
        if minor is None or not os.path.exists("%s/dev/nvidia%s" % (root, minor.group(1))):
            continue  # a container has the files of its own GPUs alone
        if wanted is None or minor.group(1) in wanted:
            node = read_text("%s/sys/bus/pci/devices/%s/numa_node" % (root, bus.lower()))
            gpus.append((uuid.group(1) if uuid else "", node))
    return gpus


def _amd(root: str) -> list[tuple[str, str]]:
    """GPUs of the kernel's topology whose device file is here; the UUID is empty."""
    gpus = []
    folder = root + "/sys/class/kfd/kfd/topology/nodes"
    for name in sorted(filter(str.isdigit, list_names(folder)), key=int):
        minor = re.search(r"^drm_render_minor (\d+)$", read_text("%s/%s/properties" % (folder, name)), re.MULTILINE)
        device = "renderD" + minor.group(1) if minor else ""
        if read_text("%s/%s/gpu_id" % (folder, name)) not in ("", "0") and os.path.exists(root + "/dev/dri/" + device):
            gpus.append(("", read_text("%s/sys/class/drm/%s/device/numa_node" % (root, device))))
    return gpus


def _visible(gpus: list[tuple[str, str]], environ: Mapping[str, str]) -> list[str]:
    """NUMA nodes of the GPUs that the variables select, in their order; empty: one of them is not known."""
    for name in _VISIBLE:
        if name in environ:
            chosen = []
            for entry in map(str.strip, environ[name].split(",")):
                if entry in ("", "-1", "NoDevFiles"):
                    break  # it ends the list, for CUDA as well
                if entry.isdigit() and int(entry) < len(gpus):
                    chosen.append(gpus[int(entry)])
                    continue
                # An older MIG device's name has the GPU's: MIG-GPU-<uuid>/1/0.
                uuid = entry[4:].partition("/")[0] if entry.startswith("MIG-GPU-") else entry
                same = [gpu for gpu in gpus if uuid.startswith("GPU-") and gpu[0].startswith(uuid)]
                if len(same) != 1:
                    return []
                chosen.append(same[0])
            gpus = chosen
    return [node for _, node in gpus]


def list_names(folder: str) -> list[str]:
    """Names in a directory; empty if it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def read_text(path: str) -> str:
    """Text of a file of the kernel, stripped; empty if it cannot be read."""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
