"""Options that `launch`, `test` and `bench` share, the settings of their command lines, and signals for their ranks."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from inspect import Parameter, Signature
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import typer

from ddpkit.cli import completion
from ddpkit.cli.app import LeanCommand, note, option
from ddpkit.errors import UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.cli.line import Line
    from ddpkit.config import Keywords, LaunchSettings
    from ddpkit.execution.requested_nodes import Queries


_META = "ddpkit.shared"
# Groups of options in the help.
NODES, RANKS, CHECKS, OUTPUT, LEAVE = "Where", "Ranks", "Before it runs", "While it runs", "Leave it running"


# The settings with a flag, in the groups of the help. The flags are in the table of settings, `config.LaunchSettings`.
_GROUPS = {
    NODES: ("backend", "nnodes", "hostfile", "options", "sync"),
    RANKS: ("nproc_per_node", "env", "workdir", "python", "grace"),
    CHECKS: ("preflight", "hold"),
    OUTPUT: ("log_dir", "hang_timeout", "slow_action", "observe", "retries", "spares"),
    LEAVE: ("name",),
}
# Of those, the ones of every command that starts ranks.
_SHARED = ("backend", "nnodes", "hostfile", "options", "nproc_per_node", "env", "workdir", "python")
_LISTS = ("options", "env")  # their flags can be repeated
_COMPLETED = {"backend": completion.backends, "options": completion.options}
KEYWORDS = "--settings-as-json"  # of a detached launch by `ddpkit.launch`: settings without a flag, as JSON

DryRun = Annotated[bool, option("--dry-run", "Print what would run, as a script; run nothing.", group=CHECKS)]
Survey = Annotated[bool, option("--survey", "With --dry-run: query also nodes of a file or a variable.", group=CHECKS)]
HostWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[HOST]...",
        help="Nodes, for backends with named nodes.",
        rich_help_panel=NODES,
        autocompletion=completion.hosts,
    ),
]
RanksAndHosts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[N] [HOST]...",
        help="Ranks per node; nodes, if any.",
        rich_help_panel=NODES,
        autocompletion=completion.hosts,
    ),
]


@cache
def _setting_parameters(names: tuple[str, ...]) -> list[Any]:
    """The parameters that typer makes of the flags of settings: once for all commands, because that takes long."""

    def declare(**_: Any) -> None:
        """Have the flags as parameters."""

    from ddpkit.config import SETTINGS

    kinds: dict[str, Any] = {}
    for title, group in _GROUPS.items():
        for name in group:
            if name in names:
                setting = SETTINGS[name]
                kind = list[str] | None if name in _LISTS else str | None if setting.placeholder else bool
                made = option(
                    " ".join(setting.spellings), setting.help, setting.placeholder, title, _COMPLETED.get(name)
                )
                kinds[name] = Annotated[kind, made]
    kinds["profile"] = Annotated[
        str | None, option("--profile", "Use a profile of ddpkit.toml.", "NAME", NODES, completion.profiles)
    ]
    kinds["keywords"] = Annotated[str | None, typer.Option(KEYWORDS, hidden=True)]
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kinds[name]) for name in kinds]
    declare.__annotations__, declare.__dict__["__signature__"] = kinds, Signature(parameters)
    shared = typer.Typer(add_completion=False)
    shared.command(cls=LeanCommand)(declare)
    command: Any = typer.main.get_command(shared)
    return list(command.params)


_OF_BACKENDS = (
    ("--starter NAME", "Start the ranks with ranks, torchrun or legacy."),
    ("--preload[=MODULES]", "Import torch, or MODULES, once; then fork the ranks."),
    ("--container IMAGE", "Run the ranks in a container."),
    ("-p, --partition NAME", "Partition; also other options of sbatch. (slurm)"),
    ("-t, --time LIMIT", "Time limit: minutes, HH:MM:SS or D-HH:MM:SS. (slurm)"),
    ("--gpus-per-node N", "GPUs of each node; without -n also its ranks. (slurm)"),
)


class LaunchCommand(LeanCommand):
    """A command that starts ranks: its own options, and the flags of settings, which `launch_settings` reads."""

    def __init__(self, *args: Any, settings: tuple[str, ...], params: list[Any], **rest: Any) -> None:
        shared = _setting_parameters((*_SHARED, *settings))
        arguments = [each for each in params if each.param_type_name == "argument"]
        own = [each for each in params if each.param_type_name == "option"]
        super().__init__(*args, params=[*arguments, *shared, *own], **rest)
        self.shared = [each.name for each in shared]

    def invoke(self, ctx: Any) -> Any:
        ctx.meta[_META] = {name: ctx.params.pop(name) for name in self.shared}
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        with formatter.section("Options of the backend, a few of them (all: ddpkit backends NAME)"):
            formatter.write_dl(_OF_BACKENDS)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return super().collect_usage_pieces(ctx) + ["[--] SCRIPT [ARG]..."] * (self.name in ("launch", "drill"))


def launch_command(*settings: str) -> Any:
    """The class of a command that starts ranks, with the flags of these settings beside the ones that all have."""
    return partial(LaunchCommand, settings=settings)


# `launch` has every flag.
WHOLE_LAUNCH = launch_command(*(name for group in _GROUPS.values() for name in group if name not in _SHARED))


def launch_settings(context: typer.Context, words: list[str] | None, roles: str | None = None) -> LaunchSettings:
    """Collect the settings of a command line, its environment and its directory. Raises UsageError."""
    from ddpkit import config

    typed: Any = dict(context.meta[_META])
    profile, text = typed.pop("profile"), typed.pop("keywords") or "{}"
    try:
        keywords = dict(json.loads(text))
    except (ValueError, TypeError):
        raise UsageError(f"{KEYWORDS} {text}: is not a JSON object", "ddpkit launch --help") from None
    tables = keywords.pop("roles", None)
    typed |= {"options": parse_options(typed["options"]), "env": parse_variables(typed["env"])}
    for name in ("preflight", "hold"):  # their flags are --no-preflight and --no-hold
        typed[name] = False if typed.get(name) else None
    flags = cast("Keywords", {**typed, **keywords})
    hosts, command = list(words or ()), context.command.name
    if command != "launch" and hosts and hosts[0].isdecimal():  # `test 4 node1 node2`
        if flags["nproc_per_node"] is not None:
            what = f"ranks per node were passed twice: {hosts[0]} and -n {flags['nproc_per_node']}"
            raise UsageError(what, f"ddpkit {command} -n {shlex.quote(hosts[0])}")
        flags["nproc_per_node"] = hosts.pop(0)
    flags["hosts"] = hosts or None
    line: Line = context.obj
    if line.script is not None:
        if not line.script:
            raise UsageError("no script after `--`", "ddpkit launch -- train.py")
        flags["script"] = line.script
    if "DDPKIT_DETACHED" not in os.environ:  # else the parent has printed them
        for warning in config.unknown_variables(os.environ):
            note(f"warning: {warning}")
    if roles is not None and line.script is not None:
        raise UsageError(f"--roles {roles} and a script: each role has its own command", "remove -- and the script")
    settings = config.collect_settings(config.current_folder(), os.environ, profile, flags, roles=roles)
    if tables is not None:
        settings = replace(settings, roles=tables, roles_from="launch()")
    return config.choose_python(settings, os.environ)


def typed_settings(context: typer.Context, words: list[str] | None) -> tuple[str, ...]:
    """Return the flags of settings as they were typed, and the nodes: words of another command line."""
    from ddpkit.config import SETTINGS

    found: list[str] = []
    no_settings = {"profile": "--profile", "keywords": KEYWORDS}
    for name, value in context.meta[_META].items():
        flag = no_settings.get(name) or next(each for each in SETTINGS[name].spellings if each.startswith("--"))
        if value is True:
            found.append(flag)
        elif value:
            found += [f"{flag}={each}" for each in (value if isinstance(value, (list, tuple)) else [value])]
    return (*found, *(words or ()))


def queries(*, dry_run: bool, survey: bool) -> Queries:
    """Return the nodes that a command may query. Raises UsageError."""
    from ddpkit.execution.requested_nodes import Queries

    if survey and not dry_run:
        raise UsageError("--survey has no effect without --dry-run", "add --dry-run")
    return Queries.ALL if not dry_run else Queries.SURVEY if survey else Queries.TYPED


def parse_options(words: list[str] | None) -> dict[str, str]:
    """Parse the `KEY=VALUE` words of `-o`. Raises UsageError."""
    options = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"-o {word}: must be KEY=VALUE", "ddpkit backends NAME")
        options[name] = value
    return options


def parse_variables(words: list[str] | None) -> dict[str, str | None]:
    """Parse the `NAME=VALUE` words of `--env`. None for NAME without a value: that of this environment."""
    variables: dict[str, str | None] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        variables[name] = value if equals else None
    return variables


EXITING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_by_signals() -> None:
    """While no rank runs, these end the command like an error: connections are closed, and a job that waits ends.

    Under nohup HUP does not.
    """

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    for number in EXITING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


# These end the run; a second one ends it at once.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class TakesSignals(Protocol):
    """The inbox of a run."""

    def put(self, item: tuple[int, int], /) -> None: ...


@contextmanager
def forward_signals(inbox: TakesSignals, *, suspend: bool = False) -> Iterator[None]:
    """Put signals into the inbox of a run (`SimpleQueue.put` is safe in a handler). `suspend`: Ctrl-Z as well."""
    from ddpkit.execution.executor import PASSED_ON
    from ddpkit.transports.protocol import ASK, LOOK

    def handle(number: int, _: FrameType | None) -> None:
        inbox.put((-1, number))

    before = {}
    for number in (*ENDING, *PASSED_ON, ASK, LOOK, *([signal.SIGTSTP] if suspend else [])):
        # Under nohup HUP is ignored, and stays so.
        if signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
