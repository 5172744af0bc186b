"""Connections by SSH. This is the only module that uses fabric, and it is imported only for SSH.

`config.py` says what OpenSSH would do for a host; `keys.py` has the user's keys, and checks the host's (fabric accepts
any). fabric and paramiko only connect; from there on the channel is ours.
"""

from __future__ import annotations

import logging
import random
import re
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from ddpkit.diagnosis.symptoms import login_fix
from ddpkit.errors import NO_THREAD, UsageError
from ddpkit.transports.channel import RefusedError, close_in_background, not_started, quoted_lines, unresolved
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.protocol import HasFileno, hold
from ddpkit.transports.ssh._paramiko import fabric, paramiko
from ddpkit.transports.ssh.certificates import refused_certificate
from ddpkit.transports.ssh.config import ConfigError, SshConfig, SshHost, last_jump
from ddpkit.transports.ssh.keys import Keys, KnownHosts, describe
from ddpkit.transports.ssh.program import (
    ANSWER_TIMEOUT,
    DROPPED,
    NO_ANSWER,
    NO_JOB,
    PROXY_SHOWN,
    Questions,
    explain_login,
    is_silent,
)
from ddpkit.transports.ssh.sockets import NoServerError, ProxySocket, dial

# Without a handler of ours Python would print paramiko's tracebacks to standard error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

TRIES = 8  # connections that a busy sshd (MaxStartups) may drop before it counts as refusing
BANNER = 0.8  # of the time for a connection: for the first word of an sshd
ASK = 3  # how often a person is asked for a passphrase
MOST_QUESTIONS = 4  # that a host may ask
PAUSE = (0.05, 0.4)  # seconds between two of them, at random and growing, so that not all come back at once
_KEY_KINDS = {"rsa-sha2-512": "ssh-rsa", "rsa-sha2-256": "ssh-rsa"}  # signatures, and the key they are made with


# ---- connections


class _PassphraseGiven(Exception):  # noqa: N818
    """A person gave the passphrase for a jump host's key: what failed without it may work now."""


class _Policy(paramiko.MissingHostKeyPolicy):
    """No key is known to paramiko itself: every one comes here, and is compared with what is known."""

    def __init__(self, known: KnownHosts, login: _Login) -> None:
        self._known, self._login = known, login

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        host = self._login.host
        self._known.check(host, self._known.name(host), key, self._login.spec.target)


class _Login:
    """One login, to a node or to a jump host."""

    def __init__(self, spec: HostSpec, host: SshHost, jump: _Login | None, timeout: float) -> None:
        self.spec = spec
        self.host = host
        self.jump = jump
        self.keys = Keys(host, None, "")
        self.passphrase: str | None = None
        self.proxy: ProxySocket | None = None
        self.lock = threading.Lock()  # of a jump host
        self.refused: RefusedError | None = None
        self.connection = fabric.Connection(
            host.hostname,
            user=host.user,
            port=host.port,
            config=fabric.Config(ssh_config=paramiko.SSHConfig(), lazy=True),  # nothing is read again
            connect_timeout=max(1, round(timeout)),
            gateway=False,
        )

    def close(self) -> None:
        self.connection.close()
        self.keys.close()


