"""One folder for each run: its logs, and a record from which any later shell can tell what ran and how it ended."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from ddpkit.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is known of one run. `state`: running, done, failed, stopped, or left (a job that goes on)."""

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
    ended: float | None = None
    state: str = "running"
    exit_code: int | None = None
    verdict: str | None = None
    job_id: str | None = None  # the scheduler's

    def save(self) -> None:
        """Write the record beside its final place and rename it: a reader sees the old one or the new one."""
        path = Path(self.folder) / "run.json"
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(asdict(self), indent=2) + "\n")
        beside.replace(path)


def new_id(command: tuple[str, ...]) -> str:
    """A name that sorts by time and says what ran: `20260131-235959-train-3fa9`."""
    words = [word for word in command if not word.startswith("-")] or ["run"]
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


def process_started(pid: int) -> str:
    """When a process started, in clock ticks since boot (field 22 of /proc/PID/stat); empty where that is unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
