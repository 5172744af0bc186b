"""A run in a thread of another program: takes no signals, prints nothing, ends with the program."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

from ddpkit.config import LaunchSettings
from ddpkit.console.plain import TextDisplay, TextStream
from ddpkit.console.relay import Relay
from ddpkit.errors import NO_THREAD, no_thread
from ddpkit.run import launcher_process, record
from ddpkit.run.log_files import LogFiles

REQUESTS_EVERY = 0.25  # seconds between two looks for requests of other shells
MARGIN = 15.0  # seconds beyond the grace in which a run has ended when its program ends

_living: set[BackgroundRun] = set()
_lock = threading.Lock()


class Carried(Protocol):
    """A run with a record: `RecordedRun`, or that of roles."""

    record: record.Run
    folder: Path
    job_id: str | None

    @property
    def inbox(self) -> TakesSignals: ...

    def open_logs(self, settings: LaunchSettings | None = None) -> LogFiles: ...

    def announce(self, relay: Relay, *, hang_timeout: float = 0.0) -> None: ...

    def carry_out(
        self, relay: Relay, display: TextDisplay, settings: LaunchSettings, cancelled: Callable[[], bool]
    ) -> None: ...

    def cancel_job(self) -> None: ...

    def abandon(self, error: BaseException) -> None: ...

    def release(self) -> None: ...


class TakesSignals(Protocol):
    """The inbox of a run."""

    def put(self, item: tuple[int, int], /) -> None: ...


class BackgroundRun:
    """A recorded run, carried out by a daemon thread."""

    def __init__(self, run: Carried, settings: LaunchSettings, connections: ExitStack, *, echo: bool = False) -> None:
        """Start the thread. It closes `connections` at the end of the run. `echo`: show the lines of the run.

        Raises LaunchError where no thread can be started.
        """
        self._run = run
        self._settings = settings
        self._connections = connections
        self._display = TextDisplay(sys.stdout, sys.stderr) if echo else TextDisplay()
        self._relay = Relay(run.open_logs(settings), self._display.out, self._display.err)
        self._ended = threading.Event()
        self._cancelled = False
        self._asked = False  # to end, by TERM
        self._pid = os.getpid()
        self._error: BaseException | None = None
        run.announce(self._relay, hang_timeout=settings.hang_timeout)
        with _lock:
            _living.add(self)
        name = f"ddpkit {run.record.run_id}"
        try:
            threading.Thread(target=self._take_requests, name=f"{name} requests", daemon=True).start()
            threading.Thread(target=self._follow, name=name, daemon=True).start()
        except RuntimeError as error:
            connections.close()
            run.abandon(error)
            self._end()
            if NO_THREAD not in str(error):
                raise
            raise no_thread() from None

    @property
    def record(self) -> record.Run:
        """The record as this program knows it. At the end it is finished, also where it cannot be saved."""
        return self._run.record

    @property
    def in_this_process(self) -> bool:
        """Whether this process has the thread: a forked child has not."""
        return self._pid == os.getpid()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most `timeout` seconds. Returns whether the run has ended. Raises its internal error."""
        ended = self._ended.wait(timeout)
        if ended and self._error is not None:
            raise self._error
        return ended

    def stop(self, *, at_once: bool = False) -> None:
        """Ask for the end: TERM, grace, KILL; with `at_once` KILL. A submitted job is cancelled. Raises LaunchError.

        Asked again, or of a run that is being ended, it does not shorten the grace.
        """
        if self.ended:
            return
        if self._run.job_id is not None:
            self._cancelled = True
            self._run.cancel_job()
        elif at_once:
            self._run.inbox.put((-1, signal.SIGQUIT))
        else:
            self._terminate()

    def leave(self) -> None:
        """End a run because its program ends. A submitted job goes on."""
        if self._run.job_id is not None:
            self._run.inbox.put((-1, signal.SIGTERM))
        else:
            self._terminate()

    def _terminate(self) -> None:
        """Send TERM once: to the loop of the run, a second one means KILL."""
        with _lock:
            if not self._asked:
                self._run.inbox.put((-1, signal.SIGTERM))
            self._asked = True

    def _follow(self) -> None:
        try:
            with self._connections:
                self._run.carry_out(self._relay, self._display, self._settings, lambda: self._cancelled)
        except BaseException as error:  # for the thread that waits
            self._error = error
            self._run.abandon(error)
        finally:
            self._end()

    def _end(self) -> None:
        with suppress(OSError):
            self._relay.close()
        self._run.release()
        with _lock:
            _living.discard(self)
        self._ended.set()

    def _take_requests(self) -> None:
        """Act on requests of other shells (`ddpkit stop`, `dump`, `top`), which signal other launchers."""
        requests = launcher_process.Requests(self._run.folder)
        while not self._ended.wait(REQUESTS_EVERY):
            for number in requests.take():
                self._run.inbox.put((-1, number))


class Notes:
    """Remarks before the start of a run: kept for its record, and printed with `echo`."""

    def __init__(self, echo: bool) -> None:
        self.texts: list[str] = []
        self._stream = TextStream(sys.stderr if echo else None)

    def add(self, text: str) -> None:
        self.texts.append(text)
        self._stream.write(f"ddpkit: {text}\n".encode("utf-8", "replace"))

    def add_copy(self, host: str, percent: int) -> None:
        """Note the end of a copy to a host."""
        if percent == 100:
            self._stream.write(f"ddpkit: copied to {host}\n".encode())


def _end_with_program() -> None:
    """End all runs of this program and wait for them. A killed program cannot: then its supervisors end the ranks."""
    with _lock:
        runs = list(_living)
    for run in runs:
        run.leave()
    for run in runs:
        with suppress(BaseException):
            run.wait(run.record.grace + MARGIN)


atexit.register(_end_with_program)
os.register_at_fork(after_in_child=_living.clear)  # they are the parent's
