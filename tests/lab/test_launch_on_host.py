"""`launch --detach --on HOST`: the launcher runs on a node, and whoever started it may leave."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from program import wait_until

ROOT = Path(__file__).parents[2]
DDPKIT = [sys.executable, "-m", "ddpkit"]
JOB = """
import os, time
with open("said." + os.environ["RANK"], "w") as file:
    file.write(os.environ["MY_TOKEN"] + os.uname().nodename + os.environ["NCCL_DEBUG"])
while not os.path.exists("go"):
    time.sleep(0.02)
"""


@pytest.fixture
def run(lab: Lab, tmp_path: Path) -> Callable[..., Any]:
    def run(host: str, *args: str, **env: str) -> Any:
        return lab.run(host, *DDPKIT, *args, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), **env}, check=False)

    return run


def test_the_launcher_runs_on_a_node(lab: Lab, run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    args = ["-b", "ssh", "node1", "node3", "-n", "1", "-o", "starter=ranks", "--env", "MY_TOKEN=v-secret-7"]
    args += ["--env", "NCCL_DEBUG"]
    started = run("login", "launch", "--detach", "--on", "node2", *args, "--", "job.py", NCCL_DEBUG="WARN")
    assert started.returncode == 0, started.stderr
    name = started.stdout.strip()
    assert "its launcher runs on node2; to follow it: ssh -t node2 " in started.stderr
    wait_until(lambda: (tmp_path / "said.0").exists() and (tmp_path / "said.1").exists())
    wait_until(lambda: (tmp_path / "said.1").read_text() == "v-secret-7node3WARN")
    # Nothing of it is on the host where the command was typed, and no value stands on a command line.
    assert not [line for line in lab.processes("login").values() if "job.py" in line]
    lines = [line for host in ("node1", "node2", "node3") for line in lab.processes(host).values()]
    assert any("job.py" in line for line in lines)
    assert not [line for line in lines if "v-secret" in line]
    (record,) = [each for each in json.loads(run("node2", "ps", "--json").stdout)["runs"] if each["run_id"] == name]
    assert (record["launcher_host"], record["hosts"]) == ("node2", ["node1", "node3"])
    stopped = run("node2", "stop", name)
    assert stopped.returncode == 0, stopped.stderr
    left = [line for host in ("node1", "node2", "node3") for line in lab.processes(host).values() if "job.py" in line]
    assert not left


@pytest.mark.parametrize("on", [["--on", "node2"], []])
def test_a_slow_host_is_not_waited_for_in_silence(
    on: list[str], lab: Lab, run: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text("print('ran')\n")
    slow = tmp_path / "bashrc"
    slow.write_text(f"{(lab.folder / 'bashrc').read_text()}\nsleep 10\n")
    lab.run("node2", "mount", "--bind", str(slow), str(Path.home() / ".bashrc"))
    try:
        nodes = ["-b", "local"] if on else ["-b", "ssh", "node2", "-o", "connect_timeout=20", "-o", "starter=ranks"]
        done = run("login", "launch", "--detach", *on, *nodes, "-n", "1", "--", "job.py")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "ddpkit: waiting for the launcher" in done.stderr
    finally:
        lab.run("node2", "umount", str(Path.home() / ".bashrc"))


def test_what_a_start_up_file_prints_is_not_the_record(lab: Lab, run: Callable[..., Any], tmp_path: Path) -> None:
    """And folders below that host's home are that host's to know."""
    (tmp_path / "job.py").write_text("print('ran')\n")
    home = tmp_path / "home"
    (home / "my job").mkdir(parents=True)
    (home / "my job/job.py").write_text("import os\nprint('ran', os.getcwd())\n")
    (home / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (home / "python").chmod(0o755)
    noisy = tmp_path / "bashrc"
    noisy.write_text(f"{(lab.folder / 'bashrc').read_text()}\necho '{{'\necho hello\necho '}}'\nexport HOME={home}\n")
    (tmp_path / "ddpkit.toml").write_text('[host.node2]\npython = "~/python"\nworkdir = "~/my job"\n')
    lab.run("node2", "mount", "--bind", str(noisy), str(Path.home() / ".bashrc"))
    try:
        done = run("login", "launch", "--detach", "--on", "node2", "-b", "local", "-n", "1", "--", "job.py")
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(lambda: run("node2", "status", done.stdout.strip(), "--json").returncode == 0)
        logs = home / "my job/logs" / done.stdout.strip()
        wait_until(lambda: f"ran {home}/my job" in "".join(path.read_text() for path in logs.glob("*.log")))
    finally:
        lab.run("node2", "umount", str(Path.home() / ".bashrc"))


@pytest.mark.parametrize(
    ("args", "code", "named"),
    [
        (
            ["--on", "node2", "-b", "local"],
            121,
            "--on node2 requires --detach\nhint: ddpkit launch --on node2 .*--detach -- job.py",
        ),
        (["--detach", "--on", "node[1-2]", "-b", "local"], 121, "--on node.1-2.: requires one host, not 2"),
        (["--detach", "--on", "node9", "-b", "local"], 123, "node9: its name does not resolve"),
        (
            ["--detach", "--on", "node2", "-b", "local", "--python", "/usr/bin/python3"],
            123,
            "node2: /usr/bin/python3 has no ddpkit",
        ),
        (["--detach", "--on", "node2", "-b", "ssh", "node9"], 123, "node9: its name does not resolve"),
        (
            ["--detach", "--on", "node2", "-b", "local", "--workdir", "/etc/passwd"],
            121,
            "node2: directory not found: /etc/passwd",
        ),
    ],
)
def test_what_cannot_start_there(
    args: list[str], code: int, named: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(JOB)
    done = run("login", "launch", *args, "--", "job.py", PYTHONPATH=str(ROOT) if "/usr/bin/python3" not in args else "")
    assert done.returncode == code, done.stdout + done.stderr
    assert re.search(named, done.stderr), done.stderr
    assert not (tmp_path / "logs").exists()
