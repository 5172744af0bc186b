"""Output of the collectives benchmark: a table, one JSON object, or events for the launcher."""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

from ddpkit.distributed.bench.cases import show_size
from ddpkit.distributed.bench.results import BenchFailure, Measurement, host_share
from ddpkit.distributed.check import EVENT


class Output:
    """Standard output of one rank. Two threads may use it."""

    def __init__(self, form: str) -> None:
        self.form = form  # table, json, events
        self.measurements: list[Measurement] = []
        self.failures: list[BenchFailure] = []
        self.world: dict[str, Any] = {}
        self._began = time.monotonic()
        self._lock = threading.RLock()

    def begin(self, world: dict[str, Any]) -> None:
        """Write the head; `world` has comm, world_size, nodes, torch, device."""
        self.world = world
        self._write("bench", world, f"{headline(world)}\n{table_line(None)}")

    def add_measurements(self, groups: list[Measurement]) -> None:
        """Write the measurements of groups that ran at the same time. A table shows the slowest."""
        self.measurements += groups
        shown = slowest_group(groups)
        for index, one in enumerate(groups):
            if self.form == "events" or one is shown:
                position = {"group_index": index, "groups": len(groups)}
                self._write("row", {**asdict(one), **position}, table_line(shown))

    def add_failure(self, failure: BenchFailure) -> None:
        """Write a failure at once."""
        self.failures.append(failure)
        self._write("problem", asdict(failure), f"bench: {failure}")

    def end(self) -> None:
        """Write the last line, or the JSON object."""
        share = host_share(self.measurements)
        if self.form == "table" and share:
            self._write("", {}, share)
        last = {"ok": not self.failures, "seconds": round(time.monotonic() - self._began, 3)}
        self._write("end", last, f"bench: {'ok' if last['ok'] else 'failed'} in {last['seconds']:.1f} s")
        if self.form == "json":
            results, problems = [asdict(one) for one in self.measurements], [asdict(one) for one in self.failures]
            sys.stdout.write(json.dumps({**last, **self.world, "results": results, "problems": problems}) + "\n")
            sys.stdout.flush()

    def _write(self, kind: str, fields: dict[str, Any], line: str) -> None:
        with self._lock:
            if self.form == "events":
                sys.stdout.write(EVENT + json.dumps({"e": kind, **fields}) + "\n")
            elif self.form == "table":
                sys.stdout.write(line + "\n")
            sys.stdout.flush()


def slowest_group(groups: list[Measurement]) -> Measurement:
    """Return the slowest of the groups that ran at the same time."""
    return max(groups, key=lambda one: one.seconds)


def headline(world: dict[str, Any]) -> str:
    """Describe the ranks: number, nodes, backend, device, version."""
    ranks, nodes = world["world_size"], world["nodes"]
    counts = f"{ranks} rank{'s' * (ranks > 1)} on {nodes} node{'s' * (nodes > 1)}"
    return f"{counts}, {world['comm']}, {world['device']}, torch {world['torch']}"


def table_line(one: Measurement | None) -> str:
    """Return one line of the table, or its head."""
    cells = ("scope", "collective", "type", "size", "place", "time", "algbw GB/s", "busbw GB/s", "wrong", "slowest")
    if one is not None:
        micro = one.seconds * 1e6
        spent = f"{micro:.1f} us" if micro < 1e4 else f"{micro / 1e3:.1f} ms"
        several = one.scope in ("intra", "pairs")
        slowest = f"rank {one.slowest} on {one.host}" + (f" ({one.group})" if several and one.group != one.host else "")
        place = "in" if one.in_place else "out"
        numbers = (place, spent, f"{one.algbw:.3f}", f"{one.busbw:.3f}", str(one.wrong), slowest)
        if one.note:
            numbers = (place, "-", "-", "-", "-", one.note)
        cells = (one.scope, one.op, one.dtype, show_size(one.bytes), *numbers)
    widths = (6, 14, 9, -9, -5, -10, -11, -11, -6, 0)
    shown = [f"{cells[i]:{'>' if widths[i] < 0 else '<'}{abs(widths[i])}}" for i in range(9)]
    return " ".join([*shown, " " + cells[9]]).rstrip()
