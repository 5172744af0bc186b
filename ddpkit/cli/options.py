"""Options that `launch`, `test`, `bench` and `emit` share, and the settings of their command lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from ddpkit.errors import UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from typing_extensions import Unpack

    from ddpkit.cli.app import CommandLine
    from ddpkit.config import Keywords, LaunchSettings

# Options of the commands that start ranks, with the same words of help.
Backend = Annotated[str | None, typer.Option("-b", "--backend", metavar="NAME", help="See `ddpkit backends`.")]
Options = Annotated[
    list[str] | None, typer.Option("-o", "--option", metavar="KEY=VALUE", help="An option of the backend.")
]
Nodes = Annotated[str | None, typer.Option("-N", "--nnodes", metavar="N", help="Number of nodes.")]
RanksPerNode = Annotated[str | None, typer.Option("-n", "--nproc-per-node", metavar="N|auto", help="Ranks per node.")]
Variables = Annotated[list[str] | None, typer.Option("--env", metavar="K[=V]", help="Set a variable for every rank.")]
Workdir = Annotated[str | None, typer.Option(metavar="DIR", help="The ranks' working folder.")]
Python = Annotated[str | None, typer.Option(metavar="PATH", help="The ranks' Python.")]
Profile = Annotated[str | None, typer.Option(metavar="NAME", help="A profile of ddpkit.toml.")]
Grace = Annotated[str | None, typer.Option(metavar="SECONDS", help="Time between TERM and KILL; 15.")]
Hostfile = Annotated[str | None, typer.Option(metavar="FILE", help="The nodes, one a line.")]
HostWords = Annotated[
    list[str] | None, typer.Argument(metavar="[HOST]...", help="The nodes, for backends that reach them by name.")
]
RanksAndHosts = Annotated[
    list[str] | None, typer.Argument(metavar="[N] [HOST]...", help="Ranks per node, then the nodes, if any.")
]


def launch_settings(context: typer.Context, profile: str | None, **flags: Unpack[Keywords]) -> LaunchSettings:
    """Collect the settings of a command line, its environment and its folder. Raises UsageError."""
    from ddpkit import config

    flags["hosts"] = flags.get("hosts") or None
    line: CommandLine = context.obj
    if line.script is not None:
        if not line.script:
            raise UsageError("nothing stands behind `--`", "ddpkit launch -- train.py ARGS")
        flags["script"] = line.script
    return config.collect_settings(config.current_folder(), os.environ, profile, flags)


def parse_options(words: list[str] | None) -> dict[str, str]:
    """Parse the `KEY=VALUE` words of `-o`. Raises UsageError."""
    options = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"-o {word}: an option is given as KEY=VALUE", "ddpkit backends NAME lists the options")
        options[name] = value
    return options


def parse_variables(words: list[str] | None) -> dict[str, str]:
    """Parse the `NAME=VALUE` words of `--env`. NAME without a value takes it from this environment."""
    from ddpkit import config

    variables = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        variables[name] = value if config.check_env_name(name) and equals else config.inherit_variable(name, os.environ)
    return variables


def ranks_and_hosts(words: list[str] | None, nproc_per_node: str | None) -> tuple[str | None, list[str]]:
    """`4 node1 node2`: ranks per node in front of the hosts. Raises UsageError where -n says them as well."""
    hosts = list(words or ())
    if not hosts or not hosts[0].isdecimal():
        return nproc_per_node, hosts
    if nproc_per_node is not None:
        raise UsageError(f"ranks per node were given twice: {hosts[0]} and -n {nproc_per_node}", "leave one out")
    return hosts[0], hosts[1:]
