"""Files that a plan needs, in a run's directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpkit.errors import UsageError
from ddpkit.execution.executor import write_files
from ddpkit.launchers.plan import File, Plan
from ddpkit.machine import HERE
from ddpkit.node.bundle import NAME

SPEC = {
    "run": "x", "grace": 1.0, "ranks": [1], "by_node": False, "groups": [], "agent": "srun", "preload": [],
    "cpus_per_task": [], "programs": [], "runtime": "", "lost": False, "silence": 0.0, "group_jobs": [], "marks": "",
}  # fmt: skip


def test_no_other_user_changes_a_program_of_the_ranks(tmp_path: Path) -> None:
    bundle, script = tmp_path / "run" / NAME, tmp_path / "job.sh"
    before = os.umask(0)
    try:
        files = (File(path=str(bundle), copy_of="bundle"), File(path=str(script), text="true\n"))
        write_files(Plan(run_id="x", backend="x", steps=(), world_size=1, grace=1.0, files=files), HERE.write)
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (bundle.parent, bundle, script)]
    assert modes == [0o755, 0o600, 0o600]


def test_a_copy_of_one_program_is_refused(tmp_path: Path) -> None:
    """A plug-in for an older version asks for it; it would get all of them in its place."""
    files = (File(path=str(tmp_path / "hook.py"), copy_of="process_tree"),)  # type: ignore[arg-type]
    plan = Plan(run_id="x", backend="mine", steps=(), world_size=1, grace=1.0, files=files)
    with pytest.raises(UsageError, match="backend mine: copy_of='process_tree'"):
        write_files(plan, HERE.write)
    assert not list(tmp_path.iterdir())


def test_programs_of_a_bundle_run_without_ddpkit(tmp_path: Path) -> None:
    files = (File(path=str(tmp_path / "run" / NAME), copy_of="bundle"),)
    write_files(Plan(run_id="x", backend="x", steps=(), world_size=1, grace=1.0, files=files), HERE.write)
    look = "import sys; print([each for each in sys.path if 'zip' in each], 'zipfile' in sys.modules)"
    (tmp_path / "task.json").write_text(json.dumps({**SPEC, "collected": False}))
    argv = [sys.executable, "-S", "-I", files[0].path, "step_task", str(tmp_path / "task.json")]
    env = {**os.environ, "RANK": "0", "SLURMD_NODENAME": "node1"}
    done = subprocess.run([*argv, sys.executable, "-c", look], env=env, capture_output=True, text=True, check=False)
    standard = [each for each in sys.path if each.endswith(".zip")]  # Python's own
    assert (done.returncode, done.stderr) == (0, "")
    assert f"[0 node1] {standard} False\n" in done.stdout
    assert [path.name for path in (tmp_path / "run").iterdir()] == [NAME]
