"""Exceptions that end ranks under a real SLURM; and with `--observe` what ranks tell of their start and their steps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launching import BACKENDS, DDPKIT, ROOT, SALLOC, Launch, mostly, torch, wait_until_gone, with_preload
from program import wait_until

# The last thread never ends, as that of a library may not: by itself such a rank stays for ever.
HANGS = """
import os, threading, time
open("here." + os.environ["RANK"], "w").close()
if os.environ["RANK"] == "3":
    while not all(os.path.exists("here." + rank) for rank in "012"):
        time.sleep(0.02)
    threading.Thread(target=threading.Event().wait).start()
    raise ValueError("no such thing")
print("waits", flush=True)
time.sleep(3600)
"""
REDUCE = """
import threading, torch, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 3:
    threading.Thread(target=threading.Event().wait).start()
    raise ValueError("no such thing")
dist.all_reduce(torch.ones(1))
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "before", [pytest.param([], id="login"), pytest.param(SALLOC, id="salloc", marks=pytest.mark.thorough)]
)
def test_an_exception_is_named_soon(
    backend: str, before: list[str], launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    (folder / "job.py").write_text(HANGS)
    command = launch("-b", backend, "-N", "2", "-n", "2", "--grace", "3", "--", "job.py", before=before)
    assert command.end() == 1, command.tail
    assert "rank 3 on node2 raised ValueError; ending 3 other ranks (at most 3 s)" in command.text
    assert re.search(r"rank 3 on node2 failed first, after .* uncaught exception: ValueError: no such", command.text)
    assert len(re.findall(r"^(?:\[3 node2\]|   ) ValueError: no such thing$", command.text, re.MULTILINE)) == 1
    wait_until_gone(idle_lab, "job.py")


@torch
@pytest.mark.parametrize("backend", ["slurm", "slurm-torchrun"])
@pytest.mark.thorough_for("slurm")
def test_others_wait_in_a_collective(backend: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text(REDUCE)
    command = launch("-b", backend, "-N", "2", "-n", "2", "--grace", "3", "--", "job.py")
    assert command.end() == 1, command.tail
    assert "rank 3 on node2 raised ValueError; ending 3 other ranks" in command.text
    wait_until_gone(idle_lab, "job.py")


# ---- nobody follows


class Later:
    """A run that was submitted and left; what other hosts' shells find of it."""

    def __init__(self, lab: Lab, folder: Path, *words: str) -> None:
        self.lab, self.folder = lab, folder
        self.run = self.ddpkit(
            "login", "launch", *with_preload([*words[:-1]]), "--detach", "--", *words[-1].split()
        ).stdout.strip()

    def ddpkit(self, host: str, *words: str) -> Any:
        env = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
        return self.lab.run(host, *DDPKIT, *words, cwd=self.folder, env=env)

    def end(self) -> dict[str, Any]:
        """Wait for the end of the job with a cheap command, and return its status as another host reports it."""
        queue = ["login", "squeue", "-h"]
        wait_until(lambda: not self.lab.run(*queue).stdout, lambda: self.lab.run(*queue).stdout)
        states: list[dict[str, Any]] = []

        def ended() -> bool:
            states.append(json.loads(self.ddpkit("node4", "status", self.run, "--json").stdout))
            return states[-1]["state"] in ("done", "failed", "stopped")

        wait_until(ended, states)
        return states[-1]

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ddpkit("node3", "report", self.run, "--json").stdout)
        return found


TRAINS = """
import gc, os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    time.sleep(0.08 if dist.get_rank() == 1 else 0.02)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
# A worker thread of gloo that still holds the last collective ends the process, if Python ends meanwhile.
del model, optimizer
gc.collect()
dist.destroy_process_group()
sys.exit(0 if "SLURM_RESTART_COUNT" in os.environ else 75)
"""
PHASES = ["prepared", "queued", "start", "python", "import", "imported", "meet", "connect", "group"]
PHASES += ["wrap", "collective", "step"]


@torch
@pytest.mark.parametrize("backend", mostly(["slurm", "slurm-preload", "slurm-torchrun"], "slurm"))
def test_a_report_of_a_job_that_nobody_followed(backend: str, folder: Path, idle_lab: Lab) -> None:
    """It was started again: the start is that of the last attempt, the steps are those of all."""
    (folder / "job.py").write_text(TRAINS)
    run = Later(idle_lab, folder, "-b", backend, "-N", "2", "-n", "1", "-o", "chain=1", "--observe", "all", "job.py")
    now = run.end()
    assert now["state"] == "done", now
    found = run.report()
    assert [(row["rank"], row["host"], row["attempts"]) for row in found["start"]["rows"]] == [
        (0, "node1", 2),
        (1, "node2", 2),
    ]
    for row in found["start"]["rows"]:
        assert [each["phase"] for each in row["segments"]] == PHASES
    assert found["start"]["words"].startswith("First optimizer step on every rank ")
    slowest = found["steps"]["slowest"]
    assert (slowest["rank"], slowest["host"], slowest["stands_out"]) == (1, "node2", True), found["steps"]["words"]
    assert [row["steps"] for row in found["steps"]["rows"]] == [38] * 2  # the first of each attempt has no begin
    assert [(each["host"], bool(each["torch"])) for each in found["places"]] == [("node1", True), ("node2", True)]


@torch
@pytest.mark.thorough
def test_a_report_of_a_step(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text(TRAINS.replace(" else 75", " else 0"))
    command = launch("-b", "slurm", "-n", "1", "--observe", "all", "--", "job.py", before=SALLOC)
    assert command.end() == 0, command.tail
    words = [*DDPKIT, "report", str(folder / command.record["folder"]), "--json"]
    found = json.loads(idle_lab.run("login", *words, cwd=folder, env={"PYTHONPATH": str(ROOT)}).stdout)
    phases = [phase for phase in PHASES if phase != "queued"]
    for row in found["start"]["rows"]:
        assert [each["phase"] for each in row["segments"]] == phases
    assert found["steps"]["slowest"]["rank"] == 1


def test_nothing_is_told_unless_it_was_asked_for(launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "job.py").write_text("raise ValueError('so')\n")
    command = launch("-b", "slurm", "--", "job.py")
    assert command.end() == 1, command.tail
    assert [path.name for path in folder.glob("logs/*/marks/*")] == ["job"]


PEER_ENDS = """
import atexit, os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # srun sends it when the other one has ended
if os.environ["RANK"] == "1":
    atexit.register(time.sleep, 2)  # its sockets are closed, and its process ends later
    pathlib.Path("closed").touch()
    print("no such file", flush=True)
    sys.exit(7)
while not os.path.exists("closed"):
    time.sleep(0.01)
raise RuntimeError("[pair.cc:553] Connection closed by peer [10.0.0.2]:48330.")
"""


@pytest.mark.parametrize("backend", ["slurm", "slurm-preload"])
def test_a_rank_whose_peer_ended_is_not_the_first_failure(
    backend: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    (folder / "job.py").write_text(PEER_ENDS)
    command = launch("-b", backend, "-N", "2", "-n", "1", "--", "job.py")
    assert command.end() == 7, command.tail
    assert "rank 1 on node2 failed first" in command.text
