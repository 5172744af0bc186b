#!/bin/sh
# ddpkit run 20260131-235959-train-3fa9: backend local, 2 ranks on 1 node
# step 1 of 1, on node1: ranks 0-1
cd '/data/my project' || exit 1
unset RANK TORCHELASTIC_RUN_ID
export DDPKIT_RUN=20260131-235959-train-3fa9
export NODE_RANK=0
export OMP_NUM_THREADS=4
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export NCCL_DEBUG=WARN
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
/opt/venv/bin/python -c 'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.launch", run_name="__main__", alter_sys=True)' --nnodes=1 --nproc_per_node=2 --node_rank=0 --master_addr=127.0.0.1 --master_port=23456 --use_env --no_python /opt/venv/bin/python -S -I -c 'import os, sys; sys.argv.insert(3, "--local-rank=" + os.environ["LOCAL_RANK"]); tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")' /opt/venv/bin/python train.py --epochs 3 --note 'it'"'"'s $$5'
