"""A launcher whose clock is set during a run: no hang is missed or invented, and no length of time is below zero."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from program import Program

# The clock of the launcher's process alone, by the number in the file.
LAUNCHER = """
import runpy, sys, time
clock, file = time.time, sys.argv.pop(1)
time.time = lambda: clock() + float(open(file).read())
runpy.run_module("ddpkit", run_name="__main__", alter_sys=True)
"""
WAITS = """
import os, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
print("ready", flush=True)
while dist.get_rank() == 1 and not os.path.exists("go"):
    time.sleep(1)  # a rank that wakes often is at work
dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.live
@pytest.mark.parametrize("shift", [-3600, 3600])
def test_a_clock_that_is_set_during_a_run(shift: int, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    (tmp_path / "job.py").write_text(WAITS)
    clock = tmp_path / "clock"
    clock.write_text("0")
    words = ["launch", "-n", "2", "--hang-timeout", "6", "--", "job.py"]
    launch = Program([sys.executable, "-c", LAUNCHER, str(clock), *words], env=clean_environ, cwd=tmp_path)
    try:
        launch.wait_for("ready", 2)
        (tmp_path / "draft").write_text(str(shift))
        (tmp_path / "draft").replace(clock)
        launch.wait_for("this run hangs")
        seconds = re.search(r"this run hangs: no progress for (\d+) s", launch.text)
        assert seconds
        assert 6 <= int(seconds[1]) < 60
    finally:
        (tmp_path / "go").touch()
        code = launch.end()
    assert code == 0, launch.tail
    (record,) = tmp_path.glob("logs/*/run.json")
    run = json.loads(record.read_text())
    assert 0 < run["ended"] - run["started"] < 300
    assert re.search(r"done in \d", launch.text)


FAILS_ONCE = """
import os, sys, time
print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
sys.exit(7 if os.environ["DDPKIT_ATTEMPT"] == "1" else 0)
"""
ROLES = """
[roles.serve]
command = "serve.py"
ready = "line: serving"
[roles.train]
command = "job.py"
after = ["serve"]
ends_run = true
"""
SERVES = """
import os, time
print("starts", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
print("serving", flush=True)
time.sleep(3600)
"""


@pytest.mark.live
@pytest.mark.parametrize(
    ("words", "waits_for"),
    [(["-n", "1", "--retries", "1", "--", "job.py"], "ready"), ([], "starts")],
)
def test_a_clock_that_is_set_back_makes_no_attempt_and_no_role_shorter(
    words: list[str], waits_for: str, tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    (tmp_path / "job.py").write_text(FAILS_ONCE if words else "print('trains')")
    (tmp_path / "serve.py").write_text(SERVES)
    (tmp_path / "ddpkit.toml").write_text("retry_codes = [7]" if words else ROLES)
    clock = tmp_path / "clock"
    clock.write_text("0")
    launch = Program([sys.executable, "-c", LAUNCHER, str(clock), "launch", *words], env=clean_environ, cwd=tmp_path)
    try:
        launch.wait_for(waits_for)
        (tmp_path / "draft").write_text("-3600")
        (tmp_path / "draft").replace(clock)
    finally:
        (tmp_path / "go").touch()
        code = launch.end()
    assert code == 0, launch.tail
    (record,) = tmp_path.glob("logs/*/run.json")
    run = json.loads(record.read_text())
    assert 0 < run["ended"] - run["started"] < 300
    assert "after -" not in launch.text, launch.text
    times = [time for each in run["attempts"] for time in (each["started"], each["ended"])]
    for states in tmp_path.glob("logs/*/roles.json"):
        times = [json.loads(states.read_text())["replicas"]["serve.0"]["ready"], run["ended"]]
    assert len(times) in (2, 4)
    assert times == sorted(times)
