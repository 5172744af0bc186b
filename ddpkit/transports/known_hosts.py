"""The known host keys of a host, found as OpenSSH finds them; unknown, changed and revoked keys are refused.

paramiko lacks patterns, HostKeyAlias and the files that the configuration names.
"""

from __future__ import annotations

import os
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey

from ddpkit.diagnosis.symptoms import login_fix
from ddpkit.transports._paramiko import paramiko
from ddpkit.transports.channel import RefusedError
from ddpkit.transports.ssh_config import SshHost, fits

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
                self._remember(host.known_hosts[0] if host.known_hosts else os.devnull, name, key)
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
