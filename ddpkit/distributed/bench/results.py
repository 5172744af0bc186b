"""Results of the collectives benchmark: measurements, and failures with the rank that caused them. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddpkit.distributed.bench.cases import Case, Group, bus_factor, dtype_bytes, element_count, show_size
from ddpkit.distributed.check import error_fix

if TYPE_CHECKING:
    # Of one rank: seconds of one round, number of wrong elements, seconds of the host for a call.
    Timing = Sequence[Any]


@dataclass(frozen=True)
class BenchFailure:
    """A failure with its fix. `rank` is None where no single rank caused it."""

    rank: int | None
    host: str
    problem: str
    fix: str

    def __str__(self) -> str:
        subject = "" if self.rank is None else f"rank {self.rank}{' on ' * bool(self.host)}{self.host}: "
        return f"FAILED: {subject}{self.problem}; hint: {self.fix}"


@dataclass(frozen=True)
class Measurement:
    """One collective of one size in one group. Bandwidths are GB/s (10^9 bytes); seconds are those of one round."""

    scope: str
    group: str
    ranks: int
    op: str
    dtype: str
    bytes: int
    rounds: int
    seconds: float  # of the slowest rank
    seconds_min: float
    seconds_avg: float
    algbw: float
    busbw: float
    wrong: int  # elements, over all ranks
    slowest: int  # rank
    host: str  # of the slowest rank
    note: str = ""  # why it was not measured
    in_place: bool = False  # one array is input and output
    host_seconds: float = 0.0  # of Python and torch until a call is queued, of the slowest rank; 0: not measured


def measure_group(
    case: Case,
    group: Group,
    rounds: int,
    timings: Mapping[int, Timing],
    hosts: Sequence[str],
    note: str = "",
    *,
    in_place: bool = False,
) -> Measurement:
    """Return the measurement of one group from the timings of its ranks."""
    scope, op, dtype, size = case
    count, width = len(group.ranks), dtype_bytes(dtype)
    times = [timings[rank][0] for rank in group.ranks]
    wrong = sum(timings[rank][1] for rank in group.ranks)
    slowest = group.ranks[times.index(max(times))]
    moved = element_count(op, size, count, width) * width
    spread = (max(times), min(times), sum(times) / count)
    algbw = moved / max(times) / 1e9
    speed = (algbw, algbw * bus_factor(op, count))
    about = (scope.name, group.name, count, op, dtype, moved, rounds)
    host_seconds = max(timings[rank][2] for rank in group.ranks)
    return Measurement(*about, *spread, *speed, wrong, slowest, hosts[slowest], note, in_place, host_seconds)


def host_share(measurements: Sequence[Measurement]) -> str:
    """Return a line with the time of Python and torch in each collective, which nccl-tests does not have."""
    parts = []
    for op in dict.fromkeys(one.op for one in measurements):
        timed = [one for one in measurements if one.op == op and one.host_seconds]
        if timed:
            most = max((one.bytes for one in timed if 2 * one.host_seconds > one.seconds), default=0)
            half = f" (over half of the time up to {show_size(most)})" if most else ""
            usual = statistics.median(one.host_seconds for one in timed) * 1e6
            parts.append(f"{op} {usual:{'.2g' if usual < 10 else '.0f'}} us{half}")
    return f"Python and torch, per call: {', '.join(parts)}" if parts else ""


def find_wrong_results(case: Case, timings: Mapping[int, Timing], hosts: Sequence[str]) -> list[BenchFailure]:
    """Return a failure for each rank that received wrong elements."""
    fix = "repeat with --scope intra, then inter; then check GPU, memory and network card (dmesg, nvidia-smi -q)"
    return [
        BenchFailure(rank, hosts[rank], f"wrong result: {wrong} elements of {case}", fix)
        for rank, (_, wrong, _) in sorted(timings.items())
        if wrong
    ]


def find_slow_groups(measurements: Sequence[Measurement], least: float) -> list[BenchFailure]:
    """Return a failure for each group below `least` GB/s at all sizes. Small sizes measure latency."""
    best: dict[tuple[str, str, str, str], Measurement] = {}
    for one in measurements:
        key = (one.scope, one.group, one.op, one.dtype)
        if not one.note and (key not in best or one.busbw > best[key].busbw):
            best[key] = one
    failures = []
    for one in best.values():
        if one.busbw < least:
            subject = f"{one.op} ({one.scope}: {one.group}, {one.ranks} ranks, {one.dtype})"
            reached = f"busbw {one.busbw:.3g} GB/s at its best size, {show_size(one.bytes)}; required: {least:g}"
            fix = f"rank {one.slowest} on {one.host} was the slowest; compare with --scope intra,inter,pairs"
            failures.append(BenchFailure(None, one.host, f"{subject}: {reached}", fix))
    return failures


def blame_ranks(
    states: Mapping[int, dict[str, Any]], hosts: Sequence[str], comm: str, advice: str
) -> list[BenchFailure]:
    """Return the failures that ended the benchmark, from the ranks' states. A rank without a state died or hangs."""
    doing = next((state["where"] for state in states.values() if state["where"]), "the start")
    silent = [rank for rank in range(len(hosts)) if rank not in states]
    if silent:
        fix = "read its last lines; if it was killed, read dmesg on that node; if it hangs, use py-spy dump"
        return [BenchFailure(rank, hosts[rank], f"ended, or hangs, near {doing}", fix) for rank in silent]
    failed = {rank: state for rank, state in states.items() if state["error"]}
    if failed:
        problems = {rank: f"{state['where']}: {state['error']}" for rank, state in failed.items()}
        return [
            BenchFailure(r, hosts[r], text, "--max-bytes 16M" if "memory" in text else error_fix(text, advice))
            for r, text in problems.items()
        ]
    if all(state["ended"] for state in states.values()):
        return []  # all received SIGTERM: a person's Ctrl-C, and no failure
    last_step = min(state["step"] for state in states.values())
    late = [rank for rank, state in states.items() if state["step"] == last_step]
    if len(late) == len(states):  # all are in the same step: a rank outside of torch does not wait for others
        late = [rank for rank, state in states.items() if state["inside"] and not state["torch"]]
    if late and len(late) < len(states):
        return [
            BenchFailure(
                rank,
                hosts[rank],
                f"hangs for {states[rank]['seconds']:.0f} s in {states[rank]['at']}, near {states[rank]['where']}",
                "the other ranks wait for it; check that line",
            )
            for rank in late
        ]
    seconds = max(state["seconds"] for state in states.values())
    return [BenchFailure(None, "", f"{comm}: all ranks wait, for {seconds:.0f} s, in {doing}", advice)]
