#!/bin/bash
# Several nodes, one torchrun on each, where nothing can start all at once: run this by hand on every node.
# It needs only python3 and PyTorch: copy it with nodes.sh and watcher.py, and look at the lines that say CHANGE.
#
#     scripts/ssh/launch_torchrun_multinode.sh CONFIG NGPU NNODES NODE_RANK MASTER_ADDR [MASTER_PORT] [-- more words]
#
# NODE_RANK is 0 on one node, which MASTER_ADDR names, then 1, 2, ... What is not given as an argument is taken from the
# variables NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT. The port is the same on all nodes where it is not given, for
# it is made of your name, CONFIG and MASTER_ADDR. Run it in the folder of train.py. The output: logs/TIME/node_HOST.log.
# The nodes know nothing of each other: when one fails, the others wait for it, torchrun up to 300 s. End them by hand,
# or start from one place with launch_torchrun_auto.sh.
# However this script ends, Ctrl-C and kill -9 included, so does everything it started. Exit code: that of the first
# rank that failed, 1 where torchrun itself failed, 2 wrong arguments, 3 this node is not ready and nothing was started.

set -euo pipefail

# shellcheck disable=SC2329 # it runs on the nodes
setup() { # CHANGE: what makes your own Python the one that runs
    # source .venv/bin/activate
    # export NCCL_SOCKET_IFNAME=ib0   # where ranks do not meet: the network between the nodes
    true
}
grace=10 # CHANGE: the seconds between TERM and KILL for what has to end

config=${1:-} ngpu=${2:-} hosts=("$(uname -n)") names=(NNODES NODE_RANK MASTER_ADDR MASTER_PORT)
for ((given = 2; given < $#; given++)); do
    word=${*:given+1:1}
    if [ "$word" = -- ]; then break; fi
    if [ "$given" -gt 5 ]; then unset NNODES && break; fi
    printf -v "${names[given - 2]}" %s "$word"
done
if [ -z "$ngpu" ] || [ -z "${NNODES:-}" ] || [ -z "${NODE_RANK:-}" ] || [ -z "${MASTER_ADDR:-}" ]; then
    echo "usage: $0 CONFIG NGPU NNODES NODE_RANK MASTER_ADDR [MASTER_PORT] [-- more arguments of train.py]" >&2
    exit 2
fi
shift "$given"
command=(python -u train.py --config "$config" "${@:2}") # CHANGE: what every rank runs
files=(train.py "$config")                               # CHANGE: what has to be there
nnodes=$NNODES first_node=$NODE_RANK master=$MASTER_ADDR
port=${MASTER_PORT:-$((20000 + $(printf '%s ' "$(id -un)" "$config" "$master" | cksum | cut -d ' ' -f 1) % 12000))}

# ---- From here on nothing needs a change.

# shellcheck source=scripts/ssh/nodes.sh
. "$(dirname "${BASH_SOURCE[0]}")/nodes.sh"

into() { # this node needs no way in
    bash -c "$2"
}

run_on_nodes
