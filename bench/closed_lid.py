"""Closes a laptop's lid while it follows a job with `--via`: no line may be lost or come twice.

    python bench/closed_lid.py [--seconds 600] [--transport paramiko|openssh] [--awake]

The laptop loses its network, and all of its processes stop. With `--awake` they go on, without a network. Exit code 1:
a line or the exit code was wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))
from cluster import LAPTOP, Lab
from laptop import Laptop, lines
from program import undo_ignored_signals

JOB = """
import os, sys, time
rank = os.environ["RANK"]
print("ready", flush=True)
for number in range(int(sys.argv[1])):
    print(f"rank {rank} line {number}", flush=True)
    time.sleep(1)
sys.exit(7 if rank == "1" else 0)
"""


def close_lid(laptop: Laptop, transport: str, seconds: float, *, awake: bool) -> list[str]:
    """Returns what is wrong."""
    (laptop.there / "job.py").write_text(JOB)
    argv = ["-b", "slurm", "-N", "2", "--nproc-per-node", "1", "-o", f"transport={transport}"]
    words = ["launch", "--via", "login", "--workdir", str(laptop.there), *argv, "--", "job.py", str(int(seconds) + 30)]
    launch = laptop.start(*words)
    launch.wait_for("] ready", times=2)
    stopped = [] if awake else [pid for pid, (host, _) in laptop.left().items() if host == LAPTOP]
    laptop.lab.cut(LAPTOP)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    time.sleep(seconds)  # it is what is tried
    laptop.lab.mend(LAPTOP)
    for pid in [*stopped, launch.process.pid]:  # nsenter stops with its child
        os.kill(pid, signal.SIGCONT)
    print(f"closed for {time.monotonic() - began:.0f} s, {len(lines(launch))} lines before", flush=True)
    code = launch.end(seconds + 300)
    shown, written = lines(launch), laptop.job_output()
    wrong = [f"exit code {code}, not 7\n{launch.text[-3000:]}"] if code != 7 else []
    if shown != written:
        wrong.append(f"{len(shown)} lines of {len(written)} were shown, or in another order\n{launch.text[-3000:]}")
    print(f"{len(shown)} lines of {len(written)}, exit code {code}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--transport", choices=["paramiko", "openssh"], default="paramiko")
    parser.add_argument("--awake", action="store_true")
    choice = parser.parse_args()
    undo_ignored_signals()
    folder = Path(tempfile.mkdtemp(prefix="ddpkit-lid-"))
    lab = Lab(folder)
    try:
        lab.up()
        lab.add_laptop()
        laptop = Laptop(lab, folder)
        try:
            wrong = close_lid(laptop, choice.transport, choice.seconds, awake=choice.awake)
        finally:
            laptop.close()
    finally:
        lab.down()
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
