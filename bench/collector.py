"""CPU of the one collector of a SLURM job, and of the launcher's reader of its output, for thousands of ranks.

Frames of all tasks are made first, as `step_task.py` writes them behind `srun --label`. Each rank starts, prints 10
lines at once, then one line every 10 s. Printed is the CPU of each program: in seconds for start and burst, then as a
share of a core. Of 1,000 nodes there is no cluster here: srun's own work is not in it.

Usage: python bench/collector.py [--nodes 100,1000] [--ranks 8] [--seconds 60] [--torchrun] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from ddpkit.launchers.job_output import JobOutput
from ddpkit.node.collect import lines_of
from ddpkit.node.step_output import StepReader, frames

LINE = "step 1200 loss 2.3025 lr 0.001 tokens/s 123456 memory 40.1 GB\n"
BURST, LINE_EVERY = 10, 10
READ = 1 << 18  # bytes in one read of the collector


def labelled(task: int, **event: Any) -> bytes:
    lines = frames(json.dumps(event, separators=(",", ":")).encode()).splitlines()
    return b"".join(b"%d: %b\n" % (task, line) for line in lines)


def start(nodes: int, ranks: int, by_node: bool) -> Iterator[bytes]:
    """What all tasks write at their start, and the burst of their ranks."""
    for task in range(nodes if by_node else nodes * ranks):
        node = task if by_node else task // ranks
        yield labelled(task, e="hello", pid=100, host=f"node{node}", step="7.0", t=1.0)
        for rank in range(task * ranks, (task + 1) * ranks) if by_node else [task]:
            yield labelled(task, e="start", rank=rank, pid=1000 + rank, t=1.0)
            yield labelled(task, e="out", rank=rank, fd=1, data=LINE * BURST)


def later(nodes: int, ranks: int, by_node: bool, second: int) -> Iterator[bytes]:
    """What they write in one second of the training."""
    for rank in range(second % LINE_EVERY, nodes * ranks, LINE_EVERY):
        yield labelled(rank // ranks if by_node else rank, e="out", rank=rank, fd=1, data=LINE)


def carry(reader: StepReader, output: JobOutput, data: bytes) -> tuple[float, float, int]:
    """Return the CPU seconds of the collector and of the launcher's reader, and the bytes of the job's output."""
    began, written = time.process_time(), []
    for first in range(0, len(data), READ):
        written.append(b"".join(lines_of(reader.feed(1, data[first : first + READ], 2.0))))
    between = time.process_time()
    for each in written:
        for _ in output.feed(each):
            pass
    return between - began, time.process_time() - between, sum(map(len, written))


def measure(nodes: int, ranks: int, seconds: int, by_node: bool) -> dict[str, Any]:
    agent = "torchrun" if by_node else "srun"
    spec = {"ranks": [ranks] * nodes, "by_node": by_node, "groups": [], "agent": agent, "lost": True, "runtime": ""}
    reader, output = StepReader(spec), JobOutput(nodes * ranks)
    first = carry(reader, output, b"".join(start(nodes, ranks, by_node)))
    rows = [carry(reader, output, b"".join(later(nodes, ranks, by_node, second))) for second in range(seconds)]
    return {
        "nodes": nodes,
        "ranks": nodes * ranks,
        "collector_start_s": round(first[0], 3),
        "reader_start_s": round(first[1], 3),
        "collector_share": round(sum(row[0] for row in rows) / seconds, 4),
        "reader_share": round(sum(row[1] for row in rows) / seconds, 4),
        "output_mb_an_hour": round(sum(row[2] for row in rows) / seconds * 3600 / 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--nodes", default="100,1000", help="numbers of nodes (default 100,1000)")
    parser.add_argument("--ranks", type=int, default=8, help="of each node (default 8)")
    parser.add_argument("--seconds", type=int, default=60, help="of the training (default 60)")
    parser.add_argument("--torchrun", action="store_true", help="one task on each node, not one for each rank")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = [measure(int(nodes), options.ranks, options.seconds, options.torchrun) for nodes in options.nodes.split(",")]
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
