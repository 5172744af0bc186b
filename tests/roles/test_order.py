"""What follows from the events of replicas, as a table of stories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from ddpkit.roles.order import Action, End, Ending, Name, Order, Start
from ddpkit.roles.spec import Role

ROLES = (
    Role(name="infer", command=("serve",), nnodes=2, replicas=2, restart=1),
    Role(name="train", command=("train.py",), after=("infer",), ends_run=True),
    Role(name="eval", command=("eval.py",), after=("train",), ends_run=True),
)


def shown(actions: Iterator[Action]) -> str:
    words = []
    for action in actions:
        if isinstance(action, Start):
            words.append(f"start {action.replica}" + (f" again {action.restarts}" if action.restarts else ""))
        else:
            words.append(f"end {' '.join(map(str, action.replicas))}")
    return ", ".join(words)


def tell(order: Order, story: str) -> list[str]:
    """Each word is an event; returns what follows from each."""
    found = []
    for word in story.split():
        kind, _, name = word.partition(":")
        role, _, number = name.partition(".")
        replica = Name(role, int(number or 0))
        actions: dict[str, Callable[[], Iterator[Action]]] = {
            "begin": order.begin,
            "stop": order.on_stop,
            "ready": partial(order.on_ready, replica),
            "ok": partial(order.on_end, replica, ok=True),
            "bad": partial(order.on_end, replica, ok=False),
            "fails": partial(order.on_failure, replica),
        }
        found.append(shown(actions[kind]()))
    return found


UP = "begin ready:infer.0 ready:infer.1 ready:train"
UP_ACTIONS = ["start infer.0, start infer.1", "", "start train.0", "start eval.0"]


@pytest.mark.parametrize(
    ("story", "actions", "ending", "first"),
    [
        (" ok:train ok:eval ok:infer.0 ok:infer.1", ["", "end infer.0 infer.1", "", ""], Ending.DONE, None),
        (" ok:eval ok:train bad:infer.0 bad:infer.1", ["", "end infer.0 infer.1", "", ""], Ending.DONE, None),
        (" bad:infer.1 ok:infer.1", ["start infer.1 again 1", "end infer.0 train.0 eval.0"], Ending.FAILED, "infer.1"),
        (" ok:infer.0 bad:infer.0", ["start infer.0 again 1", "end infer.1 train.0 eval.0"], Ending.FAILED, "infer.0"),
        (" fails:infer.0", [""], None, None),
        (" fails:train bad:train", ["end infer.0 infer.1 eval.0", ""], Ending.FAILED, "train.0"),
        (" bad:train", ["end infer.0 infer.1 eval.0"], Ending.FAILED, "train.0"),
        (" stop bad:train stop", ["end infer.0 infer.1 train.0 eval.0", "", ""], Ending.STOPPED, None),
    ],
)
def test_the_end_of_a_run(story: str, actions: list[str], ending: Ending | None, first: str | None) -> None:
    order = Order(ROLES)
    assert tell(order, UP + story) == UP_ACTIONS + actions
    assert order.ending is ending
    assert (str(order.first) if order.first else None) == first


def test_a_role_that_ended_well_lets_start_what_is_after_it() -> None:
    order = Order(
        (Role(name="a", command=("a",), ends_run=True), Role(name="b", command=("b",), after=("a",), ends_run=True))
    )
    assert tell(order, "begin ok:a ready:a ok:b") == ["start a.0", "start b.0", "", ""]
    assert order.ending is Ending.DONE
    assert order.over


def test_a_failure_before_a_role_has_started() -> None:
    order = Order(ROLES)
    assert tell(order, "begin ready:infer.0 bad:infer.1 bad:infer.1 bad:infer.0") == [
        "start infer.0, start infer.1",
        "",
        "start infer.1 again 1",
        "end infer.0",
        "",
    ]
    assert order.over


def test_what_ends_is_named_once() -> None:
    order = Order(ROLES)
    tell(order, UP)
    (action,) = list(order.on_failure(Name("train", 0)))
    assert isinstance(action, End)
    assert len(action.replicas) == len(set(action.replicas)) == 3  # not itself
    assert not list(order.on_failure(Name("eval", 0)))
    assert not order.over
