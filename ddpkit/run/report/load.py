"""Reads everything that a run's folder holds for a report. What is missing, or cannot be understood, is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddpkit.run import logs, metrics, timeline
from ddpkit.run.record import Run
from ddpkit.run.replicas import Replica, replicas_of
from ddpkit.run.state import Origin
from ddpkit.run.timeline import LaunchFile, NodeCopy, TimelineFile

HEAD = 1 << 22  # bytes of the log with what is printed at the start
TAIL = 1 << 16  # bytes of the log that are looked at
LINES = 25  # of them that are shown
TEST = "test.json"  # where the output of `ddpkit test --json` is taken from


@dataclass(frozen=True, kw_only=True)
class Files:
    """Contents of a run's folder."""

    launch: LaunchFile | None = None
    timeline: TimelineFile | None = None
    copies: Mapping[str, Sequence[NodeCopy]] = field(default_factory=dict)  # of --stage, by host
    test: Mapping[str, Any] | None = None  # see `ddpkit.preflight.check.report`
    metrics: Path | None = None
    records: list[dict[str, Any]] = field(default_factory=list)  # of the metrics file
    saved: float | None = None  # seconds since the epoch of the run's newest checkpoint; None: not known
    head: tuple[str, ...] = ()  # the first lines of all ranks
    tail: tuple[str, ...] = ()  # the last lines of all ranks
    replicas: tuple[Replica, ...] = ()  # of a run of roles


def read(run: Run, *, metrics_file: Path | None = None) -> Files:
    """Look into the folder, and for the metrics of a run that lives, or that kept none, into its working folder."""
    folder = Path(run.folder)
    kept = metrics.in_folder(folder)
    # A record that others can change may name any directory of this user's.
    theirs = run.origin is Origin.OTHERS
    original = None if theirs else metrics.find(run.workdir, run.command, run.started, run.ended)
    path = metrics_file or kept or original
    beside = original.parent if original else folder if theirs else Path(run.workdir).expanduser()
    return Files(
        launch=timeline.read_launch(folder),
        timeline=timeline.read(folder),
        copies=timeline.read_copies(folder),
        test=timeline.read_object(folder / TEST),
        metrics=path,
        records=metrics.read(path, None if metrics_file else folder) if path else [],
        saved=metrics.newest(beside, metrics.CHECKPOINTS, run.started, run.ended),
        head=tuple(logs.read_begin(folder, HEAD).decode("utf-8", "replace").split("\n")),
        tail=_tail(run),
        replicas=replicas_of(run),
    )


def _tail(run: Run) -> tuple[str, ...]:
    """Return the last lines, of all replicas where there are several."""
    if run.replicas:
        last = logs.read_lines(run, logs.LineFilter(), number=LINES)
        return tuple(line.labelled.decode("utf-8", "surrogateescape") for line in last)
    lines = logs.read_end(Path(run.folder) / "all.log", TAIL).decode("utf-8", "surrogateescape").split("\n")
    return tuple(lines[-LINES - 1 :][:LINES])
