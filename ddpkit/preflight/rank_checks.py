"""Checks from the events of our ranks, and from their ends. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from ddpkit.diagnosis import verdict
from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.symptoms import find_symptom
from ddpkit.distributed import nodelist
from ddpkit.errors import LaunchError, PreflightError
from ddpkit.launchers.plan import Plan
from ddpkit.launchers.shell import count
from ddpkit.preflight.check import Check
from ddpkit.preflight.rank_program import ProgramRun, StageEvent, compose_fix

BAD = PreflightError.exit_code  # of a rank of ddpkit's own programs that found a problem
STAGES = ("ranks", "gloo", "gpu-map", "nccl", "speed")
_ENDED = ("reset by peer", "closed by peer", "roken pipe")
# Texts of problems that another rank caused.
_CONSEQUENCES = (
    "ended, or hung",
    "did not join",
    "does not proceed",
    "cannot reach",
    "all_reduce fails with",
    "no answer after",
    "by peer",
)


def _entry(stage: str, text: str) -> str:
    """Return the id in the catalogue of what a rank reported."""
    return find_symptom("ranks", text).entry or find_symptom(f"stage-{stage}", text).entry


def _cause(text: str) -> str:
    return find_symptom("ranks", text, with_cause=True).cause


def _library_error(check: str, text: str) -> tuple[str, str, str]:
    """Return cause, fix and catalogue entry of an error that NCCL raised; empty: not known."""
    from ddpkit.diagnosis.decide import analyze_log  # only after a failure

    match = analyze_log([("rank", text)]).first if check == "nccl" and not _entry("", text) else None
    return (match.cause, match.fix, match.entry.id) if match is not None and match.entry else ("", "", "")


def rank_hosts(plan: Plan, run: ProgramRun) -> dict[int, str]:
    """The host of each rank: as the rank reported it, else as the plan has it."""
    reported = {event["rank"]: event["host"] for event in run.starts}
    planned = {rank: step.host for step in plan.steps if not step.scheduled for rank in step.ranks}
    nodes = next((event["nodes"] for event in run.starts if event["nodes"]), "")
    if nodes and not planned:  # a scheduler's step: as many ranks on every node, in order
        hosts = nodelist.expand_nodelist(nodes)
        width = max(1, plan.world_size // len(hosts))
        planned = {rank: hosts[min(rank // width, len(hosts) - 1)] for rank in range(plan.world_size)}
    return {**planned, **reported} if any(step.scheduled for step in plan.steps) else {**reported, **planned}


def check_ranks(run: ProgramRun, plan: Plan, *, speed: bool) -> list[Check]:
    """Checks of the stages that the ranks passed, and of their ends."""
    where = rank_hosts(plan, run)
    bad_checks = _problems(run, where)
    failure = run.outcome.failure
    if failure is not None and not (failure.code == BAD and bad_checks):
        # Reports of the others about it, and about each other, follow from it.
        bad_checks = [check for check in bad_checks if not any(words in check.evidence for words in _CONSEQUENCES)]
        bad_checks = [_died(failure, run, where), *bad_checks]
    if run.silent:
        bad_checks = [*_silent(run, where, plan), *bad_checks]
    passed = {event["stage"]: event for event in run.stages}
    bad = {check.id for check in bad_checks if check.status == "fail"}
    checks = list(bad_checks)
    for stage in STAGES:
        if stage in passed and stage not in {check.id for check in bad_checks}:
            checks.append(Check(id=stage, status="pass", evidence=_figures(stage, passed[stage], plan)))
        elif stage not in bad and stage not in passed:
            checks.append(Check(id=stage, status="skip", evidence=_why_not(stage, bad, run, speed=speed)))
    return checks


def _problems(run: ProgramRun, where: Mapping[int, str]) -> list[Check]:
    events = run.problems
    # A rank that reports itself is believed: no other knows more of it. And it ends all others.
    self_reported = {event["rank"] for event in events if event["rank"] == event["sender"]}
    started = {event["rank"] for event in run.starts}
    checks = []
    several = len({event["rank"] for event in events}) > 1 or len(events) > 1
    for event in events:
        if several and any(words in event["problem"] for words in _ENDED):
            continue  # a rank ended, which another one reports
        text, cause, rank = event["problem"], event.get("cause", ""), event["rank"]
        fix = compose_fix(event, where)
        by_another = rank != event["sender"] and ("did not join" in text or "does not proceed" in text)
        if by_another and (rank in self_reported or ("did not join" in text and self_reported)):
            continue
        if "did not join" in text:
            text, cause, fix = _missing(text, rank in started, where.get(rank, ""))
        elif "does not proceed" in text or "ended, or hung" in text:
            # An end would have been seen.
            cause = "it did not end, so it hangs: it is stopped, is in an endless loop, or its node failed"
        check = event.get("check", "ranks")
        known_cause, known_fix, entry = _library_error(check, text)
        host = where.get(rank, event["host"])
        own_fix = find_symptom("ranks", text).fix.format(host=host) if check == "gpu-map" else ""
        checks.append(
            Check(
                id=check,
                status=event.get("level", "fail"),
                host=host,
                rank=rank,
                evidence=text,
                cause=cause or _cause(text) or known_cause,
                fix=own_fix or known_fix or fix,
                doc=entry or _entry(check, text),
            )
        )
    return list(_merge_alike(dict.fromkeys(checks)))


def _missing(text: str, started: bool, host: str) -> tuple[str, str, str]:
    """Evidence, cause and fix for a rank that did not join."""
    there = f"on {host or 'its host'}"
    if started:
        cause = "it started, and hangs before the rendezvous: in the import of torch, or in the connection to rank 0"
        return text, cause, f"{there}: time python -c 'import torch'; if that is slow: --timeout 60"
    cause = "its process printed nothing: it was not started, or its Python hangs immediately"
    return f"{text}: it never started", cause, f"{there}: ps -ef | grep python; time python -c pass"


def _merge_alike(checks: Iterable[Check]) -> Iterator[Check]:
    """Merge equal checks of several ranks of one host."""

    def alike(check: Check) -> tuple[str, ...]:
        return check.id, check.status, check.host, check.evidence, check.fix

    for _, group in groupby(sorted(checks, key=alike), alike):
        first, *more = sorted(group, key=lambda check: -1 if check.rank is None else check.rank)
        if more:
            ranks = f" (and {count(len(more), 'more rank')} there: {', '.join(str(each.rank) for each in more)})"
            first = replace(first, evidence=first.evidence + ranks)
        yield first


def _silent(run: ProgramRun, where: Mapping[int, str], plan: Plan) -> Iterator[Check]:
    """Yield the ranks that blocked a stage: those without any event, else those without a report."""
    refused_by = _not_launched(run)
    if refused_by is not None:
        yield refused_by
        return
    started = {event["rank"] for event in run.starts}
    reported = {event["rank"] for event in run.reports}
    mute = [rank for rank in range(plan.world_size) if rank not in started]
    stuck = mute or [rank for rank in range(plan.world_size) if rank not in reported]
    last = next((line for line in reversed(run.agent_lines) if line.strip()), "")
    what = "did not start" if mute else "started, and did not join the rendezvous"
    for host, ranks in groupby(stuck, key=lambda rank: where.get(rank, "")):
        first = next(ranks)
        read = f"less {shlex.quote(run.folder)}/*.log"
        yield Check(
            id="ranks",
            status="fail",
            host=host,
            rank=first,
            evidence=f"{what} within {run.silent:g} s" + (f"; last line of its starter: {last}" if last else ""),
            cause="its starter hangs: the scheduler's daemon, name resolution, a disk, or an import",
            fix=f"ssh {shlex.quote(host)} uptime; {read}" if host else read,
            doc="ranks-missing",
        )


def _not_launched(run: ProgramRun) -> Check | None:
    """A node whose slurmd starts nothing, by srun's words. That srun kills the other tasks is a consequence."""
    for line in run.agent_lines:
        match = re.search(r"Task launch .*failed on node (\S+?): (.+)", line)
        if match:
            host = shlex.quote(match[1])
            return Check(
                id="ranks",
                status="fail",
                host=match[1],
                evidence=line.strip(),
                cause="slurmd on that node is dead or disconnected, and SLURM has not detected it yet",
                fix=f"ssh {host} systemctl status slurmd; to run without it: -o exclude={host}",
                doc="task-launch-failed",
            )
    return None


