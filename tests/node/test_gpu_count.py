"""Number of GPUs of this process, from the files of the drivers of NVIDIA and AMD. Made trees; no torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddpkit.node.calls import gpus, probe


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
    program = "from ddpkit.node.calls.gpu_inventory import gpu_host; print(gpu_host()['cuda_driver'])"
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == version


# ---- GPUs that one process does not see, and ranks where nobody says how many


def modelled(root: Path, *models: str, mig: int | None = None) -> str:
    """GPUs of NVIDIA of these models; `mig`: the minor number of the one that has two MIG instances."""
    (root / "dev").mkdir()
    for number, model in enumerate(models):
        bus = root / f"proc/driver/nvidia/gpus/0000:{number:02x}:00.0"
        bus.mkdir(parents=True)
        text = f"Model: \t\t {model}\nGPU UUID: \t GPU-0000000{number}\nDevice Minor: \t {number}\n"
        (bus / "information").write_text(text)
        (root / f"dev/nvidia{number}").touch()
        folder = root / f"proc/driver/nvidia/capabilities/gpu{number}/mig"
        folder.mkdir(parents=True)
        for instance in ("gi1", "gi2") if number == mig else ():
            (folder / instance / "ci0").mkdir(parents=True)
    return str(root)


A100, DISPLAY = "NVIDIA A100-SXM4-80GB", "NVIDIA DGX Display"
ONE_INSTANCE = "MIG is on, and a process sees one instance: one rank"
NO_DISPLAY = f"one rank for each {A100}, and none for 1 x {DISPLAY}; for all GPUs: -n 5"


@pytest.mark.parametrize(
    ("models", "mig", "environ", "seen", "ranks", "note"),
    [
        ([A100] * 4, None, {}, 4, 4, ""),
        ([A100] * 8, 0, {}, 1, 1, ONE_INSTANCE),  # CUDA sees one instance, and no whole GPU beside it
        ([A100] * 8, 0, {"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b,MIG-c"}, 1, 1, ONE_INSTANCE),
        ([A100] * 8, 0, {"CUDA_VISIBLE_DEVICES": "2,3"}, 2, 2, ""),  # a job with two whole GPUs
        ([A100] * 8, 0, {"DDPKIT_GPUS": "3"}, 3, 3, ""),
        ([A100, DISPLAY, *[A100] * 3], None, {}, 5, 4, NO_DISPLAY),  # DGX Station A100
        ([A100, DISPLAY, *[A100] * 3], None, {"CUDA_VISIBLE_DEVICES": "0,1"}, 2, 2, ""),
        (["RTX A6000", "RTX A6000", "RTX 3090", "RTX 3090"], None, {}, 4, 4, ""),  # neither is the odd one
    ],
)
def test_ranks_where_nobody_says_how_many(
    models: list[str], mig: int | None, environ: dict[str, str], seen: int, ranks: int, note: str, tmp_path: Path
) -> None:
    """Eight ranks once shared one MIG instance, and a display had a rank."""
    root = modelled(tmp_path, *models, mig=mig)
    assert probe.gpus(environ, root) == seen
    assert probe.gpu_ranks(environ, root) == (ranks, note)


@pytest.mark.parametrize(
    ("environ", "near"),
    [({}, []), ({"CUDA_VISIBLE_DEVICES": "1"}, []), ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [0, 1]),
     ({"CUDA_VISIBLE_DEVICES": "GPU-00000001"}, [1])],
)  # fmt: skip
def test_the_order_of_several_models_is_cudas(environ: dict[str, str], near: list[int], tmp_path: Path) -> None:
    """CUDA puts the fastest first: a rank was bound to the processors of another GPU."""
    root = modelled(tmp_path, DISPLAY, A100)
    for number in range(2):
        node = tmp_path / f"sys/devices/system/node/node{number}"
        node.mkdir(parents=True)
        (node / "cpulist").write_text(f"{number}")
        device = tmp_path / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{number}\n")
    assert gpus.read_topology(environ, {0, 1}, root)["gpus"] == near


@pytest.mark.parametrize(("quota", "count"), [("3200000 100000", 32), ("50000 100000", 1), ("max 100000", 192)])
def test_processors_are_no_more_than_their_time(
    quota: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod with a quota of 32 of 192 processors has all 192 in its set. Its ranks once got the threads of the host."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(192)))
    above = tmp_path / "sys/fs/cgroup/pod"
    (above / "container").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/pod/container\n")
    (above / "cpu.max").write_text(quota)
    (above / "container/cpu.max").write_text("max 100000")
    assert probe.cpus(str(tmp_path)) == count
