"""Every command of the documents that goes to nodes: its dry run asks the nodes of the lab, and finds all in order."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest
from cluster import Lab
from test_docs import commands, install_backend, names_nodes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("document", "line"), [each for each in commands() if names_nodes(each[1])])
def test_commands_on_nodes(document: str, line: str, lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "hosts.txt").write_text("node1 slots=2\nnode2 slots=1\n")
    shutil.copytree(ROOT / "examples" / "roles", tmp_path / "examples" / "roles")
    (tmp_path / "env.tar.gz").write_bytes(b"")  # of conda-pack: a dry run does not unpack it
    words = shlex.split(line.replace("--via login1", "--via login"), comments=True)[1:]
    if "--dry-run" not in words:
        words.insert(1, "--dry-run")
    argv = [sys.executable, "-m", "ddpkit", *words]
    done = lab.run("login", *argv, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 0, done.stderr
    assert ("ssh login 'sbatch " if "--via" in words else "# step 1 of ") in done.stdout


def test_the_example_configuration_of_two_nodes(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "ddpkit.toml").write_text((ROOT / "examples/config/two-nodes.toml").read_text())
    argv = [sys.executable, "-m", "ddpkit", "launch", "--dry-run"]
    done = lab.run("login", *argv, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 0, done.stderr
    for fact in ("16 ranks on 2 nodes", "on node2: ranks 8-15", "NCCL_DEBUG=WARN", "train.py --config config/default"):
        assert fact in done.stdout, done.stdout


JOB = """\
import os
name = os.uname().nodename
own = len(os.sched_getaffinity(0))
print(f"{name} {os.environ['RANK']} of {os.environ['WORLD_SIZE']} on {own} {os.environ['MASTER_ADDR']}")
if "fail" in os.environ and os.environ["RANK"] == "3":
    raise SystemExit(7)
"""


def test_the_backend_for_nodes_in_contributing_works(lab: Lab, tmp_path: Path) -> None:
    """It has none of our bases, and so none of our options."""
    site = install_backend("pinned", tmp_path)
    (tmp_path / "job.py").write_text(JOB)
    argv = [sys.executable, "-m", "ddpkit", "launch", "-b", "pinned", "-n", "2", "-o", "width=1"]
    env = {"PYTHONPATH": f"{site}:{ROOT}"}
    dry = lab.run("login", *argv, "--dry-run", "node1", "node2", "--", "job.py", cwd=tmp_path, env=env)
    assert "# step 2 of 2, on node2: ranks 2-3" in dry.stdout
    assert dry.stdout.count("taskset -c 0 ") == 2
    assert "ssh node2 sh <<" in dry.stdout
    done = lab.run("login", *argv, "node1", "node2", "--", "job.py", cwd=tmp_path, env=env)
    ranks = sorted(line.partition("] ")[2] for line in done.stdout.splitlines() if " of 4 on 1 " in line)
    assert [line.split()[:2] for line in ranks] == [["node1", "0"], ["node1", "1"], ["node2", "2"], ["node2", "3"]]
    assert len({line.split()[-1] for line in ranks}) == 1
    failed = lab.run(
        "login", *argv, "--env", "fail=1", "node1", "node2", "--", "job.py", cwd=tmp_path, env=env, check=False
    )
    assert failed.returncode == 7
    assert "rank 3 on node2" in failed.stderr
    elastic = lab.run("login", *argv, "-N", "1:2", "node1", "--", "job.py", cwd=tmp_path, env=env, check=False)
    assert elastic.returncode == 121
    assert "backend pinned requires one number of nodes" in elastic.stderr
    asked = [*argv[:3], "test", *argv[4:], "--quick", "node1", "node2"]
    checked = lab.run("login", *asked, cwd=tmp_path, env=env, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
