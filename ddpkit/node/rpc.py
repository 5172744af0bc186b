"""Calls of functions on a node: the launcher names a function of a program in `ddpkit/node/calls`.

Commands and answers are lines of JSON:

    {"c": "call", "id", "function", "args"}     `function` is PROGRAM.NAME; with "beat", heartbeats come meanwhile
    {"e": "answer", "id", "data", "t"}          [value, error], packed; with "more" it goes on in the next event

A supervisor answers calls before its request one after the other (`CallServer`), so that a function can keep what it
opened, and later ones in processes of their own (`rank_calls.py`). Under SLURM the program stands alone, as a task of a
step beside the ranks; there a call may have "hosts", more arguments by host.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
import zlib
from binascii import b2a_base64
from contextlib import contextmanager
from importlib import import_module

from ddpkit.node.seal import Seal

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself is slow to import, and this starts with every run
    from typing import Any, Iterator, NoReturn

CHUNK = 1 << 16
PIECE = 20000  # bytes of an answer in one event: a line that pdsh does not cut off (2.34: 131072)
STEP_PIECE = 900  # srun cuts lines after 1,024 bytes (Slurm 22.05)
SILENCE_LIMIT = 30.0  # seconds of silence after which a launcher without a request is gone
STEP_SILENCE_LIMIT = 60.0  # the same for a step, unless a call says otherwise
# Of a poll of its standard input: the launcher, or a relay into a hold, has ended its direction.
OTHER_SIDE_ENDED = getattr(select, "POLLRDHUP", select.POLLHUP)
WATCH_INTERVAL = 0.2  # seconds between two looks for the launcher during a call


class Programs:
    """Programs that the launcher called. A module is imported at its first call."""

    def __init__(self) -> None:
        self._called: dict[str, Any] = {}  # modules by name

    def call(self, function: str, args: dict[str, Any]) -> tuple[Any, str | None]:
        """Value and None, or None and the exception in words."""
        program, _, name = function.partition(".")
        try:
            if program not in self._called:
                self._called[program] = import_module("ddpkit.node.calls." + program)
            return getattr(self._called[program], name)(**args), None
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Let each program close what it opened."""
        for module in self._called.values():
            getattr(module, "close", int)()

    def abandon(self) -> None:
        """Let each program end what another connection of the lost launcher started here."""
        for module in self._called.values():
            getattr(module, "abandon", int)()


def answer_events(number: int, result: bytes, piece: int = PIECE) -> Iterator[dict[str, Any]]:
    """Events for the JSON of a value and an error."""
    text = b2a_base64(zlib.compress(result, 6), newline=False).decode()
    for start in range(0, len(text), piece):
        more = {"more": True} if start + piece < len(text) else {}
        yield {"e": "answer", "id": number, "data": text[start : start + piece], "t": time.time(), **more}


def host_name() -> str:
    """This host, as SLURM names it in a step."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


class CallServer:
    """Answers calls on standard input until the request comes. Exits where the launcher is gone."""

    def __init__(self, piece: int = PIECE, silence_limit: float | None = None, key: str = "") -> None:
        self.sent_seal, self.received_seal = Seal(key, "node"), Seal(key, "launcher")
        self._programs = Programs()
        self._piece = piece
        self._silence_limit = SILENCE_LIMIT if silence_limit is None else silence_limit
        self._call_deadline = 0.0
        self._unread = b""  # received behind the last line that was read

    def until_request(self) -> tuple[dict[str, Any], bytes, Programs]:
        """Answer calls, and return the request, the bytes that came behind it, and the programs that were called."""
        signal.signal(signal.SIGALRM, self._check_launcher)
        self._send({"e": "hello", "pid": os.getpid(), "host": os.uname().nodename, "t": time.time()})
        while True:
            line = self.received_seal.open(self._read_line())
            if line is None:
                continue  # another process wrote it
            message = json.loads(line)
            kind = message.get("c", "request")
            if kind == "call":
                self._answer(message)
            elif kind == "request":
                self._programs.close()
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                return message, self._unread, self._programs

    def _check_launcher(self, *_: object) -> None:
        """A call may take seconds. It is not finished for a launcher that is gone."""
        stdin = select.poll()
        stdin.register(0, OTHER_SIDE_ENDED)
        if stdin.poll(0) or time.monotonic() > self._call_deadline:
            self._leave()

    def _leave(self) -> NoReturn:
        """End without the launcher. The guard ends what calls started."""
        try:
            self._programs.abandon()
        finally:
            os._exit(1)

    def _read_line(self) -> bytes:
        """Return the next line. Ends this process where the launcher is gone, or silent for too long."""
        while b"\n" not in self._unread:
            # A launcher that waits for another node sends heartbeats. One that is cut off cannot.
            ready = select.select([0], [], [], self._silence_limit)[0]
            data = os.read(0, CHUNK) if ready else b""
            if not data:
                self._leave()
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _answer(self, message: dict[str, Any]) -> None:
        self._silence_limit = message.get("silence", self._silence_limit)
        args = {**message["args"], **message.get("hosts", {}).get(host_name(), {})}
        self._call_deadline = time.monotonic() + message.get("silence", float("inf"))
        signal.setitimer(signal.ITIMER_REAL, WATCH_INTERVAL, WATCH_INTERVAL)
        with self._heartbeats(message.get("beat", 0.0)):
            result = json.dumps(self._programs.call(message["function"], args))
        signal.setitimer(signal.ITIMER_REAL, 0)
        for event in answer_events(message["id"], result.encode(), self._piece):
            self._send(event)

    @contextmanager
    def _heartbeats(self, interval: float) -> Iterator[None]:
        """Send a heartbeat in each interval, also while a call waits for a disk. 0: none."""
        if not interval:
            yield
            return
        import threading

        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(interval):
                self._send({"e": "beat", "t": time.time(), "ranks": {}})

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()  # nothing comes into the middle of the answer

    def _send(self, event: dict[str, Any]) -> None:
        """Send an event, and wait until it is written."""
        data = self.sent_seal.close(json.dumps(event, separators=(",", ":")).encode())
        while data:
            try:
                data = data[os.write(1, data) :]
            except OSError:
                os._exit(1)  # the launcher is gone


def main() -> None:
    """Answer calls as a task of a SLURM step, until its input ends."""
    signal.alarm(0)  # the alarm of the command line (`protocol.BOOT`)
    CallServer(STEP_PIECE, STEP_SILENCE_LIMIT).until_request()
