"""A pool of connections that is interrupted while it connects, as by Ctrl-C in a notebook, which lives on."""

from __future__ import annotations

import _thread
import os
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest

from ddpkit.transports.channel import RefusedError
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.pool import NodePool

PATIENCE = 60.0
NODES = [HostSpec(name="node1"), HostSpec(name="node2")]


class Shell:
    """A byte stream to a command on this machine."""

    def __init__(self, command: str) -> None:
        self.process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout

    def write(self, data: bytes) -> None:
        self._in.write(data)
        self._in.flush()

    def read(self) -> bytes:
        if not select.select([self._out], [], [], 1.0)[0]:
            return b""
        data = os.read(self._out.fileno(), 1 << 16)
        if not data:
            raise EOFError
        return data

    def code(self) -> int:
        return self.process.wait()

    def why(self) -> str:
        return ""

    def refusal(self, lines: Sequence[str]) -> RefusedError | None:
        return None

    def close(self) -> None:
        self._in.close()


class Interrupted:
    """A connector whose user presses Ctrl-C as soon as all nodes are being connected; `gate` lets them go on."""

    timeout = 5.0
    by_hand = "ssh {}"
    asks = False

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.streams: queue.SimpleQueue[Shell] = queue.SimpleQueue()
        self._all = threading.Barrier(len(NODES), _thread.interrupt_main)

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        assert len(calls) == len(NODES)

    def enter(self, spec: HostSpec, command: str, until: float) -> Shell:
        self._all.wait(PATIENCE)
        assert self.gate.wait(PATIENCE)
        stream = Shell(command)
        self.streams.put(stream)
        return stream

    def login(self, spec: HostSpec) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass


def test_a_connection_that_is_made_after_the_interrupt_is_closed() -> None:
    connector = Interrupted()
    pool = NodePool(NODES, connector, 30.0, sys.executable)
    with pytest.raises(KeyboardInterrupt):
        pool.connect()
    pool.close()
    connector.gate.set()
    for _ in NODES:
        # The supervisor ends, because its standard input does.
        with connector.streams.get(timeout=PATIENCE).process as supervisor:
            supervisor.wait(PATIENCE)
