"""Index of this user's runs: a small file for each run in the state folder, and the lookup of a run by its id.

The index can always be lost: a run is also named by its folder. The files are private: what a command does to a run, it
takes from them, and from the run's folder only what is shown.
"""

from __future__ import annotations

import difflib
import itertools
import json
import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ddpkit.diagnosis.outcome import Failure
from ddpkit.errors import UsageError
from ddpkit.files import adopt_directory, is_owned, make_directories, read_bounded, remove_files, write_atomically
from ddpkit.launchers import typed_json
from ddpkit.launchers.typed_json import FilePath, HostWord
from ddpkit.run import record
from ddpkit.run.launcher_process import is_alive, is_local, place_problem
from ddpkit.run.record import FILE, ExitCode, RecordError, Run, load, read_record
from ddpkit.run.run_files import is_own, is_planted, is_private, is_replaceable, marker_of, owner_of, read_private
from ddpkit.run.state import EndState, Origin
from ddpkit.text import one_line

KIND = "index"  # of the folder, for `ddpkit/node/owned.py`
FEW = 5  # runs that an error lists
LEAST = 4  # characters of an id by which a command acts on a run
# Facts by which a command reaches a run: those of the index count, whatever the run's folder says.
_IDENTITY = (
    *("run_id", "backend", "job_id", "session", "hold", "in_program"),
    *("launcher_pid", "launcher_started", "launcher_host", "launcher_boot", "launcher_python"),
)


def index_folder() -> Path:
    """Return the folder with one small file for each run of this user."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # The specification of these folders: a relative path is to be ignored.
    return (Path(state) if state.startswith("/") else Path("~/.local/state").expanduser()) / "ddpkit/runs"


@dataclass(frozen=True, kw_only=True)
class KnownEnd:
    """An end that the record lacks: of a job that nobody followed, or of a run whose disk was full."""

    state: EndState
    exit_code: ExitCode | None
    verdict: str | None
    failure: Failure | None


@dataclass(frozen=True, kw_only=True)
class IndexFile:
    """Content of one file of the index. `run`: the record as it began; `marker`: as in `Run`."""

    folder: FilePath
    host: HostWord
    run: Run | None = None
    end: KnownEnd | None = None
    marker: tuple[int, int] | None = None

    def save(self, run_id: str) -> None:
        """Replace the file. Raises OSError."""
        data = {**asdict(self), "run": self.run and self.run.as_data()}
        write_atomically(index_folder() / run_id, json.dumps(data) + "\n", 0o600)


def add_run(run: Run) -> str | None:
    """Write the file of a run. Returns the error as text, else None: the run itself does not depend on it."""
    try:
        _make_index()
        # With the record as it begins: a run whose folder somebody removes lives on, and has to be ended all the same.
        marker = marker_of(Path(run.folder))
        IndexFile(folder=run.folder, host=run.launcher_host, run=run, marker=marker).save(run.run_id)
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows where this user's home is
        return getattr(error, "strerror", None) or str(error)
    return None


def _make_index() -> None:
    """Make the folder, for this user alone. Raises OSError for one of another user."""
    folder = index_folder()
    make_directories(folder, 0o700)  # those above it, too, whatever the umask: who can write there can replace it
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise PermissionError(1, "belongs to another user", os.fspath(folder))
    if stat.S_IMODE(status.st_mode) != 0o700:
        folder.chmod(0o700)


def forget(run_id: str) -> None:
    """Remove the file of a run whose directory was removed. Errors are ignored."""
    with suppress(OSError, RuntimeError):
        if not is_owned(os.fspath(index_folder()), KIND):
            adopt_directory(os.fspath(index_folder()), KIND)
        remove_files(os.fspath(index_folder()), KIND, lambda name: name == run_id)


def keep_end(run: Run, end: KnownEnd) -> None:
    """Keep how a run of the index ended. Errors are ignored: a scheduler can be asked again."""
    with suppress(OSError, RuntimeError, RecordError):
        replace(_read_file(index_folder() / run.run_id)[0], end=end).save(run.run_id)


@dataclass(frozen=True, kw_only=True)
class IndexEntry:
    """One run of the index; `run` is None where it cannot be read here, and `problem` says why."""

    run_id: str
    folder: str
    host: str
    run: Run | None
    problem: str = ""
    unread: bool = False  # nobody asked for it, see `list_runs`
    missing: bool = False  # its directory was not found
    removed: bool = False  # the same, and the directory of logs, in which it was, is there

    @property
    def can_be_forgotten(self) -> bool:
        """Whether nothing is left of the run but its file in the index, as far as this host can see."""
        return self.missing and self.run is None and self.host == os.uname().nodename


def list_runs(about: Sequence[str] = ()) -> list[IndexEntry]:
    """List the runs of this user, the newest first. Changes nothing.

    `about`: texts, such as projects, a job or a part of an id. A run that has none of them in its id, or as a value in
    its file, is not read and comes last (`unread`): to check a record takes 20 times as long as to look for a text.
    """
    return sorted(
        _read_entries(about),
        key=lambda entry: (entry.run.started if entry.run else 0.0, entry.run_id),
        reverse=True,
    )


HOLD = "hold"  # the beginning of the name of every hold
_MOST_HOLDS = 50  # of the newest ones


def list_holds() -> list[Run]:
    """List the holds in this user's index that are not known to have ended, the newest first.

    Every launch asks, also of a user with thousands of runs: of those with a hold's name, only holds are checked.
    """
    try:
        ids = [run_id for run_id in _names(HOLD) if _may_be_hold(index_folder() / run_id)][:_MOST_HOLDS]
    except (OSError, RuntimeError):
        return []
    runs = [entry.run for entry in map(_entry, ids)]
    holds = [run for run in runs if run and run.hold and run.origin is Origin.INDEX and not run.state.ended]
    return sorted(holds, key=lambda run: (run.started, run.run_id), reverse=True)


def _may_be_hold(path: Path) -> bool:
    """Tell whether a file of the index can be a hold's, from its text."""
    try:
        return b'"hold": null' not in read_bounded(path, record.MOST_BYTES)  # in a text, quotes are escaped
    except OSError:
        return False


