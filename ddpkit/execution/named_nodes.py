"""Named nodes of a launch before anything runs on them: connections, the job, and the folder that is copied there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ddpkit.config import LaunchSettings
from ddpkit.execution.job import remote_job, with_variables
from ddpkit.execution.requested_nodes import Queries, named_hosts, ranks_per_node
from ddpkit.files import LIMIT, open_to_read
from ddpkit.launchers import registry
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.containers import Contained
from ddpkit.launchers.plan import Container, Job, Plan, ProjectCopy, World, with_port
from ddpkit.launchers.shell import count
from ddpkit.transports.choose import transport_class

SHOWN = 4  # nodes in a line

if TYPE_CHECKING:
    from ddpkit.execution.stage import Staged
    from ddpkit.transports.compatibility import Requirements
    from ddpkit.transports.hosts import HostSpec
    from ddpkit.transports.pool import Connector, NodePool
    from ddpkit.transports.transport import RemoteNodesTransport


@dataclass(frozen=True, kw_only=True)
class Approach:
    """Named nodes that are not surveyed yet, and the job that they shall run."""

    backend: registry.Launcher
    options: NodeOptions
    job: Job
    transport: RemoteNodesTransport
    specs: tuple[HostSpec, ...]  # with their own Pythons
    nodes: int  # that run the job at a time; others are spare
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

    def plan(self, world: World, job: Job | None = None) -> Plan:
        """Make the plan for the surveyed nodes. A plan without a heartbeat gets that of the connections."""
        plan_job = job or self.job
        plan = with_port(self.backend.plan(plan_job, world), plan_job, world.port)
        heartbeat = plan.heartbeat_timeout or self.options.heartbeat_timeout
        staging = plan_job.stage
        stage = self.staged.copies if self.staged else staging.copies if staging else ()
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

    backend = registry.build(registry.load(settings.backend), settings.options)
    chosen = transport_class(type(backend))
    assert issubclass(chosen, RemoteNodesTransport)  # callers have asked for `names_nodes`
    options = queries.options(settings, NodeOptions.of(backend))
    specs = named_hosts(settings, backend, options)
    unseen = not queries.may_connect(settings, [spec.name for spec in specs])
    job = remote_job(settings, options)
    width = len(specs) - settings.spares
    check_files = progress is not None or not settings.sync  # a dry run copies none
    nodes = width if settings.spares else None
    requirements = _requirements(settings, options, job, nodes=nodes, check_files=check_files)
    if queries.dry:
        requirements = replace(requirements, dry=True, torch=False)
    connector = NoConnector(options.connect_timeout) if unseen else chosen.connector(options, note)
    copies = _copy_project(settings, options, specs, job, connector, progress, note)
    staged = None
    if options.stage != "off":
        from ddpkit.execution import stage

        if progress is None:
            job = stage.by_nodes(job, options, settings.log_dir)
        else:
            least = requirements.least
            staged = stage.bring(specs, job, options, settings.log_dir, connector, progress, note, least)
            specs, job, requirements = list(staged.specs), staged.job, _of_copies(requirements, staged.job)
    pool = _node_pool(backend, options, job, specs, connector, requirements, settings.held)
    pool.progress = waiting
    transport = chosen(pool, requirements)
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


def _of_copies(requirements: Requirements, job: Job) -> Requirements:
    """Return what nodes need for a job in local copies."""
    script = job.command[0] if requirements.script else None
    return replace(requirements, job=replace(job, workdir=requirements.job.workdir), script=script)


def _copy_project(
    settings: LaunchSettings,
    options: NodeOptions,
    specs: Sequence[HostSpec],
    job: Job,
    way: Connector,
    progress: Callable[[str, int], None] | None,
    note: Callable[[str], None],
) -> tuple[ProjectCopy, ...]:
    """Do what --sync is for, or only describe it without `progress`."""
    if not settings.sync:
        return ()
    from ddpkit.execution import sync

    return sync.bring(
        specs,
        job.workdir,
        settings.log_dir,
        progress,
        way,
        python=sync.node_python(job, options),
        overwrite=settings.sync == "overwrite",
        note=note,
        silence=options.heartbeat_timeout,
        accept_new=options.accepts_new,
    )


def _other_name(path: str) -> str:
    """Return another absolute path of a directory of this machine: the shell's, or the one without symbolic links."""
    for other in (os.environ.get("PWD", ""), os.path.realpath(path)):
        with suppress(OSError):
            if other.startswith("/") and other != path and Path(other).samefile(path):
                return other
    return ""


def _requirements(
    settings: LaunchSettings, options: NodeOptions, job: Job, *, nodes: int | None, check_files: bool
) -> Requirements:
    """Return what the nodes must have for the job. `nodes`: how many of them run it, where others are spare."""
    from ddpkit.transports.compatibility import Requirements

    script = job.command[0] if job.kind == "script" or (job.kind == "program" and "/" in job.command[0]) else None
    local = Path(job.workdir, script) if script else None
    return Requirements(
        job=replace(job, workdir=options.container_workdir or job.workdir),
        nproc_per_node=ranks_per_node(settings),
        script=script,
        digest=digest_of(local) if local else "",
        torch=job.kind != "program" or options.starter != "ranks",
        starter=options.starter,
        master_addr=options.master_addr,
        master_port=options.master_port,
        local_workdir=Path(job.workdir).is_dir(),
        other_workdir=_other_name(job.workdir),
        contained=bool(options.container),
        check_files=check_files,
        min_nodes=settings.nnodes[0] if isinstance(settings.nnodes, tuple) else None,
        nodes=nodes,
    )


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a regular file; empty where there is none. A program can be an image of many gigabytes."""
    found = hashlib.sha256()
    try:
        with open(open_to_read(path, follow=True), "rb") as file:
            while part := file.read(LIMIT):
                found.update(part)
    except OSError:
        return ""
    return found.hexdigest()
