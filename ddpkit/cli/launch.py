"""`ddpkit launch` and `hold`: from words on the command line to a run, its verdict and its record."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, cast

import typer

from ddpkit.cli import look
from ddpkit.cli.app import JsonFlag, app, note, option, print_json, redirect_to_devnull, show_plan, shown
from ddpkit.cli.line import Line
from ddpkit.cli.look import table
from ddpkit.cli.options import (
    CHECKS,
    LEAVE,
    NODES,
    OUTPUT,
    RANKS,
    WHOLE_LAUNCH,
    DryRun,
    HostWords,
    Survey,
    end_by_signals,
    forward_signals,
    launch_command,
    launch_settings,
    queries,
)
from ddpkit.errors import DdpkitError, UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import LaunchSettings
    from ddpkit.console.relay import Logs, Relay
    from ddpkit.console.status_bar import Bottom
    from ddpkit.console.writer import Screen
    from ddpkit.execution.prepare import Ready
    from ddpkit.execution.requested_nodes import Queries
    from ddpkit.launchers.plan import Job, Plan
    from ddpkit.roles.run import Prepared
    from ddpkit.run.record import Run


@app.command(
    cls=WHOLE_LAUNCH,
    epilog="""Everything after `--` belongs to the script. Default: the one of ddpkit.toml, else train.py.
torchrun's flags work too. More settings: `ddpkit init`.
ddpkit launch -n 2 -- train.py --epochs 3
ddpkit launch -b ssh node1 node2 -n 8 -- -m pkg.train
ddpkit launch -b slurm -N 2 --gpus-per-node 8 --time 2:00:00 -- train.py""",
)
def launch(
    context: typer.Context,
    hosts: HostWords = None,
    dry_run: DryRun = False,
    survey: Survey = False,
    roles: Annotated[str | None, option("--roles", "Launch the roles of FILE.", "FILE", NODES)] = None,
    stdin: Annotated[str | None, option("--stdin", "Let RANK read this standard input.", "RANK", RANKS)] = None,
    explain: Annotated[
        bool, option("--explain", "Print each setting and its source; run nothing.", group=CHECKS)
    ] = False,
    quiet: Annotated[
        bool, option("-q --quiet", "Print only the ranks' output, warnings and failures.", group=OUTPUT)
    ] = False,
    detach: Annotated[
        bool, option("-d --detach", "Return at the start; the run stays in tmux, or as a job.", group=LEAVE)
    ] = False,
    on: Annotated[str | None, option("--on", "Run the launcher on HOST; with --detach.", "HOST", LEAVE)] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a script on every rank; the first failure ends all."""
    settings = launch_settings(context, hosts, roles)
    if stdin is not None:
        settings = _with_stdin(settings, stdin, detach=detach)
    allowed = queries(dry_run=dry_run, survey=survey)
    if explain:
        _explain(settings, as_json)
        return
    if on is not None and not detach:
        raise UsageError(f"--on {on} requires --detach", "add --detach")
    if on is not None and not dry_run:
        raise typer.Exit(_launch_on(on, settings, context.obj, as_json))
    if on is not None and settings.sync:
        from dataclasses import replace

        from ddpkit.execution.prepare import transport_of

        # --sync copies to HOST. A dry run prints the plan of the launcher there.
        settings = replace(settings, sync=transport_of(settings).names_nodes)
    raise typer.Exit(_launch(settings, allowed, detach=detach, as_json=as_json, quiet=quiet))


def _with_stdin(settings: LaunchSettings, rank: str, *, detach: bool) -> LaunchSettings:
    """Return the settings of a launch of which one rank has standard input. Raises UsageError."""
    from dataclasses import replace

    if not rank.isdecimal() or len(rank) > 9:
        raise UsageError(f"--stdin {rank}: not the number of a rank", "add --stdin 0")
    if detach:
        raise UsageError(f"--stdin {rank} and --detach: a detached launch has no terminal", "remove --detach")
    if settings.has_roles:
        raise UsageError(
            f"--stdin {rank}: works with one script, not with roles", f"ddpkit launch --stdin {rank} -- SCRIPT"
        )
    return replace(settings, stdin=int(rank))


