"""Who failed first in a job that nobody followed, from the output of the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_lines import ended, failed, start

from ddpkit.run import job_status
from ddpkit.run.job_status import first_failure
from ddpkit.run.record import RecordedJob, Run
from ddpkit.run.status import read_ranks

START = "".join(start(rank, f"node{rank + 1}", 40 + rank) for rank in range(2))
TRACEBACK = """\
[1 node2] Traceback (most recent call last):
[1 node2]   File "/data/train.py", line 9, in <module>
[1 node2]     loss = table[key]
[1 node2] KeyError: 'loss'
"""
ENDED = failed(1, "node2", 1) + "srun: error: node2: task 1: Exited with exit code 1\n" + ended(0, "node1", None, 15)


def job(folder: Path, text: str) -> Run:
    (folder / "slurm-7.out").write_text(text)
    recorded = RecordedJob(log=f"{folder}/slurm-{{job}}.out", many=False)
    return Run(
        run_id="run",
        folder=str(folder),
        backend="slurm-srun",
        command=("train.py",),
        workdir="/data",
        hosts=("slurm",),
        world_size=2,
        launcher_pid=1,
        launcher_started="",
        launcher_host="login",
        started=0.0,
        job_id="7",
        job=recorded,
    )


def said(run: Run) -> str:
    found = first_failure(run)
    return found[1] if found else ""


def test_the_rank_its_host_and_its_exception_are_named(tmp_path: Path) -> None:
    run = job(tmp_path, START + TRACEBACK + ENDED)
    words = "rank 1 on node2 failed first: exit code 1: KeyError: 'loss' at /data/train.py:9 in <module>"
    assert said(run).startswith(f"{words}. Usual reason: ")
    found = first_failure(run)
    assert found is not None
    assert found[0].exit_code == 1


def test_what_failed_before_a_restart_is_history(tmp_path: Path) -> None:
    again = "ddpkit: attempt 1\n" + START
    assert said(job(tmp_path, START + TRACEBACK + ENDED + again)) == ""
    killed = failed(0, "node1", None, 9)
    assert said(job(tmp_path, START + TRACEBACK + ENDED + again + killed)).startswith(
        "rank 0 on node1 failed first: killed by signal 9 (SIGKILL)"
    )


def test_a_cause_that_another_rank_shows_is_that_ranks(tmp_path: Path) -> None:
    lost = "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:41122"
    follows = TRACEBACK.replace("KeyError: 'loss'", lost).replace("[1 node2]", "[0 node1]")
    run = job(tmp_path, START + TRACEBACK + follows + failed(0, "node1", 1, kind="peer") + ENDED)
    assert said(run).startswith("rank 1 on node2 failed first: exit code 1: KeyError: 'loss'")
    assert "KeyError: 'loss' at /data/train.py:9 in <module>" in said(run)


def test_of_a_long_output_the_beginning_and_the_end_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_status, "OUTPUT_HEAD", 1 << 10)
    monkeypatch.setattr(job_status, "OUTPUT_TAIL", 1 << 12)
    # Were the middle read, this would be the first failure.
    middle = failed(0, "node1", 3)
    lines = "".join(f"[0 node1] step {step} loss 0.5\n" for step in range(2000))
    run = job(tmp_path, START + lines + middle + lines + TRACEBACK + ENDED)
    assert said(run).startswith("rank 1 on node2 failed first: exit code 1: KeyError")


def test_nothing_is_said_of_what_is_not_known(tmp_path: Path) -> None:
    assert said(job(tmp_path, START + "[0 node1] all is well\n")) == ""
    run = job(tmp_path, "")
    (tmp_path / "slurm-7.out").unlink()
    assert said(run) == ""


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (START + TRACEBACK + ENDED, [("node1", 40, "ended: signal 15 (SIGTERM)"), ("node2", 41, "ended: exit code 1")]),
        (START, [("node1", 40, "started"), ("node2", 41, "started")]),
        (START.splitlines(keepends=True)[0], [("node1", 40, "started"), ("", None, "no start reported yet")]),
        (START + ENDED + "ddpkit: attempt 1\n" + START, [("node1", 40, "started"), ("node2", 41, "started")]),
    ],
    ids=["failed", "started", "half", "another attempt"],
)
def test_the_ranks_of_a_job_that_nobody_follows(
    text: str, rows: list[tuple[str, int | None, str]], tmp_path: Path
) -> None:
    sample = read_ranks(job(tmp_path, text))
    assert sample is not None
    assert [(rank.host, rank.pid, rank.words) for rank in sample.ranks] == rows
    assert sample.lines.get(1) == ("KeyError: 'loss'" if TRACEBACK in text else None)


def test_a_job_without_output_has_no_ranks(tmp_path: Path) -> None:
    run = job(tmp_path, "")
    assert read_ranks(run) is None
    Path(tmp_path, "slurm-7.out").unlink()
    assert read_ranks(run) is None
