"""Shows every line of every rank with its rank and host in front, and keeps it in the run's log files.

`[3 node2]` is rank 3 on node2; `[torchrun node2]` is the agent there. A rank's standard output goes to standard output,
its standard error to standard error. The log of a rank holds the rank's bytes exactly; `all.log` holds what was shown.
"""

from __future__ import annotations

import os
import resource
import time
from collections import deque
from pathlib import Path
from typing import IO, Protocol

TAIL = 20  # lines of each rank that a verdict can show
PROGRESS_EVERY = 1.0  # seconds between two shown states of one progress bar

# Eight colours that read on dark and on light ground, in an order that sets neighbours apart.
_COLOURS = ("36", "33", "35", "32", "34", "96", "95", "93")


class Sink(Protocol):
    """What lines are written to: a stream of a `Screen`, or any binary file."""

    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> object: ...


class Relay:
    """Where the lines go: two streams and a folder of logs."""

    def __init__(self, folder: Path, out: Sink, err: Sink, *, colour: bool) -> None:
        self.folder = folder
        self.out = out
        self.err = err
        self.colour = colour
        self.tails: dict[str, deque[bytes]] = {}
        self.problem: str | None = None  # why logs are no longer written
        self._files: dict[str, IO[bytes]] = {}  # the last one is the one that was written last
        self._unflushed: set[str] = set()
        # One log for each rank of many nodes is more than the usual 1024; half is left for the connections to them.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = 1 << 16 if limit == resource.RLIM_INFINITY else max(1, limit // 2)
        self._shown: dict[tuple[str, int], float] = {}  # when a progress bar was last shown

    def log_name(self, rank: int | None, host: str, agent: str) -> str:
        return f"rank_{rank}.log" if rank is not None else f"{agent}_{host}.log"

    def write(self, rank: int | None, host: str, agent: str, number: int, data: bytes, *, show: bool = True) -> None:
        """Take whole lines of one output (1: standard output, 2: standard error) of a rank, or of the agent."""
        name = self.log_name(rank, host, agent)
        self._keep(name, data)
        lines = self._lines(name, number, data)
        self.tails.setdefault(name, deque(maxlen=TAIL)).extend(line for line, final in lines if final)
        label = f"[{agent if rank is None else rank} {host}] ".encode()
        self._keep("all.log", b"".join(label + line + b"\n" for line, final in lines if final))
        if show and lines:
            if self.colour:
                colour = _COLOURS[(rank or 0) % len(_COLOURS)] if rank is not None else "90"
                label = b"\x1b[" + colour.encode() + b"m" + label + b"\x1b[0m"
            (self.err if number == 2 else self.out).write(b"".join(label + line + b"\n" for line, _ in lines))

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

    def note(self, text: str) -> None:
        """A line of ddpkit's own, on standard error."""
        self.flush()
        data = text.encode("utf-8", "surrogateescape")
        self._keep("all.log", b"".join(b"[ddpkit] " + line + b"\n" for line in data.splitlines()))
        self.err.write(data + b"\n")
        self.flush()

    def tail(self, rank: int | None, host: str, agent: str) -> list[str]:
        """The last lines of one rank, or of the agent."""
        lines = self.tails.get(self.log_name(rank, host, agent), ())
        return [line.decode("utf-8", "replace") for line in lines]

    def _keep(self, name: str, data: bytes) -> None:
        if self.problem is None and data:
            try:
                file = self._files.pop(name, None) or self._open(name)
                self._files[name] = file
                self._unflushed.add(name)
                file.write(data)
            except OSError as error:
                self._give_up(error)

    def _open(self, name: str) -> IO[bytes]:
        if len(self._files) >= self._most:
            self._files.pop(next(iter(self._files))).close()
        return open(self.folder / name, "ab")

    def _give_up(self, error: OSError) -> None:
        """A full disk must not end a run: it goes on without logs, and says so once."""
        self.problem = f"logs in {self.folder} end here: {os.strerror(error.errno or 0)}; the run goes on"
        for file in self._files.values():
            try:
                file.close()
            except OSError:
                pass
        self._files.clear()
        self.err.write(f"ddpkit: {self.problem}\n".encode())

    def flush(self) -> None:
        """Make everything visible. Called when there is nothing more to read for now."""
        try:
            while self._unflushed:
                file = self._files.get(self._unflushed.pop())
                if file is not None:  # else it was closed meanwhile
                    file.flush()
        except OSError as error:
            self._give_up(error)
        self.out.flush()
        self.err.flush()

    def close(self) -> None:
        self.flush()
        for file in self._files.values():
            file.close()
        self._files.clear()
