# ---- infer.0
#!/bin/sh
# ddpkit run RUN.infer.0: backend local, 1 rank on 1 node
# step 1 of 1, on HERE: rank 0
cd /data || exit 1
export DDPKIT_RUN=RUN.infer.0
export NODE_RANK=0
export OMP_NUM_THREADS=N
export PYTHONFAULTHANDLER=1
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=PORT
export WORLD_SIZE=1
export LOCAL_WORLD_SIZE=1
export GROUP_RANK=0
export GROUP_WORLD_SIZE=1
export ROLE_NAME=default
export ROLE_WORLD_SIZE=1
export TORCHELASTIC_RUN_ID=RUN.infer.0
export TORCHELASTIC_RESTART_COUNT=0
export TORCHELASTIC_MAX_RESTARTS=0
export HF_TOKEN="${HF_TOKEN:?its value is not shown}"
export DDPKIT_ROLE=infer
export DDPKIT_REPLICA=0
export DDPKIT_PORT=PORT
RANK=0 LOCAL_RANK=0 ROLE_RANK=0 python3 serve.py --port PORT --name 'it'"'"'s'

# ---- infer.1
#!/bin/sh
# ddpkit run RUN.infer.1: backend local, 1 rank on 1 node
# step 1 of 1, on HERE: rank 0
cd /data || exit 1
export DDPKIT_RUN=RUN.infer.1
export NODE_RANK=0
export OMP_NUM_THREADS=N
export PYTHONFAULTHANDLER=1
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=PORT
export WORLD_SIZE=1
export LOCAL_WORLD_SIZE=1
export GROUP_RANK=0
export GROUP_WORLD_SIZE=1
export ROLE_NAME=default
export ROLE_WORLD_SIZE=1
export TORCHELASTIC_RUN_ID=RUN.infer.1
export TORCHELASTIC_RESTART_COUNT=0
export TORCHELASTIC_MAX_RESTARTS=0
export HF_TOKEN="${HF_TOKEN:?its value is not shown}"
export DDPKIT_ROLE=infer
export DDPKIT_REPLICA=1
export DDPKIT_PORT=PORT
RANK=0 LOCAL_RANK=0 ROLE_RANK=0 python3 serve.py --port PORT --name 'it'"'"'s'

# ---- train.0
#!/bin/sh
# ddpkit run RUN.train.0: backend local, 2 ranks on 1 node
# step 1 of 1, on HERE: ranks 0-1
cd /data || exit 1
export DDPKIT_RUN=RUN.train.0
export NODE_RANK=0
export OMP_NUM_THREADS=N
export PYTHONFAULTHANDLER=1
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=PORT
export WORLD_SIZE=2
export LOCAL_WORLD_SIZE=2
export GROUP_RANK=0
export GROUP_WORLD_SIZE=1
export ROLE_NAME=default
export ROLE_WORLD_SIZE=2
export TORCHELASTIC_RUN_ID=RUN.train.0
export TORCHELASTIC_RESTART_COUNT=0
export TORCHELASTIC_MAX_RESTARTS=0
export DDPKIT_ROLE=train
export DDPKIT_REPLICA=0
export DDPKIT_ROLE_INFER_HOSTS=HERE
export DDPKIT_ROLE_INFER_ADDRESSES=HERE:PORT,HERE:PORT
export DDPKIT_ROLE_INFER_URLS=http://HERE:PORT,http://HERE:PORT
export DDPKIT_ROLE_EVAL_HOSTS=HERE
RANK=0 LOCAL_RANK=0 ROLE_RANK=0 python3 train.py --hosts HERE --set '{x: 1}' & pids="$pids $!"
RANK=1 LOCAL_RANK=1 ROLE_RANK=1 python3 train.py --hosts HERE --set '{x: 1}' & pids="$pids $!"
for pid in $pids; do wait "$pid" || code=$?; done
exit "${code:-0}"

# ---- eval.0
#!/bin/sh
# ddpkit run RUN.eval.0: backend local, 1 rank on 1 node
# step 1 of 1, on HERE: rank 0
cd /data || exit 1
export DDPKIT_RUN=RUN.eval.0
export NODE_RANK=0
export OMP_NUM_THREADS=N
export PYTHONFAULTHANDLER=1
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=PORT
export WORLD_SIZE=1
export LOCAL_WORLD_SIZE=1
export GROUP_RANK=0
export GROUP_WORLD_SIZE=1
export ROLE_NAME=default
export ROLE_WORLD_SIZE=1
export TORCHELASTIC_RUN_ID=RUN.eval.0
export TORCHELASTIC_RESTART_COUNT=0
export TORCHELASTIC_MAX_RESTARTS=0
export DDPKIT_ROLE=eval
export DDPKIT_REPLICA=0
export CUDA_VISIBLE_DEVICES=''
RANK=0 LOCAL_RANK=0 ROLE_RANK=0 python3 eval.py
