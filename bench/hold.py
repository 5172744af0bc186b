"""First line of a rank of a launch into a hold, beside a cold launch with --preload: 2 x 4 ranks in the lab.

Over ssh, or in jobs of SLURM: there the cold launch is a step of an allocation that it already has, as the hold is.
Then many launches into that one hold: memory and descriptors of the warm Pythons, and processes that are left.

As a program: hold.py [--backend ssh] [--rounds 5] [--launches 200]. Exit code 1: the ratio is above its bound, or
anything grew.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))
from cluster import Lab
from program import Program, undo_ignored_signals
from test_hold_lab import Project

BOUND = 0.25
JOB = "import torch; print('first', flush=True)\n"
HOLD = {"ssh": ("-b", "ssh", "node1", "node2", "-n", "4"), "slurm": ("-b", "slurm", "node1", "node2", "-n", "4")}
COLD = {
    "ssh": ("launch", "--no-hold", *HOLD["ssh"], "--starter", "ranks", "--preload"),
    "slurm": ("launch", "--no-hold", "-b", "slurm-srun", "--preload"),
}
SALLOC = (
    "salloc",
    "-Q",
    "--nodelist=node3,node4",
    "-N2",
    "--ntasks-per-node=4",
    "sh",
    "-c",
    'echo began; exec "$@"',
    "sh",
)
BEFORE = {"ssh": (), "slurm": SALLOC}


def first_line(project: Project, *words: str, before: tuple[str, ...] = ()) -> tuple[float, float]:
    """Seconds to the first line of a rank, and to the end of the launch. `before`: what gives it its nodes."""
    began = time.time()
    launch = project.start(*words, "--", "job.py", before=before)
    began = launch.wait_for("began") if before else began
    first = launch.wait_for("] first") - began
    if launch.end() or "cold" in launch.text:
        raise SystemExit(launch.text)
    return first, time.time() - began


def sizes(project: Project, base: set[int]) -> dict[str, tuple[int, int]]:
    """Open files and data in kB of the warm Python on each node."""
    found = {}
    for pid, (host, line) in project.left(base).items():
        if "/holder.py" in line:
            status = Path(f"/proc/{pid}/status").read_text()
            data = next(int(each.split()[1]) for each in status.splitlines() if each.startswith("VmData"))
            found[host] = (len(list(Path(f"/proc/{pid}/fd").iterdir())), data)
    return found


def measure(project: Project, backend: str, rounds: int, launches: int) -> bool:
    """Print what was measured. Returns whether all of it is within its bounds."""
    (project.folder / "job.py").write_text(JOB)
    base = set(project.before)
    hold: Program = project.start("hold", *HOLD[backend])
    hold.wait_for("imported torch", 2)
    held, cold = [], []
    for _ in range(rounds):
        cold.append(first_line(project, *COLD[backend], before=BEFORE[backend])[0])
        held.append(first_line(project, "launch")[0])
    ratio = statistics.median(held) / statistics.median(cold)
    print(f"first line of a rank: cold with --preload {statistics.median(cold):.2f} s, ", end="")
    print(f"into the hold {statistics.median(held):.2f} s: {ratio:.2f} (bound {BOUND})", flush=True)
    before, with_hold = sizes(project, base), set(project.left(base)) | base
    for _ in range(launches):
        first_line(project, "launch")
    project.wait_for_nothing_left(with_hold)
    after = sizes(project, base)
    print(f"open files and kB of the warm Pythons: before {before}, after {launches} launches {after}", flush=True)
    project.run("hold", "--end")
    hold.end()
    project.wait_for_nothing_left()
    return ratio <= BOUND and all(
        after[host][0] <= before[host][0] and after[host][1] <= before[host][1] * 1.01 for host in before
    )


def main() -> int:
    """Measure in a lab of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=HOLD, default="ssh")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--launches", type=int, default=200)
    chosen = parser.parse_args()
    undo_ignored_signals()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/tmp") as work:
        lab = Lab(Path(folder))
        lab.up()
        try:
            return 0 if measure(Project(lab, Path(work)), chosen.backend, chosen.rounds, chosen.launches) else 1
        finally:
            lab.down()


if __name__ == "__main__":
    raise SystemExit(main())
