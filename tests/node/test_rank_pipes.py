"""What a script can say through the pipes of its supervisor: of ranks that run here, once, and within bounds."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ddpkit.node.supervision.event_loop import EventLoop
from ddpkit.node.supervision.rank_output import RankOutput
from ddpkit.node.supervision.rank_pipes import MOST_MARKS, RankPipes
from ddpkit.node.supervision.rank_table import RankTable


class Pipes:
    def __init__(self, folder: Path) -> None:
        self.sent: list[dict[str, Any]] = []
        loop = EventLoop()
        output = RankOutput(loop, lambda **event: None)
        self.table = RankTable(lambda **event: self.sent.append(event), output, 0)
        self.table.on_failure = lambda: None
        self.pipes = RankPipes(loop, lambda **event: self.sent.append(event), output, self.table)
        self.folder = folder
        self.pipes.open_hooks(f"{folder}/marks")
        self.pipes.open_wrappers(f"{folder}/events")

    def write(self, name: str, *lines: str) -> list[dict[str, Any]]:
        """Write lines into a pipe, and return the events that follow."""
        self.sent.clear()
        fd = os.open(self.folder / name, os.O_WRONLY | os.O_NONBLOCK)
        for line in lines:
            os.write(fd, line.encode() + b"\n")
        os.close(fd)
        self.pipes.read_wrappers()
        self.pipes._read_hooks()
        return list(self.sent)


@pytest.fixture
def pipes(tmp_path: Path) -> Pipes:
    return Pipes(tmp_path)


NOW = str(time.time())


def test_the_end_of_a_rank_that_runs_is_not_believed(pipes: Pipes) -> None:
    with subprocess.Popen(["sleep", "3600"]) as rank:
        assert [each["e"] for each in pipes.write("events", f"start 0 0 {rank.pid} {NOW}")] == ["start"]
        assert pipes.write("events", f"exit 0 0 0 None {NOW}", f"exit 0 0 None 9 {NOW}", f"exit 0 5 7 None {NOW}") == []
        assert pipes.table.ranks[0].alive
        rank.kill()
    ended = pipes.write("events", f"exit 0 0 7 None {NOW}")
    assert [(each["e"], each["code"]) for each in ended] == [("exit", 7), ("failed", 7)]


@pytest.mark.parametrize("pid", ["1", "0", "-1", str(os.getppid())])
def test_no_process_of_others_becomes_a_rank(pid: str, pipes: Pipes) -> None:
    """It would be signalled at the end of the run."""
    assert pipes.write("events", f"start 0 0 {pid} {NOW}") == []
    assert pipes.table.ranks == {}


def test_a_flood_of_marks_ends(pipes: Pipes) -> None:
    """`timeline.json` grew to 26 MB."""
    with subprocess.Popen(["sleep", "3600"]) as rank:
        pipes.write("events", f"start 0 0 {rank.pid} {NOW}")
        events = []
        for start in range(0, 2000, 100):
            lines = [f"mark 0 m{number} {NOW}" for number in range(start, start + 100)]
            events += pipes.write("marks", *lines, *lines, f"mark 7 import {NOW}", f"raised 7 {NOW} X")
        assert len(events) == MOST_MARKS
        assert {event["rank"] for event in events} == {0}
        assert pipes.write("marks", f"mark 0 {'x' * 3000} {NOW}", "x" * 9000, f"mark 0 a {NOW}") == []
        rank.kill()
