"""Deletions, moves and overwrites, here alone: of what ddpkit made, and of nothing else.

A directory is ddpkit's if `make_directory` made it: it belongs to this user, it is no link, and it holds a marker with
its kind. What is done in it is done through an open descriptor, so that a link that takes its place meanwhile leads
nowhere. A file is replaced only where a regular file of this user, or nothing, has its name.

A directory can be held for as long as its run lasts: then every path in it means that directory, whatever has its name
by now. In the `logs/` of a team another user can rename it, and put a link or another directory in its place. To any
other path no link leads that another user put into a directory such as /tmp: as Linux itself, where its
`protected_symlinks` is on.
"""

from __future__ import annotations

import _thread  # `threading` takes 5 ms to import, and this starts with every run
import errno
import grp
import os
import pwd
import re
import stat
import time
from contextlib import contextmanager, suppress
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Callable, Iterator

USER = "user "  # before the name of one
EVERYONE = "every user"
CAN_RENAME = "can rename what is in it, or above it"  # after their names
_ACL = "system.posix_acl_access"
_NO_SHELLS = ("nologin", "false", "sync", "halt", "shutdown")  # of accounts as which nobody works
_LINKS = 40  # on the way to a file, as the kernel
MARKER = ".ddpkit"  # in each directory that ddpkit made; its text is the directory's kind


_held: dict[str, int] = {}  # descriptors of directories, by their absolute paths
_holding = _thread.allocate_lock()


class NotOwnedError(OSError):
    """Something that ddpkit did not make: it stays as it is."""

    def __init__(self, why: str, path: str) -> None:
        super().__init__(errno.EPERM, why, path)


def make_directory(path: str, kind: str, mode: int = 0o700, *, hold: bool = False) -> None:
    """Make a directory that may be deleted later as one of this kind. Raises OSError, also if the path exists.

    hold: from now on, paths in it mean this directory, until `release_directory`.
    """
    with _place(path) as (above, name):
        os.mkdir(name, mode, dir_fd=above)
        folder = os.open(name, _DIRECTORY, dir_fd=above)
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                raise NotOwnedError("a directory of another user", path)
            os.close(_create(MARKER, 0o600, folder, kind.encode() + b"\n"))
            if hold:
                with _holding:
                    _held[os.path.abspath(path)] = os.dup(folder)
        except BaseException:
            os.rmdir(name, dir_fd=above)  # only an empty one
            raise
        finally:
            os.close(folder)


def release_directory(path: str) -> None:
    """Hold a directory no longer. Without effect on one that is not held."""
    with _holding:
        folder = _held.pop(os.path.abspath(path), None)
        if folder is not None:
            os.close(folder)


