"""The progress of a script, read from its lines: which number grows with its steps, and how fast. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import NamedTuple

_NUMBER = re.compile(r"(?<![\d.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\d.]*\d)")
_CLOCK = re.compile(r"\d{4}[-/]\d\d[-/]\d\d(?:[T ](?=\d))?|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?")
_LABEL = re.compile(r"([A-Za-z_]+)\W*$")
_STEP = re.compile(r"(?i)step|iter|batch|update|^it$")
_EPOCH = re.compile(r"(?i)epoch|round|^ep$")
LEAST = 3  # lines from which a number is seen to grow
CLOSE = 1e-3  # of the greater value: two results of the same step that are equal

Progress = tuple[float, ...]  # (step,), (epoch, step), or (epoch,) with the part of it that is done: 2.75


@dataclass(frozen=True)
class Line:
    """A line of a rank, or of a file that it appends to."""

    at: float  # seconds since the epoch
    rank: int
    text: str


class StepLine(NamedTuple):
    """A line that shows progress."""

    at: float  # seconds since the epoch
    progress: Progress
    numbers: tuple[float, ...]  # all of the line


@dataclass(frozen=True)
class Key:
    """Where progress stands: in lines of this shape, the numbers at these places."""

    shape: str
    places: tuple[int, ...]

    def read(self, text: str) -> tuple[Progress, tuple[float, ...]] | None:
        """Return the progress of a line, and all its numbers; None: it shows none."""
        shape, numbers = split(text)
        if shape != self.shape:
            return None
        return tuple(numbers[place] for place in self.places), numbers


@dataclass(frozen=True)
class Pace:
    """What a clean run showed."""

    key: Key | None  # None: no number grows in its output
    order: tuple[Progress, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()  # the numbers of the line of each progress
    step: float = 0.0  # seconds between two of them
    first: float = 0.0  # seconds from the start to the first one

    def index(self, progress: Progress) -> int | None:
        """Return the place of a progress in the clean run."""
        return self._places.get(progress)

    def words(self, progress: Progress) -> str:
        """Return a progress as a person would say it."""
        last = f"{progress[-1]:.10g}"
        if len(progress) > 1:
            return f"epoch {progress[0]:.10g}, step {last}"
        return f"{'epoch' if self.key and _rank_label(self.key.shape, self.key.places) == 1 else 'step'} {last}"

    @cached_property
    def _places(self) -> dict[Progress, int]:
        return {progress: place for place, progress in reversed(list(enumerate(self.order)))}


def split(text: str) -> tuple[str, tuple[float, ...]]:
    """Split a line into its shape, with `#` for each number, and its numbers. Dates and times of the day are none."""
    text = _CLOCK.sub("@", text)
    return _NUMBER.sub("#", text), tuple(float(each) for each in _NUMBER.findall(text))


def find_key(lines: Sequence[Line]) -> Key | None:
    """Return where the progress stands: a number that grows in a rank's lines, rather one called a step; None: none."""
    groups: dict[tuple[str, int], list[tuple[float, ...]]] = defaultdict(list)
    for line in lines:
        shape, numbers = split(line.text)
        if numbers:
            groups[shape, line.rank].append(numbers)
    best: tuple[tuple[int, int, int], Key] | None = None
    for (shape, _), rows in groups.items():
        for places in _candidates(shape, rows):
            score = (_rank_label(shape, places), len(rows), -len(places))
            if best is None or score > best[0]:
                best = (score, Key(shape, places))
    return best[1] if best else None


def _labels(shape: str) -> list[str]:
    """Return the word before each number of a line; empty where there is none."""
    parts = shape.split("#")[:-1]
    return [found[1] if (found := _LABEL.search(part)) else "" for part in parts]


def _rank_label(shape: str, places: tuple[int, ...]) -> int:
    """Return 2 where the last number is called a step, 1 for an epoch, 0 for another word."""
    label = _labels(shape)[places[-1]]
    return 2 if _STEP.search(label) else 1 if _EPOCH.search(label) else 0


def _candidates(shape: str, rows: Sequence[tuple[float, ...]]) -> list[tuple[int, ...]]:
    """Return the places of numbers that grow from row to row: a whole one, a part of epochs, or one within an epoch."""
    if len(rows) < LEAST:
        return []
    columns = list(zip(*rows, strict=True))
    whole = [place for place, column in enumerate(columns) if all(each.is_integer() for each in column)]
    epochs = [place for place, label in enumerate(_labels(shape)) if _EPOCH.search(label)]
    alone = [(place,) for place in sorted({*whole, *epochs})]
    within = [(epoch, place) for epoch in epochs for place in whole if epoch in whole and place != epoch]
    return [each for each in [*alone, *within] if _grows([tuple(row[place] for place in each) for row in rows])]


