"""Options of a transport to named nodes, and the base of the backends that use it: SSH, pdsh and legacy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from ddpkit.launchers.containers import option
from ddpkit.launchers.plan import Job, Plan, World
from ddpkit.launchers.starters import Starter, stage_dir_option, stage_option


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """Options and properties of a backend that a transport to named nodes reads, with the default of each."""

    exclude: str = ""  # hosts to leave out
    master_addr: str = ""  # rank 0's address; empty: one that all nodes reach the first host by
    master_port: int = 0  # rank 0's port; 0: a free one
    connect_timeout: float = 5.0  # seconds for a connection to a node
    heartbeat_timeout: float = 30.0  # seconds without a sign of life after which either side counts as lost; 0: never
    accepts_new: bool = False  # keys of hosts that are not known yet are added
    pdsh_args: str = ""  # more options for pdsh
    transport: str = "paramiko"  # or openssh: the ssh program
    starter: str = "ranks"  # anything else needs torch on every node
    stage: str = "off"  # what is copied to the local disk of each node: project, env, or an archive of conda-pack
    stage_dir: str = ""  # where; empty: /tmp
    container: str = ""  # the image of the ranks
    container_workdir: str = ""  # their working folder in it

    @classmethod
    def of(cls, backend: object) -> NodeOptions:
        """Read them from a backend. One that it does not have keeps its default."""
        names = [entry.name for entry in fields(cls)]
        return cls(**{name: getattr(backend, name) for name in names if hasattr(backend, name)})


@dataclass(frozen=True, kw_only=True)
class Nodes(Starter):
    """Common part of the backends that go to named nodes."""

    starter: Literal["ranks", "torchrun", "legacy"] = option(
        "torchrun", "program that starts the ranks of a node: ddpkit itself, torchrun, or torch.distributed.launch"
    )
    exclude: str = option("", "hosts to exclude: node3 node[5-6]")
    master_addr: str = option("", "address of rank 0; default: an address of the first host that all nodes reach")
    master_port: int = option(0, "port of rank 0; default: a free port of the first host")
    connect_timeout: float = option(NodeOptions.connect_timeout, "timeout for a connection to a node, in seconds")
    heartbeat_timeout: float = option(
        NodeOptions.heartbeat_timeout,
        "seconds without a heartbeat after which a node or the launcher is treated as lost",
    )
    stage: str = stage_option()
    stage_dir: str = stage_dir_option()

    name: ClassVar[str]
    reach: ClassVar[str]
    needs: ClassVar[str]

    @property
    def accepts_new(self) -> bool:
        """Keys of hosts that are not known yet are added."""
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
