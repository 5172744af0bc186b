"""Rank program of `ddpkit bench`: all_reduce, all_gather and reduce_scatter over a range of sizes, timed and checked.

Time is that of one call, on the slowest rank. algbw = size / time, in GB/s (10^9 bytes a second). busbw is what the
busiest link carries. With n ranks it is algbw * 2(n-1)/n for all_reduce, and algbw * (n-1)/n for all_gather and
reduce_scatter: doc/PERFORMANCE.md of nccl-tests. The size is that of the whole array, also where each rank has a share.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    Values = Callable[[torch.Tensor], torch.Tensor]  # from the indices of elements to what they hold

OPS = ("all_reduce", "all_gather", "reduce_scatter")
EVENT = "\x1eddpkit "  # as in `rank_program.py`
WIDTH = 4  # bytes of an element: float32
SECONDS = 0.2  # for the timed calls of one size
WARM_UP, MOST_CALLS = 5, 1000
CHUNK = 1 << 20  # elements: the indices of a whole large array would need more memory than the array


def element_counts(op: str, ranks: int, least: int, most: int, factor: int) -> list[int]:
    """Return the elements of the whole array for each size from `least` to `most` bytes.

    Where each rank has a share, all shares are equal: small sizes may then be one.
    """
    share = 1 if op == "all_reduce" else ranks
    counts = []
    while least <= most:
        counts.append(max(1, least // WIDTH // share) * share)
        least *= factor
    return list(dict.fromkeys(counts))


def bus_factor(op: str, ranks: int) -> float:
    """Return busbw / algbw."""
    return (2 if op == "all_reduce" else 1) * (ranks - 1) / ranks


class Collective:
    """One collective of one size, with arrays whose values show a rank that is missing or was taken twice.

    float32 holds all values and sums exactly, whatever the order of the additions, for up to 13,000 ranks.
    """

    def __init__(self, op: str, count: int, rank: int, ranks: int, device: torch.device) -> None:
        import torch
        import torch.distributed

        self.op, self.rank, self.ranks, self.share, self.device = op, rank, ranks, count // ranks, device
        self.input = torch.zeros(self.share if op == "all_gather" else count, device=device)
        self.output = self.input
        if op != "all_reduce":
            self.output = torch.zeros(count if op == "all_gather" else self.share, device=device)
        dist: Any = torch.distributed  # torch 2.13 renames two collectives
        self._functions = {
            "all_reduce": dist.all_reduce,
            "all_gather": getattr(dist, "all_gather_single", dist.all_gather_into_tensor),
            "reduce_scatter": getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor),
        }

    def run(self) -> None:
        """Queue one call. On a CPU it returns at its end."""
        arrays = [self.input] if self.op == "all_reduce" else [self.output, self.input]
        self._functions[self.op](*arrays)

    def time(self, calls: int) -> float:
        """Return the seconds of one of so many calls, on this rank."""
        synchronize(self.device)
        began = time.perf_counter()
        for _ in range(calls):
            self.run()
        synchronize(self.device)
        return (time.perf_counter() - began) / calls

    def check(self) -> int:
        """Run one call. Returns the number of wrong elements on this rank."""
        own = _sent(self.rank) if self.op == "all_gather" else _summand(self.rank)
        for part, index in _chunks(self.input):
            part.copy_(own(index))
        if self.op != "all_reduce":
            self.output.zero_()
        self.run()
        if self.op == "all_gather":
            shares = [self.output[rank * self.share :][: self.share] for rank in range(self.ranks)]
            return sum(_count_wrong(share, _sent(rank)) for rank, share in enumerate(shares))
        total = sum(_weight(rank) for rank in range(self.ranks))
        first = self.rank * self.share if self.op == "reduce_scatter" else 0
        return _count_wrong(self.output, lambda index: (index % 5 + 1) * total, first)


# Values of elements by their index: in an all_gather what a rank sends, else what it adds. Ranks differ.


def _weight(rank: int) -> int:
    return rank % 512 + 1


def _summand(rank: int) -> Values:
    return lambda index: (index % 5 + 1) * _weight(rank)


def _sent(rank: int) -> Values:
    return lambda index: (31 * rank + index) % 113 + 1


def _chunks(array: torch.Tensor, first: int = 0) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the parts of an array, each with the indices of its elements; `first` is the index of the first element."""
    import torch

    for begin in range(0, array.numel(), CHUNK):
        part = array[begin : begin + CHUNK]
        yield part, torch.arange(first + begin, first + begin + part.numel(), device=array.device)


