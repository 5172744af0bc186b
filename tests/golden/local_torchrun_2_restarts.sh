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
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
export NCCL_DEBUG=WARN
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
/opt/venv/bin/python -c 'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)' --nnodes=1:1 --nproc_per_node=2 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:23456 --rdzv_id=20260131-235959-train-3fa9 --rdzv_conf=is_host=1 --max_restarts=3 --no_python /opt/venv/bin/python -S -I -c 'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")' /opt/venv/bin/python -m pkg.train --epochs 3
