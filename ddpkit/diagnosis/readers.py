"""Readers: values of an entry that lines of a log show beside its pattern, by the name that the entry gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ddpkit.diagnosis.collectives import joined_by_all, last_error
from ddpkit.diagnosis.outcome import CODES

# Of each major version, a driver runs all minor ones. CUDA 10 and older have no such index.
_WHEELS = {11: "cu118", 12: "cu126", 13: "cu130"}


def cuda_of_driver(version: str) -> Mapping[str, str]:
    """Return the CUDA version of a driver and the index of wheels for it, as values of an entry: 12040 is CUDA 12.4."""
    major, rest = divmod(int(version or 0), 1000)
    if not major:
        return {}
    wheel = _WHEELS.get(major)
    return {"cuda": f"{major}.{rest // 10}", **({"wheel": wheel} if wheel else {})}


_UNITS = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 1024.0}  # in GiB
_SIZE = r"(?P<number>(?<!\d)\d+(?:\.\d+)?) (?P<unit>bytes|[KMGT]iB)"
_TOTAL = (re.compile(rf"total capac\w+ of {_SIZE}"), re.compile(rf"{_SIZE} total capacity"))
_FREE = (re.compile(rf"of which {_SIZE} is free"), re.compile(rf"{_SIZE} free"))
_IN_TOTAL = re.compile(rf"{_SIZE} reserved in total by PyTorch")  # torch 1.4 to 2.0
_ALLOCATED = (re.compile(rf"{_SIZE} is allocated by PyTorch"), re.compile(rf"{_SIZE} already allocated"))
# Beside what is allocated: from torch 2.1, and up to torch 1.3.
_RESERVED = (re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated"), re.compile(rf"{_SIZE} cached"))
_WANTED = re.compile(rf"Tried to allocate {_SIZE}")
_OWN = re.compile(rf"this process has {_SIZE} memory in use")
_PROCESS = re.compile(rf"Process (?P<pid>\d+) has {_SIZE} memory in use")
# Without a figure for this process, a part of the rest is its own: CUDA's context, NCCL's buffers, libraries.
_SURE = 1 / 3
_NOTABLE = 1 / 10


def memory_of_others(text: str) -> str:
    """Return the words on the memory that other processes use; empty where they use little, or nothing shows it.

    In a container, torch does not know its own process id there, and lists itself as one of the processes.
    """
    total = _find(_TOTAL, text)
    if not total or _is_too_small(text):
        return ""
    processes = [
        (_in_gib(each), f"process {each['pid']} has {each['number']} {each['unit']}")
        for each in _PROCESS.finditer(text)
    ]
    allocated, torch = _find(_ALLOCATED, text), _find((_IN_TOTAL,), text)
    if torch is None and allocated is not None:
        torch = allocated + (_find(_RESERVED, text) or 0.0)
    if processes:
        if not _OWN.search(text):  # one of them is this process
            processes.remove(min(processes, key=lambda each: abs(each[0] - (torch or 0.0))))
        held = sum(size for size, _ in processes)
        largest = max(processes, default=(0.0, ""))[1]
        return largest if held >= total * _NOTABLE else ""
    free = _find(_FREE, text)
    if free is None or torch is None or _OWN.search(text):
        return ""
    held = total - free - torch
    return f"about {held:.1f} GiB of {total:.1f}" if held >= total * _SURE else ""


def _is_too_small(text: str) -> bool:
    """Whether the request is larger than the GPU: other processes are not the reason."""
    return (_find((_WANTED,), text) or 0.0) > (_find(_TOTAL, text) or float("inf"))


def _in_gib(match: re.Match[str]) -> float:
    return float(match["number"]) * _UNITS[match["unit"]]


def _find(patterns: tuple[re.Pattern[str], ...], text: str) -> float | None:
    return next((_in_gib(match) for each in patterns if (match := each.search(text))), None)


REPORT = 400  # lines around a match that can hold what srun reports of all tasks


_TWO_SIZES = re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")
_LONG = 100_000  # numbers: more than a dimension of a layer or a batch has, unless a tensor is flat


def is_part_of_flat(text: str) -> bool:
    """Whether torch compares two flat tensors of which one is a half, a third, ... of the other, but for padding."""
    match = _TWO_SIZES.search(text)
    if match is None:
        return False
    small, large = sorted(map(int, match.groups()))
    return small > _LONG and round(large / small) > 1 and abs(large / small - round(large / small)) < 1e-4


Values = Mapping[str, str]
_PORT_TAKEN = re.compile(r"Error: The server socket has failed to ")
_TASK_ENDS = re.compile(r"srun: error: (?P<host>\S+): tasks? (?P<tasks>[\d,-]+): Exited with exit code")


def _words(name: str, words: str) -> Values:
    return {name: words} if words else {}


def meaning_of(code: int) -> Values:
    """Return the usual meaning of an exit code; nothing where it has none."""
    return {"meaning": CODES[code]} if code in CODES else {}


def tasks_of_hosts(lines: Sequence[str]) -> Values:
    """Return the number of tasks where srun reports more than hosts, and each of several hosts had a port in use."""
    ends = [end for line in lines if (end := _TASK_ENDS.search(line))]
    hosts = len({end["host"] for end in ends})
    tasks = 1 + max((int(task) for end in ends for task in re.findall(r"\d+", end["tasks"])), default=0)
    twice = 0 < hosts < tasks and (hosts == 1 or sum(map(bool, map(_PORT_TAKEN.search, lines))) >= hosts)
    return {"number": str(tasks)} if twice else {}


# Each gets the values of a match, the lines of its log, and the index of its line.
READERS: Mapping[str, Callable[[Values, Sequence[str], int], Values]] = {
    "joined": lambda values, lines, index: joined_by_all(lines, index),
    "driver": lambda values, lines, index: cuda_of_driver(values.get("version", "")),
    "flat-part": lambda values, lines, index: _words("flat", "1" if is_part_of_flat(lines[index]) else ""),
    "last-error": lambda values, lines, index: last_error(lines, index),
    "tasks-of-hosts": lambda values, lines, index: tasks_of_hosts(lines[max(0, index - REPORT) : index + REPORT]),
    "memory-of-others": lambda values, lines, index: _words("reason", memory_of_others(lines[index])),
}
# These read the whole run, after its first failure is found.
STORIES = frozenset(
    ("agents-wait", "different-calls", "missing-ranks", "other-work", "twice", "shared-gpu", "slow-names", "versions")
)
