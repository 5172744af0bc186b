"""The end of a run on one node: TERM, the grace, KILL, and what ranks left behind. A part of `supervisor.py`.

TERM goes to each rank and to nobody else, so that a rank which saves a checkpoint keeps its DataLoader workers. Then
TERM goes to what the ranks left behind, then KILL to all. Shared daemons (`process_tree.py`) are left, and reported.
What began just before the ranks ended may become one: it gets TERM when it is old enough to tell.
"""

from __future__ import annotations

import signal
import time

from ddpkit.node.process_tree import (
    GROWN_UP,
    LOOK_AGAIN,
    daemons,
    descendants,
    is_young,
    kill,
    kill_all_below,
    name_of,
    nothing_left,
    seconds_starved,
)
from ddpkit.node.supervision.rank_table import RankTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


LAUNCHER_PATIENCE = 1.0  # seconds for torchrun to end by itself once its ranks are gone
LEFTOVER_PATIENCE = 2.0  # seconds between TERM and KILL for processes whose rank is gone
STUCK_AFTER = 5.0  # seconds of KILL without effect
# Seconds more where another attempt can follow: a driver may take so long to free the memory of a GPU.
FREE_AFTER = 30.0
DONE = -1.0


class Shutdown:
    """All times are time.monotonic(). `cancel_calls` ends what runs for calls about the ranks."""

    def __init__(
        self,
        table: RankTable,
        send: Callable[..., None],
        cancel_calls: Callable[[], None],
        grace: float,
        *,
        again: bool,
        holds: bool,
    ) -> None:
        self.grace = grace
        self._holds = holds  # launches are below, whose supervisors end them and say why
        self._waits_for_gpus = again  # another attempt can follow, which needs their memory; once for FREE_AFTER
        self.deadline: float | None = None  # of the grace; None: no stop was asked for
        self._table = table
        self._send = send
        self._cancel_calls = cancel_calls
        self._idle_since: float | None = None  # all ranks ended with exit code 0
        self._ranks_gone_at: float | None = None  # when no rank lived any more, or the grace was over
        self._terminated: set[int] = set()  # process ids that got TERM
        self._youth = 0.0  # seconds more until KILL: until then a young process may become a shared daemon
        self._killing_since: float | None = None

    def stop(self, grace: float) -> None:
        """Begin to end everything, or end it sooner than begun."""
        deadline = time.monotonic() + grace
        self._cancel_calls()
        if self.deadline is None:
            self.deadline = deadline
            self._table.stopping = True
            if self._table.restarts:
                # Signalled alone, the ranks would be started again.
                for pid in self._table.launchers:
                    self._terminate(pid)
            else:
                self._table.signal(signal.SIGTERM)
                if self._holds:  # one that is stopped would be killed at the deadline, together with its launches
                    self._table.signal(signal.SIGCONT)
        self.deadline = min(self.deadline, deadline)

    def _terminate(self, pid: int) -> None:
        if pid not in self._terminated:
            self._terminated.add(pid)
            kill(pid, signal.SIGTERM)

    def end_leftovers(self) -> float:
        """All ranks have ended well: stop what they left behind, if it has not ended in LEFTOVER_PATIENCE.

        Returns the seconds until the next look, or DONE: nothing is left.
        """
        self._cancel_calls()
        if nothing_left():
            return DONE
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        if now >= self._idle_since + LEFTOVER_PATIENCE:
            self._send(e="left", names=_names(descendants()))
            self.stop(self.grace)
        return LOOK_AGAIN

    def wind_down(self) -> float:
        """One look at an ending run: wait for its ranks, then TERM to what they left, then KILL to all.

        Returns the seconds until the next look, or DONE: nothing is left, or what is left does not end.
        """
        now = time.monotonic()
        assert self.deadline is not None
        table = self._table
        if now < self.deadline and (table.any_alive() or (table.restarts and table.launchers)):
            return min(self.deadline - now, 1.0)
        if self._ranks_gone_at is None:
            self._ranks_gone_at = now
        if nothing_left():
            return DONE
        left = descendants()
        patience = LAUNCHER_PATIENCE if table.ranks and table.launchers else 0.0
        term_at = self.deadline if self._holds else self._ranks_gone_at + patience
        young = {pid for pid in left if pid not in self._terminated and is_young(pid)}
        self._youth = max([self._youth, *(GROWN_UP + seconds_starved(pid) for pid in young)])
        if now >= self.deadline or now >= term_at + LEFTOVER_PATIENCE + self._youth:
            if self._killing_since is None:
                self._killing_since = now
            kill_all_below()
            if now > self._killing_since + STUCK_AFTER:
                self._send(e="stuck", names=_names(left), more=self._waits_for_gpus)
                if not self._waits_for_gpus:
                    return DONE
                # So that the next report is due after FREE_AFTER.
                self._killing_since, self._waits_for_gpus = now + FREE_AFTER - STUCK_AFTER, False
        elif now >= term_at:
            for pid in left:
                if pid not in young:
                    self._terminate(pid)
        return LOOK_AGAIN


def report_daemons(send: Callable[..., None]) -> None:
    """Report what continues after the run."""
    left = daemons()
    if left:
        send(e="daemons", names=["%s (process %d)" % (left[pid], pid) for pid in sorted(left)])


def _names(pids: list[int]) -> list[str]:
    return [f"{pid} ({name_of(pid)})" for pid in pids]
