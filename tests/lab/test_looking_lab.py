"""A dry run of named nodes runs their own python3 alone, and sends them no variable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cluster import Lab
from conftest import PATIENCE

HOSTILE = """
backend = "ssh"
python = "./evil"
on_end = "./evil"
hosts = ["node1", "node2"]
options = { accept_new_host_keys = true, starter = "ranks" }
env = { OF_FILE = "hf_value-1-of-the-file", PATH = "." }
[host.node2]
python = "{folder}/evil"
workdir = "{folder}"
"""


@pytest.mark.parametrize(
    "words",
    [
        ["--survey"],
        ["-b", "ssh", "node1", "node2"],
        ["-b", "pdsh", "node1", "node2"],
        ["-b", "slurm", "--via", "node1"],
    ],
)
def test_a_dry_run_runs_only_python3_of_the_nodes(words: list[str], lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "ok.py").write_text("")
    text = HOSTILE.replace("{folder}", str(tmp_path))
    if "pdsh" in words or "slurm" in words:
        text = text.replace('options = { accept_new_host_keys = true, starter = "ranks" }\n', "")
    if "slurm" in words:
        text = text.replace('hosts = ["node1", "node2"]\n', "")
    (tmp_path / "ddpkit.toml").write_text(text)
    (tmp_path / "evil").write_text(f'#!/bin/sh\nenv > {tmp_path}/ran\nexec python3 "$@"\n')
    (tmp_path / "evil").chmod(0o755)
    env = {"HF_TOKEN": "value-2", "WANDB_API_KEY": "value-3"}
    argv = [sys.executable, "-m", "ddpkit", "launch", *words, "--dry-run", "--env", "WANDB_API_KEY", "-n", "1"]
    done = lab.run("login", *argv, "--", "ok.py", cwd=tmp_path, env=env, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert "value-" not in done.stdout + done.stderr
    assert "assumed" not in done.stderr
    assert "slurm" in words or (f"{tmp_path}/evil" in done.stdout)  # the plan still says what a launch would run
