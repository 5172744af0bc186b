"""Checks of software: NCCL's version, and the NVIDIA driver against torch's CUDA. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ddpkit.preflight.check import Check
from ddpkit.preflight.node import Checks, Node, check_each
from ddpkit.transports.compatibility import most_common

# The oldest driver that runs a CUDA release of each major version (NVIDIA's compatibility table).
_DRIVERS = {"11": 450, "12": 525, "13": 580}


def check_nccl(nodes: Sequence[Node]) -> Checks:
    versions = [str(node.inventory["nccl"] or "") for node in nodes]
    common = most_common([version for version in versions if version])

    @check_each("nccl-version")
    def check(node: Node, _: Sequence[Node]) -> Check | str:
        version = node.inventory["nccl"]
        if not version:
            if common:
                return node.check("nccl-version", "unknown", "no package of NCCL found")
            return node.check("nccl-version", "skip", "torch was installed without NCCL")
        if version == common:
            return str(version)
        return node.check(
            "nccl-version",
            "fail",
            f"NCCL {version}, the other nodes {common}",
            cause="two versions of NCCL are not compatible",
            fix=node.command(f"python -m pip install --force-reinstall {_nccl_name(node)}=={common}"),
            doc="nccl-mismatch",
        )

    return check(nodes)


def _nccl_name(node: Node) -> str:
    major = str(node.inventory["cuda"] or "12").partition(".")[0]
    return f"nvidia-nccl-cu{major}"


@check_each("driver")
def check_driver(node: Node, nodes: Sequence[Node]) -> Check | str:
    driver, cuda = node.inventory["driver"], node.inventory["cuda"]
    if not driver or not cuda:
        why = "no NVIDIA driver" if not driver else "this torch was built without CUDA"
        if driver and node.facts["gpus"]:
            return node.check(
                "driver",
                "warn",
                f"{node.facts['gpus']} GPUs, and {why}",
                cause="ranks on that node run on the CPU",
                fix=node.command("python -m pip install --force-reinstall torch"),
                doc="no-nccl-in-torch",
            )
        return node.check("driver", "skip", why)
    least = _DRIVERS.get(cuda.partition(".")[0], 0)
    loaded = node.inventory["gpu_host"]["cuda_driver"]  # of libcuda, which packages of forward compatibility replace
    if int(driver.partition(".")[0]) >= least:
        common = most_common([str(each.inventory["driver"]) for each in nodes if each.inventory["driver"]])
        if driver == common:
            return f"driver {driver}, CUDA {cuda}"
        return node.check(
            "driver",
            "warn",
            f"driver {driver}, on the other nodes {common}",
            cause="NCCL chooses other ways and speeds with another driver",
            fix=f"install NVIDIA driver {common} on {node.label}",
            doc="versions-differ",
        )
    if loaded and int(loaded.partition(".")[0]) >= int(cuda.partition(".")[0]):
        return f"driver {driver}, CUDA {cuda} by forward compatibility (libcuda of CUDA {loaded})"
    return node.check(
        "driver",
        "fail",
        f"driver {driver}, and torch was built for CUDA {cuda}, which needs {least} or later",
        cause="the driver does not support torch's CUDA",
        fix=f"install NVIDIA driver {least} or later, or a torch for an older CUDA: pip install --index-url ...",
        doc="driver-too-old",
    )
