"""CPU sets of ranks: those nearest to their GPUs, or equal blocks of NUMA nodes or sockets. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from ddpkit.text import format_ranges

if TYPE_CHECKING:
    from ddpkit.launchers.node_facts import TopologyFacts

Numa = Literal["auto", "node", "socket", "off"]


class NumaNode(NamedTuple):
    """Part of a machine's memory, with the CPUs near it."""

    cpus: frozenset[int]  # those that the launch may use
    socket: int  # -1: memory alone


class Topology(NamedTuple):
    """NUMA nodes of a machine, and the positions of those near its visible GPUs. No GPUs: none, or not known."""

    nodes: tuple[NumaNode, ...] = ()
    gpus: tuple[int, ...] = ()

    @classmethod
    def of(cls, facts: TopologyFacts) -> Topology:
        """Read a node's answer."""
        nodes = (NumaNode(frozenset(each["cpus"]), each["socket"]) for each in facts["nodes"])
        return cls(tuple(nodes), tuple(facts["gpus"]))


def cpu_sets(topology: Topology, slots: int, numa: Numa) -> tuple[frozenset[int], ...]:
    """Return the CPUs of each local rank; empty: ranks keep all CPUs.

    `auto` binds ranks with a GPU each, to the NUMA node or else to the socket of the GPU. It does so only where every
    rank keeps its equal share of the CPUs.
    """
    if numa == "off":
        return ()
    whole = frozenset[int]().union(*(node.cpus for node in topology.nodes))
    by_gpu = topology.gpus[:slots] if len(topology.gpus) >= slots else ()
    if not by_gpu and numa == "auto":
        return ()
    for kind in ("node", "socket") if numa == "auto" else (numa,):
        sets = _nearest(topology, by_gpu, kind) if by_gpu else _blocks(topology, slots, kind)
        if numa == "auto" and not _fair(sets, whole):
            continue
        # A rank whose part of the machine has no CPU for it keeps all of them.
        binds_any = any(each and each != whole for each in sets)
        return tuple(each or whole for each in sets) if binds_any else ()
    return ()


def _nearest(topology: Topology, positions: tuple[int, ...], kind: str) -> list[frozenset[int]]:
    """The CPUs of the NUMA node, or of its socket, of each GPU. `positions`: of these nodes in the topology."""
    sockets = _sockets(topology)
    chosen = [topology.nodes[position] for position in positions]
    return [node.cpus if kind == "node" else sockets.get(node.socket, frozenset()) for node in chosen]


def _blocks(topology: Topology, slots: int, kind: str) -> list[frozenset[int]]:
    """Equal blocks of ranks, in order, over the parts of the machine."""
    parts = [node.cpus for node in topology.nodes] if kind == "node" else list(_sockets(topology).values())
    parts = [part for part in parts if part]
    return [parts[rank * len(parts) // slots] for rank in range(slots)] if parts else []


def _sockets(topology: Topology) -> dict[int, frozenset[int]]:
    sockets: dict[int, frozenset[int]] = {}
    for node in topology.nodes:
        if node.socket >= 0:
            sockets[node.socket] = sockets.get(node.socket, frozenset()) | node.cpus
    return sockets


def _fair(sets: list[frozenset[int]], whole: frozenset[int]) -> bool:
    """Tell whether each rank has its equal share of all CPUs: ranks with the same set divide it."""
    shared = Counter(sets)
    return all(len(each) * len(sets) >= len(whole) * shared[each] for each in sets)


def format_cpus(cpus: Iterable[int]) -> str:
    """Return CPUs in the form of `taskset -c`: `0-31,64-95`."""
    return format_ranges(cpus).replace(" ", "")


def python_code(sets: tuple[frozenset[int], ...]) -> str:
    """Return a Python statement that binds the process to the CPUs of LOCAL_RANK."""
    lists = []
    for each in sets:
        spans = [part.partition("-") for part in format_cpus(each).split(",")]
        lists.append("[" + ", ".join(f"*range({first}, {int(last or first) + 1})" for first, _, last in spans) + "]")
    return f'os.sched_setaffinity(0, [{", ".join(lists)}][int(os.environ["LOCAL_RANK"])])'


def threads(sets: tuple[frozenset[int], ...], cpus: int, slots: int) -> int:
    """Return the threads for the CPU work of each rank: its share of `cpus`, or of its own CPUs."""
    shared = Counter(sets)
    share = cpus // max(1, slots)
    return max(1, min([share, *(len(each) // shared[each] for each in shared)]))
