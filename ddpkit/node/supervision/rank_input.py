"""Standard input of one rank, or of srun: bytes from the launcher wait here until it reads. Part of `supervisor.py`.

The launcher sends no more than it has heard to be taken (`execution/rank_input.py`): few wait.
"""

from __future__ import annotations

import os

from ddpkit.node.supervision.event_loop import WRITE, EventLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


class RankInput:
    """The pipe to the rank that has the launcher's standard input; `rank` None: none has it."""

    def __init__(self, loop: EventLoop, send: Callable[..., None], rank: int | None, *, from_task: bool) -> None:
        """`from_task`: this process is the task of srun to which that gives the input."""
        self.rank, self._from_task = rank, from_task
        self._loop, self._send = loop, send
        self._fd = -1
        self._waiting = bytearray()
        self._ended = False  # nothing more comes

    def open(self, rank: int | None) -> int:
        """Return what a process reads as its standard input: the pipe for that rank, for others an empty one.

        `rank` None: srun, which gives it to the rank. Where something else starts ranks, none has it.
        """
        if self.rank is None or rank not in (None, self.rank):
            return os.open(os.devnull, os.O_RDWR)
        if self._from_task:
            return os.dup(0)
        read, self._fd = os.pipe()
        os.set_blocking(self._fd, False)
        return read

    def take(self, text: str) -> None:
        """Take bytes for the rank; empty: the end of its input."""
        self._waiting += text.encode("utf-8", "surrogateescape")
        self._ended = self._ended or not text
        self._write()

    def _write(self) -> None:
        """Give the rank what it reads now, and tell the launcher. After the last bytes its input ends."""
        if self._fd < 0:
            return
        try:
            while self._waiting:
                sent = os.write(self._fd, self._waiting)
                del self._waiting[:sent]
                self._send(e="took", rank=self.rank, size=sent)
        except BlockingIOError:
            self._loop.watch(self._fd, self._write, WRITE)
            return
        except OSError:  # the rank has closed its input, or has ended
            self._ended = True
        self._loop.unwatch(self._fd)
        if self._ended:
            os.close(self._fd)
            self._fd = -1
