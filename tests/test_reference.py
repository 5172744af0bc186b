"""The reference pages miss no command, variable, file of a run or JSON document."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest
import reference
from conftest import DDPKIT

import ddpkit as package

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


def test_every_command_and_name_is_there(pages: dict[str, str], ddpkit: DDPKIT) -> None:
    commands = re.findall(r"^  ([a-z]+)  ", ddpkit("--help").stdout, re.MULTILINE)
    assert len(commands) > 15
    assert set(commands) <= set(re.findall(r"^## ddpkit ([a-z-]+)$", pages["cli.md"], re.MULTILINE))
    headings = set(re.findall(r"^## ddpkit\.(\w+)$", pages["python-api.md"], re.MULTILINE))
    assert headings == {name for name in package.__all__ if not name.startswith("_")}


def test_every_variable_of_a_plan_is_there() -> None:
    """Variables of the plans in tests/golden, without those that a user or the shell code itself sets there."""
    plans = [path.read_text() for path in (ROOT / "tests/golden").glob("*.sh")]
    found = {name for text in plans for name in re.findall(r"^export ([A-Z_]+)=", text, re.MULTILINE)}
    assert len(found) > 8
    assert found - {"NCCL_DEBUG", "WANDB_API_KEY", "NCCL_SOCKET_IFNAME"} <= set(reference.SET)


def test_every_file_of_a_run_is_there(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('done')\n")
    assert ddpkit("launch", "-n", "2", "--", "job.py", env={"DDPKIT_ON_END": "true"}).returncode == 0
    assert ddpkit("report").returncode == 0
    (folder,) = (tmp_path / "logs").iterdir()
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"run.json", "all.index", "rank_1.log", "report.html"} <= files
    assert [file for file in files if not any(fnmatch.fnmatch(file, known) for known in reference.FILES)] == []
