"""A rank whose script was ended by an exception is named soon, and not when torch is done with its teardown.

Nothing in the rank tells it: the launcher sees the traceback, and looks from outside whether Python has left the
script.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command

Start = Callable[..., Command]
Script = Callable[..., str]

# Stands for torch.
TORCH = ""
# The last thread never ends, as that of a library may not: by itself such a rank stays for ever.
RAISES = """
import os, sys, threading, time, torch
{before}
open("here." + os.environ["RANK"], "w").close()
if os.environ["RANK"] == "1":
    while not os.path.exists("here.0"):
        time.sleep(0.01)
    threading.Thread(target=threading.Event().wait).start()
    raise ValueError("no such thing")
time.sleep(600)
"""
BEFORE = {
    "plain": "",
    "torch's hook": (
        "import traceback\nsys.excepthook = lambda *raised: print(\n"
        "    *('[rank1]: ' + each for each in ''.join(traceback.format_exception(*raised)).splitlines(True)),\n"
        "    sep='', end='', file=sys.stderr, flush=True)"
    ),
    "other errors before": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    sys.excepthook(*sys.exc_info())",
}
WAYS = {
    "ranks": ["--", "job.py"],
    "module": ["--", "-m", "job"],
    "preload": ["-o", "preload=json", "--", "job.py"],
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("way", WAYS)
def test_it_is_named_although_its_process_never_ends(way: str, before: str, start: Start, script: Script) -> None:
    script(TORCH, "torch.py")
    script(RAISES.format(before=BEFORE[before]))
    command = start("launch", "-n", "2", "--grace", "1", *WAYS[way])
    assert command.end() == 1
    assert "rank 1 on " in command.text
    assert "raised ValueError; ending 1 other rank (at most 1 s)" in command.text
    [verdict] = [line for line in command.lines if "failed first" in line]
    assert "uncaught exception: " in verdict
    assert "no such thing" in command.text
    command.wait_for_no_survivor()


# Stands for a wait in torch: rank 0 gives up, and rank 1 has something else to do.
AWAITED = """
import os, sys, time, torch
def read_slowly():
    open("reads", "w").close()
    time.sleep(600)
if os.environ["RANK"] == "1":
    read_slowly()
while not os.path.exists("reads"):
    time.sleep(0.01)
{waits}
"""
IN_VAIN = {
    "gloo": 'raise RuntimeError("[unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete")',
    "start": 'raise RuntimeError("Timed out after 6 seconds waiting for clients. 1/2 clients joined.")',
    "barrier": 'raise RuntimeError("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms")',
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", IN_VAIN)
def test_a_wait_in_vain_names_the_rank_that_did_not_come(
    kind: str, way: str, start: Start, script: Script, tmp_path: Path
) -> None:
    script(TORCH, "torch.py")
    script(AWAITED.format(waits=IN_VAIN[kind]))
    command = start("launch", "-n", "2", "--grace", "1", *WAYS[way])
    assert command.end() == 1
    [verdict] = [line for line in command.lines if "failed first" in line]
    assert verdict.startswith("ddpkit: rank 0 on ")
    assert "rank 1 on " in verdict
    assert verdict.endswith("did not come, and rank 0 waited in vain: it is in job.py:5 in read_slowly")
    [hint] = [line for line in command.lines if line.startswith("hint: ")]
    stack = re.search(r"less (\S+/dump-\S+/rank_1.txt)\. ", hint)
    assert stack is not None
    assert "in read_slowly" in (tmp_path / stack[1]).read_text()
    command.wait_for_no_survivor()


EARLY = """
import os, sys, torch
if os.environ["RANK"] == "1":
    sys.exit(0)
raise RuntimeError("[pair.cc:553] Connection closed by peer [10.0.0.2]:48330.")
"""


def test_a_rank_that_had_fewer_steps_is_the_cause(start: Start, script: Script) -> None:
    script(TORCH, "torch.py")
    script(EARLY)
    command = start("launch", "-n", "2", "--", "job.py")
    assert command.end() == 1
    [verdict] = [line for line in command.lines if "failed first" in line]
    assert verdict.startswith("ddpkit: rank 0 on ")
    awaited = "rank 1 had ended before, with exit code 0: it had fewer batches, or left its loop early"
    assert verdict.endswith(awaited)


def test_an_exception_of_its_own_is_no_wait(start: Start, script: Script) -> None:
    script(TORCH, "torch.py")
    script(EARLY.replace("[pair.cc:553] Connection closed by peer [10.0.0.2]:48330.", "no such thing"))
    command = start("launch", "-n", "2", "--", "job.py")
    assert command.end() == 1
    [verdict] = [line for line in command.lines if "failed first" in line]
    assert "RuntimeError: no such thing" in verdict
    assert "had ended before" not in command.text


WATCHDOG = """
print("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=4, "
      "NumelOut=4, Timeout(ms)=12000) ran for 12021 milliseconds before timing out.", file=sys.stderr, flush=True)
