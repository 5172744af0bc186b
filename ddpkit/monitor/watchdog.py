"""`--hang-timeout`: when a run that watches itself looks at its ranks, and when it calls what it sees a hang. Pure.

What counts as progress is a collective that any rank begins or ends, by torch's Flight Recorder: a rank may print for
hours and hang, and a long evaluation prints nothing and does not. A run hangs when there was none for so long while a
rank waits in one (or is stopped). Without such a record (no `--observe stacks`, PyTorch before 2.9 without NCCL, a
recorder that is off, or before the first process group) it is a line that any rank prints, a stack that has changed,
or a main thread that has waited for things again and again: a hung one waits for one thing alone. Where a rank is
stopped, others may poll for it, and this does not count. The next look is due when a hang could be one at the
earliest: a run that trains is looked at once in every such time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ddpkit.monitor.hang import Finding, FindingKind
from ddpkit.monitor.rank_state import Rank
from ddpkit.monitor.slow import Slowness, SlowRanks, describe

Action = Literal["warn", "end"]
# Waits of a main thread between two looks, which are no progress: a look itself makes one or two.
FEW = 16


class Watch:
    """The memory between two looks. All times are of one clock."""

    def __init__(self, seconds: float, action: Action, now: float) -> None:
        self.seconds = seconds
        self.action = action
        self.progress = now
        self.due = now + seconds
        self.warned = False
        self._told_unrecorded = False
        self._stacks: object = None  # of all ranks, at the last look
        self._switches: dict[int, int] = {}  # by rank: how often it had waited at the last look

    def pause(self, now: float) -> None:
        """Count no time until now: a rank stands in a debugger, and the others wait for it."""
        self.progress, self.due = now, now + self.seconds

    def unrecorded(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings about a missing record of collectives, the first time that there are any."""
        if self._told_unrecorded:
            return []
        unrecorded = [finding for finding in findings if finding.kind is FindingKind.UNRECORDED]
        self._told_unrecorded = bool(unrecorded)
        return unrecorded

    def hangs_now(self, now: float, ranks: Sequence[Rank], findings: Sequence[Finding], last_line: float) -> bool:
        """Take one look. True: the run hangs, and it was not said before. `last_line`: when any rank printed last."""
        idle = [rank.idle for rank in ranks if rank.idle is not None]
        if idle:
            progress = now - min(idle)
        else:  # no rank has a record of collectives
            stacks = [rank.stack for rank in ranks]
            known = {rank.rank: rank.switches for rank in ranks if rank.switches is not None}
            stopped = any(finding.kind is FindingKind.STOPPED for finding in findings)
            moved = not stopped and any(
                number - self._switches.get(rank, number) > FEW for rank, number in known.items()
            )
            progress = max(last_line, self.progress if stacks == self._stacks and not moved else now)
            self._stacks, self._switches = stacks, known
        if progress > self.progress + 0.5:  # an age is measured on the rank's clock, and trembles
            self.warned = False
        self.progress = max(self.progress, progress)
        waits = any(finding.kind.shows_wait for finding in findings)
        hangs = waits and now - self.progress >= self.seconds
        self.due = max(self.progress + self.seconds, now + max(1.0, self.seconds / 4))
        if hangs and not self.warned:
            self.warned = True
            return True
        return False


class SlowWatch:
    """`--slow-action`: looks for slow ranks as often as for a hang. What two looks in a row name is reported, once."""

    def __init__(self, seconds: float, now: float) -> None:
        self.due = now + seconds
        self.slow: SlowRanks | None = None  # by both of the last two looks
        self._seconds = seconds
        self._last: SlowRanks | None = None
        self._told: set[tuple[int, ...]] = set()

    def take(self, now: float, found: Slowness | None) -> list[str]:
        """Take one look. Returns what to report. A look that saw no rank, or failed (None), changes nothing."""
        self.due = now + self._seconds
        if found is None or not found.waits:
            return []
        slow, last = found.slow, self._last
        self._last = slow
        self.slow = slow if slow and last and slow.ranks == last.ranks else None
        if slow and not last:
            self.due = now  # a first name is looked at again at once
        if self.slow is None or self.slow.ranks in self._told:
            return []
        self._told.add(self.slow.ranks)
        return describe(found)
