"""Calls of functions on a node: a program is imported at its first call, and its answers come in pieces."""

from __future__ import annotations

import json
from typing import Any

from ddpkit.node.rpc import STEP_PIECE, Programs, answer_events
from ddpkit.transports.protocol import Caller, Pieces


def test_functions_are_called_by_name() -> None:
    written: list[dict[str, Any]] = []
    caller = Caller(lambda data: written.append(json.loads(data)))
    assert [caller.call(f"probe.{name}", {}) for name in ("cpus", "reach", "cpus")] == [1, 2, 3]
    assert [(command["c"], command["id"]) for command in written] == [("call", 1), ("call", 2), ("call", 3)]
    programs = Programs()
    value, error = programs.call("probe.cpus", {})
    assert value > 0
    assert error is None
    assert (
        programs.call("probe.gpus", {"environ": {"DDPKIT_GPUS": "x"}})[1]
        == "ValueError: DDPKIT_GPUS=x is not an integer"
    )
    assert programs.call("probe.nothing", {})[1] is not None
    assert programs.call("another.f", {})[1] is not None


def test_an_answer_comes_in_pieces() -> None:
    value = [str(number) for number in range(5000)]
    events = [*answer_events(7, json.dumps([value, None]).encode(), STEP_PIECE)]
    assert len(events) > 3
    assert all(len(json.dumps(event)) < 1024 for event in events)  # srun cuts longer lines
    pieces = Pieces({7})
    *parts, whole = [pieces.take(event) for event in events]  # type: ignore[arg-type]
    assert parts == [None] * (len(events) - 1)
    assert whole is not None
    assert whole["e"] == "answer"
    assert (whole["id"], whole["values"], whole["error"]) == (7, [value], None)


def test_an_answer_that_cannot_be_read_is_an_error() -> None:
    whole = Pieces({1}).take({"e": "answer", "id": 1, "data": "AAAA"})
    assert whole is not None
    assert whole["e"] == "answer"
    assert whole["values"] == []
    assert str(whole["error"]).startswith("its answer cannot be read")
