"""The keys of a login, in OpenSSH's order, from the agent that the configuration names and from files.

An agent that was forwarded over a dead connection, or that waits for somebody to unlock it, takes questions and says
nothing. Whoever asks it, OpenSSH and paramiko, waits for ever: such an agent is left out, and named.
"""

from __future__ import annotations

import base64
import binascii
import socket
import struct
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from ddpkit.transports._paramiko import paramiko
from ddpkit.transports.ssh_config import SshHost

AGENT_LIMIT = 5.0  # seconds
_LIST = b"\0\0\0\1\x0b"  # SSH_AGENTC_REQUEST_IDENTITIES, with its length in front
_MAGIC = b"openssh-key-v1\0"


def leave_out_if_silent(
    environ: MutableMapping[str, str], note: Callable[[str], None], limit: float = AGENT_LIMIT
) -> None:
    """Take an agent that says nothing away from this process and its children. One that is gone does no harm."""
    path = environ.get("SSH_AUTH_SOCK", "")
    if path and is_silent(path, note, limit):
        del environ["SSH_AUTH_SOCK"]


def is_silent(path: str, note: Callable[[str], None], limit: float = AGENT_LIMIT) -> bool:
    """Return whether an agent takes questions and says nothing; note it."""
    with socket.socket(socket.AF_UNIX) as agent:
        agent.settimeout(limit)
        try:
            agent.connect(path)
            agent.sendall(_LIST)
            agent.recv(1)
        except TimeoutError:
            note(f"the ssh agent at {path} did not answer for {limit:g} s, and is not used; to check it: ssh-add -l")
            return True
        except OSError:
            pass  # for those who ask it as well
    return False


class Agent(paramiko.agent.AgentSSH):
    """The agent at a path: paramiko's own knows that of SSH_AUTH_SOCK alone."""

    def __init__(self, path: str) -> None:
        super().__init__()
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(AGENT_LIMIT)
            connection.connect(path)
            self._connect(connection)  # type: ignore[attr-defined]
            connection.settimeout(None)  # a person may have to touch a key
        except (OSError, paramiko.SSHException):
            connection.close()
            self._keys = ()

    def close(self) -> None:
        self._close()  # type: ignore[attr-defined]


class Keys:
    """The keys to try for one login. After it, `locked` and `unusable` say which files were left out, and why."""

    def __init__(self, host: SshHost, passphrase: str | None, agent: str) -> None:
        self._host = host
        self._passphrase: Any = passphrase.encode() if passphrase else None
        self._path = agent
        self._agent: Agent | None = None
        self.locked = ""  # a file that needs another passphrase
        self.unusable = ""  # a file of a kind that paramiko does not know, as of a hardware key
        self.tried = 0

    def __iter__(self) -> Iterator[Any]:
        """Yield first those of the agent that the configuration lists, then its others, then those of files."""
        self._agent = Agent(self._path) if self._path else None
        held: dict[bytes | None, Any] = {key.asbytes(): key for key in self._agent.get_keys()} if self._agent else {}
        listed = {path: public_part(path) for path in self._host.identity_files}
        ours = [held[blob] for blob in listed.values() if blob in held]
        others = [] if self._host.identities_only else [key for key in held.values() if key not in ours]
        for key in (*ours, *others):
            self.tried += 1
            yield key
        for path, blob in listed.items():
            loaded = None if blob in held else self._load(path)
            if loaded is None:
                continue
            self.tried += 1
            yield loaded
            if getattr(loaded, "public_blob", None) is not None:
                loaded.public_blob = None  # sshd does not take its certificate
                yield loaded

    def close(self) -> None:
        if self._agent is not None:
            self._agent.close()

    def _load(self, path: str) -> Any:
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError):
            return None  # a configuration may name keys that are not on this machine
        if "PRIVATE KEY" not in text:
            return None  # the public part of a key that an agent may have
        locked = is_encrypted(text)
        try:
            return paramiko.PKey.from_path(path, self._passphrase if locked else None)
        except Exception:  # paramiko and cryptography have many words for a wrong passphrase
            if locked:
                self.locked = self.locked or path
            else:
                self.unusable = self.unusable or path
            return None


def public_part(path: str) -> bytes | None:
    """Return the public key of a file: of `PATH.pub`, of a public key itself, or of OpenSSH's own format."""
    for name in (f"{path}.pub", path):
        try:
            text = Path(name).read_text()
        except (OSError, UnicodeDecodeError):
            continue
        words = text.split()
        try:
            if "PRIVATE KEY" in text:
                return _parts(text)[1]
            return base64.b64decode(words[1], validate=True)
        except (ValueError, binascii.Error, struct.error, IndexError):
            continue
    return None


def is_encrypted(text: str) -> bool:
    """Return whether the text of a private key needs a passphrase."""
    if "BEGIN OPENSSH PRIVATE KEY" not in text:
        return "ENCRYPTED" in text
    try:
        return _parts(text)[0] != b"none"
    except (ValueError, struct.error):
        return False


def _parts(text: str) -> tuple[bytes, bytes]:
    """Return the name of the cipher, and the public key, of a private key in OpenSSH's format. Raises ValueError."""
    data = base64.b64decode("".join(line for line in text.splitlines() if not line.startswith("-")))
    if not data.startswith(_MAGIC):
        raise ValueError("not in OpenSSH's format")
    fields: list[bytes] = []
    at = len(_MAGIC)
    for number in range(4):  # cipher, derivation of the key, its options; a count; public key
        at += 4 if number == 3 else 0
        [size] = struct.unpack_from(">I", data, at)
        fields.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return fields[0], fields[3]


def describe(keys: Keys, files: Sequence[str]) -> str:
    """Describe what was offered, where that was nothing."""
    if keys.tried:
        return ""
    there = ", ".join(path for path in files if Path(path).exists()) or "none of its files exists"
    return f"; none was offered: {there}, and no key in an agent"
