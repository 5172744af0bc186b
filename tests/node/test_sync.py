"""ddpkit.node.calls.sync: what is compared, what is refused, and what is moved into place."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ddpkit.execution.sync import NONCE, NONCE_AGE, Entry, look, made_nonce
from ddpkit.execution.sync_record import Version
from ddpkit.node import owned
from ddpkit.node.calls import sync

OLD, NEW = 1_600_000_000 * 10**9, 1_700_000_000 * 10**9
FILE, FOLDER, LINK = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755, stat.S_IFLNK | 0o777


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """What a node ignores while files are copied is not ignored by the tests after these."""
    before = signal.getsignal(signal.SIGIO)
    yield
    signal.signal(signal.SIGIO, before)


def seen(mode: int, size: int, when: int) -> os.stat_result:
    """What a node would see."""
    whole = [mode, 0, 0, 0, 0, 0, size, 0, when // 10**9, 0]
    return os.stat_result(whole, {"st_mtime_ns": when})


def entry(
    kind: str, mode: int = 0o644, size: int = 3, when: int = OLD, target: str = "", sent: Sequence[Version] = ()
) -> list[Any]:
    return ["a", kind, mode, size, when, target, sent]


SENT = [(4, OLD + 5, "digest of four"), (3, OLD - 5, "digest or target"), (5, OLD, "")]  # by earlier copies


@pytest.mark.parametrize(
    ("ours", "theirs", "link", "verdict", "overwritten"),
    [
        (entry("file"), None, "", "make", "make"),
        (entry("file"), (FILE, 3, OLD), "", "same", "same"),
        (entry("file", when=OLD + 5), (FILE, 3, OLD), "", "same", "same"),  # a disk that keeps seconds
        (entry("file", when=OLD + 123_456_789), (FILE, 3, OLD + 123_456_700), "", "same", "same"),  # SMB
        (entry("file", when=NEW), (FILE, 3, OLD + 5), "", "differs", "replace"),
        (entry("file"), (FILE, 4, OLD), "", "differs", "replace"),
        (entry("file"), (FILE, 3, NEW), "", "differs", "replace"),
        (entry("file", when=NEW, sent=SENT), (FILE, 4, OLD + 5), "digest of four", "replace", "replace"),
        (entry("file", when=NEW, sent=SENT), (FILE, 4, OLD + 5), "another", "differs", "replace"),  # its time was set
        (entry("file", when=NEW, sent=SENT), (FILE, 5, OLD), "", "differs", "replace"),
        (entry("file", when=OLD - 9, sent=SENT), (FILE, 4, NEW), "digest of four", "replace", "replace"),  # older here
        (entry("file", when=NEW, sent=SENT), (FILE, 3, OLD + 5), "", "differs", "replace"),
        (entry("file", when=NEW, sent=SENT), (FILE, 4, OLD + 6), "", "differs", "replace"),
        (entry("file", when=NEW, sent=SENT), (FILE, 3, OLD + 6), "digest or target", "replace", "replace"),
        (entry("file", when=NEW, sent=SENT), (LINK, 4, OLD + 5), "x", "kind", "replace"),
        (entry("file", mode=0o755), (FILE, 3, OLD), "", "mode", "mode"),
        (entry("file"), (LINK, 3, OLD), "x", "kind", "replace"),
        (entry("file"), (FOLDER, 3, OLD), "", "kind", "kind"),
        (entry("file"), (stat.S_IFIFO, 3, OLD), "", "kind", "kind"),
        (entry("directory"), (FOLDER, 3, NEW), "", "same", "same"),
        (entry("directory"), (LINK, 3, OLD), "/big", "kind", "replace"),
        (entry("directory"), (FILE, 3, OLD), "", "kind", "replace"),
        (entry("link", target="x"), (LINK, 1, NEW), "x", "same", "same"),
        (entry("link", target="x"), (LINK, 1, NEW), "y", "differs", "replace"),
        (entry("link", target="x", when=NEW), (LINK, 1, OLD), "y", "differs", "replace"),
        (entry("link", target="x", when=NEW, sent=SENT), (LINK, 4, OLD + 5), "y", "differs", "replace"),
        (entry("link", target="x", when=NEW, sent=SENT), (LINK, 1, OLD), "digest or target", "replace", "replace"),
        (entry("link", target="x"), (FOLDER, 3, OLD), "", "kind", "kind"),
    ],
)
def test_what_becomes_of_an_entry(
    ours: list[Any], theirs: tuple[int, int, int] | None, link: str, verdict: str, overwritten: str
) -> None:
    found = seen(*theirs) if theirs else None
    assert sync.judge(ours, found, link, False) == verdict
    assert sync.judge(ours, found, link, True) == overwritten


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("~", "is your home directory"),
        ("~/.", "is your home directory"),
        ("~/..", "is a directory of the system|is your home directory, or holds it"),
        ("/", "is your home directory, or holds it"),
        ("/etc", "directory of the system"),
        ("/tmp/../var/tmp/", "directory of the system"),
        ("~/project", ""),
        ("/data/project", ""),
    ],
)
def test_what_is_no_directory_for_a_project(
    path: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home/me"))
    (tmp_path / "home/me/project").mkdir(parents=True)
    found = sync.refuse_directory(os.path.expanduser(path))  # noqa: PTH111
    assert bool(found) == bool(said)
    assert any(each in found for each in said.split("|"))


def test_a_link_to_a_home_directory_and_the_home_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(Path.home())
    assert "your home directory" in sync.refuse_directory(str(tmp_path / "link"))
    (tmp_path / "other/.ssh").mkdir(parents=True)
    assert "holds .ssh" in sync.refuse_directory(str(tmp_path / "other"))


class Copy:
    """A project, and a directory that gets it."""

    def __init__(self, folder: Path) -> None:
        self.here, self.there = folder / "here", folder / "there"
        self.here.mkdir()
        self.there.mkdir()
        self.entries: list[Entry] = []

    def check(
        self,
        *,
        overwrite: bool = False,
        target: Path | None = None,
        sent: Mapping[str, Sequence[Version]] | None = None,
    ) -> dict[str, Any]:
        names = sorted(str(path.relative_to(self.here)) for path in self.here.rglob("*"))
        self.entries = [found for name in names if (found := look(str(self.here), name))]
        plain = [each.plain((sent or {}).get(each.name, ())) for each in self.entries]
        packed = b64encode(zlib.compress(json.dumps(plain).encode())).decode()
        with made_nonce(str(self.here)) as (nonce, stamp):
            return sync.check(str(target or self.there), nonce, stamp, packed, overwrite)

    def send(self, answer: dict[str, Any]) -> None:
        """Do what rsync does."""
        draft = Path(sync.receive()["draft"])
        for index in answer["needs"]:
            name = self.entries[index].name
            (draft / "files" / name).parent.mkdir(parents=True, exist_ok=True)
            data = (self.here / name).read_bytes()
            (draft / "files" / name).write_bytes(data)
            os.utime(draft / "files" / name, ns=(self.entries[index].time, self.entries[index].time))


HELD = """
import sys, time
from ddpkit.execution.sync import made_nonce
with made_nonce(sys.argv[1]) as (name, _):
    print(name, flush=True)
    time.sleep(3600)
