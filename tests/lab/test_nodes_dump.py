"""`ddpkit dump` on nodes: which rank the others wait for, in which collective, and at which line it is."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launches import DDPKIT, PATIENCE, ROOT, Launch, ask_run, started_jobs, supervisor_on
from launching import SALLOC, mostly

pytestmark = pytest.mark.torch

LIMIT = 60.0  # seconds for a dump beside much else; one that waited for a stopped rank would never end

# Four hangs, one after the other; each but the last is let go by a file. Rank 3 is the guilty one.
JOB = """\
import os
import time

import torch
import torch.distributed as dist


def steps(number):
    for _ in range(number):
        dist.all_reduce(torch.ones(3))


def slow_step(name):
    while not os.path.exists(name):
        pass


def late_batch(name):
    while not os.path.exists(name):
        time.sleep(0.01)


def other_way():
    dist.broadcast(torch.ones(3), src=0)


def first_way():
    dist.all_reduce(torch.ones(3))


def stop_me():
    while not os.path.exists("go.1"):
        time.sleep(0.01)


dist.init_process_group("gloo")
rank = dist.get_rank()
steps(3)
print("ready", flush=True)
if rank == 3:
    stop_me()
steps(1)
if rank == 3:
    slow_step("go.2")
steps(1)
if rank == 3:
    late_batch("go.3")
steps(1)
if rank == 3:
    other_way()
else:
    first_way()
"""

WAYS = {
    "ssh ranks": ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=ranks"],
    "ssh preload": ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=ranks", "-o", "preload=true"],
    "ssh torchrun": ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=torchrun"],
    "pdsh ranks": ["-b", "pdsh", "node1", "node2", "-n", "2", "-o", "starter=ranks"],
    "pdsh torchrun": ["-b", "pdsh", "node1", "node2", "-n", "2", "-o", "starter=torchrun"],
    "slurm srun": ["-b", "slurm", "-N", "2", "-n", "2"],
    "slurm preload": ["-b", "slurm", "-N", "2", "-n", "2", "-o", "preload=true"],
    "slurm torchrun": ["-b", "slurm-torchrun", "-N", "2", "-n", "2"],
    "allocation srun": ["-b", "slurm", "-N", "2", "-n", "2"],
    "allocation torchrun": ["-b", "slurm-torchrun", "-N", "2", "-n", "2"],
}


@pytest.fixture
def start(idle_lab: Lab, tmp_path: Path) -> Iterator[Callable[..., Launch]]:
    with started_jobs(idle_lab, tmp_path, JOB) as run:
        yield run


def dump(lab: Lab, folder: Path, *args: str) -> Any:
    return ask_run(lab, folder, "dump", *args)


def until_found(lab: Lab, folder: Path, text: str) -> dict[str, Any]:
    """Dump until the ranks have come to where they hang. No dump waits for a rank."""
    until = time.monotonic() + PATIENCE
    while True:
        began = time.monotonic()
        done = dump(lab, folder, "--json")
        took = time.monotonic() - began
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert took < LIMIT, (took, found)
        if any(text in finding["words"] for finding in found["findings"]):
            return found
        assert time.monotonic() < until, found


@pytest.mark.parametrize(
    "way",
    mostly(WAYS, "ssh ranks", "ssh preload", "ssh torchrun", "slurm srun", "slurm preload", "allocation torchrun"),
)
@pytest.mark.thorough_for("allocation torchrun", "ssh ranks", "slurm preload")
def test_the_guilty_rank_is_named(way: str, start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path) -> None:
    before = SALLOC if way.startswith("allocation") else ()
    launch = start(*WAYS[way], "--observe", "stacks", "--", "job.py", before=before)
    launch.wait_for("ready", 4)
    rows = until_found(idle_lab, tmp_path, "in stop_me")["ranks"]
    assert {(row["how"], row["state"]) for row in rows} <= {("thread", "S"), ("thread", "R")}
    (host, pid) = next((row["host"], str(row["pid"])) for row in rows if row["rank"] == 3)
    # Stopped.
    idle_lab.run(host, "kill", "-STOP", pid)
    found = until_found(idle_lab, tmp_path, "waits for it (ranks 0-2 wait in it")
    (finding,) = found["findings"]
    assert finding["kind"] == "stopped"
    assert finding["ranks"] == [3]
    assert finding["words"].startswith(f"rank 3 on {host} is stopped (SIGSTOP)")
    assert "all_reduce #4 of group 0" in finding["words"]
    assert {row["where"] for row in found["ranks"] if row["rank"] != 3} == {"job.py:10 in steps"}
    idle_lab.run(host, "kill", "-CONT", pid)
    # In an endless loop.
    (tmp_path / "go.1").touch()
    found = until_found(idle_lab, tmp_path, "in slow_step")
    (finding,) = found["findings"]
    assert (finding["kind"], finding["ranks"]) == ("late", [3])
    assert finding["words"].startswith(
        f"rank 3 on {host} has not joined all_reduce #5 of group 0 (ranks 0-2 wait in it"
    )
    assert found["stacks"][0]["ranks"] == [3]
    assert {tuple(group["ranks"]) for group in found["stacks"]} == {(3,), (0, 1, 2)}
    # One iteration behind.
    (tmp_path / "go.2").touch()
    found = until_found(idle_lab, tmp_path, "has not joined all_reduce #6")
    (finding,) = found["findings"]
    assert (finding["kind"], finding["ranks"]) == ("late", [3])
    assert "it is in job.py:20 in late_batch" in finding["words"] or "job.py:19" in finding["words"], finding
    # In another collective.
    (tmp_path / "go.3").touch()
    found = until_found(idle_lab, tmp_path, "ranks call different collectives")
    (finding,) = found["findings"]
    assert (finding["kind"], finding["ranks"]) == ("mismatch", [3])
    assert f"rank 3 on {host} calls broadcast #7 at job.py:24 in other_way" in finding["words"]
    assert "ranks 0-2 call all_reduce #7 at job.py:28 in first_way" in finding["words"]
    # What was answered is kept, and people can read it.
    folder = Path(found["folder"])
    assert {path.name for path in folder.iterdir()} >= {"rank_3.txt", "stacks.txt", "summary.json"}
    assert "job.py:24 in other_way" in (folder / "rank_3.txt").read_text()
    shown = dump(idle_lab, tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "broadcast #7 of group 0" in shown.stdout
    launch.signal(signal.SIGTERM)
    launch.end()


HANGS = """
import os
import torch
import torch.distributed as dist


