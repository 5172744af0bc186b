"""Ranks from torch's own variables, which every launcher sets and every forgotten `export` leaves behind.

They count if they are complete and fit the SLURM step or MPI rank around them. Otherwise the error shows both values:
a stale RANK trains on the wrong shard, or waits for a master that ended long ago.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ddpkit.distributed.env_values import (
    Environ,
    Num,
    Task,
    complete_local_ranks,
    count_nodes,
    infer_node_rank,
    parse_number,
    read_number,
    read_text,
    require_address,
    require_number,
    show_variables,
)
from ddpkit.errors import EnvError


def read_torch(environ: Environ, argv: Sequence[str], read_scheduler: Callable[[], Task | None]) -> Task | str:
    """Read RANK, WORLD_SIZE and the rest of torch's set. Returns the reason where it is not used. Raises EnvError.

    MASTER_ADDR and MASTER_PORT without ranks are no partial set: a script may export them before `srun` or `mpirun`.
    """
    present = [name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") if read_text(environ, name)]
    if not present:
        return "RANK, WORLD_SIZE and LOCAL_RANK are not set"
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if not read_text(environ, name)]
    # torchrun's workers inherit the task numbers of its agents: nothing to compare. With the c10d rendezvous even the
    # nodes have another order.
    torchrun = bool(read_text(environ, "TORCHELASTIC_RUN_ID"))
    if missing:
        task = read_scheduler()
        if task is not None:
            _check_partial(environ, present, task)
            return f"only {show_variables(environ, present)} is set, which agrees with {task.source}"
        raise EnvError(
            f"{show_variables(environ, present)} {_verb(present)} set, but {_listed(missing)} {_verb(missing)} not: "
            "the variables of a launcher are incomplete, most likely from an earlier export",
            f"unset {' '.join(present)}, or start the script with torchrun or `ddpkit launch`",
        )
    if torchrun:
        return complete_set(environ, "torchrun", "TORCHELASTIC_RUN_ID", read_number(environ, "LOCAL_RANK"), None)
    try:
        task = read_scheduler()
    except EnvError:  # a container that passes on a part of SLURM_*: nothing to compare with
        task = None
    if task is not None and _is_inside(environ, task):
        task = None
    local_rank, legacy = read_number(environ, "LOCAL_RANK"), _legacy_local_rank(argv)
    if legacy is not None and local_rank is not None and legacy.value != local_rank.value:
        raise EnvError(
            f"{local_rank} contradicts the argument {legacy.origin}", "unset LOCAL_RANK, or remove the argument"
        )
    if local_rank is None and legacy is not None:
        return complete_set(environ, "legacy", legacy.origin, legacy, task)
    return complete_set(environ, "torch", "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT", local_rank, task)


def complete_set(environ: Environ, source: str, because: str, local_rank: Num | None, task: Task | None) -> Task:
    """Return the task of a complete torch set. `task`: the SLURM or MPI task that agrees with it, and fills gaps."""
    rank, world = require_number(environ, "RANK"), require_number(environ, "WORLD_SIZE")
    # DeepSpeed's launcher sets LOCAL_SIZE.
    local_world = read_number(environ, "LOCAL_WORLD_SIZE") or read_number(environ, "LOCAL_SIZE")
    if task is not None and task.world_size.value == world.value and task.rank.value == rank.value:
        local_rank, local_world = local_rank or task.local_rank, local_world or task.local_world_size
        given_num_nodes: Num | None = task.num_nodes
        given_node_rank: Num | None = task.node_rank
    else:
        # torchrun sets GROUP_RANK only. A NODE_RANK beside it is an argument of its command line; with the c10d
        # rendezvous the nodes may have another order.
        order = (
            ("GROUP_RANK", "NODE_RANK") if read_text(environ, "TORCHELASTIC_RUN_ID") else ("NODE_RANK", "GROUP_RANK")
        )
        given_node_rank = read_number(environ, order[0]) or read_number(environ, order[1])
        given_num_nodes = read_number(environ, "GROUP_WORLD_SIZE")
    pods = read_number(environ, "PET_NNODES")
    if local_rank is None and local_world is None and pods is not None and pods.value == world.value:
        # Kubeflow names each pod's place for torchrun, beside RANK and WORLD_SIZE: as many pods as ranks.
        local_rank, local_world = Num(0, "PET_NNODES (one rank per pod)"), Num(1, "PET_NNODES (one rank per pod)")
        given_node_rank, given_num_nodes = read_number(environ, "PET_NODE_RANK"), pods
    if local_rank is None and world.value > 1:
        raise EnvError(
            f"rank {rank.value} of {world.value} ({source}) has no local rank: LOCAL_RANK is not set",
            "export LOCAL_RANK=... in every process (0 with one process per node), or start the script with torchrun",
        )
    local_rank, local_world = complete_local_ranks(rank, world, local_rank, local_world, "")
    num_nodes = count_nodes(world, local_world, given_num_nodes)
    node_rank = infer_node_rank(rank, local_rank, local_world, num_nodes, given_node_rank)
    ranks = (rank, world, local_rank, local_world, node_rank, num_nodes)
    return Task(
        source,
        because,
        *ranks,
        lambda: (require_address(environ, "MASTER_ADDR"), require_number(environ, "MASTER_PORT")),
    )


def _check_partial(environ: Environ, present: list[str], task: Task) -> None:
    """Raise EnvError unless the torch variables that are set equal those of the SLURM or MPI task."""
    for name, scheduled in (("RANK", task.rank), ("WORLD_SIZE", task.world_size), ("LOCAL_RANK", task.local_rank)):
        number = read_number(environ, name)
        if number is not None and number.value != scheduled.value:
            raise EnvError(
                f"{number} contradicts {scheduled} of the {_JOB_NAMES[task.source]}: {_LEFTOVER}",
                f"unset {' '.join(present)}",
            )


def _is_inside(environ: Environ, task: Task) -> bool:
    """Return whether a complete torch set belongs to a launcher inside a SLURM or MPI task. Raises EnvError.

    * As many ranks as tasks: the same processes, and RANK must be the task's number.
    * More ranks than tasks, and more than one on this node: a launcher inside each task started several ranks. The
      task's numbers are those of the launcher.
    * One task: no contradiction (an interactive shell, or one step per node with RANK from a script).
    * Anything else is a contradiction. `RANK=0 WORLD_SIZE=1` in each of 8 tasks would train 8 models, or wait for ranks
      that do not exist.
    """
    rank, world = require_number(environ, "RANK"), require_number(environ, "WORLD_SIZE")
    if task.world_size.value == 1:
        return world.value != 1
    local_world = read_number(environ, "LOCAL_WORLD_SIZE") or read_number(environ, "LOCAL_SIZE")
    if world.value > task.world_size.value and local_world is not None and local_world.value > 1:
        return True
    pairs = [(world, task.world_size), (rank, task.rank)]
    local_rank = read_number(environ, "LOCAL_RANK")
    if local_rank is not None:
        pairs.append((local_rank, task.local_rank))
    contradictions = [f"{ours} contradicts {theirs}" for ours, theirs in pairs if ours.value != theirs.value]
    if contradictions:
        hint = "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE"
        if task.source == "slurm":
            hint += " (or, if they are right, export DDPKIT_DETECT_SLURM=0)"
        raise EnvError(f"{', '.join(contradictions)} of the {_JOB_NAMES[task.source]}: {_LEFTOVER}", hint)
    return False


_LEFTOVER = "most likely from an earlier export"
_JOB_NAMES = {
    "slurm": "SLURM step",
    "openmpi": "Open MPI job",
    "mpich": "MPI job",
    "mvapich": "MVAPICH job",
    "lsf": "LSF job",
    "flux": "Flux job",
    "pals": "PALS job",
}


def _legacy_local_rank(argv: Sequence[str]) -> Num | None:
    """Return torch.distributed.launch's `--local-rank=N` (also `_`, also two words), or None; a negative N is none."""
    for position, word in enumerate(argv):
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name not in ("--local-rank", "--local_rank"):
            continue
        if not equals:
            value = argv[position + 1] if position + 1 < len(argv) else ""
        if value.strip().startswith("-"):
            return None
        return Num(parse_number(name, value), f"{name}={value.strip()}")
    return None


def _verb(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
