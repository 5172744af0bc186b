"""Is the slow rank named? Eight ranks on this machine, one of them slower by a fifth, or none; 20 questions of each.

    python bench/slow.py --rounds 20 --only ddp,fsdp2,pipeline --kind sleep

One run for each strategy. The slow rank changes from question to question. Its work takes a fifth longer: it sleeps,
in the data (ddp, fsdp2) or between collectives (pipeline); or `--kind cpu`, a cgroup gives it less of the processor
than it used before (needs root). A healthy run has no slow rank, and a name in it is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

RANKS = 8
PERIOD = 0.1  # seconds in which a cgroup gives a process its part of the processor
SCRIPT = """
import os, sys, time
import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
strategy = sys.argv[1]
dist.init_process_group("gloo")
rank, count = dist.get_rank(), dist.get_world_size()
chosen = ""

def work(seconds):
    slow = chosen == str(rank)
    until = time.thread_time() + BURNT * seconds
    time.sleep(seconds * (1.2 if slow else 1.0) * (0.97 + 0.06 * torch.rand(()).item()))
    while time.thread_time() < until:
        pass

model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(2)])
if strategy == "ddp":
    model = nn.parallel.DistributedDataParallel(model)
elif strategy == "fsdp2":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (count,))
    for each in model:
        fully_shard(each, mesh=mesh)
    fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

def pipeline():
    batch = torch.zeros(32)
    for before, after in ((rank - 1, rank + 1), (rank + 1, rank - 1)):
        for _ in range(8):
            if 0 <= before < count:
                dist.recv(batch, before)
            work(0.04)
            if 0 <= after < count:
                dist.send(batch, after)

print("ready", os.getpid(), flush=True)
while True:
    chosen = open("slow").read()
    if strategy == "pipeline":
        pipeline()
    else:
        work(0.3)
        model(torch.randn(8, 32)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    end = torch.tensor(float(os.path.exists("stop")))
    dist.all_reduce(end, op=dist.ReduceOp.MAX)
    if end:
        break
dist.destroy_process_group()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="questions with a slow rank, and as many without one")
    parser.add_argument("--only", default="ddp,fsdp2,pipeline")
    parser.add_argument("--kind", choices=("sleep", "cpu"), default="sleep")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for strategy in options.only.split(","):
        named, wrong, silent = measure(strategy, options.kind, options.rounds, random.Random(options.seed))
        print(
            f"{strategy}: named {named} of {options.rounds}, none {silent} of {options.rounds}, wrong {wrong}",
            flush=True,
        )


@contextmanager
def longer_sleeps(folder: Path, rank: int) -> Iterator[None]:
    """Let a rank know that it is the slow one."""
    (folder / "slow").write_text(str(rank))
    yield
    (folder / "slow").write_text("")


@contextmanager
def less_of_the_processor(pid: int) -> Iterator[None]:
    """Measure how much of the processor a process uses, then limit it in a cgroup: its work takes a fifth longer."""
    old = Path("/sys/fs/cgroup/cpu")  # cgroups of version 1; else 2
    parent = old if old.is_dir() else Path("/sys/fs/cgroup")
    group = parent / f"ddpkit-slow-{os.getpid()}"
    before, began = _cpu_time(pid), time.monotonic()
    time.sleep(5)
    quota = int(1e6 * PERIOD * (_cpu_time(pid) - before) / (time.monotonic() - began) / 1.2)
    group.mkdir()
    if old.is_dir():
        (group / "cpu.cfs_period_us").write_text(str(int(1e6 * PERIOD)))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (group / "cpu.max").write_text(f"{quota} {int(1e6 * PERIOD)}")
    (group / "cgroup.procs").write_text(str(pid))
    yield
    (parent / "cgroup.procs").write_text(str(pid))
    group.rmdir()


def _cpu_time(pid: int) -> float:
    """Return the seconds of the processor that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure(strategy: str, kind: str, rounds: int, chance: random.Random) -> tuple[int, int, int]:
    """Return how often the slow rank was named, a wrong one was, and none was where none is slow."""
    ddpkit = [sys.executable, "-m", "ddpkit"]
    ask = [*ddpkit, "status", "--slow", "--json"]
    named = wrong = silent = 0
    with tempfile.TemporaryDirectory() as place:
        folder, env = Path(place), dict(os.environ)
        (folder / "train.py").write_text(f"BURNT = {0.1 if kind == 'cpu' else 0.0}\n{SCRIPT}")
        (folder / "slow").write_text("")
        launch = [*ddpkit, "launch", "-n", str(RANKS), "--observe", "stacks", "--", "train.py", strategy]
        with subprocess.Popen(launch, cwd=folder, env=env, stdout=subprocess.DEVNULL) as run:
            try:
                pids = wait_for_lines(folder)
                for question in chance.sample([True, False] * rounds, 2 * rounds):
                    rank = chance.randrange(RANKS)
                    slow_down = less_of_the_processor(pids[rank]) if kind == "cpu" else longer_sleeps(folder, rank)
                    with slow_down if question else nullcontext():
                        time.sleep(1)
                        done = subprocess.run(ask, cwd=folder, env=env, stdout=subprocess.PIPE, check=True)
                    slow = json.loads(done.stdout)["slow"]
                    found = slow["ranks"] if slow else []
                    named += question and found == [rank]
                    silent += not question and not found
                    wrong += bool(found) and not (question and found == [rank])
            finally:
                (folder / "stop").touch()
                run.wait(60)
    return named, wrong, silent


def wait_for_lines(folder: Path) -> list[int]:
    """Wait until each rank has begun. Returns their processes, by rank."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        logs = [*folder.glob("logs/*/rank_*.log")]
        found = {int(log.stem.removeprefix("rank_")): re.search(r"ready (\d+)\n", log.read_text()) for log in logs}
        if len(found) == RANKS and all(found.values()):
            time.sleep(3)
            return [int(each[1]) for _, each in sorted(found.items()) if each]
        time.sleep(0.5)
    raise SystemExit("the ranks did not begin")


if __name__ == "__main__":
    main()
