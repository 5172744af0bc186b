"""Can these ranks reach each other, has each a GPU of its own, and do their sums come out right? One file to copy.

    torchrun --nproc-per-node 2 test_distributed.py            two processes on this machine
    srun -N2 --ntasks-per-node=4 python test_distributed.py    a SLURM job
    mpirun -n 8 -x MASTER_ADDR=node1 python test_distributed.py
    ddpkit launch -n 2 -- test_distributed.py
    scripts/test_distributed.sh 4 node1 node2                  four ranks on each of two nodes, over ssh
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=node1 python test_distributed.py      by hand, and RANK=1 on the other node

It needs torch alone. All ranks meet within --timeout, or the missing ones are named. Then they add numbers: over NCCL
on GPUs, else over gloo. Rank 0 prints a table of ranks, and for each problem a line with rank, host, cause and fix.
Exit codes: 0 success, 1 a problem, 2 a wrong option.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

HOST = socket.gethostname()
# Rank, world size, local rank and ranks on this node, as launchers name them. In a SLURM job, mpirun is the inner one.
LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)
# What a rank says after another one has ended, or waits: not the cause.
CONSEQUENCES = ("closed by peer", "reset by peer", "roken pipe", "ncclRemoteError", "imed out", "no answer")
TERMINATED = threading.Event()  # torchrun ends all ranks after the first failure: rank 0 still reports


class CheckError(Exception):
    """A problem of this rank, and its fix."""


def find_place(env: dict[str, str]) -> tuple[int, int, int, int, str, int]:
    """Return rank, world size, local rank, ranks on this node, address and port of rank 0. Raises CheckError."""
    step = int(env.get("SLURM_STEP_ID", -1))  # the shell of a job has one of the largest numbers
    launchers = LAUNCHERS if 0 <= step < 2**32 - 16 else LAUNCHERS[:-1]
    names = next((names for names in launchers if all(env.get(name) for name in names[: 2 + (names[0] != "RANK")])), ())
    if not names:
        if left := [f"{name}={env[name]}" for names in launchers for name in names[:2] if env.get(name)]:
            raise CheckError(f"incomplete variables of a launcher: {', '.join(left)}", f"unset {left[0].split('=')[0]}")
        return 0, 1, 0, 1, "127.0.0.1", 0
    rank, world, local = (int(env.get(name) or 0) for name in names[:3])
    width = int(env.get(names[3], "1").partition("(")[0].partition(",")[0])
    address, port = env.get("MASTER_ADDR", "127.0.0.1" if width == world else ""), 29500
    if names[0] == "SLURM_PROCID":
        port = 20000 + (16 * int(env["SLURM_JOB_ID"]) + step) % 12000
        show = ["scontrol", "show", "hostnames", env["SLURM_STEP_NODELIST"]]
        address = address or subprocess.run(show, check=True, capture_output=True, text=True).stdout.split()[0]
    if not address:
        raise CheckError("MASTER_ADDR is not set", "export MASTER_ADDR=<the host of rank 0>")
    return rank, world, local, width, address, int(env.get("MASTER_PORT") or port)


def find_device(local: int) -> tuple[str, str, str]:
    """Return this rank's device, its name, and an identity that no other GPU has. Raises CheckError."""
    import torch

    count = torch.cuda.device_count()
    index = local if count > 1 else 0
    if count == 0:
        return "cpu", "cpu", ""
    if index >= count:
        raise CheckError(f"local rank {local} has no GPU, {count} are visible", f"torchrun --nproc-per-node {count}")
    try:
        torch.cuda.set_device(index)
        properties: Any = torch.cuda.get_device_properties(index)
    except Exception as error:
        raise CheckError(f"torch cannot use the GPUs: {first_line(error)}", "nvidia-smi") from None
    identity = f"{HOST} CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')} {index}"
    return f"cuda:{index}", properties.name, str(getattr(properties, "uuid", identity))  # a UUID from torch 2.3 on


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def failure(rank: int, host: str, cause: str, fix: str) -> str:
    return f"test_distributed: FAILED: rank {rank}{host and f' on {host}'}: {cause}; hint: {fix}"


