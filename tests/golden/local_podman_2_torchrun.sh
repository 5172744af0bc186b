#!/bin/sh
# ddpkit run 20260131-235959-train-3fa9: backend local, 2 ranks on 1 node
# step 1 of 1, on node1: ranks 0-1
sh -c 'set -- --ulimit=memlock=-1 nvcr.io/nvidia/pytorch:24.06-py3 "$@"
in_job() { [ -n "${SLURM_JOB_ID-}${PBS_JOBID-}${LSB_JOBID-}" ] || grep -q -e slurm -e pbs -e lsf /proc/self/cgroup; }
for file in /dev/infiniband/uverbs* /dev/infiniband/rdma_cm /dev/cxi[0-9]* /dev/hfi1_* /dev/gdrdrv /dev/nvidia-caps-imex-channels/*; do [ ! -e "$file" ] || set -- --device="$file" "$@"; done
[ ! -e /dev/infiniband ] || set -- --ulimit=memlock="$([ "$(id -u)" != 0 ] && hard=$(ulimit -H -l) && [ "$hard" != unlimited ] && echo $((hard * 1024)) || echo -1)" "$@"
if [ -e /dev/nvidiactl ]; then
    gpus=all
    if in_job; then
        case ,${CUDA_VISIBLE_DEVICES-} in
            *,MIG-* | *,GPU-*) gpus=$CUDA_VISIBLE_DEVICES ;;
            *) gpus=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | paste -sd , -) ;;
        esac
        case $gpus in
            GPU-* | MIG-*) ;;
            *'"'"'No devices'"'"'*) gpus= ;;
            *) echo "ddpkit: nvidia-smi does not list the GPUs of this job: $gpus" >&2; exit 1 ;;
        esac
    fi
    for gpu in $(printf %s "$gpus" | tr , '"'"' '"'"'); do set -- --device "nvidia.com/gpu=$gpu" "$@"; done
fi
if [ -e /dev/kfd ]; then
    for file in /dev/dri/renderD* /dev/kfd; do { in_job && ! (: < "$file") 2> /dev/null; } || [ ! -e "$file" ] || set -- --device="$file" "$@"; done
    set -- --group-add=keep-groups "$@"
fi
for name in $(env | sed -nE '"'"'s/^((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|NODE_RANK|MASTER_(ADDR|PORT)|DDPKIT_(RUN|OBSERVE)|TORCHELASTIC_(RESTART_COUNT|MAX_RESTARTS)|PYTHON(UNBUFFERED|FAULTHANDLER)|(CUDA|HIP|ROCR|ASCEND_RT)_VISIBLE_DEVICES|ZE_AFFINITY_MASK|(FI|GLOO|NCCL|OMP|RCCL|SLURM|SLURMD|TORCH|UCX)_[A-Za-z0-9_]*)=.*/\1/p'"'"'); do set -- --env "$name" "$@"; done
exec podman run --rm --interactive --network=host --ipc=host --label=ddpkit=20260131-235959-train-3fa9 --mount=type=bind,source=/data/project,target=/data/project '"'"'--volume=/scratch/my data:/data:ro'"'"' --env=DDPKIT_INSIDE=20260131-235959-train-3fa9 --env=WANDB_API_KEY "$@"' sh sh -s <<'end of what runs in the container'
cd /data/project || exit 1
unset RANK TORCHELASTIC_RUN_ID
export DDPKIT_RUN=20260131-235959-train-3fa9
export NODE_RANK=0
export OMP_NUM_THREADS=4
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export NCCL_DEBUG=WARN
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
python3 -c 'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)' --nnodes=1 --nproc_per_node=2 --node_rank=0 --master_addr=127.0.0.1 --master_port=23456 --no_python python3 -S -I -c 'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")' python3 train.py --epochs 3 --note 'it'"'"'s $$5'
end of what runs in the container
