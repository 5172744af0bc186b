"""Rounds of `rounds.py` with `--via`: the launcher is on a host without SLURM, and its job goes on without it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cluster import LAPTOP, LOGIN, NODES, Lab
from laptop import Laptop, lines
from launches import restart_sshd
from program import Program

if TYPE_CHECKING:
    from rounds import Round

SIGNALS = {"INT": (130,), "TERM": (143, -15), "HUP": (129, -1), "QUIT": (131, -3), "KILL": (-9,)}
EVENTS = (*SIGNALS, "cut", "sshd restarted", "session killed", "rank killed", "exit 7", "none")
LIMIT = 90.0  # seconds for an end, and for what is left
JOB = """
import os, sys, time
rank, number = os.environ["RANK"], 0
print("ready", flush=True)
while not os.path.exists("go"):
    if os.path.exists("exit7." + rank):
        os._exit(7)
    print(f"rank {rank} line {number}", flush=True)
    number += 1
    time.sleep(0.02)
"""


def play(lab: Lab, plan: Round) -> tuple[list[str], int, float, float]:
    """Play one round. Returns what is wrong, the exit code, and the seconds to the end and until nothing is left."""
    lab.add_laptop()
    folder = Path(tempfile.mkdtemp(prefix="round-", dir=lab.folder))
    laptop = Laptop(lab, folder)
    (laptop.there / "job.py").write_text(JOB)
    try:
        return _play(laptop, plan)
    finally:
        (laptop.there / "go").touch()
        laptop.close()
        lab.run(LOGIN, "scancel", "--quiet", "--user", "root", check=False)
        lab.wait_idle()
        shutil.rmtree(folder, ignore_errors=True)


def _play(laptop: Laptop, plan: Round) -> tuple[list[str], int, float, float]:
    there, wrong = laptop.there, list[str]()
    client = "openssh" if plan.backend == "via-openssh" else "paramiko"
    launch = laptop.launch("-o", f"transport={client}", "-o", "connect_timeout=20")  # the machine is busy
    if plan.moment == "connect" and plan.event in SIGNALS:
        time.sleep(0.3 + plan.delay * 2.0)  # the round's moment, which nothing announces
    elif plan.moment == "start" and plan.event in SIGNALS:
        launch.wait_for("logs in")
        time.sleep(plan.delay)
    else:
        launch.wait_for("] ready", times=4)
        time.sleep(plan.delay * 0.5)
    allowed = _happen(laptop, plan, launch)
    happened = time.time()
    code = launch.end(LIMIT)
    end = time.time() - happened
    if code not in allowed:
        wrong.append(f"exit code {code}, not {allowed}:\n{launch.text}")
    if "\nTraceback" in f"\n{launch.text}":
        wrong.append(f"a traceback of the launcher:\n{launch.text}")
    until = time.monotonic() + LIMIT
    while (left := laptop.left()) and time.monotonic() < until:
        time.sleep(0.02)
    if left:
        wrong.append(f"left behind: {left}\n{launch.text}")
    gone = time.time() - happened
    if plan.event in SIGNALS:  # the job goes on, where it was submitted, and ends by itself
        (there / "go").touch()
    else:
        shown, written = lines(launch), laptop.job_output()
        if shown != written:
            wrong.append(f"{len(shown)} lines of {len(written)} were shown, or in another order\n{launch.text[-2000:]}")
    until = time.monotonic() + LIMIT
    while laptop.lab.run(LOGIN, "squeue", "-h").stdout or any(
        " job.py" in line for name in NODES for line in laptop.lab.processes(name).values()
    ):
        if time.monotonic() > until:
            wrong.append("left behind: the job did not end")
            break
        time.sleep(0.1)
    return wrong, code, end, gone


def _happen(laptop: Laptop, plan: Round, launch: Program) -> tuple[int, ...]:
    """Make the event. Returns the exit codes that are right."""
    there, lab = laptop.there, laptop.lab
    if plan.event in SIGNALS:
        try:
            os.kill(laptop.launcher(), signal.Signals[f"SIG{plan.event}"])
        except ValueError:
            raise AssertionError("the launcher has ended") from None
        return (*SIGNALS[plan.event], *((-2,) if plan.event == "INT" and plan.moment == "connect" else ()))
    if plan.event == "cut":
        lab.cut(LAPTOP)
        launch.wait_for("lost the connection to login")
        lab.mend(LAPTOP)
    elif plan.event == "sshd restarted":
        restart_sshd(lab, LOGIN)
    elif plan.event == "session killed":
        laptop.cut_session()
        launch.wait_for("connected to login again")
    rank = plan.victim % 4
    if plan.event == "rank killed":
        name = "node1" if rank < 2 else "node2"
        ranks = [pid for pid, line in lab.processes(name).items() if re.search(r"^\S*python\S* job.py$", line)]
        lab.run(name, "kill", "-KILL", str(ranks[rank % 2]))
        return (137,)
    if plan.event == "exit 7":
        (there / f"exit7.{rank}").touch()
        return (7,)
    (there / "go").touch()
    return (0,)
