"""Ranks of an MPI launcher: Open MPI, MPICH and Intel MPI, MVAPICH, and LSF's jsrun.

MPI gives ranks, but no address of rank 0: several nodes need MASTER_ADDR, except under LSF, which lists the hosts.
"""

from __future__ import annotations

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
from ddpkit.errors import EnvError


def _names(source: str, prefix: str) -> tuple[str, str, str, tuple[str, ...], tuple[str, ...]]:
    """Return the source and its variables of rank, world size, local rank and local world size."""
    return source, f"{prefix}RANK", f"{prefix}SIZE", (f"{prefix}LOCAL_RANK",), (f"{prefix}LOCAL_SIZE",)


# jsrun comes first: it starts Spectrum MPI, an Open MPI, which sets OMPI_COMM_WORLD_* too. OMPI_COMM_WORLD_NODE_RANK is
# the rank *on* the node.
_MPI_VARIABLES = (
    _names("lsf", "JSM_NAMESPACE_"),
    _names("openmpi", "OMPI_COMM_WORLD_"),
    _names("mvapich", "MV2_COMM_WORLD_"),
    # MPICH's hydra and Intel MPI set MPI_LOCAL*; Cray's PALS sets PMI_LOCAL_*.
    ("mpich", "PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK"), ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE")),
)


def read_mpi(environ: Environ) -> Task | str:
    """Read the variables of an MPI launcher. Returns the reason where there are none. Raises EnvError."""
    for source, rank_name, size_name, local_rank_names, local_size_names in _MPI_VARIABLES:
        if not read_text(environ, rank_name) and not read_text(environ, size_name):
            continue
        local_rank_name = next((name for name in local_rank_names if read_text(environ, name)), None)
        local_size_name = next((name for name in local_size_names if read_text(environ, name)), None)
        if source == "mpich" and local_rank_name is None and read_text(environ, "SLURM_STEP_ID"):
            # Hydra sets a local rank; SLURM's plugin does not. Otherwise DDPKIT_DETECT_SLURM=0 would bring the tasks
            # of the step back under another name.
            return "PMI_RANK and PMI_SIZE belong to a SLURM step (srun --mpi=pmi2)"
        missing = [name for name in (rank_name, size_name) if not read_text(environ, name)]
        if missing:
            present = rank_name if missing == [size_name] else size_name
            raise EnvError(
                f"{present}={environ[present]} is set, but {missing[0]} is not: the variables of MPI are incomplete",
                f"unset {present}, or start the script with mpirun",
            )
        return _build_task(environ, source, rank_name, size_name, local_rank_name, local_size_name)
    return "none of OMPI_COMM_WORLD_RANK, PMI_RANK, MV2_COMM_WORLD_RANK and JSM_NAMESPACE_RANK is set"


def _build_task(
    environ: Environ,
    source: str,
    rank_name: str,
    size_name: str,
    local_rank_name: str | None,
    local_size_name: str | None,
) -> Task:
    rank, world = require_number(environ, rank_name), require_number(environ, size_name)
    local_rank = read_number(environ, local_rank_name) if local_rank_name else None
    local_world = read_number(environ, local_size_name) if local_size_name else None
    if world.value == 1:
        local_rank, local_world = local_rank or Num(0, size_name), local_world or Num(1, size_name)
    if local_rank is None or local_world is None:
        names = next((entry[3][0], entry[4][0]) for entry in _MPI_VARIABLES if entry[0] == source)
        raise EnvError(
            f"MPI rank {rank.value} of {world.value} has no local rank: "
            f"{names[0] if local_rank is None else names[1]} is not set",
            "start the script with torchrun or `ddpkit launch`, or export DDPKIT_RANK, DDPKIT_WORLD_SIZE, "
            "DDPKIT_LOCAL_RANK and DDPKIT_LOCAL_WORLD_SIZE in every process",
        )
    num_nodes = count_nodes(world, local_world, None)

    def master() -> tuple[tuple[str, str], Num]:
        names = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID")
        known = [name for name in names if read_text(environ, name)]
        port = master_port(environ) or Num(
            port_for(*(environ[name] for name in known)), f"hash of {', '.join(known) or 'nothing'}"
        )
        addr = master_address(environ)
        if addr is None and num_nodes.value == 1:
            addr = ("127.0.0.1", "one node")
        if addr is None and source == "lsf":
            addr = _lsf_first_host(environ)
        if addr is None:
            raise EnvError(
                f"MPI rank {rank.value} of {world.value}, with {local_world} on this node, has no address of rank 0: "
                "MPI does not provide it, and MASTER_ADDR is not set",
                "mpirun -x MASTER_ADDR=<the host of rank 0> -x MASTER_PORT=29500 ... (Open MPI), "
                "or -genv MASTER_ADDR <the host of rank 0> (MPICH, Intel MPI)",
            )
        return addr, port

    node_rank = infer_node_rank(rank, local_rank, local_world, num_nodes, None)
    ranks = (rank, world, local_rank, local_world, node_rank, num_nodes)
    return Task(source, f"{rank_name} and {size_name}", *ranks, master)


def _lsf_first_host(environ: Environ) -> tuple[str, str] | None:
    """Return the first compute host of an LSF job. The list may begin with the node of the job's script."""
    words = read_text(environ, "LSB_MCPU_HOSTS").split()
    entries = zip(words[::2], words[1::2])  # noqa: B905  # strict= needs Python 3.10
    slots = [(host, int(count)) for host, count in entries if count.isdigit()]
    name = "LSB_MCPU_HOSTS"
    if not slots:
        name = "LSB_HOSTS"
        hosts = read_text(environ, name).split()
        slots = [(host, hosts.count(host)) for host in dict.fromkeys(hosts)]
    if not slots:
        return None
    head, one = slots[0]
    # With jsrun the first entry is the launch node, which has one slot while the compute nodes have many.
    launch = head.startswith(("batch", "login", "launch")) or one == 1
    if launch and len(slots) > 1 and all(count > 1 for _, count in slots[1:]):
        return slots[1][0], f"{name} (first compute host)"
    return head, f"{name} (first host)"
