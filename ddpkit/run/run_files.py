"""Files in the directory of a run: which of them are ddpkit's, and whether others than its user can change them.

A script may save there. A directory is no more ddpkit's than what is in it: `hook/` of a script has other files.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ddpkit.errors import UsageError
from ddpkit.files import MARKER, administrators, is_owned, open_path, strangers, who_can_replace

KIND = "run"  # of the directory, in its marker
MODE = 0o755  # less the umask: others may look, and never write


class _Content:
    """What ddpkit writes into one directory: names of files, and directories with their own content.

    `signs`: files of which one is always there, where a script may make a directory with the same name.
    """

    def __init__(self, *files: str, signs: tuple[str, ...] = ("",), **directories: _Content) -> None:
        self.files = re.compile("|".join(files))
        self.directories = directories
        self.signs = signs

    def has_file(self, name: str) -> bool:
        draft = _DRAFT.fullmatch(name)
        return self.files.fullmatch(draft[1] if draft else name) is not None

    def directory(self, path: Path) -> _Content | None:
        """Return the content of a directory in this one; None: it is not ddpkit's."""
        # Directories with a number or a time in their name have one content: that of their kind.
        kind = next((each for each, form in _DIRECTORIES.items() if re.fullmatch(form, path.name)), "")
        content = self.directories.get(kind or path.name) if kind or path.name not in _DIRECTORIES else None
        if kind == "run" and not is_owned(os.fspath(path), KIND):
            return None
        return content if content is not None and any((path / name).exists() for name in content.signs) else None


_DRAFT = re.compile(r"\.(.+)\.[0-9a-f]{16}")  # of `owned.replace_file`
_DIRECTORIES = {"attempt": r"attempt-\d+", "dump": r"dump-\d{8}-\d{6}(-\d+)?", "run": r"\d{8}-\d{6}-.+"}


def _programs(*names: str, also: tuple[str, ...] = (), sign: str = "") -> _Content:
    """Programs of ddpkit, with what Python makes of them; and other files. `also`: forms of more names.

    The first program is a sign of the directory. `sign`: another one, of a version without these programs.
    """
    modules = "|".join(name.removesuffix(".py") for name in names if name.endswith(".py"))
    cache = _Content(rf"({modules})\.cpython-\d+(\.opt-\d)?\.pyc(\.\d+)?")
    return _Content(
        *(name.replace(".", r"\.") for name in names), *also, signs=(names[0], sign or names[0]), __pycache__=cache
    )


