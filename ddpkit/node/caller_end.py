"""Outlives a program that called a function under a scheduler: a program that is killed can neither end nor remove it.

    python -S -I -c START NODE FOLDER KIND

FOLDER is the private directory with the function, KIND of its marker. Each line of the input is JSON: the command that
ends the job, or null when nothing is left to do. The input ends with the program, or its parent is another one.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time

from ddpkit.node.owned import remove_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOOK = 5.0  # seconds between two looks at the parent: a fork of the program may hold the other end of the input
LIMIT = 60.0  # seconds for the command
TRIES = 10  # ranks that end may still write values
# What ends the job in which the program runs: its processes have a moment then.
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def main(folder: str, kind: str) -> None:
    """Wait for the end of the program. Where it left the job, end that, and remove the directory."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    cancel = wait(os.getppid())
    if cancel is None:
        return
    if cancel:
        nothing = subprocess.DEVNULL
        try:
            subprocess.run(cancel, stdin=nothing, stdout=nothing, stderr=nothing, timeout=LIMIT, check=False)
        except (OSError, subprocess.TimeoutExpired):
            pass  # the directory goes nevertheless: a job that begins later finds no function
    for _ in range(TRIES):
        try:
            remove_directory(folder, kind)
            return
        except OSError:
            time.sleep(1.0)


def wait(parent: int) -> Any:
    """Return the command that ends the job, empty where there is none, or None: the program has ended all itself."""
    cancel: Any = []
    poll, text = select.poll(), b""
    poll.register(0, select.POLLIN)
    while os.getppid() == parent:
        if not poll.poll(LOOK * 1000):
            continue
        piece = os.read(0, 1 << 16)
        if not piece:
            break
        *lines, text = (text + piece).split(b"\n")
        for line in lines:
            cancel = json.loads(line)
            if cancel is None:
                return None
    return cancel
