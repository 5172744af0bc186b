"""A SLURM job excludes bad nodes where it can do without them."""

from __future__ import annotations

from typing import Any

import pytest

from ddpkit.transports.slurm_nodes import choose_excluded, lost_script_node, read_sinfo

# `sinfo --noheader --Node --format='%N %P %t'`
SINFO = """\
n1 main* idle
n2 main* mix
n3 main* down*
n4 main* drain
n1 gpu alloc
n5 gpu idle~
n6 gpu idle*
"""
NODES = {"n1": True, "n2": True, "n3": False, "n4": True}


# `scontrol --oneliner show job`, of SLURM 22.05
JOB = "JobId=1 JobState={} Reason=None Requeue=1 Restarts=0 NodeList={} BatchHost={} NumNodes=2 NumCPUs=2"


@pytest.mark.parametrize(
    ("job", "lost"),
    [
        (JOB.format("RUNNING", "node[1-3]", "node1"), ""),
        (JOB.format("RUNNING", "node[2-3]", "node1"), "node1"),
        (JOB.format("RUNNING", "node12", "node1"), "node1"),
        (JOB.format("RUNNING", "node[1,3]", "node1"), ""),
        (JOB.format("CANCELLED", "node[2-3]", "node1"), ""),
        ("JobId=1 JobState=PENDING Reason=BeginTime NodeList= NumNodes=3", ""),
        ("JobId=1 JobState=RUNNING Reason=None NodeList=node2 NumNodes=1", ""),
        ("slurm_load_jobs error: Unable to contact slurm controller", ""),
    ],
)
def test_the_node_of_a_script(job: str, lost: str) -> None:
    assert lost_script_node(job) == lost


def test_nodes_in_service() -> None:
    assert read_sinfo(SINFO, default=True) == {"n1": True, "n2": True, "n3": False, "n4": False}
    gpu = "".join(line for line in SINFO.splitlines(True) if " gpu " in line)
    assert read_sinfo(gpu, default=False) == {"n1": True, "n5": True, "n6": False}
    assert read_sinfo("slurm_load_partitions: Unable to contact slurm controller\n", default=True) == {}


@pytest.mark.parametrize(
    ("bad", "options", "chosen"),
    [
        (["n2"], {}, {"n2": ""}),
        (["n2", "n3", "other"], {}, {"n2": ""}),  # out of service, or of another cluster
        (["n2", "n4"], {}, {"n2": "", "n4": ""}),
        (["n2", "n4"], {"nnodes": 2}, {"n2": "", "n4": "2 nodes are in service, and the job needs 2"}),
        (["n2"], {"nnodes": 3}, {"n2": "3 nodes are in service, and the job needs 3"}),
        (["n2"], {"exclude": "n[1-2]"}, {}),  # already
        (["n2"], {"exclude": "n1", "nnodes": 2}, {"n2": "2 nodes are in service, and the job needs 2"}),
        (["n2"], {"nodelist": "n[2-3]"}, {"n2": "--nodelist requests it"}),
        (["n2"], {"nodelist": "n1"}, {"n2": ""}),
        (["n2"], {"nodelist": "./n[odes"}, {"n2": "the options list the nodes in a file"}),
        (["n2"], {"sbatch": "--comment=x -w n2"}, {"n2": "the option sbatch selects nodes"}),
        (["n2"], {"sbatch": "--exclude=n1"}, {"n2": "the option sbatch selects nodes"}),
        (["n2"], {"sbatch": "--wait-all-nodes=1"}, {"n2": ""}),
        ([], {}, {}),
    ],
)
def test_choices(bad: list[str], options: dict[str, Any], chosen: dict[str, str]) -> None:
    asked: dict[str, Any] = {"nnodes": 1, "nodelist": "", "exclude": "", "sbatch": "", **options}
    assert choose_excluded(bad, NODES, **asked) == chosen
