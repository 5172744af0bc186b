"""`ddpkit shell`, `debug` and `forward` on this machine: where a rank runs, its terminal, its ports."""

from __future__ import annotations

import json
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import PATIENCE, Command
from program import wait_until
from terminal import Terminal

from ddpkit.errors import DdpkitError
from ddpkit.launchers.shell import join
from ddpkit.monitor.rank_command import forward_port, listen, relay_words
from ddpkit.monitor.server import MonitorServer, Watching
from ddpkit.node import at_rank, debugpy_attach, relay
from ddpkit.node.relay import READY, Relay
from ddpkit.run.launcher_process import process_start, process_state

DDPKIT = Callable[..., subprocess.CompletedProcess[str]]
START = Callable[..., Command]
SCRIPT = Callable[..., str]

WAITS = "import time; print('ready', flush=True); time.sleep(3600)\n"


@pytest.fixture
def waits(start: START, script: SCRIPT, tmp_path: Path) -> Command:
    script(WAITS)
    env = {"SHELL": "/bin/sh", "PYTHONPATH": str(tmp_path / "modules")}
    command = start("launch", "-n", "2", "--", "job.py", env=env)
    command.wait_for("ready", 2)
    return command


# ---- a command, and a terminal


@pytest.mark.parametrize("option", ["starter=ranks", "preload=json"])
def test_a_command_has_the_place_and_the_environment_of_the_rank(
    option: str, start: START, script: SCRIPT, ddpkit: DDPKIT, tmp_path: Path
) -> None:
    script(WAITS)
    start("launch", "-n", "2", "-o", option, "--env", "MINE=a b", "--", "job.py").wait_for("ready", 2)
    say = 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $MINE $PWD"; env | grep -c -e ddpkit.zip -e DDPKIT_HOOK; exit 7'
    done = ddpkit("shell", "--rank", "1", "--", "sh", "-c", say)
    assert (done.returncode, done.stdout) == (7, f"1 2 1 a b {tmp_path}\n0\n"), done.stderr


def test_a_rank_that_does_not_run(waits: Command, ddpkit: DDPKIT) -> None:
    done = ddpkit("shell", "--rank", "2", "--", "true")
    assert done.returncode == 121
    assert "rank 2 of run" in done.stderr
    assert ddpkit("shell", "--rank", "x").returncode == 121


