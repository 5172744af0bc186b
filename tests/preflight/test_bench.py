"""`ddpkit bench` on this machine, as users run it: its table, JSON and exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT

from ddpkit.distributed.collectives import OPS
from ddpkit.errors import UsageError
from ddpkit.preflight import bench

torch = pytest.mark.torch
QUICK = ("-e", "2K", "-f", "16")
CUDA = {"CUDA_VISIBLE_DEVICES": ""}


# ---------------------------------------------------------------- without torch


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--min-bytes", "8X"), "--min-bytes: 8X is not a size: 8, 64K, 128M, 1G"),
        (("--min-bytes", "1G"), "--min-bytes 1G is more than --max-bytes 128M"),
        (("-f", "1"), "--factor: 1 is not an integer of at least 2"),
        (("--ops", "alltoall"), "--ops: 'alltoall' is not one of all_reduce, all_gather, reduce_scatter"),
        (("--comm", "mpi"), "--comm: 'mpi' is not one of auto, nccl, gloo"),
        (("--min-busbw", "fast"), "--min-busbw: fast is not a number greater than 0"),
        (("--timeout", "nan"), "--timeout: nan is not a number greater than 0"),
        (("--scope", "world"), "ddpkit bench has no option --scope"),
        (("-n", "1"), "bench requires at least 2 ranks"),
        (("-N", "1:2"), "bench requires one number of nodes"),
        (("-n", "2"), "ranks per node were passed twice: 2 and -n 2"),
        (("-o", "preload"), "-o preload: must be KEY=VALUE"),
        (("node1", "node2"), "backend local runs on this machine only"),
    ],
)
def test_a_wrong_request(args: tuple[str, ...], said: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    done = ddpkit("bench", *(() if args[0] == "node1" or args == ("-n", "1") else ("2",)), *args)
    assert (done.returncode, done.stdout) == (121, "")
    assert f"ddpkit: error: {said}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("64K", 2**16), ("64kb", 2**16), ("128M", 2**27), ("1G", 2**30), ("1GiB", 2**30), ("2 t", 2**41)],
)
def test_sizes_are_read(text: str, number: int) -> None:
    assert bench.BenchOptions(min_bytes=text, max_bytes="4T").arguments()[2] == str(number)


@pytest.mark.parametrize("text", ["0", "-8", "8.5M", "M", "8X", "1e6", "8 8"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        bench.BenchOptions(max_bytes=text).arguments()


def test_sizes_are_shown() -> None:
    assert [bench.show_size(number) for number in (8, 1000, 1024, 3 << 20, 1 << 30)] == ["8", "1000", "1K", "3M", "1G"]


def test_the_dry_run_needs_no_torch(tmp_path: Path, clean_environ: dict[str, str]) -> None:
    code = (
        "import sys\nfrom ddpkit.cli.app import run\n"
        "assert run(['bench', '2', '--dry-run', '--min-busbw', '3', '-e', '1K']) == 0\n"
        "assert not {'torch', 'fabric'} & set(sys.modules)"
    )
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=tmp_path, env=clean_environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "backend local, 2 ranks on 1 node" in done.stdout
    assert "' bench auto 60 8 1024 4 all_reduce,all_gather,reduce_scatter" in done.stdout
    assert list(tmp_path.iterdir()) == []


def event(**changes: Any) -> Any:
    row = {"e": "row", "sender": 0, "op": "all_reduce", "bytes": 1024, "note": "", "rounds": 5, "seconds": 0.01}
    row |= {"algbw": 1.0, "busbw": 1.5, "wrong": 0, "wrong_ranks": [], "slowest": 3, "host": "node2"}
    return {**row, **changes}


def test_a_row_and_what_is_required() -> None:
    """Of a collective the best size counts: small ones measure latency."""
    results = bench.BenchResults(least_busbw=2.0)
    for row in (event(), event(bytes=8, busbw=0.1), event(op="all_gather", busbw=3.0)):
        (line,) = results.add_event(row)
    assert line.split() == ["all_gather", "1K", "10.0", "ms", "1.000", "3.000", "0", "rank", "3", "on", "node2"]
    results.finish()
    (failure,) = results.failures
    assert failure["problem"] == "all_reduce: busbw 1.5 GB/s at its best size, 1K; required: 2"
    assert failure["fix"].startswith("rank 3 on node2 was the slowest; ")
    assert results.summary_lines() == ["best busbw: all_reduce 1.5, all_gather 3 GB/s", bench.MORE]


def test_a_collective_that_is_not_there_is_no_failure() -> None:
    results = bench.BenchResults(least_busbw=2.0)
    none: Any = {"e": "row", "sender": 0, "op": "reduce_scatter", "bytes": 8, "note": "gloo: not supported"}
    (line,) = results.add_event(none)
    assert line.endswith(" gloo: not supported")
    results.finish()
    assert (results.failures, results.summary_lines()) == ([], [bench.MORE])


# ---------------------------------------------------------------- with torch


@torch
def test_two_ranks(ddpkit: DDPKIT) -> None:
    done = ddpkit("bench", "2", *QUICK, env=CUDA)
    assert done.returncode == 0, done.stderr
    head, names, *rows, best, more = done.stdout.splitlines()
    assert head.startswith("2 ranks on 1 node, gloo, cpu, torch ")
    assert names.split()[:3] == ["collective", "size", "time"]
    assert [(line.split()[0], line.split()[1]) for line in rows] == [
        (op, size) for op in OPS for size in ("8", "128", "2K")
    ]
    assert re.fullmatch(r"best busbw: all_reduce [\d.e-]+, all_gather [\d.e-]+, reduce_scatter [\d.e-]+ GB/s", best)
    assert "nccl-tests" in more
    assert done.stderr == ""


@torch
@pytest.mark.parametrize("starter", ["ranks", "torchrun"])
def test_less_than_was_asked_for_fails_with_122(starter: str, ddpkit: DDPKIT) -> None:
    args = ("-n", "2", "-o", f"starter={starter}", *QUICK, "--ops", "all_gather", "--min-busbw", "1e5")
    done = ddpkit("bench", *args, env=CUDA)
    assert done.returncode == 122, done.stderr
    problem, hint, logs = done.stderr.splitlines()
    assert re.match(r"ddpkit: all_gather: busbw \S+ GB/s at its best size, (2K|128|8); required: 100000$", problem)
    assert re.match(r"hint: rank [01] on \S+ was the slowest; ", hint)
    assert logs.startswith("ddpkit: output of the ranks: logs/")


@torch
def test_json(ddpkit: DDPKIT) -> None:
    done = ddpkit("bench", "-n", "2", *QUICK, "--ops", "all_reduce", "--json", "--min-busbw", "1e5", env=CUDA)
    assert done.returncode == 122
    shown = json.loads(done.stdout)
    keys = "schema ok comm world_size nodes device torch results problems run_id backend folder exit_code died"
    assert list(shown) == keys.split()
    assert (shown["ok"], shown["exit_code"], shown["backend"], shown["died"]) == (False, 122, "local", [])
    assert [one["bytes"] for one in shown["results"]] == [8, 128, 2048]
    assert len(shown["problems"]) == 1


# Runs in every rank before anything of ours: rank 1 will do this instead of measuring.
FAULT = """
import os, signal, sys, threading, time
def prepare():
    while not hasattr(sys.modules["__main__"], "main"):
        time.sleep(0.001)
    sys.modules["__main__"].measure = lambda *_: FAULT
