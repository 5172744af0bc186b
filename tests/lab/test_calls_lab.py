"""`ddpkit.call` and `ddpkit.map` in the lab, over ssh, pdsh and SLURM: values, failures, and the end of a call."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launches import MARK, ROOT, marked
from launching import SALLOC, wait_until
from test_hold_lab import Project, project  # noqa: F401 (a fixture)

PATIENCE = 120.0
HOSTS = ["node1", "node2"]
WAYS: dict[str, dict[str, Any]] = {
    "ssh": {"backend": "ssh", "hosts": HOSTS, "nproc_per_node": 2, "options": {"starter": "ranks"}},
    "pdsh": {"backend": "pdsh", "hosts": HOSTS, "nproc_per_node": 2, "options": {"starter": "ranks"}},
    "slurm": {"backend": "slurm", "nnodes": 2, "nproc_per_node": 2},
    "salloc": {"backend": "slurm", "nnodes": 2, "nproc_per_node": 1},
    "slurm-torchrun": {"backend": "slurm-torchrun", "nnodes": 2, "nproc_per_node": 2},
}
BEGIN = """
import json, os, sys, time
import ddpkit
import helper  # of this folder
keywords = json.loads(sys.argv[1])
def work(word, factor=1):
    import os, time
    rank = int(os.environ["RANK"])
    if word == "fail" and rank == 1:
        raise ValueError("no data")
    if word != "values":
        time.sleep(3600)
    return [rank * factor, os.uname().nodename, helper.double(int(os.environ["WORLD_SIZE"])), b"x" * 100_000]
"""
VALUES = """
values = ddpkit.call(work, "values", factor=3, **keywords)
print(json.dumps([[*each[:3], len(each[3])] for each in values]))
try:
    ddpkit.call(work, "fail", **keywords)
except ddpkit.RankError as error:
    print(json.dumps([error.rank, error.host, error.kind, error.reason, "in work" in error.traceback, error.exit_code]))
left = [str(path) for path in ddpkit.runs()[0].folder.rglob("*") if path.parent.name == "call"]
print(json.dumps(left))
"""
CANCELLED = """
import signal, threading
def interrupt():
    while ddpkit.runs() == [] or not list(ddpkit.runs()[0].logs(grep="ready")):
        time.sleep(0.1)
    print("ready", flush=True)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
def sleep():
    import time
    print("ready", flush=True)
    time.sleep(3600)
threading.Thread(target=interrupt).start()
try:
    ddpkit.call(sleep, **keywords)
except KeyboardInterrupt:
    print("interrupted", ddpkit.runs()[0].state, flush=True)
"""
KILLED = """
import signal, threading
def sleep(word):
    print("ready", flush=True)
    time.sleep(3600)
def kill():
    while ddpkit.runs() == [] or not list(ddpkit.runs()[0].logs(grep="ready")):
        time.sleep(0.1)
    print(ddpkit.runs()[0].folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=kill).start()
ddpkit.call(sleep, "TOP" + "SECRET", **keywords)
"""
ITEMS = """
def one(item):
    import os
    return item, os.uname().nodename, os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ["WORLD_SIZE"]
print(json.dumps(list(ddpkit.map(one, range(5), **keywords))))
"""

HELD = """
def warm():
    return os.uname().nodename, "fractions" in sys.modules, os.environ["WORLD_SIZE"]
