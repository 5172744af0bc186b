"""Gets into nodes by SSH: the only module that imports fabric and paramiko, and only when it is used.

Fabric finds the way (`~/.ssh/config`, the agent, keys, ProxyJump); from there on the channel is ours. What it does not
do is done here: `Include` in the configuration, known hosts by pattern, by HostKeyAlias and in the files that the
configuration names; and above all, unknown and changed host keys are refused (fabric accepts unknown ones).
"""

from __future__ import annotations

import fnmatch
import getpass
import glob
import io
import logging
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import fabric
import paramiko
from paramiko.hostkeys import HostKeyEntry, HostKeys

from ddpkit.dial import NobodyError, dial
from ddpkit.door import RefusedError, not_started
from ddpkit.hosts import HostSpec

# Without a handler of ours Python would print paramiko's tracebacks to standard error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

TRIES = 8  # connections that a busy sshd (MaxStartups) may drop before it counts as refusing
PAUSE = (0.05, 0.4)  # seconds between two of them, at random and growing, so that not all come back at once
_KEY_KINDS = {"rsa-sha2-512": "ssh-rsa", "rsa-sha2-256": "ssh-rsa"}  # signatures, and the key they are made with


# ---- configuration


def read_config(paths: Iterable[Path] | None = None) -> fabric.Config:
    """OpenSSH's client configuration: the user's file first, then the machine's."""
    text = ""
    for path in paths or (Path.home() / ".ssh/config", Path("/etc/ssh/ssh_config")):
        text += "Host *\n" + _included(path, "Host *", 0)
    parsed = paramiko.SSHConfig()
    parsed.parse(io.StringIO(text))
    return fabric.Config(ssh_config=parsed, lazy=True)


def _included(path: Path, block: str, depth: int) -> str:
    """A configuration file with every `Include` replaced by what it names; paramiko does not follow them."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    out = []
    for line in lines:
        word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        if word.lower() in ("host", "match"):
            block = line.strip()
        if word.lower() == "include" and depth < 16:
            for pattern in rest.split():
                place = Path(pattern.strip('"')).expanduser()
                base = path.parent if path.parent.name != ".ssh" else Path.home() / ".ssh"
                for name in sorted(glob.glob(str(place if place.is_absolute() else base / place))):  # noqa: PTH207
                    out.append(_included(Path(name), block, depth + 1))
            out.append(block)  # what follows belongs to the block around the Include
        else:
            out.append(line)
    return "\n".join(out) + "\n"


# ---- host keys


class KnownHosts:
    """What the user's and the machine's known_hosts say, and the policy for what they do not say."""

    def __init__(self, *, accept_new: bool, note: Callable[[str], None]) -> None:
        self._accept_new = accept_new
        self._note = note
        self._files: dict[str, list[tuple[str, HostKeyEntry]]] = {}  # path: (marker, line)
        self._lock = threading.Lock()

    def paths(self, config: dict[str, Any]) -> list[str]:
        given = config.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2").split()
        given += config.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2").split()
        return [str(Path(word.strip('"')).expanduser()) for word in given if word != "none"]

    def name(self, config: dict[str, Any], host: str, port: int) -> str:
        name = str(config.get("hostkeyalias", host)).lower()
        return name if port == 22 or "hostkeyalias" in config else f"[{name}]:{port}"

    def keys(self, config: dict[str, Any], name: str) -> dict[str, list[Any]]:
        """The keys known for a host, by kind."""
        found: dict[str, list[Any]] = {}
        for path in self.paths(config):
            for marker, entry in self._load(path):
                if not marker and _matches(entry.hostnames, name):
                    found.setdefault(entry.key.get_name(), []).append(entry.key)
        return found

    def revoked(self, config: dict[str, Any], name: str, key: Any) -> bool:
        lines = [line for path in self.paths(config) for line in self._load(path)]
        return any(m == "@revoked" and entry.key == key and _matches(entry.hostnames, name) for m, entry in lines)

    def _load(self, path: str) -> list[tuple[str, HostKeyEntry]]:
        with self._lock:
            if path not in self._files:
                self._files[path] = list(_known_lines(path))
            return self._files[path]

    def check(self, config: dict[str, Any], name: str, key: Any) -> None:
        """Raise RefusedError unless this is the key that is known for this host."""
        known = self.keys(config, name)
        if self.revoked(config, name, key):
            raise RefusedError(f"its host key was revoked ({', '.join(self.paths(config))})", "ask who runs the host")
        if key in known.get(key.get_name(), []):
            return
        files = self.paths(config)
        if known:
            raise RefusedError(
                f"its host key has changed (now {key.get_name()} SHA256:{key.fingerprint.removeprefix('SHA256:')}): "
                "another machine, or somebody in between",
                f"if you know why: ssh-keygen -R '{name}' -f {files[0]}, then ssh to it once",
            )
        asked = str(config.get("stricthostkeychecking", "ask")).lower()
        if self._accept_new or asked in ("no", "off", "accept-new"):
            with self._lock:
                self._remember(files[0], name, key)
            return
        raise RefusedError(
            f"its host key is not known ({key.get_name()} SHA256:{key.fingerprint.removeprefix('SHA256:')})",
            "ssh to it once and compare, or -o accept_new_host_keys=true",
        )

    def _remember(self, path: str, name: str, key: Any) -> None:
        line = f"{name} {key.get_name()} {key.get_base64()}\n"
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
    """(marker, entry) for each line of a known_hosts file that can be read. Paramiko checks no host certificates."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return  # a host whose key cannot be read is an unknown one
    for line in lines:
        marker, text = line.split(None, 1) if line.startswith("@") and " " in line else ("", line)
        try:
            entry = None if text.startswith("#") or marker == "@cert-authority" else HostKeyEntry.from_line(text)
        except paramiko.SSHException:
            entry = None
        if entry is not None and entry.key is not None:
            yield marker, entry


