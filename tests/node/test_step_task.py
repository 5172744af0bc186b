"""The task of a SLURM step that is a supervisor, without SLURM: its variables, events, signals and end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE
from program import wait_until

from ddpkit.launchers.job_output import JobOutput
from ddpkit.launchers.starters import TAP as _TAP
from ddpkit.node import step_task
from ddpkit.node.bundle import pack, read_texts
from ddpkit.node.step_output import StepReader

# srun's own variables of the first of three tasks, one on each node.
STEP = {
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_ID": "7",
    "SLURM_NTASKS": "3",
    "SLURM_NPROCS": "3",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_TASKS_PER_NODE": "1(x3)",
    "SLURM_GTIDS": "1",
    "SLURM_CPUS_PER_TASK": "4",
    "SLURM_TRES_PER_TASK": "cpu=4",
    "SLURMD_NODENAME": "node2",
    "PMI_RANK": "1",
    "PMIX_RANK": "1",
}


def test_each_rank_has_the_variables_of_a_task_of_its_own() -> None:
    spec = {"ranks": [2, 2, 2], "cpus_per_task": [2, 2, 2]}
    first, second = step_task.procs_to_fork(spec, STEP, [0, 4, 1, 5, 2])
    assert (first["rank"], second["rank"]) == (2, 3)
    assert (first["cpus"], second["cpus"]) == ([0, 4], [1, 5])
    env = {name: value for name, value in {**STEP, **second["env"]}.items() if value is not None}
    assert env == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "6",
        "ROLE_NAME": "default",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "6",
        "SLURM_NODEID": "1",
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
        "SLURM_STEP_NUM_NODES": "3",
        "SLURM_STEP_ID": "0",
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "6",
        "SLURM_NPROCS": "6",
        "SLURM_STEP_NUM_TASKS": "6",
        "SLURM_TASKS_PER_NODE": "2(x3)",
        "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_GTIDS": "2,3",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURMD_NODENAME": "node2",
    }


def test_nodes_can_have_different_numbers_of_ranks() -> None:
    spec = {"ranks": [1, 3, 1], "cpus_per_task": [0, 2, 0]}
    ranks = step_task.procs_to_fork(spec, STEP, [0, 1, 2, 3, 4, 5])
    assert [rank["rank"] for rank in ranks] == [1, 2, 3]
    assert [rank["cpus"] for rank in ranks] == [[0, 1], [2, 3], [4, 5]]
    env = ranks[0]["env"]
    assert (env["WORLD_SIZE"], env["SLURM_TASKS_PER_NODE"], env["SLURM_GTIDS"]) == ("5", "1,3,1", "1,2,3")


@pytest.mark.parametrize(("each", "cpus"), [(0, [0, 1, 2, 3]), (2, [0, 1, 2])], ids=["not asked for", "too few"])
def test_ranks_share_the_cpus_of_the_task(each: int, cpus: list[int]) -> None:
    ranks = step_task.procs_to_fork({"ranks": [2, 2], "cpus_per_task": [each, each]}, STEP, cpus)
    assert [rank["cpus"] for rank in ranks] == [[], []]


SPEC: dict[str, Any] = {
    "run": "r",
    "grace": 60.0,
    "ranks": [2, 2, 2],
    "by_node": True,
    "groups": [],
    "agent": "preload",
    "preload": ["json"],
    "cpus_per_task": [0, 0, 0],
    "programs": ["fork_server"],
    "lost": False,
    "silence": 0.0,
    "collected": True,
    "runtime": "",
    "marks": "",
}


class Task:
    """A task on node 2 of 3. Its output is read as `collect.py` reads that of srun."""

    def __init__(self, folder: Path, command: list[str], spec: dict[str, Any], env: dict[str, str]) -> None:
        (folder / "node.zip").write_bytes(pack(read_texts()))
        (folder / "task.json").write_text(json.dumps({**SPEC, **spec}))
        self.out = folder / "out"
        self.number = 1 if spec.get("by_node", True) else 2
        argv = [sys.executable, "-S", "-I", "node.zip", "step_task", "task.json", *command]
        env = {**os.environ, **STEP, "TMPDIR": str(folder), **env}
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out)
        self.spec = {**SPEC, **spec}

    @property
    def seen(self) -> list[tuple[str, Any]]:
        reader = StepReader(self.spec)
        data = b"".join(b"%d: %b\n" % (self.number, line) for line in self.out.read_bytes().splitlines())
        return [*reader.feed(1, data, 1000.0)]

    @property
    def lines(self) -> list[str]:
        """Lines of ranks and of what starts them, and the ends of ranks."""
        found = []
        for label, content in self.seen:
            if isinstance(content, str):
                found.append(f"[{label}] {content}")
            elif content["e"] in ("exit", "failed"):
                found.append(f"{content['e']} {content['rank']} {content['code']} {content['signal']}")
        return found

    def wait_for(self, text: str, times: int) -> None:
        until = time.monotonic() + PATIENCE
        while "\n".join(self.lines).count(text) < times:
            assert time.monotonic() < until, self.lines
            assert self.process.poll() is None or "\n".join(self.lines).count(text) >= times, self.lines
            time.sleep(0.02)  # a file announces nothing

    def end(self) -> list[str]:
        self.process.wait(PATIENCE)
        return self.lines

    def all(self) -> list[int]:
        """Return the process ids of the task and of everything below it."""
        listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
        pids = [self.process.pid]
        for pid in pids:
            pids += [each for each, parent in pairs if parent == pid]
        return pids


TAP = f"import os, sys; {_TAP}"
START = Callable[..., Task]
RANK = {"by_node": False, "agent": "srun", "preload": [], "programs": []}
OF_RANK = {"RANK": "2", "LOCAL_RANK": "0"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[START]:
    """Start a task whose ranks, one or two, run a script."""
    tasks: list[Task] = []

    def task(text: str, *, alone: bool = False, **spec: Any) -> Task:
        (tmp_path / "job.py").write_text(text)
        words = [sys.executable, "-u", "job.py"]
        tasks.append(Task(tmp_path, words, {**(RANK if alone else {}), **spec}, OF_RANK if alone else {}))
        return tasks[-1]

    yield task
    for each in tasks:
        each.process.kill()
        each.process.wait(PATIENCE)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


HEARS = """
import os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
print("ready", flush=True)
while True:
    time.sleep(60)
