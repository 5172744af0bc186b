"""Machines with the commands of a scheduler, and with the files of its jobs.

A command runs to its end within a time limit, with nothing on its standard input. `HERE` is this machine; a login host
is `ddpkit.transports.login_host.LoginHost`.

The controller of a scheduler is shared by all users of a site. `Poller` says when a process may query it.
"""

from __future__ import annotations

import errno
import glob
import os
import select
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from math import inf
from pathlib import Path
from typing import NamedTuple, Protocol

from ddpkit.files import make_directories, write_atomically

COMMAND_TIMEOUT = 30.0  # seconds; a command may wait for its controller
END_TIME = 10.0  # seconds after SIGTERM, then SIGKILL
WRITE_LIMIT = 5.0  # seconds that a running program may accept no input
NOT_RUN = 127  # exit codes of a shell for a command that could not run, and of `timeout` for one that did not end
TIMED_OUT = 124


class Reply(NamedTuple):
    """Exit code and output of a command. `error` is its standard error, or the reason why it has no end, in a line."""

    exit_code: int
    output: str = ""
    error: str = ""
    missing: bool = False  # there is no such program
    timed_out: bool = False  # it was ended; `error` has its standard error until then


def run_command(argv: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = COMMAND_TIMEOUT) -> Reply:
    """Run a command to its end. `env` replaces the environment; `timeout` is in seconds. Raises nothing."""
    try:
        # With a group of its own: what the command has started may hold its output open when it is ended.
        process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as problem:
        path = (os.environ if env is None else env).get("PATH")
        # As in `child.is_absent`: the error may be that of a directory in PATH which is closed to this user.
        may_be_absent = isinstance(problem, PermissionError) and "/" not in argv[0]
        if isinstance(problem, FileNotFoundError) or (may_be_absent and shutil.which(argv[0], os.F_OK, path) is None):
            error = f"{argv[0]} not found on {os.uname().nodename}"
            return Reply(exit_code=NOT_RUN, error=error, missing=True)
        return Reply(exit_code=NOT_RUN, error=f"{argv[0]}: {problem.strerror}")
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as problem:
        _end_group(process)
        written = " ".join(decode(problem.stderr).split())
        error = f"{argv[0]} did not answer in {timeout:g} s, and was ended{': ' + written if written else ''}"
        return Reply(exit_code=TIMED_OUT, error=error, timed_out=True)
    except BaseException:
        _end_group(process)
        raise
    return Reply(exit_code=process.returncode, output=output, error=" ".join(errors.split()))


def _end_group(process: subprocess.Popen[str]) -> None:
    """End a command with what it has started, and give up its output: a process that left the group may hold it."""
    if process.poll() is None:  # else its number may be another's
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_TIME)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


