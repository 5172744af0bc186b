"""A child process: bound to its parent, turned into a command, and how it ended.

Small, as the wrapper of each rank imports it.
"""

from __future__ import annotations

# `signal` itself imports enum, which takes 3 ms.
import _signal as signal  # type: ignore[import-not-found]
import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

# In `sys.modules` of a supervisor that is a fork of a hold's warm Python: the Holder of `rank/holder.py`.
HELD = "ddpkit_held"
HELD_FORMAT = 2  # of what a hold and a launch, perhaps of another version, say to each other
HOLDER = "DDPKIT_HOLDER"  # what such a Python shall do, as JSON: {"name", "modules", "idle"}
# For -c and -m Python puts the working directory in front of its own modules. There others may be able to write, and a
# project may have a random.py. Code of ddpkit's for -c begins with this, which needs no module from a file. Python 3.13
# imports linecache before that line: SAFE_PATH in the environment, which older ones do not know, keeps it from there.
SAFE_PATH = ("PYTHONSAFEPATH", "ddpkit")  # a value of ours: what that Python starts does not get it
NOT_FROM_HERE = (
    'import sys; sys.path[:1] != [""] or sys.path.pop(0); import os; '
    'os.environ.get("%s") != "%s" or os.environ.pop("%s")' % (*SAFE_PATH, SAFE_PATH[0])
)
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def hide() -> None:
    """Close memory and open files of this process to others of its user, such as its ranks.

    What it executes is open again. Only root with CAP_SYS_PTRACE still reads them.
    """
    _prctl(PR_SET_DUMPABLE, 0)


def show() -> None:
    """Undo `hide` in a fork that goes on as another program."""
    _prctl(PR_SET_DUMPABLE, 1)


def die_with_parent(parent: int, number: int) -> None:
    """Let the kernel send this signal when the parent dies. Exits at once where it has died already."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes  # takes 3 ms, which a launcher does not need

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def connect_output(folder: str, local_rank: str) -> None:
    """Make standard output and error the pipes of a rank in a supervisor's private folder."""
    for name, fd in (("out", 1), ("err", 2)):
        pipe = os.open(f"{folder}/{name}.{local_rank}", os.O_WRONLY)
        os.dup2(pipe, fd)
        os.close(pipe)


def execute(argv: list[str], env: Mapping[str, str]) -> NoReturn:
    """Become a command, or say why not and exit as a shell would."""
    try:
        os.execvpe(argv[0], argv, with_safe_path(env) if is_own_code(argv) else env)
    except OSError as error:
        absent = is_absent(error, argv[0], env.get("PATH"))
        why = os.strerror(errno.ENOENT) if absent else error.strerror
        os.write(2, f"ddpkit: cannot start {argv[0]}: {why}\n".encode("utf-8", "surrogateescape"))
        os._exit(127 if absent else 126)


def is_own_code(argv: Sequence[str]) -> bool:
    """Tell whether a command is a Python that runs code of ddpkit's."""
    return argv[1:2] == ["-c"] and argv[2].startswith(NOT_FROM_HERE)


def with_safe_path(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a Python for code of ddpkit's: it imports nothing from the working directory."""
    name, value = SAFE_PATH
    return {**env, name: env.get(name) or value}


def is_absent(error: OSError, name: str, path: str | None = None) -> bool:
    """Tell whether this error of a start means that there is no such program. `path` replaces PATH.

    The kernel's answer to a name alone is that of the directories in PATH: one that this user may not enter makes it
    "Permission denied", also where no other directory has the program. A shell says that the command is not found.
    """
    if error.errno != errno.EACCES or "/" in name:
        return error.errno == errno.ENOENT
    import shutil

    return shutil.which(name, os.F_OK, path) is None


def exit_status(status: int) -> tuple[int | None, int | None]:
    """A wait status as (exit code, None) or (None, signal)."""
    return (None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), None)


def end_as(status: int) -> None:
    """End this process as another one has ended."""
    code, killer = exit_status(status)
    if killer is None:
        os._exit(code or 0)
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the rank's own core file is the one to keep
    if killer != signal.SIGKILL:
        signal.signal(killer, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [killer])
    os.kill(os.getpid(), killer)


def merged(env: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """An environment with changes; None takes a name away."""
    both: dict[str, str | None] = {**env, **changes}
    return {name: value for name, value in both.items() if value is not None}


def loads_hook(argv: Sequence[str]) -> bool:
    """Tell whether a command is a Python that imports `sitecustomize` from PYTHONPATH: not with -E, -I or -S."""
    if not os.path.basename(argv[0]).startswith("python"):
        return False
    words = iter(argv[1:])
    for word in words:
        if word[:1] != "-" or word == "-":
            break  # the script
        for number, letter in enumerate(word[1:], 2):
            if letter in "EIS":
                return False
            if letter in "cm-":
                return True
            if letter in "WX":  # the rest of the word is its value, or the next word
                if number == len(word):
                    next(words, None)
                break
    return True


def prepend(entry: str, env: Mapping[str, str]) -> str:
    """PYTHONPATH of an environment with an entry in front."""
    return os.pathsep.join([entry, *filter(None, [env.get("PYTHONPATH")])])
