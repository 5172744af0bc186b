"""Action after a failure: the script's own error ends a series of restarts, and a node's fault excludes the node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpkit.diagnosis.action import decide
from ddpkit.diagnosis.decide import analyze_log

OWN = """\
[1 node2] Traceback (most recent call last):
[1 node2]   File "/home/me/train.py", line 3, in <module>
[1 node2]     labels[9]
[1 node2] IndexError: list index out of range
"""


@pytest.mark.parametrize(
    ("log", "action", "host"),
    [
        (OWN, "stop", None),
        (OWN.replace("IndexError: list", "ModuleNotFoundError: No module named 'a'"), "stop", None),
        ("[1 node2] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n", "stop", None),
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", "stop", None),
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***", "retry", None),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO JOB REQUEUE ***", "retry", None),
        ("[1 node2] CUDA error: uncorrectable ECC error encountered\n", "exclude", "node2"),
        ("CUDA error: uncorrectable ECC error encountered\n", "retry", None),
        ("[1 node2] OSError: [Errno 28] No space left on device\n", "exclude", "node2"),
        ("[1 node2] OSError: [Errno 30] Read-only file system: '/scratch'\n", "exclude", "node2"),
        ("[1 node2] RuntimeError: DefaultCPUAllocator: can't allocate memory\n", "stop", None),
        ("Nov 22 10:00:00 node2 kernel: Out of memory: Killed process 42 (python)\n", "exclude", "node2"),
        ("ssh: connect to host node3 port 22: No route to host\n", "exclude", "node3"),
        ("ssh: Could not resolve hostname node9: Name or service not known\n", "stop", None),
        ("RuntimeError: Connection closed by peer [10.0.0.2]:4711\n", "retry", None),
        ("KeyboardInterrupt\n", "stop", None),
        ("Sending process 7 closing signal SIGTERM\nSignalException: Process 3 got signal: 15\n", "stop", None),
        ("Sending process 7 closing signal SIGTERM\n", "retry", None),
        ("step 3 loss 0.2\n", "retry", None),
    ],
)
def test_decisions(log: str, action: str, host: str | None) -> None:
    decision = decide(analyze_log([("log", log)]))
    assert (decision.action, decision.host) == (action, host), decision
    assert decision.reason


def test_a_healthy_log_is_no_reason() -> None:
    steps = "".join(f"step {step} loss 0.{9 - step}\n" for step in range(9))
    assert decide(analyze_log([("log", steps)])).reason == "the log shows no failure"


def test_the_command_prints_the_action(ddpkit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("ssh: connect to host node4 port 22: No route to host\n")
    action = json.loads(ddpkit("explain", "a.log", "--json").stdout)["action"]
    assert (action["action"], action["host"], action["id"]) == ("exclude", "node4", "ssh-unreachable")
