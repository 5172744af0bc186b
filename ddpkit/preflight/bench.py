"""`ddpkit bench` on the launcher's side: arguments of the rank program, its results, a table and a plot of them.

Pure, but for `plot`.
"""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ddpkit.distributed.bench.cases import DTYPES, OPS, SCOPES, parse_names, parse_size, show_size
from ddpkit.distributed.bench.output import headline, slowest_group, table_line
from ddpkit.distributed.bench.results import BenchFailure, Measurement, host_share
from ddpkit.distributed.collectives import bench_parser
from ddpkit.errors import UsageError
from ddpkit.node.owned import create_file
from ddpkit.preflight.program_events import Event

KNOWN_NAMES = {"ops": ("collective", OPS), "dtypes": ("type", DTYPES), "scope": ("scope", SCOPES)}


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options of the rank program as texts; None: its default."""

    min_bytes: str | None = None
    max_bytes: str | None = None
    factor: str | None = None
    ops: str | None = None
    dtypes: str | None = None
    in_place: bool = False
    scope: str | None = None
    comm: str | None = None
    iters: str | None = None
    warmup: str | None = None
    seconds: str | None = None
    timeout: str | None = None
    min_busbw: str | None = None


def bench_arguments(options: BenchOptions) -> tuple[str, ...]:
    """Return the rank program's arguments. Raises UsageError, so that no rank has to."""
    arguments = []
    for entry in fields(options):
        text = getattr(options, entry.name)
        flag = f"--{entry.name.replace('_', '-')}"
        if text is True:
            arguments.append(flag)
        elif text is not None and text is not False:
            _check_option(entry.name, flag, text)
            arguments.append(f"{flag}={text}")
    default = bench_parser().parse_args([])
    least = parse_size(options.min_bytes) if options.min_bytes else default.min_bytes
    most = parse_size(options.max_bytes) if options.max_bytes else default.max_bytes
    if least > most:
        text = f"--min-bytes {show_size(least)} is more than --max-bytes {show_size(most)}"
        raise UsageError(text, f"-e {show_size(least)}")
    return tuple(arguments)


def _check_option(name: str, flag: str, text: str) -> None:
    try:
        if name.endswith("_bytes"):
            parse_size(text)
        elif name in KNOWN_NAMES:
            kind, names = KNOWN_NAMES[name]
            parse_names(text, names, kind)
        elif name in ("factor", "iters", "warmup"):
            if not text.isdecimal() or int(text) < (2 if name == "factor" else 0):
                raise ValueError(f"{text} is not an integer of at least {2 if name == 'factor' else 0}")
        elif name == "comm":
            if text not in ("auto", "nccl", "gloo"):
                raise ValueError(f"{text!r} is not one of auto, nccl, gloo")
        elif not 0 < _number(text) < (1e9 if name == "min_busbw" else 1e5):
            raise ValueError(f"{text} is not a number greater than 0")
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", "ddpkit bench --help") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _fields_of(kind: type[Measurement] | type[BenchFailure], event: Mapping[str, object]) -> dict[str, Any]:
    """Select the keys of an event that are fields of a class."""
    return {entry.name: event[entry.name] for entry in fields(kind)}


@dataclass(kw_only=True)
class BenchResults:
    """Results that the ranks have sent so far."""

    world: dict[str, Any] = field(default_factory=dict)  # comm, world_size, nodes, device, torch
    measurements: list[Measurement] = field(default_factory=list)
    failures: list[BenchFailure] = field(default_factory=list)
    seconds: float = 0.0
    ended: bool = False  # rank 0 sent its last event

    def add_event(self, event: Event) -> list[str]:
        """Add an event of a rank. Returns lines for people."""
        if event["e"] == "bench":
            self.world = {
                "comm": event["comm"],
                "world_size": event["world_size"],
                "nodes": event["nodes"],
                "device": event["device"],
                "torch": event["torch"],
            }
            return [headline(self.world), table_line(None)]
        if event["e"] == "row":
            self.measurements.append(Measurement(**_fields_of(Measurement, event)))
            groups = self.measurements[-event["groups"] :]
            return [table_line(slowest_group(groups))] if event["group_index"] == event["groups"] - 1 else []
        if event["e"] == "problem":
            failure = BenchFailure(**_fields_of(BenchFailure, event))
            if failure not in self.failures:  # many ranks report a failure of rank 0
                self.failures.append(failure)
        elif event["e"] == "end":
            self.seconds, self.ended = event["seconds"], True
        return []

    def as_dict(self) -> dict[str, Any]:
        """Return the object of `--json`."""
        return {
            "ok": self.ended and not self.failures,
            "seconds": self.seconds,
            **self.world,
            "results": [asdict(one) for one in self.measurements],
            "problems": [asdict(one) for one in self.failures],
        }


