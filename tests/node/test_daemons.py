"""Daemons that a rank started for its user stay; all else that it leaves is ended. With real programs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import MARK, PATIENCE, Command, marked
from program import wait_until

from ddpkit.node.process_tree import GROWN_UP, is_shared_daemon, is_young, read_process

TMUX: dict[str, Any] = {
    "standard": ["/dev/null", "/dev/null", "/dev/null"],
    "devices": [],
    "sockets": ["/tmp/tmux-0/default"],
}


@pytest.mark.parametrize(
    ("facts", "shared"),
    [
        ({}, True),
        ({"standard": ["", "", ""]}, True),  # gpg-agent of some versions closes them
        ({"standard": None, "sockets": []}, True),  # ssh-agent of an ordinary user hides what it has open
        ({"standard": ["/dev/null", "pipe:[1]", "pipe:[2]"]}, False),  # a worker with a session of its own
        ({"standard": ["/dev/null", "/dev/null", "pipe:[2]"]}, True),  # gpg-agent, older versions of ssh
        ({"standard": ["/dev/null", "/dev/null", "pipe:[2]"], "sockets": []}, False),
        ({"standard": ["/dev/null", "/home/me/nohup.out", "/home/me/nohup.out"]}, False),
        ({"sockets": []}, False),  # `setsid sleep`; a socket that was removed; TCP alone
        ({"sockets": ["@/tmp/dbus-ab12"]}, True),  # has its name as long as the process lives, and no file
        ({"devices": ["/dev/nvidia0"]}, False),
        ({"devices": ["/dev/nvidia0"], "standard": None}, False),
    ],
)
def test_what_is_a_shared_daemon(facts: dict[str, Any], shared: bool) -> None:
    assert is_shared_daemon(**{**TMUX, **facts}) is shared


# Each starts something that outlives the rank, and waits until it is there.
LEAVES = {
    "setsid worker": "subprocess.Popen(['sleep', '3600'], start_new_session=True)",
    "nohup": "subprocess.Popen('nohup sleep 3600 > out.txt 2>&1 &', shell=True)",
    "setsid, all output given up": "subprocess.Popen('setsid sleep 3600 < /dev/null > /dev/null 2>&1 &', shell=True)",
    "daemon with a TCP port": """
        daemonize(lambda: (socket.create_server(('127.0.0.1', 0)), Path('there').touch(), time.sleep(3600)))
        wait('there')""",
    "daemon whose socket is gone": """
        def serve():
            with socket.socket(socket.AF_UNIX) as server:
                server.bind('gone'); server.listen(); os.unlink('gone'); Path('there').touch(); time.sleep(3600)
        daemonize(serve); wait('there')""",
    "worker that listens": """
        def serve():
            with socket.socket(socket.AF_UNIX) as server:
                server.bind('here'); server.listen(); time.sleep(3600)
        if os.fork() == 0:
            os.setsid(); serve()
        wait('here')""",
    "forkserver": """
        if __name__ == '__main__':
            multiprocessing.set_start_method('forkserver')
            multiprocessing.Process(target=time.sleep, args=(3600,)).start(); time.sleep(1)""",
}
HEAD = """
import multiprocessing, os, signal, socket, subprocess, sys, time
from pathlib import Path
def wait(path):
    while not os.path.exists(path): time.sleep(0.01)
def daemonize(serve):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open('/dev/null', os.O_RDWR)
            for fd in range(3): os.dup2(null, fd)
            os.setsid() if os.getpid() != os.getsid(0) else None
            serve()
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("code", [0, 7])
def test_what_serves_nobody_is_ended(
    name: str, code: int, start: Callable[..., Command], script: Callable[[str], str]
) -> None:
    command = start("launch", "-n", "1", "--", script(HEAD + textwrap.dedent(LEAVES[name]) + f"\nos._exit({code})\n"))
    assert command.end() == code, command.text
    command.wait_for_no_survivor()
    assert "left running" not in command.text


