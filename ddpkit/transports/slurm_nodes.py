"""Nodes under SLURM: the allocation of this process, those of a partition, those that a job need not use."""

from __future__ import annotations

import math
import os
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from ddpkit.distributed.nodelist import expand_nodelist, expand_tasks_per_node
from ddpkit.errors import EnvError, UsageError, nearest
from ddpkit.launchers.host_names import format_hosts
from ddpkit.launchers.plan import Allocation, HetGroup, Host, Request
from ddpkit.machine import HERE, Machine, Reply, run_command
from ddpkit.node.calls import probe

if TYPE_CHECKING:
    from ddpkit.distributed.env_values import Task

# Of the site, and not of an allocation.
SITE = frozenset(("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"))
_PATIENCE = 5.0  # seconds for sinfo
_ROW = re.compile(r"^(?P<name>\S+) \S+?(?P<default>\*?) (?P<state>\S+)$", re.MULTILINE)
_OUT_OF_SERVICE = re.compile(r"down|drain|drng|fail|maint|unk|inval|boot|power|\*$")
_SCRIPT_NODE = re.compile(r"\bJobState=RUNNING .*? NodeList=(?P<nodes>\S+) BatchHost=(?P<host>\S+)")
_CHOOSES = re.compile(r"(?:^|\s)(?:-[wxF]|--(?:nodelist|exclude|nodefile)\b)")  # options of sbatch


def partition_nodes(partition: str, machine: Machine = HERE) -> dict[str, bool]:
    """Return whether each node of a partition is in service; without a name, of the default one. Empty: no answer."""
    words = [f"--partition={partition}"] if partition else []
    return read_sinfo(
        machine.run(["sinfo", "--noheader", "--Node", "--format=%N %P %t", *words], timeout=_PATIENCE).output,
        default=not partition,
    )


def read_sinfo(text: str, *, default: bool) -> dict[str, bool]:
    """Read lines of `NODE PARTITION STATE`; of all partitions only those of the `default` one, marked with `*`."""
    rows = [row for row in _ROW.finditer(text) if row["default"] or not default]
    return {row["name"]: not _OUT_OF_SERVICE.search(row["state"]) for row in rows}


def lost_script_node(job: str) -> str:
    """Read a job as `scontrol --oneliner` prints it. Return the node of its script, if the job runs without this node.

    With `--no-kill` SLURM removes a node that is down from the job, also the node of the script. Empty: not so.
    """
    match = _SCRIPT_NODE.search(job)
    return match["host"] if match and is_lost(match["host"], match["nodes"]) else ""


def is_of_job(name: str) -> bool:
    """Tell whether a variable is of an allocation, and not of the site."""
    return name.startswith(("SLURM_", "SRUN_")) and name not in SITE


NO_JOB = "JOB"  # the id of a job that is not there yet


def placeholder(named: Sequence[str], groups: Sequence[int]) -> dict[str, str]:
    """Return variables of a job that is not there yet, for a dry run. `groups`: nodes of each."""
    hosts = [*named] or [f"NODE{n + 1}" for n in range(sum(groups))]
    if len(groups) == 1:
        return {"SLURM_JOB_ID": NO_JOB, "SLURM_JOB_NODELIST": ",".join(hosts)}
    variables = {"SLURM_JOB_ID": NO_JOB, "SLURM_HET_SIZE": str(len(groups))}
    for number, nodes in enumerate(groups):
        here, hosts = hosts[:nodes], hosts[nodes:]
        variables[f"SLURM_JOB_NODELIST_HET_GROUP_{number}"] = ",".join(here)
        variables[f"SLURM_JOB_ID_HET_GROUP_{number}"] = f"{NO_JOB}+{number}" if number else NO_JOB
    return variables


def held_nodes(environ: Mapping[str, str], named: Sequence[str], use: str = "") -> Allocation:
    """Return the allocation of a process with this environment, of the `named` nodes alone where there are any.

    `use`: what needs the nodes and reaches no groups of a heterogeneous one; empty: it does. Raises UsageError.
    """
    shown, left_over = query_allocation(environ["SLURM_JOB_ID"])
    if left_over:
        raise UsageError(left_over, "add --new-job")
    held = slurm(None, 1, environ, named, (), shown).allocation
    assert held is not None
    if use and (held.groups or held.group is not None):
        raise UsageError(f"heterogeneous allocation {held.job_id} does not work with {use}", "salloc --nodes=N")
    return held


