"""Roles of a launch from its settings: their hosts, and a plan for each replica. Starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ddpkit.config import SETTINGS, LaunchSettings, current_folder, overlaid
from ddpkit.errors import UsageError
from ddpkit.execution import prepare, requested_nodes
from ddpkit.execution.requested_nodes import Component, Queries, Wanted
from ddpkit.launchers.registry import Launcher
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
    kinds = _by_kind_of_nodes(roles, settings) if chosen.slurm else [roles]
    with requested_nodes.hold_nodes(
        settings, backend, chosen, environ, _wanted(roles, kinds, settings), note, queries
    ) as held:
        places = place(roles, held.hosts, held.gpus, held.cpus, kinds, held.groups)
        prepared = Prepared(roles, places, settings, held, note)
        prepared.prepare(queries)
        try:
            yield prepared
        finally:
            prepared.close()


def _backend_of(role: Role, settings: LaunchSettings) -> Launcher:
    """The backend with the options of a role. Raises UsageError."""
    given = {name: value for name, value in role.settings.items() if name == "options"}
    return prepare.build_backend(overlaid(settings, given, f"roles.{role.name}"))


def _by_kind_of_nodes(roles: Sequence[Role], settings: LaunchSettings) -> list[list[Role]]:
    """Put roles together whose options request nodes of one kind: each kind is a component of a heterogeneous job.

    A role beside another one has its nodes. Raises UsageError.
    """
    from ddpkit.launchers.slurm import requested_options

    kinds: dict[tuple[object, ...], list[Role]] = {}
    requests: dict[str, dict[str, object]] = {}
    for role in sorted(roles, key=lambda role: bool(role.beside)):
        options = role.settings.get("options")
        own = [str(name).replace("-", "_") for name in options] if isinstance(options, Mapping) else []
        if "new_job" in own:
            what = f"roles.{role.name}.options.new_job: it holds for the whole run"
            raise UsageError(what, "set new_job in [options]")
        backend = _backend_of(role, settings)
        request = {name: getattr(backend, name) for name in (*requested_options(), "sbatch", "cpus_per_task", "hetjob")}
        requests[role.name] = request
        if not role.beside:
            kinds.setdefault(tuple(request.values()), []).append(role)
            continue
        for name in own:
            if name != "cpus_per_task" and name in request and request[name] != requests[role.beside][name]:
                what = f"roles.{role.name}.options.{name}: it has the nodes of {role.beside}"
                raise UsageError(what, f"set {name} in [roles.{role.beside}.options]")
    return [*kinds.values()]


def _wanted(roles: Sequence[Role], kinds: Sequence[Sequence[Role]], settings: LaunchSettings) -> Wanted:
    """What all roles need of a scheduler: their nodes, ports, and the ranks of the node with most."""
    from ddpkit.launchers.slurm import Slurm

    def ranks(role: Role, gpus: int) -> int:
        """Ranks of a node of a role; or its CPUs if these are more: a scheduler gives each rank a CPU."""
        number = role.settings.get("nproc_per_node", settings.nproc_per_node)
        of_node = number if isinstance(number, int) else max(1, gpus if role.gpus is None else role.gpus)
        return max(of_node, role.cpus or 0)

    def on_node(role: Role, gpus: int) -> int:
        return ranks(role, gpus) + sum(ranks(each, gpus) for each in roles if each.beside == role.name)

    components = []
    for alike in kinds:
        backend = _backend_of(alike[0], settings)
        gpus = backend.gpus_on_node() if isinstance(backend, Slurm) else 0
        most = max(on_node(role, gpus) for role in alike if not role.beside)
        components.append(Component(nodes_needed(alike), most, backend))
    ports = sum(role.replicas for role in roles if role.needs_port)
    return Wanted(name=settings.name or roles[-1].name, components=components, ports=ports)
