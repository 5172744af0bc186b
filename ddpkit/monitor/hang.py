"""Findings about a hang: which rank the others wait for, from their dumps (`ddpkit.node.calls.stack_dump`). Pure.

Torch's Flight Recorder numbers the collectives of each process group, on every rank alike. The rank that has not begun
the one in which the others wait is the late one; ranks whose collective with the same number is another one do not run
the same program. Where there is no such record (PyTorch before 2.9 without NCCL, a recorder that is off, a rendezvous,
send and recv), stacks tell the same, less surely: who is outside of torch.distributed while others are inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from ddpkit.monitor.rank_state import GroupKey, InGroup, Pending, Rank, labels, where
from ddpkit.run.state import describe_stall
from ddpkit.text import format_ranks

SHOWN = 8  # ranks that a finding names one by one
_STOPPED = ("T", "t", "D")  # states in /proc/PID/stat: by a signal, by a debugger, in a call of the kernel
GPU_STUCK = "an earlier kernel keeps it busy, or it hangs"
UNTIMED = (
    "the network between them is broken, or a GPU hangs before it (with TORCH_NCCL_ENABLE_TIMING=1 its rank is named)"
)


class FindingKind(str, Enum):
    """What a finding is about, the surest first."""

    STOPPED = "stopped"  # by a signal, or in a call of the kernel
    MISMATCH = "mismatch"  # another collective than the others
    LATE = "late"
    SILENT = "silent"
    STACKS = "stacks"  # outside of torch.distributed, while others are inside
    RAS = "ras"  # NCCL's own report
    STUCK = "stuck"  # all wait
    HARDWARE = "hardware"  # what GPUs, adapters and their drivers show
    NONE = "none"
    UNRECORDED = "unrecorded"  # no record of collectives

    __str__ = str.__str__

    @property
    def is_hang(self) -> bool:
        return self not in (FindingKind.HARDWARE, FindingKind.NONE, FindingKind.UNRECORDED)

    @property
    def shows_wait(self) -> bool:
        """Whether ddpkit itself has seen that ranks wait."""
        return self.is_hang and self is not FindingKind.RAS


@dataclass(frozen=True)
class Finding:
    """One thing that is odd."""

    kind: FindingKind
    ranks: tuple[int, ...]  # the guilty ones
    words: str


# ---- judging


def judge(
    ranks: Sequence[Rank],
    silent: Mapping[str, Sequence[int]],
    workdir: str = "",
    timed_out: Collection[int] = (),
) -> list[Finding]:
    """What hangs, the cause before its consequences.

    silent: hosts that did not answer, and their ranks.
    timed_out: ranks whose wait for others took too long. They have left the collective.
    """
    findings = []
    ranks = _with_timeouts(ranks, timed_out)
    known = {rank.rank: rank for rank in ranks}  # that answered
    for host, theirs in silent.items():
        findings.append(Finding(FindingKind.SILENT, tuple(theirs), f"{host} did not answer ({format_ranks(theirs)})"))
    named: set[int] = set()  # ranks that a finding names; `_judge_group` adds to it
    waits = [finding for group in _comparable_groups(ranks) for finding in _judge_group(group, known, named, workdir)]
    findings += waits
    for rank in ranks:
        if rank.state in _STOPPED and rank.rank not in named:
            findings.append(Finding(FindingKind.STOPPED, (rank.rank,), f"{rank.who} {_why_stopped(rank, workdir)}"))
            named.add(rank.rank)
    if not waits:
        findings += _judge_stacks(ranks, named, workdir, timed_out)
    findings.sort(key=lambda finding: _ORDER.index(finding.kind))
    return [
        *(findings or [Finding(FindingKind.NONE, (), _no_wait(ranks, workdir))]),
        *_unrecorded(ranks),
    ]


def with_hardware(findings: Sequence[Finding], hardware: Sequence[Finding]) -> list[Finding]:
    """Add findings about hardware behind those about ranks; a GPU that failed before STUCK, whose cause it may be."""
    failed = [finding for finding in hardware if finding.ranks]
    all_wait = next((at for at, each in enumerate(findings) if each.kind is FindingKind.STUCK), len(findings))
    guiltless = [finding for finding in hardware if not finding.ranks]
    return [*findings[:all_wait], *failed, *findings[all_wait:], *guiltless]


def after_timeout(findings: Sequence[Finding], timed_out: Collection[int]) -> list[Finding]:
    """Findings that explain a timeout, the best one first: a rank that waited too long itself is rarely the cause."""
    known = [each for each in findings if each.kind.shows_wait or (each.kind is FindingKind.HARDWARE and each.ranks)]
    return sorted(known, key=lambda finding: bool(finding.ranks) and set(finding.ranks) <= set(timed_out))


def _with_timeouts(ranks: Sequence[Rank], timed_out: Collection[int]) -> Sequence[Rank]:
    """Let ranks that timed out wait again in their last collective, if some rank has not begun it: torch retires it."""

    def least_begun(key: GroupKey) -> int:
        groups = [_in_group(rank, key) for rank in ranks]
        return min(group.begun for group in groups if group is not None)

    def waiting(rank: Rank, key: GroupKey, group: InGroup) -> InGroup:
        seq = group.begun
        if group.pending is not None or seq not in group.ops or seq <= least_begun(key):
            return group
        pending = Pending(op=group.ops[seq], seq=seq, sizes=group.sizes[seq], since=rank.idle or 0.0)
        return replace(group, done=seq - 1, pending=pending)

    return [
        replace(rank, groups={key: waiting(rank, key, group) for key, group in rank.groups.items()})
        if rank.rank in timed_out
        else rank
        for rank in ranks
    ]


_ORDER = list(FindingKind)


class Group(NamedTuple):
    """One process group of the run."""

    key: GroupKey
    label: str  # what people call it
    members: tuple[int, ...]  # global ranks


def _comparable_groups(ranks: Sequence[Rank]) -> list[Group]:
    """Return each process group whose collectives have the same number on all its ranks (see `Rank.incomparable`).

    Groups of a mesh may share a key: each has a label with its members.
    """
    incomparable = frozenset[GroupKey]().union(*(rank.incomparable for rank in ranks))
    recorded: dict[GroupKey, list[int]] = {}  # ranks with a record of the group
    for rank in ranks:
        for key in rank.groups:
            recorded.setdefault(key, []).append(rank.rank)
    found = dict.fromkeys(
        (key, rank.members.get(key.name) or tuple(recorded[key]))
        for rank in ranks
        for key in rank.groups
        if key not in incomparable
    )
    count = Counter(key for key, _ in found)
    names = labels(count)
    return [
        Group(key, names[key] if count[key] == 1 else f"{names[key]} ({format_ranks(members)})", members)
        for key, members in found
    ]


def _in_group(rank: Rank, key: GroupKey) -> InGroup | None:
    """How far a rank is in a group, by its record, else by torch's count of collectives; None: it records nothing."""
    if key in rank.groups or not rank.recorded:
        return rank.groups.get(key)
    begun = max(0, rank.counted.get(key.name, 0))
    return InGroup(begun=begun, done=begun, ops={}, sizes={}, pending=None)


