"""Follow and stop a run from any process of its user, by its record."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ddpkit.errors import DdpkitError, LaunchError, UsageError
from ddpkit.files import is_owned, remove_as_seen
from ddpkit.launchers.registry import scheduler_of
from ddpkit.run import job_status, launcher_process, record, run_files, run_index, status
from ddpkit.run.record import Run, machine_of
from ddpkit.run.run_files import KIND
from ddpkit.run.state import Origin, RunState
from ddpkit.run.status import RunStatus

MARGIN = 30.0  # seconds beyond the grace in which a launcher has ended, leftovers and last words included
AGAIN = 0.5  # seconds between two SIGTERMs
JOB_MARGIN = 90.0  # sites give a cancelled job half a minute, and its nodes some time to say so


class Liveness:
    """Answers whether a run goes on."""

    def __init__(self, run: Run, on_change: Callable[[str], None] = lambda _: None) -> None:
        """`on_change` gets the state of a job in words, each time it changes."""
        self._run = run
        self._on_change = on_change
        self._next_look = 0.0  # time.monotonic()
        self._living = True
        self._words = ""

    def goes_on(self) -> bool:
        """Return the last known answer; look again when that is due."""
        if time.monotonic() < self._next_look:
            return self._living
        now = status.get_status(run_index.reload(self._run))
        if self._run.job is not None and now.state.living and now.words != self._words:
            self._words = now.words
            self._on_change(now.words)
        # A launcher's end is seen in its own record, a job's in its output: see `job_status.get_job_status`.
        self._next_look = time.monotonic() + (0.5 if self._run.job else 0.1)
        # Where the connection to a login host is lost, the last answer holds.
        no_answer = now.state is RunState.UNKNOWN and self._run.job is not None and self._run.job.via is not None
        self._living = now.state.may_live or (no_answer and self._living)
        return self._living


def stop_argv(run: Run, *, at_once: bool = False) -> list[str]:
    """Return the command that `stop` amounts to, as words."""
    number = _stop_signal(run, at_once=at_once)
    if run.job:
        argv = scheduler_of(run.backend).stop_of(run.job_id or "")
        return [*run.job.via.by_hand, shlex.join(argv)] if run.job.via else argv
    if run.in_program:
        return ["sh", "-c", f"echo {number} >> {shlex.quote(str(Path(run.folder, record.REQUESTS)))}"]
    return ["kill", f"-{number.name.removeprefix('SIG')}", str(run.launcher_pid)]


def check_stop(run: Run) -> RunStatus:
    """Return the status of a run that `stop` may end, or that has ended. Raises UsageError, LaunchError for others."""
    now = status.get_status(run)
    if now.state is RunState.ELSEWHERE:
        raise UsageError(f"cannot stop run {run.run_id}: it is {now.words}", status.command_there("stop", run))
    if now.state is RunState.UNKNOWN:
        # Without the scheduler's word that it is the run's, a job with its number may be any other one.
        raise LaunchError(f"cannot stop run {run.run_id}: {now.words}", now.hint or status.command("status", run))
    if now.state.living and not run.job:
        launcher_process.check_launcher(run)
    return now


def stop(run: Run, *, at_once: bool = False) -> RunStatus:
    """End a run and wait for its end: every rank gets TERM, its grace, then KILL; with `at_once` KILL.

    A run that has ended stays as it is. Raises UsageError for one that cannot be reached from here, LaunchError for a
    scheduler that refuses, DdpkitError for a run that does not end in time.
    """
    now = check_stop(run)
    if not now.state.living:
        return now
    if run.job:
        argv = scheduler_of(run.backend).stop_of(run.job_id or "")
        reply = machine_of(run).run(argv)
        if reply.exit_code != 0:
            words = reply.error or f"{argv[0]}: exit code {reply.exit_code}"
            raise LaunchError(f"cannot stop job {run.job_id}: {words}", shlex.join(stop_argv(run)))
        job_status.expect_end(run, run.job)
        return _wait_for_job(run, JOB_MARGIN + run.grace)
    limit = MARGIN + (0.0 if at_once else run.grace)
    try:
        ended = _signal_until_end(run, limit, at_once=at_once)
    except OSError as error:
        if not run.in_program:
            raise
        what = f"cannot stop run {run.run_id}: {error.strerror}: {error.filename}"
        raise DdpkitError(what, f"ls -ld {shlex.quote(run.folder)}") from None
    if not ended:
        hint = f"ps -fp {run.launcher_pid}" if at_once else status.command("stop --now", run)
        raise DdpkitError(f"run {run.run_id} has not ended in {limit:g} s", hint)
    return status.get_status(run_index.reload(run))


def _stop_signal(run: Run, *, at_once: bool) -> signal.Signals:
    """Return the signal that ends a run. A launcher that a script started with `&` ignores SIGQUIT."""
    caught = run.in_program or launcher_process.catches(run.launcher_pid, signal.SIGQUIT)
    return signal.SIGQUIT if at_once and caught else signal.SIGTERM


def _signal_until_end(run: Run, limit: float, *, at_once: bool) -> bool:
    """Send the signal and wait. `at_once` without SIGQUIT: SIGTERM again and again, whose second means the same.

    Returns whether the launcher has ended. Raises UsageError, OSError.
    """
    number = _stop_signal(run, at_once=at_once)
    if not at_once or number is signal.SIGQUIT:
        launcher_process.send_signal(run, number)
        return launcher_process.wait_for_end(run, limit)
    until, sent = time.monotonic() + limit, False
    while time.monotonic() < until:
        try:
            launcher_process.send_signal(run, signal.SIGTERM)
        except UsageError:
            if not sent:
                raise  # else the launcher is about to end, and has closed the marker by which it is known
        sent = True
        if launcher_process.wait_for_end(run, AGAIN):  # two signals at the same time would be one
            return True
    return False


def _wait_for_job(run: Run, limit: float) -> RunStatus:
    """Wait for a job's end, and for the launcher that follows it on this host."""
    until = time.monotonic() + limit
    # A busy scheduler may give no answer for a while: that is no end.
    while (now := status.get_status(run_index.reload(run))).state.living_or_unknown:
        if time.monotonic() > until:
            raise DdpkitError(
                f"job {run.job_id} has not ended in {limit:g} s: {now.words}", status.command("status", run)
            )
        time.sleep(0.1)
    if (
        launcher_process.is_local(run)
        and launcher_process.wait_for_end(run, JOB_MARGIN)
        and (last := run_index.reload(run)).state is RunState.FAILED
    ):
        # To the launcher that followed it, somebody cancelled a job.
        with suppress(OSError):
            replace(last, state=RunState.STOPPED, verdict=None, failure=None).save()
    return status.get_status(run_index.reload(run))


