"""`ddpkit launch`: from words on the command line to a run, its verdict and its record."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.cli.app import JsonFlag, LeanCommand, app, table
from ddpkit.errors import UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import Settings
    from ddpkit.plan import Job, Plan


@app.command(
    cls=LeanCommand,
    epilog="Everything behind `--` belongs to the script: `-- train.py ARGS`, `-- -m pkg.train ARGS`, or any program. "
    "Without `--`, the script comes from ddpkit.toml, else it is train.py in the current folder.",
)
def launch(
    context: typer.Context,
    hosts: Annotated[
        list[str] | None, typer.Argument(metavar="[HOST]...", help="The nodes, for backends that reach them by name.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option("-b", "--backend", metavar="NAME", help="See `ddpkit backends`.")
    ] = None,
    nproc_per_node: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--nproc-per-node",
            "--nproc_per_node",
            metavar="N|auto",
            help="Ranks per node; auto: one per visible GPU, else 1.",
        ),
    ] = None,
    nnodes: Annotated[str | None, typer.Option("-N", "--nnodes", metavar="N", help="Number of nodes.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", "--option", metavar="KEY=VALUE", help="An option of the backend.")
    ] = None,
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
    profile: Annotated[str | None, typer.Option(metavar="NAME", help="A profile of ddpkit.toml.")] = None,
    grace: Annotated[str | None, typer.Option(metavar="SECONDS", help="Time between TERM and KILL; 15.")] = None,
    log_dir: Annotated[str | None, typer.Option(metavar="DIR", help="Where the run's logs go; default: logs.")] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when a job is submitted, and do not follow it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run, as a script; run nothing.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print each setting and where it came from.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run a script on every rank; the first failure ends all."""
    from ddpkit import config

    flags: dict[str, Any] = {}
    for name, value in {"backend": backend, "workdir": workdir, "python": python, "log_dir": log_dir}.items():
        if value is not None:
            flags[name] = value
    if nproc_per_node is not None:
        flags["nproc_per_node"] = config.nproc(nproc_per_node, "-n ")
    if nnodes is not None:
        flags["nnodes"] = config.whole(nnodes, "-N ")
    if grace is not None:
        flags["grace"] = config.seconds(grace, "--grace ")
    if hosts:
        flags["hosts"] = hosts
    if option:
        flags["options"] = _pairs(option)
    if env:
        flags["env"] = _env(env, os.environ)
    if context.obj is not None:
        if not context.obj:
            raise UsageError("nothing stands behind `--`", "ddpkit launch -- train.py ARGS")
        flags["script"] = context.obj
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current folder is gone", "cd to one that is there") from None
    settings = config.settings(here, os.environ, profile, flags)
    if explain:
        _explain(settings, as_json)
        return
    raise typer.Exit(_launch(settings, detach=detach, dry_run=dry_run, as_json=as_json))


def _pairs(words: list[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"-o {word}: an option is given as KEY=VALUE", "ddpkit backends NAME lists the options")
        pairs[name] = value
    return pairs


def _env(words: list[str], environ: Mapping[str, str]) -> dict[str, str]:
    from ddpkit.config import check_env_name

    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        check_env_name(name)
        if not equals and name not in environ:
            raise UsageError(f"--env {name}: it is not set here", f"--env {name}=VALUE, or export {name}")
        found[name] = value if equals else environ[name]
    return found


def _explain(settings: Settings, as_json: bool) -> None:
    from ddpkit.plan import guard

    rows = [(name, str(guard(name, str(value))), source) for name, value, source in settings.rows()]
    if as_json:
        print(json.dumps([dict(zip(("name", "value", "source"), row, strict=True)) for row in rows], indent=2))
    else:
        table(("setting", "value", "from"), rows)


def _launch(settings: Settings, *, detach: bool, dry_run: bool, as_json: bool) -> int:
    from ddpkit import prepare, shell

    job, plan = prepare.prepare(settings, os.environ)
    alone = prepare.left_alone(settings, os.environ)
    if alone:
        print(
            f"ddpkit: {alone}, and these ranks run on this machine alone; on the job's nodes: -b slurm", file=sys.stderr
        )
    if not dry_run:
        return _carry(plan, job, settings["log_dir"], detach=detach, as_json=as_json)
    text = json.dumps(shell.plan_as_dict(plan), indent=2) + "\n" if as_json else str(plan)
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))  # words are bytes that need not be text
    sys.stdout.flush()
    return 0


