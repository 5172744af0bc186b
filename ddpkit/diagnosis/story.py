"""Story of a run: who waited for whom, what each rank did last, and what its logs show only together. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ddpkit.diagnosis import progress
from ddpkit.diagnosis.catalogue.entry import BRANCHES, Instead
from ddpkit.diagnosis.collectives import (
    absent_ranks,
    busy_ranks,
    different_calls,
    idle_ranks,
    list_ranks,
    name_ranks,
    passed_before,
)
from ddpkit.diagnosis.line_prefixes import Speaker, speaker_of_line, split_prefix, visible_line
from ddpkit.diagnosis.log_match import LogMatch
from ddpkit.diagnosis.progress import RANKS, Course

_WAITS = re.compile(r"Waiting in store based barrier .*world_size=(?P<wanted>\d+), \w+=(?P<joined>\d+),")
# torchrun's agents log this at the level INFO.
_AGENT_WAITS = re.compile(r"\bRendezvous'ing worker group$|attempts to join the next round of the rendezvous")
_LEAST_NODES = re.compile(r"^\s*(?:\[\S+\]:)?\s*min_nodes\s*: (?P<nodes>\d+)")
# Lines of SLURM below the last line of a rank: they end the job, and no rank went on.
_JOB_ENDS = re.compile(r"^(?:srun|slurmstepd(?:-\S+)?|scancel): |\bCANCELLED AT\b")
_MEMBER = re.compile(r"\bGLOBAL_RANK: (?P<rank>\d+), MEMBER: \d+/(?P<wanted>\d+)")


_VERSION = re.compile(r"\b[NR]CCL version ?:? (\d+\.\d+\.\d+)")
MOST_VERSIONS = 200  # lines with a version, of one log
# `node1:2114:2170 [0] NCCL INFO comm 0x55 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 86000 commId 0x3f - Init START`
_COMMUNICATOR = re.compile(
    r"(?P<host>(?<![\w.-])[\w.-]+):(?P<pid>\d+):\d+ \[\d+\] NCCL INFO "
    r"(?:ncclCommInit\w+ )?comm 0x\w+ rank (?P<rank>\d+) "
    r"n[Rr]anks (?P<count>\d+) cudaDev \d+ (?:nvmlDev \d+ )?busId (?P<bus>\w+)(?: commId (?P<group>\w+))?"
)
MOST_LINES = 20_000  # about communicators, of one log
_SLOW_NAME = "hostname of the client socket cannot be retrieved"
SLOW = 4.0  # seconds from one such warning to the next
FEWEST = 3  # such pauses that show that the look-ups themselves are slow
SPOKEN_LINES = 5000  # lines at the end that are searched for ranks
WORK_LINES = 30  # lines before a timeout that are searched for other work of a rank
_RESTARTS = re.compile(r"\b(?:agent_restarts|restart_count)['\"]?\s*[:=]\s*(?P<count>\d+)")
_BAR_BODY = re.compile(r"\|[^|]{12,}\|")
_ERROR_LINE = re.compile(r"\[[EFIW](?:\d{3,4} [\d:.]+)? \S+\.cpp")


@dataclass(frozen=True, kw_only=True)
class Log:
    """One file: its lines, and the number of each in the file."""

    lines: Sequence[str]
    numbers: Sequence[int]
    course: Course
    harmless: set[int]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the story shows for a rule: values of its entry, and the line that shows it."""

    values: Mapping[str, str]
    kind: str = ""  # empty: the one of the entry
    speaker: Speaker | None = None
    file: str = ""
    index: int | None = None  # None: the line of the first failure
    warned: bool = False


class _Spoken(NamedTuple):
    """What a rank printed near the end of its log."""

    host: str  # empty: no line has it
    last_line: str


