"""The CPUs that this process may use, cores and sockets together, and the part of them that a role has."""

from __future__ import annotations

import os
import sys


def own_cpus() -> list[int]:
    """Return the CPUs to which SLURM confines this process, cores and sockets together; none where it does not.

    Jobs that share an unconfined node would all take its first CPUs.
    """
    if sys.platform != "linux":
        return []
    cpus = _in_order()
    return cpus if len(cpus) < (os.cpu_count() or 0) else []


def take_cpus(part: str) -> None:
    """Keep a part of the CPUs, by their places: `0-7`, or `8-` for the rest. A process keeps all where it has none."""
    if not part or sys.platform != "linux":
        return
    first, _, last = part.partition("-")
    cpus = _in_order()[int(first) : int(last) + 1 if last else None]
    if cpus:
        os.sched_setaffinity(0, cpus)


def _in_order() -> list[int]:
    def place(cpu: int) -> tuple[int, ...]:
        numbers = []
        for name in ("physical_package_id", "core_id"):
            try:
                with open("/sys/devices/system/cpu/cpu%d/topology/%s" % (cpu, name)) as file:
                    numbers.append(int(file.read()))
            except (OSError, ValueError):
                numbers.append(0)
        return (*numbers, cpu)

    if sys.platform != "linux":
        return []
    return sorted(os.sched_getaffinity(0), key=place)
