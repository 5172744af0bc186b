"""From GPUs to findings: outputs of nvidia-smi that a program of that name gives here, and facts of nodes.

Outputs go the whole way: the program, `gpu_inventory.nvidia_smi`, and the checks. `gpu_outputs.py` has their sources.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gpu_outputs as outputs
import pytest
from amd_node import mi300x, mi308x_partitions
from gpu_outputs import A100, A100_MIG, H100, uuid
from test_compatibility import facts as look
from test_node_checks import NO_GPU_HOST, gathered

from ddpkit.diagnosis.outcome import Failure, Outcome
from ddpkit.launchers.plan import Plan, Proc, RankStarter, Step
from ddpkit.node.calls import gpu_inventory, probe
from ddpkit.preflight import rank_checks
from ddpkit.preflight.check import Check, Node
from ddpkit.preflight.gpu_checks import check_gpus, visible
from ddpkit.preflight.node_checks import LOADED, check_driver, check_nccl, check_nodes, join_nccl, loaded_nccl
from ddpkit.preflight.rank_program import ProgramRun
from ddpkit.preflight.resource_checks import check_infiniband, closest_adapters

PROGRAM = """#!/bin/sh
case "$*" in
"-q -x") {everything} ;;
"nvlink --status") cat {folder}/links ;;
*) echo "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."; exit 2 ;;
esac
"""
ME = str(os.getpid())
PROCESS = {"pid": ME, "type": "C", "process_name": "/usr/bin/python3", "used_memory": "40310 MiB"}
MPS = {"pid": ME, "type": "C", "process_name": "nvidia-cuda-mps-server", "used_memory": "30 MiB"}
SCREEN = {"pid": ME, "type": "G", "process_name": "/usr/lib/xorg/Xorg", "used_memory": "9 MiB"}
BUSES = [f"0000:{0x17 + 8 * index:02x}:00.0" for index in range(8)]
# Elements as in the recorded output of this directory; values: gpud#1106.
RACK = {**outputs.GB200, "fabric/cliqueId": "32766", "fabric/clusterUuid": "f2a7d1c4-3b5e-4f60-9d21-7c8e9a0b1c2d"}
Gpus = list[tuple[outputs.Table, Sequence[outputs.Table]]]


def gpu(table: outputs.Table, *processes: outputs.Table, **changes: str) -> tuple[outputs.Table, Sequence[Any]]:
    """A GPU; a change names the last part of an element's path."""
    changed = {path: changes.pop(path.rpartition("/")[2], value) for path, value in table.items()}
    assert not changes, "no such element"
    return changed, processes


def gpus(number: int, table: outputs.Table, **odd: str) -> Gpus:
    """Equal GPUs; the fourth has the changes."""
    return [gpu(table, **(odd if index == 3 else {})) for index in range(number)]


@dataclass(frozen=True, kw_only=True)
class Row:
    gpus: Gpus
    slots: int = 1
    known: int = 0  # GPUs by the driver's own list
    links: Sequence[int] = ()
    everything: str = "cat {folder}/gpus"
    host: dict[str, Any] = field(default_factory=dict)  # changes of the node's own facts
    ports: int = 0  # active InfiniBand ports
    isolated: bool = False
    status: str = "pass"
    evidence: str = ""
    cause: str = ""
    fix: str = ""
    doc: str = ""


def found(status: str) -> Callable[..., Row]:
    """Make rows of this status. Without `slots` there are as many ranks as GPUs."""

    def row(gpus: Gpus, evidence: str, fix: str = "", doc: str = "", **more: Any) -> Row:
        return Row(
            **{"slots": max(1, len(gpus)), **more}, gpus=gpus, status=status, evidence=evidence, fix=fix, doc=doc
        )

    return row


warn, fail, skip, unknown = map(found, ("warn", "fail", "skip", "unknown"))


