"""Ranks of an MPI launcher or of another scheduler: one table of the names of their variables.

They give ranks, but no address of rank 0: several nodes need MASTER_ADDR. A launcher that gives less is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from ddpkit.distributed.env_values import (
    Environ,
    Num,
    Task,
    count_nodes,
    infer_node_rank,
    master_address,
    master_port,
    port_for,
    read_number,
    read_text,
    require_number,
)
from ddpkit.distributed.slurm_env import SPECIAL_STEPS
from ddpkit.errors import EnvError


@dataclass(frozen=True)
class _Launcher:
    """Names of a launcher's variables. Of several names for one number the first that is set counts."""

    source: str
    rank: str
    size: str
    local_rank: tuple[str, ...]
    local_size: tuple[str, ...] = ()
    node_rank: str = ""


def _mpi(source: str, prefix: str) -> _Launcher:
    return _Launcher(source, f"{prefix}RANK", f"{prefix}SIZE", (f"{prefix}LOCAL_RANK",), (f"{prefix}LOCAL_SIZE",))


# The order: jsrun starts Spectrum MPI, an Open MPI, which sets OMPI_COMM_WORLD_* too. Flux and PALS set PMI_RANK and
# PMI_SIZE too. OMPI_COMM_WORLD_NODE_RANK is the rank *on* the node. Sources: Open MPI 5, MVAPICH2 2.3, LSF 10.1,
# flux-core (src/shell/task.c), Slurm (mpi_cray_shasta.h), MPICH 4 (hydra).
_LAUNCHERS = (
    _mpi("lsf", "JSM_NAMESPACE_"),
    _mpi("openmpi", "OMPI_COMM_WORLD_"),
    _mpi("mvapich", "MV2_COMM_WORLD_"),
    _Launcher("flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", ("FLUX_TASK_LOCAL_ID",)),
    _Launcher(
        "pals",
        "PALS_RANKID",
        "PMI_SIZE",
        ("PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"),
        ("PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE"),
        node_rank="PALS_NODEID",
    ),
    _Launcher(
        "mpich", "PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK"), ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE")
    ),
)
# A process with one of these has peers that nothing here counts. Without an error each would train alone.
_RANK_ALONE = {"ALPS_APP_PE": "ALPS", "PMIX_RANK": "PMIx"}
# A SLURM step sets these as well: `--mpi=pmi2`, `pmix` and `cray_shasta`. Only Hydra adds MPI_LOCALRANKID.
_OF_SLURM = ("PMI_RANK", "PALS_RANKID", "PMIX_RANK")

_EXPLICIT = "export DDPKIT_RANK, DDPKIT_WORLD_SIZE, DDPKIT_LOCAL_RANK and DDPKIT_LOCAL_WORLD_SIZE in every process"


def read_mpi(environ: Environ) -> Task | str:
    """Read the variables of an MPI launcher, Flux or PALS. Returns the reason where there are none. Raises EnvError."""
    in_step = read_text(environ, "SLURM_STEP_ID") not in ("", *SPECIAL_STEPS)
    for names in _LAUNCHERS:
        given = [name for name in (names.rank, names.size) if read_text(environ, name)]
        if not given or (names.source == "pals" and names.rank not in given):
            continue
        if in_step and names.rank in _OF_SLURM and not read_text(environ, "MPI_LOCALRANKID"):
            # Otherwise DDPKIT_DETECT_SLURM=0 would bring the tasks of the step back under another name.
            return f"{names.rank} belongs to a SLURM step (srun --mpi)"
        if len(given) == 1:
            other = names.size if given[0] == names.rank else names.rank
            raise EnvError(
                f"{given[0]}={environ[given[0]]} is set, but {other} is not: the variables of MPI are incomplete",
                f"unset {given[0]}, or start the script with mpirun",
            )
        return _build_task(environ, names)
    for name, launcher in _RANK_ALONE.items():
        if read_text(environ, name) and not in_step:
            raise EnvError(
                f"{name}={environ[name]} is set: {launcher} started this process, and gives no number of ranks",
                f"{_EXPLICIT}; or unset {name}",
            )
    return "none of OMPI_COMM_WORLD_RANK, PMI_RANK, MV2_COMM_WORLD_RANK and JSM_NAMESPACE_RANK is set"


def _build_task(environ: Environ, names: _Launcher) -> Task:
    """Return the task that the variables of a launcher describe. Raises EnvError where they do not show the layout."""
    rank, world = require_number(environ, names.rank), require_number(environ, names.size)
    local_rank, local_world = _first(environ, names.local_rank), _first(environ, names.local_size)
    if world.value == 1:
        local_rank, local_world = local_rank or Num(0, names.size), local_world or Num(1, names.size)
    if local_rank is None or local_world is None:
        missing = names.local_rank if local_rank is None else names.local_size
        why = f"{missing[0]} is not set" if missing else f"{names.source} does not provide the ranks of each node"
        raise EnvError(
            f"MPI rank {rank.value} of {world.value} has no local rank: {why}",
            f"start the script with torchrun or `ddpkit launch`, or {_EXPLICIT}",
        )
    num_nodes = count_nodes(world, local_world, None)

    def master() -> tuple[tuple[str, str], Num]:
        known = [name for name in _JOB_IDS if read_text(environ, name)]
        port = master_port(environ) or Num(
            port_for(*(environ[name] for name in known)), f"hash of {', '.join(known) or 'nothing'}"
        )
        addr = master_address(environ)
        if addr is None and num_nodes.value == 1:
            addr = ("127.0.0.1", "one node")
        if addr is None:
            raise EnvError(
                f"{names.source} rank {rank.value} of {world.value}, with {local_world} on this node, has no address "
                "of rank 0: its launcher does not provide it, and MASTER_ADDR is not set",
                _MASTER_HINT,
            )
        return addr, port

    known_rank = read_number(environ, names.node_rank) if names.node_rank else None
    node_rank = infer_node_rank(rank, local_rank, local_world, num_nodes, known_rank)
    ranks = (rank, world, local_rank, local_world, node_rank, num_nodes)
    return Task(names.source, f"{names.rank} and {names.size}", *ranks, master)


# Equal in all processes of a job, and of another one different: what the port is made of.
_JOB_IDS = (
    "PMIX_NAMESPACE OMPI_MCA_ess_base_jobid FLUX_JOB_ID PALS_APID SLURM_JOB_ID LSB_JOBID PBS_JOBID AZUREML_RUN_ID"
).split()
_MASTER_HINT = "mpirun -x MASTER_ADDR=<the host of rank 0> -x MASTER_PORT=29500 ... (Open MPI), "
_MASTER_HINT += "-genv MASTER_ADDR <the host of rank 0> (MPICH, Intel MPI), or export it in every process"


def _first(environ: Environ, names: tuple[str, ...]) -> Num | None:
    return next((read_number(environ, name) for name in names if read_text(environ, name)), None)
