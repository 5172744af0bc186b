"""Long logs, read within bounds of memory: of lines that differ in digits alone, the first and the last ones stay.

Every line of a form that is rare stays: a failure is one. Of a log without such forms its begin and its end stay. The
numbers of the lines are those of the file.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain
from typing import BinaryIO

FIRST = 16 << 20  # bytes at the begin of a file that are read
LAST = 64 << 20  # and at its end
SHORT = 4 << 20  # bytes of a log that is looked at line by line
WHOLE = 16 << 20  # bytes of the first lines, where lines have no form in common
BLOCK = 1 << 20
MAX_BYTES = 1 << 16  # of a line; the rest of it is left out
FIRST_OF_FORM = 500  # lines
LAST_OF_FORM = 2000
MOST_FORMS = 30_000
END = 7 << 20  # bytes of the last lines, where lines have no form in common
_DIGITS = b"0123456789"


@dataclass(frozen=True)
class LogText:
    """The text of a log, and the numbers of its lines where it is not the whole log."""

    text: str
    numbers: Sequence[int] | None = None
    left_out: int = 0  # lines, each like others that are kept, or between the first and the last ones


def blocks_of(stream: BinaryIO, most: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a stream up to its end, or so many."""
    while (most is None or most > 0) and (block := stream.read(BLOCK if most is None else min(BLOCK, most))):
        yield block
        most = None if most is None else most - len(block)


def read_lines(blocks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines of each block. A line without an end costs no more memory than a long one."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > MAX_BYTES:
            rest = rest[:MAX_BYTES]
        yield lines
    if rest:
        yield [rest]


class _Kept:
    """Lines with their numbers, in little memory."""

    def __init__(self) -> None:
        self.size = 0
        self._blocks: deque[tuple[array[int], bytes]] = deque()

    def add(self, numbers: array[int], lines: list[bytes]) -> None:
        if lines:
            block = b"\n".join(lines)
            self._blocks.append((numbers, block))
            self.size += len(block)

    def forget(self, most: int) -> None:
        """Forget the oldest lines beyond so many bytes."""
        while self.size > most:
            self.size -= len(self._blocks.popleft()[1])

    def take(self) -> Iterator[tuple[int, bytes]]:
        while self._blocks:
            numbers, block = self._blocks.popleft()
            yield from zip(numbers, block.split(b"\n"), strict=True)


class Condenser:
    """Keeps lines: all of a log that is not long; of a long one the first and the last ones of each form."""

    def __init__(self) -> None:
        self.read = 0  # lines
        self._begin = _Kept()
        self._end = _Kept()
        self._counts: dict[bytes, int] = {}
        self._last: dict[bytes, deque[tuple[int, bytes]]] = {}

    def add(self, lines: list[bytes]) -> None:
        """Take the lines that follow."""
        if not lines:
            return
        forms = b"\n".join(lines).translate(None, _DIGITS).split(b"\n")
        counts, numbers, kept = self._counts, array("Q"), []
        counting = self._begin.size < WHOLE
        for number, (form, line) in enumerate(zip(forms, lines, strict=True), self.read + 1):
            known = counts.get(form, 0)
            if known >= FIRST_OF_FORM:
                self._last.setdefault(form, deque(maxlen=LAST_OF_FORM)).append((number, line[:MAX_BYTES]))
                continue
            if counting and (known or len(counts) < MOST_FORMS):
                counts[form] = known + 1
            numbers.append(number)
            kept.append(line[:MAX_BYTES])
        self.read += len(lines)
        (self._begin if counting else self._end).add(numbers, kept)
        self._end.forget(END)

    def skip(self, lines: int) -> None:
        """Count lines that are not looked at."""
        self.read += lines

    def text(self) -> LogText:
        """Return what is kept. The condenser is empty then."""
        often = sorted(each for last in self._last.values() for each in last)
        self._counts, self._last = {}, {}
        numbers, text = array("Q"), bytearray()
        for number, line in merge(self._begin.take(), often, self._end.take()):
            numbers.append(number)
            text += line + b"\n"
        left_out = self.read - len(numbers)
        return LogText(text.replace(b"\0", b"").decode("utf-8", "replace"), numbers, left_out)


def condense(blocks: Iterable[bytes]) -> LogText:
    """Read a stream. A short one is kept as it is."""
    begin: list[bytes] = []
    size = 0
    rest = iter(blocks)
    for block in rest:
        begin.append(block)
        size += len(block)
        if size > SHORT:
            break
    else:
        return LogText(b"".join(begin).replace(b"\0", b"").decode("utf-8", "replace"))
    condenser = Condenser()
    for lines in read_lines(chain(begin, rest)):
        condenser.add(lines)
    return condenser.text()


def _between(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the bytes of a part of a file without its holes: a file of one byte can have a size of terabytes."""
    begin = stream.tell()
    try:
        file = os.open(f"/proc/self/fd/{stream.fileno()}", os.O_RDONLY | os.O_CLOEXEC)  # with a place of its own
    except (OSError, ValueError):  # no file, or no Linux
        yield from blocks_of(stream, size)
        return
    try:
        at, end = begin, begin + size
        while at < end:
            try:
                at = os.lseek(file, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.EINVAL:  # else a file system without holes
                    break
            block = os.pread(file, min(BLOCK, end - at), at) if at < end else b""
            if not block:
                break
            yield block
            at += len(block)
    finally:
        os.close(file)
    stream.seek(begin + size)


def read_long(stream: BinaryIO, size: int) -> LogText:
    """Read the begin and the end of a file of so many bytes; lines between them are counted."""
    if size <= FIRST + LAST:
        return condense(blocks_of(stream))
    condenser = Condenser()
    for lines in read_lines(blocks_of(stream, FIRST)):
        condenser.add(lines)
    # The begin ends in a line, most often: its end is the first of those that are counted.
    stream.seek(FIRST - 1)
    whole = stream.read(1) == b"\n"
    between = sum(block.count(b"\n") for block in _between(stream, size - LAST - FIRST))
    stream.readline(BLOCK)  # the rest of a line
    condenser.skip(between + whole)
    for lines in read_lines(blocks_of(stream)):
        condenser.add(lines)
    return condenser.text()
