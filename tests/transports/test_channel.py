"""What comes over a stream: clocks that differ, silence that is one and silence that is none, the end before a word."""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ddpkit.node.seal import TAG, Seal
from ddpkit.node.supervision.clock import Clock
from ddpkit.transports import channel, protocol
from ddpkit.transports.channel import Channel, Heartbeat, NoAnswerError, RefusedError, not_started
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.protocol import NODE, NODE_PACKAGE
from ddpkit.transports.ssh.pdsh import PdshStream
from ddpkit.transports.ssh.program import SshStream

PATIENCE = 120.0
SKEW = 30.0  # seconds between a word and the moment at which a busy machine hears it


class ByteStream:
    """Two pipes: what the channel reads is written to `far_out`, what it writes is read from `far_in`."""

    def __init__(self) -> None:
        self._closing = threading.Lock()
        self._in, self.far_out = os.pipe()
        self.far_in, self._out = os.pipe()
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)
        with os.fdopen(os.dup(self._out), "wb") as file:
            file.write(data)

    def read(self) -> bytes:
        if not select.select([self._in], [], [], 0.05)[0]:
            return b""
        data = os.read(self._in, 1 << 16)
        if not data:
            raise EOFError
        return data

    def code(self) -> int:
        return 0

    def why(self) -> str:
        return "the connection was lost"

    def refusal(self, said: Sequence[str]) -> RefusedError | None:
        return None

    def close(self) -> None:
        with self._closing:  # the channel closes it as well, from a thread of its own
            if self._out >= 0:
                os.close(self._out)
                self._out = -1

    def hang_up(self) -> None:
        os.close(self.far_out)
        self.far_out = -1

    def tidy(self) -> None:
        self.close()
        for fd in (self.far_out, self.far_in):
            if fd >= 0:
                os.close(fd)


class Node:
    """A channel whose other side the test plays."""

    def __init__(self, silence: float = 3600.0, ahead: float = 0.0, before: bytes = b"") -> None:
        self.stream = ByteStream()
        os.write(self.stream.far_out, before)
        self.ahead = ahead  # seconds that the node's clock is ahead of ours
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.channel = Channel("node1", self.stream, silence, Clock())
        self.seal = Seal(self.channel._key, "node")
        self.commands = Seal(self.channel._key, "launcher")
        self.say("hello", host="node1", pid=1)
        reader = threading.Thread(target=self._take_program)
        reader.start()
        self.channel.open(time.monotonic() + PATIENCE)
        reader.join()

    def _take_program(self) -> None:
        left = len(protocol.program(key=self.channel._key))
        while left:
            left -= len(os.read(self.stream.far_in, left))

    def say(self, kind: str, when: float | None = None, **more: Any) -> None:
        self.write({"e": kind, "t": (time.time() if when is None else when) + self.ahead, **more})

    def write(self, event: dict[str, Any]) -> None:
        os.write(self.stream.far_out, self.seal.close(json.dumps(event, separators=(",", ":")).encode()))

    def start(self) -> None:
        self.channel.start("{}", self.events.put)

    def next(self) -> Any:
        return self.events.get(timeout=PATIENCE)


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    made: list[Node] = []
    yield made
    for node in made:
        if node.stream.far_out >= 0:
            node.stream.hang_up()
        node.stream.tidy()


@pytest.mark.parametrize("ahead", [-7200.0, 0.0, 7200.0])
def test_what_happened_first_is_known_although_clocks_differ(ahead: float, nodes: list[Node]) -> None:
    """One node's clock is two hours off. Its rank failed before the other's, and the news came after."""
    nodes += [Node(), Node(ahead=ahead)]
    now = time.time()
    for node in nodes:
        node.channel._node_clock.began = now - 300
        node.start()
    nodes[0].say("failed", when=now - 4, rank=0, code=1, what="rank", since=now - 5)
    nodes[1].say("failed", when=now - 8, rank=1, code=1, what="rank", since=now - 9 + ahead)
    late, early = (node.next() for node in nodes)
    for event, when in ((late, now - 4), (early, now - 8)):
        assert abs(event["t"] - when) < 1.5
        assert abs(event["since"] - (when - 1)) < 1.5


