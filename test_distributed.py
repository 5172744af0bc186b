"""Can these ranks reach each other, does each have a device of its own, and do their sums come out right?

    scripts/test_distributed.sh 4 node1 node2            four ranks on each of two nodes, started over ssh
    torchrun --nproc-per-node 2 test_distributed.py      two processes on this machine
    srun -N2 --ntasks-per-node=4 python test_distributed.py
    python test_distributed.py                           one process

It needs PyTorch and nothing of ddpkit; where ddpkit is there, that says who a process is (then under mpirun as well).
All ranks first tell rank 0 what they have, so that a missing rank, a device used twice and a rank without one are named
before NCCL speaks. Then they add numbers, few and many, over gloo and (where each has a GPU) NCCL, and check the sums;
with --speed each also works alone, so that a slow one shows. Each step ends within --timeout. Rank 0 prints a table, or
with --json one object, and each problem on a line of its own, with its rank, its host and what to do.

exit codes, the same on every rank that lives: 0 all is well; 3 something is wrong; 2 an option is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import inspect
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
# `ddpkit test` starts these ranks with DDPKIT_EVENTS=1 and reads lines that begin so; then nothing else is printed.
EVENT = "\x1eddpkit "
# What a rank says when another one is to blame. The first that fails has other words.
CONSEQUENCES = ("closed by peer", "reset by peer", "roken pipe", "ncclRemoteError", "Application timeout caused pair")
MOST_ROUNDS = 16  # in which every node meets another one
PAIR_SECONDS = 1.5  # for two ranks that add alone; thrice that is spent on it
NCCL_ADVICE = "NCCL_DEBUG=INFO says more; where a node has several networks: export NCCL_SOCKET_IFNAME=<interface>"
GLOO_ADVICE = "the nodes have to reach each other on any port; export GLOO_SOCKET_IFNAME=<interface> chooses a network"


@dataclass(frozen=True)
class Problem:
    """What is wrong with a rank, and what to do. A host that is not known is ''."""

    rank: int
    host: str
    problem: str
    fix: str
    check: str = "ranks"  # ranks, gpu-map, gloo, nccl, speed
    level: str = "fail"  # or warn
    cause: str = ""

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        word = "FAILED" if self.level == "fail" else "warning"
        return f"test_distributed: {word}: rank {self.rank}{where}: {self.problem}; fix: {self.fix}"


def emit(kind: str, **event: object) -> None:
    """Tell the launcher, where one listens: one line, written at once, so that no other rank's can mix with it."""
    if os.environ.get("DDPKIT_EVENTS") == "1":
        sys.stdout.flush()
        os.write(1, (EVENT + json.dumps({"e": kind, **event}) + "\n").encode())


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
    nccl: bool = True  # torch has it


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
    nccl = torch.distributed.is_nccl_available()
    return Report(place.rank, host, version, place.local_rank, place.local_world_size, count, name, identity, nccl)


# ---------------------------------------------------------------- what is wrong?


