"""How fast do these ranks talk? Five collectives over a range of sizes, timed, and checked on every rank.

    ddpkit bench -b ssh node1 node2 -n 4                 over any way of launching
    torchrun --nproc-per-node 2 collectives.py           two processes on this machine
    srun -N2 --ntasks-per-node=4 python collectives.py -b 8 -e 1G -f 4

It needs PyTorch and nothing of ddpkit. Scopes: `world` is all ranks; `intra` the ranks of each node, all nodes at once;
`inter` one rank of each node; `pairs` every two nodes alone, so that one bad cable shows. A time is the slowest rank's
of the slowest group. algbw is size / time; busbw is what the busiest wire carries, by the formulas of nccl-tests: with
n ranks algbw x 2(n-1)/n for all_reduce, x (n-1)/n for all_gather and reduce_scatter, x 1 for broadcast and sendrecv.

exit codes, the same on every rank that lives: 0 all is well; 3 a result is wrong, a rank is missing or hangs, or less
than --min-busbw was reached; 2 an option is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

BAD = 3
OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv")
SCOPES = ("world", "intra", "inter", "pairs")
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
ALIASES = {"float": "float32", "double": "float64", "half": "float16", "fuint8": "uint8", "int": "int32"}
MARK = "\x1eddpkit "  # an event of ours, where DDPKIT_EVENTS=1 asks for them
ADVICE = {
    "nccl": "NCCL_DEBUG=INFO says more; where a node has several networks: export NCCL_SOCKET_IFNAME=<interface>",
    "gloo": "nodes have to reach each other on any port; export GLOO_SOCKET_IFNAME=<interface> chooses a network",
}
GRACE = 5.0  # seconds in which a rank that lives says where it is


@dataclass(frozen=True)
class Place:
    """Who a process is among its peers, and where they meet."""

    rank: int
    world_size: int
    local_rank: int
    master_addr: str
    master_port: int


@dataclass(frozen=True)
class Problem:
    """What is wrong, and what to do. `rank` is None where it is no single rank's."""

    rank: int | None
    host: str
    problem: str
    fix: str

    def __str__(self) -> str:
        who = "" if self.rank is None else f"rank {self.rank}{' on ' * bool(self.host)}{self.host}: "
        return f"FAILED: {who}{self.problem}; fix: {self.fix}"


@dataclass(frozen=True)
class Group:
    """Ranks that talk among themselves; the first is the root of a broadcast."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Scope:
    """Groups that are measured at the same time."""

    name: str
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Row:
    """One collective of one size in one group. Bandwidths are GB/s (10^9 bytes); seconds are those of one round."""

    scope: str
    group: str
    ranks: int
    op: str
    dtype: str
    bytes: int
    rounds: int
    seconds: float  # of the slowest rank
    seconds_min: float
    seconds_avg: float
    algbw: float
    busbw: float
    wrong: int  # elements, over all ranks
    slowest: int  # rank
    host: str  # its
    note: str = ""  # why it was not measured


# ---------------------------------------------------------------- sizes, formulas, groups


def parse_size(text: str) -> int:
    """Return bytes: `8`, `64K`, `128M`, `1G`, in units of 1024 as nccl-tests have them. Raises ValueError."""
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if not found or int(found.group(1)) < 1:
        raise ValueError(f"{text} is not a size: 8, 64K, 128M, 1G")
    unit: int = 1024 ** " kmgt".index(found.group(2) or " ")
    return int(found.group(1)) * unit


def show_size(number: int) -> str:
    for power, unit in ((3, "G"), (2, "M"), (1, "K")):
        if number % 1024**power == 0:
            return f"{number // 1024**power}{unit}"
    return str(number)


def sizes(least: int, most: int, factor: int) -> list[int]:
    found = []
    while least <= most:
        found.append(least)
        least *= factor
    return found


def whole(op: str, size: int, ranks: int, itemsize: int) -> int:
    """Return how many elements the array of that size has. Where each rank has a share, all shares are alike."""
    count = max(1, size // itemsize)
    return max(1, count // ranks) * ranks if op in ("all_gather", "reduce_scatter") else count


def bus_factor(op: str, ranks: int) -> float:
    """busbw / algbw, by doc/PERFORMANCE.md of nccl-tests."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if op in ("all_gather", "reduce_scatter") else 1.0


def lay_out(nodes: Sequence[str], wanted: Sequence[str]) -> list[Scope]:
    """Return the scopes of ranks whose nodes are these; nothing wanted: those that say different things."""
    ranks_of: dict[str, list[int]] = {}
    for rank, node in enumerate(nodes):
        ranks_of.setdefault(node, []).append(rank)
    names, firsts = list(ranks_of), [ranks[0] for ranks in ranks_of.values()]
    wide = any(len(ranks) > 1 for ranks in ranks_of.values())
    usual = ("world", "intra", "inter") if wide and len(names) > 1 else ("world",)
    found = []
    for scope in wanted or usual:
        if scope == "world":
            found.append(Scope(scope, (Group("all", tuple(range(len(nodes)))),)))
        elif scope == "intra" and wide:
            found.append(Scope(scope, tuple(Group(n, tuple(r)) for n, r in ranks_of.items() if len(r) > 1)))
        elif scope == "inter" and len(names) > 1:
            found.append(Scope(scope, (Group("one a node", tuple(firsts)),)))
        elif scope == "pairs" and len(names) > 1:
            found += [Scope(scope, tuple(pairs)) for pairs in _tournament(names, firsts)]
    return found


