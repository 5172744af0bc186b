"""A followed job, with a program in the place of scontrol: its lines over a connection that breaks, and at its end."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddpkit.errors import LaunchError
from ddpkit.launchers.events import Event
from ddpkit.launchers.host_names import Via
from ddpkit.launchers.plan import Host, Job, Plan, Request
from ddpkit.launchers.slurm import SlurmSrun
from ddpkit.machine import LostError, ThisMachine
from ddpkit.transports import batch
from ddpkit.transports.batch import JobLink
from ddpkit.transports.protocol import request

STATE = "JobState={} Reason=None x Restarts=0 x ExitCode=0:0 x StartTime=now x NodeList=node1 "


class Breaking(ThisMachine):
    """This machine over a connection that is lost for some reads of the job's output, numbered from 0."""

    place = "login1"
    pause = 0.01

    def __init__(self, lost: Callable[[int], bool]) -> None:
        self.lost = lost
        self.reads = 0

    def read(self, path: str, offset: int, size: int) -> bytes:
        self.reads += 1
        if self.lost(self.reads - 1):
            raise LostError("a cable")
        return super().read(path, offset, min(size, 1000))


def job_link(folder: Path, machine: ThisMachine, state: tuple[str, ...]) -> tuple[JobLink, Plan]:
    """Make the link to job 7, whose output is there; a command prints its state."""
    job = Job(run_id="20260101-000000-a-1", command=("a.py",), workdir="/", python="python3", folder=str(folder))
    world = Request(nnodes=1, nproc_per_node=2, here=Host(name="here", slots=0), via=Via(host="login1"))
    plan = SlurmSrun().plan(job, world)
    assert plan.batch is not None
    changed = replace(plan.batch, scheduler=replace(plan.batch.scheduler, state=state))
    return JobLink(changed, "7", plan.steps[0], machine), plan


def follow(folder: Path, machine: ThisMachine, state: str) -> list[Event]:
    """Follow job 7, whose output is there and whose state is this one, to the link's end."""
    link, plan = job_link(folder, machine, ("echo", STATE.format(state)))
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    link.start(request(plan.steps[0], plan), events.put)
    taken = []
    while (event := events.get(timeout=60)) is not None:
        taken.append(event)
    link.close()
    return taken


class Faulty(ThisMachine):
    """This machine, with an error of ours."""

    def read(self, path: str, offset: int, size: int) -> bytes:
        raise KeyError(path)


def test_a_fault_of_ours_ends_the_link(tmp_path: Path) -> None:
    """Else the launcher would wait without end and without a word."""
    (event,) = follow(tmp_path, Faulty(), "RUNNING")
    assert event["e"] == "lost"
    assert event["reason"].startswith("cannot follow job 7: KeyError: ")


def test_a_time_limit(tmp_path: Path) -> None:
    """The hint can be typed as it is."""
    events: list[Any] = follow(tmp_path, ThisMachine(), "TIMEOUT")
    (failed,) = [each for each in events if each["e"] == "failed"]
    assert failed["reason"] == "reached its time limit; request more: --time D-HH:MM:SS"


def test_a_job_that_is_cancelled_while_it_waits(tmp_path: Path) -> None:
    """Its end is seen at once, however seldom the scheduler is asked about it."""
    state = tmp_path / "state"
    state.write_text(STATE.format("PENDING"))
    link, plan = job_link(tmp_path, ThisMachine(), ("cat", str(state)))
    cancelled = STATE.format("CANCELLED")
    stop = ("sh", "-c", 'echo "$0" > "$1"', cancelled, str(state))
    link._batch = replace(link._batch, scheduler=replace(link._batch.scheduler, stop=stop))
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    link.start(request(plan.steps[0], plan), events.put)
    while (event := events.get(timeout=60)) is None or event["e"] != "note":
        pass
    link.send({"c": "stop", "grace": 0.0})
    after: list[Any] = list(iter(lambda: events.get(timeout=60), None))
    (failed,) = [each for each in after if each["e"] == "failed"]
    assert failed["reason"] == "was cancelled"
    link.close()


FAILED = 'ddpkit: {"e": "failed", "rank": 0, "what": "rank", "code": 1, "signal": null, "t": 1.0, "host": "node1"}'


