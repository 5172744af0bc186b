"""Plan of a launch from its settings. Refuses a launch that cannot run before anything is made or started.

For named nodes the plan needs a survey of them. The run then uses the connections that the survey opened.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ddpkit.config import AUTOMATIC, LaunchSettings
from ddpkit.errors import UsageError
from ddpkit.execution import requested_nodes
from ddpkit.execution.job import (
    describe_left,
    held_back,
    left_here,
    local_job,
    removed_options,
    unexpanded,
    with_python_of_uv,
    with_variables,
    without_python,
)
from ddpkit.execution.requested_nodes import Queries, check_attempts, number_of_nodes, ranks_per_node
from ddpkit.launchers import registry
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.plan import JOB_HOOK, Job, OnEnd, Plan, Request, World, with_port
from ddpkit.launchers.shell import Secret
from ddpkit.run.record import RecordedHold
from ddpkit.run.run_files import check_run_folder
from ddpkit.run.timeline import NodeCopy
from ddpkit.transports import slurm_nodes
from ddpkit.transports.choose import transport_class
from ddpkit.transports.transport import Transport

if TYPE_CHECKING:
    from ddpkit.execution.named_nodes import Approach
    from ddpkit.transports.scheduler import SchedulerTransport
    from ddpkit.transports.this_machine import LocalTransport

# The plan of another attempt: its hosts, its variables; the function gets notes.
PlanAgain = Callable[[Sequence[str], Mapping[str, str], Callable[[str], None]], Plan]
FIRST = {"DDPKIT_ATTEMPT": "1"}  # variables of the first attempt, where others can follow
# Settings that a submitted job needs to test its own hosts.
_OF_TEST = ("backend", "nproc_per_node", "script", "workdir", "python", "env", "options")


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A plan, and the transport that carries it out."""

    job: Job
    plan: Plan
    transport: Transport
    settings: LaunchSettings
    bad_nodes: str = ""  # the file of bad nodes; empty: that of this user
    hosts: tuple[str, ...] = ()  # of the run, with its spares; empty: those of the plan
    plan_again: PlanAgain | None = None
    staged: Mapping[str, Sequence[NodeCopy]] = field(default_factory=dict)  # local copies that were made, by host
    hold: RecordedHold | None = None  # the launch is one
    left: str = ""  # a line about the variables that the nodes do not get, for a person, once the run starts


@contextmanager
def prepare(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    progress: Callable[[str, int], None] | None = None,
    waiting: Callable[[str], None] | None = None,
    queries: Queries = Queries.ALL,
) -> Iterator[Ready]:
    """Make the job and its plan. The connections to the nodes are closed at the end.

    Changes nothing, except that --sync copies the working folder to the nodes if `progress` is given (None: a dry run,
    for which `queries` says which nodes may be queried). `note` gets lines for a person, `waiting` the missing nodes.
    Raises UsageError, LaunchError, PreflightError.
    """
    requested_nodes.check_alone(settings, environ)
    environ = requested_nodes.surroundings(settings, environ)
    if removed := removed_options(settings, environ):
        note(removed)
    if literal := unexpanded(settings, environ):
        note(literal)
    backend, bad_nodes = build_backend(settings), _bad_nodes(settings)
    if getattr(backend, "via", ""):
        from ddpkit.execution.other_host import approach_login_host

        if NodeOptions.of(backend).stage != "off":
            raise UsageError("--stage does not work with --via", "run this command on the login host")
        with approach_login_host(settings, backend, note, progress, queries) as (job, plan, way):
            whole, left = _with_end(plan, settings), left_here(settings, environ)
            yield Ready(job=job, plan=whole, transport=way, settings=settings, bad_nodes=bad_nodes, left=left)
        return
    settings = with_python_of_uv(settings, note, dry=progress is None)
    if settings.source("python") in AUTOMATIC[1:]:
        note(f"Python of the ranks: {settings.python} ({settings.source('python')}); ddpkit's own has no torch")
    chosen = transport_of(settings)
    check_attempts(settings, chosen, allocated=chosen.slurm and bool(slurm_nodes.allocation(environ)))
    left = describe_left(held_back(settings, environ)) if chosen.slurm else left_here(settings, environ)
    left = "" if chosen.local else left
    if not chosen.names_nodes:
        ready = prepare_offline(settings, environ, note, stage=NodeOptions.of(backend).stage != "off")
        shown = replace(ready.job, command=without_python(settings).script)  # --stage has another path in it
        yield replace(ready, job=shown, plan=_with_end(ready.plan, settings), bad_nodes=bad_nodes, left=left)
        return
    from ddpkit.execution.named_nodes import approach

    with approach(settings, note, progress, waiting, queries) as nodes:
        yield replace(_survey(nodes, settings, note), bad_nodes=bad_nodes, left=left)


