"""The first failure ends the run with its exit code and a verdict, and no process outlives the launcher."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command
from program import wait_until

torch = pytest.mark.torch
# Every way in which a node starts its ranks. Preloading a small module shows the same process tree as preloading torch.
STARTERS = [
    pytest.param(["-o", "starter=ranks"], id="ranks"),
    pytest.param(["-o", "preload=json"], id="preload"),
    pytest.param(["-o", "starter=torchrun"], id="torchrun", marks=torch),
]

# Each rank has a child that moved to a session of its own and ignores TERM, and says when both are ready.
RANK = """
import os, subprocess, sys, signal, time
child = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.setsid(); "
child += "print('child ready', flush=True); time.sleep(3600)"
subprocess.Popen([sys.executable, "-c", child])
print("rank", os.environ["RANK"], "ready", flush=True)
"""
SLEEP = RANK + "time.sleep(3600)\n"

# One rank waits until both are ready, then comes to its end in some way. A named file is the event.
FAIL = (
    RANK
    + """
if os.environ["RANK"] == "1":
    while not os.path.exists("go"):
        time.sleep(0.02)
    print("last words", flush=True)
    {end}
time.sleep(3600)
"""
)


@pytest.fixture(params=STARTERS)
def starter(request: pytest.FixtureRequest) -> list[str]:
    options: list[str] = request.param
    return options


def start_two(start: Callable[..., Command], starter: list[str], *more: str) -> Command:
    command = start("launch", "-n", "2", "--grace", "0.5", *starter, *more, "--", "job.py")
    command.wait_for("child ready", times=2)
    return command


ENDS = {
    "exits 7": ("sys.exit(7)", 7, "exit code 7"),
    "exits 137": ("sys.exit(137)", 137, "exit code 137"),
    "is killed": ("os.kill(os.getpid(), 9)", 137, "killed by signal 9 (SIGKILL)"),
    "crashes": ("os.kill(os.getpid(), 11)", 139, "killed by signal 11 (SIGSEGV)"),
    "aborts": ("os.abort()", 134, "killed by signal 6 (SIGABRT)"),
    "raises": ("raise RuntimeError('boom')", 1, "exit code 1"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.thorough_for(
    "torchrun-crashes", "torchrun-aborts", "torchrun-exits 137", "preload-aborts", "preload-crashes"
)
def test_first_failure_ends_all(
    end: str, starter: list[str], start: Callable[..., Command], script: Callable[[str], str], tmp_path: Path
) -> None:
    code_text, exit_code, how = ENDS[end]
    script(FAIL.format(end=code_text))
    command = start_two(start, starter)
    (tmp_path / "go").touch()
    assert command.end() == exit_code, command.tail
    verdict = [line for line in command.lines if "failed first" in line]
    assert len(verdict) == 1
    assert "rank 1 on " in verdict[0]
    assert how in verdict[0]
    assert command.text.count("last words") == 1, command.text  # shown a moment ago, and not repeated
    if end == "raises":
        assert command.text.count("Traceback (most recent call last)") == 1, command.text
    assert command.survivors() == {}


@torch
def test_first_failure_ends_all_legacy(
    start: Callable[..., Command], script: Callable[[str], str], tmp_path: Path
) -> None:
    """The legacy launcher is torchrun under an older name: one look is enough."""
    test_first_failure_ends_all("exits 7", ["-o", "starter=legacy"], start, script, tmp_path)


ENDING = {"INT": 130, "TERM": 143, "HUP": 129}


@pytest.mark.parametrize("name", ENDING)
@pytest.mark.thorough_for("torchrun-INT", "torchrun-HUP")
def test_signal_to_launcher(
    name: str, starter: list[str], start: Callable[..., Command], script: Callable[[str], str]
) -> None:
    script(SLEEP)
    command = start_two(start, starter)
    command.process.send_signal(getattr(signal, f"SIG{name}"))
    assert command.end() == ENDING[name], command.tail
    assert command.survivors() == {}
    assert "failed" not in command.text
    assert re.search(rf"ended by SIG{name} after .* s; its ranks: 2 x signal 15", command.text)


def test_killed_launcher(starter: list[str], start: Callable[..., Command], script: Callable[[str], str]) -> None:
    script(SLEEP)
    command = start_two(start, starter)
    command.process.kill()
    command.wait_for_no_survivor()


def test_killed_process_group(start: Callable[..., Command], script: Callable[[str], str]) -> None:
    """A terminal or a scheduler that kills the launcher's whole group must not reach the supervisor: it cleans up."""
    script(SLEEP)
    command = start_two(start, [])
    os.killpg(command.process.pid, signal.SIGKILL)
    command.wait_for_no_survivor()


