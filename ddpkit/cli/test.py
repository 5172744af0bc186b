"""`ddpkit test`, `bench` and `nodes`: checks and measurements before a launch, and the nodes that launches avoid."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddpkit.cli import completion, look
from ddpkit.cli.app import JsonFlag, LeanCommand, app, hint_for, note, option, print_json, show_plan
from ddpkit.cli.line import Line
from ddpkit.cli.look import table
from ddpkit.cli.options import (
    EXITING,
    DryRun,
    RanksAndHosts,
    Survey,
    end_by_signals,
    forward_signals,
    launch_command,
    launch_settings,
    queries,
)
from ddpkit.console.style import Panel
from ddpkit.errors import DdpkitError, PreflightError, UsageError
from ddpkit.text import format_age

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import LaunchSettings
    from ddpkit.execution.prepare import Ready
    from ddpkit.preflight.bench import BenchResults
    from ddpkit.preflight.check import Check, CheckReport
    from ddpkit.preflight.rank_program import PreflightOptions
    from ddpkit.run.bad_nodes import BadNode


_HELP = "Check before a launch: nodes, network, GPUs, ranks and all_reduce."
_MORE = (
    "Use the options of the launch.\n"
    "ddpkit test 4                        # four ranks on this machine\n"
    "ddpkit test -b ssh node1 node2 -n 8  # two nodes\n"
    "ddpkit test -b slurm -N 2 -n 4       # a short job"
)


@app.command(name="test-distributed", cls=launch_command("log_dir"), help=f"The same as `test`. {_HELP}", epilog=_MORE)
@app.command(name="test", cls=launch_command("log_dir"), help=_HELP, epilog=_MORE)
def preflight(
    context: typer.Context,
    words: RanksAndHosts = None,
    quick: Annotated[bool, option("--quick", "Use little data, and skip nvidia-smi.")] = False,
    full: Annotated[bool, option("--full", "Use more data, and measure the speed of each rank.")] = False,
    no_ranks: Annotated[bool, option("--no-ranks", "Run only checks without torch and ranks.")] = False,
    timeout: Annotated[
        str | None, option("--timeout", "Time limit of each step of the ranks. [default: 5]", "SECONDS")
    ] = None,
    verbose: Annotated[bool, option("-v --verbose", "Also show passed checks, host by host.")] = False,
    dry_run: DryRun = False,
    survey: Survey = False,
    as_json: JsonFlag = False,
) -> None:
    allowed = queries(dry_run=dry_run, survey=survey)
    settings = launch_settings(context, words)
    from ddpkit.preflight import run
    from ddpkit.preflight.rank_program import name_programs

    progress = look.StatusLine(shown=not as_json)
    options = run.parse_options(
        quick=quick,
        full=full,
        ranks=not no_ranks,
        timeout=timeout,
        progress=progress.say,
        note=progress.note,
        signals=forward_signals,
    )
    end_by_signals()
    if dry_run:
        show_plan(run.dry_run(settings, os.environ, options, allowed), as_json, name_programs)
        return
    raise typer.Exit(_test(settings, options, context.obj, progress, verbose=verbose, as_json=as_json))


def _test(
    settings: LaunchSettings,
    options: PreflightOptions,
    line: Line,
    progress: look.StatusLine,
    *,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run the checks and print them. Returns the exit code."""
    from ddpkit.preflight import check as model
    from ddpkit.preflight import run

    result = run.run_preflight(settings, os.environ, options)
    progress.clear()
    for number in EXITING:  # all of the table, or nothing
        signal.signal(number, signal.SIG_IGN)
    if as_json:
        print_json("test", model.report(result.checks, result.seconds))
    else:
        show_report(result, line, verbose=verbose)
    sys.stdout.flush()
    return 0 if result.ok else PreflightError.exit_code