"""


def test_what_a_killed_launch_left_in_the_project_is_removed_by_the_next(tmp_path: Path) -> None:
    held = subprocess.Popen([sys.executable, "-c", HELD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert held.stdout is not None
    left = held.stdout.readline().strip()
    held.kill()
    held.wait()
    held.stdout.close()
    mine = [".ddpkit-nonce-notes", ".ddpkit-nonce-dir/x", f"{left}-more/x"]
    for name in mine:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    (tmp_path / f"{left}-half").mkdir()
    owned.make_directory(str(tmp_path / f"{left}-used"), NONCE)
    (tmp_path / f"{left}-used/data").write_text("mine")
    with made_nonce(str(tmp_path)):
        assert (tmp_path / left).exists()  # it may be of a launch that runs
    for path in tmp_path.iterdir():
        os.utime(path, (time.time() - 2 * NONCE_AGE,) * 2)
    with made_nonce(str(tmp_path)) as (name, _):
        assert (tmp_path / name).exists()
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {*mine, f"{left}-used/data", f"{left}-used/.ddpkit"}
    assert not (tmp_path / f"{left}-half").exists()


DIGESTS = [(len(each), OLD, hashlib.sha256(each).hexdigest()) for each in (b"old", b"the old one")]
SENT_OLD = dict.fromkeys(("a", "b", "c", "a.py", "b.pt"), DIGESTS)


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    yield Copy(tmp_path)
    sync.abandon()


def test_what_changes_on_the_node_meanwhile_stays(copy: Copy) -> None:
    (copy.here / "a.py").write_text("new a")
    (copy.here / "b.pt").write_text("new b")
    for name in ("a.py", "b.pt"):
        (copy.there / name).write_text("old")
        os.utime(copy.there / name, ns=(OLD, OLD))
    copy.send(copy.check(sent=SENT_OLD))
    (copy.there / "b.pt").write_text("saved by a job")
    assert sync.apply([])["changed"] == ["b.pt"]
    assert (copy.there / "a.py").read_text() == "old"  # all or nothing
    assert (copy.there / "b.pt").read_text() == "saved by a job"
    assert sorted(path.name for path in copy.there.iterdir()) == ["a.py", "b.pt"]


def test_a_file_that_comes_meanwhile_stays(copy: Copy) -> None:
    (copy.here / "a.py").write_text("ours")
    copy.send(copy.check())
    (copy.there / "a.py").symlink_to("elsewhere")
    assert sync.apply([])["changed"] == ["a.py"]
    assert (copy.there / "a.py").readlink() == Path("elsewhere")


def test_a_directory_that_becomes_a_link_meanwhile_is_not_entered(copy: Copy, tmp_path: Path) -> None:
    (copy.here / "data").mkdir()
    (copy.here / "data/a").write_text("ours")
    (copy.there / "data").mkdir()
    (tmp_path / "big").mkdir()
    copy.send(copy.check())
    (copy.there / "data").rmdir()
    (copy.there / "data").symlink_to(tmp_path / "big")
    assert sync.apply([])["problem"]
    assert not list((tmp_path / "big").iterdir())


def test_a_file_that_is_open_for_writing_is_not_replaced(copy: Copy) -> None:
    (copy.here / "ckpt.pt").write_text("ours")
    (copy.there / "ckpt.pt").write_text("theirs, half")
    with (copy.there / "ckpt.pt").open("a"):
        os.utime(copy.there / "ckpt.pt", ns=(OLD, OLD))
        answer = copy.check(overwrite=True)
        assert [copy.entries[index].name for index in answer["written"]] == ["ckpt.pt"]
        assert answer["needs"] == []


def test_what_did_not_arrive_whole_is_left_out(copy: Copy) -> None:
    for name in ("a", "b", "c"):
        (copy.here / name).write_text("new")
        (copy.there / name).write_text("the old one")
        os.utime(copy.there / name, ns=(OLD, OLD))
    copy.send(copy.check(sent=SENT_OLD))
    draft = next(path for path in copy.there.iterdir() if path.name.startswith(".ddpkit-sync-"))
    (draft / "files/a").unlink()
    (draft / "files/b").write_text("ne")
    done = sync.apply([2])
    assert (done["missing"], done["changed"]) == (["a", "b"], [])
    assert {path.read_text() for path in copy.there.iterdir()} == {"the old one"}


def test_what_a_copy_put_there_is_known_by_its_content_alone(copy: Copy) -> None:
    """An archive whose times are fixed gives a file that it changes the size and the time that it had."""
    large, known = sync.SMALL + 1, b"old".ljust(sync.SMALL + 1, b"\0")
    for name in ("changed", "dated", "large", "other", "unread"):
        (copy.here / name).write_text("new")
        (copy.there / name).write_text("old")
    (copy.there / "changed").write_text("oLd")
    for name in ("large", "other", "unread"):
        os.truncate(copy.there / name, large)
    for name in ("changed", "other", "unread"):
        os.utime(copy.there / name, ns=(OLD, OLD))
    sent = {"changed": DIGESTS, "dated": DIGESTS, "large": [(large, OLD, hashlib.sha256(known).hexdigest())]}
    answer = copy.check(sent={**sent, "other": [(large, OLD, "another")], "unread": [(large, OLD, "")]})
    assert [copy.entries[index].name for index in answer["needs"]] == ["dated", "large"]
    differs = {copy.entries[index].name: content for index, content in answer["differs"]}
    assert differs == {
        "changed": hashlib.sha256(b"oLd").hexdigest(),
        "other": hashlib.sha256(known).hexdigest(),
        "unread": "",
    }


def test_a_file_that_an_archive_changes_meanwhile_stays(copy: Copy) -> None:
    (copy.here / "a").write_text("new")
    (copy.there / "a").write_text("old")
    os.utime(copy.there / "a", ns=(OLD, OLD))
    copy.send(copy.check(sent=SENT_OLD))
    (copy.there / "a").write_text("oLd")
    os.utime(copy.there / "a", ns=(OLD, OLD))
    assert sync.apply([])["changed"] == ["a"]
    assert (copy.there / "a").read_text() == "oLd"


def test_the_project_itself_and_what_is_in_it(copy: Copy, tmp_path: Path) -> None:
    (copy.here / "sub").mkdir()
    (tmp_path / "link").symlink_to(copy.here)
    assert copy.check(target=copy.here)["same"]
    assert copy.check(target=tmp_path / "link")["same"]
    assert "inside the project" in copy.check(target=copy.here / "sub/deeper")["problem"]
    assert not (copy.here / "sub/deeper").exists()
    assert not copy.check()["same"]


def test_a_project_that_cannot_be_written_is_known_by_its_inode(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("ddpkit.node.owned.create_file", refuse)
    assert copy.check(target=copy.here)["same"]
    assert not copy.check()["same"]


def test_drafts_of_dead_launches_alone_are_removed(copy: Copy) -> None:
    (copy.here / "a").write_text("x")
    dead, mine = copy.there / (".ddpkit-sync-" + "0" * 16), copy.there / (".ddpkit-sync-" + "1" * 16)
    owned.make_directory(str(dead), sync.KIND)
    mine.mkdir()
    (mine / "file").touch()
    first = copy.check()
    copy.send(first)
    assert not dead.exists()
    assert (mine / "file").exists()
    assert sync.sees([dead.name, mine.name]) == [mine.name]
