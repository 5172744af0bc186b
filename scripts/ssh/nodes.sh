# shellcheck shell=bash disable=SC2034,SC2154 # scripts set what is only read here, and read what is only set here
# The functions that the scripts beside this one share. It is to be copied with them, and with watcher.py.
#
#     read_arguments WORDS  set config, ngpu, hosts, more, nnodes, first_node, master and port from the command line
#     run_on_nodes          check all hosts, start NGPU ranks on each, and exit with the code of the first that failed
#
# The script has `setup`, `grace`, `command` and `files`. It may replace `into` (a shell on a host), `start` (a torchrun
# on each node), or `ask` and `launch` (one connection for each host).

# ---- On the nodes: a watcher stands above all that is ours. Its standard input is the lifeline. When that ends, it
# ends every process that descends from it, torchrun's workers too, which are in sessions of their own.

watcher=$(cat "$(dirname "${BASH_SOURCE[0]}")/watcher.py")

# Before anything starts: has this node what it takes? The last line is "ready", on the node of rank 0 with a free port.
# shellcheck disable=SC2329 # it runs on the nodes
check() {
    local file
    for file in "${files[@]}"; do
        if [ ! -f "$file" ]; then echo "there is no $file in $PWD" && exit 1; fi
    done
    exec python -c '
import sys; sys.path[:1] != [""] or sys.path.pop(0)  # others may be able to write into this directory
import importlib.util, os, random, socket, sys

if importlib.util.find_spec("torch") is None:
    sys.exit(sys.executable + " finds no torch: see setup() in this script")
master, port = sys.argv[1:]
if os.environ["NODE_RANK"] != "0":
    try:
        seen = socket.getaddrinfo(master, None)[0][4][0]
    except OSError as error:
        sys.exit("%s, where rank 0 is, is no name here: %s; set MASTER_ADDR" % (master, error))
    if seen.startswith("127.") or seen == "::1":
        sys.exit("%s, where rank 0 is, is %s here, which is this node itself; set MASTER_ADDR" % (master, seen))
    sys.exit(print("ready"))
for port in [int(port)] if port else random.sample(range(20000, 32768), 99):  # below those that kernels hand out
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sys.exit(print("ready", port, probe.bind(("", port)) or ""))
        except OSError as error:
            seen = error
sys.exit("port %s: %s; set MASTER_PORT" % (port, seen))
' "$master" "$port"
}

# shellcheck disable=SC2329 # it runs on the nodes
start() {
    exec python -m torch.distributed.run --nnodes="$nnodes" --node_rank="$NODE_RANK" --nproc_per_node="$ngpu" \
        --rdzv_backend=static --master_addr="$master" --master_port="$port" --no_python bash --norc -c worker
}

# Around each rank: torchrun ends with 1 whatever the code of the rank was, and late. This tells it at once.
# shellcheck disable=SC2329 # it runs on the nodes
worker() {
    local code=0
    trap : TERM INT HUP USR1 USR2 # the rank gets these as well, and decides
    rank ${LOCAL_RANK_OPTION:+"$LOCAL_RANK_OPTION=$LOCAL_RANK"} || code=$?
    if [ "$code" -ne 0 ]; then
        echo "rank $RANK on $NODE: exit code $code" | tee "$TELL" 2>/dev/null
    fi
    exit "$code"
}

# ---- To the nodes. Words travel in base64: there is nothing in it that a shell, ssh or pdsh would change.

parcel() { # FUNCTION SECONDS: the command that runs the function on a node, below a watcher, for so long at most
    local program
    program="$(declare -f setup check start worker); rank() { $(printf '%q ' "${command[@]}") \"\$@\"; }
        $(declare -p files nnodes ngpu master port); export -f rank worker; cd $(printf %q "$PWD") && setup || exit
        cores=\$((\$(nproc) / ngpu)); export OMP_NUM_THREADS=\${OMP_NUM_THREADS:-\$((cores > 1 ? cores : 1))}
        unset \"\${!PET_@}\" # they change torchrun's defaults
        $1"
    printf "exec python3 -I -c 'import base64, sys; exec(base64.b64decode(sys.argv[1]))' %s %s" \
        "$(printf %s "$watcher" | base64 | tr -d '\n')" \
        "$(printf '%s\0' "$2" "$grace" bash --norc -c "$program" | base64 | tr -d '\n')"
}

# ---- The arguments of a script: CONFIG NGPU HOST... [-- more arguments of train.py].

