"""Pictures of the page: inline SVG that stretches to any width. The words around them are HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from ddpkit.run.report.startup import PHASES, Segment
from ddpkit.run.report.summary import Chart, LanePart
from ddpkit.run.report.words import number, seconds, text

DOTS = 40  # points of a curve, up to which each is also a dot
COLOURS = 6
NOISE = 0.005  # seconds a step that say nothing
WIDE, HIGH = 1000.0, 400.0


def bar(segments: Sequence[Segment], total: float) -> str:
    """One rank's start."""
    parts = [
        f'<rect class="phase" data-phase="{text(each.phase)}" x="{_at(each.begin, total)}" y="0" '
        f'width="{_at(each.end - each.begin, total)}" height="1" fill="var(--p-{text(each.phase)})">'
        f"<title>{text(PHASES[each.phase])}: {seconds(each.end - each.begin)}</title></rect>"
        for each in segments
        if each.end > each.begin
    ]
    return f'<svg viewBox="0 0 1000 1" preserveAspectRatio="none" role="img">{"".join(parts)}</svg>'


def lane(parts: Sequence[LanePart], total: float) -> str:
    """One replica, start after start: pale until it was ready."""
    shapes = []
    for each in parts:
        ready = min(max(each.ready or each.begin, each.begin), each.end)
        for begin, end, words in ((each.begin, ready, "starting"), (ready, each.end, str(each.state))):
            if end > begin:
                shapes.append(
                    f'<rect class="lane {text(each.state)}" x="{_at(begin, total)}" y="0" height="1" '
                    f'width="{_at(end - begin, total)}" fill-opacity="{0.35 if words == "starting" else 1}">'
                    f"<title>{text(words)}: {seconds(end - begin)}</title></rect>"
                )
    return f'<svg viewBox="0 0 1000 1" preserveAspectRatio="none" role="img">{"".join(shapes)}</svg>'


def _at(value: float, total: float) -> str:
    return f"{1000 * value / total:.2f}" if total > 0 else "0"


def heat(values: Sequence[float | None], low: float, high: float, what: str) -> str:
    """One rank's steps: the longer, the darker."""
    parts = []
    for column, value in enumerate(values):
        if value is not None:
            parts.append(
                f'<rect class="cell" x="{column}" y="0" width="1" height="1" '
                f'fill-opacity="{strength(value, low, high):.3f}">'
                f"<title>{text(what)}, part {column + 1} of {len(values)}: {seconds(value)} a step</title></rect>"
            )
    return f'<svg viewBox="0 0 {len(values)} 1" preserveAspectRatio="none" role="img">{"".join(parts)}</svg>'


def strength(value: float, low: float, high: float) -> float:
    """Darkness of a cell, 0 to 1."""
    return 0.06 + 0.94 * (min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0)


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """Return the values of the lightest and the darkest cell.

    Full colour means twice the median and at least `NOISE` above it, so that noise stays pale. Where more than 2 % of
    the cells are slower still, it means the slowest of the other 98 %: a single evaluation does not set the scale.
    """
    ordered = sorted(values)
    usual, slow = median(ordered), ordered[min(len(ordered) - 1, int(0.98 * len(ordered)))]
    return ordered[0], max(slow, 2 * usual, usual + NOISE)


def ramp(low: float, high: float) -> str:
    steps = "".join(
        f'<rect class="ramp-cell" x="{n}" width="1" height="1" fill="var(--heat)" '
        f'fill-opacity="{strength(n / 9, 0, 1):.3f}"/>'
        for n in range(10)
    )
    picture = f'<svg viewBox="0 0 10 1" preserveAspectRatio="none" aria-hidden="true">{steps}</svg>'
    return f'<div class="ramp">{seconds(low)} {picture} {seconds(high)} a step</div>'


def chart(drawn: Chart) -> str:
    """Curves over the optimizer steps, with a key of the last and the best value of each."""
    points = [point for curve in drawn.curves for point in curve.points]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = _range([y for _, y in points])
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    shapes = [f'<path class="grid" d="M0 {_y(tick, low, high)}H{WIDE:.0f}"/>' for tick in ticks]
    for index, curve in enumerate(drawn.curves):
        colour = f"var(--s{index % COLOURS})"
        places = [(_x(x, left, right), _y(y, low, high)) for x, y in curve.points]
        shapes.append(
            f'<polyline class="line" data-curve="{text(curve.name)}" stroke="{colour}" '
            f'points="{" ".join(f"{x},{y}" for x, y in places)}"><title>{text(curve.name)}</title></polyline>'
        )
        if len(places) <= DOTS:
            shapes.append(f'<path class="dots" stroke="{colour}" d="{"".join(f"M{x} {y}h0" for x, y in places)}"/>')
    picture = (
        f'<svg viewBox="0 0 {WIDE:.0f} {HIGH:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(drawn.title)}">{"".join(shapes)}</svg>'
    )
    down = "".join(f"<span>{number(tick)}</span>" for tick in reversed(ticks))
    across = f"<span>step {number(left)}</span><span>{_middle(left, right)}</span><span>{number(right)}</span>"
    return (
        f'<div class="chart"><h3>{text(drawn.title)}</h3><div class="plot"><div class="ys">{down}</div>{picture}'
        f'<div class="xs">{across if right > left else f"<span>step {number(left)}</span>"}</div></div>'
        f"{_key(drawn)}</div>"
    )


def _middle(left: float, right: float) -> str:
    """There is no half step: of a few, none is named."""
    half = (left + right) / 2
    return number(round(half)) if half == int(half) or right - left >= 20 else ""


def _key(drawn: Chart) -> str:
    rows = []
    for index, curve in enumerate(drawn.curves):
        best = min if "loss" in curve.name.lower() else max
        at, value = best(curve.points, key=lambda point: point[1])
        word = "lowest" if best is min else "highest"
        flat = all(point[1] == value for point in curve.points)
        note = "all along" if flat and len(curve.points) > 1 else f"{word} {number(value)} at step {number(at)}"
        rows.append(
            f'<li><i style="background:var(--s{index % COLOURS})"></i><b>{text(curve.name)}</b> '
            f"{number(curve.points[-1][1])}"
            f'<span class="soft">, {note}</span></li>'
        )
    return f'<ul class="key">{"".join(rows)}</ul>'


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - (abs(low) or 1) / 10, high + (abs(high) or 1) / 10)


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round values from below `low` to above `high`, equally far apart."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [each * step for each in range(first, last + 1)]


def _x(value: float, left: float, right: float) -> str:
    return f"{WIDE * (value - left) / (right - left):.1f}" if right > left else f"{WIDE / 2:.1f}"


def _y(value: float, low: float, high: float) -> str:
    return f"{HIGH - HIGH * (value - low) / (high - low):.1f}"
