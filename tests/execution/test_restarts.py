"""When torchrun's wait for nodes that have finished is given up."""

from __future__ import annotations

from typing import Any

from ddpkit.execution.hidden_failures import LIMIT, LIMIT_BEFORE, RestartTracker, Rounds


class Told:
    """Two nodes with two ranks each, and what is heard of them, second by second."""

    def __init__(self) -> None:
        self.tracker = RestartTracker([2, 2], LIMIT)
        for rank in range(4):
            self.starts(0.0, rank)

    def starts(self, now: float, rank: int) -> None:
        self.tracker.record(rank // 2, {"e": "start", "rank": rank, "pid": 1, "t": now}, now)

    def ends(self, now: float, rank: int, code: int | None = 0) -> None:
        self.tracker.record(rank // 2, {"e": "exit", "rank": rank, "code": code, "signal": None, "t": now}, now)

    def hopeless(self, now: float) -> Any:
        found = self.tracker.unrecoverable(now)
        return found and (found[0], found[1]["rank"])


def test_nothing_failed() -> None:
    told = Told()
    for rank in range(4):
        told.ends(1.0, rank)
    assert told.hopeless(1000.0) is None


def test_a_failure_while_the_others_run_is_torchruns_to_mend() -> None:
    told = Told()
    told.ends(1.0, 1, 3)
    told.ends(1.0, 2)
    assert told.hopeless(1000.0) is None, "rank 3 runs"


def test_a_failure_after_another_node_has_finished_is_final() -> None:
    told = Told()
    told.ends(1.0, 2)
    told.ends(1.0, 3)
    told.ends(2.0, 0)
    told.ends(3.0, 1, 3)
    assert told.hopeless(3.0) is None
    assert told.hopeless(3.0 + LIMIT_BEFORE) == (0, 1)


def test_ranks_that_end_well_when_they_are_told_to_are_given_time_to_start_again() -> None:
    told = Told()
    told.ends(1.0, 1, 3)
    told.ends(2.0, 2)
    told.ends(3.0, 3)  # TERM by torchrun
    told.ends(3.5, 0, None)  # by its own agent, or because a peer is gone: no sign that node 1 had finished before
    assert told.hopeless(3.5 + LIMIT_BEFORE) is None
    assert told.hopeless(2.9 + LIMIT) is None
    assert told.hopeless(3.0 + LIMIT) == (0, 1)
    for rank in range(4):
        told.starts(20.0, rank)
    assert told.hopeless(1000.0) is None


def test_a_second_attempt_that_fails_as_the_first_did() -> None:
    told = Told()
    told.ends(1.0, 1, 3)
    for rank in (0, 2, 3):
        told.ends(1.5, rank, None)
    for rank in range(4):
        told.starts(2.0, rank)
    told.ends(3.0, 2)
    told.ends(3.0, 3)
    assert told.hopeless(1000.0) is None
    told.ends(4.0, 0, 5)
    assert told.hopeless(4.0 + LIMIT_BEFORE) == (0, 0)


def test_a_lost_node_is_not_waited_for() -> None:
    told = Told()
    told.ends(1.0, 2)
    told.ends(1.0, 3)
    told.ends(2.0, 1, 3)
    told.tracker.drop(0)
    assert told.hopeless(1000.0) is None


def test_a_round_begins_once_with_the_first_failure_of_the_one_before() -> None:
    rounds = Rounds()
    assert [rounds.start(rank) for rank in (0, 1)] == ["", ""]
    rounds.fail(2.0, "rank 0")
    rounds.fail(1.0, "rank 1")
    assert [rounds.start(rank) for rank in (1, 0)] == ["rank 1", ""]
    assert (rounds.number, rounds.failed) == (1, None)
    assert rounds.start(0) == "the nodes changed"
