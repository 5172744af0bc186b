#!/bin/bash
# ddpkit run 20260131-235959-train-3fa9: backend slurm-srun, sbatch --parsable /data/logs/20260131-235959-train-3fa9/job.sbatch
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
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
config=$(scontrol show config); [ -n "$config" ] || fail "scontrol did not show the configuration of SLURM"
bind=; case "$config" in *task/affinity*) bind=--cpu-bind=none ;; esac
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
printf '"'"'={"e":"at","host":"%s"}\n'"'"' "$SLURMD_NODENAME"
[ -r "$1" ] || {
    echo "ddpkit: no $1 on $SLURMD_NODENAME: --log-dir must be a shared folder" >&2
    sleep 0.2
    exit 123
}
export NODE_RANK="$SLURM_PROCID" GROUP_RANK="$SLURM_PROCID" GROUP_WORLD_SIZE=2
export LOCAL_WORLD_SIZE=1
cores=$((${SLURM_CPUS_ON_NODE:-1} / LOCAL_WORLD_SIZE))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
export TORCHELASTIC_RESTART_COUNT="$((${DDPKIT_ATTEMPT:-${SLURM_RESTART_COUNT:-0} + 1} - 1))"
export TORCHELASTIC_MAX_RESTARTS="${TORCHELASTIC_MAX_RESTARTS:-0}"
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" "$@"
container=$(
    umask 077
    folder=${XDG_STATE_HOME:-$HOME/.local/state}/ddpkit/enroot
    mkdir -p "$folder" 2> /dev/null || { folder=/tmp/ddpkit-enroot-$(id -u) && mkdir -p "$folder"; } || exit 1
    [ -O "$folder" ] && [ ! -L "$folder" ] || { echo "ddpkit: $folder belongs to another user" >&2; exit 1; }
    own=ddpkit-torch; part=$folder/$(uname -n)-$own
    exec 9>> "$part.lock" < /dev/null
    flock -w 10 9 ||
        { echo "ddpkit: waiting for the container $own, which another process makes" >&2; flock -w 1800 9; } ||
        { echo "ddpkit: $part.lock: held by another process for 30 minutes" >&2; exit 1; }
    there=$(enroot list) || { echo "ddpkit: enroot list failed: no container was made" >&2; exit 1; }
    there() { printf '"'"'%s
'"'"' "$there" | grep -Fqx -e "$1"; }
    if there torch; then own=torch
    elif ! there "$own" || [ -e "$part.half" ]; then
        ! there "$own" || enroot remove -f "$own" >&2 || exit 1
        : >> "$part.half" && enroot create --name "$own" /images/torch.sqsh >&2 && rm -- "$part.half" || exit 1
    fi
    printf %s "$own"
) || exit 1
set -- "$container" sh -c '"'"'cd "$0" && exec "$@"'"'"' /data/project "$@"
for file in /dev/infiniband/uverbs* /dev/infiniband/rdma_cm /dev/cxi[0-9]* /dev/hfi1_* /dev/gdrdrv /dev/nvidia-caps-imex-channels/*; do [ ! -e "$file" ] || set -- --mount "$file:$file" "$@"; done
if [ -e /dev/nvidiactl ]; then
    set -- --env "NVIDIA_VISIBLE_DEVICES=${NVIDIA_VISIBLE_DEVICES:-all}" "$@"
fi
if [ -e /dev/kfd ]; then
    for file in /dev/dri/renderD* /dev/kfd; do [ ! -e "$file" ] || set -- --mount "$file:$file" "$@"; done
fi
for name in $(env | sed -nE '"'"'s/^((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|NODE_RANK|MASTER_(ADDR|PORT)|DDPKIT_(RUN|OBSERVE)|TORCHELASTIC_(RESTART_COUNT|MAX_RESTARTS)|PYTHON(UNBUFFERED|FAULTHANDLER)|(CUDA|HIP|ROCR|ASCEND_RT)_VISIBLE_DEVICES|ZE_AFFINITY_MASK|(FI|GLOO|NCCL|OMP|RCCL|SLURM|SLURMD|TORCH|UCX)_[A-Za-z0-9_]*)=.*/\1/p'"'"'); do set -- --env "$name" "$@"; done
exec enroot start --root --rw --mount /data/project:/data/project --mount /data/logs/20260131-235959-train-3fa9:/data/logs/20260131-235959-train-3fa9 --mount /scratch:/data:rbind,x-create=auto,ro --mount /home/me:/workspace/mnt --env NCCL_DEBUG --env WANDB_API_KEY "$@"'
[ -z "$SLURM_RESTART_COUNT" ] || echo "ddpkit: attempt $SLURM_RESTART_COUNT"
{ date +%s.%N >> /data/logs/20260131-235959-train-3fa9/marks/job; [ ! -f /proc/self/fd/1 ] || chmod go-w /proc/self/fd/1; } 2> /dev/null
code=0; python3 -S -I /data/logs/20260131-235959-train-3fa9/ddpkit.zip collect /data/logs/20260131-235959-train-3fa9/task.json srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 --export=ALL --label $bind bash -pc "$each" python3 || code=$?
exit "$code"
