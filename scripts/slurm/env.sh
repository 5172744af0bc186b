# shellcheck shell=bash
# The settings of run_script.sh, read on every node before its container starts. CHANGE what is yours.

# The image, and the name of the container that is made of it once on each node: enroot import docker://... makes images.
CONTAINER_IMAGE=${CONTAINER_IMAGE:-$HOME/nvidia+pytorch+24.06-py3.sqsh}
CONTAINER_NAME=${CONTAINER_NAME:-my-torch}

# Containers must not lie on a file system that the nodes share: each node makes its own.
# export ENROOT_DATA_PATH=/enroot/$(id -u)/data

# Where the folder of the job appears in the container.
export CONTAINER_WORKDIR=/workspace/mnt

# Further variables of yours that ranks shall see, by name.
export CONTAINER_ENV="NCCL_DEBUG NCCL_SOCKET_IFNAME WANDB_API_KEY HF_HOME"

# Ranks on each node, and the processors for each.
export NPROC_PER_NODE=${NPROC_PER_NODE:-${SLURM_GPUS_ON_NODE:-1}}
export OMP_NUM_THREADS=$((${SLURM_CPUS_PER_TASK:-1} / NPROC_PER_NODE))
if [ "$OMP_NUM_THREADS" -lt 1 ]; then OMP_NUM_THREADS=1; fi
