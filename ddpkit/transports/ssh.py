"""Connections by SSH. This is the only module that uses fabric, and it is imported only for SSH.

Fabric finds the way (`~/.ssh/config`, the agent, keys, ProxyJump); from there on the channel is ours. What the user's
files say is read by `ddpkit/transports/ssh_config.py`; above all, unknown and changed host keys are refused (fabric
accepts them).
"""

from __future__ import annotations

import logging
import random
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ddpkit.diagnosis.symptoms import login_fix
from ddpkit.errors import NO_THREAD
from ddpkit.transports import lifeline
from ddpkit.transports._paramiko import fabric, paramiko
from ddpkit.transports.channel import RefusedError, close_in_background, not_started, unresolved
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.questions import ANSWER_TIMEOUT, NO_ANSWER, Questions
from ddpkit.transports.ssh_config import KnownHosts, expects_second_factor, is_encrypted, read_config
from ddpkit.transports.tcp import NoServerError, dial

# Without a handler of ours Python would print paramiko's tracebacks to standard error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

TRIES = 8  # connections that a busy sshd (MaxStartups) may drop before it counts as refusing
BANNER = 0.8  # of the time for a connection: for the first word of an sshd
ASK = 3  # how often a person is asked for a passphrase
MOST_QUESTIONS = 4  # that a host may ask
PAUSE = (0.05, 0.4)  # seconds between two of them, at random and growing, so that not all come back at once
_KEY_KINDS = {"rsa-sha2-512": "ssh-rsa", "rsa-sha2-256": "ssh-rsa"}  # signatures, and the key they are made with


# ---- connections


class _OnceMore(Exception):  # noqa: N818
    """A person gave a passphrase: what failed without it may work now."""


class _Policy(paramiko.MissingHostKeyPolicy):
    """No key is known to paramiko itself: every one comes here, and is compared with what is known."""

    def __init__(self, known: KnownHosts, config: dict[str, Any], name: str, target: str) -> None:
        self._known, self._config, self._name, self._target = known, config, name, target

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        self._known.check(self._config, self._name, key, self._target)


class _Transport(paramiko.Transport):
    """A connection that answers a host's questions from the terminal alone.

    paramiko's own answers them from standard input, which may carry data for the script, and prints them as they come.
    """

    answer: Callable[[Sequence[tuple[str, bool]]], list[str]]
    may_ask: Callable[[], None]
    target: str  # the arguments of the ssh that a person would type

    def auth_interactive_dumb(self, username: str, handler: Any = None, submethods: str = "") -> list[str]:
        """Authenticate by keyboard-interactive, after a key. Raises RefusedError where no question may be answered."""
        self.may_ask()
        self.auth_timeout = ANSWER_TIMEOUT
        try:
            return self.auth_interactive(username, lambda title, text, questions: self.answer(questions), submethods)
        except paramiko.BadAuthenticationType:
            what = "sshd requires a password after the key, and ddpkit never sends passwords"
            raise RefusedError(what, "launch from a terminal with -o transport=openssh") from None
        except paramiko.AuthenticationException:
            raise RefusedError(NO_ANSWER, login_fix("second-factor", "", self.target)) from None


