"""Is the slow rank named? Eight ranks on this machine, one of them slower by a fifth, or none; 20 questions of each.

    python bench/slow.py --rounds 20 --only ddp,fsdp2,pipeline

One run for each strategy. The slow rank changes from question to question; the kind of slowness is a sleep in the
data, or between collectives. A healthy run has none, and a name in it is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANKS = 8
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
    time.sleep(seconds * (1.2 if slow else 1.0) * (0.97 + 0.06 * torch.rand(()).item()))

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

print("ready", flush=True)
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
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for strategy in options.only.split(","):
        named, wrong, silent = measure(strategy, options.rounds, random.Random(options.seed))
        print(
            f"{strategy}: named {named} of {options.rounds}, none {silent} of {options.rounds}, wrong {wrong}",
            flush=True,
        )


def measure(strategy: str, rounds: int, chance: random.Random) -> tuple[int, int, int]:
    """Return how often the slow rank was named, a wrong one was, and none was where none is slow."""
    ddpkit = [sys.executable, "-m", "ddpkit"]
    named = wrong = silent = 0
    with tempfile.TemporaryDirectory() as place:
        folder, env = Path(place), dict(os.environ)
        (folder / "train.py").write_text(SCRIPT)
        (folder / "slow").write_text("")
        launch = [*ddpkit, "launch", "-n", str(RANKS), "--observe", "stacks", "--", "train.py", strategy]
        with subprocess.Popen(launch, cwd=folder, env=env, stdout=subprocess.DEVNULL) as run:
            try:
                wait_for_lines(folder)
                for question in chance.sample([True, False] * rounds, 2 * rounds):
                    rank = str(chance.randrange(RANKS)) if question else ""
                    (folder / "slow").write_text(rank)
                    time.sleep(1)
                    done = subprocess.run(
                        [*ddpkit, "status", "--slow", "--json"], cwd=folder, env=env, capture_output=True, check=True
                    )
                    slow = json.loads(done.stdout)["slow"]
                    found = slow["ranks"] if slow else []
                    named += bool(question and found == [int(rank)])
                    silent += not question and not found
                    wrong += bool(found) and found != [int(rank or -1)]
            finally:
                (folder / "stop").touch()
                run.wait(60)
    return named, wrong, silent


def wait_for_lines(folder: Path) -> None:
    """Wait until each rank has begun."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        logs = [*folder.glob("logs/*/rank_*.log")]
        if len(logs) == RANKS and all("ready" in log.read_text() for log in logs):
            time.sleep(3)
            return
        time.sleep(0.5)
    raise SystemExit("the ranks did not begin")


if __name__ == "__main__":
    main()
