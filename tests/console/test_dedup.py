"""Equal lines of several ranks are one; the odd one stays alone; no line is lost, late, or out of its rank's order."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpkit.console.dedup import LIMIT, Fold, FoldedLine, Source, label

WINDOW = 0.2


def rank(number: int, host: str = "a") -> Source:
    return Source(number, host, "torchrun")


def seen(found: list[FoldedLine]) -> list[tuple[bytes, list[int]]]:
    return [(said.text, sorted(source.rank or 0 for source in said.sources)) for said in found]


def test_what_every_rank_says_is_shown_once_and_at_once() -> None:
    fold = Fold(3, WINDOW)
    assert fold.add(0.0, rank(0), 1, b"loading") == []
    assert fold.add(0.01, rank(2), 1, b"loading") == []
    assert seen(fold.add(0.02, rank(1), 1, b"loading")) == [(b"loading", [0, 1, 2])]
    assert fold.when() is None


def test_a_line_waits_no_longer_than_the_window() -> None:
    fold = Fold(3, WINDOW)
    fold.add(10.0, rank(0), 1, b"alone")
    assert fold.when() == 10.0 + WINDOW
    assert fold.due(10.0 + WINDOW / 2) == []
    assert seen(fold.due(10.0 + WINDOW)) == [(b"alone", [0])]
    assert fold.when() is None


def test_the_odd_one_stands_out() -> None:
    """One rank says something else before what all say: it is shown before it, and the rest is still one line."""
    fold = Fold(4, WINDOW)
    for number in (0, 1, 2):
        assert fold.add(0.0, rank(number), 1, b"loading") == []
    assert fold.add(0.0, rank(3), 2, b"no such file") == []
    found = fold.add(0.1, rank(3), 1, b"loading")
    assert seen(found) == [(b"no such file", [3]), (b"loading", [0, 1, 2, 3])]
    assert [said.number for said in found] == [2, 1]


def test_two_odd_ones_are_one_line_as_well() -> None:
    fold = Fold(4, WINDOW)
    for number in (0, 1):
        fold.add(0.0, rank(number), 1, b"go")
    found: list[FoldedLine] = []
    for number in (2, 3):
        fold.add(0.0, rank(number), 1, b"warning")
        found += fold.add(0.0, rank(number), 1, b"go")
    assert seen(found) == [(b"warning", [2, 3]), (b"go", [0, 1, 2, 3])]


def test_the_same_line_twice_is_shown_twice() -> None:
    fold = Fold(2, WINDOW)
    found = [said for number in (0, 0, 1, 1) for said in fold.add(0.0, rank(number), 1, b".")]
    assert seen(found) == [(b".", [0, 1]), (b".", [0, 1])]


def test_opposite_orders_are_kept() -> None:
    fold = Fold(3, WINDOW)
    for number, texts in ((0, (b"A", b"B")), (1, (b"B", b"A"))):
        for text in texts:
            fold.add(0.0, rank(number), 1, text)
    assert seen(fold.all()) == [(b"B", [1]), (b"A", [0, 1]), (b"B", [0])]


def test_outputs_and_agents_stay_apart() -> None:
    fold = Fold(4, WINDOW)
    fold.add(0.0, rank(0), 1, b"x")
    fold.add(0.0, rank(1), 2, b"x")
    for host in ("a", "b"):
        fold.add(0.0, Source(None, host, "torchrun"), 1, b"x")
    found = fold.all()
    assert [(said.number, len(said.sources)) for said in found] == [(1, 1), (2, 1), (1, 2)]
    assert label(found[2].sources, 4) == "torchrun 2 nodes"


def test_a_flood_does_not_pile_up() -> None:
    fold = Fold(2, WINDOW)
    shown = 0
    for number in range(100):
        shown += len(fold.add(0.0, rank(0), 1, b"%d" % number + b"x" * (LIMIT // 10)))
    assert shown >= 85
    assert shown + len(fold.all()) == 100


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([rank(3, "node2")], "3 node2"),
        ([rank(number) for number in range(32)], "0-31"),
        ([rank(number) for number in range(8)], "0-7 a"),
        ([rank(number, f"node{number // 8}") for number in range(32) if number != 5], "0-4,6-31 4 nodes"),
        ([rank(number) for number in range(0, 32, 2)], "0,2,4,6,... (16 ranks) a"),
        ([rank(31), rank(30), rank(3)], "3,30-31 a"),
        ([Source(None, "node1", "torchrun")], "torchrun node1"),
    ],
)
def test_labels(sources: list[Source], expected: str) -> None:
    assert label(sources, 32) == expected


LINES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 2), st.sampled_from([b"a", b"b", b"c", b"d"])), max_size=60
)


@given(LINES, st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.3]), min_size=60, max_size=60), st.integers(2, 5))
def test_every_rank_is_shown_what_it_said_in_its_order(
    lines: list[tuple[int, int, bytes]], pauses: list[float], world_size: int
) -> None:
    fold, now = Fold(world_size, WINDOW), 0.0
    shown: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    said: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    found: list[FoldedLine] = []
    for (number, output, text), pause in zip(lines, pauses, strict=False):
        now += pause
        found += fold.due(now)
        said[number].append((output, text))
        found += fold.add(now, rank(number), output, text)
        when = fold.when()
        assert when is None or when > now  # nothing is late
    found += fold.all()
    assert fold.when() is None
    for each in found:
        assert len(set(each.sources)) == len(each.sources)
        for source in each.sources:
            shown[source.rank or 0].append((each.number, each.text))
    assert shown == said


@given(st.permutations(range(6)))
def test_ranks_that_say_the_same_need_one_line_each(order: list[int]) -> None:
    """Whatever the order in which they come, rank by rank."""
    fold = Fold(6, WINDOW)
    found: list[FoldedLine] = []
    for number in order:
        for text in (b"one", b"two", b"three"):
            found += fold.add(0.0, rank(number), 1, text)
    assert seen(found) == [(text, list(range(6))) for text in (b"one", b"two", b"three")]
