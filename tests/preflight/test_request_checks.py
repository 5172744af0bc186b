"""What `ddpkit test` says of a request before anybody is asked. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ddpkit.preflight.request_checks import check_request


@dataclass(frozen=True, kw_only=True)
class Row:
    script: str = "train.py"
    env: dict[str, str] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    slurm: bool = False
    nnodes: int = 2
    doc: str
    evidence: str
    status: str = "fail"


SLURM = {"SLURM_NTASKS": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS_PER_NODE": "4"}
ROWS = {
    "node-rank": Row(  # L06
        script="torchrun --nnodes=2 --nproc-per-node=4 --master_addr=node1 train.py",
        doc="node-rank-missing",
        evidence="torchrun on several nodes without --node_rank",
    ),
    "node-rank-module": Row(
        script="python -m torch.distributed.run --nnodes=2 train.py",
        doc="node-rank-missing",
        evidence="without --node_rank",
    ),
    "standalone": Row(  # L08
        script="torchrun --standalone --nnodes=2 train.py", doc="standalone-many-nodes", evidence="--standalone"
    ),
    "launcher": Row(  # L10: a launcher in a launcher
        script="torchrun --nproc-per-node 4 train.py",
        nnodes=1,
        doc="store-barrier-timeout",
        evidence="the script is torchrun",
    ),
    "srun": Row(script="srun python train.py", nnodes=1, doc="store-barrier-timeout", evidence="the script is srun"),
    "path": Row(
        script="/opt/venv/bin/accelerate launch train.py",
        nnodes=1,
        doc="store-barrier-timeout",
        evidence="the script is accelerate",
    ),
    "rank": Row(env={"RANK": "0"}, doc="rank-not-set", evidence="--env RANK=0"),  # L16
    "world": Row(env={"WORLD_SIZE": "8"}, doc="rank-not-set", evidence="--env WORLD_SIZE=8"),
    "nodelist": Row(  # S12
        env={"MASTER_ADDR": "node[01-04]"}, doc="nodelist-unexpanded", evidence=r"MASTER_ADDR=node[01-04]"
    ),
    "nodes": Row(env={"MASTER_ADDR": "node1,node2"}, doc="nodelist-unexpanded", evidence="node1,node2"),
    "localhost": Row(env={"MASTER_ADDR": "localhost"}, doc="master-unreachable", evidence="MASTER_ADDR=localhost"),
    "tasks": Row(  # S02
        environ=SLURM, slurm=True, doc="tasks-contradict", evidence="SLURM_NTASKS=2", status="warn"
    ),
    "one-task": Row(  # S01
        environ={"SLURM_NTASKS": "1", "SLURM_GPUS_ON_NODE": "8"},
        slurm=True,
        doc="srun-not-used",
        evidence="1 task and 8 GPUs",
        status="warn",
    ),
    "one-task-kind": Row(
        environ={"SLURM_NTASKS": "1", "SLURM_GPUS_PER_NODE": "a100:4"},
        slurm=True,
        doc="srun-not-used",
        evidence="1 task and 4 GPUs",
        status="warn",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_wrong_is_said(name: str) -> None:
    row = ROWS[name]
    found = check_request("any", row.script.split(), row.env, row.environ, row.nnodes, slurm=row.slurm)
    (check,) = [check for check in found if check.doc == row.doc]
    assert (check.id, check.status) == ("request", row.status)
    assert row.evidence in check.evidence
    assert check.cause
    assert check.fix


@pytest.mark.parametrize(
    "row",
    [
        Row(doc="", evidence=""),
        Row(script="-m package.train --nnodes 2", doc="", evidence=""),
        Row(script="-c print() torchrun", doc="", evidence=""),
        Row(script="./train.sh torchrun", doc="", evidence=""),
        Row(env={"MASTER_ADDR": "fd00::1", "NCCL_DEBUG": "INFO"}, doc="", evidence=""),
        Row(env={"MASTER_ADDR": "[fd00::1]"}, doc="", evidence=""),
        Row(env={"MASTER_ADDR": "localhost"}, nnodes=1, doc="", evidence=""),
        Row(environ={**SLURM, "SLURM_NTASKS": "8"}, slurm=True, doc="", evidence=""),
        Row(environ={"SLURM_NTASKS": "1", "SLURM_GPUS_ON_NODE": "1"}, slurm=True, doc="", evidence=""),
        Row(environ={"SLURM_NTASKS": "2(x4)", "SLURM_JOB_NUM_NODES": ""}, slurm=True, doc="", evidence=""),
        Row(environ=SLURM, doc="", evidence=""),  # what another backend does not look at
    ],
)
def test_a_good_request_passes(row: Row) -> None:
    (check,) = check_request("any", row.script.split(), row.env, row.environ, row.nnodes, slurm=row.slurm)
    assert (check.id, check.status) == ("request", "pass")
