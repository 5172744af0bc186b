"""Cost of the launcher for thousands of ranks: real carrier, channels, relay and records; supervisors are stood in for.

One process stands in for the supervisors of all nodes (`standin.py`), over real sockets. Each rank prints 10 lines at
once, then one line every 10 s, and reports its steps every 5 s. Printed are the launcher's share of a CPU after the
burst, its memory, the bytes that it writes into files in an hour, and the CPU for ten times the nodes. `--dump` asks
all ranks for their stacks: one of them is late in a collective, and some nodes can be mute.

Usage: python bench/scale.py [--nodes 100,1000] [--ranks 8] [--seconds 60] [--dump] [--mute 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rows import print_rows

sys.path.insert(0, str(Path(__file__).parents[1]))
from ddpkit.console.relay import Relay
from ddpkit.console.writer import Screen
from ddpkit.diagnosis.outcome import Outcome
from ddpkit.execution import executor
from ddpkit.launchers.plan import Plan, Proc, Step
from ddpkit.node.supervision.clock import Clock
from ddpkit.run.log_files import LogFiles
from ddpkit.transports.channel import Channel, Heartbeat
from ddpkit.transports.protocol import ASK

BURST, LINE_EVERY, STEP_EVERY = 10, 10.0, 5.0
START_LIMIT = 120.0  # seconds for all stand-ins to greet
SETTLED = 15.0  # seconds after the start, of which the burst is a part


class SocketStream:
    """A byte stream to one stand-in."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._poll = select.poll()
        self._poll.register(link, select.POLLIN)

    def write(self, data: bytes) -> None:
        self._link.sendall(data)

    def read(self) -> bytes:
        if not self._poll.poll(1000):
            return b""
        data = self._link.recv(1 << 16)
        if not data:
            raise EOFError
        return data

    def code(self) -> int:
        return 0

    def why(self) -> str:
        return ""

    def refusal(self, lines: Sequence[str]) -> None:
        return None

    def close(self) -> None:
        self._link.shutdown(socket.SHUT_RDWR)


class CountedScreen(Screen):
    """A screen that counts its bytes."""

    shown = 0

    def put(self, stream: Any, data: bytes) -> None:
        self.shown += len(data)
        super().put(stream, data)


class Usage:
    """CPU seconds of this process, and bytes that it wrote into files and on the screen, from `begin` to `end`."""

    def __init__(self, screen: CountedScreen) -> None:
        self._screen = screen

    def begin(self) -> None:
        self._from = self._now()

    def end(self) -> None:
        now = zip(self._now(), self._from, strict=True)
        self.seconds, self.cpu, written, self.shown = (after - before for after, before in now)
        self.written = written - self.shown

    def _now(self) -> tuple[float, float, int, int]:
        return time.perf_counter(), time.process_time(), _written(), self._screen.shown


def _written() -> int:
    return int(Path("/proc/self/io").read_text().split("wchar: ")[1].split()[0])


