"""ddpkit.files: a file is replaced as a whole or stays, and its end is read without the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpkit.files import read_tail, write_atomically


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_atomically(path, "one")
    reader = path.open()
    write_atomically(path, b"two\xff")
    with reader:
        assert reader.read() == "one", "who has it open reads on in the old one"
    assert path.read_bytes() == b"two\xff"
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]


def test_what_cannot_be_written_leaves_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    write_atomically(path, "one")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "two")
    assert path.read_text() == "one"
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]
    with pytest.raises(OSError, match="No such file"):
        write_atomically(tmp_path / "gone" / "run.json", "one")


def test_the_end_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    assert read_tail(path, 3) == b"789"
    assert read_tail(path, 99) == b"0123456789"
    with pytest.raises(OSError, match="No such file"):
        read_tail(tmp_path / "none", 1)
