"""From what ranks of ours said, and how they ended, to findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from ddpkit.diagnosis import verdict
from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.symptoms import RANKS, REQUESTS, STAGE_ENTRIES, find_symptom
from ddpkit.distributed import nodelist
from ddpkit.launchers.plan import Plan
from ddpkit.launchers.shell import count
from ddpkit.preflight.check import Check
from ddpkit.preflight.rank_program import Event, Heard

BAD = 3  # how a rank of ours ends where something is wrong
STAGES = ("ranks", "gloo", "gpu-map", "nccl", "speed")
_ENDED = ("reset by peer", "closed by peer", "roken pipe")
# What ranks say when another one is to blame.
_CONSEQUENCES = (
    "ended, or hung",
    "did not come",
    "does not go on",
    "does not reach",
    "get on with",
    "no answer after",
    "by peer",
)


def _entry(stage: str, text: str) -> str:
    """Return the id in the catalogue of what a rank reported."""
    return find_symptom(RANKS, text).entry or STAGE_ENTRIES.get(stage, "")


def _cause(text: str) -> str:
    return find_symptom((each for each in RANKS if each.cause), text).cause


def places(plan: Plan, heard: Heard) -> dict[int, str]:
    """The host of each rank: where it said it is, else where it was to be."""
    told = {event["rank"]: event["host"] for event in heard.of("rank")}
    planned = {rank: step.host for step in plan.steps if not step.scheduled for rank in step.ranks}
    nodes = next((event["nodes"] for event in heard.of("rank") if event.get("nodes")), "")
    if nodes and not planned:  # a scheduler's step: as many ranks on every node, in order
        hosts = nodelist.expand_nodelist(nodes)
        width = max(1, plan.world_size // len(hosts))
        planned = {rank: hosts[min(rank // width, len(hosts) - 1)] for rank in range(plan.world_size)}
    return {**planned, **told} if any(step.scheduled for step in plan.steps) else {**told, **planned}


def of_ranks(heard: Heard, plan: Plan, *, speed: bool) -> list[Check]:
    """What the ranks found, and what became of those that found nothing."""
    where = places(plan, heard)
    said = _problems(heard, where)
    failure = heard.outcome.failure
    if failure is not None and not (failure.code == BAD and said):
        # What the others say of it, and of each other, follows from it.
        said = [check for check in said if not any(words in check.evidence for words in _CONSEQUENCES)]
        said = [_died(failure, heard, where), *said]
    if heard.silent:
        said = [*_silent(heard, where, plan), *said]
    passed = {event["stage"]: event for event in heard.of("stage")}
    bad = {check.id for check in said if check.status == "fail"}
    found = list(said)
    for stage in STAGES:
        if stage in passed and stage not in {check.id for check in said}:
            found.append(Check(id=stage, status="pass", evidence=_figures(stage, passed[stage], plan)))
        elif stage not in bad and stage not in passed:
            found.append(Check(id=stage, status="skip", evidence=_why_not(stage, bad, heard, speed=speed)))
    return found


def _problems(heard: Heard, where: Mapping[int, str]) -> list[Check]:
    events = heard.of("problem")
    # A rank that says itself why it did not come is believed; of it no other knows more. And it ends all others.
    themselves = {event["rank"] for event in events if event["rank"] == event["from"]}
    started = {event["rank"] for event in heard.of("rank")}
    found = []
    several = len({event["rank"] for event in events}) > 1 or len(events) > 1
    for event in events:
        if several and any(words in event["problem"] for words in _ENDED):
            continue  # somebody went, of whom somebody else tells
        text, cause, fix, rank = event["problem"], event.get("cause", ""), event["fix"], event["rank"]
        told = rank != event["from"] and ("did not come" in text or "does not go on" in text)
        if told and (rank in themselves or ("did not come" in text and themselves)):
            continue
        if "did not come" in text:
            text, cause, fix = _missing(text, rank in started, where.get(rank, ""))
        elif "does not go on" in text or "ended, or hung" in text:
            # An end would have been seen.
            cause = "it did not end, so it hangs: stopped, in an endless loop, or its node is gone"
        found.append(
            Check(
                id=event["check"],
                status=event["level"],
                host=where.get(rank, event["host"]),
                rank=rank,
                evidence=text,
                cause=cause or _cause(text),
                fix=fix,
                doc=_entry(event["check"], text),
            )
        )
    return list(_together(dict.fromkeys(found)))


def _missing(text: str, started: bool, host: str) -> tuple[str, str, str]:
    """Evidence, cause and fix for a rank that did not come."""
    there = f"on {host or 'its host'}"
    if started:
        cause = "it started, and hangs before it meets the others: in the import of torch, or on the way to rank 0"
        return text, cause, f"{there}: time python -c 'import torch'; where that is slow: --timeout 60"
    cause = "its process never said a word: it was not started, or its Python hangs at once"
    return f"{text}: it never started", cause, f"{there}: ps -ef | grep python; time python -c pass"


def _together(checks: Iterable[Check]) -> Iterator[Check]:
    """Ranks of one host of which the same is said, as one."""

    def alike(check: Check) -> tuple[str, ...]:
        return check.id, check.status, check.host, check.evidence, check.fix

    for _, group in groupby(sorted(checks, key=alike), alike):
        first, *more = sorted(group, key=lambda check: -1 if check.rank is None else check.rank)
        if more:
            ranks = f" (and {count(len(more), 'more rank')} there: {', '.join(str(each.rank) for each in more)})"
            first = replace(first, evidence=first.evidence + ranks)
        yield first


def _silent(heard: Heard, where: Mapping[int, str], plan: Plan) -> Iterator[Check]:
    """Ranks that were ended because nothing was heard of them; those that never spoke are to blame for the others."""
    refused_by = _not_launched(heard)
    if refused_by is not None:
        yield refused_by
        return
    spoke = {event["rank"] for event in heard.of("rank")}
    met = {event["rank"] for event in heard.of("here")}
    mute = [rank for rank in range(plan.world_size) if rank not in spoke]
    stuck = mute or [rank for rank in range(plan.world_size) if rank not in met]
    last = next((line for line in reversed(heard.agents) if line.strip()), "")
    what = "did not start" if mute else "started, and did not come to meet the others"
    for host, ranks in groupby(stuck, key=lambda rank: where.get(rank, "")):
        first = next(ranks)
        yield Check(
            id="ranks",
            status="fail",
            host=host,
            rank=first,
            evidence=f"{what} within {heard.silent:g} s"
            + (f"; the last line of what starts it: {last}" if last else ""),
            cause="what starts it hangs: the scheduler's daemon there, a name that does not resolve, a disk, an import",
            fix=f"ssh {host} uptime; less {heard.folder}/all.log" if host else f"less {heard.folder}/all.log",
            doc="ranks-missing",
        )


def _not_launched(heard: Heard) -> Check | None:
    """What srun says of a node whose daemon starts nothing; that it kills the tasks of the others is a consequence."""
    for line in heard.agents:
        found = re.search(r"Task launch .*failed on node (\S+?): (.+)", line)
        if found:
            return Check(
                id="ranks",
                status="fail",
                host=found[1],
                evidence=line.strip(),
                cause="slurmd there is dead or cut off, and SLURM does not know it yet",
                fix=f"ssh {found[1]} sudo systemctl restart slurmd; without it: -o exclude={found[1]}",
                doc="task-launch-failed",
            )
    return None


def _died(failure: Failure, heard: Heard, where: Mapping[int, str]) -> Check:
    """A rank that ended before it could say why; or a job, or srun, or a node."""
    from ddpkit.diagnosis.catalogue.endings import SIGNALS

    not_launched = _not_launched(heard)
    if not_launched is not None:
        return not_launched
    last = next((line for line in reversed(failure.last_lines) if line.strip()), "").strip()
    ours = failure.rank is not None
    reached = [event["stage"] for event in heard.of("stage")]
    stage = "ranks" if "ranks" not in reached else "nccl" if "gloo" in reached else "gloo"
    scheduled = not ours and (failure.what.startswith("job ") or failure.what == "srun")
    if scheduled and (failure.code == 4 or "srun: error" in last):
        return refused(f"{failure.what}: {failure.reason or last}", verdict.hint(failure))
    how, _, usually = verdict.describe_exit(failure).partition(": ") if not failure.reason else (failure.reason, "", "")
    what = f"rank {failure.rank}" if ours else failure.what
    evidence = f"{what} {'ended' if ours else 'failed'} after {failure.seconds:.1f} s: {how}"
    if last:
        evidence += f"; its last line: {last}"
    fix = "sinfo -R" if scheduled else verdict.hint(failure)
    if not (failure.log or scheduled or failure.signal in SIGNALS) or fix == "less ":
        fix = f"ls {heard.folder}"  # it left no line
    text = "\n".join((evidence, *failure.last_lines))
    doc = SIGNALS.get(failure.signal or 0, "") if ours else ""
    return Check(
        id="scheduler" if scheduled else stage,
        status="fail",
        host=where.get(failure.rank, failure.host) if failure.rank is not None else "" if scheduled else failure.host,
        rank=failure.rank,
        evidence=evidence,
        cause=usually or _cause(text) or ("its process ended by itself" if ours else ""),
        fix=fix,
        doc=doc or _entry("scheduler" if scheduled else stage, text),
    )


def refused(said: str, hint: str) -> Check:
    """The scheduler does not take the request."""
    symptom = find_symptom(REQUESTS, said)
    fix = symptom.fix or hint
    return Check(id="scheduler", status="fail", evidence=said, cause=symptom.cause, fix=fix, doc=symptom.entry)


def _figures(stage: str, event: Event, plan: Plan) -> str:
    done: Mapping[str, Any] = event.get("done") or {}
    if stage == "ranks":
        return f"{plan.world_size} of {plan.world_size} came"
    if stage in ("gloo", "nccl") and done:
        small = max(one["small_ms"] for one in done.values())
        speed = min(one["gb_per_s"] for one in done.values())
        return f"small {small:.2f} ms" + (f", large {speed:.2f} GB/s" if plan.world_size > 1 else "")
    if stage == "speed" and done:
        times = [one["gemm"] for one in done.values() if "gemm" in one]
        return f"slowest {max(times) / min(times):.2f} x the fastest" if times and min(times) else ""
    return ""


def _why_not(stage: str, bad: set[str], heard: Heard, *, speed: bool) -> str:
    reports = heard.of("here")
    if bad:
        return f"needs what failed before: {', '.join(sorted(bad))}"
    if stage in ("gpu-map", "nccl") and reports and not any(event["identity"] for event in reports):
        return "no GPUs"
    if stage == "speed" and not speed:
        return "not asked for: --full"
    return "not reached"


def seconds_left(text: str) -> int | None:
    """What squeue says of the time left, [D-][HH:]MM:SS, in seconds; None: no limit, or not known."""
    days, _, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in (*parts, days or "0")) or len(parts) < 2:
        return None
    seconds = 0
    for part in parts:
        seconds = seconds * 60 + int(part)
    return seconds + int(days or 0) * 86400