def query_allocation(job: str) -> tuple[str, str]:
    """Return what SLURM shows of a job, and why its variables in this shell are left over; either may be empty."""
    if not job.isdecimal():
        return "", ""  # see `placeholder`
    reply = HERE.run(["scontrol", "--oneliner", "--details", "show", "job", job])
    why = ended_job(job, reply, os.getuid())
    return reply.output, f"SLURM_JOB_ID={job} is left over in this shell: {why}" if why else ""


def ended_job(job: str, reply: Reply, user: int) -> str:
    """Return why a job is none in which steps of this user can run. Empty: it is one, or SLURM did not answer."""
    from ddpkit.launchers.slurm import SLURM

    if re.search(SLURM.forgotten_pattern, reply.error):
        return f"SLURM does not know job {job}, which has ended"
    owner = re.search(r"\bUserId=([^\s(]+)\((\d+)\)", reply.output)
    if owner and user not in (0, int(owner[2])):
        return f"job {job} is one of {owner[1]}"
    state = re.search(r"\bJobState=(\S+)", reply.output)
    lives = (*SLURM.waiting, *SLURM.running, *SLURM.ending)
    return f"job {job} has ended ({state[1]})" if state and state[1] not in lives else ""


def is_lost(script_node: str, nodes: str) -> bool:
    """Return whether the node of a job's script is none of the job's nodes. `nodes`: as SLURM writes them."""
    try:
        return bool(script_node and nodes) and script_node not in expand_nodelist(nodes)
    except EnvError:
        return False


def time_left(job: str, machine: Machine = HERE) -> str:
    """Return the time until the limit of a job, as SLURM writes it. Empty: no answer."""
    return machine.run(["squeue", "--noheader", f"--jobs={job}", "--format=%L"]).output.strip()


def hosts_of_allocation(environ: Mapping[str, str], nodelist: str, exclude: str, nnodes: int | None) -> tuple[str, ...]:
    """Return the nodes of this process's allocation that --nodelist and --exclude choose; empty: they choose none.

    As with srun, the node list can have fewer nodes than the `nnodes` that are requested. Raises UsageError.
    """
    if not allocation(environ) or not (nodelist or exclude) or "/" in nodelist + exclude:  # `/`: a file of names
        return ()
    held = expand_nodelist(environ.get("SLURM_JOB_NODELIST", ""))
    listed, excluded = _expand_option("nodelist", nodelist), _expand_option("exclude", exclude)
    if not listed and set(excluded).isdisjoint(held):
        return ()
    more = held if nnodes or not listed else []  # nodes that a list may leave open
    chosen = tuple(host for host in dict.fromkeys([*listed, *more]) if host not in excluded)[:nnodes]
    if not chosen:
        raise UsageError(
            f"--exclude {exclude}: no node of the allocation is left",
            f"remove --exclude {shlex.quote(exclude)}",
        )
    return chosen


def _expand_option(option: str, nodes: str) -> list[str]:
    try:
        return expand_nodelist(nodes)
    except EnvError as error:
        raise UsageError(f"--{option}: {error.message}", error.hint) from None


def count_listed(nodelist: str) -> int | None:
    """Return the number of nodes of `node1,node[3-4]`. None: no list, or the name of a file."""
    try:
        return len(set(expand_nodelist(nodelist))) or None if "/" not in nodelist else None
    except EnvError:
        return None


def choose_excluded(
    bad: Sequence[str], nodes: Mapping[str, bool], *, nnodes: int, nodelist: str, exclude: str, sbatch: str
) -> dict[str, str]:
    """Decide on each bad host: empty, exclude it; else the reason against it. Enough nodes must remain for the job.

    Hosts that the job cannot get are absent. `nodes`: see `partition_nodes`. The other texts are options of the user.
    """
    try:
        requested, excluded = set(expand_nodelist(nodelist)), set(expand_nodelist(exclude))
    except EnvError:  # the name of a file
        return dict.fromkeys(bad, "the options list the nodes in a file") if nodes else {}
    left = sum(in_service for name, in_service in nodes.items() if name not in excluded)
    chosen: dict[str, str] = {}
    for host in bad:
        if not nodes.get(host) or host in excluded:
            continue
        if host in requested:
            chosen[host] = "--nodelist requests it"
        elif _CHOOSES.search(sbatch):
            chosen[host] = "the option sbatch selects nodes"
        elif left <= nnodes:
            chosen[host] = f"{left} nodes are in service, and the job needs {nnodes}"
        else:
            chosen[host] = ""
            left -= 1
    return chosen


