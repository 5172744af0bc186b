"""Numbers in files of the kernel, and in variables: what is no number is none, in every alphabet."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpkit.node.calls.gpus import AmdGpu, memory_by_process
from ddpkit.node.kernel import read_number


@pytest.mark.parametrize(("text", "number"), [("12\n", 12), ("-1", -1), ("max", None), ("--1", None), ("²", None)])
def test_a_number_or_none(text: str, number: int | None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    assert read_number(str(tmp_path / "file")) == number


def test_a_size_that_is_no_number(tmp_path: Path) -> None:
    for pid, size in (("7", "4096"), ("8", "²")):
        folder = tmp_path / "sys/class/kfd/kfd/proc" / pid
        folder.mkdir(parents=True)
        (folder / "vram_1").write_text(size)
    assert memory_by_process(AmdGpu("1", "GPU-1", "", ""), f"{tmp_path}/") == {"7": 4096}
