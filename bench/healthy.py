"""Tests or launches on healthy nodes, many times: nothing may be found wrong, tried again or put aside.

    python bench/healthy.py [--launches] [--rounds 50] [--ways local,ssh,pdsh,slurm]

It makes a lab of its own, or takes that of `--lab FOLDER`. Prints a line for each round that was not well, and a table.
A test must neither fail nor warn. A launch has `--retries` and a spare node; it must be one attempt that ends with 0.
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
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/lab")]
from cluster import LOGIN, Lab  # noqa: E402
from program import undo_ignored_signals  # noqa: E402

WAYS = {
    "local": ["-n", "2"],
    "ssh": ["-b", "ssh", "-n", "2", "node1", "node2"],
    "pdsh": ["-b", "pdsh", "-n", "2", "node1", "node2"],
    "slurm": ["-b", "slurm", "-N", "2", "-n", "2"],
}
# The spare of each way. Over SSH and pdsh it is the last host; the job of SLURM asks for one node more.
SPARES = {
    "local": [],
    "ssh": ["node3", "--spares", "1"],
    "pdsh": ["node3", "--spares", "1"],
    "slurm": ["--spares", "1"],
}
PATIENCE = 300.0
# Every tenth launch imports torch and reduces; the others end as soon as they have begun.
JOB = """
import os, sys
assert os.environ["DDPKIT_ATTEMPT"] == "1", os.environ["DDPKIT_ATTEMPT"]
if sys.argv[1:] == ["reduce"]:
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    value = torch.ones(1)
    dist.all_reduce(value)
    assert value.item() == int(os.environ["WORLD_SIZE"])
    dist.destroy_process_group()
print("rank", os.environ["RANK"])
"""


def call(lab: Lab, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Type `ddpkit WORDS` on the login node."""
    argv = lab.argv(LOGIN, [sys.executable, "-m", "ddpkit", *words], folder)
    env = {
        **lab.environ(),
        "DDPKIT_GPUS": "0",
        "DDPKIT_BAD_NODES": "bad_nodes.json",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def one_test(lab: Lab, way: str, folder: Path, number: int) -> tuple[float, list[str]]:
    """One test. Returns its seconds, and what was not well."""
    done = call(lab, ["test", "--json", *WAYS[way]], folder)
    if done.returncode not in (0, 122):
        return 0.0, [f"exit code {done.returncode}: {done.stderr.strip()}"]
    shown = json.loads(done.stdout)
    odd = [check for check in shown["checks"] if check["status"] in ("fail", "warn")]
    return shown["seconds"], [f"{each['status']} {each['id']} {each['host']}: {each['evidence']}" for each in odd]


def one_launch(lab: Lab, way: str, folder: Path, number: int) -> tuple[float, list[str]]:
    """One launch. Returns its seconds, and what was not well."""
    (folder / "job.py").write_text(JOB)
    bad_nodes = folder / "bad_nodes.json"
    words = ["launch", *WAYS[way], *SPARES[way], "--retries", "2", "--"]
    before, began = set(folder.glob("logs/*/run.json")), time.monotonic()
    done = call(lab, [*words, "job.py", *(["reduce"] if number % 10 == 0 else [])], folder)
    seconds = time.monotonic() - began
    odd = [f"exit code {done.returncode}: {done.stderr.strip()}"] if done.returncode else []
    new = set(folder.glob("logs/*/run.json")) - before
    attempts = [json.loads(path.read_text())["attempts"] for path in new]
    if [len(each) for each in attempts] != [1] or attempts[0][0]["decision"]:
        odd.append(f"attempts: {attempts}")
    if bad_nodes.exists() and json.loads(bad_nodes.read_text() or "{}").get("nodes"):
        odd.append(f"bad nodes: {bad_nodes.read_text()}")
        bad_nodes.unlink()
    return seconds, odd


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", action="store_true", help="launches, not tests")
    parser.add_argument("--rounds", type=int, default=50, help="for each way")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--lab", type=Path, help="the folder of a lab that is up")
    args = parser.parse_args()
    undo_ignored_signals()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        lab = Lab(args.lab or Path(folder, "lab"))
        if args.lab is None:
            lab.up()
        try:
            one = one_launch if args.launches else one_test
            return rounds(one, lab, args.ways.split(","), args.rounds, Path(folder))
        finally:
            if args.lab is None:
                lab.down()


def rounds(
    one: Callable[[Lab, str, Path, int], tuple[float, list[str]]], lab: Lab, ways: list[str], count: int, folder: Path
) -> int:
    bad = 0
    print("way    rounds  not well  median s  longest s")
    for way in ways:
        times, odd = [], 0
        for number in range(count):
            seconds, found = one(lab, way, folder, number)
            times.append(seconds)
            odd += bool(found)
            for text in found:
                print(f"  {way} round {number}: {text}", flush=True)
        print(f"{way:6} {count:6}  {odd:8}  {statistics.median(times):8.1f}  {max(times):9.1f}", flush=True)
        bad += odd
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
