"""Names of hosts and users, and ports: the one check before a command gets them, wherever they come from.

They stand on command lines of ssh, rsync and srun, and in hints that a person copies. None of them begins with a dash,
and none has a character that a shell, or ssh's own `%`, reads. Pure.
"""

from __future__ import annotations

import ipaddress
import re

from ddpkit.errors import MOST_PORT
from ddpkit.text import MOST_HOSTS as MOST_HOSTS
from ddpkit.text import format_hosts as format_hosts

# Also an alias of ~/.ssh/config, and letters of any language. What begins with a dash would be an option of ssh.
NAME = r"\w[\w.-]{0,254}"
ADDRESS = r"[0-9A-Fa-f:.]{2,45}(?:%[\w.-]{1,32})?"
USER = r"\w[\w.@+-]{0,99}(?:\\[\w.@+-]{1,99})?"  # also me@REALM, and DOMAIN\me


def is_host(name: str) -> bool:
    """Return whether this can be the name or the address of one host."""
    if ":" not in name:
        return re.fullmatch(NAME, name) is not None
    if not re.fullmatch(ADDRESS, name):
        return False
    try:
        ipaddress.IPv6Address(name)
    except ValueError:
        return False
    return True


def problem(name: str, user: str, port: int | None) -> str:
    """Return what cannot be right about a place to log in to; empty: nothing."""
    if not is_host(name):
        return f"{name!r} is not the name of a host"
    if user and not re.fullmatch(USER, user):
        return f"{user!r} is not the name of a user"
    if port is not None and not (type(port) is int and 0 < port <= MOST_PORT):
        return f"{port!r} is not a port"
    return ""