"""


@pytest.mark.parametrize("alone", [False, True], ids=["of a node", "of a rank"])
@pytest.mark.parametrize("to_all", [False, True], ids=["to the task alone", "to every process"])
def test_every_rank_gets_a_signal_once(to_all: bool, alone: bool, start: START) -> None:
    task, ranks = start(HEARS, alone=alone), 1 if alone else 2
    task.wait_for("ready", ranks)
    for number, text, times in (
        (signal.SIGUSR1, "heard", ranks),
        (signal.SIGUSR1, "heard", 2 * ranks),
        (signal.SIGTERM, "saved", ranks),
    ):
        for pid in task.all() if to_all else [task.process.pid]:
            os.kill(pid, number)
        task.wait_for(text, times)
    lines = task.end()
    assert task.process.returncode == 0, lines
    for rank in (2,) if alone else (2, 3):  # its end follows its last line
        said = [line for line in lines if line.startswith((f"[{rank} ", f"exit {rank} "))]
        assert said == [f"[{rank} node2] {word}" for word in ("ready", "heard", "heard", "saved")] + [
            f"exit {rank} 0 None"
        ]


@pytest.mark.parametrize("local", ["0", "1", "node"])
def test_one_task_of_each_node_sends_heartbeats(local: str, start: START, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OF_RANK, "SLURM_LOCALID", local)
    task = start(HEARS, alone=local != "node", silence=1.0)
    task.wait_for("ready", 2 if local == "node" else 1)

    def beats() -> int:
        return task.out.read_bytes().count(b'={"e":"beat",')

    if local == "1":
        os.kill(task.process.pid, signal.SIGTERM)
        task.end()
        assert beats() == 0
    else:
        wait_until(lambda: beats() >= 3)


@pytest.mark.parametrize(
    ("end", "code", "last"), [("sys.exit(7)", 7, "7 None"), ("os.kill(os.getpid(), 9)", -9, "None 9")]
)
def test_the_first_rank_that_fails_ends_the_task_as_it_ended(end: str, code: int, last: str, start: START) -> None:
    """The other rank gets SIGTERM, and SIGKILL after the grace."""
    text = f"""
