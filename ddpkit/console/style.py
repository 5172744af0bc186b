"""Decides between colour and plain output, and describes a panel. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


def is_rich(environ: Mapping[str, str], *, terminal: bool) -> bool:
    """Return whether an output has colour, signs and frames. Elsewhere it is plain: one line a fact, never wrapped.

    NO_COLOR makes a terminal plain, and so does TERM=dumb. FORCE_COLOR gives a pipe what a terminal has.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") != "0":
        return True
    return terminal and environ.get("TERM", "dumb") not in ("dumb", "unknown")


class Panel(NamedTuple):
    """A result in a frame: a state, a headline, labelled facts, and last lines of a log."""

    state: str  # a key of `ddpkit.cli.look.SIGNS`
    headline: str
    facts: Sequence[tuple[str, str]]
    lines_of: str = ""  # whose the lines are
    lines: Sequence[str] = ()