def _rows(settings: LaunchSettings) -> list[tuple[str, object, str]]:
    """Name, value and source of each setting, without secrets."""
    from ddpkit.launchers.shell import is_secret

    def shown(name: str, value: object) -> object:
        variable = re.sub(r"^(roles\.[^.]+\.)?env\.", "", name)
        secret = variable != name and (variable in settings.inherited or is_secret(variable, str(value)))
        return "***" if secret or is_secret("", str(value)) else value

    rows = [*settings.rows(), *(_role_rows(settings) if settings.has_roles else ())]
    return [(name, shown(name, value), source) for name, value, source in rows]


def _role_rows(settings: LaunchSettings) -> Iterator[tuple[str, object, str]]:
    """Name, value and source of what the tables of roles say. Raises UsageError for roles that cannot run."""
    from ddpkit.roles.prepare import read_roles

    read_roles(settings)  # which checks them
    file = os.path.relpath(settings.file)
    for role, own in settings.roles.items():
        for key, value in cast("Mapping[str, object]", own).items():
            inner = value if isinstance(value, dict) else None
            pairs = {f"{key}.{name}": text for name, text in inner.items()} if inner is not None else {key: value}
            yield from ((f"roles.{role}.{name}", text, file) for name, text in pairs.items())


def _explain(settings: LaunchSettings, as_json: bool) -> None:
    rows = _rows(settings)
    if as_json:
        values = [{"name": name, "value": value, "source": source} for name, value, source in rows]
        file = settings.file or None
        print_json("settings", {"file": file, "settings": values})
    else:
        table(("setting", "value", "from"), [(name, _setting_text(value), source) for name, value, source in rows])
        print(f"settings file: {settings.file or 'none found in this directory or above it'}")


def _setting_text(value: object) -> str:
    """Return the value of a setting as a person would type it; `-` where it is not set."""
    from ddpkit.launchers.shell import join

    if isinstance(value, list) and all(isinstance(each, int) for each in value):
        return ",".join(map(str, value)) or "-"
    return "-" if value is None else join(value) if isinstance(value, list) else shown(value)


def _launch(settings: LaunchSettings, allowed: Queries, *, detach: bool, as_json: bool, quiet: bool) -> int:
    """Launch a script or roles, or print the plan of a dry run. Returns the exit code."""
    from ddpkit.execution import prepare
    from ddpkit.run import timeline

    began, notes, dry_run = timeline.process_began(), list[str](), allowed.dry

    line = look.StatusLine()

    def note(text: str) -> None:
        notes.append(text)
        line.note(text)

    parent = _waiting_parent()
    leaves = detach and not dry_run and parent is None
    if leaves:
        _refuse_pipe(settings)
    if leaves and (settings.has_roles or not prepare.transport_of(settings).scheduled):
        return start_detached(as_json)
    if settings.has_roles:
        return _launch_roles(
            settings, allowed, note, began, as_json=as_json and parent is None, quiet=quiet, parent=parent
        )
    from ddpkit.execution.hold import join

    progress = None if dry_run else _show_copies(line)
    settings = join(settings, note)
    with prepare.prepare(settings, os.environ, note, progress, line.say if line.shown else None, allowed) as ready:
        plan = ready.plan
        if leaves and plan.batch is None:
            return start_detached(as_json)
        for each in prepare.unused(settings, os.environ):
            note(each)
        if not dry_run:
            as_json = as_json and parent is None
            return carry(ready, settings, (began, notes), detach=detach, as_json=as_json, quiet=quiet, parent=parent)
    show_plan(plan, as_json)
    return 0


def _launch_roles(
    settings: LaunchSettings,
    allowed: Queries,
    note: Callable[[str], None],
    began: float,
    *,
    as_json: bool,
    quiet: bool,
    parent: str | None,
) -> int:
    """Launch the roles of the file, or show their plans."""
    from ddpkit.roles.prepare import prepare_roles
    from ddpkit.roles.run import RolesRun
    from ddpkit.run import tmux
    from ddpkit.run.state import RunState

    end_by_signals()
    with prepare_roles(settings, os.environ, note, allowed) as prepared:
        if allowed.dry:
            _show_plans(prepared, as_json)
            return 0
        session = tmux.expected_session(os.environ) if parent else None
        run = RolesRun(prepared, began=began, session=session)
        _tell_parent(run.record, parent)
        end = partial(run.inbox.put, (-1, signal.SIGPIPE))
        screen, relay = open_screen(None, settings, run.open_logs(), end, as_json=as_json, quiet=quiet)
        run.announce(relay)
        with forward_signals(run.inbox, suspend=False):
            code = run.finish(run.follow(relay, screen))
        stopped = run.record.state is RunState.STOPPED
        return _end_output(run.record, code, relay, screen, stopped=stopped, as_json=as_json)


