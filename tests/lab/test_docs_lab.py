"""Every command of the documents that goes to nodes: its dry run asks the nodes of the lab, and finds all in order."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from cluster import Lab
from test_docs import commands, names_nodes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("document", "line"), [each for each in commands() if names_nodes(each[1])])
def test_commands_on_nodes(document: str, line: str, lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "hosts.txt").write_text("node1 slots=2\nnode2 slots=1\n")
    words = shlex.split(line, comments=True)[1:]
    if "--dry-run" not in words:
        words.insert(1, "--dry-run")
    argv = [sys.executable, "-m", "ddpkit", *words]
    done = lab.run("login", *argv, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 0, done.stderr
    assert "# step 1 of " in done.stdout
