"""Words and numbers for the page: everything that came from outside is made harmless here, in one place."""

from __future__ import annotations

import html
import re
import time

# What a terminal obeys: colours, titles, cursor movements.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# Control characters; halves of surrogate pairs (bytes that were no UTF-8); what turns the direction of writing.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def text(value: object) -> str:
    """Any text as HTML that shows it, between tags and in attributes: nothing in it is markup, or unseen."""
    return html.escape(_UNSEEN.sub(_named, _ESCAPES.sub("", str(value).replace("\r\n", "\n"))), quote=True)


def _named(match: re.Match[str]) -> str:
    number = ord(match[0])
    if 0xDC80 <= number <= 0xDCFF:  # a byte, see `surrogateescape`
        return f"\\x{number - 0xDC00:02x}"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def seconds(value: float) -> str:
    """A length of time: `850 µs`, `12.3 ms`, `4.21 s`, `3 min 20 s`, `2 h 05 min`."""
    if value <= 0:
        return "0 s"
    if value < 0.001:
        return f"{1e6 * value:.0f} µs"
    if value < 1:
        return f"{1000 * value:.3g} ms" if value < 0.9995 else "1.00 s"
    if value < 120:
        return f"{value:.3g} s"
    if value < 7200:
        return f"{value // 60:.0f} min {value % 60:02.0f} s"
    return f"{value // 3600:.0f} h {value % 3600 // 60:02.0f} min"


def number(value: float) -> str:
    """A value of a curve, in as few digits as tell it: `0.0123`, `1,170`, `3e-05`."""
    if abs(value) < 1e9 and (value == int(value) or abs(value) >= 1000):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def moment(value: float) -> str:
    """A time in this machine's zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(value))