def _show_plans(prepared: Prepared, as_json: bool) -> None:
    """Print the dry run of a run of roles."""
    from ddpkit.launchers.plan import plan_as_dict

    if as_json:
        plans = {str(name): plan_as_dict(part.plan) for name, part in prepared.parts.items()}
        print_json("roles_plan", {"run_id": prepared.run_id, "replicas": plans})
        return
    for name, part in prepared.parts.items():
        print(f"# ---- {name}", flush=True)
        show_plan(part.plan, as_json=False)


def _show_copies(line: look.StatusLine) -> Callable[[str, int], None]:
    """Return a function that shows the progress of copies: a line that changes, and one for each copied node."""
    copied: set[str] = set()

    def show(host: str, percent: int) -> None:
        if percent < 100:
            line.say(f"copying to {host}: {percent} %")
        elif host in copied:  # a second copy
            line.clear()
        else:
            copied.add(host)
            line.note(f"copied to {host}")

    return show


def _launch_on(host: str, settings: LaunchSettings, line: Line, as_json: bool) -> int:
    """Give this command to the ddpkit of another host."""
    from ddpkit.execution import other_host
    from ddpkit.launchers import shell
    from ddpkit.transports import hosts
    from ddpkit.transports.channel import at_home

    _refuse_pipe(settings)
    specs = hosts.parse([host], settings.groups, settings.host)
    if len(specs) != 1:
        raise UsageError(f"--on {host}: requires one host, not {len(specs)}")
    spec = specs[0]
    way = other_host.connector(settings, note)
    command = other_host.prepare_host(settings, spec, line.argv, _show_copies(look.StatusLine()), way, note)
    answer = other_host.run_launcher(spec, command, way, note)
    for said in answer.messages:
        print(f"{spec.label}: {said}", file=sys.stderr)  # it writes no line in our name
    if answer.run is None:
        return answer.code or DdpkitError.exit_code
    attach = f"{shell.quote(at_home(command.python))} -m ddpkit attach {answer.run.run_id}"
    note(f"its launcher runs on {spec.label}; to follow it: ssh -t {spec.target} {attach}")
    _print_run(answer.run, as_json)
    return 0


def _refuse_pipe(settings: LaunchSettings) -> None:
    """Refuse a host file from `<(...)`, `|` or `<`: a detached launcher is another process and cannot read it."""
    path = settings.hostfile
    if path.startswith(("/dev/", "/proc/")) or Path(path).is_fifo():
        raise UsageError(
            f"the host file {path} is not readable by a detached launcher, which is another process",
            "write it to a file first, or pass the hosts as arguments",
        )


def start_detached(as_json: bool) -> int:
    """Start this command again in a tmux session. Its messages are printed here until its run has a record."""
    from ddpkit.launchers import shell
    from ddpkit.run import tmux as detach
    from ddpkit.text import format_hosts

    try:
        record = detach.start_session(os.environ, note)
    except detach.EarlyError as early:
        print(early.text, file=sys.stderr)
        return early.code
    where = f"{shell.count(record.world_size, 'rank')} on {format_hosts(record.hosts)}"
    note(f"run {record.run_id}: {where}; logs in {record.folder}/")
    note(f"detached; to follow it: ddpkit attach {record.run_id}; to stop it: ddpkit stop {record.run_id}")
    _print_run(record, as_json)
    return 0


