"""Trains on the lab's nodes with --retries and --spares, and makes one fault in each run: the result must not change.

Each round: a backend, a starter, a fault and its moment, by chance from a seed. A recoverable fault must end with the
metrics and weights of an undisturbed run, bit for bit. No other one may be tried again. A host that was put aside is in
no later attempt, and no process is left.

As a program: heal.py [--rounds N] [--seed S] [--only FAULT] [--backend B]. Exit code 1: anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))
from cluster import NODES, Lab
from launches import Launch
from plain_project import write_project
from program import undo_ignored_signals

LIMIT = 240.0  # seconds for one run
EPOCHS = 4
WORDS = ["train.py", "--dataset", "synthetic", "--synthetic-size", "256", "--epochs", str(EPOCHS), "--batch-size", "16"]
WORDS += ["--log-every", "1", "--resume", "auto"]
# Every optimizer step of the copy of train.py takes a moment, writes to a disk of its host, and can fail.
STEP = "            self.step += 1\n"
FAULT = """time.sleep(0.1)
if os.path.exists('fail'):
    raise ValueError('bad batch')
with open('scratch/' + os.uname().nodename, 'ab') as file:
    file.write(b'x' * 512)
"""
# By fault: exit codes, and the decision after the first attempt.
FAULTS: dict[str, tuple[int, str]] = {
    "rank killed": (0, "check"),
    "node killed": (0, "replace"),
    "cut": (0, "replace"),
    "two nodes": (0, "replace"),
    "spare killed": (0, "replace"),
    "spare faulty": (0, "replace"),  # it fails the preflight
    "disk full": (0, "check"),  # a rank's text alone puts no node aside
    "stuck": (0, "check"),
    "launcher killed": (-signal.SIGKILL, "replace"),
    "exception": (1, "stop"),
    "stopped": (143, "stop"),
}
STARTERS = ("ranks", "torchrun")
# By backend: faults that it has no round for. `job` is a job that ddpkit submits, `slurm` an allocation.
BACKENDS: dict[str, tuple[str, ...]] = {
    "ssh": (),
    "pdsh": (),
    "slurm": ("cut", "two nodes", "spare faulty", "launcher killed"),
    "job": ("cut", "two nodes", "spare faulty", "launcher killed", "stopped"),
}


@dataclass(frozen=True, kw_only=True)
class Round:
    """What is to happen."""

    backend: str
    starter: str
    fault: str
    steps: int  # lines of metrics before the fault
    victim: int  # node rank


def draw(chance: random.Random, choice: argparse.Namespace) -> Round:
    backend = choice.backend or chance.choice([name for name in BACKENDS if choice.only not in BACKENDS[name]])
    faults = [name for name in FAULTS if name not in BACKENDS[backend]]
    return Round(
        backend=backend,
        starter=chance.choice(STARTERS),
        fault=choice.only or chance.choice(faults),
        steps=chance.randint(2, 24),
        victim=chance.randrange(2),
    )


def result(folder: Path) -> tuple[list[dict[str, Any]], Any]:
    """The metrics without times, and the last checkpoint."""
    import torch

    lines = [json.loads(line) for line in (folder / "checkpoints/metrics.jsonl").read_text().splitlines()]
    timed = ("seconds", "samples_per_second")
    rows = [{key: value for key, value in line.items() if key not in timed} for line in lines]
    state = torch.load(folder / f"checkpoints/checkpoint_epoch_{EPOCHS:05}_step_000000.pt", weights_only=False)
    return rows, (state["model"], state["optimizer"], state["total_steps"])


def same(one: Any, other: Any) -> bool:
    """Whether two nests of values are equal bit for bit."""
    import torch

    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def start(lab: Lab, plan: Round) -> tuple[Launch, Path]:
    folder = Path(tempfile.mkdtemp(prefix="heal-", dir=lab.folder))
    write_project(folder)
    text = (folder / "train.py").read_text()
    assert STEP in text
    (folder / "train.py").write_text(text.replace(STEP, STEP + textwrap.indent(FAULT, " " * 12)))
    (folder / "scratch").mkdir()
    words = ["-n", "1", "--grace", "2", "--retries", "2", "--spares", "2", "--env", "OMP_NUM_THREADS=1"]
    if plan.fault == "stuck":
        (folder / "ddpkit.toml").write_text('hang_timeout = 30\nhang_action = "end"\n')
    if plan.backend in ("slurm", "job"):
        name = "slurm" if plan.starter == "ranks" else "slurm-torchrun"
        if plan.backend == "job":
            return Launch(lab, folder, ["-b", name, "-N", "2", *words, "--", *WORDS]), folder
        before = ["salloc", "-Q", "-N4", "--no-kill", "--ntasks-per-node=1"]
        return Launch(lab, folder, ["-b", name, *words, "--", *WORDS], before=before), folder
    options = ["-o", f"starter={plan.starter}", "-o", "heartbeat_timeout=4"]
    return Launch(lab, folder, ["-b", plan.backend, *NODES, *words, *options, "--", *WORDS]), folder


def change(folder: Path) -> tuple[float, float, float, float] | None:
    """Seconds of the cold start until the first step; of the change: the old attempt's end, plan, start to a step."""
    (path,) = folder.glob("logs/*/run.json")
    first, *others = json.loads(path.read_text())["attempts"]
    if not others or not first["first_step"] or not others[0]["first_step"] or not first["failure"]["at"]:
        return None
    kept = [path.parent / "attempt-1/launch.json", path.parent / "launch.json"]
    began = json.loads(next(each for each in kept if each.exists()).read_text())["began"]
    moments = (first["failure"]["at"], first["ended"], others[0]["started"], others[0]["first_step"])
    end, planned, start = (after - before for before, after in pairwise(moments))
    return first["first_step"] - began, end, planned, start


