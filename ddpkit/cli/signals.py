"""Signals of a command that runs ranks. Each becomes a message to the loop of its run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ddpkit.execution.executor import PASSED_ON, Inbox
from ddpkit.transports.protocol import ASK, LOOK

# These end the run; a second one ends it at once.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def forward_signals(inbox: Inbox, *, suspend: bool = False) -> Iterator[None]:
    """Put signals into the inbox of a run (`SimpleQueue.put` is safe in a handler). `suspend`: Ctrl-Z as well."""

    def handle(number: int, _: FrameType | None) -> None:
        inbox.put((-1, number))

    before = {}
    for number in (*ENDING, *PASSED_ON, ASK, LOOK, *([signal.SIGTSTP] if suspend else [])):
        # Under nohup HUP is ignored, and stays so.
        if signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