HEALTHY = {
    "8 x H100": Row(gpus=gpus(8, H100), slots=8, known=8, links=[18] * 8, evidence="8 x NVIDIA H100 80GB HBM3"),
    "H100 PCIe, no fabric": Row(gpus=gpus(4, outputs.H100_PCIE), slots=4, evidence="4 x NVIDIA H100 PCIe"),
    "H200": Row(gpus=gpus(8, outputs.H200), slots=8, links=[18] * 8, evidence="8 x NVIDIA H200"),
    "B200": Row(gpus=gpus(8, outputs.B200), slots=8, evidence="8 x NVIDIA B200"),
    "GB200": Row(gpus=gpus(4, outputs.GB200), slots=4, evidence="4 x NVIDIA GB200"),
    "refused fields": Row(gpus=gpus(2, outputs.RTX_PRO), slots=2, evidence="2 x NVIDIA RTX PRO 6000"),
    "old driver, one rank": Row(gpus=gpus(1, outputs.GTX_1080), evidence="1 x GeForce GTX 1080"),
    "vGPU": Row(gpus=[gpu(outputs.VGPU, SCREEN, license_status="Licensed")], evidence="1 x NVIDIA RTXA6000-24Q"),
    "MIG, one rank": Row(gpus=[gpu(A100_MIG)], evidence="1 x NVIDIA A100-SXM4-80GB"),
    "MPS": Row(gpus=[gpu(H100, MPS, compute_mode="Exclusive_Process")], evidence="1 x NVIDIA H100"),
    "a screen": Row(gpus=[gpu(outputs.GTX_1080, SCREEN)], evidence="1 x GeForce"),
    "hidden by a cgroup": Row(gpus=gpus(2, H100), slots=2, known=8, host={"listed": BUSES[:2]}, evidence="2 x NVIDIA"),
    "half the lanes by design": Row(
        gpus=gpus(4, {**H100, "pci/pci_gpu_link_info/link_widths/current_link_width": "8x"})
    ),
    "page cache in GPU memory": Row(
        gpus=[gpu({**outputs.GB200, "fb_memory_usage/used": "40321 MiB", "addressing_mode": "ATS"})]
    ),
    "one node of an NVLink domain": Row(gpus=gpus(4, RACK), slots=4, host={"imex": ["channel0"]}),
    "peermem": Row(gpus=gpus(2, H100), slots=2, ports=8, host={"direct": "nvidia_peermem"}, evidence="2 x"),
    "dma-buf": Row(gpus=gpus(2, H100), slots=2, ports=8, host={"direct": "dma-buf"}, evidence="2 x"),
    "GeForce has no GPUDirect": Row(
        gpus=gpus(2, {**outputs.GTX_1080, "persistence_mode": "Enabled"}), slots=2, ports=1
    ),
    "no ACS": Row(gpus=gpus(2, H100), slots=2, host={"redirects": 0}),
}
FAULTS = {
    "MIG": warn(
        [gpu(A100_MIG, persistence_mode="Enabled"), gpu(A100), gpu(A100), gpu(A100)],
        "MIG is on: GPU 0",
        "-mig 0",
        "duplicate-gpu",
    ),
    # G02
    "too few": fail(gpus(4, A100), "4 GPUs, and 8 ranks", "-n 4", "invalid-device-ordinal", slots=8),
    "one GPU per task": warn(
        gpus(1, H100),
        "each of 8 ranks sees only its own GPU",
        "--gpu-bind=none",
        "gpus-isolated",
        slots=8,
        known=8,
        isolated=True,
    ),
    # G11
    "one is lost": fail(
        gpus(7, H100),
        "nvidia-smi lists 7 GPUs, and the driver 8; 0000:4f:00.0 is missing",
        "xid",
        "gpu-lost",
        known=8,
        host={"listed": BUSES},
    ),
    # the variables and the cgroup hide the other four
    "one is lost, in a job with half the node": fail(
        gpus(3, H100),
        "nvidia-smi lists 3 GPUs, and the driver 4; 0000:2f:00.0 is missing",
        "xid",
        "gpu-lost",
        known=4,
        host={"listed": BUSES[:4]},
    ),
    "an NVLink domain in parts": warn(
        gpus(4, RACK, cliqueId="2"),
        "its GPUs are in 2 NVLink domains or cliques",
        "grep -A 6 Fabric",
        "imex",
        host={"imex": ["channel0"]},
    ),
    "one is lost while it answers": fail(
        [gpu(outputs.GB200), gpu(outputs.LOST)],
        f"GPU 1 ({uuid(1)}): is lost",
        "xid",
        "gpu-lost",
        everything="cat {folder}/gpus; exit 15",
    ),
    # G06
    "used by somebody": warn(
        [gpu(H100, PROCESS, used="40321 MiB"), gpu(H100)],
        f"is in use by pid {ME} /usr/bin/python3",
        f"ps -fp {ME}",
        "gpu-memory-taken",
    ),
    "used, seen from a container": warn(
        [gpu(H100, PROCESS, used="40321 MiB")],
        f"is in use by pid {ME} /usr/bin/python3 (of the host, 40310 MiB)",
        "nvidia-smi",
        "gpu-memory-taken",
        host={"inside": True},
    ),
    # G06
    "used by nobody that shows": warn(
        [gpu(H100, used="40321 MiB")], "40321 MiB are in use, without a visible process", "fuser", "gpu-memory-taken"
    ),
    # G05
    "prohibited": fail([gpu(H100, compute_mode="Prohibited")], "mode Prohibited", "nvidia-smi -c 0", "gpu-busy"),
    # G12
    "ECC": fail(
        [*gpus(3, H100), gpu({**H100, "ecc_errors/volatile/dram_uncorrectable": "2"})],
        f"GPU 3 ({uuid(3)}): 2 uncorrected memory errors",
        "nvidia-smi",
        "gpu-ecc",
        cause="sudo nvidia-smi -r",
    ),
    # G12; on A100 and H100, where retired pages are N/A
    "a row to be remapped": fail(
        gpus(8, H100, remapped_row_pending="Yes"),
        f"GPU 3 ({uuid(3)}): a row remap is pending",
        "nvidia-smi",
        "gpu-ecc",
        cause="sudo nvidia-smi -r",
    ),
    "a row that cannot be remapped": fail(
        gpus(4, A100, remapped_row_failure="Yes"), f"GPU 3 ({uuid(3)}): a row remap failed", "ROW_REMAPPER", "gpu-ecc"
    ),
    "a page to be retired": fail(
        [gpu(outputs.GTX_1080, pending_retirement="Yes")],
        "a row remap is pending",
        "nvidia-smi",
        "gpu-ecc",
        cause="after its last job: sudo nvidia-smi -r -i 0",
    ),
    "a reset is recommended": fail(
        gpus(4, outputs.GB200, gpu_recovery_action="Drain and Reset"),
        "the driver recommends: Drain and Reset",
        "nvidia-smi",
        "gpu-ecc",
        cause="sudo nvidia-smi -r",
    ),
    "ECC after a reset": warn(
        gpus(4, A100, current_ecc="Disabled"),
        "ECC is Disabled, and Enabled after a reset",
        "nvidia-smi",
        "gpu-ecc",
        cause="sudo nvidia-smi -r",
    ),
    # G13
    "hot": warn(
        [gpu(H100, clocks_event_reason_hw_thermal_slowdown="Active")],
        "is throttled: hw_thermal_slowdown",
        "PERFORMANCE",
        "straggler",
    ),
    "hot, with an old driver": warn(
        [gpu(outputs.GTX_1080, clocks_throttle_reason_hw_slowdown="Active")],
        "is throttled: hw_slowdown",
        "PERFORMANCE",
        "straggler",
    ),
    # G13
    "narrow": warn(
        gpus(8, H100, current_link_width="8x"),
        f"GPU 3 ({uuid(3)}): PCIe width 8x, on the other GPUs 16",
        "lspci",
        "straggler",
    ),
    "an older slot": warn(
        gpus(8, H100, max_link_gen="4"),
        f"GPU 3 ({uuid(3)}): PCIe generation 4, on the other GPUs 5",
        "lspci",
        "straggler",
    ),
    "held down": warn(
        gpus(8, H100, graphics_clock="1200 MHz"),
        "application clock 1200 MHz, on the other GPUs 1980",
        "CLOCK",
        "straggler",
    ),
    "little power": warn(
        gpus(8, H100, current_power_limit="300.00 W"),
        "power limit 300.00 W, on the other GPUs 700",
        "POWER",
        "straggler",
    ),
    "NVLinks down": warn(
        gpus(8, H100),
        f"GPU 3 ({uuid(3)}): 16 active NVLinks, on the other GPUs 18",
        "nvlink --status",
        "nvlink-error",
        links=[18, 18, 18, 16, 18, 18, 18, 18],
    ),
    # CUDA answers 802 then
    "no fabric manager": warn(
        gpus(4, H100, state="In Progress", status="N/A"),
        f"GPU 3 ({uuid(3)}): fabric state is In Progress",
        "status nvidia-fabricmanager",
        "cuda-init-failed",
    ),
    "a fabric that is not healthy": warn(
        gpus(4, outputs.GB200, summary="Unhealthy"),
        f"GPU 3 ({uuid(3)}): fabric health is Unhealthy",
        "grep -A 12 Fabric",
        "nvlink-error",
    ),
    "a vGPU without a license": warn([gpu(outputs.VGPU)], "vGPU license: Unlicensed", "nvidia-gridd", "gpu-busy"),
    "a repair is pending": fail(
        gpus(4, outputs.RTX_PRO, channel_repair_pending="Yes", tpc_repair_pending="Yes"),
        f"GPU 3 ({uuid(3)}): a repair is pending: a memory channel, a group of cores",
        "nvidia-smi",
        "gpu-ecc",
        cause="sudo nvidia-smi -r",
    ),
    "memory without repair": fail(
        gpus(4, outputs.RTX_PRO, unrepairable_memory="Yes"),
        "it has memory that cannot be repaired",
        "nvidia-smi -q -d ECC",
        "gpu-ecc",
    ),
    "refused by the fabric": fail(
        gpus(4, H100, status="Insufficient Resources"),
        "fabric status is Insufficient Resources",
        "journalctl",
        "cuda-init-failed",
    ),
    "no persistence mode": warn(
        gpus(8, {**H100, "persistence_mode": "Disabled"}),
        "persistence mode is off: GPU 0-7",
        "nvidia-smi -pm 1",
        "slow-first-start",
    ),
    "no peermem": warn(
        gpus(2, H100), "nvidia_peermem is not loaded", "modprobe nvidia_peermem", "gdr-missing", ports=8
    ),
    "ACS": warn(gpus(2, H100), "ACS is on at 3 PCI bridges", "ACSCtl", "p2p-hang", host={"redirects": 3}),
    "Ascend": unknown(
        [], "8 x Ascend NPU", everything="echo 'No devices were found'; exit 6", host={"others": {"Ascend NPU": 8}}
    ),
    "driver lost": fail(
        [],
        "Unable to determine the device handle",
        "dmesg",
        "gpu-lost",
        known=1,
        everything=f"echo '{outputs.FALLEN}'; exit 255",
    ),
    "no device": fail(
        [], "No devices", "dmesg", "gpu-lost", known=1, everything="echo 'No devices were found'; exit 6"
    ),
    "cut off": fail(
        gpus(2, H100),
        "the output of nvidia-smi is no XML",
        "dmesg",
        "gpu-lost",
        slots=1,
        known=2,
        everything="head -c 2000 {folder}/gpus",
    ),
    "no GPU, and nvidia-smi": skip([], "none", everything="echo 'No devices were found'; exit 6"),
    "no driver": unknown([], "couldn't communicate", everything=f'echo "{outputs.REFUSED}"; exit 9'),
    "driver does not answer": fail(
        [], "does not answer within", "dmesg", "gpu-lost", known=1, everything="exec sleep 60"
    ),
}


