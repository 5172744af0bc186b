"""GPUs of a node, by answers of nvidia-smi that a program of that name gives here: there is no GPU.

The answers have the form that nvidia-smi writes (`--format=csv,noheader,nounits`), for boards of several kinds. They
go the whole way: the program, `facts.nvidia_smi`, and the findings.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from test_compatibility import facts as look

from ddpkit.node import inventory
from ddpkit.preflight.gpu_checks import check_gpus
from ddpkit.preflight.node import Node
from ddpkit.preflight.node_checks import check_nodes


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-51c0-8f2e-9f6b-3d0c6a1be{number:03x}"


def row(index: int, name: str, **changes: str) -> str:
    """One line for a GPU at rest, with changes."""
    values = {
        "index": str(index),
        "uuid": uuid(index),
        "name": name,
        "pci.bus_id": f"00000000:{0x17 + 8 * index:02X}:00.0",
        "driver_version": "570.86.15",
        "memory.total": "81559",
        "memory.used": "1",
        "compute_mode": "Default",
        "temperature.gpu": "31",
        "pcie.link.gen.current": "5",
        "pcie.link.gen.max": "5",
        "pcie.link.width.current": "16",
        "pcie.link.width.max": "16",
        "ecc.errors.uncorrected.volatile.total": "0",
        "retired_pages.pending": "[N/A]",
        "clocks_throttle_reasons.hw_slowdown": "Not Active",
        "clocks_throttle_reasons.hw_thermal_slowdown": "Not Active",
        "mig.mode.current": "Disabled",
    }
    assert tuple(values) == inventory.SMI
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    assert set(changes) <= set(values)
    return ", ".join({**values, **changes}.values())


H100 = [row(index, "NVIDIA H100 80GB HBM3") for index in range(8)]
A100 = [row(index, "NVIDIA A100-SXM4-80GB", pcie__link__gen__max="4") for index in range(4)]
RTX = row(0, "NVIDIA GeForce RTX 3090", ecc__errors__uncorrected__volatile__total="[N/A]", mig__mode__current="[N/A]")
REFUSED = 'Field "clocks_throttle_reasons.hw_slowdown" is not a valid field to query.'
PROGRAM = """#!/bin/sh
case "$1" in
--query-compute-apps=*) cat {folder}/apps; exit 0 ;;
*ecc.errors*) {first} ;;
esac
{then}
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    lines: list[str]
    apps: str = ""
    slots: int = 1
    known: int = 0  # GPUs by the driver's own list
    first: str = ":"  # what it does when it is asked for everything
    then: str = "cat {folder}/gpus"
    level: str = "pass"
    evidence: str = ""
    fix: str = ""
    doc: str = ""


ME = str(os.getpid())
ROWS = {
    "8 x H100": Row(lines=H100, slots=8, known=8, evidence="8 x NVIDIA H100 80GB HBM3"),
    "no ECC": Row(lines=[RTX], evidence="1 x NVIDIA GeForce RTX 3090"),
    "MIG, one rank": Row(lines=[row(0, "NVIDIA A100-SXM4-80GB", mig__mode__current="Enabled")], evidence="1 x NVIDIA"),
    "MIG": Row(
        lines=[row(0, "NVIDIA A100-SXM4-80GB", mig__mode__current="Enabled"), *A100[1:]],
        slots=4,
        level="warn",
        evidence="MIG is on: GPU 0",
        fix="-mig 0",
        doc="duplicate-gpu",
    ),
    "too few": Row(  # G02
        lines=A100, slots=8, level="fail", evidence="4 GPUs, and 8 ranks", fix="-n 4", doc="invalid-device-ordinal"
    ),
    "one is lost": Row(  # G11
        lines=H100[:7],
        slots=8,
        known=8,
        level="fail",
        evidence="nvidia-smi lists 7 GPUs, and the driver 8",
        fix="xid",
        doc="gpu-lost",
    ),
    "used by somebody": Row(  # G06
        lines=[row(0, "NVIDIA H100 80GB HBM3", memory__used="40321"), H100[1]],
        apps=f"{uuid(0)}, {ME}, 40310, /usr/bin/python3",
        slots=2,
        level="warn",
        evidence=f"is in use by pid {ME} /usr/bin/python3",
        fix=f"ps -fp {ME}",
        doc="gpu-memory-taken",
    ),
    "used by nobody that shows": Row(  # G06
        lines=[row(0, "NVIDIA H100 80GB HBM3", memory__used="40321")],
        level="warn",
        evidence="40321 MiB are in use, without a visible process",
        fix="fuser",
        doc="gpu-memory-taken",
    ),
    "prohibited": Row(  # G05
        lines=[row(0, "NVIDIA H100 80GB HBM3", compute_mode="Prohibited")],
        level="fail",
        evidence="mode Prohibited",
        fix="nvidia-smi -c 0",
        doc="gpu-busy",
    ),
    "ECC": Row(  # G12
        lines=[*H100[:3], row(3, "NVIDIA H100 80GB HBM3", ecc__errors__uncorrected__volatile__total="2")],
        slots=4,
        level="fail",
        evidence=f"GPU 3 ({uuid(3)}): 2 uncorrected memory errors",
        fix="nvidia-smi -r",
        doc="gpu-ecc",
    ),
    "row to be remapped": Row(  # G12
        lines=[row(0, "Tesla V100-SXM2-32GB", retired_pages__pending="Yes")],
        level="fail",
        evidence="a row remap is pending",
        fix="nvidia-smi -r",
        doc="gpu-ecc",
    ),
    "hot": Row(  # G13
        lines=[row(0, "NVIDIA H100 80GB HBM3", clocks_throttle_reasons__hw_thermal_slowdown="Active")],
        level="warn",
        evidence="is throttled: hw_thermal_slowdown",
        fix="PERFORMANCE",
        doc="straggler",
    ),
    "narrow": Row(  # G13
        lines=[row(0, "NVIDIA H100 80GB HBM3", pcie__link__width__current="8")],
        level="warn",
        evidence="PCIe x8 of x16",
        fix="lspci",
        doc="straggler",
    ),
    "old nvidia-smi": Row(
        lines=[", ".join(line.split(", ")[:8]) for line in A100],
        slots=4,
        first=f"echo '{REFUSED}'; exit 2",
        evidence="4 x NVIDIA A100-SXM4-80GB",
    ),
    "driver lost": Row(
        lines=[],
        known=1,
        then="echo 'Unable to determine the device handle for GPU 0000:17:00.0: Unknown Error'; exit 255",
        level="fail",
        evidence="Unable to determine the device handle",
        fix="dmesg",
        doc="gpu-lost",
    ),
    "no device": Row(
        lines=[],
        known=1,
        then="echo 'No devices were found'; exit 6",
        level="fail",
        evidence="No devices",
        doc="gpu-lost",
    ),
    "no GPU, and nvidia-smi": Row(lines=[], then="echo 'No devices were found'; exit 6", level="skip", evidence="none"),
    "no driver": Row(
        lines=[],
        then='echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."; exit 9',
        level="unknown",
        evidence="couldn't communicate",
    ),
    "driver does not answer": Row(
        lines=[],
        known=1,
        first="exec sleep 60",
        then="exec sleep 60",
        level="fail",
        evidence="does not answer",
        fix="dmesg",
        doc="gpu-lost",
    ),
}