def summary_lines(measurements: Sequence[Measurement]) -> list[str]:
    """Return the highest bandwidth of each collective per scope, and the time of Python. The slowest group counts."""
    lines = []
    for scope in dict.fromkeys(one.scope for one in measurements):
        peaks = []
        for op in dict.fromkeys(one.op for one in measurements if one.scope == scope):
            by_size: dict[tuple[str, int], list[Measurement]] = {}
            for one in measurements:
                if (one.scope, one.op) == (scope, op) and not one.note:
                    by_size.setdefault((one.dtype, one.bytes), []).append(one)
            if by_size:
                peaks.append(f"{op} {max(slowest_group(groups).busbw for groups in by_size.values()):.3g}")
        if peaks:
            lines.append(f"best busbw, {scope}: {', '.join(peaks)} GB/s")
    return [*lines, *filter(None, [host_share(measurements)])]


def check_plot(path: str) -> None:
    """Check before the run that a plot can be drawn. Raises UsageError."""
    target = Path(path)
    if target.suffix != ".png":
        raise UsageError(
            f"--plot {path}: the file name must end in .png", f"--plot {shlex.quote(str(target.with_suffix('.png')))}"
        )
    if not target.absolute().parent.is_dir():
        raise UsageError(
            f"--plot {path}: directory not found: {target.absolute().parent}",
            f"mkdir -p {shlex.quote(str(target.absolute().parent))}",
        )
    if os.path.lexists(target):
        raise UsageError(f"--plot {path}: the file exists", "--plot FILE.png, a new file")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError(f"--plot requires matplotlib: {error}", "pip install 'ddpkit[plot]'") from None


def plot(results: BenchResults, path: str) -> None:
    """Draw bandwidth and time over size, a column for each scope. Raises UsageError where it cannot be written."""
    import matplotlib

    matplotlib.use("Agg")  # needs no display
    from matplotlib import pyplot

    measurements = [one for one in results.measurements if not one.note]
    scopes = list(dict.fromkeys(one.scope for one in measurements))
    if not measurements:
        raise UsageError(f"--plot {path}: nothing was measured", "fix the first failure above")
    figure, axes = pyplot.subplots(
        2, len(scopes), figsize=(1.5 + 4.5 * len(scopes), 7), squeeze=False, sharex=True, sharey="row"
    )
    sizes = sorted({one.bytes for one in measurements})
    ticks = sizes[:: -(-len(sizes) // 7)]
    for column, scope in enumerate(scopes):
        bandwidth, latency = axes[0][column], axes[1][column]
        groups = _draw_scope(bandwidth, latency, [one for one in measurements if one.scope == scope])
        bandwidth.set_title(scope if groups == 1 else f"{scope} (slowest of {groups}; shaded: to the fastest)")
        latency.set(xscale="log", yscale="log", xlabel="size")
        latency.set_xscale("log", base=2)
        latency.set_xticks(ticks, [show_size(size) for size in ticks])
        latency.minorticks_off()
        for one in (bandwidth, latency):
            one.grid(alpha=0.3)
    axes[0][0].set_ylabel("bus bandwidth, GB/s")
    axes[0][0].set_ylim(bottom=0)
    axes[1][0].set_ylabel("time, microseconds")
    axes[0][0].legend(fontsize="small")
    figure.suptitle(headline(results.world))
    figure.tight_layout()
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    pyplot.close(figure)
    try:
        create_file(path, picture.getvalue(), 0o644)
    except OSError as error:
        raise UsageError(f"--plot {path}: {error.strerror}", "choose another file") from None


def _draw_scope(bandwidth: Any, latency: Any, measurements: list[Measurement]) -> int:
    """Draw the measurements of one scope on two axes. Returns the number of its groups."""
    groups = len({one.group for one in measurements})
    dtypes = list(dict.fromkeys(one.dtype for one in measurements))
    for index, op in enumerate(OPS):
        for number, dtype in enumerate(dtypes):
            drawn = [one for one in measurements if (one.op, one.dtype) == (op, dtype)]
            if not drawn:
                continue
            sizes = sorted({one.bytes for one in drawn})
            by_size = [[one for one in drawn if one.bytes == size] for size in sizes]
            style = {"color": f"C{index}", "linestyle": ("-", "--", ":", "-.")[number % 4]}
            label = op if len(dtypes) == 1 else f"{op} {dtype}"
            low = [min(one.busbw for one in same) for same in by_size]
            bandwidth.plot(sizes, low, marker=".", label=label, **style)
            latency.plot(sizes, [1e6 * max(one.seconds for one in same) for same in by_size], marker=".", **style)
            if groups > 1:  # from the slowest group to the fastest
                high = [max(one.busbw for one in same) for same in by_size]
                bandwidth.fill_between(sizes, low, high, color=f"C{index}", alpha=0.15, linewidth=0)
    return groups
