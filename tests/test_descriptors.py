"""Waits on descriptors above 1023, which `select` refuses: a program that launches, or many nodes, can have so many."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "ddpkit"
WAITS = r"""
import os, subprocess

held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
from ddpkit.machine import HERE
from ddpkit.run import launcher_process

stream = HERE.open(["echo", "up"], {"PATH": os.environ["PATH"]})
output = b""
while output != b"up\n":
    output += stream.read(60.0)[0]
stream.close(60.0)

child = subprocess.Popen(["cat"], stdin=-1)
launcher_process.is_launcher = launcher_process.is_alive = lambda run: child.poll() is None
run = type("Run", (), {"in_program": False, "launcher_pid": child.pid})
child.stdin.close()
assert launcher_process.wait_for_end(run, 60.0)
print("done")
"""


def test_descriptors_above_1023() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < 2048:
        pytest.skip("this machine allows too few descriptors")

    def more() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2048, most))

    done = subprocess.run(
        [sys.executable, "-c", WAITS], preexec_fn=more, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_select_gets_standard_streams_only() -> None:
    waits = {
        f"{path.relative_to(PACKAGE)}: {match[0]}"
        for path in PACKAGE.rglob("*.py")
        for match in re.finditer(r"\bselect\.select\(.*|from select import.*", path.read_text())
        if not re.match(r"select\.select\((\[[01]\]|\[\]), (\[[01]\]|\[\]), ", match[0])
    }
    assert waits == set()
