"""The ranks run in a SLURM job: submitted from a login node, or as a step of the allocation that one stands in.

Both run the same lines. In a job script they stand behind the `#SBATCH` lines; inside an allocation they are run here.
Every trap of srun that a person meets is closed in them: `--kill-on-bad-exit=1` (the default lets the others wait),
`--export=ALL` (a value in it is cut at a comma, and a job submitted with NONE would lose PATH), `--cpus-per-task` on
srun itself (some versions do not take it from the job), ranks from the *step's* variables, a port that is free on rank
0's host and belongs to this step alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import ClassVar, Literal

from ddpkit.errors import AGAIN, UsageError
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.containers import Contained, option, runtimes, split_option, ssh_client
from ddpkit.launchers.plan import (
    ALL_CPUS,
    JOB_HOOK,
    Batch,
    File,
    Job,
    Plan,
    Proc,
    RankStarter,
    Request,
    Scheduler,
    Step,
    cpus_variable,
    render_step,
)
from ddpkit.launchers.shell import Raw, Secret, Value, Word, join, quote, run_module
from ddpkit.launchers.slurm_layout import Group, Layout, arrange, check_cpus, check_gpus
from ddpkit.launchers.starters import (
    TAP,
    TORCHRUN,
    preload_modules,
    preload_option,
    stage_dir_option,
    stage_option,
    task_file,
)
from ddpkit.node.bundle import NAME as BUNDLE
from ddpkit.node.child import SAFE_PATH

# Defaults of variables, after `cores` was computed.
_DEFAULTS = """
[ "$cores" -gt 0 ] || cores=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}"
"""

# Each task of `slurm-srun` is a rank. LOCAL_WORLD_SIZE is counted: SLURM_NTASKS_PER_NODE is the job's, maybe stale.
_NUMBERS = """\
n=0; IFS=,; for i in $SLURM_GTIDS; do n=$((n + 1)); done; unset IFS
export RANK="$SLURM_PROCID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS" LOCAL_RANK="$SLURM_LOCALID" LOCAL_WORLD_SIZE="$n"
export NODE_RANK="$SLURM_NODEID" GROUP_RANK="$SLURM_NODEID" GROUP_WORLD_SIZE="$SLURM_STEP_NUM_NODES\""""

# The GPUs of one role among those of the step, by their places.
_DEVICES = """\
[ -n "$CUDA_VISIBLE_DEVICES" ] || CUDA_VISIBLE_DEVICES=$(seq -s , 0 $(({last} - 1)))
CUDA_VISIBLE_DEVICES=$(echo "$CUDA_VISIBLE_DEVICES" | cut -d , -f {first}-{last}); export CUDA_VISIBLE_DEVICES
"""
# Variables that SLURM sets in each task anew; and what would choose the script's own programs, and what they load.
_DEVICE_LISTS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK")
_OF_TASK = (*_DEVICE_LISTS, "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD")

# As torchrun sets them. All ranks have one role.
_ROLE = """
export ROLE_NAME=default ROLE_RANK="$RANK" ROLE_WORLD_SIZE="$WORLD_SIZE\""""
# Restarts before this start, by --retries or a requeue, and the most of them.
_RESTARTS = """
export TORCHELASTIC_RESTART_COUNT="$((${DDPKIT_ATTEMPT:-${SLURM_RESTART_COUNT:-0} + 1} - 1))"
export TORCHELASTIC_MAX_RESTARTS="${TORCHELASTIC_MAX_RESTARTS:-CHAIN}\""""

# In front of each task of a step whose tasks are supervisors (`ddpkit/node/step_task.py`). $0 is the Python, $1 the
# file of programs. Where it is not there, a rank is the task itself, and a task for a node ends.
_IS_THERE = """\
[ -r "$1" ] || {
    echo "ddpkit: no $1 on $SLURMD_NODENAME: --log-dir must be a shared folder" >&2
    sleep 0.2
    exit 123
}
"""
# Before a container's runtime, whose lines no supervisor sends: see `ddpkit/node/step_output.py`.
_SAYS_WHERE = """\
printf '={"e":"at","host":"%s"}\\n' "$SLURMD_NODENAME"
"""
_OR_ALONE = """\
[ -r "$1" ] && command -v "$0" > /dev/null || { shift 2; exec "$@"; }
"""
_CORES = "\ncores=$(({cpus} / n))"
_NODE = """\
export NODE_RANK="$SLURM_PROCID" GROUP_RANK="$SLURM_PROCID" GROUP_WORLD_SIZE={nnodes}
export LOCAL_WORLD_SIZE={nproc}
cores=$(({cpus} / LOCAL_WORLD_SIZE))"""
_STEP_TASK = """\
program="$1" spec="$2"; shift 2
set -- "$0" -S -I "$program" step_task "$spec" {agent}"$@"
{run}"""
_TORCHRUN = """\
{python} -c {torchrun} \\
    --nnodes={nnodes} --nproc_per_node="$LOCAL_WORLD_SIZE" --node_rank="$SLURM_PROCID" \\
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python """

# One task has the CPUs of all ranks, and a site may bind it to as many as one rank needs. Where nothing binds, srun
# warns of the option.
_UNBOUND = (
    'config=$(scontrol show config); [ -n "$config" ] || fail "scontrol did not show the configuration of SLURM"',
    'bind=; case "$config" in *task/affinity*) bind=--cpu-bind=none ;; esac',
)

# Defaults of srun that the job's request leaves: a rank would see one GPU of its node, a task with all ranks as well.
# 26.05 sets the first to the CPUs of the first group, and srun would then request as many for the other groups.
_UNBIND = "unset SLURM_TRES_PER_TASK SLURM_TRES_BIND SLURM_GPUS_PER_TASK SLURM_GPU_BIND SLURM_NTASKS_PER_GPU"
# Options of sbatch and srun that bind GPUs to tasks. With `none` a task sees all of them.
_BINDING = re.compile(
    r"--(gpus-per-task|ntasks-per-gpu|tres-per-task(?=.*gpu)|(gpu-bind|tres-bind(?=.*gpu))(?!.*\bnone\b))(=|\s|$)"
)

