"""Takes the launcher's project into a directory of this node (`--sync`), and loses nothing that is there.

Sent to a node's supervisor. The launcher uses `refuse_directory`.

`check` compares, and changes nothing. `receive` makes a draft beside the files, into which rsync writes. `apply` moves
each file from the draft over exactly what `check` saw there. An entry is [name, kind, mode, size, time, target,
versions]: the kind is one of `KINDS`, the time is in nanoseconds, and a link alone has a target. `versions` is what
earlier copies put there, each [size, time, content]: that alone is replaced without a question, known by its content.
An archive can give a changed file the size and the time that the copy had.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
import re
import shutil
import signal
import stat
import zlib
from binascii import a2b_base64

from ddpkit.node.owned import (
    NotOwnedError,
    create_in,
    is_owned,
    is_same,
    name_in,
    open_directory,
    open_folder,
    place_file,
    remove_directory,
    remove_seen,
)
from ddpkit.node.process_tree import end_receivers
from ddpkit.node.supervision.scratch_dir import hold_new, remove_dead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KIND = "sync"  # of the draft's directory
DRAFT = re.compile(r"\.ddpkit-sync-[0-9a-f]{16}")
_IN_DRAFT = re.compile(r"files|link-[0-9a-f]{16}")
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
SMALL = 1 << 24  # bytes: a larger file with another time is read only where an earlier copy had its size
UNITS = (100, 1000, 10**6, 10**9)  # nanoseconds: of times in SMB, and in other file systems
BLOCK = 4096  # bytes that a small file takes on a disk
NAMED = 200  # conflicts of a kind in an answer
SYSTEM = frozenset(
    "/ /Users /Volumes /bin /boot /dev /etc /home /lib /lib32 /lib64 /media /mnt /opt /private /proc /root /run /sbin "
    "/srv /sys /tmp /usr /usr/local /var /var/tmp".split()
)
TODO = ("make", "replace", "mode")
_state: dict[str, Any] = {}  # what `check` saw, for `apply`


def refuse_directory(path: str) -> str:
    """Say why this is no directory for a project, the target of all links; empty: it may be one."""
    path = os.path.realpath(path)
    homes = {os.path.realpath(os.path.expanduser("~"))}
    try:
        homes.add(os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir))
    except KeyError:
        pass  # a user without an entry, as in some containers
    for home in homes - {"/"}:
        if path == home or home.startswith(path.rstrip("/") + "/"):
            return "%s is your home directory, or holds it" % path
    if path in SYSTEM:
        return "%s is a directory of the system" % path
    if os.path.isdir(os.path.join(path, ".ssh")):
        return "%s holds .ssh: it is a home directory" % path
    return ""


# ---- what is there


def check(target: str, nonce: str, stamp: list[int], packed: str, overwrite: bool) -> dict[str, Any]:
    """Compare entries with a directory, and change nothing.

    `nonce`: the name of a file that the launcher made in its own directory; empty: it could not, and `stamp` has the
    inode and the change time of that directory.

    Returns `problem`, or `same`: this is the launcher's directory. Else `path`, `todo` (something differs),
    and numbers of entries: `needs` (files to send), and the conflicts `differs` (with a digest, or none for large
    ones), `kinds` (with the kind that is there), `foreign` (of another user) and `written` (open for writing).
    """
    path = os.path.realpath(os.path.expanduser(target))
    answer: dict[str, Any] = {"problem": "", "same": False, "path": path, "needs": []}
    answer.update(differs=[], kinds=[], foreign=[], written=[], todo=True)
    if target.startswith("~") and os.path.expanduser(target) == target:
        return {**answer, "problem": "%s: user not found" % target}
    if _is_launchers_own(path, nonce, stamp):
        return {**answer, "same": True}
    refused = refuse_directory(path)
    if refused:
        return {**answer, "problem": refused}
    above = os.path.dirname(path)
    while above != "/":
        if nonce and os.path.lexists(os.path.join(above, nonce)):
            return {**answer, "problem": "%s is inside the project that is copied" % path}
        above = os.path.dirname(above)
    if os.path.lexists(path) and not os.path.isdir(path):
        return {**answer, "problem": "%s is not a directory" % path}
    entries = json.loads(zlib.decompress(a2b_base64(packed)))
    _state.clear()
    _state.update(path=path, entries=entries, seen={}, verdicts={}, draft="", lock=-1)
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # for `_is_written`
    _compare(entries, path, overwrite, answer)
    answer["todo"] = not os.path.isdir(path) or any(each in TODO for each in _state["verdicts"].values())
    return {**answer, **_why_no_room(path, sum(entries[index][3] + BLOCK for index in answer["needs"]))}


def _is_launchers_own(path: str, nonce: str, stamp: list[int]) -> bool:
    """Tell whether this directory is the launcher's, on a disk that both see. `nonce`, `stamp`: as in `check`."""
    if nonce:
        return os.path.lexists(os.path.join(path, nonce))
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return [status.st_ino, status.st_ctime_ns] == stamp


