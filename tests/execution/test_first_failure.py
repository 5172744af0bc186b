"""Which failure was the first, when news of it comes in another order."""

from __future__ import annotations

import io
import queue
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_logs import all_lines

from ddpkit.console.relay import Relay
from ddpkit.console.writer import Screen
from ddpkit.diagnosis.outcome import Failure, Outcome
from ddpkit.execution.executor import Carrier, carry
from ddpkit.launchers.events import Command, FailedEvent
from ddpkit.launchers.plan import Plan, Proc, RankStarter, Step
from ddpkit.run.log_files import LogFiles

SAMPLE = {"pid": 1, "state": "S", "cpu": 0.0, "rss": 0, "out": None}


class Played:
    """A link whose supervisor says what the test wrote down, each list after a stop or at once."""

    outlives = ""
    margin = 10.0
    ahead = 0.0

    def __init__(self, at_once: list[Any], after_stop: list[dict[str, Any]]) -> None:
        self._at_once, self._after_stop = at_once, after_stop
        self._post: Callable[[Any], None] = lambda event: None

    def start(self, request: str, post: Callable[[Any], None]) -> None:
        self._post = post
        for event in self._at_once:
            post(event)

    def call(self, function: str, args: Mapping[str, object]) -> int:
        return 0

    def send(self, command: Command) -> None:
        if command["c"] == "stop":
            for event in [*self._after_stop, {"e": "end", "t": time.time()}, None]:
                self._post(event)
            self._after_stop = []

    def close(self) -> None: ...


def played(tmp_path: Path, links: list[Played], restarts: int = 0, err: io.BytesIO | None = None) -> Outcome:
    steps = tuple(
        Step(
            host=f"node{index + 1}",
            node_rank=index,
            ranks=range(index, index + 1),
            workdir="/",
            env={},
            procs=(Proc(name="torchrun", argv=("true",), restarts=restarts),),
        )
        for index in range(len(links))
    )
    plan = Plan(run_id="r", backend="ssh", steps=steps, world_size=len(links), grace=1.0)
    screen = Screen(io.BytesIO(), err or io.BytesIO(), lambda: None)
    relay = Relay(LogFiles(tmp_path), screen.out, screen.err)
    try:
        return carry(plan, relay, lambda step: links[step.node_rank], queue.SimpleQueue(), screen)
    finally:
        relay.close()
        screen.close(None)


def rank_failed(rank: int, code: int | None, when: float, number: int | None = None) -> list[dict[str, Any]]:
    ended = {"rank": rank, "code": code, "signal": number, "t": when}
    return [{"e": "exit", **ended}, {"e": "failed", "what": "rank", **ended}]


def test_news_that_come_after_the_stop(tmp_path: Path) -> None:
    """Rank 0 exits 7, rank 1 sees it gone, fails as well, and is heard of first. Node 1 then has been told to stop."""
    now = time.time()
    first = Played([], rank_failed(0, 7, now - 0.2)[:1])
    outcome = played(tmp_path, [first, Played(rank_failed(1, 1, now - 0.1), [])])
    assert outcome.exit_code == 7
    assert outcome.failure is not None
    assert (outcome.failure.rank, outcome.failure.host) == (0, "node1")


@pytest.mark.parametrize("rank_is_heard_first", [True, False])
def test_a_node_that_ended_comes_before_ranks_that_saw_its_ranks_end(tmp_path: Path, rank_is_heard_first: bool) -> None:
    """Its supervisor is killed: its ranks end with it, and others see that before anybody reports the node."""
    now = time.time()
    own = {"e": "failed", "what": "ddpkit's process", "rank": None, "code": None, "signal": 1, "t": now - 0.1}
    lost, rank = [own], rank_failed(1, 1, now - 0.2)
    links = [Played([], lost), Played(rank, [])] if rank_is_heard_first else [Played(lost, []), Played([], rank)]
    failure = played(tmp_path, links).failure
    assert failure is not None
    assert (failure.what, failure.host) == ("ddpkit's process", "node1")


@pytest.mark.parametrize(("code", "number"), [(0, None), (None, 15), (1, None)])
def test_what_ended_later_or_well_was_not_the_first(code: int | None, number: int | None, tmp_path: Path) -> None:
    now = time.time()
    when = now - 0.2 if code == 0 else now
    other = Played([], rank_failed(0, code, when, number)[:1])
    outcome = played(tmp_path, [other, Played(rank_failed(1, 9, now - 0.1), [])])
    assert outcome.exit_code == 9


