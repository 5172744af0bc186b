"""NodePool: the channels to all nodes of a launch, asked at once and held until the launch ends.

A `ConnectionAttempt` connects to many nodes in parallel: a byte stream to each, then the first event of a supervisor
that starts there.
"""

from __future__ import annotations

import queue
import resource
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from ddpkit.errors import LIMIT_FIX, LIMIT_REACHED, NO_THREAD
from ddpkit.launchers.node_facts import NodeFacts
from ddpkit.launchers.plan import Container
from ddpkit.launchers.shell import count, quote
from ddpkit.node.calls.probe import visible_gpus
from ddpkit.node.supervision.clock import Clock
from ddpkit.transports.channel import ByteStream, Channel, Heartbeat, NoAnswerError, RefusedError, command
from ddpkit.transports.compatibility import Requirements
from ddpkit.transports.held import relay as held_relay
from ddpkit.transports.hosts import HostSpec, Problem, refusal
from ddpkit.transports.protocol import revealed
from ddpkit.transports.reachability import Attempt, Target

AT_ONCE = 64  # connections that are being made at the same time
LOOK_UP = 0.5  # seconds of one wait for the next host
# Timeouts in seconds hold for this connect_timeout, and are scaled for a longer one. All errors are known in 15 s.
USUAL_TIMEOUT = 5.0
CONNECT_TIMEOUT = 10.0  # for all nodes, retries included
START_TIMEOUT = 3.0  # more for the supervisor's first event


class Connector(Protocol):
    """Opens byte streams to single nodes: `Ssh`, `OpenSsh`, `Pdsh` of `ssh/`. Used by many threads at once."""

    timeout: float  # seconds for one connection
    by_hand: str  # `ssh {}`: a person's way to a node, before a command that runs there

    @property
    def asks(self) -> bool:
        """A person is to answer a question now."""

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        """Take all nodes, with the command for each, before the first is connected. Raises UsageError."""

    def enter(self, spec: HostSpec, command: str, until: float) -> ByteStream:
        """Start a command on a node. Raises RefusedError."""

    def login(self, spec: HostSpec) -> tuple[str, ...]:
        """Log in for other programs. Returns options with which ssh uses that connection. Raises RefusedError."""

    def close(self) -> None: ...


class NoConnector:
    """Connects to nothing: for a plan of nodes that must not be queried."""

    by_hand = "ssh {}"

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout

    @property
    def asks(self) -> bool:
        return False

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        raise AssertionError("a dry run must not connect to these nodes")

    def enter(self, spec: HostSpec, command: str, until: float) -> ByteStream:
        raise AssertionError(f"a dry run must not connect to {spec.label}")

    def login(self, spec: HostSpec) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """There is nothing to close."""


