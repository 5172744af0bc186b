"""`ddpkit nodes`: list the nodes that launches avoid, check them again, or forgive them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from ddpkit.cli import look
from ddpkit.cli.app import JsonFlag, LeanCommand, app, print_json
from ddpkit.errors import DdpkitError, PreflightError, UsageError

if TYPE_CHECKING:
    from ddpkit.config import LaunchSettings
    from ddpkit.run.bad_nodes import BadNode

_HEAD = ("NODE", "SINCE", "FORGOTTEN IN", "RUN", "REASON", "EVIDENCE")


@app.command(
    cls=LeanCommand,
    epilog="""A launch remembers a node whose own fault ended a run. A later launch warns, and a SLURM job excludes it.
ddpkit nodes
ddpkit nodes check          # test each bad node, and forgive those that pass
ddpkit nodes forgive node2""",
)
def nodes(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[check|forgive] [NODE]...", help="The action, and its nodes. [default: list them]"),
    ] = None,
    everything: Annotated[bool, typer.Option("-a", "--all", help="Forgive all nodes.")] = False,
    backend: Annotated[
        str | None, typer.Option("-b", "--backend", metavar="NAME", help="Check through this backend. [default: ssh]")
    ] = None,
    bad_nodes: Annotated[
        str | None, typer.Option("--bad-nodes", metavar="FILE", help="Use FILE. [default: one for each user]")
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="Use a profile of ddpkit.toml.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done; change nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List bad nodes, check them again, or forgive them."""
    from ddpkit import config
    from ddpkit.run import bad_nodes as memory

    action, *hosts = words or ["list"]
    if action not in ("list", "check", "forgive"):
        raise UsageError(f"action {action!r} not found", "ddpkit nodes check, or ddpkit nodes forgive NODE")
    if action == "forgive" and bool(hosts) == everything:
        what = "--all and NODE exclude each other" if hosts else "no node given"
        raise UsageError(what, "ddpkit nodes forgive NODE, or ddpkit nodes forgive --all --dry-run")
    if everything and action != "forgive":
        raise UsageError(f"{action} does not accept --all", "ddpkit nodes forgive --all")
    given: config.Keywords = {"backend": backend, "bad_nodes": bad_nodes}
    settings = config.collect_settings(config.current_folder(), os.environ, profile, given)
    listed = memory.known(settings.bad_nodes, time.time())
    if listed.problem and action != "list":
        raise DdpkitError(listed.problem, "ddpkit nodes --bad-nodes FILE")
    if listed.problem:
        print(f"ddpkit: warning: {listed.problem}", file=sys.stderr)
    chosen = [node for node in listed.nodes if not hosts or memory.matching(hosts, [node])]
    unknown = [host for host in hosts if not memory.matching([host], listed.nodes)]
    if unknown:
        raise UsageError(f"{', '.join(unknown)}: not in the list of bad nodes", "ddpkit nodes")
    failed = (
        []
        if action != "check" or dry_run
        else _check(chosen, config.choose_python(settings, os.environ), quiet=as_json)
    )
    removed = [] if action == "list" else [node for node in chosen if node.host not in failed]
    if removed and not dry_run:
        removed = memory.forgive(settings.bad_nodes, [node.host for node in removed], time.time())
    left = [node for node in listed.nodes if dry_run or node not in removed]
    if as_json:
        document = {"file": str(memory.file_of(settings.bad_nodes)), "dry_run": dry_run}
        print_json("nodes", {**document, "nodes": list(map(asdict, left)), "removed": list(map(asdict, removed))})
    else:
        _show(action, left, removed, dry_run=dry_run)
    raise typer.Exit(PreflightError.exit_code if failed else 0)


def _show(action: str, left: Sequence[BadNode], removed: Iterable[BadNode], *, dry_run: bool) -> None:
    from ddpkit.run.status import age

    now = time.time()
    if action == "list" and left:
        rows = [
            (
                node.host,
                time.strftime("%Y-%m-%d %H:%M", time.localtime(node.since)),
                age(node.until - now),
                node.run_id,
                node.reason,
                node.evidence,
            )
            for node in left
        ]
        look.table(_HEAD, rows)
    elif not left and not removed:
        print("no bad nodes", file=sys.stderr)
    verb = "check" if action == "check" else "forgive"
    for node in removed:
        print(f"would {verb} {node.host}" if dry_run else f"forgave {node.host}")


def _check(bad: Iterable[BadNode], settings: LaunchSettings, *, quiet: bool) -> list[str]:
    """Run the preflight on each node alone, so that one cannot fail for another. Returns the hosts that failed."""
    from ddpkit.cli.signals import forward_signals
    from ddpkit.cli.test import end_by_signals, show_report
    from ddpkit.preflight import run

    end_by_signals()
    failed = []
    for node in bad:
        line = look.StatusLine()
        options = run.parse_options(
            quick=False,
            full=False,
            ranks=True,
            timeout=None,
            progress=line.say,
            note=line.note,
            signals=forward_signals,
        )
        line.note(f"checking {node.host}")
        report = run.run_preflight(_settings_of(settings, node.host), os.environ, options)
        line.clear()
        if not quiet:
            show_report(report)
        if not (report.ok and report.hosts):
            failed.append(node.host)
    return failed


def _settings_of(settings: LaunchSettings, host: str) -> LaunchSettings:
    """Return the settings of a test of one host."""
    from ddpkit.execution.prepare import transport_of

    transport = transport_of(settings)
    if transport.slurm:
        options = {**settings.options, "nodelist": host, "exclude": ""}
        return replace(settings, hosts=(), hostfile="", nnodes=1, options=options)
    if not transport.names_nodes:
        settings = replace(settings, backend="ssh", options={})
    return replace(settings, hosts=(host,), hostfile="", nnodes=None)