def _tournament(names: list[str], firsts: list[int]) -> Iterator[list[Group]]:
    """Every two nodes meet once, in rounds in which each meets one: the first stays, the others go round."""
    order: list[int | None] = [*range(len(names)), *([None] if len(names) % 2 else [])]
    for _ in range(len(order) - 1):
        half = len(order) // 2
        met = [(order[i], order[-1 - i]) for i in range(half)]
        pairs = [(min(a, b), max(a, b)) for a, b in met if a is not None and b is not None]
        yield [Group(f"{names[a]}-{names[b]}", (firsts[a], firsts[b])) for a, b in sorted(pairs)]
        order = [order[0], order[-1], *order[1:-1]]


def cases(scopes: list[Scope], ops: Sequence[str], dtypes: Sequence[str], wanted: list[int]) -> list[Any]:
    """Return (scope, op, dtype, size) in order. Sizes that come to the same where ranks have shares are left out."""
    found = []
    for scope in scopes:
        for op in ops if scope.name != "pairs" else ("sendrecv",):
            for dtype in dtypes:
                width = int(re.sub(r"\D", "", dtype)) // 8
                seen: list[list[int]] = []
                for size in wanted:
                    counts = [whole(op, size, len(group.ranks), width) for group in scope.groups]
                    if counts not in seen:
                        seen.append(counts)
                        found.append((scope, op, dtype, size))
    return found


def make_row(case: Any, group: Group, rounds: int, got: dict[int, Any], hosts: Sequence[str]) -> Row:
    scope, op, dtype, size = case
    n, width = len(group.ranks), int(re.sub(r"\D", "", dtype)) // 8
    times = [got[rank][0] for rank in group.ranks]
    slowest = group.ranks[times.index(max(times))]
    moved = whole(op, size, n, width) * width
    algbw = moved / max(times) / 1e9
    spread = (max(times), min(times), sum(times) / n)
    bad = sum(got[rank][1] for rank in group.ranks)
    bandwidth = (algbw, algbw * bus_factor(op, n))
    return Row(scope.name, group.name, n, op, dtype, moved, rounds, *spread, *bandwidth, bad, slowest, hosts[slowest])


# ---------------------------------------------------------------- what is wrong?


def find_wrong(case: Any, got: dict[int, Any], hosts: Sequence[str]) -> list[Problem]:
    scope, op, dtype, size = case
    fix = "again with --scope intra, then inter; then suspect its GPU, memory or network card (dmesg, nvidia-smi -q)"
    what = f"{op} of {show_size(size)} {dtype} ({scope.name})"
    return [
        Problem(rank, hosts[rank], f"wrong result: {bad} elements of {what}", fix)
        for rank, (_, bad) in sorted(got.items())
        if bad
    ]


def find_slow(rows: Sequence[Row], least: float) -> list[Problem]:
    """Name what reached less than `least` GB/s at all its sizes. The best size counts: small ones measure latency."""
    best: dict[tuple[str, str, str, str], Row] = {}
    for row in rows:
        key = (row.scope, row.group, row.op, row.dtype)
        if not row.note and (key not in best or row.busbw > best[key].busbw):
            best[key] = row
    found = []
    for row in best.values():
        if row.busbw < least:
            where = f"{row.op} ({row.scope}: {row.group}, {row.ranks} ranks, {row.dtype})"
            reached = f"busbw {row.busbw:.3g} GB/s at its best size, {show_size(row.bytes)}; asked for: {least:g}"
            fix = f"rank {row.slowest} on {row.host} was the slowest; --scope intra,inter,pairs tells node and network"
            found.append(Problem(None, row.host, f"{where}: {reached}", fix))
    return found


def find_guilty(states: dict[int, dict[str, Any]], hosts: Sequence[str], comm: str, advice: str) -> list[Problem]:
    """Name who ended the work, of ranks that say where they are; those who say nothing are gone, or stand still."""
    where = next((state["where"] for state in states.values() if state["where"]), "the start")
    silent = [rank for rank in range(len(hosts)) if rank not in states]
    if silent:
        fix = "look at its own last lines, and in dmesg there for one that was killed; py-spy dump shows one that hangs"
        return [Problem(rank, hosts[rank], f"ended, or hangs, near {where}", fix) for rank in silent]
    failed = {rank: state for rank, state in states.items() if state["error"]}
    if failed:
        fixes = {r: "--max-bytes 16M" if "memory" in state["error"] else advice for r, state in failed.items()}
        return [Problem(r, hosts[r], f"{state['where']}: {state['error']}", fixes[r]) for r, state in failed.items()]
    if all(state["ended"] for state in states.values()):
        return []  # all were told to end: a person's Ctrl-C, and no fault
    behind = min(state["step"] for state in states.values())
    late = [rank for rank, state in states.items() if state["step"] == behind]
    if len(late) == len(states):  # all are in the same step: who is not in torch does not wait for others
        late = [rank for rank, state in states.items() if state["inside"] and not state["torch"]]
    if late and len(late) < len(states):
        return [
            Problem(r, hosts[r], f"hangs for {states[r]['seconds']:.0f} s in {states[r]['at']}, near {where}",
                    "the others wait for it; look at that line")
            for r in late
        ]  # fmt: skip
    seconds = max(state["seconds"] for state in states.values())
    return [Problem(None, "", f"{comm}: all ranks wait, for {seconds:.0f} s, in {where}", advice)]