def find_missing(reports: dict[int, Report], world: int, seconds: float) -> list[Problem]:
    """Name the ranks that did not come; their hosts where others of the same node did, with ranks in order."""
    width = max((one.local_world_size for one in reports.values()), default=1)
    hosts = {rank // width: one.host for rank, one in reports.items() if one.local_rank == rank % width}
    fix = (
        "look at its first error; were so many processes started, and does every node reach rank 0's address and port?"
    )
    # Each of them has come, or has not: what `monitored_barrier` would find out needs a group first.
    return [
        Problem(rank, hosts.get(rank // width, ""), f"did not come within {seconds:.0f} s", fix)
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

        def add(problem: str, fix: str, one: Report = one, check: str = "gpu-map") -> None:
            found.append(Problem(one.rank, one.host, problem, fix, check))

        if one.local_world_size != first.local_world_size and one.local_rank == 0:
            text = f"{one.local_world_size} ranks on this node, {first.local_world_size} on {first.host}"
            cause = "the world is smaller or larger than nodes times ranks; code that divides by it is wrong"
            fix = "give every node as many ranks, if that was not meant"
            found.append(Problem(one.rank, one.host, text, fix, "ranks", "warn", cause))
        if one.devices and not one.nccl:
            text, fix = f"torch {one.torch} has no NCCL, and there are GPUs", "install a build of torch with CUDA"
            add(text, fix, check="nccl")
        if one.torch != first.torch:
            text = f"has torch {one.torch}, rank {first.rank} on {first.host} has {first.torch}"
            add(text, "install the same torch", check="ranks")
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


class Late(RuntimeError):  # noqa: N818
    """Something took longer than it may."""


def find_store(place: Place, seconds: float) -> None:
    """Wait until somebody listens where rank 0 should. Raises OSError. The store itself would say less, and later."""
    until = time.monotonic() + seconds
    while True:
        try:
            left = max(0.1, until - time.monotonic())
            socket.create_connection((place.master_addr, place.master_port), left).close()
            return
        except socket.gaierror as error:
            raise OSError(f"{place.master_addr}: {error.strerror}") from None
        except OSError as error:
            if time.monotonic() + 0.2 > until:
                said = "no answer" if isinstance(error, socket.timeout) else error.strerror or error
                raise OSError(f"{said}, for {seconds:.0f} s") from None
        time.sleep(0.1)


class Room:
    """Where the ranks meet: a store that rank 0, or its torchrun, serves. Nothing in it waits longer than told."""

    def __init__(self, place: Place, seconds: float) -> None:
        import torch.distributed as dist

        self.told = False  # torchrun sends TERM to all as soon as one has failed: what is to be said is still said
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, self._on_term)
        self._loose: Any = dist  # torch's stubs leave out the stores
        self._place, self._seconds = place, seconds
        if place.world_size == 1:
            self.store: Any = self._loose.HashStore()
            return
        serve = place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        if not serve:
            find_store(place, seconds)
        self.store = within(seconds + 2, lambda: self._connect(serve))
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        if within(seconds, lambda: self.store.add(f"rank {place.rank} {attempt}", 1)) > 1:
            raise ValueError("another process is this rank as well: two launchers, or two jobs, meet at one address")

    def _connect(self, serve: bool) -> Any:
        place, patience = self._place, datetime.timedelta(seconds=self._seconds)
        options = {"is_master": serve, "timeout": patience, "wait_for_workers": False}
        store = self._loose.TCPStore(place.master_addr, place.master_port, place.world_size, **options)
        return self._loose.PrefixStore("test_distributed", store)

    def corner(self, name: str) -> Any:
        """A store for a group, by a connection of its own: a group that waits in it keeps no other from it."""
        store = self.store if self._place.world_size == 1 else self._connect(False)
        return self._loose.PrefixStore(name, store)

    def _on_term(self, *_: object) -> None:
        self.told = True

    def say(self, key: str, value: object) -> None:
        within(self._seconds, lambda: self.store.set(key, json.dumps(value)))

    def hear(self, keys: list[str], seconds: float) -> dict[str, Any]:
        """Return what was said under these keys, those not said in time left out. Raises Late: the store is silent."""
        heard: dict[str, Any] = {}

        def listen() -> None:
            until = time.monotonic() + seconds
            while True:
                for key in keys:
                    if key not in heard and self.store.check([key]):
                        heard[key] = json.loads(self.store.get(key))
                if self.told:
                    until, self.told = min(until, time.monotonic() + 2), False
                if len(heard) == len(keys) or time.monotonic() > until:
                    return
                time.sleep(0.01)

        within(seconds + 2, listen)
        return heard

    def gather(self, topic: str, ranks: list[int], seconds: float) -> dict[int, Any]:
        """Return what these ranks said on a topic, by rank."""
        heard = self.hear([f"{topic} {rank}" for rank in ranks], seconds)
        return {rank: heard[f"{topic} {rank}"] for rank in ranks if f"{topic} {rank}" in heard}


def within(seconds: float, function: Callable[[], Any]) -> Any:
    """Return what a function does, or raise Late. One that hangs in a library comes back in no other way."""
    ended: list[Any] = []

    def work() -> None:
        try:
            ended.append((function(), None))
        except BaseException as error:
            ended.append((None, error))

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(seconds)
    if not ended:
        raise Late(f"no answer for {seconds:.0f} s")
    value, error = ended[0]
    if error is not None:
        raise error
    return value


def reduce(place: Place, device: Any, elements: int, seconds: float, group: Any = None) -> float:
    """Add up over all ranks, thrice, once if that takes long. Returns the seconds of the fastest.

    Raises ArithmeticError. The numbers differ along the way: a piece in the wrong place is a wrong sum.
    """
    import torch
    import torch.distributed as dist

    best = float("inf")
    along = torch.arange(elements, device=device, dtype=torch.float32) % 251
    wanted = along * place.world_size + sum(rank % 16 + 1 for rank in range(place.world_size))
    for _ in range(3):
        numbers = along + (place.rank % 16 + 1)
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        dist.all_reduce(numbers, group=group)
        if device.type == "cuda":
            torch.cuda.synchronize()
        took = time.perf_counter() - began
        best = min(best, took)
        wrong = int((numbers != wanted).sum())
        if wrong:
            at = int((numbers != wanted).nonzero()[0])
            said = f"the first, {at}, is {numbers[at].item():g} and not {wanted[at].item():g}"
            raise ArithmeticError(f"{wrong} of {elements} sums are wrong: {said}")
        # All ranks have to agree on how often they add; they agree on the slowest.
        slow = torch.tensor([float(took > seconds / 8)], device=device)
        dist.all_reduce(slow, group=group)
        if slow.item():
            break
    return best


class Adding:
    """The steps of one backend. What it was doing last is what failed."""

    def __init__(self, place: Place, room: Room, backend: str, mib: int, seconds: float) -> None:
        self.place, self.room, self.backend, self.mib, self.seconds = place, room, backend, mib, seconds
        self.doing = f"starting {backend}"

    def start(self) -> Any:
        """Make the backend's group the only one. Returns the device that it works on."""
        import torch
        import torch.distributed as dist

        device: Any = torch.device("cpu")
        more: dict[str, Any] = {}
        if self.backend == "nccl":
            device = torch.device("cuda", 0 if torch.cuda.device_count() == 1 else self.place.local_rank)
            torch.cuda.set_device(device)
            if "device_id" in inspect.signature(dist.init_process_group).parameters:  # torch >= 2.3
                more["device_id"] = device
        if dist.is_initialized():
            dist.destroy_process_group()
        more |= {"store": self.room.corner(self.backend), "rank": self.place.rank, "world_size": self.place.world_size}
        dist.init_process_group(self.backend, timeout=datetime.timedelta(seconds=self.seconds), **more)
        return device

    def work(self) -> dict[str, Any]:
        import torch
        import torch.distributed as dist

        place = self.place
        device = self.start()
        self.doing = "a small all_reduce"
        small = reduce(place, device, 1, self.seconds)
        self.doing = f"an all_reduce of {self.mib} MiB"
        large = reduce(place, device, self.mib * 2**18, self.seconds)
        if self.backend == "nccl":
            # As many programs do, for what processors have to tell each other.
            self.doing = "gloo beside NCCL"
            patience = datetime.timedelta(seconds=self.seconds)
            reduce(place, torch.device("cpu"), 1, self.seconds, dist.new_group(backend="gloo", timeout=patience))
        # The bandwidth that the busiest wire needs in a ring, as nccl-tests count it.
        moved = self.mib * 2**20 * 2 * (place.world_size - 1) / place.world_size
        return {"small_ms": small * 1e3, "large_ms": large * 1e3, "gb_per_s": moved / large / 1e9}


def measure(place: Place, room: Room, backend: str, mib: int, seconds: float, advice: str) -> dict[str, Any]:
    """Start the group and add. Returns this rank's times, or what was wrong."""
    adding = Adding(place, room, backend, mib, seconds)
    try:
        return dict(within(seconds, adding.work))
    except Late:
        return {"problem": f"no answer after {seconds:.3g} s of {adding.doing}", "fix": advice, "late": True}
    except Exception as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return {"problem": f"{adding.doing}: {said}", "fix": advice}


def add_in_pair(place: Place, room: Room, other: int, name: str, seconds: float) -> str:
    """Add over gloo with one other rank alone. Returns what was wrong; empty: nothing."""
    import torch
    import torch.distributed as dist

    doing = ["connecting"]

    def work() -> None:
        patience = datetime.timedelta(seconds=seconds)
        loose: Any = dist
        group = loose.ProcessGroupGloo(room.corner(name), int(place.rank > other), 2, patience)
        for elements, size in ((1, "4 bytes"), (1 << 17, "512 KiB")):
            doing.append(f"{size} do not pass, and {doing[-1]} did" if len(doing) > 1 else f"{size} do not pass")
            numbers = torch.ones(elements)
            group.allreduce([numbers]).wait()
            doing[-1] = size

    try:
        within(seconds, work)
    except Late:
        return doing[-1] if len(doing) > 1 else "they do not connect"
    except Exception as error:
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ""


def find_rounds(ranks: list[int]) -> list[list[tuple[int, int]]]:
    """Return rounds in which each rank meets one other, until each has met all: a tournament."""
    places: list[int | None] = [*ranks, *([None] if len(ranks) % 2 else [])]
    rounds = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]), strict=True)
        rounds.append([(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None])
        places = [places[0], places[-1], *places[1:-1]]
    return rounds


def find_apart(tried: dict[tuple[int, int], str], reports: list[Report], advice: str) -> list[Problem]:
    """Name a rank that gets on with nobody, else each pair. `tried`: what was wrong with a pair, or empty."""
    hosts = {one.rank: one.host for one in reports}
    bad = {pair: text for pair, text in tried.items() if text}
    found = []
    while bad:
        often = {rank: sum(rank in pair for pair in bad) for pair in bad for rank in pair}
        rank = max(often, key=lambda one: (often[one], one))
        met = [pair for pair in tried if rank in pair]
        if often[rank] > 1 and all(tried[pair] for pair in met):
            text = next(text for pair, text in bad.items() if rank in pair)
            said = f"does not get on with any other: {text}"
            cause = "its name, its interface, or its firewall"
            found.append(Problem(rank, hosts[rank], said, advice, "gloo", "fail", cause))
            bad = {pair: text for pair, text in bad.items() if rank not in pair}
            continue
        pair, text = next((pair, text) for pair, text in bad.items() if rank in pair)
        other = pair[0] if pair[1] == rank else pair[1]
        rest = "; all other pairs get on" if len(tried) > 1 and sum(map(bool, tried.values())) == 1 else ""
        said = f"does not get on with rank {other} on {hosts[other]}: {text}{rest}"
        some = "and 4 bytes did" in text
        cause = "what is small passes, what is large is lost: an MTU, a cable, a filter" if some else ""
        ping = f"ssh {hosts[rank]} ping -c 2 -M do -s 1472 {hosts[other]}"
        fix = f"{ping} shows it: mend the path, lower its MTU, or leave one of the two out" if some else advice
        found.append(Problem(rank, hosts[rank], said, fix, "gloo", "fail", cause))
        del bad[pair]
    return found


def work_alone(place: Place, gpu: bool) -> dict[str, float]:
    """Return the seconds of a matrix product and of a copy: the best of several, as others may use this machine."""
    import torch

    device = torch.device("cuda", 0 if torch.cuda.device_count() == 1 else place.local_rank) if gpu else None
    size, kind = (8192, torch.float16) if gpu else (384, torch.float32)
    # The processor's own time, where there is one: that others use it as well is no fault of it.
    clock = time.perf_counter if gpu else time.thread_time
    before = torch.get_num_threads()
    if not gpu:
        torch.set_num_threads(1)
    factor = torch.ones((size, size), dtype=kind, device=device)
    block = torch.ones((16 if gpu else 4) << 20, dtype=torch.float32, pin_memory=gpu)

    def best(function: Callable[[], object]) -> float:
        found = float("inf")
        for _ in range(8):
            began = clock()
            function()
            if gpu:
                torch.cuda.synchronize()
            found = min(found, clock() - began)
        return found

    answer = {"gemm": best(lambda: factor @ factor), "copy": best(lambda: block.to(device) if gpu else block.clone())}
    torch.set_num_threads(before)
    return answer


def tell_of_node(place: Place, smi: bool) -> dict[str, Any]:
    """Say what this node is. The programs for it came with this one."""
    inventory, probe = importlib.import_module("inventory"), importlib.import_module("probe")

    look = probe.look(".", None, sys.executable, {}, None, True)
    probe.close()
    torch_folder = (look["torch"] or {}).get("place")
    places = {"tmp": look["tmp"], "shm": "/dev/shm", "workdir": look["workdir"]}
    names = [place.master_addr] if place.master_addr else []
    emit("facts", look=look, facts=inventory.gather(places, names, torch_folder, smi))
    return dict(look)


class Telling:
    """`tell_of_node` beside the import of torch, which takes longer; a hung driver keeps no rank from coming."""

    def __init__(self, place: Place, smi: bool) -> None:
        self._look: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, args=(place, smi), daemon=True)
        self._thread.start()

    def _run(self, place: Place, smi: bool) -> None:
        try:
            self._look = tell_of_node(place, smi)
        except Exception as error:  # what cannot be looked at is not known, and no failure
            emit("unknown", host=socket.gethostname(), why=f"{type(error).__name__}: {error}")

    def answer(self, seconds: float) -> dict[str, Any]:
        self._thread.join(seconds)
        return self._look


