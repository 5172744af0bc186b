"""Ledger of a run: a table of records, and their seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddpkit.diagnosis.outcome import Decision, Failure
from ddpkit.run.documents import describe, ledger
from ddpkit.run.record import Attempt, Run

RUN = Run(
    run_id="r", folder="/r", backend="ssh", command=("train.py",), workdir="/", hosts=("node1", "node2"), world_size=2,
    launcher_pid=1, launcher_started="1", launcher_host="login", started=1000.0, ended=1200.0,
)  # fmt: skip
FAILED = Failure(host="node2", rank=1, what="rank", code=1)
REPLACE = Decision(action="replace", hosts=("node2",), reason="lost")


def attempt(number: int, start: float, first: float | None, end: float | None, **more: object) -> Attempt:
    values: dict[str, Any] = {"number": number, "started": start, "first_step": first, "ended": end, **more}
    return Attempt(hosts=("node1", "node2"), **values)


GOOD = attempt(1, 1000, 1010, 1110)
LOST = attempt(1, 1000, 1010, 1060, failure=FAILED, saved=1050.0, decision=REPLACE)
# Attempts: start-up, training, lost, waiting, None for not known; exact; costs.
Seconds = tuple[float | None, float | None, float | None, float]
CASES: dict[str, tuple[tuple[Attempt, ...], Seconds, bool, dict[str, float]]] = {
    "one good attempt": ((GOOD,), (10, 100, 0, 0), True, {}),
    "a node is lost": (
        (LOST, attempt(2, 1065, 1085, 1185)), (30, 140, 10, 5), True, {"node2": 10 + 5 + 20},
    ),
    "it failed before its first step": (
        (attempt(1, 1000, None, 1040, failure=FAILED, decision=REPLACE), attempt(2, 1040, 1050, 1060)),
        (50, 10, 0, 0), False, {"node2": 10},
    ),
    "no checkpoint is known": (
        (replace(LOST, saved=None), attempt(2, 1060, 1070, 1080)), (20, 60, None, 0), False, {"node2": 10},
    ),
    "no step was seen": ((attempt(1, 1000, None, 1040),), (None, None, None, 0), False, {}),
    "no step was seen of a run that failed": (
        (attempt(1, 1000, None, 1040, failure=FAILED),), (None, None, None, 0), False, {},
    ),
    "a checkpoint of an earlier run": (
        (replace(LOST, saved=500.0), attempt(2, 1060, 1070, 1080)), (20, 10, 50, 0), True, {"node2": 60},
    ),
    "two nodes at once": (
        (replace(LOST, decision=replace(REPLACE, hosts=("node1", "node2"))), attempt(2, 1060, 1070, 1080)),
        (20, 50, 10, 0), True, {"node1": 10, "node2": 10},
    ),
    "it still runs": ((attempt(1, 1000, 1010, None),), (10, 290, 0, 0), True, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_record(case: str) -> None:
    attempts, seconds, exact, costs = CASES[case]
    found = ledger(replace(RUN, attempts=attempts), 1300.0)
    assert (found.start_up, found.training, found.lost, found.waiting) == seconds
    assert found.exact == exact
    assert found.costs == costs
    assert found.attempts == len(attempts)
    if found.training is None or found.lost is None:
        assert found.goodput is None
    else:
        assert found.goodput == pytest.approx(found.training / found.total)
    if found.training is not None:
        assert found.total == sum(filter(None, seconds))


def test_no_time_is_negative() -> None:
    found = ledger(replace(RUN, attempts=(attempt(1, 1000, 900, 950), attempt(2, 940, 930, 990))), 1300.0)
    assert all(each is None or each >= 0 for each in (found.start_up, found.training, found.lost, found.waiting))


def test_a_run_without_retries_is_one_attempt() -> None:
    found = ledger(RUN, 1300.0, first_step=1050.0)
    assert (found.start_up, found.training, found.lost) == (50, 150, 0)


def test_a_failed_run_trained_also_where_no_checkpoint_is_known() -> None:
    run = replace(RUN, failure=FAILED)
    found = ledger(run, 1300.0, first_step=1050.0)
    assert (found.training, found.lost, found.goodput) == (150, None, None)
    assert describe(found)[1:3] == [
        ("training", 150, "goodput: not known"),
        ("lost work", None, "no checkpoint is known"),
    ]
    known = ledger(run, 1300.0, first_step=1050.0, saved=1150.0)
    assert (known.training, known.lost, known.goodput) == (100, 50, 0.5)


def test_a_run_without_a_step_claims_no_goodput() -> None:
    rows = describe(ledger(RUN, 1300.0))
    assert rows[1] == ("training", None, "no optimizer step was seen; goodput: not known")
    assert [row[1] for row in rows] == [None, None, None, 0]


def test_the_node_that_cost_most_is_named() -> None:
    rows = describe(ledger(replace(RUN, attempts=(LOST, attempt(2, 1065, 1085, 1185))), 1300.0))
    assert rows[-1] == ("cost of node2", 35.0, "the node that cost most")
    assert [row[0] for row in rows] == ["start-up", "training", "lost work", "waiting for nodes", "cost of node2"]
    assert rows[1][2] == f"goodput: {100 * 140 / 185:.1f} % of the time"
