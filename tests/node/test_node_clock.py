"""Times of a node's events by the launcher's clock: what was first stays first, whoever sets a clock meanwhile."""

from __future__ import annotations

import time

import pytest

from ddpkit.node.supervision.clock import Clock, NodeClock

HOUR = 3600.0


@pytest.mark.parametrize("ahead", [-HOUR, 0.0, HOUR])
@pytest.mark.parametrize("jump", [-HOUR, -20.0, 0.0, 20.0, HOUR])
@pytest.mark.parametrize("news", [True, False])
def test_a_clock_that_is_set_during_a_run_changes_no_order(ahead: float, jump: float, news: bool) -> None:
    """`news`: an event comes between the change of the clock and the failure. Each is 0.01 s on its way."""
    clock = NodeClock()
    clock.began = 1000.0
    for when in (1000.0, 1005.0):
        event = {"t": when + ahead}
        clock.in_our_time(event, when + 0.01)
        assert event["t"] == pytest.approx(when + 0.01)
    if news:
        clock.in_our_time({"t": 1010.0 + ahead + jump}, 1010.01)
    failed = {"t": 1012.0 + ahead + jump, "since": 1011.5 + ahead + jump}
    clock.in_our_time(failed, 1012.01)
    assert failed == {"t": pytest.approx(1012.01), "since": pytest.approx(1011.51)}


def test_news_that_come_late_keep_their_time() -> None:
    clock = NodeClock()
    clock.in_our_time({"t": 100.0}, 100.0)
    late = {"t": 103.0, "since": 101.0}
    clock.in_our_time(late, 160.0)
    assert late == {"t": 103.0, "since": 101.0}
    of_a_rank = {"t": 98.0}  # in its own pipe, read behind the supervisor's event
    clock.in_our_time(of_a_rank, 160.5)
    assert of_a_rank == {"t": 98.0}


@pytest.mark.parametrize("since", [-HOUR, 50.0, 9 * HOUR])
def test_an_exception_before_the_clock_was_set_counts_from_the_end(since: float) -> None:
    clock = NodeClock()
    event = {"t": HOUR, "since": since}
    clock.in_our_time(event, HOUR)
    assert event == {"t": HOUR, "since": HOUR}


def test_the_launchers_clock_goes_on_as_it_went_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, wall = Clock(), time.time
    monkeypatch.setattr(time, "time", lambda: wall() - HOUR)
    assert abs(clock.now() - wall()) < 1