@contextmanager
def _place(path: str) -> Iterator[tuple[int | None, str]]:
    """Yield a directory's descriptor, and a path's name in it. None: no held directory has the path, which comes whole.

    No directory below a held one is a link. Raises NotOwnedError for a planted link on the way, or OSError.
    """
    held = _held_above(path) if _held else None
    if held is None:
        check_way(os.path.dirname(path))
        yield None, path
        return
    folder, names = held
    try:
        for name in names[:-1]:
            inner = os.open(name, _DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder, names[-1]
    finally:
        os.close(folder)


def _held_above(path: str) -> tuple[int, list[str]] | None:
    """Return a descriptor of the held directory that a path leads to or through, and the names below it."""
    above, name = os.path.abspath(path), "."
    names: list[str] = []
    while name:  # empty: the last look was at the root
        with _holding:
            if above in _held:
                return os.dup(_held[above]), names or ["."]
        above, name = os.path.split(above)
        names.insert(0, name)
    return None


def make_plain_directory(path: str, mode: int = 0o755) -> None:
    """Make a directory without a marker, in one of ddpkit's. Raises OSError, also if the path exists."""
    with _place(path) as (folder, name):
        os.mkdir(name, mode, dir_fd=folder)


def open_path(path: str, flags: int) -> int:
    """Return a descriptor of what is there, for a reader. Raises OSError."""
    with _place(path) as (folder, name):
        return os.open(name, flags, dir_fd=folder)


def check_way(path: str) -> None:
    """Raise NotOwnedError where another user put a link on the way to a path into a directory that others can write to.

    The owner of such a directory may. What is missing on the way is no error.
    """
    for link, facts in links_on_way(path):
        above = os.stat(os.path.dirname(link))
        if above.st_mode & 0o022 and facts.st_uid not in (os.geteuid(), above.st_uid, *administrators()):
            raise NotOwnedError("%s put the link %s on the way to it" % (user_name(facts.st_uid), link), path)


def links_on_way(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each link on the way to a path, its last name included, before it is followed. Raises OSError."""
    for here, facts in _steps(path):
        if facts is not None and stat.S_ISLNK(facts.st_mode):
            yield here, facts


def _steps(path: str) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield each name that is looked up on the way to a path, behind links that were followed. None: nothing is seen.

    A link comes before it is followed. Raises OSError.
    """
    whole = path if path.startswith("/") else os.path.join(os.getcwd(), path)
    at, todo, links = "/", _parts(whole), 0
    while todo:
        part = todo.pop()
        if part == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, part)
        try:
            facts: os.stat_result | None = os.lstat(here)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            facts = None
        yield here, facts
        if facts is None or not stat.S_ISLNK(facts.st_mode):
            at = here
            continue
        links += 1
        if links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(here)
        at = "/" if target.startswith("/") else at
        todo += _parts(target)


def _parts(path: str) -> list[str]:
    """The names in a path, the last one first."""
    return [each for each in reversed(path.split("/")) if each not in ("", ".")]


def adopt_directory(path: str, kind: str, seen: os.stat_result | None = None) -> None:
    """Mark a directory of this user's that a version of ddpkit without markers made. Raises OSError.

    seen: what the caller has checked. Raises NotOwnedError where another directory has its name by now.
    """
    folder = os.open(path, _DIRECTORY)
    try:
        there = os.fstat(folder)
        if there.st_uid != os.geteuid():
            raise NotOwnedError("a directory of another user", path)
        _check_same_directory(path, there, seen)
        os.close(_create(MARKER, 0o600, folder, kind.encode() + b"\n"))
    finally:
        os.close(folder)


def open_directory(path: str, kind: str) -> int:
    """Return a descriptor of a directory that `make_directory` made. Raises NotOwnedError for any other, or OSError."""
    try:
        folder = open_path(path, _DIRECTORY)
    except NotADirectoryError:
        raise NotOwnedError("not a directory of ddpkit's", path) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotOwnedError("a link, and not a directory of ddpkit's", path) from None
        raise
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            raise NotOwnedError("a directory of another user", path)
        if _marked_kind(folder) != kind:
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


def remove_directory(
    path: str, kind: str, seen: os.stat_result | None = None, *, known: re.Pattern[str] | None = None
) -> bool:
    """Delete a directory that `make_directory` made, with all in it. Raises NotOwnedError for any other, or OSError.

    Links are deleted and not followed. A mount point inside is not entered. The marker goes last: a deletion that was
    interrupted can be repeated. Two processes may delete the same directory. Returns False where somebody moved it
    meanwhile, and put something else in its place: all that was in it is gone, and it is somewhere else.

    seen: what the caller has checked. Raises NotOwnedError where another directory has its name by now.
    known: names that ddpkit makes in it. Raises NotOwnedError where there is another one: a person or a script put it.
    """
    try:
        folder = open_directory(path, kind)
    except FileNotFoundError:
        return True
    except NotOwnedError:
        if _is_being_deleted(path):
            return True
        raise
    try:
        _check_same_directory(path, os.fstat(folder), seen)
        if known is not None:
            for name in os.listdir(folder):
                if name != MARKER and not known.fullmatch(name):
                    raise NotOwnedError("it holds %s, which ddpkit did not make" % name, path)
        _empty_directory(folder, _mount(folder), path)
        _remove_if_there(os.unlink, MARKER, folder)
        emptied = os.fstat(folder)
    finally:
        os.close(folder)
    try:
        if not os.path.samestat(os.lstat(path), emptied):
            return False
        os.rmdir(path)
    except FileNotFoundError:
        pass  # another process was faster
    return True


def _is_being_deleted(path: str) -> bool:
    """Whether another process deletes this directory: it is empty, as the marker goes last, and gone in a second."""
    for _ in range(20):
        try:
            if os.listdir(path):
                return False
        except OSError as error:
            return error.errno == errno.ENOENT
        time.sleep(0.05)
    return False


def _check_same_directory(path: str, there: os.stat_result, seen: os.stat_result | None) -> None:
    """Raise NotOwnedError where a path's directory, `there`, is not the one that the caller has seen; None: any is."""
    if seen is not None and not os.path.samestat(there, seen):
        raise NotOwnedError("another directory came in its place", path)


def remove_empty(path: str) -> bool:
    """Delete a directory that is empty. Tell whether it was."""
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def _empty_directory(folder: int, mount: str, path: str) -> None:
    """Delete all but the marker. Raises NotOwnedError where a directory in it belongs to another mount, or OSError."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name != MARKER]
    for name in names:
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            _remove_if_there(os.unlink, name, folder)
            continue
        try:
            if _mount(inner) != mount:
                raise NotOwnedError("another file system is mounted there", os.path.join(path, name))
            _empty_directory(inner, mount, os.path.join(path, name))
            _remove_if_there(os.unlink, MARKER, inner)
        finally:
            os.close(inner)
        _remove_if_there(os.rmdir, name, folder)


def _remove_if_there(action: Callable[..., None], name: str, folder: int | None) -> None:
    try:
        action(name, dir_fd=folder)
    except FileNotFoundError:
        pass  # it is not there, or another process was faster


def _mount(folder: int) -> str:
    """The mount that a directory belongs to: a part of the same disk that is mounted inside has another one."""
    try:
        with open("/proc/self/fdinfo/%d" % folder) as file:
            for line in file:
                if line.startswith("mnt_id:"):
                    return line
    except OSError:
        pass
    return str(os.fstat(folder).st_dev)


def name_in(folder: int | None, name: str) -> bool:
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
        for name in sorted([MARKER, *_names(folder)]):
            if name == MARKER or not is_ours(name) or stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                left.append(name)
            else:
                _remove_if_there(os.unlink, name, folder)
        return left
    finally:
        os.close(folder)


def remove_socket(path: str, prefix: str) -> None:
    """Delete a socket of this user, if it is there and has a name of ddpkit's, which begins with `prefix`."""
    try:
        there = os.lstat(path)
    except OSError:
        return
    named = os.path.basename(path).startswith(prefix)
    if named and stat.S_ISSOCK(there.st_mode) and there.st_uid == os.geteuid():
        os.unlink(path)


def move_entries(path: str, kind: str, is_ours: Callable[[str], bool], target: str) -> None:
    """Move what has a name of ddpkit's in one of its directories into another directory in it. Raises OSError.

    A script may have made that one. Raises FileExistsError where it has such a name already: nothing was moved then.
    """
    folder = open_directory(path, kind)
    try:
        with suppress(FileExistsError):
            os.mkdir(target, 0o755, dir_fd=folder)
        inner = os.open(target, _DIRECTORY, dir_fd=folder)
        try:
            names = [name for name in _names(folder) if name != target and is_ours(name)]
            taken = [name for name in names if name_in(inner, name)]
            if taken:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), "%s/%s" % (target, taken[0]))
            for name in names:
                os.rename(name, name, src_dir_fd=folder, dst_dir_fd=inner)
        finally:
            os.close(inner)
    finally:
        os.close(folder)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.name != MARKER)


