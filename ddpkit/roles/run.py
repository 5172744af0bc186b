"""Carries out a run of several roles: one launcher, and a run of its own for each replica.

A replica is what a launch is: it has a plan, supervisors, logs, attempts and a record, in `roles/` of the run's folder.
Its thread tells when it is ready, fails and ends; `order.py` says what follows.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ddpkit.config import LaunchSettings, Replica, overlaid
from ddpkit.console.progress import Standing
from ddpkit.console.relay import Relay, Sink
from ddpkit.diagnosis.outcome import Failure, Outcome
from ddpkit.errors import DdpkitError
from ddpkit.execution import prepare
from ddpkit.execution.lifecycle import RecordedRun
from ddpkit.roles.order import Action, Ending, Name, Order, Start
from ddpkit.roles.place import Place, addresses, variables
from ddpkit.roles.spec import Role, fill

AT_ONCE = 16  # replicas that are prepared at the same time


class Happened:
    """What a thread of a replica tells the loop."""


@dataclass(frozen=True)
class Event:
    """`kind`: ready, failed (and not ended), ended. `ok` and `failure` of an end."""

    replica: Name
    kind: str
    outcome: Outcome | None = None
    error: BaseException | None = None


class _Lines:
    """A stream that several relays share, and one that keeps the last words of a replica."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.kept: list[bytes] | None = None  # once the replica ends

    def write(self, data: bytes) -> object:
        if self.kept is not None:
            self.kept.append(data)
            return None
        return self._sink.write(data)

    def flush(self) -> object:
        return self._sink.flush()


class _Display:
    """The part of the screen that a replica has: no status lines of its own."""

    has_status = False

    def __init__(self, full: Callable[[], bool]) -> None:
        self._full = full

    @property
    def is_full(self) -> bool:
        return self._full()

    def hurry(self) -> None:
        """The screen is the whole run's."""

    def suspend(self) -> None:
        """The same."""

    def begin(self, source: Callable[[], Standing], /) -> None:
        """The same."""

    def end(self) -> None:
        """The same."""


class RoleRun(RecordedRun):
    """The run of one replica."""

    tell: Callable[[str], None]

    def on_ready(self) -> None:
        self.tell("ready")

    def _begin_diagnosis(self, failure: Failure) -> None:
        if self._attempts is None:  # else another attempt may follow
            self.tell("failed")
        super()._begin_diagnosis(failure)


@dataclass(kw_only=True)
class Part:
    """One replica while the run goes on. `ready`: its plan and its connections, until it starts."""

    name: Name
    role: Role
    place: Place
    settings: LaunchSettings
    ready: prepare.Ready | None = None
    connections: ExitStack = field(default_factory=ExitStack)
    run: RoleRun | None = None
    words: _Lines | None = None
    outcome: Outcome | None = None
    error: BaseException | None = None
    started: float = 0.0
    ended: float = 0.0

    @property
    def port(self) -> int | None:
        return self.ready.plan.port if self.ready else None


class Parts:
    """The replicas of a run: prepared in the order in which they need each other's addresses, then started."""

    def __init__(
        self,
        roles: Sequence[Role],
        places: Mapping[Name, Place],
        settings: LaunchSettings,
        environ: Mapping[str, str],
        run_id: str,
        folder: Path,
        note: Callable[[str], None],
    ) -> None:
        self._roles = {role.name: role for role in roles}
        self._environ, self._note = environ, note
        self._addresses: dict[str, dict[str, str]] = {}
        log_dir = str(folder / "roles")
        self.parts = {
            name: Part(
                name=name,
                role=self._roles[name.role],
                place=place,
                settings=replace(
                    settings, log_dir=log_dir, roles={}, replica=Replica(run_id=f"{run_id}.{name}", wants_port=False)
                ),
            )
            for name, place in places.items()
        }

    def prepare(self) -> None:
        """Prepare all replicas, so that what is wrong with any shows before one starts. Raises DdpkitError."""
        left = dict(self._roles)
        try:
            while left:
                now = [role for role in left.values() if not any(name in left for name in role.after)]
                parts = [part for part in self.parts.values() if part.role in now]
                with ThreadPoolExecutor(AT_ONCE) as pool:
                    list(pool.map(self._prepare, parts))
                for role in now:
                    del left[role.name]
                    own = [part for part in parts if part.role is role]
                    self._addresses[role.name] = addresses(
                        role, [each.place for each in own], [each.port for each in own]
                    )
        except BaseException:
            self.close()
            raise

    def _prepare(self, part: Part, port: int | None = None) -> None:
        part.settings = self._settings(part, port)
        part.ready = part.connections.enter_context(
            prepare.prepare(
                part.settings, self._environ, lambda text: self._note(f"{part.name}: {text}"), lambda *_: None
            )
        )

    def _settings(self, part: Part, port: int | None) -> LaunchSettings:
        """Settings of the launch of one replica. Raises UsageError."""
        role, place = part.role, part.place
        own = {"host": place.hosts[0], "replica": str(part.name.number)}
        env = {"DDPKIT_ROLE": role.name, "DDPKIT_REPLICA": own["replica"], **variables(self._addresses)}
        if place.gpus is not None:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, place.gpus))
        settings = overlaid(part.settings, role.settings, f"roles.{role.name}")
        local = prepare.transport_of(settings).local
        ranks = settings.nproc_per_node
        if local and isinstance(ranks, int):
            ranks *= len(place.hosts)
        assert part.settings.replica is not None
        return replace(
            settings,
            script=fill(role.command, own, self._addresses),
            nproc_per_node=ranks,
            hosts=() if local else place.hosts,
            hostfile="",
            nnodes=None,
            env={**settings.env, **env},
            replica=replace(part.settings.replica, wants_port=role.needs_port, port=port, ready=role.ready),
            on_end="",
        )

    def again(self, part: Part) -> None:
        """Prepare a replica that starts again: others know its port. Raises DdpkitError."""
        port = part.port
        part.connections = ExitStack()
        self._prepare(part, port)

    def close(self) -> None:
        """Close the connections of replicas that did not start."""
        for part in self.parts.values():
            if part.run is None:
                part.connections.close()


