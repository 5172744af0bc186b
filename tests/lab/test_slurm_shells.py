"""Shells on a node, and the same training from everywhere."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launching import DDPKIT, PATIENCE, ROOT, SALLOC, WHO, torch

# A node on which a job still completes would come last.
SHELL = [*SALLOC, "-w", "node1,node2"]
SHELLS = {
    # With LaunchParameters=use_interactive_step a salloc without a command gives a shell on the first node.
    "interactive": (shlex.join(SHELL), "the interactive step of the job: a shell or a daemon, not a task"),
    "pty": (shlex.join([*SHELL, "srun", "--pty", "bash"]), "runs bash on a terminal (srun --pty)"),
}


def typed(lab: Lab, folder: Path, command: str, script: str) -> str:
    """Type `script` into the shell that `command` gives on a terminal. Returns what the terminal showed."""
    (folder / "typed.sh").write_text(f"cd {folder}\nexport PYTHONPATH={ROOT}\n{script}\n")
    process = subprocess.Popen(
        lab.argv("login", ["script", "-qec", command, "/dev/null"], folder),
        env=lab.environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        text, _ = process.communicate(f"bash {folder}/typed.sh; exit\n", timeout=PATIENCE)
    finally:
        process.kill()
    return text


@torch
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_on_a_node(shell: str, folder: Path, idle_lab: Lab) -> None:
    """It is one process and says so; what is launched from it runs on all nodes of the job."""
    (folder / "who.py").write_text(WHO.replace('f"who.', 'f"{sys.argv[1]}.'))
    (folder / "run.py").write_text("import os\nprint(os.environ['RANK'])\n")
    command, reason = SHELLS[shell]
    names = ("slurm", "slurm-torchrun")
    launches = [shlex.join([*DDPKIT, "launch", "-b", name, "--", "who.py", name]) for name in names]
    lines = [
        "hostname > host",
        shlex.join([*DDPKIT, "env", "--explain", "--json"]) + " > env.json",
        *(f"{line} > launch.out 2>&1" for line in launches),
        shlex.join([*DDPKIT, "launch", "-b", "local", "--", "run.py"]) + " > local.out 2>&1",
    ]
    shown = typed(idle_lab, folder, command, "\n".join(lines))
    assert (folder / "local.out").exists(), shown
    assert (folder / "host").read_text() == "node1\n"
    seen = json.loads((folder / "env.json").read_text())
    env = seen["env"]
    assert (env["source"], env["rank"], env["world_size"], env["num_nodes"]) == ("single", 0, 1, 1)
    reasons = {one["source"]: one["reason"] for one in seen["rejected"]}
    assert reason in reasons["slurm"]
    assert "run: srun --overlap python ..." in reasons["slurm"]
    for name in names:
        ranks = [json.loads((folder / f"{name}.{rank}").read_text()) for rank in range(4)]
        assert [who["host"] for who in ranks] == ["node1", "node1", "node2", "node2"]
        assert [(who["RANK"], who["LOCAL_RANK"], who["NODE_RANK"]) for who in ranks] == [
            ("0", "0", "0"),
            ("1", "1", "0"),
            ("2", "0", "1"),
            ("3", "1", "1"),
        ]
        assert {(who["WORLD_SIZE"], who["LOCAL_WORLD_SIZE"], who["MASTER_ADDR"]) for who in ranks} == {
            ("4", "2", "node1")
        }
    assert "these ranks run on this machine alone" in (folder / "local.out").read_text()


# ---- the same training from everywhere

TRAIN = [str(ROOT / "train.py"), "--dataset", "synthetic", "--synthetic-size", "512", "--epochs", "1"]
TRAIN += ["--batch-size", "16", "--log-every", "2", "--seed", "3"]
WAYS = {
    "srun": ["srun", "-N2", "--ntasks-per-node=2", "--kill-on-bad-exit=1", sys.executable],
    "launch": [*DDPKIT, "launch", "-b", "slurm", "-N", "2", "-n", "2", "--"],
    "torchrun": [*DDPKIT, "launch", "-b", "slurm-torchrun", "-N", "2", "-n", "2", "--"],
}


def train(name: str, way: str) -> str:
    return shlex.join([*WAYS[way], *TRAIN, "--checkpoint-dir", name])


def metrics(folder: Path, name: str) -> list[dict[str, Any]]:
    """What the training measured, without how long it took."""
    lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    timed = ("seconds", "samples_per_second")
    return [{key: value for key, value in line.items() if key not in timed} for line in lines]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The metrics of four ranks on this machine, without SLURM."""
    folder = tmp_path_factory.mktemp("local")
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "DDPKIT_GPUS": "0"}
    words = [*DDPKIT, "launch", "-n", "4", "--", *TRAIN, "--checkpoint-dir", "out"]
    subprocess.run(words, cwd=folder, env=env, check=True, capture_output=True, timeout=PATIENCE)
    found = metrics(folder, "out")
    assert len(found) > 2
    return found


@torch
@pytest.mark.thorough  # from the login host: test_train_lab.py
@pytest.mark.parametrize("place", ["login", "salloc", "batch"])
def test_training_is_the_same_everywhere(place: str, folder: Path, idle_lab: Lab, local: list[dict[str, Any]]) -> None:
    lines = ["set -e", f"export PYTHONPATH={ROOT} OMP_NUM_THREADS=1", *(train(way, way) for way in WAYS)]
    (folder / "all.sh").write_text("\n".join(["#!/bin/bash", *lines, "touch done"]) + "\n")
    before = {
        "login": ["bash"],
        "salloc": [*SALLOC, "bash"],
        "batch": ["sbatch", "--wait", "-Q", "-N2", "--ntasks-per-node=2", "-o", "all.out"],
    }
    done = idle_lab.run("login", *before[place], "all.sh", cwd=folder, check=False, timeout=3 * PATIENCE)
    out = folder / "all.out"
    assert (folder / "done").exists(), done.stdout + done.stderr + (out.read_text() if out.exists() else "")
    for way in WAYS:
        assert metrics(folder, way) == local, way
