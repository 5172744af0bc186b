"""Shows every line of every rank with its rank and host in front, and keeps it in the run's log files.

`[3 node2]` is rank 3 on node2; `[torchrun node2]` is the agent there. A rank's standard output goes to standard output,
its standard error to standard error. The log of a rank holds the rank's bytes exactly, `all.log` every line of every
rank; a terminal shows equal lines of several ranks as one: see `ddpkit.console.dedup`.
"""

from __future__ import annotations

import os
import resource
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from ddpkit.console.dedup import Fold, FoldedLine, Source, label
from ddpkit.console.style import Panel
from ddpkit.files import open_for_append
from ddpkit.text import coloured, printable

ALL = "all.log"
TIMES = "all.times"  # lines with a time, and the size that all.log had
TIMES_EVERY = 1.0  # seconds between two of them
TAIL = 20  # lines of each rank that a verdict can show
BUFFER = 1 << 16  # bytes of one log that wait to be written together
LOGS_EVERY = 0.05  # seconds between two writes into the logs, while lines come one after the other
RETRY = 1.0  # seconds between two looks whether a disk that was full has room
LOG_MODE = 0o644  # less the umask: others may read, and never write
PROGRESS_EVERY = 1.0  # seconds between two shown states of one progress bar

ON_SCREEN = 16  # lines: after so many more of others, a rank's last lines may have left a window of 24 rows

# Colours that read on dark and on light ground, in an order that sets neighbours apart. None is red: that is a failure.
_COLOURS = ("36", "33", "34", "32", "96", "93", "94", "92")
_OWN = b"ddpkit: "  # before a line of ddpkit's own
_EMPHASIS = {b"ddpkit: done": b"1;32", b"ddpkit:": b"1", b"hint:": b"1;36"}


class Sink(Protocol):
    """Target of lines: a stream of a `Screen`, or any binary file."""

    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> object: ...


