"""Names of hosts, users and jobs, and ports: the one check before a command gets them, wherever they come from.

They stand on command lines of ssh, rsync and srun, and in hints that a person copies. None of them begins with a dash,
and none has a character that a shell, or ssh's own `%`, reads. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from ddpkit.errors import MOST_PORT, UsageError
from ddpkit.launchers.typed_json import Between, Form, ProgramName, Seconds
from ddpkit.text import MOST_HOSTS as MOST_HOSTS
from ddpkit.text import format_hosts as format_hosts

# Also an alias of ~/.ssh/config, and letters of any language. What begins with a dash would be an option of ssh.
NAME = r"\w[\w.-]{0,254}"
ADDRESS = r"[0-9A-Fa-f:.]{2,45}(?:%[\w.-]{1,32})?"
JOB_ID = r"[A-Za-z0-9][A-Za-z0-9_.\[\]-]{0,127}"
USER = r"\w[\w.@+-]{0,99}(?:\\[\w.@+-]{1,99})?"  # also me@REALM, and DOMAIN\me


def is_host(name: str) -> bool:
    """Return whether this can be the name or the address of one host."""
    if ":" not in name:
        return re.fullmatch(NAME, name) is not None
    if not re.fullmatch(ADDRESS, name):
        return False
    import ipaddress  # few commands see an address

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
        name, colon, _ = user.partition(":")  # behind it a password, as in a URL
        return f"{name + (colon and ':***')!r} is not the name of a user"
    if port is not None and not (type(port) is int and 0 < port <= MOST_PORT):
        return f"{port!r} is not a port"
    return ""


LoginName = Annotated[str, Form(f"{NAME}|{ADDRESS}", "the name of a host")]
UserName = Annotated[str, Form(f"{USER}|", "the name of a user")]


@dataclass(frozen=True, kw_only=True)
class Via:
    """A login host with the commands of a scheduler, and the way to it."""

    host: LoginName
    user: UserName = ""
    port: Annotated[int, Between(1, 65535)] | None = None
    transport: Literal["paramiko", "openssh"] = "paramiko"
    python: ProgramName = "python3"  # of the supervisor there
    connect_timeout: Seconds = 5.0

    def __post_init__(self) -> None:
        """Raise UsageError for what may not stand on a command line, also where a record of a run names it."""
        wrong = problem(self.host, self.user, self.port)
        if wrong:
            raise UsageError(wrong, "write it as login1 or user@login1:2222")

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The ssh that a person would type."""
        port = ("-p", str(self.port)) if self.port else ()
        return ("ssh", *port, f"{self.user}@{self.host}" if self.user else self.host)


def spare_hosts(used: Collection[str], hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the hosts after those that are used. One between them failed its checks."""
    last = max((index for index, host in enumerate(hosts) if host in used), default=-1)
    return tuple(hosts[last + 1 :])
