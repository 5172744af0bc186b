"""Launches with --stage: nodes with a local disk of their own, which is full, foreign, read-only or torn as well."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import conda_prefix
import pytest
from bare_nodes import Bare, Done
from cluster import LOGIN, NODES

JOB = """
import os, sys
import part
print("ran", os.environ["RANK"], os.uname().nodename, part.TEXT, part.__file__, os.getcwd(), sys.prefix, flush=True)
"""
HOSTS = ("node1", "node2")
RANKS = ("-n", "1", "-o", "starter=ranks")


class Site:
    """Two nodes with a small disk each, and a project on a shared one."""

    def __init__(self, bare: Bare, folder: Path) -> None:
        self.bare = bare
        self.disk = folder / "disk"
        (bare.folder / "job.py").write_text(JOB)
        self.change("one")
        (bare.folder / ".gitignore").write_text(".env\nlogs/\n")
        (bare.folder / ".env").write_text("TOKEN=secret")
        for host in HOSTS:
            bare.small(host, self.disk, "size=40M,nr_inodes=2000")

    def change(self, text: str) -> None:
        (self.bare.folder / "part.py").write_text(f"TEXT = {text!r}\n")

    def argv(self, *args: str, backend: str = "ssh", stage: str = "--stage") -> list[str]:
        place = ("--stage-dir", str(self.disk / "stage"))
        return ["-b", backend, *RANKS, stage, *place, *HOSTS, *args, "--", "job.py"]

    def launch(self, *args: str, backend: str = "ssh", stage: str = "--stage") -> Done:
        return self.bare.launch(*self.argv(*args, backend=backend, stage=stage))

    def report(self) -> dict[str, Any]:
        """The start in the report of the newest run."""
        done = self.bare.ddpkit("report", "--json")
        assert done.code == 0, done.text
        start: dict[str, Any] = json.loads(done.out)["start"]
        return start

    def on(self, host: str, script: str) -> str:
        done = self.bare.lab.run(host, "sh", "-c", f"cd {self.disk}; {script}")
        return str(done.stdout)


@pytest.fixture
def site(bare: Bare, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(bare, tmp_path_factory.mktemp("local"))


def ran(done: Done) -> list[list[str]]:
    """Words of each rank, in the order of the ranks."""
    assert done.code == 0, done.text
    found = sorted(re.findall(r"ran (\d) (\S+) (\S+) (\S+) (\S+) (\S+)", done.out))
    assert [(rank, host) for rank, host, *_ in found] == [("0", "node1"), ("1", "node2")], done.text
    return [list(words[2:]) for words in found]


@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
def test_copied_once_for_each_content(site: Site, backend: str) -> None:
    shown = site.launch("--dry-run", backend=backend)
    assert shown.code == 0, shown.text
    assert re.search(r"# staged: .* -> .*/stage/project-\w+: 3 files, 0.0 MB, to node1, node2\n", shown.out), shown.text
    assert site.on("node1", "ls") == ""
    first = site.launch(backend=backend)
    for text, file, cwd, _ in ran(first):
        assert text == "one"
        assert file.startswith(f"{site.disk}/stage/project-")
        assert cwd == str(site.bare.folder)
    (record,) = site.bare.folder.glob("logs/*/run.json")
    assert json.loads(record.read_text())["command"] == ["job.py"]
    assert {"ddpkit: copied to node1", "ddpkit: copied to node2"} <= set(first.err.splitlines())
    for host in HOSTS:
        assert site.on(host, "ls -A stage/project-*/").split() == [".gitignore", "__pycache__", "job.py", "part.py"]
    start = site.report()
    assert "2 of 2 nodes copied files (--stage); slowest: node" in start["words"]
    for node, host in zip(start["nodes"], HOSTS, strict=True):
        (copy,) = node["copies"]
        assert (node["host"], copy["kind"], copy["copied"]) == (host, "project", True)
        assert 300 < copy["size"] < 3000  # three small files
        assert 0 < copy["seconds"] < first.seconds
    for row in start["rows"]:
        assert [each["phase"] for each in row["segments"]][:4] == ["listed", "staged", "prepared", "start"]
    second = site.launch(backend=backend)
    start = site.report()
    assert "Local copies (--stage) were present on all nodes" in start["words"]
    assert [node["copies"][0]["size"] for node in start["nodes"]] == [0, 0]
    assert "present on all nodes" in second.err
    assert "copied to" not in second.err
    assert ran(second) == ran(first)
    site.change("two")
    third = site.launch(backend=backend)
    assert [words[0] for words in ran(third)] == ["two", "two"]
    # The file that did not change is shared with the first copy.
    assert site.on("node1", "stat -c %h stage/project-*/job.py stage/project-*/part.py").split() == ["2", "2", "1", "1"]


def test_a_virtual_environment_runs_from_the_local_disk(site: Site, tmp_path: Path) -> None:
    venv = tmp_path / "shared-venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (venv / "bin/tool").write_text(f"#!{venv}/bin/python\nprint(__import__('sys').prefix)\n")
    (venv / "bin/tool").chmod(0o755)
    python = ("--python", str(venv / "bin/python"))
    shown = site.launch(*python, "--dry-run", stage="--stage=env")
    assert shown.code == 0, shown.text
    assert len(re.findall(r"# staged: .* to node1, node2\n", shown.out)) == 2, shown.text
    # The environment is on this machine alone.
    for host in HOSTS:
        site.bare.show(host, venv, site.bare.folder)
    first = site.launch(*python, stage="--stage=env")
    for *_, prefix in ran(first):
        assert prefix.startswith(f"{site.disk}/stage/env-")
        assert site.on("node2", f"{prefix}/bin/tool").strip() == prefix
    again = site.launch(*python, "--dry-run", stage="--stage=env")
    assert again.out.count("present on all nodes") == 2, again.text
    (venv / "lib/new.py").write_text("more")
    second = site.launch(*python, stage="--stage=env")
    assert ran(second) != ran(first)
    assert site.on("node1", "stat -c %h stage/env-*/bin/Activate.ps1").split() == ["2", "2"]


def test_a_conda_environment_runs_from_the_local_disk(site: Site, tmp_path: Path) -> None:
    conda = tmp_path / "conda"
    conda_prefix.make(conda)
    conda_prefix.add_python(conda)
    for host in HOSTS:
        site.bare.lab.run(host, "mount", "-o", "remount,size=100M,nr_inodes=9000", str(site.disk))
        site.bare.show(host, conda, site.bare.folder)  # the environment is on this machine alone
    args = ("--python", str(conda / "bin/python"))
    shown = site.launch(*args, "--dry-run", stage="--stage=env")
    assert shown.code == 0, shown.text
    first = site.launch(*args, stage="--stage=env")
    for host, (*_, prefix) in zip(HOSTS, ran(first), strict=True):
        assert prefix.startswith(f"{site.disk}/stage/env-")
        assert site.on(host, f"{prefix}/bin/tool").split() == [f"{prefix}/share", prefix]
    again = site.launch(*args, stage="--stage=env")
    assert "copied to" not in again.err
    assert ran(again) == ran(first)


def four(site: Site) -> Done:
    """Launch on four nodes."""
    place = ("--stage-dir", str(site.disk / "stage"))
    for host in NODES[2:4]:
        site.bare.small(host, site.disk, "size=40M,nr_inodes=2000")
    return site.bare.launch("-b", "ssh", *RANKS, "--stage", *place, *NODES[:4], "--", "job.py")


def test_nodes_serve_the_next_ones(site: Site) -> None:
    done = four(site)
    assert done.code == 0, done.text
    found = sorted(re.findall(r"ran (\d) (\S+) one ", done.out))
    assert found == [(str(rank), f"node{rank + 1}") for rank in range(4)], done.text
    sources = {node["host"]: node["copies"][0]["source"] for node in site.report()["nodes"]}
    first = [host for host, source in sources.items() if not source]
    assert 1 <= len(first) <= 2, sources  # the second one can come late
    assert {source for source in sources.values() if source} <= set(NODES[:4])
    assert "cannot copy from" not in done.err
    for host in NODES[:4]:
        assert site.on(host, "ls stage/project-*/").split() == ["__pycache__", "job.py", "part.py"]


def test_nodes_that_do_not_reach_each_other(site: Site) -> None:
    """The launcher sends to all. Then the nodes are refused, as gloo and NCCL need these ports as well."""
    for host in NODES[:4]:
        site.bare.firewall(host, "tcp flags & (syn | ack) == syn tcp dport 32768-65535 reject")
    done = four(site)
    assert done.code == 122, done.text
    assert "cannot copy from node" in done.err, done.text
    assert all(f"ddpkit: copied to {host}\n" in done.err for host in NODES[:4]), done.text
    for host in NODES[:4]:
        assert site.on(host, "ls stage/*.ok").count("\n") == 1


# ---- what can be wrong


def role(site: Site, host: str) -> str:
    """What a node does during the copy of big.bin."""
    listed = site.on(host, "ls -A stage stage/project-*/ 2>/dev/null || true").split()
    if any(name.startswith(".big.bin.") for name in listed):
        return "receives"  # as rsync names what is not complete
    connections = site.bare.lab.run(host, "ss", "-Htn", "state", "established").stdout
    ports = re.findall(r"10\.77\.0\.\d+\]?:(\d{5})\s+\S*10\.77\.0\.[1-4]\]?:\d{5}\s", connections)
    if ports and any(name.endswith(".ok") for name in listed):
        return "serves"
    return "fetches" if ports and "big.bin" in listed else ""


def copy_slowly(site: Site, hosts: Sequence[str], silence: int) -> subprocess.Popen[str]:
    """Start a launch that copies a large file over a slow network. `silence`: seconds, the heartbeat timeout."""
    lab = site.bare.lab
    slow = ("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "80mbit", "burst", "256kb", "limit", "1mb")
    for host in hosts:
        if host not in HOSTS:
            site.bare.small(host, site.disk, "size=40M,nr_inodes=2000")
    for host in (LOGIN, *hosts):
        lab.run(host, *slow)
        site.bare.later(lambda host=host: lab.run(host, "tc", "qdisc", "del", "dev", "eth0", "root"))  # type: ignore[misc]
    with (site.bare.folder / "big.bin").open("wb") as file:
        file.write(os.urandom(20 << 20))
    option = f"heartbeat_timeout={silence}"
    args = ("-b", "ssh", *RANKS, "-o", option, "--stage", "--stage-dir", f"{site.disk}/stage", *hosts)
    argv = site.bare.argv(*args, "--", "job.py")
    return subprocess.Popen(argv, env=site.bare.environ(), stdout=-1, stderr=-1, text=True, stdin=subprocess.DEVNULL)


def test_a_node_that_is_cut_off_during_the_copy_keeps_no_process(site: Site) -> None:
    lab = site.bare.lab
    launcher = copy_slowly(site, HOSTS, silence=2)
    try:
        site.bare.wait(lambda: role(site, "node2") == "receives", "nothing is copied")
        lab.cut("node2")
        site.bare.later(lambda: lab.mend("node2"))
        out, err = launcher.communicate(timeout=100)
    finally:
        launcher.kill()
    assert launcher.returncode == 123, out + err
    assert "  node2: " in err

    def receives() -> bool:
        return any("rsync --server" in line for line in lab.processes("node2").values())

    site.bare.wait(lambda: not receives(), "rsync waits on the node")


@pytest.mark.parametrize(
    ("does", "what"),
    [
        ("serves", r"no answer from \w+ port 22|no route to host"),  # by the age of its entry in the ARP table
        ("fetches", "no heartbeat for 10 s"),
        ("receives", "no heartbeat for 10 s"),
    ],
)
def test_a_node_that_dies_during_the_copy(site: Site, does: str, what: str) -> None:
    """The others get their copies, from another node or from the launcher."""
    lab, hosts = site.bare.lab, NODES[:4]
    launcher = copy_slowly(site, hosts, silence=10)
    found: list[str] = []

    def see() -> bool:
        assert launcher.poll() is None, launcher.communicate()
        found.extend(host for host in hosts if role(site, host) == does)
        return bool(found)

    try:
        site.bare.wait(see, f"no node {does}")
        dead = found[0]
        lab.kill(dead)
        killed = time.monotonic()
        try:
            out, err = launcher.communicate(timeout=100)
        finally:
            lab.boot(dead)
            lab.run(dead, "mount", "-t", "tmpfs", "none", str(site.disk))  # which is unmounted at the end
    finally:
        launcher.kill()
    done = Done(code=launcher.returncode, out=out, err=err, seconds=time.monotonic() - killed)
    refused(done, dead, what, dead)
    assert {host for host in hosts if f"ddpkit: copied to {host}\n" in err} >= {*hosts} - {dead}, done.text
    assert ("cannot copy from" in err) == (does == "serves"), done.text
    for host in {*hosts} - {dead}:
        assert site.on(host, "ls stage/*.ok").count("\n") == 1


def refused(done: Done, host: str, what: str, fix: str) -> None:
    assert done.code in (122, 123), done.text
    assert done.out == ""
    found = re.findall(r"^  (\S+): (.*)\n    hint: (.*)$", done.err, re.MULTILINE)
    assert [words[0] for words in found] == [host], done.text
    assert re.search(what, found[0][1]), done.text
    assert re.search(fix, found[0][2]), done.text


def test_a_disk_without_room(site: Site) -> None:
    with (site.bare.folder / "big.bin").open("wb") as file:
        file.truncate(30 << 20)
    site.on("node2", "head -c 20000000 /dev/zero > other")
    refused(site.launch(), "node2", r"has \d+ MB and \d+ files free; the copy needs 31 MB", "--stage-dir")
    site.on("node2", "rm other")
    ran(site.launch())
    # An earlier copy shares files, so that the need is not known; then rsync meets the end of the disk.
    with (site.bare.folder / "big.bin").open("ab") as file:
        file.write(os.urandom(9 << 20))
    done = site.launch()
    assert done.code == 123, done.text
    assert "No space left on device" in done.err
    (site.bare.folder / "big.bin").unlink()
    ran(site.launch())


def test_a_directory_that_cannot_be_used(site: Site) -> None:
    site.on("node1", "mkdir stage; chown 1234 stage")
    refused(site.launch(), "node1", "cannot stage in .*: it belongs to user 1234", "--stage-dir")
    site.on("node1", "chown 0 stage; chmod 777 stage")
    refused(site.launch(), "node1", "cannot stage in .*: other users can write to it", "--stage-dir")
    site.on("node1", f"rmdir stage; mount -o remount,ro {site.disk}")
    refused(site.launch(), "node1", "cannot stage in .*: read-only file system", "--stage-dir")
    site.on("node1", f"mount -o remount,rw {site.disk}")
    ran(site.launch())


def test_a_node_without_rsync(site: Site) -> None:
    site.bare.show("node2", "/usr/bin/rsync", "/dev/null")
    refused(site.launch(), "node2", "rsync", "ssh node2")


def test_a_torn_copy_is_completed_and_left_overs_are_removed(site: Site) -> None:
    ran(site.launch())
    site.on("node1", "cd stage; rm *.ok; cd project-*; echo damaged > part.py; mkdir ../project-dead")
    site.on("node2", "cd stage/project-*; rm job.py")
    done = site.launch()
    assert [words[0] for words in ran(done)] == ["one", "one"]
    assert "to node1, node2" in done.err
    site.change("two")
    ran(site.launch())
    assert "project-dead" not in site.on("node1", "ls stage")


def test_two_launches_at_once_copy_once(site: Site) -> None:
    with (site.bare.folder / "big.bin").open("wb") as file:
        file.write(os.urandom(8 << 20))
    argv = site.bare.argv(*site.argv())
    both = [
        subprocess.Popen(argv, env=site.bare.environ(), stdout=-1, stderr=-1, text=True, stdin=subprocess.DEVNULL)
        for _ in range(2)
    ]
    ends = [(*each.communicate(timeout=60), each.returncode) for each in both]
    assert [code for *_, code in ends] == [0, 0], ends
    for host in HOSTS:
        assert sum(f"copied to {host}" in err for _, err, _ in ends) == 1, ends
        assert len(site.on(host, "ls -d stage/project-*/").split()) == 1


def test_a_dead_launcher_leaves_nothing_but_its_beginning(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    with (site.bare.folder / "big.bin").open("wb") as file:
        file.write(os.urandom(16 << 20))
    here = tmp_path_factory.mktemp("launcher")
    env = site.bare.environ({"TMPDIR": str(here)})
    launcher = subprocess.Popen(site.bare.argv(*site.argv()), env=env, stdout=-1, stderr=-1, stdin=subprocess.DEVNULL)
    site.bare.wait(lambda: "project-" in site.on("node1", "ls stage 2>/dev/null || true"), "the copy did not begin")
    launcher.kill()
    launcher.communicate(timeout=60)
    assert not list(here.iterdir())
    site.bare.nothing_left(HOSTS)
    (site.bare.folder / "big.bin").unlink()
    ran(site.launch())
    for host in HOSTS:
        left = site.on(host, "ls stage").split()
        assert sorted(name.partition(".")[2] for name in left) in (["", "ok"], ["", "", "ok", "ok"]), left
