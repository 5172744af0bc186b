"""Checks from problems of nodes, with their causes. Pure."""

from __future__ import annotations

import shlex
from dataclasses import replace

from ddpkit.diagnosis.symptoms import PROBLEMS, find_symptom
from ddpkit.launchers.node_facts import NodeInventory
from ddpkit.preflight.check import Check
from ddpkit.transports.problem import Problem


def from_problem(problem: Problem) -> Check:
    """A problem, with its cause."""
    symptom = find_symptom(PROBLEMS.get(problem.check, ()), problem.what)
    return Check(
        id=problem.check,
        status="fail",
        host=problem.host,
        evidence=problem.what,
        cause=symptom.cause,
        fix=symptom.fix.format(host=problem.host) or problem.fix,
        doc=symptom.entry,
    )


def with_inventory(problem: Problem, inventory: NodeInventory, target: str, master: str) -> Problem:
    """Add details from a node's inventory to its problem. `master`: rank 0's address, as asked for."""
    owner, space = inventory["port_owner"], inventory["space"].get("tmp")
    if problem.check == "master-port" and owner and "cannot listen" in problem.what:
        what = f"{problem.what} by pid {owner['pid']} ({owner['command']}), user {owner['user']}"
        return replace(problem, what=f"{what}; by default ddpkit chooses a free port", fix="remove -o master_port")
    means = inventory["names"].get(master) if master else None
    elsewhere = isinstance(means, list) and means != [master]
    if problem.check == "master-port" and elsewhere and "cannot reach" in problem.what:
        return replace(problem, what=f"{problem.what}; {master} resolves to {', '.join(means or ())} on that node")
    full = problem.check == "tmp" and "no space left" in problem.what
    if full and space and space["inodes"] and not space["inodes_free"]:
        what = f"cannot write to its directory {space['folder']}: no inodes left, with {space['free'] >> 20} MiB free"
        return replace(problem, what=what, fix=f"ssh {target} df -i {shlex.quote(str(space['folder']))}")
    return problem
