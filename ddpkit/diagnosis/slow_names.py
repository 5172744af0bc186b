"""Slow look-ups of names at a start, from the times of torch's warnings about them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ddpkit.diagnosis.line_prefixes import split_prefix, visible_line

WARNING = "hostname of the client socket cannot be retrieved"
SLOW = 4.0  # seconds from one warning to the next
FEWEST = 3  # such pauses that show that the look-ups themselves are slow


def slow_look_ups(logs: Iterable[Sequence[str]]) -> tuple[int, dict[str, str]] | None:
    """Return the index of the last warning of the last log, and values of an entry; None if no look-up was slow."""
    result: tuple[int, dict[str, str]] | None = None
    for lines in logs:
        times = [
            (index, when)
            for index, line in enumerate(lines)
            if WARNING in line and (when := split_prefix(visible_line(line)).when) is not None
        ]
        pauses = [later - earlier for (_, earlier), (_, later) in pairwise(times)]
        slow = sorted(pause for pause in pauses if pause >= SLOW)
        if len(slow) >= FEWEST:
            result = times[-1][0], {"number": f"{slow[len(slow) // 2]:.0f}"}
    return result
