"""On nodes that are reached by SSH or pdsh: no process outlives its launcher, however that ends, and the first failure
ends all with its exit code. Sessions, networks and hosts are really cut, killed and frozen."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from launches import ROOT, Launch, foreign, processes, restart_sshd, supervisor_on
from launching import wait_until

torch = pytest.mark.torch
PATIENCE = 120.0
HOSTS = ("node1", "node2")
BOTH = pytest.mark.parametrize("backend", ["ssh", "pdsh"])


def ways(torchrun_over: str, *more: str) -> list[Any]:
    """Return backend and starter, and `more`, as parameters. How a node starts its ranks plays a part in how they end.

    torchrun costs seconds of CPU time on each node: over the other backend it belongs to `make test-thorough`.
    """
    found = []
    for backend, starter in itertools.product(("ssh", "pdsh"), ("ranks", "torchrun")):
        marks = [] if starter == "ranks" else [torch]
        if starter == "torchrun" and backend != torchrun_over:
            marks.append(pytest.mark.thorough)
        found.append(pytest.param(backend, starter, *more, id="-".join((backend, starter, *more)), marks=marks))
    return found


OVER_SSH = pytest.mark.parametrize(("backend", "starter"), ways("ssh"))
OVER_PDSH = pytest.mark.parametrize(("backend", "starter"), ways("pdsh"))

# Each rank has a child that left its session and ignores TERM.
RANK = """
import os, signal, subprocess, sys, time
child = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.setsid(); "
child += "print('child ready', flush=True); time.sleep(3600)"
rank = os.environ["RANK"]
{handler}
subprocess.Popen([sys.executable, "-S", "-c", child])
{then}
while not os.path.exists("go"):
    time.sleep(0.02)
"""
SLEEP = RANK.format(handler="", then="")
CLEANS = RANK.format(
    handler="""
def clean(*_):
    time.sleep(0.2)
    print("cleaned up", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, clean)