def _died(failure: Failure, run: ProgramRun, where: Mapping[int, str]) -> Check:
    """A rank that ended before it could report a problem; or a job, or srun, or a node."""
    from ddpkit.diagnosis.catalogue import entry_of_signal

    not_launched = _not_launched(run)
    if not_launched is not None:
        return not_launched
    last = next((line for line in reversed(failure.last_lines) if line.strip()), "").strip()
    ours = failure.rank is not None
    reached = [event["stage"] for event in run.stages]
    stage = "ranks" if "ranks" not in reached else "nccl" if "gloo" in reached else "gloo"
    scheduled = not ours and (failure.what.startswith("job ") or failure.what == "srun")
    if scheduled and (failure.code == LaunchError.exit_code or "srun: error" in last):
        return check_refusal(f"{failure.what}: {failure.reason or last}", verdict.hint(failure))
    how, _, usually = verdict.describe_exit(failure).partition(": ") if not failure.reason else (failure.reason, "", "")
    what = f"rank {failure.rank}" if ours else failure.what
    evidence = f"{what} {'ended' if ours else 'failed'} after {failure.seconds:.1f} s: {how}"
    if last:
        evidence += f"; its last line: {last}"
    fix = "sinfo -R" if scheduled else verdict.hint(failure)
    ended = entry_of_signal(failure.signal)
    if not (failure.log or scheduled or ended) or fix == "less ":
        fix = f"ls {shlex.quote(run.folder)}"  # it left no line
    text = "\n".join((evidence, *failure.last_lines))
    doc = ended.id if ours and ended else ""
    return Check(
        id="scheduler" if scheduled else stage,
        status="fail",
        host=where.get(failure.rank, failure.host) if failure.rank is not None else "" if scheduled else failure.host,
        rank=failure.rank,
        evidence=evidence,
        cause=usually or _cause(text) or ("its process ended" if ours else ""),
        fix=fix,
        doc=doc or _entry("scheduler" if scheduled else stage, text),
    )