def _judge_group(group: Group, known: Mapping[int, Rank], named: set[int], workdir: str) -> list[Finding]:
    """Judge the first collective of a group in which ranks wait: who is late for it, or calls another one instead.

    Empty: no rank waits. `known`: the ranks that answered, by number. `named` gets the ranks of the findings.
    """
    progress = {number: _in_group(known[number], group.key) for number in group.members if number in known}
    inside = {number: each for number, each in progress.items() if each is not None}
    waiting = {number: each.pending for number, each in inside.items() if each.pending is not None}
    if not waiting:
        return []
    different = _first_difference(inside)
    if different is not None:
        named |= set(inside)
        return [_mismatch(group, different, known, workdir)]
    first = min(waiting.values(), key=lambda each: each.seq)
    at_it = [number for number, each in waiting.items() if each.seq == first.seq]
    since = max(waiting[number].since for number in at_it)
    what = f"{first.op} #{first.seq} of group {group.label}"
    wait = f"{format_ranks(at_it)} wait{'s' if len(at_it) == 1 else ''} in it for {since:.0f} s"
    late = [number for number, each in inside.items() if each.begun < first.seq]
    late += [number for number in progress if number not in inside]
    findings = [_late(known[number], what, wait, workdir) for number in late[:SHOWN]]
    named |= set(late)
    if len(late) > SHOWN:
        rest = late[SHOWN:]
        findings.append(Finding(FindingKind.LATE, tuple(rest), f"{format_ranks(rest)} have not joined {what} either"))
    absent = [number for number in group.members if number not in known]
    if absent:
        words = f"{what} waits for {format_ranks(absent)}, which did not answer ({wait})"
        findings.append(Finding(FindingKind.SILENT, tuple(absent), words))
    stopped = [known[number] for number in inside if known[number].state in _STOPPED and number not in named]
    for rank in stopped:
        named.add(rank.rank)
        words = f"{rank.who} {_why_stopped(rank, workdir)}; it had started {what} ({wait})"
        findings.append(Finding(FindingKind.STOPPED, (rank.rank,), words))
    return findings or list(_all_joined(group, what, wait, waiting, known, workdir))


