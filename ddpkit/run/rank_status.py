"""Status of single ranks, from the two samples in `status.json` that the launcher writes every few seconds.

Under SLURM there are none: the job's output, or the launcher's timeline, shows starts and ends. Two samples show in one
read which rank uses no processor, which writes nothing, and which differs from the others.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ddpkit.files import read_bounded
from ddpkit.launchers import typed_json
from ddpkit.run import timeline
from ddpkit.run.heartbeat import StatusFile
from ddpkit.run.late_start import describe_late_start
from ddpkit.run.record import Run
from ddpkit.run.state import RunState
from ddpkit.run.status import RunStatus, age, command
from ddpkit.text import format_ranks

MOST_BYTES = 1 << 26  # of the file
QUIET = 30.0  # seconds without a line, after which a rank that uses no processor waits
BUSY = 0.02  # of a processor: below it a rank does nothing
STALE = 30.0  # seconds after which a sample is too old to be believed

_STATES = {
    "R": "runs",
    "S": "sleeps",
    "I": "sleeps",
    "D": "waits for a disk",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended",
    "X": "ended",
}


@dataclass(frozen=True, kw_only=True)
class RankStatus:
    """Status of one rank."""

    rank: int
    host: str
    pid: int | None
    state: str  # as in /proc/PID/stat; empty where it is not known
    words: str
    cpu: float | None  # processors used between the two looks
    rss: int | None  # bytes
    quiet: float | None  # seconds since its last line
    idle: float  # seconds for which it surely did nothing; 0 for one that works
    odd: bool  # its state keeps it from any progress
    over: bool  # it has ended


@dataclass(frozen=True, kw_only=True)
class RankSample:
    """All ranks, as `status.json` shows them."""

    age: float  # seconds
    ranks: tuple[RankStatus, ...]
    silent: dict[str, float]  # hosts whose last sign of life is too old, and its age in seconds
    late_start: tuple[str, ...] = ()  # see `describe_late_start`
    source: str = ""  # of ranks without a sample
    lines: dict[int, str] = field(default_factory=dict)  # the last one of each of these


def read_ranks(run: Run) -> RankSample | None:
    """Read the ranks: their last sample, else their starts and ends; None where there is nothing to read."""
    sample = _last_sample(run)
    return sample if sample is not None and sample.ranks else _of_job(run) or _of_timeline(run) or sample


def _of_job(run: Run) -> RankSample | None:
    """Read the ranks in the output of a job."""
    if run.job is None or run.job.many:
        return None
    from ddpkit.run.postmortem import job_ranks

    job = job_ranks(run)
    if job is None or not job.hosts:
        return None
    ranks = (
        _started(rank, job.hosts.get(rank, ""), job.pids.get(rank), *job.ends.get(rank, (None, None)))
        for rank in range(run.world_size)
    )
    return RankSample(age=0.0, ranks=tuple(ranks), silent={}, source="the job's output", lines=job.lines)


def _of_timeline(run: Run) -> RankSample | None:
    """Read the ranks of a step: the launcher wrote when they started."""
    known = (timeline.read(Path(run.folder)) or {}).get("ranks", {})
    if not known:
        return None
    hosts = {int(rank): str(entry["host"]) for rank, entry in known.items()}
    ranks = (_started(rank, hosts.get(rank, ""), None, None, None) for rank in range(run.world_size))
    try:
        age = max(0.0, time.time() - Path(run.folder, timeline.TIMELINE).stat().st_mtime)
    except OSError:
        return None
    return RankSample(age=age, ranks=tuple(ranks), silent={}, source="its timeline")


def _started(rank: int, host: str, pid: int | None, code: int | None, killer: int | None) -> RankStatus:
    over = code is not None or killer is not None
    return RankStatus(
        rank=rank,
        host=host,
        pid=pid,
        state="",
        words=_end(code, killer) if over else "started" if host else "no start reported yet",
        cpu=None,
        rss=None,
        quiet=None,
        idle=0.0,
        odd=False,
        over=over,
    )


def _end(code: int | None, killer: int | None) -> str:
    return f"ended: exit code {code}" if killer is None else f"ended: signal {_signal(killer)}"


def _last_sample(run: Run) -> RankSample | None:
    """Read the ranks as the launcher last wrote them; None where there is nothing to read."""
    try:
        data = read_bounded(Path(run.folder) / "status.json", MOST_BYTES)
        content = typed_json.read(StatusFile, typed_json.parse(data))
        then = content["t"]
        rows = list(_rows(content, run, then))
        silent = {host: then - node["t"] for host, node in content["hosts"].items() if then - node["t"] > STALE}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    # Clocks of hosts differ a little: an age is never below zero.
    return RankSample(
        age=max(0.0, time.time() - then),
        ranks=tuple(sorted(rows, key=lambda row: row.rank)),
        silent=silent,
        late_start=tuple(describe_late_start((timeline.read(Path(run.folder)) or {}).get("ranks", {}), time.time())),
    )


def _rows(content: StatusFile, run: Run, then: float) -> Iterator[RankStatus]:
    for host, node in content["hosts"].items():
        before = content.get("prev", {}).get(host)
        span = node["t"] - before["t"] if before else 0.0
        for number, entry in node["ranks"].items():
            old = before["ranks"].get(number) if before else None
            cpu = None
            if span > 0 and old and old["pid"] == entry["pid"]:
                cpu = max(0.0, (entry["cpu"] - old["cpu"]) / span)
            code, killer, state = entry["code"], entry["signal"], entry["state"]
            over = code is not None or killer is not None or state in ("Z", "X")
            blocked = state == "D" and old is not None and old["state"] == "D" and cpu is not None and cpu < BUSY
            last = entry["out"]
            quiet = max(0.0, then - (run.started if last is None else last))
            idle = quiet if cpu is not None and cpu < BUSY and quiet >= QUIET and not over else 0.0
            if code is not None or killer is not None:
                words = _end(code, killer)
            else:
                words = "waits" if idle and state in ("S", "I") else _STATES.get(state, state or "not known")
            yield RankStatus(
                rank=int(number),
                host=host,
                pid=entry["pid"],
                state=state,
                words=words,
                cpu=cpu,
                rss=entry["rss"],
                quiet=None if last is None else quiet,
                idle=idle,
                odd=state in ("T", "t") or blocked,
                over=over,
            )


def _signal(number: int) -> str:
    return f"{number} ({signal.Signals(number).name})" if number in set(signal.Signals) else str(number)


def describe_oddities(now: RunStatus, sample: RankSample) -> list[str]:
    """Return a sentence for each oddity, the cause before its consequences."""
    lines = list(sample.late_start)
    if sample.age > STALE and now.state is RunState.RUNNING:
        lines.append(f"the last check of the ranks is {age(sample.age)} old")
    for host, silent in sample.silent.items():
        lines.append(f"last message of {host} {age(silent)} before: ping {host}")
    living = [rank for rank in sample.ranks if not rank.over]
    odd = [rank for rank in living if rank.odd]
    lines += [_CAUSES[rank.state](rank) for rank in odd]
    lines += [
        f"rank {rank.rank} on {rank.host} {rank.words.replace(':', ' with', 1)}, and {len(living)} others continue"
        for rank in sample.ranks
        if rank.over and living
    ]
    waiting = [rank for rank in living if rank.idle and not rank.odd]
    working = [rank for rank in living if not rank.idle and not rank.odd]
    if not waiting:
        return lines
    least = min(rank.idle for rank in waiting)
    calm = f"no CPU time, and no output for {age(least)} or more"
    look_at = command("dump", now.run)
    if not working and not odd:
        one = waiting[0]
        who = f"all {len(waiting)} ranks wait" if len(waiting) > 1 else f"rank {one.rank} on {one.host} waits"
        lines.append(f"{who}: {calm}; for the stacks: {look_at}")
    elif len(waiting) > len(working):
        who = ", ".join(f"rank {rank.rank} on {rank.host}" for rank in [*odd, *working][:4])
        these = f"{len(waiting)} of {_count(len(living))} wait ({format_ranks(rank.rank for rank in waiting)})"
        lines.append(f"{these}: {calm}; not waiting: {who}; for its stack: {look_at}")
    else:
        for rank in waiting[:4]:
            lines.append(
                f"rank {rank.rank} on {rank.host} waits while {len(working)} others are busy: "
                f"{calm}; for its stack: {look_at}"
            )
    return lines


_CAUSES: dict[str, Callable[[RankStatus], str]] = {
    "T": lambda rank: (
        f"rank {rank.rank} on {rank.host} makes no progress: it is stopped (SIGSTOP); "
        f"to continue it: kill -CONT {rank.pid} on {rank.host}"
    ),
    "t": lambda rank: (
        f"rank {rank.rank} on {rank.host} makes no progress: a debugger or tracer has stopped it; "
        f"to find it: grep TracerPid /proc/{rank.pid}/status on {rank.host}"
    ),
    "D": lambda rank: (
        f"rank {rank.rank} on {rank.host} waits for a disk, a network file system or a driver (state D); "
        f"on {rank.host}: cat /proc/{rank.pid}/stack, dmesg -T | tail"
    ),
}


def _count(number: int) -> str:
    return f"{number} rank{'s' if number != 1 else ''}"
