"""Files that another user can have put in a place are read within a bound, and no pipe or device is waited for."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest
from conftest import DDPKIT

from ddpkit.console.progress import Metrics
from ddpkit.execution import job
from ddpkit.files import LIMIT
from ddpkit.run import metrics

PACKAGE = Path(__file__).parents[1] / "ddpkit"
# Whole reads outside of `files.py` are of these: of the kernel, of ddpkit's own package and private directories, of the
# user's own SSH configuration, and of an environment's own description.
ALLOWED = {
    "cli/setup.py": 1,  # templates
    "diagnosis/catalogue/built.py": 5,  # the package, and the build beside it
    "distributed/torch.py": 2,  # the kernel's topology of GPUs
    "execution/stage.py": 2,  # a file of the project, opened without links; pyvenv.cfg
    "preflight/rank_program.py": 3,  # the package
    "run/launcher_process.py": 5,  # the kernel
    "run/timeline.py": 1,  # the kernel
    "run/tmux.py": 2,  # a private directory, the kernel
    "transports/ssh/config.py": 1,
    "transports/ssh/keys.py": 3,
    "transports/ssh/openssh.py": 2,  # a private directory
    "transports/ssh/program.py": 2,
}
_READS = re.compile(r"\.read_(?:text|bytes)\(|\.open\(\"r")


def test_files_are_read_through_one_module() -> None:
    found: dict[str, int] = {}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        number = len(_READS.findall(path.read_text()))
        if number and not name.startswith(("node/", "files.py")):
            found[name] = number
    assert found == ALLOWED


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A directory whose files are pipes that nobody writes to."""
    for name in ("metrics.jsonl", "pyproject.toml", "hosts", "job.py"):
        os.mkfifo(tmp_path / name)
    return tmp_path


def test_a_pipe_is_no_metrics_file(planted: Path) -> None:
    reader = Metrics(lambda: planted / "metrics.jsonl")
    reader.read()
    assert reader.last.step is None
    assert metrics.read(planted / "metrics.jsonl") == []


def test_what_somebody_else_remembered_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / metrics.NAME).write_text(json.dumps({"step": 1}) + "\n")
    os.mkfifo(tmp_path / metrics.BEFORE)
    assert metrics.read(tmp_path / metrics.NAME, tmp_path) == [{"step": 1}]


def test_commands_wait_for_no_pipe(ddpkit: DDPKIT, planted: Path) -> None:
    assert ddpkit("init", "--dry-run").returncode in (0, 121)
    for file in ("hosts", "/dev/zero"):
        line = f"ddpkit launch -b ssh --hostfile {file} "
        env = {"_DDPKIT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": "6"}
        done = ddpkit(env=env)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


def test_a_pipe_is_no_script_and_is_not_waited_for(ddpkit: DDPKIT, planted: Path) -> None:
    done = ddpkit("launch", "-n", "1", "--dry-run", "--", "job.py")
    assert "Traceback" not in done.stderr


def test_a_program_of_any_size_has_a_digest(tmp_path: Path) -> None:
    (tmp_path / "image.sif").touch()
    os.truncate(tmp_path / "image.sif", 3 * LIMIT + 1)
    assert job.digest_of(tmp_path / "image.sif") == hashlib.sha256(bytes(3 * LIMIT + 1)).hexdigest()
