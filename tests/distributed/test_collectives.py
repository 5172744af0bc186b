"""The rank program of `ddpkit bench`: its formulas, and its checks of results.

Faults are put in by a few lines in front of it, in the rank's own process. Nothing here asserts a time.
"""

from __future__ import annotations

import ast
import json
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

from ddpkit.distributed import collectives
from ddpkit.distributed.collectives import EVENT, OPS
from ddpkit.preflight import rank_program

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
torch = pytest.mark.torch
Ended = list[tuple[int, str, str]]


class Ranks:
    """Ranks started by hand, each with `fault` in front of the program."""

    def __init__(self, world: int, *args: str, fault: str = "") -> None:
        port = free_port()
        text = f"import os, sys\nsys.path.insert(0, {str(ROOT)!r})\nRANK = int(os.environ['RANK'])\n"
        text += "import torch.distributed as dist\nfrom ddpkit.distributed import collectives\n"
        text += f"{fault}\nsys.exit(collectives.main(sys.argv[1:]))\n"
        self.processes = []
        for rank in range(world):
            place = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)}
            place |= {"LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            argv = [sys.executable, "-c", text, "gloo", "10", "8", "2048", "16", *args]
            self.processes.append(WarmPython(argv, env=environment(**place)))

    def end(self) -> Ended:
        """Wait for all. Returns exit code, output and errors of each."""
        ended = []
        for process in self.processes:
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

    def start(world: int, *args: str, fault: str = "") -> Ranks:
        started.append(Ranks(world, *args, fault=fault))
        return started[-1]

    yield start
    for each in started:
        each.close()


def events(ended: Ended, kind: str) -> list[dict[str, Any]]:
    """The events of one kind; rank 0 alone sends any."""
    assert [code for code, _, _ in ended] == [0] * len(ended), ended
    assert [EVENT in said for _, said, _ in ended] == [True] + [False] * (len(ended) - 1)
    found = [json.loads(line.removeprefix(EVENT)) for line in ended[0][1].split("\n") if line.startswith(EVENT)]
    return [event for event in found if event["e"] == kind]


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
    text = f"import sys, os; sys.path.insert(0, {str(ROOT)!r}); was = dict(os.environ)\n"
    text += "import ddpkit.distributed.collectives\nassert 'torch' not in sys.modules and was == dict(os.environ)\n"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        # doc/PERFORMANCE.md of nccl-tests: 2(n-1)/n, (n-1)/n, (n-1)/n.
        ("all_reduce", 2, 1.0),
        ("all_reduce", 4, 1.5),
        ("all_reduce", 8, 1.75),
        ("all_gather", 2, 0.5),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
    ],
)
def test_the_formulas_are_those_of_nccl_tests(op: str, ranks: int, factor: float) -> None:
    assert collectives.bus_factor(op, ranks) == factor


def test_sizes_that_are_one_are_measured_once() -> None:
    assert collectives.element_counts("all_reduce", 3, 1, 64, 4) == [1, 4, 16]
    assert collectives.element_counts("all_gather", 3, 1, 64, 4) == [3, 15]
    assert collectives.element_counts("reduce_scatter", 3, 8, 8, 4) == [3]


# ---------------------------------------------------------------- with torch


@torch
@pytest.mark.parametrize("world", [2, 3])
def test_all_collectives_are_right(world: int, ranks: Any) -> None:
    ended = ranks(world, ",".join(OPS)).end()
    (head,) = events(ended, "bench")
    assert (head["comm"], head["world_size"], head["nodes"], head["device"]) == ("gloo", world, 1, "cpu")
    rows = events(ended, "row")
    sizes = {2: [8, 128, 2048], 3: [12, 120, 2040]}[world]
    assert [(row["op"], row["bytes"]) for row in rows] == [
        (op, size) for op in OPS for size in ([8, 128, 2048] if op == "all_reduce" else sizes)
    ]
    for row in rows:
        assert (row["note"], row["wrong"], row["wrong_ranks"]) == ("", 0, [])
        assert row["algbw"] == pytest.approx(row["bytes"] / row["seconds"] / 1e9)
        assert row["busbw"] == pytest.approx(row["algbw"] * collectives.bus_factor(row["op"], world))
    assert events(ended, "problem") == []


# Each fault is complete before its call returns.
FAULTS = {
    "a number": ("all_reduce", "old(array); array[-1:].add_(1)", [1]),
    "no sum at all": ("all_reduce", "old(array.clone())", [1]),
    "a rank is missing": ("all_reduce", "array.mul_(RANK != 1); old(array)", [0, 1, 2]),
    "a rank is doubled": ("all_reduce", "array.mul_(1 + (RANK == 1)); old(array)", [0, 1, 2]),
    "shares are exchanged": ("all_gather", "old(array, *more); array.copy_(array.roll(array.numel() // 3))", [1]),
    "another share": ("reduce_scatter", "old(array, *more); array.add_(1)", [1]),
}


@torch
@pytest.mark.parametrize("how", FAULTS)
def test_a_wrong_result_is_found_and_its_ranks_named(how: str, ranks: Any) -> None:
    op, body, wrong = FAULTS[how]
    names = {"all_gather": "all_gather_single all_gather_into_tensor", "all_reduce": "all_reduce"}
    names["reduce_scatter"] = "reduce_scatter_single reduce_scatter_tensor"
    fault = f"name = next(name for name in {names[op].split()} if hasattr(dist, name))\nold = getattr(dist, name)\n"
    fault += f"def bad(array, *more):\n    {body}\n"
    fault += f"if RANK == 1 or {len(wrong) > 1}:\n    setattr(dist, name, bad)"
    ended = ranks(3, op, fault=fault).end()
    assert [row["wrong_ranks"] for row in events(ended, "row")] == [wrong] * 3
    # Each rank is reported once for all sizes.
    problems = events(ended, "problem")
    assert [problem["rank"] for problem in problems] == wrong
    assert f"wrong result of {op} of " in problems[0]["problem"]


@torch
def test_a_collective_that_a_backend_does_not_have_is_a_note(ranks: Any) -> None:
    fault = "def none(*_):\n    raise RuntimeError('ProcessGroupGloo does not support it')\ndist.all_reduce = none"
    rows = events(ranks(2, "all_reduce", fault=fault).end(), "row")
    assert [row["note"] for row in rows] == ["ProcessGroupGloo does not support it"] * 3


@torch
def test_an_error_of_a_collective_ends_the_rank(ranks: Any) -> None:
    """The launcher's verdict names it, as of any other script."""
    fault = "def broken(*_):\n    raise RuntimeError('the network is down')\nif RANK == 1: dist.all_reduce = broken"
    (_, _, _), (code, said, failed) = ranks(2, "all_reduce", fault=fault).end()
    assert (code, said) == (1, "")
    assert failed.rstrip().endswith("RuntimeError: the network is down")
