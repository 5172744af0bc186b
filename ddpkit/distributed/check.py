"""Rank program of `ddpkit test`: ranks meet, compare their devices, add numbers, and report what is wrong as events.

It needs PyTorch. All ranks first report their devices to rank 0, which finds a missing rank and a device used twice
before NCCL starts. Each step ends in time. Exit codes, the same on every rank: 0 success; 122 a check failed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from ddpkit.distributed.process_group import error_reason, takes_device
from ddpkit.distributed.resolver import DistEnv, resolve
from ddpkit.distributed.slurm_lookup import gather_facts
from ddpkit.distributed.torch import openable_gpu
from ddpkit.errors import EnvError

BAD = 122  # as PreflightError
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
# The launcher reads lines with this prefix.
EVENT = "\x1eddpkit "
# Messages of a rank that lost another rank. The rank that failed first has other messages.
CONSEQUENCES = ("closed by peer", "reset by peer", "roken pipe", "ncclRemoteError", "Application timeout caused pair")
END_OF_RANK_0 = 2.0  # seconds in which a launcher learns that rank 0 ended: its end comes before those of the others
MAX_ROUNDS = 16  # of pairs
PAIR_SECONDS = 1.5  # for one all_reduce of a pair; a pair takes three times that at most
SMI_WAIT = 40.0  # for nvidia-smi on a node without persistence mode
# Seconds for NCCL's start, apart from adding: 8 ranks take 4 to 8 without contexts and kernels. Libraries may be read
# from a file server, and without persistence mode each GPU is initialized anew.
NCCL_START = 30.0


@dataclass(frozen=True)
class RankProblem:
    """Problem of a rank. `fix` is a name in `rank_fixes.py`, `facts` are for it. A missing rank's host may be ''."""

    rank: int
    host: str
    problem: str
    fix: str
    check: str = "ranks"  # ranks, gpu-map, gloo, nccl, speed
    level: str = "fail"  # or warn
    cause: str = ""
    facts: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class RankReport:
    """Description of a rank, which it sends to rank 0 first."""

    rank: int
    host: str
    torch: str
    local_rank: int
    local_world_size: int
    devices: int
    device: str
    identity: str | None  # of the device, unique in the world; None without a device
    nccl: bool = True  # torch has it
    nccl_version: str = ""  # of the library that is loaded


def emit(kind: str, **event: object) -> None:
    """Write an event for the launcher: one line in one write, which no other rank's line can split."""
    sys.stdout.flush()
    os.write(1, (EVENT + json.dumps({"e": kind, **event}) + "\n").encode())


def emit_problems(problems: list[RankProblem]) -> None:
    """Write an event for each problem."""
    for problem in problems:
        emit("problem", **asdict(problem))


# ---------------------------------------------------------------- rank and device of this process


def identify_gpu(index: int) -> tuple[str, str]:
    """Return a GPU's name and its unique identity: the UUID, or host and PCI address."""
    import torch

    properties: Any = torch.cuda.get_device_properties(index)
    identity = getattr(properties, "uuid", None)  # torch >= 2.3
    if identity is None:
        names = ("pci_domain_id", "pci_bus_id", "pci_device_id")
        pci = [getattr(properties, name, None) for name in names]
        visible = f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')} {index}"
        identity = f"{socket.gethostname()} " + (visible if None in pci else ":".join(f"{part:x}" for part in pci))
    elif torch.version.hip:  # partitions of one GPU have its UUID
        others: list[Any] = [torch.cuda.get_device_properties(other) for other in range(torch.cuda.device_count())]
        same = [other for other, each in enumerate(others) if each.uuid == identity]
        identity = f"{identity}/{same.index(index)}" if index != same[0] else identity
    return properties.name, str(identity)


def gpu_index(env: DistEnv, count: int) -> int:
    """Return the index of this rank's GPU: 0 where only one is visible, else the resolver's, or the local rank."""
    if count == 1:
        return 0
    return env.local_rank if env.device_index is None else env.device_index


class GpuStartError(Exception):
    """No GPU starts in this process, though the node has some for it. The message is torch's own where there is one."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def count_gpus() -> int:
    """Count the GPUs of this process. Raises GpuStartError where torch cannot use those that are there.

    Without this check, such a rank runs on the CPU, or its error is taken for one of the store.
    """
    import torch

    build = "cuda" if torch.version.cuda else "hip" if torch.version.hip else ""
    try:
        count = torch.cuda.device_count()
        if count or visible_gpu(build):
            torch.cuda.init()  # type: ignore[no-untyped-call]
            count = torch.cuda.device_count()
    except Exception as error:  # RuntimeError, and torch's DeferredCudaCallError, which is none
        raise GpuStartError(error_reason(error), gpu_start_fix()) from error
    path = "" if count else visible_gpu("cuda", "hip")
    if path:
        kind = {"cuda": "CUDA", "hip": "ROCm"}.get(build, "the CPU")
        vendor = "NVIDIA" if "nvidia" in path else "AMD"
        text = f"torch {torch.__version__} is built for {kind}, and sees none ({path}, {vendor})"
        raise GpuStartError(text, f"torch-for-{vendor.lower()}")
    return count


def gpu_start_fix() -> str:
    """Return the name of commands that show why GPUs of torch's vendor do not start."""
    import torch

    return "amd" if torch.version.hip else "nvidia"


def visible_gpu(*builds: str) -> str:
    """Return a GPU's file that this process may open, for one of these builds of torch; else ''."""
    if any(os.environ.get(name, "0").strip() in ("", "-1", "NoDevFiles") for name in VISIBLE):
        return ""
    return next((path for build in builds if build and (path := openable_gpu(build))), "")


