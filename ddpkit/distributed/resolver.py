"""Resolver of a rank's environment: the same variables always give the same ranks, sizes and master address.

A rank with a wrong guess waits for ever, so the resolver never guesses. It takes the first complete source and notes
why it did not use the sources before. Values that contradict each other are an error that prints both. It is pure: no
file, no network, no torch. `Facts` holds the little that SLURM's variables only point at.

The order: explicit `DDPKIT_*` values, ddpkit's launcher, a complete torch set, a SLURM step, MPI, a single process.
`torch_env` and `_read_scheduler_task` say which values contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ddpkit.distributed.env_values import (
    Environ,
    Num,
    Task,
    complete_local_ranks,
    count_nodes,
    infer_node_rank,
    is_number,
    master_address,
    master_port,
    read_number,
    read_text,
    require_number,
    show_variables,
)
from ddpkit.distributed.mpi_env import read_mpi
from ddpkit.distributed.slurm_env import read_step
from ddpkit.distributed.slurm_lookup import Facts
from ddpkit.distributed.torch_env import complete_set, read_torch
from ddpkit.errors import EnvError
from ddpkit.node.env_names import env_matcher


@dataclass(frozen=True)
class DistEnv:
    """Ranks, sizes, master address and device of this process. `origin` has the variable or rule of each field."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    num_nodes: int
    master_addr: str
    master_port: int
    device_index: int | None
    """Index of this rank's accelerator among the visible ones. None: no device is visible."""
    source: str
    """explicit, ddpkit, torchrun, torch, slurm, openmpi, mpich, mvapich, lsf, flux, pals, legacy or single."""
    origin: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True)
class Rejected:
    """A source that was considered and not used."""

    source: str
    reason: str


@dataclass(frozen=True)
class Resolution:
    """Result of the resolver with its reasons: either `env` or `error` is not None."""

    env: DistEnv | None
    error: EnvError | None
    seen: Mapping[str, str]
    rejected: tuple[Rejected, ...]


_NOTHING_LOOKED_UP = Facts()


def resolve(environ: Environ, argv: Sequence[str] = (), facts: Facts = _NOTHING_LOOKED_UP) -> DistEnv:
    """Return ranks, sizes and master address of this process. Raises EnvError.

    argv: read only for the legacy `--local-rank=N`.
    facts: result of `gather_facts(environ)`. Without it, a SLURM step with a host file needs MASTER_ADDR, and the shell
        of `srun -n4 --pty bash` looks like task 0 of 4.
    """
    resolution = explain(environ, argv, facts)
    if resolution.env is None:
        assert resolution.error is not None
        raise resolution.error
    return resolution.env


def explain(environ: Environ, argv: Sequence[str] = (), facts: Facts = _NOTHING_LOOKED_UP) -> Resolution:
    """Return the result of `resolve` or its error, with the variables that were read and the sources not used."""
    rejected: list[Rejected] = []
    seen = {name: environ[name] for name in sorted(environ) if _is_relevant(name)}
    env: DistEnv | None = None
    error: EnvError | None = None
    try:
        env = _finish(_decide(environ, argv, rejected, facts), environ)
    except EnvError as caught:
        # Without the traceback, which would keep the caller's frames alive.
        error = caught.with_traceback(None)
    return Resolution(env=env, error=error, seen=seen, rejected=tuple(rejected))


# --- the sources, in their order ---


def _decide(environ: Environ, argv: Sequence[str], rejected: list[Rejected], facts: Facts) -> Task:
    """Return the task of the first complete source, and note why sources before it were not used."""
    for source, read in (("explicit", _read_explicit), ("ddpkit", _read_ddpkit)):
        task = read(environ)
        if isinstance(task, Task):
            return task
        rejected.append(Rejected(source=source, reason=task))
    compared: list[Task] = []  # scheduler's tasks that `read_torch` asked for

    def read_scheduler() -> Task | None:
        scheduled = _read_scheduler_task(environ, [], facts)
        compared.extend([scheduled] if scheduled else [])
        return scheduled

    task = read_torch(environ, argv, read_scheduler)
    if isinstance(task, Task):
        reason = "the complete torch variables take precedence, and agree with it"
        rejected.extend(Rejected(source=other.source, reason=reason) for other in compared)
        return task
    rejected.append(Rejected(source="torch", reason=task))
    return _read_scheduler_task(environ, rejected, facts) or _single_process()


