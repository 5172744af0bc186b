"""Jobs that a scheduler runs: submitted, followed through its output, ended.

The link speaks the events of a supervisor, so that verdict, logs and record are made by the same code for all backends.
"""

from __future__ import annotations

import os
import re
import shlex
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ddpkit.errors import DdpkitError, LaunchError
from ddpkit.launchers.events import Command, Event, FailedEvent
from ddpkit.launchers.plan import FACTS, Batch, Scheduled, Step, job_facts
from ddpkit.launchers.shell import join
from ddpkit.launchers.slurm_output import SrunReader
from ddpkit.scheduler import run_command
from ddpkit.transports.protocol import revealed
from ddpkit.transports.srun import Post
from ddpkit.transports.srun_overlap import OverlapCalls

SILENCE = 10.0  # seconds without an answer of the scheduler after which we say so
OWN_END = 5.0  # seconds beyond the grace: a rank that an exception ended is then ended on its node, and the job fails
LINGERING = 40.0  # seconds in which an ending job is expected to have ended: KillWait is 30 by default


def submit(batch: Batch) -> str:
    """Give the job to the scheduler. Returns its id. Raises LaunchError with the scheduler's own words."""
    folder = Path(batch.log).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)  # without it the job would fail, and without a word
    except OSError as error:
        raise LaunchError(
            f"cannot create the directory {folder} for the job's output: {error.strerror}",
            "--log-dir DIR, or -o output=FILE",
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise LaunchError(f"the job cannot write its output to {folder}", "--log-dir DIR, or -o output=FILE")
    changes = revealed(dict(batch.env))
    env = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
    reply = run_command(batch.submit, env)
    if reply.missing:
        raise LaunchError(
            f"{batch.submit[0]} not found on this machine",
            "run ddpkit on a login node; on this machine: ddpkit launch -b local",
        )
    if reply.timed_out:
        raise LaunchError(
            reply.error,
            f"{' '.join(batch.ping)}; then check whether it accepted the job: " + " ".join(batch.queue),
        )
    job_id = re.search(batch.job_id, reply.output, re.MULTILINE)
    if reply.exit_code != 0 or job_id is None:
        lines = (reply.error or reply.output).splitlines()
        words = "; ".join(line.strip().removeprefix(f"{batch.submit[0]}: error: ") for line in lines if line.strip())
        hint = batch.ping if re.search(batch.unreachable, words) else batch.show_resources
        raise LaunchError(f"{batch.submit[0]} rejected the job: {words}", join(hint))
    return job_id[1]


def filled(argv: tuple[str, ...], **words: str) -> list[str]:
    """Return a command of a `Batch` with a text for each name in braces."""
    for name, text in words.items():
        argv = tuple(word.replace(f"{{{name}}}", text) for word in argv)
    return list(argv)


def stop_argv(batch: Batch, job_id: str) -> list[str]:
    """Return the command that cancels a job."""
    return filled(batch.stop, job=job_id)


def cancel(batch: Batch, job_id: str) -> None:
    """Cancel a job. Raises LaunchError with the scheduler's own words."""
    argv = stop_argv(batch, job_id)
    reply = run_command(argv)
    if reply.exit_code != 0:
        words = reply.error or f"{argv[0]}: exit code {reply.exit_code}"
        raise LaunchError(f"cannot stop job {job_id}: {words}", shlex.join(argv))


def remembered(batch: Batch, step: Step, job_id: str) -> Scheduled:
    """Describe the job for the record of its run, so that any later shell can ask for it."""
    return Scheduled(
        state=tuple(filled(batch.state, job=job_id)),
        pattern=batch.state_pattern,
        waiting=batch.waiting,
        running=(*batch.running, *batch.ending),
        success_states=batch.success_states,
        stopped=batch.stopped,
        forgotten_pattern=batch.forgotten_pattern,
        stop=tuple(stop_argv(batch, job_id)),
        log=batch.log,
        many=not batch.follow,
        torchrun=step.rank_starter.labels_ranks,
        labels=step.rank_starter.labels_tasks,
        signals_from=batch.signals_from,
    )


class JobLink:
    """A submitted job: its place in the queue, its output, its end. It goes on without us."""

    margin = 90.0  # sites give a cancelled job half a minute (KillWait), and its nodes some time to say so

    def __init__(self, batch: Batch, job_id: str, step: Step) -> None:
        self._batch = batch
        self._job_id = job_id
        self._log = batch.log.replace("{job}", job_id)
        self._by_srun = step.rank_starter.labels_tasks
        tapped = step.rank_starter.labels_ranks
        self._reader = SrunReader(len(step.ranks), torchrun=tapped, labels=self._by_srun, lost=batch.nodes > 0)
        self._calls = OverlapCalls(self._reader, job_id)
        self._closed = threading.Event()
        self._post: Post = lambda _: None
        self._offset = 0
        self._restarts = 0  # as the scheduler counts them; the reader counts what it has read
        # A failure, and the attempt in which it was read. It is the job's only if the job is not started again.
        self._held: tuple[int, FailedEvent] | None = None
        self._ending: float | None = None  # when the job was first seen to be ending
        self._silent: float | None = None  # when the scheduler stopped answering
        self._runs = False
        self._look_at = 0.0
        self._noted = ""
        self.outlives = (
            f"job {job_id} continues without this command. Its output: tail -f {self._log}; "
            f"to stop it: {' '.join(self._argv(batch.stop))}"
        )

    def _argv(self, argv: tuple[str, ...], **words: str) -> list[str]:
        return filled(argv, job=self._job_id, **words)

    def start(self, request: str, post: Post) -> None:
        self._post = post
        threading.Thread(target=self._follow, args=(post,), daemon=True).start()

    def send(self, command: Command) -> None:
        """Pass a signal on. A stop comes after a failure only: the job ends by itself, or the grace over, by us.

        Where what failed has not ended, srun ends nobody: then the ranks get their TERM from us.
        """
        if command["c"] == "signal":
            # In a thread: a scheduler that does not answer must not keep the launcher from a Ctrl-C.
            threading.Thread(target=self._signal, args=(command["name"],), daemon=True).start()
        elif command["c"] == "stop":
            grace = float(command["grace"])
            if self._reader.goes_on and grace > 0:
                threading.Thread(target=self._signal, args=("SIGTERM",), daemon=True).start()
                grace += OWN_END
            timer = threading.Timer(grace, self._cancel)
            timer.daemon = True
            timer.start()

    def call(self, function: str, args: Mapping[str, object]) -> int:
        if self._by_srun:
            return self._calls.call(function, args, self._post)
        self._post({"e": "answer", "id": 0, "data": "", "values": [], "error": None})
        self._post({"e": "note", "text": f"cannot reach the ranks of job {self._job_id}"})
        return 0

    def _signal(self, name: str) -> None:
        missed = f"{name} did not reach the ranks of job {self._job_id}"
        if not self._runs:
            self._post({"e": "note", "text": f"{missed}: they are not running"})
            return
        reply = run_command(self._argv(self._batch.signal, signal=name.removeprefix("SIG")))
        if reply.exit_code != 0 and not self._closed.is_set():
            self._post({"e": "note", "text": f"{missed}: {reply.error}"})

    def _cancel(self) -> None:
        if not self._closed.is_set():
            run_command(self._argv(self._batch.stop))

    def close(self) -> None:
        self._closed.set()
        self._calls.close()

    def _follow(self, post: Post) -> None:
        for event in self._events():
            if self._closed.is_set():
                return
            post(event)
        post(None)

    def _events(self) -> Iterator[Event]:
        """Yield the events of the job, from the queue to its end."""
        batch, pause, ask_at = self._batch, 0.2, 0.0
        while not self._closed.is_set():
            held = self._held
            yield from self._read()
            if self._held is not held:
                ask_at = 0.0  # whether it is the job's end, the scheduler knows
            if time.monotonic() >= ask_at:
                facts = self._facts()
                # Controllers are shared: a job that waits is asked about less and less often.
                pause = min(pause * 1.5, 10.0) if facts["state"] in batch.waiting else min(pause * 1.5, 2.0)
                yield from self._restarted(int(facts["restarts"] or 0))
                self._runs = facts["state"] in (*batch.running, "")
                if facts["state"] in batch.waiting:
                    if re.search(batch.unsatisfiable_reasons, facts["reason"]):
                        run_command(self._argv(batch.stop))
                        reason = f"would wait forever ({facts['reason']}), and was cancelled"
                        reason += f"; for the available resources: {' '.join(batch.show_resources)}"
                        yield self._failed(reason, code=LaunchError.exit_code)
                        yield {"e": "end"}
                        return
                    start = "" if facts["start"] in ("Unknown", "N/A", "") else f", estimated start {facts['start']}"
                    # SLURM has not looked at it yet: then its reason is `None`.
                    why = "" if facts["reason"] in ("None", "") else f": {facts['reason']}"
                    yield from self._say(f"waits in the queue{why}{start}")
                elif facts["state"] in batch.running:
                    if f"runs on {facts['nodes']}" != self._noted:
                        pause = 0.2
                    yield from self._say(f"runs on {facts['nodes']}")
                    again = batch.nodes and not self._reader.goes_on
                    if self._held is not None and not again and self._held[1]["code"] != batch.requeue_exit_code:
                        yield self._held[1]
                        self._held = None
                elif facts["state"] in batch.ending:
                    yield from self._lingers(facts["nodes"])
                elif facts["state"]:
                    yield from self._ended(facts)
                    return
                ask_at = time.monotonic() + (0.2 if self._held or self._reader.failed else pause)
            self._closed.wait(0.1)

    def _say(self, text: str) -> Iterator[Event]:
        """Say what the job does, once. It did not end after all."""
        self._ending = None
        if text != self._noted:
            self._noted = text
            yield {"e": "note", "text": f"job {self._job_id} {text}"}

    def _failed(self, reason: str, code: int | None = None, signal: int | None = None) -> FailedEvent:
        what = f"job {self._job_id}"
        return {"e": "failed", "rank": None, "what": what, "reason": reason, "code": code, "signal": signal}

    def _facts(self) -> dict[str, str]:
        """Ask the scheduler for the job; a state of "" where it does not answer."""
        reply = run_command(self._argv(self._batch.state))
        match = re.search(self._batch.state_pattern, reply.output)
        if match:
            self._silent = None
            return job_facts(match, self._batch.signals_from)
        nothing = dict.fromkeys(FACTS, "")
        if re.search(self._batch.forgotten_pattern, reply.error):
            return {**nothing, "state": "gone"}
        now = time.monotonic()
        if self._silent is None:
            self._silent = now
        elif 0 < self._silent < now - SILENCE:
            self._silent = 0.0  # said
            text = f"{self._batch.state[0]} does not answer ({reply.error}); job {self._job_id} is still followed"
            self._post({"e": "note", "text": text})
        return nothing

    def _restarted(self, restarts: int) -> Iterator[Event]:
        """Discard a failure of the attempt before a requeue, also where it is read only now."""
        if restarts > self._restarts:
            self._restarts, self._noted = restarts, ""
            yield {"e": "note", "text": f"job {self._job_id} was requeued and starts again"}
        if self._held is not None and self._held[0] < max(restarts, self._reader.attempt):
            if self._held[0] == self._reader.attempt:
                self._reader.reset_after_requeue()
            self._held = None

    def _lingers(self, nodes: str) -> Iterator[Event]:
        """The job is ending, which takes a moment, or for ever where a node hangs."""
        now = time.monotonic()
        if self._ending is None:
            self._ending = now
        elif now > self._ending + LINGERING and self._noted != "ending":
            self._noted = "ending"
            yield {"e": "note", "text": f"job {self._job_id} is still ending on {nodes}"}
            if self._held is not None:
                yield self._held[1]
                self._held = None

    def _ended(self, facts: dict[str, str]) -> Iterator[Event]:
        # The last lines may come after the state: the file is on another host.
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            yield from self._read()
            time.sleep(0.05)
        yield from self._reader.flush()
        yield from self._restarted(self._restarts)
        state, code, killer = facts["state"], int(facts["code"] or 0), int(facts["signal"] or 0)
        # A scheduler may have one state for every end, and only its exit code tells which.
        succeeded = state in self._batch.success_states and not code and not killer
        if not self._offset and succeeded:
            text = f"the job's output {self._log} is not visible on this host; use a shared path: -o output=FILE"
            yield {"e": "note", "text": text}
        reason = {
            "CANCELLED": "was cancelled",
            "TIMEOUT": "reached its time limit; request more: -o time=...",
            "DEADLINE": "reached its deadline",
            "NODE_FAIL": f"lost a node of {facts['nodes']}; for the reason: sinfo -R",
            "PREEMPTED": "was preempted",
            "OUT_OF_MEMORY": "ran out of memory; request more: -o mem=...",
            "gone": f"is no longer known to the scheduler, and its exit code is unknown; its output: {self._log}",
        }.get(state, "")
        if killer == self._batch.no_output:
            reason = f"could not write its output {self._log} on {facts['nodes'].partition(',')[0]}"
            reason += "; use a path that all nodes can write to: -o output=FILE"
            yield self._failed(reason, code=LaunchError.exit_code)
        elif self._held is not None and state in ("FAILED", "OUT_OF_MEMORY", "gone", *self._batch.success_states):
            yield self._held[1]  # which rank it was says more
        elif succeeded:
            yield from self._reader.finished()
        elif not self._reader.failed or self._held is not None:
            # Of a job that is ended SLURM keeps the code of whatever came first: its script's, or that of the TERM.
            if killer or state in ("CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED"):
                yield self._failed(reason, signal=15 if state == "TIMEOUT" else killer or 15)
            else:
                yield self._failed(reason, code=code or DdpkitError.exit_code)
        yield {"e": "end"}

    def _read(self) -> Iterator[Event]:
        """Read new lines of the job's output file."""
        try:
            with open(self._log, "rb") as file:
                file.seek(self._offset)
                data = file.read(1 << 20)
        except OSError:
            # A folder that was listed anew shows the file earlier: NFS clients remember what was not there.
            if time.monotonic() > self._look_at:
                self._look_at = time.monotonic() + 1.0
                with suppress(OSError):
                    list(Path(self._log).parent.iterdir())
            return
        self._offset += len(data)
        for event in self._reader.feed(1, data):
            if event["e"] == "failed":
                self._held = (self._reader.attempt, event)
            else:
                # What ranks say themselves is newer than what the scheduler last said.
                self._runs = self._runs or event["e"] == "start"
                yield event
