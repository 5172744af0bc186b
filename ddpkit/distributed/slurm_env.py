"""Ranks of a SLURM step's task, from the variables that `srun` sets.

A rank is a task of a *step*: the batch script and an `salloc` shell have SLURM_PROCID and SLURM_NTASKS too. A step may
run on a part of the job, so only the variables of the step count. Tested with Slurm 22.05.
"""

from __future__ import annotations

from ddpkit.distributed.env_values import (
    Environ,
    Num,
    Task,
    count_nodes,
    infer_node_rank,
    is_loopback,
    master_address,
    master_port,
    parse_number,
    port_for,
    read_number,
    read_text,
    require_number,
)
from ddpkit.distributed.nodelist import expand_nodelist, expand_tasks_per_node, first_of_nodelist
from ddpkit.distributed.slurm_lookup import Facts, find_master_host, is_arbitrary, join_numbers, renumber_node
from ddpkit.errors import EnvError

# SLURM's reserved step ids, of a shell or a daemon: 4294967291 is the batch step in Slurm 22.05, -5 in 26.05.
_RESERVED = {-6: "interactive", -5: "batch", -4: "extern", -3: "pending"}
SPECIAL_STEPS = {f"{number + more}": name for number, name in _RESERVED.items() for more in (0, 2**32)}

_KEEP = "keep every SLURM_* variable (containers: list them in --container-env), or export DDPKIT_DETECT_SLURM=0"


def slurm_disabled(environ: Environ) -> bool:
    """Return whether DDPKIT_DETECT_SLURM disables the detection of SLURM."""
    return read_text(environ, "DDPKIT_DETECT_SLURM").lower() in ("0", "off", "false", "no")


def srun_command(environ: Environ, facts: Facts) -> str:
    """Return the `srun` command that starts one rank per task from this shell."""
    words = ["srun"]
    if facts.shell:
        words.append("--overlap")  # the shell's own step holds the processors and GPUs
    elif read_number(environ, "SLURM_HET_SIZE"):
        # Without it srun uses the first group only.
        words.append(f"--het-group=0-{require_number(environ, 'SLURM_HET_SIZE').value - 1}")
    if read_text(environ, "SLURM_EXPORT_ENV"):
        words.append("--export=ALL")  # every srun in the job inherits `sbatch --export=NONE`
    return " ".join(words)


def read_step(environ: Environ, facts: Facts) -> Task | str:
    """Read the variables of a SLURM step. Returns the reason where there is none. Raises EnvError."""
    reason = _why_no_step(environ, facts)
    if reason:
        return reason
    missing = [name for name in ("SLURM_PROCID", "SLURM_LOCALID") if not read_text(environ, name)]
    if missing:
        raise EnvError(
            f"SLURM_STEP_NUM_TASKS={environ['SLURM_STEP_NUM_TASKS']} is set by a SLURM step, "
            f"but {' and '.join(missing)} is not set",
            _KEEP,
        )
    rank, local_rank = require_number(environ, "SLURM_PROCID"), require_number(environ, "SLURM_LOCALID")
    world = require_number(environ, "SLURM_STEP_NUM_TASKS")
    het = bool(het_groups(environ))
    total = read_number(environ, "SLURM_NTASKS") or read_number(environ, "SLURM_NPROCS")
    if het and total is not None and total.value > world.value:
        world = total  # in a heterogeneous step SLURM_NTASKS counts the tasks of all groups
    num_nodes = _num_nodes(environ, het)
    local_world, local_tasks = _local_world_size(environ, world, num_nodes, het)
    num_nodes = num_nodes or count_nodes(world, local_world, None)
    arbitrary = is_arbitrary(environ) and num_nodes.value > 1

    def master() -> tuple[tuple[str, str], Num]:
        port = master_port(environ) or Num(step_port(environ), "hash of job, array task, step and restart")
        addr = master_address(environ)
        if addr is not None:
            _check_address(environ, addr, num_nodes, local_tasks)
            return addr, port
        if num_nodes.value == 1:
            return ("127.0.0.1", f"{num_nodes.origin} (one node)"), port
        host = find_master_host(environ, facts, rank, local_tasks) if arbitrary else first_host(environ)
        if host is None:
            raise EnvError(
                f"task {rank.value} of {world.value} has no host of rank 0: SLURM_STEP_NODELIST is not set",
                "export MASTER_ADDR=<the first node of the step> before srun",
            )
        return host, port

    known_node: Num | None = None
    if arbitrary:
        known_node = renumber_node(environ, facts, rank, world, num_nodes, local_tasks)
    elif num_nodes.value > 1:
        known_node = read_number(environ, "SLURM_NODEID")  # block, plane, cyclic, heterogeneous: node 0 holds rank 0
    node_rank = infer_node_rank(rank, local_rank, local_world, num_nodes, known_node)
    ranks = (rank, world, local_rank, local_world, node_rank, num_nodes)
    return Task("slurm", "SLURM_STEP_NUM_TASKS", *ranks, master)