class Ssh:
    """Opens connections, each with everything that the user's configuration says. Used by many threads at once."""

    def __init__(
        self, *, accept_new: bool, timeout: float, note: Callable[[str], None], config: paramiko.SSHConfig | None = None
    ) -> None:
        self._config = config or read_config()
        self._note = note
        self._known = KnownHosts(accept_new=accept_new, note=note)
        self.timeout = timeout
        self._passphrase: str | None = None
        self._asked = 0
        self._questions = Questions()
        # One connection to each jump host, for all the nodes behind it: sshd there would drop a crowd.
        self._jumps: dict[tuple[object, ...], tuple[fabric.Connection, threading.Lock]] = {}
        self._no_jump: dict[int, RefusedError] = {}  # by the connection's id
        self._jumps_lock = threading.Lock()

    @property
    def asks(self) -> bool:
        return self._questions.pending

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        """Each node has a connection of its own."""

    def login(self, spec: HostSpec) -> tuple[str, ...]:
        return ()

    def enter(self, spec: HostSpec, command: str, until: float) -> SshStream:
        """Log in, run a command, return its channel. `until` is a time.monotonic(). Raises RefusedError."""
        pause, dropped = PAUSE[0], 0
        for number in range(TRIES):
            connection = self._connection(spec)
            try:
                self._open_jumps(connection)
                self._open(connection)
                assert connection.transport is not None
                channel = connection.transport.open_session(timeout=self.timeout)
                channel.set_combine_stderr(True)
                channel.exec_command(command)
                if dropped:
                    times = "once" if dropped == 1 else f"{dropped} times"
                    self._note(f"{spec.label}: sshd dropped the connection {times} (MaxStartups?), then accepted it")
                return SshStream(connection, channel)
            except _OnceMore:
                connection.close()
            except Exception as error:
                connection.close()
                if str(error) == NO_THREAD:
                    raise  # the node has no part in it
                locked = _locked_key(connection) if _may_be_locked(error) else ""
                if locked:
                    self._ask_passphrase(connection, locked)
                    continue
                if number == TRIES - 1 or not _dropped(error) or time.monotonic() + pause > until:
                    raise _explained(error, connection, number + 1, self.timeout) from None
                dropped += 1
                time.sleep(random.uniform(pause / 2, pause))  # jitter: nobody to await
                pause = min(pause * 2, 10 * PAUSE[1])
        raise RefusedError("its key needs a passphrase, and none was given", "ssh-add")  # of many keys

    def _open(self, connection: fabric.Connection) -> None:
        if not connection.gateway and not connection.is_connected:
            sock = dial(connection.host, int(connection.port), self.timeout)
            connection.connect_kwargs = {**connection.connect_kwargs, "sock": sock}
        connection.open()

    def _connection(self, spec: HostSpec) -> fabric.Connection:
        connection = fabric.Connection(
            spec.name,
            user=spec.user or None,
            port=spec.port,
            # One for each connection: fabric writes into it, and so would one thread into another's.
            config=fabric.Config(ssh_config=self._config, lazy=True),
            connect_timeout=max(1, round(self.timeout)),
            gateway=False,  # `_way` says it
        )
        self._prepare(connection)
        connection.gateway = self._jump(self._way(connection, ()))
        return connection

    def _way(self, connection: fabric.Connection, seen: tuple[str, ...]) -> Any:
        """A jump host, a ProxyCommand or None, as OpenSSH reads them; fabric goes through `a,b` from b to a.

        `seen`: the hosts that are reached through this one.
        """
        config, host = connection.ssh_config, connection.host
        jumps = config.get("proxyjump", "none")
        if jumps.lower() == "none":
            return config.get("proxycommand")
        if host in seen:
            circle = " through ".join((*seen, host))
            raise RefusedError(f"ProxyJump contains a cycle: {circle}", f"ssh -G {host} | grep -i proxyjump")
        hop = None
        for word in jumps.split(","):
            target = word.strip().removeprefix("ssh://").rstrip("/")
            before, hop = hop, fabric.Connection(target, config=connection.config.clone(), gateway=False)
            if (hop.host, hop.port) == (host, connection.port):
                return None  # it is its own jump host, by a pattern such as `Host *`
            # Only the first is reached as its own configuration says.
            hop.gateway = before or self._way(hop, (*seen, host))
        return hop

    def _jump(self, hop: Any) -> Any:
        """The one connection for this jump host and the way to it."""
        if isinstance(hop, str):  # a ProxyCommand, which is a shell's to read
            return f"/bin/sh -c {shlex.quote('exec ' + hop)}"
        if hop is None:
            return None
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
            if id(hop) in self._no_jump:
                raise self._no_jump[id(hop)]  # one wait for it is enough
            try:
                self._open(hop)
            except Exception as error:
                if _dropped(error) or str(error) == NO_THREAD:
                    raise
                if _may_be_locked(error) and (locked := _locked_key(hop)):
                    hop.close()
                    self._ask_passphrase(hop, locked)
                    self._prepare(hop)
                    raise _OnceMore from None
                why = _explained(error, hop, 1, self.timeout)
                self._no_jump[id(hop)] = RefusedError(f"its jump host {hop.host}: {why.what}", why.fix)
                raise self._no_jump[id(hop)] from None

    def close(self) -> None:
        self._questions.close()
        for hop, _ in self._jumps.values():
            if hop.transport is not None:
                close_in_background(hop.transport.close)

    def _prepare(self, connection: fabric.Connection) -> None:
        config = dict(connection.ssh_config)
        name = self._known.name(config, connection.host, int(connection.port))
        connection.client.set_missing_host_key_policy(_Policy(self._known, config, name, _target(connection)))
        kwargs = dict(connection.connect_kwargs)
        # Sooner than the connection's own limit, of which paramiko says only "No existing session".
        kwargs.update(banner_timeout=BANNER * self.timeout, auth_timeout=self.timeout, channel_timeout=self.timeout)
        kwargs["transport_factory"] = lambda sock, **options: self._transport(config, connection, sock, options)
        if self._passphrase is not None:
            kwargs["passphrase"] = self._passphrase
        if config.get("identitiesonly", "no").lower() == "yes" and kwargs.get("key_filename"):
            kwargs["look_for_keys"] = False
        kinds = self._known.keys(config, name)
        if kwargs.get("key_filename"):
            # Like OpenSSH: a configuration may name keys that are not on this machine.
            kwargs["key_filename"] = [file for file in _files(kwargs) if Path(file).expanduser().exists()]
        if kinds:
            # The server picks the first kind that we offer: it must be one by which we know it.
            offered: tuple[str, ...] = paramiko.Transport._preferred_keys  # type: ignore[attr-defined]
            unknown = [kind for kind in offered if _KEY_KINDS.get(kind, kind) not in kinds]
            if len(unknown) < len(offered):
                kwargs["disabled_algorithms"] = {"keys": unknown}
        connection.connect_kwargs = kwargs

    def _transport(
        self, config: dict[str, Any], connection: fabric.Connection, sock: Any, options: dict[str, Any]
    ) -> _Transport:
        transport = _Transport(sock, **options)
        transport.target = _target(connection)
        transport.may_ask = lambda: check_questions(config, transport.target, terminal=sys.stdin.isatty())
        transport.answer = lambda questions: self._answer(connection.original_host, questions)
        return transport

    def _answer(self, host: str, questions: Sequence[tuple[str, bool]]) -> list[str]:
        """Ask a person each question of a host's second factor, one host at a time, without echo."""
        if len(questions) > MOST_QUESTIONS:
            raise paramiko.SSHException(f"{host} asks {len(questions)} questions at the same time")
        return [self._questions.ask_for(host, text) for text, _ in questions]

    def _ask_passphrase(self, connection: fabric.Connection, file: str) -> None:
        """Ask once for all connections; again where it was wrong."""
        used = connection.connect_kwargs.get("passphrase")
        with self._questions.lock:
            if self._passphrase != used:
                return  # somebody else has asked meanwhile
            if not sys.stdin.isatty() or self._asked == ASK:
                what = f"a passphrase is {'needed' if used is None else 'wrong'} for {file}"
                raise RefusedError(what, f"ssh-add {shlex.quote(file)}")
            self._asked += 1
            self._passphrase = self._questions.ask(f"passphrase of {file}: ")


