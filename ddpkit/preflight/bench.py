"""`ddpkit bench` on the launcher's side: arguments of the rank program, its results, and a table of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ddpkit.distributed.collectives import OPS
from ddpkit.errors import UsageError
from ddpkit.preflight.rank_program import Event, RowEvent, compose_fix

HELP = "ddpkit bench --help"
MORE = "more collectives, types and options: nccl-tests, https://github.com/NVIDIA/nccl-tests"
_UNITS = "kmgt"


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options as they were typed; None: the default."""

    min_bytes: str | None = None
    max_bytes: str | None = None
    factor: str | None = None
    ops: str | None = None
    comm: str | None = None
    timeout: str | None = None
    min_busbw: str | None = None

    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of the rank program. Raises UsageError, so that no rank has to."""
        least, most = _size("--min-bytes", self.min_bytes or "8"), _size("--max-bytes", self.max_bytes or "128M")
        if least > most:
            text = f"--min-bytes {show_size(least)} is more than --max-bytes {show_size(most)}"
            raise UsageError(text, f"-e {show_size(least)}")
        factor = self.factor or "4"
        if not factor.isdecimal() or int(factor) < 2:
            raise UsageError(f"--factor: {factor} is not an integer of at least 2", HELP)
        ops = [_one_of("--ops", name.strip(), OPS) for name in (self.ops or ",".join(OPS)).split(",")]
        comm = _one_of("--comm", self.comm or "auto", ("auto", "nccl", "gloo"))
        timeout = _positive("--timeout", self.timeout or "60")
        return comm, f"{timeout:g}", str(least), str(most), factor, ",".join(dict.fromkeys(ops))

    def least_busbw(self) -> float:
        """Return the required GB/s; 0: none are. Raises UsageError."""
        return 0.0 if self.min_busbw is None else _positive("--min-busbw", self.min_busbw)


def _one_of(flag: str, text: str, known: Sequence[str]) -> str:
    if text not in known:
        raise UsageError(f"{flag}: {text!r} is not one of {', '.join(known)}", HELP)
    return text


def _positive(flag: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise UsageError(f"{flag}: {text} is not a number greater than 0", HELP)
    return number


def _size(flag: str, text: str) -> int:
    """Return bytes: 8, 64K, 128M, 1G, in units of 1024 as in nccl-tests. Raises UsageError."""
    match = re.fullmatch(rf"(\d+)\s*([{_UNITS}]?)(i?b)?", text.strip().lower())
    if not match or int(match[1]) < 1:
        raise UsageError(f"{flag}: {text} is not a size: 8, 64K, 128M, 1G", HELP)
    return int(match[1]) << 10 * (_UNITS.index(match[2]) + 1 if match[2] else 0)


def show_size(number: int) -> str:
    """Return a size in the notation of the options."""
    for power in (3, 2, 1):
        if number % (1 << 10 * power) == 0:
            return f"{number >> 10 * power}{_UNITS[power - 1].upper()}"
    return str(number)


@dataclass(kw_only=True)
class BenchResults:
    """Results that the ranks have sent so far."""

    least_busbw: float = 0.0
    world: dict[str, Any] = field(default_factory=dict)  # comm, world_size, nodes, device, torch
    rows: list[RowEvent] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)  # rank, host, problem, fix

    def add_event(self, event: Event) -> list[str]:
        """Add an event of a rank. Returns lines for people."""
        if event["e"] == "bench":
            self.world = {name: value for name, value in event.items() if name not in ("e", "sender")}
            ranks, nodes = event["world_size"], event["nodes"]
            counts = f"{ranks} ranks on {nodes} node{'s' * (nodes > 1)}"
            return [f"{counts}, {event['comm']}, {event['device']}, torch {event['torch']}", table_line(None)]
        if event["e"] == "row":
            self.rows.append(event)
            return [table_line(event)]
        if event["e"] == "problem":
            self._fail(event["rank"], event["host"], event["problem"], compose_fix(event, {}))
        return []

    def finish(self) -> None:
        """Compare the best busbw of each collective with what is required. Small sizes measure latency."""
        for op, best in self.best().items():
            if best["busbw"] < self.least_busbw:
                reached = f"busbw {best['busbw']:.3g} GB/s at its best size, {show_size(best['bytes'])}"
                who = f"rank {best['slowest']} on {best['host']} was the slowest; each rank alone: ddpkit test --full"
                self._fail(None, "", f"{op}: {reached}; required: {self.least_busbw:g}", who)

    def _fail(self, rank: int | None, host: str, problem: str, fix: str) -> None:
        self.failures.append({"rank": rank, "host": host, "problem": problem, "fix": fix})

    def best(self) -> dict[str, RowEvent]:
        """Return the row of the highest busbw of each collective."""
        best: dict[str, RowEvent] = {}
        for row in self.rows:
            if not row["note"] and (row["op"] not in best or row["busbw"] > best[row["op"]]["busbw"]):
                best[row["op"]] = row
        return best

    def summary_lines(self) -> list[str]:
        """Return the last lines of the table."""
        peaks = ", ".join(f"{op} {row['busbw']:.3g}" for op, row in self.best().items())
        return [f"best busbw: {peaks} GB/s", MORE] if peaks else [MORE]

    def as_dict(self) -> dict[str, Any]:
        """Return the part of the object of `--json` that the ranks have sent."""
        hidden = ("e", "sender", "wrong_ranks")
        rows = [{name: value for name, value in row.items() if name not in hidden} for row in self.rows]
        return {**self.world, "results": rows, "problems": self.failures}


def table_line(row: RowEvent | None) -> str:
    """Return the line of a measurement in the table; None: the head of the table."""
    cells = ("collective", "size", "time", "algbw GB/s", "busbw GB/s", "wrong", "slowest")
    if row is not None and row["note"]:
        cells = (row["op"], show_size(row["bytes"]), "-", "-", "-", "-", row["note"])
    elif row is not None:
        micro = row["seconds"] * 1e6
        spent = f"{micro:.1f} us" if micro < 1e4 else f"{micro / 1e3:.1f} ms"
        speeds = f"{row['algbw']:.3f}", f"{row['busbw']:.3f}"
        slowest = f"rank {row['slowest']} on {row['host']}"
        cells = (row["op"], show_size(row["bytes"]), spent, *speeds, str(row["wrong"]), slowest)
    widths = (6, 10, 11, 11, 6)
    numbers = " ".join(f"{cell:>{width}}" for cell, width in zip(cells[1:6], widths, strict=True))
    return f"{cells[0]:<14} {numbers}  {cells[6]}"
