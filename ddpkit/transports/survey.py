"""Survey of a launch's nodes: ask each for its facts, let them try to reach each other, and build their world.

`ddpkit test` takes the same steps, and goes on with the nodes that are left where a launch stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ddpkit.errors import UsageError
from ddpkit.launchers.node_facts import NodeFacts
from ddpkit.launchers.plan import World
from ddpkit.launchers.shell import count
from ddpkit.transports.compatibility import (
    Requirements,
    Workarounds,
    build_single_world,
    build_world,
    check_nodes,
    check_own_address,
    gpu_notes,
)
from ddpkit.transports.hosts import HostSpec, Problem, refusal
from ddpkit.transports.pool import FACTS_TIMEOUT, NodePool
from ddpkit.transports.reachability import Peers, Reachability, Target, error_of, next_peer, reach_targets

SURVEY_TIMEOUT = 11.0  # seconds; once a node has failed, skip slow questions after this


@dataclass(frozen=True, kw_only=True)
class Connections:
    """Attempts of the nodes to reach each other, and what follows."""

    world: World | None = None
    silent: list[Problem] = field(default_factory=list)  # nodes that did not answer; then nothing else is known
    problems: list[Problem] = field(default_factory=list)
    workarounds: Workarounds = field(default_factory=dict)
    reachability: Reachability | None = None  # None: a single node


class Survey:
    """Questions to all nodes of a pool that were entered, and their answers."""

    def __init__(self, pool: NodePool, requirements: Requirements) -> None:
        self.pool = pool
        self.requirements = requirements
        self.facts: dict[str, NodeFacts] = {}  # by label

    @property
    def specs(self) -> list[HostSpec]:
        """The nodes that gave their facts, and were not left out since."""
        return [spec for spec in self.pool.specs if spec.label in self.facts]

    def list_facts(self) -> list[NodeFacts]:
        return [self.facts[spec.label] for spec in self.specs]

    def ask_facts(self, limit: float) -> list[Problem]:
        """Ask every node for its facts. Returns the silent ones."""
        self.facts, silent = self.pool.ask_facts(self.requirements, limit)
        return silent

    def check_nodes(self) -> list[Problem]:
        return check_nodes(self.requirements, self.specs, self.list_facts())

    def has_master_port(self) -> bool:
        """True if the first node listens on rank 0's port."""
        first = self.facts.get(self.pool.specs[0].label)
        return first is not None and first["port"] is not None

    def connect(self, peers: Peers = next_peer) -> Connections:
        """Let the nodes try to reach each other. The first one must listen on rank 0's port."""
        specs, facts, addr = self.specs, self.list_facts(), self.requirements.master_addr
        if len(specs) == 1:
            return self._connect_single(specs[0], facts[0])
        targets = reach_targets(addr, specs, facts, peers)
        answers, silent = self.pool.probe_addresses(
            {spec.label: each for spec, each in zip(specs, targets, strict=True)}
        )
        if silent:
            return Connections(silent=silent)
        reachability = Reachability(addr, specs, facts, [answers[spec.label] for spec in specs], peers)
        world, problems, workarounds = build_world(self.requirements, specs, facts, reachability)
        return Connections(world=world, problems=problems, workarounds=workarounds, reachability=reachability)

    def _connect_single(self, spec: HostSpec, facts: NodeFacts) -> Connections:
        """Let a single node try the address that the user chose for rank 0."""
        world = build_single_world(self.requirements, spec, facts)
        addr = self.requirements.master_addr
        if not addr or facts["port"] is None:
            return Connections(world=world)
        target = Target(addr, facts["port"], facts["secret"])
        answers, silent = self.pool.probe_addresses({spec.label: [target]})
        if silent:
            return Connections(silent=silent)
        problems = check_own_address(self.requirements, spec, facts, error_of(answers[spec.label][0]))
        return Connections(world=world, problems=problems)


def survey(pool: NodePool, requirements: Requirements, note: Callable[[str], None], *, strict: bool) -> World:
    """Connect to every node, ask for its facts, and build the world in which they run the job together.

    Raises LaunchError where a node cannot be reached, PreflightError where they cannot run it; all causes at once. Not
    strict: an incompatibility is a note.
    """
    until = time.monotonic() + pool.scaled(SURVEY_TIMEOUT)
    nodes = Survey(pool, requirements)
    unreachable = pool.connect()
    limit = max(2.0, until - time.monotonic()) if unreachable else pool.scaled(FACTS_TIMEOUT)
    unreachable += nodes.ask_facts(limit)
    # The others are checked also where a node is missing: one refusal names everything.
    incompatible = nodes.check_nodes()
    if requirements.least is not None:
        pool.drop_failed(unreachable + (incompatible if strict else []), requirements.least, note)
        unreachable = []  # what these problems are about has left the pool
        incompatible = [] if strict else incompatible
    connections = Connections()
    single = len(pool.specs) == 1 and bool(nodes.specs)
    in_time = not unreachable or time.monotonic() < until
    if single or (len(nodes.specs) > 1 and nodes.has_master_port() and in_time):
        connections = nodes.connect()
        unreachable += connections.silent
        incompatible += connections.problems
        if not unreachable:
            for (_, text), labels in connections.workarounds.items():
                note(f"{', '.join(labels)}: {text}")
            for text, labels in gpu_notes(requirements, nodes.specs, nodes.list_facts()).items():
                note(f"{', '.join(labels)}: {text}")
    if unreachable or connections.world is None or (incompatible and strict):
        order = [spec.label for spec in pool.specs]
        shown = unreachable + (incompatible if strict or not unreachable else [])
        raise refusal(sorted(shown, key=lambda problem: order.index(problem.host)), len(pool.specs))
    for problem in incompatible:
        note(f"{problem.host}: {problem.what} (hint: {problem.fix})")
    world = replace(connections.world, min_nodes=requirements.min_nodes)
    return world if requirements.nodes is None else _without_spares(pool, world, requirements.nodes)


def _without_spares(pool: NodePool, world: World, nodes: int) -> World:
    """Keep the first nodes of a world. Each spare must have as many ranks: the world size stays."""
    kept, spare = world.hosts[:nodes], world.hosts[nodes:]
    for host in world.hosts:
        if host.slots != kept[0].slots:
            what = f"{count(host.slots, 'rank')}, and {kept[0].name} has {kept[0].slots}; a spare must replace any node"
            raise UsageError(f"--spares: {host.name} has {what}", f"-n {min(each.slots for each in world.hosts)}")
    pool.drop([host.name for host in spare])
    return replace(world, hosts=kept)
