#!/bin/bash
# Can N ranks, here or on each HOST, reach each other and add numbers? Runs test_distributed.py, which prints a table
# and names what is wrong. It needs nothing but ssh here, and python3 and PyTorch on the nodes.
#
#     scripts/test_distributed.sh N [HOST...] [-- more arguments of test_distributed.py]
#
# Run it in the folder of test_distributed.py, which has to be on every HOST, at the same path. HOST is what ssh takes;
# MASTER_ADDR and MASTER_PORT, where set, say where the ranks meet: else the first HOST, and a free port of it. What a
# node prints is in logs/node_HOST.log as well. Exit code: 0, 3 something is wrong, 2 wrong arguments.

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

into() { # a shell on HOST, which runs COMMAND
    local way=(ssh -T -x -S none -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -- "$1")
    if [ -z "$remote" ]; then way=(bash -c); fi
    "${way[@]}" "$2"
}

# shellcheck disable=SC2329 # it runs on the nodes
start() {
    exec python -m torch.distributed.run --nnodes="$nnodes" --node_rank="$NODE_RANK" --nproc_per_node="$ngpu" \
        --rdzv_backend=static --master_addr="$master" --master_port="$port" --no_python bash --norc -c worker
}

# ---- On the nodes: a watcher stands above all that is ours. Its standard input is the lifeline. When that ends, it
# ends every process that descends from it, torchrun's workers too, which are in sessions of their own.

watcher=$(
    cat <<'PYTHON'
import base64, ctypes, os, select, signal, subprocess, sys, time

limit, grace, *words = base64.b64decode(sys.argv[2]).decode("utf-8", "surrogateescape").split("\0")[:-1]
until, ending = time.monotonic() + float(limit), []
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: ending.append(number))
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what loses its parent below becomes a child of this
told, tell = os.pipe()
env = dict(os.environ, TELL="/proc/%d/fd/%d" % (os.getpid(), tell), NODE_RANK=sys.argv[3], NODE=sys.argv[4])
main = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)


def listen(seconds):
    ready = select.select([0, told], [], [], seconds)[0]
    if 0 in ready and not os.read(0, 4096):
        ending.append("the lifeline")
    if told in ready:
        try:
            os.write(2, os.read(told, 4096))
        except OSError:  # nobody listens
            ending.append("the connection")


def descendants():
    parents, found, more = {}, set(), {os.getpid()}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, "rb") as file:
                state, parent = file.read().rpartition(b") ")[2].split()[:2]
            parents[int(pid)] = 0 if state in (b"Z", b"X") else int(parent)
        except OSError:
            pass
    while more:
        found |= more
        more = {pid for pid, parent in parents.items() if parent in found and pid not in found}
    return found - {os.getpid()}


while main.poll() is None and not ending and time.monotonic() < until:
    listen(0.1)
code, until, asked = main.poll(), time.monotonic() + float(grace), set()
while True:
    left = descendants()
    rest = left - {main.pid}  # torchrun comes last, and is not told: its page of farewell would hide what ranks said
    late = not rest or time.monotonic() > until
    for pid in left if late else rest - asked:
        try:
            os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        except OSError:
            pass
    if not left:
        break
    asked |= rest
    main.poll()
    time.sleep(0.05)
listen(0)
os._exit(143 if code is None else 128 - code if code < 0 else code)
PYTHON
)

# Before anything starts: has this node what it takes? The last line is "ready", on the node of rank 0 with a free port.
# shellcheck disable=SC2329 # it runs on the nodes
check() {
    local file
    for file in "${files[@]}"; do
        if [ ! -f "$file" ]; then echo "there is no $file in $PWD" && exit 1; fi
    done
    exec python -c '
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
    printf "exec python3 -c 'import base64, sys; exec(base64.b64decode(sys.argv[1]))' %s %s" \
        "$(printf %s "$watcher" | base64 | tr -d '\n')" \
        "$(printf '%s\0' "$2" "$grace" bash --norc -c "$program" | base64 | tr -d '\n')"
}

# ---- One connection a node. What a node has to say goes to 8: in check after its number, in start from its watcher.

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
            into "$host" "$(parcel start inf) $((first_node + i)) $host" <&7 2>&8 | tee "logs/node_$host.log" |
                sed -u "s/^/$host: /" || code=${PIPESTATUS[0]}
            printf '%s: exit code %s\nover\n' "$host" "$code" >&8
        } 9>&- &
    done
    running=${#hosts[@]}
}

# ---- Run. The lifeline is a pipe whose other end, 9, this shell alone has open: kill -9 of it ends the lifeline too.

for host in "${hosts[@]}"; do
    case $host in -* | *[!A-Za-z0-9._:@-]*) echo "$0: '$host' is not the name of a host" >&2 && exit 2 ;; esac
done
if [ "$(printf '%s\n' "${hosts[@]}" | sort -u | wc -l)" -ne ${#hosts[@]} ]; then
    echo "$0: a host is named twice: ${hosts[*]}" >&2 && exit 2
fi
case $ngpu in '' | 0* | *[!0-9]*) echo "$0: '$ngpu' is not a number of ranks" >&2 && exit 2 ;; esac
scratch=$(mktemp -d)
mkfifo "$scratch/lifeline" "$scratch/said"
# shellcheck disable=SC2094 # 7 reads the lifeline without writing it
exec 8<>"$scratch/said" 9<>"$scratch/lifeline" 7<"$scratch/lifeline"
rm -r "$scratch"

# shellcheck disable=SC2329 # called by traps
end() { # as a signal asks: with this exit code, when all has ended; at once when it is asked again
    trap 'exit 130' INT TERM HUP
    exec 9>&-
    echo "$0: ending the ranks" >&2 || true
    wait
    exit "$1"
}
trap 'end 129' HUP
trap 'end 130' INT
trap 'end 143' TERM

said=() left=${#hosts[@]} bad=0
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

mkdir -p logs
launch
first='' code=0 patience=1000000
ending='((rank [0-9]+ on )?([^ ]+)): (ssh exited with )?exit code ([0-9]+)$'
while [ "$running" -gt 0 ]; do
    if ! IFS= read -r -t "$patience" line <&8; then
        if [ -z "$first" ]; then continue; fi
        echo "$0: nodes that do not answer have not said that all has ended there" >&2 && break
    fi
    if [ "$line" = over ]; then
        running=$((running - 1))
    elif ! [[ $line =~ $ending ]]; then
        echo "$line" >&2
    elif [ -z "$first" ] && [ "${BASH_REMATCH[5]}" -ne 0 ]; then
        first=${BASH_REMATCH[1]} host=${BASH_REMATCH[3]} code=${BASH_REMATCH[5]} patience=$((grace + 20))
        if [ ! -f "logs/node_$host.log" ]; then host=${host%%.*}; fi # pdsh may leave out the domain
        exec 9>&- # the first failure ends the run
    fi
done
if [ -n "$first" ]; then
    if [ -f "logs/node_$host.log" ]; then
        echo "---- the last lines of logs/node_$host.log" >&2
        sed "/$first: exit code/q" "logs/node_$host.log" | tail -n 20 >&2
    fi
    if [ "$code" -eq 255 ] && [[ $first != rank* ]]; then first+=" (to which ssh lost the connection)"; fi
    echo "$0: the first to fail was $first, with exit code $code" >&2
fi
exit "$code"
