"""Decision after an attempt of a run: stop, or start again: on the same nodes, after a check of some, or with spares.

Pure: how the attempt ended, the attempts before it and the limits in; a decision with its reason out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ddpkit.diagnosis.catalogue import BY_ID
from ddpkit.diagnosis.catalogue.entry import UNKNOWN, Entry
from ddpkit.diagnosis.outcome import Action, Decision, Failure
from ddpkit.text import format_hosts


@dataclass(frozen=True, kw_only=True)
class End:
    """The end of one attempt."""

    hosts: tuple[str, ...]  # that it ran on
    failure: Failure | None = None  # with its action
    stopped: bool = False  # a person or a limit ended it
    ending: str = ""  # the state of its SLURM job, which ends
    lost: Mapping[str, str] = field(default_factory=dict)  # reasons by host: processes may still run there
    progress: float | None = None  # grows while the run makes progress; None: not known


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of the attempts that may follow."""

    retries: int  # that are left
    spares: int  # hosts that are left
    requeue: bool = False  # SLURM can requeue the job, with other nodes
    script_lost: bool = False  # the job has no script any more: only a requeued job has another attempt
    retry_codes: Collection[int] = ()  # exit codes that request another attempt
    stop_codes: Collection[int] = ()  # exit codes that refuse one


def decide(end: End, before: Sequence[End], limits: Limits) -> Decision:
    """Return the decision after the end of an attempt. `before`: the ends of the earlier ones, in order."""
    wanted = _wanted(end, limits)
    if wanted.action == "stop":
        return wanted
    if before and not _script_asked(end, limits) and _repeats(end, before[-1]):
        return _stop(f"the same failure ended the attempt before, without progress since: {wanted.reason}")
    if limits.retries < 1:
        return _stop(f"{wanted.reason}; all retries are used")
    if wanted.action == "replace" and (limits.script_lost or len(wanted.hosts) > limits.spares):
        if limits.requeue:
            return replace(wanted, action="requeue")
        if limits.script_lost:
            return _stop(f"{wanted.reason}; SLURM may not requeue the job: submit it again with --requeue")
        left = f"{limits.spares} of {len(wanted.hosts)} needed spare hosts left"
        return _stop(f"{wanted.reason}; {left}")
    return wanted


def describe(decision: Decision, number: int) -> str:
    """Return a line about the decision after attempt `number`."""
    if decision.action == "stop":
        return f"no other attempt follows: {decision.reason}"
    hosts = format_hosts(decision.hosts)
    does = {
        "replace": f"{hosts}: put aside",
        "check": f"{hosts}: to be checked",
        "same": "the same nodes",
        "requeue": f"requeue without {hosts}",
    }
    return f"attempt {number} ended; {does[decision.action]}; reason: {decision.reason}"


def _wanted(end: End, limits: Limits) -> Decision:
    """Return the decision as if retries and spares had no end: replace bad nodes, check those that may be."""
    failure = end.failure
    if end.stopped or failure is None:
        return _stop("the run was stopped")
    if end.ending:
        return _stop(f"SLURM ends the job: {end.ending}")
    if failure.signal is None and failure.exit_code in limits.stop_codes:
        return _stop(f"exit code {failure.exit_code} refuses another attempt (stop_codes)")
    action = failure.action or Action(action="stop", reason="the failure has no diagnosis")
    if _script_asked(end, limits):
        action = Action(action="retry", id=action.id, reason=f"exit code {failure.exit_code} requests another attempt")
    bad = {host: reason for host, reason in end.lost.items() if host in end.hosts}
    at_fault = _host_of_name(action.host or "", end.hosts)
    if action.action == "exclude" and at_fault and action.proven:
        bad = {at_fault: action.reason, **bad}
    if bad:  # a node that is lost also makes ranks of the others fail, with any error
        alike: dict[str, list[str]] = {}
        for host, why in bad.items():
            alike.setdefault(why, []).append(host)
        reasons = "; ".join(f"{format_hosts(hosts)}: {why}" for why, hosts in alike.items())
        return Decision(action="replace", hosts=tuple(bad), reason=reasons)
    if action.action == "stop":
        return _stop(action.reason)
    if action.action == "exclude" and at_fault:  # a rank printed it, and any script can print it
        return Decision(action="check", hosts=(at_fault,), reason=f"the log shows a fault: {action.reason}")
    if action.action == "retry" and not _script_asked(end, limits) and _is_unclear(failure) and len(end.hosts) > 1:
        failed = _host_of_name(failure.host, end.hosts)
        suspects = (failed,) if failed else end.hosts
        if failed and _entry(action).role:  # its rank waited for a rank of another host, or lost it
            suspects = tuple(host for host in end.hosts if host != failed)
        return Decision(action="check", hosts=suspects, reason=action.reason)
    return Decision(action="same", reason=action.reason)


def _stop(reason: str) -> Decision:
    return Decision(action="stop", reason=reason)


def _entry(action: Action) -> Entry:
    return BY_ID.get(action.id, UNKNOWN)


def _script_asked(end: End, limits: Limits) -> bool:
    """Whether the script itself requested another attempt."""
    return end.failure is not None and end.failure.signal is None and end.failure.exit_code in limits.retry_codes


def _is_unclear(failure: Failure) -> bool:
    """Whether a node can be the cause: a rank was killed, or one did not answer. A request or a preemption is clear."""
    return failure.action is None or _entry(failure.action).scope not in ("job", "outside")


def _repeats(end: End, last: End) -> bool:
    """Whether the run failed in the same way as in the attempt before, and made no progress since."""
    if end.progress is not None and (last.progress is None or end.progress > last.progress):
        return False
    if end.failure is None or last.failure is None:
        return False
    if end.failure.action is not None and _entry(end.failure.action).scope == "job":
        return False  # SLURM ends an attempt as often as it likes
    return _key(end.failure) == _key(last.failure)


def _key(failure: Failure) -> tuple[object, ...]:
    """Return what is equal in two failures of the same kind. The same fault on another node is another failure."""
    action = failure.action
    if action is not None and action.action == "exclude":
        return action.id, "" if _entry(action).request else action.host
    return (action.id if action else ""), failure.code, failure.signal, failure.raised, failure.reason != ""


def _host_of_name(name: str, hosts: Sequence[str]) -> str:
    """Return the host that a log calls by this name; empty: none of these, or one of several."""
    if name in hosts:
        return name
    plain = {host: host.rpartition("@")[2].partition(":")[0] for host in hosts}  # of user@host:port
    same = [host for host, each in plain.items() if each == name]
    same = same or [host for host, each in plain.items() if _short(each) == _short(name)]
    return same[0] if len(same) == 1 else ""


def _short(name: str) -> str:
    """Return a name without its domain; an address has none."""
    first = name.partition(".")[0]
    return name if first.isdecimal() else first
