"""test_distributed.py, the file that people copy, names what is wrong with each rank. It has torch alone.

The ranks are started by hand, as its help shows: torchrun turns each exit code into 1.
"""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from rank_processes import free_port, run, run_ranks

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "test_distributed.py"
sys.path.insert(0, str(ROOT))
import test_distributed as script  # noqa: E402

HOST = socket.gethostname()
FAILED = "test_distributed: FAILED: "
# What a rank runs instead of the script as it is: the script itself is imported, and something in it is replaced.
START = f"""import sys
sys.modules["ddpkit"] = None
sys.path.insert(0, {str(ROOT)!r})
import os, test_distributed as script
"""
END = "os._exit(script.main())\n"


def ranks(world: int, present: list[int], text: str, *args: str) -> dict[int, tuple[int, str]]:
    return run_ranks(world, present, START + text, *args)


def failures(ended: dict[int, tuple[int, str]]) -> list[str]:
    """The failures that all ranks printed."""
    lines = [line for _, text in ended.values() for line in text.splitlines()]
    assert all("; hint: " in line for line in lines if "FAILED" in line)
    return [line.removeprefix(FAILED) for line in lines if line.startswith(FAILED)]


# ---------------------------------------------------------------- without torch

TORCH = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "a"}
STEP = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_ID": "1", "SLURM_JOB_ID": "7", "SLURM_PROCID": "2"}
STEP |= {"SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_LOCALID": "1", "MASTER_ADDR": "b", "SLURM_STEP_NODELIST": "b,c"}
OPEN_MPI = {f"OMPI_COMM_WORLD_{name}": number for name, number in (("RANK", "1"), ("SIZE", "2"), ("LOCAL_RANK", "1"))}
OPEN_MPI |= {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
ALONE = (0, 1, 0, 1, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({}, ALONE),
        (TORCH | {"MASTER_PORT": "9"}, (3, 4, 1, 2, "a", 9)),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}, (1, 2, 0, 1, "a", 29500)),  # by hand
        (TORCH | STEP | {"MASTER_ADDR": "a"}, (3, 4, 1, 2, "a", 29500)),
        (STEP, (2, 4, 1, 2, "b", 20113)),
        (STEP | {"SLURM_STEP_ID": "4294967290"}, ALONE),  # the shell of a job
        (STEP | {"SLURM_STEP_ID": "-6"}, ALONE),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, ALONE),
        (OPEN_MPI, (1, 2, 1, 2, "127.0.0.1", 29500)),
        (OPEN_MPI | STEP, (1, 2, 1, 2, "b", 29500)),  # mpirun in a job: the step is its daemons'
        (STEP | {"PMI_RANK": "2", "PMI_SIZE": "4"}, (2, 4, 1, 2, "b", 20113)),  # srun --mpi=pmi2
        (MPICH, (1, 2, 1, 2, "127.0.0.1", 29500)),
    ],
)
def test_who_it_is(environ: dict[str, str], place: tuple[object, ...]) -> None:
    assert script.find_place(environ) == place


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"RANK": "0"}, "incomplete variables of a launcher: RANK=0; hint: unset RANK"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "incomplete variables of a launcher: OMPI_COMM_WORLD_SIZE=2"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, "MASTER_ADDR is not set; hint: export MASTER_ADDR="),
    ],
)
def test_an_incomplete_environment_is_an_error(environ: dict[str, str], said: str) -> None:
    """Many processes are never a world of one each."""
    done = run("-S", str(SCRIPT), **environ)  # without site-packages there is no torch
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.startswith(f"{FAILED}rank ")
    assert f" on {HOST}: {said}" in line


@pytest.mark.parametrize("args", [("--timeout", "0"), ("--timeout", "nan"), ("--mib", "0"), ("--mib", "x"), ("word",)])
def test_a_wrong_option(args: tuple[str, ...]) -> None:
    done = run(str(SCRIPT), *args)
    assert done.returncode == 2
    assert "test_distributed.py: error: " in done.stderr


def report(rank: int, **changes: Any) -> dict[str, Any]:
    fields = {"host": f"node{rank // 2 + 1}", "torch": "2.13", "device": "Fake", "gpu": f"GPU-{rank}", "problem": ()}
    return fields | changes


def compared(**changes: dict[str, Any]) -> list[str]:
    """The failures of four ranks with a GPU each, some of which are changed."""
    reports = {rank: report(rank, **changes.get(f"rank{rank}", {})) for rank in range(4)}
    return [line.removeprefix(FAILED) for line in script.compare(reports)]


def test_problems_are_found_before_nccl_starts() -> None:
    assert compared() == []
    assert compared(**{f"rank{rank}": {"gpu": "", "device": "cpu"} for rank in range(4)}) == []
    (twice,) = compared(rank3={"gpu": "GPU-2"})
    assert twice.startswith("rank 3 on node2: uses the same GPU as rank 2 on node2: Fake GPU-2; hint: ")
    (none,) = compared(rank2={"gpu": ""})
    assert none.startswith("rank 2 on node2: has no GPU, and others have one; hint: ")
    (broken,) = compared(rank1={"gpu": "", "problem": ("torch cannot use the GPUs: Error 802", "nvidia-smi")})
    assert broken == "rank 1 on node1: torch cannot use the GPUs: Error 802; hint: nvidia-smi"
    (other,) = compared(rank1={"torch": "2.12"})
    assert other == "rank 1 on node1: has torch 2.12, and rank 0 has 2.13; hint: pip install torch==2.13"


