"""Bad nodes on real nodes: remembered at the end of a run, and named, or excluded, at the start of the next."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bare_nodes import Bare
from cluster import Lab
from launching import DDPKIT, ROOT, Launch

from ddpkit.run import bad_nodes

NOW = 1.8e9
FILE = {"DDPKIT_BAD_NODES": "bad.json"}
ECC = """\
import os
if os.uname().nodename == os.environ.get("BAD"):
    raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
print("ran", os.environ["RANK"], os.uname().nodename, flush=True)
"""
SILENT = "import os, time\nopen(f'started.{os.environ[\"RANK\"]}', 'w').close()\ntime.sleep(3600)\n"


def remembered(file: Path) -> list[tuple[str, str]]:
    return [(node.host, node.id) for node in bad_nodes.known(str(file), 0).nodes]


def know(file: Path, host: str) -> None:
    """Remember a fault that a kernel reported."""
    now = time.time()
    assert bad_nodes.remember(str(file), bad_nodes.bad_node(host, "gpu-ecc", "Xid", "1-job-a", now), now) == ""


@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
@pytest.mark.thorough_for("pdsh")
def test_a_named_host_is_used_with_a_warning_until_it_is_forgiven(bare: Bare, backend: str) -> None:
    (bare.folder / "job.py").write_text(ECC)
    file = bare.folder / "bad.json"
    words = ("-b", backend, "node[1-2]", "-n", "1", "-o", "starter=ranks")
    done = bare.launch(*words, "--env", "BAD=node2", "--", "job.py", env=FILE)
    assert done.code == 1, done.text
    assert remembered(file) == [], "a rank printed it, which is no evidence"
    know(file, "node2")

    done = bare.launch(*words, "--", "job.py", env=FILE)
    assert done.code == 0, done.text
    assert sorted(re.findall("ran . (.*)", done.out)) == ["node1", "node2"]
    (warning,) = [line for line in done.err.splitlines() if "bad node" in line]
    assert re.fullmatch(
        r"ddpkit: warning: node2 is a bad node: the memory of a GPU of the host has errors \(since \d{4}-\S+ \S+, run "
        r"\S+-job-\w+\); if it is repaired: ddpkit nodes forgive node2",
        warning,
    )
    done = bare.ddpkit("nodes", "check", "-b", backend, "--bad-nodes", "bad.json")
    assert done.code == 0, done.text
    assert "forgave node2" in done.out
    assert remembered(file) == []
    assert "bad node" not in bare.launch(*words, "--", "job.py", env=FILE).err


def test_a_node_that_does_not_pass_stays(bare: Bare) -> None:
    file = bare.folder / "bad.json"
    bad_nodes.remember(str(file), bad_nodes.bad_node("node3", "node-lost", "", "run", 9e9), 9e9)
    bare.cut("node3")
    done = bare.ddpkit("nodes", "check", "--bad-nodes", "bad.json", "--json")
    assert done.code == 122, done.text
    document = json.loads(done.out)
    assert [node["host"] for node in document["nodes"]] == ["node3"]
    assert document["removed"] == []
    assert remembered(file) == [("node3", "node-lost")]


@pytest.mark.parametrize("cut", [["node3"], ["node2", "node3"]], ids=["one", "several"])
def test_a_lost_node_is_remembered_alone(bare: Bare, cut: list[str]) -> None:
    """One of three is lost: its fault. Two at once: maybe the launcher's own network."""
    (bare.folder / "job.py").write_text(SILENT)
    words = ["-b", "ssh", "node[1-3]", "-n", "1", "-o", "starter=ranks", "-o", "heartbeat_timeout=3", "--grace", "1"]
    launcher = subprocess.Popen(
        bare.argv(*words, "--", "job.py"),
        env=bare.environ(FILE),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    bare.wait(lambda: all((bare.folder / f"started.{rank}").exists() for rank in range(3)), "the ranks do not start")
    for host in cut:
        bare.cut(host)
    _, text = launcher.communicate(timeout=60)
    assert launcher.returncode == 125, text
    expected = [("node3", "node-lost")] if len(cut) == 1 else []
    assert remembered(bare.folder / "bad.json") == expected, text


def test_a_slurm_job_excludes_it(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    """A job ends on a bad node; the next one runs elsewhere, unless the user requests that node."""
    (folder / "job.py").write_text(ECC)
    words = ["-b", "slurm", "-N", "1", "-n", "1"]
    before = ["env", "DDPKIT_BAD_NODES=bad.json"]
    failed = launch(*words, "--env", "BAD=node1", "-o", "nodelist=node1", "--", "job.py", before=before)
    assert failed.end() == 1, failed.text
    assert remembered(folder / "bad.json") == [], failed.text
    know(folder / "bad.json", "node1")

    ran = launch(*words, "-o", "exclude=node2", "--", "job.py", before=before)
    assert ran.end() == 0, ran.text
    assert re.search("ran 0 node[34]", ran.text)
    assert "ddpkit: excludes node1: the memory of a GPU of the host has errors" in ran.text
    assert "#SBATCH --exclude=node2,node1\n" in Path(ran.record["folder"], "job.sbatch").read_text()

    def dry(*more: str) -> subprocess.CompletedProcess[str]:
        argv = [*DDPKIT, "launch", *words, *more, "--dry-run", "--", "job.py"]
        env = {**idle_lab.environ(), **FILE, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            idle_lab.argv("login", argv, folder), env=env, capture_output=True, text=True, check=True, timeout=60
        )

    assert "#SBATCH --exclude=node1\n" in dry().stdout
    requested = dry("-o", "nodelist=node1")
    assert "--exclude" not in requested.stdout
    assert (
        "it is not excluded: --nodelist requests it; if it is repaired: ddpkit nodes forgive node1" in requested.stderr
    )
    wide = dry("-N", "4")
    assert "--exclude" not in wide.stdout
    assert "nodes are in service, and the job needs 4" in wide.stderr
