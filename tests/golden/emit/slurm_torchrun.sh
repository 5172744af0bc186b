#!/bin/bash
# Made by `ddpkit emit`. It requires SLURM, Python and PyTorch, and runs without ddpkit: sbatch FILE.
# shellcheck disable=SC2016,SC2088,SC1091 # arguments are unchanged; files of -o setup are not here
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --output='/data/my project/slurm-%j.out'
#SBATCH --open-mode=append

cd '/data/my project' || exit 1
unset RANK
export DDPKIT_RUN=train-"$SLURM_JOB_ID"
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export NCCL_DEBUG=WARN
export WANDB_API_KEY="${WANDB_API_KEY:?export it before sbatch}"
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
cores=$((${SLURM_CPUS_ON_NODE:-1} / 1))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
trap '"'"''"'"' USR1 USR2
exec "$0" -m torch.distributed.run --nnodes=2 --nproc_per_node=1 --node_rank="$SLURM_PROCID" \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python "$@"'
[ -z "$SLURM_RESTART_COUNT" ] || echo "ddpkit: attempt $SLURM_RESTART_COUNT"
log='/data/my project/slurm-'"$SLURM_JOB_ID".out
from=$(($(wc -c < "$log") + 1))
code='' first=''
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 --export=ALL --label sh -c "$each" /opt/venv/bin/python sh -c 'trap : TERM INT HUP USR1 USR2
"$$@" || { code=$$?; echo "ddpkit: rank $$RANK ended: code $$code on $$SLURMD_NODENAME" >&2; exit "$$code"; }' rank /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $$5' || code=$?
[ -z "$code" ] || first=$(tail -c "+$from" "$log" | sed -n 's/^ *[0-9]*: ddpkit: rank [0-9]* ended: code \([1-9][0-9]*\) .*$/\1/p' | head -n 1)
code=${first:-${code:-0}}
exit "$code"

