"""Ends what a process of the tests leaves, however it ended: each lab that it started, and every program below it.

A lab is entered in REGISTER, in a file that its process holds locked. The kernel takes the lock away with the process:
whoever gets it knows that the lab is nobody's. A helper beside the process, in a session of its own which Ctrl-C does
not reach, reads a pipe: it ends with the process, also when that is killed. Where the helper was killed too, the next
process that starts a lab does its work.

As a program: the helper. keeper.py MARK, with the pipe as standard input
"""

from __future__ import annotations

import fcntl
import functools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

REGISTER = Path("/run/ddpkit-labs")  # one file for each lab: its name is the lab's tag, its text the lab's folder
VARIABLE = "TEST_PROCESS_OF_DDPKIT"  # of the environment, which every program below a process of the tests inherits
TEMPORARY = "ddpkit-lab-"  # a folder with such a name was made for a lab alone
PATIENCE = 60.0  # seconds until a killed process is gone, on a busy machine

_held: dict[str, int] = {}  # descriptor of each lab's file, by tag


def hold(tag: str, folder: Path) -> None:
    """Make a lab this process's. It is ended when the process has ended."""
    start()
    end_abandoned()
    REGISTER.mkdir(mode=0o700, exist_ok=True)
    draft = REGISTER / f".{tag}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.write(fd, os.fsencode(folder))
    draft.rename(REGISTER / tag)  # nobody has seen it without the lock
    _held[tag] = fd


def release(tag: str) -> None:
    """Forget a lab that has ended."""
    (REGISTER / tag).unlink(missing_ok=True)
    if tag in _held:
        os.close(_held.pop(tag))


def end_abandoned() -> None:
    """End each lab whose process has ended. One that is not in REGISTER is somebody's who looks after it."""
    from cluster import Lab  # which imports this module

    for entry in REGISTER.glob("lab*"):
        try:
            fd = os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # another process was faster
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not entry.exists():
                continue
            folder = Path(os.fsdecode(entry.read_bytes()))
            Lab(folder, tag=entry.name).down()
            if folder.name.startswith(TEMPORARY):
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue  # its process lives
        except (OSError, RuntimeError) as error:
            print(f"the lab {entry.name} is not ended: {error}", file=sys.stderr)
        finally:
            os.close(fd)


@functools.cache
def start() -> subprocess.Popen[bytes]:
    """Start the helper of this process. Programs that are started from now on carry its mark."""
    mark = secrets.token_hex(8)
    reader, writer = os.pipe()
    argv = [sys.executable, __file__, mark]
    null = subprocess.DEVNULL
    helper = subprocess.Popen(argv, cwd="/", stdin=reader, stdout=null, stderr=null, start_new_session=True)
    os.close(reader)
    os.environ[VARIABLE] = mark

    def let_go() -> None:
        for fd in (writer, *_held.values()):
            os.close(fd)

    os.register_at_fork(after_in_child=let_go)  # what is forked may outlive this process
    return helper


def marked(variable: str, mark: str) -> dict[int, str]:
    """Every living process of the machine that carries a mark in its environment, wherever it moved to."""
    needle = f"{variable}={mark}".encode()
    lines = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if needle in (path / "environ").read_bytes().split(b"\0"):
                    lines[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return lines


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def main() -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    until = time.monotonic() + PATIENCE
    while (left := marked(VARIABLE, sys.argv[1])) and time.monotonic() < until:
        kill(list(left))
        time.sleep(0.1)
    if os.geteuid() == 0:
        end_abandoned()


if __name__ == "__main__":
    main()