def test_killed_during_start(starter: list[str], start: Callable[..., Command], script: Callable[[str], str]) -> None:
    """The launcher may die before any rank is up."""
    script(SLEEP)
    command = start("launch", "-n", "2", "--grace", "0.5", *starter, "--", "job.py")
    command.wait_for("logs in")
    command.process.kill()
    command.wait_for_no_survivor()


@pytest.mark.parametrize("victim", ["worker", "guard"])
def test_killed_supervisor(
    victim: str, starter: list[str], start: Callable[..., Command], script: Callable[[str], str]
) -> None:
    """Not even the death of the program that ends processes leaves one behind."""
    script(SLEEP)
    command = start_two(start, starter)
    guard, worker = command.supervisors()
    os.kill(worker if victim == "worker" else guard, signal.SIGKILL)
    assert command.end() != 0, command.tail
    assert "ddpkit's process on" in command.text
    assert ("its guard process was killed" in command.text) == (victim == "guard"), command.text
    command.wait_for_no_survivor()


STUBBORN = (
    RANK.replace(
        "import os",
        "import os, signal; signal.signal(signal.SIGTERM, lambda *_: print('got TERM', flush=True))\nimport os",
        1,
    )
    + "\nwhile True: time.sleep(3600)\n"
)


@torch
def test_a_stopped_supervisor_ends_after_its_launcher(
    start: Callable[..., Command], script: Callable[[str], str]
) -> None:
    """It saw no end of its input, and its ranks ran on."""
    script("import os\nprint('rank', os.environ['RANK'], flush=True)\n" + SLEEP)
    command = start_two(start, ["-o", "starter=ranks"])
    _, worker = command.supervisors()
    os.kill(worker, signal.SIGSTOP)
    command.process.kill()
    command.wait_for_no_survivor()


@torch
def test_a_stop_reaches_the_ranks_of_a_stopped_supervisor(
    start: Callable[..., Command], script: Callable[[str], str]
) -> None:
    """Supervisor and guard were stopped: the run was "stopped" although its rank lived."""
    script("import os\nprint('rank', os.environ['RANK'], flush=True)\n" + SLEEP)
    command = start_two(start, ["-o", "starter=ranks"], "--grace", "1")
    for pid in command.supervisors():
        os.kill(pid, signal.SIGSTOP)
    command.process.send_signal(signal.SIGTERM)
    assert command.end() == 143, command.tail
    command.wait_for_no_survivor()


@pytest.mark.parametrize("which", [slice(0, 1), slice(0, 2)], ids=["guard", "both"])
def test_stopped_processes_of_ours_end_after_a_killed_launcher(
    which: slice, start: Callable[..., Command], script: Callable[[str], str]
) -> None:
    script("import os\nprint('rank', os.environ['RANK'], flush=True)\n" + SLEEP)
    command = start("launch", "-n", "2", "--grace", "1", "-o", "starter=ranks", "--", "job.py")
    command.wait_for("rank ", 2)
    for pid in [*command.supervisors()][which]:
        os.kill(pid, signal.SIGSTOP)
    command.process.kill()
    command.wait_for_no_survivor(30)


@pytest.mark.parametrize("late", [False, True])
def test_a_killed_helper_is_the_first_cause(
    start: Callable[..., Command], script: Callable[[str], str], late: bool
) -> None:
    """The rank of a killed rank wrapper is named, and not one that torchrun then ended.

    `late`: the supervisor sees both at the same time.
    """
    script("import os\nprint('rank', os.environ['RANK'], 'helper', os.getppid(), flush=True)\n" + SLEEP)
    command = start_two(start, ["-o", "starter=torchrun"])
    helpers = {int(rank): int(pid) for rank, pid in re.findall(r"rank (\d) helper (\d+)", command.text)}
    _, worker = command.supervisors()
    if late:
        os.kill(worker, signal.SIGSTOP)
    os.kill(helpers[1], signal.SIGKILL)
    wait_until(lambda: not late or helpers[0] not in command.survivors())  # a zombie has no environment, and is none
    os.kill(worker, signal.SIGCONT)
    assert command.end() == 128 + signal.SIGKILL, command.tail
    assert re.search(r"rank 1 on \S+ failed first, after .*: its helper process was killed", command.text), command.text
    command.wait_for_no_survivor()


def test_second_interrupt_ends_at_once(start: Callable[..., Command], script: Callable[[str], str]) -> None:
    script(STUBBORN)
    command = start("launch", "-n", "2", "--grace", "3600", "--", "job.py")
    command.wait_for("child ready", times=2)
    command.process.send_signal(signal.SIGINT)
    command.wait_for("got TERM", times=2)
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 130
    assert command.survivors() == {}


