"""Turns settings into a plan, and refuses what cannot run before anything is made or started.

For nodes that we reach ourselves that means to enter them: the ways in that were opened for the survey are those that
the run then uses.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ddpkit.config import DAY, LaunchSettings
from ddpkit.errors import UsageError
from ddpkit.execution import local_facts
from ddpkit.launchers import containers, registry
from ddpkit.launchers.nodes import Nodes
from ddpkit.launchers.plan import Job, Plan
from ddpkit.launchers.shell import guard
from ddpkit.run import record

if TYPE_CHECKING:
    from ddpkit.execution.compatibility import Wish
    from ddpkit.execution.pool import Fleet
    from ddpkit.transports.hosts import HostSpec

# Reaches that go to nodes by themselves.
_NODES = ("ssh", "pdsh")
_PYTHONS_OWN = ("-m", "-c")  # words before a module, or code, in place of a script
# What a launch on other machines passes on unasked: it tunes the libraries that ranks use, and holds wherever they run.
FORWARDED = (
    "NCCL_", "GLOO_", "UCX_", "FI_", "TORCH_", "PYTORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "HF_", "TRANSFORMERS_",
    "TOKENIZERS_", "WANDB_", "OMP_", "MKL_", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_ORDER", "CUBLAS_", "PYTHONPATH",
    "PYTHONHASHSEED",
)  # fmt: skip


AWAY_TIMEOUT = 5.0  # seconds for a connection to the host that --on names


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A plan, and the ways in to the nodes that it needs."""

    job: Job
    plan: Plan
    fleet: Fleet | None = None


@dataclass(frozen=True, kw_only=True)
class Approach:
    """Named nodes, not entered yet: how they will be, and what they will be asked."""

    backend: Nodes
    job: Job
    wish: Wish
    fleet: Fleet
    copies: tuple[tuple[str, ...], ...] = ()


@contextmanager
def prepare(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    progress: Callable[[str, int], None] | None = None,
) -> Iterator[Ready]:
    """Make the job and its plan. At the end the ways in to the nodes are closed.

    Changes nothing, but that the working folder is copied to the nodes where that was asked for and `progress` is given
    (None: a dry run). `note` gets what a person should know. Raises UsageError, LaunchError, PreflightError.
    """
    if registry.load(settings.backend).reach not in _NODES:
        yield here(settings, environ)
        return
    from ddpkit.execution import pool

    with approach(settings, environ, note, progress) as near:
        world = pool.survey(near.fleet, near.wish, note, strict=settings.preflight)
        plan = replace(near.backend.plan(near.job, world), sync=near.copies)
        yield Ready(job=near.job, plan=plan, fleet=near.fleet)


def here(settings: LaunchSettings, environ: Mapping[str, str]) -> Ready:
    """What runs on this machine, or is given to a scheduler from it. Raises UsageError."""
    kind, backend = backend_of(settings)
    _number_of_nodes(settings, kind.name)
    _no_hostfile(settings)
    return _here(settings, environ, kind, backend)


def backend_of(settings: LaunchSettings) -> tuple[type[registry.Launcher], registry.Launcher]:
    kind = registry.load(settings.backend)
    return kind, registry.build(kind, settings.options)


def for_later(settings: LaunchSettings, environ: Mapping[str, str]) -> Plan:
    """What a scheduler can be given at any time: no allocation of now, no folder of a run. Raises UsageError."""
    bare = {name: value for name, value in environ.items() if not name.startswith("SLURM_")}
    job = here(settings, bare).job
    kind, backend = backend_of(settings)
    request = local_facts.slurm(_number_of_nodes(settings, kind.name), _nproc(settings), bare)
    return backend.plan(replace(job, folder=""), request)


