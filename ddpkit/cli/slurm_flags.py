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
# Letters that ddpkit has as well: with a value they are sbatch's, without one nobody can tell.
AMBIGUOUS = {"-d": ("--detach", "--dependency"), "-q": ("--quiet", "--qos")}
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
    if name == "--error" or (name == "--export" and text.upper() in ("ALL", "NONE")):
        return []  # ddpkit's default
    return [*flag, text]
