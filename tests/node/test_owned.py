"""ddpkit.node.owned: only what ddpkit made is deleted, moved or overwritten."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpkit.node import owned
from ddpkit.node.owned import NotOwnedError


def contents(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))


def test_a_directory_that_ddpkit_made_is_deleted_with_its_content(tmp_path: Path) -> None:
    path, outside = tmp_path / "copy", tmp_path / "data"
    outside.mkdir()
    (outside / "set.bin").write_text("months of work")
    owned.make_directory(str(path), "stage")
    (path / "inner").mkdir()
    (path / "inner/file").write_text("x")
    (path / "inner/link").symlink_to(outside)
    (path / "link").symlink_to(outside)
    owned.remove_directory(str(path), "stage")
    assert contents(tmp_path) == ["data", "data/set.bin"]


def users_own(path: Path) -> None:
    path.mkdir()


def of_another_kind(path: Path) -> None:
    owned.make_directory(str(path), "run")


def link_to_one(path: Path) -> None:
    owned.make_directory(str(path.parent / "real"), "stage")
    path.symlink_to(path.parent / "real")


def file(path: Path) -> None:
    path.write_text("")


def linked_marker(path: Path) -> None:
    path.mkdir()
    (path.parent / "text").write_text("stage\n")
    (path / owned.MARKER).symlink_to(path.parent / "text")


def pipe_as_marker(path: Path) -> None:
    path.mkdir()
    os.mkfifo(path / owned.MARKER)


@pytest.mark.parametrize("made", [users_own, of_another_kind, link_to_one, file, linked_marker, pipe_as_marker])
def test_anything_else_stays(tmp_path: Path, made: Callable[[Path], None]) -> None:
    path = tmp_path / "imagenet-1k"
    made(path)
    if path.is_dir():
        (path / "data").write_text("months of work")
    before = contents(tmp_path)
    with pytest.raises(NotOwnedError, match="imagenet-1k"):
        owned.remove_directory(str(path), "stage")
    assert contents(tmp_path) == before
    assert not owned.is_owned(str(path), "stage")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_stays(tmp_path: Path) -> None:
    path = tmp_path / "copy"
    owned.make_directory(str(path), "stage")
    os.chown(path, 12345, 12345)
    with pytest.raises(NotOwnedError, match="another user"):
        owned.remove_directory(str(path), "stage")
    assert path.is_dir()


def test_a_directory_is_made_only_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(FileExistsError):
        owned.make_directory(str(tmp_path / "data"), "stage")
    assert contents(tmp_path) == ["data"]


def test_files_whose_names_are_not_ours_stay(tmp_path: Path) -> None:
    path = tmp_path / "run"
    owned.make_directory(str(path), "run")
    for name in ("rank_0.log", "checkpoint.pt", "all.log"):
        (path / name).write_text(name)
    (path / "sub.log").mkdir()
    left = owned.remove_files(str(path), "run", lambda name: name.endswith(".log"))
    assert left == [owned.MARKER, "checkpoint.pt", "sub.log"]
    assert contents(path) == left


def test_a_file_is_replaced_by_a_draft_that_is_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    owned.replace_file(str(path), b"one")
    owned.replace_file(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert contents(tmp_path) == ["run.json"]


def a_link(path: Path) -> None:
    (path.parent / "bashrc").write_text("mine")
    path.symlink_to(path.parent / "bashrc")


@pytest.mark.parametrize("made", [a_link, users_own, os.mkfifo])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, made: Callable[[Path], None]) -> None:
    path = tmp_path / "report.html"
    made(path)
    before = contents(tmp_path)
    with pytest.raises(NotOwnedError, match=r"report\.html"):
        owned.replace_file(str(path), b"<html>")
    assert contents(tmp_path) == before
    with pytest.raises(OSError, match=r"report\.html"):
        owned.open_for_append(str(path))
    with pytest.raises(FileExistsError):
        owned.create_file(str(path), b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_replaced_only_where_it_is_shared(tmp_path: Path) -> None:
    path = tmp_path / "bad_nodes.json"
    path.write_text("one")
    os.chown(path, 12345, 12345)
    with pytest.raises(NotOwnedError, match="another user"):
        owned.replace_file(str(path), b"two")
    assert path.read_text() == "one"
    owned.replace_file(str(path), b"two", shared=True)
    assert path.read_text() == "two"


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        owned.replace_file(str(tmp_path / "gone/run.json"), b"x")
    assert contents(tmp_path) == []


def test_lines_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "requests"
    for line in (b"15\n", b"3\n"):
        with open(owned.open_for_append(str(path)), "wb") as opened:
            opened.write(line)
    assert path.read_bytes() == b"15\n3\n"
