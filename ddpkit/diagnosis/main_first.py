"""Waits of other ranks for the main process, which works first, from the frames of a traceback. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddpkit.diagnosis.line_prefixes import split_prefix, visible_line
from ddpkit.diagnosis.tracebacks import HEADER

FRAME_LINES = 60  # lines above an exception that can be its frames
# transformers' and accelerate's blocks that let the main process work first, while the others wait in a barrier.
_WAITS = re.compile(r", in (?P<frame>(?:local_)?main_process_first)$")
_ENTERS = re.compile(r"\bwith .*\b(?P<frame>(?:local_)?main_process_first)\(")
_ENTERED = re.compile(r"contextlib\.py\", line \d+, in __enter__$")


def wait_above(lines: Sequence[str], number: int) -> dict[str, str] | None:
    """Return the block in which a rank waited, as values of an entry, where the frames above its exception show it."""
    for line in reversed(lines[max(0, number - 1 - FRAME_LINES) : number - 1]):
        match = _WAITS.search(line.rstrip())
        if match:
            return _values(match)
        if HEADER in line:
            return None
    return None


def wait_in_cut(lines: Sequence[str]) -> tuple[int, dict[str, str]] | None:
    """Return the same, with the index of its line, for a traceback whose exception is not in the log."""
    for index in range(1, len(lines)):
        entered = _ENTERED.search(lines[index].rstrip())
        match = _ENTERS.search(split_prefix(visible_line(lines[index - 1])).text) if entered else None
        if match:
            return index - 1, _values(match)
    return None


def _values(match: re.Match[str]) -> dict[str, str]:
    """Return values of an entry. The main process of all is rank 0; each node has a local one."""
    return {"frame": match["frame"], **({} if match["frame"].startswith("local") else {"busy": "0"})}