def _count_wrong(array: torch.Tensor, values: Values, first: int = 0) -> int:
    return sum(int((part != values(index)).sum()) for part, index in _chunks(array, first))


def synchronize(device: torch.device) -> None:
    """Wait for all that was queued on an accelerator."""
    import torch

    if device.type != "cpu":
        getattr(torch, device.type).synchronize(device)


def measure(op: str, count: int, device: torch.device, hosts: list[str]) -> dict[str, Any]:
    """Measure a collective together with the other ranks. Returns the event of its row; a `note`: not measured."""
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    row: dict[str, Any] = {"e": "row", "op": op, "bytes": count * WIDTH}
    collective = Collective(op, count, rank, ranks, device)
    try:
        wrong = collective.check()
    except (RuntimeError, NotImplementedError) as error:  # raised before anything is sent, on all ranks alike
        if not re.search("(?i)not? support|unsupported|not implemented", str(error)):
            raise
        return {**row, "note": (str(error).splitlines() or [""])[0][:200]}
    longest = max(_from_all(collective.time(1)))
    calls = max(2, min(MOST_CALLS, int(SECONDS / max(longest, 1e-7))))
    collective.time(min(WARM_UP, calls))
    seconds = collective.time(calls)
    measured = _from_all((seconds, wrong + collective.check()))
    times = [taken for taken, _ in measured]
    slowest = times.index(max(times))
    algbw = count * WIDTH / times[slowest] / 1e9
    return {
        **row,
        "rounds": calls,
        "seconds": times[slowest],
        "algbw": algbw,
        "busbw": algbw * bus_factor(op, ranks),
        "wrong": sum(number for _, number in measured),
        "wrong_ranks": [rank for rank, (_, number) in enumerate(measured) if number],
        "slowest": slowest,
        "host": hosts[slowest],
        "note": "",
    }


def _from_all(value: Any) -> list[Any]:
    """Return the value of each rank."""
    import torch.distributed as dist

    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def send(event: dict[str, Any]) -> None:
    """Write an event for the launcher: one line in one write, which no other line can split."""
    sys.stdout.flush()
    os.write(1, (EVENT + json.dumps(event) + "\n").encode())


def main(argv: list[str]) -> int:
    """Run as one rank. Returns the exit code. Arguments: backend or `auto`, timeout, least, most, factor, OP,..."""
    comm, timeout, least, most, factor, ops = argv
    import torch
    import torch.distributed as dist

    from ddpkit.distributed.torch import device, init, shutdown
    from ddpkit.errors import EnvError

    os.environ.setdefault("NCCL_DEBUG", "WARN")  # an error of NCCL has its reason in a warning
    try:
        env = init(None if comm == "auto" else comm, timeout=float(timeout))
        own = torch.device("cpu") if dist.get_backend() == "gloo" else device(env)
    except EnvError as error:
        sys.stderr.write(f"ddpkit: error: {error.message}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return 1
    hosts: list[str] = _from_all(socket.gethostname())
    name = torch.cuda.get_device_name(own) if own.type == "cuda" else own.type
    if env.rank == 0:
        world = {"comm": dist.get_backend(), "world_size": env.world_size, "nodes": len(set(hosts))}
        send({"e": "bench", **world, "device": name, "torch": torch.__version__})
    for op in ops.split(","):
        wrong: set[int] = set()  # ranks that have been reported
        for count in element_counts(op, env.world_size, int(least), int(most), int(factor)):
            row = measure(op, count, own, hosts)
            if env.rank == 0:
                send(row)
                for rank in {*row.get("wrong_ranks", ())} - wrong:
                    wrong.add(rank)
                    problem = f"wrong result of {op} of {row['bytes']} bytes"
                    send({"e": "problem", "rank": rank, "host": hosts[rank], "problem": problem, "fix": "hardware"})
    shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
