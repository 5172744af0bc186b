"""Checks from the events of our ranks, and from their ends; of nodes of SLURM, from what their ranks report. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from ddpkit.diagnosis import verdict
from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.symptoms import find_symptom
from ddpkit.distributed import nodelist
from ddpkit.distributed.rank_fixes import FIXES
from ddpkit.errors import LaunchError, PreflightError
from ddpkit.execution.known_good import Past, Speed
from ddpkit.launchers.plan import Plan
from ddpkit.launchers.shell import count
from ddpkit.preflight import node_checks
from ddpkit.preflight.check import Check, Fault, Node, check_each
from ddpkit.preflight.rank_program import DoneEvent, ProblemEvent, ProgramRun, ReportEvent, StageEvent, compose_fix
from ddpkit.transports.compatibility import most_common, torch_version
from ddpkit.transports.reachability import OPEN_PORTS

BAD = PreflightError.exit_code  # of a rank of ddpkit's own programs that found a problem
STAGES = ("ranks", "gloo", "gpu-map", "nccl", "speed")
GEMM = "a matrix product"
_LOST_PEER = ("reset by peer", "closed by peer", "roken pipe")
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
    return (match.cause, match.fix, match.entry.id) if match is not None and match.known else ("", "", "")


def rank_hosts(plan: Plan, run: ProgramRun) -> dict[int, str]:
    """Return the host of each rank: by the plan, else by its report. Of a scheduler's steps, the report comes first."""
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
        # What other ranks report about that rank, and about each other, follows from its end.
        bad_checks = [check for check in bad_checks if not any(words in check.evidence for words in _CONSEQUENCES)]
        bad_checks = [_died(failure, run, where), *bad_checks]
    if run.silent:
        bad_checks = [*_silent(run, where, plan), *bad_checks]
    passed = {event["stage"]: event for event in run.stages}
    bad = {check.id for check in bad_checks if check.status == "fail"}
    checks = list(bad_checks)
    for stage in STAGES:
        if stage in passed and stage not in {check.id for check in bad_checks}:
            checks.append(Check(id=stage, status="pass", evidence=_describe_figures(stage, passed[stage], plan)))
        elif stage not in bad and stage not in passed:
            checks.append(Check(id=stage, status="skip", evidence=_why_skipped(stage, bad, run, speed=speed)))
    return checks


def _problems(run: ProgramRun, where: Mapping[int, str]) -> list[Check]:
    """Return a check for each problem that a rank reports of itself or of another, but for consequences."""
    self_reported = {event["rank"] for event in run.problems if event["rank"] == event["sender"]}
    started = {event["rank"] for event in run.starts}
    checks = []
    for event in run.problems:
        if _is_consequence(event, self_reported, only_one=len(run.problems) == 1):
            continue
        text, cause, rank, fix = event["problem"], event.get("cause", ""), event["rank"], compose_fix(event, where)
        if "did not join" in text:
            text, cause, fix = _explain_missing(text, rank in started, where.get(rank, ""))
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


def _is_consequence(event: ProblemEvent, self_reported: Collection[int | None], *, only_one: bool) -> bool:
    """Whether a problem follows from another one. What a rank reports of itself is believed, and ends other ranks."""
    text, rank = event["problem"], event["rank"]
    if not only_one and any(words in text for words in _LOST_PEER):
        return True
    if rank == event["sender"]:
        return False
    return bool(("did not join" in text and self_reported) or ("does not proceed" in text and rank in self_reported))


def _explain_missing(text: str, started: bool, host: str) -> tuple[str, str, str]:
    """Return evidence, cause and fix for a rank that did not join."""
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
    """Yield the first rank of each host that blocked the others: it did not start, or did not join the rendezvous."""
    refused_by = _not_launched(run)
    if refused_by is not None:
        yield refused_by
        return
    started = {event["rank"] for event in run.starts}
    reported = {event["rank"] for event in run.reports}
    not_started = [rank for rank in range(plan.world_size) if rank not in started]
    stuck = not_started or [rank for rank in range(plan.world_size) if rank not in reported]
    last = next((line for line in reversed(run.agent_lines) if line.strip()), "")
    what = "did not start" if not_started else "started, and did not join the rendezvous"
    for host, ranks in groupby(stuck, key=lambda rank: where.get(rank, "")):
        first = next(ranks)
        read = f"less {shlex.quote(run.folder)}/*.log"
        text = f"{what} within {run.silent:g} s" + (f"; last line of its starter: {last}" if last else "")
        cause = "its starter hangs: the scheduler's daemon, name resolution, a disk, or an import"
        fix = f"ssh {shlex.quote(host)} uptime; {read}" if host else read
        yield Fault("fail", text, cause, fix, "ranks-missing").of("ranks", host, first)


