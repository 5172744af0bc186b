"""Reads logs: bytes to lines with their numbers, within bounds of time and memory, and without the packing of lines.

Of a long log the lines of rare forms stay, and of those that differ in digits alone the first and the last ones. JSON,
quotes of a mail and common indentation are removed; the hosts of pdsh become labels.
"""

from __future__ import annotations

import errno
import os
import re
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from html import unescape
from itertools import chain, groupby
from typing import BinaryIO

from ddpkit.diagnosis.line_prefixes import cut_line, strip_escapes


def _never() -> bool:
    return False


class Limit:
    """A time of work. It counts the processor's time, so that a busy machine changes no answer."""

    def __init__(self, seconds: float, ended: Callable[[], bool] = _never) -> None:
        """`ended`: whether the answer is not wanted any more, for example after a signal."""
        self._ended = ended
        self._until = time.thread_time() + seconds
        self._over = False

    def is_over(self) -> bool:
        if not self._over:
            self._over = time.thread_time() > self._until or self._ended()
        return self._over

    def leave_out(self, since: float) -> None:
        """Do not count the work since a `time.thread_time()`."""
        self._until += time.thread_time() - since

    def extend(self, seconds: float) -> None:
        """Allow so many more seconds, for the part that matters most."""
        self._until = time.thread_time() + seconds
        self._over = self._ended()


FIRST = 16 << 20  # bytes at the begin of a file that are read
LAST = 64 << 20  # and at its end
SHORT = 1 << 19  # bytes of a log that is looked at line by line
WHOLE = 16 << 20  # bytes of the first lines, where lines have no form in common
BLOCK = 1 << 20
MAX_BYTES = 1 << 16  # of a line; the rest of it is left out
FIRST_OF_FORM = 500  # lines
LAST_OF_FORM = 500
MOST_FORMS = 30_000
CROWDED = 50_000  # lines of one block
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
        for index in self._chosen(forms):
            form, line, number = forms[index], lines[index], self.read + 1 + index
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

    def _chosen(self, forms: list[bytes]) -> Iterable[int]:
        """Return the lines that are looked at: of a block with very many, only the last one of a form that is known."""
        if len(forms) <= CROWDED:
            return range(len(forms))
        full = {form for form, count in self._counts.items() if count >= FIRST_OF_FORM}
        end, last = len(forms) - LAST_OF_FORM, dict(zip(forms, range(len(forms)), strict=True))
        rare = (index for index, form in enumerate(forms) if form not in full)
        return sorted({*rare, *(last[form] for form in full if form in last), *range(end, len(forms))})

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
    """Read a log from its blocks. A short one is kept as it is."""
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


