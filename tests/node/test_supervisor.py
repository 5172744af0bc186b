"""The supervisor: its parts are small, it imports only what it needs, and it refuses in words."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import PATIENCE

from ddpkit.node.seal import Seal
from ddpkit.node.supervision import rank_output
from ddpkit.node.supervision.event_loop import EventLoop
from ddpkit.node.supervision.launcher_io import LauncherIO
from ddpkit.node.supervision.rank_output import RankOutput
from ddpkit.node.supervision.rank_table import RankTable
from ddpkit.transports.protocol import NODE, NODE_PACKAGE

PROGRAMS = sorted(str(path.relative_to(NODE).with_suffix("")) for path in NODE.rglob("*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_part_does_everything(name: str) -> None:
    tree = ast.parse((NODE / f"{name}.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name
        if isinstance(node, ast.ClassDef):
            assert (node.end_lineno or 0) - node.lineno < 200, node.name


def test_nothing_else_of_ddpkit_is_imported_on_this_machine() -> None:
    code = NODE_PACKAGE + "from ddpkit.node import supervisor; print(*sys.modules)"
    argv = [sys.executable, "-S", "-I", "-c", code, str(NODE)]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.partition(".")[0] == "ddpkit"}
    programs = {f"ddpkit.node.{name.partition('/__init__')[0].replace('/', '.')}" for name in PROGRAMS}
    assert ours <= {"ddpkit", "ddpkit.node", *programs}
    assert not {name for name in ours if name.startswith(("ddpkit.node.calls", "ddpkit.node.rank."))}
    assert not {"typing", "importlib.util"} & set(loaded)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a program as another user")
def test_without_a_process_for_its_guard_it_refuses_in_words() -> None:
    """Root has no such limit. Another user reads the interpreter by a capability."""
    user = ["setpriv", "--reuid", "54399", "--clear-groups", "--inh-caps", "+dac_override"]
    user += ["--ambient-caps", "+dac_override", "bash", "-c", 'ulimit -u 1; exec "$@"', "bash"]
    code = NODE_PACKAGE + "from ddpkit.node import supervisor; supervisor.main('')"
    request = json.dumps({"procs": [], "grace": 1.0}) + "\n"
    argv = [*user, sys.executable, "-S", "-I", "-c", code, str(NODE)]
    done = subprocess.run(argv, input=request, capture_output=True, text=True, timeout=PATIENCE, check=False)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["e"] for event in events] == ["hello", "refused", "end"]
    assert events[1]["message"] == "cannot start any rank: Resource temporarily unavailable"
    assert (done.returncode, done.stderr) == (0, "")


def test_lines_of_a_paused_rank_wait_and_are_not_lost() -> None:
    loop = EventLoop()
    sent: list[str] = []
    output = RankOutput(loop, lambda **event: sent.append(event["data"]))
    read, write = os.pipe()
    os.set_blocking(read, False)
    output.add(read, 1, 0)
    output.pause(True)
    os.write(write, b"one\ntwo")
    loop.turn(0.0)
    assert sent == []
    output.pause(False)
    loop.turn(0.0)
    assert sent == ["one\n"]
    os.close(write)
    loop.turn(0.0)
    assert sent == ["one\n", "two"]  # a last line without an end
    loop.turn(0.0)  # the pipe is closed, and nobody asks it again


def test_a_line_comes_after_those_that_another_rank_wrote_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of a busy pipe wait to be read together, and a traceback of another rank does not pass them."""
    monkeypatch.setattr(rank_output, "BUSY", 3600.0)
    loop = EventLoop()
    sent: list[str] = []
    output = RankOutput(loop, lambda **event: sent.append(event["data"]))
    writers = []
    for rank in (0, 1):
        read, write = os.pipe()
        os.set_blocking(read, False)
        output.add(read, 1, rank)
        writers.append(write)
    for text in (b"first\n", b"second\n"):  # from the second on it is busy
        os.write(writers[0], text)
        loop.turn(1.0)
    os.write(writers[0], b"third\n")
    os.write(writers[1], b"other\n")
    loop.turn(1.0)
    assert sent == ["first\n", "second\n", "third\n", "other\n"]
    for write in writers:
        os.close(write)
    output.close()


def test_the_last_events_are_sent_before_a_wait(capfd: pytest.CaptureFixture[str]) -> None:
    """Every run ended a second late."""

    class NeverReady(EventLoop):
        def is_ready(self, fd: int, timeout: float) -> bool:
            raise AssertionError("the launcher reads already")

    launcher = LauncherIO(NeverReady(), 0.0, b"", (Seal("", "node"), Seal("", "launcher")))
    launcher.on_pause = lambda paused: None
    launcher.send(e="end")
    launcher.flush_all(lambda: None)
    assert capfd.readouterr().out == '{"e":"end"}\n'


def test_a_killed_torchrun_is_the_first_failure_also_where_a_rank_is_collected_before_it() -> None:
    """Its other threads take a moment to end: a rank was said to have lost its helper."""
    sent: list[dict[str, object]] = []
    table = RankTable(lambda **event: sent.append(event), RankOutput(EventLoop(), lambda **event: None), 0)
    table.on_failure = lambda: None
    with subprocess.Popen(["sleep", "3600"]) as torchrun:
        table.launchers[torchrun.pid] = "torchrun"
        table.on_start(1, 54399, 0.0)
        torchrun.kill()
        os.waitid(os.P_PID, torchrun.pid, os.WEXITED | os.WNOWAIT)
        table.on_orphan_exit(54399, signal.SIGKILL)
    (failed,) = [event for event in sent if event["e"] == "failed"]
    assert (failed["what"], failed["rank"], failed["signal"]) == ("torchrun", None, signal.SIGKILL)


def test_a_rank_that_fails_before_the_others_have_started_is_the_first_failure() -> None:
    """A busy node starts them one by one: the end of the next one, by torchrun's SIGTERM, was taken for the first."""
    table = RankTable(lambda **event: None, RankOutput(EventLoop(), lambda **event: None), 0)
    table.on_failure = lambda: None
    table.on_start(1, 54399, 0.0)
    table.on_exit(1, 7, None, 1.0)
    table.on_start(0, 54398, 1.5)
    table.on_exit(0, None, signal.SIGTERM, 2.0)
    assert (table.first() or {})["rank"] == 1


def test_a_rank_that_starts_after_a_signal_for_every_process_gets_it() -> None:
    table = RankTable(lambda **event: None, RankOutput(EventLoop(), lambda **event: None), 0)
    table.terminated = True  # what ends ranks came, and this one was not there yet
    with subprocess.Popen(["sleep", "3600"]) as rank:
        table.on_start(0, rank.pid, 0.0)
        assert rank.wait(PATIENCE) == -signal.SIGTERM