# ---- the allocation of this process


def slurm(
    nnodes: int | None,
    nproc_per_node: int | None,
    environ: Mapping[str, str],
    named: Sequence[str] = (),
    counts: tuple[int, ...] = (),
    shown: str = "",
) -> Request:
    """Make the request to SLURM, with the allocation that this process stands in, if any.

    `named`: hosts in the order of the user. `counts`: ranks on each node; empty: the same number on all. `shown`: the
    allocation as `scontrol --oneliner --details show job` prints it; empty: no answer.
    """
    # Inside a shell of SLURM's these would be defaults for the next srun, and in a rank they would be another's.
    left = [name for name in environ if is_of_job(name)]
    here = Host(name=short_hostname(), slots=0, cpus=probe.cpus(), stale=(*probe.stale(environ), *left))
    request = Request(nnodes=nnodes, nproc_per_node=nproc_per_node, here=here, hosts=tuple(named), counts=tuple(counts))
    job_id = allocation(environ)
    if not job_id:
        return request
    asked = bool(nproc_per_node or counts)
    tasks = re.search(r" NumTasks=(\d+)", shown)
    if tasks and "SLURM_STEP_ID" in environ:  # the variables are those of a step, such as that of srun --pty
        # The job's own numbers in their place. With one CPU for each task, a node has as many tasks as CPUs.
        cpus = environ.get("SLURM_JOB_CPUS_PER_NODE", "")
        one_cpu = re.search(r" CPUs/Task=1 ", shown)
        environ = {**environ, "SLURM_NTASKS": tasks[1], "SLURM_TASKS_PER_NODE": cpus if one_cpu else ""}
    held = _read_allocation(environ, job_id, asked=asked)
    if held.groups and tuple(named) == held.hosts:  # as without names
        named, request = (), replace(request, hosts=())
    if named:
        held = _limit_to(held, named)
    if held.group_job:
        shown = "\n".join(line for line in shown.splitlines() if line.startswith(f"JobId={held.group_job} "))
    return replace(request, allocation=_with_gpus(held, shown, asked=asked))


def _read_allocation(environ: Mapping[str, str], job_id: str, *, asked: bool) -> Allocation:
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
        groups.append(_read_allocation(variables, variables.get("SLURM_JOB_ID", job_id), asked=asked))
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


def _with_gpus(held: Allocation, shown: str, *, asked: bool) -> Allocation:
    """Return the allocation with the GPUs of each host, and as many ranks there unless -n was given (`asked`).

    They are read from `scontrol show job` (`shown`): salloc sets no variable for the GPUs of --gres and --gpus. With
    --exclusive a job has all GPUs of its nodes, and its steps those that it requested.
    """
    requests = [text for text in re.findall(r" TresPer(?:Node|Job|Task|Socket)=(\S*)", shown) if "gpu" in text]
    by_node = re.findall(r" TresPerNode=(\S*)", shown)
    only_by_node = len(requests) == len(by_node) == 1
    most = _count_gpus(by_node[0]) if only_by_node else math.inf  # that a step can have on a node
    gpus: dict[str, int] = {}
    for nodes, gres in re.findall(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)", shown):
        number = _count_gpus(gres)
        gpus |= dict.fromkeys(expand_nodelist(nodes), int(min(number, most))) if number else {}
    if not gpus or not requests:
        return held
    ranks = held.nproc_per_node
    if not asked:
        by_tasks = ranks if isinstance(ranks, tuple) else (ranks,) * len(held.hosts)
        by_gpus = tuple(gpus.get(host, tasks or 1) for host, tasks in zip(held.hosts, by_tasks, strict=True))
        ranks = by_gpus if len({*by_gpus}) > 1 or held.groups else by_gpus[0]
    by_task = bool(re.search(r" TresPerTask=\S*gpu", shown))
    return replace(held, nproc_per_node=ranks, gpus=gpus, gpus_by_task=by_task)


