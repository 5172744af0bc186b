"""A SLURM job excludes bad nodes where it can do without them."""

from __future__ import annotations

from typing import Any

import pytest

from ddpkit.machine import Reply
from ddpkit.transports import slurm_nodes
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


@pytest.mark.parametrize(
    ("details", "gpus"),
    [
        (" Nodes=node[1-2] CPU_IDs=0-3 Mem=0 GRES=gpu:2(IDX:0-1)", (2, 2)),
        (
            " Nodes=node1 CPU_IDs=0 Mem=1 GRES=gpu:a100:2(IDX:0-1)  Nodes=node2 CPU_IDs=0 Mem=1 GRES=gpu:1(IDX:0)",
            (2, 1),
        ),
        (" Nodes=node[1-2] CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:0),gpu:h100:2(IDX:1-2),nvme:1(CNT:1)", (3, 3)),
        (" Nodes=node[1-2] CPU_IDs=0-3 Mem=0 GRES=", None),
        ("", None),
    ],
)
def test_gpus_of_an_allocation(details: str, gpus: tuple[int, int] | None) -> None:
    """`salloc --gres=gpu:2` sets no variable with their number. Without them the tasks count."""
    environ = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NTASKS_PER_NODE": "1"}
    held = slurm_nodes.slurm(None, None, environ, shown=f"JobId=7 NodeList=node[1-2]{details} TresPerTask=gres:gpu:1 ")
    assert held.allocation is not None
    assert held.allocation.nproc_per_node == (1 if gpus is None else gpus if gpus[0] != gpus[1] else gpus[0])
    assert dict(held.allocation.gpus) == ({} if gpus is None else dict(zip(("node1", "node2"), gpus, strict=True)))
    assert held.allocation.gpus_by_task == (gpus is not None)


@pytest.mark.parametrize(
    ("request_", "ranks"),
    [
        ("", 2),  # --exclusive alone: the steps get no GPU, and the tasks count
        ("TresPerNode=gres:gpu", 1),
        ("TresPerNode=gres:gpu:2", 2),
        ("TresPerNode=gres/gpu:1g.10gb:3", 3),
        ("TresPerNode=gres:nvme:1", 2),
        ("TresPerJob=gres:gpu:8", 4),
    ],
)
def test_gpus_of_an_exclusive_job(request_: str, ranks: int) -> None:
    """SLURM shows all GPUs of its nodes, whatever it requested."""
    environ = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NTASKS_PER_NODE": "2"}
    shown = f"JobId=7 NodeList=node[1-2] Nodes=node[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:4(IDX:0-3) {request_} Comment=x"
    held = slurm_nodes.slurm(None, None, environ, shown=shown).allocation
    assert held is not None
    assert held.nproc_per_node == ranks


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(exit_code=0, output="JobId=7 JobName=x UserId=me(1000) JobState=RUNNING"), ""),
        (Reply(exit_code=0, output="JobId=7 JobName=x UserId=me(1000) JobState=SUSPENDED"), ""),
        (Reply(exit_code=0, output="JobId=7 JobName=x UserId=me(1000) JobState=COMPLETING"), ""),
        (Reply(exit_code=0, output="JobId=7 JobName=x UserId=me(1000) JobState=COMPLETED"), "has ended (COMPLETED)"),
        (Reply(exit_code=0, output="JobId=7 JobName=x UserId=you(1001) JobState=RUNNING"), "is one of you"),
        (Reply(exit_code=1, error="slurm_load_jobs error: Invalid job id specified"), "does not know job 7"),
        (Reply(exit_code=1, error="slurm_load_jobs error: Unable to contact slurm controller"), ""),
        (Reply(exit_code=127, error="scontrol not found", missing=True), ""),
    ],
)
def test_a_job_that_has_ended(reply: Reply, why: str) -> None:
    found = slurm_nodes.ended_job("7", reply, user=1000)
    assert (why in found) if why else (found == "")
