"""A dry run of ddpkit's own programs shows them by name, size and hash; `--json` has what is executed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def _run(folder: Path, *words: str) -> str:
    argv = [sys.executable, "-m", "ddpkit", *words, "--dry-run"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ddpkit-check", ["test", "2"]),
        ("ddpkit-check", ["test", "2", "-b", "slurm", "-N", "2"]),
        ("ddpkit-check", ["test", "2", "-b", "slurm-torchrun", "-N", "2", "--no-ranks"]),
        ("ddpkit-collectives", ["bench", "2"]),
        ("ddpkit-collectives", ["bench", "2", "-b", "slurm", "-N", "2"]),
    ],
)
def test_programs_are_shown_by_name(tmp_path: Path, name: str, words: list[str]) -> None:
    text = _run(tmp_path, *words)
    assert f"<program {name}: " in text
    assert "sha256 " in text
    assert max(map(len, text.splitlines())) < 1000
    assert len(text) < 20_000
    assert list(tmp_path.iterdir()) == []


def test_json_has_all_of_a_program(tmp_path: Path) -> None:
    plan = json.loads(_run(tmp_path, "test", "1", "--json"))
    assert max(len(word) for word in plan["steps"][0]["procs"][0]["argv"]) > 10_000
