"""Which rank the others wait for, from looks at all ranks during some seconds. Pure.

In a group of processes the rank that waits least for others is the one for which they wait. This holds for any
strategy: data, tensor and pipeline parallelism. A rank waits

* where its main thread is inside torch.distributed, at one look of many; or
* from the moment at which it begins a collective until the last rank of its group begins it. torch's Flight Recorder
  has these moments, for gloo; of NCCL it has how long each collective took, with TORCH_NCCL_ENABLE_TIMING=1. Send and
  recv have no such record, so that a run with both is judged by looks alone: at the end of a step the stages of a
  pipeline meet in an order that says nothing of their speed.

`find` returns a `Slowness`, which `ddpkit status --slow --json` prints.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from ddpkit.run.slow_rank import SlowRank
from ddpkit.text import format_ranks

WATCHED = 15.0  # seconds of a look
COLLECTIVES = 400_000  # of all ranks together, that nodes report
LEAST = 0.05  # of the time that the others lose: less is not named
CERTAIN = 4.0  # standard errors of a slow rank's distance to the others
MOST_PARTS = 64
FEW = 5  # looks of a part below which it does not count
SHOWN = 3  # places of a slow rank

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a rank works: how much of its looks, and the line of its script."""

    share: float
    spot: str  # FILE:LINE (FUNCTION)


@dataclass(frozen=True, kw_only=True)
class Collective:
    group: str  # name, backend and members
    number: int
    begun: float  # seconds, by the launcher's clock
    seconds: float | None  # that it took, where torch times it


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What one rank saw of itself."""

    rank: int
    host: str
    began: float  # seconds, by the launcher's clock
    looks: tuple[int, ...]  # in each part of the time
    waited: tuple[int, ...]  # looks of them at which it waited
    places: tuple[Place, ...]
    collectives: tuple[Collective, ...]
    sends: bool  # or receives: what its backend does not record
    cut: bool  # it began more collectives before these


@dataclass(frozen=True, kw_only=True)
class SlowRanks:
    """Ranks for which the others wait; several where a whole node is slow."""

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    lost: float  # of the time, by the others
    waits: float  # of the time, by themselves
    last: int | None  # collectives in which one of them came last; None: not known
    of: int | None  # collectives that were compared
    places: tuple[Place, ...]  # where the first one is more often than the others


@dataclass(frozen=True, kw_only=True)
class Slowness:
    seconds: float  # of the looks
    waits: Mapping[int, float]  # of the time, by rank
    slow: SlowRanks | None
    blind: Mapping[int, str]  # ranks that could not be looked at, and why


def describe(found: Slowness) -> list[str]:
    """Return a sentence for people, and what may be the cause below it."""
    slow = found.slow
    if slow is None:
        return [f"no rank is slower than the others (a difference of {100 * LEAST:.0f} % of the time would be named)"]
    who = f"{format_ranks(slow.ranks)} on {', '.join(slow.hosts)} {'is' if len(slow.ranks) == 1 else 'are'} slow"
    lines = [f"{who}: the others lose {100 * slow.lost:.0f} % of the time, {slow.lost:.2f} s of each second"]
    if slow.last is not None:
        lines.append(f"came last in {slow.last} of {slow.of} collectives")
    lines += [f"more than the others in {place.spot}: {100 * place.share:.0f} % of its time" for place in slow.places]
    return lines


def most_collectives(ranks: int) -> int:
    """Return how many collectives each of so many ranks reports."""
    return max(20, min(2000, COLLECTIVES // max(1, ranks)))


def to_keep(found: Slowness, at: float) -> SlowRank:
    """Return what stays in the run's directory. `at`: seconds since the epoch."""
    ranks = found.slow.ranks if found.slow else ()
    return SlowRank(at=at, ranks=ranks, words="; ".join(describe(found)))


