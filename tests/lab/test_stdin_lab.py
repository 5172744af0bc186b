"""`ddpkit launch --stdin RANK` on nodes: every byte and the end, by every way, and in a hold of a job of SLURM."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess

import pytest
from cluster import Lab
from program import PATIENCE
from terminal import Terminal
from test_hold_lab import DDPKIT, Project, project  # noqa: F401 (a fixture)

READS = """\
import hashlib, os, sys
data = sys.stdin.buffer.read()
print("read", os.environ["RANK"], len(data), hashlib.sha256(data).hexdigest(), os.uname().nodename, flush=True)
"""
STOPS = """\
import os
if os.environ["RANK"] == "3":
    answer = 40
    breakpoint()
    print("the answer is", answer, flush=True)
"""
SALLOC = ("salloc", "-Q", "--nodelist=node1,node2", "-N2", "--ntasks-per-node=2")
NODES = ("node1", "node2", "-n", "2", "--starter", "ranks")
WAYS = {
    "ssh": ("-b", "ssh", *NODES),
    "openssh": ("-b", "ssh", "-o", "transport=openssh", *NODES),
    "pdsh": ("-b", "pdsh", *NODES),
}


def check(project: Project, *words: str, before: tuple[str, ...] = ()) -> None:  # noqa: F811
    """Launch with rank 3's input, 300 kB of any bytes, on the second node. `before`: the program that starts it."""
    (project.folder / "job.py").write_text(READS)
    data = random.Random(1).randbytes(300_001)
    launch = [*before, *DDPKIT, "launch", "--stdin", "3", *words, "--", "job.py"]
    argv = project.lab.argv("login", launch, project.folder)
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


def test_srun_gives_it_to_the_task_of_the_rank(idle_lab: Lab, project: Project) -> None:  # noqa: F811
    check(project, "-b", "slurm-srun", before=SALLOC)
    project.wait_for_nothing_left()


def test_breakpoint_in_a_task_of_srun(idle_lab: Lab, project: Project) -> None:  # noqa: F811
    (project.folder / "job.py").write_text(STOPS)
    launch = [*SALLOC, *DDPKIT, "launch", "--stdin", "3", "-b", "slurm", "--", "job.py"]
    argv = idle_lab.argv("login", launch, project.folder)
    terminal = Terminal(argv, project.folder, {**idle_lab.environ(), **project.env, "TERM": "xterm"})
    terminal.wait_for(lambda: terminal.shows(r"^\[3 node2\] \(Pdb\) *$"))
    os.write(terminal.handle, b"answer = 42\n")
    terminal.wait_for_bytes(b"(Pdb) ", 2)
    os.write(terminal.handle, b"continue\n")
    terminal.wait_for(lambda: terminal.shows("the answer is 42$"))
    assert terminal.end() == 0, terminal.seen
    (log,) = project.folder.glob("logs/*/rank_3.log")
    assert log.read_text().endswith("(Pdb) (Pdb) the answer is 42\n")


@pytest.mark.parametrize(
    ("options", "before"),
    [
        (("-b", "slurm", "node1", "node2", "-n", "2"), ()),
        (("-b", "slurm", "--preload"), SALLOC),
        (("-b", "slurm-torchrun"), SALLOC),
    ],
)
def test_where_no_task_is_a_rank(
    options: tuple[str, ...],
    before: tuple[str, ...],
    idle_lab: Lab,
    project: Project,  # noqa: F811
) -> None:
    """A submitted job has no terminal, and a task that starts several ranks no input for one. Nothing starts."""
    done = idle_lab.run(
        "login",
        *(*before, *DDPKIT, "launch", "--stdin", "3", *options, "--", "job.py"),
        cwd=project.folder,
        env=project.env,
        check=False,
    )
    assert done.returncode == 121, done.stderr
    assert "ddpkit hold -b slurm" in done.stderr
