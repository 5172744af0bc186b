"""Job of a launch: how its command is started, in which folder, with which Python and environment.

A command on this machine is looked up, and refused where it cannot run. Folder and Python of other nodes are looked up
there, later; `required_of_nodes` says what they must have. Raises UsageError.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ddpkit.config import AUTOMATIC, LaunchSettings, current_folder
from ddpkit.errors import UsageError, similar
from ddpkit.files import LIMIT, open_to_read, read_head
from ddpkit.launchers import containers
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.command_line import SHELLS, find_launcher, launchers_in, of_shell, split_python, uv_project
from ddpkit.launchers.plan import Job, Ready
from ddpkit.launchers.registry import Launcher
from ddpkit.launchers.shell import Value, count, guard, is_secret, join, quote
from ddpkit.node.env_names import env_matcher
from ddpkit.run import record
from ddpkit.transports.choose import transport_class
from ddpkit.transports.slurm_nodes import SITE

if TYPE_CHECKING:
    from ddpkit.transports.compatibility import Requirements

Kind = Literal["script", "module", "program"]
_PYTHON_FLAGS = ("-m", "-c")  # in front of a module, or code, in place of a script
# Variables that ddpkit sets, each with the options that choose its value.
SET_BY_DDPKIT = {
    **dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK"), "-N and -n"),
    **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"), "-N and -n"),
    **dict.fromkeys(("ROLE_RANK", "ROLE_WORLD_SIZE"), "-N and -n"),
    "MASTER_ADDR": "--master-addr",
    "MASTER_PORT": "--master-port",
    **dict.fromkeys(("DDPKIT_RUN", "TORCHELASTIC_RUN_ID"), "--name"),
    **dict.fromkeys(("DDPKIT_ATTEMPT", "DDPKIT_PREVIOUS"), "--retries"),
    **dict.fromkeys(("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"), "--retries"),
}
_is_tuning = env_matcher("tuning")
_is_private = env_matcher("private")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_is_option_of_launcher = env_matcher("launcher")
_is_reported = env_matcher("reported")
MOST_NAMED = 6  # variables in a line
_PRINT_PYTHON = ("python", "-c", "import sys; print(sys.executable)")  # for `uv run`


def local_workdir(settings: LaunchSettings) -> Path:
    """The working directory of a launch, if it is one of this machine."""
    return Path(os.path.expanduser(settings.workdir)).absolute()  # noqa: PTH111 - ~ of nobody stays


def local_job(settings: LaunchSettings, backend: Launcher) -> Job:
    """The job of a launch on this machine, or of one that a scheduler takes from this machine."""
    check_request(settings)
    typed = settings.script
    settings = without_python(settings)
    workdir = local_workdir(settings)
    if not workdir.is_dir():
        first = settings.workdir.partition("/")[0]
        hint = f"mkdir -p {quote(str(workdir))}"
        if first[:1] == "~" and first != "~":  # ~user: no hint makes a directory of that name
            hint = f"getent passwd {quote(first[1:])}"
        raise UsageError(f"working directory {workdir} not found", hint)
    command = settings.script
    image = str(getattr(backend, "container", ""))
    if (
        image
        and not transport_class(type(backend)).scheduled
        and containers.is_file(image)
        and not (workdir / image).exists()
    ):
        raise UsageError(f"image {image} not found in {workdir}", f"ls {shlex.quote(str(workdir))}")
    # A container mounts the working folder only, and may give it another name: there all else may be another file.
    mounted = command[0].endswith(".py") and not command[0].startswith("/")
    is_here = not image or (mounted and not getattr(backend, "container_workdir", ""))
    kind = _check_command(command, workdir, settings.source("script")) if is_here else _kind_by_form(command)
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
    kind = _check_command(command, Path(workdir), settings.source("script")) if known else _kind_by_form(command)
    return _job(settings, kind, workdir, python, settings.env)


def job_elsewhere(settings: LaunchSettings, workdir: str, python: str, log_dir: str) -> Job:
    """The job of a launch on a login host, whose paths were looked up there."""
    kind = _kind_by_form(settings.script)
    return _job(replace(settings, log_dir=log_dir), kind, workdir, python, settings.env)


def tuning_not_forwarded(settings: LaunchSettings, environ: Mapping[str, str]) -> str:
    """Describe the variables of libraries that other machines do not get, because nobody named them. Empty: none."""
    return describe_not_forwarded([name for name in environ if _is_tuning(name) and name not in settings.env])


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


def describe_not_forwarded(names: Sequence[str]) -> str:
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
    restarts: dict[str, Value] = {"TORCHELASTIC_MAX_RESTARTS": str(settings.retries)} if settings.retries else {}
    job = Job(
        run_id=replica.run_id
        if replica
        else record.new_id(record.usable_name(name) if name else record.name_of(settings.script)),
        command=settings.script,
        kind=kind,
        workdir=workdir,
        python=python,
        env=restarts | {name: guard(name, value, inherited=name in settings.inherited) for name, value in env.items()},
        grace=settings.grace,
        python_chosen=settings.source("python") not in AUTOMATIC,
        observe=settings.observe if kind != "program" else (),
        wants_port=replica is not None and replica.wants_port,
        port=replica.port if replica else None,
        gpus=replica.gpus if replica else None,
        cpus=replica.cpus if replica else None,
        ready=Ready.of(replica.ready, replica.ready_timeout) if replica and replica.ready else None,
        stdin=settings.stdin,
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
    if not runner or not local_workdir(settings).is_dir():  # a directory of the nodes alone
        return settings
    if settings.is_given("python"):
        what = f"--python {settings.python}, and {join(runner)} before the script: only one can choose the Python"
        raise UsageError(what, f"remove --python {settings.python}")
    if dry:
        note(f"a launch runs `{join((*runner, *_PRINT_PYTHON))}` once; its Python starts the ranks")
        return settings
    if "/" not in runner[0] and shutil.which(runner[0]) is None:
        raise UsageError(f"program {runner[0]} not found on PATH", f"install {runner[0]}, or give its path")
    note(f"asks uv once for the project's Python: {join(runner)} python")
    argv = [*runner, *_PRINT_PYTHON]
    try:
        done = subprocess.run(
            argv, cwd=local_workdir(settings), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
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
    check_shell_script(local_workdir(settings), settings.script, allowed=settings.allow_nested)
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
    _check_slow_action(settings)


def _check_slow_action(settings: LaunchSettings) -> None:
    """Refuse to look for slow ranks where nothing could be seen or done. Raises UsageError."""
    needed = [("--hang-timeout", settings.hang_timeout, "add --hang-timeout 600")]
    needed += [("--observe stacks", "stacks" in settings.observe, "add --observe stacks")]
    if settings.slow_action == "spare":
        needed += [("--retries", settings.retries, "add --retries 1")]
        needed += [("--spares", settings.spares, "name one host more, and add --spares 1")]
    for name, given, hint in needed if settings.slow_action and settings.is_given("slow_action") else ():
        if not given:
            raise UsageError(f'slow_action = "{settings.slow_action}" has no effect without {name}', hint)


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


def _check_command(command: tuple[str, ...], workdir: Path, source: str) -> Kind:
    """Return the kind of a command on this machine. Raises UsageError where this machine cannot start it.

    `source`: of the setting `script`.
    """
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
            meant, what = similar(first, scripts), _absent("script", first, workdir)
            if source == "default":
                meant = meant or (scripts[0] if len(scripts) == 1 else "SCRIPT")
                what = f"no script given, and {first} not found in {workdir}"
            corrected = f"ddpkit launch -- {join([meant, *command[1:]])}" if meant else ""
            raise UsageError(what, corrected or f"ls {shlex.quote(str(path.parent))}")
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
_MOST_READ = 1 << 14  # bytes of a shell's script
_OF_SHELL = re.compile(rf"#!.*\b(?:{'|'.join(SHELLS)})\b")


def check_shell_script(workdir: Path, command: Sequence[str], *, allowed: bool, of_sbatch: bool = False) -> None:
    """Refuse a script of a shell that starts ranks itself as the script of each rank.

    A launcher under a condition is allowed: the script may know that it is a rank. So is a script with options of
    sbatch and no launcher: each rank can run it. `of_sbatch`: refuse a batch script alone.
    """
    after_shell = of_shell(command)  # of `bash train.sh`: train.sh
    words = after_shell or command
    text = "" if allowed else _shell_script(workdir / words[0], in_shell=bool(after_shell))
    launchers = list(launchers_in(text))
    anyway = "(the setting allow_nested = true starts it anyway)"
    if re.search(r"^#SBATCH ", text, re.MULTILINE) and (words[0].endswith(_BATCH_SCRIPTS) or launchers):
        what = f"{words[0]} is a batch script of SLURM: it starts its ranks itself, on all nodes"
        raise UsageError(f"{what} {anyway}", join(["sbatch", *words]))
    nested = next((nested for nested, conditional in launchers if not conditional), None)
    if nested is not None and not of_sbatch:
        hint = f"in {words[0]}, write python in place of {nested.name} and its options"
        if nested.script and not re.search(r"[$`*?]", " ".join(nested.script)):  # values that the shell would find
            hint = f"ddpkit launch -- {join(nested.script)}"
        raise UsageError(f"{words[0]} starts {nested.name}, which is a launcher itself {anyway}", nested.hint or hint)


def _shell_script(path: Path, *, in_shell: bool) -> str:
    """The text of a shell's script; empty: it is another file, or cannot be read. `in_shell`: a shell runs it."""
    try:
        text = read_head(path, _MOST_READ, follow=True).decode("utf-8", "replace")
    except OSError:
        return ""
    return text if in_shell or path.suffix in (".sh", *_BATCH_SCRIPTS) or _OF_SHELL.match(text) else ""


