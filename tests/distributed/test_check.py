"""The ranks of `ddpkit test` name what is wrong with each. A function of the tests names the devices: none is needed.

The ranks are started by hand, with PyTorch's variables, wherever an exit code matters: torchrun turns each into 1.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rank_processes import free_port, run, run_ranks

from ddpkit.distributed import check as script
from ddpkit.distributed import resolver
from ddpkit.distributed.rank_fixes import FIXES

HOST = socket.gethostname()
START = "import os, sys\nfrom ddpkit.distributed import check as script\n"
END = "os._exit(script.main(sys.argv[1:]))\n"


def ranks(world: int, present: list[int], text: str, *args: str) -> dict[int, tuple[int, str]]:
    return run_ranks(world, present, START + text, *args)


def report(rank: int, **changes: Any) -> script.RankReport:
    fields: dict[str, Any] = {"rank": rank, "host": f"node{rank // 2 + 1}", "torch": "2.13", "local_rank": rank % 2}
    fields |= {"local_world_size": 2, "devices": 2, "device": "Fake", "identity": f"GPU-{rank}", **changes}
    return script.RankReport(**fields)


def events(text: str, kind: str) -> list[dict[str, Any]]:
    """The events of this kind in the output of a rank."""
    lines = [line for line in text.split("\n") if line.startswith(script.EVENT)]
    return [event for line in lines if (event := json.loads(line[len(script.EVENT) :]))["e"] == kind]


def reported(text: str) -> list[tuple[int, str]]:
    """Rank and problem of each event of a problem."""
    return [(event["rank"], event["problem"]) for event in events(text, "problem")]


# ---------------------------------------------------------------- without torch


def test_importing_it_does_nothing() -> None:
    text = f"import os, signal; before = signal.getsignal(signal.SIGTERM), dict(os.environ)\n{START}"
    text += "assert before == (signal.getsignal(signal.SIGTERM), dict(os.environ))\nassert 'torch' not in sys.modules"
    done = run("-c", text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_gpu_of_a_rank_is_the_one_of_a_launch() -> None:
    """With --gpus-per-task=2 a launch worked, and the test said that local rank 2 has no GPU."""
    step = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_ID": "1", "SLURM_JOB_ID": "7", "SLURM_PROCID": "2"}
    step |= {"SLURM_GTIDS": "0,1,2,3", "SLURM_LOCALID": "2", "SLURM_STEP_GPUS": "4,5", "CUDA_VISIBLE_DEVICES": "0,1"}
    step |= {"SLURM_GPUS_ON_NODE": "8", "MASTER_ADDR": "b", "SLURM_STEP_NODELIST": "b", "SLURM_STEP_NUM_NODES": "1"}
    env = resolver.resolve({**step, "SLURM_STEP_TASKS_PER_NODE": "4"})
    assert (env.local_rank, script.gpu_index(env, 2)) == (2, 0)
    torch_own = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "MASTER_ADDR": "a", "MASTER_PORT": "9"}
    assert script.gpu_index(resolver.resolve({**torch_own, "LOCAL_WORLD_SIZE": "4"}), 4) == 3


@pytest.mark.parametrize(
    ("environ", "what"),
    [
        ({"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "a"}, "MASTER_PORT"),
        ({"RANK": "x", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "RANK=x"),
    ],
)
def test_what_is_incomplete_is_said(environ: dict[str, str], what: str) -> None:
    done = run("-c", START + END, **environ)
    ((rank, problem),) = reported(done.stdout)
    assert (done.returncode, rank) == (122, 3 if environ["RANK"] == "3" else 0)
    assert what in problem


@pytest.mark.parametrize(
    ("text", "expected"), [("2000 0 7", 1.0), ("2000 3000 7", 2.5), ("0 300 1", 1.0), ("", 1.0), (None, 1.0)]
)
def test_contention_for_processors(text: str | None, expected: float, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "schedstat").write_text(text)
    assert script.cpu_contention(str(tmp_path / "schedstat")) == expected


def test_a_busy_machine_has_longer_steps(tmp_path: Path) -> None:
    """With 9 s of a processor in 36 s, an all_reduce takes four times as long as alone."""
    (tmp_path / "schedstat").write_text("9000000000 27000000000 1")
    busy = "import functools\nscript.cpu_contention = functools.partial(script.cpu_contention, 'schedstat')\n"
    late = "script.time_all_reduce = lambda *_: __import__('time').sleep(60)\n"
    code, said = ranks(1, [0], f"os.chdir({str(tmp_path)!r})\n{busy}{late}{END}", "--timeout", "0.5")[0]
    assert code == 122, said
    assert "no answer after 2 s of a small all_reduce" in said


def said(reports: list[script.RankReport]) -> list[str]:
    return [f"rank {one.rank} on {one.host}: {one.problem}; hint: {one.fix}" for one in script.compare_reports(reports)]


def test_problems_are_found_before_anything_is_added() -> None:
    four = [report(rank) for rank in range(4)]
    assert said(four) == []
    assert said([report(rank, identity=None, devices=0, device="cpu") for rank in range(4)]) == []

    (twice,) = said([*four[:3], report(3, identity="GPU-2")])
    assert twice.startswith("rank 3 on node2: uses the same GPU as rank 2 on node2: Fake GPU-2; hint: ")

    (few,) = said([*four[:3], report(3, identity=None, devices=1)])
    assert few.startswith("rank 3 on node2: local rank 1 of 2, but torch sees only 1 GPUs here; hint: fewer-ranks")

    (none,) = said([*four[:3], report(3, identity=None, devices=0)])
    assert none.startswith("rank 3 on node2: has no GPU, rank 0 on node1 has one; hint: ")

    assert len(said([four[0], report(1, torch="2.12"), report(2, identity="GPU-0")])) == 2

    (without,) = said([*four[:3], report(3, nccl=False)])
    assert without.startswith("rank 3 on node2: torch 2.13 has no NCCL, and the node has GPUs; hint: ")

    (uneven,) = script.compare_reports([*four[:2], report(2, local_world_size=1, local_rank=0)])
    assert (uneven.rank, uneven.level, uneven.problem) == (2, "warn", "1 ranks on this node, 2 on node1")


@pytest.mark.parametrize("number", range(2, 18))
def test_every_rank_meets_every_other_once(number: int) -> None:
    rounds = script.pair_rounds(list(range(number)))
    assert len(rounds) == number - 1 + number % 2
    met = [pair for one in rounds for pair in one]
    assert sorted(met) == [(low, high) for low in range(number) for high in range(low + 1, number)]
    assert all(len({rank for pair in one for rank in pair}) == 2 * len(one) for one in rounds)


def apart(number: int, *bad: tuple[int, int]) -> list[tuple[int, str]]:
    tried = {pair: "lost" if pair in bad else "" for one in script.pair_rounds(list(range(number))) for pair in one}
    reports = [report(rank, host=f"node{rank}") for rank in range(number)]
    return sorted((one.rank, one.problem) for one in script.find_broken_pairs(tried, reports, "fix"))


def test_a_pair_or_a_node_is_named() -> None:
    assert apart(4) == []
    assert apart(2, (0, 1)) == [(1, "gloo all_reduce fails with rank 0 on node0: lost")]
    assert apart(4, (1, 2)) == [(2, "gloo all_reduce fails with rank 1 on node1: lost; all other pairs succeed")]
    assert apart(4, (0, 1), (1, 2), (1, 3)) == [(1, "gloo all_reduce fails with every other rank: lost")]
    assert [rank for rank, _ in apart(6, (0, 1), (4, 5))] == [1, 5]
    assert [rank for rank, _ in apart(6, (0, 2), (1, 2), (2, 3), (2, 4), (2, 5), (0, 1))] == [1, 2]


def test_who_only_says_that_another_went_is_not_named() -> None:
    done: dict[int, dict[str, Any]] = {
        0: {"small_ms": 1.0},
        1: {"problem": "a: Connection closed by peer", "fix": "f"},
        2: {},
    }
    done[2] = {"problem": "starting gloo: Unable to find address for: ib7", "fix": "f"}
    done[3] = {"problem": "no answer after 5 s of starting gloo", "fix": "f", "late": True}
    found = script.find_failures(done, [report(rank) for rank in range(4)])
    assert [(one.rank, one.problem) for one in found] == [(2, "starting gloo: Unable to find address for: ib7")]


def test_a_rank_in_an_earlier_part_of_the_start_keeps_the_others_waiting() -> None:
    stuck = {
        "problem": "no answer after 30 s of creating a CUDA context on cuda:1",
        "fix": "f",
        "late": True,
        "part": 1,
    }
    waits = {"problem": "no answer after 30 s of starting nccl", "fix": "f", "late": True, "part": 2}
    results: dict[int, dict[str, Any]] = {0: waits, 1: stuck, 2: waits, 3: waits}
    (found,) = script.find_failures(results, [report(rank) for rank in range(4)], "nccl")
    assert (found.rank, found.host, found.problem) == (1, "node1", stuck["problem"])
    alike = script.find_failures(dict.fromkeys(range(4), waits), [report(rank) for rank in range(4)], "nccl")
    assert [one.rank for one in alike] == [0, 1, 2, 3]


def test_a_start_of_nccl_has_more_time_than_its_sums() -> None:
    """8 ranks need 4 to 8 s for ncclCommInitRank alone (see NCCL_START); a step has 5 s."""
    assert script.start_limit("nccl", 5.0) >= 30
    assert script.start_limit("nccl", 60.0) == 60
    assert script.start_limit("gloo", 5.0) == 5


def test_another_nccl_is_named() -> None:
    """LD_LIBRARY_PATH of one node has an older NCCL than torch's own."""
    reports = [report(rank, nccl_version="2.18.1" if rank == 2 else "2.28.9") for rank in range(4)]
    (found,) = script.compare_reports(reports)
    assert (found.rank, found.host, found.check) == (2, "node2", "nccl")
    assert found.problem == "loads NCCL 2.18.1, rank 0 on node1 loads 2.28.9"
    assert found.fix == "same-nccl"