def _compare(entries: list[list[Any]], path: str, overwrite: bool, answer: dict[str, Any]) -> None:
    """Judge all entries, in the order of their names: a directory comes before what is in it.

    What was seen and the verdicts go into `_state`, files to send and conflicts into `answer`.
    """
    # Names with a slash. Below a directory in conflict nothing is looked at; below one in place of a file nothing is.
    blocked = replaced = ""
    for index, entry in enumerate(entries):
        name, kind, *_ = entry
        if blocked and name.startswith(blocked):
            continue
        place = os.path.join(path, name)
        try:
            seen = None if replaced and name.startswith(replaced) else os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            seen = None
        content = os.readlink(place) if seen and stat.S_ISLNK(seen.st_mode) else ""
        verdict = judge(entry, seen, content, overwrite)
        if verdict == "differs" and kind == "file" and seen and _is_read(seen.st_size, entry):
            content = digest(place)
            verdict = judge(entry, seen, content, overwrite)
        if verdict == "replace" and kind == "file" and seen and stat.S_ISREG(seen.st_mode) and _is_written(place):
            verdict = "written"
        _state["seen"][index], _state["verdicts"][index] = seen, verdict
        if kind == "file" and verdict in ("make", "replace"):
            answer["needs"].append(index)
        elif verdict == "differs":
            answer["differs"].append([index, content if kind == "file" else ""])
        elif verdict == "kind":
            assert seen is not None
            answer["kinds"].append([index, KINDS.get(stat.S_IFMT(seen.st_mode), "device")])
        elif verdict in ("foreign", "written"):
            answer[verdict].append(index)
        if kind == "directory" and verdict != "same":
            blocked = name + "/" if verdict in ("kind", "foreign") else blocked
            replaced = name + "/" if verdict == "replace" else replaced


def _is_read(there: int, entry: list[Any]) -> bool:
    """Tell whether the content of a file of this size can say what it is."""
    return entry[3] == there <= SMALL or any(size == there and content for size, _, content in entry[6])


def judge(entry: list[Any], seen: os.stat_result | None, content: str, overwrite: bool) -> str:
    """Decide about one entry. Pure. `content`: where a link of the node leads; of a file its digest, if it is known.

    Returns same, make, replace, mode (it becomes a program, or is one no more), or a conflict: differs, kind, foreign.
    """
    _, kind, mode, size, when, target, versions = entry
    if seen is None:
        return "make"
    there = KINDS.get(stat.S_IFMT(seen.st_mode), "")
    if kind == "directory" == there:
        return "same"
    if kind != there and (there not in ("file", "link") or not overwrite):
        return "kind"
    same_file = size == seen.st_size and is_time(seen.st_mtime_ns, when)
    if kind != there:
        verdict = "replace"
    elif content == target if kind == "link" else same_file:
        verdict = "mode" if kind == "file" and bool(mode & 0o100) != bool(seen.st_mode & 0o100) else "same"
    else:
        ours = overwrite or (bool(content) and any(content == known for _, _, known in versions))
        verdict = "replace" if ours else "differs"
    return "foreign" if verdict != "same" and os.geteuid() not in (0, seen.st_uid) else verdict


