#!/bin/bash
# This machine alone: torchrun with NGPU ranks; what they print is in logs/TIME/node_HOST.log as well.
# It needs only python3 and PyTorch: copy it with nodes.sh and watcher.py, and look at the lines that say CHANGE.
#
#     scripts/ssh/launch_singlenode.sh CONFIG NGPU [-- more arguments of train.py]
#
# Run it in the folder of train.py. The ranks meet at MASTER_PORT, where set, else at a port that is free.
# However this script ends, Ctrl-C and kill -9 included, so does everything it started. Exit code: that of the first
# rank that failed, 1 where torchrun itself failed, 2 wrong arguments, 3 this node is not ready and nothing was started.

set -euo pipefail

# shellcheck disable=SC2329 # it runs on the nodes
setup() { # CHANGE: what makes your own Python the one that runs
    # source .venv/bin/activate
    true
}
grace=10 # CHANGE: the seconds between TERM and KILL for what has to end

if [ $# -lt 2 ] || [ "${3:---}" != -- ]; then
    echo "usage: $0 CONFIG NGPU [-- more arguments of train.py]" >&2
    exit 2
fi
config=$1 ngpu=$2 hosts=("$(uname -n)")
shift 2
command=(python -u train.py --config "$config" "${@:2}") # CHANGE: what every rank runs
files=(train.py "$config")                               # CHANGE: what has to be there
nnodes=1 first_node=0 master=127.0.0.1 port=${MASTER_PORT:-}

# ---- From here on nothing needs a change.

# shellcheck source=scripts/ssh/nodes.sh
. "$(dirname "${BASH_SOURCE[0]}")/nodes.sh"

into() { # this node needs no way in
    bash -c "$2"
}

run_on_nodes
