"""Channel: a supervisor on another machine, over a byte stream. It answers questions, then it runs its step.

A stream carries bytes to the supervisor's standard input and from its standard output, and reports its end: an SSH
channel (`ssh/client.py`), the ssh program (`openssh.py`), or pdsh. Everything above the bytes is here, once
for all of them.
"""

from __future__ import annotations

import json
import queue
import re
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ddpkit.diagnosis.symptoms import login_fix
from ddpkit.launchers.events import BadEventError, Command, Event
from ddpkit.launchers.node_facts import is_answer
from ddpkit.launchers.plan import Container
from ddpkit.launchers.shell import join, quote
from ddpkit.node.seal import Seal
from ddpkit.node.supervision.clock import Clock, NodeClock
from ddpkit.transports.protocol import BOOT, Caller, Pieces, container_argv, new_key, parse_event, program

NOISE = 20  # lines of a shell's start-up files that an error can show
QUOTED = 300  # characters of each
HELLO = b'{"e":"hello"'
BEAT = 5.0  # seconds between two signs of life
LINE_LIMIT = 1 << 24  # bytes of one event, of which a supervisor sends at most a tenth
LONG_READ = 2.0  # seconds that a stream's `read` takes only where this machine stood still


def close_in_background(close: Callable[[], None]) -> None:
    """Close something without a wait for it. Where no thread can be had, the end of this process closes it."""
    with suppress(RuntimeError):
        threading.Thread(target=close, daemon=True).start()


class ByteStream(Protocol):
    """A stream of bytes to and from one supervisor."""

    def write(self, data: bytes) -> None:
        """Send all of it. Raises OSError where the stream is gone."""

    def read(self) -> bytes:
        """Wait a second at most for more. Empty: nothing came. Raises EOFError at the end."""

    def code(self) -> int:
        """Return the exit code of the command after its output has ended; -1: the connection ended without one."""

    def why(self) -> str:
        """Describe the cause of the end of the stream; empty for exit code 0."""

    def refusal(self, lines: Sequence[str]) -> RefusedError | None:
        """Explain a supervisor that did not start, from the stream, or from the lines that came in its place."""

    def close(self) -> None:
        """Cut it. The supervisor sees the end of its standard input."""


class RefusedError(Exception):
    """A node could not be entered. `fix` is the command that helps; empty: to start its Python by hand."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


class NoAnswerError(Exception):
    """A node did not answer, or not with what was asked for. The text says why."""


def command(python: str, container: Container | None = None) -> str:
    """The command line for a node: a Python, there or in a container there, that reads its program from its input."""
    if container is not None:
        return f"exec {join(container_argv(container))}"
    return f"exec {at_home(python)} -S -I -c '{BOOT}'"


def at_home(path: str) -> str:
    """A path as a word for a node's shell: a home folder is the node's to know."""
    return '"$HOME"/' + quote(path[2:]) if path.startswith("~/") else quote(path)


def unresolved(host: str) -> RefusedError:
    """Return the error of a name without an address. A program typed before `--` is one as well."""
    what = "its name does not resolve on this machine"
    if shutil.which(host):
        return RefusedError(f"{what}; it is a program", f"ddpkit launch -- {quote(host)}")
    return RefusedError(what, login_fix("no-name", host))


_NO_PROGRAM = re.compile(r"(?:^|: )([\w./+-]+): (?:command )?not found$")  # of a shell


_OUR_TEXT = 'File "<string>", line 1'  # in a traceback of Python for what it reads from its input
_NO_TERMINAL = re.compile(r"not a (?:terminal|tty)\b|connected to a terminal", re.IGNORECASE)  # tmux, zellij, screen
_NOT_PYTHON = re.compile(r"(?:SyntaxError|ValueError|NameError)\b")


def not_started(code: int, lines: Sequence[str], host: str) -> RefusedError | None:
    """Explain a node's shell that ended with this code in place of starting our Python. None: the code is negative."""
    words = quoted_lines(lines)
    fix = login_fix("no-python", host)
    if code in (126, 127):
        return RefusedError(f"its Python cannot be started{words}", fix)
    old = too_old(lines)
    if code > 0 and old:
        return RefusedError(f"its {old}; ddpkit requires Python 3.8 or later", fix)
    if code == 0:
        what = "its shell ended before the command: an exit in a start-up file, or a forced command"
        return RefusedError(f"{what}{words}", login_fix("shell-exits", host))
    if code > 0 and any(_OUR_TEXT in line for line in lines) and any(_NOT_PYTHON.match(line) for line in lines):
        what = "a start-up file of its shell took the input that is for ddpkit's process, as `read` in ~/.bashrc does"
        return RefusedError(what, login_fix("shell-exits", host))
    absent = next((each for line in lines if (each := _NO_PROGRAM.search(line))), None)
    if code > 0 and absent:
        return RefusedError(f"{absent[1]} not found", f"ssh {quote(host)} which {quote(absent[1])}")
    if code > 0 and any(_NO_TERMINAL.search(line) for line in lines):
        what = "a start-up file of its shell starts a program for a terminal, as `exec tmux` in ~/.bashrc does"
        return RefusedError(f"{what}{words}", login_fix("shell-exits", host))
    if code > 0:
        return RefusedError(
            f"its shell, or Python, ended with exit code {code} before ddpkit's process started{words}", ""
        )
    return None