def test_the_cause_is_named_and_not_its_consequence() -> None:
    reports = {rank: report(rank) for rank in range(4)}
    lost, own, late = "nccl: Connection closed by peer", "nccl: unhandled system error", "no answer after 60 s"
    errors = {0: lost, 1: own, 2: late, 3: ""}
    results = {rank: {"error": text} for rank, text in errors.items()}
    (line,) = script.judge(results, reports)
    assert line.startswith(f"{FAILED}rank 1 on node1: {own}; hint: export NCCL_SOCKET_IFNAME=")
    del results[2]
    (line,) = script.judge(results, reports)
    assert line.startswith(f"{FAILED}rank 2 on node2: ended while the ranks added; hint: ")
    assert len(script.judge({rank: {"error": late} for rank in range(4)}, reports)) == 4


# ---------------------------------------------------------------- with torch


@pytest.mark.torch
def test_two_ranks_under_torchrun(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(START + END)
    torchrun = ("-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}")
    done = run(*torchrun, f"--log-dir={tmp_path}", str(tmp_path / "rank.py"), "--mib", "3")
    assert done.returncode == 0, done.stderr
    *rows, last = done.stdout.splitlines()
    assert [row.split()[:4] for row in rows] == [["rank", "0", HOST, "cpu"], ["rank", "1", HOST, "cpu"]]
    assert last.startswith("test_distributed: ok: 2 ranks on 1 hosts, gloo, torch ")


@pytest.mark.torch
def test_alone() -> None:
    done = run(str(SCRIPT), "--mib", "1")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(rf"rank 0  {re.escape(HOST)}  cpu  [\d.]+ ms  [\d.]+ ms", done.stdout.splitlines()[0])


@pytest.mark.torch
@pytest.mark.parametrize("slow", ["", "rank0"])
def test_a_missing_rank_is_named_once(slow: str) -> None:
    """Also where rank 0 comes to the meeting later than the others have time for it, as on a busy machine."""
    late = "if os.environ['RANK'] == '0':\n    wait = script.wait_for\n"
    late += "    script.wait_for = lambda *args: (__import__('time').sleep(8), wait(*args))[1]\n"
    ended = ranks(3, [0, 1], (late if slow else "") + END, "--timeout", "12")
    assert [code for code, _ in ended.values()] == [1, 1], ended
    (line,) = failures(ended)
    assert line.startswith(
        f"rank 2 on {HOST}: did not join within 12 s; hint: read its first error; on its host: nc -vz "
    )


@pytest.mark.torch
def test_a_master_that_is_not_there_is_named() -> None:
    ended = ranks(2, [1], END, "--timeout", "1")
    assert ended[1][0] == 1
    (line,) = failures(ended)
    assert line.startswith(f"rank 1 on {HOST}: cannot reach rank 0 at 127.0.0.1:")


@pytest.mark.torch
def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        place = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        done = run(str(SCRIPT), "--timeout", "5", **place)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{FAILED}rank 0 on {HOST}: cannot listen at 127.0.0.1:{port}: ")
    assert f"hint: export MASTER_PORT={port + 1}" in line


@pytest.mark.torch
def test_two_launchers_at_one_address_are_named() -> None:
    """Both start a rank 1. The second one's is here the key that it sets in the store."""
    twice = """
import torch.distributed as dist
prefix = dist.PrefixStore
def with_another(name, store):
    made = prefix(name, store)
    if os.environ["RANK"] == "1":
        made.add("rank 1", 1)
    return made
dist.PrefixStore = with_another
"""
    ended = ranks(2, [0, 1], twice + END, "--timeout", "8")
    assert ended[1][0] == 1, ended
    assert "another process has the same rank; hint: export MASTER_PORT=" in ended[1][1], ended


@pytest.mark.torch
def test_a_rank_that_dies_is_named() -> None:
    die = "if os.environ['RANK'] == '1': script.add_numbers = lambda *_: os._exit(9)\n"
    ended = ranks(3, [0, 1, 2], die + END, "--timeout", "10")
    assert [code for code, _ in ended.values()] == [1, 9, 1], ended
    (line,) = failures(ended)
    assert line.startswith(f"rank 1 on {HOST}: ended while the ranks added; hint: ")


@pytest.mark.torch
def test_a_wrong_sum_is_named() -> None:
    wrong = "import torch.distributed as dist\nif os.environ['RANK'] == '1': dist.all_reduce = lambda *_: None\n"
    ended = ranks(2, [0, 1], wrong + END, "--timeout", "5")
    assert [code for code, _ in ended.values()] == [1, 1], ended
    assert any(
        line.startswith(f"rank 1 on {HOST}: gloo all_reduce: 1 of 1 sums are wrong; ") for line in failures(ended)
    )


@pytest.mark.torch
def test_two_ranks_on_one_device_are_named() -> None:
    """There is no GPU here: what says which device a rank has is a function of this test."""
    fake = "script.find_device = lambda local: ('cuda:0', 'Fake', 'GPU-1')\n"
    ended = ranks(2, [0, 1], fake + END)
    assert [code for code, _ in ended.values()] == [1, 1], ended
    zero, one, failed = ended[0][1].splitlines()
    assert [row.split() for row in (zero, one)] == [["rank", "0", HOST, "Fake"], ["rank", "1", HOST, "Fake"]]
    assert failed.startswith(f"{FAILED}rank 1 on {HOST}: uses the same GPU as rank 0 on {HOST}: Fake GPU-1; hint: ")
    assert ended[1][1] == ""
