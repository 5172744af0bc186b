"""The start of ranks, seen from outside: when to look at each node, and what its answers say.

`ddpkit/node/calls/rank_start.py` looks. A call returns soon after something new, or when its time is over. Ranks that
tell it themselves (`--observe start`) are not looked at.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ddpkit.launchers.events import AnswerEvent, MarkEvent, VersionsEvent
from ddpkit.launchers.plan import Step
from ddpkit.monitor.server import Node
from ddpkit.node.child import HOLDER

WATCH = "rank_start.watch"
LIMIT = 30.0  # seconds of a call without news
WATCHED = 1200.0  # seconds, after which nobody looks any more
MARKS = ("import", "meet", "group", "past")


def is_watched(step: Step) -> bool:
    """Whether ranks of a step are looked at. A scheduler's are not near a supervisor of ours; a hold never trains."""
    return (
        not step.scheduled
        and HOLDER not in step.env
        and "start" not in str(step.env.get("DDPKIT_OBSERVE", "")).split(",")
    )


class StartWatch:
    """The calls to one node since its ranks were started."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[str, list[str]] = {}
        self._began = time.monotonic()
        self._call: int | None = None
        self.ask()

    def ask(self) -> None:
        age = time.monotonic() - self._began
        self._call = None
        if age < WATCHED and not self._node.ended:
            self._call = self._node.link.call(WATCH, {"known": self._known, "age": age, "limit": LIMIT})

    def on_answer(self, event: AnswerEvent) -> Iterator[MarkEvent | VersionsEvent]:
        """Yield what an answer of the node says, in the launcher's time, and ask for more."""
        if event["id"] != self._call:
            return
        self._call = None
        for value in event.get("values", ()):
            try:
                yield from self._read(value, event.get("t", 0.0))
            except (KeyError, TypeError, ValueError, AttributeError):
                return  # no answer of this program

    def _read(self, value: Any, now: float) -> Iterator[MarkEvent | VersionsEvent]:
        ahead = float(value["t"]) - now if now else 0.0
        marks: Mapping[str, Mapping[str, float]] = value["marks"]
        ranks = {str(rank): rank for rank in self._node.step.ranks}
        for rank in marks.keys() & ranks.keys():
            for name in [name for name in MARKS if name in marks[rank]]:
                self._known.setdefault(rank, []).append(name)
                yield {"e": "mark", "rank": ranks[rank], "name": name, "t": float(marks[rank][name]) - ahead}
        if value["versions"] and ranks:
            versions = [str(each) for each in value["versions"]]
            yield {"e": "versions", "rank": min(ranks.values()), "versions": versions}
        if not value["over"]:
            self.ask()
