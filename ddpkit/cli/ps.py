"""`ddpkit ps` and `ddpkit rm`: list runs, and remove the directories of those that ended."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddpkit.cli import look
from ddpkit.cli.app import JsonFlag, LeanCommand, app, print_json
from ddpkit.errors import UsageError
from ddpkit.run.state import RunState
from ddpkit.text import one_line

if TYPE_CHECKING:
    from ddpkit.run.control import Removable
    from ddpkit.run.record import Run
    from ddpkit.run.status import RunStatus

SHOWN = 20  # runs that have ended
LISTED = 20  # names of files that are not ddpkit's
PIPED = 200  # columns of a line in a pipe
HEAD = ("ID", "COMMAND", "STATE", "RANKS", "HOSTS", "AGE", "RESULT")
DIRECTORY = "DIRECTORY"  # one more column where other projects have runs
_LEAST = {"COMMAND": 12, "HOSTS": 5, DIRECTORY: 9, "RESULT": 9}  # columns that can be cut, with their least width


@app.command(cls=LeanCommand)
def ps(
    everything: Annotated[
        bool, typer.Option("-a", "--all", help="Show all runs. [default: the last 20 ended]")
    ] = False,
    number: Annotated[str | None, typer.Option("-n", "--last", metavar="N", help="Show the newest N runs.")] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print ids only.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List runs: those that are running, and the last that ended."""
    from ddpkit import config
    from ddpkit.run import run_index, status
    from ddpkit.run.documents import run_document

    known = run_index.list_runs()
    runs = [entry.run for entry in known if entry.run is not None]
    if number is not None:
        shown = runs[: config.whole(number, "--last ", hint="ddpkit ps --last 5")]
    else:
        ended = [run.run_id for run in runs if run.state.ended]
        old = set() if everything else set(ended[SHOWN:])
        shown = [run for run in runs if run.run_id not in old]
    if quiet and not as_json:
        print("".join(f"{run.run_id}\n" for run in shown), end="")
        return
    seen = status.get_statuses(shown)
    if as_json:
        print_json("ps", {"runs": [run_document(now.run, now) for now in seen]})
        return
    short = run_index.short_ids([entry.run_id for entry in known])
    if seen:
        head, *lines = table(seen, short, time.time(), _width(), status.here())
        at = head.index(HEAD[2])
        look.write([head, *(look.coloured(line, now.state, at) for line, now in zip(lines, seen, strict=True))])
    else:
        print("no runs; to start one: ddpkit launch -- train.py", file=sys.stderr)
    if number is None and len(shown) < len(runs):
        print(f"older runs not shown: {len(runs) - len(shown)}; all: ddpkit ps --all", file=sys.stderr)
    for line in status.problems(known, everything=everything):
        print(f"not shown: {line}", file=sys.stderr)


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED


def table(
    seen: Sequence[RunStatus], short: dict[str, str], now: float, width: int, here: Path | None = None
) -> list[str]:
    """Return the table, one line for each run. Long cells are cut to the width; ids never.

    `here`: the project whose runs need no directory.
    """
    from ddpkit.run.status import age

    head = list(HEAD)
    cells = [
        [
            short[each.run.run_id],
            _command(each.run),
            each.state,
            str(each.run.world_size),
            _hosts(each.run),
            age(now - each.run.started),
            result(each),
        ]
        for each in seen
    ]
    directories = [_directory(each.run, here) for each in seen]
    if set(directories) - {"."}:
        head.insert(-1, DIRECTORY)
        for row, directory in zip(cells, directories, strict=True):
            row.insert(-1, directory)
    rows = [head, *([" ".join(one_line(cell).split()) for cell in row] for row in cells)]  # no line ends within a cell
    widths = {name: max(len(row[column]) for row in rows) for column, name in enumerate(head)}
    while sum(widths.values()) + 2 * (len(widths) - 1) > width:
        name = max((each for each in _LEAST if each in widths), key=lambda each: widths[each] - _LEAST[each])
        if widths[name] <= _LEAST[name]:
            break  # a window too narrow for the rest
        widths[name] -= 1
    cut = [
        [_cut(cell, room, end=name == DIRECTORY) for cell, (name, room) in zip(row, widths.items(), strict=True)]
        for row in rows
    ]
    return [
        "  ".join(cell.ljust(room) for cell, room in zip(row, widths.values(), strict=True)).rstrip() for row in cut
    ]


def _command(run: Run) -> str:
    """Return the command, after the name of the run or of its job if it has another one than the script."""
    from ddpkit.run import record, run_index

    name, text = run_index.name_in(run.run_id), shlex.join(run.command)
    return text if name == record.name_of(run.command) else f"{name}: {text}"


def _directory(run: Run, here: Path | None) -> str:
    """Return the directory of a run's project as a person would type it; `.`: this project's."""
    from ddpkit.run import run_index

    project, home = run_index.project_of(run), os.environ.get("HOME", "")
    if here is None or project == here:
        return "."
    return str(Path("~", project.relative_to(home)) if home and project.is_relative_to(home) else project)


