"""`launch --detach` and `attach` with a real tmux: the terminal closes, the run goes on, nothing is left."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT, MARK, SCRIPT, START
from hostile import ARGS, ENV, PROBE
from launching import wait_until
from terminal import PlainTerminal
from test_record import WAITS

from ddpkit.run import tmux

pytestmark = pytest.mark.new_python  # its TMPDIR is that of the test
WORDS = [sys.executable, "-m", "ddpkit"]


@pytest.fixture
def clean_environ(clean_environ: dict[str, str]) -> Iterator[dict[str, str]]:
    """With a folder for tmux's sockets: whatever still lives behind one is ended after the test."""
    folder = tempfile.mkdtemp(prefix="dk-", dir="/tmp")  # a socket's path has at most 107 bytes
    kept = {name: value for name, value in clean_environ.items() if name not in ("TMUX", "TMUX_PANE")}
    yield {**kept, "TMUX_TMPDIR": folder, "TMPDIR": folder, "TERM": "xterm", MARK: os.urandom(8).hex()}
    for socket in Path(folder).glob("tmux-*/*"):
        subprocess.run(["tmux", "-S", str(socket), "kill-server"], capture_output=True, check=False)
    shutil.rmtree(folder)


@pytest.fixture
def sockets(clean_environ: dict[str, str]) -> Callable[[], list[Path]]:
    return lambda: list(Path(clean_environ["TMUX_TMPDIR"]).glob("tmux-*/*"))


def marked(environ: dict[str, str], name: str = MARK) -> dict[int, bytes]:
    """Every process that has the environment of the test: the launcher in its session, and what it started."""
    found = {}
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and f"{name}={environ[name]}".encode() in (path / "environ").read_bytes().split(
                b"\0"
            ):
                found[int(path.name)] = (path / "cmdline").read_bytes()
        except OSError:
            continue
    return found


