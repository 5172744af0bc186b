"""Many nodes with the real carrier, channels, relay and records: no line is lost, and what waits has a bound."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from run_logs import all_lines
from scale import run

from ddpkit.console.relay import Relay
from ddpkit.console.writer import LIMIT, Screen
from ddpkit.execution.executor import WAITING, Inbox
from ddpkit.run import timeline
from ddpkit.run.log_files import LogFiles

NODES, RANKS, BURST = 50, 8, 10
OPTIONS: dict[str, Any] = {"burst": BURST, "line_every": 0.5, "step_every": 0.5, "seconds": 2.0}


def carried(folder: Path, **options: Any) -> None:
    inbox = Inbox()
    with open("/dev/null", "wb") as null:
        screen = Screen(null, null, lambda: None)
        relay = Relay(LogFiles(folder), screen.out, screen.err)
        outcome = run(folder, NODES, RANKS, {**OPTIONS, **options}, inbox, relay, screen)
        relay.close()
        screen.close(None)
    assert outcome.exit_code == 0, outcome
    assert not relay.logs.problem


def test_every_line_of_many_nodes_is_there_in_its_order(tmp_path: Path) -> None:
    carried(tmp_path)
    total = 0
    for rank in range(NODES * RANKS):
        lines = (tmp_path / f"rank_{rank}.log").read_text().splitlines()
        assert len(lines) > BURST
        assert [line.partition(":")[0] for line in lines] == [f"rank {rank} line {each}" for each in range(len(lines))]
        total += len(lines)
    everything = all_lines(tmp_path).splitlines()
    assert len(everything) == total
    last = [line for line in everything if line.startswith(f"[{NODES * RANKS - 1} ")]
    assert [line.split()[5] for line in last] == [f"{each}:" for each in range(len(last))]


def test_the_records_of_many_nodes_have_every_rank(tmp_path: Path) -> None:
    carried(tmp_path, burst=1)
    seen = timeline.read(tmp_path)
    assert seen is not None
    assert len(seen["ranks"]) == NODES * RANKS
    assert all({"start", "line", "end"} <= each["marks"].keys() and each["bins"] for each in seen["ranks"].values())
    hosts = json.loads((tmp_path / "status.json").read_bytes())["hosts"]
    assert sum(len(each["ranks"]) for each in hosts.values()) == NODES * RANKS


class MeasuredScreen(Screen):
    """Notes how much has waited to be read at most."""

    most = 0

    def put(self, stream: Any, data: bytes) -> None:
        super().put(stream, data)
        self.most = max(self.most, self._size)


def test_a_slow_screen_slows_all_nodes_and_loses_nothing(tmp_path: Path) -> None:
    read, write = os.pipe()
    over = threading.Event()
    with open(write, "wb") as end, open("/dev/null", "wb") as null:
        screen = MeasuredScreen(end, null, lambda: None)
        shown = bytearray()

        def look() -> None:
            while not over.is_set():
                if screen.is_full:  # never more than that, so that all nodes come to a stop
                    shown.extend(os.read(read, 1 << 16))
                else:
                    over.wait(0.001)
            while data := os.read(read, 1 << 16):
                shown.extend(data)

        reader = threading.Thread(target=look)
        reader.start()
        relay = Relay(LogFiles(tmp_path), screen.out, screen.err)
        try:
            outcome = run(tmp_path, NODES, RANKS, {**OPTIONS, "burst": 400}, Inbox(), relay, screen)
        finally:
            over.set()
            relay.close()
            screen.close(None)
    reader.join()
    os.close(read)
    assert outcome.exit_code == 0, outcome
    assert LIMIT <= screen.most < LIMIT + 2 * WAITING
    assert shown.count(b"\n") >= NODES * RANKS * 400
    assert shown.decode() == all_lines(tmp_path)
