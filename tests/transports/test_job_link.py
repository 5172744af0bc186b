"""A followed job, with a program in the place of scontrol: its lines over a connection that breaks, and at its end."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ddpkit.launchers.events import Event
from ddpkit.launchers.plan import Host, Job, Request, Via
from ddpkit.launchers.slurm import SlurmSrun
from ddpkit.scheduler import LostError, ThisMachine
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


def follow(folder: Path, machine: ThisMachine, state: str) -> list[Event]:
    """Follow job 7, whose output is there and whose state is this one, to the link's end."""
    job = Job(run_id="20260101-000000-a-1", command=("a.py",), workdir="/", python="python3", folder=str(folder))
    world = Request(nnodes=1, nproc_per_node=2, here=Host(name="here", slots=0), via=Via(host="login1"))
    plan = SlurmSrun().plan(job, world)
    assert plan.batch is not None
    changed = replace(plan.batch, state=("echo", STATE.format(state)))
    link = JobLink(changed, "7", plan.steps[0], machine)
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    link.start(request(plan.steps[0], plan), events.put)
    taken = []
    while (event := events.get(timeout=60)) is not None:
        taken.append(event)
    link.close()
    return taken


def lines(events: list[Event]) -> list[str]:
    return [line for event in events if event["e"] == "out" for line in event["data"].splitlines()]


def notes(events: list[Event]) -> list[str]:
    return [event["text"] for event in events if event["e"] == "note"]


@pytest.mark.parametrize("lost", [lambda n: n % 3 == 1 and n < 50, lambda n: 5 < n < 60])
def test_lines_over_a_connection_that_breaks(tmp_path: Path, lost: Callable[[int], bool]) -> None:
    written = [f"rank line {number}" for number in range(2000)]
    (tmp_path / "slurm-7.out").write_text("".join(f"{n % 2}: {line}\n" for n, line in enumerate(written)))
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
