"""Text for people: ranges of numbers, and sizes in bytes. Also the forms that texts from files must have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Form:
    """The form of a text: a regular expression for all of it, and its name in errors. For `Annotated[str, ...]`."""

    pattern: str
    name: str


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value of a number. For `Annotated[int, ...]` and `Annotated[float, ...]`."""

    least: float
    most: float


# No word of a command can be taken for an option, and no line of a terminal for two.
HostName = Annotated[str, Form(r"[\w.:\[(][\w.:%@+,*\[\]()-]{0,254}", "the name of a host")]
UserName = Annotated[str, Form(r"[A-Za-z0-9_.][A-Za-z0-9_.@\\-]{0,63}\$?|", "the name of a user")]
ProgramName = Annotated[str, Form(r"[^\0\n-][^\0\n]{0,4095}", "a program")]
FilePath = Annotated[str, Form(r"[^\0]{0,8192}", "a path")]
Count = Annotated[int, Bounds(0, 1 << 32)]
Seconds = Annotated[float, Bounds(0, 1e11)]  # since the epoch, or a length of time


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
