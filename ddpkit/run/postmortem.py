"""First failure of a job that was not followed, or of its last attempt, and its ranks: from the job's own output."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.verdict import diagnose, verdict
from ddpkit.files import write_atomically
from ddpkit.launchers.events import Event, FailedEvent
from ddpkit.launchers.job_output import JobOutput, first_of
from ddpkit.machine import Machine
from ddpkit.run.logs import lines_of_job
from ddpkit.run.record import Run
from ddpkit.run.site import job_log, machine_of, reader_of

HEAD = 1 << 20  # bytes at the beginning: there each rank names its host
TAIL = 16 << 20  # bytes at the end, with the ends of the ranks; between them may be gigabytes
LINES = 200  # of each rank, to look for the cause in


def first_failure(run: Run, kept: Path | None = None) -> tuple[Failure, str] | None:
    """Return the first failure and its verdict; None where the job's output does not show it, or is not seen here.

    `kept`: a file that gets the lines of the last attempt, in the form of `all.log`. Raises OSError for it.
    """
    log, reader = job_log(run), reader_of(run)
    lines: dict[int | None, deque[str]] = defaultdict(lambda: deque(maxlen=LINES))
    # The attempt, and its first failure: that of an attempt before does not count.
    first: tuple[int, FailedEvent] | None = None
    attempt, printed = 0, list[bytes]()
    try:
        for event in _events(machine_of(run), log, reader):
            if reader.attempt != attempt:
                attempt = reader.attempt
                lines.clear()
                printed.clear()
            if event["e"] == "out":
                lines[event["rank"]].extend(event["data"].removesuffix("\n").split("\n"))
                if kept is not None:
                    printed += [line.labelled for line in lines_of_job(event)]
            elif event["e"] == "failed":
                known = first[1] if first is not None and first[0] == reader.attempt else None
                first = (reader.attempt, first_of(known, event))
    except OSError:
        return None
    if kept is not None:
        write_atomically(kept, b"".join(line + b"\n" for line in printed))
    if first is None or first[0] != reader.attempt:
        return None
    event = first[1]
    failure = Failure(
        host=event["host"],
        rank=event["rank"],
        what=event["what"],
        code=event["code"],
        signal=event["signal"],
        reason=event.get("reason", ""),
        raised=event.get("raised", ""),
        last_lines=tuple(lines[event["rank"]] or lines[None]),
    )
    failure = diagnose(failure, kept or Path(log))
    return failure, verdict(failure, failure.diagnosis)


@dataclass(frozen=True, kw_only=True)
class JobRanks:
    """Ranks of the last attempt of a job: hosts and process ids, exit codes or signals, and last lines."""

    hosts: dict[int, str]
    pids: dict[int, int]
    ends: dict[int, tuple[int | None, int | None]]
    lines: dict[int, str]


def job_ranks(run: Run) -> JobRanks | None:
    """Return the ranks of a job; None where its output is not visible from here."""
    reader, attempt = reader_of(run), 0
    ends: dict[int, tuple[int | None, int | None]] = {}
    lines: dict[int, str] = {}
    try:
        for event in _events(machine_of(run), job_log(run), reader):
            if reader.attempt != attempt:
                attempt = reader.attempt
                ends.clear()
                lines.clear()
            if event["e"] == "exit":
                ends[event["rank"]] = event["code"], event["signal"]
            elif event["e"] == "out" and event["rank"] is not None:
                lines[event["rank"]] = event["data"].removesuffix("\n").rpartition("\n")[2]
    except OSError:
        return None
    return JobRanks(hosts=dict(reader.hosts), pids=dict(reader.pids), ends=ends, lines=lines)


def _events(machine: Machine, log: str, reader: JobOutput) -> Iterator[Event]:
    for data in _ends(machine, log):
        yield from reader.feed(data)
    yield from reader.flush()


def _ends(machine: Machine, log: str) -> Iterator[bytes]:
    """Yield the beginning and the end of a file, in whole lines."""
    first = machine.read(log, 0, HEAD + TAIL + 1)
    if len(first) <= HEAD + TAIL:
        yield first
        return
    yield first[: first.find(b"\n", HEAD) + 1 or None]
    tail = machine.read(log, -TAIL, TAIL)
    yield tail[tail.find(b"\n") + 1 :]
