"""Chooses the transport of a backend from its `reach`: nothing else in the package compares it.

| `reach` | transport | connections of its steps |
|---|---|---|
| `local` | `this_machine.LocalTransport` | a supervisor here, or in a container here |
| `ssh`, `pdsh` | `transport.SshTransport`, `transport.PdshTransport` | a supervisor on each node |
| `slurm` | `scheduler.SlurmTransport` | srun under a supervisor here, or a batch job |
| `scheduler` | `scheduler.SchedulerTransport` | a batch job of another scheduler |
"""

from __future__ import annotations

from ddpkit.errors import UsageError, nearest
from ddpkit.launchers.registry import Launcher
from ddpkit.transports.transport import Transport

REACHES = ("local", "ssh", "pdsh", "slurm", "scheduler")


def transport_class(backend: type[Launcher]) -> type[Transport]:
    """Return the transport of a backend. Imports it. Raises UsageError for an unknown `reach`."""
    reach = getattr(backend, "reach", None)
    if reach == "local":
        from ddpkit.transports.this_machine import LocalTransport

        return LocalTransport
    if reach in ("ssh", "pdsh"):
        from ddpkit.transports.transport import PdshTransport, SshTransport

        return PdshTransport if reach == "pdsh" else SshTransport
    if reach in ("slurm", "scheduler"):
        from ddpkit.transports.scheduler import SchedulerTransport, SlurmTransport

        return SlurmTransport if reach == "slurm" else SchedulerTransport
    name = getattr(backend, "name", backend.__name__)
    raise UsageError(
        f"backend {name!r} has the reach {reach!r}, not one of {', '.join(REACHES)}",
        nearest(str(reach), REACHES)
        or f"correct the class variable reach of {backend.__module__}.{backend.__qualname__}",
    )
