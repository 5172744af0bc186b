"""`ddpkit bench`: measures the collectives of ranks that are launched as those of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
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
    from ddpkit.config import LaunchSettings
    from ddpkit.execution.prepare import Ready
    from ddpkit.execution.requested_nodes import Queries
    from ddpkit.preflight.bench import BenchResults

BAD = PreflightError.exit_code


def _option(words: str, metavar: str, text: str) -> Any:
    return typer.Option(*words.split(), metavar=metavar, help=text)


_MinBytes = Annotated[str | None, _option("--min-bytes", "SIZE", "Smallest size. [default: 8]")]
_MaxBytes = Annotated[str | None, _option("-e --max-bytes", "SIZE", "Largest size. [default: 128M]")]
_Factor = Annotated[str | None, _option("-f --factor", "N", "Factor between two sizes. [default: 4]")]
_Ops = Annotated[
    str | None,
    _option("--ops", "OP,...", "all_reduce, all_gather, reduce_scatter, broadcast, sendrecv. [default: all]"),
]
_Dtypes = Annotated[str | None, _option("-d --dtypes", "TYPE,...", "float32, bfloat16, ... [default: float32]")]
_InPlace = Annotated[
    bool, typer.Option("--in-place", help="Run all_gather and reduce_scatter in one array, as the others.")
]
_Scope = Annotated[
    str | None, _option("--scope", "SCOPE,...", "world, intra (each node), inter (one rank a node), pairs (of nodes).")
]
_Comm = Annotated[
    str | None, _option("--comm", "auto|nccl|gloo", "auto, nccl or gloo; auto: nccl if all ranks have a GPU.")
]
_Iters = Annotated[str | None, _option("--iters", "N", "Timed rounds. [default: as many as fit into --seconds]")]
_Warmup = Annotated[str | None, _option("-w --warmup", "N", "Warm-up rounds. [default: 5, or fewer]")]
_Seconds = Annotated[str | None, _option("--seconds", "S", "Time for the rounds of one size. [default: 0.2]")]
_Timeout = Annotated[
    str | None, _option("--timeout", "S", "Report a rank without progress for this long. [default: 30]")
]
_MinBusbw = Annotated[str | None, _option("--min-busbw", "GB/s", "Exit with 122 if the best busbw is below GB/s.")]
_Plot = Annotated[str | None, _option("--plot", "FILE", "Write a plot as PNG (pip install 'ddpkit[plot]').")]


@app.command(
    cls=launch_command("log_dir", "preflight"),
    epilog="Sizes and flags are those of nccl-tests, except where `ddpkit launch` has the same letter.\n"
    "ddpkit bench 8\n"
    "ddpkit bench -b ssh node1 node2 -n 8 --min-bytes 1M -e 1G --min-busbw 40 --plot bench.png",
)
def bench(
    context: typer.Context,
    words: RanksAndHosts = None,
    min_bytes: _MinBytes = None,
    max_bytes: _MaxBytes = None,
    factor: _Factor = None,
    ops: _Ops = None,
    dtypes: _Dtypes = None,
    in_place: _InPlace = False,
    scope: _Scope = None,
    comm: _Comm = None,
    iters: _Iters = None,
    warmup: _Warmup = None,
    seconds: _Seconds = None,
    timeout: _Timeout = None,
    min_busbw: _MinBusbw = None,
    plot: _Plot = None,
    dry_run: DryRun = False,
    survey: Survey = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure collectives between the ranks, over a range of sizes, and check their results."""
    from ddpkit.preflight.bench import BenchOptions, bench_arguments, check_plot

    options = BenchOptions(
        min_bytes=min_bytes, max_bytes=max_bytes, factor=factor, ops=ops, dtypes=dtypes, in_place=in_place, scope=scope,
        comm=comm, iters=iters, warmup=warmup, seconds=seconds, timeout=timeout, min_busbw=min_busbw,
    )  # fmt: skip
    arguments = bench_arguments(options)
    if plot is not None:
        check_plot(plot)
    allowed = queries(dry_run=dry_run, survey=survey)
    settings = launch_settings(context, words)
    raise typer.Exit(_bench(settings, arguments, plot, allowed, as_json=as_json))


def _bench(
    settings: LaunchSettings, arguments: Sequence[str], plot: str | None, allowed: Queries, *, as_json: bool
) -> int:
    from ddpkit.execution import prepare
    from ddpkit.preflight import rank_program

    if isinstance(settings.nnodes, tuple):
        raise UsageError("bench requires one number of nodes", "-N MAX")
    command = rank_program.command("collectives", "bench", args=arguments)
    settings = rank_program.settings_for(settings, command, {"DDPKIT_EVENTS": "1"})
    with prepare.prepare(settings, os.environ, note, queries=allowed) as ready:
        if ready.plan.world_size < 2:
            raise UsageError("bench requires at least 2 ranks", "-n 2: two ranks on each node")
        if allowed.dry:
            show_plan(ready.plan, as_json, rank_program.name_programs)
            return 0
        if ready.left:
            note(ready.left)
        return _run(ready, settings.log_dir, plot, as_json)


def note(text: str) -> None:
    """Print a line for a person, on standard error."""
    print(text if text.startswith(("ddpkit: ", "hint: ", "    ")) else f"ddpkit: {text}", file=sys.stderr)


def _run(ready: Ready, log_dir: str, plot: str | None, as_json: bool) -> int:
    from ddpkit.cli.signals import forward_signals
    from ddpkit.diagnosis import verdict
    from ddpkit.preflight import bench as bandwidth
    from ddpkit.preflight import program_events, rank_program

    results = bandwidth.BenchResults()

    def add(event: program_events.Event) -> None:
        lines = results.add_event(event)
        if not as_json:
            for line in lines:
                print(line, flush=True)

    def note_until_failure(text: str) -> None:
        if not results.failures:  # later notes only report the end of the other ranks
            note(text)

    done = rank_program.run(ready.plan, ready.transport, log_dir, add, note_until_failure, signals=forward_signals)
    outcome, failure = done.outcome, done.outcome.failure
    code = outcome.exit_code
    if outcome.stopped_by is None and (results.failures or (code == 0 and not results.ended)):
        code = BAD
    # A rank that reported a failure exits with BAD. A signal, or another code, is a failure that no rank reported.
    reported = results.failures and failure is not None and failure.signal is None and failure.code in (1, BAD)
    died = verdict.describe_failure(failure) if failure is not None and not reported else []
    if code == BAD and not (results.failures or died):
        died = ["ddpkit: rank 0 ended early, so some results are missing"]
    if as_json:
        run = {"run_id": ready.plan.run_id, "backend": ready.plan.backend, "folder": done.folder, "exit_code": code}
        print_json("bench", {**results.as_dict(), "ok": code == 0, **run, "died": died})
    else:
        _print_results(results, died, code, done.folder)
    if plot is not None and any(not row.note for row in results.measurements):
        bandwidth.plot(results, plot)
        note(f"plot: {plot}")
    return code


def _print_results(results: BenchResults, more: list[str], code: int, folder: str) -> None:
    from ddpkit.preflight import bench as bandwidth

    for line in bandwidth.summary_lines(results.measurements):
        print(line)
    sys.stdout.flush()
    for line in more:
        print(line, file=sys.stderr)
    for problem in results.failures:
        who = "" if problem.rank is None else f"rank {problem.rank}{' on ' if problem.host else ''}{problem.host}: "
        note(f"{who}{problem.problem}")
        note(f"hint: {problem.fix}")
    if code:
        note(f"output of the ranks: {folder}/")
