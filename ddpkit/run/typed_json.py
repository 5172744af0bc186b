"""Reader of JSON files by the types that dataclasses and TypedDicts declare: what does not fit is refused.

`Annotated[str, Form(...)]` and `Annotated[int, Between(...)]` declare the form of a text and the bounds of a number.
Every error is one sentence that names the place in the file.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, cast

from ddpkit.launchers.shape import Between, Form, NotRequired

_T = TypeVar("_T")
_Reader = Callable[[Any, str], Any]

MOST_TEXT = 1 << 20  # characters of one text
MOST_NUMBER = 1 << 53
SHOWN = 60  # characters of a value in an error


class FormatError(ValueError):
    """A value that does not have its declared type, form or bounds."""


def parse(data: bytes) -> Any:
    """Parse JSON. NaN and infinities are refused, as is what nests deeper than a parser can go. Raises FormatError."""
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not valid JSON: {' '.join(str(error).split())}") from None


def _refuse_constant(word: str) -> None:
    raise FormatError(f"{word} is no number")


def read(kind: type[_T], value: Any, where: str = "") -> _T:
    """Return the value of a declared type that JSON types describe. Raises FormatError."""
    return cast("_T", _reader(cast("Any", kind))(value, where))


def matches(kind: Any, value: str) -> bool:
    """Tell whether a text has the form of an `Annotated` type."""
    try:
        _reader(kind)(value, "")
    except FormatError:
        return False
    return True


# ---- one reader for each type


@cache
def _reader(kind: Any) -> _Reader:
    origin, words = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _checked(_reader(words[0]), words[1:])
    if origin in (Union, types.UnionType):
        (inner,) = (_reader(each) for each in words if each is not types.NoneType)
        return lambda value, where: None if value is None else inner(value, where)
    if origin is Literal:
        return _one_of(words)
    if origin in (tuple, list):
        return _sequence(words, as_tuple=origin is tuple)
    if origin is dict:
        return _mapping(*words)
    if is_dataclass(kind):
        return _dataclass(cast("type", kind))
    if typing.is_typeddict(kind):
        return _typed_dict(kind)
    return _PLAIN[kind]


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, value, "a text")
    # Other halves of a pair can be written nowhere. These stand for bytes of file names that are not UTF-8.
    if len(value) > MOST_TEXT or re.search("[\ud800-\udc7f\udd00-\udfff]", value):
        raise _wrong(where, value, f"a text of at most {MOST_TEXT} characters of Unicode")
    return value


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, value, "true or false")
    return value


def _whole(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MOST_NUMBER:
        raise _wrong(where, value, "an integer")
    return value


def _number(value: Any, where: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) <= MOST_NUMBER:
        raise _wrong(where, value, "a number")
    return value


def _any(value: Any, _: str) -> Any:
    return value


_PLAIN: dict[Any, _Reader] = {str: _text, bool: _truth, int: _whole, float: _number, Any: _any}


def _checked(inner: _Reader, checks: tuple[Any, ...]) -> _Reader:
    def reader(value: Any, where: str) -> Any:
        value = inner(value, where)
        for check in checks:
            if isinstance(check, Form) and re.fullmatch(check.pattern, value) is None:
                raise _wrong(where, value, check.name)
            if isinstance(check, Between):
                sized = isinstance(value, (str, list, tuple, dict))
                if not check.least <= (len(value) if sized else value) <= check.most:
                    what = "a length" if sized else "a number"
                    raise _wrong(where, value, f"{what} from {check.least:g} to {check.most:g}")
        return value

    return reader


def _one_of(words: tuple[Any, ...]) -> _Reader:
    def reader(value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in words:
            raise _wrong(where, value, f"one of {', '.join(words)}")
        return value

    return reader


def _sequence(words: tuple[Any, ...], *, as_tuple: bool) -> _Reader:
    fixed = as_tuple and words[-1] is not Ellipsis
    inners = [_reader(each) for each in words if each is not Ellipsis]

    def reader(value: Any, where: str) -> Any:
        if not isinstance(value, (list, tuple)) or (fixed and len(value) != len(inners)):
            raise _wrong(where, value, f"a list of {len(inners)}" if fixed else "a list")
        each = [inners[at if fixed else 0](item, f"{where}[{at}]") for at, item in enumerate(value)]
        return tuple(each) if as_tuple else each

    return reader


def _mapping(key: Any, item: Any) -> _Reader:
    keys, items = _reader(key), _reader(item)

    def reader(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        return {keys(name, where): items(each, f"{where}.{_shown(name)}") for name, each in value.items()}

    return reader


def _dataclass(kind: type) -> _Reader:
    """A class may have `older`, the names of older files that are left out, and `unsaved`, its fields in no file."""
    hints = typing.get_type_hints(kind, include_extras=True)
    unsaved: frozenset[str] = getattr(kind, "unsaved", frozenset())
    older: frozenset[str] = getattr(kind, "older", frozenset())
    readers = {each.name: _reader(hints[each.name]) for each in fields(kind) if each.name not in unsaved}
    required = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}

    def reader(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        unknown = [name for name in value if name not in readers and name not in older]
        if unknown:
            raise FormatError(f"{_below(where, unknown[0])} is unknown")
        missing = required - value.keys()
        if missing:
            raise FormatError(f"{_below(where, min(missing))} is missing")
        known = {name: each for name, each in value.items() if name in readers}
        return kind(**{name: readers[name](each, _below(where, name)) for name, each in known.items()})

    return reader


def _typed_dict(kind: Any) -> _Reader:
    hints = typing.get_type_hints(kind, localns={"NotRequired": NotRequired}, include_extras=True)
    optional = {name for name, hint in hints.items() if NotRequired in getattr(hint, "__metadata__", ())}
    required = _required_names(kind) - optional
    readers = {name: _reader(hint) for name, hint in hints.items()}

    def reader(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        missing = required - value.keys()
        if missing:
            raise FormatError(f"{_below(where, min(missing))} is missing")
        return {name: readers[name](each, _below(where, name)) for name, each in value.items() if name in readers}

    return reader


def _required_names(kind: Any) -> set[str]:
    """Return the names that a TypedDict and those that it extends require, `NotRequired` aside."""
    bases = [base for base in getattr(kind, "__orig_bases__", ()) if typing.is_typeddict(base)]
    required = set().union(*map(_required_names, bases))
    inherited = {name for base in bases for name in base.__annotations__}
    return required | {name for name in kind.__annotations__ if kind.__total__ and name not in inherited}


# ---- errors


def _below(where: str, name: Any) -> str:
    return f"{where}.{_shown(name)}" if where else _shown(name)


def _shown(name: Any) -> str:
    return ascii(name)[1:-1][:SHOWN]


def _wrong(where: str, value: Any, wanted: str) -> FormatError:
    if isinstance(value, (dict, list)):
        shown = "an object" if isinstance(value, dict) else "a list"
    else:
        shown = ascii(value[:SHOWN] if isinstance(value, str) else value)[:SHOWN]
    return FormatError(f"{where or 'the file'}: {wanted} is required, not {shown}")
