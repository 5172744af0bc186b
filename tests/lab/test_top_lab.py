"""`ddpkit top` on nodes: the same table for every way in, and what a node that does not answer costs the others."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launches import DDPKIT, ROOT, Launch

# Rank 1 sleeps, the others count; nothing of torch is needed.
JOB = """\
import os, time
print("ready", flush=True)
if os.environ["RANK"] == "1":
    time.sleep(3600)
while True:
    pass
"""
WAYS = {
    "ssh ranks": ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=ranks"],
    "pdsh": ["-b", "pdsh", "node1", "node2", "-n", "2", "-o", "starter=ranks"],
    "job": ["-b", "slurm", "-N", "2", "-n", "2"],
    "step": ["-b", "slurm", "-N", "2", "-n", "2"],
}
TORCHRUN = {
    "ssh torchrun": ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=torchrun"],
    "job torchrun": ["-b", "slurm-torchrun", "-N", "2", "-n", "2"],
}
SALLOC = ("salloc", "-Q", "-N2", "--ntasks-per-node=2")


@pytest.fixture
def start(idle_lab: Lab, tmp_path: Path) -> Iterator[Callable[..., Launch]]:
    started: list[Launch] = []

    def run(*args: str, before: tuple[str, ...] = (), text: str = JOB) -> Launch:
        (tmp_path / "job.py").write_text(text)
        started.append(Launch(idle_lab, tmp_path, list(args), before=before))
        return started[-1]

    yield run
    for each in started:
        each.clean_up()


def top(lab: Lab, folder: Path, *args: str) -> Any:
    (run,) = (folder / "logs").iterdir()
    env = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    return lab.run("login", *DDPKIT, "top", str(run), *args, cwd=folder, env=env, check=False)


def over(launch: Launch, lab: Lab, folder: Path) -> None:
    """End a run and see that nothing of it, and nothing that looked at it, is left."""
    (run,) = (folder / "logs").iterdir()
    lab.run("login", *DDPKIT, "stop", str(run), cwd=folder, env={"PYTHONPATH": str(ROOT)})
    launch.end()
    launch.wait_for_nothing_left()


def look(way: str, start: Callable[..., Launch], lab: Lab, folder: Path, args: list[str]) -> None:
    launch = start(*args, "--", "job.py", before=SALLOC if way == "step" else ())
    launch.wait_for("ready", 4)
    for _ in range(2):
        done = top(lab, folder, "--once", "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert [host["host"] for host in found["hosts"]] == ["node1", "node2"]
        assert [(rank["rank"], rank["host"]) for rank in found["ranks"]] == [
            (0, "node1"), (1, "node1"), (2, "node2"), (3, "node2"),
        ]  # fmt: skip
        used = {rank["rank"]: rank["cpu"] for rank in found["ranks"]}
        assert used[1] < 0.02 < min(used[0], used[2], used[3]), found
        assert found["silent"] == {}
    shown = top(lab, folder)
    assert shown.returncode == 0, shown.stderr
    assert "node2" in shown.stdout
    over(launch, lab, folder)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in(way: str, start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path) -> None:
    look(way, start, idle_lab, tmp_path, WAYS[way])


@pytest.mark.torch
@pytest.mark.parametrize("way", TORCHRUN)
def test_ranks_of_torchrun(way: str, start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path) -> None:
    look(way, start, idle_lab, tmp_path, TORCHRUN[way])
