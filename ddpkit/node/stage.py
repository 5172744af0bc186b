"""Local copies of a project and of a virtual environment: looked for, verified, and removed when they are old.

Standard library only, Python 3.8 and later. Sent to a node's supervisor. The launcher uses `measure`.

A copy is NAME/ in the stage directory. It is complete once NAME.ok, its marker, lists its files. The process that
copies holds a lock on NAME.lock, which the kernel releases at its end. A directory without NAME.ok and without a lock
is a leftover.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import sys
import time
import zlib
from binascii import a2b_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

PATIENCE = 600.0  # seconds: for another launch's copy
READERS = 16
KEPT = 3  # complete copies of a kind
WHOLE = 1 << 20  # bytes: larger files of a project are compared by size and time
SCRIPT_LIMIT = 1 << 16  # bytes of a program in bin/ that can hold paths
_COMPILED = "__pycache__"  # Python may add files there; it checks each against its source
_locks: dict[str, int] = {}  # by name


def digest(root: str, names: Iterable[str], content: bool) -> str:
    """SHA-256 over path, type, mode, and content or size and time of these files. A missing file counts as such."""
    return measure(root, names, content)[0]


def measure(root: str, names: Iterable[str], content: bool) -> tuple[str, int]:
    """Return the digest of these files, and their bytes. One look at each: an environment has tens of thousands."""
    whole, size = hashlib.sha256(), 0
    for name in sorted(names):
        words, more = _describe(root + "/" + name, content)
        size += more
        if _COMPILED not in name.split("/"):
            whole.update("\0".join([name, *words, "\0"]).encode("utf-8", "surrogateescape"))
    return whole.hexdigest(), size


def describe(path: str, content: bool) -> list[str]:
    """Type, mode, and content or size and time of a file; or the error."""
    return _describe(path, content)[0]


def _describe(path: str, content: bool) -> tuple[list[str], int]:
    size = 0
    try:
        each = os.lstat(path)
        size = each.st_size
        mode = "%o" % (each.st_mode & 0o777)
        if stat.S_ISLNK(each.st_mode):
            return ["link", os.readlink(path)], size
        if stat.S_ISDIR(each.st_mode):
            return ["directory", mode], size
        if content and size <= WHOLE:
            with open(path, "rb") as file:
                return ["file", mode, hashlib.sha256(file.read()).hexdigest()], size
        return ["file", mode, str(size), str(int(each.st_mtime))], size
    except OSError as error:
        return [str(error.strerror)], size


def look(root: str, name: str, needs: list[int], dry: bool) -> dict[str, Any]:
    """Look for a copy, and else lock it and make room. `needs`: bytes and files. `dry`: change nothing.

    Returns `problem` and `fix`, or `state`: present, busy (another launch copies it) or absent, with `bases`: names of
    other copies of this kind.
    """
    answer: dict[str, Any] = {"state": "absent", "bases": [], "problem": "", "fix": "", "machine": os.uname().machine}
    answer["python"] = list(sys.version_info[:2])
    if dry and not os.path.isdir(root):
        return answer
    try:
        _check_root(root)
        if not dry and name not in _locks and not _lock(root, name):
            return {**answer, "state": "busy"}
        if is_whole(root, name, quick=name.startswith("env-"), dry=dry):
            if not dry:
                os.utime(marker(root, name))
                release(root, name)
            return {**answer, "state": "present"}
        if not dry:
            _sweep(root, name)
            if os.path.exists(marker(root, name)):
                os.unlink(marker(root, name))  # damaged: the next copy repairs it
        kind = name.partition("-")[0]
        answer["bases"] = [each for each in complete(root) if each.partition("-")[0] == kind and each != name]
        space = os.statvfs(root)
        begun = answer["bases"] or os.path.isdir(os.path.join(root, name))
        free = space.f_bavail * space.f_frsize
        if getattr(os, "ST_NOEXEC", 8) & space.f_flag and kind == "env":
            return {**answer, **_problem("%s is mounted noexec" % root, "add --stage-dir DIR")}
        if not begun and (free < needs[0] or 0 < space.f_favail < needs[1]):
            what = "%s has %d MB and %d files free; the copy needs %d MB and %d files"
            what %= (root, free >> 20, space.f_favail, (needs[0] >> 20) + 1, needs[1])
            return {**answer, **_problem(what, "add --stage-dir DIR, or: df -h %s" % root)}
    except OSError as error:
        what = "cannot stage in %s: %s" % (root, str(error.strerror).lower())
        return {**answer, **_problem(what, "add --stage-dir DIR")}
    return answer


def finish(root: str, name: str, names: str, wanted: str, content: bool, moved_from: str) -> dict[str, str]:
    """Verify a copy, correct the paths in its programs, and mark it complete. `names`: packed, separated by NUL.

    `moved_from`: the former path of a virtual environment or conda prefix; empty: a project.
    """
    listed = unpack(names)
    place = os.path.join(root, name)
    try:
        if digest(place, listed, content) != wanted:
            what = "the copy differs from its source: a file changed meanwhile, or was damaged"
            return _problem(what, "launch again")
        if moved_from:
            known = _list_conda(place)
            small = _move_conda(place, moved_from, known)
            if small:
                return _problem(
                    "%s has no room for the path %s" % (small, place), "add --stage-dir DIR, a shorter path"
                )
            _move_programs(place, moved_from, known)
        _mark(root, name, _verified(place, listed))
    except OSError as error:
        return _problem("cannot complete %s: %s" % (place, str(error.strerror).lower()), "add --stage-dir DIR")
    finally:
        release(root, name)
    return _problem("", "")


def unpack(names: str) -> list[str]:
    return zlib.decompress(a2b_base64(names)).decode("utf-8", "surrogateescape").split("\0")


class Directory:
    """Files of a directory that this node can read."""

    def __init__(self, root: str, content: bool) -> None:
        self.root, self._content = root, content

    def describe(self, names: list[str], pool: Any) -> list[list[str]]:
        """Type, mode, and content or size and time of each file. Raises OSError."""
        described = list(pool.map(lambda name: describe(os.path.join(self.root, name), self._content), names))
        missing = next((name for name, each in zip(names, described) if len(each) == 1), None)
        if missing is not None:
            os.lstat(os.path.join(self.root, missing))
        return described

    def fetch(self, names: list[str], place: str, pool: Any) -> int:
        """Copy regular files. Returns their bytes. Raises OSError."""

        def one(name: str) -> int:
            shutil.copy2(os.path.join(self.root, name), os.path.join(place, name), follow_symlinks=False)
            return os.lstat(os.path.join(place, name)).st_size

        return sum(pool.map(one, names))


def copy(source: Any, place: str, names: list[str], bases: list[str], content: bool) -> int:
    """Copy these files from a `Directory`, or what has its methods. `bases`: copies that share unchanged files.

    Returns the bytes that were read. Raises OSError.
    """
    from concurrent.futures import ThreadPoolExecutor

    names, modes = sorted(names), []
    os.makedirs(place, 0o700, exist_ok=True)

    def lacks(name: str, wanted: list[str]) -> bool:
        """Whether a regular file has to be read; all else is made here."""
        target = os.path.join(place, name)
        if wanted[0] == "directory" or describe(target, content) == wanted:
            return False
        if os.path.lexists(target):
            os.unlink(target)  # another copy can share it
        if wanted[0] == "link":
            os.symlink(wanted[1], target)
            return False
        base = next((base for base in bases if describe(os.path.join(base, name), content) == wanted), "")
        if base:
            os.link(os.path.join(base, name), target, follow_symlinks=False)
        return not base

    with ThreadPoolExecutor(READERS) as pool:  # a shared file system answers late, and many at a time
        described = source.describe(names, pool)
        for name, wanted in zip(names, described):
            if wanted[0] == "directory":
                os.makedirs(os.path.join(place, name), 0o700, exist_ok=True)
                os.chmod(os.path.join(place, name), 0o700)  # one that was begun can be read-only
                modes.append((os.path.join(place, name), int(wanted[1], 8)))
        needed = list(pool.map(lacks, names, described))
        size = int(source.fetch([name for name, need in zip(names, needed) if need], place, pool))
    for path, mode in reversed(modes):
        os.chmod(path, mode)
    return size


def _bring(content: dict[str, Any]) -> dict[str, Any]:
    """Copy one entry of `contents.json` to this node, if it has no copy. Return the problem, and `size` of a copy."""
    args, until = content["finish"], time.monotonic() + PATIENCE
    root, name = args["root"], args["name"]
    if content["python"] and content["python"] != list(sys.version_info[:2]):
        what = "%s is Python %d.%d, and %s requires %d.%d"
        what %= (sys.executable, *sys.version_info[:2], content["source"], *content["python"])
        return _problem(what, "add --stage")
    if content["machine"] not in ("", os.uname().machine):
        what = "its architecture is %s, and %s requires %s"
        return _problem(what % (os.uname().machine, content["source"], content["machine"]), "add --stage")
    answer = look(root, name, content["needs"], False)
    while answer["state"] == "busy" and time.monotonic() < until:
        time.sleep(0.3)
        answer = look(root, name, content["needs"], False)
    if answer["problem"] or answer["state"] == "present":
        release(root, name)
        return answer
    if answer["state"] == "busy":
        return _problem("another launch has copied %s for %d s" % (name, PATIENCE), "add --stage-dir DIR")
    try:
        bases = [os.path.join(root, base) for base in answer["bases"]]
        source = Directory(content["source"], args["content"])
        size = copy(source, os.path.join(root, name), unpack(args["names"]), bases, args["content"])
    except OSError as error:
        release(root, name)
        what = "cannot copy %s to %s: %s" % (error.filename or content["source"], root, str(error.strerror).lower())
        return _problem(what, "launch again" if error.errno == errno.ENOENT else "add --stage-dir DIR")
    return {**finish(**args), "size": size}


def main() -> int:
    """Copy to this node what `contents.json` beside this program lists. Writes the times of it to `HOST.json` there."""
    folder = os.path.dirname(os.path.abspath(__file__))
    host = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    with open(os.path.join(folder, "contents.json")) as file:
        contents = json.load(file)
    copies = []
    for content in contents:
        began = time.time()
        done = _bring(content)
        if done["problem"]:
            sys.stderr.write("ddpkit: error: %s: %s\nhint: %s\n" % (host, done["problem"], done["fix"]))
            return 123
        kind, copied = content["finish"]["name"].partition("-")[0], "size" in done
        size = done.get("size", 0)
        copies.append({"kind": kind, "copied": copied, "size": size, "began": began, "ended": time.time()})
    try:
        with open(os.path.join(folder, host + ".json"), "w") as file:
            json.dump(copies, file)
    except OSError:
        pass  # a report without these times
    return 0


def complete(root: str) -> list[str]:
    """Names of the complete copies, the last used first."""
    names = [name[:-3] for name in os.listdir(root) if name.endswith(".ok")]
    return sorted(names, key=lambda name: -os.stat(marker(root, name)).st_mtime)


def _problem(what: str, fix: str) -> dict[str, str]:
    return {"problem": what, "fix": fix}


def marker(root: str, name: str) -> str:
    return os.path.join(root, name + ".ok")


def _check_root(root: str) -> None:
    """Make the stage directory, or refuse one into which another user can write. Raises OSError."""
    try:
        os.makedirs(root, 0o700)
    except FileExistsError:
        pass
    each = os.lstat(root)
    if not stat.S_ISDIR(each.st_mode):
        raise OSError(0, "not a directory")
    if each.st_uid != os.geteuid():
        raise OSError(0, "it belongs to user %d" % each.st_uid)
    if each.st_mode & 0o022:
        raise OSError(0, "other users can write to it")


def _lock(root: str, name: str) -> bool:
    """Take the lock of a name until `release`, or the end of this process. False: another process has it."""
    path = os.path.join(root, name + ".lock")
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                _locks[name] = fd
                return True
        except BlockingIOError:
            os.close(fd)
            return False
        except FileNotFoundError:
            pass
        os.close(fd)  # its file was removed before it was locked


def release(root: str, name: str) -> None:
    """Remove the lock of a name, if this process has it."""
    fd = _locks.pop(name, -1)
    if fd >= 0:
        os.unlink(os.path.join(root, name + ".lock"))
        os.close(fd)


def abandon() -> None:
    """End rsync in the copies that this process has locked.

    Of a launcher that was cut off, sshd and rsync learn only when TCP gives up, after a quarter of an hour or more.
    """
    places = [os.readlink("/proc/self/fd/%d" % fd)[: -len(".lock")] for fd in _locks.values()]
    for pid in filter(str.isdecimal, os.listdir("/proc")) if places else ():
        try:
            with open("/proc/%s/comm" % pid) as file:
                if file.read() == "rsync\n" and os.readlink("/proc/%s/cwd" % pid) in places:
                    os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass  # it ended, or is another user's


def is_whole(root: str, name: str, quick: bool, dry: bool = False) -> bool:
    """Compare a complete copy with the list of its files.

    `quick`: only its directories, if all files were verified since the machine started. A file that is added, removed
    or replaced changes its directory; one that is written in place does not. After a crash files can be empty. `dry`:
    change nothing.
    """
    place = os.path.join(root, name)
    try:
        with open(marker(root, name)) as file:
            listed = json.load(file)
    except (OSError, ValueError):
        return False
    if quick and listed.get("stamp") and listed["stamp"] == _stamp(place, listed["directories"]):
        return True
    verified = _verified(place, listed["names"])
    if verified["digest"] != listed["digest"]:
        return False
    if quick and not dry:
        try:
            _mark(root, name, verified)
        except OSError:
            pass  # a full disk: the next launch looks at all files as well
    return True


def _verified(place: str, names: list[str]) -> dict[str, Any]:
    """Return what the marker of a copy holds."""
    folders = {name.rpartition("/")[0] for name in names}
    directories = sorted(each for each in folders if _COMPILED not in each.split("/"))
    stamp = _stamp(place, directories)  # before the files: what changes after this is found the next time
    return {"digest": digest(place, names, False), "names": names, "directories": directories, "stamp": stamp}


def _stamp(place: str, directories: list[str]) -> str:
    """Mode and time of these directories, and the start of the machine; empty: not known."""
    whole = hashlib.sha256()
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            whole.update(file.read().encode())
        for name in directories:
            each = os.stat(os.path.join(place, name))
            whole.update(("%s\0%o %d\0" % (name, each.st_mode, each.st_mtime_ns)).encode("utf-8", "surrogateescape"))
    except OSError:
        return ""
    return whole.hexdigest()


def _mark(root: str, name: str, listed: dict[str, Any]) -> None:
    """Mark a copy as complete. Raises OSError."""
    new = marker(root, name) + ".new"
    try:
        with open(new, "w") as file:
            json.dump(listed, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, marker(root, name))
    finally:
        if os.path.exists(new):
            os.unlink(new)


def _sweep(root: str, name: str) -> None:
    """Remove leftovers of launches that died, and old complete copies that no process uses."""
    kinds: dict[str, list[str]] = {}
    for each in complete(root):
        kinds.setdefault(each.partition("-")[0], []).append(each)
    kept = {name}
    for kind, names in kinds.items():
        kept.update(names[: KEPT - (kind == name.partition("-")[0])])
    for each in sorted({entry.partition(".")[0] for entry in os.listdir(root)} - kept):
        if "-" not in each or _in_use(os.path.join(root, each)) or not _lock(root, each):
            continue
        if os.path.exists(marker(root, each)):
            os.unlink(marker(root, each))
        shutil.rmtree(os.path.join(root, each), ignore_errors=True)
        release(root, each)


def _in_use(path: str) -> bool:
    """Whether the command line of a process names a path."""
    for pid in os.listdir("/proc"):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if pid.isdecimal() and os.fsencode(path) in file.read():
                    return True
        except OSError:
            pass
    return False


def _list_conda(place: str) -> dict[str, tuple[bool, int]]:
    """Files that hold the path of a conda prefix, as conda-meta lists them: whether binary, and the room for it."""
    folder, listed = os.path.join(place, "conda-meta"), {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.endswith(".json"):
            with open(os.path.join(folder, name), "rb") as file:
                paths = json.load(file).get("paths_data", {}).get("paths", [])
            for each in paths:
                if each.get("prefix_placeholder"):
                    listed[each["_path"]] = (each.get("file_mode") == "binary", len(each["prefix_placeholder"]))
    return listed


def _move_conda(place: str, moved_from: str, listed: dict[str, tuple[bool, int]]) -> str:
    """Replace the former path of a conda prefix. Returns a file that has no room for the new one; empty: all have.

    A path in a binary file ends with NUL bytes, up to the length of the path for which its package was built.
    """
    old, new = os.fsencode(moved_from), os.fsencode(place)
    for name, (binary, room) in sorted(listed.items()):
        path = os.path.join(place, name)
        if not os.path.isfile(path) or os.path.islink(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        moved = data if binary else data.replace(old, new)
        for string in re.finditer(re.escape(old) + b"[^\0]*\0+", data) if binary else ():
            text = string.group().rstrip(b"\0")
            longer = text.replace(old, new)
            if len(longer) > min(len(string.group()) - 1, len(text) + text.count(old) * (room - len(old))):
                return name
            moved = moved[: string.start()] + longer.ljust(len(string.group()), b"\0") + moved[string.end() :]
        if moved != data:
            _rewrite(path, moved)
    return ""


def _move_programs(place: str, moved_from: str, moved_before: Iterable[str]) -> None:
    """Replace the former path of an environment in its other programs."""
    for entry in os.scandir(os.path.join(place, "bin")):
        if not entry.is_file(follow_symlinks=False) or entry.stat().st_size > SCRIPT_LIMIT:
            continue
        with open(entry.path, "rb") as file:
            data = file.read()
        moved = data.replace(os.fsencode(moved_from) + b"/", os.fsencode(place) + b"/")
        moved = moved if b"VIRTUAL_ENV" not in data else data.replace(os.fsencode(moved_from), os.fsencode(place))
        if moved != data and b"\0" not in data and "bin/" + entry.name not in moved_before:
            _rewrite(entry.path, moved)


def _rewrite(path: str, data: bytes) -> None:
    """Replace a file. One that other copies share stays as it is there."""
    with open(path + ".new", "wb") as file:
        file.write(data)
    shutil.copymode(path, path + ".new")
    os.replace(path + ".new", path)


if __name__ == "__main__":
    sys.exit(main())
