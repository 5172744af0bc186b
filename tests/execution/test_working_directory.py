"""Programs of ddpkit import nothing of the working directory: others may write there, or a project has such a name."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command

from ddpkit.launchers.shell import NOT_FROM_HERE, run_module

START = Callable[..., Command]
# Modules that torch, torchrun or ddpkit's own programs may import, some of them before the first line of their code.
SHADOWS = sorted({*sys.stdlib_module_names} - {*sys.builtin_module_names} | {"cloudpickle", "numpy", "torch"})
PYTHONS = [Path(sys.executable), *sorted(Path.home().glob(".pyenv/versions/3.[189]*/bin/python3"))]  # 3.8 and later
SPY = """\
import sys
with open({found!r}, "a") as found:
    print({name!r}, sys.argv, file=found)
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


PROGRAM = """\
import sys, ddpkit
def path(number):
    return number, sys.path[0]
print(ddpkit.call(path, 7, nproc_per_node=1))
"""


def test_a_call_imports_nothing_of_the_working_directory(
    clean_environ: dict[str, str], planted: tuple[Path, Path]
) -> None:
    """The program is elsewhere, and does not search there itself."""
    folder, found = planted
    (folder.parent / "project/calls.py").write_text(PROGRAM)
    argv = [sys.executable, "../project/calls.py"]
    done = subprocess.run(argv, cwd=folder, env=clean_environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == f"[(7, '{folder.parent}/project')]\n", done.stderr
    assert not found.exists(), found.read_text()


def test_a_hold_imports_nothing_of_the_working_directory(start: START, planted: tuple[Path, Path]) -> None:
    folder, found = planted
    start("hold", "-n", "1", "--preload=fractions", "--workdir", str(folder)).wait_for("imported ")
    assert not found.exists(), found.read_text()


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_code_of_ddpkits_imports_nothing_of_the_working_directory(
    clean_environ: dict[str, str], planted: tuple[Path, Path], python: Path
) -> None:
    """Python 3.13 imports linecache before the first line of the code. What the code starts has no variable of it."""
    folder, found = planted
    code = f"{NOT_FROM_HERE}; import json, linecache, random; print('PYTHONSAFEPATH' in os.environ)"
    start = f"import os; from ddpkit.node.child import execute; execute([{str(python)!r}, '-c', {code!r}], os.environ)"
    argv = [sys.executable, "-P" if sys.version_info >= (3, 11) else "-I", "-c", start]
    done = subprocess.run(argv, cwd=folder, env=clean_environ, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
    assert not found.exists(), found.read_text()


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
    assert not [each for each in words if "-I" not in each[1] and not NOT_FROM_HERE.startswith(each[2])]
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
