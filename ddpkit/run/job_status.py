"""Status of a scheduler's job, from the scheduler's own command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddpkit.diagnosis.outcome import Failure
from ddpkit.errors import DdpkitError
from ddpkit.launchers.plan import Scheduled, job_facts
from ddpkit.launchers.slurm_output import says_end
from ddpkit.machine import Phase, Poller
from ddpkit.run.record import Run
from ddpkit.run.site import job_log, machine_of

TIMEOUT = 15.0  # seconds for the scheduler's command
TAIL = 4096  # bytes at the end of a job's output, in which its end shows


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """`state`: queued, running, unknown, or how it ended: done, failed, stopped, over."""

    state: str
    words: str = ""  # empty for one that is done
    hint: str = ""
    exit_code: int | None = None
    failure: Failure | None = None  # the first rank that failed, where the job's output shows it

    @property
    def ended(self) -> bool:
        return self.state not in ("queued", "running", "unknown")


class _Known:
    """What this process knows of one job: its last status, and when the scheduler may be asked again."""

    def __init__(self, place: str, period: float) -> None:
        self.poller = Poller(place, period)
        self.status: JobStatus | None = None
        self.tail = b""  # the end of its output
        self.ends = False  # as that says

    def look(self, run: Run, job: Scheduled) -> None:
        """Look at the end of the job's output: it shows the start and the end sooner than the scheduler is asked."""
        if job.many:
            return
        try:
            tail = machine_of(run).read(job_log(run), -TAIL, TAIL)
        except OSError:
            tail = b""
        if tail == self.tail or self.status is None:
            return
        began, ends = not self.tail and self.status.state == "queued", self.ends
        self.tail, self.ends = tail, not tail or says_end(tail.decode("utf-8", "replace"))
        if began or (self.ends and not ends):
            self.poller.enter(Phase.ENDING)
        elif ends and not self.ends:
            self.poller.enter(Phase.LIVING)


_known: dict[tuple[str, str], _Known] = {}


def expect_end(run: Run, job: Scheduled) -> None:
    """The job was cancelled: its scheduler may be asked about it again, less and less often."""
    _of(run, job).poller.enter(Phase.ENDING)


def _of(run: Run, job: Scheduled) -> _Known:
    key = run.folder, run.job_id or ""
    if key not in _known:
        _known[key] = _Known(machine_of(run).place, job.poll)
    return _known[key]


def get_job_status(run: Run, job: Scheduled) -> JobStatus:
    """Return the status of a job. While its output goes on, all runs of this process ask once in `job.poll` seconds."""
    known = _of(run, job)
    known.look(run, job)
    if known.status is None:
        known.poller.count()
    elif not known.poller.take_turn():
        return known.status
    known.status = ask_scheduler(run, job)
    if known.status.ended:
        known.poller.close()
    elif known.status.state == "running" and not known.ends:
        known.poller.enter(Phase.LIVING)
    return known.status


def ask_scheduler(run: Run, job: Scheduled) -> JobStatus:
    """Ask for the job of a run, or for all jobs of its array."""
    reply = machine_of(run).run(job.state, timeout=TIMEOUT)
    jobs = [job_facts(match, job.signals_from) for match in re.finditer(job.pattern, reply.output)]
    name = f"job {run.job_id}"
    if not jobs and re.search(job.forgotten_pattern, reply.error):
        return JobStatus(state="over", words=f"{name} has ended, and the scheduler no longer knows its exit code")
    if not jobs:
        words = f"{name}: no valid answer from the scheduler: {reply.error or 'unknown output'}"
        return JobStatus(state="unknown", words=words, hint=shlex.join(job.state))
    waiting = [facts for facts in jobs if facts["state"] in job.waiting]
    running = [facts for facts in jobs if facts["state"] in job.running]
    if len(jobs) > 1 and (waiting or running):
        ended = len(jobs) - len(waiting) - len(running)
        words = f"{name}, an array: {len(running)} run, {len(waiting)} wait, {ended} have ended"
        return JobStatus(state="running" if running else "queued", words=words)
    if running:
        return JobStatus(state="running", words=f"{name} runs on {running[0]['nodes']}")
    if waiting:
        return JobStatus(state="queued", words=f"{name} waits in the queue: {waiting[0]['reason']}")
    bad = [
        each for each in jobs if each["state"] not in job.success_states or (each["code"] + each["signal"]).strip("0")
    ]
    return _failed(run, job, bad, name) if bad else JobStatus(state="done", exit_code=0)


def _failed(run: Run, job: Scheduled, bad: Sequence[Mapping[str, str]], name: str) -> JobStatus:
    first = bad[0]
    killer, code = int(first["signal"] or 0), int(first["code"] or 0)
    # A job's script that the scheduler itself has killed was cancelled, where its state does not say.
    cancelled = all(facts["state"] in job.stopped or (job.signals_from and facts["signal"].strip("0")) for facts in bad)
    if not cancelled and not job.many and first["state"] in ("FAILED", "OUT_OF_MEMORY", *job.success_states):
        from ddpkit.run.postmortem import first_failure

        rank = first_failure(run)
        if rank is not None:  # the rank that failed says more
            failure, verdict = rank
            return JobStatus(state="failed", exit_code=failure.exit_code, words=f"{name}: {verdict}", failure=failure)
    words = f"{name} ended as {first['state']}"
    if code and not cancelled:
        words += f", exit code {code}"
    exit_code = 128 + killer if killer else code or DdpkitError.exit_code
    return JobStatus(state="stopped" if cancelled else "failed", exit_code=exit_code, words=words)
