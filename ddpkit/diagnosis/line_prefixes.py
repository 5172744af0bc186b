"""Prefixes of log lines: rank, host and time, in the forms of all launchers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache

# Colours also stand in logs with the escape as a text: of rsyslog and SageMaker, of `cat -v`, of a page.
_ESCAPES = re.compile(
    r"(?:#033|\^\[|\u241b)\[[\d;]*m|\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]"
)
MAX_LINE = 4096  # characters of a line that are looked at: its begin and its end
_CUT = " ... "

_HOST_IN_TEXT = re.compile(r"(?<![\w.-])([\w.-]+):\d+:\d+ \[\d+\] (?:\S+:\d+ (?:\(\w+\) )?)?NCCL ")


@cache
def _forms(name: str) -> tuple[re.Pattern[str], ...]:
    """Return the expressions of a list of forms, in their order."""
    from ddpkit.diagnosis.catalogue import load

    return tuple(map(re.compile, load().forms[name]))


@dataclass(frozen=True)
class Speaker:
    """The rank, host or agent that printed a line, as far as it is known."""

    rank: int | None = None
    host: str = ""
    local: int | None = None  # rank on its host
    agent: str = ""
    ranks: str = ""  # `1-3`, where one line reports several; `rank` is the first of them

    @property
    def known(self) -> bool:
        return self.rank is not None or self.local is not None or bool(self.host)

    def describe(self) -> str:
        """Return `rank 5 on node2`; empty where nothing is known."""
        who = (
            f"ranks {self.ranks}"
            if self.ranks
            else f"rank {self.rank}"
            if self.rank is not None
            else f"local rank {self.local}"
            if self.local is not None
            else ""
        )
        return f"{who} on {self.host}" if who and self.host else who or self.host


UNKNOWN_SPEAKER = Speaker()


@dataclass(frozen=True)
class PrefixedLine:
    """A line without its prefixes, and what they say."""

    speaker: Speaker
    when: float | None  # seconds; only differences mean anything
    text: str


def strip_escapes(text: str) -> str:
    return _ESCAPES.sub("", text) if any(each in text for each in ("\x1b", "#033", "^[", "\u241b")) else text


def visible_line(line: str) -> str:
    """Return the text that a terminal shows of a line at the end."""
    if "\r" in line:
        line = next((state for state in reversed(line.split("\r")) if state), "")
    return cut_line(line)


def cut_line(line: str, most: int = MAX_LINE) -> str:
    """Return a line, of a long one its begin and its end."""
    return line if len(line) <= most else f"{line[: most // 2]}{_CUT}{line[-most // 2 + len(_CUT) :]}"


@lru_cache(maxsize=2048)  # the lines around a failure are asked for by several
def split_prefix(line: str) -> PrefixedLine:
    """Take all prefixes off the front of what a terminal shows of a line. Of several with one fact, the first counts.

    A launcher's label has the rank. Without one, torch's own `[rank3]:` has it, else srun's number of the task, unless
    a label has a local rank: then a task is a launcher of several ranks.
    """
    rank = local = task = by_torch = None
    host = agent = ""
    when = None
    line = visible_line(line)
    while match := next(filter(None, (label.match(line) for label in _forms("before"))), None):
        groups = match.groupdict()
        rank = int(groups["rank"]) if groups.get("rank") and rank is None else rank
        task = int(groups["task"]) if groups.get("task") and task is None else task
        by_torch = int(groups["own"]) if groups.get("own") and by_torch is None else by_torch
        local = int(groups["local"]) if groups.get("local") and local is None else local
        host = host or groups.get("host") or ""
        agent = agent or groups.get("agent") or ""
        when = _seconds(groups.get("when"), groups.get("glog")) if when is None else when
        line = line[match.end() :]
    if rank is None:
        rank = by_torch if by_torch is not None else task if local is None else None
    return PrefixedLine(speaker=Speaker(rank=rank, host=host, local=local, agent=agent), when=when, text=line)


def _seconds(stamp: str | None, glog: str | None) -> float | None:
    """Convert a time to seconds since the year began, with months of 31 days: enough to order lines.

    `stamp`: `2024-05-01 12:00:00,123`. `glog`: `0501 12:00:00.123`, as torch's C++ prints it. None: neither is known.
    """
    if stamp and len(stamp) > 13:  # shorter: seconds or milliseconds since 1970
        numbers = re.findall(r"\d+", stamp[5:19])
        fraction = re.match(r".{19}[.,](\d+)", stamp)
    elif glog:
        day, _, clock = glog.partition(" ")
        day = day.rjust(4, "0")
        numbers = [day[:2], day[2:], *re.findall(r"\d+", clock[:8])]
        fraction = re.search(r"\.(\d+)$", clock)
    else:
        return None
    month, day_, hour, minute, second = (int(number) for number in numbers[:5])
    rest = float(f"0.{fraction[1]}") if fraction else 0.0
    return (((month * 31 + day_) * 24 + hour) * 60 + minute) * 60 + second + rest


def speaker_of_line(line: str) -> Speaker:
    """Return the speaker of a line: by its prefixes, else by its text."""
    prefixed = split_prefix(line)
    speaker = prefixed.speaker
    if speaker.rank is None:
        ranks = (pattern.search(prefixed.text) for pattern in _forms("rank_in_text"))
        rank = next(filter(None, ranks), None)
        speaker = replace(speaker, rank=int(rank[1])) if rank else speaker
    if not speaker.host:
        host = _HOST_IN_TEXT.search(visible_line(line))
        speaker = replace(speaker, host=host[1]) if host else speaker
    return speaker


@lru_cache(maxsize=256)
def speaker_in_name(path: str) -> Speaker:
    """Return the speaker that the name of a file shows: `rank_3.log`, torchrun's `attempt_0/3/stderr.log`."""
    for pattern in _forms("rank_in_name"):
        match = pattern.search(path)
        if match:
            groups = match.groupdict()
            return Speaker(
                rank=int(groups["rank"]) if groups.get("rank") else None,
                local=int(groups["local"]) if groups.get("local") else None,
            )
    return UNKNOWN_SPEAKER
