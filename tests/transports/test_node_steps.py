"""Steps of a job as connections, with a program in the place of srun that does what a bad day makes of it."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest
from program import PATIENCE, wait_until

from ddpkit.node.supervision.clock import Clock
from ddpkit.transports.allocation import NodeSteps
from ddpkit.transports.channel import Channel, RefusedError, command
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.pool import NodePool

NODE = HostSpec(name="node1")
NEXT = 'while [ "$1" != sh ]; do shift; done; '
ENDED = "echo srun: error: node1: task 0: Exited with exit code $code >&2; exit $code"


def put_srun(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "srun").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def open_channel(steps: NodeSteps, python: str, seconds: float) -> Channel:
    until = time.monotonic() + seconds
    stream = steps.enter(NODE, command(python), until)
    channel = Channel("node1", stream, 30.0, Clock())
    channel.open(until)
    return channel


@pytest.mark.parametrize(
    ("srun", "python", "what", "fix"),
    [
        pytest.param(
            "echo srun: Step creation temporarily disabled >&2; exec sleep 600", "python3",
            "did not start ddpkit's process in time; its output: srun: Step creation temporarily disabled",
            "squeue --steps --jobs=7", id="pending",
        ),
        pytest.param(
            "echo srun: error: Invalid job id specified >&2; exit 1", "python3",
            "its step in job 7 has ended; its output: srun: error: Invalid job id specified",
            "srun --jobid=7 --overlap", id="no job",
        ),
        pytest.param(
            f'{NEXT}"$@"; code=$?; {ENDED}', "/no/python", "its Python cannot be started", "--python PATH",
            id="no Python",
        ),
        pytest.param(
            f"echo Python 3.6.8 is older than 3.8 >&2; code=1; {ENDED}", "python3",
            "its Python 3.6.8 is older than 3.8", "--python PATH", id="old Python",
        ),
    ],
)  # fmt: skip
def test_a_step_that_does_not_start(
    srun: str, python: str, what: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_srun(tmp_path, monkeypatch, srun)
    monkeypatch.setattr("ddpkit.transports.allocation.WRITE_LIMIT", 1.0)
    steps = NodeSteps("7")
    with pytest.raises(RefusedError) as refused:
        open_channel(steps, python, 2.0 if "sleep" in srun else PATIENCE)
    steps.close()
    assert what in refused.value.what
    assert fix in refused.value.fix


def test_the_end_of_a_launch_ends_steps_that_have_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_srun(tmp_path, monkeypatch, f"echo $$ > {tmp_path}/pid; exec sleep 600")
    steps, refused = NodeSteps("7"), threading.Event()

    def connect() -> None:
        try:
            open_channel(steps, "python3", 600.0)
        except RefusedError:
            refused.set()

    threading.Thread(target=connect, daemon=True).start()
    until = time.monotonic() + PATIENCE
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.02)  # nobody announces the start of srun
    steps.close()
    assert refused.wait(PATIENCE)
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(RefusedError, match="has closed its connections"):
        steps.enter(NODE, "true", time.monotonic())


def test_a_node_that_does_not_answer_is_entered_by_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_srun(tmp_path, monkeypatch, f'{NEXT}exec "$@"')
    pool = NodePool([NODE], NodeSteps("7"), 30.0, sys.executable)
    assert pool.connect() == []
    _, (silent,) = pool.ask("probe.look", {"node1": {}}, 0.0)
    pool.close()
    assert silent.fix.startswith("srun --jobid=7 --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist=node1 ")
    assert silent.fix.endswith(" uptime")
