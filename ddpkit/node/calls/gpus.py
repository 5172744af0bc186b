"""GPUs of this machine with its NUMA nodes and sockets, from sysfs and the files of the GPU drivers. No tool is needed.

Sources: kernel documentation, gpu/amdgpu and hwmon; /sys/class/kfd lists topology and processes of AMD's GPUs.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import namedtuple

from ddpkit.node.kernel import list_names, read_link, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Each cuts down the devices that a process sees. AMD's runtime applies its own first; torch's ROCm and CUDA follow.
VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
VISIBLE_ELSEWHERE = ("ZE_AFFINITY_MASK", "ASCEND_RT_VISIBLE_DEVICES")  # Intel, Huawei
# SLURM hides other GPUs from a job, and counts its own from 0. These have their numbers on the machine.
_HELD = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
FIRST_SPACE = "pid:[4026531836]"  # the process namespace of the machine itself (PROC_PID_INIT_INO)
UNKNOWN = "[N/A]"  # as nvidia-smi prints it

# minor: the number of its device file. node: NUMA node. All are text, empty where it is not known.
Gpu = namedtuple("Gpu", "minor uuid node model")


def read_topology(environ: Mapping[str, str], allowed: set[int], root: str = "/") -> dict[str, Any]:
    """NUMA nodes in order, and the position of the one near each visible GPU; none where one is not known for certain.

    Each node: its allowed CPUs, and its socket; -1: memory alone. `environ`: of the ranks. `allowed`: the CPUs of this
    process.
    """
    nodes = {}
    folder = root + "/sys/devices/system/node"
    for name in sorted(list_names(folder), key=lambda name: (len(name), name)):
        if re.match(r"node\d+$", name):
            cpus = numbers(read_text("%s/%s/cpulist" % (folder, name)))
            nodes[name[4:]] = {"cpus": sorted(cpus & allowed), "socket": _socket(cpus, root)}
    gpus = _visible(list_gpus(root), environ)
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


def list_gpus(root: str = "/") -> list[Gpu]:
    """GPUs whose device file is here: NVIDIA's, else AMD's.

    They have the order of the PCI bus, as CUDA has those of one model. A container has the files of its own GPUs alone.
    Empty: not known.
    """
    return _nvidia(root) or _amd(root)


def has_mig(root: str = "/") -> bool:
    """Return whether a GPU whose device file is here is split into MIG instances. CUDA then sees one instance alone."""
    folder = root + "/proc/driver/nvidia/capabilities/"
    return any(
        re.match(r"gi\d+$", name)
        for gpu in list_names(folder)
        if re.match(r"gpu\d+$", gpu) and os.path.exists("%s/dev/nvidia%s" % (root, gpu[3:]))
        for name in list_names(folder + gpu + "/mig")
    )


def _nvidia(root: str) -> list[Gpu]:
    """Before their first use a machine may lack the files. nvidia-modprobe makes them, and is not in containers."""
    files = [name[6:] for name in list_names(root + "/dev") if re.match(r"nvidia\d+$", name)]
    listed = []
    for bus in list_names(root + "/proc/driver/nvidia/gpus"):
        text = read_text("%s/proc/driver/nvidia/gpus/%s/information" % (root, bus))
        names = ("Device Minor", "GPU UUID", "Model")
        fields = [re.search(r"^%s:[ \t]*(\S.*)" % name, text, re.MULTILINE) for name in names]
        minor, uuid, model = [field.group(1).strip() if field else "" for field in fields]
        node = read_text("%s/sys/bus/pci/devices/%s/numa_node" % (root, bus.lower()))
        listed.append(Gpu(minor, uuid, node, model))
    if not listed:  # as on WSL
        return [Gpu(minor, "", "", "") for minor in files]
    if not files:
        return listed if os.path.exists(root + "/usr/bin/nvidia-modprobe") else []
    if not all(gpu.minor for gpu in listed):
        return [Gpu("", "", "", "")] * min(len(listed), len(files))
    return [gpu for gpu in listed if gpu.minor in files]


def _amd(root: str) -> list[Gpu]:
    gpus = []
    for _, properties in kfd_gpus(root):
        device = "renderD" + properties.get("drm_render_minor", "")
        if device == "renderD" or os.path.exists(root + "/dev/dri/" + device):  # an old kernel tells no minor
            gpus.append(Gpu("", "", read_text("%s/sys/class/drm/%s/device/numa_node" % (root, device)), ""))
    return gpus


def kfd_gpus(root: str = "/") -> list[tuple[str, dict[str, str]]]:
    """Id and properties of AMD's GPUs in the kernel's topology. CPUs have the id 0, and GPUs of others have none."""
    folder = root + "/sys/class/kfd/kfd/topology/nodes/"
    gpus = []
    for name in sorted(filter(str.isdigit, list_names(folder)), key=int):
        gpu_id, lines = read_text(folder + name + "/gpu_id"), read_text(folder + name + "/properties").splitlines()
        if gpu_id not in ("", "0"):
            gpus.append((gpu_id, dict(line.split(None, 1) for line in lines if " " in line)))
    return gpus


def visible_entries(text: str) -> list[str]:
    """Devices that a variable such as CUDA_VISIBLE_DEVICES names. The first entry that is none ends it, as for CUDA."""
    entries = map(str.strip, text.split(","))
    return list(itertools.takewhile(lambda entry: entry not in ("", "-1", "NoDevFiles"), entries))


def _visible(gpus: list[Gpu], environ: Mapping[str, str]) -> list[str]:
    """NUMA nodes of the GPUs that the variables select, in their order; empty: one of them is not known.

    CUDA puts the fastest of several models first, unless CUDA_DEVICE_ORDER says otherwise: then no index is known.
    """
    mixed = len({gpu.model for gpu in gpus}) > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
    held = next((environ[name] for name in _HELD if environ.get(name)), "")
    if re.match(r"\d+(,\d+)*$", held):  # minor numbers of NVIDIA's; AMD's driver lists the held ones alone
        gpus = [gpu for gpu in gpus if gpu.minor in ("", *held.split(","))]
    for name in VISIBLE:
        if name in environ:
            chosen = []
            for entry in visible_entries(environ[name]):
                if entry.isdecimal() and int(entry) < len(gpus) and not mixed:
                    chosen.append(gpus[int(entry)])
                    continue
                # An older MIG device's name has the GPU's: MIG-GPU-<uuid>/1/0.
                uuid = entry[4:].partition("/")[0] if entry.startswith("MIG-GPU-") else entry
                same = [gpu for gpu in gpus if uuid.startswith("GPU-") and gpu.uuid.startswith(uuid)]
                if len(same) != 1:
                    return []
                chosen.append(same[0])
            gpus, mixed = chosen, False
    return [] if mixed else [gpu.node for gpu in gpus]


def inside() -> bool:
    """Whether this process has a process namespace of its own."""
    return read_link("/proc/self/ns/pid") not in ("", FIRST_SPACE)


# ---- AMD's GPUs; nothing starts their driver


class AmdGpu:
    """A GPU. `key`: its number in /sys/class/kfd; `device`: its directory in sysfs."""

    def __init__(self, key: str, uuid: str, name: str, device: str) -> None:
        self.key, self.uuid, self.name, self.device = key, uuid, name, device


def list_amd_gpus(root: str = "/") -> list[AmdGpu]:
    """Return the GPUs in the order of the topology. A container has the device files of its own alone."""
    gpus: list[AmdGpu] = []
    for key, properties in kfd_gpus(root):
        minor, number = properties.get("drm_render_minor", ""), properties.get("unique_id", "")
        if os.path.isdir(root + "dev/dri") and not os.path.exists(root + "dev/dri/renderD" + minor):
            continue
        uuid = "GPU-%x" % int(number) if number.isdecimal() else key
        before = sum(gpu.uuid.partition("/")[0] == uuid for gpu in gpus)  # partitions of one GPU have its number
        uuid += "/%d" % before if before else ""
        device = root + "sys/class/drm/renderD" + minor + "/device"
        name = read_text(device + "/product_name") or "AMD gfx" + properties.get("gfx_target_version", "")
        gpus.append(AmdGpu(key, uuid, name, device))
    return gpus


def memory_by_process(gpu: AmdGpu, root: str = "/") -> dict[str, int]:
    """Return the bytes of the GPU's memory that each process uses."""
    folder, used = root + "sys/class/kfd/kfd/proc/", {}
    for pid in filter(str.isdigit, list_names(folder)):
        size = read_text(folder + pid + "/vram_" + gpu.key)
        if size.isdecimal() and int(size):
            used[pid] = int(size)
    return used