def check_questions(config: Mapping[str, str], target: str, *, terminal: bool) -> None:
    """Raise RefusedError unless the configuration expects a second factor of this host, and a terminal can answer."""
    what = "sshd accepted the key and requires a second factor (keyboard-interactive)"
    if not expects_second_factor(config):
        fix = f"ssh {target} true; if you expect its question, set KbdInteractiveAuthentication yes in ~/.ssh/config"
        raise RefusedError(f"{what}, which ~/.ssh/config does not expect", fix)
    if not terminal:
        raise RefusedError(f"{what}, and standard input is not a terminal", "launch from a terminal")


def _may_be_locked(error: Exception) -> bool:
    """Return whether paramiko lacks a passphrase, or has left out a key for want of one."""
    if isinstance(error, paramiko.AuthenticationException):
        return True
    return isinstance(error, paramiko.SSHException) and any(
        words in str(error) for words in ("Invalid key", "checkints", "encrypted", "passphrase", "decode")
    )


def _target(connection: fabric.Connection) -> str:
    """Return the arguments of the ssh that a person would type for this connection."""
    host, config = connection.original_host, connection.ssh_config
    user = f"{connection.user}@" if connection.user != config.get("user", connection.config.user) else ""
    port = f"-p {connection.port} " if int(connection.port) != int(config.get("port", 22)) else ""
    return f"{port}{user}{host}"


def _login_words(connection: fabric.Connection) -> str:
    """Return the arguments of ssh and ssh-copy-id for this connection. They show the user and the host of the login."""
    port = f"-p {connection.port} " if int(connection.port) != int(connection.ssh_config.get("port", 22)) else ""
    return f"{port}{connection.user}@{connection.host}"


def _files(kwargs: dict[str, Any]) -> list[str]:
    """The files of keys that a connection is to use."""
    given = kwargs.get("key_filename") or []
    return [given] if isinstance(given, str) else list(given)


