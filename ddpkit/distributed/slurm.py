"""Who a task of a SLURM step is, from what `srun` sets in its environment.

A task is a *step*: the batch script and an `salloc` shell see SLURM_PROCID and SLURM_NTASKS too, and are nobody's
rank. Everything is taken from the step's own variables, because those of the job describe what was asked for, and a
step may run on a part of it. Seen on Slurm 22.05.
"""

from __future__ import annotations

from ddpkit.distributed.nodelist import expand_nodelist, expand_tasks_per_node, first_of_nodelist
from ddpkit.distributed.reading import (
    Environ,
    Num,
    Task,
    count_nodes,
    is_loopback,
    master_address,
    master_port,
    need,
    number_in,
    parse_number,
    place_node,
    port_for,
    text_of,
)
from ddpkit.errors import EnvError

# SLURM's reserved step ids. They run a shell or a daemon of SLURM, never the tasks of a user's `srun`. (Slurm 22.05)
SPECIAL_STEPS = {"4294967290": "interactive", "4294967291": "batch", "4294967292": "extern", "4294967293": "pending"}


def read_step(environ: Environ) -> Task | str:
    """Read a SLURM step. Outside of one, SLURM_PROCID and SLURM_NTASKS describe an allocation, not this process."""
    switch = text_of(environ, "DDPKIT_DETECT_SLURM")
    if switch.lower() in ("0", "off", "false", "no"):
        return f"DDPKIT_DETECT_SLURM={switch} turns it off"
    step = text_of(environ, "SLURM_STEP_ID") or text_of(environ, "SLURM_STEPID")
    if step in SPECIAL_STEPS:
        return f"SLURM_STEP_ID={step} is the {SPECIAL_STEPS[step]} step of the job: a shell or a daemon, not a task"
    if not text_of(environ, "SLURM_STEP_NUM_TASKS"):
        ntasks = next((name for name in ("SLURM_NTASKS", "SLURM_NPROCS") if text_of(environ, name)), None)
        if ntasks is None and not text_of(environ, "SLURM_JOB_ID"):
            return "no SLURM variable is set"
        about = f"{ntasks}={environ[ntasks]}" if ntasks else f"SLURM_JOB_ID={environ['SLURM_JOB_ID']}"
        return f"{about} describes the job; SLURM_STEP_NUM_TASKS is not set: srun did not start this process"
    missing = [name for name in ("SLURM_PROCID", "SLURM_LOCALID") if not text_of(environ, name)]
    if missing:
        raise EnvError(
            f"SLURM_STEP_NUM_TASKS={environ['SLURM_STEP_NUM_TASKS']} says that this is a SLURM step, "
            f"but {' and '.join(missing)} is not set",
            "keep every SLURM_* variable (containers: list them in --container-env), or export DDPKIT_DETECT_SLURM=0",
        )
    rank, local_rank = need(environ, "SLURM_PROCID"), need(environ, "SLURM_LOCALID")
    world = need(environ, "SLURM_STEP_NUM_TASKS")
    het = bool(text_of(environ, "SLURM_JOB_NODELIST_HET_GROUP_0"))
    total = number_in(environ, "SLURM_NTASKS") or number_in(environ, "SLURM_NPROCS")
    if het and total is not None and total.value > world.value:
        world = total  # inside a heterogeneous step SLURM_NTASKS counts the tasks of all groups
    num_nodes = _slurm_num_nodes(environ, het)
    local_world, tasks_here = _slurm_local_world_size(environ, world, num_nodes)
    num_nodes = num_nodes or count_nodes(world, local_world, None)
    arbitrary = _is_arbitrary(environ)

    def master() -> tuple[tuple[str, str], Num]:
        port = master_port(environ) or Num(step_port(environ), "hash of job, array task, step and restart")
        addr = master_address(environ)
        if addr is not None:
            if num_nodes.value > 1 and addr[1] == "MASTER_ADDR" and is_loopback(addr[0]):
                raise EnvError(
                    f"MASTER_ADDR={addr[0]} means every node itself, but the step runs on {num_nodes.value} nodes",
                    "unset MASTER_ADDR",
                )
            return addr, port
        if num_nodes.value == 1:
            return ("127.0.0.1", f"{num_nodes.origin} (one node)"), port
        if arbitrary:
            raise EnvError(
                f"task {rank.value} of {world.value} cannot know the host of rank 0: the order of the hosts is in "
                f"{arbitrary}, and SLURM_STEP_NODELIST is sorted",
                'export MASTER_ADDR="$(head -n 1 "$SLURM_HOSTFILE")" before srun',
            )
        host = first_host(environ)
        if host is None:
            raise EnvError(
                f"task {rank.value} of {world.value} cannot know the host of rank 0: SLURM_STEP_NODELIST is not set",
                "export MASTER_ADDR=<the first node of the step> before srun",
            )
        return host, port

    return Task(
        source="slurm",
        because="SLURM_STEP_NUM_TASKS",
        rank=rank,
        world_size=world,
        local_rank=local_rank,
        local_world_size=local_world,
        node_rank=_slurm_node_rank(environ, rank, local_rank, local_world, num_nodes, tasks_here, bool(arbitrary)),
        num_nodes=num_nodes,
        master=master,
    )


