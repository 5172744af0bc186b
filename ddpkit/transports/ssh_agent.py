"""The user's ssh agent: one that does not answer is left out, and named, in place of a wait without an end.

An agent that was forwarded over a connection that is dead, or one that waits for somebody to unlock it, takes questions
and says nothing. Whoever asks it, OpenSSH and paramiko, waits for ever.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, MutableMapping

LIMIT = 5.0  # seconds
_LIST = b"\0\0\0\1\x0b"  # SSH_AGENTC_REQUEST_IDENTITIES, with its length in front


def leave_out_if_silent(environ: MutableMapping[str, str], note: Callable[[str], None], limit: float = LIMIT) -> None:
    """Take an agent that says nothing away from this process and its children. One that is gone does no harm."""
    path = environ.get("SSH_AUTH_SOCK", "")
    if not path:
        return
    with socket.socket(socket.AF_UNIX) as agent:
        agent.settimeout(limit)
        try:
            agent.connect(path)
            agent.sendall(_LIST)
            agent.recv(1)
        except TimeoutError:
            del environ["SSH_AUTH_SOCK"]
            note(f"the ssh agent at {path} did not answer for {limit:g} s, and is not used; to check it: ssh-add -l")
        except OSError:
            pass  # to those who ask it as well