# ---------------------------------------------------------------- who is this, and where do the ranks meet?


def find_place(environ: Any) -> Place:
    """Return who this process is: by PyTorch's variables, else by those of a SLURM step. Raises ValueError."""
    seen = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if environ.get(name)]
    if "RANK" in seen or "WORLD_SIZE" in seen:
        if len(seen) < 4:
            raise ValueError(f"of PyTorch's variables only {', '.join(seen)} are set")
        rank, world, local = int(environ["RANK"]), int(environ["WORLD_SIZE"]), int(environ.get("LOCAL_RANK", 0))
        return Place(rank, world, local, environ["MASTER_ADDR"], int(environ["MASTER_PORT"]))
    # A step, and not SLURM_PROCID alone, which a job script has as well. The largest ids are those of no real step.
    if environ.get("SLURM_STEP_NUM_TASKS", "1") != "1" and int(environ.get("SLURM_STEP_ID", 0)) < 2**32 - 16:
        address = environ.get("MASTER_ADDR")
        if not address:
            show = ["scontrol", "show", "hostnames", environ["SLURM_STEP_NODELIST"]]
            address = subprocess.run(show, check=True, capture_output=True, text=True).stdout.split()[0]
        job, step = int(environ["SLURM_JOB_ID"]), int(environ["SLURM_STEP_ID"])
        port = int(environ.get("MASTER_PORT") or 20000 + (job * 16 + step % 16) % 12000)
        rank, world = int(environ["SLURM_PROCID"]), int(environ["SLURM_STEP_NUM_TASKS"])
        return Place(rank, world, int(environ["SLURM_LOCALID"]), address, port)
    return Place(0, 1, 0, "127.0.0.1", 0)


class Room:
    """Where the ranks meet: a store that rank 0, or its torchrun, serves.

    Two connections: one is for the work, and may wait; by the other it is said where the work stands.
    """

    def __init__(self, place: Place, seconds: float) -> None:
        import torch.distributed as dist

        loose: Any = dist  # torch's stubs leave out the stores
        if place.world_size == 1:
            self.work = self.aside = loose.HashStore()
            return
        serve = place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        prefix = "ddpkit bench " + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        options = {"timeout": datetime.timedelta(seconds=seconds), "wait_for_workers": False}

        def connect(serve: bool) -> Any:
            store = loose.TCPStore(place.master_addr, place.master_port, place.world_size, is_master=serve, **options)
            return loose.PrefixStore(prefix, store)

        self.work, self.aside = connect(serve), connect(False)

    def say(self, key: str, value: object) -> None:
        self.work.set(key, json.dumps(value))

    def hear(self, keys: list[str], seconds: float) -> dict[str, Any]:
        """Wait, for the work, until all is said. Returns what was said in time."""
        with contextlib.suppress(RuntimeError):  # not in time; or the store is lost, which shows below
            self.work.wait(keys, datetime.timedelta(seconds=seconds))
        return {key: json.loads(self.work.get(key)) for key in keys if self.work.check([key])}

    def tell(self, key: str, value: object) -> None:
        self.aside.set(key, json.dumps(value))

    def collect(self, keys: list[str], seconds: float) -> dict[str, Any]:
        """Return what is said aside in time."""
        heard: dict[str, Any] = {}
        until = time.monotonic() + seconds
        while True:
            for key in keys:
                if key not in heard and self.aside.check([key]):
                    heard[key] = json.loads(self.aside.get(key))
            if len(heard) == len(keys) or time.monotonic() > until:
                return heard
            time.sleep(0.05)


# ---------------------------------------------------------------- one collective


class UnsupportedError(Exception):
    """This torch has no such collective for such arrays."""