def test_a_clock_that_was_set_back_makes_no_failure_the_first(nodes: list[Node]) -> None:
    """It failed "after -7200.0 s", and before all others."""
    nodes.append(Node())
    nodes[0].start()
    nodes[0].say("failed", when=time.time() - 7200, rank=0, code=1, what="rank")
    assert abs(nodes[0].next()["t"] - time.time()) < SKEW


def test_vitals_are_in_our_time(nodes: list[Node]) -> None:
    nodes.append(Node(ahead=7200.0))
    nodes[0].start()
    now = time.time()
    idle = {"pid": 1, "state": "S", "cpu": 0.0, "rss": 0}
    nodes[0].say("beat", ranks={"0": {**idle, "out": now - 300 + 7200.0}, "1": {**idle, "out": None}})
    ranks = nodes[0].next()["ranks"]
    assert abs(ranks["0"]["out"] - (now - 300)) < SKEW
    assert ranks["1"]["out"] is None


def test_a_silent_node_is_lost(nodes: list[Node]) -> None:
    nodes.append(Node(silence=0.3))
    nodes[0].start()
    assert nodes[0].next() == {
        "e": "lost",
        "reason": "no heartbeat for 0.3 s: the host or the network is down; its processes end automatically",
    }
    assert nodes[0].next() is None


def test_a_node_that_is_silent_during_a_long_call_is_lost(nodes: list[Node]) -> None:
    nodes.append(Node(silence=0.3))
    nodes[0].channel.ask("probe.cpus", {}, beats=True)
    with pytest.raises(NoAnswerError, match=r"it answered \(no heartbeat for 0.3 s"):
        nodes[0].channel.answer(time.monotonic() + PATIENCE)


def test_no_silence_is_counted_where_it_is_turned_off(nodes: list[Node]) -> None:
    nodes.append(Node(silence=0.0))
    nodes[0].start()
    time.sleep(0.3)  # the silence
    nodes[0].say("start", rank=0, pid=1)
    assert nodes[0].next()["e"] == "start"