@pytest.fixture
def detached(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A detached run of two ranks that waits for a file `go`. Returns its record."""

    def run(*args: str) -> dict[str, Any]:
        script(WAITS)
        done = ddpkit("launch", "--detach", "-n", "2", *args, "--", "job.py", "3")
        assert done.returncode == 0, done.stderr
        (run_id,) = done.stdout.split()
        assert f"ddpkit attach {run_id}" in done.stderr
        wait_until(lambda: ddpkit("logs", run_id, "--grep", "ready").stdout.count("\n") == 2)
        record: dict[str, Any] = json.loads((tmp_path / "logs" / run_id / "run.json").read_text())
        return record

    return run


def gone(environ: dict[str, str], sockets: Callable[[], list[Path]]) -> None:
    # The second is in the environment of tmux's server as well.
    for name in (MARK, "TMUX_TMPDIR"):
        wait_until(lambda: not marked(environ, name), lambda: marked(environ, name))  # noqa: B023  # called here
    wait_until(lambda: not sockets(), sockets)


def test_the_terminal_may_close(
    script: SCRIPT, ddpkit: DDPKIT, clean_environ: dict[str, str], sockets: Callable[[], list[Path]], tmp_path: Path
) -> None:
    script(WAITS)
    words = ["launch", "--detach", "-n", "2", "--", "job.py", "3"]
    shell = PlainTerminal(["sh", "-c", '"$@"; cat', "sh", *WORDS, *words], tmp_path, clean_environ)
    shell.wait_for_bytes(b"; to stop it: ddpkit stop ")
    os.close(shell.handle)  # a hang-up for everything in that terminal
    os.waitpid(shell.pid, 0)
    wait_until(lambda: ddpkit("logs", "--grep", "ready").stdout.count("\n") == 2)
    (found,) = json.loads(ddpkit("ps", "--json").stdout)["runs"]
    assert found["state"] == "running"
    assert list(found["session"]) == ["token"]
    (tmp_path / "go").touch()
    gone(clean_environ, sockets)
    now = json.loads(ddpkit("status", "--json").stdout)
    assert (now["state"], now["exit_code"]) == ("failed", 3)
    shown = ddpkit("attach")
    assert shown.returncode == 3  # as the launch
    # The failure of rank 1 may end rank 0 before its last words.
    assert "] last words" in shown.stdout
    assert "[ddpkit] rank 1 on " in shown.stdout
    assert ": failed; for all lines: " in shown.stderr


def test_everything_arrives_and_no_value_is_seen(
    script: SCRIPT, ddpkit: DDPKIT, clean_environ: dict[str, str], sockets: Callable[[], list[Path]], tmp_path: Path
) -> None:
    folder = tmp_path / "with blank #{pid};"
    folder.mkdir()
    wait = "import time\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
    (folder / "job.py").write_text(PROBE + wait)
    names = [word for name in ENV for word in ("--env", name)]
    hidden = {"WANDB_API_KEY": "sesame", "LD_LIBRARY_PATH": "/opt/odd;", "OLD": "x\ny", "BYTES": os.fsdecode(b"\xff")}
    words = ["launch", "--detach", "-n", "1", *names, "--env", "WANDB_API_KEY", "--", "job.py", *ARGS, "semicolon;"]
    done = ddpkit(*words, cwd=folder, env={**ENV, **hidden})
    assert done.returncode == 0, done.stderr
    wait_until((folder / "seen.0").exists)
    seen = json.loads((folder / "seen.0").read_text())
    assert (seen["argv"], seen["env"]) == ([*ARGS, "semicolon;"], ENV)
    (launcher,) = [pid for pid, line in marked(clean_environ).items() if b"--detach" in line]
    environ = Path(f"/proc/{launcher}/environ").read_bytes().split(b"\0")
    for name, value in hidden.items():
        assert os.fsencode(f"{name}={value}") in environ
    assert Path(f"/proc/{launcher}/cwd").readlink() == folder
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                assert b"sesame" not in (path / "cmdline").read_bytes()
            except OSError:
                continue
    (socket,) = sockets()
    server = ["tmux", "-S", str(socket)]
    assert "sesame" not in subprocess.check_output([*server, "show-environment", "-g"], text=True)
    assert not list(Path(clean_environ["TMPDIR"]).glob("ddpkit-*/given")), "the pipe is gone"
    for path in folder.glob("logs/*/*"):
        assert "sesame" not in path.read_text()
    (folder / "go").touch()
    gone(clean_environ, sockets)
    assert json.loads(ddpkit("status", "--json", cwd=folder).stdout)["state"] == "done"


EARLY = {
    "a bad option": (["-o", "stater=x"], 121, "no option 'stater'"),
    "no script": (["--", "missing.py"], 121, "script missing.py not found"),
    "no folder for logs": (["--log-dir", "/proc/nowhere"], 121, "cannot write logs to /proc/nowhere/"),
}


@pytest.mark.parametrize("name", EARLY)
def test_early_errors_are_shown_and_leave_nothing(
    name: str, script: SCRIPT, ddpkit: DDPKIT, clean_environ: dict[str, str], sockets: Callable[[], list[Path]]
) -> None:
    args, code, message = EARLY[name]
    script("", "train.py")
    done = ddpkit("launch", "--detach", *args)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("ddpkit: ")
    assert message in first
    assert second.startswith("hint: ")
    assert json.loads(ddpkit("ps", "--json").stdout)["runs"] == []
    gone(clean_environ, sockets)


def test_no_room_for_the_record_is_shown(
    script: SCRIPT, ddpkit: DDPKIT, clean_environ: dict[str, str], sockets: Callable[[], list[Path]], tmp_path: Path
) -> None:
    """The launcher in the session finds a full disk when all was asked and nothing runs yet."""
    script("")
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    script(f"import os, resource\nif 'DDPKIT_DETACHED' in os.environ:\n    {limit}\n", "sitecustomize.py")
    done = ddpkit("launch", "--detach", "--", "job.py", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 121, done.stderr
    assert re.search("cannot write (the record of this run|logs) to logs/", done.stderr)
    assert json.loads(ddpkit("ps", "--json").stdout)["runs"] == []
    gone(clean_environ, sockets)


def test_no_room_for_anything_is_said(script: SCRIPT, ddpkit: DDPKIT, tmp_path: Path) -> None:
    script("")
    script("import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n", "sitecustomize.py")
    done = ddpkit("launch", "--detach", "--", "job.py", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 121, done.stderr
    first, second = done.stderr.splitlines()
    assert first.startswith("ddpkit: error: cannot create a directory for temporary files")
    assert second.startswith("hint: df ")


def test_a_crash_before_the_run_is_shown(
    script: SCRIPT, ddpkit: DDPKIT, clean_environ: dict[str, str], sockets: Callable[[], list[Path]], tmp_path: Path
) -> None:
    """A bug of ours, or of a plug-in: its traceback must not end with the window."""
    script("")
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'DDPKIT_DETACHED' in os.environ:\n    print('x' * 500 + 'the end')\n    os._exit(9)\n"
    )
    done = ddpkit("launch", "--detach", "--", "job.py", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 9
    assert "x" * 500 + "the end" in done.stderr, "in one line, as it was printed"
    gone(clean_environ, sockets)


# Holds the launcher in the session, and not its parent, where it reads its settings.
HELD = f"""
import os, sys

def hold(event, args):
    if event == "open" and str(args[0]).endswith("ddpkit.toml"):
        open("held").read()

if {tmux.VARIABLE!r} in os.environ:
    sys.addaudithook(hold)
"""


def test_an_interrupt_while_it_starts_leaves_nothing(
    script: SCRIPT, start: START, clean_environ: dict[str, str], sockets: Callable[[], list[Path]], tmp_path: Path
) -> None:
    script("")
    os.mkfifo(tmp_path / "held")
    (tmp_path / "ddpkit.toml").touch()
    (tmp_path / "sitecustomize.py").write_text(HELD)
    command = start("launch", "--detach", "--", "job.py", env={"PYTHONPATH": str(tmp_path)})
    with (tmp_path / "held").open("w"):  # once the launcher in the session reads its settings
        assert sockets()
        command.process.send_signal(signal.SIGINT)
        assert command.end() == 130
        assert "Traceback" not in command.text
        command.wait_for_no_survivor()
    gone(clean_environ, sockets)


def test_json_prints_the_record(detached: Callable[..., dict[str, Any]], ddpkit: DDPKIT, script: SCRIPT) -> None:
    script(WAITS)
    done = ddpkit("launch", "--detach", "--json", "-n", "1", "--", "job.py", "0")
    record = json.loads(done.stdout)
    assert (record["state"], record["world_size"]) == ("running", 1)
    assert ddpkit("stop", record["run_id"]).returncode == 0


def test_no_tmux(script: SCRIPT, ddpkit: DDPKIT, tmp_path: Path) -> None:
    script("")
    done = ddpkit("launch", "--detach", "--", "job.py", env={"PATH": str(tmp_path)})
    assert done.returncode == 121
    assert done.stderr.startswith(
        "ddpkit: error: --detach requires tmux, which is not installed\nhint: apt-get install tmux"
    )
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("more", [[], ["--now"]], ids=["stop", "now"])
def test_stop(
    more: list[str],
    detached: Callable[..., dict[str, Any]],
    ddpkit: DDPKIT,
    clean_environ: dict[str, str],
    sockets: Callable[[], list[Path]],
) -> None:
    record = detached()
    assert ddpkit("stop", *more).returncode == 0
    gone(clean_environ, sockets)
    assert json.loads(ddpkit("status", record["run_id"], "--json").stdout)["state"] == "stopped"


def test_a_killed_launcher_takes_its_session_with_it(
    detached: Callable[..., dict[str, Any]], ddpkit: DDPKIT, clean_environ: dict[str, str]
) -> None:
    record = detached()
    os.kill(record["launcher_pid"], signal.SIGKILL)
    wait_until(lambda: not marked(clean_environ), lambda: marked(clean_environ))
    assert json.loads(ddpkit("status", "--json").stdout)["state"] == "lost"
    socket = Path(clean_environ["TMUX_TMPDIR"], f"tmux-{os.geteuid()}", f"ddpkit-{record['session']['token']}")
    server = ["tmux", "-S", str(socket)]
    wait_until(lambda: subprocess.run([*server, "ls"], capture_output=True, check=False).returncode != 0)
    lost = ddpkit("attach")
    assert lost.returncode == 125
    assert "lost" in lost.stderr


def test_attach_shows_it_live(
    detached: Callable[..., dict[str, Any]],
    ddpkit: DDPKIT,
    clean_environ: dict[str, str],
    sockets: Callable[[], list[Path]],
    tmp_path: Path,
) -> None:
    record = detached()
    view = PlainTerminal([*WORDS, "attach", record["run_id"]], tmp_path, clean_environ)
    view.wait_for_bytes(b"] ready")  # one line or two: equal ones fold
    view.wait_for_bytes(b"C-b d leaves")
    os.write(view.handle, b"\x02")
    time.sleep(0.1)  # what comes within a millisecond (assume-paste-time) is a paste to tmux, and no key
    os.write(view.handle, b"d")
    assert view.end() == 0
    assert b"left the view, and the run continues" in view.raw
    assert json.loads(ddpkit("status", "--json").stdout)["state"] == "running"
    again = PlainTerminal([*WORDS, "attach"], tmp_path, clean_environ)
    again.wait_for_bytes(b"] ready")
    (tmp_path / "go").touch()
    assert again.end() == 3, "as the launch"
    assert b"[ddpkit] rank 1 on " in again.raw, "the verdict outlives the session's screen"
    assert b": failed; for all lines: " in again.raw
    gone(clean_environ, sockets)


def test_an_interrupt_in_the_view_ends_the_run(
    detached: Callable[..., dict[str, Any]],
    clean_environ: dict[str, str],
    sockets: Callable[[], list[Path]],
    tmp_path: Path,
) -> None:
    record = detached()
    view = PlainTerminal([*WORDS, "attach", record["run_id"]], tmp_path, clean_environ)
    view.wait_for_bytes(b"] ready")  # one line or two: equal ones fold
    os.write(view.handle, b"\x03")
    assert view.end() == 130
    assert b"stopped (it ran for " in view.raw
    gone(clean_environ, sockets)


def test_inside_a_tmux_of_the_users(
    script: SCRIPT, clean_environ: dict[str, str], sockets: Callable[[], list[Path]], tmp_path: Path, ddpkit: DDPKIT
) -> None:
    """Detach, look and leave from within; the user's server is not touched, and its end does not end the run."""
    script(WAITS)
    outer = ["tmux", "-L", "users", "-f", "/dev/null"]
    line = f"'{sys.executable}' -m ddpkit launch --detach -n 2 -- job.py 3; '{sys.executable}' -m ddpkit attach; cat"
    subprocess.run(
        [*outer, "new-session", "-d", "-x", "150", "-y", "40", line], cwd=tmp_path, env=clean_environ, check=True
    )
    env = clean_environ

    def shown() -> str:
        return subprocess.check_output([*outer, "capture-pane", "-p", "-J"], env=env, text=True)

    wait_until(lambda: "] ready" in shown() and "C-b d leaves" in shown(), shown)
    subprocess.run([*outer, "send-keys", "C-b", "d"], env=env, check=True)
    wait_until(lambda: "left the view, and the run continues" in shown(), shown)
    assert subprocess.check_output([*outer, "ls", "-F", "#S"], env=env, text=True) == "0\n"
    subprocess.run([*outer, "kill-server"], env=env, check=True)
    assert json.loads(ddpkit("status", "--json").stdout)["state"] == "running"
    (tmp_path / "go").touch()
    next(path for path in sockets() if path.name == "users").unlink()
    gone(clean_environ, sockets)
    assert json.loads(ddpkit("status", "--json").stdout)["state"] == "failed"
