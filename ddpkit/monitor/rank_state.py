"""State of one rank, read from its dump: its progress in each process group, and its place in the code. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_TORCH = re.compile(r"(^|/)torch/")
_LIBRARY = re.compile(r"(^|/)(site-packages|dist-packages|lib/python3(\.\d+)?t?)/|^<|/ddpkit-[0-9a-f]+/")
_WRAPPERS = ("wrapper", "decorate_context", "_fn", "inner")

Frame = tuple[str, int, str]  # file, line, function


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A collective that a rank has begun, and that has not ended."""

    op: str
    seq: int
    sizes: str
    since: float  # seconds


@dataclass(frozen=True, kw_only=True)
class InGroup:
    """How far a rank is in one process group."""

    begun: int  # number of the last collective
    done: int  # up to which all have ended
    ops: Mapping[int, str]  # of those that the record still has
    sizes: Mapping[int, str]
    pending: Pending | None  # the first one


@dataclass(frozen=True, kw_only=True)
class Rank:
    """State of one rank, as it and the kernel report it."""

    rank: int
    host: str
    pid: int | None = None
    state: str = ""  # as in /proc/PID/stat; empty: it has ended, or nobody could look
    how: str = ""  # thread, faulthandler, py-spy: where the stack is from
    why: str = ""  # why something is missing
    wchan: str = ""
    stack: tuple[Frame, ...] = ()  # of the main thread, the innermost first
    threads: int = 0
    switches: int | None = None  # how often its main thread has waited; None: not known
    recorded: bool = False  # its Flight Recorder is on
    unrecorded: str = ""  # why its Flight Recorder is off; empty: it is on, or not known
    groups: Mapping[str, InGroup] = field(default_factory=dict)  # by name and backend: `0:gloo`; each counts by itself
    incomparable: frozenset[str] = frozenset()  # groups whose numbers count send and recv, which not all ranks call
    counted: Mapping[str, int] = field(default_factory=dict)  # by name: the number of the last collective
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by name: global ranks
    idle: float | None = None  # seconds since its last collective began or ended; None: there was none, or no record

    @property
    def who(self) -> str:
        return f"rank {self.rank} on {self.host}"

    @property
    def user_frame(self) -> Frame | None:
        """The innermost frame of the user's own code; else the innermost of all."""
        return next((frame for frame in self.stack if not _LIBRARY.search(frame[0])), None) or next(
            iter(self.stack), None
        )

    @property
    def call(self) -> str:
        """The function of torch that the user's code called; empty where it called none."""
        call = ""
        for frame in self.stack:
            if frame is self.user_frame:
                break
            if _TORCH.search(frame[0]) and frame[2] not in _WRAPPERS:
                call = frame[2]
        return call

    @property
    def communicates(self) -> bool:
        """Whether the main thread is in torch.distributed."""
        return any("torch/distributed/" in frame[0] for frame in self.stack)


# ---- what was answered, read


def read(number: int, host: str, facts: Mapping[str, Any], now: float) -> Rank:
    """One rank's part of an answer. `now` is the time there, seconds since the epoch."""
    threads = facts.get("threads") or []
    main = next((thread for thread in threads if thread["main"]), None)
    record = facts.get("fr") or {}
    names = [name for name, group in (facts.get("groups") or {}).items() if "nccl" in str(group.get("backend"))]
    entries = [_entry(entry, names) for entry in record.get("entries") or []]
    members = {name: tuple(group["ranks"]) for name, group in (facts.get("groups") or {}).items()}
    times = [
        stamp / 1e9
        for entry in entries
        for stamp in (entry.get("time_created_ns"), entry.get("time_discovered_completed_ns"))
        if stamp
    ]
    return Rank(
        rank=number,
        host=host,
        pid=facts.get("pid"),
        state=facts.get("state") or "",
        how=facts.get("how") or "",
        why=facts.get("why") or "",
        wchan=facts.get("wchan") or "",
        stack=tuple((str(file), int(line or 0), str(name)) for file, line, name in main["frames"]) if main else (),
        threads=len(threads),
        switches=facts.get("switches"),
        recorded=bool(record) and not record.get("off"),
        unrecorded=record.get("off") or "",
        groups=_groups(entries, now),
        incomparable=frozenset(_key(entry) for entry in entries if entry.get("is_p2p") and entry.get("shared_numbers")),
        counted={
            str(name): int(status.get("last_enqueued_collective", 0))
            for name, status in (record.get("status") or {}).items()
        },
        members=members,
        idle=max(0.0, now - max(times)) if times else None,
    )


