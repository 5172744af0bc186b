"""Searches for expressions of a site's files, in a process of its own whose time the kernel limits.

`re` keeps every thread of its process waiting, perhaps for years: `(a+)+$` in a line of 40 letters. An expression that
takes too long once is left out from then on, with one warning.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import NamedTuple

LIMIT = 2  # seconds of CPU time for one search, which usually takes a few milliseconds
LINES = 2000  # of one search
_PROGRAM = f"""
import json, re, signal, sys
for text in sys.stdin:
    pattern, lines = json.loads(text)
    signal.setitimer(signal.ITIMER_VIRTUAL, {LIMIT})
    found = next((f for f in enumerate(map(re.compile(pattern).search, lines)) if f[1]), None)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    print(json.dumps(found and [found[0], *found[1].span(), found[1].groupdict()]), flush=True)
"""


class Found(NamedTuple):
    """The first line that matches, by its number, and what matches there."""

    number: int
    start: int
    end: int
    groups: dict[str, str | None]


def find(pattern: str | re.Pattern[str], lines: Sequence[str], origin: str) -> Found | None:
    """Return the first match in these lines. `origin`: the site's file of the expression; empty: it is ddpkit's own."""
    compiled = re.compile(pattern)
    if origin:
        return _searcher.find(compiled.pattern, lines, origin)
    for number, line in enumerate(lines):
        match = compiled.search(line)
        if match:
            return Found(number, *match.span(), match.groupdict())
    return None


class _Searcher:
    """The process, which ends with this one: its input does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._left_out: set[tuple[str, str]] = set()

    def find(self, pattern: str, lines: Sequence[str], origin: str) -> Found | None:
        """Return the first match in these lines; None also for an expression that is left out."""
        with self._lock:
            for first in range(0, len(lines), LINES):
                if (pattern, origin) in self._left_out:
                    return None
                try:
                    found = self._ask([pattern, lines[first : first + LINES]])
                except (OSError, ValueError):
                    self._leave_out(pattern, origin)
                    return None
                if found:
                    return found._replace(number=first + found.number)
        return None

    def _ask(self, question: object) -> Found | None:
        """Start the process, if there is none, and ask it. Raises ValueError where it ended before it answered."""
        if self._process is None:
            words = [sys.executable, "-I", "-S", "-W", "ignore", "-c", _PROGRAM]
            pipe, none = subprocess.PIPE, subprocess.DEVNULL
            self._process = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=none, text=True, start_new_session=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(question)}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Found(*answer) if answer else None

    def _leave_out(self, pattern: str, origin: str) -> None:
        self._left_out.add((pattern, origin))
        what = f"{origin}: a search for {pattern!r} took more than {LIMIT} s: a repeat within a repeat may take years"
        import logging  # `explain` of a short log does without

        logging.getLogger(__name__).warning("ddpkit: rules of this site are left out: %s", what)
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


_searcher = _Searcher()
