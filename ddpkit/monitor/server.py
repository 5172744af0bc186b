"""Server in the launcher for `ddpkit dump`, `ddpkit top` and the hang watch: calls every node, and writes the answers.

Other shells ask by a signal (`ddpkit/monitor/client.py`). Modules that read the answers are imported when one does.
"""

from __future__ import annotations

import json
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ddpkit.errors import NO_PROGRESS
from ddpkit.files import read_bounded, remove_file, write_atomically
from ddpkit.launchers.events import AnswerEvent
from ddpkit.launchers.plan import Plan, Step
from ddpkit.run import slow_rank
from ddpkit.run.launcher_process import process_start
from ddpkit.text import format_ranks
from ddpkit.transports.protocol import ANSWER_TIME, STEP_START_TIME, PackedAnswer

if TYPE_CHECKING:  # see above
    from ddpkit.monitor.dump import Answers, Dump
    from ddpkit.monitor.watchdog import SlowWatch, Watch

DUMP, DUMP_LIMIT = "stack_dump.collect", 7.5  # seconds for a dump, the start of its command and all answers included
WATCH_LIMIT = 15.0  # seconds in which a node looks at its ranks for --hang-timeout
DUMP_MINIMUM = 1.5  # seconds in which a node looks at its ranks, where the command took long to start
SAMPLE_LIMIT = 4.0  # seconds in which a node takes a sample, without its span
# Files in the run's folder.
DUMP_REQUESTS = "dump.*.ask"
REQUEST_SIZE = 1 << 16  # bytes
DEBUG_REQUESTS = "debug.*.ask"  # while somebody debugs a rank
SAMPLE_REQUESTS, SAMPLE_FILE = "top.*.ask", "top.json"
LAG = 1.0  # seconds between two turns that are the launcher's own, and that no node is blamed for
LOOK = 0.05  # seconds between two looks whether a dump is judged, or written


def dump_limit(left: float, answer_time: float) -> float:
    """Seconds in which a node looks at its ranks. `left`: until all answers have come, by the start of the command."""
    return max(DUMP_MINIMUM, min(DUMP_LIMIT, left) - answer_time)


def sample_call(span: float, pss: bool, waits: int) -> tuple[str, dict[str, object]]:
    """Return the function that takes a sample on a node, and its arguments. `waits`: as in `rank_waits.sample`."""
    args: dict[str, object] = {"span": span, "pss": pss}
    return ("rank_waits.sample", {**args, "waits": waits}) if waits else ("resource_sample.sample", args)


def ras_askers(ranks: Iterable[int]) -> list[int]:
    """Ranks whose hosts ask NCCL RAS. One answer has the whole job; the first and the last, as one may be gone."""
    known = sorted(ranks)
    return list(dict.fromkeys([*known[:1], *known[-1:]]))


class Caller(Protocol):
    """The part of a link that calls functions on its node."""

    @property
    def ahead(self) -> float: ...

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


class Watching(NamedTuple):
    """What the launcher looks for by itself: the settings `hang_timeout`, `hang_action` and `slow_action`."""

    seconds: float = 0.0  # between two looks; 0: none
    hang_action: str = "warn"
    slow_action: str = ""


NO_WATCH = Watching()


class Launcher(Protocol):
    """The launcher that the server belongs to: see `ddpkit.execution.executor.Carrier`."""

    plan: Plan
    folder: Path  # of the run
    deadline: float | None
    timed_out: set[int]

    @property
    def is_held_up(self) -> bool: ...

    @property
    def is_asking(self) -> bool: ...

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


class Phase(Enum):
    """What a dump waits for."""

    ANSWERS = "answers"
    JUDGED = "judged"
    WRITTEN = "written"


class DumpQuestion(Question):
    """A call of every node for its ranks' stacks. A thread unpacks, judges and writes: the loop goes on meanwhile."""

    def __init__(self, nodes: Mapping[int, Node], limit: float, read: Callable[[Any, str], Any], answers: Answers):
        asks = ras_askers(chain.from_iterable(node.running for node in nodes.values()))
        super().__init__(nodes, DUMP, {"asks": asks}, limit, read)
        self.phase = Phase.ANSWERS
        self.dump: Dump | None = None
        self.folder, self.problem = "", ""  # where it was written, or why it was not
        self.answered = answers
        self._ranks = dict(self.silent)  # of each host: a host is silent again where its answer is nonsense
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._given = self._done = 0  # tasks that were given to the thread; that it has done
        threading.Thread(target=self._work, daemon=True).start()

    def on_answer(self, number: int, event: AnswerEvent, host: str) -> None:
        """An answer counts when it comes, however long it takes to read."""
        if self.calls.get(number) != event["id"]:
            return
        del self.calls[number]
        for value in event["values"]:
            self.silent.pop(host, None)
            self.run_in_thread(partial(self._add, value, host))

    def _add(self, value: object, host: str) -> None:
        try:
            answer = self._read(value.unpack() if isinstance(value, PackedAnswer) else value, host)
            self.answered.add(answer)
            self.silent.pop(answer.host, None)
        except (ValueError, OSError):
            if host in self._ranks:
                self.silent[host] = self._ranks[host]

    def run_in_thread(self, task: Callable[[], None]) -> None:
        """Do something in the thread, after everything before it."""
        self._given += 1
        self._tasks.put(task)

    @property
    def is_busy(self) -> bool:
        return self._given > self._done

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception as error:
                self.problem = f"{type(error).__name__}: {error}"
            self._done += 1

    def close(self) -> None:
        """Let the thread end."""
        self._tasks.put(None)


