#!/bin/bash
# Several nodes, one torchrun on each, all started from here by pdsh; what each prints is in logs/TIME/node_HOST.log.
# It needs only pdsh and ssh here, and python3 and PyTorch on the nodes. Copy it with nodes.sh
# and watcher.py; look for CHANGE.
#
#     scripts/ssh/launch_pdsh_multinode.sh CONFIG NGPU HOST... [-- more arguments of train.py]
#
# Run it in the folder of train.py and CONFIG, which has to be on every node, at the same path. NGPU ranks start on each
# HOST, rank 0 on the first. HOST is what pdsh takes, 'gpu[1-64]' too; users, ports and keys go into ~/.ssh/config.
# MASTER_ADDR and MASTER_PORT, where set, say where the ranks meet: else the first HOST, and a free port of it.
# However this script ends, Ctrl-C and kill -9 included, so does everything on the nodes. Exit code: that of the first
# rank that failed, 1 where torchrun itself failed, 2 wrong arguments, 3 a node is not ready and nothing was started.

set -euo pipefail

# shellcheck disable=SC2329 # it runs on the nodes
setup() { # CHANGE: what makes your own Python the one that runs on a node
    # source .venv/bin/activate
    # export NCCL_SOCKET_IFNAME=ib0   # where ranks do not meet: the network between the nodes
    true
}
grace=10 # CHANGE: the seconds between TERM and KILL for what has to end

# shellcheck source=scripts/ssh/nodes.sh
. "$(dirname "${BASH_SOURCE[0]}")/nodes.sh"
read_arguments "$@"
list=$(IFS=, && printf %s "${hosts[*]}")
if [[ $list == *@* ]]; then echo "$0: $list: users belong into ~/.ssh/config" >&2 && exit 2; fi
hosts=() nodes=$(pdsh -R exec -f 1 -w "$list" echo %h) # its label for each, which may be shorter, and its name
while read -r host _; do hosts+=("${host%:}"); done <<<"$nodes"
first=${nodes%%$'\n'*}
command=(python -u train.py --config "$config" "${more[@]}") # CHANGE: what every rank runs
files=(train.py "$config")                                   # CHANGE: what has to be on every node
nnodes=${#hosts[@]} master=${MASTER_ADDR:-${first#*: }}

# ---- From here on nothing needs a change.

# ---- One pdsh for all nodes. What a node has to say goes to 8: in check after its number, in start from its watcher.

# With pdsh the lifelines end: its ssh lose their standard input. So pdsh is killed when this script has gone, and then
# each ssh waited for, which tells that all has ended on its node.
every() { # COMMAND
    local pdsh guard pids pid code=0
    PDSH_SSH_ARGS="-T -x -S none -oBatchMode=yes -oConnectTimeout=10 -oServerAliveInterval=5 %h" \
        pdsh -R ssh -f "${#hosts[@]}" -w "$list" "$1 %n %h" </dev/null &
    pdsh=$!
    {
        read -r _ <&7 || true
        trap '' TERM # from here on it is waited for
        pids=$(pgrep -P "$pdsh") || true
        kill -KILL "$pdsh" 2>/dev/null || true
        for pid in $pids; do while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done; done
    } &
    guard=$!
    wait "$pdsh" 2>/dev/null || code=$?
    kill "$guard" 2>/dev/null || true
    wait "$guard" 2>/dev/null || true
    if [ "$code" -ne 0 ]; then echo "pdsh: exit code $code" >&8; fi # whatever the nodes return, its own is 0
}

ask() {
    local i numbers=()
    for i in "${!hosts[@]}"; do numbers+=(-e "s/^${hosts[i]//./\\.}: /$i /p"); done
    {
        trap '' INT
        every "$(parcel check 30)" 2>&1 | sed -u -n "${numbers[@]}" || true
        for i in "${!hosts[@]}"; do echo "$i asked"; done
    } >&8 9>&- &
}

launch() {
    local host split=()
    for host in "${hosts[@]}"; do
        split+=(-e "/^${host//./\\.}: /{" -e h -e "s///w $logs/node_$host.log" -e g -e "}")
    done
    {
        trap '' INT # the terminal sends it to all of these at once; this script is who decides
        every "$(parcel start inf)" 2>&8 | sed -u "${split[@]}" || true
        echo "$over" >&8
    } 9>&- &
    running=1
}

run_on_nodes
