"""Carries out a plan: starts each step under a supervisor, relays lines, ends everything at the first failure.

The same loop serves every way of reaching a node. A `Link` is one supervisor, wherever it runs: something that takes
commands and yields events (see `ddpkit.node.supervisor`). Nothing here prints; lines go to a `Relay`.
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from ddpkit.plan import Plan, Raw, Secret, Step, Value
from ddpkit.relay import Relay
from ddpkit.screen import Screen
from ddpkit.shell import count, exec_argv

Event = dict[str, Any]
# (index of the step, event or None), or (-1, number of a signal)
Inbox = queue.SimpleQueue[tuple[int, Any]]

NODE = Path(__file__).parent / "node"
# Imported, and not run as a file: Python keeps the compiled form of what is imported.
_START = "import sys; sys.path.insert(0, sys.argv[1]); import supervisor; supervisor.main()"

# From these the launcher ends the run; a second one ends it at once.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# These are passed on to every rank: schedulers send them before they take a node away.
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


class Link(Protocol):
    """One supervisor, or what speaks like one."""

    outlives: str  # what to say when the launcher leaves, where the ranks go on without it; else empty
    margin: float  # seconds beyond the grace: for leftovers, and for the answer's way back

    def start(self, request: str, post: Callable[[Event | None], None]) -> None:
        """Start it, send the request, and post its events from then on; None is its end."""

    def send(self, command: Event) -> None:
        """Send a command; to a supervisor that is gone it does nothing."""

    def close(self) -> None:
        """Cut the lifeline, and wait for it a moment."""


class LocalLink:
    """A supervisor on this machine, in a session of its own, so that Ctrl-C reaches the launcher alone."""

    outlives = ""
    margin = 10.0

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, request: str, post: Callable[[Event | None], None]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-I", "-c", _START, str(NODE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(post,), daemon=True).start()
        self._write(request)

    def _read(self, post: Callable[[Event | None], None]) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                if not line.endswith(b"\n"):
                    break  # it was killed in the middle of a word
                post(json.loads(line))
        finally:
            post(None)

    def _write(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone; its end says so

    def send(self, command: Event) -> None:
        self._write(json.dumps(command))

    def close(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            pass  # with its lifeline cut it ends everything in its own time, also without us


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What failed first."""

    host: str
    rank: int | None  # None: not a rank, but `what`
    what: str  # "rank", or the agent's name, or "the supervisor", or "job 123"
    code: int | None = None
    signal: int | None = None
    seconds: float = 0.0  # since the start
    last_lines: tuple[str, ...] = ()
    log: str = ""
    reason: str = ""  # where neither a code nor a signal says it

    @property
    def exit_code(self) -> int:
        return 128 + self.signal if self.signal is not None else self.code or 1


@dataclass(kw_only=True)
class Outcome:
    """How a run ended."""

    failure: Failure | None = None
    stopped_by: int | None = None  # the signal that ended the launcher
    seconds: float = 0.0
    ends: Counter[str] = field(default_factory=Counter)  # how many ranks ended in which way

    @property
    def exit_code(self) -> int:
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        return self.failure.exit_code if self.failure else 0


@dataclass(kw_only=True)
class _Node:
    """What the launcher knows of one step."""

    step: Step
    link: Link
    ended: bool = False
    said_end: bool = False
    running: set[int] = field(default_factory=set)
    well: set[int] = field(default_factory=set)  # ranks that ended with exit code 0

    @property
    def agent(self) -> str:
        return "preload" if self.step.preload else self.step.procs[0].name


def revealed(env: dict[str, Value]) -> dict[str, str | None]:
    """The environment as it is, secrets included, for a program's environment or its standard input."""
    plain: dict[str, str | None] = {}
    for name, value in env.items():
        if isinstance(value, Raw):
            raise TypeError(f"{name}: a supervisor has no shell to expand {value.text} with")
        plain[name] = value.reveal() if isinstance(value, Secret) else value
    return plain


