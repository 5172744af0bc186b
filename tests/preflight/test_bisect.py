"""Which nodes keep a collective from working: found in few attempts, whichever they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpkit.preflight.bisect import MOST, find_causes, suspects

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


class Runner:
    """Ranks that fail at the attempts of these numbers, and wherever a variable or a host does not suit them."""

    def __init__(self, fails: Sequence[int] = (), needs: str = "", bad: str = "") -> None:
        self.fails, self.needs, self.bad, self.attempts = fails, needs, bad, 0

    def __call__(self, some: Sequence[str], env: Mapping[str, str]) -> bool:
        self.attempts += 1
        helped = not (self.needs or self.bad) or self.needs in env or (bool(self.bad) and self.bad not in some)
        return self.attempts not in self.fails and helped


@pytest.mark.parametrize("stage", ["gloo", "nccl"])
@pytest.mark.parametrize("hosts", [HOSTS[:1], HOSTS[:4]])
def test_a_failure_that_does_not_occur_again_has_no_cause(stage: str, hosts: list[str]) -> None:
    """The first start was slow. Each switch and each half would seem to fix it."""
    runner = Runner()
    (check,) = find_causes(stage, hosts, runner)
    assert (check.id, check.status, check.doc, check.host) == ("cause", "warn", "slow-first-start", "")
    assert "succeeds when the same ranks run again, unchanged" in check.evidence
    assert "--timeout 60" in check.fix
    assert runner.attempts == 1


def test_several_switches_that_each_work_are_no_cause() -> None:
    """The repetition failed as well, and then nothing did."""
    (check,) = find_causes("nccl", HOSTS[:2], Runner(fails=[1]))
    assert (check.status, check.host, check.fix) == ("unknown", "", "")
    assert "does not occur every time" in check.cause


def test_one_switch_that_works_is_the_cause() -> None:
    found = list(find_causes("nccl", HOSTS[:1], Runner(needs="NCCL_P2P_DISABLE")))
    assert [(check.status, check.doc, check.fix) for check in found] == [
        ("fail", "p2p-hang", "--env NCCL_P2P_DISABLE=1"),
    ]


def test_one_host_that_fails_is_the_cause() -> None:
    (check,) = find_causes("nccl", HOSTS[:4], Runner(bad="node3"))
    assert (check.status, check.host, check.evidence) == ("fail", "node3", "node3 fails alone")