def names_of_code(command: Sequence[str]) -> list[str]:
    """Return names that a command's own code can have in its directory. Code that was typed has none.

    Of `-m` only a module of that directory counts: whoever can write there is not trusted with one of Python's.
    """
    first, *rest = command
    if first == "-m":
        module = rest[0].replace(".", "/")
        return [f"{module}.py", f"{module}/__main__.py"]
    if first == "-c":
        return []
    return [first] if first.endswith(".py") or "/" in first else rest  # bash train.sh


def program_files(job: Job, *, function: bool = False) -> list[Path]:
    """Return the files of a job's own code, none for `nvidia-smi`. Of a function: a file where ranks search modules."""
    workdir = Path(job.workdir)
    if function:
        return [workdir / entry / "module.py" for entry in search_path(job.workdir)]
    names = names_of_code(job.command)
    return [workdir / name for name in names if name == job.command[0] or (workdir / name).is_file()]


def search_path(workdir: str) -> list[str]:
    """Return where this program finds modules of its own: without those of Python, which each node has.

    What is in the working directory of the ranks is relative to it: a node may have it elsewhere.
    """
    of_python = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    here, kept = str(current_folder()), list[str]()
    of_ranks = os.path.abspath(workdir)  # noqa: PTH100
    for entry in sys.path:
        path = os.path.abspath(entry or here)  # noqa: PTH100  (a link is no other place)
        if path in of_python or path.endswith(("lib-dynload", ".zip")) or not os.path.isdir(path):  # noqa: PTH112
            continue
        inside = path == of_ranks or path.startswith(of_ranks.rstrip("/") + "/")
        shown = os.path.relpath(path, of_ranks) if inside else path
        if shown not in kept:
            kept.append(shown)
    return kept