def _entry(entry: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return an entry in the form of torch 2.4 and later. `names`: the rank's groups of NCCL, in their order.

    The form of 2.2 and 2.3 numbers the groups of each rank, and has one number for collectives and for send and recv
    (`torch/csrc/distributed/c10d/TraceUtils.h`). The time of 2.2 is in microseconds.
    """
    if "seq_id" not in entry:
        return entry
    group = entry.get("pg_id", 0)
    return {
        "collective_seq_id": entry["seq_id"],
        "process_group": [names[group] if group < len(names) else str(group)],
        "is_p2p": _op(entry).startswith(("send", "recv")),
        "shared_numbers": True,
        "time_created_ns": entry.get("time_created_us", 0) * 1000,
        **entry,
    }


def _groups(recorded: Iterable[Mapping[str, Any]], now: float) -> dict[str, InGroup]:
    entries: dict[str, list[Mapping[str, Any]]] = {}
    for entry in recorded:
        if not entry.get("is_p2p"):
            entries.setdefault(_key(entry), []).append(entry)
    groups = {}
    for name, rows in entries.items():
        # Gloo's never say "completed": they are retired when they are done (torch 2.13).
        open_ones = [row for row in rows if not row.get("retired") and row.get("state") != "completed"]
        begun = max(int(row["collective_seq_id"]) for row in rows)
        first = min(open_ones, key=lambda row: int(row["collective_seq_id"]), default=None)
        pending = None
        if first is not None:
            since = max(0.0, now - float(first.get("time_created_ns") or now * 1e9) / 1e9)
            seq = int(first["collective_seq_id"])
            pending = Pending(op=_op(first), seq=seq, sizes=_sizes(first), since=since)
        groups[name] = InGroup(
            begun=begun,
            done=begun if pending is None else pending.seq - 1,
            ops={int(row["collective_seq_id"]): _op(row) for row in rows},
            sizes={int(row["collective_seq_id"]): _sizes(row) for row in rows},
            pending=pending,
        )
    return groups


def labels(keys: Iterable[str]) -> dict[str, str]:
    """What people call these groups: by name, and by the backend only where a group has two."""
    known = list(dict.fromkeys(keys))
    names = [key.partition(":")[0] for key in known]
    return {key: key if names.count(key.partition(":")[0]) > 1 else key.partition(":")[0] for key in known}


def _key(entry: Mapping[str, Any]) -> str:
    """The group of an entry, by name and backend: `0:gloo`."""
    group = entry.get("process_group") or ["?"]
    return f"{group[0]}:{str(entry.get('profiling_name') or '').partition(':')[0]}"


def _op(entry: Mapping[str, Any]) -> str:
    """`gloo:all_reduce` as `all_reduce`."""
    return str(entry.get("profiling_name") or "?").rpartition(":")[2]


def _sizes(entry: Mapping[str, Any]) -> str:
    return " ".join("x".join(map(str, shape)) or "1" for shape in entry.get("input_sizes") or [])


# ---- words


def where(rank: Rank, workdir: str = "") -> str:
    """`train.py:57 in slow_step`."""
    frame = rank.user_frame
    if frame is None:
        return f"an unknown place ({rank.why})" if rank.why else "an unknown place"
    return spot(frame, workdir)


def spot(frame: Sequence[Any], workdir: str = "") -> str:
    file, line, name = frame
    short = os.path.relpath(file, workdir) if workdir and str(file).startswith(workdir.rstrip("/") + "/") else file
    return f"{short}:{line} in {name}"


def alike(ranks: Sequence[Rank]) -> list[tuple[tuple[int, ...], tuple[Frame, ...]]]:
    """Ranks with the same stack of the main thread, the fewest first: the odd ones are the suspects."""
    by_stack: dict[tuple[Frame, ...], list[int]] = {}
    for rank in ranks:
        if rank.stack:
            by_stack.setdefault(rank.stack, []).append(rank.rank)
    return sorted(((tuple(theirs), stack) for stack, theirs in by_stack.items()), key=lambda row: (len(row[0]), row[0]))
