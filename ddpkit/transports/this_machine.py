"""This machine: its processors, GPUs and a free port; links to supervisors on it, beside its ranks or in a container.

A container has nothing of ours: the supervisor is sent over its standard input, which stays its lifeline. Whoever is
killed, launcher or the runtime's client, that input ends, and the supervisor ends everything in the container: the
runtimes close it when the last client is gone (`--interactive`; docker: StdinOnce).
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import IO, ClassVar, Literal, cast

from ddpkit.errors import UsageError
from ddpkit.launchers.cpu_binding import Topology
from ddpkit.launchers.events import Event
from ddpkit.launchers.node_facts import DeviceFacts, TopologyFacts
from ddpkit.launchers.plan import Container, Host, Plan, Step, World
from ddpkit.node.calls import probe
from ddpkit.transports.held import HeldLink
from ddpkit.transports.protocol import Link, LocalLink, container_argv, new_key, program
from ddpkit.transports.slurm_nodes import short_hostname
from ddpkit.transports.transport import Transport


def gpus(environ: Mapping[str, str], root: str = "/") -> int:
    """Count the GPUs that a process with this environment sees on this machine (see `probe.gpus`)."""
    try:
        return probe.gpus(environ, root)
    except ValueError as problem:
        raise UsageError(str(problem), "unset DDPKIT_GPUS") from None


def free_port() -> int:
    """A port of this machine that nobody listens on (see `probe.free_port`)."""
    port = probe.free_port()
    if port is None:
        raise UsageError("no port from 20000 on is free on this machine", "ss -ltnp")
    return port


def nproc(asked: int | None, environ: Mapping[str, str], note: Callable[[str], None] = lambda _: None) -> int:
    """Ranks on this machine: as asked, or one per visible GPU, or one. `note`: gets why they are fewer."""
    visible = gpus(environ)
    number, why = probe.gpu_ranks(environ)
    if asked is None:
        if why:
            note(why)
        return max(1, number)
    if visible and asked > visible:
        what = f"-n {asked}: this machine has {visible} visible GPU{'s' if visible > 1 else ''}, one per rank"
        raise UsageError(
            f"{what} ({why})" if why == probe.ONE_INSTANCE else what,
            f"use -n {visible}, or --env CUDA_VISIBLE_DEVICES= to run on the CPU",
        )
    return asked


def this_machine(asked: int | None, environ: Mapping[str, str], note: Callable[[str], None] = lambda _: None) -> World:
    """A world of this machine alone. `environ` is what the ranks will see, `asked` the ranks, None: one per GPU."""
    slots = nproc(asked, environ, note)
    host = Host(
        name=short_hostname(),
        slots=slots,
        cpus=probe.cpus(),
        topology=Topology.of(_topology(environ)),
        chosen=tuple(environ),
        stale=tuple(probe.stale(environ)),
    )
    return World(hosts=(host,), master_addr="127.0.0.1", master_port=free_port(), port=free_port())


def _topology(environ: Mapping[str, str]) -> TopologyFacts:
    return cast("TopologyFacts", probe.topology(environ))


def facts(environ: Mapping[str, str]) -> DeviceFacts:
    """What this machine is, in the words of a node that was asked (`probe.look`)."""
    return {"cpus": probe.cpus(), "gpus": gpus(environ), "topology": _topology(environ)}


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
        """Pass on what the runtime and the image print before the supervisor's first event, then its events."""

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
        self,
        nproc_per_node: int | None,
        environ: Mapping[str, str],
        rank_env: Mapping[str, str] | None = None,
        held: str = "",
    ) -> None:
        """Take the ranks asked for (None: one per GPU), the environment, and the ranks' own variables.

        `held`: the id of a hold on this machine that this launch uses.
        """
        self._held = held
        self._nproc_per_node = nproc_per_node
        self._environ = environ
        self._rank_env = rank_env or {}

    def survey(self, note: Callable[[str], None] = lambda _: None, *, strict: bool = True) -> World:
        world = this_machine(self._nproc_per_node, {**self._environ, **self._rank_env}, note)
        self.facts = {world.hosts[0].name: facts(self._environ)}
        return world

    def submit(self, plan: Plan) -> None:
        return None

    def connect(self, step: Step) -> Link:
        if step.container:
            return ContainerLink(step.container)
        return HeldLink(self._held) if self._held else LocalLink()

    def close(self) -> None:
        """Nothing is connected before a step starts."""
