#!/bin/bash
# Several nodes, one enroot container on each, and a torchrun in it.
# Copy run_script.sh, env.sh, torchrun.sh and steps.sh next to your train.py; look for CHANGE in env.sh and below.
#
#     sbatch run_script.sh [arguments of train.py]
#
# What the ranks of a node say goes to log/JOB/NODE.out. This makes that folder itself.
#
#SBATCH --job-name=train
#SBATCH --partition=gpu           # CHANGE: sinfo shows yours
#SBATCH --nodes=2                 # CHANGE
#SBATCH --ntasks-per-node=1       # one container, in which torchrun starts a rank for each GPU
#SBATCH --gres=gpu:8              # CHANGE: the GPUs of a node
#SBATCH --cpus-per-task=32        # CHANGE: the processors of a node
#SBATCH --time=48:00:00           # CHANGE
#SBATCH --output=slurm-%j.out
#SBATCH --open-mode=append         # a job that is requeued writes on, and replaces nothing

set -euo pipefail

if [ -z "${SLURM_JOB_ID:-}" ]; then # not in a job yet
    exec sbatch "$0" "$@"
fi
for file in env.sh torchrun.sh steps.sh; do
    if [ ! -r "$file" ]; then
        echo "$file not found in $PWD, the directory of the job" >&2
        exit 1
    fi
done
command=(torchrun.sh "$@")

# ---- From here on nothing needs a change.

# shellcheck source=scripts/slurm/steps.sh
. ./steps.sh

# On each node: find or make its container, and start torchrun.sh in it.
# shellcheck disable=SC2329 # it runs in the tasks
start() {
    local name options lock
    set -euo pipefail
    find_node_rank
    export NNODES=$SLURM_STEP_NUM_TASKS
    # shellcheck source=scripts/slurm/env.sh
    . ./env.sh
    lock=${XDG_STATE_HOME:-$HOME/.local/state}/enroot
    mkdir -p "$lock"
    (
        flock -w 1800 9 # another job of yours may be making it at this moment
        half=$lock/$SLURMD_NODENAME-$CONTAINER_NAME.half
        containers=$(enroot list)
        if ! grep -Fqx -- "$CONTAINER_NAME" <<<"$containers"; then
            echo "$SLURMD_NODENAME: making the container $CONTAINER_NAME"
            echo "$CONTAINER_NAME" >"$half" # until it is whole
            enroot create -n "$CONTAINER_NAME" "$CONTAINER_IMAGE"
            : >"$half"
        elif [ -s "$half" ]; then
            echo "$SLURMD_NODENAME: a job ended while it made the container $CONTAINER_NAME: half may be there" >&2
            echo "hint: CONTAINER_NAME=$CONTAINER_NAME-2 in env.sh" >&2
            exit 1
        fi
    ) 9>>"$lock/$SLURMD_NODENAME-$CONTAINER_NAME.lock"

    # A container sees no variable of the host but those named here. Values stay off the command line.
    options=(--root --rw --mount "$PWD:$CONTAINER_WORKDIR")
    for name in MASTER_ADDR MASTER_PORT NODE_RANK NNODES NPROC_PER_NODE OMP_NUM_THREADS CUDA_VISIBLE_DEVICES \
        SLURM_JOB_ID TRACKED_BY $CONTAINER_ENV; do
        if [ -n "${!name+set}" ]; then options+=(--env "$name"); fi
    done
    exec enroot start "${options[@]}" "$CONTAINER_NAME" bash "$CONTAINER_WORKDIR/$1" "${@:2}"
}

read_roll
mkdir -p "log/$SLURM_JOB_ID"
step+=("--output=log/$SLURM_JOB_ID/%N.out" --open-mode=append)
run_command
