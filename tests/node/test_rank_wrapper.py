"""`rank_wrapper.py` in a SLURM step: how often a signal reaches the rank."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from program import PATIENCE

from ddpkit.node.bundle import pack, read_texts

RANK = """
import signal, sys, time
count = 0
def count_signal(*_):
    global count
    count += 1
    print("signal", count, flush=True)
signal.signal({number}, count_signal)
print("ready", flush=True)
end = time.monotonic() + 60
while not count and time.monotonic() < end:
    time.sleep(0.01)
time.sleep(0.5)
"""
# As SLURM's process on a node: it signals the rank and its wrapper.
SLURM = "import os, sys; [os.kill(int(pid), int(sys.argv[1])) for pid in sys.argv[2:]]"


class Reports:
    """A named pipe that the wrapper writes to, and its lines."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDWR)
        self.held = b""

    def line(self) -> str:
        while b"\n" not in self.held:
            assert select.select([self.fd], [], [], PATIENCE)[0], self.held
            self.held += os.read(self.fd, 1 << 12)
        line, _, self.held = self.held.partition(b"\n")
        return line.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="SLURM's nodes run Linux")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
@pytest.mark.parametrize("sent_to", ["the agent", "every process"])
def test_a_rank_gets_a_signal_once(sent_to: str, number: signal.Signals, tmp_path: Path) -> None:
    """torchrun repeats what SLURM sent: a rank that saved in its handler began again."""
    (tmp_path / "job.py").write_text(RANK.format(number=int(number)))
    out, err, events = (Reports(tmp_path / name) for name in ("out.1", "err.1", "events"))
    env = {**os.environ, "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "DDPKIT_DUMP": "0"}
    env |= {"DDPKIT_TAP": str(tmp_path / "rank_wrapper.py"), "DDPKIT_TAP_ONCE": "1"}
    (tmp_path / "node.zip").write_bytes(pack(read_texts()))
    words = [
        sys.executable,
        "-S",
        "-I",
        str(tmp_path / "node.zip"),
        "rank.rank_wrapper",
        sys.executable,
        str(tmp_path / "job.py"),
    ]
    with subprocess.Popen(words, env=env, cwd=tmp_path, start_new_session=True) as wrapper:
        try:
            start, local, rank, pid, _ = events.line().split()
            assert (start, local, rank) == ("start", "1", "3")
            assert out.line() == "ready"
            if sent_to == "every process":
                subprocess.run([sys.executable, "-c", SLURM, str(int(number)), str(wrapper.pid), pid], check=True)
            os.killpg(wrapper.pid, number)  # as torchrun does
            assert out.line() == "signal 1"
            assert events.line().startswith("exit 1 3 0 None ")
            assert wrapper.wait(PATIENCE) == 0
            assert (out.held, err.held) == (b"", b"")
            assert not select.select([out.fd], [], [], 0)[0]
        finally:
            wrapper.kill()


# The child comes to `die_with_parent` when its parent has ended already, as on a busy node.
LATE = """
import os, time
from ddpkit.node.child import die_with_parent
own = os.getpid()
if os.fork() == 0:
    while os.getppid() == own:
        time.sleep(0.001)
    die_with_parent(own, 9)
    print("left behind")
"""


def test_a_process_that_is_slower_than_the_end_of_its_parent_ends() -> None:
    """The kernel signals only a child that asked for it in time: the sentinel of a short task stayed without end."""
    argv = [sys.executable, "-c", LATE]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
