"""Flags of sbatch, srun and torchrun on a command line of ddpkit: one row each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto


class Use(Enum):
    """What ddpkit does with a flag of another launcher."""

    READ = auto()  # a function of the reader has its name
    SAME = auto()  # ddpkit has it under another name
    PASSED = auto()  # sbatch gets it as it is
    NOT_NEEDED = auto()
    REFUSED = auto()
    MISTAKEN = auto()  # another name of a flag that ddpkit has
    SRUN = "srun"  # the backend's option `srun` passes it on
    SBATCH = "sbatch"  # the backend's option `sbatch` passes it on


@dataclass(frozen=True)
class Flag:
    """A flag of another launcher."""

    use: Use
    alone: bool = False  # it takes no value
    reason: str = ""  # why it is not needed, or refused
    instead: str = ""  # ddpkit's flag; of a refused one also another hint


def _rows(names: str, use: Use, *, alone: bool = False, reason: str = "", instead: str = "") -> dict[str, Flag]:
    return dict.fromkeys((f"--{name}" for name in names.split()), Flag(use, alone, reason, instead))


# ---- sbatch and srun

# sbatch's letters.
LETTERS = {
    "-A": "--account",
    "-a": "--array",
    "-C": "--constraint",
    "-c": "--cpus-per-task",
    "-d": "--dependency",
    "-J": "--job-name",
    "-p": "--partition",
    "-q": "--qos",
    "-t": "--time",
    "-w": "--nodelist",
    "-x": "--exclude",
    "-D": "--chdir",
    "-L": "--licenses",
    "-M": "--clusters",
    "-G": "--gpus",
    "-e": "--error",
    "-F": "--nodefile",
    "-H": "--hold",
    "-r": "--relative",
}
# Letters that ddpkit has as well: with a value sbatch's --dependency and --qos, else --detach and --quiet.
BOTH = ("-d", "-q")
_PASSED = """
    mail-type mail-user licenses clusters comment begin deadline mem-per-cpu mem-per-gpu tmp switches nice wckey
    priority gpu-bind gpu-freq cores-per-socket sockets-per-node threads-per-core hint prefer time-min
    cluster-constraint network profile-data cpus-per-gpu
"""
_SRUN = """
    mpi cpu-bind input bcast send-libs het-group prolog epilog task-prolog task-epilog slurmd-debug accel-bind
    treewidth max-exit-timeout msg-timeout external-launcher
"""
_SRUN_ALONE = """
    overlap exact whole multi-prog disable-status preserve-env resv-ports interactive no-allocate kill-on-bad-exit
"""
_SBATCH = """
    acctg-freq bb bbf burst-buffer core-spec thread-spec cpu-freq delay-boot extra extra-node-info gid uid
    kill-on-invalid-dep mcs-label mem-bind ntasks-per-core ntasks-per-socket ntasks-per-gpu power propagate container-id
    tres-bind tres-per-task wait-all-nodes oom-kill-step segment
