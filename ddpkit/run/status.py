"""Status of a run, from its record, its launcher's process, or the scheduler of its job."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from ddpkit.errors import UsageError
from ddpkit.run import job_status, launcher_process, run_index
from ddpkit.run.job_status import JobStatus
from ddpkit.run.record import RecordedJob, RecordError, Run
from ddpkit.run.run_index import IndexEntry, KnownEnd
from ddpkit.run.state import RunState
from ddpkit.run.trust import Origin
from ddpkit.text import format_duration, one_line


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """`words` are the state for people."""

    state: RunState
    words: str
    hint: str = ""
    run: Run  # the record as it is now

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", one_line(self.words))  # they can quote the record


def command(verb: str, run: Run) -> str:
    """Return a command on this run that works on every host that sees its folder."""
    return f"ddpkit {verb} {shlex.quote(run.folder)}"


def remote_command(verb: str, run: Run, *, terminal: bool = False) -> str:
    """Return that command for the launcher's host, to be typed here; empty where others may have named the host."""
    if run.origin is Origin.OTHERS:
        return ""
    remote = command(verb, run)
    if run.launcher_python:
        remote = f"{shlex.quote(run.launcher_python)} -m {remote}"
    return f"ssh {'-t ' if terminal else ''}{shlex.quote(run.launcher_host)} {shlex.quote(remote)}"


def get_status(run: Run) -> RunStatus:
    """Return the status of a run. Asks the scheduler for a job that is not known to have ended."""
    if run.state.ended:
        return _ended(run)
    if run.job is not None:
        return _job_status(run, run.job)
    if not launcher_process.is_local(run):
        return _elsewhere(run)
    if launcher_process.is_alive(run):
        return _alive(run)
    try:
        fresh = run_index.read_run(Path(run.folder))  # it may have ended in between
    except RecordError:
        fresh = None
    if fresh is not None and fresh.state.ended:
        return _ended(fresh)
    if not os.path.lexists(run.folder):
        return RunStatus(
            state=RunState.OVER, words="has ended; its exit code is unknown, because its directory was deleted", run=run
        )
    return RunStatus(
        state=RunState.LOST,
        words=f"lost: its launcher (process {run.launcher_pid} on {run.launcher_host}) ended without a record, "
        "was probably killed, and its ranks ended with it",
        hint=command("logs", run),
        run=run,
    )


def _elsewhere(run: Run) -> RunStatus:
    if run.launcher_host != os.uname().nodename:
        words = f"on {run.launcher_host}, and not visible from here"
        return RunStatus(state=RunState.ELSEWHERE, words=words, hint=remote_command("status", run), run=run)
    where = "in another process namespace (a container)"
    if run.launcher_boot.partition(" ")[0] != launcher_process.boot_id().partition(" ")[0]:
        where = "on another machine with this name, or this one has just been restarted"
    return RunStatus(
        state=RunState.ELSEWHERE,
        words=f"not visible from here: its launcher runs {where}",
        hint=f"there: {command('status', run)}",
        run=run,
    )


def _alive(run: Run) -> RunStatus:
    words, hint = f"runs for {age(time.time() - run.started)}", ""
    if launcher_process.process_state(run.launcher_pid) in ("T", "t"):
        words += "; its launcher is stopped (SIGSTOP), and does not watch its ranks"
        hint = "" if run.origin is Origin.OTHERS else f"kill -CONT {run.launcher_pid}"
    if not os.path.lexists(run.folder):
        words += "; its directory was deleted, with its logs"
    return RunStatus(state=RunState.RUNNING, words=words, hint=hint, run=run)


def _ended(run: Run) -> RunStatus:
    length = took(run.started, run.ended) if run.ended else ""
    if run.state is RunState.FAILED:
        words = f"failed: {run.verdict or f'exit code {run.exit_code}'}"
    elif run.state is RunState.STOPPED:
        words = f"stopped{length and f' (it ran for {length})'}" + (f": {run.verdict}" if run.verdict else "")
    elif run.state is RunState.OVER:
        words = run.verdict or "has ended"
    else:
        words = f"done{length and f' after {length}'}"
    return RunStatus(state=run.state, words=words, run=run)


def _job_status(run: Run, job: RecordedJob) -> RunStatus:
    if run.origin is Origin.OTHERS:
        words = f"job {run.job_id}: its record {run_index.whose(run)}; ddpkit asks no scheduler for it"
        return RunStatus(state=RunState.UNKNOWN, words=words, run=run)
    now = job_status.get_job_status(run, job)
    if now.state.ended:
        return _ended(_keep_end(run, now))
    return RunStatus(state=now.state, words=now.words, hint=now.hint, run=run)


