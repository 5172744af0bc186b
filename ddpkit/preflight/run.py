"""All stages of `ddpkit test` in order, over the backend of the run; what can go on after a failure does."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ddpkit.config import LaunchSettings, seconds
from ddpkit.diagnosis.catalogue import BY_ID, entry_of_seen
from ddpkit.errors import LaunchError, UsageError
from ddpkit.execution import known_good, prepare, requested_nodes
from ddpkit.execution.job import digest_of
from ddpkit.execution.requested_nodes import Queries
from ddpkit.launchers import registry
from ddpkit.launchers.node_facts import NodeFacts, NodeInventory
from ddpkit.launchers.plan import Plan
from ddpkit.launchers.shell import count
from ddpkit.node.calls import inventory as inventory_program
from ddpkit.node.calls import probe
from ddpkit.preflight import node_checks, node_survey, rank_checks, request_checks, resource_checks
from ddpkit.preflight import rank_program as ranks
from ddpkit.preflight.check import Check, CheckReport, Fault, Node, ordered
from ddpkit.preflight.node_survey import inventory_args, survey_nodes
from ddpkit.preflight.rank_program import Depth, Event, PreflightOptions, SignalScope, check_settings, take_no_signals
from ddpkit.text import format_hosts
from ddpkit.transports import compatibility, slurm_nodes
from ddpkit.transports.choose import transport_class
from ddpkit.transports.compatibility import Requirements
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.protocol import revealed
from ddpkit.transports.transport import Transport

SILENCE = 40.0  # seconds, and those of a step, until ranks that send no event are ended: to import torch is slow
PARALLEL = 8  # nodes that are checked at the same time after an attempt
TIME_LEFT = 300  # seconds: no run is worth starting in less


def run_preflight(settings: LaunchSettings, environ: Mapping[str, str], options: PreflightOptions) -> CheckReport:
    """Look at everything. Raises UsageError where the request cannot be understood."""
    if isinstance(settings.nnodes, tuple):
        raise UsageError("a test requires one number of nodes", "-N MAX")
    began = time.monotonic()
    requested_nodes.check_alone(settings, environ)
    result = CheckReport()
    kind = registry.load(settings.backend)
    transport = transport_class(kind)
    width = settings.nnodes if isinstance(settings.nnodes, int) else max(1, len(settings.hosts))
    result.checks += request_checks.check_request(
        settings.backend, settings.script, settings.env, environ, width, slurm=transport.slurm
    )
    writable = True
    if options.ranks or transport.scheduled:
        room = resource_checks.check_logs(settings.log_dir)
        result.checks.append(room)
        writable = room.status != "fail"
        options = replace(options, ranks=options.ranks and writable)  # they would have nowhere to write
    if transport.names_nodes:
        _check_named_nodes(settings, environ, options, result)
    elif transport.local:
        _check_this_machine(settings, environ, options, result)
    elif writable:
        _check_scheduled(settings, environ, options, result)
    # A second attempt at the mesh repeats some checks.
    result.checks = ordered(dict.fromkeys(node_checks.join_nccl(result.checks)), result.hosts)
    result.seconds = time.monotonic() - began
    return result


def find_faults(
    settings: LaunchSettings, environ: Mapping[str, str], hosts: Sequence[str], log_dir: Path
) -> dict[str, str]:
    """Check nodes of a failed attempt. Returns the fault of each that was checked, by host; empty: none.

    Each is checked alone, so that one does not fail because of another, and without ranks, whose import of torch would
    delay the next attempt. Nodes of a job that is yet to be submitted are not checked. `log_dir`: for files of steps.
    """
    transport = transport_class(registry.load(settings.backend))
    held = transport.slurm and bool(slurm_nodes.allocation(environ))
    if not (transport.names_nodes or held):
        return {}

    def fault(host: str) -> str:
        alone = replace(settings, hosts=(host,), hostfile="", nnodes=None, retries=0, spares=0, sync=False)
        alone = replace(alone, log_dir=str(log_dir))
        checks = run_preflight(alone, environ, PreflightOptions(ranks=False)).checks
        failed = first_fault(checks, host, socket.gethostname())
        return f"ddpkit test: {failed.cause or failed.evidence}" if failed else ""

    with ThreadPoolExecutor(PARALLEL) as pool:
        return dict(zip(hosts, pool.map(fault, hosts), strict=True))


def _is_death(check: Check) -> bool:
    """Whether a rank died, or lost another one: with fewer nodes, or parts of NCCL left out, it would die again."""
    entry = BY_ID.get(check.doc)
    return entry is not None and any(each.startswith("SIG") or each == "a dead peer" for each in entry.seen)


def first_fault(checks: Sequence[Check], host: str, launcher: str) -> Check | None:
    """Return the first failed check that puts a node aside: no check of the launcher's own machine, as of its logs.

    The ranks of the test need torch, and those of the run may not: a missing module is no fault of the node.
    """
    no_torch = entry_of_seen("no torch").id
    others = (each for each in checks if each.host and (each.host == host or each.host != launcher))
    return next((each for each in others if each.status == "fail" and each.doc != no_torch), None)


def parse_options(
    *,
    quick: bool,
    full: bool,
    ranks: bool,
    timeout: float | str | None,
    note: Callable[[str], None],
    progress: Callable[[str], None] = lambda _: None,
    signals: SignalScope = take_no_signals,
) -> PreflightOptions:
    """Check the options of a test, as flags or keywords give them. `timeout`: seconds. Raises UsageError."""
    if quick and full:
        raise UsageError("--quick and --full exclude each other", "remove one of them")
    limit = 5.0 if timeout is None else seconds(timeout, "--timeout ")
    if limit <= 0:
        raise UsageError(f"--timeout {timeout}: must be greater than 0")
    depth: Depth = "quick" if quick else "full" if full else "usual"
    return PreflightOptions(depth=depth, ranks=ranks, timeout=limit, progress=progress, note=note, signals=signals)


# ---- named nodes


def _check_named_nodes(
    settings: LaunchSettings, environ: Mapping[str, str], options: PreflightOptions, result: CheckReport
) -> None:
    """Check the nodes that the user named, then the ranks on those that are good."""
    with prepare.approach(check_settings(settings, options), options.note) as nodes:
        requirements = replace(nodes.transport.requirements, **_script_of_user(settings))
        pool = nodes.transport.pool
        pool.progress = options.progress
        with pool.report_waiting(options.note):
            survey = survey_nodes(pool, requirements, smi=options.depth != "quick", progress=options.progress)
        result.checks += survey.checks
        result.hosts = survey.hosts
        if survey.world is None:
            result.checks.append(Check(id="ranks", status="skip", evidence="requires connections between the nodes"))
            return
        if not options.ranks:
            result.checks.append(_ranks_skipped(result))
            return
        if survey.left_out:
            options.progress(f"continues without {format_hosts(survey.left_out)}")
        _run_ranks(nodes.plan(survey.world, nodes.job), nodes.transport, settings, options, result)
    if not survey.left_out:
        _add_causes(settings, environ, options, result)


def _ranks_skipped(result: CheckReport) -> Check:
    bad = {check.id for check in result.checks if check.status == "fail"} & {"torch", "disk"}
    why = f"requires {', '.join(sorted(bad))}" if bad else "skipped: --no-ranks"
    return Check(id="ranks", status="skip", evidence=why)


def _add_causes(
    settings: LaunchSettings, environ: Mapping[str, str], options: PreflightOptions, result: CheckReport
) -> None:
    """Find the cause where ranks run and cannot add. gloo has already reported pairs of nodes that cannot connect."""
    failed = [check for check in result.checks if check.status == "fail" and check.id in ("gloo", "nccl")]
    if any(_is_death(check) or "all_reduce fails with" in check.evidence for check in failed):
        return
    if failed:
        from ddpkit.preflight import bisect

        result.checks += bisect.causes(settings, environ, options, failed[0].id, result.hosts)


def _script_of_user(settings: LaunchSettings) -> dict[str, Any]:
    """The user's own script, which every node must have; none where it is only the default and not there."""
    first = settings.script[0]
    path = Path(settings.workdir, first)
    named = settings.source("script") != "default"
    if not first.endswith(".py") or (not named and not path.is_file()):
        return {"script": None, "digest": ""}
    return {"script": first, "digest": digest_of(path)}