def _cut(text: str, room: int, *, end: bool) -> str:
    """Cut a text to its beginning, or to its `end`."""
    if len(text) <= room:
        return text
    return f"...{text[3 - room :]}" if end else f"{text[: room - 3]}..."


def _hosts(run: Run) -> str:
    if run.job_id:
        return f"job {run.job_id}"
    return run.hosts[0] + (f" +{len(run.hosts) - 1}" if len(run.hosts) > 1 else "") if run.hosts else ""


def result(now: RunStatus) -> str:
    """Return how a run ended, in short: `exit 7, rank 1 on node2: out of memory`; or what hinders one that runs."""
    failure = now.run.failure
    if now.state is RunState.FAILED and failure is not None:
        how = f"exit {now.run.exit_code}" if failure.signal is None else f"signal {failure.signal}"
        who = f"rank {failure.rank}" if failure.rank is not None else failure.what
        why = failure.reason or (failure.diagnosis.cause if failure.diagnosis else "")
        where = f" on {failure.host}" if len(now.run.hosts) > 1 or now.run.job_id else ""
        return f"{how}, {who}{where}" + (f": {why}" if why else "")
    if now.state is RunState.FAILED:
        return f"exit {now.run.exit_code}" + (f": {now.run.verdict}" if now.run.verdict else "")
    if now.state in (RunState.DONE, RunState.STOPPED):
        from ddpkit.run.status import age

        return f"after {age(now.run.ended - now.run.started)}" if now.run.ended else ""
    return "" if now.state is RunState.RUNNING and not now.hint else now.words


# ---- rm


@app.command(cls=LeanCommand)
def rm(
    run: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN...", help="Run id, at least 4 characters of one of this project, or directory."),
    ] = None,
    ended: Annotated[bool, typer.Option("--ended", help="Remove all ended runs of this project.")] = False,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", help="Also remove files in these directories that are not ddpkit's.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be removed; remove nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove the directories of ended runs, with their logs."""
    from ddpkit.run import control, run_index, status

    if bool(run) == ended:
        what = "--ended and RUN exclude each other" if run else "no run given"
        raise UsageError(what, "ddpkit rm --ended --dry-run")
    known = run_index.list_runs()
    if ended:
        chosen = [entry.run for entry in status.runs_of_project(known, acts=True) if entry.run is not None]
        gone = []
    else:
        gone = [entry.run_id for entry in known if entry.removed and entry.run is None and entry.run_id in (run or ())]
        words = [word for word in run or () if word not in gone]
        chosen = [run_index.find_target(word, known, status.here(), "ddpkit rm {}") for word in words]
    checked = [control.check_removable(now.run) for now in _ended(chosen, named=not ended)]
    removed = [removable.run for removable in checked]
    _ask_for_others(checked, yes=yes, dry_run=dry_run)
    if not dry_run:
        for removable in checked:
            control.remove_run(removable)
        for run_id in gone:
            run_index.forget(run_id)
    if as_json:
        print_json("rm", {"dry_run": dry_run, "removed": [{"run_id": x.run_id, "folder": x.folder} for x in removed]})
        return
    for each in removed:
        print(f"{'would remove' if dry_run else 'removed'} {each.folder}")
    for run_id in gone:
        print(f"{'would remove' if dry_run else 'removed'} {run_id} from the list of runs: its directory is gone")
    if not removed and not gone:
        print("no ended runs of this project", file=sys.stderr)


def _ended(chosen: Sequence[Run], *, named: bool) -> list[RunStatus]:
    """Return those that have ended. Raises UsageError for another one that the user `named`."""
    from ddpkit.run import status

    seen = status.get_statuses(chosen)
    kept = [now for now in seen if not _is_over(now)]
    if kept and named:
        first = kept[0]
        words = f"run {first.run.run_id} has not ended ({first.state}); nothing was removed"
        raise UsageError(words, status.command("stop" if first.state.living else "status", first.run))
    return [now for now in seen if _is_over(now)]


def _is_over(now: RunStatus) -> bool:
    return now.state.ended or now.state is RunState.LOST


def _ask_for_others(checked: Sequence[Removable], *, yes: bool, dry_run: bool) -> None:
    """Name the files that are not ddpkit's. Raises UsageError unless the user agrees to remove them."""
    others = {each.run.folder: each.others for each in checked if each.others}
    for folder, names in others.items():
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        print(f"ddpkit: not made by ddpkit, in {folder}: {', '.join(names[:LISTED])}{more}", file=sys.stderr)
    if not others or yes or dry_run:
        return
    if sys.stdin.isatty() and sys.stderr.isatty() and typer.confirm("Remove them as well?", err=True):
        return
    folder = next(iter(others))
    raise UsageError(
        "files that are not ddpkit's would be removed; nothing was (--yes)", f"ls -la {shlex.quote(folder)}"
    )