class Work:
    """One collective of one size on one group: its arrays, how it is done, timed and checked.

    Arrays are filled so that a missing, doubled or exchanged rank shows, in numbers that every type holds exactly. For
    a sum, each element gets a value from one rank and 0 from all others; who that is changes from element to element,
    and in as many rounds as it takes for every rank to have its turn. Else values depend on who sent them.
    """

    def __init__(self, op: str, group: Group, rank: int, handle: Any, dtype: str, size: int, device: Any) -> None:
        import torch
        import torch.distributed as dist

        self.op, self.group, self.handle, self.device = op, group, handle, device
        self.n, self.me = len(group.ranks), group.ranks.index(rank)
        kind = getattr(torch, dtype)
        width = torch.empty(0, dtype=kind).element_size()
        self.count = whole(op, size, self.n, width)
        share = self.count // self.n if op in ("all_gather", "reduce_scatter") else self.count
        self.give = torch.zeros(self.count if op == "reduce_scatter" else share, dtype=kind, device=device)
        in_place = op in ("all_reduce", "broadcast")
        self.get = self.give
        if not in_place:
            self.get = torch.zeros(self.count if op == "all_gather" else share, dtype=kind, device=device)
        loose: Any = dist
        if op == "all_gather":  # torch 2.13 renames both
            self.call = getattr(loose, "all_gather_single", loose.all_gather_into_tensor)
        elif op == "reduce_scatter":
            self.call = getattr(loose, "reduce_scatter_single", loose.reduce_scatter_tensor)
        # Rounds of a check: all ranks have their turn; two lengths of a pattern tell any two of many ranks apart.
        self.turns = -(-self.n // self.count) if op in ("all_reduce", "reduce_scatter") else 2

    def run(self) -> None:
        import torch.distributed as dist

        if self.op == "all_reduce":
            dist.all_reduce(self.give, group=self.handle)
        elif self.op in ("all_gather", "reduce_scatter"):
            self.call(self.get, self.give, group=self.handle)
        elif self.op == "broadcast":
            dist.broadcast(self.give, self.group.ranks[0], group=self.handle)
        else:  # to the next, from the one before, as nccl-tests do
            after, before = self.group.ranks[(self.me + 1) % self.n], self.group.ranks[self.me - 1]
            pair = [
                dist.P2POp(dist.isend, self.give, after, self.handle),
                dist.P2POp(dist.irecv, self.get, before, self.handle),
            ]
            for one in dist.batch_isend_irecv(pair):
                one.wait()

    def time(self, rounds: int, bench: Bench, slow: bool = True) -> float:
        """Return the seconds of one round. `slow` rounds are waited for one by one, so that progress is seen."""
        import torch

        if self.device.type == "cuda":
            cuda: Any = torch.cuda
            begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            torch.cuda.synchronize(self.device)
            begin.record()
            for _ in range(rounds):
                self.run()
                if slow:
                    torch.cuda.synchronize(self.device)
                    bench.moved = time.monotonic()
            end.record()
            end.synchronize()
            bench.moved = time.monotonic()
            return float(begin.elapsed_time(end)) / 1e3 / rounds
        began = time.perf_counter()
        for _ in range(rounds):
            self.run()
            bench.moved = time.monotonic()
        return (time.perf_counter() - began) / rounds

    def check(self, turns: int, bench: Bench) -> int:
        """Return how many elements came out wrong on this rank."""
        wrong = 0
        for turn in range(turns):
            for array in (self.get, self.give):
                array.zero_()
            sums = self.op in ("all_reduce", "reduce_scatter")
            if sums:
                self._paint(self.give, 0, self._part(self.me, turn))
            elif self.op != "broadcast" or self.me == 0:
                self._paint(self.give, 0, self._sent(self.me, turn))
            try:
                self.run()
            except (RuntimeError, NotImplementedError, TypeError) as error:
                # Said before anything is sent, on all ranks alike.
                if turn == 0 and re.search("(?i)not? support|unsupported|not implemented|invalid scalar", str(error)):
                    raise UnsupportedError(first_line(error)) from None
                raise
            share = self.get.numel()
            if sums:
                wrong += self._differing(self.get, share * self.me if self.op == "reduce_scatter" else 0, self._total())
            elif self.op == "all_gather":
                share //= self.n
                for sender in range(self.n):
                    part = self.get[sender * share : (sender + 1) * share]
                    wrong += self._differing(part, 0, self._sent(sender, turn))
            else:
                sender = 0 if self.op == "broadcast" else (self.me - 1) % self.n
                wrong += self._differing(self.get, 0, self._sent(sender, turn))
            bench.moved = time.monotonic()
        return wrong

    # A pattern is its length, and the values at these places.

    def _part(self, me: int, turn: int) -> tuple[int, Any]:
        return 7 * self.n, lambda at: (at % 7 + 1) * ((at + turn * self.count) % self.n == me)

    def _total(self) -> tuple[int, Any]:
        return 7 * self.n, lambda at: at % 7 + 1

    def _sent(self, sender: int, turn: int) -> tuple[int, Any]:
        length = 109 if turn % 2 else 113
        return length, lambda at: (31 * sender + at) % length + 1

    def _tiles(self, array: Any, first: int, pattern: tuple[int, Any]) -> Iterator[tuple[Any, Any]]:
        import torch

        period, values = pattern
        length = max(1, 2**20 // period) * period  # for all of a large array, the places would need more memory than it
        at = torch.arange(first, first + min(length, array.numel()), device=self.device)
        tile = values(at).to(array.dtype)
        for begin in range(0, array.numel(), length):
            part = array[begin : begin + length]
            yield part, tile[: part.numel()]

    def _paint(self, array: Any, first: int, pattern: tuple[int, Any]) -> None:
        for part, tile in self._tiles(array, first, pattern):
            part.copy_(tile)

    def _differing(self, array: Any, first: int, pattern: tuple[int, Any]) -> int:
        found: Any = 0
        for part, tile in self._tiles(array, first, pattern):
            found = found + (part != tile).sum()
        return int(found)


# ---------------------------------------------------------------- what rank 0 prints


class Voice:
    """What people, or programs, read. May be used by two threads."""

    def __init__(self, form: str) -> None:
        self.form = form  # table, json, events
        self.rows: list[Row] = []
        self.problems: list[Problem] = []
        self.began = time.monotonic()
        self.facts: dict[str, Any] = {}
        self.lock = threading.RLock()

    def put(self, kind: str, value: dict[str, Any], line: str) -> None:
        with self.lock:
            if self.form == "events":
                sys.stdout.write(MARK + json.dumps({"e": kind, **value}) + "\n")
            elif self.form == "table":
                sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def begin(self, comm: str, world: int, nodes: dict[str, list[int]], torch_version: str, device: str) -> None:
        self.facts = {"comm": comm, "world_size": world, "nodes": len(nodes), "torch": torch_version, "device": device}
        self.put("bench", self.facts, headline(self.facts) + "\n" + table_line(None))

    def row(self, rows: list[Row]) -> None:
        self.rows += rows
        slowest = max(rows, key=lambda row: row.seconds)
        for index in range(len(rows)):
            if self.form == "events" or rows[index] is slowest:
                place = {"group_index": index, "groups": len(rows)}
                self.put("row", {**asdict(rows[index]), **place}, table_line(slowest))

    def problem(self, problem: Problem) -> None:
        self.problems.append(problem)
        self.put("problem", asdict(problem), f"bench: {problem}")

    def end(self) -> None:
        last = {"ok": not self.problems, "seconds": round(time.monotonic() - self.began, 3)}
        self.put("end", last, f"bench: {'ok' if last['ok'] else 'failed'} in {last['seconds']:.1f} s")
        if self.form == "json":
            rows, problems = [asdict(one) for one in self.rows], [asdict(one) for one in self.problems]
            sys.stdout.write(json.dumps({**last, **self.facts, "results": rows, "problems": problems}) + "\n")
            sys.stdout.flush()


def headline(facts: dict[str, Any]) -> str:
    ranks, nodes = facts["world_size"], facts["nodes"]
    where = f"{ranks} rank{'s' * (ranks > 1)} on {nodes} node{'s' * (nodes > 1)}"
    return f"{where}, {facts['comm']}, {facts['device']}, torch {facts['torch']}"


def table_line(row: Row | None) -> str:
    """Return one line of the table for people, or its head."""
    cells = ("scope", "collective", "type", "size", "time", "algbw GB/s", "busbw GB/s", "wrong", "slowest")
    if row is not None:
        micro = row.seconds * 1e6
        spent = f"{micro:.1f} us" if micro < 1e4 else f"{micro / 1e3:.1f} ms"
        several = row.scope in ("intra", "pairs")
        who = f"rank {row.slowest} on {row.host}" + (f" ({row.group})" if several and row.group != row.host else "")
        numbers = (spent, f"{row.algbw:.3f}", f"{row.busbw:.3f}", str(row.wrong), who)
        if row.note:
            numbers = ("-", "-", "-", "-", row.note)
        cells = (row.scope, row.op, row.dtype, show_size(row.bytes), *numbers)
    widths = (6, 14, 9, -9, -10, -11, -11, -6, 0)
    shown = [f"{cells[i]:{'>' if widths[i] < 0 else '<'}{abs(widths[i])}}" for i in range(8)]
    return " ".join([*shown, " " + cells[8]]).rstrip()


# ---------------------------------------------------------------- one rank


class Bench:
    """One rank at work. A second thread sees when it makes no progress, and what the others say of themselves."""

    def __init__(self, place: Place, args: argparse.Namespace) -> None:
        self.place, self.args = place, args
        self.voice = Voice("events" if os.environ.get("DDPKIT_EVENTS") == "1" else "json" if args.json else "table")
        self.hosts: list[str] = [""] * place.world_size
        self.room: Room | None = None
        self.comm = "gloo"
        self.advice = ADVICE["gloo"]
        self.step, self.where, self.error = -1, "", ""
        self.inside = False  # in work that ends soon: what one waits for outside is the work of others
        self.moved = time.monotonic()
        self.ending = threading.Lock()  # who has it, ends this process
        self.main = threading.get_ident()
        self.said: set[Any] = set()
        self.wake, told = os.pipe()
        os.set_blocking(told, False)
        with contextlib.suppress(ValueError):  # not in the main thread
            # torchrun sends TERM to all as soon as one has failed. The main thread may be in torch, and would not see
            # it; the other one still says what there is to say.
            signal.signal(signal.SIGTERM, lambda *_: None)
            signal.set_wakeup_fd(told, warn_on_full_buffer=False)

    # ---- the second and third thread

    def late(self) -> float:
        """Return the seconds beyond the patience; others' work may take longer than one's own."""
        patience: float = self.args.timeout * (1 if self.inside else 4)
        return time.monotonic() - self.moved - patience

    def watch(self) -> None:
        while True:
            told = bool(select.select([self.wake], [], [], 0.5)[0])
            if self.room is None:
                if told:
                    os._exit(128 + signal.SIGTERM)
                continue
            try:
                if told or self.error or self.late() > 0 or self.room.aside.check(["bad"]):
                    self.part(told)
            except RuntimeError:  # of the store
                self.quit(0 if self.place.rank == 0 else GRACE)

    def last_resort(self) -> None:
        """Where rank 0 stands still, what is asked of its store never comes back."""
        while self.late() < 3 * GRACE:
            time.sleep(0.5)
        self.quit(0)

    def quit(self, grace: float) -> NoReturn:
        """Rank 0 is gone, or its host: say so, unless we are being ended anyway."""
        told = select.select([self.wake], [], [], grace)[0]
        self.ending.acquire(blocking=False)
        if not told and self.place.rank:
            fix = "look at its own last lines, and in dmesg there for one that was killed"
            self.voice.problem(Problem(0, self.hosts[0], f"does not answer any more, near {self.where}", fix))
        os._exit(BAD)

    def met(self) -> Room:
        assert self.room is not None
        return self.room

    def state(self, told: bool) -> dict[str, Any]:
        frame = sys._current_frames().get(self.main)
        stack = traceback.extract_stack(frame)
        last = stack[-1]
        return {
            "step": self.step,
            "where": self.where,
            "seconds": time.monotonic() - self.moved,
            "error": self.error,
            "ended": told,
            "inside": self.inside,
            "torch": f"{os.sep}torch{os.sep}" in last.filename,
            "at": f"{last.filename.rpartition(os.sep)[2]}:{last.lineno} ({last.name})",
        }

    def part(self, told: bool) -> NoReturn:
        """Something is wrong: say where this rank is; rank 0 hears all, and says who it was."""
        self.ending.acquire()
        threading.Timer(4 * GRACE, os._exit, (BAD,)).start()
        room, ranks = self.met(), range(self.place.world_size)
        room.tell("bad", True)
        room.tell(f"state {self.place.rank}", self.state(told))
        if self.place.rank == 0:
            heard = room.collect([f"state {rank}" for rank in ranks], 2 if told else GRACE)
            states = {rank: heard[f"state {rank}"] for rank in ranks if f"state {rank}" in heard}
            problems = find_guilty(states, self.hosts, self.comm, self.advice)
            for problem in problems:
                self.voice.problem(problem)
            if problems:
                self.voice.end()
            room.tell("over", True)
            room.collect([f"read {rank}" for rank in ranks if rank and rank in states], 2)
            os._exit(BAD if problems else 128 + signal.SIGTERM)
        over = room.collect(["over"], 2 * GRACE)
        room.tell(f"read {self.place.rank}", bool(over))
        os._exit(128 + signal.SIGTERM if told else BAD)

    # ---- the main thread

    def run(self) -> int:
        import torch

        place, args, host = self.place, self.args, socket.gethostname()
        if place.rank == 0:
            raise_limit()
        try:
            for target in (self.watch, self.last_resort):
                threading.Thread(target=target, daemon=True).start()
            room = Room(place, 2 * args.timeout)  # starts may lie apart: an import from a slow disk
            self.room = room
            count = torch.cuda.device_count()
            # A rank that sees one device has been given that one; else the local rank chooses.
            index = 0 if count == 1 else place.local_rank
            room.say(f"here {place.rank}", self.introduce(host, count, index))
            plan = self.agree() if place.rank == 0 else room.hear(["plan"], 2 * args.timeout + GRACE).get("plan", {})
        except (RuntimeError, OSError) as error:  # of the store
            return self.no_room(host, first_line(error))
        if not plan:
            fix = "look at what rank 0 says"
            self.voice.problem(Problem(place.rank, host, "rank 0 does not go on", fix))
            return BAD
        if plan["go"]:
            self.hosts, self.comm, self.advice = plan["hosts"], plan["comm"], ADVICE[plan["comm"]]
            self.device = torch.device("cuda", index) if self.comm == "nccl" else torch.device("cpu")
            self.moved = time.monotonic()
            try:
                self.measure(plan["nodes"])
            except Exception as error:
                self.error = first_line(error)
                time.sleep(10 * GRACE)  # the other thread ends this process
        self.ending.acquire()  # from here on all is well, or said
        if place.rank == 0:
            if args.min_busbw is not None:
                for problem in find_slow(self.voice.rows, args.min_busbw):
                    self.voice.problem(problem)
            self.voice.end()
            room.say("over", bool(self.voice.problems))
            # The store may end with this process: those who are there read it before.
            room.hear([f"read {rank}" for rank in range(1, place.world_size)], 2 * GRACE if plan["go"] else 2)
            return BAD if self.voice.problems else 0
        over = room.hear(["over"], args.timeout).get("over", True)
        room.say(f"read {place.rank}", True)
        return BAD if over else 0

    def introduce(self, host: str, count: int, index: int) -> dict[str, Any]:
        import torch

        device, identity = "cpu", ""
        if index < count:
            about: Any = torch.cuda.get_device_properties(index)
            device, identity = about.name, str(getattr(about, "uuid", ""))  # torch >= 2.3
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                boot = file.read()  # two machines may have one name
        except OSError:
            boot = ""
        return {"host": host, "boot": boot, "device": device, "gpu": identity, "torch": str(torch.__version__)}

    def agree(self) -> dict[str, Any]:
        """Rank 0 hears all, and says what will be done."""
        import torch.distributed as dist

        world, args = self.place.world_size, self.args
        room = self.met()
        heard = room.hear([f"here {rank}" for rank in range(world)], 2 * args.timeout)
        came = {rank: heard[f"here {rank}"] for rank in range(world) if f"here {rank}" in heard}
        fix = "look at its first error; were so many processes started, and does every node reach rank 0's address?"
        problems = [
            Problem(r, "", f"did not come within {2 * args.timeout:g} s", fix) for r in range(world) if r not in came
        ]
        if world == 1:
            problems.append(Problem(None, "", "one rank alone has nobody to talk to", "start two or more"))
        gpus = [rank for rank, one in came.items() if one["device"] != "cpu"]
        comm = args.comm if args.comm != "auto" else "nccl" if gpus else "gloo"
        users: dict[str, int] = {}
        for rank, one in came.items():
            if comm == "nccl" and rank not in gpus:
                fix = "one rank per GPU; CUDA_VISIBLE_DEVICES and nvidia-smi there say more; --comm gloo needs none"
                problems.append(Problem(rank, one["host"], "torch sees no GPU for it here", fix))
            elif comm == "nccl" and one["gpu"] and users.setdefault(one["gpu"], rank) != rank:
                what = f"uses the same GPU as rank {users[one['gpu']]}: {one['device']} {one['gpu']}"
                problems.append(Problem(rank, one["host"], what, "start one rank per GPU (CUDA_VISIBLE_DEVICES)"))
        if comm == "nccl" and not dist.is_nccl_available():
            problems.append(Problem(0, came[0]["host"], "this torch has no NCCL", "--comm gloo"))
        machines = [(one["host"], one["boot"]) for one in came.values()]
        twice = {host for host, boot in machines if len({b for h, b in machines if h == host}) > 1}
        names = [host if host not in twice else f"{host}/{boot[:8]}" for host, boot in machines]
        if not problems and args.scope and not lay_out(names, args.scope):
            what = f"--scope {','.join(args.scope)}: there is nothing of the kind"
            fix = "intra needs two ranks on a node, inter and pairs two nodes; --scope world"
            problems.append(Problem(None, "", f"{what} with {world} ranks on {len(set(names))} nodes", fix))
        nodes: dict[str, list[int]] = {}
        for rank in range(len(names)):
            nodes.setdefault(names[rank], []).append(rank)
        if not problems:
            self.voice.begin(comm, world, nodes, came[0]["torch"], came[0]["device"])
        for problem in problems:
            self.voice.problem(problem)
        plan = {"go": not problems, "comm": comm, "nodes": names, "hosts": [one["host"] for one in came.values()]}
        room.say("plan", plan)
        return plan

    def no_room(self, host: str, said: str) -> int:
        where = f"{self.place.master_addr}:{self.place.master_port}"
        problem, fix = (
            f"does not reach rank 0 at {where}: {said}",
            "is rank 0 running, and is that port open from here?",
        )
        if self.place.rank == 0:
            problem, fix = f"cannot listen at {where}: {said}", "another MASTER_PORT; is this an address of its host?"
        self.voice.problem(Problem(self.place.rank, host, problem, fix))
        return BAD

    def measure(self, nodes: list[str]) -> None:
        import torch
        import torch.distributed as dist

        args, loose = self.args, dist  # type: Any, Any
        self.inside, self.where = True, f"starting {self.comm}"
        patience = datetime.timedelta(seconds=4 * args.timeout + 60)  # the other thread is to speak first
        options: dict[str, Any] = {"rank": self.place.rank, "world_size": self.place.world_size, "timeout": patience}
        if self.comm == "nccl":
            torch.cuda.set_device(self.device)
            if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) >= (2, 3):
                options["device_id"] = self.device
        dist.init_process_group(self.comm, store=loose.PrefixStore("group", self.met().work), **options)
        scopes = lay_out(nodes, args.scope)
        handles: dict[tuple[int, ...], Any] = {tuple(range(len(nodes))): loose.group.WORLD}
        meeting = tuple(dict(reversed([(nodes[rank], rank) for rank in range(len(nodes))])).values())
        meeting = tuple(sorted(meeting))  # the first rank of each node: two of them talk in their common group
        for scope in scopes:
            for group in scope.groups:
                ranks = meeting if scope.name == "pairs" else group.ranks
                if ranks not in handles:
                    handles[ranks] = dist.new_group(list(ranks), timeout=patience)
                    if self.place.rank in ranks:
                        dist.all_reduce(torch.zeros(1, device=self.device), group=handles[ranks])
                    self.moved = time.monotonic()
        dist.all_reduce(torch.zeros(1, device=self.device))
        listed = cases(scopes, args.ops, args.dtypes, sizes(args.min_bytes, args.max_bytes, args.factor))
        for self.step in range(len(listed)):
            case = listed[self.step]
            mine = next((group for group in case[0].groups if self.place.rank in group.ranks), None)
            handle = None if mine is None else handles[meeting if case[0].name == "pairs" else mine.ranks]
            self.one(case, mine, handle)
        self.inside = False

    def one(self, case: Any, mine: Group | None, handle: Any) -> None:
        """Measure one case. Ranks agree by the store on what depends on times, so that a wrong sum misleads nobody."""
        scope, op, dtype, size = case
        room, rank, step = self.met(), self.place.rank, self.step
        self.moved = time.monotonic()
        self.where = f"{op} of {show_size(size)} {dtype} ({scope.name})"
        members = [rank for group in scope.groups for rank in group.ranks]
        wrong = 0
        work = None
        if mine is not None:
            self.inside = True
            estimate, note = 0.0, ""
            work = Work(op, mine, rank, handle, dtype, size, self.device)
            try:
                wrong = work.check(work.turns, self)
                estimate = work.time(1, self)
            except UnsupportedError as error:
                note = str(error)
            room.say(f"took {step} {rank}", [estimate, note])
        self.inside = False
        if rank == 0:
            took = self.everyone("took", members).values()
            note = next((note for _, note in took if note), "")
            longest = max(1e-7, *(seconds for seconds, _ in took))
            warm = max(1, min(self.args.warmup, int(self.args.seconds / 2 / longest)))
            rounds = self.args.iters or max(2, min(10000, int(self.args.seconds / longest)))
            room.say(f"plan {step}", {"warm": warm, "rounds": rounds, "slow": longest > 0.5, "note": note})
        plan = room.hear([f"plan {step}"], 9 * self.args.timeout).get(f"plan {step}")
        if plan is None:
            raise TimeoutError("rank 0 does not go on")
        if work is not None and not plan["note"]:
            self.inside = True
            self.moved = time.monotonic()
            work.time(plan["warm"], self, plan["slow"])
            seconds = work.time(plan["rounds"], self, plan["slow"])
            wrong += work.check(1, self)
            room.say(f"got {step} {rank}", [seconds, wrong])
            self.inside = False
        if rank == 0:
            got = {} if plan["note"] else self.everyone("got", members)
            if plan["note"]:
                nothing = dict.fromkeys(members, (1.0, 0))
                rows = [make_row(case, group, 0, nothing, self.hosts) for group in scope.groups]
                rows = [Row(**{**asdict(row), "note": f"{self.comm}: {plan['note']}"[:200]}) for row in rows]
            else:
                rows = [make_row(case, group, plan["rounds"], got, self.hosts) for group in scope.groups]
            self.voice.row(rows)
            for problem in find_wrong(case, got, self.hosts):
                key = (problem.rank, scope.name, op, dtype)
                if key not in self.said:  # once, and not for each size
                    self.voice.problem(problem)
                self.said.add(key)

    def everyone(self, key: str, members: list[int]) -> dict[int, Any]:
        """Hear all that take part; one that stands still outside of any collective would keep only rank 0 waiting."""
        heard = self.met().hear([f"{key} {self.step} {rank}" for rank in members], 2 * self.args.timeout)
        found = {rank: heard[f"{key} {self.step} {rank}"] for rank in members if f"{key} {self.step} {rank}" in heard}
        missing = [rank for rank in members if rank not in found]
        if missing:
            raise TimeoutError(f"nothing is heard from {', '.join(f'rank {rank}' for rank in missing[:8])}")
        return found


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def raise_limit() -> None:
    """Two connections from every rank are more than the usual 1024 open files."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def listed(text: str, known: Sequence[str], what: str) -> list[str]:
    """Split `a,b` into names that are known. Raises ValueError."""
    found = []
    for word in text.split(","):
        name = ALIASES.get(word.strip(), word.strip())
        if name not in known:
            raise ValueError(f"{word!r} is not a {what}: {', '.join(known)}")
        found += [name] if name not in found else []
    return found


def options() -> argparse.ArgumentParser:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("collectives.py", description=__doc__, formatter_class=style)
    add: Any = parser.add_argument

    def names(known: Sequence[str], what: str) -> Any:
        def convert(text: str) -> list[str]:
            try:
                return listed(text, known, what)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None

        return convert

    def size(text: str) -> int:
        try:
            return parse_size(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    add("-b", "--min-bytes", "--minbytes", type=size, default=8, metavar="SIZE", help="smallest size (8)")
    add("-e", "--max-bytes", "--maxbytes", type=size, default=2**27, metavar="SIZE", help="largest size (128M)")
    add("-f", "--factor", "--stepfactor", type=int, default=4, metavar="N", help="between two sizes (4)")
    add("-n", "--iters", type=int, default=0, metavar="N", help="timed rounds; default: as many as --seconds hold")
    add("-w", "--warmup", "--warmup_iters", type=int, default=5, metavar="N", help="rounds before (5, or fewer)")
    add("-d", "--dtypes", "--datatype", type=names(DTYPES, "type"), default=["float32"], metavar="TYPE[,TYPE]")
    add("--ops", type=names(OPS, "collective"), default=list(OPS), metavar="OP[,OP]", help=",".join(OPS))
    add("--scope", type=names(SCOPES, "scope"), default=[], metavar="SCOPE[,SCOPE]", help="world,intra,inter,pairs")
    add("--comm", choices=("auto", "nccl", "gloo"), default="auto", help="auto: nccl where there are GPUs")
    add("--seconds", type=float, default=0.2, metavar="S", help="time for the rounds of one size (0.2)")
    add("--timeout", type=float, default=30, metavar="S", help="without any progress, for each step (30)")
    add("--min-busbw", type=float, metavar="GB/s", help="less at the best size is a failure, with exit code 3")
    add("--json", action="store_true", help="print one JSON object instead of a table")
    return parser


def main(argv: list[str]) -> int:
    """Run as one rank. Returns the exit code."""
    parser = options()
    args = parser.parse_args(argv)
    if args.min_bytes > args.max_bytes:
        parser.error(f"--min-bytes {show_size(args.min_bytes)} is more than --max-bytes {show_size(args.max_bytes)}")
    if args.factor < 2 or args.iters < 0 or args.warmup < 0:
        parser.error("--factor is 2 or more; --iters and --warmup are 0 or more")
    if not (0 < args.seconds < 1e5 and 0 < args.timeout < 1e5):
        parser.error("--seconds and --timeout have to be greater than 0")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # what the store tries in vain is said here, once
    host = socket.gethostname()
    try:
        place = find_place(os.environ)
    except (ValueError, KeyError, OSError, subprocess.CalledProcessError) as error:
        fix = "start it with torchrun, srun or ddpkit, or unset what is left over"
        sys.stderr.write(f"bench: {Problem(int(os.environ.get('RANK') or 0), host, first_line(error), fix)}\n")
        return BAD
    try:
        import torch.distributed as dist

        missing = "" if dist.is_available() else "this torch has no torch.distributed"
    except ImportError as error:
        missing = first_line(error)
    bench = Bench(place, args)
    if missing:
        fix = "start it with a Python that has torch with torch.distributed"
        bench.voice.problem(Problem(place.rank, host, f"{sys.executable}: {missing}", fix))
        return BAD
    return bench.run()


if __name__ == "__main__":
    if "__file__" in globals() and sys.path[:1] == [os.path.dirname(os.path.abspath(__file__))]:  # noqa: PTH100, PTH120
        del sys.path[0]  # started from its own folder, which has a torch.py that is not PyTorch
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit(): a thread of gloo that still runs while the interpreter is being torn down can abort (torch 2.13).
    os._exit(exit_code)
