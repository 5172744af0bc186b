"""Standard input and output of the supervisor: commands from the launcher, events to it, and its silence.

A part of `supervisor.py`.

Events wait in a buffer while the launcher does not read. Above `BACKLOG_HIGH` bytes the pipes of the ranks are paused,
so that the ranks block as they would on a slow terminal.
"""

from __future__ import annotations

import json
import os
import time

from ddpkit.node.seal import Seal
from ddpkit.node.supervision.event_loop import WRITE, EventLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


CHUNK = 1 << 16
BACKLOG_HIGH = 4 << 20  # bytes that wait for the launcher before the ranks' pipes are left to fill up
BACKLOG_LOW = 1 << 20
HEARTBEAT = 5.0  # seconds between two heartbeats
PARTING = 1.0  # seconds for the last events, once the launcher is taken for gone


class LauncherIO:
    """The handlers `on_command`, `on_pause` and `on_gone` are set by the supervisor."""

    def __init__(self, loop: EventLoop, silence: float, received: bytes, seals: tuple[Seal, Seal]) -> None:
        """`seals`: of events, and of commands."""
        self.on_command: Callable[[dict[str, Any]], None]
        self.on_pause: Callable[[bool], None]  # True: the pipes of the ranks are not to be read
        self.on_gone: Callable[[str], None]  # the reason; empty at end of file
        self.open = True
        self.cut_off = False  # the launcher was silent for too long
        self.unsent = bytearray()
        # A launcher on this machine passes 0: its end always comes as an end of file.
        self.silence = silence
        self.interval = min(HEARTBEAT, silence / 4) if silence else HEARTBEAT
        self._loop = loop
        self._received = received  # read, and not yet carried out
        self._sent_seal, self._received_seal = seals
        self._paused = False
        self._last_read = self._last_turn = time.monotonic()
        self.heartbeat_at = self._last_read + self.interval

    def start(self) -> None:
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        self._loop.watch(0, self.read)

    # ---- events

    def send(self, **event: object) -> None:
        """Add an event to what the next flush sends. The supervisor flushes after each turn of its loop."""
        if self.open and not (self.cut_off and len(self.unsent) > BACKLOG_HIGH):
            self.unsent += self._sent_seal.close(json.dumps(event, separators=(",", ":")).encode())
            if len(self.unsent) >= CHUNK:
                self.flush()

    def flush(self) -> None:
        """Write what the launcher reads. While too much waits for it, the pipes of the ranks are paused."""
        while self.unsent and self.open:
            try:
                sent = os.write(1, self.unsent[: 1 << 20])
            except BlockingIOError:
                break
            except OSError:
                self._lose()
                return
            del self.unsent[:sent]
        if self.unsent:
            self._loop.watch(1, self.flush, WRITE)
        else:
            self._loop.unwatch(1)
        if len(self.unsent) > BACKLOG_HIGH and not self.cut_off:
            self._pause(True)
        elif len(self.unsent) < BACKLOG_LOW:
            self._pause(False)

    def flush_all(self, heartbeat: Callable[[], None]) -> None:
        """Send everything, however slowly a living launcher reads: Ctrl-Z may have stopped it."""
        until = time.monotonic() + PARTING
        self.flush()
        while self.unsent and self.open and not (self.cut_off and time.monotonic() > until):
            if self._loop.is_ready(0, min(self.interval, PARTING)):
                self.read()
            self.flush()
            heartbeat()

    def _pause(self, paused: bool) -> None:
        if self._paused != paused:
            self._paused = paused
            self.on_pause(paused)

    # ---- commands

    def read(self) -> None:
        """Read commands, and carry them out. At the end of file the launcher is gone."""
        try:
            data = os.read(0, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.unwatch(0)
            self.on_gone("")  # while the reason can be sent: standard output may still be read
            self.flush()
            self._lose()
            return
        self._received += data
        self.run_commands()

    def run_commands(self) -> None:
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            command = self._received_seal.open(line)
            if command is not None:  # else another process wrote it
                self._last_read = time.monotonic()
                self.on_command(json.loads(command))

    # ---- the launcher's end

    def _lose(self) -> None:
        """End of file: the launcher is gone."""
        if self.open:
            self.open = False
            self.unsent.clear()
            self._loop.unwatch(1)
            self._pause(False)  # a rank that cannot print cannot clean up either
        self.on_gone("")

    def check_silence(self, now: float) -> None:
        """Take a launcher for gone that was silent too long. If it was only stopped, it reads why when it goes on."""
        stood_still = now - self._last_turn - self.interval
        self._last_turn = now
        if stood_still > 1.0:
            self._last_read += stood_still  # this process did not run: the launcher may have sent much
        if self.silence and now - self._last_read > self.silence and self.open and not self.cut_off:
            self.cut_off = True
            self.on_gone(
                f"no heartbeat from the launcher for {self.silence:g} s: it was stopped, or the network was down"
            )
            self._pause(False)

    def heartbeat_is_due(self, now: float) -> bool:
        """True once in each interval, unless events wait: those are a sign of life as well."""
        if now < self.heartbeat_at:
            return False
        self.heartbeat_at = now + self.interval
        return not self.unsent