""",
    then="",
)
STUBBORN = RANK.format(
    handler="signal.signal(signal.SIGTERM, lambda *_: print('got TERM', flush=True))", then="while True: time.sleep(60)"
)


@pytest.fixture
def run(lab: Lab, tmp_path: Path) -> Iterator[Callable[..., Launch]]:
    """Start `ddpkit launch ... -- job.py` on two nodes; what it leaves behind is ended after the test."""
    started: list[Launch] = []

    def start(
        script: str,
        backend: str,
        starter: str = "ranks",
        *words: str,
        n: int = 1,
        silence: float = 30.0,
        read: bool = True,
    ) -> Launch:
        (tmp_path / "job.py").write_text(script)
        options = ["-o", f"starter={starter}", "-o", f"heartbeat_timeout={silence:g}"]
        argv = ["-b", backend, *HOSTS, "-n", str(n), *options, *words, "--", "job.py"]
        started.append(Launch(lab, tmp_path, argv, read=read))
        return started[-1]

    yield start
    for each in started:
        each.clean_up()
        if each.process.stdout is not None:
            each.process.stdout.close()


@pytest.fixture
def faulty(lab: Lab) -> Iterator[Lab]:
    """A lab whose node2 may be cut off or killed: afterwards it is whole again."""
    yield lab
    lab.mend("node2")
    try:
        lab.init_pid("node2")
    except (OSError, IndexError):
        lab.boot("node2")


def spare_sshd(host: str, line: str) -> bool:
    """The session of a host that is cut off is for sshd to give up: by default that takes hours."""
    return host == "node2" and line.startswith("sshd: ")


# ---- the launcher ends

SIGNALS = {"INT": 130, "TERM": 143, "HUP": 129}


@pytest.mark.parametrize(
    ("backend", "starter", "name"), [*ways("ssh", "INT"), *ways("pdsh", "TERM"), *ways("ssh", "HUP")]
)
@pytest.mark.thorough_for("ssh-torchrun-HUP")
def test_a_signal_gives_ranks_their_grace(name: str, backend: str, starter: str, run: Callable[..., Launch]) -> None:
    launch = run(CLEANS, backend, starter, "--grace", "60")
    launch.wait_for("child ready", times=2)
    launch.signal(signal.Signals[f"SIG{name}"])
    assert launch.end() == SIGNALS[name], launch.tail
    assert sum("] cleaned up" in line for line in launch.lines) == 2
    assert "failed" not in launch.text
    assert f"ended by SIG{name}" in launch.text
    launch.wait_for_nothing_left()


@BOTH
def test_ranks_that_ignore_term_live_for_the_grace(backend: str, run: Callable[..., Launch]) -> None:
    launch = run(STUBBORN, backend, "ranks", "--grace", "1", n=2)
    launch.wait_for("child ready", times=4)
    before = time.monotonic()
    launch.signal(signal.SIGTERM)
    assert launch.end() == 143
    assert time.monotonic() - before >= 1
    launch.wait_for_nothing_left()


@BOTH
def test_a_second_interrupt_ends_at_once(backend: str, run: Callable[..., Launch]) -> None:
    launch = run(STUBBORN, backend, "ranks", "--grace", "3600")
    launch.wait_for("child ready", times=2)
    launch.signal(signal.SIGINT)
    launch.wait_for("got TERM", times=2)
    launch.signal(signal.SIGINT)
    assert launch.end() == 130
    launch.wait_for_nothing_left()


@BOTH
def test_quit_ends_at_once(backend: str, run: Callable[..., Launch]) -> None:
    launch = run(STUBBORN, backend, "ranks", "--grace", "3600")
    launch.wait_for("child ready", times=2)
    launch.signal(signal.SIGQUIT)
    assert launch.end() == 131
    launch.wait_for_nothing_left()


@OVER_PDSH
def test_a_killed_launcher(backend: str, starter: str, run: Callable[..., Launch]) -> None:
    """Nothing is left on the nodes, nor of pdsh and its folder on this side."""
    launch = run(SLEEP, backend, starter, "--grace", "1")
    launch.wait_for("child ready", times=2)
    launch.signal(signal.SIGKILL)
    launch.wait_for_nothing_left()


@OVER_SSH
def test_a_launcher_killed_while_ranks_start(backend: str, starter: str, run: Callable[..., Launch]) -> None:
    launch = run(SLEEP, backend, starter, "--grace", "1")
    launch.wait_for("logs in")
    launch.signal(signal.SIGKILL)
    launch.wait_for_nothing_left()


EARLY = {"INT": (130, signal.SIGINT), "TERM": (-15, signal.SIGTERM), "KILL": (-9, signal.SIGKILL)}


@BOTH
@pytest.mark.parametrize("name", EARLY)
def test_a_launcher_that_ends_while_it_connects(
    name: str, backend: str, faulty: Lab, run: Callable[..., Launch]
) -> None:
    """node1 is entered already, node2 is cut off and does not answer."""
    faulty.cut("node2")
    launch = run(SLEEP, backend)
    wait_until(lambda: any("alarm" in line for host, line in processes(faulty, ["node1"]).values()))
    code, number = EARLY[name]
    launch.signal(number)
    assert launch.end() == code
    assert launch.lines == (["ddpkit: ended before any rank was started"] if name == "INT" else [])
    launch.wait_for_nothing_left()


# A Python that says which torch it has only after an hour, and not by itself.
SLOW_PYTHON = """#!/bin/sh
case "$*" in
*find_spec*) touch asked; sleep 3600; exit ;;
esac
exec {python} "$@"
"""


@BOTH
@pytest.mark.parametrize("name", EARLY)
def test_a_launcher_that_ends_while_it_asks(
    name: str, backend: str, run: Callable[..., Launch], tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(SLOW_PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    launch = run(SLEEP, backend, "torchrun", "--python", str(python))
    wait_until((tmp_path / "asked").exists)
    code, number = EARLY[name]
    launch.signal(number)
    assert launch.end() == code
    assert launch.lines == (["ddpkit: ended before any rank was started"] if name == "INT" else [])
    launch.wait_for_nothing_left()


HOPS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for leaves in (False, True):
    if os.fork() == 0:
        until = time.time() + 600  # should the test fail
        while time.time() < until:
            if os.fork():
                os._exit(0)
            if leaves:
                os.setsid()
        os._exit(0)
print("child ready", flush=True)
time.sleep(3600)
"""


def test_what_forks_without_end_is_ended(run: Callable[..., Launch]) -> None:
    """Two processes that are another one every millisecond, one of them in another session each time."""
    launch = run(HOPS, "ssh", "ranks", "--grace", "0.5")
    launch.wait_for("child ready", times=2)
    launch.signal(signal.SIGKILL)
    launch.wait_for_nothing_left()


