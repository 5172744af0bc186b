"""The table of libraries keeps what was seen with a library's present version, and nothing else."""

from __future__ import annotations

from typing import Any

from table import LIBRARIES, WAYS, merge, reason, render


def cell(way: str, version: str = "1.0", problem: str = "") -> dict[str, Any]:
    return {
        "library": "DeepSpeed",
        "version": version,
        "way": way,
        "ok": not problem,
        "seconds": 2.5,
        "problem": problem,
    }


def test_cells_come_beside_older_ones() -> None:
    table = merge(merge({}, [cell("ssh")]), [cell("local"), cell("pdsh", problem="assert 1 == 0")])
    assert table == {"DeepSpeed": {"version": "1.0", "ways": {"local": 2.5, "ssh": 2.5, "pdsh": "assert 1 == 0"}}}
    assert list(table["DeepSpeed"]["ways"]) == ["local", "ssh", "pdsh"]  # the order of WAYS


def test_another_versions_cells_go() -> None:
    assert merge(merge({}, [cell("ssh")]), [cell("local", "1.1")])["DeepSpeed"]["ways"] == {"local": 2.5}


def test_a_run_that_said_nothing_is_of_the_version_that_is_known() -> None:
    table = merge(merge({}, [cell("ssh")]), [cell("local", "?", "no end in 540 s")])
    assert table["DeepSpeed"] == {"version": "1.0", "ways": {"local": "no end in 540 s", "ssh": 2.5}}


def test_what_was_not_tried_is_not_said_to_work() -> None:
    shown = render(merge({}, [cell("ssh"), cell("local", problem="assert 1 == 0")])).splitlines()
    assert len(shown) == 3
    words = dict(zip(["", *WAYS], shown[2].strip("| ").split(" | "), strict=False))
    assert words.pop("") == "DeepSpeed 1.0"
    assert words.pop("ssh") == "yes"
    assert words.pop("local") == "no: assert 1 == 0"
    assert set(words.values()) == {"not run"}
    assert "DeepSpeed" in LIBRARIES


def test_a_cell_says_why_not() -> None:
    failed = "[1 a] IndexError: x\nddpkit: rank 1 on a failed first, after 3 s: exit code 1: IndexError: x\nhint: no"
    assert (
        reason(failed, "all of it\nassert 1 == 0") == "rank 1 on a failed first, after 3 s: exit code 1: IndexError: x"
    )
    assert reason("no end in 540 s\nddpkit: run", "assert 143 == 0") == "no end in 540 s"
    assert reason("ddpkit: done in 3 s", "{'rank': 0}\nassert 0.16 < 0.0001") == "assert 0.16 < 0.0001"
    assert reason("ssh: connect refused", "") == "ssh: connect refused"
    assert reason("", "") == "it said nothing"


def test_a_reason_stays_in_its_cell() -> None:
    shown = render(merge({}, [cell("ssh", problem="a | b")])).splitlines()[2]
    assert "no: a \\| b" in shown