def lost():
    while not os.path.exists("go"):
        pass


dist.init_process_group("gloo")
dist.all_reduce(torch.ones(3))
print("ready", flush=True)
if dist.get_rank() == 1:
    lost()
dist.all_reduce(torch.ones(3))
"""
WATCHED = {
    "ssh": ["-b", "ssh", "node1", "node2", "-n", "1", "-o", "starter=ranks"],
    "pdsh": ["-b", "pdsh", "node1", "node2", "-n", "1", "-o", "starter=torchrun"],
    "job": ["-b", "slurm", "-N", "2", "-n", "1"],
    "step": ["-b", "slurm-torchrun", "-N", "2", "-n", "1"],
}


@pytest.mark.parametrize("way", WATCHED)
@pytest.mark.thorough_for("pdsh", "step")
def test_a_run_that_watches_itself(way: str, start: Callable[..., Launch], tmp_path: Path) -> None:
    """It says which rank hangs, by the stacks of ranks in which nothing was changed, ends, and leaves nothing."""
    before = SALLOC if way == "step" else ()
    options = ["--hang-timeout", "3", "--grace", "1"]
    (tmp_path / "ddpkit.toml").write_text('hang_action = "end"\n')
    launch = start(*WATCHED[way], *options, "--", "job.py", before=before, text=HANGS)
    code = launch.end()
    assert code == 124, launch.text
    assert "rank 1 on node2 is in no collective while rank 0 waits in all_reduce: it is in job.py:" in launch.text
    assert "in job.py:9 in lost" in launch.text or "in job.py:8 in lost" in launch.text
    (run,) = (tmp_path / "logs").iterdir()
    record = json.loads((run / "run.json").read_text())
    assert (record["state"], record["exit_code"]) == ("failed", 124)
    assert record["verdict"].startswith("rank 1 on node2 failed first")
    assert len(list(run.glob("dump-*/summary.json"))) == 1
    launch.wait_for_nothing_left()


def test_a_job_that_nobody_follows(start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path) -> None:
    """Asked from the login host, and from a node that has nothing to do with it."""
    launch = start("-b", "slurm", "-N", "2", "-n", "1", "--detach", "--hang-timeout", "5", "--", "job.py", text=HANGS)
    assert launch.end() == 0, launch.tail
    assert "no launcher follows this job: --hang-timeout has no effect" in launch.text
    found = None
    until = time.monotonic() + PATIENCE
    while found is None:
        done = dump(idle_lab, tmp_path, "--json")
        if done.returncode == 0 and "is in no collective while rank 0 waits in all_reduce" in done.stdout:
            found = json.loads(done.stdout)
        assert done.returncode in (0, 1, 121) or "no rank has started yet" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
        assert time.monotonic() < until, done.stdout + done.stderr
        time.sleep(0.2)  # a scheduler announces nothing
    assert found["findings"][0]["ranks"] == [1]
    (run,) = (tmp_path / "logs").iterdir()
    env = {"PYTHONPATH": str(ROOT)}
    other = idle_lab.run("node4", *DDPKIT, "dump", str(run), "--json", cwd=tmp_path, env=env)
    assert json.loads(other.stdout)["findings"][0]["ranks"] == [1]
    (tmp_path / "go").touch()
    idle_lab.wait_idle()
    over = dump(idle_lab, tmp_path)
    assert over.returncode == 121
    assert "has ended, and has no running ranks" in over.stderr


def test_a_launcher_on_another_host(idle_lab: Lab, tmp_path: Path) -> None:
    """In a tmux session over there: from here one is told where to ask."""
    (tmp_path / "job.py").write_text(HANGS)
    env = {"PYTHONPATH": str(ROOT)}
    args = ["launch", "--detach", "--on", "node2", "-b", "ssh", "node1", "node3", "-n", "1", "--", "job.py"]
    run_id = idle_lab.run("login", *DDPKIT, *args, cwd=tmp_path, env=env).stdout.strip()
    run = str(tmp_path / "logs" / run_id)
    try:
        here = idle_lab.run("login", *DDPKIT, "dump", run, cwd=tmp_path, env=env, check=False)
        assert here.returncode == 121
        assert f"hint: ssh node2 '{' '.join(DDPKIT)} dump " in here.stderr
        until = time.monotonic() + PATIENCE
        while True:
            there = idle_lab.run("node2", *DDPKIT, "dump", run, "--json", cwd=tmp_path, env=env, check=False)
            if "is in no collective while rank 0 waits in all_reduce" in there.stdout:
                break
            assert time.monotonic() < until, there.stdout + there.stderr
        first = json.loads(there.stdout)["findings"][0]["words"]
        assert first.startswith(
            "rank 1 on node3 is in no collective while rank 0 waits in all_reduce: it is in job.py:"
        )
    finally:  # its ranks would be seen by the next test
        idle_lab.run("node2", *DDPKIT, "stop", run, cwd=tmp_path, env=env)


def test_a_node_that_does_not_answer(start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path) -> None:
    """Its supervisor stands still, as under a machine that is out of memory: the others are heard all the same."""
    words = ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=ranks", "--observe", "stacks"]
    launch = start(*words, "--", "job.py")
    launch.wait_for("ready", 4)
    supervisor = supervisor_on(idle_lab, "node2")
    for pid in supervisor:
        os.kill(pid, signal.SIGSTOP)
    found = until_found(idle_lab, tmp_path, "node2 did not answer (ranks 2-3)")
    assert found["silent"] == {"node2": [2, 3]}
    assert [row["rank"] for row in found["ranks"]] == [0, 1]
    assert "all_reduce #4 of group 0 waits for ranks 2-3, which did not answer" in str(found["findings"])
    for pid in supervisor:
        os.kill(pid, signal.SIGCONT)
    found = until_found(idle_lab, tmp_path, "rank 3 on node2 has not joined")
    assert found["silent"] == {}