def inspected(folder: Path, given: Row, monkeypatch: pytest.MonkeyPatch) -> Node:
    (folder / "gpus").write_text(outputs.document(given.gpus))
    (folder / "links").write_text(outputs.nvlink(given.gpus, given.links) if given.links else "")
    program = folder / "nvidia-smi"
    program.write_text(PROGRAM.format(folder=folder, everything=given.everything.format(folder=folder)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    # Only one that never answers is to be given up soon.
    monkeypatch.setattr(gpu_inventory, "SMI_LIMIT", 1.0 if "sleep 60" in given.everything else 60.0)
    monkeypatch.setattr(gpu_inventory, "inside", lambda: bool(given.host.get("inside")))
    port = {"device": "mlx5_0", "port": "1", "state": "ACTIVE", "pci": "", "numa": ""}
    host = {**NO_GPU_HOST, **given.host}
    told = gathered(gpus=gpu_inventory.nvidia_smi(), gpu_host=host, infiniband=[port] * given.ports)
    known = look(1, gpus=given.known)
    return Node(label="node1", target="node1", slots=given.slots, facts=known, inventory=told, isolated=given.isolated)


def test_the_whole_output_of_a_real_h100() -> None:
    """Driver 580.159.04, a virtual machine with one GPU. `make gpu` recorded it. Identities are changed."""
    text = Path(__file__).with_name("nvidia_smi_h100.xml").read_text()
    gpus = gpu_inventory.read_gpus(text)
    assert not isinstance(gpus, str)
    [found] = gpus
    assert found["uuid"] == "GPU-00000000-1111-2222-3333-444444444444"
    shown = {name: found[name] for name in gpu_inventory.FIELDS if name in found and name != "uuid"}
    assert shown == {
        "name": "NVIDIA H100 80GB HBM3",
        "bus": "00000000:00:06.0",
        "mode": "Default",
        "persistence": "Enabled",
        "mig": "Disabled",
        "memory_used": "0 MiB",
        "link_gen_max": "5",
        "link_width": "16x",
        "link_width_max": "16x",
        "ecc": "Enabled",
        "ecc_pending": "Enabled",
        "remap_pending": "No",
        "remap_failure": "No",
        "retire_pending": "N/A",
        "channel_repair": "No",
        "core_repair": "No",
        "unrepairable": "No",
        "recovery": "None",
        "fabric": "N/A",
        "fabric_status": "N/A",
        "fabric_health": "N/A",
        "power_limit": "700.00 W",
        "clock_limit": "1980 MHz",
        "addressing": "None",
        "clique": "N/A",
        "cluster": "N/A",
    }
    assert (found["ecc_errors"], found["slow_because"], found["users"]) == (0, ["gpu_idle"], [])


@pytest.mark.parametrize("name", [*HEALTHY, *FAULTS])
def test_from_an_output_to_the_finding(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**HEALTHY, **FAULTS}[name]
    began = time.monotonic()
    (check,) = check_gpus([inspected(tmp_path, given, monkeypatch)])
    assert time.monotonic() - began < 50  # the stand-in sleeps for 60
    assert (check.id, check.status, check.host, check.doc) == ("gpus", given.status, "node1", given.doc), check
    assert given.evidence in check.evidence
    assert given.fix in check.fix
    assert given.cause in check.cause
    assert " -r" not in check.fix  # a hint that ends the jobs of others
    if given.status in ("warn", "fail"):
        assert check.fix.startswith(("ssh node1 ", "-n ", "-o "))
        assert check.cause


def test_two_faults_of_one_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G05: taken, and in a mode in which that is an error."""
    given = Row(gpus=[gpu(H100, PROCESS, compute_mode="Exclusive_Process", used="900 MiB")])
    assert [(check.status, check.doc) for check in check_gpus([inspected(tmp_path, given, monkeypatch)])] == [
        ("warn", "gpu-memory-taken"),
        ("fail", "gpu-busy"),
    ]


def test_without_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_inventory.nvidia_smi() is None
    (check,) = check_gpus([Node(label="a", target="", slots=2, facts=look(1, gpus=0), inventory=gathered())])
    assert (check.status, check.evidence) == ("skip", "no nvidia-smi")


def test_a_slow_nvidia_smi_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 GPUs without persistence mode took 30 s: https://github.com/Azure/aks-gpu/issues/105."""
    assert gpu_inventory.SMI_LIMIT >= 35
    given = Row(gpus=gpus(2, H100), slots=2, everything="sleep 1.5; cat {folder}/gpus")
    (check,) = check_gpus([inspected(tmp_path, given, monkeypatch)])
    assert (check.status, check.evidence) == ("pass", "2 x NVIDIA H100 80GB HBM3")


# ---- two nodes


def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **second: Any) -> list[Node]:
    """Two nodes of 8 H100; the second has changes of its row."""
    rows = [HEALTHY["8 x H100"], replace(HEALTHY["8 x H100"], **second)]
    nodes = []
    for number, row in enumerate(rows, 1):
        (tmp_path / str(number)).mkdir()
        node = inspected(tmp_path / str(number), row, monkeypatch)
        nodes.append(replace(node, label=f"node{number}", target=f"node{number}"))
    return nodes


def odd(nodes: Sequence[Node]) -> list[Check]:
    return [check for check in check_gpus(nodes) if check.status != "pass"]


@pytest.mark.parametrize(
    ("vendor", "environ", "indices"),
    [
        ("NVIDIA", {}, "01234567"),
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": "4,5"}, "45"),
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": "0, 1"}, "01"),
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": f"{uuid(6)},{uuid(7)[:12]}"}, "67"),
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": f"MIG-{uuid(2)}/1/0"}, "2"),  # before driver 470
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": "MIG-7a1c9e2b-0d4f-5c6a-8b3e-2f9d1a7c4e60"}, "01234567"),  # names no GPU
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": "2,-1,3"}, "2"),
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": ""}, ""),
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ""),
        ("NVIDIA", {"CUDA_VISIBLE_DEVICES": "9"}, ""),
        ("NVIDIA", {"ROCR_VISIBLE_DEVICES": "1"}, "01234567"),
        ("AMD", {"ROCR_VISIBLE_DEVICES": "4,5,6"}, "456"),  # as SLURM sets it
        ("AMD", {"ROCR_VISIBLE_DEVICES": "4,5,6", "HIP_VISIBLE_DEVICES": "0, 2"}, "46"),
        ("AMD", {"HIP_VISIBLE_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "5"}, "3"),
        ("AMD", {"CUDA_VISIBLE_DEVICES": "5"}, "5"),
        ("AMD", {"ROCR_VISIBLE_DEVICES": uuid(7)}, "7"),
    ],
)
def test_the_gpus_that_variables_name(vendor: str, environ: dict[str, str], indices: str) -> None:
    eight: Any = [{"index": str(number), "uuid": uuid(number), "vendor": vendor} for number in range(8)]
    assert "".join(each["index"] for each in visible(eight, environ)) == indices


def test_a_domain_of_several_nodes_needs_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, NCCL takes the network between nodes of a rack."""
    nodes = pair(tmp_path, monkeypatch, gpus=gpus(4, RACK), slots=4, known=4, links=[])
    assert [(check.host, check.doc) for check in odd(nodes)] == [("node2", "imex")]
    assert "no IMEX channel can be used" in odd(nodes)[0].evidence
    container = replace(nodes[1], inventory={**nodes[1].inventory, "container": "docker"})
    assert "--device=/dev/nvidia-caps-imex-channels/channel0" in odd([nodes[0], container])[0].fix
    given = {**nodes[1].inventory["gpu_host"], "imex": ["channel0"]}
    assert odd([nodes[0], replace(nodes[1], inventory={**nodes[1].inventory, "gpu_host": given})]) == []  # type: ignore[typeddict-item]


def test_other_gpus_may_be_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody trains on the fourth GPU of a shared machine, and CUDA_VISIBLE_DEVICES names others."""
    given = Row(gpus=[*gpus(3, H100), gpu(BUSY, PROCESS), *gpus(3, H100)], slots=2)
    node = inspected(tmp_path, given, monkeypatch)
    assert [check.status for check in check_gpus([node])] == ["warn"]
    assert [check.status for check in check_gpus([replace(node, env={"CUDA_VISIBLE_DEVICES": "4,5"})])] == ["pass"]
    assert [check.status for check in check_gpus([replace(node, env={"CUDA_VISIBLE_DEVICES": "3,4"})])] == ["warn"]


def ports(*down: int) -> list[dict[str, str]]:
    """Eight adapters of a DGX H100."""
    states = ["DOWN" if number in down else "ACTIVE" for number in range(8)]
    return [
        {"device": f"mlx5_{number}", "port": "1", "state": state, "pci": "", "numa": ""}
        for number, state in enumerate(states)
    ]


def sixteen(pair: Sequence[Node], *problems: Any) -> list[Check]:
    """All checks of two nodes of 8, and of their 16 ranks: a launcher's view."""
    plan = Plan(run_id="r", backend="slurm-srun", steps=(STEP,), world_size=16, grace=1.0)
    events: list[Any] = []
    for rank in range(16):
        host = f"node{rank // 8 + 1}"
        own = {"devices": 8, "identity": f"GPU-{rank}", "nccl_version": "2.28.9"}
        events.append({"e": "rank", "rank": rank, "sender": rank, "host": host, "nodes": ""})
        events.append({"e": "here", "rank": rank, "sender": rank, "host": host, "waits": 5.0, **own})
    events += problems or [
        {"e": "stage", "stage": stage, "sender": 0} for stage in ("ranks", "gloo", "gpu-map", "nccl")
    ]
    failure = Failure(host="node2", rank=9, what="rank", code=122) if problems else None
    run = ProgramRun(outcome=Outcome(failure=failure), events=events, folder="logs/x")
    checks = [*check_nodes(pair), *rank_checks.check_ranks(run, plan, speed=False)]
    return [check for check in checks if check.status in ("warn", "fail")]


STEP = Step(
    host="slurm",
    node_rank=0,
    ranks=range(16),
    workdir="/",
    env={},
    procs=(Proc(name="rank", argv=("python",)),),
    rank_starter=RankStarter.COLLECT,
)
BUSY = {**H100, "fb_memory_usage/used": "40321 MiB"}
E802: Any = {
    "e": "problem",
    "rank": 9,
    "sender": 9,
    "host": "node2",
    "problem": "torch cannot use the GPUs of this node: Unexpected error from cudaGetDeviceCount(). Did you run some "
    "cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet "
    "initialized",
    "fix": "nvidia-smi; sudo dmesg | grep -i -e nvrm -e xid",
    "check": "gpu-map",
    "level": "fail",
    "cause": "",
}
# Faults of the second node of two with 8 H100 each: what differs from the first, and the one finding.
TEN: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, str, str]]] = {
    "802": ({}, {}, ("gpu-map", "Error 802: system not yet initialized", "cuda-init-failed")),
    "a GPU lost": (
        {"gpus": gpus(7, H100)},
        {"listed": [f"0000:{0x17 + 8 * index:02x}:00.0" for index in range(8)]},
        ("gpus", "nvidia-smi lists 7 GPUs, and the driver 8; 0000:4f:00.0 is missing", "gpu-lost"),
    ),
    "MIG on one": (
        {"gpus": [*gpus(7, H100), gpu({**H100, "mig_mode/current_mig": "Enabled"})]},
        {},
        ("gpus", "MIG is on: GPU 7", "duplicate-gpu"),
    ),
    "driver differs": ({}, {"driver": "535.183.01"}, ("driver", "driver 535.183.01, on the other", "versions-differ")),
    "no persistence": (
        {"gpus": gpus(8, {**H100, "persistence_mode": "Disabled"})},
        {},
        ("gpus", "persistence mode is off: GPU 0-7", "slow-first-start"),
    ),
    "one GPU busy": (
        {"gpus": [*gpus(7, H100), gpu(BUSY, PROCESS)]},
        {},
        ("gpus", f"GPU 7 ({uuid(7)}): is in use by pid {ME}", "gpu-memory-taken"),
    ),
    "IB link down": ({}, {"infiniband": ports(3)}, ("infiniband", "mlx5_3:1 is DOWN", "ib-link-lost")),
    "peermem missing": ({}, {"direct": ""}, ("gpus", "nvidia_peermem is not loaded", "gdr-missing")),
    "pending remap": (
        {"gpus": gpus(8, H100, remapped_row_pending="Yes")},
        {},
        ("gpus", f"GPU 3 ({uuid(3)}): a row remap is pending", "gpu-ecc"),
    ),
}