# Also of programs that earlier versions wrote: `ddpkit rm` removes the runs of those as well.
_OF_RANKS = (
    *("rank_wrapper.py", "torchrun_agent.py", "scratch_dir.py", "owned.py", "oom.py", "process_tree.py"),
    "daemons.py",
)
_AGENTS = (
    *("torchrun", "preload", "legacy", "launch", "srun", "slurmstepd", "pyxis"),
    *("enroot", "apptainer", "docker", "podman", "program"),
)
_OF_STAGE = ("stage_task.py", "stage.py", "stage_lock.py", "owned.py", "owners.py", "rsync_server.py")
_FILES = (
    "status.json", "timeline.json", "launch.json", "top.json", "report.html",
    "metrics_kept.jsonl", r"all\.log", r"all(\.from_\d+)?\.index", r"all\.from_\d+\.log", r"rank_\d+(\.from_\d+)?\.log",
    "slow.json", r"ddpkit(\.from_\d+)?\.log", r"all\.times",
    # Of an agent on a host, such as torchrun_node1.log. A host's name has no underscore.
    rf"({'|'.join(_AGENTS)})_[A-Za-z0-9.:?-]+(\.from_\d+)?\.log",
    r"(dump|top)\.\d+\.ask",
)  # fmt: skip
_OF_SCHEDULERS = (
    "attempts.json", "step_failure.json", "connection", r"slurm-\d+(_\d+)?\.out", r"job\.sbatch", r"ddpkit\.zip",
    r"task\.json", r"hosts\.[A-Za-z0-9]{6}", *_OF_RANKS,
    r"pbs\.out", r"alive\.\d+",  # of the backend in examples/ddpkit-pbs
)  # fmt: skip
_DUMP = _Content(
    r"(summary|answers)\.jsonl?",
    r"(stacks|hardware)\.txt",
    r"rank_\d+\.(json|txt)",
    r"ras_[A-Za-z0-9.:-]+\.txt",
    r"smi_[A-Za-z0-9.:-]+\.xml",
)
_ATTEMPT = _Content(
    *_FILES,
    *_OF_SCHEDULERS,
    __pycache__=_programs(*_OF_RANKS).directories["__pycache__"],
    dump=_DUMP,
    marks=_Content("job", r"events(_\d+)?", r"\d+(_\d+)?"),
    hook=_programs("sitecustomize.py", "rank_observe.py", "rank_events.py", "rank_responder.py", "rank_events_file.py"),
    preload=_programs("sitecustomize.py", "fork_server.py", "fork_task.py", *_OF_RANKS, "spec.json"),
    # Each node writes its own `node1.json`.
    stage=_programs(*_OF_STAGE, also=(r"[A-Za-z0-9.:-]+\.json", r"[a-z]+-[0-9a-f]+\.tar"), sign="contents.json"),
)
_FILES_OF_RUN = (
    *_FILES, r"\.ddpkit", r"r(un|oles)\.json", "requests", r"requests\.taken", r"on_end\.log", r"on_attempt\.log",
    r"metrics_before\.json",
)  # fmt: skip
_RUN = _Content(*_FILES_OF_RUN, *_OF_SCHEDULERS, attempt=_ATTEMPT)
# Nodes that ddpkit itself connects to, and this machine, get programs over the connection, and none by the directory.
CONNECTED = ("local", "ssh", "pdsh")
_RUN_CONNECTED = _Content(*_FILES_OF_RUN, dump=_DUMP, attempt=_Content(*_FILES, dump=_DUMP))
_RUN.directories |= _ATTEMPT.directories
for _run in (_RUN, _RUN_CONNECTED):
    _run.directories["call"] = _Content(
        r"\.ddpkit", "function", r"function_call\.py", r"value\.\d+", signs=(".ddpkit",)
    )  # where the launcher was killed
    _run.directories["tests"] = _Content(run=_RUN)  # of suspects, before the next attempt
    _run.directories["roles"] = _Content(run=_RUN)  # the runs of a run's replicas


def is_of_attempt(path: Path) -> bool:
    """Tell whether a file in a run's directory is one of ddpkit's of an attempt; of a directory, also all in it."""
    if path.is_symlink() or not path.is_dir():
        return _ATTEMPT.has_file(path.name)
    content = _ATTEMPT.directory(path)
    return content is not None and not any(_foreign_names(path, content, ""))


def foreign_names(folder: Path) -> list[str]:
    """Return what is not ddpkit's in a run's directory, by names below it. Raises OSError.

    A directory that ddpkit does not make stands for all in it.
    """
    return sorted(_foreign_names(folder, _RUN, ""))


def _foreign_names(folder: Path, content: _Content, prefix: str) -> Iterator[str]:
    """Yield what is not ddpkit's in a directory, whose own content is `content`. `prefix`: in front of each name."""
    if content is _RUN and _backend_of(folder) in CONNECTED:
        content = _RUN_CONNECTED
    for path in folder.iterdir():
        inner = content.directory(path) if path.is_dir() and not path.is_symlink() else None
        if inner is not None:
            yield from _foreign_names(path, inner, f"{prefix}{path.name}/")
        elif path.is_dir() or not content.has_file(path.name):
            yield f"{prefix}{path.name}"


