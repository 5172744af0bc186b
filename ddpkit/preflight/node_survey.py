"""Enters named nodes, asks each what it is and whom it reaches; goes on with the good ones where some are bad."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ddpkit.launchers.plan import World
from ddpkit.preflight import causes, network_checks, node_checks
from ddpkit.preflight.check import Check
from ddpkit.preflight.env_checks import seen
from ddpkit.preflight.node import Node
from ddpkit.transports import compatibility
from ddpkit.transports.compatibility import Facts, Wish
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.pool import NodePool
from ddpkit.transports.problem import Problem
from ddpkit.transports.remote_nodes import check_own_address

HELLO_LIMIT = 7.0  # seconds for a node's Python to start; behind it come the ranks of the others, and 15 are for all
GATHER_LIMIT = 10.0  # seconds: nvidia-smi on a node with a hung driver
from_problem = causes.from_problem


@dataclass(kw_only=True)
class Met:
    """What came of it: the findings, and the world of those that are good."""

    hosts: list[str]
    checks: list[Check] = field(default_factory=list)
    world: World | None = None
    left_out: list[str] = field(default_factory=list)


def examine(fleet: NodePool, wish: Wish, *, smi: bool, progress: Callable[[str], None]) -> Met:
    """Ask everything that can be asked without starting a rank. Every stage goes on with the nodes that are left."""
    met = Met(hosts=[spec.label for spec in fleet.specs])
    progress(f"entering {len(fleet.specs)} nodes")
    _drop(fleet, met, fleet.connect(HELLO_LIMIT))
    met.checks += [Check(id="transport", status="pass", host=spec.label, evidence="entered") for spec in fleet.specs]
    progress("asking what they are")
    facts, silent = fleet.ask_facts(wish, fleet.scaled(GATHER_LIMIT))
    _drop(fleet, met, silent)
    more = _gather(fleet, wish, facts, met, smi=smi)
    specs = fleet.specs
    if not specs:
        return met
    met.checks += node_checks.judge([_node(fleet, wish, spec, facts[spec.label], more[spec.label]) for spec in specs])
    wrong = _told(wish, specs, more, compatibility.alone(wish, specs, [facts[spec.label] for spec in specs]))
    _passes(met, wish, specs, facts, wrong)
    met.checks += network_checks.names(specs, facts, more)
    _drop(fleet, met, wrong)
    _together(fleet, wish, facts, more, met, progress)
    return met


def _told(wish: Wish, specs: Sequence[HostSpec], more: Mapping[str, Facts], found: Sequence[Problem]) -> list[Problem]:
    """Problems, with what the facts of their nodes say of them."""
    target = {spec.label: spec.target for spec in specs}
    return [causes.with_facts(problem, more[problem.host], target[problem.host], wish.master_addr) for problem in found]


def _drop(fleet: NodePool, met: Met, wrong: Sequence[Problem]) -> None:
    met.checks += [from_problem(problem) for problem in wrong]
    bad = {problem.host for problem in wrong}
    met.left_out += [label for label in met.hosts if label in bad and label not in met.left_out]
    fleet.drop(bad)


def _gather(fleet: NodePool, wish: Wish, facts: dict[str, Facts], met: Met, *, smi: bool) -> dict[str, Any]:
    fleet.load_module_on_all("inventory")
    names = list(dict.fromkeys(facts[spec.label]["host"] for spec in fleet.specs))
    few = names if len(names) <= network_checks.FULL else names[:1]  # rank 0's at least
    few = list(dict.fromkeys([*few, *filter(None, [wish.master_addr])]))
    args = {
        spec.label: {
            "places": {
                "tmp": facts[spec.label]["tmp"],
                "shm": "/dev/shm",
                "workdir": facts[spec.label]["workdir"],
            },
            "names": few,
            "torch": (facts[spec.label]["torch"] or {}).get("place"),
            "smi": smi,
            "taken": wish.master_port if facts[spec.label]["no_port"] else None,
        }
        for spec in fleet.specs
    }
    more, silent = fleet.ask("gather", args, fleet.scaled(GATHER_LIMIT))
    _drop(fleet, met, silent)
    return more


def _node(fleet: NodePool, wish: Wish, spec: HostSpec, facts: Facts, more: Facts) -> Node:
    return Node(
        label=spec.label,
        target=spec.target,
        slots=spec.slots or wish.nproc_per_node or max(1, facts["gpus"]),
        look=facts,
        facts=more,
        behind=fleet.clock_offset(spec.label, more["time"]),
        env={**wish.job.env, **spec.env},
    )


def _passes(met: Met, wish: Wish, specs: Sequence[HostSpec], facts: dict[str, Facts], wrong: Sequence[Problem]) -> None:
    """What is good is evidence as well."""
    bad = {(problem.host, problem.check) for problem in wrong}
    for spec in specs:
        each = facts[spec.label]
        torch = (each["torch"] or {}).get("version")
        said = {
            "machine": "",
            "workdir": each["workdir"],
            "script": f"{wish.script}, SHA-256 {str(each['script'])[:12]}" if wish.script else None,
            "tmp": each["tmp"],
            "python": each["python"],
            "torch": f"torch {torch}" if torch else None,
        }
        for check, text in said.items():
            if text is None and (spec.label, check) not in bad:
                met.checks.append(Check(id=check, status="skip", host=spec.label, evidence="not asked for"))
            elif (spec.label, check) not in bad:
                met.checks.append(Check(id=check, status="pass", host=spec.label, evidence=text or ""))


def _together(
    fleet: NodePool,
    wish: Wish,
    facts: dict[str, Facts],
    more: Mapping[str, Facts],
    met: Met,
    progress: Callable[[str], None],
) -> None:
    """Who reaches whom. Where some do not, the world is made of those that do."""
    for _ in met.hosts:
        facts = _first_listens(fleet, wish, facts, met)
        specs = fleet.specs
        if not specs:
            return
        if specs[0].label != met.hosts[0]:
            wish = replace(wish, master_addr="")  # it means a node that is out
        each = [facts[spec.label] for spec in specs]
        if len(specs) == 1:
            silent, wrong = check_own_address(fleet, wish, facts)
            if silent or wrong:
                _drop(fleet, met, silent + _told(wish, specs, more, wrong))
                return
            only = compatibility.host(wish, specs[0], each[0], {})
            port = each[0]["port"] or wish.master_port
            met.world = World(hosts=(only,), master_addr=wish.master_addr or "127.0.0.1", master_port=port)
            return
        progress("trying who reaches whom")
        asked = network_checks.questions(wish, specs, each)
        answers, silent = fleet.probe_addresses({spec.label: one for spec, one in zip(specs, asked, strict=True)})
        _drop(fleet, met, silent)
        if silent:
            continue
        rows = [answers[spec.label] for spec in specs]
        met.world, apart, mended = network_checks.find(wish, specs, each, rows)
        matrix = network_checks.Matrix(wish, specs, each, rows)
        met.checks += network_checks.oddities(specs, each, matrix, mended)
        environ = {spec.label: seen(_node(fleet, wish, spec, facts[spec.label], more[spec.label])) for spec in specs}
        choices = list(network_checks.chosen(specs, each, matrix, environ))
        met.checks += choices
        apart = _told(wish, specs, more, apart)
        bad = {(problem.host, problem.check) for problem in apart}
        for spec in specs:
            for check in ("mesh", "master-port", "names", "interfaces"):
                known = (spec.label, check) in bad or any(
                    (found.host, found.id) == (spec.label, check) for found in met.checks
                )
                if not known and not (check == "master-port" and spec is not specs[0]):
                    met.checks.append(Check(id=check, status="pass", host=spec.label, evidence=_fine(check, each)))
        misled = {check.host for check in choices if check.status == "fail"} - {problem.host for problem in apart}
        if not apart and not misled:
            return
        _drop(fleet, met, apart)  # and once more, with the others
        met.left_out += misled
        fleet.drop(misled)


def _first_listens(fleet: NodePool, wish: Wish, facts: dict[str, Facts], met: Met) -> dict[str, Facts]:
    """Where the first node was left out, rank 0 is on another, which has not been asked for a port.

    Any port will do if that one is taken there: the launch that is tested does not want it on this node.
    """
    for port in (wish.master_port, 0):
        if fleet.specs and facts[fleet.specs[0].label].get("port") is None:
            first = fleet.specs[0].label
            told, silent = fleet.ask("listen", {first: {"port": port}}, fleet.scaled(5.0))
            _drop(fleet, met, silent)
            facts = {**facts, first: {**facts[first], **told.get(first, {})}}
    return facts


def _fine(check: str, facts: Sequence[Facts]) -> str:
    return f"port {facts[0]['port']}" if check == "master-port" else ""
