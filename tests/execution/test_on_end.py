"""`on_end`: the command gets the record of the run, whatever the end, and changes no exit code."""

from __future__ import annotations

import io
import json
import os
import queue
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DDPKIT, SCRIPT, Command
from program import wait_until

import ddpkit as package
from ddpkit.console.relay import Relay
from ddpkit.execution.executor import Inbox
from ddpkit.execution.on_end import run_hook
from ddpkit.launchers.plan import OnEnd
from ddpkit.run.log_files import LogFiles

pytestmark = pytest.mark.live
KEEP = "cat > record.json; echo kept"
WAITING = "import time\nprint('ready', flush=True)\ntime.sleep(3600)\n"


def kept(folder: Path) -> dict[str, object]:
    """The record that the command got, which is that of the run's directory."""
    record: dict[str, object] = json.loads((folder / "record.json").read_text())
    (path,) = folder.glob("logs/*/run.json")
    saved = json.loads(path.read_text())
    assert record["schema"] == "ddpkit.run/1"
    del saved["format"], saved["failure"]  # of the file alone; the document has other names for a failure
    assert {name: record[name] for name in saved} == saved
    return record


@pytest.mark.parametrize(("code", "state"), [(0, "done"), (7, "failed")])
def test_the_command_gets_the_record(code: int, state: str, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script(f"import sys; sys.exit({code})")
    done = ddpkit("launch", "-n", "2", "--", "job.py", env={"DDPKIT_ON_END": KEEP})
    assert done.returncode == code
    assert "[on_end] kept\n" in done.stderr
    record = kept(tmp_path)
    assert (record["state"], record["exit_code"]) == (state, code)
    assert bool(record["failure"]) == bool(code)
    (log,) = tmp_path.glob("logs/*/on_end.log")
    assert log.read_text() == "kept\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped(
    number: int, code: int, start: Callable[..., Command], script: SCRIPT, tmp_path: Path
) -> None:
    script(WAITING)
    command = start("launch", "-n", "1", "--", "job.py", env={"DDPKIT_ON_END": KEEP})
    command.wait_for("ready")
    command.process.send_signal(number)
    assert command.end() == code
    record = kept(tmp_path)
    assert (record["state"], record["exit_code"]) == ("stopped", code)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo no; exit 3", "on_end: exit code 3 after "),
        ("kill -9 $$", "on_end: signal 9 after "),
        ("no-such-program", "on_end: exit code 127 after "),
    ],
)
def test_a_command_that_fails_changes_no_exit_code(command: str, message: str, ddpkit: DDPKIT, script: SCRIPT) -> None:
    script("")
    done = ddpkit("launch", "-n", "1", "--", "job.py", env={"DDPKIT_ON_END": command})
    assert done.returncode == 0
    assert message in done.stderr
    *_, note, hint = done.stderr.splitlines()
    assert re.fullmatch(r"hint: cat \S+/logs/\S+/on_end\.log", hint)
    assert command not in note + hint  # it can have a secret


