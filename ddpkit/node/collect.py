"""Runs srun in a job's script, and writes the job's output: labelled lines of ranks, and events.

    python BUNDLE collect SPEC COMMAND...

Each event is a line `ddpkit: {...}`, each line of a rank has its rank and host in front: no rank can write another one.
The exit code is that of the first rank that failed, else the command's. Ends the command if it is killed itself.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time

from ddpkit.node.child import die_with_parent, execute, exit_status, hide
from ddpkit.node.node_check import NodeChecks
from ddpkit.node.process_tree import kill
from ddpkit.node.step_output import OBSERVE, StepReader
from ddpkit.node.supervision.clock import Clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator, Sequence

CHUNK = 1 << 18
# Lines that come one by one are read together: each write costs the launcher 0.3 ms. A pipe holds 64 KB.
TOGETHER, FLOOD = 0.080, 1 << 14  # seconds between two reads; bytes of one after which the next comes at once
EVENT = "ddpkit: "  # in front of each of them
AGAIN = 1.0  # seconds between two attempts to write events to a full file system
PARTING = 10.0  # seconds for the last of them
CHECKS_EVERY = 0.5  # seconds between two looks whether a check of a node has ended
FORCE_AFTER = 5.0  # seconds from the end of a step that lost a node to SIGKILL for srun, which waits for that node
# A scheduler sends these to every process of a job's script. srun gets its own, and its end is waited for here.
_NOT_OURS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def lines_of(content: Iterable[tuple[str, Any]]) -> Iterator[bytes]:
    """Yield the lines of what `StepReader` yields, with their ends."""
    for label, each in content:
        text = each if isinstance(each, str) else EVENT + json.dumps(each, separators=(",", ":"))
        if label:
            text = f"[{label}] " + text.replace("\n", f"\n[{label}] ")
        yield (text + "\n").encode("utf-8", "surrogateescape")


class Output:
    """The job's output file. Where it cannot be written, texts are left out and events are kept.

    observed: the file of what ranks report of their start and their steps; empty: there is none.
    """

    def __init__(self, observed: str) -> None:
        task = os.environ.get("SLURM_ARRAY_TASK_ID")
        self._observed = f"{observed}_{task}" if observed and task is not None else observed
        self._events: list[bytes] = []
        self._left_out = 0
        self._again = 0.0  # time.monotonic()

    @property
    def due(self) -> float:
        """When events that wait are to be written, in time.monotonic()."""
        return self._again if self._events else float("inf")

    def write(self, lines: Iterable[tuple[str, Any]]) -> None:
        """Write lines, as `StepReader` yields them. While older events wait, so do new ones, and texts are left out."""
        if self._events or self._left_out:
            self._retry()
        new: list[bytes] = []
        events: list[bytes] = []  # those of the new lines that must not be lost
        texts, observed = 0, b""
        for label, content in lines:
            if label == OBSERVE:
                observed += json.dumps(content, separators=(",", ":")).encode() + b"\n"
                continue
            new += lines_of([(label, content)])
            if isinstance(content, str):
                texts += content.count("\n") + 1
            else:
                events.append(new[-1])
        if observed and self._observed:
            self._observe(observed)
        if self._events or self._left_out or not self._try(b"".join(new)):
            self._events += events
            self._left_out += texts

    def _observe(self, data: bytes) -> None:
        """What cannot be written is not missed by the run. A pipe or a link that lies there is not opened."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            file = os.open(self._observed, flags, 0o644)
            try:
                os.write(file, data)
            finally:
                os.close(file)  # NFS shows it to others from here on
        except OSError:
            pass

    def _try(self, data: bytes) -> bool:
        """Write, unless the last attempt failed a moment ago. Tell whether all was written."""
        if time.monotonic() < self._again:
            return False
        try:
            _write_all(data)
        except OSError:
            self._again = time.monotonic() + AGAIN
            return False
        return True

    def _retry(self) -> None:
        """Write the events that wait, behind the number of lines that were left out."""
        lost = f"ddpkit: {self._left_out} lines are missing here: the file system was full or failed\n"
        # A line end first: a part of a line may have been written.
        if self._try(b"\n" + lost.encode() * bool(self._left_out) + b"".join(self._events)):
            self._events, self._left_out = [], 0

    def close(self) -> None:
        until = time.monotonic() + PARTING
        while self._events and time.monotonic() < until:
            self._retry()
            if self._events:
                time.sleep(AGAIN / 10)


