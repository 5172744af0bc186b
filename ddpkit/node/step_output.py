"""Reads the output of a scheduler's step: events of its tasks in frames, and what srun prints itself. Pure.

A task writes each event as frames, lines of at most `FRAME` bytes: `srun --label` cuts what is longer than 1,024 (Slurm
22.05 to 26.05). `+` begins a piece that continues, `=` the last one. What a task prints beside frames is of SLURM or of
one of its plug-ins.
"""

from __future__ import annotations

import json
import re
import signal

from ddpkit.node.supervision.clock import NodeClock
from ddpkit.node.supervision.first_failure import WINDOW, End, Kind, first_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

FRAME = 1000
LINE_LIMIT = 1 << 20  # characters of a line without an end that are held
# srun reports the end of a task beside its outputs: the task's own events may be still on their way.
LATE = 0.5  # seconds
LONGEST_SILENCE = 600.0  # seconds between two checks of a node whose task is silent: SLURM suspends some for hours
NOT_STARTED = 123  # ddpkit's exit code where nothing was started
OUT_OF_MEMORY = "Out Of Memory"  # srun's word in place of the signal, which was SIGKILL
PASSED_ON = ("hello", "start", "left", "daemons", "stuck", "out")  # output: a prompt, which has no line end
OBSERVED = ("start", "mark", "versions", "steps")
OBSERVE = "observe"  # in place of a label: an event for the file of what ranks report of their start and their steps

_LABEL = re.compile(r" *(\d{1,9}): (.*)", re.DOTALL)
_ENDED = re.compile(r"srun: error: (\S+): tasks? ([\d,-]+): (.*)")
_NODE_LOST = re.compile(r"srun: error: Node failure on (\S+)")
_CODE = re.compile(r"Exited with exit code (\d+)")
_SIGNALS = {signal.strsignal(number): int(number) for number in signal.valid_signals()}
_PLUGIN = re.compile(r"(slurmstepd|srun|pyxis)(?:-\S+)?: ")


def frames(event: bytes) -> bytes:
    """Return the lines of one event."""
    pieces = [event[start : start + FRAME] for start in range(0, len(event), FRAME)]
    return b"".join(b"+%b\n" % piece for piece in pieces[:-1]) + b"=%b\n" % pieces[-1]


class Layout:
    """Ranks of a step: which of them each task has, and the groups of a heterogeneous job."""

    def __init__(self, spec: dict[str, Any]) -> None:
        counts: list[int] = spec["ranks"]
        self.by_node: bool = spec["by_node"]
        self.world = sum(counts)
        self.tasks = len(counts) if self.by_node else self.world
        self._before = [sum(counts[:node]) for node in range(len(counts) + 1)]
        self._groups: list[int] = spec["groups"]  # tasks in each; empty: one group

    @property
    def has_groups(self) -> bool:
        return bool(self._groups)

    def ranks(self, task: int) -> range:
        return range(self._before[task], self._before[task + 1]) if self.by_node else range(task, task + 1)

    def first_task(self, near: int) -> int:
        """Return the first task of the group of a task: srun counts from 0 in each in its errors."""
        first = 0
        for size in self._groups:
            if near < first + size:
                return first
            first += size
        return 0


class Task:
    """What is known of one task."""

    def __init__(self) -> None:
        self.host = ""
        self.clock = NodeClock()
        self.piece = ""  # of a frame
        self.ended: set[int] = set()  # its ranks that reported their end
        self.failed = False  # its program that starts ranks did


class Failures:
    """Failed ranks and programs, until the first of them is known."""

    def __init__(self) -> None:
        self.due = float("inf")  # when the first is decided, whatever may still come
        self._ends: list[tuple[End, dict[str, Any]]] = []
        self._first: End | None = None

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, end: End, event: dict[str, Any], due: float) -> None:
        """Take one more. `event`: the failure that is told if it was the first."""
        self._ends.append((end, event))
        self.due = min(self.due, due)

    def decide(self) -> dict[str, Any] | None:
        """Return the first failure so far; None where it is none, or was told."""
        self.due = float("inf")
        first = first_failure([end for end, _ in self._ends]) if self._ends else None
        if first is self._first:
            return None
        self._first = first
        return next(event for end, event in self._ends if end is first)


