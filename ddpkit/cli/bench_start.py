"""`ddpkit bench start`: compares ways to start the ranks, on the user's own nodes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddpkit.cli.app import JsonFlag, app, print_json
from ddpkit.cli.bench import note
from ddpkit.cli.options import (
    DryRun,
    RanksAndHosts,
    Survey,
    launch_command,
    launch_settings,
    queries,
)
from ddpkit.errors import UsageError
from ddpkit.files import remove_empty

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.preflight.bench_start import StartBench, StartOptions

HELP = "ddpkit bench start --help"


@app.command(
    "bench start",
    cls=launch_command("log_dir", "preflight"),
    epilog="""Ways: ranks, torchrun, preload, stage (the project), env (and its Python); preload+env has both.
ddpkit bench start 4
ddpkit bench start -b ssh node1 node2 -n 4 --ways ranks,preload,env,preload+env --import mypkg.train
ddpkit bench start -b slurm -N 2 -n 4 --rounds 5""",
)
def bench_start(
    context: typer.Context,
    words: RanksAndHosts = None,
    ways: Annotated[
        str | None, typer.Option("--ways", metavar="WAY,...", help="[default: ranks,torchrun,preload,stage]")
    ] = None,
    rounds: Annotated[
        str | None, typer.Option("--rounds", metavar="N", help="Timed launches of each way. [default: 3]")
    ] = None,
    modules: Annotated[
        str | None, typer.Option("--import", metavar="MODULE,...", help="Import these modules as well in each rank.")
    ] = None,
    comm: Annotated[
        str | None, typer.Option("--comm", metavar="auto|nccl|gloo", help="auto: nccl with GPUs, else gloo.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="S", help="End a launch that is silent so long. [default: 300]")
    ] = None,
    dry_run: DryRun = False,
    survey: Survey = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare ways to start the ranks: the time from the launch to a first all_reduce and the end, as ratios."""
    from ddpkit.cli.signals import forward_signals
    from ddpkit.cli.test import end_by_signals
    from ddpkit.config import whole
    from ddpkit.execution.requested_nodes import check_alone
    from ddpkit.preflight.bench_start import StartBench, StartOptions
    from ddpkit.preflight.start_ways import DEFAULT, parse_ways

    options = StartOptions(
        ways=parse_ways(ways if ways is not None else DEFAULT),
        rounds=whole(rounds or 3, "--rounds ", 1000, hint=HELP),
        timeout=whole(timeout or 300, "--timeout ", 100_000, hint=HELP),
        comm=_comm(comm or "auto"),
        modules=_modules(modules or ""),
        note=note,
        signals=forward_signals,
    )
    allowed = queries(dry_run=dry_run, survey=survey)
    settings = launch_settings(context, words)
    check_alone(settings, os.environ)
    end_by_signals()
    logs, existed = Path(settings.log_dir), Path(settings.log_dir).exists()
    bench = StartBench(settings=settings, environ=os.environ, options=options)
    try:
        if dry_run:
            bench.plan(allowed)
        else:
            bench.run()
    finally:
        if not existed:
            remove_empty(str(logs))  # not one with logs of a failed launch
    _show(bench, options, dry_run=dry_run, as_json=as_json)
    raise typer.Exit(bench.exit_code)


def _show(bench: StartBench, options: StartOptions, *, dry_run: bool, as_json: bool) -> None:
    from ddpkit.launchers.shell import count
    from ddpkit.preflight import start_ways

    if as_json:
        facts = {"dry_run": dry_run, **bench.facts}
        print_json("bench_start", start_ways.document(bench.times, facts, bench.exit_code))
        return
    if dry_run:
        for each in bench.times:
            runs = f"{each.way.flags}, {options.rounds + 1} launches"
            print(f"# way {each.way.name}: {runs if each.plan else f'not possible: {each.reason}'}")
            print(each.plan)
        return
    facts = bench.facts
    where = f" on {', '.join(facts['hosts'])}" if facts["hosts"] else ""
    if facts["world_size"]:
        print(f"start of {count(facts['world_size'], 'rank')}{where}, {facts['comm']}, torch {facts['torch']}")
        print(f"time: {facts['measured']}; {count(options.rounds, 'round')}, interleaved")
    for line in start_ways.table(bench.times):
        print(line)
    sys.stdout.flush()
    for each in bench.times:
        if each.fix:
            note(f"hint: {each.way.name}: {each.fix}")
        if each.folder:
            note(f"output of the ranks: {each.folder}/")


def _comm(text: str) -> str:
    if text not in ("auto", "nccl", "gloo"):
        raise UsageError(f"--comm: {text!r} is not one of auto, nccl, gloo", HELP)
    return text


def _modules(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"--import: {name!r} is not the name of a module", "--import mypkg.train")
    return names
