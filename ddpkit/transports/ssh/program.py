"""The ssh program of this machine, run for a launch: its options, input, questions, and the causes of its errors.

`openssh.py` and `pdsh.py` both start ssh below a supervisor on this machine, which works in a private directory. The
supervisor ends every ssh and removes the directory when the launcher ends, also by SIGKILL.
"""

from __future__ import annotations

import getpass
import os
import re
import secrets
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import termios
import textwrap
import threading
import time
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ddpkit.diagnosis.symptoms import login_fix
from ddpkit.errors import no_folder
from ddpkit.launchers.events import Event
from ddpkit.launchers.shell import join, quote
from ddpkit.node import owned
from ddpkit.node.supervision.scratch_dir import KIND
from ddpkit.transports.channel import RefusedError, close_in_background, not_started, quoted_lines, unresolved
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.protocol import LocalLink, program_request
from ddpkit.transports.ssh.certificates import Refused, refused_certificate
from ddpkit.transports.ssh.config import AGENT_LIMIT, ConfigError, SshConfig, is_encrypted

ANSWER_TIMEOUT = 300.0  # seconds to answer the questions of a second factor, for all hosts together
QUESTION_LENGTH = 120  # characters of one line of a question that are shown
QUESTION_LINES = 20
NO_ANSWER = "its sshd requires a second factor or a password, and the answer is missing or wrong"


class Questions:
    """One question at a time, from any thread."""

    def __init__(self) -> None:
        self.pending = False  # a person is to answer now
        self.answered_at = 0.0  # time.monotonic() of the last answer
        self.lock = threading.Lock()
        self._before: list[Any] | None = None  # attributes of the terminal

    def ask(self, text: str) -> str:
        """Return the answer, typed without echo. Raises EOFError. The caller holds the lock."""
        self.pending = True
        with suppress(OSError, ValueError, termios.error):
            self._before = termios.tcgetattr(sys.stdin)
        try:
            return getpass.getpass(text)
        finally:
            self._before = None
            self.answered_at = time.monotonic()
            self.pending = False

    def ask_for(self, host: str, text: str) -> str:
        """Ask the question of a host. Raises EOFError."""
        with self.lock:
            return self.ask(f"{question_of_host(host, text, shutil.get_terminal_size().columns)} ")

    def close(self) -> None:
        """Turn the echo on again where a launch ends before the answer."""
        if self._before is not None:
            with suppress(OSError, ValueError, termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSANOW, self._before)