def test_a_dry_run_starts_nothing_and_asks_nobody(waits: Command, ddpkit: DDPKIT, tmp_path: Path) -> None:
    wait_until(lambda: [path for path in tmp_path.glob("logs/*/status.json") if '"pid":' in path.read_text()])
    waits.process.send_signal(signal.SIGSTOP)  # the launcher would not answer, and writes nothing meanwhile
    wait_until(lambda: Path(f"/proc/{waits.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    done = ddpkit("shell", "--dry-run", "--", "touch", "made")
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    waits.process.send_signal(signal.SIGCONT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(sys.executable)
    assert not (tmp_path / "made").exists()
    assert subprocess.run(["sh", "-c", done.stdout], cwd="/", check=True).returncode == 0
    assert (tmp_path / "made").exists()  # the command that was shown does it, in the rank's directory


def test_a_shell_in_a_terminal(waits: Command, clean_environ: dict[str, str], tmp_path: Path) -> None:
    """Its size is the terminal's, Ctrl-C is the shell's, and afterwards the terminal is as it was."""
    ask = join([sys.executable, "-m", "ddpkit", "shell", "--rank", "1"])
    env = {**clean_environ, "TERM": "xterm", "SHELL": "/bin/sh", "PS1": "> "}
    terminal = Terminal(["sh", "-c", f"stty -echo -ixon; stty -g; {ask}; echo code $?; stty -g"], tmp_path, env)
    terminal.resize(97, 31)
    terminal.wait_for(lambda: terminal.shows("^[0-9a-f]+:"))
    os.write(terminal.handle, b"stty echo; echo in $RANK; stty size\n")
    terminal.wait_for(lambda: terminal.shows(r"\bin 1$") and terminal.shows("^31 97"))
    # Printed by the command itself: from then on it has the terminal.
    os.write(terminal.handle, b"sh -c 'echo be\"\"gun; exec sleep 3600'\n")
    terminal.wait_for(lambda: terminal.shows("begun$"))
    os.write(terminal.handle, b"\x03")
    terminal.wait_for(lambda: terminal.glass.lines[-1].strip() in ("#", "$"))
    os.write(terminal.handle, b"echo still $((40 + 2)); exit 5\n")
    terminal.wait_for(lambda: terminal.shows("still 42"))
    assert terminal.end() == 0
    assert terminal.shows("^code 5")
    states = [line for line in terminal.glass.lines if line.count(":") > 10]
    assert len(states) == 2
    assert states[0] == states[1]
    terminal.close()


def are_stopped(word: bytes) -> bool:
    """Whether all processes with a word in their command line are stopped, or wait for a child that is (vfork)."""
    commands = {int(each.parent.name): each for each in Path("/proc").glob("[0-9]*/cmdline")}
    found = []
    for pid, command in commands.items():
        with suppress(OSError):
            found += [pid] if word in command.read_bytes() else []
    return all(process_state(pid) in "TD" for pid in found)


@pytest.mark.skipif(not shutil.which("bash"), reason="no shell with job control")
def test_a_command_is_suspended_and_goes_on(waits: Command, clean_environ: dict[str, str], tmp_path: Path) -> None:
    """Ctrl-Z gives the terminal back to the shell that started it, as it was; `fg` gives it to the command again."""
    env = {**clean_environ, "TERM": "xterm", "INPUTRC": "/dev/null", "PS1": "> "}
    terminal = Terminal(["bash", "--norc", "--noediting", "-i"], tmp_path, env)
    command = "stty -echo; echo be''gun; read line; echo read $line; stty -g; read line; echo read $line"
    os.write(terminal.handle, b"echo before $(stty -g)\n")
    terminal.wait_for(lambda: terminal.shows("before [0-9a-f]+:"))
    words = [sys.executable, "-m", "ddpkit", "shell", "--rank", "1", "--", "sh", "-c", command]
    os.write(terminal.handle, f"{join(words)}\n".encode())
    terminal.wait_for(lambda: terminal.shows("begun$"))
    for number in range(2):
        os.write(terminal.handle, b"\x1a")
        terminal.wait_for_bytes(b"Stopped", number + 1)
        terminal.wait_for(partial(are_stopped, b"be''gun"))  # what is typed is the shell's from now on
        os.write(terminal.handle, b"echo after %d $(stty -g)\n" % number)
        terminal.wait_for(partial(terminal.shows, f"after {number} [0-9a-f]+:"))
        os.write(terminal.handle, b"fg\nline %d\n" % number)
        terminal.wait_for(partial(terminal.shows, f"read line {number}$"))
    os.write(terminal.handle, b"echo code $?; exit\n")
    assert terminal.end() == 0
    assert terminal.shows("code 0$")
    states = re.findall(r"(?:before|after \d) ([0-9a-f]+:\S+)", "\n".join(terminal.glass.lines))
    assert len(states) == 3
    assert len(set(states)) == 1


# It stops alone, as a program that reads Ctrl-Z as a key, and once more as soon as it is continued.
STOPS_ALONE = """
import os, signal, sys
again = True
def stop(*_):
    global again
    if again:
        again = False
        os.kill(os.getpid(), signal.SIGTSTP)
signal.signal(signal.SIGCONT, stop)
os.kill(os.getpid(), signal.SIGTSTP)
print("read", input(), flush=True)
"""


@pytest.mark.skipif(not shutil.which("bash"), reason="no shell with job control")
def test_a_command_that_stops_alone(waits: Command, clean_environ: dict[str, str], tmp_path: Path) -> None:
    """The shell has the terminal each time, also where the command stops again at once."""
    env = {**clean_environ, "TERM": "xterm", "INPUTRC": "/dev/null", "PS1": "> "}
    terminal = Terminal(["bash", "--norc", "--noediting", "-i"], tmp_path, env)
    words = [sys.executable, "-m", "ddpkit", "shell", "--rank", "1", "--", sys.executable, "-c", STOPS_ALONE]
    (tmp_path / "words").write_text(join(words))
    os.write(terminal.handle, b'eval "$(cat words)"\n')
    for number in range(2):
        terminal.wait_for_bytes(b"Stopped", number + 1)
        os.write(terminal.handle, b"echo in$((number + %d))\n" % number)
        terminal.wait_for(partial(terminal.shows, f"in{number}$"))
        os.write(terminal.handle, b"fg\n")
    os.write(terminal.handle, b"a line\n")
    terminal.wait_for(lambda: terminal.shows("read a line$"))
    os.write(terminal.handle, b"echo code $?; exit\n")
    assert terminal.end() == 0
    assert terminal.shows("code 0$")


@pytest.mark.skipif(not shutil.which("bash"), reason="no shell with job control")
def test_a_command_in_the_background_leaves_the_terminal(
    waits: Command, clean_environ: dict[str, str], tmp_path: Path
) -> None:
    env = {**clean_environ, "TERM": "xterm", "INPUTRC": "/dev/null", "PS1": "> "}
    terminal = Terminal(["bash", "--norc", "--noediting", "-i"], tmp_path, env)
    os.mkfifo(tmp_path / "go")
    words = [sys.executable, "-m", "ddpkit", "shell", "--rank", "1", "--", "cat", str(tmp_path / "go")]
    ended = tmp_path / "ended"
    os.write(terminal.handle, f"({join(words)}; touch {ended}) & cat\n".encode())
    (tmp_path / "go").write_text("gone")  # opened when the command in the background reads it
    terminal.wait_for(ended.exists)
    os.write(terminal.handle, b"a line\n")
    terminal.wait_for_bytes(b"a line\r\n", 2)  # by the terminal, and by `cat`
    os.write(terminal.handle, b"\x04echo code $?; exit\n")
    assert terminal.end() == 0
    assert terminal.shows("code 0$")


def test_a_process_with_a_reused_number_is_not_entered(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "3600"], env={"DDPKIT_RUN": "mine"}) as process:
        try:
            until = time.monotonic() + PATIENCE
            while at_rank.find(["mine"], process.pid) != process.pid:  # before its exec it has our variables
                assert time.monotonic() < until
            assert at_rank.find(["another"], process.pid) is None
        finally:
            process.kill()


# ---- ports


def exchange(port: int, data: bytes) -> bytes:
    """Send bytes, say that no more come, and return what comes back."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as end:

        def send() -> None:
            end.sendall(data)
            end.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        found = b"".join(iter(lambda: end.recv(1 << 16), b""))
        sender.join()
    return found


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def echo(server: socket.socket) -> None:
    """Greet each connection, and send back all that comes, when no more comes."""
    while True:
        try:
            end, _ = server.accept()
        except OSError:
            return

        def serve(end: socket.socket = end) -> None:
            with end:
                end.sendall(b"hello ")
                end.sendall(b"".join(iter(lambda: end.recv(1 << 16), b"")))

        threading.Thread(target=serve, daemon=True).start()


@contextmanager
def carried(there: socket.socket) -> Iterator[int]:
    """Carry connections to a port of this machine, which is yielded, to that of a server, by both ends of a relay."""
    argv = [sys.executable, *relay_words(there.getsockname()[1])[1:]]
    here = socket.create_server(("127.0.0.1", 0))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        assert node.stdout.readline() == READY
        relay = Relay(node.stdout.fileno(), node.stdin.fileno())
        carrier = threading.Thread(target=relay.run, args=(here,), daemon=True)
        carrier.start()
        yield here.getsockname()[1]
        node.kill()
        carrier.join(PATIENCE)
        assert not carrier.is_alive()


def test_connections_are_carried_apart_and_whole() -> None:
    there = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=echo, args=(there,), daemon=True).start()
    draw = random.Random(7)
    sizes = [0, 1, 5_000_000, *[draw.randrange(100_000) for _ in range(20)]]
    payloads = [draw.randbytes(size) for size in sizes]
    found: dict[int, bytes] = {}
    with carried(there) as port:

        def one(number: int) -> None:
            found[number] = exchange(port, payloads[number])

        clients = [threading.Thread(target=one, args=(number,)) for number in range(len(payloads))]
        for client in clients:
            client.start()
        for client in clients:
            client.join(PATIENCE)
        assert found == {number: b"hello " + payload for number, payload in enumerate(payloads)}
        there.shutdown(socket.SHUT_RDWR)  # a port that nobody listens at: the connection ends
        there.close()
        assert exchange(port, b"") == b""


def test_a_client_that_does_not_read_holds_up_no_other_one() -> None:
    there = socket.create_server(("127.0.0.1", 0))
    sizes, gone = [50_000_000, 10], threading.Event()

    def serve() -> None:
        for size in sizes:
            end, _ = there.accept()

            def send(end: socket.socket = end, size: int = size) -> None:
                with end:
                    try:
                        end.sendall(bytes(size))
                        end.recv(1)  # a connection that its program has closed already is not carried
                    except OSError:
                        gone.set()

            threading.Thread(target=send, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    with there, carried(there) as port:
        paused = socket.create_connection(("127.0.0.1", port), PATIENCE)
        assert paused.recv(1) == b"\0"
        assert exchange(port, b"") == bytes(10)
        paused.close()  # with bytes on their way: the service sees that its client is gone
        assert gone.wait(PATIENCE)


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_is_forwarded_until_the_end(
    family: socket.AddressFamily, address: str, waits: Command, start: START, ddpkit: DDPKIT
) -> None:
    with socket.create_server((address, 0), family=family) as there:
        threading.Thread(target=echo, args=(there,), daemon=True).start()
        port, local = there.getsockname()[1], find_port()
        way = start("forward", str(port), "--rank", "1", "--local-port", str(local))
        way.wait_for("Ctrl-C ends it")
        assert exchange(local, b"data") == b"hello data"
        taken = ddpkit("forward", str(port), "--local-port", str(local))
        assert (taken.returncode, "Address already in use" in taken.stderr) == (121, True)
        way.process.send_signal(signal.SIGTERM)
        assert way.end() == 0
    assert ddpkit("forward", "0").returncode == 121


needs_users = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
alone = pytest.mark.skipif(bool(debugpy_attach.other_users()), reason="other people use this machine")
OTHER = 65534
SERVES = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    server.accept()[0].sendall(b"not yours")
"""


@needs_users
def test_another_user_of_this_host_has_no_part_in_a_forwarded_port(waits: Command, start: START) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        threading.Thread(target=echo, args=(there,), daemon=True).start()
        port, local = there.getsockname()[1], find_port()
        start("forward", str(port), "--local-port", str(local)).wait_for("Ctrl-C ends it")
        asks = f"import socket; print(socket.create_connection(('127.0.0.1', {local})).recv(99))"
        argv = ["/usr/bin/python3", "-c", asks]
        done = subprocess.run(argv, user=OTHER, cwd="/", capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert "hello" not in done.stdout
        assert exchange(local, b"data") == b"hello data"


@needs_users
def test_nothing_is_taken_of_another_user_who_has_closed_already(waits: Command, start: START) -> None:
    came: list[bytes] = []

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                with server.accept()[0] as end:
                    came.append(end.recv(99))
                    end.sendall(b"taken")

    with socket.create_server(("127.0.0.1", 0)) as there:
        threading.Thread(target=serve, args=(there,), daemon=True).start()
        port, local = there.getsockname()[1], find_port()
        start("forward", str(port), "--local-port", str(local)).wait_for("Ctrl-C ends it")
        sends = (
            "import socket\nfor _ in range(20):\n    "
            f"with socket.create_connection(('127.0.0.1', {local})) as end:\n        end.sendall(b'evil')"
        )
        subprocess.run(["/usr/bin/python3", "-c", sends], user=OTHER, cwd="/", timeout=PATIENCE, check=False)
        assert exchange(local, b"data") == b"taken"
    assert b"evil" not in b"".join(came)


@needs_users
@alone
@pytest.mark.parametrize("command", ["forward", "debug"])
def test_nothing_is_sent_to_the_server_of_another_user(
    command: str, waits: Command, ddpkit: DDPKIT, tmp_path: Path
) -> None:
    (tmp_path / "modules/debugpy").mkdir(parents=True)
    (tmp_path / "modules/debugpy/__init__.py").touch()
    argv = ["/usr/bin/python3", "-c", SERVES]
    with subprocess.Popen(argv, user=OTHER, cwd="/", stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        words = {"forward": [port, "--local-port", str(find_port())], "debug": ["--port", port]}[command]
        done = ddpkit(command, *words)
        server.kill()
    assert done.returncode == 1
    assert f"port {port} of {os.uname().nodename} is another user's, nobody" in done.stderr


# ---- a debugger


IN_HIDING = """
import importlib.machinery, sys, types
sys.modules["debugpy"] = types.ModuleType("debugpy")
sys.modules["debugpy"].__spec__ = importlib.machinery.ModuleSpec("debugpy", None)
for text in sys.argv[1:]:
    exec(text)
other_users = list
attach("1", 0, "raise SystemExit(9)")
"""


@needs_users
@pytest.mark.parametrize(
    ("option", "network", "hidden"),
    [
        ("hidepid=0", "--net", ""),
        ("hidepid=2", "--net", "/proc with hidepid"),
        ("hidepid=invisible", "--net", "/proc with hidepid"),
        ("hidepid=0", "--uts", "a container in the network"),  # of the host
    ],
)
def test_debugpy_is_refused_where_other_people_are_hidden(option: str, network: str, hidden: str) -> None:
    """In a process namespace, whose /proc is its own: there an ordinary user."""
    enter = ["unshare", "--mount", "--pid", network, "--fork", "--mount-proc"]
    if subprocess.run([*enter, "mount", "-o", f"remount,{option}", "/proc"], check=False).returncode != 0:
        pytest.skip(f"no {option} in a process namespace here")
    if Path("/proc/self/ns/pid").stat().st_ino != debugpy_attach.OF_HOST:
        pytest.skip("this is a container")
    become = 'mount -o "remount,$0" /proc && exec setpriv --reuid=31234 --regid=31234 --clear-groups "$@"'
    texts = [Path(str(module.__file__)).read_text() for module in (relay, debugpy_attach)]
    argv = [*enter, "sh", "-c", become, option, "/usr/bin/python3", "-I", "-c", IN_HIDING, *texts]
    done = subprocess.run(argv, cwd="/", capture_output=True, text=True, timeout=PATIENCE, check=False)
    refused = f"ddpkit: {hidden} of {os.uname().nodename} hides the processes of others"
    assert (refused in done.stderr) == bool(hidden), done
    assert done.returncode == (1 if hidden else 9)


@needs_users
@pytest.mark.parametrize(
    ("uid", "shell", "counts"),
    [
        (612, "/bin/bash", True),  # of a site whose people begin at 500
        (612, "", True),  # which is /bin/sh
        (612, None, True),  # it has no account here
        (612, "/usr/sbin/nologin", False),  # a service
        (31234, "/usr/sbin/nologin", True),  # people of a node without log-ins
        (64030, "/bin/false", False),
        (65534, "/usr/sbin/nologin", False),
        (100_000, None, True),
    ],
)
def test_who_is_another_person(uid: int, shell: str | None, counts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def account(number: int) -> object:
        if number != uid:
            return SimpleNamespace(pw_name="daemon", pw_shell="/usr/sbin/nologin")
        if shell is None:
            raise KeyError
        return SimpleNamespace(pw_name="somebody", pw_shell=shell)

    monkeypatch.setattr(pwd, "getpwuid", account)
    with subprocess.Popen(["/bin/cat"], user=uid, cwd="/", stdin=subprocess.PIPE) as process:
        found = debugpy_attach.other_users()
        process.communicate()
    assert (("somebody" if shell is not None else str(uid)) in found) is counts


@needs_users
def test_nobody_is_anybody_in_a_container_that_knows_one_user() -> None:
    """There the kernel shows all others with one id, that of `nobody`."""
    look = ["unshare", "--user", "--map-root-user", sys.executable, "-c"]
    if subprocess.run([*look, ""], check=False).returncode != 0:
        pytest.skip("no namespaces of users here")
    text = "from ddpkit.node import debugpy_attach; print(debugpy_attach.other_users())"
    with subprocess.Popen(["/bin/cat"], user=OTHER, cwd="/", stdin=subprocess.PIPE) as process:
        done = subprocess.run([*look, text], capture_output=True, text=True, timeout=PATIENCE, check=True)
        process.communicate()
    assert done.stdout == "['nobody']\n"


def test_the_first_id_of_people_is_that_of_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defs = tmp_path / "login.defs"
    monkeypatch.setattr(debugpy_attach, "LOGIN_DEFS", str(defs))
    assert debugpy_attach.first_user() == 1000
    for text, first in (("# UID_MIN 3\nUID_MIN\t\t 500\n", 500), ("UID_MIN 5000\n", 1000), ("UID_MIN x\n", 1000)):
        defs.write_text(text)
        assert debugpy_attach.first_user() == first


@alone
def test_debugpy_that_does_not_listen_is_an_error(waits: Command, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "modules/debugpy").mkdir(parents=True)
    (tmp_path / "modules/debugpy/__init__.py").touch()
    (tmp_path / "modules/debugpy/__main__.py").write_text("raise SystemExit(3)")
    for name in ("__future__", "socket"):  # of whoever can write to the rank's directory
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    taken = find_port()
    with socket.create_server(("127.0.0.1", taken)):
        done = ddpkit("debug", "--port", str(taken))
        assert f": Address already in use\nhint: add --port {taken + 1}" in done.stderr
    assert ddpkit("debug", "--port", str(taken)).returncode == 3


@needs_users
def test_no_debugger_is_opened_beside_other_people(waits: Command, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "modules/debugpy").mkdir(parents=True)
    (tmp_path / "modules/debugpy/__init__.py").touch()
    with subprocess.Popen(["sleep", "600"], user=31_234, cwd="/") as other:
        done = ddpkit("debug", "--port", str(find_port()))
        other.kill()
    assert done.returncode == 1
    assert " has processes on " in done.stderr
    assert ("(pdb)" in done.stderr) == (sys.version_info >= (3, 14))  # where no pdb attaches, it is no way out


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="pdb attaches to this Python")
def test_a_python_that_no_pdb_attaches_to(waits: Command, ddpkit: DDPKIT) -> None:
    done = ddpkit("debug", "--rank", "1")
    assert done.returncode == 1
    assert "pdb attaches to Python 3.14 and later" in done.stderr


def test_no_hang_is_seen_while_a_rank_is_debugged(tmp_path: Path) -> None:
    launcher: Any = SimpleNamespace(folder=tmp_path, nodes=[SimpleNamespace(running={0}, ended=True)], deadline=None)
    launcher.is_asking = True  # the rank with standard input waits at a prompt
    server = MonitorServer(launcher)
    server.watch(Watching(hang_action="end"))
    server.turn()
    assert server.idle
    launcher.is_asking = False
    request = tmp_path / "debug.1.ask"
    request.write_text(json.dumps({"pid": os.getpid(), "start": process_start(os.getpid())}))
    server.turn()
    assert server.idle
    # Of a shell that was killed: another process has its number by now.
    request.write_text(json.dumps({"pid": os.getpid(), "start": "1"}))
    server.turn()
    assert not server.idle


def test_a_node_that_prints_without_end_carries_no_port() -> None:
    """As by a start file of its shell."""
    shell = ["sh", "-c", "exec cat /dev/zero"]
    place: Any = SimpleNamespace(host="node1", env={"RANK": "0"}, command=lambda *_, **__: (shell, dict(os.environ)))
    with listen(0, "") as listener, pytest.raises(DdpkitError) as error:
        forward_port(place, 6006, listener, lambda: None)
    assert error.value.message == "node1 prints more than 64 KiB before it carries a connection"