class Story:
    """The logs of a run, and its first failure."""

    def __init__(
        self,
        logs: Mapping[str, Log],
        first: LogMatch | None,
        alike: Sequence[LogMatch],
        consequences: Sequence[LogMatch],
        hints: Sequence[LogMatch],
    ) -> None:
        self.logs = logs
        self._lines = [log.lines for log in logs.values()]
        self._first = first
        self._same = [each for each in (first, *alike) if each is not None]
        self._consequences = consequences
        self._hints = hints

    # ---- who waited for whom

    @cached_property
    def _waited(self) -> set[int | None]:
        """The ranks that are known to have waited."""
        others = [each for each in self._consequences if each.entry.role == "waits"]
        return {each.speaker.rank for each in (*self._same, *others)} | busy_ranks(self._lines)

    @cached_property
    def _speaking(self) -> dict[int, _Spoken]:
        """What each rank that prints near the end has printed."""
        spoken: dict[int, _Spoken] = {}
        for lines in self._lines:
            for line in lines[-SPOKEN_LINES:]:
                if line.strip():
                    speaker = split_prefix(line).speaker
                    ranks = [speaker.rank] if speaker.rank is not None else [int(each) for each in RANKS.findall(line)]
                    for rank in ranks:
                        known = spoken[rank].host if rank in spoken else ""
                        spoken[rank] = _Spoken(known or speaker.host, line)
        return spoken

    @cached_property
    def silent_ranks(self) -> list[int]:
        """The ranks that print, and do not report that they waited.

        A rank whose last line is of torch's own threads reacts to other ranks: its report can be missing.
        """
        silent = set(self._speaking) - self._waited
        return sorted(rank for rank in silent if not _ERROR_LINE.search(self._speaking[rank].last_line))

    def name_awaited(self, first: LogMatch) -> LogMatch:
        """Return a timeout with the ranks that others waited for, as far as the logs show them."""
        late, values = self._late_ranks()
        if late and first.speaker.rank is not None:
            several = ", ".join(map(str, late)) if len(late) > 1 else ""
            host = self._speaking[late[0]].host if late[0] in self._speaking else ""
            speaker = Speaker(rank=late[0], host=host, ranks=several)
            first = replace(first, speaker=speaker, reporter=first.speaker)
        return replace(first, values={**first.values, **values})

    def _late_ranks(self) -> tuple[list[int], dict[str, str]]:
        """Return the ranks that others waited for, none where that is a guess, and values of the timeout's entry.

        The signs in the order of their certainty: a rank that is idle by the watchdog's numbers, a rank that a barrier
        names, the one rank that is silent, and the one without a line.
        """
        idle = idle_ranks(self._same, self._lines)
        # Where these ranks are known, the entry has no advice for other reasons.
        of_idle = {"guilty": name_ranks(idle), "passed": "", BRANCHES: "known"} if idle else {}
        if len(idle) > 1:
            return idle, {"absent": f"{name_ranks(idle)} never called it", **of_idle}
        named = self._same[0].values.get("late", "")  # by a barrier
        if named.isdecimal() and int(named) not in self._waited:
            return [int(named)], {}
        late = idle or (self.silent_ranks if len(self.silent_ranks) == 1 and self._shows_end else [])
        if late:
            return late, {**passed_before(self._same), "late": str(late[0]), **of_idle}
        if self.silent_ranks:
            return [], passed_before(self._same)
        known = {rank for rank in self._waited if rank is not None}
        absent = absent_ranks(self._same, known)
        if len(absent) == 1 and len(known) > 1:
            return absent, {"late": str(absent[0])}
        return [], passed_before(self._same)

    @property
    def _shows_end(self) -> bool:
        """Whether a launcher reports ends of ranks. Before that, a silent rank may still print that it waited."""
        return any(each.decisive or each.entry.scope == "launcher" for each in (*self._same, *self._consequences))

    @property
    def restarts(self) -> int:
        """How often torchrun had started the ranks again."""
        found = (_RESTARTS.search(line) for lines in self._lines for line in lines if "restart" in line)
        return max((int(each["count"]) for each in found if each), default=0)

    # ---- what stands in place of the first failure

    def read(self, rule: Instead) -> Found | None:
        """Return what the logs show for a rule: `reads` names what to look for. None: the rule does not hold."""
        if rule.text and self._first is not None and not re.search(rule.text, self._first.text):
            return None
        reader = {
            "different-calls": self._different_calls,
            "other-work": self._other_work,
            "shared-gpu": self._shared_gpu,
            "slow-names": self._slow_names,
            "versions": self._versions,
        }.get(rule.reads)
        return reader() if reader else self._missing(rule.reads)

    def _different_calls(self) -> Found | None:
        calls, alone = different_calls(self._same, self._lines)
        if not calls or (not calls.get("group") and self.silent_ranks):
            return None
        speaker = next((each.speaker for each in self._same if each.speaker.rank == alone), None)
        return Found(values=calls, kind="" if "group" in calls else "generic", speaker=speaker)

    def _other_work(self) -> Found | None:
        """Find the last line before a timeout that reports other work of a rank, such as a download."""
        assert self._first is not None
        log = self.logs[self._first.file]
        matches = (*self._same, *self._consequences, *self._hints)
        matched = {each.number for each in matches if each.file == self._first.file}
        timeout = progress.timeout_of(self._first.text)
        looked_at = 0
        for number in range(self._first.number - 1, 0, -1):
            line = visible_line(log.lines[number - 1])
            if number in matched or not line.strip():
                continue
            looked_at += 1
            if progress.is_slow_work(line) or progress.is_as_old_as(line, timeout):
                prefixed = split_prefix(line)
                busy = prefixed.speaker.rank
                work = _BAR_BODY.sub("|...|", prefixed.text.strip())[:120]
                if busy is None:
                    return Found(values={"work": work})
                return Found(values={"work": work, "busy": str(busy)}, speaker=prefixed.speaker)
            if looked_at > WORK_LINES or progress.is_step(line):
                return None
        return None

    def _shared_gpu(self) -> Found | None:
        """Find two ranks of one group that NCCL saw on one GPU."""
        for name, log in self.logs.items():
            seen: dict[tuple[str, ...], tuple[str, str]] = {}  # rank and process, by the GPU and the group
            for index in [index for index, line in enumerate(log.lines) if " busId " in line][:MOST_LINES]:
                line = _COMMUNICATOR.search(log.lines[index])
                if line is None:
                    continue
                gpu = (line["host"], line["bus"], line["count"], line["group"] or "")
                rank, pid = seen.setdefault(gpu, (line["rank"], line["pid"]))
                if rank != line["rank"] and pid != line["pid"]:
                    one, two = sorted((rank, line["rank"]), key=int)
                    sharing = f"ranks {one} and {two} on {line['host']}, PCI bus {line['bus']}"
                    values = {"sharing": sharing, "rank": line["rank"], "other": rank, "host": line["host"]}
                    speaker = Speaker(rank=int(line["rank"]), host=line["host"])
                    return Found(values=values, speaker=speaker, file=name, index=index)
        return None

    def _versions(self) -> Found | None:
        """Find `2.19.3 and 2.20.5 on node2`, with hosts where the lines have them."""
        hosts: dict[str, str] = {}
        for lines in self._lines:
            for line in [each for each in lines if "CCL version" in each][:MOST_VERSIONS]:
                version = _VERSION.search(line)
                if version:
                    hosts[version[1]] = hosts.get(version[1]) or speaker_of_line(line).host
        words = [f"{version} on {host}" if host else version for version, host in hosts.items()]
        versions = ", ".join(words[:-1]) + f" and {words[-1]}" if len(words) > 1 else ""
        return Found(values={"versions": versions}) if versions else None

    def _slow_names(self) -> Found | None:
        """Find the last of torch's warnings about names, where seconds pass from one to the next."""
        found = None
        for name, log in self.logs.items():
            warnings = [(index, line) for index, line in enumerate(log.lines) if _SLOW_NAME in line]
            times = [(index, split_prefix(line).when) for index, line in warnings]
            known = [(index, when) for index, when in times if when is not None]
            slow = sorted(pause for (_, one), (_, two) in pairwise(known) if (pause := two - one) >= SLOW)
            if len(slow) >= FEWEST:
                values = {"number": f"{slow[len(slow) // 2]:.0f}"}
                found = Found(values=values, kind="hint", file=name, index=known[-1][0])
        return found

    def _missing(self, story: str) -> Found | None:
        """Find ranks that never came: the logs end, or the first failure comes, while others wait for them."""
        first = self._first
        logs = [each if first is None else each[: first.number - 1] for each in self._lines]
        if first is not None and len(logs) > 1:
            return None
        found = (_waits_at_store(logs[0]) if len(logs) == 1 else None) or _missing_members(logs)
        if found is None or found[0] != story:
            return None
        _, index, values = found
        # Without a failure, the log may have been read while the others were still starting.
        kind = "generic" if first else "hint"
        return Found(values=values, kind=kind, file=list(self.logs)[-1], index=index, warned=True)


_Missing = tuple[str, int, dict[str, str]]  # `reads` of a rule, the index of the last line, values of the rule's entry


def _waits_at_store(lines: Sequence[str]) -> _Missing | None:
    """Return what a log shows that ends while a rank, or torchrun's agent, waits for others at the store."""
    last = next((index for index in range(len(lines) - 1, -1, -1) if lines[index].strip()), None)
    if last is None:
        return None
    if _AGENT_WAITS.search(lines[last].strip()):
        nodes = [int(match["nodes"]) for line in lines if (match := _LEAST_NODES.search(line))]
        return ("agents-wait", last, {}) if nodes and max(nodes) > 1 else None
    match = _WAITS.search(lines[last])
    return ("missing-ranks", last, match.groupdict()) if match and int(match["joined"]) < int(match["wanted"]) else None


def _missing_members(logs: Sequence[Sequence[str]]) -> _Missing | None:
    """Return what logs show that end while members of a group are missing; None if none is.

    The log of a node has only members of that node. If it continues after its members, all others joined.
    """
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
        return "twice", last, {"late": list_ranks(sorted(seen)), "number": str(wanted)}
    return "missing-ranks", last, {"joined": str(len(seen)), "wanted": str(wanted), "late": list_ranks(missing)}
