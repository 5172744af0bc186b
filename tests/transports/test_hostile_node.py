"""A node whose supervisor says anything: one clear error that names it, and nothing else happens."""

from __future__ import annotations

import io
import json
import os
import queue
import threading
from base64 import b64encode
from pathlib import Path
from typing import Any
from zlib import compress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_channel import ByteStream

from ddpkit.console.relay import Relay
from ddpkit.console.writer import Screen
from ddpkit.diagnosis.outcome import Outcome
from ddpkit.execution.executor import carry
from ddpkit.launchers.plan import Plan, Proc, Step
from ddpkit.node.seal import Seal
from ddpkit.node.supervision.clock import Clock
from ddpkit.run.log_files import LogFiles
from ddpkit.transports.channel import Channel

# `DDPKIT_FUZZ=10000` tries as many.
TRIES = int(os.environ.get("DDPKIT_FUZZ", "60"))
KINDS = (
    *("hello", "answer", "beat", "start", "mark", "versions", "steps", "out", "exit", "timeout", "failed"),
    *("left", "stuck", "refused", "end", "lost", "note", "later"),
)
NAMES = (
    *("rank", "t", "pid", "code", "signal", "data", "fd", "more", "ranks", "name", "names", "what", "reason", "raised"),
    *("oom", "kernel", "message", "versions", "id", "host", "agent", "values", "error", "text"),
)
SAMPLE = {"pid": 1, "state": "S", "cpu": 0.0, "rss": 0, "out": None}
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.sampled_from([10**30, -1, 1e308, float("nan"), float("inf"), 1 << 31, 1.8e9, [1.0] * 6, SAMPLE]),
    st.text(max_size=20),
    st.sampled_from(["../../x", "\x1b]52;c;aGk=\x07", "$(touch pwned)", "0", "rank", "x" * 70_000, "\ud800"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["0", "1", "x"]), inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.fixed_dictionaries({"e": st.sampled_from(KINDS)}).flatmap(
    lambda event: st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8).map(lambda more: {**event, **more})
)
# Right in their form, so that what is behind the form is reached as well.
FORMED = st.sampled_from(
    [
        {"e": "start", "rank": 1, "pid": 1, "t": 1.0},
        {"e": "out", "rank": 1, "fd": 1, "data": "x\n", "more": True},
        {"e": "out", "rank": None, "fd": 2, "data": "y\n"},
        {"e": "exit", "rank": 1, "code": 3, "signal": None, "t": 1e10},
        {"e": "exit", "rank": 1, "code": None, "signal": 64, "t": 0.0, "oom": "x"},
        {"e": "failed", "rank": 1, "code": 7, "what": "rank", "t": 1.0, "raised": "E", "kernel": "NVRM: Xid (x): 79"},
        {"e": "failed", "rank": None, "code": None, "signal": 64, "what": "$(id)", "t": 1.0},
        {"e": "timeout", "rank": 1, "raised": "RuntimeError", "t": 1.0},
        {"e": "beat", "t": 1.0, "ranks": {"1": SAMPLE}},
        {"e": "steps", "t": 1.0, "ranks": {"1": [[1.0, 1e14, 0.0, 0.0, 0.0, 0.0]]}},
        {"e": "mark", "rank": 1, "name": "x" * 100, "t": 1.0},
        {"e": "stuck", "names": ["1 (x)"], "more": False},
        {"e": "refused", "message": "\x1b]0;x\x07", "t": 1.0},
        {"e": "out", "rank": 0, "fd": 1, "data": "forged\n"},
        {"e": "exit", "rank": 0, "code": 0, "signal": None, "t": 1.0},
        {"e": "end", "t": 1.0},
    ]
)
LINES = st.one_of(FORMED.map(json.dumps), EVENTS.map(json.dumps), st.binary(max_size=40).map(repr))


