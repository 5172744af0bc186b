"""Durations of every rank's steps, as a heat map, and the rank that the others waited for. Pure.

In data-parallel training the whole steps of all ranks are equally long, for they wait for each other in the exchange of
gradients. A straggler shows in its own work: from the end of a step to its own last gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddpkit.run.timeline import RankTimeline, TimelineFile

COLUMNS = 60  # of the heat map
STANDS_OUT = 1.25  # times the median of the other ranks
WORTH = 0.001  # seconds a step, below which nobody cares
GPUS = (
    " On GPUs own work is the time to queue it, by the host's clock: a GPU that is slow does not show here. "
    "To compare the GPUs: ddpkit test --full."
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One rank; cells are seconds a step, None where nothing is known."""

    rank: int
    host: str
    steps: int
    own: tuple[float | None, ...]
    whole: tuple[float | None, ...]
    own_seconds: float | None  # the median over the cells
    whole_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Slowest:
    """The rank with the most work of its own."""

    rank: int
    host: str
    seconds: float  # of own work a step
    usual: float  # the median of the others
    times: float
    stands_out: bool


@dataclass(frozen=True, kw_only=True)
class Steps:
    rows: tuple[Row, ...]
    steps: int  # of the rank with the most
    slowest: Slowest | None
    words: str


def read_steps(timeline: TimelineFile | None, why_not: str) -> Steps:
    """The steps of a run. `why_not`: what to say where nothing was recorded."""
    ranks = (timeline or {}).get("ranks", {})
    known = {int(number): each for number, each in ranks.items() if each.get("bins")}
    if not known:
        return Steps(rows=(), steps=0, slowest=None, words=why_not)
    most = max(int(_total(each["bins"])) for each in known.values())
    columns = min(COLUMNS, most, max(len(each["bins"]) for each in known.values()))
    rows = tuple(_row(number, known[number], most, columns) for number in sorted(known))
    slowest = _slowest(rows)
    gpus = any("cuda" in each.get("marks", {}) or _has_cuda(each.get("versions", ())) for each in known.values())
    words = _words(rows, slowest) + (GPUS if gpus and slowest is not None else "")
    return Steps(rows=rows, steps=most, slowest=slowest, words=words)


def _has_cuda(versions: Sequence[str]) -> bool:
    """Whether these versions (of Python, torch, CUDA, NCCL) have CUDA."""
    return list(versions[2:3]) not in ([], ["-"])


def _total(bins: Sequence[Sequence[float]]) -> float:
    return sum(each[0] for each in bins)


def _row(number: int, known: RankTimeline, most: int, columns: int) -> Row:
    bins = known["bins"]  # of six numbers each: see `timeline.py`
    whole = cells([(count, took, count) for count, took, _, _, _, _ in bins], most, columns)
    own = cells([(count, own_work, with_own) for count, _, _, with_own, own_work, _ in bins], most, columns)
    return Row(
        rank=number,
        host=str(known.get("host", "")),
        steps=int(_total(bins)),
        own=own,
        whole=whole,
        own_seconds=_median(own),
        whole_seconds=_median(whole),
    )


def cells(bins: Sequence[tuple[float, float, float]], most: float, columns: int) -> tuple[float | None, ...]:
    """Seconds a step in so many equal parts of `most` steps. A bin: its steps; seconds, and of how many of its steps.

    Ranks report at different moments: a bin that lies in two parts counts in each by its share.
    """
    seconds, counts = [0.0] * columns, [0.0] * columns
    width, at = most / columns, 0.0
    for steps, took, of_steps in bins:
        begin, at = at, at + steps
        column = int(begin / width)
        while steps > 0 and column < columns and column * width < at:
            share = (min(at, (column + 1) * width) - max(begin, column * width)) / steps
            seconds[column] += took * share
            counts[column] += of_steps * share
            column += 1
    return tuple(took / count if count > 1e-9 else None for took, count in zip(seconds, counts, strict=True))


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    from statistics import median  # a launch loads this file, and most have no steps

    return median(known)


def _slowest(rows: Sequence[Row]) -> Slowest | None:
    """Return the rank with the most own work; None: it is known of fewer than two ranks."""
    known = [(row.own_seconds, row) for row in rows if row.own_seconds is not None]
    if len(known) < 2:
        return None
    from statistics import median

    seconds, row = max(known, key=lambda pair: pair[0])
    usual = median(each for each, other in known if other is not row)
    times = seconds / usual if usual > 0 else 1.0
    return Slowest(
        rank=row.rank,
        host=row.host,
        seconds=seconds,
        usual=usual,
        times=times,
        stands_out=times >= STANDS_OUT and seconds - usual >= WORTH,
    )


def _words(rows: Sequence[Row], slowest: Slowest | None) -> str:
    if slowest is None and len(rows) == 1:
        return "One rank: no rank to compare with."
    if slowest is None:
        return (
            "Only the time of whole steps is known. Ranks that wait for each other have equal times. Each rank's work "
            "is measured where DistributedDataParallel wraps the model."
        )
    who = f"rank {slowest.rank} on {slowest.host}"
    if not slowest.stands_out:
        return f"No rank is slow: {who} has the most own work, {slowest.times:.2f} times the median of the others."
    wait = 1000 * (slowest.seconds - slowest.usual)
    return (
        f"The others wait for {who}: its own work takes {1000 * slowest.seconds:.0f} ms a step, {slowest.times:.1f} "
        f"times the median of the others. Each step loses about {wait:.0f} ms waiting for it."
    )
