"""Failures that no event reports: a rank that torchrun cannot restart, and one that runs on after its exception.

Both are found in the events and the output of ranks. `ddpkit.execution.executor` then ends the run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from ddpkit.launchers.events import ExitEvent, StartEvent
from ddpkit.node.supervision.first_failure import HEAD, KEPT, Kind, LastWords

# Seconds for ranks that ended well because of a TERM, at which they saved, to be started again. With fewer nodes than
# there may be, torchrun waits 30 s for more.
LIMIT = 30.0
LIMIT_FEWER = 75.0
# The same where they had ended before anything failed: without a TERM. Events can be late by a little.
LIMIT_BEFORE = 5.0
SETTLE = 0.7  # seconds from a traceback to the first look; each later one comes after twice the time
MOST_LOOKS = 7
_HEAD = HEAD.encode()


@dataclass
class Attempt:
    """Ranks of one node since they were started last."""

    size: int
    running: set[int] = field(default_factory=set)
    succeeded: set[int] = field(default_factory=set)
    failures: list[ExitEvent] = field(default_factory=list)  # their events, the first in front

    def record(self, event: StartEvent | ExitEvent) -> None:
        """Record the start or the end of a rank. The first start while none runs begins a new attempt."""
        rank = event["rank"]
        if event["e"] == "start":
            if not self.running:
                self.succeeded.clear()
                self.failures.clear()
            self.running.add(rank)
            return
        self.running.discard(rank)
        if event["code"] == 0:
            self.succeeded.add(rank)
        else:
            self.failures.append(event)

    @property
    def finished(self) -> bool:
        return not self.running and not self.failures and len(self.succeeded) >= self.size


@dataclass
class Rounds:
    """Starts of all ranks of a run, and the first failure of the present round. In a round each rank starts once."""

    number: int = 0  # of the present round; 0: the first
    starts: Counter[int] = field(default_factory=Counter)  # of each rank
    failed: tuple[float, str] | None = None  # when, and in words

    def fail(self, when: float, words: str) -> None:
        if self.failed is None or when < self.failed[0]:
            self.failed = when, words

    def start(self, rank: int) -> str:
        """Count the start of a rank. Returns why a round begins with it; empty: none does."""
        self.starts[rank] += 1
        if self.starts[rank] <= self.number + 1:
            return ""
        self.number, failed, self.failed = self.number + 1, self.failed, None
        return failed[1] if failed else "the nodes changed"


class RestartTracker:
    """Starts and ends of the ranks of all nodes of a run, by the node's index.

    torchrun needs every node to restart a rank, also one that has finished. An agent whose ranks all ended well joins
    no further rendezvous. It waits five minutes for the agent that wants to restart its ranks, and then both fail
    (torch 2.13).
    """

    def __init__(self, sizes: Sequence[int], limit: float) -> None:
        self.attempts = [Attempt(size) for size in sizes]
        self._limit = limit
        self._until: float | None = None

    def record(self, index: int, event: StartEvent | ExitEvent, now: float) -> None:
        """Record the start or the end of a rank; `now` in seconds of any clock, the same in `unrecoverable`."""
        before = self._finished
        self.attempts[index].record(event)
        if not self._failed or not self._finished:
            self._until = None
        elif self._until is None:
            self._until = now + (LIMIT_BEFORE if before else self._limit)

    def drop(self, index: int) -> None:
        """Forget the attempt of a node that is gone."""
        self.attempts[index] = Attempt(self.attempts[index].size)

    def unrecoverable(self, now: float) -> tuple[int, ExitEvent] | None:
        """The node and the event of a failure that no restart follows; None: wait."""
        if self._until is None or now < self._until:
            return None
        return min(self._failed, key=lambda pair: pair[1].get("t") or 0.0, default=None)

    @property
    def _finished(self) -> bool:
        return any(attempt.finished for attempt in self.attempts)

    @property
    def _failed(self) -> list[tuple[int, ExitEvent]]:
        return [(index, attempt.failures[0]) for index, attempt in enumerate(self.attempts) if attempt.failures]


class ExceptionWatch:
    """Last words of each rank since its first traceback, and when to look at it. Times are time.monotonic().

    An exception ends a script at once, and its process later: torch takes seconds for its teardown, and a thread of a
    library may never end. The text of a traceback is a reason to look, and no more: a script may print one and go on.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """now: the clock of the times of exceptions."""
        self._now = now
        self.words: dict[int, LastWords] = {}
        self.hosts: dict[int, str] = {}
        self.asked: dict[tuple[int, int], int] = {}  # calls without an answer: node and number, and the rank
        self._looks: dict[int, tuple[int, float]] = {}  # rank: looks so far, time of the next one

    @property
    def due(self) -> float:
        """When the next look is due."""
        return min((when for _, when in self._looks.values()), default=inf)

    def take(self, rank: int, host: str, data: bytes) -> bool:
        """Take output of a rank. True: an exception says that its wait for other ranks took too long."""
        begins_traceback = _HEAD in data
        if rank not in self.words and not begins_traceback:
            return False
        words = self.words.setdefault(rank, LastWords())
        self.hosts[rank] = host
        if begins_traceback and rank not in self._looks:
            self._looks[rank] = (0, time.monotonic() + SETTLE)
        words.take(data[-KEPT:].decode("utf-8", "replace"), self._now())
        return rank in self._looks and words.kind is Kind.WAITED

    def take_due(self, now: float) -> list[int]:
        """Return the ranks to look at now."""
        due = [rank for rank, (_, when) in self._looks.items() if when <= now]
        for rank in due:
            looks = self._looks[rank][0] + 1
            if looks < MOST_LOOKS:
                self._looks[rank] = (looks, now + SETTLE * 2**looks)
            else:
                del self._looks[rank]
        return due
