"""Ranks that printed a traceback and are still running: when to look whether Python has left their script.

An exception ends a script at once, and its process later: torch takes seconds for its teardown, and a thread of a
library may never end. The text of a traceback is a reason to look, and no more: a script may print one and continue.
"""

from __future__ import annotations

import time
from math import inf

from ddpkit.node.supervision.first_failure import HEAD, KEPT, Kind, LastWords

SETTLE = 0.7  # seconds from a traceback to the first look; each later one comes after twice the time
MOST_LOOKS = 7
_HEAD = HEAD.encode()


class ExceptionWatch:
    """Last words of each rank since its first traceback. Times are time.monotonic()."""

    def __init__(self) -> None:
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
        words = self.words.get(rank)
        raises = _HEAD in data
        if words is None and not raises:
            return False
        if words is None:
            words = self.words[rank] = LastWords()
        self.hosts[rank] = host
        if raises and rank not in self._looks:
            self._looks[rank] = (0, time.monotonic() + SETTLE)
        words.take(data[-KEPT:].decode("utf-8", "replace"), time.time())
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