def _matches(patterns: list[str], name: str) -> bool:
    """Whether one line of known_hosts speaks of this host: names, patterns with * ? and !, or a hash."""
    hit = False
    for pattern in patterns:
        if pattern.startswith("|1|"):
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


class _Policy(paramiko.MissingHostKeyPolicy):
    """No key is known to paramiko itself: every one comes here, and is compared with what is known."""

    def __init__(self, known: KnownHosts, config: dict[str, Any], name: str) -> None:
        self._known, self._config, self._name = known, config, name

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        self._known.check(self._config, self._name, key)


# ---- connections


class Ssh:
    """Opens connections, each with everything that the user's configuration says. Used by many threads at once."""

    def __init__(
        self, *, accept_new: bool, timeout: float, note: Callable[[str], None], config: fabric.Config | None = None
    ) -> None:
        self._config = config or read_config()
        self._known = KnownHosts(accept_new=accept_new, note=note)
        self._timeout = timeout
        self._passphrase: str | None = None
        self._asking = threading.Lock()
        # One connection to each jump host, for all the nodes behind it: sshd there would drop a crowd.
        self._jumps: dict[tuple[object, ...], tuple[fabric.Connection, threading.Lock]] = {}
        self._jumps_lock = threading.Lock()

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        """Each node has a connection of its own."""

    def enter(self, spec: HostSpec, command: str, until: float) -> SshWire:
        """Log in, run a command, return its channel. `until` is a time.monotonic(). Raises RefusedError."""
        pause = PAUSE[0]
        for number in range(TRIES):
            connection = self._connection(spec)
            try:
                self._open_jumps(connection)
                self._open(connection)
                assert connection.transport is not None
                channel = connection.transport.open_session(timeout=self._timeout)
                channel.set_combine_stderr(True)
                channel.exec_command(command)
                return SshWire(connection, channel)
            except paramiko.PasswordRequiredException:
                connection.close()
                self._ask_passphrase(connection)
            except Exception as error:
                connection.close()
                if number == TRIES - 1 or not _dropped(error) or time.monotonic() + pause > until:
                    raise _explained(error, connection, number + 1, self._timeout) from None
                time.sleep(random.uniform(pause / 2, pause))  # jitter: nobody to await
                pause = min(pause * 2, 10 * PAUSE[1])
        raise RefusedError("its key needs a passphrase that was not given", "ssh-add")

    def _open(self, connection: fabric.Connection) -> None:
        if not connection.gateway and not connection.is_connected:
            sock = dial(connection.host, int(connection.port), self._timeout)
            connection.connect_kwargs = {**connection.connect_kwargs, "sock": sock}
        connection.open()

    def _connection(self, spec: HostSpec) -> fabric.Connection:
        connection = fabric.Connection(
            spec.name,
            user=spec.user or None,
            port=spec.port,
            config=self._config,
            connect_timeout=max(1, round(self._timeout)),
            # Without words of our own fabric writes each host's keys into the configuration that all of them share.
            connect_kwargs={"allow_agent": True},
        )
        self._prepare(connection)
        connection.gateway = self._jump(connection.gateway)
        return connection

    def _jump(self, hop: Any) -> Any:
        """The one connection for this jump host and the way to it."""
        if not isinstance(hop, fabric.Connection):
            return hop  # none, or a ProxyCommand
        hop.gateway = self._jump(hop.gateway)
        key = (hop.host, hop.user, hop.port, id(hop.gateway))
        with self._jumps_lock:
            if key not in self._jumps:
                self._prepare(hop)
                self._jumps[key] = (hop, threading.Lock())
            return self._jumps[key][0]

    def _open_jumps(self, connection: fabric.Connection) -> None:
        hop = connection.gateway
        if not isinstance(hop, fabric.Connection):
            return
        self._open_jumps(hop)
        lock = next(lock for known, lock in self._jumps.values() if known is hop)
        with lock:
            try:
                self._open(hop)
            except (paramiko.PasswordRequiredException, RefusedError):
                raise
            except Exception as error:
                if _dropped(error):
                    raise
                why = _explained(error, hop, 1, self._timeout)
                raise RefusedError(f"its jump host: {why.what}", why.fix) from None

    def close(self) -> None:
        for hop, _ in self._jumps.values():
            if hop.transport is not None:
                threading.Thread(target=hop.transport.close, daemon=True).start()

    def _prepare(self, connection: fabric.Connection) -> None:
        config = dict(connection.ssh_config)
        name = self._known.name(config, connection.host, int(connection.port))
        connection.client.set_missing_host_key_policy(_Policy(self._known, config, name))
        kwargs = dict(connection.connect_kwargs)
        kwargs.update(banner_timeout=self._timeout, auth_timeout=self._timeout, channel_timeout=self._timeout)
        if self._passphrase is not None:
            kwargs["passphrase"] = self._passphrase
        if config.get("identitiesonly", "no").lower() == "yes" and kwargs.get("key_filename"):
            kwargs["look_for_keys"] = False
        kinds = self._known.keys(config, name)
        if kinds:
            # The server picks the first kind that we offer: it must be one by which we know it.
            offered: tuple[str, ...] = paramiko.Transport._preferred_keys  # type: ignore[attr-defined]
            unknown = [kind for kind in offered if _KEY_KINDS.get(kind, kind) not in kinds]
            if len(unknown) < len(offered):
                kwargs["disabled_algorithms"] = {"keys": unknown}
        connection.connect_kwargs = kwargs

    def _ask_passphrase(self, connection: fabric.Connection) -> None:
        before = self._passphrase
        with self._asking:
            if self._passphrase != before:
                return  # somebody else has asked meanwhile
            files = connection.connect_kwargs.get("key_filename") or ["~/.ssh/id_*"]
            if not sys.stdin.isatty() or before is not None:
                wrong = "is wrong for" if before is not None else "is needed for"
                raise RefusedError(f"a passphrase {wrong} {files[0]}", f"ssh-add {files[0]}")
            self._passphrase = getpass.getpass(f"passphrase of {files[0]}: ")


