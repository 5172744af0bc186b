"""`ddpkit dump` and `--hang-timeout` on this machine, and what keeps a run from being asked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import DDPKIT, PATIENCE, SCRIPT, START

from ddpkit.launchers.events import AnswerEvent
from ddpkit.launchers.plan import RankStarter, Step
from ddpkit.monitor import client, dump, server
from ddpkit.transports.protocol import PackedAnswer

SLEEPS = "import time\ndef here():\n    print('ready', flush=True)\n    time.sleep(3600)\nhere()\n"


def run_of(folder: Path) -> Path:
    (found,) = (folder / "logs").iterdir()
    return found


@pytest.mark.parametrize(
    "options",
    [[], ["-o", "preload=json"], pytest.param(["-o", "starter=torchrun"], marks=pytest.mark.torch)],
    ids=str,
)
def test_stacks_of_ranks_that_know_no_torch(
    options: list[str], start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    script(SLEEPS)
    command = start("launch", "-n", "2", *options, "--", "job.py")
    command.wait_for("ready", 2)
    done = ddpkit("dump", str(run_of(tmp_path)), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(row["rank"], row["how"], row["where"]) for row in found["ranks"]] == [
        (rank, "faulthandler", "job.py:4 in here") for rank in range(2)
    ]
    assert [group["ranks"] for group in found["stacks"]] == [[0, 1]]
    assert [finding["kind"] for finding in found["findings"]] == ["none"]
    folder = Path(found["folder"])
    assert json.loads((folder / "summary.json").read_text()) == found
    (answer,) = (folder / "answers.jsonl").read_text().splitlines()
    assert json.loads(answer)["ranks"]["1"]["how"] == "faulthandler"
    assert (folder / "stacks.txt").read_text().startswith("ranks 0-1:\n")
    assert "job.py:4 in here" in (folder / "stacks.txt").read_text()
    shown = ddpkit("dump", str(run_of(tmp_path)))
    assert "stack of ranks 0-1:" in shown.stdout, shown
    command.process.send_signal(signal.SIGTERM)
    command.end()
    command.wait_for_no_survivor()


def test_a_dump_can_be_turned_off(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script(SLEEPS)
    command = start("launch", "-n", "1", "--env", "DDPKIT_DUMP=0", "--", "job.py")
    command.wait_for("ready")
    (row,) = json.loads(ddpkit("dump", str(run_of(tmp_path)), "--json").stdout)["ranks"]
    assert row["how"] in ("", "py-spy")
    assert "DDPKIT_DUMP=0" in row["why"]
    held = [str(path.readlink()) for path in Path(f"/proc/{row['pid']}/fd").iterdir()]
    assert not [name for name in held if "memfd" in name]


def test_a_program_that_is_no_python(start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    command = start("launch", "-n", "1", "--", "sh", "-c", "echo ready; sleep 3600")
    command.wait_for("ready")
    (row,) = json.loads(ddpkit("dump", str(run_of(tmp_path)), "--json").stdout)["ranks"]
    assert row["state"] == "S"
    assert "it is not a Python" in row["why"]
    (environ,) = {Path(f"/proc/{row['pid']}/environ").read_bytes()}
    assert b"DDPKIT_HOOK" not in environ


def test_a_run_that_has_ended(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script("print('over')")
    assert ddpkit("launch", "-n", "1", "--", "job.py").returncode == 0
    done = ddpkit("dump")
    assert done.returncode == 121
    assert "has ended, and has no running ranks" in done.stderr
    assert not list(run_of(tmp_path).glob("dump-*"))


def test_no_run_at_all(ddpkit: DDPKIT) -> None:
    done = ddpkit("dump")
    assert done.returncode == 121
    assert "no run found" in done.stderr


def test_a_launcher_that_was_killed(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script(SLEEPS)
    command = start("launch", "-n", "1", "--", "job.py")
    command.wait_for("ready")
    command.process.kill()
    command.process.wait(PATIENCE)
    done = ddpkit("dump", str(run_of(tmp_path)))
    assert done.returncode == 121
    assert "has no running ranks: lost" in done.stderr


def test_a_launcher_that_is_stopped(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script(SLEEPS)
    command = start("launch", "-n", "1", "--", "job.py")
    command.wait_for("ready")
    command.process.send_signal(signal.SIGSTOP)
    done = ddpkit("dump", str(run_of(tmp_path)))
    assert done.returncode == 121
    assert f"kill -CONT {command.process.pid}" in done.stderr
    command.process.send_signal(signal.SIGCONT)
    assert ddpkit("dump", str(run_of(tmp_path))).returncode == 0


def test_a_launcher_that_takes_no_questions(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """The record of a process that knows nothing of this signal: it is not sent one."""
    script(SLEEPS)
    command = start("launch", "-n", "1", "--", "job.py")
    command.wait_for("ready")
    path = run_of(tmp_path) / "run.json"
    from ddpkit.run import launcher_process

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        record = json.loads(path.read_text())
        record |= {"launcher_pid": other.pid, "launcher_started": launcher_process.process_start(other.pid)}
        path.write_text(json.dumps(record))
        env = {"XDG_STATE_HOME": str(tmp_path / "none")}  # in the index of the run's user it stands as it is
        done = ddpkit("dump", str(run_of(tmp_path)), env=env)
        assert done.returncode == 121
        assert f"process {other.pid} is not the launcher of run {run_of(tmp_path).name}" in done.stderr
        assert other.poll() is None


def test_several_shells_ask_at_once(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script(SLEEPS)
    command = start("launch", "-n", "2", "--", "job.py")
    command.wait_for("ready", 2)
    shells = [start("dump", str(run_of(tmp_path)), "--json") for _ in range(4)]
    assert [shell.end() for shell in shells] == [0] * 4, [shell.text for shell in shells]
    for shell in shells:
        assert len(json.loads(shell.text)["ranks"]) == 2


def test_the_end_of_a_run_does_not_wait_for_an_answer(start: START, script: SCRIPT, tmp_path: Path) -> None:
    """Ranks that end while they are asked."""
    script("import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n")
    command = start("launch", "-n", "2", "--", "job.py")
    command.wait_for("ready", 2)
    command.process.send_signal(signal.SIGURG)
    (tmp_path / "go").touch()
    assert command.end() == 0, command.tail
    command.wait_for_no_survivor()


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--hang-timeout", "soon"], "--hang-timeout soon is not a number of seconds"),
        (["--hang-timeout=-1"], "--hang-timeout -1: must be from 0 to 86400 seconds"),
    ],
)
def test_wrong_options(args: list[str], named: str, ddpkit: DDPKIT, script: SCRIPT) -> None:
    script("")
    done = ddpkit("launch", *args, "--", "job.py")
    assert done.returncode == 121
    assert named in done.stderr


def test_the_settings_file_has_them(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script("")
    (tmp_path / "ddpkit.toml").write_text('hang_timeout = 60\nhang_action = "end"\n')
    rows = {row["name"]: row["value"] for row in json.loads(ddpkit("launch", "--explain", "--json").stdout)["settings"]}
    assert (rows["hang_timeout"], rows["hang_action"]) == (60.0, "end")
    (tmp_path / "ddpkit.toml").write_text('hang_action = "shout"\n')
    done = ddpkit("launch", "--", "job.py")
    assert done.returncode == 121
    assert "ddpkit.toml:1: hang_action = shout: must be warn or end" in done.stderr


HANGS = """
import os, time
import torch
import torch.distributed as dist

