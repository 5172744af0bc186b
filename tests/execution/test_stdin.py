"""`ddpkit launch --stdin RANK`: standard input for one rank, a prompt on a terminal, and what cannot have it."""

from __future__ import annotations

import hashlib
import os
import random
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE, Command
from terminal import Terminal

from ddpkit.launchers.shell import join

DDPKIT = Callable[..., subprocess.CompletedProcess[str]]
START = Callable[..., Command]
SCRIPT = Callable[..., str]

READS = """\
import hashlib, os, sys
data = sys.stdin.buffer.read()
print(os.environ["RANK"], len(data), hashlib.sha256(data).hexdigest(), flush=True)
"""
STOPS = """\
import os
rank = int(os.environ["RANK"])
if rank == 1:
    answer = 40
    breakpoint()
    print("the answer is", answer, flush=True)
"""
TICKS = """\
import os, time
while os.environ["RANK"] == "0" and not os.path.exists("go"):
    print("tick", flush=True)
    time.sleep(0.1)
"""
NEVER_READS = """\
import os, sys, time
if os.environ["RANK"] == "0":
    print("ready", flush=True)
    time.sleep(3600)
while not os.path.exists("end"):
    time.sleep(0.01)
sys.exit(9)
"""


def piped(words: list[str], cwd: Path, env: dict[str, str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "ddpkit", *words]
    return subprocess.run(argv, cwd=cwd, env=env, input=data, capture_output=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("size", [0, 1, 700_001])
def test_every_byte_and_the_end_reach_one_rank(
    size: int, script: SCRIPT, tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    script(READS)
    data = random.Random(size).randbytes(size)
    done = piped(["launch", "--stdin", "1", "-n", "3", "--", "job.py"], tmp_path, clean_environ, data)
    empty = hashlib.sha256(b"").hexdigest()
    lines = sorted(line.partition("] ")[2] for line in done.stdout.decode().splitlines())
    assert lines == [f"0 0 {empty}", f"1 {size} {hashlib.sha256(data).hexdigest()}", f"2 0 {empty}"], done.stderr
    assert done.returncode == 0


def test_breakpoint_on_a_terminal(script: SCRIPT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """The prompt is shown at once, and an answer reaches pdb; the hang watch waits meanwhile."""
    script(STOPS)
    words = ["launch", "--stdin", "1", "-n", "2", "--hang-timeout", "1", "--observe", "stacks", "--", "job.py"]
    terminal = Terminal([sys.executable, "-m", "ddpkit", *words], tmp_path, {**clean_environ, "TERM": "xterm"})
    terminal.wait_for(lambda: terminal.shows(r"^\[1 \S+\] \(Pdb\) *$"))
    os.write(terminal.handle, b"answer = 42\n")
    terminal.wait_for_bytes(b"(Pdb) ", 2)
    os.write(terminal.handle, b"continue\n")
    terminal.wait_for(lambda: terminal.shows("the answer is 42$"))
    assert terminal.end() == 0, terminal.seen
    (log,) = tmp_path.glob("logs/*/rank_1.log")
    assert log.read_text().endswith("(Pdb) (Pdb) the answer is 42\n")


@pytest.mark.skipif(not shutil.which("bash"), reason="no shell with job control")
def test_a_launch_in_the_background_takes_no_key(script: SCRIPT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """A read would stop it, and with it the heartbeats to its nodes."""
    script(TICKS + STOPS)
    env = {**clean_environ, "TERM": "xterm", "INPUTRC": "/dev/null"}
    terminal = Terminal(["bash", "--norc", "--noediting", "-i"], tmp_path, env)
    words = [sys.executable, "-m", "ddpkit", "launch", "--stdin", "1", "-n", "2", "--", "job.py"]
    os.write(terminal.handle, f"{join(words)}\n".encode())
    terminal.wait_for_bytes(b"(Pdb) ")
    os.write(terminal.handle, b"\x1a")
    terminal.wait_for_bytes(b"Stopped")
    os.write(terminal.handle, b"bg\n")
    terminal.wait_for(lambda: terminal.shows(r"job\.py &$"))
    os.write(terminal.handle, b"until [ -e go ]; do sleep 0.1; done\necho mine $((40 + 1))\n")
    terminal.wait_for_bytes(b"tick", terminal.raw.count(b"tick") + 9)  # a key waits meanwhile, and nobody reads it
    (tmp_path / "go").touch()
    terminal.wait_for(lambda: terminal.shows("mine 41$"))
    os.write(terminal.handle, b"fg\ncontinue\n")
    terminal.wait_for(lambda: terminal.shows("the answer is 40$"))
    os.write(terminal.handle, b"exit\n")
    assert terminal.end() == 0


def test_ctrl_c_at_a_prompt_ends_the_run(script: SCRIPT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    script(STOPS)
    words = ["launch", "--stdin", "1", "-n", "2", "--", "job.py"]
    terminal = Terminal([sys.executable, "-m", "ddpkit", *words], tmp_path, clean_environ)
    terminal.wait_for(lambda: terminal.shows(r"\(Pdb\) *$"))
    os.write(terminal.handle, b"\x03")
    assert terminal.end() == 130, terminal.seen
    assert any(line.startswith("ddpkit: SIGINT") for line in terminal.glass.lines), (
        terminal.seen
    )  # on a line of its own


def test_a_rank_that_never_reads_holds_up_nobody(script: SCRIPT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """What nobody takes stays with the writer, and a failure elsewhere still ends the run."""
    script(NEVER_READS)
    argv = [sys.executable, "-m", "ddpkit", "launch", "--stdin", "0", "-n", "2", "--grace", "0.5", "--", "job.py"]
    with subprocess.Popen(
        argv, cwd=tmp_path, env=clean_environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        written = 0
        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()
        poll = select.poll()
        poll.register(process.stdin.fileno(), select.POLLOUT)
        while poll.poll(3000) and written < 10 << 20:
            written += os.write(process.stdin.fileno(), b"x" * 4096)
        (tmp_path / "end").touch()
        assert process.stdout is not None
        text = process.stdout.read().decode()
        assert process.wait(PATIENCE) == 9, text
        watch.cancel()
    assert 1 << 16 <= written <= 1 << 19


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--stdin", "x"], "--stdin x: not the number of a rank"),
        (["--stdin", "4", "-n", "2"], "--stdin 4: the ranks of this launch are 0 to 1"),
        (["--stdin", "0", "-d"], "--stdin 0 and --detach"),
        (["--stdin", "0", "--starter", "torchrun"], "-o starter=torchrun --starter ranks -- job.py"),
        (["--stdin", "0", "--preload"], "-o preload=true --no-preload -- job.py"),
        (["--stdin", "0", "-b", "slurm-srun", "-N", "1", "-n", "1"], "hint: ddpkit hold -b slurm-srun"),
    ],
)
def test_what_cannot_have_it_is_refused(words: list[str], says: str, script: SCRIPT, ddpkit: DDPKIT) -> None:
    script("print('never')\n")
    done = ddpkit("launch", *words, "--", "job.py")
    assert done.returncode == 121
    assert says in done.stderr
    assert "never" not in done.stdout


def test_a_plan_names_the_rank(script: SCRIPT, ddpkit: DDPKIT) -> None:
    script("")
    done = ddpkit("launch", "--stdin", "1", "-n", "2", "--dry-run", "--", "job.py")
    assert "# standard input: rank 1\n" in done.stdout, done.stderr