def too_old(lines: Sequence[str]) -> str:
    """Return the version line of a Python that is too old for our program (`BOOT`) or our flags; empty: it is not."""
    versions = [line for line in lines if re.fullmatch(r"Python \S+ is older than 3\.8", line)]  # of `BOOT`
    if versions:
        return versions[-1]
    return "Python is older than 3.4" if any(line.startswith("Unknown option: -I") for line in lines) else ""


# Warnings of this machine's ssh on every connection to an older sshd. OpenSSH has the first three since 10.1.
_SSH_WARNINGS = re.compile(
    r"\*\* (WARNING: connection is not using a post-quantum|This session may be vulnerable|The server may need to be)"
    r"|Warning: Permanently added "
)


def quoted_lines(lines: Sequence[str]) -> str:
    """Quote a shell's lines before, or in place of, the supervisor: banners, errors, start-up files."""
    kept = [line for line in lines if not _SSH_WARNINGS.match(line)]
    shown = [line if len(line) <= QUOTED else line[:QUOTED] + "..." for line in kept]
    return f"; its output: {' / '.join(shown)}" if shown else ""


class _SupervisorEnded(Exception):  # noqa: N818
    """The supervisor said its last word: nothing of the run is alive there. The stream may take longer to say so."""


class State(Enum):
    """What the supervisor at the other end does."""

    STARTS = "it has sent no event yet"
    ANSWERS = "it answers calls"
    RUNS = "it runs its step"
    ENDED = "its stream has ended"


@dataclass(frozen=True, kw_only=True)
class _Call:
    """A call whose answer is awaited."""

    number: int
    function: str
    beats: bool  # the node sends heartbeats meanwhile