def _count_gpus(gres: str) -> int:
    """The GPUs in a text such as gpu:a100:2(IDX:0-1),nvme:1 or gres:gpu; a type may begin with a digit."""
    numbers = re.findall(r"(?:^|[,:/])gpu(?::[^:,(]*[^:,(\d][^:,(]*)?(?::(\d+))?(?=[,(]|$)", gres)
    return sum(int(number or 1) for number in numbers)


def _cpus(environ: Mapping[str, str], hosts: Sequence[str]) -> dict[str, int]:
    """Return the CPUs of an allocation on each host. Empty: not known."""
    counts = _numbers(environ, "SLURM_JOB_CPUS_PER_NODE")
    return dict(zip(hosts, counts, strict=True)) if len(counts) == len(hosts) else {}


def _limit_to(held: Allocation, named: Sequence[str]) -> Allocation:
    """The allocation with the named hosts alone, in their order. Raises UsageError."""
    missing = [host for host in named if host not in held.hosts]
    if missing:
        raise UsageError(
            f"{missing[0]} is not a node of allocation {held.job_id}: {format_hosts(held.hosts)}",
            nearest(missing[0], held.hosts),
        )
    each = held.nproc_per_node
    if isinstance(each, tuple):
        each = tuple(each[held.hosts.index(host)] for host in named)
    limited = replace(held, hosts=tuple(named), nproc_per_node=each)
    if not held.groups:
        return limited
    number = next((n for n, hosts in enumerate(held.hosts_by_group) if {*named} <= {*hosts}), None)
    if number is None:
        what = f"{format_hosts(named)}: these nodes are in several groups of heterogeneous allocation {held.job_id}"
        groups = " or ".join(" ".join(hosts) for hosts in held.hosts_by_group)
        raise UsageError(what, f"name nodes of one group: {groups}; or none, for all")
    group = held.groups[number]
    return replace(limited, groups=(), group=number, group_job=group.job_id, cpus_per_task=group.cpus_per_task)


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


@cache
def known_to_sbatch(word: str) -> bool:
    """Tell whether the sbatch of this machine takes an option such as `--segment=16`. It asks no controller.

    Versions and sites differ.
    """
    reply = run_command(["sbatch", word, "--version"], timeout=5.0)
    wrong = "unrecognized option|is ambiguous|doesn't allow an argument|requires an argument"
    return not reply.missing and not reply.timed_out and not re.search(wrong, reply.error)


def allocation(environ: Mapping[str, str]) -> str:
    """The job id of the SLURM allocation of this process. Empty: none, or its detection is disabled."""
    job_id = environ.get("SLURM_JOB_ID", "")
    if not job_id:
        return ""
    from ddpkit.distributed.slurm_env import slurm_disabled

    return "" if slurm_disabled(environ) else job_id


def _tasks_per_node(environ: Mapping[str, str], nnodes: int) -> int | tuple[int, ...] | None:
    """Ranks for each node of an allocation: one per GPU, or as many as tasks were requested there.

    A tuple has one number for each node. None: the request has neither GPUs nor tasks.
    """
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_NTASKS_PER_NODE"):
        if _number(environ, name):
            return _number(environ, name)
    gpus_per_node = environ.get("SLURM_GPUS_PER_NODE", "").rpartition(":")[2]
    if gpus_per_node.isdecimal():
        return int(gpus_per_node)
    tasks = _number(environ, "SLURM_NTASKS") or _number(environ, "SLURM_NPROCS")
    counts = _numbers(environ, "SLURM_TASKS_PER_NODE")
    if len(counts) == nnodes and sum(counts) == tasks and len({*counts}) > 1:
        return tuple(counts)
    if tasks and tasks % nnodes:
        what = f"{tasks} tasks on {nnodes} nodes, a different number on each"
        raise UsageError(what, f"-n {max(1, tasks // nnodes)}")
    return tasks // nnodes if tasks else None


def _numbers(environ: Mapping[str, str], name: str) -> list[int]:
    """Read a number for each node; empty: there are none."""
    try:
        return list(expand_tasks_per_node(environ.get(name, "")))
    except EnvError:
        return []


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def short_hostname() -> str:
    return socket.gethostname().partition(".")[0] or "localhost"
