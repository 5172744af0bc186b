"""ddpkit.text: ranges and sizes as people read them; texts from outside."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpkit.text import (
    coloured,
    format_ranges,
    format_ranks,
    format_size,
    format_size_in_digits,
    one_line,
    printable,
)


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


# ---- texts from outside

CONTROLS = (
    "\x1b]52;c;aGk=\x07",  # the clipboard
    "\x1b]0;title\x1b\\",
    "\x1b[2J",
    "\x1b[6n",
    "\x9b2J",
    "\x9d0;title\x9c",
    "\x1b]52;c;",  # without an end
    "\x00\x07\x0b\x0c\x0e\x7f",
    "\u202e\u2066\u200e\u200f\u061c",
    "\u200b\u2060\ufeff\u2028\u2029\x85",
    "\udc9b\udcff\ud800",
    "\U000e0041",
)
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\U000e0000-\U000e007f]"
)


@given(st.lists(st.one_of(st.sampled_from(CONTROLS), st.text(max_size=5))).map("".join))
def test_no_text_from_outside_controls_a_reader(value: str) -> None:
    shown = printable(value)
    assert not UNSEEN.search(shown)
    assert printable(shown) == shown
    shown.encode()
    line = one_line(value, most=50)
    assert len(line) <= 50
    assert "\n" not in line
    assert not UNSEEN.search(line)


@given(st.lists(st.one_of(st.sampled_from(CONTROLS), st.text(max_size=5), st.just("\x1b[31m"))).map("".join))
def test_a_coloured_line_has_colours_alone(value: str) -> None:
    data = value.replace("\n", "").encode("utf-8", "surrogatepass")
    shown = coloured(data).decode("utf-8", "surrogateescape")
    rest = re.sub(r"\x1b\[[\d;:]*m", "", shown)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\udc80-\udc9f]", rest)
    assert "\x1b" not in shown or shown.endswith(("\x1b[0m", "\x1b[m"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\x85b", "a\\x85b"),
        ("a\x1b[31mb\x1b[0m", "ab"),
        ("a\x1b]52;c;aGk=\x07b", "ab"),
        ("a\u202eb", "a\\u202eb"),
        ("a\udc9b", "a\\x9b"),
        ("naïve ☃ 中文\ttab\nline", "naïve ☃ 中文\ttab\nline"),
        ("👩\u200d💻 می\u200cخواهم", "👩\u200d💻 می\u200cخواهم"),
        ("a\u200db", "a\\u200db"),
    ],
)
def test_what_is_shown_of_a_text(value: str, shown: str) -> None:
    assert printable(value) == shown
