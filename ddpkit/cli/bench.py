"""`ddpkit bench`: measures the collectives of ranks that are launched as those of a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.cli.app import JsonFlag, app, print_json, show_plan
from ddpkit.cli.options import (
    DryRun,
    RanksAndHosts,
    Survey,
    launch_command,
    launch_settings,
    queries,
)
from ddpkit.errors import PreflightError, UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.execution.prepare import Ready
    from ddpkit.preflight.bench import BenchResults

BAD = PreflightError.exit_code


def _option(words: str, metavar: str, text: str) -> Any:
    return typer.Option(*words.split(), metavar=metavar, help=text)


_MinBytes = Annotated[str | None, _option("--min-bytes", "SIZE", "Smallest size. [default: 8]")]
_MaxBytes = Annotated[str | None, _option("-e --max-bytes", "SIZE", "Largest size. [default: 128M]")]
_Factor = Annotated[str | None, _option("-f --factor", "N", "Factor between two sizes. [default: 4]")]
_Ops = Annotated[str | None, _option("--ops", "OP,...", "all_reduce, all_gather, reduce_scatter. [default: all]")]
_Comm = Annotated[str | None, _option("--comm", "auto|nccl|gloo", "auto: nccl with GPUs, else gloo.")]
_Timeout = Annotated[str | None, _option("--timeout", "S", "End a collective after this long. [default: 60]")]
_MinBusbw = Annotated[str | None, _option("--min-busbw", "GB/s", "Exit with 122 if the best busbw is below GB/s.")]


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
    settings = rank_program.settings_for(settings, command, {})
    with prepare.prepare(settings, os.environ, note, queries=allowed) as ready:
        if ready.plan.world_size < 2:
            raise UsageError("bench requires at least 2 ranks", "-n 2: two ranks on each node")
        if dry_run:
            show_plan(ready.plan, as_json, rank_program.name_programs)
            return
        if ready.left:
            note(ready.left)
        raise typer.Exit(_run(ready, results, settings.log_dir, as_json=as_json))


def note(text: str) -> None:
    """Print a line for a person, on standard error."""
    print(text if text.startswith(("ddpkit: ", "hint: ", "    ")) else f"ddpkit: {text}", file=sys.stderr)


def _run(ready: Ready, results: BenchResults, log_dir: str, *, as_json: bool) -> int:
    from ddpkit.cli.signals import forward_signals
    from ddpkit.diagnosis import verdict
    from ddpkit.preflight import program_events, rank_program
    from ddpkit.run.logs import read_end

    def add(event: program_events.Event) -> None:
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
