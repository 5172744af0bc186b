"""Cost of the launcher itself: it surveys many nodes and executes the plan; a stand-in replaces each supervisor.

Everything but the connections is the real thing: the fleet and its threads, the survey's judgement, the plan, the
carrier, the relay with its logs, the screen. Prints one JSON object: the seconds and processor seconds that it took,
and the megabytes by which it made the process grow. Usage: standin.py STEPS
"""

from __future__ import annotations

import json
import queue
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from ddpkit.console.relay import Relay
from ddpkit.console.writer import Screen
from ddpkit.execution import executor
from ddpkit.launchers.plan import Job
from ddpkit.launchers.ssh import SshTorchrunAuto
from ddpkit.transports.channel import ByteStream
from ddpkit.transports.compatibility import Requirements
from ddpkit.transports.hosts import HostSpec, parse
from ddpkit.transports.pool import NodePool
from ddpkit.transports.remote_nodes import SshTransport

RANKS = 8
EVENTS = 5  # with two lines each, from each rank
LINES = r"step 100 loss 2.3025 lr 0.001 tokens/s 123456 memory 40.1 GB\nstep 101 loss 2.3024 lr 0.001\n"


class StandIn:
    """A supervisor behind a byte stream: it answers each request, and its ranks print some lines and exit with 0."""

    def __init__(self, spec: HostSpec, number: int) -> None:
        self._name = spec.name
        self._address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        self._output: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._has_greeted = False

    def write(self, data: bytes) -> None:
        if not self._has_greeted:
            self._has_greeted = True
            self._send_event(e="hello", pid=1, host=self._name, t=time.time())
            return
        message = json.loads(data)
        if "ask" in message:
            reached = [[name, ""] for name, *_ in message["args"].get("targets", ())]
            value = self._facts() if message["ask"] == "look" else reached
            self._send_event(e="answer", id=message["id"], value=value, error=None)
        elif "procs" in message:
            for rank in message["ranks"]:
                self._output.put(b'{"e":"start","rank":%d,"pid":%d,"t":%f}\n' % (rank, 100 + rank, time.time()))
            line = '{"e":"out","rank":%d,"fd":1,"data":"' + LINES.replace("%", "%%") + '"}\n'
            for rank in message["ranks"]:
                self._output.put((line % rank).encode() * EVENTS)
            for rank in message["ranks"]:
                self._output.put(b'{"e":"exit","rank":%d,"code":0,"signal":null,"t":%f}\n' % (rank, time.time()))
            self._send_event(e="end", t=time.time())

    def _send_event(self, **event: Any) -> None:
        self._output.put(json.dumps(event, separators=(",", ":")).encode() + b"\n")

    def _facts(self) -> dict[str, Any]:
        empty = dict.fromkeys(("no_workdir", "no_gpus", "no_port", "no_tmp"), "")
        known = {"workdir": "/data", "executable": "/opt/venv/bin/python", "python": "3.11.7", "cpus": 96, "gpus": 8}
        where = {"addresses": [["eth0", self._address]], "own_name": [self._address]}
        ports = {"port": 23456, "high_port": 40000, "secret": "0"}
        more = {"torch": {"place": "/opt/torch", "version": "2.13.0"}, "set": ["HOME", "PATH"], "stale": []}
        return {
            "host": self._name,
            "machine": self._name,
            "tmp": "/tmp",
            "time": time.time(),
            "script": "",
            **empty,
            **known,
            **where,
            **ports,
            **more,
        }

    def read(self) -> bytes:
        try:
            data = self._output.get(timeout=1.0)
        except queue.Empty:
            return b""
        if data is None:
            raise EOFError
        return data

    def code(self) -> int:
        return 0

    def why(self) -> str:
        return ""

    def refusal(self, lines: Sequence[str]) -> None:
        return None

    def close(self) -> None:
        self._output.put(None)


class StandInTransport:
    """A transport to nodes that do not exist."""

    timeout = 5.0
    asks = False

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        self._numbers = {spec.name: number for number, (spec, _) in enumerate(calls, 1)}

    def enter(self, spec: HostSpec, command: str, until: float) -> ByteStream:
        return StandIn(spec, self._numbers[spec.name])

    def login(self, spec: HostSpec) -> tuple[str, ...]:
        return ()

    def close(self) -> None: ...


def main(steps: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as name, open("/dev/null", "wb") as null:
        specs = parse([f"node[1-{steps}]"], {}, {}, "")
        job = Job(run_id="bench", command=("train.py",), workdir="/data", python="/opt/venv/bin/python", folder=name)
        requirements = Requirements(
            job=job,
            nproc_per_node=RANKS,
            script=None,
            digest="",
            torch=True,
            starter="ranks",
            master_addr="",
            master_port=0,
        )
        nodes = NodePool(specs, StandInTransport(), 30.0, job.python)
        try:
            transport = SshTransport(nodes, requirements)
            world = transport.survey(lambda text: print(text, file=sys.stderr), strict=True)
            plan = SshTorchrunAuto(starter="ranks").plan(job, world)
            screen = Screen(null, null, lambda: None)
            relay = Relay(Path(name), screen.out, screen.err)
            outcome = executor.carry(plan, relay, transport.connect, queue.SimpleQueue(), screen)
            relay.close()
            screen.close(None)
        finally:
            nodes.close()
        seconds = time.perf_counter() - begin
        assert outcome.exit_code == 0, outcome
        assert not relay.problem, relay.problem
        lines = (Path(name) / f"rank_{RANKS * steps - 1}.log").read_text().count("\n")
        assert lines == 2 * EVENTS, lines
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    grown = (after.ru_maxrss - before.ru_maxrss) / 1024
    figures = {"seconds": round(seconds, 3), "cpu_seconds": round(cpu, 3), "megabytes": round(grown, 2)}
    print(json.dumps({"steps": steps, **figures, "peak": round(after.ru_maxrss / 1024, 1)}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
