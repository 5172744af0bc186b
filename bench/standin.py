"""Stand-ins for the supervisors of many nodes, in one process: what they send is what real ones send.

Each node has one socket, on which its launcher speaks the real protocol: program, request, commands. Its ranks print
`burst` lines at once, then one line every `line_every` seconds; every `step_every` seconds comes a heartbeat with the
steps of all ranks. A call of `stack_dump.collect` gets the answer of ranks that wait in a collective, made by the code
of a real node. Nodes of `mute` answer no call. Options are one JSON object on standard input.
"""

from __future__ import annotations

import heapq
import json
import re
import select
import socket
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from ddpkit.node.calls import stack_dump
from ddpkit.node.rpc import answer_events
from ddpkit.node.seal import Seal

LINE = "rank %d line %d: step 100 loss 2.3025 lr 0.001 tokens/s 123456 memory 40.1 GB\n"
ENTRIES = 300  # of each rank's Flight Recorder


class StandIn:
    """One node with `ranks` ranks from `first` on."""

    def __init__(self, link: socket.socket, first: int, options: dict[str, Any], mute: bool) -> None:
        self.link, self.first, self.options, self.mute = link, first, options, mute
        self.ranks = range(first, first + options["ranks"])
        self.lines = 0  # of each rank
        self.over = self.gone = False  # its ranks have ended; its launcher has left
        self._received = b""
        # Made now: real nodes do it at the same time, and not one after the other.
        value = _answer(self.ranks, options) if options.get("dump") else None
        self._answer = [*answer_events(0, json.dumps([value, None]).encode())]
        self._nothing = [*answer_events(0, b"[null, null]")]
        self._program = -1  # bytes of the program that are still to come
        self._sent = Seal("", "node")
        self._commands = Seal("", "launcher")

    def send(self, *events: dict[str, Any]) -> None:
        data = (self._sent.close(json.dumps(each, separators=(",", ":")).encode()) for each in events)
        try:
            self.link.sendall(b"".join(data))
        except OSError:
            self.over = True

    def read(self) -> bool:
        """Take what the launcher sent. Returns whether the request came."""
        try:
            data = self.link.recv(1 << 20)
        except OSError:
            data = b""
        self.gone = not data
        self._received += data
        asked = False
        while not self.gone:
            if self._program > 0:
                taken = min(self._program, len(self._received))
                self._received, self._program = self._received[taken:], self._program - taken
                if self._program:
                    break
                self.send({"e": "hello", "pid": 1, "t": time.time()})
            line, end, rest = self._received.partition(b"\n")
            if not end:
                break
            self._received = rest
            if self._program < 0:
                self._begin(line)
            else:
                asked = self._obey(json.loads(self._commands.open(line) or b"{}")) or asked
        return asked

    def _begin(self, line: bytes) -> None:
        key = re.search(rb"key=\\?'([0-9a-f]+)", line)
        size = re.search(rb"len\(d\)<(\d+)|while len\(d\)<(\d+)", line)
        assert key is not None
        assert size is not None
        self._sent, self._commands = Seal(key[1].decode(), "node"), Seal(key[1].decode(), "launcher")
        self._program = int(size[1] or size[2])

    def _obey(self, command: dict[str, Any]) -> bool:
        if command.get("c") == "call" and not self.mute:
            asked = command["function"] == "stack_dump.collect"
            self.send(*({**each, "id": command["id"]} for each in (self._answer if asked else self._nothing)))
        elif command.get("c") == "stop":
            self.end(15)
        return "procs" in command

    def start(self) -> None:
        now = time.time()
        self.send(*({"e": "start", "rank": rank, "pid": 100 + rank, "t": now} for rank in self.ranks))
        for _ in range(self.options["burst"]):
            self.print_lines(self.ranks)

    def print_lines(self, ranks: Any) -> None:
        self.send(*({"e": "out", "rank": rank, "fd": 1, "data": LINE % (rank, self.lines)} for rank in ranks))
        self.lines += 1

    def beat(self) -> None:
        now = time.time()
        sample = {"pid": 100, "state": "R", "cpu": round(now % 1e5, 2), "rss": 40 << 30, "out": now}
        steps = [[10, 5.0, 0.6, 10, 4.0, 0.5]]
        self.send(
            {"e": "beat", "t": now, "ranks": {str(rank): sample for rank in self.ranks}},
            {"e": "steps", "t": now, "ranks": {str(rank): steps for rank in self.ranks}},
        )

    def end(self, number: int | None = None) -> None:
        if not self.over:
            code, now = (0 if number is None else None), time.time()
            ends = [{"e": "exit", "rank": rank, "code": code, "signal": number, "t": now} for rank in self.ranks]
            self.send(*ends, {"e": "end", "t": now})
        self.over = True


