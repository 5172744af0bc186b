"""Deletions, moves and overwrites of ddpkit, all here: of what ddpkit made, and of nothing else.

A directory is ddpkit's if `make_directory` made it: it belongs to this user, it is no link, and it holds a marker with
its kind. What is done in it is done through an open descriptor, so that a link that takes its place meanwhile leads
nowhere. A file is replaced only where a regular file of this user, or nothing, has its name.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

MARKER = ".ddpkit"  # in each directory that ddpkit made; its text is the directory's kind


class NotOwnedError(OSError):
    """Something that ddpkit did not make: it stays as it is."""

    def __init__(self, why: str, path: str) -> None:
        super().__init__(errno.EPERM, why, path)


def make_directory(path: str, kind: str, mode: int = 0o700) -> None:
    """Make a directory that may be deleted later as one of this kind. Raises OSError, also if the path exists."""
    os.mkdir(path, mode)
    folder = os.open(path, _DIRECTORY)
    try:
        os.close(_create(MARKER, 0o600, folder, kind.encode() + b"\n"))
    finally:
        os.close(folder)


def open_directory(path: str, kind: str) -> int:
    """Return a descriptor of a directory that `make_directory` made. Raises NotOwnedError for any other, or OSError."""
    try:
        folder = os.open(path, _DIRECTORY)
    except NotADirectoryError:
        raise NotOwnedError("not a directory of ddpkit's", path) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotOwnedError("a link, and not a directory of ddpkit's", path) from None
        raise
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            raise NotOwnedError("a directory of another user", path)
        if _marker(folder) != kind:
            raise NotOwnedError("not a directory that ddpkit made", path)
    except BaseException:
        os.close(folder)
        raise
    return folder


def is_owned(path: str, kind: str) -> bool:
    """Tell whether `make_directory` made this directory, with this kind, for this user."""
    try:
        os.close(open_directory(path, kind))
    except OSError:
        return False
    return True


def remove_directory(path: str, kind: str) -> None:
    """Delete a directory that `make_directory` made, with all in it. Raises NotOwnedError for any other, or OSError.

    Links are deleted and not followed. A mount point inside is not entered. The marker goes last: a deletion that was
    interrupted can be repeated.
    """
    folder = open_directory(path, kind)
    try:
        _empty(folder, os.fstat(folder).st_dev, path)
        os.unlink(MARKER, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(path)


def _empty(folder: int, device: int, path: str) -> None:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        if name == MARKER:
            continue
        if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            os.unlink(name, dir_fd=folder)
            continue
        inner = os.open(name, _DIRECTORY, dir_fd=folder)
        try:
            if os.fstat(inner).st_dev != device:
                raise NotOwnedError("another file system is mounted there", os.path.join(path, name))
            _empty(inner, device, os.path.join(path, name))
            if name_in(inner, MARKER):
                os.unlink(MARKER, dir_fd=inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def name_in(folder: int, name: str) -> bool:
    """Tell whether an open directory has an entry of this name, also if that is a link that leads nowhere."""
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def remove_files(path: str, kind: str, is_ours: Callable[[str], bool]) -> list[str]:
    """Delete the files of a directory of ddpkit's whose names are ddpkit's. Return the names of what is left."""
    folder = open_directory(path, kind)
    try:
        left = []
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            if name == MARKER or not is_ours(name) or stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                left.append(name)
            else:
                os.unlink(name, dir_fd=folder)
        return left
    finally:
        os.close(folder)


def create_file(path: str, content: bytes, mode: int = 0o600) -> None:
    """Write a new file. Raises FileExistsError for any name that exists, a link included, or OSError."""
    os.close(_create(path, mode, None, content))


def replace_file(path: str, content: bytes, mode: int = 0o600, *, shared: bool = False) -> None:
    """Replace a file of this user, or make it: readers see the old content or the new.

    The draft has a name that nobody can guess, in the same directory. Raises NotOwnedError where a link, a directory, a
    device or, unless it is shared, a file of another user has the name, or OSError; then the old file stays, and no
    draft.
    """
    check_replaceable(path, shared=shared)
    folder, name = os.path.split(path)
    draft = os.path.join(folder, ".%s.%s" % (name[:200], os.urandom(8).hex()))
    os.close(_create(draft, mode, None, content))
    try:
        os.replace(draft, path)
    except OSError:
        os.unlink(draft)
        raise


def check_replaceable(path: str, *, shared: bool = False) -> None:
    """Raise NotOwnedError where something has this name that is no regular file, or another user's and not shared."""
    try:
        entry = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(entry.st_mode):
        raise NotOwnedError("not a regular file", path)
    if not shared and entry.st_uid != os.geteuid():
        raise NotOwnedError("a file of another user", path)


def open_for_append(path: str, mode: int = 0o600) -> int:
    """Return a descriptor that appends to a regular file, made if needed. Raises NotOwnedError for another kind."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | _CAREFUL, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotOwnedError("not a regular file", path) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NotOwnedError("not a regular file", path)
    return file


_CAREFUL = os.O_CLOEXEC | os.O_NOFOLLOW
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | _CAREFUL


def _create(path: str, mode: int, folder: int | None, content: bytes) -> int:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFUL, mode, dir_fd=folder)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest) :]
    except BaseException:
        os.close(file)
        os.unlink(path, dir_fd=folder)
        raise
    return file


def _marker(folder: int) -> str:
    try:
        file = os.open(MARKER, os.O_RDONLY | os.O_NONBLOCK | _CAREFUL, dir_fd=folder)
    except OSError:
        return ""
    try:
        entry = os.fstat(file)
        if not stat.S_ISREG(entry.st_mode) or entry.st_uid != os.geteuid():
            return ""
        return os.read(file, 100).decode("utf-8", "replace").strip()
    finally:
        os.close(file)
