"""The record of what --sync sent: each version of a file is known, and nothing that others can write is believed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ddpkit.execution import sync_record
from ddpkit.execution.sync_record import keep_sent, read_sent


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/ddpkit/sync"


def test_every_version_is_kept_also_of_a_file_that_is_gone() -> None:
    assert read_sent("/p") == {}
    assert keep_sent("/p", {"a": (1, 10, ""), "b": (1, 10, "digest")}) == ""
    assert keep_sent("/p", {"b": (1, 10, "")}) == ""  # as on another branch of git
    assert keep_sent("/p", {"a": (2, 20, ""), "b": (1, 10, "")}) == ""
    assert read_sent("/p") == {"a": [(1, 10, ""), (2, 20, "")], "b": [(1, 10, "digest")]}
    assert read_sent("/other") == {}


def test_two_contents_with_one_size_and_time_are_both_known() -> None:
    for content in ("one", "", "other"):
        keep_sent("/p", {"a": (1, 10, content)})
    assert read_sent("/p") == {"a": [(1, 10, "one"), (1, 10, "other")]}


def test_nothing_is_written_where_nothing_is_new(state: Path) -> None:
    keep_sent("/p", {"a": (1, 10, "")})
    (file,) = state.iterdir()
    before = file.stat()
    keep_sent("/p", {"a": (1, 10, "")})
    assert (file.stat().st_ino, file.stat().st_mode & 0o777) == (before.st_ino, 0o600)


def test_it_does_not_grow_without_end(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_record, "LIMIT", 3000)
    monkeypatch.setattr(sync_record, "VERSIONS", 3)
    monkeypatch.setattr(sync_record, "RECORDS", 2)
    for when in range(6):
        keep_sent("/p", {"a": (1, when, "")})
    assert read_sent("/p") == {"a": [(1, 3, ""), (1, 4, ""), (1, 5, "")]}
    names = {f"file-{number}": (1, 10, "") for number in range(300)}
    keep_sent("/p", names)
    kept = read_sent("/p")
    assert set(kept) < set(names)
    assert "file-299" in kept
    (state / "mine.json").write_text("mine")
    for number in range(4):
        keep_sent(f"/p{number}", {"a": (1, 10, "")})
    assert len(list(state.iterdir())) == 3
    assert read_sent("/p3")
    assert (state / "mine.json").exists()


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}', '{"a": [[1, "2", ""]]}', '{"a": [[1, 2]]}', "[" * 100_000])
def test_a_broken_record_is_none(state: Path, text: str) -> None:
    keep_sent("/p", {"a": (1, 10, "")})
    (file,) = state.iterdir()
    file.write_text(text)
    assert read_sent("/p") == {}
    keep_sent("/p", {"a": (1, 10, "")})
    assert json.loads(file.read_text()) == {"a": [[1, 10, ""]]}


def test_a_record_that_others_can_write_is_none(state: Path) -> None:
    keep_sent("/p", {"a": (1, 10, "")})
    (file,) = state.iterdir()
    file.chmod(0o666)
    assert read_sent("/p") == {}
    assert keep_sent("/p", {"a": (1, 10, "")}) == ""  # a new one
    state.chmod(0o777)
    assert read_sent("/p") == {}
    assert "others can change it" in keep_sent("/p", {"a": (1, 10, "")})


def test_a_state_directory_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path / "file"))
    assert read_sent("/p") == {}
    assert keep_sent("/p", {"a": (1, 10, "")})
