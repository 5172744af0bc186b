"""Carries out a run of several roles: one launcher, and a run of its own for each replica.

A replica is what a launch is: it has a plan, supervisors, logs, attempts and a record, in `roles/` of the run's folder.
Its thread tells when it is ready, fails and ends; `order.py` says what follows.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path

from ddpkit.config import LaunchSettings, Replica, overlaid
from ddpkit.console.progress import Standing
from ddpkit.console.relay import Relay, Sink
from ddpkit.execution import executor, prepare
from ddpkit.execution.background import REQUESTS_EVERY
from ddpkit.execution.lifecycle import Recorded, RecordedRun, ended_by
from ddpkit.execution.requested_nodes import HeldNodes, Queries
from ddpkit.launchers.host_names import format_hosts
from ddpkit.launchers.plan import Job, Plan
from ddpkit.launchers.shell import count, hide_secrets
from ddpkit.roles.order import Action, End, Ending, Name, Order, Start
from ddpkit.roles.place import Place, addresses, ranks_per_host, variables, visible_devices
from ddpkit.roles.spec import Role, fill
from ddpkit.run import launcher_process, record, replicas, run_index
from ddpkit.run.log_files import FINE, LogFiles
from ddpkit.run.state import EndState, Origin, Phase, RunState

AT_ONCE = 16  # replicas that are prepared at the same time
# Seconds from a start of a replica to the next one: 1, 2, 4, ... One that dies at once keeps no machine busy.
PAUSE, LONGEST_PAUSE = 1.0, 30.0
_OF_JOB = ("new_job", "nodelist", "exclude")  # options of the allocation that all roles share


class What(Enum):
    """What a thread of a replica tells the loop."""

    READY = "ready"
    FAILED = "failed"  # its first failure; it has not ended
    ENDED = "ended"
    ASKED = "asked"  # another shell sends it a signal


@dataclass(frozen=True)
class Event:
    """An event of a replica. `error`: it could not be started, or ddpkit failed. `signal`: that it is sent."""

    replica: Name
    kind: What
    error: BaseException | None = None
    signal: int = 0


class Words:
    """ddpkit's own lines of a replica. Those of its end are kept: only those of the first failure are shown."""

    def __init__(self, sink: Sink, name: str) -> None:
        self._sink, self._name = sink, name.encode()
        self.kept: list[bytes] = []
        self._keeps = False

    def keep(self) -> None:
        """Show nothing from now on; what was kept before is forgotten."""
        self._keeps = True
        self.kept.clear()

    def write(self, data: bytes) -> object:
        """Show lines, or keep them."""
        data = data.replace(b"ddpkit: ", b"ddpkit: %b: " % self._name, 1)
        if not self._keeps:
            return self._sink.write(data)
        self.kept.append(data)
        return None

    def flush(self) -> object:
        """Flush what is shown."""
        return self._sink.flush()


class PartOfScreen:
    """The screen for one replica. The status lines are the whole run's."""

    has_status = False

    def __init__(self, screen: executor.Display) -> None:
        self._screen = screen

    @property
    def is_full(self) -> bool:
        return self._screen.is_full

    def hurry(self) -> None:
        """Do nothing: the screen is the whole run's, and one replica can end while the others go on."""

    suspend = end = hurry

    def begin(self, source: Callable[[], Standing], /) -> None:
        """Do nothing, as `hurry`."""


class RoleRun(RecordedRun):
    """The run of one replica."""

    tell: Callable[[What], None]
    got_term = False

    def send(self, number: int) -> None:
        """Send it a signal. TERM only once: to its loop, a second one means KILL."""
        if number != signal.SIGTERM or not self.got_term:
            self.inbox.put((-1, number))
        self.got_term = self.got_term or number == signal.SIGTERM

    def open_logs(self, settings: LaunchSettings | None = None) -> LogFiles:
        """Return its log files. Their lines are put together with those of others by their times."""
        settings = settings or self._ready.settings
        return LogFiles(self.folder, all_log=settings.all_log, limit=settings.log_limit, block_seconds=FINE)

    def on_ready(self) -> None:
        self.tell(What.READY)

    def on_failure(self) -> None:
        self.tell(What.FAILED)


