"""All nodes of a launch at once: enters them in parallel, asks what they are, and holds the ways in until the end."""

from __future__ import annotations

import os
import queue
import resource
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from ddpkit.errors import LIMIT_FIX, LIMIT_REACHED, NO_THREAD
from ddpkit.execution import compatibility
from ddpkit.execution.compatibility import Facts, Wish
from ddpkit.launchers.nodes import Nodes
from ddpkit.launchers.pdsh import Pdsh
from ddpkit.launchers.plan import Container, Step, World
from ddpkit.transports import ssh_agent
from ddpkit.transports.channel import Door, Heart, NoAnswerError, RefusedError, Wire, command
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.problem import Problem, refusal
from ddpkit.transports.protocol import program, revealed

AT_ONCE = 64  # connections that are being made at the same time
# Seconds, for a connect_timeout of USUAL: all that is wrong is known in 15. Who raises it has slow nodes.
USUAL = 5.0
ENTER_LIMIT = 10.0  # for all of them, tries included
HELLO_LIMIT = 3.0  # more for the supervisor's first word
LOOK_LIMIT = 12.0  # for a node to say what it is
REACH_LIMIT = 3.0  # for one node to reach another
SILENCE = 8.0  # after which a person is told who is waited for, and again
NAMED = 8  # of them by name
ALL_LIMIT = 11.0  # after which nothing is asked any more that takes long, where it is known that nothing can run


class Way(Protocol):
    """How nodes are entered: ssh, pdsh."""

    timeout: float  # seconds for one connection
    asks: bool  # a person is being asked for a passphrase

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        """Hear of all nodes, and of the command for each, before the first is entered. Raises UsageError."""

    def enter(self, spec: HostSpec, command: str, until: float) -> Wire:
        """Start a command on a node. Raises RefusedError: it has `what` and `fix`."""

    def close(self) -> None: ...


