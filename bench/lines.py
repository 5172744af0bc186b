"""CPU of a launcher for each flushed line of its ranks, beside torchrun with `--tee 3` in the same run.

Four ranks on this machine print 1,500 flushed lines a second each. Counted are the CPU seconds of all processes between
two moments after the start: those of the launcher for each line, and with the ranks, whose writes cost more into a pipe
than into a file, the share of a CPU. Usage: python bench/lines.py [--seconds 10] [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rows import print_rows

ROOT = Path(__file__).parents[1]
RANKS, RATE = 4, 1500  # lines a second of each rank
JOB = f"""
import os, pathlib, time
pathlib.Path("pids", str(os.getpid())).touch()
begin, number = time.monotonic(), 0
count = os.open(f"counts/{{os.environ['RANK']}}", os.O_CREAT | os.O_RDWR)
while True:
    while number < {RATE} * (time.monotonic() - begin):
        print(f"step {{number}} loss 2.3025 lr 0.001 tokens/s 123456 memory 40.1 GB", flush=True)
        number += 1
        if number % 8 == 0:
            os.pwrite(count, b"%012d" % number, 0)
    time.sleep(0.0004)
"""
WAYS = {
    "ddpkit": ["-m", "ddpkit", "launch", "-n", str(RANKS), "--", "job.py"],
    "torchrun": [
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        str(RANKS),
        "--tee",
        "3",
        "--log-dir",
        "t",
        "job.py",
    ],
}


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for each in found:
        for tasks in Path(f"/proc/{each}/task").glob("*/children"):
            found += [int(word) for word in tasks.read_text().split()]
    return found


def used(pids: list[int]) -> float:
    """CPU seconds of living processes with all their threads."""
    return sum(
        int(path.read_text().split()[0]) / 1e9 for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat")
    )


def lines(folder: Path) -> int:
    return sum(int(path.read_text() or 0) for path in (folder / "counts").iterdir())


def measure(argv: list[str], seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pids").mkdir()
        (folder / "counts").mkdir()
        (folder / "job.py").write_text(JOB)
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": name}
        run = subprocess.Popen(
            [sys.executable, *argv], cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while len(list((folder / "counts").iterdir())) < RANKS:
                assert run.poll() is None
                time.sleep(0.1)
            time.sleep(2.0)
            ranks = {int(path.name) for path in (folder / "pids").iterdir()}
            own = [pid for pid in family(run.pid) if pid not in ranks]
            every = [*own, *ranks]
            cpu, total, count, begin = used(own), used(every), lines(folder), time.perf_counter()
            time.sleep(seconds)
            cpu, total, count = used(own) - cpu, used(every) - total, lines(folder) - count
            took = time.perf_counter() - begin
        finally:
            run.terminate()
            run.wait(60)
    return {"lines": count / took, "cpu_share": total / took, "launcher_us_per_line": 1e6 * cpu / count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement (default 10)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is measured (default 3)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    measured: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way, argv in WAYS.items():
            measured[way].append(measure(argv, options.seconds))
    rows: list[dict[str, Any]] = [
        {"way": way, **{key: round(statistics.median(each[key] for each in mine), 3) for key in mine[0]}}
        for way, mine in measured.items()
    ]
    rows[0]["ratio"] = round(rows[0]["cpu_share"] / rows[1]["cpu_share"], 2)
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
