"""Evidence of a hang beside stacks and records: the hardware of a node, and NCCL's own watch (RAS). Pure.

`ddpkit/node/calls/hardware.py` looks twice, beside the ranks: messages of the kernel, errors that increase, lost or
slow GPUs. NCCL RAS answers with JSON in 2.28 and later, with text in 2.24 and later. Its host names are addresses, and
its ranks are those of a communicator. A process that has its number on one host alone is known by it; else the rank is
that of a communicator of all ranks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree

from ddpkit.monitor.hang import SHOWN, Finding, FindingKind, place
from ddpkit.monitor.rank_state import Rank
from ddpkit.node.calls.gpu_inventory import FAULTS_OF_CLOCKS, LOST, clock_reasons
from ddpkit.text import format_ranks

LARGEST = 16 << 20  # characters of what nvidia-smi says
XID = re.compile(r"S?Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")
ERRORS = re.compile(r"(?i)err|discard|drop|downed|retry|timeout|retrans|out_of_sequence|nak|replay|recover")


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Facts of one host. Counters: by name, before and after."""

    seconds: float
    counters: Mapping[str, tuple[int, int]]
    kernel: tuple[str, ...]
    imex_channels: tuple[str, ...]
    smi: str  # XML of nvidia-smi
    why: str  # something is not known

    @property
    def errors(self) -> dict[str, int]:
        """Counters of errors that have increased, and by how much."""
        return {name: new - old for name, (old, new) in self.counters.items() if new > old and ERRORS.search(name)}


def read(value: object) -> Hardware:
    """Read a host's answer. Raises KeyError, TypeError, ValueError."""
    if not isinstance(value, dict):
        raise TypeError("no facts of its hardware")
    return Hardware(
        seconds=float(value["seconds"]),
        counters={str(name): (int(old), int(new)) for name, (old, new) in value["counters"].items()},
        kernel=tuple(map(str, value["kernel"])),
        imex_channels=tuple(map(str, value["imex_channels"])),
        smi=str(value["smi"])[:LARGEST],
        why=str(value["why"]),
    )


def findings(host: str, hardware: Hardware, ranks: Sequence[Rank]) -> Iterator[Finding]:
    """What is wrong with a host's hardware. GPUs have the ranks whose processes nvidia-smi lists on them.

    The ranks of a finding are guilty. Those of a slow GPU are not: such a finding has none.
    """
    here = {rank.pid: rank.rank for rank in ranks if rank.host == host}
    users: dict[str, tuple[int, ...]] = {}  # ranks by the PCI address of their GPU
    lost_or_slow = []
    for gpu in _gpus(hardware.smi):
        bus = _address(gpu.findtext("pci/pci_bus_id") or "")
        pids = [each.text or "" for each in gpu.iterfind("processes/process_info/pid")]
        users[bus] = tuple(here[int(pid)] for pid in pids if pid.isdecimal() and int(pid) in here)
        reasons = [reason for reason in clock_reasons(gpu) if reason in FAULTS_OF_CLOCKS]
        lost = any((each.text or "").strip() in LOST for each in gpu.iter())
        if lost or reasons:
            clock = gpu.findtext("clocks/sm_clock") or "unknown"
            words = "is lost" if lost else f"is slowed down ({', '.join(reasons)}; its SM clock: {clock})"
            finding = _of_gpu(host, bus, users[bus], words)
            lost_or_slow.append(finding if lost else replace(finding, ranks=()))
    reported: dict[tuple[str, str], Finding] = {}  # by GPU and number of the Xid: the first report of each
    for line in hardware.kernel:
        xid = XID.search(line)
        if xid:
            bus = _address(xid[1])
            reported.setdefault((bus, xid[2]), _of_gpu(host, bus, users.get(bus, ()), f"the kernel reports {line}"))
    grown = [f"{name} +{number}" for name, number in hardware.errors.items()]
    yield from [*reported.values(), *lost_or_slow][:SHOWN]
    if grown:
        rest = f" and {len(grown) - SHOWN} more" if len(grown) > SHOWN else ""
        words = f"errors increase, in {hardware.seconds:.1f} s: {', '.join(grown[:SHOWN])}{rest}"
        yield Finding(FindingKind.HARDWARE, (), f"{host}: {words}")


def _of_gpu(host: str, bus: str, ranks: tuple[int, ...], words: str) -> Finding:
    who = f" (rank {', '.join(map(str, ranks))})" if ranks else ""
    return Finding(FindingKind.HARDWARE, ranks, f"GPU {bus} of {host}{who}: {words}")


def _gpus(text: str) -> Iterator[ElementTree.Element]:
    try:
        yield from ElementTree.fromstring(text[text.index("<nvidia_smi_log>") :]).iter("gpu")
    except (ValueError, ElementTree.ParseError):
        return


def _address(bus: str) -> str:
    """The kernel's address of a PCI device, without its function: `0000:3b:00` for `00000000:3B:00.0`."""
    return bus.lower().partition(".")[0][-10:]


def describe(host: str, hardware: Hardware) -> str:
    """A host's part of `hardware.txt`: what has changed, and what drivers said."""
    lines = [f"{host}: two looks, {hardware.seconds:.1f} s apart" + (f" ({hardware.why})" if hardware.why else "")]
    moved = {name: both for name, both in hardware.counters.items() if both[0] != both[1] or ERRORS.search(name)}
    lines += [f"    {name}: {old} -> {new} (+{new - old})" for name, (old, new) in moved.items()]
    lines += [f"    IMEX channels: {', '.join(hardware.imex_channels)}"] if hardware.imex_channels else []
    return "\n".join([*lines, *(f"    {line}" for line in hardware.kernel)]) + "\n"


# ---- NCCL RAS