if os.environ.get("RANK") == "1":
    threading.Thread(target=prepare, daemon=True).start()
"""


@torch
@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, r"rank 1 on \S+ failed first, .*signal 9"),
        ("1 / 0", 122, r"rank 1 on \S+ failed first, .*ZeroDivisionError"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", 122, r"rank 1 on \S+ is stopped \(SIGSTOP\)"),
    ],
    ids=["killed", "error", "stopped"],
)
def test_a_rank_that_fails_is_named(fault: str, code: int, said: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    """By the verdict of any launch."""
    (tmp_path / "sitecustomize.py").write_text(FAULT.replace("FAULT", fault))
    done = ddpkit("bench", "3", *QUICK, "--timeout", "5", "--env", f"PYTHONPATH={tmp_path}", env=CUDA)
    assert done.returncode == code, done.stderr
    assert re.search(said, done.stderr), done.stderr


@torch
def test_a_wrong_result_fails_with_122(ddpkit: DDPKIT, tmp_path: Path) -> None:
    fault = FAULT.replace("measure = lambda *_: FAULT", "_summand = lambda rank: lambda index: index")
    (tmp_path / "sitecustomize.py").write_text(fault)
    args = ("--ops", "all_reduce", "--env", f"PYTHONPATH={tmp_path}")
    done = ddpkit("bench", "2", *QUICK, *args, env=CUDA)
    assert done.returncode == 122, done.stderr
    assert len(re.findall(r"ddpkit: rank [01] on \S+: wrong result of all_reduce of 8 bytes\n", done.stderr)) == 2


@torch
def test_ctrl_c(start: Callable[..., Any], tmp_path: Path) -> None:
    command = start("bench", "2", "-e", "1T", "-f", "2", env=CUDA)
    command.wait_for("collective ")
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 130, command.tail
    command.wait_for_no_survivor()
    assert "Traceback" not in command.text
