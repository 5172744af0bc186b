"""`collect.py` around a program in the place of srun: the job's output, and what happens at each death."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE
from program import wait_until

from ddpkit.node.bundle import pack, read_texts
from ddpkit.node.step_output import frames

SPEC: dict[str, object] = {
    **{"ranks": [1], "by_node": False, "groups": [], "agent": "srun", "lost": False, "runtime": "", "marks": ""},
    **{"silence": 0.0, "group_jobs": [], "grace": 0.0},
}
HELLO = {"e": "hello", "pid": 7, "host": "node1", "step": "7.0", "t": 1.0}
EXIT = {"e": "exit", "rank": 0, "code": 7, "signal": None, "t": 1.0}


def framed(*events: dict[str, object]) -> str:
    lines = b"".join(frames(json.dumps(event).encode()) for event in events).splitlines()
    return "".join(f"0: {line.decode()}\n" for line in lines)


Collect = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def collect(tmp_path: Path) -> Collect:
    """Start it around a shell script; its output goes to a file."""
    (tmp_path / "ddpkit.zip").write_bytes(pack(read_texts()))

    def start(
        script: str, *events: dict[str, object], limit: int | None = None, **spec: object
    ) -> subprocess.Popen[bytes]:
        (tmp_path / "task.json").write_text(json.dumps({**SPEC, **spec}))
        (tmp_path / "framed").write_text(framed(*events))
        argv = [sys.executable, "-S", "-I", "ddpkit.zip", "collect", "task.json", "sh", "-c", script]
        # In blocks of 512 bytes; Python ignores the signal of that limit.
        limited = ["sh", "-c", f'ulimit -f {limit}; exec "$@"', "sh"] if limit else []
        with (tmp_path / "out").open("ab") as out:
            return subprocess.Popen([*limited, *argv], cwd=tmp_path, stdout=out)

    return start


def test_the_exit_code_is_that_of_the_first_failed_rank(collect: Collect, tmp_path: Path) -> None:
    out = {"e": "out", "rank": 0, "fd": 1, "data": 'ddpkit: {"e":"end"}\n'}
    said = "srun: error: node1: task 0: Exited with exit code 7"
    process = collect(f"cat framed; echo '{said}' >&2; exit 143", HELLO, out, EXIT)
    assert process.wait(PATIENCE) == 7
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines.count('[0 node1] ddpkit: {"e":"end"}') == 1
    assert said in lines
    events = [json.loads(line[8:]) for line in lines if line.startswith("ddpkit: {")]
    assert [each["e"] for each in events] == ["hello", "exit", "failed"]


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("exit 0", 0)])
def test_without_a_failed_rank_it_ends_as_the_command(collect: Collect, script: str, code: int) -> None:
    assert collect(script).wait(PATIENCE) == code


def test_a_command_that_is_not_there(tmp_path: Path, collect: Collect) -> None:
    assert collect("exec no-such-srun").wait(PATIENCE) == 127


def test_the_command_ends_with_it(collect: Collect, tmp_path: Path) -> None:
    """srun ends its step then."""
    process = collect("trap 'touch ended; exit' TERM; echo $$ > pid; while :; do sleep 0.05; done")
    wait_until((tmp_path / "pid").exists)
    process.send_signal(signal.SIGTERM)  # of the job's end: srun gets its own
    process.kill()
    process.wait(PATIENCE)
    wait_until((tmp_path / "ended").exists)


def test_signals_of_the_scheduler_end_it_with_the_command_alone(collect: Collect, tmp_path: Path) -> None:
    process = collect("touch here; while [ ! -e go ]; do sleep 0.05; done; exit 3")
    wait_until((tmp_path / "here").exists)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        process.send_signal(number)
    (tmp_path / "go").touch()
    assert process.wait(PATIENCE) == 3


def test_a_full_file_system_leaves_out_texts_and_keeps_events(collect: Collect, tmp_path: Path) -> None:
    """The file may have 3,072 bytes, until somebody makes room."""
    text = {"e": "out", "rank": 0, "fd": 1, "data": ("x" * 99 + "\n") * 50}
    process = collect("cat framed; while [ ! -e go ]; do sleep 0.05; done; exit 7", HELLO, text, EXIT, limit=6)
    wait_until(lambda: (tmp_path / "out").stat().st_size >= 3072)
    os.truncate(tmp_path / "out", 0)
    (tmp_path / "go").touch()
    assert process.wait(PATIENCE) == 7
    lines = (tmp_path / "out").read_text().splitlines()
    assert any("lines are missing here: the file system was full or failed" in line for line in lines), lines
    events = [json.loads(line[8:])["e"] for line in lines if line.startswith("ddpkit: {")]
    assert events[-2:] == ["exit", "failed"]


# An event alone cannot be written; then there is room, and a line of a rank comes.
EVENT_FIRST = """\
import resource
from ddpkit.node.collect import Output

