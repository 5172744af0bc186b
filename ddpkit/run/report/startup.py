"""Phases of a start, from every rank's marks; the longest with its rank. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType

from ddpkit.run.timeline import LaunchFile, NodeCopy, RankTimeline, TimelineFile

# A phase is named by the mark at its end.
PHASES = {
    "listed": "prepare: settings, connections, list of the files to copy",
    "staged": "copy to the node's local disk (--stage)",
    "prepared": "prepare: settings, connections and checks of the nodes",
    "queued": "wait until SLURM begins the job",
    "start": "start the rank's process",
    "python": "start its Python",
    "import": "script, up to import torch",
    "imported": "import torch",
    "cuda": "script, up to the start of CUDA in this rank",
    "meet": "script, up to the rendezvous",
    "connect": "rendezvous of the ranks",
    "group": "start of the process group: NCCL, gloo",
    "wrap": "model, up to DistributedDataParallel",
    "collective": "up to the end of the first collective",
    "step": "model, data, first optimizer step",
}
# Where ranks were seen from outside only (`ddpkit/node/calls/rank_start.py`), some marks are not there.
_OUTSIDE = {
    "import": "start its Python; script, up to import torch",
    "meet": "import torch; script, up to the rendezvous",
    "group": "rendezvous of the ranks; start of the process group: NCCL, gloo",
}
OBSERVE = "ddpkit launch --observe start,steps"  # shows the rest
OWN = ("staged", "start", "python", "import", "imported", "cuda", "meet")  # phases in which a rank waits for no other
# Of ranks with --stage, of a job, with a GPU, with DDP, that exchange data.
OPTIONAL = ("listed", "staged", "queued", "cuda", "wrap", "collective")
_BY_TIME = ("listed", "staged", "cuda")  # a script starts CUDA at any time, a job copies after it waited

SLOW = 1.3  # times the median of the other nodes


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One phase of one rank, in seconds since the launcher began."""

    phase: str  # a key of PHASES
    begin: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Row:
    rank: int
    host: str
    segments: tuple[Segment, ...]
    attempts: int
    missing: tuple[str, ...]  # marks that this rank never made


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One phase over all ranks."""

    phase: str
    words: str
    ranks: int  # that went through it
    seconds: float  # the median
    longest: float
    rank: int  # the one for which it took longest
    host: str


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A local copy of --stage on one node."""

    kind: str  # project, env
    copied: bool  # False: the node had it
    size: int  # bytes that were sent to the node, or that it read from the shared directory
    source: str  # the node that it came from; empty: the launcher, or the shared directory
    seconds: float  # with the check of the files


@dataclass(frozen=True, kw_only=True)
class NodeStart:
    """The start of one node's ranks, in seconds."""

    host: str
    ranks: int
    own: float  # until its last rank came to the rendezvous; no rank waits for another one before
    phases: Mapping[str, float]  # the longest of its ranks, by the keys of PHASES
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Start:
    rows: tuple[Row, ...]
    phases: tuple[Phase, ...]
    nodes: tuple[NodeStart, ...]
    total: float | None  # until the last rank's first step
    entered: Mapping[str, float]  # seconds after which each node was entered
    words: str  # where most of the time went; or why that is not known


