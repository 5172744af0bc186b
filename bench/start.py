"""Duration of a launch: time to "first all_reduce done and exited", side by side, as ratios.

Each way starts the same ranks on this machine. The ways are interleaved, so that noise hits all alike, and the ratio is
that of the medians. `bare` is what a person would type by hand: one `python script.py &` per rank, then `wait`.

With `--way "-b ssh node1 node2 -n 2 --preload"`, and so on, launches with these options are compared instead, and the
first is the base. They run in a new directory below the current one, which the nodes must share.

Usage: python bench/start.py [--rounds N] [--way OPTIONS]... [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from ddpkit.transports.this_machine import free_port

ALL_REDUCE = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
assert total.item() == dist.get_world_size()
dist.destroy_process_group()
"""

PYTHON = shlex.quote(sys.executable)
# One core and thread for each, everywhere: otherwise the ways would differ in what torch does, and not in themselves.
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
# An installed package comes compiled; one that is run from its sources compiles itself in the first round.
ENV.pop("PYTHONDONTWRITEBYTECODE", None)


def bare(ranks: int) -> str:
    lines = [f"RANK={rank} LOCAL_RANK={rank} {PYTHON} job.py &" for rank in range(ranks)]
    return f"export WORLD_SIZE={ranks} LOCAL_WORLD_SIZE={ranks}\n" + "\n".join(lines) + "\nwait"


WAYS: dict[str, Callable[[int], str]] = {
    "bare ranks": bare,
    "ddpkit, starter ranks": lambda n: f"{PYTHON} -m ddpkit launch -n {n} -- job.py",
    "ddpkit, ranks with preload": lambda n: f"{PYTHON} -m ddpkit launch -n {n} -o preload=true -- job.py",
    "torchrun by hand": lambda n: (
        f"{PYTHON} -m torch.distributed.run --nproc-per-node {n} --master-port $MASTER_PORT job.py"
    ),
    "ddpkit, starter torchrun": lambda n: f"{PYTHON} -m ddpkit launch -n {n} -o starter=torchrun -- job.py",
}
BASE = {"ddpkit, starter torchrun": "torchrun by hand"}
BOUND = {
    ("ddpkit, starter ranks", 2): 1.10,
    ("ddpkit, starter ranks", 4): 1.10,
    ("ddpkit, ranks with preload", 4): 0.60,
    ("ddpkit, starter torchrun", 2): 1.05,
    ("ddpkit, starter torchrun", 4): 1.05,
}


def given(options: str) -> Callable[[int], str]:
    return lambda _: f"{PYTHON} -m ddpkit launch {options} -- job.py"


def measure(script: str, folder: Path) -> float:
    begin = time.perf_counter()
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=folder,
        env={**ENV, "MASTER_PORT": str(free_port())},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - begin
    if done.returncode != 0 or "Traceback" in done.stderr:
        sys.exit(f"{script}\n{done.stderr}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7, help="how often each way is started (default 7)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--way", action="append", help="compare launches with these options; repeat it")
    options = parser.parse_args()
    ways = {way: given(way) for way in options.way} if options.way else WAYS
    rows = []
    with tempfile.TemporaryDirectory(dir="." if options.way else None) as name:
        folder = Path(name)
        (folder / "job.py").write_text(ALL_REDUCE)
        for ranks in (0,) if options.way else (2, 4):  # 0: the options have it
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            for number in range(options.rounds + 1):
                for way, make in ways.items():
                    taken = measure(make(ranks), folder)
                    if number > 0:  # the first round fills caches
                        seconds[way].append(taken)
            medians = {way: statistics.median(taken) for way, taken in seconds.items()}
            for way, median in medians.items():
                base = BASE.get(way, next(iter(ways)))
                bound = BOUND.get((way, ranks))
                rows.append(
                    {
                        "ranks": ranks,
                        "way": way,
                        "seconds": round(median, 3),
                        "ratio": round(median / medians[base], 3),
                        "to": base,
                        "bound": bound,
                    }
                )
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    wide = max(map(len, ways))
    print(f"{'ranks':>5}  {'way':<{wide}} {'median s':>8}  {'ratio':>6}  to")
    for row in rows:
        limit = f"(at most {row['bound']:.2f})" if row["bound"] else ""
        figures = f"{row['way']:<{wide}} {row['seconds']:>8.2f}  {row['ratio']:>6.2f}  {row['to']}"
        print(f"{row['ranks'] or '':>5}  {figures} {limit}")


if __name__ == "__main__":
    main()
