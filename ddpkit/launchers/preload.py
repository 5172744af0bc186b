"""Options for a fast start: `preload` (imports once a node, then forks) and `stage` (local copies). Pure."""

from __future__ import annotations

from typing import Any

from ddpkit.errors import UsageError
from ddpkit.launchers.containers import option
from ddpkit.launchers.plan import Job


def preload_option(where: str = "") -> Any:
    doc = f"import `true` (torch) or a list of modules once per node, then fork the ranks{where}"
    return option("", doc, "true")


def preload_modules(text: str, job: Job) -> tuple[str, ...]:
    """Return the modules of the option; none where it is off. Raises UsageError."""
    if text.lower() in ("", "false", "no", "off", "0"):
        return ()
    if job.kind == "program":
        raise UsageError(
            f"-o preload requires a Python script, and {job.command[0]} is another program", "add --no-preload"
        )
    if text.lower() in ("true", "yes", "on", "1"):
        return ("torch",)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(
                f"-o preload={text}: {name!r} is not the name of a Python module", "add --preload=torch,numpy"
            )
    return names


def stage_option() -> Any:
    """The option for local copies of the project."""
    return option(
        "off",
        "run the script from a copy of the project on the local disk of each node; env: and the virtual environment; "
        "FILE.tar.gz: and this archive of conda-pack",
        "project",
    )


def is_conda_archive(stage: str) -> bool:
    """Tell whether a value of `stage` is the name of an archive. Raises UsageError for one that means nothing."""
    if stage.endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
        return True
    if stage not in ("off", "project", "env"):
        raise UsageError(f"-o stage={stage}: off, project, env, or an archive of conda-pack", "add --stage=env.tar.gz")
    return False


def stage_dir_option() -> Any:
    """The option for the directory of these copies."""
    return option("", "directory for that cache; default: /tmp; copies are in ddpkit-stage-UID there")