@BOTH
def test_only_this_run_is_touched(backend: str, lab: Lab, run: Callable[..., Launch], tmp_path: Path) -> None:
    """On each node somebody runs the very command line of a rank, and goes on running it."""
    others = [foreign(lab, host, tmp_path) for host in HOSTS]
    try:
        for number in (signal.SIGINT, signal.SIGKILL):
            launch = run(SLEEP, backend, "ranks", "--grace", "1")
            launch.wait_for("child ready", times=2)
            lines = [line for _, line in processes(lab, HOSTS).values()]
            assert lines.count(f"{sys.executable} job.py") == 4
            launch.signal(number)
            launch.process.wait(PATIENCE)
            launch.wait_for_nothing_left()
            assert [each.poll() for each in others] == [None, None]
    finally:
        for each in others:
            os.killpg(each.pid, signal.SIGKILL)
            each.wait()


# ---- a rank fails

FAILS = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    print("last words", flush=True)
    with open("died", "w") as file:
        file.write(str(time.time()))
    {end}
dist.all_reduce(torch.ones(1))
"""
ENDS = {
    "exits 7": ("os._exit(7)", 7, "exit code 7"),
    "is killed": ("os.kill(os.getpid(), 9)", 137, "killed by signal 9 (SIGKILL)"),
    "raises": ("raise RuntimeError('boom')", 1, "exit code 1"),
}


@torch
@pytest.mark.parametrize(
    ("end", "backend", "starter"),
    [
        ("exits 7", "ssh", "ranks"),
        ("is killed", "pdsh", "torchrun"),
        ("raises", "pdsh", "torchrun"),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in (("exits 7", "pdsh", "torchrun"), ("is killed", "ssh", "ranks"), ("raises", "ssh", "ranks"))
        ),
    ],
)
@pytest.mark.thorough_for("is killed-pdsh-torchrun")
def test_a_rank_fails_while_others_wait_for_it(
    end: str, backend: str, starter: str, run: Callable[..., Launch], tmp_path: Path
) -> None:
    """Rank 0 waits in an all_reduce on the other node. By hand torchrun tells of it after 300 s."""
    text, code, how = ENDS[end]
    launch = run(FAILS.format(end=text), backend, starter)
    ended = launch.end()
    (verdict,) = [line for line in launch.lines if "failed first" in line]
    assert "rank 1 on node2 failed first" in verdict
    # A rank that raises may abort in torch's own teardown (ddpkit explain teardown-abort).
    aborted = end == "raises" and "torch's own teardown" in verdict
    assert ended == (134 if aborted else code), launch.text
    assert aborted or how in verdict
    assert "last words" in launch.text
    assert end != "raises" or ("Traceback" in launch.text and "RuntimeError: boom" in launch.text)
    seconds = launch.times[launch.lines.index(verdict)] - float((tmp_path / "died").read_text())
    assert seconds < 30.0, "torchrun alone takes 300"
    launch.wait_for_nothing_left()


@BOTH
@pytest.mark.thorough_for("pdsh")
def test_a_frozen_rank_is_no_failure(backend: str, run: Callable[..., Launch], tmp_path: Path) -> None:
    launch = run(SLEEP, backend, silence=8)
    launch.wait_for("child ready", times=2)
    host, pid = launch.ranks()[1]
    assert host == "node2"

    def state() -> str:
        shown = [json.loads(path.read_text()) for path in tmp_path.glob("logs/*/status.json")]
        ranks = shown[0]["hosts"].get("node2", {"ranks": {}})["ranks"] if shown else {}
        return str(ranks.get("1", {"state": ""})["state"])

    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state() == "T")
    assert launch.process.poll() is None
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: state() == "S")
    (tmp_path / "go").touch()
    assert launch.end() == 0, launch.tail
    launch.wait_for_nothing_left()


# ---- what is between them fails


@BOTH
@pytest.mark.parametrize("victim", ["worker", "guard", "both"])
def test_a_killed_supervisor(victim: str, backend: str, lab: Lab, run: Callable[..., Launch]) -> None:
    """Both at once: the ranks go with the worker, as the kernel was asked to see to."""
    launch = run("import time\nprint('child ready', flush=True)\ntime.sleep(3600)\n", backend, "ranks", "--grace", "1")
    launch.wait_for("child ready", times=2)
    guard, worker = supervisor_on(lab, "node2")
    os.kill(worker, signal.SIGSTOP)  # it is told when its guard is killed, and would end before its turn
    for pid in {"worker": [worker], "guard": [guard], "both": [guard, worker]}[victim]:
        os.kill(pid, signal.SIGKILL)
    if victim == "guard":
        os.kill(worker, signal.SIGCONT)
    assert launch.end() not in (0, 130), launch.text
    assert "ddpkit's process on node2 failed first" in launch.text
    launch.wait_for_nothing_left(folders=victim != "both")


@BOTH
@pytest.mark.thorough_for("pdsh")
def test_a_stop_that_a_frozen_supervisor_does_not_confirm_has_failed(
    backend: str, lab: Lab, run: Callable[..., Launch]
) -> None:
    """It was "stopped" although the rank ran on."""
    launch = run("import time\nprint('child ready', flush=True)\ntime.sleep(3600)\n", backend, "ranks", "--grace", "1")
    launch.wait_for("child ready", times=2)
    both = supervisor_on(lab, "node2")
    for pid in both:
        os.kill(pid, signal.SIGSTOP)
    try:
        launch.signal(signal.SIGTERM)
        assert launch.end() == 125, launch.text
        assert re.search(r"did not confirm its end; rank 1 \(pid \d+\) may still run", launch.text), launch.text
    finally:
        for pid in both:
            with suppress(ProcessLookupError):  # the end of the connection continues and ends them, where it comes
                os.kill(pid, signal.SIGCONT)
    launch.wait_for_nothing_left()


@BOTH
def test_a_killed_worker_leaves_no_child_of_a_rank(backend: str, lab: Lab, run: Callable[..., Launch]) -> None:
    launch = run(SLEEP, backend, "ranks", "--grace", "1")
    launch.wait_for("child ready", times=2)
    _, worker = supervisor_on(lab, "node2")
    os.kill(worker, signal.SIGKILL)
    assert launch.end() == 125
    launch.wait_for_nothing_left()


@BOTH
def test_on_end_after_a_lost_node(backend: str, lab: Lab, run: Callable[..., Launch], tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text('on_end = "cat > record.json; exit 3"\n')
    launch = run(SLEEP, backend, "ranks", "--grace", "1")
    launch.wait_for("child ready", times=2)
    shown = processes(lab, ["node2"])
    (session,) = [pid for pid, (_, line) in shown.items() if line.startswith("sshd: ") and pid not in launch.before]
    os.kill(session, signal.SIGKILL)
    assert launch.end() == 125, launch.tail
    record = json.loads((tmp_path / "record.json").read_text())
    assert (record["state"], record["failure"]["host"]) == ("failed", "node2")
    assert record["versions"].keys() == set(HOSTS)
    assert "on_end: exit code 3 after " in launch.text
    launch.wait_for_nothing_left()


@BOTH
def test_a_restarted_sshd_does_no_harm(backend: str, lab: Lab, run: Callable[..., Launch], tmp_path: Path) -> None:
    launch = run(SLEEP, backend)
    launch.wait_for("child ready", times=2)
    restart_sshd(lab, "node2")
    (tmp_path / "go").touch()
    assert launch.end() == 0, launch.tail
    launch.wait_for_nothing_left()


@OVER_PDSH
def test_a_killed_session(backend: str, starter: str, lab: Lab, run: Callable[..., Launch]) -> None:
    launch = run(SLEEP, backend, starter, "--grace", "1")
    launch.wait_for("child ready", times=2)
    shown = processes(lab, ["node2"])
    (session,) = [pid for pid, (_, line) in shown.items() if line.startswith("sshd: ") and pid not in launch.before]
    os.kill(session, signal.SIGKILL)
    assert launch.end() == 125, launch.tail
    assert "ddpkit's process on node2 failed first" in launch.text
    assert "connection was lost" in launch.text
    launch.wait_for_nothing_left()


@OVER_SSH
def test_a_cut_network(backend: str, starter: str, faulty: Lab, run: Callable[..., Launch]) -> None:
    """The others are ended by the launcher, the ranks on the far side by their own supervisor, while it is cut off."""
    launch = run(SLEEP, backend, starter, "--grace", "1", silence=10)
    launch.wait_for("child ready", times=2)
    faulty.cut("node2")
    assert launch.end() == 125, launch.tail
    assert "ddpkit's process on node2 failed first" in launch.text
    assert "no heartbeat for 10 s" in launch.text
    launch.wait_for_nothing_left(spared=spare_sshd)


def test_a_cut_network_while_it_asks(faulty: Lab, run: Callable[..., Launch], tmp_path: Path) -> None:
    """Nothing runs yet, and yet a supervisor that waits for its request is a process: it does not wait for ever."""
    python = tmp_path / "python"
    python.write_text(
        SLOW_PYTHON.format(python=sys.executable).replace("sleep 3600", "[ $(hostname) = node2 ] || sleep 60")
    )
    python.chmod(0o755)
    launch = run(SLEEP, "ssh", "torchrun", "--python", str(python))
    wait_until((tmp_path / "asked").exists)
    faulty.cut("node2")
    assert launch.end() == 123, launch.tail
    launch.wait_for_nothing_left(spared=spare_sshd)


@BOTH
def test_a_short_cut_does_no_harm(backend: str, faulty: Lab, run: Callable[..., Launch], tmp_path: Path) -> None:
    launch = run(SLEEP, backend, silence=20)
    launch.wait_for("child ready", times=2)
    faulty.cut("node2")
    time.sleep(2)  # the length of the cut
    faulty.mend("node2")
    (tmp_path / "go").touch()
    assert launch.end() == 0, launch.tail
    launch.wait_for_nothing_left()


@BOTH
def test_a_dead_host(backend: str, faulty: Lab, run: Callable[..., Launch]) -> None:
    launch = run(SLEEP, backend, "ranks", "--grace", "1", silence=10)
    launch.wait_for("child ready", times=2)
    faulty.kill("node2")
    assert launch.end() == 125, launch.tail
    assert "ddpkit's process on node2 failed first" in launch.text
    launch.wait_for_nothing_left(folders=False)


@BOTH
def test_a_launcher_stopped_for_too_long(backend: str, lab: Lab, run: Callable[..., Launch]) -> None:
    """To the nodes it is a dead one: they end their ranks. When it goes on it says why."""
    launch = run(CLEANS, backend, silence=8)
    launch.wait_for("child ready", times=2)
    pid = launch.pid()
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: not launch.ranks())
    os.kill(pid, signal.SIGCONT)
    launch.process.send_signal(signal.SIGCONT)  # nsenter stopped with it
    assert launch.end() == 125, launch.tail
    assert "no heartbeat from the launcher for 8 s" in launch.text
    assert sum("] cleaned up" in line for line in launch.lines) == 2
    launch.wait_for_nothing_left()


FLOOD = """
import os, time
line = b"x" * 1000 + b"\\n"
count = 0
for turn in range(3000):
    os.write(1, line * 64)
    with open("count." + os.environ["RANK"], "w") as file:
        file.write(str(turn))
    if os.path.exists("go"):
        break
