"""A run in Python: its state, its end, its output, and how to find it again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ddpkit import config
from ddpkit.errors import DdpkitError
from ddpkit.execution.background import BackgroundRun
from ddpkit.run import control, record, replicas, run_index, state, status
from ddpkit.run import logs as run_logs
from ddpkit.run.record import Attempt, Failure
from ddpkit.run.state import Phase, RunState

if TYPE_CHECKING:
    from ddpkit.launchers.host_names import Via


def _login_host(via: Via, control: Callable[[], str]) -> Any:
    from ddpkit.execution.other_host import of_record

    return of_record(via, control)


state.connect = state.connect or _login_host


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a run."""

    run_id: str
    state: RunState
    exit_code: int | None  # of the command line (see `ddpkit.errors`); None: not known
    seconds: float | None  # from the start of the ranks, or of the job, to the end; None: not known
    failure: Failure | None  # the first failure: host, rank, code or signal, diagnosis, last_lines
    verdict: str | None  # the failure in one sentence

    @property
    def ok(self) -> bool:
        """Whether all ranks ended with exit code 0."""
        return self.state is RunState.DONE


class RunFailedError(DdpkitError):
    """A run did not succeed: `Run.wait(check=True)`. `outcome` is its end, `exit_code` that of the command line."""

    def __init__(self, outcome: Outcome) -> None:
        failure = outcome.failure
        lines = [f"run {outcome.run_id} {outcome.state}", *(failure.last_lines if failure else ())]
        if outcome.verdict:
            lines[0] += f": {outcome.verdict}"
        super().__init__("\n".join(lines), f"ddpkit explain {outcome.run_id}")
        self.outcome = outcome
        self.exit_code = outcome.exit_code or DdpkitError.exit_code


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of a run, and of its ranks."""

    state: RunState
    words: str  # the state for people
    hint: str  # the next command to type; empty: none
    ranks: tuple[status.RankStatus, ...]  # empty where they are not known
    findings: tuple[str, ...]  # one sentence for each rank or host that stands out

    @property
    def living(self) -> bool:
        """Whether the run is running, or waits in a queue."""
        return self.state.living


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line of output. `rank` is None for lines of torchrun, srun and ddpkit, whose name is `agent`."""

    rank: int | None
    agent: str
    host: str
    text: str
    role: str = ""  # the replica, such as infer.1, of a run of roles
    front: str = ""  # what `ddpkit logs` shows before such a line

    def __str__(self) -> str:
        """Show the line as `ddpkit logs` does."""
        source = self.front or f"{self.agent if self.rank is None else self.rank} {self.host}".strip()
        return f"[{source}] {self.text}"


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One replica of a role, such as infer.1."""

    name: str
    phase: Phase | None  # waiting, starting, ready, done, failed, stopped; None: not known
    words: str  # the phase for people
    restarts: int  # how often it started again
    hosts: tuple[str, ...]  # empty before it has started
    run: Run | None  # its last start, with logs, state, outcome and `stop()`; None: there is none, or none can be read


class Run:
    """One run of this program, or one that `open_run` found.

    As a context manager it stops the run at the end of the block, if it is still running:

        with ddpkit.launch("train.py", nproc_per_node=2) as run:
            print(run.wait(timeout=600).ok)
    """

    def __init__(self, entry: record.Run, background: BackgroundRun | None = None) -> None:
        self._entry = entry
        self._background = background

    @property
    def _thread(self) -> BackgroundRun | None:
        """The thread that carries out the run. None: another process does, perhaps the one that forked this."""
        background = self._background
        return background if background is not None and background.in_this_process else None

    @property
    def _record(self) -> record.Run:
        if self._thread is not None:
            return self._thread.record
        self._entry = run_index.reload(self._entry)
        return self._entry

    @property
    def run_id(self) -> str:
        """The name of the run, as `ddpkit ps` lists it."""
        return self._entry.run_id

    @property
    def folder(self) -> Path:
        """The absolute directory of its logs and its record."""
        return Path(self._entry.folder)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of its nodes; a scheduler's job has its backend's."""
        return self._entry.hosts

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Its attempts, of a run with `retries`: hosts, failure, and the decision after each that ended."""
        return self._record.attempts

    @property
    def world_size(self) -> int:
        """The number of its ranks."""
        return self._entry.world_size

    @property
    def command(self) -> tuple[str, ...]:
        """The script and its arguments."""
        return self._entry.command

    @property
    def roles(self) -> dict[str, tuple[Replica, ...]]:
        """The replicas of each role, as they are now: `run.roles["infer"][1].phase`. Empty for a run without roles."""
        now = status.get_status(self._record)
        found: dict[str, tuple[Replica, ...]] = {}
        for each in replicas.replicas_of(now.run):
            last = each.starts[-1] if each.starts and not each.problem else None
            replica = Replica(
                name=each.name,
                phase=each.state.phase if each.state else None,
                words=replicas.words_of(each, now.state),
                restarts=each.state.restarts if each.state else 0,
                hosts=last.hosts if last else (),
                run=Run(last) if last else None,
            )
            found[each.role] = (*found.get(each.role, ()), replica)
        return found

    @property
    def job_id(self) -> str | None:
        """The id of its scheduler's job; None: no scheduler runs it."""
        return self._entry.job_id

    def __repr__(self) -> str:
        return f"<ddpkit.Run {self.run_id}: {self._record.state}>"

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        forked = self._background is not None and self._thread is None  # the run is the parent's
        if not forked and self.status().living:
            self.stop()

    @property
    def state(self) -> RunState:
        """Its state now. For a job, this queries the scheduler."""
        return status.get_status(self._record).state

    @property
    def outcome(self) -> Outcome | None:
        """The end of the run; None while it lives, or where this host cannot see its end."""
        now = status.get_status(self._record)
        return _outcome(now.run, now.state) if now.state.ended or now.state is RunState.LOST else None

    def wait(self, timeout: float | None = None, *, check: bool = False) -> Outcome:
        """Wait for the end of the run.

        `timeout`: seconds; None: no limit. Raises TimeoutError after it, and the run continues. The run also
        continues after KeyboardInterrupt, for example from the stop button of a notebook. `check`: raise
        RunFailedError unless all ranks ended with exit code 0.
        """
        outcome = self._wait(timeout)
        if check and not outcome.ok:
            raise RunFailedError(outcome)
        return outcome

    def _wait(self, timeout: float | None) -> Outcome:
        if self._thread is not None:
            if not self._thread.wait(timeout):
                raise TimeoutError(f"run {self.run_id} has not ended in {timeout:g} s")
            return _outcome(self._record, self._record.state)
        until = None if timeout is None else time.monotonic() + timeout
        liveness = control.Liveness(self._entry)
        while liveness.goes_on():
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"run {self.run_id} has not ended in {timeout:g} s")
            time.sleep(0.1)
        now = status.get_status(self._record)
        return _outcome(now.run, now.state)

    def status(self) -> Status:
        """Check the run and its ranks once. For a job, this queries the scheduler."""
        now = status.get_status(self._record)
        sample = status.read_ranks(now.run) if now.state in (RunState.RUNNING, RunState.ELSEWHERE) else None
        return Status(
            state=now.state,
            words=now.words,
            hint=now.hint,
            ranks=sample.ranks if sample else (),
            findings=tuple(status.describe_oddities(now, sample)) if sample else (),
        )

    def logs(
        self,
        *,
        role: str | None = None,
        rank: int | str | None = None,
        host: str | None = None,
        grep: str | None = None,
        lines: int | str | None = None,
        follow: bool = False,
        attempt: int | None = None,
    ) -> Iterator[LogLine]:
        """Read the lines that the run printed, in the order of their arrival.

        `role`: of a run of roles, "infer" or "infer.1".
        `rank`: 3, or "0,2" or "4-7". `grep`: a regular expression. `lines`: begin with the last so many. `follow`: also
        yield what comes, until the run ends. `attempt`: from 1; None: the last one. Raises UsageError.

            for line in run.logs(rank=0, follow=True):
                print(line.text)
        """
        entry = self._record if attempt is None else run_logs.choose_attempt(self._record, attempt)
        choice = run_logs.parse_filter(entry, None if rank is None else str(rank), host, grep)
        if role is not None:
            choice = replace(choice, replicas=frozenset(each.name for each in replicas.choose(entry, role)))
        number = None if lines is None else config.whole(lines, "-n ")
        return self._lines(entry, choice, number, self._going_on(entry) if follow else None)

    def _going_on(self, entry: record.Run) -> Callable[[], bool]:
        thread = self._thread
        return control.Liveness(entry).goes_on if thread is None else lambda: not thread.ended

    def _lines(
        self, entry: record.Run, choice: run_logs.LineFilter, number: int | None, going_on: Callable[[], bool] | None
    ) -> Iterator[LogLine]:
        for line in run_logs.read_lines(entry, choice, going_on, number):
            rank = int(line.source) if line.source.isdecimal() else None
            agent = "" if rank is not None else line.source or "ddpkit"
            text = line.text.decode("utf-8", "replace")
            yield LogLine(rank=rank, agent=agent, host=line.host, text=text, role=line.replica, front=line.front)

    def stop(self, *, now: bool = False) -> Outcome:
        """End the run, and wait for its end. Ranks get SIGTERM, and SIGKILL after the grace; with `now` only SIGKILL.

        A submitted job is cancelled. A run that has ended stays as it is. Raises UsageError for a run that cannot be
        reached from here, LaunchError for a scheduler that refuses, DdpkitError for a run that does not end in time.
        """
        if self._thread is None:
            end = control.stop(self._record, at_once=now)
            return _outcome(end.run, end.state)
        self._thread.stop(at_once=now)
        margin = control.JOB_MARGIN if self._entry.job else control.MARGIN
        limit = margin + (0.0 if now else self._entry.grace)
        try:
            return self._wait(limit)
        except TimeoutError:
            hint = status.command("stop --now", self._entry)
            raise DdpkitError(f"run {self.run_id} has not ended in {limit:g} s", hint) from None


def _outcome(entry: record.Run, state: RunState) -> Outcome:
    return Outcome(
        run_id=entry.run_id,
        state=state,
        exit_code=entry.exit_code,
        seconds=entry.ended - entry.started if entry.ended is not None else None,
        failure=entry.failure,
        verdict=entry.verdict,
    )


def runs() -> list[Run]:
    """List the runs of this user whose records can be read here, the newest first, as `ddpkit ps --all` does."""
    return [Run(entry.run) for entry in run_index.list_runs() if entry.run is not None]


def open_run(word: str | os.PathLike[str] | None = None) -> Run:
    """Find a run by its id, a unique prefix or suffix of it, or its directory.

    None: the newest running run of this project, else its newest. Raises UsageError if no run or several match.

        ddpkit.open_run("3fa9").stop()
    """
    return Run(status.choose(None if word is None else os.fspath(word), 'ddpkit.open_run("{}")'))