def play(lab: Lab, plan: Round, expected: tuple[Any, Any] | None, times: list[Any]) -> list[str]:
    """One round. Returns what was wrong. `times` gets the cold start and the change."""
    if plan.backend in ("slurm", "job"):
        lab.wait_idle()
    launch, folder = start(lab, plan)
    dead: set[str] = set()
    try:
        wait_for_steps(launch, folder, plan.steps)
        dead = happen(lab, plan, launch, folder)
        code = launch.end(LIMIT)
        if plan.fault == "launcher killed":  # a program that it had just started may outlive its SIGKILL by a moment
            launch.wait_for_nothing_left(5.0, lambda host, line: host in dead, folders=False)
        found = list(wrongs(plan, launch, folder, code, dead, expected))
        times.extend(filter(None, [change(folder)]))
        return found
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return [f"{type(error).__name__}: {error}\n{launch.text}"]
    finally:
        launch.clean_up()
        for name in dead:
            if plan.fault == "cut":
                lab.mend(name)
            elif (plan.fault, name) == ("spare faulty", NODES[2]) or plan.fault == "disk full":
                lab.run(name, "umount", "--lazy", str(folder / ("scratch" if plan.fault == "disk full" else ".")))
            else:
                lab.boot(name)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_steps(launch: Launch, folder: Path, steps: int) -> None:
    until, path = time.monotonic() + LIMIT, folder / "checkpoints/metrics.jsonl"
    while not path.exists() or len(path.read_text().splitlines()) < steps:
        assert time.monotonic() < until, "no steps"
        assert launch.process.poll() is None, "it ended before the fault"
        time.sleep(0.02)


