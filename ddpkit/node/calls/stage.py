"""Local copies of a project and of an environment (`--stage`): unpacked once, used again, and removed when old.

Sent to a node's supervisor; under SLURM `main` is run from the bundle.

A copy is NAME/ in ROOT, a directory `ddpkit-stage-UID` that ddpkit alone uses. It is unpacked from an archive into a
draft, which then gets its name; last, its mark "begun" becomes the mark "complete", with a list of its files. Who
unpacks or removes it holds an exclusive lock. Who uses it holds a shared one: the supervisor of a run, or under SLURM
each task. A copy in which a script has written is not removed. One without a mark, as after a cleaner of /tmp, was
complete once: each file in it may be a script's.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import time
import zlib

from ddpkit.node.owned import (
    check_above,
    create_file,
    create_in,
    is_owned,
    make_directory,
    move_directory,
    open_folder,
    remove_directory,
    remove_files,
    rename_if_same,
    replace_file,
)
from ddpkit.node.process_tree import end_receivers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

ROOT = "stage"  # the kind of the directory of the copies
COPY = "stage-copy"  # the kind of a copy's directory
COMPLETE = ".ddpkit-complete"  # in a copy; it is written last: sizes and times of its files
BEGUN = ".ddpkit-begun"  # in a draft, and in a copy until it is complete
LIST_LIMIT = 1 << 27  # bytes of it
NAMED = 5  # files in an answer
_COMPILED = re.compile(r"(.*/)?__pycache__/[^/]*\.(pyc(\.\d+)?|nb[ic])")  # by Python, and by numba
LOCAL = frozenset("bcachefs btrfs ext2 ext3 ext4 f2fs jfs overlay ramfs reiserfs rootfs tmpfs xfs zfs".split())
NO_LOCK = -1
_held: list[int] = []
NAME = r"(?:project|env)-[0-9a-f]{32}"
_DRAFT = re.compile(r"(%s)\.new-[0-9a-f]{16}" % NAME)
_ARCHIVE = re.compile(r"(%s)\.tar-[0-9a-f]{16}" % NAME)
_ASIDE = re.compile(r"(%s)\.old-[0-9a-f]{16}" % NAME)
_OURS = re.compile(r"%s(\.lock|\.(new|tar|old)-[0-9a-f]{16})?" % NAME)
KEPT = 3  # complete copies of a kind
PATIENCE = 600.0  # seconds: for another launch's copy
CONDA_LIMIT = 300.0  # seconds for conda-unpack
ABSENT = 96  # exit code of `main` on a node that needs the archive
_locks: dict[str, int] = {}  # of copies, until this process ends
_expected: list[str] = []  # archives that rsync shall bring


class HostileArchiveError(Exception):
    """An archive holds what must not be unpacked."""


# ---- locks of the kernel: they work between containers of a machine, and end with their process. On a file system of
# several machines they may not work: there nothing is locked, and nothing is removed.


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


# ---- looking


def look(content: dict[str, Any], sent: str = "") -> dict[str, Any]:
    """Look for a copy, and hold it; else lock its name, and make room. `sent`: the name of its archive, which stays.

    Returns `problem` and `fix`, or `state`: present, busy (another launch makes it) or absent, with the path for an
    `archive`, and `kept`: number, bytes and some paths of files that are not ddpkit's, in old copies. Where there is a
    problem nothing is locked.
    """
    root, name = content["root"], content["name"]
    state, problem, archive = "absent", "", ""
    kept: dict[str, Any] = {"files": 0, "bytes": 0, "paths": []}
    try:
        _make_root(root)
        state = _take(root, name)
        if state == "present":
            os.utime(os.path.join(root, name, COMPLETE))
        elif state == "absent":
            problem = _make_room(content, sent, kept)
    except OSError as error:
        other = error.filename if error.filename != root else ""
        problem = "cannot stage in %s: %s%s" % (root, _reason(error), other and ": %s" % other)
    if problem:
        release(name)
    elif state == "absent":
        archive = "%s.tar-%s" % (os.path.join(root, name), os.urandom(8).hex())
        _expected.append(archive)
    machine = {"machine": os.uname().machine, "python": list(sys.version_info[:2])}
    found = {"state": state, "problem": problem, "kept": kept, "archive": archive}
    return {**found, "fix": "add --stage-dir DIR", **machine}


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def alive() -> None:
    """Answer, so that the launcher knows that this node lives."""


def abandon() -> None:
    """End rsync in the directory of the copies: the launcher is gone."""
    for archive in _expected:
        end_receivers(archive)


def _make_root(root: str) -> None:
    """Make the directory of the copies, or check the one that is there. Raises OSError."""
    if not re.fullmatch(r"ddpkit-stage-\d+", os.path.basename(root)):
        raise OSError(errno.EINVAL, "not a directory for copies", root)
    above = os.path.dirname(root)
    check_above(above)  # nothing is made where it is refused
    os.makedirs(above, 0o700, exist_ok=True)
    check_above(above)  # the umask decides on the directories between
    try:
        make_directory(root, ROOT)
        return
    except FileExistsError:
        status = os.lstat(root)
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.ENOTDIR, "not a directory", root)
    if status.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "it belongs to user %d" % status.st_uid, root)
    if status.st_mode & 0o077:
        raise OSError(
            errno.EPERM, "other users can use it: its mode is %o, and not 700" % (status.st_mode & 0o777), root
        )
    if not is_owned(root, ROOT):
        other = [each for each in sorted(os.listdir(root)) if not _OURS.fullmatch(each)]
        if other:
            raise OSError(errno.EPERM, "ddpkit did not make it, and it holds %s" % other[0], root)
        create_file(os.path.join(root, ".ddpkit"), ROOT.encode() + b"\n")


def _take(root: str, name: str) -> str:
    """Hold a complete copy, or lock the name of one that is to be made. Returns present, absent, or busy (neither)."""
    for exclusive, state in ((False, "present"), (True, "absent")):
        try:
            fd = lock(root, name, exclusive)
        except BlockingIOError:
            return "busy"
        # Asked under the lock: before it, the copy may have been made, or removed.
        if is_complete(os.path.join(root, name)) == (state == "present"):
            _locks[name] = fd
            return state
        release(name)
        if fd != NO_LOCK:
            os.close(fd)
    return "busy"


def release(name: str) -> None:
    """Give back the lock of a name, if this process has it."""
    fd = _locks.pop(name, NO_LOCK)
    if fd != NO_LOCK:
        os.close(fd)


def _clear(place: str, fd: int, kept: dict[str, Any]) -> None:
    """Remove what was begun under this name, and never completed. What may hold a script's files gets another name.

    Raises OSError.
    """
    if not os.path.lexists(place):
        return
    if fd == NO_LOCK:
        raise OSError(errno.EEXIST, "incomplete, and this file system has no locks", place)
    if is_owned(place, COPY) and _files_of_scripts(place):
        aside = "%s.old-%s" % (place, os.urandom(8).hex())
        move_directory(place, aside, COPY)
        _remove_copy(aside, kept)
    else:
        remove_directory(place, COPY)


def _remove_copy(place: str, kept: dict[str, Any]) -> bool:
    """Remove a copy, or note in `kept` what a script wrote in it. Tell whether it is gone. Raises OSError."""
    written = _files_of_scripts(place) if is_owned(place, COPY) else {}
    if written:
        kept["files"] += len(written)
        kept["bytes"] += sum(written.values())
        kept["paths"] = [*kept["paths"], *(os.path.join(place, each) for each in sorted(written))][:NAMED]
    elif os.path.lexists(place):
        remove_directory(place, COPY)
    return not written


def _sweep(root: str, name: str, sent: str, kept: dict[str, Any]) -> None:
    """Remove what dead launches have left, and old copies that nobody uses. `name`: of this launch, which locked it.

    `sent`, `kept`: see `look`. Of the newest complete copies of a kind KEPT stay, that of this launch included.
    """
    entries = os.listdir(root)
    complete = [each for each in entries if re.fullmatch(NAME, each) and is_complete(os.path.join(root, each))]
    complete.sort(key=lambda each: -os.lstat(os.path.join(root, each, COMPLETE)).st_mtime)
    for kind in ("project", "env"):
        of_kind = [each for each in complete if each.startswith(kind + "-")]
        for each in of_kind[KEPT - name.startswith(kind + "-") :]:
            _remove(root, each, entries, kept)
    began = {each.partition(".")[0] for each in entries if _OURS.fullmatch(each)}
    for each in sorted(began - {*complete, name}):
        _remove(root, each, entries, kept)
    _remove_parts(root, name, [each for each in entries if each != sent])


def _remove(root: str, name: str, entries: list[str], kept: dict[str, Any]) -> None:
    """Remove a copy and its parts, unless somebody uses it, a script wrote in it, or the file system has no locks."""
    try:
        fd = lock(root, name, exclusive=True)
    except OSError:
        return
    if fd == NO_LOCK:
        return
    try:
        aside = [each for each in entries if (found := _ASIDE.fullmatch(each)) and found[1] == name]
        gone = [_remove_copy(os.path.join(root, each), kept) for each in (name, *aside)]
        if all(gone):
            _remove_parts(root, name, entries)
            remove_files(root, ROOT, lambda each: each == name + ".lock")
    except OSError:
        pass  # not ddpkit's, or a disk with a problem: the copy of this launch does not depend on it
    finally:
        os.close(fd)


def _listed(place: str) -> dict[str, list[int]]:
    """List the files and links of a copy with sizes and times, without what is compiled. Raises OSError."""
    listed = {}
    for folder, folders, files in os.walk(place, onerror=_raise):
        for path in (os.path.join(folder, each) for each in [*folders, *files]):
            name, status = path[len(place) + 1 :], os.lstat(path)
            if not (stat.S_ISDIR(status.st_mode) or name in (COMPLETE, BEGUN, ".ddpkit") or _COMPILED.fullmatch(name)):
                listed[name] = [status.st_size, status.st_mtime_ns]
    return listed


def _raise(error: OSError) -> None:
    raise error


def _files_of_scripts(place: str) -> dict[str, int]:
    """Return the files in a copy that were not unpacked, or changed since, with sizes. Raises OSError.

    None are in one that was never complete: nobody has used it. Where the list is damaged, or gone, every file counts.
    """
    unpacked = {}
    try:
        with open(os.path.join(place, COMPLETE)) as file:
            unpacked = dict(json.loads(file.read(LIST_LIMIT)))
    except FileNotFoundError:
        if os.path.lexists(os.path.join(place, BEGUN)):
            return {}
    except (ValueError, TypeError):
        pass
    return {name: each[0] for name, each in _listed(place).items() if unpacked.get(name) != each}


def _remove_parts(root: str, name: str, entries: list[str]) -> None:
    """Remove drafts and archives of a name, whose exclusive lock this process has."""
    for each in entries:
        draft = _DRAFT.fullmatch(each)
        if draft and draft[1] == name and is_owned(os.path.join(root, each), COPY):
            remove_directory(os.path.join(root, each), COPY)

    def is_archive(each: str) -> bool:
        found = _ARCHIVE.fullmatch(each)
        return each in entries and found is not None and found[1] == name

    remove_files(root, ROOT, is_archive)


def _make_room(content: dict[str, Any], sent: str, kept: dict[str, Any]) -> str:
    """Remove what is left of this copy, and copies that nobody uses. Returns why the disk cannot take it; else nothing.

    Raises OSError.
    """
    root, name = content["root"], content["name"]
    _clear(os.path.join(root, name), _locks[name], kept)
    _sweep(root, name, sent, kept)
    size, files = content["needs"]
    space = os.statvfs(root)
    free = space.f_bavail * space.f_frsize
    if getattr(os, "ST_NOEXEC", 8) & space.f_flag and name.startswith("env-"):
        return "%s is mounted noexec" % root
    if free < size or 0 < space.f_favail < files:
        what = "%s has %d MB and %d files free; the copy needs %d MB and %d files"
        return what % (root, free >> 20, space.f_favail, (size >> 20) + 1, files)
    return ""


# ---- unpacking


def unpack(content: dict[str, Any], archive: str) -> dict[str, str]:
    """Make a copy from an archive, which is removed if it lies beside the copies. Returns `problem` and `fix`.

    `content`: also `links`, which lead out of the copy, `limits` (files and bytes), and `conda`: made by conda-pack.
    """
    root, name = content["root"], content["name"]
    place = os.path.join(root, name)
    draft = "%s.new-%s" % (place, os.urandom(8).hex())
    problem = ""
    try:
        make_directory(draft, COPY)
        create_file(os.path.join(draft, BEGUN), b"")
        with open(os.open(archive, os.O_RDONLY | os.O_CLOEXEC), "rb") as file:
            extract(file, draft, content["limits"], content["links"])
        _write_through(draft)
        move_directory(draft, place, COPY)
        problem = _conda_unpack(place) if content["conda"] else ""
        if not problem:
            begun = os.path.join(place, BEGUN)
            replace_file(begun, json.dumps(_listed(place)).encode())
            rename_if_same(begun, os.path.join(place, COMPLETE), os.lstat(begun))
            share(_locks.get(name, NO_LOCK))
    except HostileArchiveError as error:
        problem = "the archive is refused: %s" % error
    except FileExistsError:
        # Another node has made it meanwhile, in a file system without locks.
        problem = "" if _wait_for(place) else "%s is incomplete" % place
    except (tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        problem = "the archive cannot be read: %s" % error
    except OSError as error:
        problem = "cannot unpack to %s: %s" % (root, _reason(error))
    finally:
        if os.path.lexists(draft):
            remove_directory(draft, COPY)
        if _ARCHIVE.fullmatch(os.path.basename(archive)) and os.path.dirname(archive) == root:
            remove_files(root, ROOT, lambda each: each == os.path.basename(archive))
    if problem:
        release(name)
    return {"problem": problem, "fix": "launch again; or add --stage-dir DIR"}


def _wait_for(place: str) -> bool:
    until = time.monotonic() + 60.0
    while not is_complete(place) and time.monotonic() < until:
        time.sleep(0.2)
    return is_complete(place)


def _write_through(place: str) -> None:
    """Have the kernel write the files to the disk: after a crash, a marker must not stand for empty files."""
    fd = open_folder(place)
    try:
        if ctypes.CDLL(None).syncfs(fd) != 0:
            os.sync()
    except AttributeError:
        os.sync()
    finally:
        os.close(fd)


def _conda_unpack(place: str) -> str:
    """Let an environment of conda-pack replace its former path. Returns the problem."""
    program = os.path.join(place, "bin", "conda-unpack")
    if not os.path.isfile(program):
        return "the archive has no bin/conda-unpack: conda-pack did not make it"
    argv = [os.path.join(place, "bin", "python"), program]
    try:
        done = subprocess.run(argv, stdin=-3, stdout=-1, stderr=-2, timeout=CONDA_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "conda-unpack failed: %s" % error
    words = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return "conda-unpack failed: %s" % " / ".join(words[-3:]) if done.returncode else ""


def extract(file: BinaryIO, place: str, limits: list[int], links: dict[str, str]) -> None:
    """Unpack an archive into an empty directory of ddpkit's. Nothing is written outside of it, or through a link.

    `limits`: files and bytes at most. `links`: more links, which may lead anywhere. Raises HostileArchiveError for
    absolute paths, links that lead out, devices and the like, OSError, and what `tarfile` raises.
    """
    top = open_folder(place)
    later: list[tuple[list[str], str]] = []
    try:
        files, size = 0, 0
        with tarfile.open(fileobj=file, mode="r|*") as archive:
            for member in archive:
                parts = _parts(member.name)
                files, size = files + 1, size + (member.size if member.isreg() else 0)
                if files > limits[0] or size > limits[1]:
                    raise HostileArchiveError("it is larger than what was packed")
                if member.issym():
                    _check_link(parts, member.linkname)
                    later.append((parts, member.linkname))
                elif parts:
                    _extract_one(archive, member, top, parts)
        # Links come last: no file is written through one.
        for parts, target in [*later, *((_parts(name), target) for name, target in links.items())]:
            _in_folder(top, parts, lambda folder, last, target=target: os.symlink(target, last, dir_fd=folder))
    except FileExistsError as error:
        raise HostileArchiveError("a name occurs twice: %s" % error.filename) from None
    finally:
        os.close(top)


def _extract_one(archive: tarfile.TarFile, member: tarfile.TarInfo, top: int, parts: list[str]) -> None:
    """Unpack a directory, a file, or a second name of a file. Raises HostileArchiveError for anything else."""
    if member.isdir():
        os.close(_enter_or_make(top, parts))
    elif member.islnk():
        _hard_link(top, _parts(member.linkname), parts)
    elif member.isreg():
        source = archive.extractfile(member)
        assert source is not None

        def write(folder: int, last: str) -> None:
            with os.fdopen(create_in(folder, last), "wb") as target:
                for piece in iter(lambda: source.read(1 << 20), b""):
                    target.write(piece)
                if target.tell() != member.size:
                    raise EOFError("it ends early")
                os.fchmod(target.fileno(), member.mode & 0o755 | 0o400)
                target.flush()
                os.utime(target.fileno(), (member.mtime, member.mtime))

        _in_folder(top, parts, write)
    else:
        raise HostileArchiveError("%s is neither a file, a directory nor a link" % member.name)


def _parts(name: str) -> list[str]:
    """Return the names in a path of the archive. Raises HostileArchiveError for one that it must not have."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise HostileArchiveError("the path %r leads out of it" % name)
    if parts and parts[0] in (".ddpkit", BEGUN, COMPLETE):
        raise HostileArchiveError("%s is a name that ddpkit gives" % parts[0])
    return parts


