"""Files of the kernel on nodes with AMD's GPUs. No machine with one was at hand. Identities are changed.

Sources of the values:
- KFD: the recorded topology of a node with 8 x MI308X, each in 4 partitions: ROCm/k8s-device-plugin,
  testdata/topology-parsing-mi308. Partitions of a GPU have its unique_id, and a render node each.
- Name, temperature, power and its cap: `rocm-smi -a` with driver 6.7.0 on 4 x MI300X: thamada/nvidia-smi,
  gls/MI300X_x4_smi.py.
- Memory: `rocm-smi --showmeminfo vram` of ROCm 7.2 on 8 x MI308X: modelscope/ms-swift, BestPractices/AMD-support.md.
- Errors of the memory: the file that `amd-smi` reads (ROCm/amdsmi), with the deferred errors of newer kernels.
The names of the files are those of the kernel's documentation of amdgpu.
"""

from __future__ import annotations

from pathlib import Path

KFD = """simd_count {2}
gfx_target_version 90402
vendor_id 4098
device_id {3}
location_id {4}
domain 0
drm_render_minor {0}
unique_id {1}
num_xcc {5}
"""
ID = 7809984429061111109
FILES = {
    "product_name": "AMD Instinct MI300X OAM",
    "mem_info_vram_used": "297611264",
    "mem_info_vram_total": "206141652992",
    "gpu_busy_percent": "0",
    "hwmon__hwmon7__name": "amdgpu",
    "hwmon__hwmon7__temp2_input": "35000",
    "hwmon__hwmon7__power1_cap": "750000000",
    "hwmon__hwmon7__power1_input": "133000000",
    "current_link_width": "16",
    "max_link_width": "16",
    "ras__umc_err_count": "ue: 0\nce: 0\nde: 0",
}


def _topology(root: Path, number: int, gpu_id: int, properties: str) -> None:
    node = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
    node.mkdir(parents=True)
    (node / "gpu_id").write_text(f"{gpu_id}\n")
    (node / "properties").write_text(properties)


def mi300x(root: Path, **odd: str) -> str:
    """A node of 8 MI300X; the fourth has the changes: names of files with `__` for `/`."""
    for number in range(10):  # the first two are CPUs
        if number < 2:
            _topology(root, number, 0, "cpu_cores_count 96\n")
            continue
        _topology(root, number, 42698 + number, KFD.format(126 + number, ID + number, 1216, 29857, number << 8, 8))
        device = root / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        for name, text in {**FILES, **(odd if number == 5 else {})}.items():
            file = device / name.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
        drm = root / f"sys/class/drm/renderD{126 + number}"
        drm.mkdir(parents=True)
        (drm / "device").symlink_to(device)
    return f"{root}/"


def mi308x_partitions(root: Path) -> str:
    """A node of 8 MI308X in mode CPX: 32 devices. Partitions after the first of a GPU are no PCI devices."""
    (root / "dev/dri").mkdir(parents=True)
    for number in range(34):
        gpu, part = divmod(number - 2, 4)
        if number < 2:
            _topology(root, number, 0, "cpu_cores_count 96\n")
            continue
        _topology(
            root, number, 42698 + number, KFD.format(126 + number, ID + gpu, 80, 29858, 2560 + gpu * 256 + part, 1)
        )
        (root / f"dev/dri/renderD{126 + number}").touch()
        name = f"platform/amdgpu_xcp.{number}" if part else f"pci0000:00/0000:{10 + gpu:02x}:00.0"
        device = root / "sys/devices" / name
        device.mkdir(parents=True)
        drm = root / f"sys/class/drm/renderD{126 + number}"
        drm.mkdir(parents=True)
        (drm / "device").symlink_to(device)
    return f"{root}/"
