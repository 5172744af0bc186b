"""A job of SLURM that requeues itself: programs that answer as SLURM does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ddpkit.transports.scheduler import SlurmTransport

LATER = "slurm_update error: Job update not available right now, the DB index is being set, try again in a bit"
SCONTROL = """#!/bin/sh
echo "$@" >> {folder}/calls
[ "$1" = update ] && [ "$(grep -c update {folder}/calls)" -lt {times} ] && {{ echo '{later}' >&2; exit 1; }}
[ "$1" != --oneliner ] || echo 'JobId=7 JobState=RUNNING Reason=None Requeue={requeue} Restarts=0'
"""


def slurm(folder: Path, monkeypatch: pytest.MonkeyPatch, times: int = 1, requeue: int = 1) -> SlurmTransport:
    program = folder / "scontrol"
    program.write_text(SCONTROL.format(folder=folder, times=times, later=LATER, requeue=requeue))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return SlurmTransport(None, None, {"SLURM_JOB_ID": "7"})


def test_a_change_of_a_requeued_job_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    slurm(tmp_path, monkeypatch, times=3).requeue(["node2", "node3"], 2, notes.append)
    update = "update JobId=7 ExcNodeList=node2,node3"
    calls = (tmp_path / "calls").read_text().splitlines()
    number = "update JobId=7 NumNodes=2-2"
    assert [line for line in calls if " show " not in line] == ["requeue 7", update, update, update, number]
    assert notes == []


def test_a_requeued_job_keeps_the_nodes_that_the_user_excluded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requeued = slurm(tmp_path, monkeypatch)
    shown = (
        "sed -i 's/ Restarts=0/ Restarts=0 ReqNodeList=(null) ExcNodeList=node[7-8] NtasksPerN:B:S:C=4:0:*:*/' scontrol"
    )
    subprocess.run(shown, shell=True, cwd=tmp_path, check=True)
    requeued.requeue(["node2"], 3, lambda _: None)
    changes = (tmp_path / "calls").read_text().splitlines()[-2:]
    assert changes == ["update JobId=7 ExcNodeList=node[7-8],node2", "update JobId=7 NumNodes=3-3 NumTasks=12"]


def test_a_refused_change_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddpkit.transports.scheduler.UPDATE_TIME", 0.0)
    notes: list[str] = []
    slurm(tmp_path, monkeypatch, times=99).requeue(["node2"], 2, notes.append)
    assert notes == [f"scontrol update JobId=7 {words}: {LATER}" for words in ("ExcNodeList=node2", "NumNodes=2-2")]


@pytest.mark.parametrize(("requeue", "allowed"), [(1, True), (0, False)])
def test_whether_a_job_can_be_requeued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requeue: int, allowed: bool
) -> None:
    assert slurm(tmp_path, monkeypatch, requeue=requeue).can_requeue() == allowed


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        ("echo 'JobId=7 JobState=RUNNING Reason=None'", ""),
        ("echo 'JobId=7 JobState=CANCELLED Reason=None'", "CANCELLED"),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "it is not known"),
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", ""),
    ],
)
def test_a_job_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, ending: str) -> None:
    transport = slurm(tmp_path, monkeypatch)
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\n{answer}\n")
    assert transport.ending() == ending
