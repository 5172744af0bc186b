"""Cost of `ddpkit top` for a training: steps a second with it and without it, and processor time for a sample.

One run of train.py with two ranks on this machine. Windows with `ddpkit top --json` at its usual interval and windows
without alternate, so that noise hits both alike; which of a pair comes first changes from pair to pair. `steps` is the
median, over the pairs, of the ratio of steps done, and the mean of these ratios with its standard error. `node` is what
a sample costs the node: the supervisor and all that it started and waited for, nvidia-smi included; `launcher` is what
it costs the launcher; `shell` what the other shell uses for itself, on whatever machine it is.

Usage: python bench/top.py [--pairs N] [--window SECONDS] [--interval SECONDS] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TICKS = os.sysconf("SC_CLK_TCK")
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
ENV.pop("PYTHONDONTWRITEBYTECODE", None)
DDPKIT = [sys.executable, "-m", "ddpkit"]
TRAIN = [str(ROOT / "train.py"), "--epochs", "100000", "--log-every", "1"]
LIMIT = 300  # seconds for a run to begin or to end


def used(pid: int) -> float:
    """Processor seconds of a process and of its children that have ended."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(word) for word in words[11:15]) / TICKS


def steps(folder: Path) -> int:
    return (folder / "checkpoints/metrics.jsonl").read_bytes().count(b"\n")


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def window(folder: Path, run: subprocess.Popen[bytes], seconds: float, top: list[str] | None) -> dict[str, Any]:
    """Steps and processor seconds of a while. The supervisor is the only child of its guard, the launcher's child."""
    (guard,) = children(run.pid)
    (supervisor,) = children(guard)
    watching = None
    if top:
        watching = subprocess.Popen(top, cwd=folder, env=ENV, stdout=subprocess.PIPE, text=True)
        assert watching.stdout is not None
        watching.stdout.readline()  # its own start is not what is measured
    began, before = time.perf_counter(), steps(folder)
    node, launcher, shell = used(supervisor), used(run.pid), used(watching.pid) if watching else 0.0
    time.sleep(seconds)
    figures = {
        "steps": steps(folder) - before,
        "node": used(supervisor) - node,
        "launcher": used(run.pid) - launcher,
        "shell": used(watching.pid) - shell if watching else 0.0,
        "seconds": time.perf_counter() - began,
        "samples": 0,
    }
    if watching:
        watching.send_signal(signal.SIGINT)
        figures["samples"] = len(watching.communicate()[0].splitlines())
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=20, help="of windows with and without (default 20)")
    parser.add_argument("--window", type=float, default=10.0, help="seconds (default 10)")
    parser.add_argument("--interval", default="2", help="seconds between two samples (default 2)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ENV["XDG_STATE_HOME"] = str(folder / "state")
        top = [*DDPKIT, "top", "--json", "--interval", options.interval]
        run = subprocess.Popen(
            [*DDPKIT, "launch", "-n", "2", "--", *TRAIN], cwd=folder, env=ENV, stdout=subprocess.DEVNULL
        )
        try:
            until = time.monotonic() + LIMIT
            while not (folder / "checkpoints/metrics.jsonl").exists() or steps(folder) < 100:
                if run.poll() is not None or time.monotonic() > until:
                    sys.exit("the training did not begin")
                time.sleep(0.1)
            pairs = []
            for number in range(options.pairs):
                order = (top, None) if number % 2 else (None, top)
                both = [window(folder, run, options.window, way) for way in order]
                pairs.append(tuple(both if order[0] else both[::-1]))
        finally:
            run.terminate()
            run.wait(LIMIT)
    with_it, without = zip(*pairs, strict=True)
    ratios = [(one["steps"] / one["seconds"]) / (other["steps"] / other["seconds"]) for one, other in pairs]
    samples = sum(one["samples"] for one in with_it)

    def cost(what: str) -> float:
        """Milliseconds for a sample."""
        more: float = sum(one[what] for one in with_it) - sum(other[what] for other in without)
        return float(round(1000 * more / samples, 1))

    figures = {
        "pairs": len(pairs),
        "samples": samples,
        "steps": round(statistics.median(ratios), 4),
        "mean": round(statistics.mean(ratios), 4),
        "error": round(statistics.stdev(ratios) / len(ratios) ** 0.5, 4) if len(ratios) > 1 else None,
        "node_ms": cost("node"),
        "launcher_ms": cost("launcher"),
        "shell_ms": cost("shell"),
        "load": os.getloadavg()[0],
    }
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{figures['pairs']} pairs of {options.window:g} s, {samples} samples, load {figures['load']:.1f}")
    print(f"steps with it / without: median {figures['steps']:.4f}, mean {figures['mean']:.4f} +- {figures['error']}")
    print(f"processor time for a sample: node {figures['node_ms']} ms, launcher {figures['launcher_ms']} ms", end="")
    print(f", the other shell {figures['shell_ms']} ms")


if __name__ == "__main__":
    main()
