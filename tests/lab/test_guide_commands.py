"""Each launch and test that docs/migrate/sbatch.md has in place of another command runs in the lab, with a stand-in.

The page keeps the sizes of the set-ups that it translates; the lab's nodes have four GPUs and eight processors and one
partition, so that `SCALED` is what a command is run with. Nothing else of it is changed.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launching import wait_until

from ddpkit.cli import app

ROOT = Path(__file__).parents[2]
PATIENCE = 240.0
PAGE = ROOT / "docs/migrate/sbatch.md"
SCALED = {
    r"\bgpu:8\b": "gpu:4",
    r"--gpus-per-node 8\b": "--gpus-per-node 4",
    r"--partition gpu\b": "--partition main",
    r"--cpus-per-task [468]\b": "--cpus-per-task 1",
    r"(?<= )-n 8(?= .*--)": "-n 4",
}
# Says who it is.
TRAIN = """
import json, os, sys
seen = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")}
seen |= {"argv": sys.argv[1:], "env": dict(os.environ)}
path = f"seen.{seen['RANK']}"
with open(path + ".tmp", "w") as file:
    json.dump(seen, file)
os.rename(path + ".tmp", path)
"""
# Those that import torch where each takes seconds: the launch's starter, or the ranks of `ddpkit test`.
SLOW = ("ddpkit test", "slurm-torchrun", "--starter torchrun", "-b legacy", "-b pdsh", "-b ssh node1 node2 -n 4 -- ")


@dataclass(frozen=True)
class Row:
    before: str
    command: str
    note: str


def rows() -> list[Row]:
    """The rows of its tables."""
    found = []
    for line in PAGE.read_text().splitlines():
        # A `|` inside of a command is one of a shell.
        cells = [cell.strip() for cell in re.split(r"(?<!\|)\|(?!\|)", line)[1:-1]]
        if len(cells) == 3 and cells[0] != "typed before" and not cells[0].startswith("---"):
            found.append(Row(cells[0], cells[1].strip("`"), cells[2]))
    return found


ROWS = rows()
RUN = [row for row in ROWS if row.command]


def test_every_row_has_a_command_or_a_reason() -> None:
    assert len(RUN) >= 45
    left_out = [row for row in ROWS if not row.command]
    assert all(re.match(r"not run: \w+", row.note) for row in left_out)
    assert len(left_out) == 4
    assert all(row.command.startswith("ddpkit ") for row in RUN)
    # A dry run stands in for a run where the note says so.
    dry = [row for row in RUN if "--dry-run" in row.command]
    assert all(re.search(r"dry run|prints|shows", row.note) for row in dry)
    assert len(dry) == 3


def test_commands_that_look_at_a_run_have_these_flags() -> None:
    """test_runs_slurm.py runs them."""
    known = app.whole_program().commands
    looks = [row.command.split()[1:] for row in RUN if row.command.split()[1] not in ("launch", "test")]
    assert len(looks) >= 6
    for name, *words in looks:
        known[name].make_context(name, words)


@dataclass
class Site:
    """A project's folder, as those guides have it, and the login host of the lab."""

    lab: Lab
    folder: Path

    def argv(self, words: list[str]) -> list[str]:
        return [sys.executable, "-m", "ddpkit", *words]

    @property
    def env(self) -> dict[str, str]:
        # Each test sees its own runs alone.
        return {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "XDG_STATE_HOME": str(self.folder / "state")}

    def run(self, words: list[str], before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        argv = [*before, *self.argv(words)]
        return self.lab.run("login", *argv, cwd=self.folder, env=self.env, check=False, timeout=PATIENCE)

    def seen(self) -> list[dict[str, Any]]:
        paths = sorted(self.folder.glob("seen.*[0-9]"), key=lambda path: int(path.suffix[1:]))
        return [json.loads(path.read_text()) for path in paths]


@pytest.fixture
def site(idle_lab: Lab, tmp_path: Path) -> Site:
    for name in ("train.py", "train_distributed.py", "train_parallel.py"):
        (tmp_path / name).write_text(TRAIN)
    for name in ("config/local3.yaml", "config/test.yaml", "configs/default_config.yaml", "configs/my_config.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/activate").write_text("export ACTIVATED=1\n")
    return Site(idle_lab, tmp_path)


def words_of(command: str) -> list[str]:
    for pattern, smaller in SCALED.items():
        command = re.sub(pattern, smaller, command)
    return shlex.split(command)[1:]


def kinds(*names: str) -> list[Any]:
    found = {}
    for row in RUN:
        if row.command.split()[1] in names:
            marks = [pytest.mark.torch, pytest.mark.thorough] if any(word in row.command for word in SLOW) else []
            found[row.command, row.before.startswith("`salloc")] = pytest.param(row, id=row.command[7:67], marks=marks)
    return list(found.values())


@pytest.mark.parametrize("row", kinds("launch"))
def test_a_launch(row: Row, site: Site) -> None:
    words = words_of(row.command)
    before: tuple[str, ...] = ()
    if row.before.startswith("`salloc"):
        before = ("salloc", "-Q", "--nodes=2", "--ntasks-per-node=4", "--gres=gpu:4")
    done = site.run(words, before)
    assert done.returncode == 0, done.stdout + done.stderr
    script = words[words.index("--") + 1 :]
    if "--dry-run" in words:
        assert script[0] in done.stdout
        assert "MASTER_ADDR" in done.stdout or "master_addr" in done.stdout
        assert not site.seen()
        return
    if "--detach" in words:
        wait_until(lambda: len(site.seen()) == 2, done.stderr)
    nnodes = int(words[words.index("-N") + 1]) if "-N" in words else 1
    named = [word for word in words[: words.index("--")] if word.startswith("node")]
    nnodes = max(nnodes, 2 if named == ["node[1-2]"] else len(named))
    nproc = int(words[words.index("-n") + 1]) if "-n" in words else 4
    if before:
        nnodes = 2
    seen = site.seen()
    assert [int(rank["RANK"]) for rank in seen] == list(range(nnodes * nproc))
    assert {rank["WORLD_SIZE"] for rank in seen} == {str(nnodes * nproc)}
    assert sorted(int(rank["LOCAL_RANK"]) for rank in seen) == sorted(list(range(nproc)) * nnodes)
    assert len({(rank["MASTER_ADDR"], rank["MASTER_PORT"]) for rank in seen}) == 1
    assert all(rank["argv"] == script[1:] for rank in seen)
    for name, value in re.findall(r"--env (\w+)=(\S+)", row.command):
        assert {rank["env"][name] for rank in seen} == {value}
    if "activate" in row.command:
        assert {rank["env"]["ACTIVATED"] for rank in seen} == {"1"}
    if "--output logs/train_%j.out" in row.command:
        assert len(list(site.folder.glob("logs/train_*.out"))) == 1


@pytest.mark.parametrize("row", kinds("test"))
def test_a_test(row: Row, site: Site) -> None:
    # On a machine that is shared by all nodes, torch takes its time.
    done = site.run([*words_of(row.command), "--timeout", "60", "--json"])
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ok"]
    assert "gloo" in {check["id"] for check in found["checks"] if check["status"] == "pass"}
