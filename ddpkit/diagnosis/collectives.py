"""Collectives in which ranks wait or differ, from the lines of NCCL's watchdog and of torch's DETAIL mode. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ddpkit.diagnosis.catalogue.entry import BRANCHES
from ddpkit.diagnosis.line_prefixes import speaker_of_line, split_prefix
from ddpkit.diagnosis.log_match import LogMatch

_GROUP = r"\[PG (?:ID \S+ PG (?P<guid>GUID) )?(?P<group>[^\s(\]]+).*?"
_WORK = re.compile(
    rf"(?:{_GROUP})?WorkNCCL\(SeqNum=(?P<number>\d+)(?:, OpType=(?P<call>\w+))?(?:, NumelIn=(?P<size>\d+))?"
    r"(?:, NumelOut=(?P<out>\d+),)?"
)
# The watchdog of a rank reports the numbers of its last collectives, also where it waits in none.
_STATUS = re.compile(
    _GROUP + r"\bRank (?P<rank>\d+)\].*"
    r"\b[Ll]ast enqueued (?:NCCL )?work: (?P<called>\d+)\b.*?\blast completed (?:NCCL )?work: (?P<done>-?\d+)"
)
_GROUP_OF_WORK = re.compile(_GROUP + r"\bwork(?: sequence id)?: (?P<number>\d+)")
_ENQUEUED = "ast enqueued"
# These are of two ranks only, or of several collectives.
_PAIRED = frozenset(("SEND", "RECV", "RECVANYSOURCE", "UNKNOWN"))
_SEVERAL = "COALESCED"
# One side of these has the elements of all ranks.
_WHOLE = frozenset(("_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"))
# All ranks pass the same number of elements to these.
_EVEN = frozenset(("ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"))
MOST_RANKS = 8  # that are listed
MANY_PASSED = 100  # collectives: the connections of all algorithms and groups have carried data by then


@dataclass(frozen=True, kw_only=True)
class _Work:
    """A collective that one rank did not finish."""

    rank: int
    group: str  # empty where it is not known to be the same on all ranks
    number: int
    call: str
    size: str
    ratio: int = 0  # of the sizes of its two sides, where they show it


def _lowest_and_highest(works: Iterable[_Work]) -> tuple[str, int]:
    """Describe the lowest and the highest sequence number of one group. Returns their difference, too; 0: all equal."""
    groups: dict[str, dict[int, _Work]] = {}
    for each in sorted(works, key=lambda work: -work.number):  # of a rank, the lowest one counts
        groups.setdefault(each.group, {})[each.rank] = each
    for ranks in groups.values():
        low, high = (of(ranks.values(), key=lambda work: work.number) for of in (min, max))
        if low.number < high.number:
            last, first = (
                name_ranks(sorted(rank for rank, work in ranks.items() if work.number == end.number))
                for end in (low, high)
            )
            lowest = f"{last} in {low.call} with the lowest SeqNum, {low.number}"
            return f"{lowest}, and {first} in {high.call} with {high.number}", high.number - low.number
    return "", 0


def passed_before(waited: Iterable[LogMatch]) -> dict[str, str]:
    """Return how many collectives had completed before those that timed out, as values; none where these are few."""
    numbers = [int(work["number"]) for each in waited if (work := _WORK.search(each.text))]
    passed = min(numbers, default=0) - 1
    # Without these values, the entry has advice about connections that never carried data.
    return {"passed": str(passed), "next": str(passed + 1), BRANCHES: "known"} if passed >= MANY_PASSED else {}


def idle_ranks(waited: Iterable[LogMatch], logs: Iterable[Sequence[str]]) -> list[int]:
    """Return the ranks that completed all that they called, and never called the collective that others wait for."""
    stuck: dict[str, int] = {}  # the number of the collective in which ranks wait, by group
    for work in _unfinished(waited, logs):
        if work.group:
            stuck[work.group] = min(work.number, stuck.get(work.group, work.number))
    idle: dict[int, bool] = {}
    for status in _statuses(logs):
        number = stuck.get(_shared_group(status), 0)
        if number:
            idle[int(status["rank"])] = status["called"] == status["done"] and int(status["called"]) < number
    return sorted(rank for rank, is_idle in idle.items() if is_idle)


def busy_ranks(logs: Iterable[Sequence[str]]) -> set[int]:
    """Return the ranks that called more collectives than were completed: they waited, too."""
    return {int(status["rank"]) for status in _statuses(logs) if int(status["called"]) > int(status["done"])}


def _statuses(logs: Iterable[Sequence[str]]) -> Iterator[re.Match[str]]:
    for line in (each for lines in logs for each in lines if _ENQUEUED in each):
        status = _STATUS.search(line)
        if status:
            yield status


def absent_ranks(waited: Iterable[LogMatch], seen: set[int]) -> list[int]:
    """Return the ranks of which the log has no line, where the log shows how many ranks there are.

    `seen`: the ranks that print. The sizes of an all-gather or a reduce-scatter show the number of ranks.
    """
    sizes = set()
    for each in waited:
        work = _WORK.search(each.text)
        if work and work["out"] and work["call"] in _WHOLE and (not work["group"] or _shared_group(work) == "0"):
            low, high = sorted((int(work["size"]), int(work["out"])))
            sizes.add(high // low if low and high % low == 0 else 0)
    size = sizes.pop() if len(sizes) == 1 else 0
    return sorted(set(range(size)) - seen) if size > max(seen, default=0) else []


def different_calls(waited: Iterable[LogMatch], logs: Iterable[Sequence[str]]) -> tuple[dict[str, str], int | None]:
    """Return values of an entry where ranks wait in different collectives, else none; and the rank that is alone.

    No rank is alone where several ranks wait in each of these collectives. `group` is among the values where all these
    lines are of one group, `number` where all have one number.
    """
    unfinished = _unfinished(waited, logs)
    by_number: dict[int, list[_Work]] = {}
    for work in unfinished:
        by_number.setdefault(work.number, []).append(work)
    for number, works in sorted(by_number.items()):
        chosen = _comparable(works)
        certain = all(each.group for each in chosen)
        calls = _by_call(chosen, certain)
        # Of several groups, each has a collective of that number.
        if len(calls) < 2 or len({each.group for each in works if each.group}) > 1:
            continue
        words = ", ".join(f"{name_ranks(ranks)} in {call}" for call, ranks in calls.items())
        values = {"calls": words, "number": str(number), **({"group": chosen[0].group} if certain else {})}
        alone = [ranks[0] for ranks in calls.values() if len(ranks) == 1]
        return values, alone[0] if len(alone) == 1 and len(calls) == 2 else None
    # A rank that only waits for its result is one collective late. No rank completes two that another has not joined.
    words, gap = _lowest_and_highest(unfinished)
    return ({"calls": words} if gap > 1 else {}), None


def _unfinished(waited: Iterable[LogMatch], logs: Iterable[Sequence[str]]) -> list[_Work]:
    """Return the collectives that ranks did not finish. Another line of a rank can name the group of its collective."""
    pairs = [(match, work) for match in waited if match.speaker.rank is not None and (work := _WORK.search(match.text))]
    known: dict[tuple[int | None, str], set[str]] = {}  # groups in other lines, by rank and number of the collective
    if len({match.speaker.rank for match, _ in pairs}) > 1:
        for line in (each for lines in logs for each in lines if "[PG " in each and "work" in each):
            other = _GROUP_OF_WORK.search(line)
            if other:
                known.setdefault((speaker_of_line(line).rank, other["number"]), set()).add(_shared_group(other))
    works = []
    for match, work in pairs:
        rank = match.speaker.rank
        groups = {_shared_group(work)} if work["group"] else known.get((rank, work["number"]), set())
        if rank is not None and work["call"] and work["call"] not in _PAIRED:
            group = next(iter(groups)) if len(groups) == 1 else ""
            number = int(work["number"])
            size, ratio = work["size"] or "", _ratio(work)
            works.append(_Work(rank=rank, group=group, number=number, call=work["call"], size=size, ratio=ratio))
    return works


def _ratio(work: re.Match[str]) -> int:
    """Return how many times as large the output is as the input; 0: not a whole number from 2, or not known."""
    size, out = int(work["size"] or 0), int(work["out"] or 0)
    return out // size if size and out > size and out % size == 0 else 0


def _comparable(works: list[_Work]) -> list[_Work]:
    """Leave out lines of several collectives in one, unless all ranks are in all-gathers: these have one ratio."""
    gathers = len({each.ratio for each in works}) == 1 and works[0].ratio > 1
    if gathers and all(each.call == _SEVERAL for each in works):
        return works
    return [each for each in works if each.call != _SEVERAL]


def _shared_group(match: re.Match[str]) -> str:
    """Return the name of a group that is the same on all ranks, else an empty text: each process counts its groups."""
    return match["group"] if match["guid"] or match["group"] == "0" else ""


def _by_call(works: Sequence[_Work], certain: bool) -> dict[str, list[int]]:
    """Return the ranks of each call; nothing where a rank has several: pairs are guesses. `certain`: of one group."""
    calls = {(each.rank, each.call) for each in works}
    if len(calls) > len({rank for rank, _ in calls}):
        return {}
    sized = certain and len({call for _, call in calls}) == 1 and works[0].call in {*_EVEN, _SEVERAL}
    ranks: dict[str, set[int]] = {}
    for each in works:
        ranks.setdefault(f"{each.call} of {each.size} elements" if sized else each.call, set()).add(each.rank)
    return {call: sorted(of_call) for call, of_call in ranks.items()}


def name_ranks(ranks: Sequence[int]) -> str:
    """Return `rank 1`, or `ranks 1, 2`."""
    return f"rank{'s' if len(ranks) > 1 else ''} {list_ranks(ranks)}"


def list_ranks(ranks: Sequence[int]) -> str:
    """Return `1, 2`, and of many the first ones."""
    more = f" and {len(ranks) - MOST_RANKS} more" if len(ranks) > MOST_RANKS else ""
    return ", ".join(map(str, ranks[:MOST_RANKS])) + more


# torch's comparison of the ranks: those that did not finish a collective, and those that began it.
_UNFINISHED = re.compile(r"^[^#]*\[(?P<ranks>[\d, ]+)\] joined but didn't finish collective #(?P<number>\d+)")
_ABSENT = re.compile(r"\] finished collective #\d+, but didn't join|never joined any collectives")
_BEGAN = re.compile(r"#(?P<number>\d+) (?:started|finished) ranks:")
_BEGINNERS = re.compile(r"\[(?P<ranks>[\d, ]+)\] (?:started|finished) \w+")
REPORT_LINES = 12  # of torch's comparison of the ranks


def joined_by_all(lines: Sequence[str], index: int) -> dict[str, str]:
    """Return values of an entry where torch reports that all ranks began a collective, and that it did not end."""
    below = lines[index : index + REPORT_LINES]
    stuck = [(match["ranks"], match["number"]) for line in below if (match := _UNFINISHED.search(line))]
    numbers = [match["number"] for line in below if (match := _BEGAN.search(line))]
    ranks = [match["ranks"] for line in below if (match := _BEGINNERS.search(line))]
    if len(stuck) != 1 or stuck != list(zip(ranks, numbers, strict=False)) or any(map(_ABSENT.search, below)):
        return {}
    return {"rank": "", "stuck": "", "same": numbers[0]}


_LAST_ERROR = "Last error:"  # torch prints it below the class of NCCL's error, and the text in the next line
BELOW_ERROR = 4


# What NCCL calls invalid usage is known to be this, where it gives no reason.
_INVALID_USAGE = "two ranks of a host use one GPU, as torch.cuda.set_device(LOCAL_RANK) is missing or too late"

_CLASS = re.compile(r"\bnccl[A-Z]\w+|\b(?:unhandled \w+|internal|invalid \w+) error\b|\binvalid (?:usage|argument)\b")
# What the other classes of NCCL's error are about.
_MEANINGS = {
    "ncclSystemError|unhandled system error": "A call of the system failed: a connection, shared memory, or a limit",
    "ncclInternalError|internal error": "Mostly the network or the versions of NCCL differ between the ranks",
    "ncclUnhandledCudaError|unhandled cuda error": "A call of CUDA failed: an earlier error of the GPU, or its driver",
}


def last_error(lines: Sequence[str], index: int) -> dict[str, str]:
    """Return the text below NCCL's `Last error:` as values of an entry; without one, what the error's class means."""
    below = [split_prefix(line).text.strip() for line in lines[index : index + BELOW_ERROR + 1]]
    behind = below[below.index(_LAST_ERROR) + 1 :] if _LAST_ERROR in below else []
    text = behind[0] if behind else ""
    if text and not text.startswith(("File ", "Traceback")):
        return {"reason": text[:120]}
    named = " ".join(below[:2])
    known = _CLASS.search(named)
    name = {"name": known[0] if known else "no name"}
    if re.search("ncclInvalidUsage|invalid usage", named):
        return {**name, "usage": _INVALID_USAGE}
    meaning = next((meaning for words, meaning in _MEANINGS.items() if re.search(words, named)), "")
    return {**name, "meaning": meaning} if meaning else name
