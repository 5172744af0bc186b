"""Launches with --stage: nodes with a local disk of their own, which is full, foreign, read-only or torn as well."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import conda_prefix
import pytest
from bare_nodes import Bare, Done
from cluster import LOGIN

JOB = """
import os, sys
import part
print("ran", os.environ["RANK"], os.uname().nodename, part.TEXT, part.__file__, os.getcwd(), sys.prefix, flush=True)
"""
HOSTS = ("node1", "node2")
RANKS = ("-n", "1", "-o", "starter=ranks")
STAGE = "ddpkit-stage-0"


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
            bare.small(host, self.disk, "size=100M,nr_inodes=2000")

    def change(self, text: str) -> None:
        (self.bare.folder / "part.py").write_text(f"TEXT = {text!r}\n")

    def argv(self, *args: str, backend: str = "ssh", stage: str = "--stage") -> list[str]:
        place = ("--stage-dir", str(self.disk))
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


def copies(site: Site, host: str) -> list[str]:
    """Names of the complete copies of the project on a node."""
    found = site.on(host, f"ls {STAGE}/project-*/.ddpkit-complete 2> /dev/null || true").split()
    return [path.split("/")[1] for path in found]


def ran(done: Done) -> list[list[str]]:
    """Words of each rank, in the order of the ranks."""
    assert done.code == 0, done.text
    found = sorted(re.findall(r"ran (\d) (\S+) (\S+) (\S+) (\S+) (\S+)", done.out))
    assert [(rank, host) for rank, host, *_ in found] == [("0", "node1"), ("1", "node2")], done.text
    return [list(words[2:]) for words in found]


def test_a_changed_copy_of_an_account_with_the_same_user_id_is_not_run(site: Site) -> None:
    earlier, later = ({"XDG_STATE_HOME": str(site.bare.folder / "logs" / name)} for name in ("earlier", "later"))
    assert [words[0] for words in ran(site.bare.launch(*site.argv(), env=earlier))] == ["one", "one"]
    site.on("node1", f"""echo "TEXT = 'theirs'" | tee {STAGE}/project-*/part.py""")
    assert [words[0] for words in ran(site.bare.launch(*site.argv(), env=earlier))] == ["theirs", "one"]
    assert [words[0] for words in ran(site.bare.launch(*site.argv(), env=later))] == ["one", "one"]


@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
def test_copied_once_for_each_content(site: Site, backend: str) -> None:
    shown = site.launch("--dry-run", backend=backend)
    assert shown.code == 0, shown.text
    assert re.search(
        r"# staged: .* -> .*/ddpkit-stage-0/project-\w+: 3 files, 0.0 MB, to each node without a copy\n", shown.out
    ), shown.text
    assert site.on("node1", "ls") == ""
    first = site.launch(backend=backend)
    for text, file, cwd, _ in ran(first):
        assert text == "one"
        assert file.startswith(f"{site.disk}/{STAGE}/project-")
        assert cwd == str(site.bare.folder)
    (record,) = site.bare.folder.glob("logs/*/run.json")
    assert json.loads(record.read_text())["command"] == ["job.py"]
    assert {"ddpkit: copied to node1", "ddpkit: copied to node2"} <= set(first.err.splitlines())
    for host in HOSTS:
        assert site.on(host, f"ls {STAGE}/project-*/").split() == ["__pycache__", "job.py", "part.py"]
    start = site.report()
    assert "2 of 2 nodes copied files (--stage); slowest: node" in start["words"]
    for node, host in zip(start["nodes"], HOSTS, strict=True):
        (copy,) = node["copies"]
        assert (node["host"], copy["kind"], copy["copied"]) == (host, "project", True)
        assert 300 < copy["size"] < 20_000  # three small files, in an archive
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
    assert len(copies(site, "node1")) == 2


def test_a_virtual_environment_runs_from_the_local_disk(site: Site, tmp_path: Path) -> None:
    venv = tmp_path / "shared-venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (venv / "bin/tool").write_text(f"#!{venv}/bin/python\nprint(__import__('sys').prefix)\n")
    (venv / "bin/tool").chmod(0o755)
    python = ("--python", str(venv / "bin/python"))
    shown = site.launch(*python, "--dry-run", stage="--stage=env")
    assert shown.code == 0, shown.text
    assert len(re.findall(r"# staged: .* to each node without a copy\n", shown.out)) == 2, shown.text
    # The environment is on this machine alone.
    for host in HOSTS:
        site.bare.show(host, venv, site.bare.folder)
    first = site.launch(*python, stage="--stage=env")
    for *_, prefix in ran(first):
        assert prefix.startswith(f"{site.disk}/{STAGE}/env-")
        assert site.on("node2", f"{prefix}/bin/tool").strip() == prefix
    (venv / "lib/new.py").write_text("more")
    second = site.launch(*python, stage="--stage=env")
    assert ran(second) != ran(first)


def test_an_archive_of_conda_pack_runs_from_the_local_disk(site: Site, tmp_path: Path) -> None:
    """`conda-unpack` gives it its new path, as it does after `tar -xf`."""
    conda = conda_prefix.pack(tmp_path)
    for host in HOSTS:
        site.bare.lab.run(host, "mount", "-o", "remount,size=400M,nr_inodes=9000", str(site.disk))
    first = site.launch(stage=f"--stage={conda}")
    for host, (*_, prefix) in zip(HOSTS, ran(first), strict=True):
        assert prefix.startswith(f"{site.disk}/{STAGE}/env-")
        assert site.on(host, f"cat {prefix}/etc/where").strip() == prefix
    again = site.launch(stage=f"--stage={conda}")
    assert "copied to" not in again.err
    assert ran(again) == ran(first)


# ---- what is not ddpkit's


def test_what_lies_beside_the_copies_stays(site: Site) -> None:
    """`--stage-dir` is the user's scratch directory: ddpkit has one of its own there."""
    old = "project-" + "a" * 32
    site.on(
        "node1",
        "mkdir -p imagenet-1k my-checkpoints project-0123 && touch imagenet-1k/x my-checkpoints/best.pt X-1.lock"
        f" && mkdir -m 700 {STAGE} && mkdir {STAGE}/{old} && touch {STAGE}/{old}/mine {STAGE}/{old}.lock",
    )
    for text in ("one", "two", "three", "four", "five"):
        site.change(text)
        done = site.launch()
        assert [words[0] for words in ran(done)] == [text, text]
    left = site.on("node1", f"ls . && ls {STAGE}/{old}").split()
    assert {"imagenet-1k", "my-checkpoints", "project-0123", "X-1.lock", STAGE, "mine"} == set(left)
    assert site.on("node1", "ls imagenet-1k my-checkpoints").split() == [
        "imagenet-1k:",
        "x",
        "my-checkpoints:",
        "best.pt",
    ]
    assert len(copies(site, "node2")) == 3  # the last ones


