"""Ways to start ranks that `ddpkit bench start` compares: their settings, their times as ratios, and a table. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from ddpkit.errors import UsageError, nearest

PARTS: Mapping[str, Mapping[str, str]] = {
    "ranks": {"starter": "ranks"},
    "torchrun": {"starter": "torchrun"},
    "preload": {"preload": "true"},
    "stage": {"stage": "project"},
    "env": {"stage": "env"},
}
DEFAULT = "ranks,torchrun,preload,stage"
_SLURM = {"ranks": "slurm-srun", "torchrun": "slurm-torchrun"}
_COMPARED = ("starter", "preload", "stage")  # options that the ways differ in
GAIN = 0.95  # times the first: a smaller gain can be noise


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Facts of a launch that make some ways impossible."""

    backend: str
    options: Collection[str]  # that the backend has
    given: Mapping[str, str]  # options of the launch
    container: bool = False
    via: bool = False
    at_home: bool = False  # the working directory is the home directory


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to start the ranks."""

    name: str
    backend: str
    options: Mapping[str, str]  # of the launch, and its own
    own: Mapping[str, str]  # the options that make the way
    reason: str = ""  # why it is not possible; empty: it is

    @property
    def flags(self) -> str:
        """The flags of `ddpkit launch` that select it."""
        words = [f"-b {self.backend.replace('slurm-srun', 'slurm')}"] if self.backend in _SLURM.values() else []
        for name, value in self.own.items():
            alone = {"preload": "true", "stage": "project"}.get(name) == value
            words.append(f"--{name} {value}" if name == "starter" else f"--{name}" if alone else f"--{name}={value}")
        return " ".join(words)

    @property
    def toml(self) -> str:
        """The lines of ddpkit.toml that select it."""
        values = ", ".join(f"{name} = {json.dumps(value)}" for name, value in self.own.items())
        lines = [f"options = {{ {values} }}"] if self.own else []
        if self.backend in _SLURM.values():
            lines.insert(0, f'backend = "{self.backend}"')
        return "\n".join(lines)


def parse_ways(text: str) -> tuple[str, ...]:
    """Return the names of the ways: `ranks,preload,preload+env`. Raises UsageError."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        for part in name.split("+"):
            if part not in PARTS:
                hint = nearest(part, PARTS) or f"--ways {DEFAULT},env"
                raise UsageError(f"--ways: {part!r} is not one of {', '.join(PARTS)}", hint)
    return names


def choose_way(name: str, here: Situation) -> Way:
    """Return the settings of one way, or why it is not possible."""
    parts = name.split("+")
    own: dict[str, str] = {} if set(parts) & {"ranks", "torchrun"} else dict(PARTS["ranks"])
    for part in parts:
        own |= PARTS[part]
    backend = here.backend
    if backend in _SLURM.values():
        backend = _SLURM[own.pop("starter")]
    preload = here.given.get("preload", "")
    if "preload" in own and preload.lower() not in ("", "false", "no", "off", "0"):
        own["preload"] = preload
    options = {key: value for key, value in here.given.items() if key not in _COMPARED}
    reason = _reason(parts, own, here)
    return Way(name=name, backend=backend, options={**options, **own}, own=own, reason=reason)


def _reason(parts: Sequence[str], own: Mapping[str, str], here: Situation) -> str:
    missing = [name for name in own if name not in here.options]
    if missing:
        return f"backend {here.backend} has no option {missing[0]}"
    if len(set(parts) & {"ranks", "torchrun"}) == 2:
        return "ranks and torchrun exclude each other"
    if {"torchrun", "preload"} <= set(parts):
        return "torchrun starts each rank as a new Python"
    if "stage" not in own:
        return ""
    if here.container:
        return "--stage does not work with --container: the image holds the code"
    if here.via:
        return "--stage does not work with --via"
    return "the working directory is the home directory: nothing is copied from it" if here.at_home else ""