def _is_about(run_id: str, texts: Sequence[str], values: Sequence[bytes]) -> bool:
    """Tell whether an id has one of these texts, or its file one of these values. True for a file without a record."""
    if not texts or any(text in run_id for text in texts):
        return True
    try:
        content = read_bounded(index_folder() / run_id, record.MOST_BYTES)
    except OSError:
        return True
    return b'"run": {' not in content or any(value in content for value in values)


def _names(begin: str = "") -> list[str]:
    """List the ids of the index whose name begins so, the newest first. Raises OSError, RuntimeError."""
    every = [path.name for path in index_folder().iterdir()]
    names = sorted((name for name in every if name_in(name).startswith(begin)), reverse=True)
    return [name for name in names if typed_json.matches(record.RunId, name)]


def _read_entries(about: Sequence[str]) -> Iterator[IndexEntry]:
    try:
        names = _names()
    except (FileNotFoundError, RuntimeError):
        return
    except OSError as error:  # a home that is not mounted well: no run is gone
        folder = str(index_folder())
        problem = f"cannot read the runs in {folder}: {error.strerror}"
        yield IndexEntry(run_id="", folder=folder, host="", run=None, problem=problem)
        return
    values = [json.dumps(each).encode() for each in about]
    for run_id in names:
        if _is_about(run_id, about, values):
            yield _entry(run_id)
        else:
            yield IndexEntry(run_id=run_id, folder="", host="", run=None, unread=True)


