"""Sizes of tensors in torch's messages: whether one is a part of another. Pure."""

from __future__ import annotations

import re
from math import prod


def part_of_tensor(saved: str, now: str) -> str:
    """Return the words on a flat shard in place of a whole tensor, from `torch.Size([8, 4])` and `torch.Size([16])`."""
    whole, part = _sizes(saved), _sizes(now)
    if len(part) != 1 or len(whole) < 2 or not part[0]:
        return ""
    number, rest = divmod(prod(whole), part[0])
    if rest or number < 1:
        return ""
    return f"a flat shard of FSDP, 1 of {number}" if number > 1 else "the same numbers, flat"


_TWO_SIZES = re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")
_LONG = 100_000  # numbers: more than a dimension of a layer or a batch has, unless a tensor is flat


def is_part_of_flat(text: str) -> bool:
    """Whether torch compares two flat tensors of which one is a half, a third, ... of the other, but for padding."""
    match = _TWO_SIZES.search(text)
    if match is None:
        return False
    small, large = sorted(map(int, match.groups()))
    return small > _LONG and round(large / small) > 1 and abs(large / small - round(large / small)) < 1e-4


def _sizes(text: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text)]