def document(run_id: str, found: Slowness, beside: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what `--json` prints. `beside`: findings about resources of these ranks."""
    return {
        "run_id": run_id,
        "seconds": found.seconds,
        "waits": {str(rank): share for rank, share in found.waits.items()},
        "slow": asdict(found.slow) if found.slow else None,
        "blind": {str(rank): why for rank, why in found.blind.items()},
        "findings": [dict(each) for each in beside],
    }


def find(sample: Mapping[str, Any], seconds: float) -> Slowness:
    """Judge one sample of all nodes, as `MonitorServer` writes it. Raises ValueError where a node sent nonsense."""
    clocks: Mapping[str, float] = sample.get("ahead", {})  # by host: seconds that its clock is ahead of the launcher's
    try:
        watched, blind = read(sample, clocks)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(f"a node sent an invalid answer: {error!r}") from None
    watched = aligned(watched, compared=clocks)
    shares = waiting(watched, seconds)
    waits = {rank: round(statistics.fmean(parts), 3) for rank, parts in shares.items() if parts}
    chosen = choose(shares)
    slow = _facts_of(chosen, shares, watched) if chosen else None
    return Slowness(seconds=seconds, waits=waits, slow=slow, blind=blind)


def read(sample: Mapping[str, Any], clocks: Mapping[str, float]) -> tuple[list[Watched], dict[int, str]]:
    """Return what each rank saw of itself, by the launcher's clock; and for each other rank why it saw nothing."""
    watched, blind = [], {}
    for host, ranks in sample["silent"].items():
        blind.update(dict.fromkeys(ranks, f"{host} did not answer"))
    for node in sample["hosts"]:
        host = str(node["host"])
        ahead = float(clocks.get(host, 0.0))
        for rank, answer in (node.get("waits") or {}).items():  # of `rank_waits.sample`
            if answer["why"]:
                blind[int(rank)] = str(answer["why"])
            else:
                watched.append(_read_rank(int(rank), host, answer, ahead))
    return sorted(watched, key=lambda one: one.rank), blind


def _read_rank(rank: int, host: str, answer: Mapping[str, Any], ahead: float) -> Watched:
    looks = tuple(int(number) for number in answer["looks"])[:MOST_PARTS]
    total = sum(looks) or 1
    return Watched(
        rank=rank,
        host=host,
        began=float(answer["began"]) - ahead,
        looks=looks,
        waited=tuple(int(number) for number in answer["waited"])[:MOST_PARTS],
        places=tuple(Place(share=round(number / total, 3), spot=spot) for spot, number in _count_places(answer)),
        collectives=tuple(_read_collectives(answer, ahead)),
        sends=bool(answer["sends"]),
        cut=bool(answer["cut"]),
    )


def _count_places(answer: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return lines of the script, else those inside a library, with how many looks found the rank there."""
    places: Counter[str] = Counter()
    for number, inner, script in answer["places"]:
        file, line, function = script or inner
        places[f"{file}:{int(line)} ({function})"] += int(number)
    return places.most_common()


def _read_collectives(answer: Mapping[str, Any], ahead: float) -> Iterator[Collective]:
    members = answer["groups"]  # by the number of the group
    for group, number, begun, milliseconds in answer["collectives"]:
        yield Collective(
            group=f"{group} {members.get(str(group).partition(':')[0], '')}",
            number=int(number),
            begun=float(begun) - ahead,
            seconds=None if milliseconds is None else float(milliseconds) / 1000,
        )


# ---- how much each rank waits


def waiting(watched: Sequence[Watched], seconds: float) -> dict[int, list[float]]:
    """Return for each rank the share of each part of the time in which it waited for others: by looks, or records.

    `seconds` is all of the time. There are no parts where some rank was hardly looked at.
    """
    count = min((min(len(one.looks), len(one.waited)) for one in watched), default=0)
    parts = [*range(count)] if all(max(one.looks, default=0) >= FEW for one in watched) else []
    if not count or any(one.sends for one in watched):  # records tell too little
        return {one.rank: [_by_looks(one, part) for part in parts] for one in watched}
    length = seconds / count
    complete_from = max((one.collectives[0].begun for one in watched if one.cut and one.collectives), default=0.0)
    began = min(one.began for one in watched)
    parts = [part for part in parts if began + part * length >= complete_from]
    meetings = _meetings(watched)
    shares = {}
    for one in watched:
        waits = _waits(one, meetings)
        shares[one.rank] = [
            max(_by_looks(one, part), _covered_share(waits, one.began + part * length, length)) for part in parts
        ]
    return shares


def _by_looks(one: Watched, part: int) -> float:
    """Return the share of a part in which a rank was seen to wait.

    Looks that are missing beside other parts are no waits: the rank was stopped, or its code let no other thread run.
    """
    return min(1.0, one.waited[part] / max(one.looks))


def _covered_share(intervals: Sequence[Interval], begin: float, length: float) -> float:
    """Return the share of a span of time that lies in one of the intervals, which do not overlap."""
    inside = sum(max(0.0, min(end, begin + length) - max(start, begin)) for start, end in intervals)
    return min(1.0, inside / length)


def aligned(watched: Sequence[Watched], compared: Mapping[str, object]) -> list[Watched]:
    """Move the times of hosts whose clocks are not compared, so that none is late in every collective.

    Ranks that have just waited for each other begin the next collective at the same time, if there is little to do
    between the two. A clock that differs makes a host late in those as well: as late as it is in the quarter of all in
    which it is least late. `compared`: hosts with compared clocks.
    """
    hosts = {one.host for one in watched}
    if len(hosts) < 2 or hosts <= compared.keys():
        return [*watched]
    begun: dict[tuple[str, int], dict[str, float]] = {}
    for one in watched:
        for each in one.collectives:
            first = begun.setdefault((each.group, each.number), {})
            first[one.host] = min(each.begun, first.get(one.host, each.begun))
    late: dict[str, list[float]] = {}
    for firsts in begun.values():
        for host, time in firsts.items() if len(firsts) > 1 else ():
            late.setdefault(host, []).append(time - min(firsts.values()))
    shift = {host: sorted(times)[len(times) // 4] for host, times in late.items()}
    return [
        replace(
            one,
            began=one.began - shift.get(one.host, 0.0),
            collectives=tuple(replace(each, begun=each.begun - shift.get(one.host, 0.0)) for each in one.collectives),
        )
        for one in watched
    ]


class Meeting(NamedTuple):
    """A collective that all ranks of its group have begun."""

    met: float  # when the last rank began it
    least: float | None  # seconds that the last rank took, by torch; None: torch does not time it
    last: int  # the last rank, for which the others waited


def _meetings(watched: Sequence[Watched]) -> dict[tuple[str, int], Meeting]:
    """Return each collective that all ranks of its group have begun, by group and number."""
    begun: dict[tuple[str, int], list[tuple[Collective, int]]] = {}
    for one in watched:
        for each in one.collectives:
            begun.setdefault((each.group, each.number), []).append((each, one.rank))
    sizes = Counter(group for one in watched for group in {each.group for each in one.collectives})
    meetings: dict[tuple[str, int], Meeting] = {}
    for key, joined in begun.items():
        timed = [each.seconds for each, _ in joined if each.seconds is not None]
        if len(joined) < max(2, sizes[key[0]]) or (not timed and ":nccl" in key[0]):
            continue  # a rank has not begun it; or it was only queued, for a GPU that is behind
        if timed:  # the others' times have their waits in them
            last = min((each.seconds or 0.0, rank) for each, rank in joined)[1]
        else:
            last = max((each.begun, rank) for each, rank in joined)[1]
        meetings[key] = Meeting(max(each.begun for each, _ in joined), min(timed) if timed else None, last)
    return meetings


def _waits(one: Watched, meetings: Mapping[tuple[str, int], Meeting]) -> list[Interval]:
    """Return when a rank waited, without overlap, in order."""
    spans: list[Interval] = []
    for each in one.collectives:
        meeting = meetings.get((each.group, each.number))
        if meeting is None:
            continue
        if meeting.least is None or each.seconds is None:
            end = meeting.met
        else:
            end = each.begun + max(0.0, each.seconds - meeting.least)
        spans.append((each.begun, end))
    joined: list[Interval] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


# ---- which rank


class Chosen(NamedTuple):
    """Ranks that wait less than all others."""

    ranks: tuple[int, ...]
    lost: float  # of the time: how much more the others wait


def choose(shares: Mapping[int, Sequence[float]]) -> Chosen | None:
    """Return the ranks, at most half, that wait so much less than all others that it is no chance; None: none do."""
    if len(shares) < 2 or min(map(len, shares.values())) < FEW:
        return None
    means = sorted((statistics.fmean(parts), rank) for rank, parts in shares.items())
    gaps = [(means[index][0] - means[index - 1][0], index) for index in range(1, len(means) // 2 + 1)]
    gap, index = max(gaps)  # the widest gap: ranks before this index wait less than all others
    others = zip(*(shares[rank] for _, rank in means[index:]), strict=True)
    differences = [
        statistics.fmean(more) - less for less, more in zip(shares[means[index - 1][1]], others, strict=True)
    ]
    if gap < LEAST or gap < CERTAIN * _error(differences):
        return None
    return Chosen(tuple(sorted(rank for _, rank in means[:index])), gap)


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean of values that follow each other.

    Neighbours depend on each other: where a step lasts for two parts, a stage of a pipeline waits in every other one.
    So it is that of means over windows (overlapping batch means, Meketon and Schmeiser 1984), of the best size.
    """
    count, mean = len(values), statistics.fmean(values)
    sizes = [*range(2, count // 4 + 1)] or [1]
    errors = []
    for size in sizes:
        windows = [statistics.fmean(values[start : start + size]) for start in range(count - size + 1)]
        squares = sum((each - mean) ** 2 for each in windows)
        errors.append(math.sqrt(size * squares / ((count - size) * (count - size + 1))))
    return min(errors)


def _facts_of(chosen: Chosen, shares: Mapping[int, Sequence[float]], watched: Sequence[Watched]) -> SlowRanks:
    """Return what is told of slow ranks: their hosts, how often they came last, and where the first one is."""
    ranks, lost = chosen
    by_rank = {one.rank: one for one in watched}
    came_last = [meeting.last for meeting in _meetings(watched).values()]
    waits = statistics.fmean(statistics.fmean(shares[rank]) for rank in ranks)
    others = [one for one in watched if one.rank not in ranks]
    excess = []  # of each place of the first slow rank: how much more often it is there than the others
    for place in by_rank[ranks[0]].places:
        usual = statistics.median(
            next((each.share for each in one.places if each.spot == place.spot), 0.0) for one in others
        )
        excess.append((place.share - usual, place))
    places = [place for difference, place in sorted(excess, key=lambda pair: -pair[0]) if difference >= LEAST]
    return SlowRanks(
        ranks=ranks,
        hosts=tuple(dict.fromkeys(by_rank[rank].host for rank in ranks)),
        lost=round(lost, 3),
        waits=round(waits, 3),
        last=sum(rank in ranks for rank in came_last) if came_last else None,
        of=len(came_last) if came_last else None,
        places=tuple(places[:SHOWN]),
    )
