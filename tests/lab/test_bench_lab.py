"""`ddpkit bench` between hosts: over every way of launching, with what is within a node and between nodes apart."""

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
QUICK = ["-e", "1K", "-f", "128", "--seconds", "0.01", "--json"]
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


def scopes(shown: dict[str, Any]) -> dict[str, set[tuple[str, int]]]:
    """The groups of each scope, with how many ranks each has."""
    found: dict[str, set[tuple[str, int]]] = {}
    for one in shown["results"]:
        assert (one["wrong"], one["note"]) == (0, "")
        assert one["seconds"] > 0
        found.setdefault(one["scope"], set()).add((one["group"], one["ranks"]))
    return found


@pytest.mark.parametrize("way", mostly(WAYS, "ssh"))
def test_within_and_between_nodes(way: str, bench: Bench) -> None:
    done = bench(*WAYS[way], *QUICK)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["ok"], shown["world_size"], shown["nodes"], shown["problems"]) == (True, 4, 2, [])
    nodes = {("node1", 2), ("node2", 2)}
    assert scopes(shown) == {"world": {("all", 4)}, "intra": nodes, "inter": {("one a node", 2)}}
    ops = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv"]
    assert list(dict.fromkeys(one["op"] for one in shown["results"])) == ops
    assert {one["host"] for one in shown["results"]} <= {"node1", "node2"}


def test_in_an_allocation(bench: Bench) -> None:
    done = bench("-b", "slurm", "-n", "2", *QUICK, "--ops", "all_reduce", before=SALLOC)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["world_size"], shown["nodes"], set(scopes(shown))) == (4, 2, {"world", "intra", "inter"})


def test_every_two_nodes(bench: Bench) -> None:
    nodes = ["node1", "node2", "node3", "node4"]
    done = bench("-b", "ssh", *nodes, "-n", "1", "-o", "starter=ranks", *QUICK, "--scope", "pairs")
    assert done.returncode == 0, done.stderr
    pairs = {(f"{a}-{b}", 2) for a in nodes for b in nodes if a < b}
    assert scopes(json.loads(done.stdout)) == {"pairs": pairs}


@pytest.mark.parametrize("way", mostly(["ssh", "job"], "job"))
def test_a_slow_node_fails_with_122_and_is_named(way: str, bench: Bench) -> None:
    done = bench(*WAYS[way], *QUICK, "--ops", "broadcast", "--scope", "intra", "--min-busbw", "1e6")
    assert done.returncode == 122, done.stderr
    problems = json.loads(done.stdout)["problems"]
    said = [problem["problem"].partition(" (")[2].partition(":")[2].partition(",")[0] for problem in problems]
    assert sorted(said) == [" node1", " node2"]
    assert [problem["host"] for problem in problems] == ["node1", "node2"]