def show_report(result: CheckReport, line: Line | None = None, *, verbose: bool = False) -> None:
    """One row for a check that passed everywhere; one for each finding that did not. `line`: hints can change it."""
    from ddpkit.launchers.shell import count
    from ddpkit.preflight import check as model

    rows = []
    for id, title in model.TITLES.items():  # noqa: A001
        checks = [check for check in result.checks if check.id == id]
        odd = [check for check in checks if check.status in ("warn", "fail")]
        calm = [check for check in checks if check.status not in ("warn", "fail")]
        all_skipped = all(check.status == "skip" for check in calm)
        if calm and (verbose or not (odd or all_skipped)):
            rows += _rows_of_calm(title, calm, verbose=verbose, hosts=len(result.hosts))
        rows += [(title, check.status.upper(), _where(check), check.evidence) for check in odd]
    table(("check", "status", "where", "evidence"), rows)
    for check in sorted(result.checks, key=lambda check: check.status != "fail"):  # stable: the order of the stages
        if check.status in ("fail", "warn"):
            _show_finding(check, line)
    counts = {state: sum(check.status == state for check in result.checks) for state in ("fail", "warn")}
    ends = {"fail": "failed", "warn": "with a warning"}
    words = ", ".join(f"{count(number, 'check')} {ends[state]}" for state, number in counts.items() if number)
    words = words or "all checks passed"
    logs = f"; logs in {result.folder}/" if counts["fail"] and result.folder else ""
    state = "FAIL" if counts["fail"] else "WARN" if counts["warn"] else "pass"
    look.say(f"ddpkit: {words}, after {result.seconds:.1f} s{logs}", state)


def _rows_of_calm(title: str, checks: Sequence[Check], *, verbose: bool, hosts: int) -> list[tuple[str, str, str, str]]:
    """Return passed and skipped checks in one row, or host by host on request."""
    if verbose:
        return [(title, check.status, _where(check), check.evidence) for check in checks]
    from ddpkit.preflight.check import worst

    texts = list(dict.fromkeys(check.evidence for check in checks if check.evidence))
    where = "all nodes" if len({check.host for check in checks if check.host}) == hosts > 1 else ""
    if not where and len(checks) == 1:
        where = _where(checks[0])
    return [(title, worst(checks), where, texts[0] if len(texts) == 1 else "")]


def _where(check: Check) -> str:
    rank = f"rank {check.rank}" if check.rank is not None else ""
    return f"{check.host} {rank}".strip()


def _show_finding(check: Check, line: Line | None) -> None:
    """Show one finding with its cause and what to do, as lines that can be copied."""
    where = _where(check)
    headline = f"{check.title}{f' ({where})' if where else ''}: {check.evidence}"
    facts = [(label, text) for label, text in (("cause", check.cause), ("hint", hint_for(check.fix, line))) if text]
    look.show(Panel(check.status.upper(), headline, facts))


BAD = PreflightError.exit_code


_MinBytes = Annotated[str | None, option("--min-bytes", "Smallest size. [default: 8]", "SIZE")]
_MaxBytes = Annotated[str | None, option("-e --max-bytes", "Largest size. [default: 128M]", "SIZE")]
_Factor = Annotated[str | None, option("-f --factor", "Factor between two sizes. [default: 4]", "N")]
_Ops = Annotated[str | None, option("--ops", "all_reduce, all_gather, reduce_scatter. [default: all]", "OP,...")]
_Comm = Annotated[str | None, option("--comm", "auto: nccl with GPUs, else gloo.", "auto|nccl|gloo")]
_Timeout = Annotated[str | None, option("--timeout", "End a collective after this long. [default: 60]", "S")]
_MinBusbw = Annotated[str | None, option("--min-busbw", "Exit with 122 if the best busbw is below GB/s.", "GB/s")]