def compare_nodes(
    room: Room, place: Place, reports: list[dict[str, Any]], seconds: float, look: dict[str, Any]
) -> dict[str, Any]:
    """Try, from one rank of each node, every other node's addresses and clock. For a launcher that cannot do it itself.

    Returns {"host", "said": {host: {address: what went wrong}}, "behind": [least, most]}: by how many seconds this
    node's clock is ahead of rank 0's. Needs `probe`, which the launcher sends along.
    """
    leaders = [one["rank"] for one in reports if one["local_rank"] == 0]
    if place.rank not in leaders:
        return {}
    probe = importlib.import_module("probe")
    own = {**probe.listen(None), "host": socket.gethostname(), "addresses": [], "own_name": []}
    own.update({name: look[name] for name in ("host", "addresses", "own_name") if name in look})
    room.say(f"at {place.rank}", own)
    others = room.gather("at", leaders, seconds)
    targets, whose = [], []
    for rank, other in others.items():
        named = [name for name in other["own_name"] if not name.startswith("127.")]
        for name in dict.fromkeys([*named, *(address for _, address in other["addresses"])]):
            if rank != place.rank:
                targets.append([name, other["high_port"], other["secret"]])
                whose.append(other["host"])
    said: dict[str, dict[str, str]] = {}
    for index, answer in enumerate(probe.reach(targets, min(2.0, seconds))):
        said.setdefault(whose[index], {})[targets[index][0]] = answer[1]
    behind = compare_clocks(room, place, leaders, seconds)
    room.say(f"tried {place.rank}", True)
    room.gather("tried", leaders, seconds)  # they try us as well
    probe.close()
    return {"host": own["host"], "said": said, "behind": behind}


