"""Calls on the nodes of a job, with a program in the place of srun that starts one task and keeps another silent."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ddpkit.launchers.job_output import JobOutput
from ddpkit.transports.protocol import ANSWER_TIME, STEP_START_TIME
from ddpkit.transports.srun import OverlapStep

SRUN = """\
#!/bin/sh
while [ "$1" != sh ]; do shift; done
"$@" | sed -u "s/^/0: /"
sleep 60
"""


def test_a_silent_node_costs_the_limit_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "srun").write_text(SRUN)
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    host = os.uname().nodename
    monkeypatch.setenv("SLURMD_NODENAME", host)
    reader = JobOutput(2)
    reader.hosts |= {0: host, 1: "elsewhere"}
    reader.pids |= {0: os.getpid(), 1: 1}
    step = OverlapStep(reader, "7")
    limit = 1.0
    began = time.monotonic()
    values, reason = step.call("stack_dump.collect", {"limit": limit}, limit)
    answered = time.monotonic() - began
    step.close()
    closed = time.monotonic() - began
    assert [(value["host"], list(value["ranks"])) for value in values if isinstance(value, dict)] == [(host, ["0"])]
    assert reason == "no answer"
    allowed = limit + ANSWER_TIME + STEP_START_TIME
    assert allowed <= answered < allowed + 30.0
    assert closed - answered < 30.0  # its srun would run for a minute
