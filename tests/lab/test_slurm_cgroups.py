"""`ddpkit launch` on a SLURM as most sites have it: cgroups limit memory and devices; a signal reaches a task alone.

LAB_CGROUPS=1 runs all tests of SLURM on such a lab.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Lab, missing_controller
from conftest import lab_up
from launching import BACKENDS, SALLOC, Launch, wait_until, with_preload
from test_slurm_launch import TRAPS
from test_slurm_scripts import KINDS, SOON, Cluster

# Writes down the signals that it got. It ends after SIGUSR2.
RECORD = """
import os, signal
got = []
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
print("ready", flush=True)
while signal.SIGUSR2 not in got:
    got.append(signal.sigwait([signal.SIGUSR1, signal.SIGUSR2]))
    open(f"{got[-1].name}.{os.environ['RANK']}", "w").close()
print("got", *(number.name for number in got), flush=True)
"""
GREEDY = """
import os, time
print("ready", flush=True)
if os.environ["RANK"] == "1":
    held = bytearray(2 << 30)
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    reason = missing_controller()
    if reason:
        pytest.skip(f"the lab needs {reason}")
    with lab_up(cgroups=True) as cluster:
        yield cluster


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_rank_gets_a_signal_of_scancel_once(
    backend: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    (folder / "job.py").write_text(RECORD)
    command = launch(*with_preload(["-b", backend, "-N", "2", "-n", "1", "--", "job.py"]))
    command.wait_for("] ready", times=2)
    (record,) = folder.glob("logs/*/run.json")
    for name in ("SIGUSR1", "SIGUSR2"):
        idle_lab.run("login", "scancel", f"--signal={name}", json.loads(record.read_text())["job_id"])
        wait_until(lambda name=name: len(list(folder.glob(f"{name}.*"))) == 2, lambda: command.text)  # type: ignore[misc]
    assert command.end() == 0, command.tail
    assert command.text.count("] got SIGUSR1 SIGUSR2\n") == 2, command.text


def test_ranks_can_save_when_the_launcher_is_ended(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text(TRAPS)
    command = launch("-b", "slurm", "-N", "2", "-n", "1", "--", "job.py", before=[*SALLOC, "setsid", "--wait"])
    command.wait_for("] ready", times=2)
    command.signal(idle_lab, signal.SIGTERM)
    assert command.end() == 128 + signal.SIGTERM, command.tail
    assert command.text.count("] saved") == 2, command.text


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rank_that_uses_more_memory_than_its_job_requested(
    backend: str, launch: Callable[..., Launch], folder: Path
) -> None:
    (folder / "job.py").write_text(GREEDY)
    command = launch(*with_preload(["-b", backend, "-N", "2", "-n", "1", "--mem", "900M", "--", "job.py"]))
    assert command.end() == 128 + signal.SIGKILL, command.tail
    (verdict,) = (line for line in command.lines if "failed first" in line)
    assert "rank 1 on node2" in verdict
    assert "the kernel ended it: the memory limit of its job (" in verdict
    assert "hint: sbatch --mem=MORE" in command.text
    (record,) = folder.glob("logs/*/run.json")
    assert json.loads(record.read_text())["failure"]["action"] == {
        "action": "stop",
        "host": None,
        "id": "slurm-out-of-memory",
        "reason": "the job requested less memory than it used",
        "proven": False,
    }


@pytest.mark.torch
@pytest.mark.parametrize("script", ["slurm_train.sh", "run_distributed.slurm"])
def test_a_job_script_ends_soon_after_a_rank(script: str, idle_lab: Lab, tmp_path: Path) -> None:
    """The shell of a task passes SIGTERM on: else the other ranks end only after KillWait, 30 seconds."""
    cluster = Cluster(idle_lab, tmp_path)
    job = cluster.submit(script, ["die", "7"], KINDS[script][0])
    assert job.end() == "7:0", job.said()
    assert time.time() - float((cluster.folder / "died").read_text()) < SOON
