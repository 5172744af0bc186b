"""Status of a scheduler's job, and what its output says of its ranks and their first failure.

The backend gives the command, and the identity of the job has to match the record.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ddpkit.diagnosis.outcome import Failure
from ddpkit.errors import DdpkitError, UsageError
from ddpkit.files import write_atomically
from ddpkit.launchers.events import Event, FailedEvent
from ddpkit.launchers.job_output import JobOutput, first_of, says_end
from ddpkit.launchers.registry import scheduler_of
from ddpkit.machine import Machine, Phase, Poller, Reply
from ddpkit.run.record import RecordedJob, Run, job_log, machine_of, reader_of
from ddpkit.run.state import RunState

if TYPE_CHECKING:
    from ddpkit.launchers.plan import Scheduler

TIMEOUT = 15.0  # seconds for the scheduler's command
HELD = 15.0  # seconds for which the word of one that does not answer stands
TAIL = 4096  # bytes at the end of a job's output, in which its end shows
OUTPUT_HEAD = 1 << 20  # bytes at its beginning: there each rank names its host
OUTPUT_TAIL = 16 << 20  # bytes at its end, with the ends of the ranks; between them may be gigabytes
LINES = 200  # of each rank, to look for the cause in
# Times of SLURM are then the same text on every host.
IN_UTC: Mapping[str, str] = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
# Seconds between the start of a launch and its submission, where the record does not have the time of the latter.
EARLY, LATE = 300.0, 7200.0


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """The state of a job, and what a person needs to know of it."""

    state: RunState
    words: str = ""  # empty for one that is done
    hint: str = ""
    exit_code: int | None = None
    failure: Failure | None = None  # the first rank that failed, where the job's output shows it
    ask_there: bool = False  # where the job was submitted, more is known of it


class _LastStatus:
    """The last status of one job in this process, and when the scheduler may be asked again."""

    def __init__(self, place: str, period: float) -> None:
        self.poller = Poller(place, period)
        self.status: JobStatus | None = None
        self.tail = b""  # the end of its output
        self.cancelled = False  # by this process
        self.ends = False  # it was cancelled, or its output says that it ends

    def read_end(self, run: Run, job: RecordedJob) -> None:
        """Read the end of the job's output: it shows the start and the end sooner than the scheduler is asked."""
        if job.many:
            return
        try:
            tail = machine_of(run).read(job_log(run), -TAIL, TAIL)
        except OSError:
            tail = b""
        if tail == self.tail or self.status is None:
            return
        began = not self.tail and self.status.state is RunState.QUEUED
        ended_before = self.ends
        self.tail = tail
        self.ends = self.cancelled or not tail or says_end(tail.decode("utf-8", "replace"))
        if began or (self.ends and not ended_before):
            self.poller.enter(Phase.ENDING)  # ask more often, for a while
        elif ended_before and not self.ends:
            self.poller.enter(Phase.LIVING)

    def ask(self, run: Run, job: RecordedJob) -> JobStatus:
        """Ask the scheduler, and choose by its answer how often it is asked from now on."""
        if self.status is None:
            self.poller.count()  # the first question waits for no turn
        self.status = ask_scheduler(run, job)
        if self.status.state.ended:
            self.poller.close()
        elif self.status.state is RunState.RUNNING and not self.ends:
            self.poller.enter(Phase.LIVING)
        return self.status


_known: dict[tuple[str, str], _LastStatus] = {}


def expect_end(run: Run, job: RecordedJob) -> None:
    """Note that the job was cancelled: its scheduler may be asked about it again, less and less often."""
    known = _known_job(run, job)
    known.cancelled = known.ends = True
    known.poller.enter(Phase.ENDING)


def _known_job(run: Run, job: RecordedJob) -> _LastStatus:
    key = run.folder, run.job_id or ""
    if key not in _known:
        _known[key] = _LastStatus(machine_of(run).place, job.poll)
    return _known[key]


def get_job_status(run: Run, job: RecordedJob) -> JobStatus:
    """Return the status of a job. While its output goes on, all runs of this process ask once in `job.poll` seconds."""
    known = _known_job(run, job)
    known.read_end(run, job)
    if known.status is None or known.poller.take_turn():
        return known.ask(run, job)
    return known.status