def _keep_end(run: Run, job: JobStatus) -> Run:
    """Keep how a job ended: the scheduler soon forgets. A launcher that follows it writes the record itself."""
    following = run.state is RunState.RUNNING and (not launcher_process.is_local(run) or launcher_process.is_alive(run))
    try:
        fresh = run_index.read_run(Path(run.folder)) or run
    except RecordError:
        fresh = run
    if fresh.state.ended:
        return fresh
    end = {"state": job.state, "exit_code": job.exit_code, "verdict": job.words or None, "failure": job.failure}
    if not following and run.origin is Origin.INDEX:
        run_index.keep_end(run, KnownEnd(**end))  # type: ignore[arg-type]
    return replace(fresh, **end, ended=None)  # type: ignore[arg-type]


# ---- which run


def get_statuses(runs: Sequence[Run]) -> list[RunStatus]:
    """Return the status of each run; schedulers are asked in parallel."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(get_status, runs))


def choose(word: str | None, command: str, *, acts: bool = False, newest: bool = False) -> Run:
    """Return the run that a word names; without one the newest of this project, first among those that run.

    Never a run of another project without its id. `acts`: the command changes the run. It is then none of a project
    above, and none of several that run. `newest`: choose the newest, also where an older one runs. `command`: what the
    user can type instead, with `{}` for the run. Raises UsageError.
    """
    known, project = run_index.list_runs(), here()
    if word is not None:
        if acts:
            return run_index.find_target(word, known, project, command, by_name=True)
        return run_index.find_run(word, known, command)
    mine = runs_of_project(known, acts=acts)
    going = [entry for entry in mine if entry.run and not entry.run.state.ended]
    living = _living(going, every=acts)
    if acts and len(living) > 1:
        raise run_index.several(f"{len(living)} runs of this project are running", living, known, command)
    for entry in (*([] if newest else living), *mine):
        if entry.run is not None:
            return entry.run
    others = [entry for entry in known if entry.run is not None]
    if not others:
        raise run_index.explain_missing("no run found", known, "ddpkit launch -- SCRIPT")
    running = _living([entry for entry in others if entry.run and not entry.run.state.ended])
    if acts and not running:
        raise UsageError("no run is running, in this project or in another", "ddpkit ps")
    others = running or others
    where = f"this project ({project})" if project else "the current directory, which was deleted,"
    raise run_index.several(f"no run of {where} found; runs of other projects", others, known, command, whole=acts)


def runs_of_project(known: Sequence[IndexEntry], *, acts: bool = False) -> list[IndexEntry]:
    """Return the runs of the project of the current directory; without any, of a directory above it.

    `acts`: a command changes them; then none above.
    """
    project = here()
    directories = [] if project is None else [project] if acts else run_index.above(project)
    for directory in directories:
        mine = [entry for entry in known if entry.run is not None and run_index.project_of(entry.run) == directory]
        if mine:
            return mine
    return []


def living_of_project() -> list[Run]:
    """Return the runs of this project that are running or queued."""
    mine = runs_of_project(run_index.list_runs(), acts=True)
    going = [entry for entry in mine if entry.run and not entry.run.state.ended]
    return [entry.run for entry in _living(going) if entry.run is not None]


def here() -> Path | None:
    """Return the project of the current directory."""
    try:
        return run_index.find_project(Path.cwd())
    except FileNotFoundError:  # somebody removed the current directory
        return None


def _living(entries: Sequence[IndexEntry], *, every: bool = True) -> list[IndexEntry]:
    """Return the entries whose runs are running or queued; without `every` only the first."""
    if not every:
        first = next((entry for entry in entries if entry.run and get_status(entry.run).state.living), None)
        return [first] if first else []
    states = get_statuses([entry.run for entry in entries if entry.run])
    return [entry for entry, now in zip(entries, states, strict=True) if now.state.living]


def problems(known: Sequence[IndexEntry], *, everything: bool = False) -> list[str]:
    """Return a line for each run of this user that cannot be read here. `everything`: also for removed directories."""
    return [entry.problem for entry in known if entry.run is None and (everything or not entry.removed)]


def took(started: float, ended: float) -> str:
    """The duration of an ended run."""
    return format_duration(ended - started)


def age(seconds: float) -> str:
    """The age of something, without parts of a second: `4 s`, `3 min`."""
    return format_duration(round(seconds)) if seconds >= 10 else f"{seconds:.0f} s"