def said(folder: Path, given: Row, monkeypatch: pytest.MonkeyPatch) -> Node:
    (folder / "gpus").write_text("\n".join(given.lines) + "\n")
    (folder / "apps").write_text(given.apps + "\n" if given.apps else "")
    program = folder / "nvidia-smi"
    program.write_text(PROGRAM.format(folder=folder, first=given.first, then=given.then.format(folder=folder)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    # Only one that never answers is to be given up soon.
    monkeypatch.setattr(inventory, "SMI_LIMIT", 1.0 if "sleep" in given.first else 60.0)
    told: Any = {"gpus": inventory.nvidia_smi(), "driver": None}
    return Node(label="node1", target="node1", slots=given.slots, facts=look(1, gpus=given.known), inventory=told)


@pytest.mark.parametrize("name", ROWS)
def test_what_nvidia_smi_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ROWS[name]
    began = time.monotonic()
    (check,) = check_gpus([said(tmp_path, given, monkeypatch)])
    assert time.monotonic() - began < 50  # the stand-in sleeps for 60
    assert (check.id, check.status, check.host, check.doc) == ("gpus", given.level, "node1", given.doc)
    assert given.evidence in check.evidence
    assert given.fix in check.fix
    if given.level in ("warn", "fail"):
        assert check.fix.startswith(("ssh node1 ", "-n "))
        assert check.cause


def test_two_faults_of_one_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G05: taken, and in a mode in which that is an error."""
    line = row(0, "NVIDIA H100 80GB HBM3", compute_mode="Exclusive_Process", memory__used="900")
    node = said(tmp_path, Row(lines=[line], apps=f"{uuid(0)}, {ME}, 890, python"), monkeypatch)
    assert [(check.status, check.doc) for check in check_gpus([node])] == [
        ("warn", "gpu-memory-taken"),
        ("fail", "gpu-busy"),
    ]


def test_without_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert inventory.nvidia_smi() is None
    (check,) = check_gpus(
        [Node(label="a", target="", slots=2, facts=look(1, gpus=0), inventory=cast("Any", {"gpus": None}))]
    )
    assert (check.status, check.evidence) == ("skip", "no nvidia-smi")


@pytest.mark.parametrize(
    ("driver", "cuda", "status"),
    [
        ("535.183.01", "13.0", "fail"),
        ("580.65.06", "13.0", "pass"),
        ("525.60.13", "12.8", "pass"),
        (None, "12.8", "skip"),
    ],
)
def test_a_driver_that_is_too_old(driver: str | None, cuda: str, status: str) -> None:
    """G09."""
    told = inventory.gather({"tmp": "/tmp", "shm": "/dev/shm", "workdir": "/tmp"}, [], None, smi=False)
    told |= {"driver": driver, "cuda": cuda, "gpus": None}
    node = Node(label="node1", target="node1", slots=1, facts=look(1, gpus=0), inventory=cast("Any", told))
    (check,) = [check for check in check_nodes([node]) if check.id == "driver"]
    assert check.status == status
    assert status != "fail" or ("580 or later" in check.evidence and check.doc == "driver-too-old" and check.fix)
