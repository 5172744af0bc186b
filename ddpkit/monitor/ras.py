"""Findings from NCCL RAS, NCCL's own watch of all its ranks: JSON of NCCL 2.28 and later, text of 2.24 and later. Pure.

Its host names are addresses, and its ranks are those of a communicator. A process that has its number on one host alone
is known by it; else the rank is that of a communicator of all ranks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddpkit.monitor.hang import SHOWN, Finding, FindingKind, place
from ddpkit.monitor.rank_state import Rank
from ddpkit.text import format_ranks

_COUNTS = re.compile(r"Communicator ranks have different (\w+) operation counts\n((?: +Rank \d.*\n?)+)")
_COUNT = re.compile(r"Rank \d+ has launched up to operation (\d+) -- GPU \d+ managed by process (\d+) on node")
# NCCL 2.28.9 writes no comma between these two fields of a missing rank.
_NO_COMMA = re.compile(r'("nvml_dev": -?\d+)(\s+"status")')
# Results of NCCL's functions that are errors (nccl.h): 0 is success, and 7 is work in progress.
_ERRORS = {
    1: "unhandled CUDA error",
    2: "system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote process error",
}


def late(text: str, ranks: Sequence[Rank], workdir: str = "") -> list[Finding]:
    """Ranks that have begun fewer operations than others, by NCCL's own counts."""
    of_process = _by_process(ranks)
    findings: dict[int, Finding] = {}
    for call, counts in _counts(text):
        most = max(counts.values(), default=0)
        known = {pid: of_process[pid] for pid in counts if pid in of_process}
        waiting = format_ranks(rank.rank for pid, rank in known.items() if counts[pid] == most)
        for pid, rank in known.items():
            if counts[pid] < most and len(findings) < SHOWN:
                joined = f"has not joined {call} #{most} of NCCL, which {waiting} called"
                words = f"{rank.who} {joined}: {place(rank, workdir)}"
                findings[rank.rank] = Finding(kind=FindingKind.LATE, ranks=(rank.rank,), words=words)
    return [*findings.values()]


def problems(text: str, ranks: Sequence[Rank] = ()) -> list[Finding]:
    """What RAS calls errors and warnings: in its own words where it answered with text."""
    report = read(text)
    if report is not None:
        return list(_problems(report, ranks))
    parts = re.split(r"^(?:Errors|Warnings)$", text, flags=re.MULTILINE)
    told = "\n".join(parts[1:])
    lines = [line.strip() for line in told.splitlines() if line.strip() and not set(line.strip()) <= {"*", "="}]
    numbers = tuple(sorted({int(number) for number in re.findall(r"\b[Rr]ank:? (\d+)\b", told)}))
    if not lines:
        return []
    return [Finding(kind=FindingKind.RAS, ranks=numbers, words=f"NCCL RAS: {' / '.join(lines[:12])}")]


@dataclass(frozen=True, kw_only=True)
class Process:
    """One rank of a communicator."""

    pid: int
    who: str
    number: int  # in the communicator
    counts: Mapping[str, int]  # of operations that it has begun
    problems: tuple[str, ...]


Communicator = tuple[Process, ...]


def read(text: str) -> list[Communicator] | None:
    """The JSON of an answer; None: it is text, or was cut off. AMD's RCCL may have lines of text before it."""
    start = text.find("{")
    for repaired in (text[start:], _NO_COMMA.sub(r"\1,\2", text[start:])) if start >= 0 else ():
        try:
            return [tuple(_processes(each)) for each in json.loads(repaired)["communicators"]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return None


def _processes(communicator: Mapping[str, Any]) -> Iterator[Process]:
    size = int(communicator["size"])
    for each in (*communicator["ranks"], *communicator["missing_ranks"]):
        pid, number, status = int(each["pid"]), int(each["rank"]), each["status"]
        counts = {str(call): int(count) for call, count in each.get("collective_counts", {}).items()}
        who = f"rank {number} of {size} (process {pid} on {each['host']})"
        yield Process(pid=pid, who=who, number=number, counts=counts, problems=tuple(_told(status)))


def _told(status: Mapping[str, Any]) -> Iterator[str]:
    """What a status says in words; nothing where it is well. A missing rank has another status."""
    if "considered_dead" in status:
        gone = "does not answer" if status["unresponsive"] else "has left the communicator"
        yield "cannot be reached any more" if status["considered_dead"] else gone
        return
    for name, what in (("init_state", "NCCL did not start in it"), ("async_error", "NCCL failed in it")):
        if int(status[name]) in _ERRORS:
            yield f"{what}: {_ERRORS[int(status[name])]}"
    if status["abort_flag"]:
        yield "it has aborted the communicator"


def _by_process(ranks: Sequence[Rank]) -> dict[int, Rank]:
    """Ranks by the numbers of their processes. A number that processes of two hosts have is left out."""
    numbers = [rank.pid for rank in ranks]
    return {rank.pid: rank for rank in ranks if rank.pid and numbers.count(rank.pid) == 1}


def _counts(text: str) -> Iterator[tuple[str, dict[int, int]]]:
    """Operations that differ within a communicator: how many of them each process has begun."""
    report = read(text)
    if report is None:
        for call, rows in _COUNTS.findall(text):
            yield call, {int(pid): int(number) for number, pid in _COUNT.findall(rows)}
        return
    for communicator in report:
        living = [each for each in communicator if each.counts]
        for call in dict.fromkeys(call for each in living for call in each.counts):
            numbers = {each.pid: each.counts.get(call, 0) for each in living}
            if len(set(numbers.values())) > 1:
                yield call, numbers


def _problems(report: Sequence[Communicator], ranks: Sequence[Rank]) -> Iterator[Finding]:
    of_process = _by_process(ranks)
    for communicator in report:
        for each in [each for each in communicator if each.problems][:SHOWN]:
            known = of_process.get(each.pid)
            number = known.rank if known else each.number if len(communicator) == len(ranks) else None
            words = f"NCCL RAS: {known.who if known else each.who}: {', '.join(each.problems)}"
            yield Finding(kind=FindingKind.RAS, ranks=() if number is None else (number,), words=words)
