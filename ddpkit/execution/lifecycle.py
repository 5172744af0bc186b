"""Life cycle of one run: folder, files, job, record, loop, diagnosis, finished record. Prints nothing.

`ddpkit launch`, `test`, `bench` and `import ddpkit` share it. Lines of the run go to the caller's `Relay`.
"""

from __future__ import annotations

import os
import queue
import shlex
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ddpkit.console.relay import Relay
from ddpkit.console.style import Panel
from ddpkit.diagnosis import verdict
from ddpkit.diagnosis.outcome import Decision, Failure, Outcome
from ddpkit.errors import DdpkitError, LaunchError, UsageError, hide_in_text
from ddpkit.execution import executor, on_end
from ddpkit.execution.attempts import Attempts, CheckHosts, NotPlanned
from ddpkit.execution.job import is_public
from ddpkit.launchers import registry
from ddpkit.launchers.host_names import format_hosts
from ddpkit.launchers.plan import OnEnd, Plan, RankStarter, Step, render_plan
from ddpkit.launchers.shell import count, hide_in_script, hide_secrets, hide_values
from ddpkit.monitor.server import NO_WATCH, Watching
from ddpkit.node import owned
from ddpkit.node.supervision.clock import Clock
from ddpkit.run import launcher_process, metrics, record, run_files, run_index, timeline
from ddpkit.run.log_files import ALL, LogFiles
from ddpkit.run.state import EndState, Origin, RunState
from ddpkit.transports import batch
from ddpkit.transports.protocol import Link

if TYPE_CHECKING:
    from ddpkit.config import LaunchSettings
    from ddpkit.execution.prepare import Ready
    from ddpkit.transports.transport import Transport


GIT_PATIENCE = 0.5  # seconds at the end of a run for git to answer
METRICS_PATIENCE = 0.2  # seconds at its start for the search for metrics


def _ranks(plan: Plan) -> dict[str, list[int]]:
    return {step.host: list(step.ranks) for step in plan.steps if not step.scheduled}


def _verdict(failure: Failure | None) -> str | None:
    return verdict.verdict(failure, failure.diagnosis) if failure else None


def _survivors(outcome: Outcome) -> str | None:
    """Return words for hosts that did not confirm the end of their ranks: the run was stopped, and they may not be."""
    reason = next(iter(outcome.lost.values()), "")
    return f"processes may still run on {format_hosts(list(outcome.lost))}: {reason}" if outcome.lost else None


def _load_catalogue() -> None:
    """Load it in a thread of its own. The diagnosis loads it again, and reports an error, where this one fails.

    Two threads import the same modules. Python before 3.12 can raise KeyError in that
    (https://github.com/python/cpython/issues/91351).
    """
    with suppress(Exception):
        verdict.load_catalogue()


def _rules(ready: Ready) -> record.Rules:
    settings = ready.settings
    return record.Rules(
        retries=settings.retries,
        retry_codes=settings.retry_codes,
        stop_codes=settings.stop_codes,
        progress=settings.progress,
        metrics=settings.metrics,
        bad_nodes=ready.bad_nodes,
        workdir=ready.job.workdir,
        command=hide_secrets(ready.job.command),
    )