def _entry(run_id: str) -> IndexEntry:
    """Read one entry. Whatever is wrong with it is said, and no reason to leave out the others."""
    path = index_folder() / run_id
    try:
        file, private = _read_file(path)
    except (OSError, RecordError) as error:
        return _unreadable(run_id, str(path), "", error)
    folder = Path(file.folder)
    kept = file.run if private else None  # the record as it began, of which the index can be believed
    try:
        run = _with_identity(read_record(folder), file if private else None)
        return IndexEntry(run_id=run_id, folder=file.folder, host=file.host, run=run)
    except (FileNotFoundError, NotADirectoryError):
        return _missing(run_id, file, kept)
    except (OSError, RecordError) as error:
        if kept is None or not _is_replaced(folder, replace(kept, marker=file.marker)):
            return _unreadable(run_id, file.folder, file.host, error)
        run = replace(kept, folder=file.folder, origin=Origin.INDEX, marker=file.marker)
        return IndexEntry(run_id=run_id, folder=file.folder, host=file.host, run=run)


def _is_replaced(folder: Path, run: Run) -> bool:
    """Tell whether others put something in the place of a run's directory: what it says is nothing of the run."""
    try:
        return folder.stat().st_uid != os.geteuid() or bool(place_problem(run))
    except OSError:
        return False


def _read_file(path: Path) -> tuple[IndexFile, bool]:
    """Return a file of the index, and whether this user alone can have written it. Raises OSError, RecordError."""
    content, private = read_private(path.parent, path.name, record.MOST_BYTES)
    file = record.read(IndexFile, content, path)
    if file.run is not None and file.run.run_id != path.name:
        raise RecordError(path, f"it is that of run {file.run.run_id}")
    return file, private


def _unreadable(run_id: str, folder: str, host: str, error: OSError | RecordError) -> IndexEntry:
    """Return the entry of a run that cannot be read. A RecordError names the file already."""
    words = error.message if isinstance(error, RecordError) else f"{folder}: {error.strerror or error}"
    return IndexEntry(run_id=run_id, folder=folder, host=host, run=None, problem=f"run {run_id}: {words}")


def _missing(run_id: str, file: IndexFile, kept: Run | None) -> IndexEntry:
    """Return the entry of a run whose directory is not there: deleted, on another host, or on a disk that is not.

    A job of it may run all the same, until the scheduler has said that it has ended.
    """
    run = None
    if kept is not None:
        may_live = file.end is None if kept.job is not None else is_local(kept) and is_alive(kept)
        if may_live:
            run = replace(kept, folder=file.folder, origin=Origin.INDEX, marker=file.marker)
    if file.host != os.uname().nodename:
        # A home may be shared by hosts that do not share the folder.
        problem = f"run {run_id} is in {file.folder} on {file.host}"
    else:
        problem = f"run {run_id}: {file.folder} is missing: it was removed, or its disk is not mounted"
    entry = IndexEntry(run_id=run_id, folder=file.folder, host=file.host, run=run, problem=problem, missing=True)
    return replace(entry, removed=file.host == os.uname().nodename and Path(file.folder).parent.is_dir())


def _with_identity(run: Run, file: IndexFile | None) -> Run:
    """Return a record of a folder, with the identity that the index has. Raises RecordError for another run.

    `file`: of the index; None: it has none that can be believed. Then the record stays as it is, without a hint.
    """
    if file is None or file.run is None:
        return record.without_hint(run)
    kept, end = file.run, file.end
    if run.run_id != kept.run_id:
        raise RecordError(Path(run.folder, FILE), f"it is that of run {run.run_id}, and not of {kept.run_id}")
    if not is_own(Path(run.folder)):
        run = replace(kept, folder=run.folder)  # others put it in the place of ours: it says nothing of our run
    known = {name: getattr(kept, name) for name in _IDENTITY}
    run = replace(run, **known, job=kept.job, origin=Origin.INDEX, marker=file.marker)
    if end is None or run.state.ended:
        return run
    return replace(run, state=end.state, exit_code=end.exit_code, verdict=end.verdict, failure=end.failure, ended=None)


def read_run(folder: Path) -> Run | None:
    """Read the record in a folder; a run of the index has its identity from there. None: no record. RecordError."""
    run = load(folder)
    if run is None or run.origin is Origin.INDEX:
        return run
    try:
        file, private = _read_file(index_folder() / run.run_id)
    except (OSError, RecordError, RuntimeError):
        return _with_identity(run, None)
    is_same_folder = run.origin is Origin.DIRECTORY or os.path.realpath(file.folder) == os.path.realpath(folder)
    return _with_identity(run, file if private and is_same_folder else None)


