"""Plan of a launch from its settings. Refuses a launch that cannot run before anything is made or started.

For named nodes the plan needs a survey of them. The run then uses the connections that the survey opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ddpkit.config import AUTOMATIC, HostSettings, LaunchSettings
from ddpkit.errors import UsageError
from ddpkit.execution import requested_nodes
from ddpkit.execution.job import (
    describe_not_forwarded,
    for_copies,
    held_back,
    local_job,
    local_workdir,
    program_files,
    remote_job,
    removed_options,
    required_of_nodes,
    tuning_not_forwarded,
    unexpanded,
    with_python_of_uv,
    with_variables,
    without_python,
)
from ddpkit.execution.requested_nodes import Queries, check_attempts, named_hosts, number_of_nodes, ranks_per_node
from ddpkit.launchers import registry
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.containers import Contained
from ddpkit.launchers.host_names import spare_hosts
from ddpkit.launchers.plan import (
    JOB_HOOK,
    Batch,
    Container,
    Job,
    OnEnd,
    Plan,
    ProjectCopy,
    Request,
    World,
    with_port,
    with_stdin,
)
from ddpkit.launchers.shell import Secret, count
from ddpkit.node.supervision.clock import Clock
from ddpkit.run.record import RecordedHold
from ddpkit.run.run_files import check_run_folder
from ddpkit.run.timeline import NodeCopy
from ddpkit.transports import slurm_nodes
from ddpkit.transports.choose import transport_class
from ddpkit.transports.transport import Transport

if TYPE_CHECKING:
    from ddpkit.execution.stage import Staged
    from ddpkit.transports.compatibility import Requirements
    from ddpkit.transports.hosts import HostSpec
    from ddpkit.transports.pool import Connector, NodePool
    from ddpkit.transports.scheduler import SchedulerTransport
    from ddpkit.transports.this_machine import LocalTransport
    from ddpkit.transports.transport import RemoteNodesTransport

SHOWN = 4  # nodes in a line
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
    not_forwarded: str = ""  # a line for a person, once the run starts: the variables that the nodes do not get
    clock: Clock = field(default_factory=Clock)  # of the launch


@contextmanager
def prepare(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    progress: Callable[[str, int], None] | None = None,
    waiting: Callable[[str], None] | None = None,
    queries: Queries = Queries.ALL,
    clock: Clock | None = None,
) -> Iterator[Ready]:
    """Make the job and its plan. The connections to the nodes are closed at the end.

    Changes nothing, except that --sync copies the working folder to the nodes if `progress` is given (None: a dry run,
    for which `queries` says which nodes may be queried). `note` gets lines for a person, `waiting` the missing nodes.
    `clock`: of the launch. Raises UsageError, LaunchError, PreflightError.
    """
    clock = clock or Clock()
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
            ready = Ready(job=job, plan=_with_hooks(plan, settings), transport=way, settings=settings, clock=clock)
            yield replace(ready, bad_nodes=bad_nodes, not_forwarded=tuning_not_forwarded(settings, environ))
        return
    settings = with_python_of_uv(settings, note, dry=progress is None)
    if settings.source("python") in AUTOMATIC[1:]:
        note(f"Python of the ranks: {settings.python} ({settings.source('python')}); ddpkit's own has no torch")
    chosen = transport_of(settings)
    check_attempts(settings, chosen, allocated=chosen.slurm and bool(slurm_nodes.allocation(environ)))
    not_forwarded = _variables_not_forwarded(settings, environ, chosen)
    if not chosen.names_nodes:
        stage = NodeOptions.of(backend).stage != "off"
        ready = prepare_offline(settings, environ, note, stage=stage, dry=progress is None)
        shown = replace(ready.job, command=without_python(settings).script)  # --stage has another path in it
        plan = _with_hooks(ready.plan, settings)
        yield replace(ready, job=shown, plan=plan, bad_nodes=bad_nodes, not_forwarded=not_forwarded, clock=clock)
        return
    with approach(settings, note, progress, waiting, queries) as nodes:
        nodes.transport.pool.clock = clock
        yield replace(_plan_named(nodes, settings, note), bad_nodes=bad_nodes, not_forwarded=not_forwarded, clock=clock)


def _plan_named(nodes: Approach, settings: LaunchSettings, note: Callable[[str], None]) -> Ready:
    """Survey named nodes, and plan the launch on those that run it; the others are spare.

    Raises LaunchError, PreflightError.
    """
    named = tuple(spec.label for spec in nodes.transport.pool.specs)
    requested_nodes.warn_of_bad_nodes(settings, named, note)
    world = nodes.survey(note, strict=settings.preflight)
    first_job = with_variables(nodes.job, FIRST) if settings.retries else nodes.job
    plan = _with_hooks(nodes.plan(world, first_job), settings)

    def plan_again(hosts: Sequence[str], env: Mapping[str, str], note: Callable[[str], None]) -> Plan:
        return _with_hooks(nodes.again(hosts, env, note, strict=settings.preflight), settings)

    return Ready(
        job=replace(nodes.job, command=without_python(settings).script),  # --stage has another path in it
        plan=replace(plan, spares=spare_hosts(plan.hosts, named)),
        transport=nodes.transport,
        settings=settings,
        hosts=named,
        plan_again=plan_again,
        staged=nodes.staged.times if nodes.staged else {},
    )


def _variables_not_forwarded(settings: LaunchSettings, environ: Mapping[str, str], chosen: type[Transport]) -> str:
    """Return a line about the variables of this shell that the ranks do not get; empty: none."""
    if chosen.local:
        return ""
    if chosen.slurm or settings.in_job:
        return describe_not_forwarded(held_back(settings, environ))
    return tuning_not_forwarded(settings, environ)


def _bad_nodes(settings: LaunchSettings) -> str:
    # A program may change its directory during the run.
    return str(Path(settings.bad_nodes).absolute()) if settings.bad_nodes else ""


def _with_hooks(plan: Plan, settings: LaunchSettings) -> Plan:
    """Add the function of the launch, the rank with standard input, and the commands `on_end` and `on_attempt`."""

    def hook(name: Literal["on_end", "on_attempt"]) -> OnEnd | None:
        command = str(getattr(settings, name))
        return OnEnd(command=command, directory=settings.directory_of(name)) if command else None

    plan = with_stdin(plan, settings.stdin)
    plan = replace(plan, on_end=hook("on_end"), on_attempt=hook("on_attempt"), function=settings.function)
    if plan.batch is None or not plan.batch.nodes:
        return plan
    return replace(plan, batch=_with_own_attempts(plan.batch, plan.on_attempt, settings))


def _with_own_attempts(batch: Batch, on_attempt: OnEnd | None, settings: LaunchSettings) -> Batch:
    """Add `on_attempt` and the settings of a test of hosts, for a job whose script decides about its attempts.

    They are in a variable, because the files of a run may be read by others, and these values can hold secrets.
    """
    test = {name: getattr(settings, name) for name in _OF_TEST} | {"workdir": str(local_workdir(settings))}
    text = json.dumps({"on_attempt": on_attempt and asdict(on_attempt), "test": test})
    return replace(batch, env={**batch.env, JOB_HOOK: Secret(text)})


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
    dry: bool = True,
) -> Ready:
    """Make the job and its plan for this machine, or for a scheduler: no node is asked. Raises UsageError.

    `avoid` gets a line for each bad node that the job excludes. None: no node is excluded. `dry`: changes nothing.
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
        check_run_folder(Path(job.folder), program_files(job, function=bool(settings.function)))
    if stage:
        from ddpkit.execution import stage as staging

        job = staging.by_nodes(job, NodeOptions.of(backend), settings.log_dir, dry=dry)
    transport = _offline_transport(chosen, settings, environ, nnodes, nproc)
    if avoid is not None and isinstance(transport, SchedulerTransport):
        transport.note = avoid
    world = transport.survey()
    if avoid is not None and transport.slurm and isinstance(world, Request):
        backend = requested_nodes.exclude_bad_nodes(backend, world, settings, avoid, transport)

    def plan_again(hosts: Sequence[str], env: Mapping[str, str], note: Callable[[str], None]) -> Plan:
        if isinstance(transport, SlurmTransport):
            transport.hosts = hosts
        return _with_hooks(_plan(backend, with_variables(job, env), transport.survey(note)), settings)

    first_job = with_variables(job, FIRST) if settings.retries else job
    hosts: tuple[str, ...] = ()  # for all attempts of a step in an allocation
    if settings.retries and isinstance(world, Request) and world.allocation is not None:
        hosts = world.hosts or world.allocation.hosts
    plan = _plan(backend, first_job, world)
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