def read_startup(
    launch: LaunchFile | None,
    timeline: TimelineFile | None,
    why_not: str,
    nccl: str = "",
    copies: Mapping[str, Sequence[NodeCopy]] = MappingProxyType({}),
) -> Start:
    """The start of a run. `why_not`: what to say where nothing was recorded. `nccl`: see `init_timings`."""
    ranks = (timeline or {}).get("ranks", {})
    if timeline is None or not ranks:
        nodes = _nodes((), copies)
        words = " ".join(filter(None, (why_not, _copies(nodes))))
        return Start(rows=(), phases=(), nodes=nodes, total=None, entered={}, words=words)
    began = float((launch or {}).get("began") or timeline.get("carried") or 0.0)
    prepared = (launch or {}).get("prepared")
    rows = tuple(_row(int(number), ranks[number], began, prepared, copies) for number in sorted(ranks, key=int))
    outside = not any(segment.phase == "python" for row in rows for segment in row.segments)
    named = {**PHASES, **_OUTSIDE} if outside else PHASES
    phases = tuple(phase for name in named if (phase := _phase(name, named[name], rows)) is not None)
    steps = [segment.end for row in rows for segment in row.segments if segment.phase == "step"]
    total = max(steps) if len(steps) == len(rows) else None
    entered = {host: float(when) - began for host, when in (launch or {}).get("entered", {}).items()}
    nodes = _nodes(rows, copies)
    words = " ".join(
        filter(None, (_words(rows, phases, total, outside=outside), _copies(nodes), _slow_node(nodes), nccl))
    )
    return Start(rows=rows, phases=phases, nodes=nodes, total=total, entered=entered, words=words)


def _row(
    number: int,
    known: RankTimeline,
    began: float,
    prepared: float | None,
    copies: Mapping[str, Sequence[NodeCopy]],
) -> Row:
    """Make the phases of one rank of its marks: each phase begins where the one before ended."""
    marks: dict[str, float] = dict(known.get("marks", {}))
    if prepared is not None:
        marks["prepared"] = float(prepared)
    copies_of_host = copies.get(str(known.get("host", "")), ())
    if copies_of_host:
        marks["staged"] = max(copy["ended"] for copy in copies_of_host)
        first = min(copy["began"] for copy in copies_of_host)
        if prepared is not None and first < prepared:  # the launcher copied
            marks["listed"] = first
    outside = "python" not in marks
    segments, last = [], 0.0
    for name in _in_order(marks):
        # Clocks of two machines agree to some milliseconds: no phase ends before it began.
        end = max(last, float(marks[name]) - began)
        segments.append(Segment(phase=name, begin=last, end=end))
        last = end
    return Row(
        rank=number,
        host=str(known.get("host", "")),
        segments=tuple(segments),
        attempts=int(known.get("attempts", 0)),
        missing=tuple(name for name in (_OUTSIDE if outside else PHASES) if name not in marks and name not in OPTIONAL),
    )


def _in_order(marks: Mapping[str, float]) -> list[str]:
    """Return the marks in the order of PHASES, but some of them by their time."""
    names = [name for name in PHASES if name in marks and name not in _BY_TIME]
    for by_time in _BY_TIME:
        if by_time in marks:
            names.insert(sum(marks[name] <= marks[by_time] for name in names), by_time)
    return names


def init_timings(lines: Iterable[str]) -> str:
    """Return NCCL's own times of its slowest start, from lines that it prints with NCCL_DEBUG=INFO; else empty."""
    matches = [match for line in lines if (match := _INIT_TIMINGS.search(line))]
    if not matches:
        return ""
    slowest = max(matches, key=lambda match: float(match["total"]))
    parts = dict(re.findall(r"(\w+) ([0-9.]+)", slowest["parts"]))
    longest = max(parts, key=lambda name: float(parts[name]), default="")
    most = f", of which {longest} {parts[longest]} s" if longest else ""
    return (
        f"NCCL's own init timings, slowest: rank {slowest['rank']} of {slowest['ranks']}, {slowest['total']} s{most}."
    )


_INIT_TIMINGS = re.compile(
    r"NCCL INFO Init timings(?: - \w+)?: rank (?P<rank>\d+) nranks (?P<ranks>\d+) total (?P<total>[0-9.]+) "
    r"\((?P<parts>[^)]*)\)"
)