def sample_amd_gpus(root: str = "/") -> tuple[list[list[str]], list[list[str]]] | None:
    """Rows of the GPUs, and of the processes that use them, with the fields and units of `nvidia-smi`; None: no GPU."""
    gpus = list_amd_gpus(root)
    rows, users = [], []
    for index, gpu in enumerate(gpus):
        bus = os.path.basename(os.path.realpath(gpu.device))
        monitors = [gpu.device + "/hwmon/" + name for name in list_names(gpu.device + "/hwmon")]
        monitor = monitors[0] if monitors else ""
        rows.append(
            [
                str(index), gpu.uuid, bus, gpu.name, read_text(gpu.device + "/gpu_busy_percent") or UNKNOWN,
                _scaled(1 << 20, gpu.device + "/mem_info_vram_used"),
                _scaled(1 << 20, gpu.device + "/mem_info_vram_total"),
                # The junction, the hottest place. MI300 has no sensor at the edge.
                _scaled(1000, monitor + "/temp2_input", monitor + "/temp1_input"),
                _scaled(1000000, monitor + "/power1_average", monitor + "/power1_input"),
                _scaled(1000000, monitor + "/power1_cap"),
            ]
        )  # fmt: skip
        users += [[gpu.uuid, bus, pid, str(size >> 20)] for pid, size in memory_by_process(gpu, root).items()]
    return (rows, users) if gpus else None


def _scaled(unit: int, *files: str) -> str:
    """Return the first number that one of the files has, in units."""
    for file in files:
        text = read_text(file)
        if text.isdecimal():
            return str(round(int(text) / unit, 2))
    return UNKNOWN