def question_of_host(host: str, text: str, columns: int) -> str:
    """Return the question of a host with its name in front of each row, so that none looks like one of ddpkit."""
    rows = []
    for line in printable(text).split("\n"):
        room = columns - len(f"{host} asks: ") - 1
        width = max(1, room if line.isascii() else room // 2)  # a character may have two columns
        rows += textwrap.wrap(line, width) or [""]
    return f"{host} asks: " + f"\n{host}: ".join(rows)


def printable(text: str) -> str:
    """A host's question without control characters, of QUESTION_LINES lines of QUESTION_LENGTH characters at most."""
    lines = text.strip().splitlines()[:QUESTION_LINES]
    return "\n".join("".join(char for char in line[:QUESTION_LENGTH] if char.isprintable()).strip() for line in lines)


# sshd drops connections over MaxStartups before the login: ssh has read nothing yet, and may try again.
DROPPED = "kex_exchange_identification|Connection closed by|Connection reset by"
# pam_slurm_adopt's and pam_slurm's words: sshd sends them after the key was accepted, and closes the connection.
NO_JOB = "no active jobs on this node"
SSH_ITSELF = 255  # exit code of ssh for an error of its own, and not of the program that it ran
TRIES = 8
PROXY_SHOWN = 120  # characters of a ProxyCommand
WRITE_LIMIT = 5.0  # seconds that ssh may accept no input
LONGEST_FOLDER = 70  # characters: the path of a socket has at most 104 (macOS), and ssh adds 17 of its own
# Pattern of OpenSSH's message, our words, and the cause, a key of LOGIN_FIXES. The first one that fits counts.
_LOGIN_ERRORS: tuple[tuple[str, str, str], ...] = (
    ("is marked as revoked", "its host key was revoked", "revoked-key"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key has changed", "changed-key"),
    ("Host key verification failed", "its host key is not known", "unknown-key"),
    ("Could not resolve hostname", "its name does not resolve on this machine", "no-name"),
    ("Connection refused", "no SSH server at its port (connection refused)", "no-sshd"),
    ("No route to host", "no SSH connection (no route to host)", "no-answer"),
    ("Network is unreachable", "no route to its address (network is unreachable)", "no-address"),
    ("timed out", "no answer in time: the host is off, or a firewall drops packets", "no-answer"),
    (
        r"Permission denied \((?!.*publickey)[^)]*(?:keyboard-interactive|password)",
        NO_ANSWER,
        "second-factor",
    ),
    (NO_JOB, "this site permits SSH to a node only while one of your jobs runs on it", "no-job"),
    ("Permission denied", "its sshd accepts none of the keys", "no-key"),
    (DROPPED, "its sshd closed every connection before the login", "max-startups"),
)
# A user's configuration may set these for interactive sessions. OpenSSH has them since 8.7.
_NOT_FOR_PEOPLE = ("-oStdinNull=no", "-oForkAfterAuthentication=no", "-oSessionType=default")


def against_config(ssh: str) -> tuple[str, ...]:
    """Return options against the configuration of interactive sessions. An older ssh has no such configuration."""
    known = subprocess.run([ssh, *_NOT_FOR_PEOPLE, "-V"], capture_output=True, check=False).returncode == 0
    return _NOT_FOR_PEOPLE if known else ()


def user_and_port(spec: HostSpec) -> list[str]:
    """Return the options of ssh for the user and the port of a host."""
    return [*(("-l", spec.user) if spec.user else ()), *(("-p", str(spec.port)) if spec.port else ())]


def explain_login(lines: Sequence[str], spec: HostSpec) -> RefusedError | None:
    """Return the cause and the fix of a failed login from the messages of ssh. None: they are of no known kind."""
    text = "\n".join(lines)
    if "UNKNOWN port" in text and (proxy := _proxy_command(spec)):  # so ssh names the other side of a proxy
        what = f"its proxy (ProxyCommand {proxy}) connects to no SSH server{quoted_lines(lines)}"
        return RefusedError(what, f"ssh -v {spec.target} true")
    for pattern, what, cause in _LOGIN_ERRORS:
        if re.search(pattern, text):
            if cause == "no-name":
                return unresolved(spec.name)
            if cause == "no-key" and (locked := _locked_key(spec)):
                return RefusedError(f"{what}, and {locked} needs a passphrase", f"ssh-add {quote(locked)}")
            if cause == "no-key" and (certificate := _certificate(spec)).why:
                return RefusedError(f"{what}: {certificate.why}", certificate.look)
            return RefusedError(what, login_fix(cause, spec.name, spec.target))
    return None


def _locked_key(spec: HostSpec) -> str:
    """Return the first file of a key that ssh cannot read without a person, and that no agent has; empty: none."""
    try:
        files = SshConfig().host(spec).identity_files
        in_agent = subprocess.run(["ssh-add", "-L"], capture_output=True, text=True, check=False, timeout=5).stdout
    except (ConfigError, OSError, subprocess.TimeoutExpired):
        return ""
    for path in map(Path, files):
        with suppress(OSError, ValueError):
            public = Path(f"{path}.pub").read_text().split()[1] if Path(f"{path}.pub").exists() else ""
            if is_encrypted(path.read_text()) and not (public and public in in_agent):
                return str(path)
    return ""


def _certificate(spec: HostSpec) -> Refused:
    try:
        return refused_certificate(SshConfig().host(spec))
    except ConfigError:
        return Refused()


def _proxy_command(spec: HostSpec) -> str:
    """Return the ProxyCommand of a host whose login has failed; empty: it has none."""
    try:
        return SshConfig().host(spec).proxy_command[:PROXY_SHOWN]
    except ConfigError:
        return ""


def no_login(lines: Sequence[str], spec: HostSpec) -> RefusedError:
    """Return the error of an ssh that ended with SSH_ITSELF."""
    return explain_login(lines, spec) or RefusedError(
        f"ssh could not log in{quoted_lines(lines)}", f"{join(spec.by_hand)} true"
    )


def _is_ready(fd: int, wanted: int, seconds: float) -> bool:
    """Wait until a descriptor is ready. (`select` takes none above 1023.)"""
    poll = select.poll()
    poll.register(fd, wanted)
    return bool(poll.poll(seconds * 1000))


def make_pipe(path: str) -> int:
    """Make a named pipe, and open it for both ways: no wait for the other side, and its end of file is our end."""
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


class PrivateFolder:
    """A private directory on this machine, and one program in it below a supervisor, which removes both."""

    def __init__(self, name: str) -> None:
        try:
            folder = owned.temporary_directory(tempfile.gettempdir())
        except OSError as error:
            raise no_folder(error) from None
        folder = "/tmp" if len(folder) > LONGEST_FOLDER - 35 else folder  # a socket's path is short
        self.path = f"{folder}/ddpkit-{name}-{secrets.token_hex(8)}"
        self._link = LocalLink(self.path)

    def make(self, post: Callable[[Event | None], None]) -> None:
        """Start the supervisor, then make the directory: at every moment somebody removes it. Raises UsageError."""
        self._link.open(post)
        try:
            owned.check_above(str(Path(self.path).parent))
            owned.make_directory(self.path, KIND)
        except OSError as error:
            raise no_folder(error) from None

    def write(self, name: str, text: str) -> str:
        """Write a program. Returns its path."""
        path = f"{self.path}/{name}"
        owned.create_file(path, text.encode(), 0o700)
        return path

    def run(self, argv: list[str], env: dict[str, str]) -> None:
        """Start the one program. The events of its output and its end go to `post`."""
        self._link.request(program_request(argv[0], argv, env))

    def close(self) -> None:
        close_in_background(self._link.close)


class SshStream:
    """One ssh program: a byte stream over its input and output, the named pipes `PATH.in` and `PATH.out`.

    At the end of this process ssh reads its end of file.
    """

    def __init__(self, path: str, spec: HostSpec) -> None:
        self.spec = spec
        self.path = path
        self._pipe = self._output = -1
        self._writing, self._reading, self._changing = threading.Lock(), threading.Lock(), threading.Lock()
        self._ended = False
        self._closed = False
        self._why = ""
        self._code: int | None = None

    def open(self) -> None:
        self._pipe = make_pipe(f"{self.path}.in")
        # For both as well: it has no end of file before ssh opens it, and we can wake up its reader.
        self._output = make_pipe(f"{self.path}.out")
        os.set_blocking(self._pipe, False)
        os.set_blocking(self._output, False)

    def read(self) -> bytes:
        with self._reading:
            ended = self._ended or self._closed
            if not self._closed and _is_ready(self._output, select.POLLIN, 0.0 if ended else 1.0):
                return os.read(self._output, 1 << 16)
        if ended:
            raise EOFError
        return b""

    def write(self, data: bytes) -> None:
        until = time.monotonic() + WRITE_LIMIT
        with self._writing:
            while data:
                # A pipe that is open for both here reports no reader that is gone.
                if self._ended or self._closed or time.monotonic() > until:
                    raise OSError("ssh accepts no input")
                try:
                    data = data[os.write(self._pipe, data) :]
                except BlockingIOError:
                    _is_ready(self._pipe, select.POLLOUT, 0.1)

    def end(self, why: str, code: int | None = None) -> None:
        with self._changing:
            if not self._ended:
                self._why, self._code = why, code
            self._ended = True
        self._wake()

    def _wake(self) -> None:
        """Add an empty line after everything that ssh wrote."""
        with self._changing, suppress(OSError):  # full: then nobody sleeps
            if self._output >= 0:  # else its number can be that of another pipe by now
                os.write(self._output, b"\n")

    def code(self) -> int:
        """The exit code of ssh, once its output has ended; -1: the connection ended without one."""
        return -1 if self._code in (None, SSH_ITSELF) else self._code or 0

    def why(self) -> str:
        return "the connection was lost" if self._code == SSH_ITSELF else self._why

    def refusal(self, lines: Sequence[str]) -> RefusedError | None:
        if self._code == SSH_ITSELF:
            return no_login(lines, self.spec)
        return explain_login(lines, self.spec) or (
            not_started(self._code, lines, self.spec.name) if self._code is not None else None
        )

    def close(self) -> None:
        with self._changing:
            if self._closed:
                return
            self._closed = True
        with self._writing:
            if self._pipe >= 0:
                os.close(self._pipe)
                self._pipe = -1
        self._wake()
        with self._reading, self._changing:
            if self._output >= 0:
                os.close(self._output)
            self._output = -1


# ---- agents

_LIST = b"\0\0\0\1\x0b"  # SSH_AGENTC_REQUEST_IDENTITIES, with its length in front


def leave_out_if_silent(
    environ: MutableMapping[str, str], note: Callable[[str], None], limit: float = AGENT_LIMIT
) -> None:
    """Take an agent that says nothing away from this process and its children. One that is gone does no harm.

    Such an agent was forwarded over a dead connection, or waits for somebody to unlock it. OpenSSH and paramiko would
    wait for it for ever.
    """
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