def remove_file(path: str) -> None:
    """Delete a regular file of this user, or of root, in a directory to which nobody else can write.

    The name must be one that only ddpkit gives. Raises NotOwnedError for any other file, or OSError.
    """
    folder = open_path(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        facts = os.fstat(folder)
        if facts.st_uid != os.geteuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise NotOwnedError("in a directory to which others can write", path)
        there = os.lstat(os.path.basename(path), dir_fd=folder)
        if not stat.S_ISREG(there.st_mode) or there.st_uid not in (os.geteuid(), 0):
            raise NotOwnedError("not a regular file of this user", path)
        os.unlink(os.path.basename(path), dir_fd=folder)
    finally:
        os.close(folder)


def create_file(path: str, content: bytes, mode: int = 0o600) -> None:
    """Write a new file. Raises FileExistsError for any name that exists, a link included, or OSError."""
    with _place(path) as (folder, name):
        os.close(_create(name, mode, folder, content))


def create_whole(path: str, content: bytes, mode: int = 0o600) -> None:
    """Write a new file that is never seen half written. Raises FileExistsError for any name that exists, or OSError."""
    draft = _draft(path)
    with _place(path) as (folder, name), own_file(draft, content, mode):
        os.link(draft if folder is None else os.path.basename(draft), name, src_dir_fd=folder, dst_dir_fd=folder)


def replace_file(path: str, content: bytes | Iterator[bytes], mode: int = 0o600, *, shared: bool = False) -> None:
    """Replace a file of this user, or make it: readers see the old content or the new. It can come in pieces.

    The draft has a name that nobody can guess, in the same directory. Raises NotOwnedError where a link, a directory, a
    device or a file of another user has the name, or OSError; then the old file stays, and no draft.

    shared: the caller has read in the file itself that it is ddpkit's: it may be another user's. It keeps its mode and
    group; a new one gets `mode` whatever the umask.
    """
    with _place(path) as (folder, name):
        replaced = _check_replaceable(name, folder, path, shared)
        draft = _draft(name)
        file = _create(draft, mode, folder, content)
        try:
            if shared:
                os.fchmod(file, mode)
                if replaced is not None:
                    _take_group_and_mode(file, replaced)
            os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:  # of Ctrl-C too, also right behind the rename
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
            raise
        finally:
            os.close(file)


def _take_group_and_mode(file: int, replaced: os.stat_result) -> None:
    """Give a new file the group and the mode of the file that it replaces, unless this user is not in that group."""
    if os.fstat(file).st_gid != replaced.st_gid:
        try:
            os.fchown(file, -1, replaced.st_gid)
        except PermissionError:
            return  # with the old mode, the rights of the old group would become those of the new file's group
    os.fchmod(file, stat.S_IMODE(replaced.st_mode) & 0o666)


def _draft(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, ".%s.%s" % (name[:200], os.urandom(8).hex()))


@contextmanager
def own_file(path: str, content: bytes = b"", mode: int = 0o600) -> Iterator[int]:
    """Make a new file, and delete it at the end, if the name then still is this file's. Yields its descriptor."""
    with _place(path) as (folder, name):
        file = _create(name, mode, folder, content)
    try:
        yield file
    finally:
        remove_if_same(path, os.fstat(file))
        os.close(file)


def try_to_write(folder: str, size: int) -> None:
    """Write so many bytes into a directory, and keep nothing. Raises OSError.

    The file has no name, or none any more: whoever ends this process meanwhile leaves nothing.
    """
    path = "%s/ddpkit-%s" % (folder, os.urandom(8).hex())
    with _place(path) as (above, name):
        # Without O_TMPFILE the system refuses to open a directory for writing (EISDIR), and the file gets a name.
        here, flags = folder if above is None else ".", getattr(os, "O_TMPFILE", os.O_DIRECTORY)
        try:
            file = os.open(here, os.O_WRONLY | os.O_CLOEXEC | flags, 0o600, dir_fd=above)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
            file = _create(name, 0o600, above, b"")  # NFS and others have no such files
    try:
        remove_if_same(path, os.fstat(file))
        _write_all(file, b"\0" * size)
    finally:
        os.close(file)


def remove_if_same(path: str, made: os.stat_result) -> bool:
    """Delete a file that this process made. Tell whether the name still was that file's."""
    try:
        with _place(path) as (folder, name):
            if not os.path.samestat(os.lstat(name, dir_fd=folder), made):
                return False
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def rename_if_same(path: str, target: str, made: os.stat_result) -> bool:
    """Rename a file that this process made, to a name that nothing has. Tell whether the name still was that file's."""
    with _place(path) as (folder, name), _place(target) as (inner, new):
        if not os.path.samestat(os.lstat(name, dir_fd=folder), made) or name_in(inner, new):
            return False
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=inner)
    return True