def _late(rank: Rank, what: str, wait: str, workdir: str) -> Finding:
    """Say why a collective waits for a rank: it is stopped, or elsewhere in the code, or nobody knows where."""
    if rank.state in _STOPPED:
        words = f"{rank.who} {_why_stopped(rank, workdir)}; {what} waits for it ({wait})"
        return Finding(FindingKind.STOPPED, (rank.rank,), words)
    if rank.recorded or (rank.stack and not rank.communicates):
        words = f"{rank.who} has not joined {what} ({wait}): {place(rank, workdir)}"
        return Finding(FindingKind.LATE, (rank.rank,), words)
    words = f"{rank.who} does not report its position ({rank.why or 'no record'}), and {wait}: {what}"
    return Finding(FindingKind.SILENT, (rank.rank,), words)


def _all_joined(
    group: Group, what: str, wait: str, waiting: Mapping[int, Pending], known: Mapping[int, Rank], workdir: str
) -> Iterator[Finding]:
    """Judge a collective that all ranks have joined. With NCCL a rank only queues it: its GPU may not come to it."""
    first = min(each.seq for each in waiting.values())
    queued = [number for number, each in waiting.items() if each.seq == first and not each.started]
    if queued and any(each.started for each in waiting.values()):
        for number in queued[:SHOWN]:
            rank = known[number]
            words = f"{rank.who} has queued {what}, and its GPU has not started it ({wait}): {GPU_STUCK}"
            yield Finding(FindingKind.LATE, (number,), f"{words}; {place(rank, workdir)}")
        return
    verb = "queued" if queued and group.key.backend.endswith("nccl") else "joined"
    words = f"all ranks have {verb} {what} ({wait}), and it has not finished: it is still running, "
    words += "or the network between them is broken" if verb == "joined" else UNTIMED
    yield Finding(FindingKind.STUCK, (), words)


class Difference(NamedTuple):
    """A collective that is not the same on all ranks."""

    seq: int
    calls: Mapping[int, str]  # by rank


def _first_difference(inside: Mapping[int, InGroup]) -> Difference | None:
    """Return the first collective that is not the same on all ranks; None: there is none in their records.

    A collective that has ended on all ranks is not what they wait for.
    """
    ended = min(group.done for group in inside.values())
    numbers = sorted({seq for group in inside.values() for seq in group.ops if seq > ended})
    for seq in numbers:
        ops = {number: group.ops[seq] for number, group in inside.items() if seq in group.ops}
        if len(set(ops.values())) > 1:
            return Difference(seq, ops)
        if set(ops.values()) == {"all_reduce"}:  # the same size on every rank, or it hangs or adds up nonsense
            sizes = {number: f"all_reduce of {inside[number].sizes[seq]}" for number in ops}
            if len(set(sizes.values())) > 1:
                return Difference(seq, sizes)
    return None


def _mismatch(group: Group, different: Difference, known: Mapping[int, Rank], workdir: str) -> Finding:
    """Ranks that call different collectives. The fewer are the suspects; with as many on each side, all are."""
    seq, calls = different
    count = Counter(calls.values()).most_common()
    tie = len(count) > 1 and count[0][1] == count[1][1]
    common = count[0][0]
    odd = [number for number, call in calls.items() if tie or call != common]
    words = []
    for call, _ in reversed(count):
        callers = [number for number, each in calls.items() if each == call]
        one = known[callers[0]]
        who = one.who if len(callers) == 1 else format_ranks(callers)
        pending, spot = one.groups[group.key].pending, where(one, workdir)
        if pending is None:
            position = f"and continued to {spot}"
        elif pending.seq == seq:
            position = f"at {spot}"
        else:
            position = f"before {pending.op} #{pending.seq} at {spot}"
        words.append(f"{who} call{'s' if len(callers) == 1 else ''} {call} #{seq} {position}")
    what = f"ranks call different collectives in group {group.label}: {'; '.join(words)}"
    return Finding(FindingKind.MISMATCH, tuple(odd), what)


