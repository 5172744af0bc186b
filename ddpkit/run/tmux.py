"""Tmux session of a launcher, which outlives its terminal: start it, attach to it.

Each run has its own tmux server, on a socket of its own, with no configuration file. The socket is in a directory that
only this user has. Its name and that of the session follow from the record, which names no path. The user's server may
be years old: its environment, limits and control group are those of another login, its configuration may do anything,
and what ends it would end the run. It also makes no difference then whether this shell stands in tmux itself.

The environment goes to the launcher through a named pipe: it stands in no file, in no argv, and not in what the tmux
server shows. The session ends with the run; what the run said is in its logs.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ddpkit.errors import LaunchError, UsageError, install, no_folder
from ddpkit.files import (
    check_above,
    make_directory,
    remove_directory,
    remove_socket,
    temporary_directory,
    who_can_replace,
    write_atomically,
)
from ddpkit.run.launcher_process import process_state
from ddpkit.run.record import Run, Session
from ddpkit.run.run_index import index_folder, read_run
from ddpkit.run.state import Origin

VARIABLE = "DDPKIT_DETACHED"  # in the launcher's environment: the folder where its answer is awaited
KIND = "detach"  # of the directory in which the launcher gets its environment, for `ddpkit/node/owned.py`
_NAMES = re.compile(r"given|answer|\.answer\.[0-9a-f]{16}")  # of what is in it
DAY = 86400.0  # seconds after which such a directory is one of a start that was killed
PATIENCE = 30.0  # seconds for tmux itself, which needs milliseconds
TAKEN_WITHIN = 60  # seconds in which the first program is told what to become
UNREAD = 60.0  # seconds for which a program that has ended is shown, if nobody reads what it said
SILENCE = 8.0  # seconds after which a person is told that it is waited for, and again
PREFIX = "ddpkit-"  # of a socket's name
HISTORY = 50000  # lines that one can scroll back to

# The first program of the session: it becomes the launcher that was typed, with the environment that was there.
_BECOME = """
import json, os, signal, sys
signal.alarm(int(sys.argv[2]))  # nobody hands anything over: whoever started this is gone
with open(sys.argv[1], "rb") as pipe:
    given = json.loads(pipe.read())
signal.alarm(0)
given = {key: [word.encode("latin-1") for word in words] for key, words in given.items()}
env = dict(zip(given["names"], given["values"]))
for name in (b"TMUX", b"TMUX_PANE", b"TERM"):
    env.pop(name, None)
    if name in os.environb:
        env[name] = os.environb[name]
os.chdir(given["folder"][0])
os.execve(given["argv"][0], given["argv"], env)
"""


def start_session(environ: Mapping[str, str], note: Callable[[str], None]) -> Run:
    """Start the command line of this process again, in a session. Returns the record once the run has one.

    Raises UsageError where there is no tmux. A launcher that ended before it had a record: `EarlyError`.
    """
    if shutil.which("tmux") is None:
        raise UsageError("--detach requires tmux, which is not installed", install("tmux"))
    # A hang-up is another matter: then nobody waits any more, and the run goes on.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        above = temporary_directory(tempfile.gettempdir())
        check_above(above)
        _sweep(Path(above))
        folder = Path(above, f"ddpkit-{os.urandom(8).hex()}")
        make_directory(str(folder), KIND)
    except OSError as error:
        raise no_folder(error) from None
    try:
        with _own_server(name := f"{PREFIX}{os.urandom(8).hex()}") as tmux:
            pid = _new_session(tmux, name, folder / "given")
            _hand_over(folder / "given", pid, {**environ, VARIABLE: str(folder)})
            return _wait_for_record(tmux, name, pid, folder, note)
    finally:
        with suppress(OSError):
            remove_directory(str(folder), KIND)


def _sweep(above: Path) -> None:
    """Remove the directories of starts that were killed."""
    for folder in above.glob(f"ddpkit-{'[0-9a-f]' * 16}"):
        with suppress(OSError):
            if time.time() > folder.lstat().st_mtime + DAY:
                remove_directory(str(folder), KIND, known=_NAMES)


class EarlyError(Exception):
    """The launcher ended before its run began; this is what it said, and its exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


