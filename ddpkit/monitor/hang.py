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

from ddpkit.monitor.rank_state import InGroup, Pending, Rank, labels, where
from ddpkit.run.state import describe_stall
from ddpkit.text import format_ranks

SHOWN = 8  # ranks that a finding names one by one
_CALLS = ("T", "t", "D")
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
    known = {rank.rank: rank for rank in ranks}
    for host, theirs in silent.items():
        findings.append(Finding(FindingKind.SILENT, tuple(theirs), f"{host} did not answer ({format_ranks(theirs)})"))
    named: set[int] = set()
    waits = [
        finding
        for key, label, members in _all_groups(ranks)
        for finding in _judge_group(key, label, members, known, named, workdir)
    ]
    findings += waits
    for rank in ranks:
        if rank.state in _CALLS and rank.rank not in named:
            findings.append(Finding(FindingKind.STOPPED, (rank.rank,), f"{rank.who} {_held(rank, workdir)}"))
            named.add(rank.rank)
    if not waits:
        findings += _judge_stacks(ranks, named, workdir, timed_out)
    findings.sort(key=lambda finding: _ORDER.index(finding.kind))
    return [
        *(findings or [Finding(FindingKind.NONE, (), _nothing(ranks, workdir))]),
        *_unrecorded(ranks),
    ]


def with_hardware(findings: Sequence[Finding], hardware: Sequence[Finding]) -> list[Finding]:
    """Findings about ranks first; but a GPU that failed before one that all ranks wait, and no rank is to blame for."""
    failed = [finding for finding in hardware if finding.ranks]
    at = next((at for at, each in enumerate(findings) if each.kind is FindingKind.STUCK), len(findings))
    others = [finding for finding in hardware if not finding.ranks]
    return [*findings[:at], *failed, *findings[at:], *others]


def after_timeout(findings: Sequence[Finding], timed_out: Collection[int]) -> list[Finding]:
    """Findings that explain a timeout, the best one first: a rank that waited too long itself is rarely the cause."""
    known = [each for each in findings if each.kind.shows_wait or (each.kind is FindingKind.HARDWARE and each.ranks)]
    return sorted(known, key=lambda finding: bool(finding.ranks) and set(finding.ranks) <= set(timed_out))


def _with_timeouts(ranks: Sequence[Rank], timed_out: Collection[int]) -> Sequence[Rank]:
    """Ranks that timed out wait in the last collective that others have not begun: their record calls it retired."""

    def least(key: str) -> int:
        groups = [_in_group(rank, key) for rank in ranks]
        return min(group.begun for group in groups if group is not None)

    def waiting(rank: Rank, key: str, group: InGroup) -> InGroup:
        seq = group.begun
        if group.pending is not None or seq not in group.ops or seq <= least(key):
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


def _all_groups(ranks: Sequence[Rank]) -> list[tuple[str, str, tuple[int, ...]]]:
    """Each process group: its key, what people call it, and its global ranks.

    Two may share a name (a mesh): they are told apart by their ranks.
    """
    groups: dict[tuple[str, tuple[int, ...]], None] = {}
    present: dict[str, list[int]] = {}  # by group: the ranks that have recorded something of it
    for rank in ranks:
        for key in rank.groups:
            present.setdefault(key, []).append(rank.rank)
    incomparable = frozenset().union(*(rank.incomparable for rank in ranks))
    for rank in ranks:
        for key in (key for key in rank.groups if key not in incomparable):
            members = rank.members.get(key.partition(":")[0])
            groups[key, members or tuple(present[key])] = None
    count = Counter(key for key, _ in groups)
    names = labels(key for key, _ in groups)
    return [
        (key, names[key] if count[key] == 1 else f"{names[key]} ({format_ranks(members)})", members)
        for key, members in groups
    ]


def _in_group(rank: Rank, key: str) -> InGroup | None:
    """How far a rank is in a group, also where its record holds no collective of it (any more)."""
    name = key.partition(":")[0]
    if key in rank.groups or not rank.recorded:
        return rank.groups.get(key)
    begun = max(0, rank.counted.get(name, 0))
    return InGroup(begun=begun, done=begun, ops={}, sizes={}, pending=None)


def _judge_group(
    key: str, label: str, members: tuple[int, ...], known: Mapping[int, Rank], named: set[int], workdir: str
) -> list[Finding]:
    all_groups = {number: _in_group(known[number], key) for number in members if number in known}
    inside = {number: group for number, group in all_groups.items() if group is not None}
    waiting = {number: group.pending for number, group in inside.items() if group.pending is not None}
    if not waiting:
        return []
    different = _first_difference(inside)
    if different is not None:
        named |= set(inside)
        return [_mismatch(key, label, *different, known=known, workdir=workdir)]
    first = min(waiting.values(), key=lambda each: each.seq)
    at_it = [number for number, each in waiting.items() if each.seq == first.seq]
    since = max(waiting[number].since for number in at_it)
    what = f"{first.op} #{first.seq} of group {label}"
    wait = f"{format_ranks(at_it)} wait{'s' if len(at_it) == 1 else ''} in it for {since:.0f} s"
    late = [known[number] for number, group in inside.items() if group.begun < first.seq]
    late += [known[number] for number in members if number in known and number not in inside]
    absent = [number for number in members if number not in known]
    findings = []
    for rank in late[:SHOWN]:
        named.add(rank.rank)
        if rank.state in _CALLS:
            words = f"{rank.who} {_held(rank, workdir)}; {what} waits for it ({wait})"
            findings.append(Finding(FindingKind.STOPPED, (rank.rank,), words))
        elif rank.recorded or (rank.stack and not rank.communicates):
            words = f"{rank.who} has not joined {what} ({wait}): {place(rank, workdir)}"
            findings.append(Finding(FindingKind.LATE, (rank.rank,), words))
        else:
            words = f"{rank.who} does not report its position ({rank.why or 'no record'}), and {wait}: {what}"
            findings.append(Finding(FindingKind.SILENT, (rank.rank,), words))
    if len(late) > SHOWN:
        rest = [rank.rank for rank in late[SHOWN:]]
        named |= set(rest)
        findings.append(Finding(FindingKind.LATE, tuple(rest), f"{format_ranks(rest)} have not joined {what} either"))
    if absent:
        words = f"{what} waits for {format_ranks(absent)}, which did not answer ({wait})"
        findings.append(Finding(FindingKind.SILENT, tuple(absent), words))
    held = [known[number] for number in inside if known[number].state in _CALLS and number not in named]
    for rank in held:
        named.add(rank.rank)
        words = f"{rank.who} {_held(rank, workdir)}; it had started {what} ({wait})"
        findings.append(Finding(FindingKind.STOPPED, (rank.rank,), words))
    return findings or list(_all_joined(key, what, wait, waiting, known, workdir))


