"""Finds the file in which a run's script records what it measures, keeps it with the run, and reads it.

The convention is that of `train.py`: lines of JSON objects, each with a number `step`, in a file `metrics.jsonl` in the
working folder or at most two folders below it. Of several the one that the command names is the run's, else the newest.
The status lines and the report of a run must mean the same file: that is why this is one module.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ddpkit.files import LIMIT, check_way, create, read_bounded, read_head, write_atomically
from ddpkit.run.record import FILE

NAME = "metrics.jsonl"
KEPT = "metrics_kept.jsonl"  # the copy in a run's folder: a script may write a file NAME there itself
BEFORE = "metrics_before.json"  # in a run's folder: files that were there at its start
CHECKPOINTS = ("*.pt", "*.pth", "*.ckpt", "*.safetensors")  # beside the metrics, or in the working directory
SLACK = 2.0  # seconds by which a file system's clock may be behind ours
PATIENCE = 1.0  # seconds for the search
ENTRIES = 1000  # of one folder that are looked at
LARGEST = 64 << 20  # bytes of a file that is kept with the run, or read in one go


def find(workdir: str | Path, command: Sequence[str], since: float, until: float | None = None) -> Path | None:
    """Find the metrics file that was written since `since` (seconds since the epoch); None where none can be seen here.

    `until`: when the run ended; what was written later is another run's.
    """
    base = Path(workdir).expanduser()
    named = [path for path in _named(base, command) if _written(path, since, until)]
    if named:
        return max(named, key=_time)
    nearby = [path for path in _nearby(base) if _written(path, since, until) and not _is_copy(path)]
    return max(nearby, key=_time, default=None)


def find_chosen(
    setting: str, workdir: str | Path, command: Sequence[str], since: float, until: float | None = None
) -> Path | None:
    """Return the file that the setting `metrics` names, else the one that `find` finds."""
    return Path(workdir, setting).expanduser() if setting else find(workdir, command, since, until)


def _named(base: Path, command: Sequence[str]) -> Iterator[Path]:
    """Yield files that the command names: `--metrics out/m.jsonl`, `--checkpoint-dir=out` with the usual name."""
    words = [part for word in command for part in (word, word.partition("=")[2]) if part and not part.startswith("-")]
    folders = [base]
    for word in words:
        path = base / word
        if path.suffix != ".jsonl" and _is_dir(path):
            folders.append(path)
            yield path / NAME
    for word in words:
        if word.endswith(".jsonl"):
            yield from (folder / word for folder in folders)


def _nearby(base: Path) -> Iterator[Path]:
    """Yield places of the file. A folder of data, or a slow file system, is not searched to its end."""
    until = time.monotonic() + PATIENCE
    yield base / NAME
    for folder in _folders(base, until):
        yield folder / NAME
        yield from (inner / NAME for inner in _folders(folder, until))


def _is_copy(path: Path) -> bool:
    """Tell whether a metrics file is in the folder of a run, which keeps a copy."""
    return _time(path.with_name(FILE)) > 0


def _folders(base: Path, until: float) -> Iterator[Path]:
    try:
        with os.scandir(base) as entries:
            for entry in itertools.islice(entries, ENTRIES):
                if time.monotonic() > until:
                    return
                # train.py moves what an earlier run left to earlier_1, earlier_2, ...
                if not entry.name.startswith((".", "earlier_")) and entry.is_dir():
                    yield base / entry.name
    except OSError:
        return


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a word may be no path at all
        return False


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except (OSError, ValueError):
        return 0.0


def _written(path: Path, since: float, until: float | None) -> bool:
    when = _time(path)
    return when >= since - SLACK and (until is None or when <= until + SLACK)


def newest(folder: Path, patterns: Sequence[str], since: float = 0.0, until: float | None = None) -> float | None:
    """Return the time of the newest file of these patterns that was written since `since`, up to `until`."""
    names = (name for each in patterns for name in glob.glob(os.path.join(folder, each), recursive=True))  # noqa: PTH118, PTH207
    paths = (path for name in names if _written(path := Path(name), since, until))
    return max(filter(None, map(_time, paths)), default=None)


# ---- lines of this run


def remember(folder: Path, setting: str, workdir: str | Path, command: Sequence[str]) -> None:
    """Write size and time of each metrics file that is there at the start of a run. Without any, write nothing."""
    base = Path(workdir).expanduser()
    paths = [base / Path(setting).expanduser()] if setting else [*_named(base, command), *_nearby(base)]
    sizes = {os.path.realpath(path): now for path in paths if (now := _size_and_time(path)) and not _is_copy(path)}
    known = {name: now for name, now in sizes.items() if now[0]}
    if known:
        with suppress(OSError):
            write_atomically(folder / BEFORE, json.dumps(known))


def _size_and_time(path: Path) -> tuple[int, int] | None:
    try:
        now = path.stat()
    except (OSError, ValueError):
        return None
    return now.st_size, now.st_mtime_ns


def _own_bytes(path: Path, folder: Path) -> bytes:
    """Return the content of a metrics file without the lines of runs before that of `folder`. Raises OSError."""
    try:
        before = json.loads(read_bounded(folder / BEFORE, LIMIT)).get(os.path.realpath(path))
        size, when = (0, 0) if before is None else map(int, before)
    except (OSError, ValueError, TypeError, AttributeError):
        size, when = 0, 0
    if size and _size_and_time(path) == (size, when):
        return b""  # nothing was written since the start of the run
    # In the directory of a run lies no link; a script's own file may be one.
    return own_lines(_content(path, follow=path.parent != folder), size)


def _content(path: Path, *, follow: bool) -> bytes:
    """Return the bytes of a metrics file. Raises OSError, also where another user put a link on the way to it."""
    check_way(os.fspath(path))
    return read_head(path, LARGEST, follow=follow)


def own_lines(data: bytes, size: int) -> bytes:
    """Return the content of a metrics file without the first `size` bytes, which it had before the run.

    All of it where the steps continue after them: a run that was resumed, or one that wrote the file anew.
    """
    at = size if data[:size].endswith(b"\n") else data.find(b"\n", size) + 1  # after a torn line
    last_before = next(filter(None, map(_record, reversed(data[:at].split(b"\n")))), None)
    first_after = next(filter(None, map(_record, data[at:].split(b"\n"))), None)
    starts_over = last_before and first_after and first_after["step"] <= last_before["step"]
    return data[at:] if starts_over else data


def keep(path: Path, folder: Path) -> Path | None:
    """Copy a run's records of a metrics file into its folder, where no later run replaces them. None: not possible."""
    kept = folder / KEPT
    try:
        facts = path.stat()
        if facts.st_size > LARGEST:
            return None
        records = [line for line in _own_bytes(path, folder).splitlines(keepends=True) if _record(line) is not None]
        create(kept, b"".join(records), facts.st_mode & 0o644)
    except OSError:
        return None
    return kept


def in_folder(folder: Path) -> Path | None:
    """Return the metrics file in a run's folder: the script's own, else the copy that was kept. None: neither."""
    return next((path for path in (folder / NAME, folder / KEPT) if path.is_file()), None)


def read(path: Path, folder: Path | None = None) -> list[dict[str, Any]]:
    """Read all records of a file, but for a last line that is still being written; empty where it cannot be read.

    `folder`: of a run; only its lines are read.
    """
    try:
        data = _content(path, follow=True) if folder is None else _own_bytes(path, folder)
    except (OSError, ValueError):
        return []
    return [record for line in data.split(b"\n")[:-1] if (record := _record(line)) is not None]


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or isinstance(record.get("step"), bool):
        return None
    return record if isinstance(record.get("step"), (int, float)) else None
