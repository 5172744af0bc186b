"""Effect of the advice in docs/internals/measurements.md on this machine: threads, imports, small and large messages.

Each figure is the median of some rounds, in which the ways that are compared take turns.

Usage: python bench/advice.py [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# A step of training on processors: each rank multiplies, then all add up.
STEPS = """
import os, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
one = torch.randn(768, 768)
for warm in range(3):
    one @ one
dist.barrier()
begin = time.perf_counter()
for step in range(30):
    for layer in range(4):
        one @ one
    dist.all_reduce(torch.ones(1))
dist.barrier()
if rank == 0:
    print("seconds", time.perf_counter() - begin)
dist.destroy_process_group()
"""
# The same 16 MiB in one all_reduce, and in 256.
MESSAGES = """
import sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
whole = torch.ones(4 << 20)
parts = whole.chunk(int(sys.argv[1]))
for part in parts:
    dist.all_reduce(part)
dist.barrier()
begin = time.perf_counter()
for part in parts:
    dist.all_reduce(part)
dist.barrier()
if dist.get_rank() == 0:
    print("seconds", time.perf_counter() - begin)
dist.destroy_process_group()
"""
# How long until four ranks have met and ended.
MEET = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
"""
# What an import reads: on a shared disk each file is a question to its server, and each rank asks.
IMPORT = """
import os, sys
files = set()
sys.addaudithook(lambda name, args: files.add(str(args[0])) if name == "open" else None)
import torch
paths = [path for path in files if os.path.isfile(path)]
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/torch/" in line}
size = sum(os.path.getsize(path) for path in {*paths, *maps})
print("files", len(paths) + len(maps), round(size / 2**20))
"""

Ways = dict[str, tuple[list[str], dict[str, str]]]  # what is launched, and with which variables


def launch(folder: Path, words: list[str], env: dict[str, str]) -> float:
    """Seconds that rank 0 measured, or where it did not measure, that the whole launch took."""
    argv = [sys.executable, "-m", "ddpkit", "launch", "--json", *words]
    kept = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    begin = time.perf_counter()
    done = subprocess.run(argv, cwd=folder, env={**kept, **env}, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(done.stderr)
    return next((float(line.split()[-1]) for line in done.stderr.splitlines() if " seconds " in line), taken)


def compared(folder: Path, ways: Ways, rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (words, env) in ways.items():
            taken[way].append(launch(folder, words, env))
    return {way: statistics.median(each) for way, each in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is run (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    cpus = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "steps.py").write_text(STEPS)
        (folder / "messages.py").write_text(MESSAGES)
        threads: Ways = {
            "what ddpkit sets": (["-n", "2", "--", "steps.py"], {}),
            f"all {cpus} for each rank": (["-n", "2", "--", "steps.py"], {"OMP_NUM_THREADS": str(cpus)}),
            f"{4 * cpus} for each rank": (["-n", "2", "--", "steps.py"], {"OMP_NUM_THREADS": str(4 * cpus)}),
        }
        parts: Ways = {
            f"16 MiB in {count}": (["-n", "2", "--", "messages.py", str(count)], {}) for count in (1, 16, 256)
        }
        (folder / "meet.py").write_text(MEET)
        starts: Ways = {
            "-o starter=ranks": (["-n", "4", "--", "meet.py"], {}),
            "-o preload=true": (["-n", "4", "-o", "preload=true", "--", "meet.py"], {}),
            "-o starter=torchrun": (["-n", "4", "-o", "starter=torchrun", "--", "meet.py"], {}),
        }
        rows = {
            "4 ranks met": compared(folder, starts, options.rounds),
            "OMP_NUM_THREADS": compared(folder, threads, options.rounds),
            "all_reduce": compared(folder, parts, options.rounds),
        }
    read = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout.split()
    if options.json:
        print(json.dumps({**rows, "import torch": {"files": int(read[1]), "MiB": int(read[2])}}, indent=2))
        return
    for what, ways in rows.items():
        first = next(iter(ways.values()))
        for way, seconds in ways.items():
            print(f"{what:<16}  {way:<24}  {seconds:>8.3f} s  {seconds / first:>6.2f}")
    print(f"import torch      opens {read[1]} files of together {read[2]} MiB, for each process that does it")


if __name__ == "__main__":
    main()
