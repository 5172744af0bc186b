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
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
export NCCL_DEBUG=WARN
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
/opt/venv/bin/python -c 'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)' --nnodes=2:2 --nproc_per_node=2 --rdzv_backend=c10d --rdzv_endpoint=10.77.0.1:23456 --rdzv_id=20260131-235959-train-3fa9 --rdzv_conf=is_host=1 --local_addr=10.77.0.1 --max_restarts=2 --no_python /opt/venv/bin/python -S -I -c 'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")' /opt/venv/bin/python -m pkg.train --epochs 3
END-20260131-235959-train-3fa9
steps="$steps $!"
# step 2 of 2, on big:2222: ranks 2-4
ssh -p 2222 me@big sh <<'END-20260131-235959-train-3fa9' &
cd /scratch/project || exit 1
export DDPKIT_RUN=20260131-235959-train-3fa9
export NODE_RANK=1
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
export NCCL_DEBUG=INFO
export WANDB_API_KEY="${WANDB_API_KEY:?its value is not shown}"
export NCCL_SOCKET_IFNAME=ib0
/home/me/venv/bin/python -c 'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)' --nnodes=2:2 --nproc_per_node=3 --rdzv_backend=c10d --rdzv_endpoint=10.77.0.1:23456 --rdzv_id=20260131-235959-train-3fa9 --rdzv_conf=is_host=0 --local_addr=10.77.0.2 --max_restarts=2 --no_python /home/me/venv/bin/python -S -I -c 'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")' /home/me/venv/bin/python -m pkg.train --epochs 3
END-20260131-235959-train-3fa9
steps="$steps $!"
for step in $steps; do wait "$step" || failed=$?; done
exit "${failed:-0}"
