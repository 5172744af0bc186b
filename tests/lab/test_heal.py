"""Runs that heal, on nodes reached by SSH and pdsh: a spare replaces a node that died, and nothing else is repeated."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launches import DDPKIT, ROOT, Launch

torch = pytest.mark.torch
BACKENDS = pytest.mark.parametrize("backend", ["ssh", "pdsh"])
JOB = """
import os, time
rank, attempt = os.environ["RANK"], os.environ["DDPKIT_ATTEMPT"]
print("ready", attempt, os.environ.get("DDPKIT_PREVIOUS"), os.environ["MASTER_PORT"], flush=True)
while not os.path.exists(f"go.{attempt}"):
    if os.path.exists(f"fail.{attempt}.{rank}"):
        raise ValueError("bad batch")
    time.sleep(0.02)
"""
# A file system that answers nothing but its first message: SIGKILL does not end a process that waits for it.
SILENT = """
import ctypes, os, select, struct, sys
fuse = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0"
assert ctypes.CDLL(None).mount(b"silent", sys.argv[1].encode(), b"fuse", 0, options.encode()) == 0
unique = struct.unpack("<IIQ", os.read(fuse, 1 << 17)[:16])[2]
os.write(fuse, struct.pack("<IiQ", 80, 0, unique) + struct.pack("<IIIIHHI", 7, 31, 0, 0, 0, 0, 4096) + bytes(40))
print("mounted", flush=True)
while 0 not in select.select([fuse, 0], [], [])[0]:
    os.read(fuse, 1 << 17)
"""
HOLDS = "import os, subprocess\nif os.environ['RANK'] + os.environ['DDPKIT_ATTEMPT'] == '11':\n"
HOLDS += "    subprocess.Popen(['stat', 'held/file'])\n"
SLOW = """
import os, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
attempt = os.environ["DDPKIT_ATTEMPT"]
print("ready", attempt, flush=True)
while True:
    time.sleep(0.09 if dist.get_rank() == 1 else 0.03)
    end = torch.tensor(float(os.path.exists(f"go.{attempt}")))
    dist.all_reduce(end, op=dist.ReduceOp.MAX)
    if end:
        break
