#!/bin/sh
# ddpkit run 20260131-235959-train-3fa9: backend slurm-torchrun, 4 ranks
# step 1 of 1, on login: ranks 0-3
cd /data/project || exit 1
unset RANK SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NTASKS
export DDPKIT_RUN=20260131-235959-train-3fa9
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export NCCL_DEBUG=WARN
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
fail() { echo "ddpkit: $*: nothing was started" >&2; exit 123; }
# rank 0 runs on the first node
MASTER_ADDR=node1
MASTER_PORT=$(srun --jobid=123 --overlap --nodes=1 --ntasks=1 --gres=none --nodelist=node1 --export=ALL python3 -S -I -c 'import os, socket
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
each='set -- /data/logs/20260131-235959-train-3fa9/ddpkit.zip /data/logs/20260131-235959-train-3fa9/task.json python3 -S -I -c '"'"'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")'"'"' python3 train.py --epochs 3 --note '"'"'it'"'"'"'"'"'"'"'"'s $$5'"'"'
printf '"'"'={"e":"at","host":"%s"}\n'"'"' "$SLURMD_NODENAME"
[ -r "$1" ] || {
    echo "ddpkit: no $1 on $SLURMD_NODENAME: --log-dir must be a shared folder" >&2
    sleep 0.2
    exit 123
}
export NODE_RANK="$SLURM_PROCID" GROUP_RANK="$SLURM_PROCID" GROUP_WORLD_SIZE=2
export LOCAL_WORLD_SIZE=2
cores=$((${SLURM_CPUS_ON_NODE:-1} / LOCAL_WORLD_SIZE))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" python3 -c '"'"'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)'"'"' \
    --nnodes=2 --nproc_per_node="$LOCAL_WORLD_SIZE" --node_rank="$SLURM_PROCID" \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python "$@"
set -- torch sh -c '"'"'cd "$0" && exec "$@"'"'"' /data/project "$@"
for file in /dev/infiniband/uverbs* /dev/infiniband/rdma_cm /dev/cxi[0-9]* /dev/hfi1_* /dev/gdrdrv /dev/nvidia-caps-imex-channels/*; do [ ! -e "$file" ] || set -- --mount "$file:$file" "$@"; done
if [ -e /dev/nvidiactl ]; then
    set -- --env "NVIDIA_VISIBLE_DEVICES=${NVIDIA_VISIBLE_DEVICES:-all}" "$@"
fi
if [ -e /dev/kfd ]; then
    for file in /dev/dri/renderD* /dev/kfd; do [ ! -e "$file" ] || set -- --mount "$file:$file" "$@"; done
fi
for name in $(env | sed -nE '"'"'s/^((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|NODE_RANK|MASTER_(ADDR|PORT)|DDPKIT_(RUN|OBSERVE)|TORCHELASTIC_(RESTART_COUNT|MAX_RESTARTS)|PYTHON(UNBUFFERED|FAULTHANDLER)|(CUDA|HIP|ROCR|ASCEND_RT)_VISIBLE_DEVICES|ZE_AFFINITY_MASK|(FI|GLOO|NCCL|OMP|RCCL|SLURM|SLURMD|TORCH|UCX)_[A-Za-z0-9_]*)=.*/\1/p'"'"'); do set -- --env "$name" "$@"; done
exec enroot start --mount /data/project:/data/project --mount /data/logs/20260131-235959-train-3fa9:/data/logs/20260131-235959-train-3fa9 --env NCCL_DEBUG --env WANDB_API_KEY "$@"'
exec python3 -S -I /data/logs/20260131-235959-train-3fa9/ddpkit.zip collect /data/logs/20260131-235959-train-3fa9/task.json srun --jobid=123 --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=6 --kill-on-bad-exit=1 --export=ALL --label bash -pc "$each" python3
