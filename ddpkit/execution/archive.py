"""Archives of directories for `--stage`. What is in one is described first, and must be the same when it is packed."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from ddpkit.errors import UsageError
from ddpkit.launchers.plan import Archive
from ddpkit.launchers.shell import quote
from ddpkit.node.owned import own_file

WHOLE = 1 << 20  # bytes: larger files of a project are compared by size and time
SCRIPT_LIMIT = 1 << 16  # bytes of a program in bin/ that can hold the path of its environment
_COMPILED = "__pycache__"  # Python checks each file there against its source


def describe(source: str, names: Iterable[str], *, content: bool) -> tuple[dict[str, str], int]:
    """Describe the files, directories and links of a directory that exist. Returns that by name, and their bytes.

    `content`: small files by what they hold; else all by size and time.
    """
    described, size = {}, 0
    for name in names:
        path = Path(source, name)
        with suppress(OSError):
            status = path.lstat()
            data = path.read_bytes() if content and stat.S_ISREG(status.st_mode) and status.st_size <= WHOLE else None
            text = _description(status, data, os.fspath(path.readlink()) if stat.S_ISLNK(status.st_mode) else "")
            if text:
                described[name] = text
                size += status.st_size
    return described, size


def _description(status: os.stat_result, data: bytes | None, target: str) -> str:
    mode = f"{status.st_mode & 0o777:o}"
    if stat.S_ISLNK(status.st_mode):
        return f"link {target}"
    if stat.S_ISDIR(status.st_mode):
        return f"directory {mode}"
    if not stat.S_ISREG(status.st_mode):
        return ""
    if data is not None:
        return f"file {mode} {hashlib.sha256(data).hexdigest()}"
    return f"file {mode} {status.st_size} {int(status.st_mtime)}"


def digest(described: Mapping[str, str]) -> str:
    """SHA-256 of the descriptions, without what Python compiles."""
    whole = hashlib.sha256()
    for name in sorted(described):
        if _COMPILED not in name.split("/"):
            whole.update(f"{name}\0{described[name]}\0\0".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def outer_links(archive: Archive) -> dict[str, str]:
    """Return the links that lead out of the directory, with absolute targets. They are in no archive."""
    targets = ((name, _link_target(archive.source, name, text)) for name, text in archive.described.items())
    return {name: target for name, target in targets if target.startswith("/")}


def _link_target(source: str, name: str, text: str) -> str:
    """Return where a link of the copy leads: relative inside, else absolute. Empty: it is no link."""
    if not text.startswith("link "):
        return ""
    folder = os.path.normpath(Path(source, name).parent)
    target = os.path.normpath(Path(folder, text.removeprefix("link ")))
    inside = target == source or target.startswith(f"{source}/")
    return os.path.relpath(target, folder) if inside else target


def pack(archive: Archive, file: IO[bytes]) -> None:
    """Write an archive. Raises UsageError if a file is not what it was when it was described, or OSError."""
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(archive.described, key=lambda each: each.split("/")):
            text = archive.described[name]
            info = tarfile.TarInfo(name)
            if text.startswith("link "):
                info.type, info.linkname = tarfile.SYMTYPE, _link_target(archive.source, name, text)
                if not info.linkname.startswith("/"):
                    tar.addfile(info)
            elif text.startswith("directory "):
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                _pack_file(archive, tar, info)


def _pack_file(archive: Archive, tar: tarfile.TarFile, info: tarfile.TarInfo) -> None:
    wanted = archive.described[info.name]
    whole = len(wanted.split(" ")[2]) == 64  # by content
    changed = UsageError(
        f"--stage: {info.name} changed while it was copied",
        f"launch again; or leave it out: {quote(info.name)} in .gitignore",
    )
    try:
        fd = os.open(Path(archive.source, info.name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise changed from None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        data = file.read() if whole or _may_hold_path(archive, info.name, status.st_size) else None
        if _description(status, data if whole else None, "") != wanted:
            raise changed
        info.mode, info.mtime = status.st_mode & 0o777, int(status.st_mtime)
        moved = _moved(archive, data) if data is not None else None
        info.size = status.st_size if moved is None else len(moved)
        try:
            tar.addfile(info, file if moved is None else io.BytesIO(moved))
        except OSError as error:
            raise changed if str(error) == "unexpected end of data" else error from None
        if _description(os.fstat(fd), data if whole else None, "") != wanted:
            raise changed


def _may_hold_path(archive: Archive, name: str, size: int) -> bool:
    return bool(archive.moved_to) and name.startswith("bin/") and size <= SCRIPT_LIMIT


def _moved(archive: Archive, data: bytes) -> bytes:
    """Replace the path of an environment in one of its programs."""
    if not archive.moved_to or b"\0" in data:
        return data
    old, new = os.fsencode(archive.source), os.fsencode(archive.moved_to)
    return data.replace(old, new) if b"VIRTUAL_ENV" in data else data.replace(old + b"/", new + b"/")


def write_archive(archive: Archive, path: Path) -> None:
    """Write an archive into the directory of a run, which all nodes see, once. Raises UsageError, OSError.

    What an attempt before has packed gets a second name. So does an environment of an earlier run: it has gigabytes.
    """
    before = [*path.parents[1].glob(f"attempt-*/stage/{path.name}")]
    before += path.parents[2].glob(f"*/stage/{path.name}") if archive.moved_to else ()
    for other in before:
        status = other.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022:
            with suppress(OSError):
                os.link(other, path, follow_symlinks=False)
                return
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    with own_file(str(draft)) as descriptor, os.fdopen(descriptor, "wb", closefd=False) as file:
        pack(archive, file)
        file.flush()
        os.link(draft, path)