def carry(
    ready: Ready,
    settings: LaunchSettings,
    before: tuple[float, list[str]],
    *,
    detach: bool,
    as_json: bool,
    quiet: bool,
    parent: str | None = None,
) -> int:
    """Carry out a plan, and show its lines. `before`: when the command began, and its notes."""
    from ddpkit.execution.lifecycle import RecordedRun, watching_of
    from ddpkit.run import tmux

    def check(hosts: Sequence[str], folder: Path) -> Mapping[str, str]:
        from ddpkit.preflight.run import find_faults

        return find_faults(settings, os.environ, hosts, folder)

    session = tmux.expected_session(os.environ) if parent else None
    run = RecordedRun(
        ready, settings.log_dir, began=before[0], notes=before[1], leave=detach, session=session, check=check
    )
    _tell_parent(run.record, parent)
    end = partial(run.inbox.put, (-1, signal.SIGPIPE))
    about = (ready.job, ready.plan)
    screen, relay = open_screen(about, settings, run.open_logs(settings), end, as_json=as_json, quiet=quiet)
    run.announce(relay, hang_timeout=settings.hang_timeout)
    if not run.followed:
        relay.close()
        screen.close(None)
        _print_run(run.record, as_json)
        return 0
    with forward_signals(run.inbox, suspend=screen.has_status):
        try:
            outcome = run.follow(relay, screen, watching=watching_of(settings))
        except DdpkitError as error:
            run.abandon(error)
            raise
        outcome = run.finish(relay, outcome)
    stopped = outcome.stopped_by is not None
    code = _end_output(run.record, outcome.exit_code, relay, screen, stopped=stopped, as_json=as_json)
    run.keep_metrics(settings.metrics)  # last: a slow file system may be searched
    return code


def _waiting_parent() -> str | None:
    """Return the folder in which the command waits that started this launcher in tmux; None: nothing did.

    Nobody sees the terminal of a session: standard input is closed, so that no question is asked on it.
    """
    from ddpkit.run import tmux

    parent = os.environ.pop(tmux.VARIABLE, None)
    if parent is not None:
        redirect_to_devnull(0)
    return parent


def _tell_parent(run: Run, parent: str | None) -> None:
    """Tell the command that waits for this launcher which run it has begun."""
    from ddpkit.run import tmux

    if parent:
        if run.session:
            tmux.name_session(run.run_id, os.environ)
        tmux.announce_record(parent, run.folder)


def _end_output(run: Run, code: int, relay: Relay, screen: Screen, *, stopped: bool, as_json: bool) -> int:
    """Write what is left to the screen, and the record. Returns the exit code."""
    relay.close()
    # A slow reader gets everything; the end of a run that was stopped does not wait for a reader that may never come.
    screen.close(2.0 if stopped else None)
    code = _print_record(run, code) if as_json else code
    if not (screen.out.open and screen.err.open):
        redirect_to_devnull(1, 2)
    return code


def _print_run(run: Run, as_json: bool) -> None:
    from ddpkit.run.documents import run_document

    if as_json:
        print_json("run", run_document(run))
    else:
        print(run.run_id)


def _print_record(run: Run, code: int) -> int:
    """Print the record as JSON. Returns the exit code, 125 for a full disk in place of 0."""
    try:
        _print_run(run, as_json=True)
    except BrokenPipeError:
        redirect_to_devnull(1)
    except OSError as error:  # a program that reads the record must not take it for whole
        note(f"cannot write the record to standard output: {error.strerror}; it is {run.folder}/run.json")
        redirect_to_devnull(1)
        return code or DdpkitError.exit_code
    return code


def open_screen(
    about: tuple[Job, Plan] | None,
    settings: LaunchSettings,
    logs: Logs,
    broken: Callable[[], None],
    *,
    as_json: bool,
    quiet: bool,
) -> tuple[Screen, Relay]:
    """The screen and the relay of a run. With --json standard output holds one document, and lines go to the other.

    `about`: the program of the status lines, whose equal lines are folded; None: several programs. `broken`: called
    when nobody reads a pipe any more. As for every other program at the head of a pipe, that is the end.
    """
    from ddpkit.console.relay import Relay
    from ddpkit.console.style import is_rich
    from ddpkit.console.writer import Screen

    out, err = (sys.stderr if as_json else sys.stdout).buffer, sys.stderr.buffer
    terminals = {number for number, stream in ((1, out), (2, err)) if stream.isatty()}
    bottom = _bottom(*about, settings, out, err) if about and terminals and not as_json else None
    screen = Screen(out, err, broken, bottom)
    fold, ranks = None, about[1].world_size if about else 1
    if terminals and settings.fold and ranks > 1:
        from ddpkit.console.dedup import Fold

        fold = Fold(ranks, settings.fold)
    rich = {n for n, stream in ((1, out), (2, err)) if is_rich(os.environ, terminal=stream.isatty())}
    draw = partial(look.draw, stream=err, signs=look.has_signs(sys.stderr)) if 2 in rich else None
    relay = Relay(
        logs,
        screen.out,
        screen.err,
        rich=rich,
        terminals=terminals,
        fold=fold,
        folded=terminals,  # a pipe's reader gets every line
        draw=draw,
        quiet=quiet,
    )
    return screen, relay


