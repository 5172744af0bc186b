#!/bin/sh
# ddpkit run 20260131-235959-train-3fa9: backend local, 2 ranks on 1 node
# step 1 of 1, on node1: ranks 0-1
sh -c 'container=$(
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
set -- "$container" "$@"
for file in /dev/infiniband/uverbs* /dev/infiniband/rdma_cm /dev/cxi[0-9]* /dev/hfi1_* /dev/gdrdrv /dev/nvidia-caps-imex-channels/*; do [ ! -e "$file" ] || set -- --mount "$file:$file" "$@"; done
if [ -e /dev/nvidiactl ]; then
    set -- --env "NVIDIA_VISIBLE_DEVICES=${NVIDIA_VISIBLE_DEVICES:-all}" "$@"
fi
if [ -e /dev/kfd ]; then
    for file in /dev/dri/renderD* /dev/kfd; do [ ! -e "$file" ] || set -- --mount "$file:$file" "$@"; done
fi
for name in $(env | sed -nE '"'"'s/^((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|NODE_RANK|MASTER_(ADDR|PORT)|DDPKIT_(RUN|OBSERVE)|TORCHELASTIC_(RESTART_COUNT|MAX_RESTARTS)|PYTHON(UNBUFFERED|FAULTHANDLER)|(CUDA|HIP|ROCR|ASCEND_RT)_VISIBLE_DEVICES|ZE_AFFINITY_MASK|(FI|GLOO|NCCL|OMP|RCCL|SLURM|SLURMD|TORCH|UCX)_[A-Za-z0-9_]*)=.*/\1/p'"'"'); do set -- --env "$name" "$@"; done
exec enroot start --root --rw --mount /data/project:/data/project --mount /scratch:/data:rbind,x-create=auto,ro --mount /home/me:/workspace/mnt --env WANDB_API_KEY --env DDPKIT_INSIDE=20260131-235959-train-3fa9 "$@"' sh sh -s <<'end of what runs in the container'
cd /data/project || exit 1
unset RANK
export TORCHELASTIC_RUN_ID=20260131-235959-train-3fa9
export DDPKIT_RUN=20260131-235959-train-3fa9
export NODE_RANK=0
export OMP_NUM_THREADS=4
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=23456
export WORLD_SIZE=2
export LOCAL_WORLD_SIZE=2
export GROUP_RANK=0
export GROUP_WORLD_SIZE=1
export ROLE_NAME=default
export ROLE_WORLD_SIZE=2
export TORCHELASTIC_RESTART_COUNT=0
export TORCHELASTIC_MAX_RESTARTS=0
export NCCL_DEBUG=WARN
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
RANK=0 LOCAL_RANK=0 ROLE_RANK=0 python3 train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
RANK=1 LOCAL_RANK=1 ROLE_RANK=1 python3 train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
for pid in $pids; do wait "$pid" || code=$?; done
exit "${code:-0}"
end of what runs in the container
