"""Plan of a launch from its settings. Refuses a launch that cannot run before anything is made or started.

For named nodes the plan needs a survey of them. The run then uses the connections that the survey opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ddpkit.config import AUTOMATIC, LaunchSettings
from ddpkit.execution import requested_nodes
from ddpkit.execution.job import local_job
from ddpkit.execution.requested_nodes import number_of_nodes, ranks_per_node
from ddpkit.launchers import registry
from ddpkit.launchers.plan import Job, OnEnd, Plan, Request
from ddpkit.transports import local_facts
from ddpkit.transports.choose import transport_class
from ddpkit.transports.scheduler import SchedulerTransport
from ddpkit.transports.this_machine import LocalTransport
from ddpkit.transports.transport import Transport


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A plan, and the transport that carries it out."""

    job: Job
    plan: Plan
    transport: Transport
    settings_file: str = ""  # that was read; empty: none
    bad_nodes: str = ""  # the file of bad nodes; empty: that of this user


@contextmanager
def prepare(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    progress: Callable[[str, int], None] | None = None,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[Ready]:
    """Make the job and its plan. The connections to the nodes are closed at the end.

    Changes nothing, except that --sync copies the working folder to the nodes if `progress` is given (None: a dry run).
    `note` gets lines for a person, `waiting` the missing nodes. Raises UsageError, LaunchError, PreflightError.
    """
    if settings.source("python") in AUTOMATIC[1:]:
        note(f"Python of the ranks: {settings.python} ({settings.source('python')}); ddpkit's own has no torch")
    if not transport_of(settings).names_nodes:
        ready = prepare_offline(settings, environ, note)
        plan = _with_end(ready.plan, settings)
        yield replace(ready, plan=plan, settings_file=settings.file, bad_nodes=_bad_nodes(settings))
        return
    from ddpkit.execution import avoided_nodes
    from ddpkit.execution.named_nodes import approach

    with approach(settings, environ, note, progress, waiting) as nodes:
        avoided_nodes.warn(settings, [spec.label for spec in nodes.transport.pool.specs], note)
        world = nodes.transport.survey(note, strict=settings.preflight)
        plan = _with_end(nodes.plan(world), settings)
        yield Ready(
            job=nodes.job,
            plan=plan,
            transport=nodes.transport,
            settings_file=settings.file,
            bad_nodes=_bad_nodes(settings),
        )


def _bad_nodes(settings: LaunchSettings) -> str:
    # A program may change its directory during the run.
    return str(Path(settings.bad_nodes).absolute()) if settings.bad_nodes else ""


def _with_end(plan: Plan, settings: LaunchSettings) -> Plan:
    if not settings.on_end:
        return plan
    return replace(plan, on_end=OnEnd(command=settings.on_end, directory=settings.directory_of("on_end")))


def transport_of(settings: LaunchSettings) -> type[Transport]:
    """The transport of the backend that the settings name. Raises UsageError."""
    return transport_class(registry.load(settings.backend))


def build_backend(settings: LaunchSettings) -> registry.Launcher:
    """The backend of a launch, with its options. Raises UsageError."""
    return registry.build(registry.load(settings.backend), settings.options)


def prepare_offline(
    settings: LaunchSettings, environ: Mapping[str, str], avoid: Callable[[str], None] | None = None
) -> Ready:
    """Make the job and its plan for this machine, or for a scheduler: no node is asked. Raises UsageError.

    `avoid` gets a line for each bad node that the job excludes. None: no node is excluded.
    """
    backend = build_backend(settings)
    nnodes, nproc = number_of_nodes(settings, backend), ranks_per_node(settings)
    requested_nodes.check_no_hostfile(settings)
    job = local_job(settings, backend)
    chosen = transport_class(type(backend))
    transport: SchedulerTransport | LocalTransport
    if issubclass(chosen, SchedulerTransport):
        requested_nodes.check_no_hosts(settings)
        transport = chosen(nnodes, nproc, environ)
    else:
        requested_nodes.check_one_machine(settings, backend)
        transport = LocalTransport(nproc, environ, settings.env)
    world = transport.survey()
    if avoid is not None and transport.slurm and isinstance(world, Request):
        from ddpkit.execution import avoided_nodes

        backend = avoided_nodes.exclude(backend, world, settings, avoid)
    return Ready(job=job, plan=backend.plan(job, world), transport=transport)


def plan_later(settings: LaunchSettings, environ: Mapping[str, str]) -> Plan:
    """A plan for SLURM at any time, without the present allocation and the folder of a run. Raises UsageError."""
    bare = {name: value for name, value in environ.items() if not name.startswith("SLURM_")}
    backend, job = build_backend(settings), prepare_offline(settings, bare).job
    request = local_facts.slurm(number_of_nodes(settings, backend), ranks_per_node(settings), bare)
    return backend.plan(replace(job, folder=""), request)


def unused_allocation(settings: LaunchSettings, environ: Mapping[str, str]) -> str | None:
    """Describe the SLURM allocation that backend local will not use. None: there is none."""
    return local_facts.unused_allocation(environ) if settings.backend == "local" else None
