"""sbatch's options on a command line of ddpkit: their letters, and those that ddpkit has under another name."""

from __future__ import annotations

# sbatch's letters for options of the backend.
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
# sbatch's names for flags of ddpkit.
SAME = {"--nodes": "--nnodes", "--ntasks-per-node": "--nproc-per-node", "--chdir": "--workdir"}
# Options that sbatch gets as they are, with a value.
PASSED = frozenset(
    "--mail-type --mail-user --licenses --clusters --comment --begin --deadline --mem-per-cpu --mem-per-gpu --tmp "
    "--switches --nice --wckey --priority --gpu-bind --gpu-freq --cores-per-socket --sockets-per-node "
    "--threads-per-core --hint --prefer --time-min --cluster-constraint --network "
    "--profile-data --cpus-per-gpu".split()
)
PASSED_FLAGS = frozenset(("--hold", "--contiguous", "--overcommit", "--oversubscribe", "--reboot", "--spread-job"))
# All of those, by their names.
LONG = ("--ntasks", "--test-only", *SAME, *PASSED, *PASSED_FLAGS, *LETTERS.values())
# Mistaken names, and names of other schedulers, for options that ddpkit has.
MEANT = {
    **dict.fromkeys(("--gpu", "--ngpus"), "--gpus-per-node"),
    **dict.fromkeys(("--cpu", "--cpus", "--ncpus"), "--cpus-per-task"),
    **dict.fromkeys(("--walltime", "--time-limit"), "--time"),
    "--queue": "--partition",
    "--memory": "--mem",
    "--test-only": "--dry-run",
}
# Options without a value that change nothing, each with the reason.
NOT_NEEDED = {
    "--parsable": "ddpkit submits the job itself, and follows it",
    "--wait": "ddpkit follows the job to its end; --detach does not",
    "--label": "each line has its rank and its host",
    "--unbuffered": "each line is shown as soon as it is complete",
    "--pty": "ddpkit shows the output of every rank",
}
# Other options of sbatch and srun: the backend's options of these names pass them on.
_SRUN_FLAGS = frozenset(
    "--overlap --exact --whole --multi-prog --disable-status --preserve-env --resv-ports "
    "--interactive --no-allocate --kill-on-bad-exit".split()
)
PROGRAMS = {
    "srun": _SRUN_FLAGS
    | frozenset(
        "--mpi --cpu-bind --input --bcast --send-libs --het-group --prolog --epilog --task-prolog --task-epilog "
        "--slurmd-debug --accel-bind --treewidth --max-exit-timeout --msg-timeout --wait --external-launcher".split()
    ),
    "sbatch": frozenset(
        "--acctg-freq --bb --bbf --burst-buffer --core-spec --thread-spec --cpu-freq --delay-boot --extra "
        "--extra-node-info --get-user-env --gid --uid --ignore-pbs --kill-on-invalid-dep --mcs-label --mem-bind "
        "--no-kill --ntasks-per-core --ntasks-per-socket --ntasks-per-gpu --power --propagate --container-id "
        "--tres-bind --tres-per-task --use-min-nodes --wait-all-nodes --oom-kill-step --segment --stepmgr".split()
    ),
}
_SBATCH_FLAGS = frozenset("--get-user-env --ignore-pbs --no-kill --use-min-nodes --stepmgr".split())


def is_alone(name: str) -> bool:
    """Tell whether an option of sbatch or srun needs no value."""
    return name in _SRUN_FLAGS or name in _SBATCH_FLAGS or name in NOT_NEEDED or MEANT.get(name) == "--dry-run"


# Options that would contradict what ddpkit does, each with the reason and ddpkit's own flag.
REFUSED = {
    "--gpus": ("ddpkit needs the GPUs of each node", ["--gpus-per-node"]),
    "--gpus-per-task": ("each rank must see all GPUs of its node", ["--gpus-per-node"]),
    "--error": ("the job has one output file", ["--output"]),
    "--export": ("ddpkit chooses the variables of a job", ["--env"]),
    "--nodefile": ("ddpkit passes no file of nodes", ["--nodelist"]),
    "--relative": ("srun's --relative is -o srun=--relative=N; torchrun's is --redirects", ["--redirects"]),
    "--wrap": ("ddpkit writes the job script", ["--"]),
}


def replacement(name: str, flag: list[str], text: str, nodes: int, ranks: int) -> list[str]:
    """Words of ddpkit for a refused option of sbatch: the same GPUs on each node, the same variables, the same command.

    `nodes`, and `ranks` of each node, as far as the command line gives them.
    """
    if name in ("--gpus", "--gpus-per-task") and text.isdecimal():
        number = int(text) * ranks if name == "--gpus-per-task" else -(-int(text) // nodes)
        return [*flag, str(number)]
    if name == "--wrap":
        return [*flag, *text.split()]
    if name == "--error":
        return []  # ddpkit's default
    if name == "--export":  # all variables of this shell, or none: ddpkit's default as well
        variables = [each for each in text.split(",") if each and each.upper() not in ("ALL", "NONE", "NIL")]
        return [word for each in variables for word in (*flag, each)]
    return [*flag, text]
