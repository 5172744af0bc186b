"""Writes to standard output and error from a thread of its own, so that a slow reader holds up nothing else.

A pipe whose reader sleeps, or a terminal stopped by Ctrl-S, must not keep the launcher from seeing a failure or obeying
a signal. What is not read yet waits here, up to a limit; then the ranks' own pipes fill up, as if they wrote to the
screen themselves.
"""

from __future__ import annotations

import errno
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import IO

LIMIT = 4 << 20  # bytes


class Screen:
    """Two streams. `broken` is called once, from the thread, when nobody reads any more (EPIPE)."""

    def __init__(self, out: IO[bytes], err: IO[bytes], broken: Callable[[], None]) -> None:
        self.out = _Stream(self, out)
        self.err = _Stream(self, err)
        self._broken = broken
        self._waiting: deque[tuple[_Stream, bytes]] = deque()
        self._size = 0
        self._hurried = False
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, stream: _Stream, data: bytes) -> None:
        with self._changed:
            if stream.open and data:
                self._waiting.append((stream, data))
                self._size += len(data)
                self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Block while too much waits to be read. Not for the thread that must obey signals."""
        with self._changed:
            self._changed.wait_for(lambda: self._size < LIMIT or self._hurried)

    def hurry(self) -> None:
        """The run is being ended: its last words must not wait for a reader."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()

    def close(self, patience: float | None) -> None:
        """Wait until everything is written, at most so many seconds; None: as long as it takes."""
        with self._changed:
            self._changed.wait_for(lambda: self._size == 0, patience)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                stream, data = self._waiting.popleft()
            error = stream.write_now(data)
            with self._changed:
                self._size -= len(data)
                self._changed.notify_all()
            if error == errno.EPIPE:
                self._broken()


class _Stream:
    """One of the two, as `Relay` sees it."""

    def __init__(self, screen: Screen, stream: IO[bytes]) -> None:
        self.open = True
        self._screen = screen
        self._stream = stream

    def write(self, data: bytes) -> int:
        self._screen.put(self, data)
        return len(data)

    def flush(self) -> None:
        """Everything is on its way already."""

    def write_now(self, data: bytes) -> int:
        """Returns the error, or 0. After one the stream is closed: a full disk must not end a run that has its logs."""
        if not self.open:
            return 0
        left = memoryview(data)
        try:
            while left:
                try:
                    # Unbuffered (PYTHONUNBUFFERED), a stream may take a part only; None is: nothing now.
                    taken = self._stream.write(left)
                    self._stream.flush()
                except BlockingIOError as error:
                    taken = error.characters_written
                left = left[taken or 0 :]
                if left and not taken:
                    select.select([], [self._stream], [])  # somebody made it non-blocking
        except (OSError, ValueError) as error:
            self.open = False
            return getattr(error, "errno", 0) or 0
        return 0
