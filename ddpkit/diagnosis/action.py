"""Action after a failure: stop, retry, or exclude a host. Pure: an analysis of logs, or a failure in; an action out."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue import entry_of_seen, entry_of_signal
from ddpkit.diagnosis.catalogue.bounded import find
from ddpkit.diagnosis.decide import LogAnalysis
from ddpkit.diagnosis.log_match import LogMatch
from ddpkit.diagnosis.outcome import SUPERVISOR, Action, Failure
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
    reason = entry.reason
    # A mistake in the request fails on every host: the entry's action would blame one.
    requested = entry.request and find(entry.request, (first.text,), entry.origin)
    action = "" if requested else entry.action
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
        return _exclude_proven(failure, "lost by SLURM", failure.reason)
    if failure.what == SUPERVISOR:
        return _exclude_proven(failure, "lost", failure.reason or "it was lost")
    if failure.code == NO_PROGRESS and failure.reason:
        return Action(action="retry", reason=failure.reason)
    if failure.code == AGAIN:
        entry = entry_of_seen("asked for another attempt")
        return Action(action="retry", id=entry.id, reason=entry.reason)
    if failure.job_memory:
        entry = entry_of_seen("killed at its job's memory limit")
        return Action(action="stop", id=entry.id, reason="the job requested less memory than it used")
    if failure.oom:
        return _exclude_proven(failure, "killed for want of memory")
    if failure.signal is not None:
        known = entry_of_signal(failure.signal)
        if known is not None and known.action:
            return Action(action=known.action, id=known.id, reason=known.reason)
        reason = f"{whose} was killed by signal {failure.signal}"
        return Action(action="retry", id=known.id if known else "", reason=reason)
    if failure.reason:
        return Action(action="stop", reason=failure.reason)
    return Action(action="stop", reason=f"{whose} exited with code {failure.exit_code}")


def _exclude_proven(failure: Failure, seen: str, reason: str = "") -> Action:
    """Exclude the host of a failure that no rank's text can forge."""
    entry = entry_of_seen(seen)
    return Action(action="exclude", host=failure.host, id=entry.id, reason=reason or entry.reason, proven=True)
