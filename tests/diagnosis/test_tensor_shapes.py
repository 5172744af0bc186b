"""Sizes of tensors: a part of another, or another tensor."""

from __future__ import annotations

import pytest

from ddpkit.diagnosis.readers import part_of_tensor


@pytest.mark.parametrize(
    ("saved", "now", "words"),
    [
        ("torch.Size([257152, 2048])", "torch.Size([131661824])", "a flat shard of FSDP, 1 of 4"),
        ("torch.Size([8, 4])", "torch.Size([32])", "the same numbers, flat"),
        ("torch.Size([8, 4])", "torch.Size([5])", ""),
        ("torch.Size([8, 4])", "torch.Size([4, 4])", ""),
        ("torch.Size([8])", "torch.Size([4])", ""),
        ("torch.Size([8, 4])", "torch.Size([0])", ""),
        ("torch.Size([])", "torch.Size([1])", ""),
    ],
)
def test_a_flat_shard_is_recognised(saved: str, now: str, words: str) -> None:
    assert part_of_tensor(saved, now) == words
