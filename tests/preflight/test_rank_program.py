"""Rank programs of ours on this machine: what they say is heard, and nothing is left when the test is ended.

The faults are those of a rank, and not of a node: tests/lab/test_preflight_on_ranks.py has these.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sites
from conftest import PATIENCE, Command

from ddpkit import config
from ddpkit.execution import prepare
from ddpkit.preflight import rank_program

pytestmark = pytest.mark.torch
Run = Callable[..., subprocess.CompletedProcess[str]]


def examined(ddpkit: Run, *args: str, code: int = 0) -> dict[str, list[dict[str, Any]]]:
    """`ddpkit test --json` with these arguments: its findings by their status."""
    done = ddpkit("test", *args, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] == (code == 0)
    found: dict[str, list[dict[str, Any]]] = {}
    for check in report["checks"]:
        found.setdefault(check["status"], []).append(check)
    return found


@pytest.mark.parametrize("starter", ["ranks", "torchrun"])
def test_a_healthy_machine(ddpkit: Run, tmp_path: Path, starter: str) -> None:
    """Files of the working directory with the names of modules are no part of it."""
    for name in ("torch", "numpy", "json", "socket", "base64", "zlib", "runpy", "sitecustomize", "ddpkit"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the file of the working directory')\n")
    found = examined(ddpkit, "2", "-o", f"starter={starter}")
    assert not {"fail", "warn"} & set(found), found
    assert {"request", "ranks", "gloo"} <= {check["id"] for check in found["pass"]}


def test_everything_of_a_healthy_machine(ddpkit: Run) -> None:
    found = examined(ddpkit, "2", "--full")
    assert not {"fail", "warn"} & set(found), found
    assert "speed" in {check["id"] for check in found["pass"]}


ROWS = {
    "killed": ("all_reduce", "os.kill(os.getpid(), signal.SIGKILL)", "gloo", "SIGKILL", "killed"),
    "stopped": ("all_reduce", "os.kill(os.getpid(), signal.SIGSTOP)", "gloo", "ended, or hung", "peer-died"),
    "hangs": ("start", "while True: time.sleep(60)", "ranks", "never started", "ranks-missing"),
    "code 7": ("torch", "os._exit(7)", "ranks", "exit code 7", "ranks-missing"),
    "broken torch": (
        "torch",
        "raise ImportError('libx.so')",
        "ranks",
        "cannot import torch: libx.so",
        "module-missing",
    ),
}


@pytest.mark.parametrize("starter", ["ranks", "torchrun"])
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.thorough_for("stopped-torchrun", "code 7-torchrun", "broken torch-torchrun")
def test_one_rank_is_no_good(ddpkit: Run, tmp_path: Path, name: str, starter: str) -> None:
    when, what, id_, evidence, doc = ROWS[name]
    found = examined(ddpkit, "2", "-o", f"starter={starter}", *sites.local(tmp_path, 1, when, what), code=122)
    (check,) = found["fail"]
    assert (check["id"], check["rank"], check["doc"]) == (id_, 1, doc), found["fail"]
    assert evidence in check["evidence"]
    assert check["cause"]
    assert check["fix"]


def test_a_slow_rank_is_named(ddpkit: Run, tmp_path: Path) -> None:
    """G13. Its clock runs fast: that is what a slow processor looks like from within."""
    slow = "before = time.thread_time; time.thread_time = lambda: 9 * before()"
    found = examined(ddpkit, "3", "--full", *sites.local(tmp_path, 1, "start", slow))
    assert {(check["id"], check["rank"], check["doc"]) for check in found["warn"]} == {("speed", 1, "straggler")}
    assert "times as long as on the others" in found["warn"][0]["evidence"]


def test_the_program_travels_as_text(tmp_path: Path) -> None:
    """With nothing of ours there: no folder, no package."""
    words = rank_program.command("check", "test", helpers=("inventory",), args=("--help",))
    done = subprocess.run(
        ["python3", "-I", "-S", *words], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--mib" in done.stdout
    assert max(map(len, words)) < 100_000  # a word of a command line has 131,071 bytes at most


# ---- ended from outside


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
@pytest.mark.parametrize("part", [0, 1, pytest.param(2, marks=pytest.mark.thorough)])
def test_ended_at_any_moment_it_leaves_nothing(
    start: Callable[..., Command], number: signal.Signals, code: int, part: int
) -> None:
    command = start("test", "2", "--json")
    time.sleep(random.Random(100 * number + part).uniform(0.3, 2.5))  # the moment is what is tested
    if command.process.poll() is None:
        command.process.send_signal(number)
    ended = command.end()
    command.wait_for_no_survivor()
    text = "\n".join(line for line in command.lines if not line.startswith("ddpkit: "))
    if ended == 0:  # it was done before
        assert json.loads(text)["ok"]
    else:
        assert ended in (code, -number), command.text  # before Python takes signals, they end it: a shell says the same
        assert not text or json.loads(text), command.text  # all of it, or nothing


def test_ranks_of_which_nothing_is_heard_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever starts them may hang, and has no bound of its own."""
    monkeypatch.chdir(tmp_path)
    chosen = config.collect_settings(tmp_path, {}, None, {"script": ["sleep", "600"], "nproc_per_node": 2})
    ready = prepare.prepare_offline(chosen, dict(os.environ))
    heard = rank_program.run(ready.plan, ready.transport, str(tmp_path / "logs"), silence=1.0)
    assert heard.silent == 1.0
    assert heard.outcome.ends["signal 15"] == 2
