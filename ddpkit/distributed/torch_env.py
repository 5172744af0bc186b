"""Who a rank is by torch's own variables, which every launcher sets and every forgotten `export` leaves behind.

They are believed when they are complete and fit the SLURM step or MPI rank they were found in. Anything else is refused
with both values: a stale RANK trains on the wrong shard, or waits for a master that is long gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ddpkit.distributed.env_values import (
    Environ,
    Num,
    Task,
    complete_local,
    count_nodes,
    need,
    need_address,
    number_in,
    parse_number,
    place_node,
    show,
    text_of,
)
from ddpkit.errors import EnvError


def read_torch(environ: Environ, argv: Sequence[str], placed: Callable[[], Task | None]) -> Task | str:
    """Read RANK, WORLD_SIZE and the rest of torch's set: complete, or harmless, or an error.

    MASTER_ADDR and MASTER_PORT alone are no partial set: a script that exports both before `srun` or `mpirun` says
    where rank 0 is, and leaves who is who to them.
    """
    present = [name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") if text_of(environ, name)]
    if not present:
        return "RANK, WORLD_SIZE and LOCAL_RANK are not set"
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if not text_of(environ, name)]
    # torchrun's agents are the tasks of a step, and its workers inherit their task numbers: nothing to compare. With
    # the c10d rendezvous even the order of the nodes is another one.
    torchrun = bool(text_of(environ, "TORCHELASTIC_RUN_ID"))
    if missing:
        task = placed()
        if task is not None:
            _check_partial(environ, present, task)
            return f"only {show(environ, present)} is set, which agrees with {task.source}"
        raise EnvError(
            f"{show(environ, present)} is set, but {' and '.join(missing)} is not: "
            "half of a launcher's variables, most likely a leftover of an earlier export",
            f"unset {' '.join(present)}, or start the script with torchrun or `ddpkit launch`",
        )
    if torchrun:
        return complete_set(environ, "torchrun", "TORCHELASTIC_RUN_ID", number_in(environ, "LOCAL_RANK"), None)
    try:
        task = placed()
    except EnvError:  # a container that passes on a part of SLURM_*: nothing to compare with, and the set is complete
        task = None
    if task is not None and _is_inside(environ, task):
        task = None
    local_rank, legacy = number_in(environ, "LOCAL_RANK"), _legacy_local_rank(argv)
    if legacy is not None and local_rank is not None and legacy.value != local_rank.value:
        raise EnvError(
            f"{local_rank} contradicts the argument {legacy.origin}: two answers to which process on this node this is",
            "unset LOCAL_RANK, or leave the argument out",
        )
    if local_rank is None and legacy is not None:
        return complete_set(environ, "legacy", legacy.origin, legacy, task)
    return complete_set(environ, "torch", "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT", local_rank, task)


def complete_set(environ: Environ, source: str, because: str, local_rank: Num | None, task: Task | None) -> Task:
    """Build the task of a complete torch set; `task` is the step or MPI rank that agrees with it and may fill gaps."""
    rank, world = need(environ, "RANK"), need(environ, "WORLD_SIZE")
    # DeepSpeed's launcher says LOCAL_SIZE.
    local_world = number_in(environ, "LOCAL_WORLD_SIZE") or number_in(environ, "LOCAL_SIZE")
    if task is not None and task.world_size.value == world.value and task.rank.value == rank.value:
        local_rank, local_world = local_rank or task.local_rank, local_world or task.local_world_size
        known_nodes: Num | None = task.num_nodes
        known_node: Num | None = task.node_rank
    else:
        # torchrun sets GROUP_RANK only; a NODE_RANK beside it was meant for its command line, and with the c10d
        # rendezvous the nodes may have got another order.
        order = ("GROUP_RANK", "NODE_RANK") if text_of(environ, "TORCHELASTIC_RUN_ID") else ("NODE_RANK", "GROUP_RANK")
        known_node = number_in(environ, order[0]) or number_in(environ, order[1])
        known_nodes = number_in(environ, "GROUP_WORLD_SIZE")
    if local_rank is None and world.value > 1:
        raise EnvError(
            f"rank {rank.value} of {world.value} ({source}) does not know which process on its node it is: "
            "LOCAL_RANK is not set",
            "export LOCAL_RANK=... in every process (0 where each node runs one), or start the script with torchrun",
        )
    local_rank, local_world = complete_local(rank, world, local_rank, local_world, "")
    num_nodes = count_nodes(world, local_world, known_nodes)
    return Task(
        source=source,
        because=because,
        rank=rank,
        world_size=world,
        local_rank=local_rank,
        local_world_size=local_world,
        node_rank=place_node(rank, local_rank, local_world, num_nodes, known_node),
        num_nodes=num_nodes,
        master=lambda: (need_address(environ, "MASTER_ADDR"), need(environ, "MASTER_PORT")),
    )


def _check_partial(environ: Environ, present: list[str], task: Task) -> None:
    """Raise EnvError unless each torch variable that is set says what the SLURM step or MPI says."""
    for name, said in (("RANK", task.rank), ("WORLD_SIZE", task.world_size), ("LOCAL_RANK", task.local_rank)):
        number = number_in(environ, name)
        if number is not None and number.value != said.value:
            raise EnvError(
                f"{number} contradicts {said} of the {_PLACE[task.source]}: {_LEFTOVER}",
                f"unset {' '.join(present)}",
            )


def _is_inside(environ: Environ, task: Task) -> bool:
    """Compare a complete torch set with the task it was found in; return whether it is a launcher inside the task.

    * As many ranks as tasks: they are the same processes, and RANK must be the task's number.
    * More ranks than tasks, and more than one on this node: a launcher inside each task started several ranks there.
      The task's numbers are the launcher's and not ours.
    * One task: it says nothing (an interactive shell, or one step per node that was given its RANK by a script).
    * Anything else, such as `RANK=0 WORLD_SIZE=1` of an earlier session in each of 8 tasks, is a contradiction: it
      would train 8 models, or wait for ranks that nobody starts.
    """
    rank, world = need(environ, "RANK"), need(environ, "WORLD_SIZE")
    if task.world_size.value == 1:
        return world.value != 1
    local_world = number_in(environ, "LOCAL_WORLD_SIZE") or number_in(environ, "LOCAL_SIZE")
    if world.value > task.world_size.value and local_world is not None and local_world.value > 1:
        return True
    pairs = [(world, task.world_size), (rank, task.rank)]
    local_rank = number_in(environ, "LOCAL_RANK")
    if local_rank is not None:
        pairs.append((local_rank, task.local_rank))
    contradictions = [f"{ours} contradicts {theirs}" for ours, theirs in pairs if ours.value != theirs.value]
    if contradictions:
        hint = "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE"
        if task.source == "slurm":
            hint += " (or, where they are right, export DDPKIT_DETECT_SLURM=0)"
        raise EnvError(f"{', '.join(contradictions)} of the {_PLACE[task.source]}: {_LEFTOVER}", hint)
    return False


_LEFTOVER = "most likely a leftover of an earlier export"
_PLACE = {
    "slurm": "SLURM step",
    "openmpi": "Open MPI job",
    "mpich": "MPI job",
    "mvapich": "MVAPICH job",
    "lsf": "LSF job",
}


def _legacy_local_rank(argv: Sequence[str]) -> Num | None:
    """Find torch.distributed.launch's `--local-rank=N` (also `_`, also two words). A negative N means none."""
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
