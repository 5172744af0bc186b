"""Keeps a few status lines below the scrolling lines of a terminal, and leaves no trace of them.

They stand at the bottom, and not at the top: a terminal keeps for scrolling back only what leaves its first row, so a
fixed head above a scroll region would cost the user the history (xterm, VTE, tmux). They are erased before each write
and drawn again behind it; what scrolls away, is copied or is kept by tmux are the run's own lines.

The cursor rests on an empty row above them, and only what is below the cursor is ever erased: whatever the terminal
does to lines when its size changes, and whatever others write or type, no line is lost. No mode that could outlive a
killed launcher is used (no other screen, no scroll region, no hidden cursor). One is off for the time of one short
write: the breaking of long lines, for a terminal may be narrower than it says (tmux says so a quarter second late).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import IO

from ddpkit.console.progress import Header, Standing
from ddpkit.console.style import is_rich

EVERY = 0.25  # seconds between two looks at what they say
REST = 0.05  # seconds between two draws: lines that come faster are written together
_ERASE = b"\r\x1b[J"  # from the cursor to the end of the screen
_CUT, _BREAK = "\x1b[?7l", "\x1b[?7h"  # what is too long for a row
_COLOURS = {"starting": "33", "running": "32", "ending": "31"}
_TTY = os.makedev(5, 0)  # /dev/tty: the controlling terminal under another name


class Bottom:
    """The status lines of one terminal, which the writer's thread alone draws.

    `handle` is open on it; `numbers` are the outputs that go there.
    """

    def __init__(self, handle: int, numbers: tuple[int, ...], header: Header, *, colour: bool) -> None:
        self.drawn = b""  # what stands there now
        self.numbers = numbers
        self._handle = handle
        self._header = header
        self._colour = colour
        self._held = False
        self._active = False
        self._looked = float("-inf")  # time.monotonic()
        self._wrote = float("-inf")
        self._wanted = b""  # what should stand there, by the last look

    def begin(self, source: Callable[[], Standing]) -> None:
        self._header.begin(source)
        self._active = True

    def end(self) -> None:
        self._header.end()
        self._active = False

    def hold(self, held: bool, /) -> None:
        self._held = held
        self._looked = float("-inf")

    def around(self, data: bytes, now: float, /) -> tuple[bytes, bytes]:
        """Return bytes to write before and after `data`, so that it stands above the status lines; empty: no change."""
        if not self._active or self._held:
            self._wanted = b""
        elif now - self._looked >= EVERY:
            self._looked = now
            self._wanted = self._drawing()
        if not data and self._wanted == self.drawn:
            return b"", b""
        before = _ERASE if self.drawn else b""
        self.drawn = self._wanted
        self._wrote = now
        return before + data, self._wanted

    def pause(self) -> float | None:
        """Return the seconds until the lines may have changed by themselves."""
        return EVERY if self._active and not self._held else None

    def rest(self, now: float, /) -> float:
        """Return the seconds until the lines should be drawn again."""
        return max(0.0, self._wrote + REST - now) if self.drawn else 0.0

    def _drawing(self) -> bytes:
        """Return the bytes that draw the status lines; empty: the window has no room, or is another program's now."""
        try:
            size = os.get_terminal_size(self._handle)
        except OSError:
            return b""
        lines = self._header.lines(size) if in_front(self._handle) else []
        if not lines:
            return b""
        if self._colour:
            state = lines[0].partition(" ")[0]
            lines[0] = f"\x1b[{_COLOURS[state]}m{state}\x1b[0m{lines[0][len(state) :]}"
        # The empty row, then each line on its own, then back up to that row.
        return "".join([_CUT, *(f"\r\n{line}" for line in lines), f"\x1b[{len(lines)}A\r", _BREAK]).encode()


def in_front(handle: int) -> bool:
    """Tell whether a terminal is this process's: in the background (`bg`) its keys and last rows are the shell's."""
    try:
        return os.tcgetpgrp(handle) == os.getpgrp()
    except OSError:
        return True  # it is not the terminal that controls us: no shell stands there


def make_bottom(out: IO[bytes], err: IO[bytes], header: Header, environ: Mapping[str, str]) -> Bottom | None:
    """Make the status lines for two streams; None where neither is a terminal that can draw them."""
    if environ.get("TERM", "dumb") == "dumb":
        return None
    terminals = [(number, stream.fileno()) for number, stream in ((1, out), (2, err)) if stream.isatty()]
    if not terminals:
        return None
    device = os.fstat(terminals[0][1]).st_rdev
    # /dev/tty is taken for the other one, which it nearly always is.
    same = [number for number, handle in terminals if len({device, os.fstat(handle).st_rdev} - {_TTY}) < 2]
    return Bottom(terminals[0][1], tuple(same), header, colour=is_rich(environ, terminal=True))
