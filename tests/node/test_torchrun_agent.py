"""`torchrun_agent.py`, the task of a SLURM step that starts ranks with torchrun."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE

AGENT = Path(__file__).parents[2] / "ddpkit/node/torchrun_agent.py"
BARRIER = "for other agents to finish"
Start = Callable[[int], "subprocess.Popen[str]"]

pytestmark = [pytest.mark.torch, pytest.mark.live]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start an agent of two, with one rank each. Rank 0 ends at once, rank 1 when this test does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "TMPDIR": str(tmp_path), "LOGLEVEL": "INFO", "TORCHELASTIC_LOG_LEVEL": "INFO"}
    agents: list[subprocess.Popen[str]] = []

    def agent(number: int) -> subprocess.Popen[str]:
        words = ["--nnodes=2", "--nproc_per_node=1", f"--node_rank={number}", "--master_addr=127.0.0.1"]
        words += [f"--master_port={port}", "--no_python", "sh", "-c", '[ "$RANK" = 0 ] || sleep 600']
        started = subprocess.Popen([sys.executable, AGENT, *words], env=env, text=True, stderr=subprocess.PIPE)
        agents.append(started)
        return started

    yield agent
    for each in agents:
        each.send_signal(signal.SIGTERM)
    for each in agents:
        try:
            each.communicate(timeout=60)
        finally:
            each.kill()


def wait_for_directory(folder: Path) -> Path:
    """Return the directory of an agent for its logs, once it is there."""
    until = time.monotonic() + PATIENCE
    while not (found := list(folder.glob("ddpkit-*"))):
        assert time.monotonic() < until
        time.sleep(0.02)  # nobody announces it
    return found[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.thorough_for("2")
def test_an_agent_without_ranks_ends_by_a_signal(number: signal.Signals, start: Start, tmp_path: Path) -> None:
    """It waited in C++ for the other agent, and ended only by SIGKILL: after 30 s with SLURM's default KillWait."""
    first, second = start(0), start(1)
    assert first.stderr
    before = []
    for line in first.stderr:
        before.append(line)
        if BARRIER in line:
            break
    else:
        pytest.fail("".join(before))
    first.send_signal(number)
    first.wait(timeout=60)
    assert first.returncode == 128 + number
    assert second.poll() is None  # so it was not the other agent that ended the wait
    second.send_signal(signal.SIGTERM)
    second.wait(timeout=60)
    assert list(tmp_path.glob("ddpkit-*")) == []


def test_an_agent_that_waits_for_the_others_leaves_no_directory(start: Start, tmp_path: Path) -> None:
    alone = start(0)
    wait_for_directory(tmp_path)
    alone.send_signal(signal.SIGTERM)
    assert alone.wait(timeout=60) in (-signal.SIGTERM, 128 + signal.SIGTERM)
    assert list(tmp_path.glob("ddpkit-*")) == []


def test_a_signal_at_any_moment_of_the_start_leaves_no_directory(start: Start, tmp_path: Path) -> None:
    """Twenty moments in the first third of a second: before, while and after the directory is made."""
    for number in range(20):
        agent = start(0)
        time.sleep(number / 60)
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(timeout=60) in (-signal.SIGTERM, 128 + signal.SIGTERM)
        assert list(tmp_path.glob("ddpkit-*")) == [], f"after {number / 60:.2f} s"


def test_what_a_killed_agent_left_the_next_one_sweeps(start: Start, tmp_path: Path) -> None:
    killed = start(0)
    left = wait_for_directory(tmp_path)
    killed.kill()
    killed.wait(timeout=60)
    assert left.exists()
    start(0)
    until = time.monotonic() + PATIENCE
    while left.exists():
        assert time.monotonic() < until
        time.sleep(0.02)  # nobody announces it


def test_a_failed_rank_has_no_traceback_of_torchrun(tmp_path: Path) -> None:
    """The wrapper of the rank reports its end. The traceback stood between that and the verdict."""
    words = ["--standalone", "--nproc_per_node=2", "--no_python", "sh", "-c", '[ "$RANK" = 0 ] || exit 7; sleep 600']
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, AGENT, *words], env=env, text=True, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert "(exitcode: 7)" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.glob("ddpkit-*")) == []


def test_a_killed_tap_is_reported_before_torchrun_ends_the_others(tmp_path: Path) -> None:
    # torchrun makes one dollar sign of two
    script = '[ "$RANK" = 0 ] || kill -9 $$$$; trap "echo terminated >&2; exit" TERM; while :; do sleep 0.1; done'
    words = ["--standalone", "--nproc_per_node=2", "--no_python", "sh", "-c", script]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, AGENT, *words], env=env, text=True, stderr=subprocess.PIPE, check=False)
    lines = done.stderr.splitlines()
    assert lines.index(f"ddpkit: rank 1 on {os.uname().nodename} lost its helper") < lines.index("terminated")
    assert not any("rank 0 on" in line for line in lines)