def test_copies_in_use_are_kept_whoever_uses_them(site: Site) -> None:
    """A rank whose command line does not name the copy, while other launches sweep."""
    (site.bare.folder / "job.py").write_text(
        "import os, sys\n"
        "code = '''import os, sys, time; sys.path.insert(0, os.environ['PLACE']); open('up', 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.05)\n"
        "import late; print('late', late.TEXT)'''\n"
        "os.environ['PLACE'] = os.path.dirname(__file__)\n"
        "os.execv(sys.executable, ['python', '-c', code])\n"
    )
    (site.bare.folder / "late.py").write_text("TEXT = 'import'\n")
    place = ("--stage-dir", str(site.disk))
    argv = site.bare.argv("-b", "ssh", *RANKS, "--stage", *place, "node1", "--", "job.py")
    with subprocess.Popen(argv, env=site.bare.environ(), stdout=-1, stderr=-1, text=True, stdin=-3) as launcher:
        site.bare.wait((site.bare.folder / "up").exists, "no rank")
        (used,) = copies(site, "node1")
        (site.bare.folder / "job.py").write_text(JOB)
        for text in ("two", "three", "four", "five", "six"):
            site.change(text)
            done = site.bare.launch("-b", "ssh", *RANKS, "--stage", *place, "node1", "--", "job.py")
            assert done.code == 0, done.text
        assert used in copies(site, "node1")
        (site.bare.folder / "go").touch()
        out, err = launcher.communicate(timeout=60)
    assert "late import" in out, out + err
    site.change("seven")
    assert site.bare.launch("-b", "ssh", *RANKS, "--stage", *place, "node1", "--", "job.py").code == 0
    assert used not in copies(site, "node1")