@app.command(
    cls=launch_command("log_dir", "preflight"),
    epilog="Sizes are those of nccl-tests, which has more collectives and types.\n"
    "ddpkit bench 8\n"
    "ddpkit bench -b ssh node1 node2 -n 8 --min-bytes 1M -e 1G --min-busbw 40",
)
def bench(
    context: typer.Context,
    words: RanksAndHosts = None,
    min_bytes: _MinBytes = None,
    max_bytes: _MaxBytes = None,
    factor: _Factor = None,
    ops: _Ops = None,
    comm: _Comm = None,
    timeout: _Timeout = None,
    min_busbw: _MinBusbw = None,
    dry_run: DryRun = False,
    survey: Survey = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure collectives between the ranks, over a range of sizes, and check their results."""
    from ddpkit.execution import prepare
    from ddpkit.preflight import rank_program
    from ddpkit.preflight.bench import BenchOptions, BenchResults

    options = BenchOptions(
        min_bytes=min_bytes, max_bytes=max_bytes, factor=factor, ops=ops, comm=comm, timeout=timeout,
        min_busbw=min_busbw,
    )  # fmt: skip
    arguments, results = options.arguments(), BenchResults(least_busbw=options.least_busbw())
    allowed = queries(dry_run=dry_run, survey=survey)
    settings = launch_settings(context, words)
    if isinstance(settings.nnodes, tuple):
        raise UsageError("bench requires one number of nodes", "-N MAX")
    command = rank_program.command("collectives", "bench", args=arguments)
    settings = rank_program.settings_for(settings, command)
    with prepare.prepare(settings, os.environ, note, queries=allowed) as ready:
        if ready.plan.world_size < 2:
            raise UsageError("bench requires at least 2 ranks", "-n 2: two ranks on each node")
        if dry_run:
            show_plan(ready.plan, as_json, rank_program.name_programs)
            return
        if ready.not_forwarded:
            note(ready.not_forwarded)
        raise typer.Exit(_run(ready, results, settings.log_dir, as_json=as_json))


def _run(ready: Ready, results: BenchResults, log_dir: str, *, as_json: bool) -> int:
    """Run a bench, and print its results as they come, or one document at the end. Returns the exit code."""
    from ddpkit.diagnosis import verdict
    from ddpkit.preflight import rank_program
    from ddpkit.run.logs import read_end

    def add(event: rank_program.Event) -> None:
        for line in results.add_event(event):
            if not as_json:
                print(line, flush=True)

    done = rank_program.run(ready.plan, ready.transport, log_dir, add, note, signals=forward_signals)
    code, failure, died = done.outcome.exit_code, done.outcome.failure, []
    if failure is not None:
        failure = verdict.diagnose(failure, Path(done.folder) / "all.log", read_end=read_end)
        died = verdict.describe_failure(failure, failure.diagnosis)
        code = BAD if code == 1 else code  # a rank could not start, or a collective failed
    elif code == 0:
        results.finish()
        code = BAD if results.failures else 0
    if as_json:
        run = {"run_id": ready.plan.run_id, "backend": ready.plan.backend, "folder": done.folder, "exit_code": code}
        print_json("bench", {"ok": code == 0, **results.as_dict(), **run, "died": died})
        return code
    for line in results.summary_lines() if results.rows else ():
        print(line)
    sys.stdout.flush()
    for line in died:
        print(line, file=sys.stderr)
    for problem in results.failures:
        who = "" if problem["rank"] is None else f"rank {problem['rank']} on {problem['host']}: "
        note(f"{who}{problem['problem']}")
        note(f"hint: {problem['fix']}")
    if code:
        note(f"output of the ranks: {done.folder}/")
    return code


_HEAD = ("NODE", "SINCE", "FORGOTTEN IN", "RUN", "REASON", "EVIDENCE")


@app.command(
    cls=LeanCommand,
    epilog="""A launch remembers a node whose own fault ended a run. A later launch warns, and a SLURM job excludes it.
ddpkit nodes
ddpkit nodes check          # test each bad node, and forgive those that pass
ddpkit nodes forgive node2""",
)
def nodes(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[check|forgive] [NODE]...",
            help="The action, and its nodes. [default: list them]",
            autocompletion=completion.words_of_nodes,
        ),
    ] = None,
    everything: Annotated[bool, option("-a --all", "Forgive all nodes.")] = False,
    backend: Annotated[str | None, option("-b --backend", "Check through this backend. [default: ssh]", "NAME")] = None,
    bad_nodes: Annotated[str | None, option("--bad-nodes", "Use FILE. [default: one for each user]", "FILE")] = None,
    profile: Annotated[str | None, option("--profile", "Use a profile of ddpkit.toml.", "NAME")] = None,
    dry_run: Annotated[bool, option("--dry-run", "Print what would be done; change nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List bad nodes, check them again, or forgive them."""
    from ddpkit import config
    from ddpkit.run import bad_nodes as memory

    action, *hosts = words or ["list"]
    if action not in ("list", "check", "forgive"):
        raise UsageError(f"action {action!r} not found", "ddpkit nodes check, or ddpkit nodes forgive NODE")
    if action == "forgive" and bool(hosts) == everything:
        what = "--all and NODE exclude each other" if hosts else "no node given"
        raise UsageError(what, "ddpkit nodes forgive NODE, or ddpkit nodes forgive --all --dry-run")
    if everything and action != "forgive":
        raise UsageError(f"{action} does not accept --all", "ddpkit nodes forgive --all")
    given: config.Keywords = {"backend": backend, "bad_nodes": bad_nodes}
    settings = config.collect_settings(config.current_folder(), os.environ, profile, given)
    listed = memory.known(settings.bad_nodes, time.time())
    if listed.problem and action != "list":
        raise DdpkitError(listed.problem, "ddpkit nodes --bad-nodes FILE")
    if listed.problem:
        note(f"warning: {listed.problem}")
    chosen = [node for node in listed.nodes if not hosts or memory.matching(hosts, [node])]
    unknown = [host for host in hosts if not memory.matching([host], listed.nodes)]
    if unknown:
        raise UsageError(f"{', '.join(unknown)}: not in the list of bad nodes", "ddpkit nodes")
    failed: list[str] = []
    if action == "check" and not dry_run:
        failed = _check(chosen, config.choose_python(settings, os.environ), quiet=as_json)
    removed = [] if action == "list" else [node for node in chosen if node.host not in failed]
    if removed and not dry_run:
        removed = memory.forgive(settings.bad_nodes, [node.host for node in removed], time.time())
    left = [node for node in listed.nodes if dry_run or node not in removed]
    if as_json:
        document = {"file": str(memory.file_of(settings.bad_nodes)), "dry_run": dry_run}
        print_json("nodes", {**document, "nodes": list(map(asdict, left)), "removed": list(map(asdict, removed))})
    else:
        _show(action, left, removed, dry_run=dry_run)
    raise typer.Exit(PreflightError.exit_code if failed else 0)


def _show(action: str, left: Sequence[BadNode], removed: Iterable[BadNode], *, dry_run: bool) -> None:
    """Print the list of bad nodes, or what an action has removed from it, or would remove."""
    now = time.time()
    if action == "list" and left:
        rows = [
            (
                node.host,
                time.strftime("%Y-%m-%d %H:%M", time.localtime(node.since)),
                format_age(node.until - now),
                node.run_id,
                node.reason,
                node.evidence,
            )
            for node in left
        ]
        look.table(_HEAD, rows)
    elif not left and not removed:
        print("no bad nodes", file=sys.stderr)
    verb = "check" if action == "check" else "forgive"
    for node in removed:
        print(f"would {verb} {node.host}" if dry_run else f"forgave {node.host}")


def _check(bad: Iterable[BadNode], settings: LaunchSettings, *, quiet: bool) -> list[str]:
    """Run the preflight on each node alone, so that one cannot fail for another. Returns the hosts that failed."""
    from ddpkit.preflight import run

    end_by_signals()
    failed = []
    for node in bad:
        line = look.StatusLine()
        options = run.parse_options(
            quick=False,
            full=False,
            ranks=True,
            timeout=None,
            progress=line.say,
            note=line.note,
            signals=forward_signals,
        )
        line.note(f"checking {node.host}")
        report = run.run_preflight(_settings_of(settings, node.host), os.environ, options)
        line.clear()
        if not quiet:
            show_report(report)
        if not (report.ok and report.hosts):
            failed.append(node.host)
    return failed


def _settings_of(settings: LaunchSettings, host: str) -> LaunchSettings:
    """Return the settings of a test of one host."""
    from ddpkit.execution.prepare import transport_of

    transport = transport_of(settings)
    if transport.slurm:
        options = {**settings.options, "nodelist": host, "exclude": ""}
        return replace(settings, hosts=(), hostfile="", nnodes=1, options=options)
    if not transport.names_nodes:
        settings = replace(settings, backend="ssh", options={})
    return replace(settings, hosts=(host,), hostfile="", nnodes=None)