def slow_step():
    while not os.path.exists("go"):
        time.sleep(0.01)

dist.init_process_group("gloo")
for step in range(3):
    dist.all_reduce(torch.ones(3))
print("ready", flush=True)
if dist.get_rank() == 1:
    slow_step()
dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
"""


# By what is observed: what is known of rank 1.
SEEN = {
    "": "is in no collective while rank 0 waits in all_reduce: ",
    "stacks": "has not joined all_reduce #4 of group 0 (rank 0 waits in it",
}


@pytest.mark.torch
@pytest.mark.parametrize("observe", SEEN)
def test_a_run_that_watches_itself_warns(observe: str, start: START, script: SCRIPT, tmp_path: Path) -> None:
    script(HANGS.replace("time.sleep(0.01)", "time.sleep(1)"))
    command = start("launch", "-n", "2", "--observe", observe, "--hang-timeout", "10", "--", "job.py")
    command.wait_for("ready", 2)
    began = time.monotonic()
    command.wait_for("this run hangs")
    command.wait_for("rank 1 on")
    assert time.monotonic() - began < 100
    assert SEEN[observe] in command.text
    assert ("start it with --observe stacks" in command.text) == (not observe)
    assert "it is in job.py:8 in slow_step" in command.text or "job.py:7 in slow_step" in command.text
    command.wait_for("this run hangs: no progress for 1")  # 10 s, or some more
    (tmp_path / "go").touch()
    assert command.end() == 0, command.tail
    assert len(list(run_of(tmp_path).glob("dump-*/summary.json"))) == 1  # said once
    assert json.loads((run_of(tmp_path) / "run.json").read_text())["state"] == "done"


@pytest.mark.torch
def test_a_run_that_watches_itself_ends(start: START, script: SCRIPT, tmp_path: Path) -> None:
    script(HANGS)
    watch = ("--hang-timeout", "10", "--observe", "stacks", "--grace", "1")
    command = start("launch", "-n", "2", *watch, "--", "job.py", env={"DDPKIT_HANG_ACTION": "end"})
    assert command.end() == 124, command.tail
    record = json.loads((run_of(tmp_path) / "run.json").read_text())
    assert record["exit_code"] == 124
    assert "rank 1 on" in record["verdict"]
    assert "it hangs: rank 1 on" in record["verdict"]
    assert "has not joined all_reduce #4" in record["verdict"]
    command.wait_for_no_survivor()


TRAINS = """
import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
until = time.monotonic() + 8
while True:
    dist.all_reduce(torch.ones(3))
    time.sleep(0.05)
    done = torch.tensor(float(time.monotonic() >= until))
    dist.broadcast(done, src=0)
    if done: break
