"""The dry run of a run of roles, on one machine, over SSH and under SLURM: what each replica would run."""

from __future__ import annotations

import difflib
import os
import re
import socket
import sys
from pathlib import Path

import pytest

from ddpkit.config import choose_python, collect_settings
from ddpkit.execution.requested_nodes import Queries
from ddpkit.roles.prepare import prepare_roles

GOLDEN = Path(__file__).parents[1] / "golden/roles"
FILE = """
backend = "{backend}"
{more}
[roles.infer]
nnodes = 2
command = "serve.py --port {{port}} --name it's"
ready = "http:/health"
env = {{ HF_TOKEN = "key-0123456789abcdef" }}
[roles.train]
nproc_per_node = 2
command = ["train.py", "--hosts", "{{infer.hosts}}", "--set", "{{x: 1}}"]
after = ["infer"]
ends_run = true
[roles.eval]
command = "eval.py"
beside = "train"
gpus = 0
"""
CASES = {
    "local": "",
    "ssh": 'hosts = ["node1", "node2", "node3"]\noptions = { starter = "ranks" }\n',
    "slurm": "options = { time = '1:00:00', partition = 'gpu' }\n",
    "slurm-torchrun": "",
    "slurm-het": "",
}


# Roles that request nodes of two kinds.
OPTIONS = {"infer": "gpus_per_node = 'a100:1', time = '1:00:00'", "train": "partition = 'big', cpus-per-task = 4"}


@pytest.mark.parametrize("backend", CASES)
def test_golden(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DDPKIT_GPUS", "0")
    text = FILE.replace("it's", r"it\\'s").format(backend=backend.removesuffix("-het"), more=CASES[backend])
    for role, options in OPTIONS.items() if backend == "slurm-het" else ():
        text = text.replace(f"[roles.{role}]", f"[roles.{role}]\noptions = {{ {options} }}")
    (tmp_path / "ddpkit.toml").write_text(text)
    for script in ("serve.py", "train.py", "eval.py"):
        (tmp_path / script).touch()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "CUDA_"))}
    settings = choose_python(collect_settings(tmp_path, environ, None, {}), environ)
    notes: list[str] = []
    with prepare_roles(settings, environ, notes.append, Queries.TYPED) as prepared:
        shown = "\n".join([*(f"# {note}" for note in notes if "job of its own" in note), *_plans(prepared)])
    shown = shown.replace(prepared.run_id, "RUN").replace(str(tmp_path), "/data").replace(settings.python, "python3")
    shown = shown.replace(sys.executable, "python3").replace(socket.gethostname(), "HERE")
    shown = re.sub(r"\b(2|3)\d{4}\b(?! \+)", "PORT", shown)
    shown = re.sub(r"OMP_NUM_THREADS=\d+", "OMP_NUM_THREADS=N", shown)
    assert "key-0123456789abcdef" not in shown
    path = GOLDEN / f"{backend}.sh"
    if os.environ.get("DDPKIT_WRITE_GOLDEN"):
        path.write_text(shown)
    wanted = path.read_text()
    assert shown == wanted, "\n".join(difflib.unified_diff(wanted.splitlines(), shown.splitlines(), lineterm=""))


def _plans(prepared: object) -> list[str]:
    return [f"# ---- {name}\n{part.plan}" for name, part in prepared.parts.items()]  # type: ignore[attr-defined]
