"""Ranks whose process group does not start, from their marks: who waits, for how long, and who is missing. Pure.

NCCL's start has no limit of its own, and a rank that waits in it prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ddpkit.run.timeline import RankTimeline
from ddpkit.text import format_ranks

BOUND = 60.0  # seconds in the rendezvous, or in the start of the process group, before it is reported
SHOWN = 4  # ranks with their hosts
# Each mark of `ddpkit/node/rank_events.py` (`--observe start`) with the step that follows it.
STEPS = {
    "start": "start of Python",
    "python": "script before import torch",
    "import": "import torch",
    "imported": "script before the rendezvous",
    "cuda": "script before the rendezvous",
    "meet": "rendezvous",
    "connect": "start of the process group (NCCL, gloo)",
    "group": "script before DistributedDataParallel",
    "wrap": "first collective (NCCL may start in it)",
}


def describe_late_start(ranks: Mapping[str, RankTimeline], now: float, bound: float = BOUND) -> list[str]:
    """Return a sentence where ranks wait for longer than `bound` seconds, else nothing. `now`: as the marks."""
    marks = {int(rank): known["marks"] for rank, known in ranks.items() if "end" not in known["marks"]}
    hosts = {int(rank): known["host"] for rank, known in ranks.items()}
    outside_view = not any("python" in own for own in marks.values())  # by `ddpkit/node/rank_start.py`
    for mark, end in (("wrap", "collective"), ("connect", "group"), ("meet", "group")):
        outside = {rank: own for rank, own in marks.items() if not {end, "step", "past"} & own.keys()}
        since = {rank: now - own[mark] for rank, own in outside.items() if mark in own}
        if not since or max(since.values()) < bound:
            continue
        words = f"{_who(since, hosts)} in the {STEPS[mark]} for {max(since.values()):.0f} s"
        missing = {rank: own for rank, own in outside.items() if mark not in own}
        absent = [
            f"{_who([rank], hosts)} in: {_step(missing[rank], outside=outside_view)}"
            for rank in sorted(missing)[:SHOWN]
        ]
        absent += [f"{len(missing) - SHOWN} more"] if len(missing) > SHOWN else []
        through = len(marks) - len(outside)
        others = [f"not there: {'; '.join(absent)}"] if absent else []
        others += [f"{through} other{'s are' if through > 1 else ' is'} through"] if through else []
        return ["; ".join([words, *others])]
    return []


def _step(marks: Mapping[str, float], *, outside: bool) -> str:
    if outside:
        return "script before the rendezvous" if "import" in marks else "script before import torch"
    return next(STEPS[name] for name in reversed(STEPS) if name in {"start", *marks})


def _who(ranks: Iterable[int], hosts: Mapping[int, str]) -> str:
    known = sorted(ranks)
    if len(known) > SHOWN:
        return format_ranks(known)
    return ", ".join(f"rank {rank} on {hosts[rank]}" if hosts[rank] else f"rank {rank}" for rank in known)