def _slurm_num_nodes(environ: Environ, het: bool) -> Num | None:
    nodes = text_of(environ, "SLURM_STEP_NODELIST")
    if het and nodes:
        return Num(len(expand_nodelist(nodes)), "SLURM_STEP_NODELIST")  # the count may be the one of a single group
    count = number_in(environ, "SLURM_STEP_NUM_NODES")
    if count is not None:
        return count
    return Num(len(expand_nodelist(nodes)), "SLURM_STEP_NODELIST") if nodes else None


def _slurm_local_world_size(environ: Environ, world: Num, num_nodes: Num | None) -> tuple[Num, list[int]]:
    """Return the number of tasks on this node, and which they are where SLURM_GTIDS says it.

    SLURM_GTIDS lists the tasks on this node: right for uneven, cyclic and arbitrary layouts, where a division of the
    total is not. SLURM_NTASKS_PER_NODE is what was asked for, of the job: stale in a step on a part of it.
    """
    gtids = text_of(environ, "SLURM_GTIDS")
    if gtids:
        tasks = [parse_number("SLURM_GTIDS", one) for one in gtids.split(",")]
        return Num(len(tasks), "SLURM_GTIDS (its length)"), tasks
    node = number_in(environ, "SLURM_NODEID")
    counts_text = text_of(environ, "SLURM_STEP_TASKS_PER_NODE")
    if counts_text and node is not None:
        counts = expand_tasks_per_node(counts_text)
        if node.value < len(counts):
            return Num(counts[node.value], "SLURM_STEP_TASKS_PER_NODE at SLURM_NODEID"), []
    if num_nodes is not None and num_nodes.value == 1:
        return Num(world.value, f"{world.origin} (one node)"), []
    if world.value == 1:
        return Num(1, "SLURM_STEP_NUM_TASKS"), []
    raise EnvError(
        f"a SLURM step of {world.value} tasks, but neither SLURM_GTIDS nor SLURM_STEP_TASKS_PER_NODE says how many of "
        "them are on this node",
        "keep every SLURM_* variable (containers: list them in --container-env)",
    )


def _slurm_node_rank(
    environ: Environ,
    rank: Num,
    local_rank: Num,
    local_world: Num,
    num_nodes: Num,
    tasks_here: list[int],
    arbitrary: bool,
) -> Num:
    """Number the nodes by their first rank, so that node 0 holds rank 0.

    SLURM_NODEID does that for block, plane and cyclic layouts. An arbitrary one numbers the nodes by name: there the
    first task on this node decides, exactly so for nodes with equally many tasks.
    """
    node = number_in(environ, "SLURM_NODEID")
    if tasks_here and 0 in tasks_here:
        return Num(0, "SLURM_GTIDS (rank 0 is here)")
    if tasks_here and arbitrary:
        first = min(tasks_here)
        in_a_row = max(tasks_here) - first == len(tasks_here) - 1
        number = first // len(tasks_here) if in_a_row else first
        return Num(min(number, num_nodes.value - 1), "SLURM_GTIDS (first task here, arbitrary layout)")
    return node or place_node(rank, local_rank, local_world, num_nodes, None)


def _is_arbitrary(environ: Environ) -> str:
    """Name the variable that says that the hosts were ordered by hand, or return ''."""
    distribution = text_of(environ, "SLURM_DISTRIBUTION").lower()
    if distribution:
        return "SLURM_HOSTFILE" if distribution.startswith("arbitrary") else ""
    return "SLURM_HOSTFILE" if text_of(environ, "SLURM_HOSTFILE") else ""


def step_port(environ: Environ) -> int:
    """Return the port of this step: by job, array task, step and restart, identical in all of its tasks."""
    # The components of a heterogeneous job have a job id each; the one of group 0 is known to all of them.
    job = environ.get("SLURM_JOB_ID_HET_GROUP_0") or environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID", "")
    step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID", "")
    return port_for(job, environ.get("SLURM_ARRAY_TASK_ID", ""), step, environ.get("SLURM_RESTART_COUNT", ""))


def first_host(environ: Environ) -> tuple[str, str] | None:
    """Return the host of the step's rank 0 and the variable that says so, or None where no list is there.

    Never the job's list: a step on a part of the job (`srun -w n2`) has its rank 0 elsewhere. The list of a
    heterogeneous step is sorted over all groups, but its rank 0 is on the first host of the lowest group in the step.
    """
    text = environ.get("SLURM_STEP_NODELIST", "").strip()
    if not text:
        return None
    if environ.get("SLURM_JOB_NODELIST_HET_GROUP_0"):
        in_step = set(expand_nodelist(text))
        group = 0
        while hosts := environ.get(f"SLURM_JOB_NODELIST_HET_GROUP_{group}"):
            for host in expand_nodelist(hosts):
                if host in in_step:
                    return host, f"SLURM_JOB_NODELIST_HET_GROUP_{group}"
            group += 1
    first = first_of_nodelist(text)
    return (first, "SLURM_STEP_NODELIST") if first else None
