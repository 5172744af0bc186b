"""Runs the command of the setting `on_end` when a run has ended, and that of `on_attempt` after an attempt.

It cannot change how the run ended, and whether another attempt follows.
"""

from __future__ import annotations

import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ddpkit.files import read_part
from ddpkit.launchers.plan import OnEnd
from ddpkit.node.owned import open_for_append
from ddpkit.node.process_tree import LOOK_AGAIN, kill_group

if TYPE_CHECKING:
    from ddpkit.execution.executor import Inbox

# The command in a session that ends with this process, however that ends: then the pipe has no writer any more.
# A child of nobody: the command may wait for all of its own. The command can have a secret, such as the address of a
# webhook: it comes as a variable, which nobody else can see, and not as an argument.
_COMMAND = "DDPKIT_COMMAND"
_WITH_US = (
    '[ ! -e "/dev/fd/$1" ] || ({ read -r _ < "/dev/fd/$1" || kill -KILL -$$; } &); '
    f'command=${_COMMAND}; unset {_COMMAND}; shift; eval "$command"'
)
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
TERM_GRACE = 2.0  # seconds between SIGTERM and SIGKILL of a command that takes longer
LOG, ATTEMPT_LOG = "on_end.log", "on_attempt.log"  # its output, in the directory of the run
LIMITS = {LOG: 60.0, ATTEMPT_LOG: 10.0}  # seconds
SHOWN = 1 << 16  # bytes of the output that are shown


def run_hook(
    command: OnEnd,
    document: str,
    folder: Path,
    show: Callable[[bytes], object],
    note: Callable[[str], None],
    inbox: Inbox,
    *,
    log_name: str = LOG,
    limit: float | None = None,
) -> None:
    """Run the command with `document`, the record of the run, on its standard input. `show` gets labelled output.

    `folder`: directory of the run. `log_name`: LOG or ATTEMPT_LOG. `limit`: seconds; None: as LIMITS has it. `note`
    gets the problems. A signal in `inbox` that would end a run ends the command. After an attempt it stays in `inbox`.
    """
    began, name = time.monotonic(), log_name.partition(".")[0]
    until = began + (LIMITS[log_name] if limit is None else limit)
    keeps_signal = log_name == ATTEMPT_LOG  # it also ends the run
    try:
        with open(open_for_append(str(folder / log_name), 0o644), "wb", buffering=0) as log:
            start = log.seek(0, os.SEEK_END)
            ended = _run(command, document, log, inbox, until, keeps_signal=keeps_signal)
        for line in read_part(folder / log_name, start, SHOWN).splitlines():
            show(f"[{name}] ".encode() + line + b"\n")
    except OSError as error:
        ended = f"cannot be started: {error.strerror or error}"
    if ended:
        took = time.monotonic() - began
        note(f"ddpkit: {name}: {ended} after {took:.1f} s; the exit code of the run stays as it is")
        note(f"hint: cat {shlex.quote(str(folder / log_name))}")


def _run(command: OnEnd, document: str, log: IO[bytes], inbox: Inbox, until: float, *, keeps_signal: bool) -> str:
    """Run a command, at most `until` (time.monotonic()). Returns why it did not succeed; empty: exit code 0.

    `keeps_signal`: a signal that ends the command stays in the inbox.
    """
    if not keeps_signal:
        take_signal(inbox)  # a signal to the run, which has ended, is not meant for the command
    elif (number := waiting_signal(inbox)) is not None:
        return f"not started because of {signal.Signals(number).name}"
    watched, ours = os.pipe()
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _WITH_US, "sh", str(watched)],
            env={**os.environ, _COMMAND: command.command},
            cwd=command.directory,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=(watched,),
            start_new_session=True,  # Ctrl-C of the terminal reaches the launcher alone
        )
        return _follow(process, document, inbox, until, keeps_signal=keeps_signal)
    finally:
        with suppress(OSError):
            os.write(ours, b"\n")  # the command has ended: what it leaves in its session goes on
        os.close(ours)
        os.close(watched)


def _follow(process: subprocess.Popen[bytes], document: str, inbox: Inbox, until: float, *, keeps_signal: bool) -> str:
    """Give the command its input, and wait for its end. Returns as `_run`."""
    threading.Thread(target=_feed, args=(process, document), daemon=True).start()
    ended = ""
    while not ended:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(0.1)
            return "" if code == 0 else f"exit code {code}" if code > 0 else f"signal {-code}"
        number = waiting_signal(inbox) if keeps_signal else take_signal(inbox)
        if number is not None:
            ended = f"ended by {signal.Signals(number).name}"
        elif time.monotonic() > until:
            ended = "took too long and was ended"
    _end(process)
    return ended


def _feed(process: subprocess.Popen[bytes], document: str) -> None:
    assert process.stdin is not None
    with suppress(OSError), process.stdin as pipe:  # a command need not read it
        pipe.write(document.encode())


def is_signal_waiting(inbox: Inbox) -> bool:
    """Whether a signal that ends a run is in the inbox, where it stays."""
    return waiting_signal(inbox) is not None


def waiting_signal(inbox: Inbox) -> int | None:
    """Return a signal in the inbox that ends a run, and leave it there. All other messages are dropped."""
    number = take_signal(inbox)
    if number is not None:
        inbox.put((-1, number))
    return number


def take_signal(inbox: Inbox, also: tuple[int, ...] = ()) -> int | None:
    """Empty the inbox. Returns the last signal in it that ends a run, or is one of `also`; None: there was none."""
    number = None
    with suppress(queue.Empty):
        while True:
            index, message = inbox.get_nowait()
            if index == -1 and message in (*ENDING, *also) and isinstance(message, int):
                number = message
    return number


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command's session: TERM, then KILL. Until then its first process is not reaped, so its number stays."""
    until = time.monotonic() + TERM_GRACE
    kill_group(process.pid, signal.SIGTERM)
    while not _has_ended(process) and time.monotonic() < until:
        time.sleep(LOOK_AGAIN)
    kill_group(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(TERM_GRACE)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether a process has ended, without waiting for it where the system can."""
    if sys.platform != "linux":
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