def _bottom(job: Job, plan: Plan, settings: LaunchSettings, out: IO[bytes], err: IO[bytes]) -> Bottom | None:
    """Return the status lines of a run; None: they are off, or have no place."""
    if not settings.header or settings.stdin is not None:  # a rank asks, and a person types, where they would stand
        return None
    from ddpkit.console import status_bar
    from ddpkit.console.progress import Header
    from ddpkit.launchers import registry
    from ddpkit.run import metrics

    began, words = time.time(), f"{registry.short_name(plan.backend)} {plan.run_id}"

    def find() -> Path | None:
        return metrics.find_chosen(settings.metrics, job.workdir, job.command, began)

    return status_bar.make_bottom(out, err, Header(words, find), os.environ)


# ---- hold


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
    end: Annotated[
        bool, option("--end", "End the holds of this project, and the launches in them.", group=LEAVE)
    ] = False,
    detach: Annotated[bool, option("-d --detach", "Return at the start; the hold stays in tmux.", group=LEAVE)] = False,
    quiet: Annotated[bool, option("-q --quiet", "Print only warnings and failures.", group=OUTPUT)] = False,
    as_json: JsonFlag = False,
) -> None:
    """Keep nodes and a warm Python for the launches of this project."""
    from ddpkit.execution import hold as holds
    from ddpkit.run import timeline

    if end:
        raise typer.Exit(_end_hold(dry_run=dry_run, as_json=as_json))
    settings, allowed = launch_settings(context, hosts), queries(dry_run=dry_run, survey=survey)
    seconds = holds.parse_idle(idle or holds.IDLE)
    holds.check(settings)
    parent = _waiting_parent()
    if parent is None:
        _name_holds()
        if detach and not dry_run:
            raise typer.Exit(start_detached(as_json))
    began, notes = timeline.process_began(), list[str]()

    def say(text: str) -> None:
        notes.append(text)
        note(text)

    end_by_signals()
    with holds.prepare_hold(settings, os.environ, say, allowed, idle=seconds) as ready:
        if dry_run:
            show_plan(ready.plan, as_json)
            return
        as_json = as_json and parent is None
        code = carry(ready, ready.settings, (began, notes), detach=False, as_json=as_json, quiet=quiet, parent=parent)
        raise typer.Exit(code)


def _name_holds() -> None:
    """Name the holds that this project has already: another one is no mistake, with other nodes or modules."""
    from ddpkit.execution.hold import living
    from ddpkit.run.run_index import find_project

    for run in living(find_project(Path.cwd())):
        note(f"hold {run.run_id} of this project is running as well; to end it alone: ddpkit stop {run.run_id}")


def _end_hold(*, dry_run: bool, as_json: bool) -> int:
    """Stop the holds of this project, as `ddpkit stop` does. Returns the exit code."""
    from ddpkit.cli.runs import stop_runs
    from ddpkit.execution.hold import to_end
    from ddpkit.run import status
    from ddpkit.run.run_index import find_project

    found = to_end(find_project(Path.cwd()))
    if len(found) > 1:
        note(f"{len(found)} holds of this project: {', '.join(run.run_id for run in found)}")
    chosen = [status.choose(run.run_id, "ddpkit stop {}", acts=True) for run in found]
    stop_runs(chosen, status.get_statuses(chosen), dry_run=dry_run, as_json=as_json)
    return 0
