"""Errors whose hint is a whole command, and words of another launcher's users."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE, Command

DDPKIT = Callable[..., "subprocess.CompletedProcess[str]"]
BATCH = "#!/bin/bash\n#SBATCH -N 2\nsrun python train.py\n"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ran')\n")
    (tmp_path / "own.sbatch").write_text(BATCH)
    (tmp_path / "own.sbatch").chmod(0o755)


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        (
            ["-b", "ssh", "node1", "node2", "-n", "1", "trian.py", "--lr", "3"],
            "script trian.py not found",
            "ddpkit launch -b ssh node1 node2 -n 1 -- train.py --lr 3",
        ),
        (
            ["--nnodes", "2", "--nproc-per-node", "2", "train.py"],
            "backend local runs on this machine only, and does not support -N 2; ssh and slurm do",
            "ddpkit launch --nnodes 2 --nproc-per-node 2 -b ssh HOST HOST -- train.py",
        ),
        (
            ["-N", "2", "-t", "1:00:00", "train.py"],
            "-t 1:00:00: --time is an option of backend slurm",
            "ddpkit launch -b slurm -N 2 -t 1:00:00 train.py",
        ),
        (
            ["-b", "ssh", "-N", "2", "node1", "--", "train.py"],
            "2 nodes requested, and 1 host given",
            "ddpkit launch -b ssh node1 HOST -- SCRIPT, or -N 1",
        ),
        (
            ["-b", "slurm", "-N", "2", "own.sbatch"],
            "own.sbatch is in the place of a host, and is a file here",
            "ddpkit launch -b slurm -N 2 -- own.sbatch",
        ),
        (
            ["-b", "slurm", "-N", "2", "--", "./own.sbatch"],
            "./own.sbatch is a batch script of SLURM",
            "sbatch ./own.sbatch; or",
        ),
        (["-b", "slurm", "--", "bash", "own.sbatch"], "own.sbatch is a batch script of SLURM", "sbatch own.sbatch; or"),
    ],
    ids=["script", "nodes", "time", "hosts", "file", "batch script", "batch script in a shell"],
)
def test_the_command_that_was_meant(words: list[str], what: str, hint: str, ddpkit: DDPKIT) -> None:
    done = ddpkit("launch", *words)
    assert done.returncode == 121
    assert f"error: {what}" in done.stderr
    assert f"\nhint: {hint}" in done.stderr


def test_options_without_a_command_are_those_of_launch(ddpkit: DDPKIT) -> None:
    done = ddpkit("-n", "2", "train.py")
    assert done.returncode == 121
    assert "hint: ddpkit launch -n 2 train.py" in done.stderr


def test_a_batch_script_that_is_meant_to_run(ddpkit: DDPKIT) -> None:
    assert ddpkit("launch", "--dry-run", "--allow-nested", "--", "./own.sbatch").returncode == 0


def test_a_run_that_was_stopped_has_no_failure(
    start: Callable[..., Command], ddpkit: DDPKIT, script: Callable[[str], str]
) -> None:
    """The ranks only report the signal of their launcher."""
    name = script("import time\nprint('Sending process 7 closing signal SIGTERM\\nup', flush=True)\ntime.sleep(600)\n")
    command = start("launch", "-n", "1", "--", name)
    command.wait_for("up")
    os.kill(command.process.pid, signal.SIGINT)
    assert command.process.wait(PATIENCE) == 130
    done = ddpkit("explain")
    assert "stopped" in done.stdout
    assert "no failure in this log" in done.stdout
    assert "sacct" not in done.stdout


def test_the_report_is_of_the_newest_run(
    start: Callable[..., Command], ddpkit: DDPKIT, script: Callable[[str], str]
) -> None:
    """As `explain`, also while an older run continues."""
    name = script("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    running = start("launch", "-n", "1", "--name", "older", "--", name)
    running.wait_for("up")
    assert ddpkit("launch", "-n", "1", "--name", "newer", "--", "true").returncode == 0
    done = ddpkit("report")
    assert "-newer-" in done.stdout
    assert "the newest of this project" in done.stderr


def test_options_of_sbatch_alone_make_no_batch_script(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -N 2\necho ran\n")
    (tmp_path / "job.sh").chmod(0o755)
    done = ddpkit("launch", "-n", "1", "--", "./job.sh")
    assert done.returncode == 0, done.stderr
    assert "ran" in done.stdout
