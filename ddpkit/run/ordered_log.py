"""Reads the lines of all ranks in their order: `all.index` says which bytes of which file follow each other."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ddpkit.files import read_part
from ddpkit.run.log_files import INDEX, NO_HOST, OWN, PiecesOfLines, file_name

INDEX_BLOCK = 1 << 16  # bytes of the index that are read at once
BUFFER = 1 << 16  # bytes of a file that are read at once
BUFFERS = 256  # files of which bytes are held
LONGEST_ROW = 1 << 26  # bytes
CUT_WORDS = "the oldest lines of this run are gone: its logs reached the setting log_limit"
LATE = 1.0  # seconds that bytes may take to be seen in a file of another host
_NAME = re.compile(rb"\d{1,9}|ddpkit|[A-Za-z0-9.-]+_[A-Za-z0-9._:@+-]{1,255}")  # no path
_PART = re.compile(r"(.+)\.from_(\d+)(\.[a-z]+)")
_BLOCK_BEGIN = b"\n@ "


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line, without its end. `source`: a rank's number or an agent's name; empty for a line of ddpkit's own."""

    source: str
    host: str
    text: bytes

    @property
    def labelled(self) -> bytes:
        label = f"{self.source} {self.host}".strip() or OWN
        return f"[{label}] ".encode("utf-8", "surrogateescape") + self.text


