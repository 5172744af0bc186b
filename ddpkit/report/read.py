"""Reads everything that a run's folder holds for a report. What is missing, or cannot be understood, is None."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddpkit import metrics, timeline
from ddpkit.runs import Run

TAIL = 1 << 16  # bytes of the log that are looked at
LINES = 25  # of them that are shown
TEST = "test.json"  # where the output of `ddpkit test --json` is taken from


@dataclass(frozen=True, kw_only=True)
class Files:
    """What was found."""

    launch: Mapping[str, Any] | None = None  # see `ddpkit.timeline`
    timeline: Mapping[str, Any] | None = None
    test: Mapping[str, Any] | None = None  # see `ddpkit.checks.report`
    metrics: Path | None = None
    records: list[dict[str, Any]] = field(default_factory=list)  # of the metrics file
    tail: tuple[str, ...] = ()  # the last lines of all ranks


def read(run: Run, *, metrics_file: Path | None = None) -> Files:
    """Look into the folder, and for the metrics of a run that lives, or that kept none, into its working folder."""
    folder = Path(run.folder)
    kept = folder / metrics.NAME
    found = metrics_file or (kept if kept.is_file() else None)
    found = found or metrics.find(run.workdir, run.command, run.started, run.ended)
    return Files(
        launch=_object(folder / timeline.LAUNCH),
        timeline=timeline.read(folder),
        test=_object(folder / TEST),
        metrics=found,
        records=metrics.read(found) if found else [],
        tail=_tail(folder / "all.log"),
    )


def _object(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _tail(path: Path) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            data = file.read()
    except OSError:
        return ()
    return tuple(data.decode("utf-8", "surrogateescape").split("\n")[-LINES - 1 :][:LINES] if data else ())
