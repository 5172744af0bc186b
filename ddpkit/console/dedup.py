"""Folds equal lines of several ranks into one, for a screen: `[0-31] loading`. Pure: the time is given.

Ranks that do the same print the same, a moment apart. A line waits for equal ones at most `window` seconds, or until
every rank has printed it. Only lines that are equal byte for byte fold; a line of one rank alone stays a line of its
own. The lines of one rank are never exchanged: those that it printed before one that folds are shown before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ddpkit.text import format_ranges

LIMIT = 1 << 20  # bytes that wait at most, however fast they come
_EACH = 200  # bytes that a line takes beside its text
_RANGES = 4  # of ranks that a label names

Key = tuple[int, str | None, bytes]  # what must be equal for two lines to be one: output, agent, text


class Source(NamedTuple):
    """Source of a line: a rank, or (None) the agent of a host."""

    rank: int | None
    host: str
    agent: str


class FoldedLine(NamedTuple):
    """A line of one output (1: standard output, 2: standard error), and its sources."""

    number: int
    text: bytes
    sources: list[Source]


@dataclass(slots=True, eq=False)
class _Line:
    """A line that waits."""

    source: Source
    key: Key
    since: float
    shown: bool = False


class Fold:
    """Holds lines back for a moment. Every method returns the lines to show now, in order."""

    def __init__(self, world_size: int, window: float) -> None:
        self.world_size = world_size
        self._window = window
        self._size = 0  # bytes that wait
        self._order: deque[_Line] = deque()  # as they came; those that were shown are still in it
        self._queues: dict[Source, deque[_Line]] = {}
        self._waiting: dict[Key, dict[Source, int]] = {}  # how many equal lines of each source wait

    def add(self, now: float, source: Source, number: int, text: bytes) -> list[FoldedLine]:
        """Take a line. Returns the lines that are due."""
        line = _Line(source, (number, None if source.rank is not None else source.agent, text), now)
        self._order.append(line)
        self._queues.setdefault(source, deque()).append(line)
        sources = self._waiting.setdefault(line.key, {})
        sources[source] = sources.get(source, 0) + 1
        self._size += len(text) + _EACH
        if len(sources) == self.world_size:
            return self._take(line)  # every rank has printed it
        folded = self.due(now)
        while self._size > LIMIT:
            folded += self._take_oldest()
        return folded

    def when(self) -> float | None:
        """Return the time at which a line is due; None: no line waits."""
        while self._order and self._order[0].shown:
            self._order.popleft()
        return self._order[0].since + self._window if self._order else None

    def due(self, now: float) -> list[FoldedLine]:
        """Return the lines that have waited long enough."""
        folded: list[FoldedLine] = []
        while (when := self.when()) is not None and when <= now:
            folded += self._take_oldest()
        return folded

    def all(self) -> list[FoldedLine]:
        """Return all lines."""
        folded: list[FoldedLine] = []
        while self.when() is not None:
            folded += self._take_oldest()
        return folded

    def _take_oldest(self) -> list[FoldedLine]:
        return self._take(self._order[0]) if self.when() is not None else []

    def _take(self, line: _Line) -> list[FoldedLine]:
        """Return a line with all sources that have the same one waiting; their earlier lines come first."""
        before: list[list[_Line]] = []
        sources = list(self._waiting[line.key])
        for source in sources:
            queue, earlier = self._queues[source], []
            while (head := self._pop(queue)).key != line.key:
                earlier.append(head)
            if earlier:
                before.append(earlier)
        return [*_merged(before), FoldedLine(line.key[0], line.key[2], sources)]

    def _pop(self, queue: deque[_Line]) -> _Line:
        """Take the first line of a source, and count it out of everything that waits."""
        line = queue.popleft()
        line.shown = True
        self._size -= len(line.key[2]) + _EACH
        sources = self._waiting[line.key]
        sources[line.source] -= 1
        if not sources[line.source]:
            del sources[line.source]
            if not sources:
                del self._waiting[line.key]
        if not queue:
            del self._queues[line.source]
        return line


def _merged(queues: list[list[_Line]]) -> list[FoldedLine]:
    """Merge the queues of several ranks; equal lines at their heads become one."""
    heads: dict[Key, list[deque[_Line]]] = {}
    for lines in queues:
        heads.setdefault(lines[0].key, []).append(deque(lines))
    folded = []
    while heads:
        key = next(iter(heads))
        same = heads.pop(key)
        folded.append(FoldedLine(key[0], key[2], [queue.popleft().source for queue in same]))
        for queue in same:
            if queue:
                heads.setdefault(queue[0].key, []).append(queue)
    return folded


def label(sources: Iterable[Source], world_size: int) -> str:
    """Label a line: `3 node2`, `0-3 node2`, `0-2,4-31 4 nodes`; `0-31` for all ranks, `torchrun 4 nodes`."""
    known = list(sources)
    if len(known) == 1:
        return f"{known[0].agent if known[0].rank is None else known[0].rank} {known[0].host}"
    hosts = {source.host for source in known}
    where = known[0].host if len(hosts) == 1 else f"{len(hosts)} nodes"
    ranks = sorted({source.rank for source in known if source.rank is not None})
    if not ranks:
        return f"{known[0].agent} {where}"
    if len(ranks) == world_size > 1:
        return f"0-{world_size - 1}"
    return f"{_ranges(ranks)} {where}"


def _ranges(ranks: list[int]) -> str:
    """Return ranks as `0-2,4`; of many pieces the first ones and the number of ranks: `0,2,4,6,... (500 ranks)`."""
    pieces = format_ranges(ranks).split(", ")
    return ",".join(pieces[:_RANGES]) + (f",... ({len(ranks)} ranks)" if len(pieces) > _RANGES else "")
