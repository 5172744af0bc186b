#!/bin/bash
# shellcheck disable=SC2016,SC2088,SC2329 # arguments are unchanged; some functions are called elsewhere
# Made by `ddpkit emit`: 2 ranks on 1 node, backend local.
# It runs without ddpkit. It requires bash; Linux, bash, python3 and PyTorch on this machine.
# When it ends, also by Ctrl-C or kill -9, all its processes end. Exit code: that of the
# first rank that failed; 130, 143, 129 after Ctrl-C, TERM, HUP. 3: nothing was started, because
# the first node cannot be reached or has no free port.

set -euo pipefail
: "${WANDB_API_KEY:?it is not written in this script: export it}"

grace=15 # seconds between TERM and KILL for what has to end
port=free # chosen on the first node when the ranks start
running=1

label() { # NODE: its name
    case $1 in
    0) echo node1 ;;
    esac
}

into() { # NODE ARGUMENTS: its Python, with these
    case $1 in
    0) bash -c 'exec python3'" $2" ;;
    esac
}

secrets() {
    printf '%s\0' '' "WANDB_API_KEY=$WANDB_API_KEY"
}

step_0() { # on node1: ranks 0-1
    cd '/data/my project' || exit 1
    unset RANK
    export TORCHELASTIC_RUN_ID=train
    export NODE_RANK=0
    export OMP_NUM_THREADS=4
    export PYTHONUNBUFFERED=1
    export PYTHONFAULTHANDLER=1
    export MASTER_ADDR=127.0.0.1
    export MASTER_PORT="$port"
    export WORLD_SIZE=2
    export LOCAL_WORLD_SIZE=2
    export GROUP_RANK=0
    export GROUP_WORLD_SIZE=1
    export TORCHELASTIC_RESTART_COUNT=0
    export NCCL_DEBUG=WARN
    export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
    local pids='' pid code=0
    RANK=0 LOCAL_RANK=0 rank /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
    RANK=1 LOCAL_RANK=1 rank /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
    for pid in $pids; do wait "$pid" || code=$?; done
    exit "$code"
}

launch() {
    for ((number = 0; number < running; number++)); do one "$number" 9>&- & done
}

# ---- On a node: a watcher is the parent of all processes. Its standard input is a pipe. When the pipe
# closes, it ends all its descendants, and those of torchrun, which have their own sessions.

watcher=$(
    cat <<'PYTHON'
...
PYTHON
)

