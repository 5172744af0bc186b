"""What the hardware of a node shows of a hang: messages of its kernel, errors that increase, lost or slow GPUs. Pure.

`ddpkit/node/hardware.py` looks at it twice, beside the ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree

from ddpkit.monitor.hang import SHOWN, Finding, FindingKind
from ddpkit.monitor.rank_state import Rank
from ddpkit.node.calls.gpu_inventory import FAULTS_OF_CLOCKS, LOST, clock_reasons

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

    The ranks of a finding are guilty: those of a slow GPU are not.
    """
    here = {rank.pid: rank.rank for rank in ranks if rank.host == host}
    users: dict[str, tuple[int, ...]] = {}  # by PCI address
    slow = []
    for gpu in _gpus(hardware.smi):
        bus = _address(gpu.findtext("pci/pci_bus_id") or "")
        pids = [each.text or "" for each in gpu.iterfind("processes/process_info/pid")]
        users[bus] = tuple(here[int(pid)] for pid in pids if pid.isdecimal() and int(pid) in here)
        what = [reason for reason in clock_reasons(gpu) if reason in FAULTS_OF_CLOCKS]
        lost = any((each.text or "").strip() in LOST for each in gpu.iter())
        if lost or what:
            clock = gpu.findtext("clocks/sm_clock") or "unknown"
            words = "is lost" if lost else f"is slowed down ({', '.join(what)}; its SM clock: {clock})"
            found = _told(host, f"GPU {bus}", users[bus], words)
            slow.append(found if lost else replace(found, ranks=()))
    told: dict[tuple[str, str], Finding] = {}
    for line in hardware.kernel:
        xid = XID.search(line)
        if xid:
            bus = _address(xid[1])
            told.setdefault((bus, xid[2]), _told(host, f"GPU {bus}", users.get(bus, ()), f"the kernel reports {line}"))
    grown = [f"{name} +{number}" for name, number in hardware.errors.items()]
    yield from [*told.values(), *slow][:SHOWN]
    if grown:
        rest = f" and {len(grown) - SHOWN} more" if len(grown) > SHOWN else ""
        words = f"errors increase, in {hardware.seconds:.1f} s: {', '.join(grown[:SHOWN])}{rest}"
        yield Finding(kind=FindingKind.HARDWARE, ranks=(), words=f"{host}: {words}")


def _told(host: str, part: str, ranks: tuple[int, ...], words: str) -> Finding:
    who = f" (rank {', '.join(map(str, ranks))})" if ranks else ""
    return Finding(kind=FindingKind.HARDWARE, ranks=ranks, words=f"{part} of {host}{who}: {words}")


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
