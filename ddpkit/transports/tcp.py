"""Connects by TCP so that no small packet waits until another one was acknowledged, neither here nor there.

An SSH log-in and our questions are many small packets in turn. Where one waits for the other side's delayed
acknowledgement, that takes 40 ms each time (Linux): neither paramiko nor sshd asks for anything else.
"""

from __future__ import annotations

import errno
import socket
from typing import Any

# Another address of the same host may answer.
_NEXT = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH)


class NoServerError(OSError):
    """No address of the host answers."""

    def __init__(self, causes: list[OSError]) -> None:
        super().__init__(causes[-1].errno, causes[-1].strerror)
        self.causes = sorted({str(cause.strerror).lower() for cause in causes})


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


def dial(host: str, port: int, timeout: float) -> PromptSocket:
    """Connect to the first address of a host that answers. Raises OSError: NoServerError where none does."""
    causes = []
    for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = PromptSocket(family)
        try:
            connection.settimeout(timeout)
            connection.connect(address)
            return connection
        except OSError as error:
            connection.close()
            if error.errno not in _NEXT:
                raise
            causes.append(error)
    raise NoServerError(causes)
