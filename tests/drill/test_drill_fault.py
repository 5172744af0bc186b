"""A fault reaches the process that it is meant for, and leaves it as it was where whoever asked goes away."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpkit.node import drill_fault
from ddpkit.node.drill_fault import Rank, files, look
from ddpkit.node.process_tree import read_process

SAVES = """
import os, sys, time
os.chdir(sys.argv[1])
sys.stdin.readline()
os.unlink("old.pt")
time.sleep(0.2)
with open("draft", "w") as file:
    file.write("whole")
os.rename("draft", "new.pt")
time.sleep(60)
"""


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that removes a checkpoint, and then saves one, when a line comes."""
    (tmp_path / "old.pt").write_text("old")
    argv = [sys.executable, "-c", SAVES, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def inject(pid: int, fault: str, value: str = "") -> subprocess.Popen[str]:
    text = f"{Path(drill_fault.__file__).read_text()}\nmain(*sys.argv[1:])\n"
    argv = [sys.executable, "-c", text, str(pid), fault, value]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "armed\n"
    return process


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_a_checkpoint_that_goes_is_no_save(rank: subprocess.Popen[str], tmp_path: Path) -> None:
    with inject(rank.pid, "save-kill", f"1000:{tmp_path}") as injector:
        say(injector)
        say(rank)
        assert injector.stdout is not None
        assert injector.stdout.readline().startswith(("done draft ", "done new.pt "))
    assert rank.wait(10) == -signal.SIGKILL


def test_a_save_that_is_shorter_than_a_look_is_killed_before_its_end(
    rank: subprocess.Popen[str], tmp_path: Path
) -> None:
    with inject(rank.pid, "save-kill", f"2:{tmp_path}") as injector:
        say(injector)
        say(rank)
        assert injector.stdout is not None
        assert injector.stdout.readline() in ("done draft 0\n", "done draft 2\n")
    assert rank.wait(10) != 0  # killed, or by the write that failed
    assert not (tmp_path / "new.pt").exists()


def test_a_rank_goes_on_when_the_drill_ends(rank: subprocess.Popen[str], tmp_path: Path) -> None:
    limits = resource.prlimit(rank.pid, resource.RLIMIT_FSIZE)
    with inject(rank.pid, "save-kill", f"1:{tmp_path}") as injector:
        say(injector)
        time.sleep(0.2)  # slices of the rank; with fewer of them it passes as well
        out, _ = injector.communicate(timeout=10)
    assert out == ""
    process = read_process(rank.pid)
    assert process is not None
    assert process.state != "T"
    assert resource.prlimit(rank.pid, resource.RLIMIT_FSIZE) == limits


@pytest.mark.parametrize("fault", ["disk", "kill", "stop", "another"])
def test_a_process_with_the_number_of_a_rank_is_not_touched(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits, own = resource.getrlimit(resource.RLIMIT_FSIZE), Rank(os.getpid())
    if fault != "another":
        monkeypatch.setattr(own, "_started", b"1")
    assert drill_fault.inject(own, fault, "1") is None
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == limits


def test_a_directory_that_goes_meanwhile_is_left_out(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.pt").write_text("")
    found = files(str(tmp_path))
    first = Path(next(found)).parent
    for above in {tmp_path / name for name in ("a", "b", "c")} - {first}:
        (above / "model.pt").unlink()
        above.rmdir()
    assert list(found) == []
    assert list(look(str(tmp_path))) == [f"{first.name}/model.pt"]
