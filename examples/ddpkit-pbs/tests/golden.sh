#!/bin/bash
# ddpkit run 20260131-235959-train-3fa9: backend pbs, qsub /data/project/logs/20260131-235959-train-3fa9/job.pbs
#PBS -N train
#PBS -S /bin/bash
#PBS -l select=2:ncpus=8:mpiprocs=2:ngpus=2:mem=64gb
#PBS -l place=scatter
#PBS -l walltime=2:00:00
#PBS -q workq
#PBS -A team
#PBS -j oe
#PBS -k doe
#PBS -o /data/project/logs/20260131-235959-train-3fa9/pbs.out
#PBS -r n

cd /data/project || exit 1
trap 'echo "ddpkit: job $PBS_JOBID ended with code $?"' EXIT
fail() { echo "ddpkit: $*: nothing was started" >&2; exit 123; }
MASTER_ADDR=$(head -n 1 "$PBS_NODEFILE")
[ -n "$MASTER_ADDR" ] || fail "PBS listed no nodes"
MASTER_PORT=$(/opt/venv/bin/python -c 'import os, socket
while True:
    port = 20000 + int.from_bytes(os.urandom(4), "big") % 12000
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            continue
    print(port)
    break')
[ -n "$MASTER_PORT" ] || fail "Python found no free port on $MASTER_ADDR"
each='cd /data/project || exit 1
export DDPKIT_RUN=20260131-235959-train-3fa9
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export NCCL_DEBUG=WARN
export RANK="$1" LOCAL_RANK="$2" NODE_RANK="$3" GROUP_RANK="$3" MASTER_ADDR="$4" MASTER_PORT="$5"
export WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_WORLD_SIZE=2
export TORCHELASTIC_RUN_ID="$DDPKIT_RUN"  # for Lightning, which then believes the rest
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}"
module load cuda
: >/data/project/logs/20260131-235959-train-3fa9/alive."$RANK"
trap : TERM USR1 USR2
/opt/venv/bin/python -S -I /data/project/logs/20260131-235959-train-3fa9/ddpkit.zip step_task /data/project/logs/20260131-235959-train-3fa9/task.json /opt/venv/bin/python train.py --note '"'"'it'"'"'"'"'"'"'"'"'s $5'"'"'
code=$?
rm -f /data/project/logs/20260131-235959-train-3fa9/alive."$RANK"
exit "$code"'
said=$(mktemp -d) || exit 1
stopped= rank=0 node=-1 before= pids=
trap stopped=1 TERM
trap '' USR1 USR2  # qsig gives them to the ranks as well, and those are meant
while read -r host; do
    [ "$host" = "$before" ] || { before=$host local=0 node=$((node + 1)); }
    pbsdsh -n "$rank" -- /bin/bash -c "$each" rank "$rank" "$local" "$node" "$MASTER_ADDR" "$MASTER_PORT" \
        >"$said/$rank" 2>&1 </dev/null &
    pids="$pids $!" rank=$((rank + 1)) local=$((local + 1))
done <"$PBS_NODEFILE"
[ "$rank" = 4 ] || { echo "ddpkit: PBS gave $rank places for 4 ranks" >&2; kill $pids; exit 1; }
# pbsdsh returns 0 whatever a rank did; what it says of a code that is not 0 counts, the earliest first
code= left=4
while [ "$left" -gt 0 ] && [ -z "$code$stopped" ]; do
    wait -n
    left=$((left - 1))
    code=$(cd "$said" && cat $(ls -tr) | sed -n 's/.*exit status \([1-9][0-9]*\)$/\1/p' | head -n 1)
done
if [ -n "$code$stopped" ]; then
    kill $pids 2>/dev/null  # pbsdsh passes TERM on, and leaves
    end=$((SECONDS + 16))
    while [ "$SECONDS" -lt "$end" ] && ls /data/project/logs/20260131-235959-train-3fa9/alive.* >/dev/null 2>&1; do sleep 0.2; done
fi
grep -h -v 'exit status\|^pbsdsh: killing' "$said"/* >&2  # what else pbsdsh had to say
rm -rf "$said"
[ -n "$code" ] || [ -z "$stopped" ] || { trap - TERM; kill -TERM $$; }
exit "${code:-0}"  # PBS ends with KILL what is left of the job, on all nodes
