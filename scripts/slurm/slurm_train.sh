#!/bin/bash
# Several nodes, one task per GPU, started by srun.
# It needs nothing but SLURM and PyTorch: copy it next to your train.py, and look at the lines that say CHANGE.
#
#     mkdir -p logs && sbatch slurm_train.sh [arguments of train.py]
#
# SLURM does not make logs/, and a job whose log cannot be opened fails without a word (ExitCode 0:53). Started as a
# plain command, `bash slurm_train.sh [arguments of train.py]`, this makes logs/ and submits itself.
#
#SBATCH --job-name=train
#SBATCH --partition=gpu           # CHANGE: sinfo shows yours
#SBATCH --nodes=2                 # CHANGE
#SBATCH --ntasks-per-node=4       # CHANGE: the GPUs of a node
#SBATCH --gres=gpu:4              # CHANGE: the same number
#SBATCH --cpus-per-task=8         # CHANGE: the processors of a node, divided by its tasks
#SBATCH --time=48:00:00           # CHANGE
#SBATCH --output=logs/slurm-%j.out
#SBATCH --error=logs/slurm-%j.err

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

# ---- The ranks: PyTorch's names for what SLURM says, then the command itself in place of this shell.

export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}

# shellcheck disable=SC2329 # it runs in the tasks
start() {
    local ids host
    set -euo pipefail
    IFS=, read -r -a ids <<<"$SLURM_GTIDS" # the ranks on this node
    NODE_RANK=0
    for host in $NODES_BY_RANK; do
        if [ "$host" = "$SLURMD_NODENAME" ]; then break; fi
        NODE_RANK=$((NODE_RANK + 1))
    done
    if [ "$SLURM_PROCID" = 0 ] && [ "$SLURMD_NODENAME" != "$MASTER_ADDR" ]; then
        echo "rank 0 is on $SLURMD_NODENAME, and was on $MASTER_ADDR in the roll call" >&2
        exit 1
    fi
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_STEP_NUM_TASKS LOCAL_WORLD_SIZE=${#ids[@]}
    export NODE_RANK GROUP_RANK=$NODE_RANK
    unset TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_RUN_ID # left over from a torchrun, rank 0 would not listen
    exec "$@"
}

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