def _why_no_step(environ: Environ, facts: Facts) -> str:
    """Return why this is no task of a step, with the command that starts tasks; '' for a task. Raises EnvError."""
    if slurm_disabled(environ):
        return f"DDPKIT_DETECT_SLURM={read_text(environ, 'DDPKIT_DETECT_SLURM')} disables it"
    instead = f"for one rank per task, run: {srun_command(environ, facts)} python ..."
    step = read_text(environ, "SLURM_STEP_ID") or read_text(environ, "SLURM_STEPID")
    if step in SPECIAL_STEPS:
        what = f"the {SPECIAL_STEPS[step]} step of the job: a shell or a daemon, not a task"
        return f"SLURM_STEP_ID={step} is {what}; {instead}"
    tasks = read_text(environ, "SLURM_STEP_NUM_TASKS")
    if not tasks:
        ntasks = next((name for name in ("SLURM_NTASKS", "SLURM_NPROCS") if read_text(environ, name)), None)
        if ntasks is None and not read_text(environ, "SLURM_JOB_ID"):
            return "no SLURM variable is set"
        if step and not facts.shell and read_text(environ, "SLURM_PROCID"):
            raise EnvError(
                f"SLURM_STEP_ID={step} and SLURM_PROCID={environ['SLURM_PROCID']} are set by a SLURM step, "
                "but SLURM_STEP_NUM_TASKS is not set",
                _KEEP,
            )
        about = f"{ntasks}={environ[ntasks]}" if ntasks else f"SLURM_JOB_ID={environ['SLURM_JOB_ID']}"
        why = "SLURM_STEP_NUM_TASKS is not set: srun did not start this process"
        return f"{about} describes the job; {why}; {instead}"
    if facts.shell:
        what = f"runs {facts.shell} on a terminal (srun --pty), and this process was started in it"
        return f"the step with SLURM_STEP_NUM_TASKS={tasks} {what}: a single process, not a task; {instead}"
    return ""


def het_groups(environ: Environ) -> list[tuple[str, str]]:
    """Return the variables and node lists of a heterogeneous job's groups, in order.

    PACK is the older name. `srun ... : ...` outside of an allocation sets only PACK (Slurm 22.05).
    """
    for word in ("HET", "PACK"):
        groups: list[tuple[str, str]] = []
        while nodes := read_text(environ, name := f"SLURM_JOB_NODELIST_{word}_GROUP_{len(groups)}"):
            groups.append((name, nodes))
        if groups:
            return groups
    return []


def _num_nodes(environ: Environ, het: bool) -> Num | None:
    nodes = read_text(environ, "SLURM_STEP_NODELIST")
    if het and nodes:
        return Num(len(expand_nodelist(nodes)), "SLURM_STEP_NODELIST")  # the count may be that of a single group
    count = read_number(environ, "SLURM_STEP_NUM_NODES")
    if count is not None:
        return count
    return Num(len(expand_nodelist(nodes)), "SLURM_STEP_NODELIST") if nodes else None


