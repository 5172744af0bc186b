"""Commands of a scheduler and files of its jobs on a login host, for a launcher on another machine.

Sent to a supervisor on the login host, which ends what runs here when the launcher is gone. Each function returns its
value, the number of an OSError (0: none) and the path in that error.
"""

from __future__ import annotations

import errno
import functools
import glob
import os
import select
import shutil
import signal
import socket
import subprocess

from ddpkit.node.child import is_absent, merged
from ddpkit.node.env_names import env_matcher
from ddpkit.node.owned import replace_file, strangers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

SHELL_LIMIT = 10.0  # seconds for a login shell
CHUNK = 1 << 16
_is_stale = env_matcher("stale")
_programs: dict[int, subprocess.Popen[bytes]] = {}  # by process id


def _tried(action: Callable[..., Any]) -> Callable[..., list[Any]]:
    @functools.wraps(action)
    def tried(**args: Any) -> list[Any]:
        try:
            return [action(**args), 0, ""]
        except OSError as error:
            return [None, error.errno or errno.EIO, error.filename or ""]

    return tried


@_tried
def look(workdir: str, log_dir: str, script: str, code: list[str], pythons: list[str], login: bool) -> dict[str, Any]:
    """Return the facts of this host. The first of `pythons` that exists is chosen. `log_dir`: below `workdir`.

    `code`: names that the job's own code can have there; `script`: the one that it has, which `--sync` may bring later.
    `login`: a login shell may run, for its PATH.
    """
    if login and not shutil.which("sbatch"):
        _take_login_path()
    folder = os.path.abspath(os.path.expanduser(workdir))
    # A name is searched in PATH. A relative path is below the directory.
    words = [os.path.join(folder, os.path.expanduser(each)) if "/" in each else each for each in pythons]
    paths = list(map(shutil.which, words))
    own = os.path.join(folder, script) if script else ""
    logs = os.path.join(folder, os.path.expanduser(log_dir))
    return {
        "host": socket.gethostname(),
        "stale": list(filter(_is_stale, os.environ)),
        "scheduler": bool(shutil.which("sbatch")),
        "workdir": folder,
        "no_workdir": ""
        if os.access(folder, os.X_OK)
        else os.strerror(errno.EACCES if os.path.exists(folder) else errno.ENOENT),
        "log_dir": logs,
        # A job loads programs from there, maybe hours later.
        "strangers": strangers(
            os.path.join(logs, "run"),
            [path for path in (os.path.join(folder, each) for each in code) if path == own or os.path.isfile(path)],
        ),
        "has_script": not script or os.path.exists(os.path.join(folder, script)),
        "python": next((os.path.abspath(each) for each in paths if each), ""),
    }


def _take_login_path() -> None:
    """Take the PATH of a login shell: some sites add SLURM there alone."""
    argv = [os.environ.get("SHELL") or "/bin/sh", "-lc", 'printf "\\n%s" "$PATH"']
    try:
        null = subprocess.DEVNULL
        done = subprocess.run(argv, stdin=null, stdout=subprocess.PIPE, stderr=null, timeout=SHELL_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    os.environ["PATH"] = os.fsdecode(done.stdout.rpartition(b"\n")[2]) or os.environ["PATH"]


def _start(argv: list[str], changes: dict[str, str | None], stdin: int) -> subprocess.Popen[bytes]:
    env, pipe = merged(os.environ, changes), subprocess.PIPE
    try:
        return subprocess.Popen(argv, env=env, stdin=stdin, stdout=pipe, stderr=pipe)
    except OSError as error:
        if is_absent(error, argv[0], env.get("PATH")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0]) from None
        raise


@_tried
def run(argv: list[str], changes: dict[str, str | None], timeout: float) -> list[Any]:
    """Run a command to its end. Returns exit code, output and error output; the code is None after the timeout."""
    process = _start(argv, changes, subprocess.DEVNULL)
    try:
        output, errors = process.communicate(timeout=timeout)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        code = None
    return [code, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")]


def _make_directories(path: str) -> None:
    """Make a directory and those above it. No other user may write to them."""
    umask = os.umask(0o022)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(umask)


@_tried
def make_folder(path: str) -> None:
    _make_directories(path)
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


@_tried
def write(files: list[list[str]]) -> None:
    """Write files, each a path and its bytes as characters of Latin-1. No other user may change them."""
    for path, text in files:
        # Python makes its cache by the umask of a rank: another user could put a program into it.
        _make_directories(os.path.dirname(path) + ("/__pycache__" if path.endswith(".py") else ""))
        replace_file(path, text.encode("latin-1"), 0o600)


@_tried
def find(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern))


@_tried
def read(path: str, offset: int, size: int) -> str:
    """Return bytes of a file as characters of Latin-1. A negative offset counts from the end."""
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) + offset) if offset < 0 else offset)
        return file.read(size).decode("latin-1")


# ---- programs that run beside the calls


@_tried
def start(argv: list[str], changes: dict[str, str | None]) -> int:
    """Start a program. Returns its process id."""
    process = _start(argv, changes, subprocess.PIPE)
    _programs[process.pid] = process
    return process.pid


@_tried
def exchange(pid: int, data: str, seconds: float) -> list[Any]:
    """Give a program input, wait for output. Returns output, error output, and True after the end of both."""
    process = _programs[pid]
    assert process.stdin
    assert process.stdout
    assert process.stderr
    try:
        process.stdin.write(data.encode("latin-1"))
        process.stdin.flush()
    except BrokenPipeError:
        pass
    texts, ends = ["", ""], 0
    pipes = [process.stdout.fileno(), process.stderr.fileno()]
    poll = select.poll()
    for fd in pipes:
        poll.register(fd, select.POLLIN)
    for fd, _ in poll.poll(seconds * 1000):
        new = os.read(fd, CHUNK)
        texts[pipes.index(fd)] = new.decode("latin-1")
        ends += not new
    return [*texts, ends == 2]


@_tried
def stop(pid: int, patience: float) -> None:
    """Close the input of a program, wait so many seconds for its end, then end it."""
    process = _programs.pop(pid)
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream
        try:
            stream.close()
        except OSError:
            pass
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
