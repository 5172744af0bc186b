"""`rank_wrapper.py` in a SLURM step: how often a signal reaches the rank."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from program import MARK, PATIENCE, marked

from ddpkit.launchers.slurm_output import SrunReader

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


# The child comes to `end_with_parent` when its parent has ended already, as on a busy node.
LATE = """
import os, runpy, sys, time
wrapper = runpy.run_path(sys.argv[1], run_name="wrapper")
own = os.getpid()
if os.fork() == 0:
    while os.getppid() == own:
        time.sleep(0.001)
    wrapper["end_with_parent"](own)
    print("left behind")
"""


def test_a_process_that_is_slower_than_the_end_of_its_parent_ends() -> None:
    """The kernel signals only a child that asked for it in time: the sentinel of a short task stayed without end."""
    argv = [sys.executable, "-c", LATE, str(WRAPPER)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# A rank whose grandchild is in a session of its own, with no open file of the rank's.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.write({ready}, b".")
        time.sleep(600)
    os._exit(0)
os.read({started}, 1)
sys.exit(7)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="SLURM's nodes run Linux")
@pytest.mark.parametrize("words", [["--task"], []], ids=["of srun", "of torchrun"])
def test_a_daemon_of_a_rank_ends_with_it(words: list[str]) -> None:
    """SLURM that tracks processes by their parents does not find it."""
    mark = secrets.token_hex(8)
    env = {**os.environ, "RANK": "3", "LOCAL_RANK": "1", "DDPKIT_DUMP": "0", MARK: mark}
    env.pop("DDPKIT_TAP", None)
    started, ready = os.pipe()
    rank = [sys.executable, "-c", DAEMON.format(started=started, ready=ready)]
    argv = [sys.executable, "-S", "-I", str(WRAPPER), *words, *rank]
    done = subprocess.run(
        argv, env=env, pass_fds=(started, ready), stdout=subprocess.DEVNULL, check=False, timeout=PATIENCE
    )
    os.close(started)
    os.close(ready)
    assert done.returncode == 7
    assert marked(mark) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="SLURM's nodes run Linux")
def test_a_task_leaves_no_process() -> None:
    """As srun starts it. What it leaves would hold the pipe of the output open."""
    argv = [sys.executable, "-S", "-I", str(WRAPPER), "--task", sys.executable, "-c", "print('rank')"]
    read, write = os.pipe()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, pass_fds=(write,)) as process:
        os.close(write)
        assert process.communicate(timeout=60)[0] == "rank\n"
    with os.fdopen(read) as pipe:
        assert pipe.read() == ""


LONG = "import sys; sys.stdout.write('x' * 500_000 + chr(10)); sys.stdout.flush(); print('end')"


@pytest.mark.parametrize("blocks", [True, False])
def test_a_long_line_arrives_whole_under_any_scheduler(blocks: bool) -> None:
    """Of 500,000 bytes 65,527 arrived where the scheduler's pipe does not block."""
    read, write = os.pipe()
    os.set_blocking(write, blocks)
    env = {**os.environ, "RANK": "3", "LOCAL_RANK": "1", "DDPKIT_DUMP": "0"}
    for name in ("DDPKIT_TAP", "SLURM_STEP_ID"):
        env.pop(name, None)
    words = [sys.executable, "-S", "-I", str(WRAPPER), sys.executable, "-c", LONG]
    with subprocess.Popen(words, env=env, stdout=write, stderr=subprocess.DEVNULL) as wrapper:
        os.close(write)
        reader = SrunReader(4, torchrun=True, labels=False)
        with open(read, "rb") as output:
            events = [event for data in iter(lambda: output.read(1 << 16), b"") for event in reader.feed(1, data)]
        assert wrapper.wait(PATIENCE) == 0
    lines = [event["data"] for event in (*events, *reader.flush()) if event["e"] == "out" and event["rank"] == 3]
    assert lines == ["x" * 500_000 + "\n", "end\n"]
