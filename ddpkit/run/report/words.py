"""Words and numbers of the page: everything that came from outside is made harmless here, in one place."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Iterable

from ddpkit.text import LONGEST, one_line, printable


def text(value: object) -> str:
    """Any value as HTML that shows it, between tags and in attributes: nothing in it is markup, unseen or endless."""
    return html.escape(one_line(value), quote=True)


def lines(values: Iterable[str]) -> str:
    """Lines of a log, for `<pre>`."""
    return "\n".join(html.escape(printable(each[:LONGEST]).replace("\n", " "), quote=True) for each in values)


def seconds(value: float) -> str:
    """A length of time: `850 µs`, `12.3 ms`, `4.21 s`, `3 min 20 s`, `2 h 05 min`."""
    if not _is_number(value):
        return text(value)
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
    if not _is_number(value):
        return text(value)
    if abs(value) < 1e9 and (value == int(value) or abs(value) >= 1000):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def moment(value: float) -> str:
    """A time in this machine's zone."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(value))
    except (TypeError, ValueError, OverflowError, OSError):
        return text(value)


def _is_number(value: object) -> bool:
    """Whether a value can be formatted; what a file has in place of a number is shown as text."""
    return isinstance(value, (int, float)) and math.isfinite(value)