def happen(lab: Lab, plan: Round, launch: Launch, folder: Path) -> set[str]:
    """Make the fault. Returns the hosts that are gone."""
    victim = NODES[plan.victim]
    if plan.fault == "rank killed":
        os.kill(launch.ranks("train.py")[plan.victim][1], signal.SIGKILL)
    elif plan.fault == "exception":
        (folder / "fail").touch()
    elif plan.fault == "stopped":
        launch.signal(signal.SIGTERM)
    elif plan.fault == "cut":
        lab.cut(victim)
        return {victim}
    elif plan.fault == "stuck":
        os.kill(launch.ranks("train.py")[plan.victim][1], signal.SIGSTOP)
    elif plan.fault == "disk full":
        small = "mount -t tmpfs -o size=4k tmpfs scratch && head -c 4096 /dev/zero > scratch/full"
        lab.run(victim, "sh", "-c", small, cwd=folder)
        return {victim}
    elif plan.fault == "spare faulty":
        lab.run(NODES[2], "mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(folder))
        lab.kill(victim)
        return {victim, NODES[2]}
    elif plan.fault == "launcher killed":
        lab.kill(victim)
        launch.wait_for("attempt 1 ended")
        launch.signal(signal.SIGKILL)
        return {victim}
    elif plan.fault != "none":
        hosts = {"node killed": {victim}, "two nodes": set(NODES[:2]), "spare killed": {NODES[2], victim}}[plan.fault]
        for name in sorted(hosts, reverse=True):  # the spare first
            lab.kill(name)
        return hosts
    return set()


def wrongs(
    plan: Round, launch: Launch, folder: Path, code: int, dead: set[str], expected: tuple[Any, Any] | None
) -> Sequence[str]:
    """Compare the end of a run with what was to come."""
    found = []
    (path,) = folder.glob("logs/*/run.json")
    attempts = json.loads(path.read_text())["attempts"]
    right, action = FAULTS.get(plan.fault, (0, ""))
    if (plan.backend, plan.fault, code) == ("slurm", "stopped", 75):
        right = code  # salloc gives the ranks the time to save
    if code != right and not (right < 0 and code == 128 - right):
        found.append(f"exit code {code}, not {right}")
    decision = attempts[0]["decision"]
    if plan.backend == "job" and NODES[0] in dead and plan.fault != "disk full":
        action = "requeue"  # the job's script died with its node
    if (decision or {"action": ""})["action"] != action or (decision and not decision["reason"]):
        found.append(f"decision {decision}, not {action}")
    if len(attempts) != (1 if action in ("stop", "") or right < 0 else 2):
        found.append(f"{len(attempts)} attempts")
    if any(host in dead for each in attempts[1:] for host in each["hosts"]):
        found.append(f"{sorted(dead)}: in a later attempt {attempts[1:]}")
    if right == 0 and code == 0 and expected is not None and not same(result(folder), expected):
        found.append("metrics or weights differ from those of an undisturbed run")
    if left := launch.left(lambda host, line: host in dead):
        found.append(f"left behind: {left}")
    return [f"{text}\n{launch.text}" for text in found]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=FAULTS)
    parser.add_argument("--backend", choices=BACKENDS)
    choice = parser.parse_args(argv)
    if choice.backend and choice.only in BACKENDS[choice.backend]:
        parser.error(f"there is no round of {choice.only!r} over {choice.backend}")
    undo_ignored_signals()
    folder = Path(tempfile.mkdtemp(prefix="ddpkit-heal-"))
    lab, bad, times = Lab(folder), 0, list[Any]()
    try:
        lab.up()
        calm = Round(backend="ssh", starter="ranks", fault="none", steps=1, victim=0)
        launch, project = start(lab, calm)
        assert launch.end(LIMIT) == 0, launch.text
        expected = result(project)
        for number in range(choice.rounds):
            plan = draw(random.Random(f"{choice.seed}.{number}"), choice)
            began = time.monotonic()
            try:
                wrong = play(lab, plan, expected, times)
            except RuntimeError as error:  # the lab itself: another one
                wrong = [f"lab: {error}"]
                lab.down()
                lab = Lab(Path(tempfile.mkdtemp(prefix="lab", dir=folder)))
                lab.up()
            bad += bool(wrong)
            took = f"{time.monotonic() - began:6.1f} s"
            verdict = "WRONG" if wrong else "right"
            cold = ", cold {:.1f} s, change {:.1f} + {:.1f} + {:.1f} s".format(*times[-1]) if times else ""
            print(f"{number:3} {plan.backend:5} {plan.starter:8} {plan.fault:15} {took} {verdict}{cold}", flush=True)
            times.clear()
            print("".join(f"    {line}\n" for text in wrong for line in text.splitlines()), end="", flush=True)
    finally:
        lab.down()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{choice.rounds} rounds, {bad} wrong")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