class Ssh:
    """Opens connections, each as the user's configuration says. Used by many threads at once."""

    by_hand = "ssh {}"

    def __init__(
        self, *, accept_new: bool, timeout: float, note: Callable[[str], None], config: SshConfig | None = None
    ) -> None:
        self._config = config or SshConfig()
        self._note = note
        self._known = KnownHosts(accept_new=accept_new, note=note)
        self.timeout = timeout
        self._passphrase: str | None = None
        self._asked = 0
        self._questions = Questions()
        # One connection to each jump host, for all the nodes behind it: sshd there would drop a crowd.
        self._jumps: dict[tuple[object, ...], _Login] = {}
        self._jumps_lock = threading.Lock()
        self._silent_agents: dict[str, bool] = {}
        self._agents_lock = threading.Lock()

    @property
    def asks(self) -> bool:
        return self._questions.pending

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        """Read the configuration of the first node: one that cannot be read is one error, and not one a node."""
        for spec, _ in calls[:1]:
            try:
                self._config.host(spec)
            except ConfigError as error:
                raise UsageError(error.what, error.fix) from None

    def login(self, spec: HostSpec) -> tuple[str, ...]:
        return ()

    def enter(self, spec: HostSpec, command: str, until: float) -> SshStream:
        """Log in, run a command, return its channel. `until` is a time.monotonic(). Raises RefusedError.

        A try is repeated after a passphrase was given, and after a pause where a busy sshd dropped the connection.
        """
        pause, dropped = PAUSE[0], 0
        for number in range(TRIES):
            login = self._login(spec, ())
            try:
                self._open_jumps(login)
                self._open(login)
                assert login.connection.transport is not None
                channel = login.connection.transport.open_session(timeout=self.timeout)
                channel.set_combine_stderr(True)
                channel.exec_command(command)
                if dropped:
                    times = "once" if dropped == 1 else f"{dropped} times"
                    self._note(f"{spec.label}: sshd dropped the connection {times} (MaxStartups?), then accepted it")
                return SshStream(login, channel)
            except _PassphraseGiven:
                login.close()
            except Exception as error:
                if str(error) == NO_THREAD:
                    login.close()
                    raise  # the node has no part in it
                if isinstance(error, paramiko.AuthenticationException) and login.keys.locked:
                    login.close()
                    self._ask_passphrase(login)
                    continue
                can_retry = number < TRIES - 1 and _dropped(error, login) and time.monotonic() + pause <= until
                refused = None if can_retry else _explained(error, login, number + 1, self.timeout)
                login.close()
                if refused is not None:
                    raise refused from None
                dropped += 1
                time.sleep(random.uniform(pause / 2, pause))  # jitter: nobody to await
                pause = min(pause * 2, 10 * PAUSE[1])
        raise RefusedError("its key needs a passphrase, and none was given", "ssh-add")  # of many keys

    def _login(self, spec: HostSpec, seen: tuple[str, ...], jumps: str | None = None) -> _Login:
        """Return a login that is not open. `seen`: hosts that are reached through this one.

        `jumps`: the way to it; None: as its own configuration has it, which counts for the first jump host alone.
        """
        host = self._config.host(spec)
        return _Login(
            spec, host, self._jump(spec, host, host.proxy_jump if jumps is None else jumps, seen), self.timeout
        )

    def _jump(self, spec: HostSpec, host: SshHost, jumps: str, seen: tuple[str, ...]) -> _Login | None:
        """Return the one login of a jump host, which all nodes behind it share."""
        if not jumps:
            return None
        if host.hostname in seen:
            circle = " through ".join((*seen, host.hostname))
            raise RefusedError(f"ProxyJump contains a cycle: {circle}", f"ssh -G {spec.target} | grep -i proxyjump")
        before, hop = last_jump(jumps)
        if hop is None:
            raise RefusedError(f"ProxyJump {jumps} cannot be read", "use -o transport=openssh")
        hop_host = self._config.host(hop)
        if (hop_host.hostname, hop_host.port) == (host.hostname, host.port):
            return None  # the host is its own jump host, by a pattern such as `Host *`
        login = self._login(hop, (*seen, host.hostname), before or None)
        key = (hop_host.hostname, hop_host.user, hop_host.port, id(login.jump))
        with self._jumps_lock:
            return self._jumps.setdefault(key, login)

    def _open(self, login: _Login) -> None:
        """Connect and log in."""
        if login.connection.is_connected:
            return
        host = login.host
        login.passphrase = self._passphrase
        login.keys = Keys(host, self._passphrase, "" if self._is_silent(host.agent) else host.agent)
        kwargs: dict[str, Any] = {
            # Sooner than the connection's own limit, of which paramiko says only "No existing session".
            "banner_timeout": BANNER * self.timeout,
            "auth_timeout": self.timeout,
            "channel_timeout": self.timeout,
            "auth_strategy": _Authentication(self, login),
            "sock": self._socket(login),
        }
        if kinds := self._known.keys(host, self._known.name(host)):
            # The server picks the first kind that we offer: it must be one by which we know it.
            offered: tuple[str, ...] = paramiko.Transport._preferred_keys  # type: ignore[attr-defined]
            unknown = [kind for kind in offered if _KEY_KINDS.get(kind, kind) not in kinds]
            if len(unknown) < len(offered):
                kwargs["disabled_algorithms"] = {"keys": unknown}
        login.connection.connect_kwargs = kwargs
        login.connection.client.set_missing_host_key_policy(_Policy(self._known, login))
        login.connection.open()
        login.keys.close()

    def _socket(self, login: _Login) -> Any:
        """Return a socket to the host of a login: through its jump host, through a ProxyCommand, or by TCP."""
        host = login.host
        if login.jump is not None:
            transport = login.jump.connection.transport
            assert transport is not None
            return transport.open_channel("direct-tcpip", (host.hostname, host.port), ("", 0), timeout=self.timeout)
        if host.proxy_command:
            login.proxy = ProxySocket(host.proxy_command)
            return login.proxy
        return dial(host.hostname, host.port, self.timeout, host.address_family, host.bind_address)

    def _is_silent(self, agent: str) -> bool:
        """Return whether an agent says nothing. Each is tried once."""
        with self._agents_lock:
            if agent and agent not in self._silent_agents:
                self._silent_agents[agent] = is_silent(agent, self._note)
            return self._silent_agents.get(agent, False)

    def _open_jumps(self, login: _Login) -> None:
        """Open the jump hosts of a login, the first one first. An error is kept, and raised again for all behind it."""
        hop = login.jump
        if hop is None:
            return
        self._open_jumps(hop)
        with hop.lock:
            if hop.refused is not None:
                raise hop.refused  # another node has waited for it
            try:
                self._open(hop)
            except Exception as error:
                if _dropped(error, hop) or str(error) == NO_THREAD:
                    raise
                if isinstance(error, paramiko.AuthenticationException) and hop.keys.locked:
                    hop.close()
                    self._ask_passphrase(hop)
                    raise _PassphraseGiven from None
                why = _explained(error, hop, 1, self.timeout)
                hop.refused = RefusedError(f"its jump host {hop.spec.label}: {why.what}", why.fix)
                raise hop.refused from None

    def close(self) -> None:
        self._questions.close()
        for hop in self._jumps.values():
            if hop.connection.transport is not None:
                close_in_background(hop.connection.transport.close)

    # ---- questions for a person

    def may_ask(self, login: _Login) -> None:
        """Raise RefusedError unless a person may be asked the questions of a host."""
        expected = self._config.expects_questions(login.spec)
        check_questions(login.spec.target, expected=expected, terminal=sys.stdin.isatty())

    def answer(self, host: str, questions: Sequence[tuple[str, bool]]) -> list[str]:
        """Ask a person each question of a host's second factor, one host at a time, without echo."""
        if len(questions) > MOST_QUESTIONS:
            raise paramiko.SSHException(f"{host} asks {len(questions)} questions at the same time")
        return [self._questions.ask_for(host, text) for text, _ in questions]

    def _ask_passphrase(self, login: _Login) -> None:
        """Ask for the passphrase of a key: once for all connections, and again where the answer was wrong."""
        file = login.keys.locked
        with self._questions.lock:
            if self._passphrase != login.passphrase:
                return  # somebody else has asked meanwhile
            if not sys.stdin.isatty() or self._asked == ASK:
                what = f"a passphrase is {'needed' if login.passphrase is None else 'wrong'} for {file}"
                raise RefusedError(what, f"ssh-add {shlex.quote(file)}")
            self._asked += 1
            self._passphrase = self._questions.ask(f"passphrase of {file}: ")


