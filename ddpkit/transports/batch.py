"""Jobs that a scheduler runs: submitted, followed through its output, ended.

The link speaks the events of a supervisor, so that verdict, logs and record are made by the same code for all backends.
"""

from __future__ import annotations

import glob
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from math import inf
from pathlib import Path
from typing import NamedTuple

from ddpkit.errors import DdpkitError, LaunchError
from ddpkit.launchers.events import Command, Event, FailedEvent
from ddpkit.launchers.host_names import Via
from ddpkit.launchers.job_output import JobOutput, first_of
from ddpkit.launchers.plan import FACTS, Batch, RankStarter, Scheduler, Step, job_facts
from ddpkit.machine import HERE, LostError, Machine, Phase, Poller
from ddpkit.transports.protocol import revealed
from ddpkit.transports.slurm_nodes import is_lost
from ddpkit.transports.srun import OverlapCalls, Post

PAUSES = (5.0, 10.0, 20.0, 40.0)  # seconds before the looks for a job that was submitted without an answer
_log = logging.getLogger(__name__)

SILENCE = 10.0  # seconds without an answer of the scheduler after which we say so
PIECE = 1 << 20  # bytes of the job's output in one read
LATE = 1.0  # seconds for the last lines of a job to come after its state: the file is on another host
LOST_AGAIN = 120.0  # seconds after which a job that has lost its script is requeued once more; most for one try
CUT_LIMIT = 7200.0  # seconds without a connection to a login host after which the job is left alone
_REASONS = {  # of those that do not pass by themselves, what is no lack of resources
    "DependencyNeverSatisfied": "a job that it depends on did not end as required, so that it never starts",
    "launch_failed_requeued_held": "a node could not start it, and it is held; for the nodes: sinfo -R",
}
LINGERING = 40.0  # seconds in which an ending job is expected to have ended: KillWait is 30 by default
LEFT_ALONE = 5.0  # the same for a job that only tests: a node that is gone keeps it in this state for minutes


class JobRejectedError(LaunchError):
    """The scheduler did not accept the job."""


