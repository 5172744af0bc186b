"""A command in a terminal of its own, and what it shows: used by the tests of what a person sees."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 120.0


class Glass:
    """What a terminal of so many rows shows of bytes, and what scrolled out of its top: text and our few sequences."""

    def __init__(self, rows: int = 24) -> None:
        self.size = rows
        self.rows = [""]
        self.torn = ""  # the beginning of a sequence that is not whole yet
        self.history: list[str] = []
        self.row = self.column = 0

    def feed(self, text: str) -> None:
        text = self.torn + text
        self.torn = found[0] if (found := re.search(r"\x1b(\[[0-9;?]*)?$", text)) else ""
        for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x1b]", text.removesuffix(self.torn)):
            if piece == "\r":
                self.column = 0
            elif piece == "\n":
                self.row += 1
                if self.row == len(self.rows):
                    self.rows.append("")
                if len(self.rows) > self.size:
                    self.history.append(self.rows.pop(0))
                    self.row -= 1
            elif piece == "\x1b[J":
                self.rows[self.row] = self.rows[self.row][: self.column]
                del self.rows[self.row + 1 :]
            elif len(piece) > 1 and piece.endswith("A"):
                self.row -= int(piece[2:-1])
                assert self.row >= 0
            elif piece in ("\x1b[?7l", "\x1b[?7h") or (len(piece) > 1 and piece.endswith("m")):
                pass
            else:
                assert piece >= " ", f"{piece!r} is not for every terminal"
                before = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = before[: self.column] + piece + before[self.column + 1 :]
                self.column += 1

    @property
    def lines(self) -> list[str]:
        return [*self.history, *self.rows]


class PlainTerminal:
    """A command in a terminal of its own: `streams` (0, 1, 2) are on it, the others go to files. `raw`: all bytes."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str], streams: tuple[int, ...] = (0, 1, 2)) -> None:
        self.raw = b""
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            for number in {1, 2} - set(streams):
                os.dup2(os.open(cwd / f"stream{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.execvpe(argv[0], argv, env)

    def resize(self, columns: int, rows: int = 24) -> None:
        fcntl.ioctl(self.handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def take(self, data: bytes) -> None:
        self.raw += data

    @property
    def seen(self) -> object:
        return self.raw

    def read(self) -> bool:
        """Whether there may be more."""
        if select.select([self.handle], [], [], 0.2)[0]:
            try:
                data = os.read(self.handle, 1 << 16)
            except OSError:
                return False
            self.take(data)
            return bool(data)
        return True

    def wait_for(self, there: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE
        while not there():
            assert time.monotonic() < until, self.seen
            assert self.read(), self.seen

    def wait_for_bytes(self, data: bytes, times: int = 1) -> None:
        self.wait_for(lambda: self.raw.count(data) >= times)

    def end(self) -> int:
        until = time.monotonic() + PATIENCE
        while self.read():
            assert time.monotonic() < until, self.seen
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        os.close(self.handle)
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


class Terminal(PlainTerminal):
    """The same with a window of 80 columns, and what it shows."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str], streams: tuple[int, ...] = (0, 1, 2)) -> None:
        self.glass = Glass()
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        super().__init__(argv, cwd, env, streams)
        self.resize(80)

    def take(self, data: bytes) -> None:
        super().take(data)
        self.glass.feed(self.decoder.decode(data))

    @property
    def seen(self) -> object:
        return self.glass.lines

    def shows(self, pattern: str) -> bool:
        return any(re.search(pattern, line) for line in self.glass.lines)
