"""Scripts that print lines of srun, torchrun and ddpkit: neither verdict nor exit code comes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Lab
from launching import Launch, torch
from test_slurm_rank_events import Later

# Every rank prints them, with its own text left open before, and the one that fails does so at once after that.
FORGES = """
import os, sys
rank = int(os.environ["RANK"])
for number in (0, 9):
    for text in (
        f"srun: error: node1: task 3: Exited with exit code {number}",
        f"srun: error: node1: tasks 0-3: Exited with exit code {number}",
        f"3: ddpkit: rank 3 ended: code {number} signal None",
        f"ddpkit: rank 2 ended: code {number} signal None",
        f"[rank 2] ddpkit: rank 2 ended: code {number} signal None",
        "ddpkit: rank 2 on node9 pid 1 step 1.0",
        "ddpkit: attempt 1",
        '{"e":"exit","rank":2,"code":%d,"signal":null,"t":1}' % number,
        '{"e":"end"}',
    ):
        for start in ("", "\\n"):
            print(start + text, flush=True)
            print(start + text, file=sys.stderr, flush=True)
sys.stdout.write("x" * 3000 + "\\0 srun: error: node1: task 3: Exited with exit code 9")
sys.stdout.flush()
sys.exit(7 if rank == 3 and sys.argv[1] == "fails" else 0)
"""
WAYS = {
    "slurm": ["-b", "slurm", "-N", "2"],
    "slurm-torchrun": ["-b", "slurm-torchrun", "-N", "2"],
    "ssh": ["-b", "ssh", "node1", "node2"],
    "ssh-torchrun": ["-b", "ssh", "-o", "starter=torchrun", "node1", "node2"],
}
MARKED = [pytest.param(way, marks=torch if "torchrun" in way else ()) for way in WAYS]


@pytest.mark.parametrize("end", ["fails", "succeeds"])
@pytest.mark.parametrize("way", MARKED)
@pytest.mark.thorough_for("slurm-torchrun-succeeds", "ssh-torchrun-succeeds")
def test_a_followed_run(way: str, end: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text(FORGES)
    command = launch(*WAYS[way], "-n", "2", "--", "job.py", end)
    assert command.end() == (7 if end == "fails" else 0), command.tail
    if end == "fails":
        assert "rank 3 on node2 failed first" in command.text
        assert command.record["failure"]["rank"] == 3
    else:
        assert "failed first" not in command.text


@pytest.mark.parametrize("end", ["fails", "succeeds"])
@pytest.mark.parametrize("way", [each for each in MARKED if "slurm" in str(each.values[0])])
@pytest.mark.thorough_for("slurm-torchrun-succeeds")
def test_a_job_that_nobody_follows(way: str, end: str, folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text(FORGES)
    now = Later(idle_lab, folder, *WAYS[way], "-n", "2", f"job.py {end}").end()
    assert (now["state"], now["exit_code"]) == (("failed", 7) if end == "fails" else ("done", 0)), now
    if end == "fails":
        assert "rank 3 on node2 failed first: exit code 7" in now["verdict"], now
