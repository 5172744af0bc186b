"""Options that `launch`, `test` and `bench` share, and the settings of their command lines."""

from __future__ import annotations

import os
import shlex
import sys
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.cli.app import LeanCommand
from ddpkit.errors import UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from typing_extensions import Unpack

    from ddpkit.cli.app import CommandLine
    from ddpkit.config import Keywords, LaunchSettings
    from ddpkit.execution.requested_nodes import Queries

_META = "ddpkit.shared"
# Groups of options in the help.
NODES, RANKS, CHECKS, OUTPUT, LEAVE = "Where", "Ranks", "Before it runs", "While it runs", "Leave it running"
HEAL = "After a failure"


def flag(names: str, group: str, text: str, metavar: str | None = None) -> Any:
    """An option of the command line, in a group of its help."""
    return typer.Option(*names.split(), metavar=metavar, help=text, rich_help_panel=group)


# Options that only some of these commands have.
Grace = Annotated[str | None, flag("--grace", RANKS, "Time between SIGTERM and SIGKILL. [default: 15]", "SECONDS")]
LogDir = Annotated[str | None, flag("--log-dir", OUTPUT, "Directory of the logs. [default: logs]", "DIR")]
NoPreflight = Annotated[bool, flag("--no-preflight", CHECKS, "Continue although the nodes differ.")]
Sync = Annotated[
    str | None,
    flag("--sync", NODES, "First copy the working directory to the nodes with rsync.", "[=overwrite]"),
]
DryRun = Annotated[bool, flag("--dry-run", CHECKS, "Print what would run, as a script; run nothing.")]
Survey = Annotated[
    bool, flag("--survey", CHECKS, "With --dry-run: also query nodes that only a file or a variable names.")
]
HostWords = Annotated[
    list[str] | None, typer.Argument(metavar="[HOST]...", help="The nodes, for backends with named nodes.")
]
RanksAndHosts = Annotated[
    list[str] | None, typer.Argument(metavar="[N] [HOST]...", help="Ranks per node, then the nodes, if any.")
]


def _request(
    backend: Annotated[
        str | None, flag("-b --backend", NODES, "local, ssh, slurm, ...: see `ddpkit backends`.", "NAME")
    ] = None,
    nnodes: Annotated[str | None, flag("-N --nnodes", NODES, "Number of nodes.", "N|MIN:MAX")] = None,
    hostfile: Annotated[
        str | None, flag("--hostfile", NODES, "Read the nodes from FILE, one per line: `node1 slots=4`.", "FILE")
    ] = None,
    option: Annotated[
        list[str] | None, flag("-o --option", NODES, "Set an option of the backend; also `--key VALUE`.", "KEY=VALUE")
    ] = None,
    profile: Annotated[str | None, flag("--profile", NODES, "Use a profile of ddpkit.toml.", "NAME")] = None,
    nproc_per_node: Annotated[
        str | None,
        flag(
            "-n --nproc-per-node",
            RANKS,
            "Ranks per node; 4,8,8: of each node. [default: 1 per visible GPU, else 1]",
            "N|N,...|auto",
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        flag("--env", RANKS, "Set a variable for every rank, or pass on a variable of this shell.", "K[=V]"),
    ] = None,
    workdir: Annotated[
        str | None, flag("--workdir", RANKS, "Working directory of the ranks. [default: this one]", "DIR")
    ] = None,
    python: Annotated[
        str | None, flag("--python", RANKS, "Python of the ranks. [default: the one that runs ddpkit]", "PATH")
    ] = None,
) -> None:
    """Declare the options that all of these commands have."""


@cache
def _shared_parameters() -> list[Any]:
    """The parameters that typer makes of `_request`: once for all commands, because that takes as long as a command."""
    shared = typer.Typer(add_completion=False)
    shared.command(cls=LeanCommand)(_request)
    command: Any = typer.main.get_command(shared)
    return list(command.params)


_OF_BACKENDS = (
    ("--starter NAME", "Start the ranks of a node with ranks, torchrun or legacy. (local, ssh, pdsh)"),
    ("--preload[=MODULES]", "Import torch, or MODULES, once; then fork the ranks. (not slurm-torchrun)"),
    ("--container IMAGE", "Run the ranks in a container."),
    ("-p, --partition NAME", "Partition, and so on with sbatch's names and letters: -A, -q, -t, -C, -w, -x. (slurm)"),
    ("-t, --time LIMIT", "Time limit: minutes, HH:MM:SS or D-HH:MM:SS. (slurm)"),
    ("--gpus-per-node N", "GPUs of each node; without -n also its ranks. (slurm)"),
)


class LaunchCommand(LeanCommand):
    """A command that starts ranks: its own options, and the shared ones, which `launch_settings` reads."""

    def __init__(self, *args: Any, params: list[Any], **rest: Any) -> None:
        shared = _shared_parameters()
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
        return super().collect_usage_pieces(ctx) + ["[--] SCRIPT [ARG]..."] * (self.name == "launch")


def launch_settings(context: typer.Context, words: list[str] | None, **own: Unpack[Keywords]) -> LaunchSettings:
    """Collect the settings of a command line, its environment and its directory. Raises UsageError.

    `own`: those of options that only this command has.
    """
    from ddpkit import config

    shared = dict(context.meta[_META])
    profile, options = shared.pop("profile"), parse_options(shared.pop("option"))
    flags: Keywords = {**shared, **own, "options": options, "env": parse_variables(shared["env"])}
    hosts, command = list(words or ()), context.command.name
    if command != "launch" and hosts and hosts[0].isdecimal():  # `test 4 node1 node2`
        if flags["nproc_per_node"] is not None:
            what = f"ranks per node were passed twice: {hosts[0]} and -n {flags['nproc_per_node']}"
            raise UsageError(what, f"ddpkit {command} -n {shlex.quote(hosts[0])}")
        flags["nproc_per_node"] = hosts.pop(0)
    flags["hosts"] = hosts or None
    line: CommandLine = context.obj
    if line.script is not None:
        if not line.script:
            raise UsageError("no script after `--`", "ddpkit launch -- train.py")
        flags["script"] = line.script
    if "DDPKIT_DETACHED" not in os.environ:  # else the parent has printed them
        for warning in config.unknown_variables(os.environ):
            print(f"ddpkit: warning: {warning}", file=sys.stderr)
    settings = config.collect_settings(config.current_folder(), os.environ, profile, flags)
    return config.choose_python(settings, os.environ)


def queries(*, dry_run: bool, survey: bool) -> Queries:
    """The nodes that a command may query. Raises UsageError."""
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
