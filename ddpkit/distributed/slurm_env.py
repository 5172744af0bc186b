"""Who a task of a SLURM step is, from what `srun` sets in its environment.

A task is a *step*: the batch script and an `salloc` shell see SLURM_PROCID and SLURM_NTASKS too, and are nobody's
rank. Everything is taken from the step's own variables, because those of the job describe what was asked for, and a
step may run on a part of it. Seen on Slurm 22.05.
"""

from __future__ import annotations

from ddpkit.distributed.env_values import (
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
from ddpkit.distributed.nodelist import expand_nodelist, expand_tasks_per_node, first_of_nodelist
from ddpkit.distributed.slurm_hostfile import is_arbitrary, node_by_hand, numbers, zero_host
from ddpkit.distributed.slurm_lookup import Facts
from ddpkit.errors import EnvError

# SLURM's reserved step ids. They run a shell or a daemon of SLURM, never the tasks of a user's `srun`. (Slurm 22.05)
SPECIAL_STEPS = {"4294967290": "interactive", "4294967291": "batch", "4294967292": "extern", "4294967293": "pending"}


def turned_off(environ: Environ) -> bool:
    return text_of(environ, "DDPKIT_DETECT_SLURM").lower() in ("0", "off", "false", "no")


def srun_command(environ: Environ, facts: Facts) -> str:
    """Return what to type here, before the program's name, for one rank per task."""
    words = ["srun"]
    if facts.shell:
        words.append("--overlap")  # the shell's own step holds the processors and GPUs
    elif number_in(environ, "SLURM_HET_SIZE"):
        # Otherwise it runs on the first group alone.
        words.append(f"--het-group=0-{need(environ, 'SLURM_HET_SIZE').value - 1}")
    if text_of(environ, "SLURM_EXPORT_ENV"):
        words.append("--export=ALL")  # of `sbatch --export=NONE`, which every srun in the job inherits
    return " ".join(words)


def read_step(environ: Environ, facts: Facts) -> Task | str:
    """Read a SLURM step. Outside of one, SLURM_PROCID and SLURM_NTASKS describe an allocation, not this process."""
    reason = _why_no_step(environ, facts)
    if reason:
        return reason
    missing = [name for name in ("SLURM_PROCID", "SLURM_LOCALID") if not text_of(environ, name)]
    if missing:
        raise EnvError(
            f"SLURM_STEP_NUM_TASKS={environ['SLURM_STEP_NUM_TASKS']} says that this is a SLURM step, "
            f"but {' and '.join(missing)} is not set",
            "keep every SLURM_* variable (containers: list them in --container-env), or export DDPKIT_DETECT_SLURM=0",
        )
    rank, local_rank = need(environ, "SLURM_PROCID"), need(environ, "SLURM_LOCALID")
    world = need(environ, "SLURM_STEP_NUM_TASKS")
    het = bool(het_groups(environ))
    total = number_in(environ, "SLURM_NTASKS") or number_in(environ, "SLURM_NPROCS")
    if het and total is not None and total.value > world.value:
        world = total  # inside a heterogeneous step SLURM_NTASKS counts the tasks of all groups
    num_nodes = _num_nodes(environ, het)
    local_world, tasks_here = _local_world_size(environ, world, num_nodes, het)
    num_nodes = num_nodes or count_nodes(world, local_world, None)
    arbitrary = is_arbitrary(environ) and num_nodes.value > 1

    def master() -> tuple[tuple[str, str], Num]:
        port = master_port(environ) or Num(step_port(environ), "hash of job, array task, step and restart")
        addr = master_address(environ)
        if addr is not None:
            _check_address(environ, addr, num_nodes, tasks_here)
            return addr, port
        if num_nodes.value == 1:
            return ("127.0.0.1", f"{num_nodes.origin} (one node)"), port
        host = zero_host(environ, facts, rank, tasks_here) if arbitrary else first_host(environ)
        if host is None:
            raise EnvError(
                f"task {rank.value} of {world.value} cannot know the host of rank 0: SLURM_STEP_NODELIST is not set",
                "export MASTER_ADDR=<the first node of the step> before srun",
            )
        return host, port

    known: Num | None = None
    if arbitrary:
        known = node_by_hand(environ, facts, rank, world, num_nodes, tasks_here)
    elif num_nodes.value > 1:
        known = number_in(environ, "SLURM_NODEID")  # block, plane, cyclic, heterogeneous: node 0 holds rank 0
    return Task(
        source="slurm",
        because="SLURM_STEP_NUM_TASKS",
        rank=rank,
        world_size=world,
        local_rank=local_rank,
        local_world_size=local_world,
        node_rank=place_node(rank, local_rank, local_world, num_nodes, known),
        num_nodes=num_nodes,
        master=master,
    )


def _why_no_step(environ: Environ, facts: Facts) -> str:
    """Say why this process is no task of a step and what to type to have tasks, or return ''."""
    if turned_off(environ):
        return f"DDPKIT_DETECT_SLURM={text_of(environ, 'DDPKIT_DETECT_SLURM')} turns it off"
    instead = f"for one rank per task, type: {srun_command(environ, facts)} python ..."
    step = text_of(environ, "SLURM_STEP_ID") or text_of(environ, "SLURM_STEPID")
    if step in SPECIAL_STEPS:
        what = f"the {SPECIAL_STEPS[step]} step of the job: a shell or a daemon, not a task"
        return f"SLURM_STEP_ID={step} is {what}; {instead}"
    tasks = text_of(environ, "SLURM_STEP_NUM_TASKS")
    if not tasks:
        ntasks = next((name for name in ("SLURM_NTASKS", "SLURM_NPROCS") if text_of(environ, name)), None)
        if ntasks is None and not text_of(environ, "SLURM_JOB_ID"):
            return "no SLURM variable is set"
        about = f"{ntasks}={environ[ntasks]}" if ntasks else f"SLURM_JOB_ID={environ['SLURM_JOB_ID']}"
        why = "SLURM_STEP_NUM_TASKS is not set: srun did not start this process"
        return f"{about} describes the job; {why}; {instead}"
    if facts.shell:
        what = f"runs {facts.shell} on a terminal (srun --pty), and this process was typed into it"
        return f"the step with SLURM_STEP_NUM_TASKS={tasks} {what}: one process, and no task; {instead}"
    return ""


def het_groups(environ: Environ) -> list[tuple[str, str]]:
    """Return the variables with the nodes of each group of a heterogeneous job, in order, and their lists.

    PACK is the older word for it, and the only one that `srun ... : ...` sets outside of an allocation (Slurm 22.05).
    """
    for word in ("HET", "PACK"):
        groups: list[tuple[str, str]] = []
        while nodes := text_of(environ, name := f"SLURM_JOB_NODELIST_{word}_GROUP_{len(groups)}"):
            groups.append((name, nodes))
        if groups:
            return groups
    return []


def _num_nodes(environ: Environ, het: bool) -> Num | None:
    nodes = text_of(environ, "SLURM_STEP_NODELIST")
    if het and nodes:
        return Num(len(expand_nodelist(nodes)), "SLURM_STEP_NODELIST")  # the count may be the one of a single group
    count = number_in(environ, "SLURM_STEP_NUM_NODES")
    if count is not None:
        return count
    return Num(len(expand_nodelist(nodes)), "SLURM_STEP_NODELIST") if nodes else None


def _local_world_size(environ: Environ, world: Num, num_nodes: Num | None, het: bool) -> tuple[Num, list[int]]:
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
        # In a heterogeneous step the counts are in the order of the names, and the node ids in that of the groups.
        if node.value < len(counts) and (not het or len(set(counts)) == 1):
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


def _check_address(environ: Environ, addr: tuple[str, str], num_nodes: Num, tasks_here: list[int]) -> None:
    """Raise EnvError where MASTER_ADDR is certainly not where rank 0 listens.

    A batch script that exports the first node of the *job* is right for a step on all of it, and sends the ranks of a
    step on other nodes (`srun -N1 -w n2`) to a host without rank 0. Only names of this job's nodes are judged: any
    other name may be an alias.
    """
    host, name = addr
    if name != "MASTER_ADDR":
        return
    if num_nodes.value > 1 and is_loopback(host):
        raise EnvError(
            f"MASTER_ADDR={host} means every node itself, but the step runs on {num_nodes.value} nodes",
            "unset MASTER_ADDR",
        )
    here = text_of(environ, "SLURMD_NODENAME")
    if not here or not tasks_here or (0 in tasks_here) == (host == here):
        return
    lists = (text_of(environ, "SLURM_STEP_NODELIST"), text_of(environ, "SLURM_JOB_NODELIST"))
    if any(host in expand_nodelist(nodes) for nodes in lists):
        where = f"on {here}, and not there" if 0 in tasks_here else "not there: its tasks are " + numbers(tasks_here)
        raise EnvError(
            f"MASTER_ADDR={host} is a node of this job, but rank 0 of this step is {where}",
            "srun --export=ALL env -u MASTER_ADDR python ... (the step then finds rank 0's host by itself), "
            "or export the address of the step's own first node",
        )


def step_port(environ: Environ) -> int:
    """Return the port of this step: by job, array task, step and restart, identical in all of its tasks.

    The job alone is not enough: two steps of one job may share a node, and a requeued job may meet the sockets of its
    former self. These differ for certain, other jobs nearly always.
    """
    # The components of a heterogeneous job have a job id each; the one of group 0 is known to all of them.
    names = ("SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID_PACK_GROUP_0", "SLURM_JOB_ID", "SLURM_JOBID")
    job = next((text_of(environ, name) for name in names if text_of(environ, name)), "")
    step = number_in(environ, "SLURM_STEP_ID") or number_in(environ, "SLURM_STEPID") or Num(0, "")
    restart = number_in(environ, "SLURM_RESTART_COUNT") or Num(0, "")
    return port_for(job, text_of(environ, "SLURM_ARRAY_TASK_ID"), step=step.value + 1000 * restart.value)


def first_host(environ: Environ) -> tuple[str, str] | None:
    """Return the host of the step's rank 0 and the variable that says so, or None where no list is there.

    Never the job's list: a step on a part of the job (`srun -w n2`) has its rank 0 elsewhere. The list of a
    heterogeneous step is sorted over all groups, but its rank 0 is on the first host of the lowest group in the step.
    """
    text = text_of(environ, "SLURM_STEP_NODELIST")
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
