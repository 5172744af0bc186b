"""Ranks of one node, the programs that start ranks, and the first failure among them. A part of `supervisor.py`."""

from __future__ import annotations

import os
import signal
import time

from ddpkit.node.child import exit_status
from ddpkit.node.process_tree import below, ended_as, kill, processes
from ddpkit.node.supervision.first_failure import End, Kind, LastWords, first_failure
from ddpkit.node.supervision.oom import Oom
from ddpkit.node.supervision.rank_output import RankOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


ORPHANED = "its helper process was killed"  # a rank wrapper, or the process that imported torch for all ranks
PRELOAD = "preload"  # the one program that starts ranks and does not end them when one failed


class Rank:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.alive = True
        self.began = time.monotonic()


class RankTable:
    """`on_failure` is called once, for the first failure; `stopping` is set by what ends the run."""

    def __init__(self, send: Callable[..., None], output: RankOutput, restarts: int) -> None:
        self.on_failure: Callable[[], None]
        self.ranks: dict[int, Rank] = {}
        self.launchers: dict[int, str] = {}  # process id: name, of torchrun, srun and others that start ranks
        self.restarts = restarts
        self.stopping = False
        self.terminated = False  # a scheduler has sent a signal that ends ranks
        self.ending: int | None = None  # a rank that an exception ends: it is on its way, and needs no TERM
        self.failures: list[tuple[End, dict[str, Any]]] = []  # of the current attempt
        self._failed = False
        self._send = send
        self._output = output
        self._oom = Oom()

    def any_alive(self) -> bool:
        return any(rank.alive for rank in self.ranks.values())

    def signal(self, number: int) -> None:
        for name, rank in self.ranks.items():
            if rank.alive and not (name == self.ending and number == signal.SIGTERM):
                kill(rank.pid, number)

    def signal_young(self, number: int, since: float) -> None:
        """Signal the ranks that began after `since`, in time.monotonic(), and have printed nothing yet."""
        for name, rank in self.ranks.items():
            if rank.alive and rank.began >= since and name not in self._output.last_line:
                kill(rank.pid, number)

    # ---- starts and ends

    def on_start(self, rank: int, pid: int, when: float) -> None:
        if self.restarts and not self.any_alive():
            self.failures.clear()  # torchrun starts its ranks again: these failures belong to an earlier attempt
        self.ranks[rank] = Rank(pid)
        self._output.words[rank] = LastWords()
        self._send(e="start", rank=rank, pid=pid, t=when)
        # What a scheduler gives to every process, a rank does not get that begins meanwhile.
        if self.stopping or self.terminated:
            kill(pid, signal.SIGTERM)

    def on_orphan_exit(self, pid: int, status: int, when: float | None = None) -> None:
        """Take the end of a process whose parent is gone. If it is a rank, its helper was killed, and it with that."""
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
        """Report the end of a rank, with the kernel's word on a kill. Of a failure also why it failed, and since when.

        A failure with a cause of its own ends the run here, unless torchrun may start the ranks again.
        """
        if rank in self.ranks:
            self.ranks[rank].alive = False
        why = self._oom.why(self.ranks[rank].pid) if number == signal.SIGKILL and rank in self.ranks else ""
        more: dict[str, Any] = {"oom": why} if why and not self.stopping else {"reason": reason} if reason else {}
        kind, since = Kind.OWN, when
        if code != 0:
            # torchrun ends the others once it saw that one failed, and a scheduler ends all.
            by_torchrun = bool(self.failures) and any(name != PRELOAD for name in self.launchers.values())
            agent = by_torchrun or self.terminated
            words = self._output.words.get(rank, LastWords())
            kind, since, raised = words.of_end(code, number, when, agent=agent)
            more.update({"kind": kind.value, "since": since})
            if agent and kind is Kind.OWN and number == signal.SIGTERM:
                more["raised"] = raised
        self._send(e="exit", rank=rank, code=code, signal=number, t=when, **more)
        if code != 0:
            failure = {"rank": rank, "code": code, "signal": number, "t": when, "what": "rank", **more}
            self.failures.append((End(rank, since, kind), failure))
            # What may follow from the end of another rank ends nobody here: the launcher sees all nodes.
            if self.restarts == 0 and kind is Kind.OWN:
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
        if self.failures and self.restarts == 0:
            return  # it ended because a rank did, and the launcher knows
        code, number = exit_status(status)
        if not self.failures:
            now = time.time()
            own = {"rank": None, "code": code, "signal": number, "t": now, "what": name}
            self.failures.append((End(None, now, Kind.OWN), own))
        self._fail()

    # ---- failures

    def _fail(self) -> None:
        """The first failure on this node ends the others. After a stop nothing is a failure."""
        if not self.stopping and not self._failed:
            self._failed = True
            failure = self.first() or {}
            kernel = self._oom.evidence(failure["signal"] == signal.SIGKILL)
            self._send(e="failed", **failure, **({"kernel": kernel} if kernel else {}))
            self.on_failure()

    def first(self) -> dict[str, Any] | None:
        """The failure that the others follow from; None: there is none."""
        first = first_failure([end for end, _ in self.failures]) if self.failures else None
        return next((failure for end, failure in self.failures if end is first), None)

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
                    "state": table[rank.pid].state,
                    "cpu": round(sum(table[pid].seconds for pid in family), 2),
                    "rss": sum(table[pid].memory for pid in family),
                    "out": self._output.last_line.get(number),
                }
        return usage
