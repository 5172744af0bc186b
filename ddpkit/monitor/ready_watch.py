"""When the program of a run is ready: by its port, by a line, or by the start of its processes.

`ddpkit/node/calls/ready.py` looks at a port, from the program's own host. One call lasts for some seconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from ddpkit.launchers.events import AnswerEvent
from ddpkit.launchers.plan import Plan, Probe
from ddpkit.monitor.server import Node

WAIT = "ready.wait"
CALL = 10.0  # seconds
PATIENCE = 3.0  # seconds beyond its limit for the last answer
LINE = 1 << 14  # bytes of a line without an end in which the pattern is looked for


class ReadyWatch:
    """Watches one plan. `on_ready` is called once."""

    def __init__(self, plan: Plan, on_ready: Callable[[], None]) -> None:
        self.ready = False
        self.why = ""  # it is not ready, by the last look
        self.host = ""  # of its first rank: under SLURM a step has none of its own
        self._plan, self._on_ready = plan, on_ready
        self._until = float("inf")  # time.monotonic()
        self._left = set(range(plan.world_size))  # ranks that have not started
        self._call: int | None = None
        wanted = plan.ready
        self._line = re.compile(wanted.value) if wanted is not None and wanted.probe is Probe.LINE else None

    @property
    def overdue(self) -> bool:
        """Whether it should have been ready by now. A node that is asked has a moment to say why it is not."""
        asked = PATIENCE if self._call is not None else 0.0
        return not self.ready and time.monotonic() >= self._until + asked

    @property
    def pause(self) -> float:
        """Seconds until it is overdue."""
        return float("inf") if self.ready else max(0.0, self._until - time.monotonic())

    def on_start(self, node: Node, rank: int, host: str) -> None:
        """A rank has started on a node."""
        self._left.discard(rank)
        if node.index == 0 and rank == min(node.step.ranks):
            self.host = host
        wanted = self._plan.ready
        if wanted is None:
            if not self._left:
                self._be_ready()
            return
        if self._until == float("inf"):
            self._until = time.monotonic() + wanted.timeout
        if node.index == 0 and wanted.probe is not Probe.LINE and self._call is None:
            self._ask(node)

    def _ask(self, node: Node) -> None:
        wanted = self._plan.ready
        assert wanted is not None
        limit = min(CALL, max(0.1, self._until - time.monotonic()))
        path = wanted.value if wanted.probe is Probe.HTTP else None
        self._call = node.link.call(WAIT, {"port": self._plan.port, "path": path, "limit": limit})

    def on_answer(self, node: Node, event: AnswerEvent) -> None:
        """Take the answer of a node, and ask again where the program is not ready."""
        if self._call is None or event["id"] != self._call:
            return
        self._call = None
        values: list[Mapping[str, Any]] = [each for each in event["values"] if isinstance(each, dict)]
        self.why = str(values[0].get("why", "")) if values else str(event["error"] or "it did not answer")
        if values and values[0].get("ready") is True:
            self._be_ready()
        elif not node.ended and not self.overdue:
            self._ask(node)

    def on_output(self, data: bytes) -> None:
        """Take whole lines of a rank."""
        if self._line is None or self.ready:
            return
        if any(self._line.search(line[:LINE]) for line in data.decode("utf-8", "replace").splitlines()):
            self._be_ready()

    def describe(self) -> str:
        """Return why the program counts as failed."""
        wanted = self._plan.ready
        assert wanted is not None
        silent = f"nothing on port {self._plan.port} answers"
        what = f"no line matches {wanted.value!r}" if wanted.probe is Probe.LINE else self.why or silent
        return f"it is not ready after {wanted.timeout:g} s: {what}"

    def _be_ready(self) -> None:
        if not self.ready:
            self.ready = True
            self._on_ready()
