"""A run of roles as other shells see it: its logs, its replicas, its stacks, the stop of one, its page, its end."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import DDPKIT, START, Command
from program import wait_until

SERVES = """
import http.server, os, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["DDPKIT_REPLICA"].encode())
    def log_message(self, *args):
        if self.path != "/health":
            print("asked", flush=True)
print("serving", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""
ASKS = """
import os, sys, time, urllib.request
urls = sys.argv[1].split(",")
number, step = int(os.environ["RANK"]), 0
while not os.path.exists("go"):
    if number == 0 and os.path.exists("ask"):
        os.unlink("ask")
        for url in urls:
            print("step", step, urllib.request.urlopen(url).read().decode(), flush=True)
        step += 1
    time.sleep(0.01)
sys.exit(int(open("go").read() or 0) * number)
"""
ROLES = """
[roles.infer]
nnodes = 2
command = "serves.py {port}"
ready = "http:/health"
restart = 1

[roles.train]
nproc_per_node = 2
command = "asks.py {infer.urls}"
after = ["infer"]
ends_run = true
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "serves.py").write_text(SERVES)
    (tmp_path / "asks.py").write_text(ASKS)
    (tmp_path / "ddpkit.toml").write_text(ROLES)
    return tmp_path


@pytest.fixture
def run(project: Path, start: START, ddpkit: DDPKIT) -> Iterator[Command]:
    """A run with two servers and a trainer of two ranks, which have started."""
    command = start("launch", "-b", "local")
    command.wait_for("is ready", times=2)
    wait_until(lambda: [each["phase"] for each in roles(ddpkit)] == ["ready"] * 3)
    yield command
    end(project, command)


def roles(ddpkit: DDPKIT) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(ddpkit("status", "--json").stdout)["roles"]
    return found


def end(project: Path, command: Command, code: int = 0) -> int:
    (project / "going").write_text(str(code))
    (project / "going").rename(project / "go")
    return command.process.wait(60)


def ask(project: Path) -> None:
    """Have the trainer ask each server once."""
    (project / "ask").touch()
    wait_until(lambda: not (project / "ask").exists())


def host() -> str:
    return os.uname().nodename.partition(".")[0]


def test_the_lines_of_all_replicas_come_in_the_order_of_time(run: Command, project: Path, ddpkit: DDPKIT) -> None:
    for _ in range(2):
        ask(project)
        time.sleep(0.1)  # two handings over to the logs
    assert end(project, run) == 0
    lines = [line for line in ddpkit("logs").stdout.splitlines() if "step" in line or "asked" in line]
    asked = [f"[infer.{n} {host()}] asked" for n in range(2)]
    for step in range(2):
        answers = [f"[train 0 {host()}] step {step} {server}" for server in range(2)]
        assert sorted(lines[4 * step : 4 * step + 4]) == sorted([*answers, *asked]), lines
    own = [line for line in ddpkit("logs").stdout.splitlines() if line.startswith("[ddpkit] ")]
    assert own[-1].startswith("[ddpkit] done")


def test_logs_of_one_role(run: Command, project: Path, ddpkit: DDPKIT) -> None:
    ask(project)
    assert end(project, run) == 0
    one = ddpkit("logs", "--role", "infer.1").stdout.splitlines()
    assert one[:2] == [f"[infer.1 {host()}] serving", f"[infer.1 {host()}] asked"]
    both = ddpkit("logs", "--role", "infer", "--grep", "serving").stdout.splitlines()
    assert sorted(both) == [f"[infer.{n} {host()}] serving" for n in range(2)]
    assert ddpkit("logs", "--role", "train", "--rank", "0").stdout == "step 0 0\nstep 0 1\n"
    (last,) = map(
        json.loads, ddpkit("logs", "--role", "train", "--grep", "step", "--tail", "1", "--json").stdout.splitlines()
    )
    assert (last["role"], last["rank"], last["line"]) == ("train.0", 0, "step 0 1")
    (line,) = ddpkit("logs", "--role", "train", "--grep", "step", "--since", "1h", "--tail", "1").stdout.splitlines()
    assert line == f"[train 0 {host()}] step 0 1"


def test_logs_follow_all_replicas_to_the_end_of_the_run(run: Command, project: Path, start: START) -> None:
    shown = start("logs", "--follow", "--role", "train,infer.0")
    shown.wait_for("serving")
    ask(project)
    shown.wait_for("step 0 1")
    end(project, run)
    assert shown.process.wait(60) == 0
    assert "[infer.1" not in shown.text


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["logs", "--role", "infr"], "the run has no role infr"),
        (["logs", "--role", "infer.7"], "the run has no role infer.7"),
        (["logs", "--rank", "0"], "each role of run"),
        (["logs", "--role", "train", "--rank", "5"], "the run has ranks 0-1"),
        (["status", "--role", "infer"], "--role infer names 2 replicas"),
        (["stop", "--all", "--role", "infer"], "--all and --role exclude each other"),
    ],
)
def test_wrong_roles_are_one_error(words: list[str], error: str, run: Command, project: Path, ddpkit: DDPKIT) -> None:
    done = ddpkit(*words)
    assert done.returncode == 121
    assert error in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_without_roles_has_no_role(ddpkit: DDPKIT, script: Callable[..., str]) -> None:
    assert ddpkit("launch", "-n", "1", "--", script("print('x')")).returncode == 0
    done = ddpkit("logs", "--role", "train")
    assert done.returncode == 121
    assert "has no roles" in done.stderr


def test_status_ps_dump_and_top_show_each_replica(run: Command, ddpkit: DDPKIT) -> None:
    text = ddpkit("status").stdout
    assert [line.split()[:2] for line in text.splitlines() if line.startswith(("infer", "train"))] == [
        ["infer.0", "ready"],
        ["infer.1", "ready"],
        ["train", "running"],
    ]
    assert "rank  host" in ddpkit("status", "--role", "train").stdout
    table = ddpkit("ps").stdout.splitlines()
    assert len(table) == 2, table
    assert [line.split()[0] for line in ddpkit("ps", "--roles").stdout.splitlines()[2:]] == [
        "infer.0",
        "infer.1",
        "train",
    ]
    (listed,) = json.loads(ddpkit("ps", "--roles", "--json").stdout)["runs"]
    assert [each["name"] for each in listed["roles"]] == ["infer.0", "infer.1", "train.0"]
    dumps = [json.loads(line) for line in ddpkit("dump", "--json").stdout.splitlines()]
    assert [len(each["ranks"]) for each in dumps] == [1, 1, 2]
    assert "serve_forever" in ddpkit("dump", "--role", "infer.1").stdout
    samples = [json.loads(line) for line in ddpkit("top", "--once", "--json").stdout.splitlines()]
    assert [len(each["ranks"]) for each in samples] == [1, 1, 2]
    rows = ddpkit("top", "--once").stdout.splitlines()
    assert [row[:9].strip() for row in rows if row.startswith(("infer", "train"))] == [
        "infer.0 0",
        "infer.1 0",
        "train 0",
        "train 1",
    ]


def test_a_replica_that_is_stopped_starts_again_and_then_ends_the_run(
    run: Command, project: Path, ddpkit: DDPKIT
) -> None:
    stopped = ddpkit("stop", "--role", "infer.1")
    assert stopped.returncode == 0, stopped.stderr
    assert ".infer.1: stopped" in stopped.stdout
    run.wait_for("is ready", times=3)
    wait_until(lambda: roles(ddpkit)[1]["restarts"] == 1 and roles(ddpkit)[1]["phase"] == "ready")
    assert "ready, restarted 1" in ddpkit("status").stdout
    served = [line for line in ddpkit("logs", "--role", "infer.1").stdout.splitlines() if "serving" in line]
    assert len(served) == 2, "the logs of both starts"
    assert ddpkit("stop", "--role", "infer.1").returncode == 0
    assert run.process.wait(60) != 0
    assert [each["phase"] for each in roles(ddpkit)] == ["stopped", "failed", "stopped"]
    run.wait_for_no_survivor()


def test_a_run_is_stopped_with_all_its_replicas(run: Command, ddpkit: DDPKIT) -> None:
    assert ddpkit("stop").returncode == 0
    assert run.process.wait(60) == 143
    assert {each["state"] for each in roles(ddpkit)} == {"stopped"}
    run.wait_for_no_survivor()


def test_the_failure_of_a_replica_is_explained_and_reported(run: Command, project: Path, ddpkit: DDPKIT) -> None:
    assert end(project, run, 7) == 7
    explained = ddpkit("explain")
    assert "train failed first" in explained.stderr
    assert "rank 1" in explained.stdout
    assert "exit 7, train.0 rank 1" in ddpkit("ps").stdout
    assert json.loads(ddpkit("report", "--json").stdout)["lanes"][2]["parts"][0]["state"] == "failed"
    page = Path(ddpkit("report").stdout.strip()).read_text()
    assert [name for name in ("infer.0", "infer.1", "train") if f'data-replica="{name}"' in page] == [
        "infer.0",
        "infer.1",
        "train",
    ]
    alone = Path(ddpkit("report", "--role", "train").stdout.strip())
    assert alone.parent.name.endswith(".train.0")


def test_the_directories_of_replicas_are_the_runs_own(run: Command, project: Path, ddpkit: DDPKIT) -> None:
    assert ddpkit("dump").returncode == 0
    assert end(project, run) == 0
    (folder,) = (project / "logs").iterdir()
    (replica,) = folder.glob("roles/*.infer.1")
    (replica / "weights.bin").write_text("mine")
    kept = ddpkit("rm", "--ended")
    assert kept.returncode == 121
    assert f"roles/{replica.name}/weights.bin" in kept.stderr
    assert (replica / "weights.bin").exists()
    (replica / "weights.bin").unlink()
    assert ddpkit("rm", "--ended").returncode == 0
    assert list((project / "logs").iterdir()) == []


def test_a_run_whose_launcher_was_killed_is_lost_with_its_replicas(run: Command, project: Path, ddpkit: DDPKIT) -> None:
    run.process.kill()
    run.process.wait()
    run.wait_for_no_survivor()
    assert [each["summary"] for each in roles(ddpkit)] == ["lost"] * 3
    assert "has ended" in ddpkit("dump").stderr
    assert ddpkit("rm", "--ended").returncode == 0
    assert list((project / "logs").iterdir()) == []


def damage_text(path: Path) -> None:
    path.write_text("{")


def damage_name(path: Path) -> None:
    path.write_text(path.read_text().replace(".infer.1", ".infer.0"))


def damage_link(path: Path) -> None:
    path.rename(path.with_suffix(".old"))
    path.symlink_to(path.with_suffix(".old"))


@pytest.mark.parametrize("damage", [damage_text, damage_name, damage_link])
def test_a_damaged_record_of_a_replica_is_one_line(
    damage: Callable[[Path], None], run: Command, project: Path, ddpkit: DDPKIT
) -> None:
    assert end(project, run) == 0
    (record,) = project.glob("logs/*/roles/*.infer.1/run.json")
    damage(record)
    shown = ddpkit("status")
    assert shown.returncode == 0
    assert shown.stderr.count("Traceback") == 0
    (line,) = (line for line in shown.stdout.splitlines() if line.startswith("infer.1"))
    assert "not known" in line
    assert "serving" in ddpkit("logs", "--role", "infer.0").stdout
    done = ddpkit("status", "--role", "infer.1")
    assert done.returncode == 121
    assert "run.json" in done.stderr
