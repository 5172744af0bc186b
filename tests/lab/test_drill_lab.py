"""`ddpkit drill` on nodes: a lost node, whose place a spare one takes."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import Lab
from launches import MARK, ROOT, marked
from launching import wait_until

SCRIPTS = Path(__file__).parents[1] / "drill/scripts"
PATIENCE = 300.0
OPTIONS = "--no-preflight --grace 5 --checkpoint-dir-option --out --faults node,kill --json".split()


@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
def test_a_lost_node_is_replaced(backend: str, lab: Lab, tmp_path: Path) -> None:
    mark = secrets.token_hex(8)
    for script in SCRIPTS.glob("*.py"):
        shutil.copy(script, tmp_path)
    hosts = ["-b", backend, "node1", "node2", "node3", "--spares", "1", "-n", "1", "-o", "starter=ranks"]
    done = subprocess.run(
        lab.argv("login", [sys.executable, "-m", "ddpkit", "drill", *hosts, *OPTIONS, "--", "training.py"], tmp_path),
        env={**lab.environ(), "NO_COLOR": "1", "PYTHONPATH": str(ROOT), MARK: mark, "TMPDIR": lab.tmp},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    rows = {each["row"]: each for each in json.loads(done.stdout)["rows"]}
    assert {name: row["state"] for name, row in rows.items()} == dict.fromkeys(rows, "pass"), done.stdout + done.stderr
    assert rows["node"]["evidence"] == "node2 was lost, node3 took over; it resumed"
    wait_until(lambda: not marked(mark), lambda: marked(mark))


def test_a_step_of_an_allocation_is_drilled(lab: Lab, tmp_path: Path) -> None:
    """A submitted job is refused, with the way out, which is this."""
    for script in SCRIPTS.glob("*.py"):
        shutil.copy(script, tmp_path)
    drill = [sys.executable, "-m", "ddpkit", "drill", "-b", "slurm", "-N", "2", "-n", "1", "--no-preflight"]
    drill += "--checkpoint-dir-option --out --faults kill --json -- training.py".split()

    def run(*before: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            lab.argv("login", [*before, *drill], tmp_path),
            env={**lab.environ(), "NO_COLOR": "1", "PYTHONPATH": str(ROOT), "TMPDIR": lab.tmp, "PAUSE": "0.2"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    refused = run()
    assert (refused.returncode, "hint: salloc, and there the same command" in refused.stderr) == (121, True)
    done = run("salloc", "-Q", "-N2", "--ntasks-per-node=1")
    rows = {each["row"]: each for each in json.loads(done.stdout)["rows"]}
    assert {name: row["state"] for name, row in rows.items()} == dict.fromkeys(rows, "pass"), done.stdout + done.stderr
    assert rows["kill"]["evidence"].startswith("rank 1 on node2 failed first"), rows
