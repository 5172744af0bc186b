"""Ranks that never reported to Lightning, in a log that ends while the others wait for them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_MEMBER = re.compile(r"\bGLOBAL_RANK: (?P<rank>\d+), MEMBER: \d+/(?P<wanted>\d+)")


def missing_members(logs: Iterable[Sequence[str]]) -> tuple[int, str, dict[str, str]] | None:
    """Return the index of the last line of a member, the id and the values of an entry; None if no member is missing.

    The log of a node has only members of that node. If it continues after them, the others joined.
    """
    seen: Counter[int] = Counter()
    wanted = last = 0
    for lines in logs:
        members = [(index, match) for index, line in enumerate(lines) if (match := _MEMBER.search(line))]
        if not members or any(line.strip() for line in lines[members[-1][0] + 1 :]):
            return None
        last = members[-1][0]
        seen.update(int(match["rank"]) for _, match in members)
        wanted = max(wanted, *(int(match["wanted"]) for _, match in members))
    missing = [rank for rank in range(wanted) if rank not in seen]
    if not missing:
        return None
    if min(seen.values()) > 1:
        return last, "ranks-twice", {"late": ", ".join(map(str, sorted(seen))), "number": str(wanted)}
    late = ", ".join(map(str, missing))
    return last, "ranks-missing", {"joined": str(len(seen)), "wanted": str(wanted), "late": late}
