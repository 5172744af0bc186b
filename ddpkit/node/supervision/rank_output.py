"""Standard output and standard error of the ranks: bytes from their pipes, whole lines to the launcher.

A part of `supervisor.py`.
"""

from __future__ import annotations

import os
import time
from functools import partial

from ddpkit.node.supervision.event_loop import EventLoop
from ddpkit.node.supervision.first_failure import KEPT, LastWords

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


CHUNK = 1 << 16
LINE_LIMIT = 1 << 20  # a line without an end is passed on in pieces of this size
PIECE = 20000  # bytes of output in one event: at 6 characters a byte, a line that pdsh does not cut off (2.34: 131072)
DRAIN_LIMIT = 1 << 24  # bytes that are read at once of a rank that ended
# Lines that come one by one are read together: each read costs an event, and several system calls behind it.
BUSY = 0.010  # seconds between two reads of a busy pipe
LEAST, MOST = 0.003, 0.080  # seconds between those that follow: a pipe holds 64 KB, and a full one stops its rank
FLOOD = CHUNK // 2  # bytes of a read after which the next one comes at once
PROMPT = 0.1  # seconds after which a line without an end is a prompt, of the rank that has standard input


class Stream:
    """One output pipe of one rank: bytes in, whole lines out."""

    def __init__(self, fd: int, number: int, rank: int | None) -> None:
        self.fd = fd
        self.number = number  # 1: standard output, 2: standard error
        self.rank = rank
        self.held = b""
        self.closed = False
        self.read_at = float("-inf")  # time.monotonic() of the last read

    def take(self, data: bytes) -> bytes:
        """The part of the input so far that ends a line. A carriage return (a progress bar) ends one as well."""
        held = self.held + data
        # A carriage return at the very end may be the first half of a Windows line end.
        cut = max(held.rfind(b"\n"), held.rfind(b"\r", 0, len(held) - 1)) + 1
        if cut == 0 and len(held) >= LINE_LIMIT:
            cut = len(held)
        self.held = held[cut:]
        return held[:cut]


