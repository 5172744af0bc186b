"""A launch is a value: what will run, where, and with what environment, before anything runs.

A backend turns a `Job` (what every process runs) and a `World` (how wide, and where) into a `Plan`. The dry run prints
that plan, and `ddpkit.execution.executor` carries out the same value, so the dry run cannot lie.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

from ddpkit.errors import UsageError
from ddpkit.launchers.cpu_binding import Topology, format_cpus
from ddpkit.launchers.host_names import JOB_ID, Via
from ddpkit.launchers.shell import Raw, Secret, Value, Word, assign, count, exports, join, quote
from ddpkit.text import format_hosts, format_ranks


class Probe(Enum):
    """How a program shows that it is ready."""

    HTTP = "http"  # it answers a request for a path with 200 to 399
    TCP = "tcp"  # it accepts a connection
    LINE = "line"  # it prints a line


@dataclass(frozen=True, kw_only=True)
class Ready:
    """When a program is ready. `value`: a path, or a regular expression. `timeout`: seconds from its start."""

    probe: Probe
    value: str = ""
    timeout: float

    @classmethod
    def of(cls, text: str, timeout: float) -> Ready:
        """Read `http:/health`, `tcp` or `line:text`. Raises ValueError."""
        kind, _, value = text.partition(":")
        return cls(probe=Probe(kind), value=value.strip(), timeout=timeout)

    def __str__(self) -> str:
        return f"{self.probe.value}:{self.value}" if self.value else self.probe.value


CPUS = "DDPKIT_CPUS"  # the variable of ranks with their part of the CPUs of a node
ALL_CPUS = 1 << 16  # the end of a part that has the rest
PORT = "{port}"  # in a command: a free port of the first node, where the job wants one


@dataclass(frozen=True, kw_only=True)
class Job:
    """What every process runs. Says nothing about machines."""

    run_id: str
    command: tuple[
        str, ...
    ]  # the script and its arguments: "train.py ...", "-m pkg.train ...", "-c CODE ...", or a program
    kind: Literal["script", "module", "program"] = "script"
    workdir: str
    python: str
    env: Mapping[str, Value] = field(default_factory=dict)
    grace: float = 15.0  # seconds between TERM and KILL
    folder: str = ""  # the run's own, for logs and what a backend must write; absolute. Empty: nothing can be written
    observe: tuple[str, ...] = ()  # what is added to the ranks' Python: parts of `ddpkit/node/rank/rank_observe.py`
    python_chosen: bool = True  # by the user; else commands before the ranks, such as `activate`, may choose another
    python_here: bool = True  # this machine has it; else the nodes may
    stage: Staging | None = None  # local copies with the command, which each node makes in the scheduler's job
    wants_port: bool = False  # its program listens: a port is chosen for it, on its first node
    port: int | None = None  # that was found for it, or that it had before
    gpus: range | None = None  # of each node, where others have the rest
    cpus: range | None = None  # the same, by their places among those that a process on the node can use
    ready: Ready | None = None
    stdin: int | None = None  # the rank that is to read the launcher's standard input

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line of one rank."""
        return self.command if self.kind == "program" else (self.python, *self.command)


def cpus_variable(job: Job) -> dict[str, Value]:
    """Return the variable with a job's part of the CPUs of each node, by their places: `0-7`, or `8-` for the rest."""
    if job.cpus is None:
        return {}
    last = "" if job.cpus.stop == ALL_CPUS else str(job.cpus.stop - 1)
    return {CPUS: f"{job.cpus.start}-{last}"}


