"""The ranks run on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ddpkit.launchers.containers import ssh_client
from ddpkit.launchers.plan import Job, Plan, World
from ddpkit.launchers.starters import Starter


@dataclass(frozen=True, kw_only=True)
class Local(Starter):
    """One node: this machine. No network, no ssh, no scheduler."""

    transport: Literal["paramiko", "openssh"] = ssh_client(" for --on")

    name: ClassVar[str] = "local"
    reach: ClassVar[str] = "local"
    needs: ClassVar[str] = "Python and torch"

    def plan(self, job: Job, world: World) -> Plan:
        return Plan(
            run_id=job.run_id,
            backend=self.name,
            steps=(self.step(job, world, 0),),
            world_size=world.world_size,
            grace=job.grace,
        )
