"""The user's ssh configuration and known hosts, read as OpenSSH reads them; unknown and changed host keys are refused.

What paramiko leaves out is here: `Include`, known hosts by pattern, by HostKeyAlias and in the files that the
configuration names. Imports paramiko, so that only `ddpkit/transports/ssh.py` imports this.
"""

from __future__ import annotations

import base64
import fnmatch
import glob
import io
import os
import pwd
import re
import shlex
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import paramiko
from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey

from ddpkit.diagnosis.symptoms import login_fix
from ddpkit.errors import UsageError
from ddpkit.transports.channel import RefusedError

# Of what Match can ask, this is what paramiko can answer.
_MATCH = frozenset({"all", "canonical", "exec", "host", "originalhost", "user", "localuser"})

# ---- configuration


def read_config(paths: Iterable[Path] | None = None) -> paramiko.SSHConfig:
    """OpenSSH's client configuration: the user's file first, then the machine's."""
    text = ""
    for path in paths or (Path.home() / ".ssh/config", Path("/etc/ssh/ssh_config")):
        text += "Host *\n" + _included(path, path.parent, "Host *", 0)
    parsed = paramiko.SSHConfig()
    try:
        parsed.parse(io.StringIO(text))
    except (paramiko.SSHException, ValueError) as error:
        raise UsageError(
            f"~/.ssh/config or /etc/ssh/ssh_config: {error}", "use -b pdsh, which runs OpenSSH itself"
        ) from None
    return parsed


def _included(path: Path, base: Path, block: str, depth: int) -> str:
    """A configuration file with every `Include` replaced by what it names; paramiko does not follow them.

    Names are relative to `base`, the folder of the outermost file.
    """
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    out = []
    for each in lines:
        line = each.strip()
        word, _, rest = line.replace("=", " ", 1).partition(" ")
        if word.lower() == "match":
            block = line = _match(_words(rest))
        elif word.lower() == "host":
            block = line
        elif word.lower() == "port" and not rest.strip().strip('"').isdecimal():
            line = f"Port {_service(rest.strip())}"
        if word.lower() == "include" and depth < 16:
            for pattern in _words(rest):
                place = base / Path(pattern).expanduser()
                for name in sorted(glob.glob(str(place))):  # noqa: PTH207
                    out += [block, _included(Path(name), base, block, depth + 1)]
            out.append(block)  # what follows belongs to the block around the Include
        else:
            out.append(line)
    return "\n".join(out) + "\n"


def expects_second_factor(config: Mapping[str, str]) -> bool:
    """Return whether a host's configuration says that it asks questions after a key (ssh_config(5)).

    Say it with `KbdInteractiveAuthentication yes`, or with keyboard-interactive in `PreferredAuthentications`.
    """
    if config.get("batchmode", "no").lower() == "yes":
        return False
    given = config.get("kbdinteractiveauthentication", config.get("challengeresponseauthentication", ""))
    methods = config.get("preferredauthentications", "").lower().split(",")
    return given.lower() == "yes" or (given == "" and "keyboard-interactive" in methods)


def _service(name: str) -> str:
    """The port of a service, which OpenSSH takes in a number's place."""
    try:
        return str(socket.getservbyname(name.strip('"'), "tcp"))
    except OSError:
        raise UsageError(f"~/.ssh/config or /etc/ssh/ssh_config: Port {name} is not a port") from None


def _match(words: list[str]) -> str:
    """A `Match` line that paramiko takes: without `final`, and never true where it asks what paramiko cannot say."""
    words = [word for word in words if word.lower() != "final"] or ["all"]
    asked = [word.lstrip("!").lower() for word in words]
    singles = ("all", "canonical")
    place = 0
    while place < len(asked):
        if asked[place] not in _MATCH:
            return "Host !*"
        place += 1 if asked[place] in singles else 2
    return f"Match {shlex.join(words)}"


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()  # an odd quote


def other_home() -> str:
    """Return the home folder in which ssh looks for `.ssh`, from the password database. Empty: it is HOME."""
    try:
        own = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""
    return own if os.path.realpath(own) != os.path.realpath(Path.home()) and Path(own, ".ssh").is_dir() else ""


# ---- host keys


_CA = "@cert-authority"  # in front of a line whose key signs those of hosts; paramiko checks no certificates