class _Authentication:
    """The authentication of one login: keys, then what a host asks from the terminal alone.

    paramiko's own answers questions from standard input, which may carry data for the script, and prints them as they
    come.
    """

    def __init__(self, ssh: Ssh, login: _Login) -> None:
        self._ssh, self._login = ssh, login

    def authenticate(self, transport: Any) -> None:
        """Log in, or raise AuthenticationException, or RefusedError where no question may be answered."""
        user = self._login.host.user
        last: Exception | None = None
        for key in self._login.keys:
            try:
                left = transport.auth_publickey(user, key)
            except paramiko.BadAuthenticationType as error:
                if "publickey" not in error.allowed_types:
                    raise
                last = error
            except paramiko.AuthenticationException as error:
                last = error
                said = getattr(transport.auth_handler, "banner", None) or b""  # the one of this answer
                if NO_JOB in (text := said.decode(errors="replace")):
                    last = explain_login([text], self._login.spec) or last
                    break
            else:
                if set(left) & {"keyboard-interactive", "password"}:
                    self._second_factor(transport)
                elif left:
                    continue  # another key as well
                return
        if last is None:
            transport.auth_none(user)  # raises what the host accepts
            return
        raise last

    def _second_factor(self, transport: Any) -> None:
        login = self._login
        self._ssh.may_ask(login)
        transport.auth_timeout = ANSWER_TIMEOUT
        try:
            transport.auth_interactive(
                login.host.user, lambda title, text, questions: self._ssh.answer(login.spec.name, questions)
            )
        except paramiko.BadAuthenticationType:
            what = "sshd requires a password after the key, and ddpkit never sends passwords"
            raise RefusedError(what, "launch from a terminal with -o transport=openssh") from None
        except paramiko.AuthenticationException:
            raise RefusedError(NO_ANSWER, login_fix("second-factor", "", login.spec.target)) from None


def check_questions(target: str, *, expected: bool, terminal: bool) -> None:
    """Raise RefusedError unless the configuration expects a second factor of this host, and a terminal can answer."""
    what = "sshd accepted the key and requires a second factor (keyboard-interactive)"
    if not expected:
        fix = f"ssh {target} true; if you expect its question, set KbdInteractiveAuthentication yes in ~/.ssh/config"
        raise RefusedError(f"{what}, which ~/.ssh/config does not expect", fix)
    if not terminal:
        raise RefusedError(f"{what}, and standard input is not a terminal", "launch from a terminal")


