"""Prefixes of log lines: rank, host and time, in the forms of all launchers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]")
MAX_LINE = 4096  # characters of a line that are looked at: its begin and its end
_CUT = " ... "

# Each takes one label off the front. Named groups: rank, local (rank on its host), host, agent, when; task, which is the
# rank unless the task is a launcher; own, the rank that the process itself prints.
# After a time stands one space at most: the others belong to the line, for example to a traceback.
_TIME = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_LEVEL = r"(?:ERROR|CRITICAL|FATAL|WARNING|WARN|INFO|DEBUG)"
_LABELS = [
    re.compile(pattern)
    for pattern in (
        r"\[(?P<rank>\d+) (?P<host>[^\s\]]+)\] ",  # ddpkit
        r"\[(?P<agent>ddpkit)\] ",
        r"\[(?P<agent>torchrun|preload|container|legacy|srun) (?P<host>[^\s\]]+)\] ",
        r"\[rank(?P<local>\d+)\]: ?(?=\[rank\d+\]:)",  # torchrun --role rank --tee, around torch's own
        r"\[rank(?P<own>\d+)\]: ?",  # torch, and torchrun --tee with TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE
        r"\[(?P<role>[A-Za-z_]\w*?)(?P<local>\d+)\]: ?",  # torchrun --tee
        r"\[rank:? ?(?P<rank>\d+)\] ?",  # Lightning
        r"\[Rank (?P<rank>\d+)\]:? ",
        r"(?:[0-9a-f]{6,40} )?\[rank=(?P<rank>\d+)\] (?:\|\| ?)?",  # Determined
        r"[Rr]ank:? ?(?P<rank>\d+)[:|] ",
        r"\[(?:[\w.@-]+,)?(?:mpirank:)?(?P<rank>\d+)(?:,(?P<host>[\w.-]+))?\]<(?:stdout|stderr|stddiag)>: ?",  # mpirun, Horovod, SageMaker
        r" *(?P<task>\d+): ",  # srun --label
        r"\[(?P<agent>task \d+)\] ",  # srun --label of launchers, see read.py
        r"\[\d{1,6}\] (?=\[rank\d+\]:)",  # a number of the line, in some viewers
        r"\[(?P<rank>\d{1,4})\] (?!(?:\S+:\d+ (?:\(\w+\) )?)?NCCL| +\d+ [a-z]+  )",  # mpirun -l, ddpkit without hosts; no job of zsh
        r"\([\w.:-]+,? (?:rank=(?P<rank>\d+), )?pid=\d+(?:, ip=(?P<host>[\w.:-]+))?(?:, [^)]*)?\) ?",  # Ray, SkyPilot
        r"\((?:raylet|gcs_server)(?:, ip=(?P<host>[\w.:-]+))?\) ?",  # Ray
        r"\[pod/(?P<host>[\w.-]+)/[\w.-]+\] ",  # kubectl logs --prefix
        r"\[host/(?P<host>[\w.-]+)\] ",  # pdsh, see read.py
        r"\[resource\.labels\.containerName: (?P<host>[\w.-]+)\] ?",  # Google Cloud
        r"\[(?P<host>[\w.-]+), unknown_ip\] ?",  # AzureML on Kubernetes
        _LEVEL + r" (?=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*Z )",
        r"(?P<host>(?:trainer|worker|train|script|ddp|sh)/\d+) ",  # torchx
        r"(?P<host>[\w.-]+):\d+:\d+ \[\d+\] (?=(?:\S+:\d+ (?:\(\w+\) )?)?NCCL)",
        r"\| *(?P<when>" + _TIME + r"|\d{10,13}) *\| ?",  # a table of CloudWatch
        r"(?P<host>(?!\d+ )[\w.-]+) +\| ",  # docker compose
        r"\[(?P<when>" + _TIME + r")(?: (?:DP|TP|PP|EP|CP)\d+)+\] ",  # SGLang
        r"\[?(?P<when>" + _TIME + r")\]?(?: (?:stdout|stderr) [FP])?(?: ?[:,-]+(?= ))?[ \t]?",  # k8s, CRI, loggers
        r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?: - " + _LEVEL + r" - \S+ -)?[ \t]? {0,3}(?=\S)",
        r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?(?: -)? ?",
        r"\| " + _LEVEL + r" +\| [\w.<>]+:[\w<>]+:\d+ - ",  # loguru
        _LEVEL + r" \d\d-\d\d \d\d:\d\d:\d\d \[?[\w.]+:\d+\] ?",  # vLLM
        _LEVEL + r":[\w.]+:(?=\S)",  # logging's own form
        r"\w[\w.]* - " + _LEVEL + r" - ",
        r"- " + _LEVEL + r" - ",
        _LEVEL + r" (?P<when>" + _TIME + r") \[resource\.labels\.\w+: [\w.-]+\] ?",  # gcloud logging
        r"(?:stdout|stderr): ",  # accelerate test
        r"\[(?:stdout|stderr|" + _LEVEL + r")(?:[:|][^\]]*)?\] ?",
        r"\[?[EWIF](?P<glog>\d{3,4} \d\d:\d\d:\d\d\.\d+) +(?:\d+ )?(?:[\w/.-]+:\d+\] ?)?",  # torch's C++ and torchrun
        r"[DIWEFC] \d+ \d+\] (?=(?:\((?:raylet|gcs_server)\) )?[\w.]+\.(?:cc|h):\d+: )",  # Ray, after its time
        r"[A-Z][a-z]{2} [ \d]\d (?P<clock>\d\d:\d\d:\d\d) (?P<host>[\w.-]+) \S+?(?:\[\d+\])?: ",  # journal
        r"\[?[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]? ?",  # dmesg -T, Horovod
        r"\[ *\d+\.\d{6}\] ",  # dmesg
        r"##\[error\]",  # GitHub
    )
]
# Within the text.
_RANK_IN_TEXT = (
    re.compile(r"\[rank(\d+)\]:"),  # of the world; the next one can be a rank in a smaller group
    re.compile(r"\[(?:PG [^\]]*)?[Rr]ank (\d+)\]"),
    re.compile(r"(?<!does not contain )\brank[ =:]+(\d+)\b", re.IGNORECASE),
    re.compile(r"^-- Process (\d+) terminated"),
)
_LAST_CELL = re.compile(r"(?<!\s)\s*\|\s*$")  # of a table
_HOST_IN_TEXT = re.compile(r"(?<![\w.-])([\w.-]+):\d+:\d+ \[\d+\] (?:\S+:\d+ (?:\(\w+\) )?)?NCCL ")
_RANK_IN_NAME = (
    re.compile(r"rank[_-]?(?P<rank>\d+)\b.*\.\w+$"),
    re.compile(r"attempt_\d+/(?P<local>\d+)/std(?:out|err)\.log$"),
)


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
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def visible_line(line: str) -> str:
    """Return the text that a terminal shows of a line at the end."""
    if "\r" in line:
        line = next((state for state in reversed(line.split("\r")) if state), "")
    if line.endswith(" across cluster]"):  # Ray: [repeated 14x across cluster]
        line = line.rpartition(" [repeated ")[0]
    return cut_line(line)


def cut_line(line: str, most: int = MAX_LINE) -> str:
    """Return a line, of a long one its begin and its end."""
    return line if len(line) <= most else f"{line[: most // 2]}{_CUT}{line[-most // 2 + len(_CUT) :]}"


@lru_cache(maxsize=2048)  # the lines around a failure are asked for by several
def split_prefix(line: str) -> PrefixedLine:
    """Take all prefixes off the front of a line."""
    rank = local = task = own = None
    host = agent = ""
    when = None
    more = True
    while more:
        more = False
        for label in _LABELS:
            match = label.match(line)
            if not match:
                continue
            groups = match.groupdict()
            if groups.get("role") and groups["role"].lower() in ("errno", "error", "gpu", "step", "epoch"):
                continue
            rank = int(groups["rank"]) if groups.get("rank") and rank is None else rank
            task = int(groups["task"]) if groups.get("task") and task is None else task
            own = int(groups["own"]) if groups.get("own") and own is None else own
            local = int(groups["local"]) if groups.get("local") and local is None else local
            host = host or groups.get("host") or ""
            agent = agent or groups.get("agent") or ""
            when = _seconds(groups.get("when"), groups.get("glog")) if when is None else when
            line = line[match.end() :]
            if match[0].startswith("|"):
                line = _LAST_CELL.sub("", line)
            more = True
            break
    if rank is None:
        rank = own if own is not None else task if local is None else None
    return PrefixedLine(speaker=Speaker(rank=rank, host=host, local=local, agent=agent), when=when, text=line)


def _seconds(stamp: str | None, glog: str | None) -> float | None:
    """Convert a time stamp to seconds since the year began, with months of 31 days: enough to order lines."""
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


def speaker_of(prefixed: PrefixedLine, raw: str) -> Speaker:
    """Return the speaker of a line, also from its text."""
    speaker = prefixed.speaker
    rank, host = speaker.rank, speaker.host
    if rank is None:
        for pattern in _RANK_IN_TEXT:
            match = pattern.search(prefixed.text)
            if match:
                rank = int(match[1])
                break
    if not host:
        match = _HOST_IN_TEXT.search(raw)
        host = match[1] if match else ""
    return Speaker(rank=rank, host=host, local=speaker.local, agent=speaker.agent)


def speaker_of_line(line: str) -> Speaker:
    """Return the speaker of a line as it stands in a log."""
    shown = visible_line(line)
    return speaker_of(split_prefix(shown), shown)


@lru_cache(maxsize=256)
def speaker_in_name(path: str) -> Speaker:
    """Return the speaker that a file's name has: `rank_3.log`, torchrun's `attempt_0/3/stderr.log`."""
    for pattern in _RANK_IN_NAME:
        match = pattern.search(path)
        if match:
            groups = match.groupdict()
            return Speaker(
                rank=int(groups["rank"]) if groups.get("rank") else None,
                local=int(groups["local"]) if groups.get("local") else None,
            )
    return UNKNOWN_SPEAKER