class LiveRun:
    """One run that this process carries out. Its ranks end with this process, unless a scheduler runs them."""

    def __init__(self, plan: Plan, transport: Transport, log_dir: str, clock: Clock | None = None) -> None:
        """Make the run's folder and write the files of the plan. `clock`: of the launch. Raises UsageError."""
        self.plan = plan
        self._clock = clock or Clock()
        self.inbox: executor.Inbox = queue.SimpleQueue()
        self.job_id: str | None = None
        self._transport = transport
        self.folder = record.make_folder(Path(log_dir), plan.run_id)
        try:
            executor.write_files(plan, transport.machine.write)
        except OSError as error:
            what = f"cannot write {error.filename or self.folder}: {error.strerror}"
            raise UsageError(what, "--log-dir DIR") from None
        except UsageError:  # a file of --stage changed
            self.remove_folder()
            raise

    def submit(self) -> None:
        """Submit the job of the plan, where it has one. Raises LaunchError; a rejected job leaves no folder here."""
        try:
            self.job_id = self._transport.submit(self.plan)
        except batch.JobRejectedError:
            self.remove_folder()
            raise

    def remove_folder(self) -> None:
        """Delete the directory of a run that did not begin, if that is possible."""
        with suppress(OSError):
            owned.remove_directory(str(self.folder), run_files.KIND)
        self.release()

    def open_logs(self, settings: LaunchSettings | None = None) -> LogFiles:
        """Return the log files of the run."""
        if settings is None:
            return LogFiles(self.folder)
        return LogFiles(self.folder, all_log=settings.all_log, limit=settings.log_limit)

    def release(self) -> None:
        """Hold the run's directory no longer: this process writes nothing more there."""
        record.release_folder(self.folder)

    def cancel_job(self) -> None:
        """Cancel the submitted job. Without one, do nothing. Raises LaunchError."""
        if self.plan.batch is not None and self.job_id is not None:
            batch.cancel(self.plan.batch, self.job_id, self._transport.machine)

    def connect(self, step: Step) -> Link:
        """Return the link to the supervisor of a step."""
        return self._transport.connect(step)

    def follow(
        self,
        relay: Relay,
        screen: executor.Display,
        *,
        connect: Callable[[Step], Link] | None = None,
        watching: Watching = NO_WATCH,
    ) -> Outcome:
        """Run the ranks to their end. Blocks; (-1, signal) in `inbox` acts as that signal to the launcher."""

        def attempt() -> Outcome:
            links = connect or self.connect
            more = (self._begin_diagnosis, self.on_ready, self.on_value, self._clock)
            return executor.carry(self.plan, relay, links, self.inbox, screen, watching, *more)

        return self._run_attempts(relay, attempt)

    def on_ready(self) -> None:
        """The program is ready: called by the thread that follows the run."""

    def on_value(self, rank: int, data: str) -> None:
        """A rank of a function has ended: called by the same thread with its value, as base64."""

    def on_failure(self) -> None:
        """The run ends by a failure, and no other attempt follows: called by the same thread, while the ranks end."""

    def _begin_diagnosis(self, failure: Failure) -> None:
        """Load the catalogue while the ranks end."""
        with suppress(RuntimeError):  # no more threads
            threading.Thread(target=_load_catalogue, name="ddpkit catalogue", daemon=True).start()

    def _run_attempts(self, relay: Relay, attempt: Callable[[], Outcome]) -> Outcome:
        """Run the plan once; a run with a record can repeat it."""
        return attempt()