_COUNTS = re.compile(r"Communicator ranks have different (\w+) operation counts\n((?: +Rank \d.*\n?)+)")
_COUNT = re.compile(r"Rank \d+ has launched up to operation (\d+) -- GPU \d+ managed by process (\d+) on node")
# NCCL 2.28.9 writes no comma between these two fields of a missing rank.
_NO_COMMA = re.compile(r'("nvml_dev": -?\d+)(\s+"status")')
# Results of NCCL's functions that are errors (nccl.h): 0 is success, and 7 is work in progress.
_ERRORS = {
    1: "unhandled CUDA error",
    2: "system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote process error",
}


def late_by_ras(text: str, ranks: Sequence[Rank], workdir: str = "") -> list[Finding]:
    """Ranks that have begun fewer operations than others, by NCCL's own counts."""
    of_process = _by_process(ranks)
    findings: dict[int, Finding] = {}
    for call, counts in _counts(text):
        most = max(counts.values(), default=0)
        known = {pid: of_process[pid] for pid in counts if pid in of_process}
        waiting = format_ranks(rank.rank for pid, rank in known.items() if counts[pid] == most)
        for pid, rank in known.items():
            if counts[pid] < most and len(findings) < SHOWN:
                joined = f"has not joined {call} #{most} of NCCL, which {waiting} called"
                words = f"{rank.who} {joined}: {place(rank, workdir)}"
                findings[rank.rank] = Finding(FindingKind.LATE, (rank.rank,), words)
    return [*findings.values()]


def ras_problems(text: str, ranks: Sequence[Rank] = ()) -> list[Finding]:
    """What RAS calls errors and warnings: in its own words where it answered with text."""
    report = read_ras(text)
    if report is not None:
        return list(_problems(report, ranks))
    _, *sections = re.split(r"^(?:Errors|Warnings)$", text, flags=re.MULTILINE)
    problems = "\n".join(sections)
    lines = [line.strip() for line in problems.splitlines() if line.strip() and not set(line.strip()) <= {"*", "="}]
    numbers = tuple(sorted({int(number) for number in re.findall(r"\b[Rr]ank:? (\d+)\b", problems)}))
    if not lines:
        return []
    return [Finding(FindingKind.RAS, numbers, f"NCCL RAS: {' / '.join(lines[:12])}")]


@dataclass(frozen=True, kw_only=True)
class Process:
    """One rank of a communicator."""

    pid: int
    who: str
    number: int  # in the communicator
    counts: Mapping[str, int]  # of operations that it has begun
    problems: tuple[str, ...]


Communicator = tuple[Process, ...]


def read_ras(text: str) -> list[Communicator] | None:
    """The JSON of an answer; None: it is text, or was cut off. AMD's RCCL may have lines of text before it."""
    start = text.find("{")
    for repaired in (text[start:], _NO_COMMA.sub(r"\1,\2", text[start:])) if start >= 0 else ():
        try:
            return [tuple(_processes(each)) for each in json.loads(repaired)["communicators"]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return None


def _processes(communicator: Mapping[str, Any]) -> Iterator[Process]:
    size = int(communicator["size"])
    for each in (*communicator["ranks"], *communicator.get("missing_ranks", ())):
        pid, number, status = int(each["pid"]), int(each["rank"]), each["status"]
        counts = {str(call): int(count) for call, count in each.get("collective_counts", {}).items()}
        who = f"rank {number} of {size} (process {pid} on {each['host']})"
        yield Process(pid=pid, who=who, number=number, counts=counts, problems=tuple(_status_words(status)))


def _status_words(status: Mapping[str, Any]) -> Iterator[str]:
    """What a status says in words; nothing where it is well. A missing rank has another status."""
    if "considered_dead" in status:
        gone = "does not answer" if status["unresponsive"] else "has left the communicator"
        yield "cannot be reached any more" if status["considered_dead"] else gone
        return
    for name, what in (("init_state", "NCCL did not start in it"), ("async_error", "NCCL failed in it")):
        if int(status[name]) in _ERRORS:
            yield f"{what}: {_ERRORS[int(status[name])]}"
    if status["abort_flag"]:
        yield "it has aborted the communicator"


def _by_process(ranks: Sequence[Rank]) -> dict[int, Rank]:
    """Ranks by the numbers of their processes. A number that processes of two hosts have is left out."""
    numbers = [rank.pid for rank in ranks]
    return {rank.pid: rank for rank in ranks if rank.pid and numbers.count(rank.pid) == 1}


def _counts(text: str) -> Iterator[tuple[str, dict[int, int]]]:
    """Yield each operation whose number differs within a communicator, with the number that each process has begun."""
    report = read_ras(text)
    if report is None:
        for call, rows in _COUNTS.findall(text):
            yield call, {int(pid): int(number) for number, pid in _COUNT.findall(rows)}
        return
    for communicator in report:
        living = [each for each in communicator if each.counts]
        for call in dict.fromkeys(call for each in living for call in each.counts):
            numbers = {each.pid: each.counts.get(call, 0) for each in living}
            if len(set(numbers.values())) > 1:
                yield call, numbers


def _problems(report: Sequence[Communicator], ranks: Sequence[Rank]) -> Iterator[Finding]:
    of_process = _by_process(ranks)
    for communicator in report:
        for each in [each for each in communicator if each.problems][:SHOWN]:
            known = of_process.get(each.pid)
            has_all_ranks = len(communicator) == len(ranks)  # then its numbers are those of the ranks
            number = known.rank if known else each.number if has_all_ranks else None
            words = f"NCCL RAS: {known.who if known else each.who}: {', '.join(each.problems)}"
            yield Finding(FindingKind.RAS, () if number is None else (number,), words)