class Quiet:
    """The link of the other node, whose rank runs until it is stopped."""

    outlives = ""
    margin = 1.0
    ahead = 0.0

    def start(self, request: str, post: Any) -> None:
        self.post = post
        post({"e": "start", "rank": 0, "pid": 1, "t": 1.0})
        post({"e": "out", "rank": 0, "fd": 1, "data": "mine\n"})

    def send(self, command: Any) -> None:
        if command["c"] == "stop":
            self.post({"e": "end", "t": 1.0})
            self.post(None)

    def call(self, function: str, args: Any) -> int:
        return 0

    def close(self) -> None: ...


def step(host: str, rank: int) -> Step:
    procs = (Proc(name="rank", rank=rank, argv=("true",)),)
    return Step(host=host, node_rank=rank, ranks=range(rank, rank + 1), workdir="/", env={}, procs=procs)


def played(folder: Path, lines: list[str]) -> tuple[Outcome, str]:
    """Carry a plan out on two nodes, of which node2 sends these lines and hangs up."""
    stream = ByteStream()
    channel = Channel("node2", stream, 0.0, Clock())
    channel.opened_at = 1.0
    threading.Thread(target=channel._read, daemon=True).start()
    seal = Seal(channel._key, "node")
    data = b"".join(seal.close(line.encode("utf-8", "surrogatepass").replace(b"\n", b" ")) for line in lines)
    plan = Plan(run_id="r", backend="ssh", steps=(step("node1", 0), step("node2", 1)), world_size=2, grace=0.1)
    err = io.BytesIO()
    screen = Screen(io.BytesIO(), err, lambda: None)
    relay = Relay(LogFiles(folder), screen.out, screen.err)

    def write() -> None:
        with open(stream.far_out, "wb") as far:
            far.write(data)

    threading.Thread(target=write, daemon=True).start()
    try:
        outcome = carry(plan, relay, lambda each: channel if each.node_rank else Quiet(), queue.SimpleQueue(), screen)
    finally:
        relay.close()
        screen.close(None)
        os.close(stream.far_in)
    return outcome, err.getvalue().decode("utf-8", "replace")


@settings(max_examples=TRIES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(LINES, max_size=6))
def test_whatever_a_node_sends_it_is_that_nodes_failure(tmp_path_factory: Any, lines: list[str]) -> None:
    folder = tmp_path_factory.mktemp("run")
    outcome, err = played(folder, lines)
    assert "Traceback" not in err
    assert outcome.failure is not None
    assert (outcome.failure.host, outcome.failure.rank) in (("node2", None), ("node2", 1)), outcome.failure
    assert (folder / "rank_0.log").read_text() == "mine\n"
    assert {path.name for path in folder.iterdir()} <= {
        *(
            "all.index",
            "rank_0.log",
            "rank_1.log",
            "rank_node2.log",
            "status.json",
            "timeline.json",
            "ddpkit.log",
        )
    }
    assert not Path("pwned").exists()


ANSWERS = st.one_of(VALUES, st.sampled_from([[[]] * 1000, {"host": "x"}]), st.just(eval("[" * 90 + "]" * 90)))


@settings(max_examples=TRIES, deadline=None)
@given(ANSWERS, VALUES)
def test_an_answer_of_any_form_is_an_error_in_words(value: Any, error: Any) -> None:
    """`probe.look` is answered by anything: the node is left out with a reason, and nothing is raised but that."""
    from ddpkit.launchers.events import AnswerEvent, BadEventError
    from ddpkit.launchers.node_facts import is_answer
    from ddpkit.transports.protocol import Pieces

    packed = b64encode(compress(json.dumps([value, error]).encode())).decode()
    event: AnswerEvent = {"e": "answer", "id": 1, "data": packed}
    try:
        whole = Pieces({1}).take(event)
    except BadEventError:
        return
    assert whole is not None
    assert whole["e"] == "answer"
    assert isinstance(whole["error"], str | None)
    assert all(not is_answer("probe.look", each) for each in whole["values"])
