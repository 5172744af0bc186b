"""Locks of the local copies of --stage: each user of a copy holds one, and a copy is removed under another one.

A part of the supervisor, which holds the locks of its run; under SLURM each task does (`stage.py`). A lock is one
of the kernel: it works between containers and PID namespaces of a machine, and ends with its process. Between machines
it may not work, so that on a file system of several machines nothing is locked, and nothing is removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from ddpkit.node.owned import is_owned

COPY = "stage-copy"  # the kind of a copy's directory
COMPLETE = ".ddpkit-complete"  # in a copy; it is written last
LOCAL = frozenset("bcachefs btrfs ext2 ext3 ext4 f2fs jfs overlay ramfs reiserfs rootfs tmpfs xfs zfs".split())
NO_LOCK = -1
_held: list[int] = []


def lock(root: str, name: str, exclusive: bool) -> int:
    """Lock a name in the directory of the copies. Returns a descriptor, which holds the lock until it is closed.

    NO_LOCK: there are none in this file system. Raises BlockingIOError where another process is in the way, or OSError.
    """
    if not is_local(root):
        return NO_LOCK
    path = os.path.join(root, name + ".lock")
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.lstat(path)):
                return fd
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL):
                return NO_LOCK
            raise
        os.close(fd)  # its file was removed before it was locked


def share(fd: int) -> None:
    """Let others use the copy as well."""
    if fd != NO_LOCK:
        fcntl.flock(fd, fcntl.LOCK_SH)


def is_local(path: str) -> bool:
    """Tell whether a directory is on a disk of this machine alone, as far as the kernel says."""
    path, kind, longest = os.path.realpath(path), "", -1
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            before, _, after = line.decode("utf-8", "surrogateescape").partition(" - ")
            place = before.split(" ")[4].encode().decode("unicode_escape") if "\\" in before else before.split(" ")[4]
            if len(place) >= longest and (path + "/").startswith(place.rstrip("/") + "/"):
                kind, longest = after.split(" ")[0], len(place)
    return kind in LOCAL


def is_complete(place: str) -> bool:
    """Tell whether a directory is a copy that ddpkit made for this user, with all of its files."""
    try:
        status = os.lstat(os.path.join(place, COMPLETE))
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and is_owned(place, COPY)


def hold(copies: list[str], inherited: bool = False) -> None:
    """Hold the locks of copies until this process ends; `inherited`: or the program that it becomes. Raises OSError."""
    for place in copies:
        root, name = os.path.split(place)
        try:
            fd = lock(root, name, exclusive=False)
        except BlockingIOError:
            raise FileNotFoundError(errno.ENOENT, "another launch copies it again", place) from None
        if fd != NO_LOCK:
            _held.append(fd)
            os.set_inheritable(fd, inherited)
        if not is_complete(place):
            raise FileNotFoundError(errno.ENOENT, "the local copy is gone: launch again", place)
