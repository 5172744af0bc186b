"""A program that is not there is said to be that, also where a directory in PATH is closed to this user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE

# The error of the system for a name alone, in a PATH that holds a file, a directory and what does not exist.
ERRORS = {
    "nothing has it": ("no-such-program", ["."], True),
    "a directory that cannot be searched": ("no-such-program", ["closed", "."], True),
    "it may not run": ("plain", ["."], False),
    "it may not run, behind a closed one": ("plain", ["closed", "."], False),
    "a path that is not there": ("./no-such-program", ["closed"], True),
    "a path that may not run": ("./plain", ["closed"], False),
    "a path in a closed directory": ("closed/program", ["."], False),
}
TRY = """
import os, sys
from ddpkit.node.child import is_absent
try:
    os.execvpe(sys.argv[1], sys.argv[1:2], {"PATH": sys.argv[2]})
except OSError as error:
    print(is_absent(error, sys.argv[1], sys.argv[2]))
"""


# Without these, root may enter a closed directory as little as anyone else.
PLAIN = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "plain").write_text("")
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/program").write_text("")
    (tmp_path / "closed").chmod(0)
    return tmp_path


def run(place: Path, *argv: str, path: str) -> subprocess.CompletedProcess[str]:
    """Run Python here as a user to whom `closed` is closed, with another PATH."""
    plain = PLAIN if os.geteuid() == 0 else []
    env = {**os.environ, "PATH": path, "DDPKIT_GPUS": "0"}
    argv = (*plain, sys.executable, *argv)
    found = shutil.which(argv[0]) or argv[0]
    return subprocess.run(
        [found, *argv[1:]], cwd=place, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_not_there_and_what_may_not_run(case: str, place: Path) -> None:
    name, folders, absent = ERRORS[case]
    path = os.pathsep.join(str(place / folder) for folder in folders)
    done = run(place, "-c", TRY, name, path, path=os.environ["PATH"])
    assert done.stdout == f"{absent}\n", done.stderr


@pytest.mark.live
def test_a_rank_says_so_as_a_shell_does(place: Path) -> None:
    text = "import os; from ddpkit.node.child import execute; execute(['nope'], os.environ)"
    done = run(place, "-c", text, path=f"{place / 'closed'}:{os.environ['PATH']}")
    assert (done.returncode, done.stderr) == (127, "ddpkit: cannot start nope: No such file or directory\n")


@pytest.mark.live
def test_a_launch_says_so_of_uv(place: Path) -> None:
    done = run(place, "-m", "ddpkit", "launch", "--", "uv", "run", "job.py", path=str(place / "closed"))
    assert "error: program uv not found on PATH\n" in done.stderr
