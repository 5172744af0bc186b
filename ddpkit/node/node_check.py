"""Tells whether a node of a step is lost whose supervisor is silent. A part of `collect.py`.

A busy node is silent as well, and so is a job that SLURM suspends. The port of slurmd tells them apart: the kernel of a
node accepts a connection however long its processes wait for a CPU.
"""

from __future__ import annotations

import queue
import re
import socket
import subprocess
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

CONTROLLER_TIME = 10.0  # seconds for an answer of the controller
_AGAIN = 1.0  # seconds between two attempts


class NodeChecks:
    """Checks of nodes, each in a thread. `patience`: seconds in which slurmd must answer, as it may start again."""

    def __init__(self, patience: float) -> None:
        self.running = 0
        self._patience = patience
        self._results: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def begin(self, host: str) -> None:
        self.running += 1
        threading.Thread(target=lambda: self._results.put((host, why_lost(host, self._patience))), daemon=True).start()

    def results(self) -> Iterator[tuple[str, str]]:
        """Yield each host whose check has ended, and why it is lost; empty: it is not, or nobody knows."""
        while not self._results.empty():
            self.running -= 1
            yield self._results.get()


def why_lost(host: str, patience: float) -> str:
    """Return why a node is lost: its slurmd accepts no connection. Empty: it does, or the controller did not answer."""
    address = re.search(r"\bNodeAddr=(\S+)", _ask("show", "node", host))
    port = re.search(r"(?m)^SlurmdPort\s*=\s*(\d+)", _ask("show", "config"))
    if not address or not port:
        return ""
    own_port = re.search(r"\bPort=(\d+)", address.string)
    until, why = time.monotonic() + patience, "the host or the network is down"
    while time.monotonic() < until:
        try:
            left = max(0.1, until - time.monotonic())
            socket.create_connection((address[1], int((own_port or port)[1])), left).close()
        except ConnectionRefusedError:
            why = "slurmd does not run there"
        except OSError:
            why = "the host or the network is down"
        else:
            return ""
        time.sleep(min(_AGAIN, patience / 4))
    return why


def _ask(*words: str) -> str:
    """Return what the controller says; empty: nothing."""
    try:
        return subprocess.run(
            ["scontrol", "--oneliner", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=CONTROLLER_TIME,
            check=False,
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""
