"""Files that a plan needs, in a run's directory."""

from __future__ import annotations

import os
from pathlib import Path

from ddpkit.execution.executor import write_files
from ddpkit.launchers.plan import File, Plan
from ddpkit.machine import HERE


def test_no_other_user_changes_a_program_of_the_ranks(tmp_path: Path) -> None:
    hook = tmp_path / "hook" / "sitecustomize.py"
    before = os.umask(0)
    try:
        files = (File(path=str(hook), copy_of="rank_hook"), File(path=str(tmp_path / "job.sh"), text="true\n"))
        write_files(Plan(run_id="x", backend="x", steps=(), world_size=1, grace=1.0, files=files), HERE.write)
    finally:
        os.umask(before)
    assert hook.read_text().startswith('"""')
    modes = [path.stat().st_mode & 0o777 for path in (hook.parent, hook, tmp_path / "job.sh")]
    assert modes == [0o755, 0o600, 0o600]