read_arguments() {
    if [ $# -lt 3 ] || [ "$3" = -- ]; then
        echo "usage: $0 CONFIG NGPU HOST... [-- more arguments of train.py]" >&2
        exit 2
    fi
    config=$1 ngpu=$2 hosts=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        hosts+=("$1")
        shift
    done
    more=("${@:2}")
    nnodes=${#hosts[@]} first_node=0 master=${MASTER_ADDR:-${hosts[0]#*@}} port=${MASTER_PORT:-}
}

# ---- One connection a node. What a node has to say goes to 8: in check after its number, in start from its watcher.

into() { # a shell on HOST, which runs COMMAND
    ssh -T -x -S none -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -- "$1" "$2"
}

ask() {
    local i
    for i in "${!hosts[@]}"; do
        {
            trap '' INT
            into "${hosts[i]}" "$(parcel check 30) $((first_node + i)) ${hosts[i]}" 2>&1 <&7 || true
            printf '\nasked\n'
        } | sed -u "s/^/$i /" >&8 9>&- &
    done
}

launch() {
    local i
    for i in "${!hosts[@]}"; do
        {
            trap '' INT # the terminal sends it to all of these at once; this script is who decides
            host=${hosts[i]} code=0
            into "$host" "$(parcel start inf) $((first_node + i)) $host" <&7 2>&8 | tee "$logs/node_$host.log" |
                sed -u "s/^/$host: /" || code=${PIPESTATUS[0]}
            printf '%s: exit code %s\n%s\n' "$host" "$code" "$over" >&8
        } 9>&- &
    done
    running=${#hosts[@]}
}

# ---- Run. The lifeline is a pipe whose other end, 9, this shell alone has open: kill -9 of it ends the lifeline too.

open_lifeline() {
    local host scratch
    over="over $RANDOM$RANDOM$RANDOM" # what runs on a node can write to 8 as well, and does not know this
    for host in "${hosts[@]}"; do
        case $host in -* | *[!A-Za-z0-9._:@-]*) echo "$0: '$host' is not the name of a host" >&2 && exit 2 ;; esac
    done
    if [ "$(printf '%s\n' "${hosts[@]}" | sort -u | wc -l)" -ne ${#hosts[@]} ]; then
        echo "$0: a host is named twice: ${hosts[*]}" >&2 && exit 2
    fi
    case $ngpu in '' | 0* | *[!0-9]*) echo "$0: '$ngpu' is not a number of ranks" >&2 && exit 2 ;; esac
    # Others may rename what is in another directory.
    scratch=$(TMPDIR=/tmp mktemp -d)
    mkfifo "$scratch/lifeline" "$scratch/said"
    # shellcheck disable=SC2094 # 7 reads the lifeline without writing it
    exec 8<>"$scratch/said" 9<>"$scratch/lifeline" 7<"$scratch/lifeline"
    rm -r -- "$scratch"
}

# shellcheck disable=SC2329 # called by traps
end() { # as a signal asks: with this exit code, when all has ended; at once when it is asked again
    trap 'exit 130' INT TERM HUP
    exec 9>&-
    echo "$0: ending the ranks" >&2 || true
    wait
    exit "$1"
}

check_nodes() { # also chooses the port where none is set
    local i line said=() left=${#hosts[@]} bad=0
    ask
    while [ "$left" -gt 0 ]; do
        read -r i line <&8
        if [[ $i != [0-9]* ]]; then continue; fi
        case $line in
        asked) left=$((left - 1)) ;;
        ?*) case ${said[i]:-} in ready*) ;; *) said[i]=$line ;; esac ;;
        esac
    done
    for i in "${!hosts[@]}"; do
        case ${said[i]:-} in
        ready*) if [ $((first_node + i)) -eq 0 ]; then port=${said[i]#ready } port=${port% }; fi ;;
        *) bad=1 && echo "${hosts[i]}: ${said[i]:-no answer in 30 s, or a shell start-up file there ends early}" >&2 ;;
        esac
    done
    if [ "$bad" -ne 0 ]; then echo "$0: nothing was started" >&2 && exit 3; fi
}

run_on_nodes() {
    local first='' code=0 patience=1000000 line host
    local ending='((rank [0-9]+ on )?([^ ]+)): (ssh exited with )?exit code ([0-9]+)$'
    open_lifeline
    trap 'end 129' HUP
    trap 'end 130' INT
    trap 'end 143' TERM
    check_nodes
    logs=logs/$(date +%Y%m%d-%H%M%S)-$$ # those of an earlier start stay
    mkdir -p logs
    mkdir "$logs"
    launch
    while [ "$running" -gt 0 ]; do
        if ! IFS= read -r -t "$patience" line <&8; then
            if [ -z "$first" ]; then continue; fi
            echo "$0: nodes that do not answer have not said that all has ended there" >&2 && break
        fi
        if [ "$line" = "$over" ]; then
            running=$((running - 1))
        elif ! [[ $line =~ $ending ]]; then
            echo "$line" >&2
        elif [ -z "$first" ] && [ "${BASH_REMATCH[5]}" -ne 0 ]; then
            first=${BASH_REMATCH[1]} host=${BASH_REMATCH[3]} code=${BASH_REMATCH[5]} patience=$((grace + 20))
            if [ ! -f "$logs/node_$host.log" ]; then host=${host%%.*}; fi # pdsh may leave out the domain
            exec 9>&- # the first failure ends the run
        fi
    done
    if [ -n "$first" ]; then
        if [ -f "$logs/node_$host.log" ]; then
            echo "---- the last lines of $logs/node_$host.log" >&2
            sed "/$first: exit code/q" "$logs/node_$host.log" | tail -n 20 >&2
        fi
        if [ "$code" -eq 255 ] && [[ $first != rank* ]]; then first+=" (to which ssh lost the connection)"; fi
        echo "$0: the first to fail was $first, with exit code $code" >&2
    fi
    exit "$code"
}
