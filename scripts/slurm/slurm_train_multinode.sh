#!/bin/bash
# Several nodes, one task per GPU, started by srun; logs as logs/train_JOB.out.
# It needs nothing but SLURM and PyTorch: copy it with steps.sh next to your train.py; look for CHANGE.
#
#     mkdir -p logs && sbatch slurm_train_multinode.sh [arguments of train.py]
#
# SLURM does not make logs/, and a job whose log cannot be opened fails without a word (ExitCode 0:53). Started as a
# plain command, `bash slurm_train_multinode.sh [arguments of train.py]`, this makes logs/ and submits itself.
#
#SBATCH --job-name=train
#SBATCH --partition=gpu           # CHANGE: sinfo shows yours
#SBATCH --nodes=2                 # CHANGE
#SBATCH --ntasks-per-node=4       # CHANGE: the GPUs of a node
#SBATCH --gres=gpu:4              # CHANGE: the same number
#SBATCH --cpus-per-task=8         # CHANGE: the processors of a node, divided by its tasks
#SBATCH --time=48:00:00           # CHANGE
#SBATCH --output=logs/train_%j.out
#SBATCH --error=logs/train_%j.err
#SBATCH --open-mode=append         # a job that is requeued writes on, and replaces nothing

# CHANGE: what makes your own Python the one that runs.
# module load cuda
# source .venv/bin/activate

# CHANGE, where ranks do not meet: the network between the nodes.
# export NCCL_SOCKET_IFNAME=ib0

set -euo pipefail # only now: many activate scripts read variables that are not set

if [ -z "${SLURM_JOB_ID:-}" ]; then # not in a job yet
    mkdir -p logs
    exec sbatch "$0" "$@"
fi

# CHANGE: what every rank runs. "$@" is what stands behind this script's name.
command=(python -u train.py "$@")

# ---- From here on nothing needs a change.

# sbatch runs a copy of this script that lies elsewhere: SLURM knows where the original is.
original=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's|^ *Command=\(/[^ ]*\)/.*|\1|p' | head -n 1) || true
for folder in "$(dirname "$0")" "$original" .; do
    if [ -r "$folder/steps.sh" ]; then break; fi
done
# shellcheck source=scripts/slurm/steps.sh
. "$folder/steps.sh"
read_roll
run_command
