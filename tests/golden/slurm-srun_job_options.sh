#!/bin/bash
# ddpkit run 20260131-235959-train-3fa9: backend slurm-srun, sbatch --parsable '/data/my project/logs/20260131-235959-train-3fa9/job.sbatch'
#SBATCH --job-name='run 1'
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=6
#SBATCH --output='/data/my project/logs/train_%j.out'
#SBATCH --open-mode=append
#SBATCH --partition=gpu
#SBATCH --account='team a'
#SBATCH --time=2-00:00:00
#SBATCH --gpus-per-node=4
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --mail-type=END
#SBATCH '--comment=two words'

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
exit() { [ "$BASH_SUBSHELL" = 0 ] || builtin exit "$@"; unset -f exit; fail "--setup has \`exit $*\`"; }
depth=${#BASH_SOURCE[@]}
trap 'code=$?; [ ${#BASH_SOURCE[@]} != $depth ] || fail "a command of --setup ended with exit code $code, at \`${BASH_COMMAND%%[[:cntrl:]]*}\`; where it may fail, add || true"' ERR
module load cuda
source venv/bin/activate
code=$?; trap - ERR; unset -f exit
[ "$code" = 0 ] || fail "the last command of --setup ended with exit code $code"
[ "$PWD" = '/data/my project' ] || [ -e train.py ] || fail "script "train.py" not found in $PWD, to which a cd of --setup leads"
command -v /opt/venv/bin/python > /dev/null || fail "Python "/opt/venv/bin/python" not found on $(hostname)"
unset SLURM_TRES_PER_TASK SLURM_TRES_BIND SLURM_GPUS_PER_TASK SLURM_GPU_BIND SLURM_NTASKS_PER_GPU
# rank 0 runs on the first node
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
[ -n "$MASTER_ADDR" ] || fail "scontrol did not list the nodes of job $SLURM_JOB_ID"
MASTER_PORT=$(/opt/venv/bin/python -S -I -c 'import os, socket
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
n=0; IFS=,; for i in $SLURM_GTIDS; do n=$((n + 1)); done; unset IFS
export RANK="$SLURM_PROCID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS" LOCAL_RANK="$SLURM_LOCALID" LOCAL_WORLD_SIZE="$n"
export NODE_RANK="$SLURM_NODEID" GROUP_RANK="$SLURM_NODEID" GROUP_WORLD_SIZE="$SLURM_STEP_NUM_NODES"
export ROLE_NAME=default ROLE_RANK="$RANK" ROLE_WORLD_SIZE="$WORLD_SIZE"
export TORCHELASTIC_RESTART_COUNT="$((${DDPKIT_ATTEMPT:-${SLURM_RESTART_COUNT:-0} + 1} - 1))"
export TORCHELASTIC_MAX_RESTARTS="${TORCHELASTIC_MAX_RESTARTS:-3}"
cores=$((${SLURM_CPUS_ON_NODE:-1} / n))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" "$@"
exec "$@"'
[ -z "$SLURM_RESTART_COUNT" ] || echo "ddpkit: attempt $SLURM_RESTART_COUNT"
{ date +%s.%N >> '/data/my project/logs/20260131-235959-train-3fa9/marks/job'; } 2> /dev/null
code=0; /opt/venv/bin/python -S -I '/data/my project/logs/20260131-235959-train-3fa9/ddpkit.zip' collect '/data/my project/logs/20260131-235959-train-3fa9/task.json' srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=6 --kill-on-bad-exit=1 --export=ALL --label --cpu-bind=cores bash -pc "$each" /opt/venv/bin/python || code=$?
if [ "$code" = 75 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
