"""Server in the launcher for `ddpkit dump`, `ddpkit top` and the hang watch: calls every node, and writes the answers.

Other shells ask by a signal (`ddpkit/monitor/client.py`). Modules that read the answers are imported when one does.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ddpkit.errors import NO_PROGRESS
from ddpkit.files import read_bounded, remove_file, write_atomically
from ddpkit.launchers.events import AnswerEvent
from ddpkit.launchers.plan import Plan, Step
from ddpkit.transports.protocol import ANSWER_TIME, STEP_START_TIME

if TYPE_CHECKING:  # see above
    from ddpkit.monitor.dump import Answer, Dump
    from ddpkit.monitor.watchdog import Watch

DUMP, DUMP_LIMIT = "stack_dump.collect", 7.5  # seconds for a dump, the start of its command and all answers included
WATCH_LIMIT = 15.0  # seconds in which a node looks at its ranks for --hang-timeout
DUMP_MINIMUM = 1.5  # seconds in which a node looks at its ranks, where the command took long to start
SAMPLE, SAMPLE_LIMIT = "resource_sample.sample", 4.0  # seconds in which a node takes a sample, without its span
# Files in the run's folder.
DUMP_REQUESTS = "dump.*.ask"
REQUEST_SIZE = 1 << 16  # bytes
SAMPLE_REQUESTS, SAMPLE_FILE = "top.*.ask", "top.json"


def dump_limit(left: float, answer_time: float) -> float:
    """Seconds in which a node looks at its ranks. `left`: until all answers have come, by the start of the command."""
    return max(DUMP_MINIMUM, min(DUMP_LIMIT, left) - answer_time)


class Caller(Protocol):
    """The part of a link that calls functions on its node."""

    def call(self, function: str, args: Mapping[str, object]) -> int: ...


class Node(Protocol):
    """One step of the launcher: see `ddpkit.execution.executor.Node`."""

    index: int
    step: Step
    ended: bool
    running: set[int]

    @property
    def link(self) -> Caller: ...


def answer_time(nodes: Iterable[Node]) -> float:
    """Seconds beyond a call's own limit until the answers of these nodes have come."""
    return ANSWER_TIME + (STEP_START_TIME if any(node.step.scheduled for node in nodes) else 0.0)


class Launcher(Protocol):
    """The launcher that the server belongs to: see `ddpkit.execution.executor.Carrier`."""

    plan: Plan
    folder: Path  # of the run
    deadline: float | None
    timed_out: set[int]

    @property
    def nodes(self) -> Sequence[Any]: ...

    def note(self, text: str) -> None: ...

    def fail(self, node: Any, *, what: str, host: str, rank: int | None, hang: bool, **details: Any) -> None: ...


class Question:
    """One call on many nodes, while they answer. `nodes` are by their number; `read` raises ValueError."""

    def __init__(
        self,
        nodes: Mapping[int, Node],
        function: str,
        args: Mapping[str, object],
        limit: float,
        read: Callable[[Any, str], Any],
    ) -> None:
        """`limit`: seconds for the call itself."""
        self.silent = {
            node.step.host: tuple(sorted(node.running)) for node in nodes.values() if not node.step.scheduled
        }  # hosts without an answer, and their ranks
        self.answers: list[Any] = []
        self.began = time.time()
        self.until = time.monotonic() + limit + answer_time(nodes.values())
        self._read = read
        self.calls = {number: node.link.call(function, {**args, "limit": limit}) for number, node in nodes.items()}

    def on_answer(self, number: int, event: AnswerEvent, host: str) -> None:
        """`host` is empty where the node speaks for several hosts."""
        if self.calls.get(number) != event["id"]:
            return
        del self.calls[number]
        for value in event["values"]:
            with suppress(ValueError):
                answer = self._read(value, host)
                self.answers.append(answer)
                self.silent.pop(answer.host, None)

    @property
    def over(self) -> bool:
        return not self.calls or time.monotonic() > self.until