def _backend_of(folder: Path) -> str:
    """Return the backend of the run in a directory; empty: no record says."""
    try:
        record = json.loads(read_private(folder, "run.json", 1 << 24)[0])
    except (OSError, ValueError, RecursionError):
        return ""
    return str(record.get("backend")) if isinstance(record, dict) else ""


# ---- who can change them


def is_private(status: os.stat_result) -> bool:
    """Tell whether a file or directory belongs to this user, and nobody else can change it."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def read_private(folder: Path, name: str, limit: int) -> tuple[bytes, bool]:
    """Return a regular file of a directory, and whether nobody else can change it. Raises OSError.

    The name is no link. The bytes and the answer are of one file and one directory, also if either is replaced.
    """
    content, private, _ = _read(folder, name, limit)
    return content, private and not is_replaceable(folder)


def read_own(folder: Path, name: str, limit: int, marker: tuple[int, int] | None) -> bytes:
    """Return a file of a run's directory that nobody else can have written or put there. Raises OSError for any other.

    `marker`: device and inode of the directory's marker, by which one in the `logs/` of a team is told from another.
    """
    content, private, found_marker = _read(folder, name, limit)
    if not private or (is_replaceable(folder) if marker is None else marker != found_marker):
        raise OSError(errno.EPERM, "others can change it", str(folder / name))
    return content


def _read(folder: Path, name: str, limit: int) -> tuple[bytes, bool, tuple[int, int] | None]:
    """Return a regular file, whether nobody else can write to it or its directory, and what marker is beside it."""
    directory = open_path(os.fspath(folder), os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        # A pipe without a writer would make the open itself wait.
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(folder / name))
            content = file.read(limit + 1)
        if len(content) > limit:
            raise OSError(errno.EFBIG, f"more than {limit} bytes", str(folder / name))
        private = is_private(status) and status.st_nlink == 1 and is_private(os.fstat(directory))
        marker = _marker_in(directory)
    finally:
        os.close(directory)
    return content, private, marker


def marker_of(folder: Path) -> tuple[int, int] | None:
    """Return device and inode of the marker in a run's directory of this user; None: there is none."""
    try:
        directory = open_path(os.fspath(folder), os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        return _marker_in(directory)
    finally:
        os.close(directory)


def _marker_in(directory: int) -> tuple[int, int] | None:
    """The same of an open directory. Another user's can hold a second name of the marker (a hard link)."""
    try:
        marker = os.lstat(MARKER, dir_fd=directory)
    except OSError:
        return None
    return (marker.st_dev, marker.st_ino) if os.fstat(directory).st_uid == os.geteuid() else None


def is_replaceable(path: Path) -> bool:
    """Tell whether others can put another file or directory in the place of this one, as in the `logs/` of a team."""
    return bool(who_can_replace(str(path)))


def check_run_folder(folder: Path, trusted: Sequence[Path]) -> None:
    """Raise UsageError where strangers can replace the directory from which a job loads programs, hours later maybe.

    `trusted`: the files of the program that runs; whoever can replace one of them is no stranger.
    """
    who = ", ".join(strangers(str(folder), list(map(str, trusted))))
    if who:
        raise UsageError(
            f"{who} can put another directory in the place of {folder.parent}, from which the job would load programs",
            f"namei -l {shlex.quote(str(folder.parent))}, or --log-dir DIR in a directory that only you can change",
        )


def is_planted(path: Path) -> bool:
    """Tell whether somebody put this into a directory that is not theirs, as in /tmp; also true where nothing is."""
    try:
        return path.lstat().st_uid not in (os.geteuid(), path.parent.stat().st_uid, *administrators())
    except OSError:
        return True


def is_own(folder: Path) -> bool:
    """Tell whether a directory belongs to this user."""
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def owner_of(path: Path) -> str:
    """Return the name of a file's owner; empty where it is not known."""
    try:
        return path.owner()
    except (OSError, KeyError, ValueError):
        return ""
