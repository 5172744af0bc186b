"""Limit: a time for the analysis of a log. A verdict must not keep its launcher busy, whatever the ranks print."""

from __future__ import annotations

import time
from collections.abc import Callable


def _never() -> bool:
    return False


class Limit:
    """A time of work. It counts the processor's time, so that a busy machine changes no answer."""

    def __init__(self, seconds: float, ended: Callable[[], bool] = _never) -> None:
        """`ended`: whether the answer is not wanted any more, for example after a signal."""
        self._ended = ended
        self._until = time.thread_time() + seconds
        self._over = False

    def is_over(self) -> bool:
        if not self._over:
            self._over = time.thread_time() > self._until or self._ended()
        return self._over

    def extend(self, seconds: float) -> None:
        """Allow so many more seconds, for the part that matters most."""
        self._until = time.thread_time() + seconds
        self._over = self._ended()
