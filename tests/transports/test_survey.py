"""The survey of a launch: which questions it asks of a pool of nodes, and what it makes of their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from test_compatibility import NEEDS, facts, specs

from ddpkit.errors import LaunchError, PreflightError
from ddpkit.transports.compatibility import Requirements
from ddpkit.transports.hosts import HostSpec, Problem, refusal
from ddpkit.transports.pool import NodePool
from ddpkit.transports.reachability import Target, all_peers
from ddpkit.transports.survey import Survey, survey


class Pool:
    """A pool whose nodes answer as the test wrote down."""

    def __init__(self, *answers: Any, off: Sequence[str] = (), mute: Sequence[str] = (), closed: Sequence[int] = ()):
        self.specs: Sequence[HostSpec] = specs(len(answers))
        self._facts = {spec.label: each for spec, each in zip(self.specs, answers, strict=True)}
        self._off, self._mute, self._closed = off, mute, closed  # labels, labels, ports
        self.asked: list[str] = []

    def connect(self, start_timeout: float | None = None) -> list[Problem]:
        return [Problem(host=label, what="is off", fix="ping", unreachable=True) for label in self._off]

    def scaled(self, seconds: float) -> float:
        return seconds

    def ask_facts(self, requirements: Requirements, timeout: float) -> tuple[dict[str, Any], list[Problem]]:
        return {label: each for label, each in self._facts.items() if label not in self._off}, []

    def probe_addresses(
        self, targets: Mapping[str, Sequence[Target]]
    ) -> tuple[dict[str, list[list[str]]], list[Problem]]:
        self.asked.append(", ".join(targets))
        silent = [
            Problem(host=each, what="is mute", fix="", unreachable=True) for each in targets if each in self._mute
        ]
        answers = {
            label: [["", "no answer"] if port in self._closed else [name, ""] for name, port, _ in each]
            for label, each in targets.items()
        }
        return answers, silent

    def drop_failed(self, problems: Sequence[Problem], least: int, note: Callable[[str], None]) -> None:
        bad = {problem.host for problem in problems}
        if len(self.specs) - len(bad) < least:
            raise refusal(problems, len(self.specs))
        self.specs = [spec for spec in self.specs if spec.label not in bad]
        for label in sorted(bad):
            note(f"without {label}")


def run(pool: Pool, requirements: Requirements = NEEDS, *, strict: bool = True) -> tuple[Any, list[str]]:
    notes: list[str] = []
    return survey(cast("NodePool", pool), requirements, notes.append, strict=strict), notes


def needs(**changes: Any) -> Requirements:
    return Requirements(**{**vars(NEEDS), **changes})


def test_nodes_that_reach_each_other_make_a_world() -> None:
    world, notes = run(Pool(facts(1), facts(2), facts(3)))
    assert [host.name for host in world.hosts] == ["n1", "n2", "n3"]
    assert (world.master_addr, world.master_port, world.min_nodes) == ("10.0.0.1", 24000, None)
    assert notes == []


def test_one_refusal_names_every_problem_in_the_order_of_the_nodes() -> None:
    pool = Pool(facts(1, no_tmp="Read-only file system"), facts(2), facts(3), off=["n2"], closed=[40003])
    with pytest.raises(LaunchError) as error:
        run(pool)
    words = [line.split(":")[0].strip() for line in error.value.message.splitlines()[1::2]]
    assert words == ["n1", "n2", "n3"]


def test_an_incompatibility_is_a_note_where_it_is_not_strict() -> None:
    with pytest.raises(PreflightError):
        run(Pool(facts(1), facts(2, python="3.9.2")))
    world, notes = run(Pool(facts(1), facts(2, python="3.9.2")), strict=False)
    assert world is not None
    assert notes == [
        "n2: /py is Python 3.9.2, on the other nodes 3.11.7 (hint: python = ... under [host.n2] in ddpkit.toml)"
    ]


def test_a_node_that_does_not_answer_is_a_refusal() -> None:
    with pytest.raises(LaunchError, match="is mute"):
        run(Pool(facts(1), facts(2), mute=["n2"]))


def test_nothing_is_tried_where_rank_0_cannot_listen() -> None:
    pool = Pool(facts(1, port=None, no_port="Address already in use"), facts(2))
    with pytest.raises(PreflightError, match="rank 0 cannot listen"):
        run(pool)
    assert pool.asked == []


def test_a_single_node_tries_only_an_address_that_was_chosen() -> None:
    alone = Pool(facts(1))
    assert run(alone)[0].master_addr == "127.0.0.1"
    assert alone.asked == []
    with pytest.raises(PreflightError, match="cannot reach its own port 24000"):
        run(Pool(facts(1), closed=[24000]), needs(master_addr="10.5.5.5"))


def test_an_elastic_run_goes_on_without_bad_nodes() -> None:
    each = [facts(1, port=None), facts(2, port=24002), facts(3, port=24003)]
    world, notes = run(Pool(*each, off=["n1"]), needs(min_nodes=2))
    assert [host.name for host in world.hosts] == ["n2", "n3"]
    assert (world.master_addr, world.master_port, world.min_nodes) == ("10.0.0.2", 24002, 2)
    assert notes == ["without n1"]
    with pytest.raises(LaunchError):
        run(Pool(*each, off=["n1"]), needs(min_nodes=3))


def test_a_workaround_is_a_note() -> None:
    world, notes = run(Pool(facts(1), facts(2, own_name=["127.0.1.1"])))
    assert world.hosts[1].env == {"GLOO_SOCKET_IFNAME": "eth0"}
    assert len(notes) == 1
    assert notes[0].startswith("n2: its own name n2 resolves to 127.0.1.1 on that node")


def test_a_preflight_tries_all_pairs_and_a_launch_a_ring() -> None:
    nodes = Survey(cast("NodePool", Pool(*[facts(number) for number in range(1, 5)])), NEEDS)
    nodes.ask_facts(1.0)
    ring, pairs = nodes.connect().reachability, nodes.connect(all_peers).reachability
    assert ring is not None
    assert pairs is not None
    assert sorted(ring.attempts) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert len(pairs.attempts) == 12
