"""A program that a test starts: its lines as they come, its end, and what lives of it."""

from __future__ import annotations

import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keeper

# Generous: machines are shared and slow, and a test that waits for an event costs nothing when the event comes soon.
PATIENCE = 120.0
MARK = "TEST_MARK_OF_DDPKIT"  # a variable of the environment, which every process below a program inherits


def marked(mark: str) -> dict[int, str]:
    """Every living process of the machine that carries a mark in its environment, wherever it moved to."""
    return keeper.marked(MARK, mark)


def wait_until(event: Callable[[], object], what: object = "", patience: float = PATIENCE) -> None:
    """Wait for what no descriptor tells of. `what` says what is missing; it may be a function."""
    until = time.monotonic() + patience
    while not event():
        assert time.monotonic() < until, what() if callable(what) else what
        time.sleep(0.02)


def run_to_end(
    argv: Sequence[str], *, check: bool = False, timeout: float = PATIENCE, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with both of its outputs as text. `more`: as of `subprocess.run`."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        argv, capture_output=True, text=True, check=check, timeout=timeout, **more
    )
    return done


def undo_ignored_signals() -> None:
    """Handle the signals that a shell's `&` or `nohup` ignores, so that programs do not inherit it.

    A handler ends with exec: the programs of tests, sshd among them, start with the default action. Main thread only.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            handler = signal.default_int_handler if number == signal.SIGINT else lambda *_: None
            signal.signal(number, handler)


class Program:
    """One running program; standard output and standard error are one."""

    def __init__(self, argv: Sequence[str], *, env: dict[str, str], cwd: Path | None = None, read: bool = True) -> None:
        self.lines: list[str] = []
        self.times: list[float] = []  # of each line, time.time()
        self._queue: queue.Queue[tuple[float, str] | None] = queue.Queue()
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if read:
            self.read()

    def read(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self._queue.put((time.time(), line.decode("utf-8", "replace").rstrip("\n")))
        self._queue.put(None)

    def _take(self, item: tuple[float, str]) -> None:
        self.times.append(item[0])
        self.lines.append(item[1])

    def wait_for(self, text: str, times: int = 1, seconds: float = PATIENCE) -> float:
        """Wait until `text` was printed so many times. Returns when the last of these lines came, time.time()."""
        until = time.monotonic() + seconds
        while sum(text in line for line in self.lines) < times:
            try:
                item = self._queue.get(timeout=max(0.1, until - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"did not print {text!r} in {seconds:g} s:\n{self.text}") from None
            assert item is not None, f"ended before it printed {text!r}:\n{self.text}"
            self._take(item)
        return [when for when, line in zip(self.times, self.lines, strict=True) if text in line][times - 1]

    def end(self, seconds: float = PATIENCE) -> int:
        """Wait for the end. Returns the exit code, as `subprocess` counts."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            while not self._queue.empty():
                self._take(self._queue.get() or (time.time(), ""))
            raise AssertionError(f"did not end in {seconds:g} s:\n{self.text}") from None
        while (item := self._queue.get(timeout=seconds)) is not None:
            self._take(item)
        return code

    @property
    def tail(self) -> str:
        """The last lines and the exit code: for a message that is cut where it is long."""
        lines = [line[:160] for line in self.lines[-25:]]
        return "\n".join([f"{len(self.lines)} lines, the last ones:", *lines, f"exit code {self.process.returncode}"])

    @property
    def text(self) -> str:
        return "\n".join(self.lines)