def test_a_reader_that_was_held_up_has_not_heard_silence(nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    """The screen took nothing for longer than a node may be silent, and nothing lies there when it goes on."""
    nodes.append(Node(silence=0.5))
    node, free = nodes[0], threading.Event()
    real, turns = node.stream.read, iter(["empty"])

    def read() -> bytes:
        if free.is_set() and next(turns, ""):
            node.say("end")
            return b""
        return real()

    monkeypatch.setattr(node.stream, "read", read)

    def post(event: Any) -> None:
        if event is not None and event["e"] == "out":
            free.wait(PATIENCE)
        node.events.put(event)

    node.channel.start("{}", post)
    node.say("out", rank=0, fd=1, data="x\n")
    time.sleep(1.0)  # nobody reads
    free.set()
    assert node.next()["e"] == "out"
    assert node.next()["e"] == "end"
    assert node.next() is None


def test_a_launcher_that_was_stopped_has_not_heard_silence(nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    """One read that lasted longer than any may: this process stood still, and says nothing of the node."""
    nodes.append(Node(silence=1.5))
    node = nodes[0]
    monkeypatch.setattr(channel, "LONG_READ", 0.5)
    real, turns = node.stream.read, iter([2.0])

    def read() -> bytes:
        data = real()
        if not data and (long := next(turns, 0.0)):
            time.sleep(long)
            node.say("end")
        return data

    monkeypatch.setattr(node.stream, "read", read)
    node.start()
    assert node.next()["e"] == "end"


def test_a_node_that_is_gone_before_its_step(nodes: list[Node]) -> None:
    nodes.append(Node())
    nodes[0].stream.hang_up()
    with pytest.raises(NoAnswerError, match="the connection was lost"):
        nodes[0].channel.answer(time.monotonic() + PATIENCE)
    nodes[0].start()
    assert nodes[0].next() == {"e": "lost", "reason": "the connection was lost"}
    assert nodes[0].next() is None


@pytest.mark.parametrize(
    "data", [b'{"e":' + b"[" * 200_000, b"x" * (channel.LINE_LIMIT + 1)], ids=["too deep", "too long"]
)
def test_an_odd_word_is_an_end_and_not_a_hang(data: bytes, nodes: list[Node]) -> None:
    nodes.append(Node())
    nodes[0].start()
    with open(os.dup(nodes[0].stream.far_out), "wb") as far:
        far.write(nodes[0].seal.close(data))
    assert nodes[0].next()["reason"].startswith("it sent a line")
    assert nodes[0].next() is None


NOW = time.time()
SAMPLE = {"pid": 1, "state": "S", "cpu": 0.0, "rss": 0, "out": None}


# What no supervisor sends. Each is passed over.
def test_a_start_up_file_leaves_a_line_without_an_end(nodes: list[Node]) -> None:
    """It sets the title of a terminal that is none: "its Python did not start ddpkit's process in time"."""
    nodes.append(Node(before=b"\x1b]0;node1\x07"))
    nodes[0].start()
    nodes[0].say("start", rank=3, pid=1)
    assert nodes[0].next()["rank"] == 3


def test_a_long_line_of_a_start_up_file_is_cut() -> None:
    assert len(channel.quoted_lines(["x" * 1_000_000, "y"])) < 1000


def test_warnings_of_this_machines_ssh_are_not_the_nodes_output() -> None:
    """Those that OpenSSH 10.1 prints on a connection to an sshd before 9.0, and that of a new key."""
    warnings = (
        "Warning: Permanently added 'node1' (ED25519) to the list of known hosts.",
        "** WARNING: connection is not using a post-quantum key exchange algorithm.",
        '** This session may be vulnerable to "store now, decrypt later" attacks.',
        "** The server may need to be upgraded. See https://openssh.com/pq.html",
    )
    refused = not_started(127, [*warnings, "sh: 1: /no/python: not found"], "node1")
    assert str(refused) == "its Python cannot be started; its output: sh: 1: /no/python: not found"
    assert str(not_started(127, warnings, "node1")) == "its Python cannot be started"


HOSTILE: dict[str, dict[str, Any]] = {
    "a path for a rank": {"e": "out", "rank": "../../x", "fd": 1, "data": "x\n"},
    "a fraction for a rank": {"e": "out", "rank": 0.5, "fd": 1, "data": "x\n"},
    "no such output": {"e": "out", "rank": 0, "fd": 7, "data": "x\n"},
    "a list for text": {"e": "out", "rank": 0, "fd": 1, "data": ["x"]},
    "a word for a time": {"e": "beat", "t": "noon", "ranks": {}},
    "no time": {"e": "beat", "t": float("nan"), "ranks": {}},
    "an endless time": {"e": "exit", "rank": 0, "code": 0, "signal": None, "t": float("inf")},
    "a sample without keys": {"e": "beat", "t": NOW, "ranks": {"0": {}}},
    "a path in a sample": {"e": "beat", "t": NOW, "ranks": {"../x": SAMPLE}},
    "text for steps": {"e": "steps", "t": NOW, "ranks": {"0": [["x"] * 6]}},
    "short steps": {"e": "steps", "t": NOW, "ranks": {"0": [[1.0]]}},
    "a huge code": {"e": "exit", "rank": 0, "code": 10**30, "signal": None, "t": NOW},
    "a negative signal": {"e": "exit", "rank": 0, "code": None, "signal": -1, "t": NOW},
    "no reason": {"e": "refused"},
    "names that are none": {"e": "left", "names": [1, {}]},
    "a kind that is none": {"e": ["out"]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_event_ends_the_link_of_its_node(name: str, nodes: list[Node]) -> None:
    nodes.append(Node())
    nodes[0].start()
    nodes[0].write(HOSTILE[name])
    lost = nodes[0].next()
    assert lost["e"] == "lost"
    assert lost["reason"].startswith("it sent ")
    assert nodes[0].next() is None


@pytest.mark.parametrize("event", [{"e": "later"}, {"e": "note", "text": "x"}, {"e": "lost", "reason": "x"}])
def test_a_kind_that_no_node_sends_is_passed_over(event: dict[str, Any], nodes: list[Node]) -> None:
    """A later supervisor may send more kinds; what only this machine says is none of them."""
    nodes.append(Node())
    nodes[0].start()
    nodes[0].write(event)
    nodes[0].say("start", rank=3, pid=1)
    assert nodes[0].next()["e"] == "start"


@pytest.mark.parametrize("sealed", ["not at all", "by nobody", "again", "later"])
def test_a_line_that_the_supervisor_did_not_write_is_passed_over(sealed: str, nodes: list[Node]) -> None:
    """A rank wrote it into the supervisor's channel: `/proc/PPID/fd/1`."""
    nodes.append(Node())
    node = nodes[0]
    node.start()
    forged = b'{"e":"exit","rank":0,"code":0,"signal":null,"t":1.0}'
    first = node.seal.close(b'{"e":"start","rank":0,"pid":1,"t":1.0}')
    skipped = Seal(node.channel._key, "node")
    skipped._count = 7
    lines = {
        "not at all": forged + b"\n",
        "by nobody": Seal("0" * 32, "node").close(forged),
        "again": first,
        "later": skipped.close(forged),
    }
    os.write(node.stream.far_out, first)
    os.write(node.stream.far_out, lines[sealed])
    node.say("exit", rank=0, code=7, signal=None)
    assert [node.next()["e"], node.next()["code"]] == ["start", 7]


def test_a_node_answers_only_what_it_was_asked(nodes: list[Node]) -> None:
    nodes.append(Node())
    nodes[0].start()
    nodes[0].say("answer", id=1, data="AAAA")
    assert nodes[0].next()["reason"].startswith("it sent an answer to call 1, which it did not get")


def test_a_small_answer_that_becomes_a_huge_one_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "ANSWER_LIMIT", 1 << 16)
    for size, error in ((1 << 10, None), (1 << 20, "its answer cannot be read: more than 65536 bytes")):
        data = b64encode(zlib.compress(json.dumps(["x" * size, None]).encode())).decode()
        answer = protocol.Pieces({1}).take(
            {"e": "answer", "id": 1, "data": data, "t": NOW, "values": [], "error": None}
        )
        assert answer is not None
        assert answer["e"] == "answer"
        assert answer["error"] == error


def test_a_node_speaks_for_itself_and_in_plain_text(nodes: list[Node]) -> None:
    nodes.append(Node())
    nodes[0].start()
    nodes[0].say("failed", rank=0, code=7, what="x\x1b]0;title\x07\n", reason="a\x9bb", host="node2", more="?")
    event = nodes[0].next()
    assert {name: event[name] for name in event if name != "t"} == {
        "e": "failed",
        "rank": 0,
        "code": 7,
        "what": "x ]0;title  ",
        "reason": "a b",
    }


def test_signs_of_life_begin_with_the_door_and_never_cut_a_message(nodes: list[Node]) -> None:
    nodes.append(Node(silence=0.02))
    heartbeat = Heartbeat(0.02)
    heartbeat.add(nodes[0].channel)
    text, received = "x" * 3000, b""
    for _ in range(200):
        nodes[0].channel.send({"c": "signal", "name": text})
        received += os.read(nodes[0].stream.far_in, 1 << 16)
    heartbeat.stop()
    lines = [nodes[0].commands.open(line) for line in received.splitlines()]
    commands = [each.get("name", each["c"]) for each in map(json.loads, filter(None, lines))]
    assert set(commands) <= {"beat", text}
    assert commands.count(text) == 200


# ---- the supervisor's side


def answers() -> list[bytes]:
    """What was sent to a Python on this machine until it answered a question."""
    stream = ByteStream()
    argv = [sys.executable, "-S", "-I", "-c", protocol.BOOT]
    process = subprocess.Popen(argv, stdin=stream.far_in, stdout=stream.far_out, start_new_session=True)
    os.close(stream.far_in)
    os.close(stream.far_out)
    there = Channel("here", stream, 3600.0, Clock())
    with process:
        there.open(time.monotonic() + PATIENCE)
        there.ask("probe.reach", {"targets": [], "timeout": 0.0})
        assert there.answer(time.monotonic() + PATIENCE) == []
        there.close()
        assert process.wait(PATIENCE) is not None
    return stream.written


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a process 1")
def test_a_python_that_gets_no_program_ends_also_as_process_1() -> None:
    boot = protocol.BOOT.replace("alarm(60)", "alarm(1)")
    argv = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-S", "-I", "-c", boot]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        try:
            assert process.wait(PATIENCE) == 1
        finally:
            process.kill()


def test_a_node_gets_the_text_of_each_program() -> None:
    program, call, *_ = answers()
    texts = json.loads(zlib.decompress(program.partition(b"\n")[2]))
    assert set(texts) == {str(path.relative_to(NODE).with_suffix("")) for path in NODE.rglob("*.py")}
    assert texts["calls/probe"] == (NODE / "calls/probe.py").read_text()
    assert json.loads(call[: -TAG - 2])["c"] == "call"  # without its seal


@pytest.mark.parametrize("main", ["supervisor", "rpc"])
def test_programs_that_came_over_a_connection_answer(main: str) -> None:
    """Nothing of ddpkit is installed there. A module is imported at the first call of it."""
    argv = [sys.executable, "-S", "-I", "-c", protocol.BOOT]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(protocol.program(main))
        process.stdin.write(
            json.dumps({"c": "call", "function": "inventory.limits", "args": {}, "id": 1}).encode() + b"\n"
        )
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["e"] == "hello"
        answer = protocol.Pieces({1}).take(json.loads(process.stdout.readline()))
        assert answer is not None
        assert answer["e"] == "answer"
        assert isinstance(answer["values"][0], dict)
        process.stdin.close()
        process.wait(PATIENCE)


def supervisor(*folder: str, programs: Path = NODE, **settings: float) -> subprocess.Popen[bytes]:
    text = f"{NODE_PACKAGE}from ddpkit.node import calls, rpc, supervisor\ncalls.__path__.append({str(programs)!r})\n"
    text += "".join(f"rpc.{name}; rpc.{name} = {value}\n" for name, value in settings.items())  # an error if unknown
    argv = [sys.executable, "-S", "-I", "-c", f"{text}supervisor.main(*sys.argv[2:])", str(NODE), *folder]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


def test_a_supervisor_that_gets_no_request_ends() -> None:
    """The connection may have been cut, and then no end of file comes."""
    process = supervisor(SILENCE_LIMIT=0.5)
    with process:
        assert process.wait(PATIENCE) is not None


def test_a_supervisor_waits_for_a_launcher_that_gives_signs_of_life(tmp_path: Path) -> None:
    (tmp_path / "seven.py").write_text("def f(): return 7")
    process = supervisor(programs=tmp_path, SILENCE_LIMIT=4.0)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(10):
            process.stdin.write(b'{"c":"beat"}\n')
            process.stdin.flush()
            time.sleep(0.5)  # the distance between two
        call = {"c": "call", "function": "seven.f", "args": {}, "id": 1}
        process.stdin.write(json.dumps(call).encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        answer = protocol.Pieces({1}).take(json.loads(process.stdout.readline()))
        assert answer is not None
        assert answer["e"] == "answer"
        assert answer["values"] == [7]
        process.stdin.close()
        process.wait(PATIENCE)


def test_a_supervisor_sends_heartbeats_during_a_long_call(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long.py").write_text("def f(p): return open(p).read()")
    call = {"c": "call", "function": "long.f", "args": {"p": f"{tmp_path}/pipe"}, "id": 1, "beat": 0.05}
    process = supervisor(programs=tmp_path)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(call).encode() + b"\n")
        process.stdin.flush()
        kinds = [json.loads(process.stdout.readline())["e"] for _ in range(4)]
        assert kinds == ["hello", "beat", "beat", "beat"]
        (tmp_path / "pipe").write_text("done")
        while (event := json.loads(process.stdout.readline()))["e"] == "beat":
            pass
        answer = protocol.Pieces({1}).take(event)
        assert answer is not None
        assert answer["e"] == "answer"
        assert answer["values"] == ["done"]
        process.stdin.close()
        process.wait(PATIENCE)
        assert process.stdout.read() == b""  # no heartbeat after the call


def test_a_rank_of_a_silent_launcher_may_print_while_it_ends() -> None:
    """More waits for the launcher than is kept, and it says nothing. The ranks must not wait with it."""
    rank = "import signal, sys, time\ndef end(*_):\n    sys.stdout.write('y' * (8 << 20))\n    sys.exit(0)\n"
    rank += (
        "signal.signal(signal.SIGTERM, end)\nsys.stdout.write('x\\n' * (3 << 20))\nsys.stdout.flush()\ntime.sleep(3600)"
    )
    proc = {"name": "rank", "argv": [sys.executable, "-c", rank], "env": {}, "rank": 0, "restarts": 0, "cpus": []}
    request = {"run": "", "workdir": "/", "env": {}, "ranks": [0], "procs": [proc], "preload": [], "programs": []}
    process = supervisor()
    with process:
        assert process.stdin is not None
        before = time.monotonic()
        process.stdin.write(json.dumps({**request, "grace": 3600.0, "silence": 1.0}).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(PATIENCE) == 0
        assert time.monotonic() - before < 3600


def test_a_killed_guard_is_the_reason_also_where_its_end_closed_the_connection(tmp_path: Path) -> None:
    """sshd does so, and on a busy node the end of the input came before TERM: "the connection was lost"."""
    proc = {"name": "rank", "argv": ["sleep", "3600"], "env": {}, "rank": 0, "restarts": 0, "cpus": []}
    request = {"run": "", "workdir": "/", "env": {}, "ranks": [0], "procs": [proc], "preload": [], "programs": []}
    process = supervisor(str(tmp_path / "private"))
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        (tmp_path / "private").mkdir()
        process.stdin.write(json.dumps({**request, "grace": 1.0, "silence": 0.0}).encode() + b"\n")
        process.stdin.flush()
        while json.loads(process.stdout.readline())["e"] != "start":
            pass
        worker = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        os.kill(worker, signal.SIGSTOP)
        process.kill()
        process.wait(PATIENCE)
        process.stdin.close()
        os.kill(worker, signal.SIGCONT)
        (failed,) = [event for event in map(json.loads, process.stdout) if event["e"] == "failed"]
        assert failed["reason"] == "its guard process was killed"
    assert not (tmp_path / "private").exists()


# ---- named pipes


def test_a_pipe_that_nobody_reads_holds_nobody_up(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh has never come, or is gone: the pipe is ours for both, and would take no more and say nothing."""
    monkeypatch.setattr("ddpkit.transports.ssh.program.WRITE_LIMIT", 0.3)
    stream = PdshStream(str(tmp_path / "node1"), HostSpec(name="node1"))
    stream.open()
    with pytest.raises(OSError, match="accepts no input"):
        stream.write(b"x" * (4 << 20))
    stream.close()


def test_an_ssh_that_ends_after_its_stream_was_closed_writes_into_no_other_pipe(tmp_path: Path) -> None:
    """The numbers of the closed pipes are those of the next ones."""
    stream = SshStream(str(tmp_path / "node1"), HostSpec(name="node1"))
    stream.open()
    stream.close()
    others = [os.pipe2(os.O_NONBLOCK) for _ in range(2)]
    stream.end("ssh ended", 0)
    for read, write in others:
        os.close(write)
        assert os.read(read, 1) == b""
        os.close(read)


@pytest.mark.parametrize(
    ("code", "lines", "what", "fix"),
    [
        (127, ["bash: line 1: /no/python: No such file or directory"], "its Python cannot be started", "--python PATH"),
        (1, ["sh: 1: enroot: not found", "sh: 1: enroot: not found"], "enroot not found", "ssh node1 which enroot"),
        (1, ["bash: podman: command not found"], "podman not found", "ssh node1 which podman"),
        (1, ["exec: /opt/x/podman: not found"], "/opt/x/podman not found", "ssh node1 which /opt/x/podman"),
        (0, [], "its shell ended before the command", ""),
        (1, ["no space left"], "ended with exit code 1 before ddpkit's process started; its output: no space left", ""),
    ],
)
def test_a_shell_that_ended_before_our_program(code: int, lines: list[str], what: str, fix: str) -> None:
    refused = not_started(code, lines, "node1")
    assert refused is not None
    assert what in refused.what
    assert fix in refused.fix
