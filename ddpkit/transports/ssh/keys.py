"""Keys of a login: those of hosts, found as OpenSSH finds them, and the user's, in OpenSSH's order.

Unknown, changed and revoked keys of hosts are refused. paramiko lacks patterns, HostKeyAlias and the files that the
configuration names.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import shlex
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey

from ddpkit.diagnosis.symptoms import login_fix
from ddpkit.transports.channel import RefusedError
from ddpkit.transports.ssh._paramiko import paramiko
from ddpkit.transports.ssh.config import AGENT_LIMIT, SshHost, fits, is_encrypted, parts_of_key

_CA = "@cert-authority"  # in front of a line whose key signs those of hosts; paramiko checks no certificates


class KnownHosts:
    """The user's and the machine's known_hosts, and the policy for unknown keys."""

    def __init__(self, *, accept_new: bool, note: Callable[[str], None]) -> None:
        self._accept_new = accept_new
        self._note = note
        self._files: dict[str, list[tuple[str, HostKeyEntry]]] = {}  # path: (marker, line)
        self._lock = threading.Lock()

    def name(self, host: SshHost) -> str:
        name = (host.host_key_alias or host.hostname).lower()
        return name if host.port == 22 or host.host_key_alias else f"[{name}]:{host.port}"

    def keys(self, host: SshHost, name: str) -> dict[str, list[Any]]:
        """The keys known for a host, by kind. As for OpenSSH, another port's sshd may have the host's own key."""
        keys: dict[str, list[Any]] = {}
        for each in _names(name):
            for _, entry in self._entries(host, each):
                keys.setdefault(entry.key.get_name(), []).append(entry.key)
            if keys:
                break
        return keys

    def revoked(self, host: SshHost, name: str, key: Any) -> bool:
        names = _names(name)  # a key that is revoked for the host is revoked for each of its ports
        return any(entry.key == key for each in names for _, entry in self._entries(host, each, "@revoked"))

    def _entries(self, host: SshHost, name: str, wanted: str = "") -> Iterator[tuple[str, HostKeyEntry]]:
        """The lines for a host that have this marker in front, each with its file."""
        for path in host.known_hosts:
            for marker, entry in self._load(path):
                if marker == wanted and _matches(entry.hostnames, name):
                    yield path, entry

    def _load(self, path: str) -> list[tuple[str, HostKeyEntry]]:
        with self._lock:
            if path not in self._files:
                self._files[path] = list(_known_lines(path))
            return self._files[path]

    def check(self, host: SshHost, name: str, key: Any, target: str) -> None:
        """Raise RefusedError unless this is the known key of this host. `target`: the arguments of ssh for it."""
        if host.revoked_host_keys:
            what = f"the list of revoked host keys {host.revoked_host_keys} is ssh's to read"
            raise RefusedError(what, "use -o transport=openssh")
        known = self.keys(host, name)
        if self.revoked(host, name, key):
            raise RefusedError(
                f"its host key was revoked ({', '.join(host.known_hosts)})", login_fix("revoked-key", name)
            )
        if key in known.get(key.get_name(), []):
            return
        if known:
            now = f"{key.get_name()} SHA256:{key.fingerprint.removeprefix('SHA256:')}"
            raise self.changed(host, name, now)
        if self._accept_new or host.strict_host_keys in ("off", "accept-new"):
            with self._lock:
                self._remember(next(iter(host.user_known_hosts), os.devnull), name, key)
            return
        what = f"its host key is not known ({key.get_name()} SHA256:{key.fingerprint.removeprefix('SHA256:')})"
        if any(self._entries(host, name, _CA)) or host.known_hosts_command:
            raise RefusedError(f"{what}, only its certificate, or by a KnownHostsCommand", "use -o transport=openssh")
        raise RefusedError(what, f"{login_fix('unknown-key', target)}; or add -o accept_new_host_keys=true")

    def changed(self, host: SshHost, name: str, now: str) -> RefusedError:
        """A host that is known, by another key."""
        path = next((path for path, _ in self._entries(host, name)), "")
        return RefusedError(
            f"its host key has changed (now {now}): another machine, or an attacker in between",
            f"find out why it changed; the key that is known: ssh-keygen -F {shlex.quote(name)} -f {shlex.quote(path)}",
        )

    def _remember(self, path: str, name: str, key: Any) -> None:
        """Called with the lock held."""
        line = f"{name} {key.get_name()} {key.get_base64()}\n"
        self._files.setdefault(path, []).append(("", HostKeyEntry([name], key)))
        if path == os.devnull:
            return  # the way to say that nothing is to be remembered
        try:
            Path(path).parent.mkdir(mode=0o700, exist_ok=True)
            with open(path, "a+", encoding="utf-8") as file:
                file.seek(0)
                text = file.read()
                file.write(line if not text or text.endswith("\n") else f"\n{line}")
        except OSError as error:
            self._note(f"cannot add the key of {name} to {path}: {error.strerror}")
            return
        self._note(f"added the {key.get_name()} key of {name} to {path}")


def _known_lines(path: str) -> Iterator[tuple[str, HostKeyEntry]]:
    """(marker, entry) for each line of a known_hosts file that can be read."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return  # a host whose key cannot be read is an unknown one
    for line in lines:
        marker, text = line.split(None, 1) if line.startswith("@") and " " in line else ("", line)
        try:
            entry = None if text.startswith("#") else HostKeyEntry.from_line(text)
        except (paramiko.SSHException, InvalidHostKey, ValueError):
            entry = None  # OpenSSH passes over it as well
        if entry is not None and entry.key is not None:
            yield marker, entry


def _names(name: str) -> list[str]:
    """Return the names to look up: `[host]:2222`, and without a port `host`."""
    plain = re.fullmatch(r"\[(.*)\]:\d+", name)
    return [name, *(plain.groups() if plain else ())]


def _matches(patterns: list[str], name: str) -> bool:
    """Return whether a line of known_hosts is for this host: names, patterns with * ? and !, or a hash."""
    return fits([each.lower() for each in patterns if not each.startswith("|1|")], name) or any(
        _is_hash(each, name) for each in patterns if each.startswith("|1|")
    )


def _is_hash(pattern: str, name: str) -> bool:
    try:
        return HostKeys.hash_host(name, pattern) == pattern
    except ValueError:
        return False  # a line that was cut off


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
        """Return the key in a file; None: there is none for this login. Notes a file that cannot be used."""
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
                return parts_of_key(text)[1]
            return base64.b64decode(words[1], validate=True)
        except (ValueError, binascii.Error, struct.error, IndexError):
            continue
    return None


def describe(keys: Keys, files: Sequence[str]) -> str:
    """Describe what was offered, where that was nothing."""
    if keys.tried:
        return ""
    there = ", ".join(path for path in files if Path(path).exists()) or "none of its files exists"
    return f"; none was offered: {there}, and no key in an agent"
