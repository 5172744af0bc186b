"""Values of a function: they come back as they were, and nothing that a node sends instead does harm."""

from __future__ import annotations

import json
import math
import pickle
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpkit.launchers import values
from ddpkit.launchers.values import BadValueError, PickledError, Raised, read_value
from ddpkit.node.rank import function_call
from ddpkit.node.rank.function_call import CannotReturnError, Writer, failed

KEYS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda each: st.tuples(each, each) | st.frozensets(each, max_size=3),
    max_leaves=4,
)
VALUES = st.recursive(
    KEYS | st.complex_numbers(allow_nan=False) | st.text(min_size=190, max_size=210),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(KEYS, each, max_size=4) | st.tuples(each, each),
    max_leaves=20,
)


def file_of(head: object, rest: bytes = b"") -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + rest


def same(one: object, two: object) -> bool:
    """Whether two values are equal in their types as well: 1 is neither True nor 1.0."""
    if type(one) is not type(two):
        return False
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(same(*pair) for pair in zip(one, two, strict=True))
    if isinstance(one, dict) and isinstance(two, dict):
        return same([*one.items()], [*two.items()])
    return repr(one) == repr(two) or one == two


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert same(read_value(Writer().write(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        math.inf, -math.inf, -0.0, 1 << 64, -(1 << 5000), "\ud800", "ü" * 500, bytearray(b"x"), {1, 2}, [[]] * 5,
        {(1, "a"): {None: b""}}, "\x1b[2J",
    ],
)  # fmt: skip
def test_values_of_a_kind(value: object) -> None:
    assert same(read_value(Writer().write(value)), value)


def test_arrays_and_tensors() -> None:
    numpy = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    arrays = [
        numpy.arange(6, dtype=">i4").reshape(2, 3).T,
        numpy.zeros((0, 3)),
        numpy.array(3.5),
        numpy.array(["ä", "bc"]),
        numpy.array(["2020-01-01"], dtype="M8[D]"),
        numpy.arange(4) > 1,
    ]
    for array in arrays:
        back = read_value(Writer().write(array))
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert (back == array).all()
        back[...] = back  # it can be written to
    for scalar in (numpy.float32(1.5), numpy.int8(-3), numpy.bool_(True)):
        back = read_value(Writer().write(scalar))
        assert (type(back), back) == (type(scalar), scalar)
    for name in function_call.TORCH_TYPES:
        tensor = torch.ones(2, 3).to(getattr(torch, name)).T
        back = read_value(Writer().write({"x": tensor}))["x"]
        assert (back.dtype, back.shape, back.requires_grad) == (tensor.dtype, tensor.shape, False)
        assert (back == tensor).all() if "float8" not in name else back.float().sum() == 6
    assert read_value(Writer().write(torch.zeros(0, 3))).shape == (0, 3)
    assert read_value(Writer().write(torch.nn.Parameter(torch.ones(1)))) == torch.ones(1)


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, {"a": Odd()}], "at [1]['a'] is test_values.Odd"),
        (Exception, "is type"),
        (range(3), "is range"),
        (pickle.PickleBuffer(b""), "PickleBuffer"),
        (b"x" * (function_call.LIMIT + 1), "larger than 16 MiB"),
        ("x" * (function_call.LIMIT + 1), "larger than 16 MiB"),
        ([0] * (function_call.PARTS + 1), "return an array"),
    ],
)
def test_what_does_not_travel_names_its_type(value: object, words: str) -> None:
    with pytest.raises(CannotReturnError) as raised:
        Writer().write(value)
    assert words in str(raised.value)
    if "MiB" not in words and "array" not in words:
        assert "trust='pickle'" in str(raised.value)


def test_a_list_in_itself_ends() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(CannotReturnError, match="lists in lists, or holds itself"):
        Writer().write(endless)


def test_arrays_of_objects_do_not_travel() -> None:
    numpy = pytest.importorskip("numpy")
    for array in (numpy.array([Odd()]), numpy.zeros(2, dtype=[("a", "i4")]), numpy.ma.array([1])):
        with pytest.raises(CannotReturnError, match=r"numpy\."):
            Writer().write(array)


def test_a_failure() -> None:
    read = read_value(failed("ValueError", "no", "Traceback" + "x" * 100_000))
    assert isinstance(read, Raised)
    assert (read.kind, read.message, read.traceback[:3]) == ("ValueError", "no", "...")


# ---- from a node that is nobody's friend

EXECUTED: list[str] = []


def explode(word: str) -> None:
    EXECUTED.append(word)


class Bomb:
    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return explode, ("bomb",)


def test_pickle_is_loaded_only_where_it_is_trusted() -> None:
    data = Writer(pickle.dumps).write({"a": Bomb()})
    with pytest.raises(PickledError):
        read_value(data)
    assert EXECUTED == []
    assert read_value(data, trust=True) == {"a": None}
    assert EXECUTED == ["bomb"]
    EXECUTED.clear()
    with pytest.raises(BadValueError, match="unpickled"):
        read_value(file_of({"value": {"pickle": [0, 3]}}, b"abc"), trust=True)


