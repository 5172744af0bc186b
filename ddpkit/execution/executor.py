"""Carries out a plan: starts each step under a supervisor, relays lines, ends everything at the first failure.

The same loop serves every way of reaching a node. A `Link` is one supervisor, wherever it runs: something that takes
commands and yields events (see `ddpkit.node.supervisor`). Nothing here prints; lines go to a `Relay`.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ddpkit.console.progress import Standing
from ddpkit.console.relay import Relay
from ddpkit.diagnosis.outcome import SUPERVISOR, Failure, Outcome
from ddpkit.errors import NO_PROGRESS, LaunchError, UsageError
from ddpkit.execution.hidden_failures import LIMIT, LIMIT_FEWER, ExceptionWatch, RestartTracker, Rounds
from ddpkit.execution.rank_input import RankInput
from ddpkit.launchers.events import (
    AnswerEvent,
    Command,
    Event,
    ExitEvent,
    FailedEvent,
    OutputEvent,
    StartEvent,
    StopCommand,
    StuckEvent,
    failure,
)
from ddpkit.launchers.host_names import format_hosts
from ddpkit.launchers.job_output import repeats_cancel
from ddpkit.launchers.plan import Plan, RankStarter, Step
from ddpkit.launchers.shell import count
from ddpkit.monitor.server import NO_WATCH, MonitorServer, Watching
from ddpkit.monitor.start_watch import PATIENCE, ReadyWatch, StartWatch, is_watched
from ddpkit.node.bundle import pack, read_texts
from ddpkit.node.supervision.clock import Clock
from ddpkit.node.supervision.first_failure import WINDOW, End, Kind, first_failure
from ddpkit.node.supervision.shutdown import FREE_AFTER
from ddpkit.run.record import keep_step_failure
from ddpkit.run.timeline import Timeline, Vitals, describe_late_start
from ddpkit.transports.protocol import ASK, LOOK, Gate, Link, request

if TYPE_CHECKING:
    from ddpkit.monitor.dump import Dump

# (index of the step, event or None), or (-1, number of a signal)
Inbox = queue.SimpleQueue[tuple[int, Event | int | None]]

# Python runs a signal's handler when it is back from a wait; one that came just before the wait would not end it.
LOOK_UP = 0.5  # seconds
NAMED = 8  # ranks by name in one message
WAITING = 1 << 20  # characters of output that wait for the loop
BATCH = 1 << 10  # messages between two looks at everything else
# Lines that come one by one are shown together: each batch costs several system calls.
BUSY, TOGETHER = 0.020, 0.010  # seconds between two batches, and until the next one where they were so near
SCREEN_FULL = 0.02  # seconds between two looks whether a full screen was read
# Printed by a thread of torch in a rank that waits in NCCL. Torch ends the rank up to a minute later.
NCCL_TIMEOUT = b"Watchdog caught collective operation timeout"
ENDING, ENDING_LIMIT = "stack_dump.ending", 3.0  # seconds
# These are passed on to every rank: schedulers send them before they take a node away.
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


@dataclass(kw_only=True, eq=False)
class Node:
    """What the launcher knows of one step. `index`: its place in the plan."""

    index: int
    step: Step
    link: Link
    ended: bool = False
    sent_end: bool = False
    lost: bool = False
    running: set[int] = field(default_factory=set)
    pids: dict[int, int] = field(default_factory=dict)  # by rank, on its host
    succeeded: set[int] = field(default_factory=set)  # ranks that ended with exit code 0

    @property
    def finished(self) -> bool:
        return not self.step.elastic and self.succeeded.issuperset(self.step.ranks)

    @property
    def agent(self) -> str:
        """The name of what starts the ranks here; else its container's runtime, or the process itself."""
        container = self.step.container
        runtime = container.runtime if container and self.step.procs[0].rank is not None else ""
        return "preload" if self.step.preload else runtime or self.step.procs[0].name


def write_files(plan: Plan, write: Callable[[Sequence[tuple[str, bytes]]], None]) -> None:
    """Give each file of a plan, its path and its content, to `write`, and write its archives.

    Raises OSError, UsageError.
    """
    other = next((file.copy_of for file in plan.files if file.copy_of not in ("", "bundle")), "")
    if other:  # of a plug-in
        raise UsageError(f"backend {plan.backend}: copy_of={other!r}", 'copy_of="bundle" has all programs of a node')
    texts = [file for file in plan.files if file.archive is None]
    if texts:
        write([(file.path, pack(read_texts()) if file.copy_of else file.text.encode()) for file in texts])
    for file in plan.files:
        if file.archive is not None:
            from ddpkit.execution.stage import write_archive

            write_archive(file.archive, Path(file.path))