@dataclass(frozen=True, kw_only=True)
class Host:
    """One machine of the world."""

    name: str
    slots: int  # ranks on it
    cpus: int = 1  # that this job may use there
    topology: Topology = field(default_factory=Topology)  # where they are
    chosen: tuple[str, ...] = ()  # variables that the user has set there, which a default of ours must not replace
    stale: tuple[str, ...] = ()  # variables set there that would mislead a rank, left over from another launcher
    env: Mapping[str, Value] = field(default_factory=dict)  # what holds there alone; it wins over the job's
    python: str = ""  # where it is not the job's
    workdir: str = ""
    address: str = ""  # by which the other nodes reach it
    by_hand: tuple[str, ...] = ()  # how a person would run a command there; empty: this machine


@dataclass(frozen=True, kw_only=True)
class HetGroup:
    """A group (component) of a heterogeneous allocation."""

    nodes: int
    job_id: str = ""  # its own
    cpus_per_task: int | None = None


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """The nodes that a scheduler has already given to us."""

    job_id: str
    hosts: tuple[str, ...]  # in the scheduler's order, group by group
    # Of the request, where it has them; a tuple has one for each host.
    nproc_per_node: int | tuple[int, ...] | None = None
    cpus_per_task: int | None = None
    groups: tuple[HetGroup, ...] = ()  # of a heterogeneous allocation; empty: `group` alone
    group: int | None = None  # the number of the group of a heterogeneous allocation that has these nodes
    group_job: str = ""  # its own job id
    cpus: Mapping[str, int] = field(default_factory=dict)  # by host; empty: not known
    gpus: Mapping[str, int] = field(default_factory=dict)  # the same
    gpus_by_task: bool = False  # the request has GPUs for each task: a step of fewer tasks gets fewer of them

    @property
    def hosts_by_group(self) -> tuple[tuple[str, ...], ...]:
        """The hosts of each group. Empty: it is not heterogeneous."""
        ends = [*accumulate(group.nodes for group in self.groups)]
        return tuple(self.hosts[end - group.nodes : end] for group, end in zip(self.groups, ends, strict=True))

    @property
    def jobs_of_groups(self) -> tuple[str, ...]:
        """The job ids of its groups. Empty: it is not heterogeneous."""
        return (self.group_job,) if self.group_job else tuple(group.job_id for group in self.groups)


@dataclass(frozen=True, kw_only=True)
class World:
    """How wide the job is, and where. Node rank is the position in `hosts`; ranks are given out host by host."""

    hosts: tuple[Host, ...]
    master_addr: str
    master_port: int
    min_nodes: int | None = None  # the run goes on while so many are left (torchrun's elastic rendezvous)
    port: int | None = None  # another free one of the first host, for a program that listens

    @cached_property
    def _before(self) -> tuple[int, ...]:
        """How many ranks are on the hosts in front of each; the last one is behind them all."""
        return tuple(accumulate((host.slots for host in self.hosts), initial=0))

    @property
    def world_size(self) -> int:
        return self._before[-1]

    def first_rank(self, node_rank: int) -> int:
        return self._before[node_rank]

    def ranks(self, node_rank: int) -> range:
        """The global ranks on one node, in the order of their local ranks."""
        first = self.first_rank(node_rank)
        return range(first, first + self.hosts[node_rank].slots)


@dataclass(frozen=True, kw_only=True)
class Proc:
    """One process that the supervisor starts: a rank, or an agent (torchrun) that starts ranks itself."""

    name: str  # "rank", or the agent's: "torchrun"
    argv: tuple[Word, ...]
    env: Mapping[str, Value] = field(default_factory=dict)
    rank: int | None = None  # None: an agent
    cpus: frozenset[int] = frozenset()  # those of this process; empty: all that its supervisor has
    restarts: int = 0  # how often an agent may start its ranks again before their failure is the run's


@dataclass(frozen=True, kw_only=True)
class Request:
    """A world that a scheduler has still to find: how wide, and what we hold already."""

    nnodes: int | None  # None: not asked for
    nproc_per_node: int | None
    here: Host  # where the launcher runs
    allocation: Allocation | None = None
    hosts: tuple[str, ...] = ()  # that the user named, in this order
    counts: tuple[int, ...] = ()  # ranks on each node; empty: `nproc_per_node` on every one
    spares: int | None = None  # hosts of the allocation that stay free at first; None: no host replaces another
    held_back: tuple[str, ...] = ()  # variables of this machine that the job must not get, unless it has its own
    via: Via | None = None  # None: this machine has the scheduler's commands


