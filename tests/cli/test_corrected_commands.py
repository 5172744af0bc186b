"""Errors whose hint is a whole command, and words of another launcher's users."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DDPKIT, PATIENCE, Command


@pytest.fixture(autouse=True)
def _project(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ran')\n")
    (tmp_path / "own.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\nsrun python train.py\n")
    (tmp_path / "own.sbatch").chmod(0o755)


@pytest.mark.parametrize(("sbatch", "backend"), [(False, "ssh HOST HOST"), (True, "slurm")])
def test_nodes_without_a_backend(sbatch: bool, backend: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    """SLURM is meant where it is installed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    if sbatch:
        (programs / "sbatch").symlink_to("/bin/true")
    env = {"PATH": str(programs)}
    done = ddpkit("launch", "--nnodes", "2", "--nproc-per-node", "2", "train.py", env=env)
    assert done.returncode == 121
    assert "backend local runs on this machine only, and does not support -N 2; ssh and slurm do" in done.stderr
    assert f"\nhint: ddpkit launch --nnodes 2 --nproc-per-node 2 -b {backend} -- train.py\n" in done.stderr


def test_options_of_sbatch_without_a_backend(ddpkit: DDPKIT) -> None:
    done = ddpkit("launch", "--nodes=2", "--ntasks-per-node=2", "train.py")
    assert done.returncode == 121
    assert "\nhint: ddpkit launch -b slurm --nodes=2 --ntasks-per-node=2 train.py\n" in done.stderr


def test_a_module_of_another_place_is_left_to_python(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/train.py").touch()
    for module in ("pkg.other", "pkg", "json.tool"):
        assert ddpkit("launch", "-n", "1", "--dry-run", "--", "-m", module).returncode == 0


ALLOCATION = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]"}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["launch", "-n", "2", "train.py"], "ddpkit launch -n 2 -b slurm -- train.py"),
        (["launch", "--dry-run", "-N", "2", "train.py"], "ddpkit launch --dry-run -N 2 -b slurm -- train.py"),
        (["test", "-n", "2"], "ddpkit test -n 2 -b slurm"),
    ],
    ids=["launch", "nodes", "test"],
)
def test_an_allocation_that_would_not_be_used(words: list[str], hint: str, ddpkit: DDPKIT) -> None:
    """As in `salloc -N 2`: without -b the ranks would run beside its nodes, in a smaller world."""
    done = ddpkit(*words, env=ALLOCATION)
    assert done.returncode == 121
    assert "error: this is SLURM job 7 on node[1-2], and without -b the ranks would run on " in done.stderr
    assert f"\nhint: {hint}\n" in done.stderr


@pytest.mark.parametrize("env", [{"DDPKIT_BACKEND": "local"}, {"SLURMD_NODENAME": "n1", "SLURM_JOB_NODELIST": "n1"}])
def test_one_machine_of_an_allocation(env: dict[str, str], ddpkit: DDPKIT) -> None:
    """Chosen, or all that the allocation has."""
    done = ddpkit("launch", "-n", "1", "train.py", env=ALLOCATION | env)
    assert done.returncode == 0, done.stderr
    assert ("on all nodes of the job: -b slurm" in done.stderr) == ("DDPKIT_BACKEND" in env)


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        (["--nodelist", "node2"], "node2"),
        (["--nodelist", "node[3-4]", "-N", "1"], "node3"),
        (["--nodelist", "node4", "-N", "2"], "node4,node1"),
        (["--exclude", "node1,node7", "-N", "2"], "node2,node3"),
        (["--exclude", "node[1,3]"], "node2,node4"),
        (["--exclude", "node7", "-N", "4"], ""),  # none of this allocation
        (["--nodelist", "node2", "--exclude", "node2"], "no node of the allocation is left"),
        (["--nodelist", "node9"], "node9 is not a node of allocation 7"),
        (["--nodelist", "node[1-"], "--nodelist: the node list 'node[1-' cannot be read: a bracket is not closed"),
        (["--exclude", "node[x]"], "--exclude: the node list 'node[x]' cannot be read"),
    ],
)
def test_nodes_of_an_allocation_are_chosen_as_by_srun(words: list[str], nodes: str, ddpkit: DDPKIT) -> None:
    allocation = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-4]"}
    done = ddpkit("launch", "-b", "slurm", "-n", "1", *words, "--dry-run", "train.py", env=allocation)
    if " " in nodes:
        assert (done.returncode, nodes in done.stderr) == (121, True), done.stderr
        return
    assert (re.findall(r"(?m)^nodes=['\"]?([^'\"\n]*)", done.stdout) or [""])[0] == nodes.replace(",", " "), done.stderr


