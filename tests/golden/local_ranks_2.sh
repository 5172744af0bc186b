#!/bin/sh
# ddpkit run 20260131-235959-train-3fa9: backend local, 2 ranks on 1 node
# step 1 of 1, on node1: ranks 0-1
cd '/data/my project' || exit 1
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
RANK=0 LOCAL_RANK=0 ROLE_RANK=0 /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
RANK=1 LOCAL_RANK=1 ROLE_RANK=1 /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
for pid in $pids; do wait "$pid" || code=$?; done
exit "${code:-0}"
