"""Asks a machine what a plan must know about it: processors, GPUs, misleading variables, a free port."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from ddpkit.distributed.nodelist import expand_nodelist, expand_tasks_per_node
from ddpkit.errors import EnvError, UsageError, nearest
from ddpkit.launchers.cpu_binding import Topology
from ddpkit.launchers.host_names import format_hosts
from ddpkit.launchers.node_facts import DeviceFacts, TopologyFacts
from ddpkit.launchers.plan import Allocation, HetGroup, Host, Request, World
from ddpkit.node import probe

if TYPE_CHECKING:
    from ddpkit.distributed.env_values import Task

# Of the site, and not of an allocation.
_SITE = frozenset(("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"))


def gpus(environ: Mapping[str, str], root: str = "/") -> int:
    """Count the GPUs that a process with this environment sees on this machine (see `probe.gpus`)."""
    try:
        return probe.gpus(environ, root)
    except ValueError as problem:
        raise UsageError(str(problem), "unset DDPKIT_GPUS") from None


def free_port() -> int:
    """A port of this machine that nobody listens on (see `probe.free_port`)."""
    port = probe.free_port()
    if port is None:
        raise UsageError("no port from 20000 on is free on this machine", "ss -ltnp")
    return port


def nproc(asked: int | None, environ: Mapping[str, str], note: Callable[[str], None] = lambda _: None) -> int:
    """Ranks on this machine: as asked, or one per visible GPU, or one. `note`: gets why they are fewer."""
    visible = gpus(environ)
    if asked is None:
        number, why = probe.gpu_ranks(environ)
        if why:
            note(why)
        return max(1, number)
    if visible and asked > visible:
        raise UsageError(
            f"-n {asked}: this machine has {visible} visible GPU{'s' if visible > 1 else ''}, one per rank",
            f"use -n {visible}, or --env CUDA_VISIBLE_DEVICES= to run on the CPU",
        )
    return asked


def this_machine(asked: int | None, environ: Mapping[str, str], note: Callable[[str], None] = lambda _: None) -> World:
    """A world of this machine alone. `environ` is what the ranks will see, `asked` the ranks, None: one per GPU."""
    slots = nproc(asked, environ, note)
    host = Host(
        name=short_hostname(),
        slots=slots,
        cpus=probe.cpus(),
        topology=Topology.of(_topology(environ)),
        chosen=tuple(environ),
        stale=tuple(probe.stale(environ)),
    )
    return World(hosts=(host,), master_addr="127.0.0.1", master_port=free_port(), port=free_port())


def _topology(environ: Mapping[str, str]) -> TopologyFacts:
    return cast("TopologyFacts", probe.topology(environ))


def facts(environ: Mapping[str, str]) -> DeviceFacts:
    """What this machine is, in the words of a node that was asked (`probe.look`)."""
    return {"cpus": probe.cpus(), "gpus": gpus(environ), "topology": _topology(environ)}


def slurm(
    nnodes: int | None,
    nproc_per_node: int | None,
    environ: Mapping[str, str],
    named: Sequence[str] = (),
    counts: tuple[int, ...] = (),
) -> Request:
    """Make the request to SLURM, with the allocation that this process stands in, if any.

    `named`: hosts in the order of the user. `counts`: ranks on each node; empty: the same number on all.
    """
    # Inside a shell of SLURM's these would be defaults for the next srun, and in a rank they would be another's.
    left = [name for name in environ if name.startswith(("SLURM_", "SRUN_")) and name not in _SITE]
    here = Host(name=short_hostname(), slots=0, cpus=probe.cpus(), stale=(*probe.stale(environ), *left))
    request = Request(nnodes=nnodes, nproc_per_node=nproc_per_node, here=here, hosts=tuple(named), counts=tuple(counts))
    job_id = allocation(environ)
    if not job_id:
        return request
    held = _held(environ, job_id, asked=bool(nproc_per_node or counts))
    return replace(request, allocation=_only(held, named) if named else held)


def _held(environ: Mapping[str, str], job_id: str, *, asked: bool) -> Allocation:
    """Read the allocation. The variables of a group of a heterogeneous one have a suffix. `asked`: -n was given."""
    sizes = _number(environ, "SLURM_HET_SIZE")
    if sizes is None:
        hosts = tuple(expand_nodelist(environ.get("SLURM_JOB_NODELIST", "")))
        if not hosts:
            raise UsageError(f"SLURM_JOB_ID={job_id} is set, but SLURM_JOB_NODELIST is not", "unset SLURM_JOB_ID")
        return Allocation(
            job_id=job_id,
            hosts=hosts,
            nproc_per_node=None if asked else _tasks_per_node(environ, len(hosts)),
            cpus_per_task=_number(environ, "SLURM_CPUS_PER_TASK"),
            cpus=_cpus(environ, hosts),
        )
    groups: list[Allocation] = []
    for number in range(sizes):
        end = f"_HET_GROUP_{number}"
        variables = {name.removesuffix(end): text for name, text in environ.items() if name.endswith(end)}
        groups.append(_held(variables, variables.get("SLURM_JOB_ID", job_id), asked=asked))
    counts: list[int] = []
    for group in groups:
        each = group.nproc_per_node
        counts += each if isinstance(each, tuple) else [each or 1] * len(group.hosts)
    return Allocation(
        job_id=groups[0].job_id,
        hosts=tuple(host for group in groups for host in group.hosts),
        nproc_per_node=None if asked else tuple(counts),
        groups=tuple(
            HetGroup(nodes=len(group.hosts), job_id=group.job_id, cpus_per_task=group.cpus_per_task) for group in groups
        ),
        cpus={host: cpus for group in groups for host, cpus in group.cpus.items()},
    )


def _cpus(environ: Mapping[str, str], hosts: Sequence[str]) -> dict[str, int]:
    """Return the CPUs of an allocation on each host; empty: not known."""
    try:
        counts = expand_tasks_per_node(environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
    except EnvError:
        return {}
    return dict(zip(hosts, counts, strict=True)) if len(counts) == len(hosts) else {}


def _only(held: Allocation, named: Sequence[str]) -> Allocation:
    """The allocation with the named hosts alone, in their order. Raises UsageError."""
    if held.groups:
        raise UsageError(f"allocation {held.job_id} is heterogeneous, and its groups choose the hosts", "remove them")
    missing = [host for host in named if host not in held.hosts]
    if missing:
        raise UsageError(
            f"{missing[0]} is not a node of allocation {held.job_id}: {format_hosts(held.hosts)}",
            nearest(missing[0], held.hosts),
        )
    each = held.nproc_per_node
    if isinstance(each, tuple):
        each = tuple(each[held.hosts.index(host)] for host in named)
    return replace(held, hosts=tuple(named), nproc_per_node=each)


def scheduler(nnodes: int | None, nproc_per_node: int | None, environ: Mapping[str, str]) -> Request:
    """Make the request to a scheduler whose allocations are unknown to us."""
    here = Host(name=short_hostname(), slots=0, cpus=probe.cpus(), stale=tuple(probe.stale(environ)))
    return Request(nnodes=nnodes, nproc_per_node=nproc_per_node, here=here)


def unused_allocation(environ: Mapping[str, str]) -> str:
    """Describe the SLURM allocation of this process with nodes other than this machine. Empty: none."""
    job_id = allocation(environ)
    nodes = expand_nodelist(environ.get("SLURM_JOB_NODELIST", "")) if job_id else []
    if not nodes or nodes == [environ.get("SLURMD_NODENAME", short_hostname())]:
        return ""
    return f"this is SLURM job {job_id} on {environ.get('SLURM_JOB_NODELIST', '')}"


def srun_tasks(environ: Mapping[str, str]) -> Task | None:
    """Return this process as a task of srun beside others; None: alone, or in an interactive shell of a step."""
    from ddpkit.distributed.slurm_env import read_step
    from ddpkit.distributed.slurm_lookup import gather_facts

    try:
        task = read_step(environ, gather_facts(environ))
    except EnvError:
        return None
    return task if not isinstance(task, str) and task.world_size.value > 1 else None


def allocation(environ: Mapping[str, str]) -> str:
    """The job id of the SLURM allocation of this process. Empty: none, or its detection is disabled."""
    job_id = environ.get("SLURM_JOB_ID", "")
    if not job_id:
        return ""
    from ddpkit.distributed.slurm_env import slurm_disabled

    return "" if slurm_disabled(environ) else job_id


def _tasks_per_node(environ: Mapping[str, str], nnodes: int) -> int | tuple[int, ...] | None:
    """Ranks for each node of an allocation: one per GPU, or as many as tasks were requested there."""
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_NTASKS_PER_NODE"):
        if _number(environ, name):
            return _number(environ, name)
    gpus_per_node = environ.get("SLURM_GPUS_PER_NODE", "").rpartition(":")[2]
    if gpus_per_node.isdecimal():
        return int(gpus_per_node)
    tasks = _number(environ, "SLURM_NTASKS") or _number(environ, "SLURM_NPROCS")
    if tasks and tasks % nnodes:
        counts = expand_tasks_per_node(environ.get("SLURM_TASKS_PER_NODE", "0"))
        if len(counts) != nnodes:
            raise UsageError(f"{tasks} tasks on {nnodes} nodes, a different number on each", f"-n {tasks // nnodes}")
        return tuple(counts)
    return tasks // nnodes if tasks else None


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def short_hostname() -> str:
    return socket.gethostname().partition(".")[0] or "localhost"