class Relay:
    """Writes lines to two streams and a folder of logs.

    `rich`: outputs (1, 2) with colour. `folded`: outputs on which lines fold. `draw` makes what a terminal shows of a
    panel; without it a panel's lines are plain. `terminals`: outputs on which lines have no controls but colours.
    `quiet`: routine notes are in the log only.
    """

    def __init__(
        self,
        folder: Path,
        out: Sink,
        err: Sink,
        *,
        rich: Collection[int] = (),
        terminals: Collection[int] = (),
        fold: Fold | None = None,
        folded: Collection[int] = (1, 2),
        draw: Callable[[Panel], bytes] | None = None,
        quiet: bool = False,
    ) -> None:
        self.folder = folder
        self.quiet = quiet
        self.out = out
        self.err = err
        self.rich = rich
        self.terminals = terminals
        self.fold = fold
        self.folded = folded
        self.draw = draw
        self.tails: dict[str, deque[bytes]] = {}
        self.missing = 0  # lines that are in no log
        self._files: dict[str, int] = {}  # descriptors; the last one is the one that was written last
        self._waiting: dict[str, bytearray] = {}  # not written yet, by log
        self._logs_at = 0.0  # time.monotonic(): until then what comes is written later, together
        self._retry_at = 0.0  # time.monotonic(): until then nothing is written
        self._why = ""  # the last error of a log; empty: all is there
        self._gaps: set[str] = set()  # logs whose last lines are missing
        self._torn: dict[str, bool] = {}  # whether what was written last is a part of a line, by log
        self._size, self._next_time = 0, 0.0  # of all.log; of the next line of all.times
        # One log for each rank of many nodes is more than the usual 1024; half is left for the connections to them.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = 1 << 16 if limit == resource.RLIM_INFINITY else max(1, limit // 2)
        self._shown: dict[tuple[str, int], float] = {}  # when a progress bar was last shown
        self._count = 0  # lines shown
        self._last: dict[str, int] = {}  # by log: the number of its last line that was shown

    def log_name(self, rank: int | None, host: str, agent: str) -> str:
        return f"rank_{rank}.log" if rank is not None else f"{agent}_{host}.log"

    def write(self, rank: int | None, host: str, agent: str, number: int, data: bytes, *, show: bool = True) -> None:
        """Take whole lines of one output (1: standard output, 2: standard error) of a rank, or of the agent."""
        name = self.log_name(rank, host, agent)
        self._keep(name, data)
        lines = self._lines(name, number, data)
        self.tails.setdefault(name, deque(maxlen=TAIL)).extend(line for line, final in lines if final)
        front = f"[{agent if rank is None else rank} {host}] ".encode()
        self._keep(ALL, b"".join(front + line + b"\n" for line, final in lines if final))
        if show and lines:
            self._count += len(lines)
            self._last[name] = self._count
            plain = coloured if number in self.terminals else bytes
            self._show(Source(rank, host, agent), number, front, [plain(line) for line, _ in lines])

    def _show(self, source: Source, number: int, front: bytes, lines: list[bytes]) -> None:
        if self.fold is None or number not in self.folded:
            front = self._coloured(source, number, front)
            (self.err if number == 2 else self.out).write(b"".join(front + line + b"\n" for line in lines))
            return
        now = time.monotonic()
        self._put([folded for line in lines for folded in self.fold.add(now, source, number, line)])

    def _put(self, folded: list[FoldedLine]) -> None:
        """Show folded lines. Lines of several ranks have no colour, so that those of one rank stand out."""
        assert self.fold is not None
        for number, together in groupby(folded, key=attrgetter("number")):
            data = []
            for line in together:
                front = f"[{label(line.sources, self.fold.world_size)}] ".encode()
                alone = len(line.sources) == 1
                data += [self._coloured(line.sources[0], number, front) if alone else front, line.text, b"\n"]
            (self.err if number == 2 else self.out).write(b"".join(data))

    def _coloured(self, source: Source, number: int, front: bytes) -> bytes:
        if number not in self.rich:
            return front
        colour = _COLOURS[source.rank % len(_COLOURS)] if source.rank is not None else "90"
        return b"\x1b[" + colour.encode() + b"m" + front + b"\x1b[0m"

    def pause(self) -> float:
        """Seconds until a line has waited long enough: for its like, or for the logs. `flush` then shows it."""
        when = None if self.fold is None else self.fold.when()
        due = min(float("inf") if when is None else when, self._logs_at if self._waiting else float("inf"))
        return max(0.0, due - time.monotonic())

    def _lines(self, name: str, number: int, data: bytes) -> list[tuple[bytes, bool]]:
        """Split into (line, final). A state of a progress bar (ended by a carriage return) is not final, and rare."""
        lines: list[tuple[bytes, bool]] = []
        *whole, rest = data.replace(b"\r\n", b"\n").split(b"\n")
        for line in whole:
            # What a terminal would show at the end: the last state that was drawn over the others.
            states = [state for state in line.split(b"\r") if state]
            lines.append((states[-1] if states else b"", True))
        if rest and not rest.endswith(b"\r"):
            return [*lines, (rest, True)]  # a piece of a line that is too long to wait for its end
        states = [state for state in rest.split(b"\r") if state.strip()]
        now = time.monotonic()
        if states and now - self._shown.get((name, number), -PROGRESS_EVERY) >= PROGRESS_EVERY:
            self._shown[name, number] = now
            lines.append((states[-1], False))
        return lines

    def note(self, text: str, panel: Panel | None = None) -> None:
        """Write lines of ddpkit's own to standard error, after all lines before them; on a terminal, the panel."""
        self.flush(wait=False)
        lines = [line.encode("utf-8", "surrogateescape") for line in text.split("\n")]
        self._keep(ALL, b"".join(b"[ddpkit] " + line.removeprefix(_OWN) + b"\n" for line in lines))
        if panel is not None and self.draw is not None:
            self.err.write(self.draw(panel))
        else:
            shown = [printable(line).encode("utf-8", "replace") for line in text.split("\n")]
            self.err.write(b"".join((self._emphasised(line) if 2 in self.rich else line) + b"\n" for line in shown))
        self.flush()

    def routine_note(self, text: str) -> None:
        """Write a line that nobody misses: to the log alone where this relay is quiet."""
        if self.quiet:
            self._keep(ALL, b"[ddpkit] " + text.encode("utf-8", "surrogateescape").removeprefix(_OWN) + b"\n")
        else:
            self.note(text)

    def _emphasised(self, line: bytes) -> bytes:
        for front, colour in _EMPHASIS.items():
            if line.startswith(front):
                return b"\x1b[" + colour + b"m" + front + b"\x1b[0m" + line[len(front) :]
        return line

    def is_on_screen(self, log: str) -> bool:
        """Whether the last lines of a log were shown a moment ago, and are still to be seen."""
        return log in self._last and self._count - self._last[log] <= ON_SCREEN

    def tail(self, rank: int | None, host: str, agent: str) -> list[str]:
        """The last lines of one rank, or of the agent."""
        lines = self.tails.get(self.log_name(rank, host, agent), ())
        return [line.decode("utf-8", "replace") for line in lines]

    def forget_tail(self, rank: int | None, host: str, agent: str) -> None:
        """Forget the last lines of a rank that starts again."""
        self.tails.pop(self.log_name(rank, host, agent), None)

    def _keep(self, name: str, data: bytes) -> None:
        if not data:
            return
        if name == ALL and time.monotonic() >= self._next_time:
            self._next_time = time.monotonic() + TIMES_EVERY
            size = self._size + len(self._waiting.get(ALL, b""))
            self._keep(TIMES, b"%.3f %d\n" % (time.time(), size))
        waiting = self._waiting.setdefault(name, bytearray())
        waiting += data
        if len(waiting) >= BUFFER:
            self._write(name)

    def _write(self, name: str) -> None:
        """Write what waits for a log. What finds no room is lost, and counted; later lines are tried again."""
        data = bytes(self._waiting.pop(name))
        if time.monotonic() < self._retry_at:
            self._lose(name, data)
            return
        data = self._after_gap(name) + data
        written = 0
        try:
            file = self._files.pop(name, None) or self._open(name)
            self._files[name] = file
            while written < len(data):
                written += os.write(file, memoryview(data)[written:])
        except OSError as error:
            self._fail(name, error)
            self._lose(name, data[written:])
        else:
            self._gaps.discard(name)
        if name == ALL:
            self._size += written
        if written:
            self._torn[name] = not data[:written].endswith(b"\n")

    def _after_gap(self, name: str) -> bytes:
        """What comes before the next line of a log in which lines are missing."""
        if name not in self._gaps:
            return b""
        end = b"\n" if self._torn.get(name) else b""
        return end + (f"[ddpkit] lines are missing here: {self._why}\n".encode() if name == ALL else b"")

    def _lose(self, name: str, data: bytes | bytearray) -> None:
        self._gaps.add(name)
        if name == ALL:  # it has the lines of all others
            self.missing += data.count(b"\n")

    @property
    def problem(self) -> str:
        """What is missing in the logs, and why; empty: nothing."""
        if not self._why:
            return ""
        lines = "1 line is" if self.missing == 1 else f"{self.missing} lines are"
        return f"{lines} missing in the logs: {self._why}"

    def _open(self, name: str) -> int:
        if len(self._files) >= self._most:
            os.close(self._files.pop(next(iter(self._files))))
        return open_for_append(str(self.folder / name), LOG_MODE)

    def _fail(self, name: str, error: OSError) -> None:
        """A full disk must not end a run: it goes on without logs, and says so once."""
        self._retry_at = time.monotonic() + RETRY
        file = self._files.pop(name, None)
        if file is not None:  # it may be one that is gone for good (ESTALE)
            with suppress(OSError):
                os.close(file)
        first, self._why = not self._why, error.strerror or type(error).__name__
        if first:
            text = f"cannot write logs in {self.folder}: {self._why}; the run continues, and lines are missing there"
            self.err.write(f"ddpkit: {text}\n".encode())

    def flush(self, *, wait: bool = True) -> None:
        """Make everything visible; with `wait`, all but lines that wait for their like, or for a moment for the logs.

        Called when there is nothing more to read for now.
        """
        now = time.monotonic()
        if self.fold is not None:
            self._put(self.fold.due(now) if wait else self.fold.all())
        if self._waiting and (now >= self._logs_at or not wait):
            self._logs_at = now + LOGS_EVERY
            for name in list(self._waiting):
                self._write(name)
        self.out.flush()
        self.err.flush()

    def begin_attempt(self) -> None:
        """Begin new logs: the files of the attempt before were moved."""
        self.close()
        self.tails.clear()
        self._last.clear()
        self._torn.clear()
        self._gaps.clear()
        self._size, self._next_time = 0, 0.0

    def close(self) -> None:
        self.flush(wait=False)
        if ALL in self._gaps:  # say so at its end as well
            self._retry_at = 0.0
            self._waiting[ALL] = bytearray()
            self._write(ALL)
        for file in self._files.values():
            with suppress(OSError):
                os.close(file)
        self._files.clear()
