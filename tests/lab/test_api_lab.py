"""`import ddpkit` in the lab: outcomes of runs over ssh, pdsh and SLURM; a killed program or kernel leaves no rank."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launches import MARK, ROOT, marked
from launching import SALLOC, wait_until

PATIENCE = 120.0
HOSTS = ["node1", "node2"]
SLEEPS = "import time\nprint('ready', flush=True)\ntime.sleep(3600)\n"
FAILS = "import os, sys\nprint('my last words', flush=True)\nif os.environ['RANK'] == '1':\n    sys.exit(7)\n"
FAILS += "import time\ntime.sleep(3600)\n"
NODES: dict[str, dict[str, Any]] = {
    "ssh": {"backend": "ssh", "hosts": HOSTS, "nproc_per_node": 1, "options": {"starter": "ranks"}},
    "pdsh": {"backend": "pdsh", "hosts": HOSTS, "nproc_per_node": 1, "options": {"starter": "ranks"}},
    "slurm": {"backend": "slurm", "nnodes": 2, "nproc_per_node": 1},
}
BEGIN = """
import json, os, sys, time
import ddpkit
keywords = json.loads(sys.argv[1])
def launch(script):
    return ddpkit.launch(script, env={"TEST_MARK_OF_DDPKIT": None}, **keywords)
def wait_for_ranks(run):
    ready = (line for line in run.logs(follow=True) if line.text == "ready")
    next(ready), next(ready)
"""
KILLED = """
run = launch("sleeps.py")
wait_for_ranks(run)
{more}
print("launched", os.getpid(), flush=True)
time.sleep(3600)
"""
# The cells of a notebook run in a kernel, which is another process.
NOTEBOOK = """
import jupyter_client
manager, client = jupyter_client.manager.start_new_kernel()
cells = "import sys; sys.argv = " + repr(sys.argv) + open("cells.py").read()
answer = client.execute_interactive(cells, timeout=100)
assert answer["content"]["status"] == "ok", answer
print("launched", manager.provisioner.pid, flush=True)
time.sleep(3600)
"""
FORKS = "if os.fork() == 0:\n    time.sleep(3600)\n"
OUTCOMES = """
failure = launch("fails.py").wait().failure
print(failure.host, failure.rank, failure.code, failure.last_lines[-1])
with launch("sleeps.py") as run:
    wait_for_ranks(run)
    print(run.status().state)
print(run.wait().state, run.wait().exit_code)
"""


class Program:
    """A Python program on the login host."""

    def __init__(self, lab: Lab, folder: Path, text: str, keywords: dict[str, Any], before: list[str]) -> None:
        self.lab = lab
        self.mark = secrets.token_hex(8)
        for name, script in (("program.py", BEGIN + text), ("sleeps.py", SLEEPS), ("fails.py", FAILS)):
            (folder / name).write_text(script)
        kept = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT), "DDPKIT_GPUS": "0", MARK: self.mark, "TMPDIR": lab.tmp}
        kept["IPYTHONDIR"] = str(folder / "ipython")
        argv = [*before, sys.executable, "program.py", json.dumps(keywords)]
        self.process = subprocess.Popen(
            lab.argv("login", argv, folder),
            env={**lab.environ(), **kept},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, text: str) -> str:
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if text in line:
                return line
        raise AssertionError("".join(lines))

    def ranks(self) -> dict[int, str]:
        """Living ranks and supervisors of the program, on any host."""
        return {pid: line for pid, line in marked(self.mark).items() if "sleeps.py" in line or "supervisor" in line}

    def close(self) -> None:
        for pid in marked(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def program(idle_lab: Lab, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def start(text: str, keywords: dict[str, Any], *before: str) -> Program:
        started.append(Program(idle_lab, tmp_path, text, keywords, list(before)))
        return started[-1]

    yield start
    for each in started:
        each.close()


def start_to_kill(
    program: Callable[..., Program], way: str, more: str = "", text: str = KILLED, **keywords: Any
) -> Program:
    # The allocation outlives the program, so that not its end ends the ranks.
    before = [*SALLOC, "sh", "-c", '"$@"; sleep 3600', "sh"] if way == "slurm" else []
    return program(text.replace("{more}", more), {**NODES[way], **keywords}, *before)


def kill(lab: Lab, process: Program) -> None:
    """Kill the program itself, and nothing that it started."""
    number = process.wait_for("launched").split()[1]
    assert process.ranks()
    lab.run("login", "kill", "-KILL", number)


@pytest.mark.parametrize("way", NODES)
def test_a_killed_program_leaves_no_rank(way: str, lab: Lab, program: Callable[..., Program]) -> None:
    process = start_to_kill(program, way)
    kill(lab, process)
    wait_until(lambda: not process.ranks(), process.ranks)


@pytest.mark.parametrize("way", NODES)
def test_a_killed_kernel_of_a_notebook_leaves_no_rank(
    way: str, lab: Lab, program: Callable[..., Program], tmp_path: Path
) -> None:
    pytest.importorskip("ipykernel")
    (tmp_path / "cells.py").write_text(BEGIN + "run = launch('sleeps.py')\nwait_for_ranks(run)\n")
    process = start_to_kill(program, way, text=NOTEBOOK)
    kill(lab, process)
    wait_until(lambda: not process.ranks(), process.ranks)


@pytest.mark.parametrize("way", ["ssh", "pdsh"])
def test_a_forked_child_of_a_killed_program_keeps_no_rank(way: str, lab: Lab, program: Callable[..., Program]) -> None:
    """Its copies of pipes and sockets do not hide the death; signs of life are far apart."""
    options = {"starter": "ranks", "heartbeat_timeout": 3600}
    process = start_to_kill(program, way, FORKS, options=options)
    before = time.monotonic()
    kill(lab, process)
    wait_until(lambda: not process.ranks(), process.ranks)
    assert time.monotonic() - before < 60


@pytest.mark.parametrize("way", NODES)
def test_outcomes(way: str, program: Callable[..., Program]) -> None:
    """The first failure with its host and last line; a stopped run, with SLURM a cancelled job."""
    process = program(OUTCOMES, NODES[way])
    assert process.wait_for("my last words") == "node2 1 7 my last words\n"
    assert process.wait_for("") == "running\n"
    assert process.wait_for("") == "stopped 143\n"
    assert process.process.wait(PATIENCE) == 0