class Fleet:
    """The nodes of one launch."""

    def __init__(
        self,
        specs: Sequence[HostSpec],
        way: Way,
        silence: float,
        python: str,
        container: Callable[[HostSpec], Container | None] = lambda _: None,
    ) -> None:
        self.specs = tuple(specs)
        self._way = way
        self._silence = silence
        self._python = python
        self._container = container
        self._doors: dict[str, Door] = {}
        self._asked: dict[str, float] = {}  # when each was asked last, by our clock
        self._heart = Heart(silence)
        self.waits: dict[str, str] = {}  # for whom, by label, and what for
        self.entered: dict[str, float] = {}  # when each said its first word, by our clock
        self.facts: dict[str, Facts] = {}  # what each said of itself

    # ---- entering

    def enter(self, hello: float | None = None) -> list[Problem]:
        """Start a supervisor on every node. Returns what went wrong; where something did, close the fleet.

        `hello`: seconds for a supervisor's first word, once its node has let us in; else what is left for all.
        """
        todo: queue.SimpleQueue[HostSpec] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[HostSpec, Door | Problem]] = queue.SimpleQueue()
        for spec in self.specs:
            todo.put(spec)
        _room(len(self.specs))
        self.waits = dict.fromkeys((spec.label for spec in self.specs), "not let in yet")
        self._way.begin([(spec, self._command(spec)) for spec in self.specs])
        program()  # it is made once, and not by each thread
        until = time.monotonic() + self.patient(ENTER_LIMIT)
        for _ in range(min(AT_ONCE, len(self.specs))):
            # Not a pool: at exit Python would wait for its threads, and one of them for a host that is off.
            threading.Thread(target=self._work, args=(todo, done, until, hello), daemon=True).start()
        problems = {}
        for _ in self.specs:
            spec, result = done.get()
            del self.waits[spec.label]
            if isinstance(result, Door):
                self._doors[spec.label] = result
            else:
                problems[spec.label] = result
        return [problems[spec.label] for spec in self.specs if spec.label in problems]

    def _command(self, spec: HostSpec) -> str:
        return command(spec.python or self._python, self._container(spec))

    def _work(self, todo: Any, done: Any, until: float, hello: float | None) -> None:
        while True:
            try:
                spec = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((spec, self._enter(spec, until, hello)))
            except Exception as problem:  # a thread that dies in silence would be waited for
                text, fix = f"{type(problem).__name__}: {problem}", f"ssh {spec.target}"
                if str(problem) == NO_THREAD:
                    text, fix = f"was not entered, for want of a thread here: {LIMIT_REACHED}", LIMIT_FIX
                done.put((spec, Problem(host=spec.label, what=text, fix=fix, unreachable=True)))

    def _enter(self, spec: HostSpec, until: float, hello: float | None) -> Door | Problem:
        opened = None
        try:
            wire = self._way.enter(spec, self._command(spec), until)
            opened = Door(spec.label, wire, self._silence)
            self.waits[spec.label] = "its shell and Python are not up yet"
            # A person may have taken time to type a passphrase.
            last = max(until, time.monotonic()) + self.patient(HELLO_LIMIT)
            opened.open(last if hello is None else min(last, time.monotonic() + self.patient(hello)))
            self._heart.add(opened)
            self.entered[spec.label] = time.time()
            return opened
        except (NoAnswerError, RefusedError) as problem:
            if opened is not None:
                opened.close()
            by_hand = f"ssh {spec.target} {spec.python or self._python} --version"
            if opened is not None and time.monotonic() > until:
                by_hand += f"; if it is only slow: -o connect_timeout={4 * self._way.timeout:g}"
            fix = problem.fix if isinstance(problem, RefusedError) and problem.fix else by_hand
            return Problem(host=spec.label, what=str(problem), fix=fix, unreachable=True)

    def leave_out(self, problems: Sequence[Problem], least: int | None, note: Callable[[str], None]) -> None:
        """Go on without the hosts that have problems, where `least` of them are enough. Else raise the refusal."""
        if not problems:
            return
        bad = {problem.host for problem in problems}
        good = tuple(spec for spec in self.specs if spec.label not in bad)
        if least is None or len(good) < least:
            raise refusal(problems, len(self.specs))
        for problem in problems:
            note(f"goes on without {problem.host}: {problem.what} (fix: {problem.fix})")
        self.drop(bad)

    def drop(self, labels: Collection[str]) -> None:
        """Leave these nodes, and go on with the others."""
        for label in set(labels) & set(self._doors):
            self._doors.pop(label).close()
        self.specs = tuple(spec for spec in self.specs if spec.label not in labels)

    # ---- asking

    def look(self, wish: Wish, limit: float) -> tuple[dict[str, Facts], list[Problem]]:
        """What every node is that was entered, by its label; and who did not say."""
        args = {
            spec.label: {
                "workdir": spec.workdir or wish.job.workdir,
                "script": wish.script,
                "python": spec.python or wish.job.python,
                "environ": revealed({**wish.job.env, **spec.env}),
                "port": wish.master_port if spec is self.specs[0] or wish.min_nodes else None,
                "torch": wish.torch,
            }
            for spec in self.specs
        }
        self.teach("probe")
        self.facts, silent = self.ask("look", args, limit)
        return self.facts, silent

    def reach(self, asked: Mapping[str, Sequence[Sequence[Any]]]) -> tuple[dict[str, Any], list[Problem]]:
        """Which of these each node can reach, by its label."""
        seconds = self.patient(REACH_LIMIT)
        return self.ask(
            "reach", {label: {"targets": each, "timeout": seconds} for label, each in asked.items()}, seconds + 3.0
        )

    def teach(self, name: str) -> None:
        """Let every node know the functions of a program in `ddpkit/node`."""
        for door in self._doors.values():
            door.learn(name)

    def ask(
        self, function: str, args: Mapping[str, Mapping[str, Any]], limit: float
    ) -> tuple[dict[str, Any], list[Problem]]:
        """Ask all at once, each with its own arguments. Returns the answers by label, and who did not say."""
        inside = [spec for spec in self.specs if spec.label in args and spec.label in self._doors]
        for spec in inside:
            self._asked[spec.label] = time.time()
            self._doors[spec.label].ask(function, args[spec.label])
        self.waits = dict.fromkeys((spec.label for spec in inside), _DOES.get(function, "has not answered"))
        try:
            return self._answers(inside, limit)
        finally:
            self.waits = {}

    def clock(self, label: str, said: float) -> tuple[float, float]:
        """By how many seconds a node's clock is ahead of ours, at least and at most; `said`: its time, answering."""
        return -self._doors[label].ahead, said - self._asked[label]

    def patient(self, seconds: float) -> float:
        return seconds * max(1.0, self._way.timeout / USUAL)

    def _answers(self, specs: Sequence[HostSpec], limit: float) -> tuple[dict[str, Any], list[Problem]]:
        until, values, problems = time.monotonic() + limit, {}, []
        for spec in specs:
            try:
                values[spec.label] = self._doors[spec.label].answer(until)
                self.waits.pop(spec.label, None)
            except NoAnswerError as problem:
                fix = f"ssh {spec.target} uptime"
                problems.append(Problem(host=spec.label, what=str(problem), fix=fix, unreachable=True))
        return values, problems

    @contextmanager
    def aloud(self, note: Callable[[str], None]) -> Iterator[None]:
        """Say who is waited for, every few seconds: what lasts and says nothing is taken for a hang."""
        done = threading.Event()

        def tell() -> None:
            while not done.wait(SILENCE):
                for what, labels in () if self._way.asks else _alike(dict(self.waits)).items():
                    more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
                    note(f"waiting for {', '.join(labels[:NAMED])}{more}: {what}")

        threading.Thread(target=tell, daemon=True).start()
        try:
            yield
        finally:
            done.set()

    # ---- the run

    def link(self, step: Step) -> Door:
        return self._doors[step.host]

    def close(self) -> None:
        """Cut every way in. What was started there ends."""
        self._heart.stop()
        for each in self._doors.values():
            each.close()
        self._way.close()


