"""Which nodes keep a collective from working: found in few attempts, whichever they are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from ddpkit.preflight.bisect import MOST, suspects

HOSTS = [f"node{number}" for number in range(1, 17)]


class Cluster:
    """Works on hosts none of which is bad, and no two of which do not get on."""

    def __init__(self, *bad: tuple[str, ...]) -> None:
        self.bad, self.attempts = bad, 0

    def __call__(self, some: Sequence[str]) -> bool:
        self.attempts += 1
        return not any(set(one) <= set(some) for one in self.bad)


@given(st.sampled_from(HOSTS), st.integers(2, 16))
def test_a_bad_node(host: str, number: int) -> None:
    hosts = HOSTS[:number] if host in HOSTS[:number] else [*HOSTS[: number - 1], host]
    cluster = Cluster((host,))
    assert suspects(hosts, cluster) == [(host,)]
    assert cluster.attempts <= MOST


@given(st.sampled_from(list(combinations(HOSTS, 2))))
def test_a_pair_that_does_not_get_on(pair: tuple[str, str]) -> None:
    cluster = Cluster(pair)
    (found,) = suspects(HOSTS, cluster)
    assert set(found) == set(pair)
    assert cluster.attempts <= MOST


def test_two_faults_at_once() -> None:
    cluster = Cluster(("node2",), ("node7", "node8"))
    assert {frozenset(one) for one in suspects(HOSTS[:8], cluster)} == {frozenset(one) for one in cluster.bad}


def test_what_takes_too_many_attempts_is_not_guessed() -> None:
    assert suspects(HOSTS, Cluster(*((host,) for host in HOSTS)), most=6) == []


def test_two_nodes() -> None:
    assert suspects(HOSTS[:2], Cluster(("node1", "node2"))) == [("node1", "node2")]
    assert suspects(HOSTS[:2], Cluster(("node1",))) == [("node1",)]
