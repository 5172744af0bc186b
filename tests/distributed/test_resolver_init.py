"""What needs torch: real ranks that meet, reduce and leave, from every style of environment; and the errors of a start.

Ranks are real processes with an environment of their own, because that is what decides; the group is gloo's.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from program import run_to_end
from rank_processes import free_port
from warm_python import WarmPython

from ddpkit.distributed.torch import resolve, save_atomic

pytestmark = pytest.mark.torch

PATIENCE = 120  # seconds: a bound for a busy machine, not an expectation

# Each rank counted another number of samples, and all of them have the value 1 on rank 0 and 4 on rank 1.
RANK = """
import json, os, sys
import torch, torch.distributed as dist
from ddpkit.distributed.torch import *

before = dict(os.environ)
env = init()
again = init()
ones = torch.ones(1, device="cpu")
dist.all_reduce(ones)
count = 3 if env.rank == 0 else 1
mean = mean_over_ranks(total=count * (1 if env.rank == 0 else 4), count=count)
empty = mean_over_ranks(0, 0)
barrier()
out = dict(rank=env.rank, source=env.source, backend=dist.get_backend(), again=again == env, ones=ones.item(),
           mean=mean, empty=str(empty), main=[is_main(), is_main(env)],
           device=str(device(env)), seed=seed_all(7, env), torch_seed=torch.initial_seed())
shutdown()
shutdown()
out["left"] = not dist.is_initialized()
out["environ"] = before == dict(os.environ)
with open(os.path.join(sys.argv[1], f"{env.rank}.json"), "w") as file:
    json.dump(out, file)
"""

FAILING = """
import sys
from ddpkit.distributed.torch import EnvError, init
try:
    init(init_timeout=float(sys.argv[1]))
except EnvError as error:
    print(error.message, error.hint, type(error.__cause__).__name__, sep="\\n")
    sys.exit(error.exit_code)
