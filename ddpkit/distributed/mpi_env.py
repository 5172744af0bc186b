"""Ranks of an MPI launcher or of another scheduler that names them: Flux, PALS, Open MPI, MPICH, MVAPICH, jsrun.

They give ranks, but no address of rank 0: several nodes need MASTER_ADDR. LSF and Azure ML list the hosts.

| launcher | variables | source |
|---|---|---|
| jsrun (LSF) | JSM_NAMESPACE_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE; LSB_MCPU_HOSTS | IBM Spectrum LSF 10.1 |
| Open MPI | OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE | Open MPI 5 |
| Azure ML's Open MPI | the same; AZ_BATCH_MASTER_NODE, AZ_BATCH_HOST_LIST | Azure Batch |
| MVAPICH | MV2_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE | MVAPICH2 2.3 |
| Flux | FLUX_TASK_RANK, FLUX_JOB_SIZE, FLUX_TASK_LOCAL_ID, FLUX_JOB_NNODES | flux-core, src/shell/task.c |
| PALS (HPE Cray) | PALS_RANKID, PMI_SIZE, PALS_LOCAL_RANKID, PMI_LOCAL_SIZE, PALS_NODEID | Slurm, mpi_cray_shasta.h |
| MPICH, Intel MPI | PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS | MPICH 4, hydra |
| ALPS, PMIx alone (prrte) | ALPS_APP_PE, PMIX_RANK: a rank without a size, an error | libfabric, gnix_nic.c; PRRTE |
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
    nodes: str = ""


def _mpi(source: str, prefix: str) -> _Launcher:
    return _Launcher(source, f"{prefix}RANK", f"{prefix}SIZE", (f"{prefix}LOCAL_RANK",), (f"{prefix}LOCAL_SIZE",))


# The order: jsrun starts Spectrum MPI, an Open MPI, which sets OMPI_COMM_WORLD_* too. Flux and PALS set PMI_RANK and
# PMI_SIZE too. OMPI_COMM_WORLD_NODE_RANK is the rank *on* the node.
_LAUNCHERS = (
    _mpi("lsf", "JSM_NAMESPACE_"),
    _mpi("openmpi", "OMPI_COMM_WORLD_"),
    _mpi("mvapich", "MV2_COMM_WORLD_"),
    _Launcher("flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", ("FLUX_TASK_LOCAL_ID",), nodes="FLUX_JOB_NNODES"),
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
    rank, world = require_number(environ, names.rank), require_number(environ, names.size)
    local_rank, local_world = _first(environ, names.local_rank), _first(environ, names.local_size)
    if world.value == 1:
        local_rank, local_world = local_rank or Num(0, names.size), local_world or Num(1, names.size)
    nodes = read_number(environ, names.nodes) if names.nodes else _azure_nodes(environ, names.source)
    if local_world is None and local_rank is not None and nodes is not None:
        local_world = _even_share(rank, world, local_rank, nodes)
    if local_rank is None or local_world is None:
        missing = names.local_rank if local_rank is None else names.local_size or (names.nodes,)
        raise EnvError(
            f"MPI rank {rank.value} of {world.value} has no local rank: {missing[0]} is not set",
            f"start the script with torchrun or `ddpkit launch`, or {_EXPLICIT}",
        )
    num_nodes = count_nodes(world, local_world, nodes)

    def master() -> tuple[tuple[str, str], Num]:
        known = [name for name in _JOB_IDS if read_text(environ, name)]
        port = master_port(environ) or Num(
            port_for(*(environ[name] for name in known)), f"hash of {', '.join(known) or 'nothing'}"
        )
        addr = master_address(environ)
        if addr is None and num_nodes.value == 1:
            addr = ("127.0.0.1", "one node")
        if addr is None and names.source == "lsf":
            addr = _lsf_first_host(environ)
        azure = read_text(environ, "AZ_BATCH_MASTER_NODE").partition(":")[0]
        if addr is None and azure:
            addr = (azure, "AZ_BATCH_MASTER_NODE (Azure ML)")
        if addr is None:
            raise EnvError(
                f"{names.source} rank {rank.value} of {world.value}, with {local_world} on this node, has no address "
                "of rank 0: its launcher does not provide it, and MASTER_ADDR is not set",
                _MASTER_HINTS.get(names.source, _MASTER_HINTS["openmpi"]),
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
_MASTER_HINTS = {
    "openmpi": "mpirun -x MASTER_ADDR=<the host of rank 0> -x MASTER_PORT=29500 ... (Open MPI), "
    "or -genv MASTER_ADDR <the host of rank 0> (MPICH, Intel MPI)",
    "flux": 'flux run --env=MASTER_ADDR="$(flux hostlist --nth=0 instance)" --env=MASTER_PORT=29500 ...',
    "pals": 'export MASTER_ADDR="$(head -n 1 "$PBS_NODEFILE")" MASTER_PORT=29500 before mpiexec',
}


def _first(environ: Environ, names: tuple[str, ...]) -> Num | None:
    return next((read_number(environ, name) for name in names if read_text(environ, name)), None)


def _azure_nodes(environ: Environ, source: str) -> Num | None:
    """Return the number of hosts of an Azure ML job, whose Open MPI may give no local size."""
    hosts = read_text(environ, "AZ_BATCH_HOST_LIST")
    return Num(len(hosts.split(",")), "AZ_BATCH_HOST_LIST (hosts)") if hosts and source == "openmpi" else None


def _even_share(rank: Num, world: Num, local_rank: Num, nodes: Num) -> Num:
    """Return the ranks of this node, where each node has the same number. Raises EnvError.

    With uneven nodes the local rank of some process fits neither of the two usual orders, and that process refuses.
    """
    share, rest = divmod(world.value, max(1, nodes.value))
    block, cyclic = rank.value % max(1, share), rank.value // max(1, nodes.value)
    if rest or local_rank.value not in (block, cyclic):
        raise EnvError(
            f"{rank} of {world} with {local_rank} on {nodes}: the ranks of each node differ, and their number here "
            "is not known",
            _EXPLICIT,
        )
    return Num(share, f"{world.origin} / {nodes.origin}")


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
