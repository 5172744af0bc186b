"""The house rules that a reader relies on: short functions, and a docstring in every module."""

from __future__ import annotations

import ast
from functools import cache
from itertools import groupby

import pytest
import rooms

FILES = {name: path for name, path in rooms.sources().items() if not path.is_symlink()}
ROOMS = {
    room: list(names) for room, names in groupby(sorted(FILES), key=lambda name: name.partition(".")[0] or "__init__")
}
LONGEST = 60  # lines of a function
# Functions that may be longer: a command's signature is its list of options.
DECLARED = {"cli.launch.launch"}


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
    assert set(long) <= DECLARED, long


def test_declared_long_functions_are_long() -> None:
    """An exception that is not needed any more goes."""
    for name in DECLARED:
        module, _, function = name.rpartition(".")
        (node,) = (
            each for each in ast.walk(parsed(module)) if isinstance(each, ast.FunctionDef) and each.name == function
        )
        assert (node.end_lineno or 0) - node.lineno + 1 > LONGEST, name


def test_modules_have_a_docstring() -> None:
    assert [name for name in FILES if not ast.get_docstring(parsed(name))] == []
