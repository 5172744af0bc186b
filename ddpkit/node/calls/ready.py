"""Whether a program of this host accepts connections, or answers HTTP. Looks from the host itself.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import http.client
import os
import socket
import time

from ddpkit.node.owned import user_name
from ddpkit.node.relay import users_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PACE = 0.1  # seconds between two looks
PATIENCE = 5.0  # seconds for one answer


def wait(port: int, path: str | None, limit: float, ranks: object = None) -> dict[str, Any]:
    """Try for `limit` seconds. `path`: for HTTP; None: a connection is enough. Returns why it is not ready.

    `failed`: another user listens on the port, so the program can never have it to itself.
    """
    until = time.monotonic() + limit
    names = ["127.0.0.1", "::1", socket.gethostname()]
    while True:
        why = ""
        for name in names:
            why = _try(name, port, path)
            if not why:
                break
        others = (users_of(port) or set()) - {os.geteuid(), 0}  # root: the proxy of a container's port
        if others:
            who = ", ".join(sorted(user_name(each) for each in others))
            return {"ready": False, "failed": True, "why": "port %d is listened on by %s" % (port, who)}
        if not why:
            return {"ready": True, "why": ""}
        if time.monotonic() + PACE >= until:
            return {"ready": False, "why": why}
        time.sleep(PACE)


def _try(name: str, port: int, path: str | None) -> str:
    """Return why a program is not ready at this address; empty: it is."""
    if path is None:
        try:
            socket.create_connection((name, port), PATIENCE).close()
        except OSError as error:
            return "port %d: %s" % (port, error.strerror or error)
        return ""
    connection = http.client.HTTPConnection(name, port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return "port %d: %s" % (port, getattr(error, "strerror", None) or error or type(error).__name__)
    finally:
        connection.close()
    return "" if 200 <= status < 400 else "GET %s on port %d: status %d" % (path, port, status)
