"""The directory of a run: who may write to it, which names in it are ddpkit's, and what a script saves there."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT

from ddpkit.node import owned
from ddpkit.run import run_files

SCRIPT = Callable[[str], str]

SAVES = """
import json, os
folder = os.path.join("logs", os.environ["DDPKIT_RUN"])
state = os.path.join(folder, "checkpoint.pt")
attempt = 1 + (int(open(state).read()) if os.path.exists(state) else 0)
open(state, "w").write(str(attempt))
os.makedirs(os.path.join(folder, "samples"), exist_ok=True)
os.makedirs(os.path.join(folder, "attempt-1"), exist_ok=True)  # a name of ddpkit's
open(os.path.join(folder, "attempt-1", "weights.pt"), "a").write(str(attempt))
with open(os.path.join(folder, "metrics.jsonl"), "a") as file:
    file.write(json.dumps({"step": attempt}) + "\\n")
with open("metrics.jsonl", "a") as file:  # as another program would
    file.write(json.dumps({"step": 99}) + "\\n")
print("began at", attempt, flush=True)
raise SystemExit(0 if attempt == 3 else 75)
"""


def folder_of(done: subprocess.CompletedProcess[str]) -> Path:
    return Path(json.loads(done.stdout)["folder"])


def test_what_a_script_saves_there_stays_for_the_next_attempt(ddpkit: DDPKIT, script: SCRIPT) -> None:
    done = ddpkit("launch", "-n", "1", "--json", "--retries", "4", "--", script(SAVES))
    assert done.returncode == 0, done.stderr
    folder = folder_of(done)
    assert (folder / "checkpoint.pt").read_text() == "3"
    assert (folder / "rank_0.log").read_text() == "began at 3\n"
    assert (folder / "attempt-1/rank_0.log").read_text() == "began at 1\n"
    assert (folder / "attempt-1/weights.pt").read_text() == "123"
    assert (folder / "metrics.jsonl").read_text() == '{"step": 1}\n{"step": 2}\n{"step": 3}\n'
    assert not (folder / "metrics_kept.jsonl").exists()
    assert run_files.foreign_names(folder) == ["attempt-1/weights.pt", "checkpoint.pt", "metrics.jsonl", "samples"]
    found = json.loads(ddpkit("report", str(folder), "--json").stdout)
    assert str(found).count("99") == 0 or found["metrics"] == str(folder / "metrics.jsonl")


def test_metrics_of_the_working_directory_are_kept(ddpkit: DDPKIT, script: SCRIPT) -> None:
    job = script("import json\nopen('metrics.jsonl', 'w').write(json.dumps({'step': 1, 'loss': 2.0}) + '\\n')\n")
    folder = folder_of(ddpkit("launch", "-n", "1", "--json", "--", job))
    assert (folder / "metrics_kept.jsonl").read_text() == '{"step": 1, "loss": 2.0}\n'
    assert run_files.foreign_names(folder) == []


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_nobody_else_can_write_to_it(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path, umask: int) -> None:
    job = script("import sys\nprint('x')\nsys.exit(75)")
    before = os.umask(umask)
    try:
        done = ddpkit("launch", "-n", "2", "--json", "--retries", "1", "--", job, env={"DDPKIT_ON_END": "true"})
        folder = folder_of(done)
        ddpkit("report", str(folder))
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, *folder.rglob("*"))}
    assert not {path: oct(mode) for path, mode in modes.items() if mode & 0o022 or mode & 0o777 & umask}
    assert modes[folder / "launch.json"] == 0o600
    assert modes[folder] == 0o755 & ~umask
    assert len(modes) > 10


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint.pt", "metrics.jsonl", "model.safetensors", "samples", "rank_0.pt", "rank_x.log", "train.log",
        "run.json.bak", "attempt-", "attempt-1.tar", "slurm.out", "dump-mine", "jobs.sbatch", "job.pt", ".env",
        ".run.json.swp", "all.log.1", "rank_1.from_.log", "hosts.txt", "logs", "stage.py", "events.out.tfevents.1",
    ],
)  # fmt: skip
def test_names_of_a_script(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    assert run_files.foreign_names(tmp_path) == [name]


@pytest.mark.parametrize(
    "name",
    ["run.json", "rank_12.log", "rank_12.from_65536.log", "all.index", "all.from_0.index", "ddpkit.log",
     "torchrun_node1.cluster.log", "slurm-17.out", "slurm-17_3.out",
     "dump-20260131-235959-2/rank_0.json", ".run.json.0123456789abcdef", "attempt-3/all.log", "marks/job", "marks/17_3",
     owned.MARKER, "metrics_kept.jsonl", "__pycache__/daemons.cpython-38.pyc", "stage/.owned.py.0123456789abcdef",
     "stage/node1.cluster.json", "stage/__pycache__/stage_lock.cpython-311.pyc", "stage/contents.json"],
)  # fmt: skip
def test_names_of_ddpkit(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    if name.startswith("stage/"):
        (tmp_path / "stage/stage_task.py").touch()
    assert run_files.foreign_names(tmp_path) == []


@pytest.mark.parametrize("name", ["stage/data-abc.tar", "stage/config.json", "preload/spec.json", "call/value.1"])
def test_a_directory_with_a_name_of_ddpkits_and_without_its_programs(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).touch()
    assert run_files.foreign_names(tmp_path) == [name.partition("/")[0]]


def test_the_test_of_a_suspect_is_a_run_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    owned.make_directory(str(tmp_path / "tests/20260131-235959-test-0a1b"), run_files.KIND)
    (tmp_path / "tests/20260131-235959-test-0a1b/all.log").touch()
    assert run_files.foreign_names(tmp_path) == []
    (tmp_path / "tests/20260131-235959-test-0a1b/mine.pt").touch()
    assert run_files.foreign_names(tmp_path) == ["tests/20260131-235959-test-0a1b/mine.pt"]


@pytest.mark.parametrize(("backend", "foreign"), [("local", True), ("ssh", True), ("slurm-srun", False)])
def test_names_that_only_a_job_has(backend: str, foreign: bool, tmp_path: Path) -> None:
    """A script may save under such a name where ddpkit writes none."""
    (tmp_path / "run.json").write_text(json.dumps({"backend": backend}))
    (tmp_path / "rank_0.log").touch()
    names = ["attempts.json", "connection", "owned.py", "preload/sitecustomize.py", "slurm-12.out", "task.json"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names = [name.partition("/")[0] for name in names]
    assert run_files.foreign_names(tmp_path) == (sorted(names) if foreign else [])


@pytest.mark.parametrize("name", ["dump", "attempt", "run"])
def test_a_directory_with_the_name_of_a_kind_is_a_scripts(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "rank_0.json").touch()
    assert run_files.foreign_names(tmp_path) == [name]


PLANT = """
import os, sys
target, folder = sys.argv[1:]
for name in ("status.json", "timeline.json", "run.json", "on_end.log", "report.html", "metrics_kept.jsonl"):
    path = os.path.join(folder, name)
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink(target, path)
"""


def test_links_in_it_lead_nowhere(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """As if the directory were writable by others: what they plant is not written through."""
    target = tmp_path / "bashrc"
    target.write_text("alias ll='ls -l'\n")
    (tmp_path / "plant.py").write_text(PLANT)
    (tmp_path / "job.py").write_text(
        "import os, subprocess, sys, time\n"
        f"words = [sys.executable, 'plant.py', {str(target)!r}, 'logs/' + os.environ['DDPKIT_RUN']]\n"
        "subprocess.run(words, check=True)\n"
        "open('metrics.jsonl', 'w').write('{\"step\": 1}\\n')\n"
    )
    done = ddpkit("launch", "-n", "1", "--", "job.py", env={"DDPKIT_ON_END": "echo over"})
    assert "Traceback" not in done.stderr
    (folder,) = (tmp_path / "logs").iterdir()
    report = ddpkit("report", str(folder))
    assert "Traceback" not in report.stderr
    assert target.read_text() == "alias ll='ls -l'\n"


# ---- report


@pytest.fixture
def ended(ddpkit: DDPKIT, script: SCRIPT) -> Path:
    return folder_of(ddpkit("launch", "-n", "1", "--json", "--", script("print('x')")))


def test_a_report_replaces_nothing_unless_it_is_said(ddpkit: DDPKIT, ended: Path, tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text("import torch\n")
    refused = ddpkit("report", str(ended), "-o", "train.py")
    assert refused.returncode == 121
    assert refused.stderr == (
        "ddpkit: error: --output train.py: the file exists\nhint: --output train-2.py, or add --force\n"
    )
    assert train.read_text() == "import torch\n"
    assert ddpkit("report", str(ended), "-o", "page.html").returncode == 0
    assert ddpkit("report", str(ended), "-o", "page.html").returncode == 121
    assert ddpkit("report", str(ended), "-o", "page.html", "--force").returncode == 0


@pytest.mark.parametrize("what", ["link", "dangling", "device", "pipe", "directory"])
def test_a_report_never_replaces_what_is_no_file(ddpkit: DDPKIT, ended: Path, tmp_path: Path, what: str) -> None:
    path, target = tmp_path / "out.html", tmp_path / "target"
    if what in ("link", "dangling"):
        path.symlink_to(target)
    if what == "link":
        target.write_text("mine")
    if what == "pipe":
        os.mkfifo(path)
    if what == "directory":
        path.mkdir()
    name = "/dev/null" if what == "device" else str(path)
    for more in ([], ["--force"]):
        done = ddpkit("report", str(ended), "-o", name, *more)
        assert (done.returncode, done.stdout) == (121, ""), done.stderr
        assert "Traceback" not in done.stderr
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)  # noqa: PTH116
    assert not target.exists() or target.read_text() == "mine"


def test_the_page_of_a_run_is_written_again(ddpkit: DDPKIT, ended: Path) -> None:
    page: Any = ended / "report.html"
    for _ in range(2):
        assert ddpkit("report", str(ended)).returncode == 0
    page.write_text("<!DOCTYPE html>\nmy notes on this run\n")
    assert ddpkit("report", str(ended)).returncode == 121
    assert page.read_text().endswith("my notes on this run\n")
    assert ddpkit("report", str(ended), "--force").returncode == 0


HALF = """
import sys
from ddpkit.run.timeline import Timeline, read
from pathlib import Path
line = Timeline(Path(sys.argv[1]), 1)
for number in range(100_000):
    line.record("node1", {"e": "mark", "rank": 0, "name": f"m{number}", "t": float(number)})
line.write()
"""


def test_the_marks_of_a_rank_have_a_bound(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", HALF, str(tmp_path)], check=True, cwd=Path(__file__).parents[2])
    assert (tmp_path / "timeline.json").stat().st_size < 10_000
