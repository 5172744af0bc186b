"""CPUs of each rank on machines whose topology others posted, and on one whose ranks really run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpkit.launchers.cpu_binding import NumaNode, Topology, cpu_sets, format_cpus, python_code, threads
from ddpkit.node.calls import gpus, probe
from ddpkit.node.calls.gpus import numbers


def machine(nodes: list[tuple[str, int]], gpus: list[int]) -> Topology:
    return Topology(tuple(NumaNode(frozenset(numbers(cpus)), socket) for cpus, socket in nodes), tuple(gpus))


XEON = [("0-55,112-167", 0), ("56-111,168-223", 1)]
# `nvidia-smi topo -m`, vllm-project/vllm#13855.
DGX_H100 = machine(XEON, [0, 0, 0, 0, 1, 1, 1, 1])
# The same, sgl-project/sglang#9064.
HGX_B200 = machine(XEON, [0, 0, 0, 0, 1, 1, 1, 1])
# Two AMD EPYC 7742 with four NUMA nodes each; four of the eight have GPUs: rapidsai/dask-cuda#1358, NVIDIA/nccl#1505.
DGX_A100 = machine(
    [(f"{16 * node}-{16 * node + 15},{128 + 16 * node}-{143 + 16 * node}", node // 4) for node in range(8)],
    [3, 3, 1, 1, 7, 7, 5, 5],
)
# A NUMA node for each PCIe root: sgl-project/sglang#40055 has the GPUs' nodes; the CPUs of each are our own.
SIX_NODES = machine([(f"{16 * node}-{16 * node + 15}", node // 3) for node in range(6)], [0, 0, 2, 2, 3, 3, 5, 5])
# `rocm-smi --showtoponuma`, ROCm/legacy-rocm-build#4740; two sockets of 96 cores.
MI300X = machine([("0-95,192-287", 0), ("96-191,288-383", 1)], [0, 0, 0, 0, 1, 1, 1, 1])
# Nodes of the GPUs' memory have no CPU: bytedance/xpu-perf#129.
GH200 = machine([("0-71", 0), *[("", -1)] * 8], [0])
GB200 = machine([("0-71", 0), ("72-143", 1)], [0, 0, 1, 1])  # ishandhanani/srt-slurm#164
CPU_ONLY = machine([("0-15,32-47", 0), ("16-31,48-63", 1)], [])
# A job with 32 CPUs of the first socket, and all GPUs: rapidsai/dask-cuda#1381.
ONE_SIDED = machine([("0-15,56-71", 0), ("", -1)], [0, 0, 0, 0, 1, 1, 1, 1])
SOCKETS = ("0-63,128-191", "64-127,192-255")

CASES = {
    "DGX H100": (DGX_H100, 8, "auto", [XEON[0][0]] * 4 + [XEON[1][0]] * 4),
    "DGX H100, four ranks on one socket would lose the other": (DGX_H100, 4, "auto", []),
    "DGX H100, as requested": (DGX_H100, 4, "node", [XEON[0][0]] * 4),
    "DGX H100, off": (DGX_H100, 8, "off", []),
    "HGX B200": (HGX_B200, 8, "auto", [XEON[0][0]] * 4 + [XEON[1][0]] * 4),
    "DGX A100, half of its nodes have no GPU": (DGX_A100, 8, "auto", [SOCKETS[0]] * 4 + [SOCKETS[1]] * 4),
    "DGX A100, as requested": (DGX_A100, 2, "node", ["48-63,176-191"] * 2),
    "six nodes": (SIX_NODES, 8, "auto", ["0-47"] * 4 + ["48-95"] * 4),
    "MI300X": (MI300X, 8, "auto", ["0-95,192-287"] * 4 + ["96-191,288-383"] * 4),
    "GH200": (GH200, 1, "auto", []),
    "GB200": (GB200, 4, "auto", ["0-71", "0-71", "72-143", "72-143"]),
    "no GPUs": (CPU_ONLY, 4, "auto", []),
    "no GPUs, in blocks": (CPU_ONLY, 4, "node", ["0-15,32-47"] * 2 + ["16-31,48-63"] * 2),
    "no GPUs, one rank": (CPU_ONLY, 1, "socket", ["0-15,32-47"]),
    "more ranks than GPUs": (GB200, 8, "auto", []),
    "CPUs of one socket": (ONE_SIDED, 8, "auto", []),
    "CPUs of one socket, as requested": (ONE_SIDED, 8, "node", []),
    "nothing known": (Topology(), 8, "node", []),
}


@pytest.mark.parametrize("name", CASES)
def test_cpus_of_each_rank(name: str) -> None:
    topology, slots, numa, wanted = CASES[name]
    assert [format_cpus(each) for each in cpu_sets(topology, slots, numa)] == wanted  # type: ignore[arg-type]


def test_threads_are_a_share_of_the_ranks_own_cpus() -> None:
    assert threads((), 224, 8) == 28
    assert threads(cpu_sets(DGX_H100, 8, "auto"), 224, 8) == 28
    assert threads(cpu_sets(DGX_A100, 8, "node"), 256, 8) == 16
    assert threads((), 2, 4) == 1


# ---- sysfs and drivers


def tree(root: Path, topology: Topology, driver: str) -> Path:
    """Files of a machine as its kernel and its GPU driver show them. GPU N has the PCI bus N, in hexadecimal."""
    for number, node in enumerate(topology.nodes):
        path = root / f"sys/devices/system/node/node{number}"
        path.mkdir(parents=True)
        (path / "cpulist").write_text(format_cpus(node.cpus) + "\n")
        for cpu in node.cpus:
            path = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
            path.mkdir(parents=True)
            (path / "physical_package_id").write_text(f"{node.socket}\n")
    for number, position in enumerate(topology.gpus):
        bus = f"0000:{number + 10:02X}:00.0"
        if driver == "nvidia":
            path, device = root / f"proc/driver/nvidia/gpus/{bus}", root / f"sys/bus/pci/devices/{bus.lower()}"
            path.mkdir(parents=True)
            text = f"Model: \t\t NVIDIA H100\nGPU UUID:   \t GPU-{number:08x}-0000\nDevice Minor: \t {number}\n"
            (path / "information").write_text(text)
            file = root / f"dev/nvidia{number}"
        else:
            path, device = (
                root / f"sys/class/kfd/kfd/topology/nodes/{number + 2}",
                root / f"sys/class/drm/renderD{128 + 8 * number}/device",
            )
            path.mkdir(parents=True)
            (path / "gpu_id").write_text("4660\n")
            (path / "properties").write_text(f"cpu_cores_count 0\ndrm_render_minor {128 + 8 * number}\n")
            file = root / f"dev/dri/renderD{128 + 8 * number}"
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{position}\n")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return root


ALL = set(range(512))


def seen(root: Path, environ: dict[str, str] | None = None, allowed: set[int] = ALL) -> Topology:
    return Topology.of(gpus.read_topology(environ or {}, allowed, str(root)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topology", "driver"), [(DGX_H100, "nvidia"), (DGX_A100, "nvidia"), (GH200, "nvidia"), (MI300X, "amd")]
)
def test_a_machine_is_read(tmp_path: Path, topology: Topology, driver: str) -> None:
    assert seen(tree(tmp_path, topology, driver)) == topology


@pytest.mark.parametrize(
    ("environ", "gpus"),
    [
        ({"CUDA_VISIBLE_DEVICES": "7,0"}, (1, 0)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-00000004,0"}, (1, 0)),
        ({"CUDA_VISIBLE_DEVICES": "MIG-GPU-00000005-0000/1/0"}, (1,)),
        ({"CUDA_VISIBLE_DEVICES": "MIG-5c7e0f3a-1111"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,4"}, (0,)),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "0,9"}, ()),
        ({"SLURM_JOB_GPUS": "4,5", "CUDA_VISIBLE_DEVICES": "0,1"}, (1, 1)),
        ({"SLURM_JOB_GPUS": "0,1,4,5", "SLURM_STEP_GPUS": "4", "CUDA_VISIBLE_DEVICES": "0"}, (1,)),
    ],
)
def test_visible_gpus(tmp_path: Path, environ: dict[str, str], gpus: tuple[int, ...]) -> None:
    assert seen(tree(tmp_path, DGX_H100, "nvidia"), environ).gpus == gpus


def test_a_container_has_the_files_of_its_own_gpus(tmp_path: Path) -> None:
    tree(tmp_path, DGX_H100, "nvidia")
    for number in range(4):
        (tmp_path / f"dev/nvidia{number}").unlink()
    assert seen(tmp_path).gpus == (1, 1, 1, 1)


def test_before_their_first_use_gpus_have_no_files(tmp_path: Path) -> None:
    """The number of ranks and their CPUs are from one list: both count these GPUs."""
    tree(tmp_path, DGX_H100, "nvidia")
    for number in range(8):
        (tmp_path / f"dev/nvidia{number}").unlink()
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/nvidia-modprobe").touch()
    assert seen(tmp_path).gpus == DGX_H100.gpus
    assert probe.gpus({}, str(tmp_path)) == 8


@pytest.mark.parametrize("text", ["-1", "", "9"])
def test_a_gpu_without_a_known_node_leaves_all_unbound(tmp_path: Path, text: str) -> None:
    tree(tmp_path, DGX_H100, "nvidia")
    (tmp_path / "sys/bus/pci/devices/0000:0a:00.0/numa_node").write_text(text + "\n")
    assert seen(tmp_path).gpus == ()


def test_only_allowed_cpus_count(tmp_path: Path) -> None:
    topology = seen(tree(tmp_path, DGX_H100, "nvidia"), allowed=set(range(8)))
    assert [format_cpus(node.cpus) for node in topology.nodes] == ["0-7", ""]
    assert [node.socket for node in topology.nodes] == [0, 1]


# ---- ranks that run

CHAIN = """
import sys
import ddpkit
from ddpkit.node.calls import probe
first, second = map(int, sys.argv[1:3])
nodes = [{"cpus": [first], "socket": 0}, {"cpus": [second], "socket": 1}]
probe.topology = lambda environ: {"nodes": nodes, "gpus": []}
run = ddpkit.launch("rank.py", nproc_per_node=2, options=dict(word.split("=") for word in sys.argv[3:]))
print(run.wait(), flush=True)
"""
RANK = "import json, os; open('seen.' + os.environ['RANK'], 'w').write(json.dumps(sorted(os.sched_getaffinity(0))))\n"
STARTERS = [
    "starter=ranks",
    "preload=json",
    pytest.param("starter=torchrun", marks=pytest.mark.torch),
    pytest.param("starter=legacy", marks=pytest.mark.torch),
]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("how", STARTERS)
def test_ranks_get_their_cpus(tmp_path: Path, how: str) -> None:
    (tmp_path / "chain.py").write_text(CHAIN)
    (tmp_path / "rank.py").write_text(RANK)
    cpus = sorted(os.sched_getaffinity(0))[:2]
    for numa, wanted in (("node", [[cpus[0]], [cpus[1]]]), ("auto", [sorted(os.sched_getaffinity(0))] * 2)):
        argv = [sys.executable, "chain.py", *map(str, cpus), f"numa={numa}", how]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert [json.loads((tmp_path / f"seen.{rank}").read_text()) for rank in range(2)] == wanted


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_the_statement_binds_by_local_rank() -> None:
    first, second = sorted(os.sched_getaffinity(0))[:2]
    text = python_code((frozenset([first, second]), frozenset([second])))
    code = f"import os; {text}; print(sorted(os.sched_getaffinity(0)))"
    shown = subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "LOCAL_RANK": "1"}, text=True)
    assert json.loads(shown) == [second]