def _not_launched(run: ProgramRun) -> Check | None:
    """Return the check of a node whose slurmd starts nothing, by srun's words. Then srun kills the other tasks."""
    for line in run.agent_lines:
        match = re.search(r"Task launch .*failed on node (\S+?): (.+)", line)
        if match:
            host = shlex.quote(match[1])
            cause = "slurmd on that node is dead or disconnected, and SLURM has not detected it yet"
            fix = f"ssh {host} systemctl status slurmd; to run without it: -o exclude={host}"
            return Fault("fail", line.strip(), cause, fix, "task-launch-failed").of("ranks", match[1])
    return None


def _died(failure: Failure, run: ProgramRun, where: Mapping[int, str]) -> Check:
    """Return the check of a failure that no rank reported: a rank that ended, or a job, srun or a node."""
    from ddpkit.diagnosis.catalogue import entry_of_signal

    not_launched = _not_launched(run)
    if not_launched is not None:
        return not_launched
    last = next((line for line in reversed(failure.last_lines) if line.strip()), "").strip()
    scheduled = failure.rank is None and (failure.what.startswith("job ") or failure.what == "srun")
    if scheduled and (failure.code == LaunchError.exit_code or "srun: error" in last):
        return check_refusal(f"{failure.what}: {failure.reason or last}", verdict.hint(failure))
    who = f"{failure.what} failed" if failure.rank is None else f"rank {failure.rank} ended"
    how, usual_cause = verdict.split_exit(failure)
    evidence = f"{who} after {failure.seconds:.1f} s: {how}" + (f"; its last line: {last}" if last else "")
    text = "\n".join((evidence, *failure.last_lines))
    cause = usual_cause or _cause(text)
    if scheduled:
        return Fault("fail", evidence, cause, "sinfo -R", _entry("scheduler", text)).of("scheduler")
    passed = [event["stage"] for event in run.stages]
    stage = "ranks" if "ranks" not in passed else "nccl" if "gloo" in passed else "gloo"  # the one that it was in
    by_signal = entry_of_signal(failure.signal)
    fix = verdict.hint(failure) or f"ls {shlex.quote(run.folder)}"  # it left no line
    if failure.rank is None:
        return Fault("fail", evidence, cause, fix, _entry(stage, text)).of(stage, failure.host)
    doc = by_signal.id if by_signal else _entry(stage, text)
    host = where.get(failure.rank, failure.host)
    return Fault("fail", evidence, cause or "its process ended", fix, doc).of(stage, host, failure.rank)


def check_refusal(words: str, hint: str) -> Check:
    """The scheduler does not take the request."""
    symptom = find_symptom("requests", words)
    fix = symptom.fix or hint
    return Check(id="scheduler", status="fail", evidence=words, cause=symptom.cause, fix=fix, doc=symptom.entry)


def speeds(run: ProgramRun, where: Mapping[int, str]) -> list[Speed]:
    """Return what each host's slowest rank took for a matrix product and a copy."""
    hosts = {str(rank): host for rank, host in where.items()}
    devices = {str(event["rank"]): event["device"] for event in run.reports}
    done = next((event.get("done") or {} for event in run.stages if event["stage"] == "speed"), {})
    slowest: dict[tuple[str, str, str], float] = {}
    for rank, figures in done.items():
        for words, seconds in ((GEMM, figures.get("gemm", 0.0)), ("a copy", figures.get("copy", 0.0))):
            key = hosts.get(rank, ""), devices.get(rank, ""), words
            slowest[key] = max(slowest.get(key, 0.0), seconds)
    return [
        Speed(host=host, device=device, what=words, seconds=(seconds,))
        for (host, device, words), seconds in slowest.items()
        if host
    ]


def check_past(pasts: Iterable[Past]) -> Iterator[Check]:
    """Check that each host is as fast as it was."""
    for past in pasts:
        gpu = past.now.device != "cpu"
        # As between ranks: GPUs copy at the same time and share switches, and CPUs are shared.
        if past.is_slower(1.15 if gpu and past.now.what == GEMM else 2.5):
            text = past.describe(f"{past.now.what} on {past.now.device}")
            cause = "the node was faster in earlier tests: heat, another user, or other settings"
            yield Fault("warn", text, cause, FIXES["gpu-heat" if gpu else "cpu-load"], "straggler").of(
                "speed", past.now.host
            )