def _answer(ranks: range, options: dict[str, Any]) -> dict[str, Any]:
    """What a node answers of ranks that wait in a collective; rank `late` has not come to it."""
    late = options.get("late")
    facts = {str(rank): _facts(rank == late, options["world"]) for rank in ranks}
    return {"host": f"node{ranks[0] // len(ranks) + 1}", "t": time.time(), "ranks": facts, "ras": None}


@cache
def _facts(late: bool, world: int) -> dict[str, Any]:
    one = stack_dump._AskedRank(100)
    one.facts.update({"state": "S", "name": "python", "cpu": 100.0, "wchan": "futex_wait", "running": 0})
    parts = (
        ("threads", _threads(late)),
        ("fr", {"entries": _entries(ENTRIES - late, late), "total": ENTRIES, "status": {}, "off": ""}),
        ("groups", {"0": {"ranks": list(range(world)), "backend": "nccl"}}),
        ("end", None),
    )
    one.read("\n".join(json.dumps({"ddpkit": kind, "value": value, "error": None}) for kind, value in parts))
    return one.facts


def _threads(late: bool) -> list[dict[str, Any]]:
    frames: list[list[Any]] = [["/data/train.py", 57 if late else 80, "slow_step" if late else "step"]]
    if not late:
        frames.insert(0, ["/opt/torch/torch/distributed/distributed_c10d.py", 2800, "all_reduce"])
    frames += [[f"/data/model/layer{number}.py", 10 * number, "forward"] for number in range(20)]
    others = [{"name": f"worker {number}", "main": False, "frames": frames[-8:]} for number in range(4)]
    return [{"name": "MainThread", "main": True, "frames": frames}, *others]


def _entries(number: int, late: bool) -> list[dict[str, Any]]:
    now = time.time_ns()
    done = {"state": "completed", "retired": True}
    waits = {"state": "started", "retired": False}
    return [
        {
            "frames": [], "record_id": seq, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": seq,
            "p2p_seq_id": 0, "op_id": seq, "profiling_name": "nccl:all_reduce", "input_sizes": [[25, 1 << 18]],
            "input_dtypes": ["Float"], "output_sizes": [[25, 1 << 18]], "output_dtypes": ["Float"],
            "time_created_ns": now - (number - seq) * 10_000_000 - 600_000_000_000,
            "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "timeout_ms": 600_000,
            "is_p2p": False, **(waits if seq == number and not late else done),
        }
        for seq in range(1, number + 1)
    ]  # fmt: skip


def main(options: dict[str, Any]) -> None:
    """Serve the sockets whose numbers are `links` until all launchers' runs are over."""
    per = options["ranks"]
    nodes = [
        StandIn(socket.socket(fileno=fd), number * per, options, number in options["mute"])
        for number, fd in enumerate(options["links"])
    ]
    poll, by_fd = select.epoll(), {node.link.fileno(): node for node in nodes}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    due: list[tuple[float, int, str, StandIn]] = []  # what nodes send, by time
    while by_fd:
        pause = due[0][0] - time.monotonic() if due else 1.0
        for fd, _ in poll.poll(max(0.0, pause)):
            node = by_fd[fd]
            if node.read():
                node.start()
                now, many = time.monotonic(), len(nodes)
                share = (fd % many) / many  # not all in the same moment
                heapq.heappush(due, (now + options["step_every"] * (1 + share), fd, "beat", node))
                heapq.heappush(due, (now + options["line_every"] * (1 + share), fd, "line", node))
                heapq.heappush(due, (now + options["seconds"], fd, "end", node))
            if node.gone:
                poll.unregister(fd)
                del by_fd[fd]
        while due and due[0][0] <= time.monotonic():
            when, fd, what, node = heapq.heappop(due)
            if node.over:
                continue
            if what == "end":
                node.end()
            elif what == "beat":
                node.beat()
                heapq.heappush(due, (when + options["step_every"], fd, what, node))
            else:
                node.print_lines(node.ranks)
                heapq.heappush(due, (when + options["line_every"], fd, what, node))


if __name__ == "__main__":
    main(json.load(sys.stdin))
