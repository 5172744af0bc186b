"""ddpkit.node.owned: only what ddpkit made is deleted, moved or overwritten."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpkit.files import remove_as_seen
from ddpkit.node import owned, process_tree
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


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "not yet"])
def test_what_came_in_the_place_of_a_checked_directory_stays(tmp_path: Path, marked: bool) -> None:
    checked, other = tmp_path / "checked", tmp_path / "other"
    for path in (checked, other):
        owned.make_directory(str(path), "run") if marked else path.mkdir()
        (path / "data").write_text("months of work")
    seen = checked.lstat()
    checked.rename(tmp_path / "moved")
    other.rename(checked)
    before = contents(tmp_path)
    action = owned.remove_directory if marked else owned.adopt_directory
    with pytest.raises(NotOwnedError, match="another directory came in its place"):
        action(str(checked), "run", seen)
    assert contents(tmp_path) == before


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


def linked_elsewhere(path: Path) -> None:
    path.symlink_to(path.parent / "other")


def another_run(path: Path) -> None:
    (path.parent / "other").rename(path)


def nothing(_: Path) -> None:
    pass


HELD: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "replace_file": (lambda path: owned.replace_file(f"{path}/run.json", b"new"), []),
    "create_file": (lambda path: owned.create_file(f"{path}/new", b""), ["new"]),
    "create_whole": (lambda path: owned.create_whole(f"{path}/new", b""), ["new"]),
    "open_for_append": (lambda path: os.close(owned.open_for_append(f"{path}/new")), ["new"]),
    "open_path": (lambda path: os.close(owned.open_path(f"{path}/run.json", os.O_RDONLY)), []),
    "below": (lambda path: owned.create_file(f"{path}/sub/new", b""), ["sub/new"]),
    "make_plain_directory": (lambda path: owned.make_plain_directory(f"{path}/new"), ["new"]),
    "make_directory": (lambda path: owned.make_directory(f"{path}/new", "run"), ["new", "new/.ddpkit"]),
    "remove_files": (lambda path: owned.remove_files(path, "run", lambda name: name == "run.json"), ["-run.json"]),
    "remove_file": (lambda path: owned.remove_file(f"{path}/run.json"), ["-run.json"]),
    "move_entries": (
        lambda path: owned.move_entries(path, "run", lambda name: name == "run.json", "attempt-1"),
        ["-run.json", "attempt-1", "attempt-1/run.json"],
    ),
    "remove_directory": (lambda path: owned.remove_directory(path, "run"), ["-.ddpkit", "-run.json", "-sub"]),
}


@pytest.mark.parametrize("took_its_place", [linked_elsewhere, another_run, nothing])
@pytest.mark.parametrize("name", HELD)
def test_a_held_directory_is_meant_whatever_has_its_name(
    name: str, took_its_place: Callable[[Path], None], tmp_path: Path
) -> None:
    """In the directory of a team another user renames it, and puts a link or another directory in its place."""
    path, other, moved = tmp_path / "run", tmp_path / "other", tmp_path / "moved"
    owned.make_directory(str(path), "run", hold=True)
    owned.make_directory(str(other), "run")
    for each in (path, other):
        (each / "run.json").write_text(each.name)
        (each / "sub").mkdir()
    before = set(contents(other))
    path.rename(moved)
    took_its_place(path)
    action, change = HELD[name]
    try:
        action(str(path))
    finally:
        owned.release_directory(str(path))
    removed = {each[1:] for each in change if each.startswith("-")}
    assert set(contents(moved)) == before - removed | {each for each in change if not each.startswith("-")}
    if took_its_place is not nothing:
        assert set(contents(path)) == before
        assert (path / "run.json").read_text() == "other"


def test_a_link_below_a_held_directory_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    owned.make_directory(str(path), "run", hold=True)
    (tmp_path / "data").mkdir()
    (path / "sub").symlink_to(tmp_path / "data")
    with pytest.raises(OSError, match="sub"):
        owned.create_file(str(path / "sub/new"), b"")
    owned.release_directory(str(path))
    assert contents(tmp_path / "data") == []


BIND = """
import os, subprocess, sys
from ddpkit.node import owned
data, path = sys.argv[1:]
owned.make_directory(path, "stage")
os.mkdir(path + "/data")
subprocess.run(["mount", "--bind", data, path + "/data"], check=True)
try:
    owned.remove_directory(path, "stage")
