"""The house rules that a reader relies on: short functions, plain names, a first line that says what a module is."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import groupby

import pytest
import rooms

FILES = {name: path for name, path in rooms.sources().items() if not path.is_symlink()}
ROOMS = {
    room: list(names) for room, names in groupby(sorted(FILES), key=lambda name: name.partition(".")[0] or "__init__")
}
LONGEST = 60  # lines of a function
# Words that this project alone used for things that have a name in PyTorch, SLURM, OpenSSH, POSIX or Python. See the
# glossary in CONTRIBUTING.md.
PRIVATE = frozenset(
    """
    aftermath aside away door doors fleet found hear heard heart hopeless learn lesson lessons listener mended met near
    news nobody said teach told voice voices well whoever wish wishes
    """.split()
)
# A first line that has one of these for its subject does not say what the module is.
CLAUSES = ("what ", "who ", "whom ", "whose ", "whether ", "where ", "when ", "how ", "that ", "those ", "it ", "if ")


@cache
def parsed(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


def parts(identifier: str) -> set[str]:
    """The words of an identifier: `_on_late_news` and `LateNews` have `late` and `news`."""
    return {word.lower() for word in re.split(r"_|(?<=[a-z0-9])(?=[A-Z])", identifier) if word}


def defined(tree: ast.Module) -> dict[str, int]:
    """Identifiers that a module defines, each with its first line."""
    names: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            names.setdefault(node.id if isinstance(node, ast.Name) else node.attr, node.lineno)
        elif isinstance(node, ast.arg):
            names.setdefault(node.arg, node.lineno)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.setdefault(node.name, node.lineno)
    return names


@pytest.mark.parametrize("room", ROOMS)
def test_names_are_the_fields_own(room: str) -> None:
    """Identifiers use the glossary's words; the modules' own names as well."""
    private = {
        (name, each): line
        for name in ROOMS[room]
        for each, line in {**defined(parsed(name)), name.rpartition(".")[2]: 1}.items()
        if parts(each) & PRIVATE
    }
    assert not private, f"see the glossary in CONTRIBUTING.md: {private}"


@pytest.mark.parametrize("room", ROOMS)
def test_functions_are_short(room: str) -> None:
    long = {
        f"{name}.{node.name}": size
        for name in ROOMS[room]
        for node in ast.walk(parsed(name))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (size := (node.end_lineno or 0) - node.lineno + 1) > LONGEST
    }
    assert not long


def test_modules_say_what_they_are() -> None:
    for name in FILES:
        text = ast.get_docstring(parsed(name))
        assert text, f"{name}: no docstring"
        first = text.partition("\n")[0].lower()
        assert not first.startswith(CLAUSES), f"{name}: {first}"
        assert not set(re.findall(r"[a-z]+", first)) & PRIVATE, f"{name}: {first}"
