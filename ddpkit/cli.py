"""The command line: the only module that imports typer, and the only one that prints."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from ddpkit import __version__
from ddpkit.errors import DdpkitError, UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import Settings
    from ddpkit.plan import Job, Plan


def _as_they_come(parameters: list[Any]) -> list[Any]:
    """Take parameters without conversion: all of ours are text, lists of text, or flags.

    Typer from 0.27 converts values with pydantic. Importing that takes longer than everything else that a launch does
    before its ranks start.
    """
    for parameter in parameters:
        many = parameter.nargs == -1 or getattr(parameter, "multiple", False)
        parameter.process_value = partial(_taken, parameter, () if many else None)
    return parameters


def _taken(parameter: Any, missing: Any, context: Any, value: Any) -> Any:
    value = missing if value is None else value
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


class LeanCommand(typer.core.TyperCommand):
    """A command whose parameters cost no import."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _as_they_come(super().get_params(ctx))


class LeanGroup(typer.core.TyperGroup):
    """The same for `ddpkit` itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _as_they_come(super().get_params(ctx))


app = typer.Typer(
    name="ddpkit",
    help="Start an unmodified PyTorch script on every rank, and know at once why it failed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help, at once: the boxes cost as much time as everything else
    context_settings={"help_option_names": ["-h", "--help"]},
)


JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


def run(argv: list[str]) -> int:
    """Run one command line. Returns the exit code (see `ddpkit.errors`)."""
    # Everything behind the first `--` belongs to the script. Typer would take the `--` away.
    head, tail = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, None)
    try:
        app(args=head, obj=tail, prog_name="ddpkit")
    except DdpkitError as error:
        print(f"ddpkit: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BrokenPipeError:
        # Somebody like `head` read enough. Python must not complain about it while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    return 0


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ddpkit {__version__}")
        raise typer.Exit


@app.callback(cls=LeanGroup)
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass


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
        _table(("setting", "value", "from"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*head, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    # In a pipe nothing is cut to a width that nobody has.
    Console(width=None if sys.stdout.isatty() else 1000, highlight=False).print(table)


def _launch(settings: Settings, *, detach: bool, dry_run: bool, as_json: bool) -> int:
    from ddpkit import prepare, shell

    job, plan = prepare.prepare(settings, os.environ)
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
    execute.write_files(plan)
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
        relay.note(f"ddpkit: submitted; to stop it: {' '.join(plan.batch.stop).format(job=job_id)}")
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


@app.command(cls=LeanCommand)
def backends(
    name: Annotated[str | None, typer.Argument(help="Show one backend with all its options.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the backends, what they need, and their options."""
    from ddpkit import launchers

    chosen = [launchers.load(each) for each in ([name] if name else launchers.names())]
    described = [
        {
            "name": each.name,
            "summary": (each.__doc__ or "").partition("\n")[0],
            "needs": each.needs,
            "options": [
                {"name": entry.name, "values": entry.values, "default": entry.default, "doc": entry.doc}
                for entry in launchers.options(each)
            ],
        }
        for each in chosen
    ]
    if as_json:
        print(json.dumps(described, indent=2))
    elif name is None:
        _table(("backend", "what it does", "needs"), [(d["name"], d["summary"], d["needs"]) for d in described])
    else:
        one = described[0]
        print(f"{one['name']}: {one['summary']}\nneeds: {one['needs']}")
        rows = [(f"-o {e['name']}=", e["values"], _shown(e["default"]), e["doc"]) for e in one["options"]]
        _table(("option", "values", "default", "what it does"), rows)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@app.command(name="env", cls=LeanCommand)
def show_env(
    as_json: JsonFlag = False,
    explain: Annotated[bool, typer.Option("--explain", help="Also say which sources were not used, and why.")] = False,
) -> None:
    """Show who this process is among its peers, and why."""
    from ddpkit.distributed.torch import explain as explain_environment
    from ddpkit.distributed.torch import gather_facts

    found = explain_environment(os.environ, (), gather_facts(os.environ))
    if as_json:
        print(
            json.dumps(
                {
                    "env": None if found.env is None else {**asdict(found.env), "origin": dict(found.env.origin)},
                    "error": None if found.error is None else found.error.message,
                    "hint": None if found.error is None else found.error.hint,
                    "seen": dict(found.seen),
                    "rejected": [asdict(entry) for entry in found.rejected],
                },
                indent=2,
            )
        )
    elif found.env is not None:
        values = {name: value for name, value in asdict(found.env).items() if name != "origin"}
        rows = [(name, _shown(value), found.env.origin.get(name, "")) for name, value in values.items()]
        _table(("field", "value", "from"), rows)
    if explain and not as_json:
        _table(("not used", "why"), [(entry.source, entry.reason) for entry in found.rejected])
        _table(("variable seen", "value"), list(found.seen.items()))
    if found.error is not None:
        if as_json:
            raise typer.Exit(found.error.exit_code)
        raise found.error
