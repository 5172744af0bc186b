"""Torchrun's table of failures: the rank that failed first, and its exit code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ddpkit.diagnosis.line_prefixes import Speaker, split_prefix, visible_line


@dataclass(frozen=True, kw_only=True)
class TorchrunFailure:
    """The rank that failed first, as torchrun reports it."""

    number: int  # index of the line with the exit code
    speaker: Speaker
    code: int


_FIELD = re.compile(r"^\s*(time|host|rank|exitcode)\s*: (.*)$")
ROOT = "Root Cause"  # `Root Cause (first observed failure):`, and `Root Cause:` of torch 1.9


def read_torchrun_table(lines: Sequence[str], start: int) -> TorchrunFailure | None:
    """Read the block below `Root Cause`, at `lines[start]`."""
    fields: dict[str, str] = {}
    for index in range(start + 1, min(start + 12, len(lines))):
        entry = _FIELD.search(split_prefix(visible_line(lines[index])).text)
        if entry:
            fields[entry[1]] = entry[2]
        if "exitcode" in fields:
            code = re.match(r"-?\d+", fields["exitcode"])
            rank = re.match(r"\d+", fields.get("rank", ""))
            speaker = Speaker(rank=int(rank[0]) if rank else None, host=fields.get("host", "").strip())
            return TorchrunFailure(number=index, speaker=speaker, code=int(code[0])) if code else None
    return None


_EXIT = re.compile(r"^\s*exitcode\s*: (?!-15\b)-?\d")
ROW_LINES = 4  # of a row: time, host and rank stand above the exit code


def read_torchrun_row(lines: Sequence[str], index: int) -> TorchrunFailure | None:
    """Read a row of which `lines[index]` has the exit code, where the log does not show the root cause."""
    if not _EXIT.match(split_prefix(visible_line(lines[index])).text):
        return None
    return read_torchrun_table(lines[: index + 1], max(-1, index - ROW_LINES))


_ROW = re.compile(r"^\s*rank\s*: (\d+) \(local_rank")
_ABORTED = re.compile(r"^\s*exitcode\s*: -6\b")


def aborted_ranks(lines: Iterable[str]) -> set[int]:
    """Return the ranks that the table reports as aborted (SIGABRT), as NCCL's watchdog ends a rank that waited."""
    aborted: set[int] = set()
    rank: int | None = None
    for line in lines:
        row = _ROW.search(line)
        if row:
            rank = int(row[1])
        elif rank is not None and _ABORTED.search(line):
            aborted.add(rank)
    return aborted
