"""Local copies: an archive is unpacked inside its copy alone, and what is in use or not ddpkit's is not swept."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ddpkit.node.calls import stage

NAME = "project-" + "a" * 32


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b"", mode: int = 0o644) -> Any:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, len(data), mode
    return info, data


def packed(*members: Any) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    file.seek(0)
    return file


DIR, LINK, HARD = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
HOSTILE = {
    "absolute": [member("/tmp/pwned", data=b"x")],
    "upwards": [member("a/../../pwned", data=b"x")],
    "link out": [member("a", LINK, "../..")],
    "absolute link": [member("a", LINK, "/etc")],
    "link that climbs later": [member("d", DIR), member("d/l", LINK, "."), member("m", LINK, "d/l/../../..")],
    "through a link": [member("l", LINK, "d"), member("d", DIR), member("l/file", data=b"x")],
    "file as directory": [member("f", data=b"x"), member("f/g", data=b"x")],
    "hard link to a link": [member("l", LINK, "x"), member("h", HARD, "l")],
    "hard link out": [member("h", HARD, "/etc/passwd")],
    "hard link to nothing": [member("h", HARD, "later"), member("later", data=b"x")],
    "device": [member("null", tarfile.CHRTYPE)],
    "fifo": [member("pipe", tarfile.FIFOTYPE)],
    "twice": [member("a", data=b"x"), member("a", data=b"y")],
    "marker": [member(".ddpkit", data=b"x")],
    "begun": [member(".ddpkit-begun")],
    "complete": [member(".ddpkit-complete")],
    "many": [member(f"f{number}") for number in range(30)],
    "large": [member("f", data=b"x" * 2000)],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive(name: str, tmp_path: Path) -> None:
    place = tmp_path / "outer/copy"
    place.mkdir(parents=True)
    with pytest.raises(stage.HostileArchiveError):
        stage.extract(packed(*HOSTILE[name]), str(place), [20, 1000], {})
    assert [path.name for path in tmp_path.iterdir()] == ["outer"]
    assert [path.name for path in (tmp_path / "outer").iterdir()] == ["copy"]
    assert not Path("/tmp/pwned").exists()


def test_what_an_archive_may_hold(tmp_path: Path) -> None:
    file = packed(
        member("bin", DIR, mode=0o500),
        member("bin/tool", data=b"#!/bin/sh\n", mode=0o4775),
        member("bin/same", HARD, "bin/tool"),
        member("./lib/deep/part.py", data=b"TEXT = 1\n"),
        member("lib64", LINK, "lib"),
        member("bin/up", LINK, "../lib/deep"),
    )
    stage.extract(file, str(tmp_path), [20, 1000], {"bin/python": sys.executable})
    assert (tmp_path / "lib64/deep/part.py").read_text() == "TEXT = 1\n"
    assert (tmp_path / "bin/up/part.py").exists()
    assert (tmp_path / "bin/tool").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "bin/tool").samefile(tmp_path / "bin/same")
    assert (tmp_path / "bin/python").readlink() == Path(sys.executable)


@pytest.mark.parametrize("cut", [100, 700, 1500])
def test_half_an_archive_is_no_copy(cut: int, node: Node) -> None:
    node.archive(NAME, member("part.py", data=b"x" * 1000), cut=cut)
    assert node.look()["state"] == "absent"
    assert "cannot be read" in node.unpack()["problem"] or "ends early" in node.unpack()["problem"]
    assert node.listed() == [NAME + ".lock"]


class Node:
    """A disk with copies."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "ddpkit-stage-0"
        self.file = folder / "archive.tar"

    def content(self, name: str = NAME, **more: Any) -> dict[str, Any]:
        usual = {
            "root": str(self.root),
            "name": name,
            "needs": [10, 1],
            "limits": [20, 2000],
            "links": {},
            "conda": False,
        }
        return {**usual, **more}

    def archive(self, name: str, *members: Any, cut: int | None = None) -> None:
        self.file.write_bytes(packed(*(members or (member("part.py", data=name.encode()),))).getvalue()[:cut])

    def look(self, name: str = NAME) -> dict[str, Any]:
        return stage.look(self.content(name))

    def unpack(self, name: str = NAME, **more: Any) -> dict[str, str]:
        return stage.unpack(self.content(name, **more), str(self.file))

    def make(self, name: str = NAME) -> None:
        self.archive(name)
        assert self.look(name)["state"] == "absent"
        assert self.unpack(name)["problem"] == ""

    def listed(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if path.name != ".ddpkit")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(stage, "LOCAL", {*stage.LOCAL, "9p"})  # as some sandboxes name their disk
    yield Node(tmp_path)
    for name in list(stage._locks):
        stage.release(name)