def ask_scheduler(run: Run, job: RecordedJob) -> JobStatus:
    """Ask for the job of a run, or for all jobs of its array."""
    from ddpkit.launchers.plan import job_facts

    name = f"job {run.job_id}"
    try:
        scheduler, machine = scheduler_of(run.backend), machine_of(run)
    except UsageError as error:
        return JobStatus(state=RunState.UNKNOWN, words=f"{name}: {error.message}", hint=error.hint or "")
    if run.job_id is None or not scheduler.is_id(run.job_id):
        return JobStatus(state=RunState.UNKNOWN, words=f"{name}: no id of a job of backend {run.backend}")
    reply = _controller(scheduler, machine).ask(scheduler.state_of(run.job_id))
    jobs = [job_facts(match, scheduler.signals_from) for match in re.finditer(scheduler.state_pattern, reply.output)]
    if not jobs and not re.search(scheduler.forgotten_pattern, reply.error):
        words = f"{name}: no valid answer from the scheduler: {reply.error or 'unknown output'}"
        return JobStatus(state=RunState.UNKNOWN, words=words, hint=shlex.join(scheduler.state_of(run.job_id)))
    here = cluster_of(scheduler, machine)
    other = _other_cluster(job, here)
    if other is not None:
        return other
    if jobs:
        now = _other_job(run, job, scheduler, reply, jobs[0]) or _status(run, job, scheduler, jobs)
    else:
        now = JobStatus(state=RunState.OVER, words=f"{name} has ended, and the scheduler no longer knows its exit code")
    if now.state is RunState.OVER and scheduler.cluster and not _is_known_cluster(run, job, here):
        words = f"{name}: not known to the scheduler here, which may be another cluster's"
        return JobStatus(state=RunState.UNKNOWN, words=words, ask_there=True)
    return now


def _status(run: Run, job: RecordedJob, scheduler: Scheduler, jobs: Sequence[Mapping[str, str]]) -> JobStatus:
    """Return the status of the jobs that a scheduler showed."""
    name = f"job {run.job_id}"
    waiting = [facts for facts in jobs if facts["state"] in scheduler.waiting]
    running = [facts for facts in jobs if facts["state"] in (*scheduler.running, *scheduler.ending)]
    if len(jobs) > 1 and (waiting or running):
        ended = len(jobs) - len(waiting) - len(running)
        words = f"{name}, an array: {len(running)} run, {len(waiting)} wait, {ended} have ended"
        return JobStatus(state=RunState.RUNNING if running else RunState.QUEUED, words=words)
    if running:
        return JobStatus(
            state=RunState.RUNNING, words=f"{name} {scheduler.place_of(running[0]['state'], running[0]['nodes'])}"
        )
    if waiting:
        return JobStatus(state=RunState.QUEUED, words=f"{name} waits in the queue: {waiting[0]['reason']}")
    good = scheduler.success_states
    bad = [each for each in jobs if each["state"] not in good or (each["code"] + each["signal"]).strip("0")]
    return _failed(run, job, scheduler, bad, name) if bad else JobStatus(state=RunState.DONE, exit_code=0)


# ---- identity


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Facts by which a scheduler tells a job from another one with its number. Empty: not known."""

    name: str = ""
    user: str = ""
    submitted: str = ""


def identity_in(scheduler: Scheduler, output: str) -> Identity:
    """Return the identity of the job that a scheduler showed."""
    match = scheduler.identity_pattern and re.search(scheduler.identity_pattern, output)
    return Identity(**match.groupdict("")) if match else Identity()


class Cluster(NamedTuple):
    """Facts by which a cluster is told from another one with the same home. Empty: not known."""

    name: str = ""
    controller: str = ""


class _Controller:
    """A scheduler on a machine, as all runs of this process ask it, from many threads.

    Until it has answered one command is sent at a time. While it does not answer, its last word stands for HELD
    seconds: each run that asks in vain would cost the person TIMEOUT, and a busy controller more work.
    """

    def __init__(self, scheduler: Scheduler, machine: Machine) -> None:
        self._scheduler, self._machine = scheduler, machine
        self._one, self._of_cluster = threading.Lock(), threading.Lock()
        self._answers = False
        self._silent: tuple[float, Reply] | None = None  # until when, by time.monotonic()
        self._cluster = Cluster()

    def ask(self, argv: Sequence[str], env: Mapping[str, str] = IN_UTC) -> Reply:
        """Run a command of the scheduler's."""
        with self._one:
            if self._silent is not None and time.monotonic() < self._silent[0]:
                return self._silent[1]
            if not self._answers:
                return self._ask(argv, env)
        return self._ask(argv, env)

    def _ask(self, argv: Sequence[str], env: Mapping[str, str]) -> Reply:
        reply = self._machine.run(argv, env, timeout=TIMEOUT)
        silent = reply.timed_out or (reply.exit_code != 0 and re.search(self._scheduler.no_answer, reply.error))
        self._answers = not silent
        self._silent = (time.monotonic() + HELD, reply) if silent else None
        return reply

    def cluster(self) -> Cluster:
        """Return the cluster whose scheduler the machine asks. One answer serves all runs."""
        of = self._scheduler
        with self._of_cluster:
            if of.cluster and not self._cluster.name:
                output = self.ask(of.cluster, {}).output
                match = re.search(of.cluster_pattern, output)
                facts = re.findall(of.controller_pattern, output) if of.controller_pattern else []
                self._cluster = Cluster(match[1] if match else "", ", ".join(facts))
        return self._cluster