def _write_all(data: bytes) -> None:
    """Write everything. Raises OSError."""
    while data:
        try:
            data = data[os.write(1, data) :]
        except BlockingIOError:
            select.select([], [1], [])


def _start(argv: Sequence[str]) -> tuple[int, dict[int, int]]:
    """Start the command. Returns its process, and its outputs by descriptor."""
    own, pipes = os.getpid(), [os.pipe() for _ in range(2)]
    pid = os.fork()
    if pid == 0:
        try:
            die_with_parent(own, signal.SIGTERM)
            for number, (_, write) in enumerate(pipes, 1):
                os.dup2(write, number)
            for number in (*_NOT_OURS, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOT_OURS)
            execute(list(argv), os.environ)
        finally:
            os._exit(127)
    for _, write in pipes:
        os.close(write)
    return pid, {read: number for number, (read, _) in enumerate(pipes, 1)}


class StepEnd:
    """Ends a step that lost a node, for srun waits for it: TERM to the ranks that are left, KILL after the grace."""

    def __init__(self, command: int, spec: dict[str, Any]) -> None:
        self._command, self._grace, self._jobs = command, spec["grace"], spec["group_jobs"]
        self._begun = False
        self._signals: list[tuple[float, int]] = []  # for srun, each with its time.monotonic()

    @property
    def due(self) -> float:
        return self._signals[0][0] if self._signals else float("inf")

    def begin(self, step: str) -> None:
        if self._begun:
            return
        self._begun = True
        job, _, number = step.partition(".")
        # scancel reaches one group of a heterogeneous job: by the group's own job id.
        steps = [f"{each}.{number}" for each in self._jobs or [job]]
        argv, nothing = ["scancel", "--quiet", "--signal=TERM", *steps], subprocess.DEVNULL
        subprocess.Popen(argv, stdin=nothing, stdout=nothing, stderr=nothing)  # the lost node does not answer
        end = time.monotonic() + self._grace
        self._signals = [(end, signal.SIGTERM), (end + FORCE_AFTER, signal.SIGKILL)]

    def act(self) -> None:
        while self.due <= time.monotonic():
            kill(self._command, self._signals.pop(0)[1])


def _relay(streams: dict[int, int], reader: StepReader, output: Output, now: Callable[[], float], end: StepEnd) -> None:
    """Write what the command prints into the job's output, until it has closed its outputs.

    streams: 1 or 2, by the descriptor from which the command's standard output or error is read.
    """
    poll, next_read, checks = select.poll(), 0.0, NodeChecks(reader.silence.limit / 2)
    for fd in streams:
        poll.register(fd, select.POLLIN)
    while streams:
        due = min(reader.due - now(), min(output.due, end.due) - time.monotonic())
        due = min(due, CHECKS_EVERY if checks.running else 60.0)
        ready = poll.poll(1000 * max(0.0, due) + 1)
        time.sleep(max(0.0, next_read - time.monotonic()))
        pieces = {fd: os.read(fd, CHUNK) for fd, _ in ready}
        lines: list[tuple[str, Any]] = []
        for fd, piece in pieces.items():
            if piece:
                lines += reader.feed(streams[fd], piece, round(now(), 3))
            else:
                poll.unregister(fd)
                del streams[fd]
        size = sum(map(len, pieces.values()))
        next_read = time.monotonic() + TOGETHER if 0 < size < FLOOD else 0.0
        lines += reader.overdue(now())
        silent = reader.silence.take(now())
        if silent:
            checks.begin(silent, reader.silence.hosts)
        for host, why in checks.results():
            lost = [*reader.on_check(host, why, now())]
            if lost:
                end.begin(reader.step)
            lines += lost
        end.act()
        output.write(lines)


def main(spec_file: str, *argv: str) -> None:
    """Run the command, write its lines and events, and end with the exit code of the run."""
    hide()
    # A signal for the script must not end this program before it ignores them.
    signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_OURS)
    with open(spec_file) as file:
        spec = json.load(file)
    reader, output = StepReader(spec), Output(spec["marks"])
    pid, streams = _start(argv)
    for number in _NOT_OURS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOT_OURS)
    now = Clock().now
    _relay(streams, reader, output, now, StepEnd(pid, spec))
    code, killer = exit_status(os.waitpid(pid, 0)[1])
    output.write(reader.finish(128 + killer if killer else code or 0, now()))
    output.close()
    os._exit(reader.exit_code)
