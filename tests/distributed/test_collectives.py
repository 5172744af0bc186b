"""The rank program of `ddpkit bench`: its formulas, its checks of results, and how it names a rank that is to blame.

Faults are put in by a few lines in front of it, in the rank's own process. Nothing here asserts a time.
"""

from __future__ import annotations

import ast
import itertools
import json
import signal
import socket
import subprocess
import sys
import zlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rank_processes import environment, free_port
from warm_python import WarmPython

from ddpkit.distributed.bench import cases, results
from ddpkit.distributed.bench.cases import DTYPES, OPS, Case, Group, Scope
from ddpkit.distributed.bench.results import Measurement
from ddpkit.distributed.check import EVENT
from ddpkit.preflight import rank_program

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "ddpkit/distributed/collectives.py"
PATIENCE = 120.0
HOST = socket.gethostname()
QUICK = ("-e", "2K", "-f", "16", "--seconds", "0.01", "--timeout", "4")
torch = pytest.mark.torch


class Ranks:
    """Ranks started by hand, each with `fault` in front of the program."""

    def __init__(self, world: int, *args: str, fault: str = "", **env: str) -> None:
        port = free_port()
        text = f"import os, signal, sys, time\nsys.path.insert(0, {str(ROOT)!r})\nRANK = int(os.environ['RANK'])\n"
        text += "os.environ['TORCH_CPP_LOG_LEVEL'] = 'FATAL'\n"
        text += "import torch.distributed as dist\nfrom ddpkit.distributed import collectives\n"
        text += "collectives.GRACE = 2.0\n"
        text += f"{fault}\nos._exit(collectives.main(sys.argv[1:]))\n"
        self.processes = []
        for rank in range(world):
            place = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)}
            place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **env}
            argv = [sys.executable, "-c", text, *QUICK, *args]
            self.processes.append(WarmPython(argv, env=environment(**place)))

    def end(self, stopped: tuple[int, ...] = ()) -> list[tuple[int, str, str]]:
        """Wait for all but those that stand still. Returns exit code, output and errors of each."""
        ended = []
        for rank, process in enumerate(self.processes):
            if rank not in stopped:
                said, failed = process.communicate(timeout=PATIENCE)
                ended.append((process.wait(), said, failed))
        return ended

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def ranks() -> Iterator[Any]:
    started: list[Ranks] = []

    def start(world: int, *args: str, fault: str = "", **env: str) -> Ranks:
        started.append(Ranks(world, *args, fault=fault, **env))
        return started[-1]

    yield start
    for each in started:
        each.close()


def problems(ended: list[tuple[int, str, str]]) -> list[str]:
    return [line for _, said, _ in ended for line in said.splitlines() if "FAILED" in line]


# ---------------------------------------------------------------- without torch


def test_its_parts_need_only_the_standard_library_of_python_3_8() -> None:
    *_, packed = rank_program.command("collectives", "bench")
    sources = json.loads(zlib.decompress(b64decode(packed)))
    assert {"ddpkit.distributed.resolver", "ddpkit.errors"} <= set(sources)
    for name, text in sources.items():
        tree = ast.parse(text, feature_version=(3, 8))
        imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {each for each in imported if each.startswith("ddpkit")} <= set(sources)
        foreign = {each.partition(".")[0] for each in imported} - {"ddpkit"} - set(sys.stdlib_module_names)
        assert foreign <= {"torch"}, name
        later = [node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)]
        assert not {"kw_only", "slots", "strict"} & set(later), f"{name}: keywords of Python 3.10"
        aliases = [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
        assert not any(isinstance(alias, ast.Subscript) for alias in aliases), f"{name}: Mapping[...] of Python 3.9"


def test_importing_it_does_nothing() -> None:
    text = f"import sys, os, signal; sys.path.insert(0, {str(ROOT)!r}); was = dict(os.environ)\n"
    text += "import ddpkit.distributed.collectives\nassert 'torch' not in sys.modules and was == dict(os.environ)\n"
    text += "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        # doc/PERFORMANCE.md of nccl-tests: 2(n-1)/n, (n-1)/n, (n-1)/n, 1; sendrecv.cu: 1.
        ("all_reduce", 2, 1.0),
        ("all_reduce", 4, 1.5),
        ("all_reduce", 8, 1.75),
        ("all_gather", 2, 0.5),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
        ("broadcast", 8, 1.0),
        ("sendrecv", 8, 1.0),
    ],
)
def test_the_formulas_are_those_of_nccl_tests(op: str, ranks: int, factor: float) -> None:
    assert cases.bus_factor(op, ranks) == factor


