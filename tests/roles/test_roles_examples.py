"""The examples of roles do what their pages say."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

import pytest
from conftest import DDPKIT, START

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/roles"
HOST = re.compile(r"^(\[\S+(?: \d+)?) \S+\] ")


def output(path: Path, name: str) -> list[str]:
    """Return the lines of an output that a page shows."""
    # The markers: <!-- output: roles --> and <!-- output: roles status -->
    found = re.search(rf"<!-- output: {name} -->\n```text\n(.*?)```", path.read_text(), re.DOTALL)
    assert found is not None
    return found[1].splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in EXAMPLE.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    return tmp_path


def test_the_example_prints_what_its_page_shows(folder: Path, ddpkit: DDPKIT) -> None:
    done = ddpkit("launch", "-q")
    assert done.returncode == 0, done.stderr
    lines = [HOST.sub(r"\1] ", line) for line in done.stdout.splitlines()]
    assert sorted(lines) == sorted(HOST.sub(r"\1] ", line) for line in output(EXAMPLE / "README.md", "roles"))


def test_status_shows_what_the_page_shows(folder: Path, start: START, ddpkit: DDPKIT) -> None:
    for name in ("train.py", "evaluate.py"):
        (folder / name).write_text("import time\ntime.sleep(600)\n")
    run = start("launch")
    run.wait_for("is ready", times=2)
    until = time.monotonic() + 60
    while (shown := ddpkit("status").stdout).count("running") < 2:
        assert time.monotonic() < until, shown
        time.sleep(0.1)

    def shape(lines: list[str]) -> list[str]:
        """What stands there without numbers, hosts and paths."""
        words = [re.sub(r"/\S+/|\d{8}-\d{6}-\S+-\w{4}", "X", line) for line in lines]
        words = [re.sub(rf"\b(laptop|{os.uname().nodename.partition('.')[0]})\b", "HOST", line) for line in words]
        return [" ".join(re.sub(r"\d+(?= s\b)", "0", line).split()) for line in words]

    assert shape(shown.splitlines()) == shape(output(ROOT / "docs/how-to/roles.md", "roles status"))
    assert ddpkit("stop").returncode == 0


def test_the_file_is_as_short_as_the_page_says() -> None:
    page = (ROOT / "docs/how-to/roles.md").read_text()
    sizes = {name: len((EXAMPLE / name).read_text().splitlines()) for name in ("job.sbatch", "ddpkit.toml")}
    assert f"{sizes['job.sbatch']} lines, for SLURM alone" in page
    assert f"{sizes['ddpkit.toml']} lines, comments included" in page
    assert sizes["ddpkit.toml"] <= 30


@pytest.mark.ray
@pytest.mark.skipif("RAY_PYTHON" not in os.environ, reason="needs Ray: RAY_PYTHON names a Python that has it")
def test_a_ray_head_workers_and_a_driver(tmp_path: Path, start: START) -> None:
    python = Path(os.environ["RAY_PYTHON"])
    shutil.copytree(EXAMPLE / "ray", tmp_path, dirs_exist_ok=True)
    env = {"PATH": f"{python.parent}:{os.environ['PATH']}"}
    run = start("launch", "-b", "local", "--python", str(python), env=env)
    assert run.end(300) == 0, run.tail
    assert "squares [9, 16] from 2 nodes" in run.text
    run.wait_for_no_survivor()