@contextmanager
def _own_server(name: str) -> Iterator[list[str]]:
    """Yield the tmux command of a new server. If anything goes wrong inside, Ctrl-C included, the server ends."""
    socket = _new_socket(name)
    tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
    try:
        yield tmux
    except BaseException:
        subprocess.run([*tmux, "kill-server"], capture_output=True, timeout=PATIENCE, check=False)
        remove_socket(str(socket), PREFIX)
        raise


def _socket_folders() -> list[Path]:
    """Return the directories that may hold sockets: tmux's own, and one for where that is another user's."""
    tmux = [Path(each, f"tmux-{os.geteuid()}") for each in (os.environ.get("TMUX_TMPDIR"), "/tmp") if each]
    return [*tmux, index_folder().parent / "tmux"]


def _is_private(folder: Path) -> bool:
    """Tell whether this is a directory that nobody but this user can enter, or replace by another one."""
    try:
        status = folder.lstat()
        if who_can_replace(str(folder)):
            return False
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _new_socket(name: str) -> Path:
    """Return the path of a new socket. Raises LaunchError."""
    folders = _socket_folders()
    for folder in folders:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=folder == folders[-1])
        if _is_private(folder):
            return folder / name
    raise LaunchError(
        f"no directory for a socket of tmux: {folders[0]} is another user's, or others can replace it",
        f"ls -ld {shlex.quote(str(folders[0]))}",
    )


def _socket(run: Run) -> Path | None:
    """Return the socket of a run's session; None: there is none of this user's."""
    if run.session is None or run.origin is Origin.OTHERS:
        return None
    for folder in _socket_folders():
        path = folder / f"{PREFIX}{run.session.token}"
        with suppress(OSError):
            status = path.lstat()
            if _is_private(folder) and stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid():
                return path
    return None


def _session_name(run_id: str) -> str:
    return f"ddpkit-{run_id}"


def _tmux(argv: list[str]) -> str:
    # What tmux itself needs, and nothing more: its server keeps it, and shows it.
    kept = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TMUX_TMPDIR", "SHELL")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise LaunchError(f"tmux did not answer in {PATIENCE:g} s", "tmux -V") from None
    if done.returncode != 0:
        words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise LaunchError(f"tmux cannot start a session: {words}", "tmux new-session")
    return done.stdout


def _new_session(tmux: list[str], name: str, pipe: Path) -> int:
    """Make the session; its program waits for what it is to become. Returns its process id."""
    os.mkfifo(pipe, 0o600)
    settings = {
        "history-limit": str(HISTORY),
        "status-left": " #S ",
        "status-left-length": "80",
        "status-right": "C-b d leaves; Ctrl-C ends the run ",
        "status-right-length": "80",
        "set-titles": "off",
    }
    argv = [*tmux, "start-server", ";"]
    for key, value in settings.items():
        argv += ["set-option", "-g", key, value, ";"]
    # What is printed before there is a record is shown by the parent, after the program's end. A parent that was killed
    # reads nothing: the server ends by itself.
    argv += ["set-option", "-g", "-w", "remain-on-exit", "on", ";"]
    end = f"sleep {UNREAD:g}; exec {shlex.join([*tmux, 'kill-server'])}"
    argv += ["set-hook", "-g", "pane-died", f"run-shell -b {shlex.quote(end)}", ";"]
    # Before 3.5 tmux can miss the end of a child (libutempter takes its SIGCHLD), until another child ends.
    argv += ["run-shell", "-b", f"exec sleep {2 * TAKEN_WITHIN}", ";"]
    argv += ["set-option", "-g", "-w", "window-status-current-format", "", ";"]
    argv += ["new-session", "-d", "-s", name, "-x", "200", "-y", "50", "-P", "-F", "#{pane_pid}"]
    return int(_tmux([*argv, sys.executable, "-S", "-I", "-c", _BECOME.rstrip(), str(pipe), str(TAKEN_WITHIN)]))


def _hand_over(pipe: Path, pid: int, env: Mapping[str, str]) -> None:
    """Give the waiting program its command line, environment and folder, byte for byte."""

    def plain(words: list[str]) -> list[str]:
        return [os.fsencode(word).decode("latin-1") for word in words]

    argv = [sys.executable, *sys.orig_argv[1:]]
    given = {"argv": argv, "names": list(env), "values": list(env.values()), "folder": [str(Path.cwd())]}
    data = json.dumps({key: plain(words) for key, words in given.items()}).encode()
    until = time.monotonic() + PATIENCE
    while True:
        try:
            handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError as error:
            if error.errno != errno.ENXIO:  # no reader yet
                raise
        if time.monotonic() > until or not _lives(pid):
            raise LaunchError("the session did not start the launcher", f"{shlex.quote(sys.executable)} -V")
        time.sleep(0.01)
    os.set_blocking(handle, True)
    with open(handle, "wb") as file:
        file.write(data)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return process_state(pid) not in ("Z", "X")