def test_the_command_is_no_argument_of_a_process(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """Every user of a machine sees those, and the command can have a secret."""
    script("")
    shows = "cat /proc/$$/cmdline; env; echo $# # hooks/SECRETWORD"
    assert ddpkit("launch", "-n", "1", "--", "job.py", env={"DDPKIT_ON_END": shows}).returncode == 0
    (log,) = tmp_path.glob("logs/*/on_end.log")
    assert "eval" in log.read_text()
    assert log.read_text().endswith("\n0\n")
    assert "SECRETWORD" not in log.read_text().replace(f"DDPKIT_ON_END={shows}", "")


def test_a_signal_ends_the_command(start: Callable[..., Command], script: SCRIPT, tmp_path: Path) -> None:
    script("raise SystemExit(5)")
    command = start("launch", "-n", "1", "--", "job.py", env={"DDPKIT_ON_END": "touch began; sleep 3600"})
    wait_until((tmp_path / "began").exists, lambda: command.text)
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 5
    assert "on_end: ended by SIGINT after " in command.text
    command.wait_for_no_survivor()


def test_the_command_ends_with_a_killed_launcher(start: Callable[..., Command], script: SCRIPT, tmp_path: Path) -> None:
    script("")
    command = start("launch", "-n", "1", "--", "job.py", env={"DDPKIT_ON_END": "touch began; sleep 3600 & sleep 3600"})
    wait_until((tmp_path / "began").exists, lambda: command.text)
    command.process.kill()
    command.process.wait()
    command.wait_for_no_survivor()


def test_a_command_may_wait_for_all_its_children(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script("")
    waits = "import os\ntry:\n    while True: os.wait()\nexcept ChildProcessError: pass"
    done = ddpkit("launch", "-n", "1", "--", "job.py", env={"DDPKIT_ON_END": f"exec python3 -c '{waits}'"})
    assert (done.returncode, "on_end" in done.stderr) == (0, False), done.stderr


def test_what_a_command_leaves_behind_goes_on(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script("")
    leaves = "(read -r _ < go; touch late) > /dev/null 2>&1 & true"
    os.mkfifo(tmp_path / "go")
    assert ddpkit("launch", "-n", "1", "--", "job.py", env={"DDPKIT_ON_END": leaves}).returncode == 0
    (tmp_path / "go").write_text("go\n")
    wait_until((tmp_path / "late").exists)


def test_the_file_the_variable_and_the_dry_run(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """A command of a file runs in the directory of the file. The record of the run does not hold it."""
    script("")
    (tmp_path / "ddpkit.toml").write_text("script = 'job.py'\non_end = 'cat > from_file; echo s3cret'\n")
    below = tmp_path / "below"
    below.mkdir()
    shown = ddpkit("launch", "--dry-run", cwd=below).stdout.splitlines()
    assert shown[-1] == f"# cd {tmp_path} && sh -c 'cat > from_file; echo s3cret'"
    plan = json.loads(ddpkit("launch", "--dry-run", "--json", cwd=below).stdout)
    assert plan["on_end"] == {"command": "cat > from_file; echo s3cret", "directory": str(tmp_path)}
    assert ddpkit("launch", cwd=below).returncode == 0
    assert json.loads((tmp_path / "from_file").read_text())["settings_file"] == str(tmp_path / "ddpkit.toml")
    assert ddpkit("launch", cwd=below, env={"DDPKIT_ON_END": "cat > from_variable"}).returncode == 0
    assert (below / "from_variable").is_file()
    for path in below.glob("logs/*/*.json"):
        assert "s3cret" not in path.read_text()


def test_a_run_of_a_program(tmp_path: Path, script: SCRIPT, monkeypatch: pytest.MonkeyPatch) -> None:
    script("raise SystemExit(4)")
    monkeypatch.chdir(tmp_path)
    outcome = package.launch("job.py", nproc_per_node=1, on_end=KEEP).wait(120)
    assert outcome.exit_code == 4
    assert kept(tmp_path)["exit_code"] == 4


def ended(command: str, folder: Path, *, document: str = "{}", inbox: Inbox | None = None, limit: float = 60.0) -> str:
    """What is shown of a command."""
    err = io.BytesIO()
    lines = Relay(LogFiles(folder), io.BytesIO(), err)
    where = OnEnd(command=command, directory=str(folder / "in"))
    signals: Inbox = queue.SimpleQueue() if inbox is None else inbox
    run_hook(where, document, folder, err.write, lines.note, signals, limit=limit)
    lines.close()
    return err.getvalue().decode()


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    inbox: Inbox = queue.SimpleQueue()
    inbox.put((-1, signal.SIGTERM))  # it was sent to the run
    text = ended("echo begins; (sleep 3600) & sleep 3600", tmp_path, inbox=inbox, limit=0.5)
    assert text.startswith("[on_end] begins\nddpkit: on_end: took too long and was ended after ")


def test_a_command_need_not_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert ended("exit 0", tmp_path, document="x" * (1 << 22)) == ""


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    assert "ddpkit: on_end: cannot be started: No such file or directory" in ended("exit 0", tmp_path)
