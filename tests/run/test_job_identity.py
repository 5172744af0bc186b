"""Jobs by their number and all else that tells them from another one: two clusters, numbers that began again."""

from __future__ import annotations

import os
import pwd
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ddpkit.errors import LaunchError, UsageError
from ddpkit.run import control, job_status, status
from ddpkit.run.job_status import JobStatus
from ddpkit.run.record import RecordedJob, Run
from ddpkit.run.state import Origin, RunState

ME = pwd.getpwuid(os.geteuid()).pw_name
DAY = "2026-01-31T10:00:00"
LATER, EARLIER = "2026-02-28T10:00:00", "2025-01-31T10:00:00"
OURS = RecordedJob(
    cluster="alpha", controller="ctl(10.0.0.1), /state", name="train", user=ME, submitted=DAY, log="", many=False,
)  # fmt: skip
EARLY = replace(OURS, controller="")  # of a record without
BARE = RecordedJob(log="", many=False)  # of a scheduler that showed nothing
ENDED = "job 7 has ended, and the scheduler no longer knows its exit code"
OTHER = "job 7 has ended, and its number is that of another job now"


def shown(
    state: str = "RUNNING", *, code: str = "0:0", reason: str = "None", name: str = "train", user: str = ME,
    submitted: str = DAY, restarts: int = 0, nodes: str = "node1",
) -> str:  # fmt: skip
    return (
        f"JobId=7 JobName={name} UserId={user}(1000) GroupId=x(1) JobState={state} Reason={reason} Dependency=(null) "
        f"Requeue=1 Restarts={restarts} BatchFlag=1 ExitCode={code} RunTime=0 SubmitTime={submitted} StartTime=x "
        f"Partition=p NodeList={nodes} BatchHost={nodes}\n"
    )