def _start_thread(work: Callable[[], None]) -> None:
    """Do something with a disk beside the loop; in the loop where no thread can be had."""
    try:
        threading.Thread(target=work, name="ddpkit disk", daemon=True).start()
    except RuntimeError:
        work()


class MonitorServer:
    """One question about stacks and one about resources at a time. Who asks meanwhile gets the same answer."""

    def __init__(self, launcher: Launcher) -> None:
        self.last_line = time.monotonic()  # of any rank: a clock that is set back, or forward, is no hang
        self._launcher = launcher
        self._watch: Watch | None = None
        self._slow_watch: SlowWatch | None = None
        self._replaces_slow = False  # a spare node takes the place of one with a slow rank
        self._sample_is_for_slow_watch = False
        self._dump: DumpQuestion | None = None
        self._turned_at = time.monotonic()
        self._reason = ""  # of the dump: asked, timeout, or watch
        self._is_asked_again = False  # by who may have seen the dump that is written now: it waits for another
        self._hangs = False  # by the dump that is written
        self._on_timeout: Callable[[Dump, str], None] | None = None
        self._sample: Question | None = None
        # Nodes that owe a sample, by number: the call. They are not called again. Commands that nobody reads fill a
        # pipe, and a launcher that waits for one does nothing else.
        self._owed: dict[int, int] = {}
        # A thread reads the disk, or judges a look; what follows it runs in `turn`.
        self._followups: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._due_followups = 0  # of threads that have not put theirs yet, and of those in the queue

    def watch(self, watching: Watching) -> None:
        from ddpkit.monitor.watchdog import SlowWatch, Watch

        now, action = time.monotonic(), watching.hang_action
        self._watch = Watch(watching.seconds, "end" if action == "end" else "warn", now)
        self._slow_watch = SlowWatch(watching.seconds, now) if watching.slow_action else None
        self._replaces_slow = watching.slow_action == "spare"

    @property
    def slow_hosts(self) -> dict[str, str]:
        """Hosts with a slow rank that a spare one may replace, each with the reason."""
        slow = self._slow_watch and self._slow_watch.slow
        if not slow or not self._replaces_slow:
            return {}
        lost = f"the others lose {100 * slow.lost:.0f} % of the time by {format_ranks(slow.ranks)}"
        return dict.fromkeys(slow.hosts, f"it is slow: {lost}")

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
        last, self._turned_at = self._turned_at, time.monotonic()
        while not self._followups.empty():
            self._due_followups -= 1
            self._followups.get()()
        if self._turned_at - last > LAG and self._dump is not None:
            self._dump.until += self._turned_at - last  # answers may wait that came in time
        if self._sample is not None and self._sample.over:
            question, self._sample = self._sample, None
            self._write_sample([each.sample for each in question.answers], question.silent, question.began)
        any_runs = any(node.running for node in self._launcher.nodes)
        if self._slow_watch is not None and self._sample is None and any_runs and self._launcher.deadline is None:
            self._look_for_slow(self._slow_watch)
        if self._dump is None:
            # Before a rank runs there is nobody to ask: a job that waits in its queue does not hang.
            if self._watch is not None and time.monotonic() >= self._watch.due and any_runs:
                if self._launcher.is_asking or self._is_debugged():
                    self._watch.pause(time.monotonic())
                else:
                    self.request_dump("watch")
        else:
            self._advance_dump(self._dump)

    def _is_debugged(self) -> bool:
        """Tell whether a shell of this machine debugs a rank. One that was killed left its file."""
        for path in self._launcher.folder.glob(DEBUG_REQUESTS):
            with suppress(OSError, ValueError, TypeError, KeyError):
                request = json.loads(read_bounded(path, REQUEST_SIZE))
                # Its number may be another process's by now.
                if request["start"] and process_start(int(request["pid"])) == request["start"]:
                    return True
        return False

    @property
    def idle(self) -> bool:
        """Whether no dump is being made."""
        return self._dump is None

    def pause(self) -> float:
        """Seconds until an open question is over, or a thread that works for one may have ended."""
        ends = [question.until for question in (self._dump, self._sample) if question is not None]
        pause = min(ends, default=float("inf")) - time.monotonic()
        thread_works = self._due_followups or (self._dump is not None and self._dump.phase is not Phase.ANSWERS)
        return LOOK if pause < 0 or thread_works else pause

    def _living(self) -> dict[int, Node]:
        return {number: node for number, node in enumerate(self._launcher.nodes) if not node.ended}

    # ---- resources

    def request_sample(self) -> None:
        """Take a sample of every node, if another shell wants it: a terminal with a new size sends the same signal."""
        self._read_requests(SAMPLE_REQUESTS, ("span", "pss", "waits"), self._begin_sample)

    def _begin_sample(self, requests: Sequence[Mapping[str, float]]) -> None:
        """Ask every node for a sample that has what each request wants; a sample that is taken serves them as well.

        At the end of the run an empty one is written at once.
        """
        if not requests:
            return
        if self._launcher.deadline is not None:
            self._write_sample([], {}, time.time())
        elif self._sample is None:
            from ddpkit.monitor.top import read_sample

            span = max(each["span"] for each in requests)
            waits = max(int(each["waits"]) for each in requests)
            function, args = sample_call(span, any(each["pss"] for each in requests), waits)
            living = self._living()
            able = {number: node for number, node in living.items() if number not in self._owed}
            self._sample = Question(able, function, args, SAMPLE_LIMIT + span, read_sample)
            self._owed.update(self._sample.calls)
            for node in living.values():
                if not node.step.scheduled:
                    self._sample.silent.setdefault(node.step.host, tuple(sorted(node.running)))

    def _look_for_slow(self, watch: SlowWatch) -> None:
        """Begin a look at all ranks, if one is due. Other shells get the same answer."""
        if time.monotonic() < watch.due:
            return
        if self._is_debugged():
            watch.take(time.monotonic(), None)
            return
        from ddpkit.monitor import slow

        watch.due = math.inf  # until this look is judged
        self._sample_is_for_slow_watch = True
        most = slow.most_collectives(self._launcher.plan.world_size)
        self._begin_sample([{"span": slow.WATCHED, "pss": 0.0, "waits": most}])

    def _judge_slow(self, watch: SlowWatch, sample: Mapping[str, Any]) -> None:
        """Judge a look, in a thread; `turn` reports it."""
        from ddpkit.monitor import slow

        found = None
        with suppress(Exception):  # a node can say what no node says
            found = slow.find(sample, slow.WATCHED)
            if found.waits:
                slow_rank.keep(self._launcher.folder, slow.to_keep(found, sample["t"]))

        def report() -> None:
            for words in watch.take(time.monotonic(), found):
                self._launcher.note(f"--slow-action: {words}")

        self._followups.put(report)

    def _read_requests(self, names: str, keys: Sequence[str], begin: Callable[[list[dict[str, float]]], None]) -> None:
        """Take the requests that other shells left in the run's folder, in a thread. `turn` gives them to `begin`."""
        folder = self._launcher.folder

        def read() -> None:
            requests = []
            for path in folder.glob(names):
                with suppress(OSError, ValueError, TypeError, KeyError):
                    request = json.loads(read_bounded(path, REQUEST_SIZE))
                    remove_file(str(path))
                    requests.append({key: float(request.get(key, 0)) for key in keys})
            self._followups.put(partial(begin, requests))

        self._due_followups += 1
        _start_thread(read)

    def _write_sample(self, hosts: list[dict[str, Any]], silent: Mapping[str, Sequence[int]], began: float) -> None:
        """Write a sample for other shells, and judge it if the slow watch asked for it. Threads do both."""
        ending = self._launcher.deadline is not None
        ahead = {node.step.host: node.link.ahead for node in self._launcher.nodes if not node.step.scheduled}
        sample = {"t": began, "ending": ending, "hosts": hosts, "silent": silent, "ahead": ahead}
        numbered = {"number": f"{os.getpid()}.{time.monotonic_ns()}", **sample}
        path = self._launcher.folder / SAMPLE_FILE
        if self._slow_watch is not None and self._sample_is_for_slow_watch:
            self._sample_is_for_slow_watch = False
            self._due_followups += 1
            _start_thread(partial(self._judge_slow, self._slow_watch, sample))

        def write() -> None:
            with suppress(OSError):  # a full disk must not end a run; the client reports that nothing came
                write_atomically(path, json.dumps(numbered))

        _start_thread(write)

    # ---- stacks

    def explain_timeout(self, on_dump: Callable[[Dump, str], None]) -> None:
        """Ask every node after a rank waited in vain. `on_dump` gets the dump and its directory, or ""."""
        if self._launcher.deadline is None:
            self._on_timeout = on_dump
            self.request_dump("timeout")

    def request_dump(self, reason: str) -> None:
        """Ask every node for what its ranks do."""
        if reason == "asked" and self._dump is None:
            self._read_requests(DUMP_REQUESTS, ("until",), self._begin_asked)
        else:
            self._begin_dump(reason, DUMP_LIMIT)

    def _begin_asked(self, requests: Sequence[Mapping[str, float]]) -> None:
        """Begin a dump for other shells. The most patient one decides how long the nodes may take."""
        ends = [request["until"] for request in requests]
        self._begin_dump("asked", max(ends) - time.time() if ends else DUMP_LIMIT)

    def _begin_dump(self, reason: str, seconds: float) -> None:
        """Ask every node, or let the dump that is being made serve this reason too. `seconds`: until who asks goes."""
        if self._dump is not None:
            self._share_dump(self._dump, reason)
        elif self._launcher.deadline is None:
            from ddpkit.monitor.dump import Answers, read_answer

            living = self._living()
            # Nobody waits for the watch's, and NCCL's own watch may need so long for a lost rank.
            limit = WATCH_LIMIT if reason == "watch" else dump_limit(seconds, answer_time(living.values()))
            self._reason = reason
            self._dump = DumpQuestion(living, limit, read_answer, Answers())

    def _share_dump(self, question: DumpQuestion, reason: str) -> None:
        """Let the dump that is being made serve another reason; one that is already written needs another dump."""
        if reason != "watch":
            self._reason = reason
        if reason == "asked" and question.phase is Phase.WRITTEN:
            self._is_asked_again = True

    def _advance_dump(self, question: DumpQuestion) -> None:
        """Take the next step of a dump: its answers, its judgement, its files."""
        if question.phase is Phase.ANSWERS:
            # No run is ended for nodes whose answers may wait here.
            if question.over and not (question.calls and self._reason == "watch" and self._launcher.is_held_up):
                question.phase = Phase.JUDGED
                question.run_in_thread(partial(self._compose, question))
        elif question.is_busy:
            return
        elif question.phase is Phase.JUDGED:
            if question.dump is not None and self._is_wanted(question.dump):
                question.phase = Phase.WRITTEN
                question.run_in_thread(partial(self._write, question))
            else:
                self._end_dump(question)
        else:
            self._end_dump(question)
            self._report(question)

    def _end_dump(self, question: DumpQuestion) -> None:
        self._dump = None
        question.close()
        if self._is_asked_again:
            self._is_asked_again = False
            self.request_dump("asked")

    def _compose(self, question: DumpQuestion) -> None:
        from ddpkit.monitor import dump

        plan, timed_out = self._launcher.plan, set(self._launcher.timed_out)
        workdir, silent = plan.steps[0].workdir, dict(question.silent)
        judged = partial(dump.compose, plan.run_id, workdir, why=self._reason, began=question.began)
        try:
            question.dump = judged(answers=question.answered, silent=silent, timed_out=timed_out)
        except Exception:  # a node can say what no node says; a failure that waits for this dump must come
            question.dump = judged(answers=dump.Answers(), silent={})

    def _write(self, question: DumpQuestion) -> None:
        from ddpkit.monitor import dump

        assert question.dump is not None
        try:
            question.folder = str(dump.write(question.dump, self._launcher.folder))
        except OSError as error:
            question.problem = f"cannot be written: {error.strerror}"

    def _is_wanted(self, result: Dump) -> bool:
        """Let the watch judge a dump, which sets `_hangs`. Returns whether anybody wants the dump."""
        if self._watch is None:
            return True
        for finding in self._watch.unrecorded(result.findings):
            self._launcher.note(f"--hang-timeout: {finding.words}")
        self._hangs = self._watch.hangs_now(time.monotonic(), result.ranks, result.findings, self.last_line)
        return self._reason != "watch" or self._hangs

    def _report(self, question: DumpQuestion) -> None:
        """Give a written dump to who waits after a timeout, else report a hang that it shows."""
        assert question.dump is not None
        if self._on_timeout is not None:
            on_timeout, self._on_timeout = self._on_timeout, None
            on_timeout(question.dump, question.folder)
        elif self._hangs:
            self._report_hang(question.dump, question.folder or question.problem)
        self._hangs = False

    def _report_hang(self, result: Dump, folder: str) -> None:
        """Note a hang and its findings; with `hang_action = "end"` fail the run, by the rank of the first finding."""
        assert self._watch is not None
        still = time.monotonic() - self._watch.progress
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
