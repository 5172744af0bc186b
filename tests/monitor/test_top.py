"""`ddpkit top` on this machine: what it says of a living run, of one that has ended, and of nvidia-smi's answers."""

from __future__ import annotations

import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amd_node import mi300x
from conftest import DDPKIT, PATIENCE, SCRIPT, START, Command
from terminal import PlainTerminal
from test_docs_blocks import output

from ddpkit.cli.live import Table, _fitted
from ddpkit.monitor import top
from ddpkit.monitor.server import MonitorServer
from ddpkit.node.calls import gpus as node_gpus
from ddpkit.node.calls import resource_sample as sample
from ddpkit.node.process_tree import Process

# Rank 1 sleeps, the others count for a part of the time, until somebody says that it is enough.
BUSY = """
import os, time
print("ready", flush=True)
while not os.path.exists("go"):
    until = time.process_time() + 0.02
    while os.environ["RANK"] != "1" and time.process_time() < until:
        pass
    time.sleep(0.05)
"""


def run_of(folder: Path) -> Path:
    (found,) = (folder / "logs").iterdir()
    return found


def idle(start: START, script: SCRIPT, **more: Any) -> Command:
    """Ranks of which no use of a CPU is looked at."""
    return busy(start, script, text=BUSY.replace('os.environ["RANK"] != "1"', "False"), **more)


def busy(start: START, script: SCRIPT, ranks: int = 2, text: str = BUSY, **more: Any) -> Command:
    script(text)
    command = start("launch", "-n", str(ranks), "--", "job.py", **more)
    command.wait_for("ready", ranks)
    return command