import os, signal, sys, time
if os.environ["RANK"] == "3":
    while not os.path.exists("stubborn"):
        time.sleep(0.02)
    print("last words")
    {end}
signal.signal(signal.SIGTERM, lambda *_: print("saves", flush=True))
open("stubborn", "w").close()
while True:
    time.sleep(60)
"""
    task = start(text, grace=0.5)
    lines = task.end()
    assert task.process.returncode == code
    # The end of the other rank is not told where what forked it was killed at the same moment.
    assert lines[:4] == ["[3 node2] last words", f"exit 3 {last}", f"failed 3 {last}", "[2 node2] saves"]


def test_ranks_that_slurm_ends_have_its_time_and_not_the_grace(start: START) -> None:
    text = """
import os, signal, sys, time
def save(*_):
    if os.environ["RANK"] == "2":
        time.sleep(4)
        print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(60)
"""
    task = start(text, grace=1)
    task.wait_for("ready", 2)
    task.process.send_signal(signal.SIGTERM)
    assert "[2 node2] saved" in task.end()
    assert task.process.returncode == 0


@pytest.mark.parametrize("to_all", [False, True], ids=["to the task alone", "to every process"])
@pytest.mark.parametrize("alone", [False, True], ids=["of a node", "of a rank"])
def test_a_signal_at_any_moment_of_the_start_ends_the_task(to_all: bool, alone: bool, start: START) -> None:
    """Ten moments in the first quarter of a second. A rank that began after it waited for the scheduler's SIGKILL."""
    for number in range(10):
        task = start("import time; time.sleep(600)", alone=alone)
        time.sleep(number / 40)
        for pid in task.all() if to_all else [task.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        assert task.process.wait(20) in (-signal.SIGTERM, 128 + signal.SIGTERM), f"after {number / 40:.3f} s"


def test_what_ranks_leave_running_is_ended(start: START) -> None:
    text = """
import os, subprocess, sys
child = "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.setsid(); print(1, flush=True); time.sleep(99)"
left = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
left.stdout.readline()
print("left", left.pid)
"""
    task = start(text)
    pids = [int(line.split()[-1]) for line in task.end() if "left" in line]
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("victim", ["supervisor", "guard"])
def test_nothing_outlives_a_task_of_which_one_process_is_killed(victim: str, start: START) -> None:
    task = start("import os, time; os.setsid(); print('ready', flush=True); time.sleep(600)", alone=True, grace=1)
    task.wait_for("ready", 1)
    guard, supervisor, *below = task.all()
    os.kill(supervisor if victim == "supervisor" else guard, signal.SIGKILL)
    task.process.wait(PATIENCE)
    assert task.process.returncode == -signal.SIGKILL
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (supervisor, *below)))


def test_a_line_without_an_end_and_a_long_one(start: START) -> None:
    text = "import sys; sys.stdout.write('x' * 2500 + '\\n'); sys.stdout.write('end')"
    task = start(text, alone=True)
    assert task.end() == ["[2 node2] " + "x" * 2500, "[2 node2] end", "exit 2 0 None"]
    assert max(map(len, task.out.read_bytes().splitlines())) <= 1001


def test_a_task_leaves_no_process(start: START, tmp_path: Path) -> None:
    """What it leaves would hold srun's connection open."""
    read, write = os.pipe()
    (tmp_path / "node.zip").write_bytes(pack(read_texts()))
    (tmp_path / "task.json").write_text(json.dumps({**SPEC, **RANK}))
    argv = [sys.executable, "-S", "-I", "node.zip", "step_task", "task.json", sys.executable, "-c", "print('rank')"]
    env = {**os.environ, **STEP, **OF_RANK, "TMPDIR": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, pass_fds=(write,), check=False)
    os.close(write)
    assert done.returncode == 0
    with os.fdopen(read) as pipe:
        assert pipe.read() == ""


LONG = "import sys; sys.stdout.buffer.write({!r} * 500_000 + b'\\n'); sys.stdout.flush(); print('end'); sys.exit(7)"


