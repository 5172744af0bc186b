"""The house rules that a reader relies on: short functions, and a docstring in every module."""

from __future__ import annotations

import ast
from functools import cache
from itertools import groupby

import pytest
import rooms

FILES = rooms.sources()
ROOMS = {
    room: list(names) for room, names in groupby(sorted(FILES), key=lambda name: name.partition(".")[0] or "__init__")
}
LONGEST = 60  # lines of a function


@cache
def parsed(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize("room", ROOMS)
def test_functions_are_short(room: str) -> None:
    long = {
        f"{name}.{node.name}": size
        for name in ROOMS[room]
        for node in ast.walk(parsed(name))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (size := (node.end_lineno or 0) - node.lineno + 1) > LONGEST
    }
    assert long == {}


def test_modules_have_a_docstring() -> None:
    assert [name for name in FILES if not ast.get_docstring(parsed(name))] == []