def unused(settings: LaunchSettings, environ: Mapping[str, str]) -> Iterator[str]:
    """Describe what the launch does not use: an allocation, where local was chosen; settings of hosts under SLURM."""
    allocation = slurm_nodes.unused_allocation(environ) if settings.backend == "local" else ""
    if allocation:
        yield f"{allocation}; these ranks run on this machine alone; on all nodes of the job: -b slurm"
    if not (settings.host and transport_of(settings).slurm):
        return
    for host in requested_nodes.scheduled_hosts(settings)[0]:
        own = settings.host.get(host, HostSettings())
        if names := " and ".join(name for name in ("python", "workdir", "env") if getattr(own, name)):
            verb = "are" if " " in names else "is"
            yield f"[host.{host}] in ddpkit.toml: {names} of a host {verb} for -b ssh and pdsh"


# ---- named nodes before anything runs on them: connections, the job, and the folder that is copied there


class Approach(NamedTuple):
    """Named nodes that are not surveyed yet, and the job that they shall run."""

    backend: registry.Launcher
    options: NodeOptions
    job: Job
    transport: RemoteNodesTransport
    specs: tuple[HostSpec, ...]  # each with its own Python, if it has one
    nodes: int  # so many run the job at a time; the others are spare
    queries: Queries = Queries.ALL
    unseen: bool = False  # the nodes must not be queried
    copies: tuple[ProjectCopy, ...] = ()  # of --sync
    staged: Staged | None = None

    def again(self, hosts: Sequence[str], env: Mapping[str, str], note: Callable[[str], None], *, strict: bool) -> Plan:
        """Connect to these hosts again, with new supervisors, and make the plan of another attempt.

        Raises LaunchError, PreflightError where too few of them can run the job.
        """
        self.transport.pool.reset(hosts)
        # The script may have changed here since the first attempt: the nodes must agree with each other.
        self.transport.requirements = replace(self.transport.requirements, digest="", nodes=self.nodes)
        return self.plan(self.transport.survey(note, strict=strict), with_variables(self.job, env))

    def survey(self, note: Callable[[str], None], *, strict: bool) -> World:
        """Query the nodes, or assume what they would answer. Raises LaunchError, PreflightError."""
        from ddpkit.transports.compatibility import assume_world

        if self.unseen:
            world = assume_world(self.transport.requirements, self.specs)
            note(f"{_describe_assumed(world)}; to query the nodes: --survey")
            return world
        world = self.transport.survey(note, strict=strict)
        if not self.queries.dry:
            return world
        pythons = {spec.label: spec.python for spec in self.specs}
        return replace(world, hosts=tuple(replace(host, python=pythons[host.name]) for host in world.hosts))

    def plan(self, world: World, job: Job) -> Plan:
        """Make the plan for the surveyed nodes. A plan without a heartbeat gets that of the connections."""
        plan = with_port(self.backend.plan(job, world), job, world.port)
        heartbeat = plan.heartbeat_timeout or self.options.heartbeat_timeout
        stage = self.staged.copies if self.staged else job.stage.copies if job.stage else ()
        return replace(plan, sync=self.copies, stage=stage, heartbeat_timeout=heartbeat)


