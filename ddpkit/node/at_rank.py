"""Becomes a command where a rank runs: in its environment, its directory, and the namespaces of its container.

`ddpkit shell`, `debug` and `forward` send this text to `python3 -c` on the rank's node, with `ask = {...}` before it:

    runs    the ids that the rank can have as DDPKIT_RUN: of its run, and of a hold that it is a fork of
    pid     the rank's process, as its supervisor sees it: in a container, as the container sees it
    env     variables that the rank set after its start, as a rank forked by `fork_server.py` does
    words   the command; {python} is the rank's Python, {pid} its process. Empty: a shell
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHELL = 'for each in "${SHELL-}" bash; do command -v "$each" >/dev/null 2>&1 && exec "$each"; done; exec sh'
# Options of nsenter by the names of /proc/PID/ns.
NAMESPACES = {"user": "--user", "mnt": "--mount", "pid": "--pid", "net": "--net", "ipc": "--ipc", "uts": "--uts"}
OURS = ("DDPKIT_HOOK", "DDPKIT_PRELOAD", "DDPKIT_TAP", "DDPKIT_TAP_ONCE", "DDPKIT_OBSERVE")
SAFE_PATH = ("PYTHONSAFEPATH", "ddpkit")  # see `node/child.py`
OF_TERMINAL = ("TERM", "COLORTERM", "LINES", "COLUMNS")


def main(ask: dict[str, Any]) -> None:
    """Replace this process by the command. Ends with a message where the rank or a program is missing."""
    pid = find(ask["runs"], ask["pid"])
    if pid is None:
        sys.exit(
            "ddpkit: process %d of run %s is not on %s any more" % (ask["pid"], ask["runs"][0], os.uname().nodename)
        )
    known = {"{python}": python_of(pid), "{pid}": str(ask["pid"])}
    words = [known.get(word, word) for word in ask["words"]] or ["sh", "-c", SHELL]
    env = {**environment(pid), **ask["env"]}
    env.update((name, os.environ[name]) for name in OF_TERMINAL if name in os.environ)
    if ask["words"][:2] == ["{python}", "-c"]:  # code of ddpkit's
        env[SAFE_PATH[0]] = env.get(SAFE_PATH[0]) or SAFE_PATH[1]
    inside = [option for name, option in NAMESPACES.items() if _namespace(pid, name) != _namespace("self", name)]
    if inside:
        nsenter = shutil.which("nsenter")
        if nsenter is None:
            sys.exit("ddpkit: nsenter not found: it enters the container of the rank\nhint: install util-linux")
        # The command has to be a child there, and `--preserve-credentials` keeps the user of a rootless container.
        words = [nsenter, "--target", str(pid), *inside, "--preserve-credentials", "--wd", "--", *words]
    else:
        os.chdir("/proc/%d/cwd" % pid)
    _end_with_parent()
    try:
        os.execvpe(words[0], words, env)
    except OSError as error:
        sys.exit("ddpkit: %s: %s" % (words[0], error.strerror))


def _end_with_parent() -> None:
    """End with what started this process: an SSH server tells a command without a terminal nothing of a lost client."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGHUP)  # PR_SET_PDEATHSIG; it survives exec
    if os.getppid() != parent:
        sys.exit(129)


def find(runs: list[str], pid: int) -> int | None:
    """Return the rank's process as this process sees it; None: it is gone. Another process may have its number now."""
    for name in sorted(os.listdir("/proc"), key=lambda name: name != str(pid)):
        if not name.isdecimal() or _number_inside(name) != pid or not _is_own(name):
            continue
        if environment(int(name)).get("DDPKIT_RUN") in runs:
            return int(name)
    return None


def _is_own(name: str) -> bool:
    """Whether a process is this user's: another one can give its own any variables."""
    try:
        return os.stat("/proc/" + name).st_uid == os.geteuid()
    except OSError:
        return False


def environment(pid: int) -> dict[str, str]:
    """Return the variables with which a process was started, without those by which ddpkit starts a rank."""
    text = _read("/proc/%d/environ" % pid).decode("utf-8", "surrogateescape")
    pairs = [entry.partition("=") for entry in text.split("\0") if "=" in entry]
    env = {name: value for name, _, value in pairs if name not in OURS and (name, value) != SAFE_PATH}
    path = [entry for entry in env.pop("PYTHONPATH", "").split(":") if entry and not entry.endswith("/ddpkit.zip")]
    return {**env, "PYTHONPATH": ":".join(path)} if path else env


def python_of(pid: int) -> str:
    """Return the Python of a process, as it was started: that of a virtual environment finds its packages."""
    started = _read("/proc/%d/cmdline" % pid).split(b"\0")[0].decode("utf-8", "surrogateescape")
    program = os.readlink("/proc/%d/exe" % pid)
    if started.startswith("/") and os.path.basename(started).startswith("python"):
        return started
    return program if os.path.basename(program).startswith("python") else sys.executable


def _number_inside(name: str) -> int | None:
    """The number of a process in its own namespace."""
    for line in _read("/proc/%s/status" % name).splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return int(name) if os.path.isdir("/proc/%s" % name) else None  # a kernel before 4.1


def _namespace(process: object, name: str) -> str:
    try:
        return os.readlink("/proc/%s/ns/%s" % (process, name))
    except OSError:
        return ""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 22)
    except OSError:
        return b""