def ended_by(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the words of a run that an error ended."""
    if isinstance(error, DdpkitError):
        return error.exit_code, error.message
    return DdpkitError.exit_code, f"{type(error).__name__}: {error}"


def watching_of(settings: LaunchSettings) -> Watching:
    """Return what the launcher looks for by itself."""
    return Watching(seconds=settings.hang_timeout, hang_action=settings.hang_action, slow_action=settings.slow_action)


class Recorded:
    """What a launcher does with the record of its run, in the run's directory and in the user's index."""

    record: record.Run
    folder: Path
    _marker: int  # see `launcher_process.hold_marker`
    _lock: threading.Lock  # of the record
    _clock: Clock  # of the launch: setting the machine's clock since then changes no length

    def _amend(self, **changes: Any) -> None:
        """Change the record and save it. Raises OSError; the record is changed all the same."""
        with self._lock:
            self.record = replace(self.record, **changes)
            self.record.save()

    def _save_first(self) -> None:
        """Save the new record. Raises UsageError."""
        try:
            self.record.save()
        except OSError as error:
            raise UsageError(self._unsaved(error), f"df {shlex.quote(str(self.folder))}, or --log-dir DIR") from None

    def _save_end(
        self, note: Callable[[str], None], *, state: EndState | Literal[RunState.LEFT], **changes: Any
    ) -> None:
        """Write the end into the record. Where that fails the user's index keeps it, and `note` gets the reason."""
        try:
            self._amend(state=state, **changes)
        except OSError as error:
            note(self._unsaved(error))
            run = self.record
            if state is not RunState.LEFT:
                end = run_index.KnownEnd(state=state, exit_code=run.exit_code, verdict=run.verdict, failure=run.failure)
                run_index.keep_end(run, end)

    def _unsaved(self, error: OSError) -> str:
        return f"cannot write the record of this run to {self.folder}: {error.strerror}"

    def abandon(self, error: BaseException) -> None:
        """Write an error of ddpkit into the record. The ranks have ended with their connections."""
        code, words = ended_by(error)
        with suppress(OSError):
            self._amend(ended=self._clock.now(), state=RunState.FAILED, exit_code=code, verdict=words)
        self._close_marker()

    def _close_marker(self) -> None:
        """Take no more signals of other shells: the run has ended."""
        marker, self._marker = self._marker, -1
        if marker >= 0:
            os.close(marker)


class RecordedRun(LiveRun, Recorded):
    """A run with a record, which `ddpkit ps` lists and other shells can stop."""

    def __init__(
        self,
        ready: Ready,
        log_dir: str,
        *,
        began: float,
        notes: Sequence[str] = (),
        leave: bool = False,
        session: record.Session | None = None,
        in_program: bool = False,
        check: CheckHosts = lambda *_: {},
    ) -> None:
        """Make the folder, submit the job and save the record. Raises UsageError, LaunchError.

        `began`: seconds since the epoch at which the user asked for the run. `leave`: a submitted job is not followed.
        `in_program`: the run is a thread of a program that takes no signals for it. `check` finds faults of hosts.
        """
        super().__init__(ready.plan, ready.transport, log_dir, ready.clock)
        plan = self.plan
        # Empty: lines of --setup can choose a Python, which is not known here.
        self._python = ready.job.python if ready.job.python_chosen or not ready.settings.options.get("setup") else ""
        self._ready, self._check = ready, check
        self._rules = _rules(ready)
        self._attempts = self._first_attempt(ready, began)
        self._write_timeline(began, [*notes, *([ready.not_forwarded] if ready.not_forwarded else ())])
        self._remember_metrics()
        self._marker = launcher_process.hold_marker(self.folder)
        self.submit()
        self.followed = plan.batch is None or (plan.batch.follow and not leave)
        self.record = self._first_record(began, session, in_program)
        self._lock = threading.Lock()
        self._save_first()
        self._git = threading.Thread(target=self._add_code, name=f"ddpkit {plan.run_id} git", daemon=True)
        with suppress(RuntimeError):  # no more threads: the run is not less of a run
            self._git.start()
        # Why the index does not have the run; None: it does, or need not.
        self._unlisted = None if ready.settings.replica else run_index.add_run(self.record)

    def _first_record(self, began: float, session: record.Session | None, in_program: bool) -> record.Run:
        plan, ready = self.plan, self._ready
        return record.Run(
            run_id=plan.run_id,
            folder=str(self.folder.absolute()),
            backend=plan.backend,
            command=hide_secrets(ready.job.command),  # others may read the record
            workdir=ready.job.workdir,
            project=str(run_index.find_project(Path.cwd())),
            hosts=plan.hosts,
            world_size=plan.world_size,
            **launcher_process.this_launcher(),
            ranks=_ranks(plan),
            grace=plan.grace,
            started=began,
            job_id=self.job_id or self._transport.job or None,
            job=self._recorded_job(),
            session=session,
            in_program=in_program,
            hold=ready.hold,
            origin=Origin.INDEX,
            settings_file=ready.settings.file,
            state=RunState.RUNNING if self.followed else RunState.LEFT,
            attempts=self._attempts.records if self._attempts else (),
            spares=self._attempts.spares if self._attempts else (),
            logins=dict(self._transport.logins),
        )

    def submit(self) -> None:
        if self.plan.batch is not None:
            registry.scheduler_of(self.plan.backend)  # raises for a backend without: nobody could stop the job
        super().submit()

    def _recorded_job(self) -> record.RecordedJob | None:
        """Return the identity of the submitted job, by which other shells tell it from a later one with its number."""
        plan, machine = self.plan, self._transport.machine
        if plan.batch is None or self.job_id is None:
            return None
        from ddpkit.run import job_status

        step, reply = plan.steps[0], machine.run(plan.batch.scheduler.state_of(self.job_id), job_status.IN_UTC)
        scheduler = registry.scheduler_of(plan.backend)
        cluster = job_status.cluster_of(scheduler, machine)
        return record.RecordedJob(
            **vars(job_status.identity_in(scheduler, reply.output)),
            cluster=cluster.name,
            controller=cluster.controller,
            log=plan.batch.log,
            many=not plan.batch.follow,
            labels=step.rank_starter is RankStarter.COLLECT,
            groups=step.groups,
            poll=plan.batch.poll,
            via=plan.batch.via,
        )

    def _first_attempt(self, ready: Ready, began: float) -> Attempts | None:
        """Begin the attempts of a run with --retries. Those of a submitted job are in a file for its script."""
        plan = ready.plan
        if plan.batch is not None and plan.batch.nodes:
            try:
                record.AttemptsFile(rules=self._rules, nodes=plan.batch.nodes).save(self.folder)
            except OSError as error:
                what = f"cannot write {self.folder / record.ATTEMPTS}: {error.strerror}"
                raise UsageError(what, "--log-dir DIR") from None
        if plan.batch is not None or not ready.settings.retries:
            return None
        attempts = Attempts(self._rules, ready.hosts, self.folder, ready.transport.down_hosts, self._clock.now)
        attempts.begin(plan.hosts, began)
        return attempts

    def _add_code(self) -> None:
        """Add the git commit to the record. git may be slow: nothing waits for it."""
        code = record.read_code(self.record.workdir)
        if code is not None:
            with suppress(OSError):
                self._amend(code=code)

    def _remember_metrics(self) -> None:
        """Keep the sizes of the metrics that earlier runs left. A slow file system delays the run by a moment only."""
        rules = self._rules
        words = (self.folder, rules.metrics, rules.workdir, rules.command)
        thread = threading.Thread(target=metrics.remember, args=words, name="ddpkit metrics", daemon=True)
        with suppress(RuntimeError):
            thread.start()
            thread.join(METRICS_PATIENCE)

    def _write_timeline(self, began: float, notes: Sequence[str]) -> None:
        transport = self._ready.transport
        timeline.write_launch(
            self.folder,
            began=began,
            prepared=self._clock.now(),
            entered=dict(transport.connected_at),
            notes=list(map(hide_in_text, notes)),
            nodes=transport.facts,
            copies=self._ready.staged,
            # Reports show it. Without `on_end`, which may hold the address of a webhook.
            plan=hide_in_script(
                hide_values(render_plan(self.plan), self._ready.job.env, is_public), self._ready.job.command
            ),
        )

    def _save_first(self) -> None:
        try:
            super()._save_first()
        except UsageError as error:
            if not (self.plan.batch and self.job_id):
                raise
            stop = batch.stop_command(self.plan.batch, self.job_id)
            raise LaunchError(f"{error.message}; job {self.job_id} was submitted", stop) from None

    def announce(self, relay: Relay, *, hang_timeout: float = 0.0) -> None:
        """Write the first lines of the run: its ranks, its logs; of a job that is not followed also its output."""
        plan, folder = self.plan, self.folder
        if self._ready.settings.source("script") == "default":
            relay.routine_note(f"ddpkit: no script given; running {self.record.command[0]} in {self.record.workdir}")
        where = f"in job {self.job_id}" if self.job_id else f"on {format_hosts(self.record.hosts)}"
        relay.routine_note(f"ddpkit: run {plan.run_id}: {count(plan.world_size, 'rank')} {where}; logs in {folder}/")
        if self._ready.not_forwarded:
            relay.note(f"ddpkit: {self._ready.not_forwarded}")
        if self._unlisted:
            known_by = f"use the directory of this run: ddpkit status {folder}"
            relay.note(f"ddpkit: cannot write to {run_index.index_folder()}: {self._unlisted}; {known_by}")
        if plan.batch is None or self.followed:
            return
        log = plan.batch.log.replace("{job}", f"{self.job_id}" if plan.batch.follow else f"{self.job_id}_*")
        for name in ["--hang-timeout"] * bool(hang_timeout) + ["on_end"] * bool(plan.on_end):
            relay.note(f"ddpkit: no launcher follows this job: {name} has no effect")
        if not plan.batch.follow:
            relay.note(
                f"ddpkit: job array {self.job_id} is submitted and not followed; each task runs the same command"
            )
        run = plan.run_id if not self._unlisted else shlex.quote(self.record.folder)
        relay.routine_note(f"ddpkit: submitted; output: {log}")
        see = "follow it: ddpkit attach" if plan.batch.follow else "see its tasks: ddpkit status"
        relay.routine_note(f"ddpkit: to {see} {run}; to stop it: ddpkit stop {run}")

    def _run_attempts(self, relay: Relay, attempt: Callable[[], Outcome]) -> Outcome:
        """Run the ranks to their end, in as many attempts as it takes and the settings allow."""
        outcome = attempt()
        while self._attempts is not None and outcome.exit_code:
            outcome = self._diagnosed(relay, outcome)
            self._attempts.end(outcome, _verdict(outcome.failure))
            decision = self._attempts.decide(outcome, ending=self._ready.transport.ending())
            if decision.action == "stop":
                break
            following = self._plan_next(self._attempts, relay, outcome, decision)
            if isinstance(following, NotPlanned):
                return replace(outcome, stopped_by=following.stopped_by)
            outcome = attempt()
        return outcome

    def _begin_diagnosis(self, failure: Failure) -> None:
        super()._begin_diagnosis(failure)
        if self._attempts is None:
            self.on_failure()
        else:
            self._attempts.begin_check(failure, self._check)

    def _plan_next(self, attempts: Attempts, relay: Relay, outcome: Outcome, decision: Decision) -> Plan | NotPlanned:
        """Prepare the attempt that follows: its nodes, its plan, its logs and its record.

        Returns its plan, which `self.plan` is from then on, or why there is none.
        """
        from ddpkit.diagnosis.decision import describe  # loads the catalogue

        began, ended, notes = self._clock.now(), attempts.records[-1], list[str]()
        assert outcome.failure is not None
        assert self._ready.plan_again is not None
        with suppress(OSError):
            self._amend(attempts=attempts.records)  # also for a launcher that is killed before the next attempt
        self._note_failure(relay, attempts.with_moved_log(outcome.failure))
        relay.note(f"ddpkit: {describe(decision, ended.number)}")

        def note(text: str) -> None:
            notes.append(text)
            relay.note(f"ddpkit: {text}")

        self._remember_node(relay, outcome)
        self._run_hook(self.plan.on_attempt, relay, on_end.ATTEMPT_LOG)
        following = attempts.plan_next(self._ready.plan_again, self._check, note, self.inbox)
        if isinstance(following, Plan):
            try:
                relay.logs.sync()
                attempts.move_logs()
                executor.write_files(following, self._transport.machine.write)
            except OSError as error:
                what = f"cannot write to {self.folder}: {error.strerror}"
                following = NotPlanned(error=LaunchError(what, f"df {shlex.quote(str(self.folder))}"))
        if isinstance(following, NotPlanned):
            why = "the run was stopped" if following.error is None else f"the nodes are not ready: {following.error}"
            attempts.keep(Decision(action="stop", reason=why))
            return following
        attempts.keep_failure(attempts.with_moved_log(outcome.failure))
        self.plan = following
        relay.begin_attempt()
        attempts.begin(following.hosts)
        self._write_timeline(began, notes)
        used = attempts.records[-1].hosts
        with suppress(OSError):
            self._amend(hosts=used, ranks=_ranks(following), attempts=attempts.records, spares=attempts.spares)
        logs = f"logs of attempt {ended.number} in {record.attempt_folder(self.folder, ended.number)}/"
        relay.note(f"ddpkit: attempt {ended.number + 1} on {format_hosts(used)}; {logs}")
        return following

    def _diagnosed(self, relay: Relay, outcome: Outcome) -> Outcome:
        """Add the diagnosis to the failure of an outcome that has none yet."""
        failure = outcome.failure
        if failure is None or failure.action is not None:
            return outcome
        from ddpkit.node.calls import probe
        from ddpkit.run import logs

        relay.logs.sync()
        waits = partial(on_end.is_signal_waiting, self.inbox)
        failure = verdict.diagnose(failure, self.folder / ALL, waits, logs.read_end)
        # Of another machine's Python, and of one in a container, nothing is known here.
        here = self._ready.transport.local and not any(step.container for step in self.plan.steps)
        is_sealed = probe.is_sealed if here else lambda _: False
        diagnosis = verdict.name_python(failure.diagnosis, self._python, is_sealed)
        return replace(outcome, failure=replace(failure, diagnosis=diagnosis))

    def finish(self, relay: Relay, outcome: Outcome, *, cancelled: bool = False) -> Outcome:
        """Write the diagnosis behind the last lines, then the end into the record. Returns the outcome with it.

        `cancelled`: this program cancelled the submitted job, which otherwise outlives a stop.
        """
        outcome = self._diagnosed(relay, outcome)
        if self._attempts is not None and self._attempts.records[-1].ended is None:
            self._attempts.end(outcome, _verdict(outcome.failure))
        state, ended = self._end_state(outcome, cancelled=cancelled), self._clock.now()
        self._note_end(relay, outcome, state, ended)
        if self._git.is_alive():
            self._git.join(GIT_PATIENCE)
        self._record_end(relay, outcome, state, ended)
        self._remember_node(relay, outcome)
        self._run_hook(self.plan.on_end, relay, on_end.LOG)
        self._close_marker()
        return outcome

    def _note_end(self, relay: Relay, outcome: Outcome, state: EndState | Literal[RunState.LEFT], ended: float) -> None:
        """Write the verdict and why no other attempt follows, or that the run is done or was stopped."""
        if outcome.failure is not None:
            self._note_failure(relay, outcome.failure)
            decision = self._attempts and self._attempts.records[-1].decision
            if decision:
                relay.note(f"ddpkit: no other attempt follows: {decision.reason}")
        if state is RunState.DONE:
            relay.routine_note(f"ddpkit: done in {replace(self.record, ended=ended).duration}")
        elif state is RunState.STOPPED:
            relay.note(f"ddpkit: {verdict.describe_stop(outcome)}")

    def _record_end(
        self, relay: Relay, outcome: Outcome, state: EndState | Literal[RunState.LEFT], ended: float
    ) -> None:
        """Write the end into the record, with what the run's files tell of its attempts, nodes and versions."""
        attempts = self._attempts.records if self._attempts else self._attempts_of_job(relay)
        times = timeline.read(self.folder)
        relay.logs.sync()
        self._save_end(
            lambda text: relay.note(f"ddpkit: {text}"),
            ended=ended,
            state=state,
            exit_code=outcome.exit_code,
            verdict=_verdict(outcome.failure) or (_survivors(outcome) if state is RunState.STOPPED else None),
            failure=outcome.failure,
            attempts=attempts,
            versions=record.node_versions(timeline.read_launch(self.folder), times),
            log_problem=relay.logs.problem,
            hosts=(self.plan.steps[0].scheduled and timeline.hosts(times)) or self.record.hosts,
        )
        if relay.logs.problem:
            relay.note(f"ddpkit: {relay.logs.problem}")
        if timeline.has_steps(times):
            self._compare_steps(relay, times, ended)

    def _compare_steps(self, relay: Relay, times: timeline.TimelineFile | None, ended: float) -> None:
        """Say and keep that steps took longer than in earlier runs of this command on these hosts."""
        from ddpkit.execution import known_good  # most runs observe no steps
        from ddpkit.run import slow_rank

        slower = known_good.remember_step(self.record, times)
        if slower:
            relay.note(f"ddpkit: {slower}")
            slow_rank.keep_past(self.folder, slower, ended)

    def _attempts_of_job(self, relay: Relay) -> tuple[record.Attempt, ...]:
        """Read the attempts that the script of a submitted job made. A file that is damaged does not change the end."""
        if self.plan.batch is None:
            return ()
        try:
            file = record.load_attempts(self.folder)
        except record.RecordError as error:
            relay.note(f"ddpkit: {error.message}")
            return ()
        return file.attempts if file else ()

    def carry_out(
        self, relay: Relay, display: executor.Display, settings: LaunchSettings, cancelled: Callable[[], bool]
    ) -> None:
        """Follow the run to its finished record. `cancelled`: whether this program has cancelled its job."""
        outcome = self.follow(relay, display, watching=watching_of(settings))
        if cancelled() and outcome.failure is not None and outcome.failure.rank is None:
            # The loop took it for a failure that somebody cancelled the job.
            outcome = replace(outcome, failure=None, stopped_by=signal.SIGTERM)
        self.finish(relay, outcome, cancelled=cancelled())
        self.keep_metrics(settings.metrics)

    def _note_failure(self, relay: Relay, failure: Failure) -> None:
        """Write the verdict. The rank's last lines are not repeated where they were shown a moment ago."""
        diagnosis = failure.diagnosis
        repeat = bool(failure.last_lines) and not relay.is_on_screen(Path(failure.log).name)
        headline, facts = verdict.describe(failure, diagnosis)
        whose = f"rank {failure.rank}" if failure.rank is not None else failure.what
        lines = failure.last_lines if repeat else ()
        panel = Panel("FAILED", headline, facts, whose, lines)
        relay.note("\n".join(verdict.describe_failure(failure, diagnosis, with_lines=repeat)), panel)

    def _remember_node(self, relay: Relay, outcome: Outcome) -> None:
        from ddpkit.run.bad_nodes import remember_blamed

        note = lambda text: relay.note(f"ddpkit: {text}")  # noqa: E731
        remember_blamed(self._rules.bad_nodes, outcome, self.plan.run_id, note)

    def _run_hook(self, command: OnEnd | None, relay: Relay, log_name: str) -> None:
        """Run the command of `on_end` or `on_attempt`, if there is one, with the record as it is now."""
        relay.logs.sync()
        if command is not None:
            from ddpkit.run.documents import hook_document

            with self._lock:
                run = replace(self.record, attempts=self._attempts.records if self._attempts else self.record.attempts)
            folder, show, note = Path(run.folder), relay.err.write, relay.note
            on_end.run_hook(command, hook_document(run), folder, show, note, self.inbox, log_name=log_name)
        relay.flush()

    def _end_state(self, outcome: Outcome, *, cancelled: bool) -> EndState | Literal[RunState.LEFT]:
        if outcome.stopped_by is not None:
            follows_on = self.plan.batch and outcome.failure is None and not cancelled
            return RunState.LEFT if follows_on else RunState.STOPPED
        return RunState.FAILED if outcome.failure else RunState.DONE

    def keep_metrics(self, setting: str) -> None:
        """Copy the metrics that the run wrote into its folder. A slow file system may be searched for them."""
        run = self.record
        if metrics.in_folder(self.folder) is not None:
            return  # the script writes it there itself
        file = metrics.find_chosen(setting, run.workdir, run.command, run.started, run.ended)
        if file is not None:
            metrics.keep(file, self.folder)
