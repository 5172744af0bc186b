"""The task that forks a node's ranks in a SLURM step, without SLURM: its variables, lines, signals and end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpkit.node import fork_task

NODE = Path(fork_task.__file__).parent
# srun's own variables of the first of three tasks, one on each node.
STEP = {
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_ID": "7",
    "SLURM_NTASKS": "3",
    "SLURM_NPROCS": "3",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_TASKS_PER_NODE": "1(x3)",
    "SLURM_GTIDS": "1",
    "SLURM_CPUS_PER_TASK": "4",
    "SLURM_TRES_PER_TASK": "cpu=4",
    "SLURMD_NODENAME": "node2",
    "PMI_RANK": "1",
    "PMIX_RANK": "1",
}


def test_each_rank_has_the_variables_of_a_task_of_its_own() -> None:
    spec = {"ranks": [2, 2, 2], "cpus_per_task": [2, 2, 2]}
    first, second = fork_task.ranks(spec, STEP, [0, 4, 1, 5, 2])
    assert (first["rank"], second["rank"]) == (2, 3)
    assert (first["cpus"], second["cpus"]) == ([0, 4], [1, 5])
    env = {name: value for name, value in {**STEP, **second["env"]}.items() if value is not None}
    assert env == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "6",
        "SLURM_NODEID": "1",
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
        "SLURM_STEP_NUM_NODES": "3",
        "SLURM_STEP_ID": "0",
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "6",
        "SLURM_NPROCS": "6",
        "SLURM_STEP_NUM_TASKS": "6",
        "SLURM_TASKS_PER_NODE": "2(x3)",
        "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_GTIDS": "2,3",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURMD_NODENAME": "node2",
    }


def test_nodes_can_have_different_numbers_of_ranks() -> None:
    spec = {"ranks": [1, 3, 1], "cpus_per_task": [0, 2, 0]}
    ranks = fork_task.ranks(spec, STEP, [0, 1, 2, 3, 4, 5])
    assert [rank["rank"] for rank in ranks] == [1, 2, 3]
    assert [rank["cpus"] for rank in ranks] == [[0, 1], [2, 3], [4, 5]]
    env = ranks[0]["env"]
    assert (env["WORLD_SIZE"], env["SLURM_TASKS_PER_NODE"], env["SLURM_GTIDS"]) == ("5", "1,3,1", "1,2,3")


@pytest.mark.parametrize(("each", "cpus"), [(0, [0, 1, 2, 3]), (2, [0, 1, 2])], ids=["not asked for", "too few"])
def test_ranks_share_the_cpus_of_the_task(each: int, cpus: list[int]) -> None:
    ranks = fork_task.ranks({"ranks": [2, 2], "cpus_per_task": [each, each]}, STEP, cpus)
    assert [rank["cpus"] for rank in ranks] == [[], []]


class Task:
    """A fork server on node 2 of 3, with two ranks that run a script."""

    def __init__(self, folder: Path, text: str, grace: float = 60.0) -> None:
        preload = folder / "preload"
        preload.mkdir()
        shutil.copy(NODE / "rank_hook.py", preload / "sitecustomize.py")
        for name in ("fork_server", "fork_task", "rank_wrapper"):
            shutil.copy(NODE / f"{name}.py", preload / f"{name}.py")
        spec: dict[str, object] = {
            "hook": str(preload),
            "task": str(preload / "fork_task.py"),
            "modules": ["json"],
            "answer": "",
        }
        spec |= {"ranks": [2, 2], "cpus_per_task": [0, 0], "grace": grace}
        (preload / "spec.json").write_text(json.dumps(spec))
        (folder / "job.py").write_text(text)
        env = {**os.environ, **STEP, "PYTHONPATH": str(preload), "DDPKIT_PRELOAD": str(preload / "spec.json")}
        self.out = folder / "out"
        with self.out.open("wb") as out:
            argv = [sys.executable, "-u", "job.py"]
            self.process = subprocess.Popen(argv, cwd=folder, env=env, stdout=out, stderr=out)

    def wait_for(self, text: str, times: int) -> None:
        until = time.monotonic() + 60
        while self.out.read_text().count(text) < times:
            assert time.monotonic() < until, self.out.read_text()
            time.sleep(0.02)

    def end(self) -> str:
        self.process.wait(60)
        return self.out.read_text()

    def all(self) -> list[int]:
        """Return the process ids of the task, its ranks, and what else it started."""
        listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
        return [self.process.pid, *(pid for pid, parent in pairs if parent == self.process.pid)]


START = Callable[..., Task]


@pytest.fixture
def start(tmp_path: Path) -> START:
    return lambda text, **options: Task(tmp_path, text, **options)


HEARS = """
import os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
print("ready", flush=True)
while True:
    time.sleep(60)
