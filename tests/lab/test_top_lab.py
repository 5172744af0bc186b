"""`ddpkit top` on nodes: the same table for every way in, and what a node that does not answer costs the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launches import DDPKIT, PATIENCE, ROOT, Launch, ask_run, started_jobs, supervisor_on
from launching import SALLOC
from program import wait_until

# Rank 1 sleeps, the others count for a part of the time: the machine is used by other tests as well.
JOB = """\
import os, time
print("ready", flush=True)
if os.environ["RANK"] == "1":
    time.sleep(3600)
while True:
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    time.sleep(0.1)
"""
WAYS = {
    "ssh ranks": ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=ranks"],
    "pdsh": ["-b", "pdsh", "node1", "node2", "-n", "2", "-o", "starter=ranks"],
    "job": ["-b", "slurm", "-N", "2", "-n", "2"],
    "step": ["-b", "slurm", "-N", "2", "-n", "2"],
    "job preload": ["-b", "slurm", "-N", "2", "-n", "2", "-o", "preload=json"],
}
TORCHRUN = {
    "ssh torchrun": ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=torchrun"],
    "job torchrun": ["-b", "slurm-torchrun", "-N", "2", "-n", "2"],
}


@pytest.fixture
def start(idle_lab: Lab, tmp_path: Path) -> Iterator[Callable[..., Launch]]:
    with started_jobs(idle_lab, tmp_path, JOB) as run:
        yield run


def top(lab: Lab, folder: Path, *args: str) -> Any:
    return ask_run(lab, folder, "top", *args)


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
        assert used[1] == 0 < sum(used.values()), found  # on a loaded machine one that counts may get little
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
@pytest.mark.thorough_for("job torchrun")
def test_ranks_of_torchrun(way: str, start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path) -> None:
    look(way, start, idle_lab, tmp_path, TORCHRUN[way])


def test_a_node_that_does_not_answer(start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path) -> None:
    """Its supervisor stands still: the other node is shown all the same, and this one as soon as it is back."""
    launch = start(*WAYS["ssh ranks"], "--", "job.py")
    launch.wait_for("ready", 4)
    supervisor = supervisor_on(idle_lab, "node2")
    for pid in supervisor:
        os.kill(pid, signal.SIGSTOP)
    found = json.loads(top(idle_lab, tmp_path, "--once", "--json").stdout)
    assert found["silent"] == {"node2": [2, 3]}
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    assert found["findings"][0]["words"] == "node2 did not answer in time (ranks 2, 3)"
    for pid in supervisor:
        os.kill(pid, signal.SIGCONT)
    until = time.monotonic() + PATIENCE
    while json.loads(top(idle_lab, tmp_path, "--once", "--json").stdout)["silent"]:
        assert time.monotonic() < until
    over(launch, idle_lab, tmp_path)


def watch(lab: Lab, folder: Path, run: Path) -> subprocess.Popen[str]:
    argv = lab.argv("login", [*DDPKIT, "top", str(run), "--json", "--interval", "0.5"], folder)
    env = {**lab.environ(), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)


def steps(lab: Lab, job: str) -> list[str]:
    """A job's steps, without that of its script."""
    found = lab.run("login", "squeue", "--noheader", "--steps", f"--job={job}", "--format=%i").stdout.split()
    return [step for step in found if step.split(".")[1].isdigit()]


def test_a_job_is_watched_by_one_step(start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path) -> None:
    """For all samples, and it ends with the job; a job that nobody follows is asked from any host."""
    launch = start("-b", "slurm", "-N", "2", "-n", "2", "--detach", "--", "job.py")
    assert launch.end() == 0, launch.tail
    until = time.monotonic() + PATIENCE
    while (done := top(idle_lab, tmp_path, "--once", "--json")).returncode or len(json.loads(done.stdout)["ranks"]) < 4:
        assert "Traceback" not in done.stderr
        assert time.monotonic() < until, done.stdout + done.stderr
        time.sleep(0.2)  # a scheduler announces nothing
    (run,) = (tmp_path / "logs").iterdir()
    job = json.loads((run / "run.json").read_text())["job_id"]
    with watch(idle_lab, tmp_path, run) as killed:
        assert killed.stdout is not None
        assert len(json.loads(killed.stdout.readline())["ranks"]) == 4
        (own,) = map(int, Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split())
        os.kill(own, signal.SIGKILL)  # it cannot end its step; the step ends with its input
    wait_until(lambda: len(steps(idle_lab, job)) < 2, lambda: steps(idle_lab, job))
    with watch(idle_lab, tmp_path, run) as watching:
        assert watching.stdout is not None
        first = [json.loads(watching.stdout.readline()) for _ in range(4)]
        assert all(len(sample["ranks"]) == 4 for sample in first)
        assert len(steps(idle_lab, job)) == 2  # the job's own, and ours; not one for each sample
        idle_lab.run("login", "scancel", job)
        last = [json.loads(line) for line in watching.stdout][-1]
    assert last["state"] == "stopped", last
    idle_lab.wait_idle()
    launch.wait_for_nothing_left()
