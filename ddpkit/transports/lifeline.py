"""Streams whose end tells a supervisor that its launcher is gone. Forked children of the program do not hold them.

Children that the program executes lose them by close-on-exec. A child that was forked without exec, as by
`multiprocessing`, would keep ranks alive after the death of the program.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Stream(Protocol):
    """An open file, pipe or socket. A closed one raises ValueError or returns -1."""

    def fileno(self) -> int: ...


_streams: WeakSet[Stream] = WeakSet()


def hold(stream: Stream) -> None:
    """Keep a stream out of forked children, as long as it is open."""
    _streams.add(stream)


def _replace_in_child() -> None:
    """Put /dev/null in the place of each stream. Its number stays in use: the child will close it."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in list(_streams):
        try:
            if (number := stream.fileno()) >= 0:
                os.dup2(null, number, inheritable=False)
        except (OSError, ValueError):
            continue
    os.close(null)


os.register_at_fork(after_in_child=_replace_in_child)
