"""How rows of the drill are judged, where a whole drill would take too long."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpkit.monitor.drill.pace import Line, Pace
from ddpkit.monitor.drill.rows import State, judge_disk
from ddpkit.monitor.drill.trial import Trial

LOST = Line(2.0, 1, "[rank1]: RuntimeError: Connection closed by peer")


@pytest.mark.parametrize(
    ("lines", "state", "evidence"),
    [
        ([Line(1.0, 0, "saving"), LOST], State.FAIL, "a save failed, and no line says so: "),
        ([Line(1.0, 0, "OSError: File too large"), LOST], State.PASS, "OSError: File too large; "),
    ],
)
def test_a_rank_that_lost_its_connection_says_nothing_of_the_disk(
    lines: list[Line], state: State, evidence: str
) -> None:
    trial = Trial(Path(), lines=lines, code=1, record={"failure": {"rank": 0}})
    judged = judge_disk(Pace(None), trial, Trial(Path(), code=0))
    assert (judged.state, judged.evidence[: len(evidence)]) == (state, evidence)
