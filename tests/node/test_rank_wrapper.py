"""`rank_wrapper.py` in a SLURM step: how often a signal reaches the rank."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WRAPPER = Path(__file__).parents[2] / "ddpkit/node/rank_wrapper.py"
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


@pytest.mark.skipif(sys.platform != "linux", reason="SLURM's nodes run Linux")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
@pytest.mark.parametrize("sent_to", ["the agent", "every process"])
def test_a_rank_gets_a_signal_once(sent_to: str, number: signal.Signals, tmp_path: Path) -> None:
    """torchrun repeats what SLURM sent: a rank that saved in its handler began again."""
    job = tmp_path / "job.py"
    job.write_text(RANK.format(number=int(number)))
    env = {**os.environ, "RANK": "3", "LOCAL_RANK": "1", "DDPKIT_DUMP": "0"}
    env.pop("DDPKIT_TAP", None)
    words = [sys.executable, "-S", "-I", str(WRAPPER), sys.executable, str(job)]
    started = subprocess.Popen(
        words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    with started as wrapper:
        try:
            assert wrapper.stdout
            first = wrapper.stdout.readline().split()
            assert wrapper.stdout.readline() == "[rank 3] ready\n"
            if sent_to == "every process":
                pids = [str(wrapper.pid), first[first.index("pid") + 1]]
                subprocess.run([sys.executable, "-c", SLURM, str(int(number)), *pids], check=True)
                assert wrapper.stdout.readline() == "[rank 3] signal 1\n"
            os.killpg(wrapper.pid, number)  # as torchrun does
            rest = wrapper.stdout.read()
            assert rest.count("signal 1\n") == (sent_to == "the agent"), rest
            assert "signal 2" not in rest, rest
        finally:
            wrapper.kill()
