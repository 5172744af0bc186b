"""Calls to nodes before a run, each over a connection of its own and all at once: for --sync and --stage."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ddpkit.launchers.nodes import NodeOptions
from ddpkit.transports.channel import NoAnswerError, RefusedError
from ddpkit.transports.hosts import HostSpec, Problem
from ddpkit.transports.pool import Connector, NodePool

PATIENCE = 600.0  # seconds for one call
ANY_PYTHON = "python3"  # of a node whose Python is part of what is copied


class NodeCalls:
    """Connections to nodes, each with a supervisor that answers calls until `hang_up`."""

    def __init__(
        self,
        specs: Sequence[HostSpec],
        way: Connector,
        python: str,
        silence: float = NodeOptions.heartbeat_timeout,
    ) -> None:
        self.pool = NodePool(specs, way, silence, python)
        self._turn = threading.Semaphore(8)  # more copies at once would share one network card and one disk

    def connect(self) -> list[Problem]:
        return self.pool.connect()

    def hang_up(self) -> None:
        self.pool.hang_up()

    def call(self, spec: HostSpec, function: str, args: Mapping[str, object]) -> Any:
        """Call PROGRAM.NAME on a node, which sends heartbeats meanwhile. Raises NoAnswerError."""
        channel = self.pool.channel(spec.label)
        channel.ask(function, args, beats=True)
        return channel.answer(time.monotonic() + PATIENCE)

    def check_alive(self, spec: HostSpec, program: str) -> None:
        """Raise NoAnswerError for a node that is lost: its rsync would wait for it much longer."""
        if self.pool.channel(spec.label).silence:
            self.call(spec, f"{program}.alive", {})

    def each(
        self, specs: Sequence[HostSpec], action: Callable[[HostSpec], Problem | None], *, copies: bool = False
    ) -> list[Problem]:
        """Do something with all these nodes at the same time; copies: with some at a time. Returns all problems."""
        problems: dict[int, Problem] = {}

        def one(index: int) -> None:
            spec = specs[index]
            try:
                if copies:
                    with self._turn:
                        problem = action(spec)
                else:
                    problem = action(spec)
            except RefusedError as refused:
                problem = Problem(host=spec.label, what=refused.what, fix=refused.fix, unreachable=True)
            except Exception as error:  # a thread that dies in silence would count as a success
                what = str(error) if isinstance(error, NoAnswerError) else f"{type(error).__name__}: {error}"
                problem = Problem(host=spec.label, what=what, fix=f"ssh {spec.target} uptime", unreachable=True)
            if problem is not None:
                problems[index] = problem

        threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(len(specs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [problem for _, problem in sorted(problems.items())]
