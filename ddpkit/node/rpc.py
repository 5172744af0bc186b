"""What a launcher asks of a node before it makes its request. A part of `supervisor.py`.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import json
import marshal
import os
import select
import signal
import time
import zlib
from binascii import a2b_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK = 1 << 16
UNASKED = 30.0  # seconds without a word from a launcher that has not made its request yet
WATCH = 0.2  # seconds between two looks for the launcher while a question is answered


class Questions:
    """What a launcher wants to know of this machine before it makes its request.

    A question is {"ask": function, "args": {...}, "id": ...}. The functions are those of a program that came with
    {"learn": SOURCE}, or compiled with {"code": ...} (`probe.py`), so that a request is answered without another
    connection, and without waiting for another interpreter.
    """

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.received = b""

    def until_request(self) -> tuple[dict[str, Any], bytes]:
        """Answer until the request comes. Returns it, and what was read behind it."""
        signal.signal(signal.SIGALRM, self.look_for_end)
        say({"e": "hello", "pid": os.getpid(), "host": os.uname().nodename, "t": time.time()})
        while True:
            message = json.loads(self.line())
            if "learn" in message:
                exec(message["learn"], self.known)
            elif "code" in message:
                exec(marshal.loads(zlib.decompress(a2b_base64(message["code"]))), self.known)
            elif "ask" in message:
                self.answer(message)
            elif "c" not in message:  # a sign of life
                if "close" in self.known:
                    self.known["close"]()
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                return message, self.received

    def look_for_end(self, *_: object) -> None:
        """An answer may take seconds. It is not finished for a launcher that is gone."""
        stdin = select.poll()
        stdin.register(0, getattr(select, "POLLRDHUP", select.POLLHUP))
        if stdin.poll(0):
            os._exit(1)  # the guard sees to what was started for the answer

    def line(self) -> bytes:
        while b"\n" not in self.received:
            # A launcher that thinks, or waits for another node, gives a sign of life. One that is cut off cannot.
            ready = select.select([0], [], [], UNASKED)[0]
            data = os.read(0, CHUNK) if ready else b""
            if not data:
                os._exit(1)  # the launcher was gone before it had asked for anything; the guard sees to what is left
            self.received += data
        line, _, self.received = self.received.partition(b"\n")
        return line

    def answer(self, message: dict[str, Any]) -> None:
        signal.setitimer(signal.ITIMER_REAL, WATCH, WATCH)
        try:
            value, error = self.known[message["ask"]](**message["args"]), None
        except Exception as problem:  # whatever it is, it is the answer
            value, error = None, f"{type(problem).__name__}: {problem}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        say({"e": "answer", "id": message["id"], "value": value, "error": error, "t": time.time()})


def say(event: dict[str, Any]) -> None:
    """Tell the launcher something before the loop runs that can wait for it."""
    data = json.dumps(event, separators=(",", ":")).encode() + b"\n"
    while data:
        try:
            data = data[os.write(1, data) :]
        except OSError:
            os._exit(1)  # it is gone
