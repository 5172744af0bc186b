#!/bin/bash
# Can N ranks, here or on each HOST, reach each other and add numbers? Runs test_distributed.py, which prints a table
# and names what is wrong. It needs nothing but ssh here, and python3 and PyTorch on the nodes.
#
#     scripts/test_distributed.sh N [HOST...] [-- more arguments of test_distributed.py]
#
# Run it in the folder of test_distributed.py, which has to be on every HOST, at the same path. HOST is what ssh takes;
# MASTER_ADDR and MASTER_PORT, where set, say where the ranks meet: else the first HOST, and a free port of it. What a
# node prints is in logs/TIME/node_HOST.log as well. Exit code: 0, 1 a problem, 3 a node is not ready, 2 wrong arguments.

set -euo pipefail

# shellcheck disable=SC2329 # it runs on the nodes
setup() { # CHANGE: what makes your own Python the one that runs on a node
    # source .venv/bin/activate
    # export NCCL_SOCKET_IFNAME=ib0   # where ranks do not meet: the network between the nodes
    true
}
grace=10 # CHANGE: the seconds between TERM and KILL for what has to end

if [ $# -lt 1 ] || [ "$1" = -- ]; then
    echo "usage: $0 N [HOST...] [-- more arguments of test_distributed.py]" >&2
    exit 2
fi
ngpu=$1 hosts=() remote=yes
shift
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    hosts+=("$1")
    shift
done
if [ "${#hosts[@]}" -eq 0 ]; then hosts=("$(uname -n)") remote='' MASTER_ADDR=127.0.0.1; fi
command=(python -u test_distributed.py "${@:2}")
files=(test_distributed.py)
nnodes=${#hosts[@]} first_node=0 master=${MASTER_ADDR:-${hosts[0]#*@}} port=${MASTER_PORT:-}

# ---- From here on nothing needs a change.

# shellcheck source=scripts/ssh/nodes.sh
. "$(dirname "${BASH_SOURCE[0]}")/ssh/nodes.sh"

if [ -z "$remote" ]; then
    into() { # this node needs no way in
        bash -c "$2"
    }
fi

run_on_nodes