def test_a_row_by_hand() -> None:
    """64 MiB in 1 ms over 4 ranks: 67.108864 GB/s, of which an all_reduce moves 1.5 over the busiest wire."""
    scope = Scope("world", (Group("all", (0, 1, 2, 3)),))
    got = {0: (0.0009, 0, 2e-5), 1: (0.001, 0, 1e-5), 2: (0.0008, 2, 3e-5), 3: (0.0009, 0, 0.0)}
    case = Case(scope, "all_reduce", "float32", 2**26)
    row = results.measure_group(case, scope.groups[0], 7, got, ["a", "a", "b", "b"])
    assert (row.seconds, row.seconds_min, row.bytes, row.rounds, row.ranks) == (0.001, 0.0008, 2**26, 7, 4)
    assert row.seconds_avg == pytest.approx(0.0009)
    assert row.algbw == pytest.approx(67.108864)
    assert row.busbw == pytest.approx(100.663296)
    assert (row.slowest, row.host, row.wrong, row.host_seconds) == (1, "a", 2, 3e-5)
    # An array of shares is counted whole, as nccl-tests do; here it is cut to three equal ones: 21 * 3 * 4 bytes.
    three = Group("all", (0, 1, 2))
    row = results.measure_group(Case(Scope("world", (three,)), "all_gather", "float32", 256), three, 7, got, ["a"] * 3)
    assert row.bytes == 252
    assert row.busbw == pytest.approx(252 / 0.001 / 1e9 * 2 / 3)


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("64K", 65536), ("1k", 1024), ("128M", 2**27), ("1GiB", 2**30), ("2 MB", 2**21), ("1T", 2**40)],
)
def test_sizes_are_read(text: str, number: int) -> None:
    assert cases.parse_size(text) == number


@pytest.mark.parametrize("text", ["", "0", "-8", "8.5M", "M", "8X", "1e6", "8 8"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        cases.parse_size(text)


def test_sizes_are_shown() -> None:
    assert [cases.show_size(n) for n in (8, 1000, 1024, 2**20, 3 * 2**20, 2**30)] == [
        "8", "1000", "1K", "1M", "3M", "1G",
    ]  # fmt: skip
    assert cases.size_range(8, 200, 4) == [8, 32, 128]


def test_scopes() -> None:
    def names(nodes: str, *wanted: str) -> list[tuple[str, list[tuple[int, ...]]]]:
        found = cases.list_scopes(nodes.split(), wanted)
        return [(scope.name, [group.ranks for group in scope.groups]) for scope in found]

    assert names("a a") == [("world", [(0, 1)])]
    assert names("a b") == [("world", [(0, 1)])]  # inter would be the same again
    both = [("world", [(0, 1, 2, 3)]), ("intra", [(0, 1), (2, 3)]), ("inter", [(0, 2)])]
    assert names("a a b b") == both
    assert names("a b a b", "intra", "inter") == [("intra", [(0, 2), (1, 3)]), ("inter", [(0, 1)])]
    assert names("a a b", "intra") == [("intra", [(0, 1)])]  # a rank alone talks to nobody
    assert names("a a", "inter", "pairs") == []
    assert names("a b", "intra") == []


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 8])
def test_every_two_nodes_meet_once(nodes: int) -> None:
    found = cases.list_scopes([f"n{i}" for i in range(nodes) for _ in range(2)], ["pairs"])
    met = [group.ranks for scope in found for group in scope.groups]
    assert sorted(met) == list(itertools.combinations(range(0, 2 * nodes, 2), 2))
    for scope in found:
        busy = [rank for group in scope.groups for rank in group.ranks]
        assert len(busy) == len(set(busy))
    assert len(found) == nodes - 1 + nodes % 2


