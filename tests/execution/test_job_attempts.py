"""Decisions of a submitted SLURM job, by the program that its script runs. scontrol and sinfo answer as SLURM does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from job_lines import ended, failed, lost, start

from ddpkit.diagnosis.outcome import Failure
from ddpkit.launchers.plan import JOB_HOOK, Host, Job, Request
from ddpkit.launchers.slurm import SlurmSrun
from ddpkit.node import owned
from ddpkit.run.record import AttemptsFile, RecordedJob, Rules, Run, keep_step_failure, load, load_attempts

RUN = "20260101-000000-train-0a1b"
RULES = Rules(
    retries=2, retry_codes=(75,), stop_codes=(93,), progress="", metrics="", bad_nodes="bad.json", workdir="",
    command=("train.py",),
)  # fmt: skip
STARTED = "".join(start(rank, f"node{rank + 1}", 7) for rank in (0, 1))
KILLED = STARTED + failed(1, "node2", None, 9)
RAISED = "".join(
    f"[1 node2] {line}\n"
    for line in ("Traceback (most recent call last):", '  File "train.py", line 3', "ValueError: bad batch")
)
RAISED = STARTED + RAISED + failed(1, "node2", 1)
LOST = STARTED + "srun: error: Node failure on node2\n" + lost("node2") + ended(0, "node1", None, 9)
STAGED, NOT_STAGED = "ddpkit: error: node2:", ("node1,node3", 2, "stage-failed")
SAVED = STARTED + failed(0, "node1", 75)


class SlurmJob:
    """A job of two nodes, in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run = folder, folder / RUN
        owned.make_directory(str(self.run), "run")
        job = Job(run_id=RUN, command=("train.py",), workdir=str(folder), python="python3", folder=str(self.run))
        here = Host(name="login", slots=0, python=sys.executable)
        plan = SlurmSrun().plan(job, Request(nnodes=2, nproc_per_node=1, here=here, spares=1))
        assert plan.batch is not None
        Run(
            run_id=RUN, folder=str(self.run), backend="slurm", command=("train.py",), workdir=str(folder), job_id="7",
            hosts=("slurm",), world_size=2, launcher_pid=1, launcher_started="", launcher_host="login",
            started=time.time(), job=RecordedJob(log=plan.batch.log, many=False),
        ).save()  # fmt: skip
        AttemptsFile(rules=RULES, nodes=2).save(self.run)
        self.answer(state="RUNNING", requeue=1)
        self.down()

    def _program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{text}")
        (self.folder / name).chmod(0o755)

    def answer(self, *, state: str, requeue: int, nodes: str = "node[1-3]") -> None:
        line = f"JobId=7 JobState={state} Reason=None Requeue={requeue} Restarts=0 NodeList={nodes} BatchHost=node1"
        self._program("scancel", f'echo "cancel $@" >> {self.folder}/calls\n')
        self._program("scontrol", f'echo "$@" >> {self.folder}/calls\n[ "$1" != --oneliner ] || echo "{line}"\n')

    def down(self, *hosts: str) -> None:
        self._program("sinfo", "".join(f"echo {host} down*\n" for host in hosts))

    def lose_script(self) -> tuple[int, list[str], str]:
        """Run the program of a launcher that follows the job. Returns its code, the changes of the job, the notes."""
        env = {
            **os.environ,
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(self.folder / "state"),
        }
        argv = [sys.executable, "-m", "ddpkit.cli.job_attempts", str(self.run), "lost"]
        done = subprocess.run(argv, env=env, cwd=self.folder, capture_output=True, text=True, check=False)
        calls = (self.folder / "calls").read_text().splitlines()
        output = self.run / "slurm-7.out"
        notes = done.stderr + (output.read_text() if output.exists() else "")
        return done.returncode, [line for line in calls if "show" not in line], notes

    def decide(self, output: str, code: int | str, nodes: str = "node[1-3]") -> tuple[str, str]:
        """Add the output of an attempt, and run the program. Returns what it printed."""
        with (self.run / "slurm-7.out").open("a") as file:
            file.write(output)
        env = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
        env |= {"SLURM_JOB_NODELIST": nodes, "XDG_STATE_HOME": str(self.folder / "state")}
        argv = [sys.executable, "-m", "ddpkit.cli.job_attempts", str(self.run), str(code)]
        done = subprocess.run(argv, env=env, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == (0 if done.stdout else 1), done.stderr
        return done.stdout.strip(), done.stderr

    @property
    def rows(self) -> list[tuple[tuple[str, ...], Any]]:
        run = load(self.run)
        assert run is not None
        return [(each.hosts, each.decision and each.decision.action) for each in run.attempts]


@pytest.fixture
def job(tmp_path: Path) -> SlurmJob:
    return SlurmJob(tmp_path)


def follows(nodes: str, number: int, before: str) -> str:
    return f"nodes={nodes}; export DDPKIT_ATTEMPT={number}; export DDPKIT_PREVIOUS={before}"


@pytest.mark.parametrize(
    ("output", "code", "down", "expected", "action"),
    [
        (KILLED, 137, (), follows("node1,node2", 2, "killed"), "check"),
        (SAVED, 75, (), follows("node1,node2", 2, "asked-again"), "same"),
        (LOST, 137, ("node2",), follows("node1,node3", 2, "slurm-node-failure"), "replace"),
        (LOST, 137, (), follows("node1,node3", 2, "slurm-node-failure"), "replace"),
        (RAISED, 1, (), "", "stop"),
        (f"{STAGED} cannot stage in /disk: read-only file system\n", 123, (), follows(*NOT_STAGED), "replace"),
        (f"{STAGED} the copy differs from its source: a file changed meanwhile\n", 123, (), "", "stop"),
        ("", 0, (), "", None),
        ("", "requeued", (), follows("node1,node2", 2, "slurm-requeued"), "same"),
    ],
)
def test_an_attempt(
    job: SlurmJob, output: str, code: int | str, down: tuple[str, ...], expected: str, action: str | None
) -> None:
    job.down(*down)
    shown, words = job.decide(output, code)
    assert shown == expected, words
    assert job.rows[0] == (("node1", "node2"), action)
    assert len(job.rows) == (2 if expected else 1)
    if action == "stop":
        assert "ddpkit: no other attempt follows: it would fail again" in words


def test_a_hang_is_a_failure_although_its_ranks_exit_with_0(job: SlurmJob) -> None:
    keep_step_failure(job.run, Failure(host="node2", rank=1, what="rank", code=124, reason="it hangs", at=time.time()))
    shown, words = job.decide(STARTED, 0)
    assert shown == follows("node1,node2", 2, "code-124"), words
    assert job.rows[0] == (("node1", "node2"), "check")


def test_the_lines_of_an_attempt_are_kept(job: SlurmJob) -> None:
    job.decide(KILLED, 137)
    shown, words = job.decide(f"ddpkit: attempt 1\n{RAISED}", 1)
    assert (shown, [action for _, action in job.rows]) == ("", ["check", "stop"]), words
    assert "ValueError" not in (job.run / "attempt-1/all.log").read_text()
    assert "[1 node2] ValueError: bad batch" in (job.run / "attempt-2/all.log").read_text()


def test_a_job_without_enough_nodes_is_requeued_and_continues(job: SlurmJob) -> None:
    job.down("node2", "node3")
    assert job.decide(LOST, 137)[0] == ""
    calls = (job.folder / "calls").read_text().splitlines()
    assert [line for line in calls if "show" not in line] == [
        "requeue 7",
        "update JobId=7 ExcNodeList=node2,node3",
        "update JobId=7 NumNodes=2-2",
    ]
    job.down()
    assert job.decide("", "requeued", nodes="node1,node4")[0] == follows("node1,node4", 2, "slurm-node-failure")
    assert job.rows == [(("node1", "node2"), "requeue"), (("node1", "node4"), None)]


REQUEUED = ["requeue 7", "update JobId=7 ExcNodeList=node1", "update JobId=7 NumNodes=2-2"]
LOST_SCRIPT = "ddpkit: SLURM lost node1, on which the script of job 7 ran\n"


def test_a_job_that_lost_its_script_is_requeued_and_continues(job: SlurmJob) -> None:
    job.answer(state="RUNNING", requeue=1, nodes="node[2-3]")
    code, calls, notes = job.lose_script()
    assert (code, calls) == (0, REQUEUED), notes
    assert notes.startswith(LOST_SCRIPT)
    assert "ddpkit: attempt 1 ended; requeue without node1; reason: node1: " in notes
    assert "ddpkit: node1 is remembered as a bad node until " in notes
    assert [each["host"] for each in json.loads((job.folder / "bad.json").read_text())["nodes"]] == ["node1"]
    job.answer(state="PENDING", requeue=1, nodes="")
    assert job.lose_script()[:2] == (1, calls)  # a second one, which was later
    job.answer(state="RUNNING", requeue=1)
    assert job.decide("", "requeued", nodes="node[2-4]")[0] == follows("node2,node3", 2, "slurm-node-failure")
    assert job.rows == [(("node1", "node2"), "requeue"), (("node2", "node3"), None)]


def test_a_script_that_is_lost_after_its_decision(job: SlurmJob) -> None:
    job.decide(KILLED, 137)
    file = load_attempts(job.run)
    assert file is not None
    replace(file, attempts=file.attempts[:1]).save(job.run)  # the next attempt has not begun
    job.answer(state="RUNNING", requeue=1, nodes="node[2-3]")
    assert job.lose_script()[1] == REQUEUED
    assert job.decide("", "requeued", nodes="node[2-4]")[0] == follows("node2,node3", 2, "killed")


def test_a_job_that_lost_its_script_and_may_not_be_requeued_is_cancelled(job: SlurmJob) -> None:
    job.answer(state="RUNNING", requeue=0, nodes="node[2-3]")
    code, calls, notes = job.lose_script()
    assert (code, calls) == (0, ["cancel 7"]), notes
    assert notes.startswith(LOST_SCRIPT)
    assert "; SLURM may not requeue the job: submit it again with --requeue\n" in notes
    assert job.rows == [(("node1", "node2"), "stop")]


def test_a_job_with_a_script_is_left_alone(job: SlurmJob) -> None:
    assert job.lose_script() == (1, [], "")


def test_without_requeue_too_few_nodes_end_the_run(job: SlurmJob) -> None:
    job.answer(state="RUNNING", requeue=0)
    job.down("node2", "node3")
    shown, words = job.decide(LOST, 137)
    assert (shown, job.rows[0][1]) == ("", "stop")
    assert "no other attempt follows: 1 of 2 needed nodes of job 7 are left" in words


def test_a_job_that_slurm_ends_during_on_attempt(job: SlurmJob, monkeypatch: pytest.MonkeyPatch) -> None:
    command = {"command": "sed -i s/RUNNING/COMPLETING/ scontrol", "directory": str(job.folder)}
    monkeypatch.setenv(JOB_HOOK, json.dumps({"on_attempt": command}))
    shown, words = job.decide(KILLED, 137)
    assert "ddpkit: no other attempt follows: SLURM ends the job: COMPLETING" in words
    assert (shown, job.rows) == ("", [(("node1", "node2"), "check")])


def test_a_job_that_slurm_ends_has_no_other_attempt(job: SlurmJob) -> None:
    job.answer(state="COMPLETING", requeue=1)
    assert job.decide(SAVED, 75)[0] == ""
    assert job.rows == [(("node1", "node2"), "stop")]
