"""Shape: which JSON a type allows, so that what a node sends is checked by the same words that mypy reads.

`check(RankSample)` returns a test of values. A number, a text or a list without bounds of its own has those of
`NUMBER`, `TEXT` and `ITEMS`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from ddpkit.launchers import host_names

Test = Callable[[object], bool]

NUMBER = 1e15  # bytes of the largest file system, microseconds since the epoch
TEXT = 1 << 17  # characters: the kernel's limit on a variable of an environment
ITEMS = 1 << 16  # of a list, or names in a table
DEPTH = 64  # of lists in lists


@dataclass(frozen=True)
class Between:
    """Bounds of a number, or of the length of a text or a list."""

    least: float
    most: float


@dataclass(frozen=True)
class Form:
    """What a text looks like. `name` is for errors."""

    pattern: str
    name: str = "a text of a certain form"


# Texts that can be a word of a command: none of them begins with a dash.
HostWord = Annotated[
    str, Form(r"[\w.:\[(][\w.:%@+,*\[\]()-]{0,254}", "the name of a host")
]  # also `node[1-2]`, `(none)`
LoginName = Annotated[str, Form(f"{host_names.NAME}|{host_names.ADDRESS}", "the name of a host")]
UserName = Annotated[str, Form(f"{host_names.USER}|", "the name of a user")]
ProgramName = Annotated[str, Form(r"[^\0\n-][^\0\n]{0,4095}", "a program")]
FilePath = Annotated[str, Form(r"[^\0]{0,8192}", "a path")]
RankName = Annotated[str, Form(r"[0-9]{1,9}", "a rank")]
Count = Annotated[int, Between(0, 1 << 32)]
Seconds = Annotated[float, Between(0, 1e11)]  # since the epoch, or a length of time


class NotRequired:
    """Marks a key that may be missing. Python 3.10 has none in `typing`."""

    def __class_getitem__(cls, hint: Any) -> Any:
        return Annotated[hint, cls]


def keys(typed_dict: type) -> dict[str, tuple[Test, bool]]:
    """Return the test of each key of a typed dictionary, and whether the key must be there."""
    names = {"NotRequired": NotRequired, **_names_of(typed_dict)}
    hints = get_type_hints(typed_dict, None, names, include_extras=True)
    required: frozenset[str] = typed_dict.__required_keys__  # type: ignore[attr-defined]
    return {
        name: (check(hint), name in required and NotRequired not in getattr(hint, "__metadata__", ()))
        for name, hint in hints.items()
    }


def literal(typed_dict: type, name: str) -> str:
    """Return the one word that a key of a typed dictionary may have."""
    hint = get_type_hints(typed_dict, None, {"NotRequired": NotRequired, **_names_of(typed_dict)})[name]
    return str(get_args(hint)[0])


def _names_of(typed_dict: type) -> Mapping[str, Any]:
    import sys

    return vars(sys.modules[typed_dict.__module__])


@cache
def check(hint: Any) -> Test:
    """Return a test of JSON values for a type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _bounded(args[0], args[1:])
    if origin in (Union, UnionType):
        tests = tuple(map(check, args))
        return lambda value: any(test(value) for test in tests)
    if origin is Literal:
        kinds = {(type(each), each) for each in args}
        return lambda value: isinstance(value, str | int) and (type(value), value) in kinds
    if origin is list:
        return _list_of(check(args[0]), ITEMS)
    if origin is dict:
        key, item = map(check, args)
        return lambda value: (
            isinstance(value, dict) and len(value) <= ITEMS and all(map(key, value)) and all(map(item, value.values()))
        )
    if is_typeddict(hint):
        return _table_of(keys(hint))
    return _plain(hint)


def _list_of(item: Test, most: float) -> Test:
    return lambda value: isinstance(value, list) and len(value) <= most and all(map(item, value))


def _table_of(parts: Mapping[str, tuple[Test, bool]]) -> Test:
    tests = tuple((name, test, needed) for name, (test, needed) in parts.items())
    return lambda value: (
        isinstance(value, dict)
        and len(value) <= ITEMS
        and all(test(value[name]) if name in value else not needed for name, test, needed in tests)
    )


def _plain(hint: Any) -> Test:
    if hint is bool:
        return lambda value: isinstance(value, bool)
    if hint is int:
        return lambda value: type(value) is int and -NUMBER <= value <= NUMBER
    if hint is float:  # neither NaN nor infinite
        return lambda value: type(value) in (int, float) and -NUMBER <= value <= NUMBER  # type: ignore[operator]
    if hint is str:
        return lambda value: isinstance(value, str) and len(value) <= TEXT
    if hint in (None, type(None)):
        return lambda value: value is None
    if hint is object:
        return is_plain
    raise TypeError(f"no JSON has the type {hint}")


def _bounded(hint: Any, bounds: tuple[Any, ...]) -> Test:
    test = check(hint)
    for bound in bounds:
        if isinstance(bound, Between):
            test = _between(test, bound)
        elif isinstance(bound, Form):
            test = _formed(test, re.compile(bound.pattern))
    return test


def _between(test: Test, bound: Between) -> Test:
    def within(value: Any) -> bool:
        return (
            test(value) and bound.least <= (len(value) if isinstance(value, str | list | dict) else value) <= bound.most
        )

    return within


def _formed(test: Test, pattern: re.Pattern[str]) -> Test:
    return lambda value: test(value) and isinstance(value, str) and pattern.fullmatch(value) is not None


def is_plain(value: object, most: int = 1 << 20) -> bool:
    """Return whether JSON of any shape has bounded depth and at most so many parts. Never calls itself."""
    level, left = [value], most
    for _ in range(DEPTH):
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                below += each.values()
            elif isinstance(each, list):
                below += each
        left -= len(below)
        if left < 0:
            return False
        if not below:
            return True
        level = below
    return False
