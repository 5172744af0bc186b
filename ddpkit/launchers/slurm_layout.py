"""Layout of a SLURM step: ranks on each node, the order of the nodes, and the groups of a heterogeneous job. Pure.

srun alone gives every node the same number of tasks, in the scheduler's order. Anything else goes into a file for
`SLURM_HOSTFILE`, with `--distribution=arbitrary`: SLURM 22.05, 24.11 and 26.05 follow it. Their `--tasks-per-node` has
one number for all nodes, and a step for each number would be a world of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ddpkit.errors import LaunchError, UsageError
from ddpkit.launchers.plan import Allocation, Request
from ddpkit.launchers.shell import count, join, quote

Order = Literal["auto", "block", "topology", "given"]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Nodes with one request: a group (component) of a heterogeneous job, or all nodes of any other."""

    nodes: int
    ranks: int  # on each node, the most of them
    cpus: int = 0  # for each rank; 0: not requested
    task_cpus: int = 0  # for a task with all ranks of its node; 0: those of its ranks
    options: tuple[str, ...] = ()  # further ones of sbatch, of a later group

    def srun(self, *, by_node: bool) -> list[str]:
        """Options of srun for the tasks of these nodes: a task is a rank, or starts those of its node (`by_node`)."""
        tasks, cpus = self.tasks(by_node=by_node)
        argv = [f"--nodes={self.nodes}", f"--ntasks={self.nodes * tasks}", f"--ntasks-per-node={tasks}"]
        return [*argv, f"--cpus-per-task={cpus}"] if cpus else argv

    def tasks(self, *, by_node: bool) -> tuple[int, int]:
        """Return the tasks on each node, and the CPUs of each task."""
        return (1, self.task_cpus or self.cpus * self.ranks) if by_node else (self.ranks, self.cpus)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Ranks on each node, in the order of the ranks."""

    counts: tuple[int, ...]
    groups: tuple[Group, ...]
    order: Order = "block"
    hosts: tuple[str, ...] = ()  # in the order of the ranks; empty: not known before the job runs
    group: int | None = None  # the one of a heterogeneous allocation that has all of them
    attempts: bool = False  # the script of a submitted job starts one step after the other

    @property
    def het(self) -> bool:
        return len(self.groups) > 1

    @property
    def ranks_by_group(self) -> tuple[int, ...]:
        """Ranks in each group of a heterogeneous job, as far as some has ranks. Empty: the job is none."""
        if self.group is not None:
            return (*(0,) * self.group, sum(self.counts))
        return tuple(group.nodes * group.ranks for group in self.groups) if self.het else ()

    @property
    def uneven(self) -> bool:
        return len(set(self.counts)) > 1

    @property
    def listed(self) -> bool:
        """srun reads nodes and their tasks from a file."""
        return not self.het and (self.uneven or self.order != "block")

    def srun(self, *, by_node: bool) -> list[str]:
        """Options of srun for all tasks; those of a list of nodes contradict any number of them."""
        if not self.listed:
            return self.groups[0].srun(by_node=by_node)
        tasks = len(self.counts) if by_node else sum(self.counts)
        cpus = self.groups[0].tasks(by_node=by_node)[1]
        return [f"--ntasks={tasks}", "--distribution=arbitrary", *([f"--cpus-per-task={cpus}"] if cpus else [])]

    def gpu_options(self, held: Allocation) -> list[str]:
        """Options of srun for all GPUs of each node, where SLURM would not give them by itself.

        It does not where the allocation has them for each task, or divided unevenly by --gpus.
        """
        gpus = _gpus_of_nodes(self, held)
        if not any(gpus) or len({*gpus}) > 1:
            return []
        if held.gpus_by_task:
            return [f"--gres=gpu:{gpus[0]}"]
        even = self.het or len({held.gpus.get(host, 0) for host in held.hosts}) == 1
        return [] if even else [f"--gpus={sum(gpus)}"]

    def overlap_options(self, held: Allocation) -> list[str]:
        """Options of srun for a step beside others. SLURM refuses one with other numbers of GPUs on each node.

        Without it, srun would wait without a word and without end for a step that holds the CPUs, as its own may.
        """
        even = self.het or held.gpus_by_task or len({*_gpus_of_nodes(self, held)}) == 1
        return ["--overlap"] if even else [f"--immediate={_STEP_WAITS}"]

    def node_lines(self, inside: Sequence[str], most: int) -> list[str]:
        """Lines that set `nodes`, in the order of the ranks. `inside`: options of srun, `most`: nodes of the job."""
        lines = [] if inside else ["unset SLURM_NTASKS_PER_NODE"]  # of the job; the steps here have other numbers
        if self.hosts:
            return [*lines, f"nodes={quote(' '.join(self.hosts))}"]
        if self.order == "block":
            return [*lines, 'nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")', _LISTED]
        no_gpus = ["--gres=none"] if inside else []
        srun = join(
            ["srun", *inside, *no_gpus, f"--nodes={most}", f"--ntasks={most}", "--ntasks-per-node=1", "--export=ALL"]
        )
        each = quote('echo "$SLURM_TOPOLOGY_ADDR $SLURMD_NODENAME"')
        first = f" | head -n {len(self.counts)}" if most > len(self.counts) else ""
        return [
            *lines,
            f"nodes=$({srun} sh -c {each} | LC_ALL=C sort -V | sed 's/.* //'{first})",
            _LISTED,
        ]

    def hostfile_lines(self, folder: str, *, by_node: bool) -> list[str]:
        """Lines that write the list of nodes, each as often as it has tasks, which srun then reads."""
        numbers = " ".join("1" if by_node else str(number) for number in self.counts)
        where = f" {quote(f'{folder}/hosts.XXXXXX')}" if folder else ""
        return [
            f'SLURM_HOSTFILE=$(mktemp{where}) || fail "the list of nodes cannot be written"',
            "export SLURM_HOSTFILE",
            f"set -- {numbers}",
            'for node in $nodes; do echo "$node*$1"; shift; done > "$SLURM_HOSTFILE"',
        ]

    def rank_numbers(self) -> str:
        """Shell text: the place of a rank, from its number alone. SLURM sorts the numbers of listed nodes by name."""
        numbers = " ".join(map(str, self.counts))
        return (
            "first=0 node=0\n"
            f"for n in {numbers}; do\n"
            '    [ "$SLURM_PROCID" -ge $((first + n)) ] || break\n'
            "    first=$((first + n)) node=$((node + 1))\n"
            "done\n"
            f'export RANK="$SLURM_PROCID" WORLD_SIZE={sum(self.counts)} LOCAL_RANK=$((SLURM_PROCID - first)) '
            f'LOCAL_WORLD_SIZE="$n"\n'
            f'export NODE_RANK="$node" GROUP_RANK="$node" GROUP_WORLD_SIZE={len(self.counts)}'
        )

    def ranks_here(self) -> str:
        """Shell text: the number of ranks of this torchrun, of which each node has one."""
        if not self.uneven:
            return str(self.counts[0])
        return f'$(set -- {" ".join(map(str, self.counts))}; shift "$SLURM_PROCID"; echo "$1")'


_STEP_WAITS = 30  # seconds for other steps of the job to free its CPUs
_LISTED = '[ -n "$nodes" ] || fail "SLURM did not list the nodes of job $SLURM_JOB_ID"'


def arrange(world: Request, *, ranks: int, cpus: int, order: Order, later: tuple[Group, ...]) -> Layout:
    """Arrange the ranks on the nodes. `ranks`: on each node for its GPUs, 0: not requested. Raises UsageError.

    `later`: further groups of a job that is submitted.
    """
    held = world.allocation
    chosen: Order = ("given" if world.hosts else "block") if order == "auto" else order
    if chosen == "given" and not world.hosts:
        raise UsageError("-o order=given requires named hosts", "ddpkit launch -b slurm node2 node1 -- SCRIPT")
    if held is None:
        nodes = world.nnodes or len(world.hosts) or len(world.counts) or 1
        most = max(world.counts, default=world.nproc_per_node or ranks or 1)
        groups: tuple[Group, ...] = (Group(nodes=nodes, ranks=most, cpus=cpus), *later)
        if world.counts and later:
            raise UsageError(
                f"-n {_text(world.counts)}: -o hetjob has the ranks of its groups",
                "-o hetjob='--ntasks-per-node=N ...'",
            )
        counts = world.counts or tuple(group.ranks for group in groups for _ in range(group.nodes))
        hosts = world.hosts if chosen == "given" else ()
    else:
        nodes = _count_nodes(world, held)
        usable = sorted(held.hosts, key=world.hosts.index) if chosen == "given" else held.hosts
        asked = world.nproc_per_node or ranks or held.nproc_per_node or 1
        by_host = asked if isinstance(asked, tuple) else (asked,) * len(held.hosts)
        counts = world.counts or tuple(by_host[held.hosts.index(host)] for host in usable[:nodes])
        hosts = () if chosen == "topology" else tuple(usable[:nodes])
        groups = _held_groups(held, nodes, usable, counts, cpus)
    if len(counts) != sum(group.nodes for group in groups):
        nodes = sum(group.nodes for group in groups)
        raise UsageError(
            f"-n {_text(counts)} has {len(counts)} numbers, for {count(nodes, 'node')}", f"-N {len(counts)}"
        )
    if len(groups) > 1 and chosen != "block":
        raise UsageError(f"-o order={chosen}: a heterogeneous job orders its ranks by group", "-o order=block")
    if len(set(counts)) > 1 and world.hosts and chosen != "given":
        raise UsageError(
            f"-o order={chosen}: the ranks of {','.join(world.hosts)} follow the order of the hosts", "-o order=given"
        )
    attempts = held is None and world.spares is not None
    group = held.group if held else None
    layout = Layout(counts=counts, groups=groups, order=chosen, hosts=hosts, attempts=attempts, group=group)
    if attempts and (layout.listed or layout.het):
        raise UsageError(
            "--retries in a submitted job requires one number of ranks, the order of the scheduler, and one group",
            "salloc --no-kill -N N ddpkit launch -b slurm --retries 1 -- SCRIPT",
        )
    return layout


def check_cpus(layout: Layout, held: Allocation, *, by_node: bool) -> None:
    """Raise LaunchError for more tasks on a node than its CPUs in the allocation: srun cannot create such a step."""
    sizes = [group for group in layout.groups for _ in range(group.nodes)]
    for host, ranks, group in zip(layout.hosts, layout.counts, sizes, strict=False):
        each = max(1, group.cpus)
        tasks = 1 if by_node and not group.cpus else ranks  # one task for a node requests one CPU
        if tasks * each <= held.cpus.get(host, tasks * each):
            continue
        what = f"{count(ranks, 'rank')} on {host}" + (f" with --cpus-per-task {each}" if each > 1 else "")
        gpus = _gpus_of_nodes(layout, held)
        gpus_per_node = -(-sum(gpus) // len(gpus))  # an even share, rounded up
        tasks = gpus_per_node if layout.counts == gpus else max(layout.counts)
        salloc = [f"salloc --nodes={len(layout.counts)} --ntasks-per-node={tasks}"]
        salloc += [f"--gpus-per-node={gpus_per_node}"] if gpus_per_node else []
        salloc += [f"--cpus-per-task={each}"] if each > 1 else []
        fit = min(held.cpus.values()) // each
        raise LaunchError(
            f"{what}: allocation {held.job_id} has {count(held.cpus[host], 'CPU')} there",
            (f"-n {fit}, or " if fit else "") + f"allocate more: {' '.join(salloc)}",
        )


def check_gpus(layout: Layout, held: Allocation, *, by_node: bool) -> None:
    """Refuse one task on each node where the allocation has GPUs for each task: srun gives it the same on all nodes."""
    gpus = _gpus_of_nodes(layout, held)
    if held.gpus_by_task and by_node and len({*gpus}) > 1:
        raise LaunchError(
            f"allocation {held.job_id} has --gpus-per-task, and its nodes have {_text(gpus)} GPUs: one task on "
            "each node cannot have them all",
            f"add -b slurm --no-preload, or allocate: salloc --nodes={len(gpus)} --gpus-per-node={max(gpus)}",
        )


def _gpus_of_nodes(layout: Layout, held: Allocation) -> tuple[int, ...]:
    """Return the GPUs of the allocation on each node of the layout."""
    return tuple(held.gpus.get(host, 0) for host in layout.hosts or held.hosts)


def _count_nodes(world: Request, held: Allocation) -> int:
    """Return the number of nodes of a step in an allocation. Raises UsageError."""
    spares, most = world.spares or 0, len(held.hosts)
    nodes = world.nnodes or len(world.counts) or max(1, most - spares)
    if nodes + spares > most:
        both = f"-N {nodes}" + (f" and --spares {spares}" if spares else "")
        raise UsageError(
            f"{both}: allocation {held.job_id} has {count(most, 'node')}",
            f"-N {max(1, most - spares)}, or allocate more: salloc --nodes={nodes + spares}",
        )
    if held.groups and nodes != most:
        raise UsageError(
            f"-N {nodes}: heterogeneous allocation {held.job_id} has {most} nodes in {len(held.groups)} groups, "
            "and a run uses them all",
            f"-N {most}",
        )
    return nodes


def _held_groups(
    held: Allocation, nodes: int, hosts: Sequence[str], counts: tuple[int, ...], cpus: int
) -> tuple[Group, ...]:
    """Return the groups of an allocation. Raises UsageError where a group has different numbers of ranks."""
    if not held.groups:
        whole = Group(nodes=nodes, ranks=max(counts), cpus=cpus or held.cpus_per_task or 0)
        return (whole if cpus else _fitting(whole, counts, [held.cpus.get(host, 0) for host in hosts]),)
    groups, first = [], 0
    for number, group in enumerate(held.groups):
        each = counts[first : first + group.nodes]
        first += group.nodes
        if len(set(each)) > 1:
            what = f"-n {_text(counts)}: group {number} of allocation {held.job_id} has {_text(each)}"
            raise UsageError(f"{what}, and needs one number for its {group.nodes} nodes", f"-n {max(each)}")
        asked = Group(nodes=group.nodes, ranks=each[0], cpus=cpus or group.cpus_per_task or 0)
        here = [held.cpus.get(host, 0) for host in held.hosts[first - group.nodes : first]]
        groups.append(asked if cpus else _fitting(asked, each, here))
    return tuple(groups)


def _fitting(group: Group, counts: Sequence[int], held: Sequence[int]) -> Group:
    """Divide the CPUs of the request's tasks among the ranks, where a task has those of several ranks.

    A job for torchrun is such a request: it has one task on each node. Else the group stays as it is.
    `counts`: ranks on each host; `held`: its CPUs in the allocation, 0: not known.
    """
    shares = [(number // ranks, number) for ranks, number in zip(counts, held, strict=False) if number]
    if not shares or group.cpus <= min(shares)[0]:
        return group
    share = min(shares)[0]
    return replace(group, cpus=share, task_cpus=max(group.cpus, share * group.ranks))


def _text(counts: tuple[int, ...]) -> str:
    return ",".join(map(str, counts))