# ---- what its nodes must have


def for_copies(requirements: Requirements, job: Job) -> Requirements:
    """Return what nodes need for a job in local copies."""
    script = job.command[0] if requirements.script else None
    return replace(requirements, job=replace(job, workdir=requirements.job.workdir), script=script)


def _other_path(path: str) -> str:
    """Return another absolute path of a directory of this machine: the shell's, or the one without symbolic links."""
    for other in (os.environ.get("PWD", ""), os.path.realpath(path)):
        with suppress(OSError):
            if other.startswith("/") and other != path and Path(other).samefile(path):
                return other
    return ""


def required_of_nodes(
    settings: LaunchSettings, options: NodeOptions, job: Job, *, nodes: int | None, check_files: bool
) -> Requirements:
    """Return what the nodes must have for the job. `nodes`: how many of them run it, where others are spare."""
    from ddpkit.execution.requested_nodes import ranks_per_node
    from ddpkit.transports.compatibility import Requirements

    script = job.command[0] if job.kind == "script" or (job.kind == "program" and "/" in job.command[0]) else None
    local = Path(job.workdir, script) if script else None
    return Requirements(
        job=replace(job, workdir=options.container_workdir or job.workdir),
        nproc_per_node=ranks_per_node(settings),
        script=script,
        digest=digest_of(local) if local else "",
        torch=job.kind != "program" or options.starter != "ranks",
        starter=options.starter,
        master_addr=options.master_addr,
        master_port=options.master_port,
        local_workdir=Path(job.workdir).is_dir(),
        other_workdir=_other_path(job.workdir),
        contained=bool(options.container),
        check_files=check_files,
        min_nodes=settings.nnodes[0] if isinstance(settings.nnodes, tuple) else None,
        nodes=nodes,
    )


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a regular file; empty where there is none. A program can be an image of many gigabytes."""
    found = hashlib.sha256()
    try:
        with open(open_to_read(path, follow=True), "rb") as file:
            while part := file.read(LIMIT):
                found.update(part)
    except OSError:
        return ""
    return found.hexdigest()
