"""From the words of a command line to settings: what `launch`, `test` and `bench` have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.errors import UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import Settings

# What commands that start ranks have in common on the command line, with the same words of help.
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


def chosen(
    context: typer.Context,
    profile: str | None,
    *,
    nproc_per_node: str | None = None,
    nnodes: str | None = None,
    grace: str | None = None,
    hang_timeout: str | None = None,
    hang_action: str | None = None,
    sync: bool = False,
    preflight: bool = True,
    header: bool = True,
    fold: str | None = None,
    hosts: list[str] | None = None,
    option: list[str] | None = None,
    env: list[str] | None = None,
    **plain: str | None,
) -> Settings:
    """The settings that a command line chose, over those of the environment and the file. Raises UsageError."""
    from ddpkit import config

    flags: dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
    if nproc_per_node is not None:
        flags["nproc_per_node"] = config.nproc(nproc_per_node, "-n ")
    if nnodes is not None:
        flags["nnodes"] = config.nnodes(nnodes, "-N ")
    if grace is not None:
        flags["grace"] = config.seconds(grace, "--grace ")
    if hang_timeout is not None:
        flags["hang_timeout"] = config.seconds(hang_timeout, "--hang-timeout ")
    if hang_action is not None:
        flags["hang_action"] = config.action(hang_action, "--hang-action ")
    if fold is not None:
        flags["fold"] = config.seconds(fold, "--fold ")
    if sync:
        flags["sync"] = True
    flags |= {name: False for name, on in (("preflight", preflight), ("header", header)) if not on}
    if hosts:
        flags["hosts"] = hosts
    if option:
        flags["options"] = config.pairs(option)
    if env:
        flags["env"] = config.variables(env, os.environ)
    if context.obj is not None:
        if not context.obj:
            raise UsageError("nothing stands behind `--`", "ddpkit launch -- train.py ARGS")
        flags["script"] = context.obj
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current folder is gone", "cd to one that is there") from None
    return config.settings(here, os.environ, profile, flags)


def ranks_and_hosts(words: list[str] | None, nproc_per_node: str | None) -> tuple[str | None, list[str]]:
    """`4 node1 node2`: ranks per node in front of the hosts. Raises UsageError where -n says them as well."""
    hosts = list(words or ())
    if not hosts or not hosts[0].isdecimal():
        return nproc_per_node, hosts
    if nproc_per_node is not None:
        raise UsageError(f"ranks per node were given twice: {hosts[0]} and -n {nproc_per_node}", "leave one out")
    return hosts[0], hosts[1:]
