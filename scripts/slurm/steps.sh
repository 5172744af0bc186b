# shellcheck shell=bash disable=SC2154 # what is not set here is set by the script that reads this, or by SLURM
# The functions that the scripts beside this one share: copy it with them, it needs no change.
#
#     read_roll    find the host of each rank: sets `roll`, exports MASTER_ADDR, MASTER_PORT and NODES_BY_RANK
#     run_command  `start` with the words of `command` in each task; exits with the code of the first task that failed
#
# A script may replace `start`, which makes each task a rank. There `find_node_rank` exports NODE_RANK, and `run_torchrun
# WORDS...` is one torchrun on the node.

# A task in a container has it from the job.
if [ -z "${TRACKED_BY+set}" ]; then TRACKED_BY=$(scontrol show config | sed -n 's|^ProctrackType *= *proctrack/||p'); fi
export TRACKED_BY
step=(srun --kill-on-bad-exit=1 --export=ALL)
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then
    step+=("--cpus-per-task=$SLURM_CPUS_PER_TASK") # srun of Slurm 22.05 to 23.02 does not read it by itself
fi

# ---- Where each rank runs: a short step with the layout of the real one.

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

read_roll() {
    local silent
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
}

# ---- In the tasks.

# Run a command to its end, and set `code`. SLURM gives a signal to the task alone where it tracks processes with cgroups:
# here it is passed on. Elsewhere every process gets it.
# shellcheck disable=SC2329 # it runs in the tasks
run_child() {
    local child name
    code=0
    if [ "$TRACKED_BY" != cgroup ]; then
        trap : HUP INT QUIT USR1 USR2 ALRM TERM XCPU # the child gets these as well
        ("$@") || code=$?
        return
    fi
    set -m # a group of its own, in which INT is not ignored
    "$@" &
    child=$!
    set +m
    for name in HUP INT QUIT USR1 USR2 ALRM TERM XCPU; do
        # shellcheck disable=SC2064 # now, since they are local
        trap "kill -$name $child 2>/dev/null || true" "$name"
    done
    while kill -0 "$child" 2>/dev/null; do
        wait "$child" || true # a signal ends the wait as well
    done
    # shellcheck disable=SC2034 # of the caller
    wait "$child" || code=$?
}

# shellcheck disable=SC2329 # it runs in the tasks
find_node_rank() { # the node's place among the nodes by their first rank
    local host
    NODE_RANK=0
    for host in $NODES_BY_RANK; do
        if [ "$host" = "$SLURMD_NODENAME" ]; then break; fi
        NODE_RANK=$((NODE_RANK + 1))
    done
    if [ "$SLURM_PROCID" = 0 ] && [ "$SLURMD_NODENAME" != "$MASTER_ADDR" ]; then
        echo "rank 0 is on $SLURMD_NODENAME, and was on $MASTER_ADDR in the roll call" >&2
        exit 1
    fi
    export NODE_RANK
}

# PyTorch's names for what SLURM says, then the command. A task that failed ends a moment after its command, and as it
# did: when a failure ends all tasks, srun drops output that it has not read.
# shellcheck disable=SC2329 # it runs in the tasks
start() {
    local ids code
    set -euo pipefail
    IFS=, read -r -a ids <<<"$SLURM_GTIDS" # the ranks on this node
    find_node_rank
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_STEP_NUM_TASKS LOCAL_WORLD_SIZE=${#ids[@]}
    export GROUP_RANK=$NODE_RANK OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
    unset TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_RUN_ID # left over from a torchrun, rank 0 would not listen
    exec 3>&2 2>/dev/null # of this shell
    run_child rank "$@"
    [ "$code" != 0 ] || exit 0
    sleep 0.2 || true
    trap - HUP INT QUIT USR1 USR2 ALRM TERM XCPU
    ulimit -c 0
    case $code in 129 | 13[0-9] | 14[0-3] | 152) kill -$((code - 128)) $$ ;; esac
    exit "$code"
}

# The rank itself, with the errors of the task and not those of its shell.
# shellcheck disable=SC2329 # it runs in the tasks
rank() {
    exec "$@" 2>&3 3>&-
}

# Around each rank of a torchrun, which ends with 1 whatever the code of the rank was: the rank's own is written down.
# shellcheck disable=SC2329 # it runs in the tasks
worker() {
    local codes=$1 code=0
    shift
    trap : TERM INT HUP USR1 USR2 # the rank gets these as well, and decides
    "$@" || code=$?
    if [ "$code" -ne 0 ]; then { echo "$code" >>"$codes"; } 2>/dev/null || true; fi # after a signal the file may be gone
    exit "$code"
}

# One torchrun with NPROC_PER_NODE ranks; NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT say where it belongs. Exits with
# the code of the first rank that failed. torchrun replaces $$ and $local_rank in arguments: $ is doubled.
# shellcheck disable=SC2329 # it runs in the tasks
run_torchrun() {
    local codes code=0 words
    # Others may rename what is in another directory.
    scratch=$(TMPDIR=/tmp mktemp -d)
    trap 'rm -rf -- "$scratch"' EXIT
    codes=$scratch/codes
    words=(bash -c "$(declare -f worker); worker \"\$@\"" worker "$codes" "$@")
    # Never --standalone, which ignores the other nodes.
    run_child python -m torch.distributed.run --log_dir="$scratch" \
        --nnodes="$NNODES" --nproc_per_node="$NPROC_PER_NODE" --node_rank="$NODE_RANK" \
        --rdzv_backend=static --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" \
        --no_python "${words[@]//\$/\$\$}"
    if [ "$code" -ne 0 ]; then { read -r code <"$codes"; } 2>/dev/null || true; fi
    exit "$code"
}

# ---- Run. The exit code is that of the first task that failed: srun's own is the highest one, so 143 or 137, those of
# the tasks it ended because of the first. What srun says of a failed task first names the cause.

run_command() {
    local watcher failure functions code=0
    # Others may rename what is in another directory.
    scratch=$(TMPDIR=/tmp mktemp -d)
    trap 'rm -rf -- "$scratch"' EXIT
    mkfifo "$scratch/errors"
    tr '\r' '\n' <"$scratch/errors" |
        LC_ALL=C sed -n 's/.*srun: error: \([^ ]*: tasks\{0,1\} [0-9,-]*: .*\)/\1/p' >"$scratch/failures" &
    watcher=$!

    functions=$(declare -f start run_child rank find_node_rank worker run_torchrun)
    "${step[@]}" bash -c "$functions; start \"\$@\"" start "${command[@]}" \
        2> >(exec tee "$scratch/errors" >&2) || code=$?
    wait "$watcher"

    if [ "$code" -ne 0 ] && read -r failure <"$scratch/failures"; then
        case ${failure##*: } in
        "Exited with exit code "[1-9]*) code=${failure##* } ;;
        Aborted*) code=134 ;;
        "Bus error"*) code=135 ;;
        Killed* | "Out Of Memory") code=137 ;;
        "Segmentation fault"*) code=139 ;;
        Terminated*) code=143 ;;
        esac
        echo "the first to fail was $failure" >&2
    fi
    exit "$code"
}
