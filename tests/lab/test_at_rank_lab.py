"""`ddpkit shell` and `forward` on nodes: where the rank runs, by every way, and nothing left of a lost terminal."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Lab
from launches import DDPKIT, PATIENCE, ROOT, Launch, ask_run, processes, started_jobs
from launching import SALLOC
from test_top_lab import TORCHRUN, WAYS, over

from ddpkit.transports.protocol import BOOT

# Rank 3 serves a port of its own node alone.
JOB = """\
import os, time
if os.environ["RANK"] == "3":
    import http.server, threading
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("port", server.server_port, flush=True)
print("ready", flush=True)
time.sleep(3600)
"""
LOST = 6  # terminals that are lost; 50 were tried
SAY = 'echo "$RANK of $WORLD_SIZE, local $LOCAL_RANK, on $(cat /proc/sys/kernel/hostname), in $PWD"; exit 7'


@pytest.fixture
def start(idle_lab: Lab, tmp_path: Path) -> Iterator[Callable[..., Launch]]:
    with started_jobs(idle_lab, tmp_path, JOB) as run:
        yield run


def begin(start: Callable[..., Launch], way: str) -> Launch:
    launch = start(*{**WAYS, **TORCHRUN}[way], "--", "job.py", before=SALLOC if way == "step" else ())
    launch.wait_for("ready", 4)
    return launch


@pytest.mark.parametrize("way", [*WAYS, *(pytest.param(way, marks=pytest.mark.torch) for way in TORCHRUN)])
@pytest.mark.thorough_for("job torchrun")
def test_a_command_runs_where_the_rank_runs(
    way: str, start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path
) -> None:
    launch = begin(start, way)
    done = ask_run(idle_lab, tmp_path, "shell", "--rank", "3", "--", "sh", "-c", SAY)
    assert (done.returncode, done.stdout.strip()) == (7, f"3 of 4, local 1, on node2, in {tmp_path}"), done.stderr
    over(launch, idle_lab, tmp_path)


@pytest.mark.parametrize("way", ["ssh ranks", "job"])
def test_a_port_of_a_node(way: str, start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path) -> None:
    launch = begin(start, way)
    port = next(line.split()[-1] for line in launch.text.splitlines() if " port " in line)
    (run,) = (tmp_path / "logs").iterdir()
    words = [*DDPKIT, "forward", port, str(run), "--rank", "3", "--local-port", "8123"]
    env = {**idle_lab.environ(), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    there = subprocess.Popen(idle_lab.argv("login", words, tmp_path), env=env, stderr=subprocess.PIPE, text=True)
    assert there.stderr is not None
    assert there.stderr.readline() == f"ddpkit: localhost:8123 is port {port} of rank 3 on node2; Ctrl-C ends it\n"
    large = random.Random(1).randbytes(3_000_000)
    (tmp_path / "large").write_bytes(large)
    get = "import hashlib, urllib.request as u; data = u.urlopen('http://127.0.0.1:8123/large').read(); "
    get += "print(hashlib.sha256(data).hexdigest())"
    sums = [idle_lab.run("login", sys.executable, "-c", get).stdout.strip() for _ in range(3)]
    assert sums == [hashlib.sha256(large).hexdigest()] * 3
    os.kill(next(pid for pid, (_, line) in processes(idle_lab).items() if " forward " in line), signal.SIGTERM)
    there.wait(PATIENCE)
    there.stderr.close()
    over(launch, idle_lab, tmp_path)


def test_a_forwarded_port_ends_no_session_of_the_user(
    start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path
) -> None:
    """`ControlMaster auto`: an ssh of ours that became the shared connection would take the user's own with it."""
    launch = begin(start, "ssh ranks")
    config = idle_lab.folder / "dot_ssh/config"
    before = config.read_text()
    config.write_text(f"Host *\n  ControlMaster auto\n  ControlPath {idle_lab.folder}/control-%h\n{before}")
    port = next(line.split()[-1] for line in launch.text.splitlines() if " port " in line)
    words = [*DDPKIT, "forward", port, "--rank", "3", "--local-port", "8125"]
    env = {**idle_lab.environ(), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    try:
        with subprocess.Popen(
            idle_lab.argv("login", words, tmp_path), env=env, stderr=subprocess.PIPE, text=True
        ) as there:
            assert there.stderr is not None
            assert "Ctrl-C ends it" in there.stderr.readline()
            theirs = idle_lab.argv("login", ["ssh", "node2", "echo up; read line; echo $line"], tmp_path)
            with subprocess.Popen(theirs, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
                assert session.stdout is not None
                assert session.stdout.readline() == "up\n"
                own = next(pid for pid, (_, line) in processes(idle_lab).items() if " forward " in line)
                os.kill(own, signal.SIGTERM)
                there.wait(PATIENCE)
                assert session.communicate("still here\n", PATIENCE)[0] == "still here\n"
    finally:
        config.write_text(before)
    over(launch, idle_lab, tmp_path)


def newer(lab: Lab, before: set[int]) -> dict[int, tuple[str, str]]:
    """Processes that were not there before; without those by which a supervisor looks at its ranks, again and again."""
    return {pid: what for pid, what in processes(lab).items() if pid not in before and BOOT not in what[1]}


@pytest.mark.parametrize("way", ["ssh ranks", "job"])
def test_a_lost_terminal_leaves_nothing(way: str, start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path) -> None:
    """A command in a terminal is killed at any moment, by any signal: no process of it is left anywhere."""
    launch = begin(start, way)
    (run,) = (tmp_path / "logs").iterdir()
    port = next(line.split()[-1] for line in launch.text.splitlines() if " port " in line)
    rank = [str(run), "--rank", "3"]
    commands = [["shell", *rank], ["debug", *rank], ["forward", port, *rank, "--local-port", "8124"]]
    env = {**idle_lab.environ(), "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "xterm", "SHELL": "/bin/sh"}
    before = set(processes(idle_lab))
    draw = random.Random(20261129)
    for number in range(LOST):
        words = [*DDPKIT, *commands[number % 3]]
        own, other = os.openpty()
        script = "import os, sys; os.setsid(); import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        script += "os.execvp(sys.argv[1], sys.argv[1:])"
        argv = idle_lab.argv("login", [sys.executable, "-c", script, *words], tmp_path)
        there = subprocess.Popen(argv, env=env, stdin=other, stdout=other, stderr=other)
        os.close(other)
        os.write(own, b"echo rank-$RANK; sleep 1000\n")
        time.sleep(draw.uniform(0.2, 3))  # the fault may come at any moment
        if draw.random() < 0.5:
            mine = [
                pid for pid, (_, line) in processes(idle_lab).items() if f" {words[3]} " in line and pid not in before
            ]
            for pid in mine[-1:]:
                os.kill(pid, draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]))
        os.close(own)
        there.wait(PATIENCE)
        until = time.monotonic() + PATIENCE
        while left := newer(idle_lab, before):
            assert time.monotonic() < until, left
            time.sleep(0.05)
    over(launch, idle_lab, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("way", ["ssh ranks", "job"])
def test_a_command_ends_with_its_asker(
    way: str, number: int, start: Callable[..., Launch], idle_lab: Lab, tmp_path: Path
) -> None:
    """Without a terminal, an SSH server tells a command nothing of a lost client."""
    launch = begin(start, way)
    (run,) = (tmp_path / "logs").iterdir()
    words = [*DDPKIT, "shell", str(run), "--rank", "2", "--", "sh", "-c", "echo begun; exec sleep 1000"]
    env = {**idle_lab.environ(), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    before = set(processes(idle_lab))
    there = subprocess.Popen(idle_lab.argv("login", words, tmp_path), env=env, stdout=subprocess.PIPE, text=True)
    assert there.stdout is not None
    assert there.stdout.readline() == "begun\n"
    os.kill(
        max(pid for pid, (_, line) in processes(idle_lab).items() if " shell " in line and pid not in before), number
    )
    there.wait(PATIENCE)
    there.stdout.close()
    until = time.monotonic() + PATIENCE
    while left := newer(idle_lab, before):
        assert time.monotonic() < until, left
        time.sleep(0.05)
    over(launch, idle_lab, tmp_path)
