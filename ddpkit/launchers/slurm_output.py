"""Reads what `srun --label` prints, and turns it into the events that a supervisor would send.

Every line of a task comes as `3: text` (padded to equal width); what srun itself prints comes without a label:

    srun: error: node2: task 3: Exited with exit code 7
    srun: error: node1: tasks 0-1: Terminated

Our own lines in each task, such as its first, which names rank, host and step, are not passed on. Lines beyond 1,024
bytes come in full pieces (Slurm's message size), which are joined again. Pure: bytes in, events out. Source: Slurm
22.05, seen.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate

from ddpkit.launchers.events import Event, ExitEvent, FailedEvent, OutputEvent, failure
from ddpkit.node.first_failure import WINDOW, End, Kind, LastWords, first_failure

PIECE = 1024
MOST_PIECES = 1024  # that are joined: a line without an end is passed on in parts of about a megabyte
WAIT = 0.5  # seconds for which the first lines of a rank wait for the line that names its host
MOST_WAITING = 1000  # lines of one rank
# Printed by each rank's own shell (or tap) to its standard error before the script runs.
STARTED = re.compile(r"ddpkit: rank (\d{1,9}) on ([\w.-]+) pid (\d{1,9}) step ([\w.]+)")
# Printed by the tap of a rank under torchrun, whose label is the node's and not the rank's. The tap splits long lines:
# `[rank 3 1+] ` begins a piece of standard output that continues, `[rank 3 1] ` the last one. Between pieces that SLURM
# makes, a line of the other output may come.
RANK_LINE = re.compile(r"\[rank (\d{1,9})(?: ([12])(\+?))?\] (.*)", re.DOTALL)
RANK_ENDED = re.compile(
    r"ddpkit: rank (\d{1,9}) ended: code (\d{1,3}|None) signal (\d{1,2}|None)(?:, out of memory: (.*))?"
)
# Printed by torchrun's agent when the tap of a rank was killed, and the kernel ended the rank (`torchrun_agent.py`).
LOST_TAP = re.compile(r"ddpkit: rank (\d{1,9}) on ([\w.-]{1,255}) lost its helper")
# Printed before a rank enters a container, and in it, on both outputs, before the rank's program runs.
ENTERS = re.compile(r"ddpkit: rank (\d+) enters (\S+)")
BEGINS = re.compile(r"ddpkit: rank (\d+) begins")
# SLURM's own processes on a node, and its plug-ins, write to the outputs of a task. 26.05 prints a time, not a name.
PLUGIN = re.compile(
    r"(slurmstepd|srun|pyxis)(?:-\S+)?: "
    r"|\[\d{4}-\d\d-\d\dT[\d:.]+\] error: (?:\*\*\* (?:STEP|JOB) \d|Detected \d+ oom_kill)"
)
# Printed by a job's script that SLURM starts again, before anything else.
ATTEMPT = re.compile(r"ddpkit: attempt (\d+)")

# Printed by a job's script, at its start and at its end. Where nobody prints it, only the controller knows.
JOB_RUNS = re.compile(r"ddpkit: job \S+ runs on (\S+)")
# Lines that say that a job ends, or its step: the last line of its script, and what SLURM prints. A rank's line has a
# label in front.
_ENDS = re.compile(
    r"^(?:ddpkit: job \S+ ended with code \d"
    r"|srun: (?:error: |Job step aborted|Force Terminated|forcing job termination)"
    r"|(?:slurmstepd\S*:|\[\S+\]) error: \*\*\* (?:JOB|STEP) \S+ ON )",
    re.MULTILINE,
)

# What SLURM prints of a job that somebody cancelled, in up to ten lines: its end says it once.
_CANCEL_REPEATED = re.compile(
    r"(?:srun: (?:Job step aborted: .*|got SIGCONT|forcing job termination|launch/slurm: _step_signal: .*"
    r"|error: \S+: tasks? [\d,-]+: (?:Terminated|Killed))"
    r"|\S+ error: \*\*\* (?:STEP|JOB) \S+ ON \S+ CANCELLED AT \S+ \*\*\*)\s*"
)

_LABEL = re.compile(r" *(\d{1,9}): (.*)", re.DOTALL)
_ENDED = re.compile(r"srun: error: (\S+): tasks? ([\d,-]+): (.*)")
_NODE_LOST = re.compile(r"srun: error: Node failure on (\S+)")
_CODE = re.compile(r"Exited with exit code (\d+)")
_OUT_OF_MEMORY = "Out Of Memory"  # in place of the signal, which was SIGKILL
_SIGNALS = {signal.strsignal(number): int(number) for number in signal.valid_signals()}


def repeats_cancel(text: str) -> bool:
    """Tell whether a line of SLURM only repeats that a job was cancelled."""
    return bool(_CANCEL_REPEATED.fullmatch(text))


def says_end(output: str) -> bool:
    """Tell whether some line of a job's output says that the job ends."""
    return bool(_ENDS.search(output))