def two_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], facts: dict[str, Any]
) -> list[Node]:
    common = {"driver": "570.86.15", "cuda": "12.8", "nccl": "2.28.9", "infiniband": ports()}
    unlimited = {"limits": {"nofile": 65536, "memlock": None}}
    nodes = []
    for node, own in zip(pair(tmp_path, monkeypatch, **row), ({}, facts), strict=True):
        host = {**NO_GPU_HOST, "direct": own.get("direct", "nvidia_peermem"), "listed": own.get("listed", [])}
        known: Any = {**node.inventory, **common, **unlimited, **own, "gpu_host": host}
        known["cpus"] = {"machine": 224, "allowed": list(range(224)), "quota": None}
        known["memory"] = {"total": 2 << 40, "free": 2 << 40, "bound": None, "used": None}
        nodes.append(replace(node, inventory=known))
    return nodes


def test_two_healthy_nodes_and_their_ranks_get_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sixteen(two_nodes(tmp_path, monkeypatch, {}, {})) == []


@pytest.mark.parametrize("name", TEN)
def test_one_fault_of_two_nodes_is_the_only_finding(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row, facts, (check_id, evidence, doc) = TEN[name]
    (check,) = sixteen(two_nodes(tmp_path, monkeypatch, row, facts), *([E802] if name == "802" else []))
    assert (check.id, check.host, check.doc) == (check_id, "node2", doc)
    assert evidence in check.evidence
    assert check.cause
    assert "node2" in check.fix, "the command runs there"


def test_one_gpu_for_each_task_is_a_warning_for_each_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`srun --gpus-per-task=1` with ConstrainDevices: nvidia-smi of a task lists one GPU of 8."""
    node = two_nodes(tmp_path, monkeypatch, {"gpus": gpus(1, H100), "links": [18]}, {})[1]
    events: list[Any] = [
        {"e": "facts", "sender": 8 * number, "look": look(number, host=f"node{number}"), "facts": node.inventory}
        for number in (1, 2)
    ]
    for rank in range(16):
        own = {"devices": 1, "identity": f"GPU-{rank}", "host": f"node{rank // 8 + 1}"}
        events.append({"e": "here", "rank": rank, "sender": rank, **own})
    plan = Plan(run_id="r", backend="slurm-srun", steps=(STEP,), world_size=16, grace=1.0)
    run = ProgramRun(outcome=Outcome(), events=events, folder="logs/x")
    checks = [check for check in rank_checks.check_slurm_nodes(run, plan) if check.status in ("warn", "fail")]
    assert [(check.id, check.host, check.status, check.doc) for check in checks] == [
        ("gpus", "node1", "warn", "gpus-isolated"),
        ("gpus", "node2", "warn", "gpus-isolated"),
    ]


# ---- the driver


@pytest.mark.parametrize(
    ("driver", "cuda", "loaded", "status"),
    [
        ("535.183.01", "13.0", "12.2", "fail"),
        ("535.183.01", "13.0", None, "fail"),
        ("535.183.01", "13.0", "13.0", "pass"),  # cuda-compat of an NGC image
        ("580.65.06", "13.0", "13.0", "pass"),
        ("525.60.13", "12.8", "12.0", "pass"),  # minor versions are compatible
        (None, "12.8", None, "skip"),
    ],
)
def test_a_driver_that_is_too_old(driver: str | None, cuda: str, loaded: str | None, status: str) -> None:
    """G09."""
    told = gathered(driver=driver, cuda=cuda, gpu_host={**NO_GPU_HOST, "cuda_driver": loaded})
    (check,) = check_driver([Node(label="node1", target="node1", slots=1, facts=look(1, gpus=0), inventory=told)])
    assert check.status == status
    assert status != "fail" or ("580 or later" in check.evidence and check.doc == "driver-too-old" and check.fix)
    assert ("forward compatibility" in check.evidence) == (driver == "535.183.01" and status == "pass")


def test_another_driver_on_one_node() -> None:
    nodes = [
        Node(label=f"n{number}", target="", slots=8, facts=look(number), inventory=gathered(driver=driver, cuda="12.8"))
        for number, driver in enumerate(("570.86.15", "570.86.15", "535.183.01"))
    ]
    assert [check.status for check in check_driver(nodes)] == ["pass", "pass", "warn"]


# ---- NCCL as loaded


@pytest.mark.parametrize(
    ("package", "loaded", "expected"),
    [
        ("2.28.9", "2.28.9", [("pass", LOADED + "2.28.9")]),
        (None, "2.28.9", [("pass", LOADED + "2.28.9")]),  # NGC's torch: no package of NCCL
        (
            "2.28.9",
            "2.18.1",
            [("warn", "its ranks load NCCL 2.18.1, and torch came with 2.28.9"), ("pass", LOADED + "2.18.1")],
        ),
        ("2.28.9", "", [("pass", "2.28.9")]),  # no rank started
        (None, "", [("skip", "no package of NCCL; the ranks report the one that they load")]),
    ],
)
def test_the_loaded_nccl_counts(package: str | None, loaded: str, expected: list[tuple[str, str]]) -> None:
    node = Node(label="n1", target="n1", slots=1, facts=look(1), inventory=gathered(nccl=package))
    checks = join_nccl([*check_nccl([node]), *loaded_nccl({"n1": loaded})])
    assert [(check.status, check.evidence) for check in checks] == expected


# ---- one GPU for each task


def reports(*each: tuple[int, str]) -> list[Any]:
    return [
        {"e": "here", "rank": rank, "host": "n1", "devices": devices, "identity": identity}
        for rank, (devices, identity) in enumerate(each)
    ]


@pytest.mark.parametrize(
    ("events", "isolated"),
    [
        (reports((1, "GPU-a"), (1, "GPU-b")), {"n1"}),
        (reports((1, "GPU-a"), (1, "GPU-a")), set()),  # all have the same one: an error
        (reports((2, "GPU-a"), (2, "GPU-b")), set()),  # --gpus-per-node
        (reports((2, "GPU-a"), (2, "GPU-c"), (2, "GPU-e"), (2, "GPU-g")), {"n1"}),  # --gpus-per-task=2
        (reports((1, "GPU-a")), set()),  # one rank, one GPU
    ],
)
def test_isolated_ranks_have_different_gpus(events: list[Any], isolated: set[str]) -> None:
    assert rank_checks.isolated_hosts(ProgramRun(outcome=Outcome(), events=events)) == isolated


# ---- facts of a node, from made trees


def test_other_accelerators_are_counted(tmp_path: Path) -> None:
    """Files as the drivers of Ascend and Intel make them; of Intel's, the first drives no display."""
    root = f"{tmp_path}/"
    (tmp_path / "dev").mkdir()
    for name in ("davinci0", "davinci1", "davinci_manager"):
        (tmp_path / "dev" / name).touch()
    for card, (vendor, kind) in enumerate((("0x8086", "0x038000"), ("0x8086", "0x030000"), ("0x1a03", "0x030000"))):
        place = tmp_path / f"sys/class/drm/card{card}/device"
        place.mkdir(parents=True)
        (place / "vendor").write_text(vendor)
        (place / "class").write_text(kind)
    assert gpu_inventory.other_accelerators(root) == {"Ascend NPU": 2, "Intel GPU": 1}


@pytest.mark.parametrize(
    ("odd", "status", "evidence", "fix"),
    [
        ({}, "pass", "8 x AMD Instinct MI300X", ""),
        (
            {"current_link_width": "8"},
            "warn",
            "GPU 3 (GPU-6c62b25e6b0b4b4a): PCIe width 8, on the other GPUs 16",
            "lspci -vv -d 1002:",
        ),
        ({"ras__umc_err_count": "ue: 2\nce: 9"}, "fail", "2 uncorrected memory errors", "amd-smi"),
        ({"mem_info_vram_used": "42280000000"}, "warn", "40321 MiB are in use, without", "fuser -v /dev/kfd"),
    ],
)
def test_gpus_of_amd(odd: dict[str, str], status: str, evidence: str, fix: str, tmp_path: Path) -> None:
    found: Any = gpu_inventory.amd_gpus(mi300x(tmp_path, **odd))
    evidence = evidence.replace("GPU-6c62b25e6b0b4b4a", f"GPU-{7809984429061111114:x}")
    node = Node(label="n1", target="n1", slots=8, facts=look(1, gpus=8), inventory=gathered(gpus=found))
    (check,) = check_gpus([node])
    assert check.status == status
    assert evidence in check.evidence
    assert fix in check.fix
    assert "nvidia" not in check.fix


def test_partitions_of_amd_are_devices_of_their_own(tmp_path: Path) -> None:
    """They have the unique_id of their GPU. A process on one of them is on no other."""
    root = mi308x_partitions(tmp_path)
    process = tmp_path / "sys/class/kfd/kfd/proc" / ME
    process.mkdir(parents=True)
    (process / "vram_42702").write_text("1610571776\n")
    assert probe.gpus({}, root) == 32
    found: Any = gpu_inventory.amd_gpus(root)
    assert [len(gpu["users"]) for gpu in found].index(1) == 2
    assert len({gpu["uuid"] for gpu in found}) == 32
    assert found[2]["uuid"] == found[0]["uuid"] + "/2"
    node = Node(label="n1", target="n1", slots=32, facts=look(1, gpus=32), inventory=gathered(gpus=found))
    assert [(check.status, check.doc) for check in check_gpus([node])] == [("warn", "gpu-memory-taken")]


def test_a_process_on_a_gpu_of_amd(tmp_path: Path) -> None:
    root = mi300x(tmp_path)
    process = tmp_path / "sys/class/kfd/kfd/proc" / ME
    process.mkdir(parents=True)
    (process / "vram_42701").write_text("1610571776\n")
    (process / "vram_42702").write_text("0\n")
    users = [each["users"] for each in gpu_inventory.amd_gpus(root)]
    assert [len(each) for each in users] == [0, 1, 0, 0, 0, 0, 0, 0]
    assert (users[1][0]["pid"], users[1][0]["memory"]) == (os.getpid(), "1535")


def bridge(control: int) -> bytes:
    """Configuration of a PCI bridge: an AER capability, then ACS with this control register."""
    config = bytearray(4096)
    struct.pack_into("<I", config, 0x100, 0x1 | 2 << 16 | 0x148 << 20)
    struct.pack_into("<IHH", config, 0x148, 0xD | 1 << 16, 0x5F, control)
    return bytes(config)


def test_bridges_between_gpus_and_adapters() -> None:
    """Root ports have ACS on most servers, and nothing passes between devices there: "ACS is on at 38 bridges"."""
    gpu, adapter = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:0{0}.0/0000:{1}:00.0".format, "pci0000:7f/0000:80:00.0"
    apart = ["pci0000:15/0000:15:01.0/0000:16:00.0", "pci0000:37/0000:37:01.0/0000:38:00.0"]
    assert gpu_inventory.bridges_between(apart, [adapter]) == set()
    assert gpu_inventory.bridges_between([gpu(0, "1b")], [gpu(2, "18"), adapter]) == {"0000:17:00.0", "0000:17:02.0"}
    assert gpu_inventory.bridges_between([gpu(0, "1b"), "", gpu(1, "1c")], []) == {"0000:17:00.0", "0000:17:01.0"}


def test_bridges_that_redirect_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "sys/bus/pci/devices"
    for name, kind, config in (
        ("0000:00:01.0", "0x060400", bridge(0x1D)),  # SrcValid, ReqRedir, CmpltRedir, UpstreamFwd
        ("0000:00:02.0", "0x060400", bridge(0x00)),
        ("0000:00:03.0", "0x060400", bridge(0x1D)),  # between no two of these devices
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "class").write_text(kind)
        (folder / name / "config").write_bytes(config)
    ports = {"0000:00:01.0", "0000:00:02.0"}
    assert gpu_inventory.redirects(ports, f"{tmp_path}/") == 1
    assert gpu_inventory.redirects(set(), f"{tmp_path}/") == 0
    (folder / "0000:00:01.0/config").write_bytes(bridge(0x1D)[:64])  # as another user than root reads it
    (folder / "0000:00:02.0/config").write_bytes(bridge(0x1D)[:64])
    assert gpu_inventory.redirects(ports, f"{tmp_path}/") is None


@pytest.mark.parametrize(
    ("modules", "version", "release", "way"),
    [
        (["nvidia_peermem"], "NVIDIA UNIX x86_64 Kernel Module  535.54.03", "5.4.0", "nvidia_peermem"),
        (["efa_nv_peermem"], "NVIDIA UNIX x86_64 Kernel Module  535.54.03", "5.4.0", "efa_nv_peermem"),  # openucx#10704
        ([], "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15", "5.15.0-91-generic", "dma-buf"),
        ([], "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15", "5.4.0", ""),
        ([], "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15", "6.8.0", ""),
    ],
)
def test_the_way_of_adapters_to_gpu_memory(
    modules: list[str], version: str, release: str, way: str, tmp_path: Path
) -> None:
    for module in modules:
        (tmp_path / "sys/module" / module).mkdir(parents=True)
    assert gpu_inventory.gpu_direct(f"{tmp_path}/", version, release) == way


@pytest.mark.parametrize(
    ("file", "text", "way"), [("gdr", "NVIDIA", "EFA"), ("p2p", "NVIDIA", "EFA"), ("p2p", "NONE", "")]
)
def test_the_word_of_efa(file: str, text: str, way: str, tmp_path: Path) -> None:
    device = tmp_path / "sys/class/infiniband/rdmap0s6/device"
    device.mkdir(parents=True)
    (device / file).write_text(f"{text}\n")
    assert gpu_inventory.gpu_direct(f"{tmp_path}/", "NVIDIA UNIX x86_64 Kernel Module  570.86.15", "6.8.0") == way


def test_no_device_is_opened_to_see_which_a_cgroup_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without persistence mode, to open one takes seconds. access() asks the cgroup as well."""
    (tmp_path / "dev").mkdir()
    for number, bus in enumerate(BUSES[:4]):
        information = tmp_path / "proc/driver/nvidia/gpus" / bus / "information"
        information.parent.mkdir(parents=True)
        information.write_text(f"Model: \t\t NVIDIA H100 80GB HBM3\nDevice Minor: \t {number}\n")
        if number != 3:  # as in a container of CDI
            (tmp_path / f"dev/nvidia{number}").touch()
    real, opened = os.access, os.open
    monkeypatch.setattr(os, "access", lambda path, mode: real(path, mode) and not path.endswith("nvidia1"))
    monkeypatch.setattr(
        os, "open", lambda path, *more: pytest.fail(path) if "/dev/nvidia" in path else opened(path, *more)
    )
    assert gpu_inventory.listed_gpus(f"{tmp_path}/") == [BUSES[0], BUSES[2]]


@pytest.mark.skipif(
    not Path("/sys/fs/cgroup/devices").is_dir() or os.getuid() != 0, reason="needs cgroups of version 1"
)
def test_access_asks_the_cgroup() -> None:
    code = "import os; print(os.access('/dev/zero', os.R_OK | os.W_OK), os.access('/dev/null', os.R_OK | os.W_OK))"
    group = Path(f"/sys/fs/cgroup/devices/ddpkit-test-{os.getpid()}")
    group.mkdir()
    try:
        (group / "devices.deny").write_text("c 1:5 rwm")
        enter = f'echo $$ > {group}/cgroup.procs && exec {sys.executable} -c "{code}"'
        done = subprocess.run(["sh", "-c", enter], capture_output=True, text=True, check=True)
    finally:
        group.rmdir()
    assert done.stdout.split() == ["False", "True"]


def test_processes_on_a_gpu_of_amd_seen_from_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's pids are of the machine: here, others have these numbers."""
    root = mi300x(tmp_path)
    process = tmp_path / "sys/class/kfd/kfd/proc" / ME
    process.mkdir(parents=True)
    (process / "vram_42701").write_text("1610571776\n")
    monkeypatch.setattr(gpu_inventory, "inside", lambda: True)
    (user,) = gpu_inventory.amd_gpus(root)[1]["users"]
    assert (user["pid"], user["name"], user["user"]) == (os.getpid(), "", "")


def test_the_adapter_near_each_gpu() -> None:
    """Paths of a DGX H100: four PCI switches of a socket, each with a GPU and an adapter; then by NUMA node alone."""
    place = "pci0000:{0}/0000:{0}:01.0/0000:{1}:00.0/0000:{2}:0{3}.0/0000:{4}:00.0".format
    gpu_paths = [place("15", "16", "17", 0, "1b"), place("37", "38", "39", 0, "43"), "pci0000:7f/0000:80:00.0"]
    ports = [
        ("mlx5_0", place("15", "16", "17", 2, "18"), "0"),
        ("mlx5_3", place("37", "38", "39", 2, "40"), "0"),
        ("mlx5_9", "pci0000:a0/0000:a1:00.0", "1"),
    ]
    told = gathered(
        gpus=[{"index": str(at), "pci": path, "numa": "1" if at == 2 else "0"} for at, path in enumerate(gpu_paths)],
        infiniband=[
            {"device": name, "port": "1", "state": "ACTIVE", "pci": path, "numa": numa} for name, path, numa in ports
        ],
    )
    node = Node(label="n1", target="n1", slots=3, facts=look(1), inventory=told)
    assert closest_adapters(node) == "GPU 0 mlx5_0, GPU 1 mlx5_3, GPU 2 mlx5_9"
    (check,) = check_infiniband([node])
    assert check.evidence == "3 of 3 ports are active; nearest: GPU 0 mlx5_0, GPU 1 mlx5_3, GPU 2 mlx5_9"
