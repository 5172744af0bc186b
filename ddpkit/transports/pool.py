"""NodePool: the channels to all nodes of a launch, asked at once and held until the launch ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ddpkit.launchers.node_facts import NodeFacts
from ddpkit.launchers.plan import Container
from ddpkit.launchers.shell import count
from ddpkit.node.probe import visible_gpus
from ddpkit.transports.channel import Channel, Heartbeat, NoAnswerError
from ddpkit.transports.compatibility import Requirements
from ddpkit.transports.connect import ConnectionAttempt, Connector, scale_timeout
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.problem import Problem, refusal
from ddpkit.transports.protocol import revealed
from ddpkit.transports.reachability import Attempt, Target

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
    ) -> None:
        self.specs = self._every = tuple(specs)
        self._connector = connector
        self._silence = silence
        self._python = python
        self._container = container
        self._channels: dict[str, Channel] = {}
        self._asked_at: dict[str, float] = {}  # time.time() of each node's last question
        self._heartbeat = Heartbeat(silence)
        self._waiting: dict[str, str] = {}  # by label of each node that is waited for: what for
        self.progress: Callable[[str], None] | None = None  # shows who is waited for; an empty text ends that
        self.connected_at: dict[str, float] = {}  # time.time() of each supervisor's first event
        self.facts: dict[str, NodeFacts] = {}

    # ---- connections

    def connect(self, start_timeout: float | None = None) -> list[Problem]:
        """Start a supervisor on every node. Returns the problems; where there are any, drop those nodes or close.

        `start_timeout`: seconds for a supervisor's first event after its node has let us in; None: what is left of all.
        """
        problems = {}
        attempt = ConnectionAttempt(
            connector=self._connector,
            python=self._python,
            container=self._container,
            silence=self._silence,
            start_timeout=start_timeout,
        )
        self._waiting = attempt.waiting
        for spec, result in attempt.run(self.specs):
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
        self.specs = tuple(spec for spec in self._every if spec.label in labels)

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
        args = {
            spec.label: {
                "workdir": spec.workdir or requirements.job.workdir,
                "script": requirements.script,
                "python": spec.python or requirements.job.python,
                "environ": {} if requirements.dry else revealed({**requirements.job.env, **spec.env}),
                "port": requirements.master_port if spec is self.specs[0] or requirements.least else None,
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
            self._asked_at[spec.label] = time.time()
            self._channels[spec.label].ask(function, args[spec.label])
        self._waiting = dict.fromkeys((spec.label for spec in asked), _DOES.get(function, "has not answered"))
        until, answers, problems = time.monotonic() + timeout, {}, []
        try:
            for spec in asked:
                try:
                    answers[spec.label] = self._channels[spec.label].answer(until)
                    self._waiting.pop(spec.label, None)
                except NoAnswerError as error:
                    fix = f"ssh {spec.target} uptime"
                    problems.append(Problem(host=spec.label, what=str(error), fix=fix, unreachable=True))
        finally:
            self._waiting = {}
        return answers, problems

    def clock_offset(self, label: str, node_time: float) -> tuple[float, float]:
        """Return the seconds by which a node's clock is ahead of ours, at least and at most.

        `node_time`: the node's time in its last answer.
        """
        return -self._channels[label].ahead, node_time - self._asked_at[label]

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
