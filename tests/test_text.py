"""ddpkit.text: ranges and sizes as people read them."""

from __future__ import annotations

import pytest

from ddpkit.text import format_ranges, format_ranks, format_size, format_size_in_digits


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0-1"), ([7, 0, 2, 1, 3, 7], "0-3, 7"), (range(4), "0-3"), ([1, 3, 5], "1, 3, 5")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert format_ranges(numbers) == text


def test_of_many_ranges_the_first_ones() -> None:
    assert format_ranges([1, 3, 5, 6], most=2) == "1, 3, ..."
    assert format_ranges([1, 3], most=2) == "1, 3"


@pytest.mark.parametrize(("ranks", "text"), [([3], "rank 3"), ([0, 1], "ranks 0-1"), ([0, 2], "ranks 0, 2")])
def test_ranks(ranks: list[int], text: str) -> None:
    assert format_ranks(ranks) == text


@pytest.mark.parametrize(
    ("size", "text", "digits"),
    [
        (0, "0 B", "0 B"),
        (1500, "1 KiB", "1.46 KiB"),
        (64 << 20, "64 MiB", "64 MiB"),
        (3 << 29, "1.5 GiB", "1.5 GiB"),
        (3 << 40, "3072.0 GiB", "3 TiB"),
    ],
)
def test_sizes(size: int, text: str, digits: str) -> None:
    assert (format_size(size), format_size_in_digits(size)) == (text, digits)
