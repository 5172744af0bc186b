"""Programs of ddpkit import nothing of the working directory: others may write there, or a project has such a name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ddpkit.launchers.shell import run_module

# Modules that torch, torchrun or ddpkit's own programs import after Python's start.
SHADOWS = (
    "argparse base64 collections datetime functools importlib json os random re runpy shutil socket struct".split()
)
SHADOWS += "subprocess tempfile threading torch typing uuid zlib".split()
SPY = """\
import sys
with open({found!r}, "a") as found:
    print({name!r}, sys.orig_argv[:3], file=found)
raise ImportError("a module of the working directory")
"""


@pytest.fixture
def planted(tmp_path: Path) -> tuple[Path, Path]:
    """A working directory with modules of the names of Python's own, and the file that each import writes to."""
    folder, found = tmp_path / "open", tmp_path / "found"
    folder.mkdir()
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(SPY.format(found=str(found), name=name))
    (tmp_path / "project").mkdir()
    (tmp_path / "project/job.py").write_text("print('trains')\n")
    return folder, found


@pytest.mark.torch
@pytest.mark.parametrize(
    "words",
    [
        ("launch", "-n", "2", "--starter", "torchrun", "--", "../project/job.py"),
        ("bench", "-n", "2", "-e", "64"),
        ("launch", "--dry-run", "--", "../project/job.py"),
    ],
    ids=lambda words: " ".join(words[:5]),
)
def test_a_command_imports_nothing_of_the_working_directory(
    clean_environ: dict[str, str], planted: tuple[Path, Path], words: tuple[str, ...]
) -> None:
    folder, found = planted
    argv = [sys.executable, "-c", run_module("ddpkit"), *words]  # as the program `ddpkit`, which `python -m` is not
    done = subprocess.run(argv, cwd=folder, env=clean_environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not found.exists(), found.read_text()
    assert words[0] != "launch" or "--dry-run" in words or done.stdout.count("trains") == 2


@pytest.mark.parametrize("words", [("ps",), ("env",), ("launch", "--dry-run", "--", "../project/job.py")], ids=" ".join)
def test_a_module_of_python_imports_nothing_more_of_the_working_directory(
    clean_environ: dict[str, str], planted: tuple[Path, Path], words: tuple[str, ...]
) -> None:
    """What `python -m` imports before it begins any module is Python's own, and cannot be held back from here."""
    folder, found = planted
    (folder.parent / "first.py").write_text("import sys; print(*sys.modules)")
    first = [sys.executable, "-m", "first"]
    own = subprocess.run(first, cwd=folder.parent, env=clean_environ, capture_output=True, text=True, check=True)
    for name in {*SHADOWS} & {*own.stdout.split()}:
        (folder / f"{name}.py").unlink()
    assert len([*folder.iterdir()]) > 10
    argv = [sys.executable, "-m", "ddpkit", *words]
    done = subprocess.run(argv, cwd=folder, env=clean_environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not found.exists(), found.read_text()


def test_a_program_of_the_user_keeps_its_path(clean_environ: dict[str, str], tmp_path: Path) -> None:
    """`python -m pkg` imports ddpkit while Python still looks for its module."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("import ddpkit\n")
    (tmp_path / "pkg/__main__.py").write_text("import beside, sys; print(sys.path[0])\n")
    (tmp_path / "beside.py").touch()
    argv = [sys.executable, "-m", "pkg", "-m", "ddpkit"]
    done = subprocess.run(argv, cwd=tmp_path, env=clean_environ, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}\n"


def test_the_search_for_a_python_imports_nothing_of_the_working_directory(
    planted: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ddpkit import config

    folder, found = planted
    monkeypatch.chdir(folder)
    again = Path(sys.prefix, "bin", "python3")  # another name than that of this process, so that it is started
    config._has_torch(str(again))
    assert not found.exists(), found.read_text()


def test_no_plan_runs_code_that_imports_from_the_working_directory() -> None:
    plans = sorted(Path(__file__).parents[1].glob("golden/*.sh"))
    words = [(path.name, flags, code) for path in plans for flags, code in _codes(path.read_text())]
    assert len(words) > 40
    start = 'import sys; sys.path[:1] != [""] or sys.path.pop(0)'
    assert not [each for each in words if "-I" not in each[1] and not each[2].startswith(start)]
    assert not [path.name for path in plans if re.search(r"-m torch\.", path.read_text())]


def _codes(text: str) -> list[tuple[str, str]]:
    """The flags and the code of each `python -c` of a plan."""
    return re.findall(r"""python3?((?: -[A-Za-z])*) -c ['"]+(.{60})""", text.replace("\n", " "))


def test_a_tilde_is_the_home_of_the_user(tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """As on a node. No directory of that name is asked for, which a shell would delete with all that is in the home."""
    home, project = tmp_path / "home", tmp_path / "project"
    (home / "work").mkdir(parents=True)
    project.mkdir()
    for typed, where in (("~", home), ("~/work", home / "work")):
        (project / "ddpkit.toml").write_text(f'workdir = "{typed}"\n')
        argv = [sys.executable, "-m", "ddpkit", "launch", "-n", "1", "--log-dir", str(tmp_path / "logs"), "--", "pwd"]
        env = {**clean_environ, "HOME": str(home)}
        done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert str(where) in done.stdout.split()
    (project / "ddpkit.toml").write_text('workdir = "~no-such-user/work"\n')
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.endswith("hint: getent passwd no-such-user\n")
    assert not (project / "~").exists()