def _all_joined(
    key: str, what: str, wait: str, waiting: Mapping[int, Pending], known: Mapping[int, Rank], workdir: str
) -> Iterator[Finding]:
    """A collective that no rank is late for. With NCCL a rank only queues it: its GPU may not come to it."""
    first = min(each.seq for each in waiting.values())
    queued = [number for number, each in waiting.items() if each.seq == first and not each.started]
    if queued and any(each.started for each in waiting.values()):
        for number in queued[:SHOWN]:
            rank = known[number]
            words = f"{rank.who} has queued {what}, and its GPU has not started it ({wait}): {GPU_STUCK}"
            yield Finding(FindingKind.LATE, (number,), f"{words}; {place(rank, workdir)}")
        return
    verb = "queued" if queued and key.endswith("nccl") else "joined"
    words = f"all ranks have {verb} {what} ({wait}), and it has not finished: it is still running, "
    words += "or the network between them is broken" if verb == "joined" else UNTIMED
    yield Finding(FindingKind.STUCK, (), words)


def _first_difference(inside: Mapping[int, InGroup]) -> tuple[int, dict[int, str]] | None:
    """The first collective that is not the same on all ranks: its number, and what each rank has there.

    What has ended on all of them, whatever it was, is not what they wait for.
    """
    ended = min(group.done for group in inside.values())
    numbers = sorted({seq for group in inside.values() for seq in group.ops if seq > ended})
    for seq in numbers:
        ops = {number: group.ops[seq] for number, group in inside.items() if seq in group.ops}
        if len(set(ops.values())) > 1:
            return seq, ops
        if set(ops.values()) == {"all_reduce"}:  # the same size on every rank, or it hangs or adds up nonsense
            sizes = {number: f"all_reduce of {inside[number].sizes[seq]}" for number in ops}
            if len(set(sizes.values())) > 1:
                return seq, sizes
    return None


def _mismatch(
    key: str, label: str, seq: int, ops: Mapping[int, str], *, known: Mapping[int, Rank], workdir: str
) -> Finding:
    """Ranks that call different collectives. The fewer are the suspects; with as many on each side, all are."""
    count = Counter(ops.values()).most_common()
    tie = len(count) > 1 and count[0][1] == count[1][1]
    common = count[0][0]
    odd = [number for number, op in ops.items() if tie or op != common]
    words = []
    for op, _ in reversed(count):
        theirs = [number for number, each in ops.items() if each == op]
        one = known[theirs[0]]
        who = one.who if len(theirs) == 1 else format_ranks(theirs)
        pending = one.groups[key].pending
        place = where(one, workdir)
        if pending is not None and pending.seq == seq:
            place = f"at {place}"
        elif pending is not None:
            place = f"before {pending.op} #{pending.seq} at {place}"
        else:
            place = f"and continued to {place}"
        words.append(f"{who} call{'s' if len(theirs) == 1 else ''} {op} #{seq} {place}")
    return Finding(
        FindingKind.MISMATCH, tuple(odd), f"ranks call different collectives in group {label}: {'; '.join(words)}"
    )


def _judge_stacks(
    ranks: Sequence[Rank], named: set[int], workdir: str, timed_out: Collection[int] = ()
) -> list[Finding]:
    """Without a record: who is inside of torch.distributed, and who is not."""
    seen = [rank for rank in ranks if rank.stack and rank.state not in _CALLS and rank.rank not in named]
    seen = [rank for rank in seen if rank.rank not in timed_out]
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
        words = f"{rank.who} is in no collective while {wait}: {place(rank, workdir)}"
        if timed_out:
            words = f"{rank.who} did not come, and {format_ranks(timed_out)} waited in vain: {place(rank, workdir)}"
        findings.append(Finding(FindingKind.STACKS, (rank.rank,), words))
    spots = Counter((rank.user_frame, rank.call) for rank in inside)
    if not outside and len(spots) > 1:
        ways = []
        for (_, call), number in reversed(spots.most_common()):
            theirs = [rank for rank in inside if (rank.user_frame, rank.call) == (_, call)]
            who = theirs[0].who if number == 1 else format_ranks(rank.rank for rank in theirs)
            ways.append(f"{who} in {call or 'torch.distributed'} at {where(theirs[0], workdir)}")
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


def _nothing(ranks: Sequence[Rank], workdir: str) -> str:
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


def _held(rank: Rank, workdir: str) -> str:
    was = f", in {where(rank, workdir)}" if rank.stack else ""
    kernel = f" ({rank.wchan})" if rank.wchan not in ("", "0") else ""
    return describe_stall(rank.state, rank.pid, rank.host, where=was, kernel=kernel)
