"""A good guest of SLURM's controller: few queries, no job cancelled that may run later, no rank without an answer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Lab
from launching import DDPKIT, ROOT, Launch, wait_until

NEWER = os.environ.get("LAB_SLURM", "") not in ("", "22.05")
WAITS = """
import os, time
print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
"""
# In place of scontrol and squeue: notes each call, and fails for the arguments that match FAIL.
COUNTS = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
case "$*" in $FAIL) echo "scontrol: error: it does not answer" >&2; exit 1 ;; esac
exec "/usr/bin/${0##*/}" "$@"
"""


def counted(folder: Path, fail: str = "-") -> list[str]:
    """Words before `ddpkit launch` that count its calls of SLURM's commands. The job inherits them."""
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("scontrol", "squeue", "sinfo"):
        (folder / "bin" / name).write_text(COUNTS)
        (folder / "bin" / name).chmod(0o755)
    return ["bash", "-c", f'export PATH="{folder}/bin:$PATH" CALLS="{folder}/calls" FAIL="{fail}"; exec "$@"', "-"]


def queries(folder: Path) -> list[str]:
    calls = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    return [call for call in calls if "show hostnames" not in call]


def test_a_job_that_runs_costs_no_query(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    """Its output tells the start and the end. After the end the controller is queried until it knows the exit code."""
    (folder / "job.py").write_text(WAITS)
    command = launch("-b", "slurm", "-N", "2", "-n", "1", "--", "job.py", before=counted(folder))
    command.wait_for("] ready", times=2)
    assert f"job {command.record['job_id']} runs on node" in command.text
    before = queries(folder)
    assert len(before) <= 3, before  # a look at the queue, and what the choice of nodes reads
    time.sleep(20)  # the time in which there were ten
    assert queries(folder) == before
    (folder / "go").touch()
    done = time.monotonic()
    assert command.end() == 0, command.tail
    assert time.monotonic() < done + 15
    assert 1 <= len(queries(folder)) - len(before) <= 12, queries(folder)


def test_the_partition_is_down_for_a_while(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    """As with sbatch alone, the job waits and runs later."""
    (folder / "job.py").write_text("print('ran')\n")
    idle_lab.run("login", "scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        command = launch("-b", "slurm", "--", "job.py", before=counted(folder))
        command.wait_for("waits in the queue: PartitionDown")
        wait_until(lambda: len(queries(folder)) >= 3)
    finally:
        idle_lab.run("login", "scontrol", "update", "PartitionName=main", "State=UP")
    assert command.end() == 0, command.tail
    assert "] ran" in command.text
    assert "cancel" not in command.text


@pytest.mark.parametrize(
    ("args", "why"),
    [
        pytest.param(
            ["-o", "partition=empty"],
            "and cannot start as requested; for the available resources: sinfo",
            marks=pytest.mark.skipif(NEWER, reason="sbatch of 24.11 refuses it itself"),
        ),
        (["-o", "dependency=afterok:{failed}"], "a job that it depends on did not end as required, so that it never"),
    ],
)
def test_a_job_that_cannot_start_as_requested(
    args: list[str], why: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    """An administrator can change a partition, and its user the job: only the user ends it."""
    (folder / "job.py").write_text("")
    failed = idle_lab.run("login", "sbatch", "--parsable", "-o", "/dev/null", "--wrap", "exit 1").stdout.strip()
    wait_until(lambda: "FAILED" in idle_lab.run("login", "scontrol", "show", "job", failed).stdout)
    command = launch("-b", "slurm", *(each.format(failed=failed) for each in args), "--", "job.py")
    command.wait_for(why)
    command.wait_for(f"to cancel it: ddpkit stop {Path(command.record['folder']).name}")
    job = command.record["job_id"]
    assert "PENDING" in idle_lab.run("login", "scontrol", "show", "job", job).stdout
    env = {"PYTHONPATH": str(ROOT)}
    idle_lab.run("login", *DDPKIT, "stop", Path(command.record["folder"]).name, cwd=folder, env=env)
    assert command.end() == 143, command.tail
    assert "CANCELLED" in idle_lab.run("login", "scontrol", "show", "job", job).stdout


@pytest.mark.parametrize(
    ("args", "fail"),
    [
        (["-b", "slurm", "--no-preload"], "*hostnames*"),
        (["-b", "slurm", "-N", "2", "--retries", "1"], "*hostnames*"),
        (["-b", "slurm", "-o", "preload=json"], "*show?config*"),
        (["-b", "slurm", "node2:1", "node1:2"], "*"),
    ],
    ids=["job", "retries", "preload", "named"],
)
def test_scontrol_does_not_answer_in_the_job(
    args: list[str], fail: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    (folder / "job.py").write_text("open('ran', 'w')\n")
    (folder / "fails").write_text(fail)
    words = counted(folder)
    # Only in the job: the launcher itself gets its answers.
    text = COUNTS.replace('case "$*" in', f'[ -z "$SLURM_JOB_ID" ] || FAIL="{fail}"; case "$*" in')
    (folder / "bin/scontrol").write_text(text)
    command = launch(*args, "--", "job.py", before=words)
    if args[-1] == "node1:2":  # its list of nodes is in the script: scontrol is not needed
        assert command.end() == 0, command.tail
        return
    assert command.end() == 123, command.tail
    assert "ddpkit: scontrol did not " in command.text
    assert "nothing was started" in command.text
    assert not (folder / "ran").exists()


def test_stop_does_not_take_silence_for_an_end(folder: Path, idle_lab: Lab) -> None:
    """`stop --all` said that no run is running, with exit code 0, while the controller gave no answer."""
    (folder / "job.py").write_text("")
    env = {"PYTHONPATH": str(ROOT)}
    queued = [*DDPKIT, "launch", "--detach", "-b", "slurm", "--begin", "now+1hour", "--", "job.py"]
    for _ in range(2):
        assert idle_lab.run("login", *queued, cwd=folder, env=env).returncode == 0
    silent = [*counted(folder, "*show?job*"), *DDPKIT, "stop", "--all"]
    for command in (silent, [*silent, "--dry-run"]):
        done = idle_lab.run("login", *command, cwd=folder, env=env, check=False)
        assert done.returncode == 123, done.stdout + done.stderr
        assert "no valid answer from the scheduler: scontrol: error: it does not answer" in done.stderr
        assert "is running" not in done.stderr
    assert len(idle_lab.run("login", "squeue", "-h").stdout.splitlines()) == 2
    done = idle_lab.run("login", *DDPKIT, "stop", "--all", cwd=folder, env=env)
    assert (done.returncode, done.stdout.count("CANCELLED")) == (0, 2), done.stdout + done.stderr
