"""Questions of hosts at a login, answered on the terminal: passphrases, passwords, second factors."""

from __future__ import annotations

import getpass
import shutil
import sys
import termios
import textwrap
import threading
import time
from contextlib import suppress
from typing import Any

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
            return self.ask(f"{of_host(host, text, shutil.get_terminal_size().columns)} ")

    def close(self) -> None:
        """Turn the echo on again where a launch ends before the answer."""
        if self._before is not None:
            with suppress(OSError, ValueError, termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSANOW, self._before)


def of_host(host: str, text: str, columns: int) -> str:
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