def _check_link(parts: list[str], target: str) -> None:
    """Refuse a link that leads out. Only the first words of its target may lead upwards."""
    words = [word for word in target.split("/") if word not in ("", ".")]
    ups = next((index for index, word in enumerate(words) if word != ".."), len(words))
    if not parts or target.startswith("/") or ".." in words[ups:] or ups >= len(parts) or not target:
        raise HostileArchiveError("the link %s leads to %s" % ("/".join(parts), target))


def _hard_link(top: int, source: list[str], parts: list[str]) -> None:
    """Give a file that was unpacked before another name."""
    if not source or not parts:
        raise HostileArchiveError("a link without a name")
    folder = _enter_or_make(top, source[:-1])
    try:
        if not stat.S_ISREG(os.lstat(source[-1], dir_fd=folder).st_mode):
            raise HostileArchiveError("a link to %s" % "/".join(source))
        _in_folder(
            top,
            parts,
            lambda target, last: os.link(source[-1], last, src_dir_fd=folder, dst_dir_fd=target, follow_symlinks=False),
        )
    except FileNotFoundError:
        raise HostileArchiveError("a link to %s, which is not in it" % "/".join(source)) from None
    finally:
        os.close(folder)


def _in_folder(top: int, parts: list[str], action: Any) -> None:
    folder = _enter_or_make(top, parts[:-1])
    try:
        action(folder, parts[-1])
    finally:
        os.close(folder)


