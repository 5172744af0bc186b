"""The rank for which the others wait, as far as a run's directory shows: it was watched, or steps were observed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ddpkit.files import write_atomically
from ddpkit.launchers.typed_json import Count, Seconds
from ddpkit.run import record, timeline
from ddpkit.run.run_files import read_private
from ddpkit.text import format_age, one_line

FILE = "slow.json"
MOST_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class SlowRank:
    """What the last look at the ranks found; without ranks none was slow."""

    at: Seconds  # seconds since the epoch
    ranks: tuple[Count, ...] = ()
    words: str = ""
    past: str = ""  # that a step takes longer than in earlier runs, in words


def keep(folder: Path, found: SlowRank) -> None:
    """Keep what a look found, in place of the one before. A disk that refuses it loses it."""
    with suppress(OSError):
        write_atomically(folder / FILE, json.dumps(asdict(found)) + "\n")


def read(folder: Path) -> SlowRank | None:
    """Return what the last look found; None: there was none, or its file is damaged."""
    with suppress(OSError, record.RecordError):
        found = record.read(SlowRank, read_private(folder, FILE, MOST_BYTES)[0], folder / FILE)
        return replace(found, words=one_line(found.words), past=one_line(found.past))
    return None


def keep_past(folder: Path, words: str, now: float) -> None:
    """Keep that steps took longer than in earlier runs, beside what the last look found."""
    keep(folder, replace(read(folder) or SlowRank(at=now), past=words))


def known(folder: Path, now: float) -> tuple[Sequence[int], str] | None:
    """Return the ranks that are slow as far as is known, with a sentence; None: nothing says so."""
    watched = read(folder)
    if watched is not None:
        return (watched.ranks, f"{watched.words} ({format_age(now - watched.at)} ago)") if watched.ranks else None
    from ddpkit.run.report.steps import read_steps  # a launch loads this file, and most observe no steps

    slowest = read_steps(timeline.read(folder), "").slowest
    if slowest is None or not slowest.stands_out:
        return None
    lost = 1000 * (slowest.seconds - slowest.usual)
    words = f"rank {slowest.rank} on {slowest.host} is slow: each step loses {lost:.0f} ms by its own work"
    return (slowest.rank,), one_line(words)
