"""`ddpkit launch` in the lab, as a fixture, and a look at what is left of it on the nodes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hints
import pytest
from cluster import NODES, Lab
from program import PATIENCE as PATIENCE
from program import Program
from program import wait_until as wait_until

ROOT = Path(__file__).parents[2]
DDPKIT = [sys.executable, "-m", "ddpkit"]
torch = pytest.mark.torch


def mostly(values: Iterable[str], *kept: str) -> list[Any]:
    """Parameters of a test of which every run of the tests tries these; the others are for `make test-thorough`."""
    marks = pytest.mark.thorough
    return [value if value in kept else pytest.param(value, marks=marks) for value in values]


BACKENDS = [
    pytest.param("slurm", id="srun"),
    pytest.param("slurm-preload", id="preload"),
    pytest.param("slurm-torchrun", id="torchrun", marks=torch),
]

# Says who it is, then comes to its end in some way once both files that it waits for are there.
WHO = """
import json, os, sys, time
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT OMP_NUM_THREADS".split()
seen = {name: os.environ[name] for name in names}
seen["host"] = os.uname().nodename
with open(f"who.{seen['RANK']}", "w") as file:
    json.dump(seen, file)
"""
SLEEP = "import os, time\nprint('ready', flush=True)\ntime.sleep(3600)\n"


@pytest.fixture
def folder(idle_lab: Lab, tmp_path: Path) -> Path:
    return tmp_path


def with_preload(args: list[str]) -> list[str]:
    """Return a command line whose ranks are forked where its backend is `slurm-preload`."""
    if "slurm-preload" not in args:
        return args
    at = args.index("slurm-preload")
    return [*args[:at], "slurm", "--preload=json", *args[at + 1 :]]


class Launch(Program):
    """One `ddpkit launch` on the login host, its output as it comes."""

    def __init__(self, lab: Lab, folder: Path, args: list[str], before: list[str]) -> None:
        self.folder, self.before = folder, before
        self.args = args = with_preload(args)
        env = {**lab.environ(), "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
        super().__init__(lab.argv("login", [*before, *DDPKIT, "launch", *args], folder), env=env)

    def signal(self, lab: Lab, number: int) -> None:
        """To the launcher itself, which runs in the host's own process tree."""
        shown = lab.processes("login").items()
        pids = [pid for pid, line in shown if line.startswith(f"{sys.executable} -m ddpkit launch")]
        # A child of it that has not become another program yet looks like it, and has the higher number.
        lab.run("login", "kill", f"-{number}", str(min(pids)))

    @property
    def record(self) -> dict[str, Any]:
        """What `run.json` says, once it is there."""
        found = re.search(r"logs in (\S+)/", self.text)
        assert found is not None, self.text
        record: dict[str, Any] = json.loads((self.folder / found[1] / "run.json").read_text())
        return record

    def problems(self, lab: Lab) -> list[str]:
        """What is wrong with the hints of this launch, where it was typed."""

        def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
            own = [*self.before, *DDPKIT, *command[1:]] if command[0] == "ddpkit" else command
            env = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
            return lab.run("login", *own, cwd=self.folder, env=env, check=False)

        return hints.problems(["launch", *self.args], self.text, run)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


@pytest.fixture
def launch(idle_lab: Lab, folder: Path) -> Iterator[Callable[..., Launch]]:
    """Start `ddpkit launch ARGS` on the login host, after the words in `before`."""
    started: list[Launch] = []

    def run(*args: str, before: list[str] | None = None) -> Launch:
        started.append(Launch(idle_lab, folder, list(args), before or []))
        return started[-1]

    yield run
    for each in started:
        each.close()
    for each in started:
        if each.process.returncode in (121, 122, 123):  # nothing was started
            assert each.problems(idle_lab) == [], each.text


SALLOC = ["salloc", "-Q", "-N2", "--ntasks-per-node=2"]


def on_nodes(lab: Lab, what: str) -> dict[str, list[str]]:
    """Every process with `what` in its command line, on every node."""
    return {name: found for name in NODES if (found := [p for p in lab.processes(name).values() if what in p])}


def wait_until_gone(lab: Lab, what: str) -> None:
    wait_until(lambda: not on_nodes(lab, what), lambda: on_nodes(lab, what))
