"""A supervisor that was killed together with its guard leaves its private folder: the next one takes it away."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Command
from program import run_to_end, wait_until

from ddpkit.node.owned import make_directory
from ddpkit.node.supervision.scratch_dir import KIND
from ddpkit.transports.protocol import NODE

RANK = """
import os, time
print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
"""


def folders(tmp: Path) -> set[str]:
    return {path.name for path in tmp.glob("ddpkit-*")}


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    """The runs' TMPDIR."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def test_the_next_run_sweeps(
    tmp: Path, start: Callable[..., Command], script: Callable[[str], str], tmp_path: Path
) -> None:
    script(RANK)
    for name in ("living", "killed"):
        (tmp_path / name).mkdir()
    words = ("launch", "-n", "2", "-o", "starter=ranks", "--", str(tmp_path / "job.py"))
    living = start(*words, cwd=tmp_path / "living", env={"TMPDIR": str(tmp)})
    living.wait_for("ready", times=2)
    (kept,) = folders(tmp)
    # A process in the form that is sent to nodes makes the same names.
    assert re.fullmatch("ddpkit-[0-9a-f]{32}", kept)

    killed = start(*words, cwd=tmp_path / "killed", env={"TMPDIR": str(tmp)})
    killed.wait_for("ready", times=2)
    (left,) = folders(tmp) - {kept}
    guard, worker = killed.supervisors()
    # Stopped, neither can act upon the other's death.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (guard, worker):
            os.kill(pid, number)
    assert killed.end() != 0
    killed.wait_for_no_survivor()
    assert folders(tmp) == {kept, left}, "nobody was there to take it away"

    mine = tmp / f"ddpkit-{left[7:23]}{'2' * 16}"  # with what a person or a script put there
    make_directory(str(mine), KIND)
    (mine / "sub").mkdir()
    other = tmp / f"ddpkit-{'0' * 32}"  # of another machine
    other.mkdir()
    file = tmp / f"ddpkit-{left[7:23]}{'1' * 16}"  # no folder
    file.touch()
    after = start("launch", "-n", "1", "--", "-c", "pass", cwd=tmp_path / "killed", env={"TMPDIR": str(tmp)})
    assert after.end() == 0, after.tail
    assert folders(tmp) == {kept, mine.name, other.name, file.name}

    (tmp_path / "living" / "go").touch()
    assert living.end() == 0, living.tail
    assert folders(tmp) == {mine.name, other.name, file.name}
    assert (mine / "sub").exists()


# Whatever the rank and the launcher in its session load by its path is in one of these.
WHERE = """
import os
if "DDPKIT_DETACHED" in os.environ:
    open("detached", "w").write(os.environ["DDPKIT_DETACHED"])
elif os.environ.get("RANK"):
    open("seen", "w").write(repr(os.listdir(os.environ["TMPDIR"])))
"""


@pytest.mark.new_python
@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_nothing_is_made_where_others_could_replace_it(
    mode: int, tmp: Path, ddpkit: Callable[..., Any], script: Callable[..., str], tmp_path: Path
) -> None:
    """Who renames a folder with a program in it puts another program there, and who renames a pipe reads from it."""
    tmp.chmod(mode)
    script(WHERE, "sitecustomize.py")
    env, begin = {"TMPDIR": str(tmp), "PYTHONPATH": str(tmp_path)}, ("launch", "-n", "1", "-o", "starter=ranks")
    done = ddpkit(*begin, "--", script("pass\n"), env=env)
    assert done.returncode == 0, done.stderr
    assert ("ddpkit-" in (tmp_path / "seen").read_text()) == (mode == 0o1777)
    if shutil.which("tmux"):
        done = ddpkit(*begin, "--detach", "--", script("pass\n"), env=env)
        assert done.returncode == 0, done.stderr
        above = tmp if mode == 0o1777 else Path("/tmp")
        assert Path((tmp_path / "detached").read_text()).parent == above
    wait_until(lambda: not list(tmp.iterdir()))


# Makes a folder under the nose of one that takes every folder away as soon as it can be locked.
MAKER = """
import os
for _ in range(300):
    path = "%s/%s%s" % (os.path.dirname(FOLDER), os.path.basename(FOLDER)[:23], os.urandom(8).hex())
    hold_new(path, KIND)
    open(path + "/marks", "x").close()
    assert sorted(os.listdir(path)) == [".ddpkit", "marks"]
"""
SWEEPER = """
import os
while not os.path.exists("done"):
    sweep()
"""


def test_no_folder_is_swept_while_it_is_made(tmp: Path, tmp_path: Path) -> None:
    text = (NODE / "supervision/scratch_dir.py").read_text()
    env = {**os.environ, "TMPDIR": str(tmp)}
    sweeper = subprocess.Popen([sys.executable, "-c", text + SWEEPER], env=env, cwd=tmp_path)
    try:
        maker = subprocess.run([sys.executable, "-c", text + MAKER], env=env, check=False, timeout=120)
        assert maker.returncode == 0
    finally:
        (tmp_path / "done").touch()
        assert sweeper.wait(120) == 0
    # The maker has ended, so that all of them are nobody's.
    assert subprocess.run([sys.executable, "-c", text + "sweep()"], env=env, check=False, timeout=120).returncode == 0
    assert folders(tmp) == set()


def test_a_locked_folder_stays(tmp: Path) -> None:
    text = (NODE / "supervision/scratch_dir.py").read_text()
    env = {**os.environ, "TMPDIR": str(tmp)}
    made = run_to_end([sys.executable, "-c", text + "hold_new(FOLDER, KIND); print(FOLDER)"], env=env, check=True)
    path = made.stdout.strip()
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    subprocess.run([sys.executable, "-c", text + "sweep()"], env=env, check=True, timeout=120)
    assert folders(tmp) == {Path(path).name}
    os.close(fd)
    subprocess.run([sys.executable, "-c", text + "sweep()"], env=env, check=True, timeout=120)
    assert folders(tmp) == set()


@pytest.mark.new_python
@pytest.mark.torch
@pytest.mark.parametrize("starter", ["torchrun", "legacy"])
def test_torchrun_leaves_no_folder(
    starter: str, tmp: Path, ddpkit: Callable[..., Any], script: Callable[[str], str]
) -> None:
    """By itself it makes one for logs, and leaves it. A rank does not see where it is."""
    job = script("import os\nassert 'PET_LOG_DIR' not in os.environ\nprint('ran')\n")
    done = ddpkit("launch", "-n", "2", "-o", f"starter={starter}", "--", job, env={"TMPDIR": str(tmp)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ran") == 2
    assert list(tmp.iterdir()) == []
