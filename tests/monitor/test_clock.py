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
