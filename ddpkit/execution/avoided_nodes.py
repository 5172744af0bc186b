"""Bad nodes in a launch: a named host gets a warning, and a SLURM job excludes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from ddpkit.config import LaunchSettings
from ddpkit.launchers.plan import Request
from ddpkit.launchers.registry import Launcher
from ddpkit.launchers.shell import quote
from ddpkit.run import bad_nodes
from ddpkit.run.bad_nodes import BadNode, Known
from ddpkit.transports.transport import Transport


def read(settings: LaunchSettings, note: Callable[[str], None]) -> Known:
    """Return the remembered nodes, and note why they cannot be read."""
    listed = bad_nodes.known(settings.bad_nodes, time.time())
    if listed.problem:
        note(f"warning: {listed.problem}")
    return listed


def warn(settings: LaunchSettings, hosts: Collection[str], note: Callable[[str], None]) -> None:
    """Note each of these hosts that is bad. It is used all the same: the user named it."""
    for host, node in bad_nodes.matching(hosts, read(settings, note).nodes):
        note(f"warning: {host} is a bad node: {node.describe()}; if it is repaired: {_forgive(settings, host)}")


def exclude(
    backend: Launcher,
    request: Request,
    settings: LaunchSettings,
    note: Callable[[str], None],
    transport: Transport,
) -> Launcher:
    """Return the backend of a job that excludes the bad nodes. Nodes of an allocation only get a warning."""
    from ddpkit.launchers.slurm import Slurm

    if request.allocation is not None:
        warn(settings, request.allocation.hosts, note)
        return backend
    listed = read(settings, note).nodes
    if not listed or not isinstance(backend, Slurm):
        return backend
    from ddpkit.transports import slurm_nodes

    nodes = slurm_nodes.partition_nodes(backend.partition, transport.machine)
    if not nodes:
        note("warning: sinfo does not list the nodes of the partition: bad nodes are not excluded")
        return backend
    by_name = dict(bad_nodes.matching(nodes, listed))
    chosen = slurm_nodes.choose_excluded(
        list(by_name),
        nodes,
        nnodes=request.nnodes or len(request.hosts) or len(request.counts) or 1,
        nodelist=backend.nodelist or ",".join(request.hosts),
        exclude=backend.exclude,
        sbatch=backend.sbatch,
    )
    for host, against in chosen.items():
        note(_line(host, by_name[host], against, settings))
    added = [host for host, against in chosen.items() if not against]
    return replace(backend, exclude=",".join(filter(None, [backend.exclude, *added]))) if added else backend


def _line(host: str, node: BadNode, against: str, settings: LaunchSettings) -> str:
    if not against:
        return f"excludes {host}: {node.describe()}; if it is repaired: {_forgive(settings, host)}"
    return (
        f"warning: {host} is a bad node: {node.describe()}; it is not excluded: {against}; "
        f"if it is repaired: {_forgive(settings, host)}"
    )


def _forgive(settings: LaunchSettings, host: str) -> str:
    given = settings.bad_nodes if settings.is_given("bad_nodes") else ""
    return f"ddpkit nodes forgive {host}" + (f" --bad-nodes {quote(given)}" if given else "")