class SrunReader:
    """The state between two reads: unfinished lines, and which rank is where."""

    def __init__(
        self,
        ranks: int,
        *,
        torchrun: bool,
        labels: bool = True,
        lost: bool = False,
        groups: Sequence[int] = (),
        agent: str = "torchrun",
    ) -> None:
        self.ranks = ranks
        self.agent = agent  # the name of a node's task
        self.groups = groups  # ranks in each group of a heterogeneous job
        self.torchrun = torchrun  # a label is then a node's number, and each rank's tap names the rank of a line
        self.lost = lost  # a lost node is a failure; else SLURM requeues the job after it
        self.labels = labels  # False: no srun, and the taps alone speak
        self.hosts: dict[int, str] = {}
        self.pids: dict[int, int] = {}  # on that host
        self.step = ""  # 123.0, as `scancel` takes it
        self.nodes = ""  # of the job, as its script reports them
        self.ends = 0  # lines that say that the job ends, or this attempt
        self.runtimes: dict[int, str] = {}  # of each rank that enters a container
        self.begun: set[tuple[int, int]] = set()  # rank and output (1, 2): what comes now is the rank's own
        self.failed = False
        self.words: dict[int, LastWords] = {}
        self._ends: list[tuple[End, FailedEvent]] = []  # of ranks that failed
        self._first: End | None = None  # the one that was yielded as the first failure
        self._decide_at: float | None = None  # time.monotonic(): no cause came of what follows from one
        self.attempt = 0  # how often the job was started again before what is read now
        # Lines of ranks without a host, and since when: the line that names it is on another output of srun.
        self._early: dict[int, list[Event]] = {}
        self._early_since = 0.0
        self._without_host: set[int] = set()  # ranks whose lines no longer wait
        self._held: dict[int, bytes] = {}
        self._long: dict[tuple[int, str], list[str]] = {}

    def feed(self, number: int, data: bytes) -> Iterator[Event]:
        """Take bytes of srun's standard output (1) or error (2); yield events."""
        *lines, self._held[number] = (self._held.get(number, b"") + data).split(b"\n")
        for line in lines:
            yield from self._line(number, line.decode("utf-8", "surrogateescape"))

    def flush(self) -> Iterator[Event]:
        """The end of the output: a last line without an end is a line as well, and no end of a rank follows."""
        for number in (1, 2):
            if self._held.get(number):
                yield from self.feed(number, b"\n")
        yield from self._release_all()
        yield from self.decide()

    @property
    def waits(self) -> bool:
        """Whether lines wait for the host of their rank, or a failure for its cause."""
        return bool(self._early) or self._decide_at is not None

    def overdue(self) -> Iterator[Event]:
        """Yield lines that have waited long enough for the host of their rank, and failures for their cause.

        Call it again and again.
        """
        if self._decide_at is not None and time.monotonic() >= self._decide_at:
            yield from self.decide()
        if self._early and time.monotonic() >= self._early_since + WAIT:
            self._without_host.update(self._early)
            yield from self._release_all()

    def _release(self, rank: int) -> Iterator[Event]:
        for event in self._early.pop(rank, ()):
            yield {**event, "host": self.hosts[rank]} if rank in self.hosts and event["e"] == "out" else event

    def _release_all(self) -> Iterator[Event]:
        for rank in list(self._early):
            yield from self._release(rank)

    def finished(self) -> Iterator[Event]:
        """srun ended with exit code 0: so did every rank."""
        for rank in range(self.ranks):
            yield {"e": "exit", "rank": rank, "code": 0, "signal": None, "t": time.time()}

    def _line(self, number: int, line: str) -> Iterator[Event]:
        if _ENDS.match(line):
            self.ends += 1
        ended = _ENDED.match(line)
        if ended:
            yield _out(None, number, line)
            yield from self._task_ended(*ended.groups())
            return
        lost = _NODE_LOST.fullmatch(line) if self.lost else None
        if lost:
            yield _out(None, number, line)
            yield from self._fail(None, lost[1], "slurmd", None, None, reason="SLURM lost the node")
            return
        attempt = ATTEMPT.fullmatch(line)
        if attempt:
            yield from self._begin_attempt(int(attempt[1]))
            return
        runs = JOB_RUNS.fullmatch(line)
        if runs:
            self.nodes = runs[1]
        if runs or (line.startswith("ddpkit: job ") and _ENDS.match(line)):
            return
        labelled = _LABEL.fullmatch(line) if self.labels else None
        if self.labels and (labelled is None or int(labelled[1]) >= self.ranks):
            yield _out(None, number, line)
            return
        task, text = labelled.groups() if labelled else ("", line)
        of_tap = RANK_LINE.fullmatch(text) if self.torchrun else None
        if of_tap and int(of_tap[1]) < self.ranks:
            rank, output, more, text = of_tap.groups()
            joined = self._joined(int(output), f"rank {rank}", text, bool(more)) if output else text
            if joined is not None:
                yield from self._rank_line(int(rank), number, joined)
            return
        if labelled and not (self.torchrun and text.startswith("ddpkit: rank ")):
            joined = self._joined(number, task, text, len(text.encode("utf-8", "surrogateescape")) >= PIECE)
            if joined is None:
                return
            text = joined
        started = STARTED.fullmatch(text)
        over = RANK_ENDED.fullmatch(text) if self.torchrun else None  # without a tap, only a script can print it
        if started and not self.torchrun and (int(started[1]) != int(task) or int(task) in self.pids):
            started = None  # a script's own line: its shell has printed the first one
        if started and int(started[1]) < self.ranks:
            rank, host, pid, self.step = int(started[1]), started[2], int(started[3]), started[4]
            self.hosts[rank], self.pids[rank] = host, pid
            yield {"e": "start", "rank": rank, "host": host, "pid": pid, "t": time.time()}
            yield from self._release(rank)
        elif over and int(over[1]) < self.ranks:
            code, killer = (None if word == "None" else int(word) for word in over.groups()[1:3])
            yield from self._rank_ended(int(over[1]), code, killer, over[4] or "")
        elif self.torchrun:
            yield from self._agent_line(number, text)
        else:
            yield from self._rank_line(int(task), number, text)

    def _begin_attempt(self, number: int) -> Iterator[Event]:
        yield from self._release_all()
        self._without_host.clear()
        self.attempt = number
        self.reset_after_requeue()
        self.hosts.clear()
        self.pids.clear()
        self.runtimes.clear()
        self.begun.clear()

    def _agent_line(self, number: int, text: str) -> Iterator[Event]:
        """A line of torchrun, or one of ours in its name."""
        lost_tap = LOST_TAP.fullmatch(text)
        if lost_tap is None or int(lost_tap[1]) >= self.ranks:
            yield _out(None, number, text)
        elif not self.failed:
            rank, reason = int(lost_tap[1]), "its helper process was killed"
            self.hosts.setdefault(rank, lost_tap[2])
            yield from self._rank_ended(rank, None, signal.SIGKILL, reason=reason)

    def _joined(self, number: int, task: str, text: str, more: bool) -> str | None:
        """Return a whole line, or None while pieces of it are still to come."""
        pieces = self._long.setdefault((number, task), [])
        pieces.append(text)
        if more and len(pieces) < MOST_PIECES:
            return None
        del self._long[number, task]
        return "".join(pieces)

    def _rank_line(self, rank: int, number: int, text: str) -> Iterator[Event]:
        """A line of a rank, or one of ours in its name."""
        own = "ddpkit: rank " in text
        enters, begins = (ENTERS.fullmatch(text), BEGINS.fullmatch(text)) if own else (None, None)
        if enters and int(enters[1]) == rank:
            self.runtimes[rank] = enters[2]
            return
        if begins and int(begins[1]) == rank:
            self.begun.add((rank, number))
            return
        yield from self._of_rank(rank, number, text)

    def reset_after_requeue(self) -> None:
        """Discard the failure of the previous attempt."""
        self.failed, self._first, self._decide_at = False, None, None
        self._ends.clear()
        self.words.clear()

    def _of_rank(self, rank: int, number: int, text: str) -> Iterator[Event]:
        self.words.setdefault(rank, LastWords()).take(text + "\n", time.time())
        plugin = PLUGIN.match(text)
        agent = "" if (rank, number) in self.begun else self.runtimes.get(rank, "")
        agent = (plugin[1] or "slurmstepd") if plugin else agent
        event = _out(None if agent else rank, number, text)
        if agent:
            event["agent"] = agent
        if rank in self.hosts:
            event["host"] = self.hosts[rank]
        elif rank not in self._without_host:
            if not self._early:
                self._early_since = time.monotonic()
            waiting = self._early.setdefault(rank, [])
            waiting.append(event)
            if len(waiting) >= MOST_WAITING:
                self._without_host.add(rank)
                yield from self._release(rank)
            return
        yield event

    def _task_ended(self, host: str, tasks: str, how: str) -> Iterator[Event]:
        code = _CODE.match(how)
        oom = f"srun: {how}" if how == _OUT_OF_MEMORY else ""
        killer = int(signal.SIGKILL) if oom else None if code else _SIGNALS.get(how.partition(" (core dumped)")[0])
        if code is None and killer is None:
            return
        if self.torchrun and self._ends:  # the task is an agent, and ends because a rank did
            return
        if self.torchrun:
            yield from self._fail(None, host, self.agent, int(code[1]) if code else None, killer)
            return
        first = self._first_rank(host)
        for rank in _numbers(tasks, first, self.ranks):
            self.hosts.setdefault(rank, host)
            yield from self._rank_ended(rank, int(code[1]) if code else None, killer, oom)

    def group_of(self, host: str) -> int:
        """The group of a host in a heterogeneous job; 0 before a rank has started there."""
        rank = next((rank for rank, there in self.hosts.items() if there == host), 0)
        return next((n for n, below in enumerate(accumulate(self.groups)) if rank < below), 0)

    def _first_rank(self, host: str) -> int:
        """The rank of task 0 in an error of srun, which counts the tasks of each group from 0."""
        return sum(self.groups[: self.group_of(host)])

    def _rank_ended(
        self, rank: int, code: int | None, killer: int | None, oom: str = "", reason: str = ""
    ) -> Iterator[Event]:
        """A rank's last lines tell whether its end may follow from another one's: then the launcher decides."""
        host, now = self.hosts.get(rank, "?"), time.time()
        yield from self._release(rank)
        ended: ExitEvent = {"e": "exit", "rank": rank, "host": host, "code": code, "signal": killer, "t": now}
        if oom:
            ended["oom"] = oom
        if code == 0:
            yield ended
            return
        words = self.words.get(rank, LastWords())
        kind, since, raised = words.of_end(code, killer, now, agent=bool(self._ends))
        ended["kind"], ended["since"] = kind.value, since
        failed = failure(ended)
        if reason:
            failed["reason"] = reason
        if kind is Kind.OWN and killer == signal.SIGTERM and raised:
            failed["raised"] = raised
        yield ended
        self._ends.append((End(rank, since, kind), failed))
        self._decide_at = self._decide_at or time.monotonic() + WINDOW
        if kind is Kind.OWN or len(self._ends) == self.ranks:
            yield from self.decide()

    def decide(self) -> Iterator[Event]:
        """Yield the first failure among the ends so far, unless it is known."""
        if not self._ends or (self.failed and self._first is None):
            return
        first = first_failure([end for end, _ in self._ends])
        if first is not self._first:
            self.failed, self._first, self._decide_at = True, first, None
            yield next(event for end, event in self._ends if end is first)

    def _fail(
        self,
        rank: int | None,
        host: str,
        what: str,
        code: int | None,
        killer: int | None,
        reason: str = "",
    ) -> Iterator[Event]:
        """The failure of an agent or a node. Only the first failure is one: after it srun ends the other tasks."""
        if not self.failed:
            self.failed = True
            event: FailedEvent = {
                "e": "failed",
                "rank": rank,
                "host": host,
                "what": what,
                "code": code,
                "signal": killer,
            }
            if reason:
                event["reason"] = reason
            yield {**event, "t": time.time()}


def _out(rank: int | None, number: int, text: str) -> OutputEvent:
    return {"e": "out", "rank": rank, "fd": 1 if number == 1 else 2, "data": text + "\n"}


def _numbers(text: str, first: int, below: int) -> list[int]:
    """`0,2-3` as [0, 2, 3], each plus `first`; those below a limit."""
    numbers: list[int] = []
    for words in re.findall(r"(\d{1,9})(?:-(\d{1,9}))?", text)[:below]:
        least, last = int(words[0]), int(words[1] or words[0])
        numbers += range(first + least, min(first + last + 1, below))
    return numbers