@dataclass(frozen=True, kw_only=True)
class Archive:
    """An archive of a directory, as `ddpkit.execution.stage` packs it."""

    source: str
    described: Mapping[str, str]  # what the directory holds, by name
    moved_to: str = ""  # the new path of an environment, which its programs hold


@dataclass(frozen=True, kw_only=True)
class File:
    """A file that must be there before anything starts."""

    path: str
    text: str = ""
    copy_of: Literal["", "bundle"] = ""  # `bundle`: all programs of ddpkit/node in one file (`node/bundle.py`)
    archive: Archive | None = None


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """The commands of a scheduler, and how to read what they print. `{job}` stands for a job's id.

    A backend has it as `scheduler`. `ps`, `status` and `stop` find it there by the backend's name: no record holds it.
    """

    job_id: str  # a regular expression with one group, for the submitting program's output
    unreachable: str  # a regular expression: what the submitting program says where its scheduler is down
    ping: tuple[str, ...]  # says whether the scheduler is there
    queue: tuple[str, ...]  # shows the user's own jobs
    state: tuple[str, ...]  # prints what the next ones read
    state_pattern: str  # named groups: state, reason, start, nodes, restarts, code, signal, script (its node)
    # Named groups of the same output: name, user, submitted. With the cluster they tell this job from a later one with
    # its number. Empty: the scheduler never gives a number twice.
    identity_pattern: str = ""
    cluster: tuple[str, ...] = ()  # prints the name of the cluster; empty: a job's id contains it
    cluster_pattern: str = ""  # a regular expression with one group, for that output
    # The same; its matches tell this cluster from another one with the name, as sites leave the default.
    controller_pattern: str = ""
    waiting: tuple[str, ...]  # states
    running: tuple[str, ...]
    ending: tuple[str, ...]
    success_states: tuple[str, ...]  # states of jobs that may have ended with exit code 0
    unsatisfiable_reasons: str  # a regular expression of reasons that do not pass by themselves
    forgotten_pattern: (
        str  # a regular expression for the error of the state's program about a job that it has forgotten
    )
    stop: tuple[str, ...]
    signal: tuple[str, ...]  # passes {signal}, a name without SIG, on to the ranks and to nothing else
    # Prints each job of the user, also one that has ended: its id, a blank, the path of its script. With it a job that
    # was submitted without an answer is found, or submitted again. Empty: nobody knows whether there is one.
    submitted: tuple[str, ...] = ()
    no_answer: str = "(?!)"  # a regular expression: what the submitting program says where the controller gave none
    no_output: int  # the signal that stands for: the job's output could not be opened; -1: there is none
    signals_from: int = 0  # the scheduler's exit codes from here on are signals; PBS: 256, and 271 is TERM; 0: none are
    stopped: tuple[str, ...] = ("CANCELLED",)  # states
    suspended: tuple[str, ...] = ()  # of those in `running`: its processes are stopped, until the scheduler resumes it

    def place_of(self, state: str, nodes: str) -> str:
        """Return what a job does that has started, and where."""
        return f"is suspended by the scheduler on {nodes}" if state in self.suspended else f"runs on {nodes}"

    def state_of(self, job_id: str) -> list[str]:
        """Return the command that prints the state of a job."""
        return [word.replace("{job}", job_id) for word in self.state]

    def stop_of(self, job_id: str) -> list[str]:
        """Return the command that cancels a job."""
        return [word.replace("{job}", job_id) for word in self.stop]

    def id_in(self, printed: str) -> str:
        """Return the id of a job in what the submitting program printed; empty: it has none.

        It becomes a word of commands, of which a person copies some.
        """
        match = re.search(self.job_id, printed, re.MULTILINE)
        return match[1] if match is not None and re.fullmatch(JOB_ID, match[1]) else ""

    def is_id(self, word: str) -> bool:
        """Tell whether a text is a whole id, as the submitting program prints it."""
        return bool(word) and self.id_in(word) == word


