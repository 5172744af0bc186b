"""train.py as `ddpkit init --train` writes it, on nodes whose Python has torch and no ddpkit, under each launcher."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launches import DDPKIT, PATIENCE
from plain_project import make_python, write_project

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
WORDS = ["train.py", "--dataset", "synthetic", "--synthetic-size", "512", "--epochs", "1", "--batch-size", "16"]
WORDS += ["--log-every", "2", "--seed", "3"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_python(tmp_path_factory.mktemp("python"))


def metrics(project: Path, name: str) -> list[dict[str, Any]]:
    """What the training measured, without how long it took."""
    lines = [json.loads(line) for line in (project / name / "metrics.jsonl").read_text().splitlines()]
    timed = ("seconds", "samples_per_second")
    return [{key: value for key, value in line.items() if key not in timed} for line in lines]


def ways(python: str, per_node: int) -> dict[str, list[str]]:
    """How train.py is started on two nodes whose Python has no ddpkit."""
    ssh, each = (
        ["node1", "node2", "-n", str(per_node), "--env", "OMP_NUM_THREADS", "--python", python, "--"],
        str(per_node),
    )
    slurm = ["-N", "2", "-n", each, "-o", "nodelist=node1,node2", "--env", "OMP_NUM_THREADS", "--python", python, "--"]
    script = ["config/default.yaml", each, "node1", "node2", "--"]
    return {
        "ssh": [*DDPKIT, "launch", "-b", "ssh", "-o", "starter=ranks", *ssh, *WORDS],
        "pdsh": [*DDPKIT, "launch", "-b", "pdsh", *ssh, *WORDS],
        "slurm": [*DDPKIT, "launch", "-b", "slurm", *slurm, *WORDS],
        "slurm-torchrun": [*DDPKIT, "launch", "-b", "slurm-torchrun", *slurm, *WORDS],
        "torchrun": ["scripts/ssh/launch_torchrun_auto.sh", *script, *WORDS[1:]],
        "legacy": ["scripts/ssh/launch_multinode.sh", *script, *WORDS[1:]],
        "srun": ["srun", "-N2", f"--ntasks-per-node={each}", "--kill-on-bad-exit=1", python, *WORDS],
    }


@pytest.mark.parametrize(
    ("per_node", "names"),
    [(1, ["ssh", "slurm", "torchrun", "srun"]), pytest.param(2, [], marks=pytest.mark.thorough)],
    ids=["2 ranks", "4 ranks, every way"],
)
def test_it_trains_the_same_everywhere(
    per_node: int, names: list[str], idle_lab: Lab, python: str, tmp_path: Path
) -> None:
    """By ddpkit over ssh and SLURM, by scripts/ssh with its config, and by srun alone, as on one machine."""
    write_project(tmp_path)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for path in (tmp_path / "scripts/ssh").glob("launch_*.sh"):
        # Sums of more threads have another order.
        line = f"export PATH={Path(python).parent}:$PATH OMP_NUM_THREADS=1"
        text = path.read_text().replace("# source .venv/bin/activate", line)
        path.write_text(text)
    every = ways(python, per_node)
    env = {"OMP_NUM_THREADS": "1", "DDPKIT_GPUS": "0"}
    local = [*DDPKIT, "launch", "-n", str(2 * per_node), "--", *WORDS, "--checkpoint-dir", "local"]
    idle_lab.run("login", *local, cwd=tmp_path, env=env, timeout=PATIENCE)
    assert len(metrics(tmp_path, "local")) > 2
    for name in names or every:
        argv = [*every[name], "--checkpoint-dir", name]
        done = idle_lab.run("login", *argv, cwd=tmp_path, env=env, check=False, timeout=PATIENCE)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        assert f"{2 * per_node} ranks (cpu), batches of 16, " in done.stdout, name
        assert "final accuracy" in done.stdout, name
        assert metrics(tmp_path, name) == metrics(tmp_path, "local"), name


def test_one_process_needs_no_launcher(lab: Lab, python: str, tmp_path: Path) -> None:
    write_project(tmp_path)
    env = {"OMP_NUM_THREADS": "1"}  # threads that wait for each other on a busy machine take minutes
    done = lab.run("node1", python, *WORDS, cwd=tmp_path, env=env, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 ranks (cpu), batches of 16, ")
    wrong = lab.run("node1", python, *WORDS, cwd=tmp_path, env={"RANK": "0"}, check=False, timeout=PATIENCE)
    assert wrong.returncode == 5, wrong.stderr
    assert "WORLD_SIZE" in wrong.stderr
    assert "Traceback" not in wrong.stderr
