"""Files of a run under SLURM: whatever the umask, nobody else can write to them, and the ranks work."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from launching import BACKENDS, Launch, with_preload
from launching import folder as folder
from launching import launch as launch


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("umask", [0o000, 0o077])
@pytest.mark.thorough_for("0-torchrun", "63-preload")
def test_nobody_else_can_write_to_the_files_of_a_job(
    backend: str, umask: int, launch: Callable[..., Launch], folder: Path
) -> None:
    (folder / "job.py").write_text("import os\nopen('mine', 'w')\nprint('rank', os.environ['RANK'], flush=True)\n")
    before = ["sh", "-c", f'umask {umask:03o}; exec "$@"', "sh"]
    command = launch(*with_preload(["-b", backend, "-N", "2", "-n", "2", "--", "job.py"]), before=before)
    assert command.end() == 0, command.tail
    (run,) = (folder / "logs").iterdir()
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (run.parent, run, *run.rglob("*"))}
    assert not {str(path): oct(mode) for path, mode in modes.items() if mode & 0o022}
    for name in ("job.sbatch", "launch.json"):
        assert modes[run / name] == 0o600
    assert list(run.glob("slurm-*.out"))
    # A script's own files follow the umask.
    assert stat.S_IMODE((folder / "mine").stat().st_mode) == 0o666 & ~umask
