"""Roles of a launch from its settings: their hosts, and a plan for each replica. Starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ddpkit.config import SETTINGS, LaunchSettings, current_folder
from ddpkit.errors import UsageError
from ddpkit.execution import prepare, requested_nodes
from ddpkit.execution.requested_nodes import Queries
from ddpkit.launchers.nodes import NodeOptions
from ddpkit.roles.place import place
from ddpkit.roles.run import Prepared
from ddpkit.roles.spec import parse_roles
from ddpkit.transports import this_machine
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.slurm_nodes import short_hostname


def wanted(settings: LaunchSettings) -> bool:
    """Tell whether a launch is one of roles: they are in the file, and nobody gave a script."""
    return bool(settings.roles) and not settings.is_given("script")


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
    file = Path(settings.file).name or "roles"
    roles = parse_roles(settings.roles, file, SETTINGS)
    chosen = prepare.transport_of(settings)
    if chosen.local:
        requested_nodes.check_one_machine(settings, environ)
        hosts, gpus = [short_hostname()], {short_hostname(): this_machine.gpus(environ)}
    elif chosen.names_nodes:
        backend = prepare.build_backend(settings)
        specs = requested_nodes.named_hosts(replace(settings, spares=0), backend, NodeOptions.of(backend))
        hosts, gpus = [_word(spec) for spec in specs], {}
    else:
        raise UsageError(f"roles do not work with backend {settings.backend} yet", "add -b ssh")
    current_folder()
    prepared = Prepared(roles, place(roles, hosts, gpus), settings, environ, note)
    prepared.prepare(queries)
    try:
        yield prepared
    finally:
        prepared.close()


def _word(spec: HostSpec) -> str:
    """Return a host as a user types it."""
    name = f"[{spec.name}]" if ":" in spec.name else spec.name
    user = f"{spec.user}@" if spec.user else ""
    return f"{user}{name}:{spec.port}" if spec.port else f"{user}{spec.name}"