Controller = Callable[..., None]


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """`scontrol` and `scancel` of a cluster."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(job_status, "_controllers", {})

    def answers(output: str = "", *, error: str = "", cluster: str = "alpha", state: str = "/state") -> None:
        (tmp_path / "output").write_text(output)
        (tmp_path / "error").write_text(error)
        facts = f"ClusterName = {cluster}", "SlurmctldHost[0] = ctl(10.0.0.1)", f"StateSaveLocation = {state}"
        config = f"printf '%s\\n' {shlex.join(facts)}" if cluster else "exit 1"
        show = f"cat {tmp_path}/output; cat {tmp_path}/error >&2; [ ! -s {tmp_path}/error ]"
        text = f'#!/bin/sh\ncase "$*" in *config) {config} ;; *) {show} ;; esac\n'
        for name, program in {"scontrol": text, "scancel": f'#!/bin/sh\necho "$*" >> {tmp_path}/cancelled\n'}.items():
            (programs / name).write_text(program)
            (programs / name).chmod(0o755)

    return answers


def run_of(job: RecordedJob, folder: Path, origin: Origin = Origin.INDEX) -> Run:
    started = job_status._seconds(DAY) or 0.0
    return Run(
        run_id="20260131-100000-train-0a1b", folder=str(folder), backend="slurm-srun", command=("train.py",),
        workdir="/", hosts=("slurm",), world_size=2, launcher_pid=1, launcher_started="", launcher_boot="x",
        launcher_host=os.uname().nodename, started=started, job_id="7", job=job, state=RunState.LEFT, origin=origin,
    )  # fmt: skip


def asked(job: RecordedJob, folder: Path) -> JobStatus:
    return job_status.ask_scheduler(run_of(job, folder), job)


@pytest.mark.parametrize(
    ("output", "error", "state", "words", "code"),
    [
        (shown("PENDING", reason="Priority"), "", "queued", "job 7 waits in the queue: Priority", None),
        (shown(), "", "running", "job 7 runs on node1", None),
        (shown("COMPLETING"), "", "running", "job 7 runs on node1", None),
        (shown("COMPLETED"), "", "done", "", 0),
        (shown("FAILED", code="3:0"), "", "failed", "job 7 ended as FAILED, exit code 3", 3),
        (shown("FAILED", code="0:9"), "", "failed", "job 7 ended as FAILED", 137),
        (shown("CANCELLED", code="0:15"), "", "stopped", "job 7 ended as CANCELLED", 143),
        ("", "Invalid job id specified", "over", ENDED, None),
        ("", "down", "unknown", "job 7: no valid answer from the scheduler: down", None),
        ("", "", "unknown", "job 7: no valid answer from the scheduler: unknown output", None),
        (shown() + shown("DONE"), "", "running", "job 7, an array: 1 run, 0 wait, 1 have ended", None),
    ],
)
def test_the_status_of_a_job(
    controller: Controller, tmp_path: Path, output: str, error: str, state: str, words: str, code: int | None
) -> None:
    controller(output, error=error)
    now = asked(OURS, tmp_path)
    assert (now.state, now.words, now.exit_code) == (state, words, code)
    assert now.state.ended == (state not in ("queued", "running", "unknown", "elsewhere"))


OTHER_CLUSTER = "on cluster alpha, and not visible from here: this is cluster beta"
NOT_KNOWN = "job 7: not known to the scheduler here, which may be another cluster's"
DOUBT = "the scheduler's job 7 may be another one: it "


@pytest.mark.parametrize(
    ("job", "output", "cluster", "state", "words"),
    [
        # The login host of another cluster, with the same home: its job 7, and its word that there is none.
        (OURS, shown(submitted=LATER), "beta", "elsewhere", OTHER_CLUSTER),
        (OURS, shown(), "beta", "elsewhere", OTHER_CLUSTER),
        (OURS, "", "beta", "elsewhere", OTHER_CLUSTER),
        (OURS, "", "", "unknown", NOT_KNOWN),
        # Numbers that began again.
        (OURS, shown(submitted=LATER), "alpha", "over", OTHER),
        (OURS, shown(submitted=LATER), "", "unknown", NOT_KNOWN),
        (EARLY, shown(submitted=LATER), "alpha", "over", OTHER),
        (OURS, shown(user="nobody-else"), "alpha", "over", OTHER),
        (OURS, shown(submitted=EARLIER), "alpha", "unknown", f"{DOUBT}was submitted at {EARLIER}"),
        (OURS, shown(name="eval"), "alpha", "unknown", f"{DOUBT}has the name 'eval', and not 'train'"),
        (OURS, shown(submitted="Unknown"), "alpha", "unknown", f"{DOUBT}was submitted at Unknown"),
        # A requeue, by SLURM or by --retries, is a submission again.
        (OURS, shown(submitted=LATER, restarts=1), "alpha", "running", "job 7 runs on node1"),
        # Where the number alone is known: the time of the launch is near that of the submission.
        (BARE, shown(), "alpha", "running", "job 7 runs on node1"),
        (BARE, shown(submitted=LATER), "alpha", "over", OTHER),
        (BARE, shown(submitted=EARLIER), "alpha", "unknown", f"{DOUBT}was submitted at {EARLIER}"),
        (BARE, shown(user="nobody-else"), "alpha", "over", OTHER),
        (BARE, "", "alpha", "over", ENDED),
    ],
)
def test_a_job_is_told_from_another_one_with_its_number(
    controller: Controller, tmp_path: Path, job: RecordedJob, output: str, cluster: str, state: str, words: str
) -> None:
    controller(output, error="" if output else "slurm_load_jobs error: Invalid job id specified", cluster=cluster)
    now = asked(job, tmp_path)
    assert (now.state, now.words) == (state, words)
    run = run_of(job, tmp_path)
    if state == "running":
        return
    try:
        control.stop(run)
    except (UsageError, LaunchError):
        assert state in ("elsewhere", "unknown")
    assert not (tmp_path / "cancelled").exists(), "an unrelated job was cancelled"


@pytest.mark.parametrize("output", ["", shown(), shown(submitted=LATER), shown("COMPLETED"), shown(user="nobody-else")])
def test_another_cluster_with_the_same_name_decides_nothing(
    controller: Controller, tmp_path: Path, output: str
) -> None:
    """The name is often the default one: the controller is another."""
    controller(output, error="" if output else "Invalid job id specified", state="/other")
    now = asked(OURS, tmp_path)
    assert (now.state, now.words) == ("elsewhere", "not visible from here: this is another cluster with the name alpha")
    with pytest.raises(UsageError) as caught:
        control.stop(run_of(OURS, tmp_path))
    assert caught.value.hint == f"where scontrol asks {OURS.controller}: ddpkit stop {tmp_path}"
    assert not (tmp_path / "cancelled").exists()


def test_another_clusters_login_host_decides_nothing(controller: Controller, tmp_path: Path) -> None:
    """The end that `ps` keeps is one that the job's own controller told."""
    controller("", error="Invalid job id specified", cluster="beta")
    run = run_of(OURS, tmp_path)
    assert status.get_status(run).state == "elsewhere"
    controller(shown(), cluster="alpha")
    job_status._controllers.clear()
    assert status.get_status(run).state == "running"


