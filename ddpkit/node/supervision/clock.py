"""Times of several machines as those of one. Their clocks differ, and some are set during a run.

A part of the launcher, and of the script of a job.
"""

from __future__ import annotations

import time

from ddpkit.node.supervision.first_failure import TEARDOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Seconds by which the times of a node's events may go back: its clock was set back by more. Those that its ranks report
# are a little older than those of its supervisor, and come in the same stream.
OUT_OF_ORDER = 10.0


def steady() -> float:
    """Return seconds on a clock that nobody sets, and that goes on while this machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock:
    """The clock of this machine as it went at the start of this object: whoever sets it since changes no time."""

    def __init__(self) -> None:
        self._epoch = time.time() - steady()

    def now(self) -> float:
        """Return seconds since the epoch."""
        return steady() + self._epoch


class NodeClock:
    """A node's clock, by the times of its events and of their arrival. Pure.

    `ahead` has one sign in all of ddpkit: seconds that a node's clock is ahead of ours. Node's time - ahead = our time.
    """

    def __init__(self) -> None:
        self.began = 0.0  # no event is older, in our time
        self.ahead = -float("inf")  # at least: an event's way here counts as a clock that is behind
        self._latest = 0.0  # by the node's clock

    def in_our_time(self, event: Any, now: float) -> None:
        """Change the times of an event that arrives now. What came first is known, although some events come late.

        event: its `t`, and `since`, if there, become seconds since the epoch by the clock of `now`.
        """
        sent, since = event["t"], event.get("since", event["t"])
        if sent < self._latest - OUT_OF_ORDER:
            self.ahead, self._latest = -float("inf"), 0.0  # it was set back. Forward: this event is the quickest
        self._latest = max(self._latest, sent)
        self.ahead = max(self.ahead, sent - now)
        event["t"] = sent - self.ahead if sent - self.ahead >= self.began else now
        if "since" in event:
            event["since"] = event["t"] - (sent - since if 0 <= sent - since <= TEARDOWN else 0.0)