def check_refusal(words: str, hint: str) -> Check:
    """The scheduler does not take the request."""
    symptom = find_symptom("requests", words)
    fix = symptom.fix or hint
    return Check(id="scheduler", status="fail", evidence=words, cause=symptom.cause, fix=fix, doc=symptom.entry)


def _figures(stage: str, event: StageEvent, plan: Plan) -> str:
    done = event.get("done") or {}
    if stage == "ranks":
        return f"{plan.world_size} of {plan.world_size} joined"
    if stage in ("gloo", "nccl") and done:
        small = max(one["small_ms"] for one in done.values())
        bandwidth = min(one["gb_per_s"] for one in done.values())
        return f"small {small:.2f} ms" + (f", large {bandwidth:.2f} GB/s" if plan.world_size > 1 else "")
    if stage == "speed" and done:
        seconds = [one["gemm"] for one in done.values() if "gemm" in one]
        fastest = min(seconds, default=0.0)
        return f"slowest {max(seconds) / fastest:.2f} x the fastest" if fastest else ""
    return ""


def _why_not(stage: str, bad: set[str], run: ProgramRun, *, speed: bool) -> str:
    reports = run.reports
    if bad:
        return f"requires {', '.join(sorted(bad))}"
    if stage in ("gpu-map", "nccl") and reports and not any(event["identity"] for event in reports):
        return "no GPUs"
    if stage == "speed" and not speed:
        return "requires --full"
    return "not started"


def seconds_left(text: str) -> int | None:
    """The time left, as squeue prints it ([D-][HH:]MM:SS), in seconds; None: no limit, or not known."""
    days, _, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in (*parts, days or "0")) or len(parts) < 2:
        return None
    seconds = 0
    for part in parts:
        seconds = seconds * 60 + int(part)
    return seconds + int(days or 0) * 86400
