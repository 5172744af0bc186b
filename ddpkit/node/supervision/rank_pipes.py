"""Named pipes through which ranks report: starts and exits from their wrappers, progress and steps from their hooks.

A part of `supervisor.py`. A line is shorter than PIPE_BUF, so that lines of several writers never mix.

A script can write to the pipes as well. It can say little by that: of ranks that run here, each thing once, within
bounds. The end of a rank is believed only where its process has ended, and a start where its process is below this one.
"""

from __future__ import annotations

import os
import time

from ddpkit.node.process_tree import is_below, read_process
from ddpkit.node.supervision.event_loop import EventLoop
from ddpkit.node.supervision.rank_output import RankOutput
from ddpkit.node.supervision.rank_table import RankTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator


CHUNK = 1 << 16
MAX_RECORDS = 100  # of a rank's steps that wait for a heartbeat
LINE_LIMIT = 4096  # bytes (PIPE_BUF): what is longer has mixed with the line of another
MOST_MARKS = 32  # points of one rank's start
MOST_NAME = 100  # characters of a point, of a version, or of an exception


def _number(word: str) -> float:
    value = float(word)
    if not 0 <= value < 1e13:  # nor NaN
        raise ValueError(word)
    return value


def _lives(pid: int) -> bool:
    """Whether a process below this one runs, or is stopped."""
    process = read_process(pid)
    return process is not None and process.state != "Z" and is_below(pid)


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
            self._held = self._held[:LINE_LIMIT]
            yield from (line for line in lines if len(line) < LINE_LIMIT)


def _first_terminated(lines: list[bytes]) -> float | None:
    """When the first rank ended by SIGTERM; None: none did. For the form of a line see `_read_wrapper`."""
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
        self.steps: dict[str, list[list[float]]] = {}  # by rank: records that no heartbeat has sent yet
        self._reported: dict[int, set[str]] = {}  # by rank: what it has reported since its start

    def open_wrappers(self, path: str) -> None:
        """Read starts and exits of ranks that another program starts."""
        self._wrappers = LinePipe(path)
        self._loop.watch(self._wrappers.fd, self.read_wrappers)

    def open_hooks(self, path: str) -> None:
        """Read what `rank_events.py` reports in each rank. All ranks have one pipe."""
        if self._hooks is None:
            self._hooks = LinePipe(path)
            self._loop.watch(self._hooks.fd, self._read_hooks)

    def on_orphan_exit(self, pid: int, status: int) -> None:
        """Take the end of a process whose parent is gone. Unread lines of wrappers tell of this end or later ones."""
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

    def _read_wrapper(self, kind: str, local: str, word: str, first: str, second: str, third: str = "") -> None:
        """Take `start LOCAL_RANK RANK PID TIME`, or `exit LOCAL_RANK RANK CODE SIGNAL TIME`, if it can be true.

        Raises ValueError.
        """
        rank = int(word)
        known = self._table.ranks.get(rank)
        if kind == "start":
            pid, when = int(first), _number(second)
            if 0 <= rank < 1 << 29 and pid > 1 and (is_below(pid) or read_process(pid) is None):
                self._output.assign(int(local), rank)
                self._reported.pop(rank, None)
                self._table.on_start(rank, pid, when)
        elif kind == "exit" and known is not None and not _lives(known.pid):
            code, number = (None if each == "None" else int(each) for each in (first, second))
            when = _number(third)
            if (code is None or 0 <= code < 256) and (number is None or 0 < number < 65):
                self._output.drain_local(int(local))
                self._table.on_exit(rank, code, number, when)

    def _read_hooks(self) -> None:
        """Nonsense, which a script may write, must do no harm."""
        for line in self._hooks.read() if self._hooks is not None else ():
            try:
                kind, word, *rest = line.decode().split()
                self._read_hook(kind, int(word), rest)
            except (ValueError, IndexError):
                continue

    def _read_hook(self, kind: str, rank: int, rest: list[str]) -> None:
        """Take a line of a rank's hook: its forms are in `rank_events.py`. Raises ValueError, IndexError."""
        if kind == "steps" and rank in self._table.ranks:
            records = self.steps.setdefault(str(rank), [])
            if len(rest) == 6 and len(records) < MAX_RECORDS:
                records.append([_number(each) for each in rest])
        elif kind == "mark" and self._is_new(rank, "mark " + rest[0]):
            self._send(e="mark", rank=rank, name=rest[0], t=_number(rest[1]))
        elif kind == "versions" and self._is_new(rank, kind):
            self._send(e="versions", rank=rank, versions=[each[:MOST_NAME] for each in rest[:8]])

    def _is_new(self, rank: int, what: str) -> bool:
        """Whether a rank that runs here has not reported this since its start, and not too much else."""
        reported = self._reported.setdefault(rank, set()) if rank in self._table.ranks else None
        if reported is None or what in reported or len(what) > MOST_NAME or len(reported) >= MOST_MARKS:
            return False
        reported.add(what)
        return True

    def send_steps(self) -> None:
        if self.steps:
            self._send(e="steps", t=time.time(), ranks=self.steps)
            self.steps = {}

    def close(self) -> None:
        """Read what is left, and read no more."""
        self.read_wrappers()
        self._read_hooks()
        for pipe in (self._wrappers, self._hooks):
            if pipe is not None:
                self._loop.unwatch(pipe.fd)