def _local_world_size(environ: Environ, world: Num, num_nodes: Num | None, het: bool) -> tuple[Num, list[int]]:
    """Return the number of tasks on this node, and the tasks; of these an empty list where SLURM_GTIDS is not set.

    SLURM_GTIDS is right also for uneven, cyclic and arbitrary layouts. SLURM_NTASKS_PER_NODE is the request of the job:
    stale in a step on a part of it.
    """
    gtids = read_text(environ, "SLURM_GTIDS")
    if gtids:
        tasks = [parse_number("SLURM_GTIDS", one) for one in gtids.split(",")]
        return Num(len(tasks), "SLURM_GTIDS (its length)"), tasks
    node = read_number(environ, "SLURM_NODEID")
    counts_text = read_text(environ, "SLURM_STEP_TASKS_PER_NODE")
    if counts_text and node is not None:
        counts = expand_tasks_per_node(counts_text)
        # In a heterogeneous step the counts have the order of the names, the node ids that of the groups.
        if node.value < len(counts) and (not het or len(set(counts)) == 1):
            return Num(counts[node.value], "SLURM_STEP_TASKS_PER_NODE at SLURM_NODEID"), []
    if num_nodes is not None and num_nodes.value == 1:
        return Num(world.value, f"{world.origin} (one node)"), []
    if world.value == 1:
        return Num(1, "SLURM_STEP_NUM_TASKS"), []
    raise EnvError(
        f"a SLURM step of {world.value} tasks, and neither SLURM_GTIDS nor SLURM_STEP_TASKS_PER_NODE is set, so the "
        "number of tasks on this node is unknown",
        "keep every SLURM_* variable (containers: list them in --container-env)",
    )


def _check_address(environ: Environ, addr: tuple[str, str], num_nodes: Num, local_tasks: list[int]) -> None:
    """Raise EnvError where MASTER_ADDR is certainly not the host of rank 0.

    A batch script may export the first node of the *job*, and start a step on other nodes (`srun -N1 -w n2`). Only the
    names of this job's nodes are checked: any other name may be an alias.
    """
    host, name = addr
    if name != "MASTER_ADDR":
        return
    if num_nodes.value > 1 and is_loopback(host):
        raise EnvError(
            f"MASTER_ADDR={host} is each node's own address, but the step runs on {num_nodes.value} nodes",
            "unset MASTER_ADDR",
        )
    node = read_text(environ, "SLURMD_NODENAME")
    rank_0_is_here, address_is_here = 0 in local_tasks, host == node
    if not node or not local_tasks or rank_0_is_here == address_is_here:
        return
    lists = (read_text(environ, "SLURM_STEP_NODELIST"), read_text(environ, "SLURM_JOB_NODELIST"))
    if any(host in expand_nodelist(nodes) for nodes in lists):
        where = (
            f"on {node}, not on that node"
            if rank_0_is_here
            else "not on that node: its tasks are " + join_numbers(local_tasks)
        )
        raise EnvError(
            f"MASTER_ADDR={host} is a node of this job, but rank 0 of this step is {where}",
            "srun --export=ALL env -u MASTER_ADDR python ... (ddpkit then finds rank 0's host), "
            "or export the address of the step's own first node",
        )


def step_port(environ: Environ) -> int:
    """Return the port of this step by job, array task, step and restart, the same in all of its tasks.

    Two steps of a job may share a node, and a requeued job may find the sockets of its last start: their ports always
    differ. Those of other jobs nearly always do.
    """
    # The components of a heterogeneous job have a job id each; the one of group 0 is known to all of them.
    names = ("SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID_PACK_GROUP_0", "SLURM_JOB_ID", "SLURM_JOBID")
    job = next((read_text(environ, name) for name in names if read_text(environ, name)), "")
    step = read_number(environ, "SLURM_STEP_ID") or read_number(environ, "SLURM_STEPID") or Num(0, "")
    restart = read_number(environ, "SLURM_RESTART_COUNT") or Num(0, "")
    return port_for(job, read_text(environ, "SLURM_ARRAY_TASK_ID"), step=step.value + 1000 * restart.value)


def first_host(environ: Environ) -> tuple[str, str] | None:
    """Return the host of the step's rank 0 and its variable, or None without a node list.

    The job's list is wrong for a step on a part of the job (`srun -w n2`). The list of a heterogeneous step is sorted
    over all groups, but rank 0 is on the first host of the lowest group in the step.
    """
    text = read_text(environ, "SLURM_STEP_NODELIST")
    if not text:
        return None
    groups = het_groups(environ)
    in_step = set(expand_nodelist(text)) if groups else set()
    for name, nodes in groups:
        for host in expand_nodelist(nodes):
            if host in in_step:
                return host, name
    first = first_of_nodelist(text)
    return (first, "SLURM_STEP_NODELIST") if first else None
