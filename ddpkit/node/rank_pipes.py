"""Named pipes through which ranks report: starts and exits from their wrappers, progress and steps from their hooks.

A part of `supervisor.py`. Standard library only, Python 3.8 and later. A line is shorter than PIPE_BUF, so that lines
of several writers never mix.
"""

from __future__ import annotations

import os
import time

from ddpkit.node.event_loop import EventLoop
from ddpkit.node.rank_output import RankOutput
from ddpkit.node.rank_table import RankTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator


CHUNK = 1 << 16
MAX_RECORDS = 100  # of a rank's steps that wait for a heartbeat


def _number(word: str) -> float:
    value = float(word)
    if not 0 <= value < 1e13:  # nor NaN
        raise ValueError(word)
    return value


def make_pipe(path: str) -> int:
    """Make a named pipe. It is opened for both, so that it never reads as ended between two writers."""
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


class LinePipe:
    """Whole lines of a named pipe that many processes write to."""

    def __init__(self, path: str) -> None:
        self.fd = make_pipe(path)
        self._held = b""

    def read(self) -> Iterator[bytes]:
        while True:
            try:
                data = os.read(self.fd, CHUNK)
            except OSError:
                return
            *lines, self._held = (self._held + data).split(b"\n")
            yield from lines


def _first_terminated(lines: list[bytes]) -> float | None:
    """When the first rank ended by SIGTERM."""
    for line in lines:
        words = line.split()
        if words[:1] == [b"exit"] and words[4:5] == [b"15"]:
            try:
                return _number(words[5].decode())
            except (IndexError, ValueError):
                continue  # a script wrote it
    return None


class RankPipes:
    def __init__(self, loop: EventLoop, send: Callable[..., None], output: RankOutput, table: RankTable) -> None:
        self._loop = loop
        self._send = send
        self._output = output
        self._table = table
        self._wrappers: LinePipe | None = None
        self._hooks: LinePipe | None = None
        self._steps: dict[str, list[list[float]]] = {}  # by rank: records that no heartbeat has sent yet

    def open_wrappers(self, path: str) -> None:
        """Read starts and exits of ranks that another program starts."""
        self._wrappers = LinePipe(path)
        self._loop.watch(self._wrappers.fd, self.read_wrappers)

    def open_hooks(self, path: str) -> None:
        """Read what `rank_events.py` reports in each rank."""
        self._hooks = LinePipe(path)
        self._loop.watch(self._hooks.fd, self._read_hooks)

    def on_orphan_exit(self, pid: int, status: int) -> None:
        """A process ended whose parent is gone. What wrappers have reported, and nobody read, came later or with it."""
        lines = list(self._wrappers.read()) if self._wrappers is not None else []
        self._table.on_orphan_exit(pid, status, _first_terminated(lines))
        self._read_lines(lines)

    def read_wrappers(self) -> None:
        self._read_lines(list(self._wrappers.read()) if self._wrappers is not None else [])

    def _read_lines(self, lines: list[bytes]) -> None:
        terminated = _first_terminated(lines)
        if terminated is not None:  # perhaps by torchrun, after a wrapper was killed: its rank ended before
            self._table.collect_orphans(terminated)
        for line in lines:
            try:
                self._read_wrapper(*line.decode().split())
            except (ValueError, TypeError):
                continue  # a script wrote it

    def _read_wrapper(self, kind: str, local: str, rank: str, first: str, second: str, third: str = "") -> None:
        if kind == "start":
            pid, when = int(first), _number(second)
            self._output.assign(int(local), int(rank))
            self._table.on_start(int(rank), pid, when)
        elif kind == "exit":
            code, number = (None if word == "None" else int(word) for word in (first, second))
            when = _number(third)
            self._output.drain_local(int(local))
            self._table.on_exit(int(rank), code, number, when)

    def _read_hooks(self) -> None:
        """Nonsense, which a script may write, must do no harm."""
        for line in self._hooks.read() if self._hooks is not None else ():
            try:
                kind, rank, *rest = line.decode().split()
                if kind == "mark":
                    self._send(e="mark", rank=int(rank), name=rest[0], t=_number(rest[1]))
                elif kind == "versions":
                    self._send(e="versions", rank=int(rank), versions=rest)
                elif kind == "steps" and int(rank) in self._table.ranks:
                    records = self._steps.setdefault(rank, [])
                    if len(rest) == 6 and len(records) < MAX_RECORDS:
                        records.append([_number(word) for word in rest])
            except (ValueError, IndexError):
                continue

    def send_steps(self) -> None:
        if self._steps:
            self._send(e="steps", t=time.time(), ranks=self._steps)
            self._steps = {}

    def close(self) -> None:
        """Read what is left, and read no more."""
        self.read_wrappers()
        self._read_hooks()
        for pipe in (self._wrappers, self._hooks):
            if pipe is not None:
                self._loop.unwatch(pipe.fd)