def _enter_or_make(top: int, parts: list[str]) -> int:
    """Return a descriptor of a directory in the copy, made where it is missing. No link is followed."""
    folder = os.dup(top)
    for part in parts:
        try:
            try:
                os.mkdir(part, 0o755, dir_fd=folder)
            except FileExistsError:
                pass
            inner = open_folder(part, folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise HostileArchiveError("%s is a directory and something else" % part) from None
            raise
        finally:
            os.close(folder)
        folder = inner
    return folder


# ---- in a job of SLURM


def main(folder: str, *words: str) -> int:
    """Do one step on a node of a job: `look`, `unpack SUFFIX`, or `hold COPY... -- COMMAND`, which it becomes.

    The contents are listed in `contents.json` in the folder, and the times of the copies are written there.
    """
    host = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    if words[0] == "hold":
        end = words.index("--")
        try:
            hold(list(words[1:end]), inherited=True)
        except OSError as error:
            return _refuse(host, {"problem": "%s: %s" % (error.strerror, error.filename), "fix": "launch again"})
        os.execvp(words[end + 1], list(words[end + 1 :]))
    with open(os.path.join(folder, "contents.json")) as file:
        contents = json.load(file)
    copies = []
    for content in contents:
        began = time.time()
        done = _check(content) if words[0] == "look" else _bring(content, words[1])
        if done["problem"]:
            return _refuse(host, done)
        if done["kept"]["files"]:
            kept = (host, done["kept"]["files"], done["kept"]["paths"][0])
            sys.stderr.write(
                "ddpkit: note: %s: not removed: old copies in which a script wrote (files: %d): %s\n" % kept
            )
        if words[0] == "look" and done["state"] != "present":
            return ABSENT
        kind, copied = content["name"].partition("-")[0], done["state"] == "absent"
        size = content["size"] if copied else 0
        copies.append({"kind": kind, "copied": copied, "size": size, "began": began, "ended": time.time()})
    try:
        replace_file(os.path.join(folder, host + ".json"), json.dumps(copies).encode())
    except OSError:
        pass  # a report without these times
    return 0


def _check(content: dict[str, Any], sent: str = "") -> dict[str, Any]:
    """Look for a copy on this node, whose Python and machine have to fit."""
    if content["python"] and content["python"] != list(sys.version_info[:2]):
        what = "%s is Python %d.%d, and %s requires %d.%d"
        what %= (sys.executable, *sys.version_info[:2], content["source"], *content["python"])
        return {"problem": what, "fix": "add --stage"}
    if content["machine"] not in ("", os.uname().machine):
        what = "its architecture is %s, and %s requires %s"
        return {"problem": what % (os.uname().machine, content["source"], content["machine"]), "fix": "add --stage"}
    return look(content, sent)


def _bring(content: dict[str, Any], suffix: str) -> dict[str, Any]:
    """Make one copy, from the archive that sbcast has brought, or from the shared directory where it has not."""
    root, name = content["root"], content["name"]
    here = "%s.tar-%s" % (name, suffix)
    until = time.monotonic() + PATIENCE
    status = _check(content, here)
    while status.get("state") == "busy" and not status["problem"] and time.monotonic() < until:
        time.sleep(0.3)
        status = _check(content, here)
    try:
        if status["problem"] or status["state"] == "present":
            return status
        if status["state"] == "busy":
            return {"problem": "another launch has copied %s for %d s" % (name, PATIENCE), "fix": status["fix"]}
        path = os.path.join(root, here)
        is_whole = os.path.exists(path) and os.path.getsize(path) == os.path.getsize(content["archive"])
        done = unpack(content, path if is_whole else content["archive"])
        return {**done, "state": "absent", "kept": status["kept"]}
    finally:
        if is_owned(root, ROOT):
            remove_files(root, ROOT, lambda each: each == here)


def _refuse(host: str, done: dict[str, Any]) -> int:
    sys.stderr.write("ddpkit: error: %s: %s\nhint: %s\n" % (host, done["problem"], done["fix"]))
    return 123
