"""Addresses that nodes try each other by, and which of them answered. Pure.

Every node tries rank 0's port, then a high port of some peers, by each of their addresses. gloo and NCCL listen on such
high ports.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ddpkit.launchers.node_facts import NodeFacts
from ddpkit.transports.hosts import HostSpec

MANY = 64  # nodes; of more each tries SOME peers
SOME = 9
OPEN_PORTS = "open the dynamic ports (32768-60999) between the nodes: gloo and NCCL listen on them"

Attempt = Sequence[str]  # [address that answered, error], as `probe.reach` sends it: see `error_of`
Peers = Callable[[int, int], list[int]]  # index of a node and number of nodes -> indices of the nodes that it tries


class Target(NamedTuple):
    """What a node tries to connect to. `probe.reach` gets it as a list."""

    name: str  # or address
    port: int | None
    secret: str  # by which the listener is known


def error_of(attempt: Attempt) -> str:
    """Return the error of an attempt; empty: it succeeded."""
    return attempt[1]


def next_peer(index: int, count: int) -> list[int]:
    """The next node alone: together they form a ring."""
    return [(index + 1) % count]


def all_peers(index: int, count: int) -> list[int]:
    """All other nodes; of many the next ones, and some that are spread over the rest."""
    if count <= MANY:
        return [other for other in range(count) if other != index]
    step = max(1, count // SOME)
    return sorted({(index + 1) % count, *((index + 1 + step * far) % count for far in range(SOME))} - {index})


def candidate_addresses(spec: HostSpec, facts: NodeFacts) -> list[str]:
    """A host's addresses, best first: those of its own name, which gloo takes, then those of its interfaces."""
    names = [address for address in facts["own_name"] if not _is_local(address)]
    addresses = [*names, *(address for _, address in facts["addresses"]), spec.name]
    return list(dict.fromkeys(addresses))


def master_candidates(master_addr: str, specs: Sequence[HostSpec], facts: Sequence[NodeFacts]) -> list[str]:
    """Addresses of rank 0: the user's own, or the first host's."""
    return [master_addr] if master_addr else candidate_addresses(specs[0], facts[0])


def _is_local(address: str) -> bool:
    """True if only the host itself reaches itself by this address: 127.0.1.1, link-local ones."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return parsed.is_loopback or parsed.is_link_local


def reach_targets(
    master_addr: str, specs: Sequence[HostSpec], facts: Sequence[NodeFacts], peers: Peers = next_peer
) -> list[list[Target]]:
    """The targets of each host (see `probe.reach`): rank 0's port, then a high port of each peer, by every address.

    The first host tries rank 0's port as well: rank 0 connects to it like every other.
    """
    rank_0 = [
        Target(name, facts[0]["port"], facts[0]["secret"]) for name in master_candidates(master_addr, specs, facts)
    ]
    return [
        [
            *rank_0,
            *(
                Target(name, facts[peer]["high_port"], facts[peer]["secret"])
                for peer in peers(index, len(specs))
                for name in candidate_addresses(specs[peer], facts[peer])
            ),
        ]
        for index in range(len(specs))
    ]


class Reachability:
    """Attempts of all hosts, by their index. `answers`: to `reach_targets`, per host."""

    def __init__(
        self,
        master_addr: str,
        specs: Sequence[HostSpec],
        facts: Sequence[NodeFacts],
        answers: Sequence[Sequence[Attempt]],
        peers: Peers = next_peer,
    ) -> None:
        self.master = master_candidates(master_addr, specs, facts)
        self.addresses = [candidate_addresses(spec, each) for spec, each in zip(specs, facts, strict=True)]
        # An answer has the order of `reach_targets`: all addresses of rank 0, then all of each peer.
        width = len(self.master)
        self.to_master = [list(each[:width]) for each in answers]
        self.attempts: dict[tuple[int, int], Sequence[Attempt]] = {}  # by (from, to)
        for index, each in enumerate(answers):
            rest = list(each[width:])
            for peer in peers(index, len(specs)):
                count = len(self.addresses[peer])
                self.attempts[index, peer], rest = rest[:count], rest[count:]

    def reached(self, source: int, target: int) -> list[str]:
        """The addresses by which one host reaches another."""
        pairs = zip(self.addresses[target], self.attempts[source, target], strict=True)
        return [address for address, attempt in pairs if not error_of(attempt)]

    def reached_by_any(self, target: int) -> set[str]:
        """The addresses by which some host reaches this one."""
        return {address for source in self.sources(target) for address in self.reached(source, target)}

    def reaches_any(self, source: int) -> bool:
        """True if a host reaches some other one."""
        return any(self.reached(source, target) for target in self.targets(source))

    def master_reached(self, source: int) -> list[str]:
        """The addresses by which a host reaches rank 0's port."""
        return [
            address
            for address, attempt in zip(self.master, self.to_master[source], strict=True)
            if not error_of(attempt)
        ]

    def sources(self, target: int) -> list[int]:
        """The hosts that tried to reach this one."""
        return [source for source, other in self.attempts if other == target]

    def targets(self, source: int) -> list[int]:
        """The hosts that this one tried to reach."""
        return [target for other, target in self.attempts if other == source]

    def describe(self, source: int, target: int) -> str:
        """The attempts of one host to reach another, in words."""
        return describe_attempts(self.addresses[target], self.attempts[source, target])


def describe_attempts(addresses: Sequence[str], attempts: Sequence[Attempt]) -> str:
    """Addresses and their errors, in words; those with the same error together."""
    by_error: dict[str, list[str]] = {}
    for address, attempt in zip(addresses, attempts, strict=True):
        by_error.setdefault(error_of(attempt), []).append(address)
    return "; ".join(f"{', '.join(alike)}: {error}" for error, alike in by_error.items())