class CutFile:
    """A log with its earlier parts, as one row of bytes. Parts that are gone leave a gap in it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._parts: list[tuple[int, str]] = []  # begin, and name
        self._begin = 0  # of the file itself
        self.refresh()

    def refresh(self) -> None:
        """Look for parts: a file that is being written may have been cut."""
        self._parts = _parts_of(self._folder).get(self._name, [])
        self._begin = 0
        if self._parts:
            begin, name = self._parts[-1]
            self._begin = begin + _size(self._folder / name)

    @property
    def first(self) -> int:
        """Where the bytes begin that are still there."""
        return self._parts[0][0] if self._parts else 0

    @property
    def size(self) -> int:
        return self._begin + _size(self._folder / self._name)

    def read(self, offset: int, size: int) -> bytes:
        """Return at most so many bytes; fewer at the end, or where a part ends."""
        if offset >= self._begin:
            path, begin = self._folder / self._name, self._begin
        else:
            begin, name = next((part for part in reversed(self._parts) if part[0] <= offset), (0, ""))
            if not name:
                return b""
            path = self._folder / name
        try:
            return read_part(path, offset - begin, size)
        except OSError:
            return b""


def _size(path: Path) -> int:
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


_listed: dict[Path, tuple[int, dict[str, list[tuple[int, str]]]]] = {}


def _parts_of(folder: Path) -> dict[str, list[tuple[int, str]]]:
    """Return the earlier parts of each file in a directory, in their order. Most runs have none."""
    try:
        changed = folder.stat().st_mtime_ns
        known = _listed.get(folder)
        if known is not None and known[0] == changed:
            return known[1]
        found: dict[str, list[tuple[int, str]]] = {}
        for path in folder.iterdir():
            part = _PART.fullmatch(path.name)
            if part:
                found.setdefault(part[1] + part[3], []).append((int(part[2]), path.name))
    except OSError:
        return {}
    for each in found.values():
        each.sort()
    _listed.clear()
    _listed[folder] = changed, found
    return found


class OrderedLog:
    """The lines of all ranks, from an offset in the index on."""

    def __init__(self, folder: Path, since: float | None = None) -> None:
        self._folder = folder
        self._index = CutFile(folder, INDEX)
        self._from = self._index.first if since is None else self._find(since)
        self._files: dict[bytes, CutFile] = {}
        self._buffers: dict[bytes, tuple[int, bytes]] = {}  # by name: offset, and bytes
        self._begin_at(self._from)

    def _begin_at(self, offset: int) -> None:
        self._offset = offset
        self._rest = b""  # the begin of a row
        self._rows: deque[tuple[bytes, str, int, int]] = deque()  # name, host, begin, length
        self._block: dict[bytes, tuple[int, str]] = {}  # by name: next offset, and host
        self._lines = PiecesOfLines()
        self._short_since = 0.0

    def read(self) -> list[Line] | None:
        """Return new lines; None where there are none."""
        if not self._rows:
            data = self._index.read(self._offset, INDEX_BLOCK)
            if not data:
                self._index.refresh()
                if self._offset < self._index.first:  # its begin gave way to newer lines
                    self._begin_at(self._index.first)
                data = self._index.read(self._offset, INDEX_BLOCK)
            if not data:
                return None
            self._offset += len(data)
            self._parse(data)
        return self._take_lines(waits=True)

    def _take_lines(self, *, waits: bool) -> list[Line] | None:
        """Return the lines of all rows; None: bytes of the first row are not seen yet."""
        lines: list[Line] = []
        while self._rows:
            name, host, begin, length = self._rows[0]
            data = self._bytes(name, begin, length)
            if len(data) < length and waits and self._waits_for(name, begin):
                return lines or None
            self._rows.popleft()
            self._short_since = 0.0
            lines += self._lines_of(name.decode(), host, data)
        return lines

    def _waits_for(self, name: bytes, begin: int) -> bool:
        """Whether to wait for bytes that are not seen yet. Those of a part that is gone never come."""
        self._buffers.pop(name, None)
        self._files[name].refresh()
        if begin < self._files[name].first:
            return False
        now = time.monotonic()
        self._short_since = self._short_since or now
        return now - self._short_since < LATE and self._offset >= self._index.size

    def _lines_of(self, name: str, host: str, data: bytes) -> list[Line]:
        source = "" if name == OWN else name.removesuffix(f"_{host}")
        return [Line(source=source, host=host, text=text) for text in self._lines.add(name, data)]

    def _parse(self, data: bytes) -> None:
        *rows, self._rest = (self._rest + data).split(b"\n")
        block = self._block
        for row in rows:
            words = row.split()
            try:
                if len(words) == 2 and words[0] != b"@":
                    (begin, host), length = block[words[0]], int(words[1])
                elif len(words) == 4 and _NAME.fullmatch(words[0]):
                    length, begin, host = int(words[1]), int(words[2]), words[3].decode("utf-8", "surrogateescape")
                    host = "" if host == NO_HOST else host
                else:
                    if words[:1] == [b"@"]:
                        block.clear()
                    continue
            except (KeyError, ValueError):  # a torn row
                continue
            if 0 < length <= LONGEST_ROW and begin >= 0:
                self._rows.append((words[0], host, begin, length))
                block[words[0]] = begin + length, host

    def _bytes(self, name: bytes, begin: int, length: int) -> bytes:
        """Return bytes of a file, most often of a buffer."""
        offset, data = self._buffers.get(name, (0, b""))
        at = begin - offset
        if at < 0 or at + length > len(data):
            if name not in self._files:
                self._files[name] = CutFile(self._folder, file_name(name.decode()))
            file, data = self._files[name], b""
            while len(data) < length and (more := file.read(begin + len(data), max(length - len(data), BUFFER))):
                data += more
            if len(self._buffers) >= BUFFERS:
                del self._buffers[next(iter(self._buffers))]
            self._buffers[name] = begin, data
            at = 0
        return data[at : at + length]

    def rest(self) -> list[Line]:
        """Return what is left at the end of a run, also of files in which bytes are missing."""
        return self._take_lines(waits=False) or []

    def skip_to_last(self, number: int, matches: Callable[[Line], bool]) -> None:
        """Begin where the last `number` of the lines that match begin, or before. It reads from the end."""
        seen, first = 0, self._index.size
        for begin, lines in self._from_the_end():
            first = begin
            seen += sum(map(matches, lines))
            if seen > number:
                break
        self._begin_at(first)

    def _from_the_end(self) -> Iterator[tuple[int, list[Line]]]:
        """Yield the lines of some blocks and where they begin in the index, the last ones first."""
        end, size = self._index.size, INDEX_BLOCK >> 2
        while end > self._from:
            begin = max(self._from, end - size)
            data = b""
            while begin + len(data) < end and (more := self._index.read(begin + len(data), end - begin - len(data))):
                data += more
            at = data.find(_BLOCK_BEGIN) + 1 if begin > self._from else 0
            if begin > self._from and not at:
                size *= 2
                if size > 1 << 30:
                    return
                continue
            self._begin_at(begin)
            self._parse(data[at:] + b"\n")
            end = begin + at
            yield end, self.rest()

    def _find(self, since: float) -> int:
        """Return where the blocks begin of which the one after is of this time or later."""
        low, high = self._index.first, self._index.size
        while high - low > INDEX_BLOCK:
            middle = (low + high) // 2
            data = self._index.read(middle, INDEX_BLOCK)
            at = data.find(_BLOCK_BEGIN)
            if at < 0:
                high = middle
                continue
            when = _time(data[at + 3 :])
            low, high = (middle + at + 1, high) if when < since - 1.0 else (low, middle)
        data = self._index.read(low, 2 * INDEX_BLOCK)
        at = -1
        while (at := data.find(b"@ ", at + 1)) >= 0:
            if (not at or data[at - 1 : at] == b"\n") and _time(data[at + 2 :]) >= since - 1.0:
                return low + at
        return low + len(data)

    def read_end(self, size: int) -> bytes:
        """Return the last lines, so many bytes at least if there are as many, with rank and host in front."""
        blocks: list[bytes] = []
        for _, lines in self._from_the_end():
            blocks.append(b"".join(line.labelled + b"\n" for line in lines))
            size -= len(blocks[-1])
            if size <= 0:
                break
        return b"".join(reversed(blocks))

    def blocks(self) -> Iterator[bytes]:
        """Yield all lines, with rank and host in front."""
        while (lines := self.read()) is not None:
            yield b"".join(line.labelled + b"\n" for line in lines)
        yield b"".join(line.labelled + b"\n" for line in self.rest())


def _time(data: bytes) -> float:
    try:
        return float(data.partition(b"\n")[0])
    except ValueError:
        return 0.0


def is_cut(folder: Path) -> bool:
    """Tell whether the oldest lines of a run gave way to newer ones: `log_limit`."""
    return any(parts[0][0] > 0 for parts in _parts_of(folder).values())


def is_ordered(folder: Path) -> bool:
    """Tell whether a run keeps the order of its lines in an index; an older one has `all.log`."""
    return (folder / INDEX).is_file() or not (folder / "all.log").is_file()
