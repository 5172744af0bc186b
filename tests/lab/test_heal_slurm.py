"""Runs that heal inside an allocation of SLURM: each attempt is a step on nodes of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Lab
from launching import BACKENDS, Launch, wait_until_gone
from test_heal import JOB

SALLOC = ["salloc", "-Q", "-N3", "--no-kill", "--ntasks-per-node=1"]
START = Callable[..., Launch]


def started(launch: START, folder: Path, backend: str, *words: str) -> Launch:
    (folder / "job.py").write_text(JOB)
    options = ["-b", backend, "--grace", "1", "--retries", "2", "--spares", "1", *words]
    return launch(*options, "--", "job.py", before=SALLOC)


def shown(run: Launch) -> list[tuple[list[str], str | None]]:
    """Hosts and action of each attempt."""
    return [(each["hosts"], each["decision"] and each["decision"]["action"]) for each in run.record["attempts"]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_rank_starts_again_on_the_same_nodes(idle_lab: Lab, launch: START, folder: Path, backend: str) -> None:
    run = started(launch, folder, backend)
    run.wait_for("ready 1", times=2)
    rank = max(pid for pid, line in idle_lab.processes("node2").items() if line.endswith(" job.py"))
    idle_lab.run("node2", "kill", "-9", str(rank))
    run.wait_for("ready 2", times=2)
    (folder / "go.2").touch()
    assert run.end() == 0, run.text
    assert shown(run) == [(["node1", "node2"], "check"), (["node1", "node2"], None)]
    wait_until_gone(idle_lab, "job.py")


def test_an_exception_of_the_script_is_not_repeated(launch: START, folder: Path) -> None:
    (folder / "fail.1.1").touch()
    run = started(launch, folder, "slurm")
    assert run.end() == 1, run.text
    assert shown(run) == [(["node1", "node2"], "stop")]


def test_a_node_that_died_is_replaced_in_the_allocation(idle_lab: Lab, launch: START, folder: Path) -> None:
    run = started(launch, folder, "slurm")
    run.wait_for("ready 1", times=2)
    try:
        idle_lab.kill("node2")
        run.wait_for("ready 2", times=2)  # after SlurmdTimeout
        (folder / "go.2").touch()
        assert run.end() == 0, run.text
    finally:
        idle_lab.boot("node2")
    assert shown(run) == [(["node1", "node2"], "replace"), (["node1", "node3"], None)]
    assert "node2: SLURM reports down*" in run.record["attempts"][0]["decision"]["reason"]


def test_an_allocation_without_enough_nodes(launch: START, folder: Path) -> None:
    run = started(launch, folder, "slurm", "-N", "3")
    assert run.end() == 121
    assert "-N 3 and --spares 1: allocation " in run.text