@pytest.mark.parametrize(
    ("state", "output", "grace", "did"),
    [
        ("RUNNING", "", 0.2, ["signal TERM 7", "cancel 7"]),
        ("RUNNING", FAILED, 0.2, ["cancel 7"]),  # its script ends the others
        ("RUNNING", "", 0.0, ["cancel 7"]),  # a second Ctrl-C
        ("PENDING", "", 3600.0, ["cancel 7"]),  # nothing runs that could end by itself
    ],
)
def test_what_a_stop_does_to_a_job(tmp_path: Path, state: str, output: str, grace: float, did: list[str]) -> None:
    """Its ranks have their grace, as everywhere, before the scheduler ends them."""
    (tmp_path / "slurm-7.out").write_text(f"ddpkit: job 7 runs on node1\n{output}\n" * (state == "RUNNING"))
    file, done = tmp_path / "state", tmp_path / "did"
    file.write_text(STATE.format(state))
    link, plan = job_link(tmp_path, ThisMachine(), ("cat", str(file)))
    script = f'echo "$0 $1 $2" | sed "s/ $//" >> {done}; [ $0 = signal ] || echo "{STATE.format("CANCELLED")}" > {file}'
    signal, stop = ("sh", "-c", script, "signal", "{signal}", "{job}"), ("sh", "-c", script, "cancel", "{job}")
    link._batch = replace(link._batch, scheduler=replace(link._batch.scheduler, signal=signal, stop=stop))
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    link.start(request(plan.steps[0], plan), events.put)
    awaited = "failed" if output else "note"
    while (event := events.get(timeout=60)) is None or event["e"] != awaited:
        pass
    link.send({"c": "stop", "grace": grace})
    while events.get(timeout=60) is not None:
        pass
    link.close()
    assert done.read_text().splitlines() == did


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("Invalid feature specification", "use a feature of a node in --constraint"),
        ("Memory specification can not be satisfied", "request less: --mem below"),
        ("Invalid generic resource (gres) specification", "use a name and a number of the column GRES"),
        (
            "Batch job submission failed: Requested node configuration is not available",
            "lower -N, -n, -c, --mem or --gres",
        ),
        ("something else", "sinfo --summarize"),
    ],
)
def test_a_refused_request(tmp_path: Path, words: str, hint: str) -> None:
    """Slurm 22.05, seen."""
    plan = job_link(tmp_path, ThisMachine(), ())[1]
    assert plan.batch is not None
    submit = ("sh", "-c", f"echo 'sbatch: error: {words}' >&2; exit 1")
    with pytest.raises(batch.JobRejectedError) as refused:
        batch.submit(replace(plan.batch, submit=submit, via=None))
    assert str(refused.value.hint).startswith(hint)


@pytest.mark.parametrize("words", ["Unable to contact slurm controller", "Socket timed out"])
def test_neither_the_submission_nor_the_queue_has_an_answer(tmp_path: Path, words: str) -> None:
    """The job may run: it is not submitted again, and its files stay."""
    plan = job_link(tmp_path, ThisMachine(), ())[1]
    assert plan.batch is not None
    count = tmp_path / "count"
    submit = ("sh", "-c", f"echo x >> {count}; echo 'sbatch: error: {words}' >&2; exit 1")
    notes: list[str] = []
    scheduler = replace(plan.batch.scheduler, submitted=("sh", "-c", "echo down >&2; exit 1"))
    silent = replace(plan.batch, scheduler=scheduler, submit=submit, via=None)
    with pytest.raises(LaunchError, match="whether the job was accepted is not known") as caught:
        batch.submit(silent, ThisMachine(), notes.append, lambda _: None)
    assert not isinstance(caught.value, batch.JobRejectedError)
    assert str(caught.value.hint).startswith("scontrol ping")
    assert count.read_text() == "x\n"
    assert f"{words}; looks for the job in 5 s" in notes[0]
    assert "down; waits for the scheduler" in notes


def lines(events: list[Event]) -> list[str]:
    return [line for event in events if event["e"] == "out" for line in event["data"].splitlines()]


def notes(events: list[Event]) -> list[str]:
    return [event["text"] for event in events if event["e"] == "note"]


@pytest.mark.parametrize("lost", [lambda n: n % 3 == 1 and n < 50, lambda n: 5 < n < 60])
def test_lines_over_a_connection_that_breaks(tmp_path: Path, lost: Callable[[int], bool]) -> None:
    written = [f"rank line {number}" for number in range(2000)]
    (tmp_path / "slurm-7.out").write_text("".join(f"[{n % 2} node1] {line}\n" for n, line in enumerate(written)))
    events = follow(tmp_path, Breaking(lost), "COMPLETED")
    # Lines of one read may be put together by rank: each rank's own order counts.
    assert sorted(lines(events)) == sorted(written)
    assert "lost the connection to login1: a cable; job 7 continues; connecting again" in notes(events)
    assert "connected to login1 again" in notes(events)


def test_a_connection_that_stays_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "CUT_LIMIT", 0.6)
    events = follow(tmp_path, Breaking(lambda _: True), "RUNNING")
    assert events[-1] == {"e": "lost", "reason": "no connection to login1 for 0.01 min"}


def test_output_that_is_not_read_when_the_job_ends(tmp_path: Path) -> None:
    """More of it than can be read in the second that the last lines may take to appear."""

    class Slow(ThisMachine):
        def read(self, path: str, offset: int, size: int) -> bytes:
            return super().read(path, offset, 100)

    written = [f"0: line {number}\n" for number in range(400)]
    (tmp_path / "slurm-7.out").write_text("".join(written))
    assert len(lines(follow(tmp_path, Slow(), "COMPLETED"))) == 400
