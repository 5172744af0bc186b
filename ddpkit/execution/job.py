"""Job of a launch: how its command is started, in which folder, with which Python and environment.

A command on this machine is looked up, and refused where it cannot run. Folder and Python of other nodes are looked up
there, later. Raises UsageError.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ddpkit.config import AUTOMATIC, LaunchSettings
from ddpkit.errors import UsageError, similar
from ddpkit.files import read_head
from ddpkit.launchers import containers
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.command_line import SHELLS, find_launcher, split_python, uv_project
from ddpkit.launchers.plan import Job, Ready
from ddpkit.launchers.registry import Launcher
from ddpkit.launchers.shell import count, guard, is_secret, join, quote
from ddpkit.node.env_names import env_matcher
from ddpkit.run import record
from ddpkit.transports.choose import transport_class
from ddpkit.transports.slurm_nodes import SITE

Kind = Literal["script", "module", "program"]
_PYTHON_FLAGS = ("-m", "-c")  # in front of a module, or code, in place of a script
# Variables that ddpkit sets, each with the options that choose its value.
SET_BY_DDPKIT = {
    **dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK"), "-N and -n"),
    **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"), "-N and -n"),
    "MASTER_ADDR": "--master-addr",
    "MASTER_PORT": "--master-port",
    **dict.fromkeys(("DDPKIT_RUN", "TORCHELASTIC_RUN_ID"), "--name"),
    **dict.fromkeys(("DDPKIT_ATTEMPT", "DDPKIT_PREVIOUS", "TORCHELASTIC_RESTART_COUNT"), "--retries"),
}
_is_tuning = env_matcher("tuning")
_is_private = env_matcher("private")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_is_option_of_launcher = env_matcher("launcher")
_is_reported = env_matcher("reported")
MOST_NAMED = 6  # variables in a line
_PRINT_PYTHON = ("python", "-c", "import sys; print(sys.executable)")  # for `uv run`


def local_job(settings: LaunchSettings, backend: Launcher) -> Job:
    """The job of a launch on this machine, or of one that a scheduler takes from this machine."""
    check_request(settings)
    typed = settings.script
    settings = without_python(settings)
    workdir = Path(settings.workdir).absolute()
    if not workdir.is_dir():
        raise UsageError(f"working directory {workdir} not found", f"mkdir -p {quote(str(workdir))}")
    command = settings.script
    image = str(getattr(backend, "container", ""))
    if (
        image
        and not transport_class(type(backend)).scheduled
        and containers.is_file(image)
        and not (workdir / image).exists()
    ):
        raise UsageError(f"image {image} not found in {workdir}", f"ls {shlex.quote(str(workdir))}")
    # A container mounts the working folder only, and may give it another name.
    mounted = command[0].endswith(".py") and not command[0].startswith("/")
    unknown = bool(image) and (bool(getattr(backend, "container_workdir", "")) or not mounted)
    kind = _kind_by_form(command) if unknown else _look_up(command, workdir, settings.source("script"))
    if image:
        return _job(settings, kind, str(workdir), _container_python(settings), settings.env)
    python = _find_python(settings)
    _check_one_program(settings.python, found=bool(python))
    if not python and not transport_class(type(backend)).slurm:
        raise _no_python(settings, in_script=settings.script != typed)
    job = _job(settings, kind, str(workdir), python or _python_there(settings.python), settings.env)
    return replace(job, python_here=bool(python))


def remote_job(settings: LaunchSettings, options: NodeOptions) -> Job:
    """The job of a launch on named nodes."""
    check_request(settings)
    settings = without_python(settings)
    command = settings.script
    workdir = settings.workdir
    if not workdir.startswith("~"):  # the node expands it
        workdir = str(Path(workdir).absolute())
    python = _container_python(settings) if options.container else settings.python
    _check_one_program(python, found=False)
    if not options.container and "/" in python and not python.startswith(("/", "~/")):
        python = str(Path(python).absolute())
    known = Path(workdir).is_dir() and not options.container_workdir
    kind = _look_up(command, Path(workdir), settings.source("script")) if known else _kind_by_form(command)
    return _job(settings, kind, workdir, python, settings.env)


def job_elsewhere(settings: LaunchSettings, workdir: str, python: str, log_dir: str) -> Job:
    """The job of a launch on a login host, whose paths were looked up there."""
    kind = _kind_by_form(settings.script)
    return _job(replace(settings, log_dir=log_dir), kind, workdir, python, settings.env)


def left_here(settings: LaunchSettings, environ: Mapping[str, str]) -> str:
    """Describe the variables of libraries that other machines do not get, because nobody named them. Empty: none."""
    return describe_left([name for name in environ if _is_tuning(name) and name not in settings.env])


def held_back(settings: LaunchSettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Name the variables that a job of SLURM does not get, though sbatch and srun pass on the whole environment."""
    private = (
        name
        for name, value in environ.items()
        if (_is_private(name) or is_secret(name, value)) and not name.startswith("BASH_FUNC_")
    )
    return tuple(sorted(name for name in private if name not in settings.env and name not in SITE))


