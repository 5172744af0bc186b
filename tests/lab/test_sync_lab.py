"""Launches with --sync: what a node has of its own stays, whatever the directory there is."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
from bare_nodes import Bare, Done
from cluster import LOGIN

HOSTS = ("node1", "node2")
RANKS = ("-n", "1", "-o", "starter=ranks")
OLD, NEW = (1_600_000_000, 1_600_000_000), (1_900_000_000, 1_900_000_000)


class Site:
    """A project here, and another directory on each of two nodes, which are their own."""

    def __init__(self, bare: Bare) -> None:
        self.bare, self.here = bare, bare.folder
        (self.here / ".gitignore").write_text("logs/\n")
        self.there = {host: self.here.parent / f"{self.here.name} on {host}" for host in HOSTS}
        for place in self.there.values():
            place.mkdir(mode=0o700)
        self.workdirs({host: str(place) for host, place in self.there.items()})

    def workdirs(self, places: dict[str, str]) -> None:
        text = "".join(f"[host.{host}]\nworkdir = {json.dumps(place)}\n" for host, place in places.items())
        (self.here / "ddpkit.toml").write_text(text)

    def both(self, name: str, text: str, when: tuple[int, int]) -> None:
        """Give every node this file."""
        for place in self.there.values():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
            os.utime(place / name, when)

    def launch(self, *args: str, sync: str = "--sync", backend: str = "ssh") -> Done:
        return self.bare.launch("-b", backend, *RANKS, sync, *HOSTS, *args, "--", "job.py")


@pytest.fixture
def site(bare: Bare) -> Site:
    return Site(bare)


def tree(place: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a directory, with its identity."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (place, *place.rglob("*")):
        each = path.lstat()
        text = path.read_text() if stat.S_ISREG(each.st_mode) else path.readlink() if path.is_symlink() else ""
        found[str(path)] = (each.st_mode, each.st_uid, each.st_ino, each.st_mtime_ns, text)
    return found


@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
def test_only_what_differs_is_copied(site: Site, backend: str) -> None:
    (site.here / "pkg").mkdir()
    (site.here / "pkg/part.py").write_text("new")
    (site.here / "pkg/tool.sh").write_text("#!/bin/sh\n")
    (site.here / "pkg/tool.sh").chmod(0o775)
    (site.here / "link").symlink_to("pkg/part.py")
    (site.here / "new\nline").write_text("odd")
    site.both("pkg/part.py", "old", OLD)
    site.both("own.txt", "of the node", NEW)
    for place in site.there.values():
        (place / "pkg/part.py").chmod(0o600)
    shown = site.launch("--dry-run", backend=backend)
    assert shown.code == 0, shown.text
    assert all(f"{site.here} -> {host}:{place}" in shown.out for host, place in site.there.items()), shown.text
    done = site.launch(backend=backend, sync="--sync=overwrite")
    assert done.code == 0, done.text
    assert done.out.count("ran ") == 2
    for host, place in site.there.items():
        assert f"copied to {host}" in done.err
        assert (place / "pkg/part.py").read_text() == "new"
        assert (place / "own.txt").read_text() == "of the node"
        assert (place / "link").readlink() == Path("pkg/part.py")
        assert (place / "new\nline").read_text() == "odd"
        assert not list(place.glob(".ddpkit*")), "a draft is left"
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert stat.S_IMODE((place / "pkg/part.py").stat().st_mode) == 0o600
        assert stat.S_IMODE((place / "pkg/tool.sh").stat().st_mode) == 0o755
    assert not list(site.here.glob(".ddpkit*")), "a nonce is left"
    before = {host: tree(place) for host, place in site.there.items()}
    assert site.launch(backend=backend).code == 0
    assert {host: tree(place) for host, place in site.there.items()} == before


@pytest.mark.parametrize("other", ["same path", "through a link", "bind mount"])
def test_a_node_that_sees_the_same_directory_is_left_alone(site: Site, other: str) -> None:
    """A job of the node writes there: rsync would rename what it has read by then over the file."""
    places = {host: str(site.here) for host in HOSTS}
    if other == "through a link":
        (site.here.parent / f"{site.here.name} link").symlink_to(site.here)
        places["node2"] = f"{site.here} link"
    if other == "bind mount":
        site.bare.show("node2", site.there["node2"], site.here)
        places["node2"] = str(site.there["node2"])
    site.workdirs(places)
    with (site.here / "checkpoint.pt").open("w") as file:
        file.write("half")
        file.flush()
        before = (site.here / "checkpoint.pt").stat().st_ino
        done = site.launch()
        file.write(" of it")
    assert done.code == 0, done.text
    for host in HOSTS:
        assert re.search(rf"{host}.*same directory", done.err), done.text
        assert f"copied to {host}" not in done.err
    assert (site.here / "checkpoint.pt").stat().st_ino == before
    assert (site.here / "checkpoint.pt").read_text() == "half of it"
    assert not list(site.here.glob(".ddpkit*"))


def test_nodes_that_share_a_directory_get_one_copy(site: Site) -> None:
    site.workdirs(dict.fromkeys(HOSTS, str(site.there["node1"])))
    done = site.launch()
    assert done.code == 0, done.text
    assert done.err.count("copied to") == 1
    assert "node2" in done.err
    assert not list(site.there["node1"].glob(".ddpkit*"))


def newer(site: Site, place: Path) -> str:
    (place / "job.py").write_text("print('of the node')\n")
    os.utime(place / "job.py", NEW)
    return "changed there, or not from --sync.*: job.py"


def older(site: Site, place: Path) -> str:
    """As the results of a job, below the same name as others here."""
    (site.here / "results.csv").write_text("of here")
    (place / "results.csv").write_text("months of work of the node")
    os.utime(place / "results.csv", OLD)
    return "changed there, or not from --sync.*: results.csv"


def link_for_directory(site: Site, place: Path) -> str:
    (site.here / "data").mkdir()
    (site.here / "data/small.csv").write_text("1")
    big = place.parent / f"{place.name} big disk"
    big.mkdir()
    (place / "data").symlink_to(big)
    return "data is a link there, and a directory here"


def directory_for_file(site: Site, place: Path) -> str:
    (site.here / "out").write_text("a file")
    (place / "out").mkdir()
    (place / "out/result.pt").write_text("weeks")
    return "out is a directory there, and a file here"


@pytest.mark.parametrize("conflict", [newer, older, link_for_directory, directory_for_file])
def test_what_would_be_lost_stops_the_copy_on_every_node(site: Site, conflict: object) -> None:
    assert callable(conflict)
    said = conflict(site, site.there["node2"])
    (site.here / "more.py").write_text("more")
    before = {host: tree(place) for host, place in site.there.items()}
    done = site.launch()
    assert done.code == 122, done.text
    assert re.search(said, done.err), done.text
    assert {host: tree(place) for host, place in site.there.items()} == before
    assert "ran " not in done.out
    again = site.launch(sync="--sync=overwrite")
    place = site.there["node2"]
    if conflict is directory_for_file:  # no option deletes a directory with all in it
        assert again.code == 122, again.text
        assert {host: tree(place) for host, place in site.there.items()} == before
    else:
        assert again.code == 0, again.text
        assert (place / "more.py").read_text() == "more"
    if conflict is newer:
        assert "of the node" not in (place / "job.py").read_text()
    if conflict is older:
        assert (place / "results.csv").read_text() == "of here"
    if conflict is link_for_directory:
        assert (place / "data/small.csv").read_text() == "1"
        assert not list((place.parent / f"{place.name} big disk").iterdir())


@pytest.mark.parametrize("when", [OLD, NEW])
def test_files_with_the_same_content_stop_nothing(site: Site, when: tuple[int, int]) -> None:
    """As after `git clone` on the node. From then on they are copies: what is edited here replaces them."""
    text = (site.here / "job.py").read_text()
    site.both("job.py", text, when)
    done = site.launch()
    assert done.code == 0, done.text
    assert (site.there["node1"] / "job.py").stat().st_mtime == when[0]
    (site.here / "job.py").write_text(text.replace("ran", "then ran"))
    done = site.launch()
    assert done.code == 0, done.text
    assert done.out.count("then ran ") == 2


def test_edit_and_launch_again_until_somebody_edits_there(site: Site) -> None:
    """A copy that nobody changed is replaced in silence, whatever the times here, on nodes that missed versions too."""
    text = (site.here / "job.py").read_text()
    rounds: list[tuple[tuple[str, ...], tuple[int, int] | None]]
    rounds = [(HOSTS, None), (("node1",), None), (("node1",), OLD), (HOSTS, NEW), (HOSTS, OLD)]
    for number, (hosts, when) in enumerate(rounds):
        (site.here / "job.py").write_text(text.replace("ran", f"version {number} ran"))
        if when:  # as `git checkout`, or an archive
            os.utime(site.here / "job.py", when)
        done = site.bare.launch("-b", "ssh", *RANKS, "--sync", *hosts, "--", "job.py")
        assert done.code == 0, done.text
        assert done.out.count(f"version {number} ran ") == len(hosts)
    edited = site.there["node1"] / "job.py"
    edited.write_text("print('edited there')\n")
    os.utime(edited, OLD)
    (site.here / "job.py").write_text(text)
    done = site.launch()
    assert done.code == 122, done.text
    assert re.search(r"node1.*changed there, or not from --sync.*: job\.py", done.err), done.text
    assert "node2: --sync" not in done.err
    assert edited.read_text() == "print('edited there')\n"
    assert site.launch(sync="--sync=overwrite").code == 0
    assert site.launch().code == 0


def test_a_copy_in_a_shared_directory_is_known_on_another_node(site: Site) -> None:
    site.workdirs(dict.fromkeys(HOSTS, str(site.there["node1"])))
    for host in (*HOSTS, HOSTS[0]):
        (site.here / "job.py").write_text(f"print('for', {host!r})\n")
        done = site.bare.launch("-b", "ssh", *RANKS, "--sync", host, "--", "job.py")
        assert done.code == 0, done.text
        assert f"for {host}" in done.out


@pytest.mark.parametrize("place", ["~", "link", "other home"])
def test_a_home_directory_is_no_target(site: Site, place: str) -> None:
    home = site.here.parent / f"{site.here.name} home"
    home.mkdir()
    if place == "link":
        place = str(home / "link")
        Path(place).symlink_to(Path.home())
    if place == "other home":
        (home / ".ssh").mkdir()
        place = str(home)
    site.workdirs({"node1": place, "node2": str(site.there["node2"])})
    before = tree(site.there["node2"])
    shown = site.launch("--dry-run")  # refused as well, or not asked: no file named ~ in any case
    done = site.launch()
    assert done.code in (121, 122), done.text
    assert "node1" in done.err, done.text
    assert "--sync" in done.err
    assert tree(site.there["node2"]) == before
    assert not Path.home().joinpath("~").exists()
    assert not Path.home().joinpath("job.py").exists()
    assert shown.code in (0, 121, 122)


def test_a_name_in_a_host_file_is_no_option(site: Site) -> None:
    (site.here / "hosts.txt").write_text(f"--log-file={site.here}/pwned@node1\n")
    site.bare.launch("-b", "ssh", *RANKS, "--sync", "--hostfile", "hosts.txt", "--", "job.py")
    assert not (site.here / "pwned").exists()


@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
def test_no_ssh_of_ours_becomes_the_users_shared_connection(site: Site, backend: str) -> None:
    control = f"{site.bare.lab.folder}/control-%h"
    site.bare.ssh_config(f"Host *\n  ControlMaster auto\n  ControlPath {control}\n  ControlPersist 60\n")
    done = site.launch(backend=backend)
    assert done.code == 0, done.text
    for host in HOSTS:
        assert not Path(control.replace("%h", host)).exists(), "a master of ours"


def test_the_users_shared_connection_outlives_the_launch(site: Site) -> None:
    control = f"{site.bare.lab.folder}/own-%h"
    site.bare.ssh_config(f"Host *\n  ControlMaster auto\n  ControlPath {control}\n")
    session = site.bare.daemon(LOGIN, "ssh", "node1", "echo up; exec sleep 100")
    for backend in ("ssh", "pdsh"):
        done = site.launch(backend=backend)
        assert done.code == 0, done.text
        assert session.poll() is None
        check = site.bare.lab.run(LOGIN, "ssh", "-O", "check", "node1", check=False)
        assert check.returncode == 0, check.stderr


def test_a_file_that_is_written_here_is_left_out(site: Site) -> None:
    """The launcher's own output in the project, as of nohup, grows all the time."""
    site.both("nohup.out", "before", OLD)
    argv = ["sh", "-c", "while :; do echo line >> nohup.out; done"]
    with subprocess.Popen(argv, cwd=site.here) as writer:
        try:
            done = site.launch(sync="--sync=overwrite")
        finally:
            writer.kill()
    assert done.code == 0, done.text
    for place in site.there.values():
        assert (place / "nohup.out").read_text() == "before"
    assert re.search(r"changed here .*nohup\.out", done.err), done.text