class RankOutput:
    """All output pipes of one node."""

    def __init__(self, loop: EventLoop, send: Callable[..., None], asker: int | None = None) -> None:
        """`asker`: the rank that has standard input."""
        self._asker, self._prompt_at = asker, float("inf")
        self.last_line: dict[int, float] = {}  # rank: time.time() of its last line
        self.words: dict[int, LastWords] = {}
        self._loop = loop
        self._send = send
        self._streams: list[Stream] = []
        self._busy: list[Stream] = []  # those that are not watched, and read together
        self._busy_at, self._interval = 0.0, MOST  # time.monotonic() of that reading, and seconds to the next one
        self._paused = False
        self._by_local_rank: dict[int, list[Stream]] = {}  # of ranks that torchrun or the fork server starts

    def add(self, fd: int, number: int, rank: int | None, local_rank: int | None = None) -> None:
        """Read this pipe from now on. `rank` is None for the program that starts ranks."""
        stream = Stream(fd, number, rank)
        self._streams.append(stream)
        if local_rank is not None:
            self._by_local_rank.setdefault(local_rank, []).append(stream)
        self._watch(stream)

    def assign(self, local_rank: int, rank: int) -> None:
        """Tell whose the pipes of a local rank are: torchrun may number its ranks anew."""
        for stream in self._by_local_rank.get(local_rank, []):
            stream.rank = rank

    def _watch(self, stream: Stream) -> None:
        self._loop.watch(stream.fd, partial(self._on_ready, stream))

    def _on_ready(self, stream: Stream) -> None:
        """Read a pipe. One that was read a moment ago, and had little, is not watched for a while."""
        self.read_busy(early=True)  # so that lines of different pipes come in the order of their writing
        last, stream.read_at = stream.read_at, time.monotonic()
        if 0 < self._read(stream) < FLOOD and stream.read_at - last < BUSY:
            if not self._busy:  # it may be one line with its end, or two of a rank that is quiet else
                self._interval = LEAST
                self._busy_at = stream.read_at + LEAST
            self._busy.append(stream)
            self._loop.unwatch(stream.fd)

    def pause_busy(self) -> float:
        """Seconds until `read_busy` has something to do."""
        busy_at = self._busy_at if self._busy and not self._paused else float("inf")
        return min(busy_at, self._prompt_at) - time.monotonic()

    def read_busy(self, *, early: bool = False) -> None:
        """Read the busy pipes together, when it is time. One that has nothing, or very much, is watched again."""
        if time.monotonic() >= self._prompt_at:
            self._show_prompts()
        if not self._busy or self._paused or (time.monotonic() < self._busy_at and not early):
            return
        busy, self._busy = self._busy, []
        most = 0
        for stream in busy:
            size = self._read(stream)
            most = max(most, size)
            if 0 < size < FLOOD:
                self._busy.append(stream)
            elif not (stream.closed or self._paused):  # the read may have closed it, and the sending paused all
                self._watch(stream)
        self._interval = LEAST if most >= FLOOD // 2 else min(MOST, 2 * self._interval)
        self._busy_at = time.monotonic() + self._interval

    def pause(self, paused: bool) -> None:
        self._busy, self._paused = [], paused
        for stream in self._streams:
            if paused:
                self._loop.unwatch(stream.fd)
            else:
                self._watch(stream)

    def _read(self, stream: Stream) -> int:
        """Read once. Returns the number of bytes; 0: there is nothing more to read now."""
        if stream.closed:
            return 0  # ended a moment ago, in the same turn of the loop
        try:
            data = os.read(stream.fd, CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self._finish(stream)
            self._loop.unwatch(stream.fd)
            os.close(stream.fd)
            stream.closed = True
            self._streams.remove(stream)
            return 0
        self._pass_on(stream, stream.take(data))
        if self._asker is not None and stream.rank == self._asker:
            self._prompt_at = time.monotonic() + PROMPT
        return len(data)

    def _show_prompts(self) -> None:
        """Pass on lines without an end of the rank that has standard input: it may wait for an answer."""
        self._prompt_at = float("inf")
        for stream in self._streams:
            if stream.rank == self._asker and 0 < len(stream.held) < PIECE and not stream.held.endswith(b"\r"):
                held, stream.held = stream.held, b""
                self._pass_on(stream, held, prompt=True)

    def _pass_on(self, stream: Stream, data: bytes, **more: bool) -> None:
        if data:
            if stream.rank is not None:
                self.last_line[stream.rank] = now = time.time()
                self.words.setdefault(stream.rank, LastWords()).take(data[-KEPT:].decode("utf-8", "replace"), now)
            for start in range(0, len(data), PIECE):
                text = data[start : start + PIECE].decode("utf-8", "surrogateescape")
                rest = {"more": True} if start + PIECE < len(data) else more
                self._send(e="out", rank=stream.rank, fd=stream.number, data=text, **rest)

    def _finish(self, stream: Stream) -> None:
        """Pass on a last line that has no end."""
        held, stream.held = stream.held, b""
        self._pass_on(stream, held)

    def _drain(self, streams: list[Stream]) -> None:
        """Read what was written until now. What children of an ended rank write later still comes."""
        for stream in streams:
            budget = DRAIN_LIMIT
            while budget > 0 and self._read(stream):
                budget -= CHUNK
        for stream in streams:  # last: what follows a line without an end would look like its end
            self._finish(stream)

    def drain(self, rank: int | None) -> None:
        """Read what a rank, or (None) the program that starts ranks, has written."""
        self._drain([stream for stream in self._streams if stream.rank == rank])

    def drain_local(self, local_rank: int) -> None:
        self._drain(list(self._by_local_rank.get(local_rank, [])))

    def close(self) -> None:
        """Read what is left, and read no more."""
        self._drain(list(self._streams))
        for stream in self._streams:
            self._loop.unwatch(stream.fd)
