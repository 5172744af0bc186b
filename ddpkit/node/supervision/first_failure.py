"""Which of the ranks that ended failed first, and which only failed because of it. Pure.

When a rank dies, the others lose their connections to it, or wait for it in vain, and fail as well: some of them end
before it, because a process closes its sockets before it ends. Their last lines say so. A part of `supervisor.py`, and
of the launcher.
"""

from __future__ import annotations

import re
import signal
from enum import Enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

# Seconds in which a rank that ended by a cause of its own is looked for, after one that lost its connection to another.
WINDOW = 5.0
TEARDOWN = 60.0  # seconds at most from an exception's traceback to the end of its process
KEPT = 1 << 14  # bytes of a rank's last output
LINES = 20  # last lines of a rank without a traceback
HEAD = "Traceback (most recent call last)"
# Texts that follow from the end of another rank, as gloo, TCPStore and NCCL write them.
PEER_ENDED = (
    "closed by peer",
    "closed by remote peer",
    "reset by peer",
    "got 0 bytes",
    "remote process exited",
    "Broken pipe",
)
# Texts after a wait for other ranks, as gloo, NCCL, TCPStore and a monitored barrier write them.
TIMED_OUT = (
    "Timed out waiting",
    "Application timeout caused pair closure",
    "Watchdog caught collective operation timeout",
    "wait timeout after",
    "Timed out after",
    "failed to pass monitoredBarrier",
)
_CHAINED = ("direct cause of the following exception", "another exception occurred")
_OF_RANK = re.compile(r"^\[rank\d{1,9}\]: ?", re.MULTILINE)  # torch's own excepthook writes it
_RAISED = re.compile(r"^([A-Za-z_][\w.]{0,200})(?::|$)", re.MULTILINE)


class Kind(Enum):
    """Why a rank ended, by its status and its last lines."""

    OWN = "own"  # a cause of its own
    PEER = "peer"  # another rank had closed its connection
    WAITED = "waited"  # its wait for other ranks took too long
    TERMINATED = "terminated"  # SIGTERM, under a program that sends it to all ranks when one failed


_ORDER = {Kind.OWN: 0, Kind.WAITED: 1, Kind.PEER: 2, Kind.TERMINATED: 2}


class End:
    """A rank that failed. `when`: seconds since the epoch, of its exception where that is known, else of its end.

    of_node: its node or its supervisor ended. No rank does that, and other ranks see it before anybody reports it.
    """

    def __init__(self, rank: int | None, when: float, kind: Kind, *, of_node: bool = False) -> None:
        self.rank = rank
        self.when = when
        self.kind = kind
        self.of_node = of_node


def first_failure(ends: Sequence[End]) -> End:
    """Return the end that the others follow from. What came later than WINDOW seconds does not count."""
    earliest = min(end.when for end in ends)
    within = [end for end in ends if end.when <= earliest + WINDOW]
    return min(within, key=lambda end: (not end.of_node, _ORDER[end.kind], end.when))


class LastWords:
    """The last output of one rank. It is a rank's own text: it tells causes from consequences, and nothing else."""

    def __init__(self) -> None:
        self.raised_at: float | None = None  # of the last traceback
        self._text = ""

    def take(self, text: str, now: float) -> None:
        """Keep whole lines of either output."""
        if HEAD in text:
            self.raised_at = now
        self._text = (self._text + text)[-KEPT:]

    @property
    def exception(self) -> str:
        """The name of the exception in the last traceback; empty without one, or where it is not whole."""
        _, head, last = self._text.rpartition(HEAD)
        text = _OF_RANK.sub("", last)
        raised = _RAISED.search(text, text.find("\n") + 1) if head else None
        return raised[1].rpartition(".")[2] if raised else ""

    @property
    def kind(self) -> Kind:
        """OWN, unless the last exception, or without one the last lines, are of a lost or awaited rank."""
        blocks = self._text.split(HEAD)  # the first one stands before any traceback
        first = len(blocks) - 1  # of the last exception and those that it is chained to
        while first > 1 and any(words in blocks[first - 1] for words in _CHAINED):
            first -= 1
        if len(blocks) > 1:
            text = "\n".join(line for block in blocks[first:] for line in _unindented(block))
        else:
            text = "\n".join(self._text.splitlines()[-LINES:])
        if any(words in text for words in TIMED_OUT):
            return Kind.WAITED
        return Kind.PEER if any(words in text for words in PEER_ENDED) else Kind.OWN

    def of_end(self, code: int | None, number: int | None, when: float, *, agent: bool) -> tuple[Kind, float, str]:
        """Return why the rank ended, since when, and its exception if that ended it.

        code, number: its exit code or signal. agent: torchrun or srun is above it, and ends ranks by SIGTERM.
        """
        recent = self.raised_at is not None and when - TEARDOWN <= self.raised_at <= when
        raised = self.exception if recent else ""
        since = self.raised_at if raised and self.raised_at is not None else when
        if number == signal.SIGTERM and agent:
            # It was on its way out, or it was ended for another one.
            own = raised and self.kind is Kind.OWN and since >= when - WINDOW
            return (Kind.OWN, since, raised) if own else (Kind.TERMINATED, when, "")
        if number == signal.SIGPIPE:
            return Kind.PEER, when, ""
        if number not in (None, signal.SIGABRT):
            return Kind.OWN, when, ""
        return self.kind, since, raised


def _unindented(block: str) -> list[str]:
    """The lines below the frames of a traceback, and what the exception prints after them."""
    return [line for line in _OF_RANK.sub("", block).splitlines() if not line.startswith("  ")]
