"""Can these ranks reach each other, does each have a device of its own, and do their sums come out right?

    scripts/test_distributed.sh 4 node1 node2            four ranks on each of two nodes, started over ssh
    torchrun --nproc-per-node 2 test_distributed.py      two processes on this machine
    srun -N2 --ntasks-per-node=4 python test_distributed.py
    python test_distributed.py                           one process

It needs PyTorch and nothing of ddpkit; where ddpkit is there, that says who a process is (then under mpirun as well).
All ranks first tell rank 0 what they have, so that a missing rank, a device used twice and a rank without one are named
before NCCL speaks. Then they add numbers, few and many, and check the sums. Rank 0 prints a table, or with --json one
object, and each problem on a line of its own, with its rank, its host and what to do.

exit codes, the same on every rank that lives: 0 all is well; 3 something is wrong; 2 an option is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

BAD = 3
NCCL_ADVICE = "NCCL_DEBUG=INFO says more; where a node has several networks: export NCCL_SOCKET_IFNAME=<interface>"
GLOO_ADVICE = "the nodes have to reach each other on any port; export GLOO_SOCKET_IFNAME=<interface> chooses a network"


@dataclass(frozen=True)
class Problem:
    """What is wrong with a rank, and what to do. A host that is not known is ''."""

    rank: int
    host: str
    problem: str
    fix: str

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        return f"test_distributed: FAILED: rank {self.rank}{where}: {self.problem}; fix: {self.fix}"


@dataclass(frozen=True)
class Place:
    """Who a process is among its peers, and where they meet."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    master_addr: str
    master_port: int


@dataclass(frozen=True)
class Report:
    """What a rank tells rank 0 before anything else."""

    rank: int
    host: str
    torch: str
    local_rank: int
    local_world_size: int
    devices: int
    device: str
    identity: str | None
    """What no other device in the world has, or None without a device."""


# ---------------------------------------------------------------- who is this?


def find_place(environ: dict[str, str]) -> Place:
    """Return who this process is. Raises ValueError."""
    try:
        from ddpkit.distributed import torch as ddp
        from ddpkit.errors import DdpkitError
    except ImportError:
        return find_place_alone(environ)
    try:
        env = ddp.resolve(environ, (), ddp.gather_facts(environ))
    except DdpkitError as error:
        raise ValueError(error.message + (f" ({error.hint})" if error.hint else "")) from None
    return Place(env.rank, env.world_size, env.local_rank, env.local_world_size, env.master_addr, env.master_port)


def find_place_alone(environ: dict[str, str]) -> Place:
    """Do the same without ddpkit: by PyTorch's variables, else by those of a SLURM step, else this is the only one."""
    seen = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if environ.get(name)]
    if "RANK" in seen or "WORLD_SIZE" in seen:
        if len(seen) < 4:
            raise ValueError(f"of PyTorch's variables only {', '.join(seen)} are set")
        rank, world = int(environ["RANK"]), int(environ["WORLD_SIZE"])
        local, width = int(environ.get("LOCAL_RANK", 0)), int(environ.get("LOCAL_WORLD_SIZE", 1))
        return Place(rank, world, local, width, environ["MASTER_ADDR"], int(environ["MASTER_PORT"]))
    # A step, and not SLURM_PROCID alone, which a job script has as well. The largest ids are those of no real step.
    if environ.get("SLURM_STEP_NUM_TASKS", "1") != "1" and int(environ.get("SLURM_STEP_ID", 0)) < 2**32 - 16:
        address = environ.get("MASTER_ADDR")
        if not address:
            show = ["scontrol", "show", "hostnames", environ["SLURM_STEP_NODELIST"]]
            address = subprocess.run(show, check=True, capture_output=True, text=True).stdout.split()[0]
        job, step = int(environ["SLURM_JOB_ID"]), int(environ["SLURM_STEP_ID"])
        port = int(environ.get("MASTER_PORT") or 20000 + (job * 16 + step % 16) % 12000)
        ids = environ["SLURM_GTIDS"].split(",")
        rank, world = int(environ["SLURM_PROCID"]), int(environ["SLURM_STEP_NUM_TASKS"])
        return Place(rank, world, int(environ["SLURM_LOCALID"]), len(ids), address, port)
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"):
        if environ.get(name, "1") != "1":
            raise ValueError(f"{name}={environ[name]} says that mpirun started it, which takes ddpkit to understand")
    return Place(0, 1, 0, 1, "127.0.0.1", 0)


