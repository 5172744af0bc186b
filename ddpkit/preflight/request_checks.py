"""Checks of a request before a node is asked: a launcher in a launcher, ranks set by hand. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ddpkit.execution.job import SET_BY_DDPKIT
from ddpkit.launchers.nested import find_launcher
from ddpkit.launchers.shell import join
from ddpkit.preflight.check import Check


def check_request(
    backend: str, script: Sequence[str], env: Mapping[str, str], environ: Mapping[str, str], nnodes: int, *, slurm: bool
) -> list[Check]:
    """Findings about the request. `env`: what the user sets for ranks; `environ`: this shell's."""
    checks = [*_launcher(script, nnodes), *_set(env, nnodes), *(_slurm(environ) if slurm else ())]
    return checks or [Check(id="request", status="pass", evidence=f"backend {backend}")]


def _wrong(evidence: str, cause: str, fix: str, doc: str, status: str = "fail") -> Check:
    return Check(
        id="request", status="fail" if status == "fail" else "warn", evidence=evidence, cause=cause, fix=fix, doc=doc
    )


def _launcher(script: Sequence[str], nnodes: int) -> Iterator[Check]:
    """A launcher as the script of a launch: every rank of ours would start ranks of its own."""
    nested = find_launcher(script)
    if nested is None:
        return
    flags = {
        flag.partition("=")[0].lstrip("-").replace("-", "_"): flag.partition("=")[2]
        for flag in script
        if flag[:1] == "-"
    }
    several = nnodes > 1 or flags.get("nnodes", "1") not in ("", "1")
    if "standalone" in flags and several:
        yield _wrong(
            "--standalone with more than one node",
            "every node creates its own rendezvous and waits alone for the others",
            "remove --standalone, or let ddpkit start the ranks: -- SCRIPT ARGS",
            "standalone-many-nodes",
        )
    if several and "node_rank" not in flags and flags.get("rdzv_backend", "static") == "static":
        yield _wrong(
            "torchrun on several nodes without --node_rank",
            "the node rank is 0 on every node, and all nodes wait for 15 minutes",
            "let ddpkit start the ranks: -- SCRIPT ARGS",
            "node-rank-missing",
        )
    yield _wrong(
        f"the script is {nested.name}, a launcher itself",
        "each rank would start its own ranks, at the same address",
        nested.hint or f"ddpkit launch -- {join(nested.script or ('SCRIPT', 'ARGS'))}",
        "store-barrier-timeout",
    )


def _set(env: Mapping[str, str], nnodes: int) -> Iterator[Check]:
    """Variables that the user sets for all ranks alike."""
    for name in env:
        if name in SET_BY_DDPKIT and name != "MASTER_ADDR":
            yield _wrong(
                f"--env {name}={env[name]} is the same for every rank",
                "every rank needs its own value",
                f"remove --env {name}",
                "rank-not-set",
            )
    address = env.get("MASTER_ADDR", "")
    if re.search(r"[\[\],]", address.strip("[]") if address.count(":") > 1 else address):
        yield _wrong(
            f"MASTER_ADDR={address} is a list of nodes",
            "SLURM's list is compressed, and is not a host name",
            "remove it. To get the first host: scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1",
            "nodelist-unexpanded",
        )
    if nnodes > 1 and address in ("localhost", "127.0.0.1", "::1"):
        yield _wrong(
            f"MASTER_ADDR={address} with {nnodes} nodes",
            "every node would connect to itself",
            "remove --env MASTER_ADDR: ddpkit chooses an address that all nodes reach",
            "master-unreachable",
        )


def _slurm(environ: Mapping[str, str]) -> Iterator[Check]:
    """Contradictions between the variables of this allocation."""
    tasks, nodes = environ.get("SLURM_NTASKS", ""), environ.get("SLURM_JOB_NUM_NODES", "")
    each = environ.get("SLURM_NTASKS_PER_NODE", "")
    if tasks.isdecimal() and nodes.isdecimal() and each.isdecimal() and int(tasks) < int(nodes) * int(each):
        yield _wrong(
            f"SLURM_NTASKS={tasks}, and SLURM_NTASKS_PER_NODE={each} on {nodes} nodes",
            "the job script and the command line contradict each other. A plain srun starts too few ranks",
            f"salloc --nodes={nodes} --ntasks-per-node={each}, without --ntasks",
            "tasks-contradict",
            "warn",
        )
    gpus = environ.get("SLURM_GPUS_ON_NODE") or environ.get("SLURM_GPUS_PER_NODE", "").rpartition(":")[2]
    if tasks == "1" and gpus.isdecimal() and int(gpus) > 1:
        yield _wrong(
            f"the allocation has 1 task and {gpus} GPUs",
            "a plain srun starts one rank, which uses one GPU",
            f"ddpkit launch -b slurm -n {gpus}",
            "srun-not-used",
            "warn",
        )
