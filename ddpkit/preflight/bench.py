"""What `ddpkit bench` measures and shows, apart from the ranks that do it (`ddpkit/distributed/collectives.py`).

Pure, but for `plot`: words for the rank program out, its events in, a table, a report and a picture of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ddpkit.distributed import collectives
from ddpkit.distributed.collectives import Problem, Row
from ddpkit.errors import UsageError

KNOWN = {"ops": collectives.OPS, "dtypes": collectives.DTYPES, "scope": collectives.SCOPES}
WHAT = {"ops": "collective", "dtypes": "type", "scope": "scope"}


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is to be measured, as words of a command line; None: the rank program's default."""

    min_bytes: str | None = None
    max_bytes: str | None = None
    factor: str | None = None
    ops: str | None = None
    dtypes: str | None = None
    scope: str | None = None
    comm: str | None = None
    iters: str | None = None
    warmup: str | None = None
    seconds: str | None = None
    timeout: str | None = None
    min_busbw: str | None = None


def words(wish: Wish) -> tuple[str, ...]:
    """The rank program's command line. Raises UsageError, so that no rank has to."""
    found = []
    for entry in fields(wish):
        text = getattr(wish, entry.name)
        if text is not None:
            flag = f"--{entry.name.replace('_', '-')}"
            _check(entry.name, flag, text)
            found.append(f"{flag}={text}")
    usual = collectives.options().parse_args([])
    least, most = (
        collectives.parse_size(text) if text else usual_size
        for text, usual_size in ((wish.min_bytes, usual.min_bytes), (wish.max_bytes, usual.max_bytes))
    )
    if least > most:
        show = collectives.show_size
        raise UsageError(f"--min-bytes {show(least)} is more than --max-bytes {show(most)}", f"-e {show(least)}")
    return tuple(found)


def _check(name: str, flag: str, text: str) -> None:
    try:
        if name.endswith("_bytes"):
            collectives.parse_size(text)
        elif name in KNOWN:
            collectives.listed(text, KNOWN[name], WHAT[name])
        elif name in ("factor", "iters", "warmup"):
            if not text.isdecimal() or int(text) < (2 if name == "factor" else 0):
                raise ValueError(f"{text} is not a whole number from {2 if name == 'factor' else 0}")
        elif name == "comm":
            if text not in ("auto", "nccl", "gloo"):
                raise ValueError(f"{text!r} is none of auto, nccl, gloo")
        elif not 0 < _number(text) < (1e9 if name == "min_busbw" else 1e5):
            raise ValueError(f"{text} is not a number above 0")
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", "ddpkit bench --help") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


@dataclass(kw_only=True)
class Report:
    """All that the ranks have said so far."""

    facts: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    seconds: float = 0.0
    ended: bool = False  # rank 0 came to its end

    def hear(self, event: dict[str, Any]) -> list[str]:
        """Take one event in. Returns lines for people."""
        kind = event["e"]
        if kind == "bench":
            self.facts = {name: event[name] for name in ("comm", "world_size", "nodes", "device", "torch")}
            return [collectives.headline(self.facts), collectives.table_line(None)]
        if kind == "row":
            self.rows.append(Row(**{entry.name: event[entry.name] for entry in fields(Row)}))
            groups = self.rows[-event["groups"] :]
            return [collectives.table_line(slowest(groups))] if event["group_index"] == event["groups"] - 1 else []
        if kind == "problem":
            problem = Problem(**{entry.name: event[entry.name] for entry in fields(Problem)})
            if problem not in self.problems:  # what rank 0 is blamed for, many say
                self.problems.append(problem)
        elif kind == "end":
            self.seconds, self.ended = event["seconds"], True
        return []

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ended and not self.problems,
            "seconds": self.seconds,
            **self.facts,
            "results": [asdict(row) for row in self.rows],
            "problems": [asdict(problem) for problem in self.problems],
        }


def slowest(rows: Sequence[Row]) -> Row:
    """Of the groups that were measured at the same time, the one that people should see."""
    return max(rows, key=lambda row: row.seconds)


