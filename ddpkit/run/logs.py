"""What a run printed, from its logs: chosen ranks or hosts, the last lines, or line by line while it goes on.

`all.log` has every line with its rank and host in front. A job's own output file is read in its place: it goes on when
nobody follows the job, and it holds what came before a restart.
"""

from __future__ import annotations

import glob
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from ddpkit.errors import UsageError
from ddpkit.launchers.events import OutputEvent
from ddpkit.launchers.slurm_output import SrunReader
from ddpkit.run.record import Run

T = TypeVar("T")
PAUSE = 0.1  # seconds between two looks at a file
LATE = 1.0  # seconds that the last lines may take to be seen in a file of another host
_LABEL = re.compile(rb"\[(\S+) (\S+?)\] (.*)", re.DOTALL)
_OURS = b"[ddpkit] "


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line, without its end. `who` is a rank's number or an agent's name; empty for a line of ddpkit's own."""

    who: str
    host: str
    text: bytes

    @property
    def labelled(self) -> bytes:
        label = f"{self.who} {self.host}".strip() or "ddpkit"
        return f"[{label}] ".encode("utf-8", "surrogateescape") + self.text


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which lines are wanted; None is: all."""

    ranks: frozenset[int] | None = None
    host: str | None = None
    pattern: re.Pattern[bytes] | None = None

    def takes(self, line: Line) -> bool:
        if self.ranks is not None and not (line.who.isdecimal() and int(line.who) in self.ranks):
            return False
        if self.host is not None and self.host not in (line.host, line.host.partition(".")[0]):
            return False
        return self.pattern is None or self.pattern.search(line.text) is not None


def choice(run: Run, ranks: str | None, host: str | None, grep: str | None) -> Choice:
    """Make a choice of words from a command line. Raises UsageError."""
    try:
        pattern = None if grep is None else re.compile(grep.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise UsageError(f"--grep {grep}: {error}", "it is a regular expression: a literal ( is \\(") from None
    known = [name for name in run.hosts if run.job is None and run.hosts != ("slurm",)]
    if host is not None and known and host not in {*known, *(name.partition(".")[0] for name in known)}:
        raise UsageError(f"--host {host}: run {run.run_id} has no such host", f"its hosts: {', '.join(known)}")
    return Choice(ranks=None if ranks is None else _ranks(ranks, run.world_size), host=host, pattern=pattern)


def _ranks(text: str, world_size: int) -> frozenset[int]:
    """`0,2-3` as a set."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            raise UsageError(f"--rank {text}: ranks are given as 3, 0,2 or 4-7")
        low, high = int(first), int(last or first)
        if high < low or high >= world_size:
            raise UsageError(f"--rank {text}: the run has ranks 0-{world_size - 1}")
        found |= set(range(low, high + 1))
    return frozenset(found)


class _Tail:
    """What is new in a file that may not be there yet, and that may be begun again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def read(self) -> bytes:
        try:
            if self.path.stat().st_size < self._offset:
                self._offset = 0
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(1 << 20)
        except OSError:
            return b""
        self._offset += len(data)
        return data


class _Merged:
    """The lines of `all.log`."""

    def __init__(self, folder: Path) -> None:
        self._tail = _Tail(folder / "all.log")
        self._rest = b""

    def read(self) -> list[Line] | None:
        """Whole lines that are new; None where nothing is."""
        data = self._tail.read()
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [_line(each) for each in whole] if data else None

    def rest(self) -> list[Line]:
        """The end of a file whose writer is gone need not be a whole line."""
        rest, self._rest = self._rest, b""
        return [_line(rest)] if rest else []


def _line(data: bytes) -> Line:
    found = _LABEL.match(data)
    if data.startswith(_OURS) or found is None:
        return Line(who="", host="", text=data.removeprefix(_OURS))
    who, host = (word.decode("utf-8", "surrogateescape") for word in found.groups()[:2])
    return Line(who=who, host=host, text=found[3])


class _Job:
    """The lines of a job's output files: one file, or one for each job of an array."""

    def __init__(self, run: Run) -> None:
        assert run.job is not None
        self._run, self._job = run, run.job
        before, there, after = run.job.log.partition("{job}")
        number = "" if not there else f"{run.job_id}_*" if run.job.many else run.job_id or ""
        self._pattern = f"{glob.escape(before)}{number}{glob.escape(after)}"
        self._files: dict[str, tuple[_Tail, SrunReader]] = {}

    def _reader(self) -> SrunReader:
        return SrunReader(self._run.world_size, torchrun=self._job.torchrun, labels=self._job.labels)

    def read(self) -> list[Line] | None:
        for name in sorted(glob.glob(self._pattern)):  # noqa: PTH207  # it is one pattern, maybe absolute
            if name not in self._files:
                self._files[name] = _Tail(Path(name)), self._reader()
        found, new = [], False
        for tail, reader in self._files.values():
            data = tail.read()
            new = new or bool(data)
            found += [_of_job(event) for event in reader.feed(1, data) if event["e"] == "out"]
        return found if new else None

    def rest(self) -> list[Line]:
        return [_of_job(each) for _, reader in self._files.values() for each in reader.flush() if each["e"] == "out"]


def _of_job(event: OutputEvent) -> Line:
    text = event["data"].rstrip("\n").encode("utf-8", "surrogateescape")
    who = "srun" if event["rank"] is None else str(event["rank"])
    return Line(who=who, host=event.get("host", "job"), text=text)


def lines(
    run: Run, wanted: Choice, going_on: Callable[[], bool] | None = None, number: int | None = None
) -> Iterator[Line]:
    """The chosen lines that are there, or the last `number` of them; with `going_on` also those that come."""
    source = _Job(run) if run.job is not None else _Merged(Path(run.folder))
    there = chain.from_iterable(_read(source.read, None, 0.0))
    if going_on is None:
        there = chain(there, _once(source.rest))
    chosen = filter(wanted.takes, there)
    yield from chosen if number is None else deque(chosen, maxlen=number)
    if going_on is not None:
        for each in _read(source.read, going_on, LATE if run.job is not None else 0.0):
            yield from filter(wanted.takes, each)
        yield from filter(wanted.takes, source.rest())


def _once(rest: Callable[[], list[Line]]) -> Iterator[Line]:
    yield from rest()  # asked when what stands before it was read


def exact(run: Run, rank: int, going_on: Callable[[], bool] | None = None) -> Iterator[bytes]:
    """The output of one rank byte for byte, also the states of a progress bar."""
    tail = _Tail(Path(run.folder) / f"rank_{rank}.log")
    yield from _read(lambda: tail.read() or None, going_on, 0.0)


def _read(read: Callable[[], T | None], going_on: Callable[[], bool] | None, after: float) -> Iterator[T]:
    """What comes, until the end and for `after` seconds more."""
    until = time.monotonic() if going_on is None else None
    while True:
        # Asked before the read: what was written before the end is then seen by this read.
        over = until is not None or going_on is None or not going_on()
        new = read()
        if new is not None:
            yield new
        elif over:
            until = time.monotonic() + after if until is None else until
            if time.monotonic() >= until:
                return
            time.sleep(PAUSE / 2)
        else:
            time.sleep(PAUSE)