print("the end", flush=True)
"""


@BOTH
@pytest.mark.thorough_for("pdsh")
def test_a_launcher_whose_output_nobody_reads(backend: str, run: Callable[..., Launch], tmp_path: Path) -> None:
    """As behind a `| less` that was left alone: ranks wait, and neither side takes the other for dead."""
    silence = 6.0
    launch = run(FLOOD, backend, silence=silence, read=False)
    counts: list[str] = []

    def stands() -> bool:
        counts.append("".join(path.read_text() for path in sorted(tmp_path.glob("count.*"))))
        time.sleep(0.05)
        return len(counts) > 40 and len(set(counts[-40:])) == 1 and counts[-1] != ""

    wait_until(stands)  # nothing more fits between the ranks and the screen
    memory = Path(f"/proc/{launch.pid()}/status").read_text().partition("VmRSS:")[2].split()[0]
    assert int(memory) < 400_000  # kilobytes; the flood has 380 MB
    time.sleep(2 * silence)  # the time that nobody reads
    assert launch.process.poll() is None
    assert len(launch.ranks()) == 2
    launch.read()
    (tmp_path / "go").touch()
    assert launch.end() == 0, launch.text[-2000:]
    assert sum("the end" in line for line in launch.lines) == 2
    launch.wait_for_nothing_left()


# ---- all of it by chance


@torch
def test_some_rounds(tmp_path: Path) -> None:
    """A few of `make rounds`."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench/rounds.py"), "--rounds", "3", "--seed", "7"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "3 rounds, 0 wrong" in done.stdout
