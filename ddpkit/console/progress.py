"""Status lines of a run: its state, ranks and nodes, its duration, and the progress of its training.

The last comes from the `metrics.jsonl` that a run may write (one JSON object a line, as train.py does): step, loss and
throughput, which its lines on the screen need not have. All is pure but `Metrics`, which reads that file.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

WIDEST = 79  # columns: a window that is made narrower seldom breaks a line that was drawn
EVERY = 1.0  # seconds between two looks at the metrics
SEARCH = 5.0  # and between two searches for the file
_TAIL = 1 << 14  # bytes at the end of a file that hold its last few lines
_STEP = ("step", "global_step", "total_steps", "iteration")
_LOSS = ("loss", "train_loss")
_RATES = {
    "samples_per_second": "samples/s",
    "samples_per_sec": "samples/s",
    "images_per_second": "images/s",
    "tokens_per_second": "tokens/s",
    "tokens_per_sec": "tokens/s",
}


class Standing(NamedTuple):
    """State of a run. `state`: starting, running or ending."""

    state: str
    nodes: int  # 0: not known yet
    ranks: int  # that run now
    world_size: int
    started: float  # seconds since the epoch


class Progress(NamedTuple):
    """Last values of the run's metrics; None: not recorded."""

    step: int | None = None
    loss: float | None = None
    rate: str | None = None  # `1,234 samples/s`


def lines(name: str, standing: Standing, progress: Progress, now: float, columns: int) -> list[str]:
    """Return one line, or two in a narrow window; what does not fit in two is left out."""
    size = standing.world_size
    ranks = f"{size}" if standing.ranks == size else f"{standing.ranks}/{size}"
    parts = [standing.state, f"{ranks} {'rank' if size == 1 else 'ranks'}"]
    if standing.nodes:
        parts.append(f"{standing.nodes} {'node' if standing.nodes == 1 else 'nodes'}")
    parts.append(clock(now - standing.started))
    if progress.step is not None:
        parts.append(f"step {progress.step:,}")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4g}")
    if progress.rate is not None:
        parts.append(progress.rate)
    return wrapped([*parts, name], min(columns - 1, WIDEST))


def wrapped(parts: Iterable[str], width: int) -> list[str]:
    """Join parts, in two lines at most, none broken."""
    rows: list[str] = []
    for part in parts:
        if rows and len(rows[-1]) + 3 + len(part) <= width:
            rows[-1] += f" · {part}"
        elif len(rows) < 2 and len(part) <= width:
            rows.append(part)
    return rows


def clock(seconds: float) -> str:
    """Return a duration as `0:07`, `12:31`, `3:12:31` or `2 days 3:12:31`."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    head = f"{days} {'day' if days == 1 else 'days'} " if days else ""
    return f"{head}{hour}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def progress(text: bytes) -> Progress:
    """Read the last lines of a metrics file. Torn lines, and lines of other content, are skipped."""
    step: int | None = None
    loss: float | None = None
    rate: str | None = None
    for line in reversed(text.split(b"\n")[:-1]):  # behind the last newline stands a line that is half written
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if not isinstance(values, dict):
            continue
        if step is None and (number := _number(values, _STEP)) is not None and math.isfinite(number):
            step = int(number)
        if loss is None:
            loss = _number(values, _LOSS)
        for key, unit in _RATES.items():
            if rate is None and (number := _number(values, (key,))) is not None:
                rate = f"{number:,.0f} {unit}" if number >= 10 else f"{number:.2g} {unit}"
        if None not in (step, loss, rate):
            break
    return Progress(step=step, loss=loss, rate=rate)


def _number(values: dict[str, Any], names: Iterable[str]) -> float | None:
    for name in names:
        value = values.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None


class Metrics:
    """Reads the end of a metrics file again when it has changed. What it held before the run began is another run's.

    `find` is asked until it knows the file. A thread of its own does all this: a dead file system must hold up nothing.
    """

    def __init__(self, find: Callable[[], Path | None]) -> None:
        self.last = Progress()
        self._find = find
        self._path: Path | None = None
        self._searched = float("-inf")
        self._seen: tuple[int, ...] = ()  # mark of the file that was read last
        self._over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        self.skip()
        while not self._over.wait(EVERY):
            self.read()

    def skip(self) -> None:
        """Skip the present content: it is of an earlier run."""
        try:
            self._path = self._find()
            if self._path is not None:
                self._seen = _mark(self._path.stat())
        except (OSError, ValueError):
            pass

    def read(self) -> None:
        """Read the file once. Whatever is wrong with it, the last known progress stays."""
        try:
            if self._path is None and time.monotonic() - self._searched >= SEARCH:
                self._path, self._searched = self._find(), time.monotonic()
            if self._path is None:
                return
            facts = self._path.stat()
            if _mark(facts) != self._seen:
                self._seen = _mark(facts)
                # What is no file, such as a pipe without a writer, is not waited for.
                with open(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
                    file.seek(max(0, facts.st_size - _TAIL))
                    self.last = progress(file.read(_TAIL))
        except (OSError, ValueError, OverflowError, RecursionError):
            pass


def _mark(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


class Header:
    """The status lines of one run, from `begin` to `end`. Before and after that there are none."""

    def __init__(self, name: str, find: Callable[[], Path | None]) -> None:
        self._name = name
        self._find = find
        self._metrics: Metrics | None = None
        self._source: Callable[[], Standing] | None = None

    def begin(self, source: Callable[[], Standing]) -> None:
        self._metrics = Metrics(self._find)
        self._metrics.start()
        self._source = source

    def end(self) -> None:
        self._source = None
        if self._metrics is not None:
            self._metrics.stop()

    def lines(self, size: os.terminal_size) -> list[str]:
        """Return the lines as they are now. A window of a few rows is left to the run's own lines."""
        source = self._source
        if source is None or self._metrics is None or size.lines < 6 or size.columns < 20:
            return []
        return lines(self._name, source(), self._metrics.last, time.time(), size.columns)
