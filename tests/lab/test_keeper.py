"""A process of the tests ends in whatever way: neither its lab nor a program below it goes on."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import keeper
import pytest
from cluster import Lab, started_with
from launching import wait_until
from program import MARK, Program, marked

OWNER = """
import signal, subprocess, sys
from pathlib import Path
from cluster import Lab
lab = Lab(Path(sys.argv[1]), plain=1)
lab.up()
sleeper = subprocess.Popen(["sleep", "3600"], start_new_session=True)
print("up", lab.tag, sleeper.pid, flush=True)
signal.pause()
"""


class Owner:
    """A process with a lab and a program in a session of its own."""

    def __init__(self, folder: Path, *before: str) -> None:
        self.folder, self.mark = folder, secrets.token_hex(8)
        env = {**os.environ, MARK: self.mark, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.program = Program([*before, sys.executable, "-c", OWNER, str(folder)], env=env)
        self.program.wait_for("up ")
        _, self.tag, sleeper = next(line for line in self.program.lines if line.startswith("up ")).split()
        self.sleeper = int(sleeper)

    def lab(self) -> list[str]:
        """What there is of the lab: processes, namespaces, its entry."""
        paths = (f"{self.folder}/hosts/{name}.json" for name in ("node1", "login"))
        spaces = [path.name for path in Path("/run/netns").glob(f"{self.tag}-*")]
        entries = [path.name for path in keeper.REGISTER.glob(f"*{self.tag}*")]
        return [*map(str, started_with([*paths])), *spaces, *entries]

    def end(self) -> None:
        keeper.kill(list(marked(self.mark)))
        self.program.process.wait()
        keeper.end_abandoned()

    def helper(self) -> int:
        (pid,) = (pid for pid, line in marked(self.mark).items() if "keeper.py" in line)
        return pid


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    made = Owner(tmp_path / "lab")
    yield made
    made.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_a_lab_and_programs_end_with_their_process(number: signal.Signals, owner: Owner) -> None:
    keeper.end_abandoned()
    assert len(owner.lab()) == 8, "two hosts of two processes each, three namespaces and an entry"
    os.killpg(owner.program.process.pid, number)
    wait_until(lambda: not owner.lab() and not marked(owner.mark), lambda: (owner.lab(), marked(owner.mark)))


def test_what_a_killed_helper_did_not_do_the_next_one_does(lab: Lab, owner: Owner) -> None:
    keeper.kill([owner.helper(), owner.program.process.pid])
    owner.program.process.wait()
    assert len(owner.lab()) == 8
    keeper.end_abandoned()
    assert not owner.lab()
    assert lab.run("node1", "hostname").stdout == "node1\n", "one whose process lives goes on"


def test_a_lab_without_an_owner_stays_until_it_is_ended(owner: Owner) -> None:
    """`cluster.py up` makes such a lab: its entry, which others would see, is not there."""
    entry = keeper.REGISTER / owner.tag
    entry.unlink()
    keeper.kill([owner.helper(), owner.program.process.pid])
    owner.program.process.wait()
    keeper.end_abandoned()
    assert len(owner.lab()) == 7
    Lab(owner.folder, plain=1).down()
    assert not owner.lab()


IN_ETC = 'mount --bind "$1" /etc && shift && exec "$@"'


def test_a_file_that_replaces_one_of_the_machine_changes_no_host(tmp_path: Path) -> None:
    """Any package, or `sed -i`, does that to /etc/hosts: this one's machine has an /etc of its own."""
    etc = tmp_path / "etc"
    shutil.copytree("/etc", etc, symlinks=True, copy_function=shutil.copy, ignore_dangling_symlinks=True)
    made = Owner(tmp_path / "lab", "unshare", "--mount", "sh", "-c", IN_ETC, "sh", str(etc))
    try:
        for name in ("hosts", "hostname", "nsswitch.conf"):
            (etc / f"{name}.new").write_text("")
            (etc / f"{name}.new").replace(etc / name)
        lab = Lab(made.folder, plain=1)
        assert lab.run("login", "getent", "hosts", "node1").stdout.split() == ["10.77.0.1", "node1"]
        assert lab.run("login", "ssh", "node1", "cat", "/etc/hostname").stdout == "node1\n"
    finally:
        made.end()