def _run_ranks(
    plan: Plan, transport: Transport, settings: LaunchSettings, options: PreflightOptions, result: CheckReport
) -> ranks.ProgramRun:
    """Run the ranks of the test, and add their checks."""
    options.progress(f"starting {count(plan.world_size, 'rank')}")
    counter = _Counter(plan.world_size, options.progress)
    silence = SILENCE + options.timeout
    done = ranks.run(plan, transport, settings.log_dir, counter.add_event, options.note, silence, options.signals)
    result.folder = done.folder
    result.checks += rank_checks.check_ranks(done, plan, speed=options.depth == "full")
    where = rank_checks.rank_hosts(plan, done)
    versions = {where.get(event["rank"], event["host"]): event["nccl_version"] for event in done.reports}
    result.checks += node_checks.loaded_nccl(versions)
    result.checks += rank_checks.check_past(known_good.remember(rank_checks.speeds(done, where)))
    return done


class _Counter:
    """Counts the ranks that reached each stage."""

    def __init__(self, world: int, progress: Callable[[str], None]) -> None:
        self._world, self._progress = world, progress
        self._seen: dict[str, int] = {}

    def add_event(self, event: Event) -> None:
        kind = "started" if event["e"] == "rank" else "met" if event["e"] == "here" else ""
        if event["e"] == "did":
            kind = f"done with {event['stage']}"
        if kind:
            self._seen[kind] = self._seen.get(kind, 0) + 1
            self._progress(f"{self._seen[kind]} of {count(self._world, 'rank')} {kind}")


