"""In a real tmux: the status lines stand at the bottom of the pane, and its history holds the run's lines alone."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Lab
from conftest import PATIENCE, SCRIPT
from launching import DDPKIT
from program import wait_until
from terminal import Terminal

STATUS = re.compile(r"(starting|running|ending) · ")
LAUNCH = f"{sys.executable} -m ddpkit launch"
STEPS = """
import os, sys, time
for number in range(200):
    print("step", number, flush=True)
    if number == 100:
        while not os.path.exists("go"):
            time.sleep(0.02)
"""


class Pane:
    """A shell in a tmux of its own."""

    def __init__(self, socket: Path, cwd: Path, env: dict[str, str]) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        self._env = env
        self._run("start-server", ";", "set-option", "-g", "history-limit", "5000", ";",
                  "new-session", "-d", "-x", "100", "-y", "20", "-c", str(cwd), "bash --norc --noprofile")  # fmt: skip

    def _run(self, *words: str) -> str:
        argv = [*self._tmux, *words]
        done = subprocess.run(argv, env=self._env, capture_output=True, text=True, timeout=PATIENCE, check=True)
        return done.stdout

    def type(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def command(self, text: str) -> None:
        self.type("-l", text)
        self.type("Enter")

    def seen(self) -> list[str]:
        """The rows that are on the screen now."""
        return self._run("capture-pane", "-p").rstrip("\n").split("\n")

    def history(self) -> list[str]:
        """All that one can scroll back to, and the screen; lines that were wrapped are whole."""
        return self._run("capture-pane", "-p", "-J", "-S", "-").split("\n")

    def resize(self, columns: int) -> None:
        self._run("resize-window", "-x", str(columns))

    def wait_for(self, there: Callable[[], object]) -> None:
        wait_until(there, lambda: "\n".join(self.history()))  # tmux announces nothing

    def status(self) -> list[str]:
        return [line for line in self.seen() if STATUS.match(line)]

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], env=self._env, capture_output=True, check=False)


@pytest.fixture
def pane(tmp_path: Path, clean_environ: dict[str, str]) -> Iterator[Pane]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux")
    folder = tempfile.mkdtemp(prefix="dk-", dir="/tmp")  # a socket's path has at most 107 bytes
    env = {**clean_environ, "TERM": "xterm-256color", "DDPKIT_FOLD": "60", "PS1": "PROMPT ", "LANG": "C.UTF-8"}
    pane = Pane(Path(folder, "s"), tmp_path, env)
    yield pane
    pane.close()
    shutil.rmtree(folder, ignore_errors=True)


def is_whole(lines: list[str]) -> bool:
    """From the command's first line to its last one: the lines of the run, and nothing else."""
    kept = [line.rstrip() for line in lines if line.strip()]
    first = next(number for number, line in enumerate(kept) if line.startswith("ddpkit: run "))
    last = next(number for number, line in enumerate(kept) if line.startswith("ddpkit: done in "))
    return kept[first + 1 : last] == [f"[0-2] step {number}" for number in range(200)]


def test_history_holds_the_lines_alone(pane: Pane, script: SCRIPT, tmp_path: Path) -> None:
    script(STEPS)
    pane.command(f"{LAUNCH} -n 3 -- job.py; echo code $?")
    pane.wait_for(lambda: pane.status() and any("step 100" in line for line in pane.seen()))
    assert STATUS.match(pane.seen()[-1])  # below the lines
    assert pane.seen()[-2] == ""
    (tmp_path / "go").touch()
    pane.wait_for(lambda: any(line.startswith("code 0") for line in pane.history()))
    assert is_whole(pane.history()), "\n".join(pane.history())


def test_a_pane_that_changes_its_width_loses_no_line(pane: Pane, script: SCRIPT, tmp_path: Path) -> None:
    """tmux breaks lines anew; the status lines are longer than the narrow window."""
    script(STEPS)
    pane.command(f"{LAUNCH} -n 3 -- job.py; echo code $?")
    pane.wait_for(lambda: pane.status() and any("step 100" in line for line in pane.seen()))
    for columns in (30, 60, 25, 100, 40, 100):
        pane.resize(columns)
        pane.wait_for(lambda wide=columns: pane.status() and len(pane.status()[-1]) < wide)  # type: ignore[misc]
    (tmp_path / "go").touch()
    pane.wait_for(lambda: any(line.startswith("code 0") for line in pane.history()))
    assert is_whole(pane.history()), "\n".join(pane.history())


def test_a_killed_launcher_leaves_a_usable_terminal(pane: Pane, script: SCRIPT, tmp_path: Path) -> None:
    script(STEPS)
    pane.command(f"{LAUNCH} -n 3 -- job.py & echo $! > pid; fg")
    pane.wait_for(pane.status)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    pane.wait_for(lambda: any(line.startswith("Killed") for line in pane.seen()))
    pane.command("clear; echo well: $((6 * 7))")
    pane.wait_for(lambda: any(line.startswith("well: 42") for line in pane.seen()))
    assert pane.status() == []
    pane.command(f"stty -a > {shlex.quote('tty')}; echo said")
    pane.wait_for(lambda: any(line.startswith("said") for line in pane.seen()))
    assert {"echo", "icanon", "isig"} <= set((tmp_path / "tty").read_text().replace(";", " ").split())


NODES = """
import os, time
print("loading", flush=True)
if os.environ["RANK"] == "2":
    print("no such shard", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
if os.environ["RANK"] != "3":
    print("loaded", flush=True)
"""


@pytest.mark.parametrize("backend", ["ssh", "slurm"])
def test_nodes_fold_and_are_counted(backend: str, idle_lab: Lab, script: SCRIPT, tmp_path: Path) -> None:
    script(NODES)
    hosts = ["node1", "node2", "-o", "starter=ranks"] if backend == "ssh" else ["-N", "2"]
    words = ["launch", "-b", backend, *hosts, "-n", "2", "--", "job.py"]
    (tmp_path / "ddpkit.toml").write_text("fold = 60\n")
    env = {**idle_lab.environ(), "NO_COLOR": "1", "TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2])}
    run = Terminal(idle_lab.argv("login", [*DDPKIT, *words], tmp_path), tmp_path, env)
    try:
        run.wait_for(lambda: run.shows(r"^\[0-3\] loading") and run.shows(r"^running · 4 ranks · 2 nodes · "))
        (tmp_path / "go").touch()
        assert run.end() == 0
        assert run.shows(r"^\[2 \S+\] no such shard")
        assert run.shows(r"^\[0-2 2 nodes\] loaded")
        assert not any(STATUS.match(line) for line in run.glass.lines)
    finally:
        run.close()
