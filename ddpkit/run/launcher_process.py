"""Process of a launcher: whether it lives, its signals, its end; on Linux and macOS."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TypedDict

from ddpkit.errors import UsageError
from ddpkit.files import MARKER, append, open_for_append, read_bounded
from ddpkit.run.record import REQUESTS, RecordError, Run, load
from ddpkit.run.run_files import is_own, marker_of
from ddpkit.run.state import Origin

MOST_REQUESTS = 1 << 20  # bytes
REBOOT = 120.0  # seconds without a sign of life, after which a run of a former boot is over
SIGNS = (
    "status.json",
    "timeline.json",
    "all.index",
    "all.log",
    "run.json",
)  # files that a launcher writes while it lives


class ThisLauncher(TypedDict):
    """The fields of a record that say which process is its launcher."""

    launcher_pid: int
    launcher_started: str
    launcher_host: str
    launcher_boot: str
    launcher_python: str


def this_launcher() -> ThisLauncher:
    """Return the fields of a run that this process carries out."""
    return ThisLauncher(
        launcher_pid=os.getpid(),
        launcher_started=process_start(os.getpid()),
        launcher_host=os.uname().nodename,
        launcher_boot=boot_id(),
        launcher_python=sys.executable,
    )


def hold_marker(folder: Path) -> int:
    """Open the marker of a run's folder, by which `is_launcher` knows this process. Returns the open file."""
    return open_for_append(str(folder / MARKER))


def place_problem(run: Run) -> str:
    """Say what became of the directory of a run whose launcher lives here; empty: it is in its place.

    Whoever can write to the directory above, such as the `logs/` of a team, can rename it and put another there.
    """
    if run.marker in (None, marker_of(Path(run.folder))) or not (is_local(run) and is_alive(run)):
        return ""
    gone = not os.path.lexists(run.folder)
    return f"its directory was {'moved or deleted' if gone else 'replaced by another one'}: {run.folder}"


def check_place(run: Run) -> None:
    """Raise UsageError where a run's directory is not in its place: no request is left there, and no answer read."""
    if problem := place_problem(run):
        hint = f"ls -ld {shlex.quote(str(Path(run.folder).parent))}; ddpkit status {run.run_id}"
        raise UsageError(f"cannot ask the launcher of run {run.run_id}: {problem}", hint)


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
    """Return the boot and the process namespace in which process ids of this process are valid: `BOOT pid:[NUMBER]`."""
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
    """Tell whether this process can see whether the launcher lives: one machine, and one process namespace.

    Also after a restart of the machine: nothing of an earlier boot lives.
    """
    if run.launcher_host != os.uname().nodename:
        return False
    was, now = run.launcher_boot.split(" "), boot_id().split(" ")
    if was[0] != now[0] and run.launcher_boot:
        return _was_restarted(run)
    return was[1:] == now[1:] or not run.launcher_boot


def _was_restarted(run: Run) -> bool:
    """Tell whether this machine was started again after the run. Another one of the same name may share the disk.

    A launcher writes a file every few seconds: the other one's are newer than the start of this machine, or fresh.
    """
    clock = time.CLOCK_BOOTTIME if hasattr(time, "CLOCK_BOOTTIME") else time.CLOCK_MONOTONIC
    began, last = time.time() - time.clock_gettime(clock), last_sign(run)
    return last is None or (last < began and time.time() - last > REBOOT)


def last_sign(run: Run) -> float | None:
    """Return the time at which a launcher last wrote into the run's directory; None: not known."""
    times = []
    for name in SIGNS:
        try:
            times.append(Path(run.folder, name).lstat().st_mtime)
        except OSError:
            continue
    return max(times, default=None)


def is_alive(run: Run) -> bool:
    """Tell whether the launcher lives, for a run that `is_local`. Another process with its id is not it."""
    if run.launcher_boot and run.launcher_boot != boot_id():
        return False
    if not run.launcher_started or process_start(run.launcher_pid) != run.launcher_started:
        return False
    if not run.in_program:
        return True
    folder = Path(run.folder)
    in_place = is_own(folder) if run.marker is None else run.marker == marker_of(folder)
    if not in_place:
        return True  # what others put in the place of its directory says nothing of the run
    try:
        now = load(folder)  # the program may go on after the run
    except RecordError:
        return True
    return now is None or not now.state.ended


def is_launcher(run: Run) -> bool:
    """Tell whether the process of a record is the launcher of this run: a record may name any process.

    A launcher keeps the marker of its run's directory open for writing. No other process of the user has a reason to.
    """
    try:
        handles = list(Path(f"/proc/{run.launcher_pid}/fd").iterdir())
    except FileNotFoundError:
        command = _run_program(["ps", "-o", "command=", "-p", str(run.launcher_pid)])
        return not Path("/proc/self/fd").exists() and "ddpkit" in command
    except OSError:
        return False
    return any(_is_open_to_write(handle, Path(run.folder, MARKER), run.marker) for handle in handles)


def _is_open_to_write(handle: Path, path: Path, known: tuple[int, int] | None) -> bool:
    """Tell whether an open file of a process (/proc/PID/fd/N) is this one, and open for writing.

    `known`: its device and inode. Without these, it is the one that has this path by now.
    """
    try:
        text = (handle.parent.parent / "fdinfo" / handle.name).read_text()
        words = [line.split()[1] for line in text.splitlines() if line.startswith("flags:")]
        if not words or int(words[0], 8) & os.O_ACCMODE == os.O_RDONLY:
            return False
        there = handle.stat()
        if known is not None:
            return (there.st_dev, there.st_ino) == known
        if str(handle.readlink()).removesuffix(" (deleted)") == os.path.realpath(path):
            return True
        return os.path.samestat(there, path.lstat())
    except OSError:
        return False


def catches(pid: int, number: int) -> bool:
    """Tell whether a process catches this signal; also true where /proc does not say."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    words = [line.split()[1] for line in text.splitlines() if line.startswith("SigCgt:")]
    return not words or bool(int(words[0], 16) >> (number - 1) & 1)


def check_launcher(run: Run) -> None:
    """Raise UsageError unless the process of a run's record may get a signal."""
    if run.origin is Origin.OTHERS:
        what = f"the record of run {run.run_id} can be changed by others: ddpkit signals no process that it names"
        raise UsageError(what, f"ls -ld {shlex.quote(run.folder)}")
    if run.in_program:
        check_place(run)
    elif not is_launcher(run) and is_alive(run):
        what = f"process {run.launcher_pid} is not the launcher of run {run.run_id}, or is about to end"
        raise UsageError(f"{what}; it gets no signal", f"ps -fp {run.launcher_pid}")


def send_signal(run: Run, number: int) -> bool:
    """Send a signal to the launcher and to nothing else; False where it has ended. A stopped one is woken for it.

    A launcher in another program gets a request in its folder: the signal would end that program. Raises OSError, and
    UsageError for a process that is not the run's launcher.
    """
    check_launcher(run)
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
        if not is_alive(run) or not is_launcher(run):
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
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(seconds * 1000)
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
    append(folder / REQUESTS, f"{number}\n")


class Requests:
    """Requests of other shells to a launcher: the numbers of signals, in a file that only grows."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REQUESTS
        self._taken = 0

    def take(self) -> list[int]:
        """Return the numbers of the signals that were asked for since the last call."""
        try:
            words = read_bounded(self._path, MOST_REQUESTS).split(b"\n")[:-1]
        except OSError:
            return []
        fresh, self._taken = words[self._taken :], len(words)
        return [int(word) for word in fresh if word.isdigit() and int(word) < signal.NSIG]
