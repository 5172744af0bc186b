"""`ddpkit drill`: proof that a script survives, before the big run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.cli import look
from ddpkit.cli.app import JsonFlag, app, note, option, print_json
from ddpkit.cli.options import HostWords, end_by_signals, launch_command, launch_settings, typed_settings
from ddpkit.errors import PreflightError, UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import LaunchSettings
    from ddpkit.monitor.drill.rows import Result
    from ddpkit.monitor.drill.run import Drill

DRILL = "The drill"
_HEAD = ("ROW", "RESULT", "TIME", "STEPS LOST", "EVIDENCE")


@app.command(
    cls=launch_command("grace", "hang_timeout", "log_dir", "preflight", "hold", "spares"),
    epilog="""It runs the script as it is, and injects one fault at a time. Give it arguments for a short run.
The script saves in a new directory: give the name of the option, or of the variable, by which it is told of one.
ddpkit drill -n 2 --checkpoint-dir-option --out --resume-args "--resume auto" -- train.py --steps 60
ddpkit drill -n 2 --checkpoint-dir-variable CKPT_DIR --faults term,save-kill -- train.py
ddpkit drill --remove logs/drill-20260131-235959-3fa9""",
)
def drill(
    context: typer.Context,
    hosts: HostWords = None,
    faults: Annotated[str, option("--faults", "Rows to try, with commas. [default: all]", "ROWS", DRILL)] = "",
    checkpoint_dir_option: Annotated[
        str, option("--checkpoint-dir-option", "Option of the script for its directory; `dir=` too.", "OPTION", DRILL)
    ] = "",
    checkpoint_dir_variable: Annotated[
        str, option("--checkpoint-dir-variable", "Variable of the script for its directory.", "NAME", DRILL)
    ] = "",
    resume_args: Annotated[
        str, option("--resume-args", "Arguments with which the script resumes, in one word.", "ARGS", DRILL)
    ] = "",
    folder: Annotated[str | None, option("--dir", "Make DIR for the checkpoints.", "DIR", DRILL)] = None,
    keep: Annotated[bool, option("--keep", "Keep checkpoints of rows that passed.", group=DRILL)] = False,
    report: Annotated[str | None, option("--report", "Also write the table to a new FILE.", "FILE", DRILL)] = None,
    notice: Annotated[str, option("--notice", "Time from USR1 to the end. [default: 30]", "SECONDS", DRILL)] = "30",
    time_limit: Annotated[str, option("--time-limit", "End the drill after this time.", "SECONDS", DRILL)] = "",
    remove: Annotated[str | None, option("--remove", "Remove the directory of an earlier drill.", "DIR", DRILL)] = None,
    yes: Annotated[
        bool, option("-y --yes", "With --remove: also foreign files. Else: a library reads the option.", group=DRILL)
    ] = False,
    dry_run: Annotated[bool, option("--dry-run", "Print what would be done; start nothing.", group=DRILL)] = False,
    as_json: JsonFlag = False,
) -> None:
    """Inject faults into a short run of a script, and report what it survives."""
    from ddpkit import config
    from ddpkit.monitor.drill import rows, run

    if remove is not None:
        _remove(Path(remove), yes=yes, dry_run=dry_run, as_json=as_json)
        return
    settings = launch_settings(context, hosts)
    asked = run.Drill(
        flags=typed_settings(context, hosts),
        script=tuple(settings.script),
        folder=Path(folder).absolute() if folder else run.default_folder(settings.log_dir),
        option=checkpoint_dir_option,
        variable=checkpoint_dir_variable,
        resume=tuple(_words(resume_args)),
        faults=run.parse_faults(faults),
        notice=config.seconds(notice, "--notice "),
        limit=config.seconds(time_limit, "--time-limit ") if time_limit else 0.0,
        grace=settings.grace,
        hang=settings.hang_timeout,
        nodes=_nodes(settings),
        spares=settings.spares,
    )
    _check(asked, settings, report, yes=yes)
    if dry_run:
        if as_json:
            asks = [{"row": row.value, "asks": rows.ASKED[row]} for row in asked.faults]
            print_json("drill_plan", {"folder": str(asked.folder), "rows": asks})
        else:
            print("\n".join(run.plan_lines(asked)))
        return
    end_by_signals()
    if checkpoint_dir_variable:
        asked = replace(asked, flags=(*asked.flags, "--env", checkpoint_dir_variable))
    raise typer.Exit(_run(asked, report, keep=keep, as_json=as_json))


def _nodes(settings: LaunchSettings) -> int:
    """Return the number of nodes of a run, without the spare ones. Raises UsageError."""
    from ddpkit.execution import prepare, requested_nodes
    from ddpkit.launchers.backends import NodeOptions

    if isinstance(settings.nnodes, int):
        return settings.nnodes
    if not prepare.transport_of(settings).names_nodes:
        return 1
    backend = prepare.build_backend(settings)
    return len(requested_nodes.named_hosts(settings, backend, NodeOptions.of(backend))) - settings.spares


def _run(asked: Drill, report: str | None, *, keep: bool, as_json: bool) -> int:
    """Carry out a drill. Returns the exit code."""
    from ddpkit.monitor.drill import run

    run.make_folder(asked.folder)
    line = look.StatusLine()
    running = run.Running(asked, line.say if line.shown else note)
    try:
        running.run(keep=keep)
    finally:  # a drill that a signal ends also shows what it found, and what it leaves
        line.clear()
        code = _end(asked, running.results, report, as_json=as_json)
    return code


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--resume-args {text!r}: {error}", 'add --resume-args "--resume auto"') from None


def _check(asked: Drill, settings: LaunchSettings, report: str | None, *, yes: bool) -> None:
    """Refuse what cannot be a drill, before anything is made. Raises UsageError."""
    from ddpkit.execution import job
    from ddpkit.execution.prepare import transport_of
    from ddpkit.execution.requested_nodes import surroundings
    from ddpkit.files import strangers
    from ddpkit.monitor.drill import run
    from ddpkit.transports.slurm_nodes import allocation

    if not asked.option and not asked.variable:
        what = "the drill needs a directory of its own for checkpoints, and the script has to be told of it"
        raise UsageError(what, "--checkpoint-dir-option --out, or --checkpoint-dir-variable CKPT_DIR")
    if asked.option and asked.variable:
        raise UsageError(
            "--checkpoint-dir-option and --checkpoint-dir-variable exclude each other", "remove one of them"
        )
    workdir, name = job.local_workdir(settings), asked.variable or asked.option
    if not yes and not run.reads(name, asked.script, workdir):
        what = f"{name} is in no file beside the script: it would save over its own checkpoints"
        look_for = "environ" if asked.variable else "add_argument"
        raise UsageError(what, f"grep -rn {look_for} *.py, for what the script reads; --yes: a library reads {name}")
    own = next((name for name, host in settings.host.items() if asked.variable in host.env), None)
    if own is not None:  # what holds for one node wins over what holds for all
        what = f"{settings.file} sets {asked.variable} in [host.{own}]: the script would save over its own checkpoints"
        raise UsageError(what, f"remove it from [host.{own}], or --checkpoint-dir-option")
    if settings.has_roles:
        raise UsageError("a drill runs one script, not roles", "remove the roles, or add -- SCRIPT")
    if transport_of(settings).scheduled and not allocation(surroundings(settings, os.environ)):
        what = f"the drill cannot inject faults into a job that {settings.backend} submits"
        raise UsageError(what, "salloc, and there the same command: it runs as a step")
    if asked.folder.exists() or asked.folder.is_symlink():
        raise UsageError(f"{asked.folder} exists: a drill writes only into a directory that it made", "--dir NEW")
    script = run.script_file(asked.script, workdir)
    if who := strangers(str(asked.folder), [str(script)] if script else []):
        what = f"{', '.join(who)} can put another directory in the place of {asked.folder}, in which the script saves"
        raise UsageError(what, "--dir DIR, in a directory that only you can change")
    if report is not None and os.path.lexists(report):
        raise UsageError(f"--report {report}: the file exists", "--report FILE, with another name")


def _remove(folder: Path, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    from ddpkit.cli.runs import confirm_foreign_files
    from ddpkit.monitor.drill import run

    identity, foreign = run.check_removable(folder)
    confirm_foreign_files({str(folder): foreign}, yes=yes, dry_run=dry_run)
    if not dry_run:
        run.remove_folder(folder, identity, foreign)
    if as_json:
        print_json("drill", {"ok": True, "rows": [], "folder": None, "dry_run": dry_run, "removed": str(folder)})
    else:
        print(f"{'would remove' if dry_run else 'removed'} {folder}")


def _end(asked: Drill, results: Sequence[Result], report: str | None, *, as_json: bool) -> int:
    """Print the table, and write the report. Returns the exit code."""
    from ddpkit.launchers.shell import join
    from ddpkit.monitor.drill.rows import State

    states = [result.state for result in results]
    complete = len(results) == len(asked.faults)  # no signal has ended it
    ok = complete and State.PASS in states and State.FAIL not in states
    rows = [
        (
            result.row.value,
            result.state.value,
            f"{result.seconds:.0f} s",
            "-" if result.lost is None else str(result.lost),
            result.evidence,
        )
        for result in results
    ]
    kept = str(asked.folder) if asked.folder.exists() else None
    if as_json:
        print_json("drill", {"ok": ok, "rows": [_document(each) for each in results], "folder": kept})
    elif rows:
        look.table(_HEAD, rows)
    if report is not None and complete:
        title = f"Drill of `{join(asked.script)}`\n\n"
        look.write_output(
            "--report", Path(report), title + "\n".join(look.plain_table(_HEAD, rows)) + "\n", force=False
        )
    if kept:
        from ddpkit.cli.runs import name_foreign_files
        from ddpkit.monitor.drill import run

        if any(result.folder for result in results):
            note(f"the checkpoints that stay are in {kept}/")
        with suppress(OSError):
            name_foreign_files({kept: run.foreign_files(asked.folder)})
        note(f"hint: ddpkit drill --remove {shlex.quote(os.path.relpath(kept))}")
    return 0 if ok else PreflightError.exit_code


def _document(result: Result) -> dict[str, Any]:
    return {
        "row": result.row.value,
        "state": result.state.value,
        "seconds": result.seconds,
        "steps_lost": result.lost,
        "evidence": result.evidence,
        "runs": list(result.runs),
        "folder": result.folder or None,
    }
