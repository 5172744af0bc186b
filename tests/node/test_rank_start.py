"""The start of a rank, seen from outside: real processes that do what a start of torch does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddpkit.node.calls import rank_start
from ddpkit.node.kernel import tcp_sockets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Each line of its input is one step.
RANK = """
import mmap, os, socket, sys, threading

library, port = sys.argv[1], int(os.environ["MASTER_PORT"])
kept = [socket.socketpair(), socket.create_server(("127.0.0.1", 0))]  # of others: a logger, a server of metrics

def name() -> None:
    with open("/proc/thread-self/comm", "w") as file:
        file.write("pt_gloo_runloop")
    threading.Event().wait()

for line in sys.stdin:
    if line == "import\\n":
        file = open(library, "rb")
        kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    elif line == "socket\\n":
        kept.append(socket.socket())
    elif line == "listen\\n":
        kept[-1].bind(("127.0.0.1", port))
        kept[-1].listen()
    elif line == "group\\n":
        threading.Thread(target=name, daemon=True).start()
    print("done", flush=True)
"""
# A program in front of Python starts it from a thread of its own, as `uv run` may.
FRONT = """
import subprocess, sys, threading
each = threading.Thread(target=lambda: subprocess.run(sys.argv[1:]))
each.start()
each.join()
"""


class Rank:
    def __init__(self, tmp_path: Path, *front: str) -> None:
        library = tmp_path / "torch/lib/libtorch_cpu.so"
        library.parent.mkdir(parents=True)
        library.write_bytes(b"0" * 5000)
        (tmp_path / "torch/version.py").write_text("__version__ = '2.9.0+cpu'\ncuda: Optional[str] = None\n")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [*front, sys.executable, "-c", RANK, str(library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "MASTER_PORT": str(port)},
        )
        self.known: list[str] = []

    def do(self, step: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{step}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def watch(self, limit: float) -> dict[str, Any]:
        answer = rank_start.watch({"0": {"pid": self.process.pid}}, {"0": self.known}, 0.0, limit)
        self.known += answer["marks"].get("0", {})
        return answer

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(params=[(), (sys.executable, "-c", FRONT)], ids=["python", "in a thread's child"])
def rank(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rank]:
    started = Rank(tmp_path, *request.param)
    yield started
    started.end()


def test_each_step_of_a_start_is_marked_once_and_soon(rank: Rank) -> None:
    rank.do("wait")
    began = time.monotonic()
    assert rank.watch(0.3)["marks"] == {}
    rank.do("import")
    answer = rank.watch(60.0)
    assert list(answer["marks"]["0"]) == ["import"]
    assert answer["versions"] == ["-", "2.9.0+cpu", "-", "-"]
    assert rank.watch(0.3) | {"t": 0} == {"t": 0, "over": False, "marks": {}, "versions": None}
    rank.do("socket")
    rank.do("listen")
    assert list(rank.watch(60.0)["marks"]["0"]) == ["meet"]
    rank.do("group")
    answer = rank.watch(60.0)
    assert (list(answer["marks"]["0"]), answer["over"]) == (["group"], True)
    assert time.monotonic() - began < 60.0  # no call waited for its limit


def test_a_socket_that_gets_its_port_later_is_seen_in_the_same_call(
    rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first look it has no port yet."""
    rank.do("import")
    rank.watch(60.0)
    rank.do("socket")
    looks = iter(["listen"])
    monkeypatch.setattr(time, "sleep", lambda _: rank.do(next(looks, "wait")))
    assert list(rank.watch(60.0)["marks"]["0"]) == ["meet"]


def test_sockets_are_looked_up_only_while_they_are_new(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's table of all sockets costs more than everything else."""
    lookups: list[int] = []
    looks: list[float] = []

    def look_up(pid: int) -> Iterator[tuple[int, int, bool, str]]:
        lookups.append(pid)
        return tcp_sockets(pid)

    monkeypatch.setattr(rank_start, "tcp_sockets", look_up)
    monkeypatch.setattr(rank_start, "LOOK_EVERY", (0.001, 0.001))
    monkeypatch.setattr(time, "sleep", looks.append)
    rank.do("import")
    rank.known.append("import")
    assert rank.watch(3.0)["marks"] == {}
    assert (len(lookups), len(looks) > 10) == (2, True)
