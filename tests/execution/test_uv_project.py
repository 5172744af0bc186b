"""`uv run train.py` runs uv once; options of other launchers in the environment reach no rank."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DDPKIT

RANKS = ("launch", "-b", "local", "-n", "3")
SHOW = "import os, sys\nprint('ran', os.environ['RANK'], sys.argv[1:], sys.executable)\n"


@pytest.fixture
def uv(tmp_path: Path) -> Path:
    """A uv that writes down each of its calls, and whose project has another name for this Python."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "project-python").symlink_to(sys.executable)
    program = tmp_path / "bin/uv"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n'
        f'while [ $1 != python ]; do shift; done; shift\nexec {tmp_path}/project-python "$@"\n'
    )
    program.chmod(0o755)
    return tmp_path / "calls"


def path(folder: Path) -> dict[str, str]:
    return {"PATH": f"{folder}/bin:{os.environ['PATH']}"}


@pytest.mark.parametrize("words", [["uv", "run", "job.py"], ["uv", "run", "--frozen", "--", "python", "-u", "job.py"]])
def test_uv_runs_once_for_all_ranks(
    words: list[str], uv: Path, script: Callable[..., str], ddpkit: DDPKIT, tmp_path: Path
) -> None:
    script(SHOW)
    done = ddpkit(*RANKS, "--", *words, "a b", env=path(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(uv.read_text().splitlines()) == 1
    assert sorted(line.split("ran ")[1] for line in done.stdout.splitlines()) == [
        f"{rank} ['a b'] {tmp_path}/project-python" for rank in range(3)
    ]


def test_a_dry_run_does_not_run_uv(uv: Path, script: Callable[..., str], ddpkit: DDPKIT, tmp_path: Path) -> None:
    script(SHOW)
    done = ddpkit(*RANKS, "--dry-run", "--", "uv", "run", "job.py", env=path(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "a launch runs `uv run python -c" in done.stderr
    assert not uv.exists()


def test_a_uv_that_fails_is_one_error(uv: Path, script: Callable[..., str], ddpkit: DDPKIT, tmp_path: Path) -> None:
    script(SHOW)
    done = ddpkit(*RANKS, "--", "uv", "run", "--extra", "x", "job.py", env={"PATH": f"{tmp_path}/none:/usr/bin:/bin"})
    assert (done.returncode, "program uv not found on PATH" in done.stderr) == (121, True), done.stderr
    program = tmp_path / "bin/uv"
    program.write_text("#!/bin/sh\necho no such extra >&2\nexit 2\n")
    done = ddpkit(*RANKS, "--", "uv", "run", "--extra", "x", "job.py", env=path(tmp_path))
    assert done.returncode == 121, done.stderr
    assert "uv could not prepare the project's environment: no such extra" in done.stderr
    done = ddpkit(*RANKS, "--python", "python3", "--", "uv", "run", "job.py", env=path(tmp_path))
    assert "only one can choose the Python" in done.stderr


LEFT = {"PET_NNODES": "7", "PET_RDZV_BACKEND": "c10d", "ACCELERATE_USE_DEEPSPEED": "true", "DEEPSPEED_TIMEOUT": "1"}
SEEN = "import os\nprint('seen', *sorted(n for n in os.environ if n.startswith(('PET_', 'ACCEL', 'DEEPS'))))\n"


def test_options_of_other_launchers_reach_no_rank_and_are_named(script: Callable[..., str], ddpkit: DDPKIT) -> None:
    script(SEEN)
    done = ddpkit(*RANKS, "--env", "DEEPSPEED_TIMEOUT", "--", "job.py", env=LEFT)
    assert done.returncode == 0, done.stderr
    assert [line.split("seen")[1].strip() for line in done.stdout.splitlines()] == ["DEEPSPEED_TIMEOUT"] * 3
    assert (
        "not passed to the ranks, as options of another launcher: ACCELERATE_USE_DEEPSPEED, PET_NNODES" in done.stderr
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [("PLACE=/a:$PLACE", "$PLACE"), ("X=${HOME}/a", "$HOME"), ("X=pa$word", ""), ("X=$", "")],
    ids=["itself", "another", "a password", "a dollar"],
)
def test_a_name_in_the_value_of_a_variable_is_not_expanded(
    typed: str, said: str, script: Callable[..., str], ddpkit: DDPKIT
) -> None:
    name, _, value = typed.partition("=")
    script(f"import os\nprint('value', os.environ[{name!r}])\n")
    done = ddpkit(*RANKS, "--env", typed, "--", "job.py")
    assert done.returncode == 0, done.stderr
    assert f"value {value}\n" in done.stdout
    assert (f"variable {name}: nothing expands {said} in its value" in done.stderr) is bool(said), done.stderr
    assert "pa$word" not in done.stderr


@pytest.mark.torch
def test_torchrun_does_not_take_its_defaults_from_the_shell(script: Callable[..., str], ddpkit: DDPKIT) -> None:
    """As in a pod of Kubeflow, whose PET_* made it wait for other pods."""
    script("import os\nprint('world', os.environ['WORLD_SIZE'])\n")
    left = {**LEFT, "PET_RDZV_ENDPOINT": "nowhere:1", "PET_NO_PYTHON": "0", "PET_MODULE": "1", "PET_STANDALONE": "1"}
    done = ddpkit("launch", "-b", "local", "-n", "2", "-o", "starter=torchrun", "--", "job.py", env=left)
    assert done.returncode == 0, done.stderr
    assert sum("world 2" in line for line in done.stdout.splitlines()) == 2


@pytest.mark.skipif(shutil.which("uv") is None, reason="no uv here")
def test_a_real_uv(script: Callable[..., str], ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.10"\n')
    script(SHOW)
    done = ddpkit(*RANKS, "--", "uv", "run", "job.py", "x")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"{tmp_path}/.venv/bin/python") == 3