def holder(node: Node, *names: str) -> subprocess.Popen[str]:
    """Another process that holds copies."""
    code = "import sys; from ddpkit.node.calls import stage as s; s.LOCAL |= {'9p'}; s.hold(sys.argv[1:]); "
    code += "print('held', flush=True); input()"
    copies = [str(node.root / name) for name in names]
    process = subprocess.Popen([sys.executable, "-c", code, *copies], stdin=-1, stdout=-1, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_copy_is_there_from_its_end_on(node: Node) -> None:
    node.make()
    assert node.root.stat().st_mode & 0o777 == 0o700
    assert node.look()["state"] == "present"
    assert (node.root / NAME / "part.py").read_text() == NAME
    assert node.listed() == [NAME, NAME + ".lock"]


def test_one_process_makes_a_copy_and_the_others_wait(node: Node) -> None:
    node.make()
    stage.release(NAME)
    with holder(node, NAME) as other:
        assert node.look()["state"] == "present"  # two users
        (node.root / NAME / stage.COMPLETE).unlink()
        stage.release(NAME)
        assert node.look()["state"] == "busy"  # what is begun again is used still
        other.communicate("\n")
    assert node.look()["state"] == "absent"
    assert not (node.root / NAME).exists()  # what was not complete


def test_a_problem_leaves_nothing_locked(node: Node) -> None:
    assert "the copy needs" in stage.look(node.content(needs=[1 << 60, 1]))["problem"]
    (node.root / NAME).mkdir()
    (node.root / NAME / "own").touch()
    assert f"{node.root / NAME}" in node.look()["problem"]  # not ddpkit's
    assert stage._locks == {}
    other = "import sys; from ddpkit.node.calls import stage as s; s.LOCAL |= {'9p'}; s.lock(*sys.argv[1:], True)"
    subprocess.run([sys.executable, "-c", other, str(node.root), NAME], check=True)  # it is not in another's way


def test_old_copies_that_nobody_uses_are_removed(node: Node) -> None:
    names = ["project-" + letter * 32 for letter in "abcdef"]
    for age, name in enumerate(names):
        node.make(name)
        stage.release(name)
        os.utime(node.root / name / stage.COMPLETE, (age, age))
        if name == names[1]:
            used = holder(node, names[1])
    with used:
        node.make(NAME[:-1] + "f")
        assert {name for name in node.listed() if "." not in name} >= {names[1], names[4], names[5]}
        assert names[0] not in node.listed()
        assert names[0] + ".lock" not in node.listed()
        used.communicate("\n")
    node.make(NAME[:-2] + "ff")
    assert names[1] not in node.listed()


def saved(copy: Path) -> str:
    (copy / "checkpoints").mkdir()
    (copy / "checkpoints/best.pt").write_text("weeks")
    return "checkpoints/best.pt"


def changed(copy: Path) -> str:
    (copy / "part.py").write_text("notes of a script")
    return "part.py"


def hidden(copy: Path) -> str:
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__/best.pt").write_text("weeks")
    return "__pycache__/best.pt"


def linked(copy: Path) -> str:
    (copy / "latest").symlink_to("/tmp")
    return "latest"


def unknown(copy: Path) -> str:
    """As a version of ddpkit without lists left it."""
    (copy / stage.COMPLETE).write_text("")
    return "part.py"


@pytest.mark.parametrize("write", [saved, changed, hidden, linked, unknown])
def test_an_old_copy_in_which_a_script_wrote_stays_and_is_named(write: Callable[[Path], str], node: Node) -> None:
    names = ["project-" + letter * 32 for letter in "abcdef"]
    for age, name in enumerate(names[:5]):
        node.make(name)
        (node.root / name / "__pycache__").mkdir()
        (node.root / name / "__pycache__/part.cpython-38.pyc").write_text("bytecode")
        (node.root / name / "__pycache__/part.cpython-38.pyc.140234").write_text("half of it")
        stage.release(name)
        if age == 0:
            shutil.rmtree(node.root / name / "__pycache__")
            left = write(node.root / name)
        os.utime(node.root / name / stage.COMPLETE, (age, age))
    answer = node.look(names[5])
    assert os.path.lexists(node.root / names[0] / left)
    kept = answer["kept"]
    assert kept["files"] == 1
    assert kept["paths"] == [f"{node.root / names[0]}/{left}"]
    assert kept["bytes"] == (node.root / names[0] / left).lstat().st_size
    assert names[1] not in node.listed()
    stage.release(names[5])
    assert node.look(names[0])["state"] == "present"


@pytest.mark.parametrize("same", [True, False])
def test_a_copy_that_lost_its_list_stays_with_what_a_script_wrote(same: bool, node: Node) -> None:
    """As by a cleaner of /tmp: the list is written once, and nobody opens it."""
    names = ["project-" + letter * 32 for letter in "ab"]
    node.make(names[0])
    stage.release(names[0])
    (node.root / names[0] / "ckpt.pt").write_text("a month of work")
    (node.root / names[0] / stage.COMPLETE).unlink()
    for name in (names[0] if same else names[1], names[1]):
        answer = node.look(name)
        assert answer["state"] == "absent"
        assert not answer["problem"]
        (left,) = node.root.glob("*/ckpt.pt")
        assert left.read_text() == "a month of work"
        assert (left.parent.name == names[0]) != same
        assert str(left) in answer["kept"]["paths"]
        stage.release(name)
    for path in left.parent.iterdir():
        if path.name != ".ddpkit":
            path.unlink()
    node.look(names[1])
    assert not left.parent.exists()  # nothing of a script is left in it


def test_a_copy_that_was_never_complete_is_removed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.archive(NAME, member("part.py", data=b"x"))
    node.look()

    def fail(*_: object) -> None:
        raise OSError(28, "killed here")

    with monkeypatch.context() as patch:
        patch.setattr(stage, "replace_file", fail)
        assert "killed here" in node.unpack()["problem"]
    assert (node.root / NAME / stage.BEGUN).exists()
    answer = node.look()
    assert (answer["state"], answer["kept"]["files"]) == ("absent", 0)
    assert not (node.root / NAME).exists()


def others(node: Node) -> list[Path]:
    """What ddpkit did not make, by names like its own."""
    made = []
    for name in ("project-" + "b" * 32, "env-" + "c" * 32, "project-" + "d" * 32 + ".new-" + "0" * 16):
        (node.root / name).mkdir()
        (node.root / name / "weights.pt").touch()
        made.append(node.root / name / "weights.pt")
    (node.root / ("env-" + "e" * 32)).symlink_to(made[0].parent)
    return [*made, node.root / ("env-" + "e" * 32)]


def test_what_ddpkit_did_not_make_stays(node: Node) -> None:
    node.make()
    left = others(node)
    for letter in "123456":
        node.make("project-" + letter * 32)
    assert all(path.is_symlink() or path.exists() for path in left)
    name = left[0].parent.name
    assert "not a directory that ddpkit made" in node.look(name)["problem"]
    assert left[0].exists()


def replaced_by_link(folder: Path) -> None:
    """Another user's link in place of a directory, as `--stage-dir`."""
    folder.rename(folder.with_name("real"))
    folder.symlink_to("real")
    os.lchown(folder, 60001, 0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda root: root.symlink_to("/tmp"), "not a directory"),
        (lambda root: (root.mkdir(0o700), (root / "my data").touch()), "ddpkit did not make it, and it holds my data"),
        (lambda root: (root.mkdir(), root.chmod(0o770)), "other users can use it: its mode is 770"),
        (lambda root: (root.mkdir(0o700), shutil.chown(root, 1234, 1234)), "it belongs to user 1234"),
        (lambda root: root.write_text(""), "not a directory"),
        (lambda root: root.parent.chmod(0o777), "every user can rename what is in it"),
        (lambda root: (shutil.chown(root.parent, 0, 60000), root.parent.chmod(0o770)), "group 60000 can rename what"),
        (lambda root: shutil.chown(root.parent, 60001, 0), "user 60001 can rename what is in it"),
        (lambda root: replaced_by_link(root.parent), "user 60001 can rename what is in it"),
    ],
)
def test_a_directory_that_is_refused(make: Callable[[Path], object], said: str, node: Node) -> None:
    if "1234" in said and os.geteuid() != 0:
        pytest.skip("needs root")
    make(node.root)
    assert said in node.look()["problem"]