print(json.dumps(ddpkit.call(warm)))
"""


@pytest.fixture
def run(idle_lab: Lab, tmp_path: Path) -> Iterator[Callable[..., list[Any]]]:
    """Run a program on the login host to its end. Returns its lines."""
    mark = secrets.token_hex(8)
    (tmp_path / "helper.py").write_text("def double(x):\n    return 2 * x\n")

    def start(text: str, keywords: dict[str, Any], *before: str, **env: str) -> list[Any]:
        (tmp_path / "program.py").write_text(BEGIN + text)
        kept = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT), "DDPKIT_GPUS": "0", MARK: mark, "TMPDIR": idle_lab.tmp}
        done = subprocess.run(
            idle_lab.argv("login", [*before, sys.executable, "program.py", json.dumps(keywords)], tmp_path),
            env={**idle_lab.environ(), **kept, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    yield start

    def left() -> str:
        seen = [idle_lab.run("login", "scontrol", "show", what, check=False).stdout for what in ("job", "node")]
        return "\n".join([str(marked(mark)), *seen])

    wait_until(lambda: not marked(mark), left)


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.torch if "torchrun" in way else ()) for way in WAYS]
)
def test_values_and_failures(way: str, run: Callable[..., list[Any]]) -> None:
    lines = run(VALUES, WAYS[way], *(SALLOC if way == "salloc" else ()))
    each, world = WAYS[way]["nproc_per_node"], 2 * WAYS[way]["nproc_per_node"]
    values, failure, left = map(json.loads, lines[-3:])
    assert values == [[3 * rank, f"node{1 + rank // each}", 2 * world, 100_000] for rank in range(world)]
    assert failure == [1, "node1" if each == 2 else "node2", "ValueError", "no data", True, 1]
    assert left == []


@pytest.mark.parametrize("way", ["ssh", "slurm"])
def test_an_interrupt_ends_the_ranks(way: str, run: Callable[..., list[Any]]) -> None:
    assert run(CANCELLED, WAYS[way])[-2:] == ["ready", "interrupted stopped"]


@pytest.mark.parametrize("way", ["slurm", "salloc"])
def test_a_killed_program_leaves_no_ranks_and_no_function(
    way: str, run: Callable[..., list[Any]], idle_lab: Lab
) -> None:
    """Under SLURM the function is in a file, with its arguments. What the fixture waits for: no process is left."""
    lines = run(KILLED, WAYS[way], *(SALLOC if way == "salloc" else ()), "sh", "-c", '"$@"; true', "sh")
    folder = Path(lines[-1])
    assert folder.is_dir()

    def left() -> str:
        jobs = idle_lab.run("login", "squeue", "--noheader", check=False).stdout
        return jobs + "\n".join(map(str, (folder / "call").glob("*")))

    wait_until(lambda: not (folder / "call").exists() and not left().strip(), left)
    assert not [path for path in folder.rglob("*") if path.is_file() and b"TOPSECRET" in path.read_bytes()]


def test_items_over_ssh(run: Callable[..., list[Any]]) -> None:
    keywords = {"backend": "ssh", "hosts": HOSTS, "gpus": 0, "at_once": 4}
    items = json.loads(run(ITEMS, keywords)[-1])
    assert [item[0][0] for item in items] == [*range(5)]
    assert {item[0][3] for item in items} == {"1"}
    assert {item[0][1] for item in items} <= set(HOSTS)


def test_items_in_an_allocation(run: Callable[..., list[Any]]) -> None:
    items = json.loads(run(ITEMS, {"backend": "slurm", "nnodes": 2, "gpus": 0}, *SALLOC)[-1])
    assert [item[0][0] for item in items] == [*range(5)]
    assert {item[0][1] for item in items} == set(HOSTS)


@pytest.mark.parametrize("way", ["ssh", "slurm"])
def test_a_hold_of_nodes(
    way: str,
    run: Callable[..., list[Any]],
    project: Project,  # noqa: F811
) -> None:
    """A call goes to the warm Pythons of a hold, fails as anywhere, and leaves the hold as it was."""
    hold = project.hold("-b", way, *HOSTS, "-n", "2")
    values, failure, left = map(json.loads, run(VALUES, {})[-3:])
    assert values == [[3 * rank, f"node{1 + rank // 2}", 8, 100_000] for rank in range(4)]
    assert failure == [1, "node1", "ValueError", "no data", True, 1]
    assert left == []
    assert json.loads(run(HELD, {})[-1]) == [[HOSTS[rank // 2], True, "4"] for rank in range(4)]
    assert project.run("hold", "--end").returncode == 0
    hold.end()
    project.wait_for_nothing_left()
