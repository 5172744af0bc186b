"""Event types of our rank programs: lines that ranks of `distributed/check.py` and `collectives.py` print.

`e` is the kind of an event, on which mypy narrows. `sender` is the rank whose output it stood in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from ddpkit.launchers.node_facts import NodeFacts, NodeInventory

if TYPE_CHECKING:
    from typing_extensions import NotRequired  # in `typing` from Python 3.11


class _Event(TypedDict):
    sender: int | None


class StartEvent(_Event):
    """A rank's program runs."""

    e: Literal["rank"]
    rank: int
    host: str
    nodes: str  # of its SLURM step


class ReportEvent(_Event):
    """A rank has imported torch, and is about to join the others."""

    e: Literal["here"]
    rank: int
    host: str
    torch: str
    local_rank: int
    local_world_size: int
    devices: int
    device: str
    identity: str | None  # of its GPU
    nccl: bool
    nccl_version: str  # of the library that is loaded; empty: none
    waits: float  # seconds that it waits for the others


class BeginEvent(_Event):
    """A rank begins its part of a stage."""

    e: Literal["begin"]
    stage: str
    rank: int
    waits: float  # seconds that it may take


class FactsEvent(_Event):
    """Facts and inventory of a rank's node."""

    e: Literal["facts"]
    look: NodeFacts
    facts: NodeInventory


class UnknownEvent(_Event):
    """A rank's node could not be looked at."""

    e: Literal["unknown"]
    host: str
    why: str


class Figures(TypedDict, total=False):
    """One rank's measurements in a stage."""

    small_ms: float
    large_ms: float
    gb_per_s: float
    gemm: float  # seconds
    copy: float  # seconds


class DoneEvent(_Event, Figures):
    """A rank ended its part of a stage. Stage mesh has `host`, `errors` and `behind`."""

    e: Literal["did"]
    stage: str
    rank: int
    host: NotRequired[str]
    errors: NotRequired[dict[str, dict[str, str]]]  # by host and address; empty: none
    behind: NotRequired[list[float]]  # seconds that its clock is ahead: at least, at most


class StageEvent(_Event):
    """All ranks passed a stage."""

    e: Literal["stage"]
    stage: str
    seconds: NotRequired[float]
    done: NotRequired[dict[str, Figures]]  # by rank


class ProblemEvent(_Event):
    """A rank found a problem, its own or another rank's."""

    e: Literal["problem"]
    rank: int
    host: str
    problem: str
    fix: str
    check: NotRequired[str]
    level: NotRequired[Literal["fail", "warn"]]
    cause: NotRequired[str]


class BenchEvent(_Event):
    """A benchmark begins."""

    e: Literal["bench"]
    comm: str
    world_size: int
    nodes: int
    device: str
    torch: str


class RowEvent(_Event):
    """A measurement of one collective of one size. With a `note`, which is why it was not measured, it ends there."""

    e: Literal["row"]
    op: str
    bytes: int
    note: str
    rounds: int
    seconds: float  # of one call, on the slowest rank
    algbw: float  # GB/s, 10^9 bytes a second
    busbw: float
    wrong: int  # elements, over all ranks
    wrong_ranks: list[int]
    slowest: int  # rank
    host: str  # of the slowest rank


Event = (
    StartEvent | ReportEvent | BeginEvent | FactsEvent | UnknownEvent | DoneEvent | StageEvent | ProblemEvent
    | BenchEvent | RowEvent
)  # fmt: skip
