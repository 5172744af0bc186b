"""Ranks that share a GPU, as NCCL's lines about its communicators show. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

# `node1:2114:2170 [0] NCCL INFO comm 0x55 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 86000 commId 0x3f - Init START`
_COMMUNICATOR = re.compile(
    r"(?P<host>(?<![\w.-])[\w.-]+):(?P<pid>\d+):\d+ \[\d+\] NCCL INFO "
    r"(?:ncclCommInit\w+ )?comm 0x\w+ rank (?P<rank>\d+) "
    r"n[Rr]anks (?P<count>\d+) cudaDev \d+ (?:nvmlDev \d+ )?busId (?P<bus>\w+)(?: commId (?P<group>\w+))?"
)
MOST_LINES = 20_000  # about communicators, of one log


def shared_gpu(lines: Sequence[str]) -> tuple[int, dict[str, str]] | None:
    """Return the line of a rank whose GPU another process of its group has, and values of an entry."""
    seen: dict[tuple[str, str, str, str], tuple[str, str]] = {}
    for index in [index for index, line in enumerate(lines) if " busId " in line][:MOST_LINES]:
        line = _COMMUNICATOR.search(lines[index])
        if line is None:
            continue
        rank, pid = seen.setdefault(
            (line["host"], line["bus"], line["count"], line["group"] or ""), (line["rank"], line["pid"])
        )
        if rank != line["rank"] and pid != line["pid"]:
            one, other = sorted((rank, line["rank"]), key=int)
            sharing = f"ranks {one} and {other} on {line['host']}, PCI bus {line['bus']}"
            return index, {"sharing": sharing, "rank": line["rank"], "other": rank, "host": line["host"]}
    return None