except owned.NotOwnedError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_part_of_the_same_disk_that_is_mounted_inside_stays(tmp_path: Path) -> None:
    data = tmp_path / "imagenet-1k"
    data.mkdir()
    (data / "set.bin").write_text("months of work")
    words = ["unshare", "-m", sys.executable, "-c", BIND, str(data), str(tmp_path / "copy")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    assert "another file system is mounted there" in done.stdout, done.stderr
    assert contents(data) == ["set.bin"]


def test_two_processes_may_delete_the_same_directory(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"copy{number}"
        owned.make_directory(str(path), "stage")
        for name in range(50):
            (path / str(name)).mkdir()
            (path / str(name) / "file").touch()
        threads = [threading.Thread(target=owned.remove_directory, args=(str(path), "stage")) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert contents(tmp_path) == []


def test_names_of_ours_are_moved_and_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "run"
    owned.make_directory(str(path), "run")
    for name in ("all.log", "checkpoint.pt"):
        (path / name).write_text(name)
    (path / "marks.log").mkdir()
    owned.move_entries(str(path), "run", lambda name: name.endswith(".log"), "attempt-1")
    assert contents(path) == [".ddpkit", "attempt-1", "attempt-1/all.log", "attempt-1/marks.log", "checkpoint.pt"]
    (path / "all.log").write_text("second")
    with pytest.raises(FileExistsError):
        owned.move_entries(str(path), "run", lambda name: name.endswith(".log"), "attempt-1")
    assert (path / "all.log").read_text() == "second"


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_where_others_can_write_no_file_is_deleted_by_its_name(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "step_failure.json").touch()
    folder.chmod(mode)
    with pytest.raises(NotOwnedError, match="others can write"):
        owned.remove_file(str(folder / "step_failure.json"))
    folder.chmod(0o755)
    (folder / "link").symlink_to(folder / "step_failure.json")
    with pytest.raises(NotOwnedError):
        owned.remove_file(str(folder / "link"))
    owned.remove_file(str(folder / "step_failure.json"))
    assert contents(folder) == ["link"]


def test_a_name_that_is_anothers_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "request"
    with owned.own_file(str(path), b"mine"):
        path.unlink()
        path.write_text("theirs")
    assert path.read_text() == "theirs"
    with owned.own_file(str(tmp_path / "probe")):
        assert (tmp_path / "probe").exists()
    assert contents(tmp_path) == ["request"]


@pytest.mark.parametrize("unnamed", [True, False])
def test_what_is_written_to_try_a_directory_has_no_name(
    unnamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not unnamed:  # as on NFS
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY, raising=False)
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(os, "write", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        owned.try_to_write(str(tmp_path), 1 << 16)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert contents(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        owned.try_to_write(str(tmp_path / "none"), 1)


def test_a_whole_file_appears_only_where_nothing_is(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    owned.create_whole(str(path), b"one", 0o644)
    with pytest.raises(FileExistsError):
        owned.create_whole(str(path), b"two", 0o644)
    assert (path.read_bytes(), contents(tmp_path)) == (b"one", ["train.py"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_replaced_only_as_a_shared_one(tmp_path: Path) -> None:
    path = tmp_path / "bad_nodes.json"
    path.write_bytes(b"theirs")
    path.chmod(0o664)
    os.chown(path, 12345, 12345)
    with pytest.raises(NotOwnedError, match="another user"):
        owned.replace_file(str(path), b"mine")
    assert path.read_bytes() == b"theirs"
    owned.replace_file(str(path), b"both", 0o600, shared=True)
    found = path.stat()
    assert (path.read_bytes(), stat.S_IMODE(found.st_mode), found.st_gid) == (b"both", 0o664, 12345)


# Links (place, target, owner), a path over them, and who can lead it elsewhere. `shared` is of the group 60000, without
# members, `hers` of the user 60001, `mine` this user's alone.
WAYS: dict[str, tuple[list[tuple[str, str, int]], str, set[str]]] = {
    "no link": ([], "mine/logs", set()),
    "this user's": ([("mine/to", "real", 0)], "mine/to/logs", set()),
    "this user's in a sticky directory": ([("sticky/to", "../mine", 0)], "sticky/to/logs", set()),
    "where a group writes": ([("shared/to", "../mine", 0)], "shared/to/logs", {"group 60000"}),
    "as the last name": ([("shared/to", "../mine", 0)], "shared/to", {"group 60000"}),
    "behind another": ([("mine/to", "../shared/to", 0), ("shared/to", "../mine", 0)], "mine/to/logs", {"group 60000"}),
    "upwards": ([("mine/to", "../shared/../mine", 0)], "mine/to/logs", set()),
    "another user's": ([("sticky/to", "../mine", 60001)], "sticky/to/logs", {"user 60001"}),
    "in another user's directory": ([("hers/to", "../mine", 0)], "hers/to/logs", {"user 60001"}),
    "behind what is missing": ([("shared/to", "../mine", 0)], "mine/none/../../shared/to/logs", {"group 60000"}),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("name", WAYS)
def test_who_can_lead_a_path_elsewhere_by_a_link_on_the_way(name: str, tmp_path: Path) -> None:
    modes = {"mine": (0o755, 0, 0), "shared": (0o2775, 0, 60000), "sticky": (0o1777, 0, 0), "hers": (0o755, 60001, 0)}
    for folder, (mode, user, group) in modes.items():
        (tmp_path / folder).mkdir()
        os.chown(tmp_path / folder, user, group)
        (tmp_path / folder).chmod(mode)
    links, path, who = WAYS[name]
    for place, target, owner in links:
        (tmp_path / place).symlink_to(target)
        os.lchown(tmp_path / place, owner, 0)
    assert owned.who_can_replace(str(tmp_path / path)) == who


def test_a_directory_that_somebody_exchanges_meanwhile_is_not_called_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "run", tmp_path / "other"
    owned.make_directory(str(path), "run")
    (path / "log").touch()
    other.mkdir()
    empty = owned._empty_directory

    def exchanged(folder: int, mount: str, name: str) -> None:
        path.rename(tmp_path / "moved")
        other.rename(path)
        empty(folder, mount, name)

    monkeypatch.setattr(owned, "_empty_directory", exchanged)
    with pytest.raises(OSError, match="somebody moved it"):
        remove_as_seen(path, "run", path.lstat(), lambda _: [], [])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["moved", "run"]


@pytest.mark.parametrize(
    ("mode", "above", "used"),
    [(0o755, 0o755, True), (0o1777, 0o755, True), (0o777, 0o755, False), (0o700, 0o777, False), (0o700, 0o1777, True)],
)
def test_no_temporary_directory_in_which_others_can_replace_files(
    mode: int, above: int, used: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "above/tmp"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    folder.parent.chmod(above)
    assert owned.temporary_directory(str(folder)) == (str(folder) if used else "/tmp")
    if used:
        owned.check_above(str(folder))
    else:
        with pytest.raises(PermissionError, match="every user can rename what is in it"):
            owned.check_above(str(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_no_temporary_directory_of_another_user(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    os.chown(folder, 12345, 0)
    assert owned.temporary_directory(str(folder)) == "/tmp"


def test_a_link_on_the_way_to_the_home_counts_as_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `/home` may be one to a disk: whoever can change it, can change all that is this user's."""
    (tmp_path / "disk/me").mkdir(parents=True)
    (tmp_path / "homes").symlink_to("disk")
    tmp_path.chmod(0o777)
    logs = str(tmp_path / "homes/me/logs")
    assert owned.who_can_replace(logs) == {owned.EVERYONE}
    monkeypatch.setenv("HOME", str(tmp_path / "homes/me"))
    assert owned.who_can_replace(logs) == set()
    assert owned.who_can_replace(str(tmp_path / "disk/me/logs")) == set()
    assert owned.who_can_replace(str(tmp_path / "disk/other/logs")) == set()  # who can rename it renames the home


# ---- signals


def test_only_processes_below_get_a_signal(tmp_path: Path) -> None:
    sleeper = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen([sys.executable, "-c", sleeper], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        assert process_tree.is_below(child.pid)
        assert process_tree.is_below(grandchild)
        other = "import sys; from ddpkit.node import process_tree as tree; tree.kill(int(sys.argv[1]), 9)"
        subprocess.run([sys.executable, "-c", other, str(grandchild)], check=True)  # not below that process
        assert process_tree.is_below(grandchild)
        process_tree.kill(grandchild, signal.SIGKILL)
        assert child.wait(30) == 0
    assert not process_tree.is_below(grandchild)
    for pid in (1, os.getppid(), os.getpid(), 1 << 22):
        assert not process_tree.is_below(pid)