def _dropped(error: Exception, login: _Login) -> bool:
    """Return whether sshd closed the connection before its banner, as it does over MaxStartups."""
    if login.proxy is not None and not login.proxy.greeted and not re.search(DROPPED, "\n".join(login.proxy.said())):
        return login.proxy.code() == 0 and not login.proxy.said()  # that of the host, behind a proxy that says nothing
    if isinstance(error, EOFError | ConnectionResetError | BrokenPipeError):
        return True
    return (
        isinstance(error, paramiko.SSHException)
        and not _sent_no_banner(error)
        and any(words in str(error) for words in ("protocol banner", "Connection reset", "No existing session", "EOF"))
    )


def _sent_no_banner(error: Exception) -> bool:
    """Return whether the other side took the connection, and never sent the banner of an sshd."""
    return "protocol banner" in str(error) and isinstance(error.__context__, TimeoutError)


def _explained(error: Exception, login: _Login, tries: int, timeout: float) -> RefusedError:
    """Name the cause of an error, and the command that helps."""
    if isinstance(error, RefusedError):
        return error
    host, port, user = login.host.hostname, login.host.port, login.host.user
    at, by_hand = f"{host} port {port}", login.spec.target
    if login.proxy is not None and not login.proxy.greeted:
        return _explain_proxy(login.proxy, by_hand, timeout)
    if isinstance(error, socket.gaierror):
        return unresolved(host)
    if isinstance(error, paramiko.BadAuthenticationType) and "publickey" not in error.allowed_types:
        methods = ", ".join(error.allowed_types)
        return RefusedError(f"sshd at {at} accepts no keys ({methods})", "add -o transport=openssh")
    if isinstance(error, paramiko.AuthenticationException):
        return _no_key(f"sshd at {at} accepts none of the keys for user {user}", login)
    if isinstance(error, NoServerError):
        cause = "no-sshd" if "connection refused" in error.causes else "no-answer"
        return RefusedError(f"no SSH connection to {at} ({', '.join(error.causes)})", login_fix(cause, host))
    if _sent_no_banner(error):
        what = (
            f"{at} accepts connections, and sends nothing for {BANNER * timeout:g} s: sshd hangs, or is another program"
        )
        return RefusedError(what, login_fix("no-sshd", host))
    if "no acceptable host key" in str(error):
        return RefusedError(
            f"sshd at {at} has no host key of the known type: another machine, or an attacker in between",
            f"{login_fix('changed-key', host)}, then connect with ssh once",
        )
    if _dropped(error, login):
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


def _no_key(what: str, login: _Login) -> RefusedError:
    """Explain a login of which no key was accepted. Names a certificate, or a key that only OpenSSH can use."""
    certificate = refused_certificate(login.host)
    only_ssh = login.keys.unusable or ("" if certificate.certain else next(iter(login.host.certificate_files), ""))
    if only_ssh:
        what += f": {certificate.why}" if certificate.certain else ""
        return RefusedError(f"{what}; {only_ssh} is of a kind that only OpenSSH can use", "add -o transport=openssh")
    if certificate.why:
        return RefusedError(f"{what}: {certificate.why}", certificate.look)
    what += describe(login.keys, login.host.identity_files)
    return RefusedError(what, login_fix("no-key", login.host.hostname, login.spec.target))


def _explain_proxy(proxy: ProxySocket, target: str, timeout: float) -> RefusedError:
    """Explain a login by what the user's ProxyCommand did: no SSH server answered through it."""
    code, said = proxy.code(), proxy.said()
    if code is not None:
        how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    else:
        how = f"connects to no SSH server in {BANNER * timeout:g} s" + ("" if said else ", and says nothing")
    what = f"its proxy (ProxyCommand {proxy.command[:PROXY_SHOWN]}) {how}{quoted_lines(said)}"
    return RefusedError(what, f"ssh -v {target} true")


def _lifeline(transport: Any) -> HasFileno:
    """Return the socket of a connection, the first one on its way through jump hosts."""
    sock = transport.sock
    return _lifeline(sock.get_transport()) if isinstance(sock, paramiko.Channel) else cast("HasFileno", sock)


class SshStream:
    """One channel of one connection."""

    def __init__(self, login: _Login, channel: paramiko.Channel) -> None:
        self._connection = login.connection
        self._name = login.spec.name
        self._channel = channel
        channel.settimeout(1.0)
        hold(_lifeline(login.connection.transport))

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
        return not_started(self._channel.recv_exit_status(), lines, self._name)

    def close(self) -> None:
        # Not `Connection.close`: it waits for the thread of a connection that may be cut.
        with suppress(EOFError):  # the other side has closed the connection
            self._channel.close()
        transport = self._connection.transport
        if transport is not None:
            close_in_background(transport.close)