def _dropped(error: Exception) -> bool:
    """Whether sshd closed the door before a word was said, as it does when too many knock at once."""
    if isinstance(error, EOFError | ConnectionResetError | BrokenPipeError):
        return True
    return isinstance(error, paramiko.SSHException) and any(
        words in str(error) for words in ("protocol banner", "Connection reset", "No existing session", "EOF")
    )


def _explained(error: Exception, connection: fabric.Connection, tries: int, timeout: float) -> RefusedError:
    """What went wrong, and the command that helps."""
    if isinstance(error, RefusedError):
        return error
    host, port, user = connection.host, connection.port, connection.user
    at = f"{host} port {port}"
    if isinstance(error, socket.gaierror):
        return RefusedError(f"its name {host} does not resolve here", f"getent hosts {host}")
    if isinstance(error, paramiko.AuthenticationException):
        return RefusedError(f"sshd at {at} takes none of the keys for user {user}", f"ssh-copy-id {user}@{host}")
    if isinstance(error, NobodyError):
        fix = f"on {host}: systemctl status ssh" if "connection refused" in error.causes else f"ping {host}"
        return RefusedError(f"nobody answers at {at} ({', '.join(error.causes)})", fix)
    if _dropped(error):
        return RefusedError(
            f"sshd at {at} closed {tries} connections before a word was said",
            f"on {host}: more than MaxStartups at once? sshd -T | grep -i maxstartups",
        )
    if isinstance(error, TimeoutError) or "timed out" in str(error).lower() or "timeout" in str(error).lower():
        return RefusedError(f"no answer from {at} in {timeout:g} s: off, or a firewall", f"ping {host}")
    if isinstance(error, paramiko.ChannelException):
        return RefusedError(f"sshd at {at} refused a session ({error})", "sshd -T | grep -i maxsessions")
    if isinstance(error, OSError):
        return RefusedError(f"cannot connect to {at}: {str(error.strerror or error).lower()}", f"ping {host}")
    return RefusedError(f"cannot log in at {at}: {error or type(error).__name__}", f"ssh -v {user}@{host} true")


