"""Number of GPUs of this process, from the files of the drivers of NVIDIA and AMD. Made trees; no torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddpkit.node import probe


def nvidia(root: Path, *, listed: int, files: int) -> None:
    for number in range(listed):
        (root / f"proc/driver/nvidia/gpus/0000:{number:02x}:00.0").mkdir(parents=True)
    (root / "dev").mkdir()
    for name in ["nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(files))] if files else []:
        (root / "dev" / name).touch()


@pytest.mark.parametrize(
    ("listed", "files", "count"),
    [
        (8, 8, 8),
        (8, 1, 1),  # a container of CDI: it masks /proc/driver/nvidia/params alone (nvidia-container-toolkit#1833)
        (8, 0, 0),  # a container without GPUs that shows the host's /proc
        (0, 2, 2),  # WSL and others list none
        (0, 0, 0),
    ],
)
def test_a_gpu_of_nvidia_has_a_device_file(listed: int, files: int, count: int, tmp_path: Path) -> None:
    nvidia(tmp_path, listed=listed, files=files)
    assert probe.gpus({}, str(tmp_path)) == count
    assert probe.gpus({"CUDA_VISIBLE_DEVICES": "0"}, str(tmp_path)) == min(count, 1)


def test_before_their_first_use_the_files_are_missing(tmp_path: Path) -> None:
    nvidia(tmp_path, listed=4, files=0)
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/nvidia-modprobe").touch()
    assert probe.gpus({}, str(tmp_path)) == 4


@pytest.mark.parametrize(
    ("rendered", "count"),
    [
        ((128, 136, 144, 152), 4),
        ((136,), 1),  # --device=/dev/dri/renderD136
        ((), 0),
    ],
)
def test_a_gpu_of_amd_has_a_device_file(rendered: tuple[int, ...], count: int, tmp_path: Path) -> None:
    """Two processors and four GPUs, as /sys/class/kfd shows them on MI300X: every eighth render node."""
    (tmp_path / "dev/dri").mkdir(parents=True)
    for minor in rendered:
        (tmp_path / f"dev/dri/renderD{minor}").touch()
    for number in range(6):
        node = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        gpu = number >= 2
        (node / "gpu_id").write_text(f"{28851 + number if gpu else 0}\n")
        minor = 128 + 8 * (number - 2) if gpu else 0
        (node / "properties").write_text(f"cpu_cores_count {0 if gpu else 96}\ndrm_render_minor {minor}\n")
    assert probe.gpus({}, str(tmp_path)) == count


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [("ZE_AFFINITY_MASK", "3", 1), ("ASCEND_RT_VISIBLE_DEVICES", "0,1", 2), ("ROCR_VISIBLE_DEVICES", "", 0)],
)
def test_every_variable_cuts_the_devices_down(name: str, value: str, count: int, tmp_path: Path) -> None:
    assert probe.gpus({"DDPKIT_GPUS": "8", name: value}, str(tmp_path)) == count


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: cc")
@pytest.mark.parametrize(("code", "version"), [("*version = 12080; return 0;", "12.8"), ("return 100;", "None")])
def test_the_cuda_of_the_loaded_driver(code: str, version: str, tmp_path: Path) -> None:
    """A library of forward compatibility stands before the driver's own."""
    (tmp_path / "cuda.c").write_text(f"int cuDriverGetVersion(int *version) {{ {code} }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "libcuda.so.1", "cuda.c"], cwd=tmp_path, check=True)
    program = "from ddpkit.node.gpu_inventory import gpu_host; print(gpu_host()['cuda_driver'])"
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == version
