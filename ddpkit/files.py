"""Files: replaced at once, appended to, and read within a bound. Links, devices and pipes are refused."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ddpkit.node import owned


def write_atomically(path: Path, content: str | bytes, mode: int = 0o644, *, shared: bool = False) -> None:
    """Replace a file of this user: readers see the old content or the new. Raises OSError, and then leaves no draft.

    mode: of the new file, less the umask. shared: the file may be another user's, as a list of a team.
    """
    data = content.encode() if isinstance(content, str) else content
    owned.replace_file(os.fspath(path), data, mode, shared=shared)


def append(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Append to a regular file, which is made if needed. Raises OSError."""
    with open(owned.open_for_append(os.fspath(path), mode), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def read_bounded(path: Path, limit: int, *, follow: bool = False) -> bytes:
    """Return a regular file of at most `limit` bytes. Raises OSError for another kind or a larger one; never waits.

    follow: whether the name itself may be a link.
    """
    with open(_open(path, follow), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"more than {limit} bytes", str(path))
    return content


def read_tail(path: Path, size: int, *, follow: bool = False) -> bytes:
    """Return the last `size` bytes of a regular file, or all of it. Raises OSError."""
    with open(_open(path, follow), "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - size))
        return file.read(size)


def _open(path: Path, follow: bool) -> int:
    # A pipe without a writer would make the open itself wait.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    file = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file
