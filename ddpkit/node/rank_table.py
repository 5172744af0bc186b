"""Ranks of one node, the programs that start ranks, and the first failure among them. A part of `supervisor.py`.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import os
import signal
import time

from ddpkit.node.children import exit_status
from ddpkit.node.oom import Oom
from ddpkit.node.process_tree import below, ended_as, kill, processes
from ddpkit.node.rank_output import RankOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


ORPHANED = "its helper process was killed"  # a rank wrapper, or the process that imported torch for all ranks
SETTLE = 0.7  # seconds between an exception that ends a rank and its being called the first failure


class Rank:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.alive = True
        self.raised = False  # an exception ends it: it is on its way, and needs no TERM


class RankTable:
    """`on_failure` is called once, for the first failure; `stopping` is set by what ends the run."""

    def __init__(self, send: Callable[..., None], output: RankOutput, restarts: int) -> None:
        self.on_failure: Callable[[], None]
        self.ranks: dict[int, Rank] = {}
        self.launchers: dict[int, str] = {}  # process id: name, of torchrun, srun and others that start ranks
        self.restarts = restarts
        self.stopping = False
        self.settle_at: float | None = None  # time.monotonic() at which an exception becomes the first failure
        self._raised: tuple[int, float, str]  # rank, time, name of that exception
        self._failures: list[dict[str, Any]] = []  # of the current attempt, first one first
        self._failed = False
        self._send = send
        self._output = output
        self._oom = Oom()

    def any_alive(self) -> bool:
        return any(rank.alive for rank in self.ranks.values())

    def signal(self, number: int) -> None:
        for rank in self.ranks.values():
            if rank.alive and not (rank.raised and number == signal.SIGTERM):
                kill(rank.pid, number)

    # ---- starts and ends

    def on_start(self, rank: int, pid: int, when: float) -> None:
        if not self.any_alive():
            self._failures.clear()  # torchrun starts its ranks again: these failures belong to an earlier attempt
        self.ranks[rank] = Rank(pid)
        self._send(e="start", rank=rank, pid=pid, t=when)
        if self.stopping:
            kill(pid, signal.SIGTERM)

    def on_orphan_exit(self, pid: int, status: int, when: float | None = None) -> None:
        """A process ended whose parent is gone. Of a rank: its helper was killed, and then the kernel ended it."""
        for number, rank in list(self.ranks.items()):
            if rank.alive and rank.pid == pid:
                for launcher, name in self.launchers.items():
                    if killed := ended_as(launcher):  # and the kernel ended the helpers with it
                        self._on_launcher_failure(name, killed)
                self._output.drain(number)
                self.on_exit(number, *exit_status(status), time.time() if when is None else when, ORPHANED)

    def collect_orphans(self, when: float) -> None:
        """Collect ranks that ended at this time, after their helper. The others are no children of this process."""
        for rank in list(self.ranks.values()):
            if rank.alive:
                try:
                    pid, status = os.waitpid(rank.pid, os.WNOHANG)
                except ChildProcessError:
                    continue
                if pid:
                    self.on_orphan_exit(pid, status, when)

    def on_exit(self, rank: int, code: int | None, number: int | None, when: float, reason: str = "") -> None:
        if rank in self.ranks:
            self.ranks[rank].alive = False
        why = self._oom.why(self.ranks[rank].pid) if number == signal.SIGKILL and rank in self.ranks else ""
        more = {"oom": why} if why and not self.stopping else {"reason": reason} if reason else {}
        self._send(e="exit", rank=rank, code=code, signal=number, t=when, **more)
        if code != 0:
            self._failures.append({"rank": rank, "code": code, "signal": number, "t": when, "what": "rank", **more})
            if self.restarts == 0:
                self._fail()

    def on_child_exit(self, rank: int, status: int) -> None:
        """A rank ended that the supervisor itself started."""
        self._output.drain(rank)
        self.on_exit(rank, *exit_status(status), time.time())

    def on_launcher_exit(self, pid: int, status: int) -> None:
        name = self.launchers.pop(pid)
        self._output.drain(None)
        if status != 0:
            self._on_launcher_failure(name, status)

    def _on_launcher_failure(self, name: str, status: int) -> None:
        code, number = exit_status(status)
        self._failures.append({"rank": None, "code": code, "signal": number, "t": time.time(), "what": name})
        self._fail()

    # ---- failures

    def on_exception(self, rank: int, when: float, name: str) -> None:
        """An exception ends a rank. Torch takes seconds for its part of that, or never comes to it."""
        if rank in self.ranks and self.ranks[rank].alive and self.settle_at is None and not self.restarts:
            self._raised = (rank, when, name)
            self.settle_at = time.monotonic() + SETTLE

    def on_timeout(self, rank: int, when: float, name: str) -> None:
        """An exception ends a rank that waited for others. The launcher looks at all ranks before any of them ends."""
        if rank in self.ranks and self.ranks[rank].alive and not self.stopping:
            self._output.drain(rank)
            self._send(e="timeout", rank=rank, raised=name, t=when)

    def settle(self) -> None:
        """Call the exception the first failure, unless a rank has ended meanwhile: it may be the exception's cause."""
        if self.settle_at is None or time.monotonic() < self.settle_at:
            return
        self.settle_at = None
        rank, when, name = self._raised
        if self.ranks[rank].alive and not self.stopping and not self._failed:
            self.ranks[rank].raised = True
            self._output.drain(rank)
            self._failures = [{"rank": rank, "code": 1, "signal": None, "t": when, "what": "rank", "raised": name}]
            self._fail()

    def _fail(self) -> None:
        """The first failure on this node ends the others. After a stop nothing is a failure."""
        if not self.stopping and not self._failed:
            self._failed = True
            kernel = self._oom.evidence(self._failures[0]["signal"] == signal.SIGKILL)
            self._send(e="failed", **self._failures[0], **({"kernel": kernel} if kernel else {}))
            self.on_failure()

    # ---- the kernel's view

    def usage(self) -> dict[int, dict[str, Any]]:
        """State, processor seconds and memory of each living rank with all processes below it."""
        table = processes()
        usage = {}
        for number, rank in self.ranks.items():
            if rank.alive and rank.pid in table:
                family = [rank.pid, *below(rank.pid, table)]
                usage[number] = {
                    "pid": rank.pid,
                    "state": table[rank.pid][1],
                    "cpu": round(sum(table[pid][2] for pid in family), 2),
                    "rss": sum(table[pid][3] for pid in family),
                    "out": self._output.last_line.get(number),
                }
        return usage
