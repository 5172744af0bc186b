"""Runs in a real SLURM as a later shell sees them: a job that nobody follows, one that is followed, and a step."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from conftest import PATIENCE
from program import wait_until

WORDS = [sys.executable, "-m", "ddpkit"]
ROOT = str(Path(__file__).parents[2])
WAITS = """
import os, sys, time
print("ready", os.environ["RANK"], flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
print("last words", flush=True)
sys.exit(int(sys.argv[1]) if os.environ["RANK"] == "1" else 0)
"""


class Cluster:
    """`ddpkit` on the hosts of a lab, in one folder that they share."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.state = f"{folder}/.state"
        self.env = {"NO_COLOR": "1", "PYTHONPATH": ROOT, "XDG_STATE_HOME": self.state}
        self.processes: list[subprocess.Popen[str]] = []

    def run(self, *args: str, host: str = "login", code: int = 0, env: dict[str, str] | None = None) -> str:
        done = self.lab.run(host, *WORDS, *args, cwd=self.folder, env={**self.env, **(env or {})}, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    def start(self, *args: str, host: str = "login") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.lab.argv(host, list(args), self.folder),
            env={**self.lab.environ(), **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def submit(self, *options: str, code: int = 0) -> str:
        """A detached job of two ranks on two nodes. Returns the run's id."""
        (self.folder / "job.py").write_text(WAITS)
        job = ["-b", "slurm", "-N", "2", "-n", "1", *options, "--detach", "--", "job.py", str(code)]
        (run_id,) = self.run("launch", *job).split()
        return run_id

    def now(self, host: str = "login", /, **env: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status", "--json", host=host, env=env))
        return found

    def until(self, event: Callable[[], object]) -> None:
        wait_until(event, lambda: self.run("ps"))  # the scheduler announces nothing

    def until_ready(self) -> None:
        self.until(lambda: self.run("logs", "--grep", "^ready").count("\n") == 2)

    def empty(self) -> bool:
        return self.lab.run("login", "squeue", "-h").stdout == ""

    def left(self) -> list[str]:
        """Ranks that live, on any host."""
        rank = f"{sys.executable} job.py"
        return [
            line for host in self.lab.address for line in self.lab.processes(host).values() if line.startswith(rank)
        ]


@pytest.fixture
def cluster(idle_lab: Lab, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(idle_lab, tmp_path)
    yield made
    for process in made.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


def read_until(process: subprocess.Popen[str], text: str, times: int = 1) -> str:
    assert process.stdout is not None
    seen = ""
    while seen.count(text) < times:
        line = process.stdout.readline()
        assert line, f"ended before it printed {text!r}:\n{seen}"
        seen += line
    return seen


def started(now: dict[str, Any]) -> list[tuple[int, str, str]]:
    """The ranks as `status` shows them."""
    return [(rank["rank"], rank["host"], rank["words"]) for rank in now["sample"]["ranks"]]


@pytest.mark.parametrize("code", [0, 7])
def test_a_detached_job(code: int, cluster: Cluster) -> None:
    run_id = cluster.submit(code=code)
    follower = cluster.start(*WORDS, "logs", run_id, "-f", host="node3")
    seen = read_until(follower, "] ready", 2)
    assert re.search(r"^\[0 node1\] ready 0$", seen, re.MULTILINE), seen
    assert re.search(r"^\[1 node2\] ready 1$", seen, re.MULTILINE), seen
    for host in ("login", "node4"):
        now = cluster.now(host)
        job = now["job_id"]
        assert (now["state"], now["summary"]) == ("running", f"job {job} runs on node[1-2]")
        assert started(now) == [(0, "node1", "started"), (1, "node2", "started")]
        row = rf"^{run_id[-4:]} +job\.py {code} +running +2 +job {job} +\d+ s$"
        assert re.search(row, cluster.run("ps", host=host), re.MULTILINE)
    assert cluster.run("logs", "--rank", "1") == "ready 1\n"
    assert cluster.run("logs", "--host", "node1", "--grep", "ready") == "[0 node1] ready 0\n"
    (cluster.folder / "go").touch()
    out, _ = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0
    # The failure of rank 1 may end rank 0 before its last words.
    assert out.count("] last words") >= (1 if code else 2), out
    now = cluster.now()
    assert (now["state"], now["exit_code"]) == ("failed" if code else "done", code), now
    if code:
        assert now["verdict"] == f"job {job}: rank 1 on node2 failed first: exit code 7"
    kept = json.loads(Path(cluster.state, "ddpkit/runs", run_id).read_text())
    assert kept["end"]["state"] == now["state"], "the scheduler forgets"
    # And so nobody is asked any more.
    assert cluster.now(SLURM_CONF="/nowhere")["state"] == now["state"]


def test_stop_a_detached_job(cluster: Cluster) -> None:
    run_id = cluster.submit()
    cluster.until_ready()
    job = cluster.now()["job_id"]
    assert cluster.run("stop", "--dry-run") == f"scancel {job}\n"
    assert not cluster.empty()
    # From any host: the launcher is long gone, and the job is the scheduler's.
    assert cluster.run("stop", run_id, host="node4").startswith(f"run {run_id}: stopped")
    assert cluster.empty()
    cluster.until(lambda: not cluster.left())
    assert "has ended already: stopped" in cluster.run("stop")


def test_a_job_that_waits(cluster: Cluster) -> None:
    run_id = cluster.submit("-o", "sbatch=--hold")
    now = cluster.now()
    assert (now["state"], now["hint"]) == ("queued", "")
    assert now["summary"] == f"job {now['job_id']} waits in the queue: JobHeldUser"
    follower = cluster.start(*WORDS, "logs", run_id, "-f")
    read_until(follower, "waits in the queue: JobHeldUser")
    cluster.lab.run("login", "scontrol", "release", now["job_id"])
    read_until(follower, "] ready", 2)
    assert cluster.run("stop", "--json")
    assert "stopped" in follower.communicate(timeout=PATIENCE)[0]
    assert cluster.empty()


def test_an_array(cluster: Cluster) -> None:
    cluster.submit("-o", "array=0-1", code=0)
    cluster.until(lambda: cluster.run("logs", "--grep", "^ready").count("\n") == 4)
    now = cluster.now()
    assert now["summary"] == f"job {now['job_id']}, an array: 2 run, 0 wait, 0 have ended"
    cluster.run("stop")
    assert cluster.empty()
    assert cluster.now()["state"] == "stopped"


def test_a_job_whose_directory_was_deleted_can_be_stopped(cluster: Cluster) -> None:
    cluster.submit(code=0)
    cluster.until(lambda: cluster.run("logs", "--grep", "^ready").count("\n") == 2)
    run_id = cluster.now()["run_id"]
    shutil.rmtree(cluster.folder / "logs")
    assert run_id[-4:] in cluster.run("ps")
    assert "its directory was deleted, with its logs" in cluster.run("status")
    cluster.run("stop")
    assert cluster.empty()
    assert run_id[-4:] not in cluster.run("ps")


def test_a_job_that_is_followed(cluster: Cluster) -> None:
    """Its end is the launcher's to write down; without the launcher the scheduler still knows."""
    (cluster.folder / "job.py").write_text(WAITS)
    launcher = cluster.start(*WORDS, "launch", "-b", "slurm", "-N", "2", "-n", "1", "--", "job.py", "0")
    read_until(launcher, "] ready", 2)
    assert cluster.now()["state"] == "running"
    assert cluster.run("stop").startswith("run ")
    assert launcher.wait(PATIENCE) == 143
    assert cluster.empty()
    assert (cluster.now()["state"], cluster.now()["exit_code"]) == ("stopped", 143)
    launcher = cluster.start(*WORDS, "launch", "-b", "slurm", "-N", "2", "-n", "1", "--", "job.py", "0")
    read_until(launcher, "] ready", 2)
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait(PATIENCE)
    pid = cluster.now()["launcher_pid"]
    cluster.lab.run("login", "kill", "-KILL", str(pid), check=False)  # it lives in the host's own process tree
    cluster.until(lambda: pid not in cluster.lab.processes("login"))
    assert cluster.now()["state"] == "running", "the job does not care"
    cluster.run("stop")
    assert cluster.empty()
    assert cluster.now()["state"] == "stopped"


def test_a_step_in_an_allocation(cluster: Cluster) -> None:
    (cluster.folder / "job.py").write_text(WAITS)
    words = ["launch", "-b", "slurm", "-n", "1", "--", "job.py", "0"]
    launcher = cluster.start("salloc", "-Q", "-N2", "--ntasks-per-node=1", *WORDS, *words)
    read_until(launcher, "] ready", 2)
    assert cluster.now()["state"] == "running"
    cluster.until(lambda: started(cluster.now()) == [(0, "node1", "started"), (1, "node2", "started")])
    away = cluster.now("node1")
    assert (away["state"], away["summary"]) == ("elsewhere", "on login, and not visible from here")
    assert f"hint: ssh login '{sys.executable} -m ddpkit stop " in cluster.run("stop", host="node1", code=121)
    assert re.search(r"run \S+: stopped \(it ran for [\d.]+ s\)", cluster.run("stop"))
    assert launcher.wait(PATIENCE) == 143
    cluster.until(lambda: not cluster.left())
    assert cluster.empty()


def test_a_detached_step_in_an_allocation(cluster: Cluster) -> None:
    (cluster.folder / "job.py").write_text(WAITS)
    words = ["launch", "-b", "slurm", "-n", "1", "--detach", "--", "job.py", "0"]
    holder = cluster.start(
        "salloc", "-Q", "-N2", "--ntasks-per-node=1", "sh", "-c", '"$@"; cat go.fifo', "sh", *WORDS, *words
    )
    os.mkfifo(cluster.folder / "go.fifo")
    read_until(holder, "; to stop it: ddpkit stop ")
    cluster.until_ready()
    now = cluster.now()
    assert (now["state"], now["job"], list(now["session"])) == ("running", None, ["token"])
    cluster.run("stop")
    cluster.until(lambda: not cluster.left())
    assert not [line for line in cluster.lab.processes("login").values() if line.startswith("tmux")]
    (cluster.folder / "go.fifo").write_text("")
    assert holder.wait(PATIENCE) == 0


def test_a_job_that_the_scheduler_forgot_or_cannot_tell(cluster: Cluster) -> None:
    cluster.submit("-o", "sbatch=--hold")
    job = cluster.now()["job_id"]
    now = cluster.now(SLURM_CONF="/nowhere")
    assert now["state"] == "unknown"
    assert now["summary"].startswith(f"job {job}: no valid answer from the scheduler: ")
    assert now["hint"] == f"scontrol --oneliner show job {job}"
    (path,) = Path(cluster.state, "ddpkit/runs").iterdir()
    path.write_text(path.read_text().replace(f'"{job}"', '"4000000"'))
    now = cluster.now()
    assert now["state"] == "over"
    assert now["summary"] == "job 4000000 has ended, and the scheduler no longer knows its exit code"