def peak() -> float:
    """Megabytes that this process has had in memory at most."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def run(
    folder: Path, nodes: int, ranks: int, options: dict[str, Any], inbox: executor.Inbox, relay: Relay, screen: Screen
) -> Outcome:
    """Carry out a plan whose supervisors are stood in for. `options` are those of the stand-ins."""
    pairs = [socket.socketpair() for _ in range(nodes)]
    hosts = [f"node{number + 1}" for number in range(nodes)]
    far = [there.fileno() for _, there in pairs]
    words = {"ranks": ranks, "world": nodes * ranks, "links": far, "mute": [], **options}
    argv = [sys.executable, str(Path(__file__).with_name("standin.py"))]
    with subprocess.Popen(argv, pass_fds=far, stdin=subprocess.PIPE) as standin:
        assert standin.stdin is not None
        standin.stdin.write(json.dumps(words).encode())
        standin.stdin.close()
        for _, there in pairs:
            there.close()
        heart = Heartbeat(30.0)
        channels = [
            Channel(host, SocketStream(here), 30.0, Clock()) for host, (here, _) in zip(hosts, pairs, strict=True)
        ]
        try:
            for channel in channels:
                channel.open(time.monotonic() + START_LIMIT)
                heart.add(channel)
            steps = tuple(_step(host, number, ranks) for number, host in enumerate(hosts))
            plan = Plan(run_id="bench", backend="ssh", steps=steps, world_size=nodes * ranks, grace=1.0)
            return executor.carry(plan, relay, lambda step: channels[step.node_rank], inbox, screen)
        finally:
            heart.stop()
            for here, _ in pairs:
                here.close()
            standin.wait(START_LIMIT)


def _step(host: str, number: int, ranks: int) -> Step:
    numbers = range(number * ranks, (number + 1) * ranks)
    procs = tuple(Proc(name="rank", rank=rank, argv=("train.py",)) for rank in numbers)
    return Step(host=host, node_rank=number, ranks=numbers, workdir="/data", env={}, procs=procs)


def measure(nodes: int, ranks: int, seconds: float, mute: int, *, dump: bool) -> dict[str, Any]:
    """Run it in this process, whose peak of memory is then that of this run."""
    world = nodes * ranks
    inbox = executor.Inbox()
    options: dict[str, Any] = {"burst": BURST, "line_every": LINE_EVERY, "step_every": STEP_EVERY}
    options |= {"seconds": SETTLED + seconds, "late": world // 2 + 1, "mute": list(range(1, mute + 1)), "dump": dump}
    with tempfile.TemporaryDirectory() as name, open("/dev/null", "wb") as null:
        folder = Path(name)
        screen = CountedScreen(null, null, lambda: None)
        usage = Usage(screen)
        timers = [threading.Timer(SETTLED, usage.begin), threading.Timer(SETTLED + seconds - 1.0, usage.end)]
        if dump:
            timers.append(threading.Timer(SETTLED, inbox.put, [(-1, ASK)]))
        relay = Relay(LogFiles(folder), screen.out, screen.err)
        for timer in timers:
            timer.daemon = True
            timer.start()
        begin = time.perf_counter()
        outcome = run(folder, nodes, ranks, options, inbox, relay, screen)
        relay.close()
        screen.close(None)
        assert outcome.exit_code == 0, outcome
        figures = {
            "nodes": nodes,
            "ranks": world,
            "seconds": round(time.perf_counter() - begin, 1),
            "cpu_share": round(usage.cpu / usage.seconds, 4),
            "megabytes": round(peak(), 1),
            "written_per_hour_mb": round(usage.written / usage.seconds * 3600 / 1e6, 1),
            "shown_per_hour_mb": round(usage.shown / usage.seconds * 3600 / 1e6, 1),
            "timeline_mb": round(sum(path.stat().st_size for path in folder.glob("timeline*")) / 1e6, 2),
            "status_mb": round(sum(path.stat().st_size for path in folder.glob("status*")) / 1e6, 2),
            "logs_mb": round(sum(path.stat().st_size for path in folder.glob("*.log")) / 1e6, 2),
        }
        if dump:
            figures |= _dumped(folder)
        return figures


def _dumped(folder: Path) -> dict[str, Any]:
    path = next(iter(folder.glob("dump-*/summary.json")), None)
    if path is None:
        return {"dump_seconds": None}
    summary = json.loads(path.read_bytes())
    return {
        "dump_seconds": summary["seconds"],
        "dump_files": len(list(path.parent.iterdir())),
        "dump_mb": round(sum(each.stat().st_size for each in path.parent.iterdir()) / 1e6, 1),
        "silent": len(summary["silent"]),
        "findings": [each["words"][:160] for each in summary["findings"][:3]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--nodes", default="100,1000", help="how many, each in a process of its own")
    parser.add_argument("--ranks", type=int, default=8, help="on each node (default 8)")
    parser.add_argument("--seconds", type=float, default=60.0, help="measured after the burst (default 60)")
    parser.add_argument("--dump", action="store_true", help="dump the stacks of all ranks")
    parser.add_argument("--mute", type=int, default=0, help="nodes that do not answer the dump")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    counts = [int(word) for word in options.nodes.split(",")]
    if len(counts) == 1:
        rows = [measure(counts[0], options.ranks, options.seconds, options.mute, dump=options.dump)]
    else:
        more = ["--ranks", str(options.ranks), "--seconds", str(options.seconds), "--mute", str(options.mute), "--json"]
        more += ["--dump"] if options.dump else []
        argvs = [[sys.executable, __file__, "--nodes", str(each), *more] for each in counts]
        rows = [json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)[0] for argv in argvs]
        for row in rows:
            row["cpu_ratio"] = round(row["cpu_share"] / rows[0]["cpu_share"], 2)
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
