"""Options that a command does not have: a table of what was probably meant, each with the corrected command line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import PurePath

from ddpkit.cli import slurm_flags, torchrun_flags
from ddpkit.cli.typed_line import TypedLine, with_value
from ddpkit.errors import UsageError, similar

# Other names of flags, some of them sbatch's, and ddpkit's for the same purpose.
_ELSEWHERE = {
    **dict.fromkeys(("--ntasks-per-node", "--gpus", "--nproc"), "-n"),
    "--nodes": "-N",
    **dict.fromkeys(("--cwd", "--chdir", "--working-dir"), "--workdir"),
    **dict.fromkeys(("--retry", "--max-retries"), "--retries"),
}
_ENVIRONMENTS = ("--venv", "--virtualenv", "--conda-prefix")
# Flags of launchers whose command lines ddpkit does not read.
_FOREIGN = {
    "accelerate": "--num-processes --num-machines --machine-rank --main-process-ip --main-process-port --multi-gpu "
    "--distributed-type --mixed-precision --gpu-ids --config-file",
    "deepspeed": "--num-gpus --num-nodes --include",
    "mpirun": "-np --np -H --host --hosts --machinefile --machine-file --host-file --map-by --bind-to --mca",
}


def unknown_option(line: TypedLine, name: str, value: str) -> UsageError:
    """Return the error for an option, with what was probably meant."""
    what = f"ddpkit {line.request.command} has no option {name}"
    for meant in _MEANT:
        correction = meant(line, name, value)
        if isinstance(correction, UsageError):
            return correction
        if correction:
            return UsageError(what, correction)
    request, hint = line.request, f"ddpkit {line.request.command} --help"
    if request.transport.slurm and name[:2] == "--":
        hint = f"ddpkit backends {request.typed_backend or request.backend.name}"
    elif request.script is None and request.scripted and name[:2] == "--":
        hint += "; the script's options come after `--`"
    return UsageError(what, hint)


def _setting(line: TypedLine, name: str, value: str) -> UsageError | str:
    """Name the setting of ddpkit.toml that was once a flag of `launch`."""
    from ddpkit.config import SETTINGS

    setting = "header" if name == "--no-header" else name.removeprefix("--").replace("-", "_")
    if line.request.command != "launch" or setting not in SETTINGS or SETTINGS[setting].flag:
        return ""
    alone = {"header": "false", "allow_nested": "true"}.get(setting, "")
    following = [] if alone else line.following(value)
    text = alone or value.removeprefix("=") or "".join(following) or "VALUE"
    variable = f"DDPKIT_{setting.upper()}={shlex.quote(text)}"
    shown = text if alone or re.fullmatch(r"[\d.]+", text) else json.dumps(text)
    hint = f"in ddpkit.toml: {setting} = {shown}; for one launch: {variable} "
    return UsageError(
        f"ddpkit launch has no option {name}; it is a setting: {setting}",
        hint + line.corrected(line.at, 1 + len(following), []),
    )


def _launcher(line: TypedLine, name: str, value: str) -> UsageError | str:
    if name not in _ELSEWHERE:
        return ""
    if _means_slurm(line, name):
        return UsageError(f"{name} is an option of backend slurm", line.with_backend("slurm"))
    return line.in_own_words(_ELSEWHERE)


def _means_slurm(line: TypedLine, name: str) -> bool:
    """Tell whether this option of several launchers is sbatch's here: beside others, or where sbatch is."""
    import shutil

    if line.request.typed_backend or not line.request.transport.local:
        return False
    names = {each for _, _, each, _ in line.options_left() if each[:2] == "--"} - line.options.keys()
    if any(_backend_with(each) == "slurm" for each in names - _ELSEWHERE.keys()):
        return True
    own = name in slurm_flags.SAME and {"--nodes", "--ntasks-per-node"} & names
    return bool(own and shutil.which("sbatch"))


def _scheduler(line: TypedLine, name: str, value: str) -> str:
    slurm = line.request.transport.slurm and name in slurm_flags.MEANT
    return line.in_own_words(slurm_flags.MEANT) if slurm else ""


def _environment(line: TypedLine, name: str, value: str) -> str:
    following = line.following(value)
    if name not in _ENVIRONMENTS or not (value or following):
        return ""
    python = str(PurePath(value or following[0], "bin", "python"))
    return line.corrected(line.at, 1 + len(following), ["--python", python])


def _foreign(line: TypedLine, name: str, value: str) -> UsageError | str:
    from ddpkit.launchers.nested import MIGRATION

    launcher = next((launcher for launcher, flags in _FOREIGN.items() if name in flags.split()), "")
    return UsageError(f"{name} is a flag of {launcher}, which ddpkit does not read", MIGRATION) if launcher else ""


def _program(line: TypedLine, name: str, value: str) -> UsageError | str:
    for program, known in slurm_flags.PROGRAMS.items():
        if line.request.transport.slurm and name in known:
            return UsageError(f"{name} is an option of {program}", line.for_program(program, known))
    return ""


def _backend(line: TypedLine, name: str, value: str) -> UsageError | str:
    backend = _backend_with(name)
    return UsageError(f"{name} is an option of backend {backend}", line.with_backend(backend)) if backend else ""


def _command(line: TypedLine, name: str, value: str) -> UsageError | str:
    commands = [(other, flags[name]) for other, flags in line.commands.items() if name in flags]
    if not commands:
        return ""
    command, takes_value = min(commands, key=lambda each: each[0] != "launch")
    hint = line.corrected(line.at, 1 if value or not takes_value else 2, [])
    return UsageError(f"ddpkit {line.request.command} has no option {name}; `ddpkit {command}` has it", hint)


def _mistyped(line: TypedLine, name: str, value: str) -> str:
    if name[:2] != "--":
        return ""
    options = [f"--{key.replace('_', '-')}" for key in line.request.options]
    own = [each for each in (*line.options, *torchrun_flags.VALUES, *torchrun_flags.FLAGS) if each[:2] == "--"]
    meant = similar(name, [*own, *options])
    return line.corrected(line.at, 1, [with_value(meant, value)]) if meant else ""


# In this order. Each returns a whole error, the hint alone, or nothing. After each: what was typed.
_MEANT: tuple[Callable[[TypedLine, str, str], UsageError | str], ...] = (
    _setting,  # --fold 0
    _foreign,  # --num-processes 4
    _launcher,  # --ntasks-per-node 4
    _scheduler,  # -b slurm --walltime 1:00
    _environment,  # --venv DIR
    _program,  # -b slurm --mpi pmix
    _backend,  # --partition gpu, without -b slurm
    _command,  # test --grace 3
    _mistyped,  # --max-restart 3
)


def _backend_with(name: str) -> str:
    """The backend that has an option, by its name or by sbatch's letter; empty: none."""
    from ddpkit.launchers import registry

    name = slurm_flags.LETTERS.get(name, name)
    if name in slurm_flags.PASSED | slurm_flags.PASSED_FLAGS | slurm_flags.REFUSED.keys() | {"--ntasks"}:
        return "slurm"
    backends = registry.backends_with(name.removeprefix("--").replace("-", "_"))
    return min(backends, key=lambda backend: backend != "ssh", default="")  # the one of hosts, if it has the option
