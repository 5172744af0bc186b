"""Files of the kernel on a node with AMD's GPUs. No machine with one was at hand."""

from __future__ import annotations

from pathlib import Path

# KFD's properties of an MI100, as recorded for the tests of a monitoring tool (pyfakefs, "arcturus"); the other files
# after the kernel's documentation of amdgpu. For MI300X, the name and the count are changed.
KFD = "simd_count 480\ngfx_target_version 90008\nvendor_id 4098\ndomain 0\ndrm_render_minor {0}\nunique_id {1}\n"


def mi300x(root: Path, **odd: str) -> str:
    """A node of 8 MI300X; the fourth has the changes: names of files with `__` for `/`."""
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    for number in range(10):  # the first two are CPUs
        (nodes / str(number)).mkdir(parents=True)
        (nodes / str(number) / "gpu_id").write_text(f"{42698 + number if number > 1 else 0}\n")
        properties = KFD.format(126 + number, 7809984429061111109 + number) if number > 1 else "cpu_cores_count 96\n"
        (nodes / str(number) / "properties").write_text(properties)
        if number > 1:
            device = root / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
            files = {"product_name": "AMD Instinct MI300X", "mem_info_vram_used": "297639936"}
            files |= {"mem_info_vram_total": "206141652992", "gpu_busy_percent": "97", "hwmon__hwmon7__name": "amdgpu"}
            files |= {"hwmon__hwmon7__temp2_input": "64000", "hwmon__hwmon7__power1_cap": "750000000"}
            files |= {"hwmon__hwmon7__power1_input": "612340000"}
            files |= {"current_link_width": "16", "max_link_width": "16", "ras__umc_err_count": "ue: 0\nce: 0"}
            for name, text in {**files, **(odd if number == 5 else {})}.items():
                file = device / name.replace("__", "/")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text + "\n")
            drm = root / f"sys/class/drm/renderD{126 + number}"
            drm.mkdir(parents=True)
            (drm / "device").symlink_to(device)
    return f"{root}/"