class Channel:
    """One supervisor on another machine. First it answers calls, then it is the `Link` of a step."""

    outlives = ""
    margin = 10.0

    def __init__(self, name: str, stream: ByteStream, silence: float, clock: Clock, relay: bytes = b"") -> None:
        """`relay`: what hands the stream on to a hold (`held.py`)."""
        self.name = name
        self._relay = relay
        self.silence = silence
        self._clock, self._node_clock = clock, NodeClock()
        self.opened_at = self._clock.now()  # after `open`: the time of the first event
        self._state = State.STARTS
        self._stream = stream
        self._answers: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._post: Callable[[Event | None], None] | None = None
        self._noise: deque[str] = deque(maxlen=NOISE)
        self._key = new_key()
        self._sent, self._received = Seal(self._key, "launcher"), Seal(self._key, "node")
        self._foreign = 0  # lines that another process of the node wrote into the stream
        self._caller = Caller(self._write_command)
        self._call: _Call | None = None  # the last one
        self._pieces = Pieces(self._caller.unanswered, self._caller.packed)
        self._why_ended = ""
        self._lock = threading.Lock()  # between the end of the stream and the beginning of a step
        self._writing = threading.Lock()  # a stream may send a long message in several pieces
        self._closed = False

    @property
    def ahead(self) -> float:
        """See `Link`. At least so many seconds, by the quickest of the node's events, its way here included."""
        return 0.0 if self._node_clock.ahead == -float("inf") else self._node_clock.ahead

    # ---- before the step

    def open(self, until: float) -> None:
        """Send the supervisor's program and wait for its first event. Raises RefusedError, NoAnswerError.

        `until`: a time.monotonic().
        """
        threading.Thread(target=self._read, daemon=True).start()
        self._write(self._relay + program(key=self._key))
        try:
            self._next("hello", until)
        except NoAnswerError:
            refused = self._stream.refusal(self._noise)
            if refused is None:
                raise
            raise refused from None
        self.opened_at = self._clock.now()
        self._node_clock.began = self.opened_at  # the node ran nothing of ours before: no event can be older

    def ask(self, function: str, args: Mapping[str, object], *, beats: bool = False) -> None:
        """Call a function; `answer` waits for its value, so that many nodes can be called at once.

        `beats`: it may last, and the node sends heartbeats meanwhile, without which it counts as lost.
        """
        every = {"beat": min(BEAT, self.silence / 4)} if beats and self.silence else {}
        number = self._caller.call(function, args, **every)
        self._call = _Call(number=number, function=function, beats=beats)

    def answer(self, until: float) -> Any:
        """Return the node's answer. `until` is a time.monotonic(). Raises NoAnswerError."""
        call = self._call
        while True:
            event = self._next("answer", until)
            assert event["e"] == "answer"
            if call is None or event["id"] != call.number:
                continue  # to an earlier call, too late
            self._call = None
            if event["error"] is not None:
                raise NoAnswerError(event["error"])
            value = event["values"][0]
            if not is_answer(call.function, value):
                raise NoAnswerError(f"its answer to {call.function} has another form than ddpkit's process gives it")
            return value

    def _next(self, kind: str, until: float) -> Event:
        """Wait for the next event of a kind, `hello` or `answer`. Raises NoAnswerError, also where the stream ended."""
        while True:
            try:
                event = self._answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                late = (
                    "logged in, but its Python did not start ddpkit's process"
                    if kind == "hello"
                    else "it did not answer"
                )
                raise NoAnswerError(f"{late} in time{quoted_lines(self._noise)}") from None
            if event is None:
                early = "ddpkit's process started" if kind == "hello" else "it answered"
                raise NoAnswerError(f"the connection ended before {early}{self._why()}{quoted_lines(self._noise)}")
            if event["e"] == kind:
                return event

    def _why(self) -> str:
        return f" ({self._why_ended})" if self._why_ended else ""

    # ---- the link of a step

    def start(self, request: str, post: Callable[[Event | None], None]) -> None:
        with self._lock:
            self._post = post
            gone = self._state is State.ENDED
            if not gone:
                self._state = State.RUNS
        if gone:
            self._lost(self._why_ended)
        self._write_command(request.encode())

    def send(self, command: Command) -> None:
        self._write_command(json.dumps(command).encode())

    def call(self, function: str, args: Mapping[str, object]) -> int:
        return self._caller.call(function, args)

    def close(self) -> None:
        self._closed = True
        self._stream.close()

    def beat(self) -> None:
        """A sign of life, so that the supervisor need not think that it was cut off."""
        # Where the lock is taken, something is being written, which is a sign of life as well.
        if self._state is not State.ENDED and self._writing.acquire(blocking=False):
            try:
                self._stream.write(self._sent.close(b'{"c":"beat"}'))
            except Exception:  # whatever it is: the other nodes must hear of us
                pass
            finally:
                self._writing.release()

    def _write(self, data: bytes) -> None:
        with self._writing:
            self._write_now(data)

    def _write_command(self, text: bytes) -> None:
        with self._writing:
            self._write_now(self._sent.close(text))

    def _write_now(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError:
            pass  # it is gone; its end says so

    # ---- what comes back

    def _read(self) -> None:
        """Read the stream to its end, and pass its events on. A supervisor that is silent for too long is lost."""
        held = b""  # a line whose end has not come yet
        quiet = 0.0  # seconds without a sign of life
        try:
            while True:
                before = time.monotonic()
                data = self._stream.read()
                took = time.monotonic() - before
                if data:
                    # No name here keeps what was read: of 1,000 nodes that were 15 MB while the next read waits.
                    held, data = held + data, b""
                    held, is_sign = self._take(held)
                    if is_sign:
                        quiet = 0.0
                        continue
                # A launcher that was stopped, or sleeps with its laptop, heard nothing because it did not listen.
                quiet = quiet + took if self._must_beat and took < LONG_READ else 0.0
                if self.silence and quiet > self.silence:
                    why = f"no heartbeat for {self.silence:g} s: the host or the network is down"
                    if self._foreign:
                        why = f"no heartbeat for {self.silence:g} s: another process there disturbs the connection"
                    self._end(f"{why}; its processes end automatically")
                    self._stream.close()  # nobody reads it any more
                    return
        except _SupervisorEnded:
            self._end("")
        except EOFError:
            self._end(self._stream.why())
        except BadEventError as error:
            self._end(f"it sent {error}; the connection was closed, and its processes end automatically")
            self._stream.close()
        except Exception as problem:  # a thread that dies in silence would be waited for
            self._end(f"its output could not be read ({type(problem).__name__}: {problem})")

    @property
    def _must_beat(self) -> bool:
        """The supervisor sends heartbeats now."""
        return self._state is State.RUNS or (self._call is not None and self._call.beats)

    def _take(self, data: bytes) -> tuple[bytes, bool]:
        """Take the whole lines of the stream. Returns the begin of the next one, and whether the supervisor lives.

        May last: a screen that nobody reads holds it up. Raises BadEventError.
        """
        *lines, held = data.split(b"\n")
        if len(held) > LINE_LIMIT:
            raise BadEventError(f"a line of more than {LINE_LIMIT} bytes")
        is_sign = not lines  # a piece of a long line counts as one
        for each in lines:
            # A start-up file may have left a line without an end, such as the title of a terminal.
            line = each[each.index(HELLO) :] if self._state is State.STARTS and HELLO in each else each
            text = self._received.open(line)
            if text is None:
                # A shell's start-up file, a banner: not ours, and worth reading only if ours never comes.
                shown = line[: 8 * QUOTED].decode("utf-8", "replace").strip()
                if shown:
                    self._noise.append(shown)
                self._foreign += self._state is not State.STARTS
                continue
            is_sign = True
            if self._state is State.STARTS:
                self._state = State.ANSWERS
            event = parse_event(text)
            if event is not None:
                self._post_in_our_time(event)
        return held, is_sign

    def _post_in_our_time(self, event: Event) -> None:
        """Pass an event on once it is whole, with times on our clock. Raises _SupervisorEnded after the last one."""
        if "t" in event:
            self._node_clock.in_our_time(event, self._clock.now())
            for sample in event["ranks"].values() if event["e"] == "beat" else ():
                sample["out"] = sample["out"] and sample["out"] - self.ahead
        whole = self._pieces.take(event)
        if whole is None:
            return
        if self._post is None:
            self._answers.put(whole)
        else:
            self._post(whole)
        if whole["e"] == "end":
            raise _SupervisorEnded

    def _end(self, why: str) -> None:
        with self._lock:
            self._state, self._why_ended = State.ENDED, why or "exit code 0"
            post = self._post
        if post is None:
            self._answers.put(None)
        else:
            self._lost(why)

    def _lost(self, why: str) -> None:
        assert self._post is not None
        if why and not self._closed:
            self._post({"e": "lost", "reason": why})
        self._post(None)


class Heartbeat:
    """Beats for every channel, from one thread, until it is stopped."""

    def __init__(self, silence: float) -> None:
        self._channels: list[Channel] = []
        self._every = min(BEAT, silence / 4) if silence else BEAT
        self._stopped = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def add(self, channel: Channel) -> None:
        self._channels.append(channel)

    def _beat(self) -> None:
        while not self._stopped.wait(self._every):
            for channel in tuple(self._channels):
                channel.beat()

    def stop(self) -> None:
        self._stopped.set()
