"""Replaces a record of a living run now and then, from a thread: neither a disk nor the encoding holds up the loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ddpkit.files import write_atomically

SHARE = 0.005  # of a CPU that the writes of one record take at most
BYTES = 140_000  # a second at most, on the average: half a GB an hour
LAST = 10.0  # seconds that the end of a run waits for a disk


class GrowingRecord:
    """One file, which a run of thousands of ranks replaces more rarely than a small one."""

    def __init__(self, path: Path, pieces: Callable[[], Iterable[str]], every: float) -> None:
        """`pieces` yields the text, from a thread. `every`: least seconds between two writes."""
        self._path, self._pieces, self._every = path, pieces, every
        self._thread: threading.Thread | None = None
        self._due = 0.0  # time.monotonic()

    def turn(self) -> None:
        """Begin to write, if it is time."""
        if time.monotonic() < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = time.monotonic() + self._every
        self._thread = threading.Thread(target=self._write, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be had
            self._thread = None
            self._write()

    def write(self) -> None:
        """Write the last state. A disk that does not answer is not waited for."""
        if self._thread is not None:
            self._thread.join(LAST)
            if self._thread.is_alive():
                return
        self._write()

    def _write(self) -> None:
        """Replace the file at once. A full disk must not end a run: then the last state stays."""
        began = time.thread_time()
        text = "".join(self._pieces()).encode()
        try:
            write_atomically(self._path, text)
        except OSError:
            pass
        pause = max(self._every, (time.thread_time() - began) / SHARE, len(text) / BYTES)
        self._due = time.monotonic() + pause
