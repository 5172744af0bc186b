"""Labelled logs: no more of them get a wrong diagnosis than before, and the benchmark itself is right."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import score

from ddpkit.diagnosis.catalogue import BY_ID
from ddpkit.diagnosis.decide import analyze_log

ROOT = Path(__file__).parents[2]
LOG = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/a/train.py", line 3, in <module>
[rank1]:     go()
"""


@pytest.fixture(scope="module")
def cases() -> list[score.Case]:
    return score.cases()


def test_wrong_diagnoses_do_not_increase(cases: list[score.Case]) -> None:
    wrong = [f"{case.name}: {score.describe(found)}" for case, name, found in score.grade_all(cases) if name == "WRONG"]
    assert len(wrong) <= score.MOST_WRONG, "\n".join(wrong)


def test_forms_of_public_logs_are_right(cases: list[score.Case]) -> None:
    graded = score.grade_all(case for case in cases if case.category == "answers")
    assert len(graded) > 40
    assert [f"{case.name}: {score.describe(found)}" for case, name, found in graded if name != "RIGHT"] == []


def test_no_healthy_host_is_excluded(cases: list[score.Case]) -> None:
    """A retry where a stop is right costs time; an exclusion costs a node."""
    for case in cases:
        if case.label["cause"] == "healthy" or "action" in case.label:
            decision = score.action(analyze_log([(case.name, case.log)]))
            assert not decision.startswith("exclude") or decision in case.options("action"), f"{case.name}: {decision}"


def test_labels_are_valid(cases: list[score.Case]) -> None:
    ids = {*BY_ID, "own-exception", "healthy", "not-in-log", "any"}
    for case in cases:
        assert ids & set(case.options("cause")), case.name
        assert all(re.fullmatch(r"stop|retry|exclude \S+", each) for each in case.options("action")), case.name
        assert "says" in case.label or case.label["cause"] != "any", case.name
        assert case.log.strip(), case.name


def test_recordings_are_small_and_neutral(cases: list[score.Case]) -> None:
    """A recording shows no path of the machine that made it."""
    for case in cases:
        assert len(case.log) <= 17_000, case.name
        assert not any(path in case.log for path in ("ddpkit-record-", str(ROOT), sys.prefix)), case.name


@pytest.mark.parametrize(
    ("label", "log", "right"),
    [
        ({"cause": "own-exception", "rank": "1"}, LOG + "[rank1]: KeyError: 3", "RIGHT"),
        ({"cause": "own-exception", "says": "KeyError"}, LOG + "[rank1]: KeyError: 3", "RIGHT"),
        ({"cause": "own-exception", "rank": "0"}, LOG + "[rank1]: KeyError: 3", "WRONG"),
        ({"cause": "own-exception", "rank": "1", "host": "node2"}, LOG + "[rank1]: KeyError: 3", "PARTLY"),
        ({"cause": "own-exception", "says": "IndexError"}, LOG + "[rank1]: KeyError: 3", "WRONG"),
        ({"cause": "disk-full"}, LOG + "[rank1]: KeyError: 3", "WRONG"),
        ({"cause": "healthy"}, LOG + "[rank1]: KeyError: 3", "WRONG"),
        ({"cause": "healthy"}, "step 1 loss 0.3\n", "RIGHT"),
        ({"cause": "healthy"}, "error of an unknown form\n", "PARTLY"),
        ({"cause": "disk-full"}, "step 1 loss 0.3\n", "UNKNOWN"),
        ({"cause": "disk-full"}, "Connection closed by peer [10.0.0.2]:4711\n", "PARTLY"),
        ({"cause": "not-in-log"}, "Connection closed by peer [10.0.0.2]:4711\n", "RIGHT"),
        ({"cause": "not-in-log"}, LOG + "[rank1]: KeyError: 3", "WRONG"),
    ],
)
def test_grades(label: dict[str, str], log: str, right: str) -> None:
    case = score.Case(name="a/b", label={"provoked": "a fault", **label}, log=log)
    assert score.grade(case, analyze_log([("log", log)])) == right
