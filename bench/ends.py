"""Ends of scripts that use gloo: how many runs torch aborts or lets hang, with ddpkit's hook and without it.

    python bench/ends.py [RUNS]     RUNS of 4 ranks of each kind (100), two busy loops beside them

* left: the script leaves its group as it is, and DistributedDataParallel has the last tensors. The main thread keeps
  the interpreter lock until Python ends, as a script may that computes to its last line. Else the abort is rare.
* destroyed: a function destroys the group and returns, as in torch's tutorial. Its model is freed after the group.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(end):
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    for _ in range(5):
        dist.all_reduce(torch.ones(1000))
    if end == "destroyed":
        dist.destroy_process_group()
        return None
    return model


torch.set_num_threads(1)
if sys.argv[1] == "left":
    sys.setswitchinterval(100)
model = train(sys.argv[1])
"""
RANKS = "4"
LIMIT = 30.0  # seconds of a run; it needs less than 5


def count(runs: int, folder: Path, end: str, hook: str) -> Counter[str]:
    """How that many runs ended."""
    ends: Counter[str] = Counter()
    command = [sys.executable, "-m", "ddpkit", "launch", "-b", "local", "-n", RANKS, "-o", "preload=torch", "--env"]
    for _ in range(runs):
        run = subprocess.Popen(
            [*command, f"DDPKIT_DUMP={hook}", "--", "ends.py", end],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            ends[f"exit code {run.wait(LIMIT)}"] += 1
        except subprocess.TimeoutExpired:
            ends["hung"] += 1
            run.terminate()
            run.wait()
    return ends


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "ends.py").write_text(SCRIPT)
            for end in ("left", "destroyed"):
                for name, hook in (("without the hook", "0"), ("with the hook", "1")):
                    ends = count(runs, Path(folder), end, hook)
                    text = ", ".join(f"{number} x {what}" for what, number in sorted(ends.items()))
                    print(f"{end}, {name}: {runs} runs of {RANKS} ranks: {text}", flush=True)
    finally:
        for each in busy:
            each.kill()


if __name__ == "__main__":
    main()