def best(rows: Sequence[Row]) -> list[str]:
    """The highest bandwidth of each collective in each scope, in lines; of several groups, the slowest counts."""
    lines = []
    for scope in dict.fromkeys(row.scope for row in rows):
        peaks = []
        for op in dict.fromkeys(row.op for row in rows if row.scope == scope):
            measured = [row for row in rows if (row.scope, row.op) == (scope, op) and not row.note]
            by_size: dict[tuple[str, int], Row] = {}
            for row in measured:
                key = (row.dtype, row.bytes)
                by_size[key] = slowest([row, by_size.get(key, row)])
            if by_size:
                peaks.append(f"{op} {max(row.busbw for row in by_size.values()):.3g}")
        if peaks:
            lines.append(f"best busbw, {scope}: {', '.join(peaks)} GB/s")
    return lines


def check_plot(path: str) -> None:
    """Refuse, before anything runs, what could not be drawn. Raises UsageError."""
    target = Path(path)
    if target.suffix != ".png":
        raise UsageError(f"--plot {path}: the picture is a PNG", f"--plot {target.with_suffix('.png')}")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {target.absolute().parent}", "mkdir, or another folder")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError(f"--plot needs matplotlib: {error}", "pip install 'ddpkit[plot]'") from None


def plot(report: Report, path: str) -> None:
    """Draw bandwidth and time over size, a column for each scope. Raises UsageError where it cannot be written."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed, and none is looked for
    from matplotlib import pyplot

    rows = [row for row in report.rows if not row.note]
    scopes = list(dict.fromkeys(row.scope for row in rows))
    if not rows:
        raise UsageError(f"--plot {path}: nothing was measured", "look at what failed first")
    figure, axes = pyplot.subplots(
        2, len(scopes), figsize=(1.5 + 4.5 * len(scopes), 7), squeeze=False, sharex=True, sharey="row"
    )
    shapes = ("-", "--", ":", "-.")
    dtypes = list(dict.fromkeys(row.dtype for row in rows))
    for column, scope in enumerate(scopes):
        bandwidth, latency = axes[0][column], axes[1][column]
        there = [row for row in rows if row.scope == scope]
        groups = len({row.group for row in there})
        for index, op in enumerate(collectives.OPS):
            for number, dtype in enumerate(dtypes):
                drawn = [row for row in there if (row.op, row.dtype) == (op, dtype)]
                if not drawn:
                    continue
                at = sorted({row.bytes for row in drawn})
                each = [[row for row in drawn if row.bytes == size] for size in at]
                style = {"color": f"C{index}", "linestyle": shapes[number % 4]}
                label = op if len(dtypes) == 1 else f"{op} {dtype}"
                low = [min(row.busbw for row in same) for same in each]
                bandwidth.plot(at, low, marker=".", label=label, **style)
                latency.plot(at, [1e6 * max(row.seconds for row in same) for same in each], marker=".", **style)
                if groups > 1:  # from the slowest group to the fastest
                    high = [max(row.busbw for row in same) for same in each]
                    bandwidth.fill_between(at, low, high, color=f"C{index}", alpha=0.15, linewidth=0)
        bandwidth.set_title(scope if groups == 1 else f"{scope} (slowest of {groups}; shaded: to the fastest)")
        latency.set(xscale="log", yscale="log", xlabel="size")
        latency.set_xscale("log", base=2)
        sizes = sorted({row.bytes for row in rows})
        ticks = sizes[:: -(-len(sizes) // 7)]
        latency.set_xticks(ticks, [collectives.show_size(size) for size in ticks])
        latency.minorticks_off()
        for one in (bandwidth, latency):
            one.grid(alpha=0.3)
    axes[0][0].set_ylabel("bus bandwidth, GB/s")
    axes[0][0].set_ylim(bottom=0)
    axes[1][0].set_ylabel("time, microseconds")
    axes[0][0].legend(fontsize="small")
    figure.suptitle(collectives.headline(report.facts))
    figure.tight_layout()
    try:
        figure.savefig(path, format="png", dpi=120)
    except OSError as error:
        raise UsageError(f"--plot {path}: {error.strerror}", "another file") from None
    finally:
        pyplot.close(figure)