def connect(rank: int, world: int, address: str, port: int, seconds: float) -> Any:
    """Return the store of rank 0, or of its torchrun. Raises CheckError."""
    import torch.distributed as dist

    torch_dist: Any = dist  # torch's stubs leave out the stores
    serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    limit = datetime.timedelta(seconds=seconds)
    try:
        store = torch_dist.TCPStore(address, port, world, serves, limit, wait_for_workers=False)
    except Exception as error:
        if not serves:
            cause = f"cannot reach rank 0 at {address}:{port} within {seconds:.0f} s"
            raise CheckError(cause, f"nc -vz {address} {port}, while rank 0 runs") from None
        fix = f"export MASTER_PORT={port + 1}, or MASTER_ADDR=<an address of {HOST}>, for all ranks"
        raise CheckError(f"cannot listen at {address}:{port}: {first_line(error)}", fix) from None
    store = torch_dist.PrefixStore(f"test_distributed {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    if store.add(f"rank {rank}", 1) > 1:
        raise CheckError("another process has the same rank", f"export MASTER_PORT={port + 1}, one for each launch")
    return store


def wait_for(store: Any, topic: str, ranks: list[int], seconds: float) -> dict[int, Any]:
    """Return what ranks have published on a topic, as far as it comes in time."""
    until, found = time.monotonic() + seconds, dict[int, Any]()
    while len(found) < len(ranks) and time.monotonic() < until:
        for rank in ranks:
            if rank not in found and store.check([f"{topic} {rank}"]):
                found[rank] = json.loads(store.get(f"{topic} {rank}"))
        if TERMINATED.is_set():
            until = min(until, time.monotonic() + 2)
        time.sleep(0.02)
    return found


def compare(reports: dict[int, dict[str, Any]]) -> list[str]:
    """Return problems that the ranks' reports show, such as a GPU that two ranks use."""
    problems, users = [], dict[str, int]()
    for rank, one in reports.items():
        if one["problem"]:
            problems.append(failure(rank, one["host"], *one["problem"]))
        elif one["gpu"] in users:
            other = users[one["gpu"]]
            cause = f"uses the same GPU as rank {other} on {reports[other]['host']}: {one['device']} {one['gpu']}"
            fix = "unset CUDA_VISIBLE_DEVICES, and start one rank for each GPU: torchrun --nproc-per-node gpu ..."
            problems.append(failure(rank, one["host"], cause, fix))
        elif one["gpu"]:
            users[one["gpu"]] = rank
        elif any(each["gpu"] for each in reports.values()):
            problems.append(failure(rank, one["host"], "has no GPU, and others have one", "nvidia-smi, on that host"))
        if one["torch"] != reports[0]["torch"]:
            cause = f"has torch {one['torch']}, and rank 0 has {reports[0]['torch']}"
            problems.append(failure(rank, one["host"], cause, f"pip install torch=={reports[0]['torch']}"))
    return problems


def add_numbers(result: dict[str, Any], store: Any, rank: int, world: int, device: str, mib: int, limit: float) -> None:
    """Sum a small and a large tensor over all ranks, each twice: the first time connects. Fills in the result."""
    import torch
    import torch.distributed as dist

    backend = "gloo" if device == "cpu" else "nccl"
    try:
        if backend == "nccl":
            torch.cuda.set_device(device)  # of this thread
        timeout = datetime.timedelta(seconds=limit)
        dist.init_process_group(backend, timeout=timeout, world_size=world, rank=rank, store=store)
        for name, count in (("small", 1), ("large", mib * 2**18), ("small", 1), ("large", mib * 2**18)):
            pattern = torch.arange(count, device=device, dtype=torch.float32) % 251
            numbers = pattern + rank + 1
            began = time.perf_counter()
            dist.all_reduce(numbers)
            wrong = int((numbers != pattern * world + world * (world + 1) / 2).sum())  # waits for the GPU
            if wrong:
                raise ArithmeticError(f"{wrong} of {count} sums are wrong")
            result[name] = time.perf_counter() - began
        result["error"] = ""
    except Exception as error:
        result["error"] = f"{backend} all_reduce: {first_line(error)}"


def judge(results: dict[int, dict[str, Any]], reports: dict[int, dict[str, Any]]) -> list[str]:
    """Return the problems of ranks that ended, else of those with a reason of their own, else of all that failed."""
    fix = "read its last lines; if it was killed: dmesg, on that host"
    ended = [failure(r, reports[r]["host"], "ended while the ranks added", fix) for r in reports if r not in results]
    failed = {rank: one["error"] for rank, one in results.items() if one["error"]}
    first = {rank: text for rank, text in failed.items() if not any(words in text for words in CONSEQUENCES)}
    name = "NCCL" if reports[0]["gpu"] else "GLOO"
    fix = f"export {name}_SOCKET_IFNAME=<interface>, one of: ip -brief addr; for details: NCCL_DEBUG=INFO"
    return ended or [failure(rank, reports[rank]["host"], text, fix) for rank, text in (first or failed).items()]


def test(place: tuple[int, int, int, int, str, int], seconds: float, mib: int) -> bool:
    """Run all steps as one rank. Returns whether all ranks succeeded. Raises CheckError, and errors of the store."""
    import torch

    rank, world, local, width, address, port = place
    own: dict[str, Any] = {"host": HOST, "torch": torch.__version__, "device": "none", "gpu": "", "problem": ()}
    device = ""
    try:
        device, own["device"], own["gpu"] = find_device(local)
    except CheckError as problem:
        own["problem"] = problem.args
    store = connect(rank, world, address, port, seconds)

    def share(topic: str, value: Any, limit: float) -> Any:
        """Pass on a value of rank 0 to all others."""
        if rank == 0:
            store.set(f"{topic} 0", json.dumps(value))
            return value
        found = wait_for(store, topic, [0], limit)
        if not found:
            raise CheckError("rank 0 does not proceed", f"read the last lines of rank 0, at {address}")
        return found[0]

    problems, reports, results = list[str](), dict[int, Any](), dict[int, Any]()
    store.set(f"report {rank}", json.dumps(own))
    share("start", True, seconds)  # rank 0 may start later, and then waits as long for the others
    if rank == 0:
        reports = dict(sorted(wait_for(store, "report", list(range(world)), seconds).items()))
        hosts = {other // width: one["host"] for other, one in reports.items()}
        cause = f"did not join within {seconds:.0f} s"
        fix = f"read its first error; on its host: nc -vz {address} {port}"
        missing = [other for other in range(world) if other not in reports]
        problems = [failure(other, hosts.get(other // width, ""), cause, fix) for other in missing] or compare(reports)
    success = share("meeting", not problems, seconds + 10)
    if success:
        result: dict[str, Any] = {"error": f"no answer after {seconds:.0f} s of an all_reduce"}
        given = (result, store, rank, world, device, mib, seconds)
        thread = threading.Thread(target=add_numbers, args=given, daemon=True)  # it may hang in a library
        thread.start()
        thread.join(seconds)
        store.set(f"result {rank}", json.dumps(result))
        if rank == 0:
            results = wait_for(store, "result", list(range(world)), 10)
            problems = judge(results, reports)
        success = share("sums", not problems, 20)
    if rank:
        store.set(f"end {rank}", "true")
        return bool(success)
    for other, one in reports.items():
        took = [f"{results[other][name] * 1e3:.1f} ms" for name in ("small", "large") if name in results.get(other, {})]
        print(f"rank {other}", one["host"], one["device"], *took, sep="  ")
    about = f"{len({one['host'] for one in reports.values()})} hosts, {'nccl' if reports[0]['gpu'] else 'gloo'}"
    print(
        "\n".join(problems) or f"test_distributed: ok: {world} ranks on {about}, torch {torch.__version__}", flush=True
    )
    wait_for(store, "end", [other for other in (results or reports) if other], 5)  # the store ends with rank 0
    return bool(success)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each step (default: 60)")
    parser.add_argument("--mib", type=int, default=64, help="size of the large all_reduce (default: 64)")
    args, rank = parser.parse_args(), os.environ.get("RANK") or 0
    if not 0 < args.timeout < 1e6 or args.mib < 1:
        parser.error("--timeout and --mib must be greater than 0")
    signal.signal(signal.SIGTERM, lambda *_: TERMINATED.set())
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # the store's failed tries are reported here, once
    try:
        place = find_place(dict(os.environ))
        rank = place[0]
        return 0 if test(place, args.timeout, args.mib) else 1
    except CheckError as problem:
        cause, fix = problem.args
    except Exception as error:
        cause, fix = f"{type(error).__name__}: {first_line(error)}", "read the last lines of rank 0, where the store is"
    print(failure(int(rank), HOST, cause, fix), file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    os._exit(main())  # not sys.exit(): a thread of gloo or NCCL may still run