def _survey(nodes: Approach, settings: LaunchSettings, note: Callable[[str], None]) -> Ready:
    """Query named nodes, and make their plan. Raises LaunchError, PreflightError."""
    hosts = tuple(spec.label for spec in nodes.transport.pool.specs)
    requested_nodes.warn_of_bad_nodes(settings, hosts, note)

    def plan_again(hosts: Sequence[str], env: Mapping[str, str], note: Callable[[str], None]) -> Plan:
        return _with_end(nodes.again(hosts, env, note, strict=settings.preflight), settings)

    first = with_variables(nodes.job, FIRST) if settings.retries else nodes.job
    plan = _with_end(nodes.plan(nodes.survey(note, strict=settings.preflight), first), settings)
    return Ready(
        job=replace(nodes.job, command=without_python(settings).script),  # --stage has another path in it
        plan=replace(plan, spares=spare_hosts(plan.hosts, hosts)),
        transport=nodes.transport,
        settings=settings,
        hosts=hosts,
        plan_again=plan_again,
        staged=nodes.staged.times if nodes.staged else {},
    )


def _bad_nodes(settings: LaunchSettings) -> str:
    # A program may change its directory during the run.
    return str(Path(settings.bad_nodes).absolute()) if settings.bad_nodes else ""


def spare_hosts(used: Collection[str], hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the hosts after those that are used. One between them failed its checks."""
    last = max((index for index, host in enumerate(hosts) if host in used), default=-1)
    return tuple(hosts[last + 1 :])


def _with_end(plan: Plan, settings: LaunchSettings) -> Plan:
    """Add the commands of `on_end` and `on_attempt`, and for a job that heals what its script needs of them."""

    def hook(name: Literal["on_end", "on_attempt"]) -> OnEnd | None:
        command = str(getattr(settings, name))
        return OnEnd(command=command, directory=settings.directory_of(name)) if command else None

    plan = replace(plan, on_end=hook("on_end"), on_attempt=hook("on_attempt"), function=settings.function)
    if plan.batch is None or not plan.batch.nodes:
        return plan
    test = {name: getattr(settings, name) for name in _OF_TEST} | {"workdir": str(Path(settings.workdir).absolute())}
    text = json.dumps({"on_attempt": plan.on_attempt and asdict(plan.on_attempt), "test": test})
    return replace(plan, batch=replace(plan.batch, env={**plan.batch.env, JOB_HOOK: Secret(text)}))


def transport_of(settings: LaunchSettings) -> type[Transport]:
    """The transport of the backend that the settings name. Raises UsageError."""
    return transport_class(registry.load(settings.backend))


def build_backend(settings: LaunchSettings) -> registry.Launcher:
    """The backend of a launch, with its options. Raises UsageError."""
    return registry.build(registry.load(settings.backend), settings.options)


def prepare_offline(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    avoid: Callable[[str], None] | None = None,
    *,
    stage: bool = False,
) -> Ready:
    """Make the job and its plan for this machine, or for a scheduler: no node is asked. Raises UsageError.

    `avoid` gets a line for each bad node that the job excludes. None: no node is excluded.
    """
    from ddpkit.transports.scheduler import SchedulerTransport, SlurmTransport

    backend, environ = build_backend(settings), requested_nodes.surroundings(settings, environ)
    if getattr(backend, "via", ""):
        raise UsageError("--via is an option of ddpkit launch and ddpkit bench", "run this command on the login host")
    chosen = transport_class(type(backend))
    if chosen.local:
        requested_nodes.check_one_machine(settings, environ)
    nnodes, nproc = number_of_nodes(settings, backend, environ), ranks_per_node(settings)
    requested_nodes.check_no_sync(settings)
    job = local_job(settings, backend)
    if chosen.scheduled and job.folder:
        check_run_folder(Path(job.folder), Path(job.workdir), job.command)
    if stage:
        from ddpkit.execution import stage as staging

        job = staging.by_nodes(job, NodeOptions.of(backend), settings.log_dir)
    transport = _offline_transport(chosen, settings, environ, nnodes, nproc)
    if avoid is not None and isinstance(transport, SchedulerTransport):
        transport.note = avoid
    world = transport.survey()
    if avoid is not None and transport.slurm and isinstance(world, Request):
        backend = requested_nodes.exclude_bad_nodes(backend, world, settings, avoid, transport)

    def plan_again(hosts: Sequence[str], env: Mapping[str, str], note: Callable[[str], None]) -> Plan:
        if isinstance(transport, SlurmTransport):
            transport.hosts = hosts
        return _with_end(_plan(backend, with_variables(job, env), transport.survey(note)), settings)

    first = with_variables(job, FIRST) if settings.retries else job
    hosts: tuple[str, ...] = ()  # for all attempts of a step in an allocation
    if settings.retries and isinstance(world, Request) and world.allocation is not None:
        hosts = world.hosts or world.allocation.hosts
    plan = _plan(backend, first, world)
    return Ready(
        job=job,
        plan=replace(plan, spares=spare_hosts(plan.hosts, hosts)) if hosts else plan,
        transport=transport,
        settings=settings,
        hosts=hosts,
        plan_again=plan_again,
    )


def _plan(backend: registry.Launcher, job: Job, world: World | Request) -> Plan:
    return with_port(backend.plan(job, world), job, world.port if isinstance(world, World) else None)


def _offline_transport(
    chosen: type[Transport], settings: LaunchSettings, environ: Mapping[str, str], nnodes: int | None, nproc: int | None
) -> SchedulerTransport | LocalTransport:
    """Return the transport to a scheduler, or to this machine. Raises UsageError."""
    from ddpkit.transports.scheduler import SchedulerTransport, SlurmTransport
    from ddpkit.transports.this_machine import LocalTransport

    if issubclass(chosen, SlurmTransport):
        slurm = chosen(nnodes, nproc, environ)
        named, slurm.counts = requested_nodes.scheduled_hosts(settings)
        slurm.named = named or _hosts_of_allocation(settings, environ)
        slurm.spares = settings.spares if settings.retries else None
        slurm.held_back = held_back(settings, environ)
        return slurm
    requested_nodes.check_no_hostfile(settings)
    if issubclass(chosen, SchedulerTransport):
        requested_nodes.check_no_hosts(settings)
        return chosen(nnodes, nproc, environ)
    return LocalTransport(nproc, environ, settings.env, settings.held)


def _hosts_of_allocation(settings: LaunchSettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    from ddpkit.transports.slurm_nodes import hosts_of_allocation

    nodelist, exclude = (str(settings.options.get(name, "")) for name in ("nodelist", "exclude"))
    width = settings.nnodes + settings.spares if isinstance(settings.nnodes, int) else None
    return hosts_of_allocation(environ, nodelist, exclude, width)


def unused_allocation(settings: LaunchSettings, environ: Mapping[str, str]) -> str:
    """Describe the SLURM allocation that backend local was chosen not to use. Empty: none."""
    unused = slurm_nodes.unused_allocation(environ) if settings.backend == "local" else ""
    return f"{unused}; these ranks run on this machine alone; on all nodes of the job: -b slurm" if unused else ""
