"""The event types agree with what the node's programs send."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, ForwardRef, get_args

import pytest

import ddpkit
from ddpkit.launchers import events

NODE = Path(ddpkit.__file__).parent / "node"
# Of the launcher itself, of a transport in a supervisor's place, or of the line that starts a supervisor
# (`transports/protocol.py`).
NOT_OF_SUPERVISORS = {"input", "lost", "note"}


def sent() -> dict[str, list[tuple[set[str], bool]]]:
    """By kind: the keys of each event that the node's programs write, and whether it has more than are in its place."""
    found: dict[str, list[tuple[set[str], bool]]] = {}
    for node in (node for path in sorted(NODE.rglob("*.py")) for node in ast.walk(ast.parse(path.read_text()))):
        pairs: dict[str | None, ast.expr] = {}
        if isinstance(node, ast.Call):
            pairs = {each.arg: each.value for each in node.keywords}
        elif isinstance(node, ast.Dict):
            pairs = {getattr(key, "value", None): value for key, value in zip(node.keys, node.values, strict=True)}
        kind = pairs.get("e")
        if isinstance(kind, ast.Constant):
            found.setdefault(str(kind.value), []).append(({*filter(None, pairs)}, None in pairs))
    return found


def keys(kind: Any, *, optional: bool) -> set[str]:
    """The keys of a type, without or with those that are not in every event of the kind."""
    hints: dict[str, ForwardRef] = kind.__annotations__
    return {name for name, hint in hints.items() if optional or "NotRequired" not in hint.__forward_arg__} | {"t"}


def typed() -> dict[str, Any]:
    kinds = get_args(events.Event)
    words = {kind: re.findall(r"'(\w+)'|\"(\w+)\"", kind.__annotations__["e"].__forward_arg__) for kind in kinds}
    return {one or other: kind for kind, each in words.items() for one, other in each}


def test_every_kind_is_sent_and_typed() -> None:
    assert set(sent()) == set(typed()) - NOT_OF_SUPERVISORS


@pytest.mark.parametrize("kind", sent())
def test_keys_are_those_of_the_type(kind: str) -> None:
    event = typed()[kind]
    for said, has_more in sent()[kind]:
        assert said <= keys(event, optional=True)
        assert has_more or keys(event, optional=False) - {"host"} <= said | {"t"}