@dataclass(kw_only=True)
class WayTimes:
    """Launches of one way so far."""

    way: Way
    state: Literal["planned", "measured", "impossible", "failed"] = "planned"
    reason: str = ""
    fix: str = ""
    exit_code: int = 0
    first: float | None = None  # seconds of the launch before the rounds: it copies, and fills caches
    seconds: list[float] = field(default_factory=list)  # of the rounds
    folder: str = ""  # logs of a failed launch
    plan: str = ""  # of a dry run

    def __post_init__(self) -> None:
        if self.way.reason:
            self.state, self.reason = "impossible", self.way.reason

    @property
    def median(self) -> float | None:
        return median(self.seconds) if self.state == "measured" else None

    def fail(self, state: Literal["impossible", "failed"], reason: str, fix: str, code: int) -> None:
        """Record why this way did not run. Its times do not count."""
        self.state, self.reason, self.fix, self.exit_code = state, reason, fix, code


def ratios(times: Sequence[WayTimes]) -> dict[str, float]:
    """Return the median of each measured way as a ratio to the first measured one."""
    known = {each.way.name: each.median for each in times if each.median is not None}
    first = next(iter(known.values()), 1.0)
    return {name: value / first for name, value in known.items()}


def best(times: Sequence[WayTimes]) -> WayTimes | None:
    """Return the fastest way, or the first one where no other gains more than noise. None: no way worked."""
    relative = ratios(times)
    if not relative:
        return None
    name = min(relative, key=lambda each: relative[each])
    name = name if relative[name] < GAIN else next(iter(relative))
    return next(each for each in times if each.way.name == name)


def table(times: Sequence[WayTimes]) -> list[str]:
    """Return the lines of the result."""
    relative = ratios(times)
    rows = [("WAY", "FLAGS", "MEDIAN", "RATIO", "RANGE", "FIRST")]
    for each in times:
        if each.median is None:
            words = "not possible" if each.state == "impossible" else each.state
            rows.append((each.way.name, f"{words}: {each.reason}", "", "", "", ""))
            continue
        spread = f"{min(each.seconds):.2f}-{max(each.seconds):.2f} s"
        first = "" if each.first is None else f"{each.first:.2f} s"
        ratio = f"{relative[each.way.name]:.2f}"
        rows.append((each.way.name, each.way.flags, f"{each.median:.2f} s", ratio, spread, first))
    widths = [max(len(row[column]) for row in rows if row[2]) for column in range(6)]
    widths[0] = max(len(row[0]) for row in rows)
    lines = []
    for row in rows:
        left = f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
        numbers = (f"{cell:>{width}}" for cell, width in zip(row[2:], widths[2:], strict=True))
        lines.append("  ".join([left, *numbers]).rstrip())
    return [*lines, *_best_lines(times, relative)]


def _best_lines(times: Sequence[WayTimes], relative: Mapping[str, float]) -> list[str]:
    chosen = best(times)
    if chosen is None:
        return ["no way worked"]
    first, name = next(iter(relative)), chosen.way.name
    if len(relative) == 1:
        words = f"{name} is the only way that worked"
    elif name == first:
        words = f"best: {name}; no other way is more than {round(100 * (1 - GAIN))} % faster"
    else:
        words = f"best: {name}, {relative[name]:.2f} x the time of {first}"
    return [
        words,
        f"    ddpkit launch {chosen.way.flags}",
        *(f"    ddpkit.toml: {line}" for line in chosen.way.toml.split("\n")),
    ]


def document(times: Sequence[WayTimes], facts: Mapping[str, Any], exit_code: int) -> dict[str, Any]:
    """Return the object of `--json`."""
    relative, chosen = ratios(times), best(times)
    ways = [
        {
            "name": each.way.name,
            "backend": each.way.backend,
            "flags": each.way.flags,
            "toml": each.way.toml,
            "state": each.state,
            "reason": each.reason,
            "fix": each.fix,
            "first": each.first,
            "seconds": each.seconds,
            "median": each.median,
            "ratio": relative.get(each.way.name),
            "folder": each.folder,
            "plan": each.plan,
        }
        for each in times
    ]
    return {"ok": chosen is not None, "exit_code": exit_code, **facts, "ways": ways, "best": chosen and chosen.way.name}