_controllers: dict[tuple[Scheduler, Machine], _Controller] = {}


def _controller(scheduler: Scheduler, machine: Machine) -> _Controller:
    return _controllers.setdefault((scheduler, machine), _Controller(scheduler, machine))


def cluster_of(scheduler: Scheduler, machine: Machine) -> Cluster:
    """Return the cluster whose scheduler a machine asks."""
    return _controller(scheduler, machine).cluster()


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


def _other_cluster(job: RecordedJob, here: Cluster) -> JobStatus | None:
    """Return the status of a job on another cluster than the one that is asked here; None: it can be this one's."""
    if job.cluster and here.name and here.name != job.cluster:
        where = f"on cluster {job.cluster}, and not visible from here: this is cluster {here.name}"
    elif job.controller and here.controller and here.controller != job.controller:
        where = f"not visible from here: this is another cluster with the name {here.name}"
    else:
        return None
    return JobStatus(state=RunState.ELSEWHERE, words=where, ask_there=True)


def _is_known_cluster(run: Run, job: RecordedJob, here: Cluster) -> bool:
    """Tell whether the scheduler that is asked here is surely the job's: only then a number that is gone has ended."""
    if job.cluster:
        return bool(here.name)
    return job.via is not None or run.launcher_host == os.uname().nodename


def _other_job(
    run: Run, job: RecordedJob, scheduler: Scheduler, reply: Reply, facts: Mapping[str, str]
) -> JobStatus | None:
    """Return the status of a job whose number is that of another one now; None: the scheduler showed the run's."""
    now = identity_in(scheduler, reply.output)
    if not now.submitted:
        return None if not scheduler.identity_pattern else _doubtful(run, scheduler, "shows no time of submission")
    restarted = (facts["restarts"] or "0") != "0"
    user = job.user or _user() or now.user
    if now.user != user or _is_later(run, job, now.submitted, restarted=restarted):
        words = f"job {run.job_id} has ended, and its number is that of another job now"
        return JobStatus(state=RunState.OVER, words=words)
    # A requeue changes the time, and a record may lack it.
    other_time = bool(job.submitted) and not restarted and now.submitted != job.submitted
    if other_time or _is_early(run, job, now.submitted):
        return _doubtful(run, scheduler, f"was submitted at {now.submitted}")
    if job.name and now.name != job.name:
        return _doubtful(run, scheduler, f"has the name {now.name!r}, and not {job.name!r}")
    return None


def _doubtful(run: Run, scheduler: Scheduler, why: str) -> JobStatus:
    words = f"the scheduler's job {run.job_id} may be another one: it {why}"
    return JobStatus(state=RunState.UNKNOWN, words=words, hint=shlex.join(scheduler.state_of(run.job_id or "")))


def _is_later(run: Run, job: RecordedJob, submitted: str, *, restarted: bool) -> bool:
    """Tell whether a job was submitted after the run's. A requeue also moves the time."""
    then, now = _seconds(job.submitted), _seconds(submitted)
    if now is None or restarted:
        return False
    return now > then if then is not None else not job.submitted and now > run.started + LATE


def _is_early(run: Run, job: RecordedJob, submitted: str) -> bool:
    """Tell whether a job was submitted before the run's, or, where that time is not known, before the run began."""
    then, now = _seconds(job.submitted), _seconds(submitted)
    return now is not None and now < (then if then is not None else run.started - EARLY)


