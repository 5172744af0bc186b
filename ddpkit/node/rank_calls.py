"""Runs programs that look at the ranks, each in a process of its own, and sends their answers.

A part of `supervisor.py`. Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import json
import os
import signal
import zlib
from binascii import b2a_base64
from functools import partial

from ddpkit.node.event_loop import EventLoop
from ddpkit.node.process_tree import die_with_parent, kill
from ddpkit.node.rank_output import PIECE, RankOutput
from ddpkit.node.rank_table import RankTable
from ddpkit.node.spawn import redirect_to_devnull, reset_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


CHUNK = 1 << 16


class Call:
    def __init__(self, kind: str, number: int, pid: int, fd: int) -> None:
        self.kind = kind  # dump, top
        self.number = number
        self.pid = pid
        self.fd = fd
        self.data = b""


class RankCalls:
    def __init__(self, loop: EventLoop, send: Callable[..., None], table: RankTable, output: RankOutput) -> None:
        self._loop = loop
        self._send = send
        self._table = table
        self._output = output
        self._running: list[Call] = []
        self._programs: dict[str, Any] = {}  # by kind; each comes with its first command

    def start(self, command: dict[str, Any]) -> None:
        """Fork, and run the program there: it may take seconds, and the supervisor must go on."""
        kind = command["c"]
        if "source" in command:
            self._programs[kind] = compile(command.pop("source"), "ddpkit-" + kind, "exec")
        read, write = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with_parent(supervisor, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            reset_signals()
            redirect_to_devnull(0, 2)
            os.dup2(write, 1)
            names: dict[str, Any] = {"__name__": kind}
            ranks = {number: rank.pid for number, rank in self._table.ranks.items() if rank.alive}
            try:
                exec(self._programs[kind], names)
                names["main"](json.dumps({**command, "ranks": ranks, "out": self._output.last_line}))
            finally:
                os._exit(0)
        os.close(write)
        os.set_blocking(read, False)
        call = Call(kind, command["id"], pid, read)
        self._running.append(call)
        self._loop.watch(read, partial(self._read, call))

    def _read(self, call: Call) -> None:
        try:
            data = os.read(call.fd, CHUNK)
        except BlockingIOError:
            return
        call.data += data
        if data:
            return
        self._loop.unwatch(call.fd)
        os.close(call.fd)
        self._running.remove(call)
        text = b2a_base64(zlib.compress(call.data, 6), newline=False).decode()
        for start in range(0, len(text), PIECE):
            more = {"more": True} if start + PIECE < len(text) else {}
            self._send(e=call.kind, id=call.number, data=text[start : start + PIECE], **more)

    def cancel(self) -> None:
        """No rank is left to be looked at."""
        for call in self._running:
            kill(call.pid, signal.SIGKILL)