@pytest.mark.parametrize("letter", [b"x", b"\xe9"], ids=["ascii", "latin-1"])  # the second takes six bytes in an event
@pytest.mark.parametrize("blocks", [True, False])
def test_a_task_that_nobody_collects_writes_the_lines_of_the_job(blocks: bool, letter: bytes, tmp_path: Path) -> None:
    """Under a scheduler without srun, whose pipe may be one that does not block."""
    read, write = os.pipe()
    os.set_blocking(write, blocks)
    (tmp_path / "node.zip").write_bytes(pack(read_texts()))
    (tmp_path / "task.json").write_text(json.dumps({**SPEC, **RANK, "collected": False}))
    argv = [sys.executable, "-S", "-I", "node.zip", "step_task", "task.json", sys.executable, "-c", LONG.format(letter)]
    env = {**os.environ, **STEP, **OF_RANK, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=write) as task:
        os.close(write)
        reader = JobOutput(6)
        with open(read, "rb") as output:
            events = [event for data in iter(lambda: output.read(1 << 16), b"") for event in reader.feed(data)]
        assert task.wait(PATIENCE) == 7
    lines = "".join(event["data"] for event in events if event["e"] == "out" and event["rank"] == 2)
    assert lines == letter.decode("utf-8", "surrogateescape") * 500_000 + "\nend\n"
    assert [event["e"] for event in events if event["e"] != "out"] == ["start", "exit", "failed"]
    assert (reader.hosts, reader.step) == ({2: "node2"}, "7.0")


def test_a_program_that_is_not_there(start: START, tmp_path: Path) -> None:
    task = Task(tmp_path, ["no-such-program"], RANK, OF_RANK)
    assert task.end()[-2:] == ["exit 2 127 None", "failed 2 127 None"]
    assert task.process.returncode == 127


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    task = Task(tmp_path, ["true"], {**RANK, "programs": ["rank_hook"]}, {**OF_RANK, "TMPDIR": "/proc/none"})
    task.end()
    assert task.process.returncode == 0  # without a hook, the rank runs all the same


@pytest.mark.torch
def test_torchrun_beside_a_failed_rank_says_nothing(tmp_path: Path) -> None:
    script = '[ "$RANK" = 0 ] || exit 7; sleep 600'
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--no_python"]
    words += [sys.executable, "-S", "-I", "-c", TAP, "sh", "-c", script.replace("$", "$$")]
    spec = {"ranks": [2], "agent": "torchrun", "preload": [], "programs": ["rank_wrapper"]}
    task = Task(tmp_path, words, spec, {"SLURM_PROCID": "0"})
    task.number = 0
    lines = task.end()
    assert task.process.returncode == 7, lines
    assert "failed 1 7 None" in lines
    assert not any("Traceback" in line or "ChildFailedError" in line for line in lines)
    assert list(tmp_path.glob("ddpkit-*")) == []


@pytest.mark.torch
def test_torchrun_that_waits_for_another_node_ends_soon_after_sigterm(tmp_path: Path) -> None:
    """It waits in C++ for 300 s, and handles no signal there: SLURM would have to kill it, after KillWait."""
    words = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1", "--no_python"]
    words += ["--node_rank={}", f"--master_port={free_port()}", "--master_addr=127.0.0.1", sys.executable]
    words += ["-S", "-I", "-c", TAP, "sh", "-c"]
    spec = {"ranks": [1, 1], "agent": "torchrun", "preload": [], "programs": ["rank_wrapper"]}
    tasks = []
    for number, script in enumerate(("echo over", "echo waits; exec sleep 600")):
        (tmp_path / str(number)).mkdir()
        own = [word.replace("{}", str(number)) for word in words]
        tasks.append(Task(tmp_path / str(number), [*own, script], spec, {"SLURM_PROCID": str(number)}))
        tasks[-1].number = number
    first, second = tasks
    first.wait_for("exit 0 0", 1)
    second.wait_for("waits", 1)
    began = time.monotonic()
    first.process.send_signal(signal.SIGTERM)
    first.process.wait(PATIENCE)
    assert time.monotonic() < began + 10
    assert first.process.returncode == 128 + signal.SIGTERM
    second.process.send_signal(signal.SIGTERM)
    second.process.wait(PATIENCE)
    assert not list(tmp_path.glob("*/ddpkit-*"))