def test_sizes_that_are_one_are_measured_once() -> None:
    scopes = cases.list_scopes(["a"] * 4, [])
    found = cases.list_cases(scopes, ["all_gather", "broadcast"], ["float32"], [8, 16, 32])
    assert [(op, size) for _, op, _, size in found] == [
        ("all_gather", 8), ("all_gather", 32), ("broadcast", 8), ("broadcast", 16), ("broadcast", 32),
    ]  # fmt: skip


def row(**changes: Any) -> Measurement:
    fields: dict[str, Any] = {"scope": "world", "group": "all", "ranks": 4, "op": "all_reduce", "dtype": "float32"}
    fields |= {"bytes": 1024, "rounds": 5, "seconds": 0.1, "seconds_min": 0.1, "seconds_avg": 0.1, "algbw": 1.0}
    return Measurement(**{**fields, "busbw": 1.5, "wrong": 0, "slowest": 3, "host": "node2", **changes})


def test_the_time_of_python_in_words() -> None:
    """The size is the largest one at which the network takes less than half."""
    rows = [row(bytes=8, seconds=3e-5, host_seconds=2e-5), row(bytes=64, seconds=3e-5, host_seconds=2.2e-5)]
    rows += [row(bytes=2**20, seconds=1e-3, host_seconds=2.1e-5), row(op="broadcast", host_seconds=4e-6)]
    rows += [row(op="sendrecv", note="gloo: not supported")]
    assert results.host_share(rows) == (
        "Python and torch, per call: all_reduce 21 us (over half of the time up to 64), broadcast 4 us"
    )
    assert results.host_share(rows[-1:]) == ""
    assert results.host_share([row(host_seconds=1.7e-3)]) == "Python and torch, per call: all_reduce 1700 us"


def test_less_than_was_asked_for() -> None:
    rows = [row(busbw=0.1, bytes=8), row(busbw=20.0, bytes=2**20), row(busbw=19.0, bytes=2**21)]
    rows += [row(op="broadcast", busbw=70.0), row(op="sendrecv", busbw=0.0, note="gloo: not supported")]
    assert results.find_slow_groups(rows, 20) == []
    (slow,) = results.find_slow_groups(rows, 21)
    assert slow.problem == (
        "all_reduce (world: all, 4 ranks, float32): busbw 20 GB/s at its best size, 1M; required: 21"
    )
    assert "rank 3 on node2 was the slowest" in slow.fix
    assert "node9" in results.find_slow_groups([row(), row(scope="intra", group="node9", busbw=1)], 1.2)[0].problem


def state(**changes: Any) -> dict[str, Any]:
    usual = {"step": 4, "where": "broadcast of 8", "seconds": 9.0, "error": "", "ended": False, "inside": True}
    return {**usual, "torch": True, "at": "c10d.py:1 (wait)", **changes}


