"""`ddpkit test`: checks that find what would hang or fail in a run, before the run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ddpkit.cli import look
from ddpkit.cli.app import JsonFlag, app, hint_for, print_json, show_plan
from ddpkit.cli.line import Line
from ddpkit.cli.look import table
from ddpkit.cli.options import DryRun, RanksAndHosts, Survey, launch_command, launch_settings, queries
from ddpkit.console.style import Panel
from ddpkit.errors import PreflightError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import LaunchSettings
    from ddpkit.preflight.check import Check, CheckReport
    from ddpkit.preflight.rank_program import PreflightOptions

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
    quick: Annotated[bool, typer.Option("--quick", help="Use little data, and skip nvidia-smi.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Use more data, and measure the speed of each rank.")] = False,
    no_ranks: Annotated[bool, typer.Option("--no-ranks", help="Run only checks without torch and ranks.")] = False,
    timeout: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Time limit of each step of the ranks. [default: 5]")
    ] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Also show passed checks, host by host.")] = False,
    dry_run: DryRun = False,
    survey: Survey = False,
    as_json: JsonFlag = False,
) -> None:
    allowed = queries(dry_run=dry_run, survey=survey)
    settings = launch_settings(context, words)
    from ddpkit.cli.signals import forward_signals
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
    for number in _ENDING:  # all of the table, or nothing
        signal.signal(number, signal.SIG_IGN)
    if as_json:
        print_json("test", model.report(result.checks, result.seconds))
    else:
        show_report(result, line, verbose=verbose)
    sys.stdout.flush()
    return 0 if result.ok else PreflightError.exit_code


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_by_signals() -> None:
    """While no rank runs, these end the command like an error, and close the connections. Under nohup HUP does not."""

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


def show_report(result: CheckReport, line: Line | None = None, *, verbose: bool = False) -> None:
    """One row for a check that passed everywhere; one for each finding that did not. `line`: hints can change it."""
    from ddpkit.launchers.shell import count
    from ddpkit.preflight import check as model

    rows = []
    for id, title in model.TITLES.items():  # noqa: A001
        mine = [check for check in result.checks if check.id == id]
        odd = [check for check in mine if check.status in ("warn", "fail")]
        calm = [check for check in mine if check.status not in ("warn", "fail")]
        skipped = all(check.status == "skip" for check in calm)
        if calm and (verbose or not (odd or skipped)):
            rows += _calm(title, calm, verbose=verbose, hosts=len(result.hosts))
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


def _calm(title: str, checks: Sequence[Check], *, verbose: bool, hosts: int) -> list[tuple[str, str, str, str]]:
    """Passed and skipped checks in one row, or host by host on request."""
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
