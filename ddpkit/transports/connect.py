"""Connects to many nodes in parallel: a byte stream to each, then the first event of a supervisor that starts there."""

from __future__ import annotations

import queue
import resource
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ddpkit.errors import LIMIT_FIX, LIMIT_REACHED, NO_THREAD
from ddpkit.launchers.plan import Container
from ddpkit.transports.channel import ByteStream, Channel, NoAnswerError, RefusedError, command
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.problem import Problem

AT_ONCE = 64  # connections that are being made at the same time
# Timeouts in seconds hold for this connect_timeout, and are scaled for a longer one. All errors are known in 15 s.
USUAL_TIMEOUT = 5.0
CONNECT_TIMEOUT = 10.0  # for all nodes, retries included
START_TIMEOUT = 3.0  # more for the supervisor's first event


class Connector(Protocol):
    """Opens byte streams to single nodes: `Ssh`, `OpenSsh`, `Pdsh` of `ssh/`. Used by many threads at once."""

    timeout: float  # seconds for one connection

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
    waiting: dict[str, str] = field(default_factory=dict)  # by label of each node that is waited for: its last step

    def run(self, specs: Sequence[HostSpec]) -> Iterator[tuple[HostSpec, Channel | Problem]]:
        """Connect to every node, and yield each as it succeeds or fails. Raises UsageError."""
        todo: queue.SimpleQueue[HostSpec] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[HostSpec, Channel | Problem]] = queue.SimpleQueue()
        for spec in specs:
            todo.put(spec)
        allow_open_files(len(specs))
        self.waiting.update(dict.fromkeys((spec.label for spec in specs), "login not finished"))
        self.connector.begin([(spec, self._command(spec)) for spec in specs])
        until = time.monotonic() + self._scaled(CONNECT_TIMEOUT)

        def work() -> None:
            while True:
                try:
                    spec = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    done.put((spec, self._connect(spec, until)))
                except Exception as error:  # a thread that dies in silence would be waited for
                    done.put((spec, _unexpected(spec, error)))

        for _ in range(min(AT_ONCE, len(specs))):
            # Not a pool: at exit Python would wait for its threads, and one of them for a host that is off.
            threading.Thread(target=work, daemon=True).start()
        for _ in specs:
            spec, result = done.get()
            del self.waiting[spec.label]
            yield spec, result

    def _scaled(self, seconds: float) -> float:
        return scale_timeout(seconds, self.connector)

    def _command(self, spec: HostSpec) -> str:
        return command(spec.python or self.python, self.container(spec))

    def _connect(self, spec: HostSpec, until: float) -> Channel | Problem:
        channel = None
        try:
            stream = self.connector.enter(spec, self._command(spec), until)
            channel = Channel(spec.label, stream, self.silence)
            self.waiting[spec.label] = "its shell and Python have not started yet"
            # The user may have taken time to type a passphrase.
            last = max(until, time.monotonic()) + self._scaled(START_TIMEOUT)
            if self.start_timeout is not None:
                last = min(last, time.monotonic() + self._scaled(self.start_timeout))
            channel.open(last)
            return channel
        except (NoAnswerError, RefusedError) as error:
            if channel is not None:
                channel.close()
                cause = self.container(spec) and container_cause(str(error))
                if cause:
                    return Problem(
                        host=spec.label, what=f"its container did not start: {cause[0]}", fix=cause[1], unreachable=True
                    )
            by_hand = f"ssh {spec.target} {spec.python or self.python} --version"
            if channel is not None and time.monotonic() > until:
                by_hand += f"; if the node is slow: -o connect_timeout={4 * self.connector.timeout:g}"
            fix = error.fix if isinstance(error, RefusedError) and error.fix else by_hand
            return Problem(host=spec.label, what=str(error), fix=fix, unreachable=True)


def container_cause(text: str) -> tuple[str, str] | None:
    """Search the lines of a container's runtime for a known cause. Return it with the lines, and its fix."""
    from ddpkit.diagnosis.analyze import analyze_log

    lines = text.partition("; its output: ")[2]
    first = analyze_log([("", lines.replace(" / ", "\n"))]).first
    return (
        (f"{first.bare_cause}; its output: {lines}", first.fix)
        if first and first.kind == "cause" and first.entry
        else None
    )


def _unexpected(spec: HostSpec, error: Exception) -> Problem:
    text, fix = f"{type(error).__name__}: {error}", f"ssh {spec.target}"
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
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):
            pass  # then the last connections report it