def test_who_is_to_blame() -> None:
    hosts = ["a", "a", "b"]

    def blamed(*states: dict[str, Any] | None) -> list[int | None]:
        heard = {rank: one for rank, one in enumerate(states) if one is not None}
        return [problem.rank for problem in results.blame_ranks(heard, hosts, "gloo", "advice")]

    lost = state(error="Connection closed by peer")
    assert blamed(state(), None, state()) == [1]
    assert blamed(lost, None, lost) == [1]  # what the others say is a consequence
    assert blamed(state(), state(), state(error="out of memory")) == [2]
    assert blamed(state(), state(torch=False, at="train.py:3"), state()) == [1]
    assert blamed(state(), state(), state(step=3)) == [2]
    assert blamed(state(torch=False, inside=False), state(), state()) == [None]  # rank 0 waits for the others' words
    assert blamed(state(), state(), state()) == [None]
    assert blamed(*[state(ended=True)] * 3) == []  # Ctrl-C
    context = state(step=-3, where="creating a CUDA context on cuda:1")
    (problem,) = results.blame_ranks({0: state(step=-2), 1: context, 2: state(step=-2)}, hosts, "nccl", "advice")
    assert (problem.rank, problem.host) == (1, hosts[1])
    assert problem.problem.endswith("near creating a CUDA context on cuda:1")
    (problem,) = results.blame_ranks({0: state(), 1: state()}, hosts, "gloo", "advice")
    assert (problem.host, problem.problem) == ("b", "ended, or hangs, near broadcast of 8")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("-b", "8X"), "8X is not a size"),
        (("-b", "2K", "-e", "1K"), "--min-bytes 2K is more than --max-bytes 1K"),
        (("--ops", "all_reduce,alltoall"), "'alltoall' is not a collective: all_reduce"),
        (("-d", "float8"), "'float8' is not a type: float32"),
        (("-f", "1"), "--factor is 2 or more"),
        (("--timeout", "nan"), "--timeout"),
    ],
)
def test_a_wrong_option(args: tuple[str, ...], said: str) -> None:
    argv = [sys.executable, str(SCRIPT), *args]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr


def test_what_is_incomplete_is_said() -> None:
    argv = [sys.executable, str(SCRIPT)]
    done = subprocess.run(argv, env=environment(RANK="0"), capture_output=True, text=True, check=False)
    assert done.returncode == 122
    assert "RANK=0 is set, but WORLD_SIZE, MASTER_ADDR and MASTER_PORT are not" in done.stderr


# ---------------------------------------------------------------- with torch


@torch
@pytest.mark.parametrize(("world", "flags"), [(2, ()), (4, ("--in-place",))])
def test_all_collectives_are_right(world: int, flags: tuple[str, ...], ranks: Any) -> None:
    ended = ranks(world, "--json", *flags).end()
    assert [code for code, _, _ in ended] == [0] * world, ended
    shown = json.loads(ended[0][1])
    assert (shown["ok"], shown["problems"], shown["comm"], shown["world_size"]) == (True, [], "gloo", world)
    assert {one["op"] for one in shown["results"]} == set(OPS)
    in_place = {"all_reduce", "broadcast"} | ({"all_gather", "reduce_scatter"} if flags else set())
    assert {one["op"] for one in shown["results"] if one["in_place"]} == in_place
    for one in shown["results"]:
        assert (one["note"], one["wrong"], one["ranks"]) == ("", 0, world)
        assert 0 < one["seconds_min"] <= one["seconds_avg"] <= one["seconds"]
        assert one["algbw"] == pytest.approx(one["bytes"] / one["seconds"] / 1e9)
        assert one["busbw"] == pytest.approx(one["algbw"] * cases.bus_factor(one["op"], world))
    assert [said for _, said, _ in ended[1:]] == [""] * (world - 1)


SLEEPS_BEFORE = """
called = dist.all_reduce
dist.all_reduce = lambda *args, **options: time.sleep(0.05) or called(*args, **options)
"""
SLEEPS_AFTER = """
waited = dist.Work.wait
dist.Work.wait = lambda *args: time.sleep(0.05) or waited(*args)
"""


@torch
@pytest.mark.parametrize(("fault", "shown"), [(SLEEPS_BEFORE, True), (SLEEPS_AFTER, False)], ids=["python", "network"])
def test_the_time_of_python_is_measured_apart(fault: str, shown: bool, ranks: Any) -> None:
    """Twenty calls of 50 ms, before torch has them or after."""
    args = ("--ops", "all_reduce", "-e", "8", "--iters", "2", "-w", "1", "--seconds", "4", "--timeout", "30", "--json")
    (code, said, failed), *_ = ranks(2, *args, fault=fault).end()
    assert code == 0, failed
    (one,) = json.loads(said)["results"]
    assert one["seconds"] > 0.05
    assert (one["host_seconds"] > 0.05) == (one["host_seconds"] > one["seconds"] / 2) == shown