_DOES = {"look": "looking at its folder, Python and torch", "reach": "trying to reach the others"}


def _alike(waits: Mapping[str, str]) -> dict[str, list[str]]:
    """Whom the same is waited for."""
    found: dict[str, list[str]] = {}
    for label, what in waits.items():
        found.setdefault(what, []).append(label)
    return found


def _room(nodes: int) -> None:
    """Let this process hold a connection to every node; many systems allow 1024 open files unless one asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * nodes + 512  # pdsh holds two pipes for each; half of all is for logs
    if soft != resource.RLIM_INFINITY and soft < 2 * needed:
        most = 2 * needed if hard == resource.RLIM_INFINITY else min(2 * needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):
            pass  # then the last connections say so


def survey(fleet: Fleet, wish: Wish, note: Callable[[str], None], *, strict: bool) -> World:
    """Enter every node, ask what it is, and say how they run the job together.

    Raises LaunchError where a node cannot be entered, PreflightError where they cannot run it; all causes at once. Not
    strict: what only looks wrong is a note.
    """
    try:
        with fleet.aloud(note):
            return _survey(fleet, wish, note, strict=strict)
    except SystemExit:  # Ctrl-C
        note("ended before anything was started")
        raise


def _survey(fleet: Fleet, wish: Wish, note: Callable[[str], None], *, strict: bool) -> World:
    until = time.monotonic() + fleet.patient(ALL_LIMIT)
    problems = fleet.enter()
    facts, silent = fleet.look(wish, max(2.0, until - time.monotonic()) if problems else fleet.patient(LOOK_LIMIT))
    problems += silent
    # Also where somebody is missing: whatever is wrong with the others is said with it.
    inside = [spec for spec in fleet.specs if spec.label in facts]
    found = compatibility.alone(wish, inside, [facts[spec.label] for spec in inside])
    if wish.min_nodes is not None:
        fleet.leave_out(problems + (found if strict else []), wish.min_nodes, note)
        problems, found = [], [] if strict else found
        inside = list(fleet.specs)
    specs = fleet.specs
    world: World | None = None
    if (
        len(inside) > 1
        and facts.get(specs[0].label, {}).get("port") is not None
        and (not problems or time.monotonic() < until)
    ):
        heard = [facts[spec.label] for spec in inside]
        asked = compatibility.questions(wish, inside, heard)
        answers, silent = fleet.reach({spec.label: each for spec, each in zip(inside, asked, strict=True)})
        problems += silent
        if not silent:
            world, apart, mended = compatibility.together(wish, inside, heard, [answers[spec.label] for spec in inside])
            found += apart
            if not problems:
                for (_, text), labels in mended.items():
                    note(f"{', '.join(labels)}: {text}")
    elif len(specs) == 1 and inside:
        silent, wrong = reach_itself(fleet, wish, facts)
        problems += silent
        found += wrong
        world = World(
            hosts=(compatibility.host(wish, specs[0], facts[specs[0].label], {}),),
            master_addr=wish.master_addr or "127.0.0.1",
            master_port=facts[specs[0].label]["port"] or wish.master_port,
        )
    if problems or world is None or (found and strict):
        order = [spec.label for spec in specs]
        every = problems + (found if strict or not problems else [])
        raise refusal(sorted(every, key=lambda problem: order.index(problem.host)), len(specs))
    for problem in found:
        note(f"{problem.host}: {problem.what} (fix: {problem.fix})")
    return replace(world, min_nodes=wish.min_nodes)


def reach_itself(fleet: Fleet, wish: Wish, facts: Mapping[str, Facts]) -> tuple[list[Problem], list[Problem]]:
    """Let a node that is alone try the address that it was given: whether it is silent, and what is wrong."""
    (spec,) = fleet.specs
    only = facts[spec.label]
    if not wish.master_addr or only["port"] is None:
        return [], []
    answers, silent = fleet.reach({spec.label: [[wish.master_addr, only["port"], only["secret"]]]})
    return silent, [] if silent else compatibility.itself(wish, spec, only, answers[spec.label][0])


def open_way(backend: Nodes, note: Callable[[str], None]) -> Way:
    """The way in that a backend uses. Imports it: fabric takes longer than everything else here."""
    ssh_agent.leave_out_if_silent(os.environ, note)
    if isinstance(backend, Pdsh):
        from ddpkit.transports import pdsh

        return pdsh.Pdsh(timeout=backend.connect_timeout, args=backend.pdsh_args)
    from ddpkit.transports.ssh import Ssh

    return Ssh(accept_new=backend.accepts_new, timeout=backend.connect_timeout, note=note)
