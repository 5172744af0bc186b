"""Makes the same faults under ddpkit, torchrun and ft_launcher, each with a spare node: how each ends, and when.

Each launcher has three nodes for two, and may start the ranks three more times. torchrun and ft_launcher run on each
node, with a c10d rendezvous on node1; the third agent waits. The fault comes after 10 steps, on node2.

    python bench/heal_side_by_side.py [--limit 150] [--only FAULT] [--ft PATH_OF_ft_launcher]
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))
from cluster import LOGIN, NODES, Lab
from launches import DDPKIT, ROOT
from program import undo_ignored_signals

STEPS = 60
JOB = f"""
import os, signal, sys, time
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
print("begin", file=open(f"starts.{{rank}}", "a"))
dist.init_process_group("gloo")
step = int(open("step").read()) if os.path.exists("step") else 0
while step < {STEPS}:
    value = torch.ones(1)
    dist.all_reduce(value)
    step += 1
    if rank == 0:
        open("step.new", "w").write(str(step))
        os.replace("step.new", "step")
    with open(f"pid.new.{{rank}}", "w") as file:
        file.write(str(os.getpid()))
    os.replace(file.name, "pid." + os.uname().nodename)
    how = open("fail").read() if os.path.exists("fail") and rank == 1 else ""
    once = sum(1 for _ in open("starts.1")) == 1
    if how == "exception" or how == "exception once" and once:
        raise ValueError("bad batch")
    if how == "hang" and once:
        time.sleep(3600)
    if how.isdigit() and (once or how == "93"):
        sys.exit(int(how))
    with open("scratch/" + os.uname().nodename, "ab") as file:
        file.write(b"x" * 512)
    time.sleep(0.2)
dist.barrier()
if rank == 0:
    open("done", "w").close()