def test_a_record_of_somebody_else_is_not_asked_for(controller: Controller, tmp_path: Path) -> None:
    controller(shown())
    (tmp_path / "bin" / "scontrol").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    now = status.get_status(run_of(OURS, tmp_path, Origin.OTHERS))
    assert (now.state, "ddpkit asks no scheduler for it" in now.words) == ("unknown", True)
    with pytest.raises(LaunchError):
        control.stop(now.run)
    assert not (tmp_path / "asked").exists()
    assert not (tmp_path / "cancelled").exists()


def test_the_commands_are_the_backends(controller: Controller, tmp_path: Path) -> None:
    controller(shown())
    now = run_of(OURS, tmp_path)
    assert control.stop_argv(now) == ["scancel", "7"]
    unknown = Run(**{**vars(now), "backend": "no-such-plug-in"})
    assert status.get_status(unknown).words == "job 7: backend 'no-such-plug-in' not found"
    local = Run(**{**vars(now), "backend": "local"})
    assert "has no `scheduler`" in status.get_status(local).words
    odd = Run(**{**vars(now), "job_id": "7x"})
    assert status.get_status(odd).words == "job 7x: no id of a job of backend slurm-srun"


def test_times_are_asked_for_in_one_zone(controller: Controller, tmp_path: Path) -> None:
    controller(shown())
    (tmp_path / "bin" / "scontrol").write_text(f'#!/bin/sh\necho "$TZ $SLURM_TIME_FORMAT" >> {tmp_path}/zone\n')
    asked(OURS, tmp_path)
    assert (tmp_path / "zone").read_text() == "UTC standard\n"
    assert time.gmtime(job_status._seconds("1970-01-02T00:00:00"))[:3] == (1970, 1, 2)


COUNTS = """#!/bin/sh
echo "$*" >> {folder}/asked
{does}
"""
SILENT = {
    "busy": 'echo "slurm_load_jobs error: Socket timed out on send/recv operation" >&2; exit 1',
    "hung": "exec sleep 600",
}


@pytest.mark.parametrize("does", SILENT)
def test_a_scheduler_that_does_not_answer_is_asked_once_for_all_runs(
    does: str, controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve jobs took `status` 198 s, in which it asked a controller that was too busy already thirteen times."""
    controller()
    (tmp_path / "bin" / "scontrol").write_text(COUNTS.format(folder=tmp_path, does=SILENT[does]))
    monkeypatch.setattr(job_status, "TIMEOUT", 1.0)
    runs = [replace(run_of(OURS, tmp_path), job_id=str(number)) for number in range(1, 13)]
    found = status.get_statuses(runs)
    assert {now.state for now in found} == {RunState.UNKNOWN}
    assert all(f"job {number}: no valid answer" in now.words for number, now in enumerate(found, 1))
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_all_runs_share_one_question_for_the_cluster(controller: Controller, tmp_path: Path) -> None:
    controller(shown())
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.rename(tmp_path / "answers")
    scontrol.write_text(COUNTS.format(folder=tmp_path, does=f'exec {tmp_path}/answers "$@"'))
    scontrol.chmod(0o755)
    runs = [replace(run_of(OURS, tmp_path), job_id=str(number)) for number in range(1, 13)]
    assert {now.state for now in status.get_statuses(runs)} == {RunState.RUNNING}
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 13
    assert asked.count("show config") == 1
