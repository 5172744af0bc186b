"""Checks of GPUs, from nvidia-smi: missing, busy, broken, slow. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ddpkit.launchers.node_facts import Gpu
from ddpkit.preflight.check import Check, Status
from ddpkit.preflight.node import Checks, Node


def check_gpus(nodes: Sequence[Node]) -> Checks:
    for node in nodes:
        yield from _check_node(node)


def _check_node(node: Node) -> Checks:
    gpus = node.inventory["gpus"]
    if gpus is None:
        yield node.check("gpus", "skip", "no nvidia-smi")
        return
    if isinstance(gpus, str) and not node.facts["gpus"] and not node.inventory["driver"]:
        # Neither driver nor GPU: a node without any, or one on which the driver is not loaded.
        none = "No devices" in gpus
        yield node.check("gpus", "skip" if none else "unknown", "none" if none else gpus)
        return
    if isinstance(gpus, str):
        yield node.check(
            "gpus",
            "fail",
            gpus,
            cause="the driver does not answer",
            fix=node.command("sudo dmesg | grep -i -e nvrm -e xid"),
            doc="gpu-lost",
        )
        return
    problems = [*_count(node, gpus), *(check for gpu in gpus for check in _one_gpu(node, gpu))]
    yield from problems
    if not problems and gpus:
        yield node.check("gpus", "pass", f"{len(gpus)} x {gpus[0].get('name', '')}")
    elif not gpus:
        yield node.check("gpus", "skip", "none")


def _count(node: Node, gpus: Sequence[Gpu]) -> Checks:
    """Fewer than the driver knows, or than ranks; and parts of GPUs."""
    known, seen = int(node.facts["gpus"] or 0), len(gpus)
    if known > seen:
        yield node.check(
            "gpus",
            "fail",
            f"nvidia-smi lists {seen} GPUs, and the driver {known}",
            cause="a GPU fell off the bus (Xid 79), or was disabled",
            fix=node.command("sudo dmesg | grep -i xid"),
            doc="gpu-lost",
        )
    elif 0 < seen < node.slots:
        yield node.check(
            "gpus",
            "fail",
            f"{seen} GPUs, and {node.slots} ranks",
            cause="two ranks would share a GPU, which NCCL rejects",
            fix=f"-n {seen}",
            doc="invalid-device-ordinal",
        )
    parts = [gpu.get("index") for gpu in gpus if gpu.get("mig.mode.current") == "Enabled"]
    if parts and node.slots > 1:
        yield node.check(
            "gpus",
            "warn",
            f"MIG is on: GPU {', '.join(map(str, parts))}",
            cause="NCCL cannot connect two MIG instances of one GPU",
            fix=node.command("sudo nvidia-smi -mig 0"),
            doc="duplicate-gpu",
        )


def _one_gpu(node: Node, gpu: Gpu) -> Checks:
    name = f"GPU {gpu.get('index')} ({gpu.get('uuid')})"

    def warn(status: Status, what: str, cause: str, fix: str, doc: str) -> Check:
        return node.check("gpus", status, f"{name}: {what}", cause=cause, fix=fix, doc=doc)

    users = gpu.get("users") or []
    if users:
        who = ", ".join(f"pid {each['pid']} {each['name']} ({each['user']}, {each['memory']} MiB)" for each in users)
        yield warn(
            "warn",
            f"is in use by {who}",
            "another job uses memory and time of this GPU",
            node.command(f"ps -fp {','.join(str(each['pid']) for each in users)}"),
            "gpu-memory-taken",
        )
    elif _whole(gpu.get("memory.used")) > 1024:
        yield warn(
            "warn",
            f"{gpu['memory.used']} MiB are in use, without a visible process",
            "a process of another container or user, or one that crashed",
            node.command("sudo fuser -v /dev/nvidia*"),
            "gpu-memory-taken",
        )
    if gpu.get("compute_mode") == "Exclusive_Process" and users:
        yield warn(
            "fail",
            "is in mode Exclusive_Process, and in use",
            "only one process can use it",
            node.command("sudo nvidia-smi -c 0"),
            "gpu-busy",
        )
    if gpu.get("compute_mode") == "Prohibited":
        yield warn(
            "fail", "is in mode Prohibited", "no process can use it", node.command("sudo nvidia-smi -c 0"), "gpu-busy"
        )
    if _whole(gpu.get("ecc.errors.uncorrected.volatile.total")) > 0:
        number = gpu["ecc.errors.uncorrected.volatile.total"]
        reset = node.command("sudo nvidia-smi -r")
        yield warn("fail", f"{number} uncorrected memory errors", "a defective memory row", reset, "gpu-ecc")
    if str(gpu.get("retired_pages.pending")).lower() == "yes":
        yield warn(
            "fail",
            "a row remap is pending",
            "a GPU reset replaces the failed memory",
            node.command("sudo nvidia-smi -r"),
            "gpu-ecc",
        )
    for field in ("clocks_throttle_reasons.hw_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown"):
        if str(gpu.get(field)).lower() == "active":
            look = node.command("nvidia-smi -q -d PERFORMANCE")
            yield warn("warn", f"is throttled: {field.rpartition('.')[2]}", "heat or power", look, "straggler")
    width, most = _whole(gpu.get("pcie.link.width.current")), _whole(gpu.get("pcie.link.width.max"))
    if width and most and width < most:
        look = node.command("sudo lspci -vv -d 10de:")
        yield warn("warn", f"PCIe x{width} of x{most}", "the card or riser is not seated correctly", look, "straggler")


def _whole(value: object) -> int:
    text = str(value).split(".")[0]
    return int(text) if text.lstrip("-").isdigit() else 0