def data_blocks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the next `size` bytes of a file without its holes: a file of one byte can have a size of terabytes."""
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
    stream.seek(FIRST - 1)
    # Most often the begin ends within a line, which is counted already: then the first line end begins the next one.
    begins_line = stream.read(1) == b"\n"
    line_ends = sum(block.count(b"\n") for block in data_blocks(stream, size - LAST - FIRST))
    rest = stream.readline(BLOCK)  # of the last line between them
    continues = not rest.endswith(b"\n")  # a line longer than that is counted with the end
    condenser.skip(line_ends + begins_line - continues)
    for lines in read_lines(blocks_of(stream)):
        condenser.add(lines)
    return condenser.text()


# `node1: text` of pdsh and parallel-ssh. A word before a colon is a host only where it begins most lines.
_HOST = re.compile(r"(?P<host>[A-Za-z0-9][\w-]*(?:\.[\w-]+)*): ")
_NO_HOST = re.compile(
    r"(?i)\d+$|(?:.*[a-z])?(?:error|exception|warning|errno|note|hint|info|debug|fatal|failed|usage|std(?:out|err))$"
    r"|(?:epoch|step|iter|iteration|rank|gpu|cuda|line|layer|level|fold|stage|loss|test|train|val|time|worker|fix)\d*$"
    r"|(?:srun|sbatch|salloc|slurmstepd|slurmd|wandb|pyxis|bash|sh|python\d?|mpirun|ssh|torchrun|nvcc|ninja|mkdir|env)$"
    r"|[\w-]+\.(?:sh|bash|py|slurm|sbatch)$"
)
# A bar of progress has no line end: an error of torch's C++ follows on its line.
_BAR = re.compile(r"%\||/s\b|s/it\b")
_GLUED = re.compile(r"(?:\[rank\d+\]:)?\[[EW](?: |\d{3,4} [\d:.]+ (?:\d+ )?)\w+\.cpp:\d+\]")
_QUOTE = re.compile(r"^(?:>(?!>| /)(?: |$))+")
MAX_PACKED = 1 << 16  # characters of a line that can hold several


_FURTHER = re.compile(r"\s{4,}(NVRM: .*)")  # lines of a kernel message below the one with the time


def plain_lines(log: LogText) -> tuple[list[str], Sequence[int]]:
    """Return the lines of a log, and the number of each in its file, from 1. A JSON line can hold several."""
    text = log.text
    # Lines that were copied from a terminal can have its width.
    lines = [cut_line(line.rstrip(" \t"), MAX_PACKED) for line in _as_printed(strip_escapes(text)).split("\n")]
    numbers = list(range(1, len(lines) + 1))
    if "[E" in text or "[W" in text:
        lines, numbers = _split_bars(lines, numbers)
    if "NVRM: " in text:
        lines = _join_driver_messages(lines)
    lines = _with_hosts(_as_posted(list(map(cut_line, lines))))
    if log.numbers is None:
        return lines, numbers
    of_file = (*log.numbers, log.numbers[-1] + 1)
    return lines, array("Q", (of_file[number - 1] for number in numbers))


# Web pages and word processors show these in place of what the program printed.
_TYPOGRAPHY = str.maketrans({"\u2018": "'", "\u2019": "'", "\uff08": " (", "\uff09": ")"})

_ENTITY = re.compile("&(?:#39|quot|lt|gt|amp);")

# An exception as `repr` shows it, as Hydra prints it.
_REPR = re.compile(r"""(?m)^((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception))\((['"])(.+)\2,?\)$""")
_PAIRED = re.compile("\u201c([^\u201c\u201d\n]*)\u201d(?!: (?:command )?not found)")


def _as_printed(text: str) -> str:
    """Undo quotes and entities of a page, line ends of SageMaker's toolkit, `repr` of exceptions, and translations."""
    from ddpkit.diagnosis.catalogue import form

    if "&#39;" in text or "&quot;" in text:
        text = _ENTITY.sub(lambda entity: unescape(entity[0]), text)
    text = text.replace("#015\n", "\n") if "#015" in text else text
    text = _REPR.sub(r"\1: \3", text) if "Error(" in text or "Exception(" in text else text
    if text.isascii():
        return text
    ends = form("ends_of_shells")  # in another language, each with its English words as the name of its group
    text = ends.sub(lambda end: (end.lastgroup or "").replace("_", " "), text)
    return _PAIRED.sub(r'"\1"', text.translate(_TYPOGRAPHY))


def _split_bars(lines: Sequence[str], numbers: Sequence[int]) -> tuple[list[str], list[int]]:
    """Separate a bar of progress from an error of torch's C++ behind it, which has the same line number."""
    marked = ((index, line) for index, line in enumerate(lines) if "[E" in line or "[W" in line)
    bars = {
        index: error.start()
        for index, line in marked
        if (bar := _BAR.search(line)) and (error := _GLUED.search(line, bar.end()))
    }
    lines, numbers = list(lines), list(numbers)
    for index in reversed(bars):
        line, end = lines[index], bars[index]
        lines[index : index + 1] = [line[:end], line[end:]]
        numbers.insert(index, numbers[index])
    return lines, numbers


def _join_driver_messages(lines: Sequence[str]) -> list[str]:
    """Append the further lines of a message of NVIDIA's kernel driver to its first line, and leave them empty."""
    joined = list(lines)
    first = -1
    for index, line in enumerate(lines):
        further = _FURTHER.match(line) if first >= 0 else None
        if further:
            joined[first] += " " + further[1].removeprefix("NVRM: ")
            joined[index] = ""
        else:
            first = index if "NVRM: " in line else -1
    return joined


def _as_posted(lines: list[str]) -> list[str]:
    """Remove what a page or a mail puts before each line: quotation marks, and indentation."""
    lines = [_QUOTE.sub("", line.strip("`") if line.startswith("`") else line) for line in lines]
    return [line for block in _blocks(lines) for line in _without_margin(block)]


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines between blank ones."""
    for _, block in groupby(lines, key=lambda line: not line.strip()):
        yield list(block)


def _without_margin(lines: list[str]) -> list[str]:
    """Remove the indentation that all lines have."""
    margin = min(len(line) - len(line.lstrip(" ")) for line in lines)
    return [line[margin:] for line in lines] if margin else lines


def _with_hosts(lines: list[str]) -> list[str]:
    """Turn `node1: text` into `[host/node1] text`, where pdsh put the host before each line."""
    names: Counter[str] = Counter()
    with_text = 0
    for line in lines:
        if line.strip():
            with_text += 1
            match = _HOST.match(line)
            if match and not _NO_HOST.match(match["host"]):
                names[match["host"]] += 1
    shapes: Counter[str] = Counter()  # node1 and node2 are of one shape
    for name, count in names.items():
        shapes[re.sub(r"\d+", "0", name)] += count
    hosts = {name for name in names if shapes[re.sub(r"\d+", "0", name)] > 1 and re.search(r"[\d.-]|^localhost$", name)}
    # They are hosts where they begin at least half of the lines, and each of them two lines on average.
    if not hosts or sum(names[name] for name in hosts) * 2 < with_text or len(hosts) * 2 > with_text:
        return lines
    return [_labelled(line, hosts) for line in lines]


def _labelled(line: str, hosts: set[str]) -> str:
    host, colon, text = line.partition(":")
    if not colon or host not in hosts or (text and text[0] != " "):
        return line
    return f"[host/{host}] {text[1:]}"
