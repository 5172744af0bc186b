"""Shells on a node."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

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
