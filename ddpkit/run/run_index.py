"""Index of this user's runs: a small file for each run in the state folder, and the lookup of a run by its id.

The index can always be lost: a run is also named by its folder.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ddpkit.errors import UsageError
from ddpkit.run.launcher_process import is_alive, is_local
from ddpkit.run.record import FILE, Run, load, parse


def index_folder() -> Path:
    """Return the folder with one small file for each run of this user."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # The specification of these folders: a relative path is to be ignored.
    return (Path(state) if state.startswith("/") else Path("~/.local/state").expanduser()) / "ddpkit/runs"


def add_run(run: Run) -> str | None:
    """Write the file of a run. Returns the error as text, else None: the run itself does not depend on it."""
    try:
        index_folder().mkdir(parents=True, exist_ok=True)
        # With the record as it begins: a run whose folder somebody removes lives on, and has to be ended all the same.
        entry = {"folder": run.folder, "host": run.launcher_host, "run": asdict(run)}
        (index_folder() / run.run_id).write_text(json.dumps(entry) + "\n")
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows where this user's home is
        return getattr(error, "strerror", None) or str(error)
    return None


@dataclass(frozen=True, kw_only=True)
class IndexEntry:
    """One run of the index; `run` is None where this host cannot read its folder."""

    run_id: str
    folder: str
    host: str
    run: Run | None


def list_runs() -> list[IndexEntry]:
    """List the runs of this user, the newest first. A file whose run has no folder any more is removed."""
    return sorted(
        _read_entries(), key=lambda entry: (entry.run.started if entry.run else 0.0, entry.run_id), reverse=True
    )


def _read_entries() -> Iterator[IndexEntry]:
    try:
        paths = list(index_folder().iterdir())
    except (OSError, RuntimeError):
        return
    for path in paths:
        try:
            data = json.loads(path.read_text())
            folder, host = Path(data["folder"]), str(data["host"])
        except (OSError, ValueError, TypeError, KeyError):
            continue
        run = load(folder) or _without_folder(data.get("run"), folder)
        if run is not None or host != os.uname().nodename:
            # A home may be shared by hosts that do not share the folder: only its own host can say that it is gone.
            yield IndexEntry(run_id=path.name, folder=str(folder), host=host, run=run)
        elif not (folder / FILE).exists():
            path.unlink(missing_ok=True)


def _without_folder(data: Any, folder: Path) -> Run | None:
    """Return a run whose folder is gone, as long as its launcher lives."""
    run = None if folder.exists() else parse(data)
    return run if run is not None and run.job is None and is_local(run) and is_alive(run) else None


def find_run(word: str, known: Sequence[IndexEntry]) -> Run:
    """Find a run by its id, the beginning or the end of that, or its folder. Raises UsageError."""
    folder = Path(word).expanduser()
    if (folder / FILE).exists():
        run = load(folder)
        if run is None:
            raise UsageError(f"{folder / FILE} is no record of a run", f"less {folder / FILE}")
        return run
    exact = [entry for entry in known if entry.run_id == word]
    matching = exact or [entry for entry in known if entry.run_id.startswith(word) or entry.run_id.endswith(word)]
    if len(matching) == 1:
        entry = matching[0]
        if entry.run is None:
            raise UsageError(
                f"run {entry.run_id} is in {entry.folder} on {entry.host}, which cannot be seen from here",
                f"on {entry.host}: ddpkit status {entry.run_id}",
            )
        return entry.run
    ids = [entry.run_id for entry in known]
    if matching:
        few = _few([entry.run_id for entry in matching])
        raise UsageError(f"{word!r} names {len(matching)} runs: {few}", "say more of it")
    similar = [run_id for run_id in ids if word in run_id] or difflib.get_close_matches(word, ids, n=3, cutoff=0.5)
    hint = f"near it: {_few(similar)}" if similar else "ddpkit ps lists the runs"
    raise UsageError(f"there is no run {word!r}", hint)


def _few(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
