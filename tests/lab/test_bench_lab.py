"""`ddpkit bench` between hosts: over every way of launching."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from conftest import PATIENCE
from launching import SALLOC, mostly

ROOT = Path(__file__).parents[2]
DDPKIT = [sys.executable, "-m", "ddpkit"]
QUICK = ["-e", "1K", "-f", "128", "--json"]
pytestmark = pytest.mark.torch
Bench = Callable[..., "subprocess.CompletedProcess[str]"]
WAYS = {
    "ssh": ["-b", "ssh", "node1", "node2", "-n", "2"],
    "ssh-ranks": ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=ranks"],
    "pdsh": ["-b", "pdsh", "node1", "node2", "-n", "2"],
    "legacy": ["-b", "legacy", "node1", "node2", "-n", "2"],
    "job": ["-b", "slurm", "-N", "2", "-n", "2", "-o", "nodelist=node1,node2"],
    "torchrun-job": ["-b", "slurm-torchrun", "-N", "2", "-n", "2", "-o", "nodelist=node1,node2"],
}


@pytest.fixture
def bench(idle_lab: Lab, tmp_path: Path) -> Bench:
    """Run `ddpkit bench ARGS` on the login host to its end, after the words in `before`."""

    def run(*args: str, before: list[str] | None = None) -> subprocess.CompletedProcess[str]:
        argv = [*(before or []), *DDPKIT, "bench", *args]
        env = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
        return idle_lab.run("login", *argv, cwd=tmp_path, env=env, check=False, timeout=PATIENCE)

    return run


@pytest.mark.parametrize("way", mostly(WAYS, "ssh"))
def test_two_ranks_on_each_of_two_nodes(way: str, bench: Bench) -> None:
    done = bench(*WAYS[way], *QUICK)
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout))


def test_in_an_allocation(bench: Bench) -> None:
    done = bench("-b", "slurm", "-n", "2", *QUICK, before=SALLOC)
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout))


def check(shown: dict[str, Any]) -> None:
    assert (shown["ok"], shown["world_size"], shown["nodes"], shown["problems"]) == (True, 4, 2, [])
    ops = ["all_reduce", "all_gather", "reduce_scatter"]
    assert list(dict.fromkeys(one["op"] for one in shown["results"])) == ops
    assert {one["host"] for one in shown["results"]} <= {"node1", "node2"}
    for one in shown["results"]:
        assert (one["wrong"], one["note"]) == (0, "")
        assert one["seconds"] > 0
