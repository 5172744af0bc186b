"""State of a run."""

from __future__ import annotations

from enum import Enum
from typing import Literal


class RunState(str, Enum):
    """The state of a run or of its job."""

    RUNNING = "running"
    QUEUED = "queued"  # its job waits in the scheduler's queue
    DONE = "done"  # every rank exited with 0
    FAILED = "failed"
    STOPPED = "stopped"
    OVER = "over"  # it has ended, and its exit code is not known any more
    LOST = "lost"  # its launcher was killed
    LEFT = "left"  # its job continues without its launcher
    ELSEWHERE = "elsewhere"  # its launcher or its job is not visible from this host
    UNKNOWN = "unknown"  # the scheduler gives no valid answer

    __str__ = str.__str__

    @property
    def living(self) -> bool:
        """Whether the run is running, or waits in a queue."""
        return self in (RunState.RUNNING, RunState.QUEUED)

    @property
    def may_live(self) -> bool:
        """Whether the run is living, as far as this host can see."""
        return self.living or self is RunState.ELSEWHERE

    @property
    def ended(self) -> bool:
        """Whether the end of the run is known."""
        return self in (RunState.DONE, RunState.FAILED, RunState.STOPPED, RunState.OVER)


EndState = Literal[RunState.DONE, RunState.FAILED, RunState.STOPPED, RunState.OVER]
