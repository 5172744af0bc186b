"""Where rank 0 is in a SLURM step whose hosts were ordered by hand (`srun -m arbitrary`, or a file SLURM_HOSTFILE).

Such a step runs its tasks in the order of a file or of `-w`, but the lists and the node ids in its environment are
sorted by name: no variable says where rank 0 is. The file does, where it can be read and still agrees with what is
seen here.
"""

from __future__ import annotations

from ddpkit.distributed.env_values import Environ, Num, is_number, number_in, text_of
from ddpkit.distributed.nodelist import expand_nodelist
from ddpkit.distributed.slurm_lookup import Facts
from ddpkit.errors import EnvError


def is_arbitrary(environ: Environ) -> bool:
    """Return whether the hosts were ordered by hand.

    SLURM_DISTRIBUTION alone says so. srun ignores a host file when it is given `-w`, and then leaves it unset.
    """
    return text_of(environ, "SLURM_DISTRIBUTION").lower().startswith("arbitrary")


def zero_host(environ: Environ, facts: Facts, rank: Num, tasks_here: list[int]) -> tuple[str, str]:
    """Return the host of rank 0 and what said so. Raises EnvError where nothing does."""
    hosts = expand_nodelist(text_of(environ, "SLURM_STEP_NODELIST"))
    here = _this_node(environ, hosts)
    if len(hosts) == 2 and here in hosts and tasks_here:
        host = here if 0 in tasks_here else hosts[1 - hosts.index(here)]
        return host, "SLURM_GTIDS (where task 0 is, of two nodes)"
    path = text_of(environ, "SLURM_HOSTFILE")
    who = f"task {rank.value} of the step, which is on {here or 'this node'}, cannot know the host of rank 0"
    if not path:
        raise EnvError(
            f"{who}: srun was told the order of the hosts (-m arbitrary), and SLURM_STEP_NODELIST is sorted",
            "export MASTER_ADDR=<the first host of srun's -w>, or name the hosts in a file and export SLURM_HOSTFILE",
        )
    instead = 'export MASTER_ADDR="$(head -n 1 "$SLURM_HOSTFILE")" before srun'
    if facts.hostfile_error:
        raise EnvError(
            f"{who}: SLURM_HOSTFILE={path} cannot be read here: {facts.hostfile_error}",
            f"{instead}, or keep the file where every node sees it",
        )
    if facts.hostfile is None:
        raise EnvError(
            f"{who}: the order of the hosts is in SLURM_HOSTFILE={path}, and SLURM_STEP_NODELIST is sorted", instead
        )
    named = read_hostfile(facts.hostfile, max((rank.value, *tasks_here)) + 1)
    for task in sorted({rank.value, *tasks_here}):
        said = named[task] if task < len(named) else "no host"
        if here and said != here:
            raise EnvError(
                f"SLURM_HOSTFILE={path} gives task {task} {said}, but SLURM started it on {here}: "
                "the file is not the one that srun read",
                "export MASTER_ADDR=<the host of rank 0> before srun, or leave the file as it is while the job runs",
            )
    return named[0], "SLURM_HOSTFILE (its first host)"


def node_by_hand(
    environ: Environ, facts: Facts, rank: Num, world: Num, num_nodes: Num, tasks_here: list[int]
) -> Num | None:
    """Number the nodes so that node 0 holds rank 0, the others in the order of their names.

    Every rank must come to the same order: where the host of rank 0 is not known, all keep SLURM's own numbers.
    """
    if world.value == num_nodes.value:
        return Num(rank.value, f"{rank.origin} (one task per node)")
    node = number_in(environ, "SLURM_NODEID")
    if node is None:
        return None
    hosts = expand_nodelist(text_of(environ, "SLURM_STEP_NODELIST"))
    told = text_of(environ, "MASTER_ADDR")
    try:
        zero = told if told in hosts else zero_host(environ, facts, rank, tasks_here)[0]
    except EnvError:
        return Num(node.value, "SLURM_NODEID (rank 0 may be on another than node 0: its host's name is not known)")
    if zero not in hosts or node.value > hosts.index(zero):
        return node
    moved = 0 if node.value == hosts.index(zero) else node.value + 1
    return Num(moved, f"SLURM_NODEID (with {zero}, where rank 0 is, in front)")


def read_hostfile(text: str, enough: int) -> list[str]:
    """Return the hosts of a SLURM_HOSTFILE, one per task, as srun reads it, and no more than about `enough`.

    Names are separated by commas and lines; `#` begins a comment; `n1*3` is three times n1; `n[1-2]` is a node list.
    """
    hosts: list[str] = []
    for line in text.splitlines():
        for item in _outside_brackets(line.partition("#")[0]):
            name, _, times = (part.strip() for part in item.partition("*"))
            if name:
                hosts.extend(expand_nodelist(name) * (min(int(times), enough) if is_number(times) else 1))
            if len(hosts) >= enough:
                return hosts
    return hosts


def _outside_brackets(line: str) -> list[str]:
    items: list[str] = []
    for piece in line.split(","):
        if items and items[-1].count("[") > items[-1].count("]"):
            items[-1] += f",{piece}"
        else:
            items.append(piece)
    return items


def numbers(tasks: list[int]) -> str:
    return ",".join(map(str, tasks))


def _this_node(environ: Environ, hosts: list[str]) -> str:
    """Return this node's name as SLURM calls it."""
    node = number_in(environ, "SLURM_NODEID")
    by_number = hosts[node.value] if node is not None and node.value < len(hosts) else ""
    return text_of(environ, "SLURMD_NODENAME") or by_number
