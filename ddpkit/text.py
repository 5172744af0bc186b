"""Text for people: ranges of numbers, sizes in bytes, and texts from outside without what a reader obeys or cannot see.

A rank, a node, a record or a file may hold a title of a window, the contents of the clipboard (OSC 52), the start of a
sequence without its end, which takes in what is printed next, or marks that turn the direction of writing. Every text
from outside goes through `printable`, `one_line` or `coloured` before a terminal, a page or a hint shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# What a terminal obeys. C1 controls are these, too: as characters, and as bytes on terminals of one byte a character.
_COLOUR = r"(?:\x1b\[|\x9b)[\d;:]*m"
_SEQUENCES = re.compile(
    r"(?P<colour>" + _COLOUR + r")"
    r"|(?:\x1b[PX^_\]]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # strings: DCS, SOS, PM, APC, OSC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI
    r"|\x1b[ -/]*[0-~]?"
)
# Controls but tab and line end; halves of surrogate pairs (bytes that were no UTF-8); line separators; what turns the
# direction of writing; what has no width, which between letters of other scripts than ours joins or parts them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
LONGEST = 4000  # characters of one value from outside
_RESET = "\x1b[0m"


def printable(text: str) -> str:
    """Return text that shows what it is: without colours, and with a name for each control (`\\x07`, `\\u202e`)."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return _UNSEEN.sub(_name_of, _SEQUENCES.sub("", text.replace("\r\n", "\n")))


def one_line(value: object, most: int = LONGEST) -> str:
    """Return a value from outside as a part of one line of at most so many characters."""
    text = printable(str(value)[: 4 * most]).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= most else f"{text[: most - 3]}..."


def coloured(line: bytes) -> bytes:
    """Return a line of a rank for a terminal: with its colours, which end with it, and without all other controls.

    Backspaces are carried out. Bytes that are no UTF-8 stay, but those that some terminals take for controls.
    """
    if line.isascii() and line.replace(b"\t", b" ").decode("ascii").isprintable():
        return line
    text = _SEQUENCES.sub(lambda match: match["colour"] or "", line.decode("utf-8", "surrogateescape"))
    if "\b" in text:
        text = _gone_back(re.sub(_COLOUR, "", text))
    text = _UNSEEN.sub(lambda match: _kept_in_colours(match[0]), text)
    ended = "\x1b" not in text or text.endswith((_RESET, "\x1b[m"))
    return (text if ended else text + _RESET).encode("utf-8", "surrogateescape")


def _name_of(match: re.Match[str]) -> str:
    number = ord(match[0])
    if 0xDC80 <= number <= 0xDCFF:  # a byte, see `surrogateescape`
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _kept_in_colours(char: str) -> str:
    """An escape here begins a colour; a byte from A0 on is a letter of an older encoding."""
    return char if char == "\x1b" or "\udca0" <= char <= "\udcff" else ""


def _gone_back(text: str) -> str:
    """Return what a terminal shows of a text with backspaces: what follows one stands in the place before it."""
    shown: list[str] = []
    at = 0
    for char in text:
        if char == "\b":
            at = max(0, at - 1)
        else:
            shown[at : at + 1] = [char]
            at += 1
    return "".join(shown)


def format_ranges(numbers: Iterable[int], most: int | None = None) -> str:
    """`0-3, 7`; with `most`, of more ranges than that the first ones and `...`."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    words = [f"{first}-{last}" if last > first else str(first) for first, last in ranges]
    return ", ".join(words[:most]) + (", ..." if len(words[:most]) < len(words) else "")


def format_ranks(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0-2, 5`."""
    words = format_ranges(ranks)
    return f"rank {words}" if words.isdigit() else f"ranks {words}"


def format_duration(seconds: float) -> str:
    """A length of time in one or two words: `1.6 s`, `12 s`, `3 min`, `2.5 h`, `4 d`."""
    seconds = max(0.0, seconds)  # of two clocks, or of one that was set back
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"


MOST_HOSTS = 8  # by name


def format_age(seconds: float) -> str:
    """Return the age of something, without parts of a second: `4 s`, `3 min`."""
    return format_duration(round(seconds)) if seconds >= 10 else f"{max(0.0, seconds):.0f} s"


def format_hosts(hosts: Sequence[str], most: int = MOST_HOSTS) -> str:
    """`node1, node2`; of more than `most` hosts `node[1-1000]`, as SLURM writes them."""
    if len(hosts) <= most:
        return ", ".join(hosts)
    parts = [match.groups() for match in map(_NUMBERED.fullmatch, dict.fromkeys(hosts)) if match]
    padded = {(before, after) for before, digits, after in parts if digits.startswith("0")}
    folded: dict[tuple[str, int, str], list[int]] = {}  # numbers by what is around them, and their width
    for before, digits, after in parts:
        width = len(digits) if (before, after) in padded else 0 if digits else -1
        folded.setdefault((before, width, after), []).append(int(digits or 0))
    return ", ".join(_folded(*key, numbers) for key, numbers in folded.items())


_NUMBERED = re.compile(r"(.*?)([0-9]{0,15})([^0-9]*)", re.DOTALL)


def _folded(before: str, width: int, after: str, numbers: list[int]) -> str:
    """Write hosts as `node[01-16]`. `width`: digits of a padded number; 0: not padded; -1: a name without a number."""
    if width < 0:  # it has no number
        return f"{before}{after}"
    words = re.sub("[0-9]+", lambda number: number[0].zfill(width), format_ranges(numbers).replace(", ", ","))
    return f"{before}[{words}]{after}" if len(numbers) > 1 else f"{before}{words}{after}"


def last_state(line: bytes) -> bytes:
    """Return what a terminal shows of a line: of a progress bar, the last state that was drawn over the others."""
    if b"\r" not in line:
        return line
    return next((state for state in reversed(line.split(b"\r")) if state), b"")


def format_size(size: float) -> str:
    """`512 B`, `64 MiB`, `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def format_size_in_digits(size: float) -> str:
    """Three digits of a size: `1.46 KiB`, `64 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"
