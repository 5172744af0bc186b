"""ddpkit.files: a file is replaced as a whole or stays, and its end is read without the rest."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from ddpkit.files import append, create, make_directories, make_directory, read_bounded, read_tail, write_atomically
from ddpkit.run.record import Attempt, AttemptsFile, Rules, load_attempts


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


def killed_at(number: int, write: Callable[[], None]) -> bool:
    """Call `write` in a fork that kills itself before or after a call of the system; False: it came to its end."""
    calls = count()

    def kill(_: object, event: str, function: object) -> None:
        of_system = getattr(function, "__module__", "") == "posix" or getattr(function, "__name__", "") == "write"
        if event.startswith("c_") and of_system and next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        try:
            sys.setprofile(kill)
            write()
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("first", [True, False])
def test_whoever_writes_the_attempts_of_a_job_and_is_killed_leaves_the_old_file_or_the_new_one(
    first: bool, tmp_path: Path
) -> None:
    rules = Rules(
        retries=1, retry_codes=(), stop_codes=(), progress="", metrics="", bad_nodes="", workdir=".", command=("x",)
    )
    old = AttemptsFile(rules=rules, nodes=1, hosts=("node1",))
    new = replace(old, attempts=(Attempt(number=1, hosts=("node1",), started=1.0, verdict="x" * 10_000),))
    seen = []
    for number in count():
        folder = tmp_path / str(number)
        folder.mkdir()
        if not first:
            old.save(folder)
        killed = killed_at(number, lambda folder=folder: new.save(folder))  # type: ignore[misc]
        seen.append(load_attempts(folder))
        assert seen[-1] in (new, None if first else old)
        old.save(folder)  # whatever the killed one left is in nobody's way
        assert load_attempts(folder) == old
        if not killed:
            break
    assert len(seen) > 10
    assert seen[0] == (None if first else old)
    assert seen[-1] == seen[-2] == new, "killed after the rename, too"


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


OTHER = 12345  # a user
ACTIONS: dict[str, Callable[[Path], object]] = {
    "make_directories": make_directories,
    "make_directory": lambda path: make_directory(str(path), "run"),
    "create": lambda path: create(path, ""),
    "append": lambda path: append(path, ""),
    "write_atomically": lambda path: write_atomically(path, ""),
    "read_tail": lambda path: read_tail(path, 1),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("mode", "above", "owner", "refused"),
    [
        (0o1777, 0, OTHER, True),
        (0o777, 0, OTHER, True),
        (0o1777, OTHER, OTHER, False),  # in the directory of this user
        (0o1777, OTHER, 0, False),
        (0o755, 0, OTHER, False),  # root put it there
        (0o2775, 0, OTHER, True),  # of a team
        (0o2775, OTHER, OTHER, False),
    ],
)
def test_no_link_that_others_planted_leads_anywhere(
    tmp_path: Path, action: str, mode: int, above: int, owner: int, refused: bool
) -> None:
    shared, target, link = tmp_path / "scratch", tmp_path / "target", tmp_path / "scratch/logs"
    for each in (shared, target):
        each.mkdir()
    if action == "read_tail":
        (target / "inner").write_text("x")
    link.symlink_to(target)
    os.lchown(link, owner, owner)
    os.chown(shared, above, above)
    shared.chmod(mode)
    with pytest.raises(OSError, match=f"user {OTHER} put the link {link}") if refused else nullcontext():
        ACTIONS[action](link / "inner")
    assert [each.name for each in target.iterdir()] == ([] if refused and action != "read_tail" else ["inner"])
