"""`ddpkit hold`: nodes with a warm Python, which the launches of a project use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ddpkit.cli import launch
from ddpkit.cli.app import JsonFlag, app, note, option, show_plan
from ddpkit.cli.options import LEAVE, OUTPUT, DryRun, HostWords, Survey, launch_command, launch_settings, queries


@app.command(
    cls=launch_command("name", "grace", "log_dir", "preflight"),
    epilog="""Ranks of this project's launches are forks of it: torch is imported already. It holds no GPU memory.
It ends with Ctrl-C, --end, `ddpkit stop`, or a node at a time when nothing used it for --idle.
ddpkit hold
ddpkit hold -b ssh node1 node2 -n 8 --detach
ddpkit hold --end""",
)
def hold(
    context: typer.Context,
    hosts: HostWords = None,
    dry_run: DryRun = False,
    survey: Survey = False,
    idle: Annotated[
        str, option("--idle", "End where nothing was launched for so long; 0: never. [default: 30m]", "TIME", LEAVE)
    ] = "",
    end: Annotated[bool, option("--end", "End the hold of this project, and the launches in it.", group=LEAVE)] = False,
    detach: Annotated[bool, option("-d --detach", "Return at the start; the hold stays in tmux.", group=LEAVE)] = False,
    quiet: Annotated[bool, option("-q --quiet", "Print only warnings and failures.", group=OUTPUT)] = False,
    as_json: JsonFlag = False,
) -> None:
    """Keep nodes and a warm Python for the launches of this project."""
    from ddpkit.execution import hold as holds
    from ddpkit.execution import prepare
    from ddpkit.run import timeline, tmux

    if end:
        raise typer.Exit(_end(dry_run=dry_run, as_json=as_json))
    chosen = launch_settings(context, hosts)
    seconds = holds.parse_idle(idle or holds.IDLE)
    settings, allowed = holds.settings_of(chosen), queries(dry_run=dry_run, survey=survey)
    waits = os.environ.pop(tmux.VARIABLE, None)
    if detach and not dry_run and waits is None:
        raise typer.Exit(launch.start_detached(as_json))
    notes: list[str] = []

    def say(text: str) -> None:
        notes.append(text)
        note(text)

    began = timeline.process_began()
    progress = None if dry_run else lambda *_: None
    with prepare.prepare(settings, os.environ, say, progress, queries=allowed) as ready:
        held = holds.with_holder(ready, chosen, seconds)
        if dry_run:
            show_plan(held.plan, as_json)
            return
        words = {"detach": False, "as_json": as_json and waits is None, "quiet": quiet}
        raise typer.Exit(launch.carry(held, settings, (began, notes), waits=waits, **words))


def _end(*, dry_run: bool, as_json: bool) -> int:
    from ddpkit.cli.runs import stop
    from ddpkit.execution.hold import to_end
    from ddpkit.run.run_index import find_project

    run = to_end(find_project(Path.cwd()))
    stop(run.run_id, dry_run=dry_run, as_json=as_json)
    return 0