def test_what_a_script_saved_beside_its_file_is_not_removed(site: Site) -> None:
    (site.bare.folder / "job.py").write_text(
        "import pathlib, part\nplace = pathlib.Path(__file__).parent / 'checkpoints'\nplace.mkdir(exist_ok=True)\n"
        "if part.TEXT == 'one': (place / 'best.pt').write_text('weeks')\n"
    )
    for text in ("one", "two", "three", "four", "five"):
        site.change(text)
        done = site.launch()
        assert done.code == 0, done.text
        saved = site.on("node1", f"ls {STAGE}/*/checkpoints/best.pt").strip()
        assert saved, text
        named = f"--stage: not removed: old copies in which a script wrote 2 files (0.0 MB): node1:{site.disk}/{saved}"
        assert (named in done.err.replace("node2:", "node1:")) == (text in ("four", "five")), done.text
    assert len(copies(site, "node1")) == 4  # the last ones, and this one


# ---- what can be wrong


def copy_slowly(site: Site, hosts: Sequence[str], silence: int) -> subprocess.Popen[str]:
    """Start a launch that copies a large file over a slow network. `silence`: seconds, the heartbeat timeout."""
    lab = site.bare.lab
    slow = ("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "80mbit", "burst", "256kb", "limit", "1mb")
    for host in hosts:
        if host not in HOSTS:
            site.bare.small(host, site.disk, "size=100M,nr_inodes=2000")
    for host in (LOGIN, *hosts):
        lab.run(host, *slow)
        site.bare.later(lambda host=host: lab.run(host, "tc", "qdisc", "del", "dev", "eth0", "root"))  # type: ignore[misc]
    with (site.bare.folder / "big.bin").open("wb") as file:
        file.write(os.urandom(20 << 20))
    option = f"heartbeat_timeout={silence}"
    args = ("-b", "ssh", *RANKS, "-o", option, "--stage", "--stage-dir", str(site.disk), *hosts)
    argv = site.bare.argv(*args, "--", "job.py")
    return subprocess.Popen(argv, env=site.bare.environ(), stdout=-1, stderr=-1, text=True, stdin=subprocess.DEVNULL)


def test_a_node_that_is_cut_off_during_the_copy_keeps_no_process(site: Site) -> None:
    lab = site.bare.lab
    launcher = copy_slowly(site, HOSTS, silence=2)
    try:
        site.bare.wait(lambda: ".tar-" in site.on("node2", f"ls {STAGE} 2>/dev/null || true"), "nothing is copied")
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
    site.on("node2", "head -c 60000000 /dev/zero > other")
    refused(site.launch(), "node2", r"has \d+ MB and \d+ files free; the copy needs 61 MB", "--stage-dir")
    site.on("node2", "rm other")
    ran(site.launch())


def test_a_disk_that_is_read_only(site: Site) -> None:
    site.on("node1", f"mount -o remount,ro {site.disk}")
    refused(site.launch(), "node1", "cannot stage in .*: read-only file system", "--stage-dir")
    site.on("node1", f"mount -o remount,rw {site.disk}")
    ran(site.launch())


def test_a_node_without_rsync(site: Site) -> None:
    site.bare.show("node2", "/usr/bin/rsync", "/dev/null")
    refused(site.launch(), "node2", "rsync", "ssh node2")


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
        assert len(site.on(host, f"ls -d {STAGE}/project-*/").split()) == 1


def test_a_dead_launcher_leaves_nothing_but_its_beginning(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    with (site.bare.folder / "big.bin").open("wb") as file:
        file.write(os.urandom(16 << 20))
    here = tmp_path_factory.mktemp("launcher")
    env = site.bare.environ({"TMPDIR": str(here)})
    launcher = subprocess.Popen(site.bare.argv(*site.argv()), env=env, stdout=-1, stderr=-1, stdin=subprocess.DEVNULL)
    site.bare.wait(lambda: "project-" in site.on("node1", f"ls {STAGE} 2>/dev/null || true"), "the copy did not begin")
    launcher.kill()
    launcher.communicate(timeout=60)
    assert not list(here.iterdir())
    site.bare.nothing_left(HOSTS)
    (site.bare.folder / "big.bin").unlink()
    ran(site.launch())
    for host in HOSTS:
        left = site.on(host, f"ls {STAGE}").split()
        assert sorted(left) == sorted(each for name in copies(site, host) for each in (name, f"{name}.lock"))