def _read_explicit(environ: Environ) -> Task | str:
    """Read the user's own DDPKIT_* values. Returns the reason where there are none. Raises EnvError."""
    names = ("DDPKIT_RANK", "DDPKIT_WORLD_SIZE", "DDPKIT_LOCAL_RANK", "DDPKIT_LOCAL_WORLD_SIZE", "DDPKIT_NODE_RANK")
    present = [name for name in names if read_text(environ, name)]
    if not present:
        return "DDPKIT_RANK and DDPKIT_WORLD_SIZE are not set"
    missing = [name for name in names[:2] if name not in present]
    if missing:
        raise EnvError(
            f"{show_variables(environ, present)} is set, but {' and '.join(missing)} is not: explicit values need both",
            f"export {missing[0]}=..., or: unset {' '.join(present)}",
        )
    rank, world = require_number(environ, "DDPKIT_RANK"), require_number(environ, "DDPKIT_WORLD_SIZE")
    local_rank, local_world = complete_local_ranks(
        rank,
        world,
        read_number(environ, "DDPKIT_LOCAL_RANK"),
        read_number(environ, "DDPKIT_LOCAL_WORLD_SIZE"),
        "DDPKIT_",
    )
    num_nodes = count_nodes(world, local_world, None)
    node_rank = infer_node_rank(rank, local_rank, local_world, num_nodes, read_number(environ, "DDPKIT_NODE_RANK"))

    def master() -> tuple[tuple[str, str], Num]:
        addr = master_address(environ)
        if addr is None and num_nodes.value > 1:
            raise EnvError(
                f"rank {rank.value} of {world.value}, on {num_nodes.value} nodes, has no address of rank 0",
                "export DDPKIT_MASTER_ADDR=<the host of rank 0>, the same on every node",
            )
        port = master_port(environ) or Num(29500, "torch's default port")
        return addr or ("127.0.0.1", "one node"), port

    ranks = (rank, world, local_rank, local_world, node_rank, num_nodes)
    return Task("explicit", "DDPKIT_RANK and DDPKIT_WORLD_SIZE", *ranks, master)


def _read_ddpkit(environ: Environ) -> Task | str:
    """Read what ddpkit's launcher set. Returns the reason where it did not start this process. Raises EnvError."""
    if not read_text(environ, "DDPKIT_RUN"):
        return "DDPKIT_RUN is not set: ddpkit's launcher did not start this process"
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if not read_text(environ, name)]
    if missing:
        return f"DDPKIT_RUN is set, but {', '.join(missing)} is not"
    # Not compared with a SLURM step: the launcher may run inside of one (`srun --pty bash`, then `ddpkit launch`), and
    # every rank inherits the task number of that shell.
    return complete_set(environ, "ddpkit", "DDPKIT_RUN", read_number(environ, "LOCAL_RANK"), None)


def _read_scheduler_task(environ: Environ, rejected: list[Rejected], facts: Facts) -> Task | None:
    """Return the task of SLURM or MPI, or None; add those that are not used, and why, to `rejected`.

    Both may be set. `srun --mpi=pmi2` sets PMI_RANK to the task number of the step: SLURM has more variables. `mpirun`
    in a job starts a daemon per node with `srun`, and its ranks inherit the *daemon's* task number: MPI is the inner
    launcher and right. An MPI world of one in a larger step counts for nothing: a shell under `--mpi=pmi2` leaves it to
    the `srun` typed in it.
    """
    slurm, mpi = read_step(environ, facts), read_mpi(environ)
    if isinstance(slurm, Task) and isinstance(mpi, Task) and mpi.world_size.value > 1:
        of_mpi, of_slurm = (mpi.rank.value, mpi.world_size.value), (slurm.rank.value, slurm.world_size.value)
        if of_mpi != of_slurm:
            inner = f"{mpi.rank} and {mpi.world_size}"
            slurm = f"the task of the step is an MPI launcher: {slurm.rank} and {slurm.world_size}, but {inner}"
    if isinstance(slurm, Task):
        return slurm
    rejected.append(Rejected(source="slurm", reason=slurm))
    if isinstance(mpi, Task):
        return mpi
    rejected.append(Rejected(source="mpi", reason=mpi))
    return None


def _single_process() -> Task:
    rule = "no launcher: a single process"
    zero, one = Num(0, rule), Num(1, rule)
    ranks = (zero, one, zero, one, zero, one)
    return Task("single", rule, *ranks, lambda: (("127.0.0.1", rule), Num(29500, f"{rule}; not used")))