def compare_clocks(room: Room, place: Place, leaders: list[int], seconds: float) -> list[float]:
    """Return by how many seconds this node's clock is ahead of the first's, at least and at most."""
    if place.rank == leaders[0]:
        asked = {f"ask {rank}" for rank in leaders[1:]}
        until = time.monotonic() + seconds
        while asked and time.monotonic() < until:
            # Whoever asks first is told first: what lies between is what the answer does not know.
            for key in room.hear(sorted(asked), 0.0):
                room.say(key.replace("ask", "clock"), time.time())
                asked.remove(key)
        return [0.0, 0.0]
    before = time.time()
    room.say(f"ask {place.rank}", True)
    theirs = room.hear([f"clock {place.rank}"], seconds).get(f"clock {place.rank}")
    return [0.0, 0.0] if theirs is None else [before - theirs, time.time() - theirs]


def find_slow(done: dict[int, dict[str, Any]], reports: list[Report], gpu: bool) -> list[Problem]:
    """Name ranks that are much slower than the middle one. GPUs of one kind differ little; processors are shared."""
    bound = 1.15 if gpu else 2.5
    found = []
    for what, word in (("gemm", "a matrix product"), ("copy", "a copy to the GPU" if gpu else "a copy in memory")):
        times = sorted(one[what] for one in done.values() if what in one)
        if len(times) < 2:
            continue
        middle = times[(len(times) - 1) // 2]
        for one in reports:
            own = done.get(one.rank, {}).get(what, 0.0)
            if own > bound * middle:
                text = f"{word} takes {own * 1e3:.1f} ms, {own / middle:.1f} times as long as on the others"
                fix = "look for heat, throttling and other users there: nvidia-smi -q -d PERFORMANCE"
                found.append(Problem(one.rank, one.host, text, fix if gpu else "top, lscpu there", "speed", "warn"))
    return found


def find_failures(done: dict[int, dict[str, Any]], reports: list[Report], check: str = "gloo") -> list[Problem]:
    """Ranks that are gone come alone: what the others say is that they are gone. So do those that know a reason."""
    gone = [one for one in reports if one.rank not in done]
    if gone:
        fix = "look at its own last lines, and in dmesg there for one that was killed"
        said = "ended, or hung, while the ranks added"
        return [Problem(one.rank, one.host, said, fix, check, cause="it says nothing any more") for one in gone]
    answers = [(one, done[one.rank]) for one in reports if "problem" in done[one.rank]]
    known = [each for each in answers if not each[1].get("late")]
    first = [each for each in known if not any(words in each[1]["problem"] for words in CONSEQUENCES)]
    return [Problem(one.rank, one.host, got["problem"], got["fix"], check) for one, got in first or known or answers]


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


def tell(as_json: bool, problems: list[Problem], exam: Exam) -> None:
    if os.environ.get("DDPKIT_EVENTS") == "1":
        return
    reports, failed = exam.reports, [one for one in problems if one.level == "fail"]
    if as_json:
        ranks = [asdict(one) | exam.done.get(one.rank, {}) for one in reports]
        listed = [asdict(problem) for problem in problems]
        shown = {"ok": not failed, "backend": exam.backend, "mib": exam.args.mib, "ranks": ranks, "problems": listed}
        print(json.dumps(shown))
        return
    if reports:
        print(table(reports, exam.done, exam.args.mib))
    for problem in problems:
        print(problem)
    if not failed:
        hosts = len({one.host for one in reports})
        ranks_on = f"{len(reports)} rank{'s' * (len(reports) > 1)} on {hosts} host{'s' * (hosts > 1)}"
        print(f"test_distributed: ok: {ranks_on}, {exam.backend}, torch {reports[0].torch}")


# ---------------------------------------------------------------- the steps, in order


class Exam:
    """One rank's part. Rank 0 hears the others after every step, judges, and says whether to go on."""

    def __init__(self, place: Place, args: argparse.Namespace, room: Room) -> None:
        self.place, self.args, self.room = place, args, room
        self.everybody = list(range(place.world_size))
        self.reports: list[Report] = []
        self.problems: list[Problem] = []  # rank 0 only, as the next two
        self.done: dict[int, dict[str, Any]] = {}
        self.alive: list[int] = []
        self.backend = "gloo"
        self.plan: dict[str, Any] = {}

    def meet(self, own: Report) -> dict[str, Any]:
        """Tell rank 0 what this rank is. Returns what is to be done."""
        seconds = self.args.meeting
        self.room.say(f"here {self.place.rank}", asdict(own))
        emit("here", **asdict(own), waits=seconds)
        if self.place.rank:
            self.plan = self.told("plan", seconds + 3)
            self.reports = [Report(**said) for said in self.plan["reports"]]
            return self.plan
        heard = self.room.gather("here", self.everybody, seconds)
        reports = {rank: Report(**said) for rank, said in heard.items()}
        self.reports = [reports[rank] for rank in sorted(reports)]
        self.alive = sorted(reports)
        missing = find_missing(reports, self.place.world_size, seconds)
        self.problems = missing or find_problems(self.reports)
        gpus = all(one.identity for one in self.reports)
        mapped = not any(one.check in ("gpu-map", "nccl") for one in self.problems)
        self.backend = "nccl" if gpus else "gloo"
        # Wrong GPUs do not keep the ranks from adding over gloo, so that what is wrong there is known as well.
        steps = ["gloo", *(["nccl"] if gpus and mapped else []), *(["speed"] if self.args.speed else [])]
        steps = [] if missing else ["mesh", *steps] if self.args.nodes else steps
        said = [asdict(one) for one in self.reports]
        self.plan = {"steps": steps, "gpus": gpus, "reports": said, "seconds": self.args.step}
        self.room.say("plan", self.plan)
        self.announce(self.problems)
        if not missing:
            emit("stage", stage="ranks", seconds=0)
        if gpus and mapped:
            emit("stage", stage="gpu-map", seconds=0)
        return self.plan

    def told(self, key: str, seconds: float) -> Any:
        """Return what rank 0 says. Raises Late where it says nothing, which is what is wrong then."""
        heard = self.room.hear([key], seconds)
        if key not in heard:
            raise Late(key)
        return heard[key]

    def step(self, name: str, gpus: bool) -> bool:
        """Do one step with all others. Returns whether it went well for all."""
        place, args, seconds = self.place, self.args, float(self.plan["seconds"])
        began = time.monotonic()
        if name == "mesh":
            mine = compare_nodes(self.room, place, self.plan["reports"], seconds, args.look(seconds))
        elif name == "speed":
            mine = work_alone(place, gpus)
        else:
            # Where NCCL carries the data, gloo carries little.
            mib = 1 if name == "gloo" and gpus else args.mib
            mine = measure(place, self.room, name, mib, seconds, NCCL_ADVICE if name == "nccl" else GLOO_ADVICE)
        self.room.say(f"{name} {place.rank}", mine)
        emit("did", stage=name, rank=place.rank, **mine)
        # All began together: who has not answered soon after the last moment is gone.
        most = 3 * seconds if name in ("mesh", "speed") else seconds
        left = max(0.0, began + most + 1 - time.monotonic())
        if place.rank:
            after = self.told(f"after {name}", left + 1.5)
            if after["pairs"]:
                self.pair_up()
            return bool(after["well"])
        heard = self.room.gather(name, self.everybody, left)
        self.alive = sorted(heard)
        found = []  # what the mesh has found, the launcher judges
        if name == "speed":
            found = find_slow(heard, self.reports, gpus)
        elif name != "mesh":
            found = find_failures(heard, self.reports, name)
            if not found and name == self.backend:
                self.done = heard
        well = not any(one.level == "fail" for one in found)
        # Fresh groups of gloo stand beside one that hangs. NCCL's kernels would wait behind those that hang.
        # An all_reduce does not use every pair: with more than two nodes all are tried, as other collectives do.
        several = len({one.host for one in self.reports}) > 2
        pairs = name == "gloo" and (several or not well) and len(heard) == place.world_size > 1
        self.room.say(f"after {name}", {"well": well, "pairs": pairs})
        if pairs:
            found = find_apart(self.pair_up(), self.reports, GLOO_ADVICE) or found
            well = well and not found
        self.problems += found
        self.announce(found)
        if well:
            emit("stage", stage=name, done={str(rank): said for rank, said in heard.items()})
        return well

    def pair_up(self) -> dict[tuple[int, int], str]:
        """Let one rank of each node add with one of each other node; where there is one node, its ranks."""
        first = {one.host: one.rank for one in reversed(self.reports)}
        ranks = sorted(first.values()) if len(first) > 1 else self.everybody[:MOST_ROUNDS]
        seconds = min(PAIR_SECONDS, float(self.plan["seconds"]))
        tried: dict[tuple[int, int], str] = {}
        costly = 0
        for number, pairs in enumerate(find_rounds(ranks)[:MOST_ROUNDS]):
            if self.place.rank == 0:
                self.room.say(f"round {number}", costly < 3)
            if not (costly < 3 if self.place.rank == 0 else self.told(f"round {number}", 3 * seconds + 2)):
                break
            for low, high in pairs:
                if self.place.rank in (low, high):
                    other = high if self.place.rank == low else low
                    said = add_in_pair(self.place, self.room, other, f"pair {number} {low}", seconds)
                    self.room.say(f"pair {number} {self.place.rank}", said)
            if self.place.rank == 0:
                heard = self.room.gather(f"pair {number}", [rank for pair in pairs for rank in pair], 2 * seconds)
                answers = {pair: [heard.get(rank, "no answer") for rank in pair] for pair in pairs}
                tried |= {pair: max(said, key=len) for pair, said in answers.items()}
                costly += any(tried[pair] for pair in pairs)
        return tried

    def announce(self, problems: list[Problem]) -> None:
        for problem in problems:
            emit("problem", **asdict(problem))

    def end(self) -> int:
        """Say how it was, on all ranks alike."""
        if self.place.rank:
            failed = bool(self.told("over", float(self.plan["seconds"])))
            self.room.say(f"read {self.place.rank}", True)
            return BAD if failed else 0
        tell(self.args.json, self.problems, self)
        sys.stdout.flush()
        failed = any(one.level == "fail" for one in self.problems)
        self.room.say("over", failed)
        # The store may end with this process: those who are there read it before.
        self.room.hear([f"read {rank}" for rank in self.alive if rank], 2 if failed else 5)
        return BAD if failed else 0


def refuse(problem: Problem) -> int:
    """Say why this rank does not go on. Returns its exit code."""
    emit("problem", **asdict(problem))
    if os.environ.get("DDPKIT_EVENTS") != "1":
        print(problem, file=sys.stderr)
    return BAD


def examine(place: Place, args: argparse.Namespace, identify: Callable[[int], tuple[str, str]]) -> int:
    """Do what this rank has to do. Returns the exit code, the same on all ranks."""
    import torch

    host, where = socket.gethostname(), f"{place.master_addr}:{place.master_port}"
    exam, doing = None, "ranks"
    try:
        exam = Exam(place, args, Room(place, args.meeting))
        devices = torch.cuda.device_count() if args.devices is None else args.devices
        plan = exam.meet(report(place, devices, identify))
        well = True
        for name in plan["steps"]:
            doing = name
            # What a rank does alone is worth knowing also where they do not reach each other.
            if well or name == "speed":
                well = exam.step(name, plan["gpus"]) and well
        return exam.end()
    except ValueError as error:
        return refuse(Problem(place.rank, host, str(error), "one launcher alone, and a port that no other job uses"))
    except Late:
        if exam is None:
            return refuse(Problem(place.rank, host, f"does not get on with the store at {where}", "look at rank 0"))
        hosts = {one.rank: one.host for one in exam.reports}
        text = "does not go on" if doing == "ranks" else f"ended, or hung, in the step {doing}"
        fix = "look at its own last lines, and in dmesg there if it was killed"
        found = Problem(0, hosts.get(0, ""), text, fix, doing if doing in ("gloo", "nccl", "speed") else "ranks")
        return refuse(found)
    except (RuntimeError, OSError) as error:  # of the store
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if place.rank == 0:
            taken = "EADDRINUSE" in said or "address already in use" in said.lower()
            fix = "export MASTER_PORT=<free port>" if taken else "is this an address of rank 0's host?"
            return refuse(Problem(0, host, f"cannot listen at {where}: {said}", fix))
        fix = f"is rank 0 running, and does `nc -vz {place.master_addr} {place.master_port}` reach it from here?"
        return refuse(Problem(place.rank, host, f"does not reach rank 0 at {where}: {said}", fix))


def age_of_import() -> float:
    """Return the age of the process that imported torch and forked this one; 0 where torch is not there yet."""
    if "torch" not in sys.modules or sys.platform != "linux":
        return 0.0
    try:
        with open(f"/proc/{os.getppid()}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        return min(60.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0


def main(argv: list[str], identify: Callable[[int], tuple[str, str]] = identify, devices: int | None = None) -> int:
    """Run as one rank. `identify` and `devices` stand in for GPUs that are not there, for tests."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("test_distributed.py", description=__doc__, formatter_class=style)
    parser.add_argument("--timeout", type=float, default=30, metavar="SECONDS", help="for each step (default: 30)")
    parser.add_argument("--mib", type=int, default=64, help="the size of the large all_reduce (default: 64)")
    parser.add_argument("--speed", action="store_true", help="also let each rank work alone, and name a slow one")
    parser.add_argument("--nodes", choices=("quick", "usual"), help=argparse.SUPPRESS)  # for `ddpkit test`
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    args = parser.parse_args(argv)
    if not args.timeout > 0 or args.mib < 1:
        parser.error("--timeout and --mib have to be greater than 0")
    args.devices, args.look = devices, lambda _: {}
    host = socket.gethostname()
    try:
        place = find_place(dict(os.environ))
    except (ValueError, KeyError, OSError, subprocess.CalledProcessError) as error:
        fix = "start it with torchrun, srun, ddpkit or scripts/test_distributed.sh, or unset what is left over"
        return refuse(Problem(int(os.environ.get("RANK") or 0), host, str(error), fix))
    emit("rank", rank=place.rank, host=host, nodes=os.environ.get("SLURM_STEP_NODELIST", ""))
    if args.nodes and place.local_rank == 0:
        args.look = Telling(place, args.nodes != "quick").answer
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # what the store tries in vain is said here, once
    before = age_of_import()
    began = time.monotonic()
    try:
        import torch.distributed as dist
    except Exception as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        text, fix = f"cannot import torch: {said}", f"{sys.executable} -c 'import torch' there; mend that Python"
        return refuse(Problem(place.rank, host, text, fix))
    if not dist.is_available():
        text = "this torch was built without torch.distributed"
        return refuse(Problem(place.rank, host, text, f"{sys.executable} -m pip install --force-reinstall torch"))
    took = time.monotonic() - began + before
    # Where torch takes long to import, everything does; many ranks take longer to find each other.
    pace = min(4.0, max(1.0, took / 4)) * max(1.0, place.world_size / 64)
    args.step = args.timeout * pace
    # The others may have begun to import it later, or on a slower disk: as long again, and longer where that is long.
    args.meeting = args.timeout * max(1.0, place.world_size / 64) + max(1 + took, 2 * took - 3)
    return examine(place, args, identify)


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit(): a thread of gloo that still runs while the interpreter is being torn down can abort (torch 2.13).
    os._exit(exit_code)
