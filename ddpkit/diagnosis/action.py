"""Action after a failure: stop, retry, or exclude a host. Pure: an analysis of logs, or a failure in; an action out."""

from __future__ import annotations

import re

from ddpkit.diagnosis.analyze import LogAnalysis
from ddpkit.diagnosis.catalogue import BY_ID
from ddpkit.diagnosis.catalogue.endings import SEEN, SIGNALS, USER_SIGNALS
from ddpkit.diagnosis.log_match import LogMatch
from ddpkit.diagnosis.outcome import SUPERVISORS, Action, Failure
from ddpkit.errors import AGAIN, NO_PROGRESS


def decide(analysis: LogAnalysis) -> Action:
    """Return the action after a failure with these logs."""
    first = analysis.first
    if first is None or first.kind == "hint":
        unknown = analysis.first_alarm is not None
        return Action(action="retry", reason="the cause is not known" if unknown else "the log shows no failure")
    return decide_match(first)


def decide_match(first: LogMatch, host: str = "") -> Action:
    """Return the action after a failure whose first cause is this match. `host`: of its log, if the lines have none."""
    entry = first.entry
    action = entry.action if entry is not None else ""
    reason = entry.reason if entry is not None else ""
    if entry is not None and entry.request and re.search(entry.request, first.text):
        action = ""
    host = first.values.get("host") or first.speaker.host or host
    if action == "exclude" and host:
        return Action(action="exclude", host=host, id=first.id, reason=reason)
    if action == "exclude":  # without a host, a retry is the only choice
        return Action(action="retry", id=first.id, reason=f"{reason}, but the log does not show which host")
    if action:
        return Action(action=action, id=first.id, reason=reason)
    if first.kind == "cause":
        return Action(action="stop", id=first.id, reason=f"it would fail again: {first.cause}")
    return Action(action="retry", id=first.id, reason=f"the log does not show the first cause: {first.cause}")


def decide_failure(failure: Failure) -> Action:
    """Return the action after the first failure of a run, from its exit code or signal."""
    whose = f"rank {failure.rank}" if failure.rank is not None else failure.what
    if failure.what == "slurmd":
        return _exclude_proven(failure, SEEN["slurmd"])
    if failure.what in SUPERVISORS:
        return _exclude_proven(failure, SEEN["supervisor"], failure.reason or "it was lost")
    if failure.code == NO_PROGRESS and failure.reason:
        return Action(action="retry", reason=failure.reason)
    if failure.code == AGAIN:
        return Action(action="retry", id=SEEN["again"], reason=BY_ID[SEEN["again"]].reason)
    if failure.job_memory:
        return Action(action="stop", id=SEEN["job-memory"], reason="the job requested less memory than it used")
    if failure.oom:
        return _exclude_proven(failure, SEEN["host-memory"])
    if failure.signal is not None:
        known = {**SIGNALS, **USER_SIGNALS}.get(failure.signal, "")
        entry = BY_ID.get(known)
        if entry is not None and entry.action:
            return Action(action=entry.action, id=known, reason=entry.reason)
        return Action(action="retry", id=known, reason=f"{whose} was killed by signal {failure.signal}")
    if failure.reason:
        return Action(action="stop", reason=failure.reason)
    return Action(action="stop", reason=f"{whose} exited with code {failure.exit_code}")


def _exclude_proven(failure: Failure, entry_id: str, reason: str = "") -> Action:
    """Exclude the host of a failure that no rank's text can forge."""
    return Action(
        action="exclude", host=failure.host, id=entry_id, reason=reason or BY_ID[entry_id].reason, proven=True
    )