def test_grace_is_kept_and_ends(start: Callable[..., Command], script: Callable[[str], str]) -> None:
    """A rank that ignores TERM lives for the grace, and no longer."""
    script(STUBBORN)
    command = start("launch", "-n", "2", "--grace", "1", "--", "job.py")
    command.wait_for("child ready", times=2)
    before = time.monotonic()
    command.process.send_signal(signal.SIGTERM)
    assert command.end() == 143
    assert time.monotonic() - before >= 1
    assert command.survivors() == {}


FAILS_WHILE_ANOTHER_SAVES = """
import os, signal, sys, time
def save(*_):
    print("saving", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
    print("saved", flush=True)
    sys.exit(0)
if os.environ["RANK"] == "0":
    signal.signal(signal.SIGTERM, save)
    open("ready", "w").close()
    time.sleep(3600)
while not os.path.exists("ready"):
    time.sleep(0.01)
sys.exit(7)
"""


@pytest.mark.parametrize(("signals", "saved"), [(1, True), (2, False)])
def test_a_stop_does_not_shorten_the_grace_after_a_failure(
    signals: int, saved: bool, start: Callable[..., Command], script: Callable[[str], str], tmp_path: Path
) -> None:
    """Who sends TERM may not know that the run ends by a failure. A second one means KILL."""
    script(FAILS_WHILE_ANOTHER_SAVES)
    command = start("launch", "-n", "2", "--grace", "3600", "--", "job.py")
    command.wait_for("saving")
    for _ in range(signals):
        command.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)  # two at the same time would be one
    if saved:
        (tmp_path / "go").touch()
    assert command.end() == 7
    assert ("saved" in command.text) is saved, command.text


SAVES = """
import os, signal, subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", "import time; print('worker ready', flush=True); time.sleep(3600)"])
def save(*_):
    time.sleep(0.5)
    print("saved with worker", "alive" if worker.poll() is None else "dead", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
time.sleep(3600)
"""


def test_a_rank_can_save_with_its_workers(start: Callable[..., Command], script: Callable[[str], str]) -> None:
    """TERM goes to the rank alone: its DataLoader workers must not die while it saves."""
    script(SAVES)
    command = start("launch", "-n", "2", "--", "job.py")
    command.wait_for("worker ready", times=2)
    command.process.send_signal(signal.SIGTERM)
    assert command.end() == 143
    assert command.text.count("saved with worker alive") == 2
    assert command.survivors() == {}


USR1 = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(75))
print("ready", flush=True)
while True: signal.pause()
"""


def test_usr1_is_passed_on(starter: list[str], start: Callable[..., Command], script: Callable[[str], str]) -> None:
    """Schedulers announce the end of a time limit by USR1; 75 means: saved, start me again."""
    script(USR1)
    command = start("launch", "-n", "2", *starter, "--", "job.py")
    command.wait_for("] ready", times=2)
    command.process.send_signal(signal.SIGUSR1)
    assert command.end() == 75, command.tail
    assert "saved a checkpoint" in command.text


def test_usr1_ends_the_shell_around_a_script(
    start: Callable[..., Command], script: Callable[[str], str], tmp_path: Path
) -> None:
    """Its Python has a handler. The shell has none, and the verdict says so."""
    script(USR1)
    (tmp_path / "wrap.sh").write_text(f"#!/bin/bash\n{sys.executable} job.py\necho ended\n")
    (tmp_path / "wrap.sh").chmod(0o755)
    command = start("launch", "-n", "2", "--", "./wrap.sh")
    command.wait_for("] ready", times=2)
    command.process.send_signal(signal.SIGUSR1)
    assert command.end() == 128 + signal.SIGUSR1, command.tail
    assert "A shell script around Python is that process, unless it starts it by `exec python`" in command.text
    assert command.survivors() == {}


RERUNS = """
import multiprocessing, torch.distributed as dist
dist.init_process_group("gloo")
print("started", flush=True)
worker = multiprocessing.get_context("spawn").Process(target=print)
worker.start()
worker.join()
assert worker.exitcode == 0
"""


@pytest.mark.torch
def test_spawn_runs_the_script_again(start: Callable[..., Command], script: Callable[[str], str]) -> None:
    """The worker of rank 0 listens on the port of rank 0: the port is not the cause."""
    script(RERUNS)
    command = start("launch", "-n", "1", "--", "job.py")
    assert command.end() == 1, command.tail
    assert "the script starts processes while it is imported" in command.text
    assert "hint: start the processes below `if __name__ == '__main__':`" in command.text
    assert "another process listens" not in command.text


LEAVES = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; print('leftover ready', flush=True); time.sleep(3600)"])
"""


def test_leftovers_of_a_good_run_are_ended(start: Callable[..., Command], script: Callable[[str], str]) -> None:
    script(LEAVES)
    command = start("launch", "-n", "1", "--", "job.py")
    assert command.end() == 0
    assert "ended processes that a rank left" in command.text
    assert command.survivors() == {}


