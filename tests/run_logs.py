"""The lines of all ranks of a run, as `ddpkit logs` prints them."""

from __future__ import annotations

from pathlib import Path

from ddpkit.run.logs import OrderedLog


def all_lines(folder: Path) -> str:
    return b"".join(OrderedLog(folder).blocks()).decode("utf-8", "surrogateescape")
