"""State of one rank, read from its dump: its progress in each process group, and its place in the code. Pure."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

_TORCH = re.compile(r"(^|/)torch/")
_LIBRARY = re.compile(r"(^|/)(site-packages|dist-packages|lib/python3(\.\d+)?t?)/|^<|/ddpkit-[0-9a-f]+/")
_WRAPPERS = ("wrapper", "decorate_context", "_fn", "inner")

Frame = tuple[str, int, str]  # file, line, function


class GroupKey(NamedTuple):
    """A process group on one of its backends, which counts its collectives by itself: `0:gloo`."""

    name: str
    backend: str

    @classmethod
    def of(cls, text: str) -> GroupKey:
        name, _, backend = text.partition(":")
        return cls(name, backend)

    def __str__(self) -> str:
        return f"{self.name}:{self.backend}"


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A collective that a rank has begun, and that has not ended."""

    op: str
    seq: int
    sizes: str
    since: float  # seconds
    started: bool = False  # by the GPU; known where torch times NCCL's (TORCH_NCCL_ENABLE_TIMING=1)


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
    groups: Mapping[GroupKey, InGroup] = field(default_factory=dict)
    incomparable: frozenset[GroupKey] = frozenset()  # their numbers count send and recv, which not all ranks call
    counted: Mapping[str, int] = field(default_factory=dict)  # by name of a group: the number of the last collective
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by name of a group: global ranks
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

_BELOW = "ddpkit.zip/node/rank/holder.py"  # the program of a hold, which stands below the script of its ranks


def read(number: int, host: str, facts: Mapping[str, Any], now: float) -> Rank:
    """One rank's part of an answer. `now` is the time there, seconds since the epoch."""
    threads = facts.get("threads") or []
    main = next((thread for thread in threads if thread["main"]), None)
    record, known = facts.get("fr") or {}, facts.get("groups") or {}
    members = {name: _members(group["ranks"]) for name, group in known.items()}
    frames = tuple((str(file), int(line or 0), str(name)) for file, line, name in main["frames"]) if main else ()
    frames = tuple(itertools.takewhile(lambda frame: not frame[0].endswith(_BELOW), frames))
    last = record.get("last")
    return Rank(
        rank=number,
        host=host,
        pid=facts.get("pid"),
        state=facts.get("state") or "",
        how=facts.get("how") or "",
        why=facts.get("why") or "",
        wchan=facts.get("wchan") or "",
        stack=_shared(frames),
        threads=len(threads),
        switches=facts.get("switches"),
        recorded=bool(record) and not record.get("off"),
        unrecorded=record.get("off") or "",
        groups={GroupKey.of(key): _group(group, now) for key, group in (record.get("groups") or {}).items()},
        incomparable=frozenset(map(GroupKey.of, record.get("incomparable") or ())),
        counted={
            str(name): int(status.get("last_enqueued_collective", 0))
            for name, status in (record.get("status") or {}).items()
        },
        members=members,
        idle=None if last is None else max(0.0, now - float(last)),
    )


def _group(group: Mapping[str, Any], now: float) -> InGroup:
    """Read one group of `stack_dump.collect`. `open`: its first collective that has not ended, or None."""
    ops, sizes = _recorded(group["ops"])
    begun, pending = int(group["begun"]), None
    if group["open"] is not None:
        op, seq, shape, created, started = group["open"]
        since = max(0.0, now - float(created)) if created else 0.0
        pending = Pending(op=str(op), seq=int(seq), sizes=str(shape), since=since, started=bool(started))
    return InGroup(
        begun=begun, done=begun if pending is None else pending.seq - 1, ops=ops, sizes=sizes, pending=pending
    )


@lru_cache(maxsize=64)
def _recorded(text: str) -> tuple[dict[int, str], dict[int, str]]:
    """Operations and sizes by number: thousands of ranks have the same, and share them."""
    rows = json.loads(text)
    return {int(seq): str(op) for seq, op, _ in rows}, {int(seq): str(sizes) for seq, _, sizes in rows}


@lru_cache(maxsize=1024)
def _members(text: str) -> tuple[int, ...]:
    """`0-3,8` as (0, 1, 2, 3, 8)."""
    pieces = [piece.partition("-") for piece in text.split(",") if piece]
    return tuple(number for low, _, high in pieces for number in range(int(low), int(high or low) + 1))


@lru_cache(maxsize=1024)
def _shared(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return one object for all equal stacks: thousands of ranks have the same."""
    return stack


def labels(keys: Iterable[GroupKey]) -> dict[GroupKey, str]:
    """What people call these groups: the name, with the backend only where a group has two."""
    known = list(dict.fromkeys(keys))
    names = [key.name for key in known]
    return {key: str(key) if names.count(key.name) > 1 else key.name for key in known}


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