class Display(Protocol):
    """The screen of a run: `ddpkit.console.writer.Screen`, or `ddpkit.console.plain.TextDisplay`."""

    @property
    def has_status(self) -> bool: ...

    @property
    def is_full(self) -> bool: ...

    def hurry(self) -> None: ...

    def suspend(self) -> None: ...

    def begin(self, source: Callable[[], Standing], /) -> None: ...

    def end(self) -> None: ...


class OutputLimit:
    """Limit of the output that links have posted and nobody has shown. Beyond it the links wait, and so do the ranks.

    So no flood of output delays a signal, and a screen that nobody reads does not fill the memory.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = 0.0  # characters that were posted, and not yet made room for
        self.taken = 0  # those of them that the loop has taken: the next `make_room` makes room for them

    def wait_and_add(self, size: int) -> None:
        """Wait for room, in the thread of a link."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting < WAITING)
            self._waiting += size
            if self._waiting < WAITING:
                self._changed.notify()  # the next link that waits: one after the other, not all for each event

    def make_room(self) -> None:
        """Let the links post as much again as was taken."""
        with self._changed:
            self._waiting -= self.taken
            self.taken = 0
            self._changed.notify()

    def lift(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._waiting = -inf
            self._changed.notify_all()


class Carrier:
    """One plan while it is carried out."""

    def __init__(
        self,
        plan: Plan,
        relay: Relay,
        connect: Callable[[Step], Link],
        inbox: Inbox,
        screen: Display,
        on_first_failure: Callable[[Failure], None],
        on_ready: Callable[[], None] = lambda: None,
        on_value: Callable[[int, str], None] = lambda *_: None,
        clock: Clock | None = None,
    ) -> None:
        self.plan = plan
        self.relay = relay
        self.folder = relay.folder
        self.inbox = inbox
        self.screen = screen
        self.on_first_failure = on_first_failure
        self.on_value = on_value
        # The nodes, and what they post.
        self.nodes = [Node(index=index, step=step, link=connect(step)) for index, step in enumerate(plan.steps)]
        self.hosts: set[str] = set()  # that have started a rank
        self.runtimes: dict[str, str] = {}  # by host: the program that enters the ranks' containers
        self.ended_in_front = 0  # of `nodes`: so many, from the first one on, have ended
        self.output = OutputLimit()
        self.posting, self.over = threading.Lock(), False  # over: nothing is posted any more
        # The first failure, and the end of the others.
        self.outcome = Outcome()
        self.cause: End | None = None  # that of the outcome's failure
        self.step_failure: Failure | None = None  # the running step of a job is ended for it; the job continues
        self.held: list[tuple[End, Callable[[], None]]] = []  # ends that may follow from another, and their failures
        self.held_until = inf  # time.monotonic()
        self.stopped_at = 0.0  # when it began to end the others
        self.deadline: float | None = None  # time.monotonic() at which waiting for an ending run ends
        # Ranks whose wait for others took too long.
        self.timed_out: set[int] = set()
        self.awaited = ("", "")  # for whom they waited, in words, and the file with the stack of that rank
        self.after_dump: list[Callable[[], None]] = []  # calls that make their ends failures
        # Watches and records of the run.
        self.clock = clock or Clock()
        self.started = self.clock.now()
        self.exceptions = ExceptionWatch(self.clock.now)
        self.starts: dict[int, StartWatch] = {}  # by node
        self.vitals = Vitals(relay.folder)
        self.timeline = Timeline(relay.folder, plan.world_size)
        self.monitor = MonitorServer(self)
        self.stdin = RankInput(plan.stdin, self.post_input)
        self.ready = ReadyWatch(plan, on_ready)
        self.most_restarts = max((proc.restarts for step in plan.steps for proc in step.procs), default=0)
        limit = LIMIT if plan.min_nodes is None else LIMIT_FEWER
        tracks = len(plan.steps) > 1 and self.most_restarts
        self.restarts = RestartTracker([len(step.ranks) for step in plan.steps], limit) if tracks else None
        self.rounds = Rounds()

    def run(self) -> Outcome:
        """Start the steps, take what their nodes report until the last one has ended, and close the links."""
        try:
            for node in self.nodes:
                cut = threading.Thread(target=node.link.close, daemon=True).start
                gate = Gate(node.step, self.plan, partial(self.post, node.index), cut)
                node.link.start(request(node.step, self.plan), gate)
            self.loop()
        finally:
            self.output.lift()  # nothing more is taken
            self.stdin.close()
            self.ready.end(PATIENCE if self.deadline is None else 0.0)
            for node in self.nodes:
                node.link.close()
            self.vitals.write()
            self.timeline.write()
            with self.posting:
                self.over = True
        self.outcome.seconds = self.clock.now() - self.started
        lost = [node for node in self.nodes if node.lost]
        # Where several are lost at once, or no other node answers, the fault may be the launcher's own network.
        if len(lost) == 1 < len(self.nodes) and all(node.sent_end for node in self.nodes if not node.lost):
            self.outcome.lost_alone = lost[0].step.host
        return self.outcome

    def post(self, index: int, event: Event | None) -> None:
        """Called by the links' own threads. A screen that is not read slows them down, and through them the ranks."""
        if event is not None and event["e"] == "out":
            self.output.wait_and_add(len(event["data"]))
        with self.posting:
            if not self.over:  # else it would be an event of the next attempt
                self.inbox.put((index, event))

    def post_input(self, data: str) -> None:
        """Called by the thread that reads standard input."""
        index = next(node.index for node in self.nodes if self.stdin.rank in node.step.ranks)
        self.post(index, {"e": "input", "data": data})

    def make_room(self) -> None:
        """Let the links post more output, unless the screen, a log or the search for a line is behind."""
        if self.output.taken and not (self.screen.is_full or self.relay.logs.is_full or self.ready.is_full):
            self.output.make_room()

    def loop(self) -> None:
        """Take messages and do what is due until every node has ended, or is given up."""
        last, busy = 0.0, False  # time.monotonic() of the last batch; whether it came soon after the one before
        while self.has_living_nodes():
            self.look_around()
            if self.inbox.empty():
                self.relay.flush()
                if busy and not self.deadline:  # lines that come one by one are shown together
                    busy = False
                    time.sleep(TOGETHER)
            remaining = LOOK_UP if self.deadline is None else self.deadline - time.monotonic()
            try:
                index, message = self.inbox.get(timeout=self.pause(remaining))
            except queue.Empty:
                if remaining <= 0:
                    self.give_up()
                    break
                continue
            self.take(index, message)
            with suppress(queue.Empty):
                for _ in range(BATCH):
                    if not self.has_living_nodes():
                        break
                    self.take(*self.inbox.get_nowait())
            now = time.monotonic()
            last, busy = now, now - last < BUSY
        self.settle()
        self.relay.flush(wait=False)

    def look_around(self) -> None:
        """Do what is due, whatever came."""
        self.make_room()
        self.monitor.turn()
        self.timeline.turn()
        self.vitals.turn()
        for words in self.timeline.late_start(describe_late_start):
            self.note(f"{words}; for their stacks: ddpkit dump {self.plan.run_id}")
        self.end_if_unrecoverable()
        self.settle()
        self.ask_raising()
        self.ready.turn()
        self.end_if_not_ready()

    def pause(self, remaining: float) -> float:
        """Seconds until something is due. `remaining`: until this run is given up."""
        due = min(min(self.held_until, self.exceptions.due) - time.monotonic(), self.ready.pause)
        full = SCREEN_FULL if self.output.taken else LOOK_UP
        return min(full, max(0.0, remaining), max(0.0, due), self.relay.pause(), self.monitor.pause())

    def take(self, index: int, message: Event | int | None) -> None:
        """Take one message of the inbox."""
        if isinstance(message, int):
            self.on_signal(message)
        elif message is None:
            self.on_end(self.nodes[index])
        else:
            self.on_event(self.nodes[index], message)
            if message["e"] == "out":
                self.output.taken += len(message["data"])

    @property
    def is_held_up(self) -> bool:
        """Whether what nodes sent may wait here: nobody reads the screen, or the loop has not come to it yet."""
        return self.output.taken > 0 or not self.inbox.empty()

    def standing(self) -> Standing:
        """For the status lines, whose thread asks it."""
        ranks = sum(len(node.running) for node in self.nodes)
        return Standing(
            state="ending" if self.deadline is not None else "running" if ranks or self.outcome.ends else "starting",
            nodes=len(self.hosts if self.plan.steps[0].scheduled else self.nodes),
            ranks=ranks,
            world_size=self.plan.world_size,
            started=self.started,
        )

    def has_living_nodes(self) -> bool:
        """Whether a node has not ended. Asked for every message: it goes on from the node at which it stopped."""
        while self.ended_in_front < len(self.nodes) and self.nodes[self.ended_in_front].ended:
            self.ended_in_front += 1
        return self.ended_in_front < len(self.nodes)

    def on_event(self, node: Node, event: Event) -> None:
        """Take an event of a node. It may speak for several hosts: then the event names its own."""
        host = event.get("host", node.step.host)
        self.timeline.record(host, event)
        if event["e"] == "out":
            self.on_output(node, event, host)
        elif event["e"] == "beat":
            self.vitals.record(node.step.host, event["t"], event["ranks"])
        elif event["e"] == "start":
            self.on_start(node, event, host)
        elif event["e"] == "exit":
            self.on_exit(node, event, host)
        elif event["e"] == "failed":
            self.on_failure(node, event, host)
        elif event["e"] == "answer":
            self.on_answer(node, event, host)
        elif event["e"] == "value":
            self.on_value(event["rank"], event["data"])
        elif event["e"] == "input":
            self.on_input(node, event["data"])
        elif event["e"] == "took":
            self.stdin.on_taken(event["rank"], event["size"])
        elif event["e"] == "note":
            self.note(event["text"])
        elif event["e"] == "refused":
            # Ranks that were started are ended at once, and news of that must not be taken for the first failure.
            at = event.get("t")
            self.fail(node, what=SUPERVISOR, reason=event["message"], at=at, code=LaunchError.exit_code)
        elif event["e"] == "lost":
            self.on_lost_link(node, event["reason"])
        elif event["e"] == "cold":
            self.note(f"starts cold on {node.step.host}: {event['reason']}")
        elif event["e"] == "left":
            self.note(f"ended processes that a rank left on {node.step.host}: {', '.join(event['names'])}")
        elif event["e"] == "daemons":
            what = "daemons that a rank started and other programs can use"
            self.note(f"left running on {node.step.host}, {what}: {', '.join(event['names'])}")
        elif event["e"] == "stuck":
            self.on_stuck(event, node.step.host)
        elif event["e"] == "end":
            node.sent_end = True

    def on_start(self, node: Node, event: StartEvent, host: str) -> None:
        """Take the start of a rank. What is known of a failed step and of waits is of an earlier start: forget it."""
        self.count_rank_event(node, event, host)
        node.running.add(event["rank"])
        node.pids[event["rank"]] = event["pid"]
        self.step_failure, self.awaited = None, ("", "")
        self.timed_out.clear()
        self.hosts.add(host)
        self.ready.on_start(node, event["rank"], host)
        self.stdin.on_start(event["rank"])
        if is_watched(node.step) and len(node.running) == 1:  # the first of a start
            self.starts[node.index] = StartWatch(node)

    def on_exit(self, node: Node, event: ExitEvent, host: str) -> None:
        self.count_rank_event(node, event, host)
        node.running.discard(event["rank"])
        self.vitals.record_exit(host, event["rank"], event["code"], event["signal"])
        self.outcome.ends[_end(event)] += 1
        if event["code"] == 0:
            node.succeeded.add(event["rank"])
        else:
            self.on_failed_exit(node, event, host)

    def on_answer(self, node: Node, event: AnswerEvent, host: str) -> None:
        """Give an answer to all who call nodes: each knows its own calls by their numbers."""
        self.on_raising(node, event)
        watch = self.starts.get(node.index)
        for mark in watch.on_answer(event) if watch is not None else ():
            self.timeline.record(host, mark)
        self.ready.on_answer(node, event)
        self.monitor.on_answer(node, event)

    def on_input(self, node: Node, data: str) -> None:
        """Give what was read from standard input to its rank."""
        self.stdin.asks = False
        if self.stdin.is_terminal and data.endswith("\n"):
            self.relay.end_prompt()
        node.link.send({"c": "input", "data": data})

    @property
    def is_asking(self) -> bool:
        """Whether a rank waits for a person's answer, and others may wait for that rank."""
        return self.stdin.asks

    def on_lost_link(self, node: Node, reason: str) -> None:
        """The connection to a node is gone, and with it the node, unless a scheduler runs the ranks."""
        if self.deadline is not None:
            self.note(f"{node.step.host}: {reason}")
        if node.link.outlives:
            self.note(reason)
            self.on_signal(signal.SIGHUP)
        else:
            self.on_lost(node, reason)

    def on_output(self, node: Node, event: OutputEvent, host: str) -> None:
        """Give lines to the relay, and look in a rank's lines for an exception, or for a wait that took too long."""
        data = event["data"].encode("utf-8", "surrogateescape")
        rank = event["rank"]
        self.monitor.last_line = time.monotonic()
        # Kept off the screen, in the log alone: lines of torchrun about ranks that are being ended, and of its agents
        # about each other after a good end, when the one with the store leaves first. A restart, and a job that was
        # cancelled, have a line of ddpkit's own.
        show = rank is not None or not (self.is_quiet() or repeats_cancel(event["data"]))
        agent = event.get("agent", node.agent)
        if agent != node.agent:  # the program that enters the container
            self.runtimes[host] = agent
        if rank is not None and self.stdin.on_output(rank, prompt=event.get("prompt", False)):
            self.relay.write_prompt(rank, host, agent, event["fd"], data)
        else:
            self.relay.write(rank, host, agent, event["fd"], data, show=show)
        if rank is not None:
            self.ready.on_output(data)
            waits = self.exceptions.take(rank, host, data)
            if (waits or NCCL_TIMEOUT in data) and rank not in self.timed_out:
                self.on_timeout(rank)

    def is_quiet(self) -> bool:
        """Whether the lines of agents are for the log alone."""
        return self.deadline is not None or bool(self.rounds.failed) or all(each.finished for each in self.nodes)

    def on_timeout(self, rank: int, fail: Callable[[], None] | None = None) -> None:
        """A rank waited for others in vain: look at all ranks before any of them ends. `fail` is called after that.

        Without `fail` torch ends the rank later. In a run with restarts `fail` is dropped: torchrun decides.
        """
        first = not self.timed_out
        self.timed_out.add(rank)
        if fail is not None and not self.most_restarts:
            self.after_dump.append(fail)
        if first:
            self.monitor.explain_timeout(self.on_timeout_dump)
        elif self.monitor.idle:
            self.fail_timed_out()

    def on_timeout_dump(self, dump: Dump, folder: str) -> None:
        """Take the dump of all ranks: note for whom ranks waited, and let those that waited in vain fail."""
        from ddpkit.monitor.hang import after_timeout  # the server imports it for a dump alone

        findings = after_timeout(dump.findings, self.timed_out)
        if findings:
            file = next((f"/rank_{rank}.txt" for rank in findings[0].ranks if rank in dump.written), "")
            self.awaited = (findings[0].words, f"{folder}{file}" if folder else "")
        if not self.after_dump:
            for finding in findings:
                self.note(finding.words)
        self.fail_timed_out()

    def fail_timed_out(self) -> None:
        """Make the ends that waited for the dump failures."""
        for fail in self.after_dump:
            fail()
        self.after_dump.clear()

    def on_stuck(self, event: StuckEvent, host: str) -> None:
        """Note processes that do not end. With `more` their node still waits for the memory of their GPUs."""
        words = f"do not end, not even after SIGKILL: {', '.join(event['names'])}"
        if not event.get("more"):
            self.note(f"processes on {host} {words}")
            self.outcome.lost[host] = f"processes {words}"
            return
        self.note(f"waits at most {FREE_AFTER:g} s for memory of GPUs: processes on {host} {words}")
        if self.deadline is not None:
            self.deadline += FREE_AFTER

    def count_rank_event(self, node: Node, event: StartEvent | ExitEvent, host: str) -> None:
        """Count a start or an end of a rank. A round of starts that follows a failure is one line."""
        rank = event["rank"]
        if event["e"] == "start":
            if self.rounds.starts[rank]:
                self.relay.forget_tail(rank, host, node.agent)
            why = self.rounds.start(rank)
            if why and self.most_restarts:
                self.note(f"restart {self.rounds.number} of {self.most_restarts}: {why}")
        elif event["code"] != 0 and self.most_restarts:
            self.rounds.fail(event.get("t") or self.clock.now(), f"rank {rank} on {host} failed: {_end(event)}")
        if self.restarts is not None:
            self.restarts.record(node.index, event, time.monotonic())

    def end_if_unrecoverable(self) -> None:
        """End a run with a failed rank that torchrun cannot start again, because other nodes have finished."""
        if self.restarts is None or self.deadline is not None:
            return
        failed_rank = self.restarts.unrecoverable(time.monotonic())
        if failed_rank is not None:
            index, event = failed_rank
            pairs = zip(self.nodes, self.restarts.attempts, strict=True)
            done = [node.step.host for node, attempt in pairs if attempt.finished]
            self.note(f"rank {event['rank']} cannot be restarted: all ranks of {format_hosts(done)} have succeeded")
            node = self.nodes[index]
            self.on_failure(node, failure(event), event.get("host", node.step.host))

    def end_if_not_ready(self) -> None:
        """End a run whose program should be ready by now. Its process has not ended: it has no exit code."""
        if self.ready.overdue and self.deadline is None:
            node = self.nodes[0]
            rank = min(node.step.ranks)
            host = self.ready.host or node.step.host
            lines = self.relay.tail(rank, host, node.agent)
            log = str(self.relay.folder / self.relay.log_name(rank, host, node.agent)) if lines else ""
            why = self.ready.describe()
            end: dict[str, Any] = {"code": NO_PROGRESS, "reason": why, "last_lines": tuple(lines), "log": log}
            self.fail(node, what="rank", host=host, rank=rank, hang=True, **end)

    def on_lost(self, node: Node, reason: str) -> None:
        """A node is gone. An elastic run goes on without it while enough are left."""
        node.lost = True
        self.outcome.lost.setdefault(node.step.host, reason)
        if self.restarts is not None:
            self.restarts.drop(node.index)
        left = sum(not other.lost for other in self.nodes)
        if self.plan.min_nodes is not None and left >= self.plan.min_nodes:
            self.note(f"lost {node.step.host}: {reason}; the run continues with {count(left, 'node')}")
            node.running.clear()
            node.sent_end = True
            # The others wait for the lost ranks in a collective, perhaps for half an hour. torchrun starts them again.
            self.tell({"c": "signal", "name": "SIGKILL"}, besides=node)
        else:
            self.fail(node, what=SUPERVISOR, reason=reason)

    def on_failed_exit(self, node: Node, event: ExitEvent, host: str) -> None:
        """Take the end of a rank that failed. An end that may follow from another rank's end is held.

        Of an end by a cause of its own the node reports the failure. After a stop nodes report ends alone, and one of
        them may be earlier than the known failure.
        """
        known, kind = self.outcome.failure, Kind(event.get("kind", Kind.OWN.value))
        if known is not None and known.raised and known.rank == event["rank"]:
            # Its exception is the failure, and now it has a status. KILL does not count: ddpkit sent it where the rank
            # did not end. Nor does TERM: torchrun sends it as soon as another rank is gone.
            if event["signal"] not in (signal.SIGKILL, signal.SIGTERM):
                self.outcome.failure = replace(known, code=event["code"], signal=event["signal"])
            return
        if any(proc.restarts for proc in node.step.procs):
            return  # torchrun decides, and an end may be one of an earlier attempt
        fail = partial(self.on_failure, node, failure(event), host)
        if known is not None:
            if event.get("t") is not None:  # it may have been earlier
                fail()
        elif node.step.scheduled:  # the reader of its output decides which rank was first
            if kind is Kind.WAITED:
                self.on_timeout(event["rank"])
        elif self.deadline is None and kind is not Kind.OWN:
            end = End(event["rank"], event.get("since", event.get("t", self.clock.now())), kind)
            if kind is Kind.WAITED:
                self.on_timeout(event["rank"], partial(self.hold, end, fail, 0.0))
            else:
                self.hold(end, fail, WINDOW)

    def hold(self, end: End, fail: Callable[[], None], seconds: float) -> None:
        """Keep the end of a rank, and the call that makes it a failure, for a while: another one may be its cause."""
        self.held.append((end, fail))
        self.held_until = min(self.held_until, time.monotonic() + seconds)

    def settle(self) -> None:
        """Decide between the ends that are held, when it is time, or no rank is left that could be their cause."""
        if not self.held:
            return
        alive = any(node.running for node in self.nodes if not node.ended)
        if self.cause is None and self.deadline is None and alive and time.monotonic() < self.held_until:
            return
        held, self.held, self.held_until = self.held, [], inf
        first = first_failure([end for end, _ in held])
        next(fail for end, fail in held if end is first)()

    def ask_raising(self) -> None:
        """Look whether Python has left the script of a rank that printed a traceback and is still running."""
        if self.deadline is not None or self.most_restarts:
            return
        for rank in self.exceptions.take_due(time.monotonic()):
            node = next((each for each in self.nodes if rank in each.running and not each.ended), None)
            # A scheduler without srun has no way to its ranks.
            if node is not None and (not node.step.scheduled or node.step.rank_starter is RankStarter.COLLECT):
                args = {"only": [rank], "limit": ENDING_LIMIT}
                self.exceptions.asked[id(node), node.link.call(ENDING, args)] = rank

    def on_raising(self, node: Node, event: AnswerEvent) -> None:
        """Take the answer to `ask_raising`: a rank whose script Python has left has failed, before its process ends."""
        rank = self.exceptions.asked.pop((id(node), event["id"]), None)
        if rank is None or not any(rank in ranks for ranks in event["values"] if isinstance(ranks, list)):
            return
        words = self.exceptions.words[rank]
        if rank not in node.running or words.exception == "KeyboardInterrupt":
            return
        since = words.raised_at or self.clock.now()
        end: ExitEvent = {"e": "exit", "rank": rank, "code": None, "signal": None, "raised": words.exception}
        end.update({"kind": words.kind.value, "since": since})  # the end that is to come
        fail = partial(self.on_failure, node, failure(end), self.exceptions.hosts[rank])
        if words.kind is Kind.OWN:
            fail()
        else:  # all ranks were looked at already for one that waited in vain
            self.hold(End(rank, since, words.kind), fail, 0.0 if words.kind is Kind.WAITED else WINDOW)

    def on_failure(self, node: Node, event: FailedEvent, host: str) -> None:
        """Take the failure of a rank or an agent, with its last lines, or those of what starts its container."""
        rank, runtime = event["rank"], self.runtimes.get(host, "")
        is_of_runtime = rank is None and bool(runtime) and event["what"] == runtime
        agent = runtime if is_of_runtime else node.agent
        where = host if rank is not None or is_of_runtime else node.step.host
        lines = self.relay.tail(rank, where, agent)
        if not lines and rank is not None and runtime:  # the container failed before the rank's program ran
            rank, agent = None, runtime
            lines = self.relay.tail(rank, where, agent)
        raised = event.get("raised", "")  # then the status is that of the signal which cut its end short
        self.fail(
            node,
            at=event.get("since", event.get("t")),
            kind=Kind(event.get("kind", Kind.OWN.value)),
            host=host,
            rank=event["rank"],
            what=event["what"],
            code=None if raised else event.get("code"),
            signal=None if raised else event.get("signal"),
            reason=event.get("reason", ""),
            raised=raised,
            oom=event.get("oom", ""),
            kernel=event.get("kernel", ""),
            last_lines=tuple(line for line in lines if not repeats_cancel(line)),
            log=str(self.relay.folder / self.relay.log_name(rank, where, agent)) if lines else "",
        )

    def fail(
        self,
        node: Node,
        *,
        what: str,
        host: str = "",
        rank: int | None = None,
        at: float | None = None,
        kind: Kind = Kind.OWN,
        hang: bool = False,
        **details: Any,
    ) -> None:
        """Record a failure, unless it follows from one that is known, and end the run.

        `hang`: no rank has ended, as after an exception whose process goes on (`raised`). In a job that heals only its
        step is ended then: the job's script decides what follows.
        """
        end = End(rank, self.clock.now() if at is None else at, kind, of_node=what == SUPERVISOR)
        process_lives = hang or bool(details.get("raised"))
        if (process_lives and self.step_failure is not None) or not self.can_be_cause(end):
            return
        new = Failure(
            host=host or node.step.host, rank=rank, what=what, seconds=end.when - self.started, at=end.when, **details
        )
        already_ending = self.cause is not None or self.step_failure is not None
        # What the step was ended for stays the failure, whatever its ranks report at their end.
        failure = self.with_circumstances(self.step_failure or new)
        step_alone = process_lives and self.plan.batch is not None and self.plan.batch.nodes > 0
        if step_alone:
            self.step_failure = failure
            keep_step_failure(self.relay.folder, failure)
        else:
            self.outcome.failure, self.cause = failure, end
        if not already_ending:
            self.end_others(new, step_alone=step_alone)
            self.on_first_failure(failure)

    def can_be_cause(self, end: End) -> bool:
        """Whether the run can have failed by this end, and not by the known cause or by a stop."""
        if self.cause is None:
            return self.deadline is None
        # News of the cause can come second, behind many lines of output. What ended after the stop, ended by it.
        return end.when < self.stopped_at and first_failure([self.cause, end]) is not self.cause

    def with_circumstances(self, failure: Failure) -> Failure:
        """Add for whom the failed rank had waited, with the file of a stack, and the ranks that had succeeded."""
        awaited, file = self.awaited if failure.rank in self.timed_out else ("", "")
        early = () if self.most_restarts else tuple(sorted(rank for node in self.nodes for rank in node.succeeded))
        return replace(failure, awaited=awaited, dump=file, early=early)

    def end_others(self, failure: Failure, *, step_alone: bool) -> None:
        """End the other ranks after the first failure."""
        self.stopped_at = self.clock.now()
        others = sum(len(node.running - {failure.rank}) for node in self.nodes)
        if others:
            who = f"rank {failure.rank}" if failure.rank is not None else failure.what
            did = f"raised {failure.raised}" if failure.raised else "failed"
            ending = f"ending {count(others, 'other rank')} (at most {self.plan.grace:g} s)"
            self.note(f"{who} on {failure.host} {did}; {ending}")
        if step_alone:
            self.tell({"c": "stop", "grace": self.plan.grace})
        else:
            self.stop(self.plan.grace, failure.rank if failure.raised else None)
        self.relay.flush(wait=False)  # the cause is looked for in the logs

    def on_signal(self, number: int) -> None:
        """Act on a signal to the launcher: pass it on, look at the ranks, or end them; a second one ends them now."""
        if number in PASSED_ON:
            self.tell({"c": "signal", "name": signal.Signals(number).name})
            return
        if number == ASK:
            self.monitor.request_dump("asked")
            return
        if number == signal.SIGTSTP:
            self.screen.suspend()
            return
        if number == LOOK:
            self.monitor.request_sample()
            return
        name = signal.Signals(number).name
        leaving = [node for node in self.nodes if node.link.outlives and not node.ended]
        if leaving:
            # The ranks are a scheduler's: the launcher only watches, and may go.
            self.outcome.stopped_by = number
            for node in leaving:
                node.ended = True
                self.note(node.link.outlives)
            return
        if self.outcome.stopped_by is None and self.outcome.failure is None:
            self.outcome.stopped_by = number
            again = "; press again to kill them immediately" if number == signal.SIGINT else ""
            self.note(f"{name}: ending all ranks (at most {self.plan.grace:g} s){again}")
            self.stop(0.0 if number == signal.SIGQUIT else self.plan.grace)
        elif number == signal.SIGTERM and self.outcome.stopped_by is None and not self.outcome.stopped_later:
            # A program that sends TERM may not know that the run ends by a failure: the ranks keep their grace.
            self.outcome.stopped_later = True
        else:
            self.outcome.stopped_later = True
            self.stop(0.0)

    def on_end(self, node: Node) -> None:
        """The link of a node has ended. A node that did not confirm its end before is lost, and its ranks with it."""
        node.ended = True
        if not node.sent_end:
            self.on_lost(node, "it was killed, and its ranks with it")
        elif not node.step.elastic:
            self.settle()
            accounted = node.succeeded | {end.rank for end, _ in self.held}  # the failures of these wait for a cause
            missing = ", ".join(str(rank) for rank in node.step.ranks if rank not in accounted)
            if missing:
                self.fail(node, what=node.agent, reason=f"it ended, but these ranks did not succeed: {missing}")

    def note(self, text: str) -> None:
        self.relay.note(f"ddpkit: {text}")

    def stop(self, grace: float, ending: int | None = None) -> None:
        """End all ranks; the one that is `ending` by itself gets no TERM."""
        deadline = time.monotonic() + grace + max(node.link.margin for node in self.nodes)
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)
        self.screen.hurry()
        command: StopCommand = {"c": "stop", "grace": grace}
        self.tell(command if ending is None else {**command, "ending": ending})

    def tell(self, command: Command, besides: Node | None = None) -> None:
        for node in self.nodes:
            if not node.ended and node is not besides:
                node.link.send(command)

    def give_up(self) -> None:
        """Report the nodes that did not confirm their end. Then a stop has failed: ranks may still run there."""
        silent = {}
        for node in (each for each in self.nodes if not each.ended):
            ranks = [f"rank {rank} (pid {node.pids[rank]})" for rank in sorted(node.running & node.pids.keys())]
            more = f" and {len(ranks) - NAMED} more ranks" if len(ranks) > NAMED else ""
            who = ", ".join(ranks[:NAMED]) + more or "processes"
            silent[node.step.host] = f"it did not confirm its end; {who} may still run"
        for host, reason in list(silent.items())[:NAMED]:
            self.note(f"{host}: {reason}")
        if len(silent) > NAMED:
            self.note(f"{format_hosts(list(silent)[NAMED:])}: they did not confirm their end either")
        self.outcome.lost |= silent
        if self.outcome.failure is None and silent:
            host, reason = next(iter(silent.items()))
            now = self.clock.now()
            self.outcome.failure = Failure(
                host=host, rank=None, what=SUPERVISOR, reason=reason, seconds=now - self.started, at=now
            )
            self.outcome.stopped_by, self.outcome.stopped_later = None, True


