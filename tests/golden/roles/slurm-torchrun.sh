# in a job of its own: salloc --no-bell --job-name=eval --nodes=3 --ntasks-per-node=3
# ---- infer.0
#!/bin/sh
# ddpkit run RUN.infer.0: backend slurm-torchrun, 1 rank
# step 1 of 1, on HERE: rank 0
cd /data || exit 1
unset SLURM_JOB_ID SLURM_JOB_NODELIST
export DDPKIT_RUN=RUN.infer.0
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export HF_TOKEN="${HF_TOKEN:?its value is not shown}"
export DDPKIT_ROLE=infer
export DDPKIT_REPLICA=0
fail() { echo "ddpkit: $*: nothing was started" >&2; exit 123; }
# rank 0 runs on the first node
nodes=NODE1
MASTER_ADDR=${nodes%%[[:space:]]*}
MASTER_PORT=$(srun --jobid=JOB --overlap --nodes=1 --ntasks=1 --gres=none --nodelist=NODE1 --export=ALL python3 -S -I -c 'import os, socket
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
[ -r /data/logs/RUN/roles/RUN.infer.0/ddpkit.zip ] || fail "no ddpkit.zip in the directory of the run on $(hostname): --log-dir must be a shared folder"
each='set -- /data/logs/RUN/roles/RUN.infer.0/ddpkit.zip /data/logs/RUN/roles/RUN.infer.0/task.json python3 -S -I -c '"'"'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")'"'"' python3 serve.py --port '"'"'{port}'"'"' --name '"'"'it'"'"'"'"'"'"'"'"'s'"'"'
[ -r "$1" ] || {
    echo "ddpkit: no $1 on $SLURMD_NODENAME: --log-dir must be a shared folder" >&2
    sleep 0.2
    exit 123
}
export NODE_RANK="$SLURM_PROCID" GROUP_RANK="$SLURM_PROCID" GROUP_WORLD_SIZE=1
export LOCAL_WORLD_SIZE=1
cores=$((${SLURM_CPUS_ON_NODE:-1} / LOCAL_WORLD_SIZE))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" python3 -c '"'"'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)'"'"' \
    --nnodes=1 --nproc_per_node="$LOCAL_WORLD_SIZE" --node_rank="$SLURM_PROCID" \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python "$@"
exec "$@"'
SLURM_HOSTFILE=$(mktemp /data/logs/RUN/roles/RUN.infer.0/hosts.XXXXXX) || fail "the list of nodes cannot be written"
export SLURM_HOSTFILE
set -- 1
for node in $nodes; do echo "$node*$1"; shift; done > "$SLURM_HOSTFILE"
exec python3 -S -I /data/logs/RUN/roles/RUN.infer.0/ddpkit.zip collect /data/logs/RUN/roles/RUN.infer.0/task.json srun --jobid=JOB --overlap --ntasks=1 --distribution=arbitrary --kill-on-bad-exit=1 --export=ALL --label bash -pc "$each" python3

# ---- infer.1
#!/bin/sh
# ddpkit run RUN.infer.1: backend slurm-torchrun, 1 rank
# step 1 of 1, on HERE: rank 0
cd /data || exit 1
unset SLURM_JOB_ID SLURM_JOB_NODELIST
export DDPKIT_RUN=RUN.infer.1
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export HF_TOKEN="${HF_TOKEN:?its value is not shown}"
export DDPKIT_ROLE=infer
export DDPKIT_REPLICA=1
fail() { echo "ddpkit: $*: nothing was started" >&2; exit 123; }
# rank 0 runs on the first node
nodes=NODE2
MASTER_ADDR=${nodes%%[[:space:]]*}
MASTER_PORT=$(srun --jobid=JOB --overlap --nodes=1 --ntasks=1 --gres=none --nodelist=NODE2 --export=ALL python3 -S -I -c 'import os, socket
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
[ -r /data/logs/RUN/roles/RUN.infer.1/ddpkit.zip ] || fail "no ddpkit.zip in the directory of the run on $(hostname): --log-dir must be a shared folder"
each='set -- /data/logs/RUN/roles/RUN.infer.1/ddpkit.zip /data/logs/RUN/roles/RUN.infer.1/task.json python3 -S -I -c '"'"'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")'"'"' python3 serve.py --port '"'"'{port}'"'"' --name '"'"'it'"'"'"'"'"'"'"'"'s'"'"'
[ -r "$1" ] || {
    echo "ddpkit: no $1 on $SLURMD_NODENAME: --log-dir must be a shared folder" >&2
    sleep 0.2
    exit 123
}
export NODE_RANK="$SLURM_PROCID" GROUP_RANK="$SLURM_PROCID" GROUP_WORLD_SIZE=1
export LOCAL_WORLD_SIZE=1
cores=$((${SLURM_CPUS_ON_NODE:-1} / LOCAL_WORLD_SIZE))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" python3 -c '"'"'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)'"'"' \
    --nnodes=1 --nproc_per_node="$LOCAL_WORLD_SIZE" --node_rank="$SLURM_PROCID" \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python "$@"
exec "$@"'
SLURM_HOSTFILE=$(mktemp /data/logs/RUN/roles/RUN.infer.1/hosts.XXXXXX) || fail "the list of nodes cannot be written"
export SLURM_HOSTFILE
set -- 1
for node in $nodes; do echo "$node*$1"; shift; done > "$SLURM_HOSTFILE"
exec python3 -S -I /data/logs/RUN/roles/RUN.infer.1/ddpkit.zip collect /data/logs/RUN/roles/RUN.infer.1/task.json srun --jobid=JOB --overlap --ntasks=1 --distribution=arbitrary --kill-on-bad-exit=1 --export=ALL --label bash -pc "$each" python3

