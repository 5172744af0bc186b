"""Speeds of the past by host, device and what was measured: one private file beside the index of runs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Annotated

from ddpkit.files import make_directories, write_atomically
from ddpkit.launchers.typed_json import Between
from ddpkit.run import record
from ddpkit.run.record import Run
from ddpkit.run.report.steps import STANDS_OUT, read_steps
from ddpkit.run.run_files import read_private
from ddpkit.run.run_index import index_folder
from ddpkit.run.timeline import TimelineFile

FILE, MOST_BYTES = "speeds.json", 1 << 20
MOST, KEPT = 512, 8  # series of values; values of each, the newest
FEWEST = 2  # earlier values, before a new one is compared with them
NAMED = 4  # hosts of a series: of more, their number
MOST_TEXT, LEAST, LONGEST = 300, 1e-9, 1e9  # characters of a name; seconds
Name = Annotated[str, Between(0, MOST_TEXT)]
Took = Annotated[float, Between(LEAST, LONGEST)]


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Seconds that something takes on a host, or on the hosts of a run; those of the past, the newest last."""

    host: Name
    device: Name  # `NVIDIA H200`, or `cpu`; empty where it is not known
    what: Name
    seconds: tuple[Took, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.host, self.device, self.what

    @property
    def is_sound(self) -> bool:
        """Whether the file takes it: a node can report anything."""
        return max(map(len, self.key)) <= MOST_TEXT and all(LEAST <= each <= LONGEST for each in self.seconds)


@dataclass(frozen=True, kw_only=True)
class _Speeds:
    speeds: tuple[Speed, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Past:
    """What was measured now, beside its past."""

    now: Speed
    usual: float  # the median of earlier values
    number: int  # of them

    def is_slower(self, times: float) -> bool:
        """Whether it takes so many times as long as it did."""
        return self.number >= FEWEST and self.now.seconds[-1] > times * self.usual

    def describe(self, whose: str) -> str:
        """Return both numbers in words. `whose`: `a matrix product on node1`."""
        now, usual = 1e3 * self.now.seconds[-1], 1e3 * self.usual
        return f"{whose} takes {now:.3g} ms, and took {usual:.3g} ms before (median of {self.number})"


def compare(known: Sequence[Speed], new: Speed) -> Past:
    """Return a speed beside those of the past."""
    before = next((each.seconds for each in known if each.key == new.key), ())
    return Past(now=new, usual=median(before) if before else 0.0, number=len(before))


def merge(known: Sequence[Speed], new: Iterable[Speed]) -> tuple[Speed, ...]:
    """Add speeds; those that were measured longest ago give way."""
    series = {each.key: each for each in known}
    for each in new:
        before = series.pop(each.key, None)
        series[each.key] = replace(each, seconds=((before.seconds if before else ()) + each.seconds)[-KEPT:])
    return tuple(series.values())[-MOST:]


def step_of(run: Run, times: TimelineFile | None) -> Speed | None:
    """Return the time of a step of a run, among those of the same command on the same hosts; None: not observed."""
    rows = [row.whole_seconds for row in read_steps(times, "").rows if row.whole_seconds]
    if not rows:
        return None
    asked = json.dumps([run.project, run.command, run.world_size, sorted(run.hosts)])
    hosts = ", ".join(run.hosts) if len(run.hosts) <= NAMED else f"{len(run.hosts)} hosts"
    what = f"a step of {hashlib.sha256(asked.encode()).hexdigest()[:16]}"
    return Speed(host=hosts, device="", what=what, seconds=(median(rows),))


# ---- the file


def read() -> tuple[Speed, ...]:
    """Return all speeds; none where the file is damaged, or anybody else can change it."""
    with suppress(OSError, RuntimeError, record.RecordError):  # RuntimeError: nobody knows where this user's home is
        folder = index_folder().parent
        content, private = read_private(folder, FILE, MOST_BYTES)
        return record.read(_Speeds, content, folder / FILE).speeds if private else ()
    return ()


def remember(new: Sequence[Speed]) -> list[Past]:
    """Add speeds to the file. Returns each beside its past. Of two programs that write at once, one is forgotten."""
    new = [each for each in new if each.is_sound]
    if not new:
        return []
    known = read()
    with suppress(OSError, RuntimeError):
        folder = index_folder().parent
        make_directories(folder, 0o700)
        if folder.stat().st_uid == os.geteuid():
            speeds = _Speeds(speeds=merge(known, new))
            write_atomically(folder / FILE, json.dumps(asdict(speeds)) + "\n", 0o600)
    return [compare(known, each) for each in new]


def remember_step(run: Run, times: TimelineFile | None) -> str:
    """Remember the time of a step of a run. Returns it beside that of earlier runs, if it is slower; else nothing."""
    step = step_of(run, times)
    slower = [past for past in remember([step] if step else []) if past.is_slower(STANDS_OUT)]
    return slower[0].describe("a step of this command on these hosts") if slower else ""
