"""Cost of status lines and folding: train.py on two ranks in a terminal, with them and without, side by side.

The ways are interleaved, so that noise hits all alike. `plain` has neither. A training's figure is the median of its
epochs; a ratio is the mean of those of each round to its `plain`, with its standard error. The launcher's CPU seconds
are its own while the ranks train, without theirs. With --lines the relay alone is measured: ranks that all say the same
lines, and ranks that all say different ones.

Usage: python bench/watch.py [--rounds N] [--epochs N] [--ways both,...] [--json]
       python bench/watch.py --lines [--ranks N]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from ddpkit.console.dedup import Fold
from ddpkit.console.relay import Relay
from ddpkit.console.writer import Screen
from ddpkit.run.log_files import LogFiles

ROOT = Path(__file__).parents[1]
WAYS: dict[str, dict[str, str]] = {
    "plain": {"DDPKIT_HEADER": "0", "DDPKIT_FOLD": "0"},
    "folding": {"DDPKIT_HEADER": "0"},
    "status lines": {"DDPKIT_FOLD": "0"},
    "both": {},
}
BOUND = 1.01  # of the training's time


def train(settings: dict[str, str], epochs: int) -> dict[str, float]:
    """Train once. The seconds of an epoch (the first left out), and the launcher's CPU seconds."""
    with tempfile.TemporaryDirectory() as name:
        handle, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        script = [str(ROOT / "train.py"), "--epochs", str(epochs), "--log-every", "5"]
        argv = [sys.executable, "-m", "ddpkit", "launch", "-n", "2", "--", *script]
        env = {**os.environ, **settings, "TERM": "xterm-256color", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        process = subprocess.Popen(argv, cwd=name, env=env, stdin=side, stdout=side, stderr=side)
        os.close(side)
        seen = bytearray()
        reader = threading.Thread(target=_drain, args=(handle, seen))
        reader.start()
        metrics = Path(name, "checkpoints/metrics.jsonl")
        looks: list[tuple[float, float]] = []
        while process.poll() is None:
            if metrics.exists():  # it trains: what the start cost is another matter
                looks.append((time.perf_counter(), _cpu(process.pid)))
            time.sleep(0.25)
        looks = [look for look in looks if look[1] > 0.0]
        seconds, cpu = looks[-1][0] - looks[0][0], looks[-1][1] - looks[0][1]
        reader.join()
        os.close(handle)
        if process.returncode != 0:
            sys.exit(seen.decode("utf-8", "replace"))
        lines = metrics.read_text().splitlines()
        epoch_seconds = [record["seconds"] for line in lines if "seconds" in (record := json.loads(line))]
        drawn = len(re.findall(rb"\x1b\[\dA", seen))
    return {
        "epoch": statistics.median(epoch_seconds[1:]),
        "cpu_per_second": cpu / seconds,
        "drawn": drawn,
        "bytes": len(seen),
    }


def _drain(handle: int, seen: bytearray) -> None:
    try:
        while data := os.read(handle, 1 << 16):
            seen += data
    except OSError:
        pass  # the other side is closed


def _cpu(pid: int) -> float:
    """Processor seconds of one process with its threads, without its children; 0: it has ended."""
    try:
        tasks = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    except OSError:
        return 0.0
    return sum(int(text.split()[0]) for text in tasks) / 1e9


def compare(rounds: int, epochs: int, ways: list[str]) -> list[dict[str, Any]]:
    measured: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
            figures = train(WAYS[way], epochs)
            if number > 0:  # the first round fills caches
                measured[way].append(figures)
    rows = []
    for way, mine in measured.items():
        median = {key: statistics.median(each[key] for each in mine) for key in mine[0]}
        ratios = [each["epoch"] / plain["epoch"] for each, plain in zip(mine, measured["plain"], strict=True)]
        more = [
            each["cpu_per_second"] - plain["cpu_per_second"]
            for each, plain in zip(mine, measured["plain"], strict=True)
        ]
        rows.append(
            {
                "way": way,
                "epoch": round(median["epoch"], 4),
                "ratio": round(statistics.mean(ratios), 4),
                "error": round(statistics.stdev(ratios) / rounds**0.5, 4) if rounds > 1 else None,
                "cpu_per_second": round(median["cpu_per_second"], 5),
                "more": round(statistics.median(more), 5),
                "drawn": median["drawn"],
                "bytes": median["bytes"],
            }
        )
    return rows


def lines_alone(ranks: int, each: int = 100) -> list[dict[str, Any]]:
    """The relay's CPU microseconds for a line, of so many ranks on nodes of eight."""
    rows = []
    for kind in ("equal", "different"):
        for folded in (False, True):
            with tempfile.TemporaryDirectory() as name, open("/dev/null", "wb") as null:
                screen = Screen(null, null, lambda: None)
                fold = Fold(ranks, 0.2) if folded else None
                relay = Relay(LogFiles(Path(name)), screen.out, screen.err, rich={1, 2}, fold=fold)
                begin = time.process_time()
                for number in range(each):
                    for rank in range(ranks):
                        who = f" of rank {rank}" if kind == "different" else ""
                        text = f"step {number} loss 2.3025 lr 0.001 tokens/s 123456 memory 40.1 GB{who}\n"
                        relay.write(rank, f"node{rank // 8}", "torchrun", 1, text.encode())
                    relay.flush()
                relay.close()
                screen.close(None)
                cpu = time.process_time() - begin
            rows.append(
                {"lines": kind, "folded": folded, "ranks": ranks, "us_per_line": round(1e6 * cpu / each / ranks, 2)}
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is started (default 5)")
    parser.add_argument("--epochs", type=int, default=20, help="of each training (default 20)")
    parser.add_argument("--ways", default=",".join(WAYS), help="which, beside `plain` (default: all)")
    parser.add_argument("--lines", action="store_true", help="measure the relay alone")
    parser.add_argument("--ranks", type=int, default=1000, help="with --lines (default 1000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.lines:
        rows = lines_alone(options.ranks)
        if not options.json:
            print(f"CPU microseconds for a line, {options.ranks} ranks")
            for row in rows:
                print(
                    f"  {row['lines']:<10} {'folded' if row['folded'] else 'one a rank':<12} {row['us_per_line']:>8.2f}"
                )
    else:
        unknown = set(options.ways.split(",")) - set(WAYS)
        if unknown:
            parser.error(f"--ways {', '.join(sorted(unknown))}: there are {', '.join(WAYS)}")
        rows = compare(options.rounds, options.epochs, list(dict.fromkeys(["plain", *options.ways.split(",")])))
        if not options.json:
            print(
                f"{'way':<14} {'epoch s':>8} {'ratio':>7} {'+-':>7} {'launcher CPU s/s':>17} {'more':>8} {'drawn':>6}"
            )
            for row in rows:
                figures = f"{row['epoch']:>8.3f} {row['ratio']:>7.4f} {row['error'] or 0.0:>7.4f}"
                cpu = f"{row['cpu_per_second']:>17.5f} {row['more']:>8.5f}"
                print(f"{row['way']:<14} {figures} {cpu} {row['drawn']:>6.0f}")
            print(f"ratio: at most {BOUND:.2f}")
    if options.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