@dataclass(frozen=True, kw_only=True)
class ConnectionAttempt:
    """One attempt to connect to nodes. `start_timeout`: seconds for a supervisor's first event; None: what is left."""

    connector: Connector
    python: str  # of nodes that have none of their own
    container: Callable[[HostSpec], Container | None]
    silence: float  # seconds without an event after which a node counts as lost
    start_timeout: float | None
    clock: Clock  # of the launch
    relay: bytes = b""  # into a hold (`held.py`)
    waiting: dict[str, str] = field(default_factory=dict)  # by label of each node that is waited for: its last step

    def run(self, specs: Sequence[HostSpec]) -> Generator[tuple[HostSpec, Channel | Problem], None, None]:
        """Connect to every node, and yield each as it succeeds or fails. Raises UsageError.

        A caller that stops before the last one leaves no connection open: what is made later is closed.
        """
        todo: queue.SimpleQueue[HostSpec] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[HostSpec, Channel | Problem]] = queue.SimpleQueue()
        caller_left = threading.Event()  # it takes nothing more
        for spec in specs:
            todo.put(spec)
        allow_open_files(len(specs))
        self.waiting.update(dict.fromkeys((spec.label for spec in specs), "login not finished"))
        self.connector.begin([(spec, self._command(spec)) for spec in specs])
        until = time.monotonic() + self._scaled(CONNECT_TIMEOUT)

        def work() -> None:
            while not caller_left.is_set():
                try:
                    spec = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    done.put((spec, self._connect(spec, until)))
                except Exception as error:  # a thread that dies in silence would be waited for
                    done.put((spec, _unexpected(spec, error, self._by_hand(spec))))
            _close_channels(done)  # also one that was made while the caller left

        try:
            for _ in range(min(AT_ONCE, len(specs))):
                # Not a pool: at exit Python would wait for its threads, and one of them for a host that is off.
                threading.Thread(target=work, daemon=True).start()
            for _ in specs:
                spec, result = _next(done)
                del self.waiting[spec.label]
                yield spec, result
        finally:
            caller_left.set()
            _close_channels(done)

    def _scaled(self, seconds: float) -> float:
        return scale_timeout(seconds, self.connector)

    def _by_hand(self, spec: HostSpec) -> str:
        return self.connector.by_hand.format(spec.target)

    def _command(self, spec: HostSpec) -> str:
        return command(spec.python or self.python, self.container(spec))

    def _connect(self, spec: HostSpec, until: float) -> Channel | Problem:
        """Log in to one node and start its supervisor. `until`: a time.monotonic(), for the login."""
        channel = None  # as long as the login is not done
        try:
            stream = self.connector.enter(spec, self._command(spec), until)
            channel = Channel(spec.label, stream, self.silence, self.clock, self.relay)
            self.waiting[spec.label] = "its shell and Python have not started yet"
            # The user may have taken time to type a passphrase.
            start_until = max(until, time.monotonic()) + self._scaled(START_TIMEOUT)
            if self.start_timeout is not None:
                start_until = min(start_until, time.monotonic() + self._scaled(self.start_timeout))
            channel.open(start_until)
            return channel
        except BaseException as error:
            if channel is not None:
                channel.close()
            if not isinstance(error, (NoAnswerError, RefusedError)):
                raise
            logged_in = channel is not None
            found = container_cause(str(error)) if logged_in and self.container(spec) else None
            if found is not None:
                cause, fix = found
                what = f"its container did not start: {cause}"
                return Problem(host=spec.label, what=what, fix=fix, unreachable=True)
            by_hand = f"{self._by_hand(spec)} {quote(spec.python or self.python)} --version"
            if logged_in and time.monotonic() > until:
                by_hand += f"; if the node is slow: -o connect_timeout={4 * self.connector.timeout:g}"
            fix = error.fix if isinstance(error, RefusedError) and error.fix else by_hand
            return Problem(host=spec.label, what=str(error), fix=fix, unreachable=True)


def container_cause(text: str) -> tuple[str, str] | None:
    """Return the known cause in the lines of a container's runtime, with these lines, and its fix. None: not known.

    `text`: an error that ends with `quoted_lines`.
    """
    from ddpkit.diagnosis.decide import analyze_log

    lines = text.partition("; its output: ")[2]
    first = analyze_log([("", lines.replace(" / ", "\n"))]).first
    return (
        (f"{first.bare_cause}; its output: {lines}", first.fix)
        if first and first.kind == "cause" and first.known
        else None
    )


def _next(results: queue.SimpleQueue[tuple[HostSpec, Channel | Problem]]) -> tuple[HostSpec, Channel | Problem]:
    """Wait for the next host. A signal that comes just before a wait is acted on at its end, so that each ends soon."""
    while True:
        with suppress(queue.Empty):
            return results.get(timeout=LOOK_UP)


def _close_channels(results: queue.SimpleQueue[tuple[HostSpec, Channel | Problem]]) -> None:
    """Close the channels that nobody took."""
    with suppress(queue.Empty):
        while True:
            _, result = results.get_nowait()
            if isinstance(result, Channel):
                result.close()


def _unexpected(spec: HostSpec, error: Exception, by_hand: str) -> Problem:
    text, fix = f"{type(error).__name__}: {error}", f"{by_hand} true"
    if str(error) == NO_THREAD:
        text, fix = f"not connected, because this machine cannot start a thread: {LIMIT_REACHED}", LIMIT_FIX
    return Problem(host=spec.label, what=text, fix=fix, unreachable=True)


def scale_timeout(seconds: float, connector: Connector) -> float:
    """Lengthen a timeout for a connector whose connections may take longer than usual."""
    return seconds * max(1.0, connector.timeout / USUAL_TIMEOUT)