def check_replaceable(path: str, *, shared: bool = False) -> os.stat_result | None:
    """Raise NotOwnedError where something has this name that is no regular file of this user. None: nothing has it."""
    with _place(path) as (folder, name):
        return _check_replaceable(name, folder, path, shared)


def _check_replaceable(name: str, folder: int | None, path: str, shared: bool) -> os.stat_result | None:
    try:
        there = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(there.st_mode):
        raise NotOwnedError("not a regular file", path)
    if there.st_uid != os.geteuid() and not shared:
        raise NotOwnedError("a file of another user", path)
    return there


def open_for_append(path: str, mode: int = 0o600) -> int:
    """Return a descriptor that appends to a regular file, made if needed. Raises NotOwnedError for another kind."""
    try:
        with _place(path) as (folder, name):
            file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | _CAREFUL, mode, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotOwnedError("not a regular file", path) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NotOwnedError("not a regular file", path)
    return file


def open_folder(path: str, folder: int | None = None) -> int:
    """Return a descriptor of a directory that is no link, below an open one or anywhere. Raises OSError."""
    return os.open(path, _DIRECTORY, dir_fd=folder)


def create_in(folder: int, name: str) -> int:
    """Return a descriptor that writes a new file in an open directory. Raises FileExistsError, or OSError."""
    return _create(name, 0o600, folder, b"")