def removed_options(settings: LaunchSettings, environ: Mapping[str, str]) -> str:
    """Describe the variables that no rank gets, because they would make it part of another launch. Empty: none."""
    names = sorted(name for name in environ if _is_option_of_launcher(name) and name not in settings.env)
    if not names:
        return ""
    more = f" and {count(len(names) - MOST_NAMED, 'other')}" if len(names) > MOST_NAMED else ""
    flags = " ".join(f"--env {name}" for name in names[:MOST_NAMED])
    what = f"not passed to the ranks, as options of another launcher: {', '.join(names[:MOST_NAMED])}{more}"
    return f"{what}; to pass them: {flags}"


def unexpanded(settings: LaunchSettings, environ: Mapping[str, str]) -> str:
    """Describe a `$NAME` in the value of a variable: nothing expands it for the ranks. Empty: there is none.

    It must be the name of a variable. A password may have a `$`.
    """
    for name, value in settings.env.items():
        used = _VARIABLE.findall(value) if name not in settings.inherited else []
        meant = next((each for each in used if each == name or each in environ), "")
        if meant:
            what = f"variable {name}: nothing expands ${meant} in its value, which ranks get as it stands"
            return f'{what}; in double quotes this shell expands it: --env "{name}=...${meant}..."'
    return ""


def is_public(name: str) -> bool:
    """Tell whether a variable of this name tunes a library, so that its value may be on a page for others."""
    return (_is_tuning(name) or _is_reported(name)) and not _is_private(name)


def describe_left(names: Sequence[str]) -> str:
    """Write one line about variables that stay here, with the option that sends them; empty for none."""
    if not names:
        return ""
    first = sorted(names, key=lambda name: (not _is_private(name), name))[:MOST_NAMED]
    more = f" and {count(len(names) - len(first), 'other')}" if len(names) > len(first) else ""
    flags = " ".join(f"--env {name}" for name in first)
    return f"not forwarded to the nodes: {', '.join(first)}{more}; to forward them: {flags}"


def _job(settings: LaunchSettings, kind: Kind, workdir: str, python: str, env: Mapping[str, str]) -> Job:
    """Make the job, with a new id of the run and its directory."""
    name = settings.name or str(settings.options.get("job_name", ""))
    replica = settings.replica
    job = Job(
        run_id=replica.run_id
        if replica
        else record.new_id(record.usable_name(name) if name else record.name_of(settings.script)),
        command=settings.script,
        kind=kind,
        workdir=workdir,
        python=python,
        env={name: guard(name, value, inherited=name in settings.inherited) for name, value in env.items()},
        grace=settings.grace,
        python_chosen=settings.source("python") not in AUTOMATIC,
        observe=settings.observe if kind != "program" else (),
        wants_port=replica is not None and replica.wants_port,
        port=replica.port if replica else None,
        gpus=replica.gpus if replica else None,
        cpus=replica.cpus if replica else None,
        ready=Ready.of(replica.ready, replica.ready_timeout) if replica and replica.ready else None,
    )
    return replace(job, folder=str(Path(settings.log_dir).absolute() / job.run_id))


def with_variables(job: Job, env: Mapping[str, str]) -> Job:
    """Return a job with more variables of its ranks."""
    return replace(job, env={**job.env, **env})


def without_python(settings: LaunchSettings) -> LaunchSettings:
    """Read `python train.py` as the script `train.py` and the Python `python`. Raises UsageError for two Pythons."""
    python, script = split_python(settings.script)
    if not python:
        return settings
    if settings.is_given("python"):
        raise UsageError(
            f"--python {settings.python}, and {python} before the script: only one can run it",
            f"ddpkit launch -- {join(script)}",
        )
    sources = {**settings.sources, "python": settings.source("script")}
    return replace(settings, script=script, python=python, sources=sources)


