"""Files of the launcher: replaced at once, appended to, and read within a bound. Links, devices and pipes are refused.

Deletions and moves are those of `ddpkit/node/owned.py`, which nodes use as well: the launcher gets them from here.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from ddpkit.node.owned import (
    MARKER,
    administrators,
    adopt_directory,
    check_above,
    check_replaceable,
    check_way,
    create_file,
    create_whole,
    group_name,
    is_owned,
    is_private_group,
    links_on_way,
    make_directory,
    make_plain_directory,
    open_for_append,
    open_path,
    release_directory,
    remove_directory,
    remove_empty,
    remove_file,
    remove_files,
    remove_if_same,
    remove_socket,
    rename_if_same,
    replace_file,
    strangers,
    temporary_directory,
    user_name,
    who_can_replace,
)

__all__ = [
    "LIMIT",
    "MARKER",
    "TrustProblem",
    "administrators",
    "adopt_directory",
    "append",
    "check_above",
    "check_replaceable",
    "check_way",
    "create",
    "create_whole",
    "is_owned",
    "make_directories",
    "make_directory",
    "make_plain_directory",
    "open_for_append",
    "open_path",
    "open_to_read",
    "read_bounded",
    "read_head",
    "read_part",
    "read_tail",
    "read_trusted",
    "release_directory",
    "remove_as_seen",
    "remove_directory",
    "remove_empty",
    "remove_file",
    "remove_files",
    "remove_if_same",
    "remove_socket",
    "rename_if_same",
    "replace_file",
    "strangers",
    "temporary_directory",
    "who_can_replace",
    "write_atomically",
]


def write_atomically(
    path: Path, content: str | bytes | Iterator[bytes], mode: int = 0o644, *, shared: bool = False
) -> None:
    """Replace a file of this user: readers see the old content or the new. Raises OSError, and then leaves no draft.

    content: whole, or in pieces. mode: of the new file, less the umask. shared: see `owned.replace_file`.
    """
    replace_file(os.fspath(path), content.encode() if isinstance(content, str) else content, mode, shared=shared)


def remove_as_seen(
    folder: Path, kind: str, seen: os.stat_result, foreign_files: Callable[[Path], list[str]], known: Collection[str]
) -> None:
    """Remove a directory of ddpkit's with the foreign files in it that the user was told of. Raises OSError.

    seen: the directory as it was then; another one with its name raises. foreign_files: names what is not ddpkit's in
    a directory. known: the names of which the user was told; a further one raises.
    """
    new = [name for name in foreign_files(folder) if name not in known]
    if new and os.path.samestat(folder.lstat(), seen):  # `remove_directory` refuses another directory
        raise OSError(errno.EEXIST, "it came after the question", str(folder / new[0]))
    if not remove_directory(str(folder), kind, seen):
        why = "somebody moved it meanwhile, and put something else in its place; all that was in it is removed"
        raise OSError(errno.EEXIST, why, str(folder))


def create(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write a new file. Raises FileExistsError for any name that exists, a link included, or OSError."""
    create_file(os.fspath(path), content.encode() if isinstance(content, str) else content, mode)


