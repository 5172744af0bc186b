"""The event types agree with what the node's programs say that they send."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, ForwardRef, get_args

import pytest

import ddpkit
from ddpkit.launchers import events

NODE = Path(ddpkit.__file__).parent / "node"
# Sent by a transport in a supervisor's place, or by the line that starts a supervisor (`transports/protocol.py`).
NOT_OF_SUPERVISORS = {"lost", "note"}
_LINE = re.compile(r'^    \{"e": "(\w+)"((?:, "\w+")*)\}', re.MULTILINE)


def specified() -> dict[str, set[str]]:
    """Kind: keys, from the table in a docstring of the node's programs."""
    texts = [ast.get_docstring(ast.parse(path.read_text()), clean=False) or "" for path in NODE.glob("*.py")]
    return {
        found[1]: {"e", *re.findall(r'"(\w+)"', found[2])} for text in texts for found in _LINE.finditer(text)
    }  # fmt: skip


def keys(kind: Any, *, optional: bool) -> set[str]:
    """The keys of a type, without or with those that are not in every event of the kind."""
    hints: dict[str, ForwardRef] = kind.__annotations__
    return {name for name, hint in hints.items() if optional or "NotRequired" not in hint.__forward_arg__} | {"t"}


def typed() -> dict[str, Any]:
    kinds = get_args(events.Event)
    words = {kind: re.findall(r"'(\w+)'|\"(\w+)\"", kind.__annotations__["e"].__forward_arg__) for kind in kinds}
    return {one or other: kind for kind, each in words.items() for one, other in each}


def test_every_kind_is_specified_and_typed() -> None:
    assert len(specified()) > 10
    assert set(specified()) == set(typed()) - NOT_OF_SUPERVISORS


@pytest.mark.parametrize("kind", specified())
def test_keys_are_those_of_the_specification(kind: str) -> None:
    said, event = specified()[kind] | {"t"}, typed()[kind]
    assert said <= keys(event, optional=True)
    assert keys(event, optional=False) - {"host"} <= said
