# shellcheck shell=bash disable=SC2154,SC2329 # what is not set here is set before; what is not called is called on nodes
# ---- From here on every script is the same: into NODE COMMAND, label NODE, secrets, step_NODE and what is set above.

# Around each rank: what its end was, at once. torchrun ends with 1 whatever the code of the rank was, and late.
rank() {
    local code=0
    trap : TERM INT HUP USR1 USR2 # the rank gets these as well, and decides
    "$@" || code=$?
    if [ "$code" -ne 0 ]; then echo "rank $RANK on $NODE: exit code $code" >"$TELL" || true; fi
    exit "$code"
}

free_port() { # below those that kernels hand out
    exec python3 -c '
import random, socket
for port in random.sample(range(20000, 32768), 99):
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            continue
    print("port", port)
    break'
}

# The first thing on a node: it reads one line, and is then the watcher. Secrets come in that line: `ps` shows none.
enter=$(
    cat <<'PYTHON'
line = b""
while line[-1:] != b"\n":
    line += os.read(0, 1) or sys.exit(143)
watcher, words, secrets, node, name = (base64.b64decode(word) for word in line.split())
pairs = [pair.split("=", 1) for pair in secrets.decode("utf-8", "surrogateescape").split("\0") if pair]
os.environ.update(pairs)
sys.argv = ["", "", base64.b64encode(words).decode(), node.decode(), name.decode()]
exec(watcher)
PYTHON
)

pack() {
    base64 | tr -d '\n'
    printf ' '
}

parcel() { # NODE SECONDS FUNCTION: the line for a node
    local program
    program="$(declare -f rank "$3"); export -f rank; port=$port; $3"
    printf %s "$watcher" | pack
    printf '%s\0' "$2" "$grace" bash --norc -c "$program" | pack
    secrets | pack
    printf %s "$1" | pack
    printf %s "$(label "$1")" | pack
    echo
}

# Run a function on a node, below a watcher, for so long at most. The line, then the lifeline: its end is the end there.
visit() { # NODE SECONDS FUNCTION
    into "$1" "-c 'import base64,os,sys;exec(base64.b64decode(\"$(printf %s "$enter" | base64 | tr -d '\n')\"))'" \
        < <(
            parcel "$@"
            if { true <&7; } 2>/dev/null; then exec cat <&7; else exec cat "$lifeline"; fi # pdsh closes 7
        )
}

one() { # NODE: its ranks, each line with its name in front; what is to be known of it goes to "said"
    local code=0 name
    trap '' INT # the terminal sends it to all of these at once; the script is who decides
    name=$(label "$1")
    visit "$1" inf "step_$1" 2>>"$said" | sed -u "s/^/[$name] /" || code=${PIPESTATUS[0]}
    { [ -p "$said" ] && printf '%s: exit code %s\nover\n' "$name" "$code" >>"$said"; } 2>/dev/null || true # nobody is there to know
}

# Whoever opens the lifeline by its path when it has ended already would wait for ever: that wakes them.
wake() {
    if [ -p "$lifeline" ]; then : >>"$lifeline"; fi # after kill -9 the number may be another program's
}

# ---- Run. The lifeline is a pipe whose other end, 9, this shell alone has open: kill -9 of it ends the lifeline too.

scratch=$(mktemp -d)
mkfifo "$scratch/lifeline" "$scratch/said"
# shellcheck disable=SC2094 # 7 reads the lifeline without writing it
exec 8<>"$scratch/said" 9<>"$scratch/lifeline" 7<"$scratch/lifeline"
rm -r -- "$scratch"
lifeline=/proc/$$/fd/7 said=/proc/$$/fd/8

end() { # as a signal asks: with this exit code, when all has ended; at once when it is asked again
    trap 'exit 130' INT TERM HUP
    exec 9>&-
    echo "$0: ending the ranks" >&2 || true
    while [ -n "$(jobs -pr)" ]; do
        wake
        sleep 0.2
    done
    exit "$1"
}
trap 'end 129' HUP
trap 'end 130' INT
trap 'end 143' TERM

if [ "$port" = free ]; then
    port=$(
        exec 9>&-
        visit 0 60 free_port
    ) || true
    port=${port##*port }
    case $port in
    '' | *[!0-9]*) echo "$0: no port from $(label 0); nothing was started" >&2 && exit 123 ;;
    esac
fi

launch
first='' code=0 pause=1000000 patience=0
ending='((rank [0-9]+ on )?([^ ]+)): exit code ([0-9]+)$'
while [ "$running" -gt 0 ]; do
    if ! IFS= read -r -t "$pause" line <&8; then
        if [ -z "$first" ]; then continue; fi
        wake
        patience=$((patience - 1))
        if [ "$patience" -gt 0 ]; then continue; fi
        echo "$0: nodes that do not answer have not said that all has ended there" >&2 && break
    fi
    if [ "$line" = over ]; then
        running=$((running - 1))
    elif ! [[ $line =~ $ending ]]; then
        echo "$line" >&2
    elif [ -z "$first" ] && [ "${BASH_REMATCH[4]}" -ne 0 ]; then
        first=${BASH_REMATCH[1]} code=${BASH_REMATCH[4]} pause=1 patience=$((${grace%.*} + 30))
        exec 9>&- # the first failure ends the run
    fi
done
if [ -n "$first" ]; then
    if [ "$code" -eq 255 ] && [[ $first != rank* ]]; then first+=" (ssh has no connection to it)"; fi
    echo "$0: the first to fail was $first, with exit code $code" >&2
fi
exit "$code"
