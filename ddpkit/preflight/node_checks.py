"""Checks of nodes, alone and compared with each other, among them those of software. Pure.

Every check says something about every node: a pass is evidence as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ddpkit.launchers.shell import quote
from ddpkit.preflight.check import Check, CheckAll, Fault, Node, check_each
from ddpkit.preflight.gpu_checks import check_gpus
from ddpkit.preflight.request_checks import check_environment
from ddpkit.preflight.resource_checks import (
    check_clock,
    check_container,
    check_cpus,
    check_debugging,
    check_disk,
    check_infiniband,
    check_limits,
    check_memory,
    check_shm,
)
from ddpkit.transports.compatibility import most_common

# The oldest driver that runs a CUDA release of each major version (NVIDIA's compatibility table).
_DRIVERS = {"11": 450, "12": 525, "13": 580}


def check_nccl(nodes: Sequence[Node]) -> Iterator[Check]:
    """Check that the packages of NCCL have one version on all nodes."""
    versions = [str(node.inventory["nccl"] or "") for node in nodes]
    common = most_common([version for version in versions if version])

    @check_each("nccl-version")
    def check(node: Node, _: Sequence[Node]) -> Fault | str:
        version = node.inventory["nccl"]
        if not version:
            if common:
                return Fault("unknown", "no package of NCCL found")
            return Fault("skip", "no package of NCCL; the ranks report the one that they load")
        if version == common:
            return str(version)
        what = f"NCCL {version}, the other nodes {common}"
        cause = "two versions of NCCL are not compatible"
        fix = node.command(f"python -m pip install --force-reinstall {quote(f'{_nccl_name(node)}=={common}')}")
        return Fault("fail", what, cause, fix, "nccl-mismatch")

    return check(nodes)


LOADED = "NCCL that its ranks load: "  # with the version behind it, the evidence of a check by `loaded_nccl`


def loaded_nccl(versions: Mapping[str, str]) -> Iterator[Check]:
    """Checks from the NCCL that ranks have loaded. `versions`: by host; empty: none."""
    for host, version in versions.items():
        if version:
            yield Check(id="nccl-version", status="pass", host=host, evidence=LOADED + version)


def join_nccl(checks: Sequence[Check]) -> list[Check]:
    """Return the checks with one for the NCCL of each host: the loaded one, or a warning if its package differs."""
    loaded = {each.host: each.evidence[len(LOADED) :] for each in checks if each.evidence.startswith(LOADED)}
    joined = []
    for each in checks:
        version = loaded.get(each.host, "")
        of_package = each.id == "nccl-version" and version and not each.evidence.startswith(LOADED)
        if not of_package or each.status not in ("pass", "skip", "unknown"):
            joined.append(each)
        elif each.status == "pass" and each.evidence != version:  # the evidence is the version of the package
            cause = "LD_LIBRARY_PATH or LD_PRELOAD replaces the NCCL that torch was built for"
            text = f"its ranks load NCCL {version}, and torch came with {each.evidence}"
            fix = "--env LD_LIBRARY_PATH= --env LD_PRELOAD="
            joined.append(replace(each, status="warn", evidence=text, cause=cause, fix=fix, doc="nccl-mismatch"))
    return joined


def _nccl_name(node: Node) -> str:
    major = str(node.inventory["cuda"] or "12").partition(".")[0]
    return f"nvidia-nccl-cu{major}"


@check_each("driver")
def check_driver(node: Node, nodes: Sequence[Node]) -> Fault | str:
    """Check that the NVIDIA driver runs the CUDA that torch was built for, and is the one of the other nodes."""
    driver, cuda = node.inventory["driver"], node.inventory["cuda"]
    if not driver or not cuda:
        why = "no NVIDIA driver" if not driver else "this torch was built without CUDA"
        if driver and node.facts["gpus"]:
            what = f"{node.facts['gpus']} GPUs, and {why}"
            cause = "ranks on that node run on the CPU"
            fix = node.command("python -m pip install --force-reinstall torch")
            return Fault("warn", what, cause, fix, "no-nccl-in-torch")
        return Fault("skip", why)
    least = _DRIVERS.get(cuda.partition(".")[0], 0)
    loaded = node.inventory["gpu_host"]["cuda_driver"]  # of libcuda, which packages of forward compatibility replace
    if int(driver.partition(".")[0]) >= least:
        common = most_common([str(each.inventory["driver"]) for each in nodes if each.inventory["driver"]])
        if driver == common:
            return f"driver {driver}, CUDA {cuda}"
        what = f"driver {driver}, on the other nodes {common}"
        cause = "NCCL chooses other ways and speeds with another driver"
        fix = f"install NVIDIA driver {common} on {node.label}"
        return Fault("warn", what, cause, fix, "versions-differ")
    if loaded and int(loaded.partition(".")[0]) >= int(cuda.partition(".")[0]):
        return f"driver {driver}, CUDA {cuda} by forward compatibility (libcuda of CUDA {loaded})"
    what = f"driver {driver}, and torch was built for CUDA {cuda}, which needs {least} or later"
    cause = "the driver does not support torch's CUDA"
    fix = f"install NVIDIA driver {least} or later, or a torch for an older CUDA: pip install --index-url ..."
    return Fault("fail", what, cause, fix, "driver-too-old")


CHECKS: tuple[CheckAll, ...] = (
    check_clock,
    check_nccl,
    check_driver,
    check_limits,
    check_shm,
    check_disk,
    check_memory,
    check_cpus,
    check_environment,
    check_container,
    check_infiniband,
    check_gpus,
    check_debugging,
)


def check_nodes(nodes: Sequence[Node]) -> list[Check]:
    return [result for check in CHECKS for result in check(nodes)]