class KnownHosts:
    """The user's and the machine's known_hosts, and the policy for unknown keys."""

    def __init__(self, *, accept_new: bool, note: Callable[[str], None]) -> None:
        self._accept_new = accept_new
        self._note = note
        self._files: dict[str, list[tuple[str, HostKeyEntry]]] = {}  # path: (marker, line)
        self._lock = threading.Lock()

    def paths(self, config: dict[str, Any]) -> list[str]:
        given = _words(config.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2"))
        given += _words(config.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"))
        return [str(Path(word).expanduser()) for word in given if word != "none"]

    def name(self, config: dict[str, Any], host: str, port: int) -> str:
        name = str(config.get("hostkeyalias", host)).lower()
        return name if port == 22 or "hostkeyalias" in config else f"[{name}]:{port}"

    def keys(self, config: dict[str, Any], name: str) -> dict[str, list[Any]]:
        """The keys known for a host, by kind. As for OpenSSH, another port's sshd may have the host's own key."""
        keys: dict[str, list[Any]] = {}
        for each in _names(name):
            for _, entry in self._entries(config, each):
                keys.setdefault(entry.key.get_name(), []).append(entry.key)
            if keys:
                break
        return keys

    def revoked(self, config: dict[str, Any], name: str, key: Any) -> bool:
        names = _names(name)  # a key that is revoked for the host is revoked for each of its ports
        return any(entry.key == key for each in names for _, entry in self._entries(config, each, "@revoked"))

    def _entries(self, config: dict[str, Any], name: str, wanted: str = "") -> Iterator[tuple[str, HostKeyEntry]]:
        """The lines for a host that have this marker in front, each with its file."""
        for path in self.paths(config):
            for marker, entry in self._load(path):
                if marker == wanted and _matches(entry.hostnames, name):
                    yield path, entry

    def _load(self, path: str) -> list[tuple[str, HostKeyEntry]]:
        with self._lock:
            if path not in self._files:
                self._files[path] = list(_known_lines(path))
            return self._files[path]

    def check(self, config: dict[str, Any], name: str, key: Any, target: str) -> None:
        """Raise RefusedError unless this is the known key of this host. `target`: the arguments of ssh for it."""
        known = self.keys(config, name)
        if self.revoked(config, name, key):
            raise RefusedError(
                f"its host key was revoked ({', '.join(self.paths(config))})", login_fix("revoked-key", name)
            )
        if key in known.get(key.get_name(), []):
            return
        files = self.paths(config)
        if known:
            now = f"{key.get_name()} SHA256:{key.fingerprint.removeprefix('SHA256:')}"
            raise self.changed(config, name, now)
        asked = str(config.get("stricthostkeychecking", "ask")).lower()
        if self._accept_new or asked in ("no", "off", "accept-new"):
            with self._lock:
                self._remember(files[0] if files else os.devnull, name, key)
            return
        what = f"its host key is not known ({key.get_name()} SHA256:{key.fingerprint.removeprefix('SHA256:')})"
        if home := other_home():
            what += f" in {', '.join(files)}, and ssh itself reads {home}"
            raise RefusedError(what, f"HOME={shlex.quote(home)} ddpkit ...")
        if any(self._entries(config, name, _CA)) or config.get("knownhostscommand", "none") != "none":
            raise RefusedError(
                f"{what}, only its certificate, or by a KnownHostsCommand", "use -b pdsh, which runs OpenSSH itself"
            )
        raise RefusedError(what, f"{login_fix('unknown-key', target)}; or add -o accept_new_host_keys=true")

    def changed(self, config: dict[str, Any], name: str, now: str) -> RefusedError:
        """A host that is known, by another key."""
        path = next((path for path, _ in self._entries(config, name)), "")
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
    hit = False
    for pattern in patterns:
        if pattern.startswith("|1|"):
            with suppress(ValueError):  # a line that was cut off
                hit = hit or HostKeys.hash_host(name, pattern) == pattern
        elif pattern.startswith("!"):
            if _fits(pattern[1:], name):
                return False
        else:
            hit = hit or _fits(pattern, name)
    return hit


def _fits(pattern: str, name: str) -> bool:
    pattern = pattern.lower()
    if "*" not in pattern and "?" not in pattern:
        return pattern == name  # nearly always; each host is compared with every line of the file
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))  # in known_hosts a bracket is one: [host]:port


# ---- keys


def is_encrypted(text: str) -> bool:
    """Return whether the text of a private key needs a passphrase."""
    if "BEGIN OPENSSH PRIVATE KEY" not in text:
        return "ENCRYPTED" in text
    body = "".join(line for line in text.splitlines() if not line.startswith("-"))
    try:
        data = base64.b64decode(body)
    except ValueError:
        return False
    # "openssh-key-v1", a NUL, then the name of the cipher with its length in front.
    start = len("openssh-key-v1") + 1
    size = int.from_bytes(data[start : start + 4], "big")
    return data.startswith(b"openssh-key-v1\0") and data[start + 4 : start + 4 + size] != b"none"
