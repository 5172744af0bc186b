"""The refusal of a launch: one line for each host, and of very many hosts one for each problem, the rare ones first."""

from __future__ import annotations

from ddpkit.transports.hosts import Problem, refusal


def unreachable(host: str) -> Problem:
    return Problem(host=host, what=f"{host} refused the connection", fix=f"ssh {host} uptime", unreachable=True)


def test_few_hosts_have_a_line_each() -> None:
    words = refusal([unreachable("node1"), unreachable("node2")], 4).message
    assert words.splitlines()[1::2] == [
        "  node1: node1 refused the connection",
        "  node2: node2 refused the connection",
    ]


def test_many_hosts_are_told_by_their_problems() -> None:
    problems = [unreachable(f"node{number}") for number in range(1, 1000)]
    problems.append(Problem(host="node1000", what="the disk is full", fix="df -h"))
    words = refusal(problems, 1000).message.splitlines()
    assert words[0].startswith("1000 of 1000 nodes failed the checks")
    assert words[1:3] == ["  node1000: the disk is full", "    hint: df -h"]
    assert words[3:] == ["  node[1-999]: node1 refused the connection", "    hint: ssh node1 uptime"]