def _grows(column: Sequence[tuple[float, ...]]) -> bool:
    return all(before < after for before, after in pairwise(column))


def steps(lines: Sequence[Line], key: Key | None) -> list[StepLine]:
    """Return the lines that show progress, of the lowest rank that shows any. No key: none."""
    found = [(line, read) for line in lines if key and (read := key.read(line.text))]
    lowest = min((line.rank for line, _ in found), default=0)
    return [StepLine(line.at, *read) for line, read in found if line.rank == lowest]


class Count:
    """Counts what `steps` returns, while lines come: each is read once."""

    def __init__(self, key: Key | None) -> None:
        self._key, self._read = key, 0  # lines that were read
        self._found: Counter[int] = Counter()  # by rank

    def of(self, lines: Sequence[Line]) -> int:
        """Return the number of steps in lines, of which those of the last call are the first."""
        new = lines[self._read :]
        self._read += len(new)
        self._found.update(line.rank for line in new if self._key and self._key.read(line.text))
        return self._found[min(self._found)] if self._found else 0


def moment(times: Sequence[float], saves: Sequence[float]) -> int:
    """Return after how many steps a fault comes: between two saves, or at two fifths of a run that has no such moment.

    times, saves: seconds since the epoch, of the steps and saves of the clean run.
    """
    times = sorted(times)
    saved_after = [bisect_right(times, save) for save in sorted(saves)]  # steps
    distances = sorted(after - before for before, after in pairwise(saved_after) if after > before)
    usual = distances[len(distances) // 2] if distances else 2  # steps from one save to the next
    if saved_after and (between := saved_after[0] + max(1, usual // 2)) < len(times):
        return between
    return max(1, len(times) * 2 // 5)


def learn(lines: Sequence[Line], began: float) -> Pace:
    """Return the pace of a clean run that began at a time."""
    key = find_key(lines)
    rows = steps(lines, key)
    if not rows:
        return Pace(None)
    times = [row.at for row in rows]
    gaps = [after - before for before, after in pairwise(times)]
    return Pace(
        key=key,
        order=tuple(row.progress for row in rows),
        values=tuple(row.numbers for row in rows),
        step=max(1e-3, median(gaps)) if gaps else 1.0,
        first=times[0] - began,
    )


def differs(pace: Pace, before: Sequence[Line], after: Sequence[Line]) -> str | None:
    """Return words for the first number after a resume that differs from the clean run's; None: none differs.

    Numbers count that were the same in the clean run and in `before`, at each step: others differ without a resume.
    So does one without a word before it that never changed: it can be a date, a port or a process.
    """
    labels = _labels(pace.key.shape) if pace.key else []
    columns = zip(*pace.values, strict=True)
    told: set[int] = {
        place for place, (label, column) in enumerate(zip(labels, columns, strict=True)) if label or len({*column}) > 1
    }
    common: set[int] | None = None
    for _, progress, numbers in steps(before, pace.key):
        index = pace.index(progress)
        if index is not None:
            same = {place for place, each in enumerate(numbers) if _equal(each, pace.values[index][place])}
            common = same if common is None else common & same
    for _, progress, numbers in steps(after, pace.key):
        index = pace.index(progress)
        for place in sorted(told & (common or set())):
            if index is not None and not _equal(numbers[place], pace.values[index][place]):
                now, then = numbers[place], pace.values[index][place]
                return (
                    f"at {pace.words(progress)} {labels[place] or 'a number'} is {now:g}, and {then:g} without a stop"
                )
    return None


def comparable(pace: Pace, before: Sequence[Line]) -> bool:
    """Whether a number beside the progress is the same in `before` as in the clean run: a resume is judged by it."""
    rows = [
        (numbers, pace.values[index])
        for _, progress, numbers in steps(before, pace.key)
        if (index := pace.index(progress)) is not None
    ]
    places = range(len(pace.values[0])) if pace.values else ()
    beside = [place for place in places if pace.key and place not in pace.key.places]
    moving = [place for place in beside if len({row[place] for row in pace.values}) > 1]
    return bool(rows) and any(all(_equal(a[place], b[place]) for a, b in rows) for place in moving)


def _equal(one: float, other: float) -> bool:
    return abs(one - other) <= CLOSE * max(abs(one), abs(other))


def written_by_all(times: Sequence[float], ranks: int) -> bool:
    """Whether a file was written by each rank at each save: its writes come in groups of so many."""
    if ranks < 2 or len(times) < 2 * ranks or len(times) % ranks:
        return False
    groups = [times[start : start + ranks] for start in range(0, len(times), ranks)]
    pauses = [after[0] - before[-1] for before, after in pairwise(groups)]
    together = [group[-1] - group[0] < 0.25 * pause for group, pause in zip(groups, pauses, strict=False)]
    return sum(together) >= 0.8 * len(together)  # a busy machine may delay a few writes