"""
SBATCH: Mapping[str, Flag] = {
    **_rows("ntasks jobid", Use.READ),
    "--nodes": Flag(Use.SAME, instead="--nnodes"),
    "--ntasks-per-node": Flag(Use.SAME, instead="--nproc-per-node"),
    "--chdir": Flag(Use.SAME, instead="--workdir"),
    **_rows(_PASSED, Use.PASSED),
    **_rows("hold contiguous overcommit oversubscribe reboot spread-job", Use.PASSED, alone=True),
    **_rows("parsable", Use.NOT_NEEDED, alone=True, reason="ddpkit submits the job itself, and follows it"),
    **_rows("wait", Use.NOT_NEEDED, alone=True, reason="ddpkit follows the job to its end; --detach does not"),
    **_rows("label", Use.NOT_NEEDED, alone=True, reason="each line has its rank and its host"),
    **_rows("unbuffered", Use.NOT_NEEDED, alone=True, reason="each line is shown as soon as it is complete"),
    **_rows("pty", Use.NOT_NEEDED, alone=True, reason="ddpkit shows the output of every rank"),
    "--gpus": Flag(Use.REFUSED, False, "ddpkit needs the GPUs of each node", "--gpus-per-node"),
    "--gpus-per-task": Flag(Use.REFUSED, False, "each rank must see all GPUs of its node", "--gpus-per-node"),
    "--error": Flag(Use.REFUSED, False, "the job has one output file"),
    "--export": Flag(Use.REFUSED, False, "ddpkit chooses the variables of a job", "--env"),
    "--nodefile": Flag(Use.REFUSED, False, "ddpkit passes no file of nodes", "--nodelist"),
    "--relative": Flag(
        Use.REFUSED, False, "srun's --relative is -o srun=--relative=N; torchrun's is --redirects", "--redirects"
    ),
    "--wrap": Flag(Use.REFUSED, False, "ddpkit writes the job script", "--"),
    **_rows("gpu ngpus", Use.MISTAKEN, instead="--gpus-per-node"),
    **_rows("cpu cpus ncpus", Use.MISTAKEN, instead="--cpus-per-task"),
    **_rows("walltime time-limit", Use.MISTAKEN, instead="--time"),
    **_rows("queue", Use.MISTAKEN, instead="--partition"),
    **_rows("memory", Use.MISTAKEN, instead="--mem"),
    **_rows("test-only", Use.MISTAKEN, alone=True, instead="--dry-run"),
    **_rows(_SRUN, Use.SRUN),
    **_rows(_SRUN_ALONE, Use.SRUN, alone=True),
    **_rows(_SBATCH, Use.SBATCH),
    **_rows("get-user-env ignore-pbs no-kill use-min-nodes stepmgr", Use.SBATCH, alone=True),
}


def of_sbatch(*uses: Use) -> set[str]:
    """The flags of sbatch with one of these uses."""
    return {name for name, flag in SBATCH.items() if flag.use in uses}


def replacement(name: str, flag: str, text: str, nodes: int, ranks: int) -> list[str]:
    """Words of ddpkit for a refused flag of sbatch: the same GPUs on each node, the same variables, the same command.

    `nodes`, and `ranks` of each node, as far as the command line gives them.
    """
    if name in ("--gpus", "--gpus-per-task") and text.isdecimal():
        number = int(text) * ranks if name == "--gpus-per-task" else -(-int(text) // nodes)
        return [flag, str(number)]
    if name == "--wrap":
        return [flag, *text.split()]
    if name == "--error":
        return []  # ddpkit's default
    if name == "--export":  # all variables of this shell, or none: ddpkit's default as well
        variables = [each for each in text.split(",") if each and each.upper() not in ("ALL", "NONE", "NIL")]
        return [word for each in variables for word in (flag, each)]
    return [flag, text]


# ---- torchrun

_RENDEZVOUS = "ddpkit chooses address and port of the rendezvous"
_OUTPUT = "the output of each rank is shown, and saved in logs/RUN/rank_N.log"
_FILTER = "every line is shown; to filter them: `ddpkit logs`"
_SIGNALS = "SIGTERM, SIGHUP and Ctrl-C end the ranks; SIGUSR1 and SIGUSR2 reach them"
_ONE_RANK = "every rank is shown; for one rank: `ddpkit logs RUN --rank N`"
SHORT = {"-m": "--module", "-r": "--redirects", "-t": "--tee"}
NAMES_SCRIPT = ("-m", "--module", "--no-python")  # after these, the script needs no ending
TORCHRUN: Mapping[str, Flag] = {
    **_rows("module no-python standalone", Use.READ, alone=True),
    **_rows("max-restarts numa-binding master-port master-addr node-rank", Use.READ),
    **_rows("rdzv-backend rdzv-endpoint", Use.NOT_NEEDED, reason=_RENDEZVOUS),
    **_rows("rdzv-id", Use.NOT_NEEDED, reason="every run has its own id"),
    **_rows("rdzv-conf", Use.NOT_NEEDED, reason="the rendezvous of ddpkit has its own timeouts"),
    **_rows("monitor-interval", Use.NOT_NEEDED, reason="ddpkit detects the end of a rank immediately"),
    **_rows("start-method", Use.NOT_NEEDED, reason="every rank is a separate process"),
    **_rows("role", Use.NOT_NEEDED, reason="the verdict reports host and rank"),
    **_rows("local-addr", Use.NOT_NEEDED, reason="ddpkit chooses addresses at which the nodes reach each other"),
    **_rows("redirects tee logs-specs", Use.NOT_NEEDED, reason=_OUTPUT),
    **_rows("local-ranks-filter", Use.NOT_NEEDED, reason=_ONE_RANK),
    **_rows("duplicate-stdout-filters duplicate-stderr-filters", Use.NOT_NEEDED, reason=_FILTER),
    **_rows("event-log-handler", Use.NOT_NEEDED, reason="logs/RUN/run.json is the record of a run"),
    **_rows("signals-to-handle", Use.NOT_NEEDED, reason=_SIGNALS),
    **_rows("use-env", Use.NOT_NEEDED, alone=True, reason="LOCAL_RANK is in the environment of every rank"),
    **_rows("run-path", Use.NOT_NEEDED, alone=True, reason="the script runs unchanged"),
    "--shutdown-timeout": Flag(
        Use.REFUSED, False, "the time between SIGTERM and SIGKILL is --grace", "--grace SECONDS"
    ),
    "--virtual-local-rank": Flag(
        Use.REFUSED,
        True,
        "every rank keeps its own LOCAL_RANK",
        "a wrapper that sets CUDA_VISIBLE_DEVICES to LOCAL_RANK and LOCAL_RANK to 0",
    ),
}


def torchrun_name(name: str) -> str:
    """The long name of a flag of torchrun."""
    return SHORT.get(name, name)


def long_names(names: Iterable[str]) -> list[str]:
    return [name for name in names if name[:2] == "--"]
