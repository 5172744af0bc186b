#!/bin/bash
# ddpkit run 20260131-235959-train-3fa9: backend slurm-srun, sbatch --parsable /data/logs/20260131-235959-train-3fa9/job.sbatch
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --output=/data/logs/20260131-235959-train-3fa9/slurm-%j.out
#SBATCH --open-mode=append

cd /data/project || exit 1
unset RANK
export DDPKIT_RUN=20260131-235959-train-3fa9
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export NCCL_DEBUG=WARN
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
echo "ddpkit: job $SLURM_JOB_ID runs on $SLURM_JOB_NODELIST"
trap 'echo "ddpkit: job $SLURM_JOB_ID ended with code $?"' EXIT
fail() { echo "ddpkit: $*: nothing was started" >&2; exit 123; }
unset SLURM_TRES_PER_TASK SLURM_TRES_BIND SLURM_GPUS_PER_TASK SLURM_GPU_BIND SLURM_NTASKS_PER_GPU
# rank 0 runs on the first node
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
[ -n "$MASTER_ADDR" ] || fail "scontrol did not list the nodes of job $SLURM_JOB_ID"
MASTER_PORT=$(python3 -S -I -c 'import os, socket
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
[ -r /data/logs/20260131-235959-train-3fa9/ddpkit.zip ] || fail "no ddpkit.zip in the directory of the run on $(hostname): --log-dir must be a shared folder"
each='set -- /data/logs/20260131-235959-train-3fa9/ddpkit.zip /data/logs/20260131-235959-train-3fa9/task.json python3 train.py --epochs 3 --note '"'"'it'"'"'"'"'"'"'"'"'s $5'"'"'
[ -r "$1" ] && command -v "$0" > /dev/null || { shift 2; exec "$@"; }
n=0; IFS=,; for i in $SLURM_GTIDS; do n=$((n + 1)); done; unset IFS
export RANK="$SLURM_PROCID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS" LOCAL_RANK="$SLURM_LOCALID" LOCAL_WORLD_SIZE="$n"
export NODE_RANK="$SLURM_NODEID" GROUP_RANK="$SLURM_NODEID" GROUP_WORLD_SIZE="$SLURM_STEP_NUM_NODES"
export ROLE_NAME=default ROLE_RANK="$RANK" ROLE_WORLD_SIZE="$WORLD_SIZE"
export TORCHELASTIC_RESTART_COUNT="$((${DDPKIT_ATTEMPT:-${SLURM_RESTART_COUNT:-0} + 1} - 1))"
export TORCHELASTIC_MAX_RESTARTS="${TORCHELASTIC_MAX_RESTARTS:-0}"
cores=$((${SLURM_CPUS_ON_NODE:-1} / n))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" "$@"
exec "$@"'
[ -z "$SLURM_RESTART_COUNT" ] || echo "ddpkit: attempt $SLURM_RESTART_COUNT"
{ date +%s.%N >> /data/logs/20260131-235959-train-3fa9/marks/job; [ ! -f /proc/self/fd/1 ] || chmod go-w /proc/self/fd/1; } 2> /dev/null
code=0; python3 -S -I /data/logs/20260131-235959-train-3fa9/ddpkit.zip collect /data/logs/20260131-235959-train-3fa9/task.json srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 --export=ALL --label --container-image=/images/torch.sqsh --container-mounts=/data/project:/data/project,/data/logs/20260131-235959-train-3fa9:/data/logs/20260131-235959-train-3fa9,/scratch:/data:ro,/home/me:/workspace/mnt --container-workdir=/data/project --container-name=torch --container-writable --container-remap-root "--container-env=$(env | sed -nE 's/^((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|NODE_RANK|MASTER_(ADDR|PORT)|DDPKIT_(RUN|OBSERVE)|TORCHELASTIC_(RESTART_COUNT|MAX_RESTARTS)|PYTHON(UNBUFFERED|FAULTHANDLER)|(CUDA|HIP|ROCR|ASCEND_RT)_VISIBLE_DEVICES|ZE_AFFINITY_MASK|(FI|GLOO|NCCL|OMP|RCCL|SLURM|SLURMD|TORCH|UCX)_[A-Za-z0-9_]*)=.*/\1/p' | paste -sd , -)",NCCL_DEBUG,WANDB_API_KEY sh -c "$each" python3 || code=$?
exit "$code"