# What a script begins with. Nothing starts without an answer of a command that it needs; 123 is ddpkit's code for that.
_FAIL = 'fail() { echo "ddpkit: $*: nothing was started" >&2; exit 123; }'
# Around the lines of --setup. A command that fails there leaves another environment, also in the middle of them; what a
# file does that they source is its own business. `exit 0` would look like a run that ended well.
_BEFORE_SETUP = """\
exit() { [ "$BASH_SUBSHELL" = 0 ] || builtin exit "$@"; unset -f exit; fail "--setup has \\`exit $*\\`"; }
depth=${#BASH_SOURCE[@]}
trap 'code=$?; [ ${#BASH_SOURCE[@]} != $depth ] || fail "a command of --setup ended with exit code $code, \
at \\`${BASH_COMMAND%%[[:cntrl:]]*}\\`; where it may fail, add || true"' ERR"""
_AFTER_SETUP = """\
code=$?; trap - ERR; unset -f exit
[ "$code" = 0 ] || fail "the last command of --setup ended with exit code $code\""""
_NO_NODES = 'fail "scontrol did not list the nodes of job $SLURM_JOB_ID"'
# What ddpkit reads in the job's output, so that it need not query the controller.
_RUNS = 'echo "ddpkit: job $SLURM_JOB_ID runs on {nodes}"'
_ENDED = 'echo "ddpkit: job $SLURM_JOB_ID ended with code $?"'

# A random port below those that kernels hand out by themselves. Runs on rank 0's host.
_PORT = """\
import os, socket
while True:
    port = 20000 + int.from_bytes(os.urandom(4), "big") % 12000
    try:
        with socket.socket() as probe:
            probe.bind(("", port))
    except OSError:
        continue
    print(port)
    break"""

ABSENT = 96  # exit code of `ddpkit/node/calls/stage.py` on a node that needs an archive
_NODES = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'

_OF_NODE = re.compile(r"\$\{?[A-Za-z_]\w*\}?/[\w./+-]+")  # a path below a directory that each node names
_FLAGS = {"exclusive"}  # without a value
# Options of sbatch that ddpkit needs for itself, and what a user has instead.
_OWN = {"--output": "-o output=", "--array": "-o array=", "--chdir": "--workdir=", "-D": "--workdir="}
_OWN |= {"-o": "-o output=", "-a": "-o array="}
_OWN |= dict.fromkeys(("--error", "-e", "--export", "--wrap", "--wait", "-W"), "")
_NO_VALUE = "hHkOQsuvVW"  # letters of sbatch's options without a value: others can follow in the same word
# sbatch's variables with another name than their option, and those that change what ddpkit needs even without one.
_VARIABLES = {"time": "TIMELIMIT", "mem": "MEM_PER_NODE", "array": "ARRAY_INX", "switches": "REQ_SWITCH WAIT4SWITCH"}
_VARIABLES |= {"segment": "SEGMENT_SIZE", "cpu-freq": "CPU_FREQ_REQ", "bb": "BURST_BUFFER"}
_VARIABLES |= {"A": "ACCOUNT", "C": "CONSTRAINT", "G": "GPUS", "J": "JOB_NAME", "M": "CLUSTERS", "S": "CORE_SPEC"}
_VARIABLES |= {"m": "DISTRIBUTION", "p": "PARTITION", "q": "QOS", "t": "TIMELIMIT"}
_NEVER = ("ERROR", "EXPORT", "ARRAY_INX", "WAIT")
_TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|-1|infinite|unlimited", re.IGNORECASE)  # as sbatch reads it


# Not sacct: nothing here needs accounting. The controller knows a job for MinJobAge (300 s) after its end.
SLURM = Scheduler(
    job_id=r"^(\d+)",
    unreachable="Unable to contact|communication",
    ping=("scontrol", "ping"),
    queue=("squeue", "--me"),
    submitted=("squeue", "--me", "--noheader", "--states=all", "--format=%i %o"),
    no_answer="Socket timed out|Unable to contact|[Zz]ero [Bb]ytes were|Unexpected m(essage received|issing)|"
    "Resource temporarily unavailable|Connection (refused|reset|timed out)|not connected|in backup mode",
    state=("scontrol", "--oneliner", "show", "job", "{job}"),
    state_pattern=r"\bJobState=(?P<state>\S+) .*?\bReason=(?P<reason>\S+) .*?\bRestarts=(?P<restarts>\d+) "
    r".*?\bExitCode=(?P<code>\d+):"
    r"(?P<signal>\d+) .*?\bStartTime=(?P<start>\S+) .*? NodeList=(?P<nodes>\S*)(?: BatchHost=(?P<script>\S+))?",
    identity_pattern=r"\bJobName=(?P<name>.*?) UserId=(?P<user>[^\s(]+).*?\bSubmitTime=(?P<submitted>\S+)",
    cluster=("scontrol", "show", "config"),
    cluster_pattern=r"(?m)^ClusterName\s*=\s*(\S+)",
    controller_pattern=r"(?m)^(?:SlurmctldHost\S*|StateSaveLocation)\s*=\s*(\S+)",
    waiting=("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESIZING"),
    running=("RUNNING", "SIGNALING", "SUSPENDED"),
    suspended=("SUSPENDED",),
    ending=("COMPLETING", "STAGE_OUT"),
    success_states=("COMPLETED",),
    unsatisfiable_reasons=r"Partition(Config|NodeLimit|TimeLimit)|BadConstraints|InvalidAccount|InvalidQOS|"
    r"DependencyNeverSatisfied|launch_failed_requeued_held",
    forgotten_pattern="Invalid job id",
    stop=("scancel", "{job}"),
    # Without --batch and --full it reaches every step, and not the job's script, which would die of it.
    signal=("scancel", "--signal={signal}", "{job}"),
    no_output=53,  # Slurm 22.05, seen
)


def _overridden(script: str) -> list[str]:
    """Return the variables of sbatch that stay out of a submission: each would win over a line of the job script."""
    found = re.findall("^#SBATCH '?(?:--([a-z-]+)|-([A-Za-z]))", script, re.MULTILINE)
    options = {long or letter for long, letter in found}
    named = (_VARIABLES.get(option, option.removeprefix("no-").replace("-", "_").upper()) for option in options)
    names = {name for each in named for name in each.split()}
    if any(name.startswith("MEM_PER") for name in names):
        names |= {"MEM_PER_NODE", "MEM_PER_CPU", "MEM_PER_GPU"}  # they exclude each other
    names |= {"NO_REQUEUE"} if "REQUEUE" in names else set()
    return [f"SBATCH_{name}" for name in sorted({*names, *_NEVER})]


def _own_option(word: str) -> tuple[str, str | None, list[str]]:
    """Return an option in a word for sbatch that ddpkit sets itself, its value there, and the word's part before it.

    sbatch accepts the first letters of a long option, and several short ones in one word. An empty option: the word
    has none. The value is None where it would be the next word.
    """
    if word.startswith("--"):
        typed, equals, value = word.partition("=")
        name = next((own for own in _OWN if own.startswith(typed) and len(typed) > 2), "")
        return name, value if equals else None, []
    for place, letter in enumerate(word[1:] if word.startswith("-") else "", 1):
        if f"-{letter}" in _OWN:
            return f"-{letter}", word[place + 1 :] or None, [word[:place]] if place > 1 else []
        if letter not in _NO_VALUE:
            break
    return "", None, []


