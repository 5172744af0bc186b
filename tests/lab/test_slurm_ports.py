"""Jobs and steps that share a node, started together again and again: each has a port of its own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from cluster import Lab
from launching import DDPKIT, ROOT
from program import wait_until

ROUNDS = 10
# Rank 0 holds the port as torch's store would, until its peer of the same round holds its own. A port that both had
# would be an error of `bind` in one of them.
HOLDS = """
import os, socket, sys, time
me, peer = sys.argv[1:]
with socket.socket() as server:
    server.bind(("", int(os.environ["MASTER_PORT"])))
    server.listen()
    with open(f"{me}.part", "w") as file:
        file.write(os.environ["MASTER_PORT"] + " " + os.uname().nodename)
    os.rename(f"{me}.part", f"{me}.port")
    until = time.monotonic() + 60
    while not os.path.exists(f"{peer}.port"):
        assert time.monotonic() < until, f"{peer} does not come"
        time.sleep(0.02)
"""
# The same with the real thing: the store of torch, and one rank more.
MEETS = """
import sys, time, torch.distributed as dist
me, peer = sys.argv[1:]
dist.init_process_group("gloo")
print(me, dist.get_world_size())
dist.barrier()
dist.destroy_process_group()
"""


def command(script: str, *options: str) -> str:
    return f"PYTHONPATH={ROOT} {shlex.join([*DDPKIT, 'launch', '-b', 'slurm', *options, '--', script])}"


def wait_for_rounds(folder: Path) -> None:
    names = [f"{name}{number}" for number in range(ROUNDS) for name in "ab"]
    wait_until(lambda: all((folder / f"{name}.port").exists() for name in names), lambda: list(folder.iterdir()))
    for number in range(ROUNDS):
        (one, node), (two, other) = ((folder / f"{name}{number}.port").read_text().split() for name in "ab")
        assert node == other
        assert one != two


def test_steps_of_one_job_side_by_side(idle_lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    one = command("holds.py", "-n", "1", "-N", "1")
    lines = [f"{one} a{number} b{number} & {one} b{number} a{number} & wait" for number in range(ROUNDS)]
    (tmp_path / "both.sh").write_text("\n".join(lines) + "\n")
    shown = idle_lab.run("login", "salloc", "-Q", "-N1", "-n2", "bash", "both.sh", cwd=tmp_path)
    assert shown.stderr.count("done in") == 2 * ROUNDS, shown.stdout + shown.stderr
    wait_for_rounds(tmp_path)


def test_jobs_side_by_side_on_one_node(idle_lab: Lab, tmp_path: Path) -> None:
    """Rounds run at the same time on all nodes; both jobs of a round on the same one."""
    (tmp_path / "holds.py").write_text(HOLDS)
    lines = []
    for number in range(ROUNDS):
        one = command("holds.py", "-n", "1", "--detach", "-o", f"nodelist=node{number % 4 + 1}", "-o", "requeue=false")
        lines.append(f"{one} a{number} b{number} & {one} b{number} a{number} & wait")
    (tmp_path / "both.sh").write_text("\n".join(lines) + "\n")
    idle_lab.run("login", "bash", "-e", "both.sh", cwd=tmp_path)
    wait_for_rounds(tmp_path)
    records = [json.loads(path.read_text()) for path in tmp_path.glob("logs/*/run.json")]
    assert len({record["job_id"] for record in records}) == 2 * ROUNDS
    wait_until(lambda: not idle_lab.run("login", "squeue", "-h").stdout)
    shown = idle_lab.run("login", "scontrol", "--oneliner", "show", "job").stdout.splitlines()
    ids = {record["job_id"] for record in records}
    states = {line.split()[0].partition("=")[2]: line for line in shown}
    assert all("JobState=COMPLETED" in states[one] for one in ids)


@pytest.mark.torch
def test_real_ranks_side_by_side(idle_lab: Lab, tmp_path: Path) -> None:
    """Two steps and two jobs at once, all on the same two nodes, each a world of its own."""
    (tmp_path / "meets.py").write_text(MEETS)
    one = command("meets.py", "-n", "1", "-N", "2")
    steps = [f"{one} {name} - > {name}.out 2>&1 &" for name in ("step1", "step2")]
    jobs = [f"DDPKIT_DETECT_SLURM=0 {one} {name} - > {name}.out 2>&1 &" for name in ("job1", "job2")]
    (tmp_path / "all.sh").write_text("\n".join([*steps, *jobs, "wait"]) + "\n")
    idle_lab.run("login", "salloc", "-Q", "-N2", "-n4", "bash", "all.sh", cwd=tmp_path)
    for name in ("step1", "step2", "job1", "job2"):
        text = (tmp_path / f"{name}.out").read_text()
        assert text.count(f"] {name} 2") == 2, text
        assert "done in" in text, text