@contextmanager
def approach(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    progress: Callable[[str, int], None] | None = None,
) -> Iterator[Approach]:
    """Get ready to enter named nodes (see `prepare`). At the end the ways in are closed."""
    from ddpkit.execution import pool  # with all that it needs, for those who use it
    from ddpkit.execution.compatibility import Wish
    from ddpkit.transports.problem import refusal

    backend = backend_of(settings)[1]
    assert isinstance(backend, Nodes)
    specs = _specs(settings, backend)
    job = _remote_job(settings, environ, backend)
    script = job.command[0] if job.kind == "script" or (job.kind == "program" and "/" in job.command[0]) else None
    local = Path(job.workdir, script) if script else None
    wish = Wish(
        job=replace(job, workdir=backend.container_workdir or job.workdir),
        nproc_per_node=_nproc(settings),
        script=script,
        digest=hashlib.sha256(local.read_bytes()).hexdigest() if local and local.is_file() else "",
        torch=job.kind != "program" or backend.starter != "ranks",
        starter=backend.starter,
        master_addr=backend.master_addr,
        master_port=backend.master_port,
        here=Path(job.workdir).is_dir(),
        copied=progress is not None or not settings.sync,
        min_nodes=settings.nnodes[0] if isinstance(settings.nnodes, tuple) else None,
    )
    way = pool.open_way(backend, note)
    copies = _copies(settings, backend, specs, job)
    if copies and progress is not None:
        from ddpkit.execution import rsync

        problems = rsync.copy(specs, copies, progress)
        if problems:
            raise refusal(problems, len(specs))
    # The supervisor of a node with a container is in there: what it says of Python and torch is the image's.
    fleet = pool.Fleet(
        specs,
        way,
        backend.heartbeat_timeout,
        job.python,
        lambda spec: backend.node_container(replace(job, workdir=spec.workdir or job.workdir)),
    )
    try:
        yield Approach(backend=backend, job=job, wish=wish, fleet=fleet, copies=copies)
    finally:
        fleet.close()


def elsewhere(
    settings: LaunchSettings, environ: Mapping[str, str], spec: HostSpec, progress: Callable[[str, int], None]
) -> tuple[str, str, dict[str, str]]:
    """Folder, Python and variables for a launcher on another host. Copies the folder there if that was asked for."""
    from ddpkit.execution import rsync
    from ddpkit.transports.problem import refusal

    workdir = str(Path(settings.workdir).absolute())
    if settings.sync:
        copies = rsync.commands([spec], workdir, settings.log_dir, AWAY_TIMEOUT, accept_new=False)
        problems = rsync.copy([spec], copies, progress)
        if problems:
            raise refusal(problems, 1)
    return spec.workdir or workdir, spec.python or settings.python, _remote_env(settings, environ)


def _copies(settings: LaunchSettings, backend: Nodes, specs: list[HostSpec], job: Job) -> tuple[tuple[str, ...], ...]:
    if not settings.sync:
        return ()
    from ddpkit.execution import rsync

    timeout = backend.connect_timeout
    return tuple(rsync.commands(specs, job.workdir, settings.log_dir, timeout, accept_new=backend.accepts_new))


def _here(settings: LaunchSettings, environ: Mapping[str, str], kind: Any, backend: registry.Launcher) -> Ready:
    """What runs on this machine, or is given to the scheduler from it."""
    workdir = Path(settings.workdir).absolute()
    if not workdir.is_dir():
        raise UsageError(f"there is no folder {workdir}", "--workdir DIR names the ranks' working folder")
    command = settings.script
    image = str(getattr(backend, "container", ""))
    if image and kind.reach == "local" and containers.is_file(image) and not (workdir / image).exists():
        raise UsageError(f"there is no image {image} in {workdir}", f"ls {workdir}; -o container=FILE or docker://NAME")
    env = settings.env
    # Only the working folder is the same in the container, and only where it keeps its name.
    mounted = command[0].endswith(".py") and not command[0].startswith("/")
    elsewhere = bool(image) and (bool(getattr(backend, "container_workdir", "")) or not mounted)
    form = _kind_inside(command) if elsewhere else _kind(command, workdir, settings.source("script"))
    job = _job(settings, command, form, str(workdir), _python(settings, inside=bool(image)), env)
    if kind.reach in registry.SCHEDULERS:
        _no_hosts(settings)
        ask = local_facts.slurm if kind.reach == "slurm" else local_facts.scheduler
        return Ready(
            job=job, plan=backend.plan(job, ask(_number_of_nodes(settings, kind.name), _nproc(settings), environ))
        )
    _one_machine(settings, kind.name)
    return Ready(job=job, plan=backend.plan(job, local_facts.this_machine(_nproc(settings), {**environ, **env})))


