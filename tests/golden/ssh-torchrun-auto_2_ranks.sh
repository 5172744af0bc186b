#!/bin/sh
# ddpkit run 20260131-235959-train-3fa9: backend ssh-torchrun-auto, 5 ranks on 2 nodes
# step 1 of 2, on node1: ranks 0-1
ssh node1 sh <<'END-20260131-235959-train-3fa9' &
cd '/data/my project' || exit 1
unset RANK
export DDPKIT_RUN=20260131-235959-train-3fa9
export NODE_RANK=0
export OMP_NUM_THREADS=4
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export MASTER_ADDR=10.77.0.1
export MASTER_PORT=23456
export WORLD_SIZE=5
export LOCAL_WORLD_SIZE=2
export GROUP_RANK=0
export GROUP_WORLD_SIZE=2
export ROLE_NAME=default
export ROLE_WORLD_SIZE=5
export TORCHELASTIC_RUN_ID=20260131-235959-train-3fa9
export TORCHELASTIC_RESTART_COUNT=0
export TORCHELASTIC_MAX_RESTARTS=0
export NCCL_DEBUG=WARN
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
RANK=0 LOCAL_RANK=0 ROLE_RANK=0 /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
RANK=1 LOCAL_RANK=1 ROLE_RANK=1 /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
for pid in $pids; do wait "$pid" || code=$?; done
exit "${code:-0}"
END-20260131-235959-train-3fa9
steps="$steps $!"
# step 2 of 2, on big:2222: ranks 2-4
ssh -p 2222 me@big sh <<'END-20260131-235959-train-3fa9' &
cd /scratch/project || exit 1
export DDPKIT_RUN=20260131-235959-train-3fa9
export NODE_RANK=1
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export MASTER_ADDR=10.77.0.1
export MASTER_PORT=23456
export WORLD_SIZE=5
export LOCAL_WORLD_SIZE=3
export GROUP_RANK=1
export GROUP_WORLD_SIZE=2
export ROLE_NAME=default
export ROLE_WORLD_SIZE=5
export TORCHELASTIC_RUN_ID=20260131-235959-train-3fa9
export TORCHELASTIC_RESTART_COUNT=0
export TORCHELASTIC_MAX_RESTARTS=0
export NCCL_DEBUG=INFO
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
export NCCL_SOCKET_IFNAME=ib0
RANK=2 LOCAL_RANK=0 ROLE_RANK=2 /home/me/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
RANK=3 LOCAL_RANK=1 ROLE_RANK=3 /home/me/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
RANK=4 LOCAL_RANK=2 ROLE_RANK=4 /home/me/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $5' & pids="$pids $!"
for pid in $pids; do wait "$pid" || code=$?; done
exit "${code:-0}"
END-20260131-235959-train-3fa9
steps="$steps $!"
for step in $steps; do wait "$step" || failed=$?; done
exit "${failed:-0}"