def identify(index: int) -> tuple[str, str]:
    """Return a GPU's name, and what tells it from every other: its UUID, or its place in this host."""
    import torch

    properties: Any = torch.cuda.get_device_properties(index)
    identity = getattr(properties, "uuid", None)  # torch >= 2.3
    if identity is None:
        names = ("pci_domain_id", "pci_bus_id", "pci_device_id")
        pci = [getattr(properties, name, None) for name in names]
        visible = f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')} {index}"
        identity = f"{socket.gethostname()} " + (visible if None in pci else ":".join(f"{part:x}" for part in pci))
    return properties.name, str(identity)


def report(place: Place, count: int, identify: Callable[[int], tuple[str, str]]) -> Report:
    import torch

    # A rank that sees one device has been given that one; else the local rank chooses.
    index = 0 if count == 1 else place.local_rank
    name, identity = identify(index) if index < count else ("cpu", None)
    version = str(torch.__version__)
    host = socket.gethostname()
    return Report(place.rank, host, version, place.local_rank, place.local_world_size, count, name, identity)


# ---------------------------------------------------------------- what is wrong?


def find_missing(reports: dict[int, Report], world: int, seconds: float) -> list[Problem]:
    """Name the ranks that did not come; their hosts where others of the same node did, with ranks in order."""
    width = max((one.local_world_size for one in reports.values()), default=1)
    hosts = {rank // width: one.host for rank, one in reports.items() if one.local_rank == rank % width}
    fix = (
        "look at its first error; were so many processes started, and does every node reach rank 0's address and port?"
    )
    return [
        Problem(rank, hosts.get(rank // width, ""), f"did not come within {seconds:g} s", fix)
        for rank in range(world)
        if rank not in reports
    ]


def find_problems(reports: list[Report]) -> list[Problem]:
    """Say what would make NCCL fail, or the ranks differ."""
    found: list[Problem] = []
    users: dict[str, Report] = {}
    first = reports[0]
    some = next((one for one in reports if one.devices), None)
    for one in reports:

        def add(problem: str, fix: str, one: Report = one) -> None:
            found.append(Problem(one.rank, one.host, problem, fix))

        if one.torch != first.torch:
            add(f"has torch {one.torch}, rank {first.rank} on {first.host} has {first.torch}", "install the same torch")
        if one.identity is None and one.devices:
            add(
                f"local rank {one.local_rank} of {one.local_world_size}, but torch sees only {one.devices} GPUs here",
                f"start at most {one.devices} ranks on this node, or make more GPUs visible (CUDA_VISIBLE_DEVICES)",
            )
        elif one.identity is None and some:
            add(
                f"has no GPU, rank {some.rank} on {some.host} has one",
                "compare nvidia-smi and CUDA_VISIBLE_DEVICES of the two; does torch there have CUDA?",
            )
        elif one.identity in users:
            other = users[one.identity]
            add(
                f"uses the same GPU as rank {other.rank} on {other.host}: {one.device} {one.identity}",
                "start one rank per GPU, with torchrun, srun or ddpkit, and let it see its own (CUDA_VISIBLE_DEVICES)",
            )
        elif one.identity is not None:
            users[one.identity] = one
    return found


# ---------------------------------------------------------------- the ranks among themselves


class Room:
    """Where the ranks meet: a store that rank 0, or its torchrun, serves. Nothing in it waits longer than told."""

    def __init__(self, place: Place, seconds: float) -> None:
        import torch.distributed as dist

        self.told = False  # torchrun sends TERM to all as soon as one has failed: what is to be said is still said
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, self._on_term)
        loose: Any = dist  # torch's stubs leave out the stores
        patience = datetime.timedelta(seconds=seconds)
        if place.world_size == 1:
            self.store: Any = loose.HashStore()
            return
        serve = place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        options = {"is_master": serve, "timeout": patience, "wait_for_workers": False}
        store = loose.TCPStore(place.master_addr, place.master_port, place.world_size, **options)
        self.store = loose.PrefixStore("test_distributed", store)

    def _on_term(self, *_: object) -> None:
        self.told = True

    def say(self, key: str, value: object) -> None:
        self.store.set(key, json.dumps(value))

    def hear(self, keys: list[str], seconds: float) -> dict[str, Any]:
        """Return what was said under these keys, those not said in time left out."""
        heard: dict[str, Any] = {}
        until = time.monotonic() + seconds
        while True:
            for key in keys:
                if key not in heard and self.store.check([key]):
                    heard[key] = json.loads(self.store.get(key))
            if self.told:
                until, self.told = min(until, time.monotonic() + 2), False
            if len(heard) == len(keys) or time.monotonic() > until:
                return heard
            time.sleep(0.02)


def reduce(place: Place, device: Any, elements: int, rounds: int) -> float:
    """Add up over all ranks, and check the sum. Returns the seconds of one all_reduce. Raises ArithmeticError."""
    import torch
    import torch.distributed as dist

    best = float("inf")
    for _ in range(rounds):
        numbers = torch.full((elements,), float(place.rank + 1), device=device)
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        dist.all_reduce(numbers)
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
        wanted = place.world_size * (place.world_size + 1) / 2
        wrong = int((numbers != wanted).sum())
        if wrong:
            raise ArithmeticError(f"{wrong} of {elements} sums are not {wanted:g}")
    return best


def measure(place: Place, room: Room, backend: str, mib: int, seconds: float, advice: str) -> dict[str, Any]:
    """Start the group and add. Returns this rank's times, or what was wrong."""
    import torch
    import torch.distributed as dist

    device = torch.device("cpu")
    if backend == "nccl":
        index = 0 if torch.cuda.device_count() == 1 else place.local_rank
        device = torch.device("cuda", index)
        torch.cuda.set_device(device)
    doing = f"starting {backend}"

    def late() -> None:  # a collective of NCCL that hangs comes back in no other way
        room.say(f"done {place.rank}", {"problem": f"no answer after {seconds:g} s of {doing}", "fix": advice})
        os._exit(BAD)

    watchdog = threading.Timer(seconds + 5, late)
    watchdog.daemon = True
    watchdog.start()
    try:
        loose: Any = dist
        options: dict[str, Any] = {"rank": place.rank, "world_size": place.world_size}
        options["timeout"] = datetime.timedelta(seconds=seconds)
        dist.init_process_group(backend, store=loose.PrefixStore("group", room.store), **options)
        doing = "a small all_reduce"
        small = reduce(place, device, 1, 3)
        doing = f"an all_reduce of {mib} MiB"
        large = reduce(place, device, mib * 2**18, 3)
    except Exception as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return {"problem": f"{doing}: {said}", "fix": advice}
    finally:
        watchdog.cancel()
    # The bandwidth that the busiest wire needs in a ring, as nccl-tests count it.
    moved = mib * 2**20 * 2 * (place.world_size - 1) / place.world_size
    return {"small_ms": small * 1e3, "large_ms": large * 1e3, "gb_per_s": moved / large / 1e9}


def find_failures(done: dict[int, dict[str, Any]], reports: list[Report]) -> list[Problem]:
    """Ranks that are gone come alone: what the others say is that they are gone."""
    gone = [one for one in reports if one.rank not in done]
    if gone:
        fix = "look at its own last lines, and in dmesg there for one that was killed"
        return [Problem(one.rank, one.host, "ended, or hung, while the ranks added", fix) for one in gone]
    answers = [(one, done[one.rank]) for one in reports]
    return [Problem(one.rank, one.host, got["problem"], got["fix"]) for one, got in answers if "problem" in got]


# ---------------------------------------------------------------- what rank 0 prints


def table(reports: list[Report], done: dict[int, dict[str, Any]], mib: int) -> str:
    rows = [("rank", "host", "device", "small", f"{mib} MiB", "bandwidth")]
    for one in reports:
        got = done.get(one.rank, {})
        times = ("-", "-", "-")
        if "small_ms" in got:
            times = (f"{got['small_ms']:.2f} ms", f"{got['large_ms']:.1f} ms", f"{got['gb_per_s']:.2f} GB/s")
        rows.append((str(one.rank), one.host, one.device, *times))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join("  ".join(row[i].ljust(widths[i]) for i in range(6)).rstrip() for row in rows)


def tell(
    as_json: bool,
    problems: list[Problem],
    reports: list[Report],
    done: dict[int, dict[str, Any]],
    backend: str,
    mib: int,
) -> None:
    if as_json:
        ranks = [asdict(one) | done.get(one.rank, {}) for one in reports]
        listed = [asdict(problem) for problem in problems]
        print(json.dumps({"ok": not problems, "backend": backend, "mib": mib, "ranks": ranks, "problems": listed}))
        return
    if reports:
        print(table(reports, done, mib))
    for problem in problems:
        print(problem)
    if not problems:
        hosts = len({one.host for one in reports})
        ranks_on = f"{len(reports)} rank{'s' * (len(reports) > 1)} on {hosts} host{'s' * (hosts > 1)}"
        print(f"test_distributed: ok: {ranks_on}, {backend}, torch {reports[0].torch}")


def examine(place: Place, args: argparse.Namespace, identify: Callable[[int], tuple[str, str]]) -> int:
    """Do what this rank has to do. Returns the exit code, the same on all ranks."""
    import torch

    seconds, everybody = args.timeout, range(place.world_size)
    host, where = socket.gethostname(), f"{place.master_addr}:{place.master_port}"
    try:
        room = Room(place, seconds)
        own = report(place, torch.cuda.device_count() if args.devices is None else args.devices, identify)
        room.say(f"here {place.rank}", asdict(own))
        plan: dict[str, Any] = {}
        if place.rank == 0:
            heard = room.hear([f"here {rank}" for rank in everybody], seconds)
            reports = {rank: Report(**heard[f"here {rank}"]) for rank in everybody if f"here {rank}" in heard}
            listed = [reports[rank] for rank in sorted(reports)]
            problems = find_missing(reports, place.world_size, seconds) or find_problems(listed)
            backend = "nccl" if all(one.identity for one in listed) else "gloo"
            plan = {"backend": backend, "go": not problems}
            room.say("plan", plan)
        else:
            plan = room.hear(["plan"], seconds + 10).get("plan", {})
            if not plan:
                fix = "look at what rank 0 says"
                print(Problem(place.rank, host, f"rank 0 at {where} does not go on", fix), file=sys.stderr)
                return BAD
        done: dict[int, dict[str, Any]] = {}
        if plan["go"]:
            advice = NCCL_ADVICE if plan["backend"] == "nccl" else GLOO_ADVICE
            mine = measure(place, room, plan["backend"], args.mib, seconds, advice)
            room.say(f"done {place.rank}", mine)
            if place.rank == 0:
                # Those who do not answer soon after this rank has failed are gone.
                heard = room.hear([f"done {rank}" for rank in everybody], 5 if "problem" in mine else seconds + 10)
                done = {rank: heard[f"done {rank}"] for rank in everybody if f"done {rank}" in heard}
                problems = find_failures(done, listed)
        if place.rank == 0:
            tell(args.json, problems, listed, done, plan["backend"], args.mib)
            sys.stdout.flush()
            room.say("over", bool(problems))
            # The store may end with this process: those who are there read it before.
            room.hear([f"read {one.rank}" for one in listed if one.rank], 5 if not problems else 2)
            return BAD if problems else 0
        over = room.hear(["over"], seconds + 20)
        room.say(f"read {place.rank}", True)
        return BAD if over.get("over", True) else 0
    except (RuntimeError, OSError) as error:  # of the store
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        taken = "EADDRINUSE" in said or "address already in use" in said
        if place.rank == 0:
            problem = f"cannot listen at {where}: {said}"
            fix = (
                "take another port: export MASTER_PORT=<free port>" if taken else "is this an address of rank 0's host?"
            )
        else:
            problem = f"does not reach rank 0 at {where}: {said}"
            fix = f"is rank 0 running, and does `nc -vz {place.master_addr} {place.master_port}` reach it from here?"
        print(Problem(place.rank, host, problem, fix), file=sys.stderr)
        return BAD


def main(argv: list[str], identify: Callable[[int], tuple[str, str]] = identify, devices: int | None = None) -> int:
    """Run as one rank. `identify` and `devices` stand in for GPUs that are not there, for tests."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("test_distributed.py", description=__doc__, formatter_class=style)
    parser.add_argument("--timeout", type=float, default=30, metavar="SECONDS", help="for each step (default: 30)")
    parser.add_argument("--mib", type=int, default=64, help="the size of the large all_reduce (default: 64)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    args = parser.parse_args(argv)
    if not args.timeout > 0 or args.mib < 1:
        parser.error("--timeout and --mib have to be greater than 0")
    args.devices = devices
    try:
        place = find_place(dict(os.environ))
    except (ValueError, KeyError, OSError, subprocess.CalledProcessError) as error:
        fix = "start it with torchrun, srun, ddpkit or scripts/test_distributed.sh, or unset what is left over"
        print(Problem(int(os.environ.get("RANK") or 0), socket.gethostname(), str(error), fix), file=sys.stderr)
        return BAD
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # what the store tries in vain is said here, once
    try:
        import torch.distributed as dist
    except ImportError as error:
        fix = "start it with the Python that has torch"
        print(Problem(place.rank, socket.gethostname(), f"{sys.executable}: {error}", fix), file=sys.stderr)
        return BAD
    if not dist.is_available():
        fix = "install a build with it"
        print(Problem(place.rank, socket.gethostname(), "this torch has no torch.distributed", fix), file=sys.stderr)
        return BAD
    return examine(place, args, identify)


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit(): a thread of gloo that still runs while the interpreter is being torn down can abort (torch 2.13).
    os._exit(exit_code)
