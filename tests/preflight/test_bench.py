"""`ddpkit bench` on this machine, as users run it: its table, JSON, picture and exit codes."""

from __future__ import annotations

import json
import re
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddpkit.distributed.bench.cases import OPS
from ddpkit.errors import UsageError
from ddpkit.preflight import bench

torch = pytest.mark.torch
QUICK = ("-e", "2K", "-f", "16", "--seconds", "0.01")
DDPKIT = Callable[..., "subprocess.CompletedProcess[str]"]
CUDA = {"CUDA_VISIBLE_DEVICES": ""}


def picture(path: Path) -> tuple[int, int, int]:
    """Width and height of a PNG, and how many values its bytes have, unpacked."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    at, packed = 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + body),)
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    return width, height, len(set(zlib.decompress(packed)))


# ---------------------------------------------------------------- without torch


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--min-bytes", "8X"), "--min-bytes: 8X is not a size: 8, 64K, 128M, 1G"),
        (("--min-bytes", "1G"), "--min-bytes 1G is more than --max-bytes 128M"),
        (("-f", "1"), "--factor: 1 is not an integer of at least 2"),
        (("--iters", "-1"), "--iters: -1 is not an integer of at least 0"),
        (("--ops", "alltoall"), "--ops: 'alltoall' is not a collective: all_reduce, "),
        (("-d", "float8"), "--dtypes: 'float8' is not a type: float32, "),
        (("--scope", "rack"), "--scope: 'rack' is not a scope: world, "),
        (("--comm", "mpi"), "--comm: 'mpi' is not one of auto, nccl, gloo"),
        (("--min-busbw", "fast"), "--min-busbw: fast is not a number greater than 0"),
        (("--timeout", "nan"), "--timeout: nan is not a number greater than 0"),
        (("--plot", "x.pdf"), "--plot x.pdf: the file name must end in .png"),
        (("--plot", "no/x.png"), "--plot no/x.png: directory not found: "),
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


@pytest.mark.new_python
def test_without_matplotlib_the_command_that_brings_it_is_named(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not for this test')")
    done = ddpkit("bench", "2", "--plot", "x.png", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 121
    assert done.stderr == (
        "ddpkit: error: --plot requires matplotlib: not for this test\nhint: pip install 'ddpkit[plot]'\n"
    )


def test_the_dry_run_needs_neither_torch_nor_matplotlib(tmp_path: Path, clean_environ: dict[str, str]) -> None:
    code = (
        "import sys\nfrom ddpkit.cli.main import run\n"
        "assert run(['bench', '2', '--dry-run', '--min-busbw', '3', '-e', '1K']) == 0\n"
        "assert not {'torch', 'matplotlib', 'fabric'} & set(sys.modules)"
    )
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=tmp_path, env=clean_environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "backend local, 2 ranks on 1 node" in done.stdout
    assert "export DDPKIT_EVENTS=1" in done.stdout
    assert "--max-bytes=1K --min-busbw=3" in done.stdout
    assert list(tmp_path.iterdir()) == []


def event(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"e": "row", "sender": 0, "scope": "world", "group": "all", "ranks": 4, "op": "all_reduce"}
    fields |= {"dtype": "float32", "bytes": 1024, "rounds": 5, "seconds": 0.01, "seconds_min": 0.01}
    fields |= {
        "seconds_avg": 0.01,
        "algbw": 1.0,
        "busbw": 1.5,
        "wrong": 0,
        "slowest": 3,
        "host": "node2",
        "note": "",
        "in_place": True,
        "host_seconds": 0.00002,
    }
    return {**fields, "groups": 1, "group_index": 0, **changes}


def heard(*events: dict[str, Any]) -> tuple[bench.BenchResults, list[str]]:
    report = bench.BenchResults()
    facts = {"comm": "gloo", "world_size": 4, "nodes": 2, "device": "cpu", "torch": "2.13.0"}
    every: list[Any] = [{"e": "bench", **facts}, *events]
    return report, [line for one in every for line in report.add_event(one)]


def test_of_several_groups_people_see_the_slowest() -> None:
    groups = {"scope": "intra", "groups": 2, "ranks": 2}
    fast = event(**groups, group="node1", host="node1", slowest=0, seconds=0.01, busbw=3.0)
    slow = event(**groups, group="node2", seconds=0.03, busbw=1.0, group_index=1)
    report, lines = heard(fast, slow, event(op="broadcast", busbw=0.25), {"e": "end", "ok": True, "seconds": 2.0})
    assert lines[0] == "4 ranks on 2 nodes, gloo, cpu, torch 2.13.0"
    assert [line.split()[:2] for line in lines[2:]] == [["intra", "all_reduce"], ["world", "broadcast"]]
    assert lines[2].endswith("rank 3 on node2")
    assert bench.summary_lines(report.measurements) == [
        "best busbw, intra: all_reduce 1 GB/s",
        "best busbw, world: broadcast 0.25 GB/s",
        "Python and torch, per call: all_reduce 20 us, broadcast 20 us",
    ]
    shown = report.as_dict()
    assert (shown["ok"], shown["seconds"], len(shown["results"]), shown["problems"]) == (True, 2.0, 3, [])


def test_what_many_say_is_one_problem() -> None:
    told = {"e": "problem", "rank": 0, "host": "node1", "problem": "does not answer any more", "fix": "look"}
    report, _ = heard({**told, "sender": 1}, {**told, "sender": 2})
    assert len(report.failures) == 1
    assert report.as_dict()["ok"] is False


def test_a_collective_that_is_not_there_is_no_failure() -> None:
    report, lines = heard(event(note="gloo: not supported", host_seconds=0.0), {"e": "end", "ok": True, "seconds": 1.0})
    assert lines[-1].endswith(" gloo: not supported")
    assert report.as_dict()["ok"] is True
    assert bench.summary_lines(report.measurements) == []
    with pytest.raises(UsageError, match="nothing was measured"):
        bench.plot(report, "x.png")


def test_a_picture_of_scopes_types_and_groups(tmp_path: Path) -> None:
    rows = []
    for scope, groups in (("world", 1), ("intra", 2), ("inter", 1)):
        for op in OPS:
            for dtype in ("float32", "bfloat16"):
                for power in range(3, 28, 4):
                    for index in range(groups):
                        seconds = 1e-5 + 2**power / 1e10 * (1 + index)
                        place = {"scope": scope, "group": f"g{index}", "groups": groups, "group_index": index}
                        size = {"bytes": 2**power, "seconds": seconds, "busbw": 2**power / seconds / 1e9}
                        rows.append(event(op=op, dtype=dtype, **place, **size))
    report, _ = heard(*rows)
    bench.plot(report, str(tmp_path / "x.png"))
    width, height, values = picture(tmp_path / "x.png")
    assert (width, height) == (1800, 840)
    assert values > 50


# ---------------------------------------------------------------- with torch


@torch
def test_two_ranks(ddpkit: DDPKIT, tmp_path: Path) -> None:
    done = ddpkit("bench", "2", *QUICK, "--plot", "bench.png", env=CUDA)
    assert done.returncode == 0, done.stderr
    head, names, *rows, best, share = done.stdout.splitlines()
    assert head.startswith("2 ranks on 1 node, gloo, cpu, torch ")
    assert names.split()[:4] == ["scope", "collective", "type", "size"]
    assert [(line.split()[1], line.split()[3]) for line in rows] == [
        (op, size) for op in OPS for size in ("8", "128", "2K")
    ]
    numbers = r"all_reduce [\d.e-]+, all_gather [\d.e-]+, reduce_scatter [\d.e-]+, broadcast [\d.e-]+"
    assert re.fullmatch(rf"best busbw, world: {numbers}, sendrecv [\d.e-]+ GB/s", best)
    assert re.findall(r"(\w+) [\d.e+]+ us", share) == list(OPS)
    assert done.stderr == "ddpkit: plot: bench.png\n"
    assert picture(tmp_path / "bench.png")[2] > 50


@torch
@pytest.mark.parametrize("starter", ["ranks", "torchrun"])
def test_less_than_was_asked_for_fails_with_122(starter: str, ddpkit: DDPKIT) -> None:
    args = ("-n", "2", "-o", f"starter={starter}", *QUICK, "--ops", "broadcast", "--min-busbw", "1e6")
    done = ddpkit("bench", *args, env=CUDA)
    assert done.returncode == 122, done.stderr
    problem, hint, logs = done.stderr.splitlines()
    assert problem.startswith("ddpkit: broadcast (world: all, 2 ranks, float32): busbw ")
    assert re.search(r" GB/s at its best size, (2K|128|8); required: 1e\+06$", problem)
    assert re.match(r"hint: rank [01] on \S+ was the slowest; ", hint)
    assert logs.startswith("ddpkit: output of the ranks: logs/")


@torch
def test_json(ddpkit: DDPKIT) -> None:
    done = ddpkit("bench", "-n", "2", *QUICK, "--ops", "all_reduce", "--json", "--min-busbw", "1e6", env=CUDA)
    assert done.returncode == 122
    shown = json.loads(done.stdout)
    keys = "schema ok seconds comm world_size nodes device torch results problems run_id backend folder exit_code died"
    assert list(shown) == keys.split()
    assert (shown["ok"], shown["exit_code"], shown["backend"], shown["died"]) == (False, 122, "local", [])
    assert [one["bytes"] for one in shown["results"]] == [8, 128, 2048]
    assert len(shown["problems"]) == 1


# Runs in every rank before anything of ours: rank 1 will end by a signal instead of measuring.
DEATH = """
import os, signal, sys, threading, time
def prepare():
    while not hasattr(sys.modules["__main__"], "BenchRank"):
        time.sleep(0.001)
    sys.modules["__main__"].BenchRank.measure = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if os.environ.get("RANK") == "1":
    threading.Thread(target=prepare, daemon=True).start()
"""


@torch
def test_a_rank_that_is_killed_is_named_with_its_signal(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(DEATH)
    done = ddpkit("bench", "3", *QUICK, "--env", f"PYTHONPATH={tmp_path}", env=CUDA)
    # 3 where the others had time to say what they saw; its end ends them.
    assert done.returncode in (122, 137), done.stderr
    assert re.search(r"ddpkit: rank 1 on \S+ .*signal 9", done.stderr), done.stderr


@torch
def test_ctrl_c(start: Callable[..., Any], tmp_path: Path) -> None:
    command = start("bench", "2", "--iters", "1000000000", "--seconds", "600", env=CUDA)
    command.wait_for("scope  collective")
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 130, command.tail
    command.wait_for_no_survivor()
    assert "Traceback" not in command.text