def _directive(option: str, words: str) -> str:
    """Return a line for sbatch. What stands behind a line break would be a command of the job."""
    if "\n" in words or "\r" in words:
        raise UsageError(f"-o {option.replace('-', '_')}: a job script cannot contain a line break")
    return f"#SBATCH {words}"


@dataclass(frozen=True, kw_only=True)
class Task:
    """What srun starts: `bash -pc TEXT PYTHON`, once for each rank or for each node."""

    lines: str
    words: list[Word]  # its arguments, from $0 on: PYTHON BUNDLE SPEC runs the supervisor, which starts the rest
    options: str  # of srun, as shell text, where pyxis starts the container

    @property
    def text(self) -> str:
        """The lines, with all arguments but $0: srun takes a `:` among arguments for the next group of a job."""
        python, *arguments = self.words
        inner = [Raw("$0") if word == python and isinstance(word, Raw) else word for word in arguments]
        return f"set -- {join(inner)}\n{self.lines}"


# An option that is one of the request for nodes, under its name: a `#SBATCH` line of the job, an option of salloc.
_requested = partial(option, request=True)


def requested_options() -> tuple[str, ...]:
    return tuple(each.name for each in fields(Slurm) if each.metadata.get("request"))


@dataclass(frozen=True, kw_only=True)
class Slurm(Contained):
    """Common part of both backends: the options, by their SLURM names, and the job."""

    reach: ClassVar[str] = "slurm"
    needs: ClassVar[str] = "sbatch and srun; a directory that all nodes share"
    scheduler: ClassVar[Scheduler] = SLURM

    partition: str = _requested("", "queue")
    account: str = _requested("", "account to charge")
    qos: str = _requested("", "quality of service")
    time: str = _requested("", "time limit: minutes, HH:MM:SS, D-HH:MM:SS")
    gpus_per_node: str = _requested("", "GPUs on each node: 8, or a100:8")
    gres: str = _requested("", "generic resources on each node: gpu:8")
    cpus_per_task: int = option(0, "CPUs for each rank")
    mem: str = _requested("", "memory on each node: 200G; 0 is all")
    constraint: str = _requested("", "features that the nodes must have")
    exclude: str = _requested("", "nodes to exclude")
    hetjob: str = option(
        "", "sbatch options of each further group of a heterogeneous job: --nodes=2 --gpus-per-node=v100:4 : --nodes=1"
    )
    order: Literal["auto", "block", "topology", "given"] = option(
        "auto",
        "order of the ranks: block (of the scheduler), topology (of the switches) or given (of the named hosts); "
        "auto: given with named hosts, else block",
    )
    switches: str = _requested("", "most switches that join the nodes, and how long to wait for that: 1@5:00")
    nodelist: str = _requested("", "nodes to use")
    reservation: str = _requested("", "reservation to use")
    exclusive: bool = _requested(False, "do not share the nodes with other jobs")
    job_name: str = option("", "job name; default: the name of the script")
    output: str = option("", "output file of the job; default: slurm-%j.out in the run's directory")
    array: str = _requested("", "job array: 0-9%2; ddpkit submits it and does not follow it")
    dependency: str = _requested("", "wait for other jobs: afterok:123")
    signal: str = _requested("", "signal before the time limit: USR1@120 sends SIGUSR1 to the ranks")
    requeue: str = option(
        "", "let SLURM requeue the job: true, false or another value of sbatch; default: the site's setting", "true"
    )
    chain: int = option(
        0, "requeue the job at most this many times if its ranks exit with 75 (saved, restart requested)"
    )
    new_job: bool = option(
        False, "submit a job also inside an allocation, and with SLURM_* variables of one that has ended"
    )
    sbatch: str = option("", "extra options for sbatch")
    srun: str = option("", "extra options for srun")
    preload: str = preload_option(" (slurm-srun)")
    stage: str = stage_option()
    stage_dir: str = stage_dir_option()
    poll: float = option(60.0, "seconds between two queries to SLURM's controller about running jobs: 5 to 3600")
    setup: str = option("", "shell commands before the ranks start: module load cuda; source venv/bin/activate")
    via: str = option("", "login host with sbatch, reached by SSH, as in ssh HOST; default: this machine has sbatch")
    connect_timeout: float = option(5.0, "timeout for the connection of --via, in seconds")
    heartbeat_timeout: float = option(
        NodeOptions.heartbeat_timeout,
        "seconds without a heartbeat after which a node is checked, and is lost if slurmd does not answer there",
    )
    transport: Literal["paramiko", "openssh"] = ssh_client(" for --via and --on")
    container_runtime: Literal["auto", "enroot", "pyxis", "apptainer"] = runtimes("enroot", "pyxis", "apptainer")

    by_form: ClassVar[Mapping[str, str]] = {".sif": "apptainer"}

    name: ClassVar[str]
    torchrun: ClassVar[bool]

    def plan(self, job: Job, world: Request) -> Plan:
        """Return the plan: a job for sbatch, or in an allocation the step alone. Raises UsageError."""
        if not 5.0 <= self.poll <= 3600.0:
            raise UsageError(f"-o poll={self.poll:g}: it must be between 5 and 3600 seconds", "-o poll=60")
        if self.heartbeat_timeout and not 1 <= self.heartbeat_timeout <= 86_400:
            what = f"-o heartbeat_timeout={self.heartbeat_timeout:g}: seconds, 1 to 86400, or 0 for no limit"
            raise UsageError(what, "add --heartbeat-timeout 30")
        layout = self._layout(job, world)
        step = self._step(job, world, layout)
        files = [
            File(path=f"{job.folder}/{BUNDLE}", copy_of="bundle"),
            self._spec(job, world, layout),
            File(path=_begin_file(job)),  # with --observe there is a file of all ranks beside it
        ]
        if job.stage:
            files.append(File(path=f"{job.folder}/stage/contents.json", text=job.stage.contents))
            files += [File(path=path, archive=archive) for path, archive in job.stage.archives.items() if archive]
        batch = None
        if world.allocation is None:
            script_path = f"{job.folder}/job.sbatch"
            script = self._script(job, step, layout, ",".join(world.hosts), world.spares)
            files.append(File(path=script_path, text=script))
            unset = (*filter(_is_slurm_variable, world.here.stale), *_overridden(script))
            batch = self._batch(job, script_path, unset, world)
            if layout.attempts:
                recover = (*_decide(job, world), "lost")
                batch = replace(batch, nodes=len(layout.counts), script_lost=recover)
        return Plan(
            run_id=job.run_id,
            backend=self.name,
            steps=(step,),
            world_size=sum(layout.counts),
            grace=job.grace,
            files=tuple(files),
            stage=job.stage.copies if job.stage else (),
            batch=batch,
            stdin=self._stdin(job, world, layout),
        )

    def _stdin(self, job: Job, world: Request, layout: Layout) -> int | None:
        """Return the rank to which srun gives its input. Each rank has to be a task, and a submitted job has no input.

        The srun of a heterogeneous job gives its input to the first task of each group.
        """
        return None if self._by_node(job) or layout.het or world.allocation is None else job.stdin

    def _modules(self, job: Job) -> tuple[str, ...]:
        """Return the modules that each node imports before it forks its ranks. Raises UsageError."""
        modules = preload_modules(self.preload, job)
        if not modules:
            return ()
        if self.torchrun:
            what = (
                "-o preload works with slurm-srun, not with slurm-torchrun: torchrun starts each rank as a new Python"
            )
            raise UsageError(what, "add -b slurm-srun")
        return modules

    def _by_node(self, job: Job) -> bool:
        """Return whether srun starts one task on each node, and that task the ranks."""
        return self.torchrun or bool(self._modules(job))

    def _spec(self, job: Job, world: Request, layout: Layout) -> File:
        """The file that tells each task, and the program that collects their output, what to do."""
        by_node, modules = self._by_node(job), self._modules(job)
        # Else SLURM starts the job again after a lost node, where it may.
        lost = world.allocation is not None or layout.attempts
        programs = ["fork_server"] if modules else ["rank_wrapper"] if self.torchrun else []
        return task_file(
            job,
            layout.counts,
            programs=programs,
            agent="torchrun" if self.torchrun else "preload" if modules else "srun",
            by_node=by_node,
            groups=[group.nodes * (1 if by_node else group.ranks) for group in layout.groups] if layout.het else [],
            preload=modules,
            cpus_per_task=[group.cpus for group in layout.groups for _ in range(group.nodes)],
            runtime=self.runtime(("enroot", "pyxis", "apptainer")).program if self.container else "",
            lost=lost,
            silence=self.heartbeat_timeout if lost else 0.0,
            group_jobs=world.allocation.jobs_of_groups if world.allocation else (),
            marks=f"{job.folder}/marks/events" if job.observe else "",
            collected=True,
            stdin=self._stdin(job, world, layout),
        )

    def _check_binding(self, ranks: int) -> None:
        """Refuse options that bind GPUs to tasks: a script takes the GPU of its LOCAL_RANK, and would see one alone."""
        for name in ("sbatch", "srun", "hetjob"):
            flags = _joined_options(split_option(name, str(getattr(self, name)).replace(" : ", " ")))
            binding = [flag for flag in flags if _BINDING.match(flag)]
            if not binding:
                continue
            gpus = 0  # on each node, where a flag has a number of GPUs for each task: of the last such flag
            for flag in binding:
                number = flag.rpartition("=")[2].rpartition(":")[2]
                if flag.startswith(("--gpus-per-task", "--tres-per-task")) and number.isdecimal():
                    gpus = int(number) * ranks
            kept = join(flag for flag in flags if flag not in binding)
            instead = f" --gpus-per-node {gpus}" if gpus and not self.gpus_on_node() else ""
            what = f"-o {name} has {binding[0].partition('=')[0]}: each rank must see all GPUs of its node"
            raise UsageError(what, f"add -o {quote(f'{name}={kept}')}{instead}")

    def _layout(self, job: Job, world: Request) -> Layout:
        """Arrange the ranks on the nodes, and refuse options and sizes that srun cannot start. Raises UsageError."""
        if "arbitrary" in self.srun:
            raise UsageError(
                "-o srun with --distribution=arbitrary: ddpkit chooses the distribution",
                "ddpkit launch -b slurm node2:1 node1:2 -- SCRIPT",
            )
        later = self._later_groups() if world.allocation is None else ()
        self._check_binding(max(world.counts, default=world.nproc_per_node or 1))
        layout = arrange(world, ranks=self.gpus_on_node(), cpus=self.cpus_per_task, order=self.order, later=later)
        if world.allocation is not None and not {"--overcommit", "-O"} & {*split_option("srun", self.srun)}:
            check_cpus(layout, world.allocation, by_node=self._by_node(job))
            check_gpus(layout, world.allocation, by_node=self._by_node(job))
        if job.cpus is not None:  # --cpus-per-task would give a step these CPUs alone, and another one the same
            layout = replace(layout, groups=tuple(replace(each, cpus=0, task_cpus=0) for each in layout.groups))
        return layout

    def _later_groups(self) -> tuple[Group, ...]:
        """Read the further groups of -o hetjob, which have sbatch's long options. Raises UsageError."""
        groups = []
        for text in re.split(r"\s+:\s+", self.hetjob) if self.hetjob else ():
            words = split_option("hetjob", text)
            values = dict(word[2:].partition("=")[::2] for word in words)
            gpus = replace(
                self, gpus_per_node=values.get("gpus-per-node", ""), gres=values.get("gres", "")
            ).gpus_on_node()
            defaults = {"nodes": "1", "ntasks-per-node": f"{gpus or 1}", "cpus-per-task": "0"}
            numbers = {name: values.get(name, default) for name, default in defaults.items()}
            for word in words:
                number = numbers.get(word[2:].partition("=")[0], "0")
                if not re.fullmatch("--[a-z][a-z-]+(=.+)?", word) or not number.isdecimal():
                    raise UsageError(f"-o hetjob: {word} is not valid", "-o hetjob='--nodes=2 --gpus-per-node=v100:4'")
            nodes, ranks, cpus = map(int, numbers.values())
            options = tuple(word for word in words if word[2:].partition("=")[0] not in numbers)
            groups.append(Group(nodes=nodes, ranks=ranks, cpus=cpus, options=options))
        return tuple(groups)

    def gpus_on_node(self) -> int:
        """GPUs on each node, as --gpus-per-node or else --gres requests them; 0: none."""
        if self.gpus_per_node:
            requests = self.gpus_per_node.split(",")  # 8, or a100:8
        else:
            gres = re.sub(r"\([^)]*\)", "", self.gres).split(",")  # gpu:8 or gpu:a100:8, without sockets: (S:0-1)
            parts = [item.strip().removeprefix("gres/").partition(":") for item in gres]
            requests = [request for name, _, request in parts if name == "gpu"]
        counts = [request.strip().rpartition(":")[2] for request in requests]
        return sum(int(count) if count.isdecimal() else 1 for count in counts)

    def _step(self, job: Job, world: Request, layout: Layout) -> Step:
        """Return the one step of the plan: a shell that starts srun, in the job's script or in an allocation."""
        held = world.allocation
        # The shell's own SLURM_* variables are unset (`_variables`): they would be defaults of srun that contradict
        # what is asked for here, and inside a step they would confine us to its node.
        inside = [f"--jobid={held.job_id}", "--overlap"] if held else []
        inside += [f"--het-group={layout.group}"] if layout.group is not None else []
        task = self._task(job, layout)
        by_node = self._by_node(job)
        command = self._srun(job, world, layout, inside, task)
        lines = [
            *([] if held else self._report_lines(layout)),
            _FAIL,
            *self._set_up(job, on_node=held is None),
            *(_UNBOUND if self._modules(job) else ()),
            *([] if held else [_UNBIND]),
            *([] if layout.attempts else self._copy(job, layout, inside)),
            *([] if layout.attempts else self._meeting_point(job, world, layout, inside)),
            *self._programs_are_there(job),
            f"each={quote(task.text)}",
            *(layout.hostfile_lines(job.folder, by_node=by_node) if layout.listed else ()),
        ]
        if layout.attempts:
            lines += self._in_attempts(job, layout, command, _decide(job, world))
        elif held:
            lines.append(f"exec {command}")
        else:
            lines += [*self._in_job(job, command), 'exit "$code"']
        return Step(
            host=world.here.name if held else "slurm",
            node_rank=0,
            ranks=range(sum(layout.counts)),
            workdir=job.workdir,
            env=self._variables(job, world),
            procs=(Proc(name="srun", argv=("bash", "-c", "\n".join(lines))),),
            rank_starter=RankStarter.COLLECT,
            nodes=layout.hosts,
            groups=layout.ranks_by_group,
            group_jobs=held.jobs_of_groups if held else (),
        )

    def _variables(self, job: Job, world: Request) -> dict[str, Value]:
        """The variables of srun and of the ranks; None unsets one.

        A job gets SLURM_* variables of its own. What this shell has left over stays out of it where it is submitted.
        """
        held = world.allocation is not None
        unset = [name for name in world.here.stale if held or not _is_slurm_variable(name)]
        return {
            **dict.fromkeys([*unset, *(world.held_back if held else ())]),
            "DDPKIT_RUN": job.run_id,
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            **({"DDPKIT_OBSERVE": ",".join(job.observe)} if job.observe else {}),
            **cpus_variable(job),
            **{name: value for name, value in job.env.items() if name not in _OF_TASK},
        }

    def _set_up(self, job: Job, *, on_node: bool) -> list[str]:
        """Lines of the user, and the Python of the ranks after them. `on_node`: they run on a node, else here."""
        lines = [_BEFORE_SETUP, self.setup, _AFTER_SETUP] if self.setup else []
        if self.setup and job.kind == "script" and not (self.container or job.stage):
            script, workdir = quote(job.command[0]), quote(job.workdir)
            missing = f'fail "script "{script}" not found in $PWD, to which a cd of --setup leads"'
            lines.append(f'[ "$PWD" = {workdir} ] || [ -e {script} ] || {missing}')
        if self._finds_python(job):
            new = '$(type -P python3 python | grep -vxF "$before" | head -n 1) || true'
            default = f'[ -n "$python" ] || python={quote(job.python)}'
            lines = ["before=$(type -P python3 python)", *lines, f"python={new}", default]
        if on_node and not self.container and not job.stage:
            python = quote(self._python(job))
            lines.append(f'command -v {python} > /dev/null || fail "Python "{python}" not found on $(hostname)"')
        return lines

    def _finds_python(self, job: Job) -> bool:
        """Return whether the lines of --setup can choose the Python of the ranks."""
        return bool(self.setup) and not (job.python_chosen or self.container or job.stage)

    def _python(self, job: Job) -> Word:
        """The Python of the ranks in the script. A variable such as $SLURM_TMPDIR is that of the node."""
        if self._finds_python(job):
            return Raw("$python")
        return Raw(job.python) if _OF_NODE.fullmatch(job.python) and not job.python_here else job.python

    def _meeting_point(self, job: Job, world: Request, layout: Layout, inside: list[str]) -> list[str]:
        """Set rank 0's host and port, and the list of nodes where srun needs one."""
        held = world.allocation
        probe = self._probe(job)
        lines, check = ["# rank 0 runs on the first node"], list[str]()
        port_host = ""  # a word of the shell: where the port is chosen; empty: where the script runs
        if layout.listed:
            lines += layout.node_lines(inside, len(held.hosts) if held else len(layout.counts))
            master, port_host = "${nodes%%[[:space:]]*}", '"$MASTER_ADDR"'
        elif held:
            master = quote(layout.hosts[0])
        else:
            nodelist = "SLURM_JOB_NODELIST_HET_GROUP_0" if layout.het else "SLURM_JOB_NODELIST"
            master = f'"$(scontrol show hostnames "${nodelist}" | head -n 1)"'
            check = [f'[ -n "$MASTER_ADDR" ] || {_NO_NODES}']
        if held and layout.hosts:
            runs_there = world.here.name == layout.hosts[0].partition(".")[0]
            port_host = "" if runs_there else layout.hosts[0]
        if port_host:
            srun = join(["srun", *inside, *(["--het-group=0"] if layout.het else []), "--nodes=1", "--ntasks=1"])
            # Without it such a step requests all that --gpus of the allocation has on all nodes.
            probe = f"{srun} --gres=none --nodelist={port_host} --export=ALL {probe}"
        return [
            *lines,
            f"MASTER_ADDR={master}",
            *check,
            *self._port(probe),
            "export MASTER_ADDR MASTER_PORT",
        ]

    def _port(self, probe: str, otherwise: str = 'fail "Python found no free port on $MASTER_ADDR"') -> list[str]:
        """Lines that set rank 0's port. `otherwise`: if there is none."""
        return [f"MASTER_PORT=$({probe})", f'[ -n "$MASTER_PORT" ] || {otherwise}']

    def _report_lines(self, layout: Layout) -> list[str]:
        """The first lines of a job script: they report its start and its end."""
        names = [f"$SLURM_JOB_NODELIST_HET_GROUP_{n}" for n in range(len(layout.groups))]
        nodes = ",".join(names) if layout.het else "$SLURM_JOB_NODELIST"
        return [_RUNS.format(nodes=nodes), f"trap '{_ENDED}' EXIT"]

    def _probe(self, job: Job) -> str:
        # It runs on the node itself, and the job's Python may be in the container alone.
        python = job.stage.python if job.stage else self._python(job)
        return join(["python3" if self.container else python, "-S", "-I", "-c", _PORT])

    def _copy(self, job: Job, layout: Layout, inside: list[str], otherwise: str = "exit 123") -> list[str]:
        """Lines that bring the local copies to each node. `otherwise`: if a node has none then. Raises UsageError.

        A step looks for the copies. Where one is absent, sbcast sends the archives, and another step unpacks them.
        """
        if not job.stage:
            return []
        if layout.het:
            raise UsageError("--stage does not work in a heterogeneous job", "remove --stage")
        nodes = len(layout.counts)
        argv: list[Word] = ["srun", *inside, f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
        if layout.attempts:
            argv += ["--overlap", Raw("--nodelist=$nodes")]
        elif layout.hosts:
            argv.append(f"--nodelist={','.join(layout.hosts)}")
        # Each node reports its own problem: none ends the others.
        argv += ["--kill-on-bad-exit=0", "--export=ALL", *self._stage_task(job)]
        # srun's own error would count as one of rank 0.
        show_problems = """printf '%s\\n' "$shown" | sed '/^srun: error: .* Exited with exit code/d' >&2"""
        of_group = f"+{layout.group}" if layout.group is not None else ""
        held = [f"{word}{of_group}" for word in inside if word.startswith("--jobid")]
        targets = [copy.target for copy in job.stage.copies]
        # Where it cannot bring an archive, as to a spare node that has no directory yet, nodes read the shared one.
        bring = [
            f"sbcast {join([*held, path])} {quote(f'{target}.tar-')}$suffix 2> /dev/null"
            for path, target in zip(job.stage.archives, targets, strict=True)
        ]
        return [
            *([] if inside else self._note_begin(job)),
            f'stage() {{ {join(argv)} "$@"; }}',
            "suffix=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \\n') shown=$(stage look 2>&1); code=$?",
            f'if [ "$code" = {ABSENT} ]; then',
            *(f"    {line}" for line in bring),
            '    shown=$(stage unpack "$suffix" 2>&1); code=$?',
            "fi",
            f'[ "$code" = 0 ] || {{ {show_problems}; {otherwise}; }}',
            """printf '%s\\n' "$shown" | sed -n '/^ddpkit: note: /p' >&2""",
        ]

    def _stage_task(self, job: Job) -> list[str]:
        """The program that finds, unpacks and holds local copies: see `ddpkit/node/calls/stage.py`."""
        assert job.stage is not None
        return [job.stage.python, "-I", "-S", f"{job.folder}/{BUNDLE}", "calls.stage", f"{job.folder}/stage"]

    def _hold(self, job: Job) -> str:
        """The words in front of a task that hold its local copies as long as it lives."""
        copies = [copy.target for copy in job.stage.copies] if job.stage else []
        return f"{join([*self._stage_task(job), 'hold', *copies, '--'])} " if copies else ""

    def _note_begin(self, job: Job) -> list[str]:
        """The line of a job script that writes the time at which an attempt began.

        SLURM makes the job's output with the umask of its user. In the run's directory nobody else writes to it.
        """
        private = "" if self.output else " [ ! -f /proc/self/fd/1 ] || chmod go-w /proc/self/fd/1;"
        return [f"{{ date +%s.%N >> {quote(_begin_file(job))};{private} }} 2> /dev/null"]

    def _collect(self, job: Job, *, on_node: bool) -> list[Word]:
        """The program around srun that reads the events of its tasks. `on_node`: it runs on a node, else here."""
        python = job.stage.python if job.stage else self._python(job)
        python = "python3" if self.container or not (on_node or job.python_here) else python
        return [python, "-S", "-I", f"{job.folder}/{BUNDLE}", "collect", f"{job.folder}/task.json"]

    def _programs_are_there(self, job: Job) -> list[str]:
        """The line of a script that refuses a run's directory which this node does not have."""
        file = quote(f"{job.folder}/{BUNDLE}")
        missing = f'fail "no {BUNDLE} in the directory of the run on $(hostname): --log-dir must be a shared folder"'
        return [f"[ -r {file} ] || {missing}"]

    def _srun(self, job: Job, world: Request, layout: Layout, inside: list[str], task: Task) -> str:
        """The command line that starts the tasks. Its variable `each` is their text."""
        held, by_node = world.allocation, self._by_node(job)
        common = ["--kill-on-bad-exit=1", "--export=ALL", "--label", *split_option("srun", self.srun)]
        beside = [word for word in inside if word != "--overlap"] + layout.overlap_options(held) if held else []
        collect = join([*self._collect(job, on_node=held is None), "srun", *beside])
        options = [*(["$bind"] if self._modules(job) else []), *([task.options] if task.options else [])]  # shell text
        # dash drops the functions of the user's shell, such as `module`, and other odd names. With -p bash reads no
        # file first, and passes them on as they are. The image of pyxis may have no bash.
        shell = "sh -c" if task.options else "bash -pc"
        start = " ".join([*options, f'{self._hold(job)}{shell} "$each" {quote(task.words[0])}'])
        if layout.het:
            argvs = ([f"--het-group={n}", *each.srun(by_node=by_node)] for n, each in enumerate(layout.groups))
            groups = (f"{join([*argv, *common])} {start}" for argv in argvs)
            return f"{collect} {' : '.join(groups)}"
        argv: list[Word] = [*layout.srun(by_node=by_node), *(layout.gpu_options(held) if held else ())]
        # Each task takes its part of all CPUs of the job on its node: SLURM would bind steps beside each other alike.
        argv += ["--cpu-bind=none"] if job.cpus is not None else []
        rank = self._stdin(job, world, layout)
        argv += [] if rank is None else [f"--input={rank}"]
        if layout.attempts:  # one before may not have ended on a lost node
            argv += ["--overlap", Raw("--nodelist=$nodes")]
        elif held and not layout.listed and (world.spares is not None or world.hosts):
            argv.append(f"--nodelist={','.join(layout.hosts)}")
        return f"{collect} {join([*argv, *common])} {start}"

    def _task(self, job: Job, layout: Layout) -> Task:
        """Return the task of the step: a supervisor, which starts one rank, or all ranks of its node."""
        container = self.want(job, [job.folder], job.env, self.container_workdir or job.workdir)
        enter, options, restarts = "", "", _RESTARTS.replace("CHAIN", str(self.chain))
        if container:
            runtime, want = container
            enter, options = runtime.enter(want), runtime.srun(want)
        enters = bool(container) and not options  # the task itself enters the container; pyxis does it before the task
        rank_python = self._python(job)
        task_python: Word = job.stage.python if job.stage else rank_python
        rank: list[Word] = [*job.command] if job.kind == "program" else [rank_python, *job.command]
        if not self._by_node(job):
            numbers = layout.rank_numbers() if layout.listed or layout.het else _NUMBERS
            cores = _CORES.format(cpus=_cpus(job))
            head = (_IS_THERE if enters else _OR_ALONE) + numbers + _ROLE + restarts + cores + _DEFAULTS
            if enters and job.kind == "program":  # its image may have no Python: the rank enters, not the supervisor
                task_python, rank, enter = "python3", ["sh", "-c", enter, "sh", *job.command], ""
        else:
            numbers = _NODE.format(nnodes=len(layout.counts), nproc=layout.ranks_here(), cpus=_cpus(job))
            head = _IS_THERE + numbers + _DEFAULTS
            head += "" if self.torchrun else restarts.lstrip() + "\n"
        where, agent = _SAYS_WHERE if enters and enter else "", ""
        if self.torchrun:
            inner = rank_python if isinstance(rank_python, str) else Raw("$0")  # in the task, which has it as its $0
            agent = _TORCHRUN.format(
                python=quote(inner), torchrun=quote(run_module(TORCHRUN)), nnodes=len(layout.counts)
            )
            tap = [rank_python, "-S", "-I", "-c", f"import os, sys; {TAP}", *rank]
            # torchrun expands `$local_rank` and turns `$$` into `$` in every word of the script's arguments.
            rank = [word.replace("$", "$$") if isinstance(word, str) else word for word in tap]
        return Task(
            words=[task_python, f"{job.folder}/{BUNDLE}", f"{job.folder}/task.json", *rank],
            lines=_devices(job) + where + head + _STEP_TASK.format(agent=agent, run=enter or 'exec "$@"'),
            options=options,
        )

    def _in_attempts(self, job: Job, layout: Layout, command: str, decide: Sequence[str]) -> list[str]:
        """Steps in a job script: another one follows as long as the program that decides prints its nodes."""
        rank_0 = "srun --overlap --nodes=1 --ntasks=1 --nodelist=$MASTER_ADDR --export=ALL"
        hook = f'{JOB_HOOK}="${JOB_HOOK}"'
        watch = f'{hook} srun --overlap --nodes=1 --ntasks=1 "--nodelist=$there" --output=none --export=ALL'
        watch = f'{watch} "${{decide[@]}}" watch < /dev/null 2> /dev/null & watch=$!'
        again = f'{hook} "${{decide[@]}}"'
        tell = 'eval "$next"; echo "ddpkit: attempt $((DDPKIT_ATTEMPT - 1))"'
        attempt = [
            # If this script dies with its node, SLURM keeps the job: a task on another node requeues it.
            'there=$(squeue -h -j "$SLURM_JOB_ID" -o %N)',
            'there=$(scontrol show hostnames "$there" | grep -vxF "$SLURMD_NODENAME" | tail -n 1)',
            f'[ -z "$there" ] || watched || {{ {watch}; }}',
            *self._copy(job, layout, [], "code=123; next_attempt; continue"),
            "MASTER_ADDR=${nodes%%,*}  # rank 0 runs on the first node",
            f'on=; [ "$MASTER_ADDR" = "$SLURMD_NODENAME" ] || on="{rank_0}"',
            *self._port(f"$on {self._probe(job)}", "{ code=123; next_attempt; continue; }"),
            "export MASTER_ADDR MASTER_PORT",
            *self._in_job(job, command, again=True),
            "next_attempt",
        ]
        return [
            f"export -n {JOB_HOOK}  # it can hold secrets: the ranks do not get it",
            f"decide=({join(decide)})",
            f"nodes=$({_NODES} | head -n {len(layout.counts)} | paste -sd , -)",
            f'[ -n "$nodes" ] || {_NO_NODES}',
            f'[ -z "$SLURM_RESTART_COUNT" ] || {{ next=$({again} requeued) || exit 1; {tell}; }}',
            "next_attempt() {",
            "    trap '' TERM  # a requeue sends it: the decision comes to its end",
            f'    next=$({again} "$code") || exit "$code"',
            f"    trap - TERM; {tell}",
            "}",
            # Of the shell's own jobs: the number of one that has ended may be another process now.
            'watched() { jobs -pr | grep -qx "${watch:-none}"; }',
            f"""watch=; trap '{_ENDED}; ! watched || kill "$watch"' EXIT""",
            "while :; do",
            *(f"    {line}" for line in attempt),
            "done",
        ]

    def _in_job(self, job: Job, command: str, *, again: bool = False) -> list[str]:
        """srun in a job script, whose exit code is that of the first rank that failed."""
        lines = [
            # What stands in the output before this line, an attempt before has written.
            *(['[ -z "$SLURM_RESTART_COUNT" ] || echo "ddpkit: attempt $SLURM_RESTART_COUNT"'] if not again else []),
            *([] if job.stage else self._note_begin(job)),  # else before the copy
            f"code=0; {command} || code=$?",
        ]
        if self.chain:
            lines += [
                f'if [ "$code" = {AGAIN} ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {self.chain} ]; then',
                '    scontrol requeue "$SLURM_JOB_ID"',
                *(['    exit "$code"'] if again else []),
                "fi",
            ]
        return lines

    def _request_options(
        self, name: str, nodes: int, each: tuple[int, int], named: str, more: Mapping[str, str]
    ) -> Iterator[str]:
        """Yield the options of a request, quoted. `each`: tasks on a node, and the CPUs of each of them."""
        asked: dict[str, object] = {
            "job-name": name,
            "nodes": nodes,
            "ntasks-per-node": each[0],
            "cpus-per-task": each[1] or "",
            "nodelist": named,
            **more,
        }
        for setting in requested_options():
            asked[setting.replace("_", "-")] = getattr(self, setting) or asked.get(setting, "")
        for word, value in asked.items():
            if word in _FLAGS:
                yield from [f"--{word}"] if value else []
            elif value != "":
                yield f"--{word}={quote(str(value))}"

    def request(self, name: str, nodes: int, ranks: int, named: Sequence[str], use: str) -> list[str]:
        """Options of salloc: they request nodes for several steps, with so many ranks on each. Raises UsageError.

        `use`: what needs them, for its errors.
        """
        for setting in ("array", "chain", "requeue", "output", "hetjob"):
            if getattr(self, setting):
                raise UsageError(f"-o {setting} does not work with {use}", f"remove -o {setting}")
        asked = self._request_options(self.job_name or name, nodes, (ranks, self.cpus_per_task), ",".join(named), {})
        words = [word for each in asked for word in shlex.split(each)]
        return [*words, *split_option("sbatch", self.sbatch)]

    def _script(self, job: Job, step: Step, layout: Layout, named: str, spares: int | None) -> str:
        """The job script: what an administrator reads, and `sbatch` takes. `named`: hosts, with commas."""
        if named and self.nodelist:
            raise UsageError(
                f"hosts were passed twice: {named} and -o nodelist={self.nodelist}", "remove one of the two"
            )
        if self.time and not _TIME.fullmatch(self.time):
            raise UsageError(
                f"--time {self.time} is not a time limit", "--time 2:00:00: minutes, H:MM:SS or D-HH:MM:SS"
            )
        place, _, sent = self.signal.rpartition(":")
        if "B" in place.upper():
            what = f"--signal {self.signal}: with B: the job's script gets the signal, and no rank; the job ends"
            raise UsageError(what, f"--signal {sent}: the ranks get it")
        more = {
            "output": self._log(job).replace("{job}", "%A_%a" if self.array else "%j"),
            # After a requeue the job goes on in the same file.
            "open-mode": "append",
        }
        nodes, each = layout.groups[0].nodes + (spares or 0), self._asked_tasks(job, layout.groups[0])
        asked = self._request_options(self._job_name(job), nodes, each, named, more)
        lines = [_directive(word[2:].partition("=")[0], word) for word in asked]
        lines += ["#SBATCH --no-kill"] * (spares is not None)  # a node that fails does not end the job
        if self.requeue or self.chain:
            again = self.requeue.lower() or "true"
            if self.chain and again == "false":
                raise UsageError(f"-o chain={self.chain} requeues the job, and -o requeue=false forbids it")
            word = {"true": "--requeue", "false": "--no-requeue"}.get(again, f"--requeue={quote(self.requeue)}")
            lines.append(_directive("requeue", word))
        lines += [_directive("sbatch", quote(word)) for word in self._sbatch_words(job)]
        for group in layout.groups[1:]:
            tasks, cpus = self._asked_tasks(job, group)
            words = [
                f"--nodes={group.nodes}",
                f"--ntasks-per-node={tasks}",
                *([f"--cpus-per-task={cpus}"] if cpus else []),
            ]
            lines += ["#SBATCH hetjob", *(_directive("hetjob", quote(word)) for word in (*words, *group.options))]
        return "\n".join(["#!/bin/bash", *lines, "", render_step(step), ""])

    def _sbatch_words(self, job: Job) -> list[str]:
        """Return the user's further options of sbatch. Raises UsageError for those that ddpkit sets itself."""
        words = split_option("sbatch", self.sbatch)
        for place, word in enumerate(words):
            name, value, before = _own_option(word)
            if not name:
                continue
            after = place + 1  # where the words behind the option and its value begin
            following = "".join(words[after : after + 1])  # empty: there is none
            if value is None and name not in ("--wait", "-W") and not following.startswith("-"):
                value, after = following, after + 1
            kept = quote(f"sbatch={join([*words[:place], *before, *words[after:]])}")
            if value and "output" in _OWN[name]:
                value = replace(self, output=value)._with_job_id(job)
            own = f" {_OWN[name]}{quote(value)}" if _OWN[name] and value else ""
            raise UsageError(f"-o sbatch has {name}, which ddpkit sets itself", f"add -o {kept}{own}")
        return words

    def _asked_tasks(self, job: Job, group: Group) -> tuple[int, int]:
        """Return the tasks on each node and the CPUs of each, 0 for the site's default, in the request of a job."""
        tasks, cpus = group.tasks(by_node=self._by_node(job))
        return tasks, cpus or (group.ranks if self._modules(job) else 0)

    def _log(self, job: Job) -> str:
        """The job's output file, with {job} for its id."""
        if not self.output:
            return f"{job.folder or job.workdir}/slurm-{{job}}.out"
        path = self.output.replace("%A_%a" if self.array else "%j", "{job}")
        if path.count("{job}") != 1 or "%" in path:
            what = f"-o output={self.output}: the file name must contain the job id (%j), and no other pattern of SLURM"
            raise UsageError(what, f"add -o output={quote(self._with_job_id(job))}")
        return path if path.startswith("/") else f"{job.workdir}/{path}"

    def _with_job_id(self, job: Job) -> str:
        """The output file of the user, with the job id as its only pattern."""
        name = self.output.replace("%x", self._job_name(job))
        stem, dot, ending = re.sub(r"[-_.]?%\d*[a-zA-Z]", "", name).rpartition(".")
        stem, ending = (stem, f".{ending}") if dot and "/" not in ending else (stem + dot + ending, "")
        dash = "" if stem.endswith("/") else "-"
        return f"{stem}{dash}{'%A_%a' if self.array else '%j'}{ending}"

    def _job_name(self, job: Job) -> str:
        return self.job_name or job.run_id.split("-", 2)[-1].rpartition("-")[0] or "ddpkit"

    def _batch(self, job: Job, script_path: str, unset: tuple[str, ...], world: Request) -> Batch:
        """How the job is submitted and followed. `unset`: variables of this shell that sbatch must not see."""
        return Batch(
            scheduler=SLURM,
            submit=("sbatch", "--parsable", script_path),
            env={
                **dict.fromkeys((*unset, *world.held_back)),
                **{name: value for name, value in job.env.items() if isinstance(value, Secret)},
            },
            show_resources=("sinfo", "--Node" if world.hosts or self.nodelist else "--summarize"),
            log=self._log(job),
            poll=self.poll,
            follow=not self.array,
            requeue_exit_code=AGAIN if self.chain else None,
            via=world.via,
        )


def _devices(job: Job) -> str:
    """Shell text that leaves a role its GPUs alone, or none, and sets what the user chose for tasks alone."""
    text = ""
    if job.gpus is not None:
        text = _DEVICES.format(first=job.gpus.start + 1, last=job.gpus.stop)
        text = text if job.gpus else "export CUDA_VISIBLE_DEVICES=\n"
    for name in (name for name in job.env if name in _OF_TASK):
        value = job.env[name]
        if isinstance(value, Secret):  # as every value of this shell: devices and directories are none
            value = value.reveal()
        text += f"unset {quote(name)}\n" if value is None else f"export {name}={quote(value)}\n"
    return text


def _cpus(job: Job) -> str:
    """Shell text: how many CPUs of a node are for this job."""
    every = "${SLURM_CPUS_ON_NODE:-1}"
    if job.cpus is None:
        return every
    return f"({every} - {job.cpus.start})" if job.cpus.stop == ALL_CPUS else str(len(job.cpus))


def _joined_options(words: list[str]) -> list[str]:
    """Return options with their values in one word each: `--gpu-bind none` as `--gpu-bind=none`."""
    options: list[str] = []
    for word in words:
        if options and "=" not in options[-1] and not word.startswith("-"):
            options[-1] = f"{options[-1]}={word}"
        else:
            options.append(word)
    return options


def _begin_file(job: Job) -> str:
    """The file that says when the job's script began, each time that it did."""
    return f"{job.folder}/marks/job"


def _decide(job: Job, world: Request) -> tuple[str, ...]:
    """The program that decides after an attempt of a submitted job."""
    return "env", "=".join(SAFE_PATH), world.here.python, "-c", run_module("ddpkit.cli.job_attempts"), job.folder


def _is_slurm_variable(name: str) -> bool:
    """Tell whether a variable is one of SLURM's: left over in this shell, it is of another allocation."""
    return name.startswith(("SLURM_", "SRUN_"))


@dataclass(frozen=True, kw_only=True)
class SlurmSrun(Slurm):
    """A SLURM job in which srun starts each rank."""

    name: ClassVar[str] = "slurm-srun"
    torchrun: ClassVar[Literal[False]] = False


@dataclass(frozen=True, kw_only=True)
class SlurmTorchrun(Slurm):
    """A SLURM job in which srun starts one torchrun on each node."""

    name: ClassVar[str] = "slurm-torchrun"
    torchrun: ClassVar[Literal[True]] = True
