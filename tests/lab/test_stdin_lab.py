"""`ddpkit launch --stdin RANK` on nodes: every byte and the end, by every way, and in a hold of a job of SLURM."""

from __future__ import annotations

import hashlib
import random
import subprocess

import pytest
from cluster import Lab
from program import PATIENCE
from test_hold_lab import DDPKIT, Project, project  # noqa: F401 (a fixture)

READS = """\
import hashlib, os, sys
data = sys.stdin.buffer.read()
print("read", os.environ["RANK"], len(data), hashlib.sha256(data).hexdigest(), os.uname().nodename, flush=True)
"""
NODES = ("node1", "node2", "-n", "2", "--starter", "ranks")
WAYS = {
    "ssh": ("-b", "ssh", *NODES),
    "openssh": ("-b", "ssh", "-o", "transport=openssh", *NODES),
    "pdsh": ("-b", "pdsh", *NODES),
}


def check(project: Project, *words: str) -> None:  # noqa: F811
    """Launch with rank 3's input, 300 kB of any bytes, on the second node."""
    (project.folder / "job.py").write_text(READS)
    data = random.Random(1).randbytes(300_001)
    argv = project.lab.argv("login", [*DDPKIT, "launch", "--stdin", "3", *words, "--", "job.py"], project.folder)
    env = {**project.lab.environ(), **project.env}
    done = subprocess.run(argv, env=env, input=data, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()
    empty = hashlib.sha256(b"").hexdigest()
    lines = sorted(line.partition("read ")[2] for line in done.stdout.decode().splitlines())
    assert lines == [
        f"0 0 {empty} node1",
        f"1 0 {empty} node1",
        f"2 0 {empty} node2",
        f"3 {len(data)} {hashlib.sha256(data).hexdigest()} node2",
    ]


@pytest.mark.parametrize("way", WAYS)
def test_every_connection_carries_it(way: str, project: Project) -> None:  # noqa: F811
    check(project, *WAYS[way])
    project.wait_for_nothing_left()


def test_a_hold_in_a_job_of_slurm(idle_lab: Lab, project: Project) -> None:  # noqa: F811
    hold = project.hold("-b", "slurm", "node1", "node2", "-n", "2")
    check(project)
    assert project.run("hold", "--end").returncode == 0
    hold.end()
