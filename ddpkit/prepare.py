"""Turns settings into a plan, and refuses what cannot run before anything is made or started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ddpkit import launchers, runs, survey
from ddpkit.config import Settings
from ddpkit.errors import UsageError
from ddpkit.plan import Job, Plan, Request, World, guard


def prepare(settings: Settings, environ: Mapping[str, str]) -> tuple[Job, Plan]:
    """Make the job and its plan. Asks this machine for facts, changes nothing. Raises UsageError."""
    kind = launchers.load(settings["backend"])
    backend = launchers.build(kind, {name: setting.value for name, setting in settings.options.items()})
    workdir = Path(settings["workdir"]).absolute()
    if not workdir.is_dir():
        raise UsageError(f"there is no folder {workdir}", "--workdir DIR names the ranks' working folder")
    command = tuple(settings["script"])
    python = shutil.which(settings["python"])
    if python is None:
        raise UsageError(f"there is no Python at {settings['python']}", "--python /path/to/python")
    env = {name: setting.value for name, setting in settings.env.items()}
    job = Job(
        run_id=runs.new_id(command),
        command=command,
        kind=_kind(command, workdir, settings.source("script")),
        workdir=str(workdir),
        # Absolute, but not resolved: a virtual environment is found by the place of its link.
        python=os.path.abspath(python),  # noqa: PTH100
        env={name: guard(name, value) for name, value in env.items()},
        grace=settings["grace"],
    )
    job = replace(job, folder=str(Path(settings["log_dir"]).absolute() / job.run_id))
    nproc = None if settings["nproc_per_node"] == "auto" else settings["nproc_per_node"]
    world: World | Request
    if kind.reach == "slurm":
        _no_hosts(settings)
        world = survey.slurm(settings["nnodes"], nproc, environ)
    else:
        _one_machine(settings)
        world = survey.this_machine(nproc, {**environ, **env})
    return job, backend.plan(job, world)


def left_alone(settings: Settings, environ: Mapping[str, str]) -> str | None:
    """The SLURM job whose nodes a run on this machine leaves alone, in words; None where there is none."""
    return survey.left_alone(environ) if settings["backend"] == "local" else None


def _no_hosts(settings: Settings) -> None:
    """The scheduler chooses the nodes."""
    if settings["hosts"]:
        hosts = ",".join(settings["hosts"])
        raise UsageError(
            f"backend {settings['backend']} gets its nodes from SLURM, and these were named: {hosts}",
            f"-N COUNT asks for nodes; -o nodelist={hosts} asks for these",
        )


def _kind(command: tuple[str, ...], workdir: Path, source: str) -> Literal["script", "module", "program"]:
    """How the first word is started; an error where it cannot be."""
    first = command[0]
    if first == "-m":
        if len(command) == 1:
            raise UsageError("-m needs the name of a module", "ddpkit launch -- -m pkg.train ARGS")
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


def _one_machine(settings: Settings) -> None:
    """The local backend has one host, and it is this one."""
    for host in settings["hosts"]:
        if host.endswith(".py") or Path(settings["workdir"], host).is_file():
            raise UsageError(
                f"{host} stands where hosts stand; the script comes behind `--`", f"ddpkit launch -- {host} ARGS"
            )
    here = ("localhost", "127.0.0.1", survey.short_hostname())
    hosts = [host for host in settings["hosts"] if host not in here]
    asked = settings["nnodes"] or 1
    if len(settings["hosts"]) > 1 or hosts:
        raise UsageError(
            f"backend local runs on this machine only, and these hosts were named: {' '.join(settings['hosts'])}",
            "leave the hosts out, or choose a backend that reaches them: ddpkit backends",
        )
    if asked > 1:
        raise UsageError(
            f"backend local runs on this machine only, and -N {asked} was asked for",
            "leave -N out, or choose a backend that reaches more nodes: ddpkit backends",
        )
