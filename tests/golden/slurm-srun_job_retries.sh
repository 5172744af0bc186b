#!/bin/bash
# ddpkit run 20260131-235959-train-3fa9: backend slurm-srun, sbatch --parsable '/data/my project/logs/20260131-235959-train-3fa9/job.sbatch'
#SBATCH --job-name=train
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --output='/data/my project/logs/20260131-235959-train-3fa9/slurm-%j.out'
#SBATCH --open-mode=append
#SBATCH --no-kill

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
[ -r '/data/my project/logs/20260131-235959-train-3fa9/ddpkit.zip' ] || fail "no ddpkit.zip in the directory of the run on $(hostname): --log-dir must be a shared folder"
each='set -- '"'"'/data/my project/logs/20260131-235959-train-3fa9/ddpkit.zip'"'"' '"'"'/data/my project/logs/20260131-235959-train-3fa9/task.json'"'"' /opt/venv/bin/python train.py --epochs 3 --note '"'"'it'"'"'"'"'"'"'"'"'s $5'"'"'
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
export -n DDPKIT_JOB_HOOK  # it can hold secrets: the ranks do not get it
decide=(env PYTHONSAFEPATH=ddpkit /opt/ddpkit/bin/python -c 'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("ddpkit.cli.job_attempts", run_name="__main__", alter_sys=True)' '/data/my project/logs/20260131-235959-train-3fa9')
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 2 | paste -sd , -)
[ -n "$nodes" ] || fail "scontrol did not list the nodes of job $SLURM_JOB_ID"
[ -z "$SLURM_RESTART_COUNT" ] || { next=$(DDPKIT_JOB_HOOK="$DDPKIT_JOB_HOOK" "${decide[@]}" requeued) || exit 1; eval "$next"; echo "ddpkit: attempt $((DDPKIT_ATTEMPT - 1))"; }
next_attempt() {
    trap '' TERM  # a requeue sends it: the decision comes to its end
    next=$(DDPKIT_JOB_HOOK="$DDPKIT_JOB_HOOK" "${decide[@]}" "$code") || exit "$code"
    trap - TERM; eval "$next"; echo "ddpkit: attempt $((DDPKIT_ATTEMPT - 1))"
}
watched() { jobs -pr | grep -qx "${watch:-none}"; }
watch=; trap 'echo "ddpkit: job $SLURM_JOB_ID ended with code $?"; ! watched || kill "$watch"' EXIT
while :; do
    there=$(squeue -h -j "$SLURM_JOB_ID" -o %N)
    there=$(scontrol show hostnames "$there" | grep -vxF "$SLURMD_NODENAME" | tail -n 1)
    [ -z "$there" ] || watched || { DDPKIT_JOB_HOOK="$DDPKIT_JOB_HOOK" srun --overlap --nodes=1 --ntasks=1 "--nodelist=$there" --output=none --export=ALL "${decide[@]}" watch < /dev/null 2> /dev/null & watch=$!; }
    MASTER_ADDR=${nodes%%,*}  # rank 0 runs on the first node
    on=; [ "$MASTER_ADDR" = "$SLURMD_NODENAME" ] || on="srun --overlap --nodes=1 --ntasks=1 --nodelist=$MASTER_ADDR --export=ALL"
    MASTER_PORT=$($on /opt/venv/bin/python -S -I -c 'import os, socket
while True:
    port = 20000 + int.from_bytes(os.urandom(4), "big") % 12000
    try:
        with socket.socket() as probe:
            probe.bind(("", port))
    except OSError:
        continue
    print(port)
    break')
    [ -n "$MASTER_PORT" ] || { code=123; next_attempt; continue; }
    export MASTER_ADDR MASTER_PORT
    { date +%s.%N >> '/data/my project/logs/20260131-235959-train-3fa9/marks/job'; [ ! -f /proc/self/fd/1 ] || chmod go-w /proc/self/fd/1; } 2> /dev/null
    code=0; /opt/venv/bin/python -S -I '/data/my project/logs/20260131-235959-train-3fa9/ddpkit.zip' collect '/data/my project/logs/20260131-235959-train-3fa9/task.json' srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --overlap "--nodelist=$nodes" --kill-on-bad-exit=1 --export=ALL --label bash -pc "$each" /opt/venv/bin/python || code=$?
    next_attempt
done
