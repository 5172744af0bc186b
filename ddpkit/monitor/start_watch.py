"""The start of ranks: how far it is, seen from outside, and when the program of a run is ready.

`ddpkit/node/calls/rank_start.py` looks at ranks. A call returns soon after something new, or when its time is over.
Ranks that tell it themselves (`--observe start`) are not looked at. A program is ready by its port, by a line, or by
the start of its processes; `ddpkit/node/calls/ready.py` looks at a port, from the program's own host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ddpkit.launchers.events import AnswerEvent, MarkEvent, VersionsEvent
from ddpkit.launchers.plan import Plan, Probe, Step
from ddpkit.node.child import HOLDER

if TYPE_CHECKING:
    from ddpkit.monitor.server import Node

WATCH = "rank_start.watch"
LIMIT = 30.0  # seconds of a call without news
WATCHED = 1200.0  # seconds, after which nobody looks any more
MARKS = ("import", "meet", "group", "past")


def is_watched(step: Step) -> bool:
    """Whether ranks of a step are looked at. A scheduler's are not near a supervisor of ours; a hold never trains."""
    return (
        not step.scheduled
        and HOLDER not in step.env
        and "start" not in str(step.env.get("DDPKIT_OBSERVE", "")).split(",")
    )


class StartWatch:
    """The calls to one node since its ranks were started."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[str, list[str]] = {}  # by rank: the marks that it has passed
        self._began = time.monotonic()
        self._call: int | None = None
        self.ask()

    def ask(self) -> None:
        age = time.monotonic() - self._began
        self._call = None
        if age < WATCHED and not self._node.ended:
            self._call = self._node.link.call(WATCH, {"known": self._known, "age": age, "limit": LIMIT})

    def on_answer(self, event: AnswerEvent) -> Iterator[MarkEvent | VersionsEvent]:
        """Yield what an answer of the node says, in the launcher's time, and ask for more."""
        if event["id"] != self._call:
            return
        self._call = None
        for value in event.get("values", ()):
            try:
                yield from self._read(value, event.get("t", 0.0))
            except (KeyError, TypeError, ValueError, AttributeError):
                return  # no answer of this program

    def _read(self, value: Any, now: float) -> Iterator[MarkEvent | VersionsEvent]:
        """Read an answer of `rank_start.watch`, and ask again unless it is the last. `now`: by the launcher's clock."""
        ahead = float(value["t"]) - now if now else 0.0  # of the node's clock
        marks: Mapping[str, Mapping[str, float]] = value["marks"]
        ranks = {str(rank): rank for rank in self._node.step.ranks}
        for rank in marks.keys() & ranks.keys():
            for name in [name for name in MARKS if name in marks[rank]]:
                self._known.setdefault(rank, []).append(name)
                yield {"e": "mark", "rank": ranks[rank], "name": name, "t": float(marks[rank][name]) - ahead}
        if value["versions"] and ranks:
            versions = [str(each) for each in value["versions"]]
            yield {"e": "versions", "rank": min(ranks.values()), "versions": versions}
        if not value["over"]:
            self.ask()


# ---- ready


WAIT = "ready.wait"
CALL = 10.0  # seconds
PATIENCE = 3.0  # seconds beyond its limit for the last answer
LINE = 1 << 12  # characters of a line in which the pattern is looked for
BATCH = 1 << 15  # characters of one search, and a line more: a pipe takes them at once
FULL = 1 << 12  # lines that wait, beyond which ranks wait as for a screen that nobody reads
PACE = 0.02  # seconds between two looks for the result of a search
SEARCH_LIMIT = 2  # seconds of CPU time for one search, which usually takes a few milliseconds
# `re` keeps every thread of its process waiting, perhaps for years: (a+)+$ in a line of 40 letters. In a process of its
# own, whose time the kernel limits, it holds up no signal and no other role.
_SEARCHER = f"""
import json, re, signal, sys
search = re.compile(json.loads(sys.stdin.readline())).search
for lines in sys.stdin:
    signal.setitimer(signal.ITIMER_VIRTUAL, {SEARCH_LIMIT})
    print(int(any(map(search, json.loads(lines)))), flush=True)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
"""