def _locked_key(connection: fabric.Connection) -> str:
    """A key that this connection could have used with the right passphrase; empty where there is none."""
    files = _files(connection.connect_kwargs)
    if connection.connect_kwargs.get("look_for_keys", True):
        files += [f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ed25519")]
    passphrase = connection.connect_kwargs.get("passphrase")
    for file in files:
        path = Path(file).expanduser()
        try:
            if is_encrypted(path.read_text()):
                paramiko.PKey.from_path(path, passphrase.encode() if passphrase else None)
        except (OSError, UnicodeDecodeError):
            continue  # no such key
        except Exception:  # paramiko and cryptography have many words for a wrong passphrase
            return str(path)
    return ""


def _dropped(error: Exception) -> bool:
    """Return whether sshd closed the connection before its banner, as it does over MaxStartups."""
    if isinstance(error, EOFError | ConnectionResetError | BrokenPipeError):
        return True
    return (
        isinstance(error, paramiko.SSHException)
        and not _silent(error)
        and any(words in str(error) for words in ("protocol banner", "Connection reset", "No existing session", "EOF"))
    )


def _silent(error: Exception) -> bool:
    """Return whether the other side took the connection, and never sent the banner of an sshd."""
    return "protocol banner" in str(error) and isinstance(error.__context__, TimeoutError)


def _explained(error: Exception, connection: fabric.Connection, tries: int, timeout: float) -> RefusedError:
    """Name the cause of an error, and the command that helps."""
    if isinstance(error, RefusedError):
        return error
    host, port, user = connection.host, connection.port, connection.user
    at, by_hand = f"{host} port {port}", _login_words(connection)
    if isinstance(error, socket.gaierror):
        return unresolved(host)
    if isinstance(error, paramiko.BadAuthenticationType) and "publickey" not in error.allowed_types:
        methods = ", ".join(error.allowed_types)
        return RefusedError(f"sshd at {at} accepts no keys ({methods})", "add -o transport=openssh")
    if isinstance(error, paramiko.AuthenticationException):
        return RefusedError(
            f"sshd at {at} accepts none of the keys for user {user}", login_fix("no-key", host, by_hand)
        )
    if isinstance(error, NoServerError):
        cause = "no-sshd" if "connection refused" in error.causes else "no-answer"
        return RefusedError(f"no SSH connection to {at} ({', '.join(error.causes)})", login_fix(cause, host))
    if _silent(error):
        what = (
            f"{at} accepts connections, and sends nothing for {BANNER * timeout:g} s: sshd hangs, or is another program"
        )
        return RefusedError(what, login_fix("no-sshd", host))
    if "no acceptable host key" in str(error):
        return RefusedError(
            f"sshd at {at} has no host key of the known type: another machine, or an attacker in between",
            f"{login_fix('changed-key', host)}, then connect with ssh once",
        )
    if _dropped(error):
        return RefusedError(
            f"sshd at {at} closed {tries} connections before the login",
            f"on {host}, check MaxStartups: {login_fix('max-startups', host)}",
        )
    if isinstance(error, TimeoutError) or "timed out" in str(error).lower() or "timeout" in str(error).lower():
        return RefusedError(
            f"no answer from {at} in {timeout:g} s: the host is off, or a firewall drops packets",
            login_fix("no-answer", host),
        )
    if isinstance(error, paramiko.ChannelException):
        return RefusedError(f"sshd at {at} refused a session ({error})", login_fix("max-sessions", host))
    if isinstance(error, OSError):
        return RefusedError(
            f"cannot connect to {at}: {str(error.strerror or error).lower()}", login_fix("no-answer", host)
        )
    return RefusedError(f"cannot log in at {at}: {error or type(error).__name__}", f"ssh -v {by_hand} true")


def _lifeline(transport: Any) -> lifeline.Stream:
    """Return the socket of a connection, the first one on its way through jump hosts, or its ProxyCommand's input."""
    sock = transport.sock
    if isinstance(sock, paramiko.Channel):
        return _lifeline(sock.get_transport())
    return cast("lifeline.Stream", sock.process.stdin if isinstance(sock, paramiko.ProxyCommand) else sock)


class SshStream:
    """One channel of one connection."""

    def __init__(self, connection: fabric.Connection, channel: paramiko.Channel) -> None:
        self._connection = connection
        self._channel = channel
        channel.settimeout(1.0)
        lifeline.hold(_lifeline(connection.transport))

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

    def code(self) -> int:
        """The command's exit code, once its output has ended; -1: the connection ended without one."""
        # The exit status comes just before or just behind the end of output.
        until = time.monotonic() + 1.0
        while not self._channel.exit_status_ready() and time.monotonic() < until:
            if not (self._connection.transport and self._connection.transport.is_active()):
                break
            time.sleep(0.01)  # paramiko gives no event that ends when the transport ends
        return self._channel.recv_exit_status() if self._channel.exit_status_ready() else -1

    def why(self) -> str:
        status = self.code()
        if status == 0:
            return ""
        return "the connection was lost" if status < 0 else f"its supervisor ended with exit code {status}"

    def refusal(self, lines: Sequence[str]) -> RefusedError | None:
        if not self._channel.exit_status_ready():
            return None
        return not_started(self._channel.recv_exit_status(), lines, str(self._connection.original_host))

    def close(self) -> None:
        # Not `Connection.close`: it waits for the thread of a connection that may be cut.
        self._channel.close()
        transport = self._connection.transport
        if transport is not None:
            close_in_background(transport.close)