# --- from a task to a DistEnv ---


def _finish(task: Task, environ: Environ) -> DistEnv:
    """Check the task's numbers against each other. Returns them with master and device."""
    for small, large in (
        (task.rank, task.world_size),
        (task.local_rank, task.local_world_size),
        (task.node_rank, task.num_nodes),
    ):
        if large.value < 1:
            raise EnvError(f"{large} is too small: it counts at least this process", f"correct {large.variable}")
        if small.value >= large.value:
            raise EnvError(
                f"{small} is not below {large}: ranks begin at 0", f"correct {small.variable} or {large.variable}"
            )
    if task.local_world_size.value > task.world_size.value:
        raise EnvError(
            f"{task.local_world_size} on this node is more than {task.world_size} in total",
            f"correct {task.local_world_size.variable} or {task.world_size.variable}",
        )
    (addr, addr_origin), port = task.master()
    if not 1 <= port.value <= 65535:
        raise EnvError(f"{port} is not a port from 1 to 65535", f"export {port.origin}=29500")
    _check_agent_store(task, addr, port.value, environ)
    device, device_origin = _device_index(environ, task.local_rank)
    numbers = {
        "rank": task.rank,
        "world_size": task.world_size,
        "local_rank": task.local_rank,
        "local_world_size": task.local_world_size,
        "node_rank": task.node_rank,
        "num_nodes": task.num_nodes,
        "master_port": port,
    }
    origin = {name: number.origin for name, number in numbers.items()}
    origin.update(master_addr=addr_origin, device_index=device_origin, source=task.because)
    values = {name: number.value for name, number in numbers.items()}
    return DistEnv(**values, master_addr=addr, device_index=device, source=task.source, origin=origin)


def _check_agent_store(task: Task, addr: str, port: int, environ: Environ) -> None:
    """Raise EnvError where torch would expect torchrun's store, so that rank 0 never listens."""
    if task.world_size.value == 1 or read_text(environ, "TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    by_torchrun = read_text(environ, "TORCHELASTIC_RUN_ID") and task.source in ("explicit", "ddpkit", "torchrun")
    where = (read_text(environ, "MASTER_ADDR").strip("[]"), read_text(environ, "MASTER_PORT"))
    if not by_torchrun or where != (addr, str(port)):
        raise EnvError(
            f"TORCHELASTIC_USE_AGENT_STORE=True is a leftover of torchrun, which did not start this process "
            f"({task.source}): rank 0 would not listen on {addr}:{port}, and all would wait for it",
            "unset TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_RUN_ID",
        )


def _device_index(environ: Environ, local_rank: Num) -> tuple[int | None, str]:
    """Return the index of this rank's device and its origin: the local rank, 0 if one device is visible, or None.

    SLURM's `--gpus-per-task=1` shows each task one device, with index 0. An unset variable restricts nothing.
    """
    counts = {name: _count_devices(environ[name]) for name in _VISIBLE if name in environ}
    if counts:
        # ROCm applies several of them in turn: the shortest remains.
        name = min(counts, key=lambda one: counts[one])
        if counts[name] == 0:
            return None, f"{name} (no device visible)"
        if counts[name] == 1:
            return 0, f"{name} (one device visible)"
        # Several per task (`--gpus-per-task=2`, a mask): the local rank may be too large.
        bound = _count_devices(environ.get("SLURM_STEP_GPUS", ""))
        on_node = read_number(environ, "SLURM_GPUS_ON_NODE")
        if on_node is not None and counts[name] == bound < on_node.value:
            rule = f"{local_rank.origin} % {bound}, SLURM bound {bound} of {on_node.value} to this task"
            return local_rank.value % bound, f"{name} ({rule})"
    return local_rank.value, local_rank.origin


# No wide prefix has this use: the variables are printed, and DDPKIT_* or SLURM_* may hold a secret.
_is_relevant = env_matcher("place")
_VISIBLE = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "ASCEND_RT_VISIBLE_DEVICES",
)


def _count_devices(text: str) -> int:
    """Count devices as the CUDA runtime does: indices, GPU-... and MIG-... ids, up to the first other entry.

    Intel's ZE_AFFINITY_MASK has tiles of a device as well: `0.1`.
    """
    count = 0
    for entry in map(str.strip, text.split(",")):
        if not (is_number(entry.replace(".", "", 1)) or entry.startswith(("GPU-", "MIG-"))):
            break
        count += 1
    return count
