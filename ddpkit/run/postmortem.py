"""First failure of a job that was not followed, or of its last attempt, read from the job's own output."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.verdict import diagnose, verdict
from ddpkit.launchers.events import Event, FailedEvent
from ddpkit.launchers.slurm_output import SrunReader
from ddpkit.run.logs import line_of_job
from ddpkit.run.record import Run

HEAD = 1 << 20  # bytes at the beginning: there each rank names its host
TAIL = 16 << 20  # bytes at the end, with the ends of the ranks; between them may be gigabytes
CHUNK = 1 << 20
LINES = 200  # of each rank, to look for the cause in


def first_failure(run: Run, kept: Path | None = None) -> tuple[Failure, str] | None:
    """Return the first failure and its verdict; None where the job's output does not show it, or is not seen here.

    `kept`: a file that gets the lines of the last attempt, in the form of `all.log`. Raises OSError for it.
    """
    assert run.job is not None
    log = Path(run.job.log.replace("{job}", run.job_id or ""))
    reader = SrunReader(run.world_size, torchrun=run.job.torchrun, labels=run.job.labels, lost=True)
    lines: dict[int | None, deque[str]] = defaultdict(lambda: deque(maxlen=LINES))
    # The attempt, and its first failure: that of an attempt before does not count.
    first: tuple[int, FailedEvent] | None = None
    attempt, printed = 0, list[bytes]()
    try:
        for event in _events(log, reader):
            if reader.attempt != attempt:
                attempt = reader.attempt
                lines.clear()
                printed.clear()
            if event["e"] == "out":
                lines[event["rank"]].append(event["data"].rstrip("\n"))
                if kept is not None:
                    printed.append(line_of_job(event).labelled)
            elif event["e"] == "failed":
                first = (reader.attempt, event)
    except OSError:
        return None
    if kept is not None:
        kept.write_bytes(b"".join(line + b"\n" for line in printed))
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
    failure = diagnose(failure, kept or log)
    return failure, verdict(failure, failure.diagnosis)


def _events(log: Path, reader: SrunReader) -> Iterator[Event]:
    with log.open("rb") as file:
        for data in _ends(file):
            yield from reader.feed(1, data)
    yield from reader.flush()


def _ends(file: IO[bytes]) -> Iterator[bytes]:
    """The beginning and the end, in whole lines."""
    size = file.seek(0, 2)
    file.seek(0)
    if size > HEAD + TAIL:
        yield file.read(HEAD) + file.readline()
        file.seek(size - TAIL)
        file.readline()
    while data := file.read(CHUNK):
        yield data