def _describe_figures(stage: str, event: StageEvent, plan: Plan) -> str:
    """Return the figures of a stage that all ranks passed: of the slowest rank; empty where it has none."""
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


def _why_skipped(stage: str, bad: set[str], run: ProgramRun, *, speed: bool) -> str:
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


# ---- nodes of SLURM, from facts that one test rank per node reported


def check_slurm_nodes(run: ProgramRun, plan: Plan) -> list[Check]:
    """Checks of SLURM's nodes, from the facts and the attempts to reach each other that one rank of each sent."""
    reported = {event["look"]["host"]: event for event in run.node_facts}
    attempts = {event["host"]: event for event in run.done("mesh") if "host" in event}
    per_node = max(1, plan.world_size // max(1, len(reported)))
    isolated = isolated_hosts(run)
    nodes = [
        Node(
            label=host,
            target=host,
            slots=per_node,
            facts=event["look"],
            inventory=event["facts"],
            clock_offset=_clock_offset(attempts.get(host)),
            isolated=host in isolated,
        )
        for host, event in reported.items()
    ]
    checks = node_checks.check_nodes(nodes) if nodes else []
    python = {node.label: node.facts["python"] for node in nodes}
    torch = {node.label: str(torch_version(node.facts)) for node in nodes}
    versions = [*_check_version("python", nodes, python), *_check_version("torch", nodes, torch)]
    return [*checks, *versions, *_check_mesh(attempts, nodes)]


def isolated_hosts(run: ProgramRun) -> set[str]:
    """Return the hosts on which each rank sees only its own GPUs: `srun --gpus-per-task=1` with ConstrainDevices."""
    ranks: dict[str, list[ReportEvent]] = {}
    for event in run.reports:
        ranks.setdefault(event["host"], []).append(event)
    return {
        host
        for host, events in ranks.items()
        if len(events) > 1
        and all(0 < event["devices"] < len(events) for event in events)
        and len({event["identity"] for event in events}) == len(events)
    }


def _clock_offset(event: DoneEvent | None) -> tuple[float, float]:
    least, most = event["ahead"] if event is not None and "ahead" in event else (0.0, 0.0)
    return least, most


def _check_version(name: str, nodes: Sequence[Node], versions: Mapping[str, str]) -> Iterator[Check]:
    """Compare the versions of Python or torch. `versions`: by the label of a node; `None` as text: torch is missing."""
    # What is behind the second point of Python's version changes nothing between ranks.
    values = {label: each.rpartition(".")[0] if name == "python" else each for label, each in versions.items()}
    usual = most_common(list(values.values()))

    @check_each(name)
    def check(node: Node, _: Sequence[Node]) -> Fault | str:
        value = values[node.label]
        if value == usual != "None":
            return versions[node.label]
        if value == "None":
            what = "its Python cannot import torch"
            fix = "-o setup='source venv/bin/activate', with the environment that has torch"
            symptom = find_symptom("torch", what)
        else:
            what = f"has {name} {versions[node.label]}, the others {usual}"
            fix = f"use a shared environment on {node.label}: -o setup='source venv/bin/activate'"
            symptom = find_symptom("ranks", what)
        return Fault("fail", what, symptom.cause, fix, symptom.entry)

    return check(nodes)


def _check_mesh(attempts: Mapping[str, DoneEvent], nodes: Sequence[Node]) -> Iterator[Check]:
    """Check that each node is reached by all others on one of its addresses. `attempts`: of the hosts, by name."""
    addresses = {
        node.label: [address for _, address in node.facts["addresses"] if ":" not in address] for node in nodes
    }
    for host in attempts:
        cut_off = {  # the errors by address, by the host that met them; an empty error: it reached this address
            other: event["errors"][host]
            for other, event in attempts.items()
            if host in event["errors"] and all(event["errors"][host].values())
        }
        if not cut_off:
            yield Check(id="mesh", status="pass", host=host)
            continue
        errors = next(iter(cut_off.values()))
        why = "; ".join(f"{address}: {error}" for address, error in errors.items())
        symptom = find_symptom("mesh", why)
        sources = [addresses[other][0] for other in cut_off if addresses.get(other)]
        opens = f"ssh {host} sudo iptables -I INPUT -p tcp -s {','.join(sources)} -j ACCEPT" if sources else OPEN_PORTS
        what = f"{', '.join(cut_off)} cannot reach its high ports ({why})"
        yield Fault("fail", what, symptom.cause, opens, symptom.entry).of("mesh", host)