class RolesRun:
    """The loop of a run of roles. `signals`: (-1, number), as for a launch."""

    def __init__(
        self,
        parts: Parts,
        roles: Sequence[Role],
        out: Sink,
        err: Sink,
        is_full: Callable[[], bool],
        note: Callable[[str], None],
        relay_options: Mapping[str, Any],
    ) -> None:
        self.parts = parts
        self.order = Order(roles)
        self.events: queue.SimpleQueue[Event | int] = queue.SimpleQueue()
        self._out, self._err, self._full, self._note = out, err, is_full, note
        self._relay_options = relay_options
        self._stopped_by: int | None = None

    def run(self) -> Ending:
        """Run all replicas to their end. Blocks."""
        self._do(self.order.begin())
        while not self.order.over:
            event = self.events.get()
            if isinstance(event, int):
                self._on_signal(event)
                continue
            part = self.parts.parts[event.replica]
            if event.kind == "ready":
                self._note(f"{event.replica} is ready after {time.time() - part.started:.1f} s")
                self._do(self.order.on_ready(event.replica))
            elif event.kind == "failed":
                self._do(self.order.on_failure(event.replica))
            else:
                self._on_end(part, event)
        self.parts.close()
        assert self.order.ending is not None
        return self.order.ending

    def _on_end(self, part: Part, event: Event) -> None:
        part.outcome, part.error, part.ended = event.outcome, event.error, time.time()
        ok = event.outcome is not None and event.outcome.exit_code == 0
        if not ok and self.order.ending is None:
            self._note(f"{part.name} has failed")
        elif ok and self.order.ending is None and not part.role.ends_run:
            self._note(f"{part.name} ended with exit code 0, and the run still needs it")
        self._do(self.order.on_end(part.name, ok=ok))

    def _on_signal(self, number: int) -> None:
        if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            self._stopped_by = self._stopped_by or number
            self._do(self.order.on_stop())
        for part in self.parts.parts.values():
            if part.run is not None and not part.ended:
                part.run.inbox.put((-1, number))

    def _do(self, actions: Iterator[Action]) -> None:
        for action in actions:
            if isinstance(action, Start):
                part = self.parts.parts[action.replica]
                part.started, part.ended = time.time(), 0.0
                threading.Thread(
                    target=self._follow, args=(part, action.restarts), name=f"ddpkit {part.name}", daemon=True
                ).start()
            else:
                names = ", ".join(map(str, action.replicas))
                self._note(f"ending {names}")
                for name in action.replicas:
                    run = self.parts.parts[name].run
                    if run is not None:
                        run.inbox.put((-1, signal.SIGTERM))

    def _follow(self, part: Part, restarts: int) -> None:
        """The thread of one replica."""
        outcome, error = None, None
        try:
            if restarts:
                self.parts.again(part)
            assert part.ready is not None
            run = RoleRun(part.ready, part.settings.log_dir, began=part.started, in_program=True)
            run.tell = lambda kind: self.events.put(Event(part.name, kind))
            part.run = run
            part.words = _Lines(self._err)
            relay = Relay(
                run.open_logs(part.settings), self._out, part.words, role=str(part.name), **self._relay_options
            )
            with part.connections:
                outcome = run.follow(relay, _Display(self._full))
            part.words.kept = []
            outcome = run.finish(relay, outcome)
            relay.close()
            run.release()
        except BaseException as problem:  # for the loop
            error = problem
            if part.run is not None:
                part.run.abandon(problem)
        finally:
            self.events.put(Event(part.name, "ended", outcome, error))


def first_of(parts: Parts, order: Order) -> Part | None:
    """Return the replica that failed first, of a run that failed."""
    if order.first is None:
        return None
    failed = [part for part in parts.parts.values() if part.outcome is not None and part.outcome.failure is not None]
    first = parts.parts[order.first]
    return min([*failed, first], key=_when)


def _when(part: Part) -> float:
    failure = part.outcome.failure if part.outcome else None
    return failure.at if failure is not None and failure.at else part.ended or time.time()


def describe_error(error: BaseException) -> str:
    return error.message if isinstance(error, DdpkitError) else f"{type(error).__name__}: {error}"