def sampled(ddpkit: DDPKIT, enough: Callable[[list[dict[str, Any]]], bool]) -> dict[str, Any]:
    """A sample in which the ranks have come to what is looked for: on a busy machine each gets little of a moment."""
    until = time.monotonic() + PATIENCE
    while True:
        done = ddpkit("top", "--once", "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        if enough(found["ranks"]):
            return found
        assert time.monotonic() < until, found


# ---- a living run


@pytest.mark.parametrize(
    "options", [[], ["-o", "preload=json"], pytest.param(["-o", "starter=torchrun"], marks=pytest.mark.torch)], ids=str
)
def test_ranks_and_their_host(options: list[str], start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script(BUSY)
    command = start("launch", "-n", "2", *options, "--", "job.py")
    command.wait_for("ready", 2)
    found = sampled(ddpkit, lambda ranks: bool(ranks[0]["cpu"] > ranks[1]["cpu"]))
    (host,) = found["hosts"]
    assert host["host"] == os.uname().nodename
    assert host["cpus"] == os.cpu_count()
    assert 0 <= host["cpu"] <= 1
    assert 0 < host["memory"]["used"] < host["memory"]["total"]
    first, second = found["ranks"]
    assert (first["rank"], second["rank"]) == (0, 1)
    assert Path(f"/proc/{first['pid']}/cmdline").read_bytes().split(b"\0")[1:2] == [b"job.py"]
    assert first["rss"] > 1 << 20
    assert first["pss"] is None
    assert 0 <= first["quiet"] < PATIENCE
    assert not list(run_of(tmp_path).glob("dump-*"))
    (tmp_path / "go").touch()
    assert command.end() == 0, command.tail
    command.wait_for_no_survivor()


def test_without_a_terminal_it_is_one_table(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    command = busy(start, script)
    done = ddpkit("top")
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert "/dev/shm" in words
    assert words.count(os.uname().nodename) >= 3  # the host, two ranks, and perhaps what stands out
    (tmp_path / "go").touch()
    assert command.end() == 0


def test_json_lines_until_the_run_ends(start: START, script: SCRIPT, tmp_path: Path) -> None:
    command = busy(start, script)
    watching = start("top", str(run_of(tmp_path)), "--json", "--interval", "0.5")
    watching.wait_for('"ranks": [{', 3)
    (tmp_path / "go").touch()
    assert command.end() == 0, command.tail
    assert watching.end() == 0, watching.tail
    *samples, last = [json.loads(line) for line in watching.lines]
    # From the second on, a sample is one look, and rates are those since the one before.
    assert all(rank["cpu"] is not None for sample in samples[:3] for rank in sample["ranks"])
    assert last["state"] == "done"
    assert last["exit_code"] == 0
    assert not list(run_of(tmp_path).glob("top.*.ask"))


def test_memory_with_shared_pages_divided(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    command = busy(start, script)
    found = json.loads(ddpkit("top", "--once", "--json", "--pss").stdout)
    for rank in found["ranks"]:
        assert 0 < rank["pss"] <= rank["rss"]
    (tmp_path / "go").touch()
    assert command.end() == 0


def test_children_count_for_their_rank(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script(
        "import subprocess, sys\n"
        "code = 'import os, time\\nwhile not os.path.exists(\"go\"): sum(range(200000)); time.sleep(0.02)'\n"
        "child = subprocess.Popen([sys.executable, '-c', code])\n"
        "print('ready', flush=True)\n"
        "child.wait()\n"
    )
    command = start("launch", "-n", "1", "--", "job.py")
    command.wait_for("ready")
    found = sampled(ddpkit, lambda ranks: bool(ranks[0]["state"] == "S" and ranks[0]["cpu"] > 0.02))
    assert found["ranks"][0]["tasks"] == 2
    (tmp_path / "go").touch()
    assert command.end() == 0


def test_several_shells_at_once_and_a_dump_beside(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    command = busy(start, script)
    shells = [start("top", str(run_of(tmp_path)), "--once", "--json") for _ in range(3)]
    dump = start("dump", str(run_of(tmp_path)), "--json")
    assert [shell.end() for shell in (*shells, dump)] == [0] * 4, [shell.text for shell in (*shells, dump)]
    for shell in shells:
        found = json.loads(shell.text)
        assert [rank["cpu"] is not None for rank in found["ranks"]] == [True, True]
    assert len(json.loads(dump.text)["ranks"]) == 2
    (tmp_path / "go").touch()
    assert command.end() == 0


def test_a_terminal_that_changes_its_size_asks_nothing(
    start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    """The same signal, and nobody who wants to know."""
    command = busy(start, script)
    command.process.send_signal(signal.SIGWINCH)
    assert ddpkit("dump", str(run_of(tmp_path)), "--json").returncode == 0  # it came later, and was answered
    assert not (run_of(tmp_path) / "top.json").exists()
    (tmp_path / "go").touch()
    assert command.end() == 0


def test_a_rank_that_is_stopped_is_named(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    command = busy(start, script)
    pid = json.loads(ddpkit("top", "--once", "--json").stdout)["ranks"][1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    found = json.loads(ddpkit("top", "--once", "--json").stdout)
    (finding,) = [each for each in found["findings"] if each["kind"] == "stopped"]
    assert finding["ranks"] == [1]
    assert (
        f"rank 1 on {os.uname().nodename} is stopped (SIGSTOP); to continue it: kill -CONT {pid}"
        in ddpkit("top").stdout
    )
    os.kill(pid, signal.SIGCONT)
    (tmp_path / "go").touch()
    assert command.end() == 0


class Stopped:
    """A node whose supervisor reads nothing, for a launcher that has two."""

    def __init__(self, index: int, host: str) -> None:
        self.index = index
        self.step = SimpleNamespace(host=host, scheduled=False)
        self.link = self
        self.ahead = 0.0
        self.ended = False
        self.running = {0}
        self.calls: list[str] = []

    def call(self, function: str, args: Mapping[str, object]) -> int:
        self.calls.append(function)
        return len(self.calls)


def test_a_node_that_owes_an_answer_is_not_asked_again(tmp_path: Path) -> None:
    """A pipe that nobody reads fills up, and would hold up the launcher itself."""
    nodes = [Stopped(0, "a"), Stopped(1, "b")]
    launcher: Any = SimpleNamespace(folder=tmp_path, deadline=None, nodes=nodes)
    monitor = MonitorServer(launcher)

    def answer(node: Any, number: int) -> None:
        values: list[object] = [{"host": node.step.host, "looks": []}]
        monitor.on_answer(node, {"e": "answer", "id": number, "data": "", "values": values, "error": None})

    def turn() -> None:
        """Let the launcher's loop turn when its threads are done with the disk."""
        for thread in threading.enumerate():
            if thread.name == "ddpkit disk":
                thread.join(PATIENCE)
        monitor.turn()

    def ask() -> dict[str, Any]:
        (tmp_path / "top.1.ask").write_text('{"span": 0, "pss": false}')
        monitor.request_sample()
        assert monitor.pause() < 1.0  # the loop does not sleep on it
        turn()
        assert monitor._sample is not None
        answer(nodes[0], len(nodes[0].calls))
        monitor._sample.until = 0.0  # b has had its time
        monitor.turn()
        assert not (tmp_path / "top.1.ask").exists()
        turn()
        found: dict[str, Any] = json.loads((tmp_path / "top.json").read_text())
        return found

    first, second = ask(), ask()
    assert first["number"] != second["number"]
    assert first["silent"] == second["silent"] == {"b": [0]}
    assert [len(node.calls) for node in nodes] == [2, 1]
    answer(nodes[1], 1)  # late, and it is there again
    ask()
    assert [len(node.calls) for node in nodes] == [3, 2]
    monitor.request_sample()  # a terminal: nobody wants anything
    turn()
    assert [len(node.calls) for node in nodes] == [3, 2]


def test_a_request_on_a_disk_that_does_not_answer_holds_up_nothing(tmp_path: Path) -> None:
    released, read = threading.Event(), threading.Event()

    class Stuck:
        def glob(self, _: str) -> Iterator[Path]:
            assert released.wait(PATIENCE)
            yield from tmp_path.glob("*.ask")
            read.set()

    node = Stopped(0, "a")
    launcher: Any = SimpleNamespace(folder=Stuck(), deadline=None, nodes=[node])
    monitor = MonitorServer(launcher)
    (tmp_path / "top.1.ask").write_text('{"span": 0, "pss": false}')
    monitor.request_sample()
    monitor.turn()
    assert node.calls == []
    assert 0 < monitor.pause() < 1.0  # the launcher looks again
    released.set()
    assert read.wait(PATIENCE)
    for thread in threading.enumerate():
        if thread.name == "ddpkit disk":
            thread.join(PATIENCE)
    monitor.turn()
    assert len(node.calls) == 1


# ---- on a terminal

TOP = [sys.executable, "-m", "ddpkit", "top"]


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_live_until_the_run_ends(
    term: str, start: START, script: SCRIPT, clean_environ: dict[str, str], tmp_path: Path
) -> None:
    command = busy(start, script)
    terminal = PlainTerminal([*TOP, "--interval", "0.5"], tmp_path, {**clean_environ, "TERM": term})
    terminal.wait_for_bytes(b"/dev/shm", 2)
    assert (b"\x1b[?1049h" in terminal.raw) == (term == "xterm")
    (tmp_path / "go").touch()
    assert command.end() == 0
    assert terminal.end() == 0, terminal.raw
    assert b": done after" in terminal.raw


def test_ctrl_c_leaves_the_view_and_not_the_run(
    start: START, script: SCRIPT, clean_environ: dict[str, str], tmp_path: Path
) -> None:
    command = busy(start, script)
    terminal = PlainTerminal([*TOP, "--interval", "0.5"], tmp_path, {**clean_environ, "TERM": "xterm"})
    terminal.wait_for_bytes(b"/dev/shm")
    os.write(terminal.handle, b"\x03")
    assert terminal.end() == 0, terminal.raw
    assert b"continues: runs for" in terminal.raw
    assert b"\x1b[?1049l" in terminal.raw  # the terminal has its own screen back
    assert b"Traceback" not in terminal.raw
    assert command.process.poll() is None
    (tmp_path / "go").touch()
    assert command.end() == 0


@pytest.mark.parametrize("height", [24, 40, 100, 300])
def test_what_a_screen_has_room_for(height: int) -> None:
    tables: list[Table] = [(("a", "b"), [(str(number), "") for number in range(rows)]) for rows in (8, 64, 64)]
    fitted = _fitted(tables, height)
    shown = [rows for _, rows in fitted]
    assert sum(len(rows) + 4 for rows in shown) == min(height, 148)
    for (_, rows), most in zip(tables, shown, strict=True):
        left = int(most[-1][0]) if most[-1][0].startswith("+") else 0
        assert len(most) - (left > 0) + left == len(rows)


def test_a_terminal_gets_its_own_screen_back(
    start: START, script: SCRIPT, clean_environ: dict[str, str], tmp_path: Path
) -> None:
    """Also when somebody else ends the view."""
    command = busy(start, script)
    terminal = PlainTerminal(TOP, tmp_path, {**clean_environ, "TERM": "xterm"})
    terminal.wait_for_bytes(b"/dev/shm")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.end() == 128 + signal.SIGTERM
    assert terminal.raw.rindex(b"\x1b[?1049l") > terminal.raw.rindex(b"\x1b[?1049h")
    (tmp_path / "go").touch()
    assert command.end() == 0


# ---- what cannot be asked


def test_a_run_that_has_ended(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script("import os\nos._exit(3 if os.environ['RANK'] == '1' else 0)")
    assert ddpkit("launch", "-n", "2", "--", "job.py").returncode == 3
    done = ddpkit("top")
    assert done.returncode == 0
    assert "failed: rank 1 on" in done.stdout
    assert json.loads(ddpkit("top", "--json").stdout)["exit_code"] == 3


def test_no_run_at_all(ddpkit: DDPKIT) -> None:
    done = ddpkit("top")
    assert done.returncode == 121
    assert "no run found" in done.stderr


def test_a_launcher_that_is_stopped(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    command = busy(start, script)
    command.process.send_signal(signal.SIGSTOP)
    done = ddpkit("top")
    assert done.returncode == 121
    assert f"kill -CONT {command.process.pid}" in done.stderr
    assert not list(run_of(tmp_path).glob("top.*.ask"))
    command.process.send_signal(signal.SIGCONT)
    assert ddpkit("top").returncode == 0
    (tmp_path / "go").touch()
    assert command.end() == 0


def test_a_launcher_on_another_host(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    command = busy(start, script)
    path = run_of(tmp_path) / "run.json"
    record = json.loads(path.read_text())
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({**record, "launcher_host": "faraway"}))
    beside.replace(path)
    done = ddpkit("top", str(run_of(tmp_path)), env={"XDG_STATE_HOME": str(tmp_path / "none")})
    assert done.returncode == 121
    assert "it is on faraway, and not visible from here" in done.stderr
    assert "hint: " not in done.stderr  # this index does not have it: somebody else may have named that host
    (tmp_path / "go").touch()
    assert command.end() == 0


def test_a_folder_that_cannot_be_written_to(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """Root may write everywhere: a folder in the way of the file stands for what hinders others."""
    command = idle(start, script)
    (run_of(tmp_path) / "top.json").mkdir()  # the launcher cannot answer; the run goes on
    done = ddpkit("top", str(run_of(tmp_path)))
    assert done.returncode == 125
    assert "did not answer in 45.5 s, or cannot write to " in done.stderr
    assert not list(run_of(tmp_path).glob("top.*.ask"))
    (tmp_path / "go").touch()
    assert command.end() == 0, command.tail


def test_an_interval_that_is_no_number(ddpkit: DDPKIT) -> None:
    done = ddpkit("top", "--interval", "often")
    assert done.returncode == 121
    assert "--interval often is not a number of seconds" in done.stderr


# ---- GPUs: a program of that name gives answers of the form that nvidia-smi documents. There is no GPU here.

H100 = "{0}, GPU-{0}aaa, 00000000:{0}8:00.0, NVIDIA H100 80GB HBM3, {1}, 71234, 81559, 64, 612.34, 700.00"
GPUS = "\n".join(H100.format(index, use) for index, use in ((0, 98), (1, 97)))


def smi(folder: Path, gpus: str, apps: str = "", then: str = "") -> dict[str, str]:
    """An nvidia-smi on PATH. What it says stands in files, so that it can change."""
    (folder / "gpus.csv").write_text(gpus + "\n" if gpus else "")
    (folder / "apps.csv").write_text(apps + "\n" if apps else "")
    program = folder / "bin/nvidia-smi"
    program.parent.mkdir()
    case = 'case "$1" in\n--query-gpu=*) cat gpus.csv ;;\n--query-compute-apps=*) cat apps.csv ;;\n*) exit 2 ;;\nesac\n'
    program.write_text(f'#!/bin/sh\n[ "$2" = --format=csv,noheader,nounits ] || exit 3\ncd {folder}\n{case}{then}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def test_gpus_and_who_uses_them(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    command = busy(start, script, env=smi(tmp_path, GPUS))
    pids = [rank["pid"] for rank in json.loads(ddpkit("top", "--once", "--json").stdout)["ranks"]]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        rows = [("0aaa", "08", pids[0], 70000), ("1aaa", "18", pids[1], 70000), ("1aaa", "18", other.pid, 1024)]
        beside = tmp_path / "apps.new"
        beside.write_text("".join(f"GPU-{uuid}, 00000000:{bus}:00.0, {pid}, {mib}\n" for uuid, bus, pid, mib in rows))
        beside.replace(tmp_path / "apps.csv")
        found = json.loads(ddpkit("top", "--once", "--json").stdout)
        shown = ddpkit("top").stdout
        assert other.stdin is not None
        other.stdin.close()
    (host,) = found["hosts"]
    assert [gpu["uuid"] for gpu in host["gpus"]] == ["GPU-0aaa", "GPU-1aaa"]
    first, second = host["gpus"]
    assert first["name"] == "NVIDIA H100 80GB HBM3"
    assert (first["utilization"], first["temperature"]) == (98, 64)
    assert first["memory"] == {"total": 81559 << 20, "used": 71234 << 20}
    assert first["power"] == {"draw": 612.34, "limit": 700.0}
    assert [each["rank"] for each in second["processes"]] == [1, None]
    assert [rank["gpus"] for rank in found["ranks"]] == [[0], [1]]
    # In a container the driver's process numbers are not those that we see: then nobody is called another's.
    inside = str(Path("/proc/self/ns/pid").readlink()) != "pid:[4026531836]"
    assert second["processes"][1]["ours"] is (None if inside else False)
    words = [finding["words"] for finding in found["findings"] if finding["kind"] == "others"]
    assert len(words) == (0 if inside else 1)
    assert all(f"GPU 1 of {host['host']}, rank 1: also used by process {other.pid} of " in each for each in words)
    assert "71.2" not in shown
    assert "69.6/79.6 GiB" in shown
    assert "612/700 W" in shown
    heads = [line.split() for line in output("top").splitlines() if line.startswith(("host ", "rank "))]
    assert len(heads) == 3
    assert all(head in [line.split() for line in shown.splitlines()] for head in heads), "as the guide shows it"
    (tmp_path / "go").touch()
    assert command.end() == 0


def test_gpus_of_amd_are_those_of_nvidia_in_the_table(tmp_path: Path) -> None:
    """Files of the kernel instead of nvidia-smi; one GPU is used by this process, another has no sensor."""
    root = mi300x(tmp_path, hwmon__hwmon7__temp2_input="", hwmon__hwmon7__power1_input="", gpu_busy_percent="97")
    process = tmp_path / f"sys/class/kfd/kfd/proc/{os.getpid()}"
    process.mkdir(parents=True)
    (process / "vram_42700").write_text("1610612736")
    (process / "vram_42701").write_text("0")
    found = node_gpus.sample_amd_gpus(root)
    assert found is not None
    rows, users = found
    value: dict[str, Any] = {"gpus": rows, "apps": sample._apps(users, {"2": [os.getpid()]}, {})}
    gpus, why = top._gpus(value)
    assert gpus is not None
    assert (len(gpus), why) == (8, "")
    assert {gpu["name"] for gpu in gpus} == {"AMD Instinct MI300X OAM"}
    assert gpus[0]["memory"] == {"total": 206141652992, "used": int(283.82 * (1 << 20))}
    assert (gpus[0]["utilization"], gpus[0]["temperature"]) == (0, 35)
    assert gpus[0]["power"] == {"draw": 133.0, "limit": 750.0}
    assert (gpus[3]["utilization"], gpus[3]["temperature"], gpus[3]["power"]["draw"]) == (97, None, None)
    used = [[(app["rank"], app["memory"]) for app in gpu["processes"]] for gpu in gpus]
    assert used == [[(2, 1536 << 20)], *[[]] * 7]


def test_a_container_has_its_own_gpus_of_amd(tmp_path: Path) -> None:
    root = mi300x(tmp_path)
    (tmp_path / "dev/dri").mkdir(parents=True)
    assert node_gpus.sample_amd_gpus(root) is None
    (tmp_path / "dev/dri/renderD129").touch()
    assert [gpu.key for gpu in node_gpus.list_amd_gpus(root)] == ["42701"]
    assert node_gpus.list_amd_gpus(f"{tmp_path}/elsewhere/") == []


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (
            "echo 'Unable to determine the device handle for GPU 0000:41:00.0: Unknown Error'; exit 15",
            "Unable to determine",
        ),
        ("kill -SEGV $$", "nvidia-smi failed (wait status"),
        ("sleep 3600", "nvidia-smi does not answer"),
    ],
)
def test_what_could_not_be_looked_at_is_unknown(
    then: str, why: str, start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    command = idle(start, script, env=smi(tmp_path, "", then=then))
    found = json.loads(ddpkit("top", "--once", "--json").stdout)
    (host,) = found["hosts"]
    assert host["gpus"] is None
    assert why in host["gpus_why"]
    assert [finding["kind"] for finding in found["findings"] if finding["kind"] == "gpus"] == ["gpus"]
    assert len(found["ranks"]) == 2  # the rest is shown
    assert "not known" in ddpkit("top").stdout
    (tmp_path / "go").touch()
    assert command.end() == 0, command.tail
    command.wait_for_no_survivor()


def test_an_nvidia_smi_that_takes_long_is_asked_less_often(
    start: START, script: SCRIPT, clean_environ: dict[str, str], tmp_path: Path
) -> None:
    """It holds the driver, which the ranks need for each allocation: at most a tenth of the time."""
    calls = tmp_path / "calls"
    command = idle(start, script, env=smi(tmp_path, GPUS, then=f"date +%s.%N >> {calls}; sleep 0.4"))
    terminal = PlainTerminal([*TOP, "--json", "--interval", "0.5"], tmp_path, clean_environ)
    terminal.wait_for_bytes(b'"schema"', 3)
    os.write(terminal.handle, b"\x03")
    terminal.end()
    began = sorted(float(line) for line in calls.read_text().split())
    looks = [began[0], *(later for earlier, later in itertools.pairwise(began) if later - earlier > 1)]
    assert len(looks) >= 3
    assert all(later - earlier > 3.5 for earlier, later in itertools.pairwise(looks)), looks
    (tmp_path / "go").touch()
    assert command.end() == 0


def test_an_nvidia_smi_that_nothing_ends_is_not_followed_by_more() -> None:
    """One in the driver's hands that its look has left behind: no other is started, and the reason is said."""
    ours = {77: Process(os.getppid(), "D", 0.0, 0, 0, "nvidia-smi", 0.0)}
    assert str(sample.hung_smi(ours)).startswith("nvidia-smi does not answer: process 77 hangs in the driver for ")
    up = float(Path("/proc/uptime").read_text().split()[0])
    for other in (
        Process(os.getppid(), "S", 0.0, 0, 0, "nvidia-smi", 0.0),  # it works
        Process(os.getppid(), "D", 0.0, 0, 0, "nvidia-smi", up),  # it has only just begun
        Process(os.getpid(), "D", 0.0, 0, 0, "nvidia-smi", 0.0),  # somebody waits for it
        Process(os.getppid(), "D", 0.0, 0, 0, "python", 0.0),
    ):
        assert sample.hung_smi({77: other}) is None


def test_no_devices_are_no_gpus(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    command = busy(start, script, env=smi(tmp_path, "", then="echo 'No devices were found'; exit 6"))
    (host,) = json.loads(ddpkit("top", "--once", "--json").stdout)["hosts"]
    assert (host["gpus"], host["gpus_why"]) == ([], "")
    (tmp_path / "go").touch()
    assert command.end() == 0


@pytest.mark.parametrize(
    "word", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "ERR!", "[GPU requires reset]", ""]
)
def test_words_that_are_no_number(word: str) -> None:
    assert top.number(word) is None


def host(name: str, gpus: Any = None, apps: Any = None, **ranks: Any) -> dict[str, Any]:
    """A sample with two looks one second apart; `r0=1.0` is a rank that uses one processor."""
    looks = [{"m": 5.0, "busy": 10.0, "all": 100.0, "ranks": {}}, {"m": 6.0, "busy": 11.0, "all": 104.0, "ranks": {}}]
    rows = {}
    for word, used in ranks.items():
        rank = word[1:]
        looks[0]["ranks"][rank], looks[1]["ranks"][rank] = 50.0, 50.0 + used  # type: ignore[index]
        rows[rank] = {"pid": 100 + int(rank), "state": "S", "rss": 1, "pss": None, "quiet": None, "tasks": 1}
    size = {"total": 100, "used": 50}
    sample = {"host": name, "t": 1.0, "cpus": 4, "load": [1.0], "memory": size, "shm": size, "looks": looks}
    return {**sample, "ranks": rows, "gpus": gpus, "apps": apps}


def composed(*hosts: dict[str, Any], **more: Any) -> top.Summary:
    return top.compose("run", {"t": 1.0, "ending": False, "hosts": list(hosts), "silent": {}, **more})


def test_rates_between_two_looks_and_two_samples() -> None:
    first = composed(host("a", r0=0.5))
    assert (first["hosts"][0]["cpu"], first["ranks"][0]["cpu"]) == (0.25, 0.5)
    later, before = host("a", r0=0.5), host("a", r0=0.5)
    later["looks"] = [{"m": 8.0, "busy": 15.0, "all": 112.0, "ranks": {"0": 52.5}}]
    found = top.compose("run", {"t": 1.0, "hosts": [later], "silent": {}}, [before])
    assert (found["hosts"][0]["cpu"], found["ranks"][0]["cpu"]) == (0.5, 1.0)
    before["ranks"]["0"]["pid"] = 7  # it was started again: what it used before is another's
    found = top.compose("run", {"t": 1.0, "hosts": [later], "silent": {}}, [before])
    assert (found["hosts"][0]["cpu"], found["ranks"][0]["cpu"]) == (0.5, None)
    alone = top.compose("run", {"t": 1.0, "hosts": [later], "silent": {}})
    assert (alone["hosts"][0]["cpu"], alone["ranks"][0]["cpu"]) == (None, None)


def test_a_rank_that_does_nothing_while_others_work() -> None:
    found = composed(host("a", r0=1.0, r1=1.0), host("b", r2=0.0, r3=1.0))["findings"]
    assert [(each["kind"], each["ranks"]) for each in found] == [("idle", [2])]
    assert found[0]["words"] == "rank 2 on b uses no CPU, the other ranks 100 % each (median)"
    # Where most do nothing, nobody is odd.
    assert not composed(host("a", r0=1.0, r1=0.0), host("b", r2=0.0, r3=0.0))["findings"]
    assert not composed(host("a", r0=0.0), host("b", r1=0.0))["findings"]


def row(index: int, use: str = "90", bus: str = "") -> list[str]:
    return [str(index), f"GPU-{index}", bus or f"bus{index}", "A100", use, "1", "2", "50", "300", "400"]


def app(gpu: str, rank: str | None, *, ours: bool | None = True, bus: str = "") -> dict[str, Any]:
    one = {"uuid": gpu, "bus": bus, "pid": 9, "memory": "512", "rank": rank, "ours": ours}
    return {**one, "user": "" if ours else "eve", "name": "python"}


def test_others_on_the_gpu_of_a_rank() -> None:
    apps = [app("GPU-0", "0"), app("GPU-0", None, ours=False), app("GPU-1", None, ours=False)]
    found = composed(host("a", [row(0), row(1)], apps, r0=1.0))["findings"]
    # One that no rank uses is nobody's trouble.
    assert [each["words"] for each in found] == ["GPU 0 of a, rank 0: also used by process 9 of eve (python, 512 MiB)"]
    unknown = [app("GPU-0", "0"), app("GPU-0", None, ours=None)]
    assert not composed(host("a", [row(0)], unknown, r0=1.0))["findings"]


def test_a_gpu_that_waits_while_others_work() -> None:
    apps = [app(f"GPU-{index}", str(index)) for index in range(3)]
    rows = [row(0), row(1, "0"), row(2)]
    (found,) = composed(host("a", rows, apps, r0=1.0, r1=1.0, r2=1.0))["findings"]
    assert (found["kind"], found["ranks"]) == ("gpu-idle", [1])
    rows[1] = row(1, "[N/A]")  # MIG: not known is not idle
    assert not composed(host("a", rows, apps, r0=1.0, r1=1.0, r2=1.0))["findings"]


def test_parts_of_a_gpu() -> None:
    """MIG: the whole's use is not known, and its parts have names of their own on the same bus."""
    found = composed(host("a", [row(0, "[N/A]")], [app("MIG-5f", "0", bus="bus0")], r0=1.0))
    gpus = found["hosts"][0]["gpus"]
    assert gpus
    (gpu,) = gpus
    assert gpu["utilization"] is None
    assert [each["rank"] for each in gpu["processes"]] == [0]
    assert found["ranks"][0]["gpus"] == [0]


def test_users_that_are_not_known_are_said() -> None:
    found = composed(host("a", [row(0)], "nvidia-smi does not answer", r0=1.0))
    assert found["findings"][0]["words"] == "GPUs of a: their processes are unknown: nvidia-smi does not answer"


def test_full_memory() -> None:
    full = host("a", r0=1.0)
    full["shm"] = {"total": 100, "used": 97}
    full["memory"] = None
    assert [each["words"] for each in composed(full)["findings"]] == ["/dev/shm of a is 97 % full"]


def test_a_host_that_says_nothing() -> None:
    found = composed(host("a", r0=1.0), silent={"b": [1]})
    assert found["findings"][0]["words"] == "b did not answer in time (ranks 1)"
    assert found["silent"] == {"b": [1]}