def test_an_attempt_that_torchrun_repeated_is_history(tmp_path: Path) -> None:
    now = time.time()
    first = Played(rank_failed(0, 3, now - 5)[:1], rank_failed(0, 3, now - 5)[:1])
    outcome = played(tmp_path, [first, Played(rank_failed(1, 4, now - 0.1), [])], restarts=1)
    assert outcome.exit_code == 4


def test_what_agents_say_when_all_ranks_have_ended_well_is_only_in_the_log(tmp_path: Path) -> None:
    """The agent with the store leaves, and another one complains of it."""

    def agent(text: str) -> dict[str, Any]:
        return {"e": "out", "rank": None, "fd": 2, "data": text + "\n"}

    now, err = time.time(), io.BytesIO()
    over = [{"e": "end", "t": now}, None]
    first = [*rank_failed(0, 0, now)[:1], agent("one rank runs"), *over]
    second = [*rank_failed(1, 0, now)[:1], agent("DistNetworkError"), *over]
    links = [Played(first, []), Played(second, [])]
    assert played(tmp_path, links, err=err).exit_code == 0
    assert b"one rank runs" in err.getvalue()
    assert b"DistNetworkError" not in err.getvalue()
    assert "DistNetworkError" in all_lines(tmp_path)


@pytest.mark.parametrize(
    ("event", "rank"),
    [
        ({"e": "out", "rank": 0, "fd": 1, "data": "forged\n"}, 0),
        ({"e": "failed", "rank": 0, "code": 7, "what": "rank", "t": 1.0}, 0),
        ({"e": "exit", "rank": 0, "code": 0, "signal": None, "t": 1.0}, 0),
        ({"e": "beat", "t": 1.0, "ranks": {"1": SAMPLE, "0": SAMPLE}}, 0),
        ({"e": "steps", "t": 1.0, "ranks": {"0": []}}, 0),
        ({"e": "timeout", "rank": 0, "raised": "RuntimeError", "t": 1.0}, 0),
        ({"e": "out", "rank": 9, "fd": 1, "data": "forged\n"}, 9),
    ],
)
def test_a_node_speaks_for_its_own_ranks(event: Any, rank: int, tmp_path: Path) -> None:
    """The other node's rank runs on: nothing is written into its log, and nothing is its failure."""
    links = [Played([{"e": "start", "rank": 0, "pid": 1, "t": time.time()}], []), Played([event], [])]
    outcome = played(tmp_path, links)
    assert outcome.failure is not None
    where = "which runs on node1" if rank == 0 else "which this run does not have"
    assert (outcome.failure.host, outcome.failure.rank) == ("node2", None)
    assert outcome.failure.reason == f"node2 sent an event of rank {rank}, {where}"
    assert "forged" not in all_lines(tmp_path)


def test_the_end_of_a_step_is_no_second_failure(tmp_path: Path) -> None:
    """In a job that heals, a hang ends the step. The ends of its ranks follow from that."""
    now, sent, told = time.time(), list[Command](), list[Failure]()
    link = Played([], [])
    step = Step(
        host="job",
        node_rank=0,
        ranks=range(2),
        workdir="/",
        env={},
        procs=(Proc(name="srun", argv=()),),
        rank_starter=RankStarter.COLLECT,
    )
    batch: Any = SimpleNamespace(nodes=1)
    plan = Plan(run_id="r", backend="slurm-srun", steps=(step,), world_size=2, grace=1.0, batch=batch)
    err = io.BytesIO()
    screen = Screen(io.BytesIO(), err, lambda: None)
    relay = Relay(LogFiles(tmp_path), screen.out, screen.err)
    link.send = sent.append  # type: ignore[method-assign, assignment]
    try:
        carrier = Carrier(plan, relay, lambda _: link, queue.SimpleQueue(), screen, told.append)
        (node,) = carrier.nodes
        node.running = {0, 1}
        carrier.fail(node, what="rank", host="node2", rank=1, hang=True, code=124, reason="it hangs")
        node.running = {0}
        ended: FailedEvent = {"e": "failed", "what": "rank", "rank": 1, "code": None, "signal": 15, "t": now + 1}
        carrier.on_failure(node, ended, "node2")
    finally:
        relay.close()
        screen.close(None)
    assert carrier.outcome.failure is not None
    assert carrier.outcome.failure.reason == "it hangs"
    assert len(told) == 1
    assert [command["c"] for command in sent] == ["stop"]
    assert err.getvalue().count(b"ending") == 1
