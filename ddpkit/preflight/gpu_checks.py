"""What nvidia-smi said of the GPUs of one node: missing, busy, broken, slow. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ddpkit.preflight.check import Check, Status
from ddpkit.preflight.node import Found, Node


def gpus(node: Node) -> Found:
    said = node.facts.get("gpus")
    if said is None:
        yield Check(id="gpus", status="skip", host=node.label, evidence="no nvidia-smi")
        return
    if isinstance(said, str) and not node.look.get("gpus") and not node.facts.get("driver"):
        # Neither driver nor GPU: a node without any, or one on which the driver is not loaded.
        none = "No devices" in said
        yield Check(id="gpus", status="skip" if none else "unknown", host=node.label, evidence="none" if none else said)
        return
    if isinstance(said, str):
        yield Check(
            id="gpus",
            status="fail",
            host=node.label,
            evidence=said,
            cause="the driver does not answer",
            fix=node.there("sudo dmesg | grep -i -e nvrm -e xid"),
            doc="gpu-lost",
        )
        return
    problems = [*_count(node, said), *(check for gpu in said for check in _one_gpu(node, gpu))]
    yield from problems
    if not problems and said:
        yield Check(id="gpus", status="pass", host=node.label, evidence=f"{len(said)} x {said[0].get('name', '')}")
    elif not said:
        yield Check(id="gpus", status="skip", host=node.label, evidence="none")


def _count(node: Node, said: Sequence[Mapping[str, Any]]) -> Found:
    """Fewer than the driver knows, or than ranks; and parts of GPUs."""
    known, seen = int(node.look.get("gpus") or 0), len(said)
    if known > seen:
        yield Check(
            id="gpus",
            status="fail",
            host=node.label,
            evidence=f"nvidia-smi shows {seen} GPUs, and the driver has {known}",
            cause="one fell off the bus (Xid 79), or was disabled",
            fix=node.there("sudo dmesg | grep -i xid"),
            doc="gpu-lost",
        )
    elif 0 < seen < node.slots:
        yield Check(
            id="gpus",
            status="fail",
            host=node.label,
            evidence=f"{seen} GPUs, and {node.slots} ranks",
            cause="two ranks would share one, which NCCL refuses",
            fix=f"-n {seen}",
            doc="invalid-device-ordinal",
        )
    parts = [gpu.get("index") for gpu in said if gpu.get("mig.mode.current") == "Enabled"]
    if parts and node.slots > 1:
        yield Check(
            id="gpus",
            status="warn",
            host=node.label,
            evidence=f"MIG is on: GPU {', '.join(map(str, parts))}",
            cause="NCCL cannot join two parts of one GPU",
            fix=node.there("sudo nvidia-smi -mig 0"),
            doc="duplicate-gpu",
        )


def _one_gpu(node: Node, gpu: Mapping[str, Any]) -> Found:
    name = f"GPU {gpu.get('index')} ({gpu.get('uuid')})"

    def found(status: Status, what: str, cause: str, fix: str, doc: str) -> Check:
        return Check(
            id="gpus", status=status, host=node.label, evidence=f"{name}: {what}", cause=cause, fix=fix, doc=doc
        )

    users = gpu.get("users") or []
    if users:
        who = ", ".join(f"pid {each['pid']} {each['name']} ({each['user']}, {each['memory']} MiB)" for each in users)
        yield found(
            "warn",
            f"is used by {who}",
            "memory is taken, and two jobs share one GPU",
            node.there(f"ps -fp {','.join(str(each['pid']) for each in users)}"),
            "gpu-memory-taken",
        )
    elif _whole(gpu.get("memory.used")) > 1024:
        yield found(
            "warn",
            f"{gpu['memory.used']} MiB are in use by no process that shows",
            "a process of another container or user, or one that died badly",
            node.there("sudo fuser -v /dev/nvidia*"),
            "gpu-memory-taken",
        )
    if gpu.get("compute_mode") == "Exclusive_Process" and users:
        yield found(
            "fail",
            "is in mode Exclusive_Process, and taken",
            "one process alone may use it",
            node.there("sudo nvidia-smi -c 0"),
            "gpu-busy",
        )
    if gpu.get("compute_mode") == "Prohibited":
        yield found(
            "fail", "is in mode Prohibited", "no process may use it", node.there("sudo nvidia-smi -c 0"), "gpu-busy"
        )
    if _whole(gpu.get("ecc.errors.uncorrected.volatile.total")) > 0:
        number = gpu["ecc.errors.uncorrected.volatile.total"]
        yield found(
            "fail", f"{number} uncorrected memory errors", "a bad row", node.there("sudo nvidia-smi -r"), "gpu-ecc"
        )
    if str(gpu.get("retired_pages.pending")).lower() == "yes":
        yield found(
            "fail",
            "a row is to be remapped",
            "memory that failed is replaced at a reset",
            node.there("sudo nvidia-smi -r"),
            "gpu-ecc",
        )
    for field in ("clocks_throttle_reasons.hw_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown"):
        if str(gpu.get(field)).lower() == "active":
            look = node.there("nvidia-smi -q -d PERFORMANCE")
            yield found("warn", f"is throttled: {field.rpartition('.')[2]}", "heat or power", look, "straggler")
    width, most = _whole(gpu.get("pcie.link.width.current")), _whole(gpu.get("pcie.link.width.max"))
    if width and most and width < most:
        look = node.there("sudo lspci -vv -d 10de:")
        yield found("warn", f"PCIe x{width} of x{most}", "a bad seat or riser", look, "straggler")


def _whole(value: object) -> int:
    text = str(value).split(".")[0]
    return int(text) if text.lstrip("-").isdigit() else 0