_CAREFUL = os.O_CLOEXEC | os.O_NOFOLLOW
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | _CAREFUL


def _create(path: str, mode: int, folder: int | None, content: bytes | Iterator[bytes]) -> int:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFUL, mode, dir_fd=folder)
    try:
        for piece in [content] if isinstance(content, bytes) else content:
            _write_all(file, piece)
    except BaseException:
        os.close(file)
        os.unlink(path, dir_fd=folder)
        raise
    return file


def _write_all(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _marked_kind(folder: int) -> str:
    """Return the kind in the marker of an open directory; empty: it has no marker that this user wrote."""
    try:
        file = os.open(MARKER, os.O_RDONLY | os.O_NONBLOCK | _CAREFUL, dir_fd=folder)
    except OSError:
        return ""
    try:
        there = os.fstat(file)
        if not stat.S_ISREG(there.st_mode) or there.st_uid != os.geteuid():
            return ""
        return os.read(file, 100).decode("utf-8", "replace").strip()
    finally:
        os.close(file)


def move_directory(path: str, target: str, kind: str) -> None:
    """Rename a directory that `make_directory` made, to a name that nothing has. Raises NotOwnedError, or OSError."""
    os.close(open_directory(path, kind))
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(path, target)


def place_file(source: int, name: str, folder: int, target: str, seen: os.stat_result | None) -> None:
    """Move a file of a directory of ddpkit's over exactly what was seen under its new name; None: nothing was.

    `source`, `folder`: descriptors of both directories. Raises NotOwnedError where something else is there by now, or
    OSError; then everything stays as it is.
    """
    if seen is not None:
        _check_seen(folder, target, seen)
        os.rename(name, target, src_dir_fd=source, dst_dir_fd=folder)
        return
    try:
        os.link(name, target, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise NotOwnedError("it came meanwhile", target) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        if name_in(folder, target):  # a file system without second names
            raise NotOwnedError("it came meanwhile", target) from None
        os.rename(name, target, src_dir_fd=source, dst_dir_fd=folder)
    else:
        os.unlink(name, dir_fd=source)


def remove_seen(folder: int, name: str, seen: os.stat_result) -> None:
    """Delete exactly the file or link that was seen, or created. Raises NotOwnedError for anything else, or OSError."""
    _check_seen(folder, name, seen)
    os.unlink(name, dir_fd=folder)


def _check_seen(folder: int, name: str, seen: os.stat_result) -> None:
    if not is_same(seen, os.lstat(name, dir_fd=folder)):
        raise NotOwnedError("it changed meanwhile", name)


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """Tell whether two looks found the same file, unchanged."""
    return (
        os.path.samestat(one, other)
        and (one.st_mode, one.st_size) == (other.st_mode, other.st_size)
        and (one.st_mtime_ns, one.st_ctime_ns) == (other.st_mtime_ns, other.st_ctime_ns)  # an archive sets the first
    )


# ---- owners: names of users and groups, and who could put something else in the place of a path


def who_can_replace(path: str) -> set[str]:
    """Name the users and groups, besides this user and root, that can put something else in the place of a path.

    A link on the way is theirs, or a directory in which a name on the way is looked up; or they can write to such a
    directory, and it is not sticky. Names on the way to the home directory do not count: whoever can change these, can
    change all that is this user's. Nor do those that are not there yet, or that this user cannot see. Raises OSError.
    """
    mine = (os.geteuid(), *administrators())
    who: set[str] = set()
    passed = {here for here, _ in _steps(os.environ.get("HOME") or "/")}
    for here, facts in _steps(path):
        above = os.path.dirname(here)
        if here in passed:
            continue
        passed.add(here)
        if facts is not None and stat.S_ISLNK(facts.st_mode) and facts.st_uid not in mine:
            who.add(user_name(facts.st_uid))
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            who |= _writers(above, mine)
    return who


def check_above(folder: str) -> None:
    """Raise OSError where others could put something else in the place of what this user makes in a directory."""
    others = sorted(who_can_replace(os.path.join(folder, "new")))
    if others:
        raise OSError(errno.EPERM, "%s %s" % (", ".join(others), CAN_RENAME), folder)


def temporary_directory(wanted: str) -> str:
    """Return the directory for what is used by its path, and goes with its process: the wanted one, mostly.

    /tmp where others could replace what is made in the wanted one, or where a list of paths cannot hold its name.
    Whoever makes something there calls `check_above` first: /tmp may be no better.
    """
    wanted = os.path.abspath(wanted or "/tmp")
    try:
        check_above(wanted)
    except OSError:
        return "/tmp"
    return "/tmp" if ":" in wanted else wanted


def _writers(folder: str, mine: tuple[int, ...]) -> set[str]:
    """Name the users and groups that can rename what is in a directory. `mine`: users that do not count."""
    status = os.stat(folder)
    who = set() if status.st_uid in mine else {user_name(status.st_uid)}
    if not status.st_mode & stat.S_ISVTX:
        if status.st_mode & stat.S_IWOTH:
            who.add(EVERYONE)
        if status.st_mode & stat.S_IWGRP and not is_private_group(status, folder):
            who.add(group_name(status.st_gid))
    return who


def strangers(path: str, trusted: list[str]) -> list[str]:
    """Name those who can put something else in the place of a path, and can replace none of the trusted paths.

    In the project of a team its members can replace the script as well: whom the user trusts with it is no stranger.
    """
    known = {who for each in trusted for who in who_can_replace(each)}
    if EVERYONE in known:
        return []
    return sorted(each for each in who_can_replace(path) - known if known.isdisjoint(groups_of(each)))


def is_private_group(facts: os.stat_result, file: int | str | Path) -> bool:
    """Tell whether a file's group is its owner's own: of the same name, without members, and no ACL adds others."""
    try:
        user, group = pwd.getpwuid(facts.st_uid), grp.getgrgid(facts.st_gid)
    except KeyError:
        return False
    if user.pw_gid != group.gr_gid or user.pw_name != group.gr_name or set(group.gr_mem) - {user.pw_name}:
        return False
    if _is_primary_of_others(group.gr_gid, user.pw_uid):
        return False
    try:
        return _ACL not in os.listxattr(file) if hasattr(os, "listxattr") else True
    except OSError:
        return True  # a file system without them


@lru_cache(maxsize=None)
def _is_primary_of_others(group: int, user: int) -> bool:
    """Tell whether a group is the primary one of another user: these are not in its list of members.

    Distributions give root's to `sync` and `halt`, as which nobody logs in.
    """
    others = (each for each in pwd.getpwall() if each.pw_gid == group and each.pw_uid != user)
    return any(group != 0 or os.path.basename(each.pw_shell) not in _NO_SHELLS for each in others)


def user_name(number: int) -> str:
    """Return `user NAME`, or with its number where it has no name here."""
    try:
        return USER + pwd.getpwuid(number).pw_name
    except KeyError:
        return "%s%d" % (USER, number)


def group_name(number: int) -> str:
    """Return `group NAME`, or with its number where it has no name here."""
    try:
        return "group " + grp.getgrgid(number).gr_name
    except KeyError:
        return "group %d" % number


def groups_of(user: str) -> set[str]:
    """Name the groups of a user that `user_name` named; none for another name."""
    name = user[len(USER) :] if user.startswith(USER) else user
    try:
        return {group_name(each) for each in os.getgrouplist(name, pwd.getpwnam(name).pw_gid)}
    except (KeyError, OSError):
        return set()


def administrators() -> tuple[int, ...]:
    """User ids of root here. A container that maps this user alone shows root's files with the kernel's overflow id."""
    try:
        with open("/proc/self/uid_map") as maps, open("/proc/sys/kernel/overflowuid") as number:
            ranges, overflow = [line.split() for line in maps], int(number.read())
    except (OSError, ValueError):
        return (0,)
    mapped = any(int(first) <= overflow < int(first) + int(count) for first, _, count in ranges)
    return (0,) if mapped else (0, overflow)
