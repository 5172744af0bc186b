"""Calls a handler for each file descriptor that is ready, and for each child process that ended.

A part of `supervisor.py`. `selectors` would do the same, and takes longer to import than all of this.
"""

from __future__ import annotations

import os
import select
import sys
from functools import partial

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


class Children:
    """`on_orphan` is set by the supervisor: a process that something else started, and that outlived it."""

    def __init__(self, loop: EventLoop) -> None:
        self.on_orphan: Callable[[int, int], None]
        self.living: dict[int, Callable[[int], None]] = {}  # process id: called with the wait status
        self._loop = loop
        self._pidfds: dict[int, int] = {}

    def add(self, pid: int, on_exit: Callable[[int], None]) -> None:
        self.living[pid] = on_exit
        if hasattr(os, "pidfd_open"):  # not in Python 3.8, nor on macOS
            try:
                # Ready descriptors come in the order in which they became so; `waitpid` goes by the order of starts.
                self._pidfds[pid] = os.pidfd_open(pid)
                self._loop.watch(self._pidfds[pid], partial(self._wait, pid))
            except OSError:  # Linux before 5.3
                pass

    def reap(self) -> None:
        """Collect children. One with a descriptor in the loop waits for its turn there."""
        try:
            if sys.platform == "linux":
                while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                    if ended.si_pid in self._pidfds:
                        return
                    self._wait(ended.si_pid)
            else:  # no descriptors there, and `waitid` only since Python 3.13
                while (collected := os.waitpid(-1, os.WNOHANG))[0]:
                    self._collected(*collected)
        except ChildProcessError:
            pass  # none is left

    def _wait(self, pid: int) -> None:
        collected, status = os.waitpid(pid, os.WNOHANG)
        if collected:
            self._collected(pid, status)

    def _collected(self, pid: int, status: int) -> None:
        if pid in self._pidfds:
            fd = self._pidfds.pop(pid)
            self._loop.unwatch(fd)
            os.close(fd)
        if pid in self.living:
            self.living.pop(pid)(status)
        else:
            self.on_orphan(pid, status)
