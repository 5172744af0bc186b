"""Keeps, in a run's folder, when what happened at its start, and how long its ranks' steps took.

`launch.json` is written once, before the ranks start: {"format", "began", "prepared", "entered": {host: t}, "notes",
"nodes": {host: facts}, "copies": {host: [copy]}, "plan"}; the plan is what `--dry-run` prints. `copies` are those of
--stage; nodes of a job write their own to `stage/HOST.json`. `timeline.json` is written while the run is running:

    {"format", "carried", "ranks": {rank: {"host", "attempts", "marks": {name: t}, "bins": [bin, ...]}}}

Times are seconds since the epoch in the launcher's time: what a node says was put into it on its way here. Marks are
`start` (its process is there), those of `node/rank/rank_events.py`, `line` (its first line) and `end`. A bin holds
the sums of some steps: [count, seconds, longest step, how many have own work known, seconds and longest of own work].

What ranks that SLURM started report is in `marks/events` (`ddpkit/node/collect.py`), also where nobody follows them;
`read` puts it together with the rest. A job's ranks then have a mark `queued` in front: their job's script began.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypedDict, TypeVar

from ddpkit.files import read_bounded, read_head, write_atomically
from ddpkit.launchers import typed_json
from ddpkit.launchers.events import Event, RankSample, from_node
from ddpkit.launchers.node_facts import RecordedFacts
from ddpkit.launchers.typed_json import Between, RankName
from ddpkit.text import format_ranks

_T = TypeVar("_T")
FORMAT = 1
MOST_BYTES = 1 << 26  # of one file
LAUNCH, TIMELINE = "launch.json", "timeline.json"
MARKS, JOB = "marks", "job"  # a folder, and the file of a job's script in it
OBSERVED = "events"  # there, of all ranks of a step
OBSERVED_KINDS = ("start", "mark", "versions", "steps")
STAGE, CONTENTS = "stage", "contents.json"  # the folder of --stage in a job, and what its nodes copy
EVERY = 2.0  # least seconds between two writes, and between two looks for a late start
LOOKING = 0.002  # of the time: looks for a late start of thousands of ranks are rarer
BINS = 20_000  # of all ranks together; one rank has at least LEAST, and at most MOST of them
LEAST, MOST = 32, 256
BIN_SIZE = 6  # numbers of one bin
MARKS_OF_RANK, NAME_OF_MARK = 64, 64  # marks; characters of a name
LARGEST_OF_RANK = 4 << 20  # bytes of a rank's own file that are read
LISTED = 100_000  # files of one directory that are looked at


class RankTimeline(TypedDict, total=False):
    """One rank of `timeline.json`."""

    host: str
    attempts: int
    marks: dict[str, float]
    bins: list[Annotated[list[float], Between(6, 6)]]
    versions: list[str]  # of Python, torch, CUDA, NCCL; `-`: there is none


class TimelineFile(TypedDict, total=False):
    """The content of `timeline.json`."""

    format: int
    carried: float
    ranks: dict[RankName, RankTimeline]


class NodeCopy(TypedDict):
    """What one node did for one local copy of --stage."""

    kind: str  # project, env
    copied: bool  # False: it had the copy
    size: int  # bytes that were sent to it, or that it read from the shared directory
    source: str  # the node that it came from; empty: the launcher
    began: float
    ended: float


class LaunchFile(TypedDict, total=False):
    """The content of `launch.json`."""

    format: int
    began: float
    prepared: float
    entered: dict[str, float]
    notes: list[str]
    nodes: dict[str, RecordedFacts]
    copies: dict[str, list[NodeCopy]]
    plan: str


class Timeline:
    """Timeline of a run that lives."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self._record = GrowingRecord(folder / TIMELINE, self._pieces, EVERY)
        self._carried = time.time()
        self.ranks: dict[str, RankTimeline] = {}  # without their bins
        self._bins: dict[str, array[float]] = {}  # by rank, six numbers each: as lists they take ten times the memory
        self._most = max(LEAST, min(MOST, BINS // max(1, ranks)))
        self._changed = False
        self._lines: set[int] = set()  # ranks that have printed
        self._look_at = 0.0  # time.monotonic() of the next look for a late start; infinity: it was reported

    def record(self, host: str, event: Event) -> None:
        """Record an event of a supervisor."""
        if event["e"] == "out":
            if event["rank"] is not None and event["rank"] not in self._lines:
                self._lines.add(event["rank"])
                self._mark(host, event["rank"], "line", time.time())
        elif event["e"] == "start":
            known = self._rank(host, event["rank"])
            known["attempts"] += 1
            known["host"] = host
            known["marks"] = {}  # of a rank that is started again the last start counts
            self._lines.discard(event["rank"])
            self._mark(host, event["rank"], "start", event.get("t"))
        elif event["e"] == "mark":
            self._mark(host, event["rank"], str(event["name"]), event["t"])
        elif event["e"] == "versions":
            self._rank(host, event["rank"])["versions"] = event["versions"]
            self._changed = True
        elif event["e"] == "exit":
            self._mark(host, event["rank"], "end", event.get("t"), again=True)
        elif event["e"] == "steps":
            for rank, bins in event["ranks"].items():
                self._rank(host, rank)
                own = self._bins.setdefault(rank, array("d"))
                own.extend(itertools.chain.from_iterable(bins))
                if len(own) > BIN_SIZE * self._most:
                    own[:] = array("d", itertools.chain.from_iterable(merged(_rows(own), self._most)))
            self._changed = True

    def turn(self) -> None:
        """Write what is new, now and then."""
        if self._changed:
            self._record.turn()

    def late_start(self, describe: Callable[[Mapping[str, RankTimeline], float], list[str]]) -> list[str]:
        """Return what `describe` reports of the ranks now, the first time that it does. Looks now and then."""
        began = time.monotonic()
        if began < self._look_at:
            return []
        words = describe(self.ranks, time.time())
        now = time.monotonic()
        self._look_at = math.inf if words else now + max(EVERY, (now - began) / LOOKING)
        return words

    def _rank(self, host: str, rank: int | str) -> RankTimeline:
        known = self.ranks.get(str(rank))
        if known is None:
            known = self.ranks[str(rank)] = {"host": host, "attempts": 0, "marks": {}}
        return known

    def _mark(self, host: str, rank: int, name: str, when: float | None, *, again: bool = False) -> None:
        marks = self._rank(host, rank)["marks"]
        if (again or name not in marks) and _is_mark(marks, name):
            marks[name] = time.time() if when is None else when
            self._changed = True

    def write(self) -> None:
        """Write the last state."""
        self._record.write()

    def with_bins(self) -> dict[str, RankTimeline]:
        """Return all ranks with their steps, in as many bins as so many ranks have."""
        most = max(LEAST, min(MOST, BINS // max(1, len(self.ranks))))
        bins = {rank: merged(_rows(self._bins.get(rank, _NO_BINS)), most) for rank in self.ranks}
        return {rank: {**known, "bins": bins[rank]} for rank, known in self.ranks.items()}

    def _pieces(self) -> Iterator[str]:
        """Yield the file's text. Each piece is made at once, while the loop goes on between two of them."""
        self._changed = False
        yield f'{{"format": {FORMAT}, "carried": {self._carried}, "ranks": {{'
        for number, (rank, known) in enumerate(list(self.ranks.items())):
            entry = {**known, "marks": dict(known["marks"]), "bins": _rows(self._bins.get(rank, _NO_BINS)[:])}
            yield f'{", " if number else ""}"{rank}": {json.dumps(entry)}'
        yield "}}"


_NO_BINS = array("d")


def _rows(bins: Sequence[float]) -> list[list[float]]:
    return [list(bins[at : at + BIN_SIZE]) for at in range(0, len(bins), BIN_SIZE)]


def merged(bins: list[list[float]], most: int) -> list[list[float]]:
    """Return the same steps in at most so many bins: neighbours are put together, two and two."""
    while len(bins) > most:
        pairs = [bins[at : at + 2] for at in range(0, len(bins), 2)]
        bins = [_together(pair) for pair in pairs]
    return bins


def _together(bins: Sequence[Sequence[float]]) -> list[float]:
    """Return one bin for several. The six numbers of a bin are in the docstring of this module."""
    count, whole, most, known, own, most_own = zip(*bins, strict=True)
    return [sum(count), round(sum(whole), 6), max(most), sum(known), round(sum(own), 6), max(most_own)]


# ---- what ranks reported


def read(folder: Path) -> TimelineFile | None:
    """Read the timeline of a run, with what ranks of a job reported; None where nothing can be read."""
    timeline = _read(TimelineFile, folder / TIMELINE)
    observed = _read_observed(folder / MARKS / OBSERVED)
    if not observed:
        return timeline
    ranks = dict((timeline or {}).get("ranks", {}))
    starts = job_starts(folder)
    began = starts[-1] if starts else None
    for rank, own in observed.items():
        known: RankTimeline = {"host": "", "attempts": 0, "marks": {}, "bins": [], **ranks.get(rank, {})}
        if not own["attempts"] or own["attempts"] < known["attempts"]:
            own["marks"] = {}  # those of an earlier attempt do not count
        elif began is not None:
            own["marks"]["queued"] = began
        marks = {**known["marks"], **own["marks"]}  # of one clock, as far as that goes
        attempts = max(known["attempts"], own["attempts"])
        bins = own["bins"] or known["bins"]
        host = known["host"] or own["host"]
        ranks[rank] = {**known, **own, "host": host, "attempts": attempts, "marks": marks, "bins": bins}
    first = min((min(rank["marks"].values(), default=0.0) for rank in ranks.values()), default=0.0)
    return {"format": FORMAT, "carried": first, **(timeline or {}), "ranks": ranks}


def first_step(timeline: TimelineFile | None, since: float = 0.0) -> float | None:
    """Return the time of the first step of an attempt that began at `since`; None: no step was seen."""
    steps = (each.get("marks", {}).get("step", 0.0) for each in (timeline or {}).get("ranks", {}).values())
    return min((step for step in steps if step and step >= since), default=None)


def has_steps(timeline: TimelineFile | None) -> bool:
    """Whether steps of a rank were observed."""
    return any(rank.get("bins") for rank in (timeline or {}).get("ranks", {}).values())


def hosts(timeline: TimelineFile | None) -> tuple[str, ...]:
    """Return the hosts in the order of their ranks. Empty: no rank has started."""
    ranks = (timeline or {}).get("ranks", {})
    names = (ranks[rank].get("host", "") for rank in sorted(ranks, key=int))
    return tuple(dict.fromkeys(filter(None, names)))


def read_launch(folder: Path) -> LaunchFile | None:
    """Read what was known before the start; None where it cannot be read."""
    return _read(LaunchFile, folder / LAUNCH)


def read_copies(folder: Path) -> dict[str, list[NodeCopy]]:
    """Read what each node did for --stage, by host. Nodes of a job write it themselves; a bad file is left out."""
    copies = dict((read_launch(folder) or {}).get("copies", {}))
    for path in _listed(folder / STAGE):
        if path.suffix == ".json" and path.name != CONTENTS:
            with suppress(OSError, ValueError, KeyError, TypeError):
                entries = typed_json.parse(read_bounded(path, MOST_BYTES))
                copies[path.stem] = [_node_copy(entry) for entry in entries]
    return copies


def _node_copy(entry: Any) -> NodeCopy:
    """Raises KeyError, TypeError, ValueError."""
    began, ended = float(entry["began"]), float(entry["ended"])
    kind, copied, size = str(entry["kind"]), bool(entry["copied"]), int(entry["size"])
    return NodeCopy(kind=kind, copied=copied, size=size, source="", began=began, ended=ended)


def read_object(path: Path) -> dict[str, Any] | None:
    """Read the JSON object in a file of a run's folder; None where none can be read."""
    return _read(dict[str, Any], path)


def _read(kind: type[_T], path: Path) -> _T | None:
    """Return a file's content, if all of it has the declared types."""
    try:
        return typed_json.read(kind, typed_json.parse(read_bounded(path, MOST_BYTES)))
    except (OSError, typed_json.FormatError):
        return None


def _is_mark(marks: Mapping[str, float], name: str) -> bool:
    """Whether a name that a rank sent is taken: it has a bound, and so has their number."""
    return name in marks or (len(marks) < MARKS_OF_RANK and 0 < len(name) <= NAME_OF_MARK and name.isprintable())


def _listed(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for entry in itertools.islice(entries, LISTED)]
    except OSError:
        return []


def job_starts(folder: Path) -> list[float]:
    """Return the times at which the script of the run's job began an attempt."""
    try:
        return [float(word) for word in read_bounded(folder / MARKS / JOB, LARGEST_OF_RANK).split()]
    except (OSError, ValueError):
        return []


def _read_observed(path: Path) -> dict[str, RankTimeline]:
    """Read what ranks of a step reported: events that `ddpkit/node/collect.py` wrote. Others can write there too."""
    seen = Timeline(path.parent, 0)
    try:
        lines = read_head(path, MOST_BYTES).splitlines()
    except OSError:
        return {}
    for line in lines:
        try:
            value = json.loads(line)
            event = from_node(value)
        except (ValueError, RecursionError):  # also BadEventError
            continue
        if event is None or event["e"] not in OBSERVED_KINDS or len(seen.ranks) > LISTED:
            continue
        if event["e"] == "steps":
            bins = {rank: list(filter(_is_bin, each)) for rank, each in event["ranks"].items()}
            event = {**event, "ranks": bins}
        seen.record(str(value.get("host", ""))[:255] if event["e"] == "start" else "", event)
    return seen.with_bins()


def _is_bin(sums: Sequence[float]) -> bool:
    return sums[0] > 0 and 0 < sums[1] < math.inf


# ---- before the start


def write_launch(
    folder: Path,
    *,
    began: float,
    prepared: float,
    entered: dict[str, float],
    notes: Sequence[str],
    nodes: Mapping[str, Mapping[str, object]],
    plan: str,
    copies: Mapping[str, Sequence[NodeCopy]] = MappingProxyType({}),
) -> None:
    """Keep what was known before the start. What cannot be written is not missed by the run."""
    times = {"began": began, "prepared": prepared, "entered": entered, "notes": list(notes)}
    names = RecordedFacts.__annotations__
    shown = {host: {name: facts[name] for name in names if name in facts} for host, facts in nodes.items()}
    new = {host: made for host, each in copies.items() if (made := [copy for copy in each if copy["began"] >= began])}
    content = {"format": FORMAT, **times, "nodes": shown, "copies": new, "plan": plan}
    with suppress(OSError):
        write_atomically(folder / LAUNCH, json.dumps(content), 0o600)  # a plan has all values


def process_began() -> float:
    """Start time of this process, in seconds since the epoch; the present where the kernel does not tell it."""
    now = time.time()
    if sys.platform != "linux":
        return now
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return now
    return now - age if 0 <= age < 3600 else now


# ---- ranks whose process group does not start, from their marks: who waits, for how long, and who is missing. Pure


BOUND = 60.0  # seconds in the rendezvous, or in the start of the process group, before it is reported
SHOWN = 4  # ranks with their hosts
# Each mark of `ddpkit/node/rank/rank_events.py` (`--observe start`) with the step that follows it.
STEPS = {
    "start": "start of Python",
    "python": "script before import torch",
    "import": "import torch",
    "imported": "script before the rendezvous",
    "cuda": "script before the rendezvous",
    "meet": "rendezvous",
    "connect": "start of the process group (NCCL, gloo)",
    "group": "script before DistributedDataParallel",
    "wrap": "first collective (NCCL may start in it)",
}


def describe_late_start(ranks: Mapping[str, RankTimeline], now: float, bound: float = BOUND) -> list[str]:
    """Return a sentence where ranks wait for longer than `bound` seconds, else nothing. `now`: as the marks."""
    marks = {int(rank): known["marks"] for rank, known in ranks.items() if "end" not in known["marks"]}
    hosts = {int(rank): known["host"] for rank, known in ranks.items()}
    # No mark of the ranks' own: `ddpkit/node/calls/rank_start.py` saw them from outside.
    seen_from_outside = not any("python" in own for own in marks.values())
    # The last point of a start comes first: ranks that wait there have passed the others.
    for mark, end in (("wrap", "collective"), ("connect", "group"), ("meet", "group")):
        not_through = {rank: own for rank, own in marks.items() if not {end, "step", "past"} & own.keys()}
        waiting = {rank: now - own[mark] for rank, own in not_through.items() if mark in own}
        if not waiting or max(waiting.values()) < bound:
            continue
        words = [f"{_who(waiting, hosts)} in the {STEPS[mark]} for {max(waiting.values()):.0f} s"]
        missing = {rank: own for rank, own in not_through.items() if mark not in own}
        absent = [
            f"{_who([rank], hosts)} in: {_step(missing[rank], seen_from_outside=seen_from_outside)}"
            for rank in sorted(missing)[:SHOWN]
        ]
        absent += [f"{len(missing) - SHOWN} more"] if len(missing) > SHOWN else []
        through = len(marks) - len(not_through)
        words += [f"not there: {'; '.join(absent)}"] if absent else []
        words += [f"{through} other{'s are' if through > 1 else ' is'} through"] if through else []
        return ["; ".join(words)]
    return []


def _step(marks: Mapping[str, float], *, seen_from_outside: bool) -> str:
    """Return the step in which a rank is, by its marks."""
    if seen_from_outside:
        return "script before the rendezvous" if "import" in marks else "script before import torch"
    return next(STEPS[name] for name in reversed(STEPS) if name in {"start", *marks})


def _who(ranks: Iterable[int], hosts: Mapping[int, str]) -> str:
    known = sorted(ranks)
    if len(known) > SHOWN:
        return format_ranks(known)
    return ", ".join(f"rank {rank} on {hosts[rank]}" if hosts[rank] else f"rank {rank}" for rank in known)


# ---- samples of a living run's ranks, for `ddpkit status` in another shell
#
# `status.json` holds {"t", "hosts", "prev"}; `hosts` is {host: {"t", "ranks": {rank: {"pid", "state", "cpu", "rss",
# "out", "code", "signal"}}}}, `prev` the same of the look before, so that one reading of the file gives rates. Times
# are seconds since the epoch, `cpu` the processor seconds of a rank and all below it, `rss` their bytes, `state` the
# kernel's letter, `out` the time of its last line.

STATUS, STATUS_EVERY = "status.json", 5.0  # least seconds between two writes
_UNKNOWN: RankSample = {"pid": None, "state": "", "cpu": 0.0, "rss": 0, "out": None}


class RankEntry(RankSample):
    """The last sample of one rank. `code` and `signal` are None while it runs."""

    code: int | None
    signal: int | None


class HostEntry(TypedDict):
    """The ranks of one host. `t`: its last sign of life."""

    t: float
    ranks: dict[RankName, RankEntry]


class StatusFile(TypedDict):
    """Content of `status.json`. `prev`: `hosts` of the look before."""

    t: float
    hosts: dict[str, HostEntry]
    prev: dict[str, HostEntry]


class Vitals:
    """The last sample of every rank."""

    def __init__(self, folder: Path) -> None:
        self._record = GrowingRecord(folder / STATUS, self._pieces, STATUS_EVERY)
        self._hosts: dict[str, HostEntry] = {}
        self._before = ""  # the text of `hosts` in the look before

    def record(self, host: str, when: float, ranks: Mapping[str, RankSample]) -> None:
        """Record a host's sign of life."""
        known = self._hosts.setdefault(host, {"t": when, "ranks": {}})
        known["t"] = when
        for rank, now in ranks.items():
            known["ranks"][rank] = {**now, "code": None, "signal": None}

    def turn(self) -> None:
        """Write when it is due, also where no node reports: the file says to other machines that the launcher lives."""
        self._record.turn()

    def record_exit(self, host: str, rank: int, code: int | None, number: int | None) -> None:
        known = self._hosts.setdefault(host, {"t": time.time(), "ranks": {}})
        last: RankSample = known["ranks"].get(str(rank)) or _UNKNOWN
        known["ranks"][str(rank)] = {**last, "state": "", "code": code, "signal": number}

    def write(self) -> None:
        """Write the last state."""
        self._record.write()

    def _pieces(self) -> Iterator[str]:
        """Yield the file's text. Each piece is made at once, while the loop goes on between two of them."""
        now = time.time()
        known = [(host, {"t": each["t"], "ranks": dict(each["ranks"])}) for host, each in list(self._hosts.items())]
        hosts = ", ".join(f"{json.dumps(host)}: {json.dumps(each)}" for host, each in known)
        yield f'{{"t": {now}, "hosts": {{{hosts}}}, "prev": {{{self._before}}}}}'
        self._before = hosts


# ---- replaces a record of a living run now and then, from a thread: neither a disk nor the encoding holds up the loop


SHARE = 0.005  # of a CPU that the writes of one record take at most
BYTES = 55_000  # a second at most, on the average: 0.2 GB an hour
CHUNK = 1 << 16  # bytes that are written at once
LAST = 10.0  # seconds that the end of a run waits for a disk


class GrowingRecord:
    """One file, which a run of thousands of ranks replaces more rarely than a small one."""

    def __init__(self, path: Path, pieces: Callable[[], Iterable[str]], every: float) -> None:
        """`pieces` yields the text, from a thread. `every`: least seconds between two writes."""
        self._path, self._pieces, self._every = path, pieces, every
        self._thread: threading.Thread | None = None
        self._due = 0.0  # time.monotonic()

    def turn(self) -> None:
        """Begin to write, if it is time."""
        if time.monotonic() < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = time.monotonic() + self._every
        self._thread = threading.Thread(target=self._write, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be had
            self._thread = None
            self._write()

    def write(self) -> None:
        """Write the last state. A disk that does not answer is not waited for."""
        if self._thread is not None:
            self._thread.join(LAST)
            if self._thread.is_alive():
                return
        self._write()

    def _write(self) -> None:
        """Replace the file at once. A full disk must not end a run: then the last state stays."""
        began = time.thread_time()
        sizes: list[int] = []
        try:
            write_atomically(self._path, self._chunks(sizes))
        except OSError:
            pass
        pause = max(self._every, (time.thread_time() - began) / SHARE, sum(sizes) / BYTES)
        self._due = time.monotonic() + pause

    def _chunks(self, sizes: list[int]) -> Iterator[bytes]:
        """Yield the text in parts, and add their sizes: of 8,000 ranks all of it is 10 MB."""
        chunk = bytearray()
        for piece in self._pieces():
            chunk += piece.encode()
            if len(chunk) >= CHUNK:
                sizes.append(len(chunk))
                yield bytes(chunk)
                chunk.clear()
        sizes.append(len(chunk))
        yield bytes(chunk)