def describe_rank(env: DistEnv, count: int, identify: Callable[[int], tuple[str, str]]) -> RankReport:
    """Describe this rank; `count` GPUs are visible."""
    import torch

    index = gpu_index(env, count)
    name, identity = identify(index) if index < count else ("cpu", None)
    version, nccl = str(torch.__version__), torch.distributed.is_nccl_available()
    host, width = socket.gethostname(), env.local_world_size
    return RankReport(env.rank, host, version, env.local_rank, width, count, name, identity, nccl, loaded_nccl())


def cpu_contention(file: str = "/proc/self/schedstat") -> float:
    """Return the seconds in which this thread got one second of a processor, so far: 1.0 where it has one alone."""
    try:
        with open(file) as numbers:
            worked, waited, _ = map(int, numbers.read().split())  # nanoseconds
    except (OSError, ValueError):  # macOS, and kernels that do not count it
        return 1.0
    return 1 + waited / worked if worked else 1.0


def loaded_nccl() -> str:
    """Return the version of the loaded NCCL, which LD_LIBRARY_PATH can replace; '' where torch has none."""
    import torch

    try:
        parts = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
    except (AttributeError, RuntimeError):  # a build without NCCL
        return ""
    return ".".join(str(part) for part in parts) if isinstance(parts, tuple) else str(parts)


# ---------------------------------------------------------------- problems that the reports show


