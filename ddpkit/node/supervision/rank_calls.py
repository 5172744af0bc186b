"""Runs calls about the ranks, each in a process of its own, and sends their answers. A part of `supervisor.py`."""

from __future__ import annotations

import json
import os
import signal
from functools import partial

from ddpkit.node.child import die_with_parent
from ddpkit.node.process_tree import kill
from ddpkit.node.rpc import Programs, answer_events
from ddpkit.node.supervision.event_loop import EventLoop
from ddpkit.node.supervision.rank_output import RankOutput
from ddpkit.node.supervision.rank_table import RankTable
from ddpkit.node.supervision.spawn import redirect_to_devnull, reset_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

CHUNK = 1 << 16
MARGIN = 3  # seconds beyond a call's limit after which its process is ended
NO_ANSWER = b'[null, "it ended without an answer"]'


class Call:
    def __init__(self, number: int, pid: int, fd: int) -> None:
        self.number = number
        self.pid = pid
        self.fd = fd
        self.result = bytearray()


class RankCalls:
    def __init__(
        self, loop: EventLoop, send: Callable[..., None], table: RankTable, output: RankOutput, programs: Programs
    ) -> None:
        self.programs = programs
        self._loop = loop
        self._send = send
        self._table = table
        self._output = output
        self._running: list[Call] = []

    def start(self, number: int, function: str, args: dict[str, Any]) -> None:
        """Fork, and call there: it may take seconds, and the supervisor must go on."""
        read, write = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with_parent(supervisor, signal.SIGKILL)
            try:
                signal.set_wakeup_fd(-1)
                reset_signals()
                signal.alarm(int(args["limit"]) + MARGIN)
                redirect_to_devnull(0, 1, 2)
                result = json.dumps(self.programs.call(function, {**args, "ranks": self._living()})).encode()
                while result:
                    result = result[os.write(write, result) :]
            finally:
                os._exit(0)
        os.close(write)
        os.set_blocking(read, False)
        call = Call(number, pid, read)
        self._running.append(call)
        self._loop.watch(read, partial(self._read, call))

    def _living(self) -> dict[str, dict[str, Any]]:
        last_line = self._output.last_line
        return {
            str(number): {"pid": rank.pid, "last_line": last_line.get(number)}
            for number, rank in self._table.ranks.items()
            if rank.alive
        }

    def _read(self, call: Call) -> None:
        """Read a part of the answer. At its end send it to the launcher."""
        try:
            data = os.read(call.fd, CHUNK)
        except BlockingIOError:
            return
        call.result += data
        if data:
            return
        self._loop.unwatch(call.fd)
        os.close(call.fd)
        self._running.remove(call)
        for event in answer_events(call.number, bytes(call.result) or NO_ANSWER):
            self._send(**event)

    def cancel(self) -> None:
        """End all calls: no rank is left to ask about."""
        for call in self._running:
            kill(call.pid, signal.SIGKILL)