@pytest.mark.parametrize(
    "head",
    [
        b"", b"{", b"[]", b"null", {}, {"value": {}}, {"value": {"a": 1, "b": 2}}, {"value": {"eval": "1"}},
        {"value": {"int": "z"}}, {"value": {"int": 1}}, {"value": {"complex": [1]}}, {"value": {"complex": ["x", []]}},
        {"value": {"bytes": [0, 1]}}, {"value": {"bytes": [-1, 1]}}, {"value": {"bytes": [1 << 70, 1]}},
        {"value": {"bytes": [True, 0]}}, {"value": {"bytes": "ab"}}, {"value": {"tuple": 3}},
        {"value": {"set": [[1]]}}, {"value": {"dict": [[[1], 2]]}}, {"value": {"dict": [[1]]}},
        {"value": {"array": [0, 0, "O", [0]]}}, {"value": {"array": [0, 0, "V8", [0]]}},
        {"value": {"array": [0, 0, "f8", [1]]}}, {"value": {"array": [0, 0, "f8", [0, 1 << 80]]}},
        {"value": {"array": [0, 0, "f8", [0] * 100]}}, {"value": {"array": [0, 0, "f7", [0]]}},
        {"value": {"array": [0, 0, ["f8"], [0]]}}, {"value": {"tensor": [0, 0, "Tensor", [0]]}},
        {"value": {"tensor": [0, 0, "float32", [2, 2]]}}, {"value": {"tensor": [0, 0, [], [0]]}},
        {"value": {"tensor": [0, 0, "float32", [0, 1 << 80]]}}, {"value": {"array": [0, 0, "S0", [10**12]]}},
        {"value": {"array": [0, 0, "<U0", [10**6, 10**6]]}}, {"value": {"array": [0, 0, "f8", [10**12, 0]]}},
        {"value": {"array": [0, 0, "f8", [10**4000] * 200]}}, {"value": {"tensor": [0, 0, "int8", [10**12, 0]]}},
        {"value": {"tensor": [0, 0, "int8", [1] * 100 + [0]]}}, {"error": [1, 2]}, {"error": ["a"]},
        b"[" * 100_000, b'{"value":' + b"[" * 100_000, b'{"value":' + b"9" * 10_000 + b"}", b"\xff\xfe",
    ],
)  # fmt: skip
def test_forged_values_are_refused(head: Any) -> None:
    with pytest.raises(BadValueError):
        read_value(file_of(head))


@given(st.binary(max_size=200) | VALUES.map(lambda value: Writer().write(value)), st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_values_are_values_or_refused(data: bytes, more: st.DataObject) -> None:
    changed = bytearray(data)
    for _ in range(more.draw(st.integers(0, 3))):
        if changed:
            changed[more.draw(st.integers(0, len(changed) - 1))] = more.draw(st.integers(0, 255))
    try:
        read_value(bytes(changed[: more.draw(st.integers(0, len(changed)))]))
    except BadValueError:
        pass


MODULUS = (1 << 61) - 1  # of the hash of a number


@pytest.mark.parametrize("distinct", [0, 1 << 16])
def test_keys_of_one_hash_take_no_quadratic_time(distinct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "SECONDS", 0.5)
    alike = [number * MODULUS for number in range(1, 1 << 16)] + list(range(1, distinct))
    for kind, parts in (("set", alike), ("frozenset", alike), ("dict", [[each, 0] for each in alike])):
        began = time.process_time()
        with pytest.raises(BadValueError, match="its keys were chosen to take time"):
            read_value(file_of({"value": {kind: parts}}))
        assert time.process_time() - began < 10  # all of them in one table: minutes
    many = dict.fromkeys(range(5000))
    assert read_value(Writer().write(many)) == many


def test_many_tables_have_no_more_time_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "SECONDS", 0.05)
    alike = [number * MODULUS for number in range(1, 1000)]
    with pytest.raises(BadValueError, match="take time"):
        read_value(file_of({"value": [{"set": alike}] * 400}))


def test_a_signal_is_obeyed_between_keys_that_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    class GotError(Exception):
        pass

    def got(*_: object) -> None:
        raise GotError

    monkeypatch.setattr(values, "SECONDS", 3600.0)
    before = signal.signal(signal.SIGALRM, got)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        with pytest.raises(GotError):
            read_value(file_of({"value": {"set": [number * MODULUS for number in range(1, 1 << 16)]}}))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "forms",
    [
        [{"bytes": [0, 8]}, {"bytes": [0, 8]}],
        [{"bytes": [0, 8]}, {"str": [7, 1]}],
        [{"bytearray": [0, 5]}, {"array": [4, 4, "<i4", [1]]}],
        {"dict": [[{"bytes": [0, 8]}, {"tensor": [0, 8, "int64", [1]]}]]},
    ],
)
def test_bytes_that_several_forms_name_are_refused(forms: object) -> None:
    """Each would be a copy: some hundred times what a node has sent."""
    with pytest.raises(BadValueError, match="more than once"):
        read_value(file_of({"value": forms}, b"01234567"))