def find_missing_ranks(reports: dict[int, RankReport], world: int, seconds: float) -> list[RankProblem]:
    """Return a problem for each rank without a report; its host is known if ranks of that node reported."""
    width = max((one.local_world_size for one in reports.values()), default=1)
    hosts = {rank // width: one.host for rank, one in reports.items() if one.local_rank == rank % width}
    return [
        RankProblem(rank, hosts.get(rank // width, ""), f"did not join within {seconds:.0f} s", "join")
        for rank in range(world)
        if rank not in reports
    ]


def stages_of_reports(problems: list[RankProblem], gpus: bool) -> list[str]:
    """Return the stages that the reports of all ranks passed. `gpus`: every rank has one."""
    told_apart = gpus and not any(one.check in ("gpu-map", "nccl") for one in problems)
    return ["ranks", *(["gpu-map"] if told_apart else [])]


def compare_reports(reports: list[RankReport]) -> list[RankProblem]:
    """Return problems that would make NCCL fail, and differences between ranks."""
    problems: list[RankProblem] = []
    users: dict[str, RankReport] = {}  # the first rank that uses a GPU, by the GPU's identity
    first = reports[0]
    with_gpu = next((one for one in reports if one.devices), None)

    def add(one: RankReport, problem: str, fix: str, check: str = "gpu-map", **facts: int) -> None:
        problems.append(RankProblem(one.rank, one.host, problem, fix, check, facts=facts))

    for one in reports:
        if one.local_world_size != first.local_world_size and one.local_rank == 0:
            text = f"{one.local_world_size} ranks on this node, {first.local_world_size} on {first.host}"
            cause = "the world size is not nodes times ranks; code that divides by it is wrong"
            problems.append(RankProblem(one.rank, one.host, text, "same-number", "ranks", "warn", cause))
        if one.devices and not one.nccl:
            add(one, f"torch {one.torch} has no NCCL, and the node has GPUs", "torch-with-cuda", check="nccl")
        if one.torch != first.torch:
            text = f"has torch {one.torch}, rank {first.rank} on {first.host} has {first.torch}"
            add(one, text, "same-torch", check="ranks")
        if one.nccl_version != first.nccl_version and one.devices:
            text = f"loads NCCL {one.nccl_version}, rank {first.rank} on {first.host} loads {first.nccl_version}"
            add(one, text, "same-nccl", check="nccl")
        if one.identity is None and one.devices:
            text = f"local rank {one.local_rank} of {one.local_world_size}, but torch sees only {one.devices} GPUs here"
            add(one, text, "fewer-ranks", gpus=one.devices)
        elif one.identity is None and with_gpu:
            add(one, f"has no GPU, rank {with_gpu.rank} on {with_gpu.host} has one", "gpu-visible")
        elif one.identity in users:
            other = users[one.identity]
            text = f"uses the same GPU as rank {other.rank} on {other.host}: {one.device} {one.identity}"
            add(one, text, "gpu-each")
        elif one.identity is not None:
            users[one.identity] = one
    return problems


# ---------------------------------------------------------------- the store


class StepTimeoutError(RuntimeError):
    """A step took longer than its timeout."""


class ThreadCall:
    """Call of a function in a thread of its own, because it may hang in a library."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._results: list[Any] = []
        self._thread = threading.Thread(target=self._call, args=(function,), daemon=True)
        self._thread.start()

    def _call(self, function: Callable[[], Any]) -> None:
        try:
            self._results.append((function(), None))
        except BaseException as error:
            self._results.append((None, error))

    def result(self, seconds: float) -> Any:
        """Return the function's value, or raise its error. Raises StepTimeoutError."""
        self._thread.join(seconds)
        if not self._results:
            raise StepTimeoutError(f"no answer for {seconds:.0f} s")
        value, error = self._results[0]
        if error is not None:
            raise error
        return value


def call_within(seconds: float, function: Callable[[], Any]) -> Any:
    """Call a function in a thread. Raises StepTimeoutError."""
    return ThreadCall(function).result(seconds)


def wait_for_store(env: DistEnv, seconds: float) -> None:
    """Wait until rank 0 listens at the master address. Raises OSError with more detail than torch's store."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            left = max(0.1, deadline - time.monotonic())
            socket.create_connection((env.master_addr, env.master_port), left).close()
            return
        except socket.gaierror as error:
            raise OSError(f"{env.master_addr}: {error.strerror}") from None
        except OSError as error:
            if time.monotonic() + 0.2 > deadline:
                reason = "no answer" if isinstance(error, socket.timeout) else error.strerror or error
                raise OSError(f"{reason}, for {seconds:.0f} s") from None
        time.sleep(0.1)


def serves_store(env: DistEnv) -> bool:
    """Return whether this rank serves the store: rank 0, unless its torchrun does."""
    return env.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"


def connect_store(env: DistEnv, serve: bool, seconds: float, prefix: str) -> Any:
    """Open a connection to torch's store at the master address."""
    import torch.distributed as dist

    torch_dist: Any = dist  # torch's stubs leave out the stores
    timeout = datetime.timedelta(seconds=seconds)
    store = torch_dist.TCPStore(
        env.master_addr, env.master_port, env.world_size, is_master=serve, timeout=timeout, wait_for_workers=False
    )
    return torch_dist.PrefixStore(prefix, store)


class RankStore:
    """Keys and values that all ranks share. No request waits longer than its timeout."""

    def __init__(self, env: DistEnv, seconds: float) -> None:
        import torch.distributed as dist

        self._terminated = False  # torchrun sends SIGTERM to all ranks after the first failure; they still report
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, self._on_term)
        self._torch_dist: Any = dist  # torch's stubs leave out the stores
        self._env, self._seconds = env, seconds
        if env.world_size == 1:
            self._store: Any = self._torch_dist.HashStore()
            return
        serve = serves_store(env)
        if not serve:
            wait_for_store(env, seconds)
        self._store = call_within(seconds + 2, lambda: connect_store(env, serve, seconds, "ddpkit_check"))
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        if call_within(seconds, lambda: self._store.add(f"rank {env.rank} {attempt}", 1)) > 1:
            raise ValueError("another process has the same rank: two launchers or two jobs share one address")

    def connect_group(self, name: str) -> Any:
        """Return a store for a process group, with a connection of its own: a group may wait in it."""
        alone = self._env.world_size == 1
        store = self._store if alone else connect_store(self._env, False, self._seconds, "ddpkit_check")
        return self._torch_dist.PrefixStore(name, store)

    def _on_term(self, *_: object) -> None:
        self._terminated = True

    def publish(self, key: str, value: object) -> None:
        """Set a value."""
        call_within(self._seconds, lambda: self._store.set(key, json.dumps(value)))

    def read(self, keys: list[str], seconds: float) -> dict[str, Any]:
        """Return the values that are set in time. Raises StepTimeoutError where the store does not answer."""
        values: dict[str, Any] = {}

        def poll() -> None:
            deadline = time.monotonic() + seconds
            while True:
                for key in keys:
                    if key not in values and self._store.check([key]):
                        values[key] = json.loads(self._store.get(key))
                if self._terminated:  # torchrun ends the ranks: this read takes two more seconds at most
                    deadline, self._terminated = min(deadline, time.monotonic() + 2), False
                if len(values) == len(keys) or time.monotonic() > deadline:
                    return
                time.sleep(0.01)

        call_within(seconds + 2, poll)
        return values

    def read_one(self, key: str, seconds: float) -> Any:
        """Return one value. Raises StepTimeoutError where it is not set in time."""
        values = self.read([key], seconds)
        if key not in values:
            raise StepTimeoutError(key)
        return values[key]

    def read_ranks(self, topic: str, ranks: list[int], seconds: float) -> dict[int, Any]:
        """Return the values of `TOPIC RANK` that are set in time, by rank."""
        values = self.read([f"{topic} {rank}" for rank in ranks], seconds)
        return {rank: values[f"{topic} {rank}"] for rank in ranks if f"{topic} {rank}" in values}


# ---------------------------------------------------------------- steps: gloo, NCCL and pairs


def time_all_reduce(env: DistEnv, device: Any, elements: int, seconds: float, group: Any = None) -> float:
    """Run an all_reduce three times, once if it is slow. Returns the seconds of the fastest.

    Raises ArithmeticError. Elements differ, so that a piece at a wrong offset gives a wrong sum.
    """
    import torch
    import torch.distributed as dist

    best = float("inf")
    pattern = torch.arange(elements, device=device, dtype=torch.float32) % 251
    expected = pattern * env.world_size + sum(rank % 16 + 1 for rank in range(env.world_size))
    for _ in range(3):
        numbers = pattern + (env.rank % 16 + 1)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        began = time.perf_counter()
        dist.all_reduce(numbers, group=group)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        took = time.perf_counter() - began
        best = min(best, took)
        wrong = int((numbers != expected).sum())
        if wrong:
            at = int((numbers != expected).nonzero()[0])
            example = f"the first, {at}, is {numbers[at].item():g} and not {expected[at].item():g}"
            raise ArithmeticError(f"{wrong} of {elements} sums are wrong: {example}")
        # All ranks have to repeat it equally often: they agree on the slowest.
        slow = torch.tensor([float(took > seconds / 8)], device=device)
        dist.all_reduce(slow, group=group)
        if slow.item():
            break
    return best


class BackendCheck:
    """Start of one backend, and sums over it. `doing` names the current part, and `part` counts them."""

    def __init__(self, env: DistEnv, store: RankStore, backend: str, mib: int, seconds: float) -> None:
        self.env, self.store, self.backend, self.mib, self.seconds = env, store, backend, mib, seconds
        self.start_seconds = start_limit(backend, seconds)
        self.started = threading.Event()  # also set by a start that failed
        self.part, self.doing = 0, f"starting {backend}"

    def begin(self, doing: str) -> None:
        """Record the part that begins."""
        self.part, self.doing = self.part + 1, doing

    def start(self) -> Any:
        """Start the process group instead of an earlier one. Returns its device."""
        import torch
        import torch.distributed as dist

        device: Any = torch.device("cpu")
        options: dict[str, Any] = {"rank": self.env.rank, "world_size": self.env.world_size}
        if self.backend == "nccl":
            device = torch.device("cuda", gpu_index(self.env, torch.cuda.device_count()))
            self.begin(f"creating a CUDA context on {device}")
            torch.cuda.set_device(device)  # of this thread
            torch.cuda.synchronize(device)
            if takes_device(torch.__version__):
                options["device_id"] = device
        self.begin(f"starting {self.backend}")
        if dist.is_initialized():
            dist.destroy_process_group()
        timeout = datetime.timedelta(seconds=self.start_seconds)
        store = self.store.connect_group(self.backend)
        dist.init_process_group(self.backend, timeout=timeout, store=store, **options)
        if self.backend == "nccl":  # the first sum loads kernels, and connects where torch did not before
            self.begin("the first all_reduce over nccl")
            time_all_reduce(self.env, device, 1, self.start_seconds)
        return device

    def run(self) -> dict[str, Any]:
        """Run a small and a large all_reduce. Returns their times."""
        import torch
        import torch.distributed as dist

        env = self.env
        try:
            device = self.start()
        finally:
            self.started.set()
        self.begin("a small all_reduce")
        small = time_all_reduce(env, device, 1, self.seconds)
        self.begin(f"an all_reduce of {self.mib} MiB")
        large = time_all_reduce(env, device, self.mib * 2**18, self.seconds)
        if self.backend == "nccl":
            # Many programs exchange their CPU tensors so.
            self.begin("gloo beside NCCL")
            timeout = datetime.timedelta(seconds=self.seconds)
            time_all_reduce(env, torch.device("cpu"), 1, self.seconds, dist.new_group(backend="gloo", timeout=timeout))
        # The bandwidth of the busiest wire in a ring, as in nccl-tests.
        moved = self.mib * 2**20 * 2 * (env.world_size - 1) / env.world_size
        return {"small_ms": small * 1e3, "large_ms": large * 1e3, "gb_per_s": moved / large / 1e9}


def start_limit(backend: str, seconds: float) -> float:
    """Return the seconds in which a backend must start, where a step of adding has `seconds`."""
    return max(NCCL_START, seconds) if backend == "nccl" else seconds


def check_backend(
    env: DistEnv, store: RankStore, backend: str, mib: int, seconds: float, advice: str
) -> dict[str, Any]:
    """Run a BackendCheck. Returns this rank's times, or its problem."""
    check = BackendCheck(env, store, backend, mib, seconds)
    call = ThreadCall(check.run)
    began = time.monotonic()
    in_time = check.started.wait(check.start_seconds)
    # gloo starts in the time of its sums, as it connects through the store alone.
    left = seconds if backend == "nccl" else max(0.0, began + seconds - time.monotonic())
    try:
        return dict(call.result(left if in_time else 0.0))
    except StepTimeoutError:
        limit = seconds if in_time else check.start_seconds
        fix = gpu_start_fix() if "CUDA context" in check.doing else advice
        problem = f"no answer after {limit:.3g} s of {check.doing}"
        return {"problem": problem, "fix": fix, "late": True, "part": check.part}
    except Exception as error:
        problem = f"{check.doing}: {error_reason(error)}"
        return {"problem": problem, "fix": error_fix(problem, advice)}


def error_fix(problem: str, advice: str) -> str:
    """Return the fix of a backend's error: `advice`, unless the reason is CUDA's, or one of NCCL and no network's."""
    if re.search("(?i)(cuda|hip) (failure|error|out of memory)", problem):
        return gpu_start_fix()
    if "NCCL error" in problem and not re.search("(?i)socket|connect|bootstrap|NET/|remote|timed? ?out", problem):
        return "nccl-details"
    return advice


def add_in_pair(env: DistEnv, store: RankStore, other: int, name: str, seconds: float) -> str:
    """Run an all_reduce over gloo with one other rank. Returns the problem, or ''."""
    import torch
    import torch.distributed as dist

    doing = ["connecting"]  # then a size that passed, or words on the one that is on its way

    def add() -> None:
        timeout = datetime.timedelta(seconds=seconds)
        torch_dist: Any = dist
        group = torch_dist.ProcessGroupGloo(store.connect_group(name), int(env.rank > other), 2, timeout)
        for elements, size in ((1, "4 bytes"), (1 << 17, "512 KiB")):
            doing.append(f"{size} do not pass, and {doing[-1]} did" if len(doing) > 1 else f"{size} do not pass")
            group.allreduce([torch.ones(elements)]).wait()
            doing[-1] = size

    try:
        call_within(seconds, add)
    except StepTimeoutError:
        return doing[-1] if len(doing) > 1 else "they do not connect"
    except Exception as error:
        return error_reason(error)
    return ""


def pair_rounds(members: list[int]) -> list[list[tuple[int, int]]]:
    """Return rounds of pairs in which each two members meet once: a tournament."""
    order: list[int | None] = [*members, *([None] if len(members) % 2 else [])]
    rounds = []
    for _ in range(len(order) - 1):
        pairs = [(order[index], order[-1 - index]) for index in range(len(order) // 2)]
        rounds.append([(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None])
        order = [order[0], order[-1], *order[1:-1]]
    return rounds


def find_broken_pairs(results: dict[tuple[int, int], str], reports: list[RankReport], advice: str) -> list[RankProblem]:
    """Return a problem for each rank that fails in all its pairs, and for each other one. Results: a problem or ''."""
    hosts = {one.rank: one.host for one in reports}
    broken = {pair: text for pair, text in results.items() if text}
    problems = []
    while broken:
        counts = {rank: sum(rank in pair for pair in broken) for pair in broken for rank in pair}
        # The rank with the most broken pairs comes first, so that its pairs are not laid to the other ranks.
        rank = max(counts, key=lambda one: (counts[one], one))
        if counts[rank] > 1 and all(text for pair, text in results.items() if rank in pair):
            text = next(text for pair, text in broken.items() if rank in pair)
            message = f"gloo all_reduce fails with every other rank: {text}"
            cause = "its name, its interface, or its firewall"
            problems.append(RankProblem(rank, hosts[rank], message, advice, "gloo", "fail", cause))
            broken = {pair: text for pair, text in broken.items() if rank not in pair}
            continue
        pair, text = next((pair, text) for pair, text in broken.items() if rank in pair)
        other = pair[0] if pair[1] == rank else pair[1]
        rest = "; all other pairs succeed" if len(results) > 1 and sum(map(bool, results.values())) == 1 else ""
        message = f"gloo all_reduce fails with rank {other} on {hosts[other]}: {text}{rest}"
        small_passed = "and 4 bytes did" in text
        cause = "small packets pass and large packets are lost: an MTU, a cable or a filter" if small_passed else ""
        fix, facts = ("path", {"peer": other}) if small_passed else (advice, {})
        problems.append(RankProblem(rank, hosts[rank], message, fix, "gloo", "fail", cause, facts))
        del broken[pair]
    return problems


def find_failures(
    results: dict[int, dict[str, Any]], reports: list[RankReport], check: str = "gloo"
) -> list[RankProblem]:
    """Return the problems of ranks that died, else of ranks with a reason of their own, else of those stuck first.

    `results`: by rank: its figures, or `problem` and `fix`, with `late` and `part` where it did not end in time.
    """
    silent = [one for one in reports if one.rank not in results]
    if silent:
        text, cause = "ended, or hung, while the ranks added", "it stopped sending messages"
        return [RankProblem(one.rank, one.host, text, "last-lines", check, cause=cause) for one in silent]
    failed = [(one, results[one.rank]) for one in reports if "problem" in results[one.rank]]
    known = [each for each in failed if not each[1].get("late")]
    first = [each for each in known if not any(words in each[1]["problem"] for words in CONSEQUENCES)]
    # The others wait in a later part for those that are in the earliest one.
    earliest = min((own.get("part", 0) for _, own in failed), default=0)
    stuck = [each for each in failed if each[1].get("part", 0) == earliest]
    return [RankProblem(one.rank, one.host, own["problem"], own["fix"], check) for one, own in first or known or stuck]


# ---------------------------------------------------------------- step: the speed of each rank alone


def check_speed(env: DistEnv, gpu: bool, seconds: float) -> dict[str, Any]:
    """Return the times of `time_local_work`, or this rank's problem: a GPU that hangs gives no error."""
    fix = gpu_start_fix() if gpu else "cpu-load"
    try:
        return dict(call_within(seconds, lambda: time_local_work(env, gpu)))
    except StepTimeoutError:
        return {"problem": f"a matrix product and a copy did not end in {seconds:.3g} s", "fix": fix, "late": True}
    except Exception as error:  # a GPU without memory
        return {"problem": f"a matrix product and a copy: {error_reason(error)}", "fix": fix}


def time_local_work(env: DistEnv, gpu: bool) -> dict[str, float]:
    """Return the seconds of a matrix product and of a copy: the best of several, as the machine may be shared."""
    import torch

    device = torch.device("cuda", gpu_index(env, torch.cuda.device_count())) if gpu else None
    if device is not None:
        torch.cuda.set_device(device)  # of this thread; without it, pinned memory makes a context on GPU 0
    size, kind = (8192, torch.float16) if gpu else (384, torch.float32)
    # On a CPU the time of this thread: other processes do not count.
    clock = time.perf_counter if gpu else time.thread_time
    threads = torch.get_num_threads()
    if not gpu:
        torch.set_num_threads(1)
    factor = torch.ones((size, size), dtype=kind, device=device)
    block = torch.ones((16 if gpu else 4) << 20, dtype=torch.float32, pin_memory=gpu)
    repeats = 8 if gpu else 1  # of one timing, so that the launch of a kernel takes little of it

    def best(function: Callable[[], object]) -> float:
        seconds = float("inf")
        for _ in range(8):
            began = clock()
            for _ in range(repeats):
                function()
            if device is not None:
                torch.cuda.synchronize(device)  # without a device, that of this thread
            seconds = min(seconds, clock() - began)
        return seconds / repeats

    def copy() -> object:
        return block.to(device, non_blocking=True) if gpu else block.clone()

    times = {"gemm": best(lambda: factor @ factor), "copy": best(copy)}
    torch.set_num_threads(threads)
    return times


def find_slow_ranks(times: dict[int, dict[str, Any]], reports: list[RankReport], gpu: bool) -> list[RankProblem]:
    """Return ranks that are much slower than the median. GPUs of one kind differ little; CPUs are shared."""
    problems = []
    for name, words in (("gemm", "a matrix product"), ("copy", "a copy to the GPU" if gpu else "a copy in memory")):
        ordered = sorted(one[name] for one in times.values() if name in one)
        if len(ordered) < 2:
            continue
        median = ordered[(len(ordered) - 1) // 2]
        # All ranks copy at the same time, and GPUs share PCIe switches.
        bound = 1.15 if gpu and name == "gemm" else 2.5
        for one in reports:
            own = times.get(one.rank, {}).get(name, 0.0)
            if own > bound * median:
                text = f"{words} takes {own * 1e3:.1f} ms, {own / median:.1f} times as long as on the others"
                fix = "gpu-heat" if gpu else "cpu-load"
                problems.append(RankProblem(one.rank, one.host, text, fix, "speed", "warn"))
    return problems


# ---------------------------------------------------------------- step: nodes, for `ddpkit test` with a scheduler


class NodeReport:
    """Facts of this node, gathered during the import of torch. A hung driver keeps no rank from starting.

    `inventory` and `probe` are modules that the launcher sends along.
    """

    def __init__(self, env: DistEnv, smi: bool) -> None:
        self._look: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, args=(env, smi), daemon=True)
        self._thread.start()

    def _run(self, env: DistEnv, smi: bool) -> None:
        try:
            self._look = self._emit_facts(env, smi)
        except Exception as error:  # unknown facts are no failure
            emit("unknown", host=socket.gethostname(), why=f"{type(error).__name__}: {error}")

    def _emit_facts(self, env: DistEnv, smi: bool) -> dict[str, Any]:
        inventory, probe = importlib.import_module("inventory"), importlib.import_module("probe")
        look = probe.look(".", None, sys.executable, {}, None, True)
        probe.close()
        torch_folder = (look["torch"] or {}).get("place")
        paths = {"tmp": look["tmp"], "shm": "/dev/shm", "workdir": look["workdir"]}
        names = [env.master_addr] if env.master_addr else []
        emit("facts", look=look, facts=inventory.gather(paths, names, torch_folder, smi))
        return dict(look)

    def wait(self, seconds: float) -> dict[str, Any]:
        """Return the facts that are known in time."""
        self._thread.join(seconds)
        return self._look


def compare_nodes(
    store: RankStore, env: DistEnv, reports: list[dict[str, Any]], seconds: float, look: dict[str, Any]
) -> dict[str, Any]:
    """Try every other node's addresses and clock, from one rank of each node.

    Returns {"host", "errors": {host: {address: problem}}, "ahead": [least, most]}: the seconds by which this node's
    clock is ahead of rank 0's. Needs `probe`, which the launcher sends along.
    """
    leaders = [one["rank"] for one in reports if one["local_rank"] == 0]
    if env.rank not in leaders:
        return {}
    probe = importlib.import_module("probe")
    own = {**probe.listen(None), "host": socket.gethostname(), "addresses": [], "own_name": []}
    own.update({name: look[name] for name in ("host", "addresses", "own_name") if name in look})
    store.publish(f"at {env.rank}", own)
    others = store.read_ranks("at", leaders, seconds)
    targets, hosts = [], []
    for rank, other in others.items():
        names = [name for name in other["own_name"] if not name.startswith("127.")]
        for name in dict.fromkeys([*names, *(address for _, address in other["addresses"])]):
            if rank != env.rank:
                targets.append([name, other["high_port"], other["secret"]])
                hosts.append(other["host"])
    results: dict[str, dict[str, str]] = {}
    for index, answer in enumerate(probe.reach(targets, min(2.0, seconds))):
        results.setdefault(hosts[index], {})[targets[index][0]] = answer[1]
    ahead = compare_clocks(store, env, leaders, seconds)
    store.publish(f"tried {env.rank}", True)
    store.read_ranks("tried", leaders, seconds)  # the others try this node as well
    probe.close()
    return {"host": own["host"], "errors": results, "ahead": ahead}


def compare_clocks(store: RankStore, env: DistEnv, leaders: list[int], seconds: float) -> list[float]:
    """Return by how many seconds this node's clock is ahead of the first node's, at least and at most."""
    if env.rank == leaders[0]:
        requests = {f"ask {rank}" for rank in leaders[1:]}
        deadline = time.monotonic() + seconds
        while requests and time.monotonic() < deadline:
            # Answered at once: the delay of the answer widens the result.
            for key in store.read(sorted(requests), 0.0):
                store.publish(key.replace("ask", "clock"), time.time())
                requests.remove(key)
        return [0.0, 0.0]
    before = time.time()
    store.publish(f"ask {env.rank}", True)
    theirs = store.read([f"clock {env.rank}"], seconds).get(f"clock {env.rank}")
    return [0.0, 0.0] if theirs is None else [before - theirs, time.time() - theirs]


# ---------------------------------------------------------------- the steps, in order


class RankCheck:
    """Part of one rank in all steps. After each, rank 0 reads the results of all and decides how to go on.

    `args`: the command line, with what `main` adds: `devices`, `look`, and the seconds of `meeting` and of a `step`.
    """

    def __init__(self, env: DistEnv, args: argparse.Namespace, store: RankStore) -> None:
        self.env, self.args, self.store = env, args, store
        self.ranks = list(range(env.world_size))
        self.reports: list[RankReport] = []  # this and the plan are known from `join` on
        self.plan: dict[str, Any] = {}
        self.problems: list[RankProblem] = []  # on rank 0 alone
        self.alive: list[int] = []  # the same: ranks that sent the last result

    def join(self, own: RankReport) -> dict[str, Any]:
        """Send this rank's report to rank 0. Returns the steps to run."""
        seconds = self.args.meeting
        self.store.publish(f"here {self.env.rank}", asdict(own))
        emit("here", **asdict(own), waits=seconds)
        self.plan = self._read_plan(seconds) if self.env.rank else self._make_plan(seconds)
        return self.plan

    def _read_plan(self, seconds: float) -> dict[str, Any]:
        """Read rank 0's plan. Rank 0 may begin later than this rank, and then waits as long as its own limit allows."""
        limit = float(self.store.read_one("meeting", seconds + 3))
        plan: dict[str, Any] = self.store.read_one("plan", limit + 3)
        self.reports = [RankReport(**fields) for fields in plan["reports"]]
        return plan

    def _make_plan(self, seconds: float) -> dict[str, Any]:
        """Compare the reports of all ranks, and publish the steps to run. On rank 0."""
        self.store.publish("meeting", seconds)
        values = self.store.read_ranks("here", self.ranks, seconds)
        reports = {rank: RankReport(**fields) for rank, fields in sorted(values.items())}
        self.reports, self.alive = list(reports.values()), list(reports)
        missing = find_missing_ranks(reports, self.env.world_size, seconds)
        self.problems = missing or compare_reports(self.reports)
        gpus = all(one.identity for one in self.reports)
        # Without all ranks nothing was compared, and no step can run.
        passed = [] if missing else stages_of_reports(self.problems, gpus)
        # Gloo is tried also where GPUs are mapped wrongly, so that its problems are known as well.
        # The speed before NCCL: behind a kernel of NCCL that hangs, no other one of this process runs.
        wanted = {"mesh": self.args.nodes, "gloo": True, "speed": self.args.speed, "nccl": "gpu-map" in passed}
        steps = [name for name, runs in wanted.items() if runs and not missing]
        listed = [asdict(one) for one in self.reports]
        plan = {"steps": steps, "gpus": gpus, "reports": listed, "seconds": self.args.step}
        self.store.publish("plan", plan)
        emit_problems(self.problems)
        for stage in passed:
            emit("stage", stage=stage, seconds=0)
        return plan

    def run_step(self, name: str, gpus: bool) -> bool:
        """Run one step with all other ranks. Returns whether all succeeded."""
        began = time.monotonic()
        # All began together: a rank without a result soon after the timeout is lost.
        seconds = float(self.plan["seconds"])
        longest = 3 * seconds if name in ("mesh", "speed") else seconds
        longest += start_limit("nccl", seconds) if gpus and name in ("speed", "nccl") else 0.0  # CUDA starts in them
        emit("begin", stage=name, rank=self.env.rank, waits=longest)
        own = self._run_own_part(name, gpus, longest)
        self.store.publish(f"{name} {self.env.rank}", own)
        emit("did", stage=name, rank=self.env.rank, **own)
        left = max(0.0, began + longest + 1 - time.monotonic())
        if self.env.rank:
            decision = self.store.read_one(f"after {name}", left + 1.5)
            if decision["pairs"]:
                self.check_pairs()
            return bool(decision["well"])
        return self._judge_step(name, gpus, self.store.read_ranks(name, self.ranks, left))

    def _run_own_part(self, name: str, gpus: bool, longest: float) -> dict[str, Any]:
        seconds = float(self.plan["seconds"])
        if name == "mesh":
            return compare_nodes(self.store, self.env, self.plan["reports"], seconds, self.args.look(seconds))
        if name == "speed":
            return check_speed(self.env, gpus, longest)
        # Where NCCL carries the data, gloo carries little.
        mib = 1 if name == "gloo" and gpus else self.args.mib
        return check_backend(self.env, self.store, name, mib, seconds, "nccl" if name == "nccl" else "gloo")

    def _judge_step(self, name: str, gpus: bool, results: dict[int, dict[str, Any]]) -> bool:
        """Decide, on rank 0, whether all succeeded and whether pairs are tried. The launcher judges the mesh."""
        self.alive = sorted(results)
        problems = find_failures(results, self.reports, name) if name != "mesh" else []
        if name == "speed" and not problems:
            problems = find_slow_ranks(results, self.reports, gpus)
        success = not any(one.level == "fail" for one in problems)
        # New groups of gloo work beside one that hangs; NCCL's kernels would wait behind those that hang.
        # An all_reduce does not use every pair: with more than two nodes all are tried, as other collectives do.
        several = len({one.host for one in self.reports}) > 2
        pairs = name == "gloo" and (several or not success) and len(results) == self.env.world_size > 1
        self.store.publish(f"after {name}", {"well": success, "pairs": pairs})
        if pairs:
            broken = find_broken_pairs(self.check_pairs(), self.reports, "gloo")
            problems = broken or problems
            success = success and not problems
        self.problems += problems
        emit_problems(problems)
        if success:
            emit("stage", stage=name, done={str(rank): own for rank, own in results.items()})
        return success

    def check_pairs(self) -> dict[tuple[int, int], str]:
        """Try all pairs of nodes, with one rank of each; on a single node, all pairs of its ranks.

        Rank 0 says before each round whether it takes place, and returns the problem of each pair, or ''.
        """
        first = {one.host: one.rank for one in reversed(self.reports)}
        ranks = sorted(first.values()) if len(first) > 1 else self.ranks[:MAX_ROUNDS]
        seconds = min(PAIR_SECONDS, float(self.plan["seconds"]))
        results: dict[tuple[int, int], str] = {}
        bad_rounds = 0
        for number, pairs in enumerate(pair_rounds(ranks)[:MAX_ROUNDS]):
            if self.env.rank == 0:
                takes_place = bad_rounds < 3
                self.store.publish(f"round {number}", takes_place)
            else:
                takes_place = self.store.read_one(f"round {number}", 3 * seconds + 2)
            if not takes_place:
                break
            for low, high in pairs:
                if self.env.rank in (low, high):
                    other = high if self.env.rank == low else low
                    problem = add_in_pair(self.env, self.store, other, f"pair {number} {low}", seconds)
                    self.store.publish(f"pair {number} {self.env.rank}", problem)
            if self.env.rank == 0:
                values = self.store.read_ranks(f"pair {number}", [rank for pair in pairs for rank in pair], 2 * seconds)
                for pair in pairs:
                    results[pair] = max((values.get(rank, "no answer") for rank in pair), key=len)
                bad_rounds += any(results[pair] for pair in pairs)
        return results

    def finish(self) -> int:
        """Tell all ranks the result. Returns the exit code, the same on all."""
        if self.env.rank:
            failed = bool(self.store.read_one("over", float(self.plan["seconds"])))
            self.store.publish(f"read {self.env.rank}", True)
            return BAD if failed else 0
        failed = any(one.level == "fail" for one in self.problems)
        self.store.publish("over", failed)
        # The store may end with this process: wait until the living ranks have read the result.
        self.store.read([f"read {rank}" for rank in self.alive if rank], 2 if failed else 5)
        return BAD if failed else 0


def run_checks(env: DistEnv, args: argparse.Namespace, identify: Callable[[int], tuple[str, str]]) -> int:
    """Run all steps as this rank. Returns the exit code, the same on all ranks. `identify`: see `identify_gpu`."""
    host, endpoint = socket.gethostname(), f"{env.master_addr}:{env.master_port}"
    check, doing = None, "ranks"  # what this rank is in, for the words of an error
    try:
        devices = count_gpus() if args.devices is None else args.devices
        check = RankCheck(env, args, RankStore(env, args.meeting))
        plan = check.join(describe_rank(env, devices, identify))
        success = True
        for name in plan["steps"]:
            doing = name
            # The speed of each rank is worth knowing also where the ranks do not reach each other.
            if success or name == "speed":
                success = check.run_step(name, plan["gpus"]) and success
        return check.finish()
    except GpuStartError as error:
        text = f"torch cannot use the GPUs of this node: {error}"
        return fail(RankProblem(env.rank, host, text, error.fix, "gpu-map"))
    except ValueError as error:  # of RankStore
        return fail(RankProblem(env.rank, host, str(error), "one-launcher"))
    except StepTimeoutError:
        if check is None:
            return fail(RankProblem(env.rank, host, f"cannot reach the store at {endpoint}", "rank-0"))
        hosts = {one.rank: one.host for one in check.reports}
        text = "does not proceed" if doing == "ranks" else f"ended, or hung, in the step {doing}"
        doing = doing if doing in ("gloo", "nccl", "speed") else "ranks"
        return fail(RankProblem(0, hosts.get(0, ""), text, "last-lines", doing))
    except (RuntimeError, OSError) as error:  # of the store
        text = error_reason(error)
        if env.rank == 0:
            taken = "EADDRINUSE" in text or "address already in use" in text.lower()
            fix = "free-port" if taken else "address"
            return fail(RankProblem(0, host, f"cannot listen at {endpoint}: {text}", fix))
        if check is not None:  # the store was there before
            time.sleep(END_OF_RANK_0)
        facts = {"address": env.master_addr, "port": env.master_port}
        return fail(
            RankProblem(env.rank, host, f"cannot reach rank 0 at {endpoint}: {text}", "reach-rank-0", facts=facts)
        )


def fail(problem: RankProblem) -> int:
    """Report why this rank does not continue. Returns its exit code."""
    emit_problems([problem])
    return BAD


# ---------------------------------------------------------------- start


def import_age() -> float:
    """Return the age of the process that imported torch and forked this one; 0 where torch is not loaded yet."""
    if "torch" not in sys.modules or sys.platform != "linux":
        return 0.0
    try:
        with open(f"/proc/{os.getppid()}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        return min(60.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Parse the command line of the launcher."""
    parser = argparse.ArgumentParser("check.py")
    parser.add_argument("--timeout", type=float, default=30)  # seconds for each step
    parser.add_argument("--mib", type=int, default=64)  # the size of the large all_reduce
    parser.add_argument("--speed", action="store_true")  # also measure each rank alone, and report a slow one
    parser.add_argument("--nodes", choices=("quick", "usual"))  # with a scheduler: report this node as well
    parser.add_argument("--no-ranks", action="store_true")  # nothing else
    return parser.parse_args(argv)


def main(argv: list[str], identify: Callable[[int], tuple[str, str]] = identify_gpu, devices: int | None = None) -> int:
    """Run as one rank. `identify` and `devices` replace GPUs in tests."""
    args = parse_args(argv)
    args.devices, args.look = devices, lambda _: {}
    host = socket.gethostname()
    try:
        env = resolve(os.environ, (), gather_facts(os.environ))
    except EnvError as error:
        rank = os.environ.get("RANK", "")
        text = f"{error.message} ({error.hint})" if error.hint else error.message
        return fail(RankProblem(int(rank) if rank.isdecimal() else 0, host, text, "variables"))
    emit("rank", rank=env.rank, host=host, nodes=os.environ.get("SLURM_STEP_NODELIST", ""))
    if args.nodes and env.local_rank == 0:
        args.look = NodeReport(env, args.nodes != "quick").wait
    if args.no_ranks:
        args.look(SMI_WAIT)
        return 0
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # the store's failed tries are reported here, once
    os.environ.setdefault("NCCL_DEBUG", "WARN")  # an error of NCCL has its reason in a warning
    before = import_age()
    began = time.monotonic()
    try:
        import torch.distributed as dist
    except Exception as error:
        return fail(RankProblem(env.rank, host, f"cannot import torch: {error_reason(error)}", "import-torch"))
    if not dist.is_available():
        text = "this torch was built without torch.distributed"
        return fail(RankProblem(env.rank, host, text, "whole-torch"))
    took = time.monotonic() - began + before
    # Where the import of torch takes long, or CPUs are shared, everything does; many ranks need longer to meet.
    crowd = max(1.0, env.world_size / 64)
    args.step = args.timeout * min(4.0, max(1.0, took / 4, cpu_contention())) * crowd
    # Other ranks may begin to import it later, or from a slower disk: as long again, and longer where that is long.
    args.meeting = args.timeout * crowd + max(1 + took, 2 * took - 3)
    code = run_checks(env, args, identify)
    args.look(SMI_WAIT)  # the launcher needs the facts of this node, also where the ranks were quicker
    return code


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit(): a thread of gloo that still runs while the interpreter is being torn down can abort (torch 2.13).
    os._exit(exit_code)
