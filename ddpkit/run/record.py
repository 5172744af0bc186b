"""One folder for each run: its logs, and a record from which any later shell can tell what ran and how it ended.

The record stands in the run's own folder. A small file per run in the user's state folder says where that is, so that a
run is found from everywhere; it can always be lost, for a run is also named by its folder.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ddpkit.diagnosis.outcome import Diagnosis as Diagnosis  # part of the record
from ddpkit.diagnosis.outcome import Failure as Failure
from ddpkit.errors import UsageError
from ddpkit.files import write_atomically
from ddpkit.launchers.plan import Scheduled

FORMAT = 1  # of the record; grows when a field changes its meaning
FILE = "run.json"
REQUESTS = "requests"  # numbers of signals, one a line
ENDED = ("done", "failed", "stopped", "over")
_RENAMED = {"well": "success_states", "gone": "forgotten_pattern"}  # keys of a job in older records


@dataclass(frozen=True, kw_only=True)
class Session:
    """A tmux session that holds the launcher."""

    socket: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is known of one run.

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
    in_program: bool = False  # its launcher is a thread of another program: it reads requests, and takes no signals
    format: int = FORMAT

    def save(self) -> None:
        """Replace the record: a reader sees the old one or the new one. Raises OSError."""
        write_atomically(Path(self.folder) / FILE, json.dumps(asdict(self), indent=2) + "\n")


def load(folder: Path) -> Run | None:
    """Read a record; None where there is none, or none that can be understood. The folder may have moved."""
    try:
        return _built(json.loads((folder / FILE).read_text()), folder)
    except (OSError, ValueError):
        return None


def parse(found: Any) -> Run | None:
    """Read a record from JSON that a launcher printed; None where it cannot be understood."""
    return _built(found, Path(found["folder"])) if isinstance(found, dict) and "folder" in found else None


def _built(found: Any, folder: Path) -> Run | None:
    try:
        known = {entry.name for entry in fields(Run)}
        values = {name: _tuples(value) for name, value in found.items() if name in known and name != "ranks"}
        for name, kind in (("job", Scheduled), ("session", Session)):
            if values.get(name) is not None:
                inner = {entry.name for entry in fields(kind)}
                renamed = {_RENAMED.get(key, key): _tuples(value) for key, value in found[name].items()}
                values[name] = kind(**{key: value for key, value in renamed.items() if key in inner})
        if values.get("failure") is not None:
            values["failure"] = _failure(found["failure"])
        return Run(**{**values, "ranks": found.get("ranks", {}), "folder": str(folder.absolute())})
    except (ValueError, TypeError, AttributeError):
        return None


def _failure(found: Any) -> Failure:
    known = {entry.name for entry in fields(Failure)}
    values = {name: _tuples(value) for name, value in found.items() if name in known}
    diagnosis = values.get("diagnosis")
    return Failure(**{**values, "diagnosis": None if diagnosis is None else Diagnosis(**diagnosis)})


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def new_id(command: tuple[str, ...]) -> str:
    """A name that sorts by time and says what ran: `20260131-235959-train-3fa9`."""
    # Code is no name; what stands behind it can be.
    words = [word for word in command[2 * (command[0] == "-c") :] if not word.startswith("-")] or ["run"]
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", Path(words[0]).stem).strip("-")[:24] or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{stem}-{os.urandom(2).hex()}"


def make_folder(log_dir: Path, run_id: str) -> Path:
    """Make the run's own folder under `log_dir`; a folder that cannot be written to is an error before the start."""
    folder = log_dir / run_id
    try:
        folder.mkdir(parents=True)
        (folder / "all.log").touch()
    except OSError as error:
        raise UsageError(
            f"cannot write logs to {folder}: {error.strerror}", "choose a folder that you can write to: --log-dir DIR"
        ) from None
    return folder


# ---- the launcher's process


def process_started(pid: int) -> str:
    """When a living process started, in clock ticks since boot (field 22 of /proc/PID/stat); empty for no process."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() else _asked(["ps", "-o", "lstart=", "-p", str(pid)])
    except OSError:
        return ""  # it ended while we looked
    return words[19] if len(words) > 19 and words[0] not in "ZX" else ""


def process_state(pid: int) -> str:
    """One letter as in /proc/PID/stat; empty where that is unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def boot() -> str:
    """Where a process id of this process means something: the boot of this machine, and the process namespace."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{text} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return _asked(["sysctl", "-n", "kern.bootsessionuuid"])


def _asked(argv: list[str]) -> str:
    """What macOS has programs for instead of files."""
    env = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=5, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def here(run: Run) -> bool:
    """Whether the launcher's process can be looked for from here. A boot that is over is: nothing of it lives."""
    if run.launcher_host != os.uname().nodename:
        return False
    was, now = run.launcher_boot.split(" "), boot().split(" ")
    return was[0] != now[0] or was[1:] == now[1:] or not run.launcher_boot


def alive(run: Run) -> bool:
    """Whether the launcher lives, for a run of `here`; another process with its number is not it."""
    if run.launcher_boot and run.launcher_boot != boot():
        return False
    if not run.launcher_started or process_started(run.launcher_pid) != run.launcher_started:
        return False
    if not run.in_program:
        return True
    now = load(Path(run.folder))  # the program may go on after the run
    return now is None or now.state not in ENDED


