"""A rank as SLURM starts it with `--observe`, without SLURM: what it tells through its run's folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE

from ddpkit.node.bundle import NAME, write_bundle


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run, as the plan of a SLURM backend makes it."""
    (tmp_path / "run/marks").mkdir(parents=True)
    write_bundle(str(tmp_path / "run"))
    # Stands for torch: what is watched is the import of something of this name.
    (tmp_path / "torch.py").write_text("")
    return tmp_path / "run"


def start(run: Path, text: str, **env: str) -> subprocess.Popen[str]:
    (run.parent / "job.py").write_text(text)
    mine = {
        "DDPKIT_HOOK": f"{run}/{NAME}",
        "PYTHONPATH": f"{run}/{NAME}",
        "PYTHONUNBUFFERED": "1",
        "DDPKIT_OBSERVE": "start",
    }
    return subprocess.Popen(
        [sys.executable, "job.py"],
        cwd=run.parent,
        env={**os.environ, **mine, "RANK": "3", "SLURMD_NODENAME": "node2", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, error = process.communicate(timeout=PATIENCE)
    return process.returncode, out + error


def told(run: Path, name: str = "3") -> list[list[str]]:
    return [line.split() for line in (run / "marks" / name).read_text().splitlines()]


def test_marks(run: Path) -> None:
    before = time.time()
    # A write may last as long as a slow disk wants: the next one comes when it is over.
    wait = "import os, time, torch\nwhile 'imported' not in open('run/marks/3').read():\n    time.sleep(0.01)\n"
    (run / "marks/3").touch()
    assert end(start(run, wait)) == (0, "")
    assert [line[:-1] for line in told(run)] == [
        ["start", "3", "node2"],
        ["mark", "3", "python"],
        ["mark", "3", "import"],
        ["mark", "3", "imported"],
    ]
    times = [float(line[-1]) for line in told(run)]
    assert before - 0.1 < times[0]  # the kernel counts in hundredths
    assert times[1:] == sorted(times[1:])
    assert times[-1] < time.time()


def test_a_script_that_does_not_know_torch(run: Path) -> None:
    assert end(start(run, "import threading\nprint(threading.active_count())")) == (0, "1\n")
    assert not (run / "marks/3").exists()


def test_an_array_has_a_file_for_each_of_its_jobs(run: Path) -> None:
    wait = "import os, time, torch\nwhile not os.path.exists('run/marks/7_3'):\n    time.sleep(0.01)\n"
    assert end(start(run, wait, SLURM_ARRAY_TASK_ID="7")) == (0, "")


STEPS = """
import sys, time
sys.path.append("run/ddpkit.zip/node")
import rank_events_file
tell = rank_events_file.start("run/marks", "3")
tell("mark", "3", "step", time.time())
tell.__self__.first -= 1e5  # it runs for a day
for step in range(2000):
    tell("steps", "3", 10, "5.0", "0.6", 9, "4.0", str(step))
"""


def test_steps_of_a_long_run_are_few_lines(run: Path) -> None:
    assert end(start(run, STEPS)) == (0, "")
    steps = [[float(word) for word in line[2:]] for line in told(run) if line[0] == "steps"]
    assert len(steps) == 13  # of 782 s, a 128th part of the day, and what was left at the end
    assert [sum(column) for column in list(zip(*steps, strict=True))[:2]] == [20000, 10000]
    assert {line[2] for line in steps} == {0.6}
    assert [line[5] for line in steps][-1] == 1999


PLACES: dict[str, Callable[[Path], None]] = {
    "hangs": os.mkfifo,  # to open it lasts until somebody reads
    "is full": lambda path: path.symlink_to("/dev/full"),
    "is gone": lambda path: path.parent.rmdir(),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_file_system_that(name: str, run: Path) -> None:
    PLACES[name](run / "marks/3")
    began = time.monotonic()
    for _ in range(3):
        assert end(start(run, STEPS.replace("for step", "time.sleep(0.5)\nfor step"))) == (0, "")
        assert end(start(run, "import torch\nprint('on')")) == (0, "on\n")
    assert time.monotonic() - began < 60  # none of them waited for it
    if name == "hangs":
        reader = os.open(run / "marks/3", os.O_RDONLY | os.O_NONBLOCK)
        assert os.read(reader, 100) == b"", "nobody is left who would write"
        os.close(reader)