@contextmanager
def approach(
    settings: LaunchSettings,
    note: Callable[[str], None],
    progress: Callable[[str, int], None] | None = None,
    waiting: Callable[[str], None] | None = None,
    queries: Queries = Queries.ALL,
) -> Iterator[Approach]:
    """Make the job for named nodes and the pool of connections to them, which is closed at the end.

    `waiting` shows the missing nodes. Copies for --sync and --stage where `progress` is given (see `prepare`).
    """
    from ddpkit.transports.pool import NoConnector
    from ddpkit.transports.transport import RemoteNodesTransport

    backend = build_backend(settings)
    chosen = transport_class(type(backend))
    assert issubclass(chosen, RemoteNodesTransport)  # callers have asked for `names_nodes`
    options = queries.options(settings, NodeOptions.of(backend))
    specs = named_hosts(settings, backend, options)
    unseen = settings.in_job == slurm_nodes.NO_JOB or not queries.may_connect(settings, [spec.name for spec in specs])
    job = remote_job(settings, options)
    width = len(specs) - settings.spares
    check_files = progress is not None or not settings.sync  # a dry run copies none
    needed = width if settings.spares else None  # None: all
    requirements = required_of_nodes(settings, options, job, nodes=needed, check_files=check_files)
    if queries.dry:
        requirements = replace(requirements, dry=True, torch=False)
    connector = NoConnector(options.connect_timeout) if unseen else _connector(settings, chosen, options, note)
    copies = _sync(settings, options, specs, job, connector, progress, note) if settings.sync else ()
    staged = None
    if options.stage != "off":
        from ddpkit.execution import stage

        if progress is None:
            job = stage.by_nodes(job, options, settings.log_dir, dry=True)
        else:
            least = requirements.least
            staged = stage.bring(specs, job, options, settings.log_dir, connector, progress, note, least)
            specs, job, requirements = list(staged.specs), staged.job, for_copies(requirements, staged.job)
    pool = _node_pool(backend, options, job, specs, connector, requirements, settings.held)
    pool.progress = waiting
    transport = chosen(pool, requirements)
    transport.job = settings.in_job
    try:
        yield Approach(
            backend=backend,
            options=options,
            job=job,
            transport=transport,
            specs=tuple(specs),
            nodes=width,
            queries=queries,
            unseen=unseen,
            copies=copies,
            staged=staged,
        )
    finally:
        transport.close()


