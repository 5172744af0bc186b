"""A login host: its scheduler's commands, and the files of jobs there, over one SSH connection.

The host needs Python 3.8 and nothing of ddpkit: a supervisor is sent over the connection, as to every node. It ends
with the connection. After a lost connection the next call connects again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ddpkit.errors import DdpkitError, LaunchError, PreflightError
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.host_names import Via
from ddpkit.launchers.node_facts import words_of_node
from ddpkit.launchers.shell import quote
from ddpkit.machine import COMMAND_TIMEOUT, HERE, NOT_RUN, TIMED_OUT, WRITE_LIMIT, LostError, Reply, Stream
from ddpkit.transports.hosts import HostSpec, refusal
from ddpkit.transports.pool import Connector, NodePool
from ddpkit.transports.transport import SshTransport

ANSWER_LIMIT = 15.0  # seconds for the way of a call and its answer
PAUSES = (1.0, 30.0)  # seconds between two connections, the first and the longest
FEED = 0.2  # seconds that a program's output is awaited in one call: other calls wait meanwhile


class LoginHost:
    """Connects at the first call. Used by many threads at once."""

    pause = 0.5

    def __init__(
        self,
        via: Via,
        options: NodeOptions,
        note: Callable[[str], None] = lambda _: None,
        control: Callable[[], str] | None = None,
    ) -> None:
        """Take the host, and the options of its connection. `note` gets lines for a person.

        `control`: with -o transport=openssh, returns the path of the control socket of the launch, which is another
        process. Its connection is used if it is open: the host does not ask again.
        """
        self.spec = HostSpec(name=via.host, user=via.user, port=via.port)
        self.place = self.spec.label
        self._options = options
        self._note = note
        self._python = via.python
        self._pool: NodePool | None = None
        self._lock = threading.Lock()  # one call at a time
        self._was_up = False  # a call got an answer: from then on a loss is a LostError
        self._why = ""  # the reason of the last failure
        self._tries = 0  # failures in a row
        self._try_at = 0.0  # time.monotonic() before which nothing connects
        self._way: Connector | None = None
        self._control = control
        self.control_file: Path | None = None  # of this launch: for the path of its control socket
        self._shown = False  # the control file has the socket of this connection

    # ---- connection

    def _connect(self) -> NodePool:
        """Connect, or raise the reason of the last try. Raises LostError; at first LaunchError."""
        if time.monotonic() < self._try_at:
            raise LostError(self._why)
        pool = NodePool([self.spec], self.way(), self._options.heartbeat_timeout, self._python)
        problems = pool.connect()
        if problems:
            self._pool = pool
            self._drop(problems[0].what)
            if not self._was_up:
                raise refusal(problems, 1)
            raise LostError(self._why)
        self._pool = pool
        return pool

    def way(self) -> Connector:
        """Return the connector of this connection."""
        if self._way is None:
            self._way = self._connector()
        return self._way

    def _connector(self) -> Connector:
        if self._options.transport != "openssh" or self._control is None:
            return SshTransport.connector(self._options, self._note)
        from ddpkit.transports.ssh.openssh import OpenSsh

        limit, control = self._options.connect_timeout, self._control()
        return OpenSsh(accept_new=False, timeout=limit, note=self._note, control=control)

    def _show_control(self) -> None:
        """Write the path of the control socket, as soon as the run has a directory."""
        if self._options.transport != "openssh" or self.control_file is None or self._shown:
            return
        if self.control_file.parent.is_dir():
            options = self.way().login(self.spec)
            self._shown = True
            is_ours = options[:1] == ("-S",)  # else ssh uses a control master of the user's, and needs no path
            with suppress(OSError):
                HERE.write([(str(self.control_file), options[1].encode() if is_ours else b"")])

    def _drop(self, why: str) -> None:
        """Close a connection that does not answer. The next one waits, longer after each failure."""
        self._why = why
        self._try_at = time.monotonic() + min(PAUSES[0] * 2**self._tries, PAUSES[1])
        self._tries += 1
        self.close()

    def close(self) -> None:
        """Close the connection. The next call connects again."""
        pool, self._pool, self._way, self._shown = self._pool, None, None, False
        if pool is not None:
            pool.close()

    def call(self, function: str, limit: float = 0.0, **args: object) -> Any:
        """Call a function of `node/calls/login_host.py`. Raises OSError, LostError; LaunchError at the first call."""
        with self._lock:
            pool = self._pool or self._connect()
            answers, silent = pool.ask(f"login_host.{function}", {self.place: args}, limit + ANSWER_LIMIT)
            if silent:
                self._drop(silent[0].what)
                raise LostError(self._why) if self._was_up else refusal(silent, 1)
            self._was_up, self._tries = True, 0
            self._show_control()
        value, number, path = answers[self.place]
        if number:
            raise OSError(number, os.strerror(number), path)
        return value

    # ---- commands

    def run(
        self, argv: Sequence[str], changes: Mapping[str, str | None] = {}, timeout: float = COMMAND_TIMEOUT
    ) -> Reply:
        try:
            code, output, errors = self.call("run", timeout, argv=list(argv), changes=dict(changes), timeout=timeout)
        except FileNotFoundError:
            return Reply(exit_code=NOT_RUN, error=f"{argv[0]} not found on {self.place}", missing=True)
        except LostError as lost:
            error = f"lost the connection to {self.place}: {lost}"
            return Reply(exit_code=NOT_RUN, error=error, timed_out=True)
        except OSError as problem:
            return Reply(exit_code=NOT_RUN, error=f"{argv[0]}: {problem.strerror}")
        except DdpkitError as problem:
            return Reply(exit_code=NOT_RUN, error=" ".join(problem.message.split()))
        if code is None:
            error = f"{argv[0]} did not answer in {timeout:g} s on {self.place}, and was ended"
            return Reply(exit_code=TIMED_OUT, error=error, timed_out=True)
        return Reply(exit_code=code, output=str(output), error=" ".join(str(errors).split()))

    def open(self, argv: Sequence[str], changes: Mapping[str, str | None]) -> Stream:
        return _RemoteStream(self, self.call("start", argv=list(argv), changes=dict(changes)))

    # ---- files

    def make_folder(self, path: str) -> None:
        self.call("make_folder", path=path)

    def write(self, files: Sequence[tuple[str, bytes]]) -> None:
        self.call("write", files=[[path, content.decode("latin-1")] for path, content in files])

    def find(self, pattern: str) -> list[str]:
        paths: list[str] = self.call("find", pattern=pattern)
        return paths

    def read(self, path: str, offset: int, size: int) -> bytes:
        return _bytes(self.call("read", ANSWER_LIMIT, path=path, offset=offset, size=size))[:size]


def _bytes(text: object) -> bytes:
    """Return the bytes that a host sends as characters of Latin-1."""
    return str(text).encode("latin-1", "replace")


class _RemoteStream:
    """A program on the login host. It ends with the connection."""

    def __init__(self, host: LoginHost, pid: int) -> None:
        self._host = host
        self._pid = pid
        self._input = b""
        self.ended = False

    def write(self, data: bytes, limit: float = WRITE_LIMIT) -> None:
        self._input += data

    def read(self, seconds: float) -> tuple[bytes, bytes]:
        if self.ended:
            raise EOFError
        data, self._input = self._input, b""
        try:
            output, errors, self.ended = self._host.call(
                "exchange", pid=self._pid, data=data.decode("latin-1"), seconds=min(seconds, FEED)
            )
        except OSError as lost:
            self.ended = True
            return b"", f"{lost}".encode()
        return _bytes(output), _bytes(errors)

    def close(self, patience: float) -> None:
        if not self.ended or patience:
            with suppress(OSError):
                self._host.call("stop", patience, pid=self._pid, patience=patience)


def of_record(via: Via, control: Callable[[], str]) -> LoginHost:
    """Return the login host of a job, from its record."""
    options = NodeOptions(transport=via.transport, connect_timeout=via.connect_timeout)
    return LoginHost(via, options, control=control)


def check_answer(facts: Mapping[str, Any], host: LoginHost, *, script: str, python: str, synced: bool) -> None:
    """Check what a login host reports (`login_host.look`). `synced`: the directory comes later.

    Raises LaunchError, PreflightError.
    """
    where, ssh = host.place, f"ssh {host.spec.target}"
    if not facts["scheduler"]:
        raise LaunchError(f"sbatch not found on {where}", f"{ssh} command -v sbatch; or --via another login host")
    if not facts["python"]:
        raise PreflightError(f"Python {python} not found on {where}", f"--python PATH; {ssh} command -v python3")
    if facts["strangers"]:
        who = words_of_node(", ".join(map(str, facts["strangers"])))
        what = f"{who} can put another directory in the place of {facts['log_dir']} on {where}"
        fix = f"{ssh} namei -l {quote(facts['log_dir'])}, or --log-dir DIR in a directory that only you can change"
        raise PreflightError(f"{what}, from which the job would load programs", fix)
    if synced:
        return
    if facts["no_workdir"]:
        what = f"directory {facts['workdir']} on {where}: {facts['no_workdir'].lower()}"
        raise PreflightError(what, "--workdir DIR of that host, or --sync")
    if not facts["has_script"]:
        raise PreflightError(f"{script} not found in {facts['workdir']} on {where}", "add --sync, or --workdir DIR")