def _end(event: ExitEvent) -> str:
    return f"signal {event['signal']}" if event["code"] is None else f"exit code {event['code']}"


def carry(
    plan: Plan,
    relay: Relay,
    connect: Callable[[Step], Link],
    inbox: Inbox,
    screen: Display,
    watching: Watching = NO_WATCH,
    on_first_failure: Callable[[Failure], None] = lambda _: None,
    on_ready: Callable[[], None] = lambda: None,
    on_value: Callable[[int, str], None] = lambda *_: None,
    clock: Clock | None = None,
) -> Outcome:
    """Run a plan to its end. Blocks; takes no signals: (-1, signal) in `inbox` acts as one, from any thread.

    `connect` returns the `Link` of a step. Returns the outcome; a failed run raises nothing. `watching`: see
    `ddpkit.monitor.watchdog`. `on_first_failure` is called when the others begin to end,
    `on_ready` once the program is ready, `on_value` with the value of each rank of a function. `clock`: of the launch.
    """
    carrier = Carrier(plan, relay, connect, inbox, screen, on_first_failure, on_ready, on_value, clock)
    if watching.seconds:
        carrier.monitor.watch(watching)
    screen.begin(carrier.standing)
    try:
        outcome = carrier.run()
        outcome.slow = carrier.monitor.slow_hosts
        return outcome
    finally:
        screen.end()