def test_a_closed_pipe_ends_the_run(
    start: Callable[..., Command], script: Callable[[str], str], tmp_path: Path
) -> None:
    script("import time\nwhile True: print('line', flush=True); time.sleep(0.01)\n")
    command = start("launch", "-n", "1", "--", "job.py")
    command.wait_for("line")
    assert command.process.stdout is not None
    reader = tmp_path / "head.sh"
    reader.write_text(f"{sys.executable} -m ddpkit launch -n 1 -- job.py | head -n 3; echo code ${{PIPESTATUS[0]}}\n")
    import subprocess

    done = subprocess.run(["bash", str(reader)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert "code 141" in done.stdout


def test_nohup_keeps_running(start: Callable[..., Command], script: Callable[[str], str], tmp_path: Path) -> None:
    """Started under nohup, HUP means nothing."""
    script(
        "import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('done')\n"
    )
    import subprocess

    process = subprocess.Popen(
        ["nohup", sys.executable, "-m", "ddpkit", "launch", "-n", "1", "--", "job.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "ready" in line:
            break
    process.send_signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(120) == 0
    assert "] done" in rest


RESTARTED = """
import os, sys, time
attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), os.environ["RANK"]
print("attempt", attempt, flush=True)
open(f"printed.{attempt}.{rank}", "w").close()
while not all(os.path.exists(f"printed.{attempt}.{each}") for each in "01"):  # a failed rank ends the others
    time.sleep(0.02)
sys.exit(3 if attempt == 0 and rank == "1" else 0)
"""


@torch
def test_torchrun_may_start_ranks_again(start: Callable[..., Command], script: Callable[[str], str]) -> None:
    script(RESTARTED)
    command = start("launch", "-n", "2", "-o", "starter=torchrun", "-o", "max_restarts=1", "--", "job.py")
    assert command.end() == 0, command.tail
    assert command.text.count("attempt 1") == 2


KILLED_AND_RESTARTED = """
import os, signal
import torch.distributed as dist

dist.init_process_group("gloo")
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
print("after the barrier", flush=True)
"""


@torch
def test_ranks_that_torchrun_restarts_do_not_find_the_addresses_of_those_before_them(
    start: Callable[..., Command], script: Callable[[str], str]
) -> None:
    script(KILLED_AND_RESTARTED)
    command = start("launch", "-n", "2", "--max-restarts", "1", "--", "job.py")
    assert command.end() == 0, command.tail
    assert command.text.count("after the barrier") == 2


@torch
def test_the_last_attempt_of_torchrun_is_the_verdict(
    start: Callable[..., Command], script: Callable[[str], str]
) -> None:
    script(RESTARTED.replace("attempt == 0 and ", "").replace("3 if", "3 + attempt if"))
    command = start("launch", "-n", "2", "-o", "starter=torchrun", "-o", "max_restarts=1", "--", "job.py")
    assert command.end() == 4, command.tail
    (again,) = [line for line in command.lines if line.startswith("ddpkit: restart ")]
    assert re.fullmatch(r"ddpkit: restart 1 of 1: rank 1 on \S+ failed: exit code 3", again)
    (verdict,) = [line for line in command.lines if "failed first" in line]
    assert verdict.startswith("ddpkit: rank 1 on ")
    assert "exit code 4" in verdict
    assert "[torchrun " not in command.text, "its table is in its own log"
    assert "tap" not in command.text
    assert command.text.count("attempt 1") == 2, "the last lines are of the last attempt, and on the screen"
    assert command.text.count("attempt 0") == 2


@torch
def test_torchrun_itself_fails(start: Callable[..., Command], script: Callable[[str], str]) -> None:
    """A torchrun that cannot start has no rank to blame: its own last words are the verdict."""
    script("print('never')\n")
    command = start("launch", "-n", "1", "-o", "starter=torchrun", "--env", "PET_RDZV_BACKEND=nonsense", "--", "job.py")
    assert command.end() == 1, command.tail
    assert "torchrun on " in command.text
    assert "nonsense" in command.text


CASCADE = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    os._exit(7)
dist.all_reduce(torch.ones(1))
"""


@torch
@pytest.mark.parametrize("options", [[], ["-o", "starter=torchrun"], ["-o", "preload=true"]], ids=str)
def test_consequences_are_not_the_first_failure(
    options: list[str], start: Callable[..., Command], script: Callable[[str], str]
) -> None:
    """Rank 0 fails as well, because rank 1 is gone. The verdict names rank 1."""
    script(CASCADE)
    command = start("launch", "-n", "2", *options, "--", "job.py")
    assert command.end() == 7, command.tail
    assert "rank 1 on " in command.text.partition("failed first")[0].splitlines()[-1]
