"""Sockets of SSH connections: by TCP, and to the program that is the user's proxy.

By TCP no small packet waits until another one was acknowledged, neither here nor there. An SSH log-in and our questions
are many small packets in turn. Where one waits for the other side's delayed acknowledgement, that takes 40 ms each time
(Linux): neither paramiko nor sshd asks for anything else.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import threading
from collections import deque
from contextlib import suppress
from typing import Any

# Another address of the same host may answer.
_NEXT = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH)


class NoServerError(OSError):
    """No address of the host answers."""

    def __init__(self, causes: list[OSError]) -> None:
        super().__init__(causes[-1].errno, causes[-1].strerror)
        self.causes = sorted({(cause.strerror or str(cause)).lower() for cause in causes})


class PromptSocket(socket.socket):
    """A connection that sends at once, and acknowledges at once."""

    def __init__(self, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: Any, flags: int = 0) -> int:
        sent = super().send(data, flags)
        if hasattr(socket, "TCP_QUICKACK"):  # Linux, where it holds until something is sent
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return sent


_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}  # ssh_config(5), AddressFamily


def dial(host: str, port: int, timeout: float, family: str = "any", source: str = "") -> PromptSocket:
    """Connect to the first address of a host that answers. Raises OSError: NoServerError where none does."""
    causes = []
    wanted = _FAMILIES.get(family, socket.AF_UNSPEC)
    for found, _, _, _, address in socket.getaddrinfo(host, port, family=wanted, type=socket.SOCK_STREAM):
        connection = PromptSocket(found)
        try:
            connection.settimeout(timeout)
            if source:
                connection.bind((source, 0))
            connection.connect(address)
            return connection
        except OSError as error:
            connection.close()
            if error.errno not in _NEXT:
                raise
            causes.append(error)
    raise NoServerError(causes)


TERM_LIMIT = 2.0  # seconds that a proxy has after SIGTERM
LINES = 20  # of a proxy that are kept
_LINE = 200  # characters


class ProxySocket(socket.socket):
    """The socket of a program that connects to a host (ProxyCommand). What it says in place of an sshd is kept."""

    def __init__(self, command: str) -> None:
        ours, theirs = socket.socketpair()
        super().__init__(fileno=ours.detach())
        self.command = command
        self.greeted = False  # an SSH server answered through it
        self._at_end = False  # the proxy has closed its output
        self._ended_here = False
        self._heard = b""
        self._errors: deque[str] = deque(maxlen=LINES)
        shell = os.environ.get("SHELL") or "/bin/sh"  # as ssh does
        with theirs:
            self._process = subprocess.Popen(
                [shell, "-c", f"exec {command}"], stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.PIPE
            )
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = super().recv(size, flags)
        self._at_end = not data
        if not self.greeted:
            self._heard = (self._heard + data)[-LINES * _LINE :]
            self.greeted = self._heard.startswith(b"SSH-") or b"\nSSH-" in self._heard
        return data

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as errors:
            for line in iter(lambda: errors.readline(4096), b""):  # to the end: a full pipe would stop the proxy
                self._errors.append(line.decode(errors="replace").strip()[:_LINE])

    def said(self) -> list[str]:
        """Return its lines, of its output before a server's and of its standard error."""
        if self.code() is not None:
            self._reader.join(0.5)  # a child that it left may hold its standard error
        output = [] if self.greeted else self._heard.decode(errors="replace").splitlines()
        return [line.strip()[:_LINE] for line in (*output, *tuple(self._errors)) if line.strip()]

    def code(self) -> int | None:
        """Return its exit code; None: it still runs, or ran until `close`."""
        if self._ended_here:
            return None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0 if self._at_end else 0.0)
        return self._process.poll()

    def close(self) -> None:
        running = self.code() is None and not self._ended_here
        with suppress(OSError):  # it may have spoken and ended before anybody read
            self.setblocking(False)
            while not self.greeted and self.recv(4096):
                pass
        super().close()
        if running:
            self._ended_here = True
            self._process.terminate()
            threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        try:
            self._process.wait(TERM_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
