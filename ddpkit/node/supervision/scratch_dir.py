"""Private folders of a supervisor: made, locked while it lives, and swept by the next one.

Who made a folder holds a lock on it, which the kernel takes away with the process, however that ended: whoever gets
the lock knows that the folder is nobody's. Process ids would not tell: containers share a /tmp and count their own.
Where a TMPDIR is shared by machines, a lock may be seen on its own machine alone: the name says which one made it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import zlib

from ddpkit.node.kernel import read_text
from ddpkit.node.owned import (
    NotOwnedError,
    check_above,
    make_directory,
    open_folder,
    remove_directory,
    remove_empty,
    temporary_directory,
)

KIND = "private"  # of the folder, in its marker
TORCHRUN = "torchrun"  # a directory in it, for torchrun's logs
# What supervisors, ranks and torchrun make in it. With anything else it stays when its supervisor was killed.
NAMES = re.compile(
    r"ddpkit\.zip|function|value\.\d+|wrapper\.py|holder\.py|preload\.json|marks|events|(out|err)\.\d+|" + TORCHRUN
)


def _marks() -> tuple[str, ...]:
    """Eight digits that stand for this host, and eight for this start of its kernel."""
    # Machines with the same name may share a TMPDIR.
    machine, boot = os.uname().nodename + read_text("/etc/machine-id"), read_text("/proc/sys/kernel/random/boot_id")
    return tuple("%08x" % zlib.crc32(each.encode("utf-8", "surrogateescape")) for each in (machine, boot))


_TMP = temporary_directory(os.environ.get("TMPDIR", ""))
_PREFIX = "ddpkit-"
TRIES = 20  # to make a directory that nobody takes away before it is locked
_HOST, _BOOT = _marks()
FOLDER = "%s/%s%s%s%s" % (_TMP, _PREFIX, _HOST, _BOOT, os.urandom(8).hex())


def hold_private() -> str:
    """Make the private folder of this process, and hold it until its end. Returns its path. Raises OSError."""
    check_above(_TMP)
    hold_new(FOLDER, KIND)
    return FOLDER


def hold_new(path: str, kind: str) -> int:
    """Make a directory of this kind, and hold it until this process ends. Returns its descriptor. Raises OSError."""
    for left in reversed(range(TRIES)):
        try:
            make_directory(path, kind)
            fd = open_folder(path)
        except FileNotFoundError:
            if not left:
                raise  # no directory can be made in such a place: /proc says so in this way
            continue  # before it was locked, another supervisor took it for a dead one's and removed it
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
        except OSError:
            return fd  # a file system without locks: nobody else gets a lock there either
        if os.path.isdir(path):
            return fd
        os.close(fd)
    raise FileNotFoundError(errno.ENOENT, "taken away by another process, again and again", path)


def remove_dead(path: str, kind: str, known: re.Pattern[str]) -> None:
    """Remove a directory that `hold_new` made, unless its process lives, or the file system has no locks.

    known: all names that ddpkit makes in it. With another one it stays.
    """
    try:
        fd = open_folder(path)
    except OSError:
        return
    try:
        if os.fstat(fd).st_uid == os.geteuid():
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path, kind, known)
    except OSError:
        pass  # its process lives
    finally:
        os.close(fd)


def sweep() -> None:
    """Remove the folders that supervisors of this user left on this machine when they were killed with their guards."""
    size = len(os.path.basename(FOLDER))
    try:
        names = os.listdir(_TMP)
    except OSError:
        return
    for name in names:
        # One mark is enough: a host can be renamed, or start again. With neither it is of a machine whose locks may not
        # be seen here. The form: see FOLDER.
        host, boot = name[7:15], name[15:23]
        if name.startswith(_PREFIX) and len(name) == size and (host == _HOST or boot == _BOOT):
            remove_dead("%s/%s" % (_TMP, name), KIND, NAMES)


def remove(folder: str, kind: str = KIND, known: re.Pattern[str] | None = None) -> None:
    """Remove a folder of a supervisor. Another process that removes parts of it meanwhile is no error."""
    try:
        remove_directory(folder, kind, known=known)
    except NotOwnedError:
        remove_empty(folder)  # who made it was killed before it had its marker
    except OSError:
        pass
