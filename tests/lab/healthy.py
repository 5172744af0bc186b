"""Tests of healthy nodes, many times: `ddpkit test` must find nothing wrong, and warn of nothing.

    python tests/lab/healthy.py [--rounds 50] [--ways local,ssh,pdsh,slurm]

It makes a lab of its own, or takes that of `--lab FOLDER`. Prints a line for each round that was not well, and a table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/lab")]
from cluster import LOGIN, Lab  # noqa: E402

WAYS = {
    "local": ["2"],
    "ssh": ["-b", "ssh", "-n", "2", "node1", "node2"],
    "pdsh": ["-b", "pdsh", "-n", "2", "node1", "node2"],
    "slurm": ["-b", "slurm", "-N", "2", "-n", "2"],
}
PATIENCE = 300.0


def one(lab: Lab, way: str, folder: Path) -> tuple[float, list[str]]:
    """One test. Returns its seconds, and what it said that was not well."""
    argv = lab.argv(LOGIN, [sys.executable, "-m", "ddpkit", "test", "--json", *WAYS[way]], folder)
    env = {**lab.environ(), "DDPKIT_GPUS": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if done.returncode not in (0, 122):
        return 0.0, [f"exit code {done.returncode}: {done.stderr.strip()}"]
    shown = json.loads(done.stdout)
    odd = [check for check in shown["checks"] if check["status"] in ("fail", "warn")]
    return shown["seconds"], [f"{each['status']} {each['id']} {each['host']}: {each['evidence']}" for each in odd]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="for each way")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--lab", type=Path, help="the folder of a lab that is up")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        lab = Lab(args.lab or Path(folder, "lab"))
        if args.lab is None:
            lab.up()
        try:
            return rounds(lab, args.ways.split(","), args.rounds, Path(folder))
        finally:
            if args.lab is None:
                lab.down()


def rounds(lab: Lab, ways: list[str], count: int, folder: Path) -> int:
    bad = 0
    print("way    rounds  not well  median s  longest s")
    for way in ways:
        times, odd = [], 0
        for number in range(count):
            seconds, said = one(lab, way, folder)
            times.append(seconds)
            odd += bool(said)
            for text in said:
                print(f"  {way} round {number}: {text}", flush=True)
        print(f"{way:6} {count:6}  {odd:8}  {statistics.median(times):8.1f}  {max(times):9.1f}", flush=True)
        bad += odd
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