@pytest.fixture
def server(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of daemons in a directory whose sockets have short paths; they end with the test."""
    place = Path("/tmp", f"d{os.getpid()}")
    place.mkdir(mode=0o700)
    yield {"TMUX_TMPDIR": str(place), "GNUPGHOME": str(place)}
    shutil.rmtree(place, ignore_errors=True)


# As gpg-agent on a busy machine: its parent ends before it has left the rank's session.
SLOW = """
import os, socket, time
if os.fork():
    os._exit(0)
time.sleep(0.4); os.setsid(); time.sleep(0.4)
if os.fork():
    os._exit(0)
time.sleep(0.4)
for fd in range(3): os.dup2(os.open(os.devnull, os.O_RDWR), fd)
with socket.socket(socket.AF_UNIX) as server:
    server.bind(f"{os.environ['TMUX_TMPDIR']}/slow"); server.listen(); time.sleep(3600)
"""
# As ssh with ControlPersist: the socket gets its name when it listens.
MOVED = """
import os, socket, time
place = os.environ["TMUX_TMPDIR"]
server = socket.socket(socket.AF_UNIX); server.bind(f"{place}/master.tmp"); server.listen()
os.link(f"{place}/master.tmp", f"{place}/master"); os.unlink(f"{place}/master.tmp")
if os.fork():
    os._exit(0)
os.setsid()
for fd in range(3): os.dup2(os.open(os.devnull, os.O_RDWR), fd)
time.sleep(3600)
"""
BUS = "exec dbus-daemon --session --fork --nopidfile --address=unix:%s"
DAEMONS = {
    "slow": ([sys.executable, "-c", SLOW], Path(sys.executable).name),
    "moved": ([sys.executable, "-c", MOVED], Path(sys.executable).name),
    "setsid": (["sh", "-c", "setsid ssh-agent -D -a $TMUX_TMPDIR/agent < /dev/null > /dev/null 2>&1 &"], "ssh-agent"),
    "dbus": (["sh", "-c", BUS % "path=$TMUX_TMPDIR/bus"], "dbus-daemon"),
    "dbus, a name without a file": (["sh", "-c", BUS % "abstract=$TMUX_TMPDIR/bus"], "dbus-daemon"),
    "tmux": (["tmux", "-f", "/dev/null", "new-session", "-d", "-s", "tensorboard", "sleep 3600"], "tmux: server"),
    "gpg-agent": (["gpg-agent", "--daemon"], "gpg-agent"),
    "ssh-agent": (["sh", "-c", "ssh-agent -a $TMUX_TMPDIR/agent > /dev/null"], "ssh-agent"),
}


@pytest.mark.parametrize("name", DAEMONS)
@pytest.mark.parametrize("how", ["done", "failed", "stopped", "supervisor killed"])
def test_a_daemon_of_the_user_stays(
    name: str, how: str, start: Callable[..., Command], script: Callable[[str], str], server: dict[str, str]
) -> None:
    argv, comm = DAEMONS[name]
    if (name, how) == ("slow", "supervisor killed"):
        pytest.skip("its session has no leader, and who knew those of the ranks is gone")
    if shutil.which(comm.partition(":")[0]) is None:
        pytest.skip(f"no {comm}")
    end = {"done": "", "failed": "sys.exit(7)"}.get(how, "print('ready', flush=True); time.sleep(3600)")
    code = f"{HEAD}\nsubprocess.run({argv!r}, check=True)\nsubprocess.Popen(['sleep', '3600'])\n{end}\n"
    command = start("launch", "-n", "1", "--", script(code), env=server)
    if how in ("stopped", "supervisor killed"):
        command.wait_for("ready")
        pid = command.process.pid if how == "stopped" else command.supervisors()[1]
        os.kill(pid, signal.SIGTERM if how == "stopped" else signal.SIGKILL)
    command.end()
    names = {comm.partition(":")[0]} | ({"sleep"} if name == "tmux" else set())
    wait_until(
        lambda: {words.split()[0].rpartition("/")[2] for words in command.survivors().values()} == names,
        lambda: (command.survivors(), command.text),
    )
    assert len(command.survivors()) == len(names)  # the rank's own `sleep` is gone
    if how != "supervisor killed":
        assert f"daemons that a rank started and other programs can use: {comm} (process " in command.text
    if name == "tmux":  # a window that the user opens in it lives on as well
        argv = ["tmux", "new-window", "-d", "-n", "mywork", "sleep 3601"]
        subprocess.run(argv, env={**os.environ, **server, MARK: command.mark}, check=True, timeout=PATIENCE)
        # tmux does not wait for its start.
        wait_until(
            lambda: any("3601" in words for words in marked(command.mark).values()), lambda: marked(command.mark)
        )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_gets_no_processor_stays_young() -> None:
    """Beside one that takes the whole processor: it could not take its steps yet."""
    place = min(os.sched_getaffinity(0))
    busy = f"import os; os.sched_setaffinity(0, {{{place}}}); %s\nwhile True: pass"
    idle = "import select; select.select([], [], [], 3600)"
    codes = [busy % "", busy % "os.nice(19)", idle]
    started = [subprocess.Popen([sys.executable, "-c", code]) for code in codes]
    try:
        pids = [each.pid for each in started]
        wait_until(lambda: not is_young(pids[2]))
        first = read_process(pids[1])
        assert first is not None
        assert time.clock_gettime(time.CLOCK_BOOTTIME) >= first.started + GROWN_UP
        assert is_young(pids[1])
    finally:
        for each in started:
            each.kill()
            each.wait()


def test_a_window_that_was_opened_during_the_run_stays(
    start: Callable[..., Command], script: Callable[[str], str], server: dict[str, str], tmp_path: Path
) -> None:
    argv = DAEMONS["tmux"][0]
    code = f"{HEAD}\nsubprocess.run({argv!r}, check=True)\nprint('ready', flush=True); wait('go')\n"
    command = start("launch", "-n", "1", "--", script(code), env=server)
    command.wait_for("ready")
    words = ["tmux", "new-window", "-d", "-n", "mywork", "sleep 3601"]
    subprocess.run(words, env={**os.environ, **server}, check=True, timeout=PATIENCE)
    (tmp_path / "go").touch()
    assert command.end() == 0, command.text
    shown = subprocess.run(
        ["tmux", "list-windows", "-a"], env={**os.environ, **server}, capture_output=True, text=True, check=True
    )
    subprocess.run(["tmux", "kill-server"], env={**os.environ, **server}, check=True)
    assert "mywork" in shown.stdout