def _phase(name: str, words: str, rows: Sequence[Row]) -> Phase | None:
    """Sum up one phase over all ranks; None: no rank went through it."""
    took = [(each.end - each.begin, row) for row in rows for each in row.segments if each.phase == name]
    if not took:
        return None
    longest, row = max(took, key=lambda pair: pair[0])
    seconds = median(each for each, _ in took)
    return Phase(
        phase=name,
        words=words,
        ranks=len(took),
        seconds=seconds,
        longest=longest,
        rank=row.rank,
        host=row.host,
    )


def _nodes(rows: Sequence[Row], copies: Mapping[str, Sequence[NodeCopy]]) -> tuple[NodeStart, ...]:
    """Return the nodes of the ranks; without ranks, those with local copies."""
    hosts: dict[str, list[dict[str, float]]] = {} if rows else {host: [] for host in copies}
    for row in rows:
        hosts.setdefault(row.host, []).append({each.phase: each.end - each.begin for each in row.segments})
    return tuple(
        NodeStart(
            host=host,
            ranks=len(ranks),
            own=max((sum(took.get(name, 0.0) for name in OWN) for took in ranks), default=0.0),
            phases={
                name: max(took.get(name, 0.0) for took in ranks)
                for name in PHASES
                if any(name in took for took in ranks)
            },
            copies=tuple(
                Copy(
                    kind=copy["kind"],
                    copied=copy["copied"],
                    size=copy["size"],
                    source=copy.get("source", ""),
                    seconds=copy["ended"] - copy["began"],
                )
                for copy in copies.get(host, ())
            ),
        )
        for host, ranks in hosts.items()
    )


def _copies(nodes: Sequence[NodeStart]) -> str:
    """Return a sentence of the local copies, with the slowest node; nothing without --stage."""
    staged = [node for node in nodes if node.copies]
    if not staged:
        return ""
    copied = [node for node in staged if any(copy.copied for copy in node.copies)]
    slow = max(copied or staged, key=lambda node: sum(copy.seconds for copy in node.copies))
    took = f"{sum(copy.seconds for copy in slow.copies):.1f} s"
    if not copied:
        return f"Local copies (--stage) were present on all nodes; the longest check took {took} on {slow.host}."
    size = sum(copy.size for copy in slow.copies)
    what = f"{len(copied)} of {len(staged)} nodes copied files (--stage)"
    return f"{what}; slowest: {slow.host}, {size / 1e6:.1f} MB in {took}."


def _slow_node(nodes: Sequence[NodeStart]) -> str:
    """Return a sentence where one node came much later to the rendezvous than the others, else nothing."""
    if len(nodes) < 2:
        return ""
    slow = max(nodes, key=lambda node: node.own)
    others = [node for node in nodes if node is not slow]
    usual = median(node.own for node in others)
    if slow.own < SLOW * usual or slow.own < usual + 1.0:
        return ""

    def more(name: str) -> float:
        return slow.phases.get(name, 0.0) - median(node.phases.get(name, 0.0) for node in others)

    where = max(OWN, key=more)
    took = f"{PHASES[where]} took {more(where):.1f} s longer"
    return f"Slowest node: {slow.host}, {slow.own:.1f} s to the rendezvous, others {usual:.1f} s; {took}."


def _words(rows: Sequence[Row], phases: Sequence[Phase], total: float | None, *, outside: bool) -> str:
    """Say where most of the time went. `outside`: the ranks were seen from outside only."""
    seen = {segment.phase for row in rows for segment in row.segments}
    if not seen - {"listed", "staged", "prepared", "queued", "start"}:
        why = "they did not import torch, or a scheduler started them"
        return f"The start of the ranks was not seen: {why}. For more: {OBSERVE}"
    most = max(phases, key=lambda phase: phase.seconds)
    where = f"longest phase: {most.words} ({most.seconds:.1f} s)"
    if outside:
        return f"Seen from outside only, {where}. First steps, and more phases: {OBSERVE}"
    if total is None:
        return f"Not every rank reached a first optimizer step; {where}."
    return f"First optimizer step on every rank {total:.1f} s after the launcher started; {where}."
