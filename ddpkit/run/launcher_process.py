"""Process of a launcher: whether it lives, its signals, its end; on Linux and macOS."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from ddpkit.run.record import ENDED, REQUESTS, Run, load


def process_start(pid: int) -> str:
    """Return the start of a living process in clock ticks since boot (field 22 of /proc/PID/stat); else nothing."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() else _run_program(["ps", "-o", "lstart=", "-p", str(pid)])
    except OSError:
        return ""  # it ended while we looked
    return words[19] if len(words) > 19 and words[0] not in "ZX" else ""


def process_state(pid: int) -> str:
    """Return the state letter of /proc/PID/stat; empty where it is unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def boot_id() -> str:
    """Return the boot and the process namespace in which the ids of this process are valid."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{text} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return _run_program(["sysctl", "-n", "kern.bootsessionuuid"])


def _run_program(argv: list[str]) -> str:
    """Run a program of macOS that prints what Linux has in a file."""
    env = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=5, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def is_local(run: Run) -> bool:
    """Tell whether this process can see the launcher's. It can, if the boot is over: nothing of that lives."""
    if run.launcher_host != os.uname().nodename:
        return False
    was, now = run.launcher_boot.split(" "), boot_id().split(" ")
    return was[0] != now[0] or was[1:] == now[1:] or not run.launcher_boot


def is_alive(run: Run) -> bool:
    """Tell whether the launcher lives, for a run that `is_local`. Another process with its id is not it."""
    if run.launcher_boot and run.launcher_boot != boot_id():
        return False
    if not run.launcher_started or process_start(run.launcher_pid) != run.launcher_started:
        return False
    if not run.in_program:
        return True
    now = load(Path(run.folder))  # the program may go on after the run
    return now is None or now.state not in ENDED


def send_signal(run: Run, number: int) -> bool:
    """Send a signal to the launcher and to nothing else; False where it has ended. A stopped one is woken for it.

    A launcher in another program gets a request in its folder: the signal would end that program. Raises OSError.
    """
    if run.in_program:
        if not is_alive(run):
            return False
        add_request(Path(run.folder), number)
        return True
    try:
        handle = os.pidfd_open(run.launcher_pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        handle = None  # it has ended, or the kernel is older than Linux 5.3
    try:
        if not is_alive(run):
            return False
        if process_state(run.launcher_pid) == "T":
            _signal(run, handle, signal.SIGCONT)
            # A signal that arrives while Python's first thread goes back to its lock is taken, and obeyed only when
            # something else wakes that thread (3.11, seen). It must be asleep again.
            time.sleep(1.0)
        _signal(run, handle, number)
    except ProcessLookupError:
        pass
    finally:
        if handle is not None:
            os.close(handle)
    return True


def _signal(run: Run, handle: int | None, number: int) -> None:
    if sys.platform == "linux" and handle is not None:
        signal.pidfd_send_signal(handle, number)  # this very process, also when it ended just now
    else:
        os.kill(run.launcher_pid, number)


def wait_for_end(run: Run, seconds: float) -> bool:
    """Wait until the launcher has ended, at most so long; False where it lives on."""
    until = time.monotonic() + seconds
    try:
        wanted = not run.in_program and is_alive(run)
        handle = os.pidfd_open(run.launcher_pid) if wanted and hasattr(os, "pidfd_open") else None
    except OSError:
        handle = None
    try:
        if handle is not None and is_alive(run):
            select.select([handle], [], [], seconds)
        while is_alive(run):
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
    finally:
        if handle is not None:
            os.close(handle)
    return True


def add_request(folder: Path, number: int) -> None:
    """Ask the launcher to act as if it got a signal. Raises OSError."""
    with open(folder / REQUESTS, "a") as file:
        file.write(f"{number}\n")


def take_requests(folder: Path) -> list[int]:
    """Take the numbers of the signals that were asked for since the last call."""
    taken = folder / f"{REQUESTS}.taken"
    try:
        (folder / REQUESTS).replace(taken)
        words = taken.read_text().split()
        taken.unlink()
    except OSError:
        return []
    return [int(word) for word in words if word.isdecimal()]