def test_a_missing_rank_is_looked_for_where_its_neighbours_are() -> None:
    here = {rank: report(rank) for rank in (0, 1, 2)}
    assert [(one.rank, one.host) for one in script.find_missing_ranks(here, 6, 30)] == [(3, "node2"), (4, ""), (5, "")]


@pytest.mark.parametrize("present", [(0, 1, 2, 3), (0, 1, 3)])
def test_no_stage_is_passed_by_reports_that_were_not_compared(
    present: tuple[int, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """With a missing rank `a separate GPU for every rank` was said to have passed."""
    reports = {rank: asdict(report(rank)) for rank in present}
    store = SimpleNamespace(publish=lambda *_: None, read_ranks=lambda *_: reports)
    args = SimpleNamespace(meeting=5.0, nodes=False, speed=False, step=5.0)
    variables = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    env = resolver.resolve({**variables, "MASTER_ADDR": "node1", "MASTER_PORT": "29500"})

    plan = script.RankCheck(env, cast("Any", args), cast("Any", store))._make_plan(5.0)

    passed = [event["stage"] for event in events(capfd.readouterr().out, "stage")]
    whole = len(present) == 4
    assert (plan["steps"], passed) == ((["gloo", "nccl"], ["ranks", "gpu-map"]) if whole else ([], []))


def test_a_rank_whose_processor_is_too_slow_names_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name was a sentence, which the launcher does not know, and nothing helped."""
    held = threading.Event()
    monkeypatch.setattr(script, "time_local_work", lambda *_: held.wait())
    env = resolver.resolve({})
    assert script.check_speed(env, False, 0.01)["fix"] in FIXES
    held.set()


# ---------------------------------------------------------------- with torch


@pytest.mark.torch
def test_two_ranks_under_torchrun(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(START + END)
    port = free_port()
    torchrun = ("-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={port}", f"--log-dir={tmp_path}")
    done = run(*torchrun, str(tmp_path / "rank.py"), "--mib", "3")
    assert done.returncode == 0, done.stderr
    assert reported(done.stdout) == []
    here = sorted((event["rank"], event["host"], event["device"]) for event in events(done.stdout, "here"))
    assert here == [(0, HOST, "cpu"), (1, HOST, "cpu")]
    done_by = [event["done"] for event in events(done.stdout, "stage") if event["stage"] == "gloo"]
    assert [sorted(ranks) for ranks in done_by] == [["0", "1"]]
    assert done_by[0]["1"]["large_ms"] > 0


@pytest.mark.torch
def test_a_missing_rank_is_named() -> None:
    ended = ranks(3, [0, 1], END, "--timeout", "12")
    assert [code for code, _ in ended.values()] == [122, 122], ended
    ((rank, problem),) = [one for _, text in ended.values() for one in reported(text)]
    assert rank == 2
    assert re.fullmatch(r"did not join within \d+ s", problem)


@pytest.mark.torch
def test_a_master_that_is_not_there_is_named() -> None:
    ((code, text),) = ranks(2, [1], END, "--timeout", "1").values()
    assert code == 122
    ((rank, problem),) = reported(text)
    assert rank == 1
    assert "cannot reach rank 0 at 127.0.0.1:" in problem


@pytest.mark.torch
def test_two_launchers_at_one_address_are_named() -> None:
    """L10: each starts a rank 1. The other one's is here what it leaves in the store."""
    twice = """
connect = script.connect_store
def with_another(env, *args):
    store = connect(env, *args)
    if env.rank == 1:
        store.add("rank 1 0", 1)
    return store
script.connect_store = with_another
"""
    ended = ranks(2, [0, 1], twice + END, "--timeout", "8")
    assert ended[1][0] == 122, ended
    assert "another process has the same rank" in ended[1][1], ended


@pytest.mark.torch
def test_nccl_comes_with_the_device_and_gloo_beside_it() -> None:
    """There is no GPU here: what would be started is looked at."""
    text = """
import dataclasses, torch, torch.distributed as dist
torch.cuda.set_device = lambda device: print("device", device)
torch.cuda.synchronize = lambda device: print("context", device)
torch.cuda.device_count = lambda: 2
def start(backend, timeout=None, store=None, rank=-1, world_size=-1, device_id=None):
    print("start", backend, rank, world_size, device_id)
dist.init_process_group = start
dist.new_group = lambda backend, timeout: backend
script.time_all_reduce = lambda env, device, elements, seconds, group=None: print("add", device, elements, group) or 1.0
env = dataclasses.replace(script.resolve({}), local_rank=1, local_world_size=2, device_index=1)
print(sorted(script.BackendCheck(env, script.RankStore(env, 10), "nccl", 1, 10).run()))
"""
    done = run("-c", START + text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "device cuda:1",
        "context cuda:1",
        "start nccl 0 1 cuda:1",
        "add cuda:1 1 None",  # part of the start
        "add cuda:1 1 None",
        "add cuda:1 262144 None",
        "add cpu 1 gloo",
        "['gb_per_s', 'large_ms', 'small_ms']",
    ]


@pytest.mark.torch
def test_a_rank_ends_after_the_facts_of_its_node() -> None:
    """nvidia-smi can take longer than all stages. The facts come here when the stages have ended."""
    text = """
import threading, types
from ddpkit.node.calls import probe
ended = threading.Event()
run_checks = script.run_checks
def run(*args):
    code = run_checks(*args)
    ended.set()
    return code
script.run_checks = run
sys.modules["probe"] = probe
sys.modules["inventory"] = types.SimpleNamespace(gather=lambda *_: {"late": ended.wait(60)})
"""
    done = run("-c", START + text + END, "--nodes", "usual", "--timeout", "5", "--mib", "1")
    assert done.returncode == 0, done.stdout
    assert '"facts": {"late": true}' in done.stdout


@pytest.mark.torch
def test_a_rank_that_dies_is_named() -> None:
    die = "if os.environ['RANK'] == '1': script.time_all_reduce = lambda *_: os._exit(9)\n"
    ended = ranks(3, [0, 1, 2], die + END, "--timeout", "10")
    assert [code for code, _ in ended.values()] == [122, 9, 122], ended
    (problem,) = events(ended[0][1], "problem")
    assert (problem["rank"], problem["host"]) == (1, HOST)
    assert problem["problem"].startswith("ended, or hung, while")


@pytest.mark.torch
def test_a_wrong_sum_is_named() -> None:
    wrong = "import torch.distributed as dist\nif os.environ['RANK'] == '1': dist.all_reduce = lambda *_, **__: None\n"
    ended = ranks(2, [0, 1], wrong + END, "--timeout", "5")
    assert [code for code, _ in ended.values()] == [122, 122], ended
    assert "1 of 1 sums are wrong: the first, 0, is 2 and not 3" in dict(reported(ended[0][1]))[1]


@pytest.mark.torch
def test_two_ranks_on_one_device_are_named_before_nccl_speaks() -> None:
    """There is no GPU here: what says which device a rank has is a function of this test."""
    fake = "import torch.distributed as dist; dist.is_nccl_available = lambda: True\n"
    fake += "os._exit(script.main(sys.argv[1:], identify=lambda index: ('Fake', 'GPU-1'), devices=1))\n"
    ended = ranks(2, [0, 1], fake)
    assert [code for code, _ in ended.values()] == [122, 122], ended
    ((rank, problem),) = reported(ended[0][1])
    assert rank == 1
    assert problem.startswith(f"uses the same GPU as rank 0 on {HOST}: Fake")
    assert reported(ended[1][1]) == []


GPU = """
import threading, time
import torch.distributed as dist
dist.is_nccl_available = lambda: True
held = threading.Event()  # a GPU in which a kernel never ends: what comes behind it waits for ever
def work(env, gpu):
    while held.is_set(): time.sleep(60)
    return {"gemm": 0.001, "copy": 0.001}
def backend(env, store, name, *rest, check=script.check_backend):
    if name != "nccl": return check(env, store, name, *rest)
    held.set()
    return {"problem": "no answer after 5 s of the first all_reduce over nccl", "fix": "-", "late": True, "part": 3}
script.time_local_work, script.check_backend, script.NCCL_START = work, backend, 1.0
script.gpu_start_fix = lambda: "nvidia-smi"
"""
UNIQUE = "lambda index: ('Fake', 'GPU-' + os.environ['RANK'])"
GPU_END = f"os._exit(script.main(sys.argv[1:], identify={UNIQUE}, devices=1))\n"


@pytest.mark.torch
def test_a_hang_of_nccl_does_not_hold_up_what_is_reported_of_it() -> None:
    ended = ranks(2, [0, 1], GPU + GPU_END, "--timeout", "5", "--speed")
    assert [code for code, _ in ended.values()] == [122, 122], ended
    assert {text for _, text in reported(ended[0][1])} == {"no answer after 5 s of the first all_reduce over nccl"}
    stages = [event["stage"] for event in events(ended[0][1], "stage")]
    assert stages == ["ranks", "gpu-map", "gloo", "speed"]


@pytest.mark.torch
def test_a_gpu_that_does_not_answer_is_named() -> None:
    """Nothing bounds a synchronization with a GPU that hangs."""
    stuck = "if os.environ['RANK'] == '1': held.set()\n"
    ended = ranks(2, [0, 1], GPU + stuck + GPU_END, "--timeout", "1", "--speed")
    assert [code for code, _ in ended.values()] == [122, 122], ended
    ((rank, problem),) = reported(ended[0][1])
    assert rank == 1
    assert re.match(r"a matrix product and a copy did not end in [\d.]+ s", problem)
    assert "nccl" not in {event["stage"] for event in events(ended[0][1], "begin")}