# ---- train.0
#!/bin/sh
# ddpkit run RUN.train.0: backend slurm-torchrun, 2 ranks
# step 1 of 1, on HERE: ranks 0-1
cd /data || exit 1
unset SLURM_JOB_ID SLURM_JOB_NODELIST
export DDPKIT_RUN=RUN.train.0
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export DDPKIT_ROLE=train
export DDPKIT_REPLICA=0
export DDPKIT_ROLE_INFER_HOSTS=NODE1,NODE2
export DDPKIT_ROLE_EVAL_HOSTS=NODE3
fail() { echo "ddpkit: $*: nothing was started" >&2; exit 123; }
# rank 0 runs on the first node
nodes=NODE3
MASTER_ADDR=${nodes%%[[:space:]]*}
MASTER_PORT=$(srun --jobid=JOB --overlap --nodes=1 --ntasks=1 --gres=none --nodelist=NODE3 --export=ALL python3 -S -I -c 'import os, socket
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
[ -r /data/logs/RUN/roles/RUN.train.0/ddpkit.zip ] || fail "no ddpkit.zip in the directory of the run on $(hostname): --log-dir must be a shared folder"
each='set -- /data/logs/RUN/roles/RUN.train.0/ddpkit.zip /data/logs/RUN/roles/RUN.train.0/task.json python3 -S -I -c '"'"'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")'"'"' python3 train.py --hosts NODE1,NODE2 --set '"'"'{x: 1}'"'"'
[ -r "$1" ] || {
    echo "ddpkit: no $1 on $SLURMD_NODENAME: --log-dir must be a shared folder" >&2
    sleep 0.2
    exit 123
}
export NODE_RANK="$SLURM_PROCID" GROUP_RANK="$SLURM_PROCID" GROUP_WORLD_SIZE=1
export LOCAL_WORLD_SIZE=2
cores=$((${SLURM_CPUS_ON_NODE:-1} / LOCAL_WORLD_SIZE))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" python3 -c '"'"'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)'"'"' \
    --nnodes=1 --nproc_per_node="$LOCAL_WORLD_SIZE" --node_rank="$SLURM_PROCID" \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python "$@"
exec "$@"'
SLURM_HOSTFILE=$(mktemp /data/logs/RUN/roles/RUN.train.0/hosts.XXXXXX) || fail "the list of nodes cannot be written"
export SLURM_HOSTFILE
set -- 1
for node in $nodes; do echo "$node*$1"; shift; done > "$SLURM_HOSTFILE"
exec python3 -S -I /data/logs/RUN/roles/RUN.train.0/ddpkit.zip collect /data/logs/RUN/roles/RUN.train.0/task.json srun --jobid=JOB --overlap --ntasks=1 --distribution=arbitrary --kill-on-bad-exit=1 --export=ALL --label bash -pc "$each" python3

# ---- eval.0
#!/bin/sh
# ddpkit run RUN.eval.0: backend slurm-torchrun, 1 rank
# step 1 of 1, on HERE: rank 0
cd /data || exit 1
unset SLURM_JOB_ID SLURM_JOB_NODELIST
export DDPKIT_RUN=RUN.eval.0
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1
export DDPKIT_ROLE=eval
export DDPKIT_REPLICA=0
fail() { echo "ddpkit: $*: nothing was started" >&2; exit 123; }
# rank 0 runs on the first node
nodes=NODE3
MASTER_ADDR=${nodes%%[[:space:]]*}
MASTER_PORT=$(srun --jobid=JOB --overlap --nodes=1 --ntasks=1 --gres=none --nodelist=NODE3 --export=ALL python3 -S -I -c 'import os, socket
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
[ -r /data/logs/RUN/roles/RUN.eval.0/ddpkit.zip ] || fail "no ddpkit.zip in the directory of the run on $(hostname): --log-dir must be a shared folder"
each='set -- /data/logs/RUN/roles/RUN.eval.0/ddpkit.zip /data/logs/RUN/roles/RUN.eval.0/task.json python3 -S -I -c '"'"'import os, sys; tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")'"'"' python3 eval.py
export CUDA_VISIBLE_DEVICES=
[ -r "$1" ] || {
    echo "ddpkit: no $1 on $SLURMD_NODENAME: --log-dir must be a shared folder" >&2
    sleep 0.2
    exit 123
}
export NODE_RANK="$SLURM_PROCID" GROUP_RANK="$SLURM_PROCID" GROUP_WORLD_SIZE=1
export LOCAL_WORLD_SIZE=1
cores=$((${SLURM_CPUS_ON_NODE:-1} / LOCAL_WORLD_SIZE))
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" python3 -c '"'"'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; os.environ.get("PYTHONSAFEPATH") != "ddpkit" or os.environ.pop("PYTHONSAFEPATH"); import runpy; runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)'"'"' \
    --nnodes=1 --nproc_per_node="$LOCAL_WORLD_SIZE" --node_rank="$SLURM_PROCID" \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python "$@"
exec "$@"'
SLURM_HOSTFILE=$(mktemp /data/logs/RUN/roles/RUN.eval.0/hosts.XXXXXX) || fail "the list of nodes cannot be written"
export SLURM_HOSTFILE
set -- 1
for node in $nodes; do echo "$node*$1"; shift; done > "$SLURM_HOSTFILE"
exec python3 -S -I /data/logs/RUN/roles/RUN.eval.0/ddpkit.zip collect /data/logs/RUN/roles/RUN.eval.0/task.json srun --jobid=JOB --overlap --ntasks=1 --distribution=arbitrary --kill-on-bad-exit=1 --export=ALL --label bash -pc "$each" python3
