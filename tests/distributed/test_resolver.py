"""The resolver as a table: a mapping in, a `DistEnv` or the text of an error out.

The SLURM rows are what processes were seen to see under Slurm 22.05; a row that the environment alone cannot decide is
an error here, and never a guess.
"""

from __future__ import annotations

import os
import pickle
import pty
import signal
import subprocess
import sys
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program import wait_until

from ddpkit.distributed.nodelist import first_of_nodelist
from ddpkit.distributed.slurm_lookup import MOST_BYTES, read_hostfile
from ddpkit.distributed.torch import (
    DistEnv,
    Facts,
    expand_nodelist,
    explain,
    gather_facts,
    per_rank_batch_size,
    resolve,
)
from ddpkit.errors import EnvError


@dataclass(frozen=True)
class Row:
    """One situation: the environment, and the fields of the answer or the words of the error."""

    name: str
    environ: dict[str, str]
    want: dict[str, Any] = field(default_factory=dict)
    error: tuple[str, ...] = ()
    hint: str = ""
    argv: tuple[str, ...] = ()
    facts: Facts = field(default_factory=Facts)


def good(name: str, environ: dict[str, str], *argv: str, **want: Any) -> Row:
    return Row(name, environ, want=want, argv=argv)


def bad(name: str, environ: dict[str, str], *error: str, hint: str = "", argv: tuple[str, ...] = ()) -> Row:
    return Row(name, environ, error=error, hint=hint, argv=argv)


def seeing(facts: Facts, row: Row) -> Row:
    return replace(row, facts=facts)


def torch_set(rank: int = 1, world: int = 4, local: int | None = None, **more: str) -> dict[str, str]:
    environ = {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "n1", "MASTER_PORT": "29501"}
    return environ | {"LOCAL_RANK": str(rank if local is None else local)} | more


