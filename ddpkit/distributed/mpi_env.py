"""Who a rank of an MPI launcher is: Open MPI, MPICH and Intel MPI, MVAPICH, and LSF's jsrun.

MPI says who is who, but not where rank 0 listens: with several nodes somebody must name the master, except under LSF,
whose host list does.
"""

from __future__ import annotations

from ddpkit.distributed.env_values import (
    Environ,
    Num,
    Task,
    count_nodes,
    master_address,
    master_port,
    need,
    number_in,
    place_node,
    port_for,
    text_of,
)
from ddpkit.errors import EnvError

# (source, rank, world size, local rank, local world size). jsrun comes first, because Spectrum MPI, which it starts, is
# an Open MPI and sets OMPI_COMM_WORLD_* too. Beware of OMPI_COMM_WORLD_NODE_RANK: it is the rank *on* the node.
_MPI_VARIABLES: tuple[tuple[str, str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "lsf",
        "JSM_NAMESPACE_RANK",
        "JSM_NAMESPACE_SIZE",
        ("JSM_NAMESPACE_LOCAL_RANK",),
        ("JSM_NAMESPACE_LOCAL_SIZE",),
    ),
    (
        "openmpi",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    (
        "mvapich",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        ("MV2_COMM_WORLD_LOCAL_RANK",),
        ("MV2_COMM_WORLD_LOCAL_SIZE",),
    ),
    # MPICH's hydra and Intel MPI set MPI_LOCAL*; Cray's PALS sets PMI_LOCAL_*.
    ("mpich", "PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK"), ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE")),
)


def read_mpi(environ: Environ) -> Task | str:
    for source, rank_name, size_name, local_rank_names, local_size_names in _MPI_VARIABLES:
        if not text_of(environ, rank_name) and not text_of(environ, size_name):
            continue
        local_rank_name = next((name for name in local_rank_names if text_of(environ, name)), None)
        local_size_name = next((name for name in local_size_names if text_of(environ, name)), None)
        if source == "mpich" and local_rank_name is None and text_of(environ, "SLURM_STEP_ID"):
            # Hydra would say which process on its node this is; SLURM's plugin does not. Without this, turning SLURM
            # off would bring its tasks back under another name.
            return "PMI_RANK and PMI_SIZE are those of a SLURM step (srun --mpi=pmi2)"
        missing = [name for name in (rank_name, size_name) if not text_of(environ, name)]
        if missing:
            present = rank_name if missing == [size_name] else size_name
            raise EnvError(
                f"{present}={environ[present]} is set, but {missing[0]} is not: half of an MPI launcher's variables",
                f"unset {present}, or start the script with mpirun",
            )
        return _mpi_task(environ, source, rank_name, size_name, local_rank_name, local_size_name)
    return "none of OMPI_COMM_WORLD_RANK, PMI_RANK, MV2_COMM_WORLD_RANK and JSM_NAMESPACE_RANK is set"


def _mpi_task(
    environ: Environ,
    source: str,
    rank_name: str,
    size_name: str,
    local_rank_name: str | None,
    local_size_name: str | None,
) -> Task:
    rank, world = need(environ, rank_name), need(environ, size_name)
    local_rank = number_in(environ, local_rank_name) if local_rank_name else None
    local_world = number_in(environ, local_size_name) if local_size_name else None
    if world.value == 1:
        local_rank, local_world = local_rank or Num(0, size_name), local_world or Num(1, size_name)
    if local_rank is None or local_world is None:
        names = next((entry[3][0], entry[4][0]) for entry in _MPI_VARIABLES if entry[0] == source)
        raise EnvError(
            f"MPI rank {rank.value} of {world.value} does not know which process on its node it is: "
            f"{names[0] if local_rank is None else names[1]} is not set",
            "start the script with torchrun or `ddpkit launch`, or export DDPKIT_RANK, DDPKIT_WORLD_SIZE, "
            "DDPKIT_LOCAL_RANK and DDPKIT_LOCAL_WORLD_SIZE in every process",
        )
    num_nodes = count_nodes(world, local_world, None)

    def master() -> tuple[tuple[str, str], Num]:
        names = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID")
        known = [name for name in names if text_of(environ, name)]
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
                f"MPI rank {rank.value} of {world.value}, with {local_world} on this node, does not know where rank 0 "
                "is: MPI does not say it, and MASTER_ADDR is not set",
                "mpirun -x MASTER_ADDR=<the host of rank 0> -x MASTER_PORT=29500 ... (Open MPI), "
                "or -genv MASTER_ADDR <the host of rank 0> (MPICH, Intel MPI)",
            )
        return addr, port

    return Task(
        source=source,
        because=f"{rank_name} and {size_name}",
        rank=rank,
        world_size=world,
        local_rank=local_rank,
        local_world_size=local_world,
        node_rank=place_node(rank, local_rank, local_world, num_nodes, None),
        num_nodes=num_nodes,
        master=master,
    )


def _lsf_first_host(environ: Environ) -> tuple[str, str] | None:
    """Return the first compute host of an LSF job: the list may open with the node that runs the job's script."""
    words = text_of(environ, "LSB_MCPU_HOSTS").split()
    entries = zip(words[::2], words[1::2])  # noqa: B905  # strict= needs Python 3.10
    slots = [(host, int(count)) for host, count in entries if count.isdigit()]
    name = "LSB_MCPU_HOSTS"
    if not slots:
        name = "LSB_HOSTS"
        hosts = text_of(environ, name).split()
        slots = [(host, hosts.count(host)) for host in dict.fromkeys(hosts)]
    if not slots:
        return None
    head, one = slots[0]
    # With jsrun the first entry is the launch node, which has one slot while the compute nodes have many.
    launch = head.startswith(("batch", "login", "launch")) or one == 1
    if launch and len(slots) > 1 and all(count > 1 for _, count in slots[1:]):
        return slots[1][0], f"{name} (first compute host)"
    return head, f"{name} (first host)"