def _sync(
    settings: LaunchSettings,
    options: NodeOptions,
    specs: Sequence[HostSpec],
    job: Job,
    connector: Connector,
    progress: Callable[[str, int], None] | None,
    note: Callable[[str], None],
) -> tuple[ProjectCopy, ...]:
    """Copy the project to the nodes, or without `progress` only describe the copies. Returns them."""
    from ddpkit.execution import copies, sync

    python, accepts_new = sync.node_python(job, options), options.accepts_new
    way = copies.Way(connector=connector, python=python, silence=options.heartbeat_timeout, accepts_new=accepts_new)
    return sync.bring(settings, specs, job.workdir, way, progress, note)


def _connector(
    settings: LaunchSettings,
    chosen: type[RemoteNodesTransport],
    options: NodeOptions,
    note: Callable[[str], None],
) -> Connector:
    """Return the way to single nodes: that of the backend, or steps of the job that has them."""
    if not settings.in_job:
        return chosen.connector(options, note)
    from ddpkit.transports.allocation import NodeSteps

    return NodeSteps(settings.in_job, held_back(settings, os.environ))


def _node_pool(
    backend: registry.Launcher,
    options: NodeOptions,
    job: Job,
    specs: Sequence[HostSpec],
    way: Connector,
    requirements: Requirements,
    held: str,
) -> NodePool:
    """Make the pool of connections. In a dry run nodes answer by a Python of their PATH, outside of containers."""
    from ddpkit.transports.pool import NodePool

    if requirements.dry:
        bare = [replace(spec, python="") for spec in specs]
        return NodePool(bare, way, options.heartbeat_timeout, "python3", lambda _: None)

    def container(spec: HostSpec) -> Container | None:
        # The supervisor of a node with a container runs in it, and reports Python and torch of its image.
        if not isinstance(backend, Contained):
            return None
        return backend.node_container(replace(job, workdir=spec.workdir or job.workdir))

    return NodePool(specs, way, options.heartbeat_timeout, requirements.job.python, container, held)


def _describe_assumed(world: World) -> str:
    ranks = ", ".join(f"{count(host.slots, 'rank')} on {host.name}" for host in world.hosts[:SHOWN])
    more = ", ..." if len(world.hosts) > SHOWN else ""
    return f"no node was queried; assumed: {ranks}{more}, rank 0 at {world.master_addr}:{world.master_port}"