def send(run: Run, number: int) -> bool:
    """Send a signal to the launcher and to nothing else; False where it has ended. A stopped one is woken for it.

    A launcher in another program gets a request in its folder: the signal would end that program. Raises OSError.
    """
    if run.in_program:
        if not alive(run):
            return False
        add_request(Path(run.folder), number)
        return True
    try:
        handle = os.pidfd_open(run.launcher_pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        handle = None  # it has ended, or the kernel is older than Linux 5.3
    try:
        if not alive(run):
            return False
        if process_state(run.launcher_pid) == "T":
            _signal(run, handle, signal.SIGCONT)
            # A signal that arrives while Python's first thread goes back to its lock is taken, and obeyed only when
            # something else wakes that thread (3.11, seen). It must be asleep again.
            time.sleep(1.0)
        _signal(run, handle, number)
    except ProcessLookupError:
        pass
    finally:
        if handle is not None:
            os.close(handle)
    return True


def _signal(run: Run, handle: int | None, number: int) -> None:
    if sys.platform == "linux" and handle is not None:
        signal.pidfd_send_signal(handle, number)  # this very process, also when it ended just now
    else:
        os.kill(run.launcher_pid, number)


def wait(run: Run, seconds: float) -> bool:
    """Wait until the launcher has ended, at most so long; False where it lives on."""
    until = time.monotonic() + seconds
    try:
        asked = not run.in_program and alive(run) and hasattr(os, "pidfd_open")
        handle = os.pidfd_open(run.launcher_pid) if asked else None
    except OSError:
        handle = None
    try:
        if handle is not None and alive(run):
            select.select([handle], [], [], seconds)
        while alive(run):
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
    finally:
        if handle is not None:
            os.close(handle)
    return True


# ---- requests to a launcher in another program


def add_request(folder: Path, number: int) -> None:
    """Ask the launcher to act as if it got a signal. Raises OSError."""
    with open(folder / REQUESTS, "a") as file:
        file.write(f"{number}\n")


def take_requests(folder: Path) -> list[int]:
    """Take the numbers of the signals that were asked for since the last call."""
    taken = folder / f"{REQUESTS}.taken"
    try:
        (folder / REQUESTS).replace(taken)
        words = taken.read_text().split()
        taken.unlink()
    except OSError:
        return []
    return [int(word) for word in words if word.isdecimal()]


# ---- where the runs are


def index() -> Path:
    """The folder with one small file per run of this user."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # The specification of these folders: a relative path is to be ignored.
    return (Path(state) if state.startswith("/") else Path("~/.local/state").expanduser()) / "ddpkit/runs"


def remember(run: Run) -> str | None:
    """Note where a run is. Returns why that was not possible: the run itself does not depend on it."""
    try:
        index().mkdir(parents=True, exist_ok=True)
        # With the record as it begins: a run whose folder somebody removes lives on, and has to be ended all the same.
        entry = {"folder": run.folder, "host": run.launcher_host, "run": asdict(run)}
        (index() / run.run_id).write_text(json.dumps(entry) + "\n")
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows where this user's home is
        return getattr(error, "strerror", None) or str(error)
    return None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One run as the index has it; `run` is None where its folder cannot be seen from this host."""

    run_id: str
    folder: str
    host: str
    run: Run | None


def entries() -> list[Entry]:
    """Every run of this user, the newest first. An entry whose folder is gone is dropped."""
    return sorted(_entries(), key=lambda entry: (entry.run.started if entry.run else 0.0, entry.run_id), reverse=True)


def _entries() -> Iterator[Entry]:
    try:
        paths = list(index().iterdir())
    except (OSError, RuntimeError):
        return
    for path in paths:
        try:
            found = json.loads(path.read_text())
            folder, host = Path(found["folder"]), str(found["host"])
        except (OSError, ValueError, TypeError, KeyError):
            continue
        run = load(folder) or _without_folder(found.get("run"), folder)
        if run is not None or host != os.uname().nodename:
            # A home may be shared by hosts that do not share the folder: only its own host can say that it is gone.
            yield Entry(run_id=path.name, folder=str(folder), host=host, run=run)
        elif not (folder / FILE).exists():
            path.unlink(missing_ok=True)


def _without_folder(found: Any, folder: Path) -> Run | None:
    """A run whose folder is gone, as long as its launcher lives."""
    run = None if folder.exists() else _built(found, folder)
    return run if run is not None and run.job is None and here(run) and alive(run) else None


def named(word: str, known: Sequence[Entry]) -> Run:
    """The run that a word names: its id, the beginning or the end of it, or its folder. Raises UsageError."""
    folder = Path(word).expanduser()
    if (folder / FILE).exists():
        run = load(folder)
        if run is None:
            raise UsageError(f"{folder / FILE} is no record of a run", f"less {folder / FILE}")
        return run
    exact = [entry for entry in known if entry.run_id == word]
    near = exact or [entry for entry in known if entry.run_id.startswith(word) or entry.run_id.endswith(word)]
    if len(near) == 1:
        if near[0].run is None:
            raise UsageError(
                f"run {near[0].run_id} is in {near[0].folder} on {near[0].host}, which cannot be seen from here",
                f"on {near[0].host}: ddpkit status {near[0].run_id}",
            )
        return near[0].run
    ids = [entry.run_id for entry in known]
    if near:
        raise UsageError(f"{word!r} names {len(near)} runs: {_few([entry.run_id for entry in near])}", "say more of it")
    similar = [run_id for run_id in ids if word in run_id] or difflib.get_close_matches(word, ids, n=3, cutoff=0.5)
    hint = f"near it: {_few(similar)}" if similar else "ddpkit ps lists the runs"
    raise UsageError(f"there is no run {word!r}", hint)


def _few(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
