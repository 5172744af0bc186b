"""Record of a run, in its folder beside its logs: what ran, where, and how it ended.

The record is in the run's own folder; `ddpkit/run/run_index.py` finds that folder from every shell.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from ddpkit.diagnosis.outcome import Action, Decision
from ddpkit.diagnosis.outcome import Diagnosis as Diagnosis  # part of the record
from ddpkit.diagnosis.outcome import Failure as Failure
from ddpkit.errors import UsageError
from ddpkit.files import create, make_parents, write_atomically
from ddpkit.launchers.plan import Scheduled, Via
from ddpkit.node import owned
from ddpkit.run import run_files
from ddpkit.run.code_state import Code, Versions

_T = TypeVar("_T")
FORMAT = 1  # of the record; grows when a field changes its meaning
FILE = "run.json"
ATTEMPTS = "attempts.json"  # of a submitted job: its script writes it
HANG = "hang.json"  # of a submitted job: the launcher that follows it writes it, and its script removes it
REQUESTS = "requests"  # numbers of signals, one a line
ENDED = ("done", "failed", "stopped", "over")
_RENAMED = {"well": "success_states", "gone": "forgotten_pattern"}  # keys of a job in older records


@dataclass(frozen=True, kw_only=True)
class Session:
    """A tmux session that holds the launcher."""

    socket: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt of a run. `decision`: what followed from its end, and why; None: it succeeded, or has not ended."""

    number: int  # from 1
    hosts: tuple[str, ...]
    started: float  # seconds since the epoch
    ended: float | None = None
    exit_code: int | None = None
    verdict: str | None = None
    failure: Failure | None = None
    progress: float | None = None  # step of the metrics, or the time of the newest file; None: not known
    first_step: float | None = None  # seconds since the epoch of the first rank's first step; None: none was seen
    saved: float | None = None  # seconds since the epoch of the last progress; None: not known
    decision: Decision | None = None


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Settings that decide whether another attempt follows."""

    retries: int
    retry_codes: tuple[int, ...]
    stop_codes: tuple[int, ...]
    progress: str
    metrics: str
    bad_nodes: str
    workdir: str
    command: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AttemptsFile:
    """Attempts of a submitted job, which its script writes on a node."""

    rules: Rules
    nodes: int  # of one attempt
    hosts: tuple[str, ...] = ()  # of the job's allocation; empty: not known yet
    spares: tuple[str, ...] = ()
    replaced: dict[str, str] = field(default_factory=dict)  # reasons by host
    attempts: tuple[Attempt, ...] = ()

    def save(self, folder: Path) -> None:
        """Replace the file. Raises OSError."""
        write_atomically(folder / ATTEMPTS, json.dumps(asdict(self), indent=2) + "\n")


@dataclass(frozen=True, kw_only=True)
class Run:
    """Record of one run. Its hosts, ranks and failure are those of its last attempt.

    `state`: running, done, failed, stopped; for a job that nobody follows left, or over (how it ended is not known).
    """

    run_id: str
    folder: str
    backend: str
    command: tuple[str, ...]
    workdir: str
    hosts: tuple[str, ...]
    world_size: int
    launcher_pid: int
    launcher_started: str  # of the process, in clock ticks since boot: tells a reused process id from the launcher
    launcher_host: str
    started: float  # seconds since the epoch
    launcher_boot: str = ""  # of the host, and the launcher's process namespace: where the process id means anything
    launcher_python: str = ""  # has ddpkit there, where a shell that is no login's may not find `ddpkit`
    ranks: dict[str, list[int]] = field(default_factory=dict)  # on each host, where that is known from the start
    grace: float = 15.0
    ended: float | None = None
    state: str = "running"
    exit_code: int | None = None
    verdict: str | None = None
    job_id: str | None = None  # the scheduler's
    job: Scheduled | None = None
    session: Session | None = None
    failure: Failure | None = None  # the first failure of a run that failed
    project: str = ""  # directory of the project in which the run was started; empty in older records
    in_program: bool = False  # its launcher is a thread of another program: it reads requests, and takes no signals
    settings_file: str = ""  # the ddpkit.toml that was read; empty: none
    code: Code | None = None  # git; None: not known (yet)
    versions: dict[str, Versions] = field(default_factory=dict)  # on each host, from the end of the run on
    attempts: tuple[Attempt, ...] = ()  # of a run with --retries
    spares: tuple[str, ...] = ()  # hosts that can still replace others
    log_problem: str = ""  # what is missing in its logs, and why
    format: int = FORMAT

    def save(self) -> None:
        """Replace the record: a reader sees the old one or the new one. Raises OSError."""
        write_atomically(Path(self.folder) / FILE, json.dumps(asdict(self), indent=2) + "\n")


def attempt_folder(folder: Path, number: int) -> Path:
    """Return the directory of the logs of an attempt that another one followed."""
    return folder / f"attempt-{number}"


def load(folder: Path) -> Run | None:
    """Read a record; None where there is none, or none that can be understood. The folder may have moved."""
    try:
        return _from_json(json.loads((folder / FILE).read_text()), folder)
    except (OSError, ValueError):
        return None


def load_attempts(folder: Path) -> AttemptsFile | None:
    """Read the attempts of a submitted job; None where the run is another one, or they cannot be understood."""
    try:
        data = json.loads((folder / ATTEMPTS).read_text())
        inner = {"rules": _inner(Rules, data["rules"]), "attempts": tuple(map(_attempt, data["attempts"]))}
        return _inner(AttemptsFile, data | inner)
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None


def keep_hang(folder: Path, hang: Failure) -> None:
    """Keep a hang that ended a step of a submitted job, for the job's script. Raises OSError."""
    write_atomically(folder / HANG, json.dumps(asdict(hang)) + "\n")


