"""Calls a handler for each file descriptor that is ready. A part of `supervisor.py`.

Standard library only, Python 3.8 and later. `selectors` would do the same, and takes longer to import than all of this.
"""

from __future__ import annotations

import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself is slow to import, and this starts with every run
    from typing import Any, Callable

READ = select.POLLIN
WRITE = select.POLLOUT


class EventLoop:
    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[], object]] = {}
        self._poll: Any
        if sys.platform == "linux":
            self._poll = select.epoll()  # what became ready first comes first; `poll` goes by the order of registration
        else:
            self._poll = select.poll()

    def watch(self, fd: int, handler: Callable[[], object], events: int = READ) -> None:
        if fd not in self._handlers:
            self._handlers[fd] = handler
            self._poll.register(fd, events)

    def unwatch(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def turn(self, timeout: float) -> None:
        """Wait at most `timeout` seconds, and call the handlers of what is ready."""
        for handler in [self._handlers[fd] for fd in self._ready(timeout)]:
            handler()

    def is_ready(self, fd: int, timeout: float) -> bool:
        """Wait until any descriptor is ready, and call no handler. True: this one is."""
        return fd in self._ready(timeout)

    def _ready(self, timeout: float) -> list[int]:
        timeout = max(0.0, timeout) + 0.001  # not a moment before it is due
        return [fd for fd, _ in self._poll.poll(timeout if sys.platform == "linux" else 1000 * timeout)]
