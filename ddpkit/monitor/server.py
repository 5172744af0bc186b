"""The launcher's part of a dump and of `ddpkit top`: asks its nodes when a shell or the watch wants it; says what came.

Nothing of it is imported or runs before somebody asks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ddpkit.console.relay import Relay
from ddpkit.launchers.events import Command, ReplyEvent
from ddpkit.launchers.plan import Plan, Step

if TYPE_CHECKING:  # see above
    from ddpkit.monitor.dump import Dump, Question
    from ddpkit.monitor.sampling import Sampling
    from ddpkit.monitor.watchdog import Watch


class Asked(Protocol):
    """A node, as its launcher knows it."""

    step: Step
    ended: bool
    running: set[int]


class Launcher(Protocol):
    """What asks: see `ddpkit.execution.executor.Carrier`."""

    plan: Plan
    relay: Relay
    deadline: float | None

    @property
    def nodes(self) -> Sequence[Any]: ...

    def tell(self, command: Command) -> None: ...

    def note(self, text: str) -> None: ...

    def fail(self, node: Any, *, what: str, host: str, rank: int | None, **details: Any) -> None: ...


class Asking:
    """The questions of one run, one at a time."""

    def __init__(self, launcher: Launcher) -> None:
        self.last_line = time.time()
        self._launcher = launcher
        self._watch: Watch | None = None
        self._question: Question | None = None
        self._number = 0
        self._sampling: Sampling | None = None

    def watch(self, seconds: float, action: str) -> None:
        from ddpkit.monitor.watchdog import Watch

        self._watch = Watch(seconds, "end" if action == "end" else "warn", time.time())

    def ask(self, why: str) -> None:
        """Ask every node for what its ranks do. Who asks while an answer is on its way gets the same one."""
        from ddpkit.monitor import dump

        if self._question is not None:
            self._question.why = "asked" if why == "asked" else self._question.why
        elif self._launcher.deadline is None:
            self._number += 1
            there: list[Asked] = [node for node in self._launcher.nodes if not node.ended]
            silent = {node.step.host: sorted(node.running) for node in there if not node.step.scheduled}
            self._question = dump.Question(self._number, why, silent, len(there))
            self._launcher.tell(dump.command(self._number))

    def look(self) -> None:
        """Another shell wants a sample of every node, or a terminal has another size."""
        if self._sampling is None:
            if not any(self._launcher.relay.folder.glob("top.*.ask")):
                return
            from ddpkit.monitor.sampling import Sampling

            self._sampling = Sampling(self._launcher)
        self._sampling.ask()

    def heard(self, node: Asked, event: ReplyEvent) -> None:
        number = list(self._launcher.nodes).index(node)
        host = "" if node.step.scheduled else node.step.host
        if event["e"] == "top" and self._sampling is not None:
            self._sampling.heard(number, event, host)
        elif event["e"] == "dump" and self._question is not None:
            self._question.heard(number, event, host)

    def turn(self) -> None:
        """Come back to a question that was answered, or ask one that the watch wants. Called in every turn."""
        if self._sampling is not None:
            self._sampling.turn()
        if self._question is None:
            # Before a rank runs there is nobody to ask: a job that waits in its queue does not hang.
            if self._watch is not None and time.time() >= self._watch.due and self._any_runs():
                self.ask("watch")
        elif self._question.over:
            asked, self._question = self._question, None
            self._answered(asked)

    def _any_runs(self) -> bool:
        return any(node.running for node in self._launcher.nodes)

    def _answered(self, asked: Question) -> None:
        from ddpkit.monitor import dump

        plan = self._launcher.plan
        found = dump.compose(plan.run_id, plan.steps[0].workdir, asked.answers, asked.silent, asked.why, asked.began)
        hangs = self._watch is not None and self._watch.judged(time.time(), found.ranks, found.findings, self.last_line)
        if asked.why != "asked" and not hangs:
            return
        try:
            folder = str(dump.write(found, self._launcher.relay.folder))
        except OSError as error:
            folder = f"cannot be written: {error.strerror}"
        if hangs:
            self._say(found, folder)

    def _say(self, found: Dump, folder: str) -> None:
        from ddpkit.monitor import watchdog

        assert self._watch is not None
        still = time.time() - self._watch.progress
        self._launcher.note(f"this run hangs: no progress for {still:.0f} s; dump: {folder}")
        for finding in found.findings:
            self._launcher.note(finding.words)
        if self._watch.action == "end" and self._launcher.deadline is None:
            first = found.findings[0]
            rank = first.ranks[0] if first.ranks else None
            host = next((each.host for each in found.ranks if each.rank == rank), "")
            nodes = self._launcher.nodes
            self._launcher.fail(
                next((node for node in nodes if node.step.host == host), nodes[0]),
                what="the run" if rank is None else "rank",
                host=host,
                rank=rank,
                code=watchdog.CODE,
                reason=f"it hangs: {first.words}",
            )