time.sleep(7)  # writes its results: no collective, and nobody waits
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.parametrize("observe", SEEN)
def test_no_alarm_where_nothing_hangs(observe: str, start: START, script: SCRIPT, tmp_path: Path) -> None:
    """It prints nothing for longer than the timeout, in collectives and outside of them."""
    script(TRAINS)
    watch = ("--hang-timeout", "5", "--observe", observe)
    command = start("launch", "-n", "2", *watch, "--", "job.py", env={"DDPKIT_HANG_ACTION": "end"})
    assert command.end() == 0, command.tail
    assert "hangs" not in command.text
    assert not list(run_of(tmp_path).glob("dump-*"))


LOOKS = """
import os, sys, threading
import torch
import torch.distributed as dist
before = threading.active_count()
assert not [finder for finder in sys.meta_path if "Finder" == getattr(finder, "__name__", "")]
assert not [name for name in os.environ if "HOOK" in name]
assert "PYTHONPATH" not in os.environ
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
assert threading.active_count() == before == 1, threading.enumerate()
from torch.utils.data import DataLoader
assert len(list(DataLoader(list(range(8)), batch_size=2, num_workers=2))) == 4
import multiprocessing
with multiprocessing.get_context("spawn").Pool(1) as pool:
    assert pool.map(len, ["abc"]) == [3]
rank = dist.get_rank()
dist.destroy_process_group()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
with open(f"tasks.{rank}", "w") as file:
    names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
    file.write(str(names.count("ddpkit-dump")))
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.parametrize("observe", SEEN)
@pytest.mark.parametrize("options", [[], ["-o", "preload=true"], ["-o", "starter=torchrun"]], ids=str)
def test_a_script_sees_little_of_it(
    options: list[str], observe: str, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    script(f"if __name__ == '__main__':\n{''.join('    ' + line + chr(10) for line in LOOKS.splitlines())}")
    done = ddpkit("launch", "-n", "2", "--observe", observe, *options, "--", "job.py")
    assert done.returncode == 0, done.stderr
    # One thread in all, although the process group was made twice; none unless it was asked for.
    count = str(int(bool(observe)))
    assert [(tmp_path / f"tasks.{rank}").read_text() for rank in range(2)] == [count, count]


HELD = """
import ctypes
import torch
import torch.distributed as dist

def held():
    while True:
        ctypes.PyDLL(None).sleep(3600)  # C code that keeps the interpreter lock

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(3))
print("ready", flush=True)
if dist.get_rank() == 1:
    held()