@dataclass(kw_only=True)
class Part:
    """One replica of the run."""

    name: Name
    role: Role
    place: Place
    base: LaunchSettings  # of the whole run, and what this replica is
    settings: LaunchSettings  # with those of its role and its nodes
    ready: prepare.Ready | None = None  # its plan; None: not prepared yet
    connections: ExitStack = field(default_factory=ExitStack)
    run: RoleRun | None = None  # None: it has not started
    signals: list[int] = field(default_factory=list)  # that it was sent, also before it started
    stopped: threading.Event = field(default_factory=threading.Event)  # it was sent a signal that ends it
    words: Words | None = None
    now: Callable[[], float]  # seconds since the epoch, by the clock of the launch
    error: BaseException | None = None  # it could not start, or ddpkit failed
    started: float = 0.0
    ended: float = 0.0

    @property
    def plan(self) -> Plan:
        assert self.ready is not None
        return self.ready.plan

    @property
    def job(self) -> Job:
        assert self.ready is not None
        return self.ready.job

    def pause(self, restarts: int) -> float:
        """Return the seconds until it may start again, of which its last start has gone by already."""
        lived = self.ended - self.started
        return max(0.0, min(LONGEST_PAUSE, PAUSE * 2.0 ** min(restarts - 1, 10)) - lived) if restarts else 0.0

    def begin(self, sink: Sink) -> None:
        """It starts now, perhaps again. `sink` gets its notes."""
        self.words = Words(sink, str(self.name))
        self.started, self.ended, self.run, self.error = self.now(), 0.0, None, None

    def start(self, tell: Callable[[What], None]) -> RoleRun:
        """Make its run. Raises UsageError, LaunchError."""
        assert self.ready is not None
        run = RoleRun(self.ready, self.settings.log_dir, began=self.started, in_program=True)
        run.tell = tell
        self.run = run
        for number in self.signals:  # from before it started
            run.send(number)
        return run

    @property
    def failed_at(self) -> float:
        """Seconds since the epoch."""
        failure = self.run.record.failure if self.run else None
        return failure.at if failure is not None and failure.at else self.ended or self.now()

    @property
    def exit_code(self) -> int:
        """The exit code of a run that fails with it. A service that ended with 0 has failed as well."""
        if self.error is not None:
            return ended_by(self.error)[0]
        return (self.run and self.run.record.exit_code) or 1

    @property
    def end_words(self) -> str:
        """How it ended, in one sentence."""
        if self.error is not None:
            return ended_by(self.error)[1]
        words = self.run.record.verdict if self.run else None
        if not words and self.run is not None and self.run.record.state is RunState.STOPPED:
            words = "it was stopped"
        return words or "it ended with exit code 0 before the run"