@torch
def test_every_type(ranks: Any) -> None:
    ended = ranks(3, "--json", "-d", ",".join(DTYPES), "-b", "1K", "-e", "1K").end()
    assert [code for code, _, _ in ended] == [0, 0, 0], ended
    measured = {(one["op"], one["dtype"]) for one in json.loads(ended[0][1])["results"] if not one["note"]}
    assert measured >= {(op, dtype) for op in OPS for dtype in ("float32", "float16", "int64")}


@torch
def test_under_torchrun_from_its_own_folder() -> None:
    """Beside it there is a torch.py, which is not PyTorch."""
    port = free_port()
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={port}", str(SCRIPT)]
    done = subprocess.run([*argv, *QUICK], cwd="/", env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    head, names, *rows, share, last = done.stdout.splitlines()
    assert head.startswith("2 ranks on 1 node, gloo, cpu, torch ")
    assert names.split()[:4] == ["scope", "collective", "type", "size"]
    assert [line.split()[1] for line in rows[:: len(rows) // 5]] == list(OPS)
    assert share.startswith("Python and torch, per call: all_reduce ")
    assert last.startswith("bench: ok in ")


SWAPPED = """
name = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"
old = getattr(dist, name)
def swapped(out, *more, **options):
    work = old(out, *more, **options)
    work is None or work.wait()  # until then, the other ranks still receive from this memory
    out.copy_(out.roll(out.numel() // 3))
if RANK == 1: setattr(dist, name, swapped)
"""
# Each fault is complete before its call returns, also of a call that would not wait.
WHOLE = """
old = dist.all_reduce
def whole(array, **more):
    work = old(array, **more)
    work is None or work.wait()
"""
WRONG = {
    "a number": "whole(array, **more); array[-1:].add_(1)",
    "no sum at all": "None",
    "a rank is missing": "array.copy_(array * (RANK != 0)); whole(array, **more)",
    "a rank is doubled": "array.copy_(array * (1 + (RANK == 2))); whole(array, **more)",
}


@torch
@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_sum_is_found_and_its_rank_named(how: str, ranks: Any) -> None:
    only = "" if "rank" in how else "if RANK == 1: "
    fault = WHOLE + f"def bad(array, **more):\n    {WRONG[how]}\n{only}dist.all_reduce = bad"
    if how == "no sum at all":
        fault = WHOLE + "def bad(array, **more):\n    whole(array.clone(), **more)\n" + fault.splitlines()[-1]
    ended = ranks(3, "--ops", "all_reduce", fault=fault).end()
    assert [code for code, _, _ in ended] == [122, 122, 122], ended
    found = problems(ended)
    # Where all got a wrong sum all are named, once; where one did, that one.
    assert len(found) == (3 if "rank" in how else 1), ended
    assert any(f"rank 1 on {HOST}: wrong result: " in line for line in found), found
    assert "of all_reduce of 8 float32 (world)" in found[0]


@torch
@pytest.mark.parametrize(
    ("op", "fault"),
    [
        (
            "broadcast",
            "old = dist.broadcast\nif RANK == 1: dist.broadcast = lambda a, *m, **k: old(a.clone(), *m, **k)",
        ),
        ("sendrecv", "old = dist.P2POp\ndist.P2POp = lambda f, a, *m: old(f, a if RANK != 1 else a.clone(), *m)"),
        (
            "all_gather",
            SWAPPED,
        ),
    ],
)
def test_what_is_not_received_is_found(op: str, fault: str, ranks: Any) -> None:
    ended = ranks(3, "--in-place", "--ops", op, fault=fault).end()
    assert [code for code, _, _ in ended] == [122, 122, 122], ended
    (line,) = problems(ended)
    assert f"rank 1 on {HOST}: wrong result: " in line
    assert f"of {op} of " in line


@torch
@pytest.mark.parametrize(
    ("what", "fault", "said"),
    [
        ("sleeps", "dist.broadcast = lambda *a, **k: time.sleep(3600)", "hangs for "),
        ("stops", "dist.broadcast = lambda *a, **k: os.kill(os.getpid(), signal.SIGSTOP)", "ended, or hangs, near "),
        ("dies", "dist.broadcast = lambda *a, **k: os._exit(9)", "ended, or hangs, near "),
        ("raises", "def bad(*a, **k): raise RuntimeError('no more')\n    dist.broadcast = bad", "no more"),
    ],
)
@pytest.mark.parametrize("rank", [0, pytest.param(2, marks=pytest.mark.thorough)])
def test_a_rank_that_does_not_go_on_is_named(what: str, fault: str, said: str, rank: int, ranks: Any) -> None:
    started = ranks(3, fault=f"if RANK == {rank}:\n    {fault}")
    ended = started.end(stopped=(rank,) if what == "stops" else ())
    codes = [code for code, _, _ in ended]
    assert sorted(codes) == ([122, 122] if what == "stops" else [9, 122, 122] if what == "dies" else [122, 122, 122]), (
        ended
    )
    found = problems(ended)
    assert found, ended
    assert all(f"rank {rank} on {HOST}: " in line for line in found), found
    if rank or what in ("sleeps", "raises"):
        assert said in found[0]
        assert "broadcast of 8 float32 (world)" in found[0]
    else:
        assert "does not answer any more" in found[0]  # rank 0 is the one that would say it


@torch
def test_an_endless_loop_before_a_collective_is_named(ranks: Any) -> None:
    loop = "from ddpkit.distributed.bench.collective import Collective\n"
    loop += "def loop(*_):\n    while True: pass\nif RANK == 1: Collective.check = loop"
    ended = ranks(2, fault=loop).end()
    (line,) = problems(ended)
    assert f"rank 1 on {HOST}: hangs for " in line
    assert "(loop)" in line


@torch
def test_a_rank_that_never_comes_is_named(ranks: Any) -> None:
    ended = ranks(3, "--timeout", "3", fault="if RANK == 1: os._exit(7)").end()
    assert [code for code, _, _ in ended] == [122, 7, 122], ended
    (line,) = problems(ended)
    assert "rank 1: did not join within 6 s" in line


@torch
def test_ended_by_a_person_is_no_fault(ranks: Any) -> None:
    started = ranks(2, "--iters", "1000000000", "--warmup", "0", "--timeout", "60")
    assert started.processes[0].stdout.readline().startswith("2 ranks")
    for process in started.processes:
        process.send_signal(signal.SIGTERM)
    ended = started.end()
    assert [code for code, _, _ in ended] == [143, 143], ended
    assert problems(ended) == []


@torch
def test_min_busbw(ranks: Any) -> None:
    ended = ranks(2, "--ops", "broadcast", "--min-busbw", "1e6").end()
    assert [code for code, _, _ in ended] == [122, 122], ended
    (line,) = problems(ended)
    assert "broadcast (world: all, 2 ranks, float32): busbw " in line
    assert " at its best size, " in line
    assert [code for code, _, _ in ranks(2, "--ops", "broadcast", "--min-busbw", "1e-9").end()] == [0, 0]


@torch
def test_a_scope_that_is_not_there(ranks: Any) -> None:
    ended = ranks(2, "--scope", "inter").end()
    assert [code for code, _, _ in ended] == [122, 122], ended
    (line,) = problems(ended)
    assert "--scope inter: no such group of ranks with 2 ranks on 1 nodes" in line


@torch
def test_events_are_short_single_lines(ranks: Any) -> None:
    ended = ranks(2, "--ops", "sendrecv", DDPKIT_EVENTS="1").end()
    lines = ended[0][1].rstrip("\n").split("\n")  # str.splitlines() parts at the mark as well
    assert all(line.startswith(EVENT) and len(line) < 1000 for line in lines)
    kinds = [json.loads(line[len(EVENT) :])["e"] for line in lines]
    assert kinds == ["bench", *["row"] * (len(kinds) - 2), "end"]
    assert len(kinds) > 3


def test_its_help_says_the_formulas() -> None:
    argv = [sys.executable, str(SCRIPT), "--help"]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "2(n-1)/n for all_reduce" in done.stdout