def take_hang(folder: Path) -> Failure | None:
    """Return the hang for which a step of a submitted job was ended, and remove its file; None: not found."""
    try:
        hang = _failure(json.loads((folder / HANG).read_text()))
        (folder / HANG).unlink()
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return hang


def parse(data: Any) -> Run | None:
    """Read a record from JSON that a launcher printed; None where it cannot be understood."""
    return _from_json(data, Path(data["folder"])) if isinstance(data, dict) and "folder" in data else None


def _from_json(data: Any, folder: Path) -> Run | None:
    try:
        known = {entry.name for entry in fields(Run)}
        values = {name: _tuples(value) for name, value in data.items() if name in known and name != "ranks"}
        for name, kind in (("job", Scheduled), ("session", Session), ("code", Code)):
            if values.get(name) is not None:
                values[name] = _inner(kind, {_RENAMED.get(key, key): value for key, value in data[name].items()})
        via = values["job"].via if values.get("job") else None
        if via is not None:
            values["job"] = replace(values["job"], via=_inner(Via, via))
        values["versions"] = {host: _inner(Versions, each) for host, each in data.get("versions", {}).items()}
        if values.get("failure") is not None:
            values["failure"] = _failure(data["failure"])
        values["attempts"] = tuple(map(_attempt, data.get("attempts", ())))
        if values.get("job") is not None and (of_job := load_attempts(folder)) is not None:
            values |= {"attempts": of_job.attempts, "spares": of_job.spares}
        return Run(**{**values, "ranks": data.get("ranks", {}), "folder": str(folder.absolute())})
    except (ValueError, TypeError, AttributeError):
        return None


def _attempt(data: Any) -> Attempt:
    failure, decision = data.get("failure"), data.get("decision")
    inner = {"failure": failure and _failure(failure), "decision": decision and _inner(Decision, decision)}
    return _inner(Attempt, data | inner)


def _failure(data: Any) -> Failure:
    inner = {name: data.get(name) and _inner(kind, data[name]) for name, kind in _OF_FAILURE}
    return _inner(Failure, {**data, **inner})


_OF_FAILURE: tuple[tuple[str, type], ...] = (("diagnosis", Diagnosis), ("action", Action))


def _inner(kind: type[_T], data: Any) -> _T:
    """An inner value of the record; names of a later ddpkit are left out."""
    known = {entry.name for entry in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: _tuples(value) for name, value in data.items() if name in known})


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def new_id(name: str) -> str:
    """A name that sorts by time and says what ran: `20260131-235959-train-3fa9`."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{os.urandom(2).hex()}"


def name_of(command: tuple[str, ...]) -> str:
    """Return the name of a run of this command, where it has no other: that of the script."""
    # Code is no name; what follows it can be.
    words = [word for word in command[2 * (command[0] == "-c") :] if not word.startswith("-")] or ["run"]
    return usable_name(Path(words[0]).stem.replace(".", "-"))


def usable_name(text: str) -> str:
    """Return the text as a name of a run, which is a part of its id, its directory and its SLURM job."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text)[:24].strip("-.") or "run"


def make_folder(log_dir: Path, run_id: str) -> Path:
    """Make the run's own folder under `log_dir`; a folder that cannot be written to is an error before the start."""
    folder = log_dir / run_id
    try:
        make_parents(folder)
        owned.make_directory(str(folder), run_files.KIND, run_files.MODE)
        create(folder / "all.log", "")
    except OSError as error:
        raise UsageError(
            f"cannot write logs to {folder}: {error.strerror}", "choose a writable directory: --log-dir DIR"
        ) from None
    return folder
