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
    from typing import Iterator, Sequence

CONTROLLER_TIME = 10.0  # seconds for an answer of the controller
MOST = 64  # connections at once
_AGAIN = 1.0  # seconds between two attempts


class NodeChecks:
    """Checks of nodes, in threads.

    `patience`: seconds in which slurmd must answer, as it may start again. The controller is asked once for all nodes
    of a step, and again after four times that, 60 s by default, where it did not know one.
    """

    def __init__(self, patience: float) -> None:
        self.running = 0
        self._patience = patience
        self._slurmds: dict[str, tuple[str, int]] = {}
        self._next_question = 0.0  # by time.monotonic()
        self._one, self._most = threading.Lock(), threading.BoundedSemaphore(MOST)
        self._results: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def begin(self, hosts: Sequence[str], of_step: Sequence[str]) -> None:
        """Check these hosts, of all of a step."""
        self.running += len(hosts)
        threading.Thread(target=self._check, args=(hosts, of_step), daemon=True).start()

    def results(self) -> Iterator[tuple[str, str]]:
        """Yield each host whose check has ended, and why it is lost; empty: it is not, or nobody knows."""
        while not self._results.empty():
            self.running -= 1
            yield self._results.get()

    def _check(self, hosts: Sequence[str], of_step: Sequence[str]) -> None:
        with self._one:
            if not self._slurmds.keys() >= {*hosts} and time.monotonic() >= self._next_question:
                self._slurmds.update(addresses(of_step))
                self._next_question = time.monotonic() + 4 * self._patience
        for host in hosts:
            threading.Thread(target=self._connect, args=(host,), daemon=True).start()

    def _connect(self, host: str) -> None:
        with self._most:
            known = self._slurmds.get(host)
            self._results.put((host, why_lost(known, self._patience) if known else ""))


def addresses(hosts: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Ask the controller for address and port of the slurmd on each host. Empty: it did not answer."""
    port = re.search(r"(?m)^SlurmdPort\s*=\s*(\d+)", _ask("show", "config"))
    found = {}
    for line in _ask("show", "node", ",".join(hosts)).splitlines() if port else ():
        name, address = re.match(r"NodeName=(\S+)", line), re.search(r" NodeAddr=(\S+)", line)
        if port and name and address:
            found[name[1]] = address[1], int((re.search(r" Port=(\d+)", line) or port)[1])
    return found


def why_lost(slurmd: tuple[str, int], patience: float) -> str:
    """Return why a node is lost: its slurmd accepts no connection. Empty: it does."""
    until, why = time.monotonic() + patience, "the host or the network is down"
    while time.monotonic() < until:
        try:
            socket.create_connection(slurmd, max(0.1, until - time.monotonic())).close()
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
