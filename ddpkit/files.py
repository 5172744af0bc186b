"""Files: replaced at once, and read at their end. Links, devices and pipes are refused."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, content: str | bytes, *, shared: bool = False) -> None:
    """Replace a file of this user: readers see the old content or the new. Raises OSError, and then leaves no draft.

    The draft has a random name. shared: the file may be another user's, as a list of a team.
    """
    _check_replaceable(path, shared)
    draft = path.with_name(f".{path.name[:200]}.{os.urandom(8).hex()}")
    # O_EXCL also refuses a link of this name, so that the draft is always this function's own.
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with open(file, "wb") as opened:
            opened.write(content.encode() if isinstance(content, str) else content)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _check_replaceable(path: Path, shared: bool) -> None:
    try:
        entry = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(entry.st_mode):
        raise OSError(errno.EPERM, "not a regular file", str(path))
    if not shared and entry.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "a file of another user", str(path))


def read_tail(path: Path, size: int, *, follow: bool = False) -> bytes:
    """Return the last `size` bytes of a regular file, or all of it. Raises OSError; never waits.

    follow: whether the name itself may be a link.
    """
    # A pipe without a writer would make the open itself wait.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with open(descriptor, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - size))
        return file.read(size)
