"""Checks for SLURM nodes, from facts that one test rank per node reported. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddpkit.diagnosis.symptoms import find_symptom
from ddpkit.launchers.plan import Plan
from ddpkit.preflight import node_checks
from ddpkit.preflight.check import Check
from ddpkit.preflight.node import Node
from ddpkit.preflight.rank_program import DoneEvent, ProgramRun, ReportEvent
from ddpkit.transports.compatibility import most_common, torch_version
from ddpkit.transports.reachability import OPEN_PORTS


def check_slurm_nodes(run: ProgramRun, plan: Plan) -> list[Check]:
    """Checks of nodes, from their facts, and from the attempts of their ranks to reach each other."""
    reported = {event["look"]["host"]: event for event in run.node_facts}
    attempts = {event["host"]: event for event in run.done("mesh") if "host" in event}
    per_node = max(1, plan.world_size // max(1, len(reported)))
    isolated = isolated_hosts(run)
    nodes = [
        Node(
            label=host,
            target=host,
            slots=per_node,
            facts=event["look"],
            inventory=event["facts"],
            clock_offset=_clock_offset(attempts.get(host)),
            isolated=host in isolated,
        )
        for host, event in reported.items()
    ]
    checks = node_checks.check_nodes(nodes) if nodes else []
    return [*checks, *_check_versions(nodes), *_check_mesh(attempts, nodes)]


def isolated_hosts(run: ProgramRun) -> set[str]:
    """Return the hosts on which each rank sees only its own GPUs: `srun --gpus-per-task=1` with ConstrainDevices."""
    ranks: dict[str, list[ReportEvent]] = {}
    for event in run.reports:
        ranks.setdefault(event["host"], []).append(event)
    return {
        host
        for host, events in ranks.items()
        if len(events) > 1
        and all(0 < event["devices"] < len(events) for event in events)
        and len({event["identity"] for event in events}) == len(events)
    }


def _clock_offset(event: DoneEvent | None) -> tuple[float, float]:
    least, most = event["behind"] if event is not None and "behind" in event else (0.0, 0.0)
    return least, most


def _check_versions(nodes: Sequence[Node]) -> Iterator[Check]:
    torch = [str(torch_version(node.facts)) for node in nodes]
    for name, whole in (("python", [node.facts["python"] for node in nodes]), ("torch", torch)):
        # What is behind the second point of Python's version changes nothing between ranks.
        values = [each.rpartition(".")[0] if name == "python" else each for each in whole]
        usual = most_common(values)
        for node, value, shown in zip(nodes, values, whole, strict=True):
            if value == "None":
                evidence = "its Python cannot import torch"
                symptom = find_symptom("torch", evidence)
                fix = "-o setup='source venv/bin/activate', with the environment that has torch"
                yield node.check(name, "fail", evidence, cause=symptom.cause, fix=fix, doc=symptom.entry)
            elif value == usual:
                yield node.check(name, "pass", shown)
            else:
                evidence = f"has {name} {shown}, the others {usual}"
                symptom = find_symptom("ranks", evidence)
                yield node.check(
                    name,
                    "fail",
                    evidence,
                    cause=symptom.cause,
                    fix=f"use a shared environment on {node.label}: -o setup='source venv/bin/activate'",
                    doc=symptom.entry,
                )


def _check_mesh(attempts: Mapping[str, DoneEvent], nodes: Sequence[Node]) -> Iterator[Check]:
    addresses = {
        node.label: [address for _, address in node.facts["addresses"] if ":" not in address] for node in nodes
    }
    for host in attempts:
        cut = {
            other: event["errors"][host]
            for other, event in attempts.items()
            if host in event["errors"] and all(event["errors"][host].values())
        }
        if not cut:
            yield Check(id="mesh", status="pass", host=host)
            continue
        errors = next(iter(cut.values()))
        why = "; ".join(f"{address}: {error}" for address, error in errors.items())
        symptom = find_symptom("mesh", why)
        known = [addresses[other][0] for other in cut if addresses.get(other)]
        opens = f"ssh {host} sudo iptables -I INPUT -p tcp -s {','.join(known)} -j ACCEPT" if known else OPEN_PORTS
        yield Check(
            id="mesh",
            status="fail",
            host=host,
            evidence=f"{', '.join(cut)} cannot reach its high ports ({why})",
            cause=symptom.cause,
            fix=opens,
            doc=symptom.entry,
        )
