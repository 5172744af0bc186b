"""The ranks run on nodes that are reached by SSH and have nothing but sshd, Python and torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ddpkit.plan import Job, Plan, World
from ddpkit.starters import Starter, option


@dataclass(frozen=True, kw_only=True)
class Nodes(Starter):
    """What all backends have in common that go to named nodes."""

    starter: Literal["ranks", "torchrun", "legacy"] = option(
        "torchrun", "how each node starts its ranks: one process per rank, torchrun, or torch.distributed.launch"
    )
    exclude: str = option("", "hosts to leave out: node3 node[5-6]")
    master_addr: str = option("", "rank 0's address; default: one that all nodes reach the first host by")
    master_port: int = option(0, "rank 0's port; default: one that is free on the first host")
    connect_timeout: float = option(5.0, "seconds for a connection to a node")
    heartbeat_timeout: float = option(
        30.0, "seconds without a sign of life after which a node counts as gone, and a node thinks so of the launcher"
    )

    name: ClassVar[str]
    reach: ClassVar[str]
    needs: ClassVar[str]

    @property
    def accepts_new(self) -> bool:
        """Whether keys of hosts that are not known yet are added."""
        return False

    def plan(self, job: Job, world: World) -> Plan:
        return Plan(
            run_id=job.run_id,
            backend=self.name,
            steps=tuple(self.step(job, world, node_rank) for node_rank in range(len(world.hosts))),
            world_size=world.world_size,
            grace=job.grace,
            heartbeat_timeout=self.heartbeat_timeout,
            min_nodes=world.min_nodes,
        )


@dataclass(frozen=True, kw_only=True)
class SshTorchrunAuto(Nodes):
    """Nodes reached by SSH; one torchrun on each, or what `-o starter` says."""

    accept_new_host_keys: bool = option(False, "add the key of a host that is not known yet; never a changed one")

    name: ClassVar[str] = "ssh-torchrun-auto"
    reach: ClassVar[str] = "ssh"
    needs: ClassVar[str] = "a way in by ssh without a password; Python and torch on the nodes"

    @property
    def accepts_new(self) -> bool:
        return self.accept_new_host_keys


@dataclass(frozen=True, kw_only=True)
class Legacy(SshTorchrunAuto):
    """Nodes reached by SSH; torch.distributed.launch on each, for old PyTorch."""

    starter: Literal["ranks", "torchrun", "legacy"] = option(
        "legacy", "how each node starts its ranks: one process per rank, torchrun, or torch.distributed.launch"
    )

    name: ClassVar[str] = "legacy"


@dataclass(frozen=True, kw_only=True)
class Pdsh(Nodes):
    """Nodes reached through the pdsh program; one torchrun on each, or what `-o starter` says."""

    pdsh_args: str = option("", "more options for pdsh, as one would type them")

    name: ClassVar[str] = "pdsh"
    reach: ClassVar[str] = "pdsh"
    needs: ClassVar[str] = "pdsh and ssh here, a way in by ssh without a password; Python and torch on the nodes"
