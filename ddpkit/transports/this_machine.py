"""LocalTransport: the ranks run on this machine, perhaps in a container."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from ddpkit.launchers.plan import Plan, Step, World
from ddpkit.transports import local_facts
from ddpkit.transports.container import ContainerLink
from ddpkit.transports.protocol import Link, LocalLink
from ddpkit.transports.transport import Transport


class LocalTransport(Transport):
    """This machine: surveyed without a connection."""

    local: ClassVar[bool] = True

    def __init__(
        self, nproc_per_node: int | None, environ: Mapping[str, str], rank_env: Mapping[str, str] | None = None
    ) -> None:
        """Take the ranks asked for (None: one per GPU), the environment, and the ranks' own variables."""
        self._nproc_per_node = nproc_per_node
        self._environ = environ
        self._rank_env = rank_env or {}

    def survey(self, note: Callable[[str], None] = lambda _: None, *, strict: bool = True) -> World:
        world = local_facts.this_machine(self._nproc_per_node, {**self._environ, **self._rank_env}, note)
        self.facts = {world.hosts[0].name: local_facts.facts(self._environ)}
        return world

    def submit(self, plan: Plan) -> None:
        return None

    def connect(self, step: Step) -> Link:
        return ContainerLink(step.container) if step.container else LocalLink()

    def close(self) -> None:
        """Nothing is connected before a step starts."""
