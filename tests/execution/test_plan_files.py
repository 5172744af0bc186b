"""Files that a plan needs, in a run's directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ddpkit.execution.executor import write_files
from ddpkit.launchers.plan import File, Plan
from ddpkit.machine import HERE
from ddpkit.node.bundle import NAME


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


def test_programs_of_a_bundle_run_without_ddpkit(tmp_path: Path) -> None:
    files = (File(path=str(tmp_path / "run" / NAME), copy_of="bundle"),)
    write_files(Plan(run_id="x", backend="x", steps=(), world_size=1, grace=1.0, files=files), HERE.write)
    look = "import sys; print([each for each in sys.path if 'zip' in each], 'zipfile' in sys.modules)"
    argv = [sys.executable, "-S", "-I", files[0].path, "rank_wrapper", "--task", sys.executable, "-c", look]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    standard = [each for each in sys.path if each.endswith(".zip")]  # Python's own
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{standard} False\n", "")
    assert [path.name for path in (tmp_path / "run").iterdir()] == [NAME]
