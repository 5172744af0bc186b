"""The supervisor's parts: all that it imports is sent, in an order in which each finds what it needs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest
import rooms

from ddpkit.node.event_loop import EventLoop
from ddpkit.node.rank_output import RankOutput
from ddpkit.transports.protocol import NODE, NODE_PACKAGE, PARTS

SUPERVISOR = (*PARTS, "supervisor")


@pytest.mark.parametrize("name", SUPERVISOR)
def test_each_part_is_sent_after_what_it_imports(name: str) -> None:
    used = {full.split(".")[2] for full in rooms.imported(NODE / f"{name}.py") if full.startswith("ddpkit.node.")}
    used.discard("process_tree_macos")  # every node is Linux
    assert used <= set(SUPERVISOR[: SUPERVISOR.index(name)])


@pytest.mark.parametrize("name", SUPERVISOR)
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
    assert ours == {"ddpkit", "ddpkit.node", *(f"ddpkit.node.{part}" for part in SUPERVISOR)}
    assert "typing" not in loaded


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
