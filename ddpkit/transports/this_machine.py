"""Links to supervisors of this machine: beside its ranks, or in a container with them.

A container has nothing of ours: the supervisor is sent over its standard input, which stays its lifeline. Whoever is
killed, launcher or the runtime's client, that input ends, and the supervisor ends everything in the container: the
runtimes close it when the last client is gone (`--interactive`; docker: StdinOnce).
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import IO, ClassVar, Literal

from ddpkit.launchers.events import Event
from ddpkit.launchers.plan import Container, Plan, Step, World
from ddpkit.transports import local_facts
from ddpkit.transports.protocol import Link, LocalLink, container_argv, new_key, program
from ddpkit.transports.transport import Transport


class ContainerLink(LocalLink):
    """A container of this machine. The lines of its runtime are in the run's log, where the cause is searched for."""

    margin = 20.0  # a runtime takes its time to end a container
    stderr = subprocess.PIPE

    def __init__(self, container: Container) -> None:
        self._key = new_key()  # the runtime's client reaches its supervisor through pipes
        super().__init__(key=self._key)
        self.argv = container_argv(container)

    def start(self, request: str, post: Callable[[Event | None], None]) -> None:
        self.open(post)
        self._write(program(key=self._key))
        self.request(request)

    def _read(self, lines: Iterable[bytes], post: Callable[[Event | None], None]) -> None:
        def relay(fd: Literal[1, 2], text: bytes) -> None:
            post({"e": "out", "rank": None, "fd": fd, "data": text.decode("utf-8", "surrogateescape")})

        def relay_errors(errors: IO[bytes]) -> None:
            with errors:
                for text in errors:
                    relay(2, text)

        assert self._process is not None
        errors = threading.Thread(target=relay_errors, args=(self._process.stderr,), daemon=True)
        errors.start()
        for line in lines:
            if line.startswith(b'{"e":"hello"'):
                lines = chain([line], lines)
                break
            relay(1, line)  # an image may greet its user before it starts what it was asked to
        else:
            errors.join(2.0)  # before the failure: these lines tell its cause
            post({"e": "refused", "message": "the container did not start, or does not contain this Python"})
            post({"e": "end"})
        super()._read(lines, post)


class LocalTransport(Transport):
    """This machine: surveyed without a connection."""

    local: ClassVar[bool] = True

    def __init__(
        self, nproc_per_node: int | None, environ: Mapping[str, str], rank_env: Mapping[str, str] | None = None
    ) -> None:
        """Take the ranks asked for (None: one per GPU), the environment, and the ranks' own variables."""
        self._nproc_per_node = nproc_per_node
        self._environ = environ
        self._rank_env = rank_env or {}

    def survey(self, note: Callable[[str], None] = lambda _: None, *, strict: bool = True) -> World:
        world = local_facts.this_machine(self._nproc_per_node, {**self._environ, **self._rank_env}, note)
        self.facts = {world.hosts[0].name: local_facts.facts(self._environ)}
        return world

    def submit(self, plan: Plan) -> None:
        return None

    def connect(self, step: Step) -> Link:
        return ContainerLink(step.container) if step.container else LocalLink()

    def close(self) -> None:
        """Nothing is connected before a step starts."""
