"""JSON that is read by its declared types: what fits is returned, and what does not is one sentence about its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import pytest

from ddpkit.launchers import typed_json
from ddpkit.launchers.typed_json import Between, Form, FormatError

if TYPE_CHECKING:
    from typing_extensions import NotRequired  # in `typing` from Python 3.11

Name = Annotated[str, Form("[a-z]+", "the name of a host")]
Port = Annotated[int, Between(1, 65535)]
Pair = Annotated[list[int], Between(2, 2)]


class Base(TypedDict, total=False):
    note: str


class Sample(Base):
    pid: int
    cpu: NotRequired[float]
    out: float | None


@dataclass(frozen=True)
class Host:
    name: Name
    port: Port = 22
    ranks: tuple[int, ...] = ()
    place: tuple[str, int] | None = None
    facts: dict[str, Sample] = field(default_factory=dict)
    mode: Literal["a", "b"] = "a"


DEEP: Any = 1
for _ in range(typed_json.DEPTH + 1):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (Host, {"name": "a"}, Host("a")),
        (Host, {"name": "a", "ranks": [1, 2], "place": ["x", 1]}, Host("a", 22, (1, 2), ("x", 1))),
        (Sample, {"pid": 1, "out": None}, {"pid": 1, "out": None}),
        (Sample, {"pid": 1, "out": 2, "note": "x", "new": 1}, {"pid": 1, "out": 2, "note": "x"}),  # a later version's
        (list[int] | str | None, None, None),
        (list[int] | str | None, "x", "x"),
        (list[int] | str | None, [1], [1]),
        (Literal[1, 2], 2, 2),
        (str, "\udcff", "\udcff"),  # a byte of a file's name
        (object, [{"a": [None, 1.5]}], [{"a": [None, 1.5]}]),
        (float, typed_json.MOST_NUMBER, typed_json.MOST_NUMBER),
    ],
)
def test_what_fits_is_returned(kind: Any, value: object, read: object) -> None:
    assert typed_json.read(kind, value) == read
    assert typed_json.matches(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        (Host, [], "the file: an object is required, not a list"),
        (Host, {}, "name is missing"),
        (Host, {"name": "a", "nmae": 1}, "nmae is unknown"),
        (Host, {"name": "-x"}, "name: the name of a host is required, not '-x'"),
        (Host, {"name": "a", "port": 0}, "port: a number from 1 to 65535 is required, not 0"),
        (Host, {"name": "a", "port": True}, "port: an integer is required, not True"),
        (Host, {"name": "a", "ranks": [1, "2"]}, "ranks[1]: an integer is required, not '2'"),
        (Host, {"name": "a", "place": ["x"]}, "place: a list of 2 is required, not a list"),
        (Host, {"name": "a", "mode": "c"}, "mode: one of a, b is required, not 'c'"),
        (Host, {"name": "a", "facts": {"g\n": {"out": None}}}, r"facts.g\n.pid is missing"),
        (Sample, {"pid": 1, "out": "x"}, "out: a number is required, not 'x'"),
        (list[int] | str | None, [[]], "the file: a text is required, not a list"),
        (Literal[1, 2], True, "the file: one of 1, 2 is required, not True"),
        (Literal[1, 2], [1], "the file: one of 1, 2 is required, not a list"),
        (Pair, [1], "the file: a length from 2 to 2 is required, not a list"),
        (str, "\ud800", r"the file: a text of at most 1048576 characters of Unicode is required, not '\ud800'"),
        (str, "x" * (typed_json.MOST_TEXT + 1), None),
        (bool, 1, "the file: true or false is required, not 1"),
        (float, float("nan"), "the file: a number is required, not nan"),
        (float, float("inf"), "the file: a number is required, not inf"),
        (int, typed_json.MOST_NUMBER + 1, None),
        (list[int], [0] * (typed_json.MOST_ITEMS + 1), None),
        (object, DEEP, "the file: JSON of at most 1048576 parts, 64 deep, is required, not a list"),
    ],
)
def test_what_does_not_fit_is_one_sentence(kind: Any, value: object, error: str | None) -> None:
    with pytest.raises(FormatError) as caught:
        typed_json.read(kind, value)
    assert error is None or str(caught.value) == error
    assert not typed_json.matches(kind, value)


def test_keys_of_a_message() -> None:
    keys = typed_json.keys(Sample)
    assert {name: needed for name, (_, needed) in keys.items()} == {
        "note": False,
        "pid": True,
        "cpu": False,
        "out": True,
    }
    assert keys["cpu"][0](0.5)
    assert not keys["cpu"][0]("0.5")


def test_a_type_that_no_json_has_is_an_error_of_the_program() -> None:
    with pytest.raises(TypeError, match="complex"):
        typed_json.matches(complex, 1)
