"""AMD's GPUs of a node, from the files of their kernel driver. No tool is needed, and nothing starts the driver.

Sources: kernel documentation, gpu/amdgpu and hwmon; /sys/class/kfd lists topology and processes.
Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import os

from ddpkit.node.cpu_topology import kfd_gpus, list_names, read_text

UNKNOWN = "[N/A]"  # as nvidia-smi prints it


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
        uuid = "GPU-%x" % int(number) if number.isdigit() else key
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
        if size.isdigit() and int(size):
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
        if text.isdigit():
            return str(round(int(text) / unit, 2))
    return UNKNOWN
