#!/bin/bash
# Several nodes, torch.distributed.launch on each (for PyTorch that has no torchrun), all started from here over ssh;
# what each prints is in logs/TIME/node_HOST.log.
# It needs only ssh here, and python3 and PyTorch on the nodes: copy it with nodes.sh and watcher.py; look for CHANGE.
#
#     scripts/ssh/launch_multinode.sh CONFIG NGPU HOST... [-- more arguments of train.py]
#
# Run it in the folder of train.py and CONFIG, which has to be on every node, at the same path. NGPU ranks start on each
# HOST, rank 0 on the first. HOST is what ssh takes; ports, users and keys belong into ~/.ssh/config.
# MASTER_ADDR and MASTER_PORT, where set, say where the ranks meet: else the first HOST, and a free port of it.
# However this script ends, Ctrl-C and kill -9 included, so does everything on the nodes. Exit code: that of the first
# rank that failed, 1 where PyTorch's launcher failed, 2 wrong arguments, 3 a node is not ready and nothing was started.

set -euo pipefail

# shellcheck disable=SC2329 # it runs on the nodes
setup() { # CHANGE: what makes your own Python the one that runs on a node
    # source .venv/bin/activate
    # export NCCL_SOCKET_IFNAME=ib0   # where ranks do not meet: the network between the nodes
    export LOCAL_RANK_OPTION=--local_rank # CHANGE: not where train.py reads LOCAL_RANK
}
grace=10 # CHANGE: the seconds between TERM and KILL for what has to end

# shellcheck source=scripts/ssh/nodes.sh
. "$(dirname "${BASH_SOURCE[0]}")/nodes.sh"
read_arguments "$@"
command=(python -u train.py --config "$config" "${more[@]}") # CHANGE: what every rank runs
files=(train.py "$config")                                   # CHANGE: what has to be on every node

# ---- From here on nothing needs a change.

# shellcheck disable=SC2329 # it runs on the nodes
start() {
    exec python -m torch.distributed.launch --nnodes="$nnodes" --node_rank="$NODE_RANK" --nproc_per_node="$ngpu" \
        --master_addr="$master" --master_port="$port" --use_env --no_python bash --norc -c worker
}

run_on_nodes
