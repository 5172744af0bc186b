"""Agreement of the benchmark's ranks on a plan: each rank describes itself, rank 0 decides what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ddpkit.distributed.bench.cases import list_scopes
from ddpkit.distributed.bench.results import BenchFailure
from ddpkit.distributed.check import RankEnv, describe_rank, identify_gpu

if TYPE_CHECKING:
    Reports = Mapping[int, dict[str, Any]]  # by rank: a RankReport and the boot id


def describe_bench_rank(env: RankEnv, count: int) -> dict[str, Any]:
    """Describe this rank, and the boot id of its machine; `count` GPUs are visible."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read()  # two machines may have one name
    except OSError:
        boot = ""
    return {**asdict(describe_rank(env, count, identify_gpu)), "boot": boot}


def choose_backend(option: str, reports: Reports) -> str:
    """Return the backend of `--comm`; auto: nccl where a rank has a GPU."""
    if option != "auto":
        return option
    return "nccl" if any(one["device"] != "cpu" for one in reports.values()) else "gloo"


def name_nodes(reports: Reports) -> list[str]:
    """Return a node name per rank. Two machines of one host name get different node names."""
    machines = [(one["host"], one["boot"]) for one in reports.values()]
    ambiguous = {host for host, boot in machines if len({b for h, b in machines if h == host}) > 1}
    return [host if host not in ambiguous else f"{host}/{boot[:8]}" for host, boot in machines]


def check_ranks(reports: Reports, world_size: int, seconds: float, comm: str) -> list[BenchFailure]:
    """Return a failure for each rank that is missing or cannot use the backend."""
    fix = "read its first error; check the number of processes, and that every node reaches rank 0's address"
    missing = [rank for rank in range(world_size) if rank not in reports]
    failures = [BenchFailure(rank, "", f"did not join within {seconds:g} s", fix) for rank in missing]
    if world_size == 1:
        failures.append(BenchFailure(None, "", "the benchmark requires at least 2 ranks", "start two or more"))
    if comm != "nccl":
        return failures
    first_users: dict[str, int] = {}
    for rank, one in reports.items():
        if one["device"] == "cpu":
            fix = "start one rank per GPU; check CUDA_VISIBLE_DEVICES and nvidia-smi; --comm gloo needs no GPU"
            failures.append(BenchFailure(rank, one["host"], "torch sees no GPU for this rank", fix))
        elif one["identity"] and first_users.setdefault(one["identity"], rank) != rank:
            text = f"uses the same GPU as rank {first_users[one['identity']]}: {one['device']} {one['identity']}"
            failures.append(BenchFailure(rank, one["host"], text, "start one rank per GPU (CUDA_VISIBLE_DEVICES)"))
    if not reports[0]["nccl"]:
        failures.append(BenchFailure(0, reports[0]["host"], "this torch has no NCCL", "--comm gloo"))
    return failures


def check_scopes(names: Sequence[str], nodes: Sequence[str]) -> list[BenchFailure]:
    """Return a failure where the scopes asked for have no group of ranks."""
    if not names or list_scopes(nodes, names):
        return []
    text = f"--scope {','.join(names)}: no such group of ranks"
    fix = "use --scope world; intra needs two ranks on a node, inter and pairs need two nodes"
    return [BenchFailure(None, "", f"{text} with {len(nodes)} ranks on {len(set(nodes))} nodes", fix)]
