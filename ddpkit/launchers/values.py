"""Reads what the function of `ddpkit.call` returned in a rank: typed and bounded, and nothing of it is executed.

`ddpkit/node/rank/function_call.py` writes it. Pickled parts are loaded only for a caller who trusts them.
"""

from __future__ import annotations

import importlib
import json
import pickle
import re
import time
from dataclasses import dataclass
from math import prod
from typing import Any

from ddpkit.node.rank.function_call import DEEPEST, LIMIT, PARTS, TEXT_LIMIT, TORCH_TYPES
from ddpkit.text import one_line, printable

_DTYPE = re.compile(r"[<>|=]?[biufcmMSU][0-9]{1,9}(\[[0-9a-zA-Z]{1,12}\])?")
MOST_MARKS = 8 * PARTS  # commas and brackets of the JSON: a list of two bytes takes 64 here
MOST_AXES = 64  # of an array, as in NumPy
KEYS = 100  # that are put into a table at once: a signal is obeyed between them
SECONDS = 5.0  # of this thread's CPU for all tables of a value: the most parts take a twentieth of it


class BadValueError(ValueError):
    """What came is no value: damaged, forged, or of a library that is not here."""


class PickledError(BadValueError):
    """It holds pickled parts, and the caller does not trust them."""


@dataclass(frozen=True, kw_only=True)
class Raised:
    """How a rank failed."""

    kind: str
    message: str
    traceback: str


def read_value(data: bytes, *, trust: bool = False) -> Any:
    """Return the value of a rank, or a `Raised`. `trust`: load pickled parts, which can execute code.

    Raises BadValueError.
    """
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8 or len(data) > LIMIT + 8 * TEXT_LIMIT:
        raise BadValueError("it is incomplete, or too large")
    text, rest = data[8 : 8 + size], memoryview(data)[8 + size :]
    if sum(map(text.count, (b",", b"[", b"{"))) > MOST_MARKS:
        raise BadValueError("it has too many parts")
    try:
        head = json.loads(text.decode("ascii"))
        if isinstance(head, dict) and isinstance(head.get("error"), list):
            kind, message, traceback = (printable(str(each)[: TEXT_LIMIT + 3]) for each in head["error"])
            return Raised(kind=one_line(kind), message=message, traceback=traceback)
        return _Reader(rest, trust=trust).value(head["value"], 0)
    except BadValueError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RuntimeError, MemoryError) as error:
        raise BadValueError(one_line(f"{type(error).__name__}: {error}")) from None


class _Reader:
    """Makes a value of its form. `rest`: the bytes behind the JSON."""

    def __init__(self, rest: memoryview, *, trust: bool) -> None:
        self._rest, self._trust = rest, trust
        self._left = len(rest)  # bytes that no form has named yet: each is named once
        self._spent = 0.0  # seconds for tables

    def value(self, form: Any, depth: int) -> Any:
        """Return the value of one form. Raises BadValueError, and what Python raises for values of a wrong type."""
        if depth > DEEPEST + 1:
            raise BadValueError("it is nested too deeply")
        if isinstance(form, list):
            return [self.value(each, depth + 1) for each in form]
        if not isinstance(form, dict):
            return form
        ((kind, content),) = form.items()
        if kind in ("tuple", "set", "frozenset"):
            parts = [self.value(each, depth + 1) for each in content]
            if kind == "tuple":
                return tuple(parts)
            found: set[Any] = set()
            self._fill(found, parts)
            return found if kind == "set" else frozenset(found)
        if kind == "dict":
            pairs = [(self.value(key, depth + 1), self.value(each, depth + 1)) for key, each in content]
            table: dict[Any, Any] = {}
            self._fill(table, pairs)
            return table
        return self._plain(kind, content)

    def _fill(self, table: set[Any] | dict[Any, Any], parts: list[Any]) -> None:
        """Fill a table within bounds: a node can choose keys that meet in it, each with all before it.

        Raises TypeError for what cannot be a key.
        """
        for start in range(0, len(parts), KEYS):
            began = time.thread_time()
            table.update(parts[start : start + KEYS])
            self._spent += time.thread_time() - began
            if self._spent > SECONDS:
                raise BadValueError("its keys were chosen to take time")

    def _plain(self, kind: str, content: Any) -> Any:
        if kind == "int":
            return int(content, 16)
        if kind == "complex":
            real, imag = content
            return complex(float(real), float(imag))
        if kind == "bytes":
            return self._bytes(content)
        if kind == "bytearray":
            return bytearray(self._bytes(content))
        if kind == "str":
            return self._bytes(content).decode("utf-8", "surrogatepass")
        if kind in ("array", "scalar"):
            return self._array(content, scalar=kind == "scalar")
        if kind == "tensor":
            return self._tensor(content)
        if kind != "pickle":
            raise BadValueError(f"there is no type {kind[:40]!r}")
        if not self._trust:
            raise PickledError("it is pickled, and was not asked for")
        try:
            return pickle.loads(self._bytes(content))
        except Exception as error:
            raise BadValueError(one_line(f"it cannot be unpickled: {type(error).__name__}: {error}")) from error

    def _bytes(self, place: Any) -> bytes:
        start, size = map(_whole, place)
        if start + size > len(self._rest):
            raise BadValueError("it refers to bytes that are not there")
        if size > self._left:
            raise BadValueError("it refers to some bytes more than once")
        self._left -= size
        return bytes(self._rest[start : start + size])

    def _array(self, content: Any, *, scalar: bool) -> Any:
        *place, dtype, shape = content
        if not _DTYPE.fullmatch(dtype):
            raise BadValueError(f"an array of type {str(dtype)[:40]!r}")
        numpy = _library("numpy")
        kind, data = numpy.dtype(dtype), self._bytes(place)
        shape = _shape(shape)
        if prod(shape) * kind.itemsize != len(data):
            raise BadValueError("an array of another size than its shape")
        array = numpy.ndarray(shape, kind, bytearray(data))
        return array[()] if scalar else array

    def _tensor(self, content: Any) -> Any:
        *place, name, shape = content
        if name not in TORCH_TYPES:
            raise BadValueError(f"a tensor of type {str(name)[:40]!r}")
        torch = _library("torch")
        kind, data = getattr(torch, name, None), self._bytes(place)
        shape = _shape(shape)
        if kind is None:
            raise BadValueError(f"torch {torch.__version__} has no type {name}")
        if prod(shape) * kind.itemsize != len(data):
            raise BadValueError("a tensor of another size than its shape")
        return torch.frombuffer(bytearray(data), dtype=kind).reshape(shape) if data else torch.empty(shape, dtype=kind)


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise BadValueError("a size that is no number")
    return value


def _shape(axes: Any) -> tuple[int, ...]:
    """Return the shape of an array. One without bytes has no more items or rows than one with bytes."""
    shape = tuple(_whole(each) for each in axes)
    if len(shape) > MOST_AXES or any(each > LIMIT for each in shape) or prod(max(1, each) for each in shape) > LIMIT:
        raise BadValueError("an array of more items than a value has")
    return shape


def _library(name: str) -> Any:
    """Return NumPy or torch, which the launcher's side may lack."""
    try:
        return importlib.import_module(name)
    except ImportError:
        what = f"it has an array, and there is no {name} here: pip install {name}, or return a list"
        raise BadValueError(what) from None