"""

# Variables that would make another source of the process that the tests run in.
FOREIGN = tuple(
    "RANK WORLD_SIZE LOCAL_ GROUP_ ROLE_ NODE_RANK MASTER_ TORCHELASTIC_ SLURM_ DDPKIT_ "
    "OMPI_ PMI_ PMIX_ MPI_ MV2_ JSM_ LSB_".split()
)


def clean_environ() -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    # gloo looks the host's own name up to find its interface; these ranks share one machine.
    return environ | {
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


@pytest.fixture
def port() -> int:
    return free_port()


def run_ranks(environs: list[dict[str, str]], folder: Path) -> list[dict[str, Any]]:
    """Run one process per environment to its end and return what each rank wrote, by rank."""
    processes = [
        WarmPython([sys.executable, "-c", RANK, str(folder)], env=clean_environ() | environ) for environ in environs
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return read_ranks(folder, len(environs))


def read_ranks(folder: Path, count: int) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(count)]


def check_two(ranks: list[dict[str, Any]], source: str) -> None:
    for number, rank in enumerate(ranks):
        assert rank["source"] == source
        assert rank["backend"] == "gloo"
        assert rank["ones"] == 2
        assert rank["mean"] == (3 * 1 + 1 * 4) / 4
        assert rank["empty"] == "nan"
        assert rank["main"] == [number == 0] * 2
        assert rank["seed"] == rank["torch_seed"] == 7 + number
        assert rank["device"] == "cpu"
        assert rank["again"]
        assert rank["left"]
        assert rank["environ"], "os.environ was modified"


def torch_style(rank: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def slurm_style(rank: int, port: int) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "1",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_NODELIST": "nowhere",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "SLURM_GTIDS": "0,1",
        "MASTER_PORT": str(port),
    }


def openmpi_style(rank: int, port: int) -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "MASTER_PORT": str(port),
    }


@pytest.mark.parametrize(
    ("style", "source"), [(torch_style, "torch"), (slurm_style, "slurm"), (openmpi_style, "openmpi")]
)
def test_two_ranks(style: Any, source: str, port: int, tmp_path: Path) -> None:
    check_two(run_ranks([style(rank, port) for rank in range(2)], tmp_path), source)


def test_two_ranks_by_ipv6(port: int, tmp_path: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    check_two(run_ranks([torch_style(rank, port) | {"MASTER_ADDR": "::1"} for rank in range(2)], tmp_path), "torch")


def test_under_torchrun(port: int, tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--log-dir={tmp_path / 'logs'}"]
    torchrun += ["--rdzv-backend=c10d", "--rdzv-endpoint"]
    done = run_to_end([sys.executable, *torchrun, f"127.0.0.1:{port}", str(script), str(tmp_path)], env=clean_environ())
    assert done.returncode == 0, done.stderr
    check_two(read_ranks(tmp_path, 2), "torchrun")


def test_a_single_process(tmp_path: Path) -> None:
    (rank,) = run_ranks([{}], tmp_path)
    assert rank["source"] == "single"
    assert rank["ones"] == 1
    assert rank["mean"] == 1
    assert rank["main"] == [True, True]
    assert rank["left"]


def test_a_single_process_in_a_job_of_many_is_warned() -> None:
    done = run_to_end(
        [sys.executable, "-c", "from ddpkit.distributed.torch import init; init()"],
        env=clean_environ() | {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"},
        check=True,
    )
    assert "SLURM_NTASKS=4, but srun did not start this process" in done.stderr


def fail(environ: dict[str, str], init_timeout: float) -> tuple[str, float]:
    """Run a rank that must fail with an EnvError; return what it said and the seconds it took."""
    start = time.monotonic()
    done = run_to_end([sys.executable, "-c", FAILING, str(init_timeout)], env=clean_environ() | environ)
    assert done.returncode == 125, done.stderr
    return done.stdout, time.monotonic() - start


def test_a_master_that_is_not_there(port: int) -> None:
    said, seconds = fail(torch_style(1, port), 2)
    assert f"rank 1 of 2 on {socket.gethostname()} (torch) cannot reach the master 127.0.0.1:{port}" in said
    assert "(from MASTER_ADDR) within 2 s" in said
    assert f"nc -vz 127.0.0.1 {port}" in said
    assert "DistNetworkError" in said, "torch's error is the cause"
    assert seconds < PATIENCE / 2


def test_the_timeout_from_the_environment(port: int) -> None:
    said, _ = fail(torch_style(1, port) | {"DDPKIT_INIT_TIMEOUT": "1.5"}, 60)
    assert "within 1.5 s" in said


def test_a_timeout_that_is_no_number(port: int) -> None:
    said, _ = fail(torch_style(1, port) | {"DDPKIT_INIT_TIMEOUT": "soon"}, 60)
    assert "DDPKIT_INIT_TIMEOUT=soon is not a number of seconds" in said


def test_ranks_that_do_not_come(port: int) -> None:
    said, _ = fail(torch_style(0, port), 2)
    assert f"listened on 127.0.0.1:{port} for 2 s, but only 1 of 2 ranks joined" in said


def test_a_master_whose_name_does_not_resolve(port: int) -> None:
    said, _ = fail(torch_style(1, port) | {"MASTER_ADDR": "nowhere.invalid"}, 2)
    assert "the name nowhere.invalid does not resolve on this machine" in said
    assert "getent hosts nowhere.invalid" in said


def test_a_port_in_use() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        said, _ = fail(torch_style(0, port), 20)
    assert f"cannot listen on 127.0.0.1:{port} (master_port from MASTER_PORT): the port is in use" in said
    assert f"ss -ltnp 'sport = :{port}'" in said


def test_nccl_without_a_gpu() -> None:
    from ddpkit.distributed.torch import EnvError, init

    with pytest.raises(EnvError, match="the nccl backend needs a GPU"):
        init("nccl", env=resolve({"CUDA_VISIBLE_DEVICES": ""}))


def test_a_group_that_says_something_else(tmp_path: Path) -> None:
    code = """