def with_python_of_uv(settings: LaunchSettings, note: Callable[[str], None], *, dry: bool) -> LaunchSettings:
    """Replace `uv run` by the Python of the project, which one `uv run` on this machine names. Raises UsageError.

    Else each rank would run uv, and all of them at once bring one environment up to date. `dry`: only describe it,
    because uv may install packages.
    """
    runner, script = uv_project(settings.script)
    if not runner or not Path(settings.workdir).is_dir():  # a directory of the nodes alone
        return settings
    if settings.is_given("python"):
        what = f"--python {settings.python}, and {join(runner)} before the script: only one can choose the Python"
        raise UsageError(what, f"remove --python {settings.python}")
    if dry:
        note(f"a launch runs `{join((*runner, *_PRINT_PYTHON))}` once; its Python starts the ranks")
        return settings
    note(f"asks uv once for the project's Python: {join(runner)} python")
    argv = [*runner, *_PRINT_PYTHON]
    try:
        done = subprocess.run(
            argv, cwd=settings.workdir, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UsageError(f"{runner[0]}: {(error.strerror or '').lower()}", "command -v uv") from None
    lines = done.stdout.split("\n")
    if done.returncode != 0 or len(lines) < 2:
        why = " / ".join(done.stderr.strip().splitlines()[-3:]) or f"exit code {done.returncode}"
        raise UsageError(f"uv could not prepare the project's environment: {why}", join(argv))
    sources = {**settings.sources, "python": settings.source("script")}
    return replace(settings, script=script, python=lines[-2], sources=sources)


def check_request(settings: LaunchSettings) -> None:
    """Refuse what would run, and not as it was meant."""
    nested = None if settings.allow_nested else find_launcher(settings.script)
    if nested is not None:
        hint = nested.hint or f"ddpkit launch -- {join(nested.script or ('SCRIPT',))}"
        raise UsageError(f"{nested.problem} (the setting allow_nested = true starts it anyway)", hint)
    in_shell = settings.script[0] in SHELLS and len(settings.script) > 1  # bash FILE
    check_batch_script(Path(settings.workdir), settings.script[in_shell:], allowed=settings.allow_nested)
    usable = record.usable_name(settings.name) if settings.name else ""
    if settings.name != usable:
        what = f"--name {quote(settings.name)}: a name has at most 24 letters, digits, _, . and -"
        raise UsageError(what, f"add --name {usable}")
    for name in settings.env:
        if name in SET_BY_DDPKIT:
            source = settings.sources.get(f"env.{name}", "")
            where = {"flag": f"--env {name}", "keyword": f"env {name}"}.get(source, f"{source}: env.{name}")
            what = f"{where}: ddpkit sets this variable itself, from {SET_BY_DDPKIT[name]}"
            raise UsageError(what, f"remove --env {name}" if source == "flag" else f"remove {name} from env")
    if settings.hang_action == "end" and not settings.hang_timeout and settings.is_given("hang_action"):
        raise UsageError(
            'hang_action = "end" has no effect without --hang-timeout',
            "add --hang-timeout 600",
        )


def _container_python(settings: LaunchSettings) -> str:
    return "python3" if settings.source("python") in AUTOMATIC else settings.python


def _find_python(settings: LaunchSettings) -> str:
    """Return the path of the Python on this machine; empty: it has none."""
    python = shutil.which(os.path.expandvars(settings.python))
    # Absolute, but not resolved: the path of its link makes an interpreter that of a virtual environment.
    return os.path.abspath(python) if python else ""  # noqa: PTH100


def _check_one_program(python: str, *, found: bool) -> None:
    """Refuse words such as `apptainer exec IMAGE python`. A path may have spaces. Raises UsageError."""
    first, space, _ = python.partition(" ")
    if found or not space or ("/" in first and not shutil.which(first)):
        return
    what = f"--python {shlex.quote(python)}: it takes one program, and no words after it"
    raise UsageError(what, "--container IMAGE, --setup COMMANDS, or --env NAME=VALUE, with --python PROGRAM")


def _python_there(python: str) -> str:
    """Return a Python that only nodes may have, as a path that does not depend on the working directory."""
    return python if "/" not in python or python.startswith("$") else str(Path(python).expanduser().absolute())


def _no_python(settings: LaunchSettings, *, in_script: bool) -> UsageError:
    """Return the error. `in_script`: it is a word before the script, as in `python train.py`."""
    other = f"add --python {shlex.quote(shutil.which('python3') or sys.executable)}"
    hint = f"ddpkit launch -- {join(settings.script)}" if in_script else other
    return UsageError(f"Python {settings.python} not found", hint)


def _check_flag(command: tuple[str, ...]) -> None:
    if command in (("-m",), ("-c",)):
        what = "the name of a module" if command == ("-m",) else "Python code"
        raise UsageError(f"{command[0]} needs {what}", "ddpkit launch -- -m pkg.train")


def _check_module(command: tuple[str, ...], workdir: Path) -> None:
    """Refuse a mistyped module of this project. Modules that are elsewhere are Python's to find."""
    _, module, *arguments = command
    if module.endswith(".py") and (workdir / module).is_file():
        what = f"-m {module}: {module} is a script, and -m takes the name of a module"
        raise UsageError(what, f"ddpkit launch -- {join([module, *arguments])}")
    *packages, name = module.split(".")
    folder = workdir.joinpath(*packages)
    if not name or not folder.is_dir() or any(folder.glob(f"{name}.*")) or (folder / name).is_dir():
        return
    meant = similar(name, [each.stem for each in folder.iterdir() if each.suffix == ".py" or each.is_dir()])
    if packages and meant:
        hint = f"ddpkit launch -- {join(['-m', '.'.join([*packages, meant]), *arguments])}"
        raise UsageError(f"module {module} not found in {workdir}", hint)


def _kind_by_form(command: tuple[str, ...]) -> Kind:
    """The kind of a command that is in a container or on a node, from its first word."""
    _check_flag(command)
    return "module" if command[0] in _PYTHON_FLAGS else "script" if command[0].endswith(".py") else "program"


def _absent(kind: str, path: str, workdir: Path) -> str:
    return f"{kind} {path} not found" + ("" if Path(path).is_absolute() else f" in {workdir}")


def _look_up(command: tuple[str, ...], workdir: Path, source: str) -> Kind:
    """The kind of a command on this machine, which must be able to start it."""
    first = command[0]
    if first in _PYTHON_FLAGS:
        _check_flag(command)
        if first == "-m":
            _check_module(command, workdir)
        return "module"
    path = workdir / first
    if first.endswith(".py"):
        if not path.is_file():
            scripts = [str(each.relative_to(workdir)) for each in path.parent.glob("*.py")]
            meant, what, hint = (
                similar(first, scripts),
                _absent("script", first, workdir),
                f"ls {shlex.quote(str(path.parent))}",
            )
            if source == "default":
                meant = meant or (scripts[0] if len(scripts) == 1 else "SCRIPT")
                what = f"no script given, and {first} not found in {workdir}"
            if meant:
                hint = f"ddpkit launch -- {join([meant, *command[1:]])}"
            raise UsageError(what, hint)
        return "script"
    if "/" in first or path.is_file():
        if not path.is_file():
            raise UsageError(_absent("program", first, workdir), f"ls {shlex.quote(str(path.parent))}")
        if not os.access(path, os.X_OK):
            raise UsageError(
                f"{path} is not executable",
                f"ls -l {shlex.quote(str(path))}, and make it executable if it is a program",
            )
        if "/" not in first:
            raise UsageError(
                f"{first} is a file here, but not a program on PATH",
                f"ddpkit launch -- {join([f'./{first}', *command[1:]])}",
            )
        return "program"
    if shutil.which(first) is None:
        meant = similar(first, [path.name for path in workdir.glob("*.py")])
        hint = f"ddpkit launch -- {join([meant, *command[1:]])}" if meant else f"install {first}, or give its path"
        raise UsageError(f"program {first} not found on PATH or in {workdir}", hint)
    return "program"


_BATCH_SCRIPTS = (".sbatch", ".slurm", ".sb")
_STEP = re.compile(
    rb"^[ \t]*(?:\w+=\S* +|exec +|time +)*"
    rb"(?:srun|torchrun|mpirun|mpiexec|deepspeed|(?:ddpkit|accelerate) +launch|python\S* .*-m +torch\.distributed)\s",
    re.MULTILINE,
)


def check_batch_script(workdir: Path, command: Sequence[str], *, allowed: bool) -> None:
    """Refuse a batch script of SLURM as the script of each rank."""
    if not allowed and is_batch_script(workdir / command[0]):
        what = f"{command[0]} is a batch script of SLURM: it starts its ranks itself, on all nodes"
        raise UsageError(f"{what} (the setting allow_nested = true starts it anyway)", join(["sbatch", *command]))


def is_batch_script(path: Path) -> bool:
    """Whether a file has options of sbatch and starts ranks. With the options alone, each rank can run it."""
    try:
        text = read_head(path, 1 << 16, follow=True)
    except OSError:
        return False
    options = re.search(rb"^#SBATCH ", text, re.MULTILINE)
    return bool(options and (path.suffix in _BATCH_SCRIPTS or _STEP.search(text)))
