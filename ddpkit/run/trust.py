"""Trust in files of a run: who can change them decides whether a command acts on what they say, or only shows it."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from ddpkit.errors import UsageError
from ddpkit.files import administrators, open_path, strangers, who_can_replace


class Origin(Enum):
    """Source of a record. A command acts on the first two; it connects to no host that only the second names."""

    INDEX = "index"  # this process made the run, or this user's index has it
    DIRECTORY = "directory"  # a directory of this user's that nobody else can change
    OTHERS = "others"  # somebody else can change it: it is shown, and nothing more


def is_private(status: os.stat_result) -> bool:
    """Tell whether a file or directory belongs to this user, and nobody else can change it."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def read_private(folder: Path, name: str, limit: int) -> tuple[bytes, bool]:
    """Return a regular file of a directory, and whether nobody else can change it. Raises OSError.

    The name is no link. The bytes and the answer are of one file and one directory, also if either is replaced.
    """
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
    finally:
        os.close(directory)
    return content, private and not is_replaceable(folder)


def is_replaceable(path: Path) -> bool:
    """Tell whether others can put another file or directory in the place of this one, as in the `logs/` of a team."""
    return bool(who_can_replace(str(path)))


def check_run_folder(folder: Path, workdir: Path, command: Sequence[str]) -> None:
    """Raise UsageError where strangers can replace the directory from which a job loads programs, hours later maybe."""
    others = strangers(str(folder), [str(workdir / "script"), str(workdir / command[0])])
    if others:
        who = ", ".join(others)
        raise UsageError(
            f"{who} can put another directory in the place of {folder.parent}, from which the job would load programs",
            f"ls -ld {shlex.quote(str(folder.parent))}, or --log-dir DIR in a directory that only you can change",
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
