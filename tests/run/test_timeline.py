"""What is kept of a run's start and its steps: told by real ranks, in every way of starting them here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT, PATIENCE, SCRIPT
from program import run_to_end

from ddpkit.run import timeline
from ddpkit.transports.protocol import NODE

TRAINS = """
import os, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
wait = vars(dist.Work)["wait"]
dist.all_reduce(torch.ones(2))
assert vars(dist.Work)["wait"] is not wait and not hasattr(vars(dist.Work)["wait"], "__wrapped__")  # torch's own again
parameter = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([parameter], lr=0.1)
until = time.monotonic() + 0.4
for step in range(3):
    parameter.sum().backward()
    optimizer.step()
while time.monotonic() < until:
    optimizer.step()
print("done", flush=True)
"""
MARKS = ["start", "python", "import", "imported", "meet", "connect", "group", "collective", "step", "line", "end"]


def kept(folder: Path, name: str = timeline.TIMELINE) -> dict[str, Any]:
    (run,) = (folder / "logs").iterdir()
    found: dict[str, Any] = json.loads((run / name).read_text())
    return found


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "marks"),
    [
        ([], MARKS),
        (["-o", "starter=torchrun"], MARKS),
        (["-o", "preload=true"], MARKS),  # the import is that of the process that forked
    ],
    ids=["ranks", "torchrun", "preload"],
)
def test_the_marks_of_every_rank(
    options: list[str], marks: list[str], ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    done = ddpkit("launch", "-n", "2", "--observe", "all", *options, "--", script(TRAINS))
    assert done.returncode == 0, done.stdout + done.stderr
    found, launch = kept(tmp_path), kept(tmp_path, timeline.LAUNCH)
    assert sorted(found["ranks"]) == ["0", "1"]
    for rank in found["ranks"].values():
        assert sorted(rank["marks"]) == sorted(marks)
        assert rank["attempts"] == 1
        times = [rank["marks"][mark] for mark in marks]
        assert times == sorted(times)
        assert launch["began"] < launch["prepared"] <= found["carried"] <= times[0]
        assert sum(each[0] for each in rank["bins"]) >= 3
        for count, whole, most, known, own, most_own in rank["bins"]:
            assert count > 0
            assert 0 < most <= whole
            assert known == own == most_own == 0  # nothing wraps the model
    assert launch["plan"].startswith("#!/bin/sh\n")


@pytest.mark.torch
def test_a_failed_rank_has_told_how_far_it_came(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    text = script("import torch, os\nos._exit(9)\n")
    assert ddpkit("launch", "-n", "1", "--observe", "start", "--", text).returncode == 9
    marks = kept(tmp_path)["ranks"]["0"]["marks"]
    assert sorted(marks) == ["end", "import", "imported", "python", "start"]


# Every mark can be seen: each phase is longer than a look.
SLOW = """
import time
time.sleep(0.5)
import torch, torch.distributed as dist
time.sleep(0.5)
dist.init_process_group("gloo")
time.sleep(0.5)
print("done", flush=True)
time.sleep(1.5)  # the first call to the node has its answer
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.parametrize("options", [[], ["-o", "starter=torchrun"]], ids=["ranks", "torchrun"])
def test_the_marks_that_are_seen_from_outside(
    options: list[str], ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    done = ddpkit("launch", "-n", "2", *options, "--", script(SLOW))
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in kept(tmp_path)["ranks"].values():
        # A busy node looks late: what it saw comes in order, and the line has a time of its own.
        for marks in (("start", "import", "meet", "group", "end"), ("start", "line", "end")):
            times = [rank["marks"][mark] for mark in marks]
            assert times == sorted(times)
        assert set(rank["marks"]) <= {"start", "import", "meet", "group", "line", "end"}
        assert rank["bins"] == []


def test_turned_off_and_other_programs(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    assert ddpkit("launch", "-n", "1", "--env", "DDPKIT_DUMP=0", "--", script("print(1)")).returncode == 0
    assert sorted(kept(tmp_path)["ranks"]["0"]["marks"]) == ["end", "line", "start"]
    assert ddpkit("launch", "-n", "1", "--log-dir", "b/logs", "--", "true").returncode == 0
    assert sorted(kept(tmp_path / "b")["ranks"]["0"]["marks"]) == ["end", "start"]


def test_a_script_that_writes_nonsense_into_the_pipe(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """The pipe is the rank's user's: what comes out of it is never more than a line in a file."""
    text = """
with open(HOOK + "/marks", "wb") as file:
    file.write(b"mark\\nmark x y z\\nsteps 0 a\\n\\xff\\xfe\\nmark 0 fine 1.5\\n" + b"x" * 3000 + b"\\n")
"""
    # What the process began with; it has been taken out of os.environ.
    head = "began = open('/proc/self/environ').read().split('\\0')\n"
    head += "bundle = next(each for each in began if each.startswith('DDPKIT_HOOK=')).partition('=')[2]\n"
    head += "HOOK = bundle.rpartition('/')[0]\n"
    done = ddpkit("launch", "-n", "1", "--observe", "start", "--", script(head + text))
    assert done.returncode == 0, done.stdout + done.stderr
    assert kept(tmp_path)["ranks"]["0"]["marks"]["fine"] == 1.5


@pytest.mark.torch
@pytest.mark.thorough
def test_compiled_code_is_the_same_with_the_hooks(tmp_path: Path) -> None:
    """No graph break, no recompilation, and the same graphs: counted by dynamo itself, without and with them."""
    text = """
import json, os, sys
os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": "0", "WORLD_SIZE": "1"}
if sys.argv[1:]:
    told, wanted = [], {}
    source = open(sys.argv[1]).read()
    known = {"__name__": "ddpkit_marks"}
    exec(compile(source, sys.argv[1], "exec"), known)
    known["start"](lambda *words: told.append(words[2]), told.append, "0", wanted, ["start", "steps"])
import torch, torch.distributed as dist
from torch._dynamo.utils import counters
from torch.nn.parallel import DistributedDataParallel
if sys.argv[1:]:
    for name, (_, after) in wanted.items():
        after(sys.modules[name])
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def forward(images):
    return model(images).sum()

def step(images):
    loss = model(images).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss

compiled = torch.compile(forward, backend="eager")
for _ in range(5):
    compiled(torch.ones(2, 4)).backward()
    optimizer.step()
    optimizer.zero_grad()
whole = torch.compile(step, backend="eager")
for _ in range(5):
    whole(torch.ones(2, 4))
print(json.dumps({"counted": {name: dict(counters[name]) for name in ("stats", "graph_break", "recompiles")}}))
if sys.argv[1:]:
    print("step" in told)
dist.destroy_process_group()
"""
    (tmp_path / "job.py").write_text(text)
    seen = []
    for more in ([], [str(NODE / "rank/rank_events.py")]):
        done = run_to_end([sys.executable, "job.py", *more], cwd=tmp_path, timeout=3 * PATIENCE)
        assert done.returncode == 0, done.stderr
        seen.append(done.stdout.splitlines())
    assert seen[0][0] == seen[1][0]
    assert seen[1][1] == "True"


def test_neighbours_are_put_together() -> None:
    bins = [[2.0, 1.0, 0.6, 2.0, 0.5, 0.3], [1.0, 0.4, 0.4, 0.0, 0.0, 0.0], [1.0, 9.0, 9.0, 1.0, 8.0, 8.0]]
    assert timeline.merged(bins, 3) == bins
    assert timeline.merged(bins, 2) == [[3.0, 1.4, 0.6, 2.0, 0.5, 0.3], [1.0, 9.0, 9.0, 1.0, 8.0, 8.0]]
    many = timeline.merged([[1.0, 0.5, 0.5, 1.0, 0.25, 0.25]] * 1000, 256)
    assert len(many) == 250
    assert sum(each[0] for each in many) == 1000


def test_a_rank_that_is_started_again_begins_anew(tmp_path: Path) -> None:
    found = timeline.Timeline(tmp_path, 1)
    for at in (1.0, 5.0):
        found.record("a", {"e": "start", "rank": 0, "pid": 1, "t": at})
        found.record("a", {"e": "mark", "rank": 0, "name": "python", "t": at + 1})
    found.write()
    rank = json.loads((tmp_path / timeline.TIMELINE).read_text())["ranks"]["0"]
    assert rank == {"host": "a", "attempts": 2, "marks": {"start": 5.0, "python": 6.0}, "bins": []}


def test_a_disk_that_takes_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    timeline.Timeline(gone, 1).write()
    timeline.write_launch(gone, began=0, prepared=1, entered={}, notes=[], nodes={}, plan="")
    assert list(tmp_path.iterdir()) == []


LEAVES = """
import os, sys, time
from ddpkit.node.rank.rank_events import Steps

def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

steps = Steps(lambda *words: None, "0")
steps.begin(time.perf_counter())
steps.tell, steps.count, steps.whole, steps.most = tell, 22, 1.5, 0.2
if not os.fork():
    os._exit(0)  # a worker of the script's own has no steps to tell
os.wait()
os._exit(7)
"""


def test_the_last_steps_are_told_by_a_script_that_leaves_at_once() -> None:
    """The last record had waited for its time, and was lost: of 88 steps a report showed 66."""
    done = subprocess.run(
        [sys.executable, "-c", LEAVES], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout == "steps 0 22 1.500000 0.200000 0 0.000000 0.000000\nend 0\n"


@pytest.mark.torch
def test_every_step_is_recorded(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    text = """
import os, time, torch
weight = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(88):
    weight.sum().backward()
    optimizer.step()
    time.sleep(0.01)
os._exit(0)
"""
    assert ddpkit("launch", "-n", "2", "--observe", "steps", "--", script(text)).returncode == 0
    for rank in kept(tmp_path)["ranks"].values():
        assert sum(each[0] for each in rank["bins"]) == 87  # from the end of the first one on
