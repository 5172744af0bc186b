#!/bin/bash
# Several nodes, one enroot container on each, and a torchrun in it.
# Copy run_script.sh, env.sh and torchrun.sh next to your train.py; what to change is in env.sh and on the lines below.
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

set -euo pipefail

if [ -z "${SLURM_JOB_ID:-}" ]; then # not in a job yet
    exec sbatch "$0" "$@"
fi
for file in env.sh torchrun.sh; do
    if [ ! -r "$file" ]; then
        echo "there is no $file in $PWD, the folder of the job" >&2
        exit 1
    fi
done
command=(torchrun.sh "$@")

# ---- Who is where: a step of an instant, with the layout of the real one.

step=(srun --kill-on-bad-exit=1 --export=ALL)
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then
    step+=("--cpus-per-task=$SLURM_CPUS_PER_TASK") # srun of Slurm 22.05 to 23.02 does not read it by itself
fi

# In a task: its rank and its host; from rank 0 also a port that nothing on its host uses. It lies below those that
# kernels hand out, and is another one for each job, array task, restart and step.
# shellcheck disable=SC2329 # it runs in the tasks
roll_call() {
    local slot=$((${SLURM_RESTART_COUNT:-0} + SLURM_STEP_ID)) port=
    if [ "$SLURM_PROCID" = 0 ]; then
        port=$((20000 + SLURM_JOB_ID % 798 * 16 + slot % 16))
        while grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$port") " /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
            port=$((port < 32767 ? port + 1 : 20000))
        done
    fi
    echo "roll call: $SLURM_PROCID $SLURMD_NODENAME $port"
}

roll=$(timeout -k 5 "${ROLL_CALL_SECONDS:-300}" "${step[@]}" bash -c "$(declare -f roll_call); roll_call" |
    sed -n 's/^roll call: //p' | sort -n) || {
    silent=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | grep -vxFf <(awk '{ print $2 }' <<<"$roll")) || true
    echo "roll call: FAILED: no answer from: ${silent:-tasks on a node that others answer from}" >&2
    exit 1
}
read -r _ MASTER_ADDR MASTER_PORT <<<"$roll"
: "${MASTER_PORT:?the roll call said nothing}"
NODES_BY_RANK=$(awk '!seen[$2]++ { print $2 }' <<<"$roll")
export MASTER_ADDR MASTER_PORT NODES_BY_RANK

# ---- The nodes: each finds or makes its container, and starts torchrun.sh in it.

# shellcheck disable=SC2329 # it runs in the tasks
start() {
    local host name options
    set -euo pipefail
    NODE_RANK=0
    for host in $NODES_BY_RANK; do
        if [ "$host" = "$SLURMD_NODENAME" ]; then break; fi
        NODE_RANK=$((NODE_RANK + 1))
    done
    if [ "$SLURM_PROCID" = 0 ] && [ "$SLURMD_NODENAME" != "$MASTER_ADDR" ]; then
        echo "rank 0 is on $SLURMD_NODENAME, and was on $MASTER_ADDR in the roll call" >&2
        exit 1
    fi
    export NODE_RANK NNODES=$SLURM_STEP_NUM_TASKS
    # shellcheck source=scripts/slurm/env.sh
    . ./env.sh
    (
        flock 9 # another job of yours may be making it at this moment
        # Not grep -q, which leaves before the end of the list; enroot would fail on the closed pipe.
        if ! enroot list | grep -Fx -- "$CONTAINER_NAME" >/dev/null; then
            echo "$SLURMD_NODENAME: making the container $CONTAINER_NAME"
            enroot create -n "$CONTAINER_NAME" "$CONTAINER_IMAGE"
        fi
    ) 9>"${TMPDIR:-/tmp}/enroot-$(id -u)-$CONTAINER_NAME.lock"

    # A container sees no variable of the host but those named here. Values stay off the command line.
    options=(--root --rw --mount "$PWD:$CONTAINER_WORKDIR")
    for name in MASTER_ADDR MASTER_PORT NODE_RANK NNODES NPROC_PER_NODE OMP_NUM_THREADS CUDA_VISIBLE_DEVICES \
        SLURM_JOB_ID $CONTAINER_ENV; do
        if [ -n "${!name+set}" ]; then options+=(--env "$name"); fi
    done
    exec enroot start "${options[@]}" "$CONTAINER_NAME" bash "$CONTAINER_WORKDIR/$1" "${@:2}"
}

mkdir -p "log/$SLURM_JOB_ID"
step+=("--output=log/$SLURM_JOB_ID/%N.out" --open-mode=append)

# ---- Run. The exit code is that of the first task that failed: srun's own is the highest one, so 143 or 137, those of
# the tasks it ended because of the first. What srun says of a failed task first names the cause.

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkfifo "$scratch/errors"
tr '\r' '\n' <"$scratch/errors" |
    LC_ALL=C sed -n 's/.*srun: error: \([^ ]*: tasks\{0,1\} [0-9,-]*: .*\)/\1/p' >"$scratch/failures" &
watcher=$!

code=0
"${step[@]}" bash -c "$(declare -f worker start 2>/dev/null); start \"\$@\"" start "${command[@]}" \
    2> >(exec tee "$scratch/errors" >&2) || code=$?
wait "$watcher"

if [ "$code" -ne 0 ] && read -r failure <"$scratch/failures"; then
    case ${failure##*: } in
    "Exited with exit code "*) code=${failure##* } ;;
    Aborted*) code=134 ;;
    "Bus error"*) code=135 ;;
    Killed*) code=137 ;;
    "Segmentation fault"*) code=139 ;;
    Terminated*) code=143 ;;
    esac
    echo "the first to fail was $failure" >&2
fi
exit "$code"