def test_a_directory_that_is_refused_is_not_made(node: Node) -> None:
    others = node.root.parent / "others"
    others.mkdir()
    others.chmod(0o777)
    node.root = others / "deep" / node.root.name
    assert "every user can rename what is in it" in node.look()["problem"]
    assert list(others.iterdir()) == []


def test_nothing_is_removed_where_locks_may_be_another_machines(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "LOCAL", frozenset())
    names = ["project-" + letter * 32 for letter in "abcdef"]
    for name in names:
        node.make(name)
    assert node.listed() == names
    (node.root / NAME / stage.COMPLETE).unlink()
    assert "incomplete, and this file system has no locks" in node.look()["problem"]
    assert (node.root / NAME / "part.py").exists()


def test_a_copy_that_is_gone_is_not_used(node: Node) -> None:
    node.make()
    (node.root / NAME / stage.COMPLETE).unlink()
    stage.release(NAME)
    with pytest.raises(FileNotFoundError, match="the local copy is gone"):
        stage.hold([str(node.root / NAME)])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (b"open('done', 'w')", ""),
        (b"raise SystemExit('no prefix')", "conda-unpack failed: no prefix"),
        (None, "conda-pack did not make it"),
    ],
)
def test_an_environment_of_conda_pack(
    script: bytes | None, said: str, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tool = [member("bin/conda-unpack", data=script)] if script else []
    node.archive(NAME, member("bin", DIR), *tool)
    node.look()
    done = node.unpack(conda=True, links={"bin/python": sys.executable})
    assert said in done["problem"]
    assert bool(done["problem"]) == bool(said)
    assert stage.is_complete(str(node.root / NAME)) != bool(said)
