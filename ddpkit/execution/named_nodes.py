"""Named nodes of a launch before anything runs on them: connections, the job, and the folder that is copied there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ddpkit.config import LaunchSettings
from ddpkit.execution.job import remote_job
from ddpkit.execution.requested_nodes import named_hosts, ranks_per_node
from ddpkit.launchers import registry
from ddpkit.launchers.nodes import Nodes
from ddpkit.launchers.plan import Job

if TYPE_CHECKING:
    from ddpkit.execution.compatibility import Wish
    from ddpkit.execution.pool import Fleet
    from ddpkit.transports.hosts import HostSpec


@dataclass(frozen=True, kw_only=True)
class Approach:
    """Named nodes that are not surveyed yet, and what the survey asks them."""

    backend: Nodes
    job: Job
    wish: Wish
    fleet: Fleet
    copies: tuple[tuple[str, ...], ...] = ()  # commands of rsync


@contextmanager
def approach(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    progress: Callable[[str, int], None] | None = None,
) -> Iterator[Approach]:
    """Make the job for named nodes and the pool of connections to them, which is closed at the end.

    Copies the working folder where --sync asks for it and `progress` is given (see `ddpkit.execution.prepare`).
    """
    from ddpkit.execution import pool  # with all that it needs, for those who use it

    backend = registry.build(registry.load(settings.backend), settings.options)
    assert isinstance(backend, Nodes)
    specs = named_hosts(settings, backend)
    job = remote_job(settings, environ, backend)
    wish = _wish(settings, backend, job, copied=progress is not None or not settings.sync)
    way = pool.open_way(backend, note)
    copies = _copy(settings, backend, specs, job, progress) if settings.sync else ()
    # The supervisor of a node with a container runs in it, and reports Python and torch of its image.
    fleet = pool.Fleet(
        specs,
        way,
        backend.heartbeat_timeout,
        job.python,
        lambda spec: backend.node_container(replace(job, workdir=spec.workdir or job.workdir)),
    )
    try:
        yield Approach(backend=backend, job=job, wish=wish, fleet=fleet, copies=copies)
    finally:
        fleet.close()


def _wish(settings: LaunchSettings, backend: Nodes, job: Job, *, copied: bool) -> Wish:
    from ddpkit.execution.compatibility import Wish

    script = job.command[0] if job.kind == "script" or (job.kind == "program" and "/" in job.command[0]) else None
    local = Path(job.workdir, script) if script else None
    return Wish(
        job=replace(job, workdir=backend.container_workdir or job.workdir),
        nproc_per_node=ranks_per_node(settings),
        script=script,
        digest=hashlib.sha256(local.read_bytes()).hexdigest() if local and local.is_file() else "",
        torch=job.kind != "program" or backend.starter != "ranks",
        starter=backend.starter,
        master_addr=backend.master_addr,
        master_port=backend.master_port,
        here=Path(job.workdir).is_dir(),
        copied=copied,
        min_nodes=settings.nnodes[0] if isinstance(settings.nnodes, tuple) else None,
    )


def _copy(
    settings: LaunchSettings,
    backend: Nodes,
    specs: list[HostSpec],
    job: Job,
    progress: Callable[[str, int], None] | None,
) -> tuple[tuple[str, ...], ...]:
    """Copy the working folder to all nodes, or only return the commands for a dry run."""
    from ddpkit.execution import rsync
    from ddpkit.transports.problem import refusal

    timeout = backend.connect_timeout
    copies = tuple(rsync.commands(specs, job.workdir, settings.log_dir, timeout, accept_new=backend.accepts_new))
    problems = rsync.copy(specs, copies, progress) if progress is not None else []
    if problems:
        raise refusal(problems, len(specs))
    return copies
