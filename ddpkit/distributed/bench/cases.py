"""Cases of the collectives benchmark: sizes, groups of ranks, and the formulas of nccl-tests. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ddpkit.distributed.check import pair_rounds

OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv")
SCOPES = ("world", "intra", "inter", "pairs")
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
DTYPE_ALIASES = {"float": "float32", "double": "float64", "half": "float16", "fuint8": "uint8", "int": "int32"}


@dataclass(frozen=True)
class Group:
    """Ranks of one process group; the first is the root of a broadcast."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Scope:
    """Groups that are measured at the same time."""

    name: str
    groups: tuple[Group, ...]


class Case(NamedTuple):
    """One collective of one size and type, in all groups of a scope."""

    scope: Scope
    op: str
    dtype: str
    size: int  # bytes

    def __str__(self) -> str:
        return f"{self.op} of {show_size(self.size)} {self.dtype} ({self.scope.name})"

    def counts(self) -> list[int]:
        """Return the number of array elements in each group."""
        return [
            element_count(self.op, self.size, len(group.ranks), dtype_bytes(self.dtype)) for group in self.scope.groups
        ]


def parse_size(text: str) -> int:
    """Return bytes: `8`, `64K`, `128M`, `1G`, in units of 1024 as in nccl-tests. Raises ValueError."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if not match or int(match.group(1)) < 1:
        raise ValueError(f"{text} is not a size: 8, 64K, 128M, 1G")
    unit: int = 1024 ** " kmgt".index(match.group(2) or " ")
    return int(match.group(1)) * unit


def show_size(number: int) -> str:
    """Return a size in the notation of `parse_size`."""
    for power, unit in ((3, "G"), (2, "M"), (1, "K")):
        if number % 1024**power == 0:
            return f"{number // 1024**power}{unit}"
    return str(number)


def parse_names(text: str, known: Sequence[str], kind: str) -> list[str]:
    """Split `a,b` into known names, each once. Raises ValueError."""
    names = []
    for word in text.split(","):
        name = DTYPE_ALIASES.get(word.strip(), word.strip())
        if name not in known:
            raise ValueError(f"{word!r} is not a {kind}: {', '.join(known)}")
        names += [name] if name not in names else []
    return names


def size_range(least: int, most: int, factor: int) -> list[int]:
    """Return the sizes from `least` to `most`, each `factor` times the one before."""
    sizes = []
    while least <= most:
        sizes.append(least)
        least *= factor
    return sizes


def dtype_bytes(dtype: str) -> int:
    """Return the bytes of one element."""
    return int(re.sub(r"\D", "", dtype)) // 8


def element_count(op: str, size: int, ranks: int, itemsize: int) -> int:
    """Return the number of array elements. Where each rank has a share, all shares are equal."""
    count = max(1, size // itemsize)
    return max(1, count // ranks) * ranks if op in ("all_gather", "reduce_scatter") else count


def is_in_place(op: str, *, asked: bool) -> bool:
    """Return whether a collective reads and writes one array. all_reduce and broadcast of torch always do."""
    return op in ("all_reduce", "broadcast") or (asked and op in ("all_gather", "reduce_scatter"))


def bus_factor(op: str, ranks: int) -> float:
    """Return busbw / algbw, by doc/PERFORMANCE.md of nccl-tests."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if op in ("all_gather", "reduce_scatter") else 1.0


def ranks_by_node(nodes: Sequence[str]) -> dict[str, list[int]]:
    """Return the ranks of each node; `nodes` has one name per rank."""
    ranks: dict[str, list[int]] = {}
    for rank, node in enumerate(nodes):
        ranks.setdefault(node, []).append(rank)
    return ranks


def list_scopes(nodes: Sequence[str], names: Sequence[str]) -> list[Scope]:
    """Return the scopes of these names; without names, the scopes that differ. `nodes` has one name per rank."""
    ranks_of = ranks_by_node(nodes)
    first_ranks = [ranks[0] for ranks in ranks_of.values()]
    wide = any(len(ranks) > 1 for ranks in ranks_of.values())
    usual = ("world", "intra", "inter") if wide and len(ranks_of) > 1 else ("world",)
    scopes = []
    for name in names or usual:
        if name == "world":
            scopes.append(Scope(name, (Group("all", tuple(range(len(nodes)))),)))
        elif name == "intra" and wide:
            scopes.append(Scope(name, tuple(Group(n, tuple(r)) for n, r in ranks_of.items() if len(r) > 1)))
        elif name == "inter" and len(ranks_of) > 1:
            scopes.append(Scope(name, (Group("one a node", tuple(first_ranks)),)))
        elif name == "pairs" and len(ranks_of) > 1:
            scopes += [Scope(name, groups) for groups in _node_pairs(list(ranks_of), first_ranks)]
    return scopes


def _node_pairs(names: list[str], first_ranks: list[int]) -> list[tuple[Group, ...]]:
    """Return rounds of node pairs, by the first rank of each node."""
    return [
        tuple(Group(f"{names[a]}-{names[b]}", (first_ranks[a], first_ranks[b])) for a, b in sorted(pairs))
        for pairs in pair_rounds(list(range(len(names))))
    ]


def list_cases(scopes: list[Scope], ops: Sequence[str], dtypes: Sequence[str], sizes: list[int]) -> list[Case]:
    """Return the cases in order. Of sizes that give the same element counts, the first is kept."""
    cases = []
    for scope in scopes:
        for op in ops if scope.name != "pairs" else ("sendrecv",):
            for dtype in dtypes:
                measured: list[list[int]] = []
                for size in sizes:
                    case = Case(scope, op, dtype, size)
                    if case.counts() not in measured:
                        measured.append(case.counts())
                        cases.append(case)
    return cases
