"""Writes to standard output and error from a thread of its own, so that a slow reader holds up nothing else.

A pipe whose reader sleeps, or a terminal stopped by Ctrl-S, must not keep the launcher from seeing a failure or obeying
a signal. What is not read yet waits here, up to a limit; then the ranks' own pipes fill up, as if they wrote to the
screen themselves. On a terminal a run's status lines may stand below the lines: see `ddpkit.console.status_bar`.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import IO, TYPE_CHECKING

from ddpkit.console.progress import Standing

if TYPE_CHECKING:  # a run without a terminal has no status lines
    from ddpkit.console.status_bar import Bottom

LIMIT = 4 << 20  # bytes
TOGETHER = 1 << 16  # bytes that are written at once
PROMPT = 0.5  # seconds in which a terminal that is read takes the status lines away


class Screen:
    """Two streams. `broken` is called once, from the thread, when nobody reads any more (EPIPE)."""

    def __init__(
        self, out: IO[bytes], err: IO[bytes], broken: Callable[[], None], bottom: Bottom | None = None
    ) -> None:
        self.out = _Stream(self, 1, out)
        self.err = _Stream(self, 2, err)
        self._bottom = bottom
        self._broken = broken
        self._waiting: deque[tuple[_Stream, bytes]] = deque()
        self._size = 0
        self._hurried = False
        self._asked = self._answered = 0  # looks at the status lines that were asked for; that the thread has done
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, stream: _Stream, data: bytes) -> None:
        with self._changed:
            if stream.open and data:
                self._waiting.append((stream, data))
                self._size += len(data)
                self._changed.notify_all()

    @property
    def is_full(self) -> bool:
        """Whether too much waits to be read. Then the ranks are not to print more."""
        return self._size >= LIMIT and not self._hurried

    def hurry(self) -> None:
        """The run is being ended: its last words must not wait for a reader."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()

    @property
    def has_status(self) -> bool:
        """Whether there are status lines, or will be."""
        return self._bottom is not None

    def begin(self, source: Callable[[], Standing]) -> None:
        """Show the state of the run from now on. The screen's thread calls `source`."""
        self._hurried = False  # another attempt of a run is not being ended
        if self._bottom is not None:
            self._bottom.begin(source)
            self._look_at_status()

    def end(self) -> None:
        """Take the status lines away for good."""
        if self._bottom is not None:
            self._bottom.end()
            self._look_at_status()

    def suspend(self) -> None:
        """Ctrl-Z: the status lines go before the shell comes back. Where there is no shell, the kernel lets us run."""
        self._hold(True)
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        self._hold(False)

    def _hold(self, held: bool) -> None:
        if self._bottom is not None:
            self._bottom.hold(held)
            self._look_at_status()

    def _look_at_status(self) -> None:
        """Let the thread look at the status lines, and wait a moment until what must go is gone."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._look_is_due, PROMPT)

    def close(self, patience: float | None) -> None:
        """Wait until everything is written, at most so many seconds; None: as long as it takes."""
        with self._changed:
            self._changed.wait_for(lambda: self._size == 0 and not self._look_is_due, patience)

    def _run(self) -> None:
        """Write what waits, and draw the status lines, for ever: the thread of the screen."""
        while True:
            with self._changed:
                # Status lines change by themselves, and are not drawn again for every line of many.
                self._changed.wait_for(self._has_work, self._bottom.pause() if self._bottom else None)
                if self._waiting and self._bottom:
                    self._changed.wait_for(self._is_urgent, self._bottom.rest(time.monotonic()))
                stream, data = self._take_next()
                asked = self._asked
            error = self._write(stream, data)
            with self._changed:
                self._size -= len(data)
                if self._bottom is None or stream.number in self._bottom.numbers:
                    self._answered = asked  # a write to another place was no look
                self._changed.notify_all()
            if error == errno.EPIPE:
                self._broken()
            elif error in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and stream is self.out:
                text = f"ddpkit: cannot write to standard output: {os.strerror(error)}; the logs have all lines\n"
                self.put(self.err, text.encode())

    @property
    def _look_is_due(self) -> bool:
        return self._answered < self._asked

    def _has_work(self) -> bool:
        return bool(self._waiting) or self._look_is_due

    def _is_urgent(self) -> bool:
        return self._hurried or self._look_is_due or self._size >= TOGETHER

    def _take_next(self) -> tuple[_Stream, bytes]:
        """Take consecutive data of one stream; if none waits, return the stream of the status lines and no data."""
        if not self._waiting:
            return self.out if self._bottom is None or 1 in self._bottom.numbers else self.err, b""
        stream, data = self._waiting.popleft()
        pieces, size = [data], len(data)
        while self._waiting and self._waiting[0][0] is stream and size < TOGETHER:
            pieces.append(self._waiting.popleft()[1])
            size += len(pieces[-1])
        return stream, b"".join(pieces)

    def _write(self, stream: _Stream, data: bytes) -> int:
        """Write data to a stream, above the status lines if they stand there. Returns the error, or 0."""
        bottom = self._bottom
        if bottom is None or stream.number not in bottom.numbers:
            return stream.write_now(data)
        above, below = bottom.around(data, time.monotonic())
        error = stream.write_now(above) or stream.write_now(below)
        if not stream.open:
            self._bottom = None  # the terminal is gone
        return error


class _Stream:
    """One of the two streams, for `Relay`."""

    def __init__(self, screen: Screen, number: int, stream: IO[bytes]) -> None:
        self.open = True
        self.number = number  # 1: standard output, 2: standard error
        self._screen = screen
        # Past Python's own buffer: it writes again what a non-blocking place took already, and while a write hangs in
        # it, Python can end only by abort().
        stream.flush()
        self._stream: IO[bytes] = getattr(stream, "raw", stream)

    def write(self, data: bytes) -> int:
        self._screen.put(self, data)
        return len(data)

    def flush(self) -> None:
        """Everything is on its way already."""

    def write_now(self, data: bytes) -> int:
        """Write data. Returns the error, or 0. An error closes the stream; a full disk does not end the run."""
        if not self.open or not data:
            return 0
        left = memoryview(data)
        try:
            while left:
                try:
                    # A stream may take only a part of it; None: nothing now.
                    taken = self._stream.write(left)
                    self._stream.flush()
                except BlockingIOError as error:
                    taken = error.characters_written
                left = left[taken or 0 :]
                if left and not taken:
                    poll = select.poll()  # somebody made it non-blocking
                    poll.register(self._stream, select.POLLOUT)
                    poll.poll()
        except (OSError, ValueError) as error:
            self.open = False
            return getattr(error, "errno", 0) or 0
        return 0
