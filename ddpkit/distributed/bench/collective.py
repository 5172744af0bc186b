"""One collective of the benchmark: its arrays, one round of it, its time, and the check of its result."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ddpkit.distributed.bench.cases import Case, Group, element_count, is_in_place
from ddpkit.distributed.check import deciding_line

if TYPE_CHECKING:
    Pattern = tuple[int, Callable[[Any], Any]]  # its length, and a function from indices to values


class UnsupportedError(Exception):
    """This torch has no such collective for such arrays."""


class Collective:
    """One collective of one size on one group of ranks.

    Values of the arrays show a missing, doubled or exchanged rank, in numbers that every type holds exactly. In a sum,
    each element gets a value from one rank and 0 from all others. That rank changes from element to element, and from
    turn to turn until each rank has had every element. In other collectives the values depend on the sender.
    `on_progress` is called after each round.
    """

    def __init__(
        self,
        case: Case,
        group: Group,
        rank: int,
        handle: Any,
        device: Any,
        on_progress: Callable[[], None],
        *,
        in_place: bool = False,
    ) -> None:
        import torch
        import torch.distributed as dist

        _, op, dtype, size = case
        self.op, self.group, self.handle, self.device = op, group, handle, device
        self.on_progress = on_progress
        self.world_size, self.group_rank = len(group.ranks), group.ranks.index(rank)
        kind = getattr(torch, dtype)
        width = torch.empty(0, dtype=kind).element_size()
        self.count = element_count(op, size, self.world_size, width)
        share = self.count // self.world_size if op in ("all_gather", "reduce_scatter") else self.count
        self.input = torch.zeros(self.count if op == "reduce_scatter" else share, dtype=kind, device=device)
        in_place = is_in_place(op, asked=in_place)
        self.output = self.input
        if not in_place:
            self.output = torch.zeros(self.count if op == "all_gather" else share, dtype=kind, device=device)
        elif op == "all_gather":
            self.output = torch.zeros(self.count, dtype=kind, device=device)
            self.input = self._own_share(self.output)
        elif op == "reduce_scatter":
            self.output = self._own_share(self.input)
        torch_dist: Any = dist  # torch's stubs leave out some collectives
        if op == "all_gather":  # torch 2.13 renames both
            self.call = getattr(torch_dist, "all_gather_single", torch_dist.all_gather_into_tensor)
        elif op == "reduce_scatter":
            self.call = getattr(torch_dist, "reduce_scatter_single", torch_dist.reduce_scatter_tensor)
        # Rounds of a check: each rank has its turn; two lengths of a pattern tell any two of many ranks apart.
        self.turns = -(-self.world_size // self.count) if op in ("all_reduce", "reduce_scatter") else 2

    def _own_share(self, array: Any) -> Any:
        share = self.count // self.world_size
        return array[self.group_rank * share : (self.group_rank + 1) * share]

    def run(self) -> None:
        """Run one round."""
        for work in self._queue(wait=True):
            work.wait()

    def _queue(self, *, wait: bool) -> list[Any]:
        """Give torch one round. Returns the parts of it that nothing waits for."""
        import torch.distributed as dist

        options = {"group": self.handle, "async_op": not wait}
        if self.op == "all_reduce":
            work = dist.all_reduce(self.input, **options)
        elif self.op in ("all_gather", "reduce_scatter"):
            work = self.call(self.output, self.input, **options)
        elif self.op == "broadcast":
            work = dist.broadcast(self.input, self.group.ranks[0], **options)
        else:  # to the next rank, from the one before, as nccl-tests do
            after, before = (
                self.group.ranks[(self.group_rank + 1) % self.world_size],
                self.group.ranks[self.group_rank - 1],
            )
            pair = [
                dist.P2POp(dist.isend, self.input, after, self.handle),
                dist.P2POp(dist.irecv, self.output, before, self.handle),
            ]
            return list(dist.batch_isend_irecv(pair))
        return [] if work is None else [work]

    def time_calls(self, rounds: int) -> float:
        """Return the median seconds of the host until torch has queued one round: nccl-tests, in C, has no such time.

        A call of gloo that waits returns at its end, so here none does. NCCL's never wait for the GPU.
        """
        import torch

        times = []
        for _ in range(rounds):
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)  # a full queue makes a call wait
            began = time.perf_counter()
            works = self._queue(wait=self.device.type == "cuda")
            times.append(time.perf_counter() - began)
            for work in works:
                work.wait()
            self.on_progress()
        return statistics.median(times) if times else 0.0

    def time(self, rounds: int, slow: bool = True) -> float:
        """Return the seconds of one round. `slow` rounds are synchronized one by one, to show progress."""
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
                    self.on_progress()
            end.record()
            end.synchronize()
            self.on_progress()
            return float(begin.elapsed_time(end)) / 1e3 / rounds
        began = time.perf_counter()
        for _ in range(rounds):
            self.run()
            self.on_progress()
        return (time.perf_counter() - began) / rounds

    def check(self, turns: int) -> int:
        """Return the number of wrong elements on this rank. Raises UnsupportedError."""
        wrong = 0
        for turn in range(turns):
            for array in (self.output, self.input):
                array.zero_()
            if self.op in ("all_reduce", "reduce_scatter"):
                self._fill(self.input, self._summand(self.group_rank, turn))
            elif self.op != "broadcast" or self.group_rank == 0:
                self._fill(self.input, self._sent(self.group_rank, turn))
            try:
                self.run()
            except (RuntimeError, NotImplementedError, TypeError) as error:
                # Raised before anything is sent, on all ranks alike.
                if turn == 0 and re.search("(?i)not? support|unsupported|not implemented|invalid scalar", str(error)):
                    raise UnsupportedError(deciding_line(error)) from None
                raise
            wrong += self._check_output(turn)
            self.on_progress()
        return wrong

    def _check_output(self, turn: int) -> int:
        size = self.output.numel()
        if self.op in ("all_reduce", "reduce_scatter"):
            first = size * self.group_rank if self.op == "reduce_scatter" else 0
            return self._count_wrong(self.output, self._sum(), first)
        if self.op == "all_gather":
            share = size // self.world_size
            parts = [self.output[sender * share : (sender + 1) * share] for sender in range(self.world_size)]
            return sum(self._count_wrong(part, self._sent(sender, turn)) for sender, part in enumerate(parts))
        sender = 0 if self.op == "broadcast" else (self.group_rank - 1) % self.world_size
        return self._count_wrong(self.output, self._sent(sender, turn))

    def _summand(self, rank: int, turn: int) -> Pattern:
        count, shift = self.world_size, turn * self.count
        return 7 * count, lambda index: (index % 7 + 1) * ((index + shift) % count == rank)

    def _sum(self) -> Pattern:
        return 7 * self.world_size, lambda index: index % 7 + 1

    def _sent(self, sender: int, turn: int) -> Pattern:
        length = 109 if turn % 2 else 113
        return length, lambda index: (31 * sender + index) % length + 1

    def _tiles(self, array: Any, pattern: Pattern, first: int) -> Iterator[tuple[Any, Any]]:
        import torch

        period, values = pattern
        length = max(1, 2**20 // period) * period  # indices of a whole large array would need more memory than it
        indices = torch.arange(first, first + min(length, array.numel()), device=self.device)
        tile = values(indices).to(array.dtype)
        for begin in range(0, array.numel(), length):
            part = array[begin : begin + length]
            yield part, tile[: part.numel()]

    def _fill(self, array: Any, pattern: Pattern) -> None:
        for part, tile in self._tiles(array, pattern, 0):
            part.copy_(tile)

    def _count_wrong(self, array: Any, pattern: Pattern, first: int = 0) -> int:
        wrong: Any = 0
        for part, tile in self._tiles(array, pattern, first):
            wrong = wrong + (part != tile).sum()
        return int(wrong)