def append(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Append to a regular file, which is made if needed. Raises OSError."""
    with open(open_for_append(os.fspath(path), mode), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def make_directories(path: Path, mode: int = 0o755) -> None:
    """Make a directory and those above it, where they are not there. Whatever the umask, others may not write to them.

    Raises OSError, also where another user put a link on the way: see `owned.check_way`.
    """
    path = path.absolute()
    check_way(os.fspath(path))
    for each in reversed([path, *path.parents]):
        if not each.is_dir():
            each.mkdir(mode, exist_ok=True)


def read_bounded(path: Path, limit: int, *, follow: bool = False) -> bytes:
    """Return a regular file of at most `limit` bytes. Raises OSError for another kind or a larger one; never waits.

    follow: whether the name itself may be a link.
    """
    with open(open_to_read(path, follow=follow), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(f"{path}: more than {limit} bytes")
    return content


def read_head(path: Path, size: int, *, follow: bool = False) -> bytes:
    """Return the first `size` bytes of a regular file, or all of it. Raises OSError; never waits."""
    with open(open_to_read(path, follow=follow), "rb") as file:
        return file.read(size)


def read_tail(path: Path, size: int, *, follow: bool = False) -> bytes:
    """Return the last `size` bytes of a regular file, or all of it. Raises OSError."""
    with open(open_to_read(path, follow=follow), "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - size))
        return file.read(size)


def read_part(path: Path, offset: int, size: int, *, follow: bool = False) -> bytes:
    """Return at most `size` bytes of a regular file from `offset` on. Raises OSError; never waits."""
    with open(open_to_read(path, follow=follow), "rb") as file:
        file.seek(offset)
        return file.read(size)


def open_to_read(path: Path, *, follow: bool = False, pipes: bool = False) -> int:
    """Return a descriptor of a regular file, or also of a pipe. Raises OSError for another kind; never waits."""
    # A pipe without a writer would make the open itself wait.
    file = open_path(os.fspath(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    kind = os.fstat(file).st_mode
    if not (stat.S_ISREG(kind) or (pipes and stat.S_ISFIFO(kind))):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    os.set_blocking(file, True)
    return file


# ---- files whose content decides what runs, and where: only those that nobody but this user and root can write
#
# As ssh reads its configuration, and git its own (`safe.directory`): in /tmp or in a colleague's directory such a file
# can be another user's. A file that its group can write is accepted where that group is the user's private one, as
# Debian and Red Hat make it for each user (umask 002 is the default there, and Debian's ssh accepts it).

LIMIT = 1 << 20  # bytes; a file of settings or hosts is far smaller


class TrustProblem(NamedTuple):
    """Why the content of a file is not obeyed, and how to look at it."""

    why: str
    hint: str


def read_trusted(path: Path, *, pipes: bool = False) -> tuple[str, TrustProblem | None]:
    """Return a file's text, and the reason not to obey it; None: it may be obeyed. `pipes`: also `<(...)`, /dev/stdin.

    The name is opened once, so that the file that was checked is the one that was read. Raises OSError and
    UnicodeDecodeError.
    """
    is_our_pipe = pipes and str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/"))
    problem = None if is_our_pipe else _check_links(path)
    waits = pipes and path.is_fifo()  # for its writer, which may never come to a pipe of another user
    if waits and not is_our_pipe:
        problem = problem or _check_owner(path, path.stat())
        if problem:
            return "", problem
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if waits else os.O_NONBLOCK)), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) and not pipes:
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        os.set_blocking(file.fileno(), True)
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        content = file.read(LIMIT + 1)
        problem = problem or _check(path, facts, file.fileno())
    if len(content) > LIMIT:
        raise OSError(errno.EFBIG, f"more than {LIMIT} bytes", str(path))
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n"), problem


def _check(path: Path, facts: os.stat_result, file: int) -> TrustProblem | None:
    """Check the owner of an open file, and who else can write it."""
    if stat.S_ISCHR(facts.st_mode):
        return None  # a terminal
    problem = _check_owner(path, facts)
    all_can_write = facts.st_mode & stat.S_IWOTH
    group_can_write = facts.st_mode & stat.S_IWGRP and not is_private_group(facts, file)
    if problem or not stat.S_ISREG(facts.st_mode) or not (all_can_write or group_can_write):
        return problem
    who = "every user" if all_can_write else group_name(facts.st_gid)
    name = shlex.quote(str(path))
    own = facts.st_uid == os.geteuid()
    fix = f"ls -l {name}" + (", and take the right to write to it from others" if own else "")
    return TrustProblem(f"{path} is not obeyed: {who} can change it", fix)


def _check_owner(path: Path, facts: os.stat_result) -> TrustProblem | None:
    if facts.st_uid in _owners():
        return None
    what = f"{path} is not obeyed: it belongs to {user_name(facts.st_uid)}, neither to you nor to root"
    return TrustProblem(what, f"ls -l {shlex.quote(str(path))}")


def _owners() -> set[int]:
    """The users whose files are obeyed; for root under sudo, as in git, also the one who typed it."""
    user, sudo = os.geteuid(), os.environ.get("SUDO_UID", "")
    return {0, user, *([int(sudo)] if user == 0 and sudo.isascii() and sudo.isdecimal() else [])}


def _check_links(path: Path) -> TrustProblem | None:
    """Check the owner of each link on the way to a file: whoever owns one chooses the file. Raises OSError."""
    for link, facts in links_on_way(os.fspath(path)):
        if problem := _check_owner(Path(link), facts):
            return problem
    return None
