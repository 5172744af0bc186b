#!/bin/bash
# ddpkit run 20260131-235959-train-3fa9: backend slurm-srun, sbatch --parsable '/data/my project/logs/20260131-235959-train-3fa9/job.sbatch'
#SBATCH --job-name=train
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=8
#SBATCH --output='/data/my project/logs/20260131-235959-train-3fa9/slurm-%j.out'
#SBATCH --open-mode=append
#SBATCH --gpus-per-node=8

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
command -v /opt/venv/bin/python > /dev/null || fail "Python "/opt/venv/bin/python" not found on $(hostname)"
unset SLURM_TRES_PER_TASK SLURM_TRES_BIND SLURM_GPUS_PER_TASK SLURM_GPU_BIND SLURM_NTASKS_PER_GPU
# rank 0 runs on the first node
unset SLURM_NTASKS_PER_NODE
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
[ -n "$nodes" ] || fail "SLURM did not list the nodes of job $SLURM_JOB_ID"
MASTER_ADDR=${nodes%%[[:space:]]*}
MASTER_PORT=$(srun --nodes=1 --ntasks=1 --gres=none --nodelist="$MASTER_ADDR" --export=ALL /opt/venv/bin/python -S -I -c 'import os, socket
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
[ -r '/data/my project/logs/20260131-235959-train-3fa9/ddpkit.zip' ] || fail "no ddpkit.zip in the directory of the run on $(hostname): --log-dir must be a shared folder"
each='set -- '"'"'/data/my project/logs/20260131-235959-train-3fa9/ddpkit.zip'"'"' '"'"'/data/my project/logs/20260131-235959-train-3fa9/task.json'"'"' /opt/venv/bin/python train.py --epochs 3 --note '"'"'it'"'"'"'"'"'"'"'"'s $5'"'"'
[ -r "$1" ] && command -v "$0" > /dev/null || { shift 2; exec "$@"; }
first=0 node=0
for n in 4 8 8; do
    [ "$SLURM_PROCID" -ge $((first + n)) ] || break
    first=$((first + n)) node=$((node + 1))
done
export RANK="$SLURM_PROCID" WORLD_SIZE=20 LOCAL_RANK=$((SLURM_PROCID - first)) LOCAL_WORLD_SIZE="$n"
export NODE_RANK="$node" GROUP_RANK="$node" GROUP_WORLD_SIZE=3
export ROLE_NAME=default ROLE_RANK="$RANK" ROLE_WORLD_SIZE="$WORLD_SIZE"
export TORCHELASTIC_RESTART_COUNT="$((${DDPKIT_ATTEMPT:-${SLURM_RESTART_COUNT:-0} + 1} - 1))"
export TORCHELASTIC_MAX_RESTARTS="${TORCHELASTIC_MAX_RESTARTS:-0}"
cores=$((${SLURM_CPUS_ON_NODE:-1} / n))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" "$@"
exec "$@"'
SLURM_HOSTFILE=$(mktemp '/data/my project/logs/20260131-235959-train-3fa9/hosts.XXXXXX') || fail "the list of nodes cannot be written"
export SLURM_HOSTFILE
set -- 4 8 8
for node in $nodes; do echo "$node*$1"; shift; done > "$SLURM_HOSTFILE"
[ -z "$SLURM_RESTART_COUNT" ] || echo "ddpkit: attempt $SLURM_RESTART_COUNT"
{ date +%s.%N >> '/data/my project/logs/20260131-235959-train-3fa9/marks/job'; [ ! -f /proc/self/fd/1 ] || chmod go-w /proc/self/fd/1; } 2> /dev/null
code=0; /opt/venv/bin/python -S -I '/data/my project/logs/20260131-235959-train-3fa9/ddpkit.zip' collect '/data/my project/logs/20260131-235959-train-3fa9/task.json' srun --ntasks=20 --distribution=arbitrary --kill-on-bad-exit=1 --export=ALL --label bash -pc "$each" /opt/venv/bin/python || code=$?
exit "$code"