def is_time(status: int, when: int) -> bool:
    """Compare times in nanoseconds. Some file systems keep seconds, or parts of them."""
    return status == when or any(status % unit == 0 and status // unit == when // unit for unit in UNITS)


def digest(path: str) -> str:
    """SHA-256 of a file; empty: it cannot be read, or is none by now."""
    whole = hashlib.sha256()
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                whole.update(piece)
    except OSError:
        return ""
    return whole.hexdigest()


def _is_written(path: str) -> bool:
    """Tell whether a process has a file open for writing, as far as the file system knows: it gives no lease then."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        pass  # not known here
    finally:
        os.close(fd)
    return False


def _why_no_room(path: str, needed: int) -> dict[str, str]:
    """Say as `problem` why so many bytes cannot be written to a directory, or the one above it that exists; else {}."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    if not os.access(path, os.W_OK | os.X_OK):
        return {"problem": "cannot write to %s" % path}
    space = os.statvfs(path)
    free = space.f_bavail * space.f_frsize
    if free < needed:
        return {"problem": "%s has %d MB free; the copy needs %d MB" % (path, free >> 20, (needed >> 20) + 1)}
    return {}


# ---- the copy


def receive() -> dict[str, Any]:
    """Make the directory and a draft in it. Returns `draft`, its path, its `inode`, and `problem`."""
    path = _state["path"]
    try:
        os.makedirs(path, exist_ok=True)
        for name in filter(DRAFT.fullmatch, os.listdir(path)):  # of launches that were killed
            remove_dead(os.path.join(path, name), KIND, _IN_DRAFT)
        draft = os.path.join(path, ".ddpkit-sync-" + os.urandom(8).hex())
        _state.update(draft=draft, lock=hold_new(draft, KIND))
    except OSError as error:
        return {
            "draft": "",
            "inode": 0,
            "problem": "cannot write to %s: %s" % (path, (error.strerror or str(error)).lower()),
        }
    return {"draft": _state["draft"], "inode": os.fstat(_state["lock"]).st_ino, "problem": ""}


def sees(names: list[str]) -> list[str]:
    """Return which of these drafts lie in this node's directory: of a node that shares it."""
    own = os.path.basename(_state["draft"])
    return [name for name in names if name != own and os.path.lexists(os.path.join(_state["path"], name))]


def alive() -> None:
    """Answer, so that the launcher knows that this node lives."""


def apply(left_out: list[int]) -> dict[str, Any]:
    """Move the draft's files into place. `left_out`: entries that changed at the launcher meanwhile.

    Returns `problem` and `changed`: names of files that changed here, and stay; none is replaced then.
    """
    path, seen, verdicts = _state["path"], _state["seen"], _state["verdicts"]
    todo = [index for index, verdict in verdicts.items() if verdict in TODO]
    todo = [index for index in todo if index not in set(left_out)]
    top, draft = open_folder(path), open_directory(_state["draft"], KIND)
    done = _Applied(top, draft)
    try:
        changed = [_state["entries"][index][0] for index in todo if done.changed(_state["entries"][index], seen[index])]
        if not changed:
            for index in todo:
                done.take(_state["entries"][index], verdicts[index], seen[index])
    except NotOwnedError as error:
        changed = [error.filename]
    except OSError as error:
        words = "cannot write %s: %s" % (error.filename or path, (error.strerror or str(error)).lower())
        return {"problem": words, "changed": [], "missing": done.missing[:NAMED]}
    finally:
        os.close(top)
        os.close(draft)
        abandon()
    return {"problem": "", "changed": changed[:NAMED], "missing": done.missing[:NAMED]}


class _Applied:
    """Moves entries from the draft to the directory. All names are below open directories, without links."""

    def __init__(self, top: int, draft: int) -> None:
        self.missing: list[str] = []  # files that did not arrive as they were listed: they changed at the launcher
        self._top, self._draft = top, draft
        self._umask = os.umask(0o022)
        os.umask(self._umask)

    def changed(self, entry: list[Any], seen: os.stat_result | None) -> bool:
        """Tell whether something else is there than `check` saw."""
        try:
            folder = _enter(self._top, os.path.dirname(entry[0]))
        except OSError:
            return seen is not None  # a directory on the way is missing yet
        try:
            now = os.lstat(os.path.basename(entry[0]), dir_fd=folder)
        except FileNotFoundError:
            return seen is not None
        finally:
            os.close(folder)
        return seen is None or not is_same(seen, now)

    def take(self, entry: list[Any], verdict: str, seen: os.stat_result | None) -> None:
        """Take one entry. Raises OSError."""
        name, kind, mode, _, when, target, _ = entry
        folder, last = _enter(self._top, os.path.dirname(name)), os.path.basename(name)
        try:
            if kind == "directory":
                if seen is not None:
                    remove_seen(folder, last, seen)
                os.mkdir(last, mode & 0o777 & ~self._umask, dir_fd=folder)
            elif kind == "link":
                draft = "link-" + os.urandom(8).hex()
                os.symlink(target, draft, dir_fd=self._draft)
                os.utime(draft, ns=(when, when), dir_fd=self._draft, follow_symlinks=False)
                self._place(self._draft, draft, folder, last, seen)
            elif verdict == "mode":
                assert seen is not None
                os.chmod(last, _mode(mode, seen, self._umask), dir_fd=folder)
            else:
                self._file(entry, folder, last, seen)
        finally:
            os.close(folder)

    def _file(self, entry: list[Any], folder: int, last: str, seen: os.stat_result | None) -> None:
        """Move a file that arrived as it was listed, with the mode and owner of the file that it replaces."""
        name, _, mode, size, when, _, _ = entry
        try:
            source = _enter(self._draft, os.path.join("files", os.path.dirname(name)))
        except FileNotFoundError:
            self.missing.append(name)
            return
        try:
            came = os.lstat(last, dir_fd=source) if name_in(source, last) else None
            whole = came is not None and stat.S_ISREG(came.st_mode) and came.st_size == size
            if came is None or not whole or not is_time(came.st_mtime_ns, when):
                self.missing.append(name)
                return
            replaced = seen if seen is not None and stat.S_ISREG(seen.st_mode) else None
            os.chmod(last, _mode(mode, replaced, self._umask), dir_fd=source)
            if replaced is not None and os.geteuid() == 0:
                os.chown(last, replaced.st_uid, replaced.st_gid, dir_fd=source, follow_symlinks=False)
            self._place(source, last, folder, last, seen)
        finally:
            os.close(source)

    def _place(self, source: int, name: str, folder: int, last: str, seen: os.stat_result | None) -> None:
        """Put a file or link of the draft over exactly what was seen; onto another disk as a copy beside it first."""
        if os.fstat(source).st_dev == os.fstat(folder).st_dev or name != last:
            place_file(source, name, folder, last, seen)
            return
        draft = ".ddpkit-sync-" + os.urandom(8).hex()
        came = os.stat(name, dir_fd=source)
        reading = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source)
        with os.fdopen(reading, "rb") as old, os.fdopen(create_in(folder, draft), "wb") as new:
            try:
                shutil.copyfileobj(old, new)
                new.flush()
                os.fchmod(new.fileno(), stat.S_IMODE(came.st_mode))
                os.utime(new.fileno(), ns=(came.st_mtime_ns, came.st_mtime_ns))
                place_file(folder, draft, folder, last, seen)
            except OSError:
                remove_seen(folder, draft, os.fstat(new.fileno()))
                raise


def _enter(folder: int, path: str) -> int:
    """Return a descriptor of a directory below another one, with no link on the way. Raises OSError."""
    folder = os.dup(folder)
    for part in filter(None, path.split("/")):
        try:
            inner = open_folder(part, folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _mode(mode: int, replaced: os.stat_result | None, umask: int) -> int:
    """The mode of a new file; of one that replaces another, the other's, and whether it is a program."""
    if replaced is None:
        return mode & 0o777 & ~umask
    kept = stat.S_IMODE(replaced.st_mode) & 0o666
    return kept | (kept & 0o444) >> 2 if mode & 0o100 else kept


def abandon() -> None:
    """Remove the draft: the launcher is gone, or does not need it."""
    draft = _state.get("draft", "")
    if draft:
        end_receivers(draft)
    if draft and is_owned(draft, KIND):
        remove_directory(draft, KIND)
    _state.update(draft="")
