"""Ends of a script that leaves its gloo group: how many ranks torch aborts, with ddpkit's hook and without it.

    python bench/ends.py [RUNS]     RUNS of 4 ranks each way (100), two busy loops beside them

A rank here ends as DistributedDataParallel under gloo does: the last tensors belong to torch alone. The main thread
keeps the interpreter lock until Python ends, as a script may that computes to its last line. Without this the abort is
rare.
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

torch.set_num_threads(1)
sys.setswitchinterval(100)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
for _ in range(5):
    dist.all_reduce(torch.ones(1000))
"""
RANKS = "4"


def count(runs: int, folder: Path, hook: str) -> Counter[int]:
    """Exit codes of that many runs."""
    codes: Counter[int] = Counter()
    command = [sys.executable, "-m", "ddpkit", "launch", "-b", "local", "-n", RANKS, "-o", "preload=torch", "--env"]
    for _ in range(runs):
        ended = subprocess.run(
            [*command, f"DDPKIT_DUMP={hook}", "--", "ends.py"], cwd=folder, capture_output=True, check=False
        )
        codes[ended.returncode] += 1
    return codes


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "ends.py").write_text(SCRIPT)
            for name, hook in (("without the hook", "0"), ("with the hook", "1")):
                codes = count(runs, Path(folder), hook)
                text = ", ".join(f"{number} x exit code {code}" for code, number in sorted(codes.items()))
                print(f"{name}: {runs} runs of {RANKS} ranks: {text}", flush=True)
    finally:
        for each in busy:
            each.kill()


if __name__ == "__main__":
    main()