def reload(run: Run) -> Run:
    """Read the record again. Where that is not possible, return the old one."""
    try:
        found = read_run(Path(run.folder))
    except RecordError:
        return run
    return found if found and found.run_id == run.run_id else run


def find_project(directory: Path) -> Path:
    """Return the nearest directory at or above this one that has `ddpkit.toml` or `.git`; else this directory.

    The home directory counts only for itself: its `.git` often holds settings, and its subdirectories are projects.
    """
    return next((each for each in _up_to_home(directory.resolve()) if _is_marked(each)), directory.resolve())


def project_and_above(project: Path) -> Iterator[Path]:
    """Yield a project, and the directories above it if neither `ddpkit.toml` nor `.git` marks it.

    One in which every user can write, as in /tmp, is no project of what is below it.
    """
    for each in _up_to_home(project):
        if each == project or not each.stat().st_mode & 0o002:
            yield each
        if _is_marked(each):
            return


def _up_to_home(directory: Path) -> Iterator[Path]:
    """Yield a directory, and those above it that are below the home directory or the root."""
    home = os.path.realpath(os.environ.get("HOME") or "/")
    yield directory
    yield from itertools.takewhile(lambda each: str(each) not in ("/", home), directory.parents)


def _is_marked(directory: Path) -> bool:
    """Tell whether a directory has one of these names, and no stranger put it there."""
    return any(not is_planted(directory / name) for name in ("ddpkit.toml", ".git"))


def project_of(run: Run) -> Path:
    """Return the project of a run."""
    return Path(run.project or run.workdir)


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
    """Find a run to look at, by its id, the beginning or end of that, its name, or its directory. Raises UsageError.

    `command`: what the user can type instead, with `{}` for the run.
    """
    run = _in_folder(word)
    if run is not None:
        return run
    known = [*known, *_of_other_hosts(known)]
    entries = {entry.run_id: entry for entry in known}
    matching = _matching(word, entries) if word else []
    # Else the id of a scheduler's job.
    matching = matching or [entry.run_id for entry in known if entry.run is not None and word == _job_of(entry.run)]
    if len(matching) == 1:
        return _readable(entries[matching[0]], command)
    if matching:
        raise several_runs(
            f"{word!r} matches {len(matching)} runs", [entries[run_id] for run_id in matching], known, command
        )
    raise _no_such_run(word, known, command)


def _no_such_run(word: str, known: Sequence[IndexEntry], command: str, *, whole: bool = False) -> UsageError:
    entries = {entry.run_id: entry for entry in known}
    similar = [run_id for run_id in entries if word in run_id] or difflib.get_close_matches(word, entries, 3, 0.5)
    if similar and word:
        what = f"run {word!r} not found; similar runs"
        return several_runs(what, [entries[each] for each in similar], known, command, whole=whole, kind=NoSuchRunError)
    return explain_missing(f"run {word!r} not found", known, "ddpkit ps")


class NoSuchRunError(UsageError):
    """No run has this name."""


def explain_missing(what: str, known: Sequence[IndexEntry], hint: str) -> UsageError:
    """Return an error about a run that no entry is; where the index cannot be read, it says so."""
    unread = next((entry for entry in known if not entry.run_id), None)
    if unread is None:
        return NoSuchRunError(what, hint)
    return NoSuchRunError(f"{what}; {unread.problem}", f"ls -ld {shlex.quote(unread.folder)}")


