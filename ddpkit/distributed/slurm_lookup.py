"""Facts that SLURM's variables only point at: the text of a host file, and the shell of a step.

The resolver is pure, so `init()` and `ddpkit env` gather them with this module. Gathering never fails and never waits
for a pipe: an unknown fact is left out, with its reason where there is one.
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
# Options of a shell with a value as the next word.
_WITH_VALUE = frozenset("--rcfile --init-file -o +o -O +O".split())


@dataclass(frozen=True)
class Facts:
    """Facts besides the variables; by default none."""

    hostfile: str | None = None
    """Text of the file SLURM_HOSTFILE, with the host of each task."""
    hostfile_error: str = ""
    """Why that file could not be read."""
    shell: str = ""
    """The name of the interactive shell that this SLURM step runs on a terminal (`srun --pty bash`)."""


def gather_facts(environ: Mapping[str, str]) -> Facts:
    """Gather the facts that the resolver needs in a SLURM step; outside of a step, none."""
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
    # O_NONBLOCK: opening a pipe would wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"larger than {MOST_BYTES >> 20} MiB")
    return data.decode("utf-8", "replace")


def _interactive_shell(environ: Mapping[str, str]) -> str:
    """Return the name of the interactive shell that is this step's task, or ''.

    Variables do not distinguish `srun --pty bash` from the `srun python` typed in it: SLURM_PTY_PORT is inherited.
    """
    pid = environ.get("SLURM_TASK_PID", "").strip()
    if not pid.isdecimal():
        return ""
    try:
        # In a container the id may be another process: only the task has its own id in its environment.
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
    """Return the name of an interactive shell's command line, or ''. With a script or `-c` it is a program."""
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
