"""Standard input of this process, for one rank (`launch --stdin`).

A thread reads it, and reads no further ahead than `WINDOW` bytes of what the rank's node has taken. A rank that does
not read holds up nobody, and what this process does not read stays with whoever writes it.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress

from ddpkit.console.status_bar import in_front

CHUNK = 1 << 12  # bytes in one command, which has up to 6 characters for each
WINDOW = 1 << 14  # so that they fit into the pipe of a supervisor that stands still, and no write to it waits
LOOK = 500  # milliseconds between two looks whether a shell has given the terminal back


class RankInput:
    """What one attempt of a run reads. `asks`: the rank has printed a prompt, and nothing was typed since."""

    def __init__(self, rank: int | None, post: Callable[[str], None]) -> None:
        """`rank` None: nothing is read. `post` takes what was read; empty: the end of the input."""
        self.rank = rank
        self.asks = self.is_terminal = False
        self._post = post
        self._read = self._taken = 0  # bytes: counted by the thread, and by the loop
        self._changed = self._wake = -1  # a pipe

    def on_start(self, rank: int) -> None:
        """Begin to read, if the rank that runs now is the one that has the input."""
        if rank == self.rank and self._wake < 0:
            self.is_terminal = os.isatty(0)
            self._changed, self._wake = os.pipe()
            os.set_blocking(self._wake, False)
            with suppress(RuntimeError):  # no thread can be had: its input stays empty
                threading.Thread(target=self._follow, name="ddpkit stdin", daemon=True).start()

    def on_output(self, rank: int, *, prompt: bool) -> bool:
        """Return whether what a rank has printed is a prompt of the rank that has the input."""
        if rank == self.rank:
            self.asks = prompt
        return rank == self.rank and prompt

    def on_taken(self, rank: int, size: int) -> None:
        """The rank's node has taken so many bytes."""
        if rank == self.rank and self._wake >= 0:
            self._taken = min(self._taken + size, self._read)  # a node may say more than it got
            with suppress(OSError):  # it is awake, or has ended
                os.write(self._wake, b".")

    def close(self) -> None:
        """Read no more."""
        wake, self._wake = self._wake, -1
        if wake >= 0:
            os.close(wake)

    def _follow(self) -> None:
        """Read until the end of the input or `close`, while there is room, and while the terminal is this program's."""
        while True:
            room = self._read - self._taken < WINDOW
            ready = room and in_front(0)
            poll = select.poll()
            for fd in (self._changed, 0) if ready else (self._changed,):
                poll.register(fd, select.POLLIN)
            found = {fd for fd, _ in poll.poll(LOOK if room and not ready else None)}
            if self._changed in found and not os.read(self._changed, 1 << 10):
                break  # `close`
            if 0 in found and not self._pass_on():
                break
        os.close(self._changed)

    def _pass_on(self) -> bool:
        """Read once. Returns whether more may come."""
        if not in_front(0):
            return True  # what was typed meanwhile is for the shell, and a read would stop this process
        data = b""
        with suppress(OSError):  # it was closed, or the terminal is gone
            data = os.read(0, CHUNK)
        self._read += len(data)
        self._post(data.decode("utf-8", "surrogateescape"))
        return bool(data)