@pytest.mark.parametrize("via", [["--via", "login"], ["-o", "via=login"]])
def test_an_option_that_the_sbatch_of_a_login_host_may_have(via: list[str], ddpkit: DDPKIT) -> None:
    """It is asked when the job is submitted: until then no host is."""
    done = ddpkit("launch", "-b", "slurm", *via, "-o", "sbatch=--nice=5", "--segment", "2", "--", "train.py")
    assert done.returncode == 121
    assert "no option --segment; that of login is asked when the job is submitted" in done.stderr
    assert "-o 'sbatch=--nice=5 --segment=2' -- train.py\n" in done.stderr


STEP = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1", "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["train.py"], "ddpkit launch -b slurm -N 1 -n 4 -- train.py"),
        (["-b", "slurm", "-n", "2", "train.py"], "ddpkit launch -b slurm -n 2 -N 1 -- train.py"),
    ],
)
def test_a_launch_for_each_task_of_srun(words: list[str], hint: str, ddpkit: DDPKIT) -> None:
    """As in `srun -n 4 ddpkit launch train.py`."""
    task = ALLOCATION | STEP | {"SLURM_STEP_NUM_TASKS": "4", "SLURM_GTIDS": "0,1,2,3"}
    done = ddpkit("launch", *words, env=task)
    assert done.returncode == 121
    assert "error: srun starts this command 4 times; run it once, without srun" in done.stderr
    assert f"\nhint: {hint}\n" in done.stderr
    assert ddpkit("launch", "-b", "local", "train.py", env={**task, "DDPKIT_ALLOW_NESTED": "1"}).returncode == 0
    alone = ddpkit("launch", "-b", "local", "train.py", env=ALLOCATION | STEP | {"SLURM_STEP_NUM_TASKS": "1"})
    assert alone.returncode == 0, alone.stderr


@pytest.mark.parametrize("command", ["test", "bench"])
def test_a_check_for_each_task_of_srun(command: str, ddpkit: DDPKIT) -> None:
    done = ddpkit(command, env=ALLOCATION | STEP | {"SLURM_STEP_NUM_TASKS": "4", "SLURM_GTIDS": "0,1,2,3"})
    assert done.returncode == 121
    assert "error: srun starts this command 4 times; run it once, without srun" in done.stderr
    assert f"\nhint: ddpkit {command} -b slurm -N 1 -n 4\n" in done.stderr


def test_a_name_has_dots(ddpkit: DDPKIT) -> None:
    done = ddpkit("launch", "--dry-run", "--name", "lr0.1", "-b", "slurm", "train.py")
    assert done.returncode == 0, done.stderr
    assert "--job-name=lr0.1" in done.stdout


def test_a_launch_without_a_script(ddpkit: DDPKIT, tmp_path: Path) -> None:
    done = ddpkit("launch", "-n", "1")
    assert done.returncode == 0
    assert done.stderr.startswith(f"ddpkit: no script given; running train.py in {tmp_path}\nddpkit: run ")
    assert "no script given" not in ddpkit("launch", "-n", "1", "train.py").stderr
    (tmp_path / "train.py").rename(tmp_path / "main.py")
    for more, hint in (("main.py", "main.py"), ("other.py", "SCRIPT")):
        (tmp_path / more).touch()
        done = ddpkit("launch", "-n", "1")
        assert done.returncode == 121
        assert f"error: no script given, and train.py not found in {tmp_path}\n" in done.stderr
        assert f"\nhint: ddpkit launch -n 1 -- {hint}\n" in done.stderr


def test_a_batch_script_that_is_meant_to_run(ddpkit: DDPKIT) -> None:
    assert ddpkit("launch", "--dry-run", "--", "./own.sbatch", env={"DDPKIT_ALLOW_NESTED": "1"}).returncode == 0


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