def _seconds(text: str) -> float | None:
    """Return a time of SLURM as seconds since the epoch; None for another form."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def _failed(run: Run, job: RecordedJob, scheduler: Scheduler, bad: Sequence[Mapping[str, str]], name: str) -> JobStatus:
    """Return the status of a job by its parts that did not succeed: itself, or some jobs of its array."""

    def is_cancelled(facts: Mapping[str, str]) -> bool:
        # Without a state for it: the scheduler killed the job's script.
        killed = scheduler.signals_from > 0 and facts["signal"].strip("0")
        return bool(facts["state"] in scheduler.stopped or killed)

    first, cancelled = bad[0], all(map(is_cancelled, bad))
    killer, code = int(first["signal"] or 0), int(first["code"] or 0)
    if not cancelled and not job.many and first["state"] in ("FAILED", "OUT_OF_MEMORY", *scheduler.success_states):
        found = first_failure(run)
        if found is not None:  # the rank that failed says more
            failure, verdict = found
            return JobStatus(
                state=RunState.FAILED, exit_code=failure.exit_code, words=f"{name}: {verdict}", failure=failure
            )
    words = f"{name} ended as {first['state']}"
    if code and not cancelled:
        words += f", exit code {code}"
    exit_code = 128 + killer if killer else code or DdpkitError.exit_code
    return JobStatus(state=RunState.STOPPED if cancelled else RunState.FAILED, exit_code=exit_code, words=words)


# ---- ranks of a job that was not followed, from its own output


def first_failure(run: Run, kept: Path | None = None) -> tuple[Failure, str] | None:
    """Return the first failure and its verdict; None where the job's output does not show it, or is not seen here.

    `kept`: a file that gets the lines of the last attempt, in the form of `all.log`. Raises OSError for it.
    """
    from ddpkit.diagnosis.verdict import diagnose, verdict
    from ddpkit.run.logs import lines_of_job

    log, reader = job_log(run), reader_of(run)
    lines: dict[int | None, deque[str]] = defaultdict(lambda: deque(maxlen=LINES))
    # The attempt, and its first failure: that of an attempt before does not count.
    first: tuple[int, FailedEvent] | None = None
    attempt, printed = 0, list[bytes]()
    try:
        for event in _events(machine_of(run), log, reader):
            if reader.attempt != attempt:
                attempt = reader.attempt
                lines.clear()
                printed.clear()
            if event["e"] == "out":
                lines[event["rank"]].extend(event["data"].removesuffix("\n").split("\n"))
                if kept is not None:
                    printed += [line.labelled for line in lines_of_job(event)]
            elif event["e"] == "failed":
                known = first[1] if first is not None and first[0] == reader.attempt else None
                first = (reader.attempt, first_of(known, event))
    except OSError:
        return None
    if kept is not None:
        write_atomically(kept, b"".join(line + b"\n" for line in printed))
    if first is None or first[0] != reader.attempt:
        return None
    event = first[1]
    failure = Failure(
        host=event["host"],
        rank=event["rank"],
        what=event["what"],
        code=event["code"],
        signal=event["signal"],
        reason=event.get("reason", ""),
        raised=event.get("raised", ""),
        last_lines=tuple(lines[event["rank"]] or lines[None]),
    )
    failure = diagnose(failure, kept or Path(log))
    return failure, verdict(failure, failure.diagnosis)


@dataclass(frozen=True, kw_only=True)
class JobRanks:
    """Ranks of the last attempt of a job: hosts and process ids, exit codes or signals, and last lines."""

    hosts: dict[int, str]
    pids: dict[int, int]
    ends: dict[int, tuple[int | None, int | None]]
    lines: dict[int, str]


def job_ranks(run: Run) -> JobRanks | None:
    """Return the ranks of a job; None where its output is not visible from here."""
    reader, attempt = reader_of(run), 0
    ends: dict[int, tuple[int | None, int | None]] = {}
    lines: dict[int, str] = {}
    try:
        for event in _events(machine_of(run), job_log(run), reader):
            if reader.attempt != attempt:
                attempt = reader.attempt
                ends.clear()
                lines.clear()
            if event["e"] == "exit":
                ends[event["rank"]] = event["code"], event["signal"]
            elif event["e"] == "out" and event["rank"] is not None:
                lines[event["rank"]] = event["data"].removesuffix("\n").rpartition("\n")[2]
    except OSError:
        return None
    return JobRanks(hosts=dict(reader.hosts), pids=dict(reader.pids), ends=ends, lines=lines)


def _events(machine: Machine, log: str, reader: JobOutput) -> Iterator[Event]:
    for data in _head_and_tail(machine, log):
        yield from reader.feed(data)
    yield from reader.flush()


def _head_and_tail(machine: Machine, log: str) -> Iterator[bytes]:
    """Yield the beginning and the end of a file, in whole lines."""
    first = machine.read(log, 0, OUTPUT_HEAD + OUTPUT_TAIL + 1)
    if len(first) <= OUTPUT_HEAD + OUTPUT_TAIL:
        yield first
        return
    yield first[: first.find(b"\n", OUTPUT_HEAD) + 1 or None]
    tail = machine.read(log, -OUTPUT_TAIL, OUTPUT_TAIL)
    yield tail[tail.find(b"\n") + 1 :]