def _judge_stacks(
    ranks: Sequence[Rank], named: set[int], workdir: str, timed_out: Collection[int] = ()
) -> list[Finding]:
    """Judge by stacks the ranks that no finding has `named`: who is outside of torch.distributed, or apart in it."""
    seen = [rank for rank in ranks if rank.stack and rank.state not in _STOPPED and rank.rank not in named]
    seen = [rank for rank in seen if rank.rank not in timed_out]  # their wait is over: they may be anywhere
    inside = [rank for rank in seen if rank.communicates]
    outside = [rank for rank in seen if not rank.communicates]
    if not inside and not timed_out:
        return []
    calls = sorted({rank.call or "torch.distributed" for rank in inside})
    wait = (
        f"{format_ranks(rank.rank for rank in inside)} wait{'s' if len(inside) == 1 else ''} in {' and '.join(calls)}"
    )
    findings = []
    for rank in outside[:SHOWN]:
        if timed_out:
            words = f"{rank.who} did not come, and {format_ranks(timed_out)} waited in vain"
        else:
            words = f"{rank.who} is in no collective while {wait}"
        findings.append(Finding(FindingKind.STACKS, (rank.rank,), f"{words}: {place(rank, workdir)}"))
    spots = Counter((rank.user_frame, rank.call) for rank in inside)
    if not outside and len(spots) > 1:
        ways = []
        for spot, number in reversed(spots.most_common()):
            there = [rank for rank in inside if (rank.user_frame, rank.call) == spot]
            who = there[0].who if number == 1 else format_ranks(rank.rank for rank in there)
            ways.append(f"{who} in {there[0].call or 'torch.distributed'} at {where(there[0], workdir)}")
        least = min(spots.values())
        odd = [rank.rank for rank in inside if spots[rank.user_frame, rank.call] == least]
        words = f"ranks wait in different places: {'; '.join(ways)}"
        findings.append(Finding(FindingKind.STACKS, tuple(odd), words))
    if not outside and len(spots) == 1 and len(inside) + len(named) < len(ranks):
        silent = [rank for rank in ranks if not rank.stack and rank.rank not in named]
        for rank in silent[:SHOWN]:
            words = f"{wait}, and {rank.who} does not report its position: {rank.why or 'no stack'}"
            findings.append(Finding(FindingKind.SILENT, (rank.rank,), words))
    if not findings and not named and not outside and inside:
        words = f"{wait}, all in the same place: {where(inside[0], workdir)}"
        findings.append(Finding(FindingKind.STUCK, (), words))
    return findings


def _unrecorded(ranks: Sequence[Rank]) -> list[Finding]:
    """Ranks without a record of collectives, by the reason."""
    by_reason: dict[str, list[int]] = {}
    waits = any(rank.communicates for rank in ranks)
    # A rank that has only faulthandler (no `--observe stacks`) never has a record: it is missed where ranks wait.
    for rank in [rank for rank in ranks if waits or rank.how != "faulthandler"]:
        by_reason.setdefault(rank.unrecorded, []).append(rank.rank)
    return [
        Finding(
            FindingKind.UNRECORDED,
            tuple(theirs),
            f"only stacks of {format_ranks(theirs)} are compared, not their collectives: {reason}",
        )
        for reason, theirs in by_reason.items()
        if reason
    ]


def _no_wait(ranks: Sequence[Rank], workdir: str) -> str:
    """Words for ranks of which none is seen to wait."""
    seen = [rank for rank in ranks if rank.stack]
    if not seen:
        why = next((rank.why for rank in ranks if rank.why), "no rank is running")
        return f"no rank reports its position: {why}"
    return f"no rank waits for another one; {seen[0].who}: {place(seen[0], workdir)}"


# ---- words


def place(rank: Rank, workdir: str) -> str:
    """Where a rank is, or why nobody knows."""
    if not rank.stack:
        kernel = f", in the kernel: {rank.wchan}" if rank.wchan not in ("", "0") else ""
        return f"its position is unknown ({rank.why or 'no stack'}; state {rank.state or 'unknown'}{kernel})"
    call = f", in torch's {rank.call}" if rank.call else ""
    return f"it is in {where(rank, workdir)}{call}"


def _why_stopped(rank: Rank, workdir: str) -> str:
    was = f", in {where(rank, workdir)}" if rank.stack else ""
    kernel = f" ({rank.wchan})" if rank.wchan not in ("", "0") else ""
    return describe_stall(rank.state, rank.pid, rank.host, where=was, kernel=kernel)