def submit(
    batch: Batch,
    machine: Machine = HERE,
    note: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Give the job to the scheduler. Returns its id. Raises LaunchError: JobRejectedError has the scheduler's words.

    A busy controller may accept a job and not say so: it is looked for in the queue before it is submitted again. Where
    it is accepted later than that, the run has two jobs, and one of them is cancelled.
    """
    folder = str(Path(batch.log).parent)
    try:
        machine.make_folder(folder)  # without it the job would fail, and without a word
    except OSError as error:
        what = f"cannot write the job's output to {folder} on {machine.place}: {error.strerror or error}"
        raise LaunchError(what, "--log-dir DIR, or -o output=FILE") from None
    scheduler = batch.scheduler
    may_be_twice = False  # an earlier try got no answer
    for pause in PAUSES:
        reply = machine.run(batch.submit, revealed(dict(batch.env)))
        silent = reply.timed_out or (reply.exit_code != 0 and re.search(scheduler.no_answer, reply.error))
        can_be_found = bool(scheduler.submitted)
        if not silent or not can_be_found:
            break
        note(f"{reply.error.removeprefix(f'{batch.submit[0]}: error: ')}; looks for the job in {pause:g} s")
        may_be_twice = True
        found = _find_submitted(batch, machine, pause, note, sleep)
        if found:
            note(f"the scheduler had accepted job {found}")
            _cancel_others(batch, found, machine, note)
            return found
    if reply.missing:
        raise JobRejectedError(
            f"{batch.submit[0]} not found on {machine.place}",
            "run ddpkit on a login node; on this machine: ddpkit launch -b local",
        )
    if reply.timed_out:
        look = f"{_typed(batch, scheduler.ping)}; then check whether it accepted the job"
        raise LaunchError(reply.error, f"{look}: {_typed(batch, scheduler.queue)}")
    job_id = scheduler.id_in(reply.output)
    if reply.exit_code != 0 or not job_id:
        words = words_of(reply.error or reply.output, batch.submit[0])
        hint = refusal_hint(words, batch.submit[0], scheduler, batch.show_resources, batch.via)
        raise JobRejectedError(f"{batch.submit[0]} rejected the job: {words}", hint)
    if reply.error:  # a warning, or the words of the site's filter
        note(reply.error[:500])
    if may_be_twice:
        _cancel_others(batch, job_id, machine, note)
    return job_id


def _cancel_others(batch: Batch, kept: str, machine: Machine, note: Callable[[str], None]) -> None:
    """Cancel the jobs that earlier submissions without an answer made after all. They have the script of this run."""
    for job in _jobs_of(batch, machine.run(batch.scheduler.submitted).output):
        if job != kept:
            try:
                cancel(batch, job, machine)
            except LaunchError as error:
                note(f"the scheduler has accepted this run twice: {error.message}; {error.hint}")
            else:
                note(f"the scheduler had accepted this run twice: cancelled job {job}, follows job {kept}")


def _jobs_of(batch: Batch, listed: str) -> list[str]:
    """Return the ids of the jobs that run the script of this batch, of what `submitted` printed."""
    jobs = [line.strip().partition(" ") for line in listed.splitlines()]
    found = [batch.scheduler.id_in(job) for job, _, script in jobs if script.strip() == batch.submit[-1]]
    return list(dict.fromkeys(filter(None, found)))  # of an array each id begins with that of all


def _find_submitted(
    batch: Batch, machine: Machine, pause: float, note: Callable[[str], None], sleep: Callable[[float], None]
) -> str:
    """Return the id of the job that was submitted without an answer; empty: there is no such job.

    What a busy controller has not read yet, it reads before a later query. Raises LaunchError if it answers nothing.
    """
    scheduler = batch.scheduler
    for _ in PAUSES:
        sleep(pause)
        reply = machine.run(scheduler.submitted)
        if reply.exit_code == 0:
            return next(iter(_jobs_of(batch, reply.output)), "")
        note(f"{reply.error}; waits for the scheduler")
    raise LaunchError(
        f"{batch.submit[0]} got no answer, nor did {scheduler.submitted[0]}: whether the job was accepted is not known",
        f"{_typed(batch, scheduler.ping)}; then look for the job: {_typed(batch, scheduler.queue)}",
    )


def words_of(words: str, program: str) -> str:
    """Return what a scheduler's program said, without its name before each line."""
    return re.sub(rf" ?{re.escape(program)}: (?:error: )?", "; ", " ".join(words.split())).removeprefix("; ")


def refusal_hint(
    words: str, program: str, scheduler: Scheduler, show_resources: Sequence[str], via: Via | None = None
) -> str:
    """Return what the catalogue knows against this refusal, else the command that shows what can be requested."""
    from ddpkit.diagnosis.answer import advice_in
    from ddpkit.diagnosis.decide import analyze_log

    if re.search(scheduler.unreachable, words):
        return _by_hand(via, scheduler.ping)
    known = analyze_log([(program, f"{program}: error: {words}\n")]).first
    helps = known is not None and (known.known or advice_in(words))
    return known.fix if known is not None and helps else _by_hand(via, show_resources)


def filled(argv: tuple[str, ...], **words: str) -> list[str]:
    """Return a command of a `Batch` with a text for each name in braces."""
    for name, text in words.items():
        argv = tuple(word.replace(f"{{{name}}}", text) for word in argv)
    return list(argv)


def _typed(batch: Batch, argv: Sequence[str]) -> str:
    return _by_hand(batch.via, argv)


def _by_hand(via: Via | None, argv: Sequence[str]) -> str:
    """Return a scheduler's command as a person would type it here, with no more quotes than it needs."""
    return " ".join([*(via.by_hand if via else ()), *argv])


def stop_command(batch: Batch, job_id: str) -> str:
    """Return the command that cancels a job, as a person would type it here."""
    return _typed(batch, filled(batch.scheduler.stop, job=job_id))


def cancel(batch: Batch, job_id: str, machine: Machine = HERE) -> None:
    """Cancel a job. Raises LaunchError with the scheduler's own words."""
    argv = filled(batch.scheduler.stop, job=job_id)
    reply = machine.run(argv)
    if reply.exit_code != 0:
        words = reply.error or f"{argv[0]}: exit code {reply.exit_code}"
        raise LaunchError(f"cannot stop job {job_id}: {words}", stop_command(batch, job_id))


class JobState(Enum):
    """What the scheduler last said of a job, or its output, which is newer."""

    WAITS = "waits"  # in the queue
    RUNS = "runs"
    ENDING = "ending"  # its nodes end what is left of it
    OVER = "over"


class _HeldFailure(NamedTuple):
    """A failure in the output of a job, and the attempt in which it was read. A later attempt takes it back."""

    attempt: int
    event: FailedEvent


class JobLink:
    """A submitted job: its place in the queue, its output, its end. It goes on without us."""

    margin = 90.0  # sites give a cancelled job half a minute (KillWait), and its nodes some time to say so
    ahead = 0.0

    def __init__(self, batch: Batch, job_id: str, step: Step, machine: Machine = HERE) -> None:
        self._batch = batch
        self._machine = machine
        self._job_id = job_id
        self._log = batch.log.replace("{job}", job_id)
        self._by_srun = step.rank_starter is RankStarter.COLLECT
        self._reader = JobOutput(len(step.ranks), groups=step.groups)
        self._calls = OverlapCalls(self._reader, job_id, machine)
        self._closed = threading.Event()
        self._post: Post = lambda _: None
        self._offset = 0
        self._restarts = 0  # as the scheduler counts them; the reader counts what it has read
        self._held: _HeldFailure | None = None  # it is the job's failure only if the job is not started again
        self._state, self._since = JobState.WAITS, 0.0  # time.monotonic()
        self._silent_since = inf  # when the scheduler stopped answering
        self._told_silence = False
        self._cut_since: float | None = None  # when the connection to the scheduler's machine was lost; None: it is not
        self._cancelled = False  # by this command
        self._look_at = 0.0
        self._recover_at = 0.0  # after which a job that has lost its script is requeued
        self._vanished = False  # the output file, after some of it was read
        self._poller = Poller(machine.place, batch.poll, submitted=True)
        self._noted = ""
        self._reason = ""  # for which it was last seen to wait
        self._run = step.env.get("DDPKIT_RUN")
        self.outlives = (
            f"job {job_id} continues without this command; "
            f"to follow it: ddpkit attach {self._run}; to stop it: ddpkit stop {self._run}"
        )

    @property
    def _scheduler(self) -> Scheduler:
        return self._batch.scheduler

    @property
    def _given_up(self) -> bool:
        """Whether the connection has been lost for too long. The job continues."""
        return self._cut_since is not None and time.monotonic() > self._cut_since + CUT_LIMIT

    def _argv(self, argv: tuple[str, ...], **words: str) -> list[str]:
        return filled(argv, job=self._job_id, **words)

    def start(self, request: str, post: Post) -> None:
        self._post = post
        threading.Thread(target=self._follow, args=(post,), daemon=True).start()

    def send(self, command: Command) -> None:
        """Pass a signal on, or end the job: its ranks by TERM, and after the grace what is left by the scheduler.

        Where the script of the job decides what follows, only its step is ended. After a failure that its output
        reports, the script ends the other ranks by itself. A job whose ranks do not run has no use for a grace.
        """
        if command["c"] == "signal":
            self._signal_soon(command["name"])
        elif command["c"] == "stop":
            grace = command["grace"] if self._state is JobState.RUNS else 0.0
            if grace and not self._reader.failed:
                self._signal_soon("SIGTERM")
            timer = threading.Timer(grace, self._cancel, [self._reader.step if self._batch.nodes else self._job_id])
            timer.daemon = True
            timer.start()

    def _signal_soon(self, name: str) -> None:
        """Signal the ranks from a thread: a scheduler that does not answer must not keep the launcher from a Ctrl-C."""
        threading.Thread(target=self._signal, args=(name,), daemon=True).start()

    def call(self, function: str, args: Mapping[str, object]) -> int:
        if self._by_srun:
            return self._calls.call(function, args, self._post)
        self._post({"e": "answer", "id": 0, "data": "", "values": [], "error": None})
        self._post({"e": "note", "text": f"cannot reach the ranks of job {self._job_id}"})
        return 0

    def _signal(self, name: str) -> None:
        missed = f"{name} did not reach the ranks of job {self._job_id}"
        if self._state is not JobState.RUNS:
            self._post({"e": "note", "text": f"{missed}: they are not running"})
            return
        reply = self._machine.run(self._argv(self._scheduler.signal, signal=name.removeprefix("SIG")))
        if reply.exit_code != 0 and not self._closed.is_set():
            self._post({"e": "note", "text": f"{missed}: {reply.error}"})

    def _cancel(self, job_or_step: str) -> None:
        if not self._closed.is_set():
            self._machine.run(filled(self._scheduler.stop, job=job_or_step))
            self._cancelled = True

    def close(self) -> None:
        self._closed.set()
        self._poller.close()
        self._calls.close()

    def _follow(self, post: Post) -> None:
        try:
            for event in self._events():
                if self._closed.is_set():
                    return
                post(event)
        except Exception as error:  # a fault of ours: the launcher would wait without end
            _log.exception("cannot follow job %s", self._job_id)
            post({"e": "lost", "reason": f"cannot follow job {self._job_id}: {type(error).__name__}: {error}"})
        post(None)

    def _events(self) -> Iterator[Event]:
        """Yield the events of the job, from the queue to its end."""
        while not self._closed.is_set():
            held_before, ends_before, offset_before = self._held, self._reader.ends, self._offset
            yield from self._read()
            if self._given_up:
                yield {"e": "lost", "reason": f"no connection to {self._machine.place} for {CUT_LIMIT / 60:g} min"}
                return
            output_says_end = self._held is not held_before or self._reader.ends != ends_before
            if output_says_end or self._cancelled:
                self._cancelled = False
                self._poller.enter(Phase.ENDING)  # ask the scheduler more often: it alone knows
            if self._cut_since is None and self._poller.take_turn():
                yield from self._answer(self._facts())
                if self._state is JobState.OVER:
                    return
            if self._offset < offset_before + PIECE:  # else there is more to read
                self._closed.wait(self._machine.pause)

    def _answer(self, facts: dict[str, str]) -> Iterator[Event]:
        """Take what the scheduler says of the job."""
        batch, scheduler, state = self._batch, self._scheduler, facts["state"]
        yield from self._restarted(int(facts["restarts"] or 0))
        if state in scheduler.waiting:
            self._enter(JobState.WAITS)
            self._poller.enter(Phase.QUEUED)
            self._reader.nodes = ""  # of a start before this wait
            yield from self._waits(facts)
        elif state in scheduler.running:
            self._enter(JobState.RUNS)
            if self._poller.phase is Phase.QUEUED:
                self._poller.enter(Phase.LIVING)
            yield from self._say(scheduler.place_of(state, facts["nodes"]))
            self._requeue_without_script(facts)
            if self._held is not None and not batch.nodes and self._held.event["code"] != batch.requeue_exit_code:
                yield self._held.event
                self._held = None
        elif state in scheduler.ending:
            self._enter(JobState.ENDING)
            if self._poller.phase is not Phase.ENDING:
                self._poller.enter(Phase.ENDING)
            yield from self._lingers(facts["nodes"])
        elif state:
            self._enter(JobState.OVER)
            yield from self._ended(facts)

    def _enter(self, state: JobState) -> None:
        if state is not self._state:
            self._state, self._since = state, time.monotonic()

    def _waits(self, facts: Mapping[str, str]) -> Iterator[Event]:
        """Say why the job waits. It stays in the queue, as with `sbatch` alone, unless it is `disposable`: a test."""
        reason = facts["reason"]
        if re.search(self._scheduler.unsatisfiable_reasons, reason):
            if self._batch.disposable:
                self._enter(JobState.OVER)
                self._machine.run(self._argv(self._scheduler.stop))
                words = f"would wait forever ({reason}), and was cancelled"
                yield self._failed(words, code=LaunchError.exit_code)
                yield {"e": "end"}
            elif reason != self._reason:
                show = _typed(self._batch, self._batch.show_resources)
                why = f"{reason}, and cannot start as requested; for the available resources: {show}"
                why = f"{reason}: {_REASONS[reason]}" if reason in _REASONS else why
                yield from self._say(f"waits in the queue: {why}; to cancel it: ddpkit stop {self._run}")
        else:
            start = "" if facts["start"] in ("Unknown", "N/A", "") else f", estimated start {facts['start']}"
            # SLURM has not looked at it yet: then its reason is `None`.
            why = "" if reason in ("None", "") else f": {reason}"
            yield from self._say(f"waits in the queue{why}{start}")
        self._reason = reason

    def _say(self, text: str) -> Iterator[Event]:
        """Say what the job does, once."""
        if text != self._noted:
            self._noted = text
            yield {"e": "note", "text": f"job {self._job_id} {text}"}

    def _failed(self, reason: str, code: int | None = None, signal: int | None = None) -> FailedEvent:
        what = f"job {self._job_id}"
        return {"e": "failed", "rank": None, "what": what, "reason": reason, "code": code, "signal": signal}

    def _facts(self) -> dict[str, str]:
        """Ask the scheduler for the job; a state of "" where it does not answer."""
        reply = self._machine.run(self._argv(self._scheduler.state))
        match = re.search(self._scheduler.state_pattern, reply.output)
        if match:
            self._silent_since, self._told_silence = inf, False
            # A heterogeneous job has one for each group.
            nodes = [each.groupdict().get("nodes") for each in re.finditer(self._scheduler.state_pattern, reply.output)]
            return {**job_facts(match, self._scheduler.signals_from), "nodes": ",".join(filter(None, nodes))}
        nothing = dict.fromkeys(FACTS, "")
        if re.search(self._scheduler.forgotten_pattern, reply.error):
            return {**nothing, "state": "gone"}
        now = time.monotonic()
        self._silent_since = min(self._silent_since, now)
        if now > self._silent_since + SILENCE and not self._told_silence:
            self._told_silence = True
            text = f"{self._scheduler.state[0]} does not answer ({reply.error}); job {self._job_id} is still followed"
            self._post({"e": "note", "text": text})
        return nothing

    def _restarted(self, restarts: int) -> Iterator[Event]:
        """Discard a failure of an earlier attempt. `restarts`: the scheduler's count, also before the output."""
        if restarts > self._restarts:
            self._restarts, self._noted = restarts, ""
            yield {"e": "note", "text": f"job {self._job_id} was requeued and starts again"}
        if self._held is not None and self._held.attempt < max(restarts, self._reader.attempt):
            if self._held.attempt == self._reader.attempt:
                self._reader.reset_after_requeue()
            self._held = None

    def _requeue_without_script(self, facts: Mapping[str, str]) -> None:
        """Requeue a job that has lost the node of its script, in a thread: it takes up to a minute."""
        lost = self._batch.script_lost and is_lost(facts["script"], facts["nodes"])
        if not lost or time.monotonic() < self._recover_at:
            return
        self._recover_at = time.monotonic() + LOST_AGAIN
        threading.Thread(target=self._recover, args=(facts["script"],), daemon=True).start()

    def _recover(self, host: str) -> None:
        """Run the program that requeues the job. Its notes go into the job's output."""
        reply = self._machine.run(self._batch.script_lost, revealed(dict(self._batch.env)), LOST_AGAIN)
        if reply.exit_code != 0 and reply.error:
            by_hand = _typed(self._batch, ("scontrol", "requeue", self._job_id))
            what = f"job {self._job_id} has lost {host}, on which its script ran, and was not requeued"
            self._post({"e": "note", "text": f"{what}: {reply.error}; {by_hand}"})

    def _lingers(self, nodes: str) -> Iterator[Event]:
        """Say that the job is still ending, after a while: where a node hangs, its end never comes.

        Then a failure of a rank is passed on, and a job that only tests is left alone.
        """
        lingers, seconds = f"is still ending on {nodes}", time.monotonic() - self._since
        if self._batch.disposable and seconds > LEFT_ALONE:
            self._enter(JobState.OVER)
            yield self._held.event if self._held is not None else self._failed(lingers, code=1)
            yield {"e": "end"}
        elif seconds > LINGERING:
            yield from self._say(lingers)
            if self._held is not None:
                yield self._held.event
                self._held = None

    def _ended(self, facts: dict[str, str]) -> Iterator[Event]:
        """Read the rest of the output, then yield how the job ended: by its output where that names the rank."""
        until = time.monotonic() + LATE
        while not (self._given_up or self._closed.is_set()):
            if time.monotonic() >= until and self._cut_since is None:
                break
            offset = self._offset
            yield from self._read()
            if self._offset > offset or self._cut_since is not None:
                until = time.monotonic() + LATE
            if self._offset < offset + PIECE:
                time.sleep(0.05)
        yield from self._take(self._reader.flush())
        yield from self._restarted(self._restarts)
        state, code, killer = facts["state"], int(facts["code"] or 0), int(facts["signal"] or 0)
        # A scheduler may have one state for every end, and only its exit code tells which.
        succeeded = state in self._scheduler.success_states and not code and not killer
        if not self._offset and succeeded:
            text = f"the job's output {self._log} is not visible on {self._machine.place}"
            yield {"e": "note", "text": f"{text}; use a shared path: -o output=FILE"}
        reason = {
            "CANCELLED": "was cancelled",
            "TIMEOUT": "reached its time limit; request more: --time D-HH:MM:SS",
            "DEADLINE": "reached its deadline",
            "NODE_FAIL": f"lost a node of {facts['nodes']}; for the reason: sinfo -R",
            "PREEMPTED": "was preempted",
            "OUT_OF_MEMORY": "ran out of memory; request more: --mem SIZE, as in --mem 64G",
            "gone": f"is no longer known to the scheduler, and its exit code is unknown; its output: {self._log}",
        }.get(state, "")
        if self._batch.script_lost and is_lost(facts["script"], facts["nodes"]):
            state = "NODE_FAIL"  # it was cancelled for that
            reason = f"lost a node: {facts['script']}, on which its script ran"
            killer = 0
        if killer == self._scheduler.no_output:
            reason = f"could not write its output {self._log} on {facts['nodes'].partition(',')[0]}"
            reason += "; use a path that all nodes can write to: -o output=FILE"
            yield self._failed(reason, code=LaunchError.exit_code)
        elif self._held is not None and state in ("FAILED", "OUT_OF_MEMORY", "gone", *self._scheduler.success_states):
            failed = self._held.event  # it has the rank, and so says more
            yield {**failed, "kernel": f"SLURM: {state}"} if state == "OUT_OF_MEMORY" else failed
        elif succeeded:
            yield from self._reader.finished()
        elif not self._reader.failed or self._held is not None:
            # Of a job that is ended SLURM keeps the code of whatever came first: its script's, or that of the TERM.
            if killer or state in ("CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED"):
                yield self._failed(reason, signal=15 if state == "TIMEOUT" else killer or 15)
            else:
                yield self._failed(reason, code=code or DdpkitError.exit_code)
        yield {"e": "end"}

    def _started(self) -> Iterator[Event]:
        """Note that the job runs, because its output says so: the scheduler last said that it waits, and is queried.

        The nodes are those of the output where it names them, else those of the scheduler.
        """
        if self._state is not JobState.WAITS or self._poller.phase is not Phase.QUEUED:
            return
        self._enter(JobState.RUNS)
        nodes = self._reader.nodes or self._nodes_now()
        self._reader.nodes = nodes
        if nodes:
            self._poller.enter(Phase.LIVING)
            yield from self._say(f"runs on {nodes}")

    def _nodes_now(self) -> str:
        """Query the scheduler once, out of turn, for the nodes of a job that runs. Empty: it says something else."""
        self._poller.count()
        facts = self._facts()
        return facts["nodes"] if facts["state"] in self._scheduler.running else ""

    def _read(self) -> Iterator[Event]:
        """Read new lines of the job's output file. Notes a lost connection, and a file that has vanished."""
        try:
            data = self._machine.read(self._log, self._offset, PIECE)
        except LostError as lost:
            if self._cut_since is None:
                self._cut_since = time.monotonic()
                what = f"lost the connection to {self._machine.place}: {lost}"
                yield {"e": "note", "text": f"{what}; job {self._job_id} continues; connecting again"}
            return
        except OSError as error:
            self._cut_since = None
            if isinstance(error, FileNotFoundError) and self._offset and not self._vanished:
                self._vanished = True
                self._poller.enter(Phase.ENDING)
            # A folder that was listed anew shows the file earlier: NFS clients remember what was not there.
            if time.monotonic() > self._look_at:
                self._look_at = time.monotonic() + 1.0
                with suppress(OSError):
                    self._machine.find(f"{glob.escape(str(Path(self._log).parent))}/*")
            return
        if self._cut_since is not None:
            self._cut_since = None
            yield {"e": "note", "text": f"connected to {self._machine.place} again"}
        self._offset += len(data)
        yield from self._take(self._reader.feed(data))
        if self._reader.nodes:
            yield from self._started()

    def _take(self, events: Iterator[Event]) -> Iterator[Event]:
        """Pass on what the job's output tells, but a failure: the scheduler knows whether it is the job's end."""
        for event in events:
            if event["e"] == "failed":
                attempt = self._reader.attempt
                known = self._held.event if self._held is not None and self._held.attempt == attempt else None
                self._held = _HeldFailure(attempt, first_of(known, event))
            else:
                if event["e"] == "start":
                    yield from self._started()  # before the first lines of its ranks
                yield event
