"""What SLURM's variables point at, read by those who may read: a file, and the program that a step runs.

The resolver is pure. Two answers lie outside of the environment, so `init()` and `ddpkit env` look them up here and
hand them over as a value. Looking never fails and never waits for a file that is none: what could not be seen is left
out, or says why.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass

# A host name and its newline for each of 100,000 tasks; a larger file is no host file.
MOST_BYTES = 4 << 20

_SHELLS = frozenset("sh bash dash ash ksh mksh zsh fish csh tcsh".split())
_MULTIPLEXERS = frozenset("tmux screen".split())
# Options of a shell whose next word is their value, and no script.
_WITH_VALUE = frozenset("--rcfile --init-file -o +o -O +O".split())


@dataclass(frozen=True)
class Facts:
    """What was looked up. The default is: nothing was."""

    hostfile: str | None = None
    """The text of the file SLURM_HOSTFILE, which gives each task its host."""
    hostfile_error: str = ""
    """Why that file could not be read."""
    shell: str = ""
    """The name of the interactive shell that this SLURM step runs on a terminal (`srun --pty bash`)."""


def gather_facts(environ: Mapping[str, str]) -> Facts:
    """Look up what the resolver would need to know besides this environment; outside of a SLURM step, nothing."""
    if not environ.get("SLURM_STEP_NUM_TASKS", "").strip():
        return Facts()
    hostfile, hostfile_error = None, ""
    path = environ.get("SLURM_HOSTFILE", "").strip()
    if path and environ.get("SLURM_DISTRIBUTION", "").strip().lower().startswith("arbitrary"):
        try:
            hostfile = _read(path)
        except OSError as error:
            hostfile_error = error.strerror or str(error)
    return Facts(hostfile=hostfile, hostfile_error=hostfile_error, shell=_interactive_shell(environ))


def _read(path: str) -> str:
    # Without O_NONBLOCK a pipe of that name would be waited for.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"larger than {MOST_BYTES >> 20} MiB")
    return data.decode("utf-8", "replace")


def _interactive_shell(environ: Mapping[str, str]) -> str:
    """Name the shell that this step's task is, if it is one on a terminal that runs no script; else return ''.

    `srun --pty bash` and the `srun python` typed in it cannot be told apart by variables: SLURM_PTY_PORT is inherited.
    """
    pid = environ.get("SLURM_TASK_PID", "").strip()
    if not pid.isdigit():
        return ""
    try:
        # In a container the number may be another process: only the task itself was started with its own number.
        if f"SLURM_TASK_PID={pid}".encode() not in _proc(pid, "environ").split(b"\0"):
            return ""
        # The name in the second field may hold blanks and brackets; tty_nr is the fifth after it.
        if _proc(pid, "stat").rpartition(b")")[2].split()[4] == b"0":
            return ""
        words = _proc(pid, "cmdline").decode("utf-8", "replace").split("\0")
    except (OSError, IndexError):
        return ""
    return _name_of_shell([word for word in words if word])


def _proc(pid: str, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read(MOST_BYTES)


def _name_of_shell(words: list[str]) -> str:
    """Name the shell that a command line starts, if a person types into it; a script or `-c` makes it a program."""
    name = words[0].rpartition("/")[2].lstrip("-") if words else ""  # a login shell calls itself "-bash"
    if name in _MULTIPLEXERS:
        return name
    if name not in _SHELLS:
        return ""
    options = iter(words[1:])
    for word in options:
        if word in _WITH_VALUE:
            next(options, None)
        elif not word.startswith(("-", "+")) or (not word.startswith("--") and "c" in word):
            return ""
    return name
