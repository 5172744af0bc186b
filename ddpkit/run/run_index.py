"""Index of this user's runs: a small file for each run in the state folder, and the lookup of a run by its id.

The index can always be lost: a run is also named by its folder.
"""

from __future__ import annotations

import difflib
import itertools
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ddpkit.errors import UsageError
from ddpkit.run.launcher_process import is_alive, is_local
from ddpkit.run.record import FILE, Run, load, parse

FEW = 5  # runs that an error lists


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


def find_project(directory: Path) -> Path:
    """Return the nearest directory at or above this one that has `ddpkit.toml` or `.git`; else this directory.

    The home directory counts only for itself: its `.git` often holds settings, and its subdirectories are projects.
    """
    return next((each for each in _above(directory.resolve()) if _is_marked(each)), directory.resolve())


def above(project: Path) -> Iterator[Path]:
    """Yield a project, and the directories above it if neither `ddpkit.toml` nor `.git` marks it.

    One in which every user can write, as in /tmp, is no project of what is below it.
    """
    for each in _above(project):
        if each == project or not each.stat().st_mode & 0o002:
            yield each
        if _is_marked(each):
            return


def _above(directory: Path) -> Iterator[Path]:
    home = os.path.realpath(os.environ.get("HOME") or "/")
    yield directory
    yield from itertools.takewhile(lambda each: str(each) not in ("/", home), directory.parents)


def _is_marked(directory: Path) -> bool:
    return any(os.access(directory / name, os.F_OK) for name in ("ddpkit.toml", ".git"))


def project_of(run: Run) -> Path:
    """Return the project of a run. Older records know only the working directory."""
    return Path(run.project) if run.project else find_project(Path(run.workdir).expanduser())


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Return for each id its last part, or all of it where the last part matches another run as well."""
    ends = {run_id: run_id.rpartition("-")[2] for run_id in ids}
    return {run_id: end if len(_matching(end, ids)) == 1 else run_id for run_id, end in ends.items()}


def _matching(word: str, ids: Iterable[str]) -> list[str]:
    """Return the ids that are `word`; else those of the name `word`; else those that begin or end with it."""
    every = list(ids)
    named = [run_id for run_id in every if name_in(run_id) == word]
    exact = [run_id for run_id in every if run_id == word]
    return exact or named or [run_id for run_id in every if run_id.startswith(word) or run_id.endswith(word)]


def name_in(run_id: str) -> str:
    """Return the name in an id: that of `--name`, else of the script."""
    return run_id[len("20260131-235959-") :].rpartition("-")[0]


def find_run(word: str, known: Sequence[IndexEntry], command: str = "ddpkit status {}") -> Run:
    """Find a run by its id, the beginning or end of that, its name, or its directory. Raises UsageError.

    `command`: what the user can type instead, with `{}` for the run.
    """
    folder = Path(word).expanduser()
    if (folder / FILE).exists():
        run = load(folder)
        if run is None:
            raise UsageError(f"{folder / FILE} is not the record of a run", f"less {folder / FILE}")
        return run
    known = [*known, *_of_other_hosts(known)]
    entries = {entry.run_id: entry for entry in known}
    matching = _matching(word, entries) if word else []
    matching = matching or [entry.run_id for entry in known if entry.run is not None and word == entry.run.job_id]
    if len(matching) == 1:
        entry = entries[matching[0]]
        if entry.run is None:
            raise UsageError(
                f"run {entry.run_id} is not visible from here: its directory {entry.folder} is on {entry.host}",
                f"on {entry.host}: {command.format(entry.run_id)}",
            )
        return entry.run
    if matching:
        raise several(
            f"{word!r} matches {len(matching)} runs", [entries[run_id] for run_id in matching], known, command
        )
    similar = [run_id for run_id in entries if word in run_id] or difflib.get_close_matches(word, entries, 3, 0.5)
    if similar and word:
        raise several(f"run {word!r} not found; similar runs", [entries[each] for each in similar], known, command)
    raise UsageError(f"run {word!r} not found", "ddpkit ps")


def _of_other_hosts(known: Sequence[IndexEntry]) -> Iterator[IndexEntry]:
    """Yield the runs in `logs/` of this project that the index does not have: another host started them."""
    readable = {entry.run_id for entry in known if entry.run is not None}
    try:
        paths = sorted((find_project(Path.cwd()) / "logs").iterdir())
    except OSError:
        return
    for path in paths:
        run = None if path.name in readable else load(path)
        if run is not None:
            run = replace(run, folder=str(path))  # the other host may have mounted it elsewhere
            yield IndexEntry(run_id=run.run_id, folder=str(path), host=run.launcher_host, run=run)


def several(what: str, entries: Sequence[IndexEntry], known: Sequence[IndexEntry], command: str) -> UsageError:
    """Return an error that lists each of these runs with the command for it."""
    short = short_ids([entry.run_id for entry in known])
    lines = []
    for entry in entries[:FEW]:
        words = command.format(short[entry.run_id])
        run = entry.run
        about = f"{shlex.join(run.command)[:40]}, {run.state}, {project_of(run)}" if run else f"on {entry.host}"
        lines.append(f"\n  {words}  # {about}")
    more = f"\n  and {len(entries) - FEW} more" if len(entries) > FEW else ""
    return UsageError(f"{what}:{''.join(lines)}{more}", "ddpkit ps")