def torchrun_set(rank: int, world: int, local: int, local_world: int, group: int) -> dict[str, str]:
    return torch_set(rank, world, local) | {
        "LOCAL_WORLD_SIZE": str(local_world),
        "GROUP_RANK": str(group),
        "GROUP_WORLD_SIZE": str(world // local_world),
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def without(environ: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in names}


# srun -N2 -n4, tasks dealt out in blocks; this is task 3, on the second node.
STEP = {
    "SLURM_JOB_ID": "71",
    "SLURM_JOB_NODELIST": "n[1-4]",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "n[2-3]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_NTASKS": "4",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_GTIDS": "2,3",
    "SLURM_LAUNCH_NODE_IPADDR": "10.9.9.9",
}
ONE_TASK_STEP = STEP | {
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_NODELIST": "n2",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_GTIDS": "0",
}
BATCH = {"SLURM_JOB_ID": "71", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS": "4"}
OMPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_NODE_RANK": "1",
}
OMPI_ONE_NODE = OMPI | {"OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
PMI = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
PALS = {"PMI_RANK": "3", "PMI_SIZE": "4", "PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "2"}
CRAY = {"PALS_RANKID": "3", "PMI_SIZE": "4", "PALS_LOCAL_RANKID": "1", "PMI_LOCAL_SIZE": "2", "PALS_NODEID": "1"}
FLUX = {"FLUX_TASK_RANK": "3", "FLUX_JOB_SIZE": "4", "FLUX_TASK_LOCAL_ID": "1"}
POD = {"RANK": "3", "WORLD_SIZE": "4", "PET_NNODES": "4", "PET_NODE_RANK": "3", "PET_NPROC_PER_NODE": "auto"}
MV2 = {
    "MV2_COMM_WORLD_RANK": "3",
    "MV2_COMM_WORLD_SIZE": "4",
    "MV2_COMM_WORLD_LOCAL_RANK": "1",
    "MV2_COMM_WORLD_LOCAL_SIZE": "2",
}
JSM = {
    "JSM_NAMESPACE_RANK": "3",
    "JSM_NAMESPACE_SIZE": "4",
    "JSM_NAMESPACE_LOCAL_RANK": "1",
    "JSM_NAMESPACE_LOCAL_SIZE": "2",
    "LSB_JOBID": "9",
}
MASTER = {"MASTER_ADDR": "n1", "MASTER_PORT": "29501"}
EXPLICIT = {
    "DDPKIT_RANK": "3",
    "DDPKIT_WORLD_SIZE": "4",
    "DDPKIT_LOCAL_RANK": "1",
    "DDPKIT_LOCAL_WORLD_SIZE": "2",
    "DDPKIT_NODE_RANK": "1",
    "DDPKIT_MASTER_ADDR": "m1",
    "DDPKIT_MASTER_PORT": "4000",
}
DDPKIT = torch_set(3, 4, 1) | {"DDPKIT_RUN": "r1", "LOCAL_WORLD_SIZE": "2", "NODE_RANK": "1", "GROUP_RANK": "1"}

ON_NODE_1 = {"rank": 3, "world_size": 4, "local_rank": 1, "local_world_size": 2, "node_rank": 1, "num_nodes": 2}
ALONE = {"rank": 0, "world_size": 1, "local_rank": 0, "local_world_size": 1, "node_rank": 0, "num_nodes": 1}

EXPLICIT_ROWS = [
    good("all", EXPLICIT, **ON_NODE_1, source="explicit", master_addr="m1", master_port=4000),
    good("beats a torch set and a step", DDPKIT | STEP | EXPLICIT, source="explicit", master_addr="m1"),
    good(
        "rank and world size only: one node",
        {"DDPKIT_RANK": "1", "DDPKIT_WORLD_SIZE": "2"},
        **{"rank": 1, "local_rank": 1, "local_world_size": 2, "num_nodes": 1, "master_addr": "127.0.0.1"},
    ),
    bad("rank only", {"DDPKIT_RANK": "1"}, "DDPKIT_RANK=1", "DDPKIT_WORLD_SIZE is not", hint="unset DDPKIT_RANK"),
    bad("local rank only", {"DDPKIT_LOCAL_RANK": "1"}, "DDPKIT_LOCAL_RANK=1", "DDPKIT_RANK and DDPKIT_WORLD_SIZE"),
    bad("two nodes, no master", without(EXPLICIT, "DDPKIT_MASTER_ADDR"), "rank 3 of 4", hint="DDPKIT_MASTER_ADDR"),
    bad("no local rank", without(EXPLICIT, "DDPKIT_LOCAL_RANK"), "DDPKIT_LOCAL_RANK is not set"),
    bad("no local size", without(EXPLICIT, "DDPKIT_LOCAL_WORLD_SIZE"), "DDPKIT_LOCAL_WORLD_SIZE is not set"),
]

TORCH_ROWS = [
    good("ddpkit", DDPKIT, **ON_NODE_1, source="ddpkit", master_addr="n1", master_port=29501),
    good("ddpkit inside of a larger pty step", DDPKIT | STEP | {"SLURM_PROCID": "0"}, rank=3, source="ddpkit"),
    good("ddpkit's marker without its set", {"DDPKIT_RUN": "r1"}, **ALONE, source="single"),
    good("ddpkit's marker, torchrun's set", torchrun_set(3, 4, 1, 2, 1) | {"DDPKIT_RUN": "r"}, source="torchrun"),
    good("torchrun", torchrun_set(3, 4, 1, 2, 1), **ON_NODE_1, source="torchrun", master_addr="n1"),
    good(
        "torchrun reorders nodes: GROUP_RANK, not an exported NODE_RANK",
        torchrun_set(3, 4, 1, 2, 1) | {"NODE_RANK": "0"},
        node_rank=1,
    ),
    good(
        "torchrun, one agent per node of a step, in another order",
        torchrun_set(0, 4, 0, 2, 0) | STEP | {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_GTIDS": "1"},
        **{"rank": 0, "world_size": 4, "node_rank": 0, "source": "torchrun"},
    ),
    good("torch, one node", torch_set(1, 4), rank=1, local_world_size=4, num_nodes=1, source="torch"),
    good("torch, two nodes", torch_set(3, 4, 1, LOCAL_WORLD_SIZE="2"), **ON_NODE_1, source="torch"),
    good("torch, DeepSpeed's launcher", torch_set(3, 4, 1, LOCAL_SIZE="2"), **ON_NODE_1, source="torch"),
    good("torch, a world of one", without(torch_set(0, 1), "LOCAL_RANK"), **ALONE, source="torch"),
    good("torch, NODE_RANK told", torch_set(3, 4, 1, LOCAL_WORLD_SIZE="2", NODE_RANK="0"), node_rank=0),
    good("IPv6 in brackets", torch_set(MASTER_ADDR="[fe80::1]"), master_addr="fe80::1"),
    good("IPv6", torch_set(MASTER_ADDR="2001:db8::1"), master_addr="2001:db8::1"),
    good("empty values are none", {"RANK": "", "WORLD_SIZE": " ", "MASTER_ADDR": ""}, **ALONE, source="single"),
    bad("RANK alone", {"RANK": "1"}, "RANK=1 is set, but WORLD_SIZE", hint="unset RANK"),
    bad("LOCAL_RANK alone", {"LOCAL_RANK": "1"}, "LOCAL_RANK=1 is set", "earlier export", hint="unset LOCAL_RANK"),
    bad("WORLD_SIZE alone", {"WORLD_SIZE": "2"}, "WORLD_SIZE=2 is set, but RANK", hint="unset WORLD_SIZE"),
    bad(
        "no master",
        {"RANK": "0", "WORLD_SIZE": "2"},
        "RANK=0 WORLD_SIZE=2 are set, but MASTER_ADDR and MASTER_PORT are not",
        hint="unset RANK WORLD_SIZE",
    ),
    bad("no LOCAL_RANK", without(torch_set(), "LOCAL_RANK"), "rank 1 of 4", "LOCAL_RANK is not set", hint="torchrun"),
    bad("several nodes, of which size?", torch_set(3, 4, 1), "RANK=3 with LOCAL_RANK=1", hint="LOCAL_WORLD_SIZE"),
    bad("no number", torch_set(RANK="one"), "RANK=one is not an integer", hint="correct RANK"),
    bad("Python's 1_0", torch_set(RANK="1_0"), "RANK=1_0 is not an integer"),
    bad("another script's digits", torch_set(RANK="٣"), "RANK=٣ is not an integer"),
    bad("negative", torch_set(RANK="-1"), "RANK=-1 is negative"),
    bad("5,000 digits", torch_set(RANK="9" * 5000), "is not an integer"),
    bad("rank too large", torch_set(4, 4, 0, LOCAL_WORLD_SIZE="4"), "RANK=4 is not below WORLD_SIZE=4"),
    bad("no ranks", torch_set(0, 0, LOCAL_WORLD_SIZE="1"), "WORLD_SIZE=0 is too small"),
    bad("local rank too large", torch_set(3, 4, 2, LOCAL_WORLD_SIZE="2"), "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"),
    bad("local size 0", torch_set(3, 4, 1, LOCAL_WORLD_SIZE="0"), "LOCAL_WORLD_SIZE=0 is too small"),
    bad("local size too large", torch_set(3, 4, 1, LOCAL_WORLD_SIZE="8"), "LOCAL_WORLD_SIZE=8", "WORLD_SIZE=4"),
    bad("node too large", torch_set(3, 4, 1, LOCAL_WORLD_SIZE="2", NODE_RANK="2"), "NODE_RANK=2 is not below 2 ("),
    bad("port 0", torch_set(MASTER_PORT="0"), "MASTER_PORT=0 is not a port"),
    bad("port 65536", torch_set(MASTER_PORT="65536"), "MASTER_PORT=65536 is not a port"),
    bad("no port", torch_set(MASTER_PORT="auto"), "MASTER_PORT=auto is not an integer"),
    bad("host and port", torch_set(MASTER_ADDR="n1:29500"), "MASTER_ADDR=n1:29500 contains a port"),
    bad("a URL", torch_set(MASTER_ADDR="tcp://n1"), "MASTER_ADDR=tcp://n1 is not a host name"),
    bad(
        "torchrun's store, but no torchrun",
        torch_set(TORCHELASTIC_USE_AGENT_STORE="True"),
        "TORCHELASTIC_USE_AGENT_STORE=True",
        "n1:29501",
        hint="unset TORCHELASTIC_USE_AGENT_STORE",
    ),
    bad(
        "torchrun's store in a step",
        STEP | {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "x"},
        "TORCHELASTIC_USE_AGENT_STORE=True",
    ),
    bad(
        "torchrun's store elsewhere than the explicit master",
        EXPLICIT | torchrun_set(3, 4, 1, 2, 1),
        "TORCHELASTIC_USE_AGENT_STORE=True",
        "m1:4000",
    ),
    good("torchrun's store and a single process", {"TORCHELASTIC_USE_AGENT_STORE": "True"}, source="single"),
]

NO_LOCAL = without(torch_set(1, 2), "LOCAL_RANK")
LEGACY_ROWS = [
    good("--local-rank=N", NO_LOCAL, "a.py", "--local-rank=1", local_rank=1, source="legacy"),
    good("--local_rank=N", NO_LOCAL, "--local_rank=1", "--x", local_rank=1, source="legacy"),
    good("--local-rank N", NO_LOCAL, "--local-rank", "1", local_rank=1, source="legacy"),
    good("both agree", torch_set(1, 2), "--local-rank=1", local_rank=1, source="torch"),
    good("a negative default is none", torch_set(1, 2), "--local_rank=-1", local_rank=1, source="torch"),
    good("the argument alone says nothing", {}, "--local-rank=1", **ALONE, source="single"),
    bad("after --", NO_LOCAL, "LOCAL_RANK is not set", argv=("--", "--local-rank=1")),
    bad("contradiction", torch_set(1, 2), "LOCAL_RANK=1 contradicts", "--local-rank=0", argv=("--local-rank=0",)),
    bad("no number", NO_LOCAL, "--local-rank=x is not an integer", argv=("--local-rank", "x")),
    bad("no value", NO_LOCAL, "--local-rank= is not an integer", argv=("--local-rank",)),
]

HET = STEP | {
    "SLURM_HET_SIZE": "2",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "n9",
    "SLURM_JOB_NODELIST_HET_GROUP_1": "n[1-2]",
    "SLURM_JOB_ID_HET_GROUP_0": "70",
    "SLURM_STEP_NODELIST": "n[1-2,9]",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_NTASKS": "3",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
    "SLURM_GTIDS": "2",
}
BY_HAND = STEP | {
    "SLURM_DISTRIBUTION": "arbitrary",
    "SLURM_HOSTFILE": "/tmp/hosts",
    "SLURM_STEP_NODELIST": "n[2-4]",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_NUM_TASKS": "3",
}
# Tasks 0 and 2 on n4, 1 on n2, 3 on n3; this is task 1.
BY_HAND_UNEVEN = BY_HAND | {
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_GTIDS": "1",
    "SLURMD_NODENAME": "n2",
}
FILE = Facts(hostfile="n4\nn2\nn4\nn3\n")
SLURM_ROWS = [
    good("a step on a part of the job", STEP, **ON_NODE_1, source="slurm", master_addr="n2"),
    good("batch script, before srun", BATCH, **ALONE, source="single"),
    good("salloc shell on the login node", {"SLURM_JOB_ID": "71", "SLURM_NTASKS": "4"}, **ALONE, source="single"),
    good(
        "interactive step",
        STEP | {"SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
        **ALONE,
        source="single",
    ),
    good("batch step", STEP | {"SLURM_STEP_ID": "4294967291"}, **ALONE, source="single"),
    good("batch step of 26.05", BATCH | {"SLURM_STEP_ID": "-5", "SLURM_STEPID": "-5"}, **ALONE, source="single"),
    good("interactive step of 26.05", STEP | {"SLURM_STEP_ID": "-6"}, **ALONE, source="single"),
    good("extern step", STEP | {"SLURM_STEP_ID": "4294967292"}, **ALONE, source="single"),
    good("srun --pty bash", ONE_TASK_STEP | {"SLURM_PTY_PORT": "4242"}, **ALONE, source="slurm"),
    good("srun python inside a pty shell", STEP | {"SLURM_PTY_PORT": "4242"}, **ON_NODE_1, source="slurm"),
    good(
        "uneven: -N3 -n5",
        STEP
        | {"SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_NUM_NODES": "3", "SLURM_STEP_TASKS_PER_NODE": "3,1(x2)"}
        | {"SLURM_PROCID": "3", "SLURM_LOCALID": "0", "SLURM_NODEID": "1", "SLURM_GTIDS": "3"},
        **{"rank": 3, "local_rank": 0, "local_world_size": 1, "node_rank": 1, "num_nodes": 3},
    ),
    good(
        "uneven, without SLURM_GTIDS",
        without(STEP, "SLURM_GTIDS")
        | {"SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_NUM_NODES": "3", "SLURM_STEP_TASKS_PER_NODE": "3,1(x2)"}
        | {"SLURM_PROCID": "2", "SLURM_LOCALID": "2", "SLURM_NODEID": "0"},
        **{"rank": 2, "local_rank": 2, "local_world_size": 3, "node_rank": 0, "num_nodes": 3},
    ),
    good(
        "cyclic",
        STEP | {"SLURM_PROCID": "2", "SLURM_LOCALID": "1", "SLURM_NODEID": "0", "SLURM_GTIDS": "0,2"},
        **{"rank": 2, "local_rank": 1, "local_world_size": 2, "node_rank": 0, "num_nodes": 2},
    ),
    good(
        "arbitrary: rank 0 on SLURM_NODEID 2 is on node 0",
        BY_HAND
        | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "2", "SLURM_GTIDS": "0", "MASTER_ADDR": "n4"},
        **{"rank": 0, "node_rank": 0, "num_nodes": 3, "master_addr": "n4"},
    ),
    good(
        "arbitrary: rank 2 on SLURM_NODEID 0 is on node 2",
        BY_HAND
        | {"SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_GTIDS": "2", "MASTER_ADDR": "n4"},
        **{"rank": 2, "node_rank": 2, "num_nodes": 3},
    ),
    bad(
        "arbitrary, no master",
        BY_HAND | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "2", "SLURM_GTIDS": "0"},
        "SLURM_HOSTFILE=/tmp/hosts",
        "task 0 of the step, which is on n4",
        hint='export MASTER_ADDR="$(head -n 1 "$SLURM_HOSTFILE")"',
    ),
    bad(
        "arbitrary, by -w",
        without(BY_HAND_UNEVEN, "SLURM_HOSTFILE"),
        "task 1 of the step, which is on n2",
        "-m arbitrary",
        hint="the first host of srun's -w",
    ),
    seeing(
        FILE,
        good(
            "arbitrary, with its file",
            BY_HAND_UNEVEN,
            **{"rank": 1, "local_world_size": 1, "node_rank": 1, "num_nodes": 3, "master_addr": "n4"},
        ),
    ),
    seeing(
        FILE,
        good(
            "arbitrary, with its file, rank 0",
            BY_HAND_UNEVEN | {"SLURM_PROCID": "0", "SLURM_NODEID": "2", "SLURM_GTIDS": "0,2", "SLURMD_NODENAME": "n4"},
            **{"rank": 0, "local_world_size": 2, "node_rank": 0, "num_nodes": 3, "master_addr": "n4"},
        ),
    ),
    good("arbitrary, the node of MASTER_ADDR", BY_HAND_UNEVEN | {"MASTER_ADDR": "n4"}, node_rank=1, master_addr="n4"),
    good("arbitrary, an alias as MASTER_ADDR", BY_HAND_UNEVEN | {"MASTER_ADDR": "ib4"}, node_rank=0, master_addr="ib4"),
    seeing(
        Facts(hostfile="n4\nn3\n"),
        bad(
            "arbitrary, its file changed",
            BY_HAND_UNEVEN,
            "SLURM_HOSTFILE=/tmp/hosts gives task 1 n3, but SLURM started it on n2",
            hint="do not change the file",
        ),
    ),
    seeing(
        Facts(hostfile="n4"),
        bad("arbitrary, its file cut short", BY_HAND_UNEVEN, "gives task 1 no host"),
    ),
    seeing(
        Facts(hostfile_error="No such file or directory"),
        bad(
            "arbitrary, its file is elsewhere",
            BY_HAND_UNEVEN,
            "SLURM_HOSTFILE=/tmp/hosts cannot be read here: No such file or directory",
            hint="to a shared file system",
        ),
    ),
    good(
        "arbitrary, two nodes: the other one",
        STEP | {"SLURM_DISTRIBUTION": "arbitrary", "SLURM_NODEID": "0", "SLURMD_NODENAME": "n2"},
        **{"rank": 3, "node_rank": 1, "num_nodes": 2, "master_addr": "n3"},
    ),
    good(
        "a left-over host file, but a block layout",
        STEP | {"SLURM_HOSTFILE": "/tmp/hosts", "SLURM_DISTRIBUTION": "block"},
        **ON_NODE_1,
        master_addr="n2",
    ),
    good("a host file that srun ignored", STEP | {"SLURM_HOSTFILE": "/tmp/hosts"}, **ON_NODE_1, master_addr="n2"),
    good(
        "heterogeneous: total tasks, first host of the lowest group",
        HET,
        **{"rank": 2, "world_size": 3, "num_nodes": 3, "node_rank": 2, "master_addr": "n9", "source": "slurm"},
    ),
    good(
        "heterogeneous: a step on group 1 only",
        HET
        | {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_GTIDS": "1"}
        | {"SLURM_NODEID": "1"},
        **{"rank": 1, "world_size": 2, "num_nodes": 2, "master_addr": "n1"},
    ),
    good(
        "heterogeneous, outside of an allocation",
        {name.replace("_HET_GROUP", "_PACK_GROUP"): value for name, value in HET.items()},
        **{"rank": 2, "world_size": 3, "num_nodes": 3, "node_rank": 2, "master_addr": "n9"},
    ),
    bad(
        "heterogeneous, uneven, without SLURM_GTIDS",
        without(HET, "SLURM_GTIDS") | {"SLURM_STEP_TASKS_PER_NODE": "1,2,1", "SLURM_STEP_NUM_TASKS": "4"},
        "neither SLURM_GTIDS nor",
    ),
    seeing(Facts(shell="bash"), good("the shell of srun -n4 --pty", STEP, **ALONE, source="single")),
    seeing(
        Facts(shell="bash"),
        good("a launcher in the shell of srun -n4 --pty", STEP | torch_set(0, 1), **ALONE, source="torch"),
    ),
    good(
        "bound to the node's second half",
        STEP
        | {"SLURM_GTIDS": "0,1,2,3", "SLURM_LOCALID": "3", "SLURM_STEP_NUM_NODES": "1"}
        | {"CUDA_VISIBLE_DEVICES": "2,3", "SLURM_STEP_GPUS": "2,3", "SLURM_GPUS_ON_NODE": "4"},
        local_rank=3,
        device_index=1,
    ),
    good(
        "the user's own choice of devices",
        STEP
        | {"SLURM_GTIDS": "0,1,2,3", "SLURM_LOCALID": "3", "SLURM_STEP_NUM_NODES": "1"}
        | {"CUDA_VISIBLE_DEVICES": "2,3", "SLURM_STEP_GPUS": "0,1,2,3", "SLURM_GPUS_ON_NODE": "4"},
        local_rank=3,
        device_index=3,  # more ranks than devices: `device()` says so
    ),
    bad(
        "MASTER_ADDR of the job, rank 0 elsewhere",
        STEP | MASTER | {"SLURM_PROCID": "0", "SLURM_GTIDS": "0,1", "SLURM_NODEID": "0", "SLURMD_NODENAME": "n2"},
        "MASTER_ADDR=n1 is a node of this job, but rank 0 of this step is on n2",
        hint="env -u MASTER_ADDR",
    ),
    bad(
        "MASTER_ADDR is this node, rank 0 is not here",
        STEP | {"MASTER_ADDR": "n3", "SLURMD_NODENAME": "n3"},
        "rank 0 of this step is not on that node: its tasks are 2,3",
    ),
    good("MASTER_ADDR by another name", STEP | {"MASTER_ADDR": "n3-ib", "SLURMD_NODENAME": "n3"}, master_addr="n3-ib"),
    good("--gpus-per-task=1", STEP | {"CUDA_VISIBLE_DEVICES": "0"}, local_rank=1, device_index=0),
    good("--gpu-bind=single:1", STEP | {"CUDA_VISIBLE_DEVICES": "3"}, local_rank=1, device_index=0),
    good("--gpu-bind=none", STEP, local_rank=1, device_index=1),
    good("a part of a node", STEP | {"CUDA_VISIBLE_DEVICES": "2,3"}, local_rank=1, device_index=1),
    good("MASTER_ADDR before srun", STEP | MASTER, **ON_NODE_1, source="slurm", master_addr="n1", master_port=29501),
    good("our master beats it", STEP | MASTER | {"DDPKIT_MASTER_ADDR": "n7"}, master_addr="n7"),
    bad(
        "MASTER_ADDR=localhost on two nodes", STEP | {"MASTER_ADDR": "localhost"}, "localhost", "2 nodes", hint="unset"
    ),
    good("one node", STEP | {"SLURM_STEP_NUM_NODES": "1", "SLURM_GTIDS": "0,1,2,3"}, master_addr="127.0.0.1"),
    good("srun --mpi=pmi2", STEP | {"PMI_RANK": "3", "PMI_SIZE": "4"}, **ON_NODE_1, source="slurm"),
    good("srun --mpi=pmi2, heterogeneous", HET | {"PMI_RANK": "2", "PMI_SIZE": "3"}, rank=2, source="slurm"),
    good("a pmi2 shell, srun --mpi=none in it", STEP | {"PMI_RANK": "0", "PMI_SIZE": "1"}, rank=3, source="slurm"),
    *(
        good(f"DDPKIT_DETECT_SLURM={word}", STEP | {"DDPKIT_DETECT_SLURM": word}, **ALONE, source="single")
        for word in ("0", "off", "False", "no")
    ),
    good("DDPKIT_DETECT_SLURM=1", STEP | {"DDPKIT_DETECT_SLURM": "1"}, source="slurm"),
    good(
        "turned off under --mpi=pmi2",
        STEP | {"DDPKIT_DETECT_SLURM": "0", "PMI_RANK": "3", "PMI_SIZE": "4"},
        **ALONE,
        source="single",
    ),
    bad("no SLURM_PROCID", without(STEP, "SLURM_PROCID"), "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID", hint="container"),
    bad("no node list", without(STEP, "SLURM_STEP_NODELIST"), "SLURM_STEP_NODELIST is not set", hint="MASTER_ADDR"),
    bad("torn node list", STEP | {"SLURM_STEP_NODELIST": "n[2-"}, "n[2-", "bracket"),
    bad("rank too large", STEP | {"SLURM_PROCID": "4"}, "SLURM_PROCID=4 is not below SLURM_STEP_NUM_TASKS=4"),
    bad(
        "how many tasks here?",
        without(STEP, "SLURM_GTIDS", "SLURM_STEP_TASKS_PER_NODE"),
        "SLURM_GTIDS",
        "SLURM_STEP_TASKS_PER_NODE",
    ),
]

SAME = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
CONTRADICTION_ROWS = [
    good("a torch set made from the step", STEP | SAME | MASTER, **ON_NODE_1, source="torch", master_addr="n1"),
    good("... without LOCAL_RANK", STEP | without(SAME, "LOCAL_RANK") | MASTER, **ON_NODE_1, source="torch"),
    good("... without a master", STEP | SAME, **ON_NODE_1, source="slurm", master_addr="n2"),
    good("LOCAL_RANK=$SLURM_LOCALID", STEP | {"LOCAL_RANK": "1"}, **ON_NODE_1, source="slurm"),
    bad(
        "a stale LOCAL_RANK", STEP | {"LOCAL_RANK": "0"}, "LOCAL_RANK=0 contradicts SLURM_LOCALID=1", hint="unset LOCAL"
    ),
    bad("a stale RANK", STEP | {"RANK": "0"}, "RANK=0 contradicts SLURM_PROCID=3", hint="unset RANK"),
    bad(
        "a stale set of the same size",
        STEP | torch_set(0, 4, 1),
        "RANK=0 contradicts SLURM_PROCID=3",
        hint="unset RANK WORLD_SIZE",
    ),
    bad(
        "every task alone, by a stale export",
        STEP | torch_set(0, 1),
        "WORLD_SIZE=1 contradicts SLURM_STEP_NUM_TASKS=4",
        "RANK=0 contradicts SLURM_PROCID=3",
        hint="DDPKIT_DETECT_SLURM=0",
    ),
    good("... meant so", STEP | torch_set(0, 1) | {"DDPKIT_DETECT_SLURM": "0"}, **ALONE, source="torch"),
    bad("another world", STEP | torch_set(3, 8, 1), "WORLD_SIZE=8 contradicts SLURM_STEP_NUM_TASKS=4"),
    good(
        "a launcher in each task",
        STEP | torch_set(5, 8, 1, LOCAL_WORLD_SIZE="2"),
        **{"rank": 5, "world_size": 8, "local_rank": 1, "node_rank": 2, "num_nodes": 4, "source": "torch"},
    ),
    good("a launcher in a pty shell", ONE_TASK_STEP | torch_set(1, 4), rank=1, world_size=4, source="torch"),
    good(
        "one step per node, RANK from a script",
        ONE_TASK_STEP | torch_set(1, 2, 0, LOCAL_WORLD_SIZE="1"),
        **{"rank": 1, "local_rank": 0, "num_nodes": 2, "source": "torch"},
    ),
    good("a set complete, a step torn", without(STEP, "SLURM_PROCID") | torch_set(1, 4), rank=1, source="torch"),
    bad("a stale set under mpirun", OMPI | torch_set(0, 4, 1), "RANK=0 contradicts OMPI_COMM_WORLD_RANK=3"),
    good("LOCAL_RANK under mpirun", OMPI | MASTER | {"LOCAL_RANK": "1"}, **ON_NODE_1, source="openmpi"),
    good(
        "mpirun in a job: its daemon is the task",
        ONE_TASK_STEP | OMPI | MASTER,
        **ON_NODE_1,
        source="openmpi",
    ),
    good("mpirun in a job, more daemons", STEP | OMPI_ONE_NODE | {"SLURM_PROCID": "0"}, rank=3, source="openmpi"),
]

MPI_ROWS = [
    good("Open MPI", OMPI | MASTER, **ON_NODE_1, source="openmpi", master_addr="n1", master_port=29501),
    good("Open MPI, one node", OMPI_ONE_NODE, rank=3, local_rank=3, num_nodes=1, master_addr="127.0.0.1"),
    good(
        "Open MPI --map-by node",
        OMPI | MASTER | {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
        **{"rank": 1, "local_rank": 0, "node_rank": 1},
    ),
    good(
        "Open MPI, a world of one",
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        **ALONE,
        source="openmpi",
        master_addr="127.0.0.1",
    ),
    bad("Open MPI, no master", OMPI, "rank 3 of 4", "MASTER_ADDR is not set", hint="mpirun -x MASTER_ADDR="),
    bad("Open MPI, half", {"OMPI_COMM_WORLD_RANK": "1"}, "OMPI_COMM_WORLD_SIZE is not"),
    bad(
        "Open MPI, no local rank",
        without(OMPI, "OMPI_COMM_WORLD_LOCAL_RANK") | MASTER,
        "OMPI_COMM_WORLD_LOCAL_RANK is not set",
    ),
    good("MPICH", PMI | MASTER, **ON_NODE_1, source="mpich"),
    good(
        "PALS",
        without(PMI, "MPI_LOCALRANKID", "MPI_LOCALNRANKS") | MASTER | {"PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "2"},
        **ON_NODE_1,
        source="mpich",
    ),
    bad("MPICH, no master", PMI, "rank 3 of 4", hint="-genv MASTER_ADDR"),
    good("MVAPICH", MV2 | MASTER, **ON_NODE_1, source="mvapich"),
    good("jsrun", JSM | MASTER, **ON_NODE_1, source="lsf", master_addr="n1"),
    good("jsrun of Spectrum MPI", JSM | OMPI | MASTER, **ON_NODE_1, source="lsf"),
    bad("jsrun, no master", JSM, "MASTER_ADDR is not set"),
    bad("jsrun, no local size", without(JSM, "JSM_NAMESPACE_LOCAL_SIZE"), "JSM_NAMESPACE_LOCAL_SIZE is not set"),
    bad("Flux", FLUX | MASTER, "flux does not provide the ranks of each node", hint="DDPKIT_LOCAL_WORLD_SIZE"),
    bad("Flux, which sets PMI_* as well", FLUX | MASTER | {"PMI_RANK": "3", "PMI_SIZE": "4"}, "flux does not provide"),
    good("Flux, one task", {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "1"}, **ALONE, source="flux"),
    bad("Flux, half", without(FLUX, "FLUX_JOB_SIZE"), "FLUX_JOB_SIZE is not"),
    good("PALS, its own variables", CRAY | MASTER, **ON_NODE_1, source="pals"),
    good("PALS and PMI", CRAY | PALS | MASTER, **ON_NODE_1, source="pals"),
    good(
        "PALS knows the node",
        CRAY | MASTER | {"PALS_LOCAL_RANKID": "0", "PALS_RANKID": "1"},
        **{"rank": 1, "local_rank": 0, "node_rank": 1},
    ),
    bad("PALS, no master", CRAY, "MASTER_ADDR is not set", hint="MASTER_ADDR"),
    bad("ALPS", {"ALPS_APP_PE": "3"}, "ALPS_APP_PE=3 is set: ALPS started this process", hint="DDPKIT_WORLD_SIZE"),
    bad("PMIx alone", {"PMIX_RANK": "0"}, "PMIX_RANK=0 is set: PMIx started this process", hint="unset PMIX_RANK"),
    bad("PMIx in a job script", BATCH | {"PMIX_RANK": "0", "SLURM_STEP_ID": "-5"}, "PMIX_RANK=0 is set", hint="unset"),
    good("PMIx of a SLURM step", STEP | {"PMIX_RANK": "3"}, source="slurm"),
    good("PMIx of a step without SLURM", STEP | {"PMIX_RANK": "3", "DDPKIT_DETECT_SLURM": "0"}, **ALONE),
    good("PALS of a SLURM step", STEP | CRAY, source="slurm"),
    good("PALS of a step without SLURM", STEP | CRAY | {"DDPKIT_DETECT_SLURM": "0"}, **ALONE),
    good("Kubeflow, a rank a pod", POD | MASTER, rank=3, local_rank=0, local_world_size=1, node_rank=3, num_nodes=4),
    bad("Kubeflow, ranks unlike pods", POD | MASTER | {"PET_NNODES": "2"}, "LOCAL_RANK is not set"),
]

DEVICE_ROWS = [
    good(f"{name}={value}", torch_set(1, 4) | {name: value}, device_index=index)
    for name, value, index in (
        ("CUDA_VISIBLE_DEVICES", "", None),
        ("CUDA_VISIBLE_DEVICES", "-1", None),
        ("CUDA_VISIBLE_DEVICES", "NoDevFiles", None),
        ("CUDA_VISIBLE_DEVICES", "5", 0),
        ("CUDA_VISIBLE_DEVICES", "0,-1,1", 0),
        ("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 0),
        ("CUDA_VISIBLE_DEVICES", "MIG-GPU-8932f937/1/0,MIG-GPU-8932f937/2/0", 1),
        ("CUDA_VISIBLE_DEVICES", "4, 5, 6, 7", 1),
        ("HIP_VISIBLE_DEVICES", "2", 0),
        ("ROCR_VISIBLE_DEVICES", "GPU-1a2b", 0),
        ("ROCR_VISIBLE_DEVICES", "0,1", 1),
        ("ZE_AFFINITY_MASK", "3", 0),
        ("ZE_AFFINITY_MASK", "2.1", 0),
        ("ZE_AFFINITY_MASK", "0.0,0.1", 1),
        ("ASCEND_RT_VISIBLE_DEVICES", "5", 0),
        ("ASCEND_RT_VISIBLE_DEVICES", "4,5,6,7", 1),
    )
] + [
    good(
        "ROCm: the shortest",
        torch_set(1, 4) | {"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "1"},
        device_index=0,
    )
]

SINGLE_ROWS = [
    good("nothing", {}, **ALONE, source="single", master_addr="127.0.0.1", device_index=0),
    good("a master alone says where, not who", MASTER, **ALONE, source="single"),
    good("a node's number alone", {"NODE_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, **ALONE, source="single"),
]

ROWS = [
    pytest.param(row, id=f"{kind}: {row.name}")
    for kind, rows in (
        ("explicit", EXPLICIT_ROWS),
        ("torch", TORCH_ROWS),
        ("legacy", LEGACY_ROWS),
        ("slurm", SLURM_ROWS),
        ("contradiction", CONTRADICTION_ROWS),
        ("mpi", MPI_ROWS),
        ("device", DEVICE_ROWS),
        ("single", SINGLE_ROWS),
    )
    for row in rows
]


# Beside every row: it changes nothing.
UNRELATED = {"HOME": "/root", "SLURM_JOB_NAME": "bash", "API_TOKEN": "s3cret"}


@pytest.mark.parametrize("row", ROWS)
def test_row(row: Row) -> None:
    given = row.environ | UNRELATED
    environ, outside = dict(given), dict(os.environ)
    resolution = explain(environ, row.argv, row.facts)
    if row.error:
        with pytest.raises(EnvError) as caught:
            resolve(environ, row.argv, row.facts)
        for words in row.error:
            assert words in caught.value.message
        assert caught.value.hint
        assert row.hint in caught.value.hint
        assert resolution.env is None
        assert resolution.error is not None
        assert (resolution.error.message, resolution.error.hint) == (caught.value.message, caught.value.hint)
    else:
        env = resolve(environ, row.argv, row.facts)
        assert {name: getattr(env, name) for name in row.want} == row.want
        assert (resolution.env, resolution.error) == (env, None)
        assert set(env.origin) == {one.name for one in fields(DistEnv)} - {"origin"}
        assert all(env.origin.values())
    assert environ == given, "the mapping was modified"
    assert dict(os.environ) == outside, "os.environ was modified"


def test_origin_names_the_variable_or_the_rule() -> None:
    assert resolve(STEP | {"CUDA_VISIBLE_DEVICES": "3"}).origin == {
        "rank": "SLURM_PROCID",
        "world_size": "SLURM_STEP_NUM_TASKS",
        "local_rank": "SLURM_LOCALID",
        "local_world_size": "SLURM_GTIDS (its length)",
        "node_rank": "SLURM_NODEID",
        "num_nodes": "SLURM_STEP_NUM_NODES",
        "master_addr": "SLURM_STEP_NODELIST",
        "master_port": "hash of job, array task, step and restart",
        "device_index": "CUDA_VISIBLE_DEVICES (one device visible)",
        "source": "SLURM_STEP_NUM_TASKS",
    }


def test_explain_says_why_a_source_was_not_used() -> None:
    reasons = {one.source: one.reason for one in explain(BATCH).rejected}
    assert list(reasons) == ["explicit", "ddpkit", "torch", "slurm", "mpi"]
    assert "SLURM_NTASKS=4 describes the job" in reasons["slurm"]
    assert "srun did not start this process" in reasons["slurm"]
    assert "DDPKIT_RUN is not set" in reasons["ddpkit"]


@pytest.mark.parametrize(
    ("environ", "facts", "typed"),
    [
        (BATCH, Facts(), "srun python ..."),
        (BATCH | {"SLURM_EXPORT_ENV": "NONE"}, Facts(), "srun --export=ALL python ..."),
        (BATCH | {"SLURM_HET_SIZE": "3"}, Facts(), "srun --het-group=0-2 python ..."),
        (STEP | {"SLURM_STEP_ID": "4294967290"}, Facts(), "srun python ..."),
        (BATCH | {"SLURM_STEP_ID": "-5"}, Facts(), "srun python ..."),
        (STEP, Facts(shell="zsh"), "srun --overlap python ..."),
        (without(BATCH, "SLURM_NTASKS"), Facts(), "srun python ..."),
    ],
)
def test_explain_says_what_to_type_instead(environ: dict[str, str], facts: Facts, typed: str) -> None:
    (reason,) = (one.reason for one in explain(environ, (), facts).rejected if one.source == "slurm")
    assert reason.endswith(f"for one rank per task, run: {typed}")


def test_facts_are_looked_up_in_a_step_only(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_bytes(b"n4\nn\xff2\n")
    environ = STEP | {"SLURM_HOSTFILE": str(path), "SLURM_DISTRIBUTION": "arbitrary"}
    assert gather_facts(environ) == Facts(hostfile="n4\nn\ufffd2\n")
    assert gather_facts(without(environ, "SLURM_STEP_NUM_TASKS")) == Facts()
    assert gather_facts(environ | {"SLURM_DISTRIBUTION": "block"}) == Facts()
    path.unlink()
    assert gather_facts(environ) == Facts(hostfile_error="No such file or directory")


def test_facts_are_bounded(tmp_path: Path) -> None:
    pipe, long = tmp_path / "pipe", tmp_path / "long"
    os.mkfifo(pipe)
    long.write_bytes(b"n" * (MOST_BYTES + 1))
    environ = STEP | {"SLURM_DISTRIBUTION": "arbitrary"}
    assert gather_facts(environ | {"SLURM_HOSTFILE": str(pipe)}) == Facts(hostfile_error="not a file")
    assert gather_facts(environ | {"SLURM_HOSTFILE": str(tmp_path)}).hostfile is None
    assert gather_facts(environ | {"SLURM_HOSTFILE": str(long)}) == Facts(hostfile_error="larger than 4 MiB")


def started_as(*argv: str, task_pid: str = "") -> str:
    """Start a program on a terminal, as `srun --pty` does. Returns the shell that the facts name."""
    code = "import os, sys; own = str(os.getpid()); os.environ['SLURM_TASK_PID'] = sys.argv[1] or own; "
    code += "os.execvp(sys.argv[2], sys.argv[2:])"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", code, task_pid, *argv])
    try:
        command = Path(f"/proc/{pid}/cmdline")
        wait_until(lambda: command.read_bytes().startswith(argv[0].encode() + b"\0"))  # nobody announces an exec
        return gather_facts(STEP | {"SLURM_TASK_PID": str(pid)}).shell
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc, as SLURM's tasks have it")
def test_the_shell_on_a_terminal() -> None:
    assert started_as("bash", "--norc") == "bash"
    assert started_as("bash", "--rcfile", "/dev/null", "-i") == "bash"
    assert started_as("sh") == "sh"
    assert started_as("bash", "-c", "sleep 60; true") == ""
    assert started_as("sleep", "60") == ""
    assert started_as("bash", "--norc", task_pid="1") == ""  # a container: the number is another process's
    assert gather_facts(STEP | {"SLURM_TASK_PID": "4194305"}) == Facts()  # more than any process's number


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n3\nn1\nn3\n", "n3 n1 n3"),
        ("# all\n\nn3*2, n1 # old\nn[5,4]", "n3 n3 n1 n5 n4"),
        ("n2 * 2", "n2 n2"),
        ("n2*x", "n2"),
        ("", ""),
    ],
)
def test_read_hostfile(text: str, hosts: str) -> None:
    assert read_hostfile(text, 10) == hosts.split()


def test_a_hostfile_is_read_as_far_as_needed() -> None:
    assert len(read_hostfile("n1*999999999\nn2", 4)) == 4


def test_explain_names_the_step_that_lost_to_a_torch_set() -> None:
    resolution = explain(STEP | SAME | MASTER)
    assert [one.source for one in resolution.rejected] == ["explicit", "ddpkit", "slurm"]


def test_explain_shows_what_was_seen_and_no_secret() -> None:
    seen = explain(STEP | MASTER | {"WANDB_API_KEY": "s3cret", "DDPKIT_TOKEN": "s3cret"}).seen
    assert seen["SLURM_PROCID"] == "3"
    assert seen["MASTER_ADDR"] == "n1"
    assert "s3cret" not in seen.values()


def test_the_answer_is_a_plain_value() -> None:
    env = resolve(STEP)
    assert pickle.loads(pickle.dumps(env)) == env
    assert hash(env) == hash(resolve(STEP))
    assert env != resolve(STEP | {"SLURM_JOB_ID": "72"})


def cyclic_step(rank: int, tasks: int, nodes: int) -> dict[str, str]:
    here = list(range(rank % nodes, tasks, nodes))
    return STEP | {
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_STEP_NODELIST": f"n[1-{nodes}]",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(here.index(rank)),
        "SLURM_NODEID": str(rank % nodes),
        "SLURM_GTIDS": ",".join(map(str, here)),
    }


@settings(deadline=None)  # a busy machine is no failure
@given(nodes=st.integers(1, 5), more=st.integers(0, 12))
def test_the_tasks_of_a_step_fit_together(nodes: int, more: int) -> None:
    tasks = nodes + more
    envs = [resolve(cyclic_step(rank, tasks, nodes)) for rank in range(tasks)]
    assert [env.rank for env in envs] == list(range(tasks))
    assert len({(env.master_addr, env.master_port, env.world_size, env.num_nodes) for env in envs}) == 1
    assert len({(env.node_rank, env.local_rank) for env in envs}) == tasks
    for env in envs:
        assert env.local_world_size == sum(other.node_rank == env.node_rank for other in envs)


def test_the_port_is_the_steps_own_and_below_the_ephemeral_range() -> None:
    variants = [
        {},
        {"SLURM_JOB_ID": "72"},
        {"SLURM_STEP_ID": "1"},
        {"SLURM_RESTART_COUNT": "1"},
        {"SLURM_ARRAY_TASK_ID": "1"},
    ]
    ports = [resolve(STEP | variant).master_port for variant in variants]
    assert len(set(ports)) == len(ports)
    assert all(20000 <= port <= 32767 for port in ports)
    other_task = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_GTIDS": "0,1"}
    assert resolve(STEP | other_task).master_port == ports[0]


def test_the_port_of_mpi_differs_between_two_jobs_on_one_node() -> None:
    one, other = (resolve(OMPI_ONE_NODE | {"PMIX_NAMESPACE": name}).master_port for name in ("prterun-1", "prterun-2"))
    assert one != other
    assert all(20000 <= port <= 32767 for port in (one, other))


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", "a"),
        ("a,b", "a b"),
        ("b,a", "b a"),
        ("my-node[1-2]", "my-node1 my-node2"),
        ("a[01-03,7]b[1-2],c", "a01b1 a01b2 a02b1 a02b2 a03b1 a03b2 a7b1 a7b2 c"),
        ("r[1-2]n[3-4]", "r1n3 r1n4 r2n3 r2n4"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[099-101]", "n099 n100 n101"),
        ("n[3,1]", "n3 n1"),
        ("n[1-2]-ib", "n1-ib n2-ib"),
        ("n[1-2][3-4]", "n13 n14 n23 n24"),
        ("a[0-1]b[2,3]c[4]", "a0b2c4 a1b2c4 a0b3c4 a1b3c4"),
        (" a , b ", "a b"),
        ("", ""),
    ],
)
def test_expand_nodelist(text: str, hosts: str) -> None:
    assert expand_nodelist(text) == hosts.split()


@pytest.mark.parametrize(
    "text", ["a[", "a]", "a[[1]]", "a[1-]", "a[]", "a[2-1]", "a[x]", "a,,b", "a,", "a b", "a[1-2-3]"]
)
def test_expand_nodelist_refuses(text: str) -> None:
    with pytest.raises(EnvError) as caught:
        expand_nodelist(text)
    assert repr(text) in caught.value.message


@st.composite
def nodelists(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A node list and its hosts, made together: the expansion is known, and not computed from the text."""
    names = st.text("abcxyz-", min_size=1, max_size=5)
    texts: list[str] = []
    hosts: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        text, columns, name = "n", [], "n"  # no name begins with a dash
        for _ in range(draw(st.integers(1, 4))):
            name += (piece := draw(names))
            text += piece
            if draw(st.booleans()):
                numbers: list[str] = []
                pieces: list[str] = []
                for _ in range(draw(st.integers(1, 3))):
                    low, count, width = draw(st.integers(0, 120)), draw(st.integers(1, 5)), draw(st.integers(0, 4))
                    padded = [str(number).zfill(max(width, len(str(low)))) for number in range(low, low + count)]
                    numbers += padded
                    pieces.append(padded[0] if count == 1 else f"{padded[0]}-{padded[-1]}")
                text += f"[{','.join(pieces)}]"
                columns.append([name + number for number in numbers])
                name = ""
        texts.append(text)
        # The last bracket varies fastest, then the first, then the second.
        for *others, last in product(*reversed(columns[:-1]), columns[-1] if columns else [""]):
            hosts.append("".join([*reversed(others), last, name]))
    return ",".join(texts), hosts


STARTED_BY = {
    **{"SLURM": STEP, "Open MPI": OMPI, "MPICH": PMI, "PMI": PALS, "PALS": CRAY, "Flux": FLUX, "Kubeflow": POD},
    **{"MVAPICH": MV2, "jsrun": JSM, "ALPS": {"ALPS_APP_PE": "3"}, "PMIx": {"PMIX_RANK": "3"}},
}


@pytest.mark.parametrize("launcher", STARTED_BY)
@pytest.mark.parametrize("master", [{}, MASTER], ids=["alone", "master"])
def test_a_process_of_many_is_never_a_single_one(launcher: str, master: dict[str, str]) -> None:
    """Without one of its variables, which a container may drop, it is right or an error."""
    whole = STARTED_BY[launcher]
    for missing in ("", *(whole if len(whole) > 1 else ())):
        env = explain((without(whole, missing) if missing else whole) | master, ()).env
        assert env is None or (env.source, env.world_size) != ("single", 1), missing
        assert env is None or env.world_size == 4, missing


@settings(deadline=None)
@given(nodelists())
def test_expand_nodelist_on_any_list(made: tuple[str, list[str]]) -> None:
    text, hosts = made
    assert expand_nodelist(text) == hosts
    assert first_of_nodelist(text) == hosts[0]


def test_the_module_imports_neither_torch_nor_the_launcher() -> None:
    code = (
        "import sys, ddpkit.distributed.torch; print(sorted(name for name in sys.modules if name in "
        "('torch', 'numpy', 'asyncio', 'socket', 'subprocess', 'typer', 'fabric')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("numbers", "size"), [((64, 4), 16), ((64, 4, 2), 8), ((1, 1, 1), 1)])
def test_per_rank_batch_size(numbers: tuple[int, ...], size: int) -> None:
    assert per_rank_batch_size(*numbers) == size


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((64, 3), "63 or 66"), ((10, 4, 2), "8 or 16"), ((2, 4), "nearest divisible size is 4"), ((0, 4), "at least 1")],
)
def test_per_rank_batch_size_refuses(numbers: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        per_rank_batch_size(*numbers)
    assert all(str(number) in str(caught.value) for number in numbers)
