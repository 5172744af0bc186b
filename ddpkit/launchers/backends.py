"""The backends without a scheduler: this machine, nodes reached by SSH or by pdsh, and the legacy launcher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ddpkit.launchers.containers import option, ssh_client
from ddpkit.launchers.nodes import Nodes
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


@dataclass(frozen=True, kw_only=True)
class SshTorchrunAuto(Nodes):
    """Nodes reached by SSH; one torchrun on each, or the starter of `-o starter`."""

    transport: Literal["paramiko", "openssh"] = ssh_client("")
    accept_new_host_keys: bool = option(False, "accept the key of a new host; a changed key is always rejected")

    name: ClassVar[str] = "ssh-torchrun-auto"
    reach: ClassVar[str] = "ssh"
    needs: ClassVar[str] = "passwordless SSH, Python and torch on the nodes"

    @property
    def accepts_new(self) -> bool:
        return self.accept_new_host_keys


@dataclass(frozen=True, kw_only=True)
class Pdsh(Nodes):
    """Nodes reached through the pdsh program; one torchrun on each, or the starter of `-o starter`."""

    pdsh_args: str = option("", "extra options for pdsh")

    name: ClassVar[str] = "pdsh"
    reach: ClassVar[str] = "pdsh"
    needs: ClassVar[str] = "pdsh and ssh on this machine; passwordless SSH, Python and torch on the nodes"


@dataclass(frozen=True, kw_only=True)
class Legacy(SshTorchrunAuto):
    """Nodes reached by SSH; torch.distributed.launch on each, for old PyTorch."""

    starter: Literal["ranks", "torchrun", "legacy"] = option(
        "legacy", "program that starts the ranks of a node: ddpkit itself, torchrun, or torch.distributed.launch"
    )

    name: ClassVar[str] = "legacy"
