"""Prints every line of every rank after its rank and host, and gives it to the run's log files.

`[3 node2]` is rank 3 on node2; `[torchrun node2]` is the agent there. A rank's standard output goes to standard output,
its standard error to standard error. The logs get the bytes of each rank exactly; a terminal shows equal lines of
several ranks as one: see `ddpkit.console.dedup`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from ddpkit.console.dedup import Fold, FoldedLine, Source, label
from ddpkit.console.style import Panel
from ddpkit.text import coloured, last_state, printable

TAIL, TAIL_BYTES = 20, 1 << 16  # lines and bytes of each rank that a verdict can show
LOGS_EVERY = 0.05  # seconds between two times that lines go to the logs, while lines come one after the other
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


class Logs(Protocol):
    """The log files of a run: `ddpkit.run.log_files.LogFiles`. Only `sync`, `restart` and `close` wait for a disk."""

    folder: Path
    on_problem: Callable[[str], object]

    def keep(self, name: str, host: str, data: bytes, /) -> None: ...

    @property
    def has_pieces(self) -> bool: ...

    def hand_over(self) -> None: ...

    @property
    def is_full(self) -> bool: ...

    def sync(self) -> bool: ...

    def restart(self) -> None: ...

    def close(self) -> None: ...

    @property
    def problem(self) -> str: ...


class Relay:
    """Writes lines to two streams, and gives them to logs.

    `rich`: outputs (1, 2) with colour. `folded`: outputs on which lines fold. `draw` makes what a terminal shows of a
    panel; without it a panel's lines are plain. `terminals`: outputs on which lines have no controls but colours.
    `quiet`: routine notes are in the log only. `label`: of rank, host and agent, what stands in front of their lines.
    """

    def __init__(
        self,
        logs: Logs,
        out: Sink,
        err: Sink,
        *,
        rich: Collection[int] = (),
        terminals: Collection[int] = (),
        fold: Fold | None = None,
        folded: Collection[int] = (1, 2),
        draw: Callable[[Panel], bytes] | None = None,
        quiet: bool = False,
        label: Callable[[int | None, str, str], str] | None = None,
    ) -> None:
        self.logs = logs
        self.folder = logs.folder
        self.quiet = quiet
        self._label = label or (lambda rank, host, agent: f"{agent if rank is None else rank} {host}")
        self.out = out
        self.err = err
        self.notes = err  # for ddpkit's own lines
        self.rich = rich
        self.terminals = terminals
        self.fold = fold
        self.folded = folded
        self.draw = draw
        self.tails: dict[str, bytes] = {}  # of thousands of ranks: as lists of lines they take twice the memory
        self._logs_at = 0.0  # time.monotonic(): until then what comes goes to the logs later, together
        self._shown: dict[tuple[str, int], float] = {}  # when a progress bar was last shown
        self._prompt: Sink | None = None  # where the last line is one without an end
        self._count = 0  # lines shown
        self._last: dict[str, int] = {}  # by log: the number of its last line that was shown
        logs.on_problem = lambda text: self.err.write(f"ddpkit: {text}\n".encode())  # as a sink, from any thread

    def log_name(self, rank: int | None, host: str, agent: str) -> str:
        return f"rank_{rank}.log" if rank is not None else f"{agent}_{host}.log"

    def write(self, rank: int | None, host: str, agent: str, number: int, data: bytes, *, show: bool = True) -> None:
        """Take whole lines of an output (1: standard, 2: error) of a rank or agent. Without `show`: for the logs."""
        name = self.log_name(rank, host, agent)
        self.logs.keep(f"{agent}_{host}" if rank is None else str(rank), host, data)
        lines = self._lines(data)
        self._keep_tail(name, lines)
        if data.endswith(b"\r"):
            lines += self._bar_state(name, number, data)
        if show and lines:
            front = f"[{self._label(rank, host, agent)}] ".encode()
            self._count += len(lines)
            self._last[name] = self._count
            shown = [coloured(line) for line in lines] if number in self.terminals else lines
            self._show(Source(rank, host, agent), number, front, shown)

    def write_prompt(self, rank: int, host: str, agent: str, number: int, data: bytes) -> None:
        """Take a line without an end, and show it at once: its rank waits for an answer."""
        self.write(rank, host, agent, number, data, show=False)
        self.flush(wait=False)
        front = self._coloured(Source(rank, host, agent), number, f"[{self._label(rank, host, agent)}] ".encode())
        self._write_out(number, front + (coloured(data) if number in self.terminals else data))
        self._prompt = self._sink(number)

    def _show(self, source: Source, number: int, front: bytes, lines: list[bytes]) -> None:
        """Show lines behind their front, or let them wait for equal ones of other ranks."""
        if self.fold is None or number not in self.folded:
            front = self._coloured(source, number, front)
            self._write_out(number, front + (b"\n" + front).join(lines) + b"\n")
            return
        now = time.monotonic()
        self._show_folded([folded for line in lines for folded in self.fold.add(now, source, number, line)])

    def _show_folded(self, folded: list[FoldedLine]) -> None:
        """Show folded lines. Lines of several ranks have no colour, so that those of one rank stand out."""
        assert self.fold is not None
        for number, together in groupby(folded, key=attrgetter("number")):
            data = []
            for line in together:
                front = f"[{label(line.sources, self.fold.world_size)}] ".encode()
                alone = len(line.sources) == 1
                data += [self._coloured(line.sources[0], number, front) if alone else front, line.text, b"\n"]
            self._write_out(number, b"".join(data))

    def _write_out(self, number: int, data: bytes) -> None:
        self._leave_prompt()
        self._sink(number).write(data)

    def _sink(self, number: int) -> Sink:
        return self.err if number == 2 else self.out

    def _leave_prompt(self) -> None:
        """Begin a new line below a prompt that nobody has answered."""
        prompt, self._prompt = self._prompt, None
        if prompt is not None:
            prompt.write(b"\n")

    def end_prompt(self) -> None:
        """Who answered the prompt has ended its line on the terminal."""
        self._prompt = None

    def _coloured(self, source: Source, number: int, front: bytes) -> bytes:
        if number not in self.rich:
            return front
        colour = _COLOURS[source.rank % len(_COLOURS)] if source.rank is not None else "90"
        return b"\x1b[" + colour.encode() + b"m" + front + b"\x1b[0m"

    def pause(self) -> float:
        """Return the seconds until a line has waited long enough. `flush` then prints it, or gives it to the logs."""
        when = None if self.fold is None else self.fold.when()
        due = min(float("inf") if when is None else when, self._logs_at if self.logs.has_pieces else float("inf"))
        return max(0.0, due - time.monotonic())

    def _lines(self, data: bytes) -> list[bytes]:
        """Split into whole lines, and a piece of a line that is too long to wait for its end."""
        if b"\r" not in data:  # most often
            return (data[:-1] if data.endswith(b"\n") else data).split(b"\n")
        *lines, rest = data.replace(b"\r\n", b"\n").split(b"\n")
        drawn = [last_state(line) for line in lines]
        return [*drawn, rest] if rest and not rest.endswith(b"\r") else drawn

    def _bar_state(self, name: str, number: int, data: bytes) -> list[bytes]:
        """Return the last state of a progress bar whose line has not ended, if none was shown a moment ago."""
        states = [state for state in data.rpartition(b"\n")[2].split(b"\r") if state.strip()]
        now = time.monotonic()
        if not states or now - self._shown.get((name, number), -PROGRESS_EVERY) < PROGRESS_EVERY:
            return []
        self._shown[name, number] = now
        return states[-1:]

    def note(self, text: str, panel: Panel | None = None) -> None:
        """Write lines of ddpkit's own to standard error, after all lines before them; on a terminal, the panel."""
        self.flush(wait=False)
        self._leave_prompt()
        self._keep(text)
        if panel is not None and self.draw is not None:
            self.notes.write(self.draw(panel))
        else:
            shown = [printable(line).encode("utf-8", "replace") for line in text.split("\n")]
            self.notes.write(b"".join((self._emphasised(line) if 2 in self.rich else line) + b"\n" for line in shown))
        self.flush()

    def routine_note(self, text: str) -> None:
        """Write a line that nobody misses: to the log alone where this relay is quiet."""
        if self.quiet:
            self._keep(text)
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
        """Return the last lines of one rank, or of the agent."""
        tail = self.tails.get(self.log_name(rank, host, agent), b"")
        return [line.decode("utf-8", "replace") for line in tail.split(b"\n")[:-1]]

    def _keep_tail(self, name: str, lines: list[bytes]) -> None:
        if lines:
            tail = self.tails.get(name, b"") + b"\n".join(lines[-TAIL:]) + b"\n"
            more = tail.count(b"\n") - TAIL
            tail = tail.split(b"\n", more)[-1] if more > 0 else tail
            self.tails[name] = tail[-TAIL_BYTES:]

    def forget_tail(self, rank: int | None, host: str, agent: str) -> None:
        """Forget the last lines of a rank that starts again."""
        self.tails.pop(self.log_name(rank, host, agent), None)

    def _keep(self, text: str) -> None:
        lines = [line.encode("utf-8", "surrogateescape").removeprefix(_OWN) for line in text.split("\n")]
        self.logs.keep("ddpkit", "", b"".join(line + b"\n" for line in lines))

    def flush(self, *, wait: bool = True) -> None:
        """Make everything visible; with `wait`, all but lines that wait for their like, or for a moment for the logs.

        Called when there is nothing more to read for now.
        """
        now = time.monotonic()
        if self.fold is not None:
            self._show_folded(self.fold.due(now) if wait else self.fold.all())
        if self.logs.has_pieces and (now >= self._logs_at or not wait):
            self._logs_at = now + LOGS_EVERY
            self.logs.hand_over()
        self.out.flush()
        self.err.flush()

    def begin_attempt(self) -> None:
        """Begin new logs: the files of the attempt before were moved."""
        self.flush(wait=False)
        self.logs.restart()
        self.tails.clear()
        self._last.clear()

    def close(self) -> None:
        self.flush(wait=False)
        self.logs.close()
