#!/bin/bash
# ddpkit run 20260131-235959-train-3fa9: backend slurm-torchrun, sbatch --parsable '/data/my project/logs/20260131-235959-train-3fa9/job.sbatch'
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --output='/data/my project/logs/20260131-235959-train-3fa9/slurm-%j.out'
#SBATCH --open-mode=append

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
each='set -- '"'"'/data/my project/logs/20260131-235959-train-3fa9/ddpkit.zip'"'"' '"'"'/data/my project/logs/20260131-235959-train-3fa9/task.json'"'"' /opt/venv/bin/python -S -I -c '"'"'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")'"'"' /opt/venv/bin/python train.py --epochs 3 --note '"'"'it'"'"'"'"'"'"'"'"'s $$5'"'"'
[ -r "$1" ] || {
    echo "ddpkit: no $1 on $SLURMD_NODENAME: --log-dir must be a shared folder" >&2
    sleep 0.2
    exit 123
}
export NODE_RANK="$SLURM_PROCID" GROUP_RANK="$SLURM_PROCID" GROUP_WORLD_SIZE=2
export LOCAL_WORLD_SIZE=$(set -- 4 8; shift "$SLURM_PROCID"; echo "$1")
cores=$((${SLURM_CPUS_ON_NODE:-1} / LOCAL_WORLD_SIZE))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" /opt/venv/bin/python -c '"'"'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)'"'"' \
    --nnodes=2 --nproc_per_node="$LOCAL_WORLD_SIZE" --node_rank="$SLURM_PROCID" \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python "$@"
exec "$@"'
SLURM_HOSTFILE=$(mktemp '/data/my project/logs/20260131-235959-train-3fa9/hosts.XXXXXX') || fail "the list of nodes cannot be written"
export SLURM_HOSTFILE
set -- 1 1
for node in $nodes; do echo "$node*$1"; shift; done > "$SLURM_HOSTFILE"
[ -z "$SLURM_RESTART_COUNT" ] || echo "ddpkit: attempt $SLURM_RESTART_COUNT"
{ date +%s.%N >> '/data/my project/logs/20260131-235959-train-3fa9/marks/job'; [ ! -f /proc/self/fd/1 ] || chmod go-w /proc/self/fd/1; } 2> /dev/null
code=0; /opt/venv/bin/python -S -I '/data/my project/logs/20260131-235959-train-3fa9/ddpkit.zip' collect '/data/my project/logs/20260131-235959-train-3fa9/task.json' srun --ntasks=2 --distribution=arbitrary --kill-on-bad-exit=1 --export=ALL --label bash -pc "$each" /opt/venv/bin/python || code=$?
exit "$code"