class Silence:
    """How long tasks that send signs of life are silent."""

    def __init__(self, limit: float) -> None:
        """`limit`: seconds after which a task's node is checked."""
        self.limit = limit
        self._hosts: dict[int, str] = {}  # of each such task
        self._ends: dict[int, float] = {}  # when it was silent for too long; infinity: its node is checked
        self._checks: dict[int, int] = {}  # how often it was checked since its last sign

    @property
    def due(self) -> float:
        return min(self._ends.values(), default=float("inf"))

    @property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(self._hosts.values()))

    def sign(self, number: int, host: str, kind: str, now: float) -> None:
        """Take any event of a task as a sign of life. From its first `beat` on it is waited for, until its `end`."""
        if kind == "end":
            self.forget(number)
        elif kind == "beat" or number in self._ends:
            self._hosts[number], self._ends[number] = host, now + self.limit
            self._checks.pop(number, None)

    def forget(self, number: int) -> None:
        self._ends.pop(number, None)

    def take(self, now: float) -> list[str]:
        """Return the hosts of tasks that are silent for too long: the caller finds out whether they are lost."""
        silent = [number for number, end in self._ends.items() if now >= end]
        self._ends.update(dict.fromkeys(silent, float("inf")))
        return [self._hosts[number] for number in silent]

    def is_lost(self, host: str, why: str, now: float) -> bool:
        """Take the answer about a host. `why`: it is lost, if no sign came; empty: each next check is later."""
        checked = [n for n, end in self._ends.items() if end == float("inf") and self._hosts[n] == host]
        for number in checked:
            if why:
                self.forget(number)
                continue
            self._checks[number] = checks = self._checks.get(number, 0) + 1
            self._ends[number] = now + min(self.limit * 2**checks, max(self.limit, LONGEST_SILENCE))
        return bool(why and checked)


class Texts:
    """Outputs of ranks and of what starts them, in whole lines: what has no line end waits for it."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int | None, int], str] = {}  # by task, rank and output

    def add(self, task: int, rank: int | None, number: int, data: str) -> str | None:
        """Return the lines that are whole now, without the last one's end; None: there is none."""
        key = task, rank, number
        lines, end, rest = (self.held.pop(key, "") + data).rpartition("\n")
        if len(rest) >= LINE_LIMIT:
            lines, end, rest = lines + end + rest, "\n", ""
        if rest:
            self.held[key] = rest
        return lines if end else None

    def waiting(self, task: int, rank: int | None) -> list[tuple[int, int | None, int]]:
        """Return what a rank printed that waits."""
        return [key for key in ((task, rank, 1), (task, rank, 2)) if key in self.held]


