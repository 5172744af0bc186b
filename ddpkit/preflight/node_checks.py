"""Checks of nodes, alone and compared with each other. Pure.

Every check says something about every node: a pass is evidence as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from ddpkit.preflight.check import Check
from ddpkit.preflight.env_checks import check_environment
from ddpkit.preflight.gpu_checks import check_gpus
from ddpkit.preflight.machine_checks import check_clock, check_container, check_debugging, check_infiniband
from ddpkit.preflight.node import CheckAll, Node
from ddpkit.preflight.resource_checks import check_cpus, check_disk, check_limits, check_memory, check_shm
from ddpkit.preflight.software_checks import check_driver, check_nccl

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
