"""The list of NCCL's warnings without an entry, on a source with the forms that NCCL's own files have."""

from __future__ import annotations

from pathlib import Path

import nccl_warnings
import pytest

SOURCE = r"""
#define CHECK(name) if (ret) { WARN("Call to " name " went \"wrong\" with error %s", strerror(ret)); }
void init() {
  INFO(NCCL_INIT, "no warning");
  WARN("Duplicate GPU detected : rank %d and rank %d both on CUDA device %lx", rank, other, busId);
  WARN("an unheard-of state of channel %02d: "
       "0x%" PRIx64 " in %.1f s\n", channel, state, seconds);
  WARN(message);
}
"""


def test_only_warnings_without_an_entry_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "init.cc").write_text(SOURCE)
    (tmp_path / "notes.md").write_text('WARN("no source")')
    assert nccl_warnings.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        'src/init.cc:2: Call to word went "wrong" with error %s',
        "src/init.cc:6: an unheard-of state of channel %02d: 0x%x in %.1f s",
        "2 warnings without an entry",
    ]


def test_fields_become_examples() -> None:
    form = "rank %d%% of %s at %p, %-4lu 0x%lx %5.2f"
    assert nccl_warnings.example(form) == "NCCL WARN rank 1% of word at 0x7f0000000000, 1 0x1a 1.0"


def test_a_directory_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert nccl_warnings.main([]) == 2
    assert "usage: nccl_warnings.py DIRECTORY_OF_NCCL" in capsys.readouterr().err