class LineSearch:
    """Searches lines for a user's regular expression, in a process that is closed with the run."""

    def __init__(self, pattern: str) -> None:
        self.found = False
        self.why = ""  # it can find nothing any more
        self._pattern = pattern
        self._lines: deque[str] = deque()  # as JSON
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False  # some lines are being searched

    @property
    def busy(self) -> bool:
        return bool(self._asked or self._lines) and not (self.found or self.why)

    @property
    def is_full(self) -> bool:
        return self.busy and len(self._lines) > FULL

    def add(self, data: bytes) -> None:
        """Take whole lines of a rank."""
        self._lines.extend(json.dumps(line[:LINE]) for line in data.decode("utf-8", "replace").splitlines())

    def turn(self) -> None:
        """Take the result of the last search, if it is there, and begin the next."""
        try:
            if self._asked:
                self._take()
            if self.busy and not self._asked:
                self._send()
        except OSError as error:
            self.why = f"the search for {self._pattern!r}: {error.strerror or error}"
        if self.found or self.why:
            self.close()

    def _take(self) -> None:
        """Take the result of the search, if it is there; or the reason why the process has ended."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None
        answer = process.stdout.read(8)
        if answer == b"":  # it has ended
            slow = f"a few lines took more than {SEARCH_LIMIT} s; a repeat within a repeat, as in (a+)+, may take years"
            last = process.stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            self.why = f"the search for {self._pattern!r}: {last or slow}"
        self._asked = not answer
        self.found = answer == b"1\n"

    def _send(self) -> None:
        """Give lines that wait to the process, which is started for the first of them."""
        lines = [self._lines.popleft()]
        size = len(lines[0])
        while self._lines and size < BATCH:
            lines.append(self._lines.popleft())
            size += len(lines[-1])
        text = f"[{','.join(lines)}]\n"
        if self._process is None:
            pipe = subprocess.PIPE
            words = [sys.executable, "-I", "-S", "-W", "ignore", "-c", _SEARCHER]
            self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
            assert self._process.stdout is not None
            os.set_blocking(self._process.stdout.fileno(), False)
            text = f"{json.dumps(self._pattern)}\n{text}"
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()
        self._asked = True

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class ReadyWatch:
    """Watches one plan. `on_ready` is called once."""

    def __init__(self, plan: Plan, on_ready: Callable[[], None]) -> None:
        self.ready = False
        self.why = ""  # it is not ready, by the last look
        self.host = ""  # of its first rank: under SLURM a step has none of its own
        self._plan, self._on_ready = plan, on_ready
        self._until = float("inf")  # time.monotonic()
        self._failed = False  # it can never be ready
        self._left = set(range(plan.world_size))  # ranks that have not started
        self._call: int | None = None
        wanted = plan.ready
        self.search = LineSearch(wanted.value) if wanted is not None and wanted.probe is Probe.LINE else None

    @property
    def overdue(self) -> bool:
        """Whether it should have been ready by now. What was asked has a moment to say why it is not."""
        searched = self.search is not None and self.search.busy
        asked = PATIENCE if searched or self._call is not None else 0.0
        return not self.ready and (self._failed or time.monotonic() >= self._until + asked)

    @property
    def is_full(self) -> bool:
        return self.search is not None and self.search.is_full

    @property
    def pause(self) -> float:
        """Seconds until it is overdue, or a search may have ended."""
        if self._failed:
            return 0.0
        if self.search is not None and self.search.busy:
            return PACE
        return float("inf") if self.ready else max(0.0, self._until - time.monotonic())

    def on_start(self, node: Node, rank: int, host: str) -> None:
        """A rank has started on a node."""
        self._left.discard(rank)
        if node.index == 0 and rank == min(node.step.ranks):
            self.host = host
        wanted = self._plan.ready
        if wanted is None:
            if not self._left:
                self._be_ready()
            return
        if self._until == float("inf"):
            self._until = time.monotonic() + wanted.timeout
        if node.index == 0 and wanted.probe is not Probe.LINE and self._call is None:
            self._ask(node)

    def _ask(self, node: Node) -> None:
        wanted = self._plan.ready
        assert wanted is not None
        limit = min(CALL, max(0.1, self._until - time.monotonic()))
        path = wanted.value if wanted.probe is Probe.HTTP else None
        self._call = node.link.call(WAIT, {"port": self._plan.port, "path": path, "limit": limit})

    def on_answer(self, node: Node, event: AnswerEvent) -> None:
        """Take the answer of a node, and ask again where the program is not ready."""
        if self._call is None or event["id"] != self._call:
            return
        self._call = None
        values: list[Mapping[str, Any]] = [each for each in event["values"] if isinstance(each, dict)]
        self.why = str(values[0].get("why", "")) if values else str(event["error"] or "it did not answer")
        self._failed = bool(values) and values[0].get("failed") is True
        if values and values[0].get("ready") is True:
            self._be_ready()
        elif not node.ended and not self.overdue:
            self._ask(node)

    def on_output(self, data: bytes) -> None:
        """Take whole lines of a rank."""
        if self.search is not None and not self.ready:
            self.search.add(data)

    def turn(self) -> None:
        """Look what the search has found."""
        if self.search is None or self.ready or self._failed:
            return
        self.search.turn()
        self.why, self._failed = self.search.why, bool(self.search.why)
        if self.search.found:
            self._be_ready()

    def end(self, seconds: float) -> None:
        """Search for so long in what was printed last, and end the search."""
        until = time.monotonic() + seconds
        while self.search is not None and self.search.busy and time.monotonic() < until:
            time.sleep(PACE)
            self.turn()
        if self.search is not None:
            self.search.close()

    def describe(self) -> str:
        """Return why the program counts as failed."""
        wanted = self._plan.ready
        assert wanted is not None
        silent = f"nothing on port {self._plan.port} answers"
        if self._failed:
            return f"it cannot be ready: {self.why}"
        what = self.why or silent
        if self.search is not None:
            seen = "the search of a line for {!r} has not ended" if self.search.busy else "no line matches {!r}"
            what = seen.format(wanted.value)
        return f"it is not ready after {wanted.timeout:g} s: {what}"

    def _be_ready(self) -> None:
        if not self.ready:
            self.ready = True
            self._on_ready()
