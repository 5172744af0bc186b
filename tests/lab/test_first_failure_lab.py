"""Failures of a training on two nodes, through every backend: host, rank and cause are those of the rank that began it.

Nothing in the ranks helps (no `--observe`): the others lose their connections to it, or wait for it, and fail as well.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Lab
from launching import Launch, torch, wait_until_gone

TRAINS = """
import atexit, ctypes, datetime, os, signal, sys, time
import torch, torch.distributed as dist

def read_slowly():
    time.sleep(600)

def fail():
    time.sleep(0.3)  # threads of gloo rest: else torch may abort in its own teardown, as without ddpkit
    {what}

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={timeout}))
for step in range(100):
    dist.all_reduce(torch.ones(1))
    if step == 3 and dist.get_rank() == 1:
        fail()
"""
# Where torch's teardown takes long, srun or ddpkit cuts it short, and no exit code is there.
RAISED = "(exit code 1|uncaught exception): ValueError: no such thing at .*job.py:10 in fail"
# What rank 1 does in step 3, and what the verdict says of it: pattern, exit code of the launch.
KINDS = {
    "exits": ("sys.exit(7)", "exit code 7", 7),
    "leaves": ("os._exit(9)", "exit code 9", 9),
    "raises": ("raise ValueError('no such thing')", RAISED, 1),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", r"killed by signal 9 \(SIGKILL\)", 137),
    "segfault": ("ctypes.string_at(0)", r"killed by signal 11 \(SIGSEGV\)", 139),
    "aborts": ("os.abort()", r"killed by signal 6 \(SIGABRT\)", 134),
    "ends slowly": (
        "dist.destroy_process_group(); raise ValueError('no such thing')",
        RAISED,
        1,
    ),
    "hangs": ("read_slowly()", "", 1),
}
BACKENDS = {
    "local": ["-b", "local", "-n", "4"],
    "ssh": ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=ranks"],
    "ssh-torchrun": ["-b", "ssh", "node1", "node2", "-n", "2"],
    "pdsh": ["-b", "pdsh", "node1", "node2", "-n", "2", "-o", "starter=ranks"],
    "slurm-srun": ["-b", "slurm", "-N", "2", "-n", "2"],
    "slurm-torchrun": ["-b", "slurm-torchrun", "-N", "2", "-n", "2"],
}


@torch
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_rank_that_began_it_is_named(
    backend: str, kind: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    what, pattern, code = KINDS[kind]
    (folder / "job.py").write_text(TRAINS.format(what=what, timeout=4 if kind == "hangs" else 60))
    command = launch(*BACKENDS[backend], "--grace", "3", "--", "job.py")
    began = time.monotonic()
    assert command.end() in (code, 1), command.tail
    [verdict] = [line for line in command.lines if "failed first" in line]
    host = "login" if backend == "local" else "node1"
    if kind == "hangs":
        # Any of those that waited: whom they waited for is seen where the launcher looks at ranks in time.
        assert re.search(r"rank [023] on \w+ failed first, after ", verdict), command.tail
        if backend in ("local", "ssh", "pdsh"):
            assert f"rank 1 on {host}" in verdict, command.tail
            assert "it is in job.py:6 in read_slowly" in verdict, command.tail
    else:
        assert re.search(rf"rank 1 on {host} failed first, after .*: {pattern}", verdict), command.tail
    assert time.monotonic() - began < 120
    wait_until_gone(idle_lab, "job.py")