"""


def fail(how: str) -> Callable[[Lab, Path], object]:
    return lambda lab, folder: (folder / "fail").write_text(how)


def signals(number: int, host: str = "node2") -> Callable[[Lab, Path], object]:
    return lambda lab, folder: lab.run(host, "kill", f"-{number}", (folder / f"pid.{host}").read_text())


def kill_twice(lab: Lab, folder: Path) -> None:
    starts, pids = folder / "starts.1", [folder / f"pid.{host}" for host in NODES[:3]]
    pid = pids[1].read_text()
    signals(signal.SIGKILL)(lab, folder)
    _wait(lambda: len(starts.read_text().splitlines()) > 1 and pids[1].read_text() != pid, 60.0)
    if pids[1].read_text() != pid:
        signals(signal.SIGKILL)(lab, folder)


def kill_parent(lab: Lab, folder: Path) -> None:
    parent = lab.run("node2", "ps", "-o", "ppid=", "-p", (folder / "pid.node2").read_text()).stdout.strip()
    lab.run("node2", "kill", "-9", parent)


def kill_with_spare(lab: Lab, folder: Path) -> None:
    lab.kill("node3")
    lab.kill("node2")


def cut_for_a_while(lab: Lab, folder: Path) -> None:
    lab.cut("node2")
    time.sleep(20)
    lab.mend("node2")


def fill(lab: Lab, folder: Path) -> None:
    small = "mount -t tmpfs -o size=4k tmpfs scratch && head -c 4096 /dev/zero > scratch/full"
    lab.run("node2", "sh", "-c", small, cwd=folder)


def make_read_only(lab: Lab, folder: Path) -> None:
    lab.run("node2", "sh", "-c", "mount -t tmpfs tmpfs scratch && mount -o remount,ro scratch", cwd=folder)


FAULTS: dict[str, Callable[[Lab, Path], object]] = {
    "a rank is killed (SIGKILL)": signals(9),
    "a rank is killed, and again after it started": kill_twice,
    "a rank crashes (SIGSEGV)": signals(11),
    "a rank aborts (SIGABRT)": signals(6),
    "a rank gets SIGTERM": signals(15),
    "rank 0 is killed (SIGKILL)": signals(9, "node1"),
    "the parent of a rank is killed (SIGKILL)": kill_parent,
    "an exception of the script": fail("exception"),
    "an exception of the script, once": fail("exception once"),
    "exit code 0 before the end": fail("0"),
    "exit code 75 once": fail("75"),
    "exit code 93": fail("93"),
    "a rank waits for ever": fail("hang"),
    "a rank is stopped (SIGSTOP)": signals(signal.SIGSTOP),
    "the node dies": lambda lab, folder: lab.kill("node2"),
    "the node of rank 0 dies": lambda lab, folder: lab.kill("node1"),
    "the node and the spare die": kill_with_spare,
    "the network of the node is cut": lambda lab, folder: lab.cut("node2"),
    "the network of the node is cut for 20 s": cut_for_a_while,
    "the disk of the node is full": fill,
    "the disk of the node is read-only": make_read_only,
}


def commands(name: str, ft_launcher: str) -> dict[str, list[str]]:
    """The command lines by host."""
    if name == "ddpkit":
        words = ["--retries", "3", "--spares", "1", "--hang-timeout", "30", "--grace", "5"]
        settings = ["env", "DDPKIT_HANG_ACTION=end", "DDPKIT_PROGRESS=step"]
        return {LOGIN: [*settings, *DDPKIT, "launch", "-b", "ssh", *NODES[:3], "-n", "1", *words, "--", "job.py"]}
    program = [ft_launcher] if name == "ft_launcher" else [sys.executable, "-m", "torch.distributed.run"]
    rendezvous = ["--rdzv-backend=c10d", "--rdzv-endpoint=node1:29500", "--rdzv-id=1"]
    argv = [*program, "--nnodes=2:2", "--nproc-per-node=1", "--max-restarts=3", *rendezvous]
    if name == "ft_launcher":
        argv.append("--ignore-missing-fault-tol-cfg")
    return {host: [*argv, "job.py"] for host in NODES[:3]}


def play(lab: Lab, name: str, fault: str, limit: float, ft_launcher: str) -> str:
    """One fault under one launcher. Returns how it ended."""
    folder = Path(tempfile.mkdtemp(prefix="alone-", dir=lab.folder))
    (folder / "job.py").write_text(JOB)
    (folder / "scratch").mkdir()
    env = {**lab.environ(), "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "TMPDIR": lab.tmp}
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for host, argv in commands(name, ft_launcher).items():
            with (folder / f"out.{host}").open("wb") as out:
                started[host] = subprocess.Popen(
                    lab.argv(host, argv, folder), env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out
                )
            if host == NODES[1]:
                _wait((folder / "step").exists, limit)  # the third one is the spare
        if not _wait(lambda: (folder / "step").exists() and int((folder / "step").read_text() or 0) >= 10, limit):
            return "did not start"
        began = time.monotonic()
        FAULTS[fault](lab, folder)
        over = _wait(
            lambda: (folder / "done").exists() or all(each.poll() is not None for each in started.values()), limit
        )
        took = time.monotonic() - began
        done = (folder / "done").exists()
        starts = len((folder / "starts.0").read_text().splitlines())
        if not over:
            return f"nothing after {limit:.0f} s; started {starts} times"
        codes = {host: each.poll() for host, each in started.items()}
        ended = "trained to the end" if done else f"failed, {codes}, {_error(folder)!r}"
        return f"{ended} after {took:.0f} s; started {starts} times"
    finally:
        for each in started.values():
            each.kill()
        for host in NODES[:3]:
            lab.kill(host)
            lab.boot(host)
        shutil.rmtree(folder, ignore_errors=True)


def _error(folder: Path) -> str:
    """The last error of an agent, or of the launcher."""
    lines = [line for path in sorted(folder.glob("out.*")) for line in path.read_text(errors="replace").splitlines()]
    return next((line.strip() for line in reversed(lines) if "Error" in line and "exitcode" not in line), "")


def _wait(event: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not event():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", type=float, default=150.0)
    parser.add_argument("--only", choices=FAULTS, action="append", help="more than once: these faults")
    parser.add_argument("--ft", default="")
    choice = parser.parse_args(argv)
    undo_ignored_signals()
    folder = Path(tempfile.mkdtemp(prefix="ddpkit-heal-"))
    lab = Lab(folder, plain=3)
    try:
        lab.up()
        for fault in choice.only or FAULTS:
            for name in ("ddpkit", "torchrun", *(["ft_launcher"] if choice.ft else [])):
                print(f"{fault} | {name} | {play(lab, name, fault, choice.limit, choice.ft)}", flush=True)
    finally:
        lab.down()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    os.environ.pop("TMUX", None)
    raise SystemExit(main(sys.argv[1:]))