"""


@pytest.mark.parametrize("to_all", [False, True], ids=["to the task alone", "to every process"])
def test_every_rank_gets_a_signal_once(to_all: bool, start: START) -> None:
    task = start(HEARS)
    task.wait_for("ready", 2)
    for number, text, times in (
        (signal.SIGUSR1, "heard", 2),
        (signal.SIGUSR1, "heard", 4),
        (signal.SIGTERM, "saved", 2),
    ):
        for pid in task.all() if to_all else [task.process.pid]:
            os.kill(pid, number)
        task.wait_for(text, times)
    text = task.end()
    assert task.process.returncode == 0, text
    assert (text.count("heard"), text.count("saved")) == (4, 2)
    lines = text.splitlines()
    assert [line for line in lines if re.fullmatch(r"ddpkit: rank [23] on node2 pid \d+ step 7\.0", line)] == lines[:2]
    for rank in (2, 3):  # its end follows its last line; the other rank may end later
        assert lines.index(f"[rank {rank}] saved") < lines.index(f"ddpkit: rank {rank} ended: code 0 signal None")


@pytest.mark.parametrize(
    ("end", "code", "last"),
    [("sys.exit(7)", 7, "code 7 signal None"), ("os.kill(os.getpid(), 9)", -9, "code None signal 9")],
)
def test_the_first_rank_that_fails_ends_the_task_as_it_ended(end: str, code: int, last: str, start: START) -> None:
    """The other rank gets SIGTERM, and SIGKILL after the grace."""
    text = f"""
import os, signal, sys, time
if os.environ["RANK"] == "3":
    while not os.path.exists("stubborn"):
        time.sleep(0.02)
    print("last words")
    {end}
signal.signal(signal.SIGTERM, lambda *_: print("saves", flush=True))
open("stubborn", "w").close()
while True:
    time.sleep(60)
"""
    task = start(text, grace=0.5)
    lines = task.end().splitlines()
    assert task.process.returncode == code
    ended = [line for line in lines if not line.startswith("ddpkit: rank ") or "ended" in line]
    assert ended == [
        "[rank 3] last words",
        f"ddpkit: rank 3 ended: {last}",
        "[rank 2] saves",
        "ddpkit: rank 2 ended: code None signal 9",
    ]


def test_ranks_that_slurm_ends_have_its_time_and_not_the_grace(start: START) -> None:
    text = """
import os, signal, sys, time
def save(*_):
    if os.environ["RANK"] == "2":
        time.sleep(4)
        print("saved", flush=True)
    sys.exit(1)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(60)
"""
    task = start(text, grace=3)
    task.wait_for("ready", 2)
    task.process.send_signal(signal.SIGTERM)
    assert "[rank 2] saved" in task.end()
    assert task.process.returncode == 1


def test_what_ranks_leave_running_is_ended(start: START) -> None:
    text = """
import os, subprocess, sys
child = "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.setsid(); print(1, flush=True); time.sleep(99)"
left = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
left.stdout.readline()
print("left", left.pid)
"""
    task = start(text)
    pids = [int(line.split()[-1]) for line in task.end().splitlines() if "left" in line]
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_line_without_an_end_and_a_long_one(start: START) -> None:
    text = (
        "import os, sys\nif os.environ['RANK'] == '2': sys.stdout.write('x' * 2500 + '\\\\n'); sys.stdout.write('end')"
    )
    lines = start(text.replace("\\\\n", "\\n")).end().splitlines()
    assert [line for line in lines if line.startswith("[")] == [
        "[rank 2 1+] " + "x" * 1000,
        "[rank 2 1+] " + "x" * 1000,
        "[rank 2 1] " + "x" * 500,
        "[rank 2] end",
    ]