class SshWire:
    """One channel of one connection."""

    def __init__(self, connection: fabric.Connection, channel: paramiko.Channel) -> None:
        self._connection = connection
        self._channel = channel
        channel.settimeout(1.0)

    def write(self, data: bytes) -> None:
        try:
            self._channel.sendall(data)
        except (paramiko.SSHException, EOFError) as error:
            raise OSError(str(error)) from None

    def read(self) -> bytes:
        try:
            data = self._channel.recv(1 << 16)
        except TimeoutError:
            return b""
        except OSError as error:
            raise EOFError(str(error)) from None
        if not data:
            raise EOFError
        return data

    def why(self) -> str:
        # The exit status comes just before or just behind the end of output.
        until = time.monotonic() + 1.0
        while not self._channel.exit_status_ready() and time.monotonic() < until:
            if not (self._connection.transport and self._connection.transport.is_active()):
                break
            time.sleep(0.01)  # paramiko gives no event that ends when the transport ends
        status = self._channel.recv_exit_status() if self._channel.exit_status_ready() else -1
        if status == 0:
            return ""
        return "the connection was lost" if status < 0 else f"its supervisor ended with exit code {status}"

    def refusal(self, said: Sequence[str]) -> RefusedError | None:
        if not self._channel.exit_status_ready():
            return None
        return not_started(self._channel.recv_exit_status(), said)

    def close(self) -> None:
        # Not `Connection.close`: it waits for the thread of a connection that may be cut.
        self._channel.close()
        transport = self._connection.transport
        if transport is not None:
            threading.Thread(target=transport.close, daemon=True).start()