class MonitorServer:
    """One question about stacks and one about resources at a time. Who asks meanwhile gets the same answer."""

    def __init__(self, launcher: Launcher) -> None:
        self.last_line = time.time()  # of any rank
        self._launcher = launcher
        self._watch: Watch | None = None
        self._dump: Question | None = None
        self._reason = ""  # of the dump: asked, timeout, or watch
        self._on_timeout: Callable[[Dump, str], None] | None = None
        self._sample: Question | None = None
        # Nodes that owe a sample, by number: the call. They are not called again. Commands that nobody reads fill a
        # pipe, and a launcher that waits for one does nothing else.
        self._owed: dict[int, int] = {}

    def watch(self, seconds: float, action: str) -> None:
        from ddpkit.monitor.watchdog import Watch

        self._watch = Watch(seconds, "end" if action == "end" else "warn", time.time())

    def on_answer(self, node: Node, event: AnswerEvent) -> None:
        number = node.index
        host = "" if node.step.scheduled else node.step.host
        if self._owed.get(number) == event["id"]:
            del self._owed[number]
        for question in (self._dump, self._sample):
            if question is not None:
                question.on_answer(number, event, host)

    def turn(self) -> None:
        """Finish a question that is answered, or ask one for the watch. Called in every turn of the launcher."""
        if self._sample is not None and self._sample.over:
            question, self._sample = self._sample, None
            self._write_sample([each.sample for each in question.answers], question.silent, question.began)
        if self._dump is None:
            any_runs = any(node.running for node in self._launcher.nodes)
            # Before a rank runs there is nobody to ask: a job that waits in its queue does not hang.
            if self._watch is not None and time.time() >= self._watch.due and any_runs:
                self.request_dump("watch")
        elif self._dump.over:
            question, self._dump = self._dump, None
            self._finish_dump(question)

    @property
    def idle(self) -> bool:
        """Whether no dump is being made."""
        return self._dump is None

    def pause(self) -> float:
        """Seconds until an open question is over."""
        open_questions = [question.until for question in (self._dump, self._sample) if question is not None]
        return max(0.0, min(open_questions, default=float("inf")) - time.monotonic())

    def _living(self) -> dict[int, Node]:
        return {number: node for number, node in enumerate(self._launcher.nodes) if not node.ended}

    # ---- resources

    def request_sample(self) -> None:
        """Take a sample of every node, if another shell wants it: a terminal with a new size sends the same signal."""
        requests = self._requests(SAMPLE_REQUESTS, ("span", "pss"))
        if not requests:
            return
        if self._launcher.deadline is not None:
            self._write_sample([], {}, time.time())
        elif self._sample is None:
            from ddpkit.monitor.top import read_sample

            span = max(each["span"] for each in requests)
            args = {"span": span, "pss": any(each["pss"] for each in requests)}
            living = self._living()
            able = {number: node for number, node in living.items() if number not in self._owed}
            self._sample = Question(able, SAMPLE, args, SAMPLE_LIMIT + span, read_sample)
            self._owed.update(self._sample.calls)
            for node in living.values():
                if not node.step.scheduled:
                    self._sample.silent.setdefault(node.step.host, tuple(sorted(node.running)))

    def _requests(self, names: str, keys: Sequence[str]) -> list[dict[str, float]]:
        """Take the requests that other shells left in the run's folder."""
        requests = []
        for path in self._launcher.folder.glob(names):
            with suppress(OSError, ValueError, TypeError, KeyError):
                request = json.loads(read_bounded(path, REQUEST_SIZE))
                remove_file(str(path))
                requests.append({key: float(request[key]) for key in keys})
        return requests

    def _write_sample(self, hosts: list[dict[str, Any]], silent: Mapping[str, Sequence[int]], began: float) -> None:
        sample = {"t": began, "ending": self._launcher.deadline is not None, "hosts": hosts, "silent": silent}
        numbered = {"number": f"{os.getpid()}.{time.monotonic_ns()}", **sample}
        with suppress(OSError):  # a full disk must not end a run; the client reports that nothing came
            write_atomically(self._launcher.folder / SAMPLE_FILE, json.dumps(numbered))

    # ---- stacks

    def explain_timeout(self, on_dump: Callable[[Dump, str], None]) -> None:
        """Ask every node after a rank waited in vain. `on_dump` gets the dump and its directory, or ""."""
        if self._launcher.deadline is None:
            self._on_timeout = on_dump
            self.request_dump("timeout")

    def request_dump(self, reason: str) -> None:
        """Ask every node for what its ranks do."""
        from ddpkit.monitor.dump import read_answer

        if self._dump is not None:
            self._reason = reason if reason != "watch" else self._reason
        elif self._launcher.deadline is None:
            self._reason = reason
            ends = [request["until"] - time.time() for request in self._requests(DUMP_REQUESTS, ("until",))]
            living = self._living()
            limit = dump_limit(max(ends, default=DUMP_LIMIT), answer_time(living.values()))
            if reason == "watch" and not ends:
                limit = WATCH_LIMIT  # nobody waits for it, and NCCL's own watch may need so long for a lost rank
            self._dump = Question(living, DUMP, {}, limit, read_answer)

    def _finish_dump(self, question: Question) -> None:
        from ddpkit.monitor import dump

        plan = self._launcher.plan
        answers: Sequence[Answer] = question.answers
        result = dump.compose(
            plan.run_id,
            plan.steps[0].workdir,
            answers,
            question.silent,
            self._reason,
            question.began,
            self._launcher.timed_out,
        )
        if self._watch is not None:
            for finding in self._watch.unrecorded(result.findings):
                self._launcher.note(f"--hang-timeout: {finding.words}")
        hangs = self._watch is not None and self._watch.judged(
            time.time(), result.ranks, result.findings, self.last_line
        )
        if self._reason == "watch" and not hangs:
            return
        folder, problem = "", ""
        try:
            folder = str(dump.write(result, self._launcher.folder))
        except OSError as error:
            problem = f"cannot be written: {error.strerror}"
        if self._on_timeout is not None:
            on_timeout, self._on_timeout = self._on_timeout, None
            on_timeout(result, folder)
        elif hangs:
            self._report_hang(result, folder or problem)

    def _report_hang(self, result: Dump, folder: str) -> None:
        assert self._watch is not None
        still = time.time() - self._watch.progress
        self._launcher.note(f"this run hangs: no progress for {still:.0f} s; dump: {folder}")
        for finding in result.findings:
            self._launcher.note(finding.words)
        if self._watch.action == "end" and self._launcher.deadline is None:
            first = result.findings[0]
            rank = first.ranks[0] if first.ranks else None
            host = next((each.host for each in result.ranks if each.rank == rank), "")
            nodes = self._launcher.nodes
            self._launcher.fail(
                next((node for node in nodes if node.step.host == host), nodes[0]),
                what="the run" if rank is None else "rank",
                host=host,
                rank=rank,
                code=NO_PROGRESS,
                reason=f"it hangs: {first.words}",
                hang=True,
            )
