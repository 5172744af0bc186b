"""Text for people: ranges of numbers, and sizes in bytes."""

from __future__ import annotations

from collections.abc import Iterable


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
