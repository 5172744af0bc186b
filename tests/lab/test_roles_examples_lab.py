"""One file of roles on this machine, over ssh and through SLURM: what it prints differs in hosts alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Lab
from launching import ROOT, Launch, on_nodes, wait_until

EXAMPLE = ROOT / "examples/roles"
WHERE = [
    pytest.param(["-b", "local"], {"login"}, id="local"),
    pytest.param(["-b", "ssh", "node1", "node2"], {"node1", "node2"}, id="ssh"),
    pytest.param(["-b", "slurm"], None, id="slurm"),
]
LABEL = re.compile(r"^(\[\S+(?: \d+)?) (\S+)\] ")


@pytest.fixture
def folder(idle_lab: Lab, tmp_path: Path) -> Path:
    for path in EXAMPLE.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    return tmp_path


def promised() -> list[str]:
    """What the README shows, without the hosts."""
    return sorted(
        LABEL.sub(r"\1] ", line) for line in (EXAMPLE / "README.md").read_text().splitlines() if LABEL.match(line)
    )


@pytest.mark.parametrize(("words", "hosts"), WHERE)
def test_the_same_file_prints_the_same(
    words: list[str], hosts: set[str] | None, launch: Callable[..., Launch], idle_lab: Lab, folder: Path
) -> None:
    run = launch(*words)
    assert run.end() == 0, run.text
    lines = [line for line in run.lines if LABEL.match(line)]
    assert sorted(LABEL.sub(r"\1] ", line) for line in lines) == promised(), run.text
    seen = {found[2] for line in lines if (found := LABEL.match(line))}
    assert seen == hosts if hosts else len(seen) == 2, run.text
    wait_until(lambda: not on_nodes(idle_lab, "reward.py"))


def test_the_job_script_of_the_comparison_does_the_same(idle_lab: Lab, folder: Path) -> None:
    done = idle_lab.run("login", "sbatch", "--wait", "job.sbatch", cwd=folder, check=False, timeout=120)
    assert done.returncode == 0, [path.read_text() for path in folder.glob("*.log")]
    lines = [line for name in ("train.log", "evaluate.log") for line in (folder / name).read_text().splitlines()]
    results = [line.partition("] ")[2] for line in promised() if "listening" not in line]
    assert sorted(line.partition(": ")[2] for line in lines) == sorted(results)
