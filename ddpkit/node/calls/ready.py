"""Whether a program of this host accepts connections, or answers HTTP. Looks from the host itself.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import http.client
import socket
import time

from ddpkit.node.owned import user_name
from ddpkit.node.relay import strangers_among, takers_of, users_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PACE = 0.1  # seconds between two looks
PATIENCE = 5.0  # seconds for one answer


class _StrangerError(Exception):
    """Other users than this one and root have the port. `users`: their numbers."""

    def __init__(self, users: set[int]) -> None:
        self.users = users


def wait(port: int, path: str | None, limit: float, ranks: object = None) -> dict[str, Any]:
    """Try for `limit` seconds. `path`: for HTTP; None: a connection is enough. Returns why it is not ready.

    `failed`: another user listens on the port, so the program can never have it to itself.
    """
    until = time.monotonic() + limit
    names = ["127.0.0.1", "::1", socket.gethostname()]
    while True:
        why = ""
        try:
            for name in names:
                why = _try(name, port, path)
                if not why:
                    break
            _check_users(users_of(port))
        except _StrangerError as error:
            who = ", ".join(sorted(user_name(each) for each in error.users))
            return {"ready": False, "failed": True, "why": "port %d is listened on by %s" % (port, who)}
        if not why:
            return {"ready": True, "why": ""}
        if time.monotonic() + PACE >= until:
            return {"ready": False, "why": why}
        time.sleep(PACE)


def _check_users(users: set[int] | None) -> None:
    others = strangers_among(users)
    if others:
        raise _StrangerError(others)


def _try(name: str, port: int, path: str | None) -> str:
    """Return why a program is not ready at this address; empty: it is. Raises _StrangerError."""
    connection = http.client.HTTPConnection(name, port, timeout=PATIENCE)
    try:
        connection.connect()
        takers = takers_of(connection.sock)
        _check_users(takers)
        if path is not None:
            if takers == set():
                return "port %d: a connection ended before GET %s" % (port, path)
            connection.request("GET", path)
            status = connection.getresponse().status
            if not 200 <= status < 400:
                return "GET %s on port %d: status %d" % (path, port, status)
    except (OSError, http.client.HTTPException) as error:
        return "port %d: %s" % (port, getattr(error, "strerror", None) or error or type(error).__name__)
    finally:
        connection.close()
    # Whoever answered may listen no more: then the next connection is anybody's.
    return "port %d: nobody listens any more" % port if takers is not None and users_of(port) == set() else ""
