"""`ddpkit launch`: from words on the command line to a run, its verdict and its record."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.cli.app import CommandLine, JsonFlag, LeanCommand, app, redirect_to_devnull, show_plan, table
from ddpkit.cli.options import (
    Backend,
    Grace,
    HostWords,
    Options,
    Profile,
    launch_settings,
    parse_options,
    parse_variables,
)
from ddpkit.errors import UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import LaunchSettings
    from ddpkit.execution.lifecycle import RecordedRun
    from ddpkit.execution.prepare import Ready


@app.command(
    cls=LeanCommand,
    epilog="Everything behind `--` belongs to the script: `-- train.py ARGS`, `-- -m pkg.train ARGS`, or any program. "
    "Where no script is named, it comes from ddpkit.toml, else it is train.py in the current folder. torchrun's flags "
    "are understood, and its `train.py ARGS` without `--`.",
)
def launch(
    context: typer.Context,
    hosts: HostWords = None,
    backend: Backend = None,
    nproc_per_node: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--nproc-per-node",
            metavar="N|auto",
            help="Ranks per node; auto: one per visible GPU, else 1.",
        ),
    ] = None,
    nnodes: Annotated[str | None, typer.Option("-N", "--nnodes", metavar="N|MIN:MAX", help="Number of nodes.")] = None,
    option: Options = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="K[=V]", help="Set a variable for every rank, or pass on the one set here."),
    ] = None,
    workdir: Annotated[
        str | None, typer.Option(metavar="DIR", help="The ranks' working folder; default: this one.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="The ranks' Python; default: the one that runs ddpkit.")
    ] = None,
    profile: Profile = None,
    grace: Grace = None,
    hang_timeout: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="Say where the ranks are when none made progress for so long; 0: never."),
    ] = None,
    hang_action: Annotated[
        str | None, typer.Option(metavar="warn|end", help="With --hang-timeout: only say it, or end the run (124).")
    ] = None,
    log_dir: Annotated[str | None, typer.Option(metavar="DIR", help="Where the run's logs go; default: logs.")] = None,
    hostfile: Annotated[
        str | None, typer.Option(metavar="FILE", help="The nodes, one a line: `node1 slots=4`.")
    ] = None,
    no_preflight: Annotated[
        bool, typer.Option("--no-preflight", help="Go on although the nodes differ; say what was found.")
    ] = False,
    sync: Annotated[
        bool, typer.Option("--sync", help="First copy the working folder to the nodes with rsync.")
    ] = False,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="On a terminal, no status lines at the bottom.")
    ] = False,
    fold: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="On a terminal: a line waits so long for equal ones; 0.2. 0: never."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where the run writes its steps; default: the metrics.jsonl that it writes."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when the run has started: in a tmux session, or as a job.")
    ] = False,
    on: Annotated[
        str | None, typer.Option("--on", metavar="HOST", help="With --detach: the launcher runs there, and not here.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run, as a script; run nothing.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print each setting and where it came from.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run a script on every rank; the first failure ends all."""
    settings = launch_settings(
        context,
        profile,
        backend=backend,
        workdir=workdir,
        python=python,
        log_dir=log_dir,
        hostfile=hostfile,
        nproc_per_node=nproc_per_node,
        nnodes=nnodes,
        grace=grace,
        hang_timeout=hang_timeout,
        hang_action=hang_action,
        sync=sync or None,
        preflight=False if no_preflight else None,
        header=False if no_header else None,
        fold=fold,
        metrics=metrics,
        hosts=hosts,
        options=parse_options(option),
        env=parse_variables(env),
    )
    if explain:
        _explain(settings, as_json)
        return
    if on is not None and not detach:
        raise UsageError(f"--on {on} starts the launcher there and leaves it", "add --detach")
    if on is not None and not dry_run:
        raise typer.Exit(_launch_on(on, settings, context.obj, as_json))
    raise typer.Exit(_launch(settings, detach=detach, dry_run=dry_run, as_json=as_json))


def _explain(settings: LaunchSettings, as_json: bool) -> None:
    from ddpkit.launchers.shell import guard

    rows = [(name, str(guard(name, str(value))), source) for name, value, source in settings.rows()]
    if as_json:
        print(json.dumps([dict(zip(("name", "value", "source"), row, strict=True)) for row in rows], indent=2))
    else:
        table(("setting", "value", "from"), rows)


def _launch(settings: LaunchSettings, *, detach: bool, dry_run: bool, as_json: bool) -> int:
    from ddpkit.execution import prepare
    from ddpkit.run import timeline, tmux

    began, notes = timeline.process_began(), list[str]()

    def note(text: str) -> None:
        notes.append(text)
        _note(text)

    waits = os.environ.pop(tmux.VARIABLE, None)  # this is the launcher in a session, and its parent waits there
    leave = detach and not dry_run and waits is None
    if leave:
        _refuse_pipe(settings)
    if leave and not prepare.transport_of(settings).scheduled:
        return _detach(as_json)
    progress = None if dry_run else _Copying()
    with prepare.prepare(settings, os.environ, note, progress) as ready:
        plan = ready.plan
        if leave and plan.batch is None:
            return _detach(as_json)
        allocation = prepare.unused_allocation(settings, os.environ)
        if allocation:
            note(f"{allocation}, and these ranks run on this machine alone; on the job's nodes: -b slurm")
        if not dry_run:
            as_json = as_json and waits is None
            return _carry(ready, settings, (began, notes), detach=detach, as_json=as_json, waits=waits)
    show_plan(plan, as_json)
    return 0


def _note(text: str) -> None:
    """Print a line for a person, on standard error."""
    print(f"ddpkit: {text}", file=sys.stderr)


