"""`--via` from a host without SLURM: every command over SSH, connections that break, and what is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import LAPTOP, LOGIN, Lab
from laptop import Laptop, lines
from program import wait_until

pytestmark = pytest.mark.lab

# Lines without end, until a file says that rank 3 fails.
LINES = """
import os, sys, time
rank, number = os.environ["RANK"], 0
while not (rank == "3" and os.path.exists("fail")):
    print(f"rank {rank} line {number}", flush=True)
    number += 1
    time.sleep(0.02)
sys.exit(7)
"""
TRANSPORTS = pytest.mark.parametrize("transport", ["paramiko", "openssh"])


@pytest.fixture
def laptop(idle_lab: Lab, tmp_path: Path) -> Iterator[Laptop]:
    idle_lab.add_laptop()
    made = Laptop(idle_lab, tmp_path)
    (made.there / "job.py").write_text(LINES)
    yield made
    made.close()


@TRANSPORTS
def test_a_broken_connection_loses_and_doubles_no_line(laptop: Laptop, transport: str) -> None:
    launch = laptop.launch("-o", f"transport={transport}")
    launch.wait_for("rank 3 line 20")
    for number in (1, 2):
        laptop.cut_session()
        launch.wait_for("connected to login again", times=number)
        launch.wait_for("rank 3 line", times=len([each for each in lines(launch) if "rank 3" in each]) + 20)
    (laptop.there / "fail").touch()
    assert launch.end() == 7, launch.tail
    assert launch.text.count("lost the connection to login: ") == 2
    assert lines(launch) == laptop.job_output()
    assert "rank 3 on node2 failed first" in launch.text
    wait_until(lambda: not laptop.left(), laptop.left)


def test_a_laptop_without_a_network(laptop: Laptop) -> None:
    """The connection is dead, and no end of file says so."""
    launch = laptop.launch()
    launch.wait_for("rank 3 line 20")
    laptop.lab.cut(LAPTOP)
    launch.wait_for("lost the connection to login: it did not answer in time")
    laptop.lab.mend(LAPTOP)
    launch.wait_for("connected to login again")
    (laptop.there / "fail").touch()
    assert launch.end() == 7, launch.tail
    assert lines(launch) == laptop.job_output()


@TRANSPORTS
def test_nothing_is_left_of_a_launcher_that_was_killed(laptop: Laptop, transport: str) -> None:
    launch = laptop.launch("-o", f"transport={transport}")
    launch.wait_for("rank 3 line 20")
    os.kill(laptop.launcher(), signal.SIGKILL)
    launch.end()
    wait_until(lambda: not laptop.left(), laptop.left)
    assert laptop.lab.run(LOGIN, "squeue", "-h", "-o", "%T").stdout == "RUNNING\n"
    follow = laptop.start("attach")
    follow.wait_for("rank 3 line", times=20)
    (laptop.there / "fail").touch()
    assert follow.end() == 7, follow.tail
    assert "rank 3 on node2 failed first" in follow.text


def test_commands_of_a_job_that_nobody_follows(laptop: Laptop) -> None:
    launch = laptop.launch("--detach")
    assert launch.end() == 0, launch.tail
    run = launch.lines[-1]
    wait_until(lambda: "rank 3 line" in laptop.ask("logs", run, "--rank", "3").stdout, lambda: laptop.ask("logs", run))
    assert "runs on node[1-2]" in laptop.ask("status", run).stdout
    dumped = laptop.ask("dump", run)
    assert re.findall(r"(?m)^(\d) .*job\.py:\d+ in <module>$", dumped.stdout) == ["0", "1", "2", "3"], dumped
    sample = json.loads(laptop.ask("top", run, "--once", "--json").stdout)
    assert [rank["rank"] for rank in sample["ranks"]] == [0, 1, 2, 3], sample
    assert re.fullmatch(r"ssh login 'scancel \d+'\n", laptop.ask("stop", run, "--dry-run").stdout)
    assert "stopped" in laptop.ask("stop", run).stdout
    assert laptop.lab.run(LOGIN, "squeue", "-h").stdout == ""


def test_an_interrupt_leaves_the_job(laptop: Laptop) -> None:
    launch = laptop.launch()
    launch.wait_for("rank 3 line 20")
    os.kill(laptop.launcher(), signal.SIGINT)
    assert launch.end() == 130, launch.tail
    assert re.search(
        r"to follow it: ddpkit attach (\S+-job-\w+); to stop it: ddpkit stop \1$", launch.text, re.MULTILINE
    )
    assert laptop.lab.run(LOGIN, "squeue", "-h", "-o", "%T").stdout == "RUNNING\n"


def test_the_project_is_copied(laptop: Laptop) -> None:
    (laptop.here / "other.py").write_text("print('from the laptop')")
    launch = laptop.launch("--sync", script="other.py")
    assert launch.end() == 0, launch.tail
    assert launch.text.count("from the laptop") == 4


PLACES = {
    "named": ("slurm", ["node2", "node1"], "node2:0/1 node1:0/1"),
    "named, with ranks": ("slurm-torchrun", ["node2:1", "node1:2"], "node2:0/1 node1:0/2 node1:1/2"),
    "numbers": ("slurm-torchrun", ["-n", "1,2"], "node1:0/1 node2:0/2 node2:1/2"),
    "numbers of named": ("slurm", ["node2", "node1", "-n", "1,2"], "node2:0/1 node1:0/2 node1:1/2"),
}
PLACE = """
import os
one = os.environ
print("rank", one["RANK"], "line", f"{os.uname().nodename}:{one['LOCAL_RANK']}/{one['LOCAL_WORLD_SIZE']}")
"""


@pytest.mark.torch
@pytest.mark.parametrize("name", PLACES)
def test_named_and_uneven_nodes(laptop: Laptop, name: str) -> None:
    backend, args, places = PLACES[name]
    (laptop.there / "place.py").write_text(PLACE)
    launch = laptop.launch_on("-b", backend, *args, script="place.py")
    assert launch.end() == 0, launch.tail
    found = sorted(re.findall(r"\[(\d) (node\d)\] rank (\d) line (\S+)", launch.text))
    assert [(rank, host, said) for rank, host, _, said in found] == [
        (str(rank), place.partition(":")[0], place) for rank, place in enumerate(places.split())
    ], launch.tail


REFUSALS = {
    "no host": (["nowhere"], [], 123, "its name does not resolve on this machine"),
    "no SLURM there": ([LAPTOP], [], 123, "sbatch not found on laptop"),
    "no directory": ([LOGIN], ["--workdir", "/no/such"], 122, "directory /no/such on login: no such file or directory"),
    "no Python": ([LOGIN], ["--python", "/no/python"], 122, "Python /no/python not found on login"),
    "no output": ([LOGIN], ["-o", "output=/proc/x/%j"], 123, "cannot write the job's output to /proc/x on login: "),
    "retries": ([LOGIN], ["--retries", "1"], 121, "--via does not support --retries"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_names_the_host(laptop: Laptop, name: str) -> None:
    via, more, code, text = REFUSALS[name]
    launch = laptop.launch(*more, via=via[0])
    assert launch.end() == code, launch.tail
    assert text in launch.text
    assert "hint: " in launch.text
    assert laptop.lab.run(LOGIN, "squeue", "-h").stdout == ""
