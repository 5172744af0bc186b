#!/bin/bash
# Runs in the container of every node, started by run_script.sh: torchrun, told by run_script.sh who it is.

set -euo pipefail
cd "$(dirname "$0")"

# CHANGE: what every rank runs. "$@" is what stood behind run_script.sh.
command=(python -u train.py "$@")

# ---- From here on nothing needs a change.

# Around each rank: torchrun ends with 1 whatever the code of the rank was, so the rank's own is written down.
# shellcheck disable=SC2329 # it runs in the tasks
worker() {
    local codes=$1 code=0
    shift
    trap : TERM INT HUP USR1 USR2 # the rank gets these as well, and decides
    "$@" || code=$?
    if [ "$code" -ne 0 ]; then echo "$code" >>"$codes"; fi
    exit "$code"
}

code=0
codes=$(mktemp)
trap 'rm -f "$codes"' EXIT
# torchrun replaces $$ and $local_rank in arguments: $ is doubled.
words=(bash -c "$(declare -f worker); worker \"\$@\"" worker "$codes" "${command[@]}")
# Never --standalone, which ignores the other nodes.
python -m torch.distributed.run \
    --nnodes="$NNODES" --nproc_per_node="$NPROC_PER_NODE" --node_rank="$NODE_RANK" \
    --rdzv_backend=static --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" \
    --no_python "${words[@]//\$/\$\$}" || code=$?
if [ "$code" -ne 0 ]; then read -r code <"$codes" || true; fi
exit "$code"