@dataclass(frozen=True, kw_only=True)
class Batch:
    """How to submit and to follow one job."""

    scheduler: Scheduler
    submit: tuple[str, ...]
    env: Mapping[str, Value]  # for the submitting program: what must not stand in a file, or must not reach the job
    show_resources: tuple[str, ...]  # shows what may be asked for
    log: str
    requeue_exit_code: int | None = None  # an exit code with which the job starts itself again
    poll: float = 60.0  # seconds between two queries of a process about its jobs
    disposable: bool = False  # a job that only tests is cancelled if it cannot start
    follow: bool = True  # False: many jobs in one; only submitted
    nodes: int = 0  # of one attempt, where its script can start the ranks again
    script_lost: tuple[str, ...] = ()  # requeues such a job whose script died with its node
    via: Via | None = None  # the host with these commands, the files of the plan and the log; None: this machine

    def typed(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return one of these commands as a person would type it here."""
        return (*self.via.by_hand, join(argv)) if self.via else argv


@dataclass(frozen=True, kw_only=True)
class Container:
    """How a node's supervisor is started in a container, whose Python may be the only one."""

    enter: tuple[str, ...]  # what stands behind these words runs in it, with the same standard input and output
    python: str
    runtime: str = "container"  # names its own output


class RankStarter(Enum):
    """The program that starts the ranks of a step."""

    SUPERVISOR = "supervisor"  # ours, or a torchrun under it
    COLLECT = "collect"  # srun, under `node/collect.py`: each of its tasks is a supervisor
    SCHEDULER = "scheduler"  # another scheduler's program; each rank runs under `node/step_task.py`


@dataclass(frozen=True, kw_only=True)
class Step:
    """What runs on one machine: the same environment for all, then one process or more."""

    host: str
    node_rank: int
    ranks: range
    workdir: str
    env: Mapping[str, Value]
    procs: tuple[Proc, ...]
    preload: tuple[str, ...] = ()  # modules that one interpreter imports before it forks these ranks
    by_hand: tuple[str, ...] = ()  # how a person would get there, for the dry run
    elastic: bool = False  # which node has which ranks is settled over there, and can change
    rank_starter: RankStarter = RankStarter.SUPERVISOR  # another one is the last line of the step's one process
    container: Container | None = None  # the supervisor of this step runs in it
    nodes: tuple[str, ...] = ()  # of a scheduled step, as far as they are known: rank 0's is the first
    groups: tuple[int, ...] = ()  # ranks in each group of a heterogeneous job
    group_jobs: tuple[str, ...] = ()  # job ids of those with ranks, in an allocation

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes of the step, as far as the plan knows them."""
        return self.nodes or (self.host,)

    @property
    def scheduled(self) -> bool:
        """A scheduler's program starts the ranks, on hosts that the plan does not know."""
        return self.rank_starter is not RankStarter.SUPERVISOR


# `on_attempt` of a submitted job, and settings to test its hosts: its script needs them. They can hold secrets, which
# no file of the run must hold.
JOB_HOOK = "DDPKIT_JOB_HOOK"


@dataclass(frozen=True, kw_only=True)
class OnEnd:
    """A shell command on the launcher's machine, when the run has ended: it gets the record on its standard input."""

    command: str
    directory: str

    def __str__(self) -> str:
        return f"cd {quote(self.directory)} && sh -c {quote(self.command)}"


@dataclass(frozen=True, kw_only=True)
class ProjectCopy:
    """The project of the launcher's machine in a directory of a node (`--sync`)."""

    host: str
    source: str
    target: str
    files: int
    size: int  # bytes, of which those are sent that the node does not have
    overwrite: bool  # files that no copy put there are replaced

    def __str__(self) -> str:
        size = f"{count(self.files, 'file')}, {self.size / 1e6:.1f} MB"
        other = "also if --sync did not put it there" if self.overwrite else "stops if --sync did not put it there"
        return f"{self.source} -> {self.host}:{self.target}: what differs of {size}; {other}"


@dataclass(frozen=True, kw_only=True)
class LocalCopy:
    """A directory of the launcher's machine that nodes have on their own disk."""

    source: str
    target: str
    files: int
    size: int  # bytes
    missing: tuple[str, ...]  # hosts that did not have it before this launch
    by_nodes: bool = False  # each node makes its own in the job; `missing` is not known, and empty

    def __str__(self) -> str:
        hosts = f"to {format_hosts(self.missing)}" if self.missing else "present on all nodes"
        hosts = "to each node without a copy" if self.by_nodes else hosts
        return f"{self.source} -> {self.target}: {count(self.files, 'file')}, {self.size / 1e6:.1f} MB, {hosts}"


@dataclass(frozen=True, kw_only=True)
class Staging:
    """Copies that the nodes of a scheduler's job get before the ranks start: see `ddpkit.node.calls.stage.main`."""

    python: str  # runs that program: the job's own, or the base of a staged virtual environment
    contents: str  # JSON, its input
    copies: tuple[LocalCopy, ...]
    archives: Mapping[str, Archive | None]  # by path; None: it exists already


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that a launch will do, in order."""

    run_id: str
    backend: str
    steps: tuple[Step, ...]
    world_size: int
    grace: float
    heartbeat_timeout: float = 0.0  # seconds; 0: the end of the launcher always shows, as on one machine
    min_nodes: int | None = None  # a node that is lost ends the run only where fewer are left
    files: tuple[File, ...] = ()
    sync: tuple[ProjectCopy, ...] = ()  # of the working folder, to the nodes
    stage: tuple[LocalCopy, ...] = ()
    batch: Batch | None = None  # then the steps say what the job will run
    on_end: OnEnd | None = None
    on_attempt: OnEnd | None = None  # the same after each attempt that another one follows
    spares: tuple[str, ...] = ()  # hosts that another attempt can use
    port: int | None = None  # of the program on the first node
    ready: Ready | None = None  # when it is ready
    function: bytes = field(default=b"", repr=False)  # of `ddpkit.call`, pickled: each node gets it with its request
    stdin: int | None = None  # the rank that reads the launcher's standard input; None: none does

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes of all steps, as far as the plan knows them."""
        return tuple(host for step in self.steps for host in step.hosts)

    def __str__(self) -> str:
        return render_plan(self) + render_end(self)


def with_port(plan: Plan, job: Job, port: int | None) -> Plan:
    """Return a plan whose program listens on this port, by its command and by DDPKIT_PORT."""
    plan, port = replace(plan, ready=job.ready), job.port or port
    if not job.wants_port or port is None:
        return plan

    def filled(word: Word) -> Word:
        return word.replace(PORT, str(port)) if isinstance(word, str) else word

    steps = [
        replace(
            step,
            procs=tuple(replace(proc, argv=tuple(filled(word) for word in proc.argv)) for proc in step.procs),
            env={**step.env, "DDPKIT_PORT": str(port)},
        )
        for step in plan.steps
    ]
    return replace(plan, steps=tuple(steps), port=port)


_INSIDE = "end of what runs in the container"


def command_line(proc: Proc) -> str:
    """One process as a shell command, with its own environment in front."""
    unset = [name for name, value in proc.env.items() if value is None]
    env = [assign(name, value) for name, value in proc.env.items() if value is not None]
    head = ["env", *(f"-u {quote(name)}" for name in unset)] if unset else []
    bound = [f"taskset -c {format_cpus(proc.cpus)}"] if proc.cpus else []
    return " ".join([*head, *env, *bound, join(proc.argv)])


def exec_argv(proc: Proc) -> list[str]:
    """The argv that starts a process without a shell, or with one where a `Raw` word needs it."""
    if any(isinstance(word, Raw) for word in proc.argv):
        return ["sh", "-c", "exec " + join(proc.argv)]
    return [word for word in proc.argv if isinstance(word, str)]


def render_step(step: Step) -> str:
    """One step as a script that a person can read, and run by hand on that machine."""
    if step.container:
        return f"{join(step.container.enter)} sh -s <<'{_INSIDE}'\n{_lines(step)}\n{_INSIDE}"
    return _lines(step)


def _lines(step: Step) -> str:
    """The step as shell text: its directory, its variables and its processes."""
    if step.scheduled:
        # The process is a shell already: its text stands here as it is.
        text = step.procs[0].argv[-1]
        assert isinstance(text, str)
        return "\n".join([f"cd {quote(step.workdir)} || exit 1", *exports(step.env), text])
    lines = [f"cd {quote(step.workdir)} || exit 1", *exports(step.env)]
    if step.preload:
        modules = ", ".join(step.preload)
        lines.append(f"# ddpkit forks these from one interpreter that has imported {modules}; this script does not")
    if len(step.procs) == 1:
        lines.append(command_line(step.procs[0]))
    else:
        lines += [f'{command_line(proc)} & pids="$pids $!"' for proc in step.procs]
        # ddpkit would end the others as well; a shell can at least say that one failed.
        lines += ['for pid in $pids; do wait "$pid" || code=$?; done', 'exit "${code:-0}"']
    return "\n".join(lines)


def with_stdin(plan: Plan, rank: int | None) -> Plan:
    """Return a plan of which one rank reads the launcher's standard input. Raises UsageError where none can."""
    if rank is None:
        return plan
    front = f"--stdin {rank}"
    if not rank < plan.world_size:
        raise UsageError(f"{front}: the ranks of this launch are 0 to {plan.world_size - 1}", "add --stdin 0")
    if plan.stdin == rank:  # the backend gives it to that rank
        return plan
    if any(step.scheduled for step in plan.steps):
        what = f"{front}: a scheduler starts these ranks, and passes no input on. Ranks in a hold can have it"
        if plan.backend == "slurm-srun":
            what += ", or slurm-srun in an allocation of one group and without -o preload"
        raise UsageError(what, f"ddpkit hold -b {plan.backend}" if plan.backend.startswith("slurm") else "add -b ssh")
    step = next((step for step in plan.steps if rank in step.ranks), plan.steps[0])
    if step.preload:
        raise UsageError(f"{front} works without -o preload, whose ranks are forks of one process", "add --no-preload")
    if step.procs[0].rank is None:
        what = f"{front} works with starter ranks: {step.procs[0].name} gives its ranks an empty input"
        raise UsageError(what, "add --starter ranks")
    return replace(plan, stdin=rank)


def render_plan(plan: Plan) -> str:
    """The dry run: what a cluster's administrator would want to read before it runs."""
    if plan.batch is not None:
        head, _, rest = plan.files[-1].text.partition("\n")
        copies = "".join(f"# synced: {copy}\n" for copy in plan.sync)
        copies += "".join(f"# staged: {copy}\n" for copy in plan.stage)
        submit = join(plan.batch.typed(plan.batch.submit))
        return f"{head}\n# ddpkit run {plan.run_id}: backend {plan.backend}, {submit}\n{copies}{rest}"
    width = count(plan.world_size, "rank")
    width += "" if plan.steps[0].scheduled else f" on {count(len(plan.steps), 'node')}"
    out = ["#!/bin/sh", f"# ddpkit run {plan.run_id}: backend {plan.backend}, {width}"]
    out += [f"# standard input: rank {plan.stdin}"] if plan.stdin is not None else []
    out += [f"# spare: {', '.join(plan.spares)}"] if plan.spares else []
    out += [f"# synced: {copy}" for copy in plan.sync]
    out += [f"# staged: {copy}" for copy in plan.stage]
    end = f"END-{plan.run_id}"  # no word of the job is a line like this
    for number, step in enumerate(plan.steps, 1):
        out.append(f"# step {number} of {len(plan.steps)}, on {step.host}: {format_ranks(step.ranks)}")
        text = render_step(step)
        if step.by_hand:
            out += [f"{join(step.by_hand)} sh <<'{end}' &", text, end, 'steps="$steps $!"']
        else:
            out.append(text)
    if plan.steps[0].by_hand:
        # ddpkit would end the others, and leave nothing behind; a script can at least say that one failed.
        out += ['for step in $steps; do wait "$step" || failed=$?; done', 'exit "${failed:-0}"']
    return "\n".join(out) + "\n"


def render_end(plan: Plan) -> str:
    """What the dry run shows of `on_end`."""
    whens = (("when the run has ended", plan.on_end), ("after an attempt that another one follows", plan.on_attempt))
    lines: list[str] = []
    for when, command in whens:
        if command is not None:
            lines += [f"{when}, on this machine, with run.json as standard input:", *f"{command}".splitlines()]
    return "".join(f"# {line}\n" for line in lines)


def _plain(value: Value) -> Any:
    return {"raw": value.text} if isinstance(value, Raw) else str(value) if isinstance(value, Secret) else value


def plan_as_dict(plan: Plan) -> dict[str, Any]:
    """The plan as JSON types, secrets masked. `null` in an environment means that the name is unset."""
    return {
        "run_id": plan.run_id,
        "backend": plan.backend,
        "world_size": plan.world_size,
        "grace": plan.grace,
        "heartbeat_timeout": plan.heartbeat_timeout,
        "min_nodes": plan.min_nodes,
        "stdin": plan.stdin,
        "spares": list(plan.spares),
        "files": [{"path": file.path, "text": file.text, "copy_of": file.copy_of} for file in plan.files],
        "sync": [asdict(copy) for copy in plan.sync],
        "stage": [{**asdict(copy), "missing": list(copy.missing)} for copy in plan.stage],
        "submit": list(plan.batch.typed(plan.batch.submit)) if plan.batch else None,
        "on_end": asdict(plan.on_end) if plan.on_end else None,
        "on_attempt": asdict(plan.on_attempt) if plan.on_attempt else None,
        "steps": [
            {
                "host": step.host,
                "nodes": list(step.hosts) if not step.scheduled else list(step.nodes),
                "node_rank": step.node_rank,
                "ranks": list(step.ranks),
                "workdir": step.workdir,
                "preload": list(step.preload),
                "container": list(step.container.enter) if step.container else None,
                "env": {name: _plain(value) for name, value in step.env.items()},
                "procs": [
                    {
                        "name": proc.name,
                        "argv": [_plain(word) for word in proc.argv],
                        "env": {name: _plain(value) for name, value in proc.env.items()},
                        "rank": proc.rank,
                        "restarts": proc.restarts,
                        "cpus": format_cpus(proc.cpus),
                    }
                    for proc in step.procs
                ],
            }
            for step in plan.steps
        ],
    }


FACTS = ("state", "reason", "start", "nodes", "restarts", "code", "signal", "script")  # of a job


def job_facts(match: re.Match[str], signals_from: int) -> dict[str, str]:
    """Return `FACTS` of a job from a scheduler's output, "" for each missing one. A code may be a signal's."""
    facts = {**dict.fromkeys(FACTS, ""), **match.groupdict("")}
    if signals_from and facts["code"] and int(facts["code"]) >= signals_from:
        facts |= {"code": "0", "signal": str(int(facts["code"]) - signals_from)}
    return facts