while not os.path.exists("seen"):
    time.sleep(0.01)
os.abort()
"""


def test_what_the_watchdog_of_nccl_waits_for(start: Start, script: Script, tmp_path: Path) -> None:
    """Torch ends the rank a minute after that line. The rank that others wait for is named at once."""
    script(TORCH, "torch.py")
    script(AWAITED.format(waits=WATCHDOG))
    command = start("launch", "-n", "2", "--grace", "1", "--", "job.py")
    awaited = "did not come, and rank 0 waited in vain: it is in job.py:5 in read_slowly"
    command.wait_for(awaited)
    (tmp_path / "seen").touch()
    assert command.end() == 128 + signal.SIGABRT
    [verdict] = [line for line in command.lines if "failed first" in line]
    assert "SIGABRT" in verdict
    assert verdict.endswith(awaited)


# Its sockets are closed, and its process ends later, as with torch's teardown on a busy node.
PEER_ENDS = """
import atexit, os, sys, time, torch
if os.environ["RANK"] == "1":
    atexit.register(time.sleep, 2)
    open("closed", "w").close()
    sys.exit(7)
while not os.path.exists("closed"):
    time.sleep(0.01)
raise RuntimeError("[pair.cc:553] Connection closed by peer [10.0.0.2]:48330.")
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_whose_peer_ended_is_not_the_first_failure(way: str, start: Start, script: Script) -> None:
    script(TORCH, "torch.py")
    script(PEER_ENDS)
    command = start("launch", "-n", "2", *WAYS[way])
    assert command.end() == 7, command.text
    assert "rank 1 on " in next(line for line in command.lines if "failed first" in line)


# It prints a traceback, and continues: its main thread is blocked meanwhile, as in a collective.
CONTINUES = """
import os, threading, time, traceback
try:
    raise ValueError("only logged")
except ValueError:
    traceback.print_exc()
threading.Thread(target=time.sleep, args=(3,)).start()
time.sleep(3)
if os.environ["RANK"] == "1":
    time.sleep(1)
    open("done", "w").close()
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_traceback_is_no_failure(way: str, start: Start, script: Script, tmp_path: Path) -> None:
    script(CONTINUES)
    command = start("launch", "-n", "2", *WAYS[way])
    assert command.end() == 0, command.text
    assert (tmp_path / "done").exists()


# C code prints an exception, sets `sys.last_value` by that, and goes on.
PRINTED = """
import ctypes, sys, torch
def inner():
    ctypes.pythonapi.PyRun_SimpleString(b"raise ValueError('printed only')")
inner()
assert sys.last_value.args == ("printed only",)
"""
ENDS = {
    "printed by C code": (PRINTED, 0),
    "an exit code": ("import sys, torch\nsys.exit(7)", 7),
    "nothing": ("import torch", 0),
    "after a caught one": (
        "import torch\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    pass\nraise SystemExit(3)",
        3,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_is_no_such_end(name: str, start: Start, script: Script) -> None:
    text, code = ENDS[name]
    script(TORCH, "torch.py")
    command = start("launch", "-n", "1", "--", script(text))
    assert command.end() == code, command.tail
    assert "raised" not in "".join(line for line in command.lines if line.startswith("ddpkit:"))


def test_the_exit_code_is_that_of_the_process(start: Start, script: Script) -> None:
    """It may end in another way than Python's own, as torch's teardown does when it aborts."""
    script(TORCH, "torch.py")
    script("import atexit, os, torch\natexit.register(lambda: os._exit(9))\nraise ValueError('so')")
    command = start("launch", "-n", "1", "--", "job.py")
    assert command.end() == 9, command.tail


@pytest.mark.torch
def test_with_torchrun_and_real_torch(start: Start, script: Script) -> None:
    script(RAISES.format(before="import torch.distributed as dist\ndist.init_process_group('gloo')"))
    command = start("launch", "-n", "2", "--grace", "2", "-o", "starter=torchrun", "--", "job.py")
    assert command.end() == 1, command.tail
    assert "raised ValueError; ending 1 other rank (at most 2 s)" in command.text
    [verdict] = [line for line in command.lines if "failed first" in line]
    assert "uncaught exception: ValueError: no such thing at " in verdict, command.text
    command.wait_for_no_survivor()


@pytest.mark.torch
def test_ranks_that_are_started_again_are_not_ended(start: Start, script: Script) -> None:
    """There torchrun decides: one that raised in its first life is not the end of the run."""
    script("import os, torch\nif os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n    raise ValueError('at first')\n")
    command = start("launch", "-n", "2", "-o", "starter=torchrun", "-o", "max_restarts=1", "--", "job.py")
    assert command.end() == 0, command.tail
