#!/bin/bash
# shellcheck disable=SC2016,SC2088,SC2329 # arguments are unchanged; some functions are called elsewhere
# Made by `ddpkit emit`: 5 ranks on 2 nodes, backend ssh-torchrun-auto.
# It runs without ddpkit. It requires bash, ssh; Linux, bash, python3 and PyTorch on the nodes.
# When it ends, also by Ctrl-C or kill -9, all its processes end. Exit code: that of the
# first rank that failed; 130, 143, 129 after Ctrl-C, TERM, HUP. 3: nothing was started, because
# the first node cannot be reached or has no free port.

set -euo pipefail
: "${WANDB_API_KEY:?it is not written in this script: export it}"

grace=15 # seconds between TERM and KILL for what has to end
port=free # chosen on the first node when the ranks start
running=2

label() { # NODE: its name
    case $1 in
    0) echo node1 ;;
    1) echo big:2222 ;;
    esac
}

into() { # NODE ARGUMENTS: its Python, with these
    case $1 in
    0) ssh -T -a -x -S none -o BatchMode=yes -o ServerAliveInterval=5 -o ConnectTimeout=10 node1 'exec python3'" $2" ;;
    1) ssh -T -a -x -S none -o BatchMode=yes -o ServerAliveInterval=5 -o ConnectTimeout=10 -p 2222 me@big 'exec python3'" $2" ;;
    esac
}

secrets() {
    printf '%s\0' '' "WANDB_API_KEY=$WANDB_API_KEY"
}

step_0() { # on node1: ranks 0-1
    cd '/data/my project' || exit 1
    unset RANK
    export NODE_RANK=0
    export OMP_NUM_THREADS=4
    export PYTHONUNBUFFERED=1
    export PYTHONFAULTHANDLER=1
    export MASTER_ADDR=10.77.0.1
    export MASTER_PORT="$port"
    export WORLD_SIZE=5
    export LOCAL_WORLD_SIZE=2
    export GROUP_RANK=0
    export GROUP_WORLD_SIZE=2
    export TORCHELASTIC_RUN_ID=train
    export TORCHELASTIC_RESTART_COUNT=0
    export NCCL_DEBUG=WARN
    export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
    local pids='' pid code=0
    RANK=0 LOCAL_RANK=0 rank /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
    RANK=1 LOCAL_RANK=1 rank /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
    for pid in $pids; do wait "$pid" || code=$?; done
    exit "$code"
}

step_1() { # on big:2222: ranks 2-4
    cd /scratch/project || exit 1
    export NODE_RANK=1
    export PYTHONUNBUFFERED=1
    export PYTHONFAULTHANDLER=1
    export MASTER_ADDR=10.77.0.1
    export MASTER_PORT="$port"
    export WORLD_SIZE=5
    export LOCAL_WORLD_SIZE=3
    export GROUP_RANK=1
    export GROUP_WORLD_SIZE=2
    export TORCHELASTIC_RUN_ID=train
    export TORCHELASTIC_RESTART_COUNT=0
    export NCCL_DEBUG=INFO
    export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
    export NCCL_SOCKET_IFNAME=ib0
    local pids='' pid code=0
    RANK=2 LOCAL_RANK=0 rank /home/me/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
    RANK=3 LOCAL_RANK=1 rank /home/me/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
    RANK=4 LOCAL_RANK=2 rank /home/me/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
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

