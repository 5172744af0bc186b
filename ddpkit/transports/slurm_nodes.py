"""Nodes of a SLURM partition, those of them that a job need not use, and the time that a job has left."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from ddpkit.distributed.nodelist import expand_nodelist
from ddpkit.errors import EnvError, UsageError
from ddpkit.launchers.slurm import SLURM
from ddpkit.machine import HERE, Machine, Reply
from ddpkit.transports.local_facts import allocation

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


def ended_job(job: str, reply: Reply, user: int) -> str:
    """Return why a job is none in which steps of this user can run. Empty: it is one, or SLURM did not answer."""
    if re.search(SLURM.forgotten_pattern, reply.error):
        return f"SLURM does not know job {job}, which has ended"
    owner = re.search(r"\bUserId=([^\s(]+)\((\d+)\)", reply.output)
    if owner and user not in (0, int(owner[2])):
        return f"job {job} is one of {owner[1]}"
    state = re.search(r"\bJobState=(\S+)", reply.output)
    lives = (*SLURM.waiting, *SLURM.running)
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
    more = held if nnodes or not listed else []
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