def find_target(
    word: str, known: Sequence[IndexEntry], project: Path | None, command: str, *, by_name: bool = False
) -> Run:
    """Find the run that a command changes. Raises UsageError.

    A whole id or a directory names it everywhere; the beginning or end of an id, of at least LEAST characters, only in
    this project. `by_name`: there also its name, or the id of its job.
    """
    run = _in_folder(word)
    if run is not None:
        return run
    known = [*known, *_of_other_hosts(known)]
    entries = {entry.run_id: entry for entry in known}
    if word in entries:
        return _readable(entries[word], command)
    mine = [entry for entry in known if entry.run is not None and project_of(entry.run) == project]
    matching = [entry for entry in mine if _is_meant(word, entry, by_name=by_name)]
    if len(matching) == 1:
        return _readable(matching[0], command)
    if matching:
        raise several_runs(f"{word!r} matches {len(matching)} runs", matching, known, command)
    others = [entries[run_id] for run_id in _matching(word, entries)] if word else []
    if others:
        short = len(word) < LEAST and not by_name
        why = f"fewer than {LEAST} characters of an id" if short else "no run of this project; type the whole id"
        raise several_runs(f"{word!r} is {why}", others, known, command, whole=True)
    raise _no_such_run(word, known, command, whole=True)


def _job_of(run: Run) -> str | None:
    """The job by which a run is known: of the launches in a hold, the hold's job is not theirs."""
    return run.job_id if run.job is not None or run.hold is not None else None


def _is_meant(word: str, entry: IndexEntry, *, by_name: bool) -> bool:
    if by_name and entry.run is not None and word and word in (_job_of(entry.run), name_in(entry.run_id)):
        return True
    return len(word) >= LEAST and (entry.run_id.startswith(word) or entry.run_id.endswith(word))


def _in_folder(word: str) -> Run | None:
    """Return the run of a directory that was typed; None where it holds no record."""
    try:
        return read_run(Path(word).expanduser()) if word and "\0" not in word else None
    except RuntimeError:  # ~ of a user who is not there
        return None


def _readable(entry: IndexEntry, command: str) -> Run:
    if entry.run is not None:
        return entry.run
    if entry.host and entry.host != os.uname().nodename:
        what = f"run {entry.run_id} is not visible from here: its directory {entry.folder} is on {entry.host}"
        raise UsageError(what, f"on {entry.host}: {command.format(entry.run_id)}")
    raise UsageError(entry.problem, f"ls -ld {shlex.quote(entry.folder)}")


def _of_other_hosts(known: Sequence[IndexEntry]) -> Iterator[IndexEntry]:
    """Yield the runs in `logs/` of this project that the index does not have: another host started them."""
    readable = {entry.run_id for entry in known if entry.run is not None or entry.unread}
    try:
        paths = sorted((find_project(Path.cwd()) / "logs").iterdir())
    except OSError:
        return
    for path in paths:
        try:
            run = None if path.name in readable else read_run(path)
        except RecordError:
            continue
        if run is not None and run.run_id == path.name:
            yield IndexEntry(run_id=run.run_id, folder=run.folder, host=run.launcher_host, run=run)


def several_runs(
    what: str,
    entries: Sequence[IndexEntry],
    known: Sequence[IndexEntry],
    command: str,
    *,
    whole: bool = False,
    kind: type[UsageError] = UsageError,
) -> UsageError:
    """Return an error that lists each of these runs with the command for it.

    `whole`: with its whole id, without which a command does not act on a run of another project.
    """
    short = {} if whole else short_ids([entry.run_id for entry in known])
    lines = []
    for entry in (_entry(each.run_id) if each.unread else each for each in entries[:FEW]):
        run, words = entry.run, command.format(short.get(entry.run_id, entry.run_id))
        about = f"{shlex.join(run.command)[:40]}, {run.state}, {project_of(run)}" if run else f"on {entry.host}"
        lines.append(f"\n  {words}  # {one_line(about)}")
    more = f"\n  and {len(entries) - FEW} more" if len(entries) > FEW else ""
    return kind(f"{what}:{''.join(lines)}{more}", "ddpkit ps")


def whose(run: Run) -> str:
    """Return words for a record that others can change: whose it is, or that it was renamed."""
    try:
        mine = is_private(Path(run.folder).stat()) and is_private(Path(run.folder, FILE).lstat())
        replaceable = is_replaceable(Path(run.folder))
    except OSError:
        mine = replaceable = False
    if mine:
        return "is in a directory to which others can write" if replaceable else "was renamed or copied"
    return f"belongs to {owner_of(Path(run.folder, FILE)) or 'somebody else'}, or others can change it"
