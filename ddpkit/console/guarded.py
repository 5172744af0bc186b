"""Standard output and error of a command: no text that is printed can control the terminal.

Every `print` goes through `ddpkit.text.printable`, so that a new one is safe. What draws on purpose (colours, a view
that is drawn again) writes to `unguarded(stream)`, and guards the texts that it got from outside: see `cli.look`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from ddpkit.text import printable


class GuardedStream:
    """Wraps a text stream. Everything but `write` is that of the stream itself."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        self.unguarded.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def unguarded(stream: Any) -> TextIO:
    """Return the stream itself, for a text that is drawn."""
    raw: TextIO = getattr(stream, "unguarded", stream)
    return raw


@contextmanager
def guarded_output() -> Iterator[None]:
    """Guard standard output and error while a command runs."""
    before = sys.stdout, sys.stderr
    guards: tuple[Any, Any] = GuardedStream(before[0]), GuardedStream(before[1])
    sys.stdout, sys.stderr = guards
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
