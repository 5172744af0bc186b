"""Names of environment variables that the launcher, nodes and ranks treat in a special manner: one list, with the uses.

stale       would mislead a rank: from another launcher, or from the SLURM task that starts this one; removed
launcher    an option of another launcher; a launch names those that it removes
place       tells a process its rank, its peers, or its devices; the resolver reads it and `ddpkit env` shows it
container   set on the node for a rank; passed into its container
tuning      tunes a library of the ranks; other machines get it with --env alone, and a launch names it otherwise
private     can hold a secret, or a path of this machine; a job of SLURM gets it with --env alone
reported    changes what libraries do, or which ones are loaded; `ddpkit test` compares it between nodes

A name with a star stands for all that begin so.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Each group of names with its uses.
ENV_NAMES = (
    # torchrun, torch.distributed, and every launcher that follows them
    ("stale place container", "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE"),
    ("stale place container", "MASTER_ADDR MASTER_PORT"),
    ("place container", "NODE_RANK"),
    ("place", "LOCAL_SIZE TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE"),
    ("place container", "TORCHELASTIC_RESTART_COUNT"),
    ("stale container", "ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE TORCHELASTIC_MAX_RESTARTS"),
    ("stale", "TORCHELASTIC_*"),
    # options of other launchers: torchrun itself, Accelerator() and deepspeed.initialize() would obey them
    ("stale launcher", "PET_* ACCELERATE_* DEEPSPEED_*"),
    ("reported", "MASTER_*"),
    # ddpkit
    ("stale place", "DDPKIT_RANK DDPKIT_WORLD_SIZE DDPKIT_LOCAL_RANK DDPKIT_LOCAL_WORLD_SIZE DDPKIT_NODE_RANK"),
    ("stale place", "DDPKIT_MASTER_ADDR DDPKIT_MASTER_PORT"),
    ("stale", "DDPKIT_PRELOAD DDPKIT_TAP DDPKIT_CPUS DDPKIT_CALL"),
    ("place container", "DDPKIT_RUN"),
    ("stale container", "DDPKIT_OBSERVE"),
    ("place", "DDPKIT_DETECT_SLURM DDPKIT_INIT_TIMEOUT"),
    # SLURM; Lightning reads the stale ones
    ("stale", "SLURM_NPROCS* SLURM_NTASKS* SLURM_TASK* SLURM_STEP* SLURM_PROCID* SLURM_LOCALID* SLURM_NODEID*"),
    ("stale", "SLURM_GTIDS*"),
    ("container", "SLURM_* SLURMD_*"),
    ("place", "SLURM_JOB_ID SLURM_JOBID SLURM_ARRAY_TASK_ID SLURM_RESTART_COUNT SLURM_STEP_ID SLURM_STEPID"),
    ("place", "SLURM_STEP_NUM_TASKS SLURM_STEP_NUM_NODES SLURM_STEP_NODELIST SLURM_STEP_TASKS_PER_NODE"),
    ("place", "SLURM_JOB_NODELIST SLURM_NTASKS SLURM_NPROCS SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_GTIDS"),
    ("place", "SLURM_HOSTFILE SLURM_DISTRIBUTION SLURM_PTY_PORT SLURM_TASK_PID SLURMD_NODENAME SLURM_HET_SIZE"),
    ("place", "SLURM_STEP_GPUS SLURM_GPUS_ON_NODE SLURM_JOB_NODELIST_HET_GROUP_* SLURM_JOB_NODELIST_PACK_GROUP_*"),
    ("place", "SLURM_JOB_ID_HET_GROUP_* SLURM_JOB_ID_PACK_GROUP_*"),
    ("reported", "SLURM_CONF*"),
    # MPI, and other schedulers
    ("place", "PMI_RANK PMI_SIZE PMI_LOCAL_RANK PMI_LOCAL_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS PMIX_NAMESPACE"),
    ("place", "FLUX_TASK_RANK FLUX_TASK_LOCAL_ID FLUX_JOB_SIZE FLUX_JOB_ID ALPS_APP_PE PMIX_RANK"),
    ("place", "PALS_RANKID PALS_LOCAL_RANKID PALS_LOCAL_SIZE PALS_NODEID PALS_APID PET_NNODES PET_NODE_RANK"),
    ("place", "OMPI_MCA_ess_base_jobid OMPI_COMM_WORLD_* MV2_COMM_WORLD_* JSM_NAMESPACE_*"),
    ("place", "LSB_JOBID AZUREML_RUN_ID PBS_JOBID"),
    # GPUs
    ("place container", "CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES ZE_AFFINITY_MASK"),
    ("place container", "ASCEND_RT_VISIBLE_DEVICES"),
    ("tuning", "CUDA_LAUNCH_BLOCKING* CUDA_DEVICE_ORDER* CUBLAS_*"),
    ("reported", "CUDA_* HIP_* ROCR_* NVIDIA_*"),
    # libraries of the ranks
    ("tuning reported container", "NCCL_* GLOO_* UCX_* FI_* TORCH_* OMP_*"),
    ("tuning reported", "PYTORCH_* MKL_* PYTHONPATH*"),
    ("tuning", "TORCHDYNAMO_* TORCHINDUCTOR_* TOKENIZERS_* PYTHONHASHSEED*"),
    ("tuning private", "HF_* HUGGING_FACE_* TRANSFORMERS_* WANDB_*"),
    ("container", "RCCL_* PYTHONUNBUFFERED PYTHONFAULTHANDLER"),
    ("reported", "LD_LIBRARY_PATH* LD_PRELOAD* http_proxy* https_proxy*"),
)


def env_matcher(use: str) -> Callable[[str], bool]:
    """Return a function that tells whether a variable of this name has the use."""
    names = [name for uses, group in ENV_NAMES if use in uses.split() for name in group.split()]
    exact = frozenset(name for name in names if name[-1] != "*")
    prefixes = tuple(name[:-1] for name in names if name[-1] == "*")
    return lambda name: name in exact or name.startswith(prefixes)


def nccl_conf() -> list[tuple[str, str, str]]:
    """Variables that NCCL reads from its own files, with their values and files. The environment goes before them."""
    variables = []
    for path in (os.environ.get("NCCL_CONF_FILE") or os.path.expanduser("~/.nccl.conf"), "/etc/nccl.conf"):
        try:
            with open(path, errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        pairs = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
        variables += [(name.strip(), value.strip(), path) for name, _, value in pairs]
    return variables