def _remote_job(settings: LaunchSettings, environ: Mapping[str, str], backend: Nodes) -> Job:
    """A job whose folder and Python are the nodes' to know; they are looked at there."""
    command = settings.script
    workdir = settings.workdir
    if not workdir.startswith("~"):  # a home folder is the node's to know
        workdir = str(Path(workdir).absolute())
    python = _python(settings, inside=True) if backend.container else settings.python
    if not backend.container and "/" in python and not python.startswith(("/", "~/")):
        python = str(Path(python).absolute())
    known = Path(workdir).is_dir() and not backend.container_workdir
    kind = _kind(command, Path(workdir), settings.source("script")) if known else _kind_inside(command)
    return _job(settings, command, kind, workdir, python, _remote_env(settings, environ))


def _job(
    settings: LaunchSettings,
    command: tuple[str, ...],
    kind: Literal["script", "module", "program"],
    workdir: str,
    python: str,
    env: Mapping[str, str],
) -> Job:
    job = Job(
        run_id=record.new_id(command),
        command=command,
        kind=kind,
        workdir=workdir,
        python=python,
        env={name: guard(name, value) for name, value in env.items()},
        grace=settings.grace,
    )
    return replace(job, folder=str(Path(settings.log_dir).absolute() / job.run_id))


def _remote_env(settings: LaunchSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """What ranks, or a launcher, on another machine are told: what is passed on unasked, then what was named."""
    passed_on = {name: value for name, value in environ.items() if name.startswith(FORWARDED)}
    return {**passed_on, **settings.env}


def _nproc(settings: LaunchSettings) -> int | None:
    """Ranks on each node; None: one per GPU."""
    return None if settings.nproc_per_node == "auto" else settings.nproc_per_node


def _number_of_nodes(settings: LaunchSettings, backend: str) -> int | None:
    """The number of nodes for a backend that takes no MIN:MAX. None: not given."""
    if isinstance(settings.nnodes, tuple):
        raise UsageError(f"backend {backend} takes one number of nodes", "-b ssh and -b pdsh take -N MIN:MAX")
    return settings.nnodes


def _specs(settings: LaunchSettings, backend: Nodes) -> list[HostSpec]:
    """The nodes by name, as many of them as were asked for."""
    from ddpkit.transports import hosts

    _no_scripts_among_hosts(settings)
    if backend.heartbeat_timeout and not 1 <= backend.heartbeat_timeout <= DAY:
        raise UsageError(
            f"-o heartbeat_timeout={backend.heartbeat_timeout:g}: seconds, 1 to {DAY:.0f}",
            "0 turns it off; 30 is usual",
        )
    if not 0 < backend.connect_timeout <= 600:
        raise UsageError(f"-o connect_timeout={backend.connect_timeout:g}: seconds, more than 0 and at most 600")
    hosts.check_master(backend.master_addr, backend.master_port)
    if settings.hosts and settings.hostfile and settings.source("hosts") == settings.source("hostfile"):
        raise UsageError("hosts were named twice, as words and in a host file", "leave one of the two out")
    words_win = settings.hosts and settings.source("hosts") == "flag"
    if settings.hostfile and not words_win:
        path = settings.hostfile
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the host file {path}: {error}", "--hostfile FILE") from None
        specs = hosts.parse_file(path, text, settings.host, backend.exclude, settings.groups)
    else:
        specs = hosts.parse(settings.hosts, settings.groups, settings.host, backend.exclude)
    if not specs:
        raise UsageError(
            f"backend {backend.name} needs the names of nodes", f"ddpkit launch -b {settings.backend} node1 node2"
        )
    asked = settings.nnodes
    if isinstance(asked, tuple):
        backend.check(elastic=True)
        asked = min(asked[1], max(asked[0], len(specs)))
    if asked and asked > len(specs):
        raise UsageError(
            f"-N {asked}: {len(specs)} {'host was' if len(specs) == 1 else 'hosts were'} named", f"-N {len(specs)}"
        )
    if settings.nproc_per_node != "auto":
        # What was asked for on the command line is stronger than a file's slots.
        stronger = settings.source("nproc_per_node") == "flag"
        specs = [replace(spec, slots=None if stronger else spec.slots) for spec in specs]
    return specs[: asked or len(specs)]


def _python(settings: LaunchSettings, *, inside: bool) -> str:
    """The ranks' interpreter. What is in a container cannot be looked up here."""
    if inside:
        return "python3" if settings.source("python") == "default" else settings.python
    python = shutil.which(settings.python)
    if python is None:
        raise UsageError(f"there is no Python at {settings.python}", "--python /path/to/python")
    # Absolute, but not resolved: a virtual environment is found by the place of its link.
    return os.path.abspath(str(python))  # noqa: PTH100


def _check_flag(command: tuple[str, ...]) -> None:
    if command in (("-m",), ("-c",)):
        what = "the name of a module" if command == ("-m",) else "Python code"
        raise UsageError(f"{command[0]} needs {what}", "ddpkit launch -- -m pkg.train ARGS")


def _kind_inside(command: tuple[str, ...]) -> Literal["script", "module", "program"]:
    """How the first word is started where it cannot be looked up, in a container or on a node: by its form alone."""
    _check_flag(command)
    return "module" if command[0] in _PYTHONS_OWN else "script" if command[0].endswith(".py") else "program"


def left_alone(settings: LaunchSettings, environ: Mapping[str, str]) -> str | None:
    """The SLURM job whose nodes a run on this machine leaves alone, in words; None where there is none."""
    return local_facts.left_alone(environ) if settings.backend == "local" else None


def _no_hosts(settings: LaunchSettings) -> None:
    """The scheduler chooses the nodes."""
    if settings.hosts:
        hosts = ",".join(settings.hosts)
        raise UsageError(
            f"backend {settings.backend} gets its nodes from its scheduler, and these were named: {hosts}",
            f"-N COUNT asks for nodes; with SLURM -o nodelist={hosts} asks for these",
        )


def _kind(command: tuple[str, ...], workdir: Path, source: str) -> Literal["script", "module", "program"]:
    """How the first word is started; an error where it cannot be."""
    first = command[0]
    if first in _PYTHONS_OWN:
        _check_flag(command)
        return "module"
    path = workdir / first
    if first.endswith(".py"):
        if not path.is_file():
            hint = "ddpkit launch -- SCRIPT ARGS" if source == "default" else f"ls {workdir}"
            raise UsageError(f"there is no script {first} in {workdir}", hint)
        return "script"
    if "/" in first or path.is_file():
        if not path.is_file():
            raise UsageError(f"there is no program {first} in {workdir}", f"ls {workdir}")
        if not os.access(path, os.X_OK):
            raise UsageError(f"{path} may not be executed", f"chmod +x {path}, or name its interpreter in front of it")
        if "/" not in first:
            raise UsageError(f"{first} is a file here, but not a program on PATH", f"ddpkit launch -- ./{first} ARGS")
        return "program"
    if shutil.which(first) is None:
        raise UsageError(f"there is no program {first} on PATH and no such file in {workdir}", "-- train.py ARGS")
    return "program"


def _no_scripts_among_hosts(settings: LaunchSettings) -> None:
    for host in settings.hosts:
        if host.endswith(".py") or Path(settings.workdir, host).is_file():
            raise UsageError(
                f"{host} stands where hosts stand; the script comes behind `--`", f"ddpkit launch -- {host} ARGS"
            )


def _no_hostfile(settings: LaunchSettings) -> None:
    if settings.sync:
        raise UsageError(f"backend {settings.backend} copies nothing", "-b ssh and -b pdsh take --sync")
    if settings.hostfile:
        raise UsageError(
            f"backend {settings.backend} reads no host file, and one was named: {settings.hostfile}",
            "-b ssh or -b pdsh goes to the hosts of a file",
        )


def _one_machine(settings: LaunchSettings, backend: str) -> None:
    """The local backend has one host, and it is this one."""
    _no_scripts_among_hosts(settings)
    here = ("localhost", "127.0.0.1", local_facts.short_hostname())
    hosts = [host for host in settings.hosts if host not in here]
    asked = _number_of_nodes(settings, backend) or 1
    if len(settings.hosts) > 1 or hosts:
        raise UsageError(
            f"backend local runs on this machine only, and these hosts were named: {' '.join(settings.hosts)}",
            "leave the hosts out, or choose a backend that reaches them: ddpkit backends",
        )
    if asked > 1:
        raise UsageError(
            f"backend local runs on this machine only, and -N {asked} was asked for",
            "leave -N out, or choose a backend that reaches more nodes: ddpkit backends",
        )