def _carry(plan: Plan, job: Job, log_dir: str, *, detach: bool, as_json: bool) -> int:
    """Run a plan, relay its lines, print the verdict, keep the record."""
    from ddpkit import execute, runs, scheduler, shell
    from ddpkit import verdict as words
    from ddpkit.relay import Relay
    from ddpkit.screen import Screen

    if detach and plan.batch is None:
        raise UsageError("--detach leaves a submitted job, and this run is not one", "leave --detach out")
    folder = runs.make_folder(Path(log_dir), plan.run_id)
    try:
        execute.write_files(plan)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or folder}: {error.strerror}", "--log-dir DIR") from None
    job_id = scheduler.submit(plan.batch) if plan.batch else None
    record = runs.Run(
        run_id=plan.run_id,
        folder=str(folder.absolute()),
        backend=plan.backend,
        command=job.command,
        workdir=job.workdir,
        hosts=tuple(step.host for step in plan.steps),
        world_size=plan.world_size,
        launcher_pid=os.getpid(),
        launcher_started=runs.process_started(os.getpid()),
        launcher_host=os.uname().nodename,
        started=time.time(),
        job_id=job_id,
    )
    record.save()
    # With --json standard output holds one JSON document, and the ranks' lines go to standard error.
    stream = sys.stderr if as_json else sys.stdout
    inbox: execute.Inbox = queue.SimpleQueue()
    # Nobody reads any more: as for every other program at the head of a pipe, that is the end.
    screen = Screen(stream.buffer, sys.stderr.buffer, lambda: inbox.put((-1, signal.SIGPIPE)))
    relay = Relay(folder, screen.out, screen.err, colour=stream.isatty() and "NO_COLOR" not in os.environ)
    where = f"in job {job_id}" if job_id else f"on {', '.join(record.hosts)}"
    relay.note(f"ddpkit: run {plan.run_id}: {shell.count(plan.world_size, 'rank')} {where}; logs in {folder}/")
    if plan.batch and (detach or not plan.batch.follow):
        log = plan.batch.log.replace("{job}", str(job_id) if plan.batch.follow else f"{job_id}_*")
        relay.note(f"ddpkit: submitted; its output: {log}; to stop it: {' '.join(plan.batch.stop).format(job=job_id)}")
        relay.close()
        screen.close(None)
        if as_json:
            print(json.dumps(asdict(record), indent=2))
        return 0
    outcome = execute.carry(plan, relay, lambda step: scheduler.connect(plan, step, job_id), inbox, screen)
    stopped = "left" if plan.batch and outcome.failure is None else "stopped"
    state = stopped if outcome.stopped_by is not None else "failed" if outcome.failure else "done"
    verdict = words.verdict(outcome.failure) if outcome.failure else None
    for line in words.report(outcome):
        relay.note(f"ddpkit: {line}" if not line.startswith(("    ", "hint:")) else line)
    if state == "done":
        relay.note(f"ddpkit: done in {outcome.seconds:.1f} s")
    elif state == "stopped":
        relay.note(f"ddpkit: {words.stopped(outcome)}")
    record = replace(record, ended=time.time(), state=state, exit_code=outcome.exit_code, verdict=verdict)
    try:
        record.save()
    except OSError as error:
        relay.note(f"ddpkit: cannot write the record of this run: {error.strerror}: {error.filename}")
    relay.close()
    # Whoever reads slowly gets everything; whoever ended the run does not wait for a reader that may never come.
    screen.close(2.0 if outcome.stopped_by is not None else None)
    if as_json:
        print(json.dumps(asdict(record), indent=2))
    if not (screen.out.open and screen.err.open):
        # Python must not complain about it while it exits.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    return outcome.exit_code
