"""Reader of JSON by the types that dataclasses and TypedDicts declare: what does not fit is refused.

Records of runs and messages of nodes go through it, so that they are checked by the same words that mypy reads.
`Annotated[str, Form(...)]` and `Annotated[int, Between(...)]` declare the form of a text and the bounds of a number.
Every error is one sentence that names the place. Pure.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast

_T = TypeVar("_T")
_Reader = Callable[[Any, str], Any]
Test = Callable[[object], bool]

# Bounds of what has none of its own.
MOST_TEXT = 1 << 20  # characters of one text
MOST_NUMBER = 1 << 53
MOST_ITEMS = 1 << 20  # of a list, names in an object, or parts of JSON of any type
DEPTH = 64  # of JSON of any type
SHOWN = 60  # characters of a value in an error


class Between(NamedTuple):
    """Bounds of a number, or of the length of a text or a list."""

    least: float
    most: float


class Form(NamedTuple):
    """What a text looks like. `name` is for errors."""

    pattern: str
    name: str = "a text of a certain form"


# Texts that can be a word of a command: none of them begins with a dash.
HostWord = Annotated[
    str, Form(r"[\w.:\[(][\w.:%@+,*\[\]()-]{0,254}", "the name of a host")
]  # also `node[1-2]`, `(none)`
ProgramName = Annotated[str, Form(r"[^\0\n-][^\0\n]{0,4095}", "a program")]
FilePath = Annotated[str, Form(r"[^\0]{0,8192}", "a path")]
RankName = Annotated[str, Form(r"[0-9]{1,9}", "a rank")]
Count = Annotated[int, Between(0, 1 << 32)]
Seconds = Annotated[float, Between(0, 1e11)]  # since the epoch, or a length of time


class NotRequired:
    """Marks a key that may be missing. Python 3.10 has none in `typing`."""

    def __class_getitem__(cls, hint: Any) -> Any:
        return Annotated[hint, cls]


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


def matches(kind: Any, value: object) -> bool:
    """Tell whether a value has a declared type, form and bounds."""
    return _test(kind)(value)


def keys(typed_dict: type) -> Mapping[str, tuple[Test, bool]]:
    """Return the test of each key of a TypedDict, and whether the key must be there."""
    hints, required = _hints(typed_dict)
    return {name: (_test(hint), name in required) for name, hint in hints.items()}


def literal(typed_dict: type, name: str) -> str:
    """Return the one word that a key of a TypedDict may have."""
    return str(typing.get_args(_hints(typed_dict)[0][name])[0])


@cache
def _test(kind: Any) -> Test:
    """Return the test of a type."""
    reader = _reader(kind)

    def test(value: object) -> bool:
        try:
            reader(value, "")
        except FormatError:
            return False
        return True

    return test


# ---- one reader for each type


@cache
def _reader(kind: Any) -> _Reader:
    """Return the reader of a type. Raises TypeError for one that no JSON has."""
    origin, words = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _checked(_reader(words[0]), words[1:])
    if origin in (Union, types.UnionType):
        return _union(words)
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
    if kind not in _PLAIN:
        raise TypeError(f"no JSON has the type {kind}")
    return _PLAIN[kind]


def _union(words: tuple[Any, ...]) -> _Reader:
    """Read as the first type that fits; the error is that of the last one."""
    *others, last = (_reader(each) for each in words if each is not types.NoneType)
    optional = types.NoneType in words

    def reader(value: Any, where: str) -> Any:
        if value is None and optional:
            return None
        for other in others:
            try:
                return other(value, where)
            except FormatError:
                continue
        return last(value, where)

    return reader


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, value, "a text")
    # Other halves of a pair can be written nowhere. These stand for bytes of file names that are not UTF-8.
    if len(value) > MOST_TEXT or not (value.isascii() or _LONE.search(value) is None):
        raise _wrong(where, value, f"a text of at most {MOST_TEXT} characters of Unicode")
    return value


_LONE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


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


def _bounded(value: Any, where: str) -> Any:
    if not is_plain(value):
        raise _wrong(where, value, f"JSON of at most {MOST_ITEMS} parts, {DEPTH} deep,")
    return value


_PLAIN: dict[Any, _Reader] = {str: _text, bool: _truth, int: _whole, float: _number, Any: _any, object: _bounded}


def is_plain(value: object, most: int = MOST_ITEMS) -> bool:
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


def _checked(inner: _Reader, checks: tuple[Any, ...]) -> _Reader:
    """Read with `inner`, then check each `Form` and `Between` of an `Annotated`. Anything else there is ignored."""
    forms = [(re.compile(each.pattern), each.name) for each in checks if isinstance(each, Form)]
    bounds = [each for each in checks if isinstance(each, Between)]

    def reader(value: Any, where: str) -> Any:
        value = inner(value, where)
        for pattern, name in forms:
            if pattern.fullmatch(value) is None:
                raise _wrong(where, value, name)
        for bound in bounds:
            sized = isinstance(value, (str, list, tuple, dict))
            if not bound.least <= (len(value) if sized else value) <= bound.most:
                what = "a length" if sized else "a number"
                raise _wrong(where, value, f"{what} from {bound.least:.12g} to {bound.most:.12g}")
        return value

    return reader


def _one_of(words: tuple[Any, ...]) -> _Reader:
    """Read one of the words of a `Literal`. A member of an enum is written as its value."""
    values = [(each.value if isinstance(each, Enum) else each, each) for each in words]
    known = {(type(plain), plain): each for plain, each in values}

    def reader(value: Any, where: str) -> Any:
        if isinstance(value, Enum):
            value = value.value
        if not isinstance(value, (str, int)) or (type(value), value) not in known:
            raise _wrong(where, value, f"one of {', '.join(str(plain) for plain, _ in values)}")
        return known[type(value), value]

    return reader


def _sequence(words: tuple[Any, ...], *, as_tuple: bool) -> _Reader:
    """Read a list of items of one type, or a tuple with a type for each place (`fixed`)."""
    fixed = as_tuple and words[-1] is not Ellipsis
    inners = [_reader(each) for each in words if each is not Ellipsis]

    def reader(value: Any, where: str) -> Any:
        if not isinstance(value, (list, tuple)) or (fixed and len(value) != len(inners)) or len(value) > MOST_ITEMS:
            raise _wrong(where, value, f"a list of {len(inners)}" if fixed else "a list")
        items = [inners[at if fixed else 0](item, f"{where}[{at}]") for at, item in enumerate(value)]
        return tuple(items) if as_tuple else items

    return reader


def _mapping(key: Any, item: Any) -> _Reader:
    names, items = _reader(key), _reader(item)

    def reader(value: Any, where: str) -> Any:
        if not isinstance(value, dict) or len(value) > MOST_ITEMS:
            raise _wrong(where, value, "an object")
        return {names(name, where): items(each, f"{where}.{_shown(name)}") for name, each in value.items()}

    return reader


def _dataclass(kind: type) -> _Reader:
    """Read an object as a dataclass; an unknown name is an error. `unsaved` of the class: its fields in no file."""
    hints = typing.get_type_hints(kind, include_extras=True)
    unsaved: frozenset[str] = getattr(kind, "unsaved", frozenset())
    readers = {each.name: _reader(hints[each.name]) for each in fields(kind) if each.name not in unsaved}
    required = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}

    def reader(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        unknown = [name for name in value if name not in readers]
        if unknown:
            raise FormatError(f"{_below(where, unknown[0])} is unknown")
        missing = required - value.keys()
        if missing:
            raise FormatError(f"{_below(where, min(missing))} is missing")
        known = {name: each for name, each in value.items() if name in readers}
        return kind(**{name: readers[name](each, _below(where, name)) for name, each in known.items()})

    return reader


def _typed_dict(kind: Any) -> _Reader:
    """Read an object as a TypedDict; an unknown name is left out."""
    hints, required = _hints(kind)
    readers = {name: _reader(hint) for name, hint in hints.items()}

    def reader(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        missing = required - value.keys()
        if missing:
            raise FormatError(f"{_below(where, min(missing))} is missing")
        return {name: readers[name](each, _below(where, name)) for name, each in value.items() if name in readers}

    return reader


def _hints(kind: Any) -> tuple[dict[str, Any], set[str]]:
    """Return the types of a TypedDict's keys, and the keys that it requires."""
    hints = typing.get_type_hints(kind, localns={"NotRequired": NotRequired}, include_extras=True)
    optional = {name for name, hint in hints.items() if NotRequired in getattr(hint, "__metadata__", ())}
    return hints, set(kind.__required_keys__) - optional


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