dist.all_reduce(torch.ones(3))
"""


@pytest.mark.torch
def test_a_rank_that_keeps_the_interpreter_lock(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """Its thread cannot answer: then the handler does."""
    script(HELD)
    command = start("launch", "-n", "2", "--observe", "stacks", "--", "job.py")
    command.wait_for("ready", 2)
    until = time.monotonic() + PATIENCE
    while True:
        began = time.monotonic()
        found = json.loads(ddpkit("dump", str(run_of(tmp_path)), "--json").stdout)
        assert time.monotonic() - began < 60
        if "has not joined" in found["findings"][0]["words"]:
            break
        assert time.monotonic() < until, found
    (finding,) = found["findings"]
    assert (finding["kind"], finding["ranks"]) == ("late", [1])
    assert "job.py:8 in held" in finding["words"]
    assert found["ranks"][1]["how"] in ("faulthandler", "thread")  # the signal may end the sleep, and free the lock


@pytest.mark.parametrize(
    ("left", "limit"), [(9.0, 5.5), (7.0, 5.0), (5.0, 3.0), (1.0, 1.5), (-3.0, 1.5)], ids=lambda value: f"{value:g}"
)
def test_a_dump_gets_the_time_that_its_command_has_left(left: float, limit: float) -> None:
    assert server.dump_limit(left, 2.0) == limit


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_call_ends_before_its_question(scheduled: bool) -> None:
    """A SLURM step that answers for all nodes has started, answered and ended when the launcher judges."""

    class Link:
        def call(self, function: str, args: Mapping[str, object]) -> int:
            self.limit = float(str(args["limit"]))
            return 1

    link = Link()
    step = Step(
        host="node1",
        node_rank=0,
        ranks=range(1),
        workdir="/",
        env={},
        procs=(),
        rank_starter=RankStarter.COLLECT if scheduled else RankStarter.SUPERVISOR,
    )
    node = SimpleNamespace(step=step, ended=False, running={0}, link=link)
    question = server.Question({0: node}, server.DUMP, {}, 4.0, lambda value, host: None)
    assert link.limit == 4.0
    left = question.until - time.monotonic() - link.limit
    assert left == pytest.approx(3.0 if scheduled else 2.0, abs=1.0)


class Slow(PackedAnswer):
    """An answer whose unpacking takes until `go` is set."""

    def __init__(self, value: object, go: threading.Event) -> None:
        self._value, self._go = value, go

    def unpack(self) -> object:
        assert self._go.wait(PATIENCE)
        if self._value is None:
            raise ValueError("nonsense")
        return self._value


def test_an_answer_counts_when_it_comes() -> None:
    """However long it takes to read; one that cannot be read counts as none."""
    nodes = {}
    for number in range(3):
        step = Step(
            host=f"node{number}", node_rank=number, ranks=range(number, number + 1), workdir="/", env={}, procs=()
        )
        link = SimpleNamespace(call=lambda function, args: 7)
        nodes[number] = SimpleNamespace(step=step, ended=False, running={number}, link=link)
    question = server.DumpQuestion(nodes, 4.0, dump.read_answer, dump.Answers())
    go = threading.Event()
    good: dict[str, object] = {"host": "node0", "t": 1.0, "ranks": {"0": {"pid": 1}}, "ras": None}
    for number, value in ((0, good), (1, None)):
        answer: AnswerEvent = {"e": "answer", "id": 7, "data": "", "values": [Slow(value, go)], "error": None}
        question.on_answer(number, answer, f"node{number}")
    assert question.silent == {"node2": (2,)}
    assert question.is_busy
    go.set()
    until = time.monotonic() + PATIENCE
    while question.is_busy and time.monotonic() < until:
        time.sleep(0.01)
    question.close()
    assert question.silent == {"node1": (1,), "node2": (2,)}
    assert [rank.rank for rank in question.answered.ranks] == [0]


def test_who_asks_when_a_dump_is_written_waits_for_another(tmp_path: Path) -> None:
    """Its `ddpkit dump` may have seen the file of the one that is being written, and waits for a new one."""
    step = Step(host="node0", node_rank=0, ranks=range(1), workdir="/", env={}, procs=())
    calls: list[int] = []

    def call(function: str, args: Mapping[str, object]) -> int:
        calls.append(len(calls))
        return calls[-1]

    node = SimpleNamespace(index=0, step=step, ended=False, running={0}, link=SimpleNamespace(call=call))
    plan = SimpleNamespace(run_id="r", steps=(step,))
    monitor = server.MonitorServer(
        SimpleNamespace(nodes=[node], deadline=None, folder=tmp_path, timed_out=set(), plan=plan)
    )

    def turn_to(done: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not done() and time.monotonic() < until:
            monitor.turn()
            time.sleep(0.01)
        assert done()

    def answer(number: int) -> None:
        value: dict[str, object] = {"host": "node0", "t": 1.0, "ranks": {}, "ras": None}
        event: AnswerEvent = {"e": "answer", "id": number, "data": "", "values": [value], "error": None}
        monitor.on_answer(node, event)

    def written() -> list[Path]:
        return list(tmp_path.glob(f"dump-*/{dump.SUMMARY}"))

    monitor.request_dump("asked")
    monitor.request_dump("asked")  # while nodes are asked: one dump for both
    turn_to(lambda: len(calls) == 1 and not monitor._due_followups)
    answer(0)
    turn_to(lambda: len(written()) == 1 and not monitor.idle)
    monitor.request_dump("asked")
    turn_to(lambda: len(calls) == 2)
    answer(1)
    turn_to(lambda: monitor.idle)
    assert len(written()) == 2
    assert len(calls) == 2


def test_a_dump_that_its_launcher_wrote_last_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end_with_a_dump(run: object) -> bool:
        (tmp_path / "dump-1").mkdir()
        (tmp_path / "dump-1" / dump.SUMMARY).write_text('{"ranks": 2}')
        return False

    monkeypatch.setattr(client, "signal_launcher", lambda *_: None)
    monkeypatch.setattr("ddpkit.run.launcher_process.is_alive", end_with_a_dump)
    run: Any = SimpleNamespace(folder=str(tmp_path), run_id="r", marker=None)
    assert client.request_dump(run) == {"ranks": 2}