class _Copying:
    """Progress of copies: a bar for each node on a terminal, elsewhere a line for each copied node."""

    def __init__(self) -> None:
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._lock = threading.Lock()

    def __call__(self, host: str, percent: int) -> None:
        with self._lock:
            if not sys.stderr.isatty():
                if percent == 100 and host not in self._tasks:
                    self._tasks[host] = None
                    _note(f"copied to {host}")
                return
            if self._bars is None:
                from rich.console import Console
                from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

                words = TextColumn("{task.percentage:>3.0f}%")
                console = Console(stderr=True)
                self._bars = Progress(
                    TextColumn("{task.description}"), BarColumn(), words, TimeRemainingColumn(), console=console
                )
                self._bars.start()
            if host not in self._tasks:
                self._tasks[host] = self._bars.add_task(f"copying to {host}", total=100)
            self._bars.update(self._tasks[host], completed=percent)
            if self._bars.finished:
                self._bars.stop()
                self._bars = None
                self._tasks.clear()


def _launch_on(host: str, settings: LaunchSettings, line: CommandLine, as_json: bool) -> int:
    """Give this command to the ddpkit of another host."""
    from ddpkit.execution import remote_launch
    from ddpkit.transports import hosts

    _refuse_pipe(settings)
    specs = hosts.parse([host], settings.groups, settings.host)
    if len(specs) != 1:
        raise UsageError(f"--on {host}: one host is needed, and these are {len(specs)}")
    spec = specs[0]
    command = remote_launch.prepare_host(settings, os.environ, spec, line.argv, _Copying())
    answer = remote_launch.launch(spec, command, _note)
    if answer.messages:
        print(answer.messages, file=sys.stderr)
    if not answer.record:
        return answer.code or 1
    run = json.loads(answer.record)["run_id"]
    _note(f"its launcher runs on {spec.label}: ssh -t {spec.target} {command.python} -m ddpkit attach {run} shows it")
    print(answer.record if as_json else run)
    return 0


def _refuse_pipe(settings: LaunchSettings) -> None:
    """Refuse a host file from `<(...)`, `|` or `<`: a detached launcher is another process and cannot read it."""
    path = settings.hostfile
    if path.startswith(("/dev/", "/proc/")) or Path(path).is_fifo():
        raise UsageError(
            f"the host file {path} is for this process alone, and a detached launcher is another one",
            "write it into a file first; or name the hosts as words",
        )


def _detach(as_json: bool) -> int:
    """Start this command again in a tmux session. Its messages are printed here until its run has a record."""
    from ddpkit.launchers import shell
    from ddpkit.run import tmux as detach

    try:
        record = detach.start_session(os.environ, _note)
    except detach.EarlyError as early:
        print(early.text, file=sys.stderr)
        return early.code
    where = f"{shell.count(record.world_size, 'rank')} on {', '.join(record.hosts)}"
    print(f"ddpkit: run {record.run_id}: {where}; logs in {record.folder}/", file=sys.stderr)
    print(
        f"ddpkit: detached; ddpkit attach {record.run_id} shows it, ddpkit stop {record.run_id} ends it",
        file=sys.stderr,
    )
    print(json.dumps(asdict(record), indent=2) if as_json else record.run_id)
    return 0


def _carry(
    ready: Ready,
    settings: LaunchSettings,
    before: tuple[float, list[str]],
    *,
    detach: bool,
    as_json: bool,
    waits: str | None = None,
) -> int:
    """Carry out a plan, and show its lines. `waits`: see `ddpkit.run.tmux`."""
    from ddpkit.cli.console import open_screen
    from ddpkit.cli.signals import forward_signals
    from ddpkit.execution.lifecycle import RecordedRun
    from ddpkit.run import tmux

    session = tmux.expected_session(os.environ, ready.plan.run_id) if waits else None
    run = RecordedRun(ready, settings.log_dir, began=before[0], notes=before[1], leave=detach, session=session)
    if waits:
        if session:
            tmux.name_session(session, os.environ)
        tmux.announce_record(waits, run.record.folder)

    def end_on_broken_pipe() -> None:
        run.inbox.put((-1, signal.SIGPIPE))  # as for every other program at the head of a pipe, that is the end

    screen, relay = open_screen(ready.job, ready.plan, settings, run.folder, end_on_broken_pipe, as_json=as_json)
    run.announce(relay, hang_timeout=settings.hang_timeout)
    if not run.followed:
        relay.close()
        screen.close(None)
        print(json.dumps(asdict(run.record), indent=2) if as_json else run.record.run_id)
        return 0
    with forward_signals(run.inbox, suspend=screen.has_status):
        outcome = run.follow(relay, screen, hang_timeout=settings.hang_timeout, hang_action=settings.hang_action)
    outcome = run.finish(relay, outcome)
    relay.close()
    # A slow reader gets everything; the end of a run that was stopped does not wait for a reader that may never come.
    screen.close(2.0 if outcome.stopped_by is not None else None)
    code = _print_record(run, outcome.exit_code) if as_json else outcome.exit_code
    run.keep_metrics(settings.metrics)  # last: a slow file system may be searched
    if not (screen.out.open and screen.err.open):
        redirect_to_devnull(1, 2)
    return code


def _print_record(run: RecordedRun, code: int) -> int:
    """Print the record as JSON. Returns the exit code, 1 for a full disk in place of 0."""
    try:
        print(json.dumps(asdict(run.record), indent=2), flush=True)
    except BrokenPipeError:
        redirect_to_devnull(1)
    except OSError as error:  # a program that reads the record must not take it for whole
        _note(f"cannot write the record to standard output: {error.strerror}; it is {run.folder}/run.json")
        redirect_to_devnull(1)
        return code or 1
    return code
