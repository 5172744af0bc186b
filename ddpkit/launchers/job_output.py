"""Reads the output of a job, or of a step, that `ddpkit/node/collect.py` writes: bytes in, events out. Pure.

    [3 node2] text                  a line of rank 3, or of a program that starts ranks
    ddpkit: {"e": "exit", ...}      an event
    ddpkit: attempt 1               of a job's script that SLURM starts again, before anything else
    ddpkit: job 7 runs on node[1-2] of a job's script, at its start; and at its end: ended with code 0

Anything else is of srun, of SLURM or of the script itself: it is shown, and nothing follows from it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate

from ddpkit.launchers.events import BadEventError, Event, FailedEvent, OutputEvent, from_node, ranks_of
from ddpkit.node.supervision.first_failure import End, Kind, first_failure

PIECE = 1 << 16  # characters of one event
EVENT = "ddpkit: {"
_OF_RANK = re.compile(r"\[(\S{1,255}) ([\w.?-]{1,255})\] (.*)", re.DOTALL)
_ATTEMPT = re.compile(r"ddpkit: attempt (\d{1,9})")
_RUNS = re.compile(r"ddpkit: job \S+ runs on (\S+)")
_ENDED = re.compile(r"ddpkit: job \S+ ended with code \d+")
_HOST = re.compile(r"[\w.:?-]{1,255}")
# Said by SLURM where it ends a job before the script can say it.
_ENDS = re.compile(
    r"^(?:ddpkit: job \S+ ended with code \d"
    r'|ddpkit: \{"e":"failed"'
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


class JobOutput:
    """What is known of a job's attempt that is read now, and a line that has no end yet."""

    def __init__(self, ranks: int, *, groups: Sequence[int] = (), agent: str = "srun") -> None:
        """Take the number of ranks.

        `groups`: ranks in each group of a heterogeneous job. `agent`: the step's program; lines of another name it.
        """
        self.ranks = ranks
        self.groups = groups
        self.agent = agent
        self.hosts: dict[int, str] = {}
        self.pids: dict[int, int] = {}  # on that host
        self.step = ""  # 123.0, as `scancel` takes it
        self.nodes = ""  # of the job, as its script reports them
        self.ends = 0  # lines that say that the job ends, or this attempt
        self.failed = False
        self.attempt = 0  # how often the job was started again before what is read now
        self._succeeded: set[int] = set()
        self._held = b""  # the begin of a line
        self._joined: list[str] = []  # lines of one rank that follow each other
        self._label: tuple[str, str] | None = None  # their source, a rank or a program, and its host
        self._prefix = ""  # of these lines

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take bytes of the output; yield events."""
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            yield from self._line(line.decode("utf-8", "surrogateescape"))
        yield from self._release()

    def flush(self) -> Iterator[Event]:
        """The end of the output: a last line without an end is a line as well."""
        if self._held:
            yield from self.feed(b"\n")

    def finished(self) -> Iterator[Event]:
        """Yield an exit with code 0 for each rank without an end in the output: its step ended with 0."""
        for rank in range(self.ranks):
            if rank not in self._succeeded:
                yield {"e": "exit", "rank": rank, "code": 0, "signal": None, "t": time.time()}

    def group_of(self, host: str) -> int:
        """The group of a host in a heterogeneous job; 0 before a rank has started there."""
        rank = next((rank for rank, there in self.hosts.items() if there == host), 0)
        return next((n for n, below in enumerate(accumulate(self.groups)) if rank < below), 0)

    def reset_after_requeue(self) -> None:
        """Discard the failure of the previous attempt."""
        self.failed = False

    def _line(self, line: str) -> Iterator[Event]:
        """Take one line. Lines of one rank that follow each other are held, and become one event."""
        if self._label is not None and line.startswith(self._prefix) and len(self._joined) <= 1000:
            self._joined.append(line[len(self._prefix) :] + "\n")
            return
        of_rank = _OF_RANK.fullmatch(line) if line.startswith("[") else None
        if of_rank is not None:
            yield from self._release()
            self._label, self._prefix = (of_rank[1], of_rank[2]), line[: of_rank.start(3)]
            self._joined.append(of_rank[3] + "\n")
            return
        yield from self._release()
        if line.startswith(EVENT):
            yield from self._event(line[len(EVENT) - 1 :])
            return
        if _ENDS.match(line):
            self.ends += 1
        attempt, runs = _ATTEMPT.fullmatch(line), _RUNS.fullmatch(line)
        if attempt:
            self.attempt = int(attempt[1])
            self.reset_after_requeue()
            self._succeeded.clear()
            self.hosts.clear()
            self.pids.clear()
        elif runs:
            self.nodes = runs[1]
        elif not _ENDED.fullmatch(line):
            yield {"e": "out", "rank": None, "fd": 1, "data": line + "\n"}

    def _release(self) -> Iterator[Event]:
        """Yield the held lines of a rank as one event."""
        if self._label is None:
            return
        (source, host), data = self._label, "".join(self._joined)
        self._joined, self._label = [], None
        event: OutputEvent = {"e": "out", "rank": None, "fd": 1, "data": data, "host": host}
        if source.isdecimal() and int(source) < self.ranks:
            event["rank"] = int(source)
        elif source != self.agent:
            event["agent"] = source
        yield event

    def _event(self, text: str) -> Iterator[Event]:
        """Take an event, and what it says of ranks, hosts and the end. One of another rank or host is dropped."""
        try:
            value = json.loads(text)
            event, host = from_node(value), value.get("host", "")
        except (ValueError, RecursionError, BadEventError):
            return  # a line that was cut: a file system was full
        if event is None or not _HOST.fullmatch(host) or any(rank >= self.ranks for rank in ranks_of(event)):
            return
        event["host"] = host
        if event["e"] == "hello":
            self.step = event.get("step", self.step)
            return
        if event["e"] == "start":
            self.hosts[event["rank"]], self.pids[event["rank"]] = host, event["pid"]
        elif event["e"] == "exit" and event["code"] == 0:
            self._succeeded.add(event["rank"])
        elif event["e"] == "failed":
            self.failed = True
            self.ends += 1
        yield event


def repeats_cancel(text: str) -> bool:
    """Tell whether a line of SLURM only repeats that a job was cancelled."""
    return bool(_CANCEL_REPEATED.fullmatch(text))


def first_of(known: FailedEvent | None, new: FailedEvent) -> FailedEvent:
    """Return the first of two failures, which the other one follows from. `known`: None where `new` is the only one."""
    failures = [new] if known is None else [known, new]
    ends = [
        End(each["rank"], each.get("since", each.get("t", 0.0)), Kind(each.get("kind", "own"))) for each in failures
    ]
    return failures[ends.index(first_failure(ends))]


def says_end(output: str) -> bool:
    """Tell whether some line of a job's output says that the job ends."""
    return bool(_ENDS.search(output))