output, hard = Output(""), resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
output.write([("", {"e": "exit"})])
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
output.write([("0 node1", "a line")])
output.close()
"""


def test_an_event_that_could_not_be_written_comes_after_the_next_line_of_a_rank_too(tmp_path: Path) -> None:
    with (tmp_path / "out").open("ab") as out:
        subprocess.run([sys.executable, "-c", EVENT_FIRST], stdout=out, timeout=PATIENCE, check=True)
    assert 'ddpkit: {"e":"exit"}' in (tmp_path / "out").read_text().splitlines()


def test_what_ranks_report_of_themselves_goes_to_a_file_of_its_own(collect: Collect, tmp_path: Path) -> None:
    mark = {"e": "mark", "rank": 0, "name": "import", "t": 3.0}
    assert collect("cat framed", HELLO, mark, marks=str(tmp_path / "marks")).wait(PATIENCE) == 0
    assert [json.loads(line) for line in (tmp_path / "marks").read_text().splitlines()] == [{**mark, "host": "node1"}]
    assert "mark" not in (tmp_path / "out").read_text()


# What SLURM's programs do here: the controller knows the node, and nobody gets a signal but those who are asked for it.
SLURM = """#!/bin/sh
case "$0 $*" in
    *scontrol*show\\ node\\ node1) echo "NodeName=node1 NodeAddr=127.0.0.1 NodeHostName=node1" ;;
    *scontrol*show\\ config) printf 'SlurmctldPort = 6817\\nSlurmdPort              = %s\\n' "$SLURMD" ;;
    *scancel*) echo "$*" > cancelled ;;
esac
"""
BEAT = {"e": "beat"}


@pytest.fixture
def slurmd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A slurmd that accepts connections, as the kernel does for it, and SLURM's programs."""
    for name in ("scontrol", "scancel"):
        (tmp_path / name).write_text(SLURM)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("SLURMD", str(listener.getsockname()[1]))
        yield listener


def test_a_silent_node_with_a_slurmd_is_not_lost(collect: Collect, tmp_path: Path, slurmd: socket.socket) -> None:
    """It is busy, or SLURM suspends the job."""
    slurmd.settimeout(PATIENCE)
    process = collect("cat framed; while :; do sleep 0.05; done", HELLO, BEAT, silence=0.2)
    for _ in range(3):  # each after another silence
        slurmd.accept()[0].close()
    process.kill()
    process.wait(PATIENCE)
    assert '"failed"' not in (tmp_path / "out").read_text()


@pytest.mark.parametrize("jobs", [[], ["8"]], ids=["job", "group"])
def test_a_node_without_an_answer_is_lost(
    jobs: list[str], collect: Collect, tmp_path: Path, slurmd: socket.socket
) -> None:
    """The ranks that are left get TERM, and srun, which would wait, ends after their grace."""
    slurmd.close()
    process = collect("trap '' TERM; cat framed; while :; do sleep 60; done", HELLO, BEAT, silence=0.2, group_jobs=jobs)
    assert process.wait(PATIENCE) == 128
    (line,) = [line for line in (tmp_path / "out").read_text().splitlines() if '"failed"' in line]
    failed = json.loads(line.removeprefix("ddpkit: "))
    assert (failed["host"], failed["reason"]) == ("node1", "no heartbeat for 0.2 s: slurmd does not run there")
    wait_until((tmp_path / "cancelled").exists)
    step = f"{jobs[0] if jobs else 7}.0"
    wait_until(lambda: (tmp_path / "cancelled").read_text() == f"--quiet --signal=TERM {step}\n")


def test_nobody_is_lost_where_the_controller_is_silent(collect: Collect, tmp_path: Path, slurmd: socket.socket) -> None:
    slurmd.close()
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho >> asked; exit 1\n")
    process = collect("cat framed; while :; do sleep 0.05; done", HELLO, BEAT, silence=0.2)
    wait_until(lambda: (tmp_path / "asked").exists() and len((tmp_path / "asked").read_text()) >= 4)
    process.kill()
    process.wait(PATIENCE)
    assert '"failed"' not in (tmp_path / "out").read_text()
