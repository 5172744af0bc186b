"""Sizes in a message of torch on full GPU memory: whether other processes use the memory. Pure."""

from __future__ import annotations

import re

_UNITS = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 1024.0}  # in GiB
_SIZE = r"(?P<number>(?<!\d)\d+(?:\.\d+)?) (?P<unit>bytes|[KMGT]iB)"
_TOTAL = (re.compile(rf"total capac\w+ of {_SIZE}"), re.compile(rf"{_SIZE} total capacity"))
_FREE = (re.compile(rf"of which {_SIZE} is free"), re.compile(rf"{_SIZE} free"))
_TORCH = (
    re.compile(rf"{_SIZE} reserved in total by PyTorch"),  # up to torch 2.0
    re.compile(rf"{_SIZE} cached"),  # up to torch 1.3
)
_ALLOCATED = re.compile(rf"{_SIZE} is allocated by PyTorch")  # from torch 2.1, with what is reserved and not allocated
_RESERVED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_WANTED = re.compile(rf"Tried to allocate {_SIZE}")
_OWN = re.compile(rf"this process has {_SIZE} memory in use")
_PROCESS = re.compile(rf"Process (?P<pid>\d+) has {_SIZE} memory in use")
# Without a figure for this process, a part of the rest is its own: CUDA's context, NCCL's buffers, libraries.
_SURE = 1 / 3
_NOTABLE = 1 / 10
_CONTEXT = 2.0  # GiB: what a rank holds on a GPU on which it computes nothing


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
    allocated = _find((_ALLOCATED,), text)
    torch = _find(_TORCH, text) if allocated is None else allocated + (_find((_RESERVED,), text) or 0.0)
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


def contexts_of_ranks(text: str) -> str:
    """Return the words on small processes of one size beside this one: the job's other ranks; empty without them."""
    processes = list(_PROCESS.finditer(text))
    sizes = {each["number"] for each in processes}
    if (
        _is_too_small(text)
        or len(processes) < 2
        or len(sizes) != 1
        or _in_gib(processes[0]) > _CONTEXT
        or not _OWN.search(text)
    ):
        return ""
    return f"{len(processes)} with {processes[0]['number']} {processes[0]['unit']} each"


def _is_too_small(text: str) -> bool:
    """Whether the request is larger than the GPU: other processes are not the reason."""
    return (_find((_WANTED,), text) or 0.0) > (_find(_TOTAL, text) or float("inf"))


def _in_gib(match: re.Match[str]) -> float:
    return float(match["number"]) * _UNITS[match["unit"]]


def _find(patterns: tuple[re.Pattern[str], ...], text: str) -> float | None:
    return next((_in_gib(match) for each in patterns if (match := each.search(text))), None)
