"""ddpkit.files: a file is replaced as a whole or stays, and its end is read without the rest."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpkit.files import append, read_bounded, read_tail, write_atomically


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

    def full(source: str, target: str, **_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
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


def test_what_is_read_has_a_bound_and_is_a_regular_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_bounded(path, 4)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "link").symlink_to(path)
    for name in ("pipe", "zero", "link"):
        with pytest.raises(OSError, match=name):
            read_bounded(tmp_path / name, 5)
        with pytest.raises(OSError, match=name):
            read_tail(tmp_path / name, 5)
    with pytest.raises(OSError, match=r"not a regular file.*zero"):
        read_bounded(tmp_path / "zero", 5, follow=True)
    assert read_bounded(tmp_path / "link", 5, follow=True) == b"12345"


def test_lines_are_appended_to_a_file_and_to_no_link(tmp_path: Path) -> None:
    append(tmp_path / "requests", "15\n")
    append(tmp_path / "requests", b"3\n")
    assert (tmp_path / "requests").read_text() == "15\n3\n"
    (tmp_path / "link").symlink_to(tmp_path / "requests")
    with pytest.raises(OSError, match="link"):
        append(tmp_path / "link", "1\n")


def of_a_link(path: Path) -> None:
    (path.parent / "bashrc").write_text("mine")
    path.symlink_to(path.parent / "bashrc")


@pytest.mark.parametrize("make", [of_a_link, Path.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_neither_replaced_nor_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "report.html"
    make(path)
    before = {each.name: each.lstat().st_ino for each in tmp_path.iterdir()}
    with pytest.raises(OSError, match=r"not a regular file.*report\.html"):
        write_atomically(path, "<html>")
    assert {each.name: each.lstat().st_ino for each in tmp_path.iterdir()} == before
    with pytest.raises(OSError, match=r"report\.html"):
        read_tail(path, 5)


def test_a_link_that_is_named_is_read_and_a_device_is_not(tmp_path: Path) -> None:
    of_a_link(tmp_path / "link")
    assert read_tail(tmp_path / "link", 2, follow=True) == b"ne"
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(OSError, match=r"not a regular file.*zero"):
        read_tail(tmp_path / "zero", 5, follow=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_replaced_only_where_it_is_shared(tmp_path: Path) -> None:
    path = tmp_path / "bad_nodes.json"
    path.write_text("one")
    os.chown(path, 12345, 12345)
    with pytest.raises(OSError, match="another user"):
        write_atomically(path, "two")
    assert path.read_text() == "one"
    write_atomically(path, "two", shared=True)
    assert path.read_text() == "two"