dist.destroy_process_group()
sys.exit(75 * (attempt == "1"))
"""
Start = Callable[..., Launch]


@pytest.fixture
def run(lab: Lab, tmp_path: Path) -> Iterator[Start]:
    """Start `ddpkit launch --retries 2 ... -- job.py`; what it leaves behind is ended after the test."""
    started: list[Launch] = []

    def start(backend: str, *words: str, starter: str = "ranks", retries: int = 2, text: str = JOB) -> Launch:
        (tmp_path / "job.py").write_text(text)
        options = ["-o", f"starter={starter}", "-o", "heartbeat_timeout=3", "--grace", "1"]
        argv = ["-b", backend, "-n", "1", "--retries", str(retries), *options, *words, "--", "job.py"]
        started.append(Launch(lab, tmp_path, argv))
        return started[-1]

    yield start
    for launch in started:
        launch.clean_up()


def record(folder: Path) -> Any:
    (path,) = folder.glob("logs/*/run.json")
    return json.loads(path.read_text())


def shown(folder: Path) -> list[tuple[list[str], str | None, list[str]]]:
    """Hosts, action and chosen hosts of each attempt."""
    rows = []
    for each in record(folder)["attempts"]:
        decision = each["decision"] or {"action": None, "hosts": []}
        rows.append((each["hosts"], decision["action"], decision["hosts"]))
    return rows


@BACKENDS
def test_a_spare_replaces_a_node_that_died(lab: Lab, run: Start, backend: str, tmp_path: Path) -> None:
    launch = run(backend, "node1", "node2", "node3", "--spares", "1")
    launch.wait_for("ready 1", times=2)
    try:
        lab.kill("node2")
        launch.wait_for("ready 2 node-lost", times=2)
        (tmp_path / "go.2").touch()
        assert launch.end() == 0, launch.text
    finally:
        lab.boot("node2")
    assert shown(tmp_path) == [(["node1", "node2"], "replace", ["node2"]), (["node1", "node3"], None, [])]
    run_record = record(tmp_path)
    assert run_record["hosts"] == ["node1", "node3"]
    assert run_record["world_size"] == 2
    assert run_record["spares"] == []
    (folder,) = (tmp_path / "logs").iterdir()
    ports = [next(folder.glob(name)).read_text().split()[-1] for name in ("attempt-1/rank_0.log", "rank_0.log")]
    assert ports[0] != ports[1]
    old, new = (
        lab.run("login", *DDPKIT, "logs", str(folder), *words, cwd=tmp_path).stdout
        for words in (("--attempt", "1"), ())
    )
    assert "ready 1" in old
    assert "ready 1" not in new
    assert "ready 2" in new


@torch
def test_a_slow_node_gives_way_to_a_spare(run: Start, tmp_path: Path) -> None:
    """At the next attempt, and not before. It is not remembered as a bad one."""
    watching = ("--observe", "stacks", "--hang-timeout", "1", "--slow-action", "spare")
    launch = run("ssh", "node1", "node2", "node3", "--spares", "1", *watching, text=SLOW)
    launch.wait_for("--slow-action: rank 1 on node2 is slow")
    (tmp_path / "go.1").touch()
    launch.wait_for("ready 2", times=2)
    (tmp_path / "go.2").touch()
    assert launch.end() == 0, launch.text
    assert shown(tmp_path) == [(["node1", "node2"], "same", []), (["node1", "node3"], None, [])]
    assert "node2: put aside, it is slow: the others lose " in launch.text
    assert "remembered" not in launch.text


@BACKENDS
def test_a_killed_rank_starts_again_on_the_same_nodes_once(run: Start, backend: str, tmp_path: Path) -> None:
    launch = run(backend, "node1", "node2")
    for attempt in (1, 2):
        launch.wait_for(f"ready {attempt}", times=2)
        os.kill(launch.ranks()[1][1], signal.SIGKILL)
    assert launch.end() == 137, launch.text
    both = ["node1", "node2"]
    assert shown(tmp_path) == [(both, "check", ["node2"]), (both, "stop", [])]
    assert launch.text.count("ddpkit: node2: passed the checks") == 1
    reason = record(tmp_path)["attempts"][-1]["decision"]["reason"]
    assert reason.startswith("the same failure ended the attempt before, without progress since")
    assert f"no other attempt follows: {reason}" in launch.text
    launch.wait_for_nothing_left()


def test_a_process_that_sigkill_does_not_end_yet(lab: Lab, run: Start, tmp_path: Path) -> None:
    """As a driver does that frees the memory of a GPU: the next attempt waits, and the host is not put aside."""
    (tmp_path / "held").mkdir()
    argv = lab.argv("node2", [sys.executable, "-c", SILENT, str(tmp_path / "held")])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as silent:
        assert silent.stdout is not None
        assert silent.stdout.readline() == "mounted\n"
        launch = run("ssh", "node1", "node2", text=HOLDS + JOB)
        launch.wait_for("ready 1", times=2)
        os.kill(launch.ranks()[1][1], signal.SIGKILL)
        launch.wait_for("waits at most 30 s for memory of GPUs: processes on node2 do not end")
        assert re.search(r"not even after SIGKILL: \d+ \(stat\)", launch.text)
        assert "attempt 2" not in launch.text
    # It has read the end of its input: without it the file system ends.
    launch.wait_for("ready 2", times=2)
    (tmp_path / "go.2").touch()
    assert launch.end() == 0, launch.text
    both = ["node1", "node2"]
    assert shown(tmp_path) == [(both, "check", ["node2"]), (both, None, [])]
    lab.run("node2", "umount", "--lazy", str(tmp_path / "held"))


def test_progress_allows_the_same_failure_twice(run: Start, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text('progress = "go.*"\n')
    launch = run("ssh", "node1", "node2")
    for attempt in (1, 2):
        launch.wait_for(f"ready {attempt}", times=2)
        (tmp_path / f"go.0{attempt}").touch()
        os.kill(launch.ranks()[1][1], signal.SIGKILL)
    launch.wait_for("ready 3", times=2)
    (tmp_path / "go.3").touch()
    assert launch.end() == 0, launch.text


def test_a_dry_run_shows_the_spares(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    words = ["-b", "ssh", "node[1-4]", "-n", "1", "--starter", "ranks", "--retries", "1", "--spares", "2"]
    done = lab.run("login", *DDPKIT, "launch", "--dry-run", *words, "--", "job.py", cwd=tmp_path)
    assert "\n# spare: node3, node4\n" in done.stdout
    assert "on node3: rank" not in done.stdout


def test_a_host_that_is_down_is_replaced_before_the_start(lab: Lab, run: Start, tmp_path: Path) -> None:
    (tmp_path / "go.1").touch()
    lab.kill("node1")
    try:
        launch = run("ssh", "node1", "node2", "node3", "--spares", "1")
        assert launch.end() == 0, launch.text
    finally:
        lab.boot("node1")
    assert shown(tmp_path) == [(["node2", "node3"], None, [])]
    assert "ddpkit: continues without node1" in launch.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_is_final(lab: Lab, run: Start, tmp_path: Path, number: int) -> None:
    launch = run("ssh", "node1", "node2", "node3", "--spares", "1")
    launch.wait_for("ready 1", times=2)
    launch.signal(number)
    assert launch.end() == 128 + number, launch.text
    assert shown(tmp_path) == [(["node1", "node2"], "stop", [])]
    launch.wait_for_nothing_left()


def test_a_stop_between_two_attempts(lab: Lab, run: Start, tmp_path: Path) -> None:
    launch = run("ssh", "node1", "node2", "node3", "--spares", "1")
    launch.wait_for("ready 1", times=2)
    lab.kill("node3")
    try:
        lab.kill("node2")
        launch.wait_for("attempt 1 ended; node2: put aside")  # the survey waits for node3
        launch.signal(signal.SIGTERM)
        assert launch.end() == 143, launch.text
    finally:
        lab.boot("node2")
        lab.boot("node3")
    assert "ready 2" not in launch.text


def test_two_nodes_without_enough_spares(lab: Lab, run: Start, tmp_path: Path) -> None:
    launch = run("ssh", "node1", "node2", "--spares", "0")
    launch.wait_for("ready 1", times=2)
    lab.kill("node2")
    try:
        assert launch.end() == 125, launch.text
    finally:
        lab.boot("node2")
    assert record(tmp_path)["attempts"][0]["decision"]["reason"].endswith("0 of 1 needed spare hosts left")


@torch
def test_torchrun_starts_the_next_attempt(lab: Lab, run: Start, tmp_path: Path) -> None:
    launch = run("ssh", "node1", "node2", "node3", "--spares", "1", starter="torchrun")
    launch.wait_for("ready 1", times=2)
    lab.kill("node1")
    try:
        launch.wait_for("ready 2 node-lost", times=2)
        (tmp_path / "go.2").touch()
        assert launch.end() == 0, launch.text
    finally:
        lab.boot("node1")
    assert shown(tmp_path)[1][0] == ["node2", "node3"]


@torch
def test_a_healed_training_is_that_of_an_undisturbed_run() -> None:
    """One round of `make heal`."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench/heal.py"), "--rounds", "1", "--backend", "ssh", "--only", "node killed"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=850,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 rounds, 0 wrong" in done.stdout


def test_a_suspect_with_a_fault_is_put_aside(lab: Lab, run: Start, tmp_path: Path) -> None:
    """A killed rank alone does not show whose fault it was: the test of its host does."""
    launch = run("ssh", "node1", "node2", "node3", "--spares", "1")
    launch.wait_for("ready 1", times=2)
    lab.run("node2", "mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", "/dev/shm")
    lab.run("node2", "sh", "-c", "head -c 4096 /dev/zero > /dev/shm/full")
    try:
        os.kill(launch.ranks()[1][1], signal.SIGKILL)
        launch.wait_for("ready 2 ", times=2)
        (tmp_path / "go.2").touch()
        assert launch.end() == 0, launch.text
    finally:
        lab.run("node2", "umount", "--lazy", "/dev/shm")
    assert shown(tmp_path) == [(["node1", "node2"], "check", ["node2"]), (["node1", "node3"], None, [])]
    assert "ddpkit: node2: put aside; reason: ddpkit test: " in launch.text