class LostError(OSError):
    """The connection to a machine is lost. The text has the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ENOTCONN, why)

    def __str__(self) -> str:
        return f"{self.strerror}"


class Stream(Protocol):
    """A program that runs, with its input and its output."""

    @property
    def ended(self) -> bool: ...

    def write(self, data: bytes, limit: float = WRITE_LIMIT) -> None:
        """Send all of it; to a program that has ended it does nothing.

        Raises OSError where the program takes none of it for `limit` seconds, or the stream is closed.
        """

    def read(self, seconds: float) -> tuple[bytes, bytes]:
        """Wait at most so long. Return new output and error output. Raises EOFError after the end of both."""

    def close(self, patience: float) -> None:
        """Close its input, wait so many seconds for its end, then end it."""


class Machine(Protocol):
    """A machine with a scheduler's commands. Used by many threads at once."""

    @property
    def place(self) -> str:
        """Its name in messages."""

    @property
    def pause(self) -> float:
        """Seconds between two looks at a file that grows."""

    def run(
        self, argv: Sequence[str], changes: Mapping[str, str | None] = {}, timeout: float = COMMAND_TIMEOUT
    ) -> Reply:
        """Run a command to its end; `changes` in its environment, None unsets a variable. Raises nothing."""

    def open(self, argv: Sequence[str], changes: Mapping[str, str | None]) -> Stream:
        """Start a program. Raises OSError."""

    def make_folder(self, path: str) -> None:
        """Make a directory that this user can write to. Raises OSError."""

    def write(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write files, each a path and its content. No other user may change them. Raises OSError."""

    def find(self, pattern: str) -> list[str]:
        """Return the sorted paths that match a pattern of `glob`. Raises LostError."""

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return at most `size` bytes of a file; a negative offset counts from its end. Raises OSError."""


class ThisMachine:
    """This machine."""

    place = "this machine"
    pause = 0.1

    def run(
        self, argv: Sequence[str], changes: Mapping[str, str | None] = {}, timeout: float = COMMAND_TIMEOUT
    ) -> Reply:
        return run_command(argv, changed(changes) if changes else None, timeout)

    def open(self, argv: Sequence[str], changes: Mapping[str, str | None]) -> Stream:
        return _LocalStream(argv, changed(changes))

    def make_folder(self, path: str) -> None:
        make_directories(Path(path))
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    def write(self, files: Sequence[tuple[str, bytes]]) -> None:
        for path, content in files:
            # Python makes its cache by the umask of a rank: another user could put a program into it.
            make_directories(Path(path).with_name("__pycache__") if path.endswith(".py") else Path(path).parent)
            write_atomically(Path(path), content, 0o600)

    def find(self, pattern: str) -> list[str]:
        return sorted(glob.glob(pattern))  # noqa: PTH207  # it is one pattern, maybe absolute

    def read(self, path: str, offset: int, size: int) -> bytes:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            file.seek(max(0, file.seek(0, os.SEEK_END) + offset) if offset < 0 else offset)
            return file.read(size)


HERE: Machine = ThisMachine()


class _LocalStream:
    """A program on this machine: see `Stream`."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C of the terminal is not for it
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._open = [self._process.stdout.fileno(), self._process.stderr.fileno()]
        self._output = self._open[0]
        self._input = self._process.stdin.fileno()
        os.set_blocking(self._input, False)
        self._writing = threading.Lock()
        self._closed = False

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def write(self, data: bytes, limit: float = WRITE_LIMIT) -> None:
        poll = select.poll()
        with self._writing, suppress(BrokenPipeError):
            until = time.monotonic() + limit
            poll.register(self._input, select.POLLOUT)
            while data:
                if self._closed:
                    raise OSError(errno.EBADF, "its input is closed")
                if time.monotonic() > until:
                    raise OSError(errno.ETIMEDOUT, f"it accepted no input for {limit:.0f} s")
                try:
                    data = data[os.write(self._input, data) :]
                    until = time.monotonic() + limit
                except BlockingIOError:
                    poll.poll(100)

    def read(self, seconds: float) -> tuple[bytes, bytes]:
        if not self._open:
            raise EOFError
        output = errors = b""
        poll = select.poll()  # `select` takes no descriptor above 1023
        for fd in self._open:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(seconds * 1000):
            data = os.read(fd, 1 << 16)
            if not data:
                self._open.remove(fd)
            elif fd == self._output:
                output = data
            else:
                errors = data
        return output, errors

    def close(self, patience: float) -> None:
        self._closed = True  # ends a write
        with self._writing:
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            try:
                self._process.wait(1.0)
            except subprocess.TimeoutExpired:  # srun waits for its controller; nobody waits for it
                threading.Thread(target=self._reap, daemon=True).start()

    def _reap(self) -> None:
        try:
            self._process.wait(END_TIME)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def changed(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment of this process with changes; None unsets a variable."""
    return {name: value for name, value in {**os.environ, **changes}.items() if value is not None}


def decode(output: str | bytes | None) -> str:
    """Decode the output of a program that was ended. Python gives bytes even where text was asked for."""
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""


# ---- queries to a controller

POLL = 60.0  # seconds between two queries to a controller, by all runs of this process
SIGN_PAUSE = 1.0  # seconds after a query in which a new sign that the job ends leads to no other one
LOOKED = 5.0  # seconds after which a poller that did not look again waits for no turn


class Phase(Enum):
    """What is known of a job without its controller: from its output, or from the command that submitted it."""

    QUEUED = "queued"  # there is no output. The reason for the wait is soon known: a few queries, then one per period
    LIVING = "living"  # its output is written: one query per period
    ENDING = "ending"  # its output says that it ends: its controller soon knows how


# The first pause in seconds, and its growth. Both end at the period.
_PAUSES = {Phase.QUEUED: (1.0, 3.0), Phase.LIVING: (inf, 1.0), Phase.ENDING: (0.2, 1.5)}


class PollClock:
    """The times of all queries of this process, by machine. Pollers of one machine take turns."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.lock = threading.Lock()
        self.last: dict[str, float] = {}
        self.waiting: dict[Poller, float] = {}  # who waits for a turn, and when it last looked


CLOCK = PollClock()


class Poller:
    """Says when the controller may be queried about one job. All methods may be called from any thread."""

    def __init__(self, place: str, period: float = POLL, clock: PollClock = CLOCK, *, submitted: bool = False) -> None:
        """`place`: the machine with the scheduler's commands. `period`: seconds between two queries.

        `submitted`: the job was submitted just now, and the controller knows nothing of it yet.
        """
        self._place, self._period, self._clock = place, period, clock
        self.phase = Phase.QUEUED
        self._queried = clock.now() if submitted else -inf  # when its last query was
        self._pause = _PAUSES[Phase.QUEUED][0] if submitted else 0.0

    def enter(self, phase: Phase) -> None:
        """Change the phase. The first sign of the end makes a query due at once, each later one soon."""
        if phase is Phase.ENDING:
            self._pause = min(self._pause, SIGN_PAUSE) if phase is self.phase else 0.0
        elif phase is not self.phase:
            self._pause = min(_PAUSES[phase][0], self._period)
        self.phase = phase

    def count(self) -> None:
        """Count a query that was made without a turn."""
        with self._clock.lock:
            self._clock.last[self._place] = self._queried = self._clock.now()

    def take_turn(self) -> bool:
        """Tell whether a query is due. If so, it counts as done."""
        clock, key = self._clock, self._place
        with clock.lock:
            now = clock.now()
            clock.waiting[self] = now
            if now < self._queried + self._pause or not self._is_free(now):
                return False
            clock.last[key] = self._queried = now
            del clock.waiting[self]
        first, growth = _PAUSES[self.phase]
        self._pause = min(max(first, self._pause * growth), self._period)
        return True

    def _is_free(self, now: float) -> bool:
        """Tell whether no other run of this process has queried this machine too recently, or waits for longer."""
        if self.phase is Phase.ENDING:
            return True
        clock = self._clock
        if now < clock.last.get(self._place, -inf) + self._pause:
            return False
        others = [each for each, seen in clock.waiting.items() if seen > now - LOOKED and each._place == self._place]
        due = [each for each in others if now >= each._queried + each._pause]
        return all(each._queried >= self._queried for each in due)

    def close(self) -> None:
        with self._clock.lock:
            self._clock.waiting.pop(self, None)
