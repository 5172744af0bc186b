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


def _sizes(text: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text)]