class Prepared:
    """The replicas of a run, prepared in the order in which they need each other's addresses."""

    def __init__(
        self,
        roles: Sequence[Role],
        places: Mapping[Name, Place],
        settings: LaunchSettings,
        held: HeldNodes,
        note: Callable[[str], None],
    ) -> None:
        self.roles, self.settings, self.clock = roles, settings, held.clock
        self.run_id = record.new_id(record.usable_name(settings.name or roles[-1].name))
        self.folder = Path(settings.log_dir).absolute() / self.run_id
        self._environ, self._note = held.environ, note
        ports = {host: [*free] for host, free in held.ports.items()}
        self._addresses: dict[str, dict[str, str]] = {}
        self.parts: dict[Name, Part] = {}
        named = {role.name: role for role in roles}
        for name, place in places.items():
            replica = Replica(
                run_id=f"{self.run_id}.{name}",
                wants_port=named[name.role].needs_port,
                port=ports[place.hosts[0]].pop() if ports and named[name.role].needs_port else None,
                gpus=place.gpus,
                cpus=place.cpus,
            )
            own = replace(settings, log_dir=str(self.folder / replicas.FOLDER), roles={}, replica=replica)
            self.parts[name] = Part(
                name=name, role=named[name.role], place=place, base=own, settings=own, now=self.clock.now
            )

    def prepare(self, queries: Queries = Queries.ALL) -> None:
        """Prepare all replicas, so that what is wrong with any shows before one starts. Raises DdpkitError."""
        left = [*self.roles]
        try:
            while left:
                waiting = {role.name for role in left}
                now = [role for role in left if not waiting.intersection(role.after)]
                parts = [part for part in self.parts.values() if part.role in now]
                with ThreadPoolExecutor(AT_ONCE) as pool:
                    list(pool.map(lambda part: self._prepare(part, queries), parts))
                left = [role for role in left if role not in now]
                for role in now:
                    own = [part for part in parts if part.role is role]
                    places, ports = [each.place for each in own], [each.plan.port for each in own]
                    self._addresses[role.name] = addresses(role, places, ports)
        except BaseException:
            self.close()
            raise

    def _prepare(self, part: Part, queries: Queries = Queries.ALL) -> None:
        part.settings = self._settings_of(part)
        progress = None if queries.dry else lambda *_: None
        note = lambda text: self._note(f"{part.name}: {text}")  # noqa: E731
        ready = prepare.prepare(part.settings, self._environ, note, progress, queries=queries, clock=self.clock)
        part.ready = part.connections.enter_context(ready)

    def _settings_of(self, part: Part) -> LaunchSettings:
        """Return the settings of one replica's launch: the run's, its role's, then its place's. Raises UsageError."""
        role, place, number = part.role, part.place, str(part.name.number)
        script = fill(role.command, {"host": place.hosts[0], "replica": number}, self._addresses)
        settings = overlaid(part.base, {**role.settings, "script": list(script)}, f"roles.{role.name}")
        chosen = prepare.transport_of(settings)
        env = {"DDPKIT_ROLE": role.name, "DDPKIT_REPLICA": number, **variables(self._addresses)}
        # Under SLURM they are counted among those of the step, which are known on the node alone.
        if place.gpus is not None and not chosen.slurm:
            env["CUDA_VISIBLE_DEVICES"] = visible_devices(place.gpus, self._environ if chosen.local else {})
        timeout = role.ready.timeout if role.ready else 0.0
        assert part.base.replica is not None
        return replace(
            settings,
            nproc_per_node=ranks_per_host(settings.nproc_per_node, place),
            hosts=() if chosen.local else tuple(dict.fromkeys(place.hosts)),
            hostfile="",
            nnodes=None,
            env={**settings.env, **env},
            options={name: value for name, value in settings.options.items() if name not in _OF_JOB},
            replica=replace(part.base.replica, ready=str(role.ready or ""), ready_timeout=timeout),
            on_end="",
        )

    def again(self, part: Part, restarts: int) -> None:
        """Prepare a replica that starts again, on the port that others know. Raises DdpkitError."""
        replica = part.base.replica
        assert replica is not None
        run_id = f"{self.run_id}.{part.name}.{restarts + 1}"  # its logs stand beside those of the start before
        part.base = replace(part.base, replica=replace(replica, run_id=run_id, port=part.plan.port))
        part.connections = ExitStack()
        self._prepare(part)

    def close(self) -> None:
        """Close the connections of replicas that did not start."""
        for part in self.parts.values():
            if part.run is None:
                part.connections.close()


