"""`uv run train.py`: the Python of the project, found by one `uv run` on this machine.

Else each rank would run uv, and all of them at once bring one environment up to date.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ddpkit.config import LaunchSettings
from ddpkit.errors import UsageError
from ddpkit.launchers.command_line import uv_project
from ddpkit.launchers.shell import join

_PRINT = ("python", "-c", "import sys; print(sys.executable)")


def resolve(settings: LaunchSettings, note: Callable[[str], None], *, dry: bool) -> LaunchSettings:
    """Replace `uv run` by its Python. `dry`: only describe it, because uv may install packages. Raises UsageError."""
    runner, script = uv_project(settings.script)
    if not runner or not Path(settings.workdir).is_dir():  # a directory of the nodes alone
        return settings
    if settings.is_given("python"):
        what = f"--python {settings.python}, and {join(runner)} before the script: only one can choose the Python"
        raise UsageError(what, f"remove --python {settings.python}")
    if dry:
        note(f"a launch runs `{join((*runner, *_PRINT))}` once; its Python starts the ranks")
        return settings
    note(f"asks uv once for the project's Python: {join(runner)} python")
    argv = [*runner, *_PRINT]
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
