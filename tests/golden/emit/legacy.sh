#!/bin/bash
# shellcheck disable=SC2016,SC2088,SC2329 # arguments are unchanged; some functions are called elsewhere
# Made by `ddpkit emit`: 5 ranks on 2 nodes, backend legacy.
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
    export NCCL_DEBUG=WARN
    export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
    exec /opt/venv/bin/python -m torch.distributed.launch --nnodes=2 --nproc_per_node=2 --node_rank=0 --master_addr=10.77.0.1 "--master_port=$port" --use_env --no_python bash --norc -c 'rank "$$@"' rank /opt/venv/bin/python -S -I -c 'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")' /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $$5'
}

step_1() { # on big:2222: ranks 2-4
    cd /scratch/project || exit 1
    export NODE_RANK=1
    export PYTHONUNBUFFERED=1
    export PYTHONFAULTHANDLER=1
    export NCCL_DEBUG=INFO
    export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
    export NCCL_SOCKET_IFNAME=ib0
    exec /home/me/venv/bin/python -m torch.distributed.launch --nnodes=2 --nproc_per_node=3 --node_rank=1 --master_addr=10.77.0.1 "--master_port=$port" --use_env --no_python bash --norc -c 'rank "$$@"' rank /home/me/venv/bin/python -S -I -c 'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")' /home/me/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $$5'
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

