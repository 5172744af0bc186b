"""`ddpkit launch` on a real SLURM: from the login node, in an allocation, in a job script, and inside another step."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from hostile import ARGS, ENV, PROBE
from launching import (
    BACKENDS,
    DDPKIT,
    SALLOC,
    SLEEP,
    WHO,
    Launch,
    mostly,
    on_nodes,
    torch,
    wait_until_gone,
    with_preload,
)
from program import wait_until

FAIL = """
import os, signal, sys, time
print("ready", flush=True)
if os.environ["RANK"] == "3":
    while not os.path.exists("go"):
        time.sleep(0.02)
    print("last words", flush=True)
    {end}
time.sleep(3600)
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", ["login", "salloc", "script", "step"])
@pytest.mark.thorough_for("salloc-torchrun", "step-torchrun")
def test_ranks_are_right_from_everywhere(
    backend: str, place: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    (folder / "who.py").write_text(WHO)
    (folder / "tmp").mkdir()
    args = with_preload(["-b", backend, "-n", "2", "-N", "2", "--env", f"TMPDIR={folder / 'tmp'}", "--", "who.py"])
    if place == "login":
        command = launch(*args)
    elif place == "salloc":
        command = launch(*args, before=SALLOC)
    elif place == "step":
        # A step of one task on the second node: its SLURM_* variables confine whoever believes them.
        command = launch(*args, before=[*SALLOC, "srun", "-N1", "-n1", "-r1", "--overlap"])
    else:
        root = Path(__file__).parents[2]
        line = f"#!/bin/bash\nPYTHONPATH={root} {shlex.join([*DDPKIT, 'launch', *args])}\n"
        (folder / "job.sh").write_text(line)
        done = idle_lab.run("login", "sbatch", "--wait", "-Q", "-N2", "--ntasks-per-node=2", "job.sh", cwd=folder)
        assert done.returncode == 0
        command = None
    if command is not None:
        assert command.end() == 0, command.tail
    seen = [json.loads((folder / f"who.{rank}").read_text()) for rank in range(4)]
    hosts = [who["host"] for who in seen]
    assert hosts == [hosts[0], hosts[0], hosts[2], hosts[2]]
    assert hosts[0] != hosts[2]
    assert len({who["MASTER_PORT"] for who in seen}) == 1
    for rank, who in enumerate(seen):
        assert (who["RANK"], who["WORLD_SIZE"], who["LOCAL_WORLD_SIZE"]) == (str(rank), "4", "2")
        assert (who["LOCAL_RANK"], who["NODE_RANK"]) == (str(rank % 2), str(rank // 2))
        assert who["MASTER_ADDR"] == hosts[0]
        assert int(who["OMP_NUM_THREADS"]) >= 1
    left = [path.name for path in (folder / "tmp").iterdir()]
    assert not [name for name in left if name.startswith(("ddpkit-", "torchelastic_"))]


def each_place(*torchrun: str) -> list[Any]:
    """Return backend and place as parameters: srun in both places, torchrun in those of `torchrun`."""
    found = []
    for place, before in {"login": [], "salloc": SALLOC}.items():
        marks = [torch] if place in torchrun else [torch, pytest.mark.thorough]
        found.append(pytest.param("slurm", before, id=f"{place}-srun"))
        found.append(pytest.param("slurm-preload", before, id=f"{place}-preload"))
        found.append(pytest.param("slurm-torchrun", before, id=f"{place}-torchrun", marks=marks))
    return found


@pytest.mark.parametrize(("backend", "before"), each_place("login"))
def test_hostile_words_arrive(backend: str, before: list[str], launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "job.py").write_text(PROBE)
    given = [word for name, value in ENV.items() for word in ("--env", f"{name}={value}")]
    command = launch("-b", backend, "-N", "2", "-n", "1", *given, "--", "job.py", *ARGS, before=before)
    assert command.end() == 0, command.tail
    for rank in range(2):
        seen = json.loads((folder / f"seen.{rank}").read_text())
        assert seen["argv"] == ARGS
        assert seen["env"] == ENV
    assert not (folder / "pwned").exists()


ENDS = {
    "exits 7": ("sys.exit(7)", 7, "exit code 7"),
    "is killed": ("os.kill(os.getpid(), 9)", 137, "killed by signal 9"),
    "raises": ("raise RuntimeError('boom')", 1, "exit code 1"),
}


FAILURES = [
    pytest.param(end, *each.values, id=f"{end}-{each.id}", marks=each.marks)
    for end, place in {"exits 7": "login", "is killed": "salloc", "raises": "salloc"}.items()
    for each in each_place(place)
]


@pytest.mark.parametrize(("end", "backend", "before"), FAILURES)
def test_first_failure(
    end: str, backend: str, before: list[str], launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    text, code, how = ENDS[end]
    (folder / "job.py").write_text(FAIL.format(end=text))
    command = launch("-b", backend, "-N", "2", "-n", "2", "--", "job.py", before=before)
    command.wait_for("] ready", times=4)
    assert set(on_nodes(idle_lab, "job.py")) == {"node1", "node2"}
    (folder / "go").touch()
    assert command.end() == code, command.tail
    verdict = [line for line in command.lines if "failed first" in line]
    assert len(verdict) == 1, command.text
    assert "rank 3 on node2" in verdict[0]
    assert how in verdict[0]
    assert command.text.count("[3 node2] last words") == 1, command.text
    wait_until_gone(idle_lab, "job.py")
    if not before and end == "exits 7":
        job = json.loads(next(folder.glob("logs/*/run.json")).read_text())["job_id"]
        assert " ExitCode=7:0 " in idle_lab.run("login", "scontrol", "-o", "show", "job", job).stdout


LAST_LINES = """
import os, sys, time
print("ready", flush=True)
if os.environ["RANK"] == "1":
    for n in range(3):
        os.write(2, f"line {n}\\n".encode())
    END
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("end", "code", "last"),
    [("os._exit(7)", 7, "line 2"), ("os.abort()", 134, "line 2"), ("raise OSError('disk')", 1, "OSError: disk")],
)
def test_the_last_lines_right_before_an_end(
    end: str, code: int, last: str, launch: Callable[..., Launch], folder: Path
) -> None:
    (folder / "job.py").write_text(LAST_LINES.replace("END", end))
    command = launch("-b", "slurm", "-N", "2", "-n", "1", "--", "job.py")
    assert command.end() == code, command.text
    assert f"[1 node2] {last}" in command.text


TRAPS = "import signal, sys\nsignal.signal(15, lambda *_: (print('saved', flush=True), sys.exit(0)))\n" + SLEEP


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("INT", "slurm"),
        ("TERM", "slurm"),
        ("INT", "slurm-preload"),
        ("TERM", "slurm-preload"),
        pytest.param("TERM", "slurm-torchrun", marks=torch),
        pytest.param("INT", "slurm-torchrun", marks=[torch, pytest.mark.thorough]),
    ],
)
def test_a_signal_in_an_allocation_ends_the_step(
    name: str, backend: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    """The ranks get TERM first, and time to save."""
    (folder / "job.py").write_text(TRAPS)
    command = launch("-b", backend, "-N", "2", "-n", "1", "--", "job.py", before=[*SALLOC, "setsid", "--wait"])
    command.wait_for("] ready", times=2)
    command.signal(idle_lab, getattr(signal, f"SIG{name}"))
    assert command.end() == 128 + getattr(signal, f"SIG{name}"), command.tail
    assert command.text.count("] saved") == 2, command.text
    wait_until_gone(idle_lab, "job.py")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_script_that_reads_slurms_own_numbers(backend: str, launch: Callable[..., Launch], folder: Path) -> None:
    names = (("RANK", "SLURM_PROCID"), ("LOCAL_RANK", "SLURM_LOCALID"), ("WORLD_SIZE", "SLURM_NTASKS"))
    text = f"import os\nprint('same', [os.environ[a] == os.environ[b] for a, b in {names}])\n"
    (folder / "job.py").write_text(text)
    command = launch("-b", backend, "-N", "2", "-n", "2", "--", "job.py")
    assert command.end() == 0, command.tail
    assert command.text.count("same [True, True, True]") == 4, command.text


@pytest.mark.parametrize("backend", ["slurm", "slurm-preload"])
def test_a_killed_launcher_in_an_allocation_leaves_nothing(
    backend: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    (folder / "job.py").write_text(SLEEP)
    command = launch("-b", backend, "-N", "2", "-n", "1", "--", "job.py", before=[*SALLOC, "setsid", "--wait"])
    command.wait_for("] ready", times=2)
    command.signal(idle_lab, signal.SIGKILL)
    wait_until_gone(idle_lab, "job.py")


def test_leaving_a_job_says_how_to_come_back(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text(SLEEP)
    command = launch("-b", "slurm", "-N", "2", "-n", "1", "--", "job.py")
    command.wait_for("] ready", times=2)
    command.signal(idle_lab, signal.SIGINT)
    assert command.end() == 130
    job = json.loads(next(folder.glob("logs/*/run.json")).read_text())["job_id"]
    assert json.loads(next(folder.glob("logs/*/run.json")).read_text())["state"] == "left"
    assert f"job {job} continues without this command" in command.text
    run = next(folder.glob("logs/*")).name
    assert f"; to follow it: ddpkit attach {run}; to stop it: ddpkit stop {run}" in command.text
    assert set(on_nodes(idle_lab, "job.py")) == {"node1", "node2"}
    idle_lab.run("login", "scancel", job)
    wait_until_gone(idle_lab, "job.py")


@pytest.mark.parametrize("backend", BACKENDS)
def test_detach_and_secrets(backend: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    """What is secret reaches the ranks through the submitting program's environment, and is in no file of ddpkit.

    slurmctld keeps that environment in its own state, which no other user can read. Its script has no value.
    """
    (folder / "job.py").write_text("import os\nopen('got.' + os.environ['RANK'], 'w').write(os.environ['HF_TOKEN'])\n")
    command = launch("-b", backend, "-N", "2", "-n", "1", "--detach", "--env", "HF_TOKEN=sesame", "--", "job.py")
    assert command.end() == 0, command.tail
    assert re.search(r"submitted; output: (\S+)/slurm-(\d+)\.out$", command.text, re.MULTILINE)
    run = next(folder.glob("logs/*")).name
    assert f"ddpkit: to follow it: ddpkit attach {run}; to stop it: ddpkit stop {run}" in command.lines
    wait_until(lambda: (folder / "got.1").exists() and (folder / "got.1").read_text() == "sesame")
    for path in filter(Path.is_file, folder.glob("logs/*/**/*")):
        assert b"sesame" not in path.read_bytes()


REFUSED = {
    "partition": (["-o", "partition=nope"], "sbatch rejected the job", "invalid partition"),
    "resource": (["-o", "gres=tpu:1"], "sbatch rejected the job", "generic resource"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    args, first, second = REFUSED[name]
    (folder / "job.py").write_text("open('ran', 'w')\n")
    command = launch("-b", "slurm", *args, "--", "job.py")
    assert command.end() == 123, command.tail
    assert first in command.text
    assert second in command.text
    assert list(folder.glob("logs/*")) == []
    assert idle_lab.run("login", "squeue", "-h").stdout == ""
    assert not (folder / "ran").exists()


def test_a_node_that_dies(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text(SLEEP)
    command = launch("-b", "slurm", "-N", "2", "-n", "1", "-o", "requeue=false", "--", "job.py")
    command.wait_for("] ready", times=2)
    try:
        idle_lab.kill("node2")
        assert command.end() != 0, command.tail
        assert "node2" in command.text or "lost a node" in command.text
        assert idle_lab.run("login", "squeue", "-h", "-t", "RUNNING").stdout == ""
    finally:
        idle_lab.boot("node2")
    wait_until_gone(idle_lab, "job.py")


def test_no_controller(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text("")
    pids = [pid for pid, line in idle_lab.processes("login").items() if "slurmctld" in line]
    idle_lab.run("login", "kill", "-STOP", *map(str, pids))
    try:
        command = launch("-b", "slurm", "--", "job.py")
        assert command.end() == 123, command.tail
    finally:
        idle_lab.run("login", "kill", "-CONT", *map(str, pids))
    assert "sbatch" in command.text
    idle_lab.wait_idle()


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_nodes_than_the_allocation(backend: str, launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "job.py").write_text("")
    command = launch("-b", backend, "-N", "3", "--", "job.py", before=SALLOC)
    assert command.end() == 121
    assert "-N 3: allocation " in command.text
    assert "has 2 nodes" in command.text


CHAIN = """
import os, sys, time
attempt = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
print("attempt", attempt, flush=True)
sys.exit(75 if attempt < 2 else 0)
"""


@pytest.mark.parametrize("backend", mostly(["slurm", "slurm-preload", "slurm-torchrun"], "slurm"))
def test_a_job_that_saved_is_started_again(backend: str, launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "job.py").write_text(CHAIN)
    command = launch("-b", backend, "-N", "2", "-n", "1", "-o", "chain=5", "--", "job.py")
    assert command.end() == 0, command.tail
    # srun ends the slower rank of an attempt that failed, perhaps before it could say anything.
    assert "] attempt 0" in command.text
    assert "] attempt 1" in command.text
    assert command.text.count("] attempt 2") == 2
    assert "attempt 3" not in command.text


def test_a_chain_has_an_end(launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "job.py").write_text(CHAIN)
    command = launch("-b", "slurm", "-N", "2", "-n", "1", "-o", "chain=1", "--", "job.py")
    assert command.end() == 75, command.tail
    assert "] attempt 1" in command.text
    assert "attempt 2" not in command.text


def wait_for_steps(folder: Path, steps: int) -> None:
    """Until the training has recorded so many optimizer steps."""
    path = folder / "metrics.jsonl"
    wait_until(lambda: path.exists() and any(f'"step": {steps},' in line for line in path.read_text().splitlines()))


@torch
def test_a_job_that_is_preempted_and_requeued_has_the_weights_of_an_undisturbed_one(
    launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    """First USR1 before a time limit, then `scontrol requeue` of an administrator."""
    words = [str(Path(__file__).parents[2] / "train.py"), "--dataset", "synthetic", "--synthetic-size", "1600"]
    words += ["--epochs", "2", "--log-every", "1", "--resume", "auto", "--batch-size", "8"]
    plain = launch("-b", "slurm", "-N", "2", "-n", "1", "--", *words, "--save-dir", "plain")
    assert plain.end() == 0, plain.tail
    command = launch("-b", "slurm", "-N", "2", "-n", "1", "-o", "chain=3", "--", *words, "--save-dir", "disturbed")
    for steps, event in ((20, ("scancel", "--signal=USR1", "{job}.0")), (120, ("scontrol", "requeue", "{job}"))):
        wait_for_steps(folder / "disturbed", steps)
        records = [json.loads(path.read_text()) for path in folder.glob("logs/*/run.json")]
        (job,) = [record["job_id"] for record in records if "disturbed" in record["command"]]
        idle_lab.run("login", *(word.format(job=job) for word in event))
    assert command.end() == 0, command.tail
    assert command.text.count("was requeued and starts again") == 2
    compare = """
import sys, torch
paths = (f"{name}/checkpoint_epoch_00002_step_000000.pt" for name in ("plain", "disturbed"))
a, b = (torch.load(path, weights_only=True)["model"] for path in paths)
sys.exit(not (a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)))
"""
    subprocess.run([sys.executable, "-c", compare], cwd=folder, check=True)