# ---- removal of a run's directory: only what ddpkit made, only after its end, and what else lies in it is named first


PATIENCE = 5.0  # seconds for a launcher whose run has ended: it still copies metrics


class Removable(NamedTuple):
    """The directory of an ended run that may be removed. Another one that takes its name later may not."""

    run: Run
    seen: os.stat_result | None  # None: somebody removed it already
    foreign_names: list[str]  # in it, of what is not ddpkit's: any more of them stop the removal


def check_removable(run: Run) -> Removable:
    """Check the directory of an ended run. Raises DdpkitError: it has to stay."""
    folder = Path(run.folder)
    shown = shlex.quote(run.folder)
    try:
        status = folder.lstat()
        names = run_files.foreign_names(folder)
    except FileNotFoundError:
        return Removable(run, None, [])
    except OSError as error:
        raise _refused(run, error.strerror or str(error)) from None
    if run.origin is Origin.OTHERS or status.st_uid != os.geteuid():
        raise UsageError(f"run {run.run_id} {run_index.whose(run)}; {folder} was not removed", f"ls -la {shown}")
    if not is_owned(run.folder, KIND):
        raise UsageError(f"ddpkit did not make {folder}: it was not removed", f"ls -la {shown}")
    if run.in_program or not launcher_process.is_local(run):
        return Removable(run, status, names)
    if not launcher_process.wait_for_end(run, PATIENCE):
        what = f"the launcher of run {run.run_id} (process {run.launcher_pid}) has not ended; nothing was removed"
        raise UsageError(what, f"ddpkit status {shlex.quote(run.run_id)}")
    return Removable(run, status, names)


def remove_run(checked: Removable) -> None:
    """Remove the directory of a run that was checked, and its file in the index.

    Raises DdpkitError, also where a file that is not ddpkit's came since.
    """
    run, seen = checked.run, checked.seen
    try:
        if seen is not None:
            remove_as_seen(Path(run.folder), KIND, seen, run_files.foreign_names, checked.foreign_names)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _refused(run, f"{error.filename or run.folder}: {error.strerror}") from None
    run_index.forget(run.run_id)


def _refused(run: Run, why: str) -> DdpkitError:
    return DdpkitError(f"cannot remove run {run.run_id}: {why}", f"ls -ld {shlex.quote(run.folder)}")
