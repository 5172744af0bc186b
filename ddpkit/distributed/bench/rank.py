"""One rank of the collectives benchmark: it joins the others, measures each case with them, and ends as they do."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import socket
import time
from typing import Any

from ddpkit.distributed.bench.agreement import (
    check_ranks,
    check_scopes,
    choose_backend,
    describe_bench_rank,
    name_nodes,
)
from ddpkit.distributed.bench.cases import Case, Scope, is_in_place, list_cases, list_scopes, ranks_by_node, size_range
from ddpkit.distributed.bench.collective import Collective, UnsupportedError
from ddpkit.distributed.bench.output import Output
from ddpkit.distributed.bench.results import BenchFailure, find_slow_groups, find_wrong_results, measure_group
from ddpkit.distributed.bench.store import BenchStore
from ddpkit.distributed.bench.watchdog import Watchdog
from ddpkit.distributed.check import (
    BAD,
    GPU_START_FIX,
    GpuStartError,
    RankEnv,
    count_gpus,
    deciding_line,
    gpu_index,
)


class BenchRank:
    """The main thread of one rank. Ranks agree by the store, so that a wrong sum misleads no rank."""

    def __init__(self, env: RankEnv, args: argparse.Namespace, grace: float, output: Output) -> None:
        self.env, self.args, self.grace, self.output = env, args, grace, output
        self.watchdog = Watchdog(env, args.timeout, grace, output)
        self.reported: set[Any] = set()  # of wrong results: once for all sizes

    def run(self) -> int:
        """Run the benchmark. Returns the exit code."""
        import torch

        env, args = self.env, self.args
        if env.rank == 0:
            raise_file_limit()
        try:
            self.watchdog.start()
            count = count_gpus()
            self.store = BenchStore(env, 2 * args.timeout)  # starts may lie apart: an import from a slow disk
            self.watchdog.store = self.store
            self.store.publish(f"here {env.rank}", describe_bench_rank(env, count))
            if env.rank == 0:
                plan = self._agree()
            else:
                plan = self.store.wait_for(["plan"], 2 * args.timeout + self.grace).get("plan", {})
        except GpuStartError as error:
            return self._fail_alone(f"torch cannot use the GPUs of this node: {error}", GPU_START_FIX)
        except (RuntimeError, OSError) as error:  # of the store
            return self._fail_without_store(deciding_line(error))
        if not plan:
            text, fix = "rank 0 does not proceed", "read the output of rank 0"
            self.output.add_failure(BenchFailure(env.rank, socket.gethostname(), text, fix))
            return BAD
        if plan["go"]:
            self.comm = self.watchdog.comm = plan["comm"]
            self.hosts = self.watchdog.hosts = plan["hosts"]
            self.device = torch.device("cuda", gpu_index(env, count)) if self.comm == "nccl" else torch.device("cpu")
            self.watchdog.note_progress()
            try:
                self.measure(plan["nodes"])
            except Exception as error:
                self.watchdog.error = deciding_line(error)
                time.sleep(10 * self.grace)  # the watchdog ends this process
        self.watchdog.finish()  # every failure is reported
        return self._conclude(bool(plan["go"]))

    def _agree(self) -> dict[str, Any]:
        """Decide, on rank 0, what is measured, and publish it."""
        world_size, args = self.env.world_size, self.args
        reports = self.store.wait_for_ranks("here", list(range(world_size)), 2 * args.timeout)
        comm = choose_backend(args.comm, reports)
        nodes = name_nodes(reports)
        failures = check_ranks(reports, world_size, 2 * args.timeout, comm)
        failures = failures or check_scopes(args.scope, nodes)
        if not failures:
            world = {"comm": comm, "world_size": world_size, "nodes": len(set(nodes))}
            self.output.begin({**world, "torch": reports[0]["torch"], "device": reports[0]["device"]})
        for failure in failures:
            self.output.add_failure(failure)
        hosts = [one["host"] for one in reports.values()]
        plan = {"go": not failures, "comm": comm, "nodes": nodes, "hosts": hosts}
        self.store.publish("plan", plan)
        return plan

    def _fail_without_store(self, error: str) -> int:
        endpoint = f"{self.env.master_addr}:{self.env.master_port}"
        text = f"cannot reach rank 0 at {endpoint}: {error}"
        fix = "check that rank 0 runs, and that the port is open from this node"
        if self.env.rank == 0:
            text, fix = (
                f"cannot listen at {endpoint}: {error}",
                "use another MASTER_PORT, and check that this is an address of its host",
            )
        return self._fail_alone(text, fix)

    def _fail_alone(self, text: str, fix: str) -> int:
        self.output.add_failure(BenchFailure(self.env.rank, socket.gethostname(), text, fix))
        return BAD

    def _conclude(self, measured: bool) -> int:
        if self.env.rank:
            over = self.store.wait_for(["over"], self.args.timeout).get("over", True)
            self.store.publish(f"read {self.env.rank}", True)
            return BAD if over else 0
        if self.args.min_busbw is not None:
            for failure in find_slow_groups(self.output.measurements, self.args.min_busbw):
                self.output.add_failure(failure)
        self.output.end()
        self.store.publish("over", bool(self.output.failures))
        # The store may end with this process: the other ranks read it before.
        readers = [f"read {rank}" for rank in range(1, self.env.world_size)]
        self.store.wait_for(readers, 2 * self.grace if measured else 2)
        return BAD if self.output.failures else 0

    def measure(self, nodes: list[str]) -> None:
        """Measure all cases; `nodes` has a node name per rank."""
        scopes = list_scopes(nodes, self.args.scope)
        # Two nodes of a pair use the group of the first ranks of all nodes.
        first_ranks = tuple(sorted(ranks[0] for ranks in ranks_by_node(nodes).values()))
        handles = self._start_groups(scopes, first_ranks)
        sizes = size_range(self.args.min_bytes, self.args.max_bytes, self.args.factor)
        for step, case in enumerate(list_cases(scopes, self.args.ops, self.args.dtypes, sizes)):
            self.watchdog.step, self.watchdog.doing = step, str(case)
            self.watchdog.note_progress()
            group = next((group for group in case.scope.groups if self.env.rank in group.ranks), None)
            collective = None
            if group is not None:
                self.watchdog.busy = True
                handle = handles[first_ranks if case.scope.name == "pairs" else group.ranks]
                progress = self.watchdog.note_progress
                collective = Collective(
                    case, group, self.env.rank, handle, self.device, progress, in_place=self.args.in_place
                )
            self._measure_case(case, collective)
        self.watchdog.busy = False

    def _start_groups(self, scopes: list[Scope], first_ranks: tuple[int, ...]) -> dict[tuple[int, ...], Any]:
        """Start the process groups of all scopes. Returns them by their ranks."""
        import torch
        import torch.distributed as dist

        torch_dist: Any = dist
        patience = datetime.timedelta(seconds=4 * self.args.timeout + 60)  # the watchdog reports first
        options: dict[str, Any] = {"rank": self.env.rank, "world_size": self.env.world_size, "timeout": patience}
        self.watchdog.busy = True
        if self.comm == "nccl":
            self._begin(-3, f"creating a CUDA context on {self.device}")
            torch.cuda.set_device(self.device)
            torch.cuda.synchronize(self.device)
        # No device_id: with one, new_group splits NCCL's communicator and holds the interpreter lock. If a rank hangs
        # then, no watchdog runs. Without one, NCCL connects in the first all_reduce, which releases the lock.
        self._begin(-2, f"starting {self.comm}")
        dist.init_process_group(self.comm, store=torch_dist.PrefixStore("group", self.store.work), **options)
        dist.all_reduce(torch.zeros(1, device=self.device))
        handles: dict[tuple[int, ...], Any] = {tuple(range(self.env.world_size)): torch_dist.group.WORLD}
        self._begin(-1, f"the first all_reduce over {self.comm}")
        for scope in scopes:
            for group in scope.groups:
                ranks = first_ranks if scope.name == "pairs" else group.ranks
                if ranks not in handles:
                    handles[ranks] = dist.new_group(list(ranks), timeout=patience)
                    if self.env.rank in ranks:
                        dist.all_reduce(torch.zeros(1, device=self.device), group=handles[ranks])
                    self.watchdog.note_progress()
        dist.all_reduce(torch.zeros(1, device=self.device))
        return handles

    def _begin(self, step: int, doing: str) -> None:
        """Record a part of the start. A rank in an earlier part than the others keeps them waiting."""
        self.watchdog.step, self.watchdog.doing = step, doing
        self.watchdog.note_progress()

    def _measure_case(self, case: Case, collective: Collective | None) -> None:
        step, rank = self.watchdog.step, self.env.rank
        members = [rank for group in case.scope.groups for rank in group.ranks]
        wrong = 0
        if collective is not None:
            estimate, note = 0.0, ""
            try:
                wrong = collective.check(collective.turns)
                estimate = collective.time(1)
            except UnsupportedError as error:
                note = str(error)
            self.store.publish(f"took {step} {rank}", [estimate, note])
        self.watchdog.busy = False
        if rank == 0:
            self._plan_rounds(members)
        plan = self.store.wait_for([f"plan {step}"], 9 * self.args.timeout).get(f"plan {step}")
        if plan is None:
            raise TimeoutError("rank 0 does not proceed")
        if collective is not None and not plan["note"]:
            self.watchdog.busy = True
            self.watchdog.note_progress()
            collective.time(plan["warm"], plan["slow"])
            seconds = collective.time(plan["rounds"], plan["slow"])
            host_seconds = collective.time_calls(plan["calls"])
            wrong += collective.check(1)
            self.store.publish(f"got {step} {rank}", [seconds, wrong, host_seconds])
            self.watchdog.busy = False
        if rank == 0:
            self._report_case(case, members, plan)

    def _plan_rounds(self, members: list[int]) -> None:
        """Choose, on rank 0, the rounds of the current case from the time of one round, and publish them."""
        estimates = self._read_members("took", members).values()
        note = next((note for _, note in estimates if note), "")
        longest = max(1e-7, *(seconds for seconds, _ in estimates))
        warm = max(1, min(self.args.warmup, int(self.args.seconds / 2 / longest)))
        rounds = self.args.iters or max(2, min(10000, int(self.args.seconds / longest)))
        calls = max(1, min(20, int(self.args.seconds / 4 / longest)))
        plan = {"warm": warm, "rounds": rounds, "calls": calls, "slow": longest > 0.5, "note": note}
        self.store.publish(f"plan {self.watchdog.step}", plan)

    def _report_case(self, case: Case, members: list[int], plan: dict[str, Any]) -> None:
        """Write, on rank 0, the measurements and wrong results of the current case."""
        if plan["note"]:
            note, rounds, timings = f"{self.comm}: {plan['note']}"[:200], 0, dict.fromkeys(members, (1.0, 0, 0.0))
        else:
            note, rounds, timings = "", plan["rounds"], self._read_members("got", members)
        groups = case.scope.groups
        in_place = is_in_place(case.op, asked=self.args.in_place)
        measured = [
            measure_group(case, group, rounds, timings, self.hosts, note, in_place=in_place) for group in groups
        ]
        self.output.add_measurements(measured)
        for failure in find_wrong_results(case, timings, self.hosts):
            key = (failure.rank, case.scope.name, case.op, case.dtype)
            if key not in self.reported:
                self.output.add_failure(failure)
            self.reported.add(key)

    def _read_members(self, topic: str, members: list[int]) -> dict[int, Any]:
        """Read the values of all members; a rank that hangs outside of any collective delays rank 0 alone."""
        values = self.store.wait_for_ranks(f"{topic} {self.watchdog.step}", members, 2 * self.args.timeout)
        missing = [rank for rank in members if rank not in values]
        if missing:
            raise TimeoutError(f"no message from {', '.join(f'rank {rank}' for rank in missing[:8])}")
        return values


def raise_file_limit() -> None:
    """Raise the limit of open files: two connections from every rank are more than the usual 1024."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