# ---- this machine


def _check_this_machine(
    settings: LaunchSettings, environ: Mapping[str, str], options: PreflightOptions, result: CheckReport
) -> None:
    """Check this machine, then the ranks on it."""
    ready = prepare.prepare_offline(check_settings(settings, options), environ)
    host = ready.plan.steps[0].host
    result.hosts = [host]
    options.progress("checking this machine")
    job = ready.job
    env = revealed(dict(job.env))
    facts = cast("NodeFacts", probe.look(job.workdir, None, job.python, dict(env), None, True))
    probe.close()
    more = inventory_program.gather(names=[], **inventory_args(facts, smi=options.depth != "quick"))
    inventory = cast("NodeInventory", more)
    slots = ready.plan.world_size
    node = Node(label=host, target="", slots=slots, facts=facts, inventory=inventory, env=dict(job.env))
    spec = HostSpec(name=host)
    requirements = Requirements(
        job=job,
        nproc_per_node=slots,
        script=None,
        digest="",
        torch=True,
        starter="torchrun",
        master_addr="",
        master_port=0,
    )
    problems = compatibility.check_nodes(requirements, [spec], [facts])
    for problem in problems:
        fix = problem.fix.removeprefix(f"ssh {spec.target} ")
        result.checks.append(node_survey.from_problem(replace(problem, fix=fix)))
    bad = {problem.check for problem in problems}
    torch = f"torch {compatibility.torch_version(facts)}"
    for check, text in (("workdir", facts["workdir"]), ("python", facts["python"]), ("torch", torch)):
        if check not in bad:
            result.checks.append(Check(id=check, status="pass", host=host, evidence=text))
    result.checks += node_checks.check_nodes([node])
    if "torch" in bad or not options.ranks:
        result.checks.append(_ranks_skipped(result))
        return
    _run_ranks(ready.plan, ready.transport, settings, options, result)
    _add_causes(settings, environ, options, result)


# ---- SLURM


def _check_scheduled(
    settings: LaunchSettings, environ: Mapping[str, str], options: PreflightOptions, result: CheckReport
) -> None:
    """Check SLURM's nodes by one step, or a short job: its ranks send facts of their nodes as well, or nothing else."""
    try:
        ready = prepare.prepare_offline(check_settings(settings, options), environ)
        result.checks += _check_time_left(ready.plan, environ)
        batch = replace(ready.plan.batch, disposable=True) if ready.plan.batch else None
        done = _run_ranks(replace(ready.plan, batch=batch), ready.transport, settings, options, result)
    except LaunchError as error:  # a refusal of the scheduler is a result of the test
        result.checks.append(rank_checks.check_refusal(error.message, error.hint or "scontrol ping"))
        result.checks.append(Check(id="ranks", status="skip", evidence="requires scheduler"))
        return
    where = rank_checks.rank_hosts(ready.plan, done)
    result.hosts = list(dict.fromkeys(where[rank] for rank in sorted(where)))
    started = {event["host"] for event in done.starts}
    result.checks += [
        Check(id="transport", status="pass", host=host, evidence="a task ran") if host in started else
        Check(id="transport", status="unknown", host=host, evidence="no output from any rank")
        for host in result.hosts
    ]  # fmt: skip
    node_results = rank_checks.check_slurm_nodes(done, ready.plan)
    versions_differ = entry_of_seen("other versions").id
    if any(check.id == "torch" and check.status == "fail" for check in node_results):  # its ranks say the same
        result.checks = [check for check in result.checks if not (check.rank and check.doc == versions_differ)]
    result.checks += node_results
    if not any(check.id == "scheduler" for check in result.checks):
        evidence = "accepted the job" if ready.plan.batch else "accepted the step"
        result.checks.append(Check(id="scheduler", status="pass", evidence=evidence))
    if options.ranks:
        _add_causes(settings, environ, options, result)
        return
    kept = [check for check in result.checks if check.status != "skip" or check.id not in rank_checks.STAGES]
    result.checks = [*kept, _ranks_skipped(result)]


def _check_time_left(plan: Plan, environ: Mapping[str, str]) -> Iterator[Check]:
    """Warn of an allocation that ends soon: it ends the run as well."""
    job = environ.get("SLURM_JOB_ID")
    if plan.batch or not job:
        return
    left = rank_checks.seconds_left(slurm_nodes.time_left(job))
    if left is not None and left < TIME_LEFT:
        what = f"allocation {job} ends in {left} s"
        cause = "its time limit ends every step"
        fix = "salloc --time=HH:MM:SS"
        yield Fault("warn", what, cause, fix, "slurm-time-limit").of("scheduler")


def dry_run(settings: LaunchSettings, environ: Mapping[str, str], options: PreflightOptions, queries: Queries) -> Plan:
    """The ranks that would be started."""
    with prepare.prepare(check_settings(settings, options), environ, options.note, queries=queries) as ready:
        return ready.plan
