"""Certificates of the user's keys: what sshd cannot accept in them, read from their files and from the agent.

sshd does not tell a client why it refused one.
"""

from __future__ import annotations

import base64
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from typing import NamedTuple

from ddpkit.launchers.shell import join
from ddpkit.node.kernel import read_text
from ddpkit.transports.ssh.config import AGENT_LIMIT, SshHost

_LAST = 253402214400  # the end of the year 9999
SHOWN = 120  # characters of principals
_MARK = "-cert-v01@openssh.com"  # at the end of the name of a certificate's type
# Numbers and strings of the public key before the certificate's own fields (OpenSSH, PROTOCOL.certkeys).
_OF_KEY = {"ssh-ed25519": 1, "sk-ssh-ed25519": 2, "ssh-rsa": 2, "ssh-dss": 4, "sk-ecdsa-sha2-nistp256": 3}


class Certificate(NamedTuple):
    """What an OpenSSH certificate permits. Times are seconds since the epoch."""

    of_user: bool
    principals: list[str]
    after: int
    before: int

    def problem(self, now: float) -> str:
        """Return why no sshd accepts it now; empty: only the host knows."""
        if not self.of_user:
            return "is one of a host, not of a user"
        if now >= self.before:
            return f"expired on {_day(self.before)}"
        return f"is not valid before {_day(self.after)}" if now < self.after else ""

    def guess(self, user: str) -> str:
        """Return why a host may not accept it for this user."""
        if user in self.principals:
            return "is signed by a key that the host may not trust"
        return f"is for {', '.join(self.principals)[:SHOWN] or 'nobody'}, and the user is {user}"


class Refused(NamedTuple):
    """What is wrong with a certificate, and the command that shows it; empty: there is none."""

    why: str = ""
    look: str = ""
    certain: bool = False  # no host accepts it


def refused_certificate(host: SshHost) -> Refused:
    """Return what is wrong with the user's certificates: of the first that no host accepts, or else of the first."""
    refused = Refused()
    for name, look, certificate in _certificates(host):
        problem = certificate.problem(time.time())
        if problem:
            return Refused(f"the certificate {name} {problem}", look, certain=True)
        refused = refused if refused.why else Refused(f"the certificate {name} {certificate.guess(host.user)}", look)
    return refused


def _certificates(host: SshHost) -> Iterator[tuple[str, str, Certificate]]:
    """Yield the certificates that a login offers: a name, a command that shows it, and what it permits."""
    for path in (*host.certificate_files, *(f"{path}-cert.pub" for path in host.identity_files)):
        certificate = read_certificate(read_text(path))
        if certificate is not None:
            yield path, join(["ssh-keygen", "-L", "-f", path]), certificate
    for line in _in_agent(host):
        certificate = read_certificate(line)
        if certificate is not None:
            yield "in the agent", "ssh-add -L | ssh-keygen -L -f -", certificate


def _in_agent(host: SshHost) -> list[str]:
    if not host.agent:
        return []
    env = {**os.environ, "SSH_AUTH_SOCK": host.agent}
    try:
        done = subprocess.run(["ssh-add", "-L"], capture_output=True, check=False, timeout=AGENT_LIMIT, env=env)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.decode("utf-8", "replace").splitlines()


def read_certificate(line: str) -> Certificate | None:
    """Read a line of a public key's file; None: it is no certificate."""
    words = line.split()
    if len(words) < 2 or not words[0].endswith(_MARK):
        return None
    try:
        return _parse(base64.b64decode(words[1]), words[0].removesuffix(_MARK))
    except (ValueError, struct.error):
        return None


def _parse(blob: bytes, kind: str) -> Certificate:
    at = 0

    def string() -> bytes:
        nonlocal at
        [size] = struct.unpack_from(">I", blob, at)
        at += 4 + size
        return blob[at - size : at]

    for _ in range(2 + _OF_KEY.get(kind, 2)):  # type, nonce, and the key: of ecdsa, its curve and a point
        string()
    at += 8  # serial number
    [of_user] = struct.unpack_from(">I", blob, at)
    at += 4
    string()  # its name, for logs
    principals, names = string(), []
    while principals:
        [size] = struct.unpack_from(">I", principals)
        names.append(principals[4 : 4 + size].decode("utf-8", "replace"))
        principals = principals[4 + size :]
    after, before = struct.unpack_from(">QQ", blob, at)
    return Certificate(of_user=of_user == 1, principals=names, after=after, before=before)


def _day(when: int) -> str:
    """Return a time as a person here has it. The last one stands for ever."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(min(when, _LAST)))