def allow_open_files(nodes: int) -> None:
    """Raise this process's limit of open files for a connection to every node; many systems have 1024 by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * nodes + 512  # pdsh holds two pipes for each; half of all is for logs
    if soft != resource.RLIM_INFINITY and soft < 2 * needed:
        most = 2 * needed if hard == resource.RLIM_INFINITY else min(2 * needed, hard)
        before = own_open_files()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            _raised[most] = before
        except (OSError, ValueError):
            pass  # then the last connections report it


_raised: dict[int, int] = {}  # limits that were set here, with those before


def own_open_files() -> int:
    """Return the limit of open files of this process without its connections: that is the limit of ranks."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _raised.get(soft, soft)


# ---- the pool

FACTS_TIMEOUT = 12.0  # seconds, for a usual connect_timeout: for a node's facts
PROBE_TIMEOUT = 3.0  # seconds, for a usual connect_timeout: for one node to reach another
REPORT_EVERY = 8.0  # seconds between two notes on the nodes that are waited for
LOOK_EVERY = 0.3  # seconds between two states of a line that shows them
NAMED = 8  # of them by name
_DOES = {
    "probe.look": "checking directory, Python and torch",
    "probe.reach": "testing its connections to the others",
}


class NodePool:
    """The nodes of one launch, and the channel to each."""

    def __init__(
        self,
        specs: Sequence[HostSpec],
        connector: Connector,
        silence: float,
        python: str,
        container: Callable[[HostSpec], Container | None] = lambda _: None,
        held: str = "",
    ) -> None:
        """`held`: the id of a hold on these nodes that this launch uses."""
        self._relay = held_relay(held)
        self.specs = self._all_specs = tuple(specs)  # `specs` loses those that are dropped
        self._connector = connector
        self._silence = silence
        self.python = python
        self._container = container
        self._channels: dict[str, Channel] = {}
        self.clock = Clock()  # of the launch
        self._asked_at: dict[str, float] = {}  # of each node's last question, by that clock
        self._heartbeat = Heartbeat(silence)
        self._waiting: dict[str, str] = {}  # by label of each node that is waited for: what for
        self.progress: Callable[[str], None] | None = None  # shows who is waited for; an empty text ends that
        self.connected_at: dict[str, float] = {}  # of each supervisor's first event, by that clock
        self.facts: dict[str, NodeFacts] = {}

    # ---- connections

    def connect(self, start_timeout: float | None = None) -> list[Problem]:
        """Start a supervisor on every node. Returns the problems; where there are any, drop those nodes or close.

        `start_timeout`: seconds for a supervisor's first event after its node has let us in; None: what is left of all.
        """
        problems = {}
        attempt = ConnectionAttempt(
            connector=self._connector,
            python=self.python,
            container=self._container,
            silence=self._silence,
            start_timeout=start_timeout,
            clock=self.clock,
            relay=self._relay,
        )
        self._waiting = attempt.waiting
        with closing(attempt.run(self.specs)) as results:
            for spec, result in results:
                if isinstance(result, Channel):
                    self._channels[spec.label] = result
                    self._heartbeat.add(result)
                    self.connected_at[spec.label] = result.opened_at
                else:
                    problems[spec.label] = result
        return [problems[spec.label] for spec in self.specs if spec.label in problems]

    def drop_failed(self, problems: Sequence[Problem], least: int | None, note: Callable[[str], None]) -> None:
        """Go on without the hosts that have problems, where `least` of them are enough. Else raise the refusal."""
        if not problems:
            return
        bad = {problem.host for problem in problems}
        good = tuple(spec for spec in self.specs if spec.label not in bad)
        if least is None or len(good) < least:
            raise refusal(problems, len(self.specs))
        for problem in problems:
            note(f"continues without {problem.host}: {problem.what} (hint: {problem.fix})")
        self.drop(bad)

    def drop(self, labels: Collection[str]) -> None:
        """Close the channels to these nodes, and go on with the others."""
        for label in set(labels) & set(self._channels):
            self._channels.pop(label).close()
        self.specs = tuple(spec for spec in self.specs if spec.label not in labels)

    def reset(self, labels: Collection[str]) -> None:
        """Close every channel; the next survey connects to these nodes alone."""
        self.hang_up()
        self._heartbeat = Heartbeat(self._silence)
        self.connected_at.clear()
        self.facts.clear()
        self.progress = None  # the screen of the run shows notes
        self.specs = tuple(spec for spec in self._all_specs if spec.label in labels)

    def channel(self, label: str) -> Channel:
        """Return the channel to a node."""
        return self._channels[label]

    def close(self) -> None:
        """Close every channel. What was started over one ends."""
        self.hang_up()
        self._connector.close()

    def hang_up(self) -> None:
        """Close every channel, and keep the connector."""
        self._heartbeat.stop()
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    # ---- questions

    def ask_facts(self, requirements: Requirements, timeout: float) -> tuple[dict[str, NodeFacts], list[Problem]]:
        """Ask every connected node for its facts. Returns them by label, and a problem for each that did not answer."""
        # Where nodes can be left out, each may become the first, which listens on rank 0's port.
        all_listen = bool(requirements.least)
        args = {
            spec.label: {
                "workdir": spec.workdir or requirements.job.workdir,
                "script": requirements.script,
                "python": spec.python or requirements.job.python,
                "environ": {} if requirements.dry else revealed({**requirements.job.env, **spec.env}),
                "port": requirements.master_port if all_listen or spec is self.specs[0] else None,
                "torch": requirements.torch,
            }
            for spec in self.specs
        }
        answers, silent = self.ask("probe.look", args, timeout)
        if requirements.dry:  # no variable was sent
            for spec in self.specs:
                if spec.label in answers:
                    env = revealed({**requirements.job.env, **spec.env})
                    answers[spec.label]["gpus"] = visible_gpus(answers[spec.label]["gpus"], env)
        self.facts.update(answers)
        return answers, silent

    def probe_addresses(
        self, targets: Mapping[str, Sequence[Target]]
    ) -> tuple[dict[str, list[Attempt]], list[Problem]]:
        """Let each node, by its label, try to connect to its targets (see `probe.reach`)."""
        seconds = self.scaled(PROBE_TIMEOUT)
        args = {label: {"targets": each, "timeout": seconds} for label, each in targets.items()}
        return self.ask("probe.reach", args, seconds + 3.0)

    def ask(
        self, function: str, args: Mapping[str, Mapping[str, Any]], timeout: float
    ) -> tuple[dict[str, Any], list[Problem]]:
        """Call PROGRAM.NAME on all these nodes at once, each with its own arguments.

        Returns the answers by label, and a problem for each node that did not answer.
        """
        asked = [spec for spec in self.specs if spec.label in args and spec.label in self._channels]
        for spec in asked:
            self._asked_at[spec.label] = self.clock.now()
            self._channels[spec.label].ask(function, args[spec.label])
        self._waiting = dict.fromkeys((spec.label for spec in asked), _DOES.get(function, "has not answered"))
        until, answers, problems = time.monotonic() + timeout, {}, []
        try:
            for spec in asked:
                try:
                    answers[spec.label] = self._channels[spec.label].answer(until)
                    self._waiting.pop(spec.label, None)
                except NoAnswerError as error:
                    fix = f"{self._connector.by_hand.format(spec.target)} uptime"
                    problems.append(Problem(host=spec.label, what=str(error), fix=fix, unreachable=True))
        finally:
            self._waiting = {}
        return answers, problems

    def clock_offset(self, label: str, node_time: float) -> tuple[float, float]:
        """Return the seconds by which a node's clock is ahead of ours, at least and at most.

        `node_time`: the node's time in its last answer.
        """
        return self._channels[label].ahead, node_time - self._asked_at[label]

    def scaled(self, seconds: float) -> float:
        """Lengthen a timeout where connections may take longer than usual."""
        return scale_timeout(seconds, self._connector)

    @contextmanager
    def report_waiting(self, note: Callable[[str], None]) -> Iterator[None]:
        """Report the missing nodes every few seconds; where a line shows them, all the time."""
        done = threading.Event()
        show = self.progress

        def report() -> None:
            while not done.wait(LOOK_EVERY if show else REPORT_EVERY):
                lines = [] if self._connector.asks else list(describe_waiting(dict(self._waiting), len(self.specs)))
                if show and lines:
                    show("; ".join(lines))
                elif not show:
                    for line in lines:
                        note(line)

        thread = threading.Thread(target=report, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            if show:
                thread.join(LOOK_EVERY)  # nothing is drawn after this
                show("")


def describe_waiting(waiting: Mapping[str, str], total: int) -> Iterator[str]:
    """Yield a line for each reason to wait: the missing nodes, and how many they are."""
    by_reason: dict[str, list[str]] = {}
    for label, what in waiting.items():
        by_reason.setdefault(what, []).append(label)
    for what, labels in by_reason.items():
        more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
        yield f"waiting for {len(labels)} of {count(total, 'node')}: {', '.join(labels[:NAMED])}{more}: {what}"