import torch.distributed as dist
from ddpkit.distributed.torch import EnvError, init, resolve
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    init(env=resolve({"DDPKIT_RANK": "1", "DDPKIT_WORLD_SIZE": "2"}))
except EnvError as error:
    print(error.message)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environ(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert "this is rank 0 of 1, but rank 1 of 2 in the environment (explicit)" in done.stdout, done.stderr


# The ranks met, but one dies before gloo has connected them: torch alone would wait half an hour for it.
# It waits for rank 0's port first: torch tries less and less often, and could miss the seconds in which rank 0 listens.
HALF = r"""
import re, sys, time
from datetime import timedelta
import torch.distributed as dist
print("ready", flush=True)
listens = re.compile(r":%04X [0:]+ 0A " % int(sys.argv[1]))
while not any(listens.search(open("/proc/net/" + name).read()) for name in ("tcp", "tcp6")):
    time.sleep(0.05)
next(dist.rendezvous(f"tcp://127.0.0.1:{sys.argv[1]}", 1, 2, timeout=timedelta(seconds=60)))
"""


def test_a_rank_that_dies_after_the_meeting(port: int) -> None:
    dying = subprocess.Popen(
        [sys.executable, "-c", HALF, str(port)],
        env=clean_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert dying.stdout is not None
        assert dying.stdout.readline() == "ready\n"  # torch is imported: it will be there in time
        said, seconds = fail(torch_style(0, port), 8)
    finally:
        dying.kill()
        dying.communicate()
    assert "rank 0 of 2" in said
    assert "reached the store" in said
    assert "GLOO_SOCKET_IFNAME" in said
    assert seconds < PATIENCE


COLLECTIVE_TIMEOUT = """
import sys, time
import torch, torch.distributed as dist
from ddpkit.distributed.torch import init, resolve
env = init(timeout=float(sys.argv[1]), init_timeout=30)
if env.rank == 0:
    start = time.monotonic()
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        print("timed out" if "imed out" in str(error) else error, time.monotonic() - start)
else:
    sys.stdin.read()
"""


def test_the_timeout_of_a_collective_is_not_that_of_the_start(port: int) -> None:
    first, second = (
        subprocess.Popen(
            [sys.executable, "-c", COLLECTIVE_TIMEOUT, "2"],
            env=clean_environ() | torch_style(rank, port),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    )
    try:
        said, _ = first.communicate(timeout=PATIENCE)  # the second stays, until its stdin is closed
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()
    assert said.startswith("timed out"), said
    assert 1.5 < float(said.split()[-1]) < 25, "2 s were asked for collectives, and 30 s for the start"


OWN_TIMEOUTS = """
import sys
from datetime import timedelta
import torch, torch.distributed as dist
c10d = dist.distributed_c10d
c10d.default_pg_nccl_timeout = timedelta(minutes=10)
class Nccl(dist.ProcessGroupGloo):  # stands for what a build with CUDA has
    def name(self): return "nccl"
    def _set_default_timeout(self, timeout): self.timeout = timeout
made = []
def create(store, rank, size, timeout):
    made.append(Nccl(store, rank, size, timeout))
    return made[0]
dist.Backend.register_backend("stand", create, devices=["cuda"])
from ddpkit.distributed.torch import init
init("cpu:gloo,cuda:stand", timeout=float(sys.argv[1]) if sys.argv[1:] else None, init_timeout=30)
group = c10d._get_default_group()
gloo = group._get_backend(torch.device("cpu"))
gloo = getattr(gloo, "wrapped_pg", gloo).options._timeout
print(gloo.total_seconds(), made[0].timeout.total_seconds() if made else None)
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("argument", "seconds"), [([], "1800.0 600.0"), (["77"], "77.0 77.0")])
def test_each_backend_has_its_own_timeout(argument: list[str], seconds: str, port: int) -> None:
    """After the start NCCL waits 10 minutes, and gloo 30, as without ddpkit."""
    both = [
        subprocess.Popen(
            [sys.executable, "-c", OWN_TIMEOUTS, *argument],
            env=clean_environ() | torch_style(rank, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=PATIENCE) for process in both]
    assert [out.strip() for out, _ in said] == [seconds, seconds], said


@pytest.mark.parametrize("existing", [True, False])
def test_save_atomic(existing: bool, tmp_path: Path) -> None:
    import torch

    path = tmp_path / "model.pt"
    if existing:
        path.write_bytes(b"old")
    save_atomic({"step": 3, "weight": torch.arange(3)}, path)
    loaded = torch.load(path, weights_only=True)
    assert loaded["step"] == 3
    assert loaded["weight"].tolist() == [0, 1, 2]
    assert os.listdir(tmp_path) == ["model.pt"]  # noqa: PTH208


def test_save_atomic_fails_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"old")
    with pytest.raises((AttributeError, TypeError, RuntimeError)):
        save_atomic({"step": 3, "no pickle": lambda: None}, path)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["model.pt"]


def test_save_atomic_leaves_what_another_program_put_in_the_place_of_its_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def save(obj: object, file: Any) -> None:
        (tmp_path / "theirs").write_text("theirs")
        (tmp_path / "theirs").replace(next(tmp_path.glob(".*.tmp")))

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(OSError, match="another program replaced"):
        save_atomic({}, tmp_path / "model.pt")
    assert [one.read_text() for one in tmp_path.iterdir()] == ["theirs"]


KILLED = """
import os, signal, sys
import torch
from ddpkit.distributed.torch import save_atomic

def die(obj, file):
    file.write(b"half of it")
    file.flush()
    if sys.argv[2] == "wait":
        print("saving", flush=True)
        sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)

torch.save = die
save_atomic({}, sys.argv[1])
"""


def test_the_next_save_atomic_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """And nothing that another one is writing, or that has another name."""
    path = tmp_path / "model.pt"
    others = [".model.pt.swp", ".model.pt.123.0123abcd.tmp", "model.pt.tmp", f".a.{'0' * 24}.tmp"]
    for name in others:
        (tmp_path / name).touch()
    for _ in range(3):
        assert subprocess.run([sys.executable, "-c", KILLED, str(path), "die"], check=False).returncode == -9
    words = [sys.executable, "-c", KILLED, str(path), "wait"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        assert living.stdout is not None
        assert living.stdout.readline() == b"saving\n"
        save_atomic({"step": 3}, path)
        assert len(list(tmp_path.iterdir())) == len(others) + 2
        living.kill()
    save_atomic({"step": 4}, path)
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([*others, "model.pt"])


def test_what_a_killed_save_of_another_file_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    """Names of checkpoints often have the step. Another rank may be saving its own part at the same time."""
    for step in (1, 2):
        words = [sys.executable, "-c", KILLED, str(tmp_path / f"step_{step}.pt"), "die"]
        assert subprocess.run(words, check=False).returncode == -9
    old, fresh = sorted(tmp_path.iterdir())
    then = time.time() - 3600
    os.utime(old, (then, then))
    mine = tmp_path / f".notes.{'0' * 24}.tmp"
    mine.touch()
    os.utime(mine, (then, then))
    save_atomic({"step": 3}, tmp_path / "step_3.pt")
    assert sorted(tmp_path.iterdir()) == sorted([fresh, mine, tmp_path / "step_3.pt"])


def test_save_atomic_is_as_readable_as_the_umask_says(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        save_atomic({}, tmp_path / "model.pt")
    finally:
        os.umask(old)
    assert (tmp_path / "model.pt").stat().st_mode & 0o777 == 0o640


def test_mean_without_a_group() -> None:
    from ddpkit.distributed.torch import mean_over_ranks

    assert mean_over_ranks(6, 4) == 1.5
    assert str(mean_over_ranks(0, 0)) == "nan"