class StepReader:
    """Yields what the output of the job gets: a label, empty for what has none, and a line or more; or ("", an event).

    Events for another file have the label OBSERVE.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self.layout = Layout(spec)
        self.exit_code = 0  # of the first failure
        self._agent: str = spec["agent"]  # the program of a task that has all ranks of its node
        self._lost_is_failure: bool = spec["lost"]  # a lost node is a failure; else SLURM starts the job again after it
        self._runtime: str = spec["runtime"]  # the program that enters the container of a task
        self._tasks = [Task() for _ in range(self.layout.tasks)]
        self._held = {1: b"", 2: b""}
        self._texts = Texts()
        self.silence = Silence(spec["silence"])
        self.step, self._greeted, self._failures = "", False, Failures()
        self._late: list[tuple[float, str, str, str]] = []  # ends that srun reported: when they count, host, tasks, how

    @property
    def due(self) -> float:
        """When `overdue` has something to do."""
        return min([self._failures.due, *(when for when, *_ in self._late), self.silence.due])

    def feed(self, number: int, data: bytes, now: float) -> Iterator[tuple[str, Any]]:
        """Take bytes of srun's standard output (1) or error (2). Times are seconds since the epoch."""
        *lines, self._held[number] = (self._held[number] + data).split(b"\n")
        for line in lines:
            yield from self._line(line.decode("utf-8", "surrogateescape"), now)

    def overdue(self, now: float) -> Iterator[tuple[str, Any]]:
        """Decide what waited long enough for the cause of a failure, or for the events of a task."""
        ready = [each for each in self._late if each[0] <= now]
        self._late = [each for each in self._late if each[0] > now]
        for _, host, tasks, how in ready:
            yield from self._task_ended(host, tasks, how, now)
        if now >= self._failures.due:
            yield from self._decide()

    def on_check(self, host: str, why: str, now: float) -> Iterator[tuple[str, Any]]:
        """The answer about a silent host. `why`: it is lost; empty: it is not."""
        if self.silence.is_lost(host, why, now):
            yield from self._fail(host, "slurmd", None, None, now, f"no heartbeat for {self.silence.limit:g} s: {why}")

    def finish(self, code: int, now: float) -> Iterator[tuple[str, Any]]:
        """The end of srun, with its exit code."""
        for number in (1, 2):
            if self._held[number]:
                yield from self.feed(number, b"\n", now)
        for key in [*self._texts.held]:
            yield from self._text(*key, "\n")
        late, self._late = self._late, []
        for _, host, tasks, how in late:
            yield from self._task_ended(host, tasks, how, now)
        yield from self._decide()
        self.exit_code = self.exit_code or code

    # ---- lines

    def _line(self, line: str, now: float) -> Iterator[tuple[str, Any]]:
        """Take a line: a frame of a task, a stray line beside frames, or what srun says of ends and of lost nodes."""
        labelled = _LABEL.fullmatch(line)
        task = int(labelled[1]) if labelled else -1
        if labelled and task < len(self._tasks):
            text = labelled[2]
            # A frame begins with an event. `+ command` is of a shell that traces itself.
            if text[:1] in ("+", "=") and (self._tasks[task].piece or text[1:2] == "{"):
                yield from self._frame(task, text, now)
            else:
                yield self._label_of_stray(task, text), text
            return
        yield "", line
        ended = _ENDED.match(line)
        if ended:
            self._late.append((now + LATE, ended[1], ended[2], ended[3]))
            return
        lost = _NODE_LOST.fullmatch(line) if self._lost_is_failure else None
        if lost:
            yield from self._fail(lost[1], "slurmd", None, None, now, reason="SLURM lost the node")

    def _label_of_stray(self, number: int, text: str) -> str:
        """Return the label of a line of SLURM, a plug-in or a container's runtime, or of a task without supervisor."""
        task, plugin = self._tasks[number], _PLUGIN.match(text)
        own = number if not (self.layout.by_node or task.host) else "slurmstepd"
        return f"{plugin[1] if plugin else self._runtime or own} {task.host or '?'}"

    def _frame(self, number: int, text: str, now: float) -> Iterator[tuple[str, Any]]:
        """Take a frame of a task. The last piece of an event is acted on, in the time of this host."""
        task = self._tasks[number]
        task.piece += text[1:]
        if text[0] == "+":
            return
        whole, task.piece = task.piece, ""
        try:
            event = json.loads(whole)
            kind = event["e"]
        except (ValueError, TypeError, KeyError):
            return  # SLURM lost a part of it
        rank = event.get("rank")
        if rank is not None and rank not in self.layout.ranks(number):
            return
        self.silence.sign(number, task.host, kind, now)
        if kind == "hello":
            task.clock.began = now
            self.step = event.get("step", "")
        # `at`: of the task's shell, before the runtime of its container
        event["host"] = task.host = event["host"] if kind in ("hello", "at") else task.host
        if kind == "out" and not event.get("prompt"):
            yield from self._text(number, rank, event["fd"], event["data"])
            return
        if kind in OBSERVED:
            yield OBSERVE, {**event}  # in the node's time, as are all reports of its ranks
            if kind != "start":
                return
        if "t" in event:
            task.clock.in_our_time(event, now)
            event.update({name: round(event[name], 3) for name in ("t", "since") if name in event})
        else:
            event["t"] = now
        if kind == "exit":
            yield from self._rank_ended(number, event, now)
        elif kind == "failed" and rank is None:  # that of a rank came with its end
            task.failed = True
            what, code, why = event["what"], event["code"], event.get("reason", "")
            yield from self._fail(task.host, what, code, event.get("signal"), now, why)
        elif kind == "refused":
            self.exit_code = self.exit_code or NOT_STARTED
            yield "", event
        elif kind in PASSED_ON and not (kind == "hello" and self._greeted):
            self._greeted = True
            yield "", event

    def _text(self, task: int, rank: int | None, number: int, data: str) -> Iterator[tuple[str, Any]]:
        """Yield the whole lines of an output."""
        lines = self._texts.add(task, rank, number, data)
        if lines is not None:
            yield f"{self._agent if rank is None else rank} {self._tasks[task].host}", lines

    # ---- ends

    def _rank_ended(self, number: int, event: dict[str, Any], now: float) -> Iterator[tuple[str, Any]]:
        """Take the end of a rank. What may follow from another rank's failure waits, until all have failed at most."""
        rank, task = event["rank"], self._tasks[number]
        for key in self._texts.waiting(number, rank):
            yield from self._text(*key, "\n")
        task.ended.add(rank)
        if event["code"] == 0:
            yield "", event
            return
        kind = Kind(event.get("kind", Kind.OWN.value))
        if kind is Kind.OWN and event["signal"] == signal.SIGTERM and len(self._failures) and not event.get("raised"):
            kind = Kind.TERMINATED  # srun ends the others as soon as one task failed
            event["kind"] = kind.value
        since = event.setdefault("since", event["t"])
        yield "", event
        failed = {**event, "e": "failed", "what": "rank"}
        self._failures.add(End(rank, since, kind), failed, now + WINDOW)
        if kind is Kind.OWN or len(self._failures) == self.layout.world:
            yield from self._decide()

    def _decide(self) -> Iterator[tuple[str, Any]]:
        """Yield the first failure among the ends so far, unless it is known."""
        failed = self._failures.decide()
        if failed is not None:
            self.exit_code = failed["code"] or 128 + (failed.get("signal") or 0)
            yield "", failed

    def _fail(
        self, host: str, what: str, code: int | None, killer: int | None, now: float, reason: str = ""
    ) -> Iterator[tuple[str, Any]]:
        """The failure of a program that starts ranks, or of a node. Once a rank failed, it follows from that."""
        if len(self._failures):
            return
        event = {"e": "failed", "rank": None, "host": host, "what": what, "code": code, "signal": killer, "t": now}
        if reason:
            event["reason"] = reason
        self._failures.add(End(None, now, Kind.OWN), event, now)
        yield from self._decide()

    def _task_ended(self, host: str, tasks: str, how: str, now: float) -> Iterator[tuple[str, Any]]:
        """The end of tasks, as srun reports it: it counts where the task did not report it itself."""
        status, killer = _status(how)
        if status is None and killer is None:
            return
        here = next((number for number, task in enumerate(self._tasks) if task.host == host), None)
        if here is None and self.layout.has_groups:  # these numbers are of a group, and nobody has said of which
            yield from self._fail(host, self._agent, status, killer, now)
            return
        for number in _numbers(tasks, self.layout.first_task(here or 0), len(self._tasks)):
            task = self._tasks[number]
            self.silence.forget(number)
            left = [rank for rank in self.layout.ranks(number) if rank not in task.ended]
            if self.layout.by_node and left and not task.failed:
                yield from self._fail(host, self._agent, status, killer, now)
            elif not self.layout.by_node and left:
                task.host = task.host or host
                event = {"e": "exit", "rank": number, "host": host, "code": status, "signal": killer, "t": now}
                if how == OUT_OF_MEMORY:
                    event["oom"] = f"srun: {how}"
                yield from self._rank_ended(number, event, now)


def _status(how: str) -> tuple[int | None, int | None]:
    """Return the exit code and the signal of an end, as srun words it; both None: it is no end."""
    code = _CODE.match(how)
    if code:
        return int(code[1]), None
    return None, int(signal.SIGKILL) if how == OUT_OF_MEMORY else _SIGNALS.get(how.partition(" (core dumped)")[0])


def _numbers(text: str, first: int, below: int) -> list[int]:
    """`0,2-3` as [0, 2, 3], each plus `first`; those below a limit."""
    numbers: list[int] = []
    for words in re.findall(r"(\d{1,9})(?:-(\d{1,9}))?", text)[:below]:
        least, last = int(words[0]), int(words[1] or words[0])
        numbers += range(first + least, min(first + last + 1, below))
    return numbers