class RolesRun(Recorded):
    """A run of roles: its folder, its record, and the loop of its replicas. `inbox` takes (-1, signal)."""

    job_id: str | None = None  # its replicas may run in an allocation, which is no job of theirs

    def __init__(
        self, prepared: Prepared, *, began: float, session: record.Session | None = None, in_program: bool = False
    ) -> None:
        """Make the folder and save the record. The replicas are prepared. Raises UsageError.

        `in_program`: the run is a thread of a program that takes no signals for it.
        """
        self.prepared, self._clock = prepared, prepared.clock
        self.order = Order(prepared.roles)
        self.inbox: queue.SimpleQueue[tuple[int, Event | int]] = queue.SimpleQueue()
        self.folder = record.make_folder(prepared.folder.parent, prepared.run_id)
        self._marker, self._lock = launcher_process.hold_marker(self.folder), threading.Lock()
        self._stopped_by: int | None = None
        self._asked_to_end = False  # by a signal
        self._states: dict[str, replicas.ReplicaState] = {}  # by replica, for `ddpkit status`
        self._unsaved_states = False
        self._relay: Relay
        self._display: executor.Display
        parts = prepared.parts.values()
        settings = prepared.settings
        self.record = record.Run(
            run_id=prepared.run_id,
            folder=str(self.folder.absolute()),
            backend=next(iter(parts)).plan.backend,
            command=hide_secrets(("roles", *(role.name for role in prepared.roles))),
            workdir=next(iter(parts)).job.workdir,
            project=str(run_index.find_project(Path.cwd())),
            hosts=tuple(dict.fromkeys(host for part in parts for host in part.plan.hosts)),
            world_size=sum(part.plan.world_size for part in parts),
            **launcher_process.this_launcher(),
            grace=settings.grace,
            started=began,
            session=session,
            in_program=in_program,
            origin=Origin.INDEX,
            settings_file=settings.file,
            replicas=tuple(str(name) for name in prepared.parts),
        )
        self._save_first()
        self._unlisted = run_index.add_run(self.record)  # why it could not be listed

    def open_logs(self, settings: LaunchSettings | None = None) -> LogFiles:
        """Return the log of the launcher's own lines. Each replica has those of its ranks."""
        return LogFiles(self.folder, block_seconds=FINE)

    def announce(self, relay: Relay, *, hang_timeout: float = 0.0) -> None:
        """Write the first lines of the run."""
        run = self.record
        whole = f"{count(len(run.replicas), 'replica')} of {count(len(self.prepared.roles), 'role')}"
        relay.routine_note(f"ddpkit: run {run.run_id}: {whole} on {format_hosts(run.hosts)}; logs in {self.folder}/")
        if self._unlisted:
            relay.note(f"ddpkit: cannot write to {run_index.index_folder()}: {self._unlisted}")

    def follow(self, relay: Relay, display: executor.Display) -> Ending:
        """Run all replicas to their end. Blocks."""
        self._relay, self._display = relay, display
        done = threading.Event()
        threading.Thread(target=self._take_requests, args=(done,), name="ddpkit requests", daemon=True).start()
        try:
            self._perform(self.order.begin())
            while not self.order.over:
                self._save_states()
                # A signal that comes just before the wait is acted on when the wait ends: no wait is for ever.
                try:
                    _, event = self.inbox.get(timeout=executor.LOOK_UP)
                except queue.Empty:
                    continue
                self._on_event(event)
        finally:
            done.set()
            self.prepared.close()
        assert self.order.ending is not None
        return self.order.ending

    def _save_states(self, first: Name | None = None) -> None:
        """Write where each replica is, for `ddpkit status`. Of many events at once, the last is enough."""
        now = self._clock.now()
        for name, phase in self.order.phases.items():
            before, restarts = self._states.get(str(name)), self.order.restarts[name]
            if before is None or (before.phase, before.restarts) != (phase, restarts):
                probed = self.prepared.parts[name].role.ready is not None
                ready = now if phase is Phase.READY else None  # when it was ready, since its last start
                if before is not None and phase not in (Phase.READY, Phase.STARTING):
                    ready = before.ready
                self._states[str(name)] = replicas.ReplicaState(
                    phase=phase, restarts=restarts, since=now, ready=ready, probed=probed
                )
                self._unsaved_states = True
        if (self._unsaved_states and self.inbox.empty()) or self.order.over:
            with suppress(OSError):
                replicas.RolesFile(replicas=self._states, first=None if first is None else str(first)).save(self.folder)
            self._unsaved_states = False

    def _on_event(self, event: Event | int) -> None:
        if isinstance(event, int):
            self._on_signal(event)
            return
        part = self.prepared.parts[event.replica]
        if event.kind is What.READY:
            if part.role.ready is not None:
                self._note(f"{part.name} is ready after {self._clock.now() - part.started:.1f} s")
            self._perform(self.order.on_ready(part.name))
        elif event.kind is What.FAILED:
            self._perform(self.order.on_failure(part.name))
        elif event.kind is What.ASKED:
            if part.run is not None and not part.ended:
                part.run.send(event.signal)
        else:
            self._on_end(part, event)

    def _on_end(self, part: Part, event: Event) -> None:
        part.error, part.ended = event.error, self._clock.now()
        ok = event.error is None and part.run is not None and part.run.record.exit_code == 0
        if ok and self.order.ending is None and not part.role.ends_run:
            self._note(f"{part.name} ended with exit code 0, and the run needs it")
        self._perform(self.order.on_end(part.name, ok=ok))

    def _on_signal(self, number: int) -> None:
        """Pass USR1 and USR2 on; suspend; or end all roles, by a second signal at once."""
        if number in (signal.SIGUSR1, signal.SIGUSR2):
            self._send(number, [*self.prepared.parts])
        elif number == signal.SIGTSTP:
            self._display.suspend()
        elif number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
            # TERM is a program's, which may not know that the run ends by a failure: the grace goes on.
            at_once = self._asked_to_end or (self.order.ending is not None and number != signal.SIGTERM)
            self._asked_to_end = True
            self._stopped_by = self._stopped_by or (None if self.order.ending is Ending.FAILED else number)
            if self.order.ending is None:
                grace = 0 if number == signal.SIGQUIT else self.record.grace
                self._note(f"{signal.Signals(number).name}: ending all roles (at most {grace:g} s)")
            for action in self.order.on_stop():
                assert isinstance(action, End)
                self._send(signal.SIGQUIT if number == signal.SIGQUIT else signal.SIGTERM, action.replicas)
            if at_once:
                self._send(signal.SIGQUIT, [*self.prepared.parts])
            self._display.hurry()

    def _send(self, number: int, names: Sequence[Name]) -> None:
        """Send replicas a signal; one that has not started gets it then. The words of one that it ends are kept."""
        for name in names:
            part = self.prepared.parts[name]
            part.signals.append(number)
            if number not in (signal.SIGUSR1, signal.SIGUSR2):
                part.stopped.set()
                if part.words is not None:
                    part.words.keep()
            if part.run is not None and not part.ended:
                part.run.send(number)

    def _perform(self, actions: Iterator[Action]) -> None:
        for action in actions:
            if isinstance(action, Start):
                self._start(self.prepared.parts[action.replica], action.restarts)
                continue
            first = self.order.first
            why = "all roles that end the run have ended" if first is None else f"{first} has failed"
            names = ", ".join(map(str, action.replicas))
            self._note(f"{why}; ending {names} (at most {self.record.grace:g} s)")
            self._send(signal.SIGTERM, action.replicas)

    def _start(self, part: Part, restarts: int) -> None:
        """Start the thread of a replica. A restart is noted, with the end before it."""
        pause = part.pause(restarts)
        if restarts:
            after = f" in {pause:.1f} s" if pause else ""
            self._note(f"restart {restarts} of {part.role.restart} of {part.name}{after}: {part.end_words}")
        part.begin(self._relay.notes)
        name, args = f"ddpkit {part.name}", (part, restarts, pause)
        threading.Thread(target=self._follow, args=args, name=name, daemon=True).start()

    def _follow(self, part: Part, restarts: int, pause: float) -> None:
        """Carry out one start of a replica, in its thread: after a pause, unless the run ends before.

        Whatever happens, the loop gets its end, with the error of one that could not start or failed in ddpkit.
        """
        error: BaseException | None = None
        if part.stopped.wait(pause):
            self.inbox.put((-1, Event(part.name, What.ENDED)))
            return
        part.started = part.now()
        try:
            if restarts:
                self.prepared.again(part, restarts)
            run = part.start(lambda what: self.inbox.put((-1, Event(part.name, what))))
            relay = Relay(
                run.open_logs(part.settings),
                self._relay.out,
                self._relay.err,
                rich=self._relay.rich,
                terminals=self._relay.terminals,
                quiet=True,
                label=partial(self._label, part),
            )
            assert part.words is not None
            relay.notes = part.words
            with part.connections:
                outcome = run.follow(relay, PartOfScreen(self._display))
            part.words.keep()
            run.finish(relay, outcome)
            relay.close()
        except BaseException as problem:
            error = problem
            if part.run is not None:
                part.run.abandon(problem)
        finally:
            if part.run is not None:
                part.run.release()
            self.inbox.put((-1, Event(part.name, What.ENDED, error)))

    @staticmethod
    def _label(part: Part, rank: int | None, host: str, agent: str) -> str:
        return replicas.label_of(
            str(part.name),
            alone=part.role.replicas == 1,
            source=agent if rank is None else str(rank),
            host=host,
            ranks=part.plan.world_size,
        )

    def _take_requests(self, done: threading.Event) -> None:
        """Act on requests of other shells to one replica (`ddpkit stop --role`)."""
        files: dict[Path, launcher_process.Requests] = {}
        while not done.wait(REQUESTS_EVERY):
            for part in self.prepared.parts.values():
                run = part.run
                if run is not None and not part.ended:
                    for number in files.setdefault(run.folder, launcher_process.Requests(run.folder)).take():
                        self.inbox.put((-1, Event(part.name, What.ASKED, signal=number)))

    def _note(self, text: str) -> None:
        self._relay.note(f"ddpkit: {text}")
        self._relay.flush(wait=False)  # to the log, with the time of now

    # ---- the end

    def finish(self, ending: Ending) -> int:
        """Write the verdict and the end of the record. Returns the exit code."""
        state: EndState = RunState.DONE
        code, words, failure = 0, None, None
        ended = self._clock.now()
        self._save_states(self._first_failed().name if ending is Ending.FAILED else None)
        if ending is Ending.FAILED:
            part = self._first_failed()
            failure = part.run.record.failure if part.run else None
            code = part.exit_code
            state, words = RunState.FAILED, f"{part.name}: {part.end_words}"
            kept = part.words.kept if part.words else []
            for data in kept:
                self._relay.notes.write(data)
            others = [
                str(name) for name, phase in self.order.phases.items() if name != part.name and phase is Phase.STOPPED
            ]
            if not kept:
                self._note(f"{part.name} failed first: {part.end_words}")
            if others:
                self._note(f"ended with it: {', '.join(others)}")
        elif ending is Ending.STOPPED:
            state, code = RunState.STOPPED, 128 + (self._stopped_by or signal.SIGTERM)
            self._note(f"stopped by {signal.Signals(self._stopped_by or signal.SIGTERM).name}")
        else:
            self._relay.routine_note(f"ddpkit: done in {replace(self.record, ended=ended).duration}")
        self._save_end(self._note, ended=ended, state=state, exit_code=code, verdict=words, failure=failure)
        self._close_marker()
        return code

    def carry_out(
        self, relay: Relay, display: executor.Display, settings: LaunchSettings, cancelled: Callable[[], bool]
    ) -> None:
        """Follow the run to its finished record."""
        self.finish(self.follow(relay, display))

    def cancel_job(self) -> None:
        """There is no job of its own."""

    def release(self) -> None:
        """Hold the run's directory no longer."""
        record.release_folder(self.folder)

    def _first_failed(self) -> Part:
        """Return the replica that failed first by the clock, of a run that failed: the loop may hear of it late."""
        assert self.order.first is not None
        known = self.prepared.parts[self.order.first]
        failed = [part for part in self.prepared.parts.values() if part.run is not None and part.run.record.failure]
        return min([*failed, known], key=lambda part: part.failed_at)