def _wait_for_record(tmux: list[str], name: str, pid: int, folder: Path, note: Callable[[str], None]) -> Run:
    """Wait as long as checks before the start take; Ctrl-C ends the session."""
    began = noted = time.monotonic()
    while True:
        if time.monotonic() > noted + SILENCE:
            noted = time.monotonic()
            note(f"waiting for the launcher: it has been preparing for {noted - began:.0f} s; Ctrl-C ends it")
        lives = _lives(pid)
        try:
            record = read_run(Path(os.fsdecode((folder / "answer").read_bytes())))
        except OSError:
            record = None
        if record is not None:
            return record
        if not lives:
            raise _early_end(tmux, name, pid)
        time.sleep(0.02)


def _early_end(tmux: list[str], name: str, pid: int) -> EarlyError:
    """Return what a launcher that has ended said in its session, and its exit code."""
    # tmux has still to read the last words. Sometimes it does not notice that its child ended (3.3a, seen).
    code = _exit_code_of_zombie(pid)
    until = time.monotonic() + 2.0
    while True:
        form = "#{pane_dead} #{pane_dead_status}"  # `0`, or `1 CODE`
        dead, *status = _tmux([*tmux, "display-message", "-p", "-t", f"={name}:", form]).split() or [""]
        if status:
            code = int(status[0])
        if dead == "1" or time.monotonic() > until:
            break
        time.sleep(0.02)
    # -J: lines that are longer than the window is wide are one line again.
    text = _tmux([*tmux, "capture-pane", "-p", "-J", "-S", "-", "-t", f"={name}:"])
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("Pane is dead")]
    return EarlyError("\n".join(lines).strip("\n"), code or _exit_code_of_zombie(pid) or 1)


def _exit_code_of_zombie(pid: int) -> int | None:
    """Return the exit code of a process that ended and that nobody collected: the last field of /proc/PID/stat."""
    try:
        return os.waitstatus_to_exitcode(int(Path(f"/proc/{pid}/stat").read_text().split()[-1]))
    except (OSError, ValueError):
        return None


def expected_session(environ: Mapping[str, str]) -> Session | None:
    """Return the session that this launcher's run is going to have; None outside of tmux."""
    token = Path(_socket_of(environ)).name.removeprefix(PREFIX)
    return Session(token=token) if token else None


def _socket_of(environ: Mapping[str, str]) -> str:
    return environ.get("TMUX", "").rpartition(",")[0].rpartition(",")[0]  # SOCKET,PID,NUMBER


def name_session(run_id: str, environ: Mapping[str, str]) -> None:
    """Give the session the run's name, and let it end with the run.

    Not before there is a record: until then the parent shows what is said in it.
    """
    socket = _socket_of(environ)
    rename = ["rename-session", "-t", environ["TMUX_PANE"], _session_name(run_id), ";"]
    _tmux(["tmux", "-S", socket, *rename, "set-option", "-g", "-w", "remain-on-exit", "off"])
    atexit.register(remove_socket, socket, PREFIX)  # a tmux server leaves it behind


def announce_record(folder: str, run_folder: str) -> None:
    """Tell the parent, which waits in `folder`, where the record is. It may be gone; the run goes on without it."""
    with suppress(OSError):
        write_atomically(Path(folder) / "answer", os.fsencode(run_folder))


def is_attachable(run: Run) -> bool:
    """Whether the session of a run can be attached to."""
    socket = _socket(run)
    if socket is None or shutil.which("tmux") is None:
        return False
    argv = ["tmux", "-S", str(socket), "has-session", "-t", f"={_session_name(run.run_id)}"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def attach(run: Run) -> int:
    """Show the session in this terminal until it ends or is left."""
    # Inside the user's own tmux as well: tmux refuses that unless it does not know.
    env = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    argv = ["tmux", "-u", "-S", str(_socket(run)), "attach-session", "-t", f"={_session_name(run.run_id)}"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # in the view it is a key
    try:
        return subprocess.run(argv, env=env, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
