#!/bin/bash
# ddpkit run 20260131-235959-train-3fa9: backend slurm-torchrun, sbatch --parsable '/data/my project/logs/20260131-235959-train-3fa9/job.sbatch'
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --output='/data/my project/logs/20260131-235959-train-3fa9/slurm-%j.out'
#SBATCH --open-mode=append
#SBATCH --gpus-per-node=a100:2

cd '/data/my project' || exit 1
unset RANK
export DDPKIT_RUN=20260131-235959-train-3fa9
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export NCCL_DEBUG=WARN
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
echo "ddpkit: job $SLURM_JOB_ID runs on $SLURM_JOB_NODELIST"
trap 'echo "ddpkit: job $SLURM_JOB_ID ended with code $?"' EXIT
fail() { echo "ddpkit: $*: nothing was started" >&2; exit 123; }
# rank 0 runs on the first node
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
[ -n "$MASTER_ADDR" ] || fail "scontrol did not list the nodes of job $SLURM_JOB_ID"
MASTER_PORT=$(/opt/venv/bin/python -c 'import os, socket
while True:
    port = 20000 + int.from_bytes(os.urandom(4), "big") % 12000
    try:
        with socket.socket() as probe:
            probe.bind(("", port))
    except OSError:
        continue
    print(port)
    break')
[ -n "$MASTER_PORT" ] || fail "Python found no free port on $MASTER_ADDR"
export MASTER_ADDR MASTER_PORT
each='export NODE_RANK="$SLURM_PROCID"
cores=$((${SLURM_CPUS_ON_NODE:-1} / 2))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
agent="$1"; shift
[ -r "$agent" ] || {
    echo "ddpkit: no $agent on $SLURMD_NODENAME: --log-dir must be a shared folder" >&2
    sleep 0.2
    exit 123
}
trap '"'"''"'"' USR1 USR2
exec "$0" "$agent" --nnodes=2 --nproc_per_node=2 --node_rank="$SLURM_PROCID" \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python "$@"'
[ -z "$SLURM_RESTART_COUNT" ] || echo "ddpkit: attempt $SLURM_RESTART_COUNT"
{ date +%s.%N >> '/data/my project/logs/20260131-235959-train-3fa9/marks/job'; [ ! -f /proc/self/fd/1 ] || chmod go-w /proc/self/fd/1; } 2> /dev/null
log='/data/my project/logs/20260131-235959-train-3fa9/slurm-'"$SLURM_JOB_ID".out
from=$(($(wc -c < "$log") + 1))
code='' first=''
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 --export=ALL --label sh -c "$each" /opt/venv/bin/python '/data/my project/logs/20260131-235959-train-3fa9/torchrun_agent.py' /opt/venv/bin/python -S -I '/data/my project/logs/20260131-235959-train-3fa9/rank_wrapper.py' /opt/venv/bin/python -m pkg.train --epochs 3 || code=$?
[ -z "$code" ] || first=$(tail -c "+$from" "$log" | sed -n 's/^ *[0-9]*: ddpkit: rank [0-9]* ended: code \([1-9][0-9]*\) .*$/\1/p' | head -n 1)
code=${first:-${code:-0}}
exit "$code"