def request(step: Step, plan: Plan) -> str:
    """The first line that a supervisor reads. It holds secrets: it goes over its standard input and nowhere else."""
    agent = any(proc.rank is None for proc in step.procs) and not step.srun
    needed = {"preload"} if step.preload else {"tap"} if agent else set()
    return json.dumps(
        {
            "run": plan.run_id,
            "workdir": step.workdir,
            "env": revealed(dict(step.env)),
            "ranks": list(step.ranks),
            "procs": [
                {
                    "name": proc.name,
                    "argv": exec_argv(proc),
                    "env": revealed(dict(proc.env)),
                    "rank": proc.rank,
                    "restarts": proc.restarts,
                }
                for proc in step.procs
            ],
            "preload": list(step.preload),
            "sources": {name: (NODE / f"{name}.py").read_text() for name in needed},
            "grace": plan.grace,
        }
    )


def write_files(plan: Plan) -> None:
    """Write what the plan needs on disk, into the run's own folder. Raises OSError."""
    for file in plan.files:
        text = (NODE / f"{file.copy_of}.py").read_text() if file.copy_of else file.text
        Path(file.path).write_text(text)


@contextmanager
def _signals(inbox: Inbox) -> Iterator[None]:
    """Turn signals into messages (`SimpleQueue.put` is safe in a handler)."""

    def handle(number: int, _: FrameType | None) -> None:
        inbox.put((-1, number))

    before = {}
    for number in (*STOPPING, *PASSED_ON):
        # Under nohup HUP is ignored, and stays so.
        if signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Carrier:
    """One plan while it is carried out."""

    def __init__(self, plan: Plan, relay: Relay, connect: Callable[[Step], Link], inbox: Inbox, screen: Screen) -> None:
        self.plan = plan
        self.relay = relay
        self.inbox = inbox
        self.screen = screen
        self.nodes = [_Node(step=step, link=connect(step)) for step in plan.steps]
        self.outcome = Outcome()
        self.started = time.time()
        self.deadline: float | None = None  # time.monotonic() at which waiting for an ending run ends

    def run(self) -> Outcome:
        with _signals(self.inbox):
            try:
                for index, node in enumerate(self.nodes):
                    node.link.start(request(node.step, self.plan), partial(self.post, index))
                self.loop()
            finally:
                for node in self.nodes:
                    node.link.close()
        self.outcome.seconds = time.time() - self.started
        return self.outcome

    def post(self, index: int, event: Event | None) -> None:
        """Called by the links' own threads. A screen that is not read slows them down, and through them the ranks."""
        if event is not None and event["e"] == "out":
            self.screen.wait_for_room()
        self.inbox.put((index, event))

    def loop(self) -> None:
        while not all(node.ended for node in self.nodes):
            try:
                index, message = self.inbox.get_nowait()
            except queue.Empty:
                self.relay.flush()
                wait = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
                try:
                    index, message = self.inbox.get(timeout=wait)
                except queue.Empty:
                    self.give_up()
                    return
            if index < 0:
                self.on_signal(message)
            elif message is None:
                self.on_end(self.nodes[index])
            else:
                self.on_event(self.nodes[index], message)
        self.relay.flush()

    def on_event(self, node: _Node, event: Event) -> None:
        kind, step = event["e"], node.step
        host = event.get("host", step.host)
        if kind == "out":
            data = event["data"].encode("utf-8", "surrogateescape")
            rank = event["rank"]
            # What torchrun says about ranks that we are ending is noise; it stays in its log.
            show = not (rank is None and self.deadline is not None)
            self.relay.write(rank, host, node.agent, event["fd"], data, show=show)
        elif kind == "start":
            node.running.add(event["rank"])
        elif kind == "exit":
            node.running.discard(event["rank"])
            if event["code"] == 0:
                node.well.add(event["rank"])
            self.outcome.ends[
                f"signal {event['signal']}" if event["code"] is None else f"exit code {event['code']}"
            ] += 1
        elif kind == "failed":
            self.on_failure(node, event, host)
        elif kind == "note":
            self.note(event["text"])
        elif kind == "refused":
            self.fail(node, what="the supervisor", reason=event["message"], code=4)
        elif kind == "left":
            self.note(f"ended what outlived its rank on {step.host}: {', '.join(event['names'])}")
        elif kind == "stuck":
            self.note(f"cannot be ended on {step.host}, not even by KILL: {', '.join(event['names'])}")
        elif kind == "end":
            node.said_end = True

    def on_failure(self, node: _Node, event: Event, host: str) -> None:
        where = host if event["rank"] is not None else node.step.host  # an agent's lines are those of its step
        lines = self.relay.tail(event["rank"], where, node.agent)
        self.fail(
            node,
            host=host,
            rank=event["rank"],
            what=event["what"],
            code=event.get("code"),
            signal=event.get("signal"),
            reason=event.get("reason", ""),
            last_lines=tuple(lines),
            log=str(self.relay.folder / self.relay.log_name(event["rank"], where, node.agent)) if lines else "",
        )

    def fail(self, node: _Node, *, what: str, host: str = "", rank: int | None = None, **details: Any) -> None:
        """The first failure decides; what fails after it, or after a stop, is a consequence."""
        if self.outcome.failure is not None or self.deadline is not None:
            return
        host = host or node.step.host
        self.outcome.failure = Failure(
            host=host,
            rank=rank,
            what=what,
            seconds=time.time() - self.started,
            **details,
        )
        others = sum(len(other.running) for other in self.nodes)
        if others:
            who = f"rank {rank}" if rank is not None else what
            self.note(f"{who} on {host} failed; ending {count(others, 'other rank')} (at most {self.plan.grace:g} s)")
        self.stop(self.plan.grace)

    def on_signal(self, number: int) -> None:
        if number in PASSED_ON:
            self.tell({"c": "signal", "name": signal.Signals(number).name})
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
            again = "; once more ends them at once" if number == signal.SIGINT else ""
            self.note(f"{name}: ending all ranks (at most {self.plan.grace:g} s){again}")
            self.stop(0.0 if number == signal.SIGQUIT else self.plan.grace)
        else:
            self.stop(0.0)

    def on_end(self, node: _Node) -> None:
        node.ended = True
        if not node.said_end:
            self.fail(node, what="the supervisor", reason="it was killed, and its ranks with it")
        elif node.well != set(node.step.ranks):
            missing = ", ".join(str(rank) for rank in node.step.ranks if rank not in node.well)
            self.fail(node, what=node.agent, reason=f"it ended, but these ranks never ended well: {missing}")

    def note(self, text: str) -> None:
        self.relay.note(f"ddpkit: {text}")

    def stop(self, grace: float) -> None:
        deadline = time.monotonic() + grace + max(node.link.margin for node in self.nodes)
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)
        self.screen.hurry()
        self.tell({"c": "stop", "grace": grace})

    def tell(self, command: Event) -> None:
        for node in self.nodes:
            if not node.ended:
                node.link.send(command)

    def give_up(self) -> None:
        hosts = [node.step.host for node in self.nodes if not node.ended]
        self.note(f"no answer from {', '.join(hosts)}: processes may be left there")


def carry(plan: Plan, relay: Relay, connect: Callable[[Step], Link], inbox: Inbox, screen: Screen) -> Outcome:
    """Run a plan to its end, whatever that is. Blocks; owns the process's signal handlers meanwhile.

    Shapes: one `Link` per step, from `connect`; `inbox` may get (-1, signal) from anywhere. Returns how the
    run ended; raises nothing for a run that failed.
    """
    return Carrier(plan, relay, connect, inbox, screen).run()
