"""What the nodes said, and what follows from it: each cause with its host and its fix, or the world."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ddpkit.errors import LaunchError, PreflightError
from ddpkit.launchers.plan import Job
from ddpkit.node.calls.probe import ONE_INSTANCE
from ddpkit.node.owned import CAN_RENAME
from ddpkit.transports import compatibility
from ddpkit.transports.compatibility import Requirements
from ddpkit.transports.hosts import HostSpec, Problem, refusal
from ddpkit.transports.reachability import Reachability, candidate_addresses, reach_targets

JOB = Job(run_id="r", command=("train.py",), kind="script", workdir="/w", python="/py", env={}, grace=15.0)
NEEDS = Requirements(
    job=JOB,
    nproc_per_node=2,
    script="train.py",
    digest="d1",
    torch=True,
    starter="torchrun",
    master_addr="",
    master_port=0,
)


def facts(number: int, **changes: Any) -> Any:
    """A node with nothing wrong: 10.0.0.NUMBER."""
    found = {
        "host": f"n{number}",
        "time": 0.0,
        "machine": f"m{number}",
        "workdir": "/w",
        "no_workdir": "",
        "script": "d1",
        "executable": "/py",
        "python": "3.11.7",
        "torch": {"place": "/t", "version": "2.5.1"},
        "cpus": 8,
        "gpus": 2,
        "no_gpus": "",
        "topology": {"nodes": [], "gpus": []},
        "set": [],
        "stale": [],
        "addresses": [["eth0", f"10.0.0.{number}"]],
        "own_name": [f"10.0.0.{number}"],
        "tmp": "/tmp",
        "no_tmp": "",
        "secret": f"s{number}",
        "port": 24000 if number == 1 else None,
        "no_port": "",
        "high_port": 40000 + number,
    }
    return {**found, **changes}


def specs(count: int) -> list[HostSpec]:
    return [HostSpec(name=f"n{number}") for number in range(1, count + 1)]


def alone(*each: Any, needs: Requirements = NEEDS) -> list[tuple[str, str, str]]:
    return [(p.host, p.what, p.fix) for p in compatibility.check_nodes(needs, specs(len(each)), each)]


def together(*each: Any, cut: Sequence[tuple[str, int, str]] = (), needs: Requirements = NEEDS) -> Any:
    """The world, problems and notes where every address answers but these: (who asks, port, address)."""
    hosts = specs(len(each))
    reachability = tried(hosts, each, cut, needs)
    return compatibility.build_world(needs, hosts, each, reachability)


def tried(
    hosts: Sequence[HostSpec], each: Any, cut: Sequence[tuple[str, int, str]], needs: Requirements
) -> Reachability:
    targets = reach_targets(needs.master_addr, hosts, each)
    answers = [
        [["", "no answer in 3 s"] if (spec.name, port, name) in cut else [name, ""] for name, port, _ in theirs]
        for spec, theirs in zip(hosts, targets, strict=True)
    ]
    return Reachability(needs.master_addr, hosts, each, answers)


# ---- alone


def test_nothing_is_wrong_with_nodes_that_are_alike() -> None:
    assert alone(facts(1), facts(2), facts(3)) == []


@pytest.mark.parametrize(
    ("changes", "what", "fix"),
    [
        (
            {"no_workdir": "No such file or directory"},
            "cannot use the directory /w: no such file",
            compatibility.SYNC,
        ),
        ({"no_workdir": "Permission denied"}, "cannot use the directory /w: permission denied", "[host.n2]"),
        ({"script": ""}, "train.py not found in /w", compatibility.SYNC),
        ({"script": "d2"}, "its train.py differs from the one here", compatibility.SYNC),
        ({"no_tmp": "No space left on device"}, "cannot write to its directory /tmp: no space", "ssh n2 df /tmp"),
        (
            {"no_tmp": "Permission denied"},
            "cannot write to its directory /tmp: permission denied",
            "ssh n2 ls -ld /tmp, or use another TMPDIR there",
        ),
        (
            {"no_tmp": "Read-only file system"},
            "cannot write to its directory /tmp: read-only",
            "ssh n2 findmnt -T /tmp, or use another TMPDIR there",
        ),
        (
            {"no_tmp": f"every user {CAN_RENAME}"},
            "cannot use its directory /tmp: every user can rename what is in it",
            "ssh n2 ls -ld /tmp, or use another TMPDIR there",
        ),
        ({"python": "3.9.2"}, "/py is Python 3.9.2, on the other nodes 3.11.7", "[host.n2]"),
        (
            {"torch": {"version": "2.4.0+cu121"}},
            "has torch 2.4.0+cu121, the other nodes 2.5.1",
            "pip install torch==2.5.1",
        ),
        ({"torch": {"version": None}}, "/py cannot import torch", "ssh n2 /py -m pip install torch==2.5.1"),
        (
            {"torch": {"version": None, "sealed": True}},
            "/py cannot import torch",
            "~/torch-venv/bin/pip install torch==2.5.1, then its Python as python = ... under [host.n2] in ddpkit.toml",
        ),
        ({"torch": {"version": None, "problem": "it hung"}}, "/py cannot import torch: it hung", "torch==2.5.1"),
        ({"gpus": 1}, "2 ranks requested, and it has 1 visible GPUs", "-n 1"),
        ({"gpus": 1, "gpu_note": ONE_INSTANCE}, f"1 visible GPUs, one per rank ({ONE_INSTANCE})", "-n 1"),
        ({"no_gpus": "DDPKIT_GPUS=x is not an integer"}, "DDPKIT_GPUS=x", "unset DDPKIT_GPUS"),
        ({"machine": "m1"}, "is the same machine as n1", "list it once"),
    ],
)
def test_what_is_wrong_with_one_node(changes: dict[str, Any], what: str, fix: str) -> None:
    ((host, said, mend),) = alone(facts(1), facts(2, **changes), facts(3))
    assert host == "n2"
    assert what in said
    assert fix in mend


def test_a_version_that_a_node_made_up_is_one_word_of_a_command_there_and_here() -> None:
    evil = "2.5.1; touch pwned"
    nodes = [facts(1, torch={"version": evil}), facts(2), facts(3, torch={"version": evil})]
    ((_, _, fix),) = alone(*nodes)
    words = shlex.split(fix)
    assert words[:2] == ["ssh", "n2"]
    assert shlex.split(" ".join(words[2:]))[-1] == f"torch=={evil}"


def test_small_differences_are_none() -> None:
    assert alone(facts(1), facts(2, python="3.11.2", cpus=64, gpus=8)) == []


def test_of_two_opinions_the_first_host_has_the_right_one() -> None:
    ((host, what, _),) = alone(facts(1), facts(2, torch={"version": "2.4.0"}))
    assert (host, what) == ("n2", "/py has torch 2.4.0, the other nodes 2.5.1")


def test_without_a_copy_of_our_own_the_nodes_are_compared_with_each_other() -> None:
    needs = replace(NEEDS, digest="")
    ((host, what, _),) = alone(facts(1, script="d9"), facts(2), facts(3), needs=needs)
    assert (host, what) == ("n1", "its train.py differs from the one on the other nodes")


def test_no_torch_anywhere_matters_to_torchrun_alone() -> None:
    none = [facts(number, torch={"version": None}) for number in (1, 2)]
    assert [host for host, _, fix in alone(*none) if fix.endswith("pip install torch")] == ["n1", "n2"]
    assert alone(*none, needs=replace(NEEDS, starter="ranks")) == []
    assert alone(*[facts(number, torch=None) for number in (1, 2)], needs=replace(NEEDS, torch=False)) == []


def test_a_port_that_is_taken() -> None:
    taken = facts(1, port=None, no_port="Address already in use")
    ((host, what, fix),) = alone(taken, facts(2), needs=replace(NEEDS, master_port=29500))
    assert (host, what) == ("n1", "rank 0 cannot listen on port 29500: address already in use")
    assert "ss -ltnp" in fix
    assert "29500" in fix


def test_a_folder_that_is_not_here_either_is_not_to_be_copied() -> None:
    ((_, _, fix),) = alone(facts(1, no_workdir="No such file or directory"), needs=replace(NEEDS, local_workdir=False))
    assert fix == "workdir = DIR under [host.n1] in ddpkit.toml, or --workdir DIR"


# ---- together


def test_the_world_of_nodes_that_reach_each_other() -> None:
    world, problems, notes = together(facts(1), facts(2), facts(3))
    assert (problems, notes) == ([], {})
    assert (world.master_addr, world.master_port) == ("10.0.0.1", 24000)
    assert [(host.name, host.slots, dict(host.env)) for host in world.hosts] == [(f"n{n}", 2, {}) for n in (1, 2, 3)]


def test_loopback_is_nobodys_address() -> None:
    assert candidate_addresses(specs(1)[0], facts(1, own_name=["127.0.1.1", "::1", "fe80::1%eth0"])) == [
        "10.0.0.1",
        "n1",
    ]


def test_a_master_port_that_nobody_reaches_is_the_first_hosts() -> None:
    cut = [(who, 24000, to) for who in ("n2", "n3") for to in ("10.0.0.1", "n1")]
    world, (problem,), _ = together(facts(1), facts(2), facts(3), cut=cut)
    assert world is None
    assert problem.host == "n1"
    assert problem.what == "n2, n3 cannot reach its port 24000, rank 0's (10.0.0.1, n1: no answer in 3 s)"


def test_a_master_port_that_one_does_not_reach_is_that_ones() -> None:
    world, (problem,), _ = together(facts(1), facts(2), facts(3), cut=[("n3", 24000, "10.0.0.1"), ("n3", 24000, "n1")])
    assert world is None
    assert problem.host == "n3"
    assert "cannot reach port 24000 of n1" in problem.what


def test_a_master_port_that_its_own_host_does_not_reach() -> None:
    """Rank 0 connects to it like the others: a name of outside that leads the first host nowhere is a hang."""
    needs = replace(NEEDS, master_addr="10.5.5.5")
    world, (problem,), _ = together(facts(1), facts(2), cut=[("n1", 24000, "10.5.5.5")], needs=needs)
    assert world is None
    assert problem.host == "n1"
    assert "cannot reach its own port 24000, rank 0's (10.5.5.5: no answer in 3 s)" in problem.what


def test_an_address_that_all_reach_is_chosen() -> None:
    first = facts(1, addresses=[["ib0", "10.9.0.1"], ["eth0", "10.0.0.1"]], own_name=["10.9.0.1"])
    world, problems, _ = together(first, facts(2), facts(3), cut=[("n3", 24000, "10.9.0.1")])
    assert problems == []
    assert world.master_addr == "10.0.0.1"


def test_the_address_that_the_user_named_is_the_only_one() -> None:
    needs = replace(NEEDS, master_addr="10.5.5.5")
    world, (problem,), _ = together(facts(1), facts(2), cut=[("n2", 24000, "10.5.5.5")], needs=needs)
    assert world is None
    assert "(10.5.5.5: no answer in 3 s)" in problem.what


def test_high_ports_are_the_fault_of_who_is_not_reached() -> None:
    _, (problem,), _ = together(facts(1), facts(2), facts(3), cut=[("n2", 40003, "10.0.0.3"), ("n2", 40003, "n3")])
    assert problem.host == "n3"
    assert "n2 cannot reach its port 40003" in problem.what
    assert "32768-60999" in problem.fix


def test_own_names_that_mean_loopback_are_mended_for_gloo() -> None:
    world, _, notes = together(facts(1, own_name=["127.0.1.1"]), facts(2))
    assert [dict(host.env) for host in world.hosts] == [{"GLOO_SOCKET_IFNAME": "eth0"}, {}]
    (((check, text), hosts),) = notes.items()
    assert (check, hosts) == ("names", ["n1"])
    assert text.startswith("its own name n1 resolves to 127.0.1.1")


def test_dead_interfaces_are_kept_from_nccl_and_said_once() -> None:
    both = [facts(n, addresses=[["br-1", "172.17.0.1"], ["eth0", f"10.0.0.{n}"]]) for n in (1, 2)]
    cut = [(who, port, "172.17.0.1") for who in ("n1", "n2") for port in (24000, 40001, 40002)]
    world, _, notes = together(*both, cut=cut)
    assert [dict(host.env) for host in world.hosts] == [{"NCCL_SOCKET_IFNAME": "=eth0"}] * 2
    assert notes == {("interfaces", "the other nodes cannot reach it over br-1; NCCL uses eth0"): ["n1", "n2"]}


def test_nccl_leaves_docker_out_by_itself() -> None:
    one = facts(2, addresses=[["docker0", "172.17.0.1"], ["eth0", "10.0.0.2"]])
    world, _, notes = together(facts(1), one, cut=[("n1", 40002, "172.17.0.1")])
    assert notes == {}
    assert dict(world.hosts[1].env) == {}


@pytest.mark.parametrize("name", ["GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"])
def test_an_interface_of_the_user_that_leads_nowhere_is_named(name: str) -> None:
    both = [facts(n, addresses=[["docker0", "172.17.0.1"], ["eth0", f"10.0.0.{n}"]]) for n in (1, 2)]
    cut = [(who, port, "172.17.0.1") for who in ("n1", "n2") for port in (24000, 40001, 40002)]
    for value, said in (("docker0", True), ("eth0", False), ("docker1", False)):
        needs = replace(NEEDS, job=replace(JOB, env={name: value}))
        _, _, notes = together(*both, cut=cut, needs=needs)
        text = f"{name} is docker0, over which the other nodes cannot reach it; remove it, or --env {name}=eth0"
        assert notes == ({("interfaces", text): ["n1", "n2"]} if said else {})


@pytest.mark.parametrize("where", ["node", "job", "host"])
def test_an_interface_that_the_user_chose_stays(where: str) -> None:
    name, given = "GLOO_SOCKET_IFNAME", {"GLOO_SOCKET_IFNAME": "ib0"}
    lost = facts(1, own_name=["127.0.1.1"], set=[name] if where == "node" else [])
    needs = replace(NEEDS, job=replace(JOB, env=given)) if where == "job" else NEEDS
    first = HostSpec(name="n1", env=given if where == "host" else {})
    each, hosts = [lost, facts(2)], [first, HostSpec(name="n2")]
    world, _, notes = compatibility.build_world(needs, hosts, each, tried(hosts, each, (), needs))
    assert notes == {}
    assert world is not None
    assert world.hosts[0].env == (given if where == "host" else {})


def test_slots_are_the_hosts_own_then_those_of_all_then_its_gpus() -> None:
    def slots(spec: HostSpec, needs: Requirements, gpus: int) -> int:
        return compatibility.build_host(needs, spec, facts(1, gpus=gpus), {}).slots

    assert slots(HostSpec(name="n1", slots=5), NEEDS, 8) == 5
    assert slots(HostSpec(name="n1"), NEEDS, 8) == 2
    assert slots(HostSpec(name="n1"), replace(NEEDS, nproc_per_node=None), 8) == 8
    assert slots(HostSpec(name="n1"), replace(NEEDS, nproc_per_node=None), 0) == 1


# ---- the refusal


def test_a_refusal_is_one_block_with_every_host() -> None:
    problems = [Problem(host="n2", what="is off", fix="ping n2"), Problem(host="n2", what="is old", fix="new n2")]
    error = refusal([*problems, Problem(host="n4", what="is odd", fix="even n4")], 4)
    assert isinstance(error, PreflightError)
    assert error.message.splitlines() == [
        "2 of 4 nodes failed the checks, and nothing was started:",
        "  n2: is off",
        "    hint: ping n2",
        "  n2: is old",
        "    hint: new n2",
        "  n4: is odd",
        "    hint: even n4",
    ]
    forged = Problem(host="n1", what="x\x1b[2J\nhint: rm -rf ~", fix="ls 'a\nhint: b'")
    assert refusal([forged], 1).message.splitlines()[1:] == [
        "  n1: x hint: rm -rf ~",
        "    hint: ls 'a hint: b'",
    ]
    away = Problem(host="n1", what="is off", fix="ping", unreachable=True)
    assert isinstance(refusal([*problems, away], 4), LaunchError)


# ---- one node, one check


@pytest.mark.parametrize("check", compatibility.NODE_CHECKS)
def test_each_check_is_silent_about_a_good_node(check: Any) -> None:
    node = compatibility.Candidate(
        spec=specs(1)[0], facts=facts(1), requirements=NEEDS, python="3.11.7", torch="2.5.1", digest="d1"
    )
    assert check(node) is None


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"no_workdir": "No such file or directory"}, "workdir"),
        ({"script": "d2"}, "script"),
        ({"no_tmp": "No space left on device"}, "tmp"),
        ({"python": "3.9.2"}, "python"),
        ({"torch": None}, "torch"),
        ({"gpus": 1}, "gpus"),
        ({"no_port": "Address already in use"}, "master-port"),
    ],
)
def test_one_fault_is_one_checks_problem(changes: dict[str, Any], check: str) -> None:
    node = compatibility.Candidate(
        spec=specs(1)[0],
        facts=facts(1, **changes),
        requirements=NEEDS,
        python="3.11.7",
        torch="2.5.1",
        digest="d1",
    )
    problems = [problem for each in compatibility.NODE_CHECKS if (problem := each(node)) is not None]
    assert [problem.check for problem in problems] == [check]


def test_another_name_of_the_directory_is_offered_before_a_copy() -> None:
    """/home is a link to /export/home here, and the node has /home alone."""
    lost = facts(1, no_workdir="No such file or directory", workdir="/export/home/me")
    ((_, what, fix),) = alone(lost, needs=replace(NEEDS, other_workdir="/home/me"))
    assert what.endswith("no such file or directory; here it is /home/me as well, by a symbolic link")
    assert fix.startswith("--workdir /home/me; or add --sync")
