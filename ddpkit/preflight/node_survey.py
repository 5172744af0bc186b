"""Preflight of named nodes: enter each, check its facts and its connections; a stage continues with good nodes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ddpkit.diagnosis.symptoms import find_symptom
from ddpkit.launchers.node_facts import NodeFacts, NodeInventory
from ddpkit.launchers.plan import World
from ddpkit.preflight import network_checks, node_checks
from ddpkit.preflight.check import Check, Fault, Node, rank_environ
from ddpkit.transports.compatibility import Requirements, default_ranks, torch_version
from ddpkit.transports.hosts import HostSpec, Problem
from ddpkit.transports.pool import NodePool
from ddpkit.transports.reachability import MANY, Reachability, all_peers
from ddpkit.transports.survey import Connections, Survey


def from_problem(problem: Problem) -> Check:
    """Return the failed check of a problem, with its cause."""
    symptom = find_symptom(problem.check, problem.what)
    fix = symptom.fix.format(host=problem.host) or problem.fix
    return Fault("fail", problem.what, symptom.cause, fix, symptom.entry).of(problem.check, problem.host)


def with_inventory(problem: Problem, inventory: NodeInventory, target: str, master: str) -> Problem:
    """Add details from a node's inventory to its problem. `master`: rank 0's address, where the user gave one."""
    owner, space = inventory["port_owner"], inventory["space"].get("tmp")
    if problem.check == "master-port" and owner and "cannot listen" in problem.what:
        what = f"{problem.what} by pid {owner['pid']} ({owner['command']}), user {owner['user']}"
        return replace(problem, what=f"{what}; by default ddpkit chooses a free port", fix="remove -o master_port")
    addresses = inventory["names"].get(master) if master else None  # a text: why the name has none
    unreached = problem.check == "master-port" and "cannot reach" in problem.what
    if unreached and isinstance(addresses, list) and addresses != [master]:
        return replace(problem, what=f"{problem.what}; {master} resolves to {', '.join(addresses)} on that node")
    disk_full = problem.check == "tmp" and "no space left" in problem.what
    if disk_full and space and space["inodes"] and not space["inodes_free"]:
        what = f"cannot write to its directory {space['folder']}: no inodes left, with {space['free'] >> 20} MiB free"
        return replace(problem, what=what, fix=f"ssh {target} df -i {shlex.quote(str(space['folder']))}")
    return problem


HELLO_LIMIT = 7.0  # seconds for a node's Python to start; behind it come the ranks of the others, and 15 are for all
FACTS_LIMIT = 10.0  # seconds
GATHER_LIMIT = 45.0  # seconds: nvidia-smi on a node without persistence mode, or with a hung driver


@dataclass(kw_only=True)
class SurveyResult:
    """Checks of all nodes, and the world of the good ones."""

    hosts: list[str]
    checks: list[Check] = field(default_factory=list)
    world: World | None = None  # None: no nodes are left that reach each other
    left_out: list[str] = field(default_factory=list)  # labels of nodes with a problem


def survey_nodes(
    pool: NodePool, requirements: Requirements, *, smi: bool, progress: Callable[[str], None]
) -> SurveyResult:
    """Check everything that can be checked without a rank."""
    return _NodeSurvey(pool, requirements, progress).run(smi=smi)


class _NodeSurvey:
    def __init__(self, pool: NodePool, requirements: Requirements, progress: Callable[[str], None]) -> None:
        self._nodes = Survey(pool, requirements)
        self._pool = pool
        self._requirements = requirements
        self._progress = progress
        self._inventories: dict[str, NodeInventory] = {}
        self._result = SurveyResult(hosts=[spec.label for spec in pool.specs])

    def run(self, *, smi: bool) -> SurveyResult:
        """Take the steps in order. A node with a problem takes no part in the next one."""
        pool, result = self._pool, self._result
        self._progress(f"connecting to {len(pool.specs)} nodes")
        self._drop(pool.connect(HELLO_LIMIT))
        for spec in pool.specs:
            result.checks.append(Check(id="transport", status="pass", host=spec.label, evidence="connected"))
        self._progress("collecting facts of the nodes")
        self._drop(self._nodes.ask_facts(pool.scaled(FACTS_LIMIT)))
        self._gather_inventories(smi=smi)
        if not pool.specs:
            return result
        result.checks += node_checks.check_nodes([self._node(spec) for spec in pool.specs])
        problems = self._explained(self._nodes.check_nodes())
        self._pass_node_checks(problems)
        result.checks += network_checks.check_names(pool.specs, self._nodes.facts, self._inventories)
        self._drop(problems)
        self._connect()
        return result

    def _drop(self, problems: Sequence[Problem]) -> None:
        """Report problems, and go on without their nodes."""
        self._result.checks += [from_problem(problem) for problem in problems]
        self._leave_out({problem.host for problem in problems})

    def _leave_out(self, labels: set[str]) -> None:
        result = self._result
        result.left_out += [label for label in result.hosts if label in labels and label not in result.left_out]
        self._pool.drop(labels)

    def _explained(self, problems: Sequence[Problem]) -> list[Problem]:
        """Problems, with details from the inventories of their nodes."""
        target = {spec.label: spec.target for spec in self._pool.specs}
        master = self._requirements.master_addr
        return [
            with_inventory(problem, self._inventories[problem.host], target[problem.host], master)
            for problem in problems
        ]

    def _gather_inventories(self, *, smi: bool) -> None:
        """Ask each node for its inventory. `smi`: also what nvidia-smi says, which can take long."""
        pool, facts, requirements = self._pool, self._nodes.facts, self._requirements
        hosts = list(dict.fromkeys(facts[spec.label]["host"] for spec in pool.specs))
        # Names that each node resolves: all of a few nodes, of many that of rank 0 alone.
        names = [*(hosts if len(hosts) <= MANY else hosts[:1]), *filter(None, [requirements.master_addr])]
        args = {
            spec.label: {
                **inventory_args(facts[spec.label], smi=smi),
                "names": list(dict.fromkeys(names)),
                "taken": requirements.master_port if facts[spec.label]["no_port"] else None,
            }
            for spec in pool.specs
        }
        limit = GATHER_LIMIT if smi else FACTS_LIMIT
        self._inventories, silent = pool.ask("inventory.gather", args, pool.scaled(limit))
        self._drop(silent)

    def _node(self, spec: HostSpec) -> Node:
        """Return what checks of a node look at."""
        facts, inventory = self._nodes.facts[spec.label], self._inventories[spec.label]
        requirements = self._requirements
        return Node(
            label=spec.label,
            target=spec.target,
            slots=spec.slots or requirements.nproc_per_node or default_ranks(facts),
            facts=facts,
            inventory=inventory,
            clock_offset=self._pool.clock_offset(spec.label, inventory["time"]),
            env={**requirements.job.env, **spec.env},
        )

    def _pass_node_checks(self, problems: Sequence[Problem]) -> None:
        """Add the checks that nothing is wrong with: a pass is evidence as well."""
        bad = {(problem.host, problem.check) for problem in problems}
        script = self._requirements.script
        for spec in self._pool.specs:
            facts = self._nodes.facts[spec.label]
            version = torch_version(facts)
            evidence = {
                "machine": "",
                "workdir": facts["workdir"],
                "script": f"{script}, SHA-256 {str(facts['script'])[:12]}" if script else None,
                "tmp": facts["tmp"],
                "python": facts["python"],
                "torch": f"torch {version}" if version else None,
            }
            for check, text in evidence.items():
                if (spec.label, check) in bad:
                    continue
                if text is None:
                    new = Check(id=check, status="skip", host=spec.label, evidence="not requested")
                else:
                    new = Check(id=check, status="pass", host=spec.label, evidence=text)
                self._result.checks.append(new)

    def _connect(self) -> None:
        """Let the nodes try each other. Where some fail, those that are left try again, and make the world."""
        pool, result, nodes = self._pool, self._result, self._nodes
        for _ in result.hosts:  # each further try has at least one node less
            self._listen_on_first()
            if not pool.specs:
                return
            if pool.specs[0].label != result.hosts[0]:
                # The user's address of rank 0 means a node that was left out.
                self._requirements = nodes.requirements = replace(self._requirements, master_addr="")
            single = len(pool.specs) == 1
            if not single:
                self._progress("testing connections between nodes")
            connections = nodes.connect(all_peers)
            if connections.reachability is None:  # a single node, or silent ones
                bad = connections.silent + self._explained(connections.problems)
                self._drop(bad)
                if not single:
                    continue
                result.world = None if bad else connections.world
                return
            if self._check_connections(connections, connections.reachability):
                return

    def _check_connections(self, connections: Connections, reachability: Reachability) -> bool:
        """Check the network between the nodes, and leave out those with a fault. Returns whether none has one."""
        result, specs, facts = self._result, self._nodes.specs, self._nodes.list_facts()
        master = self._requirements.master_addr
        problems = network_checks.locate_problems(master, specs, facts, reachability, connections.problems)
        result.world = None if problems else connections.world
        result.checks += network_checks.check_workarounds(specs, facts, connections.workarounds)
        result.checks += network_checks.check_families(specs, reachability)
        environ = {spec.label: rank_environ(self._node(spec)) for spec in specs}
        chosen = list(network_checks.check_chosen_interfaces(specs, facts, reachability, environ))
        result.checks += chosen
        problems = self._explained(problems)
        self._pass_network_checks(specs, facts, problems)
        wrong_interface = {check.host for check in chosen if check.status == "fail"}
        wrong_interface -= {problem.host for problem in problems}
        if not problems and not wrong_interface:
            return True
        self._drop(problems)
        result.left_out += wrong_interface
        self._pool.drop(wrong_interface)
        return False

    def _pass_network_checks(
        self, specs: Sequence[HostSpec], facts: Sequence[NodeFacts], problems: Sequence[Problem]
    ) -> None:
        """Add the checks of the network that nothing is wrong with, and that no other result is about."""
        reported = {(problem.host, problem.check) for problem in problems}
        reported |= {(check.host, check.id) for check in self._result.checks}
        for spec in specs:
            for check in ("mesh", "master-port", "names", "interfaces"):
                if (spec.label, check) in reported or (check == "master-port" and spec is not specs[0]):
                    continue
                evidence = f"port {facts[0]['port']}" if check == "master-port" else ""
                self._result.checks.append(Check(id=check, status="pass", host=spec.label, evidence=evidence))

    def _listen_on_first(self) -> None:
        """Let the first node listen on rank 0's port, where the node that did was left out.

        Any port will do if that port is taken there: the launch that is tested does not want it on this node.
        """
        pool, facts = self._pool, self._nodes.facts
        for port in (self._requirements.master_port, 0):
            if pool.specs and facts[pool.specs[0].label]["port"] is None:
                first = pool.specs[0].label
                answers, silent = pool.ask("probe.listen", {first: {"port": port}}, pool.scaled(5.0))
                self._drop(silent)
                if first in answers:
                    facts[first] = {**facts[first], **answers[first]}


def inventory_args(facts: NodeFacts, *, smi: bool) -> dict[str, Any]:
    """The arguments of `inventory.gather` that follow from a node's facts."""
    return {
        "places": {"tmp": facts["tmp"], "shm": "/dev/shm", "workdir": facts["workdir"]},
        "torch": facts["torch"]["place"] if facts["torch"] else None,
        "smi": smi,
    }
