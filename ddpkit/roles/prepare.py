"""Roles of a launch from its settings: their hosts, and a plan for each replica. Starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ddpkit.config import SETTINGS, LaunchSettings, current_folder
from ddpkit.errors import UsageError
from ddpkit.execution import prepare, requested_nodes
from ddpkit.execution.requested_nodes import Queries, Wanted
from ddpkit.roles.place import nodes_needed, place
from ddpkit.roles.run import Prepared
from ddpkit.roles.spec import Role, parse_roles


def read_roles(settings: LaunchSettings) -> tuple[Role, ...]:
    """Return the roles of a launch. Raises UsageError."""
    return parse_roles(settings.roles, settings.roles_from or Path(settings.file).name or "roles", SETTINGS)


@contextmanager
def prepare_roles(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    queries: Queries = Queries.ALL,
) -> Iterator[Prepared]:
    """Place and prepare all replicas. Connections of those that did not start are closed at the end.

    Raises DdpkitError for what cannot run.
    """
    roles = read_roles(settings)
    chosen, backend = prepare.transport_of(settings), prepare.build_backend(settings)
    current_folder()
    if chosen.slurm:
        _check_one_request(roles)
    with requested_nodes.hold_nodes(
        settings, backend, chosen, environ, _wanted(roles, settings), note, queries
    ) as held:
        prepared = Prepared(roles, place(roles, held.hosts, held.gpus, held.cpus), settings, held, note)
        prepared.prepare(queries)
        try:
            yield prepared
        finally:
            prepared.close()


def _check_one_request(roles: Sequence[Role]) -> None:
    """Refuse a role that requests nodes of its own kind: all roles share one allocation. Raises UsageError."""
    from ddpkit.launchers.slurm import requested_options

    of_request = {*requested_options(), "sbatch", "hetjob", "new_job"} - {"array"}  # which roles do not have at all
    for role in roles:
        options = role.settings.get("options")
        for name in options if isinstance(options, Mapping) else ():
            if str(name).replace("-", "_") in of_request:
                what = f"roles.{role.name}.options.{name}: all roles share one allocation"
                raise UsageError(what, f"set {name} in [options], for all of them")


def _wanted(roles: Sequence[Role], settings: LaunchSettings) -> Wanted:
    """What all roles need of a scheduler: their nodes, ports, and the ranks of the node with most."""

    def ranks(role: Role) -> int:
        """Ranks of a node of a role; or its CPUs if these are more: a scheduler gives each rank a CPU."""
        number = role.settings.get("nproc_per_node", settings.nproc_per_node)
        of_node = number if isinstance(number, int) else max(1, role.gpus or 1)
        return max(of_node, role.cpus or 0)

    most = max(ranks(role) + sum(ranks(each) for each in roles if each.beside == role.name) for role in roles)
    ports = sum(role.replicas for role in roles if role.needs_port)
    return Wanted(name=settings.name or roles[-1].name, nodes=nodes_needed(roles), ranks=most, ports=ports)
