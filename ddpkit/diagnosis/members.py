"""Ranks that never reported to Lightning or to the store, in a log that ends while the others wait for them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ddpkit.diagnosis.collectives import list_ranks
from ddpkit.diagnosis.line_prefixes import speaker_of_line

_WAITS = re.compile(r"Waiting in store based barrier .*world_size=(?P<wanted>\d+), \w+=(?P<joined>\d+),")
# torchrun's agents log this at the level INFO.
_AGENT_WAITS = re.compile(r"\bRendezvous'ing worker group$|attempts to join the next round of the rendezvous")
_LEAST_NODES = re.compile(r"^\s*(?:\[\S+\]:)?\s*min_nodes\s*: (?P<nodes>\d+)")
# Each of several processes says this: no launcher told them of the others.
_ALONE = re.compile(
    r"(?i)\b(?:rank|process)(?:[ _]?id)?[\"']?[ :=#]*0[ ,]*(?:/|of|out of) *1\b(?![./]\d)"
    r"|\brank[\"']?[ :=]+0\b[^\n]{0,20}\b(?:world|comm)[_ ]?size[\"']?[ :=]+1\b"
    r"|\b(?:world|comm)[_ ]?size[\"']?[ :=]+1\b[^\n]{0,20}\brank[\"']?[ :=]+0\b"
)
# Lines of SLURM below the last line of a rank: they end the job, and no rank went on.
_JOB_ENDS = re.compile(r"^(?:srun|slurmstepd(?:-\S+)?|scancel): |\bCANCELLED AT\b")
_MEMBER = re.compile(r"\bGLOBAL_RANK: (?P<rank>\d+), MEMBER: \d+/(?P<wanted>\d+)")


def missing_members(logs: Iterable[Sequence[str]]) -> tuple[int, str, dict[str, str]] | None:
    """Return the index of the last line of a member, the id and the values of an entry; None if no member is missing.

    The log of a node has only members of that node. If it continues after them, the others joined.
    """
    logs = list(logs)
    alone = _alone(logs[-1]) if logs else None
    if alone is not None:
        return alone
    waiting = _waiting(logs[0]) if len(logs) == 1 else None
    if waiting is not None:
        return waiting
    seen: Counter[int] = Counter()
    wanted = last = 0
    for lines in logs:
        members = [(index, match) for index, line in enumerate(lines) if (match := _MEMBER.search(line))]
        if not members or any(line.strip() and not _JOB_ENDS.search(line) for line in lines[members[-1][0] + 1 :]):
            return None
        last = members[-1][0]
        seen.update(int(match["rank"]) for _, match in members)
        wanted = max(wanted, *(int(match["wanted"]) for _, match in members))
    missing = [rank for rank in range(wanted) if rank not in seen]
    if not missing:
        return None
    if min(seen.values()) > 1:
        return last, "twice", {"late": list_ranks(sorted(seen)), "number": str(wanted)}
    return last, "missing-ranks", {"joined": str(len(seen)), "wanted": str(wanted), "late": list_ranks(missing)}


def _alone(lines: Sequence[str]) -> tuple[int, str, dict[str, str]] | None:
    """Return the same where several processes each take themselves for the only one."""
    alone = [(index, line) for index, line in enumerate(lines) if _ALONE.search(line)]
    labels = {(speaker.rank, speaker.host) for _, line in alone if (speaker := speaker_of_line(line)).known}
    twins = sum(late[0] == early[0] + 1 for early, late in pairwise(alone))
    number = len(labels) if len(labels) > 1 else twins + 1
    return (alone[-1][0], "alone", {"number": str(number)}) if number > 1 else None


def _waiting(lines: Sequence[str]) -> tuple[int, str, dict[str, str]] | None:
    """Return the same where a log ends while a rank waits for others at the store."""
    last = next((index for index in range(len(lines) - 1, -1, -1) if lines[index].strip()), 0)
    if lines and _AGENT_WAITS.search(lines[last].strip()):
        nodes = [int(match["nodes"]) for line in lines if (match := _LEAST_NODES.search(line))]
        return (last, "agents-wait", {}) if nodes and max(nodes) > 1 else None
    match = _WAITS.search(lines[last]) if lines else None
    if match is None or int(match["joined"]) >= int(match["wanted"]):
        return None
    return last, "missing-ranks", match.groupdict()
